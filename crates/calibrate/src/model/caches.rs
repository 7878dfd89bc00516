//! The caches: which cache of the machine each step of the latency curve belongs to, and its capacity.

use super::curve::{self, Level};
use super::text::{as_in, bytes_in_words, digits, size, whole, word};
use super::{FULL, REPORTED, Shape, Writer, ratio};
use pinfold_sim::model::{CacheLevel, Inclusion, LINE_BYTES};

/// The level of the latency curve for each cache, and for memory.
pub(super) struct MatchedLevels {
    pub(super) caches: Vec<Option<Level>>,
    pub(super) memory: Option<Level>,
}

/// Assigns each level of the curve to the cache whose reported size is nearest to the level's capacity, in order.
pub(super) fn matched(levels: &[Level], shape: &Shape) -> MatchedLevels {
    let Some((&memory, caches)) = levels.split_last() else {
        return MatchedLevels {
            caches: vec![None; shape.caches.len()],
            memory: None,
        };
    };
    let mut seen: Vec<Option<Level>> = vec![None; shape.caches.len()];
    let mut first = 0;
    for (number, &level) in caches.iter().enumerate() {
        // Every later level of the curve needs its own cache.
        let end = shape.caches.len().saturating_sub(caches.len() - 1 - number).max(first);
        let size = |at: usize| shape.caches[at].size.unwrap_or(1) as f64;
        let held = level.capacity.unwrap_or(1).max(1) as f64;
        let nearest = (first..end).min_by(|&a, &b| ratio(size(a), held).total_cmp(&ratio(size(b), held)));
        if let Some(at) = nearest {
            seen[at] = Some(level);
            first = at + 1;
        }
    }
    MatchedLevels {
        caches: seen,
        // A single level may be a cache or memory.
        memory: (levels.len() > 1).then_some(memory),
    }
}

