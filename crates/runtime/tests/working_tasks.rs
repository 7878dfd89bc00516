//! Which tasks get ranks, and what happens when they begin and end.

mod common;

use std::fmt::Write;

use common::{Log, run, schedule, watched};
use pinfold_policy::{Candidates, MetricRequest, Options};

/// The serials of the tasks that are left alone in the configuration that is in force at the end.
fn left_alone(log: &Log) -> Vec<u64> {
    let (_, configuration, _) = log.applied.last().unwrap();
    configuration.left_alone.iter().map(|id| id.serial).collect()
}

const RATES: &str = r#"
    [[phase]]
    start = 0.0
    rate = 100.0
    [[phase.pinning]]
    pus = "0,4"
    rate = 150.0
"#;

#[test]
fn a_helper_that_does_no_work_is_found_and_left_alone() {
    let text = format!("threads = 3\nhelpers = [1]\nduration = 200.0\n{RATES}");
    let (log, record) = run(&text, schedule(&["0,1", "0,4"]));
    assert_eq!(log.threads(), [(15.0, 2)]);
    assert_eq!(left_alone(&log), [1]);
    let chosen = record.search.chosen.unwrap();
    assert_eq!(chosen.candidate, 1);
    // The average is over the two that work.
    assert!((chosen.rate.unwrap() - 150.0).abs() < 0.1, "{chosen:?}");
}

#[test]
fn threads_that_move_when_a_helper_loses_its_rank_warm_up_before_the_first_probe() {
    let text = format!("threads = 3\nhelpers = [1]\nduration = 200.0\n{RATES}");
    let (log, _) = run(&text, schedule(&["0,1", "0,4"]));
    let ends: Vec<f64> = log.probes().iter().map(|probe| probe.0).collect();
    assert_eq!(ends, [60.0, 105.0]);
    // The last thread keeps its place when the helper was created after it.
    let (log, _) = run(&text.replace("[1]", "[2]"), schedule(&["0,1", "0,4"]));
    let ends: Vec<f64> = log.probes().iter().map(|probe| probe.0).collect();
    assert_eq!(ends, [45.0, 90.0]);
}

#[test]
fn the_user_names_tasks_to_leave_alone_by_serial_and_by_name() {
    let text = format!("threads = 2\nduration = 200.0\n[[thread]]\nname = \"omp-monitor-1\"\n{RATES}");
    for skip in ["2", "omp-mon*", "?mp*1"] {
        let options = Options {
            skip: skip.parse().unwrap(),
            ..schedule(&["0,1", "0,4"])
        };
        let (log, _) = run(&text, options);
        assert_eq!(left_alone(&log), [2], "{skip}");
        assert_eq!(log.threads(), [(15.0, 2)], "{skip}");
    }
}

#[test]
fn a_program_that_sleeps_is_waited_for_and_the_user_is_told_once() {
    let text = r#"
        threads = 2
        duration = 300.0
        [[phase]]
        start = 0.0
        rate = 100.0
        idle = true
        [[phase]]
        start = 100.0
        rate = 100.0
        [[phase.pinning]]
        pus = "0,4"
        rate = 150.0
    "#;
    let (log, record) = run(text, schedule(&["0,1", "0,4"]));
    let notes = log.notes();
    assert_eq!(notes.len(), 1);
    assert!(notes[0].contains("idle"), "{notes:?}");
    let (begins, threads) = log.threads()[0];
    assert!((100.0..=108.0).contains(&begins), "{begins}");
    assert_eq!(threads, 2);
    assert_eq!(record.search.chosen.unwrap().candidate, 1);
}

/// A server whose threads run for a thousandth of the time and report 40 heartbeats a second, 60 on CPUs 0 and 4.
const SERVER: &str = r#"
    threads = 2
    duration = 300.0
    [[metric]]
    name = "heartbeat"
    unit = "heartbeat"
    source = "heartbeat"
    scope = "program"
    [[phase]]
    start = 0.0
    rate = 20.0
    busy = 0.001
    [[phase.pinning]]
    pus = "0,4"
    rate = 30.0
"#;

#[test]
fn a_server_that_sleeps_between_its_heartbeats_is_measured_by_them() {
    let (log, record) = run(SERVER, schedule(&["0,1", "0,4"]));
    assert_eq!(log.notes(), Vec::<String>::new());
    assert_eq!(log.threads(), [(15.0, 2)]);
    let chosen = record.search.chosen.unwrap();
    assert_eq!(chosen.candidate, 1);
    assert!((chosen.rate.unwrap() - 60.0).abs() < 0.5, "{chosen:?}");
}

