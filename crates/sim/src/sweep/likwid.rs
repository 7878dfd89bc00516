//! The nineteen counters of Sánchez Barrera et al. (ICS 2020, section 4.2.1), as LIKWID's performance groups NUMA, L2CACHE,
//! L3CACHE and ENERGY for Sandy Bridge EP name them, in LIKWID's units.
//!
//! The paper says that there are nineteen, of these groups, and names nine of them (table 3). The groups have eighteen
//! metrics of memory and of energy; the nineteenth is CPI here, which each of the groups has. Their other metrics say
//! nothing that differs in a simulation without frequency scaling: the run time is `time_s`, the clock is constant, and
//! there is no temperature.
//!
//! Known limits: caches count demand accesses only, where LIKWID's event for requests to the L2 counts prefetches, too. An
//! idle core's energy is a part of the package's, and not of the cores' (PP0).

use super::evaluate::Part;
use super::metrics::MetricColumn;
use crate::model::{LINE_BYTES, Model};
use crate::window::{LevelCounters, RegionTotals, Served, core_joules};

/// A counter of the totals of a part. `None` where it cannot be computed.
type Formula = fn(&RegionTotals, &Model) -> Option<f64>;

/// Name and unit as in LIKWID's group files, and the formula.
const COUNTERS: [(&str, &str, Formula); 19] = [
    ("CPI", "", |totals, _| {
        ratio(totals.counters.busy_cycles, totals.counters.instructions as f64)
    }),
    ("Local DRAM data volume", "GByte", |totals, _| {
        Some(giga(local_bytes(totals)))
    }),
    ("Local DRAM bandwidth", "MByte/s", |totals, _| {
        ratio(mega(local_bytes(totals)), totals.seconds)
    }),
    ("Remote DRAM data volume", "GByte", |totals, _| {
        Some(giga(remote_bytes(totals)))
    }),
    ("Remote DRAM bandwidth", "MByte/s", |totals, _| {
        ratio(mega(remote_bytes(totals)), totals.seconds)
    }),
    ("Memory data volume", "GByte", |totals, _| {
        Some(giga(local_bytes(totals) + remote_bytes(totals)))
    }),
    ("Memory bandwidth", "MByte/s", |totals, _| {
        ratio(mega(local_bytes(totals) + remote_bytes(totals)), totals.seconds)
    }),
    ("L2 request rate", "", |totals, model| {
        per_instruction(totals, requests(level(totals, model, 2)?))
    }),
    ("L2 miss rate", "", |totals, model| {
        per_instruction(totals, level(totals, model, 2)?.misses as f64)
    }),
    ("L2 miss ratio", "", |totals, model| {
        let level = level(totals, model, 2)?;
        ratio(level.misses as f64, requests(level))
    }),
    ("L3 request rate", "", |totals, model| {
        per_instruction(totals, requests(level(totals, model, 3)?))
    }),
    ("L3 miss rate", "", |totals, model| {
        per_instruction(totals, level(totals, model, 3)?.misses as f64)
    }),
    ("L3 miss ratio", "", |totals, model| {
        let level = level(totals, model, 3)?;
        ratio(level.misses as f64, requests(level))
    }),
    ("Energy", "J", |totals, _| Some(totals.package_joules)),
    ("Power", "W", |totals, _| ratio(totals.package_joules, totals.seconds)),
    ("Energy PP0", "J", |totals, model| {
        Some(core_joules(model, &totals.counters))
    }),
    ("Power PP0", "W", |totals, model| {
        ratio(core_joules(model, &totals.counters), totals.seconds)
    }),
    ("Energy DRAM", "J", |totals, _| Some(totals.memory_joules)),
    ("Power DRAM", "W", |totals, _| {
        ratio(totals.memory_joules, totals.seconds)
    }),
];

/// The columns of the counters: `likwid:NAME`.
pub fn likwid_columns() -> Vec<MetricColumn> {
    let column = |&(name, unit, _): &(&str, &str, Formula)| MetricColumn {
        name: format!("likwid:{name}"),
        unit: unit.to_owned(),
    };
    COUNTERS.iter().map(column).collect()
}

/// The counters of a part, one for each column, of all threads, packages and memories together. `None` where the divisor
/// is zero, or the machine has no such cache.
pub fn likwid_values(model: &Model, part: &Part) -> Vec<Option<f64>> {
    let totals = &part.totals;
    COUNTERS.iter().map(|(_, _, formula)| formula(totals, model)).collect()
}

/// The bytes that demand misses and prefetches brought from memory of their own nodes.
fn local_bytes(totals: &RegionTotals) -> f64 {
    let counters = &totals.counters;
    let prefetches = counters.prefetches_from_memory - counters.prefetches_from_remote_memory;
    bytes(counters.served[Served::LocalMemory] + prefetches)
}

