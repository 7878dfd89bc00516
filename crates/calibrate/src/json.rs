//! The measurements as JSON, in seconds, hertz and bytes.

use pinfold_core::measurement::{BandwidthMeasurement, Calibration, Measured, PairMeasurement, Relation, Traffic};
use serde_json::{Value, json};

/// All measurements, in seconds, hertz and bytes.
pub fn calibration(calibration: &Calibration) -> Value {
    let curve = calibration.curve.iter();
    let translation = calibration.translation.iter();
    let nodes = calibration.nodes.iter();
    json!({
        "pu": calibration.pu.0,
        "frequency": figure(calibration.frequency),
        "instruction": calibration.instruction.iter().copied().map(figure).collect::<Vec<_>>(),
        "atomic": figure(calibration.atomic),
        "system": {
            "call": figure(calibration.system.call),
            "hand_over": figure(calibration.system.hand_over),
            "pause": figure(calibration.system.pause),
        },
        "latency_curve": list(curve, |point| json!({ "bytes": point.bytes, "latency": figure(point.latency) })),
        "parallelism": figure(calibration.parallelism),
        "foreseen": figure(calibration.foreseen),
        "translation": list(translation, |point| {
            json!({ "pages": point.pages, "small": figure(point.small), "huge": figure(point.huge) })
        }),
        "pairs": list(calibration.pairs.iter(), |(relation, measured)| pair(*relation, measured)),
        "bandwidth": list(calibration.bandwidth.iter(), bandwidth),
        "nodes": list(nodes, |one| json!({ "from": one.from.0, "home": one.home.0, "latency": figure(one.latency) })),
        "stolen_share": calibration.stolen,
        "huge_page_share": calibration.huge_share,
    })
}

fn list<T>(items: impl Iterator<Item = T>, value: impl Fn(T) -> Value) -> Value {
    items.map(value).collect()
}

fn pair(relation: Relation, pair: &PairMeasurement) -> Value {
    json!({
        "relation": relation_name(relation),
        "pus": [pair.pus.0.0, pair.pus.1.0],
        "ping_pong": figure(pair.ping_pong),
        "modified": figure(pair.modified),
        "clean": figure(pair.clean),
        "atomic": figure(pair.atomic),
        "throughput": pair.throughput,
    })
}

fn bandwidth(measured: &BandwidthMeasurement) -> Value {
    json!({
        "from": measured.from.0,
        "home": measured.home.0,
        "traffic": traffic_name(measured.traffic),
        "cores": measured.cores,
        "rate": figure(measured.rate),
    })
}

fn figure(measured: Measured) -> Value {
    json!({ "value": measured.value, "spread": measured.spread, "pieces": measured.runs })
}

fn relation_name(relation: Relation) -> &'static str {
    match relation {
        Relation::SameCore => "same_core",
        Relation::SameDomain => "same_domain",
        Relation::SamePackage => "same_package",
        Relation::OtherPackage => "other_package",
    }
}

fn traffic_name(traffic: Traffic) -> &'static str {
    match traffic {
        Traffic::Read => "read",
        Traffic::Write => "write",
        Traffic::Copy => "copy",
    }
}
