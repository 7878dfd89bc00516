//! The guard: a small process that unpins what outlives pinfold, should pinfold die without doing so itself.
//!
//! It is needed only where the program is to go on when pinfold is killed; otherwise the kernel ends the program with
//! it. It sleeps until then and costs nothing.
//!
//! 1. pinfold creates a memory file with one slot a pinned task, and a pipe, and forks the guard.
//! 2. Before it pins a task, pinfold writes which task, on which PU, and where it ran before, into a slot.
//! 3. The guard blocks in a read of the pipe. A byte is a farewell: it exits. The end of the pipe is pinfold's death.
//! 4. Then it gives each task in a slot that is still the same task (by its start time) and still has the mask that
//!    pinfold set its own mask back, and likewise the threads and child processes that such a task has begun since;
//!    again until nothing is left to do.
//!
//! Limits: a process that was begun after pinfold's death by one that has ended by then is not found. A guard that is
//! killed together with pinfold restores nothing.

use crate::affinity::{CpuMask, kernel_words};
use crate::launch::exec::pipe;
use crate::launch::inherited::HIGHEST_SIGNAL;
use crate::procfs::Procfs;
use pinfold_core::{PuId, TaskId};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, Read, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;

/// pinfold's end of the guard.
#[derive(Debug)]
pub(crate) struct Guard {
    process: i32,
    pipe: File,
    slots: File,
    slot_of: HashMap<u64, u64>,
    free: BTreeSet<u64>,
}

/// What is written into a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    process: i32,
    thread: i32,
    /// Start time of the thread.
    start: u64,
    /// Where it was pinned.
    pu: PuId,
    /// Where it ran before.
    original: CpuMask,
}

/// Words of a record before those of its mask.
const HEADER_WORDS: usize = 5;
const USED: u64 = 1;

/// Bytes of a slot: a power of two, so that up to 16,000 PUs no slot lies on two pages and a write that a kill
/// interrupts is seen whole or not at all.
fn slot_size() -> u64 {
    (((HEADER_WORDS + kernel_words()) * size_of::<u64>()) as u64).next_power_of_two()
}

impl Record {
    fn to_bytes(&self) -> Vec<u8> {
        let numbers = [
            USED,
            u64::from(self.process.cast_unsigned()),
            u64::from(self.thread.cast_unsigned()),
            self.start,
            u64::from(self.pu.0),
        ];
        let mask = self.original.words();
        let mut bytes = Vec::with_capacity(usize::try_from(slot_size()).unwrap_or(0));
        for word in numbers.iter().chain(mask) {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.resize((HEADER_WORDS + kernel_words()) * size_of::<u64>(), 0);
        bytes
    }

    /// `None` for a slot that is not in use.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (words, _) = bytes.as_chunks::<8>();
        let words: Vec<u64> = words.iter().map(|&word| u64::from_ne_bytes(word)).collect();
        let [USED, process, thread, start, pu, mask @ ..] = words.as_slice() else {
            return None;
        };
        Some(Self {
            process: i32::try_from(*process).ok()?,
            thread: i32::try_from(*thread).ok()?,
            start: *start,
            pu: PuId(u32::try_from(*pu).ok()?),
            original: CpuMask::from_words(mask.to_vec()),
        })
    }
}

impl Guard {
    /// Forks the guard. It has no terminal, no standard streams, and no other file of this process.
    pub(crate) fn start() -> io::Result<Self> {
        let (pipe_read, pipe_write) = pipe()?;
        // SAFETY: the name is a C string, and the descriptor is ours alone.
        let slots = unsafe {
            let descriptor = libc::memfd_create(c"pinfold-guard".as_ptr(), libc::MFD_CLOEXEC);
            if descriptor < 0 {
                return Err(io::Error::last_os_error());
            }
            File::from_raw_fd(descriptor)
        };
        // Asked before the fork, which may happen while another thread is asking.
        let _ = slot_size();
        // SAFETY: the child shares no lock with this process but the allocator's, which the C library's fork leaves
        // usable in the child of a process with several threads; it never returns from `watch`.
        let process = unsafe { libc::fork() };
        match process {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                // Whoever keeps this end never sees the pipe end.
                drop(pipe_write);
                watch(File::from(pipe_read), slots)
            }
            _ => Ok(Self {
                process,
                pipe: File::from(pipe_write),
                slots,
                slot_of: HashMap::new(),
                free: BTreeSet::new(),
            }),
        }
    }

    /// Notes that `task` is about to be pinned on `pu`. `start` is the thread's start time.
    pub(crate) fn note(&mut self, task: TaskId, start: u64, pu: PuId, original: &CpuMask) -> io::Result<()> {
        let next = (self.slot_of.len() + self.free.len()) as u64;
        let slot = *self
            .slot_of
            .entry(task.serial)
            .or_insert_with(|| self.free.pop_first().unwrap_or(next));
        let record = Record {
            process: task.process,
            thread: task.thread,
            start,
            pu,
            original: original.clone(),
        };
        self.slots.write_all_at(&record.to_bytes(), slot * slot_size())
    }

    /// Whether a task is noted.
    pub(crate) fn knows(&self, task: TaskId) -> bool {
        self.slot_of.contains_key(&task.serial)
    }

    /// Forgets a task that is no longer pinned.
    pub(crate) fn forget(&mut self, task: TaskId) {
        if let Some(slot) = self.slot_of.remove(&task.serial) {
            self.free.insert(slot);
            // A stale record does no harm: it names a task by its start time, and a mask that it must still have.
            let _ = self.slots.write_all_at(&0u64.to_ne_bytes(), slot * slot_size());
        }
    }
}

