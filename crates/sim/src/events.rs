//! Event sets: the names of a processor's events, and the counters of a simulated machine that give their counts.
//! events/ has one file for each microarchitecture, with the names of the events in libpfm4, the counters behind each
//! event, and what it shows. `generic.toml` has the events that the kernel names alike on every processor. Energy is
//! counted for the whole machine and not for a thread; its events have the names of Linux's PMU `power`, as `perf`
//! takes them.
//!
//! A set can also define metrics of SAM, of placement models and of LIKWID's counters as sums and differences of its
//! events, and say how many events can be counted at the same time. `EventSet::groups` arranges the events in groups that
//! take turns.

use crate::timeline::{Counter, Energy};
use serde::Deserialize;

// `SETS`: the name and the text of each file in events/.
include!(concat!(env!("OUT_DIR"), "/events.rs"));

/// The metrics that SAM does not use and placement models do: lines that the own node's memory sent to the core, and
/// lines that other nodes' memory sent, for prefetches as well.
pub const READS: [&str; 2] = ["local_reads", "remote_reads"];

/// The metrics that only LIKWID's counters of a measured run need: demand accesses and misses of the caches of a level.
pub const CACHES: [&str; 4] = ["l2_requests", "l2_misses", "l3_requests", "l3_misses"];

/// The events of a processor.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventSet {
    /// The microarchitecture.
    pub name: String,
    /// libpfm4's name of its PMU; `None` for the kernel's generic events.
    pub pmu: Option<String>,
    /// The machine models with this processor.
    #[serde(default)]
    pub machines: Vec<String>,
    /// The energy that the processor meters (RAPL) and Linux shows as the PMU `power`.
    #[serde(default)]
    pub energy: Vec<Energy>,
    /// How many counters of a PU can count any of `events`; 0 if unknown.
    #[serde(default)]
    pub programmable: usize,
    /// How many unit masks of one event can be counted at the same time; `None` if only the number of counters
    /// limits it.
    #[serde(default)]
    pub unit_masks: Option<usize>,
    /// The events that have a fixed counter of their own.
    #[serde(default)]
    pub fixed: Vec<String>,
    /// The events.
    #[serde(rename = "event")]
    pub events: Vec<EventDefinition>,
    /// The metrics that the events make.
    #[serde(default, rename = "metric")]
    pub metrics: Vec<MetricDefinition>,
}

/// A rate made of events: the sum of `add`, less the sum of `subtract`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricDefinition {
    /// Its name: `cycles`, `instructions`, `intra_package_coherence`, `inter_package_coherence`, `remote_dram`,
    /// `memory_bandwidth`, or one of [`READS`] and [`CACHES`].
    pub name: String,
    /// The events that are added.
    pub add: Vec<String>,
    /// The events that are subtracted.
    #[serde(default)]
    pub subtract: Vec<String>,
    /// Its approximations and omissions.
    pub explanation: String,
}

impl MetricDefinition {
    /// Its events, first those that are added.
    pub fn events(&self) -> impl Iterator<Item = &str> {
        self.add.iter().chain(&self.subtract).map(String::as_str)
    }
}

/// One event.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventDefinition {
    /// Its name in libpfm4, as `--event` takes it.
    pub name: String,
    /// Its code, for a processor whose tables libpfm4 has only in a build for that architecture.
    pub code: Option<u64>,
    /// What one count is, in the singular.
    pub unit: String,
    /// A simulated machine shows the sum of these counters. It does not show an event without any.
    #[serde(default)]
    pub counters: Vec<Counter>,
    /// What it shows, and where simulated and real counts differ.
    pub explanation: String,
}

impl EventSet {
    /// All sets, the generic one first.
    pub fn all() -> Vec<Self> {
        let mut sets: Vec<Self> = SETS
            .into_iter()
            .map(|(name, text)| toml::from_str(text).unwrap_or_else(|error| panic!("events/{name}.toml: {error}")))
            .collect();
        sets.sort_by_key(|set| set.pmu.is_some());
        sets
    }

    /// The events that the machine with this name shows: the generic ones, and those of its processor where a set is
    /// known.
    pub fn for_machine(machine: &str) -> Vec<EventDefinition> {
        Self::all()
            .into_iter()
            .filter(|set| set.pmu.is_none() || set.machines.iter().any(|name| name == machine))
            .flat_map(|set| set.events)
            .filter(|event| !event.counters.is_empty())
            .collect()
    }

    /// The set of the processor of the machine with this name; `None` if none is known.
    pub fn for_processor(machine: &str) -> Option<Self> {
        Self::all()
            .into_iter()
            .find(|set| set.machines.iter().any(|name| name == machine))
    }

