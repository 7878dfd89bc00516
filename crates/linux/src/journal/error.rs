//! Why a journal is not available.

use std::io;
use std::path::{Path, PathBuf};

/// A journal is not available.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file system reports an error.
    #[error("{} cannot be {done}: {error}; name another directory with --journals", path.display())]
    File {
        /// The file or directory.
        path: PathBuf,
        /// The operation.
        done: &'static str,
        /// The error.
        error: io::Error,
    },
    /// Other users could write changes to this directory, and pinfold would roll them back.
    #[error(
        "{} belongs to user {owner} and has mode {mode:o}: pinfold trusts journals only in a directory that belongs to \
         its user and that no other user may write to; name another with --journals", path.display()
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// Its permissions.
        mode: u32,
    },
    /// `/proc` shows another numbering of processes than the system calls.
    #[error(
        "/proc belongs to another PID namespace than pinfold, so its numbers name other threads; run pinfold with \
         `unshare --mount-proc pinfold`"
    )]
    AnotherProc,
}

/// Converts an error of the file system into an error of the journal.
pub(super) fn failure(path: &Path, done: &'static str) -> impl FnOnce(io::Error) -> JournalError {
    let path = path.to_path_buf();
    move |error| JournalError::File { path, done, error }
}
