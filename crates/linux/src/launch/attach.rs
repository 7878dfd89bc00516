//! A running process, and whether pinfold may attach to it. All checks come before any change.

use crate::affinity::CpuMask;
use crate::held::Held;
use crate::journal::{Concerned, Directory, JournalError};
use crate::procfs::{Procfs, ticks_since_boot};
use crate::service::Users;
use nix::unistd::{SysconfVar, geteuid, sysconf};
use pinfold_core::PuSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why pinfold does not attach to a process. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// There is no such process.
    #[error("there is no process {0}")]
    None(i32),
    /// The number belongs to a thread.
    #[error("{thread} is a thread of process {process}, and pinfold attaches to whole processes; give --pid {process}")]
    Thread {
        /// The number.
        thread: i32,
        /// Its process.
        process: i32,
    },
    /// The process belongs to the kernel.
    #[error("{0} is a kernel thread, and pinfold places only programs of users")]
    Kernel(ProcessName),
    /// The process is the first one of the system.
    #[error("process 1 is the first process of the system, and all others descend from it; name the program itself")]
    First,
    /// The process is this pinfold.
    #[error("process {0} is this pinfold itself; name the program that it should place")]
    Itself(i32),
    /// This pinfold descends from the process.
    #[error(
        "{0} has started this pinfold, directly or through other processes, and pinfold would have to place itself; start \
         pinfold from another shell"
    )]
    Ancestor(ProcessName),
    /// The process has ended, and its parent has not waited for it.
    #[error("{0} has ended already; its parent has not waited for it yet")]
    Ended(ProcessName),
    /// The first thread has ended, and others run on.
    #[error(
        "the first thread of {0} has ended, so pinfold would not see the end of the process; start the program with \
         `pinfold run -- CMD`"
    )]
    FirstThreadEnded(ProcessName),
    /// The process is in a nested PID namespace.
    #[error(
        "{name} is in another PID namespace, as processes of containers are; run pinfold in that namespace: nsenter \
         --target {number} --pid --mount -- pinfold run --pid NUMBER_IN_THERE", number = name.number
    )]
    Namespace {
        /// The process.
        name: ProcessName,
    },
    /// The process belongs to another user.
    #[error("{name} belongs to user {owner}, and this pinfold runs as user {own}; run pinfold as that user or as root")]
    Owner {
        /// The process.
        name: ProcessName,
        /// Its user.
        owner: String,
        /// This process's user.
        own: String,
    },
    /// Another pinfold places the process.
    #[error("{name} is placed by another pinfold already (process {by}); end that one first")]
    Managed {
        /// The process.
        name: ProcessName,
        /// The other pinfold.
        by: String,
    },
    /// The process is still pinned by a killed pinfold.
    #[error(
        "{0} is still pinned by a pinfold that was killed; run `pinfold reset` to restore its masks, then attach again"
    )]
    LeftPinned(ProcessName),
    /// Another program traces the process.
    #[error("{name} is traced by {by}, and Linux permits one tracer; end that one first")]
    Traced {
        /// The process.
        name: ProcessName,
        /// The tracer.
        by: ProcessName,
    },
    /// The kernel forbids tracing.
    #[error(
        "cannot follow {name} with ptrace: {error}; it is permitted as root, with CAP_SYS_PTRACE, and for programs of \
         the same user if the sysctl kernel.yama.ptrace_scope is 0 (it is {scope}); a container must allow the system \
         call (docker run --cap-add SYS_PTRACE)"
    )]
    Forbidden {
        /// The process.
        name: ProcessName,
        /// The kernel's error.
        error: io::Error,
        /// The value of the sysctl.
        scope: String,
    },
    /// The journals cannot be read or rolled back.
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
    /// Waiting for the process failed.
    #[error("cannot wait for the program: {0}")]
    Wait(io::Error),
}

/// A process in messages: its number and the name of its first thread.
#[derive(Clone, Debug)]
pub struct ProcessName {
    number: i32,
    name: String,
}

impl ProcessName {
    pub(super) fn of(procfs: &Procfs, number: i32) -> Self {
        let name = procfs.stat(number, number).map(|stat| stat.name);
        Self {
            number,
            name: name.unwrap_or_else(|| "its name cannot be read".to_owned()),
        }
    }
}

impl std::fmt::Display for ProcessName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {} ({})", self.number, self.name)
    }
}

/// A running process that pinfold may attach to. It is held by a pidfd, so a new process with its number is not
/// confused with it.
#[derive(Debug)]
pub struct RunningProcess {
    number: i32,
    start: u64,
    held: Held,
    procfs: Procfs,
}

impl RunningProcess {
    /// Finds the process with this number, and checks whether pinfold may attach to it. `journals` is the directory of
    /// this user's journals, which name the processes that other pinfolds place.
    pub fn find(number: i32, journals: &Directory) -> Result<Self, AttachError> {
        let procfs = Procfs::default();
        let held = Held::new(number);
        let kin = procfs.kinship(number).ok_or(AttachError::None(number))?;
        if kin.process != number {
            let process = kin.process;
            return Err(AttachError::Thread {
                thread: number,
                process,
            });
        }
        let stat = procfs.stat(number, number).ok_or(AttachError::None(number))?;
        let held = held.ok_or(AttachError::None(number))?;
        let name = ProcessName::of(&procfs, number);
        if stat.is_kernel_thread {
            return Err(AttachError::Kernel(name));
        }
        if number == 1 {
            return Err(AttachError::First);
        }
        let own = std::process::id().cast_signed();
        if number == own {
            return Err(AttachError::Itself(number));
        }
        if is_ancestor(&procfs, number, own) {
            return Err(AttachError::Ancestor(name));
        }
        if matches!(stat.state, 'Z' | 'X') {
            return Err(match procfs.threads(number).len() {
                0 | 1 => AttachError::Ended(name),
                _ => AttachError::FirstThreadEnded(name),
            });
        }
        if procfs.is_in_nested_namespace(number) {
            return Err(AttachError::Namespace { name });
        }
        check_owner(&procfs, number, &name)?;
        check_tracer(&procfs, number, &name)?;
        match journals.concerned(&procfs, number)? {
            Some(Concerned::ByRunning(by)) => return Err(AttachError::Managed { name, by }),
            Some(Concerned::ByKilled) => return Err(AttachError::LeftPinned(name)),
            None => {}
        }
        Ok(Self {
            number,
            start: stat.start,
            held,
            procfs,
        })
    }

