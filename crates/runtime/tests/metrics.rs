//! Which metric decides, and what happens to counts that are missing.

mod common;

use common::{Log, run, run_policy, schedule};
use pinfold_core::{CandidatesCode, Finding};
use pinfold_policy::{Fixed, Kept, MetricRequest, Options, Skip, Times};

const RATES: &str = r#"
    threads = 2
    duration = 400.0
    [[phase]]
    start = 0.0
    rate = 100.0
    [[phase.pinning]]
    pus = "0,4"
    rate = 150.0
"#;

fn metric(name: &str, unit: &str, source: &str, scope: &str, rest: &str) -> String {
    format!("[[metric]]\nname = \"{name}\"\nunit = \"{unit}\"\nsource = \"{source}\"\nscope = \"{scope}\"\n{rest}\n")
}

/// The metrics that were chosen, with the reasons.
fn chosen(log: &Log) -> Vec<(Option<String>, String)> {
    let chosen = |(_, finding): &(f64, Finding)| match finding {
        Finding::MetricChosen { metric, why, .. } => Some((metric.clone(), why.clone())),
        _ => None,
    };
    log.findings.iter().filter_map(chosen).collect()
}

fn regions(rest: &str) -> String {
    metric("regions", "region", "regions", "program", rest)
}

fn instructions(rest: &str) -> String {
    metric("event:instructions", "instruction", "event", "task", rest)
}

#[test]
fn progress_of_the_application_is_preferred_to_retired_instructions() {
    let text = format!("{RATES}{}{}", instructions("per_step = 1e6"), regions("per_step = 0.1"));
    let (log, record) = run(&text, schedule(&["0,1", "0,4"]));
    assert_eq!(chosen(&log)[0].0.as_deref(), Some("regions"));
    // A metric of the program is not divided by its threads: 2 threads, 150 steps, a tenth of a region each.
    let rate = record.search.chosen.unwrap().rate.unwrap();
    assert!((rate - 30.0).abs() < 0.1, "{rate}");
}

#[test]
fn a_source_that_counted_nothing_is_passed_over_and_the_reason_says_so() {
    let text = format!(
        "{RATES}{}{}{}",
        metric("heartbeat", "heartbeat", "heartbeat", "program", "per_step = 0.0"),
        regions("missing = [[0.0, 1000.0]]"),
        instructions("per_step = 1e6")
    );
    let (log, _) = run(&text, schedule(&["0,1", "0,4"]));
    let (name, why) = chosen(&log)[0].clone();
    assert_eq!(name.as_deref(), Some("event:instructions"));
    assert!(
        why.contains("`heartbeat` counted nothing")
            && why.contains("the program has no parallel regions that the agent sees"),
        "{why}"
    );
}

#[test]
fn a_metric_with_too_few_counts_in_a_probe_is_passed_over_while_there_is_a_better() {
    // 200 steps a second: a region every 10 s.
    let few = regions("per_step = 0.0005");
    let (log, _) = run(
        &format!("{RATES}{few}{}", instructions("per_step = 1e6")),
        schedule(&["0,1", "0,4"]),
    );
    assert_eq!(chosen(&log)[0].0.as_deref(), Some("event:instructions"));
    assert!(chosen(&log)[0].1.contains("too seldom"), "{:?}", chosen(&log));
}

#[test]
fn the_same_program_is_measured_by_the_same_metric_whatever_the_load_of_the_machine() {
    // A region has four barriers. Alone, regions count 15 times in a probe; beside another program, 7, 4 or 3 times,
    // and not at all at the end of the initialisation.
    for (per_step, busy) in [(0.0025, 1.0), (0.0012, 1.0), (0.0006, 0.25), (0.0005, 0.25)] {
        let text = format!(
            "threads = 2\nduration = 400.0\n[[phase]]\nstart = 0.0\nrate = 100.0\nbusy = {busy:?}\n{}{}",
            regions(&format!("per_step = {per_step}")),
            metric(
                "barriers",
                "barrier",
                "barriers",
                "program",
                &format!("per_step = {}", 4.0 * per_step)
            ),
        );
        let (log, _) = run(&text, schedule(&["0,1", "0,4"]));
        assert_eq!(chosen(&log)[0].0.as_deref(), Some("regions"), "{per_step} {busy}");
    }
}

