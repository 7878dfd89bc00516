//! Models of synthetic measurements.

use super::*;
use pinfold_core::measurement::{
    BandwidthMeasurement, CurvePoint, Measured, NodeLatency, PairMeasurement, SystemMeasurement, Traffic,
    TranslationPoint,
};
use pinfold_core::{NodeId, PuId};
use pinfold_linux::topology::{Source, read};
use pinfold_sim::model::Latency;
use proptest::prelude::*;

fn figure(value: f64) -> Measured {
    Measured {
        value,
        spread: 0.01,
        runs: 9,
    }
}

/// A machine of two nodes. `held` bytes stay in its last cache, of the 32 MiB that it reports.
fn topology() -> Topology {
    let text = "package:2 [numa] l3:1(size=33554432) l2:4(size=1048576) l1d:1(size=32768) core:1 pu:2";
    read(&Source::Synthetic(text.to_owned())).unwrap()
}

fn calibration(held: u64, hidden: bool) -> Calibration {
    let pair = |other, throughput| PairMeasurement {
        pus: (PuId(0), PuId(other)),
        ping_pong: figure(60e-9),
        modified: figure(70e-9),
        clean: figure(65e-9),
        atomic: figure(10e-9),
        throughput,
    };
    let levels = [(32u64 << 10, 2e-9), (1 << 20, 6e-9), (held, 25e-9)];
    let sizes = (0..15).flat_map(|octave| [8, 9, 10, 11, 12, 14].map(|eighths| (512 * eighths) << octave));
    let latency = |bytes: u64| {
        levels
            .iter()
            .find(|&&(size, _)| bytes <= size)
            .map_or(100e-9, |&(_, latency)| latency)
    };
    Calibration {
        pu: PuId(0),
        frequency: figure(2.5e9),
        instruction: vec![figure(0.1e-9), figure(0.2e-9)],
        atomic: figure(8e-9),
        system: SystemMeasurement {
            call: figure(150e-9),
            hand_over: figure(1.8e-6),
            pause: figure(16e-9),
        },
        curve: sizes
            .filter(|&bytes| !hidden || bytes <= 1 << 20 || bytes > held)
            .map(|bytes| CurvePoint {
                bytes,
                latency: figure(latency(bytes)),
            })
            .collect(),
        parallelism: figure(11.6),
        foreseen: figure(6e-9),
        translation: (4..14)
            .map(|power| {
                let pages = 1u64 << power;
                TranslationPoint {
                    pages,
                    small: figure(if pages > 1536 { 22e-9 } else { 6e-9 }),
                    huge: figure(5e-9),
                }
            })
            .collect(),
        pairs: vec![
            (Relation::SameCore, pair(1, 1.3)),
            (Relation::SameDomain, pair(2, 2.0)),
            (Relation::OtherPackage, pair(8, 2.0)),
        ],
        bandwidth: [(0, 0, 1, 10e9), (0, 0, 4, 25e9), (0, 1, 4, 15e9)]
            .map(|(from, home, cores, rate)| BandwidthMeasurement {
                from: NodeId(from),
                home: NodeId(home),
                traffic: Traffic::Read,
                cores,
                rate: figure(rate),
            })
            .to_vec(),
        nodes: [(0, 0, 100e-9), (0, 1, 160e-9), (1, 0, 170e-9), (1, 1, 100e-9)]
            .map(|(from, home, seconds)| NodeLatency {
                from: NodeId(from),
                home: NodeId(home),
                latency: figure(seconds),
            })
            .to_vec(),
        stolen: Some(0.01),
        huge_share: Some(1.0),
        inclusive: vec![],
        processor: None,
    }
}

fn model(calibration: &Calibration) -> (Model, String) {
    let topology = topology();
    let shape = Shape::of(&topology).unwrap();
    let written = write("mine", &topology, shape, calibration, Thoroughness::Full);
    match Model::parse("mine.toml", &written.text) {
        Ok(model) => (model, written.text),
        Err(error) => panic!("{error}\n{}", written.text),
    }
}

