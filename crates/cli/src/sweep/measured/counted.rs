//! LIKWID's counters of a run: what is counted for them, and their values.
//!
//! 1. The program's tasks count instructions and cycles by perf's generic events, and accesses to caches and memory by
//!    the metrics of the processor's event set. A metric whose events this machine cannot count is left out.
//! 2. The record of a run has the counts of all tasks, and a meter the energy of the machine.
//! 3. The formulas of `pinfold_core::LIKWID` make the counters of these. A counter whose count is missing is missing.
//!
//! Limits: events are counted in user space. Where there are more events than counters, the kernel lets them take turns,
//! and counts are scaled. The meter also measures the start and the end of `pinfold run`, so a run has the mean power of
//! the whole time.

use crate::activities;
use pinfold_core::{CacheCounts, LIKWID, RegionCounts};
use pinfold_linux::counters::{self, Availability, Request};
use pinfold_linux::energy::{self, Energy};
use pinfold_sim::model::LINE_BYTES;
use pinfold_sim::sweep::likwid_columns;
use pinfold_sim::{CACHES, EventSet, MetricDefinition, READS};
use pinfold_sweep::Exact;

/// perf's generic events, which every processor has.
const INSTRUCTIONS: &str = "instructions";
const CYCLES: &str = "cycles";

/// Name, unit and value of each metric of a run.
pub(super) type Metrics = Vec<(String, String, Exact)>;

/// What is counted for LIKWID's counters.
pub(super) struct Counted {
    /// The events of the program's tasks.
    events: Vec<String>,
    /// The metrics that they make.
    metrics: Vec<MetricDefinition>,
    notes: Vec<String>,
}

impl Counted {
    /// On this machine. `events` says whether events are wanted, or the energy alone.
    pub(super) fn here(events: bool) -> Self {
        let mut counted = if events { Self::events_here() } else { Self::nothing() };
        let obstacle = energy::obstacle();
        counted
            .notes
            .extend(obstacle.map(|why| format!("the energy of runs is not measured: {why}")));
        counted
    }

    fn nothing() -> Self {
        Self {
            events: vec![],
            metrics: vec![],
            notes: vec![],
        }
    }

    fn events_here() -> Self {
        match counters::hardware_counters() {
            Availability::Available => {
                // A processor without a set has generic events.
                let set = activities::set_here().ok();
                Self::of(set.as_ref(), |events| {
                    let requests: Vec<Request> = events.iter().map(|&event| Request::Event(event.to_owned())).collect();
                    counters::Plan::new(&requests).is_ok()
                })
            }
            Availability::Absent { why } | Availability::Forbidden { why } => Self {
                notes: vec![format!(
                    "LIKWID's counters of caches and memory are not measured: {why}"
                )],
                ..Self::nothing()
            },
        }
    }

    /// The events of a set that can be counted beside each other.
    fn of(set: Option<&EventSet>, can_count: impl Fn(&[&str]) -> bool) -> Self {
        let mut events = vec![INSTRUCTIONS.to_owned()];
        if can_count(&[INSTRUCTIONS, CYCLES]) {
            events.push(CYCLES.to_owned());
        }
        let mut metrics = vec![];
        let wanted = CACHES.iter().chain(&READS);
        for metric in wanted.filter_map(|name| set?.metric(name)) {
            let mut more: Vec<String> = metric.events().map(str::to_owned).collect();
            more.retain(|event| !events.contains(event));
            let all: Vec<&str> = events.iter().chain(&more).map(String::as_str).collect();
            if can_count(&all) {
                events.extend(more);
                metrics.push(metric.clone());
            }
        }
        Self {
            events,
            metrics,
            notes: vec![],
        }
    }

    /// The events that a run has to count; empty for none.
    pub(super) fn events(&self) -> &[String] {
        &self.events
    }

    /// What the user should know about that which is not counted.
    pub(super) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// LIKWID's counters of a run of `seconds` that counted these metrics.
    pub(super) fn likwid(&self, metrics: &Metrics, energy: &Energy, seconds: f64) -> Metrics {
        let counts = self.counts(metrics, energy, seconds);
        let columns = likwid_columns().into_iter().zip(&LIKWID);
        let known = columns.filter_map(|(column, counter)| {
            let value = counter.value(&counts, seconds)?;
            Some((column.name, column.unit, Exact(value)))
        });
        known.collect()
    }

