//! Threads on the PUs of one core, and the gain of a second one by the kind of work, beside published figures.
//!
//! RRZE measured loads and copies with one and with two threads on a core (kerncraft machine files of the Xeon E5-2660
//! v2 and of the Xeon Gold 6148, which has the core of the Gold 6142). The work of the two threads together is
//! relative to that of one thread alone.

mod common;

use common::{configuration, recorded, run};
use pinfold_sim::model::{Model, builtin};
use pinfold_sim::window::{Event, EventKind, PageMapping, Prefetchers, Stream, synthetic};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// The base of the first array.
const BASE: u64 = 1 << 30;
/// The distance of the arrays that are read and written.
const APART: u64 = 1 << 32;

/// The work of two threads of core 0 in a second, relative to that of one. `work` makes a thread's stream from the base
/// and the bytes of its part of an array of `bytes`.
fn gain(model: &Model, bytes: u64, prefetchers: Prefetchers, work: impl Fn(u64, u64) -> Box<dyn Stream>) -> f64 {
    let all = 0..u32::try_from(model.pus()).unwrap();
    let pus: Vec<u32> = all.filter(|&pu| model.core_of_pu(pu).unwrap().0 == 0).collect();
    let seconds = |threads: usize| {
        let part = bytes / threads as u64;
        let bases = (0..threads as u64).map(|thread| BASE + thread * (part + 3 * 4096));
        let configuration = configuration(&pus[..threads], PageMapping::FirstTouch, prefetchers);
        run(model, &configuration, bases.map(|base| work(base, part)).collect()).seconds
    };
    seconds(1) / seconds(2)
}

/// The gain of loads from an array of `bytes` that is read `passes` times.
fn gain_of_loads(model: &Model, bytes: u64, passes: usize) -> f64 {
    let one_pass = |base, bytes| synthetic::vector_loop(vec![base], None, bytes);
    gain(model, bytes, Prefetchers::ALL, |base, bytes| {
        synthetic::sequence((0..passes).map(|_| one_pass(base, bytes)).collect())
    })
}

/// The gain of a copy within memory.
fn gain_of_a_copy(model: &Model) -> f64 {
    gain(model, 32 * MIB, Prefetchers::ALL, |base, bytes| {
        synthetic::vector_loop(vec![base], Some(base + APART), bytes)
    })
}

#[track_caller]
fn assert_near(what: &str, simulated: f64, expected: f64, share: f64) {
    let ratio = simulated / expected;
    assert!(
        (ratio - 1.0).abs() <= share,
        "{what}: {simulated:.2} is no {expected:.2}"
    );
}

/// Whether `a` is within the share `tolerance` of `b`.
fn within(a: f64, b: f64, tolerance: f64) -> bool {
    (a / b - 1.0).abs() <= tolerance
}

#[test]
fn siblings_share_their_core() {
    let mut model = builtin("e5-2660v2x2").unwrap();
    // The same clock for one core and for two.
    model.core.turbo = None;
    let work = || recorded(vec![Event::instructions(1000); 2000]);
    let time = |pus: &[u32]| {
        let configuration = configuration(pus, PageMapping::FirstTouch, Prefetchers::ALL);
        run(&model, &configuration, pus.iter().map(|_| work()).collect()).seconds
    };
    let (alone, apart, together) = (time(&[0]), time(&[0, 1]), time(&[0, 20]));
    assert!(within(apart, alone, 0.001));
    // Two siblings do 1.25 times the work of one.
    assert!(within(together, alone * 2.0 / 1.25, 0.01), "{together} {alone}");
    // One sibling finds in the L1 what the other fetched.
    let configuration = configuration(&[0, 20], PageMapping::FirstTouch, Prefetchers::NONE);
    let reader = |after: bool| {
        let mut events = vec![];
        if after {
            events.push(Event::mark(EventKind::Wait, 1));
        }
        events.extend((0..64).map(|line| Event::read((1 << 30) + line * 64, 8, 1)));
        events.push(Event::mark(EventKind::Signal, 1 + u64::from(after)));
        recorded(events)
    };
    let result = run(&model, &configuration, vec![reader(false), reader(true)]);
    assert_eq!(result.threads[1].levels[0].misses, 0);
}

#[test]
fn siblings_with_halves_of_the_buffers_hide_less_latency() {
    let mut model = builtin("gold-6142x2").unwrap();
    let halved = model.core.smt_buffers.take();
    assert_eq!(halved.as_ref().map(|share| share.value().0), Some(0.5));
    let whole = model.clone();
    model.core.smt_buffers = halved;
    // A long stride: no load depends on another, and the reorder buffer has room for the instructions of few of them.
    let loads = |thread: u64| {
        let base = (1 + thread) << 30;
        recorded(
            (0..4000)
                .map(|load| Event::read(base + load * 64 * 65, 8, 60))
                .collect(),
        )
    };
    let time = |model: &Model, pus: &[u32]| {
        let configuration = configuration(pus, PageMapping::FirstTouch, Prefetchers::NONE);
        run(
            model,
            &configuration,
            (0..).zip(pus).map(|(thread, _)| loads(thread)).collect(),
        )
        .seconds
    };
    assert!(time(&model, &[0, 32]) > 1.4 * time(&whole, &[0, 32]));
    assert!(
        within(time(&model, &[0, 1]), time(&whole, &[0, 1]), 1e-9),
        "they are not siblings"
    );
}

#[test]
fn pairs_of_threads_gain_about_as_much_as_was_published() {
    let ivy_bridge = builtin("e5-2660v2x2").unwrap();
    // 34.33 and 33.95, 15.36 and 19.81, 14.88 and 17.22, 9.48 and 12.56, 9.65 and 8.74 GB/s.
    for (what, simulated, published) in [
        ("loads from L1", gain_of_loads(&ivy_bridge, 16 * KIB, 2000), 0.99),
        ("loads from L2", gain_of_loads(&ivy_bridge, 128 * KIB, 200), 1.29),
        ("loads from L3", gain_of_loads(&ivy_bridge, 4 * MIB, 8), 1.16),
        ("loads from memory", gain_of_loads(&ivy_bridge, 64 * MIB, 1), 1.32),
        ("copy", gain_of_a_copy(&ivy_bridge), 0.91),
    ] {
        assert_near(what, simulated, published, 0.3);
    }
    let skylake = builtin("gold-6142x2").unwrap();
    // 254 and 258, 14.3 and 14.6 GB/s.
    for (what, simulated, published) in [
        ("loads from L1", gain_of_loads(&skylake, 16 * KIB, 2000), 1.01),
        ("loads from memory", gain_of_loads(&skylake, 64 * MIB, 1), 1.02),
    ] {
        assert_near(what, simulated, published, 0.3);
    }
}

/// A load that depends on the one before leaves the core's buffers to the other thread.
#[test]
fn pairs_that_wait_for_dependent_loads_do_twice_the_work() {
    for name in ["e5-2660v2x2", "gold-6142x2", "epyc-9654x2"] {
        let gain = gain(&builtin(name).unwrap(), 16 * MIB, Prefetchers::NONE, |base, bytes| {
            synthetic::pointer_chase(base, bytes, bytes / 64, 7)
        });
        assert_near(name, gain, 2.0, 0.1);
    }
}
