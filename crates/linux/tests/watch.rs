//! Tasks that other programs have created, under the daemon: found, read, placed, and their masks restored in each
//! case.

mod common;

use common::{Workshop, allowed, eventually, send, two_pus, watch, watching, watching_process};
use pinfold_core::{
    Host, HostNoteCode, HostSample, LeftAlone, NodeId, NumaNode, Placed, ProcessGoal, ProcessPages, PuId, PuSet,
    RefusalCode, StayCode, TaskId, TopologyBuilder,
};
use pinfold_linux::affinity::CpuMask;
use pinfold_linux::counters::{Plan, Request};
use pinfold_linux::journal::{Directory, FoundJournal};
use pinfold_linux::watch::{Counts, PageLimits, Selection, Watcher, WatcherOptions};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;
use tempfile::TempDir;

/// A program of working threads, and its file.
struct TestProgram {
    child: Child,
    workshop: Workshop,
}

impl TestProgram {
    fn start(threads: usize) -> Self {
        let workshop = Workshop::new();
        let child = Command::new(workshop.program("watched"))
            .arg(workshop.file("numbers"))
            .arg(threads.to_string())
            .spawn()
            .unwrap();
        let program = Self { child, workshop };
        program.numbers(1 + threads);
        program
    }

    fn process(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// The numbers of its threads and children, once all of them exist.
    fn numbers(&self, many: usize) -> Vec<i32> {
        self.workshop.numbers(many)
    }
}

impl Drop for TestProgram {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Observes until the thread works. Returns its id and the sample.
fn until_it_works(watcher: &mut Watcher, thread: i32) -> (TaskId, HostSample) {
    let mut found = None;
    eventually("a thread is seen to work", || {
        let sample = watcher.observe();
        let task = sample.sample.tasks.iter().find(|task| task.id.thread == thread);
        found = task.map(|task| task.id).zip(Some(sample.clone()));
        found.is_some()
    });
    found.unwrap()
}

/// A program with one working thread that is watched and was seen to work.
struct Watched {
    watcher: Watcher,
    /// The directory of the journal.
    journals: TempDir,
    program: TestProgram,
    thread: i32,
    task: TaskId,
}

impl Watched {
    fn task() -> Self {
        let program = TestProgram::start(1);
        let thread = program.numbers(2)[1];
        let journals = tempfile::tempdir().unwrap();
        let mut watcher = watch(journals.path(), watching_process(program.process()));
        let (task, _) = until_it_works(&mut watcher, thread);
        Self {
            watcher,
            journals,
            program,
            thread,
            task,
        }
    }
}

fn mask(thread: i32) -> PuSet {
    CpuMask::read(thread).unwrap().to_set()
}

fn only(pu: PuId) -> PuSet {
    [pu].into_iter().collect()
}

fn status(sample: &HostSample, task: TaskId) -> &pinfold_core::TaskStatus {
    let position = sample.sample.tasks.iter().position(|one| one.id == task).unwrap();
    &sample.statuses[position]
}

#[test]
fn a_task_is_placed_and_its_mask_is_restored_at_the_end() {
    let Some([first, second]) = two_pus() else { return };
    let mut watched = Watched::task();
    assert_eq!(watched.watcher.place(watched.task, first), Placed::Done);
    assert_eq!(mask(watched.thread), only(first));
    assert_eq!(watched.watcher.place(watched.task, second), Placed::Done);
    let sample = until_it_works(&mut watched.watcher, watched.thread).1;
    assert_eq!(status(&sample, watched.task).pinned, Some(second));
    let rolled_back = watched.watcher.end();
    assert_eq!((rolled_back.calls.len(), rolled_back.problems()), (1, vec![]));
    assert_eq!(mask(watched.thread), allowed());
    drop(watched.watcher);
    assert_eq!(fs::read_dir(watched.journals.path()).unwrap().count(), 0);
}

#[test]
fn a_panic_restores_everything() {
    let Some([first, _]) = two_pus() else { return };
    let watched = Watched::task();
    let (mut watcher, thread, task) = (watched.watcher, watched.thread, watched.task);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        assert_eq!(watcher.place(task, first), Placed::Done);
        assert_eq!(mask(thread), only(first));
        panic!("as wanted");
    }));
    assert!(panicked.is_err());
    assert_eq!(mask(thread), allowed());
}

