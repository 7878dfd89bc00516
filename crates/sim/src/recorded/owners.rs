//! Which thread touches each page of a recording first: the owner of the page, on whose node the kernel places it.
//!
//! 1. Of the accesses that are simulated, find the first one to each page.
//! 2. If a thread touched the page before that access without being recorded (before a window, between windows, or by a system
//!    call), that thread is the owner: the last such thread, because earlier ones touched pages that were unmapped since.
//!
//! Order is that of the events of all threads. An access has the position of its thread's last event before it.

use super::order::{Orders, ThreadEvents};
use crate::model::PAGE_BYTES;
use pinfold_trace::{Batch, EventKind, Recording, TraceError};
use std::collections::HashMap;

/// Pages that are remembered as touched, by their low bits.
const TOUCHED: usize = 4096;

/// A touch of a page: its position in the order of events, and the index of the thread.
type Touch = (u64, u32);

/// Each page that is accessed in the simulation, with the index of its owner, in the order of pages. Of threads that touch a
/// page at the same position, the first-born one is the owner.
pub(super) fn owners(
    recording: &Recording,
    events: &[ThreadEvents],
    orders: &[Orders],
) -> Result<Vec<(u64, u32)>, TraceError> {
    let mut accessed: HashMap<u64, Touch> = HashMap::new();
    for ((number, thread), owner) in recording.threads().iter().enumerate().zip(0u32..) {
        let mut batch: Batch = Batch::default();
        let mut reader = recording.read(thread);
        let mut next_event = 0;
        let mut sequence = 0;
        // Later accesses by the same thread change nothing.
        let mut touched = vec![u64::MAX; TOUCHED];
        while reader.next_batch(&mut batch)? {
            let mut marks = batch.events.iter().peekable();
            for (index, access) in batch.accesses.iter().enumerate() {
                while marks.next_if(|(before, _)| *before <= index).is_some() {
                    sequence = events[number].events[next_event].sequence;
                    next_event += 1;
                }
                let page = access.address / PAGE_BYTES;
                let place = &mut touched[page as usize % TOUCHED];
                if *place != page && !orders[number].silent(next_event) {
                    *place = page;
                    let touch = (sequence, owner);
                    accessed
                        .entry(page)
                        .and_modify(|kept| *kept = touch.min(*kept))
                        .or_insert(touch);
                }
            }
            for _ in marks {
                sequence = events[number].events[next_event].sequence;
                next_event += 1;
            }
        }
    }
    let mut accessed: Vec<(u64, Touch)> = accessed.into_iter().collect();
    accessed.sort_unstable();
    let unrecorded = unrecorded_touches(events, &accessed);
    let owner = |(page, first): (u64, Touch)| (page, unrecorded.get(&page).unwrap_or(&first).1);
    Ok(accessed.into_iter().map(owner).collect())
}

/// For each page that a thread touched unrecorded before it was `accessed`: the last such touch. `accessed` is in the order of
/// pages.
fn unrecorded_touches(events: &[ThreadEvents], accessed: &[(u64, Touch)]) -> HashMap<u64, Touch> {
    let mut last: HashMap<u64, Touch> = HashMap::new();
    for (thread, owner) in events.iter().zip(0u32..) {
        for event in &thread.events {
            let EventKind::FirstTouch { address, length, since } = event.kind else {
                continue;
            };
            let end = address.saturating_add(length).div_ceil(PAGE_BYTES);
            let begin = accessed.partition_point(|&(page, _)| page < address / PAGE_BYTES);
            for &(page, (sequence, _)) in accessed[begin..].iter().take_while(|&&(page, _)| page < end) {
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
        // Thread 0 touched pages 5 to 7; page 6 was unmapped, and thread 1 touched it again; page 7 was accessed before.
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
