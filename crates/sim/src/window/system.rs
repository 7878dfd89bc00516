//! The memory system that the cores share: private caches, last-level caches, the directory, memory and links, and the
//! protocol that keeps them coherent.
//!
//! An access that misses the L1 goes these ways:
//!
//! 1. The core's further private caches. A hit costs that level's latency.
//! 2. The directory's entry of the line tells who serves. In this order: the core that owns the line (E, M or O), where
//!    it has modified it or may forward clean lines; the own LLC; an LLC of another domain that has the newest data; any
//!    cache that may forward a clean line; memory.
//! 3. A store takes the line away from everybody else; a load makes an owner share it.
//! 4. The line is put into the LLC and the private caches by their inclusion, and what they evict goes outwards: to the
//!    next level where that is a victim cache or the line is modified, out of the nearer levels where the level is
//!    inclusive, and at last to memory.
//!
//! Transfers occupy the memory of the line's node, every link on the way and the packages' buses, where there are any.
//! Data only: requests, probes and acknowledgements take latency, which is in the model's figures, but no bandwidth.
//! The way from the requesting core to the line's home node and on to the owner is taken to be as long as the direct one.

use super::cache::{Cache, DIRTY, Evicted, PREFETCH, PREFETCH_SHIFT, WRITABLE};
use super::counters::{Counters, Served};
use super::directory::{DOMAINS, Directory, Entry};
use super::pages::Pages;
use super::server::Server;
use super::time::{Ticks, ticks};
use crate::model::{Inclusion, LINE_BYTES, Model, Sourced};
use crate::random::Random;

/// What the line costs and brings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fetched {
    /// From load to use, queueing included.
    pub(crate) latency: Ticks,
    /// The state in which the core gets it: `DIRTY`, `WRITABLE`.
    flags: u32,
    /// `None` for the own LLC.
    served: Option<Served>,
    /// The own LLC held it, which does not mean that it served it.
    in_shared: bool,
    /// The prefetcher that had brought it to the LLC, where this is its first use.
    prefetched: Option<usize>,
}

/// A hit or a miss beyond the L1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    /// From load to use, queueing included.
    pub(crate) latency: Ticks,
    /// The prefetcher that had brought the line to where it was found, where this is its first use.
    pub(crate) prefetched: Option<usize>,
    /// The private caches did not hold it.
    pub(crate) beyond: bool,
    /// Another core's cache handed the line on.
    pub(crate) handed_on: bool,
}

/// A miss to come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coming {
    line: u32,
    /// The line that will enter the LLC.
    enters: u32,
}

/// Latencies of a line that one domain's caches send another's.
#[derive(Clone, Copy, Debug, Default)]
struct Transfer {
    other_package: bool,
    clean: Ticks,
    modified: Ticks,
}

#[derive(Debug)]
pub(crate) struct System<const W: usize> {
    /// Private caches: level `l` of core `c` is at `c * levels + l`.
    pub(crate) private: Vec<Cache>,
    /// Private levels.
    pub(crate) levels: usize,
    /// By level, the last one included.
    inclusion: Vec<Inclusion>,
    pub(crate) latency: Vec<Ticks>,
    pub(crate) shared: Vec<Cache>,
    pub(crate) directory: Directory<W>,
    pub(crate) pages: Pages,
    /// By active core: its domain, among the active ones.
    pub(crate) domain_of_core: Vec<usize>,
    cores_of_domain: Vec<[u64; W]>,
    node_of_domain: Vec<usize>,
    package_of_domain: Vec<usize>,
    /// By receiving and sending domain.
    transfers: Vec<Transfer>,
    same_domain_clean: Ticks,
    same_domain_modified: Ticks,
    shares_dirty: bool,
    forwards_clean: bool,
    nodes: usize,
    /// By node and home node.
    memory_latency: Vec<Ticks>,
    /// By sending and receiving node: links.
    ways: Vec<Vec<usize>>,
    pub(crate) memory: Vec<Server>,
    pub(crate) links: Vec<Server>,
    /// By package; empty where there are no buses.
    pub(crate) buses: Vec<Server>,
    /// By thread.
    pub(crate) counters: Vec<Counters>,
    /// By active core: the thread that runs on it now, for the counters.
    pub(crate) thread_on_core: Vec<usize>,
    /// Lines that caches handed on lately, by their low bits, and until when.
    transit: Vec<(u32, Ticks)>,
    /// By active core, lines that it lost to another lately, by their low bits, and until when it has them.
    lost: Vec<(u32, Ticks)>,
    /// By how much transfers between caches vary.
    random: Random,
}

/// Lines that are remembered as handed on. One that another took the place of counts as arrived.
const TRANSIT: usize = 4096;

/// Lost lines that are remembered, a core.
const LOST: usize = 16;

/// Transfer latency varies uniformly by ±1/16: the distance to the cache slice that is the line's home, and the traffic on
/// the way, differ from line to line. Without the variation, two threads that compete for a line stay in step, and the
/// order in which they begin decides how much each of them gets done. Assumed; the results hardly depend on the value.
const SCATTER: Ticks = 16;

