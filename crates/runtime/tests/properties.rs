//! What holds for every program, as far as random scripts can tell.

mod common;

use common::{run, schedule, script, topology};
use pinfold_core::{Pinning, PuId, PuSet};
use pinfold_policy::{Autopin, Candidates, Options, OptionsError, Search, Times, Watch};
use pinfold_runtime::RecordBuilder;
use pinfold_sim::Scripted;
use proptest::prelude::*;
use std::fmt::Write;
use std::time::Duration;

const PINNINGS: [&str; 6] = ["0,1", "0,4", "1,5", "2,3", "6,7", "3,6"];

/// Short times, so that a run has few steps.
fn short() -> Times {
    let second = Duration::from_secs(1);
    Times::new(Some(2 * second), Some(second), Some(second))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn without_noise_the_full_search_takes_the_pinning_with_the_highest_rate(
        rates in proptest::array::uniform6(1000.0f64..10_000.0),
    ) {
        let mut text = "threads = 2\nduration = 25.0\n[[phase]]\nstart = 0.0\nrate = 1.0\n".to_owned();
        for (pus, rate) in PINNINGS.iter().zip(rates) {
            writeln!(text, "[[phase.pinning]]\npus = \"{pus}\"\nrate = {rate}").unwrap();
        }
        let (_, record) = run(&text, Options { times: short(), ..schedule(&PINNINGS) });
        let chosen = record.search.chosen.unwrap();
        // Whole counts over 2 s tell rates apart that differ by more than one count.
        let best = rates.iter().copied().fold(0.0, f64::max);
        prop_assert!(rates[chosen.candidate] >= best - 1.0, "{} of {:?}", chosen.candidate, rates);
        prop_assert!((chosen.rate.unwrap() - rates[chosen.candidate]).abs() <= 0.5 + 1e-9);
        prop_assert!(chosen.gain_over_worst.unwrap() >= chosen.gain_over_first.unwrap());
    }

    #[test]
    fn whatever_happens_threads_are_pinned_to_allowed_pus_only(
        allowed in proptest::collection::btree_set(0u32..8, 1..8),
        threads in 1u32..12,
        later in proptest::collection::vec((0.0f64..30.0, 0.1f64..30.0), 0..4),
        idle in any::<bool>(),
        racing in any::<bool>(),
        seed in any::<u32>(),
    ) {
        let allowed: PuSet = allowed.into_iter().map(PuId).collect();
        let topology = topology().restricted_to(&allowed).unwrap();
        let mut text = format!("threads = {threads}\nseed = {seed}\nnoise = 0.1\nduration = 40.0\n");
        writeln!(text, "[[phase]]\nstart = 0.0\nrate = 1000.0\nllc_sharing = 0.9").unwrap();
        writeln!(text, "[[phase]]\nstart = 20.0\nrate = 500.0\nidle = {idle}").unwrap();
        for (begins, lasts) in later {
            let ends = begins + lasts;
            writeln!(text, "[[thread]]\nbegins = {begins}\nends = {ends}").unwrap();
        }
        let mut machine = Scripted::new(script(&text).parse().unwrap(), topology.clone()).unwrap();
        let options = Options {
            times: short(),
            candidates: Candidates::Topology { most: 6 },
            search: if racing { Search::Racing } else { Search::Exhaustive },
            watch: Some(Watch::default()),
            ..schedule(&["0"])
        };
        prop_assert_eq!(options.check(&topology), Ok(()));
        let (mut log, mut record) = (common::Log::default(), RecordBuilder::new(&machine, "autopin"));
        pinfold_runtime::run(&mut machine, &mut Autopin::new(options), &mut record, &mut log).unwrap();
        let record = record.finish();
        for (_, configuration, _) in &log.applied {
            for &pu in configuration.pinning.iter().flat_map(Pinning::pus) {
                prop_assert!(allowed.contains(pu), "CPU {} is not in {}", pu, allowed);
            }
        }
        // Everything can be written and read back, and every choice is one of its candidates.
        common::assert_reads_back(&record);
        if let Some(chosen) = &record.search.chosen {
            prop_assert_eq!(&chosen.pus, &record.search.candidates[chosen.candidate].pus);
        }
    }
}

#[test]
fn a_schedule_with_a_cpu_that_is_not_ours_is_refused_with_those_that_are() {
    let topology = topology().restricted_to(&"0-3".parse().unwrap()).unwrap();
    let error = schedule(&["0,1", "2,5"]).check(&topology).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the pinning 2,5 uses CPU 5, which this process may not use; the CPUs that may be used are 0-3"
    );
    let error = schedule(&["0,99"]).check(&topology).unwrap_err();
    assert!(
        error.to_string().contains("CPU 99, which this machine does not have"),
        "{error}"
    );
}

#[test]
fn options_that_make_no_search_are_refused() {
    let topology = topology();
    assert_eq!(schedule(&[]).check(&topology), Err(OptionsError::NoCandidate));
    let none = Options {
        candidates: Candidates::Topology { most: 0 },
        ..schedule(&["0"])
    };
    assert_eq!(none.check(&topology), Err(OptionsError::NoCandidate));
    let mut no_interval = schedule(&["0"]);
    no_interval.times.interval = Duration::ZERO;
    assert!(no_interval.check(&topology).is_err());
    let mut short = schedule(&["0"]);
    short.times.probe = Duration::from_millis(50);
    assert!(short.check(&topology).unwrap_err().to_string().contains("50ms"));
    let watch = Watch { fall: 1.5, lines: 3 };
    let fall = Options {
        watch: Some(watch),
        ..schedule(&["0"])
    };
    assert_eq!(fall.check(&topology), Err(OptionsError::Fall(1.5)));
}
