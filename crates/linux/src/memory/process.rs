//! Another process, held by a descriptor. Its number is used only while the descriptor shows that the process lives, so
//! a process that reuses the number is never changed.
//!
//! Known limits: between the check and the immediately following system call, the process could end, be reaped, and its
//! number be reused. The kernel assigns numbers in turn, so all other numbers would have to be used within a
//! microsecond.

use super::calls::{StopReason, Target};
use crate::launch::signals::owned;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

/// Why a process cannot be held.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// There is no process with this number.
    #[error("there is no process {0}")]
    None(i32),
    /// Any other error.
    #[error("cannot watch process {process}: {error}")]
    Other {
        /// The process number.
        process: i32,
        /// The kernel's error.
        error: io::Error,
    },
}

/// A process that pinfold did not start, and the signals that interrupt its migration.
#[derive(Debug)]
pub struct OtherProcess {
    number: i32,
    process: File,
    signals: File,
}

impl OtherProcess {
    /// Holds the process with this number. From now on SIGINT, SIGTERM and SIGHUP end the migration instead of this
    /// process. Call it before there are other threads.
    pub fn hold(number: i32) -> Result<Self, ProcessError> {
        // SAFETY: system calls on a local set and on numbers. Each descriptor belongs to no one else.
        unsafe {
            let process = owned(RawFd::try_from(libc::syscall(libc::SYS_pidfd_open, number, 0)).unwrap_or(-1));
            let process = process.map_err(|error| match error.raw_os_error() {
                Some(libc::ESRCH | libc::EINVAL) => ProcessError::None(number),
                _ => ProcessError::Other { process: number, error },
            })?;
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                libc::sigaddset(&raw mut set, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            let signals = owned(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC))
                .map_err(|error| ProcessError::Other { process: number, error })?;
            Ok(Self {
                number,
                process,
                signals,
            })
        }
    }

    /// Waits for the end of the process or a signal, for at most this time.
    fn look(&self, duration: Duration) -> Result<(), StopReason> {
        let poll = |file: &File| libc::pollfd {
            fd: file.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let mut files = [poll(&self.process), poll(&self.signals)];
        let milliseconds = i32::try_from(duration.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: the call reads and writes the two elements.
        unsafe { libc::poll(files.as_mut_ptr(), 2, milliseconds) };
        match files.map(|file| file.revents != 0) {
            [true, _] => Err(StopReason::Ended),
            [_, true] => Err(StopReason::Interrupted),
            _ => Ok(()),
        }
    }
}

impl Target for OtherProcess {
    fn process(&self) -> i32 {
        self.number
    }

    fn held(&self, act: &mut dyn FnMut(i32)) -> Result<(), StopReason> {
        self.look(Duration::ZERO)?;
        act(self.number);
        Ok(())
    }

    fn pause(&self, duration: Duration) -> Result<(), StopReason> {
        self.look(duration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_that_has_ended_is_not_touched() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let held = OtherProcess::hold(child.id().cast_signed()).unwrap();
        let mut touched = 0;
        held.held(&mut |_| touched += 1).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(held.held(&mut |_| touched += 1), Err(StopReason::Ended));
        assert_eq!(touched, 1);
    }

    #[test]
    fn a_number_of_no_process_is_refused() {
        assert!(matches!(OtherProcess::hold(i32::MAX), Err(ProcessError::None(_))));
    }
}