/// A core has a line that another asks for until it is told: of the ways to the line's home, from there to the core and back
/// to who asked, the second. So a core that fights for a line gets more done than one access each time. Assumed: that the
/// ways take equally long, and that the first has been gone while the line was still on its way to the core.
const TOLD: Ticks = 3;

fn line_service(bytes_per_second: f64, model: &Model) -> Ticks {
    ticks(LINE_BYTES as f64 / bytes_per_second * model.frequency().0)
}

fn memory_server(model: &Model) -> Server {
    let server = Server::new(line_service(model.memory.bandwidth.value().0, model));
    match &model.memory.write_cost {
        Some(cost) => server.with_write_cost(cost.value().0),
        None => server,
    }
}

impl<const W: usize> System<W> {
    /// The system with caches for these cores, which are sorted.
    pub(crate) fn new(model: &Model, cores: &[usize], threads: usize, pages: Pages, seed: u64) -> Self {
        let frequency = model.frequency();
        let levels = model.caches.len() - 1;
        let mut domains: Vec<usize> = cores.iter().map(|&core| model.domain_of_core(core)).collect();
        domains.dedup();
        assert!(
            domains.len() <= DOMAINS && cores.len() <= W * 64,
            "checked by the caller"
        );
        let domain_of_core: Vec<usize> = cores
            .iter()
            .map(|&core| domains.partition_point(|&domain| domain < model.domain_of_core(core)))
            .collect();
        let mut cores_of_domain = vec![[0; W]; domains.len()];
        for (core, &domain) in domain_of_core.iter().enumerate() {
            cores_of_domain[domain][core / 64] |= 1 << (core % 64);
        }
        let first_core = |domain: usize| domain * model.cores_per_domain();
        let cache = |level: usize| {
            let cache = &model.caches[level];
            Cache::new(cache.size.value().0 / LINE_BYTES, cache.ways.value().0)
        };
        let routes = model.routes();
        let nodes = model.nodes();
        let local = model.memory.latency.value().cycles(frequency);
        let pairs = || (0..nodes).flat_map(|a| (0..nodes).map(move |b| (a, b)));
        let coherence = &model.coherence;
        let figure = |figure: Option<&Sourced<crate::model::Latency>>| {
            figure.map_or(0, |figure| ticks(figure.value().cycles(frequency)))
        };
        let node_of_domain: Vec<usize> = domains
            .iter()
            .map(|&domain| model.node_of_core(first_core(domain)))
            .collect();
        let package_of_domain: Vec<usize> = domains
            .iter()
            .map(|&domain| model.package_of_core(first_core(domain)))
            .collect();
        Self {
            private: cores.iter().flat_map(|_| (0..levels).map(cache)).collect(),
            levels,
            inclusion: model.caches.iter().map(|cache| cache.inclusion.value()).collect(),
            latency: model
                .caches
                .iter()
                .map(|cache| ticks(cache.latency.value().cycles(frequency)))
                .collect(),
            shared: domains.iter().map(|_| cache(levels)).collect(),
            directory: Directory::new(cores.len(), domains.len()),
            pages,
            domain_of_core,
            cores_of_domain,
            transfers: transfers(model, &routes, &node_of_domain, &package_of_domain),
            node_of_domain,
            package_of_domain,
            same_domain_clean: figure(coherence.same_domain_clean.as_ref()),
            same_domain_modified: figure(coherence.same_domain_modified.as_ref()),
            shares_dirty: coherence.protocol.value().shares_dirty(),
            forwards_clean: coherence.protocol.value().forwards_clean(),
            nodes,
            memory_latency: pairs().map(|(a, b)| ticks(local + routes.latency(a, b))).collect(),
            ways: pairs().map(|(a, b)| routes.way(a, b).to_vec()).collect(),
            memory: vec![memory_server(model); nodes],
            links: routes
                .links()
                .iter()
                .map(|link| Server::new(line_service(link.bandwidth, model)))
                .collect(),
            buses: model.memory.front_side_bus.as_ref().map_or(vec![], |bus| {
                vec![Server::new(line_service(bus.value().0, model)); model.packages()]
            }),
            counters: vec![Counters::default(); threads],
            thread_on_core: vec![0; cores.len()],
            transit: vec![(0, 0); TRANSIT],
            lost: vec![(0, 0); cores.len() * LOST],
            random: Random::new(seed),
        }
    }

    /// The least time that a line takes from one core's caches to another's; 0 where no two cores are active.
    pub(crate) fn shortest_transfer(&self) -> Ticks {
        let between = self.transfers.iter().map(|transfer| transfer.clean);
        let within = [self.same_domain_clean, self.same_domain_modified];
        between.chain(within).filter(|&time| time > 0).min().unwrap_or(0)
    }

    /// The node of an active core.
    pub(crate) fn node_of_core(&self, core: usize) -> usize {
        self.node_of_domain[self.domain_of_core[core]]
    }

    /// The core's first-level cache.
    #[inline]
    pub(crate) fn l1(&mut self, core: usize) -> &mut Cache {
        &mut self.private[core * self.levels]
    }

    /// The core's cache of `level`.
    #[inline]
    fn level(&mut self, core: usize, level: usize) -> &mut Cache {
        &mut self.private[core * self.levels + level]
    }

