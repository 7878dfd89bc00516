//! Sampled simulation of small generated programs, compared with the whole simulation.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of threads and accesses are small"
)]

use super::*;
use crate::model::builtin;
use crate::sweep::evaluate;
use crate::window::{Blocks, EventKind, Recorded};
use crate::window::{PageMapping, Prefetchers, WindowConfiguration};
use pinfold_core::random::Random;
use pinfold_core::{NodeId, ThreadMap, map_threads};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// The threads on one node with local and remote pages, and on more with the other page mappings.
fn configurations(model: &Model, threads: usize) -> Vec<WindowConfiguration> {
    let topology = model.topology();
    let mut found: Vec<WindowConfiguration> = vec![];
    for nodes in [1, 2, 4].into_iter().filter(|&nodes| nodes <= threads) {
        let mappings = match nodes {
            1 => vec![PageMapping::Local, PageMapping::Remote],
            _ => vec![
                PageMapping::Locality,
                PageMapping::Balance,
                PageMapping::Interleave,
                PageMapping::Single(NodeId(0)),
            ],
        };
        for map in ThreadMap::ALL {
            let pinning = map_threads(&topology, threads, nodes, map).unwrap();
            let of_mapping = mappings.iter().map(|&pages| WindowConfiguration {
                pinning: pinning.clone(),
                pages,
                prefetchers: Prefetchers::ALL,
            });
            for configuration in of_mapping {
                if !found.contains(&configuration) {
                    found.push(configuration);
                }
            }
        }
    }
    found
}

/// Threads that repeat an access pattern, and meet, each in its own way.
#[derive(Debug)]
struct Generated {
    threads: Vec<Vec<Event>>,
    owners: Vec<(u64, u32)>,
    regions: u64,
}

impl SimulatedProgram for Generated {
    fn threads(&self) -> usize {
        self.threads.len()
    }

    fn stream(&self, thread: usize) -> Box<dyn Stream + '_> {
        Box::new(Recorded::new(self.threads[thread].clone()))
    }

    fn regions(&self) -> Option<u64> {
        Some(self.regions)
    }

    fn page_owners(&self) -> &[(u64, u32)] {
        &self.owners
    }

    fn error(&self) -> Option<String> {
        None
    }
}

const PAGE: u64 = 4096;
const REGION: u64 = 0x40_1000;

/// What a thread does in a phase.
#[derive(Clone, Copy)]
enum Work {
    Stream,
    Random,
    Share,
}

/// Phases of `work` for `threads` threads, with about `accesses` accesses of a thread in all. Thread `t` does `1 + t x
/// uneven` times as much as the first one. A phase is a region, which the first thread begins and ends.
fn program(seed: u64, threads: u64, works: &[Work], accesses: u64, uneven: f64) -> Generated {
    let mut events: Vec<Vec<Event>> = vec![vec![]; threads as usize];
    let mut barrier = 0;
    let mut meet = |events: &mut [Vec<Event>], marks: &[EventKind]| {
        barrier += 1;
        for (thread, events) in events.iter_mut().enumerate() {
            events.push(Event::barrier(barrier, threads as u16));
            if thread == 0 {
                events.extend(marks.iter().map(|&kind| Event::mark(kind, REGION)));
            }
        }
    };
    let own = |thread: u64| (thread + 1) << 24;
    for (number, &work) in works.iter().enumerate() {
        meet(&mut events, &[EventKind::RegionBegin]);
        for thread in 0..threads {
            let mut random = Random::new(seed + 100 * thread + number as u64);
            let times = 1.0 + thread as f64 * uneven;
            let mine = (accesses as f64 * times / works.len() as f64) as u64;
            let into = &mut events[thread as usize];
            for step in 0..mine {
                let within = random.next_bits() % (1 << 17) * 8;
                into.push(match work {
                    Work::Stream if step % 3 == 2 => Event::write(own(thread) + step * 8 % (1 << 20), 8, 3),
                    Work::Stream => Event::read(own(thread) + step * 8 % (1 << 20), 8, 3),
                    Work::Random => Event::read(own(thread) + within, 8, 12),
                    Work::Share if step % 16 == 0 => Event::write((1 << 22) + within % (1 << 16), 8, 2),
                    Work::Share => Event::read(own(thread) + within % (1 << 14), 8, 4),
                });
            }
        }
        meet(&mut events, &[EventKind::RegionEnd]);
    }
    let owners =
        (0..threads).flat_map(|thread| (0..1 << 8).map(move |page| (own(thread) / PAGE + page, thread as u32)));
    Generated {
        threads: events,
        owners: owners.collect(),
        regions: works.len() as u64,
    }
}

const SIZE: u64 = 4000;

