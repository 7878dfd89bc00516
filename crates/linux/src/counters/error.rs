//! Why an event cannot be counted, with the remedy.

use super::source::{Permission, Source};
use crate::nearest::suggestion;
use crate::pfm::PfmError;
use crate::symbols::SymbolError;
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};
use std::fs;
use std::io;
use std::path::Path;

/// Why an event cannot be counted.
#[derive(Debug, thiserror::Error)]
pub enum CounterError {
    /// Any other error of libpfm4.
    #[error(transparent)]
    Library(#[from] PfmError),
    /// No PMU that libpfm4 knows has this event.
    #[error(
        "there is no event `{name}`{}; `pinfold events PATTERN` lists the events",
        suggestion(nearest)
    )]
    UnknownEvent {
        /// The requested name.
        name: String,
        /// The names nearest to it.
        nearest: Vec<String>,
    },
    /// libpfm4 knows no PMU with the name before `::`.
    #[error("there is no PMU `{pmu}` for the event `{name}`{}", suggestion(nearest))]
    UnknownPmu {
        /// The requested name.
        name: String,
        /// Its part before `::`.
        pmu: String,
        /// The names nearest to it.
        nearest: Vec<String>,
    },
    /// The event exists, but not with this unit mask or modifier, or it lacks a required one.
    #[error("event `{name}` cannot be counted in this form: {why}; its name can be followed by: {}", choices.join(" "))]
    UnknownAttribute {
        /// The requested name.
        name: String,
        /// libpfm4's message.
        why: String,
        /// The attributes that can follow the event's name.
        choices: Vec<String>,
    },
    /// The event belongs to another processor.
    #[error(
        "event `{name}` is known to libpfm4 for {}, but this machine has {}",
        known_for.join(", "),
        if here.is_empty() { "no processor that libpfm4 knows".to_owned() } else { here.join(", ") }
    )]
    OtherProcessor {
        /// The requested name.
        name: String,
        /// The PMUs that have it.
        known_for: Vec<String>,
        /// The processor PMUs of this machine.
        here: Vec<String>,
    },
    /// The event belongs to this processor, but the kernel has no counter for it.
    #[error(
        "this machine has no counter for `{name}`: {why}; metrics without a counter: regions, mpi, io, function, \
         heartbeat, uprobe:SYMBOL"
    )]
    NoCounter {
        /// The requested name.
        name: String,
        /// The kernel's answer, and its possible causes.
        why: String,
    },
    /// The event is counted for a whole package.
    #[error("`{name}` is counted for a whole package and not for one task; choose an event of a processor core")]
    NotPerTask {
        /// The requested name.
        name: String,
    },
    /// No permission to count it.
    #[error("`{name}` may not be counted: {why}")]
    Forbidden {
        /// The requested name.
        name: String,
        /// The obstacle and the remedy.
        why: String,
    },
    /// The process has no file descriptor left.
    #[error(
        "no file descriptor is left to count `{name}`: each event of each task takes one, and the limit of this \
         process is {limit}; raise the limit by ulimit -n, or count fewer events"
    )]
    TooManyFiles {
        /// The requested name.
        name: String,
        /// The soft limit of open files.
        limit: u64,
    },
    /// The thread has ended.
    #[error("thread {thread} has ended, so its events cannot be counted")]
    Ended {
        /// Its kernel id.
        thread: i32,
    },
    /// The function to probe was not found.
    #[error(transparent)]
    Symbol(#[from] SymbolError),
    /// The text is not the name of a probe.
    #[error("`{text}` names no function to probe: {why}; write uprobe:SYMBOL or uprobe:PATH:SYMBOL")]
    UprobeSyntax {
        /// The whole text.
        text: String,
        /// The reason.
        why: &'static str,
    },
    /// The kernel cannot probe functions of programs.
    #[error(
        "this kernel offers no uprobes ({file}: {source}); it was built without CONFIG_UPROBE_EVENTS, or /sys is hidden"
    )]
    NoUprobes {
        /// The file with the PMU's number.
        file: String,
        /// The error.
        source: io::Error,
    },
    /// Any other error of the kernel.
    #[error("`{name}` cannot be counted: perf_event_open: {source}")]
    Open {
        /// The requested name.
        name: String,
        /// The kernel's error.
        source: io::Error,
    },
}

/// The kernel refused to open a counter.
#[derive(Clone, Copy)]
pub(super) struct Refused<'a> {
    pub(super) source: &'a Source,
    pub(super) thread: i32,
    pub(super) error: Errno,
}

/// Translates the kernel's refusal. `perf_event_open(2)` documents the codes.
pub(super) fn explain(root: &Path, refused: Refused<'_>) -> CounterError {
    let Refused { source, thread, error } = refused;
    let name = source.name.clone();
    match error {
        Errno::ENOENT | Errno::EOPNOTSUPP | Errno::ENODEV | Errno::ENXIO => CounterError::NoCounter {
            name,
            why: format!("the kernel has none ({}), as in most virtual machines", error.desc()),
        },
        Errno::ENOSYS => CounterError::NoCounter {
            name,
            why: "the kernel has no perf_event_open, or the sandbox around pinfold forbids it".to_owned(),
        },
        Errno::EACCES | Errno::EPERM => CounterError::Forbidden {
            name,
            why: forbidden(root, source.permission()),
        },
        Errno::EMFILE => CounterError::TooManyFiles {
            name,
            limit: getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft),
        },
        Errno::ESRCH => CounterError::Ended { thread },
        _ => CounterError::Open {
            name,
            source: error.into(),
        },
    }
}

/// The obstacle to a counter that needs `permission`, and the remedy. The kernel's
/// Documentation/admin-guide/sysctl/kernel.rst documents the levels of `perf_event_paranoid`; Debian and Ubuntu add 3
/// and 4, which forbid all counters.
pub(crate) fn forbidden(root: &Path, permission: Permission) -> String {
    const CAPABILITY: &str = "the capability CAP_PERFMON (CAP_SYS_ADMIN before Linux 5.8)";
    let highest = match permission {
        Permission::Capability => {
            return format!(
                "function probes need {CAPABILITY}, for any kernel.perf_event_paranoid: run pinfold as root or \
                 with that capability"
            );
        }
        Permission::UserSpace => 2,
        Permission::Kernel => 1,
        Permission::AllCpus => 0,
    };
    let file = root.join("proc/sys/kernel/perf_event_paranoid");
    let level: Option<i32> = fs::read_to_string(&file).ok().and_then(|text| text.trim().parse().ok());
    match level {
        Some(level) if level > highest => format!(
            "kernel.perf_event_paranoid is {level} and must be {highest} or lower: `sysctl -w \
             kernel.perf_event_paranoid={highest}` as root, or give pinfold {CAPABILITY}"
        ),
        Some(level) => format!(
            "kernel.perf_event_paranoid is {level}, which suffices, so something else forbids it: the task belongs to \
             another user or is set-user-id, or the seccomp filter of a container refuses perf_event_open; run as the \
             same user, let the container make that call (docker run --cap-add PERFMON), or give pinfold {CAPABILITY}"
        ),
        None => format!(
            "{} cannot be read, so the kernel was built without perf events or a container hides it; {CAPABILITY} is \
             needed where it is above {highest}",
            file.display()
        ),
    }
}
