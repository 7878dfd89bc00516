//! The prefetches of the simulated prefetchers.

use super::Runner;
use crate::model::Prefetcher;
use crate::window::counters::Served;
use crate::window::pages::PAGE_LINES;
use crate::window::time::Ticks;
use crate::window::trainer::Step;

/// The level of the L2.
const L2: usize = 1;

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
        if prefetchers[Prefetcher::Streamer as usize] {
            self.run_ahead(line, time);
        }
    }

    /// The streamer observes a request for `line`.
    fn run_ahead(&mut self, line: u32, time: Ticks) {
        let reach = self.settings.restraint.reach(|| self.core.buffers.in_use(time));
        let Some((first, number, downwards)) = self.core.streamer.request(line, reach) else {
            return;
        };
        for ahead in 0..number {
            let target = if downwards { first - ahead } else { first + ahead };
            let found = if target / PAGE_LINES == line / PAGE_LINES {
                Some(target)
            } else {
                self.in_next_page(target, downwards)
            };
            let Some(found) = found.filter(|&found| !self.system.is_near(self.index, found, L2)) else {
                continue;
            };
            if let Some(to) = self.streamer_target(time) {
                self.bring(found, to, Prefetcher::Streamer, time);
            } else if self.settings.restraint.has_two_targets() {
                self.core.streamer.put_off(line, target, downwards);
                return;
            } else {
                self.system.counters[self.number].dropped_prefetches += 1;
            }
        }
    }

    /// The cache to which the streamer brings a line; `None` if too many prefetches are in flight.
    fn streamer_target(&self, time: Ticks) -> Option<usize> {
        let in_flight = &self.core.in_flight;
        let restraint = &self.settings.restraint;
        if in_flight.room(time) && restraint.allows_l2(|| self.core.buffers.in_use(time)) {
            return Some(L2);
        }
        (restraint.has_two_targets() && in_flight.shared_room(time)).then(|| self.system.shared_level())
    }

    /// The line of the page after the accessed one, or before it, for which `target` stands. The translation buffer
    /// gets the page. `None` if the program has not touched it.
    fn in_next_page(&mut self, target: u32, downwards: bool) -> Option<u32> {
        if self.thread.last_line == u64::MAX {
            return None;
        }
        let page = self.thread.last_line / u64::from(PAGE_LINES);
        let next = if downwards { page.checked_sub(1)? } else { page + 1 };
        let translations = &mut self.core.translations;
        let number = if let Some(number) = translations.find(next) {
            number
        } else {
            let number = self.system.pages.touched(next)?;
            translations.insert(next, number);
            number
        };
        Some(number * PAGE_LINES + target % PAGE_LINES)
    }

    /// Fetches `target` if it is in the same page as `line`, is not in the target cache, and not too many prefetches
    /// or misses are in flight.
    fn prefetch(&mut self, line: u32, target: u32, prefetcher: Prefetcher, time: Ticks) {
        if target / PAGE_LINES != line / PAGE_LINES {
            return;
        }
        let to = match prefetcher {
            Prefetcher::DcuIp | Prefetcher::Dcu => 0,
            Prefetcher::Adjacent | Prefetcher::Streamer => L2,
        };
        if self.system.is_near(self.index, target, to) {
            return;
        }
        let holds = self
            .settings
            .restraint
            .holds(prefetcher, || self.core.buffers.in_use(time));
        if holds || !self.core.in_flight.room(time) {
            self.system.counters[self.number].dropped_prefetches += 1;
            return;
        }
        self.bring(target, to, prefetcher, time);
    }

    /// Brings `target` to the cache of level `to`, where it is not.
    fn bring(&mut self, target: u32, to: usize, prefetcher: Prefetcher, time: Ticks) {
        let Some((latency, memory)) = self.system.prefetch(self.index, target, to, prefetcher as usize, time) else {
            return;
        };
        self.thread.ahead.brought += 1;
        let counters = &mut self.system.counters[self.number];
        counters.prefetches[prefetcher] += 1;
        counters.prefetches_from_memory += u64::from(memory.is_some());
        counters.prefetches_from_remote_memory += u64::from(memory == Some(Served::RemoteMemory));
        counters.l1_prefetches_from_memory += u64::from(memory.is_some() && to == 0);
        let arrival = self.core.in_flight.arrival(target).max(time + latency);
        if to > L2 {
            self.core.in_flight.add_shared(target, arrival);
            return;
        }
        self.core.in_flight.add(target, arrival);
        if to == 0 {
            // A prefetch of the L1 is a request like any other to the L2.
            self.request(target, memory.is_some(), time);
        }
    }
}
