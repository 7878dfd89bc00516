//! The candidate pinnings that the user names: `--schedule LIST`, once for each candidate, or the paper's environment
//! variable `SCHEDULE`.
//!
//! Instead of a list, `--schedule` takes an affinity hint or another placement with a name, such as `packed`. With
//! `packed` and
//! `distributed`, the search measures the two static policies and keeps the faster: what a learned policy must beat.
//!
//! `SCHEDULE` is autopin's form (Klug et al. 2008, section 3): candidates are separated by commas, and each character
//! is the CPU of the thread with that rank, so `2367,0145` tries two pinnings of four threads. CPUs above 9, which
//! the paper leaves open, are the letters a to z for 10 to 35.

use anyhow::{Result, anyhow, bail};
use pinfold_core::placement::NamedPlacement;
use pinfold_core::{Pinning, PuId, PuSet, Topology};

/// The candidates of `--schedule`: a CPU list each, in the order of the ranks, or the name of a placement of `threads`
/// threads.
pub(super) fn from_lists(lists: &[String], topology: &Topology, threads: Option<usize>) -> Result<Vec<Pinning>> {
    lists
        .iter()
        .map(|list| {
            if let Ok(placement) = list.parse::<NamedPlacement>() {
                let Some(threads) = threads else {
                    bail!("--schedule {list} is a placement of a number of threads: say how many with --threads");
                };
                return Ok(placement.pinning(topology, threads));
            }
            let pus = PuSet::parse_ordered(list).map_err(|error| anyhow!("--schedule: {error}"))?;
            checked(pus, &format!("--schedule {list}"), topology)
        })
        .collect()
}

/// The candidates of the environment variable `SCHEDULE`.
pub(super) fn from_variable(value: &str, topology: &Topology) -> Result<Vec<Pinning>> {
    value
        .split(',')
        .map(|word| {
            let pus = word
                .trim()
                .chars()
                .map(|character| {
                    character.to_digit(36).map(PuId).ok_or_else(|| {
                        anyhow!(
                            "SCHEDULE={value}: `{character}` is no CPU; write one digit for each thread, a to z for \
                             CPUs 10 to 35, and a comma between candidates, or use --schedule with CPU lists, or unset \
                             SCHEDULE"
                        )
                    })
                })
                .collect::<Result<Vec<PuId>>>()?;
            checked(pus, &format!("SCHEDULE={value}"), topology)
        })
        .collect()
}

/// A pinning to PUs that exist and are allowed; the error names the PUs that are not, and the allowed ones.
fn checked(pus: Vec<PuId>, given: &str, topology: &Topology) -> Result<Pinning> {
    let asked: PuSet = pus.iter().copied().collect();
    let present = &topology.object(topology.root()).pus;
    let allowed = topology.allowed_pus();
    let missing = asked.difference(present);
    if !missing.is_empty() {
        bail!("{given}: CPU {missing} does not exist or is offline; this machine has {present}; allowed are {allowed}");
    }
    let forbidden = asked.difference(allowed);
    if !forbidden.is_empty() {
        bail!(
            "{given}: CPU {forbidden} is not allowed: an affinity mask (taskset), a cpuset, --physcpubind or --cpunodebind \
             excludes it; allowed are {allowed}; choose among these, or let pinfold have more"
        );
    }
    Pinning::new(pus).ok_or_else(|| anyhow!("{given}: a candidate is empty; name at least one CPU, such as 0,1"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::{ObjectKind, TopologyBuilder};
    use proptest::prelude::*;

    /// CPUs 0 to 15; 0 to 11 are allowed.
    fn topology() -> Topology {
        let mut builder = TopologyBuilder::new("sixteen");
        let package = builder.object(builder.root(), ObjectKind::Package, Some(0));
        for pu in 0..16 {
            builder.pu(package, PuId(pu));
        }
        builder.build(&"0-11".parse().unwrap(), &[]).unwrap()
    }

    fn shown(pinnings: &[Pinning]) -> Vec<String> {
        pinnings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_list_is_a_candidate_and_keeps_the_order_of_its_ranks() {
        let lists = ["3,1-2".to_owned(), "0".to_owned()];
        assert_eq!(shown(&from_lists(&lists, &topology(), None).unwrap()), ["3,1,2", "0"]);
    }

    #[test]
    fn a_name_is_the_placement_of_a_hint_for_the_number_of_threads() {
        let mut builder = TopologyBuilder::new("two packages");
        for package in 0..2 {
            let of = builder.object(builder.root(), ObjectKind::Package, Some(package));
            builder.pu(of, PuId(2 * package));
            builder.pu(of, PuId(2 * package + 1));
        }
        let two = builder.build(&"0-3".parse().unwrap(), &[]).unwrap();
        let names = ["packed", "slp", "distributed", "SLP"].map(str::to_owned);
        let of = |threads| shown(&from_lists(&names, &two, Some(threads)).unwrap());
        assert_eq!(of(2), ["0,1", "0,1", "0,2", "0,2"]);
        assert_eq!(of(99), ["0-3"; 4]);
        let error = from_lists(&names, &two, None).unwrap_err().to_string();
        assert!(error.contains("--threads"), "{error}");
    }

    #[test]
    fn the_variable_of_the_paper_gives_one_cpu_a_character() {
        let pinnings = from_variable("2367,01ab", &topology()).unwrap();
        assert_eq!(shown(&pinnings), ["2,3,6,7", "0,1,10,11"]);
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_named_and_so_are_those_that_do() {
        let error = from_lists(&["0,77".to_owned()], &topology(), None)
            .unwrap_err()
            .to_string();
        assert!(error.contains("CPU 77 does not exist"), "{error}");
        assert!(
            error.contains("has 0-15") && error.contains("allowed are 0-11"),
            "{error}"
        );
    }

    #[test]
    fn a_cpu_that_is_not_ours_is_named_and_so_are_those_that_are() {
        let error = from_variable("0f", &topology()).unwrap_err().to_string();
        assert!(
            error.contains("CPU 15 is not allowed") && error.contains("allowed are 0-11"),
            "{error}"
        );
    }

    #[test]
    fn an_empty_candidate_is_refused() {
        assert!(
            from_variable("01,,23", &topology())
                .unwrap_err()
                .to_string()
                .contains("empty")
        );
        assert!(
            from_lists(&[String::new()], &topology(), None)
                .unwrap_err()
                .to_string()
                .contains("empty")
        );
    }

    proptest! {
        #[test]
        fn what_is_accepted_is_within_what_is_ours(value in "[0-9a-z,]{1,12}") {
            let topology = topology();
            if let Ok(pinnings) = from_variable(&value, &topology) {
                for pinning in pinnings {
                    for &pu in pinning.pus() {
                        prop_assert!(topology.allowed_pus().contains(pu));
                    }
                }
            }
        }
    }
}
