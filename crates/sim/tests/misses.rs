//! Miss counts that can be calculated by hand.

use pinfold_sim::window::{Geometry, MissCounter, Misses, MissesError};
use proptest::prelude::*;

const LINE: u64 = 64;

/// 64 sets of 8 ways.
const L1: Geometry = Geometry {
    bytes: 32 << 10,
    ways: 8,
    line: 64,
};

/// 1024 sets of 16 ways.
const L2: Geometry = Geometry {
    bytes: 1 << 20,
    ways: 16,
    line: 64,
};

/// Two ways in one set, then four.
const TINY: [Geometry; 2] = [
    Geometry {
        bytes: 128,
        ways: 2,
        line: 64,
    },
    Geometry {
        bytes: 256,
        ways: 4,
        line: 64,
    },
];

/// The counts of loads of eight bytes at these addresses.
fn loads(geometries: &[Geometry], addresses: impl IntoIterator<Item = u64>) -> Vec<Misses> {
    let mut counter = MissCounter::new(geometries).unwrap();
    for address in addresses {
        counter.access(address, 8, false).unwrap();
    }
    counter.misses()
}

fn reads(misses: &[Misses]) -> Vec<(u64, u64)> {
    misses.iter().map(|level| (level.reads, level.read_misses)).collect()
}

#[test]
fn reading_in_sequence_misses_once_a_line() {
    let lines = 3000;
    let misses = loads(&[L1, L2], (0..lines * 8).map(|word| word * 8));
    assert_eq!(reads(&misses), [(lines * 8, lines), (lines, lines)]);
}

#[test]
fn a_second_pass_hits_in_the_level_that_holds_the_working_set() {
    // 8192 lines: sixteen times the first level, half of the second.
    let lines = 8192;
    let pass = || (0..lines).map(|line| line * LINE);
    let misses = loads(&[L1, L2], pass().chain(pass()));
    assert_eq!(reads(&misses), [(2 * lines, 2 * lines), (2 * lines, lines)]);
}

#[test]
fn a_cycle_of_one_line_more_than_the_ways_always_misses_and_one_of_as_many_lines_never() {
    let stride = 64 * LINE;
    for (lines, missed) in [(8, 8), (9, 90)] {
        let rounds = (0..10).flat_map(|_| (0..lines).map(|line| line * stride));
        assert_eq!(reads(&loads(&[L1], rounds)), [(10 * lines, missed)]);
    }
}

#[test]
fn a_stride_that_uses_every_second_set_has_half_the_cache() {
    for (lines, missed) in [(256, 256), (288, 2 * 288)] {
        let rounds = (0..2).flat_map(|_| (0..lines).map(|line| line * 2 * LINE));
        assert_eq!(reads(&loads(&[L1], rounds)), [(2 * lines, missed)]);
    }
}

#[test]
fn a_store_brings_its_line_and_the_load_after_it_hits() {
    let mut counter = MissCounter::new(&[L1, L2]).unwrap();
    for line in 0..100 {
        counter.access(line * LINE, 8, true).unwrap();
        counter.access(line * LINE + 8, 8, false).unwrap();
    }
    let first = Misses {
        reads: 100,
        writes: 100,
        read_misses: 0,
        write_misses: 100,
    };
    assert_eq!(counter.misses(), [first, Misses { reads: 0, ..first }]);
}

#[test]
fn a_hit_in_the_first_level_does_not_make_the_line_younger_in_the_second() {
    // Each of the five lines misses both levels at first. Line 0 hits in the first level after line 1. The second level
    // does not see that, so line 4 replaces line 0 there, and not line 1.
    let before = [0, 1, 0, 2, 3, 4].map(|line| line * LINE);
    assert_eq!(reads(&loads(&TINY, before)), [(6, 5), (5, 5)]);
    assert_eq!(reads(&loads(&TINY, before.into_iter().chain([0]))), [(7, 6), (6, 6)]);
    assert_eq!(reads(&loads(&TINY, before.into_iter().chain([LINE]))), [(7, 6), (6, 5)]);
}

#[test]
fn a_line_that_the_second_level_evicts_may_stay_in_the_first() {
    // `a` is used and so stays in the first level, while four others pass through the second.
    let trace = [0, 1, 0, 2, 0, 3, 0, 4, 0].map(|line| line * LINE);
    assert_eq!(reads(&loads(&TINY, trace)), [(9, 5), (5, 5)]);
}

#[test]
fn an_access_that_straddles_two_lines_counts_once_and_brings_both() {
    let mut counter = MissCounter::new(&[L1, L2]).unwrap();
    counter.access(60, 8, true).unwrap();
    counter.access(0, 8, false).unwrap();
    counter.access(64, 8, false).unwrap();
    let levels = counter.misses();
    assert_eq!((levels[0].writes, levels[0].write_misses), (1, 1));
    assert_eq!((levels[0].reads, levels[0].read_misses), (2, 0));
    assert_eq!((levels[1].writes, levels[1].write_misses), (1, 1));
}

#[test]
fn each_level_counts_by_its_own_line_size() {
    let wide = Geometry {
        line: 128,
        bytes: 2 << 20,
        ..L2
    };
    let misses = loads(&[L1, wide], (0..100).map(|line| line * LINE));
    assert_eq!(reads(&misses), [(100, 100), (100, 50)]);
}

#[test]
fn an_impossible_cache_is_refused() {
    let refused = |geometry: Geometry| MissCounter::new(&[geometry]).unwrap_err();
    assert_eq!(refused(Geometry { line: 48, ..L1 }), MissesError::Line(48));
    for geometry in [
        Geometry { bytes: 0, ..L1 },
        Geometry { ways: 0, ..L1 },
        Geometry { ways: 7, ..L1 },
    ] {
        assert!(matches!(refused(geometry), MissesError::Size { .. }), "{geometry:?}");
    }
    let huge = Geometry {
        bytes: 1 << 40,
        ways: 1,
        line: 64,
    };
    assert_eq!(refused(huge), MissesError::Sets { sets: 1 << 34 });
}

proptest! {
    /// Compared with a simple LRU, on addresses all over the address space.
    #[test]
    fn a_level_has_one_list_per_set_selected_by_the_virtual_address(
        accesses in proptest::collection::vec((0u64..4, 0u64..600, 0u64..80), 1..400),
        ways in 1u32..6,
        sets in 1usize..40,
    ) {
        let geometry = Geometry { bytes: sets as u64 * u64::from(ways) * LINE, ways, line: 64 };
        let mut plain: Vec<Vec<u64>> = vec![vec![]; sets];
        let mut missed = 0;
        let mut counter = MissCounter::new(&[geometry]).unwrap();
        for (part, place, size) in accesses {
            let address = (part << 44) + part * 777_777 + place * 24;
            counter.access(address, size, false).unwrap();
            let mut hit = true;
            for line in address / LINE..=(address + size.max(1) - 1) / LINE {
                let set = &mut plain[usize::try_from(line).unwrap() % sets];
                match set.iter().position(|&there| there == line) {
                    Some(way) => { set.remove(way); }
                    None => hit = false,
                }
                set.insert(0, line);
                set.truncate(ways as usize);
            }
            missed += u64::from(!hit);
        }
        prop_assert_eq!(counter.misses()[0].read_misses, missed);
    }
}
