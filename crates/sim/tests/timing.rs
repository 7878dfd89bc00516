//! Simulated microbenchmarks: times, bandwidths and traffic as the model determines them.

mod common;

use common::{configuration, recorded, run};
use pinfold_core::NodeId;
use pinfold_sim::model::{Model, Prefetcher, builtin, builtin_names};
use pinfold_sim::window::{
    Event, EventKind, Options, PageMapping, PageProfile, Prefetchers, Recorded, Served, Stream, WindowError, simulate,
    synthetic,
};
use std::time::Duration;

const MIB: u64 = 1 << 20;

fn opteron() -> Model {
    builtin("opteron-6164x4").unwrap()
}

fn sandy_bridge() -> Model {
    builtin("e5-4650x4").unwrap()
}

fn within(value: f64, expected: f64, share: f64) -> bool {
    (value / expected - 1.0).abs() <= share
}

/// One load for each line of `bytes`, without any overlap.
fn lines(base: u64, bytes: u64) -> Box<dyn Stream> {
    let events = (0..bytes / 64)
        .map(|line| Event::read(base + line * 64, 8, 4))
        .collect();
    recorded(events)
}

#[test]
fn a_pointer_chase_takes_the_stated_idle_latency_of_every_node() {
    for name in builtin_names() {
        let model = builtin(name).unwrap();
        // Each line once, so every load comes from memory.
        let bytes = 4 * MIB;
        let chase = bytes / 64;
        for node in 0..model.nodes() {
            let pages = PageMapping::Single(NodeId(u32::try_from(node).unwrap()));
            let configuration = configuration(&[0], pages, Prefetchers::NONE);
            let result = run(
                &model,
                &configuration,
                vec![synthetic::pointer_chase(1 << 30, bytes, chase, 7)],
            );
            let expected = model.memory.latency.value().cycles(model.frequency()) + model.routes().latency(0, node);
            let measured = result.cycles / chase as f64;
            assert!(
                within(measured, expected, 0.1),
                "{name} node {node}: {measured} of {expected}"
            );
        }
    }
}

#[test]
fn a_pointer_chase_within_a_cache_takes_its_latency() {
    for name in builtin_names() {
        let model = builtin(name).unwrap();
        for (level, cache) in model.caches.iter().enumerate() {
            // Well inside the level. Beyond the first level, far larger than the one before.
            let bytes = cache.size.value().0 / 2;
            let loads = (bytes / 64 * 8).max(100_000);
            let configuration = configuration(&[0], PageMapping::FirstTouch, Prefetchers::NONE);
            let stream = synthetic::pointer_chase(1 << 30, bytes, loads, 7);
            let result = run(&model, &configuration, vec![stream]);
            let first_pass = bytes as f64 / 64.0 * model.memory.latency.value().cycles(model.frequency());
            let measured = (result.cycles - first_pass) / loads as f64;
            // A private cache runs at the core's clock, and the time is in cycles of the base clock.
            let private = level + 1 < model.caches.len();
            let clock = if private { model.clock(1) } else { model.frequency() };
            let expected = cache.latency.value().cycles(clock) * model.frequency().0 / clock.0;
            assert!(
                within(measured, expected, 0.25),
                "{name} level {level}: {measured} of {expected}"
            );
        }
    }
}

#[test]
fn the_threads_of_a_node_get_exactly_its_bandwidth() {
    for name in builtin_names() {
        let model = builtin(name).unwrap();
        // One PU of each core of the node. Behind front-side buses these are all cores.
        let pus: Vec<u32> = (0..u32::try_from(model.pus()).unwrap())
            .filter(|&pu| {
                let (core, sibling) = model.core_of_pu(pu).unwrap();
                sibling == 0 && model.node_of_core(core) == 0
            })
            .collect();
        let bytes = 64 * MIB / pus.len() as u64;
        let streams = pus.iter().map(|&pu| lines(u64::from(pu + 1) << 32, bytes)).collect();
        // At the latency that was measured under load, the line-fill buffers alone do not keep the memory busy.
        let prefetchers = match model.memory.queueing {
            Some(_) => Prefetchers::ALL,
            None => Prefetchers::NONE,
        };
        let result = run(
            &model,
            &configuration(&pus, PageMapping::FirstTouch, prefetchers),
            streams,
        );
        let bandwidth = result.memory_bytes[0] as f64 / result.seconds;
        let stated = model.memory.bandwidth.value().0;
        assert!(within(bandwidth, stated, 0.03), "{name}: {bandwidth:e} of {stated:e}");
    }
}