    /// The set for libpfm4's PMU with this name.
    pub fn for_pmu(pmu: &str) -> Option<Self> {
        Self::all().into_iter().find(|set| set.pmu.as_deref() == Some(pmu))
    }

    /// Whether the metric with this name includes prefetched lines.
    pub fn counts_prefetches(&self, metric: &str) -> bool {
        let events: Vec<&str> = self.metric(metric).map_or(vec![], |metric| metric.events().collect());
        let counted = self.events.iter().filter(|event| events.contains(&event.name.as_str()));
        counted
            .flat_map(|event| &event.counters)
            .any(|&counter| counter == Counter::PrefetchesFromMemory)
    }

    /// The metric with this name.
    pub fn metric(&self, name: &str) -> Option<&MetricDefinition> {
        self.metrics.iter().find(|metric| metric.name == name)
    }

    /// The events of SAM's metrics, in groups that take turns; each group fits the counters at the same time. The
    /// events of one metric are in one group wherever they fit, so that a difference is one of counts of the same time.
    /// Fixed events are in no group: they are always counted.
    pub fn groups(&self) -> Vec<Vec<&str>> {
        self.groups_of(|metric| !READS.contains(&metric) && !CACHES.contains(&metric))
    }

    /// The same for placement models, which need [`READS`], too.
    pub fn groups_with_reads(&self) -> Vec<Vec<&str>> {
        self.groups_of(|metric| !CACHES.contains(&metric))
    }

    fn groups_of(&self, wanted: impl Fn(&str) -> bool) -> Vec<Vec<&str>> {
        let mut groups: Vec<Vec<&str>> = vec![];
        // The metrics with the most events come first.
        let mut metrics: Vec<&MetricDefinition> = self.metrics.iter().filter(|metric| wanted(&metric.name)).collect();
        metrics.sort_by_key(|metric| std::cmp::Reverse(metric.events().count()));
        for metric in metrics {
            let mut rest: Vec<&str> = metric.events().filter(|&event| !self.is_fixed(event)).collect();
            rest.retain(|event| !groups.iter().any(|group| group.contains(event)));
            let with = |group: &[&str], more: &[&str]| self.fits(&[group, more].concat());
            if let Some(group) = groups.iter_mut().find(|group| with(group, &rest)) {
                group.extend(&rest);
                continue;
            }
            if self.fits(&rest) {
                groups.push(rest);
                continue;
            }
            for event in rest {
                match groups.iter_mut().find(|group| with(group, &[event])) {
                    Some(group) => group.push(event),
                    None => groups.push(vec![event]),
                }
            }
        }
        groups
    }

    /// Whether these events can be counted at the same time.
    fn fits(&self, events: &[&str]) -> bool {
        let base = |event: &str| event.split(':').next().unwrap_or_default().to_owned();
        let most = self.unit_masks.unwrap_or(usize::MAX);
        let crowded = |event: &&str| events.iter().filter(|other| base(other) == base(event)).count() > most;
        events.len() <= self.programmable && !events.iter().any(crowded)
    }

    fn is_fixed(&self, event: &str) -> bool {
        self.fixed.iter().any(|fixed| fixed == event)
    }

    /// The energy that the machine with this name meters; empty if no set is known.
    pub fn energy_of_machine(machine: &str) -> Vec<Energy> {
        Self::all()
            .into_iter()
            .filter(|set| set.machines.iter().any(|name| name == machine))
            .flat_map(|set| set.energy)
            .collect()
    }
}

