//! The state of a thread and of its core between two turns.

use super::clocks::Clock;
use super::core::{FillBuffers, InFlight, Pending};
use super::pages::TranslationBuffer;
use super::restraint::Restraint;
use super::schedule::ThreadState;
use super::steps::{StepRow, StepTable, WHOLE};
use super::stream::{Batch, Stream};
use super::system::Coming;
use super::time::Ticks;
use super::trainer::{Streamer, Strides};
use super::unrecorded::Unrecorded;
use crate::model::Model;
use std::sync::Arc;

/// Settings that are the same for all turns.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) prefetchers: [bool; 4],
    pub(crate) restraint: Restraint,
    pub(crate) reorder_buffer: u64,
    pub(crate) store_buffer: u64,
    /// Whether an atomic instruction waits for everything before it, and everything after it waits for it.
    pub(crate) serial: bool,
    pub(crate) most_blocks: usize,
    /// How far a thread may run ahead of the others.
    pub(crate) quantum: Ticks,
    /// How much earlier a turn ends when a line was transferred to it.
    pub(crate) transfer_margin: Ticks,
    /// For how long a thread counts as competing after a line was transferred to it.
    pub(crate) competing_time: Ticks,
}

/// Cycles that an atomic instruction adds where the model does not say it. Agner Fog's instruction tables give 18 to 20
/// for Intel's cores from Skylake on, and less for AMD's.
const LOCKED_CYCLES: f64 = 20.0;

/// How long the work of a core takes.
#[derive(Clone, Copy)]
pub(crate) struct CoreTimes {
    /// The clock that it depends on.
    pub(crate) clock: Clock,
    /// An instruction of unknown code.
    pub(crate) pace: Ticks,
    /// What an atomic instruction adds to its access.
    pub(crate) locked: Ticks,
    /// A page walk.
    pub(crate) walk: Ticks,
    /// A hit of the L1.
    pub(crate) l1_latency: Ticks,
}

impl CoreTimes {
    pub(crate) fn new(model: &Model, clock: Clock) -> Self {
        let locked = model.core.locked.as_ref();
        Self {
            clock,
            pace: clock.time(model.core.base_cpi.value().0),
            locked: clock.time(locked.map_or(LOCKED_CYCLES, |locked| locked.value().0)),
            walk: clock.latency(model.tlb.walk.value(), model),
            l1_latency: clock.latency(model.caches[0].latency.value(), model),
        }
    }
}

/// The state of a core besides its caches.
pub(crate) struct CoreState {
    pub(crate) times: CoreTimes,
    pub(crate) translations: TranslationBuffer,
    pub(crate) buffers: FillBuffers,
    /// Buffers of the lines that atomic instructions wait for.
    pub(crate) locked: FillBuffers,
    pub(crate) in_flight: InFlight,
    pub(crate) streamer: Streamer,
    /// The number of its PUs that have a thread that can run.
    pub(crate) running: u32,
}

impl CoreState {
    pub(crate) fn new(model: &Model) -> Self {
        Self {
            times: CoreTimes::new(model, Clock::BASE),
            translations: TranslationBuffer::new(model.tlb.entries.value().0, model.tlb.ways.value().0),
            buffers: FillBuffers::new(model.core.line_fill_buffers.value().0 as usize),
            locked: FillBuffers::new(model.core.locked_at_once()),
            in_flight: InFlight::new(
                model.prefetch.in_flight.value().0 as usize,
                model
                    .prefetch
                    .llc_in_flight
                    .as_ref()
                    .map_or(0, |number| number.value().0 as usize),
            ),
            streamer: Streamer::default(),
            running: 0,
        }
    }
}

/// Times of a thread in cycles of its cores' clocks.
#[derive(Clone, Copy, Default)]
pub(crate) struct CoreCycles {
    /// While it ran.
    pub(crate) busy: f64,
    /// Of these, stalls because of a miss.
    pub(crate) stalled: f64,
}

/// One thread between its turns.
pub(crate) struct Thread<'a> {
    pub(crate) stream: Box<dyn Stream + 'a>,
    pub(crate) batch: Batch,
    pub(crate) next: usize,
    pub(crate) clock: Ticks,
    pub(crate) state: ThreadState,
    pub(crate) pu: usize,
    /// Until when its turns are short, because others may compete for its lines.
    pub(crate) competes_until: Ticks,
    pub(crate) instructions: u64,
    pub(crate) stores: u64,
    pub(crate) pending_loads: Pending,
    pub(crate) pending_stores: Pending,
    pub(crate) strides: Strides,
    /// Whether the instructions before the event `next` of the batch have been executed, but not the event.
    pub(crate) at_event: bool,
    /// The line of the last access, by virtual address, while it is certain to be in the L1.
    pub(crate) last_line: u64,
    /// Whether the thread may write that line without a request to another cache.
    pub(crate) last_written: bool,
    /// When the last load's value is available.
    pub(crate) last_value: Ticks,
    /// What the steps of its program cost.
    pub(crate) steps: Arc<StepTable>,
    /// By site: when the last value that it loaded is available.
    pub(crate) values: Box<[Ticks]>,
    /// When the value of the last access to `last_line` is available.
    pub(crate) line_value: Ticks,
    /// The part of a branch that was predicted wrongly, of `WHOLE`.
    pub(crate) wrong: u32,
    pub(crate) stalled: Ticks,
    pub(crate) busy: Ticks,
    pub(crate) core_cycles: CoreCycles,
    pub(crate) waited: Ticks,
    pub(crate) queued: Ticks,
    pub(crate) unrecorded: Unrecorded,
    /// Regions that it has entered, with the times.
    pub(crate) open_regions: Vec<(u64, Ticks)>,
    pub(crate) ahead: Ahead,
}