    /// What a coming access of `core` to `line` will put into the LLC if it misses: the line itself, or what it will push
    /// out of the private caches. `None` where it will not miss the L1, or push nothing out.
    #[inline]
    fn entering(&self, core: usize, line: u32) -> Option<u32> {
        let private = &self.private[core * self.levels..(core + 1) * self.levels];
        if private[0].holds(line) {
            return None;
        }
        let mut gone = private[0].candidate(line);
        for (cache, &inclusion) in private[1..].iter().zip(&self.inclusion[1..]) {
            let enters = if inclusion == Inclusion::Victim {
                gone
            } else {
                Some(line)
            };
            gone = enters.and_then(|enters| cache.candidate(enters));
        }
        if self.inclusion[self.levels] == Inclusion::Victim {
            gone
        } else {
            if let Some(gone) = gone {
                self.directory.warm(gone);
            }
            Some(line)
        }
    }

    /// Has the host fetch what a coming access of `core` will need if it misses, first of two steps; where it will miss,
    /// what the second one needs.
    #[inline]
    pub(crate) fn warm_sets(&self, core: usize, line: u32) -> Option<Coming> {
        let enters = self.entering(core, line)?;
        self.directory.warm(line);
        self.directory.warm(enters);
        self.shared[self.domain_of_core[core]].warm(enters);
        Some(Coming { line, enters })
    }

    /// The second step, some events later: where the line is, and what has to go from the LLC.
    #[inline]
    pub(crate) fn warm_holders(&self, core: usize, coming: Coming) {
        let entry = self.directory.get(coming.line);
        for domain in entry.each_domain() {
            self.shared[domain].warm(coming.line);
        }
        if let Some(owner) = entry.owner() {
            for cache in &self.private[owner * self.levels..(owner + 1) * self.levels] {
                cache.warm(coming.line);
            }
        }
        if let Some(evicted) = self.shared[self.domain_of_core[core]].candidate(coming.enters) {
            self.directory.warm(evicted);
        }
    }

    /// The demand access of `core` to a line that its L1 does not hold. Afterwards it does.
    pub(crate) fn miss(&mut self, core: usize, line: u32, write: bool, time: Ticks) -> Access {
        let thread = self.thread_on_core[core];
        let stored = if write { DIRTY | WRITABLE } else { 0 };
        for level in 1..self.levels {
            let Some(flags) = self.take(core, level, line) else {
                self.counters[thread].levels[level].misses += 1;
                continue;
            };
            self.counters[thread].levels[level].hits += 1;
            let mut latency = self.latency[level];
            if write && flags & WRITABLE == 0 {
                latency += self.upgrade(core, line, time);
            }
            let kept = if self.inclusion[level] == Inclusion::Victim {
                DIRTY | WRITABLE
            } else {
                WRITABLE
            };
            self.fill(core, line, flags & kept | stored, 0, level, time);
            let prefetched = (flags & PREFETCH).checked_sub(1 << PREFETCH_SHIFT);
            return Access {
                latency,
                prefetched: prefetched.map(|tag| (tag >> PREFETCH_SHIFT) as usize),
                beyond: false,
                handed_on: false,
            };
        }
        let fetched = self.fetch(core, line, write, time, true);
        let counters = &mut self.counters[thread];
        if fetched.in_shared {
            counters.levels[self.levels].hits += 1;
        } else {
            counters.levels[self.levels].misses += 1;
        }
        if let Some(served) = fetched.served {
            counters.served[served] += 1;
        }
        self.fill(core, line, fetched.flags | stored, 0, self.levels, time);
        Access {
            latency: fetched.latency,
            prefetched: fetched.prefetched,
            beyond: true,
            handed_on: !matches!(fetched.served, None | Some(Served::LocalMemory | Served::RemoteMemory)),
        }
    }

    /// The flags with which a private level holds the line: out of a victim cache it goes, elsewhere it stays, without
    /// its prefetcher's mark.
    #[inline]
    fn take(&mut self, core: usize, level: usize, line: u32) -> Option<u32> {
        if self.inclusion[level] == Inclusion::Victim {
            return self.level(core, level).remove(line);
        }
        let word = self.level(core, level).touch(line)?;
        let flags = *word & (PREFETCH | DIRTY | WRITABLE);
        *word &= !PREFETCH;
        Some(flags)
    }

    /// Whether a prefetch into level `to` has nothing to do.
    #[inline]
    pub(crate) fn is_near(&self, core: usize, line: u32, to: usize) -> bool {
        let first = core * self.levels;
        self.private[first..=first + to.min(self.levels - 1)]
            .iter()
            .any(|cache| cache.holds(line))
    }

