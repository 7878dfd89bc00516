//! The keys of a model file, and how errors name the position of a mistake.

use pinfold_core::{ObjectKind, PuId};
use pinfold_sim::model::{Model, builtin, builtin_names};

const OPTERON: &str = include_str!("../../../machines/opteron-6164x4.toml");

/// The error of the Opteron's model with `from` replaced by `to`, and the line on which `from` stands.
fn refused(from: &str, to: &str) -> (String, usize) {
    assert!(OPTERON.contains(from), "{from}");
    let line = OPTERON.lines().position(|line| line.contains(from)).unwrap() + 1;
    let error = Model::parse("m.toml", &OPTERON.replacen(from, to, 1)).unwrap_err();
    assert_eq!(error.line, line, "{error}");
    (error.to_string(), line)
}

#[test]
fn a_negative_number_is_refused_with_its_line() {
    let (error, line) = refused("{ ghz = 1.7,", "{ ghz = -1.7,");
    assert!(error.starts_with(&format!("m.toml:{line}: frequency: ")), "{error}");
    assert!(error.contains("give a number above 0"), "{error}");
}

#[test]
fn clocks_of_active_cores_that_do_not_fit_the_package_are_refused() {
    let with = |steps: &str| format!("[core]\nturbo = {{ cores_ghz = {steps}, source = \"assumed\" }}");
    let error = |steps: &str| {
        let text = OPTERON.replace("[core]", &with(steps));
        Model::parse("m.toml", &text).unwrap_err().to_string()
    };
    let line = OPTERON.lines().position(|line| line == "[core]").unwrap() + 2;
    let all = error("[[2, 2.1], [6, 1.9]]");
    assert!(all.starts_with(&format!("m.toml:{line}: core.turbo: ")), "{all}");
    assert!(all.contains("end with the clock of all 12"), "{all}");
    let below = error("[[2, 2.1], [12, 1.5]]");
    assert!(below.contains("below the 1.7 GHz of core.frequency"), "{below}");
    for list in ["[2, 2.1]", "[[2, 2.1, 3]]", "[]"] {
        let error = error(list);
        assert!(error.contains("pair"), "{list}: {error}");
    }
}

#[test]
fn a_number_without_a_source_is_refused() {
    let (error, _) = refused(", source = \"AMD Opteron 6164 HE product specification\"", "");
    assert!(error.contains("`source` is missing"), "{error}");
}

#[test]
fn an_unknown_unit_is_refused_and_the_right_ones_named() {
    let (error, _) = refused("{ ghz = 1.7,", "{ hz = 1.7,");
    assert!(error.contains("use ghz or mhz"), "{error}");
}

#[test]
fn a_missing_key_is_named() {
    let line = OPTERON.lines().find(|line| line.starts_with("reorder_buffer")).unwrap();
    let error = Model::parse("m.toml", &OPTERON.replace(line, "")).unwrap_err();
    assert!(error.to_string().contains("reorder_buffer"), "{error}");
}

#[test]
fn an_unknown_word_is_refused_and_the_right_ones_named() {
    let (error, _) = refused("name = \"moesi\"", "name = \"mosei\"");
    assert!(error.contains("mesi, mesif, moesi, moesif"), "{error}");
}

#[test]
fn ways_that_do_not_divide_the_size_are_refused() {
    let (error, _) = refused("ways = { count = 40,", "ways = { count = 37,");
    assert!(error.contains("cache[2].ways"), "{error}");
}

#[test]
fn a_latency_below_that_of_the_level_before_is_refused() {
    let (error, _) = refused("latency = { cycles = 49,", "latency = { cycles = 12,");
    assert!(error.contains("cache[2].latency") && error.contains("16.0"), "{error}");
}

#[test]
fn nodes_that_no_link_reaches_are_refused() {
    let error = Model::parse(
        "m.toml",
        &OPTERON
            .replace("[6, 7]]", "[4, 6]]")
            .replace("[4, 6], [1, 3], [1, 5], [1, 7], [3, 5], [3, 7], [5, 7]]", "[1, 3]]"),
    )
    .unwrap_err();
    assert!(error.why.contains("no links lead"), "{error}");
}

