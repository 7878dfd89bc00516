//! `pinfold events`: what can be counted.

use anyhow::Result;
use clap::Args;
use std::process::ExitCode;

/// List the events that can be counted.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Only events whose name or description contains this text.
    pattern: Option<String>,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(_arguments: &Arguments) -> Result<ExitCode> {
    Ok(ExitCode::SUCCESS)
}
