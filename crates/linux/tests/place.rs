//! Tasks run on the PUs of their ranks, and get everything back.

mod common;

use common::{
    Workshop, allowed, end, eventually, masks_of, pinned, plain, run, send, status_field, threads_of, two_pus,
};
use pinfold_core::{Configuration, Machine, Pinning, PuId, PuSet, TaskId};
use pinfold_linux::machine::LinuxMachine;
use std::path::PathBuf;
use std::time::Duration;

fn one(pu: PuId) -> PuSet {
    [pu].into_iter().collect()
}

fn texts(pus: &[PuId]) -> Vec<String> {
    pus.iter().map(PuId::to_string).collect()
}

/// Checks the output of `births` with its ranks pinned to the second and the first PU.
fn check_births(workshop: &Workshop, [first, second]: [PuId; 2]) {
    let lines = workshop.lines("out");
    let pus = |line: usize| lines[line][1..].to_vec();
    let everything: Vec<PuId> = allowed().iter().collect();
    assert_eq!(pus(0), texts(&everything), "the first thread before it created any");
    for (rank, pu) in [(1, first), (2, second), (3, first), (4, second)] {
        assert_eq!(pus(rank), texts(&[pu]), "the thread of rank {rank}");
    }
    assert_eq!(pus(5), texts(&[second]), "the first thread afterwards");
}

#[test]
fn a_thread_is_on_the_pu_of_its_rank_from_its_first_instruction() {
    let Some([first, second]) = two_pus() else { return };
    let workshop = Workshop::new();
    let command = [workshop.program("births"), workshop.file("out"), "4".into()];
    assert_eq!(run(pinned(command, &[second, first])).0, 0);
    check_births(&workshop, [first, second]);
}

#[test]
fn a_thread_of_a_static_program_is_too() {
    let Some([first, second]) = two_pus() else { return };
    let workshop = Workshop::new();
    let Some(program) = workshop.compiled("cc", "births", &["-pthread", "-static"]) else {
        pinfold_testing::skip("no static C library is installed");
        return;
    };
    let command = [program, workshop.file("out"), "4".into()];
    assert_eq!(run(pinned(command, &[second, first])).0, 0);
    check_births(&workshop, [first, second]);
}

#[test]
fn a_skipped_task_is_not_pinned_and_takes_no_rank() {
    let Some([first, second]) = two_pus() else { return };
    let workshop = Workshop::new();
    let command = [workshop.program("births"), workshop.file("out"), "3".into()];
    let mut launch = pinned(command, &[second, first]);
    launch.skipped = [1].into();
    run(launch);
    let lines = workshop.lines("out");
    let everything: Vec<PuId> = allowed().iter().collect();
    assert_eq!(lines[1][1..], texts(&everything));
    assert_eq!(lines[2][1..], texts(&[first]));
    assert_eq!(lines[3][1..], texts(&[second]));
}

/// A program whose first thread and two others wait forever.
fn lingering(workshop: &Workshop) -> [PathBuf; 3] {
    [workshop.program("linger"), workshop.file("out"), "2".into()]
}

#[test]
fn a_configuration_moves_the_tasks_and_gives_them_back() {
    let Some([first, second]) = two_pus() else { return };
    let workshop = Workshop::new();
    let mut machine = LinuxMachine::launch(plain(lingering(&workshop))).unwrap();
    let process = workshop.number("out");
    let tasks: Vec<TaskId> = machine.observe().tasks.iter().map(|task| task.id).collect();

    let mut configuration = Configuration {
        pinning: Pinning::new(vec![second, first]),
        ..Configuration::default()
    };
    let applied = machine.apply(&configuration);
    assert_eq!((applied.moved, applied.refused), (tasks.clone(), vec![]));
    assert_eq!(masks_of(process), [one(second), one(first), one(second)]);

    assert_eq!(machine.apply(&configuration).moved, []);

    // Without the second task, the third has rank 1. The second task gets its original mask.
    configuration.left_alone = [tasks[1]].into();
    assert_eq!(machine.apply(&configuration).moved, tasks[1..]);
    assert_eq!(masks_of(process), [one(second), allowed(), one(first)]);

    machine.apply(&Configuration::default());
    assert_eq!(masks_of(process), [allowed(), allowed(), allowed()]);
}

