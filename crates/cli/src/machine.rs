//! `--machine`: which machine a command is about.

use clap::Args;

/// Which machine a command is about.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The machine: `xml:FILE` (hwloc XML), `fsroot:DIR` (a copy of another machine's /sys and /proc),
    /// `synthetic:SPEC` (hwloc's synthetic description) or a machine model; without it, this machine.
    #[arg(long, value_name = "MACHINE")]
    machine: Option<String>,
}
