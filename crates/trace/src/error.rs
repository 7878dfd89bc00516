//! Why a recording cannot be read or written.

use std::io;
use std::path::PathBuf;

/// Why a recording cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be opened, read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file is something else.
    #[error("{} is no recording: it does not begin with the mark of one", path.display())]
    NotARecording {
        /// Which file.
        path: PathBuf,
    },
    /// The file is of a version that this reader does not know.
    #[error("{} is a recording of format version {found}; this pinfold reads versions {} and {}: record the program again, or use the pinfold that recorded it", path.display(), crate::file::OLDEST_VERSION, crate::FORMAT_VERSION)]
    Version {
        /// Which file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// It does not tell what was mapped where.
    #[error("{} is a recording of format version {version}, which does not tell what was mapped where: record the program again", path.display())]
    NoMappings {
        /// Which file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// There are more threads than pairs of them can be counted of.
    #[error("{} holds {threads} threads; who communicates with whom can be counted of {most} at most", path.display())]
    TooManyThreads {
        /// Which file.
        path: PathBuf,
        /// Its threads.
        threads: usize,
        /// The most that there may be.
        most: usize,
    },
    /// The file is damaged or cut off.
    #[error("{} is damaged at byte {offset}: {what}; what precedes can still be read with --salvage", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// Where the part that is damaged begins, in bytes from the file's beginning.
        offset: u64,
        /// What is wrong.
        what: String,
    },
}
