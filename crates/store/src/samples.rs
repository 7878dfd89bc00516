//! The samples of the behaviour database as a data set. Rules are learned from it.

use crate::{SampleRow, StoredProgram};
use pinfold_core::MetricColumn;
use pinfold_dataset::{
    ConfigurationColumns, DataSet, ProgramColumns, Row, SamplingColumns, TimeUnit, TrafficColumns, WindowColumns,
};
use std::collections::BTreeMap;

/// The comparable samples of programs as a data set, one sample a row.
pub fn data_set(programs: &[StoredProgram]) -> DataSet {
    let rows: Vec<(&StoredProgram, &SampleRow)> = programs.iter().flat_map(comparable).collect();
    let mut units: BTreeMap<&str, &str> = BTreeMap::new();
    for observed in rows.iter().flat_map(|(_, sample)| &sample.observed) {
        if observed.name.starts_with("event:") || observed.name == "ipc" {
            units.insert(&observed.name, &observed.unit);
        }
    }
    DataSet {
        schema: "samples".to_owned(),
        metrics: units
            .iter()
            .map(|(&name, &unit)| MetricColumn {
                name: name.to_owned(),
                unit: unit.to_owned(),
            })
            .collect(),
        models: BTreeMap::new(),
        rows: rows
            .iter()
            .filter_map(|(program, sample)| row(program, sample, &units))
            .collect(),
        topologies: BTreeMap::new(),
        time_unit: TimeUnit::Seconds,
    }
}

/// A sample as a row with these metrics; `None` if it has no rate.
fn row(program: &StoredProgram, sample: &SampleRow, metrics: &BTreeMap<&str, &str>) -> Option<Row> {
    let key = &program.key;
    let value = |name: &&str| sample.observed.iter().find(|one| one.name == *name)?.value;
    Some(Row {
        program: ProgramColumns {
            machine: key.machine.name.clone(),
            program: key.name.clone(),
            region: None,
            simulated: key.machine.simulated,
            command: format!("{} {}", key.name, key.shape),
            recording: Some(key.identity.clone()),
        },
        configuration: ConfigurationColumns {
            num_threads: sample.threads,
            layout: None,
            page_map: "first_touch".to_owned(),
            prefetch: "0000".to_owned(),
            pinning: Some(sample.pus.clone()),
        },
        time: 1.0 / sample.rate?,
        window: WindowColumns::default(),
        sampling: SamplingColumns::default(),
        measured: None,
        traffic: TrafficColumns::default(),
        joined: None,
        metrics: metrics.keys().map(value).collect(),
    })
}

/// The samples of a program that can be compared with each other: samples with a rate and PUs, in the metric that most
/// of them have.
fn comparable(program: &StoredProgram) -> Vec<(&StoredProgram, &SampleRow)> {
    let rated = |sample: &&SampleRow| sample.rate.is_some_and(|rate| rate > 0.0) && !sample.pus.is_empty();
    let mut times: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    for sample in program.samples.iter().filter(rated) {
        *times.entry(sample.metric.as_deref()).or_default() += 1;
    }
    let most = times
        .into_iter()
        .max_by_key(|&(_, times)| times)
        .and_then(|(metric, _)| metric);
    let samples = program.samples.iter().filter(rated);
    samples
        .filter(|sample| sample.metric.as_deref() == most)
        .map(|sample| (program, sample))
        .collect()
}
