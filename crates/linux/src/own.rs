//! What this process itself uses and holds: processor time, and files that nobody else may work on.

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::fs::{self, File, Metadata};
use std::io;
use std::ops::Deref;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// Processor time of this process so far, in user mode and in the kernel.
pub fn processor_time() -> io::Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let microseconds = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(Duration::from_micros(u64::try_from(microseconds).unwrap_or(0)))
}

/// A file on which nobody else works who asks for the same.
#[derive(Debug)]
pub struct LockedFile(Flock<File>);

impl Deref for LockedFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

/// The file, locked until it is dropped; `None` where another process has locked it. The lock ends with the process, too.
pub fn lock(file: File) -> io::Result<Option<LockedFile>> {
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(locked) => Ok(Some(LockedFile(locked))),
        Err((_, Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, error)) => Err(error.into()),
    }
}

/// The file, locked until it is dropped, as soon as nobody else has it locked.
pub fn wait_and_lock(file: File) -> io::Result<LockedFile> {
    Flock::lock(file, FlockArg::LockExclusive)
        .map(LockedFile)
        .map_err(|(_, error)| error.into())
}

/// Whether `path` names this file: whoever had it locked before may have removed it, and put another in its place.
pub fn is_at(file: &File, path: &Path) -> bool {
    let identity = |metadata: Metadata| (metadata.dev(), metadata.ino());
    match (file.metadata(), fs::metadata(path)) {
        (Ok(file), Ok(there)) => identity(file) == identity(there),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locked_file_is_refused_until_it_is_closed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let first = lock(file.reopen().unwrap()).unwrap();
        assert!(first.is_some());
        assert!(lock(file.reopen().unwrap()).unwrap().is_none());
        drop(first);
        assert!(lock(file.reopen().unwrap()).unwrap().is_some());
    }
}