    fn counts(&self, metrics: &Metrics, energy: &Energy, seconds: f64) -> RegionCounts {
        let event = |name: &str| {
            let name = Request::Event(name.to_owned()).metric_name();
            let (_, _, count) = metrics.iter().find(|(known, ..)| *known == name)?;
            Some(count.0)
        };
        let metric = |name: &str| {
            let metric = self.metrics.iter().find(|metric| metric.name == name)?;
            let sum = |events: &[String]| events.iter().map(|name| event(name)).sum::<Option<f64>>();
            // Counts that were scaled can make a difference below zero.
            Some((sum(&metric.add)? - sum(&metric.subtract)?).max(0.0))
        };
        let cache = |requests: &str, misses: &str| {
            Some(CacheCounts {
                requests: metric(requests)?,
                misses: metric(misses)?,
            })
        };
        let [l2_requests, l2_misses, l3_requests, l3_misses] = CACHES;
        let [local, remote] = READS.map(|name| Some(metric(name)? * LINE_BYTES as f64));
        let of_run = |joules: Option<f64>| Some(joules? * seconds / energy.seconds).filter(|joules| joules.is_finite());
        RegionCounts {
            instructions: event(INSTRUCTIONS),
            cycles: event(CYCLES),
            l2: cache(l2_requests, l2_misses),
            l3: cache(l3_requests, l3_misses),
            local_bytes: local,
            remote_bytes: remote,
            core_joules: of_run(energy.cores),
            package_joules: of_run(energy.packages),
            memory_joules: of_run(energy.memory),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(events: &[(&str, f64)]) -> Metrics {
        let metric = |&(name, count): &(&str, f64)| (format!("event:{name}"), "count".to_owned(), Exact(count));
        events.iter().map(metric).collect()
    }

    fn names(metrics: &Metrics) -> Vec<&str> {
        metrics.iter().map(|(name, ..)| name.as_str()).collect()
    }

    fn value(metrics: &Metrics, name: &str) -> Option<f64> {
        let found = metrics.iter().find(|(known, ..)| known == name);
        found.map(|(_, _, value)| value.0)
    }

    fn set(name: &str) -> EventSet {
        EventSet::all().into_iter().find(|set| set.name == name).unwrap()
    }

    #[test]
    fn a_processor_whose_events_are_all_counted_has_all_counters_of_caches_and_memory() {
        let here = Counted::of(Some(&set("ice-lake-sp")), |_| true);
        let metrics = counted(&[
            ("instructions", 1e9),
            ("cycles", 2e9),
            ("L2_RQSTS:ALL_DEMAND_REFERENCES", 4e8),
            ("L2_RQSTS:ALL_DEMAND_MISS", 1e8),
            ("LONGEST_LAT_CACHE:REFERENCES", 1e8),
            ("LONGEST_LAT_CACHE:MISS", 2e7),
            ("OFFCORE_RESPONSE_0:READS_TO_CORE_LOCAL_DRAM", 1e7),
            ("OFFCORE_RESPONSE_1:READS_TO_CORE_REMOTE_DRAM", 5e6),
        ]);
        let events: Vec<String> = here.events.iter().map(|name| format!("event:{name}")).collect();
        assert_eq!(events, names(&metrics));
        let likwid = here.likwid(&metrics, &Energy::default(), 2.0);
        assert_eq!(likwid.len(), 13);
        for (name, expected) in [
            ("likwid:CPI", 2.0),
            ("likwid:L2 request rate", 0.4),
            ("likwid:L2 miss ratio", 0.25),
            ("likwid:L3 miss rate", 0.02),
            ("likwid:Local DRAM data volume", 0.64),
            ("likwid:Remote DRAM bandwidth", 160.0),
            ("likwid:Memory data volume", 0.96),
        ] {
            assert_eq!(value(&likwid, name), Some(expected), "{name}");
        }
    }

    #[test]
    fn a_processor_that_lacks_events_lacks_their_counters() {
        let rome = Counted::of(Some(&set("amd-zen2")), |_| true);
        let mut counts: Vec<(&str, f64)> = rome.events.iter().map(|name| (name.as_str(), 2.0)).collect();
        let likwid = rome.likwid(&counted(&counts), &Energy::default(), 1.0);
        assert_eq!(
            names(&likwid),
            [
                "likwid:CPI",
                "likwid:L2 request rate",
                "likwid:L2 miss rate",
                "likwid:L2 miss ratio"
            ]
        );
        // The counter of requests never ran.
        counts.remove(2);
        let likwid = rome.likwid(&counted(&counts), &Energy::default(), 1.0);
        assert_eq!(names(&likwid), ["likwid:CPI"]);
        let unknown = Counted::of(None, |_| true);
        assert_eq!(unknown.events, ["instructions", "cycles"]);
    }

    #[test]
    fn a_metric_whose_events_cannot_be_counted_is_left_out_and_others_are_not() {
        let offcore = |events: &[&str]| events.iter().all(|event| !event.starts_with("OFFCORE"));
        let here = Counted::of(Some(&set("skylake-sp")), offcore);
        assert_eq!(here.events.len(), 6);
        let cycles = Counted::of(Some(&set("skylake-sp")), |events| events.len() < 2);
        assert_eq!(cycles.events, ["instructions"]);
    }

    #[test]
    fn misses_as_a_difference_are_never_below_zero() {
        let here = Counted::of(Some(&set("sandybridge-ep")), |_| true);
        let with = |hits: f64| {
            let metrics = counted(&[
                ("L2_RQSTS:ALL_DEMAND_DATA_RD", 80.0),
                ("L2_RQSTS:RFO_ANY", 20.0),
                ("L2_RQSTS:RFO_MISS", 5.0),
                ("L2_RQSTS:ALL_DEMAND_RD_HIT", hits),
            ]);
            value(&here.likwid(&metrics, &Energy::default(), 1.0), "likwid:L2 miss ratio")
        };
        assert_eq!((with(60.0), with(86.0)), (Some(0.25), Some(0.0)));
    }

    #[test]
    fn energy_is_the_mean_power_for_the_time_of_the_run() {
        let energy = Energy {
            packages: Some(330.0),
            memory: Some(33.0),
            cores: None,
            seconds: 3.3,
        };
        let likwid = Counted::nothing().likwid(&vec![], &energy, 3.0);
        assert_eq!(
            names(&likwid),
            [
                "likwid:Energy",
                "likwid:Power",
                "likwid:Energy DRAM",
                "likwid:Power DRAM"
            ]
        );
        for (name, expected) in [
            ("likwid:Energy", 300.0),
            ("likwid:Power", 100.0),
            ("likwid:Energy DRAM", 30.0),
        ] {
            let value = value(&likwid, name).unwrap();
            assert!((value - expected).abs() < 1e-9, "{name}: {value}");
        }
    }
}
