//! The metrics that event sets make of a processor's events, for `pinfold events`.

use super::wrap;
use pinfold_linux::counters::listing::contains;
use pinfold_sim::{EventSet, MetricDefinition};
use serde::Serialize;
use std::fmt::Write as _;

/// A processor's event set that has metrics.
#[derive(Serialize)]
pub(super) struct SetListing {
    /// The microarchitecture.
    name: String,
    /// libpfm4's name of its PMU.
    pmu: String,
    /// Whether this machine has it.
    present: bool,
    metrics: Vec<MetricListing>,
    /// Events that are counted at the same time; the groups take turns.
    groups: Vec<Vec<String>>,
    /// Events with a counter of their own.
    fixed: Vec<String>,
}

#[derive(Serialize)]
struct MetricListing {
    name: String,
    add: Vec<String>,
    subtract: Vec<String>,
    explanation: String,
}

/// The sets of the `wanted` PMUs, with the metrics that match the pattern; `present` says which PMUs are here.
pub(super) fn list(wanted: impl Fn(&str) -> bool, present: impl Fn(&str) -> bool, pattern: &str) -> Vec<SetListing> {
    let sets = EventSet::all().into_iter().filter_map(|set| {
        let pmu = set.pmu.clone().filter(|pmu| wanted(pmu))?;
        let whole = contains(&set.name, pattern);
        let metrics = set.metrics.iter().filter(|metric| whole || matches(metric, pattern));
        let metrics: Vec<MetricListing> = metrics.map(listing).collect();
        let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
        (!metrics.is_empty()).then(|| SetListing {
            present: present(&pmu),
            groups: set.groups_with_reads().into_iter().map(owned).collect(),
            fixed: set.fixed.clone(),
            name: set.name.clone(),
            pmu,
            metrics,
        })
    });
    sets.collect()
}

fn matches(metric: &MetricDefinition, pattern: &str) -> bool {
    contains(&metric.name, pattern) || metric.events().any(|event| contains(event, pattern))
}

fn listing(metric: &MetricDefinition) -> MetricListing {
    MetricListing {
        name: metric.name.clone(),
        add: metric.add.clone(),
        subtract: metric.subtract.clone(),
        explanation: metric.explanation.clone(),
    }
}

impl SetListing {
    /// For a person.
    pub(super) fn display(&self, text: &mut String) {
        let here = if self.present { "" } else { ", not here" };
        let _ = writeln!(
            text,
            "{} ({}{here}): what --policy sam, placement models and LIKWID's counters look at",
            self.name, self.pmu
        );
        for metric in &self.metrics {
            let mut formula = metric.add.join(" + ");
            for event in &metric.subtract {
                let _ = write!(formula, " - {event}");
            }
            let _ = writeln!(text, "  {}", metric.name);
            wrap(text, "      ", &format!("= {formula}"));
            wrap(text, "      ", &metric.explanation);
        }
        let groups: Vec<String> = self.groups.iter().map(|group| group.join(" ")).collect();
        wrap(text, "  ", &format!("counted in turns: {}", groups.join(" | ")));
    }
}