#[test]
fn a_latency_is_required_where_the_shape_needs_it_and_refused_where_it_excludes_it() {
    let line = OPTERON
        .lines()
        .find(|line| line.starts_with("same_package_clean"))
        .unwrap();
    let error = Model::parse("m.toml", &OPTERON.replace(line, "")).unwrap_err();
    assert!(
        error.key == "coherence.same_package_clean" && error.why.contains("is missing"),
        "{error}"
    );
    let (error, _) = refused("[tlb]", "smt_throughput = { ratio = 1.2, source = \"assumed\" }\n[tlb]");
    assert!(error.contains("core.smt_throughput"), "{error}");
    let (error, _) = refused("[tlb]", "smt_buffers = { ratio = 0.5, source = \"assumed\" }\n[tlb]");
    assert!(
        error.contains("core.smt_buffers") && error.contains("leave the key out"),
        "{error}"
    );
}

#[test]
fn an_assumption_is_distinguished_from_a_published_number() {
    let model = Model::parse("m.toml", OPTERON).unwrap();
    assert!(model.core.base_cpi.source().is_assumed());
    assert!(!model.core.frequency.source().is_assumed());
}

#[test]
fn the_topology_is_that_of_the_machine() {
    let shapes: Vec<(String, usize, usize, usize, usize)> = builtin_names()
        .map(|name| {
            let topology = builtin(name).unwrap().topology();
            (
                name.to_owned(),
                topology.objects_of(ObjectKind::Package).count(),
                topology.nodes().len(),
                topology.llc_domains().len(),
                topology.allowed_pus().len(),
            )
        })
        .collect();
    assert!(shapes.contains(&("opteron-6164x4".to_owned(), 4, 8, 8, 48)));
    assert!(shapes.contains(&("e5-2660v2x2".to_owned(), 2, 2, 2, 40)));
    assert!(shapes.contains(&("e5-4650x4".to_owned(), 4, 4, 4, 64)));
}

#[test]
fn siblings_are_numbered_last_and_share_a_core() {
    let model = builtin("e5-2660v2x2").unwrap();
    assert_eq!(model.core_of_pu(3), Some((3, 0)));
    assert_eq!(model.core_of_pu(23), Some((3, 1)));
    assert_eq!(model.core_of_pu(40), None);
    let topology = model.topology();
    let path = topology.path_to(PuId(23));
    assert!(topology.object(path[path.len() - 2]).pus.contains(PuId(3)));
}

#[test]
fn the_ring_of_the_e5_4650_has_an_opposite_package_two_links_away() {
    let routes = builtin("e5-4650x4").unwrap().routes();
    assert_eq!(
        (
            routes.route(0, 1).len(),
            routes.route(0, 2).len(),
            routes.route(0, 3).len()
        ),
        (1, 2, 1)
    );
    assert!((routes.latency(0, 2) - 2.0 * routes.latency(0, 1)).abs() < 1e-6);
}

#[test]
fn a_number_out_of_range_is_refused_with_the_range() {
    for (from, to, words) in [
        ("walk = { cycles = 30,", "walk = { cycles = 1e300,", "from 1e-6 to 1e9"),
        (
            "threads_per_core = { count = 1,",
            "threads_per_core = { count = 16777216,",
            "exceed the limit of 16",
        ),
        (
            "in_flight = { count = ",
            "in_flight = { count = 100000",
            "exceed the limit of 65536",
        ),
    ] {
        let (error, _) = refused(from, to);
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn optional_numbers_of_prefetchers_are_checked_against_the_others() {
    for (key, count, words) in [
        ("streamer_l2_below", 4, "prefetch.llc_in_flight: is missing"),
        ("llc_in_flight", 4, "prefetch.llc_in_flight: has no meaning unless"),
        (
            "adjacent_below",
            99,
            "prefetch.adjacent_below: 99 exceed core.line_fill_buffers",
        ),
        (
            "next_page",
            65,
            "prefetch.next_page: 65 exceed the lines of a page: give at most 64",
        ),
        (
            "streamer_busy_distance",
            9,
            "exceed prefetch.streamer_distance: give at most 8",
        ),
    ] {
        let with = format!("[prefetch]\n{key} = {{ count = {count}, source = \"assumed\" }}");
        let error = Model::parse("m.toml", &OPTERON.replace("[prefetch]", &with)).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
}
