//! `--belief`: what was learned about configurations, for the policies that plan trials by it.

use super::learned;
use anyhow::{Context, Result};
use clap::Args;
use pinfold_policy::belief::Belief;
use std::path::{Path, PathBuf};

#[derive(Args)]
#[group(skip)]
#[command(next_help_heading = "Options of --policy react")]
pub(super) struct Flags {
    /// A belief about configurations, as `pinfold learn train belief` writes it, which plans the trials: the next one has the
    /// largest expected gain over its cost. With react, it replaces the model of regions; none uses the model [default with
    /// auto: the belief that pinfold ships].
    #[arg(long, value_name = "FILE.json|none")]
    belief: Option<PathBuf>,
}

/// The belief that pinfold ships, and its name in messages.
const SHIPPED: &str = include_str!("../../../../../models/belief.json");
const SHIPPED_NAME: &str = "models/belief.json, which pinfold ships";

/// What `--belief` takes for no belief.
const NONE: &str = "none";

impl Flags {
    /// The file that was given; `None` without one, and for `none`.
    pub(super) fn file(&self) -> Option<&Path> {
        self.belief.as_deref().filter(|file| file.as_os_str() != NONE)
    }

    /// The belief that was given, and else the one that pinfold ships. After `none`, nothing is known.
    pub(super) fn or_shipped(&self) -> Result<Belief> {
        match (&self.belief, self.file()) {
            (_, Some(file)) => Ok(read(file)?.1),
            (Some(_), None) => Ok(Belief::ignorant()),
            (None, None) => SHIPPED.parse().with_context(|| format!("cannot use {SHIPPED_NAME}")),
        }
    }
}

/// The belief in a file, with its name in messages.
pub(super) fn read(file: &Path) -> Result<(String, Belief)> {
    learned::read(file, "belief")
}
