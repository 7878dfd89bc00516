//! The memory that a program uses, beside the memory that its recorded window accesses.
//!
//! A window that accesses a small part of the program's memory shows a program that fits the caches, because the
//! simulator repeats the window until the caches are warm. Outside windows, a recording has the first touch of each
//! page, and what is unmapped and discarded: the footprint is the most pages that were touched and mapped at one time,
//! and pages that only the window accesses.
//!
//! A program whose whole memory fits one last-level cache is covered by any window: it fits that cache wherever its
//! threads are, as the repeated window does.
//!
//! Known limits: what the program touches after its last window is not recorded, and not counted. A window of a small
//! program may still access less than the private caches hold while the program accesses more.

use super::synchronisation::ThreadEvents;
use crate::model::{Model, PAGE_BYTES};
use pinfold_trace::EventKind;
use std::collections::BTreeSet;
use std::ops::Range;

/// A window covers its program if it accesses at least this share of the footprint's lines. A program that accesses as
/// many lines as it has, at random, comes to 1 - 1/e of them.
const SHARE: f64 = 0.5;
/// Or if it accesses at least this multiple of all last-level caches: repeated, it hits them as rarely as the program
/// does.
const CACHES: f64 = 2.0;
/// The part of a footprint that no program uses while it works: pages that the loader, the C library and OpenMP's
/// runtime touch before and after, and for each thread its stack and its descriptor. The workload `barrier`, which has
/// no data, uses 483,328 bytes with 8 threads and 622,592 with 24: 413,696 and 8,704 for each thread. These are the
/// next powers of two.
const RUNTIME_BYTES: u64 = 512 << 10;
const THREAD_BYTES: u64 = 16 << 10;

/// How much of a program's memory its recorded window accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coverage {
    /// The cache lines that the window accesses, in bytes.
    pub window_bytes: u64,
    /// The memory that the program uses, in bytes of whole pages; `None` if the recording does not say it.
    pub footprint_bytes: Option<u64>,
    /// The number of threads.
    pub threads: u64,
    /// Whether the whole run was recorded.
    pub whole: bool,
}

impl Coverage {
    /// Whether the window represents the program on this machine; `None` if unknown.
    pub fn is_enough(&self, model: &Model) -> Option<bool> {
        if self.whole {
            return Some(true);
        }
        let window = self.window_bytes as f64;
        if window >= CACHES * model.llc_bytes() as f64 {
            return Some(true);
        }
        let runtime = RUNTIME_BYTES + self.threads * THREAD_BYTES;
        let used = self.footprint_bytes?.saturating_sub(runtime);
        Some(used <= model.domain_llc_bytes() || window >= SHARE * used as f64)
    }
}

/// The footprint in bytes. `accessed` has the pages that the window accesses, in their order.
pub(super) fn bytes(events: &[ThreadEvents], accessed: &[u64]) -> u64 {
    let mut changes: Vec<(u64, EventKind)> = events
        .iter()
        .flat_map(|thread| &thread.events)
        .filter_map(|event| match event.kind {
            EventKind::FirstTouch { since, .. } => Some((since, event.kind)),
            EventKind::Unmap { .. } | EventKind::Discard { .. } => Some((event.sequence, event.kind)),
            _ => None,
        })
        .collect();
    changes.sort_by_key(|&(sequence, _)| sequence);
    let mut present: BTreeSet<u64> = BTreeSet::new();
    let mut ever: BTreeSet<u64> = BTreeSet::new();
    let mut most = 0;
    for (_, kind) in changes {
        match kind {
            EventKind::FirstTouch { address, length, .. } => {
                let pages = pages(address, length);
                present.extend(pages.clone());
                ever.extend(pages);
                most = most.max(present.len());
            }
            EventKind::Unmap { address, length } | EventKind::Discard { address, length } => {
                let gone: Vec<u64> = present.range(pages(address, length)).copied().collect();
                for page in gone {
                    present.remove(&page);
                }
            }
            _ => {}
        }
    }
    let only_accessed = accessed.iter().filter(|page| !ever.contains(page)).count();
    (most + only_accessed) as u64 * PAGE_BYTES
}

