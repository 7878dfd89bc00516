//! Threads that are left to the operating system: what a search opens with, compares with, and goes back to.

mod common;

use common::{Log, run, schedule};
use pinfold_core::ChoiceCode;
use pinfold_policy::{Candidates, Options, Search};
use pinfold_runtime::Record;

fn from_topology() -> Options {
    Options {
        candidates: Candidates::Topology { most: 4 },
        ..schedule(&["0"])
    }
}

/// Two threads that are slowed down by a neighbour under their last-level cache, and run as fast as this where the
/// scheduler puts them.
fn program(unpinned: f64) -> String {
    format!(
        "threads = 2\nduration = 400.0\nnoise = 0.03\n\
         [[phase]]\nstart = 0.0\nrate = 1000.0\nunpinned = {unpinned:?}\nllc_sharing = 0.9\n"
    )
}

/// When something was pinned, by time.
fn pinned(log: &Log) -> Vec<(f64, bool)> {
    let applied = log.applied.iter();
    let mut pinned: Vec<(f64, bool)> = applied
        .map(|(at, configuration, _)| (*at, configuration.pinning.is_some()))
        .collect();
    pinned.dedup_by_key(|(_, pinned)| *pinned);
    pinned
}

fn chosen(record: &Record) -> (usize, bool) {
    let chosen = record.search.chosen.as_ref().unwrap();
    (chosen.candidate, chosen.pus.is_some())
}

#[test]
fn nothing_is_pinned_before_the_program_is_measured_as_it_is() {
    let (log, record) = run(&program(800.0), from_topology());
    assert_eq!(pinned(&log), [(0.0, false), (45.0, true)]);
    assert_eq!(record.search.candidates[0].pus, None);
    assert!((record.search.candidates[0].rate.unwrap() - 800.0).abs() < 10.0);
}

#[test]
fn a_pinning_that_is_better_is_kept_and_its_gain_is_over_the_program_as_it_was() {
    let (_, record) = run(&program(800.0), from_topology());
    let (candidate, pinned) = chosen(&record);
    assert!(candidate > 0 && pinned);
    let gain = record.search.chosen.unwrap().gain_over_first.unwrap();
    assert!((gain - 0.25).abs() < 0.02, "{gain}");
}

#[test]
fn threads_go_back_where_no_pinning_is_better() {
    for search in [Search::Exhaustive, Search::Racing] {
        let options = Options {
            search,
            ..from_topology()
        };
        let (log, record) = run(&program(1000.0), options);
        assert_eq!(chosen(&record), (0, false), "{search:?}");
        let (_, configuration, applied) = log
            .applied
            .iter()
            .rfind(|(.., applied)| !applied.moved.is_empty())
            .unwrap();
        assert_eq!((&configuration.pinning, applied.moved.len()), (&None, 2), "{search:?}");
    }
}

#[test]
fn a_gain_that_is_not_worth_the_schedulers_freedom_pins_nothing() {
    let steady = program(998.0).replace("noise = 0.03", "noise = 0.0001");
    let (_, record) = run(&steady, from_topology());
    assert_eq!(chosen(&record), (0, false));
    assert_eq!(record.search.chosen.unwrap().code, ChoiceCode::NoPinningBetter);
    let rates = record.search.candidates.iter().map(|candidate| candidate.rate.unwrap());
    assert!(rates.fold(0.0, f64::max) > 999.0);
}

#[test]
fn where_all_pinnings_are_alike_nothing_is_pinned() {
    let (log, record) = run(&program(500.0).replace("threads = 2", "threads = 1"), from_topology());
    assert_eq!(pinned(&log), [(0.0, false)]);
    assert_eq!(chosen(&record), (0, false));
    assert!(record.search.candidates_why.unwrap().contains("no pinning differs"));
}

#[test]
fn where_nothing_can_be_measured_nothing_is_pinned() {
    let text = program(500.0)
        + "[[metric]]\nname = \"heartbeat\"\nunit = \"heartbeat\"\nsource = \"heartbeat\"\nscope = \"program\"\n\
           missing = [[0.0, 1000.0]]\n";
    let (log, record) = run(&text, from_topology());
    assert_eq!(pinned(&log), [(0.0, false)]);
    assert_eq!(record.metric, None);
}

#[test]
fn where_the_program_could_not_be_measured_as_it_is_nothing_stays_pinned() {
    let text = program(500.0)
        + "[[metric]]\nname = \"scripted\"\nunit = \"step\"\nsource = \"scripted\"\nscope = \"task\"\n\
           missing = [[15.05, 45.1]]\n";
    let (_, record) = run(&text, from_topology());
    assert!(record.search.candidates[1].rate.is_some());
    assert_eq!(chosen(&record), (0, false));
}

#[test]
fn a_program_that_is_too_short_for_a_search_is_measured_as_it_is() {
    let (log, record) = run(&program(800.0).replace("400.0", "12.0"), from_topology());
    assert_eq!(pinned(&log), [(0.0, false)]);
    let ended = record.program.ended_early.unwrap();
    assert_eq!(record.search.candidates[0].pus, None);
    assert!((ended.rate.unwrap() - 800.0).abs() < 20.0, "{ended:?}");
    assert!(ended.why.contains("-t 550ms"), "{}", ended.why);
}

#[test]
fn a_program_of_a_moment_has_no_rate_and_is_told_to_run_for_longer() {
    let (_, record) = run(&program(800.0).replace("400.0", "0.05"), from_topology());
    let ended = record.program.ended_early.unwrap();
    assert_eq!((ended.best, ended.rate), (None, None));
    assert!(ended.why.ends_with("Run it for longer."), "{}", ended.why);
}

#[test]
fn pinnings_that_are_asked_for_are_in_force_from_the_start() {
    let (log, _) = run(&program(2000.0), schedule(&["0,1", "0,4"]));
    assert_eq!(pinned(&log), [(0.0, true)]);
}
