//! One daemon a machine: two would move each other's tasks.

use crate::own::{self, LockedFile};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Why this daemon is not the only one.
#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
    /// Another one runs.
    #[error(
        "a daemon runs already: process {process} (it has locked {}); end it first, or send it SIGHUP to have it read its \
         configuration again", path.display()
    )]
    Runs {
        /// Its number, or `?` where it has not said.
        process: String,
        /// The file that it holds.
        path: PathBuf,
    },
    /// The file cannot be had.
    #[error("{} cannot be locked: {error}; name another directory with --journals", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
}

/// The one daemon, for as long as this is there. The kernel gives the lock back when the process ends, however it does.
#[derive(Debug)]
pub struct Instance {
    _lock: LockedFile,
}

impl Instance {
    /// Becomes the one daemon whose file is in this directory.
    pub fn claim(directory: &Path) -> Result<Self, InstanceError> {
        let path = directory.join("daemon.lock");
        let failure = |error| InstanceError::File {
            path: path.clone(),
            error,
        };
        let open = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o644)
            .open(&path);
        let file = open.map_err(failure)?;
        let Some(lock) = own::lock(file).map_err(failure)? else {
            let process = fs::read_to_string(&path).unwrap_or_default();
            let process = process.trim();
            return Err(InstanceError::Runs {
                process: if process.is_empty() { "?" } else { process }.to_owned(),
                path,
            });
        };
        // The file stays when we end: to remove it would let two others lock two files of the same name.
        lock.set_len(0).map_err(failure)?;
        (&*lock)
            .write_all(format!("{}\n", std::process::id()).as_bytes())
            .map_err(failure)?;
        Ok(Self { _lock: lock })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_one_is_refused_and_told_of_the_first() {
        let root = tempfile::tempdir().unwrap();
        let first = Instance::claim(root.path()).unwrap();
        let error = Instance::claim(root.path()).unwrap_err().to_string();
        assert!(error.contains(&std::process::id().to_string()), "{error}");
        drop(first);
        Instance::claim(root.path()).unwrap();
    }
}
