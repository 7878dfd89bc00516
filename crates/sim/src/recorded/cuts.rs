//! The places where a window that ends by a count of instructions cuts off each thread.
//!
//! Such a window closes for all threads at once. The recorder waits for a barrier or a border of a parallel region: there
//! all threads wait, and their waiting is the program's own. If none comes, the window closes wherever each thread is.
//! When it is simulated, threads reach these places at different times. From its last recorded instruction in the window
//! on, a thread waits for what lies outside: also at a barrier, because the recording does not have what its partners
//! still do before it.
//!
//! A thread that worked before the window and has no instruction in it had no processor while it was recorded: all its
//! work of that time is missing. A thread that slept or was in a barrier waited as the program does.
//!
//! Known limits: polling that the recording does not mark as waiting counts as work. A thread without an instruction is
//! looked for in the first window only.

use super::order::Orders;
use super::synchronisation::ThreadEvents;
use crate::window::{Event, EventKind};
use pinfold_trace::{Batch, EventKind as Kind};

/// Before which events of a thread it did something.
#[derive(Default)]
pub(super) struct Work {
    /// By event: whether the thread did something since the event before.
    pub(super) before: Vec<bool>,
    /// Whether it has done something since the last event.
    now: bool,
}

impl Work {
    /// The next part of the thread.
    pub(super) fn batch(&mut self, batch: &Batch) {
        let mut done = 0;
        for &(accesses, event) in &batch.events {
            self.before.push(self.now || accesses > done || event.instructions > 0);
            (self.now, done) = (false, accesses);
        }
        self.now |= batch.accesses.len() > done || batch.instructions > 0;
    }
}

/// A thread's part in one window, by places of its events.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    begins: usize,
    /// The event after the last instruction; `None` without an instruction.
    worked_before: Option<usize>,
    /// The event of the window's end; the number of events if the thread did not see it.
    ends: usize,
}

/// Puts `RecordedBegin` where each thread's windows begin, and `RecordedEnd` after its last instruction in each that
/// cuts threads in their work. `worked` is by thread as in `Work`.
pub(super) fn mark(orders: &mut [Orders], threads: &[ThreadEvents], worked: &[Vec<bool>]) {
    let all = || threads.iter().flat_map(|thread| &thread.events);
    let of = |wanted: Kind| {
        let found = all().filter(move |event| event.kind == wanted);
        found.map(|event| event.sequence)
    };
    let closed = of(Kind::WindowEnd {}).max() > of(Kind::WindowBegin {}).max();
    let opened = of(Kind::WindowBegin {}).min();
    let stretches: Vec<Vec<Stretch>> = orders
        .iter()
        .zip(threads)
        .zip(worked)
        .map(|((orders, thread), worked)| stretches(orders, thread, worked, closed))
        .collect();
    let cuts: Vec<u64> = threads
        .iter()
        .zip(&stretches)
        .flat_map(|(thread, stretches)| stretches.iter().filter_map(|stretch| cut(thread, *stretch)))
        .collect();
    for ((orders, thread), stretches) in orders.iter_mut().zip(threads).zip(&stretches) {
        let mut marks = marks(thread, stretches, &cuts);
        if marks.is_empty()
            && let Some(opened) = opened.filter(|_| closed)
            && works_at(thread, opened)
        {
            let later = thread.events.partition_point(|event| event.sequence < opened);
            let place = later.min(thread.events.len() - 1);
            marks.push((place, Event::mark(EventKind::RecordedEnd, 0)));
        }
        orders.put_before(&marks);
    }
}

/// Whether a thread lives at this position of the order of all events, neither asleep nor in a barrier, and has no
/// window.
fn works_at(thread: &ThreadEvents, sequence: u64) -> bool {
    let mut works = false;
    for event in thread.events.iter().take_while(|event| event.sequence < sequence) {
        match event.kind {
            Kind::ThreadEnd { .. } | Kind::FutexWait { .. } | Kind::BarrierBegin {} => works = false,
            Kind::ThreadBegin { .. } | Kind::FutexWaitEnd { .. } | Kind::BarrierEnd {} => works = true,
            _ => {}
        }
    }
    works && thread.events.iter().all(|event| event.kind != Kind::WindowBegin {})
}

