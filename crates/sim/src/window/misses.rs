//! Miss counts of one thread on caches of given geometries and nothing else: no coherence, no prefetchers, no time, no
//! physical addresses. They are what other cache simulators count too, and are checked against them.
//!
//! The rules are those of valgrind's cachegrind: each level is looked up when the one before missed, and is then filled
//! (neither inclusive nor exclusive); stores allocate as loads do; replacement is LRU; sets are chosen by the virtual
//! address; an access that straddles lines is one access, which misses when any of them does, and then looks up all of
//! them in the next level.
//!
//! The sets are those of the detailed window (`window/cache.rs`), so that what is checked here is what is used there.
//! Its lines have numbers of 32 bits. So each level numbers stretches of the address space as they are first touched;
//! a stretch is a multiple of the level's sets, which leaves every line in the set that its address chooses.

use super::cache::Cache;
use serde::Serialize;
use std::collections::HashMap;

/// Lines that are numbered together, at least: 2 MiB where a line has 64 bytes.
const STRETCH: u64 = 1 << 15;

/// The largest cache, in bytes: eight times the largest of today (AMD EPYC 9684X: 1152 MiB). It bounds the memory.
const LARGEST: u64 = 8 << 30;

/// One cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Geometry {
    /// Capacity in bytes.
    pub bytes: u64,
    /// Ways.
    pub ways: u32,
    /// Bytes of a line.
    pub line: u32,
}

/// What one level counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Misses {
    /// Loads that reached the level.
    pub reads: u64,
    /// Stores that reached the level.
    pub writes: u64,
    /// Of the loads, those that missed.
    pub read_misses: u64,
    /// Of the stores, those that missed.
    pub write_misses: u64,
}

/// Why misses cannot be counted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MissesError {
    /// A line is no power of two.
    #[error("a cache with lines of {0} bytes cannot be: a line is a power of two")]
    Line(u32),
    /// The capacity is no whole number of sets.
    #[error(
        "a cache of {bytes} bytes with {ways} ways of {line} bytes cannot be: its size is a multiple of ways times line"
    )]
    Size {
        /// Capacity in bytes.
        bytes: u64,
        /// Ways.
        ways: u32,
        /// Bytes of a line.
        line: u32,
    },
    /// The cache is larger than any that exists.
    #[error("a cache of {bytes} bytes is too large to simulate: it may have {LARGEST} at most")]
    Large {
        /// Capacity in bytes.
        bytes: u64,
    },
    /// There are more sets than can be simulated.
    #[error("a cache of {sets} sets is too large to simulate: there may be {} at most", u32::MAX >> 8)]
    Sets {
        /// How many.
        sets: u64,
    },
    /// The program's memory is spread over more stretches than can be numbered.
    #[error("the accesses are spread over too many parts of the address space for a cache of {sets} sets")]
    Spread {
        /// The cache's sets.
        sets: u64,
    },
}

impl Geometry {
    /// The number of sets. Errors: there is no such cache.
    fn sets(self) -> Result<u64, MissesError> {
        let Self { bytes, ways, line } = self;
        if !line.is_power_of_two() {
            return Err(MissesError::Line(line));
        }
        let set = u64::from(ways) * u64::from(line);
        if bytes == 0 || set == 0 || !bytes.is_multiple_of(set) {
            return Err(MissesError::Size { bytes, ways, line });
        }
        let sets = bytes / set;
        // A stretch is nearly twice the sets at most, and some hundred stretches must have numbers.
        if sets > u64::from(u32::MAX >> 8) {
            return Err(MissesError::Sets { sets });
        }
        if bytes > LARGEST {
            return Err(MissesError::Large { bytes });
        }
        Ok(sets)
    }
}

/// One cache, and the numbers of its lines.
#[derive(Debug)]
struct Level {
    cache: Cache,
    line_shift: u32,
    sets: u64,
    /// Lines that are numbered together.
    stretch: u64,
    stretches: u64,
    /// The first number of each stretch that was touched.
    numbers: HashMap<u64, u32>,
    /// The stretch that was touched last, and its first number.
    last: Option<(u64, u32)>,
    misses: Misses,
}

impl Level {
    fn new(geometry: Geometry) -> Result<Self, MissesError> {
        let sets = geometry.sets()?;
        let stretch = sets * STRETCH.div_ceil(sets);
        let cache = Cache::new(sets * u64::from(geometry.ways), geometry.ways);
        Ok(Self {
            line_shift: geometry.line.trailing_zeros(),
            sets,
            stretch,
            stretches: (u64::from(cache.highest_line()) + 1) / stretch,
            cache,
            numbers: HashMap::new(),
            last: None,
            misses: Misses::default(),
        })
    }

    /// The number by which the cache knows a line of the address space.
    #[inline]
    fn number(&mut self, line: u64) -> Result<u32, MissesError> {
        let (stretch, within) = (line / self.stretch, (line % self.stretch) as u32);
        if let Some((last, first)) = self.last
            && last == stretch
        {
            return Ok(first + within);
        }
        let next = self.numbers.len() as u64;
        let first = match self.numbers.get(&stretch) {
            Some(first) => *first,
            None if next < self.stretches => {
                let first = (next * self.stretch) as u32;
                self.numbers.insert(stretch, first);
                first
            }
            None => return Err(MissesError::Spread { sets: self.sets }),
        };
        self.last = Some((stretch, first));
        Ok(first + within)
    }

    /// Whether an access hits.
    #[inline]
    fn access(&mut self, address: u64, size: u64, write: bool) -> Result<bool, MissesError> {
        let first = address >> self.line_shift;
        let last = address.saturating_add(size.max(1) - 1) >> self.line_shift;
        let mut hit = true;
        for line in first..=last {
            let line = self.number(line)?;
            if self.cache.touch(line).is_none() {
                self.cache.insert(line, 0);
                hit = false;
            }
        }
        let missed = u64::from(!hit);
        if write {
            self.misses.writes += 1;
            self.misses.write_misses += missed;
        } else {
            self.misses.reads += 1;
            self.misses.read_misses += missed;
        }
        Ok(hit)
    }
}

/// Caches that start empty, through which one thread's accesses go.
#[derive(Debug)]
pub struct MissCounter {
    levels: Vec<Level>,
}

impl MissCounter {
    /// Caches of these geometries, nearest to the core first. Errors: there is no such cache.
    pub fn new(geometries: &[Geometry]) -> Result<Self, MissesError> {
        let levels = geometries.iter().map(|&geometry| Level::new(geometry));
        Ok(Self {
            levels: levels.collect::<Result<_, _>>()?,
        })
    }

    /// The next access: `size` bytes from the virtual address `address`. Errors: the accesses are spread too far.
    #[inline]
    pub fn access(&mut self, address: u64, size: u64, write: bool) -> Result<(), MissesError> {
        for level in &mut self.levels {
            if level.access(address, size, write)? {
                break;
            }
        }
        Ok(())
    }

    /// What each level has counted.
    pub fn misses(&self) -> Vec<Misses> {
        self.levels.iter().map(|level| level.misses).collect()
    }
}
