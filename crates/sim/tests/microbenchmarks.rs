//! The microbenchmarks on a machine with figures that can be calculated by hand, and on all models against published
//! figures.

use pinfold_sim::microbenchmarks::{Row, measure, measures};
use pinfold_sim::model::{Cores, Measure, Mix, Model, Target, builtin, builtin_names};
use std::sync::Mutex;
use std::thread;

const SQUARE: &str = include_str!("microbenchmarks.toml");

fn square() -> Model {
    Model::parse("microbenchmarks.toml", SQUARE).unwrap()
}

#[track_caller]
fn assert_near(measured: f64, expected: f64, share: f64) {
    let ratio = measured / expected;
    assert!((ratio - 1.0).abs() <= share, "{measured:e} is no {expected:e}");
}

/// In nanoseconds.
fn latency(of: Target) -> f64 {
    measure(&square(), Measure::Latency(of)).unwrap() * 1e9
}

/// In bytes per nanosecond.
fn bandwidth(of: Target, by: Cores, mix: Mix) -> f64 {
    measure(&square(), Measure::Bandwidth { of, by, mix }).unwrap() / 1e9
}

#[test]
fn a_chain_in_a_cache_takes_its_latency() {
    assert_near(latency(Target::L1), 4.0, 0.01);
    assert_near(latency(Target::L2), 20.0, 0.01);
}

#[test]
fn a_chain_in_memory_takes_its_latency_the_link_and_a_page_walk_for_each_64_lines() {
    assert_near(latency(Target::LocalMemory), 101.0, 0.01);
    assert_near(latency(Target::OtherPackageMemory), 251.0, 0.01);
}

#[test]
fn a_chain_in_another_cores_cache_takes_the_time_of_the_transfer() {
    assert_near(latency(Target::SameDomainClean), 30.0, 0.05);
    assert_near(latency(Target::SameDomainModified), 40.0, 0.05);
    assert_near(latency(Target::OtherPackageModified), 250.0, 0.02);
}

#[test]
fn a_line_that_two_cores_write_in_turn_takes_one_transfer_each_way() {
    assert_near(latency(Target::OtherPackageExchange), 250.0, 0.01);
}

#[test]
fn loads_use_the_bandwidth_of_memory_and_link() {
    assert_near(bandwidth(Target::LocalMemory, Cores::Node, Mix::Reads), 6.4, 0.01);
    assert_near(bandwidth(Target::LocalMemory, Cores::Machine, Mix::Reads), 12.8, 0.01);
    assert_near(
        bandwidth(Target::OtherPackageMemory, Cores::Node, Mix::Reads),
        3.2,
        0.01,
    );
}

/// A copied line is two lines read, one of them for the store, and one written, which costs 1.5: 3.5 for the two lines
/// that count. The triad has 4.5 for three; the vector triad 5.5 for four.
#[test]
fn stores_cost_the_lines_that_they_fetch_and_write() {
    let by_node = |mix| bandwidth(Target::LocalMemory, Cores::Node, mix);
    assert_near(by_node(Mix::Copy), 6.4 * 2.0 / 3.5, 0.02);
    assert_near(by_node(Mix::CopyTraffic), 6.4 * 3.0 / 3.5, 0.02);
    assert_near(by_node(Mix::Triad), 6.4 * 3.0 / 4.5, 0.02);
    assert_near(by_node(Mix::TriadTraffic), 6.4 * 4.0 / 4.5, 0.02);
    assert_near(by_node(Mix::VectorTriad), 6.4 * 4.0 / 5.5, 0.02);
}

/// The square machine, where each domain's connection takes half of memory's bandwidth in and less than a quarter out.
fn square_with_slow_domains() -> Model {
    let connection = "domain_in = { gb_per_s = 3.2, source = \"assumed\" }\ndomain_out = { gb_per_s = 1.2, source = \
                      \"assumed\" }\nwrite_cost";
    Model::parse("m.toml", &SQUARE.replace("write_cost", connection)).unwrap()
}

#[test]
fn the_slower_direction_of_a_domain_limits_a_mix() {
    let model = square_with_slow_domains();
    for (mix, expected) in [
        (Mix::Reads, 3.2),
        (Mix::CopyTraffic, 1.2 * 3.0),
        (Mix::TriadTraffic, 3.2 * 4.0 / 3.0),
    ] {
        let measured = Measure::Bandwidth {
            of: Target::LocalMemory,
            by: Cores::Node,
            mix,
        };
        assert_near(measure(&model, measured).unwrap() / 1e9, expected, 0.02);
    }
}

