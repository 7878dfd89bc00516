//! The nineteen counters of a region's execution, as LIKWID's groups NUMA, L2CACHE, L3CACHE and ENERGY name them, in
//! LIKWID's units. The data sets of `pinfold sweep --space ics20` have the same as columns `likwid:NAME`.

use pinfold_core::RegionCounts;

/// A formula on what was counted in a time in seconds. `None` where a divisor is zero.
type Formula = fn(&RegionCounts, f64) -> Option<f64>;

/// What model files may put before a name, as data sets do.
const PREFIX: &str = "likwid:";

/// The counters, with their formulas.
pub const COUNTERS: [(&str, Formula); 19] = [
    ("CPI", |counts, _| ratio(counts.cycles, counts.instructions)),
    ("Local DRAM data volume", |counts, _| Some(counts.local_bytes / 1e9)),
    ("Local DRAM bandwidth", |counts, seconds| {
        ratio(counts.local_bytes / 1e6, seconds)
    }),
    ("Remote DRAM data volume", |counts, _| Some(counts.remote_bytes / 1e9)),
    ("Remote DRAM bandwidth", |counts, seconds| {
        ratio(counts.remote_bytes / 1e6, seconds)
    }),
    ("Memory data volume", |counts, _| {
        Some((counts.local_bytes + counts.remote_bytes) / 1e9)
    }),
    ("Memory bandwidth", |counts, seconds| {
        ratio((counts.local_bytes + counts.remote_bytes) / 1e6, seconds)
    }),
    ("L2 request rate", |counts, _| {
        ratio(counts.l2_requests, counts.instructions)
    }),
    ("L2 miss rate", |counts, _| ratio(counts.l2_misses, counts.instructions)),
    ("L2 miss ratio", |counts, _| ratio(counts.l2_misses, counts.l2_requests)),
    ("L3 request rate", |counts, _| {
        ratio(counts.l3_requests, counts.instructions)
    }),
    ("L3 miss rate", |counts, _| ratio(counts.l3_misses, counts.instructions)),
    ("L3 miss ratio", |counts, _| ratio(counts.l3_misses, counts.l3_requests)),
    ("Energy", |counts, _| Some(counts.package_joules)),
    ("Power", |counts, seconds| ratio(counts.package_joules, seconds)),
    ("Energy PP0", |counts, _| Some(counts.core_joules)),
    ("Power PP0", |counts, seconds| ratio(counts.core_joules, seconds)),
    ("Energy DRAM", |counts, _| Some(counts.memory_joules)),
    ("Power DRAM", |counts, seconds| ratio(counts.memory_joules, seconds)),
];

/// The position of a counter in `COUNTERS`.
pub(super) fn position(name: &str) -> Option<usize> {
    let name = name.strip_prefix(PREFIX).unwrap_or(name);
    COUNTERS.iter().position(|(known, _)| *known == name)
}

/// A counter of one execution, of what was counted in `executions` of them that took `seconds` in all.
pub(super) fn value(counter: usize, counts: &RegionCounts, executions: f64, seconds: f64) -> Option<f64> {
    if executions <= 0.0 {
        return None;
    }
    let one = RegionCounts::default().plus(executions.recip(), counts);
    COUNTERS[counter].1(&one, seconds / executions)
}

fn ratio(count: f64, of: f64) -> Option<f64> {
    (of > 0.0).then(|| count / of)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, counts: &RegionCounts, executions: f64, seconds: f64) -> Option<f64> {
        value(position(name).unwrap(), counts, executions, seconds)
    }

    #[test]
    fn volumes_and_energies_are_those_of_one_execution_and_rates_do_not_depend_on_the_number() {
        let counts = RegionCounts {
            instructions: 2000.0,
            cycles: 8000.0,
            l2_requests: 800.0,
            l2_misses: 200.0,
            local_bytes: 64e6,
            remote_bytes: 32e6,
            package_joules: 100.0,
            ..RegionCounts::default()
        };
        for (name, expected) in [
            ("likwid:CPI", 4.0),
            ("Memory data volume", 0.048),
            ("Memory bandwidth", 24.0),
            ("L2 miss rate", 0.1),
            ("L2 miss ratio", 0.25),
            ("Energy", 50.0),
            ("Power", 25.0),
        ] {
            let value = of(name, &counts, 2.0, 4.0).unwrap();
            assert!((value - expected).abs() < 1e-12, "{name}: {value}");
        }
    }

    #[test]
    fn a_ratio_of_nothing_is_missing_and_not_zero() {
        let nothing = RegionCounts::default();
        assert_eq!(of("L3 miss ratio", &nothing, 1.0, 1.0), None);
        assert_eq!(of("Power", &nothing, 0.0, 0.0), None);
        assert_eq!(of("Energy", &nothing, 1.0, 1.0), Some(0.0));
        assert_eq!(position("likwid:Heat"), None);
    }
}
