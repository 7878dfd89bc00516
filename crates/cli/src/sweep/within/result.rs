//! The end of a sweep within one run: the data set, notes for the user, and the summary.

use super::super::Arguments;
use super::Swept;
use anyhow::{Result, bail};
use pinfold_core::RegionId;
use pinfold_files::output::Output;
use pinfold_policy::survey::{Measured, Subject};
use pinfold_sweep::within::{MeasuredPart, within_data_set};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;

/// The summary of a sweep within one run.
#[derive(Serialize)]
struct Summary {
    output: PathBuf,
    simulated: bool,
    /// The number of threads that configurations are for.
    threads: usize,
    /// The measured parallel regions; 0 if the program was measured as a whole.
    regions: usize,
    /// The metric of a program that was measured as a whole.
    metric: Option<String>,
    configurations: usize,
    /// Those that were measured.
    measured: usize,
    /// Those that were measured to the wanted interval.
    precise: usize,
    /// Whether everything was measured that can be.
    complete: bool,
    /// The measurements of earlier runs.
    resumed: usize,
    /// By configuration, its pinning and why it was left out.
    left_out: BTreeMap<usize, String>,
    rows: usize,
    /// How long the last run was measured, without the program's initialisation.
    seconds: f64,
    /// The largest time over the smallest of the drift, minus one.
    drift: f64,
    exit_status: Option<i32>,
}

/// A result of the policy as the data set takes it.
fn part(measured: &Measured) -> MeasuredPart {
    MeasuredPart {
        region: match measured.subject {
            Subject::Program => None,
            Subject::Region(id) => Some(id),
        },
        configuration: measured.configuration,
        seconds: measured.seconds,
        error: measured.error,
        spread: measured.spread,
        measurements: measured.measurements,
        counts: measured.counts,
    }
}

/// Writes the data set and the summary.
pub(super) fn write(arguments: &Arguments, swept: Swept<'_>, output: Output, json: Option<Output>) -> Result<ExitCode> {
    let configurations = &swept.selection.configurations;
    for text in &swept.selection.left_out {
        arguments.say(text);
    }
    for (&one, why) in &swept.found.left_out {
        let configuration = &configurations[one].columns;
        arguments.say(format!(
            "left out: CPUs {} with pages {} and prefetchers {}: {why}",
            configuration.pinning.as_deref().unwrap_or("any"),
            configuration.page_map,
            configuration.prefetch
        ));
    }
    if let Some(text) = text_of_others(&swept.others) {
        arguments.say(text);
    }
    if swept.measured.is_empty() {
        bail!(
            "no configuration was measured, so {} is not written",
            arguments.output.display()
        );
    }
    let measured: Vec<MeasuredPart> = swept.measured.iter().map(part).collect();
    let data_set = within_data_set(&swept.program, configurations, &measured);
    output.write_with(|file| data_set.write(file))?;
    let regions: BTreeSet<RegionId> = measured.iter().filter_map(|one| one.region).collect();
    let summary = Summary {
        output: arguments.output.clone(),
        simulated: swept.program.simulated,
        threads: swept.found.threads,
        regions: regions.len(),
        metric: swept.found.metric,
        configurations: swept.found.configurations,
        measured: swept.found.measured,
        precise: swept.found.precise,
        complete: swept.is_complete,
        resumed: swept.keeper.earlier_measurements(),
        left_out: swept.found.left_out,
        rows: data_set.rows.len(),
        seconds: swept.found.lasted,
        drift: swept.found.drift,
        exit_status: swept.exit_status,
    };
    arguments.say(format!("{} rows in {}", summary.rows, summary.output.display()));
    if summary.complete {
        swept.keeper.remove()?;
    } else {
        arguments.say(format_args!(
            "all measurements are kept in {}: the same command goes on from there",
            arguments.beside(".partial").display()
        ));
    }
    if let Some(json) = json {
        json.write_json(&summary)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The regions that were not measured.
fn text_of_others(others: &[RegionId]) -> Option<String> {
    /// The most regions that are named.
    const NAMED: usize = 4;
    let named: Vec<String> = others.iter().take(NAMED).map(ToString::to_string).collect();
    let more = others.len().saturating_sub(NAMED);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    (!others.is_empty()).then(|| {
        format!(
            "not measured by themselves, because they take less than 1 % of the time in regions, are shorter than 100 us, or \
             hardly repeat: regions {}{more}",
            named.join(", ")
        )
    })
}
