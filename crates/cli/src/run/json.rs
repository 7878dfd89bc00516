//! The file of `--json`.
//!
//! It is opened before the program starts, so that a long run is not lost to a folder that does not exist, and written
//! when the program has ended. A run that does not come to its end leaves what was in the file.

use anyhow::{Context, Result};
use serde::Serialize;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A file that can be written.
pub(crate) struct File {
    open: fs::File,
    path: PathBuf,
    /// Whether it is ours to take away again, because we have made it and not written it.
    made: bool,
}

impl File {
    /// Opens the file, and makes it where there is none.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let made = !path.exists();
        let open = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .with_context(|| format!("--json {}: cannot write there", path.display()))?;
        Ok(Self {
            open,
            path: path.to_owned(),
            made,
        })
    }

    /// Writes the document in the place of all that was there.
    pub(crate) fn write(mut self, document: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string_pretty(document)? + "\n";
        // A pipe or a terminal has no length.
        if self.open.metadata().is_ok_and(|metadata| metadata.is_file()) {
            self.open.set_len(0).with_context(|| self.failure())?;
        }
        self.open.write_all(text.as_bytes()).with_context(|| self.failure())?;
        self.made = false;
        Ok(())
    }

    fn failure(&self) -> String {
        format!("cannot write what was learned to `{}`", self.path.display())
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if self.made {
            // It is empty, and if it stays no harm is done.
            let _ = fs::remove_file(&self.path);
        }
    }
}
