//! The data that the recorded program's threads share: the memory shared with pinfold, the order of events, the numbers
//! of instructions, the window, and the file.
//!
//! None of this is on the path of an access: threads use it at events, at translations, when a block is full, and every
//! [`LOOK`] instructions when there is a window.

#![expect(
    clippy::cast_possible_truncation,
    reason = "this is for x86-64, and fewer than 2^32 instructions are translated"
)]

use crate::{code, place};
use pinfold_trace::shared::{self, Settings, Status};
use pinfold_trace::{Finished, Region, Window, Writer};
use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Instructions of a thread between two checks of the window's bounds: the precision of `--from` and `--instructions`
/// where threads do not meet.
pub(crate) const LOOK: u64 = 1000;

/// Instructions after which a window opens or closes although the threads have not met since its bound.
const LONGEST_WAIT: u64 = 100_000_000;

static SETTINGS: OnceLock<Settings> = OnceLock::new();
static MEMORY: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static SEQUENCE: AtomicU64 = AtomicU64::new(0);
static THREADS: AtomicU32 = AtomicU32::new(0);
/// Odd while accesses are recorded. It grows by one with every change.
pub(crate) static WINDOW: AtomicU64 = AtomicU64::new(0);
/// Instructions of all threads together. Counted only if the window is in instructions.
static INSTRUCTIONS: AtomicU64 = AtomicU64::new(0);
/// The number of instructions at which the window is to open or close next; `u64::MAX` for never. A window of
/// instructions has it.
static NEXT_BOUND: AtomicU64 = AtomicU64::new(u64::MAX);
/// Held while a bound is reached.
static BOUND: Mutex<()> = Mutex::new(());
/// Barriers that have opened.
static OPENED_BARRIERS: AtomicU64 = AtomicU64::new(0);
/// Whether threads have met at a barrier or a border of a parallel region.
static HAVE_MET: AtomicBool = AtomicBool::new(false);
/// Whether no further window can start.
static LAST_WINDOW_ENDED: AtomicBool = AtomicBool::new(false);
/// Whether the recorded process has forked this one, which is not recorded.
static STOPPED: AtomicBool = AtomicBool::new(false);
static FILE: Mutex<()> = Mutex::new(());
static REGIONS: Mutex<Regions> = Mutex::new(Regions {
    known: vec![],
    executions: 0,
    recorded_depth: 0,
});
static INSTRUCTION_NUMBERS: Mutex<Option<HashMap<u64, u32>>> = Mutex::new(None);
static PCS: Mutex<Vec<Pc>> = Mutex::new(vec![]);

/// A panic never unwinds into QEMU, so a poisoned lock's data are used as they are.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Maps the shared memory, the file with this name, and reads the settings.
pub(crate) fn start(file: &str) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(file)?;
    // SAFETY: a new mapping of SIZE bytes at an address that the kernel chooses. No existing memory is touched.
    let memory = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            shared::SIZE,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_NORESERVE,
            file.as_raw_fd(),
            0,
        )
    };
    if memory == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let memory = memory.cast::<u8>();
    // SAFETY: the mapping is larger than STATUS and stays. pinfold wrote the settings before it started QEMU.
    let head = unsafe { std::slice::from_raw_parts(memory, shared::STATUS) };
    let length = u64::from_ne_bytes(std::array::from_fn(|i| head[i])) as usize;
    let text = head[8..].get(..length).ok_or(io::ErrorKind::InvalidData)?;
    let settings: Settings = serde_json::from_slice(text)?;
    let recording_from_the_start = match &settings.window {
        None | Some(Window::Instructions { from: 0, .. }) => 1,
        Some(_) => 0,
    };
    WINDOW.store(recording_from_the_start, Ordering::Relaxed);
    if let Some(Window::Instructions { from, length, .. }) = settings.window {
        let first = if from == 0 { length } else { Some(from) };
        NEXT_BOUND.store(first.unwrap_or(u64::MAX), Ordering::Relaxed);
    }
    SETTINGS.set(settings).map_err(|_| io::ErrorKind::AlreadyExists)?;
    MEMORY.store(memory, Ordering::Release);
    set_status(Status::Started, 1);
    Ok(())
}

