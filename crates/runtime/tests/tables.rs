//! Policies on a table of measurements.

use pinfold_core::{
    Finding, MachineKind, NodeId, NumaNode, ObjectKind, PageMapping, Pinning, PuId, RefusalCode, RegionId, Topology,
    TopologyBuilder,
};
use pinfold_policy::auto::{Auto, AutoOptions};
use pinfold_policy::react::{Chooser, React, ReactOptions};
use pinfold_policy::{Autopin, Candidates, MetricRequest, Options, Policy, Search, Skip, Times};
use pinfold_runtime::{PolicyKind, Record, RecordBuilder, Recorder, RunDocument};
use pinfold_sim::table::{GivenCosts, RowConfiguration, TableMachine, TableProgram, TableRow, TableSettings};
use pinfold_sim::{EndSwitch, Repeat};
use serde_json::json;
use std::time::Duration;

/// Two nodes of four cores.
fn topology() -> Topology {
    let mut builder = TopologyBuilder::new("two nodes");
    let root = builder.root();
    for node in 0..2u32 {
        let package = builder.object(root, ObjectKind::Package, Some(node));
        let pus = 4 * node..4 * node + 4;
        for pu in pus.clone() {
            let core = builder.object(package, ObjectKind::Core, Some(pu));
            builder.pu(core, PuId(pu));
        }
        builder.node(NumaNode {
            id: NodeId(node),
            attached_to: package,
            pus: pus.map(PuId).collect(),
            memory: Some(1 << 30),
            subtype: None,
        });
    }
    builder.build_all().unwrap()
}

/// Two regions of four threads. The first is fastest on one node, the second on two. Interleaved pages are faster.
fn rows() -> Vec<TableRow> {
    let mut rows = vec![];
    for (nodes, map, pages, times) in [
        (2, "scatter", "first_touch", [1.0, 1.0]),
        (2, "compact", "first_touch", [1.1, 1.2]),
        (1, "compact", "first_touch", [0.5, 1.1]),
        (2, "scatter", "interleave", [0.9, 0.8]),
        (2, "compact", "interleave", [1.0, 1.1]),
        (1, "compact", "interleave", [0.4, 0.7]),
    ] {
        for (region, time) in ["first", "second"].into_iter().zip(times) {
            rows.push(TableRow {
                program: "solver".to_owned(),
                command: "solver".to_owned(),
                region: Some(region.to_owned()),
                configuration: RowConfiguration {
                    threads: 4,
                    nodes: Some(nodes),
                    thread_map: Some(map.to_owned()),
                    page_map: pages.to_owned(),
                    prefetch: "0000".to_owned(),
                    ..RowConfiguration::default()
                },
                time,
                spread: Some(0.01),
                ..TableRow::default()
            });
        }
    }
    rows
}

/// Ends the program at the first rate after the choice.
struct Ending(EndSwitch);

impl Recorder for Ending {
    fn finding(&mut self, _at: Duration, finding: &Finding, _record: &Record) {
        if matches!(finding, Finding::Rate { .. }) {
            self.0.end();
        }
    }
}

fn run(policy: &mut dyn Policy, seed: u64) -> (Record, TableMachine) {
    let switch = EndSwitch::default();
    let settings = TableSettings {
        repeat: Repeat::UntilAsked(switch.clone()),
        seed,
        noise: None,
        in_seconds: false,
        execution: Some(Duration::from_millis(10)),
        moves: GivenCosts {
            threads: None,
            pages: Some(Duration::from_millis(20)),
        },
        threads: None,
    };
    let program = TableProgram::new(&rows(), &topology(), Some("solver"), None).unwrap();
    let mut machine = TableMachine::new(program, topology(), settings).unwrap();
    let mut record = RecordBuilder::new(&machine, policy.name());
    pinfold_runtime::run(&mut machine, policy, &mut record, &mut Ending(switch)).unwrap();
    (record.finish(), machine)
}

fn auto() -> Auto {
    Auto::new(AutoOptions {
        moves_pages: true,
        ..AutoOptions::default()
    })
}

fn pinning(pus: &[u32]) -> Pinning {
    Pinning::new(pus.iter().copied().map(PuId).collect()).unwrap()
}

