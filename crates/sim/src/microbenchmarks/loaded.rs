//! The latency of memory under load, like the loaded latencies of Intel's Memory Latency Checker.
//!
//! 1. Core 0 follows a chain through memory. Each of its pages is visited in turn, in random order, and one line of two
//!    is read. So prefetchers fetch nothing that the chain uses. The first round fills the translation buffer, and the
//!    load becomes steady meanwhile. The following rounds are timed.
//! 2. The other cores read streams, or read one and write another for `copy_traffic`, with instructions between two
//!    lines that set the bandwidth. Where they write, they first fill the caches with modified lines, so that as many
//!    leave the caches as enter them, and small caches are used.
//! 3. All bytes that the memories move while the chain is timed are the bandwidth.
//! 4. The number of instructions is corrected until the bandwidth is the wanted one. If no number gives it, the latency
//!    is on the straight line between the two nearest bandwidths.

use super::{BASE, SEED, TIMED, cache_of_core, cores_of, elapsed, filled, marks, place, run, timed, with_small_caches};
use crate::model::{Cores, LINE_BYTES, Mix, Model, PAGE_BYTES, Target};
use crate::window::{Event, Generated, Prefetchers, Stream, WindowError, synthetic};
use pinfold_core::random::Random;
use std::cell::Cell;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

/// The least number of timed loads of the chain.
const LOADS: u64 = 1024;
/// The most pages of the chain.
const PAGES: u64 = 512;
/// Lines of a page that the chain reads: one of two.
const LINES: u64 = PAGE_BYTES / LINE_BYTES / 2;
/// The distance of the arrays of two cores.
const APART: u64 = 1 << 36;
/// Trials of one bandwidth.
const TRIALS: usize = 8;
/// A trial is near enough if its bandwidth is off by less than this share.
const NEAR: f64 = 0.02;
/// The most instructions between two lines.
const MOST_INSTRUCTIONS: f64 = 1e6;

/// Which cores use which memory, and how.
#[derive(Clone, Copy)]
pub(super) struct Load {
    /// The memory.
    pub(super) of: Target,
    /// The cores. The first of them follows the chain.
    pub(super) by: Cores,
    /// The accesses of the others: `Reads` or `CopyTraffic`.
    pub(super) mix: Mix,
}

impl Load {
    /// Lines that memory moves for each step of a core's stream.
    fn lines_of_a_step(self) -> u32 {
        if self.mix == Mix::Reads { 1 } else { 3 }
    }
}

/// A trial: the instructions between two lines, the bandwidth in bytes per second, and the latency in seconds.
#[derive(Clone, Copy)]
struct Trial {
    instructions: f64,
    bandwidth: f64,
    latency: f64,
}

/// The latency of memory for core 0 in seconds, while the cores of `load` together use `bandwidth` bytes per second. If
/// they cannot use as much, it is the latency at the highest bandwidth.
pub(super) fn latency(model: &Model, load: Load, bandwidth: f64) -> Result<f64, WindowError> {
    let loading = (cores_of(model, load.by).len() - 1) as f64;
    let instruction = model.core.base_cpi.value().0 / model.frequency().0;
    // The time from one step of a core to its next one, beside a chain with this latency, which never pauses.
    let period = |bandwidth: f64, latency: f64| {
        let line = LINE_BYTES as f64;
        loading * f64::from(load.lines_of_a_step()) * line / (bandwidth - line / latency).max(1.0)
    };
    let idle = model.memory.latency.value().cycles(model.frequency()) / model.frequency().0;
    let mut instructions = period(bandwidth, idle) / instruction;
    let (mut slower, mut faster): (Option<Trial>, Option<Trial>) = (None, None);
    for _ in 0..TRIALS {
        let whole = instructions.clamp(1.0, MOST_INSTRUCTIONS).round();
        let trial = trial(model, load, whole)?;
        if (trial.bandwidth / bandwidth - 1.0).abs() < NEAR {
            return Ok(trial.latency);
        }
        if trial.bandwidth < bandwidth {
            slower = Some(trial);
        } else {
            faster = Some(trial);
        }
        let most = slower.map_or(MOST_INSTRUCTIONS, |trial| trial.instructions - 1.0);
        let least = faster.map_or(1.0, |trial| trial.instructions + 1.0);
        if least > most {
            break;
        }
        // Stalls add to the time of the instructions, and hardly change with their number.
        let stalls = period(trial.bandwidth, trial.latency) - whole * instruction;
        instructions = ((period(bandwidth, trial.latency) - stalls) / instruction).clamp(least, most);
    }
    Ok(match (slower, faster) {
        (Some(slower), Some(faster)) => {
            let share = (bandwidth - slower.bandwidth) / (faster.bandwidth - slower.bandwidth);
            slower.latency + share * (faster.latency - slower.latency)
        }
        (only, other) => only.or(other).map_or(idle, |trial| trial.latency),
    })
}

