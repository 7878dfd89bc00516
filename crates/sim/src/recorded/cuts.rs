//! The places where a window that ends by a count of instructions cuts off each thread.
//!
//! Such a window closes for all threads at once, wherever each of them is. When it is simulated, threads reach these
//! places at different times. From its last recorded instruction in the window on, a thread waits for what lies
//! outside: also at a barrier, because the recording does not have what its partners still do before it.
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

/// Puts `RecordedBegin` where each thread's windows begin, and `RecordedEnd` after its last instruction in each.
/// `worked` is by thread as in `Work`.
pub(super) fn mark(orders: &mut [Orders], threads: &[ThreadEvents], worked: &[Vec<bool>]) {
    let all = || threads.iter().flat_map(|thread| &thread.events);
    let of = |wanted: Kind| {
        let found = all().filter(move |event| event.kind == wanted);
        found.map(|event| event.sequence)
    };
    let closed = of(Kind::WindowEnd {}).max() > of(Kind::WindowBegin {}).max();
    let opened = of(Kind::WindowBegin {}).min();
    for ((orders, thread), worked) in orders.iter_mut().zip(threads).zip(worked) {
        let mut marks = marks(orders, thread, worked, closed);
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

/// The marks of a thread. `closed` means that the last window had closed when the recording ended: a thread that slept
/// then does not say so itself.
fn marks(orders: &Orders, thread: &ThreadEvents, worked: &[bool], closed: bool) -> Vec<(usize, Event)> {
    let mut marks = vec![];
    let (mut begun, mut ended) = (None, None);
    for (place, event) in thread.events.iter().enumerate() {
        if worked[place] && !orders.silent(place) {
            ended = Some(place);
        }
        match event.kind {
            Kind::WindowBegin {} => (begun, ended) = (Some(place), None),
            Kind::WindowEnd {} => marks.extend(of_window(begun.take(), ended.take())),
            // The following events are not omitted work.
            Kind::ThreadEnd { .. } => begun = None,
            _ => {}
        }
    }
    if closed {
        marks.extend(of_window(begun, ended));
    }
    marks
}

fn of_window(begun: Option<usize>, ended: Option<usize>) -> impl Iterator<Item = (usize, Event)> {
    let both = begun.zip(ended);
    both.into_iter().flat_map(|(begun, ended)| {
        [
            (begun, Event::mark(EventKind::RecordedBegin, 0)),
            (ended, Event::mark(EventKind::RecordedEnd, 0)),
        ]
    })
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
