//! `pinfold run`: place one program.

use anyhow::Result;
use clap::Args;
use std::ffi::OsString;
use std::process::ExitCode;

/// Run a program, try pinnings while it runs and keep the best.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    machine: crate::machine::Arguments,

    /// The program and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub(crate) fn run(_arguments: Arguments) -> Result<ExitCode> {
    Ok(ExitCode::SUCCESS)
}
