//! The promised costs of pinfold. Each is measured as a ratio or a difference within one run, so that a slow or busy
//! machine slows both sides.
//!
//! Prints a table, writes `target/bench.json` and ends with status 1 where a promise is broken. `make bench` runs it
//! after `make build`. With words as arguments, it measures only the costs whose names contain one of them, and writes
//! no file.

#![expect(clippy::disallowed_macros, reason = "a program that prints a table")]

mod belief;
mod births;
mod daemon;
mod forecast;
mod forks;
mod functions;
mod guest;
mod mapping;
mod measure;
mod mpi;
mod pairs;
mod promises;
mod regions;
mod servers;
mod simulation;
mod sweeps;
mod whole_runs;

use anyhow::{Context, Result};
use measure::Missing;
use promises::Bound;
use serde::Serialize;
use std::process::ExitCode;

/// One cost and its measurement.
#[derive(Serialize)]
struct Measurement {
    name: &'static str,
    /// `null` where it could not be measured here.
    value: Option<f64>,
    unit: &'static str,
    /// The promised limit; `null` where nothing is promised.
    promise: Option<f64>,
    /// Whether the limit is an upper or a lower one.
    bound: Option<&'static str>,
    /// `null` where nothing is promised, or nothing could be measured.
    held: Option<bool>,
    /// Why it could not be measured here; `null` where it was.
    missing: Option<String>,
}

fn main() -> Result<ExitCode> {
    let root = std::env::current_dir().context("the current directory cannot be read")?;
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let mut measurements = vec![];
    println!("{:<74} {:>10} {:<6} {:>10}", "cost", "measured", "unit", "promised");
    for promise in promises::ALL {
        if !wanted.is_empty() && !wanted.iter().any(|word| promise.name.contains(word.as_str())) {
            continue;
        }
        let (value, missing) = match (promise.measure)(&root) {
            Ok(value) => (Some(value), None),
            Err(error) => match error.downcast::<Missing>() {
                Ok(missing) => (None, Some(missing.to_string())),
                Err(error) => return Err(error.context(format!("measuring: {}", promise.name))),
            },
        };
        let (promised, bound, held) = match promise.bound {
            Bound::AtMost(most) => (Some(most), Some("<="), value.map(|value| value <= most)),
            Bound::AtLeast(least) => (Some(least), Some(">="), value.map(|value| value >= least)),
            Bound::None => (None, None, None),
        };
        let shown = promised
            .zip(bound)
            .map(|(promised, bound)| format!("{bound} {promised}"));
        println!(
            "{:<74} {:>10} {:<6} {:>10}  {}",
            promise.name,
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.4}")),
            promise.unit,
            shown.unwrap_or_default(),
            match (held, &missing) {
                (Some(true), _) => "held",
                (Some(false), _) => "BROKEN",
                (None, Some(why)) => why,
                (None, None) => "",
            }
        );
        measurements.push(Measurement {
            name: promise.name,
            value,
            unit: promise.unit,
            promise: promised,
            bound,
            held,
            missing,
        });
    }
    if wanted.is_empty() {
        let path = root.join("target/bench.json");
        std::fs::write(&path, serde_json::to_string_pretty(&measurements)? + "\n")
            .with_context(|| format!("{} cannot be written", path.display()))?;
    }
    let broken = measurements.iter().any(|measurement| measurement.held == Some(false));
    Ok(ExitCode::from(u8::from(broken)))
}
