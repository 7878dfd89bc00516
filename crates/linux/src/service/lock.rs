//! One daemon per machine: two would move each other's tasks.

use crate::own::{self, LockedFile, Own};
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
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
        /// Its process number, or `?` where the file has none.
        process: String,
        /// The locked file.
        path: PathBuf,
    },
    /// The file cannot be locked.
    #[error("{} cannot be locked: {error}; name another directory with --journals", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
}

/// The lock of the one daemon. The kernel releases it when the process ends, also after a kill.
#[derive(Debug)]
pub struct Instance {
    _lock: LockedFile,
}

impl Instance {
    /// Locks the file of the one daemon in this directory.
    pub fn claim(directory: &Path) -> Result<Self, InstanceError> {
        let path = directory.join("daemon.lock");
        let failure = |error| InstanceError::File {
            path: path.clone(),
            error,
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o644);
        let file = match own::open(&path, &options).map_err(failure)? {
            Own::File(file) => file,
            Own::Foreign(why) => return Err(failure(io::Error::other(format!("{why}, and is left alone")))),
        };
        // It has a process number of at most ten digits, and the end of the line; or nothing.
        let mut process = String::new();
        let read = (&file).take(12).read_to_string(&mut process);
        let short = read.is_ok_and(|length| length < 12);
        let process = process.trim();
        if !short || process.bytes().any(|byte| !byte.is_ascii_digit()) {
            let text = "it is not the lock of a daemon, and is left alone";
            return Err(failure(io::Error::other(text)));
        }
        let Some(lock) = own::lock(file).map_err(failure)? else {
            return Err(InstanceError::Runs {
                process: if process.is_empty() { "?" } else { process }.to_owned(),
                path,
            });
        };
        // The file stays at the end: if it were removed, two daemons could lock two files of the same name.
        lock.set_len(0).map_err(failure)?;
        lock.write_all_at(format!("{}\n", std::process::id()).as_bytes(), 0)
            .map_err(failure)?;
        Ok(Self { _lock: lock })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_second_one_is_refused_with_the_number_of_the_first() {
        let root = tempfile::tempdir().unwrap();
        let first = Instance::claim(root.path()).unwrap();
        let error = Instance::claim(root.path()).unwrap_err().to_string();
        assert!(error.contains(&std::process::id().to_string()), "{error}");
        drop(first);
        Instance::claim(root.path()).unwrap();
    }

    #[test]
    fn a_file_that_is_no_lock_is_left() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("daemon.lock");
        for text in ["notes", "1234567890123456 and more"] {
            fs::write(&path, text).unwrap();
            let error = Instance::claim(root.path()).unwrap_err().to_string();
            assert!(error.contains("--journals"), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }
}
