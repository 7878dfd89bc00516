//! Which metric decides (docs/metrics.md).
//!
//! `auto` takes a source that counted during the end of the initialisation: the one that is nearest to the
//! application's own progress. The registry of sources (`pinfold_core::sources`) has their order, and says which may be
//! taken.
//!
//! A count is a whole number, so a rate over `n` counts is known to about `1 / n`. If fewer than
//! `ENOUGH` counts are expected in a probe, the metric cannot even show a difference of a tenth. Then `auto` takes the
//! next metric. If no other metric counts, `auto` says that the rates are coarse.
//!
//! A flow through the program (`flow`) is progress only if the program sets the pace. It may come in bursts, so its steps
//! are expected counts, and not its bytes. `auto` passes over a flow that clients or disks pace, and over one of too few
//! steps, and says so: nothing is tried then, unless another metric counts. The calls of a function that pinfold found
//! have the pace of the clients as well.
//!
//! The same program should have the same metric in each run, whatever else runs on the machine. So a preferred metric
//! is not passed over because the program is slow at the moment. If the metric would count at least half as often as
//! needed while the program runs all the time, or may do so with its next count, the choice waits until it has counted
//! `ENOUGH`, and takes it (`Choice::waits`). The metric of an earlier run is preferred to all others.

use crate::program::flow::{Flow, Pace};
use crate::program::{function_search, meter};
use pinfold_core::{Metric, MetricCode, Sample, TaskId, TaskSample, sources};
use std::collections::BTreeMap;
use std::time::Duration;

/// A metric is useful if at least this many counts are expected in one probe. Rates are then known to a tenth: pinnings
/// in section 5 of autopin's paper differ by at least that if pinning matters at all.
const ENOUGH: f64 = 10.0;

/// The choice waits for a metric that would have this share of `ENOUGH` if its busiest task ran all the time.
const NEARLY: f64 = 0.5;

/// Names whose Jaro-Winkler similarity is lower are not mistaken for each other.
const SIMILAR: f64 = 0.75;

/// The metric that the user asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MetricRequest {
    /// The most trustworthy one of the metrics that count.
    #[default]
    Auto,
    /// This one.
    Named(String),
}

/// No metric of the machine has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no metric `{name}`{}; there {}", nearest(.near), all(.known))]
pub struct UnknownMetric {
    /// The name that was asked for.
    pub name: String,
    /// The names that resemble it, the nearest first.
    pub near: Vec<String>,
    /// All names that there are.
    pub known: Vec<String>,
}

fn nearest(near: &[String]) -> String {
    match near.first() {
        Some(name) => format!(" (did you mean `{name}`?)"),
        None => String::new(),
    }
}

fn all(known: &[String]) -> String {
    if known.is_empty() {
        "are none on this machine".to_owned()
    } else {
        format!("are: {}", known.join(", "))
    }
}

/// What was chosen, and why.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Choice {
    /// Position among the machine's metrics.
    pub(crate) metric: Option<usize>,
    /// The expected number of counts a second, over all tasks.
    pub(crate) per_second: f64,
    /// Why, for programs.
    pub(crate) code: MetricCode,
    /// Why: a clause or two without a full stop.
    pub(crate) why: String,
    /// Whether it counts so seldom that the rates are coarse.
    pub(crate) coarse: bool,
    /// Whether a metric that is preferred to this one may count often enough after a longer time.
    pub(crate) waits: bool,
}

/// What the choice is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Purpose<'a> {
    /// The length of a probe.
    pub(crate) probe: Duration,
    /// The metric of an earlier run.
    pub(crate) known: Option<&'a str>,
    /// What the window has shown of the program's flows.
    pub(crate) flow: &'a Flow,
    /// The number of PUs that the program may use.
    pub(crate) pus: usize,
}

