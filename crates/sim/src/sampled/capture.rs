//! The second reading of a program: the events of the pieces that may be simulated, and the last thread that touched
//! each line before each piece.
//!
//! The reading is the same as the first one, slice by slice, so a piece begins and ends where the first one cut it. A
//! piece begins with some atoms before it, in which what the record of touches does not have (prefetchers, buffers)
//! warms up. These are not counted (SMARTS's detailed warming: Wunderlich et al., ISCA 2003, section 3.2).

use super::history::History;
use super::logical::{Logical, Manner};
use super::scan::Scan;
use crate::program::SimulatedProgram;
use crate::window::{Event, EventKind, Touch};
use std::collections::{BTreeSet, HashSet};
use std::ops::Range;

/// What of the execution is captured: atoms from the start of the warm-up to the end, and the first counted atom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) atoms: Range<usize>,
    pub(super) counted: usize,
    /// By thread: how many atoms later its part of the piece begins and ends.
    pub(super) ahead: Vec<usize>,
}

impl Wanted {
    /// From the first atom of a thread that is not ahead to the last one of the thread that is most ahead.
    fn span(&self) -> Range<usize> {
        self.atoms.start..self.atoms.end + self.ahead.iter().max().copied().unwrap_or(0)
    }
}

/// The events of a piece.
pub(super) struct Captured {
    /// By thread: its events, including the events that count it.
    pub(super) threads: Vec<Vec<Event>>,
    /// Regions that contain the whole piece.
    pub(super) inside: Vec<u64>,
    /// The number of parts of the history before it.
    pub(super) history: usize,
    /// What threads touched between the end of that history and the begins of their parts, from the newest to the
    /// oldest.
    pub(super) skipped: Vec<Touch>,
    /// Data accesses, including the warm-up's.
    pub(super) accesses: u64,
}

/// Captures pieces, which are in the order of their begins. Each begins a part of the history.
pub(super) fn capture(program: &dyn SimulatedProgram, scan: &Scan, wanted: &[Wanted]) -> (Vec<Captured>, History) {
    let threads = program.threads();
    let mut logical = Logical::new(program);
    let mut history = History::new(&scan.blocks, threads);
    let mut takes: Vec<Take> = wanted.iter().map(|_| Take::new(threads)).collect();
    let mut open: Vec<Vec<u64>> = vec![vec![]; threads];
    let spans: Vec<Range<usize>> = wanted.iter().map(Wanted::span).collect();
    let mut slices = 0;
    for (number, atom) in scan.atoms.iter().enumerate() {
        // By thread: the pieces that have this atom, and those that have a later one of this thread.
        let mut active: Vec<Vec<usize>> = vec![vec![]; threads];
        let mut coming: Vec<Vec<usize>> = vec![vec![]; threads];
        for (place, (wanted, span)) in wanted.iter().zip(&spans).enumerate() {
            if !span.contains(&number) {
                continue;
            }
            if span.start == number {
                history.begin_part();
                takes[place].history = history.parts();
            }
            // All threads have begun.
            if span.end - wanted.atoms.len() == number {
                takes[place].skipped = history.compacted(&takes[place].skipped);
            }
            for (thread, &ahead) in wanted.ahead.iter().enumerate() {
                if wanted.counted + ahead == number {
                    takes[place].begin_counting(thread, &open[thread]);
                }
                if (wanted.atoms.start + ahead..wanted.atoms.end + ahead).contains(&number) {
                    active[thread].push(place);
                } else if (wanted.atoms.start..wanted.atoms.start + ahead).contains(&number) {
                    coming[thread].push(place);
                }
            }
        }
        while slices < atom.slices {
            let slice = logical.slice(|thread, events, manner| {
                let touches = history.see(thread, events);
                for &place in &coming[thread] {
                    takes[place].skipped.extend_from_slice(touches);
                }
                follow_regions(&mut open[thread], events);
                for &place in &active[thread] {
                    takes[place].see(thread, events, manner);
                }
            });
            if slice.is_none() {
                break;
            }
            slices += 1;
        }
    }
    history.begin_part();
    (takes.into_iter().map(Take::finish).collect(), history)
}

