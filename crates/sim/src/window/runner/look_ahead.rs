//! Which accesses to come the host is made to prefetch for. Nothing here changes a result.

use super::Runner;
use crate::model::{LINE_BYTES, Prefetcher};
use crate::window::pages::PAGE_LINES;
use crate::window::stream::Event;

/// Events of a chunk. What the accesses of a chunk need is fetched into the host's caches while the two chunks before it
/// run: long enough for the host's memory, and little enough to be still there.
const CHUNK: usize = 64;
/// Lines that a chunk must have brought into the L1 so that looking ahead is worth its time.
const WORTH: u64 = 3;

impl<const W: usize> Runner<'_, '_, W> {
    /// Has the host fetch what the accesses of the next chunks will need, in two steps. Where the last chunk brought
    /// nothing into the L1, the next ones are taken to bring nothing either.
    #[inline(never)]
    pub(super) fn look_ahead(&mut self, events: &[Event], next: usize) {
        let ahead = &mut self.thread.ahead;
        let first = ahead.chunk == 0;
        let idle = ahead.brought < ahead.brought_before + WORTH;
        ahead.brought_before = ahead.brought;
        ahead.chunk = next + CHUNK;
        for coming in ahead.coming.drain(..) {
            self.system.warm_holders(self.index, coming);
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
            let Some(line) = self.system.pages.glance(line) else {
                continue;
            };
            if let Some(coming) = self.system.warm_sets(self.index, line) {
                ahead.coming.push(coming);
                if adjacent {
                    ahead.coming.extend(self.system.warm_sets(self.index, line ^ 1));
                }
            }
        }
    }
}