#[test]
fn measured_numbers_are_in_the_model_with_their_source() {
    let (model, text) = model(&calibration(32 << 20, false));
    assert!((model.frequency().0 - 2.5e9).abs() < 1e6);
    assert_eq!(model.core.line_fill_buffers.value().0, 12);
    assert_eq!(model.tlb.entries.value().0.next_power_of_two(), 1024);
    assert_eq!(model.caches[2].size.value().0, 32 << 20);
    assert_eq!(model.memory.latency.value(), Latency::Nanoseconds(100.0));
    assert!((model.memory.bandwidth.value().0 - 25e9).abs() < 1e7);
    assert!((model.core.smt_throughput.unwrap().value().0 - 1.3).abs() < 1e-9);
    assert_eq!(
        model.core.locked_misses.unwrap().value().0,
        7,
        "70 ns of a load in 10 ns"
    );
    // The mean of both directions, minus the latency of the local memory.
    assert_eq!(model.links[0].latency.value(), Latency::Nanoseconds(65.0));
    assert!((model.links[0].bandwidth.value().0 - 15e9).abs() < 1e7);
    for line in text.lines().filter(|line| line.contains("source = ")) {
        let known = ["measured: ", "reported ", "assumed", "the first level"];
        assert!(
            known.iter().any(|word| line.contains(&format!("source = \"{word}"))),
            "{line}"
        );
    }
}

#[test]
fn a_cache_that_holds_less_than_reported_has_its_measured_size() {
    let topology = topology();
    let shape = Shape::of(&topology).unwrap();
    let written = write(
        "mine",
        &topology,
        shape,
        &calibration(8 << 20, false),
        Thoroughness::Full,
    );
    let model = Model::parse("mine.toml", &written.text).unwrap();
    let size = model.caches[2].size.value().0;
    assert!((6 << 20..=8 << 20).contains(&size), "{size}");
    assert!(
        written.notes.iter().any(|note| note.contains("32.0 MiB")),
        "{:?}",
        written.notes
    );
}

#[test]
fn memory_is_not_the_limit_where_each_core_gets_as_much_as_alone() {
    let mut calibration = calibration(32 << 20, false);
    for one in &mut calibration.bandwidth {
        one.rate = figure(10e9 * one.cores as f64);
    }
    let (model, _) = model(&calibration);
    assert!(model.memory.bandwidth.source().is_assumed());
    assert!(model.memory.bandwidth.value().0 >= 40e9);
}

#[test]
fn two_cpus_that_share_a_core_by_measurement_are_siblings() {
    let topology = read(&Source::Synthetic(
        "package:1 l3:1(size=33554432) l2:2(size=1048576) l1d:1(size=32768) core:1 pu:1".to_owned(),
    ))
    .unwrap();
    let mut calibration = calibration(32 << 20, false);
    calibration.nodes.clear();
    calibration.bandwidth.truncate(1);
    calibration.pairs.truncate(1);
    calibration.pairs[0].0 = Relation::SameDomain;
    let shape = Shape::of(&topology).unwrap();
    let written = write("mine", &topology, shape, &calibration, Thoroughness::Full);
    let model = Model::parse("mine.toml", &written.text).unwrap();
    assert_eq!((model.cores(), model.threads_per_core()), (1, 2));
    assert_eq!(model.core_of_pu(1), Some((0, 1)));
    assert!(written.notes.iter().any(|note| note.contains("share a core")));
}

proptest! {
    #[test]
    fn any_measurement_of_a_regular_machine_becomes_a_model(
        held in 21u32..26,
        hidden in any::<bool>(),
        frequency in 1e9f64..5e9,
        parallelism in 1f64..60.0,
        // The slow-down factor that other programs caused at each point of the curve.
        noise in proptest::collection::vec(prop_oneof![Just(1.0), 1.0f64..20.0], 1..40),
    ) {
        let mut calibration = calibration(1 << held, hidden);
        for (point, noise) in calibration.curve.iter_mut().zip(noise.iter().cycle()) {
            point.latency.value *= noise;
        }
        calibration.frequency = figure(frequency);
        calibration.parallelism = figure(parallelism);
        model(&calibration);
    }
}