impl MetricRequest {
    /// Whether the machine has the requested metric.
    pub fn check(&self, metrics: &[Metric]) -> Result<(), UnknownMetric> {
        let Self::Named(name) = self else { return Ok(()) };
        if metrics.iter().any(|metric| metric.name == *name) {
            return Ok(());
        }
        let mut near: Vec<(f64, &str)> = metrics
            .iter()
            .map(|metric| (strsim::jaro_winkler(name, &metric.name), metric.name.as_str()))
            .filter(|&(similarity, _)| similarity >= SIMILAR)
            .collect();
        near.sort_by(|one, other| other.0.total_cmp(&one.0));
        Err(UnknownMetric {
            name: name.clone(),
            near: near.into_iter().map(|(_, name)| name.to_owned()).collect(),
            known: metrics.iter().map(|metric| metric.name.clone()).collect(),
        })
    }

    /// Whether this metric was asked for by its name.
    pub fn is_named(&self, metric: &str) -> bool {
        matches!(self, Self::Named(name) if name == metric)
    }

    /// Whether the program has reported its progress often enough to be measured by that although it hardly uses
    /// processor time, unless another metric was requested.
    pub(crate) fn measures_idle_program(
        &self,
        metrics: &[Metric],
        first: &Sample,
        last: &Sample,
        probe: Duration,
    ) -> bool {
        let time = last.at.saturating_sub(first.at).as_secs_f64();
        let asked = |metric: &Metric| match self {
            Self::Auto => true,
            Self::Named(name) => *name == metric.name,
        };
        metrics.iter().enumerate().any(|(index, metric)| {
            let counts = metric.source.measures_idle_programs && asked(metric) && time > 0.0;
            let grown = meter::growth(index, metric.scope, first, last, |_| true).filter(|_| counts);
            grown.is_some_and(|grown| grown / time * probe.as_secs_f64() >= ENOUGH)
        })
    }

    /// Chooses by the counts from `first` to `last` of the tasks that `counts` returns true for.
    pub(crate) fn choose(
        &self,
        metrics: &[Metric],
        first: &Sample,
        last: &Sample,
        purpose: Purpose<'_>,
        counts: impl Fn(TaskId) -> bool + Copy,
    ) -> Choice {
        let time = last.at.saturating_sub(first.at).as_secs_f64();
        let Purpose {
            probe,
            known,
            flow,
            pus,
        } = purpose;
        let rate = |(index, metric): (usize, &Metric)| {
            if metric.source.is_flow {
                return flow.rate(index);
            }
            let grown = meter::growth(index, metric.scope, first, last, counts);
            grown.filter(|_| time > 0.0).map(|grown| grown / time)
        };
        let counted = MetricRates {
            metrics,
            rates: metrics.iter().enumerate().map(rate).collect(),
            time,
            ran: busiest(first, last).map_or(time, |ran| ran.as_secs_f64().min(time)),
            probe,
            flow,
            pace: flow.pace(pus),
            known: known.and_then(|known| {
                let code = sources::FUNCTION.code;
                let name = if function_search::is_identity(known) {
                    code
                } else {
                    known
                };
                metrics.iter().position(|metric| metric.name == name)
            }),
            no_function: function_search::why_none(last),
        };
        let Self::Named(name) = self else {
            return counted.automatic();
        };
        if let Some(index) = metrics.iter().position(|metric| metric.name == *name) {
            return counted.named(index);
        }
        let unknown = self.check(metrics).err();
        let why = unknown.map_or_else(String::new, |error| error.to_string());
        Choice::nothing(MetricCode::NotThere, why)
    }
}

impl Choice {
    fn nothing(code: MetricCode, why: String) -> Self {
        Self {
            metric: None,
            per_second: 0.0,
            code,
            why,
            coarse: false,
            waits: false,
        }
    }
}

/// The processor time that the busiest task has used from `first` to `last`; `None` if none can be read.
pub(crate) fn busiest(first: &Sample, last: &Sample) -> Option<Duration> {
    let before: BTreeMap<TaskId, Option<Duration>> = first.tasks.iter().map(|task| (task.id, task.cpu_time)).collect();
    let used = |task: &TaskSample| {
        let before = before.get(&task.id).copied().flatten();
        Some(task.cpu_time?.saturating_sub(before.unwrap_or_default()))
    };
    last.tasks.iter().filter_map(used).max()
}

