//! The search of section 3 of the paper, step by step, on a machine with scripted rates.

#![expect(clippy::float_cmp, reason = "the scripted machine's times are exact")]

mod common;

use common::{pinning, run, schedule, script, seconds};
use pinfold_core::Finding;
use pinfold_policy::{Candidates, Options, Times};

/// Two threads; the second of three pinnings is the best. 30 s a probe: 15 + 30 + (15 + 30) + (15 + 30) = 135 s.
const THREE: &str = r#"
    threads = 2
    duration = 240.0
    exit_status = 7
    [[phase]]
    start = 0.0
    rate = 100.0
    [[phase.pinning]]
    pus = "0,4"
    rate = 150.0
    [[phase.pinning]]
    pus = "0,2"
    rate = 120.0
"#;

/// The names and times of the steps.
fn steps(log: &common::Log) -> Vec<(f64, String)> {
    log.findings
        .iter()
        .filter_map(|(at, finding)| {
            let step = match finding {
                Finding::Initialising { .. } => "initialise".to_owned(),
                Finding::WarmingUp { candidate, .. } => format!("warm up {candidate}"),
                Finding::Probing { candidate, .. } => format!("probe {candidate}"),
                Finding::Probed { candidate, .. } => format!("probed {candidate}"),
                Finding::Chosen { candidate, .. } => format!("choose {candidate}"),
                Finding::Rate { .. } => "rate".to_owned(),
                _ => return None,
            };
            Some((*at, step))
        })
        .collect()
}

#[test]
fn the_steps_have_the_papers_order_and_default_times() {
    let (log, _) = run(THREE, schedule(&["0,1", "0,4", "0,2"]));
    let expected = [
        (0.0, "initialise"),
        (15.0, "probe 0"),
        (45.0, "probed 0"),
        (45.0, "warm up 1"),
        (60.0, "probe 1"),
        (90.0, "probed 1"),
        (90.0, "warm up 2"),
        (105.0, "probe 2"),
        (135.0, "probed 2"),
        (135.0, "choose 1"),
        (165.0, "rate"),
        (195.0, "rate"),
        (225.0, "rate"),
    ];
    assert_eq!(steps(&log), expected.map(|(at, step)| (at, step.to_owned())));
}

#[test]
fn threads_are_pinned_from_the_first_instruction_and_then_at_each_step() {
    let (log, _) = run(THREE, schedule(&["0,1", "0,4", "0,2"]));
    let mut applied: Vec<(f64, String)> = log
        .applied
        .iter()
        .map(|(at, configuration, _)| (*at, configuration.pinning.as_ref().unwrap().to_string()))
        .collect();
    // That a pinning is asked for again changes nothing.
    applied.dedup_by_key(|(_, pinning)| pinning.clone());
    let expected = [(0.0, "0,1"), (45.0, "0,4"), (90.0, "0,2"), (135.0, "0,4")];
    assert_eq!(applied, expected.map(|(at, pus)| (at, pus.to_owned())));
}

#[test]
fn a_pinning_is_asked_for_again_when_its_probe_and_each_line_begin() {
    // So that a thread that the machine left to itself at first is pinned when it counts.
    let (log, _) = run(THREE, schedule(&["0,1", "0,4", "0,2"]));
    let times: Vec<f64> = log.applied.iter().map(|(at, ..)| *at).collect();
    assert_eq!(times, [0.0, 15.0, 45.0, 60.0, 90.0, 105.0, 135.0, 165.0, 195.0, 225.0]);
}

#[test]
fn times_that_are_given_take_the_place_of_the_defaults() {
    let times = Times::new(Some(seconds(10.0)), Some(seconds(3.0)), Some(seconds(30.0)));
    let options = Options {
        times,
        ..schedule(&["0,1", "0,4"])
    };
    let (log, _) = run(THREE, options);
    let expected = [
        (30.0, "probe 0"),
        (40.0, "probed 0"),
        (40.0, "warm up 1"),
        (43.0, "probe 1"),
        (53.0, "probed 1"),
        (53.0, "choose 1"),
        (63.0, "rate"),
    ];
    assert_eq!(steps(&log)[1..8], expected.map(|(at, step)| (at, step.to_owned())));
}

