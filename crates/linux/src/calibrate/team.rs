//! Threads on chosen PUs that run at the same time, timed and counted.
//!
//! Each thread is pinned on its PU, prepares its data, and opens its counters. For each run all threads synchronise,
//! work, and synchronise again. Counts are read before the second synchronisation, so that waiting for the others is
//! not counted. After the last run the threads end, and their masks and counters end with them.

use super::CalibrationError;
use super::threads::{Meeting, pin};
use crate::counters::{CounterError, Plan, TaskCounters};
use pinfold_core::measurement::TimedRun;
use pinfold_core::{Count, PuId};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

/// The source of counts: the hardware, or a test.
pub trait CountSource: Sync {
    /// Opens and starts the counters of the calling thread.
    fn of_this_thread(&self) -> Result<Box<dyn ThreadCounts + '_>, CounterError>;
}

/// The counters of one thread.
pub trait ThreadCounts {
    /// The totals so far, always in the same order. `None` for a count that is not available.
    fn totals(&mut self) -> Vec<Option<Count>>;
}

impl CountSource for Plan {
    fn of_this_thread(&self) -> Result<Box<dyn ThreadCounts + '_>, CounterError> {
        Ok(Box::new(self.open(0)?))
    }
}

impl ThreadCounts for TaskCounters {
    fn totals(&mut self) -> Vec<Option<Count>> {
        self.read()
    }
}

/// Counts nothing. It serves runs that are only timed.
pub(super) struct Uncounted;

impl CountSource for Uncounted {
    fn of_this_thread(&self) -> Result<Box<dyn ThreadCounts + '_>, CounterError> {
        Ok(Box::new(Self))
    }
}

impl ThreadCounts for Uncounted {
    fn totals(&mut self) -> Vec<Option<Count>> {
        vec![]
    }
}

/// A thread on each of `pus` creates its data with `prepare`, which gets the thread's position. Then it does `work`
/// with the data for each of `amounts`. Returns one run for each amount.
pub(super) fn timed_runs<M>(
    pus: &[PuId],
    source: &dyn CountSource,
    amounts: &[u64],
    prepare: impl Fn(usize) -> Result<M, CalibrationError> + Sync,
    work: impl Fn(&mut M, u64) + Sync,
) -> Result<Vec<TimedRun>, CalibrationError> {
    let meeting = Meeting::new(pus.len());
    let given_up = AtomicBool::new(false);
    let one = |position: usize| {
        let ready = pin(pus[position]).and_then(|()| {
            let counters = source.of_this_thread().map_err(CalibrationError::Counters)?;
            Ok((prepare(position)?, counters))
        });
        given_up.fetch_or(ready.is_err(), Ordering::AcqRel);
        meeting.meet();
        let (mut member, mut counters) = ready?;
        if given_up.load(Ordering::Acquire) {
            // Another thread returns the error.
            return Ok(vec![]);
        }
        let mut timed = vec![];
        for &amount in amounts {
            meeting.meet();
            let before = counters.totals();
            let begin = Instant::now();
            work(&mut member, amount);
            let after = counters.totals();
            meeting.meet();
            timed.push((begin.elapsed().as_secs_f64(), growth(&before, &after)));
        }
        Ok(timed)
    };
    let one = &one;
    let by_thread = thread::scope(|scope| {
        let threads: Vec<_> = (0..pus.len())
            .map(|position| scope.spawn(move || one(position)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<Result<Vec<_>, CalibrationError>>()
    })?;
    Ok((0..amounts.len())
        .map(|run| TimedRun {
            seconds: by_thread.iter().map(|thread| thread[run].0).fold(0.0, f64::max),
            counts: by_thread.iter().map(|thread| thread[run].1.clone()).collect(),
        })
        .collect())
}

fn growth(before: &[Option<Count>], after: &[Option<Count>]) -> Vec<Option<f64>> {
    let pairs = before.iter().zip(after);
    pairs
        .map(|(before, after)| after.as_ref()?.since(before.as_ref()?))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affinity::CpuMask;
    use std::sync::atomic::AtomicU64;

    /// Each thread's first total is the sum over all threads so far. Each reading adds ten to it, except for the second
    /// event.
    struct Tens(AtomicU64);

    impl CountSource for Tens {
        fn of_this_thread(&self) -> Result<Box<dyn ThreadCounts + '_>, CounterError> {
            Ok(Box::new(Total(self.0.load(Ordering::Relaxed))))
        }
    }

    struct Total(u64);

    impl ThreadCounts for Total {
        fn totals(&mut self) -> Vec<Option<Count>> {
            self.0 += 10;
            vec![Some(Count::exact(self.0)), None]
        }
    }

    fn allowed() -> Vec<PuId> {
        CpuMask::of_thread(0).unwrap().pus().collect()
    }

    #[test]
    fn every_thread_does_every_piece_on_its_pu_and_is_counted() {
        let pus: Vec<PuId> = allowed().into_iter().take(2).collect();
        let done = AtomicU64::new(0);
        let work = |pu: &mut PuId, amount| {
            assert_eq!(CpuMask::of_thread(0).unwrap().only(), Some(*pu));
            done.fetch_add(amount, Ordering::Relaxed);
        };
        let source = Tens(AtomicU64::new(1000));
        let runs = timed_runs(&pus, &source, &[1, 20, 300], |position| Ok(pus[position]), work).unwrap();
        assert_eq!(done.into_inner(), 321 * pus.len() as u64);
        assert_eq!(runs.len(), 3);
        for run in runs {
            assert!(run.seconds > 0.0);
            assert_eq!(run.counts, vec![vec![Some(10.0), None]; pus.len()]);
        }
    }

    #[test]
    fn a_thread_that_cannot_prepare_ends_all_with_its_error() {
        let pus: Vec<PuId> = allowed().into_iter().take(2).collect();
        let refuse = |position| {
            if position + 1 < pus.len() {
                return Ok(());
            }
            Err(CalibrationError::LittleMemory {
                available: 1,
                needed: 2,
            })
        };
        let error = timed_runs(&pus, &Uncounted, &[1], refuse, |(), _| panic!("no thread works")).unwrap_err();
        assert!(matches!(error, CalibrationError::LittleMemory { .. }), "{error}");
    }

    #[test]
    fn a_pu_that_does_not_exist_is_named() {
        let error = timed_runs(&[PuId(65_000)], &Uncounted, &[1], |_| Ok(()), |(), _| {}).unwrap_err();
        assert!(error.to_string().contains("65000"), "{error}");
    }
}
