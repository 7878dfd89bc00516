//! How lines enter the caches, and where evicted lines go.

use super::System;
use crate::model::Inclusion;
use crate::window::cache::{DIRTY, Evicted, WRITABLE};
use crate::window::time::Ticks;

impl<const W: usize> System<W> {
    /// Puts a line into the private caches from level `to` up to, but not including, level `end`. Only the copy at `to`
    /// has the flags for modified data and the prefetcher's mark.
    pub(super) fn fill(&mut self, core: usize, line: u32, flags: u32, to: usize, end: usize, time: Ticks) {
        for level in (to..end).rev() {
            let flags = if level == to {
                flags
            } else if self.caches.inclusion[level] == Inclusion::Victim {
                continue;
            } else {
                flags & WRITABLE
            };
            if let Some(evicted) = self.caches.level(core, level).insert(line, flags) {
                self.spill(core, level, evicted, time);
            }
        }
    }

    /// Puts a line that a private level evicted into the next level or memory.
    fn spill(&mut self, core: usize, level: usize, evicted: Evicted, time: Ticks) {
        let Evicted { line, flags } = evicted;
        let mut flags = flags & (DIRTY | WRITABLE);
        for inner in 0..level {
            if self.caches.inclusion[level] == Inclusion::Inclusive {
                flags |= self.caches.level(core, inner).remove(line).unwrap_or(0) & (DIRTY | WRITABLE);
            } else if self.caches.exclude_each_other(inner, level) {
                debug_assert!(!self.caches.level(core, inner).holds(line), "a victim cache excludes");
            } else if let Some(word) = self.caches.level(core, inner).peek(line) {
                *word |= flags;
                return;
            }
        }
        for outer in level + 1..self.caches.levels {
            let next = outer == level + 1;
            if self.caches.exclude_each_other(level, outer) {
                debug_assert!(!self.caches.level(core, outer).holds(line), "a victim cache excludes");
            } else if let Some(word) = self.caches.level(core, outer).peek(line) {
                *word |= flags;
                return;
            }
            if next && (self.caches.inclusion[outer] == Inclusion::Victim || flags & DIRTY != 0) {
                if let Some(evicted) = self.caches.level(core, outer).insert(line, flags) {
                    self.spill(core, outer, evicted, time);
                }
                return;
            }
        }
        self.leave(core, line, flags & DIRTY, time);
    }

    /// The last private copy of a core is evicted. It goes outwards if it is modified or if the LLC is a victim cache.
    fn leave(&mut self, core: usize, line: u32, dirty: u32, time: Ticks) {
        let domain = self.topology.domain_of_core[core];
        let mut entry = self.directory.get(line);
        entry.remove_core(core);
        if entry.owner() == Some(core) {
            entry.set_owner(None);
        }
        let insert = !entry.has_domain(domain) && (dirty != 0 || self.caches.shared_inclusion() == Inclusion::Victim);
        if dirty != 0 {
            entry.set_dirty(Some(domain));
            if !insert && let Some(word) = self.caches.shared[domain].peek(line) {
                *word |= DIRTY;
            }
        }
        if insert {
            entry.add_domain(domain);
        }
        self.directory.set(line, entry);
        if insert {
            self.insert_shared(core, domain, line, dirty, time);
        }
    }

    /// Puts a line into an LLC because of an access of `core`, and handles the evicted line.
    pub(super) fn insert_shared(&mut self, core: usize, domain: usize, line: u32, flags: u32, time: Ticks) {
        let Some(Evicted { line, flags }) = self.caches.shared[domain].insert(line, flags) else {
            return;
        };
        let mut dirty = flags & DIRTY;
        let mut entry = self.directory.get(line);
        entry.remove_domain(domain);
        if entry.dirty() == Some(domain) {
            entry.set_dirty(None);
        }
        if self.caches.shared_inclusion() == Inclusion::Inclusive {
            for holder in entry.each_core() {
                if self.topology.domain_of_core[holder] != domain {
                    continue;
                }
                for level in 0..self.caches.levels {
                    dirty |= self.caches.level(holder, level).remove(line).unwrap_or(0) & DIRTY;
                }
                entry.remove_core(holder);
                if entry.owner() == Some(holder) {
                    entry.set_owner(None);
                }
                let thread = self.thread_on_core[holder];
                self.counters[thread].back_invalidations += 1;
            }
        }
        self.directory.set(line, entry);
        if dirty != 0 {
            self.write_memory(self.thread_on_core[core], domain, line, time);
        }
    }
}
