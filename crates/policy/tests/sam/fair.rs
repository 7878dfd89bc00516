//! The comparison of the mapper's moves with the unpinned machine. Here the operating system leaves each task where it
//! is.

use crate::world::{Builder, World, paper_machine};
use pinfold_core::{MappingCode, MappingComparison, NodeId, PageMapping, Pinning, ProcessGoal, PuId, TaskId};
use pinfold_policy::KnownPlacement;
use pinfold_policy::sam::{FairMapper, MapperOptions, Move, Reason, TaskRates};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Coherence events a cycle of `HuBench` (section 4.1).
const HUBENCH: f64 = 1.3e-3;

/// A world under the fair mapper.
struct Fair {
    /// What is known of processes: the PUs of the ranks.
    known: BTreeMap<i32, Vec<u32>>,
    /// The page mapping with which they were fastest there.
    known_pages: Option<PageMapping>,
    /// Whether they were fastest unpinned.
    known_unpinned: bool,
    world: World,
    mapper: FairMapper,
    pinned: BTreeSet<TaskId>,
    homes: Vec<PuId>,
    /// Whether pages can be moved, where they were, and whose are elsewhere.
    moves_pages: bool,
    origins: Vec<NodeId>,
    followed: BTreeMap<i32, ProcessGoal>,
    /// The number of intervals until pages have arrived.
    under_way: usize,
    comparisons: Vec<(usize, MappingComparison)>,
    moves: Vec<(usize, Move)>,
    /// The intervals in which nothing was pinned.
    unpinned: usize,
    intervals: usize,
}

impl Fair {
    fn new(builder: Builder) -> Self {
        Self::with(builder, MapperOptions::default())
    }

    fn with(builder: Builder, options: MapperOptions) -> Self {
        Self::every(Duration::from_millis(100), builder, options)
    }

    fn every(interval: Duration, builder: Builder, options: MapperOptions) -> Self {
        let world = builder.world(options);
        Self {
            mapper: FairMapper::new(&world.topology, world.thresholds.clone(), options, interval),
            homes: world.tasks.iter().map(|task| task.pu).collect(),
            known: BTreeMap::new(),
            known_pages: None,
            known_unpinned: false,
            moves_pages: false,
            origins: world.tasks.iter().map(|task| task.home).collect(),
            followed: BTreeMap::new(),
            under_way: 0,
            world,
            pinned: BTreeSet::new(),
            comparisons: vec![],
            moves: vec![],
            unpinned: 0,
            intervals: 0,
        }
    }

    /// Runs this number of intervals. `seen` changes the rates.
    fn run(&mut self, intervals: usize, seen: impl Fn(usize, &mut TaskRates)) {
        for _ in 0..intervals {
            let mut rates = self.world.rates();
            for task in &mut rates {
                seen(self.intervals, task);
            }
            if self.under_way > 0 {
                self.under_way -= 1;
                self.mapper.note_pages_under_way();
            }
            let moves = self.mapper.decide(&rates).to_vec();
            for process in self.mapper.take_newcomers() {
                let placement = |pus: &Vec<u32>| {
                    let known = known(pus);
                    KnownPlacement {
                        pages: self.known_pages,
                        pinning: known.pinning.filter(|_| !self.known_unpinned),
                        ..known
                    }
                };
                let known = self.known.get(&process).map(|pus| (pus.len(), placement(pus)));
                self.mapper.note_known(process, &known.into_iter().collect());
            }
            for task in self.mapper.released() {
                assert!(self.pinned.remove(task), "{task:?} was not pinned");
            }
            for made in moves {
                let task = &mut self.world.tasks[usize::try_from(made.task.serial).unwrap()];
                assert_eq!(task.pu, made.from, "a move begins where the task is");
                assert!(task.allowed.contains(made.to));
                task.pu = made.to;
                self.pinned.insert(made.task);
                self.moves.push((self.intervals, made));
            }
            self.follow();
            let comparison = self.mapper.take_comparison();
            self.comparisons.extend(comparison.map(|one| (self.intervals, one)));
            self.unpinned += usize::from(self.pinned.is_empty());
            self.intervals += 1;
        }
    }