/// The square machine with measured waits.
fn square_with_waits() -> Model {
    let waits = "queueing = { ns_at_share = [[0.5, 40], [0.8, 100]], source = \"a made-up paper\" }\nwrite_cost";
    Model::parse("m.toml", &SQUARE.replace("write_cost", waits)).unwrap()
}

/// The square machine with measured waits at its link.
fn square_with_waits_at_the_link() -> Model {
    let link = "bandwidth = { gb_per_s = 3.2, source = \"assumed\" }";
    let waits = "queueing = { ns_at_share = [[0.5, 40], [0.8, 100]], source = \"a made-up paper\" }";
    Model::parse("m.toml", &SQUARE.replace(link, &format!("{link}\n{waits}"))).unwrap()
}

/// In nanoseconds, at a bandwidth of all cores in 10^6 bytes a second.
fn loaded(model: &Model, by: Cores, megabytes: u32) -> f64 {
    loaded_latency(model, Target::LocalMemory, by, megabytes)
}

/// The same with the memory `of`.
fn loaded_latency(model: &Model, of: Target, by: Cores, megabytes: u32) -> f64 {
    under_load(model, of, (by, Mix::Reads), megabytes)
}

/// The same with a mix of accesses.
fn under_load(model: &Model, of: Target, (by, mix): (Cores, Mix), megabytes: u32) -> f64 {
    let measured = Measure::LoadedLatency { of, by, mix, megabytes };
    measure(model, measured).unwrap() * 1e9
}

#[test]
fn a_chain_beside_a_load_waits_as_was_measured() {
    let model = square_with_waits();
    for (megabytes, expected) in [(1600, 120.0), (3200, 140.0), (5120, 200.0)] {
        assert_near(loaded(&model, Cores::Node, megabytes), expected, 0.05);
    }
}

/// 3.2 GB/s are half of the bandwidth of reads. A third of them are writes that cost 1.5, so memory is busy for 0.583 of
/// the time.
#[test]
fn a_chain_beside_reads_and_writes_waits_by_the_time_that_memory_is_busy() {
    let latency = under_load(
        &square_with_waits(),
        Target::LocalMemory,
        (Cores::Node, Mix::CopyTraffic),
        3200,
    );
    assert_near(latency, 100.0 + 40.0 + 60.0 * 0.0833 / 0.3, 0.05);
}

#[test]
fn a_chain_over_a_loaded_link_waits_as_was_measured_at_the_link() {
    let model = square_with_waits_at_the_link();
    for (megabytes, expected) in [(800, 270.0), (1600, 290.0), (2560, 350.0)] {
        let latency = loaded_latency(&model, Target::OtherPackageMemory, Cores::Node, megabytes);
        assert_near(latency, expected, 0.05);
    }
    assert_near(loaded(&model, Cores::Node, 3200), 100.0, 0.05);
}

#[test]
fn measured_waits_of_a_link_leave_its_bandwidth_as_it_is() {
    let reads = Measure::Bandwidth {
        of: Target::OtherPackageMemory,
        by: Cores::Node,
        mix: Mix::Reads,
    };
    let bandwidth = measure(&square_with_waits_at_the_link(), reads).unwrap() / 1e9;
    assert_near(bandwidth, 3.2, 0.01);
}

#[test]
fn a_chain_beside_a_load_hardly_waits_where_nothing_was_measured() {
    // By M/D/1 it is half of a line's 10 ns at half of the bandwidth.
    let latency = loaded(&square(), Cores::Node, 3200);
    assert!((100.0..106.0).contains(&latency), "{latency}");
}

#[test]
fn measured_waits_leave_the_bandwidth_as_it_is() {
    let reads = Measure::Bandwidth {
        of: Target::LocalMemory,
        by: Cores::Node,
        mix: Mix::Reads,
    };
    assert_near(measure(&square_with_waits(), reads).unwrap() / 1e9, 6.4, 0.01);
}

