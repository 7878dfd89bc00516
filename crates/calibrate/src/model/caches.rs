//! The caches: assigns the steps of the latency curve to the machine's caches, and finds their capacities.

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
///
/// If the curve has more levels than the machine has caches, the levels that fit worst are dropped: other programs that
/// use a part of a shared cache give it several plateaus.
pub(super) fn matched(levels: &[Level], shape: &Shape) -> MatchedLevels {
    let Some((&memory, caches)) = levels.split_last() else {
        return MatchedLevels {
            caches: vec![None; shape.caches.len()],
            memory: None,
        };
    };
    let sizes: Vec<f64> = shape
        .caches
        .iter()
        .map(|cache| cache.size.unwrap_or(1) as f64)
        .collect();
    let held: Vec<f64> = caches
        .iter()
        .map(|level| level.capacity.unwrap_or(1).max(1) as f64)
        .collect();
    MatchedLevels {
        caches: assigned(&held, &sizes)
            .into_iter()
            .map(|level| level.map(|level| caches[level]))
            .collect(),
        // A single level may be a cache or memory.
        memory: (levels.len() > 1).then_some(memory),
    }
}

/// For each cache the number of its level, in order. Assigns as many levels as possible, with the smallest sum of size
/// distances.
fn assigned(held: &[f64], sizes: &[f64]) -> Vec<Option<usize>> {
    // The best assignment of the first levels to the first caches: the number of assigned levels, the sum of their
    // distances, and the level of each cache.
    type Best = (usize, f64, Vec<Option<usize>>);
    let mut before: Vec<Best> = vec![(0, 0.0, vec![]); held.len() + 1];
    for &size in sizes {
        let mut now: Vec<Best> = vec![];
        for end in 0..=held.len() {
            let without = &before[end];
            let mut best = (without.0, without.1, [&without.2[..], &[None]].concat());
            for level in 0..end {
                let (number, distance, levels) = &before[level];
                let found = (number + 1, distance + ratio(size, held[level]));
                if found.0 > best.0 || (found.0 == best.0 && found.1 < best.1) {
                    best = (found.0, found.1, [&levels[..], &[Some(level)]].concat());
                }
            }
            now.push(best);
        }
        before = now;
    }
    before.pop().map_or_else(Vec::new, |(_, _, levels)| levels)
}