#[test]
fn a_task_that_has_a_pu_of_its_own_is_pinned_alone_and_given_back() {
    let Some([first, second]) = two_pus() else { return };
    let workshop = Workshop::new();
    let mut machine = LinuxMachine::launch(plain(lingering(&workshop))).unwrap();
    let process = workshop.number("out");
    let tasks: Vec<TaskId> = machine.observe().tasks.iter().map(|task| task.id).collect();
    let everything = allowed();

    let mut configuration = Configuration::default();
    for pu in [second, first] {
        configuration.tasks = [(tasks[1], pu)].into();
        let applied = machine.apply(&configuration);
        assert_eq!((applied.moved, applied.refused), (vec![tasks[1]], vec![]));
        assert_eq!(masks_of(process), [everything.clone(), one(pu), everything.clone()]);
    }
    machine.apply(&Configuration::default());
    assert_eq!(masks_of(process), [everything.clone(), everything.clone(), everything]);
}

#[test]
fn unpinned_tasks_are_limited_from_the_start_and_until_the_limit_is_lifted() {
    let Some([first, second]) = two_pus() else { return };
    let workshop = Workshop::new();
    let mut launch = plain(lingering(&workshop));
    launch.within = Some(one(second));
    let mut machine = LinuxMachine::launch(launch).unwrap();
    let process = workshop.number("out");
    let tasks: Vec<TaskId> = machine.observe().tasks.iter().map(|task| task.id).collect();
    let everything = allowed();
    assert_eq!(masks_of(process), [one(second), one(second), one(second)]);

    let limited = Configuration {
        within: Some(one(second)),
        ..Configuration::default()
    };
    assert_eq!(machine.apply(&limited).moved, []);
    assert_eq!(machine.apply(&Configuration::default()).moved, tasks);
    assert_eq!(
        masks_of(process),
        [everything.clone(), everything.clone(), everything.clone()]
    );

    // A pinned task may be outside the limit, and is limited when it is unpinned.
    let mut pinned = limited.clone();
    pinned.tasks = [(tasks[1], second)].into();
    assert_eq!(machine.apply(&pinned).moved, tasks);
    // Its mask is the same then.
    assert_eq!(machine.apply(&limited).moved, []);
    machine.apply(&Configuration::default());
    assert_eq!(masks_of(process), [everything.clone(), everything.clone(), everything]);
    machine.apply(&limited);
    let elsewhere = Configuration {
        pinning: Pinning::new(vec![first]),
        ..Configuration::default()
    };
    assert_eq!(machine.apply(&elsewhere).moved, tasks);
    assert_eq!(masks_of(process), [one(first), one(first), one(first)]);
    machine.apply(&limited);
    assert_eq!(masks_of(process), [one(second), one(second), one(second)]);

    let nowhere = Configuration {
        within: Some(PuSet::new()),
        ..Configuration::default()
    };
    let refused = machine.apply(&nowhere).refused;
    assert!(refused[0].why.contains("are not limited"), "{refused:?}");
    assert_eq!(masks_of(process), [one(second), one(second), one(second)]);
}

#[test]
fn a_task_that_chose_its_own_pus_is_not_limited() {
    let Some([first, second]) = two_pus() else { return };
    let workshop = Workshop::new();
    let command = [
        workshop.program("own_mask"),
        workshop.file("out"),
        first.to_string().into(),
    ];
    let mut machine = LinuxMachine::launch(plain(command)).unwrap();
    let process = workshop.number("out");
    let own = masks_of(process);
    machine.apply(&Configuration {
        within: Some(one(second)),
        ..Configuration::default()
    });
    let now = masks_of(process);
    for (before, now) in own.iter().zip(&now) {
        assert_eq!(
            *now,
            if *before == allowed() {
                one(second)
            } else {
                before.clone()
            }
        );
    }
    assert!(own.contains(&one(first)), "{own:?}");
}

