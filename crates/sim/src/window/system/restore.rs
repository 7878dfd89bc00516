//! The caches as a long execution leaves them, from a record of who touched each line last (the memory timestamp record
//! of Barr et al., ISPASS 2005).
//!
//! The touches come from the newest to the oldest. A line enters each cache of its core behind all lines that are
//! there. So a full set holds the lines that were used last, as LRU leaves it. The newest store to a line ends what
//! older touches of it can have left: it invalidated all other copies.
//!
//! The adjacent line comes with each line that its thread had not used for a while, if the machine prefetches it: where
//! accesses are random, half of a cache are adjacent lines that nobody used.
//!
//! Known limits: an outer cache sees only what misses in the inner ones, and orders lines by that; here it has the
//! order of all touches. Adjacent lines that were dropped because the core was busy are there, and what other
//! prefetchers brought and nobody used is missing.

use super::System;
use crate::model::Inclusion;
use crate::window::cache::{DIRTY, WRITABLE};
use crate::window::directory::Entry;

/// The last access of a thread to a line, by the line's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Touch {
    pub(crate) line: u32,
    pub(crate) thread: u16,
    pub(crate) write: bool,
    /// Whether the thread had not used the line, or one beside it, for a while before: its private caches may have lost
    /// it, so the access went further.
    pub(crate) fresh: bool,
}

/// How many touches ahead the host's data is prefetched.
const AHEAD: usize = 12;

/// The room that is left in the caches.
struct Room {
    /// By domain: lines that fit its last-level cache.
    shared: Vec<usize>,
    /// By core: lines that fit its private caches.
    private: Vec<usize>,
    /// The sum of all.
    all: usize,
}

impl<const W: usize> System<W> {
    /// Fills the empty caches. `past` has the touches from the newest to the oldest; `core_of_thread` are active cores.
    /// `adjacent`: whether adjacent lines are prefetched.
    pub(crate) fn restore(&mut self, past: &[&[Touch]], core_of_thread: &[usize], adjacent: bool) {
        let cores = self.topology.domain_of_core.len();
        let capacity = |caches: &[super::Cache]| caches.iter().map(super::Cache::capacity).sum();
        let mut room = Room {
            shared: self
                .caches
                .shared
                .iter()
                .map(|cache| capacity(std::slice::from_ref(cache)))
                .collect(),
            private: (0..cores)
                .map(|core| capacity(self.caches.private_caches(core)))
                .collect(),
            all: 0,
        };
        room.all = room.shared.iter().chain(&room.private).sum();
        let mut written = vec![0u64; self.pages.lines().div_ceil(64)];
        for part in past {
            for (place, &touch) in part.iter().enumerate() {
                let Touch {
                    line, thread, write, ..
                } = touch;
                if let Some(coming) = part.get(place + AHEAD) {
                    self.host_prefetch_touch(coming.line, core_of_thread[usize::from(coming.thread)]);
                }
                let (word, bit) = (line as usize / 64, 1 << (line % 64));
                if written[word] & bit != 0 {
                    continue;
                }
                if write {
                    written[word] |= bit;
                }
                let core = core_of_thread[usize::from(thread)];
                if room.shared[self.topology.domain_of_core[core]] + room.private[core] > 0 {
                    let entered = self.restore_touch(core, line, write, &mut room);
                    if entered && adjacent && touch.fresh {
                        self.restore_adjacent(core, line ^ 1, &mut room);
                    }
                }
            }
            if room.all == 0 {
                break;
            }
        }
    }

    fn host_prefetch_touch(&self, line: u32, core: usize) {
        self.directory.host_prefetch(line);
        self.caches.shared[self.topology.domain_of_core[core]].host_prefetch(line);
    }

    /// Returns whether the line has entered a cache.
    fn restore_touch(&mut self, core: usize, line: u32, write: bool, room: &mut Room) -> bool {
        let domain = self.topology.domain_of_core[core];
        self.pages.place_touched(line, self.topology.node_of_domain[domain]);
        let mut entry = self.directory.get(line);
        let before = entry;
        if !entry.has_core(core) {
            self.restore_copies(core, domain, line, 0, &mut entry, room);
            if entry.has_core(core) && before == Entry::EMPTY {
                self.restore_owner(core, line, &mut entry);
            } else if entry != before {
                self.restore_sharing(core, domain, line, &mut entry);
            }
        }
        let entered = entry != before;
        if write {
            self.restore_store(core, domain, line, &mut entry);
        }
        self.directory.set(line, entry);
        entered
    }

