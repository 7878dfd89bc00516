//! The views of `auto`, `hints` and `classify`, on scripted machines.

mod common;
#[path = "../../core/tests/support/synthetic.rs"]
mod synthetic;

use common::Log;
use pinfold_core::hint::AffinityHint;
use pinfold_core::placement::NamedPlacement;
use pinfold_core::{Finding, PageMapping, Pinning, ThreadMap, map_over_nodes};
use pinfold_policy::auto::{Auto, AutoOptions, Space};
use pinfold_runtime::Record;
use pinfold_sim::Scripted;
use std::collections::HashSet;
use synthetic::synthetic;

const MACHINE: &str = "package:2 numa:1 l3:1 core:4 pu:1";

/// Four threads of a program for a minute, whose rate is `packed` on the first package and 100 elsewhere.
fn run(space: Space, packed: f64) -> (Log, Record) {
    let script = format!(
        "topology = \"synthetic:{MACHINE}\"\nthreads = 4\nduration = 60.0\nnoise = 0.01\n[[phase]]\nstart = 0.0\n\
         rate = 100.0\n[[phase.pinning]]\npus = \"0-3\"\nrate = {packed:?}\n"
    );
    let options = AutoOptions {
        space,
        moves_pages: true,
        ..AutoOptions::default()
    };
    let machine = Scripted::new(script.parse().unwrap(), synthetic(MACHINE)).unwrap();
    common::run_on(machine, &mut Auto::new(options))
}

/// The placements that were proposed.
fn proposed(log: &Log) -> HashSet<(Option<String>, Option<PageMapping>)> {
    let of = |(_, finding): &(f64, Finding)| match finding {
        Finding::Proposed { pus, pages, .. } => Some((pus.as_ref().map(Pinning::to_string), *pages)),
        _ => None,
    };
    log.findings.iter().filter_map(of).collect()
}

fn last_pinning(log: &Log) -> Option<String> {
    let (_, configuration, _) = log.applied.last().unwrap();
    configuration.pinning.as_ref().map(ToString::to_string)
}

#[test]
fn hints_tries_the_placements_of_hints_and_keeps_the_fastest() {
    let (log, record) = run(Space::Hints, 150.0);
    assert_eq!(record.policy, "hints");
    let machine = synthetic(MACHINE);
    let of_hints = AffinityHint::ALL.map(|hint| NamedPlacement::Hint(hint).pinning(&machine, 4).to_string());
    let expected = of_hints.into_iter().map(|pinning| (Some(pinning), None)).collect();
    assert_eq!(proposed(&log), expected);
    assert_eq!(last_pinning(&log).as_deref(), Some("0-3"));
}

#[test]
fn classify_tries_the_four_strategies_and_keeps_the_fastest() {
    let (log, record) = run(Space::Strategies, 150.0);
    assert_eq!(record.policy, "classify");
    let machine = synthetic(MACHINE);
    let threads = ThreadMap::ALL.map(|map| map_over_nodes(&machine, 4, map).unwrap().to_string());
    let strategies = threads
        .into_iter()
        .flat_map(|threads| [None, Some(PageMapping::Interleave)].map(|pages| (Some(threads.clone()), pages)));
    assert_eq!(proposed(&log), strategies.collect());
}

#[test]
fn a_view_leaves_a_program_alone_that_runs_faster_nowhere() {
    for space in [Space::Hints, Space::Strategies] {
        let (log, record) = run(space, 80.0);
        assert_eq!(last_pinning(&log), None, "{space:?}");
        assert!(
            record.search.chosen.is_none_or(|chosen| chosen.pus.is_none()),
            "{space:?}"
        );
    }
}
