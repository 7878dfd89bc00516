//! The loop that runs the threads of a window against the memory system.
//!
//! 1. The PU with the lowest clock runs its thread, in its time slice, until it is a quantum ahead of the next PU. A
//!    thread that received a line from another cache in this turn or shortly before runs ahead only by the shortest
//!    transfer latency between caches.
//! 2. Each access changes the caches and the directory (`system`). Then it advances the thread's clock by the part of
//!    the latency that the core cannot hide (`core`).
//! 3. Prefetchers observe the accesses (`trainer`) and fetch lines, which use a part of every bandwidth.
//!
//! The quantum keeps the host's caches warm. Where threads compete for a line, a whole quantum would let each thread
//! keep the line for longer than the other's request takes to arrive. So turns are shorter there. Within a quantum, a
//! thread may see the changes of another thread in the wrong order. The times stay correct, because a bandwidth is
//! shared by arrival times and not by the order in which lines are simulated.

mod accounting;
mod clocking;
mod counting;
mod resuming;
mod setup;

use self::counting::Reading;
pub(crate) use self::counting::ThreadCounts;
use self::setup::{SchedulingTimes, settings, teams};
use super::clocks::Clocks;
use super::configuration::WindowConfiguration;
use super::counters::{RegionSpan, TeamMarks};
use super::directory::BLOCK_SHIFT;
use super::mapping::Mapping;
use super::options::{Options, WindowError};
use super::pages::Pages;
use super::piece::{PieceResult, Running};
use super::placement::Placement;
use super::profile::PageProfile;
use super::regions::{RegionPlaces, RegionPlan};
use super::result::WindowResult;
use super::runner::{Runner, Stop};
use super::schedule::{Pu, Queue, ThreadState, Waiting};
use super::steps::StepTable;
use super::stream::{Event, EventKind, Stream};
use super::system::System;
use super::thread::{CoreState, Settings, Thread};
use super::time::Ticks;
use super::totals::{RegionTotals, Snapshot};
use crate::model::{LINE_BYTES, Model};
use pinfold_core::PuId;
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::Arc;

/// Simulates `streams`, one for each thread, under `configuration` on `model`. `profile` is needed for the page
/// mappings `Locality` and `Balance` and ignored for the others. Errors: the configuration does not fit the model, or
/// the program uses too much memory.
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

/// Like `simulate`, for a program that has already run: `placed` has the nodes of virtual pages that are already
/// placed. These stay there; the page mapping applies to the others.
pub fn simulate_with_pages<S: BuildHasher>(
    model: &Model,
    configuration: &WindowConfiguration,
    profile: Option<&PageProfile>,
    placed: &HashMap<u64, u8, S>,
    streams: Vec<Box<dyn Stream + '_>>,
    options: &Options,
) -> Result<WindowResult, WindowError> {
    let teams = vec![streams];
    let regions = RegionPlaces::new();
    let window = Window {
        configuration,
        regions: &regions,
        profile,
        ending: Ending::Threads,
    };
    with_engine(model, &window, placed, teams, options).map(|(_, whole)| whole)
}

/// Like `simulate_with_pages`, for programs that run side by side and repeat. The threads of one of `teams` belong to
/// one program, in the order of the configuration's ranks, and meet at `Mark`s. The window ends when each team has
/// reached `marks` of them, or its threads have ended. Until then all teams continue, so that each runs beside the
/// others.
pub fn simulate_teams<S: BuildHasher>(
    model: &Model,
    configuration: &WindowConfiguration,
    placed: &HashMap<u64, u8, S>,
    teams: Vec<Vec<Box<dyn Stream + '_>>>,
    marks: u64,
    options: &Options,
) -> Result<Vec<TeamMarks>, WindowError> {
    simulate_regions(
        model,
        configuration,
        &RegionPlaces::new(),
        placed,
        teams,
        marks,
        options,
    )
}

