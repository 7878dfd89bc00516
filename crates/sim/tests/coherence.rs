//! What serves a miss, in every case that the protocols distinguish.

mod common;

use common::{configuration, recorded};
use pinfold_sim::model::{Latency, Model, Sourced, builtin};
use pinfold_sim::window::synthetic::counter;
use pinfold_sim::window::{
    Counters, Event, EventKind, Options, PageMapping, Prefetchers, Served, WindowResult, simulate,
};

/// Runs steps strictly in sequence: (PU, whether it stores, line).
fn run(model: &Model, steps: &[(u32, bool, u64)]) -> (WindowResult, Vec<u32>) {
    let mut pus: Vec<u32> = steps.iter().map(|&(pu, ..)| pu).collect();
    pus.sort_unstable();
    pus.dedup();
    let mut events = vec![vec![]; pus.len()];
    for (index, &(pu, store, line)) in steps.iter().enumerate() {
        let mine = &mut events[pus.binary_search(&pu).unwrap()];
        if index > 0 {
            mine.push(Event::mark(EventKind::Wait, index as u64 - 1));
        }
        mine.push(if store {
            Event::write(line * 64, 8, 1)
        } else {
            Event::read(line * 64, 8, 1)
        });
        mine.push(Event::mark(EventKind::Signal, index as u64));
    }
    let streams = events.into_iter().map(|events| recorded(events)).collect();
    let configuration = configuration(&pus, PageMapping::FirstTouch, Prefetchers::NONE);
    let result = common::run(model, &configuration, streams);
    (result, pus)
}

/// What served the last step, whose PU is in no other step.
fn server(model: &Model, steps: &[(u32, bool, u64)]) -> Option<Served> {
    let (result, pus) = run(model, steps);
    let last = pus.binary_search(&steps[steps.len() - 1].0).unwrap();
    let counters: &Counters = &result.threads[last];
    assert!(counters.served.sum() <= 1);
    Served::ALL.into_iter().find(|&served| counters.served[served] == 1)
}

fn opteron() -> Model {
    builtin("opteron-6164x4").unwrap()
}

/// The Opteron whose caches forward clean lines.
fn forwarding_opteron() -> Model {
    let text = include_str!("../../../machines/opteron-6164x4.toml").replace("\"moesi\"", "\"moesif\"");
    Model::parse("moesif", &text).unwrap()
}

const LOAD: bool = false;
const STORE: bool = true;

#[test]
fn a_modified_line_comes_from_the_core_that_modified_it() {
    let model = opteron();
    for (pu, expected) in [
        (1, Served::SameDomainModified),
        (6, Served::SamePackageModified),
        (12, Served::OtherPackageModified),
    ] {
        for second in [LOAD, STORE] {
            assert_eq!(
                server(&model, &[(0, STORE, 5), (pu, second, 5)]),
                Some(expected),
                "{pu}"
            );
        }
    }
}

#[test]
fn a_clean_line_comes_from_a_cache_that_may_forward_it() {
    let model = forwarding_opteron();
    for (pu, expected) in [
        (1, Served::SameDomainClean),
        (6, Served::SamePackageClean),
        (12, Served::OtherPackageClean),
    ] {
        assert_eq!(server(&model, &[(0, LOAD, 5), (pu, LOAD, 5)]), Some(expected), "{pu}");
        assert_eq!(
            server(&model, &[(0, LOAD, 5), (3, LOAD, 5), (pu, LOAD, 5)]),
            Some(expected),
            "{pu}"
        );
    }
}

#[test]
fn memory_serves_a_clean_line_that_no_cache_may_forward() {
    let model = opteron();
    assert_eq!(server(&model, &[(0, LOAD, 5), (1, LOAD, 5)]), Some(Served::LocalMemory));
    assert_eq!(
        server(&model, &[(0, LOAD, 5), (6, LOAD, 5)]),
        Some(Served::RemoteMemory)
    );
    assert_eq!(
        server(&model, &[(0, LOAD, 5), (12, LOAD, 5)]),
        Some(Served::RemoteMemory)
    );
}

#[test]
fn the_last_level_cache_serves_a_line_that_two_cores_have_read() {
    let model = builtin("e5-2660v2x2").unwrap();
    // The second reader finds it exclusive with the first; the third finds it shared.
    assert_eq!(
        server(&model, &[(0, LOAD, 5), (1, LOAD, 5)]),
        Some(Served::SameDomainClean)
    );
    let (result, _) = run(&model, &[(0, LOAD, 5), (1, LOAD, 5), (2, LOAD, 5)]);
    assert_eq!(
        (result.threads[2].served.sum(), result.threads[2].levels[2].hits),
        (0, 1)
    );
}

#[test]
fn without_an_owned_state_a_modified_line_that_another_package_reads_goes_to_memory() {
    let model = builtin("e5-2660v2x2").unwrap();
    let steps = [(0, STORE, 5), (10, LOAD, 5)];
    assert_eq!(server(&model, &steps), Some(Served::OtherPackageModified));
    assert_eq!(run(&model, &steps).0.total().memory_writes, 1);
    assert_eq!(
        run(&opteron(), &[(0, STORE, 5), (12, LOAD, 5)]).0.total().memory_writes,
        0
    );
}

#[test]
fn with_an_owned_state_the_owner_serves_every_reader() {
    let model = opteron();
    let steps = [(0, STORE, 5), (12, LOAD, 5), (24, LOAD, 5)];
    assert_eq!(server(&model, &steps), Some(Served::OtherPackageModified));
}

