//! The policy `hints`, on scripted machines.

mod common;

use common::{Log, run_policy};
use pinfold_core::hint::AffinityHint;
use pinfold_core::{ChoiceCode, Finding, Pinning, SampleCode};
use pinfold_policy::{HintOptions, Hints, Known, MetricRequest, NoHintError, Skip, Times};
use std::collections::BTreeMap;

/// Two threads that are quicker together.
const SHARERS: &str = r#"
    threads = 2
    duration = 400.0
    [[phase]]
    start = 0.0
    rate = 100.0
    [[phase.pinning]]
    pus = "0,1"
    rate = 150.0
    [[metric]]
    name = "regions"
    unit = "region"
    source = "regions"
    scope = "program"
    per_step = 1.0
    [[metric]]
    name = "event:l3_misses"
    unit = "event"
    source = "event"
    scope = "task"
    per_step = 1000.0
"#;

fn options() -> HintOptions {
    HintOptions {
        times: Times::default(),
        metric: MetricRequest::Auto,
        skip: Skip::default(),
        threads: None,
        observe: Some(AffinityHint::DISTRIBUTED),
        known: BTreeMap::new(),
        rules: None,
        verify: true,
    }
}

/// Rules by which a program that misses more than `threshold` times by thread and second is to be packed.
fn packs_above(threshold: f64) -> HintOptions {
    let rules = format!(
        r#"{{
            "rule_policy": 1,
            "trained": {{"simulated": true, "machines": [], "programs": [], "rows": 1, "learner": "by hand"}},
            "metrics": [{{"name": "event:l3_misses", "unit": "1/s", "normalised": "per_thread_and_second"}}],
            "rules": [{{
                "conditions": [{{"metric": "event:l3_misses", "operator": ">=", "threshold": {threshold:?}}}],
                "class": "slp", "coverage": 1, "errors": 0
            }}],
            "default": {{"class": "SLP", "coverage": 1, "errors": 0}}
        }}"#
    );
    HintOptions {
        rules: Some(rules.parse().unwrap()),
        ..options()
    }
}

fn run(script: &str, options: HintOptions) -> Log {
    let (log, record) = run_policy(script, &mut Hints::new(options));
    assert_eq!(record.policy, "hints:rules");
    log
}

/// The pinnings that were applied, and when.
fn pinnings(log: &Log) -> Vec<(f64, String)> {
    let mut pinnings: Vec<(f64, String)> = vec![];
    for (at, configuration, _) in &log.applied {
        let pinning = Pinning::text(configuration.pinning.as_ref());
        if pinnings.last().is_none_or(|(_, last)| *last != pinning) {
            pinnings.push((*at, pinning));
        }
    }
    pinnings
}

fn samples(log: &Log) -> Vec<(f64, String, Option<f64>, Option<String>)> {
    let sampled = |(at, finding): &(f64, Finding)| match finding {
        Finding::Sampled {
            hint, observed, says, ..
        } => {
            let misses = observed.iter().find(|one| one.name == "event:l3_misses").unwrap();
            assert!(misses.unit.ends_with("per thread and second"), "{}", misses.unit);
            let text = |hint: &Option<AffinityHint>| hint.map(|hint| hint.to_string());
            Some((*at, text(hint).unwrap_or_default(), misses.value, text(says)))
        }
        _ => None,
    };
    log.findings.iter().filter_map(sampled).collect()
}

#[test]
fn a_new_program_starts_distributed_is_sampled_once_and_follows_the_rule() {
    let log = run(SHARERS, packs_above(9e4));
    let steps = [(0.0, "0,4,1,5,2,6,3,7"), (15.0, "0,4"), (45.0, "0,1")];
    assert_eq!(pinnings(&log), steps.map(|(at, pinning)| (at, pinning.to_owned())));
    let samples = samples(&log);
    assert_eq!(samples.len(), 2);
    let (at, hint, misses, says) = &samples[0];
    assert_eq!((*at, hint.as_str(), says.as_deref()), (45.0, "SLP", Some("slp")));
    assert!((misses.unwrap() - 1e5).abs() < 1.0, "{misses:?}");
    // After a warm-up the move is measured, and kept.
    assert_eq!(log.choices(), [(90.0, 1)]);
    assert_eq!(
        codes(&log),
        (vec![SampleCode::Rule, SampleCode::NotEvaluated], ChoiceCode::HintKept)
    );
    let rates: Vec<f64> = log.probes().iter().map(|probe| probe.2.unwrap().round()).collect();
    assert_eq!(rates, [200.0, 200.0, 300.0]);
}

#[test]
fn a_hint_that_is_not_verified_is_kept_after_one_sample() {
    let options = HintOptions {
        verify: false,
        ..packs_above(9e4)
    };
    let log = run(SHARERS, options);
    assert_eq!(pinnings(&log).last().unwrap(), &(45.0, "0,1".to_owned()));
    assert_eq!(log.choices(), [(45.0, 1)]);
    assert_eq!(codes(&log).1, ChoiceCode::HintNotVerified);
}

/// The codes of the samples, and that of the choice.
fn codes(log: &Log) -> (Vec<SampleCode>, ChoiceCode) {
    let findings = || log.findings.iter().map(|(_, finding)| finding);
    let sampled = |finding: &Finding| match finding {
        Finding::Sampled { code, .. } => Some(*code),
        _ => None,
    };
    let chosen = |finding: &Finding| match finding {
        Finding::Chosen { code, .. } => Some(*code),
        _ => None,
    };
    (
        findings().filter_map(sampled).collect(),
        findings().find_map(chosen).unwrap(),
    )
}

