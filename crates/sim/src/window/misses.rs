//! Miss counts of one thread on caches of given geometries. There is no coherence, no prefetching, no time and no
//! physical addresses. Other cache simulators count the same, and the counts are checked against theirs.
//!
//! The rules are those of valgrind's cachegrind. Each level is looked up when the one before missed, and is then filled
//! (neither inclusive nor exclusive). Stores allocate as loads do. Replacement is LRU. The virtual address selects the
//! set. An access that straddles lines is one access; it misses when any of its lines does, and then looks up all of
//! them in the next level.
//!
//! The sets are those of the detailed window (`window/cache.rs`), so the checked code is the code of the simulation.
//! Its lines have numbers of 32 bits. So each level numbers ranges of the address space when they are first touched.
//! The length of a range is a multiple of the level's sets, so every line stays in the set that its address selects.

use super::cache::Cache;
use serde::Serialize;
use std::collections::HashMap;

/// The least number of lines of a range: 2 MiB where a line has 64 bytes.
const RANGE: u64 = 1 << 15;

/// The limit of a cache's size, in bytes: eight times the largest of today (AMD EPYC 9684X: 1152 MiB). It limits the
/// memory that the simulation uses.
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

/// The counts of one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Misses {
    /// Loads that reached the level.
    pub reads: u64,
    /// Stores that reached the level.
    pub writes: u64,
    /// The loads that missed.
    pub read_misses: u64,
    /// The stores that missed.
    pub write_misses: u64,
}

/// Why misses cannot be counted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MissesError {
    /// The size of a line is not a power of two.
    #[error("a cache cannot have lines of {0} bytes: the size of a line is a power of two")]
    Line(u32),
    /// The capacity is not a whole number of sets.
    #[error(
        "a cache cannot have {bytes} bytes with {ways} ways of {line} bytes: its size is a multiple of ways times line"
    )]
    Size {
        /// Capacity in bytes.
        bytes: u64,
        /// Ways.
        ways: u32,
        /// Bytes of a line.
        line: u32,
    },
    /// The cache is larger than the limit.
    #[error("a cache of {bytes} bytes is too large to simulate: the limit is {LARGEST}")]
    Large {
        /// Capacity in bytes.
        bytes: u64,
    },
    /// There are more sets than the limit.
    #[error("a cache of {sets} sets is too large to simulate: the limit is {}", u32::MAX >> 8)]
    Sets {
        /// The number of sets.
        sets: u64,
    },
    /// The program's memory is spread over more ranges than can be numbered.
    #[error("the accesses are spread over too many parts of the address space for a cache of {sets} sets")]
    Spread {
        /// The cache's sets.
        sets: u64,
    },
}

impl Geometry {
    /// The number of sets. Errors: such a cache cannot exist or is too large.
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
        // A range has at most nearly twice the sets, and some hundred ranges must have numbers.
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
    /// Lines of a range.
    range: u64,
    ranges: u64,
    /// The first number of each range that was touched.
    numbers: HashMap<u64, u32>,
    /// The range that was touched last, and its first number.
    last: Option<(u64, u32)>,
    misses: Misses,
}

impl Level {
    fn new(geometry: Geometry) -> Result<Self, MissesError> {
        let sets = geometry.sets()?;
        let range = sets * RANGE.div_ceil(sets);
        let cache = Cache::new(sets * u64::from(geometry.ways), geometry.ways);
        Ok(Self {
            line_shift: geometry.line.trailing_zeros(),
            sets,
            range,
            ranges: (u64::from(cache.highest_line()) + 1) / range,
            cache,
            numbers: HashMap::new(),
            last: None,
            misses: Misses::default(),
        })
    }

    /// The cache's number for a line of the address space.
    #[inline]
    fn number(&mut self, line: u64) -> Result<u32, MissesError> {
        let (range, within) = (line / self.range, (line % self.range) as u32);
        if let Some((last, first)) = self.last
            && last == range
        {
            return Ok(first + within);
        }
        let next = self.numbers.len() as u64;
        let first = match self.numbers.get(&range) {
            Some(first) => *first,
            None if next < self.ranges => {
                let first = (next * self.range) as u32;
                self.numbers.insert(range, first);
                first
            }
            None => return Err(MissesError::Spread { sets: self.sets }),
        };
        self.last = Some((range, first));
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

/// Caches that start empty and serve one thread's accesses.
#[derive(Debug)]
pub struct MissCounter {
    levels: Vec<Level>,
}

impl MissCounter {
    /// Caches of these geometries, nearest to the core first. Errors: such a cache cannot exist or is too large.
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

    /// The counts of each level.
    pub fn misses(&self) -> Vec<Misses> {
        self.levels.iter().map(|level| level.misses).collect()
    }
}
