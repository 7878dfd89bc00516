use super::*;
use pinfold_core::function::FoundFunction;
use pinfold_core::{Excess, MappingCode, MappingComparison, MoveReason, ProcessGain};
use pinfold_runtime::TimedComparison;
use pinfold_runtime::daemon::state::{
    Container, MachineState, Moves, Present, Progress, ScheduledTask, Settings, Totals,
};
use std::collections::BTreeMap;

fn task(thread: i32, pu: u32, busy: f64) -> Task {
    Task {
        process: 40,
        thread,
        name: format!("solver{thread}"),
        pu: Some(pu),
        pinned: None,
        allowed: "0-3".to_owned(),
        left_alone: None,
        busy: Some(busy),
        rates: BTreeMap::from([
            (Activity::InterPackageCoherence, Some(0.0012)),
            (Activity::MemoryBandwidth, None),
        ]),
        last_move: None,
        container: None,
        scheduled: None,
    }
}

/// Two packages of two cores, and these tasks.
fn state(tasks: Vec<Task>) -> State {
    let package = |index: u32| Package {
        index: Some(index),
        nodes: vec![index],
        cores: (0..2)
            .map(|core| Core {
                index: Some(core),
                pus: vec![index * 2 + core],
            })
            .collect(),
    };
    State {
        process: 7,
        at: 90.0,
        settings: Settings {
            interval: 0.1,
            metric: "sharing".to_owned(),
            assumed: true,
            ..Settings::default()
        },
        machine: MachineState {
            name: "pair".to_owned(),
            packages: vec![package(0), package(1)],
        },
        totals: Totals {
            present: Present {
                watched: 30,
                working: tasks.len() as u64,
                ..Present::default()
            },
            moves: vec![Moves {
                reason: MoveReason::Coherence,
                outcome: OutcomeCode::Made,
                count: 3,
            }],
            ..Totals::default()
        },
        tasks,
        ..State::default()
    }
}

fn drawn(state: &State) -> String {
    plain(state, &View::default(), 110, height(state, 110))
}

#[test]
fn each_task_is_drawn_on_its_pu_and_listed_in_the_table() {
    let text = drawn(&state(vec![task(41, 0, 0.5), task(42, 3, 0.99)]));
    assert!(
        text.contains("package 0, node 0") && text.contains("package 1, node 1"),
        "{text}"
    );
    assert!(
        text.contains("core 0: 0 solver41") && text.contains("core 1: 3 solver42"),
        "{text}"
    );
    assert!(text.contains("core 1: 1 ·"), "{text}");
    assert!(text.contains("30 tasks watched, 2 work"), "{text}");
    assert!(text.contains("3 moves (3 coherence)"), "{text}");
    // The busiest task comes first.
    let rows: Vec<&str> = text.lines().skip_while(|line| !line.contains("PID")).skip(1).collect();
    assert!(rows[0].contains("solver42") && rows[1].contains("solver41"), "{text}");
}

#[test]
fn the_last_comparison_and_the_time_of_withdrawn_moves_are_shown() {
    let mut one = state(vec![task(41, 0, 0.5)]);
    let comparison = MappingComparison {
        outcome: MappingCode::Kept,
        turns: 2,
        followed: vec![],
        processes: [(7, 0.25), (8, -0.004)]
            .map(|(process, gain)| ProcessGain {
                process,
                gain,
                error: 0.001,
            })
            .to_vec(),
        pause: None,
    };
    one.comparison = Some(TimedComparison { at: 12.0, comparison });
    let text = plain(&one, &View::default(), 130, height(&one, 130));
    assert!(text.contains("compared at 12 s: least gain -0.4 %"), "{text}");
    one.comparison.as_mut().unwrap().comparison.pause = Some(78.0);
    one.withdrawn = true;
    let text = plain(&one, &View::default(), 130, height(&one, 130));
    assert!(text.contains("withdrawn until 90 s: least gain -0.4 %"), "{text}");
}

#[test]
fn the_pages_that_were_moved_are_shown() {
    let mut one = state(vec![task(41, 0, 0.5)]);
    one.totals.pages.bytes = 64 << 20;
    let text = plain(&one, &View::default(), 130, height(&one, 130));
    assert!(text.contains("3 moves (3 coherence), 64 MiB of pages"), "{text}");
}

#[test]
fn an_unavailable_rate_is_a_dash_and_not_zero() {
    let text = drawn(&state(vec![task(41, 0, 0.5)]));
    let row = text.lines().last().unwrap();
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(words[3..], ["0", "50", "1.2e-3", "-", "-", "-"], "{text}");
}

#[test]
fn the_last_move_and_its_reason_are_shown() {
    let mut moved = task(41, 2, 0.5);
    moved.pinned = Some(2);
    moved.last_move = Some(LastMove {
        at: 85.0,
        from: 0,
        to: 2,
        reason: MoveReason::Coherence,
        makes_room: false,
        excess: Some(Excess {
            activity: Activity::InterPackageCoherence,
            value: 1.0,
            threshold: 0.25,
        }),
        outcome: OutcomeCode::Made,
        refused: None,
    });
    let text = drawn(&state(vec![moved]));
    assert!(
        text.contains("2*") && text.contains("0→2 5 s ago: coherence 1.000 > 0.250"),
        "{text}"
    );
}

#[test]
fn a_real_time_task_is_shown_as_real_time() {
    let mut task = task(41, 2, 0.5);
    task.left_alone = Some(LeftAlone::RealTime);
    let text = drawn(&state(vec![task]));
    assert!(text.contains("left alone: real-time"), "{text}");
}

#[test]
fn an_assumption_is_marked() {
    assert!(drawn(&state(vec![])).contains("by sharing, assumed and not measured"));
}

