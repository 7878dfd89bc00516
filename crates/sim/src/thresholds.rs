//! The microbenchmarks for SAM's thresholds (Srikanthan, Dwarkadas and Shen, USENIX ATC 2015, sections 2.1 and 2.2), on
//! a simulated machine.
//!
//! - **Sharing** (figure 1): two threads take a lock in turn, change the data that it protects, and compute. The length
//!   of the computation determines the rate of coherence events. The threads run on two cores that share a last-level
//!   cache, and on two that do not.
//! - **Copying** (figure 2): tasks on the cores of one package copy their own arrays; one task, two, and so on. With
//!   *high* locality lines follow each other; with *low* locality each is 4 KiB after its predecessor.
//!
//! Each runs once to fill the caches, and then once more to be counted.
//!
//! The counted events are those that show coherence and memory demand to SAM on this processor (`[[metric]]` in
//! events/*.toml). Where no such events are known, lines that another last-level cache served and accesses that missed
//! the last-level cache are counted. Whether the latter include prefetched lines differs between processors. Rows of
//! memory chips are not modelled. Copying with low locality is slower because its prefetches are useless.

use crate::events::EventSet;
use crate::microbenchmarks::{cache_of_core, filled, place, pu_of_core};
use crate::model::{LINE_BYTES, Model, PAGE_BYTES};
use crate::timeline::Counter;
use crate::window::{
    Event, EventKind, Generated, Mark, Options, PageMapping, Prefetchers, Stream, WindowConfiguration, WindowError,
    simulate_teams, synthetic,
};
use pinfold_core::Pinning;
use std::collections::HashMap;

/// Accesses of each thread to the shared data.
const ACCESSES: u64 = 256;
/// Most instructions between two accesses. Each further point has half as many, and the last has none.
const MOST_WORK: u32 = 409_600;
/// The number of halvings.
const HALVINGS: u32 = 12;
/// Bytes that each task copies in the counted part.
const COPIED: u64 = 1 << 21;
const BASE: u64 = 1 << 30;

/// The effect of a common last-level cache on two threads that share data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharingPoint {
    /// Instructions between two accesses to the shared data.
    pub instructions: u32,
    /// Coherence events of a thread between last-level caches, per unhalted cycle, while the threads are on separate
    /// caches.
    pub events_per_cycle: f64,
    /// The speed with a common last-level cache divided by the speed with two, minus one.
    pub gain: f64,
}

/// The throughput of tasks that copy on one package.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CopyPoint {
    /// The number of tasks.
    pub tasks: usize,
    /// With lines that follow each other (high locality).
    pub high: Copied,
    /// With lines at a distance of 4 KiB (low locality).
    pub low: Copied,
}

/// The result of a copy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Copied {
    /// Bytes read per second, by all tasks together. The same number is written.
    pub bytes_per_second: f64,
    /// Accesses that missed the last-level cache per unhalted cycle, as the sum over all tasks.
    pub misses_per_cycle: f64,
}

/// Instructions between two accesses: the largest number first, then halves of it, finally none.
pub fn work() -> impl Iterator<Item = u32> {
    (0..HALVINGS).map(|halvings| MOST_WORK >> halvings).chain([0])
}

/// What two threads that share data gain from a common last-level cache, from rare accesses to frequent ones. `None` on
/// a machine with only one last-level cache, or with one for each core.
///
/// All cores have the base clock. With turbo two cores of one package have a lower clock than one of each, which is no
/// effect of the cache.
pub fn sharing(model: &Model) -> Result<Option<Vec<SharingPoint>>, WindowError> {
    let mut model = model.clone();
    model.core.turbo = None;
    let model = &model;
    let domain = |core: usize| model.domain_of_core(core);
    let other_package = (0..model.cores()).find(|&core| model.package_of_core(core) != model.package_of_core(0));
    let other_domain = (0..model.cores()).find(|&core| domain(core) != domain(0));
    let (Some(near), Some(far)) = (
        (1..model.cores()).find(|&core| domain(core) == domain(0)),
        other_package.or(other_domain),
    ) else {
        return Ok(None);
    };
    let otherwise = [Counter::OtherLlcClean, Counter::OtherLlcModified];
    let coherence = Metric::of(model, "inter_package_coherence", &otherwise);
    let point = |instructions: u32| {
        let together = share(model, [0, near], instructions)?;
        let apart = share(model, [0, far], instructions)?;
        Ok(SharingPoint {
            instructions,
            events_per_cycle: apart.per_cycle(&coherence) / 2.0,
            gain: apart.seconds / together.seconds - 1.0,
        })
    };
    work().map(point).collect::<Result<_, _>>().map(Some)
}

