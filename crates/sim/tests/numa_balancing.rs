//! Automatic NUMA balancing of the simulated kernel: pages that one thread touched first come to those that use them.

use pinfold_core::{Configuration, Machine, NodeId, PageMapping, PuId, TaskId};
use pinfold_sim::window::{Stream, synthetic};
use pinfold_sim::{
    EndSwitch, Kernel, NamedProgram, NumaBalancingCounts, Repeat, RunSettings, SimulatedMachine, SimulatedProgram,
    model,
};
use std::sync::Arc;
use std::time::Duration;

/// Eight nodes of six cores.
const MACHINE: &str = "opteron-6164x4";

/// The memory of each thread. It does not fit a cache.
const MIB: u64 = 8;

/// Two threads that read an array each. The first thread touched both.
struct Touched(Vec<(u64, u32)>);

impl Touched {
    fn new() -> Self {
        let pages = (1..=2).flat_map(|array| (0..MIB << 8).map(move |page| ((array << 20) + page, 0)));
        Self(pages.collect())
    }
}

impl SimulatedProgram for Touched {
    fn threads(&self) -> usize {
        2
    }

    fn stream(&self, thread: usize) -> Box<dyn Stream + '_> {
        synthetic::streaming((thread as u64 + 1) << 32, MIB << 20, 1, 0)
    }

    fn regions(&self) -> Option<u64> {
        None
    }

    fn page_owners(&self) -> &[(u64, u32)] {
        &self.0
    }

    fn error(&self) -> Option<String> {
        None
    }
}

fn machine(kernel: Kernel, numa_balancing: bool) -> SimulatedMachine {
    let model = model::builtin(MACHINE).unwrap();
    let topology = model.topology();
    let program = NamedProgram {
        name: "touched".to_owned(),
        program: Arc::new(Touched::new()),
    };
    let run = RunSettings {
        repeat: Repeat::UntilAsked(EndSwitch::default()),
        exit_status: 0,
        seed: 0,
        noise: 0.0,
        kernel,
        numa_balancing,
    };
    SimulatedMachine::new(model, topology, vec![program], run)
}

/// The first thread on node 0 and the second one on node 1, with pages by this mapping.
fn apart(machine: &mut SimulatedMachine, pages: PageMapping) {
    let tasks: Vec<TaskId> = machine.observe().tasks.iter().map(|task| task.id).collect();
    machine.apply(&Configuration {
        tasks: tasks.into_iter().zip([0, 6].map(PuId)).collect(),
        pages: Some(pages),
        ..Configuration::default()
    });
}

/// How fast the program runs from second 20 on, with its memory by node in MiB, and what balancing has done.
fn settled(numa_balancing: bool, pages: PageMapping) -> (f64, [u64; 2], Option<NumaBalancingCounts>) {
    let mut machine = machine(Kernel::V6_1, numa_balancing);
    apart(&mut machine, pages);
    machine.wait(Duration::from_secs(20)).unwrap();
    let before = machine.programs()[0].repetitions;
    machine.wait(Duration::from_secs(10)).unwrap();
    let speed = (machine.programs()[0].repetitions - before) / 10.0;
    let memory = machine.memory_by_node().unwrap();
    let on = |node| memory.get(&NodeId(node)).copied().unwrap_or(0) >> 20;
    (speed, [on(0), on(1)], machine.numa_balancing())
}

#[test]
fn balancing_takes_the_gain_of_locality_from_pages_that_another_thread_touched_first() {
    let (first_touch, there, none) = settled(false, PageMapping::FirstTouch);
    let (locality, after, _) = settled(false, PageMapping::Locality);
    assert_eq!((there, after, none), ([2 * MIB, 0], [MIB, MIB], None));
    assert!(locality > 1.1 * first_touch, "{locality} and {first_touch}");
    let (balanced, there, counts) = settled(true, PageMapping::FirstTouch);
    let (both, after, _) = settled(true, PageMapping::Locality);
    assert_eq!((there, after), ([MIB, MIB], [MIB, MIB]));
    assert_eq!(counts.unwrap().pages_moved, MIB << 8);
    assert!((both / balanced - 1.0).abs() < 0.01, "{both} and {balanced}");
    assert!(
        (both / locality - 1.0).abs() < 0.01,
        "hint faults are rare: {both} and {locality}"
    );
}

#[test]
fn memory_with_a_policy_stays_where_it_is() {
    let (_, there, counts) = settled(true, PageMapping::Interleave);
    assert_eq!((there, counts), ([2, 2], None));
}

#[test]
fn a_policy_has_the_last_word_on_the_pages_that_it_moves_and_balancing_goes_on() {
    let mut machine = machine(Kernel::V6_1, true);
    apart(&mut machine, PageMapping::FirstTouch);
    machine.wait(Duration::from_secs(20)).unwrap();
    let memory = |machine: &mut SimulatedMachine| {
        let memory = machine.memory_by_node().unwrap();
        [0, 1, 2].map(|node| memory.get(&NodeId(node)).copied().unwrap_or(0) >> 20)
    };
    assert_eq!(memory(&mut machine), [MIB, MIB, 0]);
    apart(&mut machine, PageMapping::FirstTouch);
    assert_eq!(memory(&mut machine), [MIB, MIB, 0], "nothing was asked for");
    apart(&mut machine, PageMapping::Interleave);
    assert_eq!(memory(&mut machine), [2, 2, 2]);
    // Pages that were moved have the default policy.
    machine.wait(Duration::from_secs(200)).unwrap();
    assert_eq!(memory(&mut machine), [MIB, MIB, 0]);
}

#[test]
fn pages_come_to_unpinned_threads_too_and_the_same_seed_gives_the_same_run() {
    let run = || {
        let mut machine = machine(Kernel::V6_12, true);
        machine.wait(Duration::from_secs(20)).unwrap();
        let places = machine.programs()[0].pus.clone();
        (
            machine.programs(),
            machine.memory_by_node().unwrap(),
            places,
            machine.windows(),
        )
    };
    let (programs, memory, places, windows) = run();
    assert!(windows <= 4, "{windows}");
    assert!(memory.len() == 2 || places[0] == places[1], "{memory:?} {places:?}");
    assert_eq!((programs, memory, places, windows), run());
}

#[test]
fn a_kernel_without_balancing_has_none() {
    let mut machine = machine(Kernel::V2_6_39, true);
    machine.wait(Duration::from_secs(5)).unwrap();
    assert_eq!(machine.numa_balancing(), None);
}
