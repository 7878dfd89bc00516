//! Several programs side by side on a simulated machine.

#[path = "common/computing.rs"]
mod computing;

use computing::Computing;
use pinfold_core::{Configuration, Machine, NodeId, Pinning, ProcessGoal, PuId, PuSet, TaskId, Wait};
use pinfold_sim::window::{Stream, synthetic};
use pinfold_sim::{
    EndSwitch, Kernel, NamedProgram, ProgramProgress, Repeat, RunSettings, SimulatedMachine, SimulatedProgram, model,
};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

const MACHINE: &str = "e5-2660v2x2";

/// Threads that read an array each, which no other cache holds.
struct Streaming {
    threads: usize,
    bytes: u64,
    owners: Vec<(u64, u32)>,
}

impl SimulatedProgram for Streaming {
    fn threads(&self) -> usize {
        self.threads
    }

    fn stream(&self, thread: usize) -> Box<dyn Stream + '_> {
        synthetic::streaming((thread as u64 + 1) << 32, self.bytes, 1, 0)
    }

    fn regions(&self) -> Option<u64> {
        None
    }

    fn page_owners(&self) -> &[(u64, u32)] {
        &self.owners
    }

    fn error(&self) -> Option<String> {
        None
    }
}

fn streaming(threads: usize, mib: u64) -> Arc<dyn SimulatedProgram> {
    let first = |thread: u32| (u64::from(thread) + 1) << 20;
    let owners = (0..u32::try_from(threads).unwrap())
        .flat_map(|thread| (0..mib << 8).map(move |page| (first(thread) + page, thread)));
    Arc::new(Streaming {
        threads,
        bytes: mib << 20,
        owners: owners.collect(),
    })
}

fn machine(programs: &[(&str, Arc<dyn SimulatedProgram>)], repeat: Repeat, seed: u64) -> SimulatedMachine {
    let model = model::builtin(MACHINE).unwrap();
    let topology = model.topology();
    let programs = programs
        .iter()
        .map(|(name, program)| NamedProgram {
            name: (*name).to_owned(),
            program: Arc::clone(program),
        })
        .collect();
    let run = RunSettings {
        repeat,
        exit_status: 0,
        seed,
        noise: 0.0,
        kernel: Kernel::default(),
        numa_balancing: false,
    };
    SimulatedMachine::new(model, topology, programs, run)
}

fn forever() -> Repeat {
    Repeat::UntilAsked(EndSwitch::default())
}

/// Runs programs for ten seconds, with their tasks pinned to these PUs in turn.
fn pinned(programs: &[(&str, Arc<dyn SimulatedProgram>)], pus: &str) -> Vec<ProgramProgress> {
    let mut machine = machine(programs, forever(), 0);
    machine.apply(&Configuration {
        pinning: Pinning::new(PuSet::parse_ordered(pus).unwrap()),
        ..Configuration::default()
    });
    machine.wait(Duration::from_secs(10)).unwrap();
    machine.programs()
}

#[test]
fn each_program_runs_at_its_own_rate() {
    let quick: Arc<dyn SimulatedProgram> = Arc::new(Computing(1_000_000));
    let alone = pinned(&[("quick", Arc::clone(&quick))], "0");
    let both = pinned(&[("quick", quick), ("slow", streaming(1, 16))], "0,10");
    let gone = (both[0].repetitions / alone[0].repetitions - 1.0).abs();
    assert!(
        gone < 1e-3,
        "a program on its own package slows no other program: {gone}"
    );
    assert!(
        both[1].repetitions > 1.0 && both[1].repetitions < both[0].repetitions / 2.0,
        "{both:?}"
    );
}

#[test]
fn programs_that_share_a_memory_slow_each_other_down() {
    let programs = [("a", streaming(5, 8)), ("b", streaming(5, 8))];
    let together = pinned(&programs, "0-9");
    let apart = pinned(&programs, "0-4,10-14");
    for (together, apart) in together.iter().zip(&apart) {
        assert!(together.repetitions < 0.7 * apart.repetitions, "{together:?} {apart:?}");
    }
}

#[test]
fn each_program_is_a_process_with_threads_and_counts_of_its_own() {
    let mut machine = machine(&[("one", streaming(2, 1)), ("three", streaming(3, 1))], forever(), 0);
    machine.wait(Duration::from_secs(1)).unwrap();
    let sample = machine.observe();
    let named = |name: &str| sample.tasks.iter().filter(|task| task.name == name).collect::<Vec<_>>();
    let (one, three) = (named("one"), named("three"));
    assert_eq!((one.len(), three.len()), (2, 3));
    assert!(one.iter().all(|task| task.id.process == one[0].id.thread));
    assert!(three.iter().all(|task| task.id.process == three[0].id.thread));
    let progress = machine.programs();
    assert_eq!(progress.iter().map(|program| program.tasks).collect::<Vec<_>>(), [2, 3]);
    let instructions = machine
        .metrics()
        .iter()
        .position(|metric| metric.name == "event:instructions")
        .unwrap();
    let counted: u64 = three.iter().map(|task| task.counts[instructions].unwrap().value).sum();
    let reported = progress[1]
        .events
        .iter()
        .find(|(name, _)| name == "instructions")
        .unwrap()
        .1;
    assert!((reported - counted as f64).abs() <= 3.0, "{reported} and {counted}");
}

