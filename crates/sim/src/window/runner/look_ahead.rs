//! For which future accesses the host prefetches. Nothing here changes a result.

use super::Runner;
use crate::model::{LINE_BYTES, Prefetcher};
use crate::window::pages::PAGE_LINES;
use crate::window::stream::Event;

/// The number of events of a chunk. The data of a chunk's accesses is fetched into the host's caches while the two
/// chunks before it run. This is long enough for the host's memory, and the data is small enough to stay in the caches.
const CHUNK: usize = 64;
/// Prefetching pays off for a chunk that brings at least this number of lines into the L1.
const WORTH: u64 = 3;

impl<const W: usize> Runner<'_, '_, W> {
    /// Prefetches the host's data of the accesses in the next chunks, in two steps. Where the last chunk brought
    /// nothing into the L1, it assumes the same of the next ones.
    #[inline(never)]
    pub(super) fn look_ahead(&mut self, events: &[Event], next: usize) {
        let ahead = &mut self.thread.ahead;
        let first = ahead.chunk == 0;
        let idle = ahead.brought < ahead.brought_before + WORTH;
        ahead.brought_before = ahead.brought;
        ahead.chunk = next + CHUNK;
        for coming in ahead.coming.drain(..) {
            self.system.host_prefetch_holders(self.index, coming);
        }
        if idle {
            return;
        }
        let from = if first { next } else { next + CHUNK };
        let end = (next + 2 * CHUNK).min(events.len());
        let adjacent = self.settings.prefetchers[Prefetcher::Adjacent as usize];
        let mut seen = [u64::MAX; 16];
        for event in events.get(from..end).unwrap_or_default() {
            let line = event.payload / LINE_BYTES;
            let place = &mut seen[(line / u64::from(PAGE_LINES)) as usize % 16];
            if *place == line {
                continue;
            }
            let stream = line.abs_diff(*place) == 1;
            *place = line;
            if stream {
                continue;
            }
            let Some(line) = self.system.pages.find_recent(line) else {
                continue;
            };
            if let Some(coming) = self.system.host_prefetch_sets(self.index, line) {
                ahead.coming.push(coming);
                if adjacent {
                    ahead
                        .coming
                        .extend(self.system.host_prefetch_sets(self.index, line ^ 1));
                }
            }
        }
    }
}
