//! The protocol that keeps the caches coherent: what serves a line, and which copies change.

use super::System;
use crate::model::Inclusion;
use crate::window::cache::{DIRTY, PREFETCH, PREFETCH_SHIFT, WRITABLE};
use crate::window::counters::Served;
use crate::window::directory::Entry;
use crate::window::time::Ticks;

/// The result of fetching a line for the private caches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fetched {
    /// From load to use, queueing included.
    pub(super) latency: Ticks,
    /// The state that the core gets: `DIRTY`, `WRITABLE`.
    pub(super) flags: u32,
    /// `None` for the local LLC.
    pub(super) served: Option<Served>,
    /// Whether the local LLC held it. The LLC need not have served it.
    pub(super) in_shared: bool,
    /// The prefetcher that had brought it to the LLC, if this is its first use.
    pub(super) prefetched: Option<usize>,
}

impl<const W: usize> System<W> {
    /// Makes a core that holds a line its only holder. Returns the latency.
    pub(crate) fn upgrade(&mut self, core: usize, line: u32, time: Ticks) -> Ticks {
        let domain = self.topology.domain_of_core[core];
        let thread = self.thread_on_core[core];
        self.counters[thread].upgrades += 1;
        let mut entry = self.directory.get(line);
        let acknowledged = self.invalidate_others(core, line, &mut entry);
        if entry.has_domain(domain) && self.caches.shared_inclusion() == Inclusion::Victim {
            self.drop_shared_copy(domain, line, &mut entry);
        }
        entry.set_owner(Some(core));
        self.directory.set(line, entry);
        self.transit
            .transfer(line, time, acknowledged.max(self.caches.shared_latency), None)
    }

    /// Finds what serves the line, changes the state of all copies, and puts the line into the LLC where lines enter it
    /// on the way in. The caller fills the private caches.
    pub(super) fn fetch(&mut self, core: usize, line: u32, write: bool, time: Ticks, demand: bool) -> Fetched {
        let domain = self.topology.domain_of_core[core];
        let mut entry = self.directory.get(line);
        let mut prefetched = None;
        let in_shared = entry.has_domain(domain);
        if in_shared {
            let word = self.caches.shared[domain].touch(line).expect("the directory is exact");
            if demand && *word & PREFETCH != 0 {
                prefetched = Some(((*word & PREFETCH) >> PREFETCH_SHIFT) as usize - 1);
                *word &= !PREFETCH;
            }
        }
        let owner = entry.owner().filter(|&owner| owner != core);
        let (served, mut latency) = self.serve(core, line, write, &mut entry, time);
        if write {
            latency = latency.max(self.invalidate_others(core, line, &mut entry));
        }
        if demand && !matches!(served, None | Some(Served::LocalMemory | Served::RemoteMemory)) {
            latency = self.transit.transfer(line, time, latency, owner);
        }
        let mut flags = self.settle_shared(core, domain, line, write, &mut entry, time);
        let alone = entry.no_core()
            && entry.owner().is_none()
            && entry.domains & !(1 << domain) == 0
            && entry.dirty().is_none_or(|dirty| dirty == domain);
        if alone {
            flags |= WRITABLE;
        }
        if alone || flags & DIRTY != 0 {
            entry.set_owner(Some(core));
        }
        entry.add_core(core);
        self.directory.set(line, entry);
        Fetched {
            latency,
            flags,
            served,
            in_shared,
            prefetched,
        }
    }

