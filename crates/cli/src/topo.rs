//! `pinfold topo`: the machine as pinfold sees it.

use anyhow::Result;
use clap::Args;
use std::process::ExitCode;

/// Show the machine as pinfold sees it.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    machine: crate::machine::Arguments,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(_arguments: &Arguments) -> Result<ExitCode> {
    Ok(ExitCode::SUCCESS)
}
