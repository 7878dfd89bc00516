//! Helpers for the tests of the launcher: compile small C programs, launch them, and wait for their effects.

#![allow(dead_code, reason = "each test binary uses its own part of this")]

use pinfold_core::{Machine, Pinning, PuId, PuSet, Sample, Topology, TopologyBuilder, Wait};
use pinfold_linux::affinity::CpuMask;
use pinfold_linux::journal::Directory;
use pinfold_linux::launch::{Counted, Launch, PageOptions};
use pinfold_linux::machine::LinuxMachine;
use pinfold_linux::service::Signals;
use pinfold_linux::watch::{Counts, PageLimits, Selection, Watcher, WatcherOptions};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Long enough for anything on a busy machine. A longer wait is a failure.
pub(crate) const FOREVER: Duration = Duration::from_secs(120);

/// A directory with the programs that a test needs and the files that they write.
pub(crate) struct Workshop {
    directory: TempDir,
}

impl Workshop {
    pub(crate) fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    /// The numbers in the program's file `numbers`, one for each line, once there are as many.
    pub(crate) fn numbers(&self, many: usize) -> Vec<i32> {
        let read = || fs::read_to_string(self.file("numbers")).unwrap_or_default();
        eventually("the program's threads run", || read().lines().count() >= many);
        read().lines().map(|line| line.parse().unwrap()).collect()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Compiles `programs/NAME.c`.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.compiled("cc", name, &["-pthread"]).expect("a C compiler")
    }

    /// Compiles it with this compiler and these flags. `None` if that is not possible on this machine.
    pub(crate) fn compiled(&self, compiler: &str, name: &str, flags: &[&str]) -> Option<PathBuf> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{name}.c"));
        let binary = self.file(name);
        let status = Command::new(compiler)
            .args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"])
            .arg(&binary)
            .arg(source)
            .args(flags)
            .status();
        status.is_ok_and(|status| status.success()).then_some(binary)
    }

    /// The content of a file that a program wrote, by lines of words.
    pub(crate) fn lines(&self, name: &str) -> Vec<Vec<String>> {
        let text = fs::read_to_string(self.file(name)).unwrap();
        text.lines()
            .map(|line| line.split_whitespace().map(str::to_owned).collect())
            .collect()
    }

    /// The number on the first line of a file, once it exists.
    pub(crate) fn number(&self, name: &str) -> i32 {
        let read = || fs::read_to_string(self.file(name)).unwrap_or_default();
        eventually("a program writes its number", || read().ends_with('\n'));
        read().lines().next().unwrap().parse().unwrap()
    }
}

