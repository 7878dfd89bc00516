//! A source that is this file and a line in `SOURCES`: the test that nothing else is needed for one.

use super::{Attached, ChannelCounter, EVENT, HEARTBEAT, ITERATIONS, Listed, MetricSource, REGIONS, SOURCES, UPROBE};
use super::{automatic, reported};
use crate::{Metric, Scope};
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error, StrDeserializer};
use std::collections::BTreeSet;

/// The program counts toys.
pub(super) static TOY: MetricSource = MetricSource {
    code: "toy",
    unit: Some("toy"),
    listed: Some(Listed {
        name: "toy",
        about: "toys that are built",
    }),
    automatic: |metric| metric.scope == Scope::Program,
    measures_idle_programs: false,
    is_flow: false,
    follows_demand: false,
    absent: |_| "the program builds no toys".to_owned(),
    counter: Some(ChannelCounter {
        field: "toys",
        word: 5,
        attached: &[Attached::Heartbeat],
    }),
};

fn named(code: &str) -> Result<&'static MetricSource, Error> {
    let text: StrDeserializer<'_, Error> = code.into_deserializer();
    Deserialize::deserialize(text)
}

#[test]
fn a_source_that_is_one_file_and_one_line_is_found_by_its_code() {
    assert_eq!(named("toy").unwrap(), &TOY);
    let error = named("toys").unwrap_err().to_string();
    assert!(
        error.contains("`toys`") && error.contains("barriers, toy, iterations"),
        "{error}"
    );
}

#[test]
fn auto_prefers_it_by_its_line() {
    let event = |unit: &str| Metric {
        unit: unit.to_owned(),
        ..EVENT.metric(Scope::Task)
    };
    let metrics = [
        event("instruction"),
        event("miss"),
        UPROBE.metric(Scope::Task),
        ITERATIONS.metric(Scope::Program),
        TOY.metric(Scope::Program),
        TOY.metric(Scope::Task),
        REGIONS.metric(Scope::Program),
    ];
    assert_eq!(automatic(&metrics), [6, 4, 3, 0]);
}

#[test]
fn its_metric_its_list_entry_and_its_counter_come_from_its_file() {
    let metric = TOY.metric(Scope::Program);
    assert_eq!((metric.name.as_str(), metric.unit.as_str()), ("toy", "toy"));
    assert_eq!((metric.source.absent)(&metric), "the program builds no toys");
    let listed: Vec<&str> = SOURCES
        .iter()
        .filter_map(|source| source.listed.map(|listed| listed.name))
        .collect();
    assert_eq!(
        listed,
        [
            "heartbeat",
            "regions",
            "barriers",
            "toy",
            "mpi",
            "io",
            "function",
            "uprobe:SYMBOL",
            "event:NAME",
            "run"
        ]
    );
    let fields: Vec<&str> = reported().map(|(_, counter)| counter.field).collect();
    assert_eq!(fields, ["heartbeats", "regions", "barriers", "toys", "mpi_calls"]);
}

#[test]
fn codes_and_counters_of_all_sources_differ() {
    let codes: BTreeSet<&str> = SOURCES.iter().map(|source| source.code).collect();
    assert_eq!(codes.len(), SOURCES.len());
    let words: BTreeSet<usize> = reported().map(|(_, counter)| counter.word).collect();
    assert_eq!(words.len(), reported().count());
    assert_eq!(SOURCES[0], &HEARTBEAT);
}