/// The farewell: nothing is pinned any more, or all that is shall stay so.
impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.pipe.write_all(b"!");
        // SAFETY: the guard is this process's child and is waited for nowhere else.
        unsafe { libc::waitpid(self.process, std::ptr::null_mut(), 0) };
    }
}

/// The guard's whole life.
fn watch(pipe: File, slots: File) -> ! {
    // SAFETY: plain system calls in a process of a single thread, which keeps the two files under the descriptors 0
    // and 1 and closes all others; `ManuallyDrop` keeps the old ones from being closed a second time.
    let (mut pipe, slots) = unsafe {
        let (pipe, slots) = (ManuallyDrop::new(pipe), ManuallyDrop::new(slots));
        // Its own session: what the terminal sends to pinfold is not meant for the guard.
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, c"pinfold-guard".as_ptr());
        for signal in 1..=HIGHEST_SIGNAL {
            libc::signal(signal, libc::SIG_IGN);
        }
        libc::dup2(pipe.as_raw_fd(), 0);
        libc::dup2(slots.as_raw_fd(), 1);
        if libc::syscall(libc::SYS_close_range, 2, u32::MAX, 0) < 0 {
            // Linux before 5.9 has no such call, and a filter may forbid it.
            let most = libc::sysconf(libc::_SC_OPEN_MAX).clamp(3, 65_536);
            for descriptor in 2..i32::try_from(most).unwrap_or(65_536) {
                libc::close(descriptor);
            }
        }
        (File::from_raw_fd(0), File::from_raw_fd(1))
    };
    let farewell = matches!(pipe.read(&mut [0]), Ok(1));
    if !farewell {
        restore(&Procfs::default(), &read_records(&slots));
    }
    // SAFETY: ends the process without running what belongs to the one that it was forked from.
    unsafe { libc::_exit(0) }
}

fn read_records(slots: &File) -> Vec<Record> {
    let length = slots.metadata().map_or(0, |metadata| metadata.len());
    (0..length.div_ceil(slot_size()))
        .filter_map(|slot| {
            let mut bytes = vec![0; (HEADER_WORDS + kernel_words()) * size_of::<u64>()];
            slots.read_exact_at(&mut bytes, slot * slot_size()).ok()?;
            Record::from_bytes(&bytes)
        })
        .collect()
}

/// How the newcomers of a process are recognised: the PUs on which its tasks were pinned, with where they ran before.
type Pinnings = BTreeMap<PuId, CpuMask>;

/// Gives back what the records say, until nothing is left to do.
fn restore(procfs: &Procfs, records: &[Record]) {
    loop {
        let mut pinned: HashMap<i32, &Record> = HashMap::new();
        let mut processes: BTreeMap<i32, Pinnings> = BTreeMap::new();
        for record in records {
            let stat = procfs.stat(record.process, record.thread);
            if stat.is_some_and(|stat| stat.start == record.start) {
                pinned.insert(record.thread, record);
                let pinnings = processes.entry(record.process).or_default();
                pinnings.insert(record.pu, record.original.clone());
            }
        }
        let mut seen: BTreeSet<i32> = processes.keys().copied().collect();
        let mut todo: Vec<(i32, Pinnings)> = processes.into_iter().collect();
        let mut restored = false;
        while let Some((process, pinnings)) = todo.pop() {
            for thread in procfs.threads(process) {
                let children = procfs.children(process, thread);
                todo.extend(
                    children
                        .into_iter()
                        .filter(|&child| seen.insert(child))
                        .map(|child| (child, pinnings.clone())),
                );
                let Some(pu) = CpuMask::of_thread(thread).ok().and_then(|mask| mask.only()) else {
                    continue;
                };
                let original = match pinned.get(&thread) {
                    Some(record) => (record.pu == pu).then_some(&record.original),
                    None => pinnings.get(&pu),
                };
                restored |= original.is_some_and(|original| {
                    original.give_to(thread).is_ok()
                        && CpuMask::of_thread(thread).is_ok_and(|mask| mask.only() != Some(pu))
                });
            }
        }
        if !restored {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_record_is_read_back_as_it_was_written(
            process in 1i32.., thread in 1i32.., start in any::<u64>(), pu in 0u32..512,
            pus in proptest::collection::btree_set(0u32..512, 1..9)
        ) {
            let original = pus.into_iter().map(PuId).collect();
            let record = Record { process, thread, start, pu: PuId(pu), original };
            prop_assert_eq!(Record::from_bytes(&record.to_bytes()), Some(record));
        }
    }

    #[test]
    fn an_unused_slot_holds_no_record() {
        assert_eq!(Record::from_bytes(&[0; 64]), None);
    }
}
