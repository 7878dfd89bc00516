//! The private caches of all cores and the last-level caches of all domains.

use crate::model::{Inclusion, LINE_BYTES, Model};
use crate::window::cache::{Cache, DIRTY, PREFETCH, WRITABLE};
use crate::window::clocks::Clock;
use crate::window::state::Sparse;
use crate::window::time::{Ticks, ticks};

#[derive(Debug)]
pub(crate) struct Caches {
    /// Level `l` of core `c` is at `c * levels + l`.
    pub(super) private: Vec<Cache>,
    /// Private levels.
    pub(super) levels: usize,
    /// By domain.
    pub(super) shared: Vec<Cache>,
    /// By level, the last one included.
    pub(super) inclusion: Vec<Inclusion>,
    /// From load to use, in the order of `private`.
    private_latency: Vec<Ticks>,
    /// Of the last level, from load to use.
    pub(super) shared_latency: Ticks,
}

impl Caches {
    /// Empty caches for as many cores and last-level-cache domains.
    pub(super) fn new(model: &Model, cores: usize, domains: usize) -> Self {
        let levels = model.caches.len() - 1;
        let cache = |level: usize| {
            let cache = &model.caches[level];
            Cache::new(cache.size.value().0 / LINE_BYTES, cache.ways.value().0)
        };
        let latencies = private_latencies(model, Clock::BASE);
        Self {
            private: (0..cores).flat_map(|_| (0..levels).map(cache)).collect(),
            levels,
            shared: (0..domains).map(|_| cache(levels)).collect(),
            inclusion: model.caches.iter().map(|cache| cache.inclusion.value()).collect(),
            private_latency: latencies.repeat(cores),
            shared_latency: ticks(model.caches[levels].latency.value().cycles(model.frequency())),
        }
    }

    /// The contents of all caches, for `put`.
    pub(crate) fn state(&self) -> Vec<Sparse> {
        self.private.iter().chain(&self.shared).map(Cache::state).collect()
    }

    /// Fills the empty caches with a kept state of the same machine and cores.
    pub(crate) fn put(&mut self, state: &[Sparse]) {
        for (cache, contents) in self.private.iter_mut().chain(&mut self.shared).zip(state) {
            cache.put(contents);
        }
    }

    /// A core runs at `clock` from now on.
    pub(crate) fn set_clock(&mut self, model: &Model, core: usize, clock: Clock) {
        let first = core * self.levels;
        self.private_latency[first..first + self.levels].copy_from_slice(&private_latencies(model, clock));
    }

    /// The latency of a core's cache of `level`, from load to use.
    #[inline]
    pub(super) fn private_latency(&self, core: usize, level: usize) -> Ticks {
        self.private_latency[core * self.levels + level]
    }

    /// The highest line number that the tags of every cache can hold.
    pub(crate) fn highest_line(&self) -> u32 {
        let caches = self.private.iter().chain(&self.shared);
        caches.map(Cache::highest_line).min().unwrap_or(0)
    }

    /// The private caches of a core, the first level first.
    #[inline]
    pub(super) fn private_caches(&self, core: usize) -> &[Cache] {
        &self.private[core * self.levels..(core + 1) * self.levels]
    }

    /// The core's cache of `level`.
    #[inline]
    pub(super) fn level(&mut self, core: usize, level: usize) -> &mut Cache {
        &mut self.private[core * self.levels + level]
    }

    /// The inclusion policy of the last-level caches.
    #[inline]
    pub(super) fn shared_inclusion(&self) -> Inclusion {
        self.inclusion[self.levels]
    }

    /// Whether no line is in both private levels: a victim cache gets the evicted lines of the level before it, and
    /// gives them back.
    #[inline]
    pub(super) fn exclude_each_other(&self, inner: usize, outer: usize) -> bool {
        outer == inner + 1 && self.inclusion[outer] == Inclusion::Victim
    }

    /// Whether a prefetch into level `to` has nothing to do.
    #[inline]
    pub(super) fn is_near(&self, core: usize, line: u32, to: usize) -> bool {
        let first = core * self.levels;
        self.private[first..=first + to.min(self.levels - 1)]
            .iter()
            .any(|cache| cache.holds(line))
    }

    /// Removes the line from a victim cache. In another cache it stays, without its prefetcher's mark. Returns its
    /// flags in the private level.
    #[inline]
    pub(super) fn take(&mut self, core: usize, level: usize, line: u32) -> Option<u32> {
        if self.inclusion[level] == Inclusion::Victim {
            return self.level(core, level).remove(line);
        }
        let word = self.level(core, level).touch(line)?;
        let flags = *word & (PREFETCH | DIRTY | WRITABLE);
        *word &= !PREFETCH;
        Some(flags)
    }

    /// The flags that a line keeps in the nearer levels, from those that `take` found in `level`.
    #[inline]
    pub(super) fn taken_along(&self, level: usize) -> u32 {
        if self.inclusion[level] == Inclusion::Victim {
            DIRTY | WRITABLE
        } else {
            WRITABLE
        }
    }
}

/// By private level: the latency for a core that runs at `clock`.
fn private_latencies(model: &Model, clock: Clock) -> Vec<Ticks> {
    let private = &model.caches[..model.caches.len() - 1];
    private
        .iter()
        .map(|cache| clock.latency(cache.latency.value(), model))
        .collect()
}
