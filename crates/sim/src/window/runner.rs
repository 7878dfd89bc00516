//! One thread's turn on its core: the innermost loop.
//!
//! Most accesses go to the line of the access before and end at one comparison. The others are translated, looked up in
//! the L1, and only when they miss there reach the rest of the memory system.

use super::cache::{DIRTY, PREFETCH, PREFETCH_SHIFT, WRITABLE};
use super::core::{DEPENDENCE_DISTANCE, FillBuffers, InFlight, Pending};
use super::pages::{PAGE_LINES, TranslationBuffer};
use super::schedule::State;
use super::stream::{Batch, Event, EventKind, Stream};
use super::system::{Coming, System};
use super::time::Ticks;
use super::trainer::{Step, Streamer, Strides};
use crate::model::{LINE_BYTES, Model, Prefetcher};

/// Events of a chunk. What the accesses of a chunk need is fetched into the host's caches while the two chunks before it
/// run: long enough for the host's memory, and little enough to be still there.
const CHUNK: usize = 64;
/// Lines that a chunk must have brought into the L1 so that looking ahead is worth its time.
const WORTH: u64 = 3;

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
    /// An atomic instruction waits for everything before it, and everything after it waits for it.
    pub(crate) serial: bool,
    pub(crate) walk: Ticks,
    pub(crate) l1_latency: Ticks,
    pub(crate) most_blocks: usize,
    /// By how much a turn ends earlier when a line was handed on.
    pub(crate) handed_on_earlier: Ticks,
    /// How long after a line was handed on to it a thread is taken to fight for lines.
    pub(crate) fight: Ticks,
}

/// What a core has besides its caches.
pub(crate) struct CoreState {
    translations: TranslationBuffer,
    buffers: FillBuffers,
    /// Of the lines that atomic instructions wait for.
    locked: FillBuffers,
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
            locked: FillBuffers::new(model.core.locked_at_once()),
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
    /// Until when its turns are short, because others may want its lines.
    pub(crate) fights_until: Ticks,
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
    /// Regions that it has entered, and when.
    pub(crate) open_regions: Vec<(u64, Ticks)>,
    ahead: Ahead,
}

