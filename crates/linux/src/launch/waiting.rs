//! A child that waits to execute the program. A launcher that has to prepare the program's process itself forks this
//! child, and then becomes pinfold by exec. So the child is pinfold's own. The plugin for Slurm is such a launcher
//! (docs/design/slurm.md).
//!
//! 1. pinfold sends its changes to the environment, and the memory policy. The child completes its preparation and
//!    executes the program. Until then it is not traced, because it may still have memory that the user must not read.
//! 2. The exec closes the child's end of the socket, and pinfold sees that in a read. Then pinfold attaches to the
//!    process. The program's first instructions may run before that; nothing is pinned so early.
//! 3. If pinfold fails before the exec, the child executes the program without it, and this process waits for its end.
//!
//! The message is a sequence of texts, each terminated by a NUL byte: `+NAME=VALUE` for a variable to set, `-NAME` for
//! one to remove, `mMODE BITS WORD…` for the arguments of `set_mempolicy` with hexadecimal words, and `.` at the end.

use super::LaunchError;
use super::signals::{Blocked, next};
use crate::memory::MemoryPolicy;
use crate::procfs::Procfs;
use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The variable that names the child: its number and the descriptor of the socket, separated by a colon.
const VARIABLE: &str = "PINFOLD_WAITING_CHILD";

/// A child of this process that waits to execute the program. Clones share the child.
#[derive(Clone, Debug)]
pub struct WaitingChild {
    process: i32,
    socket: Arc<UnixStream>,
    /// Whether it was told to execute.
    gone: Arc<AtomicBool>,
    /// Whether pinfold follows it, or has seen its end.
    taken: Arc<AtomicBool>,
}

impl WaitingChild {
    /// The child that this process's environment names. `None` if it names no child of this process. Call it once,
    /// before any file is opened.
    pub fn from_environment() -> Option<Self> {
        let value = env::var(VARIABLE).ok()?;
        let (process, descriptor) = value.split_once(':')?;
        let process = process.parse().ok().filter(|&process| process > 0)?;
        let kin = Procfs::default().kinship(process)?;
        if kin.parent != std::process::id().cast_signed() {
            return None;
        }
        let descriptor = descriptor.parse().ok().filter(|&descriptor| descriptor > 2)?;
        // SAFETY: plain system calls, which fail for an invalid descriptor.
        if unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
            return None;
        }
        // SAFETY: the descriptor is open, and the launcher has reserved it for this function.
        let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
        Some(Self {
            process,
            socket: Arc::new(socket.into()),
            gone: Arc::default(),
            taken: Arc::default(),
        })
    }

    /// The process number.
    pub(super) fn process(&self) -> i32 {
        self.process
    }

    /// Whether pinfold neither follows it, nor has seen its end.
    pub fn is_left(&self) -> bool {
        !self.taken.load(Ordering::Acquire)
    }

    /// Records that pinfold follows it, or has seen its end.
    pub(super) fn take(&self) {
        self.taken.store(true, Ordering::Release);
    }

    /// Makes it execute the program. Returns when it has executed the program or has ended.
    pub(super) fn execute(&self, changes: &Changes) -> Result<(), LaunchError> {
        let mut socket = self.socket.as_ref();
        self.gone.store(true, Ordering::Release);
        socket.write_all(&changes.0).map_err(LaunchError::Fork)?;
        socket.read_to_end(&mut vec![]).map_err(LaunchError::Wait)?;
        Ok(())
    }

    /// Waits for its end, and returns the shell's form of its status. Call it when the child has ended or is about to
    /// end.
    pub(super) fn status(&self) -> Option<i32> {
        let mut status = 0;
        // SAFETY: the call writes the given status.
        let ended = unsafe { libc::waitpid(self.process, &raw mut status, libc::__WALL) };
        (ended == self.process).then(|| {
            if libc::WIFEXITED(status) {
                libc::WEXITSTATUS(status)
            } else {
                128 + libc::WTERMSIG(status)
            }
        })
    }

    /// Makes the child execute the program without pinfold, forwards signals to it, and waits for its end. Returns the
    /// shell's form of its status.
    pub fn run_alone(self) -> io::Result<i32> {
        if !self.gone.load(Ordering::Acquire) {
            let mut socket = self.socket.as_ref();
            socket.write_all(&Changes::none().0)?;
        }
        let _blocked = Blocked::new();
        let mut signals = super::signals::descriptor()?;
        let (ends, ended) = super::exec::pipe()?;
        let (ends, process) = (File::from(ends), self.process);
        // This thread ends with the process.
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            while let Some(signal) = next(&mut signals, &ends) {
                // Positive codes are the kernel's: the terminal sends its signals to the whole group.
                if signal.ssi_code <= 0 && signal.ssi_pid.cast_signed() != process {
                    // SAFETY: a plain system call.
                    unsafe { libc::kill(process, signal.ssi_signo.cast_signed()) };
                }
            }
        })?;
        let status = self.status();
        drop(ended);
        status.ok_or_else(io::Error::last_os_error)
    }
}

/// The changes that the child makes before its exec.
pub(super) struct Changes(Vec<u8>);

impl Changes {
    pub(super) fn none() -> Self {
        Self(b".\0".to_vec())
    }

    pub(super) fn new(added: &[(OsString, OsString)], removed: &[OsString], policy: Option<MemoryPolicy>) -> Self {
        let mut message = vec![];
        for name in removed {
            message.extend([b"-", name.as_bytes(), b"\0"].concat());
        }
        for (name, value) in added {
            message.extend([b"+", name.as_bytes(), b"=", value.as_bytes(), b"\0"].concat());
        }
        if let Some(policy) = policy {
            let words = policy.nodes().words();
            let bits = if policy.nodes().is_empty() {
                0
            } else {
                words.len() * 64 + 1
            };
            let mut text = format!("m{} {bits}", policy.mode() as i32);
            for word in words.iter().take(if bits == 0 { 0 } else { words.len() }) {
                let _ = write!(text, " {word:x}");
            }
            message.extend([text.as_bytes(), b"\0"].concat());
        }
        message.extend(b".\0");
        Self(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_a_row_of_texts() {
        let changes = Changes::new(&[("A".into(), "b=c".into())], &["OMP_PLACES".into()], None);
        assert_eq!(changes.0, b"-OMP_PLACES\0+A=b=c\0.\0");
    }

    #[test]
    fn a_memory_policy_is_the_arguments_of_its_call() {
        let changes = Changes::new(&[], &[], Some(MemoryPolicy::local()));
        assert_eq!(changes.0, b"m4 0\0.\0");
    }
}
