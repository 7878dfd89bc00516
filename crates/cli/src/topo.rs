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

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let topology = arguments.machine.topology()?;
    println!("{}", topology.name());
    println!("{}", serde_json::to_string_pretty(&topology)?);
    Ok(ExitCode::SUCCESS)
}
