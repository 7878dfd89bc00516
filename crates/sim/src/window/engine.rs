//! The loop that runs the threads of a window against the memory system.
//!
//! 1. The PU with the lowest clock runs its thread, in its time slice, until it is a quantum ahead of the next PU. Once a
//!    line was handed on to it, in this turn or shortly before, it runs no further ahead than the shortest transfer between
//!    caches takes.
//! 2. Each access advances the thread's clock by what its core cannot hide (`core`), after the caches and the directory
//!    have been changed (`system`).
//! 3. Prefetchers watch the accesses (`trainer`) and bring lines, which take their share of every bandwidth.
//!
//! The quantum keeps the host's caches warm. Where threads compete for a line, a whole quantum would let each keep the line
//! for longer than the other's request takes to arrive; so turns are shorter there. Within a quantum, a thread may see the
//! changes of another thread in the wrong order. The times stay right, because a bandwidth is shared by arrival times, not
//! by the order in which lines are simulated.

mod accounting;

use super::configuration::{WindowConfiguration, working};
use super::counters::{RegionSpan, TeamMarks, WindowResult};
use super::directory::BLOCK_SHIFT;
use super::mapping::Mapping;
use super::options::{Options, WindowError};
use super::pages::Pages;
use super::placement::Placement;
use super::profile::PageProfile;
use super::runner::{Runner, Stop};
use super::schedule::{Pu, Queue, State, Waiting};
use super::stream::{Event, EventKind, Stream};
use super::system::System;
use super::thread::{CoreState, Settings, Thread};
use super::time::{Ticks, ticks};
use super::totals::{RegionTotals, Snapshot};
use crate::model::{LINE_BYTES, Latency, Model, Sourced, SystemCosts};
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;
use std::ops::Range;
use std::time::Duration;

/// For this many quanta after a line was handed on to it, a thread is taken to compete for lines, and its turns are short.
const FIGHT: f64 = 10.0;

/// Simulates `streams`, one a thread, under `configuration` on `model`. `profile` is needed for the page mappings
/// `Locality` and `Balance` and ignored for the others.
pub fn simulate(
    model: &Model,
    configuration: &WindowConfiguration,
    profile: Option<&PageProfile>,
    streams: Vec<Box<dyn Stream + '_>>,
    options: &Options,
) -> Result<WindowResult, WindowError> {
    simulate_with_pages(
        model,
        configuration,
        profile,
        &HashMap::<u64, u8>::new(),
        streams,
        options,
    )
}

/// As `simulate`, for a program that has run before: `placed` has, by virtual page, the node on which the page already
/// is. These stay there; the page mapping is for the others.
pub fn simulate_with_pages<S: BuildHasher>(
    model: &Model,
    configuration: &WindowConfiguration,
    profile: Option<&PageProfile>,
    placed: &HashMap<u64, u8, S>,
    streams: Vec<Box<dyn Stream + '_>>,
    options: &Options,
) -> Result<WindowResult, WindowError> {
    let teams = vec![streams];
    with_engine(model, configuration, profile, placed, teams, options, Ending::Threads).map(|(_, whole)| whole)
}

/// As `simulate_with_pages`, for programs that run side by side and repeat what they do: threads of one of `teams` are those
/// of one program, in the order of the configuration's ranks, and meet at `Mark`s. The window ends when each team has come to
/// `marks` of them, or its threads have ended. Until then all go on, so that each team has the others beside it.
pub fn simulate_teams<S: BuildHasher>(
    model: &Model,
    configuration: &WindowConfiguration,
    placed: &HashMap<u64, u8, S>,
    teams: Vec<Vec<Box<dyn Stream + '_>>>,
    marks: u64,
    options: &Options,
) -> Result<Vec<TeamMarks>, WindowError> {
    with_engine(model, configuration, None, placed, teams, options, Ending::Marks(marks)).map(|(marks, _)| marks)
}