    /// Pages are where their tasks are, or where they were.
    fn follow(&mut self) {
        if !self.moves_pages {
            for process in self.mapper.followed().clone().into_keys() {
                self.mapper.note_pages_stay(process);
            }
            return;
        }
        if *self.mapper.followed() != self.followed {
            self.followed.clone_from(self.mapper.followed());
            self.under_way = 4;
        }
        for (index, origin) in self.origins.iter().enumerate() {
            let task = &self.world.tasks[index];
            self.world.tasks[index].home = if self.followed.get(&task.process) == Some(&ProcessGoal::Tasks) {
                self.world.node(task.pu)
            } else {
                *origin
            };
        }
    }

    fn outcomes(&self) -> Vec<MappingCode> {
        self.comparisons.iter().map(|(_, one)| one.outcome).collect()
    }

    fn places(&self) -> Vec<PuId> {
        self.world.tasks.iter().map(|task| task.pu).collect()
    }
}

/// A placement of an earlier run.
fn known(pus: &[u32]) -> KnownPlacement {
    KnownPlacement {
        pinning: Pinning::new(pus.iter().copied().map(PuId).collect()),
        pages: None,
        metric: "instructions".to_owned(),
        rate: 1.0,
        gain: 0.5,
        other_build: false,
    }
}

fn as_it_is(_: usize, _: &mut TaskRates) {}

/// Two processes of four sharers each, both on both packages.
fn sharers() -> Builder {
    (0..8).fold(Builder::new(paper_machine()), |builder, task| {
        let process = 100 + 100 * i32::from(task >= 4);
        builder.sharer(process, task / 2 + 10 * (task % 2), u32::from(task >= 4), HUBENCH)
    })
}

/// Ten processes that stream from one node, of which the mapper moves some away from their memory: with moves they make
/// 0.77 of their progress alone, and without 0.85.
fn streamers() -> Builder {
    (0..10).fold(Builder::new(paper_machine()), |builder, task| {
        builder.streamer(100 + i32::try_from(task).unwrap(), task, 0.005)
    })
}

#[test]
fn nothing_is_moved_before_its_progress_was_measured() {
    // In the first interval it is measured, and the database is asked.
    let mut fair = Fair::new(sharers());
    fair.run(1, as_it_is);
    assert_eq!(fair.moves, []);
    fair.run(8, as_it_is);
    assert_eq!(fair.moves.first().map(|(at, _)| *at), Some(1));
    // Before there are rates, no time is lost.
    let mut fair = Fair::new(sharers());
    assert_eq!(fair.mapper.decide(&[]), []);
    fair.run(8, as_it_is);
    assert_eq!(fair.moves.first().map(|(at, _)| *at), Some(1));
    // A tenth of a second is ten intervals here.
    let without_database = MapperOptions {
        known: false,
        ..MapperOptions::default()
    };
    let mut fair = Fair::every(Duration::from_millis(10), sharers(), without_database);
    fair.run(9, as_it_is);
    assert_eq!(fair.moves, []);
    fair.run(20, as_it_is);
    assert_eq!(fair.moves.first().map(|(at, _)| *at), Some(9));
    let alone = MapperOptions {
        comparison: false,
        ..MapperOptions::default()
    };
    let mut alone = Fair::with(sharers(), alone);
    alone.run(1, as_it_is);
    assert!(!alone.moves.is_empty(), "the mapper alone moves at once");
}

#[test]
fn a_process_that_begins_later_is_not_moved_before_its_progress_was_measured() {
    let mut fair = Fair::new(sharers());
    let late = |at: usize, task: &mut TaskRates| {
        // Its counters are opened in this interval, so that there is no rate before.
        if task.id.process == 200 && at < 20 {
            (task.progress, task.inter, task.intra) = (None, None, None);
        }
    };
    fair.run(20, late);
    assert!(fair.moves.iter().all(|(_, made)| made.task.process == 100));
    fair.run(20, late);
    assert!(fair.moves.iter().any(|(_, made)| made.task.process == 200));
}

#[test]
fn moves_that_help_stay_and_comparing_them_costs_little() {
    let mut fair = Fair::new(sharers());
    fair.run(5000, as_it_is);
    assert!(!fair.comparisons.is_empty());
    assert!(fair.outcomes().iter().all(|&outcome| outcome == MappingCode::Kept));
    let gains = &fair.comparisons[0].1.processes;
    assert_eq!(gains.iter().map(|one| one.process).collect::<Vec<_>>(), [100, 200]);
    assert!(gains.iter().all(|one| one.gain > 0.05), "{gains:?}");
    assert!(fair.unpinned < 60, "{} of 5000 intervals", fair.unpinned);
    assert_eq!(fair.pinned.len(), 8);
    let groups = [fair.world.spread(0..4), fair.world.spread(4..8)];
    assert!(groups.iter().all(|group| group.contains(&4)), "{groups:?}");
}

