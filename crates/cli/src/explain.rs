//! `pinfold explain`: the reason for each decision of a run, as text, from the record that `pinfold run --json` wrote; or
//! what a placement model has learned.

use crate::console;
use crate::run::policies;
use anyhow::{Context, Result};
use clap::Args;
use pinfold_policy::classify::PlacementModel;
use pinfold_runtime::RunDocument;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

/// Explain in words what a run decided, and why; or what a placement model looks at, and what it was learned from.
///
/// FILE is what `pinfold run --json FILE` or `pinfold learn train classify -o FILE` wrote.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  pinfold run --json run.json -- ./solver input.dat
  pinfold explain run.json")]
pub(crate) struct Arguments {
    /// The record of a run, or a placement model.
    #[arg(value_name = "FILE.json")]
    file: PathBuf,
}

/// What shows that a file is a placement model.
#[derive(Deserialize)]
struct Kind {
    placement_model: Option<IgnoredAny>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let file = arguments.file.display();
    let text = fs::read_to_string(&arguments.file).with_context(|| format!("cannot read `{file}`"))?;
    let is_model = serde_json::from_str::<Kind>(&text).is_ok_and(|kind| kind.placement_model.is_some());
    let explained = if is_model {
        let model: PlacementModel = text.parse().with_context(|| format!("`{file}`"))?;
        model.to_string()
    } else {
        let document = RunDocument::read(&text).with_context(|| format!("`{file}`"))?;
        let does = policies::explained(&document.record.policy);
        document.explanation(does)
    };
    console::print(&explained)?;
    Ok(ExitCode::SUCCESS)
}
