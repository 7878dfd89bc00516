//! The order of a recording's threads, as events of the simulator: barriers, and tokens that one thread signals and
//! others wait for.
//!
//! - A thread begins when its creator has created it.
//! - A futex wait that slept ends with the wake that ended it. That is the first wake on its address after the wait
//!   began. Where the wake was recorded just before the wait, it is the last one before the wait's end. A thread's end
//!   wakes the threads that join it.
//! - A barrier of a team: its members are the threads that are in a barrier when the first of them leaves it. A thread
//!   waits in a barrier, and this waiting is left out. In its place each member adds to a counter, the last one to
//!   arrive changes a flag on another line, and all others read the flag. libgomp does the same, without its spinning
//!   (config/linux/bar.h).
//! - The threads of a region begin their shares when the region has begun. The region ends when all shares have ended.
//!   Three more intervals are waiting, and left out: for the region's first thread, from the region's begin to the
//!   begin of its own share, while the team assembles, and from its share's end to the region's end; for the others,
//!   between two shares.
//! - Calls that wake others take the time of a system call in each case. libgomp's barriers make one such call each
//!   time.
//!
//! `synchronisation` finds which thread waited for which. Here each thread's events go through a state machine. Its
//! state says whether the thread works or waits. Each event changes the state and is replaced by events of the
//! simulator.
//!
//! Known limits: a lock that was passed on without a futex orders nothing, so threads may hold it at the same time.
//! Teams that meet at barriers at the same time count as one. A team whose workers were released by spinning only is
//! ordered only where the agent marked the region.

use super::synchronisation::{Arrival, Synchronisation, ThreadEvents};
use crate::model::LINE_BYTES;
use crate::window::{Event, EventKind};
use pinfold_trace::{Event as RecordedEvent, EventKind as Kind};
use std::collections::HashSet;

/// The address of the counter of all barriers, outside every program's memory. The flag is on the next line.
const BARRIER_COUNTER: u64 = 1 << 60;
const BARRIER_FLAG: u64 = BARRIER_COUNTER + LINE_BYTES;

/// Instructions that a thread executes at a barrier, besides its accesses. Assumed.
const BARRIER_INSTRUCTIONS: u32 = 20;

/// What the simulation does in the place of each event of a thread.
#[derive(Default)]
pub(super) struct Orders {
    /// For each place, where its events begin in `events`; with one more entry for the end.
    begins: Vec<u32>,
    events: Vec<Event>,
    /// For each place, whether the part before its event is left out; with one more entry for the part after the last
    /// event.
    silent: Vec<bool>,
}

impl Orders {
    /// What the simulation does in the place of the thread's event `place`.
    pub(super) fn in_place_of(&self, place: usize) -> &[Event] {
        &self.events[self.begins[place] as usize..self.begins[place + 1] as usize]
    }

    /// Inserts events at some places. `added` is in the order of its places.
    pub(super) fn put_before(&mut self, added: &[(usize, Event)]) {
        let mut events = Vec::with_capacity(self.events.len() + added.len());
        let mut added = added.iter().peekable();
        let mut begins = Vec::with_capacity(self.begins.len());
        for place in 0..self.begins.len() - 1 {
            begins.push(u32::try_from(events.len()).unwrap_or(u32::MAX));
            while let Some((_, event)) = added.next_if(|(at, _)| *at == place) {
                events.push(*event);
            }
            events.extend_from_slice(self.in_place_of(place));
        }
        begins.push(u32::try_from(events.len()).unwrap_or(u32::MAX));
        (self.events, self.begins) = (events, begins);
    }

    /// Whether the part between the previous event and the event `place` of the thread is left out.
    pub(super) fn silent(&self, place: usize) -> bool {
        self.silent[place]
    }
}