#[test]
fn a_pu_that_the_program_may_not_use_is_refused_by_name() {
    let workshop = Workshop::new();
    let mut machine = LinuxMachine::launch(plain(lingering(&workshop))).unwrap();
    let process = workshop.number("out");
    let foreign = PuId(allowed().iter().next_back().unwrap().0 + 1);
    let configuration = Configuration {
        pinning: Pinning::new(vec![foreign]),
        ..Configuration::default()
    };
    let applied = machine.apply(&configuration);
    assert_eq!((applied.moved.len(), applied.refused.len()), (0, 3));
    assert!(applied.refused[0].why.contains(&format!("PU {foreign}")));
    assert_eq!(masks_of(process)[0], allowed());
}

#[test]
fn a_task_that_chose_its_own_pus_keeps_them_and_is_reported_once() {
    let Some([first, second]) = two_pus() else { return };
    let workshop = Workshop::new();
    let program = workshop.program("own_mask");
    let command = [program, workshop.file("out"), first.to_string().into()];
    let mut machine = LinuxMachine::launch(plain(command)).unwrap();
    let process = workshop.number("out");
    let configuration = Configuration {
        pinning: Pinning::new(vec![second]),
        ..Configuration::default()
    };
    let refused = machine.apply(&configuration).refused;
    assert_eq!((refused.len(), refused[0].task.unwrap().serial), (1, 1));
    assert_eq!(machine.apply(&configuration).refused, []);
    assert_eq!(masks_of(process), [one(second), one(first)]);
    machine.apply(&Configuration::default());
    assert_eq!(masks_of(process), [allowed(), one(first)]);
}

/// Launches `linger` so that its main process ends and a child of three threads continues.
fn survivors(workshop: &Workshop, keep_pinned: bool, pus: &[PuId]) -> i32 {
    let [program, out, threads] = lingering(workshop);
    let mut launch = pinned([program, out, threads, "leave".into()], pus);
    launch.keep_pinned = keep_pinned;
    let mut machine = LinuxMachine::launch(launch).unwrap();
    assert_eq!(end(&mut machine), 5);
    workshop.number("out")
}

fn is_free(process: i32) -> bool {
    threads_of(process).into_iter().all(|thread| {
        status_field(thread, "TracerPid").as_deref() == Some("0")
            && status_field(thread, "State").is_some_and(|state| !state.to_lowercase().starts_with('t'))
    })
}

#[test]
fn what_outlives_the_main_process_is_given_back_its_pus_and_goes_on() {
    let Some([first, second]) = two_pus() else { return };
    let workshop = Workshop::new();
    let process = survivors(&workshop, false, &[first, second]);
    assert_eq!(masks_of(process), [allowed(), allowed(), allowed()]);
    eventually("it goes on", || is_free(process));
    send(process, libc::SIGKILL);
}

#[test]
fn what_outlives_the_main_process_stays_pinned_where_that_is_wanted() {
    let Some([first, second]) = two_pus() else { return };
    let workshop = Workshop::new();
    let process = survivors(&workshop, true, &[first, second]);
    assert!(masks_of(process).iter().all(|mask| mask.len() == 1));
    eventually("it goes on", || is_free(process));
    send(process, libc::SIGKILL);
}

#[test]
fn a_stopped_survivor_stays_stopped_and_can_be_continued() {
    let workshop = Workshop::new();
    let stopped_child = "sh -c 'kill -STOP $$; exit 0' & echo $! >\"$0\"; \
                         until grep -q '^State:.[Tt]' /proc/$!/status; do :; done; exit 5";
    let command = ["sh".into(), "-c".into(), stopped_child.into(), workshop.file("out")];
    assert_eq!(run(plain(command)).0, 5);
    let process = workshop.number("out");
    assert_eq!(status_field(process, "TracerPid").as_deref(), Some("0"));
    eventually("it is stopped again", || {
        status_field(process, "State").is_some_and(|state| state.starts_with('T'))
    });
    send(process, libc::SIGCONT);
    eventually("it ends", || !common::lives(process));
}

#[test]
fn gccs_openmp_runtime_sees_all_pus_and_gets_a_thread_on_each() {
    check_team("cc", &["-fopenmp"]);
}