#[test]
fn the_slowest_program_does_the_number_of_repetitions() {
    let times = Repeat::Times(NonZeroU64::new(3).unwrap());
    let mut machine = machine(&[("quick", streaming(1, 1)), ("slow", streaming(1, 4))], times, 0);
    assert_eq!(machine.wait(Duration::from_secs(3600)).unwrap(), Wait::Ended(0));
    let done: Vec<f64> = machine.programs().iter().map(|program| program.repetitions).collect();
    assert!(done[0] > 3.0, "{done:?}");
    assert!((done[1] - 3.0).abs() < 1e-12, "{done:?}");
}

#[test]
fn the_seed_decides_the_order_of_creation_and_so_the_placement() {
    let places = |seed: u64| {
        let mut machine = machine(&[("a", streaming(6, 1)), ("b", streaming(6, 1))], forever(), seed);
        machine.wait(Duration::from_millis(1)).unwrap();
        let sample = machine.observe();
        sample
            .tasks
            .iter()
            .map(|task| task.last_pu.unwrap())
            .collect::<Vec<_>>()
    };
    let on_first_package = |seed: u64| places(seed)[..6].iter().filter(|pu| pu.0 % 20 < 10).count();
    assert_eq!(places(1), places(1));
    let shares: std::collections::BTreeSet<usize> = (0..20).map(on_first_package).collect();
    assert!(shares.len() > 1, "{shares:?}");
    assert!((0..20).all(|seed| places(seed).iter().filter(|pu| pu.0 % 20 < 10).count() == 6));
}

/// MiB on both nodes.
fn memory(machine: &mut SimulatedMachine) -> [u64; 2] {
    let bytes = machine.memory_by_node().unwrap();
    [0, 1].map(|node| bytes.get(&NodeId(node)).copied().unwrap_or(0) >> 20)
}

#[test]
fn pages_follow_chosen_programs_alone_and_go_back() {
    let programs = [("a", streaming(1, 2)), ("b", streaming(1, 4))];
    let mut machine = machine(&programs, forever(), 0);
    let tasks: Vec<TaskId> = machine.observe().tasks.iter().map(|task| task.id).collect();
    let wanted = |pus: [u32; 2], followed: &[(i32, ProcessGoal)]| Configuration {
        tasks: tasks.iter().copied().zip(pus.map(PuId)).collect(),
        followed: Some(followed.iter().copied().collect()),
        ..Configuration::default()
    };
    machine.apply(&wanted([0, 1], &[]));
    machine.wait(Duration::from_secs(1)).unwrap();
    assert_eq!(memory(&mut machine), [6, 0]);
    let applied = machine.apply(&wanted([10, 11], &[(tasks[0].process, ProcessGoal::Tasks)]));
    let moves = applied.pages.unwrap();
    assert_eq!((moves.moved.bytes >> 20, memory(&mut machine)), (2, [4, 2]));
    assert!(moves.lasted > Duration::from_millis(2), "{moves}");
    machine.wait(Duration::from_secs(1)).unwrap();
    let applied = machine.apply(&wanted([10, 11], &[]));
    assert_eq!(applied.pages.unwrap().moved.bytes >> 20, 2);
    assert_eq!(memory(&mut machine), [6, 0]);
    // Those of one are interleaved, and those of the other follow.
    let goals = [ProcessGoal::Tasks, ProcessGoal::Interleave];
    let both: Vec<(i32, ProcessGoal)> = tasks.iter().map(|task| task.process).zip(goals).collect();
    let applied = machine.apply(&wanted([10, 11], &both));
    assert_eq!(applied.pages.unwrap().goal, "after their threads, interleave");
    assert_eq!(memory(&mut machine), [2, 4]);
    machine.apply(&wanted([10, 11], &both[1..]));
    assert_eq!(memory(&mut machine), [4, 2]);
}

#[test]
fn pages_of_a_program_on_several_nodes_follow_when_its_accesses_were_sampled() {
    let programs = [("a", streaming(2, 2))];
    let mut machine = machine(&programs, forever(), 0);
    let tasks: Vec<TaskId> = machine.observe().tasks.iter().map(|task| task.id).collect();
    let wanted = |pus: [u32; 2], follows: bool| Configuration {
        tasks: tasks.iter().copied().zip(pus.map(PuId)).collect(),
        followed: Some(
            tasks
                .iter()
                .map(|task| (task.process, ProcessGoal::Tasks))
                .filter(|_| follows)
                .collect(),
        ),
        ..Configuration::default()
    };
    machine.apply(&wanted([0, 1], false));
    machine.wait(Duration::from_secs(1)).unwrap();
    let applied = machine.apply(&wanted([0, 10], true));
    assert!(applied.pages.unwrap().lasted > Duration::from_secs(1));
    machine.wait(Duration::from_millis(900)).unwrap();
    assert_eq!(memory(&mut machine), [4, 0]);
    machine.wait(Duration::from_millis(200)).unwrap();
    assert_eq!(memory(&mut machine), [2, 2]);
    // The next time they are known.
    machine.apply(&wanted([0, 1], false));
    assert_eq!(memory(&mut machine), [4, 0]);
    machine.apply(&wanted([10, 0], true));
    assert_eq!(memory(&mut machine), [2, 2]);
}
