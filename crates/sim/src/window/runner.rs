//! One thread's turn on its core: the innermost loop.
//!
//! Most accesses go to the line of the access before and end at one comparison. The others are translated, looked up in
//! the L1, and only when they miss there reach the rest of the memory system.

use super::cache::{DIRTY, PREFETCH, PREFETCH_SHIFT, WRITABLE};
use super::core::{DEPENDENCE_DISTANCE, FillBuffers, InFlight, Pending};
use super::pages::{PAGE_LINES, TranslationBuffer};
use super::schedule::State;
use super::stream::{Batch, Event, EventKind, Stream};
use super::system::System;
use super::time::Ticks;
use super::trainer::{Streamer, Strides};
use crate::model::{LINE_BYTES, Model, Prefetcher};

/// How many events before its turn the last of what an access needs is fetched into the host's cache.
const LOOK_AHEAD: usize = 4;

/// What is the same for all turns.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) prefetchers: [bool; 4],
    /// Of one instruction, on a core with one PU running, and with more.
    pub(crate) pace: Ticks,
    pub(crate) shared_pace: Ticks,
    pub(crate) reorder_buffer: u64,
    pub(crate) store_buffer: u64,
    /// Of an atomic instruction, beyond its access.
    pub(crate) locked: Ticks,
    pub(crate) walk: Ticks,
    pub(crate) l1_latency: Ticks,
    pub(crate) most_blocks: usize,
    /// By how much a turn ends earlier in which a line was handed on.
    pub(crate) handed_on_earlier: Ticks,
}

/// What a core has besides its caches.
pub(crate) struct CoreState {
    translations: TranslationBuffer,
    buffers: FillBuffers,
    in_flight: InFlight,
    streamer: Streamer,
    /// Its PUs that have a thread that can run.
    pub(crate) running: u32,
}

impl CoreState {
    pub(crate) fn new(model: &Model) -> Self {
        Self {
            translations: TranslationBuffer::new(model.tlb.entries.value().0, model.tlb.ways.value().0),
            buffers: FillBuffers::new(model.core.line_fill_buffers.value().0 as usize),
            in_flight: InFlight::new(model.prefetch.in_flight.value().0 as usize),
            streamer: Streamer::new(model.prefetch.streamer_distance.value().0),
            running: 0,
        }
    }
}

/// One thread between its turns.
pub(crate) struct Thread<'a> {
    stream: Box<dyn Stream + 'a>,
    batch: Batch,
    next: usize,
    pub(crate) clock: Ticks,
    pub(crate) state: State,
    pub(crate) pu: usize,
    pub(crate) instructions: u64,
    stores: u64,
    pending_loads: Pending,
    pending_stores: Pending,
    strides: Strides,
    /// The instructions before the event `next` of the batch have been executed, and the event has not been.
    came_to_event: bool,
    /// The line of the last access, by virtual address, while it is certain to be in the L1.
    pub(crate) last_line: u64,
    /// Whether it may be written there without telling anyone.
    last_written: bool,
    /// When the last load's value is there.
    last_value: Ticks,
    pub(crate) stalled: Ticks,
    pub(crate) busy: Ticks,
    pub(crate) waited: Ticks,
    pub(crate) queued: Ticks,
    pub(crate) ended: Ticks,
    /// Regions that it has entered, and when.
    pub(crate) open_regions: Vec<(u64, Ticks)>,
}

impl<'a> Thread<'a> {
    pub(crate) fn new(stream: Box<dyn Stream + 'a>, pu: usize) -> Self {
        Self {
            stream,
            batch: Batch::default(),
            next: 0,
            clock: 0,
            state: State::Ready,
            pu,
            instructions: 0,
            stores: 0,
            pending_loads: Pending::default(),
            pending_stores: Pending::default(),
            strides: Strides::default(),
            came_to_event: false,
            last_line: u64::MAX,
            last_written: false,
            last_value: 0,
            stalled: 0,
            busy: 0,
            waited: 0,
            queued: 0,
            ended: 0,
            open_regions: vec![],
        }
    }
}

