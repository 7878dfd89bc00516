//! Measures how many data accesses per second the window engine simulates, on one core of the host.
//!
//! Each row has a number of threads on a model with that number of cores. The threads stream through their own memory,
//! read random words of it, sometimes update shared words, sweep a stencil together, or each do one of these (mixed),
//! all with coherence, prefetchers and NUMA. The figures use the processor time, including the generation of the
//! accesses. `cargo run --release -p pinfold-sim --example throughput [ACCESSES [ROW]]`

#![expect(clippy::cast_possible_truncation, reason = "numbers of threads and PUs are small")]
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a measurement of this program reads its processor time and prints it"
)]

use pinfold_core::{Pinning, PuId};
use pinfold_sim::model::{Model, builtin};
use pinfold_sim::window::{Options, PageMapping, Prefetchers, Stream, WindowConfiguration, simulate, synthetic};

const MIB: u64 = 1 << 20;

/// The part of one thread in the mix.
fn mixed(thread: u64, threads: u64, accesses: u64, kind: u64) -> Box<dyn Stream> {
    let own = (thread * 4 + kind + 1) << 32;
    match kind {
        0 => synthetic::streaming(own, 16 * MIB, (accesses * 8).div_ceil(16 * MIB), 4),
        1 => synthetic::random(own, 8 * MIB, accesses, thread),
        2 => synthetic::shared_updates(1 << 30, MIB, own, accesses, thread),
        _ => {
            let (rows, columns) = (256 * threads, 512);
            let first = thread * 256;
            let passes = accesses.div_ceil(256 * columns * 6);
            synthetic::stencil(2 << 30, columns, rows, first, first + 256, passes, threads as u16)
        }
    }
}

/// The Opteron with `packages` packages instead of four.
fn opteron(packages: usize) -> Model {
    let nodes = packages * 2;
    let text = include_str!("../../../machines/opteron-6164x4.toml");
    let text = text
        .replace("packages = { count = 4,", &format!("packages = {{ count = {packages},"))
        .replace("nodes = { count = 8,", &format!("nodes = {{ count = {nodes},"));
    let pairs = |pairs: Vec<(usize, usize)>| {
        let list: Vec<String> = pairs.iter().map(|(a, b)| format!("[{a}, {b}]")).collect();
        format!("between = [{}]", list.join(", "))
    };
    let inside = pairs((0..packages).map(|package| (2 * package, 2 * package + 1)).collect());
    let between = (0..nodes).flat_map(|a| (a + 2..nodes).step_by(2).map(move |b| (a, b)));
    let between = pairs(between.collect());
    let mut links = [inside, between].into_iter();
    let text: Vec<String> = text
        .lines()
        .map(|line| {
            if line.starts_with("between = ") {
                links.next().expect("the model has two kinds of links")
            } else {
                line.to_owned()
            }
        })
        .collect();
    Model::parse("opteron", &text.join("\n")).expect("the model stays valid")
}

/// The processor time that this program has used. Wall time would include the host's other programs.
fn processor_seconds() -> f64 {
    let statistics = std::fs::read_to_string("/proc/self/schedstat").expect("the kernel keeps schedstat");
    let nanoseconds: f64 = statistics
        .split_whitespace()
        .next()
        .and_then(|text| text.parse().ok())
        .expect("the first number is the time on a processor");
    nanoseconds * 1e-9
}

fn measure(name: &str, model: &Model, threads: u64, accesses: u64, kind: Option<u64>) {
    if std::env::args().nth(2).is_some_and(|wanted| !name.contains(&wanted)) {
        return;
    }
    let cores = model.cores() as u64;
    let pus = (0..threads)
        .map(|thread| PuId((thread * cores / threads) as u32))
        .collect();
    let configuration = WindowConfiguration {
        pinning: Pinning::new(pus).expect("there are threads"),
        pages: PageMapping::FirstTouch,
        prefetchers: Prefetchers::ALL,
    };
    let streams = (0..threads)
        .map(|thread| match kind {
            Some(kind) => mixed(thread, threads, accesses / threads, kind),
            None => mixed(thread / 4, threads / 4, accesses / threads, thread % 4),
        })
        .collect();
    let begin = processor_seconds();
    let result = simulate(model, &configuration, None, streams, &Options::default()).expect("the mix can be simulated");
    let seconds = processor_seconds() - begin;
    let total = result.total();
    let done = total.reads + total.writes;
    let memory = std::fs::read_to_string("/proc/self/status")
        .unwrap_or_default()
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:").map(|size| size.trim().to_owned()))
        .unwrap_or_else(|| "unknown".to_owned());
    println!(
        "{name:<24} {:>7.1} M accesses/s  L1 misses {:>5.1} %  prefetches {:>5.1} %  peak memory so far {memory}",
        done as f64 / seconds / 1e6,
        100.0 * total.levels[0].misses as f64 / (total.levels[0].hits + total.levels[0].misses) as f64,
        100.0 * total.prefetches.sum() as f64 / done as f64,
    );
}

fn main() {
    let accesses = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(40_000_000);
    let four_packages = builtin("opteron-6164x4").expect("it is built in");
    for (kind, name) in ["streaming", "random", "shared updates", "stencil"]
        .into_iter()
        .enumerate()
    {
        measure(
            &format!("8 of 48, {name}"),
            &four_packages,
            8,
            accesses,
            Some(kind as u64),
        );
    }
    measure("8 of 48, mixed", &four_packages, 8, accesses, None);
    measure("48 of 48, mixed", &four_packages, 48, accesses, None);
    measure("192 of 192, mixed", &opteron(16), 192, accesses, None);
}