fn windows() -> Vec<Generated> {
    use Work::{Random, Share, Stream};
    let mixes: [&[Work]; 5] = [
        &[Stream],
        &[Random],
        &[Stream, Random, Stream, Random],
        &[Share],
        &[Random, Share, Stream],
    ];
    (0..20)
        .map(|seed: u64| {
            let uneven = if seed % 3 == 2 { 0.5 } else { 0.0 };
            program(seed, 2 + 2 * (seed / 10), mixes[seed as usize % 5], 150_000, uneven)
        })
        .collect()
}

fn sampled(
    samples: &Samples,
    model: &Model,
    program: &Generated,
    configuration: &WindowConfiguration,
    profile: Option<&PageProfile>,
    states: &PieceStates,
) -> Sampled {
    let sampling = Sampling {
        samples,
        precision: 0.02,
        states,
    };
    sampling.evaluate(model, program, configuration, profile).unwrap()
}

#[test]
fn nineteen_of_twenty_intervals_have_the_time_of_the_whole_simulation() {
    let model = builtin("e5-4650x4").unwrap();
    let mut outside = vec![];
    for (number, program) in windows().iter().enumerate() {
        let samples = Samples::with_size(program, SIZE).unwrap();
        let configurations = configurations(&model, program.threads());
        let configuration = &configurations[number * 7 % configurations.len()];
        let profile = program.page_profile();
        let whole = evaluate(&model, program, configuration, Some(&profile)).unwrap().parts[0]
            .totals
            .seconds;
        let sampled = sampled(
            &samples,
            &model,
            program,
            configuration,
            Some(&profile),
            &PieceStates::default(),
        );
        let error = sampled.whole.totals.seconds / whole - 1.0;
        let interval = sampled.whole.time_error.unwrap();
        assert_eq!(sampled.released, 0);
        if error.abs() > interval {
            outside.push((number, error, interval));
        }
    }
    assert!(outside.len() <= 1, "{outside:?}");
}

/// Threads that read their own arrays in step, one line after the other. The arrays are powers of two apart, so their
/// pages of the same number are on the same node where pages are interleaved.
fn walk(threads: u64, lines: u64) -> Generated {
    let mut program = program(0, threads, &[], 0, 0.0);
    for (thread, events) in program.threads.iter_mut().enumerate() {
        let begin = (thread as u64 + 1) << 24;
        events.push(Event::barrier(1, threads as u16));
        events.extend((0..lines).map(|line| Event::read(begin + line * 64, 8, 12)));
        events.push(Event::barrier(2, threads as u16));
    }
    let pages = lines * 64 / PAGE;
    program.owners = (0..threads)
        .flat_map(|thread| (0..=pages).map(move |page| (((thread + 1) << 24) / PAGE + page, thread as u32)))
        .collect();
    program
}

#[test]
fn threads_of_a_piece_do_not_use_the_memory_of_the_same_node_in_step() {
    let model = builtin("opteron-6164x4").unwrap();
    let program = walk(8, 60_000);
    let samples = Samples::with_size(&program, SIZE).unwrap();
    let configuration = WindowConfiguration {
        pinning: map_threads(&model.topology(), 8, 4, ThreadMap::Scatter).unwrap(),
        pages: PageMapping::Interleave,
        prefetchers: Prefetchers::ALL,
    };
    let whole = evaluate(&model, &program, &configuration, None).unwrap().parts[0]
        .totals
        .seconds;
    let states = PieceStates::default();
    let sampled = sampled(&samples, &model, &program, &configuration, None, &states);
    assert_eq!(sampled.released, 0);
    let error = sampled.whole.totals.seconds / whole - 1.0;
    assert!(error.abs() < 0.1, "{error}");
}

#[test]
fn regions_have_their_share_and_their_executions() {
    let model = builtin("e5-4650x4").unwrap();
    let program = program(3, 2, &[Work::Random, Work::Random], 100_000, 0.0);
    let samples = Samples::with_size(&program, SIZE).unwrap();
    let configuration = &configurations(&model, 2)[0];
    let sampled = sampled(&samples, &model, &program, configuration, None, &PieceStates::default());
    let region = &sampled.regions[&REGION];
    assert_eq!(region.totals.executions, 2);
    let share = region.totals.seconds / sampled.whole.totals.seconds;
    assert!((0.95..=1.0).contains(&share), "{share}");
    let reads = sampled.whole.totals.counters.reads as f64 / 200_000.0;
    assert!((reads - 1.0).abs() < 0.02, "{reads}");
}

