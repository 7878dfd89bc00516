//! `pinfold topo`: the machine as pinfold sees it.

mod json;

use crate::console;
use anyhow::Result;
use clap::Args;
use std::process::ExitCode;

/// Show the machine as pinfold sees it.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  pinfold topo
      this machine
  pinfold topo --machine xml:machine.xml
      the machine on which `lstopo machine.xml` was run")]
pub(crate) struct Arguments {
    #[command(flatten)]
    machine: crate::machine::Arguments,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let machine = arguments.machine.selected()?;
    let topology = machine.topology()?;
    let devices = machine.devices()?;
    let text = if arguments.json {
        format!("{:#}\n", json::of(&topology, &devices))
    } else {
        pinfold_view::topology::page(&topology, &devices)
    };
    console::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
