//! Properties that hold for any behaviour of tasks.

use crate::world::{Builder, World, machine};
use pinfold_core::{PuId, PuSet, TaskId, Topology};
use pinfold_policy::sam::{Mapper, MapperOptions, Move, Reason, TaskRates, Thresholds};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Two to four packages, of one or two last-level caches with two or three cores.
fn topologies() -> impl Strategy<Value = Topology> {
    (2u32..=4, 1u32..=2, 2u32..=3, 1u32..=2)
        .prop_map(|(packages, caches, cores, siblings)| machine(packages, caches, cores, siblings))
}

fn options() -> impl Strategy<Value = MapperOptions> {
    any::<[bool; 5]>().prop_map(|on| MapperOptions {
        hysteresis: on[0],
        validation: on[1],
        learn_groups: on[2],
        faint_sharers: on[3],
        learn_homes: on[4],
        comparison: false,
        pages: false,
        known: false,
    })
}

/// A rate around a threshold, or none.
fn rate(threshold: f64) -> impl Strategy<Value = Option<f64>> {
    prop_oneof![
        1 => Just(None),
        4 => (0.0..8.0).prop_map(move |times: f64| Some(times * threshold)),
        2 => Just(Some(0.0)),
    ]
}

prop_compose! {
    /// A task on one of these PUs, which may run there and on the PUs of the mask.
    fn task(serial: u64, pus: u32)(
        pu in 0..pus,
        mask in prop_oneof![3 => Just(u64::MAX), 1 => any::<u64>()],
        busy in prop_oneof![1 => Just(0.0), 6 => 0.2..1.0],
        rates in (rate(2.5e-4), rate(2.5e-4), rate(2.5e-4), rate(0.0034)),
        instructions in prop::option::of(0.1..2.0),
    ) -> TaskRates {
        let mask = (0..pus).filter(|&other| other == pu || mask >> (other % 64) & 1 == 1);
        let number = i32::try_from(serial).unwrap();
        TaskRates {
            id: TaskId { serial, process: 1 + number % 3, thread: 10 + number },
            pu: PuId(pu),
            allowed: Arc::new(mask.map(PuId).collect::<PuSet>()),
            busy,
            inter: rates.0,
            intra: rates.1,
            remote: rates.2,
            memory: rates.3,
            progress: instructions,
            group: None,
            reads: None,
        }
    }
}

/// Some intervals of the same tasks. Where a task is at first is what counts; later it is where it was moved.
fn histories() -> impl Strategy<Value = (Topology, Vec<Vec<TaskRates>>)> {
    topologies().prop_flat_map(|topology| {
        let pus = u32::try_from(topology.allowed_pus().len()).unwrap();
        let tasks = 1..=usize::try_from(pus + 3).unwrap();
        let interval =
            tasks.prop_flat_map(move |number| (0..number as u64).map(|serial| task(serial, pus)).collect::<Vec<_>>());
        (Just(topology), prop::collection::vec(interval, 1..8))
    })
}

/// Runs a history: each interval's tasks as they are after the moves before, and the moves made of them.
fn run(topology: &Topology, options: MapperOptions, history: &[Vec<TaskRates>]) -> Vec<(Vec<TaskRates>, Vec<Move>)> {
    let mut mapper = Mapper::new(topology, Thresholds::paper(), options);
    let mut places: BTreeMap<TaskId, (PuId, Arc<PuSet>)> = BTreeMap::new();
    let mut steps = vec![];
    for interval in history {
        let mut tasks = interval.clone();
        for task in &mut tasks {
            let known = places
                .entry(task.id)
                .or_insert_with(|| (task.pu, Arc::clone(&task.allowed)));
            (task.pu, task.allowed) = known.clone();
        }
        let moves = mapper.decide(&tasks).to_vec();
        for made in &moves {
            places.get_mut(&made.task).unwrap().0 = made.to;
        }
        steps.push((tasks, moves));
    }
    steps
}

/// The behaviour of a task in a closed loop: the tasks it shares data with, or its memory.
#[derive(Clone, Debug)]
enum Does {
    Share(u32, f64),
    Stream(f64),
    Compute,
}

fn deeds() -> impl Strategy<Value = Vec<(i32, u32, Does)>> {
    let deed = prop_oneof![
        3 => (0u32..4, 0.0..2e-3).prop_map(|(group, rate)| Does::Share(group, rate)),
        2 => (0.0..0.02).prop_map(Does::Stream),
        1 => Just(Does::Compute),
    ];
    prop::collection::vec((1i32..4, 0u32..16, deed), 1..16)
}

