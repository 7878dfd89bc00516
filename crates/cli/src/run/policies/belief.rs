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
    /// A belief about configurations, as `pinfold learn train belief` writes it, which plans the trials of auto, hints,
    /// classify and react: the next one has the largest expected gain over its cost. With none nothing is known before the
    /// first trial [default: the belief that pinfold ships].
    #[arg(long, value_name = "FILE.json|none")]
    belief: Option<PathBuf>,
}

/// The belief that pinfold ships, and its name in messages.
const SHIPPED: &str = include_str!("../../../../../models/belief.json");
const SHIPPED_NAME: &str = "models/belief.json, which pinfold ships";

/// What `--belief` takes for no belief.
const NONE: &str = "none";

impl Flags {
    /// The belief that was given, and else the one that pinfold ships, with its name in messages. After `none`, nothing
    /// is known.
    pub(super) fn named(&self) -> Result<(String, Belief)> {
        match &self.belief {
            Some(none) if none == Path::new(NONE) => Ok((NONE.to_owned(), Belief::ignorant())),
            Some(file) => learned::read(file, "belief"),
            None => {
                let belief = SHIPPED.parse().with_context(|| format!("cannot use {SHIPPED_NAME}"))?;
                Ok((SHIPPED_NAME.to_owned(), belief))
            }
        }
    }
}
