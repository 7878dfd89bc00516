//! The waiting of threads for each other in a recording: barriers, wakes, parallel regions and their shares, the
//! creation of threads.
//!
//! Places are positions among the events of a thread; sequence numbers order the events of all threads.

use pinfold_trace::{Event as RecordedEvent, EventKind as Kind};
use std::collections::{BTreeMap, HashMap};

/// The events of one thread.
pub(super) struct ThreadEvents {
    /// The recording's number of the thread.
    pub(super) number: u32,
    pub(super) events: Vec<RecordedEvent>,
}

/// One thread's arrival at a barrier.
#[derive(Clone, Copy)]
pub(super) struct Arrival {
    pub(super) barrier: u64,
    pub(super) members: u16,
    /// It arrived last when the program was recorded.
    pub(super) last: bool,
}

/// A region from its first thread's begin to its end.
pub(super) struct RegionRun {
    region: u64,
    pub(super) begin: u64,
    end: u64,
    pub(super) thread: usize,
}

/// All events that order the threads of a recording.
pub(super) struct Synchronisation {
    /// By thread and place of the arrival.
    barriers: HashMap<(usize, usize), Arrival>,
    wakes: HashMap<u64, Vec<u64>>,
    runs: Vec<RegionRun>,
    shares_ended: HashMap<u64, Vec<(u64, usize)>>,
    /// By the recording's number of the thread.
    created: HashMap<u64, u64>,
}

impl Synchronisation {
    pub(super) fn of(threads: &[ThreadEvents]) -> Self {
        Self {
            barriers: barriers(threads),
            wakes: wakes(threads),
            runs: region_runs(threads),
            shares_ended: shares_ended(threads),
            created: created(threads),
        }
    }

    /// Whether a thread begins regions.
    pub(super) fn leads(&self, thread: usize) -> bool {
        self.runs.iter().any(|run| run.thread == thread)
    }

    /// The event that created a thread, by the recording's number of the thread.
    pub(super) fn creation(&self, thread: u32) -> Option<u64> {
        self.created.get(&u64::from(thread)).copied()
    }

    /// The arrival at a barrier that opened, by thread and place.
    pub(super) fn arrival(&self, thread: usize, place: usize) -> Option<Arrival> {
        self.barriers.get(&(thread, place)).copied()
    }

    /// The wake that ended a wait on a futex.
    pub(super) fn wake(&self, address: u64, since: u64, end: u64) -> Option<u64> {
        let wakes = self.wakes.get(&address)?;
        let after = wakes.partition_point(|&wake| wake < since);
        let within = wakes.get(after).filter(|&&wake| wake < end);
        within.or_else(|| wakes[..after].last()).copied()
    }

    /// The last execution of a region that began before `sequence`.
    pub(super) fn run_at(&self, region: u64, sequence: u64) -> Option<&RegionRun> {
        let earlier = &self.runs[..self.runs.partition_point(|run| run.begin < sequence)];
        earlier.iter().rfind(|run| run.region == region)
    }

    /// The end of each share of a region from `begin` to `end`, with its thread.
    pub(super) fn shares_ended(&self, region: u64, begin: u64, end: u64) -> &[(u64, usize)] {
        let shares = self.shares_ended.get(&region).map_or(&[][..], Vec::as_slice);
        let first = shares.partition_point(|&(sequence, _)| sequence < begin);
        let last = shares.partition_point(|&(sequence, _)| sequence <= end);
        shares.get(first..last).unwrap_or_default()
    }
}

/// By created thread: the event that created it.
fn created(threads: &[ThreadEvents]) -> HashMap<u64, u64> {
    let events = threads.iter().flat_map(|thread| &thread.events);
    let creations = events.filter_map(|event| match event.kind {
        Kind::ThreadCreate { thread } => Some((thread, event.sequence)),
        _ => None,
    });
    creations.collect()
}

/// The barriers that opened, by thread and place of the arrival.
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
    // The threads that have arrived since the last barrier opened, and the places of their arrivals.
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

/// All executions of regions, by their begins.
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

/// By region: the end of each share with its thread, in order.
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
