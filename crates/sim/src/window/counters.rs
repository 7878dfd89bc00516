//! What a window's simulation counts: the counters of each thread, the passages through regions, and traffic.

use super::totals::RegionTotals;
use crate::model::Prefetcher;
use std::collections::BTreeMap;
use std::ops::{AddAssign, Index, IndexMut, SubAssign};

/// What served a miss of the last-level cache. A hit in it is in `Counters::levels`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Served {
    /// A core under the same last-level cache that held the line unmodified.
    SameDomainClean,
    /// A core under the same last-level cache that had modified it.
    SameDomainModified,
    /// Another last-level-cache domain of the package, unmodified.
    SamePackageClean,
    /// Another last-level-cache domain of the package, modified.
    SamePackageModified,
    /// Another package, unmodified.
    OtherPackageClean,
    /// Another package, modified.
    OtherPackageModified,
    /// The memory of the core's own node.
    LocalMemory,
    /// The memory of another node.
    RemoteMemory,
}

impl Served {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::SameDomainClean,
        Self::SameDomainModified,
        Self::SamePackageClean,
        Self::SamePackageModified,
        Self::OtherPackageClean,
        Self::OtherPackageModified,
        Self::LocalMemory,
        Self::RemoteMemory,
    ];
}

/// Demand accesses of one cache level, counted by line: an access that straddles two lines counts twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelCounters {
    /// Accesses whose line was found.
    pub hits: u64,
    /// Accesses whose line was not found.
    pub misses: u64,
}

/// Counts by what served a miss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServedCounters([u64; 8]);

impl Index<Served> for ServedCounters {
    type Output = u64;

    fn index(&self, served: Served) -> &u64 {
        &self.0[served as usize]
    }
}

impl IndexMut<Served> for ServedCounters {
    fn index_mut(&mut self, served: Served) -> &mut u64 {
        &mut self.0[served as usize]
    }
}

impl ServedCounters {
    /// The sum of all.
    pub fn sum(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// Counts by prefetcher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefetchCounters([u64; 4]);

impl Index<Prefetcher> for PrefetchCounters {
    type Output = u64;

    fn index(&self, prefetcher: Prefetcher) -> &u64 {
        &self.0[prefetcher as usize]
    }
}

impl IndexMut<Prefetcher> for PrefetchCounters {
    fn index_mut(&mut self, prefetcher: Prefetcher) -> &mut u64 {
        &mut self.0[prefetcher as usize]
    }
}

impl PrefetchCounters {
    /// The sum of all.
    pub fn sum(&self) -> u64 {
        self.0.iter().sum()
    }

    pub(crate) fn count(&mut self, prefetcher: usize) {
        self.0[prefetcher] += 1;
    }
}

/// What one thread did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counters {
    /// Instructions.
    pub instructions: u64,
    /// Load accesses.
    pub reads: u64,
    /// Store accesses.
    pub writes: u64,
    /// Demand accesses by cache level, nearest first. There is an entry for each level of the model.
    pub levels: [LevelCounters; 4],
    /// Demand misses of the last level, and accesses to a line that another core owned, by what served them.
    pub served: ServedCounters,
    /// Stores that had to request a line that was held shared.
    pub upgrades: u64,
    /// Copies in other cores' private caches and in other domains that this thread's stores invalidated.
    pub invalidations_sent: u64,
    /// Private copies on the thread's core that other threads' stores invalidated while it ran.
    pub invalidations_received: u64,
    /// Private copies that were removed because an inclusive last level evicted the line.
    pub back_invalidations: u64,
    /// Modified lines written to memory because of this thread's accesses.
    pub memory_writes: u64,
    /// Issued prefetches, without those whose line was already in the target cache.
    pub prefetches: PrefetchCounters,
    /// Prefetched lines that were used.
    pub useful_prefetches: PrefetchCounters,
    /// Used prefetched lines that had not arrived yet.
    pub late_prefetches: u64,
    /// Those of them that memory was sending to the last-level cache and no further, from the core's own node and from
    /// another: a lookup there does not find them yet.
    pub late_from_memory: [u64; 2],
    /// Prefetches that memory served.
    pub prefetches_from_memory: u64,
    /// Those of them that the memory of another node served.
    pub prefetches_from_remote_memory: u64,
    /// Those of them that the L1's prefetchers issued.
    pub l1_prefetches_from_memory: u64,
    /// Prefetches that were dropped because too many were in flight.
    pub dropped_prefetches: u64,
    /// Misses of the translation look-aside buffer.
    pub tlb_misses: u64,
    /// Cycles of the core's clock in which the thread ran.
    pub core_cycles: f64,
    /// Those in which it stalled because of a miss.
    pub stall_cycles: f64,
    /// The time in which the thread ran, like the following times in cycles of the base clock.
    pub busy_cycles: f64,
    /// Cycles of waiting for others, at barriers and for tokens.
    pub wait_cycles: f64,
    /// Cycles of waiting for its PU, which ran another thread.
    pub queue_cycles: f64,
    /// Cycles spent waiting for events outside the recording: after its last recorded instruction, and for events that
    /// never came. Counts until the end of the window.
    pub unrecorded_cycles: f64,
    /// How often its PU switched to it from another thread.
    pub switches: u64,
}

impl Counters {
    /// Combines each count with the same count of `other`.
    fn change(&mut self, other: &Self, whole: impl Fn(&mut u64, u64), cycles: impl Fn(&mut f64, f64)) {
        for (mine, theirs) in self.levels.iter_mut().zip(&other.levels) {
            whole(&mut mine.hits, theirs.hits);
            whole(&mut mine.misses, theirs.misses);
        }
        let lists: [(&mut [u64], &[u64]); 3] = [
            (&mut self.served.0, &other.served.0),
            (&mut self.prefetches.0, &other.prefetches.0),
            (&mut self.useful_prefetches.0, &other.useful_prefetches.0),
        ];
        for (mine, theirs) in lists {
            for (mine, theirs) in mine.iter_mut().zip(theirs) {
                whole(mine, *theirs);
            }
        }
        whole(&mut self.instructions, other.instructions);
        whole(&mut self.reads, other.reads);
        whole(&mut self.writes, other.writes);
        whole(&mut self.upgrades, other.upgrades);
        whole(&mut self.invalidations_sent, other.invalidations_sent);
        whole(&mut self.invalidations_received, other.invalidations_received);
        whole(&mut self.back_invalidations, other.back_invalidations);
        whole(&mut self.memory_writes, other.memory_writes);
        whole(&mut self.late_prefetches, other.late_prefetches);
        for (mine, theirs) in self.late_from_memory.iter_mut().zip(other.late_from_memory) {
            whole(mine, theirs);
        }
        whole(&mut self.prefetches_from_memory, other.prefetches_from_memory);
        whole(
            &mut self.prefetches_from_remote_memory,
            other.prefetches_from_remote_memory,
        );
        whole(&mut self.l1_prefetches_from_memory, other.l1_prefetches_from_memory);
        whole(&mut self.dropped_prefetches, other.dropped_prefetches);
        whole(&mut self.tlb_misses, other.tlb_misses);
        whole(&mut self.switches, other.switches);
        cycles(&mut self.core_cycles, other.core_cycles);
        cycles(&mut self.stall_cycles, other.stall_cycles);
        cycles(&mut self.busy_cycles, other.busy_cycles);
        cycles(&mut self.wait_cycles, other.wait_cycles);
        cycles(&mut self.queue_cycles, other.queue_cycles);
        cycles(&mut self.unrecorded_cycles, other.unrecorded_cycles);
    }
}

impl Counters {
    /// All counts times `factor`, rounded.
    pub(crate) fn scaled(&self, factor: f64) -> Self {
        let mut scaled = self.clone();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a count times a positive factor"
        )]
        let whole = |mine: &mut u64, count: u64| *mine = (count as f64 * factor).round() as u64;
        scaled.change(self, whole, |mine, cycles| *mine = cycles * factor);
        scaled
    }
}