/// The waits come from two Xeon Gold 6140, and the idle latency, the bandwidth and the curve from Intel MLC on machines
/// with the same six channels of DDR4-2666: two Xeon Platinum 8180 (FD.io CSIT report, calibration data of Skylake) and
/// two 8269CY (plantegg.github.io, page of 24 January 2019 on building a kernel).
#[test]
fn the_waits_of_one_processor_give_the_curves_of_others() {
    let machine = include_str!("../../../machines/platinum-8168x2.toml");
    let of_8180 = [(49_742, 92.3), (111_587, 101.2), (160_243, 121.9)];
    let of_8269 = [(101_353, 95.0), (133_820, 102.7), (195_882, 130.6)];
    for (idle, bandwidth, curve) in [("81.1", "108", &of_8180), ("77.9", "112.7", &of_8269)] {
        let text = machine
            .replace(
                "[memory]\nlatency = { ns = 81.1,",
                &format!("[memory]\nlatency = {{ ns = {idle},"),
            )
            .replace(
                "bandwidth = { gb_per_s = 108,",
                &format!("bandwidth = {{ gb_per_s = {bandwidth},"),
            );
        let mut model = Model::parse("m.toml", &text).unwrap();
        model.memory.queueing = builtin("gold-6142x2").unwrap().memory.queueing;
        for &(megabytes, published) in curve {
            assert_near(loaded(&model, Cores::Machine, megabytes), published, 0.1);
        }
    }
}

#[test]
fn what_the_shape_excludes_is_not_measured() {
    let all = measures(&square());
    assert!(all.contains(&Measure::Latency(Target::OtherPackageMemory)));
    for target in [
        Target::L3,
        Target::SamePackageMemory,
        Target::SamePackageClean,
        Target::FarthestMemory,
    ] {
        assert!(!all.contains(&Measure::Latency(target)), "{target:?}");
    }
}

#[test]
fn the_difference_is_given_in_percent_of_the_published_figure() {
    let model = square();
    let row = Row {
        measure: model.published[0].measure,
        simulated: 121e-9,
        published: Some(&model.published[0]),
    };
    assert!((row.difference_percent(&model).unwrap() - 10.0).abs() < 1e-6);
}

/// The error of the model with `from` replaced by `to`. `from` is in the line of the figure.
fn refused(from: &str, to: &str) -> String {
    assert!(SQUARE.contains(from), "{from}");
    let text = SQUARE.replace(from, to);
    Model::parse("m.toml", &text).unwrap_err().to_string()
}

#[test]
fn an_unpublished_figure_is_refused_with_its_line() {
    let line = SQUARE
        .lines()
        .position(|line| line.contains("a made-up paper"))
        .unwrap()
        + 1;
    let error = refused("a made-up paper, table 1", "assumed");
    assert!(
        error.starts_with(&format!("m.toml:{line}: published[0].source: ")),
        "{error}"
    );
}

#[test]
fn a_figure_of_a_missing_part_is_refused() {
    let error = refused("of = \"local_memory\"", "of = \"same_package_memory\"");
    assert!(
        error.contains("published[0].of: `same_package_memory` does not exist"),
        "{error}"
    );
}

#[test]
fn a_figure_that_calibrates_an_unknown_number_is_refused() {
    let error = refused("[\"memory.latency\"]", "[\"memory.delay\"]");
    assert!(
        error.contains("`memory.delay` is not a latency or bandwidth"),
        "{error}"
    );
}

#[test]
fn a_bandwidth_without_its_cores_is_refused() {
    let error = refused("latency = { ns = 110", "bandwidth = { gb_per_s = 6");
    assert!(error.contains("give `by` and `mix`"), "{error}");
}

#[test]
fn a_write_that_costs_less_than_a_read_is_refused() {
    let error = refused("write_cost = { ratio = 1.5", "write_cost = { ratio = 0.9");
    assert!(error.contains("memory.write_cost: 0.9 is out of range"), "{error}");
}

#[test]
fn one_direction_of_a_domains_connection_alone_is_refused() {
    for (given, remedy) in [
        ("in", "is missing, and memory.domain_in is given"),
        ("out", "has no meaning unless memory.domain_in is given; remove it"),
    ] {
        let key = format!("domain_{given} = {{ gb_per_s = 3.2, source = \"assumed\" }}\nwrite_cost");
        let error = Model::parse("m.toml", &SQUARE.replace("write_cost", &key)).unwrap_err();
        assert_eq!(error.key, "memory.domain_out");
        assert!(error.why.contains(remedy), "{error}");
    }
}

/// The error of the model with these measured waits.
fn refused_waits(pairs: &str) -> String {
    let waits = format!("queueing = {{ ns_at_share = {pairs}, source = \"a made-up paper\" }}\nwrite_cost");
    let error = Model::parse("m.toml", &SQUARE.replace("write_cost", &waits)).unwrap_err();
    assert_eq!(error.key, "queueing", "{error}");
    error.why
}

