//! `pinfold explain`: the reason for each decision of a run, as text, from the record that `pinfold run --json` wrote; or
//! what a placement model has learned.

use crate::console;
use crate::run::policies;
use anyhow::{Context, Result};
use clap::Args;
use pinfold_policy::classify::PlacementModel;
use pinfold_policy::react::ReactModel;
use pinfold_runtime::RunDocument;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

/// Explain in words what a run decided, and why; or what a model looks at, and what it was learned from.
///
/// FILE is what `pinfold run --json FILE`, `pinfold learn train classify -o FILE` or `pinfold learn train react -o FILE` wrote.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  pinfold run --json run.json -- ./solver input.dat
  pinfold explain run.json")]
pub(crate) struct Arguments {
    /// The record of a run, or a model.
    #[arg(value_name = "FILE.json")]
    file: PathBuf,
}

/// What shows that a file is a model.
#[derive(Deserialize)]
struct Kind {
    placement_model: Option<IgnoredAny>,
    react_model: Option<IgnoredAny>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let file = arguments.file.display();
    let text = fs::read_to_string(&arguments.file).with_context(|| format!("cannot read `{file}`"))?;
    let explained = explained(&text).with_context(|| format!("`{file}`"))?;
    console::print(&explained)?;
    Ok(ExitCode::SUCCESS)
}

fn explained(text: &str) -> Result<String> {
    let kind = serde_json::from_str(text).unwrap_or(Kind {
        placement_model: None,
        react_model: None,
    });
    if kind.placement_model.is_some() {
        return Ok(text.parse::<PlacementModel>()?.to_string());
    }
    if kind.react_model.is_some() {
        return Ok(text.parse::<ReactModel>()?.to_string());
    }
    let document = RunDocument::read(text)?;
    let does = policies::explained(&document.record.policy);
    Ok(document.explanation(does))
}
