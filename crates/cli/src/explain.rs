//! `pinfold explain`: the reason for each decision of a run, as text, from the record that `pinfold run --json` wrote.

use crate::console;
use crate::run::policies;
use anyhow::{Context, Result};
use clap::Args;
use pinfold_runtime::RunDocument;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

/// Explain in words what a run decided, and why.
///
/// FILE is what `pinfold run --json FILE` wrote.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The record of a run.
    #[arg(value_name = "FILE.json")]
    file: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let file = &arguments.file;
    let text = fs::read_to_string(file).with_context(|| format!("cannot read `{}`", file.display()))?;
    let document = RunDocument::read(&text).with_context(|| format!("`{}`", file.display()))?;
    let does = policies::explained(&document.record.policy);
    console::print(&document.explanation(does))?;
    Ok(ExitCode::SUCCESS)
}
