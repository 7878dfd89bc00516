//! Bandwidth of memory: streams of loads and stores, from one core and from several at once.

use super::CalibrationError;
use super::instructions::{Vector, load, store, sum, twice};
use super::memory::{Memory, Pages};
use super::runs::Effort;
use super::threads::{Meeting, on, pin};
use pinfold_core::PuId;
use pinfold_core::measurement::{Measured, Traffic};
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

/// A stream of loads and stores.
trait Stream {
    /// Bytes that memory transfers for `bytes` of buffer.
    fn moved(self, bytes: usize) -> usize;
    /// One pass over the memory.
    fn pass(self, memory: &Memory);
}

impl Stream for Traffic {
    fn moved(self, bytes: usize) -> usize {
        match self {
            Self::Read => bytes,
            Self::Write => 2 * bytes,
            // One half is read. Each line of the other half is read and written back.
            Self::Copy => bytes / 2 * 3,
        }
    }

    fn pass(self, memory: &Memory) {
        const VECTOR: usize = size_of::<Vector>();
        let half = memory.bytes() / 2;
        #[expect(clippy::cast_ptr_alignment, reason = "the memory begins with a page")]
        let begin = memory.address(0).cast::<Vector>();
        let vectors = memory.bytes() / VECTOR;
        // SAFETY: the indices stay below the number of vectors in the memory. It starts at a multiple of a page, and no
        // one else uses it meanwhile.
        unsafe {
            match self {
                Self::Read => {
                    let mut sums = [twice(0); 4];
                    for at in (0..vectors).step_by(4) {
                        for (lane, total) in sums.iter_mut().enumerate() {
                            *total = sum(*total, load(begin.add(at + lane)));
                        }
                    }
                    std::hint::black_box(sums);
                }
                Self::Write => {
                    let value = twice(std::hint::black_box(1));
                    for at in 0..vectors {
                        store(begin.add(at), value);
                    }
                }
                Self::Copy => {
                    let other = half / VECTOR;
                    for at in 0..other {
                        store(begin.add(other + at), load(begin.add(at)));
                    }
                }
            }
        }
        std::hint::black_box(begin);
    }
}

/// Runs a stream on each of these PUs at the same time, each through its own `bytes`, which threads on `home` have
/// touched first. Returns the bytes per second of all streams together.
pub(super) fn streaming(
    pus: &[PuId],
    home: PuId,
    bytes: usize,
    traffic: Traffic,
    effort: Effort,
) -> Result<Measured, CalibrationError> {
    let memories = on(home, || {
        pus.iter()
            .map(|_| Memory::new(bytes, Pages::Small))
            .collect::<Result<Vec<Memory>, _>>()
    })??;
    let meeting = Meeting::new(pus.len());
    let failed = Mutex::new(None);
    let memories = &memories;
    let work = |pu: PuId, memory: &Memory| {
        if let Err(error) = pin(pu) {
            failed
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .get_or_insert(error);
        }
        // All streams make the same number of runs, so that they synchronise equally often.
        let runs = effort.runs.max(3);
        let mut times = vec![];
        for _ in 0..runs {
            meeting.meet();
            let begin = Instant::now();
            traffic.pass(memory);
            meeting.meet();
            times.push(begin.elapsed().as_secs_f64());
        }
        times
    };
    let work = &work;
    let measured = thread::scope(|scope| {
        let others: Vec<_> = pus[1..]
            .iter()
            .zip(&memories[1..])
            .map(|(&pu, memory)| scope.spawn(move || work(pu, memory)))
            .collect();
        let first = scope.spawn(move || work(pus[0], &memories[0]));
        let times = first.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        for other in others {
            other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
        Measured::least(&times)
    });
    if let Some(error) = failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        return Err(error);
    }
    let moved = (traffic.moved(bytes) * pus.len()) as f64;
    Ok(measured.expect("there are at least three runs").rate(moved))
}