#[test]
fn remote_memory_gives_no_more_than_the_link_carries() {
    let model = opteron();
    let pus: Vec<u32> = (0..6).collect();
    let streams = pus.iter().map(|&pu| lines(u64::from(pu + 1) << 32, 4 * MIB)).collect();
    let pages = PageMapping::Single(NodeId(2));
    let result = run(&model, &configuration(&pus, pages, Prefetchers::NONE), streams);
    let link = result.links.iter().find(|link| (link.from, link.to) == (2, 0)).unwrap();
    let bandwidth = link.bytes as f64 / result.seconds;
    assert!(within(bandwidth, 4.0e9, 0.03), "{bandwidth:e}");
    assert_eq!(result.memory_bytes[2], link.bytes);
}

#[test]
fn more_threads_never_reduce_the_time_of_a_line() {
    let model = sandy_bridge();
    let times: Vec<f64> = [1, 2, 4, 6, 8]
        .into_iter()
        .map(|threads: u32| {
            let pus: Vec<u32> = (0..threads).collect();
            let streams = pus.iter().map(|&pu| lines(u64::from(pu + 1) << 32, 4 * MIB)).collect();
            run(
                &model,
                &configuration(&pus, PageMapping::FirstTouch, Prefetchers::NONE),
                streams,
            )
            .seconds
        })
        .collect();
    assert!(times.is_sorted(), "{times:?}");
    assert!(times[4] > 1.5 * times[0], "{times:?}");
}

#[test]
fn pages_are_on_the_nodes_of_the_mapping() {
    let model = sandy_bridge();
    let bytes = 4 * MIB;
    let run = |pages, profile: Option<&PageProfile>| {
        // Thread 0 touches all of it first; thread 1 on node 2 reads it three times as often.
        let streams = vec![recorded(vec![]), synthetic::streaming(1 << 30, bytes, 1, 0)];
        let configuration = configuration(&[0, 16], pages, Prefetchers::NONE);
        let result = simulate(&model, &configuration, profile, streams, &Options::default()).unwrap();
        result.memory_bytes
    };
    assert_eq!(run(PageMapping::FirstTouch, None), [0, 0, bytes, 0]);
    assert_eq!(run(PageMapping::Local, None), [0, 0, bytes, 0]);
    assert_eq!(run(PageMapping::Single(NodeId(3)), None), [0, 0, 0, bytes]);
    assert_eq!(run(PageMapping::Remote, None), [0, bytes, 0, 0]);
    assert_eq!(run(PageMapping::Interleave, None), [bytes / 4; 4]);
    let mut streams = vec![
        synthetic::streaming(1 << 30, bytes, 3, 0),
        synthetic::streaming(1 << 30, bytes, 1, 0),
    ];
    let profile = PageProfile::of(&mut streams);
    assert_eq!(run(PageMapping::Locality, Some(&profile)), [bytes, 0, 0, 0]);
    assert_eq!(run(PageMapping::Balance, Some(&profile)), [bytes / 4; 4]);
}

#[test]
fn a_mapping_that_needs_a_profile_says_so() {
    let configuration = configuration(&[0], PageMapping::Balance, Prefetchers::NONE);
    let streams = vec![synthetic::streaming(0, 4096, 1, 0)];
    let error = simulate(&opteron(), &configuration, None, streams, &Options::default()).unwrap_err();
    assert_eq!(error, WindowError::NoProfile(PageMapping::Balance));
}

#[test]
fn a_pu_that_the_machine_does_not_have_is_refused() {
    let configuration = configuration(&[48], PageMapping::FirstTouch, Prefetchers::NONE);
    let streams = vec![synthetic::streaming(0, 4096, 1, 0)];
    let error = simulate(&opteron(), &configuration, None, streams, &Options::default()).unwrap_err();
    assert!(
        error.to_string().contains("PU 48") && error.to_string().contains("0 to 47"),
        "{error}"
    );
}

