//! Host prefetches for the tables of the memory system. Nothing here changes a result.

use super::System;
use crate::model::Inclusion;

/// A future miss.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coming {
    line: u32,
    /// The line that will enter the LLC.
    enters: u32,
}

impl<const W: usize> System<W> {
    /// The line that a future access of `core` to `line` will put into the LLC if it misses: the line itself, or the
    /// one that it will evict from the private caches. `None` if it will not miss the L1, or evict nothing.
    #[inline]
    fn entering(&self, core: usize, line: u32) -> Option<u32> {
        let private = self.caches.of_core(core);
        if private[0].holds(line) {
            return None;
        }
        let mut gone = private[0].candidate(line);
        for (cache, &inclusion) in private[1..].iter().zip(&self.caches.inclusion[1..]) {
            let enters = if inclusion == Inclusion::Victim {
                gone
            } else {
                Some(line)
            };
            gone = enters.and_then(|enters| cache.candidate(enters));
        }
        if self.caches.shared_inclusion() == Inclusion::Victim {
            gone
        } else {
            if let Some(gone) = gone {
                self.directory.host_prefetch(gone);
            }
            Some(line)
        }
    }

    /// Prefetches the sets that a future access of `core` needs if it misses: the first of two steps. If it will miss,
    /// returns the input of the second step.
    #[inline]
    pub(crate) fn host_prefetch_sets(&self, core: usize, line: u32) -> Option<Coming> {
        let enters = self.entering(core, line)?;
        self.directory.host_prefetch(line);
        self.directory.host_prefetch(enters);
        self.caches.shared[self.topology.domain_of_core[core]].host_prefetch(enters);
        Some(Coming { line, enters })
    }

    /// The second step, some events later: prefetches the entries of the line and of the line that the LLC will evict.
    #[inline]
    pub(crate) fn host_prefetch_holders(&self, core: usize, coming: Coming) {
        let entry = self.directory.get(coming.line);
        for domain in entry.each_domain() {
            self.caches.shared[domain].host_prefetch(coming.line);
        }
        if let Some(owner) = entry.owner() {
            for cache in self.caches.of_core(owner) {
                cache.host_prefetch(coming.line);
            }
        }
        if let Some(evicted) = self.caches.shared[self.topology.domain_of_core[core]].candidate(coming.enters) {
            self.directory.host_prefetch(evicted);
        }
    }
}
