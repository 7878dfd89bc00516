//! Coherence of the caches, and the movement of lines, on machines with caches of a few lines.

use super::*;
use crate::window::cache::Cache;
use crate::window::mapping::Mapping;
use pinfold_core::PageMapping;
use proptest::prelude::*;

/// The Opteron or the Sandy Bridge with caches of a few lines, so that evictions are frequent.
fn small(name: &str) -> Model {
    let (text, replacements): (&str, &[(&str, &str)]) = match name {
        "victim" => (
            include_str!("../../../../../machines/opteron-6164x4.toml"),
            &[
                ("kib = 64", "bytes = 512"),
                ("kib = 512", "kib = 1"),
                ("count = 16, source = \"AMD S", "count = 4, source = \"AMD S"),
                ("{ mib = 5", "{ kib = 2"),
                ("count = 40", "count = 8"),
            ],
        ),
        _ => (
            include_str!("../../../../../machines/e5-4650x4.toml"),
            &[
                ("kib = 32", "bytes = 512"),
                ("count = 8, source = \"Intel 64", "count = 4, source = \"Intel 64"),
                ("kib = 256", "kib = 1"),
                ("mib = 20", "kib = 4"),
                ("count = 20, source = \"Intel Xeon", "count = 8, source = \"Intel Xeon"),
            ],
        ),
    };
    let mut text = text.to_owned();
    for (from, to) in replacements {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    if name == "non_inclusive" {
        text = text.replace("policy = \"inclusive\"", "policy = \"non_inclusive\"");
    }
    Model::parse(name, &text).unwrap()
}

/// Two cores of each of three domains.
fn system(model: &Model) -> System<1> {
    let apart = model.cores_per_domain();
    let cores: Vec<usize> = (0..3).flat_map(|domain| [domain * apart, domain * apart + 1]).collect();
    let mapping = Mapping::new(model, PageMapping::FirstTouch, None, &[0; 6]);
    let mut system = System::new(model, &cores, cores.len(), Pages::new(mapping), 0);
    system.thread_on_core = (0..cores.len()).collect();
    system.pages.number(0, 0);
    system.pages.number(1, 0);
    system.directory.add_block();
    system
}

fn access(system: &mut System<1>, core: usize, line: u32, write: bool) {
    let Some(word) = system.l1(core).touch(line) else {
        system.miss(core, line, write, 0);
        return;
    };
    let writable = *word & WRITABLE != 0;
    if write {
        *word |= DIRTY | WRITABLE;
        if !writable {
            system.upgrade(core, line, 0);
        }
    }
}

/// The invariants after every access, for every line.
fn check(system: &System<1>, lines: u32) {
    let cores = system.topology.domain_of_core.len();
    for line in 0..lines {
        let entry = system.directory.get(line);
        let flags: Vec<Option<u32>> = (0..cores)
            .map(|core| {
                let private = system.caches.private_caches(core);
                let found = private
                    .iter()
                    .flat_map(Cache::contents)
                    .filter(|&(held, _)| held == line);
                found.map(|(_, flags)| flags).reduce(|all, flags| all | flags)
            })
            .collect();
        let holders: Vec<usize> = (0..cores).filter(|&core| flags[core].is_some()).collect();
        assert_eq!(entry.each_core().collect::<Vec<_>>(), holders, "line {line}");
        let shared: Vec<usize> = (0..system.caches.shared.len())
            .filter(|&domain| system.caches.shared[domain].holds(line))
            .collect();
        assert_eq!(entry.each_domain().collect::<Vec<_>>(), shared, "line {line}");
        for (core, &held) in flags.iter().enumerate() {
            let held = held.unwrap_or(0);
            let domain = system.topology.domain_of_core[core];
            if held & WRITABLE != 0 {
                assert_eq!(holders, [core], "line {line} has one writer");
                assert!(
                    shared.iter().all(|&other| other == domain),
                    "line {line} has one writer"
                );
            }
            if held & (DIRTY | WRITABLE) != 0 {
                assert_eq!(entry.owner(), Some(core), "line {line}");
            }
            if system.caches.shared_inclusion() == Inclusion::Inclusive && holders.contains(&core) {
                assert!(shared.contains(&domain), "line {line} is in the inclusive LLC");
            }
        }
    }
}

fn accesses() -> impl Strategy<Value = Vec<(usize, u32, u8)>> {
    proptest::collection::vec((0usize..6, 0u32..96, 0u8..8), 1..250)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Loads, stores and prefetches by all cores: the directory is exact, a line has one writer or many readers, an
    /// inclusive LLC contains the private caches' lines, and every demand access hits or misses once.
    #[test]
    fn the_caches_stay_coherent(which in 0usize..3, accesses in accesses()) {
        let model = small(["victim", "inclusive", "non_inclusive"][which]);
        let mut system = system(&model);
        let mut demanded = 0;
        for (core, line, what) in accesses {
            match what {
                0..=2 => access(&mut system, core, line, true),
                3 | 4 if system.is_near(core, line, usize::from(what) - 3) => {}
                3 | 4 => {
                    system.prefetch(core, line, usize::from(what) - 3, 0, 0);
                }
                _ => access(&mut system, core, line, false),
            }
            demanded += u64::from(!(3..=4).contains(&what));
            check(&system, 96);
        }
        let mut total = Counters::default();
        for counters in &system.counters {
            total += counters;
        }
        // The runner counts accesses to the L1. Here they are those that the L2 did not see.
        let [_, second, third, _] = total.levels;
        prop_assert!(second.hits + second.misses <= demanded);
        prop_assert_eq!(third.hits + third.misses, second.misses);
    }
}

#[test]
fn a_line_that_an_inclusive_cache_evicts_leaves_the_cores() {
    let model = small("inclusive");
    let mut system = system(&model);
    access(&mut system, 1, 0, true);
    // Eight lines of the same set of the last level, read by the other core.
    for line in 1..=8 {
        access(&mut system, 0, line * 8, false);
    }
    assert_eq!(system.counters[1].back_invalidations, 1);
    assert_eq!(system.counters[0].memory_writes, 1, "the modified line goes to memory");
    assert_eq!(system.directory.get(0), Entry::EMPTY);
}

#[test]
fn a_line_moves_out_of_a_victim_cache_to_its_only_reader() {
    let model = small("victim");
    let mut system = system(&model);
    // Lines of one set of every level: one way in the L1 (four sets of two), four in the L2.
    for line in 0..7 {
        access(&mut system, 0, line * 4, line == 0);
    }
    assert!(
        system.caches.shared[0].holds(0),
        "the L1 and the L2 hold six lines, the seventh evicts the first"
    );
    assert!(
        !system.caches.shared[0].holds(24),
        "a line from memory does not enter the victim cache"
    );
    access(&mut system, 0, 0, false);
    assert!(!system.caches.shared[0].holds(0) && system.l1(0).holds(0));
    assert_eq!(system.counters[0].levels[2].hits, 1);
    assert_eq!(
        *system.l1(0).peek(0).unwrap() & DIRTY,
        DIRTY,
        "a modified line stays modified"
    );
}

#[test]
fn a_victim_cache_keeps_its_copy_where_another_core_holds_the_line() {
    let model = small("victim");
    let mut system = system(&model);
    for line in 0..7 {
        access(&mut system, 0, line * 4, false);
    }
    access(&mut system, 1, 0, false);
    assert!(!system.caches.shared[0].holds(0));
    // Core 0 reads it too, then core 1 evicts its copy, and core 0 still holds the line when core 1 reads it.
    access(&mut system, 0, 0, false);
    for line in 7..14 {
        access(&mut system, 1, line * 4, false);
    }
    assert!(system.caches.shared[0].holds(0));
    access(&mut system, 1, 0, false);
    assert!(system.caches.shared[0].holds(0));
}

/// The touches of these accesses, from the newest to the oldest. More of them than needed do not matter.
fn touches(accesses: &[(usize, u32, bool)]) -> Vec<Touch> {
    let touch = |&(core, line, write): &(usize, u32, bool)| Touch {
        line,
        thread: core as u16,
        write,
        fresh: true,
    };
    accesses.iter().rev().map(touch).collect()
}

/// The lines of a cache, each set from the last used to the least recently used.
fn lines(cache: &Cache) -> Vec<u32> {
    cache.contents().iter().map(|&(line, _)| line).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_restored_cache_is_the_one_that_the_accesses_leave(
        accesses in proptest::collection::vec((0u32..96, any::<bool>()), 1..250),
    ) {
        let model = small("non_inclusive");
        let accesses: Vec<(usize, u32, bool)> = accesses.iter().map(|&(line, write)| (0, line, write)).collect();
        let (mut simulated, mut restored) = (system(&model), system(&model));
        for &(core, line, write) in &accesses {
            access(&mut simulated, core, line, write);
        }
        restored.restore(&[&touches(&accesses)], &[0], false);
        prop_assert_eq!(lines(simulated.l1(0)), lines(restored.l1(0)));
    }

    /// As after accesses; and it does not matter into how many parts the past is divided.
    #[test]
    fn restored_caches_are_coherent(
        which in 0usize..3,
        adjacent in any::<bool>(),
        before in accesses(),
        cut in 0usize..250,
        after in accesses(),
    ) {
        let model = small(["victim", "inclusive", "non_inclusive"][which]);
        let past: Vec<(usize, u32, bool)> = before.iter().map(|&(core, line, what)| (core, line, what < 3)).collect();
        let past = touches(&past);
        let (newer, older) = past.split_at(cut.min(past.len()));
        let cores: Vec<usize> = (0..6).collect();
        let (mut system, mut whole) = (system(&model), self::system(&model));
        system.restore(&[newer, older], &cores, adjacent);
        whole.restore(&[&past], &cores, adjacent);
        check(&system, 96);
        for line in 0..96 {
            prop_assert_eq!(system.directory.get(line), whole.directory.get(line));
        }
        for (core, line, what) in after {
            access(&mut system, core, line, what < 3);
            check(&system, 96);
        }
    }
}

#[test]
fn a_restored_line_that_others_have_read_since_it_was_stored_is_shared() {
    let model = small("inclusive");
    let mut system = system(&model);
    system.restore(
        &[&touches(&[(0, 5, true), (2, 5, false)])],
        &(0..6).collect::<Vec<_>>(),
        false,
    );
    let entry = system.directory.get(5);
    assert_eq!(
        (entry.each_core().collect::<Vec<_>>(), entry.owner()),
        (vec![0, 2], None)
    );
    let mut stored = self::system(&model);
    stored.restore(
        &[&touches(&[(2, 5, false), (0, 5, true)])],
        &(0..6).collect::<Vec<_>>(),
        false,
    );
    let entry = stored.directory.get(5);
    assert_eq!(
        (entry.each_core().collect::<Vec<_>>(), entry.owner()),
        (vec![0], Some(0))
    );
    assert_eq!(*stored.l1(0).peek(5).unwrap() & DIRTY, DIRTY);
}

#[test]
fn the_adjacent_line_of_a_restored_one_is_in_the_second_level_where_it_is_prefetched() {
    let model = small("non_inclusive");
    let restored = |adjacent: bool| {
        let mut system = system(&model);
        system.restore(&[&touches(&[(0, 5, false), (1, 9, true)])], &[0, 1], adjacent);
        system
    };
    let mut with = restored(true);
    let entry = with.directory.get(4);
    assert_eq!((entry.has_core(0), entry.owner()), (true, Some(0)));
    assert!(!with.l1(0).holds(4) && with.caches.level(0, 1).holds(4));
    assert_eq!(*with.caches.level(1, 1).peek(8).unwrap() & DIRTY, 0);
    assert_eq!(restored(false).directory.get(4), Entry::EMPTY);
}
