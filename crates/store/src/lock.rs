//! The lock of the database, `FILE.lock`. A process that has the database open holds a shared lock. A process that
//! makes the database, or renames a damaged one, holds an exclusive lock. So no process writes to a file while it is
//! renamed, and the log of one database never belongs to another.
//!
//! The file is private, so that no other user can lock it. Older versions of pinfold made it readable for all, so
//! another user may still hold a lock. pinfold does not wait for such a lock, because that user cannot rename the
//! database.

use crate::schema::{StoreError, failed, with};
use nix::fcntl::OFlag;
use nix::unistd::{Uid, fchown, geteuid};
use pinfold_files::lock::{self, Holder, LockedFile, holder_text};
use pinfold_files::own;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The longest wait for another process that makes the database, or renames a damaged one.
const PATIENCE: Duration = Duration::from_secs(5);

/// The lock, held until this is dropped or the process ends; `None` if another user holds it.
#[derive(Debug)]
pub(crate) struct Lock {
    _held: Option<LockedFile>,
}

/// An exclusive lock, or the file if other processes have locked it.
pub(crate) type Alone = Result<Lock, File>;

impl Lock {
    /// Waits for a shared lock of this database.
    pub(crate) fn shared(database: &Path) -> Result<Self, StoreError> {
        let (path, file) = open(database)?;
        let refused = |error: io::Error| failed(&path, &error);
        let mut tried = lock::share(file, Duration::ZERO).map_err(refused)?;
        if let Err(file) = tried {
            if Holder::of(&file).is_some_and(|holder| holder.is_stranger()) {
                return Ok(Self { _held: None });
            }
            tried = lock::share(file, PATIENCE).map_err(|error| failed(&path, &error))?;
        }
        match tried {
            Ok(held) => Ok(Self { _held: Some(held) }),
            Err(file) => Err(StoreError::Locked {
                file: path,
                holder: holder_text(Holder::of(&file).as_ref()),
            }),
        }
    }

    /// Takes an exclusive lock of this database if no other process has a lock.
    pub(crate) fn alone(database: &Path) -> Result<Alone, StoreError> {
        let (path, file) = open(database)?;
        let refused = |error: io::Error| failed(&path, &error);
        let held = lock::lock(file.try_clone().map_err(refused)?).map_err(refused)?;
        Ok(match held {
            Some(held) => Ok(Self { _held: Some(held) }),
            None => Err(file),
        })
    }
}

/// Opens the lock file of a database, and makes it if it does not exist. It stays empty. Permission to read it is
/// enough to lock it. It belongs to the owner of the database, because root may open the databases of all users.
fn open(database: &Path) -> Result<(PathBuf, File), StoreError> {
    let path = with(database, ".lock");
    let user = geteuid();
    let owner = fs::metadata(database).map_or(user, |there| Uid::from_raw(there.uid()));
    let opened = open_for(&path, user, owner).map_err(|error| failed(&path, &error))?;
    Ok((path, opened))
}

fn open_for(path: &Path, user: Uid, owner: Uid) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .mode(0o600)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits());
    let file = match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => options.write(true).create(true).open(path)?,
        opened => opened?,
    };
    let there = file.metadata()?;
    let of = Uid::from_raw(there.uid());
    if !there.is_file() {
        return Err(io::Error::other("it is no regular file, and is left alone"));
    }
    if of == user {
        own::make_private(&file)?;
        if user.is_root() && owner != user {
            fchown(&file, Some(owner), None)?;
        }
    } else if of != owner && !of.is_root() {
        return Err(io::Error::other(format!("it belongs to user {of}, and is left alone")));
    }
    Ok(file)
}