/// Like `simulate_teams`, with separate places for some regions.
pub fn simulate_regions<S: BuildHasher>(
    model: &Model,
    configuration: &WindowConfiguration,
    regions: &RegionPlaces,
    placed: &HashMap<u64, u8, S>,
    teams: Vec<Vec<Box<dyn Stream + '_>>>,
    marks: u64,
    options: &Options,
) -> Result<Vec<TeamMarks>, WindowError> {
    let window = Window {
        configuration,
        regions,
        profile: None,
        ending: Ending::Marks(marks),
    };
    with_engine(model, &window, placed, teams, options).map(|(marks, _)| marks)
}

/// What is simulated.
struct Window<'a> {
    configuration: &'a WindowConfiguration,
    regions: &'a RegionPlaces,
    profile: Option<&'a PageProfile>,
    ending: Ending,
}

/// Calls the macro `run` with the words that a set of the placement's cores needs.
macro_rules! by_width {
    ($placement:ident, $run:ident) => {
        match $placement.cores.len() {
            0..=64 => $run!(1),
            65..=256 => $run!(4),
            _ => $run!(16),
        }
    };
}

/// Runs an engine with the width that the window needs.
fn with_engine<S: BuildHasher>(
    model: &Model,
    window: &Window<'_>,
    placed: &HashMap<u64, u8, S>,
    teams: Vec<Vec<Box<dyn Stream + '_>>>,
    options: &Options,
) -> Result<(Vec<TeamMarks>, WindowResult), WindowError> {
    let Window {
        configuration,
        regions,
        profile,
        ending,
    } = *window;
    let threads = teams.iter().map(Vec::len).sum();
    let also: Vec<PuId> = regions.values().flat_map(|place| place.pus.iter().copied()).collect();
    let placement = Placement::new(model, configuration, profile, threads, &also)?;
    macro_rules! run {
        ($words:literal) => {{
            let mut engine = Engine::<$words>::new(model, configuration, profile, teams, options, placement, regions);
            engine.system.pages.add_placed(placed);
            engine.ending = ending;
            engine.run()
        }};
    }
    by_width!(placement, run)
}

/// Simulates `streams` from the state `running` on. All pages that they use and that have a node stay there.
pub(crate) fn simulate_piece(
    model: &Model,
    configuration: &WindowConfiguration,
    running: &Running<'_>,
    streams: Vec<Box<dyn Stream + '_>>,
    options: &Options,
) -> Result<PieceResult, WindowError> {
    let placement = Placement::new(model, configuration, None, streams.len(), &[])?;
    let regions = RegionPlaces::new();
    macro_rules! run {
        ($words:literal) => {{
            let teams = vec![streams];
            let mut engine = Engine::<$words>::new(model, configuration, None, teams, options, placement, &regions);
            engine.resume(configuration, running)?;
            engine.run_all()?;
            Ok(engine.piece())
        }};
    }
    by_width!(placement, run)
}

/// When a window ends.
#[derive(Clone, Copy)]
enum Ending {
    /// When all threads have ended.
    Threads,
    /// When each team has reached this number of marks.
    Marks(u64),
}

/// The threads of one program. They meet at marks and order one another.
struct Team {
    threads: Range<usize>,
    waiting: Waiting,
    /// Threads that have reached the next mark.
    at_mark: Vec<usize>,
    marks: TeamMarks,
    /// Threads that waited for something that never came.
    released: u64,
}

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
    regions: Regions,
    /// Of a thread alone on its core, and of one beside others.
    settings: [Settings; 2],
    times: SchedulingTimes,
    ending: Ending,
    /// By thread: the readings at its `Count` events.
    readings: Vec<Vec<Reading>>,
    /// What changes at the borders of regions; `None` if nothing does.
    plan: Option<RegionPlan>,
    /// The cores' clocks; `None` if all run at the base clock.
    clocks: Option<Clocks>,
}

/// The regions that threads have executed.
struct Regions {
    /// Ended executions, in the order of their ends.
    spans: Vec<RegionSpan>,
    totals: BTreeMap<u64, RegionTotals>,
    /// By thread: the counts at the start of each of its open regions.
    snapshots: Vec<Vec<Snapshot>>,
}

