//! The folder of `--simulations`: configurations that were simulated, for other runs of the same recordings.
//!
//! Files are written beside their place and renamed, so that runs side by side can share a folder.

use pinfold_core::content_hash;
use pinfold_sim::WindowStore;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;

/// The variable that names the folder.
pub(crate) const VARIABLE: &str = "PINFOLD_SIMULATIONS";

/// The hash of all sources that the results of the simulator depend on (`build.rs`). What one build has simulated is of
/// use to another one, whatever else has changed.
pub(super) const SIMULATOR: &str = env!("PINFOLD_SIMULATOR");

/// A folder with a file for each configuration.
pub(super) struct Folder(PathBuf);

impl Folder {
    /// The folder, which is created.
    pub(super) fn new(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        Ok(Self(folder.to_owned()))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name).with_extension("json")
    }
}

impl WindowStore for Folder {
    fn load(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.file(name)).ok()
    }

    fn store(&self, name: &str, content: &[u8]) {
        let file = self.file(name);
        let unfinished = file.with_extension(process::id().to_string());
        let written = fs::write(&unfinished, content).and_then(|()| fs::rename(&unfinished, &file));
        if written.is_err() {
            // The next run simulates it; an unfinished simulation is useless.
            let _ = fs::remove_file(unfinished);
        }
    }
}

/// The hash of a file's content.
pub(super) fn hash_of(file: &Path) -> io::Result<u128> {
    Ok(content_hash(&fs::read(file)?))
}
