//! Every microbenchmark of a machine model, compared with the published figures of the machine.

use super::{Row, measure, measures};
use crate::model::{Cores, Measure, Mix, Model, Published, Target};
use crate::window::WindowError;
use serde::{Serialize, Serializer};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// A microbenchmark cannot be simulated.
#[derive(Debug, thiserror::Error)]
#[error("cannot measure {measure} on {machine}")]
pub struct MeasureError {
    /// The microbenchmark.
    pub measure: Measure,
    /// The model's name.
    pub machine: String,
    source: WindowError,
}

/// All microbenchmarks of a machine, compared with the published figures.
#[derive(Clone, Debug)]
pub struct Comparison<'a> {
    /// The machine.
    pub model: &'a Model,
    /// The figures. A measure with several published figures has several rows.
    pub rows: Vec<Row<'a>>,
    /// The groups of measures without any figure.
    pub none_found: Vec<&'static str>,
}

impl<'a> Comparison<'a> {
    /// Runs all microbenchmarks of the machine, on as many threads as this process may use.
    pub fn of(model: &'a Model) -> Result<Self, MeasureError> {
        let measures = measures(model);
        let mut rows = vec![];
        for (measure, result) in measures.iter().zip(simulated(model, &measures)) {
            let simulated = result.map_err(|source| MeasureError {
                measure: *measure,
                machine: model.name.clone(),
                source,
            })?;
            let row = |published| Row {
                measure: *measure,
                simulated,
                published,
            };
            let published: Vec<&Published> = model.published.iter().filter(|one| one.measure == *measure).collect();
            if published.is_empty() {
                rows.push(row(None));
            }
            rows.extend(published.into_iter().map(|published| row(Some(published))));
        }
        Ok(Self {
            model,
            rows,
            none_found: none_found(model),
        })
    }
}

/// The result of each measure, in the order of the measures.
fn simulated(model: &Model, measures: &[Measure]) -> Vec<Result<f64, WindowError>> {
    // The long ones, bandwidths, are last in the list. They begin first.
    let left = Mutex::new((0..measures.len()).collect::<Vec<_>>());
    let done = Mutex::new(vec![]);
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let work = || {
        while let Some(index) = next() {
            let result = measure(model, measures[index]);
            done.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push((index, result));
        }
    };
    thread::scope(|scope| {
        for _ in 1..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
        work();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|&(index, _)| index);
    done.into_iter().map(|(_, result)| result).collect()
}

/// The group of a measure. The comparison of a model is incomplete while a group has no figure.
fn group(measure: Measure) -> Option<&'static str> {
    match measure {
        Measure::Latency(Target::LocalMemory) => Some("idle latency of local memory"),
        Measure::Latency(of) => of.is_memory().then_some("idle latency of remote memory"),
        Measure::Bandwidth {
            of: Target::LocalMemory,
            ..
        } => Some("bandwidth of local memory"),
        Measure::Bandwidth { .. } => Some("bandwidth of remote memory"),
        // It is measured only where it was published.
        Measure::LoadedLatency { .. } => None,
    }
}

/// The groups of measures that the machine has, but no published figure.
pub fn none_found(model: &Model) -> Vec<&'static str> {
    let found: Vec<&str> = model.published.iter().filter_map(|one| group(one.measure)).collect();
    let mut missing: Vec<&str> = measures(model).into_iter().filter_map(group).collect();
    missing.dedup();
    missing.retain(|group| !found.contains(group));
    missing
}

#[derive(Serialize)]
struct Document<'a> {
    machine: &'a str,
    simulated: bool,
    measures: Vec<RowDocument<'a>>,
    none_found: &'a [&'static str],
}

#[derive(Serialize)]
struct RowDocument<'a> {
    quantity: &'static str,
    of: &'static str,
    by: Option<&'static str>,
    mix: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_per_second: Option<f64>,
    unit: &'static str,
    simulated: f64,
    published: Option<PublishedDocument<'a>>,
    difference_percent: Option<f64>,
}

#[derive(Serialize)]
struct PublishedDocument<'a> {
    value: f64,
    source: String,
    calibrates: &'a [String],
}

impl Serialize for Comparison<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Document {
            machine: &self.model.name,
            simulated: true,
            measures: self.rows.iter().map(|row| document(self.model, row)).collect(),
            none_found: &self.none_found,
        }
        .serialize(serializer)
    }
}

fn document<'a>(model: &Model, row: &'a Row<'_>) -> RowDocument<'a> {
    let (quantity, unit, by, mix, bytes_per_second) = match row.measure {
        Measure::Latency(_) => ("latency", "s", None, None, None),
        Measure::Bandwidth { by, mix, .. } => ("bandwidth", "bytes/s", Some(by), Some(mix), None),
        Measure::LoadedLatency { by, mix, megabytes, .. } => {
            let bandwidth = f64::from(megabytes) * 1e6;
            ("loaded_latency", "s", Some(by), Some(mix), Some(bandwidth))
        }
    };
    RowDocument {
        quantity,
        of: row.measure.target().word(),
        by: by.map(Cores::word),
        mix: mix.map(Mix::word),
        bytes_per_second,
        unit,
        simulated: row.simulated,
        published: row.published.map(|published| PublishedDocument {
            value: published.value(model),
            source: published.source().to_string(),
            calibrates: &published.calibrates,
        }),
        difference_percent: row.difference_percent(model),
    }
}
