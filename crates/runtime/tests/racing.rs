//! `--search racing` against the paper's search, which gives each candidate its full time.

mod common;

use common::{Log, pinning, run, schedule};
use pinfold_policy::{Options, Search};
use pinfold_runtime::Record;
use std::fmt::Write;

const PINNINGS: [&str; 8] = ["0,1", "0,2", "0,3", "0,4", "1,5", "2,6", "3,7", "4,5"];

/// A program of two threads with these rates under the eight pinnings, which recovers from a re-pinning with a time
/// constant of 1.5 s.
fn script(head: &str, rates: &[f64; 8]) -> String {
    let mut text = format!("{head}\nthreads = 2\nwarm_up = 1.5\ncold = 0.4\n");
    if !head.contains("duration") {
        text += "duration = 500.0\n";
    }
    text += "[[phase]]\nstart = 0.0\nrate = 1.0\n";
    for (pus, rate) in PINNINGS.iter().zip(rates) {
        writeln!(text, "[[phase.pinning]]\npus = \"{pus}\"\nrate = {rate}").unwrap();
    }
    text
}

/// Rates of which one is the highest and the others are lower by a fifth.
fn one_best(best: usize) -> [f64; 8] {
    let mut rates = [8000.0; 8];
    rates[best] = 10_000.0;
    rates
}

fn raced(text: &str) -> (Log, Record) {
    let options = Options {
        search: Search::Racing,
        ..schedule(&PINNINGS)
    };
    run(text, options)
}

fn choice(record: &Record) -> usize {
    record.search.chosen.as_ref().unwrap().candidate
}

#[test]
fn racing_finds_the_same_with_a_third_of_the_time_in_worse_pinnings() {
    let (mut raced_seconds, mut full_seconds) = (0.0, 0.0);
    for (best, pus) in PINNINGS.iter().enumerate() {
        for seed in [2 * best, 2 * best + 1] {
            let text = script(&format!("noise = 0.03\nseed = {seed}"), &one_best(best));
            let (full_log, full) = run(&text, schedule(&PINNINGS));
            let (raced_log, raced) = raced(&text);
            assert_eq!((choice(&full), choice(&raced)), (best, best), "seed {seed}");
            full_seconds += full_log.seconds_not_in(&pinning(pus));
            raced_seconds += raced_log.seconds_not_in(&pinning(pus));
        }
    }
    assert!(
        raced_seconds * 3.0 <= full_seconds,
        "{raced_seconds} s in worse pinnings, {full_seconds} s in the full search"
    );
}

#[test]
fn the_choice_is_within_a_hundredth_of_that_of_the_full_search() {
    for seed in 0..12 {
        // Rates between 1 and 1.2 in a different order for each seed.
        let rates: [f64; 8] = std::array::from_fn(|candidate| {
            let mixed = (candidate * 37 + seed * 53 + candidate * candidate * seed) % 21;
            10_000.0 * (1.0 + mixed as f64 / 100.0)
        });
        let text = script(&format!("noise = 0.03\nseed = {seed}"), &rates);
        let (_, full) = run(&text, schedule(&PINNINGS));
        let (_, raced) = raced(&text);
        let (full, raced) = (rates[choice(&full)], rates[choice(&raced)]);
        assert!(raced >= 0.99 * full, "seed {seed}: {raced} and {full} of {rates:?}");
    }
}

#[test]
fn readings_that_resemble_their_neighbours_are_not_taken_for_certainty() {
    for seed in 0..6 {
        let best = seed % 8;
        let text = script(
            &format!("noise = 0.03\nnoise_correlation = 0.8\nseed = {seed}"),
            &one_best(best),
        );
        let (log, record) = raced(&text);
        assert_eq!(choice(&record), best, "seed {seed}");
        assert!(log.seconds_not_in(&pinning(PINNINGS[best])) < 315.0, "seed {seed}");
    }
}

#[test]
fn a_candidate_that_recovers_slowly_is_not_dropped_for_it() {
    // The slowest recovery that `w` = 15 s allows for: a time constant of 5 s, from a tenth of the rate.
    for best in [1, 4, 7] {
        let text = script("noise = 0.03", &one_best(best))
            .replace("warm_up = 1.5", "warm_up = 5.0")
            .replace("cold = 0.4", "cold = 0.9");
        let (_, record) = raced(&text);
        assert_eq!(choice(&record), best);
    }
}

#[test]
fn candidates_that_cannot_be_told_apart_keep_their_full_time() {
    let (log, record) = raced(&script("noise = 0.03\nduration = 800.0", &[10_000.0; 8]));
    let dropped = log.probes().iter().filter(|probe| probe.3).count();
    assert_eq!(dropped, 0, "{:?}", log.probes());
    for candidate in &record.search.candidates {
        let measured = candidate.measured.unwrap();
        assert!((measured - 30.0).abs() < 0.2, "{measured}");
    }
}

#[test]
fn the_winner_is_measured_for_its_full_time_and_a_loser_has_the_rate_it_was_heading_for() {
    let (_, record) = raced(&script("noise = 0.03", &one_best(3)));
    for (index, candidate) in record.search.candidates.iter().enumerate() {
        let rate = candidate.rate.unwrap();
        if index == 3 {
            assert!(!candidate.dropped);
            assert!((candidate.measured.unwrap() - 30.0).abs() < 0.2);
            assert!((rate / 10_000.0 - 1.0).abs() < 0.01, "{rate}");
        } else {
            assert!(candidate.dropped, "{index}");
            assert!((rate / 8000.0 - 1.0).abs() < 0.06, "{index}: {rate}");
        }
    }
}

#[test]
fn what_all_metrics_did_is_kept_for_the_candidate_during_whose_heat_they_did_it() {
    let (_, record) = raced(&script("noise = 0.03", &one_best(0)));
    // Two threads with 8000 or 10000 steps a second each, less while they recovered from the re-pinning.
    for (index, candidate) in record.search.candidates.iter().enumerate() {
        let rate = candidate.metrics[0].rate.unwrap();
        let expected = if index == 0 { 20_000.0 } else { 16_000.0 };
        assert!((0.85..1.02).contains(&(rate / expected)), "{index}: {rate}");
    }
}

#[test]
fn without_noise_the_best_is_found() {
    let rates: [f64; 8] = std::array::from_fn(|candidate| 10_000.0 + 50.0 * ((candidate * 5) % 8) as f64);
    let (_, record) = raced(&script("", &rates));
    assert_eq!(rates[choice(&record)].to_string(), "10350");
}

#[test]
fn a_program_that_ends_during_the_heats_leaves_the_best_of_them() {
    // The first three screenings take less than 10 s each after the 15 s of initialisation.
    let (_, record) = raced(&script("noise = 0.03\nduration = 50.0", &one_best(1)));
    let ended = record.program.ended_early.unwrap();
    assert_eq!(ended.best, Some(1));
    assert!(ended.why.contains("was screened"), "{}", ended.why);
}

#[test]
fn two_candidates_race_as_well_as_eight_and_one_needs_none() {
    for number in [1, 2] {
        let options = Options {
            search: Search::Racing,
            ..schedule(&PINNINGS[..number])
        };
        let (_, record) = run(&script("noise = 0.03", &one_best(1)), options);
        assert_eq!(choice(&record), number - 1);
    }
}