#[test]
fn points_that_are_no_measured_waits_are_refused_with_the_remedy() {
    for (pairs, remedy) in [
        (
            "[]",
            "give a list of pairs of a share of the bandwidth and the wait in ns",
        ),
        ("[0.5, 25]", "give a list of pairs"),
        ("[[0.5, 25, 1]]", "not a pair of numbers"),
        ("[[50, 25]]", "50 is not a share of the bandwidth"),
        ("[[0.5, -25]]", "-25 ns is out of range"),
        ("[[0.9, 25], [0.5, 30]]", "list the pairs by ascending first number"),
        ("[[0.5, 25], [0.9, 20]]", "leave out the points where it falls"),
    ] {
        let why = refused_waits(pairs);
        assert!(why.contains(remedy), "{pairs}: {why}");
    }
}

/// The error of the model with this published curve of the latency under load.
fn refused_curve(rest: &str) -> String {
    let table = format!("{SQUARE}\n[[published]]\nof = \"local_memory\"\n{rest}\n");
    Model::parse("m.toml", &table).unwrap_err().to_string()
}

#[test]
fn a_curve_that_nothing_can_measure_is_refused_with_the_remedy() {
    let curve = "loaded = { ns_at_gb_per_s = [[1, 100], [3, 120]], source = \"a made-up paper\" }";
    for (rest, remedy) in [
        (curve.to_owned(), "give `by`, and `mix` as reads"),
        (
            format!("by = \"node\"\nmix = \"copy\"\n{curve}"),
            "give `by`, and `mix` as reads",
        ),
        (
            format!("by = \"core\"\nmix = \"reads\"\n{curve}"),
            "give `by` as node, package or machine",
        ),
        (
            format!("by = \"node\"\nmix = \"reads\"\n{}", curve.replace("[3,", "[0.5,")),
            "list the pairs by ascending first number",
        ),
        (
            format!("by = \"node\"\nmix = \"reads\"\ncalibrates = [\"memory.queueing\"]\n{curve}"),
            "published[1].calibrates: `memory.queueing` is not",
        ),
    ] {
        let error = refused_curve(&rest);
        assert!(error.contains(remedy), "{error}");
    }
}

#[test]
fn each_point_of_a_published_curve_is_a_figure() {
    let curve = "loaded = { ns_at_gb_per_s = [[1, 100], [3, 120]], source = \"a made-up paper\" }";
    let text = format!("{SQUARE}\n[[published]]\nof = \"local_memory\"\nby = \"node\"\nmix = \"reads\"\n{curve}\n");
    let model = Model::parse("m.toml", &text).unwrap();
    let names: Vec<String> = model.published[1..].iter().map(|one| one.measure.to_string()).collect();
    assert_eq!(
        names,
        [
            "latency local memory by node reads at 1.0 GB/s",
            "latency local memory by node reads at 3.0 GB/s"
        ]
    );
    assert!((model.published[2].value(&model) - 120e-9).abs() < 1e-15);
}

/// The models agree with the published figures of their machines, and with the sources of their numbers.
#[test]
fn every_model_is_within_a_tenth_of_the_published_figures() {
    assert_agree(builtin_names().filter_map(builtin), 10.0);
}

/// Reads fill the connections into the dies, and a mix with writes moves more than reads alone. The bandwidth of the
/// machine's reads, and of three reads for a write, follow from the two figures that the model has.
#[test]
fn a_machine_of_dies_has_the_published_bandwidths_of_all_mixes() {
    let model = Model::parse("epyc-9224x2.toml", include_str!("epyc-9224x2.toml")).unwrap();
    assert_agree([model].into_iter(), 3.0);
}

/// Asserts that every published figure of the models is off by at most `most` percent.
#[track_caller]
fn assert_agree(models: impl Iterator<Item = Model>, most: f64) {
    let left = Mutex::new(
        models
            .flat_map(|model| (0..model.published.len()).map(move |index| (model.clone(), index)))
            .collect::<Vec<_>>(),
    );
    let far = Mutex::new(vec![]);
    let work = || {
        loop {
            let Some((model, index)) = left.lock().unwrap().pop() else {
                return;
            };
            let published = &model.published[index];
            let simulated = measure(&model, published.measure).unwrap();
            let row = Row {
                measure: published.measure,
                simulated,
                published: Some(published),
            };
            let percent = row.difference_percent(&model).unwrap();
            if percent.abs() > most {
                let text = format!(
                    "{}: {} is {percent:+.1} % off {}",
                    model.name,
                    row.measure,
                    published.source()
                );
                far.lock().unwrap().push(text);
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    let far = far.into_inner().unwrap();
    assert!(far.is_empty(), "{far:#?}");
}
