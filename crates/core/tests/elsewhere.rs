//! The same placement on other PUs.

#[path = "support/synthetic.rs"]
mod synthetic;

use pinfold_core::placement::{Symmetries, distance};
use pinfold_core::{Pinning, PuId, PuSet};
use proptest::prelude::*;
use synthetic::synthetic;

fn pus(numbers: &[u32]) -> Vec<PuId> {
    numbers.iter().copied().map(PuId).collect()
}

fn found(machine: &str, pinning: &[u32], free: &[u32], now: &[u32]) -> Option<Vec<PuId>> {
    let pinning = Pinning::new(pus(pinning)).unwrap();
    let free: PuSet = pus(free).into_iter().collect();
    let found = Symmetries::new(&synthetic(machine)).elsewhere(&pinning, &free, &pus(now))?;
    Some(found.pus().to_vec())
}

#[test]
fn a_packed_pinning_goes_to_the_package_that_is_free_and_keeps_the_order_of_ranks() {
    let machine = "package:2 l3:1 core:4 pu:1";
    let there = found(machine, &[3, 1, 0], &[4, 5, 6, 7], &[5, 7, 1]);
    assert_eq!(there, Some(pus(&[5, 7, 4])));
    // Threads stay where they are if that is the same placement.
    assert_eq!(
        found(machine, &[0, 1, 2], &[0, 1, 2, 3, 4, 5, 6, 7], &[6, 4, 7]),
        Some(pus(&[6, 4, 7]))
    );
    assert_eq!(found(machine, &[0, 1, 2], &[2, 3, 4, 5], &[2, 3, 4]), None);
}

#[test]
fn ranks_that_share_a_core_share_one_elsewhere() {
    let machine = "package:2 l3:1 core:2 pu:2";
    let there = found(machine, &[0, 1, 4], &[2, 3, 4, 5, 6, 7], &[]).unwrap();
    assert_eq!(there, pus(&[2, 3, 4]));
    assert_eq!(found(machine, &[0, 1, 4], &[1, 2, 4, 6], &[]), None);
}

#[test]
fn a_pinning_with_a_pu_that_may_not_be_used_is_nowhere() {
    assert_eq!(found("package:2 core:2 pu:1", &[0, 9], &[0, 1, 2, 3], &[0, 1]), None);
}

proptest! {
    #[test]
    fn what_is_found_is_free_and_the_same_placement(
        ranks in proptest::sample::subsequence((0..16).collect::<Vec<u32>>(), 1..8).prop_shuffle(),
        free in proptest::sample::subsequence((0..16).collect::<Vec<u32>>(), 0..=16),
        now in proptest::collection::vec(0..16u32, 8),
    ) {
        let topology = synthetic("package:2 l3:2 core:2 pu:2");
        let pinning = Pinning::new(pus(&ranks)).unwrap();
        let set: PuSet = pus(&free).into_iter().collect();
        if let Some(found) = Symmetries::new(&topology).elsewhere(&pinning, &set, &pus(&now)) {
            prop_assert!(found.pus().iter().all(|&pu| set.contains(pu)));
            prop_assert_eq!(distance(&topology, &pinning, &found), 0);
        } else {
            prop_assert!(free.len() < 16, "a free machine has room");
        }
    }
}
