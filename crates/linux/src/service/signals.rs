//! The signals that control a service, and the wait for the next one or for a time.

use crate::launch::signals::owned;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use pinfold_core::Wake;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// SIGTERM and SIGINT end the service, and SIGHUP makes it read its configuration again. None of them kills the
/// process.
#[derive(Debug)]
pub struct Signals(File);

impl Signals {
    /// Starts to receive the signals. Call it before there are other threads: the signals would end those.
    pub fn take() -> io::Result<Self> {
        // SAFETY: the calls fill and read a local set. The descriptor is new, and belongs to no one else.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                libc::sigaddset(&raw mut set, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            let file = owned(libc::signalfd(
                -1,
                &raw const set,
                libc::SFD_CLOEXEC | libc::SFD_NONBLOCK,
            ))?;
            Ok(Self(file))
        }
    }

    /// Waits for at most this time, or for a signal.
    pub fn wait(&mut self, duration: Duration) -> Wake {
        let mut poll = libc::pollfd {
            fd: self.0.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let timeout = libc::timespec {
            tv_sec: duration.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: duration.subsec_nanos().into(),
        };
        // SAFETY: the call reads and writes one element, and reads the time. No signal mask is passed.
        unsafe { libc::ppoll(&raw mut poll, 1, &raw const timeout, std::ptr::null()) };
        let mut bytes = [0; size_of::<libc::signalfd_siginfo>()];
        if self.0.read_exact(&mut bytes).is_err() {
            return Wake::Elapsed;
        }
        // SAFETY: the kernel filled the whole structure, which is plain numbers.
        let signal: libc::signalfd_siginfo = unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) };
        match signal.ssi_signo.cast_signed() {
            libc::SIGHUP => Wake::Reload,
            number => Wake::Stop(number),
        }
    }
}

/// Raises this process's limit of open files to its maximum: one file for each task, and one for each counter.
pub fn raise_descriptor_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        // If this fails, files are opened for each reading.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}
