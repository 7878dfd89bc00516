//! One thread's turn on its core: the innermost loop.
//!
//! Most accesses go to the same line as the access before and need a single comparison. The others are translated and
//! looked up in the L1. Only those that miss there reach the rest of the memory system.

mod look_ahead;
mod prefetching;

use super::cache::{DIRTY, PREFETCH, PREFETCH_SHIFT, WRITABLE};
use super::core::DEPENDENCE_DISTANCE;
use super::pages::PAGE_LINES;
use super::steps::{StepRow, StepTable};
use super::stream::{Event, EventKind};
use super::system::System;
use super::thread::{CoreState, Settings, Thread};
use super::time::Ticks;
use super::trainer::Step;
use crate::model::Prefetcher;
use std::sync::Arc;

/// Why a turn stopped.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stop {
    /// The clock has reached the limit.
    Ahead,
    /// There are no more events. Everything in flight has completed.
    Ended,
    /// An event that orders threads, where everything in flight has completed, or a `Count`.
    Event(Event),
    /// All line numbers are in use.
    TooMuchMemory,
}

/// The result of `run_hits`.
#[derive(Clone, Copy, Debug, Default)]
struct Hits {
    reads: usize,
    writes: usize,
    /// The last access was to the same line as its predecessor, and stalled.
    stalled: bool,
    /// The last access was to the same line as its predecessor, and reached the limit.
    ahead: bool,
    /// The line of the last access, and its step from those before, where the L1's prefetchers follow it.
    follow: Option<(u32, Step)>,
}

/// A thread on its core.
pub(crate) struct Runner<'r, 'a, const W: usize> {
    pub(crate) system: &'r mut System<W>,
    pub(crate) core: &'r mut CoreState,
    pub(crate) thread: &'r mut Thread<'a>,
    pub(crate) settings: &'r Settings,
    /// The thread's number.
    pub(crate) number: usize,
    /// The core's number.
    pub(crate) index: usize,
    /// Whether another core's cache has transferred a line in this turn.
    pub(crate) transferred: bool,
    /// When the last store that missed in this turn will have completed.
    pub(crate) written: Ticks,
}

impl<const W: usize> Runner<'_, '_, W> {
    /// Runs until the clock reaches `limit`, or an event ends the turn.
    pub(crate) fn run(&mut self, limit: Ticks) -> Stop {
        let shared = self.core.running > 1;
        let steps = Arc::clone(&self.thread.steps);
        let events = std::mem::take(&mut self.thread.batch.events);
        let stop = self.run_batch(&events, &steps, shared, limit);
        self.thread.batch.events = events;
        if let Some(stop) = stop {
            return stop;
        }
        while self.thread.stream.next_batch(&mut self.thread.batch) {
            self.thread.next = 0;
            self.thread.ahead.chunk = 0;
            self.thread.ahead.coming.clear();
            let events = std::mem::take(&mut self.thread.batch.events);
            let stop = self.run_batch(&events, &steps, shared, limit);
            self.thread.batch.events = events;
            if let Some(stop) = stop {
                return stop;
            }
        }
        self.thread.batch.events.clear();
        self.thread.next = 0;
        self.drain();
        Stop::Ended
    }

