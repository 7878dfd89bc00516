//! What prefetchers do when memory is busy: a core's prefetches in flight are limited, so it issues fewer a second.
//! Against what the core itself requests they do not hold back (docs/design/simulation.md has the figures).

mod common;

use common::{configuration, recorded, run};
use pinfold_core::NodeId;
use pinfold_sim::model::builtin;
use pinfold_sim::window::{Event, PageMapping, Prefetchers, Stream, synthetic};

/// The lines that each thread loads.
const LINES: u64 = 4096;

/// What the prefetchers of all threads did.
#[derive(Debug)]
struct Prefetching {
    /// Issued prefetches for each line that a thread loads.
    issued: f64,
    /// The share of dropped ones of all that were wanted.
    dropped: f64,
    /// The share of issued ones that no thread used.
    useless: f64,
    /// Issued prefetches a second and core, in millions.
    rate: f64,
}

/// Threads on cores of their own, spread over the nodes, load from node 0.
fn prefetching(threads: u32, stream: fn(u64) -> Box<dyn Stream>) -> Prefetching {
    let model = builtin("e5-4650x4").unwrap();
    let pus: Vec<u32> = (0..threads).collect();
    let streams = (0..u64::from(threads)).map(stream).collect();
    let configuration = configuration(&pus, PageMapping::Single(NodeId(0)), Prefetchers::ALL);
    let result = run(&model, &configuration, streams);
    let total = result.total();
    let (issued, dropped) = (total.prefetches.sum() as f64, total.dropped_prefetches as f64);
    Prefetching {
        issued: issued / (f64::from(threads) * LINES as f64),
        dropped: dropped / (dropped + issued),
        useless: 1.0 - total.useful_prefetches.sum() as f64 / issued,
        rate: issued / f64::from(threads) / result.seconds / 1e6,
    }
}

/// Loads of all words of the thread's own memory in order.
fn in_order(thread: u64) -> Box<dyn Stream> {
    let base = (thread + 1) << 32;
    recorded((0..LINES * 8).map(|word| Event::read(base + word * 8, 8, 3)).collect())
}

/// Loads of random words of a large memory, which no cache holds.
fn at_random(thread: u64) -> Box<dyn Stream> {
    synthetic::random((thread + 1) << 32, 256 << 20, LINES, thread)
}

#[test]
fn a_stream_prefetches_less_a_second_on_busy_memory_and_as_much_against_its_own_loads() {
    let (alone, busy) = (prefetching(1, in_order), prefetching(32, in_order));
    assert!(busy.rate < 0.5 * alone.rate, "{alone:?} {busy:?}");
    assert!((busy.issued / alone.issued - 1.0).abs() < 0.1, "{alone:?} {busy:?}");
    assert!(
        alone.dropped > 0.4 && busy.dropped > 0.4,
        "the streamer wants more than may be in flight: {alone:?} {busy:?}"
    );
}

#[test]
fn useless_prefetches_of_random_loads_are_dropped_on_busy_memory_and_never_more_than_the_loads() {
    let (alone, busy) = (prefetching(1, at_random), prefetching(32, at_random));
    assert!(busy.rate < 0.5 * alone.rate, "{alone:?} {busy:?}");
    assert!(busy.dropped > alone.dropped, "{alone:?} {busy:?}");
    assert!(busy.issued < alone.issued && alone.issued <= 1.0, "{alone:?} {busy:?}");
    assert!(
        alone.useless > 0.99,
        "the adjacent line of a random one is not used: {alone:?}"
    );
}
