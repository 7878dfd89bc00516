//! Why a recording cannot be read or written.

use std::io;
use std::path::PathBuf;

/// Why a recording cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be opened, read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is not a recording.
    #[error("{} is not a recording: it does not start with the magic bytes of one", path.display())]
    NotARecording {
        /// The file.
        path: PathBuf,
    },
    /// This reader does not know the version of the file.
    #[error("{} is a recording of format version {found}; this pinfold reads versions {} and {}: record the program again, or use the pinfold that recorded it", path.display(), crate::file::OLDEST_VERSION, crate::FORMAT_VERSION)]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// The recording has no mappings.
    #[error("{} is a recording of format version {version}, which has no mappings: record the program again", path.display())]
    NoMappings {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// There are too many threads for counts of all pairs.
    #[error("{} holds {threads} threads; the communication of threads can be counted for at most {most}", path.display())]
    TooManyThreads {
        /// The file.
        path: PathBuf,
        /// Its threads.
        threads: usize,
        /// The largest number of threads.
        most: usize,
    },
    /// The lines and threads are too many for counts of each line by thread.
    #[error("{}: counts of its lines by its {threads} threads need more than {mebibytes} MiB; record a window of the program (record --instructions), or fewer threads", path.display())]
    TooManyLines {
        /// The file.
        path: PathBuf,
        /// Its threads.
        threads: usize,
        /// The largest memory for counts.
        mebibytes: usize,
    },
    /// The file is damaged or truncated.
    #[error("{} is damaged at byte {offset}: {what}; --salvage reads the part before the damage", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The offset of the damaged part, in bytes from the start of the file.
        offset: u64,
        /// The damage.
        what: String,
    },
}
