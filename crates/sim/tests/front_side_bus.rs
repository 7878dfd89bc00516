//! Machines without NUMA: two cores with private L1 share an L2, a package has several such pairs, and each package has
//! a bus.

mod common;

use common::{configuration, recorded};
use pinfold_sim::model::{Model, Prefetcher};
use pinfold_sim::window::{Event, EventKind, PageMapping, Prefetchers, Served, Stream, WindowResult, synthetic};

const MIB: u64 = 1 << 20;

fn run(cores: &[usize], prefetchers: Prefetchers, streams: Vec<Box<dyn Stream>>) -> WindowResult {
    let model = Model::parse("buses.toml", include_str!("buses.toml")).unwrap();
    let pu_of = |core| (0..8).find(|&pu| model.core_of_pu(pu) == Some((core, 0))).unwrap();
    let pus: Vec<u32> = cores.iter().map(|&core| pu_of(core)).collect();
    let configuration = configuration(&pus, PageMapping::FirstTouch, prefetchers);
    common::run(&model, &configuration, streams)
}

#[test]
fn packages_take_turns_in_the_numbering() {
    let model = Model::parse("buses.toml", include_str!("buses.toml")).unwrap();
    let cores: Vec<usize> = (0..8).map(|pu| model.core_of_pu(pu).unwrap().0).collect();
    assert_eq!(cores, [0, 4, 1, 5, 2, 6, 3, 7]);
    assert_eq!(model.topology().llc_domains().len(), 4);
    assert_eq!(model.topology().nodes().len(), 1);
}

#[test]
fn one_bus_and_then_memory_limit_the_bandwidth() {
    let bandwidth = |cores: &[usize]| {
        let streams = (1..=cores.len() as u64)
            .map(|thread| {
                recorded(
                    (0..60_000)
                        .map(|line| Event::read((thread << 32) + line * 64, 8, 4))
                        .collect(),
                )
            })
            .collect();
        let result = run(cores, Prefetchers::NONE, streams);
        result.memory_bytes[0] as f64 / result.seconds / 1e9
    };
    assert!(
        (bandwidth(&[0, 1, 2, 3]) / 6.0 - 1.0).abs() < 0.03,
        "four cores on one bus"
    );
    assert!(
        (bandwidth(&[0, 1, 4, 5]) / 9.0 - 1.0).abs() < 0.03,
        "two buses, one memory"
    );
}

#[test]
fn a_modified_line_comes_from_the_pair_that_has_it() {
    for (core, served) in [
        (1, Served::SameDomainModified),
        (2, Served::SamePackageModified),
        (4, Served::OtherPackageModified),
    ] {
        let writer = vec![Event::write(64, 8, 1), Event::mark(EventKind::Signal, 1)];
        let reader = vec![Event::mark(EventKind::Wait, 1), Event::read(64, 8, 1)];
        let result = run(&[0, core], Prefetchers::NONE, vec![recorded(writer), recorded(reader)]);
        assert_eq!(result.threads[1].served[served], 1, "{core}");
    }
}

#[test]
fn the_streamer_brings_lines_into_the_shared_cache() {
    let time = |prefetchers| run(&[0], prefetchers, vec![synthetic::streaming(1 << 30, 2 * MIB, 1, 0)]);
    let (with, without) = (time(Prefetchers::only(Prefetcher::Streamer)), time(Prefetchers::NONE));
    assert!(with.seconds < without.seconds);
    let total = with.total();
    assert!(total.useful_prefetches[Prefetcher::Streamer] * 10 > total.prefetches[Prefetcher::Streamer] * 9);
    assert!(total.levels[1].hits > total.levels[1].misses);
}
