//! The memory system that the cores share: private caches, last-level caches, the directory, memory and links, and the
//! protocol that keeps them coherent.
//!
//! The steps of an access that misses the L1:
//!
//! 1. The core's other private caches. A hit costs that level's latency.
//! 2. The line's directory entry shows what serves it. The order is: the core that owns the line (E, M or O), where it
//!    has modified it or may forward clean lines; the local LLC; an LLC of another domain that has the newest data; any
//!    cache that may forward a clean line; memory.
//! 3. A store invalidates all other copies; a load makes an owner share the line.
//! 4. The line enters the LLC and the private caches by their inclusion policies. Evicted lines go to the next level,
//!    where that is a victim cache or the line is modified, and at last to memory. An inclusive level also evicts the
//!    line from the nearer levels.
//!
//! Transfers occupy the memory of the line's node, every link of the route and the packages' buses, where there are
//! any. Only data uses bandwidth. Requests, probes and acknowledgements have a latency, which is part of the model's
//! figures. The route from the requesting core through the line's home node to the owner counts as long as the direct
//! one.

mod caches;
mod fill;
mod look_ahead;
mod protocol;
mod restore;
#[cfg(test)]
mod tests;
mod topology;
mod traffic;
mod transit;

pub(super) use look_ahead::Coming;
pub(crate) use restore::Touch;

use super::cache::{Cache, DIRTY, PREFETCH, PREFETCH_SHIFT, WRITABLE};
use super::counters::{Counters, Served};
use super::directory::{DOMAINS, Directory, Entry};
use super::pages::Pages;
use super::time::Ticks;
use crate::model::{Inclusion, Model, Protocol};
use caches::Caches;
use topology::Topology;
use traffic::Traffic;
use transit::Transit;

/// A hit or a miss beyond the L1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    /// From load to use, queueing included.
    pub(crate) latency: Ticks,
    /// The prefetcher that had brought the line, if this is the line's first use.
    pub(crate) prefetched: Option<usize>,
    /// Whether the private caches did not hold it.
    pub(crate) beyond: bool,
    /// Whether another core's cache transferred the line.
    pub(crate) transferred: bool,
}

#[derive(Debug)]
pub(crate) struct System<const W: usize> {
    pub(crate) caches: Caches,
    pub(crate) directory: Directory<W>,
    pub(crate) pages: Pages,
    pub(crate) topology: Topology<W>,
    protocol: Protocol,
    pub(crate) traffic: Traffic,
    pub(crate) transit: Transit,
    /// By thread.
    pub(crate) counters: Vec<Counters>,
    /// By active core: the thread that runs on it now, for the counters.
    pub(crate) thread_on_core: Vec<usize>,
}

impl<const W: usize> System<W> {
    /// A system with caches for these cores, which are sorted.
    pub(crate) fn new(model: &Model, cores: &[usize], threads: usize, pages: Pages, seed: u64) -> Self {
        let topology = Topology::new(model, cores);
        let domains = topology.domains();
        assert!(domains <= DOMAINS && cores.len() <= W * 64, "checked by the caller");
        Self {
            caches: Caches::new(model, cores.len(), domains),
            directory: Directory::new(cores.len(), domains),
            pages,
            topology,
            protocol: model.coherence.protocol.value(),
            traffic: Traffic::new(model),
            transit: Transit::new(cores.len(), seed),
            counters: vec![Counters::default(); threads],
            thread_on_core: vec![0; cores.len()],
        }
    }

    /// The core's first-level cache.
    #[inline]
    pub(crate) fn l1(&mut self, core: usize) -> &mut Cache {
        self.caches.level(core, 0)
    }

    /// The level of the last-level caches.
    #[inline]
    pub(crate) fn shared_level(&self) -> usize {
        self.caches.levels
    }

    /// Whether a line is in the memory of another node than the core's.
    pub(crate) fn is_remote(&self, core: usize, line: u32) -> bool {
        let domain = self.topology.domain_of_core[core];
        self.pages.node_of_line(line) != self.topology.node_of_domain[domain]
    }