/// Orders of all threads. `windowed` means that the recording begins outside its windows. With `shares`, threads mark
/// where they begin their share of a region (`EventKind::ShareBegin`).
pub(super) fn orders(threads: &[ThreadEvents], windowed: bool, shares: bool) -> Vec<Orders> {
    let synchronisation = Synchronisation::of(threads);
    let mut all: Vec<Orders> = threads
        .iter()
        .enumerate()
        .map(|(number, thread)| Translation::new(&synchronisation, number, windowed, shares).translate(thread))
        .collect();
    remove_endless_waits(&mut all);
    all
}

/// A wake that was itself left out wakes no thread, so the waits for it are removed.
fn remove_endless_waits(all: &mut [Orders]) {
    let signals = all.iter().flat_map(|orders| &orders.events);
    let signalled: HashSet<u64> = signals
        .filter(|event| event.kind == EventKind::Signal)
        .map(|event| event.payload)
        .collect();
    for event in all.iter_mut().flat_map(|orders| &mut orders.events) {
        if event.kind == EventKind::Wait && !signalled.contains(&event.payload) {
            *event = Event::instructions(0);
        }
    }
}

/// The position of a thread in the parallel regions of its team.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Share {
    /// It does its share, or is in no region.
    Working,
    /// It has begun a region, and its own share of the region has not begun.
    Assembling,
    /// Its share has ended. Neither the end of the region nor the next share has come.
    Ended,
}

/// The translation of one thread's events into orders, and the thread's state in it.
struct Translation<'a> {
    synchronisation: &'a Synchronisation,
    /// The thread's number.
    number: usize,
    /// Whether the thread begins regions.
    leads: bool,
    share: Share,
    in_barrier: bool,
    outside_windows: bool,
    /// The mark of a share's start, if requested.
    share_mark: Option<EventKind>,
    /// The begin of the last futex wait.
    slept_since: Option<u64>,
    orders: Orders,
}

impl<'a> Translation<'a> {
    fn new(synchronisation: &'a Synchronisation, number: usize, windowed: bool, shares: bool) -> Self {
        Self {
            synchronisation,
            number,
            leads: synchronisation.leads(number),
            share: Share::Working,
            in_barrier: false,
            outside_windows: windowed,
            share_mark: shares.then_some(EventKind::ShareBegin),
            slept_since: None,
            orders: Orders::default(),
        }
    }

    fn translate(mut self, thread: &ThreadEvents) -> Orders {
        self.orders.begins.push(0);
        for (place, event) in thread.events.iter().enumerate() {
            self.orders.silent.push(self.is_silent());
            self.step(thread, place, event);
            let end = u32::try_from(self.orders.events.len()).unwrap_or(u32::MAX);
            self.orders.begins.push(end);
        }
        self.orders.silent.push(self.is_silent());
        self.orders
    }

    /// Whether the thread's current events are left out.
    fn is_silent(&self) -> bool {
        self.in_barrier || self.outside_windows || self.share != Share::Working
    }

    /// Processes one event of the thread.
    fn step(&mut self, thread: &ThreadEvents, place: usize, event: &RecordedEvent) {
        let sequence = event.sequence;
        match event.kind {
            Kind::ThreadBegin { .. } => self.begin_thread(thread.number),
            Kind::ThreadCreate { .. } | Kind::ThreadEnd { .. } => self.put(signal(sequence)),
            Kind::FutexWake { .. } => self.wake(sequence),
            Kind::FutexWait { .. } => self.begin_futex_wait(sequence),
            Kind::FutexWaitEnd { address, error: 0 } => self.end_futex_wait(address, sequence),
            Kind::RegionBegin { region, .. } => self.begin_region(region, sequence, &thread.events[place + 1..]),
            Kind::RegionEnd { region } => self.end_region(region, sequence),
            Kind::WorkBegin { region } => self.begin_share(region, sequence),
            Kind::WorkEnd { region } => self.end_share(region, sequence),
            Kind::BarrierBegin {} => self.arrive_at_barrier(place),
            Kind::BarrierEnd {} => self.in_barrier = false,
            Kind::WindowBegin {} => self.outside_windows = false,
            Kind::WindowEnd {} => self.outside_windows = true,
            // A wait that failed ended by itself. Page moves are not simulated, and a simulated machine has no address
            // spaces.
            Kind::FutexWaitEnd { .. }
            | Kind::Compute {}
            | Kind::Unmap { .. }
            | Kind::Discard { .. }
            | Kind::Map { .. }
            | Kind::Protect { .. }
            | Kind::Remap { .. }
            | Kind::Break { .. }
            | Kind::Stack { .. }
            | Kind::FirstTouch { .. } => {}
        }
    }

