//! For how long a thread waits for events outside the recording.
//!
//! - A window that is cut by a count of instructions ends for each thread at another place of the program. From its
//!   last recorded instruction on, a thread has nothing to do while the others go on: `begin`, until `end`.
//! - A thread that waits for an event that never comes is released at its own clock when no thread of its team can run.
//!   That takes no simulated time. Counted is the time by which the others had gone on until then.
//!
//! The two may overlap, and a released thread runs in a time that the second one counts. Each time counts once, so the
//! sum is at most the time of the window.

use super::time::Ticks;

/// The time of one thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unrecorded {
    /// Since when the thread has had nothing recorded to do.
    since: Option<Ticks>,
    /// All time before this has been counted.
    counted_until: Ticks,
    total: Ticks,
}

impl Unrecorded {
    /// The thread has executed its last recorded instruction.
    pub(crate) fn begin(&mut self, now: Ticks) {
        self.since.get_or_insert(now);
    }

    /// The thread has recorded instructions again.
    pub(crate) fn end(&mut self, now: Ticks) {
        if let Some(since) = self.since.take() {
            self.add(since, now);
        }
    }

    /// The thread, whose time is `clock`, was released when the others had come to `others`.
    pub(crate) fn release(&mut self, clock: Ticks, others: Ticks) {
        self.add(self.since.unwrap_or(clock), others);
    }

    /// The time until `now`.
    pub(crate) fn until(&self, now: Ticks) -> Ticks {
        let open = self
            .since
            .map_or(0, |since| now.saturating_sub(since.max(self.counted_until)));
        self.total + open
    }

    fn add(&mut self, from: Ticks, to: Ticks) {
        let from = from.max(self.counted_until);
        if to > from {
            self.total += to - from;
            self.counted_until = to;
        }
    }
}

/// The share of `cycles` in the time of all threads of a window; `None` for a window without time.
pub(crate) fn share(cycles: f64, threads: usize, window_cycles: f64) -> Option<f64> {
    let all = threads as f64 * window_cycles;
    (all > 0.0).then(|| (cycles / all).clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_two_reasons_share_counts_once() {
        let mut thread = Unrecorded::default();
        thread.release(10, 50);
        thread.release(20, 50);
        assert_eq!(thread.until(30), 40);
        thread.begin(40);
        assert_eq!(thread.until(60), 50);
        thread.release(45, 70);
        thread.end(80);
        assert_eq!(thread.until(100), 70);
    }
}
