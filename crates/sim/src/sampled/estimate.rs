//! From simulated pieces to the whole execution.
//!
//! - Counts are summed over the pieces of a stratum and multiplied with the stratum's instructions over theirs.
//! - Times are multiplied with the sizes of all pieces over those of the simulated ones. A piece of whole phases has
//!   the size of its instructions. The size of a part of a phase is the time that the speeds of its threads give
//!   (`phases`).
//! - A region's time in a piece is the piece's, where the piece is inside the region, and otherwise the share of it
//!   that the simulation gave.

use super::Cut;
use super::phases::Phases;
use super::statistics::{Sample, Variance, relative_half_width};
use super::strata::Stratum;
use crate::model::{LINE_BYTES, Model};
use crate::window::{Counted, Counters, PieceResult, RegionTotals, Served, memory_joules, package_joules};
use std::collections::{BTreeMap, BTreeSet};

/// A simulated piece.
pub(super) struct Simulated {
    /// By thread: its time in cycles.
    pub(super) cycles: Vec<f64>,
    /// From the first thread's begin to the last one's end, in cycles.
    pub(super) elapsed: f64,
    counters: Counters,
    /// Lines that crossed a link or a bus.
    crossings: f64,
    /// By region: its share of the time, and its counts.
    regions: BTreeMap<u64, (f64, Counters)>,
    pub(super) released: u64,
}

impl Simulated {
    /// `inside` are the regions that contain the whole piece.
    pub(super) fn new(model: &Model, result: PieceResult, inside: &[u64]) -> Self {
        let threads: Vec<Counted> = result.threads.into_iter().map(Option::unwrap_or_default).collect();
        let begin = threads.iter().map(|thread| thread.begin).fold(f64::INFINITY, f64::min);
        let end = threads.iter().map(|thread| thread.end).fold(0.0, f64::max);
        let elapsed = (end - begin).max(0.0);
        let crossed = |place: usize| threads.iter().map(move |thread| thread.crossed[place] as f64);
        let begun = crossed(0).sum::<f64>() / threads.len().max(1) as f64;
        let mut counters = Counters::default();
        for thread in &threads {
            counters += &thread.counters;
        }
        let of_region = |totals: RegionTotals| {
            let share = totals.seconds * model.frequency().0 / elapsed.max(1.0);
            (share.min(1.0), totals.counters)
        };
        let mut regions: BTreeMap<u64, (f64, Counters)> = result
            .regions
            .into_iter()
            .map(|(region, totals)| (region, of_region(totals)))
            .collect();
        regions.extend(inside.iter().map(|&region| (region, (1.0, counters.clone()))));
        Self {
            elapsed,
            cycles: threads.iter().map(|thread| thread.end - thread.begin).collect(),
            crossings: (crossed(1).fold(0.0, f64::max) - begun).max(0.0),
            counters,
            regions,
            released: result.released,
        }
    }
}

/// The estimated totals of the program or of a region.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Estimate {
    pub(super) totals: RegionTotals,
    /// The half-width of the 95 % interval of the time over the time; `None` if the sample does not say it.
    pub(super) half_width: Option<f64>,
}

/// By stratum: the numbers of its simulated pieces, and their results.
pub(super) type Pieces = [Vec<(usize, Simulated)>];

/// The whole program first, then its regions.
pub(super) fn estimate(model: &Model, cut: &Cut, pieces: &Pieces) -> (Estimate, BTreeMap<u64, Estimate>) {
    let phases = Phases::new(cut, pieces);
    let regions: BTreeSet<u64> = pieces
        .iter()
        .flatten()
        .flat_map(|(_, piece)| piece.regions.keys())
        .copied()
        .collect();
    let part = |region| part(model, cut, pieces, &phases, region);
    (
        part(None),
        regions.into_iter().map(|region| (region, part(Some(region)))).collect(),
    )
}

/// The time of each stratum in cycles, and its variance.
pub(super) fn times_of_strata(cut: &Cut, pieces: &Pieces) -> Vec<(f64, Option<Variance>)> {
    let phases = Phases::new(cut, pieces);
    let strata = cut.strata.iter().zip(pieces);
    strata
        .map(|(stratum, pieces)| {
            let sample = times(stratum, pieces, &phases, None);
            (sample.total(), sample.variance())
        })
        .collect()
}

fn part(model: &Model, cut: &Cut, pieces: &Pieces, phases: &Phases, region: Option<u64>) -> Estimate {
    let (mut cycles, mut crossings) = (0.0, 0.0);
    let mut counters = Counters::default();
    let mut variances: Vec<Option<Variance>> = vec![];
    for (stratum, pieces) in cut.strata.iter().zip(pieces) {
        let sample = times(stratum, pieces, phases, region);
        cycles += sample.total();
        variances.push(sample.variance());
        let factor = cut.factor(stratum, pieces.iter().map(|&(number, _)| number));
        for (_, piece) in pieces {
            let (share, counted) = piece.of(region);
            if let Some(counted) = counted {
                counters += &counted.scaled(factor);
                crossings += factor * share * piece.crossings;
            }
        }
    }
    if region.is_none() {
        counters.wait_cycles += phases.waited();
    }
    let seconds = cycles / model.frequency().0;
    let lines = memory_lines(&counters) as f64;
    let width = variances
        .into_iter()
        .collect::<Option<Vec<Variance>>>()
        .filter(|_| cycles > 0.0)
        .map(|variances| relative_half_width(&variances, cycles));
    Estimate {
        half_width: width,
        totals: RegionTotals {
            executions: 1,
            seconds,
            memory_bytes: memory_lines(&counters) * LINE_BYTES,
            traffic: None,
            package_joules: package_joules(model, seconds, [&counters], crossings),
            memory_joules: memory_joules(model, seconds, lines),
            counters,
        },
    }
}

impl Simulated {
    /// The share of a region, or of the whole program, in the time of the piece, and its counts.
    fn of(&self, region: Option<u64>) -> (f64, Option<&Counters>) {
        match region {
            None => (1.0, Some(&self.counters)),
            Some(region) => match self.regions.get(&region) {
                Some((share, counters)) => (*share, Some(counters)),
                None => (0.0, None),
            },
        }
    }
}

/// The times of the simulated pieces of a stratum, or of a region in them, in cycles.
fn times(stratum: &Stratum, pieces: &[(usize, Simulated)], phases: &Phases, region: Option<u64>) -> Sample {
    let sampled = pieces
        .iter()
        .map(|(number, piece)| (phases.size(*number), phases.time(*number, piece) * piece.of(region).0));
    Sample {
        members: stratum.members.len(),
        size: stratum.members.iter().map(|&member| phases.size(member)).sum(),
        sampled: sampled.collect(),
    }
}

/// Lines that all memory served.
fn memory_lines(counters: &Counters) -> u64 {
    counters.served[Served::LocalMemory]
        + counters.served[Served::RemoteMemory]
        + counters.prefetches_from_memory
        + counters.memory_writes
}