/// Makes an engine that is as wide as the window needs, and runs it.
fn with_engine<S: BuildHasher>(
    model: &Model,
    configuration: &WindowConfiguration,
    profile: Option<&PageProfile>,
    placed: &HashMap<u64, u8, S>,
    teams: Vec<Vec<Box<dyn Stream + '_>>>,
    options: &Options,
    ending: Ending,
) -> Result<(Vec<TeamMarks>, WindowResult), WindowError> {
    let threads = teams.iter().map(Vec::len).sum();
    let placement = Placement::new(model, configuration, profile, threads)?;
    macro_rules! run {
        ($words:literal) => {{
            let mut engine = Engine::<$words>::new(model, configuration, profile, teams, options, placement);
            engine.system.pages.are_placed(placed);
            engine.ending = ending;
            engine.run()
        }};
    }
    match placement.cores.len() {
        0..=64 => run!(1),
        65..=256 => run!(4),
        _ => run!(16),
    }
}

/// When a window ends.
#[derive(Clone, Copy)]
enum Ending {
    /// When all threads have.
    Threads,
    /// When each team has reached this number of marks.
    Marks(u64),
}

/// Threads of one program, which meet at marks and order one another.
struct Team {
    threads: Range<usize>,
    waiting: Waiting,
    /// Threads that have reached the next mark.
    at_mark: Vec<usize>,
    marks: TeamMarks,
    /// Threads that waited for something that never came.
    released: u64,
}

/// What an atomic instruction adds where the model does not tell. Agner Fog's instruction tables give 18 to 20 for Intel's cores
/// from Skylake on, and less for AMD's.
const LOCKED_CYCLES: f64 = 20.0;

struct Engine<'a, const W: usize> {
    model: &'a Model,
    system: System<W>,
    cores: Vec<CoreState>,
    pus: Vec<Pu>,
    threads: Vec<Thread<'a>>,
    queue: Queue,
    teams: Vec<Team>,
    /// By thread.
    team_of: Vec<usize>,
    regions: Vec<RegionSpan>,
    region_totals: BTreeMap<u64, RegionTotals>,
    /// By thread: what had been counted when it entered each of its open regions.
    snapshots: Vec<Vec<Snapshot>>,
    settings: Settings,
    quantum: Ticks,
    slice: Ticks,
    switch: Ticks,
    call: Ticks,
    poll: Ticks,
    released: u64,
    ending: Ending,
}