    /// Finds what serves the line, and the latency. A read makes owners and modified copies share the line.
    fn serve(
        &mut self,
        core: usize,
        line: u32,
        write: bool,
        entry: &mut Entry<W>,
        time: Ticks,
    ) -> (Option<Served>, Ticks) {
        let domain = self.topology.domain_of_core[core];
        let thread = self.thread_on_core[core];
        let in_shared = entry.has_domain(domain);
        if let Some(owner) = entry.owner() {
            let from = self.topology.domain_of_core[owner];
            let dirty = self.share_private(owner, line, write, write || self.protocol.shares_dirty());
            if dirty {
                let served = if from == domain {
                    (Some(Served::SameDomainModified), self.topology.same_domain_modified)
                } else {
                    self.transfer(from, domain, true, time)
                };
                if write {
                    entry.set_owner(None);
                } else if !self.protocol.shares_dirty() {
                    entry.set_owner(None);
                    self.clean_owner(core, from, line, entry, time);
                }
                return served;
            }
            entry.set_owner(None);
            if from != domain && self.protocol.forwards_clean() && !in_shared {
                return self.transfer(from, domain, false, time);
            }
            if from == domain && (in_shared || self.protocol.forwards_clean()) {
                return (Some(Served::SameDomainClean), self.topology.same_domain_clean);
            }
        }
        if in_shared {
            return (None, self.caches.shared_latency);
        }
        if let Some(from) = entry.dirty() {
            let served = self.transfer(from, domain, true, time);
            if !write && !self.protocol.shares_dirty() {
                if let Some(word) = self.caches.shared[from].peek(line) {
                    *word &= !DIRTY;
                }
                entry.set_dirty(None);
                self.write_memory(thread, from, line, time);
            }
            return served;
        }
        if self.protocol.forwards_clean() {
            let here = self.topology.cores_of_domain[domain];
            if entry.cores.iter().zip(here).any(|(cores, here)| cores & here != 0) {
                return (Some(Served::SameDomainClean), self.topology.same_domain_clean);
            }
            let holders = entry
                .each_domain()
                .chain(entry.each_core().map(|core| self.topology.domain_of_core[core]));
            let nearest = holders.min_by_key(|&from| (self.topology.transfer(from, domain).clean, from));
            if let Some(from) = nearest {
                return self.transfer(from, domain, false, time);
            }
        }
        let (served, latency) = self.read_memory(domain, line, time);
        (Some(served), latency)
    }

    /// Makes the owner's copy shared (after a store the invalidation does it), and clean if the newest data goes
    /// elsewhere. Returns whether the copy was modified.
    fn share_private(&mut self, owner: usize, line: u32, write: bool, keep_dirty: bool) -> bool {
        let mut dirty = false;
        for level in 0..self.caches.levels {
            if let Some(word) = self.caches.level(owner, level).peek(line) {
                dirty |= *word & DIRTY != 0;
                if !write {
                    *word &= !WRITABLE;
                }
                if !keep_dirty {
                    *word &= !DIRTY;
                }
            }
        }
        dirty
    }

    /// For a protocol that cannot share modified data: the newest data goes to the LLC, and to memory where another
    /// domain reads it.
    fn clean_owner(&mut self, reader: usize, from: usize, line: u32, entry: &mut Entry<W>, time: Ticks) {
        if from != self.topology.domain_of_core[reader] {
            if entry.dirty() == Some(from) {
                entry.set_dirty(None);
                if let Some(word) = self.caches.shared[from].peek(line) {
                    *word &= !DIRTY;
                }
            }
            self.write_memory(self.thread_on_core[reader], from, line, time);
            return;
        }
        entry.set_dirty(Some(from));
        if entry.has_domain(from) {
            if let Some(word) = self.caches.shared[from].peek(line) {
                *word |= DIRTY;
            }
        } else {
            entry.add_domain(from);
            self.insert_shared(reader, from, line, DIRTY, time);
        }
    }

    /// Puts a line into the LLC on its way in, or removes it from a victim LLC. Returns the flags that the core gets.
    fn settle_shared(
        &mut self,
        core: usize,
        domain: usize,
        line: u32,
        write: bool,
        entry: &mut Entry<W>,
        time: Ticks,
    ) -> u32 {
        let victim = self.caches.shared_inclusion() == Inclusion::Victim;
        if !entry.has_domain(domain) {
            if !victim {
                entry.add_domain(domain);
                self.insert_shared(core, domain, line, 0, time);
            }
            return 0;
        }
        let here = self.topology.cores_of_domain[domain];
        let others = entry.cores.iter().zip(here).any(|(cores, here)| cores & here != 0);
        if !victim || (others && !write) {
            return 0;
        }
        self.drop_shared_copy(domain, line, entry)
    }

