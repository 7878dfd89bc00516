//! Named cases: the paper's, and one for each of the mapper's options.

use crate::hybrid::gb10;
use crate::world::{Builder, World, machine, paper_machine};
use pinfold_core::{PuId, PuSet};
use pinfold_policy::sam::{Activity, MapperOptions, Move, Reason};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Section 4.1: `HuBench` has 1.3e-3 coherence events a cycle, `LuBench` 2.6e-4.
const HUBENCH: f64 = 1.3e-3;
/// One task of `MemBench`: six of them saturate a package (figure 2, the curve of high locality).
const MEMBENCH: f64 = 0.013;

const ALL: MapperOptions = MapperOptions {
    hysteresis: true,
    validation: true,
    learn_groups: true,
    faint_sharers: true,
    learn_homes: true,
    comparison: false,
    pages: false,
    known: false,
};

/// Eight tasks that share, four to a package.
fn hubench_spread(options: MapperOptions) -> World {
    let sharers = (0..8).fold(Builder::new(paper_machine()), |builder, task| {
        builder.sharer(100, task / 2 + 10 * (task % 2), 0, HUBENCH)
    });
    sharers.world(options)
}

/// The moves that change a task's place, without those that only pin it where it is.
fn elsewhere(moves: Vec<(usize, Move)>) -> Vec<(usize, Move)> {
    moves.into_iter().filter(|(_, made)| made.from != made.to).collect()
}

fn is_for(reason: Reason) -> impl Fn(&&(usize, Move)) -> bool {
    move |(_, made)| made.reason == reason
}

#[test]
fn eight_sharers_on_two_packages_come_together_by_four_moves() {
    let mut world = hubench_spread(MapperOptions::PAPER);
    let moves = world.run(50);
    assert_eq!(moves.len(), 4, "table 1: {moves:?}");
    assert!(
        moves
            .iter()
            .all(|(interval, made)| *interval == 0 && made.reason == Reason::Coherence)
    );
    assert_eq!(world.spread(0..8), [8, 0]);
}

#[test]
fn of_idle_cores_that_are_equal_but_for_their_kind_the_faster_one_is_taken() {
    // Cores 0 to 4 of the first cache are slow, and idle as 8 and 9 are.
    let sharers = [5, 6, 7, 15].into_iter();
    let builder = sharers.fold(Builder::new(gb10()), |builder, pu| builder.sharer(100, pu, 0, HUBENCH));
    let mut world = builder.world(MapperOptions::PAPER);
    world.run(10);
    assert_eq!(world.spread(0..4), [4, 0]);
    assert_eq!(world.tasks[3].pu, PuId(8));
}

#[test]
fn sharers_whom_sorting_does_not_help_come_together_afterwards() {
    let mut world = hubench_spread(ALL);
    let moves = world.run(50);
    assert_eq!(world.spread(0..8), [8, 0]);
    let pulled = moves.iter().filter(|(_, made)| made.swapped_with.is_none());
    assert_eq!(
        pulled.filter(|(_, made)| made.reason == Reason::Coherence).count(),
        4,
        "{moves:?}"
    );
    assert!(moves.iter().all(|(interval, _)| *interval < 10), "{moves:?}");
}

#[test]
fn pairs_of_a_group_that_fits_nowhere_come_together_where_they_are() {
    let sharers = (0..12).fold(Builder::new(paper_machine()), |builder, task| {
        builder.sharer(100, task / 2 + 10 * (task % 2), task / 2, HUBENCH)
    });
    let mut world = sharers.world(ALL);
    let moves = elsewhere(world.run(50));
    assert_eq!(world.spread(0..12), [6, 6]);
    for pair in 0..6 {
        assert_eq!(world.spread(2 * pair..2 * pair + 2).iter().max(), Some(&2));
    }
    assert!(
        moves
            .iter()
            .all(|(interval, made)| *interval == 0 && made.swapped_with.is_some()),
        "{moves:?}"
    );
}