impl<'a, const W: usize> Engine<'a, W> {
    fn new(
        model: &'a Model,
        configuration: &WindowConfiguration,
        profile: Option<&PageProfile>,
        streams: Vec<Vec<Box<dyn Stream + 'a>>>,
        options: &Options,
        placement: Placement,
    ) -> Self {
        let frequency = model.frequency();
        let mut teams: Vec<Team> = vec![];
        for streams in &streams {
            let first = teams.last().map_or(0, |team| team.threads.end);
            teams.push(Team {
                threads: first..first + streams.len(),
                waiting: Waiting::default(),
                at_mark: vec![],
                marks: TeamMarks::default(),
                released: 0,
            });
        }
        let members = teams.iter().enumerate();
        let team_of = members
            .flat_map(|(number, team)| std::iter::repeat_n(number, team.threads.len()))
            .collect();
        let streams: Vec<Box<dyn Stream + 'a>> = streams.into_iter().flatten().collect();
        let system = System::<W>::new(
            model,
            &placement.cores,
            streams.len(),
            Pages::new(Mapping::new(model, configuration.pages, profile, &placement.nodes)),
            options.seed,
        );
        let snapshots = streams.iter().map(|_| vec![]).collect();
        let mut pu_of_thread = vec![0; streams.len()];
        for (pu, (_, threads)) in placement.pus.iter().enumerate() {
            for &thread in threads {
                pu_of_thread[thread] = pu;
            }
        }
        let pace = model.core.base_cpi.value().0;
        let together = model
            .core
            .smt_throughput
            .as_ref()
            .map_or(1.0, |throughput| model.threads_per_core() as f64 / throughput.value().0);
        let time = |duration: Duration| ticks(duration.as_secs_f64() * frequency.0);
        let settings = Settings {
            prefetchers: working(configuration.prefetchers, model),
            pace: ticks(pace),
            shared_pace: ticks(pace * together),
            reorder_buffer: u64::from(model.core.reorder_buffer.value().0),
            store_buffer: u64::from(model.core.store_buffer.value().0),
            locked: ticks(
                model
                    .core
                    .locked
                    .as_ref()
                    .map_or(LOCKED_CYCLES, |locked| locked.value().0),
            ),
            serial: model.core.locked_at_once() == 1,
            walk: ticks(model.tlb.walk.value().cycles(frequency)),
            l1_latency: system.caches.latency[0],
            fight: ticks(options.quantum_cycles * FIGHT),
            handed_on_earlier: ticks(options.quantum_cycles).saturating_sub(system.topology.shortest_transfer()),
            most_blocks: (system.caches.highest_line() as usize + 1) >> BLOCK_SHIFT,
        };
        let system_cost = |pick: fn(&SystemCosts) -> &Sourced<Latency>, otherwise: Duration| {
            let costs = model.system.as_ref();
            costs.map_or_else(|| time(otherwise), |costs| ticks(pick(costs).value().cycles(frequency)))
        };
        Self {
            model,
            cores: placement.cores.iter().map(|_| CoreState::new(model)).collect(),
            queue: Queue::new(placement.pus.len()),
            pus: placement
                .pus
                .into_iter()
                .map(|(core, threads)| Pu::new(core, threads))
                .collect(),
            system,
            threads: streams
                .into_iter()
                .zip(pu_of_thread)
                .map(|(stream, pu)| Thread::new(stream, pu))
                .collect(),
            teams,
            team_of,
            regions: vec![],
            region_totals: BTreeMap::new(),
            snapshots,
            settings,
            quantum: ticks(options.quantum_cycles),
            slice: time(options.time_slice),
            switch: system_cost(|costs| &costs.switch, options.switch),
            call: system_cost(|costs| &costs.call, options.call),
            poll: system_cost(|costs| &costs.poll, options.poll),
            released: 0,
            ending: Ending::Threads,
        }
    }

    fn run(mut self) -> Result<(Vec<TeamMarks>, WindowResult), WindowError> {
        for pu in 0..self.pus.len() {
            self.set_active(pu, true);
            self.queue.add(pu, 0);
        }
        while !self.has_ended() {
            let Some((_, pu)) = self.queue.pop() else {
                break;
            };
            if let Some(thread) = self.turn(pu)? {
                self.release_stuck(self.team_of[thread]);
            }
        }
        let whole = self.result();
        Ok((self.teams.into_iter().map(|team| team.marks).collect(), whole))
    }

    /// Whether the window has reached the requested end. Without one it ends with its last thread.
    fn has_ended(&self) -> bool {
        let Ending::Marks(marks) = self.ending else {
            return false;
        };
        let ended = |thread: usize| self.threads[thread].state == State::Ended;
        self.teams
            .iter()
            .all(|team| team.marks.number >= marks || team.threads.clone().all(ended))
    }

    /// Where no thread of a team can run, its waiting threads wait for what the recording does not contain, and go on. Threads
    /// at a mark wait for them.
    fn release_stuck(&mut self, team: usize) {
        let runs = |thread: usize| self.threads[thread].state == State::Ready;
        let team = &mut self.teams[team];
        if team.threads.clone().any(runs) {
            return;
        }
        let mut stuck = team.waiting.release_all();
        if stuck.is_empty() {
            stuck = std::mem::take(&mut team.at_mark);
        }
        self.released += stuck.len() as u64;
        team.released += stuck.len() as u64;
        for thread in stuck {
            self.release(thread, self.threads[thread].clock);
        }
    }

    /// Notes whether a PU has a thread that can run: its siblings go slower while it does.
    fn set_active(&mut self, pu: usize, active: bool) {
        let state = &mut self.pus[pu];
        let running = &mut self.cores[state.core].running;
        *running = *running + u32::from(active) - u32::from(state.active);
        state.active = active;
    }

