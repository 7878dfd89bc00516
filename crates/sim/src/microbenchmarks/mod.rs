//! Microbenchmarks on a simulated machine, like those of Intel's Memory Latency Checker, lmbench and STREAM on a real
//! one. They use the same caches, directory, memory and links as a recording.
//!
//! - **Latency of a cache**: follows a pointer chain through half of the cache, in random order within each page, often
//!   enough that the first, cold pass does not matter.
//! - **Latency of memory**: follows such a chain through untouched memory on one node.
//! - **Latency of another core's cache**: that core reads or writes a quarter of its private caches. Then core 0
//!   follows a chain through these lines. Their memory is on the other core's node.
//! - **Exchange**: two cores write the same word in turn, as with compare-and-swap. The result is half the time of a
//!   round.
//! - **Bandwidth**: every core goes through its own arrays. With stores, the cores first fill the caches in the same
//!   manner, so that as many modified lines leave the caches as enter them. No array is read twice, so the size of the
//!   caches changes only how long the filling takes. Small caches are used here.
//! - **Latency under load**: `loaded` has the steps.
//!
//! Prefetchers are off for idle latencies, as the tools switch them off, and on for bandwidths and loads. One PU of
//! each core runs.

mod compare;
mod loaded;

use crate::model::{Cores, LINE_BYTES, Measure, Mix, Model, PAGE_BYTES, Published, Size, Target};
use crate::window::{
    Event, EventKind, Options, PageMapping, Prefetchers, Recorded, Stream, WindowConfiguration, WindowError,
    WindowResult, simulate_with_pages, synthetic,
};
use pinfold_core::{Pinning, PuId};
use std::collections::{BTreeSet, HashMap};

pub use compare::{Comparison, MeasureError, none_found};

/// The region that is timed.
const TIMED: u64 = 1;
/// The token that signals another core that the lines are in this core's cache.
const READY: u64 = 1 << 40;
/// Base address of the arrays. Each array has its own pages.
const BASE: u64 = 1 << 30;
/// The least number of timed loads of a chain.
const LOADS: u64 = 1 << 16;
/// The least number of bytes that the timed part of a bandwidth moves, through all cores and through each core.
const MOVED: u64 = 32 << 20;
const MOVED_BY_CORE: u64 = 512 << 10;
/// The largest capacity of a core in the second level where arrays are stored to. It doubles for each further level.
const SMALL_CACHE: u64 = 128 << 10;
/// The caches are filled with this multiple of their size before a bandwidth with stores is timed.
const FILL: f64 = 1.25;
/// Rounds of an exchange.
const ROUNDS: u64 = 1000;
/// The seed of the order of every chain.
const SEED: u64 = 7;

/// A measured figure beside the published one.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    /// What was measured.
    pub measure: Measure,
    /// The simulated result, in seconds or bytes per second.
    pub simulated: f64,
    /// The published figure, if there is one.
    pub published: Option<&'a Published>,
}

impl Row<'_> {
    /// How much the simulated figure exceeds the published one, in percent of the published one.
    pub fn difference_percent(&self, model: &Model) -> Option<f64> {
        let published = self.published?.value(model);
        Some((self.simulated / published - 1.0) * 100.0)
    }
}

/// The measures that exist on every machine of this shape, and the others that were published for this one.
pub fn measures(model: &Model) -> Vec<Measure> {
    let there = |target: &&Target| model.has(**target);
    let latencies = Target::ALL.iter().filter(there).map(|&of| Measure::Latency(of));
    let mut all: BTreeSet<Measure> = latencies.collect();
    for &of in Target::ALL.iter().filter(there).filter(|target| target.is_memory()) {
        let mix = Mix::Reads;
        all.insert(Measure::Bandwidth {
            of,
            by: Cores::Node,
            mix,
        });
        if of == Target::LocalMemory {
            for by in [Cores::One, Cores::Machine] {
                all.insert(Measure::Bandwidth { of, by, mix });
            }
        }
    }
    all.extend(model.published.iter().map(|published| published.measure));
    all.into_iter().collect()
}

/// Simulates `measure`, which the machine must have. The result is in seconds or bytes per second.
pub fn measure(model: &Model, measure: Measure) -> Result<f64, WindowError> {
    let cycles_a_second = model.frequency().0;
    match measure {
        Measure::Latency(of) => {
            let cycles = if let Some(level) = of.cache_level() {
                cache_latency(model, level)
            } else if of.is_memory() {
                memory_latency(model, of)
            } else {
                core_latency(model, of)
            };
            Ok(cycles? / cycles_a_second)
        }
        Measure::Bandwidth { of, by, mix } => bandwidth(model, of, by, mix),
        Measure::LoadedLatency { of, by, mix, megabytes } => {
            let load = loaded::Load { of, by, mix };
            loaded::latency(model, load, f64::from(megabytes) * 1e6)
        }
    }
}