#[test]
fn a_coarse_metric_is_better_than_none_and_the_user_is_told() {
    // 200 steps a second: a region every 5 s, 6 in a probe.
    let (log, record) = run(
        &format!("{RATES}{}", regions("per_step = 0.001")),
        schedule(&["0,1", "0,4"]),
    );
    let (name, why) = chosen(&log)[0].clone();
    assert_eq!(name.as_deref(), Some("regions"));
    assert!(why.contains("coarse"), "{why}");
    assert_eq!(record.search.chosen.unwrap().candidate, 1);
}

#[test]
fn auto_takes_no_uprobe_and_no_event_but_instructions() {
    let text = format!(
        "{RATES}{}{}",
        metric("uprobe:f", "call", "uprobe", "program", ""),
        metric("event:task-clock", "nanosecond", "event", "task", "")
    );
    let (log, _) = run(&text, schedule(&["0,1", "0,4"]));
    assert_eq!(chosen(&log)[0].0, None);
    let options = Options {
        metric: MetricRequest::Named("uprobe:f".to_owned()),
        ..schedule(&["0,1", "0,4"])
    };
    let (log, _) = run(&text, options);
    assert_eq!(chosen(&log)[0].0.as_deref(), Some("uprobe:f"));
}

#[test]
fn a_named_metric_that_counts_nothing_is_explained() {
    let options = Options {
        metric: MetricRequest::Named("regions".to_owned()),
        ..schedule(&["0,1", "0,4"])
    };
    let text = format!("{RATES}{}{}", regions("per_step = 0.0"), instructions(""));
    let (log, record) = run(&text, options);
    assert_eq!(
        chosen(&log),
        [(
            None,
            "`regions` was asked for but has counted nothing so far".to_owned()
        )]
    );
    assert_eq!(record.metric, None);
}

#[test]
fn without_any_source_the_program_runs_on_pinned_by_the_first_candidate() {
    let text = format!("metric = []\n{RATES}");
    let (log, record) = run(&text, schedule(&["0,1", "0,4"]));
    assert_eq!(chosen(&log), [(None, "there is no source of counts".to_owned())]);
    for (_, configuration, _) in &log.applied {
        assert_eq!(configuration.pinning, Some(common::pinning("0,1")));
    }
    assert_eq!((record.metric, record.search.chosen), (None, None));
    assert!(log.lines().is_empty());
}

#[test]
fn a_metric_that_begins_to_count_late_is_used_from_then_on() {
    // No region can be read before 70 s; looks are taken at 15, 45, 75 and 105 s.
    let text = format!("{RATES}{}", regions("per_step = 0.1\nmissing = [[0.0, 70.0]]"));
    let (log, record) = run(&text, schedule(&["0,1", "0,4"]));
    let names: Vec<Option<String>> = chosen(&log).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, [None, Some("regions".to_owned())]);
    assert_eq!(record.search.chosen.unwrap().candidate, 1);
}

#[test]
fn readings_that_are_missing_are_skipped_and_do_not_lower_the_rate() {
    // The second half of the first probe and the first of the second cannot be read.
    let text = format!("{RATES}{}", instructions("missing = [[30.0, 65.0]]"));
    let (_, record) = run(&text, schedule(&["0,1", "0,4"]));
    let candidates = &record.search.candidates;
    assert!((candidates[0].rate.unwrap() - 100.0).abs() < 0.2, "{candidates:?}");
    assert!((candidates[1].rate.unwrap() - 150.0).abs() < 0.2, "{candidates:?}");
    let measured: Vec<f64> = candidates.iter().map(|one| one.measured.unwrap().round()).collect();
    assert_eq!(measured, [15.0, 25.0]);
}

