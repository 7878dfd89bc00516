//! The time of phases that were cut into parts, from the times of their threads in some parts.
//!
//! 1. In a stratum, each thread has a time per instruction. With its instructions in each part this gives its time in a
//!    phase.
//! 2. The slowest thread determines the phase's time. But the largest of several estimates is too large on average,
//!    because each is uncertain. So the times are moved towards their mean by the share of their spread that the
//!    uncertainty explains (James and Stein, Estimation with quadratic loss, 1961).

use super::Cut;
use super::estimate::{Pieces, Simulated};
use std::collections::BTreeMap;

/// What determines the time of a phase.
#[derive(Clone, Debug, PartialEq)]
struct Phase {
    /// The threads that work in it.
    working: Vec<usize>,
    slowest: usize,
    /// The weight of the slowest thread; the mean of all has the rest.
    weight: f64,
}

pub(super) struct Phases {
    cut: BTreeMap<usize, Phase>,
    /// By piece: the phase that contains it.
    phase_of: Vec<Option<usize>>,
    /// By piece: see `size`.
    sizes: Vec<f64>,
    waited: f64,
}

/// The speed of a thread in a stratum.
#[derive(Clone, Copy, Debug, Default)]
struct Speed {
    /// Cycles per instruction.
    rate: f64,
    /// Its variance.
    variance: f64,
}

impl Phases {
    pub(super) fn new(cut: &Cut, pieces: &Pieces) -> Self {
        let speeds: Vec<Vec<Speed>> = pieces
            .iter()
            .zip(&cut.strata)
            .map(|(pieces, stratum)| speeds(cut, pieces, stratum.members.len()))
            .collect();
        let mut stratum_of = vec![0; cut.pieces.len()];
        for (number, stratum) in cut.strata.iter().enumerate() {
            for &member in &stratum.members {
                stratum_of[member] = number;
            }
        }
        let mut parts: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (number, piece) in cut.pieces.iter().enumerate() {
            if let Some(phase) = piece.phase {
                parts.entry(phase).or_default().push(number);
            }
        }
        let phases: BTreeMap<usize, (Phase, f64)> = parts
            .into_iter()
            .map(|(phase, parts)| (phase, Phase::new(cut, &speeds, &stratum_of, &parts)))
            .collect();
        let waited = phases.values().map(|(_, waited)| waited).sum();
        let phases: BTreeMap<usize, Phase> = phases.into_iter().map(|(number, (phase, _))| (number, phase)).collect();
        let phase_of: Vec<Option<usize>> = cut.pieces.iter().map(|piece| piece.phase).collect();
        let sizes = phase_of
            .iter()
            .enumerate()
            .map(|(number, phase)| match phase {
                None => cut.instructions[number].iter().sum(),
                Some(phase) => phases[phase]
                    .combined(|thread| speeds[stratum_of[number]][thread].rate * cut.instructions[number][thread]),
            })
            .collect();
        Self {
            cut: phases,
            phase_of,
            sizes,
            waited,
        }
    }

    /// The size of a piece in estimates of times: its instructions, or the time of its part of a phase by the speeds of
    /// the threads.
    pub(super) fn size(&self, piece: usize) -> f64 {
        self.sizes[piece]
    }

    /// The contribution of a simulated piece to the program's time, in cycles.
    pub(super) fn time(&self, piece: usize, simulated: &Simulated) -> f64 {
        match self.phase_of[piece] {
            None => simulated.elapsed,
            Some(phase) => self.cut[&phase].combined(|thread| simulated.cycles[thread]),
        }
    }

    /// For how long threads wait at the ends of the phases that were cut, in cycles of all threads.
    pub(super) fn waited(&self) -> f64 {
        self.waited
    }
}

impl Phase {
    /// The phase of these parts, and for how long its threads wait at its end.
    fn new(cut: &Cut, speeds: &[Vec<Speed>], stratum_of: &[usize], parts: &[usize]) -> (Self, f64) {
        let threads = cut.instructions[parts[0]].len();
        let mut times = vec![0.0; threads];
        let mut variances = vec![0.0; threads];
        let mut by_stratum: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for &part in parts {
            let sums = by_stratum.entry(stratum_of[part]).or_insert_with(|| vec![0.0; threads]);
            for (sum, instructions) in sums.iter_mut().zip(&cut.instructions[part]) {
                *sum += instructions;
            }
        }
        for (stratum, instructions) in &by_stratum {
            for thread in 0..threads {
                let speed = speeds[*stratum][thread];
                times[thread] += speed.rate * instructions[thread];
                variances[thread] += speed.variance * instructions[thread].powi(2);
            }
        }
        let works = |thread: &usize| parts.iter().any(|&part| cut.instructions[part][*thread] > 0.0);
        let working: Vec<usize> = (0..threads).filter(works).collect();
        let mean = |of: &dyn Fn(usize) -> f64| {
            working.iter().map(|&thread| of(thread)).sum::<f64>() / working.len().max(1) as f64
        };
        let centre = mean(&|thread| times[thread]);
        let degrees = working.len().saturating_sub(1).max(1) as f64;
        let spread = mean(&|thread| (times[thread] - centre).powi(2)) * working.len() as f64 / degrees;
        let noise = mean(&|thread| variances[thread]);
        let slowest = working
            .iter()
            .copied()
            .max_by(|&one, &other| times[one].total_cmp(&times[other]))
            .unwrap_or(0);
        let phase = Self {
            weight: if spread > 0.0 {
                (1.0 - noise / spread).max(0.0)
            } else {
                0.0
            },
            slowest,
            working,
        };
        let time = phase.combined(|thread| times[thread]);
        let waited = times.iter().map(|own| (time - own).max(0.0)).sum();
        (phase, waited)
    }

    /// The mean of all and the slowest thread's value, by their weights.
    fn combined(&self, of: impl Fn(usize) -> f64) -> f64 {
        let mean = self.working.iter().map(|&thread| of(thread)).sum::<f64>() / self.working.len().max(1) as f64;
        mean + self.weight * (of(self.slowest) - mean)
    }
}

/// By thread: its speed in the simulated pieces of a stratum of `members` pieces.
fn speeds(cut: &Cut, pieces: &[(usize, Simulated)], members: usize) -> Vec<Speed> {
    let threads = cut.instructions.first().map_or(0, Vec::len);
    let all: (f64, f64) = pieces
        .iter()
        .fold((0.0, 0.0), |(cycles, instructions), (number, piece)| {
            (
                cycles + piece.cycles.iter().sum::<f64>(),
                instructions + cut.instructions[*number].iter().sum::<f64>(),
            )
        });
    let unsampled = 1.0 - pieces.len() as f64 / members.max(1) as f64;
    let speed = |thread: usize| {
        let of = || {
            pieces
                .iter()
                .map(move |(number, piece)| (piece.cycles[thread], cut.instructions[*number][thread]))
        };
        let (cycles, instructions) = of().fold((0.0, 0.0), |sum, piece| (sum.0 + piece.0, sum.1 + piece.1));
        if instructions == 0.0 {
            // It works only in pieces that were not simulated.
            return Speed {
                rate: if all.1 > 0.0 { all.0 / all.1 } else { 0.0 },
                variance: 0.0,
            };
        }
        let rate = cycles / instructions;
        let squares: f64 = of()
            .map(|(cycles, instructions)| (cycles - rate * instructions).powi(2))
            .sum();
        let number = pieces.len() as f64;
        let variance = if number > 1.0 {
            unsampled * squares / (number - 1.0) * number / instructions.powi(2)
        } else {
            0.0
        };
        Speed { rate, variance }
    };
    (0..threads).map(speed).collect()
}