impl<'a, const W: usize> Engine<'a, W> {
    fn new(
        model: &'a Model,
        configuration: &WindowConfiguration,
        profile: Option<&PageProfile>,
        streams: Vec<Vec<Box<dyn Stream + 'a>>>,
        options: &Options,
        placement: Placement,
        regions: &RegionPlaces,
    ) -> Self {
        let teams = teams(streams.iter().map(Vec::len));
        let team_of = teams
            .iter()
            .enumerate()
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
        let undecoded = Arc::new(StepTable::undecoded(model));
        let tables: Vec<Arc<StepTable>> = streams
            .iter()
            .map(|stream| stream.steps(model).unwrap_or_else(|| Arc::clone(&undecoded)))
            .collect();
        let clocks = Clocks::new(model, &placement, tables.clone());
        let mut pu_of_thread = vec![0; streams.len()];
        for (pu, (_, threads)) in placement.pus.iter().enumerate() {
            for &thread in threads {
                pu_of_thread[thread] = pu;
            }
        }
        let plan = (!regions.is_empty())
            .then(|| RegionPlan::new(model, &placement, &pu_of_thread, configuration.prefetchers, regions));
        let mut engine = Self {
            model,
            cores: placement.cores.iter().map(|_| CoreState::new(model)).collect(),
            queue: Queue::new(placement.pus.len()),
            pus: placement
                .pus
                .into_iter()
                .map(|(core, threads)| Pu::new(core, threads))
                .collect(),
            settings: settings(model, configuration, options, &system),
            system,
            readings: streams.iter().map(|_| vec![]).collect(),
            regions: Regions {
                spans: vec![],
                totals: BTreeMap::new(),
                snapshots: streams.iter().map(|_| vec![]).collect(),
            },
            threads: streams
                .into_iter()
                .zip(pu_of_thread)
                .zip(tables)
                .map(|((stream, pu), steps)| Thread::new(stream, pu, steps))
                .collect(),
            teams,
            team_of,
            times: SchedulingTimes::new(model, options),
            ending: Ending::Threads,
            plan,
            clocks,
        };
        engine.set_clocks();
        engine
    }

    fn run(mut self) -> Result<(Vec<TeamMarks>, WindowResult), WindowError> {
        self.run_all()?;
        let whole = self.result();
        Ok((self.teams.into_iter().map(|team| team.marks).collect(), whole))
    }

    fn run_all(&mut self) -> Result<(), WindowError> {
        for pu in 0..self.pus.len() {
            self.set_active(pu, true);
            self.queue.add(pu, 0);
        }
        while !self.has_ended() {
            let Some((time, pu)) = self.queue.pop() else {
                break;
            };
            self.system.traffic.floor = time;
            if let Some(thread) = self.turn(pu)? {
                self.release_stuck(self.team_of[thread]);
            }
        }
        Ok(())
    }

    fn too_much_memory(&self) -> WindowError {
        let bytes = (self.settings[0].most_blocks as u64 * LINE_BYTES) << BLOCK_SHIFT;
        WindowError::TooMuchMemory(bytes >> 20)
    }

    /// Whether the window has reached the requested end. Without one it ends with its last thread.
    fn has_ended(&self) -> bool {
        let Ending::Marks(marks) = self.ending else {
            return false;
        };
        let ended = |thread: usize| self.threads[thread].state == ThreadState::Ended;
        self.teams
            .iter()
            .all(|team| team.marks.number >= marks || team.threads.clone().all(ended))
    }

    /// Releases a team's waiting threads where no thread of the team can run: they wait for events that are not in the
    /// recording. Threads at a mark wait for them.
    fn release_stuck(&mut self, team: usize) {
        let runs = |thread: usize| self.threads[thread].state == ThreadState::Ready;
        let team = &mut self.teams[team];
        if team.threads.clone().any(runs) {
            return;
        }
        let mut stuck = team.waiting.release_all();
        if stuck.is_empty() {
            stuck = std::mem::take(&mut team.at_mark);
        }
        team.released += stuck.len() as u64;
        let last = self.threads[team.threads.clone()]
            .iter()
            .map(|thread| thread.clock)
            .max();
        for thread in stuck {
            let state = &mut self.threads[thread];
            state.unrecorded.release(state.clock, last.unwrap_or(state.clock));
            let clock = state.clock;
            self.release(thread, clock);
        }
    }