#[test]
fn threads_and_children_of_a_pinned_task_are_unpinned_when_they_are_found() {
    let Some([first, _]) = two_pus() else { return };
    let program = TestProgram::start(0);
    let journals = tempfile::tempdir().unwrap();
    let mut watcher = watch(journals.path(), watching_process(program.process()));
    watcher.observe();
    let main = TaskId {
        serial: 0,
        process: program.process(),
        thread: program.process(),
    };
    assert_eq!(watcher.place(main, first), Placed::Done);
    send(program.process(), libc::SIGUSR1);
    send(program.process(), libc::SIGUSR2);
    let created = program.numbers(3);
    assert_eq!((mask(created[1]), mask(created[2])), (only(first), only(first)));
    eventually("they are met", || {
        watcher.observe();
        mask(created[1]) == allowed() && mask(created[2]) == allowed()
    });
    assert_eq!(mask(program.process()), only(first));
    assert_eq!(watcher.statistics().freed, 2);
}

#[test]
fn a_child_created_before_its_parent_moved_is_unpinned() {
    let Some([first, second]) = two_pus() else { return };
    let program = TestProgram::start(0);
    let journals = tempfile::tempdir().unwrap();
    let mut watcher = watch(journals.path(), watching_process(program.process()));
    watcher.observe();
    let main = TaskId {
        serial: 0,
        process: program.process(),
        thread: program.process(),
    };
    watcher.place(main, first);
    send(program.process(), libc::SIGUSR2);
    let child = program.numbers(2)[1];
    watcher.place(main, second);
    assert_eq!(mask(child), only(first));
    watcher.observe();
    assert_eq!(mask(child), allowed());
}

#[test]
fn a_child_that_runs_an_unwatched_program_is_unpinned() {
    let Some([first, _]) = two_pus() else { return };
    let mut shell = Command::new("sh")
        .args(["-c", "read go; sleep 1000 & echo $!; wait"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let journals = tempfile::tempdir().unwrap();
    let shells = Selection {
        names: vec!["sh".to_owned()],
        except: vec!["sleep".to_owned()],
        ..Selection::default()
    };
    let mut watcher = watch(journals.path(), watching(shells));
    let process = shell.id().cast_signed();
    eventually("the shell is met", || {
        watcher.observe();
        watcher.task_of(process).is_some()
    });
    let task = watcher.task_of(process).unwrap();
    assert_eq!(watcher.place(task, first), Placed::Done);
    shell.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let mut line = String::new();
    let mut said = BufReader::new(shell.stdout.take().unwrap());
    said.read_line(&mut line).unwrap();
    let child: i32 = line.trim().parse().unwrap();
    eventually("its child is free", || {
        watcher.observe();
        mask(child) == allowed()
    });
    assert_eq!(mask(process), only(first));
    send(-process, libc::SIGKILL);
    let _ = shell.wait();
}

#[test]
fn tasks_created_until_the_end_are_unpinned_at_the_end() {
    let Some([first, _]) = two_pus() else { return };
    let program = TestProgram::start(0);
    let journals = tempfile::tempdir().unwrap();
    let mut watcher = watch(journals.path(), watching_process(program.process()));
    watcher.observe();
    let main = TaskId {
        serial: 0,
        process: program.process(),
        thread: program.process(),
    };
    watcher.place(main, first);
    send(program.process(), libc::SIGUSR1);
    send(program.process(), libc::SIGUSR2);
    let created = program.numbers(3);
    drop(watcher);
    for thread in created {
        assert_eq!(mask(thread), allowed());
    }
}

#[test]
fn a_mask_that_changes_after_ours_is_never_overwritten() {
    let Some([first, second]) = two_pus() else { return };
    let mut watched = Watched::task();
    watched.watcher.place(watched.task, first);
    CpuMask::single(second).apply_to(watched.thread).unwrap();
    // Before the task was observed, and after.
    for _ in 0..2 {
        let Placed::Refused(reason) = watched.watcher.place(watched.task, first) else {
            panic!("a mask that is another's was overwritten");
        };
        assert_eq!(reason.code, StayCode::OwnMask);
        assert!(reason.why.contains(&second.to_string()), "{reason:?}");
        let sample = until_it_works(&mut watched.watcher, watched.thread).1;
        assert_eq!(status(&sample, watched.task).left_alone, Some(LeftAlone::OwnMask));
    }
    assert_eq!(watched.watcher.statistics().changed_by_others, 1);
    let notes = watched.watcher.take_notes();
    assert_eq!(notes.len(), 1);
    assert_eq!(notes[0].code, HostNoteCode::MaskTakenOver);
    drop(watched.watcher);
    assert_eq!(mask(watched.thread), only(second));
}

#[test]
fn a_task_whose_mask_is_reset_may_be_placed_again() {
    let Some([first, _]) = two_pus() else { return };
    let mut watched = Watched::task();
    watched.watcher.place(watched.task, first);
    CpuMask::from(&allowed()).apply_to(watched.thread).unwrap();
    let sample = until_it_works(&mut watched.watcher, watched.thread).1;
    let status = status(&sample, watched.task);
    assert_eq!(status.pinned, None);
    if fs::read_to_string("/sys/devices/system/cpu/online").unwrap().trim() == allowed().to_string() {
        assert_eq!(status.left_alone, None);
        assert_eq!(watched.watcher.place(watched.task, first), Placed::Done);
    }
}

#[test]
fn a_thread_with_an_own_mask_is_left_alone_from_the_start() {
    let Some([first, _]) = two_pus() else { return };
    let program = TestProgram::start(1);
    let thread = program.numbers(2)[1];
    CpuMask::single(first).apply_to(thread).unwrap();
    let journals = tempfile::tempdir().unwrap();
    let mut watcher = watch(journals.path(), watching_process(program.process()));
    let (task, sample) = until_it_works(&mut watcher, thread);
    assert_eq!(status(&sample, task).left_alone, Some(LeftAlone::OwnMask));
    assert!(matches!(watcher.place(task, first), Placed::Refused(_)));
}

/// Gives a thread real-time priority. Returns whether that is possible on this machine.
fn give_real_time_priority(thread: i32) -> bool {
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: the kernel reads the parameters.
    let result = unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            thread,
            libc::SCHED_RR,
            &raw const parameters,
        )
    };
    if result != 0 {
        pinfold_testing::skip("no task can get real-time priority on this machine");
    }
    result == 0
}