fn follow_regions(open: &mut Vec<u64>, events: &[Event]) {
    for event in events {
        match event.kind {
            EventKind::RegionBegin => open.push(event.payload),
            EventKind::RegionEnd => {
                if let Some(place) = open.iter().rposition(|&region| region == event.payload) {
                    open.remove(place);
                }
            }
            _ => {}
        }
    }
}

/// A piece that is being captured.
struct Take {
    threads: Vec<Vec<Event>>,
    /// By thread: its regions when its counting began, and the number of its events before that.
    begun: Vec<(Vec<u64>, usize)>,
    /// Places of events whose thread waited for an event that does not exist.
    released: HashSet<(usize, usize)>,
    history: usize,
    skipped: Vec<Touch>,
}

impl Take {
    fn new(threads: usize) -> Self {
        Self {
            threads: vec![vec![]; threads],
            begun: vec![(vec![], 0); threads],
            released: HashSet::new(),
            history: 0,
            skipped: vec![],
        }
    }

    fn begin_counting(&mut self, thread: usize, open: &[u64]) {
        self.begun[thread] = (open.to_vec(), self.threads[thread].len());
    }

    fn see(&mut self, thread: usize, events: &[Event], manner: Manner) {
        if manner == Manner::Released {
            self.released.insert((thread, self.threads[thread].len()));
        }
        self.threads[thread].extend_from_slice(events);
    }

    fn finish(self) -> Captured {
        let signalled: HashSet<u64> = self
            .threads
            .iter()
            .flatten()
            .filter(|event| event.kind == EventKind::Signal)
            .map(|event| event.payload)
            .collect();
        let (open, begins): (Vec<Vec<u64>>, Vec<usize>) = self.begun.into_iter().unzip();
        let bordered: BTreeSet<u64> = self
            .threads
            .iter()
            .zip(&begins)
            .flat_map(|(events, &begin)| &events[begin..])
            .filter(|event| is_border(event))
            .map(|event| event.payload)
            .collect();
        let inside: BTreeSet<u64> = open.iter().flatten().copied().collect();
        let accesses = self.threads.iter().flatten().filter(|event| is_access(event)).count() as u64;
        let keeps = |thread: usize, place: usize, event: &Event| {
            // A thread passes at once where it waited for what came before the piece, or never comes.
            let waits = matches!(event.kind, EventKind::Wait | EventKind::Barrier);
            let passes = (event.kind == EventKind::Wait && !signalled.contains(&event.payload))
                || (waits && self.released.contains(&(thread, place)));
            !passes && (place >= begins[thread] || !is_border(event))
        };
        let threads = self
            .threads
            .iter()
            .enumerate()
            .map(|(thread, events)| {
                let (before, counted) = events.split_at(begins[thread]);
                let part = |events: &[Event], first: usize| {
                    let kept = events.iter().enumerate();
                    kept.filter(|&(place, event)| keeps(thread, first + place, event))
                        .map(|(_, event)| *event)
                        .collect::<Vec<Event>>()
                };
                let mut all = part(before, 0);
                all.push(Event::mark(EventKind::Count, 0));
                let still_open = || open[thread].iter().filter(|region| bordered.contains(region));
                all.extend(still_open().map(|&region| Event::mark(EventKind::RegionBegin, region)));
                all.extend(part(counted, begins[thread]));
                all.push(Event::mark(EventKind::Count, 0));
                all
            })
            .collect();
        Captured {
            threads,
            inside: inside.difference(&bordered).copied().collect(),
            history: self.history,
            skipped: self.skipped,
            accesses,
        }
    }
}

fn is_border(event: &Event) -> bool {
    matches!(event.kind, EventKind::RegionBegin | EventKind::RegionEnd)
}

fn is_access(event: &Event) -> bool {
    matches!(event.kind, EventKind::Read | EventKind::Write | EventKind::Locked)
}
