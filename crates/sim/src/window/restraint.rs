//! How prefetchers hold back while a core has many misses outstanding.
//!
//! Intel's optimization reference manual (section on data prefetching of Sandy Bridge, 2.3.5.4 in some editions) gives
//! the rules without numbers. The L1's prefetchers fetch nothing while many load misses are in progress. The streamer
//! brings lines to the last-level cache only while the L2 has many demand misses outstanding, and runs less far ahead.
//! The model of the machine has the numbers (`Prefetch`). The misses of a core are the line-fill buffers in use. They
//! include loads that wait for a prefetched line, and hits of the L2 for their short time.

use super::trainer::Reach;
use crate::model::{Count, Model, Prefetcher, Sourced};

/// A limit that is never reached.
const UNLIMITED: u32 = u32::MAX;

/// The rules of a machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Restraint {
    /// By prefetcher: it fetches nothing while at least this number of buffers is in use.
    below: [u32; 4],
    /// The streamer brings nothing to the L2 while at least this number of buffers is in use.
    l2_below: u32,
    distance: u32,
    /// By how much the distance is shorter while all buffers are in use.
    shorter: u32,
    buffers: u32,
    next_page: u32,
}

impl Restraint {
    pub(crate) fn new(model: &Model) -> Self {
        let prefetch = &model.prefetch;
        let limit = |count: &Option<Sourced<Count>>| count.as_ref().map_or(UNLIMITED, |count| count.value().0);
        let mut below = [UNLIMITED; 4];
        below[Prefetcher::Adjacent as usize] = limit(&prefetch.adjacent_below);
        below[Prefetcher::Dcu as usize] = limit(&prefetch.l1_below);
        below[Prefetcher::DcuIp as usize] = limit(&prefetch.l1_below);
        let distance = prefetch.streamer_distance.value().0;
        Self {
            below,
            l2_below: limit(&prefetch.streamer_l2_below),
            distance,
            shorter: distance - limit(&prefetch.streamer_busy_distance).min(distance),
            buffers: model.core.line_fill_buffers.value().0,
            next_page: prefetch.next_page.as_ref().map_or(0, |lines| lines.value().0),
        }
    }

    /// Whether the prefetcher fetches nothing, given the number of buffers in use.
    #[inline]
    pub(crate) fn holds(&self, prefetcher: Prefetcher, in_use: impl FnOnce() -> u32) -> bool {
        let below = self.below[prefetcher as usize];
        below != UNLIMITED && in_use() >= below
    }

    /// How far the streamer runs ahead.
    #[inline]
    pub(crate) fn reach(&self, in_use: impl FnOnce() -> u32) -> Reach {
        let shorter = if self.shorter == 0 {
            0
        } else {
            self.shorter * in_use() / self.buffers
        };
        Reach {
            distance: self.distance - shorter,
            next_page: self.next_page,
        }
    }

    /// Whether the streamer has two targets, the L2 and the last-level cache.
    #[inline]
    pub(crate) fn has_two_targets(&self) -> bool {
        self.l2_below != UNLIMITED
    }

    /// Whether the streamer may bring lines to the L2.
    #[inline]
    pub(crate) fn allows_l2(&self, in_use: impl FnOnce() -> u32) -> bool {
        !self.has_two_targets() || in_use() < self.l2_below
    }
}