    /// A prefetcher has brought the line to the core's L2, unless a newer touch has it.
    fn restore_adjacent(&mut self, core: usize, line: u32, room: &mut Room) {
        let mut entry = self.directory.get(line);
        if entry != Entry::EMPTY {
            return;
        }
        let first = 1.min(self.caches.levels - 1);
        self.restore_copies(core, self.topology.domain_of_core[core], line, first, &mut entry, room);
        if entry.has_core(core) {
            self.restore_owner(core, line, &mut entry);
        }
        self.directory.set(line, entry);
    }

    /// Only this core holds the line, and may write it.
    fn restore_owner(&mut self, core: usize, line: u32, entry: &mut Entry<W>) {
        entry.set_owner(Some(core));
        self.mark_copies(core, line, WRITABLE);
    }

    /// Puts the line into the caches of the core, from the level `first`, and of its domain that have room.
    fn restore_copies(
        &mut self,
        core: usize,
        domain: usize,
        line: u32,
        first: usize,
        entry: &mut Entry<W>,
        room: &mut Room,
    ) {
        let policy = self.caches.shared_inclusion();
        if policy != Inclusion::Victim && !entry.has_domain(domain) {
            if self.caches.shared[domain].append(line, 0) {
                entry.add_domain(domain);
                room.take_shared(domain);
            } else if policy == Inclusion::Inclusive {
                return;
            }
        }
        let mut held = false;
        for level in (first..self.caches.levels).rev() {
            let policy = self.caches.inclusion[level];
            if policy == Inclusion::Victim {
                continue;
            }
            if self.caches.level(core, level).append(line, 0) {
                room.take_private(core);
                held = true;
            } else if policy == Inclusion::Inclusive && level > 0 {
                break;
            }
        }
        for level in first..self.caches.levels {
            let victim = self.caches.inclusion[level] == Inclusion::Victim;
            if victim && !held && self.caches.level(core, level).append(line, 0) {
                room.take_private(core);
                held = true;
            }
        }
        if held {
            entry.add_core(core);
        } else if policy == Inclusion::Victim && !entry.has_domain(domain) && self.caches.shared[domain].append(line, 0)
        {
            entry.add_domain(domain);
            room.take_shared(domain);
        }
    }

    /// A core or its domain holds the line besides those that read it later: these got no right to write.
    fn restore_sharing(&mut self, core: usize, domain: usize, line: u32, entry: &mut Entry<W>) {
        let Some(owner) = entry.owner().filter(|&owner| owner != core) else {
            return;
        };
        if entry.has_core(core) || self.topology.domain_of_core[owner] != domain {
            self.unmark_copies(owner, line, WRITABLE);
            entry.set_owner(None);
        }
    }

    /// The store of a core, after which others may have read the line.
    fn restore_store(&mut self, core: usize, domain: usize, line: u32, entry: &mut Entry<W>) {
        let others = entry.each_core().any(|other| other != core);
        let elsewhere = entry.each_domain().any(|other| other != domain)
            || entry
                .each_core()
                .any(|other| self.topology.domain_of_core[other] != domain);
        let alone = !others && !elsewhere;
        if entry.has_core(core) && (alone || self.protocol.shares_dirty()) {
            entry.set_owner(Some(core));
            self.mark_nearest(core, line, DIRTY);
            return;
        }
        // The newest data is in the last-level cache, or in memory.
        if entry.has_domain(domain) && (!elsewhere || self.protocol.shares_dirty()) {
            entry.set_dirty(Some(domain));
            if let Some(word) = self.caches.shared[domain].peek(line) {
                *word |= DIRTY;
            }
        }
    }

    fn mark_copies(&mut self, core: usize, line: u32, flags: u32) {
        for level in 0..self.caches.levels {
            if let Some(word) = self.caches.level(core, level).peek(line) {
                *word |= flags;
            }
        }
    }

    fn unmark_copies(&mut self, core: usize, line: u32, flags: u32) {
        for level in 0..self.caches.levels {
            if let Some(word) = self.caches.level(core, level).peek(line) {
                *word &= !flags;
            }
        }
    }

    fn mark_nearest(&mut self, core: usize, line: u32, flags: u32) {
        for level in 0..self.caches.levels {
            if let Some(word) = self.caches.level(core, level).peek(line) {
                *word |= flags;
                return;
            }
        }
    }
}

impl Room {
    fn take_shared(&mut self, domain: usize) {
        self.shared[domain] -= 1;
        self.all -= 1;
    }

    fn take_private(&mut self, core: usize) {
        self.private[core] -= 1;
        self.all -= 1;
    }
}