fn busy_on(tasks: &[TaskRates]) -> BTreeMap<PuId, usize> {
    let mut busy = BTreeMap::new();
    for task in tasks.iter().filter(|task| task.busy >= 0.01) {
        *busy.entry(task.pu).or_default() += 1;
    }
    busy
}

proptest! {
    #[test]
    fn nobody_leaves_its_mask_or_moves_twice(
        (topology, history) in histories(),
        options in options(),
    ) {
        for (tasks, moves) in run(&topology, options, &history) {
            for made in &moves {
                let task = tasks.iter().find(|task| task.id == made.task).unwrap();
                prop_assert!(task.allowed.contains(made.to) && topology.allowed_pus().contains(made.to));
                prop_assert_eq!(task.pu, made.from);
                prop_assert_eq!(moves.iter().filter(|other| other.task == made.task).count(), 1);
            }
        }
    }

    #[test]
    fn who_comes_to_a_pu_finds_it_idle_or_left_by_the_one_it_swapped_with(
        (topology, history) in histories(),
        options in options(),
    ) {
        for (mut tasks, moves) in run(&topology, options, &history) {
            let before = busy_on(&tasks);
            for made in &moves {
                tasks.iter_mut().find(|task| task.id == made.task).unwrap().pu = made.to;
            }
            for (pu, busy) in busy_on(&tasks) {
                prop_assert!(busy <= before.get(&pu).copied().unwrap_or(0).max(1), "{pu}: {moves:?}");
            }
        }
    }

    #[test]
    fn the_same_history_gives_the_same_moves_in_any_order_of_tasks(
        (topology, history) in histories(),
        options in options(),
    ) {
        let reversed: Vec<Vec<TaskRates>> = history.iter().map(|tasks| tasks.iter().rev().cloned().collect()).collect();
        let moves = |history: &[Vec<TaskRates>]| -> Vec<Vec<Move>> {
            run(&topology, options, history).into_iter().map(|(_, moves)| moves).collect()
        };
        prop_assert_eq!(moves(&history), moves(&reversed));
    }

    #[test]
    fn below_all_thresholds_nothing_moves((topology, mut history) in histories(), options in options()) {
        let thresholds = Thresholds::paper();
        for task in history.iter_mut().flatten() {
            // From an eighth of the threshold on sharers are faint.
            let least = if options.faint_sharers { 0.125 } else { 1.0 };
            task.inter = task.inter.map(|rate| rate.min(least * thresholds.coherence));
            task.remote = task.remote.map(|rate| rate.min(thresholds.remote));
            task.memory = task.memory.map(|rate| rate.min(thresholds.memory));
        }
        prop_assert!(run(&topology, options, &history).iter().all(|(_, moves)| moves.is_empty()));
    }

    #[test]
    fn a_task_of_which_nothing_is_known_stays(
        (topology, mut history) in histories(),
        options in options(),
        serial in 0u64..4,
    ) {
        for task in history.iter_mut().flatten().filter(|task| task.id.serial == serial) {
            (task.inter, task.intra, task.remote, task.memory) = (None, None, None, None);
        }
        for (_, moves) in run(&topology, options, &history) {
            prop_assert!(moves.iter().all(|made| made.task.serial != serial), "{moves:?}");
        }
    }

    #[test]
    fn no_two_tasks_swap_back_and_forth((topology, history) in histories()) {
        // The same few intervals are repeated, independent of the moves.
        let mut often: Vec<Vec<TaskRates>> = std::iter::repeat_n(history, 100).flatten().collect();
        // Who has ended does not come back.
        let always = often.iter().map(Vec::len).min().unwrap();
        for tasks in &mut often {
            tasks.truncate(always);
        }
        let steps = run(&topology, MapperOptions::default(), &often);
        let mut moves: BTreeMap<TaskId, u32> = BTreeMap::new();
        for made in steps.iter().flat_map(|(_, moves)| moves) {
            *moves.entry(made.task).or_default() += 1;
        }
        // A task that comes back is held twice as long each time: of n intervals it can use the logarithm of n for each
        // domain that it may come to from another.
        let most = (often.len() as f64).log2().ceil() * 4.0 * topology.llc_domains().len() as f64;
        let counts: Vec<f64> = moves.values().copied().map(f64::from).collect();
        prop_assert!(counts.iter().all(|&count| count <= most), "{most} {counts:?} of {}", often.len());
    }
}