/// The throughput of copying on the first package, from one task to one on each core.
pub fn copying(model: &Model) -> Result<Vec<CopyPoint>, WindowError> {
    let cores: Vec<usize> = (0..model.cores())
        .filter(|&core| model.package_of_core(core) == 0)
        .collect();
    let point = |tasks: usize| {
        Ok(CopyPoint {
            tasks,
            high: copy(model, &cores[..tasks], true)?,
            low: copy(model, &cores[..tasks], false)?,
        })
    };
    numbers_of_tasks(cores.len()).map(point).collect()
}

/// All numbers up to eight, then even numbers, and the last: they show where the curve bends and where it ends.
pub fn numbers_of_tasks(cores: usize) -> impl Iterator<Item = usize> {
    (1..=cores).filter(move |&tasks| tasks <= 8 || tasks % (cores / 8).max(2) == 0 || tasks == cores)
}

/// A metric of SAM on a processor.
struct Metric {
    add: Vec<Counter>,
    subtract: Vec<Counter>,
}

impl Metric {
    /// The metric `name` of the model's processor; the sum of `otherwise` if none is known.
    fn of(model: &Model, name: &str, otherwise: &[Counter]) -> Self {
        let unknown = || Self {
            add: otherwise.to_vec(),
            subtract: vec![],
        };
        let set = EventSet::for_processor(&model.name);
        let Some((set, metric)) = set.as_ref().and_then(|set| Some((set, set.metric(name)?))) else {
            return unknown();
        };
        let counters = |events: &[String]| {
            let defined = set.events.iter().filter(|event| events.contains(&event.name));
            defined.flat_map(|event| event.counters.clone()).collect()
        };
        Self {
            add: counters(&metric.add),
            subtract: counters(&metric.subtract),
        }
    }
}

/// What threads did between two marks.
struct CountsBetweenMarks {
    seconds: f64,
    /// By thread.
    counts: Vec<[f64; Counter::NUMBER]>,
}

impl CountsBetweenMarks {
    fn between(model: &Model, first: &Mark, last: &Mark) -> Self {
        let levels = model.caches.len();
        let threads = first.threads.iter().zip(&last.threads);
        Self {
            seconds: last.seconds - first.seconds,
            counts: threads
                .map(|(first, last)| {
                    let (first, last) = (Counter::all(first, levels), Counter::all(last, levels));
                    std::array::from_fn(|counter| last[counter] - first[counter])
                })
                .collect(),
        }
    }

    /// A metric per unhalted cycle, added up over the threads.
    fn per_cycle(&self, metric: &Metric) -> f64 {
        let rate = |counts: &[f64; Counter::NUMBER]| {
            let sum = |counters: &[Counter]| counters.iter().map(|&counter| counts[counter as usize]).sum::<f64>();
            (sum(&metric.add) - sum(&metric.subtract)) / counts[Counter::Cycles as usize]
        };
        self.counts.iter().map(rate).sum()
    }
}

/// Runs one stream on each of `cores`. Returns the counts of the streams between the first mark and the second.
fn run(
    model: &Model,
    cores: &[usize],
    placed: &HashMap<u64, u8>,
    streams: Vec<Box<dyn Stream>>,
) -> Result<CountsBetweenMarks, WindowError> {
    let pus = cores.iter().map(|&core| pu_of_core(model, core)).collect();
    let configuration = WindowConfiguration {
        pinning: Pinning::new(pus).ok_or(WindowError::NoThreads)?,
        pages: PageMapping::FirstTouch,
        prefetchers: Prefetchers::ALL,
    };
    let teams = simulate_teams(model, &configuration, placed, vec![streams], 2, &Options::default())?;
    let marks = teams
        .first()
        .and_then(|team| team.first.as_ref().zip(team.last.as_ref()));
    let (first, last) = marks.expect("every stream here has two marks");
    Ok(CountsBetweenMarks::between(model, first, last))
}

/// `stream` once, a mark, `stream` again, and a mark.
fn twice(stream: impl Fn(u64) -> Box<dyn Stream>) -> Box<dyn Stream> {
    let mark = || -> Box<dyn Stream> { Box::new(crate::window::Recorded::new(vec![Event::mark(EventKind::Mark, 0)])) };
    synthetic::sequence(vec![stream(0), mark(), stream(1), mark()])
}