#[test]
fn a_pinned_task_with_new_real_time_priority_is_unpinned() {
    let Some([first, _]) = two_pus() else { return };
    let program = TestProgram::start(1);
    let thread = program.numbers(2)[1];
    let journals = tempfile::tempdir().unwrap();
    let mut watcher = watch(journals.path(), watching_process(program.process()));
    let (task, _) = until_it_works(&mut watcher, thread);
    assert_eq!(watcher.place(task, first), Placed::Done);
    if !give_real_time_priority(thread) {
        return;
    }
    eventually("the task is set free", || {
        watcher.observe();
        mask(thread) == allowed()
    });
}

#[test]
fn a_task_with_real_time_priority_is_never_moved() {
    let Some([first, _]) = two_pus() else { return };
    let program = TestProgram::start(1);
    let thread = program.numbers(2)[1];
    let journals = tempfile::tempdir().unwrap();
    let mut watcher = watch(journals.path(), watching_process(program.process()));
    let (task, _) = until_it_works(&mut watcher, thread);
    if !give_real_time_priority(thread) {
        return;
    }
    let Placed::Refused(reason) = watcher.place(task, first) else {
        panic!("a task with real-time priority was moved");
    };
    assert_eq!(reason.code, StayCode::RealTime);
    assert_eq!(mask(thread), allowed());
    // A task that has it when it is found.
    drop(watcher);
    let journals = tempfile::tempdir().unwrap();
    let mut watcher = watch(journals.path(), watching_process(program.process()));
    let (task, sample) = until_it_works(&mut watcher, thread);
    assert_eq!(status(&sample, task).left_alone, Some(LeftAlone::RealTime));
}

#[test]
fn a_task_that_dies_between_observing_and_placing_is_gone() {
    let mut watched = Watched::task();
    drop(watched.program);
    let pu = allowed().first().unwrap();
    assert_eq!(watched.watcher.place(watched.task, pu), Placed::Gone);
    let sample = watched.watcher.observe();
    assert!(sample.sample.tasks.is_empty());
    watched.watcher.observe();
    assert_eq!(
        (watched.watcher.observe().watched, watched.watcher.statistics().ended),
        (0, 2)
    );
}

/// Makes only the calling thread a user without privileges.
fn become_nobody() {
    // SAFETY: plain system calls. The C library's functions would act on all threads.
    let result = unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) };
    assert_eq!(result, 0);
}