    /// Brings a line, which is not near, into the private caches from level `to` outwards; its latency, and whether memory served it. `None`
    /// where it is there already.
    pub(crate) fn prefetch(
        &mut self,
        core: usize,
        line: u32,
        to: usize,
        prefetcher: usize,
        time: Ticks,
    ) -> Option<(Ticks, bool)> {
        let mark = (prefetcher as u32 + 1) << PREFETCH_SHIFT;
        if to == self.levels {
            return self.prefetch_shared(core, line, mark, time);
        }
        // A victim cache is filled only by what the level before it evicts.
        let to = (0..=to)
            .rev()
            .find(|&level| self.inclusion[level] != Inclusion::Victim)
            .unwrap_or(0);
        for level in to + 1..self.levels {
            if let Some(flags) = self.take(core, level, line) {
                let kept = if self.inclusion[level] == Inclusion::Victim {
                    DIRTY | WRITABLE
                } else {
                    WRITABLE
                };
                let latency = self.latency[level];
                self.fill(core, line, flags & kept | mark, to, level, time);
                return Some((latency, false));
            }
        }
        let fetched = self.fetch(core, line, false, time, false);
        self.fill(core, line, fetched.flags | mark, to, self.levels, time);
        let from_memory = matches!(fetched.served, Some(Served::LocalMemory | Served::RemoteMemory));
        Some((fetched.latency, from_memory))
    }

    /// Brings a line that no cache has into the LLC.
    fn prefetch_shared(&mut self, core: usize, line: u32, mark: u32, time: Ticks) -> Option<(Ticks, bool)> {
        let domain = self.domain_of_core[core];
        let mut entry = self.directory.get(line);
        if entry != Entry::EMPTY {
            return None;
        }
        let (_, latency) = self.read_memory(domain, line, time);
        entry.add_domain(domain);
        self.directory.set(line, entry);
        self.insert_shared(core, domain, line, mark, time);
        Some((latency, true))
    }

    /// Makes the core the only holder of a line that it holds; the latency.
    pub(crate) fn upgrade(&mut self, core: usize, line: u32, time: Ticks) -> Ticks {
        let domain = self.domain_of_core[core];
        let thread = self.thread_on_core[core];
        self.counters[thread].upgrades += 1;
        let mut entry = self.directory.get(line);
        let acknowledged = self.invalidate_others(core, line, &mut entry);
        if entry.has_domain(domain) && self.inclusion[self.levels] == Inclusion::Victim {
            self.drop_shared_copy(domain, line, &mut entry);
        }
        entry.set_owner(Some(core));
        self.directory.set(line, entry);
        self.in_transit(line, time, acknowledged.max(self.latency[self.levels]), None)
    }

    /// The latency of a line that caches hand on, which begins when its last transfer has ended: cores that fight for a
    /// line get it one after the other. `loser` had it for itself.
    fn in_transit(&mut self, line: u32, time: Ticks, latency: Ticks, loser: Option<usize>) -> Ticks {
        let latency = self.scattered(latency);
        let begin = time.max(self.arrival(line));
        self.transit[line as usize % TRANSIT] = (line, begin + latency);
        if let Some(loser) = loser {
            self.lost[loser * LOST + line as usize % LOST] = (line, begin + latency / TOLD);
        }
        begin + latency - time
    }

    /// A latency that is up to a `SCATTER`th shorter or longer.
    fn scattered(&mut self, latency: Ticks) -> Ticks {
        let most = latency / SCATTER;
        latency - most + self.random.next() % (2 * most + 1)
    }

    /// When the last transfer of a line between caches ended, or will end; 0 where none is known of.
    pub(crate) fn arrival(&self, line: u32) -> Ticks {
        let (last, until) = self.transit[line as usize % TRANSIT];
        if last == line { until } else { 0 }
    }

    /// Whether a core that has lost a line does not know it yet.
    pub(crate) fn still_has(&self, core: usize, line: u32, time: Ticks) -> bool {
        let (lost, until) = self.lost[core * LOST + line as usize % LOST];
        lost == line && time < until
    }