#[test]
fn llvms_openmp_runtime_sees_all_pus_and_its_threads_are_pinned_though_it_resets_their_masks() {
    let compiled = ["clang", "clang-14"]
        .into_iter()
        .any(|compiler| check_team(compiler, &["-fopenmp"]));
    if !compiled {
        pinfold_testing::skip("clang with OpenMP is not installed");
    }
}

/// Whether the compiler is installed. If so, checks the OpenMP program.
fn check_team(compiler: &str, flags: &[&str]) -> bool {
    let workshop = Workshop::new();
    let Some(program) = workshop.compiled(compiler, "team", flags) else {
        return false;
    };
    let pus: Vec<PuId> = allowed().iter().collect();
    let mut launch = pinned([program, workshop.file("out")], &pus);
    let settings = std::env::vars_os().map(|(name, _)| name).filter(|name| {
        let name = name.to_string_lossy();
        ["OMP_", "GOMP_", "KMP_"].iter().any(|prefix| name.starts_with(prefix))
    });
    launch.removed_environment = settings.collect();
    assert_eq!(run(launch).0, 0);
    let mut team = workshop.lines("out");
    team.sort_by_key(|line| line[1].parse::<u32>().unwrap());
    let expected: Vec<Vec<String>> = pus
        .iter()
        .map(|pu| vec![pus.len().to_string(), pu.to_string()])
        .collect();
    assert_eq!(team, expected);
    true
}

/// A process whose first thread is pinned, and that then starts or executes `births` with one thread. Returns the PUs
/// that its first thread saw.
fn births_of_a_pinned_process(how: &str) -> Option<Vec<String>> {
    let [_, second] = two_pus()?;
    let workshop = Workshop::new();
    let births = workshop.program("births");
    let command = [
        workshop.program("relay"),
        how.into(),
        births,
        workshop.file("out"),
        "1".into(),
    ];
    assert_eq!(run(pinned(command, &[second])).0, 0);
    let lines = workshop.lines("out");
    assert_eq!(lines[1][1..], texts(&[second]), "the second thread");
    Some(lines[0][1..].to_vec())
}

#[test]
fn a_program_that_a_pinned_process_executes_sees_all_pus_at_its_start() {
    let everything: Vec<PuId> = allowed().iter().collect();
    if let Some(seen) = births_of_a_pinned_process("exec") {
        assert_eq!(seen, texts(&everything));
    }
}

#[test]
fn a_program_that_a_pinned_process_begins_sees_all_pus_at_its_start() {
    let everything: Vec<PuId> = allowed().iter().collect();
    if let Some(seen) = births_of_a_pinned_process("spawn") {
        assert_eq!(seen, texts(&everything));
    }
}

#[test]
fn a_process_of_one_thread_is_pinned_when_its_time_to_ask_is_over() {
    let Some([_, second]) = two_pus() else { return };
    let workshop = Workshop::new();
    let command = [workshop.program("linger"), workshop.file("out"), "0".into()];
    let mut launch = pinned(command, &[second]);
    launch.grace = Duration::from_millis(1);
    let mut machine = LinuxMachine::launch(launch).unwrap();
    let process = workshop.number("out");
    eventually("it is pinned", || {
        machine.wait(Duration::from_millis(1)).unwrap();
        masks_of(process) == [one(second)]
    });
}

#[test]
fn a_first_thread_that_ends_before_the_others_frees_its_rank() {
    let Some([first, second]) = two_pus() else { return };
    let workshop = Workshop::new();
    let launch = plain([workshop.program("first_leaves"), workshop.file("out")]);
    let mut machine = LinuxMachine::launch(launch).unwrap();
    let process = workshop.number("out");
    eventually("its end is seen", || {
        machine
            .observe()
            .tasks
            .iter()
            .any(|task| task.id.thread == process && !task.alive)
    });
    machine.apply(&Configuration {
        pinning: Pinning::new(vec![first, second]),
        ..Configuration::default()
    });
    assert_eq!(masks_of(process)[1..], [one(first), one(second)]);
}
