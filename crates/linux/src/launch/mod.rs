//! Starts a program or attaches to a running one, and follows each of its threads and processes.
//!
//! `exec` becomes the program, `waiting` has it executed by a child that another process forked, `attach` checks a
//! running process and `seize` seizes its threads. `trace` makes the system calls, `tracer` is the thread that follows,
//! `running` starts and ends it. `program` has the tasks and their PUs, `untraced` finds the tasks that ptrace does not
//! report. `pages` places the pages, `accesses` has the accesses by page. `signals` forwards signals, `inherited`
//! restores the inherited state. `preferring` has preferences instead of masks. `polling` follows processes that cannot be traced. These are processes that trace
//! (`executable` recognises them, `stepping_aside` lets go of them), and processes with too many `births`. This file
//! has the shared data.

mod accesses;
mod attach;
mod births;
mod counting;
mod dynamic_linking;
pub(crate) mod exec;
mod executable;
mod followed_process;
pub(crate) mod inherited;
mod initial_stack;
mod io_bytes;
mod limit;
mod pages;
mod polling;
mod preferring;
mod prefetching;
mod preload;
mod program;
mod running;
mod seize;
pub(crate) mod signals;
mod stepping_aside;
mod task_reader;
mod task_sum;
mod trace;
mod tracer;
mod untraced;
mod waiting;

use crate::claims::Claims;
use crate::journal::{Directory, JournalError};
use crate::regions::RegionTable;
pub use crate::scheduling::is_normal_here;
pub use attach::{AttachError, ProcessName, RunningProcess};
pub(crate) use births::Births;
pub use counting::Counted;
pub use exec::run_alone;
pub use pages::PageOptions;
pub(crate) use pages::ProgramPages;
use pinfold_core::{Pinning, PuId, PuSet, TaskId, Topology};
pub use preferring::{Preferring, Scheduler};
pub use preload::Preload;
pub(crate) use program::Program;
pub(crate) use running::Running;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI32};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use stepping_aside::SteppingAside;
pub use waiting::WaitingChild;

/// A task with a rank, its rank, and the PU that it is pinned on.
pub(crate) type Ranked = (TaskId, usize, Option<PuId>);

/// The command to run, and its options.
pub struct Launch {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The child that executes them, if another process forked it.
    pub waiting: Option<WaitingChild>,
    /// Variables that are added to the environment, or replace variables of the same name.
    pub environment: Vec<(OsString, OsString)>,
    /// The agent, for this program and all programs that it starts. `None` for no agent.
    pub preload: Option<Preload>,
    /// Variables that are removed from the program's environment.
    pub removed_environment: Vec<OsString>,
    /// The machine. The program runs on those of its allowed PUs that this process may also use.
    pub topology: Topology,
    /// The PUs that the user has chosen for the program. `None` for all that this process may use, even if these change
    /// later.
    pub chosen: Option<PuSet>,
    /// The pinning of the ranks until a configuration is applied.
    pub initial: Option<Pinning>,
    /// The PUs that unpinned tasks run on until a configuration is applied. `None` for all PUs that the program may
    /// use.
    pub within: Option<PuSet>,
    /// The time of the program's initialisation. Until then the first thread of a process is not pinned while it is
    /// alone, so that a runtime that reads its mask sees all PUs. At least a tenth of a second.
    pub grace: Duration,
    /// The tasks, by serial, that never get a rank.
    pub skipped: BTreeSet<u64>,
    /// Whether the program continues if this process is killed. Otherwise the kernel kills it as well.
    pub outlive: bool,
    /// Whether the remaining tasks stay pinned after the main process has ended.
    pub keep_pinned: bool,
    /// The scheduler in which threads have preferences, and that ends with the machine. `None` pins threads by their
    /// masks.
    pub preferring: Option<Preferring>,
    /// This run's claim on PUs. With `initial` the PUs are already claimed. `None` ignores other runs.
    pub claims: Option<Claims>,
    /// The directory of journals. It is needed if changes outlive pinfold: with `outlive`, `keep_pinned`, and for
    /// prefetchers.
    pub journal: Option<Directory>,
    /// The directory for a journal that is created when pinfold lets go of a process, which then outlives pinfold.
    pub journals: Option<PathBuf>,
    /// What is counted.
    pub counted: Counted,
    /// The table of parallel regions, for configurations with regions. Its variable must be in `environment`.
    pub regions: Option<RegionTable>,
    /// The placement of the program's pages.
    pub pages: PageOptions,
}