#[test]
fn the_defaults_follow_from_t_as_in_the_paper() {
    let times = Times::new(Some(seconds(20.0)), None, None);
    assert_eq!((times.warm_up, times.initialise), (seconds(10.0), seconds(10.0)));
    let times = Times::new(None, Some(seconds(4.0)), None);
    assert_eq!((times.probe, times.initialise), (seconds(30.0), seconds(4.0)));
}

#[test]
fn the_rates_are_those_of_the_script_and_the_best_is_kept() {
    let (log, record) = run(THREE, schedule(&["0,1", "0,4", "0,2"]));
    let rates: Vec<f64> = log.probes().iter().map(|probe| probe.2.unwrap()).collect();
    for (rate, expected) in rates.iter().zip([100.0, 150.0, 120.0]) {
        assert!((rate - expected).abs() < 1.0 / 30.0, "{rate} instead of {expected}");
    }
    for (_, line) in log.lines() {
        assert!((line.unwrap() - 150.0).abs() < 1.0 / 30.0, "{line:?}");
    }
    let chosen = record.search.chosen.unwrap();
    assert_eq!((chosen.candidate, chosen.pus), (1, Some(pinning("0,4"))));
    assert!((chosen.gain_over_first.unwrap() - 0.5).abs() < 1e-3);
    assert!((chosen.gain_over_worst.unwrap() - 0.5).abs() < 1e-3);
    assert_eq!(record.program.exit_status, Some(7));
}

#[test]
fn a_rate_is_the_average_of_the_threads_and_not_their_sum() {
    let (log, _) = run(&THREE.replace("threads = 2", "threads = 8"), schedule(&["0-7"]));
    let rate = log.probes()[0].2.unwrap();
    assert!((rate - 100.0).abs() < 0.1, "{rate}");
}

#[test]
fn a_reading_is_taken_every_interval_and_gives_the_spread() {
    // So many steps that counting whole ones does not add to the spread.
    let text = "threads = 2\nduration = 200.0\nnoise = 0.05\n[[phase]]\nstart = 0.0\nrate = 1e6\n";
    let (log, record) = run(text, schedule(&["0,1", "0,4", "0,2"]));
    for pair in log.samples.windows(2) {
        let apart = (pair[1].at.checked_sub(pair[0].at)).unwrap();
        assert_eq!(apart, seconds(0.1), "at {:?}", pair[1].at);
    }
    for candidate in record.search.candidates {
        let spread = candidate.spread.unwrap();
        assert!((0.04..0.06).contains(&spread), "{spread}");
    }
}

#[test]
fn candidates_come_from_the_topology_for_the_threads_that_work() {
    let options = Options {
        candidates: Candidates::Topology { most: 4 },
        ..schedule(&["0"])
    };
    // Sharing an L3 costs a tenth for each neighbour, so two threads run best in two packages.
    let text = "
        threads = 2
        duration = 400.0
        [[phase]]
        start = 0.0
        rate = 100.0
        unpinned = 80.0
        llc_sharing = 0.9
    ";
    let (log, record) = run(text, options);
    assert_eq!(log.threads(), [(15.0, 2)]);
    let chosen = record.search.chosen.unwrap();
    let pus = chosen.pus.unwrap();
    assert_ne!(pus.pu(0).0 / 4, pus.pu(1).0 / 4, "{pus}");
    assert!((chosen.rate.unwrap() - 100.0).abs() < 0.1);
    // The first candidate is what ran already during the initialisation, the program as it is: it needs no warm-up.
    assert_eq!(log.probes()[0].0, 45.0);
}

#[test]
fn equal_candidates_leave_the_first() {
    let text = "threads = 2\nduration = 300.0\n[[phase]]\nstart = 0.0\nrate = 100.0\n";
    let (_, record) = run(text, schedule(&["0,1", "0,4", "0,2"]));
    assert_eq!(record.search.chosen.unwrap().candidate, 0);
}

#[test]
fn one_candidate_is_measured_and_kept() {
    let (log, _) = run(THREE, schedule(&["0,4"]));
    assert_eq!(log.choices(), [(45.0, 0)]);
    assert_eq!(log.lines()[0].0, 75.0);
}

