//! Who touched each line last, before each of a number of points of an execution (a memory timestamp record: Barr et
//! al., ISPASS 2005).
//!
//! The execution is divided into parts. A part has, for each of its lines, the last store to it and the last access of
//! each thread that did not come before that store. Parts are in the order of time, and the touches of a part are from
//! the newest to the oldest. Before a point are the parts before it, the newest first; in a warm repetition, the parts
//! after it come next, which are those of the repetition before.
//!
//! The record depends on no machine. For machines that prefetch adjacent lines, a touch also says whether its line was
//! fresh (`Recent`).

use crate::window::{Blocks, Event, EventKind, Touch};
use std::collections::HashSet;

/// Touches that are kept until the next compaction.
const MOST_RAW: usize = 1 << 23;

pub(super) struct History {
    blocks: Blocks,
    parts: Vec<Vec<Touch>>,
    raw: Vec<Touch>,
    /// What was added last.
    latest: Vec<Touch>,
    /// By thread.
    recent: Vec<Recent>,
    seen: Seen,
}

/// Which touches of lines are known while touches are read from the newest to the oldest.
struct Seen {
    /// By line: a bit for each of the first threads, and one for a store.
    lines: Vec<u64>,
    /// The other threads.
    others: HashSet<(u32, u16)>,
}

/// The bit for a store.
const STORED: u64 = 1 << 63;

impl History {
    pub(super) fn new(blocks: &[u64], threads: usize) -> Self {
        let blocks = Blocks::in_order(blocks);
        Self {
            seen: Seen {
                lines: vec![0; blocks.len() << super::BLOCK_SHIFT],
                others: HashSet::new(),
            },
            blocks,
            parts: vec![],
            raw: vec![],
            latest: vec![],
            recent: vec![Recent::new(); threads],
        }
    }

    /// Adds the accesses of a thread. Returns its touches.
    pub(super) fn see(&mut self, thread: usize, events: &[Event]) -> &[Touch] {
        self.latest.clear();
        for event in events {
            let write = match event.kind {
                EventKind::Read => false,
                EventKind::Write | EventKind::Locked => true,
                _ => continue,
            };
            for virtual_line in event.first_line()..=event.last_line() {
                let line = self.blocks.line(virtual_line);
                if self
                    .latest
                    .last()
                    .is_some_and(|last| (last.line, last.write) == (line, write))
                {
                    continue;
                }
                self.latest.push(Touch {
                    line,
                    thread: number_of(thread),
                    write,
                    fresh: self.recent[thread].touch(line),
                });
            }
        }
        self.raw.extend_from_slice(&self.latest);
        if self.raw.len() >= MOST_RAW {
            self.compact();
            // A part with more lines is not compacted at each access.
            self.raw.reverse();
            if self.raw.len() > MOST_RAW / 2 {
                let newest = self.raw.split_off(self.raw.len() - MOST_RAW / 2);
                self.raw = newest;
            }
        }
        &self.latest
    }

    /// Ends the current part.
    pub(super) fn begin_part(&mut self) {
        self.compact();
        self.parts.push(std::mem::take(&mut self.raw));
    }

    /// The number of parts so far.
    pub(super) fn parts(&self) -> usize {
        self.parts.len()
    }

    /// The touches before the end of the first `parts` parts, from the newest to the oldest: those of this repetition,
    /// and where it is `warm`, of one before.
    pub(super) fn before(&self, parts: usize, warm: bool) -> Vec<&[Touch]> {
        let (before, after) = self.parts.split_at(parts);
        let earlier = if warm { after } else { &[] };
        before
            .iter()
            .rev()
            .chain(earlier.iter().rev())
            .map(Vec::as_slice)
            .collect()
    }

    /// What later touches have not replaced of some that were kept apart, from the newest to the oldest.
    pub(super) fn compacted(&mut self, apart: &[Touch]) -> Vec<Touch> {
        let left: Vec<Touch> = apart
            .iter()
            .rev()
            .copied()
            .filter(|&touch| self.seen.add(touch))
            .collect();
        self.seen.forget(&left);
        left
    }

    /// Leaves in `raw` what later touches have not replaced, from the newest to the oldest.
    fn compact(&mut self) {
        let raw = std::mem::take(&mut self.raw);
        self.raw = self.compacted(&raw);
    }
}

/// The lines that a thread used recently.
#[derive(Clone)]
struct Recent {
    /// By the low bits of the line's number: the line plus one (zero is empty), and the touch since which it is here.
    lines: Vec<(u32, u32)>,
    touches: u32,
}

/// Lines that a thread uses again before they are forgotten: half a mebibyte, as a private cache.
const RECENT: usize = 1 << 13;

/// A line is fresh for this number of touches of its thread.
const FRESH: u32 = 1 << 8;

impl Recent {
    fn new() -> Self {
        Self {
            lines: vec![(0, 0); RECENT],
            touches: 0,
        }
    }

    fn holds(&self, line: u32) -> bool {
        self.lines[line as usize % RECENT].0 == line.wrapping_add(1)
    }

    /// The thread touches a line. Returns whether it is fresh: the thread uses it for the first time in a while, or did
    /// so a moment ago, and has not used the lines beside it either. Those of a stream are not fresh: the program itself
    /// uses the adjacent ones.
    fn touch(&mut self, line: u32) -> bool {
        self.touches = self.touches.wrapping_add(1);
        let (there, since) = &mut self.lines[line as usize % RECENT];
        if *there != line + 1 {
            (*there, *since) = (line + 1, self.touches);
        }
        let soon = self.touches.wrapping_sub(*since) < FRESH;
        soon && !self.holds(line.wrapping_sub(1)) && !self.holds(line + 1)
    }
}

/// The number of a thread. A pinning has fewer than fit.
fn number_of(thread: usize) -> u16 {
    u16::try_from(thread).unwrap_or(u16::MAX)
}

impl Seen {
    /// Whether the touch counts.
    fn add(&mut self, touch: Touch) -> bool {
        let line = &mut self.lines[touch.line as usize];
        if *line & STORED != 0 {
            return false;
        }
        let known = if touch.thread < 63 {
            let bit = 1 << touch.thread;
            let known = *line & bit != 0;
            *line |= bit;
            known
        } else {
            !self.others.insert((touch.line, touch.thread))
        };
        if touch.write {
            *line |= STORED;
        }
        touch.write || !known
    }

    fn forget(&mut self, touches: &[Touch]) {
        for touch in touches {
            self.lines[touch.line as usize] = 0;
        }
        self.others.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the last of these touches is fresh.
    fn fresh(lines: impl IntoIterator<Item = u32>) -> bool {
        let mut recent = Recent::new();
        lines.into_iter().map(|line| recent.touch(line)).last().unwrap()
    }

    #[test]
    fn a_line_is_fresh_where_it_comes_alone_and_is_used_for_a_moment() {
        assert!(fresh([700, 40_000, 12]));
        assert!(fresh([700, 40_000, 12, 700]), "used again at once");
        assert!(!fresh([700, 701]) && !fresh([701, 700]), "a stream");
        let others = (0..FRESH).map(|other| 1000 + 2 * other);
        assert!(!fresh([12].into_iter().chain(others).chain([12])), "in use for long");
        let filled = (100_000..).take(RECENT);
        assert!(fresh([12].into_iter().chain(filled).chain([12])), "forgotten");
    }
}
