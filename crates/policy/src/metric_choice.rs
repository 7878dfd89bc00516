//! Which metric decides (docs/metrics.md).
//!
//! `auto` takes the source that is nearest to the application's own progress among those that counted during the end
//! of the initialisation: heartbeats, then parallel regions, then barriers, then retired instructions. A uprobe is
//! taken only by name: nobody but the user knows which function stands for progress.
//!
//! A count is a whole number, so a rate over `n` counts is known to about `1 / n`. A metric of which fewer than
//! `ENOUGH` counts are to be expected in a probe can not even tell a tenth; `auto` takes the next one then, and when
//! no other counts anything, says that the rates are coarse.

use crate::meter;
use pinfold_core::{Metric, MetricCode, MetricSource, Sample, TaskId};
use std::time::Duration;

/// The fewest counts expected in one probe with which a metric is of use: rates are then known to a tenth, which is
/// the least that the pinnings in the paper's section 5 differ by where pinning matters at all.
const ENOUGH: f64 = 10.0;

/// Names whose Jaro-Winkler similarity is lower are not mistaken for each other.
const SIMILAR: f64 = 0.75;

/// The metric that the user asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MetricRequest {
    /// Whichever is most trustworthy among those that count.
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
    /// How many counts a second are to be expected, over all tasks.
    pub(crate) per_second: f64,
    /// Why, for programs.
    pub(crate) code: MetricCode,
    /// Why: a clause or two without a full stop.
    pub(crate) why: String,
}

impl MetricRequest {
    /// Whether the machine has what is asked for.
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

    /// Whether the program has reported heartbeats often enough to be measured by them, unless something else was asked for.
    pub(crate) fn beats(&self, metrics: &[Metric], first: &Sample, last: &Sample, probe: Duration) -> bool {
        let time = last.at.saturating_sub(first.at).as_secs_f64();
        let asked = |metric: &Metric| match self {
            Self::Auto => true,
            Self::Named(name) => *name == metric.name,
        };
        metrics.iter().enumerate().any(|(index, metric)| {
            let counts = metric.source == MetricSource::Heartbeat && asked(metric) && time > 0.0;
            let grown = meter::growth(index, metric.scope, first, last, |_| true).filter(|_| counts);
            grown.is_some_and(|grown| grown / time * probe.as_secs_f64() >= ENOUGH)
        })
    }

    /// Chooses by what was counted from `first` to `last` by the tasks that `counts` says yes to, for probes of
    /// length `probe`.
    pub(crate) fn choose(
        &self,
        metrics: &[Metric],
        first: &Sample,
        last: &Sample,
        probe: Duration,
        counts: impl Fn(TaskId) -> bool + Copy,
    ) -> Choice {
        let time = last.at.saturating_sub(first.at).as_secs_f64();
        let grown = |index: usize| meter::growth(index, metrics[index].scope, first, last, counts);
        let per_second = |index: usize| grown(index).filter(|_| time > 0.0).map(|grown| grown / time);
        let nothing = |code: MetricCode, why: String| Choice {
            metric: None,
            per_second: 0.0,
            code,
            why,
        };
        let chosen = |metric: usize, per_second: f64, code: MetricCode, why: String| Choice {
            metric: Some(metric),
            per_second,
            code,
            why,
        };
        if let Self::Named(name) = self {
            let Some(index) = metrics.iter().position(|metric| metric.name == *name) else {
                let unknown = self.check(metrics).err();
                let why = unknown.map_or_else(String::new, |error| error.to_string());
                return nothing(MetricCode::NotThere, why);
            };
            return match per_second(index) {
                Some(rate) if rate > 0.0 => chosen(
                    index,
                    rate,
                    MetricCode::AskedFor,
                    format!("asked for{}", coarse(rate, probe).unwrap_or_default()),
                ),
                Some(_) => nothing(
                    MetricCode::AskedForCountedNothing,
                    format!("`{name}` was asked for but has counted nothing so far"),
                ),
                None => nothing(
                    MetricCode::AskedForNotReadable,
                    format!("`{name}` was asked for, but {}", absent(&metrics[index])),
                ),
            };
        }
        let mut order: Vec<usize> = (0..metrics.len())
            .filter(|&index| is_automatic(&metrics[index]))
            .collect();
        order.sort_by_key(|&index| metrics[index].source);
        let counting: Vec<(usize, f64)> = order
            .iter()
            .filter_map(|&index| Some((index, per_second(index).filter(|&rate| rate > 0.0)?)))
            .collect();
        let Some(&(first_index, first_rate)) = counting.first() else {
            let names: Vec<&str> = order.iter().map(|&index| metrics[index].name.as_str()).collect();
            return match names.as_slice() {
                [] => nothing(MetricCode::NoSource, "there is no source of counts".to_owned()),
                names => nothing(
                    MetricCode::NothingCounted,
                    format!("nothing has counted so far ({})", names.join(", ")),
                ),
            };
        };
        let enough = counting.iter().find(|(_, rate)| rate * probe.as_secs_f64() >= ENOUGH);
        let &(index, rate) = enough.unwrap_or(&(first_index, first_rate));
        let passed_over: Vec<String> = order
            .iter()
            .take_while(|&&other| other != index)
            .map(|&other| {
                let name = &metrics[other].name;
                match per_second(other) {
                    Some(rate) if rate > 0.0 => {
                        format!(
                            "`{name}` counts too seldom, {:.1} times in a probe",
                            rate * probe.as_secs_f64()
                        )
                    }
                    Some(_) => format!("`{name}` counted nothing"),
                    None => absent(&metrics[other]),
                }
            })
            .collect();
        let mut why = "the nearest to the program's own progress".to_owned();
        if !passed_over.is_empty() {
            why = format!("{why} that counts here ({})", passed_over.join(", "));
        }
        let why = format!("{why}{}", coarse(rate, probe).unwrap_or_default());
        chosen(index, rate, MetricCode::NearestToProgress, why)
    }
}

/// Why there is nothing to be read of this metric: nobody has told it of the program.
fn absent(metric: &Metric) -> String {
    match metric.source {
        MetricSource::Heartbeat => "the program reports no heartbeats".to_owned(),
        MetricSource::Regions => "the program has no parallel regions that the agent sees".to_owned(),
        MetricSource::Barriers => "the program has no barriers that the agent sees".to_owned(),
        MetricSource::Iterations | MetricSource::Event | MetricSource::Uprobe | MetricSource::Scripted => {
            format!("`{}` could not be read", metric.name)
        }
    }
}

/// Whether `auto` may take this metric.
fn is_automatic(metric: &Metric) -> bool {
    match metric.source {
        MetricSource::Heartbeat
        | MetricSource::Regions
        | MetricSource::Barriers
        | MetricSource::Iterations
        | MetricSource::Scripted => true,
        MetricSource::Event => metric.unit == "instruction",
        MetricSource::Uprobe => false,
    }
}

/// What to add to the reason for a metric of which few counts are to be expected.
fn coarse(per_second: f64, probe: Duration) -> Option<String> {
    let expected = per_second * probe.as_secs_f64();
    (expected < ENOUGH).then(|| {
        format!(
            "; the rates are coarse, a probe has only about {expected:.1} counts: probe longer to tell pinnings apart"
        )
    })
}