#[test]
fn moves_by_which_some_make_less_progress_are_taken_back() {
    let without_pages = MapperOptions {
        pages: false,
        ..MapperOptions::default()
    };
    let mut fair = Fair::with(streamers(), without_pages);
    fair.run(60, as_it_is);
    assert_eq!(fair.outcomes(), [MappingCode::Slower]);
    let (at, comparison) = &fair.comparisons[0];
    assert!(*at < 40, "at {at}");
    let slowest = comparison.slowest().unwrap();
    assert!(slowest.gain < -0.05 && comparison.pause >= Some(10.0), "{comparison}");
    assert_eq!(fair.places(), fair.homes);
    assert!(fair.pinned.is_empty());
}

#[test]
fn moves_do_not_stay_unverified_when_progress_gets_another_unit() {
    let in_calls = |_: usize, task: &mut TaskRates| {
        if task.id.process == 100 {
            task.progress = task.progress.map(|bytes| bytes / 1000.0);
        }
    };
    let mut fair = Fair::new(sharers());
    fair.run(3, as_it_is);
    assert!(!fair.moves.is_empty());
    fair.mapper.note_other_unit(100);
    fair.run(300, in_calls);
    assert!(
        fair.pinned.is_empty() || fair.outcomes() == [MappingCode::Kept],
        "{:?}",
        fair.pinned
    );
    assert!(!fair.outcomes().contains(&MappingCode::Slower), "{:?}", fair.outcomes());
}

#[test]
fn pages_follow_tasks_that_lose_by_being_away_from_them() {
    let mut fair = Fair::new(streamers());
    fair.moves_pages = true;
    fair.run(100, as_it_is);
    assert_eq!(fair.outcomes(), [MappingCode::Kept]);
    let gains = &fair.comparisons[0].1.processes;
    assert!(gains.iter().all(|one| one.gain > 0.05), "{gains:?}");
    let away: BTreeSet<i32> = (0..10)
        .filter(|&task| fair.world.node(fair.world.tasks[task].pu) != fair.origins[task])
        .map(|task| fair.world.tasks[task].process)
        .collect();
    assert!(!away.is_empty());
    let followed: BTreeSet<i32> = fair.comparisons[0].1.followed.iter().copied().collect();
    assert_eq!(followed, away);
    let followed: BTreeSet<i32> = fair.followed.keys().copied().collect();
    assert_eq!(followed, away, "pages of those that stayed do not move");
}

#[test]
fn pages_go_back_if_they_do_not_help() {
    let mut fair = Fair::new(streamers());
    fair.moves_pages = true;
    let homes: BTreeSet<PuId> = (0..10).map(PuId).collect();
    fair.run(60, |_, task| {
        task.progress = Some(if homes.contains(&task.pu) { 1.0 } else { 0.9 });
    });
    assert_eq!(fair.outcomes(), [MappingCode::Slower]);
    let homes: Vec<NodeId> = fair.world.tasks.iter().map(|task| task.home).collect();
    assert_eq!((homes, fair.places()), (fair.origins.clone(), fair.homes.clone()));
    assert!(fair.followed.is_empty());
}

#[test]
fn nothing_is_measured_while_pages_are_under_way() {
    let mut fair = Fair::new(streamers());
    fair.moves_pages = true;
    // Whoever waits for pages stands still, and is not said to be slower.
    let under_way = std::cell::Cell::new(false);
    for _ in 0..100 {
        under_way.set(fair.under_way > 0);
        fair.run(1, |_, task| {
            if under_way.get() {
                task.progress = Some(1e-3);
            }
        });
    }
    assert_eq!(fair.outcomes(), [MappingCode::Kept]);
    assert!(fair.comparisons[0].1.processes.iter().all(|one| one.gain < 1.0));
}