    /// Finds who serves the line, changes everybody's state, and puts the line into the LLC where that is filled on the
    /// way in. The private caches are left to the caller.
    fn fetch(&mut self, core: usize, line: u32, write: bool, time: Ticks, demand: bool) -> Fetched {
        let domain = self.domain_of_core[core];
        let mut entry = self.directory.get(line);
        let mut prefetched = None;
        let in_shared = entry.has_domain(domain);
        if in_shared {
            let word = self.shared[domain].touch(line).expect("the directory is exact");
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
            latency = self.in_transit(line, time, latency, owner);
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

    /// Who serves the line and how long it takes; owners and modified copies are made to share it where it is read.
    fn serve(
        &mut self,
        core: usize,
        line: u32,
        write: bool,
        entry: &mut Entry<W>,
        time: Ticks,
    ) -> (Option<Served>, Ticks) {
        let domain = self.domain_of_core[core];
        let thread = self.thread_on_core[core];
        let in_shared = entry.has_domain(domain);
        if let Some(owner) = entry.owner() {
            let from = self.domain_of_core[owner];
            let dirty = self.share_private(owner, line, write, write || self.shares_dirty);
            if dirty {
                let served = if from == domain {
                    (Some(Served::SameDomainModified), self.same_domain_modified)
                } else {
                    self.transfer(from, domain, true, time)
                };
                if write {
                    entry.set_owner(None);
                } else if !self.shares_dirty {
                    entry.set_owner(None);
                    self.clean_owner(core, from, line, entry, time);
                }
                return served;
            }
            entry.set_owner(None);
            if from != domain && self.forwards_clean && !in_shared {
                return self.transfer(from, domain, false, time);
            }
            if from == domain && (in_shared || self.forwards_clean) {
                return (Some(Served::SameDomainClean), self.same_domain_clean);
            }
        }
        if in_shared {
            return (None, self.latency[self.levels]);
        }
        if let Some(from) = entry.dirty() {
            let served = self.transfer(from, domain, true, time);
            if !write && !self.shares_dirty {
                if let Some(word) = self.shared[from].peek(line) {
                    *word &= !DIRTY;
                }
                entry.set_dirty(None);
                self.write_memory(thread, from, line, time);
            }
            return served;
        }
        if self.forwards_clean {
            let here = self.cores_of_domain[domain];
            if entry.cores.iter().zip(here).any(|(cores, here)| cores & here != 0) {
                return (Some(Served::SameDomainClean), self.same_domain_clean);
            }
            let holders = entry
                .each_domain()
                .chain(entry.each_core().map(|core| self.domain_of_core[core]));
            let nearest = holders.min_by_key(|&from| (self.transfers[domain * self.shared.len() + from].clean, from));
            if let Some(from) = nearest {
                return self.transfer(from, domain, false, time);
            }
        }
        let (served, latency) = self.read_memory(domain, line, time);
        (Some(served), latency)
    }

    /// Makes the owner's copy shared (or, for a store, leaves that to the invalidation), and clean where the newest data
    /// goes elsewhere; whether it was modified.
    fn share_private(&mut self, owner: usize, line: u32, write: bool, keep_dirty: bool) -> bool {
        let mut dirty = false;
        for level in 0..self.levels {
            if let Some(word) = self.level(owner, level).peek(line) {
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

    /// Where a protocol cannot share modified data: the newest data goes to the LLC, and to memory where another domain
    /// reads it.
    fn clean_owner(&mut self, reader: usize, from: usize, line: u32, entry: &mut Entry<W>, time: Ticks) {
        if from != self.domain_of_core[reader] {
            if entry.dirty() == Some(from) {
                entry.set_dirty(None);
                if let Some(word) = self.shared[from].peek(line) {
                    *word &= !DIRTY;
                }
            }
            self.write_memory(self.thread_on_core[reader], from, line, time);
            return;
        }
        entry.set_dirty(Some(from));
        if entry.has_domain(from) {
            if let Some(word) = self.shared[from].peek(line) {
                *word |= DIRTY;
            }
        } else {
            entry.add_domain(from);
            self.insert_shared(reader, from, line, DIRTY, time);
        }
    }

    /// Puts a line into the LLC on its way in, or takes it out of a victim LLC; the flags with which the core gets it.
    fn settle_shared(
        &mut self,
        core: usize,
        domain: usize,
        line: u32,
        write: bool,
        entry: &mut Entry<W>,
        time: Ticks,
    ) -> u32 {
        let victim = self.inclusion[self.levels] == Inclusion::Victim;
        if !entry.has_domain(domain) {
            if !victim {
                entry.add_domain(domain);
                self.insert_shared(core, domain, line, 0, time);
            }
            return 0;
        }
        let here = self.cores_of_domain[domain];
        let others = entry.cores.iter().zip(here).any(|(cores, here)| cores & here != 0);
        if !victim || (others && !write) {
            return 0;
        }
        self.drop_shared_copy(domain, line, entry)
    }

    /// Takes the line out of the domain's LLC; its `DIRTY` flag.
    fn drop_shared_copy(&mut self, domain: usize, line: u32, entry: &mut Entry<W>) -> u32 {
        let flags = self.shared[domain].remove(line).expect("the directory is exact");
        entry.remove_domain(domain);
        if entry.dirty() == Some(domain) {
            entry.set_dirty(None);
        }
        flags & DIRTY
    }

    /// Takes the line away from all others; how long until the last of them has said so.
    fn invalidate_others(&mut self, core: usize, line: u32, entry: &mut Entry<W>) -> Ticks {
        let domain = self.domain_of_core[core];
        let thread = self.thread_on_core[core];
        let mut acknowledged = 0;
        for other in entry.each_core() {
            if other == core {
                continue;
            }
            for level in 0..self.levels {
                self.level(other, level).remove(line);
            }
            entry.remove_core(other);
            let received = self.thread_on_core[other];
            self.counters[received].invalidations_received += 1;
            self.counters[thread].invalidations_sent += 1;
            acknowledged = acknowledged.max(self.acknowledgement(self.domain_of_core[other], domain));
        }
        if entry.owner().is_some_and(|owner| owner != core) {
            entry.set_owner(None);
        }
        for other in entry.each_domain() {
            if other != domain {
                self.drop_shared_copy(other, line, entry);
                self.counters[thread].invalidations_sent += 1;
                acknowledged = acknowledged.max(self.acknowledgement(other, domain));
            }
        }
        acknowledged
    }

    fn acknowledgement(&self, from: usize, to: usize) -> Ticks {
        if from == to {
            self.same_domain_clean
        } else {
            self.transfers[to * self.shared.len() + from].clean
        }
    }

    /// A line that another domain's caches send.
    fn transfer(&mut self, from: usize, to: usize, modified: bool, time: Ticks) -> (Option<Served>, Ticks) {
        let transfer = self.transfers[to * self.shared.len() + from];
        let served = match (transfer.other_package, modified) {
            (false, false) => Served::SamePackageClean,
            (false, true) => Served::SamePackageModified,
            (true, false) => Served::OtherPackageClean,
            (true, true) => Served::OtherPackageModified,
        };
        let mut wait = self.cross(self.node_of_domain[from], self.node_of_domain[to], time);
        wait += self.cross_bus(self.package_of_domain[from], time);
        if transfer.other_package {
            wait += self.cross_bus(self.package_of_domain[to], time);
        }
        let latency = if modified { transfer.modified } else { transfer.clean };
        (Some(served), latency + wait)
    }

    fn read_memory(&mut self, domain: usize, line: u32, time: Ticks) -> (Served, Ticks) {
        let home = self.pages.node_of_line(line);
        let node = self.node_of_domain[domain];
        let mut wait = self.memory[home].serve(time);
        wait += self.cross(home, node, time);
        wait += self.cross_bus(self.package_of_domain[domain], time);
        let served = if home == node {
            Served::LocalMemory
        } else {
            Served::RemoteMemory
        };
        (served, self.memory_latency[node * self.nodes + home] + wait)
    }

    /// A modified line goes from a domain to memory because of a thread's access. Nobody waits for it.
    fn write_memory(&mut self, thread: usize, domain: usize, line: u32, time: Ticks) {
        self.counters[thread].memory_writes += 1;
        let home = self.pages.node_of_line(line);
        self.memory[home].serve_write(time);
        self.cross(self.node_of_domain[domain], home, time);
        self.cross_bus(self.package_of_domain[domain], time);
    }

    /// The wait on the links from one node to another.
    fn cross(&mut self, from: usize, to: usize, time: Ticks) -> Ticks {
        let mut wait = 0;
        for &link in &self.ways[from * self.nodes + to] {
            wait += self.links[link].serve(time);
        }
        wait
    }

    fn cross_bus(&mut self, package: usize, time: Ticks) -> Ticks {
        self.buses.get_mut(package).map_or(0, |bus| bus.serve(time))
    }

    /// Puts a line into the private caches from level `to` up to, but not including, level `end`. Modified data and the
    /// prefetcher's mark stand at `to` alone.
    fn fill(&mut self, core: usize, line: u32, flags: u32, to: usize, end: usize, time: Ticks) {
        for level in (to..end).rev() {
            let flags = if level == to {
                flags
            } else if self.inclusion[level] == Inclusion::Victim {
                continue;
            } else {
                flags & WRITABLE
            };
            if let Some(evicted) = self.level(core, level).insert(line, flags) {
                self.spill(core, level, evicted, time);
            }
        }
    }

    /// Whether no line is in both private levels: a victim cache gets what the level before it evicts, and gives it back.
    #[inline]
    fn exclude_each_other(&self, inner: usize, outer: usize) -> bool {
        outer == inner + 1 && self.inclusion[outer] == Inclusion::Victim
    }

    /// Where a line goes that a private level evicted.
    fn spill(&mut self, core: usize, level: usize, evicted: Evicted, time: Ticks) {
        let Evicted { line, flags } = evicted;
        let mut flags = flags & (DIRTY | WRITABLE);
        for inner in 0..level {
            if self.inclusion[level] == Inclusion::Inclusive {
                flags |= self.level(core, inner).remove(line).unwrap_or(0) & (DIRTY | WRITABLE);
            } else if self.exclude_each_other(inner, level) {
                debug_assert!(!self.level(core, inner).holds(line), "a victim cache excludes");
            } else if let Some(word) = self.level(core, inner).peek(line) {
                *word |= flags;
                return;
            }
        }
        for outer in level + 1..self.levels {
            let next = outer == level + 1;
            if self.exclude_each_other(level, outer) {
                debug_assert!(!self.level(core, outer).holds(line), "a victim cache excludes");
            } else if let Some(word) = self.level(core, outer).peek(line) {
                *word |= flags;
                return;
            }
            if next && (self.inclusion[outer] == Inclusion::Victim || flags & DIRTY != 0) {
                if let Some(evicted) = self.level(core, outer).insert(line, flags) {
                    self.spill(core, outer, evicted, time);
                }
                return;
            }
        }
        self.leave(core, line, flags & DIRTY, time);
    }

    /// The last private copy of a core goes: outwards where it is modified or the LLC is a victim cache.
    fn leave(&mut self, core: usize, line: u32, dirty: u32, time: Ticks) {
        let domain = self.domain_of_core[core];
        let mut entry = self.directory.get(line);
        entry.remove_core(core);
        if entry.owner() == Some(core) {
            entry.set_owner(None);
        }
        let insert = !entry.has_domain(domain) && (dirty != 0 || self.inclusion[self.levels] == Inclusion::Victim);
        if dirty != 0 {
            entry.set_dirty(Some(domain));
            if !insert && let Some(word) = self.shared[domain].peek(line) {
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

    /// Puts a line into an LLC because of an access of `core`, and deals with what that evicts.
    fn insert_shared(&mut self, core: usize, domain: usize, line: u32, flags: u32, time: Ticks) {
        let Some(Evicted { line, flags }) = self.shared[domain].insert(line, flags) else {
            return;
        };
        let mut dirty = flags & DIRTY;
        let mut entry = self.directory.get(line);
        entry.remove_domain(domain);
        if entry.dirty() == Some(domain) {
            entry.set_dirty(None);
        }
        if self.inclusion[self.levels] == Inclusion::Inclusive {
            for holder in entry.each_core() {
                if self.domain_of_core[holder] != domain {
                    continue;
                }
                for level in 0..self.levels {
                    dirty |= self.level(holder, level).remove(line).unwrap_or(0) & DIRTY;
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

/// The transfer latencies between domains: the figures are those of the nearest pair of their kind; a pair that is
/// further apart takes as much longer as its way is.
fn transfers(
    model: &Model,
    routes: &crate::model::Routes,
    node_of_domain: &[usize],
    package_of_domain: &[usize],
) -> Vec<Transfer> {
    let frequency = model.frequency();
    let coherence = &model.coherence;
    let nodes = model.nodes();
    let package_of_node = |node: usize| node * model.packages() / nodes;
    let nearest = |to: usize, other_package: bool| {
        (0..nodes)
            .filter(|&from| (package_of_node(from) != package_of_node(to)) == other_package)
            .filter(|&from| from != to || model.cores_per_domain() * nodes < model.cores() || nodes == 1)
            .map(|from| routes.latency(from, to))
            .fold(f64::INFINITY, f64::min)
    };
    let mut all = vec![];
    for (&to, &to_package) in node_of_domain.iter().zip(package_of_domain) {
        for (&from, &from_package) in node_of_domain.iter().zip(package_of_domain) {
            let other_package = from_package != to_package;
            let (clean, modified) = if other_package {
                (&coherence.other_package_clean, &coherence.other_package_modified)
            } else {
                (&coherence.same_package_clean, &coherence.same_package_modified)
            };
            let base = nearest(to, other_package);
            let further = if base.is_finite() {
                (routes.latency(from, to) - base).max(0.0)
            } else {
                0.0
            };
            let latency = |figure: &Option<Sourced<crate::model::Latency>>| {
                figure
                    .as_ref()
                    .map_or(0, |figure| ticks(figure.value().cycles(frequency) + further))
            };
            all.push(Transfer {
                other_package,
                clean: latency(clean),
                modified: latency(modified),
            });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::mapping::Mapping;
    use super::*;
    use pinfold_core::PageMapping;
    use proptest::prelude::*;

    /// The Opteron or the Sandy Bridge with caches of a few lines, so that everything is evicted all the time.
    fn small(name: &str) -> Model {
        let (text, replacements): (&str, &[(&str, &str)]) = match name {
            "victim" => (
                include_str!("../../../../machines/opteron-6164x4.toml"),
                &[
                    ("kib = 64", "bytes = 512"),
                    ("kib = 512", "kib = 1"),
                    ("count = 16, source = \"AMD S", "count = 4, source = \"AMD S"),
                    ("{ mib = 5", "{ kib = 2"),
                    ("count = 40", "count = 8"),
                ],
            ),
            _ => (
                include_str!("../../../../machines/e5-4650x4.toml"),
                &[
                    ("kib = 32", "bytes = 512"),
                    ("count = 8, source = \"Intel 64", "count = 4, source = \"Intel 64"),
                    ("kib = 256", "kib = 1"),
                    ("mib = 20", "kib = 4"),
                    ("count = 20, source = \"Intel Xeon", "count = 8, source = \"Intel Xeon"),
                ],
            ),
        };
        let mut text = text.to_owned();
        for (from, to) in replacements {
            assert!(text.contains(from), "{from}");
            text = text.replace(from, to);
        }
        if name == "non_inclusive" {
            text = text.replace("policy = \"inclusive\"", "policy = \"non_inclusive\"");
        }
        Model::parse(name, &text).unwrap()
    }

    /// Two cores each of three domains.
    fn system(model: &Model) -> System<1> {
        let apart = model.cores_per_domain();
        let cores: Vec<usize> = (0..3).flat_map(|domain| [domain * apart, domain * apart + 1]).collect();
        let mapping = Mapping::new(model, PageMapping::FirstTouch, None, &[0; 6]);
        let mut system = System::new(model, &cores, cores.len(), Pages::new(mapping), 0);
        system.thread_on_core = (0..cores.len()).collect();
        system.pages.number(0, 0);
        system.pages.number(1, 0);
        system.directory.add_block();
        system
    }

    fn access(system: &mut System<1>, core: usize, line: u32, write: bool) {
        let Some(word) = system.l1(core).touch(line) else {
            system.miss(core, line, write, 0);
            return;
        };
        let writable = *word & WRITABLE != 0;
        if write {
            *word |= DIRTY | WRITABLE;
            if !writable {
                system.upgrade(core, line, 0);
            }
        }
    }

    /// What must hold after every access, for every line.
    fn check(system: &System<1>, lines: u32) {
        let cores = system.domain_of_core.len();
        for line in 0..lines {
            let entry = system.directory.get(line);
            let flags: Vec<Option<u32>> = (0..cores)
                .map(|core| {
                    let private = &system.private[core * system.levels..(core + 1) * system.levels];
                    let found = private
                        .iter()
                        .flat_map(Cache::contents)
                        .filter(|&(held, _)| held == line);
                    found.map(|(_, flags)| flags).reduce(|all, flags| all | flags)
                })
                .collect();
            let holders: Vec<usize> = (0..cores).filter(|&core| flags[core].is_some()).collect();
            assert_eq!(entry.each_core().collect::<Vec<_>>(), holders, "line {line}");
            let shared: Vec<usize> = (0..system.shared.len())
                .filter(|&domain| system.shared[domain].holds(line))
                .collect();
            assert_eq!(entry.each_domain().collect::<Vec<_>>(), shared, "line {line}");
            for (core, &held) in flags.iter().enumerate() {
                let held = held.unwrap_or(0);
                let domain = system.domain_of_core[core];
                if held & WRITABLE != 0 {
                    assert_eq!(holders, [core], "line {line} has one writer");
                    assert!(
                        shared.iter().all(|&other| other == domain),
                        "line {line} has one writer"
                    );
                }
                if held & (DIRTY | WRITABLE) != 0 {
                    assert_eq!(entry.owner(), Some(core), "line {line}");
                }
                if system.inclusion[system.levels] == Inclusion::Inclusive && holders.contains(&core) {
                    assert!(shared.contains(&domain), "line {line} is in the inclusive LLC");
                }
            }
        }
    }

    fn accesses() -> impl Strategy<Value = Vec<(usize, u32, u8)>> {
        proptest::collection::vec((0usize..6, 0u32..96, 0u8..8), 1..250)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Loads, stores and prefetches by all cores: the directory is exact, a line has one writer or many readers, an
        /// inclusive LLC includes, and every demand access hits or misses once.
        #[test]
        fn the_caches_stay_coherent(which in 0usize..3, accesses in accesses()) {
            let model = small(["victim", "inclusive", "non_inclusive"][which]);
            let mut system = system(&model);
            let mut demanded = 0;
            for (core, line, what) in accesses {
                match what {
                    0..=2 => access(&mut system, core, line, true),
                    3 | 4 if system.is_near(core, line, usize::from(what) - 3) => {}
                    3 | 4 => {
                        system.prefetch(core, line, usize::from(what) - 3, 0, 0);
                    }
                    _ => access(&mut system, core, line, false),
                }
                demanded += u64::from(!(3..=4).contains(&what));
                check(&system, 96);
            }
            let mut total = Counters::default();
            for counters in &system.counters {
                total += counters;
            }
            // The runner counts the L1; here it is what the L2 did not see.
            let [_, second, third, _] = total.levels;
            prop_assert!(second.hits + second.misses <= demanded);
            prop_assert_eq!(third.hits + third.misses, second.misses);
        }
    }

    #[test]
    fn an_inclusive_cache_takes_what_it_evicts_from_the_cores() {
        let model = small("inclusive");
        let mut system = system(&model);
        access(&mut system, 1, 0, true);
        // Eight lines of the same set of the last level, read by the other core.
        for line in 1..=8 {
            access(&mut system, 0, line * 8, false);
        }
        assert_eq!(system.counters[1].back_invalidations, 1);
        assert_eq!(system.counters[0].memory_writes, 1, "the modified line goes to memory");
        assert_eq!(system.directory.get(0), Entry::EMPTY);
    }

    #[test]
    fn a_line_moves_out_of_a_victim_cache_to_the_one_core_that_reads_it() {
        let model = small("victim");
        let mut system = system(&model);
        // Lines of one set of every level: one way in the L1 (four sets of two), four in the L2.
        for line in 0..7 {
            access(&mut system, 0, line * 4, line == 0);
        }
        assert!(
            system.shared[0].holds(0),
            "the L1 and the L2 hold six lines, the seventh pushes the first out"
        );
        assert!(!system.shared[0].holds(24), "what comes from memory does not go there");
        access(&mut system, 0, 0, false);
        assert!(!system.shared[0].holds(0) && system.l1(0).holds(0));
        assert_eq!(system.counters[0].levels[2].hits, 1);
        assert_eq!(
            *system.l1(0).peek(0).unwrap() & DIRTY,
            DIRTY,
            "modified it stays modified"
        );
    }

    #[test]
    fn a_victim_cache_keeps_its_copy_where_another_core_holds_the_line() {
        let model = small("victim");
        let mut system = system(&model);
        for line in 0..7 {
            access(&mut system, 0, line * 4, false);
        }
        access(&mut system, 1, 0, false);
        assert!(!system.shared[0].holds(0));
        // Core 0 reads it too, then core 1 pushes its copy out, and core 0 still holds the line when core 1 reads it.
        access(&mut system, 0, 0, false);
        for line in 7..14 {
            access(&mut system, 1, line * 4, false);
        }
        assert!(system.shared[0].holds(0));
        access(&mut system, 1, 0, false);
        assert!(system.shared[0].holds(0));
    }
}