#[test]
fn kept_states_change_no_result() {
    let model = builtin("e5-4650x4").unwrap();
    for program in &windows()[..10] {
        let samples = Samples::with_size(program, SIZE).unwrap();
        let profile = program.page_profile();
        let states = PieceStates::default();
        let first = &configurations(&model, program.threads())[0];
        let mappings = [PageMapping::Interleave, PageMapping::Locality, PageMapping::Local];
        for (pages, prefetchers) in mappings
            .into_iter()
            .zip([Prefetchers::ALL, Prefetchers::NONE, Prefetchers::ALL])
        {
            let configuration = WindowConfiguration {
                pinning: first.pinning.clone(),
                pages,
                prefetchers,
            };
            let evaluate =
                |states: &PieceStates| sampled(&samples, &model, program, &configuration, Some(&profile), states);
            assert_eq!(evaluate(&states), evaluate(&PieceStates::default()));
        }
    }
}

#[test]
fn a_short_program_is_not_sampled() {
    assert!(Samples::of(&program(1, 2, &[Work::Stream], 10_000, 0.0)).is_none());
}

/// Threads that order each other by tokens and barriers at random places.
fn ordered() -> impl Strategy<Value = Generated> {
    proptest::collection::vec((0usize..3, 0usize..3, 0u32..400), 5..120).prop_map(|steps| {
        let mut events = vec![vec![]; 3];
        for (number, (from, to, work)) in steps.into_iter().enumerate() {
            let number = number as u64;
            let accesses = |events: &mut Vec<Event>| {
                events.extend((0..u64::from(work)).map(|step| Event::read(number * PAGE + step * 8, 8, 3)));
            };
            accesses(&mut events[from]);
            if from == to {
                for thread in &mut events {
                    thread.push(Event::barrier(number, 3));
                }
            } else {
                events[from].push(Event::mark(EventKind::Signal, number));
                events[to].push(Event::mark(EventKind::Wait, number));
            }
            accesses(&mut events[to]);
        }
        Generated {
            threads: events,
            owners: vec![],
            regions: 0,
        }
    })
}

fn reads(events: &[Event]) -> Vec<Event> {
    let read = |event: &&Event| event.kind == EventKind::Read;
    events.iter().filter(read).copied().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_thread_of_a_piece_waits_for_what_lies_outside(program in ordered(), begin in 0usize..40, length in 1usize..10) {
        let scan = scan(&program, 100);
        let first = begin.min(scan.atoms.len() - 1);
        let atoms = first..(first + length).min(scan.atoms.len());
        let wanted = Wanted { ahead: ahead(&scan.atoms, &atoms, 3, begin as u64), counted: first, atoms };
        let (captured, history) = capture(&program, &scan, &[wanted]);
        let past = history.before(captured[0].history, true);
        let model = builtin("e5-4650x4").unwrap();
        let running = Running {
            blocks: &scan.blocks,
            placed: &[],
            past: &past,
            state: None,
        };
        let streams = captured[0].threads.iter().map(|events| Box::new(Slice { events, next: 0, code: None }) as Box<dyn Stream + '_>);
        let configuration = &configurations(&model, 3)[0];
        let result = simulate_piece(&model, configuration, &running, streams.collect(), &Options::default()).unwrap();
        prop_assert_eq!(result.released, 0);
        prop_assert!(result.threads.iter().all(Option::is_some));
    }

    #[test]
    fn a_thread_that_is_ahead_has_later_events_and_has_touched_the_lines_before_them(
        program in ordered(),
        ahead in 1usize..5,
    ) {
        let scan = scan(&program, 100);
        let wanted: Vec<Wanted> = (0..scan.atoms.len().saturating_sub(ahead))
            .map(|atom| Wanted { atoms: atom..atom + 1, counted: atom, ahead: vec![ahead; program.threads.len()] })
            .collect();
        let (captured, _) = capture(&program, &scan, &wanted);
        let mut blocks = Blocks::in_order(&scan.blocks);
        let mut touched = BTreeSet::new();
        for (thread, events) in program.threads.iter().enumerate() {
            let reads = reads(events);
            let cut: Vec<Event> = captured.iter().flat_map(|piece| self::reads(&piece.threads[thread])).collect();
            prop_assert!(reads.ends_with(&cut));
            touched.extend(reads[..reads.len() - cut.len()].iter().map(|read| (thread as u16, blocks.line(read.first_line()))));
        }
        if let Some(first) = captured.first() {
            let skipped: BTreeSet<(u16, u32)> = first.skipped.iter().map(|touch| (touch.thread, touch.line)).collect();
            prop_assert_eq!(skipped, touched);
        }
    }

    #[test]
    fn cuts_lose_no_event(program in ordered()) {
        let scan = scan(&program, 100);
        let wanted: Vec<Wanted> = (0..scan.atoms.len())
            .map(|atom| Wanted { atoms: atom..atom + 1, counted: atom, ahead: vec![0; program.threads.len()] })
            .collect();
        let (captured, _) = capture(&program, &scan, &wanted);
        for (thread, events) in program.threads.iter().enumerate() {
            let cut: Vec<Event> = captured.iter().flat_map(|piece| reads(&piece.threads[thread])).collect();
            prop_assert_eq!(cut, reads(events));
        }
    }
}