fn share(model: &Model, cores: [usize; 2], instructions: u32) -> Result<CountsBetweenMarks, WindowError> {
    let streams = (0..2).map(|thread| twice(|_| accesses(thread, instructions))).collect();
    run(model, &cores, &HashMap::new(), streams)
}

/// One of two threads that take turns. A token represents a ticket lock, which passes to the waiting thread.
fn accesses(thread: u64, instructions: u32) -> Box<dyn Stream> {
    const LOCK: u64 = BASE;
    const DATA: u64 = BASE + 2 * LINE_BYTES;
    let (mut access, mut step) = (0, 0);
    Box::new(Generated::new(move || {
        if access == ACCESSES {
            return None;
        }
        let turn = 2 * access + thread;
        let event = match step {
            0 => Event::instructions(instructions.max(1)),
            1 if turn > 0 => Event::mark(EventKind::Wait, turn - 1),
            1 => Event::instructions(1),
            2 => Event::locked(LOCK, 8, 4),
            3 => Event::read(DATA, 8, 4),
            4 => Event::write(DATA, 8, 2),
            5 => Event::write(LOCK + 8, 8, 2),
            _ => Event::mark(EventKind::Signal, turn),
        };
        step = (step + 1) % 7;
        access += u64::from(step == 0);
        Some(event)
    }))
}

fn copy(model: &Model, cores: &[usize], high: bool) -> Result<Copied, WindowError> {
    let fill = filled(cache_of_core(model, cores)).next_multiple_of(BLOCK);
    // The distance is three pages more than a multiple of sixteen pages, so no two arrays use the same sets of the
    // caches at the same time.
    let length = (fill + COPIED).next_multiple_of(16 * PAGE_BYTES) + 3 * PAGE_BYTES;
    let mut placed = HashMap::new();
    let mut streams = vec![];
    for (task, &core) in cores.iter().enumerate() {
        let from = BASE + 2 * task as u64 * length;
        place(&mut placed, from, 2 * length, model.node_of_core(core));
        streams.push(twice(|part| match part {
            0 => lines(from, from + length, fill, high),
            _ => lines(from + fill, from + length + fill, COPIED, high),
        }));
    }
    let counted = run(model, cores, &placed, streams)?;
    let memory = Metric::of(model, "memory_bandwidth", &[Counter::LlcMisses]);
    Ok(Copied {
        bytes_per_second: (cores.len() as u64 * COPIED) as f64 / counted.seconds,
        misses_per_cycle: counted.per_cycle(&memory),
    })
}

/// Pages that are copied line by line with low locality, before the next ones.
const PAGES: u64 = 256;
/// Their bytes.
const BLOCK: u64 = PAGES * PAGE_BYTES;

/// Bytes that a vector move reads or writes.
const MOVE: u64 = 16;
const MOVES: u64 = LINE_BYTES / MOVE;
/// Instructions of a vector move, with those of the loop around it. The number determines how far a core runs ahead of
/// its prefetchers. So it also determines the share of lines that count as misses where prefetched lines do not: more
/// computation, fewer misses. Assumed.
const MOVE_INSTRUCTIONS: u32 = 8;

/// Copies `bytes` in whole blocks, line by line: in ascending order, or one line of each page of a block at a time.
/// Each line is read and then written, as in `memcpy()`.
fn lines(from: u64, to: u64, bytes: u64, high: bool) -> Box<dyn Stream> {
    let mut next = 0;
    Box::new(Generated::new(move || {
        let (line, step) = (next / (2 * MOVES), next % (2 * MOVES));
        let offset = if high {
            line * LINE_BYTES
        } else {
            let (block, within) = (line * LINE_BYTES / BLOCK, line % (BLOCK / LINE_BYTES));
            block * BLOCK + within % PAGES * PAGE_BYTES + within / PAGES * LINE_BYTES
        };
        next += 1;
        (line * LINE_BYTES < bytes).then(|| {
            if step < MOVES {
                Event::read(from + offset + step * MOVE, 16, MOVE_INSTRUCTIONS)
            } else {
                Event::write(to + offset + (step - MOVES) * MOVE, 16, MOVE_INSTRUCTIONS)
            }
        })
    }))
}