#[test]
fn a_probe_without_a_reading_has_no_rate_and_is_not_chosen() {
    // The whole second probe, from 60 to 90 s, cannot be read.
    let text = format!("{RATES}{}", instructions("missing = [[50.0, 100.0]]"));
    let (_, record) = run(&text, schedule(&["0,1", "0,4", "0,2"]));
    assert_eq!(record.search.candidates[1].rate, None);
    assert_eq!(record.search.chosen.unwrap().candidate, 0);
}

#[test]
fn when_no_probe_can_be_read_the_first_candidate_is_kept_and_the_user_is_told() {
    let text = format!("{RATES}{}", instructions("missing = [[15.1, 1000.0]]"));
    let (log, record) = run(&text, schedule(&["0,1", "0,4"]));
    assert_eq!(record.search.chosen, None);
    assert_eq!(
        log.notes(),
        ["No candidate's rate could be measured; the first is kept: 0,1."]
    );
    let last = log.applied.last().unwrap().1.pinning.as_ref().unwrap();
    assert_eq!(last.to_string(), "0,1");
    assert_eq!(log.lines()[0].1, None);
}

#[test]
fn a_metric_that_the_machine_does_not_have_is_named_with_the_nearest() {
    let metrics = common::scripted(&common::script(&format!("{RATES}{}", regions(""))));
    let known = pinfold_core::Machine::metrics(&metrics);
    let error = MetricRequest::Named("region".to_owned()).check(known).unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no metric `region` (did you mean `regions`?); there are: regions"
    );
    assert!(MetricRequest::Auto.check(known).is_ok());
}

#[test]
fn the_baselines_only_measure() {
    for (pinning, name, rate) in [(Some(common::pinning("0,4")), "fixed", 150.0), (None, "none", 100.0)] {
        let mut policy = Fixed::new(
            pinning.clone().map_or(Kept::Nothing, |pinning| {
                Kept::Pinning(pinning, CandidatesCode::Schedule)
            }),
            Times::default(),
            MetricRequest::Auto,
            Skip::default(),
        );
        let (log, record) = run_policy(RATES, &mut policy);
        assert_eq!(record.policy, name);
        for (_, configuration, _) in &log.applied {
            assert_eq!(configuration.pinning, pinning);
        }
        let times: Vec<f64> = log.lines().iter().map(|line| line.0).collect();
        assert_eq!(times[..3], [45.0, 75.0, 105.0]);
        for (_, line) in log.lines() {
            assert!((line.unwrap() - rate).abs() < 0.1, "{name}: {line:?}");
        }
    }
}

#[test]
fn a_hint_is_followed_for_the_threads_that_work() {
    let hinted = |hint: &str, threads| {
        let kept = Kept::Placement {
            policy: "hint",
            placement: hint.parse().unwrap(),
            threads,
        };
        let mut policy = Fixed::new(kept, Times::default(), MetricRequest::Auto, Skip::default());
        run_policy(RATES, &mut policy)
    };
    let pinnings = |log: &common::Log| -> Vec<String> {
        let pinnings = log
            .applied
            .iter()
            .map(|(_, configuration, _)| configuration.pinning.clone());
        let mut pinnings: Vec<String> = pinnings.map(|pinning| pinning.unwrap().to_string()).collect();
        pinnings.dedup();
        pinnings
    };
    // On all cores until it is known that two threads work, the first ranks together or apart.
    let (log, record) = hinted("slp", None);
    assert_eq!(record.policy, "hint");
    assert_eq!(pinnings(&log), ["0-7", "0,1"]);
    assert_eq!(log.threads(), [(15.0, 2)]);
    assert_eq!(pinnings(&hinted("SLP", None).0), ["0,4,1,5,2,6,3,7", "0,4"]);
    let (log, _) = hinted("SLP", Some(2));
    assert_eq!(pinnings(&log), ["0,4"]);
    assert_eq!(log.threads(), [(0.0, 2)]);
}
