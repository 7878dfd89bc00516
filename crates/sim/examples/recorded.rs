//! How many data accesses of recordings a second the window engine simulates, on one core of the host.
//!
//! Each recording is run once on a model, its threads spread over all cores. The processor time counts, with the reading
//! of the recording. `cargo run --release -p pinfold-sim --example recorded MODEL FILE.pft...`

#![expect(clippy::cast_possible_truncation, reason = "numbers of threads and PUs are small")]
#![expect(
    clippy::disallowed_methods,
    reason = "a measurement of this program reads its processor time"
)]

use pinfold_core::{Pinning, PuId};
use pinfold_sim::model::builtin;
use pinfold_sim::window::{Batch, Options, PageMapping, Prefetchers, Stream, WindowConfiguration, simulate};
use pinfold_sim::{Program, RecordedProgram};
use pinfold_trace::Recording;

fn processor_seconds() -> f64 {
    let statistics = std::fs::read_to_string("/proc/self/schedstat").expect("the kernel keeps schedstat");
    let nanoseconds: f64 = statistics
        .split_whitespace()
        .next()
        .and_then(|text| text.parse().ok())
        .expect("the first number is the time on a processor");
    nanoseconds * 1e-9
}

fn main() {
    let mut words = std::env::args().skip(1);
    let model = builtin(&words.next().expect("a model")).expect("it is built in");
    let (mut all, mut time) = (0, 0.0);
    for file in words {
        let recording = Recording::open(file.as_ref()).expect("a recording");
        let program = RecordedProgram::new(recording).expect("threads");
        let threads = program.threads();
        let cores = model.cores();
        let pus = (0..threads)
            .map(|thread| PuId((thread * cores / threads) as u32))
            .collect();
        let configuration = WindowConfiguration {
            pinning: Pinning::new(pus).expect("there are threads"),
            pages: PageMapping::FirstTouch,
            prefetchers: Prefetchers::ALL,
        };
        let begin = processor_seconds();
        let mut batch = Batch::default();
        let mut decoded = 0;
        for thread in 0..threads {
            let mut stream = program.stream(thread);
            while stream.next_batch(&mut batch) {
                decoded += batch.events.len();
            }
        }
        let reading = processor_seconds() - begin;
        let streams: Vec<Box<dyn Stream + '_>> = (0..threads).map(|thread| program.stream(thread)).collect();
        let begin = processor_seconds();
        let result = simulate(&model, &configuration, None, streams, &Options::default()).expect("it runs");
        let seconds = processor_seconds() - begin;
        let total = result.total();
        let done = total.reads + total.writes;
        let l1 = &total.levels[0];
        println!(
            "{:<24} {:>6.2} M accesses  {:>6.1} M/s  {:>5.1} ns/access (reading {:>4.1})  L1 misses {:>5.1} % beyond {:>4.1} % prefetches {:>5.1} %  cycles {:.0}",
            file.rsplit('/').next().unwrap_or(""),
            done as f64 / 1e6,
            done as f64 / seconds / 1e6,
            seconds * 1e9 / done as f64,
            reading * 1e9 / decoded as f64,
            100.0 * l1.misses as f64 / done as f64,
            100.0 * total.served.sum() as f64 / done as f64,
            100.0 * total.prefetches.sum() as f64 / done as f64,
            result.cycles,
        );
        all += done;
        time += seconds;
    }
    println!(
        "{:<24} {:>6.2} M accesses  {:>6.1} M/s",
        "total",
        all as f64 / 1e6,
        all as f64 / time / 1e6
    );
}