    /// Runs the rest of a batch; `None` at its end.
    fn run_batch(&mut self, events: &[Event], steps: &StepTable, shared: bool, turn: Ticks) -> Option<Stop> {
        let mut next = self.thread.next;
        let (mut reads, mut writes, mut quick_hits) = (0, 0, 0);
        // Whether the next access is looked up even if it goes to the same line as its predecessor.
        let mut look_up = false;
        let stop = loop {
            let limit = if self.transferred {
                turn.saturating_sub(self.settings.transfer_margin)
            } else {
                turn
            };
            if next >= self.thread.ahead.chunk {
                self.raise_floor(turn);
                self.look_ahead(events, next);
            }
            if !self.thread.at_event && !look_up {
                let end = events.len().min(self.thread.ahead.chunk);
                let hits = self.run_hits(&events[next..end], steps, shared, limit);
                next += hits.reads + hits.writes;
                reads += hits.reads as u64;
                writes += hits.writes as u64;
                quick_hits += (hits.reads + hits.writes) as u64;
                look_up = hits.stalled;
                if let Some((line, step)) = hits.follow {
                    self.follow(line, step, false);
                    continue;
                }
                let whole_chunk = next == end && end < events.len();
                if whole_chunk && !hits.stalled && !hits.ahead {
                    continue;
                }
            }
            if self.thread.clock >= limit {
                break Some(Stop::Ahead);
            }
            let Some(&event) = events.get(next) else {
                break None;
            };
            // Other events than accesses use `step` for other things, and have no instructions of known code.
            let row = match event.kind {
                EventKind::Read | EventKind::Write | EventKind::Locked => steps.row(event.step),
                EventKind::RecordedBegin => {
                    self.thread.unrecorded.end(self.thread.clock);
                    next += 1;
                    continue;
                }
                EventKind::RecordedEnd => {
                    self.thread.unrecorded.begin(self.thread.clock);
                    next += 1;
                    continue;
                }
                _ => steps.row(0),
            };
            look_up = false;
            if !std::mem::take(&mut self.thread.at_event) {
                self.thread.pass_instructions(event.instructions, row, shared);
                if self.thread.clock >= limit {
                    // The instructions before the event may take long, so the others come to their events first.
                    self.thread.at_event = true;
                    break Some(Stop::Ahead);
                }
            }
            next += 1;
            let write = match event.kind {
                EventKind::Read => {
                    reads += 1;
                    false
                }
                EventKind::Write => {
                    writes += 1;
                    let thread = &mut *self.thread;
                    thread.stores += 1;
                    if thread.stores >= thread.pending_stores.next_block() {
                        let until = thread.pending_stores.advance(thread.stores, thread.clock);
                        thread.stall_until(until);
                    }
                    true
                }
                EventKind::Locked => {
                    reads += 1;
                    self.begin_locked();
                    true
                }
                EventKind::Instructions => continue,
                EventKind::Count => break Some(Stop::Event(event)),
                _ => {
                    self.drain();
                    break Some(Stop::Event(event));
                }
            };
            let mut room = true;
            for line in event.first_line()..=event.last_line() {
                room &= self.access(line, write, event, row);
            }
            if event.kind == EventKind::Locked {
                self.end_locked(row);
            }
            if !room {
                break Some(Stop::TooMuchMemory);
            }
        };
        self.thread.next = next;
        let counters = &mut self.system.counters[self.number];
        counters.reads += reads;
        counters.writes += writes;
        counters.levels[0].hits += quick_hits;
        stop
    }

    /// The others are at most a quantum behind the limit of the turn, or wait for this thread or later ones.
    fn raise_floor(&mut self, limit: Ticks) {
        let floor = self.thread.clock.min(limit.saturating_sub(self.settings.quantum));
        self.system.traffic.floor = self.system.traffic.floor.max(floor);
    }

    /// Runs accesses while they are plain hits of the L1, which affect only the thread and its core. Before any other
    /// access it executes the instructions up to it, and leaves the access to the caller.
    ///
    /// An access to the same line as the one before needs no lookup, except the first one after a stall of such an
    /// access.
    #[inline]
    fn run_hits(&mut self, events: &[Event], steps: &StepTable, shared: bool, limit: Ticks) -> Hits {
        let dcu_ip = self.settings.prefetchers[Prefetcher::DcuIp as usize];
        let l1 = self.system.l1(self.index);
        let translations = &mut self.core.translations;
        let thread = &mut *self.thread;
        let mut hits = Hits::default();
        for event in events {
            if event.kind as u8 > EventKind::Write as u8 || event.straddles() {
                break;
            }
            let write = event.kind == EventKind::Write;
            let virtual_line = event.first_line();
            if virtual_line == thread.last_line
                && (!write || (thread.last_written && thread.stores + 1 < thread.pending_stores.next_block()))
            {
                let stalls = thread.pending_loads.next_block();
                let row = steps.row(event.step);
                thread.pass_instructions(event.instructions, row, shared);
                if !write {
                    thread.values[usize::from(row.site)] = thread.line_value;
                }
                thread.stores += u64::from(write);
                hits.writes += usize::from(write);
                hits.reads += usize::from(!write);
                hits.stalled = thread.instructions >= stalls;
                hits.ahead = thread.clock >= limit;
                if hits.stalled || hits.ahead {
                    break;
                }
                continue;
            }
            if thread.clock >= limit {
                break;
            }
            let row = steps.row(event.step);
            thread.pass_instructions(event.instructions, row, shared);
            thread.at_event = true;
            if thread.clock >= limit {
                break;
            }
            let Some(number) = translations.find(virtual_line / u64::from(PAGE_LINES)) else {
                break;
            };
            let line = number * PAGE_LINES + virtual_line as u32 % PAGE_LINES;
            let Some(word) = l1.touch(line) else {
                break;
            };
            if *word & PREFETCH != 0 || (write && *word & WRITABLE == 0) {
                break;
            }
            thread.at_event = false;
            *word |= u32::from(write) * DIRTY;
            thread.last_line = virtual_line;
            thread.last_written = *word & (DIRTY | WRITABLE) == DIRTY | WRITABLE;
            let step = thread.strides.step(line, row.stride);
            if write {
                hits.writes += 1;
                thread.stores += 1;
                if thread.stores >= thread.pending_stores.next_block() {
                    let until = thread.pending_stores.advance(thread.stores, thread.clock);
                    thread.stall_until(until);
                }
                continue;
            }
            hits.reads += 1;
            let arrival = if thread.pending_loads.next_block() == u64::MAX {
                0
            } else {
                self.core.in_flight.arrival(line)
            };
            let guessed = !step.regular && event.instructions <= DEPENDENCE_DISTANCE;
            thread.hit(row, guessed, arrival, self.settings, &self.core.times);
            if dcu_ip && step.stride != 0 {
                hits.follow = Some((line, step));
                break;
            }
        }
        hits
    }

