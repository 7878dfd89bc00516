//! The lock beside the database, `FILE.lock`. Whoever has the database open holds it shared; whoever makes the database or sets
//! a damaged one aside holds it alone. So nobody writes to a file that is being renamed, and no log of one database is taken
//! for that of another.

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
    /// Held with others, as soon as nobody holds it alone.
    pub(crate) fn shared(path: &Path) -> io::Result<Self> {
        let held = Flock::lock(open(path)?, FlockArg::LockShared).map_err(|(_, error)| error)?;
        Ok(Self { _held: held })
    }

    /// Held alone; `None` where somebody else holds it.
    pub(crate) fn alone(path: &Path) -> io::Result<Option<Self>> {
        match Flock::lock(open(path)?, FlockArg::LockExclusiveNonblock) {
            Ok(held) => Ok(Some(Self { _held: held })),
            Err((_, nix::Error::EWOULDBLOCK)) => Ok(None),
            Err((_, error)) => Err(error.into()),
        }
    }
}

/// Opens the file, which stays empty, and makes it where there is none. To read it is enough for locking: root may have made it
/// in a folder of another user.
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
