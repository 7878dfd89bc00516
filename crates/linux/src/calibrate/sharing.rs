//! Two threads that share data: SAM's first microbenchmark (Srikanthan, Dwarkadas and Shen, USENIX ATC 2015, section
//! 2.1). They take a lock in turn, change the protected data, and compute. The less they compute, the more often they
//! share.
//!
//! The lock alternates between the threads. So each access finds the lines in the other thread's cache, at any speed of
//! the two, and both make the same number of accesses. Lock and data are in separate lines, two lines apart, because
//! some prefetchers load lines in pairs.

use super::CalibrationError;
use super::instructions::{INSTRUCTIONS_A_ROUND, compute_rounds};
use super::team::{CountSource, Uncounted, timed_runs};
use pinfold_core::PuId;
use pinfold_core::measurement::{SharedRuns, TimedRun};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The shared data.
#[derive(Default)]
struct Shared {
    lock: Lock,
    data: Line,
}

#[repr(align(128))]
#[derive(Default)]
struct Line(AtomicU64);

/// A lock that alternates: twice the number of the turn, plus one while it is taken.
#[derive(Default)]
struct Lock(Line);

impl Lock {
    fn take(&self, turn: u64) {
        let word = &self.0.0;
        while word.load(Ordering::Relaxed) != 2 * turn
            || word
                .compare_exchange(2 * turn, 2 * turn + 1, Ordering::Acquire, Ordering::Relaxed)
                .is_err()
        {
            std::hint::spin_loop();
        }
    }

    fn release(&self, turn: u64) {
        self.0.0.store(2 * (turn + 1), Ordering::Release);
    }
}

impl Shared {
    /// Makes the accesses of the thread with the turns `next`, `next + 2`, and so on.
    fn access(&self, next: &mut u64, accesses: u64, instructions: u32) {
        for _ in 0..accesses {
            self.lock.take(*next);
            let data = self.data.0.load(Ordering::Relaxed);
            self.data.0.store(data + 1, Ordering::Relaxed);
            self.lock.release(*next);
            *next += 2;
            compute(instructions);
        }
    }
}

/// Executes this many instructions on registers, rounded down to whole rounds.
fn compute(instructions: u32) {
    let rounds = u64::from(instructions / INSTRUCTIONS_A_ROUND);
    if rounds == 0 {
        return;
    }
    compute_rounds(rounds);
}

/// The duration of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharingEffort {
    /// The least duration of a run.
    pub run: Duration,
    /// The number of rounds.
    pub rounds: usize,
}

/// Measures threads with `instructions` between two accesses, on two PUs `together` and on two `apart`. A round has a
/// run of each, so that a change of the clock or another program disturbs both.
pub fn sharing(
    together: [PuId; 2],
    apart: [PuId; 2],
    instructions: u32,
    effort: SharingEffort,
    source: &dyn CountSource,
) -> Result<SharedRuns, CalibrationError> {
    let accesses = accesses_that_last(apart, instructions, effort.run)?;
    let run = |pus| {
        // The first of the two runs is not counted: it warms up lines, code and clock.
        let mut both = share(pus, instructions, &[accesses / 4 + 1, accesses], source)?;
        Ok(both.pop().expect("two runs"))
    };
    let rounds = (0..effort.rounds.max(1))
        .map(|_| Ok((run(together)?, run(apart)?)))
        .collect::<Result<_, CalibrationError>>()?;
    Ok(SharedRuns { accesses, rounds })
}

/// Both threads make these numbers of accesses, one run each.
fn share(
    pus: [PuId; 2],
    instructions: u32,
    accesses: &[u64],
    source: &dyn CountSource,
) -> Result<Vec<TimedRun>, CalibrationError> {
    let shared = Shared::default();
    let done = timed_runs(
        &pus,
        source,
        accesses,
        |position| Ok(position as u64),
        |next, accesses| shared.access(next, accesses, instructions),
    )?;
    debug_assert_eq!(shared.data.0.into_inner(), 2 * accesses.iter().sum::<u64>());
    Ok(done)
}

/// The number of accesses that takes at least this time.
fn accesses_that_last(pus: [PuId; 2], instructions: u32, least: Duration) -> Result<u64, CalibrationError> {
    const FEWEST: u64 = 16;
    const MOST: u64 = 1 << 30;
    let mut accesses = FEWEST;
    loop {
        let seconds = share(pus, instructions, &[accesses], &Uncounted)?[0].seconds;
        if seconds >= least.as_secs_f64() || accesses >= MOST {
            return Ok(accesses);
        }
        accesses *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affinity::CpuMask;
    use crate::calibrate::team::ThreadCounts;
    use crate::counters::CounterError;
    use pinfold_core::Count;
    use std::thread;

    #[test]
    fn the_lock_goes_round_and_every_access_changes_the_data_once() {
        let shared = Shared::default();
        thread::scope(|scope| {
            for first in 0..2 {
                let shared = &shared;
                scope.spawn(move || {
                    let mut next = first;
                    shared.access(&mut next, 100, 0);
                    assert_eq!(next, 200 + first);
                });
            }
        });
        assert_eq!(shared.data.0.into_inner(), 200);
        assert_eq!(shared.lock.0.0.into_inner(), 400, "free for the 200th turn");
    }

    /// Counts how often it is read.
    struct Asked;

    impl CountSource for Asked {
        fn of_this_thread(&self) -> Result<Box<dyn ThreadCounts + '_>, CounterError> {
            Ok(Box::new(Times(0)))
        }
    }

    struct Times(u64);

    impl ThreadCounts for Times {
        fn totals(&mut self) -> Vec<Option<Count>> {
            self.0 += 1;
            vec![Some(Count::exact(self.0))]
        }
    }

    #[test]
    fn each_round_measures_both_pairs() {
        let pus: Vec<PuId> = CpuMask::of_thread(0).unwrap().pus().take(2).collect();
        let Ok(pair) = <[PuId; 2]>::try_from(pus) else {
            pinfold_testing::skip("two threads that wait for each other need two CPUs, and only one is allowed");
            return;
        };
        let effort = SharingEffort {
            run: Duration::ZERO,
            rounds: 3,
        };
        let measured = sharing(pair, pair, 100, effort, &Asked).unwrap();
        assert_eq!(measured.accesses, 16);
        assert_eq!(measured.rounds.len(), 3);
        for (together, apart) in measured.rounds {
            for run in [together, apart] {
                assert!(run.seconds > 0.0);
                assert_eq!(run.counts, [[Some(1.0)], [Some(1.0)]]);
            }
        }
    }
}