impl Writer<'_> {
    /// Whether the processor reports that the cache of this level includes the levels nearer to the core.
    fn inclusive(&self, level: u32) -> Option<bool> {
        let level = usize::try_from(level).ok()?.checked_sub(1)?;
        *self.calibration.inclusive.get(level)?
    }

    pub(super) fn caches(&mut self) {
        let last = self.shape.caches.len() - 1;
        let (mut before, mut nearer) = (0, 0.0);
        for at in 0..=last {
            let level = self.shape.caches[at].level;
            let similar = self.similar.caches[at.min(self.similar.caches.len() - 1)].clone();
            self.table("[[cache]]");
            let (inclusion, source_of_inclusion) = self.inclusion(at, level, &similar);
            before = self.size_and_ways(at, inclusion, before, &similar);
            let cores = if at == last { self.shape.cores_per_domain } else { 1 };
            self.count("cores", cores, REPORTED);
            nearer = self.latency(at, nearer, &similar);
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

    /// Writes the latency of cache `at`, and returns it in cycles. `nearer` is the latency of the next cache towards
    /// the core.
    fn latency(&mut self, at: usize, nearer: f64, similar: &CacheLevel) -> f64 {
        let frequency = self.calibration.frequency.value;
        let Some(level) = self.levels.caches[at] else {
            let of_similar = similar.latency.value().cycles(self.similar.frequency());
            let mut farther = self.levels.caches[at..].iter().flatten().chain(&self.levels.memory);
            let next = farther.next().map(|level| level.latency * frequency);
            let cycles = between(of_similar, nearer, next);
            let adapted = if cycles > of_similar {
                ", but longer than the level before"
            } else {
                ""
            };
            let adapted = if cycles < of_similar {
                ", but shorter than what is measured beyond it"
            } else {
                adapted
            };
            let source = format!(
                "{}{adapted}; the measurement does not show this cache's latency",
                as_in(&self.similar, &similar.latency)
            );
            self.number("latency", &format!("cycles = {}", digits(cycles)), &source);
            return cycles;
        };
        let source = format!(
            "measured: dependent loads in huge pages; {:.1} % between the lowest and the highest latency of the plateau",
            100.0 * level.spread
        );
        let cycles = level.latency * frequency;
        // The last level is not in the core, so its latency does not depend on the core's clock.
        if at + 1 < self.shape.caches.len() {
            self.number("latency", &format!("cycles = {}", digits(cycles)), &source);
        } else {
            self.nanoseconds("latency", level.latency, &source);
        }
        cycles
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

    /// The bytes that a cache without a plateau holds, and the name of the similar model. Assumes that the cache has
    /// the latency of the similar model's cache. Such a cache is shared, so the size of the nearer caches is
    /// subtracted.
    fn hidden_capacity(&self, at: usize, before: u64) -> Option<(u64, String)> {
        let memory = self.levels.memory?;
        let similar = self.similar.caches.get(at)?;
        let latency = similar.latency.value().cycles(self.similar.frequency()) / self.similar.frequency().0;
        let first = self.calibration.curve.partition_point(|point| point.bytes <= before);
        let held = curve::held(&self.calibration.curve[first..], latency, memory.latency);
        (latency < memory.latency).then(|| (held.saturating_sub(before).max(before / 4), self.similar.name.clone()))
    }
}

/// The assumed latency, if it lies between the latencies of the nearer level and of the next measured level; otherwise
/// a latency that does. All in cycles.
fn between(assumed: f64, before: f64, next: Option<f64>) -> f64 {
    let next = next.unwrap_or(f64::INFINITY);
    if before < assumed && assumed < next {
        return assumed;
    }
    // Nothing is nearer than a cycle. Levels that differ by less than `APART` would be one plateau.
    let before = before.max(1.0);
    (before * curve::APART).min((before * next).sqrt())
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

#[cfg(test)]
mod tests {
    use super::{assigned, between};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_assumed_latency_is_longer_than_that_before_and_shorter_than_the_next(
            assumed in 1.0f64..1000.0, before in 1.0f64..400.0, farther in 1.01f64..10.0, known in any::<bool>(),
        ) {
            let next = before * farther;
            let found = between(assumed, before, known.then_some(next));
            prop_assert!(found > before, "{}", found);
            prop_assert!(!known || found < next, "{}", found);
            let kept = (found - assumed).abs() < f64::EPSILON;
            prop_assert!(kept || assumed <= before || (known && assumed >= next));
        }
    }

    const SIZES: [f64; 3] = [48e3, 2e6, 480e6];

    #[test]
    fn each_level_belongs_to_the_cache_of_its_size() {
        assert_eq!(assigned(&[47e3, 1.6e6, 28e6], &SIZES), [Some(0), Some(1), Some(2)]);
        assert_eq!(assigned(&[47e3, 100e6], &SIZES), [Some(0), None, Some(1)]);
        assert_eq!(assigned(&[1.6e6], &SIZES), [None, Some(0), None]);
        assert_eq!(assigned(&[], &SIZES), [None; 3]);
    }

    #[test]
    fn a_cache_with_two_plateaus_takes_no_other_caches_level() {
        assert_eq!(assigned(&[47e3, 1.6e6, 9e6, 28e6], &SIZES), [Some(0), Some(1), Some(3)]);
        assert_eq!(
            assigned(&[30e3, 47e3, 1.6e6, 9e6, 28e6], &SIZES),
            [Some(1), Some(2), Some(4)]
        );
    }
}
