//! A resource with a bandwidth: the memory of a node, one direction of a link, a bus.
//!
//! Time is divided into slots, and a slot serves a limited number of lines. An arriving line is served in the slot of
//! its arrival, or in the first later slot that is not full. The wait until then is the queueing of a saturated server,
//! whose bandwidth is exact. A line whose slot is not full waits behind others by a formula or by a measured curve
//! (`queueing`). Where slots are full, a server with a curve makes a line wait for its slot, and at least as long as
//! the curve says.
//!
//! A single time at which the server is free next would not do: a line that is simulated later but arrives before an
//! already served one must not wait behind it. The simulated threads run ahead of each other by a quantum, and a thread
//! whose loads form a chain issues all those of its reorder buffer at once, the last of them many latencies ahead. So
//! every slot is remembered until no thread can reach it any more. (A limited number of slots is wrong: a chain that
//! runs ahead of it delays all others, whose chains then run ahead even farther, and so on without end.)
//!
//! A written line may take longer than a read one: DRAM turns its bus around between reads and writes, and recovers
//! from a write before it opens another row.

use super::queueing::{MeasuredWait, Queueing, SLOT_LINES};
use super::time::Ticks;
use std::collections::VecDeque;

/// Slots are remembered and forgotten this many at a time.
const BLOCK: usize = 1024;

#[derive(Clone, Debug)]
pub(crate) struct Server {
    /// Service time of one line.
    service: Ticks,
    width: Ticks,
    /// Lines served in each slot from `oldest` on. A full slot has `SLOT_LINES`, and the number of slots after it that
    /// are known to be full.
    taken: VecDeque<u32>,
    queueing: Queueing,
    /// The oldest remembered slot.
    oldest: u64,
    served: u64,
    /// How much longer the service of a written line is than of a read line, in `WHOLE`ths, and the sum not served yet.
    write_surplus: u32,
    owed: u32,
}

/// The unit of the surplus of writes: this fraction of a line's service.
const WHOLE: u32 = 256;

impl Server {
    /// A server with the service time `service` for a line.
    pub(crate) fn new(service: Ticks) -> Self {
        let service = service.max(1);
        Self {
            service,
            width: service * Ticks::from(SLOT_LINES),
            taken: VecDeque::new(),
            queueing: Queueing::poisson(service),
            oldest: 0,
            served: 0,
            write_surplus: 0,
            owed: 0,
        }
    }

