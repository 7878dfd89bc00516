//! Clocks that depend on the number of active cores of a package.

mod common;
#[path = "common/computing.rs"]
mod computing;

use common::{configuration, recorded, run};
use computing::Computing;
use pinfold_core::{Machine, PageMapping, Prefetchers, PuId};
use pinfold_sim::model::Model;
use pinfold_sim::window::{
    Event, EventKind, Options, RegionPlace, RegionPlaces, Stream, WindowResult, simulate_regions, synthetic,
};
use pinfold_sim::{Kernel, NamedProgram, Repeat, RunSettings, SimulatedMachine};
use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

const MODEL: &str = include_str!("../../../machines/gold-6142x2.toml");

/// Two packages of 16 cores with two PUs and a base clock of 2.6 GHz, with these steps; with one clock without steps.
fn model(steps: &str) -> Model {
    let lines: Vec<&str> = MODEL.lines().filter(|line| !line.starts_with("turbo")).collect();
    let mut text = lines.join("\n");
    if !steps.is_empty() {
        let turbo = format!("[core]\nturbo = {{ cores_ghz = {steps}, source = \"assumed\" }}");
        text = text.replace("[core]", &turbo);
    }
    Model::parse("turbo", &text).unwrap()
}

const STEPS: &str = "[[1, 3.9], [8, 3.6], [16, 3.0]]";

const INSTRUCTIONS: u32 = 1_000_000;

/// A thread that only computes.
fn compute() -> Box<dyn Stream> {
    recorded(vec![Event::instructions(INSTRUCTIONS)])
}

/// A thread that computes on each of the PUs.
fn computing(model: &Model, pus: &[u32]) -> WindowResult {
    let configuration = configuration(pus, PageMapping::FirstTouch, Prefetchers::NONE);
    run(model, &configuration, pus.iter().map(|_| compute()).collect())
}

fn first(pus: u32) -> Vec<u32> {
    (0..pus).collect()
}

fn close(value: f64, expected: f64) -> bool {
    (value / expected - 1.0).abs() < 0.005
}

/// The clock of a thread that computes, in GHz.
fn clock(model: &Model, result: &WindowResult, thread: usize) -> f64 {
    let cycles = f64::from(INSTRUCTIONS) * model.core.base_cpi.value().0;
    cycles / (result.ends[thread] / model.frequency().0) / 1e9
}

#[test]
fn computing_threads_run_at_the_clock_of_the_active_cores() {
    let model = model(STEPS);
    for (threads, ghz) in [(1, 3.9), (2, 3.6), (8, 3.6), (9, 3.0), (16, 3.0)] {
        let result = computing(&model, &first(threads));
        let found = clock(&model, &result, 0);
        assert!(close(found, ghz), "{threads}: {found}");
    }
}

#[test]
fn each_package_has_its_own_clock() {
    let model = model(STEPS);
    // The PUs of package 1 begin at 16.
    let result = computing(&model, &first(17));
    assert!(close(clock(&model, &result, 15), 3.0));
    assert!(close(clock(&model, &result, 16), 3.9));
}

#[test]
fn tasks_of_one_core_count_as_one_active_core() {
    let model = model(STEPS);
    let siblings = computing(&model, &[0, 32]);
    let alone = computing(&model, &[0]);
    let throughput = model.core.smt_throughput.as_ref().unwrap().value().0;
    assert!(close(siblings.seconds, alone.seconds * 2.0 / throughput));
    assert!(close(siblings.threads[0].core_cycles, siblings.cycles * 3.9 / 2.6));
    let sliced = computing(&model, &[0, 0]);
    assert!(close(
        sliced.threads[1].core_cycles,
        sliced.threads[1].busy_cycles * 3.9 / 2.6
    ));
}

/// Seconds of a pointer chase beside as many computing threads of the package.
fn chase(model: &Model, bytes: u64, loads: u64, others: u32) -> f64 {
    let pus = first(1 + others);
    let mut streams = vec![synthetic::pointer_chase(1 << 30, bytes, loads, 7)];
    streams.extend((0..others).map(|_| compute()));
    let result = run(
        model,
        &configuration(&pus, PageMapping::FirstTouch, Prefetchers::NONE),
        streams,
    );
    result.ends[0] / model.frequency().0
}

#[test]
fn private_caches_run_at_the_clock_of_their_core_and_memory_does_not() {
    let model = model(STEPS);
    let gain = |bytes, loads| chase(&model, bytes, loads, 15) / chase(&model, bytes, loads, 0);
    // Many rounds through the L2, and one through memory.
    let (cached, missing) = (gain(512 << 10, 2_000_000), gain(4 << 20, 1 << 16));
    assert!((1.2..1.31).contains(&cached), "{cached}");
    assert!((1.0..1.02).contains(&missing), "{missing}");
}