/// The PU that represents a core: its first.
pub(crate) fn pu_of_core(model: &Model, core: usize) -> PuId {
    let pus = u32::try_from(model.pus()).unwrap_or(u32::MAX);
    let pu = (0..pus).find(|&pu| model.core_of_pu(pu) == Some((core, 0)));
    PuId(pu.expect("every core has a first PU"))
}

/// Runs one stream on each of `cores`. Pages in `placed` are on the given nodes, all others are placed by first touch.
fn run(
    model: &Model,
    cores: &[usize],
    placed: &HashMap<u64, u8>,
    prefetchers: Prefetchers,
    streams: Vec<Box<dyn Stream>>,
) -> Result<WindowResult, WindowError> {
    let pus = cores.iter().map(|&core| pu_of_core(model, core)).collect();
    let configuration = WindowConfiguration {
        pinning: Pinning::new(pus).expect("there is a core"),
        pages: PageMapping::FirstTouch,
        prefetchers,
    };
    simulate_with_pages(model, &configuration, None, placed, streams, &Options::default())
}

fn marks(events: Vec<Event>) -> Box<dyn Stream> {
    Box::new(Recorded::new(events))
}

/// `stream` within the timed region.
fn timed(stream: Box<dyn Stream>) -> Vec<Box<dyn Stream>> {
    vec![
        marks(vec![Event::mark(EventKind::RegionBegin, TIMED)]),
        stream,
        marks(vec![Event::mark(EventKind::RegionEnd, TIMED)]),
    ]
}

/// Cycles from the first thread's begin of the timed region to the last thread's end of it.
fn elapsed(result: &WindowResult) -> f64 {
    let begin = result
        .regions
        .iter()
        .map(|span| span.begin)
        .fold(f64::INFINITY, f64::min);
    let end = result.regions.iter().map(|span| span.end).fold(0.0, f64::max);
    end - begin
}

/// Puts all pages of `bytes` from `base` on `node`.
pub(crate) fn place(placed: &mut HashMap<u64, u8>, base: u64, bytes: u64, node: usize) {
    let node = u8::try_from(node).expect("there are at most 64 nodes");
    let pages = base / PAGE_BYTES..=(base + bytes) / PAGE_BYTES;
    placed.extend(pages.map(|page| (page, node)));
}

fn cache_latency(model: &Model, level: usize) -> Result<f64, WindowError> {
    let bytes = model.caches[level].size.value().0 / 2;
    let lines = bytes / LINE_BYTES;
    let loads = LOADS.div_ceil(lines) * lines;
    let mut streams = vec![synthetic::pointer_chase(BASE, bytes, lines, SEED)];
    streams.extend(timed(synthetic::pointer_chase(BASE, bytes, loads, SEED)));
    let result = run(
        model,
        &[0],
        &HashMap::new(),
        Prefetchers::NONE,
        vec![synthetic::sequence(streams)],
    )?;
    Ok(elapsed(&result) / loads as f64)
}

fn memory_latency(model: &Model, of: Target) -> Result<f64, WindowError> {
    let node = model
        .target_node(&model.routes(), of, 0)
        .expect("the caller asks for an existing target");
    let mut placed = HashMap::new();
    place(&mut placed, BASE, LOADS * LINE_BYTES, node);
    let chain = synthetic::pointer_chase(BASE, LOADS * LINE_BYTES, LOADS, SEED);
    let stream = synthetic::sequence(timed(chain));
    let result = run(model, &[0], &placed, Prefetchers::NONE, vec![stream])?;
    Ok(elapsed(&result) / LOADS as f64)
}

fn core_latency(model: &Model, of: Target) -> Result<f64, WindowError> {
    let core = model
        .target_core(&model.routes(), of)
        .expect("the caller asks for an existing target");
    let run = |streams| run(model, &[0, core], &HashMap::new(), Prefetchers::NONE, streams);
    let write = match of {
        Target::SameDomainExchange | Target::SamePackageExchange | Target::OtherPackageExchange => {
            let partners = (0..2).map(|thread| synthetic::exchange(BASE, ROUNDS, thread, READY));
            let result = run(partners.collect())?;
            return Ok(result.cycles / (2 * ROUNDS) as f64);
        }
        Target::SameDomainModified | Target::SamePackageModified | Target::OtherPackageModified => true,
        _ => false,
    };
    let private = &model.caches[model.caches.len() - 2];
    let lines = private.size.value().0 / 4 / LINE_BYTES;
    let hold = (0..lines).map(|line| {
        let address = BASE + line * LINE_BYTES;
        if write {
            Event::write(address, 8, 1)
        } else {
            Event::read(address, 8, 1)
        }
    });
    let holder = synthetic::sequence(vec![
        marks(hold.collect()),
        marks(vec![Event::mark(EventKind::Signal, READY)]),
    ]);
    let chain = synthetic::pointer_chase(BASE, lines * LINE_BYTES, lines, SEED);
    let mut reader = vec![marks(vec![Event::mark(EventKind::Wait, READY)])];
    reader.extend(timed(chain));
    let result = run(vec![synthetic::sequence(reader), holder])?;
    Ok(elapsed(&result) / lines as f64)
}

