//! work SECONDS: two threads that compute, in pieces that a uprobe of `piece` counts.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn piece() -> f64 {
    (1..2_000_000).map(|i| 1.0 / f64::from(black_box(i))).sum()
}

fn main() {
    let seconds: f64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    println!("cpus {}", thread::available_parallelism().unwrap());
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while Instant::now() < end {
                    black_box(piece());
                }
            });
        }
    });
}
