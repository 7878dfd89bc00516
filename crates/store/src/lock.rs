//! The lock of the database, `FILE.lock`. A process that has the database open holds a shared lock. A process that makes the
//! database, or renames a damaged one, holds an exclusive lock. So no process writes to a file while it is renamed, and the log
//! of one database never belongs to another.

use nix::fcntl::{Flock, FlockArg, OFlag};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The lock, held until this is dropped or the process ends.
#[derive(Debug)]
pub(crate) struct Lock {
    _held: Flock<File>,
}

impl Lock {
    /// Waits for a shared lock.
    pub(crate) fn shared(path: &Path) -> io::Result<Self> {
        let held = Flock::lock(open(path)?, FlockArg::LockShared).map_err(|(_, error)| error)?;
        Ok(Self { _held: held })
    }

    /// An exclusive lock; `None` where another process holds the lock.
    pub(crate) fn alone(path: &Path) -> io::Result<Option<Self>> {
        match Flock::lock(open(path)?, FlockArg::LockExclusiveNonblock) {
            Ok(held) => Ok(Some(Self { _held: held })),
            Err((_, nix::Error::EWOULDBLOCK)) => Ok(None),
            Err((_, error)) => Err(error.into()),
        }
    }
}

/// Opens the file, which stays empty, and makes it if it does not exist. Permission to read it is enough to lock it: root may
/// have made it in a folder of another user.
fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
    let mut reading = OpenOptions::new();
    reading.read(true).custom_flags(flags);
    match reading.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            reading.write(true).create(true).mode(0o644).open(path)
        }
        opened => opened,
    }
}