/// The memory for the blocks of the thread with this vcpu index.
pub(crate) fn slot(index: usize) -> Option<*mut u8> {
    let memory = MEMORY.load(Ordering::Acquire);
    // SAFETY: SLOTS slots lie inside the mapping.
    (index < shared::SLOTS && !memory.is_null())
        .then(|| unsafe { memory.add(shared::SLOTS_BEGIN + index * shared::SLOT) })
}

#[expect(
    clippy::cast_ptr_alignment,
    reason = "the mapping begins a page, and the words lie at multiples of 8"
)]
fn status(which: Status) -> &'static AtomicU64 {
    // SAFETY: the words lie inside the mapping, and are only used as atomics.
    unsafe { &*MEMORY.load(Ordering::Acquire).add(which.offset()).cast::<AtomicU64>() }
}

pub(crate) fn set_status(which: Status, value: u64) {
    status(which).store(value, Ordering::Relaxed);
}

pub(crate) fn add_to_status(which: Status) {
    status(which).fetch_add(1, Ordering::Relaxed);
}

/// The next position in the order of events.
pub(crate) fn next_sequence() -> u64 {
    SEQUENCE.fetch_add(1, Ordering::Relaxed)
}

/// The position of the next event. Does not reserve it.
pub(crate) fn sequence() -> u64 {
    SEQUENCE.load(Ordering::Relaxed)
}

/// The number of a new thread.
pub(crate) fn next_thread() -> u32 {
    THREADS.fetch_add(1, Ordering::Relaxed)
}

/// The number of threads that the program has had.
pub(crate) fn threads() -> u32 {
    THREADS.load(Ordering::Relaxed)
}

/// Stops recording in this process.
pub(crate) fn stop() {
    STOPPED.store(true, Ordering::Relaxed);
}

pub(crate) fn stopped() -> bool {
    STOPPED.load(Ordering::Relaxed)
}

/// Instructions by their address: numbers are consecutive, and do not change when QEMU translates an instruction again.
#[derive(Clone, Copy)]
pub(crate) struct Pc {
    pub(crate) address: u64,
    /// Whether the instruction is atomic.
    pub(crate) locked: bool,
}

impl Pc {
    /// The number of the instruction at this address.
    pub(crate) fn number(self) -> u32 {
        let mut numbers = lock(&INSTRUCTION_NUMBERS);
        *numbers.get_or_insert_default().entry(self.address).or_insert_with(|| {
            let mut pcs = lock(&PCS);
            pcs.push(self);
            pcs.len() as u32 - 1
        })
    }

    /// The instruction with this number.
    pub(crate) fn of(number: u32) -> Self {
        lock(&PCS)[number as usize]
    }
}

struct Regions {
    /// The regions' identities in the order of their first starts, and whether the window is for them.
    known: Vec<(u64, bool)>,
    /// Executions of the region of the window.
    executions: u64,
    /// The depth of the region within a recorded execution.
    recorded_depth: u64,
}

