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
    /// Other users could write changes there that pinfold would roll back.
    #[error(
        "{} belongs to user {owner} and has mode {mode:o}: journals are only believed in a directory that is ours and that \
         no other user may write to; name another with --journals", path.display()
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// Its permissions.
        mode: u32,
    },
    /// `/proc` numbers processes differently than the system calls.
    #[error(
        "/proc belongs to another PID namespace than pinfold, so that its numbers are other threads' here; run pinfold by \
         `unshare --mount-proc pinfold`"
    )]
    AnotherProc,
}

/// Makes an error of the file system one of the journal.
pub(super) fn failure(path: &Path, done: &'static str) -> impl FnOnce(io::Error) -> JournalError {
    let path = path.to_path_buf();
    move |error| JournalError::File { path, done, error }
}