#[test]
fn a_fall_of_the_heartbeats_of_a_server_that_sleeps_begins_a_new_search() {
    let slower = "[[phase]]\nstart = 120.0\nrate = 10.0\nbusy = 0.001\n";
    let (log, _) = run(&format!("{SERVER}{slower}"), watched(&["0,1", "0,4"]));
    assert_eq!(log.searches_again().len(), 1);
}

#[test]
fn a_server_that_is_to_be_measured_by_something_else_is_idle() {
    let options = Options {
        metric: MetricRequest::Named("event:instructions".to_owned()),
        ..schedule(&["0,1", "0,4"])
    };
    let events = r#"
        [[metric]]
        name = "event:instructions"
        unit = "instruction"
        source = "event"
        scope = "task"
    "#;
    let (log, record) = run(&SERVER.replacen("[[phase]]", &format!("{events}[[phase]]"), 1), options);
    assert!(log.notes()[0].contains("idle"));
    assert_eq!(record.search.chosen, None);
}

#[test]
fn a_probe_during_which_a_thread_is_replaced_is_repeated() {
    // The second of three threads ends during the first probe, and another begins at once.
    let text = format!("threads = 2\nduration = 300.0\n[[thread]]\nends = 25.0\n[[thread]]\nbegins = 25.0\n{RATES}");
    let (log, record) = run(&text, schedule(&["0,1,2", "3,4,5"]));
    let probes: Vec<(f64, usize)> = log.probes().iter().map(|probe| (probe.0, probe.1)).collect();
    // 25 s, the change is seen, 15 s to warm up, 30 s to measure; then the next candidate.
    assert_eq!(probes[0].1, 0);
    assert!((probes[0].0 - 70.0).abs() < 0.2, "{probes:?}");
    assert!((probes[1].0 - 115.0).abs() < 0.2, "{probes:?}");
    assert_eq!(log.threads().len(), 1);
    assert!((record.search.candidates[0].rate.unwrap() - 100.0).abs() < 0.5);
}

#[test]
fn more_threads_that_stay_get_candidates_of_their_own() {
    let text = format!("threads = 2\nduration = 500.0\n[[thread]]\nbegins = 20.0\n[[thread]]\nbegins = 20.0\n{RATES}");
    let options = Options {
        candidates: Candidates::Topology { most: 3 },
        ..schedule(&["0"])
    };
    let (log, record) = run(&text, options);
    let threads: Vec<usize> = log.threads().iter().map(|&(_, threads)| threads).collect();
    assert_eq!(threads, [2, 4]);
    // Seen at 20 s, warmed up until 35 s, and still four threads at 65 s.
    assert!((log.threads()[1].0 - 65.0).abs() < 0.2, "{:?}", log.threads());
    assert_eq!(record.earlier_searches.len(), 1);
    assert_eq!(record.search.threads, Some(4));
    assert!(record.search.candidates_why.unwrap().contains("from 2 to 4"));
    assert!(record.search.chosen.is_some());
}

#[test]
fn a_thread_that_lives_shortly_does_not_begin_the_search_again() {
    let text = format!("threads = 2\nduration = 400.0\n[[thread]]\nbegins = 20.0\nends = 22.0\n{RATES}");
    let (log, record) = run(&text, schedule(&["0,1", "0,4"]));
    assert_eq!(log.threads(), [(15.0, 2)]);
    assert_eq!(record.search.chosen.unwrap().candidate, 1);
}

#[test]
fn a_thread_that_begins_to_work_during_the_search_gets_a_rank() {
    let text = format!("threads = 2\nduration = 600.0\n[[thread]]\nworks_from = 30.0\n{RATES}");
    let (log, _) = run(&text, schedule(&["0,1,2", "0,4,5"]));
    let threads: Vec<usize> = log.threads().iter().map(|&(_, threads)| threads).collect();
    assert_eq!(threads, [2, 3]);
    assert!(left_alone(&log).is_empty());
}

#[test]
fn a_change_of_the_number_of_threads_after_the_choice_begins_a_new_search() {
    let text = format!("threads = 2\nduration = 600.0\n[[thread]]\nbegins = 200.0\n{RATES}");
    let (log, _) = run(&text, watched(&["0,1", "0,4"]));
    let threads: Vec<usize> = log.threads().iter().map(|&(_, threads)| threads).collect();
    assert_eq!(threads, [2, 3]);
    assert_eq!(log.choices().len(), 2);
}