    /// A child of this process, which needs no checks.
    pub(super) fn child(number: i32) -> Result<Self, AttachError> {
        let procfs = Procfs::default();
        let held = Held::new(number).ok_or(AttachError::None(number))?;
        let stat = procfs.stat(number, number).ok_or(AttachError::None(number))?;
        Ok(Self {
            number,
            start: stat.start,
            held,
            procfs,
        })
    }

    /// The process number.
    pub fn number(&self) -> i32 {
        self.number
    }

    /// The command line. The name of the first thread if the process has overwritten its command line.
    pub fn command(&self) -> Vec<String> {
        let words = self.read("cmdline");
        let words: Vec<String> = words
            .split(|&byte| byte == 0)
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .filter(|word| !word.is_empty())
            .collect();
        if words.is_empty() {
            vec![ProcessName::of(&self.procfs, self.number).name]
        } else {
            words
        }
    }

    /// The file of its program. If the file was removed or replaced since the start, a path in `/proc` that still leads
    /// to it.
    pub fn executable(&self) -> PathBuf {
        let link = self.procfs.file(&self.number.to_string(), "exe");
        match fs::read_link(&link) {
            Ok(file) if file.exists() => file,
            _ => link,
        }
    }

    /// A variable of the environment that its program started with.
    pub fn variable(&self, name: &str) -> Option<OsString> {
        self.procfs.variable(self.number, name)
    }

    /// The PUs that its threads, and its descendants' threads, may now run on.
    pub fn pus(&self) -> PuSet {
        let mut pus = PuSet::new();
        for process in self.procfs.family(self.number) {
            for thread in self.procfs.threads(process) {
                if let Ok(mask) = CpuMask::of_thread(thread) {
                    pus.extend(mask.pus());
                }
            }
        }
        pus
    }

    fn read(&self, file: &str) -> Vec<u8> {
        fs::read(self.procfs.file(&self.number.to_string(), file)).unwrap_or_default()
    }

    pub(super) fn procfs(&self) -> &Procfs {
        &self.procfs
    }

    /// Whether the number still names this process.
    pub(super) fn is_there(&self) -> bool {
        let stat = self.procfs.stat(self.number, self.number);
        self.held.lives() && stat.is_some_and(|stat| stat.start == self.start && !matches!(stat.state, 'Z' | 'X'))
    }

    /// Why its threads cannot be traced, from the kernel's error.
    pub(super) fn not_traced(&self, error: io::Error) -> AttachError {
        let name = ProcessName::of(&self.procfs, self.number);
        if !self.is_there() {
            return AttachError::None(self.number);
        }
        if let Err(traced) = check_tracer(&self.procfs, self.number, &name) {
            return traced;
        }
        let scope = fs::read_to_string(self.procfs.root().join("sys/kernel/yama/ptrace_scope"));
        AttachError::Forbidden {
            name,
            error,
            scope: scope.map_or_else(|_| "not in this kernel".to_owned(), |scope| scope.trim().to_owned()),
        }
    }
}

/// The age of a task, from its start time in clock ticks since boot.
pub(super) fn age(start: u64) -> Duration {
    let ticks = ticks_since_boot().unwrap_or(start).saturating_sub(start);
    let per_second = sysconf(SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100);
    let per_second = u64::try_from(per_second).unwrap_or(100).max(1);
    Duration::from_millis(ticks.saturating_mul(1000) / per_second)
}

/// Whether `process` descends from `ancestor`.
fn is_ancestor(procfs: &Procfs, ancestor: i32, process: i32) -> bool {
    let mut at = process;
    while let Some(kin) = procfs.kinship(at).filter(|kin| kin.parent > 0) {
        if kin.parent == ancestor {
            return true;
        }
        at = kin.parent;
    }
    false
}

/// Refuses a process of another user, unless this process may trace all users' processes.
fn check_owner(procfs: &Procfs, number: i32, name: &ProcessName) -> Result<(), AttachError> {
    let own = geteuid();
    match procfs.user(number) {
        Some(owner) if owner != own.as_raw() && !own.is_root() && !procfs.may_trace_all() => {
            let users = Users::default();
            Err(AttachError::Owner {
                name: name.clone(),
                owner: users.shown(owner),
                own: users.shown(own.as_raw()),
            })
        }
        _ => Ok(()),
    }
}

/// Refuses a process that another one traces.
fn check_tracer(procfs: &Procfs, number: i32, name: &ProcessName) -> Result<(), AttachError> {
    let Some(tracer) = procfs.tracer(number) else {
        return Ok(());
    };
    // The kernel gives the tracing thread.
    let tracer = procfs.kinship(tracer).map_or(tracer, |kin| kin.process);
    let by = ProcessName::of(procfs, tracer);
    let name = name.clone();
    Err(if by.name == "pinfold" {
        let by = by.number.to_string();
        AttachError::Managed { name, by }
    } else {
        AttachError::Traced { name, by }
    })
}