/// Waits for an effect of the kernel or another process.
pub(crate) fn eventually(what: &str, mut happens: impl FnMut() -> bool) {
    let began = Instant::now();
    while !happens() {
        assert!(began.elapsed() < FOREVER, "waited in vain until {what}");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

/// The PUs of this process.
pub(crate) fn allowed() -> PuSet {
    CpuMask::read(0).unwrap().to_set()
}

/// Two PUs. `None` if only one is allowed.
pub(crate) fn two_pus() -> Option<[PuId; 2]> {
    let pus: Vec<PuId> = allowed().iter().take(2).collect();
    let two = <[PuId; 2]>::try_from(pus).ok();
    if two.is_none() {
        pinfold_testing::skip("only one PU is allowed, and two are needed");
    }
    two
}

pub(crate) fn this_machine() -> Topology {
    let mut builder = TopologyBuilder::new("this machine");
    for pu in allowed().iter() {
        let root = builder.root();
        builder.pu(root, pu);
    }
    builder.build_all().unwrap()
}

/// A daemon on this machine that counts nothing.
pub(crate) fn watching(selection: Selection) -> WatcherOptions {
    WatcherOptions {
        topology: this_machine(),
        selection,
        counts: Counts::default(),
        probing: None,
        release_after: Duration::from_secs(10),
        pages: PageLimits::default(),
    }
}

/// Like `watching`, for one process.
pub(crate) fn watching_process(process: i32) -> WatcherOptions {
    watching(Selection {
        processes: vec![process],
        ..Selection::default()
    })
}

/// Starts to watch, with the journal in this directory.
pub(crate) fn watch(journals: &Path, watching: WatcherOptions) -> Watcher {
    let directory = Directory::new(journals).unwrap();
    Watcher::new(watching, &directory, Signals::take().unwrap()).unwrap()
}

/// A plain launch of a command.
pub(crate) fn plain<T: Into<OsString>>(command: impl IntoIterator<Item = T>) -> Launch {
    Launch {
        command: command.into_iter().map(Into::into).collect(),
        waiting: None,
        preferring: None,
        claims: None,
        environment: vec![],
        preload: None,
        removed_environment: vec![],
        topology: this_machine(),
        chosen: None,
        within: None,
        initial: None,
        grace: Duration::from_secs(3600),
        skipped: [].into(),
        outlive: false,
        keep_pinned: false,
        journal: None,
        journals: None,
        counted: Counted::default(),
        regions: None,
        pages: PageOptions::default(),
    }
}

/// Like `plain`, with the ranks pinned to these PUs from the start.
pub(crate) fn pinned<T: Into<OsString>>(command: impl IntoIterator<Item = T>, pus: &[PuId]) -> Launch {
    Launch {
        initial: Pinning::new(pus.to_vec()),
        ..plain(command)
    }
}

/// Runs a program to its end. Returns its status and the last sample, which has all tasks that were not seen before.
pub(crate) fn run(launch: Launch) -> (i32, Sample) {
    let mut machine = LinuxMachine::launch(launch).unwrap();
    let status = end(&mut machine);
    (status, machine.observe())
}

/// Waits for the end of a program.
pub(crate) fn end(machine: &mut LinuxMachine) -> i32 {
    match machine.wait(FOREVER).unwrap() {
        Wait::Ended(status) => status,
        Wait::Elapsed | Wait::Left => panic!("the program did not end"),
    }
}

/// The threads that a sample shows, in its order.
pub(crate) fn threads(sample: &Sample) -> Vec<i32> {
    sample.tasks.iter().map(|task| task.id.thread).collect()
}

/// The current threads of a process. Empty if it does not exist.
pub(crate) fn threads_of(process: i32) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{process}/task")) else {
        return vec![];
    };
    let thread = |entry: fs::DirEntry| entry.file_name().to_str().unwrap().parse().unwrap();
    entries.map(|entry| thread(entry.unwrap())).collect()
}

/// The current masks of the threads of a process.
pub(crate) fn masks_of(process: i32) -> Vec<PuSet> {
    let mask = |thread| CpuMask::read(thread).unwrap().to_set();
    threads_of(process).into_iter().map(mask).collect()
}

/// A field of /proc/PROCESS/status.
pub(crate) fn status_field(process: i32, name: &str) -> Option<String> {
    field(&fs::read_to_string(format!("/proc/{process}/status")).ok()?, name)
}

/// A field of a text like /proc/PROCESS/status.
pub(crate) fn field(text: &str, name: &str) -> Option<String> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

/// Whether a process runs: it exists and has not ended.
pub(crate) fn lives(process: i32) -> bool {
    status_field(process, "State").is_some_and(|state| !state.starts_with(['Z', 'X']))
}

/// Sends a signal.
pub(crate) fn send(process: i32, signal: i32) {
    // SAFETY: a plain system call.
    let result = unsafe { libc::kill(process, signal) };
    assert_eq!(result, 0, "signal {signal} to {process}");
}

/// The launcher as a separate process.
pub(crate) fn follower() -> PathBuf {
    // Cargo builds the examples together with the tests, beside the directory of the tests.
    let tests = std::env::current_exe().unwrap();
    let binary = tests.ancestors().nth(2).unwrap().join("examples/follow");
    assert!(
        binary.exists(),
        "{} is missing: `cargo test` builds it",
        binary.display()
    );
    binary
}