#[test]
fn cycles_are_those_of_the_core_and_times_those_of_the_base_clock() {
    let model = model(STEPS);
    let (one, all) = (computing(&model, &[0]), computing(&model, &first(16)));
    let cycles = f64::from(INSTRUCTIONS) * model.core.base_cpi.value().0;
    for (result, ghz) in [(&one, 3.9), (&all, 3.0)] {
        let thread = &result.threads[0];
        assert!(close(thread.core_cycles, cycles), "{}", thread.core_cycles);
        assert!(close(thread.busy_cycles, cycles * 2.6 / ghz), "{}", thread.busy_cycles);
        assert!(close(result.seconds, cycles / (ghz * 1e9)), "{}", result.seconds);
    }
}

#[test]
fn stalls_are_counted_in_cycles_of_the_core() {
    let model = model("[[16, 3.9]]");
    let configuration = configuration(&[0], PageMapping::FirstTouch, Prefetchers::NONE);
    let stream = synthetic::pointer_chase(1 << 30, 4 << 20, 1 << 16, 7);
    let thread = run(&model, &configuration, vec![stream]).total();
    // Nearly the whole time is stalls for memory.
    let share = thread.stall_cycles / thread.core_cycles;
    assert!((0.9..=1.0).contains(&share), "{share}");
    assert!(close(thread.core_cycles, thread.busy_cycles * 1.5));
}

#[test]
fn steps_at_the_base_clock_change_nothing() {
    let streams = || -> Vec<Box<dyn Stream>> {
        vec![
            synthetic::random(1 << 32, 4 << 20, 20_000, 1),
            synthetic::shared_updates(1 << 30, 64 << 10, 2 << 32, 20_000, 2),
            synthetic::streaming(3 << 32, 1 << 20, 2, 4),
            synthetic::pointer_chase(4 << 32, 1 << 18, 20_000, 3),
        ]
    };
    let configuration = configuration(&[0, 32, 1, 16], PageMapping::FirstTouch, Prefetchers::ALL);
    let [without, with] = ["", "[[16, 2.6]]"].map(|steps| run(&model(steps), &configuration, streams()));
    assert_eq!(without, with);
}

#[test]
fn a_thread_that_moves_for_a_region_changes_the_clocks_of_both_packages() {
    let model = model("[[1, 3.9], [16, 2.6]]");
    let thread = |number: usize| -> Vec<Box<dyn Stream>> {
        let mut events = vec![Event::mark(EventKind::Mark, 0)];
        if number == 0 {
            events.push(Event::mark(EventKind::RegionBegin, 1));
        }
        events.extend([Event::barrier(1, 2), Event::mark(EventKind::ShareBegin, 1)]);
        // A clock changes between two events. So each event is short.
        events.extend((0..1000).map(|_| Event::instructions(INSTRUCTIONS / 10)));
        events.push(Event::barrier(2, 2));
        if number == 0 {
            events.push(Event::mark(EventKind::RegionEnd, 1));
        }
        events.push(Event::mark(EventKind::Mark, 0));
        vec![recorded(events)]
    };
    let seconds = |second: u32| {
        let place = RegionPlace {
            pus: vec![PuId(0), PuId(second)],
            prefetchers: Prefetchers::NONE,
        };
        let team = (0..2).flat_map(thread).collect();
        let marks = simulate_regions(
            &model,
            &configuration(&[0, 1], PageMapping::FirstTouch, Prefetchers::NONE),
            &RegionPlaces::from([(1, place)]),
            &HashMap::<u64, u8>::new(),
            vec![team],
            2,
            &Options::default(),
        );
        let marks = &marks.unwrap()[0];
        let [first, last] = [&marks.first, &marks.last].map(|mark| mark.as_ref().unwrap().seconds);
        last - first
    };
    let gain = seconds(1) / seconds(16);
    assert!(close(gain, 1.5), "{gain}");
}

#[test]
fn the_processor_time_of_a_computing_task_is_the_time() {
    let model = model(STEPS);
    let topology = model.topology();
    let run = RunSettings {
        repeat: Repeat::Times(NonZeroU64::new(1_000_000).unwrap()),
        exit_status: 0,
        seed: 0,
        noise: 0.0,
        kernel: Kernel::default(),
        numa_balancing: false,
    };
    let program = NamedProgram {
        name: "computing".to_owned(),
        program: Arc::new(Computing(100_000_000)),
    };
    let mut machine = SimulatedMachine::new(model, topology, vec![program], run);
    machine.wait(Duration::from_secs(1)).unwrap();
    let before = machine.observe().tasks[0].cpu_time.unwrap().as_secs_f64();
    machine.wait(Duration::from_secs(1)).unwrap();
    let passed = machine.observe().tasks[0].cpu_time.unwrap().as_secs_f64() - before;
    assert!(close(passed, 1.0), "{passed}");
}
