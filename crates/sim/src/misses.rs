//! The misses of a recording's threads in caches of given geometries: which caches, and the counts of each thread.

use crate::window::{Geometry, MissCounter, Misses, MissesError};
use pinfold_core::{CacheType, Topology, digits};
use pinfold_trace::{Batch, Recording, Thread, TraceError};
use serde::Serialize;
use std::str::FromStr;

/// The counts of a thread in each level, nearest to the core first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadMisses {
    /// The thread's number in the recording.
    pub number: u32,
    /// One entry for each cache.
    pub levels: Vec<Misses>,
}

/// The misses of a thread cannot be counted.
#[derive(Debug, thiserror::Error)]
pub enum CountError {
    /// The recording cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The caches cannot be simulated.
    #[error(transparent)]
    Misses(#[from] MissesError),
}

/// A topology lacks what a simulation of its caches needs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CachesError {
    /// It has no PU.
    #[error("{0} has no PU")]
    NoPu(String),
    /// It has no caches.
    #[error("the topology of {0} has no caches; give them with --level SIZE,WAYS,LINE")]
    NoCaches(String),
    /// It has a cache of unknown geometry.
    #[error(
        "the topology of {machine} lacks the size, the ways or the line of its L{level}; give all caches with --level \
         SIZE,WAYS,LINE"
    )]
    Unknown {
        /// The machine.
        machine: String,
        /// The cache's level.
        level: u32,
    },
}

/// Counts the misses of one thread of a recording in caches that start empty, nearest to the core first.
pub fn of_thread(recording: &Recording, thread: &Thread, geometries: &[Geometry]) -> Result<ThreadMisses, CountError> {
    let mut counter = MissCounter::new(geometries)?;
    let mut reader = recording.read(thread);
    let mut batch: Batch = Batch::default();
    while reader.next_batch(&mut batch)? {
        for access in &batch.accesses {
            counter.access(access.address, u64::from(access.size), access.write)?;
        }
    }
    Ok(ThreadMisses {
        number: thread.number,
        levels: counter.misses(),
    })
}

/// The data caches of the first allowed PU, nearest to it first.
pub fn caches_of(topology: &Topology) -> Result<Vec<Geometry>, CachesError> {
    let machine = || topology.name().to_owned();
    let first = topology.allowed_pus().iter().next();
    let first = first.ok_or_else(|| CachesError::NoPu(machine()))?;
    let mut caches: Vec<_> = topology
        .objects()
        .iter()
        .filter(|object| object.pus.contains(first))
        .filter_map(|object| object.cache)
        .filter(|cache| cache.cache_type != CacheType::Instruction)
        .collect();
    caches.sort_by_key(|cache| cache.level);
    if caches.is_empty() {
        return Err(CachesError::NoCaches(machine()));
    }
    caches
        .iter()
        .map(|cache| match (cache.size, cache.ways, cache.line_size) {
            (Some(bytes), Some(ways), Some(line)) => Ok(Geometry { bytes, ways, line }),
            _ => Err(CachesError::Unknown {
                machine: machine(),
                level: cache.level,
            }),
        })
        .collect()
}

impl FromStr for Geometry {
    type Err = String;

    /// Parses a cache as cachegrind's options have it, with sizes that may end in k or M.
    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split(',').collect();
        let [size, ways, line] = words[..] else {
            return Err("not a cache; write its size, ways and line: 32k,8,64".to_owned());
        };
        let (digits, shift) = match size.as_bytes().last() {
            Some(b'k' | b'K') => (&size[..size.len() - 1], 10),
            Some(b'm' | b'M') => (&size[..size.len() - 1], 20),
            _ => (size, 0),
        };
        let number = |text: &str, what: &str| {
            digits::decimal::<u32>(text)
                .filter(|&number| number > 0)
                .ok_or_else(|| format!("`{text}` is not a {what}; write a cache as 32k,8,64"))
        };
        let geometry = Self {
            bytes: u64::from(number(digits, "size")?) << shift,
            ways: number(ways, "number of ways")?,
            line: number(line, "number of bytes of a line")?,
        };
        // The counter's error explains the fault of a cache.
        MissCounter::new(&[geometry]).map_err(|error| error.to_string())?;
        Ok(geometry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_written_as_cachegrind_has_it() {
        let written = |text: &str| {
            text.parse()
                .map(|geometry: Geometry| (geometry.bytes, geometry.ways, geometry.line))
        };
        assert_eq!(written("32768,8,64"), Ok((32768, 8, 64)));
        assert_eq!(written("32k,8,64"), Ok((32768, 8, 64)));
        assert_eq!(written("30M,20,128"), Ok((30 << 20, 20, 128)));
        for (text, words) in [
            ("32k,8", "32k,8,64"),
            ("much,8,64", "is not a size"),
            ("32k,0,64", "is not a number of ways"),
            ("32k,8,48", "power of two"),
            ("33k,7,64", "multiple"),
            ("4294967040M,16777215,64", "too large"),
        ] {
            let error = text.parse::<Geometry>().unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
