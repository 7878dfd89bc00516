//! Miss counts of one thread on caches of a given geometry and nothing else: no coherence, no prefetchers, no time. They
//! are what other cache simulators count too, and are checked against them.
//!
//! The rules are those of valgrind's cachegrind: each level is looked up when the one before missed and is then filled;
//! replacement is LRU; loads and stores count alike; an access that straddles two lines is one access, which misses when
//! either line does, and then looks up both lines in the next level.

use super::cache::Cache;
use super::pages::Blocks;
use super::stream::{Batch, EventKind, Stream};
use crate::model::LINE_BYTES;

/// One cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Capacity in bytes; a multiple of 64 times `ways`.
    pub bytes: u64,
    /// Ways.
    pub ways: u32,
}

/// What one level counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Misses {
    /// Accesses that reached the level.
    pub accesses: u64,
    /// Of these, loads that missed.
    pub read_misses: u64,
    /// Of these, stores that missed.
    pub write_misses: u64,
}

/// The misses of `stream` in caches of these geometries, nearest to the core first, with lines of 64 bytes.
pub fn single_core_misses(geometries: &[Geometry], stream: &mut dyn Stream) -> Vec<Misses> {
    let mut caches: Vec<Cache> = geometries
        .iter()
        .map(|geometry| Cache::new(geometry.bytes / LINE_BYTES, geometry.ways))
        .collect();
    let mut misses = vec![Misses::default(); caches.len()];
    let mut blocks = Blocks::new();
    let mut batch = Batch::default();
    while stream.next_batch(&mut batch) {
        for event in &batch.events {
            let write = match event.kind {
                EventKind::Read => false,
                EventKind::Write => true,
                _ => continue,
            };
            let first = event.payload / LINE_BYTES;
            let last = (event.payload + u64::from(event.size.max(1)) - 1) / LINE_BYTES;
            for (cache, misses) in caches.iter_mut().zip(&mut misses) {
                misses.accesses += 1;
                let mut missed = false;
                for line in first..=last {
                    let line = blocks.line(line);
                    if cache.touch(line).is_none() {
                        cache.insert(line, 0);
                        missed = true;
                    }
                }
                if !missed {
                    break;
                }
                misses.read_misses += u64::from(!write);
                misses.write_misses += u64::from(write);
            }
        }
    }
    misses
}

#[cfg(test)]
mod tests {
    use super::super::stream::{Event, Recorded};
    use super::super::synthetic;
    use super::*;

    const TINY: [Geometry; 2] = [Geometry { bytes: 256, ways: 2 }, Geometry { bytes: 1024, ways: 4 }];

    #[test]
    fn misses_worked_out_by_hand() {
        // Two sets of two ways, then four sets of four. Lines 0, 2, 4 share the first set of the first level.
        let lines = [0, 2, 0, 4, 2, 0, 1];
        let events = lines.into_iter().map(|line| Event::read(line * 64, 8, 1)).collect();
        let misses = single_core_misses(&TINY, &mut Recorded::new(events));
        // 0 miss, 2 miss, 0 hit, 4 miss (2 goes), 2 miss (0 goes), 0 miss, 1 miss; the second level keeps all four.
        assert_eq!((misses[0].accesses, misses[0].read_misses), (7, 6));
        assert_eq!((misses[1].accesses, misses[1].read_misses), (6, 4));
    }

    #[test]
    fn an_access_that_straddles_two_lines_misses_once() {
        let events = vec![Event::write(60, 8, 1), Event::read(64, 8, 1), Event::read(0, 8, 1)];
        let misses = single_core_misses(&TINY, &mut Recorded::new(events));
        assert_eq!(
            (misses[0].accesses, misses[0].write_misses, misses[0].read_misses),
            (3, 1, 0)
        );
    }

    #[test]
    fn a_stream_misses_once_a_line_and_a_working_set_that_fits_once_in_all() {
        let geometries = [
            Geometry {
                bytes: 32 << 10,
                ways: 8,
            },
            Geometry {
                bytes: 1 << 20,
                ways: 16,
            },
        ];
        let misses = single_core_misses(&geometries, &mut *synthetic::streaming(1 << 30, 512 << 10, 3, 0));
        let lines = (512 << 10) / 64;
        assert_eq!(misses[0].read_misses, 3 * lines);
        assert_eq!(misses[1].read_misses, lines);
    }
}
