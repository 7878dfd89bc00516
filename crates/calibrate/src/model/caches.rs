//! The caches: which of the machine's each step of the latency curve is, and how much it holds.

use super::curve::{self, Level};
use super::text::{as_in, bytes_in_words, digits, size, whole, word};
use super::{FULL, REPORTED, Shape, Writer, ratio};
use pinfold_sim::model::{Inclusion, LINE_BYTES};

/// What was seen of each cache, and of memory.
pub(super) struct Seen {
    pub(super) caches: Vec<Option<Level>>,
    pub(super) memory: Option<Level>,
}

/// The levels of the curve, each given to the cache whose reported size is nearest to what it holds, in order.
pub(super) fn matched(levels: &[Level], shape: &Shape) -> Seen {
    let Some((&memory, caches)) = levels.split_last() else {
        return Seen {
            caches: vec![None; shape.caches.len()],
            memory: None,
        };
    };
    let mut seen: Vec<Option<Level>> = vec![None; shape.caches.len()];
    let mut first = 0;
    for (number, &level) in caches.iter().enumerate() {
        // Every further level of the curve needs a cache of its own.
        let end = shape.caches.len().saturating_sub(caches.len() - 1 - number).max(first);
        let size = |at: usize| shape.caches[at].size.unwrap_or(1) as f64;
        let held = level.capacity.unwrap_or(1).max(1) as f64;
        let nearest = (first..end).min_by(|&a, &b| ratio(size(a), held).total_cmp(&ratio(size(b), held)));
        if let Some(at) = nearest {
            seen[at] = Some(level);
            first = at + 1;
        }
    }
    Seen {
        caches: seen,
        // What one level shows cannot be told apart.
        memory: (levels.len() > 1).then_some(memory),
    }
}

