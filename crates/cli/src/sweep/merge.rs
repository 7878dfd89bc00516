//! `pinfold sweep merge`: the data set of all shards of a sweep.

use crate::console;
use anyhow::Result;
use clap::Args;
use pinfold_files::output::Output;
use pinfold_sweep::measured::{is_shard_of_runs, merge_runs, notes};
use pinfold_sweep::shard::{Merged, merge};
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

/// Join all shards of a sweep. Of a simulated sweep the data set is the same, byte by byte, as one sweep without --shard
/// writes.
#[derive(Args)]
pub(super) struct Arguments {
    /// The data set.
    #[arg(short, long, value_name = "DATA.parquet")]
    output: PathBuf,

    /// Replace the data set if it exists.
    #[arg(long)]
    force: bool,

    /// Write a summary of the data set to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Print nothing but errors.
    #[arg(short, long)]
    quiet: bool,

    /// The files that `pinfold sweep --shard` wrote, in any order.
    #[arg(value_name = "SHARD", required = true)]
    shards: Vec<PathBuf>,
}

/// The summary of a merge.
#[derive(Serialize)]
struct Summary {
    output: PathBuf,
    simulated: bool,
    shards: usize,
    machines: usize,
    programs: usize,
    configurations: usize,
    rows: usize,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "merged {} configurations of {} shards: {} rows in {}",
            self.configurations,
            self.shards,
            self.rows,
            self.output.display()
        )
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let output = Output::open("--output", &arguments.output)?;
    super::check_absent(&arguments.output, arguments.force)?;
    let json = Output::optional("--json", arguments.json.as_deref())?;
    let simulated = !arguments.shards.iter().any(|file| is_shard_of_runs(file));
    let merged = if simulated {
        merge(&arguments.shards)?
    } else {
        merged_runs(&arguments.shards)?
    };
    output.write_with(|file| merged.data_set.write(file))?;
    let summary = Summary {
        output: arguments.output.clone(),
        simulated,
        shards: arguments.shards.len(),
        machines: merged.machines,
        programs: merged.programs,
        configurations: merged.configurations,
        rows: merged.data_set.rows.len(),
    };
    if !arguments.quiet {
        for note in &merged.notes {
            console::say(note);
        }
        console::say(&summary);
    }
    if let Some(json) = json {
        json.write_json(&summary)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The shards of a measured sweep. Its data set is of one machine and program.
fn merged_runs(shards: &[PathBuf]) -> Result<Merged> {
    let runs = merge_runs(shards)?;
    Ok(Merged {
        data_set: runs.data_set(),
        machines: 1,
        programs: 1,
        configurations: runs.sheet().configurations(),
        notes: notes(&runs),
    })
}