impl Writer<'_> {
    /// Whether the processor reports that the cache of this level includes the levels nearer to the core.
    fn inclusive(&self, level: u32) -> Option<bool> {
        let level = usize::try_from(level).ok()?.checked_sub(1)?;
        *self.calibration.inclusive.get(level)?
    }

    pub(super) fn caches(&mut self) {
        let last = self.shape.caches.len() - 1;
        let mut before = 0;
        for at in 0..=last {
            let level = self.shape.caches[at].level;
            let similar = self.similar.caches[at.min(self.similar.caches.len() - 1)].clone();
            self.table("[[cache]]");
            let (inclusion, source_of_inclusion) = self.inclusion(at, level, &similar);
            before = self.size_and_ways(at, inclusion, before, &similar);
            let cores = if at == last { self.shape.cores_per_domain } else { 1 };
            self.count("cores", cores, REPORTED);
            self.latency(at, &similar);
            let policy = format!("policy = {}", word(&inclusion));
            self.number("inclusion", &policy, &source_of_inclusion);
            let energy = format!("nj = {}", digits(similar.energy.value().0 * 1e9));
            self.number("energy", &energy, &as_in(&self.similar, &similar.energy));
        }
    }

    /// The inclusion policy of cache `at` with its source.
    fn inclusion(&self, at: usize, level: u32, similar: &CacheLevel) -> (Inclusion, String) {
        let of_similar = as_in(&self.similar, &similar.inclusion);
        match self.inclusive(level) {
            _ if at == 0 => (Inclusion::NonInclusive, "the first level".to_owned()),
            Some(true) => (Inclusion::Inclusive, "reported by the processor (CPUID)".to_owned()),
            Some(false) if similar.inclusion.value() != Inclusion::Inclusive => {
                (similar.inclusion.value(), format!("{of_similar}; CPUID: not inclusive"))
            }
            Some(false) => (Inclusion::NonInclusive, "reported by the processor (CPUID)".to_owned()),
            None => (similar.inclusion.value(), of_similar),
        }
    }

    /// Writes size and ways of cache `at`. Returns the size in bytes.
    fn size_and_ways(&mut self, at: usize, inclusion: Inclusion, before: u64, similar: &CacheLevel) -> u64 {
        let (ways, source_of_ways) = match self.shape.caches[at].ways.unwrap_or(0) {
            0 => (similar.ways.value().0 as usize, as_in(&self.similar, &similar.ways)),
            ways => (ways as usize, REPORTED.to_owned()),
        };
        let (bytes, source) = self.capacity(at, inclusion, before, ways);
        self.number("size", &size(bytes), &source);
        let divides = |ways: &usize| bytes.is_multiple_of(*ways as u64 * LINE_BYTES);
        match (1..=ways).rev().find(divides) {
            Some(fitting) if fitting < ways => {
                let source = "assumed: the highest number of ways that divides the size into whole sets";
                self.count("ways", fitting, source);
            }
            _ => self.count("ways", ways, &source_of_ways),
        }
        bytes
    }

    fn latency(&mut self, at: usize, similar: &CacheLevel) {
        let Some(level) = self.levels.caches[at] else {
            let cycles = similar.latency.value().cycles(self.similar.frequency());
            let source = format!(
                "{}; the measurement does not show this cache's latency",
                as_in(&self.similar, &similar.latency)
            );
            return self.number("latency", &format!("cycles = {}", digits(cycles)), &source);
        };
        let source = format!(
            "measured: dependent loads in huge pages; {:.1} % between the lowest and the highest latency of the plateau",
            100.0 * level.spread
        );
        // The last level is not in the core, so its latency does not depend on the core's clock.
        if at + 1 < self.shape.caches.len() {
            let cycles = level.latency * self.calibration.frequency.value;
            self.number("latency", &format!("cycles = {}", digits(cycles)), &source);
        } else {
            self.nanoseconds("latency", level.latency, &source);
        }
    }

    /// A cache's size in bytes, and its source. `before` is the size of the cache nearer to the core.
    fn capacity(&mut self, at: usize, inclusion: Inclusion, before: u64, ways: usize) -> (u64, String) {
        let reported = self.shape.caches[at].size;
        let held = self.levels.caches[at].and_then(|level| level.capacity);
        let own = held.map(|held| {
            let nearer = if inclusion == Inclusion::Victim { before } else { 0 };
            held.saturating_sub(nearer).max(before / 2) as f64
        });
        match (reported, own) {
            (Some(reported), Some(own)) if own < FULL * reported as f64 => {
                let bytes = whole_sets(own, ways);
                let level = self.shape.caches[at].level;
                let part = part_of(bytes, reported);
                let reason = "other programs use the rest, or pinfold may not use it";
                self.notes.push(format!("the L{level} cache holds {part}: {reason}"));
                (bytes, format!("measured: {part}; {reason}"))
            }
            (Some(reported), Some(own)) => (
                reported,
                format!("{REPORTED}; measured: at least {}", bytes_in_words(own)),
            ),
            (Some(reported), None) => self.capacity_without_plateau(at, reported, before, ways),
            (None, Some(own)) => (
                whole_sets(own, ways),
                "measured: the highest number of bytes that it held".to_owned(),
            ),
            (None, None) => {
                let similar = &self.similar.caches[at.min(self.similar.caches.len() - 1)];
                (
                    whole_sets(similar.size.value().0 as f64, ways),
                    as_in(&self.similar, &similar.size),
                )
            }
        }
    }

    /// The size of a cache that has no plateau in the latency curve.
    fn capacity_without_plateau(&mut self, at: usize, reported: u64, before: u64, ways: usize) -> (u64, String) {
        match self.hidden_capacity(at, before) {
            Some((held, similar)) if (held as f64) < FULL * reported as f64 => {
                let bytes = whole_sets(held as f64, ways);
                let level = self.shape.caches[at].level;
                let part = part_of(bytes, reported);
                self.notes
                    .push(format!("the L{level} cache has little effect; it holds about {part}"));
                let source = format!(
                    "measured: about {part}, from the latencies between those of the caches before and of memory, if its \
                     latency is that of {similar}"
                );
                (bytes, source)
            }
            _ => (reported, format!("{REPORTED}; the measurement does not show its size")),
        }
    }

    /// The bytes that a cache without a plateau holds, if its latency is that of the similar model, and the model's name.
    /// Such a cache is shared, so the size of the caches before it is subtracted.
    fn hidden_capacity(&self, at: usize, before: u64) -> Option<(u64, String)> {
        let memory = self.levels.memory?;
        let similar = self.similar.caches.get(at)?;
        let latency = similar.latency.value().cycles(self.similar.frequency()) / self.similar.frequency().0;
        let first = self.calibration.curve.partition_point(|point| point.bytes <= before);
        let held = curve::held(&self.calibration.curve[first..], latency, memory.latency);
        (latency < memory.latency).then(|| (held.saturating_sub(before).max(before / 4), self.similar.name.clone()))
    }
}

/// The nearest size in bytes that has a whole number of sets, at least one.
fn whole_sets(bytes: f64, ways: usize) -> u64 {
    let set = ways as f64 * LINE_BYTES as f64;
    (whole(bytes / set) as u64).max(1) * ways as u64 * LINE_BYTES
}

fn part_of(bytes: u64, reported: u64) -> String {
    format!(
        "{} of the {} that the machine reports",
        bytes_in_words(bytes as f64),
        bytes_in_words(reported as f64)
    )
}
