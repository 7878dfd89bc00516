//! What orders the threads of a recording, put into the simulator's words: barriers, and tokens that one thread signals
//! and others wait for.
//!
//! - A thread begins when its creator has created it.
//! - A futex wait that slept ends with the wake that ended it: the first one on that address after the wait began, or, if
//!   the wake was noted just before, the last one before the wait's end. A thread's end wakes those who join it.
//! - A barrier of a team: those who are in one when the first of them leaves it are its members. What a thread does in it
//!   is waiting, and left out. In its place each member adds to a counter, the last one to come changes a flag on another
//!   line, and all others read that: what libgomp does without its spinning (config/linux/bar.h).
//! - A region's threads begin their shares when it has begun. It ends when all shares have. What its first thread does
//!   between the region's begin and its own share's, where the team assembles, and between its share's end and the
//!   region's, and what others do between two shares, is waiting too, and left out.
//! - Calls that wake others take the time of a system call wherever they are: libgomp's barriers make one each time.
//!
//! Known limits: a lock that was handed on without a futex orders nothing, so that threads may hold it at once; teams that
//! meet at barriers at the same time are taken for one; a team whose workers were released by spinning alone is ordered
//! only where the agent marked the region.

use crate::model::LINE_BYTES;
use crate::window::{Event, EventKind};
use pinfold_trace::{Event as RecordedEvent, EventKind as Kind};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Where the counter of all barriers is, which no program's memory is; the flag is on the next line.
const BARRIER_COUNTER: u64 = 1 << 60;
const BARRIER_FLAG: u64 = BARRIER_COUNTER + LINE_BYTES;

/// Instructions that a thread needs at a barrier beside its accesses. Assumed.
const BARRIER_INSTRUCTIONS: u32 = 20;

/// One thread's arrival at a barrier.
#[derive(Clone, Copy)]
struct Arrival {
    barrier: u64,
    members: u16,
    /// It came last when the program was recorded.
    last: bool,
}

/// The events of one thread.
pub(super) struct ThreadEvents {
    /// The recording's number of the thread.
    pub(super) number: u32,
    pub(super) events: Vec<RecordedEvent>,
}

/// What is done in the place of each event of a thread.
#[derive(Default)]
pub(super) struct Orders {
    /// Where the events of each place begin in `events`; one more than there are places.
    begins: Vec<u32>,
    events: Vec<Event>,
    /// By place: whether what comes before the event is left out; one more for what comes after the last.
    silent: Vec<bool>,
}

impl Orders {
    /// What is done in the place of the thread's event `place`.
    pub(super) fn in_place_of(&self, place: usize) -> &[Event] {
        &self.events[self.begins[place] as usize..self.begins[place + 1] as usize]
    }

    /// Whether what the thread did before its event `place`, since the one before that, is left out.
    pub(super) fn silent(&self, place: usize) -> bool {
        self.silent[place]
    }
}

/// A region from its first thread's begin to its end.
struct RegionRun {
    region: u64,
    begin: u64,
    end: u64,
    thread: usize,
}