    /// The same server, where a write takes `ratio` times as long as a read. `ratio` is at least 1.
    pub(crate) fn with_write_cost(mut self, ratio: f64) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a ratio is checked to be small and at least 1"
        )]
        let surplus = ((ratio - 1.0) * f64::from(WHOLE)).round() as u32;
        self.write_surplus = surplus;
        self
    }

    /// The same server with measured waits: each of `points` is a load and the wait at it, by ascending load.
    pub(crate) fn with_waits(mut self, points: &[(f64, Ticks)]) -> Self {
        self.queueing = Queueing::Measured(MeasuredWait::new(points));
        self
    }

    /// Lines served.
    pub(crate) fn served(&self) -> u64 {
        self.served
    }

    /// Serves a line that arrives at `time`. Returns the wait before its service. No line arrives before `floor` any
    /// more, except for threads that others had to release: such a line does not wait if its slot is forgotten.
    pub(crate) fn serve(&mut self, time: Ticks, floor: Ticks) -> Ticks {
        self.served += 1;
        self.occupy(time, floor)
    }

    /// How long a line that arrived at `time` would wait for a slot.
    pub(crate) fn backlog(&self, time: Ticks) -> Ticks {
        let arrival = time / self.width;
        let mut slot = arrival;
        while let Some(place) = slot.checked_sub(self.oldest) {
            match self.taken.get(place as usize) {
                Some(taken) if *taken >= SLOT_LINES => slot += u64::from(*taken - SLOT_LINES) + 1,
                _ => break,
            }
        }
        if slot > arrival { slot * self.width - time } else { 0 }
    }

    /// Serves a written line. No thread waits for it. The additional time over a read is added up. When the sum reaches
    /// the service of a line, it occupies the server like one.
    pub(crate) fn serve_write(&mut self, time: Ticks, floor: Ticks) {
        self.serve(time, floor);
        self.owed += self.write_surplus;
        while self.owed >= WHOLE {
            self.owed -= WHOLE;
            self.occupy(time, floor);
        }
    }

    /// Occupies the server with a line that arrives at `time`. Returns the wait before its service.
    fn occupy(&mut self, time: Ticks, floor: Ticks) -> Ticks {
        let least = self.measured_wait(floor);
        let arrival = time / self.width;
        if arrival < self.oldest {
            return 0;
        }
        let mut slot = arrival;
        let before = loop {
            match self.taken.get_mut((slot - self.oldest) as usize) {
                Some(taken) if *taken < SLOT_LINES => {
                    *taken += 1;
                    break *taken - 1;
                }
                Some(taken) => slot += u64::from(*taken - SLOT_LINES) + 1,
                None => self.remember(slot, floor),
            }
        };
        if slot > arrival {
            if let Some(place) = arrival.checked_sub(self.oldest) {
                self.taken[place as usize] = SLOT_LINES + u32::try_from(slot - arrival - 1).unwrap_or(0);
            }
            let until = slot * self.width + Ticks::from(before) * self.service;
            return until.saturating_sub(time).max(least);
        }
        match (&self.queueing, (slot - self.oldest).checked_sub(1)) {
            (Queueing::Poisson(waits), Some(previous)) => waits[self.taken[previous as usize].min(SLOT_LINES) as usize],
            _ => least,
        }
    }

    /// The measured wait at the load of the slots before `floor`; 0 without measured waits.
    #[inline]
    fn measured_wait(&mut self, floor: Ticks) -> Ticks {
        let Queueing::Measured(measured) = &mut self.queueing else {
            return 0;
        };
        if floor >= (measured.next_slot() + 1) * self.width {
            let (taken, oldest) = (&self.taken, self.oldest);
            measured.pass(floor / self.width, |slot| {
                let place = slot.checked_sub(oldest).map(|place| place as usize);
                place
                    .and_then(|place| taken.get(place))
                    .map_or(0, |&lines| lines.min(SLOT_LINES))
            });
        }
        measured.wait()
    }

    /// Makes room for a slot, and forgets those before the one before `floor`.
    #[cold]
    fn remember(&mut self, slot: u64, floor: Ticks) {
        let oldest = (floor / self.width).saturating_sub(1).clamp(self.oldest, slot);
        let forgotten = (oldest - self.oldest) as usize;
        self.taken.drain(..forgotten.min(self.taken.len()));
        self.oldest = oldest;
        let room = (slot - self.oldest) as usize + BLOCK;
        self.taken.resize(room.max(self.taken.len()), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_saturated_server_serves_exactly_its_bandwidth() {
        let mut server = Server::new(700);
        let lines: Ticks = 10_000;
        let mut last = 0;
        // Each line arrives as soon as the one 64 before it was served, as from a core with many misses in flight.
        let mut done = VecDeque::from(vec![0; 64]);
        for _ in 0..lines {
            let arrival = done.pop_front().unwrap();
            let served = arrival + server.serve(arrival, arrival) + 700;
            done.push_back(served);
            last = last.max(served);
        }
        let relative = last as f64 / (lines * 700) as f64;
        assert!((relative - 1.0).abs() < 0.01, "{relative}");
    }

    #[test]
    fn measured_waits_leave_the_bandwidth_of_a_saturated_server_exact() {
        let mut server = Server::new(700).with_waits(&[(0.5, 7000), (0.95, 28_000)]);
        let lines: Ticks = 10_000;
        let mut done = VecDeque::from(vec![0; 64]);
        for _ in 0..lines {
            let arrival = done.pop_front().unwrap();
            done.push_back(arrival + server.serve(arrival, arrival) + 700);
        }
        let relative = done[63] as f64 / (lines * 700) as f64;
        assert!((relative - 1.0).abs() < 0.01, "{relative}");
    }

    #[test]
    fn lines_wait_as_long_as_was_measured_at_their_load() {
        for (gap, expected) in [(1000, 100), (200, 500), (125, 1500)] {
            let mut server = Server::new(100).with_waits(&[(0.5, 500), (0.8, 1500)]);
            let waits: Vec<Ticks> = (0..20_000)
                .map(|line| server.serve(line * gap, line * gap))
                .skip(10_000)
                .collect();
            let mean = waits.iter().sum::<Ticks>() as f64 / waits.len() as f64;
            assert!((mean / f64::from(expected) - 1.0).abs() < 0.02, "{gap}: {mean}");
        }
    }

    #[test]
    fn the_backlog_is_the_wait_of_the_next_line_for_a_slot() {
        let mut server = Server::new(100);
        assert_eq!(server.backlog(50), 0);
        for _ in 0..10 * SLOT_LINES {
            server.serve(0, 0);
        }
        let slots = 10 * Ticks::from(SLOT_LINES) * 100;
        assert_eq!(
            (server.backlog(0), server.backlog(50), server.backlog(slots)),
            (slots, slots - 50, 0)
        );
        assert_eq!(server.backlog(0), server.serve(0, 0));
    }

    #[test]
    fn lines_ahead_of_the_floor_are_no_load_yet() {
        let mut server = Server::new(100).with_waits(&[(1.0, 100_000)]);
        let waits: Vec<Ticks> = (0..10_000).map(|line| server.serve(line * 100, 0)).collect();
        assert!(waits.iter().all(|&wait| wait == 0));
    }

    #[test]
    fn a_line_that_is_simulated_late_but_arrives_early_does_not_wait_behind_later_ones() {
        let mut server = Server::new(100);
        server.serve(100_000, 0);
        assert_eq!(server.serve(50_000, 50_000), 0);
    }

    #[test]
    fn threads_far_apart_do_not_delay_each_other_more_and_more() {
        const CHAIN: usize = 1000;
        let mut server = Server::new(100);
        let mut clocks: [Ticks; 2] = [0; 2];
        for turn in 0..200 {
            let floor = clocks[turn % 2];
            // Each load of a chain arrives when its predecessor has been served.
            for _ in 0..CHAIN {
                let clock = &mut clocks[turn % 2];
                *clock += server.serve(*clock, floor) + 100_000;
            }
        }
        // The load is one line in a thousand services.
        let unloaded = (100 * CHAIN * 100_000) as f64;
        for clock in clocks {
            assert!((clock as f64 / unloaded - 1.0).abs() < 0.01, "{clocks:?}");
        }
        // A chain is 31250 slots long.
        assert!(server.taken.len() < 3 * 31_250, "{}", server.taken.len());
    }

    #[test]
    fn a_write_takes_longer_by_its_cost() {
        let last = |cost: f64, write: bool| {
            let mut server = Server::new(100).with_write_cost(cost);
            for _ in 0..12_800 {
                if write {
                    server.serve_write(0, 0);
                } else {
                    server.serve(0, 0);
                }
            }
            assert_eq!(server.served(), 12_800);
            server.serve(0, 0)
        };
        let relative = last(1.5, true) as f64 / last(1.5, false) as f64;
        assert!((relative - 1.5).abs() < 0.01, "{relative}");
        assert_eq!(last(1.0, true), last(1.0, false));
    }

    #[test]
    fn the_mean_wait_grows_with_the_load() {
        let mean = |gap: Ticks| {
            let mut server = Server::new(100);
            (0..5000)
                .map(|line| server.serve(line * gap, line * gap))
                .sum::<Ticks>() as f64
                / 5000.0
        };
        let waits: Vec<f64> = [1000, 400, 200, 150, 110, 90, 50].into_iter().map(mean).collect();
        assert!(waits.is_sorted(), "{waits:?}");
        assert!(waits[0] < 10.0 && waits[6] > 1000.0, "{waits:?}");
    }

    proptest! {
        #[test]
        fn each_line_is_served_in_a_slot_with_room_for_it(times in proptest::collection::vec(0u64..2_000_000, 1..3000)) {
            let mut server = Server::new(1000);
            for &time in &times {
                server.serve(time, 0);
            }
            prop_assert_eq!(server.served(), times.len() as u64);
            let lines = server.taken.iter().map(|&taken| u64::from(taken.min(SLOT_LINES)));
            prop_assert_eq!(lines.sum::<u64>(), server.served());
        }
    }
}