    fn put(&mut self, event: Event) {
        self.orders.events.push(event);
    }

    /// `thread` is the recording's number of the thread.
    fn begin_thread(&mut self, thread: u32) {
        if let Some(creation) = self.synchronisation.creation(thread) {
            self.put(wait(creation));
        }
    }

    fn wake(&mut self, sequence: u64) {
        // A thread that ends the waiting of others asks the kernel to wake them, whether they sleep or poll.
        if !self.outside_windows {
            self.put(Event::mark(EventKind::SystemCall, 0));
        }
        if !self.is_silent() || self.outside_windows {
            self.put(signal(sequence));
        }
    }

    fn begin_futex_wait(&mut self, sequence: u64) {
        self.slept_since = Some(sequence);
        if !self.is_silent() {
            self.put(Event::mark(EventKind::SystemCall, 0));
        }
    }

    fn end_futex_wait(&mut self, address: u64, sequence: u64) {
        if self.is_silent() && !self.outside_windows {
            return;
        }
        if let Some(since) = self.slept_since.take()
            && let Some(wake) = self.synchronisation.wake(address, since, sequence)
        {
            self.put(wait(wake));
        }
    }

    /// `later` are the thread's events after the region's begin.
    fn begin_region(&mut self, region: u64, sequence: u64, later: &[RecordedEvent]) {
        self.put(Event::mark(EventKind::RegionBegin, region));
        self.put(signal(sequence));
        if begins_share(later, region) {
            self.share = Share::Assembling;
        }
    }

    fn begin_share(&mut self, region: u64, sequence: u64) {
        self.share = Share::Working;
        if let Some(run) = self.synchronisation.run_at(region, sequence)
            && run.thread != self.number
        {
            self.put(poll(run.begin));
        }
        if let Some(mark) = self.share_mark.filter(|_| !self.outside_windows) {
            self.put(Event::mark(mark, region));
        }
    }

    fn end_share(&mut self, region: u64, sequence: u64) {
        self.put(signal(sequence));
        let run = self.synchronisation.run_at(region, sequence);
        let waits = !self.leads || run.is_some_and(|run| run.thread == self.number);
        self.share = if waits { Share::Ended } else { Share::Working };
    }

    fn end_region(&mut self, region: u64, sequence: u64) {
        self.share = Share::Working;
        if let Some(run) = self.synchronisation.run_at(region, sequence) {
            for &(ended, worker) in self.synchronisation.shares_ended(region, run.begin, sequence) {
                if worker != self.number {
                    self.put(poll(ended));
                }
            }
        }
        self.put(Event::mark(EventKind::RegionEnd, region));
    }

    fn arrive_at_barrier(&mut self, place: usize) {
        if let Some(arrival) = self.synchronisation.arrival(self.number, place) {
            self.in_barrier = true;
            if self.outside_windows {
                self.put(Event::barrier(arrival.barrier, arrival.members));
            } else {
                self.orders.events.extend(pass(arrival));
            }
        }
    }
}

/// Whether the thread that has begun a region does its share next, by the later `events` of the region.
fn begins_share(events: &[RecordedEvent], begun: u64) -> bool {
    events.iter().find_map(|event| match event.kind {
        Kind::WorkBegin { region } if region == begun => Some(true),
        Kind::RegionBegin { .. } | Kind::RegionEnd { .. } | Kind::WorkEnd { .. } => Some(false),
        _ => None,
    }) == Some(true)
}