/// Simulates the load with this number of instructions between two lines that a core reads.
fn trial(model: &Model, load: Load, instructions: f64) -> Result<Trial, WindowError> {
    let reads = load.mix == Mix::Reads;
    let model = &if reads { model.clone() } else { with_small_caches(model) };
    let cores = cores_of(model, load.by);
    let routes = model.routes();
    let mut placed = HashMap::new();
    let mut put = |thread: u64, core: usize, bytes: u64| {
        let node = model
            .target_node(&routes, load.of, model.node_of_core(core))
            .expect("the caller asks for an existing target");
        let base = BASE + thread * APART;
        place(&mut placed, base, bytes, node);
        base
    };
    let pages = PAGES.min(u64::from(model.tlb.entries.value().0) / 2).max(1);
    let rounds = LOADS.div_ceil(pages).min(LINES - 1);
    let base = put(0, cores[0], pages * PAGE_BYTES);
    let ended = Rc::new(Cell::new(false));
    let members = u16::try_from(cores.len()).expect("a checked model has at most 1024 cores");
    let filling_done = || marks(vec![Event::barrier(1, members)]);
    let mut parts = vec![filling_done(), chain(base, pages, 0..1)];
    parts.extend(timed(chain(base, pages, 1..rounds + 1)));
    parts.push(at_end(&ended));
    let mut streams = vec![synthetic::sequence(parts)];
    // Twice as much as the caches hold, so that no line is found in them.
    let bytes = (2 * filled(cache_of_core(model, &cores))).next_multiple_of(PAGE_BYTES);
    for (thread, &core) in cores.iter().enumerate().skip(1) {
        // The distance of the arrays is three pages more than a multiple of sixteen, as for a bandwidth.
        let distance = bytes.next_multiple_of(16 * PAGE_BYTES) + 3 * PAGE_BYTES;
        let base = put(thread as u64, core, distance + bytes);
        let written = (!reads).then_some(base + distance);
        let fill = written.map_or(0, |_| bytes);
        streams.push(synthetic::sequence(vec![
            synthetic::vector_loop(vec![base], written, fill),
            filling_done(),
            lines(base, written, bytes, instructions, &ended),
        ]));
    }
    let result = run(model, &cores, &placed, Prefetchers::ALL, streams)?;
    let seconds = elapsed(&result) / model.frequency().0;
    let moved = result.region_totals.get(&TIMED).map_or(0, |totals| totals.memory_bytes);
    Ok(Trial {
        instructions,
        bandwidth: moved as f64 / seconds,
        latency: seconds / (pages * rounds) as f64,
    })
}

/// A chain through one line of each page in each of `rounds`.
fn chain(base: u64, pages: u64, rounds: Range<u64>) -> Box<dyn Stream> {
    let mut order: Vec<u64> = (0..pages).collect();
    Random::new(SEED).shuffle(&mut order);
    let address = |round: u64, page: u64| base + page * PAGE_BYTES + round * 2 * LINE_BYTES;
    let of_round = |round: u64| order.iter().map(move |&page| Event::read(address(round, page), 8, 1));
    marks(rounds.flat_map(of_round).collect())
}

/// Reads the lines of an array in a loop until `ended` is true. With `written`, each line read is followed by a write to
/// that array.
fn lines(base: u64, written: Option<u64>, bytes: u64, instructions: f64, ended: &Rc<Cell<bool>>) -> Box<dyn Stream> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a whole number from 1 to a million"
    )]
    let instructions = instructions as u32;
    let ended = Rc::clone(ended);
    let mut offset = 0;
    let mut store = None;
    Box::new(Generated::new(move || {
        (!ended.get()).then(|| {
            store.take().unwrap_or_else(|| {
                store = written.map(|written| Event::write(written + offset, 8, 1));
                let event = Event::read(base + offset, 8, instructions);
                offset = (offset + LINE_BYTES) % bytes;
                event
            })
        })
    }))
}

/// A stream without events that makes `ended` true when the thread comes to it.
fn at_end(ended: &Rc<Cell<bool>>) -> Box<dyn Stream> {
    let ended = Rc::clone(ended);
    Box::new(Generated::new(move || {
        ended.set(true);
        None
    }))
}