#[test]
fn every_prefetcher_makes_a_stream_faster_and_is_used() {
    let model = sandy_bridge();
    // The steps between lines are short, so that a stream waits for latency and not for bandwidth.
    let run = |prefetchers| {
        let configuration = configuration(&[0], PageMapping::FirstTouch, prefetchers);
        run(
            &model,
            &configuration,
            vec![synthetic::streaming(1 << 30, 4 * MIB, 1, 0)],
        )
    };
    let without = run(Prefetchers::NONE);
    assert_eq!(without.total().prefetches.sum(), 0);
    for prefetcher in Prefetcher::ALL {
        let with = run(Prefetchers::only(prefetcher));
        let total = with.total();
        assert!(with.seconds < without.seconds, "{prefetcher:?}");
        let useful = total.useful_prefetches[prefetcher] as f64 / total.prefetches[prefetcher] as f64;
        assert!(useful > 0.9, "{prefetcher:?}: {useful}");
        assert_eq!(total.prefetches[prefetcher], total.prefetches.sum());
    }
}

#[test]
fn prefetchers_do_not_make_random_accesses_faster() {
    let mut model = sandy_bridge();
    // The prefetcher of adjacent lines does not hold back.
    model.prefetch.adjacent_below = None;
    let run = |prefetchers| {
        let configuration = configuration(&[0], PageMapping::FirstTouch, prefetchers);
        run(
            &model,
            &configuration,
            vec![synthetic::random(1 << 30, 256 * MIB, 100_000, 3)],
        )
    };
    let (with, without) = (run(Prefetchers::ALL), run(Prefetchers::NONE));
    // One in forty lines was fetched as a neighbour of another.
    assert!(
        with.seconds >= without.seconds * 0.97,
        "{} {}",
        with.seconds,
        without.seconds
    );
    assert!(
        with.memory_bytes[0] > without.memory_bytes[0] * 3 / 2,
        "the adjacent line costs bandwidth"
    );
}

#[test]
fn threads_on_one_pu_take_turns_and_as_long_as_in_sequence() {
    let model = opteron();
    let work = || recorded(vec![Event::instructions(1_000_000); 40]);
    let alone = run(
        &model,
        &configuration(&[0], PageMapping::FirstTouch, Prefetchers::ALL),
        vec![work()],
    );
    let shared = configuration(&[0, 0], PageMapping::FirstTouch, Prefetchers::ALL);
    let shared = run(&model, &shared, vec![work(), work()]);
    assert!(within(shared.seconds, 2.0 * alone.seconds, 0.01));
    // 23.5 ms of work in slices of 3 ms: both end within a slice of each other, and have switched several times.
    let apart = (shared.ends[0] - shared.ends[1]).abs() / model.frequency().0;
    assert!(apart <= Duration::from_millis(4).as_secs_f64(), "{apart}");
    assert!(shared.threads.iter().all(|thread| thread.switches >= 2));
}

#[test]
fn all_wait_at_a_barrier_for_the_last() {
    let model = opteron();
    let thread = |instructions| {
        let events = vec![
            Event::mark(EventKind::RegionBegin, 9),
            Event::instructions(instructions),
            Event::barrier(1, 3),
            Event::mark(EventKind::RegionEnd, 9),
        ];
        recorded(events)
    };
    let configuration = configuration(&[0, 1, 12], PageMapping::FirstTouch, Prefetchers::ALL);
    let result = run(&model, &configuration, vec![thread(1000), thread(90_000), thread(20)]);
    assert!(
        result.ends.iter().all(|&end| within(end, 45_000.0, 1e-6)),
        "{:?}",
        result.ends
    );
    assert!(within(result.threads[2].wait_cycles, 44_990.0, 1e-6));
    assert_eq!(result.regions.len(), 3);
    assert!(
        result
            .regions
            .iter()
            .all(|span| span.region == 9 && within(span.end, 45_000.0, 1e-6))
    );
}

#[test]
fn a_thread_that_waits_for_a_missing_event_is_released_and_counted() {
    let events = vec![Event::mark(EventKind::Wait, 1), Event::read(0, 8, 1)];
    let configuration = configuration(&[0], PageMapping::FirstTouch, Prefetchers::ALL);
    let result = run(&opteron(), &configuration, vec![recorded(events)]);
    assert_eq!((result.released, result.threads[0].reads), (1, 1));
}