/// A running process to attach to, and the options.
pub struct Attach {
    /// The process.
    pub process: RunningProcess,
    /// The machine, with the PUs that the process may be placed on.
    pub topology: Topology,
    /// The pinning of the ranks until a configuration is applied. `None` leaves the threads unpinned.
    pub initial: Option<Pinning>,
    /// The time of the initialisation, from the process's start: see `Launch::grace`.
    pub grace: Duration,
    /// The tasks, by serial, that never get a rank. Tasks that already run are numbered by their age.
    pub skipped: BTreeSet<u64>,
    /// See `Launch::claims`.
    pub claims: Option<Claims>,
    /// The directory of journals, because the process outlives pinfold.
    pub journal: Directory,
    /// What is counted. There is no channel, which only a started program can open.
    pub counted: Counted,
    /// The migration of the process's pages.
    pub pages: PageOptions,
    /// The time after which pinfold lets it go. `None` waits for its end.
    pub lasts: Option<Duration>,
}

/// Why a program could not be started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// There is no command.
    #[error("there is no command to run; write it after `--`")]
    NoCommand,
    /// An argument or a variable contains a NUL byte.
    #[error("`{}` contains a NUL byte, which no argument or variable may", text.to_string_lossy())]
    NulByte {
        /// The whole text.
        text: OsString,
    },
    /// The command does not exist.
    #[error("command not found: {}", command.to_string_lossy())]
    NotFound {
        /// The command as given.
        command: OsString,
    },
    /// The program exists and cannot be executed.
    #[error("cannot execute {}: {why}", command.to_string_lossy())]
    NotExecutable {
        /// The command as given.
        command: OsString,
        /// The kernel's reason.
        why: String,
    },
    /// The program could not run on any PU.
    #[error("this process may use none of the PUs {topology} of the machine; it may use {own}")]
    NoPu {
        /// The allowed PUs of the topology.
        topology: PuSet,
        /// The PUs that this process may use.
        own: PuSet,
    },
    /// The limit of unpinned tasks would leave no PU.
    #[error("{0}")]
    Limit(String),
    /// The process of the program could not be created.
    #[error("cannot create the process of the program: {0}")]
    Fork(io::Error),
    /// The kernel forbids tracing.
    #[error(
        "cannot follow the program with ptrace: {0}; a container must allow the system call (docker run --cap-add SYS_PTRACE), \
         the sysctl kernel.yama.ptrace_scope must be 0 or 1 (2 needs CAP_SYS_PTRACE), and no debugger may trace pinfold's \
         children"
    )]
    Attach(io::Error),
    /// Waiting for the program failed.
    #[error("cannot wait for the program: {0}")]
    Wait(io::Error),
    /// A change cannot be written to the journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// pinfold itself lacks a resource.
    #[error("cannot start {what}: {error}")]
    Resource {
        /// The resource.
        what: &'static str,
        /// The error.
        error: io::Error,
    },
}

impl LaunchError {
    /// Whether this process lacks a process, a thread, memory or files. The program has not started then.
    pub fn is_shortage(&self) -> bool {
        matches!(self, Self::Fork(_) | Self::Resource { .. })
    }

    /// The exit status by the shell's conventions: 127 for a command that is not found, 126 for one that cannot be
    /// executed. It is 125 if the launcher itself failed, as in env(1) and timeout(1).
    pub fn exit_status(&self) -> i32 {
        match self {
            Self::NotFound { .. } => 127,
            Self::NotExecutable { .. } => 126,
            _ => 125,
        }
    }
}