/// Orders of all threads. `windowed` tells that the recording begins outside its windows.
pub(super) fn orders(threads: &[ThreadEvents], windowed: bool) -> Vec<Orders> {
    let barriers = barriers(threads);
    let wakes = wakes(threads);
    let runs = region_runs(threads);
    let shares_ended = shares_ended(threads);
    let created: HashMap<u64, u64> = threads
        .iter()
        .flat_map(|thread| &thread.events)
        .filter_map(|event| match event.kind {
            Kind::ThreadCreate { thread } => Some((thread, event.sequence)),
            _ => None,
        })
        .collect();
    let mut all: Vec<Orders> = vec![];
    let mut signalled = BTreeSet::new();
    for (number, thread) in threads.iter().enumerate() {
        let mut orders = Orders::default();
        let leads = runs.iter().any(|run| run.thread == number);
        let (mut in_barrier, mut between_shares, mut outside) = (false, false, windowed);
        let mut assembling = false;
        let mut slept_since = None;
        orders.begins.push(0);
        for (place, event) in thread.events.iter().enumerate() {
            let silent = in_barrier || between_shares || assembling || outside;
            orders.silent.push(silent);
            let mut put = |event: Event| {
                if event.kind == EventKind::Signal {
                    signalled.insert(event.payload);
                }
                orders.events.push(event);
            };
            let run_at = |region: u64| {
                let earlier = &runs[..runs.partition_point(|run| run.begin < event.sequence)];
                earlier.iter().rfind(|run| run.region == region)
            };
            match event.kind {
                Kind::ThreadBegin { .. } => {
                    if let Some(&sequence) = created.get(&u64::from(thread.number)) {
                        put(wait(sequence));
                    }
                }
                Kind::ThreadCreate { .. } | Kind::ThreadEnd { .. } => put(signal(event.sequence)),
                Kind::FutexWake { .. } => {
                    // Whoever ends the waiting of others asks the kernel to wake them, asleep or not.
                    if !outside {
                        put(Event::mark(EventKind::SystemCall, 0));
                    }
                    if !silent || outside {
                        put(signal(event.sequence));
                    }
                }
                Kind::FutexWait { .. } => {
                    slept_since = Some(event.sequence);
                    if !silent {
                        put(Event::mark(EventKind::SystemCall, 0));
                    }
                }
                Kind::FutexWaitEnd { address, error: 0 } if !silent || outside => {
                    if let Some(wake) = slept_since
                        .take()
                        .and_then(|since| wake(&wakes, address, since, event.sequence))
                    {
                        put(wait(wake));
                    }
                }
                Kind::RegionBegin { region, .. } => {
                    put(Event::mark(EventKind::RegionBegin, region));
                    put(signal(event.sequence));
                    assembling = begins_share(&thread.events[place + 1..], region);
                }
                Kind::WorkBegin { region } => {
                    (between_shares, assembling) = (false, false);
                    if let Some(run) = run_at(region).filter(|run| run.thread != number) {
                        put(poll(run.begin));
                    }
                }
                Kind::WorkEnd { region } => {
                    put(signal(event.sequence));
                    between_shares = !leads || run_at(region).is_some_and(|run| run.thread == number);
                }
                Kind::RegionEnd { region } => {
                    between_shares = false;
                    if let Some(run) = run_at(region) {
                        let shares = shares_ended.get(&region).map_or(&[][..], Vec::as_slice);
                        let first = shares.partition_point(|&(sequence, _)| sequence < run.begin);
                        for &(sequence, worker) in &shares[first..] {
                            if sequence > event.sequence {
                                break;
                            }
                            if worker != number {
                                put(poll(sequence));
                            }
                        }
                    }
                    put(Event::mark(EventKind::RegionEnd, region));
                }
                Kind::BarrierBegin {} => {
                    if let Some(&arrival) = barriers.get(&(number, place)) {
                        in_barrier = true;
                        pass(arrival).into_iter().for_each(put);
                    }
                }
                Kind::BarrierEnd {} => in_barrier = false,
                Kind::WindowBegin {} => outside = false,
                Kind::WindowEnd {} => outside = true,
                // A page keeps its place in a simulation, and a simulated machine has no address spaces.
                Kind::FutexWaitEnd { .. }
                | Kind::Compute {}
                | Kind::Unmap { .. }
                | Kind::Discard { .. }
                | Kind::Map { .. }
                | Kind::Protect { .. }
                | Kind::Remap { .. }
                | Kind::Break { .. }
                | Kind::Stack { .. } => {}
            }
            orders
                .begins
                .push(u32::try_from(orders.events.len()).unwrap_or(u32::MAX));
        }
        orders
            .silent
            .push(in_barrier || between_shares || assembling || outside);
        all.push(orders);
    }
    // A wake that was itself left out wakes nobody.
    for orders in &mut all {
        for event in &mut orders.events {
            if event.kind == EventKind::Wait && !signalled.contains(&event.payload) {
                *event = Event::instructions(0);
            }
        }
    }
    all
}

/// Whether the thread that has begun a region does its share of it next, of what these events tell of the region.
fn begins_share(events: &[RecordedEvent], begun: u64) -> bool {
    events.iter().find_map(|event| match event.kind {
        Kind::WorkBegin { region } if region == begun => Some(true),
        Kind::RegionBegin { .. } | Kind::RegionEnd { .. } | Kind::WorkEnd { .. } => Some(false),
        _ => None,
    }) == Some(true)
}

/// What a thread does at a barrier.
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

/// As `wait`, by a thread of a team, which polls before it sleeps.
fn poll(sequence: u64) -> Event {
    Event {
        size: 1,
        ..wait(sequence)
    }
}

/// The barriers that opened, by thread and place of its arrival.
fn barriers(threads: &[ThreadEvents]) -> HashMap<(usize, usize), Arrival> {
    let mut marks: Vec<(u64, usize, usize, bool)> = vec![];
    for (number, thread) in threads.iter().enumerate() {
        for (place, event) in thread.events.iter().enumerate() {
            match event.kind {
                Kind::BarrierBegin {} => marks.push((event.sequence, number, place, true)),
                Kind::BarrierEnd {} => marks.push((event.sequence, number, place, false)),
                _ => {}
            }
        }
    }
    marks.sort_unstable();
    let mut found = HashMap::new();
    // Who has come since the last barrier opened, and where.
    let mut arrived: BTreeMap<usize, usize> = BTreeMap::new();
    let mut newest = 0;
    let mut barrier = 0;
    for (_, thread, place, begins) in marks {
        if begins {
            arrived.insert(thread, place);
            newest = thread;
        } else if arrived.contains_key(&thread) {
            barrier += 1;
            let members = u16::try_from(arrived.len()).unwrap_or(u16::MAX);
            for (member, place) in std::mem::take(&mut arrived) {
                let arrival = Arrival {
                    barrier,
                    members,
                    last: member == newest,
                };
                found.insert((member, place), arrival);
            }
        }
    }
    found
}