#[test]
fn threads_that_come_and_go_all_the_time_do_not_keep_the_search_from_ending() {
    let mut text = "threads = 2\nduration = 600.0\n".to_owned();
    for second in 0..600 {
        writeln!(text, "[[thread]]\nbegins = {second}.25\nends = {second}.75").unwrap();
    }
    text += RATES;
    let (log, record) = run(&text, watched(&["0,1,2", "4,5,6"]));
    let restless: Vec<String> = log
        .notes()
        .into_iter()
        .filter(|note| note.contains("all the time"))
        .collect();
    assert_eq!(restless.len(), 1);
    assert!(record.search.chosen.is_some());
    for candidate in record.search.candidates {
        // The third thread adds half of its rate to the sum over two or three.
        let rate = candidate.rate.unwrap();
        assert!((80.0..130.0).contains(&rate), "{rate}");
    }
}

#[test]
fn more_threads_than_pus_share_them_and_the_user_is_told_once() {
    let text = format!("threads = 20\nduration = 300.0\n{RATES}");
    let options = Options {
        candidates: Candidates::Topology { most: 3 },
        ..schedule(&["0"])
    };
    let (log, record) = run(&text, options);
    let notes = log.notes();
    assert_eq!(notes, ["20 threads share 8 CPUs: there are fewer CPUs than threads."]);
    assert!(record.search.chosen.is_some());
}

#[test]
fn the_number_of_threads_that_the_user_gives_is_kept() {
    let text = format!("threads = 2\nduration = 300.0\n{RATES}");
    let options = Options {
        candidates: Candidates::Topology { most: 3 },
        threads: Some(4),
        ..schedule(&["0"])
    };
    let (log, record) = run(&text, options);
    assert_eq!(log.threads(), [(15.0, 4)]);
    for candidate in &record.search.candidates[1..] {
        assert_eq!(candidate.pus.as_ref().unwrap().pus().len(), 4);
    }
}

#[test]
fn a_refusal_is_told_once() {
    let text = format!("threads = 2\nduration = 300.0\nrefused = \"7\"\n{RATES}");
    let (log, record) = run(&text, schedule(&["0,1", "6,7", "5,7"]));
    let refusals: usize = log.applied.iter().map(|(_, _, applied)| applied.refused.len()).sum();
    assert!(refusals > 1);
    assert_eq!(log.refused.len(), 1);
    assert!(log.refused[0].why.contains("CPU 7"));
    assert_eq!(record.refused, log.refused);
}

/// One thread until second 52, four from then on, for which another pinning than the first is the best.
const PARALLEL_LATE: &str = r#"
    threads = 1
    duration = 600.0
    [[phase]]
    start = 0.0
    rate = 100.0
    [[phase.pinning]]
    pus = "0,4,1,5"
    rate = 150.0
    [[thread]]
    begins = 52.0
    [[thread]]
    begins = 52.0
    [[thread]]
    begins = 52.0
"#;

#[test]
fn a_program_that_goes_parallel_after_a_lone_candidate_was_chosen_is_searched_for() {
    let options = Options {
        candidates: Candidates::Topology { most: 8 },
        ..watched(&[])
    };
    let (_, record) = run(PARALLEL_LATE, options);
    assert_eq!(record.earlier_searches[0].candidates.len(), 1);
    assert_eq!(record.search.threads, Some(4));
    let chosen = record.search.chosen.unwrap();
    assert!((chosen.rate.unwrap() - 150.0).abs() < 0.1, "{chosen:?}");
}

#[test]
fn candidates_that_were_measured_with_other_numbers_of_threads_are_not_compared() {
    let options = Options {
        threads: Some(4),
        ..schedule(&["0,1,2,3", "0,4,1,5"])
    };
    let (_, record) = run(PARALLEL_LATE, options);
    let chosen = record.search.chosen.unwrap();
    assert_eq!(chosen.candidate, 1, "{chosen:?}");
    assert!((chosen.rate.unwrap() - 150.0).abs() < 0.1, "{chosen:?}");
}

#[test]
fn a_number_of_threads_beyond_all_bounds_ends_nothing() {
    let options = Options {
        threads: Some(usize::MAX),
        ..schedule(&["0,1", "0,4"])
    };
    let text = format!("threads = 2\nduration = 200.0\n{RATES}");
    let (_, record) = run(&text, options);
    assert_eq!(record.search.chosen.unwrap().candidate, 1);
}
