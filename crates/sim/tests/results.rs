//! The results of the window engine, all their numbers, over many kinds of streams, machines and configurations.
//!
//! Whoever makes the engine faster must change none of these. Whoever changes what is modelled changes them on purpose,
//! and puts what the failing test prints into `results/expected.txt`. The machines are made up and small, so that little
//! work fills every cache and a corrected number in `machines/` changes nothing here.

use pinfold_core::{NodeId, Pinning, PuId};
use pinfold_sim::model::{Model, Prefetcher};
use pinfold_sim::window::{
    Event, EventKind, Generated, Options, PageMapping, PageProfile, Prefetchers, Served, Stream, WindowConfiguration,
    WindowResult, simulate, synthetic,
};
use std::fmt::Write;
use std::time::Duration;

/// A line a case: its name, the cycles of the window, rounded down, and the digest of all its numbers.
const EXPECTED: &str = include_str!("results/expected.txt");

/// The 64-bit FNV-1a hash (Fowler, Noll, Vo) of numbers.
struct Digest(u64);

impl Digest {
    fn number(&mut self, number: u64) {
        for byte in number.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn float(&mut self, number: f64) {
        self.number(number.to_bits());
    }
}

fn digest(result: &WindowResult) -> u64 {
    let mut digest = Digest(0xcbf2_9ce4_8422_2325);
    digest.float(result.seconds);
    digest.float(result.cycles);
    for &end in &result.ends {
        digest.float(end);
    }
    for thread in &result.threads {
        let counts = [
            thread.instructions,
            thread.reads,
            thread.writes,
            thread.upgrades,
            thread.invalidations_sent,
            thread.invalidations_received,
            thread.back_invalidations,
            thread.memory_writes,
            thread.late_prefetches,
            thread.prefetches_from_memory,
            thread.dropped_prefetches,
            thread.tlb_misses,
            thread.switches,
        ];
        let levels = thread.levels.iter().flat_map(|level| [level.hits, level.misses]);
        let served = Served::ALL.map(|served| thread.served[served]);
        let prefetches = Prefetcher::ALL.map(|prefetcher| thread.prefetches[prefetcher]);
        let useful = Prefetcher::ALL.map(|prefetcher| thread.useful_prefetches[prefetcher]);
        let all = counts.into_iter().chain(levels).chain(served);
        for count in all.chain(prefetches).chain(useful) {
            digest.number(count);
        }
        for cycles in [
            thread.stall_cycles,
            thread.busy_cycles,
            thread.wait_cycles,
            thread.queue_cycles,
        ] {
            digest.float(cycles);
        }
    }
    for span in &result.regions {
        digest.number(span.region);
        digest.number(span.thread as u64);
        digest.float(span.begin);
        digest.float(span.end);
    }
    let links = result.links.iter().map(|link| link.bytes);
    for bytes in result
        .memory_bytes
        .iter()
        .chain(&result.bus_bytes)
        .copied()
        .chain(links)
    {
        digest.number(bytes);
    }
    for (&region, totals) in &result.region_totals {
        digest.number(region);
        digest.number(totals.executions);
        digest.number(totals.memory_bytes);
        digest.number(totals.counters.instructions);
        for float in [totals.seconds, totals.package_joules, totals.memory_joules] {
            digest.float(float);
        }
    }
    digest.float(result.package_joules);
    digest.float(result.memory_joules);
    digest.number(result.released);
    digest.0
}

/// Four exclusive dies of two levels and a victim LLC each, MOESI, eight nodes, 48 cores.
fn victim() -> Model {
    Model::parse("victim", include_str!("results/victim.toml")).unwrap()
}

const INCLUSIVE: &str = include_str!("results/inclusive.toml");

/// Four packages in a ring, an inclusive LLC each, MESIF, two threads a core, all prefetchers.
fn inclusive() -> Model {
    Model::parse("inclusive", INCLUSIVE).unwrap()
}

/// The same with an LLC that is not inclusive, and without forwarding of clean lines.
fn non_inclusive() -> Model {
    let text = INCLUSIVE
        .replace("policy = \"inclusive\"", "policy = \"non_inclusive\"")
        .replace("name = \"mesif\"", "name = \"mesi\"")
        .replace("name = \"inclusive\"", "name = \"non_inclusive\"");
    Model::parse("non_inclusive", &text).unwrap()
}

/// The same with 24 cores a package, which are more than 64 in all.
fn many_cores() -> Model {
    let text = INCLUSIVE
        .replace("cores_per_package = { count = 8", "cores_per_package = { count = 24")
        .replace("cores = { count = 8", "cores = { count = 24")
        .replace("name = \"inclusive\"", "name = \"many_cores\"");
    Model::parse("many_cores", &text).unwrap()
}

/// Front-side buses and a shared L2.
fn buses() -> Model {
    let text = include_str!("buses.toml")
        .replace("kib = 32", "kib = 8")
        .replace("mib = 4", "kib = 64");
    Model::parse("buses", &text).unwrap()
}

const KIB: u64 = 1 << 10;

/// Accesses that straddle lines and pages, backwards and in strides, with regions, and now and then only instructions.
fn crooked(base: u64, number: u64) -> Box<dyn Stream> {
    let mut next = 0;
    Box::new(Generated::new(move || {
        let step = next;
        next += 1;
        (step < number).then(|| match step % 50 {
            0 => Event::mark(EventKind::RegionBegin, step / 50 % 3),
            17 => Event::instructions(40),
            49 => Event::mark(EventKind::RegionEnd, step / 50 % 3),
            part if part % 3 == 0 => Event::write(base + (number - step) * 24 % (96 * KIB), 32, 2),
            part if part % 7 == 0 => Event::read(base + step * 200 % (64 * KIB), 16, 1),
            _ => Event::read(base + (number - step) * 24 % (96 * KIB), 8, 2),
        })
    }))
}

/// Threads that do all kinds of things, in memory of their own and in memory that they share; of each sixteen, two do the
/// same kind.
fn mix(threads: u64, accesses: u64) -> Vec<Box<dyn Stream>> {
    let stencils = threads / 8;
    (0..threads)
        .map(|thread| {
            let own = (thread + 16) << 32;
            match thread / 2 % 8 {
                0 => synthetic::streaming(own, 96 * KIB, (accesses * 8).div_ceil(96 * KIB), 4),
                1 => synthetic::random(own, 4096 * KIB, accesses, thread),
                2 => synthetic::shared_updates(1 << 30, 64 * KIB, own, accesses, thread),
                3 => synthetic::pointer_chase(2 << 30, 256 * KIB, accesses, 5),
                4 => {
                    let first = (thread / 16 * 2 + thread % 2) * 16;
                    let passes = accesses.div_ceil(16 * 64 * 6);
                    let rows = stencils * 16;
                    let members = u16::try_from(stencils).unwrap();
                    synthetic::stencil(3 << 30, 64, rows, first, first + 16, passes, members)
                }
                5 => synthetic::counter((4 << 30) + thread, accesses / 8, 6),
                6 => synthetic::random(5 << 30, 512 * KIB, accesses, thread),
                _ => crooked(own, accesses),
            }
        })
        .collect()
}

fn spread(model: &Model, threads: usize) -> Pinning {
    let pu = |thread: usize| PuId(u32::try_from(thread * model.pus() / threads).unwrap());
    Pinning::new((0..threads).map(pu).collect()).unwrap()
}

fn run(model: &Model, pinning: Pinning, pages: PageMapping, prefetchers: Prefetchers, threads: u64) -> WindowResult {
    const ACCESSES: u64 = 20_000;
    let configuration = WindowConfiguration {
        pinning,
        pages,
        prefetchers,
    };
    let profile = PageProfile::of(&mut mix(threads, ACCESSES));
    // Slices are so short that threads that share a PU change often.
    let options = Options {
        time_slice: Duration::from_micros(20),
        ..Options::default()
    };
    simulate(model, &configuration, Some(&profile), mix(threads, ACCESSES), &options).unwrap()
}

fn cases() -> Vec<(String, WindowResult)> {
    let mut cases = vec![];
    let mappings = [
        ("first_touch", PageMapping::FirstTouch),
        ("interleave", PageMapping::Interleave),
        ("remote", PageMapping::Remote),
        ("locality", PageMapping::Locality),
        ("balance", PageMapping::Balance),
    ];
    for model in [victim(), inclusive(), non_inclusive()] {
        for (name, pages) in mappings {
            let pinning = spread(&model, 16);
            let result = run(&model, pinning, pages, Prefetchers::ALL, 16);
            cases.push((format!("{}, {name}", model.name), result));
        }
        for prefetcher in Prefetcher::ALL {
            let pages = PageMapping::Single(NodeId(1));
            let result = run(&model, spread(&model, 16), pages, Prefetchers::only(prefetcher), 16);
            cases.push((format!("{}, {prefetcher:?} alone", model.name), result));
        }
        let together = Pinning::new((0..16).map(PuId).collect()).unwrap();
        let result = run(&model, together, PageMapping::Local, Prefetchers::NONE, 16);
        cases.push((format!("{}, together", model.name), result));
        let few = Pinning::new((0..16).map(|thread| PuId(thread % 6)).collect()).unwrap();
        let result = run(&model, few, PageMapping::FirstTouch, Prefetchers::ALL, 16);
        cases.push((format!("{}, time-sliced", model.name), result));
    }
    for (model, threads) in [(many_cores(), 96), (buses(), 16)] {
        let pinning = spread(&model, threads);
        let result = run(
            &model,
            pinning,
            PageMapping::FirstTouch,
            Prefetchers::ALL,
            threads as u64,
        );
        cases.push((format!("{}, {threads} threads", model.name), result));
    }
    cases
}

#[test]
fn no_number_of_any_result_has_changed() {
    let mut found = String::new();
    for (name, result) in cases() {
        writeln!(
            found,
            "{name}: {:.0} cycles, {:016x}",
            result.cycles.floor(),
            digest(&result)
        )
        .unwrap();
    }
    assert!(
        found == EXPECTED,
        "the results are no longer those of crates/sim/tests/results/expected.txt, but\n{found}"
    );
}
