//! The wait of a line behind others where its server is not saturated.
//!
//! Without a measurement, it is the wait of Poisson arrivals at a constant service (M/D/1), by the formula of Pollaczek
//! and Khinchine: service x load / (2 (1 - load)), with the load of the slot before. Real memory makes lines wait much
//! longer at the same load: banks are busy with another row, refresh stops a rank, and a controller reorders requests.
//!
//! A measured curve has the wait at each load. The load is an exponential mean over slots, so that the burst of one
//! thread hardly counts. It contains only slots before the time that every thread has reached. Slots after it are
//! incomplete: threads that run ahead of others have lines there, and the others have none yet. So the wait follows a
//! change of the load with a delay, of a microsecond for a memory of 100 GB/s.

use super::time::Ticks;

/// Lines of a slot: enough to make a slot's load meaningful.
pub(super) const SLOT_LINES: u32 = 32;

/// The M/D/1 wait does not grow beyond this load. The full slots give the wait from there on.
const HIGHEST_LOAD: f64 = 0.95;

/// The mean gives a slot's load this weight: one in 64. So the lines that one core can have in flight, which are about
/// as many as a slot has, change the load by less than two percent.
const WEIGHT_SHIFT: u32 = 6;

/// A slot that was this many slots ago has no part in the mean any more.
const FORGOTTEN: u64 = 16 << WEIGHT_SHIFT;

/// The steps of the load in the table of waits, as a power of two.
const STEPS_SHIFT: u32 = 10;

/// How finely the mean is counted: this fraction of a line, as a power of two.
const FINE_SHIFT: u32 = 10;

/// The mean of a server whose slots are full.
const FULL: u64 = (SLOT_LINES as u64) << (FINE_SHIFT + WEIGHT_SHIFT);

/// The wait of a line whose slot is not full.
#[derive(Clone, Debug)]
pub(super) enum Queueing {
    /// By the lines of the slot before.
    Poisson(Vec<Ticks>),
    /// By a measured curve.
    Measured(MeasuredWait),
}

impl Queueing {
    /// The waits of Poisson arrivals.
    pub(super) fn poisson(service: Ticks) -> Self {
        Self::Poisson((0..=SLOT_LINES).map(|lines| wait_behind(service, lines)).collect())
    }
}

/// The mean wait of a line, by M/D/1, where the slot before served `lines`.
fn wait_behind(service: Ticks, lines: u32) -> Ticks {
    let load = (f64::from(lines) / f64::from(SLOT_LINES)).min(HIGHEST_LOAD);
    #[expect(clippy::cast_sign_loss, reason = "positive and small")]
    let wait = (service as f64 * load / (2.0 * (1.0 - load))) as Ticks;
    wait
}

/// A measured curve, and the load on it.
#[derive(Clone, Debug)]
pub(super) struct MeasuredWait {
    /// The wait by load, in steps.
    waits: Vec<Ticks>,
    /// The mean load; `FULL` where all slots are full.
    load: u64,
    /// The first slot that is not part of the load yet.
    next: u64,
}

impl MeasuredWait {
    /// The waits of a curve through `points`, each a load and its wait, by ascending load. Without load there is no
    /// wait. Above the last point it does not grow: the full slots give the wait from there on.
    pub(super) fn new(points: &[(f64, Ticks)]) -> Self {
        let steps = 1_u32 << STEPS_SHIFT;
        Self {
            waits: (0..=steps)
                .map(|step| between(points, f64::from(step) / f64::from(steps)))
                .collect(),
            load: 0,
            next: 0,
        }
    }

    /// The first slot that is not part of the load yet.
    #[inline]
    pub(super) fn next_slot(&self) -> u64 {
        self.next
    }

    /// Adds the slots up to, but not including, `end`. `lines` returns the lines of a slot.
    pub(super) fn pass(&mut self, end: u64, lines: impl Fn(u64) -> u32) {
        let from = end.saturating_sub(FORGOTTEN);
        if from > self.next {
            self.load = 0;
            self.next = from;
        }
        for slot in self.next..end {
            self.load -= self.load >> WEIGHT_SHIFT;
            self.load += u64::from(lines(slot)) << FINE_SHIFT;
        }
        self.next = end;
    }

    /// The wait at the present load.
    #[inline]
    pub(super) fn wait(&self) -> Ticks {
        self.waits[((self.load << STEPS_SHIFT) / FULL) as usize]
    }
}

/// The wait at a load, on the straight line between two points.
fn between(points: &[(f64, Ticks)], load: f64) -> Ticks {
    let after = points.partition_point(|&(at, _)| at < load);
    let (low, least) = after.checked_sub(1).map_or((0.0, 0), |before| points[before]);
    let Some(&(high, most)) = points.get(after) else {
        return least;
    };
    let share = (load - low) / (high - low);
    #[expect(clippy::cast_sign_loss, reason = "waits are positive and do not fall")]
    let more = ((most - least) as f64 * share) as Ticks;
    least + more
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn after(slots: &[u32]) -> MeasuredWait {
        let mut wait = MeasuredWait::new(&[(0.5, 1000), (0.9, 5000)]);
        wait.pass(slots.len() as u64, |slot| slots[slot as usize]);
        wait
    }

    #[test]
    fn a_steady_load_waits_as_the_curve_says() {
        for (lines, expected) in [(8, 500), (16, 1000), (24, 3500), (32, 5000)] {
            let wait = after(&[lines; 2000]).wait();
            assert!(wait.abs_diff(expected) <= 20, "{lines}: {wait}");
        }
    }

    #[test]
    fn one_full_slot_is_hardly_a_load() {
        let mut slots = vec![0; 100];
        slots[99] = SLOT_LINES;
        assert!(after(&slots).wait() <= 1000 / 32 + 1);
    }

    #[test]
    fn a_load_of_long_ago_is_forgotten() {
        let mut wait = after(&[32; 2000]);
        wait.pass(1_000_000, |_| 0);
        assert_eq!(wait.wait(), 0);
    }

    proptest! {
        #[test]
        fn more_load_never_waits_less(slots in proptest::collection::vec(0..=SLOT_LINES, 1..300), more in 0usize..300) {
            let mut fuller = slots.clone();
            let more = more % slots.len();
            fuller[more] = SLOT_LINES;
            prop_assert!(after(&slots).wait() <= after(&fuller).wait());
        }
    }
}