#[test]
fn a_move_has_the_rate_that_caused_it() {
    let mut world = hubench_spread(MapperOptions::PAPER);
    let made = world.step()[0];
    let excess = made.excess.unwrap();
    assert_eq!(excess.activity, Activity::InterPackageCoherence);
    assert!(
        (excess.value - HUBENCH * 4.0 / 7.0).abs() < 1e-12 && excess.value > excess.threshold,
        "{made:?}"
    );
    assert_eq!(made.swapped_with, None);
}

#[test]
fn sharers_get_a_core_each_and_no_sibling_of_a_busy_one() {
    let mut world = hubench_spread(ALL);
    world.run(20);
    let cores: PuSet = world.tasks.iter().map(|task| PuId(task.pu.0 % 20)).collect();
    assert_eq!(cores.len(), 8);
}

#[test]
fn memory_bound_tasks_that_are_balanced_stay() {
    for options in [MapperOptions::PAPER, ALL] {
        for tasks in [6, 8] {
            let streamers = (0..tasks).fold(Builder::new(paper_machine()), |builder, task| {
                builder.streamer(100, task / 2 + 10 * (task % 2), MEMBENCH)
            });
            assert_eq!(streamers.world(options).run(50), [], "table 1");
        }
    }
}

#[test]
fn memory_bound_tasks_on_one_package_are_spread() {
    for options in [MapperOptions::PAPER, ALL] {
        let streamers = (0..8).fold(Builder::new(paper_machine()), |builder, task| {
            builder.streamer(100, task, MEMBENCH)
        });
        let mut world = streamers.world(options);
        let moves = world.run(50);
        assert!(
            moves.iter().all(|(_, made)| made.reason == Reason::Bandwidth),
            "{moves:?}"
        );
        let spread = world.spread(0..8);
        assert!(
            spread.iter().all(|&tasks| tasks >= 2),
            "two saturate a package: {spread:?}"
        );
    }
}

#[test]
fn sharers_come_together_among_memory_bound_tasks_which_make_room_reluctantly() {
    // Mix 1 of table 2 on the cores of both packages: 12 MemBench and 8 HuBench, as Linux spreads them.
    let mut builder = Builder::new(paper_machine());
    for task in 0..8 {
        builder = builder.sharer(100, task / 2 + 10 * (task % 2), 0, HUBENCH);
    }
    for task in 0..12 {
        builder = builder.streamer(200, 4 + task / 2 + 10 * (task % 2), MEMBENCH);
    }
    let mut world = builder.world(MapperOptions::PAPER);
    let moves = world.step();
    assert_eq!(world.spread(0..8), [8, 0]);
    assert_eq!(
        moves.iter().filter(|made| made.reluctant && made.makes_room).count(),
        4,
        "{moves:?}"
    );
}

#[test]
fn cpu_bound_tasks_make_room_before_memory_bound_ones() {
    let mut builder = Builder::new(machine(2, 1, 4, 1));
    for pu in [0, 1, 4] {
        builder = builder.sharer(100, pu, 0, HUBENCH);
    }
    let mut world = builder.streamer(200, 2, MEMBENCH).computer(300, 3).world(ALL);
    let moves = world.step();
    assert_eq!(moves.len(), 2, "{moves:?}");
    assert_eq!(
        (moves[0].task.serial, moves[1].task.serial, moves[1].makes_room),
        (2, 4, true)
    );
    assert!(!moves[1].reluctant);
}

#[test]
fn who_left_its_memory_reluctantly_goes_back_as_soon_as_there_is_room() {
    for options in [MapperOptions::PAPER, ALL] {
        let mut builder = Builder::new(machine(2, 1, 3, 1)).streamer(200, 2, 0.005);
        for pu in [0, 1, 3] {
            builder = builder.sharer(100, pu, 0, HUBENCH);
        }
        let mut world = builder.world(options);
        let moves = world.step();
        assert!(moves[1].reluctant && moves[1].task.serial == 0, "{moves:?}");
        let is_remote = |world: &World| world.node(world.tasks[0].pu) != world.tasks[0].home;
        assert!(is_remote(&world));
        // The last sharer ends.
        world.tasks.pop();
        let moves = elsewhere(world.run(10));
        assert!(
            !is_remote(&world) && moves.len() == 1 && moves[0].1.reason == Reason::RemoteMemory,
            "{moves:?}"
        );
    }
}

