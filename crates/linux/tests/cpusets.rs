//! Tasks of a daemon whose cpuset shrinks and grows: none keeps a mask of the daemon.

mod common;

use common::{Workshop, allowed, eventually, send, two_pus, watch, watching_process};
use pinfold_core::{Host, HostNoteCode, Placed, PuSet, TaskId};
use pinfold_linux::affinity::CpuMask;
use pinfold_linux::watch::Watcher;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command};

/// A control group with a cpuset. `None` if none can be created.
struct Cpuset(PathBuf);

impl Cpuset {
    fn new(name: &str) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let at = |line: &str| line.split(' ').nth(4).map(PathBuf::from);
        let has = |line: &str, kind: &str| line.contains(&format!(" - {kind} ")) && line.contains("cpuset");
        let first = mounts.lines().find(|line| has(line, "cgroup")).and_then(at);
        let second = mounts.lines().find(|line| line.contains(" - cgroup2 ")).and_then(at);
        let second = second.filter(|root| {
            let given = fs::read_to_string(root.join("cgroup.subtree_control"));
            given.is_ok_and(|given| given.contains("cpuset"))
        });
        let root = first.or(second);
        let made = root.and_then(|root| {
            let path = root.join(format!("pinfold-test-{}-{name}", std::process::id()));
            fs::create_dir(&path).ok()?;
            if let Ok(nodes) = fs::read_to_string(root.join("cpuset.mems")) {
                fs::write(path.join("cpuset.mems"), nodes).ok()?;
            }
            Some(Self(path))
        });
        if made.is_none() {
            pinfold_testing::skip("no cpuset can be created: that needs root, and the controller in a hierarchy");
        }
        made
    }

    fn set(&self, pus: &PuSet) {
        fs::write(self.0.join("cpuset.cpus"), pus.to_string()).unwrap();
    }
}

impl Drop for Cpuset {
    fn drop(&mut self) {
        let empty = || fs::read_to_string(self.0.join("cgroup.procs")).is_ok_and(|processes| processes.is_empty());
        eventually("the processes of the group have ended", empty);
        fs::remove_dir(&self.0).unwrap();
    }
}

/// A program with one working thread in a cpuset.
struct Program {
    child: Child,
    workshop: Workshop,
    cpuset: Cpuset,
}

impl Program {
    fn start(name: &str) -> Option<Self> {
        let cpuset = Cpuset::new(name)?;
        cpuset.set(&allowed());
        let workshop = Workshop::new();
        let script = format!("echo $$ > {} && exec \"$@\"", cpuset.0.join("cgroup.procs").display());
        let child = Command::new("sh")
            .args(["-c", &script, "sh"])
            .arg(workshop.program("watched"))
            .arg(workshop.file("numbers"))
            .arg("1")
            .spawn()
            .unwrap();
        let program = Self {
            child,
            workshop,
            cpuset,
        };
        program.numbers(2);
        Some(program)
    }

    fn process(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// The numbers of its threads and children, once there are as many.
    fn numbers(&self, many: usize) -> Vec<i32> {
        self.workshop.numbers(many)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn mask(thread: i32) -> PuSet {
    CpuMask::of_thread(thread).unwrap().to_set()
}

/// The watched task of a working thread.
fn task(watcher: &mut Watcher, thread: i32) -> TaskId {
    let mut found = None;
    eventually("a thread is seen to work", || {
        let sample = watcher.observe().sample;
        found = sample
            .tasks
            .iter()
            .map(|task| task.id)
            .find(|task| task.thread == thread);
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn a_pinning_that_a_cpuset_hides_does_not_return_after_the_daemon() {
    let Some([first, second]) = two_pus() else { return };
    for looks in [false, true] {
        let Some(program) = Program::start("hidden") else {
            return;
        };
        let thread = program.numbers(2)[1];
        let journals = tempfile::tempdir().unwrap();
        let mut watcher = watch(journals.path(), watching_process(program.process()));
        let task = task(&mut watcher, thread);
        assert_eq!(watcher.place(task, second), Placed::Done);
        program.cpuset.set(&[first].into_iter().collect());
        if looks {
            eventually("the daemon sees that the task is not pinned any more", || {
                watcher.observe();
                let notes = watcher.take_notes();
                notes.iter().any(|note| note.code == HostNoteCode::MaskReset)
            });
        }
        drop(watcher);
        program.cpuset.set(&allowed());
        assert_eq!(mask(thread), allowed(), "the daemon looked: {looks}");
        assert_eq!(fs::read_dir(journals.path()).unwrap().count(), 0);
    }
}

#[test]
fn a_child_that_is_born_while_a_cpuset_hides_the_pinning_is_freed() {
    let Some([first, second]) = two_pus() else { return };
    let Some(program) = Program::start("born") else { return };
    let thread = program.numbers(2)[1];
    let journals = tempfile::tempdir().unwrap();
    let mut watcher = watch(journals.path(), watching_process(program.process()));
    let first_thread = program.numbers(2)[0];
    let task = task(&mut watcher, thread);
    assert_eq!(watcher.place(task, second), Placed::Done);
    let leader = watcher.task_of(first_thread).unwrap();
    assert_eq!(watcher.place(leader, second), Placed::Done);
    program.cpuset.set(&[first].into_iter().collect());
    send(program.process(), libc::SIGUSR1);
    let created = program.numbers(3)[2];
    drop(watcher);
    program.cpuset.set(&allowed());
    for thread in [first_thread, thread, created] {
        assert_eq!(mask(thread), allowed());
    }
}

#[test]
fn what_a_person_sets_in_a_small_cpuset_stays() {
    let Some([first, second]) = two_pus() else { return };
    let Some(program) = Program::start("set") else { return };
    let thread = program.numbers(2)[1];
    let journals = tempfile::tempdir().unwrap();
    let mut watcher = watch(journals.path(), watching_process(program.process()));
    let task = task(&mut watcher, thread);
    assert_eq!(watcher.place(task, second), Placed::Done);
    CpuMask::single(first).give_to(thread).unwrap();
    drop(watcher);
    assert_eq!(mask(thread), [first].into_iter().collect());
}
