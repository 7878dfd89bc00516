//! What was learned, from a file that the user names.

use anyhow::{Context, Result};
use pinfold_files::input;
use std::error::Error;
use std::path::Path;
use std::str::FromStr;

/// The content of a file, which is `what` in messages, and the file's name in messages.
pub(super) fn read<Learned>(file: &Path, what: &str) -> Result<(String, Learned)>
where
    Learned: FromStr<Err: Error + Send + Sync + 'static>,
{
    let name = format!("`{}`", file.display());
    let text = input::text(file, input::MOST).with_context(|| format!("cannot read the {what} {name}"))?;
    let learned = text.parse().with_context(|| format!("cannot use the {what} {name}"))?;
    Ok((name, learned))
}
