//! Two PUs: the transfer time of a line between them, and whether they share a core.

use super::CalibrationError;
use super::core::Loop;
use super::instructions::evict;
use super::memory::{LINE, Memory, Pages, lines, shuffled};
use super::runs::{Effort, seconds};
use super::threads::{Meeting, on, pin};
use pinfold_core::PuId;
use pinfold_core::measurement::{Measured, PairMeasurement};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// Lines per transfer: enough that the cost of reading the clock is small, few enough for an L1.
const LINES: usize = 256;

/// Round trips of a run.
const TRIPS: u64 = 200;

/// Measures a pair of PUs.
pub(super) fn measure(first: PuId, second: PuId, effort: Effort) -> Result<PairMeasurement, CalibrationError> {
    Ok(PairMeasurement {
        pus: (first, second),
        ping_pong: ping_pong(first, second, effort)?,
        modified: transfer(first, second, true, effort)?,
        clean: transfer(first, second, false, effort)?,
        atomic: atomics(first, second, effort)?,
        throughput: throughput(first, second, effort)?,
    })
}

/// Runs `partner` on `first` until it is stopped, and meanwhile `work` on `second`.
fn with_partner<T: Send>(
    first: PuId,
    second: PuId,
    partner: impl FnOnce(&AtomicBool) + Send,
    work: impl FnOnce() -> T + Send,
) -> Result<T, CalibrationError> {
    let stop = AtomicBool::new(false);
    // Both threads are pinned before one waits for the other, so that an error ends both.
    on(first, || ())?;
    thread::scope(|scope| {
        let stop = &stop;
        scope.spawn(move || {
            let pinned = pin(first);
            partner(stop);
            pinned
        });
        let result = on(second, work);
        stop.store(true, Ordering::Release);
        result
    })
}

fn ping_pong(first: PuId, second: PuId, effort: Effort) -> Result<Measured, CalibrationError> {
    #[repr(align(128))]
    struct Ball(AtomicU64);
    let ball = Ball(AtomicU64::new(0));
    let ball = &ball;
    // The second thread answers an odd number with the next even one.
    let partner = move |stop: &AtomicBool| {
        let mut seen = 0;
        while !stop.load(Ordering::Relaxed) {
            let now = ball.0.load(Ordering::Acquire);
            if now != seen && now % 2 == 1 {
                seen = now + 1;
                ball.0.store(seen, Ordering::Release);
            }
        }
    };
    let work = move || {
        let mut number = 0;
        effort.least(|| {
            seconds(|| {
                for _ in 0..TRIPS {
                    number += 1;
                    ball.0.store(number, Ordering::Release);
                    number += 1;
                    while ball.0.load(Ordering::Acquire) != number {
                        std::hint::spin_loop();
                    }
                }
            })
        })
    };
    let measured = with_partner(first, second, partner, work)?;
    Ok(measured.scaled(0.5 / TRIPS as f64))
}

fn atomics(first: PuId, second: PuId, effort: Effort) -> Result<Measured, CalibrationError> {
    #[repr(align(128))]
    struct Line(AtomicU64);
    let all: Vec<Line> = (0..LINES).map(|_| Line(AtomicU64::new(0))).collect();
    let all = &all;
    let order = shuffled((0..LINES).collect());
    let modify = || {
        for line in all {
            line.0.store(0, Ordering::Relaxed);
        }
    };
    let add = || {
        seconds(|| {
            for &place in &order {
                all[place].0.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    in_turn(first, second, effort, modify, add)
}

fn transfer(first: PuId, second: PuId, modified: bool, effort: Effort) -> Result<Measured, CalibrationError> {
    let memory = on(first, || Memory::new(2 * LINES * LINE, Pages::Huge))??;
    let memory = &memory;
    let places: Vec<usize> = lines(2 * LINES * LINE)
        .into_iter()
        // Uses every second line, so that no line is loaded with its neighbour.
        .filter(|place| place.is_multiple_of(2 * LINE))
        .collect();
    let places = &places;
    let mut received = memory.chain(places);
    let prepare = || {
        let mut chain = memory.chain(places);
        if !modified {
            // SAFETY: the addresses are within the memory, which `address` checks.
            unsafe { evict(places.iter().map(|&place| memory.address(place))) };
            chain.follow(LINES);
        }
    };
    in_turn(first, second, effort, prepare, || seconds(|| received.follow(LINES)))
}

/// The first thread prepares lines and the second one times its accesses to them, repeatedly. Returns the seconds per
/// line.
fn in_turn(
    first: PuId,
    second: PuId,
    effort: Effort,
    prepare: impl Fn() + Sync,
    mut timed: impl FnMut() -> f64 + Send,
) -> Result<Measured, CalibrationError> {
    let meeting = &Meeting::new(2);
    let runs = effort.runs.max(3);
    // Both threads are pinned before one waits for the other, so that an error ends both.
    on(first, || ())?;
    on(second, || ())?;
    thread::scope(|scope| {
        let prepare = &prepare;
        scope.spawn(move || {
            let pinned = pin(first);
            for _ in 0..runs {
                prepare();
                meeting.meet();
                meeting.meet();
            }
            pinned
        });
        let receiver = scope.spawn(move || {
            let pinned = pin(second);
            let mut times = vec![];
            for _ in 0..runs {
                meeting.meet();
                times.push(timed());
                meeting.meet();
            }
            pinned.map(|()| times)
        });
        receiver.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
    .map(|times| {
        Measured::least(&times)
            .expect("there are at least three runs")
            .scaled(1.0 / LINES as f64)
    })
}

/// The throughput of both together, relative to one alone, averaged over the loops. Medians are compared with medians:
/// the fastest run beside another one is a run while the other was not scheduled.
fn throughput(first: PuId, second: PuId, effort: Effort) -> Result<f64, CalibrationError> {
    let mut ratios = vec![];
    for one in Loop::ALL {
        let middle = |measured: Measured| measured.value * (1.0 + measured.spread);
        let alone = on(second, || effort.least(|| one.run()))?;
        let partner = move |stop: &AtomicBool| {
            while !stop.load(Ordering::Relaxed) {
                one.run();
            }
        };
        let beside = with_partner(first, second, partner, || effort.least(|| one.run()))?;
        ratios.push(2.0 * middle(alone) / middle(beside));
    }
    Ok(ratios.iter().sum::<f64>() / ratios.len() as f64)
}
