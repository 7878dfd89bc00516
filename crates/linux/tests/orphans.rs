//! Children of pinned tasks whose creators have ended, so that `/proc` does not show whose children they were.
//!
//! The tests run one after the other: each would mistake another's orphans for its own.

mod common;

use common::{allowed, eventually, send, two_pus, watch, watching};
use pinfold_core::{Host, Placed, PuId, PuSet, TaskId};
use pinfold_linux::affinity::CpuMask;
use pinfold_linux::journal::{Directory, Found, Roots};
use pinfold_linux::watch::{ForkEvents, Selection, Watcher};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn mask(thread: i32) -> PuSet {
    CpuMask::of_thread(thread).unwrap().to_set()
}

fn only(pu: PuId) -> PuSet {
    [pu].into_iter().collect()
}

/// A shell that starts a command through a process that ends at once, so that `/proc` does not show whose child it is.
struct Orphans {
    shell: Child,
    said: BufReader<std::process::ChildStdout>,
}

impl Orphans {
    fn start(command: &str) -> Self {
        let mut shell = Command::new("sh")
            .args(["-c", &format!("while read go; do ({command} & echo $!); done")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let said = BufReader::new(shell.stdout.take().unwrap());
        Self { shell, said }
    }

    fn process(&self) -> i32 {
        self.shell.id().cast_signed()
    }

    /// The number of another orphan. `None` if a process that the rule does not know adopts it.
    fn another(&mut self) -> Option<i32> {
        self.shell.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        let orphan: i32 = line.trim().parse().unwrap();
        let parent = || common::status_field(orphan, "PPid").unwrap();
        eventually("its creator has ended", || {
            let name = common::status_field(parent().parse().unwrap(), "Name");
            name.is_some_and(|name| name != "sh")
        });
        let adopted = parent() == "1";
        if !adopted {
            pinfold_testing::skip(format_args!("orphans get process {} as their parent here", parent()));
        }
        adopted.then_some(orphan)
    }
}

impl Drop for Orphans {
    fn drop(&mut self) {
        send(-self.process(), libc::SIGKILL);
        let _ = self.shell.wait();
    }
}

/// Watches processes of these names, and waits until the shell is found.
fn watch_names(journals: &Path, names: &[&str], shell: i32) -> (Watcher, TaskId) {
    let named = Selection {
        names: names.iter().map(|&name| name.to_owned()).collect(),
        ..Selection::default()
    };
    let mut watcher = watch(journals, watching(named));
    eventually("the shell is met", || {
        watcher.observe();
        watcher.task_of(shell).is_some()
    });
    let task = watcher.task_of(shell).unwrap();
    (watcher, task)
}

#[test]
fn an_orphan_of_a_pinned_task_is_set_free_when_it_is_met() {
    let Some([first, _]) = two_pus() else { return };
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    // The orphan is watched in the first case, and not in the second.
    for names in [&["sh", "sleep"][..], &["sh"]] {
        let mut orphans = Orphans::start("sleep 1000");
        let journals = tempfile::tempdir().unwrap();
        let (mut watcher, shell) = watch_names(journals.path(), names, orphans.process());
        assert_eq!(watcher.place(shell, first), Placed::Done);
        let Some(orphan) = orphans.another() else { return };
        assert_eq!(mask(orphan), only(first));
        eventually("the orphan is free", || {
            watcher.observe();
            mask(orphan) == allowed()
        });
        assert_eq!(mask(shell.thread), only(first));
    }
}

#[test]
fn an_orphan_that_was_not_met_is_set_free_at_the_end_and_from_the_journal() {
    let Some([first, _]) = two_pus() else { return };
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut orphans = Orphans::start("sleep 1000");
    let journals = tempfile::tempdir().unwrap();
    let (mut watcher, shell) = watch_names(journals.path(), &["sh"], orphans.process());
    assert_eq!(watcher.place(shell, first), Placed::Done);
    let Some(orphan) = orphans.another() else { return };
    // A creator that is not pinned any more, and one that is.
    watcher.release(shell);
    assert_eq!((mask(orphan), mask(shell.thread)), (only(first), allowed()));
    let file = fs::read_dir(journals.path()).unwrap().next().unwrap().unwrap().path();
    let left = fs::read(&file).unwrap();
    drop(watcher);
    assert_eq!(mask(orphan), allowed());
    for thread in [orphan, shell.thread] {
        CpuMask::single(first).give_to(thread).unwrap();
    }
    fs::write(journals.path().join("1-0.journal"), left).unwrap();
    let found = Directory::new(journals.path())
        .unwrap()
        .survey()
        .unwrap()
        .pop()
        .unwrap();
    let Found::Left(left) = found else { panic!("{found:?}") };
    left.roll_back(&Roots::default(), false);
    assert_eq!((mask(orphan), mask(shell.thread)), (allowed(), allowed()));
}

#[test]
fn an_orphan_that_was_pinned_by_a_person_before_stays_where_it_is() {
    let Some([first, _]) = two_pus() else { return };
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut orphans = Orphans::start(&format!("taskset -c {first} sleep 1000"));
    let Some(orphan) = orphans.another() else { return };
    eventually("taskset has set the mask", || mask(orphan) == only(first));
    // Times have the resolution of clock ticks, so wait for the next one.
    let started = Instant::now();
    eventually("a clock tick", || started.elapsed() > Duration::from_millis(20));
    let journals = tempfile::tempdir().unwrap();
    let (mut watcher, shell) = watch_names(journals.path(), &["sh", "sleep"], orphans.process());
    assert_eq!(watcher.place(shell, first), Placed::Done);
    watcher.observe();
    drop(watcher);
    assert_eq!((mask(orphan), mask(shell.thread)), (only(first), allowed()));
}

/// A program that creates this number of children when it gets a signal. Each writes the number of its PUs.
struct Siblings {
    child: Child,
    workshop: common::Workshop,
    children: usize,
}

impl Siblings {
    fn start(children: usize) -> Self {
        let workshop = common::Workshop::new();
        let mut command = Command::new(workshop.program("siblings"));
        let child = command
            .arg(children.to_string())
            .arg(workshop.file("seen"))
            .spawn()
            .unwrap();
        Self {
            child,
            workshop,
            children,
        }
    }

    /// The numbers of its children, once all have written them.
    fn seen(&self) -> Vec<usize> {
        send(self.child.id().cast_signed(), libc::SIGUSR1);
        let read = || fs::read_to_string(self.workshop.file("seen")).unwrap_or_default();
        eventually("all children have said what they see", || {
            read().lines().count() >= self.children
        });
        read().lines().map(|line| line.parse().unwrap()).collect()
    }
}

impl Drop for Siblings {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn no_child_ever_sees_the_mask_of_its_pinned_creator() {
    let Some([first, _]) = two_pus() else { return };
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let program = Siblings::start(500);
    let journals = tempfile::tempdir().unwrap();
    let (mut watcher, task) = watch_names(journals.path(), &["siblings"], program.child.id().cast_signed());
    let events = ForkEvents::open(&allowed());
    if let Err(error) = events.and_then(|events| watcher.free_children_at_birth(events)) {
        pinfold_testing::skip(error);
        return;
    }
    assert_eq!(watcher.place(task, first), Placed::Done);
    let seen = program.seen();
    let wrong = seen.iter().filter(|&&pus| pus != allowed().len()).count();
    assert_eq!(wrong, 0, "of {}, {:?}", seen.len(), watcher.statistics());
    assert_eq!(mask(task.thread), only(first));
    // A double fork has an intermediate child.
    assert_eq!(watcher.statistics().freed, 500);
}

#[test]
fn an_orphan_that_a_person_has_pinned_stays_where_it_is_even_on_a_pu_of_ours() {
    let Some([first, _]) = two_pus() else { return };
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut orphans = Orphans::start(&format!("taskset -c {first} sleep 1000"));
    let program = Siblings::start(0);
    let journals = tempfile::tempdir().unwrap();
    let names = ["siblings", "sh", "sleep"];
    let (mut watcher, task) = watch_names(journals.path(), &names, program.child.id().cast_signed());
    let events = ForkEvents::open(&allowed());
    if let Err(error) = events.and_then(|events| watcher.free_children_at_birth(events)) {
        pinfold_testing::skip(error);
        return;
    }
    assert_eq!(watcher.place(task, first), Placed::Done);
    let Some(orphan) = orphans.another() else { return };
    eventually("taskset has set the mask", || mask(orphan) == only(first));
    eventually("the orphan is met", || {
        watcher.observe();
        watcher.task_of(orphan).is_some()
    });
    drop(watcher);
    assert_eq!((mask(orphan), mask(task.thread)), (only(first), allowed()));
}
