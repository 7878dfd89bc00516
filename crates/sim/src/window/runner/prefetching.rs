//! The prefetches of the simulated prefetchers.

use super::Runner;
use crate::model::Prefetcher;
use crate::window::counters::Served;
use crate::window::pages::PAGE_LINES;
use crate::window::time::Ticks;
use crate::window::trainer::Step;

impl<const W: usize> Runner<'_, '_, W> {
    /// The L1's prefetchers observe a load of `line`.
    pub(super) fn follow(&mut self, line: u32, step: Step, fresh: bool) {
        let prefetchers = self.settings.prefetchers;
        let time = self.thread.clock;
        if prefetchers[Prefetcher::DcuIp as usize] && step.stride != 0 {
            self.prefetch(line, line.wrapping_add_signed(step.stride), Prefetcher::DcuIp, time);
        }
        if fresh && step.ascending && prefetchers[Prefetcher::Dcu as usize] {
            self.prefetch(line, line + 1, Prefetcher::Dcu, time);
        }
    }

    /// The L2's prefetchers observe a line that the L1 requested.
    pub(super) fn request(&mut self, line: u32, beyond: bool, time: Ticks) {
        let prefetchers = self.settings.prefetchers;
        if beyond && prefetchers[Prefetcher::Adjacent as usize] {
            self.prefetch(line, line ^ 1, Prefetcher::Adjacent, time);
        }
        if prefetchers[Prefetcher::Streamer as usize]
            && let Some((first, number, downwards)) = self.core.streamer.request(line)
        {
            for ahead in 0..number {
                let target = if downwards { first - ahead } else { first + ahead };
                self.prefetch(line, target, Prefetcher::Streamer, time);
            }
        }
    }

    /// Fetches `target` if it is in the same page as `line`, is not in the target cache, and not too many prefetches
    /// are in flight.
    fn prefetch(&mut self, line: u32, target: u32, prefetcher: Prefetcher, time: Ticks) {
        if target / PAGE_LINES != line / PAGE_LINES {
            return;
        }
        let to = match prefetcher {
            Prefetcher::DcuIp | Prefetcher::Dcu => 0,
            Prefetcher::Adjacent | Prefetcher::Streamer => 1,
        };
        if self.system.is_near(self.index, target, to) {
            return;
        }
        if !self.core.in_flight.room(time) {
            self.system.counters[self.number].dropped_prefetches += 1;
            return;
        }
        let Some((latency, memory)) = self.system.prefetch(self.index, target, to, prefetcher as usize, time) else {
            return;
        };
        self.thread.ahead.brought += 1;
        let counters = &mut self.system.counters[self.number];
        counters.prefetches[prefetcher] += 1;
        counters.prefetches_from_memory += u64::from(memory.is_some());
        counters.prefetches_from_remote_memory += u64::from(memory == Some(Served::RemoteMemory));
        let arrival = self.core.in_flight.arrival(target).max(time + latency);
        self.core.in_flight.add(target, arrival);
        if to == 0 {
            // A prefetch of the L1 is a request like any other to the L2.
            self.request(target, memory.is_some(), time);
        }
    }
}
