//! The counters of a simulated machine, as event sets name them: counts of threads, and the energy of the whole
//! machine.

use crate::model::Model;
use crate::window::{Counters, Mark, Served};
use serde::Deserialize;

/// What can be counted of a thread on a simulated machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counter {
    /// Instructions that were executed.
    Instructions,
    /// Core cycles with the thread on its PU and with work to do.
    Cycles,
    /// The same time in cycles of the base clock.
    ReferenceCycles,
    /// Load accesses.
    Loads,
    /// Store accesses.
    Stores,
    /// Demand accesses that missed the first-level cache.
    L1Misses,
    /// Demand accesses that reached the last-level cache.
    LlcReferences,
    /// Demand accesses that missed the last-level cache, those whose line a prefetch was bringing there, and prefetches of
    /// the L1 that memory served.
    LlcMisses,
    /// Other demand accesses that the last-level cache served without another core.
    LlcHits,
    /// Misses that another core under the same last-level cache served with a line that it had not modified.
    SameLlcClean,
    /// Misses that another core under the same last-level cache served with a line that it had modified.
    SameLlcModified,
    /// Misses that another last-level-cache domain served with a line that it had not modified.
    OtherLlcClean,
    /// Misses that another last-level-cache domain served with a line that it had modified.
    OtherLlcModified,
    /// Misses that another last-level-cache domain of the package served.
    SamePackageLlc,
    /// Misses that another package's caches served.
    OtherPackage,
    /// Demand accesses that the memory of the core's own node served, also through a prefetch that was on its way.
    LocalDram,
    /// Those that the memory of another node served.
    RemoteDram,
    /// Cycles of stalls because of a miss.
    StallCycles,
    /// Misses of the translation look-aside buffer.
    TlbMisses,
    /// Lines that left the thread's caches because another core wrote to them.
    Invalidations,
    /// Prefetches that memory served.
    PrefetchesFromMemory,
    /// Lines that the memory of the core's own node sent, to prefetches as well.
    ReadsOfLocalDram,
    /// Lines that the memory of another node sent, to prefetches as well.
    ReadsOfRemoteDram,
}

impl Counter {
    /// The number of counters.
    pub(crate) const NUMBER: usize = Self::ReadsOfRemoteDram as usize + 1;

    /// The counters of one thread in a window, in the order of this type, on a machine with `levels` levels of cache.
    pub(crate) fn all(counters: &Counters, levels: usize) -> [f64; Self::NUMBER] {
        let last = &counters.levels[levels - 1];
        let [local_late, remote_late] = counters.late_from_memory;
        let remote_prefetches = counters.prefetches_from_remote_memory;
        let served = |served: &[Served]| served.iter().map(|&served| counters.served[served]).sum::<u64>() as f64;
        [
            counters.instructions as f64,
            counters.core_cycles,
            counters.busy_cycles,
            counters.reads as f64,
            counters.writes as f64,
            counters.levels[0].misses as f64,
            (last.hits + last.misses) as f64,
            (last.misses + local_late + remote_late + counters.l1_prefetches_from_memory) as f64,
            (last.hits + last.misses).saturating_sub(counters.served.sum() + local_late + remote_late) as f64,
            served(&[Served::SameDomainClean]),
            served(&[Served::SameDomainModified]),
            served(&[Served::SamePackageClean, Served::OtherPackageClean]),
            served(&[Served::SamePackageModified, Served::OtherPackageModified]),
            served(&[Served::SamePackageClean, Served::SamePackageModified]),
            served(&[Served::OtherPackageClean, Served::OtherPackageModified]),
            served(&[Served::LocalMemory]) + local_late as f64,
            served(&[Served::RemoteMemory]) + remote_late as f64,
            counters.stall_cycles,
            counters.tlb_misses as f64,
            counters.invalidations_received as f64,
            counters.prefetches_from_memory as f64,
            served(&[Served::LocalMemory]) + (counters.prefetches_from_memory - remote_prefetches) as f64,
            served(&[Served::RemoteMemory]) + remote_prefetches as f64,
        ]
    }
}

/// The parts of the machine whose energy is counted, as in RAPL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Energy {
    /// All packages.
    Package,
    /// All memory.
    Memory,
}

impl Energy {
    /// The number of parts.
    pub(crate) const NUMBER: usize = Self::Memory as usize + 1;

    /// The energy that the machine had used at a mark, in joules, in the order of this type.
    pub(crate) fn until(mark: &Mark) -> [f64; Self::NUMBER] {
        [mark.package_joules, mark.memory_joules]
    }

    /// The power of an idle machine, in watts, in the order of this type.
    pub(crate) fn idle(model: &Model) -> [f64; Self::NUMBER] {
        [
            model.energy.package_idle.value().0 * model.packages() as f64,
            model.energy.memory_idle.value().0 * model.nodes() as f64,
        ]
    }
}
