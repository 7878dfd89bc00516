//! From samples to rates.
//!
//! A meter follows one metric. It adds the counts of all working tasks, including those that ended, to one total that
//! grows with the program. So a rate does not depend on the tasks that exist at the two ends of a measurement. With the
//! same tasks at both ends, the growth of the total divided by the time and by the number of tasks is
//! `r_avg` in autopin's paper, the average of `r_j = (pc_2 - pc_1) / (ts_2 - ts_1)` (section 3, step 5).
//!
//! A missing count leaves a gap: there is neither a total nor a reading at that time. The totals before and after it
//! stay right, because the growth of each counter is taken from its last reading.

use crate::program::working_tasks::WorkingTasks;
use pinfold_core::statistics::{self, Reading};
use pinfold_core::{Count, Metric, MetricSource, Sample, Scope, TaskId};
use std::collections::BTreeMap;
use std::time::Duration;

/// The metric's total at one moment.
#[derive(Clone, Copy, Debug)]
struct Point {
    at: Duration,
    total: Option<f64>,
}

/// The result of a measurement over a period.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measurement {
    /// From the first to the last total; `None` for fewer than two totals.
    pub(crate) rate: Option<f64>,
    /// Coefficient of variation of the readings; `None` for fewer than two, or if their mean is zero.
    pub(crate) spread: Option<f64>,
    /// The rate between each total and the next.
    pub(crate) readings: Vec<Reading>,
    /// The time from the first to the last total.
    pub(crate) over: Duration,
}

/// Above this probability a difference of rates is noise.
const CHANCE: f64 = 0.01;
/// If too few readings are there to know the noise, a rate that is lower by this share counts as lower.
const MARGIN: f64 = 0.05;

impl Measurement {
    /// Whether this rate is significantly lower than another.
    pub(crate) fn is_lower_than(&self, other: &Self) -> bool {
        let levels = statistics::level(&self.readings).zip(statistics::level(&other.readings));
        match (levels, self.rate, other.rate) {
            (Some((one, other)), ..) => statistics::chance_of_not_lower(&one, &other) <= CHANCE,
            (None, Some(one), Some(other)) => one < other * (1.0 - MARGIN),
            _ => false,
        }
    }

    /// The standard error of the rate, from the readings and their autocorrelation; `None` for too few readings.
    pub(crate) fn error(&self) -> Option<f64> {
        statistics::level(&self.readings).map(|level| level.variance.sqrt())
    }

    /// The measurement with these readings, and the rate that was derived from them.
    pub(crate) fn from_readings(readings: Vec<Reading>, rate: Option<f64>) -> Self {
        Self {
            rate,
            spread: statistics::coefficient_of_variation(&readings),
            over: match (readings.first(), readings.last()) {
                (Some(first), Some(last)) => Duration::from_secs_f64(last.at - first.at),
                _ => Duration::ZERO,
            },
            readings,
        }
    }
}

/// Follows one metric.
#[derive(Debug)]
pub(crate) struct Meter {
    metric: usize,
    scope: Scope,
    source: &'static MetricSource,
    /// The last count of each counter that has been read; the program's own has no task.
    read: BTreeMap<Option<TaskId>, Count>,
    begun: bool,
    total: f64,
    points: Vec<Point>,
    /// The divisor of rates: the number of counted working tasks, 1 for a metric of the program.
    shares: usize,
}

/// The values of each counter of `metric`. A task counts if `counts` returns true.
fn counters<'a>(
    metric: usize,
    scope: Scope,
    sample: &'a Sample,
    counts: impl Fn(TaskId) -> bool + 'a,
) -> Box<dyn Iterator<Item = (Option<TaskId>, Option<Count>)> + 'a> {
    match scope {
        Scope::Program => {
            let count = sample.program.get(metric).copied().flatten();
            Box::new(std::iter::once((None, count)))
        }
        Scope::Task => Box::new(
            sample
                .tasks
                .iter()
                .filter(move |task| counts(task.id))
                .map(move |task| (Some(task.id), task.counts.get(metric).copied().flatten())),
        ),
    }
}