#[test]
fn waits_for_what_is_not_recorded_are_a_share_of_the_time_of_all_threads() {
    let threads = |cut: bool| {
        let mut first = vec![Event::instructions(9000), Event::barrier(1, 2)];
        if cut {
            first.insert(1, Event::mark(EventKind::RecordedEnd, 0));
        }
        let waits = [
            Event::instructions(18_000),
            Event::mark(EventKind::Wait, 7),
            Event::instructions(18_000),
        ];
        vec![
            recorded(first),
            recorded(vec![Event::instructions(90_000), Event::barrier(1, 2)]),
            recorded(waits.to_vec()),
        ]
    };
    let configuration = configuration(&[0, 1, 12], PageMapping::FirstTouch, Prefetchers::ALL);
    let simulated = |cut| run(&opteron(), &configuration, threads(cut));
    let (cut, whole) = (simulated(true), simulated(false));
    // Two instructions take a cycle. Thread 1 works for 45,000 cycles; thread 0 is cut after 4500, and the others have
    // gone on for 36,000 when thread 2 is released.
    let unrecorded: Vec<f64> = cut.threads.iter().map(|thread| thread.unrecorded_cycles).collect();
    assert!(within(unrecorded[0], 40_500.0, 1e-6), "{unrecorded:?}");
    assert!(
        unrecorded[1] == 0.0 && within(unrecorded[2], 36_000.0, 1e-6),
        "{unrecorded:?}"
    );
    assert!(within(cut.unrecorded_wait_share().unwrap(), 76_500.0 / 135_000.0, 1e-6));
    // A thread that is not cut waits for its partner, as the program does.
    assert!(within(
        whole.unrecorded_wait_share().unwrap(),
        36_000.0 / 135_000.0,
        1e-6
    ));
    assert_eq!(cut.ends, whole.ends);
}

#[test]
fn a_ping_pong_costs_more_with_the_distance_of_the_partners() {
    let model = opteron();
    let time = |other: u32| {
        let configuration = configuration(&[0, other], PageMapping::FirstTouch, Prefetchers::NONE);
        let streams = (0..2)
            .map(|thread| synthetic::ping_pong(4096, 1000, thread, 0))
            .collect();
        let result = run(&model, &configuration, streams);
        (result.seconds, result.total())
    };
    let (near, middle, far) = (time(1), time(6), time(12));
    assert!(near.0 < middle.0 && middle.0 < far.0);
    assert!(near.1.served[Served::SameDomainModified] > 1900);
    assert!(middle.1.served[Served::SamePackageModified] > 1900);
    assert!(far.1.served[Served::OtherPackageModified] > 1900);
}

#[test]
fn padding_avoids_the_cost_of_false_sharing() {
    let model = sandy_bridge();
    let time = |apart: u64| {
        let configuration = configuration(&[0, 8], PageMapping::FirstTouch, Prefetchers::NONE);
        let streams = (0..2)
            .map(|thread| synthetic::counter(4096 + thread * apart, 20_000, 10))
            .collect();
        run(&model, &configuration, streams).seconds
    };
    let (shared, padded) = (time(8), time(64));
    assert!(shared > 3.0 * padded, "{shared} {padded}");
}

#[test]
fn the_same_window_gives_the_same_result() {
    let model = opteron();
    let once = || {
        let pus = [0, 5, 12, 13, 13, 30];
        let streams = (0..6)
            .map(|thread| match thread % 3 {
                0 => synthetic::random(1 << 30, 4 * MIB, 20_000, thread),
                1 => synthetic::shared_updates(1 << 30, MIB, (thread + 4) << 30, 20_000, thread),
                _ => synthetic::stencil(8 << 30, 128, 64, thread * 10, thread * 10 + 10, 3, 2),
            })
            .collect();
        run(
            &model,
            &configuration(&pus, PageMapping::Interleave, Prefetchers::ALL),
            streams,
        )
    };
    assert_eq!(once(), once());
}