#[test]
fn a_task_that_may_not_be_moved_is_reported_once_and_left_alone() {
    let Some([first, _]) = two_pus() else { return };
    if !nix::unistd::geteuid().is_root() {
        pinfold_testing::skip("only root can become another user");
        return;
    }
    let program = TestProgram::start(2);
    let threads = program.numbers(3);
    let journals = tempfile::tempdir().unwrap();
    let mut watcher = watch(journals.path(), watching_process(program.process()));
    let tasks = [threads[1], threads[2]].map(|thread| until_it_works(&mut watcher, thread).0);
    // A separate thread, so that the other tests stay root.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            become_nobody();
            for task in tasks {
                assert!(matches!(watcher.place(task, first), Placed::Refused(_)));
            }
            let sample = until_it_works(&mut watcher, tasks[0].thread).1;
            assert_eq!(status(&sample, tasks[0]).left_alone, Some(LeftAlone::Forbidden));
            let notes = watcher.take_notes();
            assert!(notes.len() == 1 && notes[0].text.contains("CAP_SYS_NICE"), "{notes:?}");
            assert_eq!(notes[0].code, HostNoteCode::NotMovable);
            assert_eq!(watcher.statistics().not_movable, 2);
        });
    });
    drop(watcher);
    assert_eq!(mask(threads[1]), allowed());
    assert_eq!(fs::read_dir(journals.path()).unwrap().count(), 0);
}

#[test]
fn a_task_that_sleeps_for_long_is_unpinned() {
    let Some([first, _]) = two_pus() else { return };
    let program = TestProgram::start(1);
    let thread = program.numbers(2)[1];
    let journals = tempfile::tempdir().unwrap();
    let soon = WatcherOptions {
        release_after: Duration::from_millis(1),
        ..watching_process(program.process())
    };
    let mut watcher = watch(journals.path(), soon);
    let (task, _) = until_it_works(&mut watcher, thread);
    watcher.place(task, first);
    send(program.process(), libc::SIGSTOP);
    eventually("it is released", || {
        watcher.observe();
        mask(thread) == allowed()
    });
}

#[test]
fn software_events_are_counted_for_tasks_that_work() {
    let Ok(plan) = Plan::new(&[Request::Event("task-clock".to_owned())]) else {
        pinfold_testing::skip("no events can be counted on this machine");
        return;
    };
    let program = TestProgram::start(1);
    let thread = program.numbers(2)[1];
    let journals = tempfile::tempdir().unwrap();
    let counted = WatcherOptions {
        counts: Counts {
            plan: Some(plan),
            ..Counts::default()
        },
        ..watching_process(program.process())
    };
    let mut watcher = watch(journals.path(), counted);
    eventually("the event is counted", || {
        let (task, sample) = until_it_works(&mut watcher, thread);
        let count = sample.sample.task(task).unwrap().counts[0];
        count.is_some_and(|count| count.value > 0)
    });
}

#[test]
fn the_changes_of_a_killed_daemon_are_rolled_back_from_the_journal() {
    let Some([first, _]) = two_pus() else { return };
    let program = TestProgram::start(1);
    let thread = program.numbers(2)[1];
    let journals = tempfile::tempdir().unwrap();
    let directory = Directory::new(journals.path()).unwrap();
    let mut watcher = watch(journals.path(), watching_process(program.process()));
    let (task, _) = until_it_works(&mut watcher, thread);
    watcher.place(task, first);
    // A copy of the file as a kill at this moment would leave it.
    let file = fs::read_dir(journals.path()).unwrap().next().unwrap().unwrap().path();
    let left = fs::read(&file).unwrap();
    drop(watcher);
    CpuMask::single(first).apply_to(thread).unwrap();
    fs::write(journals.path().join("1-0.journal"), left).unwrap();
    let found = directory.survey().unwrap().pop().unwrap();
    let FoundJournal::Left(left) = found else {
        panic!("{found:?}")
    };
    assert_eq!(
        left.roll_back(&pinfold_linux::journal::Roots::default(), false)
            .failed(),
        0
    );
    assert_eq!(mask(thread), allowed());
}

