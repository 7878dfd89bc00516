//! The costs of the kernel and of atomic instructions.

use super::CalibrationError;
use super::runs::{Effort, seconds};
use super::threads::pin;
use pinfold_core::PuId;
use pinfold_core::measurement::Measured;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;

/// Repetitions of a run.
const TIMES: u32 = 500;

/// The time of a system call on the calling thread's PU.
pub(super) fn call(effort: Effort) -> Measured {
    let word = AtomicU32::new(0);
    repeated(effort, || wake(&word))
}

pub(super) fn pause(effort: Effort) -> Measured {
    repeated(effort, std::hint::spin_loop)
}

/// Seconds of an atomic addition to a line in the core's L1.
pub(super) fn atomic(effort: Effort) -> Measured {
    let word = AtomicU64::new(0);
    repeated(effort, || {
        word.fetch_add(1, Ordering::SeqCst);
    })
}

fn repeated(effort: Effort, mut work: impl FnMut()) -> Measured {
    let run = || {
        seconds(|| {
            for _ in 0..TIMES {
                work();
            }
        })
    };
    effort.least(run).scaled(1.0 / f64::from(TIMES))
}

/// The time of a wake-up: two threads on one PU wake each other in turn.
pub(super) fn hand_over(pu: PuId, effort: Effort) -> Result<Measured, CalibrationError> {
    let turn = AtomicU32::new(0);
    let turn = &turn;
    let runs = u32::try_from(effort.runs.max(3)).unwrap_or(u32::MAX);
    // Even numbers are the first thread's turns.
    let play = |parity: u32, mut at_turn: Box<dyn FnMut(u32) + Send>| {
        for number in 0..runs * TIMES {
            let mine = 2 * number + parity;
            loop {
                let now = turn.load(Ordering::Acquire);
                if now == mine {
                    break;
                }
                sleep(turn, now);
            }
            at_turn(number);
            turn.store(mine + 1, Ordering::Release);
            wake(turn);
        }
    };
    let play = &play;
    thread::scope(|scope| {
        let other = scope.spawn(move || {
            let pinned = pin(pu);
            play(1, Box::new(|_| {}));
            pinned
        });
        let mine = scope.spawn(move || {
            let pinned = pin(pu);
            let (sender, times) = std::sync::mpsc::channel();
            let mut begin = std::time::Instant::now();
            play(
                0,
                Box::new(move |number| {
                    if number % TIMES == 0 && number > 0 {
                        let _ = sender.send(begin.elapsed().as_secs_f64());
                    }
                    if number % TIMES == 0 {
                        begin = std::time::Instant::now();
                    }
                }),
            );
            pinned.map(|()| times.try_iter().collect::<Vec<f64>>())
        });
        let other = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let times = mine.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        other?;
        Ok(Measured::least(&times)
            .expect("there are at least two runs")
            .scaled(0.5 / f64::from(TIMES)))
    })
}

fn wake(word: &AtomicU32) {
    // SAFETY: the kernel uses the word's address as a key and does not read it.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            1,
        )
    };
}

/// Sleeps while the word is `value`. Spurious wake-ups are possible.
fn sleep(word: &AtomicU32, value: u32) {
    // SAFETY: the kernel reads the word, which lives during the call. A null pointer means no time limit.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            value,
            std::ptr::null::<libc::timespec>(),
        )
    };
}
