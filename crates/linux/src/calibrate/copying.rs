//! Tasks that copy memory: SAM's second microbenchmark (Srikanthan, Dwarkadas and Shen, USENIX ATC 2015, section 2.2).
//! Each task copies its own array to another one, with high or low locality in the rows of the memory chips.
//!
//! A *row* is 4 KiB, as in the paper. With high locality whole rows are copied in order. With low locality one line of
//! each row is copied, then the next line of each. Arrays are many times as large as the tasks' share of the last-level
//! caches. They are in huge pages if the kernel has them, so that TLB misses do not look like low locality.

use super::instructions::{Vector, load, store};
use super::memory::{LINE, Memory, PAGE, Pages};
use super::team::{CountSource, timed_runs};
use super::{CalibrationError, enough_memory};
use crate::memory::MemoryPolicy;
use pinfold_core::measurement::CopiedRuns;
use pinfold_core::memory::node_of_pu;
use pinfold_core::{PuId, Topology};
use std::sync::Mutex;

/// Bytes of a row: section 2.2, "on the order of 4 KB".
const ROW: usize = PAGE;
const LINES_A_ROW: usize = ROW / LINE;
/// The fewest rows of an array.
const FEWEST_ROWS: usize = 16;

/// The order of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locality {
    /// Whole rows.
    High,
    /// One line of each row in turn.
    Low,
}

/// Two arrays of one task.
struct Arrays {
    from: Memory,
    to: Memory,
}

impl Arrays {
    /// Allocates both arrays on the node of the calling thread, each in whole rows.
    fn new(bytes: usize) -> Result<Self, CalibrationError> {
        // The process may have inherited another policy. If the kernel forbids the call, that policy stays, and
        // `elsewhere` shows it.
        let _ = MemoryPolicy::local().set();
        let arrays = Self {
            from: Memory::new(bytes, Pages::Huge)?,
            to: Memory::new(bytes, Pages::Huge)?,
        };
        // The pages differ, so that the kernel cannot merge them.
        for place in (0..arrays.from.bytes()).step_by(size_of::<usize>()) {
            arrays.from.write(place, place);
        }
        Ok(arrays)
    }

    fn rows(&self) -> usize {
        self.from.bytes() / ROW
    }

    /// Copies the whole array once.
    fn copy(&self, locality: Locality) {
        match locality {
            Locality::High => {
                for row in 0..self.rows() {
                    for line in 0..LINES_A_ROW {
                        self.copy_line(row, line);
                    }
                }
            }
            // Even lines come first. A prefetcher may load the other half of a pair of lines, and that line is then
            // evicted before it is used.
            Locality::Low => {
                for line in (0..LINES_A_ROW).step_by(2).chain((1..LINES_A_ROW).step_by(2)) {
                    for row in 0..self.rows() {
                        self.copy_line(row, line);
                    }
                }
            }
        }
    }

    fn copy_line(&self, row: usize, line: usize) {
        let place = row * ROW + line * LINE;
        #[expect(clippy::cast_ptr_alignment, reason = "the memory begins with a page")]
        let (from, to) = (
            self.from.address(place).cast::<Vector>(),
            self.to.address(place).cast::<Vector>(),
        );
        // SAFETY: `address` checked that the line starts within the memory, which is whole lines long. Only the calling
        // thread uses either array.
        unsafe {
            for part in 0..LINE / size_of::<Vector>() {
                store(to.add(part), load(from.add(part)));
            }
        }
    }
}

/// Runs a task on each of `pus` that copies its own array, once per run. All arrays together have `footprint` bytes.
/// The first copy is not counted.
pub fn copying(
    topology: &Topology,
    pus: &[PuId],
    footprint: usize,
    locality: Locality,
    times: usize,
    source: &dyn CountSource,
) -> Result<CopiedRuns, CalibrationError> {
    let bytes = (footprint / (2 * pus.len()))
        .next_multiple_of(ROW)
        .max(FEWEST_ROWS * ROW);
    enough_memory(2 * bytes * pus.len())?;
    let elsewhere = Mutex::new(vec![]);
    let prepare = |position: usize| {
        let arrays = Arrays::new(bytes)?;
        let node = node_of_pu(topology, pus[position]);
        let share = [&arrays.from, &arrays.to].map(|memory| memory.share_elsewhere(&[node?]));
        elsewhere
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .extend(share);
        Ok(arrays)
    };
    let amounts = vec![1; 1 + times.max(1)];
    let mut done = timed_runs(pus, source, &amounts, prepare, |arrays, _| arrays.copy(locality))?;
    done.remove(0);
    let shares: Option<Vec<f64>> = elsewhere
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
        .into_iter()
        .collect();
    Ok(CopiedRuns {
        bytes: (bytes * pus.len()) as u64,
        runs: done,
        elsewhere: shares.map(|shares| shares.iter().sum::<f64>() / shares.len() as f64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affinity::CpuMask;
    use crate::calibrate::team::Uncounted;
    use crate::topology::{self, Source};

    #[test]
    fn either_order_copies_every_line_once() {
        for locality in [Locality::High, Locality::Low] {
            let arrays = Arrays::new(FEWEST_ROWS * ROW).unwrap();
            assert_eq!(arrays.rows(), FEWEST_ROWS);
            arrays.copy(locality);
            for place in (0..arrays.to.bytes()).step_by(size_of::<usize>()) {
                assert_eq!(arrays.to.word(place), place, "{locality:?}");
            }
        }
    }

    #[test]
    fn tasks_copy_side_by_side_and_say_how_much() {
        let topology = topology::read(&Source::Live).unwrap();
        let pus: Vec<PuId> = CpuMask::of_thread(0).unwrap().pus().take(2).collect();
        let copied = copying(&topology, &pus, 1 << 20, Locality::Low, 3, &Uncounted).unwrap();
        assert_eq!(copied.runs.len(), 3);
        assert_eq!(copied.bytes, 1 << 19);
        assert!(copied.elsewhere.is_none_or(|share| share < 0.5), "{copied:?}");
    }

    #[test]
    fn more_memory_than_there_is_is_refused_before_it_is_touched() {
        let topology = topology::read(&Source::Live).unwrap();
        let pu = topology.allowed_pus().first().unwrap();
        let error = copying(&topology, &[pu], 1 << 50, Locality::High, 1, &Uncounted).unwrap_err();
        assert!(matches!(error, CalibrationError::LittleMemory { .. }), "{error}");
    }
}