#[test]
fn two_thousand_tasks_are_found_and_followed_to_their_end() {
    let children: Vec<Child> = (0..4)
        .map(|_| {
            let script = "i=0; while [ $i -lt 500 ]; do sleep 1000 & i=$((i+1)); done; wait";
            Command::new("sh")
                .args(["-c", script])
                .process_group(0)
                .spawn()
                .unwrap()
        })
        .collect();
    let journals = tempfile::tempdir().unwrap();
    let all = Selection {
        processes: children.iter().map(|child| child.id().cast_signed()).collect(),
        ..Selection::default()
    };
    let counted = WatcherOptions {
        counts: Counts {
            plan: Plan::new(&[Request::Event("task-clock".to_owned())]).ok(),
            ..Counts::default()
        },
        ..watching(all)
    };
    let mut watcher = watch(journals.path(), counted);
    eventually("all are met", || watcher.observe().watched == 2004);
    // Sleeping tasks have no counters, and some may have to be read without an open file. None is lost.
    assert!(watcher.observe().sample.tasks.len() < 2004);
    for child in &children {
        send(-child.id().cast_signed(), libc::SIGKILL);
    }
    for mut child in children {
        let _ = child.wait();
    }
    eventually("all are struck out", || watcher.observe().watched == 0);
    assert_eq!(watcher.statistics().ended, watcher.statistics().found);
}

/// The result of a page migration of a process, as soon as it is known.
fn page_moves(watcher: &mut Watcher) -> ProcessPages {
    let mut moves = vec![];
    eventually("pages have moved", || {
        moves = watcher.take_page_moves();
        !moves.is_empty()
    });
    assert!(!watcher.are_pages_under_way());
    assert_eq!(moves.len(), 1);
    moves.remove(0)
}

/// A program with one working thread and its watcher, on a machine with all PUs on one node.
fn on_node(node: u32, pages: PageLimits, journals: &Path) -> (TestProgram, Watcher) {
    let mut builder = TopologyBuilder::new("one node");
    let root = builder.root();
    for pu in allowed().iter() {
        builder.pu(root, pu);
    }
    builder.node(NumaNode {
        id: NodeId(node),
        attached_to: root,
        pus: allowed(),
        memory: Some(1 << 30),
        subtype: None,
    });
    let program = TestProgram::start(1);
    let on_node = WatcherOptions {
        topology: builder.build_all().unwrap(),
        pages,
        ..watching_process(program.process())
    };
    let mut watcher = watch(journals, on_node);
    until_it_works(&mut watcher, program.numbers(2)[1]);
    (program, watcher)
}

#[test]
fn pages_follow_a_process_and_go_back() {
    let journals = tempfile::tempdir().unwrap();
    let (program, mut watcher) = on_node(0, PageLimits::default(), journals.path());
    for (goal, text) in [
        (ProcessGoal::Tasks, "after their threads"),
        (ProcessGoal::Interleave, "interleave"),
    ] {
        let followed = BTreeMap::from([(program.process(), goal)]);
        watcher.follow(&followed);
        assert!(watcher.are_pages_under_way());
        let brought = page_moves(&mut watcher);
        let moves = brought.result.unwrap();
        assert_eq!((brought.process, moves.goal.as_str()), (program.process(), text));
        assert!(moves.in_place.pages > 0, "{moves}");
        // No task was pinned in between.
        watcher.follow(&followed);
        assert!(!watcher.are_pages_under_way());
    }
    watcher.follow(&BTreeMap::new());
    assert_eq!(page_moves(&mut watcher).result.unwrap().goal, "back to where they were");
}

#[test]
fn a_process_that_has_ended_has_no_pages() {
    let journals = tempfile::tempdir().unwrap();
    let (program, mut watcher) = on_node(0, PageLimits::default(), journals.path());
    watcher.follow(&BTreeMap::from([(program.process(), ProcessGoal::Tasks)]));
    page_moves(&mut watcher).result.unwrap();
    drop(program);
    watcher.follow(&BTreeMap::new());
    let moves = page_moves(&mut watcher).result.unwrap();
    assert_eq!((moves.moved.pages, moves.in_place.pages), (0, 0), "{moves}");
}

#[test]
fn pages_that_take_too_long_stay() {
    let journals = tempfile::tempdir().unwrap();
    let limits = PageLimits {
        within: Duration::ZERO,
        ..PageLimits::default()
    };
    // All pages are on another node, wherever they are.
    let (program, mut watcher) = on_node(63, limits, journals.path());
    watcher.follow(&BTreeMap::from([(program.process(), ProcessGoal::Tasks)]));
    let refused = page_moves(&mut watcher).result.unwrap_err();
    assert_eq!(refused.code, RefusalCode::PagesTooLong);
    assert!(refused.why.contains("would take about"), "{}", refused.why);
}
