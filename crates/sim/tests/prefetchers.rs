//! What prefetchers do when memory is busy: a core's prefetches in flight are limited, so it issues fewer a second.
//! Against what the core itself requests they do not hold back (docs/design/simulation.md has the figures).

mod common;

use common::{configuration, recorded, run};
use pinfold_core::NodeId;
use pinfold_sim::model::{LINE_BYTES, Model, PAGE_BYTES, Prefetcher, builtin};
use pinfold_sim::window::{
    Event, Options, PageMapping, Prefetchers, Stream, WindowResult, simulate_with_pages, synthetic,
};
use std::collections::HashMap;

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

/// The model of four Xeon E5-4650 with prefetchers that do not hold back, and without clocks and waits.
fn unrestrained() -> Model {
    let mut model = builtin("e5-4650x4").unwrap();
    (model.core.turbo, model.memory.queueing) = (None, None);
    let prefetch = &mut model.prefetch;
    (prefetch.streamer_busy_distance, prefetch.streamer_l2_below) = (None, None);
    (prefetch.llc_in_flight, prefetch.adjacent_below, prefetch.l1_below) = (None, None, None);
    model
}

/// Threads on cores of their own, spread over the nodes, load from node 0.
fn prefetching(threads: u32, stream: fn(u64) -> Box<dyn Stream>) -> Prefetching {
    let model = unrestrained();
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

/// The optional keys of `[prefetch]`.
const OPTIONAL: [&str; 6] = [
    "streamer_busy_distance",
    "streamer_l2_below",
    "llc_in_flight",
    "next_page",
    "adjacent_below",
    "l1_below",
];

/// The model of two Xeon Gold 6142 with these optional keys of `[prefetch]` only, without its published figures.
fn skylake(keys: &[&str]) -> Model {
    let text = include_str!("../../../machines/gold-6142x2.toml");
    let (text, _) = text.split_once("[[published]]").unwrap();
    let removed = |line: &&str| {
        let key = line.split(" = ").next().unwrap_or_default();
        OPTIONAL.contains(&key) && !keys.contains(&key)
    };
    let lines: Vec<&str> = text.lines().filter(|line| !removed(line)).collect();
    Model::parse("skylake", &lines.join("\n")).unwrap()
}

/// Threads on cores of their own, each with its memory on its own node. The pages of loads in order were touched before.
fn local(model: &Model, threads: u32, prefetchers: Prefetchers, stream: fn(u64) -> Box<dyn Stream>) -> WindowResult {
    let pus: Vec<u32> = (0..threads).map(|thread| thread % 2 * 16 + thread / 2).collect();
    let pages = (0..threads).flat_map(|thread| {
        let first = (u64::from(thread) + 1) << 20;
        (first..first + LINES * LINE_BYTES / PAGE_BYTES).map(move |page| (page, (thread % 2) as u8))
    });
    let placed: HashMap<u64, u8> = pages.collect();
    let configuration = configuration(&pus, PageMapping::FirstTouch, prefetchers);
    let streams = (0..u64::from(threads)).map(stream).collect();
    simulate_with_pages(model, &configuration, None, &placed, streams, &Options::default()).unwrap()
}

/// How many times as fast all prefetchers make the threads.
fn gain(model: &Model, threads: u32, stream: fn(u64) -> Box<dyn Stream>) -> f64 {
    let seconds = |prefetchers| local(model, threads, prefetchers, stream).seconds;
    seconds(Prefetchers::NONE) / seconds(Prefetchers::ALL)
}

/// Loads of all words of the thread's own memory in order, with ten times as many instructions as `in_order` has.
fn in_order_with_work(thread: u64) -> Box<dyn Stream> {
    let base = (thread + 1) << 32;
    recorded((0..LINES * 8).map(|word| Event::read(base + word * 8, 8, 30)).collect())
}

#[test]
fn loads_in_order_gain_more_from_prefetchers_that_wait_than_from_those_that_drop_lines() {
    let (dropping, waiting) = (skylake(&[]), skylake(&OPTIONAL));
    let alone = |model| gain(model, 1, in_order);
    assert!(alone(&waiting) > 1.3 * alone(&dropping));
    let busy = |model| gain(model, 32, in_order);
    assert!(busy(&waiting) >= busy(&dropping), "the bandwidth of memory limits both");
    let held = gain(&waiting, 32, in_order_with_work);
    assert!(held > 2.0, "{held}: memory is busy, and prefetchers hide its latency");
}

#[test]
fn random_loads_on_busy_memory_lose_nothing_to_adjacent_lines_that_are_dropped() {
    let bandwidth_shared = gain(&skylake(&[]), 32, at_random);
    assert!(bandwidth_shared < 0.7, "{bandwidth_shared}");
    let held_back = gain(&skylake(&["adjacent_below"]), 32, at_random);
    assert!(held_back > 0.95, "{held_back}");
}

#[test]
fn the_first_lines_of_the_next_page_and_its_translation_are_there() {
    let misses = |keys: &[&str]| {
        let total = local(&skylake(keys), 1, Prefetchers::ALL, in_order_with_work).total();
        (total.levels[1].misses, total.tlb_misses)
    };
    let pages = LINES * LINE_BYTES / PAGE_BYTES;
    assert_eq!(misses(&[]), (pages, pages), "the first line of each page misses");
    assert_eq!(misses(&["next_page"]), (1, 1));
}

#[test]
fn lines_that_are_prefetched_to_the_last_level_cache_are_hits_there() {
    let model = skylake(&["streamer_l2_below", "llc_in_flight"]);
    let result = local(&model, 1, Prefetchers::only(Prefetcher::Streamer), in_order);
    let total = result.total();
    let (issued, useful) = (
        total.prefetches[Prefetcher::Streamer],
        total.useful_prefetches[Prefetcher::Streamer],
    );
    assert!(total.levels[2].hits > LINES / 8, "{total:?}");
    assert!(useful > issued * 9 / 10, "{total:?}");
    assert!(total.levels[2].misses < LINES / 8, "{total:?}");
    assert_eq!(
        total.dropped_prefetches, 0,
        "a line that finds no room is fetched later"
    );
    assert_eq!(total.prefetches_from_memory, issued);
    let lines = total.prefetches_from_memory + total.served.sum();
    assert_eq!(
        result.memory_bytes[0],
        lines * LINE_BYTES,
        "no line comes from memory twice"
    );
}

#[test]
fn lines_on_their_way_to_the_last_level_cache_count_as_served_by_their_memory() {
    let model = skylake(&OPTIONAL);
    // All threads load from node 0: those of node 1 from another node.
    let late = |threads: &[u32]| {
        let streams = threads.iter().map(|&thread| in_order(u64::from(thread))).collect();
        let configuration = configuration(threads, PageMapping::Single(NodeId(0)), Prefetchers::ALL);
        let counters = run(&model, &configuration, streams).total();
        let of_lines = counters
            .late_from_memory
            .map(|late| late as f64 / (threads.len() as f64 * LINES as f64));
        assert!(counters.late_from_memory.iter().sum::<u64>() <= counters.late_prefetches);
        of_lines
    };
    let pus = |node: usize| -> Vec<u32> {
        (0..32)
            .filter(|&pu| model.topology().nodes()[node].pus.contains(pinfold_core::PuId(pu)))
            .collect()
    };
    let (near, far) = (late(&pus(0)), late(&pus(1)));
    assert!(near[0] > 0.1 && near[1] == 0.0, "{near:?}");
    assert!(far[1] > 0.1 && far[0] == 0.0, "{far:?}");
}
