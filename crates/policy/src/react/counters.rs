//! The counters of a region's execution that a model may use: the columns `likwid:NAME` of the data sets of
//! `pinfold sweep --space ics20`.

use pinfold_core::{LIKWID, RegionCounts};

/// The prefix of a name in data sets. Model files may have it, too.
const PREFIX: &str = "likwid:";

/// The position of a counter in `LIKWID`.
pub(super) fn position(name: &str) -> Option<usize> {
    let name = name.strip_prefix(PREFIX).unwrap_or(name);
    LIKWID.iter().position(|known| known.name == name)
}

/// A counter per execution, from the counts of `executions` that took `seconds` in all.
pub(super) fn value(counter: usize, counts: &RegionCounts, executions: f64, seconds: f64) -> Option<f64> {
    if executions <= 0.0 {
        return None;
    }
    let one = RegionCounts::ZERO.plus(executions.recip(), counts);
    LIKWID[counter].value(&one, seconds / executions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::CacheCounts;

    fn of(name: &str, counts: &RegionCounts, executions: f64, seconds: f64) -> Option<f64> {
        value(position(name).unwrap(), counts, executions, seconds)
    }

    #[test]
    fn volumes_and_energies_are_those_of_one_execution_and_rates_do_not_depend_on_the_number() {
        let counts = RegionCounts {
            instructions: Some(2000.0),
            cycles: Some(8000.0),
            l2: Some(CacheCounts {
                requests: 800.0,
                misses: 200.0,
            }),
            local_bytes: Some(64e6),
            remote_bytes: Some(32e6),
            package_joules: Some(100.0),
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
        let nothing = RegionCounts::ZERO;
        assert_eq!(of("L3 miss ratio", &nothing, 1.0, 1.0), None);
        assert_eq!(of("Power", &nothing, 0.0, 0.0), None);
        assert_eq!(of("Energy", &nothing, 1.0, 1.0), Some(0.0));
        assert_eq!(of("Energy", &RegionCounts::default(), 1.0, 1.0), None);
        assert_eq!(position("likwid:Heat"), None);
    }
}
