//! Why a journal cannot be had.

use std::io;
use std::path::{Path, PathBuf};

/// A journal cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file system says no.
    #[error("{} cannot be {done}: {error}; name another directory with --journals", path.display())]
    File {
        /// Which file or directory.
        path: PathBuf,
        /// What was to be done with it.
        done: &'static str,
        /// Why not.
        error: io::Error,
    },
    /// Others could write there what we would undo.
    #[error(
        "{} belongs to user {owner} and has mode {mode:o}: journals are only believed in a directory that is ours and that \
         nobody else may write to; name another with --journals", path.display()
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// Its permissions.
        mode: u32,
    },
    /// `/proc` has other numbers than the system calls.
    #[error(
        "/proc belongs to another PID namespace than pinfold, so that its numbers are other threads' here; run pinfold by \
         `unshare --mount-proc pinfold`"
    )]
    AnotherProc,
}

/// What makes an error of the file system one of the journal.
pub(super) fn failure(path: &Path, done: &'static str) -> impl FnOnce(io::Error) -> JournalError {
    let path = path.to_path_buf();
    move |error| JournalError::File { path, done, error }
}