/// The most pages that one event is believed to touch: 1 TiB.
const MOST_PAGES: u64 = 1 << 28;

/// The pages of a range of memory.
pub(super) fn pages(address: u64, length: u64) -> Range<u64> {
    let first = address / PAGE_BYTES;
    first
        ..address
            .saturating_add(length)
            .div_ceil(PAGE_BYTES)
            .min(first + MOST_PAGES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::builtin;
    use pinfold_trace::Event;

    fn thread(number: u32, events: &[(u64, EventKind)]) -> ThreadEvents {
        let event = |&(sequence, kind): &(u64, EventKind)| Event {
            sequence,
            instructions: 0,
            kind,
        };
        ThreadEvents {
            number,
            events: events.iter().map(event).collect(),
        }
    }

    fn touch(page: u64, pages: u64, since: u64) -> (u64, EventKind) {
        let (address, length) = (page * PAGE_BYTES, pages * PAGE_BYTES);
        (since + 1, EventKind::FirstTouch { address, length, since })
    }

    fn unmap(page: u64, pages: u64, sequence: u64) -> (u64, EventKind) {
        let (address, length) = (page * PAGE_BYTES, pages * PAGE_BYTES);
        (sequence, EventKind::Unmap { address, length })
    }

    #[test]
    fn the_footprint_is_the_most_at_one_time() {
        // 10 pages: 8 go before 5 others come, and at the end all go.
        let events = [
            thread(0, &[touch(0, 10, 1), unmap(0, 8, 5), unmap(0, 100, 20)]),
            thread(1, &[touch(50, 5, 9)]),
        ];
        assert_eq!(bytes(&events, &[]), 10 * PAGE_BYTES);
        assert_eq!(bytes(&events, &[1, 51, 200, 201]), 12 * PAGE_BYTES);
    }

    #[test]
    fn a_window_covers_half_of_the_memory_or_twice_the_caches_or_a_program_that_fits_one() {
        let model = builtin("e5-4650x4").unwrap();
        let caches = model.llc_bytes();
        assert_eq!(caches, 80 << 20);
        let coverage = |window_bytes, footprint_bytes| Coverage {
            window_bytes,
            footprint_bytes,
            threads: 8,
            whole: false,
        };
        assert_eq!(coverage(16 << 20, Some(256 << 20)).is_enough(&model), Some(false));
        assert_eq!(coverage(16 << 20, Some(32 << 20)).is_enough(&model), Some(true));
        assert_eq!(coverage(8 << 20, Some(32 << 20)).is_enough(&model), Some(false));
        assert_eq!(coverage(2 * caches, Some(100 * caches)).is_enough(&model), Some(true));
        assert_eq!(coverage(16 << 20, None).is_enough(&model), None);
        // A program without data is covered by its accesses.
        assert_eq!(coverage(16 << 10, Some(483_328)).is_enough(&model), Some(true));
        let of_24 = Coverage {
            threads: 24,
            ..coverage(32 << 10, Some(622_592))
        };
        assert_eq!(of_24.is_enough(&model), Some(true));
        // All that a small program uses fits one of the caches.
        let one = model.domain_llc_bytes();
        assert_eq!(one, 20 << 20);
        let runtime = RUNTIME_BYTES + 8 * THREAD_BYTES;
        assert_eq!(coverage(1 << 20, Some(one + runtime)).is_enough(&model), Some(true));
        assert_eq!(
            coverage(1 << 20, Some(one + runtime + PAGE_BYTES)).is_enough(&model),
            Some(false)
        );
        let whole = Coverage {
            whole: true,
            ..coverage(1, None)
        };
        assert_eq!(whole.is_enough(&model), Some(true));
    }
}
