//! `perf_event_open(2)`, and the calls on its file descriptors, for counters and samplers.

use crate::pfm::sys;
use nix::errno::Errno;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Requests of `linux/perf_event.h`.
const ENABLE: libc::c_ulong = 0x2400;
const DISABLE: libc::c_ulong = 0x2401;
const SET_OUTPUT: libc::c_ulong = 0x2405;
const ID: libc::c_ulong = 0x8008_2407;

/// The scope of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watched {
    /// A thread, on any CPU; 0 is the calling thread.
    Thread(i32),
    /// A CPU, with any thread.
    Cpu(i32),
}

/// Opens an event, in the group of `leader` if one is given.
pub(crate) fn open(
    attributes: &sys::perf_event_attr,
    watched: Watched,
    leader: Option<&OwnedFd>,
) -> Result<OwnedFd, Errno> {
    let (thread, cpu) = match watched {
        Watched::Thread(thread) => (thread, -1),
        Watched::Cpu(cpu) => (-1, cpu),
    };
    // SAFETY: the attributes contain their size. They, and all that they point to, live until the call has returned.
    // The kernel keeps no pointer.
    let descriptor = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            std::ptr::from_ref(attributes),
            thread,
            cpu,
            leader.map_or(-1, AsRawFd::as_raw_fd),
            libc::c_ulong::from(sys::PERF_FLAG_FD_CLOEXEC),
        )
    };
    let descriptor = i32::try_from(Errno::result(descriptor)?).map_err(|_| Errno::EMFILE)?;
    // SAFETY: the kernel has just created this descriptor, and it belongs to no one else.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// The id of an event in records.
pub(crate) fn id(event: &OwnedFd) -> Result<u64, Errno> {
    let mut id = 0u64;
    // SAFETY: the kernel writes the id to the given location.
    Errno::result(unsafe { libc::ioctl(event.as_raw_fd(), ID, &raw mut id) })?;
    Ok(id)
}

/// Makes the kernel write an event's records into the buffer of another event, of the same thread or CPU.
pub(crate) fn set_output(event: &OwnedFd, buffer_of: &OwnedFd) -> Result<(), Errno> {
    // SAFETY: both are perf events of this process. The kernel keeps no pointer.
    Errno::result(unsafe { libc::ioctl(event.as_raw_fd(), SET_OUTPUT, buffer_of.as_raw_fd()) })?;
    Ok(())
}

/// Switches counting on or off. After it is switched off, the processor's buffered samples are in the records.
pub(crate) fn set_counting(event: &OwnedFd, counts: bool) -> Result<(), Errno> {
    let request = if counts { ENABLE } else { DISABLE };
    // SAFETY: a perf event of this process, and a request without an argument.
    Errno::result(unsafe { libc::ioctl(event.as_raw_fd(), request, 0) })?;
    Ok(())
}

/// A software event of the kernel: its number in `linux/perf_event.h`.
pub(crate) fn software(event: u32, user_only: bool) -> sys::perf_event_attr {
    of_kernel(sys::PERF_TYPE_SOFTWARE, event, user_only)
}

/// A hardware event that the kernel encodes for each processor, in user mode: its number in `linux/perf_event.h`.
pub(crate) fn hardware(event: u32) -> sys::perf_event_attr {
    let mut attributes = of_kernel(sys::PERF_TYPE_HARDWARE, event, true);
    attributes.set_exclude_guest(1);
    attributes
}

fn of_kernel(kind: u32, event: u32, user_only: bool) -> sys::perf_event_attr {
    let mut attributes = crate::pfm::empty_attributes();
    attributes.type_ = kind;
    attributes.config = u64::from(event);
    attributes.set_exclude_kernel(u64::from(user_only));
    attributes.set_exclude_hv(1);
    attributes
}

/// The time that a thread has run since this was opened.
pub(crate) struct TaskClock(File);

impl TaskClock {
    pub(crate) fn open(thread: i32) -> Result<Self, Errno> {
        let clock = |user_only| {
            let attributes = software(sys::PERF_COUNT_SW_TASK_CLOCK, user_only);
            open(&attributes, Watched::Thread(thread), None)
        };
        // The clock includes the time in the kernel in either case, but requesting that needs a privilege.
        match clock(false) {
            Err(Errno::EACCES | Errno::EPERM) => clock(true),
            opened => opened,
        }
        .map(|event| Self(event.into()))
    }

    pub(crate) fn ran(&mut self) -> Duration {
        let mut bytes = [0; size_of::<u64>()];
        match self.0.read(&mut bytes) {
            Ok(read) if read == bytes.len() => Duration::from_nanos(u64::from_ne_bytes(bytes)),
            _ => Duration::ZERO,
        }
    }
}
