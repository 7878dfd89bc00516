//! The system calls that locate and move a process's pages. They are made only while the process's number cannot name
//! another process.

use super::page_map::{Entry, PageMap};
use pinfold_core::{BrokenOffCode, NodeId};
use std::io;
use std::path::Path;
use std::time::Duration;

/// `MPOL_MF_MOVE` of `linux/mempolicy.h`: pages that only this process has mapped.
const MOVE: libc::c_long = 1 << 1;
/// `MPOL_MF_MOVE_ALL`: also pages that other processes have mapped.
const MOVE_ALL: libc::c_long = 1 << 2;

/// Bytes of the kernel's smallest pages.
pub fn page_size() -> u64 {
    // SAFETY: the call only queries.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(size).unwrap_or(4096)
}

/// Checks that pinfold may move pages that other processes have also mapped.
pub fn may_move_shared() -> io::Result<()> {
    // SAFETY: no page is given, so the kernel accesses no memory. It checks the privilege first.
    let result = unsafe {
        let none = std::ptr::null::<libc::c_void>();
        libc::syscall(libc::SYS_move_pages, 0, 0, none, none, none, MOVE_ALL)
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The calls that move pages. `Calls` makes them to the kernel.
pub trait MoveCalls {
    /// The `pagemap` words of the smallest pages from `start` up to `end`. `None` if they cannot be read.
    fn entries(&mut self, start: u64, end: u64) -> Option<Vec<Entry>>;

    /// Writes the node of each page, or a negative error number, to `status`.
    fn nodes(&mut self, pages: &[u64], status: &mut [i32]) -> Result<io::Result<()>, StopReason>;

    /// Moves the pages to `node`. With `all`, also moves pages that other processes have mapped. Writes each page's
    /// node or a negative error number to `status`, or leaves it unchanged. Returns the number of pages that were not
    /// moved for unreported reasons.
    fn move_to(
        &mut self,
        pages: &[u64],
        node: NodeId,
        all: bool,
        status: &mut [i32],
    ) -> Result<io::Result<u64>, StopReason>;

    /// Waits. A zero duration only checks whether to continue.
    fn pause(&mut self, duration: Duration) -> Result<(), StopReason>;
}

/// Why the migration stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StopReason {
    /// The process has ended, or is about to.
    #[error("the program has ended")]
    Ended,
    /// The user interrupted it.
    #[error("the user interrupted pinfold")]
    Interrupted,
}

impl StopReason {
    /// The code in JSON.
    pub fn code(self) -> BrokenOffCode {
        match self {
            Self::Ended => BrokenOffCode::Ended,
            Self::Interrupted => BrokenOffCode::Interrupted,
        }
    }
}

/// A process whose pages may be moved.
pub trait Target {
    /// Its number.
    fn process(&self) -> i32;

    /// Calls `act` while the number certainly names the process. Does not call it if the process has ended or the
    /// migration is interrupted.
    fn held(&self, act: &mut dyn FnMut(i32)) -> Result<(), StopReason>;

    /// Waits. Returns early if the process ends or the migration is interrupted.
    fn pause(&self, duration: Duration) -> Result<(), StopReason>;
}

/// The kernel's calls on one process.
pub struct Calls<'a> {
    target: &'a dyn Target,
    page_map: Option<PageMap>,
}

impl<'a> Calls<'a> {
    /// The calls on `target`, with the `/proc` at `procfs`, on a machine whose smallest pages have `page_size` bytes.
    pub fn new(target: &'a dyn Target, procfs: &Path, page_size: u64) -> Self {
        let mut page_map = None;
        let opened = target.held(&mut |process| page_map = PageMap::open(procfs, process, page_size).ok());
        Self {
            target,
            page_map: page_map.filter(|_| opened.is_ok()),
        }
    }

    /// `move_pages(2)` on the held process.
    fn move_pages(
        &self,
        pages: &[u64],
        nodes: Option<&[i32]>,
        status: &mut [i32],
        flags: libc::c_long,
    ) -> Result<io::Result<u64>, StopReason> {
        let mut result = 0;
        let mut error = None;
        let nodes = nodes.map_or(std::ptr::null(), <[i32]>::as_ptr);
        self.target.held(&mut |process| {
            // SAFETY: the kernel accesses as many elements as `pages` has. The other arrays are as long, and the kernel
            // keeps no pointer. The pages are addresses in the other process.
            result = unsafe {
                libc::syscall(
                    libc::SYS_move_pages,
                    libc::c_long::from(process),
                    pages.len(),
                    pages.as_ptr(),
                    nodes,
                    status.as_mut_ptr(),
                    flags,
                )
            };
            if result < 0 {
                error = Some(io::Error::last_os_error());
            }
        })?;
        match error {
            // The process is about to end: it has no memory or no number any more.
            Some(error) if matches!(error.raw_os_error(), Some(libc::ESRCH | libc::EINVAL)) => Err(StopReason::Ended),
            Some(error) => Ok(Err(error)),
            None => Ok(Ok(result.unsigned_abs())),
        }
    }
}

impl MoveCalls for Calls<'_> {
    fn entries(&mut self, start: u64, end: u64) -> Option<Vec<Entry>> {
        self.page_map.as_ref()?.entries(start, end).ok()
    }

    fn nodes(&mut self, pages: &[u64], status: &mut [i32]) -> Result<io::Result<()>, StopReason> {
        let asked = self.move_pages(pages, None, status, 0)?;
        Ok(asked.map(|_| ()))
    }

    fn move_to(
        &mut self,
        pages: &[u64],
        node: NodeId,
        all: bool,
        status: &mut [i32],
    ) -> Result<io::Result<u64>, StopReason> {
        let nodes = vec![node.0.cast_signed(); pages.len()];
        self.move_pages(pages, Some(&nodes), status, if all { MOVE_ALL } else { MOVE })
    }

    fn pause(&mut self, duration: Duration) -> Result<(), StopReason> {
        self.target.pause(duration)
    }
}