    /// Removes the line from the domain's LLC. Returns its `DIRTY` flag.
    fn drop_shared_copy(&mut self, domain: usize, line: u32, entry: &mut Entry<W>) -> u32 {
        let flags = self.caches.shared[domain].remove(line).expect("the directory is exact");
        entry.remove_domain(domain);
        if entry.dirty() == Some(domain) {
            entry.set_dirty(None);
        }
        flags & DIRTY
    }

    /// Invalidates all other copies of the line. Returns the time until the last acknowledgement arrives.
    fn invalidate_others(&mut self, core: usize, line: u32, entry: &mut Entry<W>) -> Ticks {
        let domain = self.topology.domain_of_core[core];
        let thread = self.thread_on_core[core];
        let mut acknowledged = 0;
        for other in entry.each_core() {
            if other == core {
                continue;
            }
            for level in 0..self.caches.levels {
                self.caches.level(other, level).remove(line);
            }
            entry.remove_core(other);
            let received = self.thread_on_core[other];
            self.counters[received].invalidations_received += 1;
            self.counters[thread].invalidations_sent += 1;
            acknowledged = acknowledged.max(
                self.topology
                    .acknowledgement(self.topology.domain_of_core[other], domain),
            );
        }
        if entry.owner().is_some_and(|owner| owner != core) {
            entry.set_owner(None);
        }
        for other in entry.each_domain() {
            if other != domain {
                self.drop_shared_copy(other, line, entry);
                self.counters[thread].invalidations_sent += 1;
                acknowledged = acknowledged.max(self.topology.acknowledgement(other, domain));
            }
        }
        acknowledged
    }

    /// Transfers a line from the caches of another domain.
    fn transfer(&mut self, from: usize, to: usize, modified: bool, time: Ticks) -> (Option<Served>, Ticks) {
        let transfer = *self.topology.transfer(from, to);
        let served = match (transfer.other_package, modified) {
            (false, false) => Served::SamePackageClean,
            (false, true) => Served::SamePackageModified,
            (true, false) => Served::OtherPackageClean,
            (true, true) => Served::OtherPackageModified,
        };
        let topology = &self.topology;
        let mut wait = self.traffic.cross(
            topology.route(topology.node_of_domain[from], topology.node_of_domain[to]),
            time,
        );
        wait += self.traffic.cross_bus(topology.package_of_domain[from], time);
        if transfer.other_package {
            wait += self.traffic.cross_bus(topology.package_of_domain[to], time);
        }
        wait += self.traffic.leave_domain(from, time) + self.traffic.enter_domain(to, time);
        let latency = if modified { transfer.modified } else { transfer.clean };
        (Some(served), latency + wait)
    }

    /// Reads a line from its home node's memory for a domain. Returns what served it, and the latency.
    pub(super) fn read_memory(&mut self, domain: usize, line: u32, time: Ticks) -> (Served, Ticks) {
        let topology = &self.topology;
        let home = self.pages.node_of_line(line);
        let node = topology.node_of_domain[domain];
        let mut wait = self.traffic.read(home, time);
        wait += self.traffic.cross(topology.route(home, node), time);
        wait += self.traffic.cross_bus(topology.package_of_domain[domain], time);
        wait += self.traffic.enter_domain(domain, time);
        let served = if home == node {
            Served::LocalMemory
        } else {
            Served::RemoteMemory
        };
        (served, topology.memory_latency(node, home) + wait)
    }

    /// Writes a modified line from a domain to memory because of a thread's access. No thread waits for it.
    pub(super) fn write_memory(&mut self, thread: usize, domain: usize, line: u32, time: Ticks) {
        self.counters[thread].memory_writes += 1;
        let topology = &self.topology;
        let home = self.pages.node_of_line(line);
        self.traffic.write(home, time);
        self.traffic
            .cross(topology.route(topology.node_of_domain[domain], home), time);
        self.traffic.cross_bus(topology.package_of_domain[domain], time);
        self.traffic.leave_domain(domain, time);
    }
}
