//! The rates of all metrics over a sample, and what learned rules say of them.

use crate::program::meter;
use crate::rules::{Normalised, RuleMetric, Rules, Verdict};
use pinfold_core::{Metric, Observed, Sample, Scope, TaskId};

/// The counts of all metrics from `first` to `sample`, per thread and second, and the ratios of these. `counts` says of
/// each task whether it works.
pub(crate) fn observed(
    metrics: &[Metric],
    first: &Sample,
    sample: &Sample,
    counts: impl Fn(TaskId) -> bool + Copy,
    threads: usize,
) -> Vec<Observed> {
    let seconds = sample.at.saturating_sub(first.at).as_secs_f64();
    let value = |index: usize, metric: &Metric| {
        let grown = meter::growth(index, metric.scope, first, sample, counts)?;
        let shares = match metric.scope {
            Scope::Task => threads as f64,
            Scope::Program => 1.0,
        };
        (seconds > 0.0).then_some(grown / seconds / shares)
    };
    let mut observed: Vec<Observed> = metrics
        .iter()
        .enumerate()
        .map(|(index, metric)| Observed {
            name: metric.name.clone(),
            unit: match metric.scope {
                Scope::Task => format!("{} per thread and second", metric.unit),
                Scope::Program => format!("{} per second", metric.unit),
            },
            value: value(index, metric),
        })
        .collect();
    let of = |name: &str| observed.iter().find(|one| one.name == name).and_then(|one| one.value);
    let ipc = of("event:instructions").zip(of("event:cycles").filter(|&cycles| cycles > 0.0));
    observed.push(Observed {
        name: "ipc".to_owned(),
        unit: "instructions per cycle".to_owned(),
        value: ipc.map(|(instructions, cycles)| instructions / cycles),
    });
    observed
}

/// What rules say of observed rates.
pub(crate) fn verdict<'a>(rules: &'a Rules, observed: &[Observed], threads: usize) -> Verdict<'a> {
    let value = |metric: &RuleMetric| {
        let of = |name: &str| observed.iter().find(|one| one.name == name)?.value;
        let value = of(&metric.name)?;
        match metric.normalised {
            Normalised::PerSecond => Some(value * threads as f64),
            Normalised::PerThreadAndSecond | Normalised::Ratio => Some(value),
            Normalised::PerInstruction => of("event:instructions")
                .filter(|&instructions| instructions > 0.0)
                .map(|instructions| value / instructions),
        }
    };
    let values: Vec<Option<f64>> = rules.metrics().iter().map(value).collect();
    rules.evaluate(&values)
}