impl AddAssign<&Self> for Counters {
    fn add_assign(&mut self, other: &Self) {
        self.change(other, |mine, theirs| *mine += theirs, |mine, theirs| *mine += theirs);
    }
}

impl SubAssign<&Self> for Counters {
    fn sub_assign(&mut self, other: &Self) {
        self.change(other, |mine, theirs| *mine -= theirs, |mine, theirs| *mine -= theirs);
    }
}

/// One execution of a region by one thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RegionSpan {
    /// The region.
    pub region: u64,
    /// The thread, by the order of the streams.
    pub thread: usize,
    /// When it entered, in cycles of the base clock since the start of the window.
    pub begin: f64,
    /// When it left or the window ended, in cycles of the base clock since the start of the window.
    pub end: f64,
}

/// Data that a link carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkTraffic {
    /// The node that sent.
    pub from: usize,
    /// The node that received.
    pub to: usize,
    /// Bytes.
    pub bytes: u64,
}

/// The counts since the start of the window when all threads of a team had reached a mark.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// When the last of them reached it.
    pub seconds: f64,
    /// By thread of the team.
    pub threads: Vec<Counters>,
    /// Energy of all packages of the machine, in joules.
    pub package_joules: f64,
    /// Energy of all its memory, in joules.
    pub memory_joules: f64,
    /// By node: bytes that its memory read and wrote.
    pub memory_bytes: Vec<u64>,
    /// Threads of the team that had waited for something that never came.
    pub released: u64,
    /// By region: the totals of the whole machine during its ended executions.
    pub regions: BTreeMap<u64, RegionTotals>,
}

impl Mark {
    /// A mark without any counts, for `threads` threads.
    pub(crate) fn nothing(threads: usize) -> Self {
        Self {
            seconds: 0.0,
            threads: vec![Counters::default(); threads],
            package_joules: 0.0,
            memory_joules: 0.0,
            memory_bytes: vec![],
            released: 0,
            regions: BTreeMap::new(),
        }
    }
}

/// The first and the last of a team's marks. `first` is `None` if there is none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TeamMarks {
    /// The number of marks.
    pub number: u64,
    /// The first.
    pub first: Option<Mark>,
    /// The last, which may be the first.
    pub last: Option<Mark>,
}

impl TeamMarks {
    pub(crate) fn add(&mut self, mark: Mark) {
        self.number += 1;
        self.first.get_or_insert_with(|| mark.clone());
        self.last = Some(mark);
    }
}