#[test]
fn every_access_hits_or_misses_once_and_every_miss_is_served_once() {
    let model = opteron();
    let pus: Vec<u32> = (0..48).step_by(4).collect();
    let streams = (0..pus.len() as u64)
        .map(|thread| synthetic::shared_updates(1 << 30, 8 * MIB, (thread + 4) << 30, 20_000, thread))
        .collect();
    let result = run(
        &model,
        &configuration(&pus, PageMapping::FirstTouch, Prefetchers::ALL),
        streams,
    );
    for counters in &result.threads {
        let [first, second, third, _] = counters.levels;
        assert_eq!(first.hits + first.misses, counters.reads + counters.writes);
        assert_eq!(second.hits + second.misses, first.misses);
        assert_eq!(third.hits + third.misses, second.misses);
        assert!(counters.served.sum() >= third.misses);
    }
}

#[test]
fn energy_grows_with_time_and_with_traffic() {
    let model = opteron();
    let configuration = configuration(&[0], PageMapping::FirstTouch, Prefetchers::ALL);
    let idle = run(
        &model,
        &configuration,
        vec![recorded(vec![Event::instructions(3_000_000)])],
    );
    let busy = run(
        &model,
        &configuration,
        vec![synthetic::streaming(1 << 30, 8 * MIB, 1, 0)],
    );
    let idle_memory = 8.0 * model.energy.memory_idle.value().0;
    assert!(within(idle.memory_watts(), idle_memory, 0.001));
    assert!(busy.memory_watts() > idle.memory_watts());
    assert!(idle.package_watts() > 4.0 * model.energy.package_idle.value().0);
}

#[test]
fn atomic_instructions_run_in_sequence_and_add_their_own_cost() {
    let mut model = sandy_bridge();
    // The window's cycles are then the core's.
    model.core.turbo = None;
    let chain = |make: fn(u64, u8, u32) -> Event| -> f64 {
        let events = (0..1000).map(|line| make(line % 4 * 64, 8, 1)).collect();
        let stream: Box<dyn Stream> = recorded(events);
        let configuration = configuration(&[0], PageMapping::FirstTouch, Prefetchers::NONE);
        run(&model, &configuration, vec![stream]).cycles
    };
    let atomic = chain(Event::locked);
    assert!(atomic > chain(Event::write) + 1000.0 * 19.0, "{atomic}");
}

#[test]
fn an_access_after_a_long_computation_comes_after_earlier_accesses_of_others() {
    let model = sandy_bridge();
    // Both write the same line: one at once and repeatedly, the other after a long time.
    let busy: Box<dyn Stream> = recorded(vec![Event::write(0, 8, 100); 100]);
    let late: Box<dyn Stream> = recorded(vec![Event::write(0, 8, 10_000_000)]);
    let configuration = configuration(&[0, 1], PageMapping::FirstTouch, Prefetchers::NONE);
    let result = run(&model, &configuration, vec![busy, late]);
    let expected = 100.0 * 100.0 * model.core.base_cpi.value().0;
    assert!(result.ends[0] < 2.0 * expected, "{:?}", result.ends);
}

#[test]
fn a_system_call_and_polling_keep_a_pu_busy() {
    let model = sandy_bridge();
    let alone = |event: Event| {
        let stream: Box<dyn Stream> = recorded(vec![Event::instructions(1), event]);
        let configuration = configuration(&[0], PageMapping::FirstTouch, Prefetchers::NONE);
        run(&model, &configuration, vec![stream]).seconds
    };
    let options = Options::default();
    let call = alone(Event::mark(EventKind::SystemCall, 0)) - alone(Event::instructions(0));
    assert!(within(call, options.call.as_secs_f64(), 0.01), "{call}");

    // Two threads on one PU pass ten barriers: each thread but the last to arrive polls, and the PU switches threads.
    let barriers = |pus: &[u32]| {
        let streams = (0..2)
            .map(|_| Box::new(Recorded::new((0..10).map(|pass| Event::barrier(pass, 2)).collect())) as Box<dyn Stream>)
            .collect();
        run(
            &model,
            &configuration(pus, PageMapping::FirstTouch, Prefetchers::NONE),
            streams,
        )
        .seconds
    };
    let expected = 10.0 * (options.poll + options.call + options.switch).as_secs_f64();
    assert!(within(barriers(&[0, 0]), expected, 0.1), "{}", barriers(&[0, 0]));
    assert!(barriers(&[0, 1]) < expected / 100.0);
}