/// What is known of the accesses to come.
#[derive(Default)]
struct Ahead {
    /// The event at which the next chunk begins.
    chunk: usize,
    /// What is known of the misses of the next chunk.
    coming: Vec<Coming>,
    /// Misses and prefetches so far, and at the begin of the chunk.
    brought: u64,
    brought_before: u64,
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
            fights_until: 0,
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
            open_regions: vec![],
            ahead: Ahead::default(),
        }
    }

    /// Executes instructions that are no accesses.
    #[inline]
    fn pass_instructions(&mut self, number: u32, pace: Ticks) {
        self.instructions += u64::from(number);
        self.clock += u64::from(number) * pace;
        if self.instructions >= self.pending_loads.next_block() {
            let until = self.pending_loads.advance(self.instructions, self.clock);
            self.stall_until(until);
        }
    }

    #[inline]
    fn stall_until(&mut self, until: Ticks) {
        if until > self.clock {
            self.stalled += until - self.clock;
            self.clock = until;
        }
    }

    /// A hit of the L1 whose address comes from the load before: it has its value so much later, and the reorder buffer
    /// cannot run ahead of it any further than it is long.
    #[inline]
    fn dependent_hit(&mut self, settings: &Settings) {
        self.last_value = self.last_value.max(self.clock) + settings.l1_latency;
        let ahead = settings.reorder_buffer * settings.pace;
        self.stall_until(self.last_value.saturating_sub(ahead));
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

/// What `run_hits` did.
#[derive(Clone, Copy, Debug, Default)]
struct Hits {
    reads: usize,
    writes: usize,
    /// The last one was to the line of the one before, and stalled.
    stalled: bool,
    /// The last one was to the line of the one before, and reached the limit.
    ahead: bool,
    /// The L1's prefetchers are to be told of the last one: its line, and what it was to those before.
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
    /// Whether another core's cache has handed a line on in this turn.
    pub(crate) handed_on: bool,
    /// When the last store that missed in this turn will have completed.
    pub(crate) written: Ticks,
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
            self.thread.ahead.chunk = 0;
            self.thread.ahead.coming.clear();
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
        // Whether the next access is looked at, even if it goes to the line of the one before.
        let mut look = false;
        let stop = loop {
            let limit = if self.handed_on {
                turn.saturating_sub(self.settings.handed_on_earlier)
            } else {
                turn
            };
            if next >= self.thread.ahead.chunk {
                self.look_ahead(events, next);
            }
            if !self.thread.came_to_event && !look {
                let end = events.len().min(self.thread.ahead.chunk);
                let hits = self.run_hits(&events[next..end], pace, limit);
                next += hits.reads + hits.writes;
                reads += hits.reads as u64;
                writes += hits.writes as u64;
                quick_hits += (hits.reads + hits.writes) as u64;
                look = hits.stalled;
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
            look = false;
            if !std::mem::take(&mut self.thread.came_to_event) {
                self.thread.pass_instructions(event.instructions, pace);
                if self.thread.clock >= limit {
                    // The way to it may have been long, and the others come to their events first.
                    self.thread.came_to_event = true;
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
                _ => {
                    self.drain();
                    break Some(Stop::Event(event));
                }
            };
            let mut room = true;
            for line in event.first_line()..=event.last_line() {
                room &= self.access(line, write, event);
            }
            if event.kind == EventKind::Locked {
                self.end_locked();
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

    /// Runs accesses for as long as they are plain hits of the L1, which touch nothing outside the thread and its core.
    /// Of an access that is none it executes the instructions before, and leaves it to the caller.
    ///
    /// An access to the line of the one before needs no look at anything, but for the first one after a stall of such an
    /// access.
    #[inline]
    fn run_hits(&mut self, events: &[Event], pace: Ticks, limit: Ticks) -> Hits {
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
                thread.pass_instructions(event.instructions, pace);
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
            thread.pass_instructions(event.instructions, pace);
            thread.came_to_event = true;
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
            thread.came_to_event = false;
            *word |= u32::from(write) * DIRTY;
            thread.last_line = virtual_line;
            thread.last_written = *word & (DIRTY | WRITABLE) == DIRTY | WRITABLE;
            let step = thread.strides.step(line, event.site);
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
            if !step.regular && event.instructions <= DEPENDENCE_DISTANCE {
                thread.dependent_hit(self.settings);
            } else {
                thread.last_value = thread.clock;
            }
            if dcu_ip && step.stride != 0 {
                hits.follow = Some((line, step));
                break;
            }
        }
        hits
    }

    /// Has the host fetch what the accesses of the next chunks will need, in two steps. Where the last chunk brought
    /// nothing into the L1, the next ones are taken to bring nothing either.
    #[inline(never)]
    fn look_ahead(&mut self, events: &[Event], next: usize) {
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

    /// An atomic instruction can begin.
    fn begin_locked(&mut self) {
        self.written = 0;
        if self.settings.serial {
            self.drain();
        } else {
            let (_, free) = self.core.locked.first_free();
            self.thread.stall_until(free);
        }
    }

    /// An atomic instruction has asked for its lines. Where it lets others overtake it, it holds up the reorder buffer as a
    /// load does: its value is read.
    fn end_locked(&mut self) {
        if self.settings.serial {
            self.drain();
        } else if self.written > self.thread.clock {
            let (buffer, _) = self.core.locked.first_free();
            self.core.locked.take(buffer, self.written);
            self.thread.last_value = self.written;
            let blocks = self.thread.instructions + self.settings.reorder_buffer;
            self.thread.pending_loads.add(blocks, self.written);
        }
        self.thread.clock += self.settings.locked;
    }

    /// Waits for everything that is under way.
    fn drain(&mut self) {
        let loads = self.thread.pending_loads.drain(self.thread.clock);
        let stores = self.thread.pending_stores.drain(loads);
        self.thread.stall_until(stores);
    }

    /// One line's part of the access `event`, by virtual line number; whether there was room.
    #[inline]
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
                // It may still be on its way from another core.
                let arrival = self.system.arrival(line);
                self.thread.stall_until(arrival);
            }
            if dependent {
                self.thread.dependent_hit(self.settings);
            } else if !write {
                self.thread.last_value = self.thread.clock;
            }
            if step.stride != 0 && !write {
                self.follow(line, step, false);
            }
        } else {
            let fresh = self.unusual(line, write, dependent, walk);
            if !write {
                self.follow(line, step, fresh);
            }
        }
        true
    }

    /// An access that is more than a hit of the L1; whether it is the line's first use there.
    #[inline(never)]
    fn unusual(&mut self, line: u32, write: bool, dependent: bool, walk: Ticks) -> bool {
        if self.system.still_has(self.index, line, self.thread.clock) {
            self.system.counters[self.number].levels[0].hits += 1;
            self.thread.clock += walk;
            self.thread.last_value = self.thread.clock;
            self.thread.last_line = u64::MAX;
            return false;
        }
        let Some(word) = self.system.l1(self.index).touch(line) else {
            self.thread.ahead.brought += 1;
            self.system.counters[self.number].levels[0].misses += 1;
            self.thread.last_written = write;
            self.miss(line, write, dependent, walk);
            return true;
        };
        let flags = *word;
        *word &= !PREFETCH;
        if write {
            *word |= DIRTY | WRITABLE;
        }
        self.system.counters[self.number].levels[0].hits += 1;
        self.thread.last_written = write || flags & (DIRTY | WRITABLE) == DIRTY | WRITABLE;
        self.slow_hit(line, flags, write, walk);
        flags & PREFETCH != 0
    }

    /// What the L1's prefetchers do about a load of `line`.
    fn follow(&mut self, line: u32, step: Step, fresh: bool) {
        let prefetchers = self.settings.prefetchers;
        let time = self.thread.clock;
        if prefetchers[Prefetcher::DcuIp as usize] && step.stride != 0 {
            self.prefetch(line, line.wrapping_add_signed(step.stride), Prefetcher::DcuIp, time);
        }
        if fresh && step.ascending && prefetchers[Prefetcher::Dcu as usize] {
            self.prefetch(line, line + 1, Prefetcher::Dcu, time);
        }
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
        if access.handed_on {
            self.handed_on = true;
            self.thread.fights_until = issue + self.settings.fight;
        }
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
        self.written = completion;
        self.thread.stall_until(issue);
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
        self.thread.ahead.brought += 1;
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
