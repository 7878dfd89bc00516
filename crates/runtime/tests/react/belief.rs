//! `react` with a belief, which plans the trials.

use super::{Regions, Work, choice, machine, options, run_until_chosen};
use pinfold_core::{RegionId, Tried};
use pinfold_policy::belief::Belief;
use pinfold_policy::react::{Chooser, React};
use pinfold_runtime::{Record, RecordBuilder, TimedBelief};
use pinfold_sim::Repeat;
use serde_json::json;
use std::num::NonZeroU64;

/// A belief that lists teams of eight threads on one, two and four nodes with each place of pages, and the unpinned program.
/// Before a trial, the logarithm of each team's time over the unpinned program's has this mean, and this variance.
/// Prefetchers hardly matter.
fn belief(mean: f64, variance: f64) -> Belief {
    let point = |nodes: f64, thread_map: &str, page_map: &str| {
        json!({"threads": 0.25, "cores": 0.25, "nodes": nodes, "thread_map": thread_map, "page_map": page_map,
            "prefetch": "0000"})
    };
    let on_one = ["local", "remote"].map(|pages| point(0.25, "compact", pages));
    let on_several = [0.5, 1.0].into_iter().flat_map(|nodes| {
        let pages = ["locality", "balance", "interleave", "single"].into_iter();
        pages.flat_map(move |pages| ["compact", "scatter"].map(|thread_map| point(nodes, thread_map, pages)))
    });
    let unpinned = ["compact", "scatter"].map(|thread_map| point(1.0, thread_map, "first_touch"));
    let placed: Vec<_> = on_one.into_iter().chain(on_several).collect();
    let means = [vec![0.0; unpinned.len()], vec![mean; placed.len()]].concat();
    let points: Vec<_> = unpinned.into_iter().chain(placed).collect();
    let document = json!({
        "pinfold": "belief",
        "version": 1,
        "origin": {"simulated": true, "machines": ["e5-4650x4"], "programs": [], "rows": 0, "learner": "by hand"},
        "mean": means,
        "factors": vec![[0.0; 0]; points.len()],
        "residual": vec![0.0; points.len()],
        "points": points,
        "kernel": {"weight": 1.0, "variance": variance, "lengths": {"threads": 1.0, "cores": 1.0, "nodes": 1.0,
            "thread_map": 2.0, "page_map": 2.0, "prefetch": 200.0}},
        "noise": 0.0001,
        "doubt": {"machine": 0.0}
    });
    document.to_string().parse().unwrap()
}

fn notes(record: &Record, text: &str) -> usize {
    record.notes.iter().filter(|note| note.text.contains(text)).count()
}

fn all_notes(record: &Record) -> String {
    let notes = record.notes.iter().map(|note| note.text.clone());
    notes.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_belief_plans_trials_until_none_is_worth_its_cost_and_says_what_it_learned() {
    let work = [Work::OwnBlocks, Work::SharedLines];
    let (record, _, _) = run_until_chosen(&work, Chooser::Belief(belief(-0.1, 0.5)));
    let shared = choice(&record, 2);
    assert!(
        shared.after.is_some_and(|after| after < 0.5 * shared.before.unwrap()),
        "{}",
        all_notes(&record)
    );
    assert_eq!(notes(&record, "under configurations that a belief chooses"), 1);
    let trials = notes(&record, "Next is threads on");
    assert!(trials > 0, "{}", all_notes(&record));
    assert_eq!(
        notes(&record, "No trial is worth its cost"),
        1,
        "{}",
        all_notes(&record)
    );
    // Each trial teaches something about each of the two regions.
    let beliefs = &record.by_policy.beliefs;
    assert_eq!(beliefs.len(), 2 * trials);
    let has_configuration = |one: &TimedBelief| match &one.trial.tried {
        Tried::Region { configuration, .. } => !configuration.is_empty(),
        Tried::Candidate { .. } => false,
    };
    assert!(beliefs.iter().all(has_configuration), "{beliefs:?}");
}

#[test]
fn a_belief_that_is_sure_that_nothing_is_faster_tries_nothing() {
    let repeat = Repeat::Times(NonZeroU64::new(2000).unwrap());
    let mut machine = machine(Regions::new(&[Work::OwnBlocks]), repeat);
    let mut policy = React::new(options(Chooser::Belief(belief(0.5, 0.0))));
    let mut record = RecordBuilder::new(&machine, "react");
    pinfold_runtime::run(&mut machine, &mut policy, &mut record, &mut ()).unwrap();
    let record = record.finish();
    assert_eq!(notes(&record, "Next is"), 0, "{record:?}");
    let regions = record.by_policy.regions.as_ref();
    assert!(regions.is_none_or(|regions| regions.choices.iter().all(|one| one.region != RegionId(1))));
    let ended = record.program.ended_early.as_ref().unwrap();
    assert!(
        ended
            .why
            .contains("before the next trial of a configuration was worth its cost"),
        "{ended:?}"
    );
}

#[test]
fn regions_that_are_too_short_for_a_change_get_the_configuration_in_which_they_are_the_fastest_together() {
    const OTHERS: usize = 14;
    // The longest region needs the caches of all nodes, and the others' threads wait for each other's lines.
    let own = Work::Brief { own: 40_000, shared: 0 };
    let shared = Work::Brief { own: 0, shared: 400 };
    let work: Vec<Work> = std::iter::once(own).chain([shared; OTHERS]).collect();
    let (record, _, _) = run_until_chosen(&work, Chooser::Belief(belief(-0.1, 0.5)));
    let together = format!("this region and {OTHERS} that are too short for a change are the fastest together");
    let notes = &record.notes;
    assert!(notes.iter().any(|note| note.text.contains(&together)), "{notes:?}");
    let pinned = |region| choice(&record, region).pus.as_ref().map(|pus| pus.pus().len());
    assert!((2..).take(OTHERS).all(|other| pinned(other) == Some(8)), "{record:?}");
    assert!(record.by_policy.regions.as_ref().unwrap().gain.unwrap() > 0.2);
}