impl Energy {
    /// The event's name as `perf` and `--event` take it. Linux has one such event for each package; this is their sum.
    pub fn event_name(self) -> &'static str {
        match self {
            Self::Package => "power/energy-pkg/",
            Self::Memory => "power/energy-ram/",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::builtin_names;

    /// The sets with metrics.
    fn sets() -> Vec<EventSet> {
        EventSet::all()
            .into_iter()
            .filter(|set| !set.metrics.is_empty())
            .collect()
    }

    /// The metrics whose events are counted in groups.
    fn grouped(set: &EventSet) -> impl Iterator<Item = &MetricDefinition> {
        set.metrics
            .iter()
            .filter(|metric| !CACHES.contains(&metric.name.as_str()))
    }

    #[test]
    fn misses_of_a_cache_are_counted_with_its_requests() {
        for set in sets() {
            for [requests, misses] in [["l2_requests", "l2_misses"], ["l3_requests", "l3_misses"]] {
                assert_eq!(
                    set.metric(requests).is_some(),
                    set.metric(misses).is_some(),
                    "{}: {requests}",
                    set.name
                );
            }
        }
    }

    #[test]
    fn metrics_are_made_of_events_of_their_set_and_have_the_names_that_sam_knows() {
        assert!(!sets().is_empty());
        for set in sets() {
            let known = [
                "cycles",
                "instructions",
                "intra_package_coherence",
                "inter_package_coherence",
                "remote_dram",
                "memory_bandwidth",
            ];
            let names: Vec<&str> = set.metrics.iter().map(|metric| metric.name.as_str()).collect();
            assert!(
                names
                    .iter()
                    .all(|name| known.contains(name) || READS.contains(name) || CACHES.contains(name)),
                "{}: {names:?}",
                set.name
            );
            assert!(
                names.contains(&"cycles") && names.contains(&"memory_bandwidth"),
                "{}",
                set.name
            );
            for event in set.metrics.iter().flat_map(MetricDefinition::events) {
                assert!(
                    set.events.iter().any(|other| other.name == event),
                    "{}: {event}",
                    set.name
                );
            }
        }
    }

    #[test]
    fn every_event_of_a_metric_is_in_one_group_that_fits_or_has_a_counter_of_its_own() {
        for set in sets() {
            let groups = set.groups_with_reads();
            for event in grouped(&set).flat_map(MetricDefinition::events) {
                let times = groups.iter().flatten().filter(|&&other| other == event).count();
                assert_eq!(times, usize::from(!set.is_fixed(event)), "{}: {event}", set.name);
            }
            assert!(groups.iter().all(|group| set.fits(group)), "{}: {groups:?}", set.name);
        }
    }

    #[test]
    fn the_papers_seven_events_take_turns_in_two_groups() {
        let set = EventSet::for_processor("e5-2660v2x2").unwrap();
        let groups = set.groups();
        assert_eq!(groups.iter().map(Vec::len).sum::<usize>(), 7, "section 2.3: {groups:?}");
        assert_eq!(
            groups.len(),
            2,
            "section 2.3: one sample for each event across two iterations"
        );
        for group in &groups {
            for event in ["MEM_LOAD_UOPS_RETIRED", "MEM_LOAD_UOPS_LLC_MISS_RETIRED"] {
                let variants = group.iter().filter(|one| one.split(':').next() == Some(event)).count();
                assert!(variants <= 2, "section 2.3: {group:?}");
            }
        }
    }

    #[test]
    fn the_events_of_a_metric_are_counted_at_the_same_time_unless_the_machine_has_constraints() {
        for set in sets().into_iter().filter(|set| set.unit_masks.is_none()) {
            let groups = set.groups_with_reads();
            for metric in grouped(&set) {
                let counted: Vec<&str> = metric.events().filter(|&event| !set.is_fixed(event)).collect();
                // An event that two metrics need is counted once, with the first.
                let shared = counted.iter().any(|event| {
                    let users = set
                        .metrics
                        .iter()
                        .filter(|other| other.events().any(|one| one == *event));
                    users.count() > 1
                });
                let together = groups
                    .iter()
                    .any(|group| counted.iter().all(|event| group.contains(event)));
                assert!(together || shared, "{}: {} in {groups:?}", set.name, metric.name);
            }
        }
    }

    #[test]
    fn every_built_in_model_has_events_of_its_processor() {
        let generic = EventSet::for_machine("no such machine").len();
        for name in builtin_names() {
            assert!(EventSet::for_machine(name).len() > generic, "{name}");
        }
    }

    #[test]
    fn every_event_has_counters_and_a_name_of_its_own() {
        for name in builtin_names() {
            let events = EventSet::for_machine(name);
            for event in &events {
                assert!(!event.counters.is_empty(), "{}", event.name);
                assert_eq!(
                    events.iter().filter(|other| other.name == event.name).count(),
                    1,
                    "{}",
                    event.name
                );
            }
        }
    }

    #[test]
    fn energy_is_metered_where_the_processor_has_rapl_and_nowhere_else() {
        for name in ["clovertown", "caneland", "barcelona", "opteron-6164x4"] {
            assert_eq!(EventSet::energy_of_machine(name), [], "{name} is older than RAPL");
        }
        for name in ["epyc-7763x2", "epyc-9654x2"] {
            assert_eq!(
                EventSet::energy_of_machine(name),
                [Energy::Package],
                "AMD does not meter memory"
            );
        }
        for name in [
            "e5-4650x4",
            "e5-2660v2x2",
            "e5-2680v3x2",
            "e5-2650lv4x2",
            "gold-6140x2",
            "gold-6142x2",
            "xeon-8480x2",
        ] {
            assert_eq!(
                EventSet::energy_of_machine(name),
                [Energy::Package, Energy::Memory],
                "{name}"
            );
        }
    }
}
