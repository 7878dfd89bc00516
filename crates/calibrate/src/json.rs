//! All measurements as JSON, in seconds, hertz and bytes.

use pinfold_core::measurement::{Calibration, Measured, Relation, Traffic};
use serde_json::{Value, json};

/// All measurements, in seconds, hertz and bytes.
pub fn calibration(calibration: &Calibration) -> Value {
    let curve: Vec<Value> = calibration
        .curve
        .iter()
        .map(|point| json!({ "bytes": point.bytes, "latency": figure(point.latency) }))
        .collect();
    let translation: Vec<Value> = calibration
        .translation
        .iter()
        .map(|point| json!({ "pages": point.pages, "small": figure(point.small), "huge": figure(point.huge) }))
        .collect();
    let pairs: Vec<Value> = calibration
        .pairs
        .iter()
        .map(|(relation, pair)| {
            json!({
                "relation": relation_name(*relation),
                "pus": [pair.pus.0.0, pair.pus.1.0],
                "ping_pong": figure(pair.ping_pong),
                "modified": figure(pair.modified),
                "clean": figure(pair.clean),
                "atomic": figure(pair.atomic),
                "throughput": pair.throughput,
            })
        })
        .collect();
    let bandwidth: Vec<Value> = calibration
        .bandwidth
        .iter()
        .map(|one| {
            json!({
                "from": one.from.0,
                "home": one.home.0,
                "traffic": traffic_name(one.traffic),
                "cores": one.cores,
                "rate": figure(one.rate),
            })
        })
        .collect();
    let nodes: Vec<Value> = calibration
        .nodes
        .iter()
        .map(|one| json!({ "from": one.from.0, "home": one.home.0, "latency": figure(one.latency) }))
        .collect();
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
        "latency_curve": curve,
        "parallelism": figure(calibration.parallelism),
        "foreseen": figure(calibration.foreseen),
        "translation": translation,
        "pairs": pairs,
        "bandwidth": bandwidth,
        "nodes": nodes,
        "stolen_share": calibration.stolen,
        "huge_page_share": calibration.huge_share,
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
