//! The counters of LIKWID (`pinfold_core::LIKWID`) as columns of data sets.

use super::evaluate::RegionFigures;
use crate::model::Model;
use pinfold_core::{LIKWID, MetricColumn};

/// The columns of the counters: `likwid:NAME`.
pub fn likwid_columns() -> Vec<MetricColumn> {
    let columns = LIKWID.iter().map(|counter| MetricColumn {
        name: format!("likwid:{}", counter.name),
        unit: counter.unit.to_owned(),
    });
    columns.collect()
}

/// The counters of a part, one for each column, of all threads, packages and memories together.
pub fn likwid_values(model: &Model, part: &RegionFigures) -> Vec<Option<f64>> {
    let counts = part.totals.counts(model);
    LIKWID
        .iter()
        .map(|counter| counter.value(&counts, part.totals.seconds))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::builtin;
    use crate::window::{Counters, LevelCounters, RegionTotals, Served};
    use std::collections::BTreeMap;

    fn values(machine: &str, totals: RegionTotals) -> BTreeMap<String, Option<f64>> {
        let part = RegionFigures {
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
            core_cycles: 4000.0,
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
