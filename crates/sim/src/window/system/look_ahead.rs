//! What the host fetches into its own caches ahead of the accesses that need it. Nothing here changes a result.

use super::System;
use crate::model::Inclusion;

/// A miss to come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coming {
    line: u32,
    /// The line that will enter the LLC.
    enters: u32,
}

impl<const W: usize> System<W> {
    /// What a coming access of `core` to `line` will put into the LLC if it misses: the line itself, or what it will push
    /// out of the private caches. `None` where it will not miss the L1, or push nothing out.
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
        self.caches.shared[self.topology.domain_of_core[core]].warm(enters);
        Some(Coming { line, enters })
    }

    /// The second step, some events later: where the line is, and what has to go from the LLC.
    #[inline]
    pub(crate) fn warm_holders(&self, core: usize, coming: Coming) {
        let entry = self.directory.get(coming.line);
        for domain in entry.each_domain() {
            self.caches.shared[domain].warm(coming.line);
        }
        if let Some(owner) = entry.owner() {
            for cache in self.caches.of_core(owner) {
                cache.warm(coming.line);
            }
        }
        if let Some(evicted) = self.caches.shared[self.topology.domain_of_core[core]].candidate(coming.enters) {
            self.directory.warm(evicted);
        }
    }
}