    /// Whether a prefetch into level `to` has nothing to do.
    #[inline]
    pub(crate) fn is_near(&self, core: usize, line: u32, to: usize) -> bool {
        self.caches.is_near(core, line, to)
    }

    /// The demand access of `core` to a line that its L1 does not hold. Afterwards the L1 holds it.
    pub(crate) fn miss(&mut self, core: usize, line: u32, write: bool, time: Ticks) -> Access {
        let thread = self.thread_on_core[core];
        let stored = if write { DIRTY | WRITABLE } else { 0 };
        for level in 1..self.caches.levels {
            let Some(flags) = self.caches.take(core, level, line) else {
                self.counters[thread].levels[level].misses += 1;
                continue;
            };
            self.counters[thread].levels[level].hits += 1;
            let mut latency = self.caches.private_latency(core, level);
            if write && flags & WRITABLE == 0 {
                latency += self.upgrade(core, line, time);
            }
            let kept = self.caches.taken_along(level);
            self.fill(core, line, flags & kept | stored, 0, level, time);
            let prefetched = (flags & PREFETCH).checked_sub(1 << PREFETCH_SHIFT);
            return Access {
                latency,
                prefetched: prefetched.map(|tag| (tag >> PREFETCH_SHIFT) as usize),
                beyond: false,
                transferred: false,
            };
        }
        let fetched = self.fetch(core, line, write, time, true);
        let counters = &mut self.counters[thread];
        if fetched.in_shared {
            counters.levels[self.caches.levels].hits += 1;
        } else {
            counters.levels[self.caches.levels].misses += 1;
        }
        if let Some(served) = fetched.served {
            counters.served[served] += 1;
        }
        self.fill(core, line, fetched.flags | stored, 0, self.caches.levels, time);
        Access {
            latency: fetched.latency,
            prefetched: fetched.prefetched,
            beyond: true,
            transferred: !matches!(fetched.served, None | Some(Served::LocalMemory | Served::RemoteMemory)),
        }
    }

    /// Brings a line into the private caches from level `to` outwards, where these do not hold it. Returns the latency,
    /// and whether memory served it. `None` if a cache holds it already.
    pub(crate) fn prefetch(
        &mut self,
        core: usize,
        line: u32,
        to: usize,
        prefetcher: usize,
        time: Ticks,
    ) -> Option<(Ticks, Option<Served>)> {
        let mark = (prefetcher as u32 + 1) << PREFETCH_SHIFT;
        if to == self.caches.levels {
            return self.prefetch_shared(core, line, mark, time);
        }
        // Only evicted lines of the level before it fill a victim cache.
        let to = (0..=to)
            .rev()
            .find(|&level| self.caches.inclusion[level] != Inclusion::Victim)
            .unwrap_or(0);
        for level in to + 1..self.caches.levels {
            if let Some(flags) = self.caches.take(core, level, line) {
                let kept = self.caches.taken_along(level);
                let latency = self.caches.private_latency(core, level);
                self.fill(core, line, flags & kept | mark, to, level, time);
                return Some((latency, None));
            }
        }
        let fetched = self.fetch(core, line, false, time, false);
        self.fill(core, line, fetched.flags | mark, to, self.caches.levels, time);
        let memory = |served: &Served| matches!(served, Served::LocalMemory | Served::RemoteMemory);
        Some((fetched.latency, fetched.served.filter(memory)))
    }

    /// Brings a line that no cache has into the LLC.
    fn prefetch_shared(&mut self, core: usize, line: u32, mark: u32, time: Ticks) -> Option<(Ticks, Option<Served>)> {
        let domain = self.topology.domain_of_core[core];
        let mut entry = self.directory.get(line);
        if entry != Entry::EMPTY {
            return None;
        }
        let (served, latency) = self.read_memory(domain, line, time);
        entry.add_domain(domain);
        self.directory.set(line, entry);
        self.insert_shared(core, domain, line, mark, time);
        Some((latency, Some(served)))
    }
}