#[test]
fn the_default_policy_finds_the_fastest_row_and_the_record_says_that_it_is_a_replay() {
    let (record, machine) = run(&mut auto(), 1);
    let chosen = record.search.chosen.as_ref().unwrap();
    let best = &record.search.candidates[chosen.candidate];
    let nodes: Vec<bool> = chosen.pus.as_ref().unwrap().pus().iter().map(|pu| pu.0 < 4).collect();
    assert!(nodes.iter().all(|&node| node == nodes[0]), "{chosen:?}");
    assert_eq!(best.pages, Some(PageMapping::Interleave), "{best:?}");
    assert_eq!((record.machine_kind, record.simulated), (MachineKind::Table, true));
    assert!(machine.replayed().refused > 0, "some placements were not measured");
    let document = RunDocument {
        record,
        ..RunDocument::default()
    };
    let text = document.explanation(PolicyKind::default());
    assert!(text.contains("was replayed from measured times, not run"), "{text}");
}

#[test]
fn a_placement_that_was_not_measured_is_no_candidate_any_more() {
    let (record, _) = run(&mut auto(), 1);
    assert!(
        record
            .refused
            .iter()
            .any(|refusal| refusal.code == RefusalCode::Unmeasured)
    );
    let refused = record.search.candidates.iter().filter(|one| one.not_pinned.is_some());
    let measured = refused.filter(|one| one.rate.is_some()).count();
    assert_eq!(measured, 0, "{:?}", record.search.candidates);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let text = |seed| serde_json::to_string(&run(&mut auto(), seed).0).unwrap();
    assert_eq!(text(7), text(7));
    assert_ne!(text(7), text(8));
}

#[test]
fn autopin_keeps_the_fastest_of_its_candidates() {
    let candidates = [pinning(&[0, 4, 1, 5]), pinning(&[0, 1, 2, 4]), pinning(&[4, 5, 6, 7])];
    let mut policy = Autopin::new(Options {
        times: Times::default(),
        search: Search::Exhaustive,
        candidates: Candidates::Schedule(candidates.to_vec()),
        threads: None,
        skip: Skip::default(),
        metric: MetricRequest::Auto,
        watch: None,
    });
    let (record, _) = run(&mut policy, 1);
    assert_eq!(
        record.search.chosen.as_ref().unwrap().pus.as_ref(),
        Some(&candidates[2])
    );
    assert!(record.search.candidates[1].not_pinned.is_some());
    assert!(record.search.candidates[0].not_pinned.is_none());
}

#[test]
fn react_gives_each_region_its_configuration_where_the_pages_allow_it() {
    let configuration = |nodes, map: &str, pages: &str| json!({"threads": 4, "nodes": nodes, "thread_map": map, "page_map": pages, "prefetch": "0000"});
    let model = json!({
        "react_model": 3, "machine": "two nodes", "counted_on": "two nodes",
        "trained": {"simulated": false, "machines": ["two nodes"], "programs": [], "rows": 0, "learner": "by hand"},
        "score": {"nested": 0.0, "low": 0.0, "high": 0.0, "control": 0.0, "inside": 0.0, "seeds": 1},
        "baseline": configuration(2, "scatter", "locality"),
        "profiles": [configuration(1, "compact", "interleave"), configuration(2, "scatter", "interleave")],
        "features": [{"profile": 0, "counter": "CPI", "least": 0.0, "greatest": 9.0}],
        "outputs": [configuration(1, "compact", "interleave")],
        "tree": [[0, 1.0, 1, 2], [0], [0]]
    });
    let mut policy = React::new(ReactOptions {
        times: Times::new(Some(Duration::from_secs(2)), None, Some(Duration::from_millis(200))),
        metric: MetricRequest::Auto,
        skip: Skip::default(),
        chooser: Chooser::Model(model.to_string().parse().unwrap()),
    });
    let (record, machine) = run(&mut policy, 1);
    let regions = record.by_policy.regions.as_ref().unwrap();
    assert_eq!(regions.pages, Some(PageMapping::Interleave));
    let first = regions
        .choices
        .iter()
        .find(|choice| choice.region == RegionId(1))
        .unwrap();
    assert!(first.after.unwrap() < 0.6 * first.before.unwrap(), "{first:?}");
    let names: Vec<String> = machine
        .replayed()
        .regions
        .into_iter()
        .map(|region| region.name)
        .collect();
    assert_eq!(names, ["first", "second"]);
}