/// The cores of a measure.
fn cores_of(model: &Model, by: Cores) -> Vec<usize> {
    (0..model.cores())
        .filter(|&core| match by {
            Cores::One => core == 0,
            Cores::Node => model.node_of_core(core) == 0,
            Cores::Package => model.package_of_core(core) == 0,
            Cores::Machine => true,
        })
        .collect()
}

fn bandwidth(model: &Model, of: Target, by: Cores, mix: Mix) -> Result<f64, WindowError> {
    let cores = cores_of(model, by);
    // The arrays: how many are read, counted from the first; which one is written; how many arrays' bytes count.
    let (arrays, reads, written, counted) = match mix {
        Mix::Reads => (1, 1, None, 1),
        Mix::Copy => (2, 1, Some(1), 2),
        Mix::CopyTraffic => (2, 1, Some(1), 3),
        Mix::Triad => (3, 2, Some(2), 3),
        Mix::TriadTraffic => (3, 2, Some(2), 4),
        Mix::VectorTriad => (4, 3, Some(3), 4),
    };
    let share = |bytes: u64| (bytes / arrays).next_multiple_of(PAGE_BYTES);
    let bytes = share((MOVED / cores.len() as u64).max(MOVED_BY_CORE));
    let model = &written.map_or_else(|| model.clone(), |_| with_small_caches(model));
    let fill = written.map_or(0, |_| share(filled(cache_of_core(model, &cores))));
    let routes = model.routes();
    let mut placed = HashMap::new();
    let mut streams = vec![];
    for (thread, &core) in cores.iter().enumerate() {
        let node = model
            .target_node(&routes, of, model.node_of_core(core))
            .expect("the caller asks for an existing target");
        // The distance is three pages more than a multiple of sixteen pages. So no two arrays use the same sets of the
        // caches or the same slot of the stride tracker at the same time.
        let length = (fill + bytes).next_multiple_of(16 * PAGE_BYTES) + 3 * PAGE_BYTES;
        let base = BASE + thread as u64 * arrays * length;
        place(&mut placed, base, arrays * length, node);
        let array = |index: u64, offset: u64| base + index * length + offset;
        let kernel = |offset: u64, bytes: u64| {
            let reads = (0..reads).map(|index| array(index, offset)).collect();
            synthetic::vector_loop(reads, written.map(|index| array(index, offset)), bytes)
        };
        let members = u16::try_from(cores.len()).expect("a checked model has at most 1024 cores");
        let mut parts = vec![kernel(0, fill), marks(vec![Event::barrier(1, members)])];
        parts.extend(timed(kernel(fill, bytes)));
        streams.push(synthetic::sequence(parts));
    }
    let result = run(model, &cores, &placed, Prefetchers::ALL, streams)?;
    let moved = (cores.len() as u64 * bytes * counted) as f64;
    Ok(moved / elapsed(&result) * model.frequency().0)
}

/// The number of bytes that fill a cache.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a positive number of bytes of some megabytes"
)]
pub(crate) fn filled(cache: u64) -> u64 {
    (cache as f64 * FILL) as u64
}

/// A core's part of the capacity of all caches, when `cores` share them.
pub(crate) fn cache_of_core(model: &Model, cores: &[usize]) -> u64 {
    let last = model.caches.len() - 1;
    let domains: BTreeSet<usize> = cores.iter().map(|&core| model.domain_of_core(core)).collect();
    let private: u64 = model.caches[..last].iter().map(|cache| cache.size.value().0).sum();
    private + model.caches[last].size.value().0 * domains.len() as u64 / cores.len() as u64
}

/// The same machine with caches of fewer sets.
fn with_small_caches(model: &Model) -> Model {
    let mut model = model.clone();
    for (level, cache) in model.caches.iter_mut().enumerate().skip(1) {
        let set = u64::from(cache.ways.value().0) * LINE_BYTES;
        let most = (SMALL_CACHE << (level - 1)) * u64::from(cache.cores.value().0);
        let size = cache.size.value().0;
        cache.size = cache.size.with(Size(size.min(most.next_multiple_of(set))));
    }
    model
}