#[test]
fn a_process_that_loses_much_is_put_back_within_a_few_intervals() {
    let mut fair = Fair::new(streamers());
    let homes: BTreeSet<PuId> = (0..10).map(PuId).collect();
    fair.run(30, |_, task| {
        task.progress = Some(if homes.contains(&task.pu) { 1.0 } else { 0.5 });
    });
    let first = fair.moves[0].0;
    let back = fair.moves.iter().find(|(_, made)| made.reason == Reason::Comparison);
    assert!(back.is_some_and(|(at, _)| *at <= first + 4), "{:?}", fair.moves);
    assert_eq!(fair.outcomes(), [MappingCode::Slower]);
}

#[test]
fn processes_that_moves_harm_are_left_alone_so_that_others_may_gain() {
    // Two processes stream from a full node beside a program that shares data on both.
    let streamers = (0..10).fold(Builder::new(paper_machine()), |builder, task| {
        builder.streamer(300 + i32::try_from(task).unwrap(), task, 0.005)
    });
    let builder = (0..6).fold(streamers, |builder, task| {
        builder.sharer(100, 20 + 10 * (task % 2) + task / 2, 0, HUBENCH)
    });
    let mut fair = Fair::new(builder);
    fair.run(40_000, as_it_is);
    let outcomes = fair.outcomes();
    assert_eq!(outcomes.first(), Some(&MappingCode::Slower));
    assert_eq!(outcomes.last(), Some(&MappingCode::Kept), "{:?}", fair.comparisons);
    let processes: BTreeSet<i32> = fair.pinned.iter().map(|task| task.process).collect();
    assert_eq!(processes, BTreeSet::from([100]));
}

#[test]
fn with_shorter_intervals_everything_takes_as_long() {
    let mut fair = Fair::every(Duration::from_millis(10), streamers(), MapperOptions::default());
    fair.run(600, as_it_is);
    assert_eq!(fair.outcomes(), [MappingCode::Slower]);
    assert!(fair.moves[0].0 >= 9, "a tenth of a second before the first move");
    let (at, comparison) = &fair.comparisons[0];
    assert!(
        (100..400).contains(at) && comparison.pause >= Some(10.0),
        "{at}: {comparison}"
    );
}

#[test]
fn a_pause_ends_early_for_a_process_that_begins() {
    let builder = (0..4).fold(streamers(), |builder, task| {
        builder.sharer(100, 20 + 10 * (task % 2) + task / 2, 0, HUBENCH)
    });
    let mut fair = Fair::new(builder);
    // The sharers sleep at first.
    let sleeps = |at: usize, task: &mut TaskRates| {
        if task.id.process == 100 && at < 100 {
            (task.busy, task.inter, task.intra) = (0.0, Some(0.0), Some(0.0));
        }
    };
    fair.run(400, sleeps);
    let (at, comparison) = &fair.comparisons[0];
    assert_eq!(comparison.outcome, MappingCode::Slower);
    assert!(*at < 100 && comparison.pause > Some(40.0), "{at}: {comparison}");
    assert!(
        fair.moves
            .iter()
            .any(|(_, made)| made.task.process == 100 && made.reason == Reason::Coherence),
        "{:?}",
        fair.moves
    );
}

#[test]
fn a_pause_ends_early_when_the_unpinned_machine_has_become_slower() {
    let mut fair = Fair::new(streamers());
    // At 20 s the operating system places one process badly, wherever it is not the mapper that does.
    let worse = |at: usize, task: &mut TaskRates| {
        if at >= 200 && task.id.process == 103 {
            task.progress = task.progress.map(|one| 0.8 * one);
        }
    };
    fair.run(600, worse);
    let (at, comparison) = &fair.comparisons[0];
    assert!(*at < 100 && comparison.pause > Some(40.0), "{at}: {comparison}");
    let again = fair.moves.iter().map(|(at, _)| *at).find(|moved| *moved >= 200);
    assert!(again.is_some_and(|again| again < 220), "{again:?}");
}

#[test]
fn without_moves_tasks_are_where_the_operating_system_last_had_them() {
    let mut fair = Fair::new(sharers());
    // In a turn without moves the operating system takes a task that nobody has pinned to another PU.
    let (task, elsewhere) = (3, PuId(35));
    for _ in 0..5000 {
        let unpinned = fair.pinned.is_empty() && !fair.moves.is_empty();
        if unpinned && fair.world.tasks[task].pu == fair.homes[task] {
            fair.world.tasks[task].pu = elsewhere;
        }
        fair.run(1, as_it_is);
    }
    let back: Vec<PuId> = fair
        .moves
        .iter()
        .filter(|(_, made)| made.task.serial == task as u64 && made.reason == Reason::Comparison)
        .map(|(_, made)| made.to)
        .filter(|to| [fair.homes[task], elsewhere].contains(to))
        .collect();
    assert!(back.len() > 1 && back[0] == fair.homes[task], "{back:?}");
    assert!(back[1..].iter().all(|&to| to == elsewhere), "{back:?}");
}

