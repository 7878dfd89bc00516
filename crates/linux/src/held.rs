//! A process that is held by a pidfd. A new process that reuses its number is not confused with it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// A held thread, in the form that the kernel's maps for tasks take.
#[derive(Debug)]
pub struct HeldThread(OwnedFd);

impl HeldThread {
    /// Holds a thread; this needs Linux 6.9.
    pub fn new(thread: i32) -> io::Result<Self> {
        // `PIDFD_THREAD`
        let flags = libc::O_EXCL;
        // SAFETY: a system call without memory.
        let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, thread, flags) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        let descriptor = RawFd::try_from(descriptor).map_err(io::Error::other)?;
        // SAFETY: the descriptor is new, and belongs to no one else.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }
}

impl AsFd for HeldThread {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A held process.
#[derive(Debug)]
pub(crate) struct Held(Option<OwnedFd>);

impl Held {
    /// `None` if there is no such process.
    pub(crate) fn new(process: i32) -> Option<Self> {
        // SAFETY: a system call without memory.
        let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) };
        if descriptor >= 0 {
            // SAFETY: the descriptor is new, and belongs to no one else.
            let descriptor = unsafe { OwnedFd::from_raw_fd(RawFd::try_from(descriptor).ok()?) };
            return Some(Self(Some(descriptor)));
        }
        // Linux before 5.3 lacks this call, and a filter may forbid it. Then the start time has to suffice.
        (io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)).then_some(Self(None))
    }

    /// Whether the held process lives.
    pub(crate) fn lives(&self) -> bool {
        self.0.as_ref().is_none_or(|descriptor| {
            // SAFETY: signal 0 is never delivered, and no information about it is passed.
            let result = unsafe {
                let nothing: *const libc::siginfo_t = std::ptr::null();
                libc::syscall(libc::SYS_pidfd_send_signal, descriptor.as_raw_fd(), 0, nothing, 0)
            };
            result == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
        })
    }
}
