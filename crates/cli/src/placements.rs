//! `pinfold placements`: the pinnings of a thread count up to the machine's symmetries.

use anyhow::Result;
use clap::Args;
use std::process::ExitCode;

/// List or count the placements of a number of threads: the pinnings up to the symmetries of the machine.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    machine: crate::machine::Arguments,

    /// How many threads are placed.
    #[arg(long, value_name = "N")]
    threads: usize,

    /// Print only how many placements there are.
    #[arg(long)]
    count: bool,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(_arguments: &Arguments) -> Result<ExitCode> {
    Ok(ExitCode::SUCCESS)
}