#[test]
fn what_does_harm_is_tried_again_less_and_less_often() {
    let mut fair = Fair::new(streamers());
    let intervals = 50_000;
    fair.run(intervals, as_it_is);
    let outcomes = fair.outcomes();
    assert!((2..=20).contains(&outcomes.len()), "{outcomes:?}");
    assert!(outcomes.iter().all(|&outcome| outcome == MappingCode::Slower));
    let pinned = intervals - fair.unpinned;
    assert!(pinned * 100 < intervals, "{pinned} of {intervals} intervals");
}

#[test]
fn a_mapping_that_does_harm_later_is_taken_back_then() {
    let mut fair = Fair::new(sharers());
    // From here on one process makes less progress under one cache than under two.
    let changes = |at: usize, task: &mut TaskRates| {
        if at >= 1000 && task.id.process == 100 {
            task.progress = Some(if task.inter == Some(0.0) { 0.5 } else { 1.0 });
        }
    };
    fair.run(900, changes);
    assert_eq!(fair.outcomes().last(), Some(&MappingCode::Kept));
    fair.run(4000, changes);
    assert_eq!(fair.outcomes().last(), Some(&MappingCode::Slower));
}

#[test]
fn moves_that_help_none_are_taken_back() {
    let mut fair = Fair::new(sharers());
    let same = |_: usize, task: &mut TaskRates| task.progress = Some(1.0);
    fair.run(80, same);
    assert_eq!(fair.outcomes(), [MappingCode::NoGain]);
    assert!(fair.pinned.is_empty());
    assert_eq!(fair.places(), fair.homes);
}

#[test]
fn without_a_count_of_instructions_the_mapper_moves_and_nothing_is_compared() {
    let unknown = |_: usize, task: &mut TaskRates| task.progress = None;
    let mut fair = Fair::new(sharers());
    fair.run(300, unknown);
    let mut world = sharers().world(MapperOptions::default());
    world.run(1);
    assert_eq!(fair.moves.first().map(|(at, _)| *at), Some(0));
    assert_eq!(fair.comparisons, []);
    assert!(fair.moves.iter().all(|(_, made)| made.reason != Reason::Comparison));
}

#[test]
fn a_task_that_sleeps_through_a_turn_stays_unpinned() {
    let mut fair = Fair::new(streamers());
    // Until it is put back, everything is as in the test above.
    while !fair.moves.iter().any(|(_, made)| made.reason == Reason::Comparison) {
        fair.run(1, as_it_is);
    }
    let asleep = fair
        .moves
        .iter()
        .find(|(_, made)| made.reason == Reason::Comparison)
        .unwrap()
        .1
        .task;
    for _ in 0..200 {
        let rates: Vec<TaskRates> = fair
            .world
            .rates()
            .into_iter()
            .filter(|task| task.id != asleep)
            .collect();
        for made in fair.mapper.decide(&rates).to_vec() {
            assert_ne!(made.task, asleep);
            fair.world.tasks[usize::try_from(made.task.serial).unwrap()].pu = made.to;
            fair.pinned.insert(made.task);
        }
        for task in fair.mapper.released() {
            fair.pinned.remove(task);
        }
    }
    assert!(!fair.pinned.contains(&asleep));
}