#[test]
fn groups_of_two_processes_get_a_package_each() {
    let mut builder = Builder::new(paper_machine());
    for task in 0..20 {
        builder = builder.sharer(100 + i32::try_from(task % 2).unwrap(), task % 20, task % 2, HUBENCH);
    }
    let mut world = builder.world(ALL);
    let moves = world.run(100);
    for process in [100, 101] {
        let tasks = world.tasks.iter().filter(|task| task.process == process);
        let packages: PuSet = tasks.map(|task| PuId(world.node(task.pu).0)).collect();
        assert_eq!(packages.len(), 1, "{moves:?}");
    }
}

#[test]
fn a_task_is_brought_to_its_group_and_not_to_its_process_if_rates_name_groups() {
    // Each thread of a process waits for one of the other process, and each process is on a package of its own.
    let mut builder = Builder::new(paper_machine());
    for task in 0..16 {
        builder = builder.sharer(
            100 + i32::try_from(task / 8).unwrap(),
            10 * (task / 8) + task % 8,
            task % 8,
            HUBENCH,
        );
    }
    let apart = |names_groups| {
        let mut world = builder.clone().world(ALL);
        world.names_groups = names_groups;
        world.run(60);
        (0..8)
            .filter(|&task| world.domain(world.tasks[task].pu) != world.domain(world.tasks[task + 8].pu))
            .count()
    };
    assert_eq!(apart(true), 0);
    assert!(apart(false) > 0, "processes hide the pairs");
}

#[test]
fn a_group_that_fits_nowhere_is_left_in_peace_after_two_trials() {
    let sharers = (0..16).fold(Builder::new(paper_machine()), |builder, task| {
        builder.sharer(100, task / 2 + 10 * (task % 2), 0, HUBENCH)
    });
    let mut world = sharers.world(ALL);
    let moves = world.run(500);
    let (last, _) = moves.last().unwrap();
    assert!(
        *last < 20 && moves.iter().any(|one| one.1.reason == Reason::RollBack),
        "{moves:?}"
    );
    let mut paper = (0..16)
        .fold(Builder::new(paper_machine()), |builder, task| {
            builder.sharer(100, task / 2 + 10 * (task % 2), 0, HUBENCH)
        })
        .world(MapperOptions::PAPER);
    assert!(
        paper.run(500).len() > 20 * moves.len(),
        "the paper's rules alone never settle"
    );
}

#[test]
fn a_group_that_gave_up_tries_again_when_others_have_gone() {
    // Gathered, the sharers drive the streamers onto one memory, and all together make less progress.
    let mut builder = Builder::new(machine(2, 1, 4, 1));
    for pu in [0, 1, 4, 5] {
        builder = builder.sharer(100, pu, 0, HUBENCH);
    }
    for pu in [2, 3, 6, 7] {
        builder = builder.streamer(200, pu, MEMBENCH);
    }
    let mut world = builder.world(ALL);
    let moves = world.run(500);
    assert!(moves.iter().any(|one| one.1.reason == Reason::RollBack), "{moves:?}");
    assert_eq!(world.spread(0..4), [2, 2], "{moves:?}");
    assert_eq!(world.run(500), []);
    world.tasks.truncate(4);
    let moves = world.run(50);
    assert_eq!(world.spread(0..4).iter().max(), Some(&4), "{moves:?}");
}

#[test]
fn pairs_of_one_process_find_each_other_on_a_full_machine() {
    // 20 tasks on 20 cores, all partners apart.
    let sharers = (0..20).fold(Builder::new(machine(2, 1, 10, 1)), |builder, task| {
        builder.sharer(100, task / 2 + 10 * (task % 2), task / 2, HUBENCH)
    });
    let mut world = sharers.world(ALL);
    let moves = world.run(500);
    let together =
        (0..10).filter(|&pair| world.node(world.tasks[2 * pair].pu) == world.node(world.tasks[2 * pair + 1].pu));
    assert_eq!(together.count(), 10, "{}", moves.len());
}