fn remote_bytes(totals: &RegionTotals) -> f64 {
    let counters = &totals.counters;
    bytes(counters.served[Served::RemoteMemory] + counters.prefetches_from_remote_memory)
}

fn bytes(lines: u64) -> f64 {
    (lines * LINE_BYTES) as f64
}

fn mega(bytes: f64) -> f64 {
    bytes / 1e6
}

fn giga(bytes: f64) -> f64 {
    bytes / 1e9
}

/// The level of this number, from 1; `None` where the machine does not have it.
fn level<'a>(totals: &'a RegionTotals, model: &Model, number: usize) -> Option<&'a LevelCounters> {
    (number <= model.caches.len()).then(|| &totals.counters.levels[number - 1])
}

fn requests(level: &LevelCounters) -> f64 {
    (level.hits + level.misses) as f64
}

fn per_instruction(totals: &RegionTotals, count: f64) -> Option<f64> {
    ratio(count, totals.counters.instructions as f64)
}

fn ratio(count: f64, of: f64) -> Option<f64> {
    (of > 0.0).then(|| count / of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::builtin;
    use crate::window::Counters;
    use std::collections::BTreeMap;

    fn values(machine: &str, totals: RegionTotals) -> BTreeMap<String, Option<f64>> {
        let part = Part {
            region: None,
            cold_seconds: None,
            totals,
            time_error: None,
        };
        let names = likwid_columns().into_iter().map(|column| column.name);
        names.zip(likwid_values(&builtin(machine).unwrap(), &part)).collect()
    }

    /// Two seconds with a thousand instructions, and energy.
    fn totals() -> RegionTotals {
        let mut counters = Counters {
            instructions: 1000,
            busy_cycles: 4000.0,
            prefetches_from_memory: 1_000_000,
            prefetches_from_remote_memory: 250_000,
            ..Counters::default()
        };
        counters.levels[1] = LevelCounters { hits: 300, misses: 100 };
        counters.levels[2] = LevelCounters { hits: 75, misses: 25 };
        counters.served[Served::LocalMemory] = 250_000;
        counters.served[Served::RemoteMemory] = 250_000;
        RegionTotals {
            executions: 1,
            seconds: 2.0,
            counters,
            package_joules: 50.0,
            memory_joules: 6.0,
            ..RegionTotals::default()
        }
    }

    #[test]
    fn volumes_have_demand_misses_and_prefetches_and_bandwidths_are_volumes_over_time() {
        let values = values("e5-4650x4", totals());
        assert_eq!(values["likwid:Local DRAM data volume"], Some(0.064));
        assert_eq!(values["likwid:Local DRAM bandwidth"], Some(32.0));
        assert_eq!(values["likwid:Remote DRAM data volume"], Some(0.032));
        assert_eq!(values["likwid:Remote DRAM bandwidth"], Some(16.0));
        assert_eq!(values["likwid:Memory data volume"], Some(0.096));
        assert_eq!(values["likwid:Memory bandwidth"], Some(48.0));
    }

    #[test]
    fn rates_are_per_instruction_ratios_per_request_and_power_is_energy_over_time() {
        let values = values("e5-4650x4", totals());
        for (name, value) in [
            ("CPI", 4.0),
            ("L2 request rate", 0.4),
            ("L2 miss rate", 0.1),
            ("L2 miss ratio", 0.25),
            ("L3 request rate", 0.1),
            ("L3 miss rate", 0.025),
            ("L3 miss ratio", 0.25),
            ("Energy", 50.0),
            ("Power", 25.0),
            ("Energy DRAM", 6.0),
            ("Power DRAM", 3.0),
        ] {
            assert_eq!(values[&format!("likwid:{name}")], Some(value), "{name}");
        }
        let cores = values["likwid:Energy PP0"].unwrap();
        assert!(cores > 0.0);
        assert_eq!(values["likwid:Power PP0"], Some(cores / 2.0));
    }

    #[test]
    fn a_cache_that_the_machine_lacks_and_a_ratio_of_nothing_are_missing() {
        let of_two_levels = values("clovertown", totals());
        assert_eq!(of_two_levels["likwid:L3 miss ratio"], None);
        assert_eq!(of_two_levels["likwid:L2 miss ratio"], Some(0.25));
        let empty = values("e5-4650x4", RegionTotals::default());
        for name in ["CPI", "L2 miss ratio", "Power", "Power PP0", "Local DRAM bandwidth"] {
            assert_eq!(empty[&format!("likwid:{name}")], None, "{name}");
        }
        assert_eq!(empty["likwid:Energy"], Some(0.0));
    }
}
