//! Which thread touches each page of a recording first: the owner of the page, on whose node the kernel places it.
//!
//! 1. Find the first simulated access to each page.
//! 2. If a thread touched the page before that access without being recorded (before a window, between windows, or by a
//!    system call), that thread is the owner: the last such thread, because earlier ones touched pages that were
//!    unmapped since.
//!
//! The order is the order of the events of all threads. An access has the position of its thread's previous event.

use super::footprint::pages;
use super::order::Orders;
use super::synchronisation::ThreadEvents;
use crate::model::{LINE_BYTES, PAGE_BYTES};
use pinfold_trace::{Batch, EventKind, Recording, TraceError};
use std::collections::HashMap;

/// The pages whose accesses a thread remembers, by their low bits.
const REMEMBERED: usize = 4096;

/// A touch of a page: its position in the order of events, and the index of the thread.
type Touch = (u64, u32);

/// What the simulated accesses touch.
pub(super) struct Touched {
    /// Each page with the index of its owner, in the order of pages. Of threads that touch a page at the same position,
    /// the first-born one is the owner.
    pub(super) owners: Vec<(u64, u32)>,
    /// The number of cache lines.
    pub(super) lines: u64,
}

/// A page that is accessed: the first touch, and a bit for each of its lines that is accessed.
struct Accessed {
    first: Touch,
    lines: u64,
}

/// What a thread has accessed of a page lately.
#[derive(Clone, Copy)]
struct Recent {
    page: u64,
    first: u64,
    lines: u64,
}

/// Reads all accesses once.
pub(super) fn touched(
    recording: &Recording,
    events: &[ThreadEvents],
    orders: &[Orders],
) -> Result<Touched, TraceError> {
    let mut accessed: HashMap<u64, Accessed> = HashMap::new();
    for ((number, thread), owner) in recording.threads().iter().enumerate().zip(0u32..) {
        let mut batch: Batch = Batch::default();
        let mut reader = recording.read(thread);
        let mut next_event = 0;
        let mut sequence = 0;
        let mut recent: Vec<Option<Recent>> = vec![None; REMEMBERED];
        while reader.next_batch(&mut batch)? {
            let mut marks = batch.events.iter().peekable();
            for (index, access) in batch.accesses.iter().enumerate() {
                while marks.next_if(|(before, _)| *before <= index).is_some() {
                    sequence = events[number].events[next_event].sequence;
                    next_event += 1;
                }
                if orders[number].silent(next_event) {
                    continue;
                }
                let page = access.address / PAGE_BYTES;
                let line = 1 << (access.address % PAGE_BYTES / LINE_BYTES);
                match &mut recent[page as usize % REMEMBERED] {
                    Some(known) if known.page == page => known.lines |= line,
                    place => {
                        let first = sequence;
                        if let Some(before) = place.replace(Recent {
                            page,
                            first,
                            lines: line,
                        }) {
                            add(&mut accessed, before, owner);
                        }
                    }
                }
            }
            for _ in marks {
                sequence = events[number].events[next_event].sequence;
                next_event += 1;
            }
        }
        for rest in recent.into_iter().flatten() {
            add(&mut accessed, rest, owner);
        }
    }
    let lines = accessed.values().map(|page| u64::from(page.lines.count_ones())).sum();
    let mut accessed: Vec<(u64, Touch)> = accessed.into_iter().map(|(page, of)| (page, of.first)).collect();
    accessed.sort_unstable();
    let unrecorded = unrecorded_touches(events, &accessed);
    let owner = |(page, first): (u64, Touch)| (page, unrecorded.get(&page).unwrap_or(&first).1);
    Ok(Touched {
        owners: accessed.into_iter().map(owner).collect(),
        lines,
    })
}

fn add(accessed: &mut HashMap<u64, Accessed>, recent: Recent, owner: u32) {
    let first = (recent.first, owner);
    accessed
        .entry(recent.page)
        .and_modify(|known| {
            known.first = first.min(known.first);
            known.lines |= recent.lines;
        })
        .or_insert(Accessed {
            first,
            lines: recent.lines,
        });
}

/// For each page that a thread touched unrecorded before it was `accessed`: the last such touch. `accessed` is in the
/// order of pages.
fn unrecorded_touches(events: &[ThreadEvents], accessed: &[(u64, Touch)]) -> HashMap<u64, Touch> {
    let mut last: HashMap<u64, Touch> = HashMap::new();
    for (thread, owner) in events.iter().zip(0u32..) {
        for event in &thread.events {
            let EventKind::FirstTouch { address, length, since } = event.kind else {
                continue;
            };
            let touched = pages(address, length);
            let begin = accessed.partition_point(|&(page, _)| page < touched.start);
            for &(page, (sequence, _)) in accessed[begin..].iter().take_while(|&&(page, _)| page < touched.end) {
                if since <= sequence {
                    let touch = (since, owner);
                    last.entry(page)
                        .and_modify(|kept| *kept = touch.max(*kept))
                        .or_insert(touch);
                }
            }
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_trace::Event;

    fn thread(number: u32, touches: &[(u64, u64, u64)]) -> ThreadEvents {
        let event = |&(page, pages, since): &(u64, u64, u64)| Event {
            sequence: since + 1,
            instructions: 0,
            kind: EventKind::FirstTouch {
                address: page * PAGE_BYTES,
                length: pages * PAGE_BYTES,
                since,
            },
        };
        ThreadEvents {
            number,
            events: touches.iter().map(event).collect(),
        }
    }

    #[test]
    fn the_last_touch_before_the_first_recorded_access_counts() {
        // Thread 0 touched pages 5 to 7; page 6 was unmapped, and thread 1 touched it again; page 7 was accessed
        // before.
        let events = [thread(0, &[(5, 3, 10)]), thread(1, &[(6, 1, 20), (5, 1, 90)])];
        let accessed = [(5, (50, 2)), (6, (50, 2)), (7, (4, 2))];
        let found = unrecorded_touches(&events, &accessed);
        assert_eq!(found, HashMap::from([(5, (10, 0)), (6, (20, 1))]));
    }

    #[test]
    fn pages_that_are_not_simulated_take_no_memory() {
        assert!(unrecorded_touches(&[thread(0, &[(0, u64::MAX / PAGE_BYTES, 0)])], &[]).is_empty());
    }
}
