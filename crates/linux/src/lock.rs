//! Locks on files (flock(2)), and the process that holds one.
//!
//! Any user who may read a file can lock it for an unlimited time. So the files that pinfold locks are private
//! (`own::open_private`), each wait for a lock has a time limit, and an error names the holder. A lock of another user
//! is a stranger's: that user opened the file while it was not private, and the lock is not evidence of another
//! pinfold.

use crate::procfs::Procfs;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

/// The time between two attempts to lock.
const AGAIN: Duration = Duration::from_millis(5);

/// A file that is locked until it is dropped. The lock also ends with the process.
#[derive(Debug)]
pub struct LockedFile(Flock<File>);

impl Deref for LockedFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

/// Locks a file exclusively. `None` if another process has a lock.
pub fn lock(file: File) -> io::Result<Option<LockedFile>> {
    try_lock(file, FlockArg::LockExclusiveNonblock).map(Result::ok)
}

/// Waits, for at most `patience`, until no process has an exclusive lock, and then takes a shared lock. `Err` returns
/// the file.
pub fn share(mut file: File, patience: Duration) -> io::Result<Result<LockedFile, File>> {
    let deadline = Instant::now() + patience;
    loop {
        file = match try_lock(file, FlockArg::LockSharedNonblock)? {
            Err(file) if Instant::now() < deadline => file,
            tried => return Ok(tried),
        };
        std::thread::sleep(AGAIN);
    }
}

fn try_lock(file: File, how: FlockArg) -> io::Result<Result<LockedFile, File>> {
    match Flock::lock(file, how) {
        Ok(locked) => Ok(Ok(LockedFile(locked))),
        Err((file, Errno::EWOULDBLOCK)) => Ok(Err(file)),
        Err((_, error)) => Err(error.into()),
    }
}

/// A process that has a lock of any kind on a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    process: i32,
    /// Its name and its real user. `None` if it has ended: then a process that it has forked holds the lock.
    about: Option<(String, u32)>,
}

impl Holder {
    /// A process that has a lock on this file. A stranger is returned only if no other process has one. `None` if no
    /// holder is visible in this PID namespace.
    pub fn of(file: &File) -> Option<Self> {
        let procfs = Procfs::default();
        let locks = fs::read_to_string(procfs.root().join("locks")).ok()?;
        let identity = format!("{}:{}", device(file, &procfs)?, file.metadata().ok()?.ino());
        let processes = locks.lines().filter_map(|line| holder(line, &identity));
        let holders = processes.map(|process| Self {
            process,
            about: procfs
                .stat(process, process)
                .map(|stat| stat.name)
                .zip(procfs.real_user(process)),
        });
        holders.min_by_key(Self::is_stranger)
    }

    /// Whether it is a process of a user other than this one and root.
    pub fn is_stranger(&self) -> bool {
        self.about
            .as_ref()
            .is_some_and(|&(_, user)| user != 0 && user != geteuid().as_raw())
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let process = self.process;
        match &self.about {
            Some((name, user)) => write!(f, "process {process} ({}) of user {user}", name.escape_debug()),
            None => write!(f, "a child of process {process}, which has ended,"),
        }
    }
}

/// The holder as text, even if it is not visible.
pub fn holder_text(holder: Option<&Holder>) -> String {
    holder.map_or_else(|| "a process that is not visible here".to_owned(), Holder::to_string)
}

/// The device of the file in `/proc/locks`. It is the device of the mount: stat(2) returns another one for files of
/// btrfs.
fn device(file: &File, procfs: &Procfs) -> Option<String> {
    let about = fs::read_to_string(procfs.file("self", &format!("fdinfo/{}", file.as_raw_fd()))).ok()?;
    let mount = about.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim();
    let mounts = fs::read_to_string(procfs.file("self", "mountinfo")).ok()?;
    mounts.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (major, minor) = (words.next() == Some(mount)).then(|| words.nth(1)?.split_once(':'))??;
        let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
        Some(format!("{major:02x}:{minor:02x}"))
    })
}

/// The process in a line of `/proc/locks` about the file with this device and inode. `None` for lines with an arrow:
/// these are processes that wait for a lock.
fn holder(line: &str, identity: &str) -> Option<i32> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let &[_, kind, _, _, process, file, ..] = words.as_slice() else {
        return None;
    };
    (kind != "->" && file == identity).then(|| process.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_locked_file_is_refused_until_it_is_closed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let first = lock(file.reopen().unwrap()).unwrap();
        assert!(first.is_some());
        assert!(lock(file.reopen().unwrap()).unwrap().is_none());
        assert!(share(file.reopen().unwrap(), Duration::ZERO).unwrap().is_err());
        drop(first);
        assert!(share(file.reopen().unwrap(), Duration::ZERO).unwrap().is_ok());
    }

    #[test]
    fn the_holder_of_a_lock_is_named_with_its_user() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(Holder::of(file.as_file()), None);
        let mut other = Command::new("flock")
            .arg(file.path())
            .args(["sh", "-c", "echo locked; read end"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("flock is a part of util-linux");
        io::Read::read_exact(other.stdout.as_mut().unwrap(), &mut [0; 6]).unwrap();
        let holder = Holder::of(file.as_file()).unwrap();
        let expected = format!("process {} (flock) of user {}", other.id(), geteuid());
        assert_eq!(holder.to_string(), expected);
        assert!(!holder.is_stranger());
        drop(other.stdin.take());
        other.wait().unwrap();
    }

    #[test]
    fn a_line_is_about_a_file_and_a_waiting_process_has_no_lock() {
        let of = |line| holder(line, "fe:00:9977973");
        assert_eq!(of("1: FLOCK  ADVISORY  WRITE 16160 fe:00:9977973 0 EOF"), Some(16160));
        assert_eq!(of("1: -> FLOCK  ADVISORY  WRITE 16161 fe:00:9977973 0 EOF"), None);
        assert_eq!(of("2: POSIX  ADVISORY  READ 7 fe:00:997797 0 EOF"), None);
        assert_eq!(of("2: POSIX"), None);
    }
}