/// The stretches of a thread. `closed` means that the last window had closed when the recording ended: a thread that
/// slept then does not say so itself.
fn stretches(orders: &Orders, thread: &ThreadEvents, worked: &[bool], closed: bool) -> Vec<Stretch> {
    let mut found = vec![];
    let mut open: Option<Stretch> = None;
    for (place, event) in thread.events.iter().enumerate() {
        if let Some(stretch) = open.as_mut().filter(|_| worked[place] && !orders.silent(place)) {
            stretch.worked_before = Some(place);
        }
        match event.kind {
            Kind::WindowBegin {} => {
                open = Some(Stretch {
                    begins: place,
                    worked_before: None,
                    ends: thread.events.len(),
                });
            }
            Kind::WindowEnd {} => found.extend(open.take().map(|stretch| Stretch { ends: place, ..stretch })),
            // The following events are not omitted work.
            Kind::ThreadEnd { .. } => open = None,
            _ => {}
        }
    }
    found.extend(open.filter(|_| closed));
    found
}

/// The position, in the order of all events, at which the end of a window cut a thread in its work. `None` if the
/// thread had come to a place where it waits for others.
fn cut(thread: &ThreadEvents, stretch: Stretch) -> Option<u64> {
    let after = &thread.events[stretch.worked_before?..stretch.ends];
    let waits = after.iter().any(|event| {
        matches!(
            event.kind,
            Kind::BarrierBegin {}
                | Kind::FutexWait { .. }
                | Kind::WorkEnd { .. }
                | Kind::RegionBegin { .. }
                | Kind::RegionEnd { .. }
        )
    });
    let end = thread.events.get(stretch.ends)?;
    (!waits).then_some(end.sequence)
}

/// The marks of a thread. `cuts` are the positions at which threads were cut in their work.
fn marks(thread: &ThreadEvents, stretches: &[Stretch], cuts: &[u64]) -> Vec<(usize, Event)> {
    let sequence = |place: usize| thread.events[place].sequence;
    let nexts = stretches.iter().skip(1).map(|next| sequence(next.begins));
    let mut marks = vec![];
    for (stretch, next) in stretches.iter().zip(nexts.chain([u64::MAX])) {
        let Some(worked_before) = stretch.worked_before else {
            continue;
        };
        marks.push((stretch.begins, Event::mark(EventKind::RecordedBegin, 0)));
        let window = sequence(stretch.begins)..next;
        if cuts.iter().any(|cut| window.contains(cut)) {
            marks.push((worked_before, Event::mark(EventKind::RecordedEnd, 0)));
        }
    }
    marks
}

#[cfg(test)]
mod tests {
    use super::super::order;
    use super::*;
    use pinfold_trace::Event as RecordedEvent;

    fn thread(number: u32, events: &[(u64, Kind)]) -> ThreadEvents {
        let events = events.iter().map(|&(sequence, kind)| RecordedEvent {
            sequence,
            instructions: 0,
            kind,
        });
        ThreadEvents {
            number,
            events: events.collect(),
        }
    }

    /// By place: the marks and barriers.
    fn marks(orders: &Orders, places: usize) -> Vec<(usize, EventKind)> {
        let shown = |kind| {
            matches!(
                kind,
                EventKind::RecordedBegin | EventKind::RecordedEnd | EventKind::Barrier
            )
        };
        (0..places)
            .flat_map(|place| orders.in_place_of(place).iter().map(move |event| (place, event.kind)))
            .filter(|&(_, kind)| shown(kind))
            .collect()
    }