/// By futex: the numbers of the events that wake its waiters, in order.
fn wakes(threads: &[ThreadEvents]) -> HashMap<u64, Vec<u64>> {
    let mut wakes: HashMap<u64, Vec<u64>> = HashMap::new();
    for event in threads.iter().flat_map(|thread| &thread.events) {
        match event.kind {
            Kind::FutexWake { address, .. } | Kind::ThreadEnd { futex: address } if address != 0 => {
                wakes.entry(address).or_default().push(event.sequence);
            }
            _ => {}
        }
    }
    for sequences in wakes.values_mut() {
        sequences.sort_unstable();
    }
    wakes
}

/// The wake that ended a wait.
fn wake(wakes: &HashMap<u64, Vec<u64>>, address: u64, since: u64, end: u64) -> Option<u64> {
    let wakes = wakes.get(&address)?;
    let after = wakes.partition_point(|&wake| wake < since);
    let within = wakes.get(after).filter(|&&wake| wake < end);
    within.or_else(|| wakes[..after].last()).copied()
}

/// All regions, by their begins.
fn region_runs(threads: &[ThreadEvents]) -> Vec<RegionRun> {
    let mut runs = vec![];
    for (number, thread) in threads.iter().enumerate() {
        let mut open: Vec<(u64, u64)> = vec![];
        for event in &thread.events {
            match event.kind {
                Kind::RegionBegin { region, .. } => open.push((region, event.sequence)),
                Kind::RegionEnd { region } => {
                    if let Some(place) = open.iter().rposition(|&(begun, _)| begun == region) {
                        let (region, begin) = open.remove(place);
                        runs.push(RegionRun {
                            region,
                            begin,
                            end: event.sequence,
                            thread: number,
                        });
                    }
                }
                _ => {}
            }
        }
        runs.extend(open.into_iter().map(|(region, begin)| RegionRun {
            region,
            begin,
            end: u64::MAX,
            thread: number,
        }));
    }
    runs.sort_unstable_by_key(|run| (run.begin, run.end));
    runs
}

/// By region: when which thread ended its share.
fn shares_ended(threads: &[ThreadEvents]) -> HashMap<u64, Vec<(u64, usize)>> {
    let mut ended: HashMap<u64, Vec<(u64, usize)>> = HashMap::new();
    for (number, thread) in threads.iter().enumerate() {
        for event in &thread.events {
            if let Kind::WorkEnd { region } = event.kind {
                ended.entry(region).or_default().push((event.sequence, number));
            }
        }
    }
    for shares in ended.values_mut() {
        shares.sort_unstable();
    }
    ended
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

    /// What a thread does that orders it against others, in its order.
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
        let orders = orders(&[parent, child], false);
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
        let orders = orders(&[waiter, waker], false);
        assert_eq!(ordering(&orders[0]), [(EventKind::Wait, 3), (EventKind::Wait, 6)]);
    }

    #[test]
    fn those_who_are_in_a_barrier_when_the_first_leaves_it_are_its_members() {
        let begin = |sequence| (sequence, Kind::BarrierBegin {});
        let end = |sequence| (sequence, Kind::BarrierEnd {});
        let one = thread(0, &[begin(1), end(4), begin(5), end(9)]);
        let other = thread(1, &[begin(2), end(6), begin(7), end(8)]);
        let late = thread(2, &[begin(3), end(10)]);
        let orders = orders(&[one, other, late], false);
        let barriers = |orders: &Orders| {
            let barriers = orders.events.iter().filter(|event| event.kind == EventKind::Barrier);
            barriers.map(|event| (event.payload, event.size)).collect::<Vec<_>>()
        };
        assert_eq!(barriers(&orders[0]), [(1, 3), (2, 2)]);
        assert_eq!(barriers(&orders[1]), [(1, 3), (2, 2)]);
        assert_eq!(barriers(&orders[2]), [(1, 3)]);
        // What precedes the first begin and what follows each end is the program's; what is between is waiting.
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
        let orders = orders(&[leader, worker], false);
        assert_eq!(
            ordering(&orders[0]),
            [(EventKind::Signal, 1), (EventKind::Signal, 5), (EventKind::Wait, 4)]
        );
        assert_eq!(ordering(&orders[1]), [(EventKind::Wait, 1), (EventKind::Signal, 4)]);
        assert!(orders[0].silent(3) && !orders[0].silent(4));
        assert!(orders[1].silent(2));
    }

    #[test]
    fn a_team_that_assembles_does_no_work_and_wakers_call_the_kernel() {
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
        let orders = orders(&[leader, worker], false);
        let silent: Vec<bool> = (0..8).map(|place| orders[0].silent(place)).collect();
        // The second time the leader has no share of its own, so what it does is work.
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
            ],
        );
        let orders = orders(&[thread], true);
        assert_eq!(ordering(&orders[0]), [(EventKind::Signal, 1)]);
        let silent: Vec<bool> = (0..4).map(|place| orders[0].silent(place)).collect();
        assert_eq!(silent, [true, true, false, true]);
    }
}