/// What the metrics counted at the end of the initialisation.
struct MetricRates<'a> {
    metrics: &'a [Metric],
    /// Counts a second of each metric; `None` if nothing could be read.
    rates: Vec<Option<f64>>,
    /// The length of the window, and how long the busiest task ran meanwhile, in seconds.
    time: f64,
    ran: f64,
    probe: Duration,
    flow: &'a Flow,
    pace: Pace,
    /// The metric of an earlier run.
    known: Option<usize>,
    /// Why no function was found that shows progress; `None` if none was looked for.
    no_function: Option<&'a str>,
}

impl MetricRates<'_> {
    /// The choice of the metric that the user named.
    fn named(&self, index: usize) -> Choice {
        let metric = &self.metrics[index];
        match self.rates[index] {
            Some(rate) if rate > 0.0 => self.chosen(index, rate, MetricCode::AskedFor, "asked for"),
            Some(_) => Choice::nothing(
                MetricCode::AskedForCountedNothing,
                format!("`{}` was asked for but has counted nothing so far", metric.name),
            ),
            None => Choice::nothing(
                MetricCode::AskedForNotReadable,
                format!("`{}` was asked for, but {}", metric.name, self.absent(index)),
            ),
        }
    }

    /// The choice of `auto`: the most preferred metric that counts often enough, or else the most preferred that
    /// counts.
    fn automatic(&self) -> Choice {
        let mut order = sources::automatic(self.metrics);
        // The metric of an earlier run comes first.
        order.sort_by_key(|&index| self.known != Some(index));
        let counting: Vec<(usize, f64)> = order
            .iter()
            .filter(|&&index| self.paced_by_others(index).is_none())
            .filter_map(|&index| Some((index, self.rates[index].filter(|&rate| rate > 0.0)?)))
            .filter(|&(index, rate)| !self.is_seldom_flow(index, rate))
            .collect();
        let enough = counting
            .iter()
            .position(|&(index, rate)| self.is_enough(self.counts(index, rate)));
        let Some(&(index, rate)) = counting.get(enough.unwrap_or(0)) else {
            return self.nothing_counts(&order);
        };
        let preferred = order.iter().take_while(|&&other| other != index);
        let waits = self.metrics[index].source.is_flow && !self.flow.is_long_enough()
            || preferred
                .filter(|&&other| self.paced_by_others(other).is_none())
                .filter_map(|&other| Some(self.counts(other, self.rates[other]?)))
                .any(|rate| self.may_be_enough(rate));
        let passed_over: Vec<String> = order
            .iter()
            .take_while(|&&other| other != index)
            .map(|&other| self.passed_over(other))
            .collect();
        let mut why = "the nearest to the program's own progress".to_owned();
        if !passed_over.is_empty() {
            why = format!("{why} that counts here ({})", passed_over.join(", "));
        }
        Choice {
            waits,
            ..self.chosen(index, rate, MetricCode::NearestToProgress, &why)
        }
    }

    /// Whether this is a flow of too few steps. These are a program's start, which reads its libraries, or lines that it
    /// writes at fixed times, whatever it has done meanwhile.
    fn is_seldom_flow(&self, index: usize, rate: f64) -> bool {
        self.metrics[index].source.is_flow && !self.is_enough(self.counts(index, rate))
    }

    /// The counts a second that say how coarse a rate is: of a flow, the steps in which it comes.
    fn counts(&self, index: usize, rate: f64) -> f64 {
        if self.metrics[index].source.is_flow {
            self.flow.steps(index)
        } else {
            rate
        }
    }

    /// The share of the time that the program waits for those who set the pace of this metric. `None` if the program
    /// sets it.
    fn paced_by_others(&self, index: usize) -> Option<f64> {
        match self.pace {
            Pace::Others { waits } if self.metrics[index].source.follows_demand => Some(waits),
            _ => None,
        }
    }

    /// Whether this many counts a second are enough for a probe, or have been enough for one.
    fn is_enough(&self, rate: f64) -> bool {
        rate * self.time.max(self.probe.as_secs_f64()) >= ENOUGH
    }

    /// Whether this rate, which is not enough, may be due to the load of the machine or because the next count is still
    /// to come.
    fn may_be_enough(&self, rate: f64) -> bool {
        let nearly = NEARLY * ENOUGH / self.probe.as_secs_f64();
        let counts = rate * self.time;
        (counts.max(1.0) / self.ran) >= nearly
    }

    fn chosen(&self, metric: usize, per_second: f64, code: MetricCode, why: &str) -> Choice {
        let coarse = coarse(self.counts(metric, per_second), self.probe);
        Choice {
            metric: Some(metric),
            per_second,
            code,
            coarse: coarse.is_some(),
            why: format!("{why}{}", coarse.unwrap_or_default()),
            waits: false,
        }
    }

    /// The choice if none of these metrics counts.
    fn nothing_counts(&self, order: &[usize]) -> Choice {
        let names: Vec<&str> = order.iter().map(|&index| self.metrics[index].name.as_str()).collect();
        match names.as_slice() {
            [] => Choice::nothing(MetricCode::NoSource, "there is no source of counts".to_owned()),
            names => {
                let mut why = format!("nothing has counted so far ({})", names.join(", "));
                let mut waits = false;
                let counting = order
                    .iter()
                    .find(|&&index| self.rates[index].is_some_and(|rate| rate > 0.0));
                if let Some(&index) = counting {
                    let name = &self.metrics[index].name;
                    if let Some(waits) = self.paced_by_others(index) {
                        why = format!("only `{name}` counts, and {}", paced_clause(waits));
                    } else {
                        why = format!("{}, and nothing else counts", self.passed_over(index));
                        waits = !self.flow.is_long_enough();
                    }
                }
                if let Some(no_function) = self.no_function {
                    why = format!("{why}; {no_function}");
                }
                Choice {
                    waits,
                    ..Choice::nothing(MetricCode::NothingCounted, why)
                }
            }
        }
    }

    /// Why `auto` did not choose a metric that it prefers to the chosen one: a clause.
    fn passed_over(&self, index: usize) -> String {
        let metric = &self.metrics[index];
        match self.rates[index] {
            Some(rate) if rate > 0.0 => match self.paced_by_others(index) {
                Some(waits) => format!("`{}`: {}", metric.name, paced_clause(waits)),
                None => format!(
                    "`{}` counts too seldom, {:.1} times in a probe",
                    metric.name,
                    self.counts(index, rate) * self.probe.as_secs_f64()
                ),
            },
            Some(_) => format!("`{}` counted nothing", metric.name),
            None => self.absent(index),
        }
    }

    /// Why nothing can be read of a metric: a clause.
    fn absent(&self, index: usize) -> String {
        let metric = &self.metrics[index];
        match self.no_function {
            Some(why) if metric.source == &sources::FUNCTION => why.to_owned(),
            _ => (metric.source.absent)(metric),
        }
    }
}

/// Why a metric that follows the demand is not taken for progress: a clause.
fn paced_clause(waits: f64) -> String {
    format!(
        "its clients, disks or pipes may set the pace: its busiest thread waits {:.0} % of the time",
        100.0 * waits
    )
}

/// The addition to the reason for a metric that is expected to count rarely.
fn coarse(per_second: f64, probe: Duration) -> Option<String> {
    let expected = per_second * probe.as_secs_f64();
    (expected < ENOUGH).then(|| {
        format!(
            "; the rates are coarse, a probe has only about {expected:.1} counts: probe longer to tell pinnings apart"
        )
    })
}