    /// Records whether a PU has a thread that can run. Its siblings are slower while it has one.
    fn set_active(&mut self, pu: usize, active: bool) {
        let state = &mut self.pus[pu];
        let running = &mut self.cores[state.core].running;
        *running = *running + u32::from(active) - u32::from(state.active);
        state.active = active;
    }

    /// How far a thread may run before the next PU has its turn.
    fn reach(&mut self, thread: usize) -> Ticks {
        let thread = &self.threads[thread];
        let ahead = if thread.clock < thread.competes_until {
            (self.times.quantum - self.settings[0].transfer_margin).max(1)
        } else {
            self.times.quantum
        };
        self.queue.next_time().map_or(Ticks::MAX, |next| next + ahead)
    }

    /// Lets a PU run one of its threads until the thread's turn is over. Returns the thread.
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
        let beside_others = usize::from(self.cores[core].running > 1);
        loop {
            let state = &mut self.threads[thread];
            let (begin, stalled) = (state.clock, state.stalled);
            let stop = Runner {
                system: &mut self.system,
                core: &mut self.cores[core],
                thread: state,
                settings: &self.settings[beside_others],
                number: thread,
                index: core,
                transferred: false,
                written: 0,
            }
            .run(limit);
            let state = &mut self.threads[thread];
            state.ran(
                state.clock - begin,
                state.stalled - stalled,
                self.cores[core].times.clock,
            );
            match stop {
                Stop::Ahead => break,
                Stop::TooMuchMemory => return Err(self.too_much_memory()),
                Stop::Ended => {
                    state.state = ThreadState::Ended;
                    let end = state.clock;
                    let open = std::mem::take(&mut state.open_regions);
                    let snapshots = std::mem::take(&mut self.regions.snapshots[thread]);
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
                    // Other threads may have been released. The thread must not run too far ahead of them.
                    limit = limit.min(self.reach(thread));
                }
            }
        }
        self.pus[pu].clock = self.threads[thread].clock.max(self.pus[pu].clock);
        let ready = self.pus[pu]
            .threads
            .iter()
            .filter(|&&thread| self.threads[thread].state == ThreadState::Ready)
            .map(|&thread| self.threads[thread].clock)
            .min();
        match ready {
            Some(time) => self.queue.add(pu, time.max(self.pus[pu].clock)),
            None => self.set_active(pu, false),
        }
        Ok(Some(thread))
    }

    /// Processes an event that orders a thread against others. Returns whether the thread continues.
    fn order(&mut self, thread: usize, event: Event) -> bool {
        let now = self.threads[thread].clock;
        match event.kind {
            EventKind::Read
            | EventKind::Write
            | EventKind::Locked
            | EventKind::Instructions
            | EventKind::RecordedBegin
            | EventKind::RecordedEnd => true,
            EventKind::Count => {
                self.count(thread);
                true
            }
            EventKind::SystemCall => {
                self.occupy(thread, self.times.call);
                true
            }
            EventKind::RegionBegin => {
                self.threads[thread].open_regions.push((event.payload, now));
                let snapshot = self.snapshot();
                self.regions.snapshots[thread].push(snapshot);
                self.set_prefetchers(thread, event.payload);
                true
            }
            EventKind::RegionEnd => {
                let open = &mut self.threads[thread].open_regions;
                if let Some(place) = open.iter().rposition(|&(region, _)| region == event.payload) {
                    let (region, begin) = open.remove(place);
                    let snapshot = self.regions.snapshots[thread].remove(place);
                    self.leave_region(region, thread, begin..now, &snapshot);
                }
                true
            }
            EventKind::ShareBegin => self.go_to_region(thread, event.payload),
            EventKind::Barrier => {
                let waiting = &mut self.teams[self.team_of[thread]].waiting;
                let Some(members) = waiting.arrive(event.payload, usize::from(event.step), thread) else {
                    self.threads[thread].state = ThreadState::Blocked;
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
            EventKind::Mark => self.reach_mark(thread),
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
                    state.state = ThreadState::Blocked;
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

    /// A thread has reached a mark. Returns whether it continues: it is the last of its team, and the window has not
    /// ended.
    fn reach_mark(&mut self, thread: usize) -> bool {
        let team = &mut self.teams[self.team_of[thread]];
        team.at_mark.push(thread);
        if team.at_mark.len() < team.threads.len() {
            self.threads[thread].state = ThreadState::Blocked;
            return false;
        }
        let members = std::mem::take(&mut team.at_mark);
        // No thread waits, and no thread will use the old signals.
        team.waiting = Waiting::default();
        let clocks = self.threads[team.threads.clone()].iter().map(|thread| thread.clock);
        let last = clocks.max().unwrap_or(0);
        for &member in &members {
            self.threads[member].unrecorded.end(last);
        }
        let mark = self.mark(self.team_of[thread], last);
        self.teams[self.team_of[thread]].marks.add(mark);
        for member in members {
            self.release(member, last);
        }
        !self.has_ended()
    }

    /// Sets the prefetchers that a region wants, if they differ.
    fn set_prefetchers(&mut self, thread: usize, region: u64) {
        let Some(plan) = &self.plan else { return };
        let (wanted, write) = (plan.prefetchers(region), plan.write);
        if wanted != self.settings[0].prefetchers {
            for settings in &mut self.settings {
                settings.prefetchers = wanted;
            }
            self.occupy(thread, write);
        }
    }

    /// A thread goes to its PU of a region. Returns whether it was there, and continues.
    fn go_to_region(&mut self, thread: usize, region: u64) -> bool {
        let from = self.threads[thread].pu;
        let Some(to) = self.plan.as_ref().map(|plan| plan.pu(region, thread)) else {
            return true;
        };
        if to == from {
            return true;
        }
        self.occupy(thread, self.times.call + self.times.switch);
        self.pus[from].threads.retain(|&other| other != thread);
        self.pus[to].threads.push_back(thread);
        self.threads[thread].pu = to;
        self.change_clocks(from, to);
        self.set_active(to, true);
        let clock = self.threads[thread].clock;
        self.queue.add(to, clock.max(self.pus[to].clock));
        false
    }

    /// A thread keeps its PU busy with work that is not in its stream.
    fn occupy(&mut self, thread: usize, time: Ticks) {
        let state = &mut self.threads[thread];
        state.clock += time;
        state.ran(time, 0, self.cores[self.pus[state.pu].core].times.clock);
    }

    /// A thread that begins to wait polls and then sleeps. Where no other thread wants its PU, polling costs nothing.
    fn poll(&mut self, thread: usize) {
        if self.pus[self.threads[thread].pu].threads.len() > 1 {
            self.occupy(thread, self.times.poll + self.times.call);
        }
    }

    /// Selects the thread that runs next on a PU, and switches to it.
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
        let ready = |thread: usize| self.threads[thread].state == ThreadState::Ready;
        let first_runs = *running == Some(first);
        let in_slice = threads.len() == 1 || self.threads[first].clock < *slice_end;
        if first_runs && ready(first) && in_slice {
            return Some(first);
        }
        // In turn: first the threads that can run now, the longest waiting first; then the one that can run first.
        // Among equals the thread that had the PU last is the last choice.
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
                begin += self.times.switch;
                self.system.counters[thread].switches += 1;
            }
            *running = Some(thread);
        }
        state.clock = begin;
        *slice_end = begin + self.times.slice;
        Some(thread)
    }

    /// A thread can continue from `time` on.
    fn release(&mut self, thread: usize, time: Ticks) {
        let state = &mut self.threads[thread];
        let from = state.clock.max(time);
        state.waited += from - state.clock;
        state.clock = from;
        if state.state == ThreadState::Blocked {
            state.state = ThreadState::Ready;
            let pu = state.pu;
            self.set_active(pu, true);
            self.queue.add(pu, from.max(self.pus[pu].clock));
        }
    }
}
