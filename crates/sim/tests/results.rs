//! All numbers of the window engine's results, for many kinds of streams, machines and configurations.
//!
//! A change that makes the engine faster must not change any of them. A change of the model changes them on purpose:
//! copy the file that the failing test names to `results/expected.txt`, and read the difference. The machines are
//! invented and small, so that little work fills every cache and a corrected number in `machines/` changes nothing
//! here.

use pinfold_core::{NodeId, Pinning, PuId};
use pinfold_sim::model::{Model, Prefetcher};
use pinfold_sim::window::{
    Counters, Event, EventKind, Generated, Options, PageMapping, PageProfile, Prefetchers, Served, Stream,
    WindowConfiguration, WindowResult, simulate, synthetic,
};
use std::fmt::Display;
use std::time::Duration;

/// For each case a line with its name, and indented lines of named numbers.
const EXPECTED: &str = include_str!("results/expected.txt");

/// The test writes its results to this file.
const FOUND: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/expected.txt");

/// Named numbers after the subject that they describe.
fn line(of: &str, numbers: &[(&str, &dyn Display)]) -> String {
    let named: Vec<String> = numbers
        .iter()
        .map(|(name, number)| format!("{name} {number}"))
        .collect();
    format!("  {of}: {}\n", named.join(", "))
}

/// Numbers in the order of threads, nodes, links or packages.
fn list<T: Display>(of: &str, numbers: impl IntoIterator<Item = T>) -> String {
    let numbers: Vec<String> = numbers.into_iter().map(|number| number.to_string()).collect();
    if numbers.is_empty() {
        return String::new();
    }
    format!("  {of}: {}\n", numbers.join(" "))
}

/// The counts of all threads together, without the levels of the caches.
fn totals(total: &Counters) -> String {
    line(
        "cycles of all threads",
        &[
            ("busy", &total.busy_cycles),
            ("stalled", &total.stall_cycles),
            ("waiting", &total.wait_cycles),
            ("queued", &total.queue_cycles),
        ],
    ) + &line(
        "accesses",
        &[
            ("instructions", &total.instructions),
            ("reads", &total.reads),
            ("writes", &total.writes),
            ("TLB misses", &total.tlb_misses),
            ("switches", &total.switches),
        ],
    ) + &line(
        "coherence",
        &[
            ("upgrades", &total.upgrades),
            ("invalidations sent", &total.invalidations_sent),
            ("received", &total.invalidations_received),
            ("back-invalidations", &total.back_invalidations),
            ("lines written to memory", &total.memory_writes),
        ],
    ) + &line(
        "prefetches used or not",
        &[
            ("late", &total.late_prefetches),
            ("from memory", &total.prefetches_from_memory),
            ("dropped", &total.dropped_prefetches),
        ],
    )
}

/// All numbers of a result. Each thread is represented by its end.
fn report(name: &str, result: &WindowResult) -> String {
    let total = result.total();
    let mut text = format!("{name}\n") + &totals(&total);
    for (number, level) in total
        .levels
        .iter()
        .enumerate()
        .filter(|(_, level)| level.hits + level.misses > 0)
    {
        let level: [(&str, &dyn Display); 2] = [("hits", &level.hits), ("misses", &level.misses)];
        text += &line(&format!("L{}", number + 1), &level);
    }
    for served in Served::ALL.into_iter().filter(|&served| total.served[served] > 0) {
        text += &list(&format!("served by {served:?}"), [total.served[served]]);
    }
    for prefetcher in Prefetcher::ALL
        .into_iter()
        .filter(|&prefetcher| total.prefetches[prefetcher] > 0)
    {
        let (sent, useful) = (total.prefetches[prefetcher], total.useful_prefetches[prefetcher]);
        text += &line(
            &format!("prefetches of {prefetcher:?}"),
            &[("sent", &sent), ("useful", &useful)],
        );
    }
    text += &list("ends of threads", &result.ends);
    text += &list("bytes of each memory", &result.memory_bytes);
    text += &list("bytes of each link", result.links.iter().map(|link| link.bytes));
    text += &list("bytes of each bus", &result.bus_bytes);
    for (region, totals) in &result.region_totals {
        let spans = result.regions.iter().filter(|span| span.region == *region);
        let cycles: f64 = spans.map(|span| span.end - span.begin).sum();
        text += &line(
            &format!("region {region}"),
            &[
                ("executions", &totals.executions),
                ("cycles", &cycles),
                ("seconds", &totals.seconds),
                ("instructions", &totals.counters.instructions),
                ("bytes", &totals.memory_bytes),
                ("package joules", &totals.package_joules),
                ("memory joules", &totals.memory_joules),
            ],
        );
    }
    let whole: [(&str, &dyn Display); 5] = [
        ("cycles", &result.cycles),
        ("seconds", &result.seconds),
        ("package joules", &result.package_joules),
        ("memory joules", &result.memory_joules),
        ("released", &result.released),
    ];
    text + &line("window", &whole)
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

/// The same with 24 cores per package, which are more than 64 in all.
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

/// Accesses that straddle lines and pages, backwards and in strides, with regions, and sometimes only instructions.
fn irregular(base: u64, number: u64) -> Box<dyn Stream> {
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

/// Threads with all kinds of accesses, in their own memory and in shared memory. Of each sixteen threads, two do the
/// same.
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
                _ => irregular(own, accesses),
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
    // Slices are short, so that threads that share a PU switch often.
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

/// The lines that differ, each with its case.
fn differences(expected: &str, found: &str) -> Vec<String> {
    let mut case = "";
    let mut differences = vec![];
    let (mut expected, mut found) = (expected.lines(), found.lines());
    loop {
        let (expected, found) = (expected.next(), found.next());
        if expected.is_none() && found.is_none() {
            return differences;
        }
        let (expected, found) = (expected.unwrap_or("nothing"), found.unwrap_or("nothing"));
        if !found.starts_with(' ') {
            case = found;
        }
        if expected != found {
            differences.push(format!(
                "{case}\n  expected {}\n  found    {}",
                expected.trim(),
                found.trim()
            ));
        }
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the results are kept for comparison")]
fn all_results_are_as_expected() {
    let found: String = cases().iter().map(|(name, result)| report(name, result)).collect();
    std::fs::write(FOUND, &found).unwrap();
    let differences = differences(EXPECTED, &found);
    assert!(
        differences.is_empty(),
        "{} lines differ from crates/sim/tests/results/expected.txt; the new results are in {FOUND}:\n{}",
        differences.len(),
        differences.join("\n")
    );
}
