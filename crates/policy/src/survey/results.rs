//! What a survey has measured.

use super::estimate::{Estimated, estimate};
use super::sessions::linked;
use pinfold_core::{RegionCounts, RegionId};
use std::collections::BTreeMap;
use std::time::Duration;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The whole program.
    Program,
    /// A parallel region of it.
    Region(RegionId),
}

/// The `session` of measurements in the run that is being surveyed.
pub const THIS_RUN: u64 = 0;

/// One measurement of a subject in a configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// What was measured.
    pub subject: Subject,
    /// The position of the configuration.
    pub configuration: usize,
    /// The run of the program: `THIS_RUN`, or another number for each earlier run.
    pub session: u64,
    /// The middle of the measurement, since the run began.
    pub at: Duration,
    /// The executions of a region, or the units of the program's metric.
    pub units: f64,
    /// The time of these, in seconds.
    pub seconds: f64,
    /// What was counted meanwhile.
    pub counts: Option<RegionCounts>,
}

/// A subject in a configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// What was measured.
    pub subject: Subject,
    /// The position of the configuration.
    pub configuration: usize,
    /// Seconds of one unit: the median of the measurements, each without the drift of the program.
    pub seconds: f64,
    /// Half the 95 % interval of `seconds`, over `seconds`; `None` after one measurement.
    pub error: Option<f64>,
    /// The robust standard deviation of the measurements, over `seconds`: 1.4826 times the median absolute deviation.
    /// `None` after one measurement.
    pub spread: Option<f64>,
    /// How many measurements there were.
    pub measurements: usize,
    /// What was counted of one unit; `None` if units are only timed.
    pub counts: Option<RegionCounts>,
}

/// The measurements of a survey.
#[derive(Debug, Default)]
pub(super) struct Results {
    turns: BTreeMap<Subject, Vec<Turn>>,
    /// By configuration and subject: the number of measurements. Progress is reported each second, which must not cost
    /// an estimate of all times.
    numbers: BTreeMap<usize, BTreeMap<Subject, usize>>,
    /// The measurements of this run that nobody has taken.
    fresh: Vec<Turn>,
}

impl Results {
    /// Adds a measurement. One without units says nothing.
    pub(super) fn add(&mut self, turn: Turn) {
        if turn.units > 0.0 && turn.seconds > 0.0 {
            let of_configuration = self.numbers.entry(turn.configuration).or_default();
            *of_configuration.entry(turn.subject).or_default() += 1;
            if turn.session == THIS_RUN {
                self.fresh.push(turn.clone());
            }
            self.turns.entry(turn.subject).or_default().push(turn);
        }
    }

    /// The measurements of this run since the last call.
    pub(super) fn take_fresh(&mut self) -> Vec<Turn> {
        std::mem::take(&mut self.fresh)
    }

    /// Drops the measurements of a subject that are not valid.
    pub(super) fn retain(&mut self, subject: Subject, is_valid: impl Fn(usize) -> bool) {
        if let Some(turns) = self.turns.get_mut(&subject) {
            turns.retain(|turn| is_valid(turn.configuration));
        }
        for (&configuration, subjects) in &mut self.numbers {
            if !is_valid(configuration) {
                subjects.remove(&subject);
            }
        }
    }

    /// By configuration: how many subjects were measured.
    pub(super) fn by_configuration(&self) -> BTreeMap<usize, usize> {
        let numbers = self.numbers.iter();
        numbers
            .map(|(&configuration, subjects)| (configuration, subjects.len()))
            .collect()
    }

    /// How many measurements there are in all.
    pub(super) fn number(&self) -> usize {
        self.numbers.values().flat_map(BTreeMap::values).sum()
    }

    /// How many measurements of earlier runs there are.
    pub(super) fn earlier(&self) -> usize {
        let turns = self.turns.values().flatten();
        turns.filter(|turn| turn.session != THIS_RUN).count()
    }

    /// The results of a subject by configuration, and how far the subject's speed has drifted: the largest time over
    /// the smallest, minus one.
    pub(super) fn of(&self, subject: Subject) -> (Vec<Measured>, f64) {
        self.turns.get(&subject).map_or((vec![], 0.0), |turns| results(turns))
    }

    /// The subjects with measurements.
    pub(super) fn subjects(&self) -> impl Iterator<Item = Subject> {
        self.turns.keys().copied()
    }
}

/// The results of one subject, from its measurements in one run or several, by configuration. If two groups of runs share
/// no configuration, the larger group counts.
pub fn measured(turns: &[Turn]) -> Vec<Measured> {
    results(turns).0
}

fn results(turns: &[Turn]) -> (Vec<Measured>, f64) {
    let turns = linked(turns);
    let Some(subject) = turns.first().map(|turn| turn.subject) else {
        return (vec![], 0.0);
    };
    let Estimated { cells, drift } = estimate(&turns);
    let measured = cells.into_iter().map(|(configuration, cell)| {
        let its = || turns.iter().filter(|turn| turn.configuration == configuration);
        let units: f64 = its().map(|turn| turn.units).sum();
        let counts = its().try_fold(RegionCounts::ZERO, |sum, turn| Some(sum.plus(1.0, &turn.counts?)));
        Measured {
            subject,
            configuration,
            seconds: cell.seconds,
            error: cell.error,
            spread: cell.spread,
            measurements: cell.measurements,
            counts: counts.map(|counts| RegionCounts::ZERO.plus(units.recip(), &counts)),
        }
    });
    (measured.collect(), drift)
}