/// The growth of a metric between two samples, summed over the tasks that `counts` returns true for. A counter that is
/// missing in the first sample grew from zero. `None` when no counter could be read in the second.
pub(crate) fn growth(
    metric: usize,
    scope: Scope,
    first: &Sample,
    last: &Sample,
    counts: impl Fn(TaskId) -> bool + Copy,
) -> Option<f64> {
    let before: BTreeMap<Option<TaskId>, Option<Count>> = counters(metric, scope, first, counts).collect();
    let mut sum = None;
    for (key, now) in counters(metric, scope, last, counts) {
        let before = before.get(&key).copied().flatten().unwrap_or(Count::exact(0));
        if let Some(grown) = now.and_then(|now| now.since(&before)) {
            *sum.get_or_insert(0.0) += grown;
        }
    }
    sum
}

impl Meter {
    /// Follows the metric at position `metric` of the machine's list.
    pub(crate) fn new(metric: usize, metrics: &[Metric]) -> Self {
        Self {
            metric,
            scope: metrics[metric].scope,
            source: metrics[metric].source,
            read: BTreeMap::new(),
            begun: false,
            total: 0.0,
            points: vec![],
            shares: 1,
        }
    }

    /// The position of the metric.
    pub(crate) fn metric(&self) -> usize {
        self.metric
    }

    /// Whether it also measures a program that hardly uses processor time.
    pub(crate) fn measures_idle_programs(&self) -> bool {
        self.source.measures_idle_programs
    }

    /// Processes a sample.
    pub(crate) fn read(&mut self, sample: &Sample, tasks: &WorkingTasks) {
        let mut complete = true;
        let mut any = false;
        for (key, now) in counters(self.metric, self.scope, sample, |_| true) {
            let working = key.is_none_or(|id| tasks.works(id));
            let before = self.read.get(&key).copied();
            let Some(now) = now else {
                // A counter that never had a value delays no total.
                complete &= before.is_none() || !working;
                continue;
            };
            let grown = match before {
                Some(before) => now.since(&before),
                None if self.begun => now.since(&Count::exact(0)),
                None => Some(0.0),
            };
            let Some(grown) = grown else {
                complete &= !working;
                continue;
            };
            self.read.insert(key, now);
            if working {
                any = true;
                self.total += grown;
            }
        }
        self.begun = true;
        for task in sample.tasks.iter().filter(|task| !task.alive) {
            self.read.remove(&Some(task.id));
        }
        self.points.push(Point {
            at: sample.at,
            total: (complete && any).then_some(self.total),
        });
    }

    /// Divides the rates from now on by the number of counted working tasks.
    pub(crate) fn share(&mut self, sample: &Sample, tasks: &WorkingTasks) {
        self.shares = match self.scope {
            Scope::Program => 1,
            Scope::Task => counters(self.metric, self.scope, sample, |id| tasks.works(id))
                .filter(|(_, count)| count.is_some())
                .count()
                .max(1),
        };
    }

    /// Whether the program has one count, and not each task its own.
    pub(crate) fn is_of_program(&self) -> bool {
        self.scope == Scope::Program
    }

    /// Drops all totals but the last one, which begins the next measurement.
    pub(crate) fn restart(&mut self) {
        self.points.drain(..self.points.len().saturating_sub(1));
    }

    /// The counts of all working tasks since `restart`.
    pub(crate) fn grown(&self) -> f64 {
        let total = |point: &Point| point.total;
        let first = self.points.iter().find_map(total);
        let last = self.points.iter().rev().find_map(total);
        first.zip(last).map_or(0.0, |(first, last)| last - first)
    }

    /// The measurement since `restart`.
    pub(crate) fn measurement(&self) -> Measurement {
        let shares = self.shares as f64;
        let rate_between = |first: &Point, last: &Point| {
            let time = last.at.checked_sub(first.at)?.as_secs_f64();
            (time > 0.0).then_some((last.total? - first.total?) / time / shares)
        };
        let whole = || {
            let first = self.points.iter().find(|point| point.total.is_some())?;
            let last = self.points.iter().rfind(|point| point.total.is_some())?;
            Some((rate_between(first, last)?, last.at.saturating_sub(first.at)))
        };
        let readings: Vec<Reading> = self
            .points
            .windows(2)
            .filter_map(|pair| {
                Some(Reading {
                    at: pair[1].at.as_secs_f64(),
                    rate: rate_between(&pair[0], &pair[1])?,
                })
            })
            .collect();
        let (rate, over) = whole().unzip();
        Measurement {
            rate,
            spread: statistics::coefficient_of_variation(&readings),
            readings,
            over: over.unwrap_or_default(),
        }
    }
}