/// The state of the host's prefetching for future accesses.
#[derive(Default)]
pub(crate) struct Ahead {
    /// The position of the event that begins the next chunk.
    pub(crate) chunk: usize,
    /// Expected misses of the next chunk.
    pub(crate) coming: Vec<Coming>,
    /// Misses and prefetches so far, and at the start of the chunk.
    pub(crate) brought: u64,
    pub(crate) brought_before: u64,
}

impl<'a> Thread<'a> {
    pub(crate) fn new(stream: Box<dyn Stream + 'a>, pu: usize, steps: Arc<StepTable>) -> Self {
        Self {
            values: vec![0; steps.sites()].into(),
            steps,
            line_value: 0,
            wrong: 0,
            stream,
            batch: Batch::default(),
            next: 0,
            clock: 0,
            state: ThreadState::Ready,
            pu,
            competes_until: 0,
            instructions: 0,
            stores: 0,
            pending_loads: Pending::default(),
            pending_stores: Pending::default(),
            strides: Strides::default(),
            at_event: false,
            last_line: u64::MAX,
            last_written: false,
            last_value: 0,
            stalled: 0,
            busy: 0,
            core_cycles: CoreCycles::default(),
            waited: 0,
            queued: 0,
            unrecorded: Unrecorded::default(),
            open_regions: vec![],
            ahead: Ahead::default(),
        }
    }

    /// The thread has kept its PU busy for a time, and stalled for a part of it.
    pub(crate) fn ran(&mut self, busy: Ticks, stalled: Ticks, clock: Clock) {
        self.busy += busy;
        self.core_cycles.busy += clock.cycles(busy);
        self.core_cycles.stalled += clock.cycles(stalled);
    }

    /// Executes the instructions of a step before its access, on a core with one running PU or with more.
    #[inline]
    pub(crate) fn pass_instructions(&mut self, number: u32, row: &StepRow, shared: bool) {
        self.instructions += u64::from(number);
        self.clock += u64::from(number) * u64::from(row.pace[usize::from(shared)]);
        if row.mispredicted > 0 {
            self.branch(row);
        }
        if self.instructions >= self.pending_loads.next_block() {
            let until = self.pending_loads.advance(self.instructions, self.clock);
            self.stall_until(until);
        }
    }

    /// A mispredicted branch waits for loads.
    #[inline(never)]
    fn branch(&mut self, row: &StepRow) {
        self.wrong += row.mispredicted;
        if self.wrong >= WHOLE {
            self.wrong -= WHOLE;
            let until = row.condition.until(&self.values);
            self.stall_until(until);
        }
    }

    /// A hit of the L1 that loads a value, whose line has arrived at `arrival`.
    #[inline]
    pub(crate) fn hit(&mut self, row: &StepRow, guessed: bool, arrival: Ticks, settings: &Settings, times: &CoreTimes) {
        if !row.decoded {
            if guessed {
                self.dependent_hit(settings, times);
            } else {
                self.last_value = self.clock;
            }
            self.line_value = self.last_value;
            self.values[usize::from(row.site)] = self.last_value;
            return;
        }
        let ready = row.address.until(&self.values);
        let mut value = arrival.max(self.clock);
        if ready > self.clock {
            value = value.max(ready + times.l1_latency);
        }
        if value > self.clock {
            let blocks = self.instructions + settings.reorder_buffer;
            self.pending_loads.add(blocks, value);
        }
        self.value(row, value);
    }

    /// A value that a load brings is available at this time.
    #[inline]
    pub(crate) fn value(&mut self, row: &StepRow, value: Ticks) {
        self.last_value = value;
        self.line_value = value;
        self.values[usize::from(row.site)] = value;
    }

    #[inline]
    pub(crate) fn stall_until(&mut self, until: Ticks) {
        if until > self.clock {
            self.stalled += until - self.clock;
            self.clock = until;
        }
    }

    /// A hit of the L1 whose address comes from the load before. Its value is available one latency after that load's.
    /// The core runs ahead of it by at most the instructions that the reorder buffer holds.
    #[inline]
    pub(crate) fn dependent_hit(&mut self, settings: &Settings, times: &CoreTimes) {
        self.last_value = self.last_value.max(self.clock) + times.l1_latency;
        let ahead = settings.reorder_buffer * times.pace;
        self.stall_until(self.last_value.saturating_sub(ahead));
    }
}