    /// Begins an atomic instruction.
    fn begin_locked(&mut self) {
        self.written = 0;
        if self.settings.serial {
            self.drain();
        } else {
            let (_, free) = self.core.locked.first_free();
            self.thread.stall_until(free);
        }
    }

    /// Ends the requests of an atomic instruction. Where others may overtake it, it holds up the reorder buffer like a
    /// load, because its value is read.
    fn end_locked(&mut self, row: &StepRow) {
        if self.settings.serial {
            self.drain();
        } else if self.written > self.thread.clock {
            let (buffer, _) = self.core.locked.first_free();
            self.core.locked.take(buffer, self.written);
            self.thread.value(row, self.written);
            let blocks = self.thread.instructions + self.settings.reorder_buffer;
            self.thread.pending_loads.add(blocks, self.written);
        }
        self.thread.clock += self.core.times.locked;
    }

    /// Waits for everything in flight.
    fn drain(&mut self) {
        let loads = self.thread.pending_loads.drain(self.thread.clock);
        let stores = self.thread.pending_stores.drain(loads);
        self.thread.stall_until(stores);
    }

    /// The part of the access `event` on one line, given by virtual line number. Returns whether there was a line
    /// number for it.
    #[inline]
    fn access(&mut self, virtual_line: u64, write: bool, event: Event, row: &StepRow) -> bool {
        let page = virtual_line / u64::from(PAGE_LINES);
        let (number, walk) = match self.core.translations.find(page) {
            Some(number) => (number, 0),
            None => match self.translate(page) {
                Some(number) => (number, self.core.times.walk),
                None => return false,
            },
        };
        let line = number * PAGE_LINES + virtual_line as u32 % PAGE_LINES;
        let step = self.thread.strides.step(line, row.stride);
        let guessed = !write && !step.regular && event.instructions <= DEPENDENCE_DISTANCE;
        self.thread.last_line = virtual_line;
        if let Some(word) = self.system.l1(self.index).touch(line)
            && *word & PREFETCH == 0
            && (!write || *word & WRITABLE != 0)
            && walk == 0
        {
            *word |= u32::from(write) * DIRTY;
            self.thread.last_written = *word & (DIRTY | WRITABLE) == DIRTY | WRITABLE;
            self.system.counters[self.number].levels[0].hits += 1;
            if event.kind == EventKind::Locked {
                // The line may still be in transfer from another core.
                let arrival = self.system.transit.arrival(line);
                self.thread.stall_until(arrival);
            }
            if !write {
                let arrival = self.core.in_flight.arrival(line);
                self.thread.hit(row, guessed, arrival, self.settings, &self.core.times);
            }
            if step.stride != 0 && !write {
                self.follow(line, step, false);
            }
        } else {
            let ready = if row.decoded && !write {
                row.address.until(&self.thread.values)
            } else if guessed {
                self.thread.last_value
            } else {
                0
            };
            let fresh = self.slow_access(line, write, row, ready, walk);
            if !write {
                self.follow(line, step, fresh);
            }
        }
        true
    }

