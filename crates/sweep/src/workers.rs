//! The jobs of a sweep on the cores of this machine.
//!
//! Each worker takes the next job when it has completed one, so no worker waits before the end. The longest jobs come
//! first, which keeps the end short. A job runs in one thread. The calling thread stores each result as it arrives. The
//! caller says how to wait for a signal, because it alone knows which signals end the sweep.

use crate::journal::Outcome;
use anyhow::{Context, Result, bail};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;

/// The end of the work.
pub enum End {
    /// All jobs are done.
    Done,
    /// This signal arrived. Each worker may still run a job.
    Signal(i32),
}

enum Message {
    Done(usize, Result<Outcome>),
    Signal(i32),
}

/// Runs `jobs` by `work` in `workers` threads, in their order, and passes each result to `keep`. The first error ends
/// the work, and so does a signal: `wait_for_signal` returns its number.
pub fn run(
    jobs: Vec<usize>,
    workers: usize,
    wait_for_signal: impl FnOnce() -> io::Result<i32> + Send + 'static,
    work: impl Fn(usize) -> Result<Outcome> + Send + Sync + 'static,
    mut keep: impl FnMut(usize, Outcome) -> Result<()>,
) -> Result<End> {
    let (sender, results) = mpsc::channel();
    let count = jobs.len();
    let shared = Arc::new(Shared {
        jobs,
        next: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
        work,
    });
    let signals = sender.clone();
    // This thread waits for a signal until the process ends.
    thread::spawn(move || {
        if let Ok(signal) = wait_for_signal() {
            // The receiver no longer exists when the sweep is over.
            let _ = signals.send(Message::Signal(signal));
        }
    });
    for _ in 0..workers.min(count) {
        let (shared, sender) = (Arc::clone(&shared), sender.clone());
        thread::spawn(move || shared.serve(&sender));
    }
    for _ in 0..count {
        match results.recv().context("no worker is left")? {
            Message::Done(job, outcome) => {
                let kept = outcome.and_then(|outcome| keep(job, outcome));
                if kept.is_err() {
                    shared.stop.store(true, Ordering::Relaxed);
                }
                kept?;
            }
            Message::Signal(signal) => return Ok(End::Signal(signal)),
        }
    }
    Ok(End::Done)
}

/// The state that the workers share.
struct Shared<W> {
    jobs: Vec<usize>,
    /// The position of the next job.
    next: AtomicUsize,
    stop: AtomicBool,
    work: W,
}

impl<W: Fn(usize) -> Result<Outcome>> Shared<W> {
    fn serve(&self, sender: &Sender<Message>) {
        while !self.stop.load(Ordering::Relaxed) {
            let Some(&job) = self.jobs.get(self.next.fetch_add(1, Ordering::Relaxed)) else {
                return;
            };
            let work = AssertUnwindSafe(|| (self.work)(job));
            let outcome = catch_unwind(work).unwrap_or_else(|_| bail!("a simulation has failed, see above"));
            if sender.send(Message::Done(job, outcome)).is_err() {
                return;
            }
        }
    }
}
