//! The costs that pinfold promises, each measured as a ratio or a difference within one run, so that a slow or busy
//! machine slows both sides.
//!
//! Prints a table, writes `target/bench.json` and ends with status 1 where a promise is broken. Run by `make bench`,
//! after `make build`.

mod measure;
mod promises;

use anyhow::{Context, Result};
use serde::Serialize;
use std::process::ExitCode;

/// One promised cost and what was measured.
#[derive(Serialize)]
struct Measurement {
    name: &'static str,
    value: f64,
    unit: &'static str,
    /// The greatest value that keeps the promise.
    promise: f64,
    held: bool,
}

fn main() -> Result<ExitCode> {
    let root = std::env::current_dir().context("the current directory is not to be had")?;
    let mut measurements = vec![];
    println!("{:<58} {:>10} {:<6} {:>10}", "cost", "measured", "unit", "promised");
    for promise in promises::ALL {
        let value = (promise.measure)(&root).with_context(|| format!("measuring: {}", promise.name))?;
        let held = value <= promise.at_most;
        println!(
            "{:<58} {:>10.4} {:<6} {:>10}  {}",
            promise.name,
            value,
            promise.unit,
            format!("<= {}", promise.at_most),
            if held { "held" } else { "BROKEN" }
        );
        measurements.push(Measurement {
            name: promise.name,
            value,
            unit: promise.unit,
            promise: promise.at_most,
            held,
        });
    }
    let path = root.join("target/bench.json");
    std::fs::write(&path, serde_json::to_string_pretty(&measurements)? + "\n")
        .with_context(|| format!("{} cannot be written", path.display()))?;
    Ok(ExitCode::from(u8::from(
        !measurements.iter().all(|measurement| measurement.held),
    )))
}