#[test]
fn a_move_after_which_progress_is_lower_is_rolled_back() {
    let mut world = hubench_spread(MapperOptions {
        validation: true,
        hysteresis: true,
        ..MapperOptions::PAPER
    });
    let moved = world.step();
    let before = world.tasks.clone();
    let mut rolled_back = vec![];
    for _ in 0..5 {
        let mut rates = world.rates();
        for one in &mut rates {
            one.progress = one.progress.map(|progress| progress / 2.0);
        }
        rolled_back.extend(world.mapper.decide(&rates).to_vec());
    }
    assert_eq!(rolled_back.len(), moved.len(), "{rolled_back:?} from {before:?}");
    assert!(rolled_back.iter().all(|made| made.reason == Reason::RollBack));
}

#[test]
fn a_task_that_linux_takes_from_its_memory_is_brought_back() {
    let mut world = Builder::new(machine(2, 1, 4, 1)).streamer(100, 0, MEMBENCH).world(ALL);
    world.run(3);
    world.tasks[0].pu = PuId(5);
    let moves = world.run(3);
    assert_eq!(
        moves.iter().filter(is_for(Reason::RemoteMemory)).count(),
        1,
        "{moves:?}"
    );
    assert_eq!(world.spread(0..1), [1, 0]);
}

#[test]
fn on_epyc_sharers_come_under_one_last_level_cache() {
    // Two packages of four core complexes with four cores.
    let sharers = (0..4).fold(Builder::new(machine(2, 4, 4, 2)), |builder, task| {
        builder.sharer(100, 4 * task, 0, HUBENCH)
    });
    let mut world = sharers.world(ALL);
    world.run(20);
    assert!(world.spread(0..4).contains(&4), "{:?}", world.spread(0..4));
}

#[test]
fn on_epyc_where_traffic_within_a_domain_is_not_counted_sharers_take_the_place_of_others() {
    // Two packages of two core complexes with four cores, all busy: two programs of four tasks that share, and two that
    // compute.
    let mut builder = Builder::new(machine(2, 2, 4, 1));
    for task in 0..16 {
        builder = match task % 4 {
            0 => builder.sharer(100, task, 0, HUBENCH),
            1 => builder.sharer(200, task, 1, HUBENCH),
            _ => builder.computer(300, task),
        };
    }
    let mut world = builder.world(ALL);
    for _ in 0..20 {
        let mut rates = world.rates();
        for one in &mut rates {
            one.intra = None;
        }
        for made in world.mapper.decide(&rates).to_vec() {
            world.tasks[usize::try_from(made.task.serial).unwrap()].pu = made.to;
        }
    }
    for process in [100, 200] {
        let tasks = world.tasks.iter().filter(|task| task.process == process);
        let mut domains: Vec<usize> = tasks.map(|task| world.domain(task.pu)).collect();
        domains.dedup();
        assert_eq!(domains.len(), 1, "{domains:?}");
    }
}

#[test]
fn nothing_is_moved_out_of_its_mask() {
    let mut world = hubench_spread(ALL);
    for task in &mut world.tasks {
        task.allowed = Arc::new([task.pu].into_iter().collect());
    }
    assert_eq!(world.run(20), []);
}

/// Eight tasks with less traffic than the threshold, four to a package.
fn faint_sharers() -> World {
    let sharers = (0..8).fold(Builder::new(paper_machine()), |builder, task| {
        builder.sharer(100, task / 2 + 10 * (task % 2), 0, 2e-4)
    });
    sharers.world(ALL)
}

#[test]
fn faint_sharers_who_get_more_done_together_stay_together() {
    let mut world = faint_sharers();
    let moves = world.run(100);
    let of = |reason: Reason| moves.iter().filter(move |(_, made)| made.reason == reason);
    assert_eq!((moves.len(), of(Reason::Coherence).count()), (8, 4), "{moves:?}");
    assert!(world.spread(0..8).contains(&8));
    // Those to whom they came are pinned where they are: otherwise the operating system could part them again.
    assert!(of(Reason::Keep).all(|(_, made)| made.from == made.to), "{moves:?}");
    let pinned: BTreeSet<u64> = moves.iter().map(|(_, made)| made.task.serial).collect();
    assert_eq!(pinned, (0..8).collect());
    assert!(world.mapper.released().is_empty());
}