#[test]
fn a_store_to_a_shared_line_invalidates_all_other_copies() {
    let model = opteron();
    let (result, _) = run(&model, &[(0, LOAD, 5), (1, LOAD, 5), (12, LOAD, 5), (0, STORE, 5)]);
    let [writer, reader, far_reader] = &result.threads[..] else {
        panic!("three threads");
    };
    assert_eq!((writer.upgrades, writer.invalidations_sent), (1, 2));
    assert_eq!(
        (reader.invalidations_received, far_reader.invalidations_received),
        (1, 1)
    );
    // And the next reader gets the new data.
    let again = [(0, LOAD, 5), (1, LOAD, 5), (0, STORE, 5), (2, LOAD, 5)];
    assert_eq!(server(&model, &again), Some(Served::SameDomainModified));
}

#[test]
fn a_store_to_an_exclusive_line_needs_no_request() {
    let (result, _) = run(&opteron(), &[(0, LOAD, 5), (0, STORE, 5), (0, STORE, 5)]);
    assert_eq!((result.threads[0].upgrades, result.threads[0].levels[0].hits), (0, 2));
}

#[test]
fn a_contended_line_is_in_transfer_most_of_the_time_at_any_distance() {
    let model = builtin("e5-2660v2x2").unwrap();
    let under_way = |pus: [u32; 2], transfer: &Option<Sourced<Latency>>| {
        let configuration = configuration(&pus, PageMapping::FirstTouch, Prefetchers::NONE);
        let streams = (0..2).map(|thread| counter(64 * 100 + 8 * thread, 20_000, 4)).collect();
        let result = common::run(&model, &configuration, streams);
        let transfer = transfer.as_ref().unwrap().value().cycles(model.frequency());
        result.total().served.sum() as f64 * transfer / result.cycles
    };
    // Cores of a package transfer a line in less time than the quantum by which threads may run ahead of each other.
    let coherence = &model.coherence;
    let (together, apart) = (
        under_way([0, 1], &coherence.same_domain_modified),
        under_way([0, 10], &coherence.other_package_modified),
    );
    for share in [together, apart] {
        assert!((0.5..=1.1).contains(&share), "{together} and {apart} of the time");
    }
}

#[test]
fn a_core_uses_a_lost_line_until_the_request_arrives() {
    // Two cores add to counters in one line by atomic instructions. Overtaking by others does not help in this case.
    let add = |thread: u64| vec![Event::locked(64 * 100 + 8 * thread, 8, 4); 2000];
    for at_once in [1, 8] {
        let result = locked(at_once, &[0, 10], &add);
        let transfers = result.total().served.sum();
        assert!(
            (400..2000).contains(&transfers),
            "{transfers} transfers for 4000 additions, {at_once} at the same time"
        );
    }
}

#[test]
fn atomic_instructions_on_different_lines_overlap_only_where_the_model_says_so() {
    let add = |_| (0..500).map(|line| Event::locked(64 * 7 * line, 8, 20)).collect();
    let (one, four) = (locked(1, &[0], &add).cycles, locked(4, &[0], &add).cycles);
    assert!(
        one > 3.0 * four,
        "{one} cycles in sequence, {four} cycles with four at the same time"
    );
}

/// Runs the events of `events` for each thread, on a model whose atomic instructions wait for up to `at_once` lines at
/// the same time.
fn locked(at_once: u32, pus: &[u32], events: &dyn Fn(u64) -> Vec<Event>) -> WindowResult {
    let key = format!("[core]\nlocked_misses = {{ count = {at_once}, source = \"assumed\" }}");
    let text = include_str!("../../../machines/e5-2660v2x2.toml").replacen("[core]", &key, 1);
    let model = Model::parse("e5-2660v2x2", &text).unwrap();
    let configuration = configuration(pus, PageMapping::FirstTouch, Prefetchers::NONE);
    let streams = (0..pus.len() as u64).map(|thread| recorded(events(thread))).collect();
    common::run(&model, &configuration, streams)
}

#[test]
fn threads_that_compute_for_long_before_they_share_a_line_compute_at_the_same_time() {
    let model = builtin("e5-2660v2x2").unwrap();
    let configuration = configuration(&[0, 1], PageMapping::FirstTouch, Prefetchers::NONE);
    // Both touch the line when they begin and when they end.
    let streams = (0..2)
        .map(|_| {
            let events = vec![
                Event::write(64 * 100, 8, 1),
                Event::write(64 * 100, 8, 1),
                Event::write(64 * 100, 8, 1_000_000),
            ];
            recorded(events)
        })
        .collect();
    let result = common::run(&model, &configuration, streams);
    let alone = 1e6 * model.core.base_cpi.value().0;
    assert!(
        result.cycles < 1.01 * alone,
        "{} cycles instead of {alone}",
        result.cycles
    );
}

/// Two threads, each of which adds to a counter at its own address, with this seed.
fn counting(addresses: [u64; 2], seed: u64) -> WindowResult {
    let configuration = configuration(&[0, 12], PageMapping::FirstTouch, Prefetchers::NONE);
    let options = Options {
        seed,
        ..Options::default()
    };
    let streams = addresses.map(|address| counter(address, 500, 6)).into();
    simulate(&opteron(), &configuration, None, streams, &options).unwrap()
}

#[test]
fn the_latency_of_transfers_depends_on_the_seed() {
    let same_line = [1 << 20, 1 << 20];
    assert_eq!(counting(same_line, 1), counting(same_line, 1));
    assert_ne!(counting(same_line, 1), counting(same_line, 2));
}

#[test]
fn without_transfers_a_seed_changes_nothing() {
    let own_lines = [1 << 20, 2 << 20];
    assert_eq!(counting(own_lines, 1), counting(own_lines, 2));
}