#[test]
fn a_small_terminal_is_drawn_without_a_panic() {
    let state = state(vec![task(41, 0, 0.5)]);
    for (width, height) in [(1, 1), (10, 3), (40, 5), (200, 2)] {
        plain(&state, &View::default(), width, height);
    }
}

#[test]
fn a_narrow_terminal_has_fewer_columns_and_whole_numbers() {
    let mut one = task(4_194_301, 2, 0.5);
    one.process = 4_194_300;
    let state = state(vec![one]);
    for (width, columns) in [
        (110, "PID TID NAME PU %CPU INTER INTRA REMOTE MEMORY WHY"),
        (80, "PID TID NAME PU %CPU INTER REMOTE WHY"),
        (60, "PID TID NAME PU %CPU WHY"),
        (40, "PID NAME PU %CPU"),
    ] {
        let text = plain(&state, &View::default(), width, height(&state, width));
        let mut lines = text.lines().skip_while(|line| !line.contains("PID"));
        let words: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
        assert_eq!(words.join(" "), columns, "{text}");
        assert!(lines.next().unwrap().starts_with("4194300 "), "{text}");
    }
}

#[test]
fn what_measures_progress_is_a_column_where_the_daemon_chose_it() {
    let mut one = state(vec![task(41, 0, 0.5), task(42, 1, 0.4), task(43, 2, 0.3)]);
    (one.tasks[1].process, one.tasks[2].process) = (50, 60);
    let function = |name: &str| FoundFunction {
        name: name.to_owned(),
        file: "solver".to_owned(),
        calls_per_second: 100.0,
        threads: 2,
        spread: 0.1,
        cost: 0.001,
    };
    let progress = |process, by, function| Progress {
        process,
        by,
        function,
        why: None,
    };
    one.progress = vec![
        progress(one.tasks[0].process, ProgressCode::Function, Some(function("step"))),
        progress(one.tasks[1].process, ProgressCode::Bytes, None),
    ];
    let wide = |one: &State| plain(one, &View::default(), 150, height(one, 150));
    let text = wide(&one);
    assert!(text.contains(" PROGRESS "), "{text}");
    for expected in ["step()", "bytes"] {
        assert!(text.contains(expected), "{text}");
    }
    one.progress[0].function = Some(function(&"solver::".repeat(9)));
    assert!(wide(&one).contains("solver::solver::solve…()"));
    one.progress.clear();
    assert!(!wide(&one).contains("PROGRESS"));
}

#[test]
fn the_container_is_a_column_where_a_task_is_in_one() {
    let mut inside = task(41, 0, 0.5);
    inside.container = Some(Container {
        text: "web-7d4b9c8f6d-x2kfp/nginx".to_owned(),
        ..Container::default()
    });
    let text = drawn(&state(vec![inside.clone(), task(42, 1, 0.4)]));
    assert!(text.contains(" CONTAINER "), "{text}");
    assert!(text.contains("solver41        web-7d4b9c8f6d-x2kfp/nginx 0 "), "{text}");
    assert!(text.contains("solver42        -                          1 "), "{text}");
    assert!(!drawn(&state(vec![task(42, 1, 0.4)])).contains("CONTAINER"));
    // The end of a long name tells one container from another.
    inside.container.as_mut().unwrap().text = "0123456789".repeat(5) + "/nginx";
    let text = drawn(&state(vec![inside]));
    assert!(text.contains("…5678901234567890123456789/nginx "), "{text}");
}

#[test]
fn the_keys_are_listed_where_keys_are_accepted() {
    let view = View {
        keys: true,
        ..View::default()
    };
    let state = state(vec![]);
    let live = plain(&state, &view, 80, 20);
    assert!(live.contains("q quit  p pause  s sort (by busy)"), "{live}");
    assert!(!drawn(&state).contains("q quit"));
}

#[test]
fn a_scheduler_has_a_line_and_its_tasks_a_column() {
    let mut one = state(vec![task(41, 0, 0.5), task(42, 3, 0.99)]);
    assert!(!drawn(&one).contains(PREFERRED));
    one.tasks[0].scheduled = Some(ScheduledTask {
        preferred_share: Some(0.973),
        ..ScheduledTask::default()
    });
    one.scheduler = Some(SchedulerState {
        preferring_seconds: 200.0,
        preferred_seconds: 197.0,
        waited_seconds: 3.0,
        longest_wait: 0.014,
        taken_elsewhere: 5,
        ..SchedulerState::default()
    });
    let text = drawn(&one);
    assert!(
        text.contains("98.5 % of run time in preferred caches; 3 s waited, 14 ms at most; 5 taken"),
        "{text}"
    );
    assert!(!text.contains("beside idle"), "{text}");
    assert!(text.contains(PREFERRED) && text.contains(" 97 "), "{text}");
    one.scheduler.as_mut().unwrap().waited_beside_idle = 2;
    let text = plain(&one, &View::default(), 140, height(&one, 140));
    assert!(
        text.contains("5 taken elsewhere, 2 waited beside idle CPUs; 0 pairs"),
        "{text}"
    );
}

#[test]
fn the_partner_of_a_task_is_the_one_with_the_most_wake_ups() {
    let mut one = state(vec![task(41, 0, 0.5), task(42, 3, 0.99)]);
    let pair = |threads, per_second| WakingPair { threads, per_second };
    one.scheduler = Some(SchedulerState {
        pairs: vec![pair((41, 77), 320.4), pair((41, 50), 12.0)],
        ..SchedulerState::default()
    });
    let text = plain(&one, &View::default(), 130, height(&one, 130));
    assert!(
        text.contains(PARTNER) && text.contains("77 320/s") && !text.contains("12/s"),
        "{text}"
    );
    one.scheduler = Some(SchedulerState::default());
    assert!(!drawn(&one).contains(PARTNER));
}