proptest! {
    // Each case is some hundred decisions of a world in which the rates of every task are computed again.
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn where_rates_follow_from_places_moves_come_to_an_end(deeds in deeds()) {
        // Two packages of four cores with two PUs; tasks begin wherever they do, some on the same PU.
        let builder = deeds.iter().fold(Builder::new(machine(2, 1, 4, 2)), |builder, (process, pu, does)| match does {
            Does::Share(group, rate) => builder.sharer(*process, *pu, *group, *rate),
            Does::Stream(memory) => builder.streamer(*process, *pu, *memory),
            Does::Compute => builder.computer(*process, *pu),
        });
        let mut world = builder.world(MapperOptions::default());
        // Trials run one after the other, and the wait for the next one doubles after each that does not help.
        world.run(1000);
        prop_assert_eq!(world.run(300), []);
    }
}

/// Processes whose tasks all share with each other, and tasks that share nothing: more of them than PUs, or fewer.
fn crowds() -> impl Strategy<Value = (Topology, Vec<(i32, u32, bool)>)> {
    topologies().prop_flat_map(|topology| {
        let pus = u32::try_from(topology.allowed_pus().len()).unwrap();
        let tasks = 2..=usize::try_from(3 * pus).unwrap();
        let task = (1i32..=5, 0..pus, prop::bool::weighted(0.85));
        (Just(topology), prop::collection::vec(task, tasks))
    })
}

/// With groups, and otherwise as it may be.
fn options_with_groups() -> impl Strategy<Value = MapperOptions> {
    options().prop_map(|options| MapperOptions {
        learn_groups: true,
        ..options
    })
}

/// What the mapper is to lower, an earlier part before all later ones: pairs of sharers of one process in different
/// domains, those that follow each other, and busy tasks on a PU beside another one.
fn potential(world: &World) -> [usize; 3] {
    let mut sharers: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
    let mut on_pu: BTreeMap<PuId, usize> = BTreeMap::new();
    for task in &world.tasks {
        *on_pu.entry(task.pu).or_default() += 1;
        if task.shares.is_some() {
            sharers.entry(task.process).or_default().push(world.domain(task.pu));
        }
    }
    let differ = |domains: &[usize]| domains.windows(2).filter(|pair| pair[0] != pair[1]).count();
    let apart = |domains: &Vec<usize>| {
        let behind = domains.iter().enumerate().map(|(first, domain)| {
            let others = domains[first..].iter().filter(|other| *other != domain);
            others.count()
        });
        behind.sum::<usize>()
    };
    [
        sharers.values().map(apart).sum(),
        sharers.values().map(|domains| differ(domains)).sum(),
        on_pu.values().map(|tasks| tasks - 1).sum(),
    ]
}

fn crowd((topology, tasks): &(Topology, Vec<(i32, u32, bool)>), options: MapperOptions) -> World {
    let mut builder = Builder::new(topology.clone());
    for &(process, pu, shares) in tasks {
        let others = tasks.iter().filter(|&&(other, _, also)| other == process && also);
        // So high a rate that each counts as a sharer, whether the others are near or far.
        builder = if shares && others.count() > 1 {
            builder.sharer(process, pu, u32::try_from(process).unwrap(), 0.004)
        } else {
            builder.computer(process, pu)
        };
    }
    builder.world(options)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn each_decision_that_moves_lowers_the_potential(crowded in crowds(), options in options_with_groups()) {
        let mut world = crowd(&crowded, options);
        let mut before = potential(&world);
        for _ in 0..40 {
            let moves = world.step();
            let after = potential(&world);
            let gathers = moves.iter().any(|made| made.reason == Reason::Coherence);
            let rolled_back = moves.iter().any(|made| made.reason == Reason::RollBack);
            prop_assert!(rolled_back || after < before || !gathers && after == before, "{before:?} {after:?} {moves:?}");
            before = after;
        }
    }

    #[test]
    fn where_each_process_shares_moves_come_to_an_end(crowded in crowds(), options in options_with_groups()) {
        let mut world = crowd(&crowded, options);
        world.run(200);
        prop_assert_eq!(world.run(50), []);
    }
}
