//! Resources of this process: processor time, and files that only this user may access.

use nix::fcntl::OFlag;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::unistd::geteuid;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

/// Processor time of this process so far, in user mode and in the kernel.
pub fn processor_time() -> io::Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let microseconds = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(Duration::from_micros(u64::try_from(microseconds).unwrap_or(0)))
}

/// Processor time in user mode and in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessorTime {
    /// In user mode.
    pub user: Duration,
    /// In the kernel.
    pub system: Duration,
}

/// Processor time so far of the ended children of this process, and of the children that those have waited for.
pub fn processor_time_of_children() -> io::Result<ProcessorTime> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let duration = |microseconds: i64| Duration::from_micros(u64::try_from(microseconds).unwrap_or(0));
    Ok(ProcessorTime {
        user: duration(usage.user_time().num_microseconds()),
        system: duration(usage.system_time().num_microseconds()),
    })
}

/// The kind of file at a path that should have a file of this user.
#[derive(Debug)]
pub enum Own {
    /// A regular file of this user, open.
    File(File),
    /// Another kind of file, as text. It was not touched.
    Foreign(&'static str),
}

/// Opens a regular file that belongs to this user. Symbolic links are not followed. Other kinds of files are not
/// changed, and opening them does not block.
pub fn open(path: &Path, options: &OpenOptions) -> io::Result<Own> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = match options.clone().custom_flags(flags.bits()).open(path) {
        Ok(file) => file,
        Err(error) => {
            let foreign = fs::symlink_metadata(path).ok().and_then(|there| foreign(&there));
            return foreign.map(Own::Foreign).ok_or(error);
        }
    };
    Ok(match foreign(&file.metadata()?) {
        Some(what) => Own::Foreign(what),
        None => Own::File(file),
    })
}

/// Opens a file like `open`, and keeps all other users from opening it: any user who may read a file can lock it. A new
/// file is private from the start, and a file that an older pinfold has created becomes private.
pub fn open_private(path: &Path, options: &OpenOptions) -> io::Result<Own> {
    let opened = open(path, options.clone().mode(PRIVATE))?;
    if let Own::File(file) = &opened {
        make_private(file)?;
    }
    Ok(opened)
}

/// Removes all other users' permissions from a file of this user. A file of another user stays unchanged.
pub fn make_private(file: &File) -> io::Result<()> {
    let there = file.metadata()?;
    let (mode, private) = (there.mode() & 0o777, there.mode() & 0o700);
    if mode == private || there.uid() != geteuid().as_raw() {
        return Ok(());
    }
    file.set_permissions(Permissions::from_mode(private))
}

/// The permissions of a file that only its owner may open.
const PRIVATE: u32 = 0o600;

/// Why a file is not a regular file of this user.
fn foreign(there: &Metadata) -> Option<&'static str> {
    if there.is_symlink() {
        Some("it is a symbolic link")
    } else if !there.is_file() {
        Some("it is not a regular file")
    } else if there.uid() != geteuid().as_raw() {
        Some("it belongs to another user")
    } else {
        None
    }
}

/// Why a path may not be reused as the socket of a server that has ended. `None` if it may.
pub fn not_an_own_socket(there: &Metadata) -> Option<&'static str> {
    if !there.file_type().is_socket() {
        Some("it is not a socket")
    } else if there.uid() != geteuid().as_raw() {
        Some("it belongs to another user")
    } else {
        None
    }
}

/// Whether `path` names this file. Another process may have removed the file and created another in its place.
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
    fn a_private_file_is_made_private_also_where_it_was_open_to_all() {
        let folder = tempfile::tempdir().unwrap();
        let (new, old) = (folder.path().join("new"), folder.path().join("old"));
        fs::write(&old, "text").unwrap();
        fs::set_permissions(&old, Permissions::from_mode(0o644)).unwrap();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        for path in [new, old] {
            assert!(matches!(open_private(&path, &options).unwrap(), Own::File(_)));
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        }
    }

    #[test]
    fn only_a_regular_file_of_this_user_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "text").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        assert!(matches!(open(&file, &options).unwrap(), Own::File(_)));
        assert!(matches!(
            open(&link, &options).unwrap(),
            Own::Foreign("it is a symbolic link")
        ));
        assert!(matches!(
            open(folder.path(), &options).unwrap(),
            Own::Foreign("it is not a regular file")
        ));
        assert!(open(&folder.path().join("nothing"), &options).is_err());
    }
}