/// Tasks with a process, a PU, and what they do: sharers of one of two groups, and streamers.
fn worlds() -> impl Strategy<Value = Builder> {
    let task = (1i32..5, 0u32..20, prop::option::of((0u32..2, 0.0..2e-3)), 0.0..0.02);
    prop::collection::vec(task, 1..16).prop_map(|tasks| {
        tasks.into_iter().fold(
            Builder::new(paper_machine()),
            |builder, (process, pu, shares, memory)| match shares {
                Some((group, rate)) => builder.sharer(process, pu, group, rate),
                None => builder.streamer(process, pu, memory),
            },
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Whatever places mean to processes: who makes less progress by the moves does so for a short time.
    #[test]
    fn no_process_loses_more_than_a_comparison_costs(
        builder in worlds(),
        worth in prop::collection::vec((0.4f64..1.6, 0.4f64..1.6), 5),
    ) {
        let mut fair = Fair::new(builder);
        let intervals = 3000u32;
        let mut sums: BTreeMap<i32, f64> = BTreeMap::new();
        let mut unpinned: BTreeMap<i32, f64> = BTreeMap::new();
        for interval in 0..intervals {
            let pinned = fair.pinned.clone();
            let of = |task: &TaskRates| {
                let worth = worth[usize::try_from(task.id.process).unwrap()];
                if pinned.contains(&task.id) { worth.0 } else { worth.1 }
            };
            for task in fair.world.rates() {
                *sums.entry(task.id.process).or_default() += of(&task);
                if interval == 0 {
                    *unpinned.entry(task.id.process).or_default() += of(&task);
                }
            }
            fair.run(1, |_, task| task.progress = Some(of(task)));
        }
        for (process, sum) in sums {
            let share = sum / f64::from(intervals) / unpinned[&process];
            prop_assert!(share > 0.98, "process {process}: {share}: {:?}", fair.comparisons);
        }
    }

    /// Whatever tasks come and go: what is let go was pinned, moves begin where tasks are, and each task moves once.
    #[test]
    fn tasks_may_come_and_go_at_any_time(builder in worlds(), there in prop::collection::vec(any::<u16>(), 1..40)) {
        let mut fair = Fair::new(builder);
        for (interval, mask) in there.iter().cycle().take(400).enumerate() {
            let rates: Vec<TaskRates> = fair
                .world
                .rates()
                .into_iter()
                .filter(|task| interval % 20 < 10 || mask >> (task.id.serial % 16) & 1 == 1)
                .collect();
            let moves = fair.mapper.decide(&rates).to_vec();
            for task in fair.mapper.released() {
                fair.pinned.remove(task);
            }
            let mut seen = BTreeSet::new();
            for made in moves {
                prop_assert!(seen.insert(made.task), "{made:?}");
                let task = rates.iter().find(|task| task.id == made.task);
                prop_assert_eq!(task.map(|task| task.pu), Some(made.from));
                fair.world.tasks[usize::try_from(made.task.serial).unwrap()].pu = made.to;
                fair.pinned.insert(made.task);
            }
        }
    }
}

fn pus(numbers: &[u32]) -> Vec<PuId> {
    numbers.iter().copied().map(PuId).collect()
}

/// Processes of two tasks each, on these PUs, which compute and share nothing.
fn computing(places: &[[u32; 2]]) -> Builder {
    let tasks = places.iter().zip((100..).step_by(100));
    let tasks = tasks.flat_map(|(pair, process)| pair.iter().map(move |&pu| (process, pu)));
    tasks.fold(Builder::new(paper_machine()), |builder, (process, pu)| {
        builder.computer(process, pu)
    })
}

#[test]
fn a_known_process_goes_where_it_was_fastest_and_stays_if_that_helps() {
    let mut fair = Fair::new(sharers());
    fair.known.insert(100, vec![3, 2, 1, 0]);
    fair.run(10, as_it_is);
    let (at, first) = fair.moves[0];
    assert_eq!((at, first.reason, first.excess), (2, Reason::Known, None));
    // Two tasks are there, and the cores of the other process are taken.
    assert_eq!(fair.places()[..4], pus(&[5, 4, 1, 0]));
    fair.run(2000, as_it_is);
    assert!(!fair.comparisons.is_empty());
    assert!(fair.outcomes().iter().all(|&outcome| outcome == MappingCode::Kept));
    assert_eq!(fair.places()[..4], pus(&[5, 4, 1, 0]));
    // The mapper gathers the other one, of which nothing is known.
    assert!(fair.world.spread(4..8).contains(&4));
}

#[test]
fn a_known_process_that_makes_no_more_progress_there_is_let_go() {
    let mut fair = Fair::new(computing(&[[0, 1]]));
    fair.known.insert(100, vec![0, 10]);
    fair.run(5000, as_it_is);
    assert_eq!(fair.moves[0].1.reason, Reason::Known);
    assert_eq!(fair.outcomes()[0], MappingCode::NoGain);
    assert_eq!(fair.places(), pus(&[0, 1]));
    assert!(fair.pinned.is_empty());
    assert!(fair.unpinned > 4900, "{} of 5000 intervals", fair.unpinned);
}

#[test]
fn a_known_process_goes_to_the_same_placement_where_nobody_else_works() {
    // Its packed placement was on the first package, where the other process has a task on each core but two.
    let others = (0..4).map(|pair| [2 * pair, 2 * pair + 1]);
    let places: Vec<[u32; 2]> = [[8, 19]].into_iter().chain(others).collect();
    let mut fair = Fair::new(computing(&places));
    fair.known.insert(100, vec![0, 1]);
    fair.run(4, as_it_is);
    assert_eq!(fair.places()[..2], pus(&[8, 9]), "beside the task that is there");

    // On the sibling of a busy core it is not the same.
    let mut fair = Fair::new(computing(&places[..1]).computer(200, 29));
    fair.known.insert(100, vec![0, 1]);
    fair.run(4, as_it_is);
    assert_eq!(fair.places()[..2], pus(&[8, 0]));
}

#[test]
fn a_known_process_without_room_stays_until_there_is_some() {
    let everywhere: Vec<[u32; 2]> = (0..10).map(|core| [core, core + 10]).collect();
    let mut fair = Fair::new(computing(&everywhere));
    fair.known.insert(100, vec![0, 1]);
    fair.run(50, as_it_is);
    assert_eq!(fair.moves, []);
    let ended = |_: usize, task: &mut TaskRates| {
        if task.id.process == 200 {
            task.busy = 0.0;
        }
    };
    fair.run(5, ended);
    assert_eq!(fair.places()[..2], pus(&[0, 1]));
}

/// A process that is known with interleaved pages, perhaps unpinned, runs for so long. It makes `progress` with them.
fn interleaved_before(options: MapperOptions, unpinned: bool, progress: f64, intervals: usize) -> Fair {
    let mut fair = Fair::with(computing(&[[0, 1]]), options);
    fair.moves_pages = true;
    fair.known_unpinned = unpinned;
    fair.known.insert(100, vec![0, 10]);
    fair.known_pages = Some(PageMapping::Interleave);
    for _ in 0..intervals {
        let are_interleaved = fair.followed.contains_key(&100) && fair.under_way == 0;
        fair.run(1, |_, task| {
            if are_interleaved {
                task.progress = Some(progress);
            }
        });
    }
    fair
}

#[test]
fn pages_of_a_known_process_are_interleaved_if_they_were_where_it_was_fastest() {
    let fair = interleaved_before(MapperOptions::default(), false, 1.5, 2000);
    assert_eq!(fair.moves[0].1.reason, Reason::Known);
    assert_eq!(fair.outcomes()[0], MappingCode::Kept);
    assert_eq!(fair.comparisons[0].1.followed, [100]);
    assert_eq!(fair.places(), pus(&[0, 10]));
    assert_eq!(fair.followed, BTreeMap::from([(100, ProcessGoal::Interleave)]));

    let fair = interleaved_before(MapperOptions::default(), false, 0.8, 200);
    assert_eq!(fair.outcomes()[0], MappingCode::Slower);
    assert_eq!((fair.places(), fair.followed), (pus(&[0, 1]), BTreeMap::new()));
}

#[test]
fn pages_alone_are_interleaved_where_the_program_was_fastest_unpinned() {
    let fair = interleaved_before(MapperOptions::default(), true, 1.5, 2000);
    assert_eq!((fair.moves, fair.unpinned), (vec![], 2000));
    assert!(!fair.comparisons.is_empty());
    assert!(fair.comparisons.iter().all(|(_, one)| one.outcome == MappingCode::Kept));
    let gain = fair.comparisons[0].1.processes[0].gain;
    assert!((gain - 0.5).abs() < 0.01, "{gain}");
    assert_eq!(fair.followed, BTreeMap::from([(100, ProcessGoal::Interleave)]));

    for progress in [1.0, 0.8] {
        let fair = interleaved_before(MapperOptions::default(), true, progress, 2000);
        assert_ne!(fair.outcomes()[0], MappingCode::Kept);
        assert_eq!((fair.moves, fair.followed), (vec![], BTreeMap::new()));
    }
}

#[test]
fn pages_follow_a_known_process_where_they_followed_its_threads() {
    let mut fair = Fair::new(computing(&[[0, 1]]));
    fair.moves_pages = true;
    fair.known.insert(100, vec![0, 10]);
    fair.run(10, as_it_is);
    assert_eq!(fair.places(), pus(&[0, 10]));
    assert_eq!(fair.followed, BTreeMap::from([(100, ProcessGoal::Tasks)]));

    let options = MapperOptions {
        pages: false,
        ..MapperOptions::default()
    };
    let mut fair = Fair::with(computing(&[[0, 1]]), options);
    fair.known.insert(100, vec![0, 10]);
    fair.run(4, as_it_is);
    assert_eq!((fair.places(), fair.followed), (pus(&[0, 10]), BTreeMap::new()));
}

#[test]
fn pages_of_a_process_that_has_ended_are_not_asked_for() {
    let mut fair = Fair::new(computing(&[[0, 1], [2, 3]]));
    fair.moves_pages = true;
    fair.known.insert(100, vec![0, 10]);
    fair.known_pages = Some(PageMapping::Interleave);
    fair.known_unpinned = true;
    fair.run(10, as_it_is);
    assert_eq!(fair.followed, BTreeMap::from([(100, ProcessGoal::Interleave)]));
    fair.world.tasks.drain(..2);
    fair.origins.drain(..2);
    fair.run(610, as_it_is);
    assert_eq!(fair.followed, BTreeMap::new());
}

#[test]
fn a_placement_with_interleaved_pages_is_left_out_where_pages_may_not_be_moved() {
    let options = MapperOptions {
        pages: false,
        ..MapperOptions::default()
    };
    let fair = interleaved_before(options, false, 1.5, 200);
    assert_eq!((fair.moves, fair.followed), (vec![], BTreeMap::new()));
}

#[test]
fn known_processes_make_room_for_each_other() {
    let everywhere: Vec<[u32; 2]> = (0..10).map(|core| [core, core + 10]).collect();
    let mut fair = Fair::new(computing(&everywhere));
    fair.known.extend([(100, vec![0, 1]), (200, vec![0, 1])]);
    fair.run(4, as_it_is);
    assert_eq!(fair.places()[..4], pus(&[0, 1, 10, 11]));

    // If one finds no room, it stays, and the other one has none either.
    let mut fair = Fair::new(computing(&everywhere).computer(5000, 31));
    fair.known.extend([(100, vec![0, 1]), (200, vec![0, 1])]);
    fair.run(50, as_it_is);
    assert_eq!(fair.moves, []);
}

#[test]
fn while_fewer_tasks_work_than_are_known_they_stay_for_three_seconds() {
    let mut fair = Fair::new(sharers());
    fair.known.insert(100, vec![0, 1]);
    let moved = |fair: &Fair, process: i32| fair.moves.iter().any(|(_, made)| made.task.process == process);
    fair.run(28, as_it_is);
    assert!(moved(&fair, 200) && !moved(&fair, 100));
    fair.run(60, as_it_is);
    assert!(moved(&fair, 100), "then the mapper moves them");
    assert!(fair.moves.iter().all(|(_, made)| made.reason != Reason::Known));
}

#[test]
fn a_known_process_that_is_slower_there_does_not_go_again() {
    let mut fair = Fair::new(sharers());
    // Two tasks on a core: each makes half of its progress, which the world does not know.
    fair.known.insert(100, vec![0, 20, 1, 21]);
    let mut seen = 0;
    for _ in 0..3000 {
        let places = fair.places();
        let on_siblings = [20, 21].iter().any(|&pu| places.contains(&PuId(pu)));
        seen += usize::from(on_siblings);
        fair.run(1, |_, task| {
            if on_siblings && task.id.process == 100 {
                task.progress = task.progress.map(|all| all / 2.0);
            }
        });
    }
    assert!((1..100).contains(&seen), "{seen} intervals");
    assert_eq!(fair.outcomes()[0], MappingCode::Slower);
    let known = fair.moves.iter().filter(|(_, made)| made.reason == Reason::Known);
    assert_eq!(known.count(), 4);
}

#[test]
fn nobody_is_asked_about_without_the_option() {
    let without = MapperOptions {
        known: false,
        ..MapperOptions::default()
    };
    let mut fair = Fair::with(sharers(), without);
    fair.known.insert(100, vec![3, 2, 1, 0]);
    fair.run(100, as_it_is);
    assert!(fair.moves.iter().all(|(_, made)| made.reason != Reason::Known));
}