impl Writer<'_> {
    /// Whether the processor says that the cache of this level holds all that is nearer to the core.
    fn inclusive(&self, level: u32) -> Option<bool> {
        let level = usize::try_from(level).ok()?.checked_sub(1)?;
        *self.calibration.inclusive.get(level)?
    }

    pub(super) fn caches(&mut self) {
        let frequency = self.calibration.frequency.value;
        let last = self.shape.caches.len() - 1;
        let mut before = 0;
        for (at, cache) in self.shape.caches.clone().into_iter().enumerate() {
            let alike = self.similar.caches[at.min(self.similar.caches.len() - 1)].clone();
            let seen = self.levels.caches[at];
            self.table("[[cache]]");

            let (inclusion, inclusion_source) = match self.inclusive(cache.level) {
                _ if at == 0 => (Inclusion::NonInclusive, "the first level".to_owned()),
                Some(true) => (Inclusion::Inclusive, "reported by the processor (CPUID)".to_owned()),
                Some(false) if alike.inclusion.value() != Inclusion::Inclusive => {
                    let source = format!("{}; CPUID: not inclusive", as_in(&self.similar, &alike.inclusion));
                    (alike.inclusion.value(), source)
                }
                Some(false) => (Inclusion::NonInclusive, "reported by the processor (CPUID)".to_owned()),
                None => (alike.inclusion.value(), as_in(&self.similar, &alike.inclusion)),
            };
            let ways = cache.ways.unwrap_or(0) as usize;
            let (ways, ways_source) = if ways > 0 {
                (ways, REPORTED.to_owned())
            } else {
                (alike.ways.value().0 as usize, as_in(&self.similar, &alike.ways))
            };
            let (bytes, source) = self.capacity(at, inclusion, before, ways);
            self.number("size", &size(bytes), &source);
            let divides = |ways: &usize| bytes.is_multiple_of(*ways as u64 * LINE_BYTES);
            match (1..=ways).rev().find(divides) {
                Some(fitting) if fitting < ways => {
                    self.count(
                        "ways",
                        fitting,
                        "assumed: the most of which the size is a whole number of sets",
                    );
                }
                _ => self.count("ways", ways, &ways_source),
            }
            let cores = if at == last { self.shape.cores_per_domain } else { 1 };
            self.count("cores", cores, REPORTED);
            if let Some(level) = seen {
                let source = format!(
                    "measured: loads that need each other, in huge pages; {:.1} % between the least and the most of the \
                     plateau",
                    100.0 * level.spread
                );
                // What is on the core goes with its clock; what is beyond does not.
                if at < last {
                    self.number(
                        "latency",
                        &format!("cycles = {}", digits(level.latency * frequency)),
                        &source,
                    );
                } else {
                    self.nanoseconds("latency", level.latency, &source);
                }
            } else {
                let cycles = alike.latency.value().cycles(self.similar.frequency());
                let source = format!(
                    "{}; its own latency did not show in the measurement",
                    as_in(&self.similar, &alike.latency)
                );
                self.number("latency", &format!("cycles = {}", digits(cycles)), &source);
            }
            self.number(
                "inclusion",
                &format!("policy = {}", word(&inclusion)),
                &inclusion_source,
            );
            let energy = as_in(&self.similar, &alike.energy);
            self.number(
                "energy",
                &format!("nj = {}", digits(alike.energy.value().0 * 1e9)),
                &energy,
            );
            before = bytes;
        }
    }

    /// A cache's size and where that is from. `before` is the size of the cache nearer to the core.
    fn capacity(&mut self, at: usize, inclusion: Inclusion, before: u64, ways: usize) -> (u64, String) {
        let level = self.shape.caches[at].level;
        let reported = self.shape.caches[at].size;
        let held = self.levels.caches[at].and_then(|level| level.capacity);
        let own = held.map(|held| {
            let beside = if inclusion == Inclusion::Victim { before } else { 0 };
            held.saturating_sub(beside).max(before / 2) as f64
        });
        let whole_sets = |bytes: f64| {
            let set = ways as f64 * LINE_BYTES as f64;
            (whole(bytes / set) as u64).max(1) * ways as u64 * LINE_BYTES
        };
        match (reported, own) {
            (Some(reported), Some(own)) if own < FULL * reported as f64 => {
                let bytes = whole_sets(own);
                let of = format!(
                    "{} of the {} that the machine reports",
                    bytes_in_words(bytes as f64),
                    bytes_in_words(reported as f64)
                );
                self.notes.push(format!(
                    "the L{level} cache holds {of}: others use the rest, or it is kept from us"
                ));
                (
                    bytes,
                    format!("measured: {of}; others use the rest, or it is kept from us"),
                )
            }
            (Some(reported), Some(own)) => (
                reported,
                format!("{REPORTED}; measured: at least {}", bytes_in_words(own)),
            ),
            (Some(reported), None) => match self.hidden_capacity(at, before) {
                Some((held, alike)) if (held as f64) < FULL * reported as f64 => {
                    let bytes = whole_sets(held as f64);
                    let of = format!(
                        "{} of the {} that the machine reports",
                        bytes_in_words(bytes as f64),
                        bytes_in_words(reported as f64)
                    );
                    self.notes
                        .push(format!("the L{level} cache hardly shows; it holds about {of}"));
                    let source = format!(
                        "measured: about {of}, by the latencies between those of the caches before and of memory, if its \
                         own is that of {alike}"
                    );
                    (bytes, source)
                }
                _ => (
                    reported,
                    format!("{REPORTED}; its size did not show in the measurement"),
                ),
            },
            (None, Some(own)) => (
                whole_sets(own),
                "measured: the most that it was seen to hold".to_owned(),
            ),
            (None, None) => {
                let alike = &self.similar.caches[at.min(self.similar.caches.len() - 1)];
                (
                    whole_sets(alike.size.value().0 as f64),
                    as_in(&self.similar, &alike.size),
                )
            }
        }
    }

    /// What a cache holds that has no plateau of its own, if its latency is that of the similar model, whose name comes with
    /// it. It is private to nobody, so what the caches before it hold is taken off.
    fn hidden_capacity(&self, at: usize, before: u64) -> Option<(u64, String)> {
        let memory = self.levels.memory?;
        let alike = self.similar.caches.get(at)?;
        let latency = alike.latency.value().cycles(self.similar.frequency()) / self.similar.frequency().0;
        let first = self.calibration.curve.partition_point(|point| point.bytes <= before);
        let held = curve::held(&self.calibration.curve[first..], latency, memory.latency);
        (latency < memory.latency).then(|| (held.saturating_sub(before).max(before / 4), self.similar.name.clone()))
    }
}