    /// How far a thread may run for the sake of the PU that is next.
    fn reach(&mut self, thread: usize) -> Ticks {
        let thread = &self.threads[thread];
        let ahead = if thread.clock < thread.fights_until {
            (self.quantum - self.settings.handed_on_earlier).max(1)
        } else {
            self.quantum
        };
        self.queue.next_time().map_or(Ticks::MAX, |next| next + ahead)
    }

    /// Gives a PU to one of its threads until the thread's turn is over; which one.
    fn turn(&mut self, pu: usize) -> Result<Option<usize>, WindowError> {
        let Some(thread) = self.choose(pu) else {
            self.set_active(pu, false);
            return Ok(None);
        };
        let mut limit = self.reach(thread);
        if self.pus[pu].threads.len() > 1 {
            limit = limit.min(self.pus[pu].slice_end);
        }
        let core = self.pus[pu].core;
        self.system.thread_on_core[core] = thread;
        self.threads[thread].last_line = u64::MAX;
        loop {
            let state = &mut self.threads[thread];
            let begin = state.clock;
            let stop = Runner {
                system: &mut self.system,
                core: &mut self.cores[core],
                thread: state,
                settings: &self.settings,
                number: thread,
                index: core,
                handed_on: false,
                written: 0,
            }
            .run(limit);
            let state = &mut self.threads[thread];
            state.busy += state.clock - begin;
            match stop {
                Stop::Ahead => break,
                Stop::TooMuchMemory => {
                    let bytes = (self.settings.most_blocks as u64 * LINE_BYTES) << BLOCK_SHIFT;
                    return Err(WindowError::TooMuchMemory(bytes >> 20));
                }
                Stop::Ended => {
                    state.state = State::Ended;
                    let end = state.clock;
                    let open = std::mem::take(&mut state.open_regions);
                    let snapshots = std::mem::take(&mut self.snapshots[thread]);
                    for ((region, begin), snapshot) in open.into_iter().zip(snapshots) {
                        self.leave_region(region, thread, begin..end, &snapshot);
                    }
                    self.pus[pu].threads.retain(|&other| other != thread);
                    break;
                }
                Stop::Event(event) => {
                    if !self.order(thread, event) {
                        break;
                    }
                    // Other threads may have been released, which must not be left behind.
                    limit = limit.min(self.reach(thread));
                }
            }
        }
        self.pus[pu].clock = self.threads[thread].clock.max(self.pus[pu].clock);
        let ready = self.pus[pu]
            .threads
            .iter()
            .filter(|&&thread| self.threads[thread].state == State::Ready)
            .map(|&thread| self.threads[thread].clock)
            .min();
        match ready {
            Some(time) => self.queue.add(pu, time.max(self.pus[pu].clock)),
            None => self.set_active(pu, false),
        }
        Ok(Some(thread))
    }

    /// Does what orders a thread against others; whether the thread goes on.
    fn order(&mut self, thread: usize, event: Event) -> bool {
        let now = self.threads[thread].clock;
        match event.kind {
            EventKind::Read | EventKind::Write | EventKind::Locked | EventKind::Instructions => true,
            EventKind::SystemCall => {
                self.occupy(thread, self.call);
                true
            }
            EventKind::RegionBegin => {
                self.threads[thread].open_regions.push((event.payload, now));
                let snapshot = self.snapshot();
                self.snapshots[thread].push(snapshot);
                true
            }
            EventKind::RegionEnd => {
                let open = &mut self.threads[thread].open_regions;
                if let Some(place) = open.iter().rposition(|&(region, _)| region == event.payload) {
                    let (region, begin) = open.remove(place);
                    let snapshot = self.snapshots[thread].remove(place);
                    self.leave_region(region, thread, begin..now, &snapshot);
                }
                true
            }
            EventKind::Barrier => {
                let waiting = &mut self.teams[self.team_of[thread]].waiting;
                let Some(members) = waiting.arrive(event.payload, event.size as usize, thread) else {
                    self.threads[thread].state = State::Blocked;
                    self.poll(thread);
                    return false;
                };
                let last = members.iter().map(|&member| self.threads[member].clock).max();
                let last = last.unwrap_or(now);
                for member in members {
                    self.release(member, last);
                }
                true
            }
            EventKind::Mark => self.come_to_mark(thread),
            EventKind::Signal => {
                let waiting = &mut self.teams[self.team_of[thread]].waiting;
                for waiter in waiting.signal(event.payload, now) {
                    self.release(waiter, now);
                }
                true
            }
            EventKind::Wait => {
                let state = &mut self.threads[thread];
                let waiting = &mut self.teams[self.team_of[thread]].waiting;
                let Some(since) = waiting.wait(event.payload, thread) else {
                    state.state = State::Blocked;
                    if event.size > 0 {
                        self.poll(thread);
                    }
                    return false;
                };
                let from = since.max(now);
                state.waited += from - now;
                state.clock = from;
                true
            }
        }
    }

