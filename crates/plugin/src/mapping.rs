//! The mappings of the recorded program: the initial ones from this process's memory map, because QEMU maps the
//! program's files, and later ones from its system calls.

use crate::memory_call::MemoryCall;
use crate::place::{self, MapsLine};
use crate::recorder;
use crate::thread::Thread;
use crate::touches::{self, PAGE_BYTES};
use pinfold_trace::{Backing, EventKind, MappedFile, Writer};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const MAP_SHARED: u64 = 1;
const MAP_FIXED: u64 = 0x10;
const MAP_ANONYMOUS: u64 = 0x20;
const MAP_FIXED_NOREPLACE: u64 = 0x10_0000;

/// The mapped files, by their numbers.
static FILES: Mutex<Vec<PathBuf>> = Mutex::new(vec![]);
/// The address of the program's first access. 0 before it.
static FIRST_ACCESS: AtomicU64 = AtomicU64::new(0);
/// The end of the heap from the last `brk`. 0 before the first call.
static HEAP_END: AtomicU64 = AtomicU64::new(0);
static TOLD_STACK: AtomicBool = AtomicBool::new(false);

/// Records the initial mappings. The program's first access comes later.
pub(crate) fn tell_begin(thread: &mut Thread) {
    for line in place::maps() {
        let MapsLine { start, end, .. } = line;
        let backing = file(Path::new(&line.file)).unwrap_or(Backing::FOUND);
        thread.event_before_block(EventKind::Map {
            address: start,
            length: end.wrapping_sub(start),
            protection: line.protection,
            backing,
            offset: line.offset,
        });
    }
}

/// Notes an access by a new instruction. The program's first access is to its stack, which has the initial data of a
/// program (System V ABI for AMD64, section 3.4.1).
pub(crate) fn note_access(address: u64) {
    let _ = FIRST_ACCESS.compare_exchange(0, address, Ordering::Relaxed, Ordering::Relaxed);
}

/// Records the address of the stack once, when it is known.
pub(crate) fn tell_stack(thread: &mut Thread) {
    let address = FIRST_ACCESS.load(Ordering::Relaxed);
    if address != 0 && !TOLD_STACK.swap(true, Ordering::Relaxed) {
        thread.event(EventKind::Stack { address });
    }
}

/// Records the effect of a system call on mappings that has returned `result`.
pub(crate) fn tell_result(thread: &mut Thread, call: MemoryCall, result: i64) {
    let Ok(address) = u64::try_from(result) else { return };
    tell_touches(thread, call, address);
    let event = match call {
        MemoryCall::Map {
            length,
            protection,
            flags,
            descriptor,
            offset,
        } => {
            let anonymous = Backing::number(flags & MAP_SHARED != 0, flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) != 0);
            let named = (flags & MAP_ANONYMOUS == 0).then(|| fs::read_link(format!("/proc/self/fd/{descriptor}")).ok());
            let backing = named.flatten().and_then(|name| file(&name));
            EventKind::Map {
                address,
                length,
                protection,
                offset: if backing.is_some() { offset } else { 0 },
                backing: backing.unwrap_or(anonymous),
            }
        }
        MemoryCall::Protect {
            address,
            length,
            protection,
        } => EventKind::Protect {
            address,
            length,
            protection,
        },
        MemoryCall::Remap {
            from,
            old_length,
            length,
        } => EventKind::Remap {
            from,
            old_length,
            address,
            length,
        },
        MemoryCall::Break => EventKind::Break { address },
        MemoryCall::Read { .. } => return,
    };
    thread.event(event);
}

/// Updates the touched pages after a system call that returned `result`.
fn tell_touches(thread: &mut Thread, call: MemoryCall, result: u64) {
    match call {
        // The result is the number of bytes that the kernel has written.
        MemoryCall::Read { address } => thread.touch(address, result),
        MemoryCall::Remap { from, old_length, .. } => move_touches(thread, from, old_length, result),
        // The result is the heap's end. The kernel has freed the pages above it.
        MemoryCall::Break => {
            let before = HEAP_END.swap(result, Ordering::Relaxed);
            touches::forget(result, before.saturating_sub(result));
        }
        MemoryCall::Map { .. } | MemoryCall::Protect { .. } => {}
    }
}

/// Memory moves to another address. Its pages count as touched by the thread that moves them: in nearly all cases it
/// has filled them.
fn move_touches(thread: &mut Thread, from: u64, length: u64, to: u64) {
    if from == to {
        return;
    }
    for page in touches::pages_of(from, length).filter(|&page| touches::is_touched(page)) {
        thread.touch(to + page * PAGE_BYTES - from, 1);
    }
    touches::forget(from, length);
}

/// The number of a file in mappings. A new file is added to the recording. `None` if the name is not a regular file.
fn file(name: &Path) -> Option<u64> {
    let metadata = fs::metadata(name).ok().filter(fs::Metadata::is_file)?;
    let mut files = recorder::lock(&FILES);
    let number = files.iter().position(|known| known == name).unwrap_or_else(|| {
        files.push(name.to_owned());
        let number = files.len() - 1;
        recorder::append(Ok(Writer::file(&MappedFile {
            number: number as u64,
            file: name.to_owned(),
            size: metadata.size(),
            modified: metadata.mtime(),
        })));
        number
    });
    Some(Backing::FILES + number as u64)
}