    #[test]
    fn a_thread_is_cut_after_its_last_recorded_instruction_also_before_a_barrier() {
        use EventKind::{Barrier, RecordedBegin, RecordedEnd};
        let arrives = [
            (1, Kind::WindowBegin {}),
            (2, Kind::BarrierBegin {}),
            (5, Kind::BarrierEnd {}),
        ];
        let works = [
            (1, Kind::WindowBegin {}),
            (3, Kind::WindowEnd {}),
            (4, Kind::BarrierBegin {}),
        ];
        let mut threads = [thread(0, &arrives), thread(1, &works)];
        threads[0].events.push(RecordedEvent {
            sequence: 6,
            instructions: 0,
            kind: Kind::WindowEnd {},
        });
        let mut orders = order::orders(&threads, true, false);
        let worked = [vec![true, true, true, false], vec![true; 3]];
        mark(&mut orders, &threads, &worked);
        assert_eq!(
            marks(&orders[0], 4),
            [(0, RecordedBegin), (1, RecordedEnd), (1, Barrier)]
        );
        assert_eq!(
            marks(&orders[1], 3),
            [(0, RecordedBegin), (1, RecordedEnd), (2, Barrier)]
        );
    }

    #[test]
    fn a_window_that_closes_where_all_threads_wait_cuts_none() {
        let first = [
            (1, Kind::WindowBegin {}),
            (3, Kind::BarrierBegin {}),
            (5, Kind::BarrierEnd {}),
            (6, Kind::WindowEnd {}),
        ];
        let second = [
            (2, Kind::WindowBegin {}),
            (4, Kind::BarrierBegin {}),
            (7, Kind::WindowEnd {}),
            (8, Kind::BarrierEnd {}),
        ];
        let works = [(2, Kind::WindowBegin {}), (9, Kind::WindowEnd {})];
        let marked = |threads: &[ThreadEvents]| {
            let mut orders = order::orders(threads, true, false);
            // Only the first leaver's part between barrier and window's end has no instruction.
            let worked = vec![vec![true, true, true, false]; threads.len()];
            mark(&mut orders, threads, &worked);
            let ends = |orders: &Orders| {
                let kinds = marks(orders, 2);
                kinds.iter().filter(|(_, kind)| *kind == EventKind::RecordedEnd).count()
            };
            orders.iter().map(ends).collect::<Vec<_>>()
        };
        let together = [thread(0, &first), thread(1, &second)];
        assert_eq!(marked(&together), [0, 0]);
        let [first, second] = together;
        let apart = [first, second, thread(2, &works)];
        assert_eq!(
            marked(&apart),
            [1, 1, 1],
            "one works on, so the others wait for what is not recorded"
        );
    }

    #[test]
    fn a_thread_that_ends_in_the_window_is_not_cut_and_one_that_sleeps_at_its_end_is() {
        let ends = [(1, Kind::WindowBegin {}), (3, Kind::ThreadEnd { futex: 0 })];
        let sleeps = [(2, Kind::WindowBegin {}), (4, Kind::FutexWait { address: 8 })];
        let last = [(2, Kind::WindowBegin {}), (5, Kind::WindowEnd {})];
        let threads = [thread(0, &ends), thread(1, &sleeps), thread(2, &last)];
        let worked = vec![vec![true; 2]; 3];
        let cut = |threads: &[ThreadEvents]| {
            let mut orders = order::orders(threads, true, false);
            mark(&mut orders, threads, &worked);
            orders
                .iter()
                .map(|orders| !marks(orders, 2).is_empty())
                .collect::<Vec<_>>()
        };
        assert_eq!(cut(&threads), [false, true, true]);
        assert_eq!(cut(&threads[..2]), [false, false], "the program ended in the window");
    }

    #[test]
    fn a_thread_that_had_no_processor_in_the_window_lacks_all_of_it_and_a_sleeping_one_nothing() {
        let windowed = [(4, Kind::WindowBegin {}), (5, Kind::WindowEnd {})];
        let begun = (1, Kind::ThreadBegin { parent: 0 });
        let late = [begun, (6, Kind::BarrierBegin {})];
        let asleep = [begun, (3, Kind::FutexWait { address: 8 })];
        let threads = [thread(0, &windowed), thread(1, &late), thread(2, &asleep)];
        let mut orders = order::orders(&threads, true, false);
        mark(&mut orders, &threads, &vec![vec![true; 2]; 3]);
        assert_eq!(marks(&orders[1], 2), [(1, EventKind::RecordedEnd)]);
        assert_eq!(marks(&orders[2], 2), []);
    }
}