/// The accesses of a thread at a barrier.
fn pass(arrival: Arrival) -> [Event; 4] {
    let come = [
        Event::locked(BARRIER_COUNTER, 8, BARRIER_INSTRUCTIONS),
        Event::write(BARRIER_COUNTER, 8, 1),
    ];
    let barrier = Event::barrier(arrival.barrier, arrival.members);
    if arrival.last {
        [come[0], come[1], Event::write(BARRIER_FLAG, 8, 1), barrier]
    } else {
        [come[0], come[1], barrier, Event::read(BARRIER_FLAG, 8, 1)]
    }
}

/// Tokens are the numbers of the events that signal them.
fn signal(sequence: u64) -> Event {
    Event::mark(EventKind::Signal, sequence)
}

fn wait(sequence: u64) -> Event {
    Event::mark(EventKind::Wait, sequence)
}

/// Like `wait`, by a thread of a team, which polls before it sleeps.
fn poll(sequence: u64) -> Event {
    Event {
        size: 1,
        ..wait(sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(number: u32, events: &[(u64, Kind)]) -> ThreadEvents {
        ThreadEvents {
            number,
            events: events
                .iter()
                .map(|&(sequence, kind)| RecordedEvent {
                    sequence,
                    instructions: 0,
                    kind,
                })
                .collect(),
        }
    }

    /// The events of a thread that order it against others.
    fn ordering(orders: &Orders) -> Vec<(EventKind, u64)> {
        let ordering = |event: &&Event| matches!(event.kind, EventKind::Barrier | EventKind::Signal | EventKind::Wait);
        orders
            .events
            .iter()
            .filter(ordering)
            .map(|event| (event.kind, event.payload))
            .collect()
    }

    #[test]
    fn a_thread_begins_when_its_creator_has_created_it_and_is_joined_when_it_has_ended() {
        let parent = thread(
            0,
            &[
                (2, Kind::ThreadCreate { thread: 1 }),
                (3, Kind::FutexWait { address: 64 }),
                (6, Kind::FutexWaitEnd { address: 64, error: 0 }),
            ],
        );
        let child = thread(
            1,
            &[(1, Kind::ThreadBegin { parent: 0 }), (5, Kind::ThreadEnd { futex: 64 })],
        );
        let orders = orders(&[parent, child], false, false);
        assert_eq!(ordering(&orders[0]), [(EventKind::Signal, 2), (EventKind::Wait, 5)]);
        assert_eq!(ordering(&orders[1]), [(EventKind::Wait, 2), (EventKind::Signal, 5)]);
    }

    #[test]
    fn a_wait_ends_with_the_first_wake_in_it_and_else_with_the_last_before() {
        let waiter = thread(
            0,
            &[
                (2, Kind::FutexWait { address: 8 }),
                (5, Kind::FutexWaitEnd { address: 8, error: 0 }),
                (7, Kind::FutexWait { address: 8 }),
                (8, Kind::FutexWaitEnd { address: 8, error: 0 }),
                (9, Kind::FutexWait { address: 8 }),
                (10, Kind::FutexWaitEnd { address: 8, error: 11 }),
            ],
        );
        let wake = |sequence| (sequence, Kind::FutexWake { address: 8, limit: 1 });
        let waker = thread(1, &[wake(1), wake(3), wake(4), wake(6)]);
        let orders = orders(&[waiter, waker], false, false);
        assert_eq!(ordering(&orders[0]), [(EventKind::Wait, 3), (EventKind::Wait, 6)]);
    }

    #[test]
    fn the_members_of_a_barrier_are_the_threads_in_it_when_the_first_leaves() {
        let begin = |sequence| (sequence, Kind::BarrierBegin {});
        let end = |sequence| (sequence, Kind::BarrierEnd {});
        let one = thread(0, &[begin(1), end(4), begin(5), end(9)]);
        let other = thread(1, &[begin(2), end(6), begin(7), end(8)]);
        let late = thread(2, &[begin(3), end(10)]);
        let orders = orders(&[one, other, late], false, false);
        let barriers = |orders: &Orders| {
            let barriers = orders.events.iter().filter(|event| event.kind == EventKind::Barrier);
            barriers.map(|event| (event.payload, event.step)).collect::<Vec<_>>()
        };
        assert_eq!(barriers(&orders[0]), [(1, 3), (2, 2)]);
        assert_eq!(barriers(&orders[1]), [(1, 3), (2, 2)]);
        assert_eq!(barriers(&orders[2]), [(1, 3)]);
        // What precedes the first begin and what follows each end belongs to the program; the part between is waiting.
        let silent: Vec<bool> = (0..5).map(|place| orders[0].silent(place)).collect();
        assert_eq!(silent, [false, true, false, true, false]);
    }

    #[test]
    fn a_region_begins_before_its_shares_and_ends_after_them_and_waiting_for_either_is_left_out() {
        let region = 7;
        let leader = thread(
            0,
            &[
                (1, Kind::RegionBegin { region, threads: 2 }),
                (2, Kind::WorkBegin { region }),
                (5, Kind::WorkEnd { region }),
                (6, Kind::RegionEnd { region }),
            ],
        );
        let worker = thread(1, &[(3, Kind::WorkBegin { region }), (4, Kind::WorkEnd { region })]);
        let orders = orders(&[leader, worker], false, false);
        assert_eq!(
            ordering(&orders[0]),
            [(EventKind::Signal, 1), (EventKind::Signal, 5), (EventKind::Wait, 4)]
        );
        assert_eq!(ordering(&orders[1]), [(EventKind::Wait, 1), (EventKind::Signal, 4)]);
        assert!(orders[0].silent(3) && !orders[0].silent(4));
        assert!(orders[1].silent(2));
    }

    #[test]
    fn a_team_that_assembles_does_no_work_and_each_wake_is_a_system_call() {
        let region = 7;
        let wake = |sequence| (sequence, Kind::FutexWake { address: 8, limit: 1 });
        let leader = thread(
            0,
            &[
                (1, Kind::RegionBegin { region, threads: 2 }),
                wake(2),
                (3, Kind::WorkBegin { region }),
                (5, Kind::WorkEnd { region }),
                (8, Kind::RegionEnd { region }),
                (9, Kind::RegionBegin { region, threads: 2 }),
                (10, Kind::RegionEnd { region }),
            ],
        );
        let worker = thread(
            1,
            &[(4, Kind::WorkBegin { region }), (6, Kind::WorkEnd { region }), wake(7)],
        );
        let orders = orders(&[leader, worker], false, false);
        let silent: Vec<bool> = (0..8).map(|place| orders[0].silent(place)).collect();
        // The second time the leader has no share, so its instructions are work.
        assert_eq!(silent, [false, true, true, false, true, false, false, false]);
        let calls = |orders: &Orders| {
            let calls = orders.events.iter().filter(|event| event.kind == EventKind::SystemCall);
            calls.count()
        };
        assert_eq!((calls(&orders[0]), calls(&orders[1])), (1, 1));
    }

    #[test]
    fn outside_the_windows_of_a_recording_only_the_order_of_threads_is_left() {
        let thread = thread(
            0,
            &[
                (1, Kind::FutexWake { address: 8, limit: 1 }),
                (2, Kind::WindowBegin {}),
                (3, Kind::WindowEnd {}),
                (4, Kind::BarrierBegin {}),
                (5, Kind::BarrierEnd {}),
            ],
        );
        let orders = orders(&[thread], true, false);
        let kinds: Vec<EventKind> = orders[0].events.iter().map(|event| event.kind).collect();
        assert_eq!(
            kinds,
            [EventKind::Signal, EventKind::Barrier],
            "a barrier costs no accesses there"
        );
        let silent: Vec<bool> = (0..4).map(|place| orders[0].silent(place)).collect();
        assert_eq!(silent, [true, true, false, true]);
    }
}