#[test]
fn a_trial_in_which_the_operating_system_parts_the_sharers_is_no_failure() {
    let mut world = faint_sharers();
    let begun = loop {
        let moves = world.step();
        if !moves.is_empty() {
            break moves;
        }
    };
    // One of those to whom the others came leaves, and all get less done.
    let home = world.spread(0..8).iter().position(|&tasks| tasks == 8).unwrap();
    let moved: BTreeSet<u64> = begun.iter().map(|made| made.task.serial).collect();
    let stayed = (0..8).find(|serial| !moved.contains(serial)).unwrap();
    let left = std::mem::replace(
        &mut world.tasks[usize::try_from(stayed).unwrap()].pu,
        PuId(if home == 0 { 19 } else { 9 }),
    );
    let mut moves = vec![];
    for _ in 0..5 {
        let mut rates = world.rates();
        for one in &mut rates {
            one.progress = Some(0.5);
        }
        moves.extend(world.mapper.decide(&rates).to_vec());
    }
    assert!(
        moves.iter().all(|made| made.reason == Reason::RollBack) && moves.len() == 4,
        "{moves:?}"
    );
    for made in &moves {
        world.tasks[usize::try_from(made.task.serial).unwrap()].pu = made.to;
    }
    world.tasks[usize::try_from(stayed).unwrap()].pu = left;
    // They are tried again, although their traffic is the same.
    world.run(100);
    assert!(world.spread(0..8).contains(&8), "{:?}", world.spread(0..8));
}

#[test]
fn faint_sharers_who_get_no_more_done_together_go_back_and_are_left_in_peace() {
    let mut world = faint_sharers();
    let mut moves = vec![];
    let mut released = BTreeSet::new();
    for _ in 0..600 {
        let mut rates = world.rates();
        for one in &mut rates {
            one.progress = Some(1.0);
        }
        let made = world.mapper.decide(&rates).to_vec();
        released.extend(world.mapper.released());
        for one in &made {
            world.tasks[usize::try_from(one.task.serial).unwrap()].pu = one.to;
        }
        moves.extend(made);
    }
    let rolled_back = moves.iter().filter(|made| made.reason == Reason::RollBack).count();
    assert_eq!((moves.len(), rolled_back), (8, 4), "{moves:?}");
    assert_eq!(world.spread(0..8), [4, 4]);
    // The operating system places them again, as before.
    assert_eq!(released, moves.iter().map(|made| made.task).collect());
}

#[test]
fn faint_sharers_of_whom_it_is_unknown_what_they_get_done_are_not_tried() {
    let mut world = faint_sharers();
    for _ in 0..50 {
        let mut rates = world.rates();
        for one in &mut rates {
            one.progress = None;
        }
        assert_eq!(world.mapper.decide(&rates), []);
    }
}

#[test]
fn a_task_that_hardly_runs_changes_places_with_the_one_that_takes_its_pu() {
    // Two sharers on two packages of two cores, beside tasks that hardly run.
    let mut builder = Builder::new(machine(2, 1, 2, 1));
    for pu in [0, 2] {
        builder = builder.sharer(100, pu, 0, HUBENCH);
    }
    for pu in [1, 3] {
        builder = builder.computer(200, pu);
    }
    let mut world = builder.world(ALL);
    let mut moves = vec![];
    for _ in 0..2 {
        let mut rates = world.rates();
        for one in &mut rates[2..] {
            one.busy = 0.005;
        }
        moves.extend(world.mapper.decide(&rates).to_vec());
    }
    let made: Vec<_> = moves
        .iter()
        .map(|made| (made.task.serial, made.to.0, made.makes_room))
        .collect();
    assert_eq!(made, [(1, 1, false), (2, 2, true)], "{moves:?}");
}