#[test]
fn the_record_has_what_the_json_output_promises() {
    let (_, record) = run(THREE, schedule(&["0,1", "0,4", "0,2"]));
    let json = serde_json::to_value(&record).unwrap();
    for key in [
        "machine",
        "simulated",
        "machine_kind",
        "policy",
        "metric",
        "candidates",
        "chosen",
        "exit_status",
    ] {
        assert!(json.get(key).is_some(), "{key} is missing in {json:#}");
    }
    assert_eq!(json["simulated"], true);
    assert_eq!(json["machine_kind"], "simulated");
    assert_eq!(json["policy"], "autopin");
    assert_eq!(json["metric"]["name"], "scripted");
    assert_eq!(json["candidates"][1]["pus"], serde_json::json!([0, 4]));
    for key in ["pus", "rate", "spread"] {
        assert!(json["candidates"][0].get(key).is_some(), "{key}");
        assert!(json["chosen"].get(key).is_some(), "{key}");
    }
    assert_eq!(json["chosen"]["candidate"], 1);
    assert_eq!(json["exit_status"], 7);
}

#[test]
fn a_program_that_ends_during_the_search_leaves_what_was_learned() {
    // 15 + 30 + 15 + 20 s: the second probe has two thirds of its time.
    let text = THREE.replace("duration = 240.0", "duration = 80.0");
    let (log, record) = run(&text, schedule(&["0,1", "0,4", "0,2"]));
    let ended = record.program.ended_early.unwrap();
    assert_eq!(ended.best, Some(1));
    assert!((ended.rate.unwrap() - 150.0).abs() < 0.1);
    assert!(
        ended.why.contains("while 0,4 was measured") && ended.why.contains("2 of 3"),
        "{}",
        ended.why
    );
    assert_eq!(record.search.chosen, None);
    assert_eq!(record.search.candidates[2].rate, None);
    let measured = record.search.candidates[1].measured.unwrap();
    assert!((19.8..=20.0).contains(&measured), "{measured}");
    assert_eq!(log.ended, Some((80.0, 7)));
}

#[test]
fn a_program_that_ends_during_its_initialisation_is_told_the_rate_that_it_had_and_what_helps() {
    let text = THREE.replace("duration = 240.0", "duration = 3.0");
    let (_, record) = run(&text, schedule(&["0,1", "0,4"]));
    let ended = record.program.ended_early.unwrap();
    assert_eq!(ended.best, Some(0));
    assert!((ended.rate.unwrap() - 100.0).abs() < 0.5, "{ended:?}");
    assert_eq!(record.search.candidates[0].pus, Some(pinning("0,1")));
    assert_eq!(
        ended.why,
        "The program ended before a metric was chosen. It has 15.0s to initialise. Run it for longer, or measure for \
         shorter times: -t 100ms."
    );
    assert_eq!(record.program.exit_status, Some(7));
}

#[test]
fn a_script_is_played_the_same_each_time() {
    let text = THREE.replace("threads = 2", "threads = 2\nnoise = 0.05\nseed = 3");
    let (_, one) = run(&text, schedule(&["0,1", "0,4", "0,2"]));
    let (_, other) = run(&text, schedule(&["0,1", "0,4", "0,2"]));
    assert_eq!(one, other);
    let (_, another) = run(&text.replace("seed = 3", "seed = 4"), schedule(&["0,1", "0,4", "0,2"]));
    assert_ne!(one.search.candidates, another.search.candidates);
}

#[test]
fn a_good_choice_makes_a_given_amount_of_work_end_sooner() {
    let text = THREE.replace("duration = 240.0", "work = 240_000.0");
    let (found, _) = run(&text, schedule(&["0,1", "0,4"]));
    let (worst, _) = run(&text, schedule(&["0,1"]));
    // 1200 s at rate 100. The search spends 45 s at rate 100, the rest at 150.
    assert_eq!(worst.ended.unwrap().0.round(), 1200.0);
    assert_eq!(found.ended.unwrap().0.round(), 815.0);
    assert!(script(&text).parse::<pinfold_sim::Script>().is_ok());
}
