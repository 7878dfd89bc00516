//! The nineteen counters of Sánchez Barrera et al. (ICS 2020, section 4.2.1), as LIKWID's performance groups NUMA,
//! L2CACHE, L3CACHE and ENERGY for Sandy Bridge EP name them, in LIKWID's units. Data sets have them as columns, and
//! the policy `react` looks at them.
//!
//! The paper says that there are nineteen, of these groups, and names nine of them (table 3). The groups have eighteen
//! metrics of memory and of energy; the nineteenth is CPI here, which each of the groups has. Their other metrics say
//! nothing that differs in a simulation without frequency scaling: the run time is `time_s`, the clock is constant, and
//! there is no temperature.

use crate::region::{CacheCounts, RegionCounts};

/// One of the counters.
#[derive(Clone, Copy)]
pub struct LikwidCounter {
    /// Its name in LIKWID's group files.
    pub name: &'static str,
    /// Its unit there; empty for a ratio.
    pub unit: &'static str,
    formula: fn(&RegionCounts, f64) -> Option<f64>,
}

impl LikwidCounter {
    /// Its value for these counts in this time in seconds. `None` if a count is missing, or a divisor is zero.
    pub fn value(&self, counts: &RegionCounts, seconds: f64) -> Option<f64> {
        (self.formula)(counts, seconds)
    }
}

macro_rules! counters {
    ($($name:literal, $unit:literal: $formula:expr,)*) => {
        [$(LikwidCounter { name: $name, unit: $unit, formula: $formula },)*]
    };
}

/// The counters, in the order of the columns of data sets.
pub const LIKWID: [LikwidCounter; 19] = counters! {
    "CPI", "": |counts, _| ratio(counts.cycles?, counts.instructions?),
    "Local DRAM data volume", "GByte": |counts, _| Some(giga(counts.local_bytes?)),
    "Local DRAM bandwidth", "MByte/s": |counts, seconds| ratio(mega(counts.local_bytes?), seconds),
    "Remote DRAM data volume", "GByte": |counts, _| Some(giga(counts.remote_bytes?)),
    "Remote DRAM bandwidth", "MByte/s": |counts, seconds| ratio(mega(counts.remote_bytes?), seconds),
    "Memory data volume", "GByte": |counts, _| Some(giga(all_bytes(counts)?)),
    "Memory bandwidth", "MByte/s": |counts, seconds| ratio(mega(all_bytes(counts)?), seconds),
    "L2 request rate", "": |counts, _| ratio(counts.l2?.requests, counts.instructions?),
    "L2 miss rate", "": |counts, _| ratio(counts.l2?.misses, counts.instructions?),
    "L2 miss ratio", "": |counts, _| miss_ratio(counts.l2?),
    "L3 request rate", "": |counts, _| ratio(counts.l3?.requests, counts.instructions?),
    "L3 miss rate", "": |counts, _| ratio(counts.l3?.misses, counts.instructions?),
    "L3 miss ratio", "": |counts, _| miss_ratio(counts.l3?),
    "Energy", "J": |counts, _| counts.package_joules,
    "Power", "W": |counts, seconds| ratio(counts.package_joules?, seconds),
    "Energy PP0", "J": |counts, _| counts.core_joules,
    "Power PP0", "W": |counts, seconds| ratio(counts.core_joules?, seconds),
    "Energy DRAM", "J": |counts, _| counts.memory_joules,
    "Power DRAM", "W": |counts, seconds| ratio(counts.memory_joules?, seconds),
};

fn mega(bytes: f64) -> f64 {
    bytes / 1e6
}

fn giga(bytes: f64) -> f64 {
    bytes / 1e9
}

fn all_bytes(counts: &RegionCounts) -> Option<f64> {
    Some(counts.local_bytes? + counts.remote_bytes?)
}

fn miss_ratio(cache: CacheCounts) -> Option<f64> {
    ratio(cache.misses, cache.requests)
}

fn ratio(count: f64, of: f64) -> Option<f64> {
    (of > 0.0).then(|| count / of)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of the counters with a value.
    fn known(counts: &RegionCounts) -> Vec<&'static str> {
        let known = LIKWID.iter().filter(|counter| counter.value(counts, 2.0).is_some());
        known.map(|counter| counter.name).collect()
    }

    #[test]
    fn a_missing_count_leaves_its_counters_missing_and_no_others() {
        assert_eq!(known(&RegionCounts::default()), [""; 0]);
        let energy = RegionCounts {
            package_joules: Some(30.0),
            ..RegionCounts::default()
        };
        assert_eq!(known(&energy), ["Energy", "Power"]);
        let counted = RegionCounts {
            cycles: Some(3.0),
            instructions: Some(2.0),
            l3: Some(CacheCounts {
                requests: 2.0,
                misses: 1.0,
            }),
            local_bytes: Some(1e9),
            ..RegionCounts::default()
        };
        assert_eq!(
            known(&counted),
            [
                "CPI",
                "Local DRAM data volume",
                "Local DRAM bandwidth",
                "L3 request rate",
                "L3 miss rate",
                "L3 miss ratio"
            ]
        );
        // Requests per instruction need the instructions, the misses of requests do not.
        let without = RegionCounts {
            instructions: None,
            ..counted
        };
        assert_eq!(
            known(&without),
            ["Local DRAM data volume", "Local DRAM bandwidth", "L3 miss ratio"]
        );
    }
}