/// A parallel region starts (`true`) or has ended: the window may open or close. At a region's first start its place is
/// added to the recording.
pub(crate) fn region(identity: u64, begins: bool) {
    let window = SETTINGS.get().and_then(|settings| settings.window.as_ref());
    let mut regions = lock(&REGIONS);
    let known = regions.known.iter().find(|(known, _)| *known == identity);
    let wanted = if let Some((_, wanted)) = known {
        *wanted
    } else {
        let place = place::of(identity);
        let number = regions.known.len() as u64;
        let wanted = match window {
            Some(Window::Region { region, .. }) => match region {
                Region::Number(wanted) => *wanted == number,
                Region::Address(address) => *address == identity,
                Region::Functions(functions) => place.as_ref().is_some_and(|place| functions.hold(place)),
            },
            _ => false,
        };
        regions.known.push((identity, wanted));
        if let Some(place) = place {
            append(Ok(Writer::region(&place)));
        }
        wanted
    };
    let Some(Window::Region { every, .. }) = window else {
        return;
    };
    if !wanted {
        return;
    }
    if begins {
        let recorded = regions.executions.is_multiple_of(*every);
        regions.executions += 1;
        if recorded || regions.recorded_depth > 0 {
            regions.recorded_depth += 1;
            if regions.recorded_depth == 1 {
                WINDOW.fetch_add(1, Ordering::Relaxed);
            }
        }
    } else if regions.recorded_depth > 0 {
        regions.recorded_depth -= 1;
        if regions.recorded_depth == 0 {
            WINDOW.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Whether only a part of the run is recorded.
pub(crate) fn windowed() -> bool {
    SETTINGS.get().is_some_and(|settings| settings.window.is_some())
}

/// Whether the program ends after the last window.
pub(crate) fn stops_after_window() -> bool {
    SETTINGS.get().is_some_and(|settings| settings.stop)
}

/// Whether the last window has ended, so that no further access is recorded.
pub(crate) fn last_window_ended() -> bool {
    LAST_WINDOW_ENDED.load(Ordering::Relaxed)
}

/// Whether the window has bounds that threads must check as they run.
pub(crate) fn window_is_of_instructions() -> bool {
    matches!(
        SETTINGS.get().and_then(|settings| settings.window.as_ref()),
        Some(Window::Instructions { .. })
    )
}

/// Counts `more` instructions. The window may open or close.
pub(crate) fn add_instructions(more: u64) {
    let total = INSTRUCTIONS.fetch_add(more, Ordering::Relaxed) + more;
    if total >= NEXT_BOUND.load(Ordering::Relaxed) {
        reach_bound(total, false);
    }
}

/// The number of barriers that have opened.
pub(crate) fn opened_barriers() -> u64 {
    OPENED_BARRIERS.load(Ordering::Relaxed)
}

/// A thread leaves a barrier; `before` had opened when it arrived there. The first one to leave it sees it open while
/// the others are still in it.
pub(crate) fn leave_barrier(before: u64) {
    let opens = OPENED_BARRIERS.compare_exchange(before, before + 1, Ordering::Relaxed, Ordering::Relaxed);
    if opens.is_ok() {
        meet();
    }
}

/// All threads of a team wait, at a barrier that opens or outside a parallel region. If the window is to open or close,
/// it does so here. So no thread is cut in the middle of work that others then wait for.
pub(crate) fn meet() {
    HAVE_MET.store(true, Ordering::Relaxed);
    let total = INSTRUCTIONS.load(Ordering::Relaxed);
    if total >= NEXT_BOUND.load(Ordering::Relaxed) {
        reach_bound(total, true);
    }
}

/// Opens or closes the window, unless it is better to wait until threads meet.
#[cold]
fn reach_bound(total: u64, meets: bool) {
    let Some(Window::Instructions { from, length, every }) =
        SETTINGS.get().and_then(|settings| settings.window.as_ref())
    else {
        return;
    };
    let _guard = lock(&BOUND);
    // Another thread may have been faster.
    let Some(late) = total.checked_sub(NEXT_BOUND.load(Ordering::Relaxed)) else {
        return;
    };
    let can_meet = threads() > 1 && HAVE_MET.load(Ordering::Relaxed);
    if can_meet && !meets && late < LONGEST_WAIT {
        return;
    }
    let opens = WINDOW.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
    let next = match (opens, length, every) {
        (true, length, _) => length.map(|length| total + length),
        (false, _, Some(every)) => Some(from + (total - from).div_ceil(*every) * every),
        (false, _, None) => {
            LAST_WINDOW_ENDED.store(true, Ordering::Relaxed);
            None
        }
    };
    NEXT_BOUND.store(next.unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// Appends a block to the file.
pub(crate) fn append_block(block: &Finished<'_>) {
    code::flush();
    append(Writer::block(block));
}

/// Appends a frame to the file. The file is opened by its name each time, so that the recorded program can close all
/// its descriptors.
pub(crate) fn append(frame: io::Result<Vec<u8>>) {
    if stopped() {
        return;
    }
    let Some(settings) = SETTINGS.get() else { return };
    let _guard = lock(&FILE);
    let written = frame.and_then(|frame| {
        OpenOptions::new()
            .append(true)
            .open(&settings.output)?
            .write_all(&frame)
    });
    if let Err(error) = written {
        set_status(
            Status::WriteError,
            u64::from(error.raw_os_error().unwrap_or(libc::EIO).unsigned_abs()),
        );
        stop();
    }
}