    /// A thread has reached a mark; whether it goes on, because it is the last of its team and the window goes on, too.
    fn come_to_mark(&mut self, thread: usize) -> bool {
        let team = &mut self.teams[self.team_of[thread]];
        team.at_mark.push(thread);
        if team.at_mark.len() < team.threads.len() {
            self.threads[thread].state = State::Blocked;
            return false;
        }
        let members = std::mem::take(&mut team.at_mark);
        // No thread waits, and no thread will use what was signalled.
        team.waiting = Waiting::default();
        let clocks = self.threads[team.threads.clone()].iter().map(|thread| thread.clock);
        let last = clocks.max().unwrap_or(0);
        let mark = self.mark(self.team_of[thread], last);
        self.teams[self.team_of[thread]].marks.add(mark);
        for member in members {
            self.release(member, last);
        }
        !self.has_ended()
    }

    /// A thread keeps its PU busy with something that is not in its stream.
    fn occupy(&mut self, thread: usize, time: Ticks) {
        let state = &mut self.threads[thread];
        state.clock += time;
        state.busy += time;
    }

    /// A thread that has begun to wait polls and then goes to sleep. Where no other thread wants its PU, polling costs nothing.
    fn poll(&mut self, thread: usize) {
        if self.pus[self.threads[thread].pu].threads.len() > 1 {
            self.occupy(thread, self.poll + self.call);
        }
    }

    /// The thread that runs next on a PU, which has it from then on.
    fn choose(&mut self, pu: usize) -> Option<usize> {
        let Pu {
            threads,
            clock,
            slice_end,
            running,
            ..
        } = &mut self.pus[pu];
        let now = *clock;
        let first = *threads.front()?;
        let ready = |thread: usize| self.threads[thread].state == State::Ready;
        let first_runs = *running == Some(first);
        let in_slice = threads.len() == 1 || self.threads[first].clock < *slice_end;
        if first_runs && ready(first) && in_slice {
            return Some(first);
        }
        // In turn: who can run now, the longest waiting first, and else who can run first; the one that had the PU last.
        let place = (0..threads.len())
            .filter(|&place| ready(threads[place]))
            .min_by_key(|&place| {
                let last = place == 0 && first_runs;
                (self.threads[threads[place]].clock.max(now), last, place)
            })?;
        let thread = threads.remove(place)?;
        if place > 0 && first_runs {
            threads.rotate_left(1);
        }
        threads.push_front(thread);
        let state = &mut self.threads[thread];
        let mut begin = state.clock.max(now);
        state.queued += begin - state.clock;
        if *running != Some(thread) {
            if running.is_some() {
                begin += self.switch;
                self.system.counters[thread].switches += 1;
            }
            *running = Some(thread);
        }
        state.clock = begin;
        *slice_end = begin + self.slice;
        Some(thread)
    }

    /// A thread can go on from `time` on.
    fn release(&mut self, thread: usize, time: Ticks) {
        let state = &mut self.threads[thread];
        let from = state.clock.max(time);
        state.waited += from - state.clock;
        state.clock = from;
        if state.state == State::Blocked {
            state.state = State::Ready;
            let pu = state.pu;
            self.set_active(pu, true);
            self.queue.add(pu, from.max(self.pus[pu].clock));
        }
    }
}