/// Why a turn stopped.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stop {
    /// The clock has reached the limit.
    Ahead,
    /// There are no more events; everything that was under way has completed.
    Ended,
    /// An event that orders threads; everything that was under way has completed.
    Event(Event),
    /// There are no line numbers left.
    TooMuchMemory,
}

/// Accesses that needed no look at the caches.
#[derive(Clone, Copy, Debug, Default)]
struct Quick {
    reads: usize,
    writes: usize,
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
    /// Whether another core's cache has handed a line on in this turn.
    pub(crate) handed_on: bool,
}

impl<const W: usize> Runner<'_, '_, W> {
    /// Runs until the clock reaches `limit`, or something else ends the turn.
    pub(crate) fn run(&mut self, limit: Ticks) -> Stop {
        let pace = if self.core.running > 1 {
            self.settings.shared_pace
        } else {
            self.settings.pace
        };
        let events = std::mem::take(&mut self.thread.batch.events);
        let stop = self.run_batch(&events, pace, limit);
        self.thread.batch.events = events;
        if let Some(stop) = stop {
            return stop;
        }
        while self.thread.stream.next_batch(&mut self.thread.batch) {
            self.thread.next = 0;
            let events = std::mem::take(&mut self.thread.batch.events);
            let stop = self.run_batch(&events, pace, limit);
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

    /// Runs what is left of a batch; `None` when nothing is.
    fn run_batch(&mut self, events: &[Event], pace: Ticks, turn: Ticks) -> Option<Stop> {
        let mut next = self.thread.next;
        let (mut reads, mut writes, mut quick_hits) = (0, 0, 0);
        let mut stop = None;
        loop {
            let limit = if self.handed_on {
                turn.saturating_sub(self.settings.handed_on_earlier)
            } else {
                turn
            };
            if !self.thread.came_to_event {
                let quick = self.run_quick(&events[next..], pace, limit);
                next += quick.reads + quick.writes;
                reads += quick.reads as u64;
                writes += quick.writes as u64;
                quick_hits += (quick.reads + quick.writes) as u64;
            }
            if self.thread.clock >= limit {
                stop = Some(Stop::Ahead);
                break;
            }
            let Some(&event) = events.get(next) else {
                break;
            };
            if !std::mem::take(&mut self.thread.came_to_event) {
                self.pass_instructions(event.instructions, pace);
                if self.thread.clock >= limit {
                    // The way to it may have been long, and the others come to their events first.
                    self.thread.came_to_event = true;
                    stop = Some(Stop::Ahead);
                    break;
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
                    self.thread.stores += 1;
                    if self.thread.stores >= self.thread.pending_stores.next_block() {
                        let until = self
                            .thread
                            .pending_stores
                            .advance(self.thread.stores, self.thread.clock);
                        self.stall_until(until);
                    }
                    true
                }
                EventKind::Locked => {
                    reads += 1;
                    self.drain();
                    true
                }
                EventKind::Instructions => continue,
                _ => {
                    self.drain();
                    stop = Some(Stop::Event(event));
                    break;
                }
            };
            let line = event.payload / LINE_BYTES;
            let last = (event.payload + u64::from(event.size.max(1)) - 1) / LINE_BYTES;
            self.warm(events, next);
            for line in line..=last {
                if !self.access(line, write, event) {
                    stop = Some(Stop::TooMuchMemory);
                }
            }
            if event.kind == EventKind::Locked {
                self.drain();
                self.thread.clock += self.settings.locked;
            }
            if stop.is_some() {
                break;
            }
        }
        self.thread.next = next;
        let counters = &mut self.system.counters[self.number];
        counters.reads += reads;
        counters.writes += writes;
        counters.levels[0].hits += quick_hits;
        stop
    }

    /// Executes the instructions before an event.
    #[inline]
    fn pass_instructions(&mut self, number: u32, pace: Ticks) {
        let thread = &mut *self.thread;
        thread.instructions += u64::from(number);
        thread.clock += u64::from(number) * pace;
        if thread.instructions >= thread.pending_loads.next_block() {
            let until = thread.pending_loads.advance(thread.instructions, thread.clock);
            self.stall_until(until);
        }
    }

    /// Has the host fetch what accesses to come will need. An event to come may be no access: then its payload is no
    /// address, and this does nothing useful.
    #[inline]
    fn warm(&self, events: &[Event], next: usize) {
        let line = |distance: usize| {
            let event = events.get(next + distance)?;
            self.system.pages.glance(event.payload / LINE_BYTES)
        };
        if let Some(line) = line(2 * LOOK_AHEAD) {
            self.system.warm_sets(self.index, line);
        }
        if let Some(line) = line(LOOK_AHEAD) {
            self.system.warm_evicted(self.index, line);
        }
    }

    /// Runs accesses to the line of the access before for as long as nothing else can happen.
    #[inline]
    fn run_quick(&mut self, events: &[Event], pace: Ticks, limit: Ticks) -> Quick {
        let thread = &mut *self.thread;
        let line = thread.last_line;
        let written = thread.last_written;
        // Before these, nothing blocks.
        let instruction = thread.pending_loads.next_block();
        let store = thread.pending_stores.next_block();
        let mut quick = Quick::default();
        for event in events {
            let last = (event.payload + u64::from(event.size.max(1)) - 1) / LINE_BYTES;
            if event.payload / LINE_BYTES != line || last != line {
                break;
            }
            match event.kind {
                EventKind::Read => quick.reads += 1,
                EventKind::Write if written && thread.stores + 1 < store => {
                    thread.stores += 1;
                    quick.writes += 1;
                }
                _ => break,
            }
            thread.instructions += u64::from(event.instructions);
            thread.clock += u64::from(event.instructions) * pace;
            if thread.instructions >= instruction {
                let until = thread.pending_loads.advance(thread.instructions, thread.clock);
                self.stall_until(until);
                break;
            }
            if thread.clock >= limit {
                break;
            }
        }
        quick
    }

    /// Waits for everything that is under way.
    fn drain(&mut self) {
        let loads = self.thread.pending_loads.drain(self.thread.clock);
        let stores = self.thread.pending_stores.drain(loads);
        self.stall_until(stores);
    }

    fn stall_until(&mut self, until: Ticks) {
        if until > self.thread.clock {
            self.thread.stalled += until - self.thread.clock;
            self.thread.clock = until;
        }
    }

    /// One line's part of the access `event`, by virtual line number; whether there was room.
    fn access(&mut self, virtual_line: u64, write: bool, event: Event) -> bool {
        let page = virtual_line / u64::from(PAGE_LINES);
        let (number, walk) = match self.core.translations.find(page) {
            Some(number) => (number, 0),
            None => match self.translate(page) {
                Some(number) => (number, self.settings.walk),
                None => return false,
            },
        };
        let line = number * PAGE_LINES + virtual_line as u32 % PAGE_LINES;
        let step = self.thread.strides.step(line, event.site);
        let dependent = !write && !step.regular && event.instructions <= DEPENDENCE_DISTANCE;
        let mut fresh = false;
        self.thread.last_line = virtual_line;
        if let Some(word) = self.system.l1(self.index).touch(line) {
            let flags = *word;
            *word &= !PREFETCH;
            if write {
                *word |= DIRTY | WRITABLE;
            }
            self.system.counters[self.number].levels[0].hits += 1;
            self.thread.last_written = write || flags & (DIRTY | WRITABLE) == DIRTY | WRITABLE;
            if flags & PREFETCH != 0 || walk > 0 || (write && flags & WRITABLE == 0) {
                fresh = flags & PREFETCH != 0;
                self.slow_hit(line, flags, write, walk);
            } else if dependent {
                self.dependent_hit();
            } else if !write {
                self.thread.last_value = self.thread.clock;
            }
        } else {
            self.system.counters[self.number].levels[0].misses += 1;
            self.thread.last_written = write;
            self.miss(line, write, dependent, walk);
            fresh = true;
        }
        let prefetchers = self.settings.prefetchers;
        let time = self.thread.clock;
        if !write && prefetchers[Prefetcher::DcuIp as usize] && step.stride != 0 {
            self.prefetch(line, line.wrapping_add_signed(step.stride), Prefetcher::DcuIp, time);
        }
        if !write && fresh && step.ascending && prefetchers[Prefetcher::Dcu as usize] {
            self.prefetch(line, line + 1, Prefetcher::Dcu, time);
        }
        true
    }

    /// A page that the translation buffer does not hold; `None` where there is no room for it.
    fn translate(&mut self, page: u64) -> Option<u32> {
        self.system.counters[self.number].tlb_misses += 1;
        let node = self.system.node_of_core(self.index);
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

    /// A hit of the L1 whose address comes from the load before: it has its value so much later, and the reorder buffer
    /// cannot run ahead of it any further than it is long.
    fn dependent_hit(&mut self) {
        let thread = &mut *self.thread;
        thread.last_value = thread.last_value.max(thread.clock) + self.settings.l1_latency;
        let ahead = self.settings.reorder_buffer * self.settings.pace;
        let until = thread.last_value.saturating_sub(ahead);
        self.stall_until(until);
    }

    /// A hit of the L1 with something to wait for: a prefetch under way, a page walk, or leave to write.
    fn slow_hit(&mut self, line: u32, flags: u32, write: bool, walk: Ticks) {
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
            self.thread.last_value = completion;
            if completion > self.thread.clock {
                let blocks = self.thread.instructions + self.settings.reorder_buffer;
                self.thread.pending_loads.add(blocks, completion);
            }
        }
    }

    /// A prefetched line is used for the first time; when it is there.
    fn first_use(&mut self, line: u32, prefetcher: usize) -> Ticks {
        let arrival = self.core.in_flight.arrival(line);
        let counters = &mut self.system.counters[self.number];
        counters.useful_prefetches.count(prefetcher);
        if arrival > self.thread.clock {
            counters.late_prefetches += 1;
        }
        arrival
    }

    fn miss(&mut self, line: u32, write: bool, dependent: bool, walk: Ticks) {
        let (buffer, free) = self.core.buffers.first_free();
        let mut issue = self.thread.clock.max(free);
        if dependent {
            issue = issue.max(self.thread.last_value);
        }
        let access = self.system.miss(self.index, line, write, issue);
        self.handed_on |= access.handed_on;
        let mut completion = issue + walk + access.latency;
        if let Some(prefetcher) = access.prefetched {
            completion = completion.max(self.first_use(line, prefetcher));
        }
        self.core.buffers.take(buffer, completion);
        if write {
            self.store_missed(issue, completion);
        } else {
            self.thread.last_value = completion;
            let blocks = self.thread.instructions + self.settings.reorder_buffer;
            self.thread.pending_loads.add(blocks, completion);
        }
        self.request(line, access.beyond, issue);
    }

    fn store_missed(&mut self, issue: Ticks, completion: Ticks) {
        self.stall_until(issue);
        let blocks = self.thread.stores + self.settings.store_buffer;
        self.thread.pending_stores.add(blocks, completion);
    }

    /// What the L2's prefetchers do about a line that the L1 asked for.
    fn request(&mut self, line: u32, beyond: bool, time: Ticks) {
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

    /// Brings `target`, where it is in the page of `line`, nobody has brought it and not too much is under way.
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
        let Some((latency, from_memory)) = self.system.prefetch(self.index, target, to, prefetcher as usize, time)
        else {
            return;
        };
        let counters = &mut self.system.counters[self.number];
        counters.prefetches[prefetcher] += 1;
        counters.prefetches_from_memory += u64::from(from_memory);
        let arrival = self.core.in_flight.arrival(target).max(time + latency);
        self.core.in_flight.add(target, arrival);
        if to == 0 {
            // The prefetches of the L1 are requests like any other to the L2.
            self.request(target, from_memory, time);
        }
    }
}