    /// An access that is more than a hit of the L1. Returns whether it is the line's first use there.
    #[inline(never)]
    fn slow_access(&mut self, line: u32, write: bool, row: &StepRow, ready: Ticks, walk: Ticks) -> bool {
        if self.system.transit.still_has(self.index, line, self.thread.clock) {
            self.system.counters[self.number].levels[0].hits += 1;
            self.thread.clock += walk;
            self.thread.value(row, self.thread.clock);
            self.thread.last_line = u64::MAX;
            return false;
        }
        let Some(word) = self.system.l1(self.index).touch(line) else {
            self.thread.ahead.brought += 1;
            self.system.counters[self.number].levels[0].misses += 1;
            self.thread.last_written = write;
            self.miss(line, write, row, ready, walk);
            return true;
        };
        let flags = *word;
        *word &= !PREFETCH;
        if write {
            *word |= DIRTY | WRITABLE;
        }
        self.system.counters[self.number].levels[0].hits += 1;
        self.thread.last_written = write || flags & (DIRTY | WRITABLE) == DIRTY | WRITABLE;
        self.slow_hit(line, flags, write, row, ready, walk);
        flags & PREFETCH != 0
    }

    /// Translates a page that the translation buffer does not hold; `None` if no line numbers are left.
    fn translate(&mut self, page: u64) -> Option<u32> {
        self.system.counters[self.number].tlb_misses += 1;
        let node = self.system.topology.node_of_core(self.index);
        let before = self.system.pages.blocks();
        let number = self.system.pages.number(page, node);
        if self.system.pages.blocks() > before {
            if before >= self.settings.most_blocks {
                return None;
            }
            self.system.directory.add_block();
        }
        self.core.translations.insert(page, number);
        Some(number)
    }

    /// A hit of the L1 that has to wait: for a prefetch in flight, a page walk, or permission to write.
    fn slow_hit(&mut self, line: u32, flags: u32, write: bool, row: &StepRow, ready: Ticks, walk: Ticks) {
        self.thread.clock += walk;
        let mut completion = self.thread.clock;
        if flags & PREFETCH != 0 {
            completion = completion.max(self.first_use(line, ((flags & PREFETCH) >> PREFETCH_SHIFT) as usize - 1));
        }
        if write && flags & WRITABLE == 0 {
            let (buffer, free) = self.core.buffers.first_free();
            let issue = self.thread.clock.max(free);
            let completion = issue + self.system.upgrade(self.index, line, issue);
            self.core.buffers.take(buffer, completion);
            self.store_missed(issue, completion);
        } else if !write {
            if row.decoded && ready > self.thread.clock {
                completion = completion.max(ready + self.core.times.l1_latency);
            }
            self.thread.value(row, completion);
            if completion > self.thread.clock {
                let blocks = self.thread.instructions + self.settings.reorder_buffer;
                self.thread.pending_loads.add(blocks, completion);
            }
        }
    }

    /// A prefetched line is used for the first time. Returns when it arrives.
    fn first_use(&mut self, line: u32, prefetcher: usize) -> Ticks {
        let arrival = self.core.in_flight.arrival(line);
        let counters = &mut self.system.counters[self.number];
        counters.useful_prefetches.count(prefetcher);
        if arrival > self.thread.clock {
            counters.late_prefetches += 1;
        }
        arrival
    }

    fn miss(&mut self, line: u32, write: bool, row: &StepRow, ready: Ticks, walk: Ticks) {
        let (buffer, free) = self.core.buffers.first_free();
        let issue = self.thread.clock.max(free).max(ready);
        let access = self.system.miss(self.index, line, write, issue);
        if access.transferred {
            self.transferred = true;
            self.thread.competes_until = issue + self.settings.competing_time;
        }
        let mut completion = issue + walk + access.latency;
        if let Some(prefetcher) = access.prefetched {
            let arrival = self.first_use(line, prefetcher);
            if access.beyond && arrival > issue {
                let remote = usize::from(self.system.is_remote(self.index, line));
                self.system.counters[self.number].late_from_memory[remote] += 1;
            }
            completion = completion.max(arrival);
        }
        self.core.buffers.take(buffer, completion);
        if write {
            self.store_missed(issue, completion);
        } else {
            self.thread.value(row, completion);
            if row.decoded {
                self.core.in_flight.note(line, completion);
            }
            let blocks = self.thread.instructions + self.settings.reorder_buffer;
            self.thread.pending_loads.add(blocks, completion);
        }
        self.request(line, access.beyond, issue);
    }

    fn store_missed(&mut self, issue: Ticks, completion: Ticks) {
        self.written = completion;
        self.thread.stall_until(issue);
        let blocks = self.thread.stores + self.settings.store_buffer;
        self.thread.pending_stores.add(blocks, completion);
    }
}
