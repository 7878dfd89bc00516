//! What happens to the rate after the choice.

mod common;

use std::fmt::Write;

use common::{run, schedule, watched};

/// `0,1` is the best until 200 s; then everything is slower and `0,4` is the best.
const PHASES: &str = r#"
    threads = 2
    duration = 700.0
    noise = 0.03
    [[phase]]
    start = 0.0
    rate = 1000.0
    [[phase.pinning]]
    pus = "0,1"
    rate = 1500.0
    [[phase]]
    start = 200.0
    rate = 1000.0
    [[phase.pinning]]
    pus = "0,4"
    rate = 1400.0
"#;

#[test]
fn a_fall_that_lasts_begins_a_new_search_that_finds_the_new_best() {
    let (log, record) = run(PHASES, watched(&["0,1", "0,4"]));
    assert_eq!(log.choices()[0], (90.0, 0));
    // The line at 210 s is two thirds of the old rate, those at 240, 270 and 300 s are low.
    assert_eq!(log.searches_again(), [300.0]);
    assert_eq!(log.choices()[1].1, 1);
    assert_eq!(record.search.chosen.unwrap().candidate, 1);
    assert_eq!(record.earlier_searches.len(), 1);
    assert_eq!(record.earlier_searches[0].chosen.as_ref().unwrap().candidate, 0);
}

#[test]
fn the_new_search_begins_with_the_pinning_in_force_which_is_warm_already() {
    let (log, _) = run(PHASES, watched(&["0,1", "0,4"]));
    let probes: Vec<(f64, usize)> = log.probes().iter().map(|probe| (probe.0, probe.1)).collect();
    assert_eq!(probes[2..], [(330.0, 0), (375.0, 1)]);
}

#[test]
fn without_the_watch_the_choice_stands_as_in_the_paper() {
    let (log, _) = run(PHASES, schedule(&["0,1", "0,4"]));
    assert_eq!(log.choices(), [(90.0, 0)]);
    assert!(log.searches_again().is_empty());
}

#[test]
fn a_single_candidate_is_never_searched_for_again() {
    let (log, _) = run(PHASES, watched(&["0,1"]));
    assert_eq!(log.choices().len(), 1);
}

/// A program whose rate falls to a tenth for two lines, again and again, whatever the pinning.
#[test]
fn dips_do_not_begin_a_new_search() {
    let mut text = "threads = 2\nduration = 1000.0\n".to_owned();
    text += "[[phase]]\nstart = 0.0\nrate = 1000.0\n[[phase.pinning]]\npus = \"0,1\"\nrate = 1500.0\n";
    for dip in [200, 400, 600, 800] {
        writeln!(text, "[[phase]]\nstart = {dip}.0\nrate = 100.0").unwrap();
        let end = dip + 40;
        writeln!(
            text,
            "[[phase]]\nstart = {end}.0\nrate = 1000.0\n[[phase.pinning]]\npus = \"0,1\"\nrate = 1500.0"
        )
        .unwrap();
    }
    let (log, _) = run(&text, watched(&["0,1", "0,4"]));
    assert!(log.lines().iter().any(|line| line.1.unwrap() < 500.0));
    assert!(log.searches_again().is_empty());
}

#[test]
fn a_fall_within_the_scatter_does_not_begin_a_new_search() {
    let text = r#"
        threads = 2
        duration = 3000.0
        noise = 0.6
        noise_correlation = 0.95
        [[phase]]
        start = 0.0
        rate = 1000.0
        [[phase.pinning]]
        pus = "0,1"
        rate = 2000.0
    "#;
    for seed in 0..10 {
        let (log, _) = run(&format!("seed = {seed}\n{text}"), watched(&["0,1", "0,4"]));
        assert!(log.searches_again().is_empty(), "seed {seed}");
    }
}

#[test]
fn a_program_at_rest_does_not_begin_a_new_search() {
    let text = "
        threads = 2
        duration = 1000.0
        [[phase]]
        start = 0.0
        rate = 1000.0
        [[phase]]
        start = 150.0
        rate = 1000.0
        idle = true
    ";
    let (log, _) = run(text, watched(&["0,1", "0,4"]));
    assert!(log.lines().iter().any(|line| line.1 == Some(0.0)));
    assert!(log.searches_again().is_empty());
}

#[test]
fn a_program_that_slows_down_steadily_is_searched_ever_more_seldom() {
    let mut text = "threads = 2\nduration = 9000.0\n".to_owned();
    let mut rate = 1e6;
    for step in 0..90 {
        writeln!(text, "[[phase]]\nstart = {}.0\nrate = {rate}", step * 100).unwrap();
        rate *= 0.93;
    }
    let (log, _) = run(&text, watched(&["0,1", "0,4"]));
    let searches = log.searches_again();
    // With three low lines each time there would be one in about 250 s.
    assert!((3..=7).contains(&searches.len()), "{searches:?}");
    let gaps: Vec<f64> = searches.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.last().unwrap() > &(2.0 * gaps[0]), "{gaps:?}");
}