/// The phase of the program.
pub(crate) enum Phase {
    /// It is not executed yet.
    Starting,
    /// It runs.
    Running,
    /// pinfold detaches from the remaining tasks. If the main process has ended, this is its status.
    Leaving(Option<i32>),
    /// No task is followed any more.
    Over(Option<i32>),
    /// The program could not be started or attached to, or can no longer be followed.
    Failed(FollowError),
}

impl Phase {
    fn is_followed(&self) -> bool {
        matches!(self, Self::Running | Self::Leaving(_))
    }
}

/// Why a program is not followed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FollowError {
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error(transparent)]
    Attach(#[from] AttachError),
}

/// The data that the launcher's threads share.
#[expect(clippy::struct_excessive_bools, reason = "each is independent of the others")]
pub(crate) struct State {
    pub(crate) phase: Phase,
    pub(crate) program: Program,
    /// The agent for each executed program.
    preload: Option<Preload>,
    /// The time when the program was executed.
    pub(crate) began: Option<Instant>,
    /// The main process.
    main: i32,
    /// Whether the main process is stopped, as by SIGSTOP.
    main_stopped: bool,
    /// Whether pinfold received a stop signal, and has to stop with the main process.
    stop_wanted: bool,
    keep_pinned: bool,
    /// Whether pinfold has attached to the program, so that the program outlives pinfold.
    attached: bool,
    /// Whether a signal requested that pinfold let go of an attached program.
    pub(crate) end_wanted: bool,
    /// The processes that pinfold is about to let go of.
    aside: SteppingAside,
    /// Whether no process is traced any more and the main process is polled.
    traces_nothing: bool,
}

impl State {
    fn new(program: Program, preload: Option<Preload>, keep_pinned: bool, attached: bool) -> Self {
        Self {
            phase: Phase::Starting,
            program,
            preload,
            began: None,
            main: 0,
            main_stopped: false,
            stop_wanted: false,
            keep_pinned,
            attached,
            end_wanted: false,
            aside: SteppingAside::default(),
            traces_nothing: false,
        }
    }

    /// Adds the agent to a process that has executed a program, and stands before its first instruction. Returns
    /// whether it has the agent.
    fn add_agent_to(&self, process: i32) -> bool {
        self.preload.as_ref().is_some_and(|preload| preload.add_to(process))
    }

    /// Rolls back all changes except for those that stay.
    fn part(&mut self) {
        if self.keep_pinned {
            self.program.keep_pinned();
            self.program.look_for_untraced();
            self.program.apply_prefetchers(None);
        } else {
            self.program.release();
        }
    }

    /// Detects the end of a polled main process, once the tracer waits for no process.
    pub(crate) fn notice_end(&mut self) {
        if !self.traces_nothing || !matches!(self.phase, Phase::Running) {
            return;
        }
        if self.attached {
            if self.program.has_ended(self.main) && !std::mem::replace(&mut self.end_wanted, true) {
                let main = self.main;
                self.program.note(format!(
                    "Process {main} has ended. Its exit status is not known, because pinfold did not trace it."
                ));
            }
        } else if let Some(status) = trace::status_of_child(self.main) {
            self.part();
            self.phase = Phase::Over(Some(status));
        }
    }

    /// Stops this process when the main process is stopped and pinfold received a stop signal.
    fn stop_with_main(&mut self) {
        if self.main_stopped && std::mem::take(&mut self.stop_wanted) {
            // SAFETY: a plain system call. SIGCONT continues this process.
            unsafe { libc::kill(libc::getpid(), libc::SIGSTOP) };
        }
    }
}

/// The state, and the notification of its changes.
pub(crate) struct Shared {
    state: Mutex<State>,
    pub(crate) changed: Condvar,
    /// While this is locked, no process is reaped, so a process number in the table names no other process. Lock it
    /// before the state.
    reaping: Mutex<()>,
    /// Whether the tracer of an attached program has to end, and its thread.
    stop: AtomicBool,
    tracer: AtomicI32,
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panicked leaves a consistent state, because each step is complete in itself.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until this is dropped, a number in the table of processes names no other process.
    pub(crate) fn hold_processes(&self) -> MutexGuard<'_, ()> {
        self.reaping.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }
}
