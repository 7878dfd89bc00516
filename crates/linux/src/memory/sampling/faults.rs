//! The page faults of a process's threads, from the kernel's events: `page-faults` at the start of each, with the
//! thread and the address, and `minor-faults` at the end of each fault that needed no input. The time between the two
//! is the duration of the fault.
//!
//! Known limits: if another program listens to the page faults of a whole CPU, Linux 6.18 gives some records that other
//! event's id, and they are ignored.

use crate::perf_event::{self, TaskClock, Watched, id};
use crate::pfm::sys;
use crate::ring::{FIELDS, Record, Ring};
use nix::errno::Errno;
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Bytes of a thread's buffer: the faults of ten milliseconds, of a microsecond each, with two records of 48 bytes per
/// fault.
const BUFFER: usize = 1 << 20;

/// A page fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) thread: u32,
    pub(super) address: u64,
    /// The time on the clock of `now`.
    pub(super) at: Duration,
    pub(super) pu: u32,
    /// The time that the thread had spent in earlier faults since its events were opened.
    pub(super) in_faults: Duration,
}

/// The clock of faults: `CLOCK_MONOTONIC`.
pub(super) fn now() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the given structure, and this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

/// The faults of all threads of a process.
#[derive(Default)]
pub(super) struct Faults {
    threads: HashMap<i32, ThreadFaults>,
    /// Whether faults in the kernel are left out, because they are not permitted.
    user_only: bool,
    /// The number of lost records.
    pub(super) lost: u64,
}

impl Faults {
    /// Whether faults that the kernel makes on behalf of a thread are seen.
    pub(super) fn in_kernel(&self) -> bool {
        !self.user_only
    }

    /// Opens the events of the new threads among `threads`. A thread that has ended meanwhile is ignored.
    pub(super) fn listen(&mut self, threads: &[i32], page_size: usize) -> io::Result<()> {
        for &thread in threads {
            if self.threads.contains_key(&thread) {
                continue;
            }
            let mut opened = ThreadFaults::open(thread, page_size, self.user_only);
            if !self.user_only && opened.as_ref().is_err_and(|&error| is_forbidden(error)) {
                opened = ThreadFaults::open(thread, page_size, true);
                self.user_only = opened.is_ok();
            }
            match opened {
                Ok(faults) => {
                    self.threads.insert(thread, faults);
                }
                Err(Errno::ESRCH) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The faults since the last call, ordered by time.
    pub(super) fn take(&mut self) -> Vec<Fault> {
        let mut faults = vec![];
        for thread in self.threads.values_mut() {
            thread.take(&mut faults, &mut self.lost);
        }
        faults.sort_unstable_by_key(|fault| (fault.at, fault.thread));
        faults
    }

    /// The time that the threads have spent in faults since their events were opened.
    pub(super) fn in_faults(&self) -> Duration {
        self.threads.values().map(|thread| thread.in_faults).sum()
    }

    /// The time that the threads have run since their events were opened.
    pub(super) fn ran(&mut self) -> Duration {
        self.threads.values_mut().map(|thread| thread.task_clock.ran()).sum()
    }
}

fn is_forbidden(error: Errno) -> bool {
    matches!(error, Errno::EACCES | Errno::EPERM)
}

/// The faults of one thread.
struct ThreadFaults {
    ring: Ring,
    _begins: OwnedFd,
    /// The ids of the two events in records.
    begin: u64,
    end: u64,
    _ends: OwnedFd,
    task_clock: TaskClock,
    /// The last fault that has started: its time and address.
    begun: Option<(u64, u64)>,
    in_faults: Duration,
}

impl ThreadFaults {
    fn open(thread: i32, page_size: usize, user_only: bool) -> Result<Self, Errno> {
        let sampled = |event| {
            let mut attributes = perf_event::software(event, user_only);
            attributes.set_use_clockid(1);
            attributes.clockid = libc::CLOCK_MONOTONIC;
            attributes.__bindgen_anon_1.sample_period = 1;
            attributes.sample_type = u64::from(FIELDS);
            perf_event::open(&attributes, Watched::Thread(thread), None)
        };
        let begins = sampled(sys::PERF_COUNT_SW_PAGE_FAULTS)?;
        let ends = sampled(sys::PERF_COUNT_SW_PAGE_FAULTS_MIN)?;
        let ring = Ring::map(&begins, page_size, BUFFER)?;
        perf_event::set_output(&ends, &begins)?;
        Ok(Self {
            ring,
            begin: id(&begins)?,
            end: id(&ends)?,
            _begins: begins,
            _ends: ends,
            task_clock: TaskClock::open(thread)?,
            begun: None,
            in_faults: Duration::ZERO,
        })
    }

    fn take(&mut self, faults: &mut Vec<Fault>, lost: &mut u64) {
        let Self {
            ring,
            begin,
            end,
            begun,
            in_faults,
            ..
        } = self;
        ring.drain(|record| match record {
            Record::Sample(sample) if sample.event == *begin => {
                *begun = Some((sample.address, sample.time));
                faults.push(Fault {
                    thread: sample.thread,
                    address: sample.address,
                    at: Duration::from_nanos(sample.time),
                    pu: sample.pu,
                    in_faults: *in_faults,
                });
            }
            Record::Sample(sample) if sample.event == *end => {
                if let Some((_, since)) = begun.take_if(|&mut (address, _)| address == sample.address) {
                    *in_faults += Duration::from_nanos(sample.time.saturating_sub(since));
                }
            }
            Record::Sample(_) | Record::Throttled | Record::Fork { .. } => {}
            Record::Lost(records) => *lost += records,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// New pages, touched by this thread: each is one fault, with its address, and takes some time.
    #[test]
    fn each_first_touch_of_our_own_is_a_fault_with_its_address() {
        const PAGES: usize = 16;
        let page = usize::try_from(crate::memory::page_size()).unwrap();
        // SAFETY: the call only queries.
        let thread = unsafe { libc::gettid() };
        let mut faults = Faults::default();
        if let Err(error) = faults.listen(&[thread], page) {
            pinfold_testing::skip(format_args!("page faults may not be sampled here: {error}"));
            return;
        }
        // SAFETY: a new mapping, written within its bounds, and unmapped after its last use.
        let memory = unsafe {
            let memory = libc::mmap(
                std::ptr::null_mut(),
                PAGES * page,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(memory, libc::MAP_FAILED);
            libc::madvise(memory, PAGES * page, libc::MADV_NOHUGEPAGE);
            for at in (0..PAGES * page).step_by(page) {
                memory.cast::<u8>().add(at).write_volatile(1);
            }
            libc::munmap(memory, PAGES * page);
            memory as u64
        };
        let taken = faults.take();
        let within = |fault: &&Fault| (memory..memory + (PAGES * page) as u64).contains(&fault.address);
        let addresses: Vec<u64> = taken.iter().filter(within).map(|fault| fault.address).collect();
        let expected: Vec<u64> = (0..PAGES).map(|index| memory + (index * page) as u64).collect();
        assert_eq!(addresses, expected);
        assert!(
            taken
                .iter()
                .all(|fault| fault.thread == thread.cast_unsigned() && fault.at <= now())
        );
        assert!(!faults.in_faults().is_zero() && faults.ran() > Duration::ZERO && faults.lost == 0);
    }

    #[test]
    fn a_thread_that_has_ended_is_passed_over() {
        let mut faults = Faults::default();
        match faults.listen(&[i32::MAX], 4096) {
            Ok(()) => assert!(faults.take().is_empty()),
            Err(error) => pinfold_testing::skip(format_args!("page faults may not be sampled here: {error}")),
        }
    }
}