/// The same, observed where the operating system runs the program.
fn unpinned(options: HintOptions) -> HintOptions {
    HintOptions {
        observe: None,
        ..options
    }
}

#[test]
fn a_new_program_is_observed_unpinned_and_pinned_where_the_rule_says() {
    let log = run(SHARERS, unpinned(packs_above(9e4)));
    let steps = [(0.0, "unpinned"), (45.0, "0,1")];
    assert_eq!(pinnings(&log), steps.map(|(at, pinning)| (at, pinning.to_owned())));
    assert_eq!(log.choices(), [(90.0, 1)]);
    let samples = samples(&log);
    assert_eq!((samples[0].1.as_str(), samples[0].3.as_deref()), ("", Some("slp")));
    assert_eq!(samples[1].1, "slp");
}

#[test]
fn a_program_that_its_hint_does_not_make_faster_is_unpinned_again() {
    let log = run(
        &SHARERS.replace("rate = 150.0", "rate = 100.0"),
        unpinned(packs_above(9e4)),
    );
    assert_eq!(pinnings(&log).last().unwrap(), &(90.0, "unpinned".to_owned()));
    assert_eq!(log.choices(), [(90.0, 0)]);
    assert!(log.notes().iter().any(|note| note.contains("nothing is pinned")));
}

#[test]
fn without_a_rule_nothing_is_ever_pinned() {
    let log = run(SHARERS, unpinned(options()));
    assert_eq!(pinnings(&log), [(0.0, "unpinned".to_owned())]);
    assert_eq!(log.choices(), [(45.0, 0)]);
    assert_eq!(codes(&log), (vec![SampleCode::NoRules], ChoiceCode::SamplePlacement));
}

#[test]
fn a_program_that_is_known_to_be_best_left_alone_is() {
    let known = Known {
        hint: None,
        why: "an earlier run was faster so".to_owned(),
    };
    let options = HintOptions {
        known: BTreeMap::from([(2, known)]),
        ..packs_above(9e4)
    };
    let log = run(SHARERS, options);
    assert_eq!(pinnings(&log), [(0.0, "unpinned".to_owned())]);
}

#[test]
fn a_move_after_which_the_rate_is_lower_is_rolled_back() {
    let log = run(&SHARERS.replace("rate = 150.0", "rate = 80.0"), packs_above(9e4));
    let last = pinnings(&log).pop().unwrap();
    assert_eq!(last, (90.0, "0,4".to_owned()));
    assert_eq!(log.choices(), [(90.0, 0)]);
    assert_eq!(codes(&log).1, ChoiceCode::HintRolledBack);
    assert!(log.notes().iter().any(|note| note.contains("was rolled back")));
    // What was seen there is told all the same.
    assert_eq!(samples(&log)[1].1, "slp");
}

#[test]
fn a_program_for_which_no_rule_asks_for_another_place_stays() {
    for options in [packs_above(2e5), options()] {
        let log = run(SHARERS, options);
        assert_eq!(pinnings(&log).last().unwrap(), &(15.0, "0,4".to_owned()));
        assert_eq!(log.choices(), [(45.0, 0)]);
    }
}

#[test]
fn a_known_program_starts_in_its_best_placement_at_once() {
    let known = Known {
        hint: Some(AffinityHint::PACKED),
        why: "chosen by an earlier run".to_owned(),
    };
    let log = run(
        SHARERS,
        HintOptions {
            known: BTreeMap::from([(2, known.clone())]),
            ..packs_above(9e9)
        },
    );
    assert_eq!(pinnings(&log), [(0.0, "0,1".to_owned())]);
    assert_eq!(log.choices(), [(15.0, 0)]);
    // It is observed all the same, so that more is known the next time.
    assert_eq!(samples(&log).len(), 1);
    // What is known of another number of threads says nothing.
    let log = run(
        SHARERS,
        HintOptions {
            known: BTreeMap::from([(3, known.clone()), (4, known)]),
            ..options()
        },
    );
    assert_eq!(pinnings(&log).last().unwrap().1, "0,4");
}

#[test]
fn a_program_that_ends_while_it_is_sampled_has_the_rate_so_far_and_what_helps() {
    let (_, record) = run_policy(
        &SHARERS.replace("duration = 400.0", "duration = 40.0"),
        &mut Hints::new(unpinned(packs_above(9e4))),
    );
    let ended = record.program.ended_early.unwrap();
    assert_eq!(ended.best, Some(0));
    assert!((ended.rate.unwrap() - 200.0).abs() < 1.0, "{ended:?}");
    assert!(ended.why.contains("-t 1s"), "{}", ended.why);
}

#[test]
fn rules_that_do_not_speak_of_hints_are_refused() {
    let mut options = packs_above(1.0);
    let text = r#"{
        "rule_policy": 1,
        "trained": {"simulated": null, "machines": [], "programs": [], "rows": 1, "learner": ""},
        "metrics": [], "rules": [], "default": {"class": "packed", "coverage": 1, "errors": 0}
    }"#;
    options.rules = Some(text.parse().unwrap());
    let refused = NoHintError::check(options.rules.as_ref().unwrap())
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("`packed`") && refused.contains("pinfold learn train hints"),
        "{refused}"
    );
}
