//! Ensures one daemon per machine: two would move each other's tasks.
//!
//! The lock file is private. If another user's process holds a lock on it, that user opened the file when an older
//! pinfold had created it readable for all. Such a lock is not a daemon's, and the file is replaced. Only the process
//! that has locked the replacement may replace the file, so that two daemons that start together do not replace each
//! other's file.

use crate::lock::{Holder, LockedFile, holder_text, lock};
use crate::own::{self, Own};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Why this daemon cannot be the only one.
#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
    /// Another daemon runs.
    #[error(
        "a daemon already runs: {holder} has locked {}; end it first, or send it SIGHUP to have it read its \
         configuration again", path.display()
    )]
    Runs {
        /// The process that has the lock, as text.
        holder: String,
        /// The locked file.
        path: PathBuf,
    },
    /// The file cannot be locked.
    #[error("{} cannot be locked: {error}; name another directory with --journals", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
}

/// The lock of the only daemon. The kernel releases it when the process ends, even after a kill.
#[derive(Debug)]
pub struct Instance {
    _lock: LockedFile,
}

impl Instance {
    /// Locks the daemon's file in this directory.
    pub fn claim(directory: &Path) -> Result<Self, InstanceError> {
        let path = directory.join("daemon.lock");
        let failure = |error| InstanceError::File {
            path: path.clone(),
            error,
        };
        let lock = loop {
            let file = open(&path).map_err(failure)?;
            if !is_of_a_daemon(&file) {
                let text = "it is not the lock of a daemon, and is left alone";
                return Err(failure(io::Error::other(text)));
            }
            match lock(file.try_clone().map_err(failure)?).map_err(failure)? {
                Some(lock) if own::is_at(&lock, &path) => break lock,
                Some(_) => {}
                None => {
                    let holder = Holder::of(&file);
                    let stranger = holder.as_ref().is_some_and(Holder::is_stranger);
                    if !(stranger && replace(&file, &path).map_err(failure)?) && own::is_at(&file, &path) {
                        let holder = holder_text(holder.as_ref());
                        return Err(InstanceError::Runs { holder, path });
                    }
                }
            }
        };
        // The file is never removed: otherwise two daemons could lock two files of the same name.
        lock.set_len(0).map_err(failure)?;
        lock.write_all_at(format!("{}\n", std::process::id()).as_bytes(), 0)
            .map_err(failure)?;
        Ok(Self { _lock: lock })
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    match own::open_private(path, &options)? {
        Own::File(file) => Ok(file),
        Own::Foreign(why) => Err(io::Error::other(format!("{why}, and is left alone"))),
    }
}

/// Whether a file is empty, or holds a process number of at most ten digits and a line feed.
fn is_of_a_daemon(file: &File) -> bool {
    let mut process = String::new();
    let read = file.take(12).read_to_string(&mut process);
    read.is_ok_and(|length| length < 12) && process.trim().bytes().all(|byte| byte.is_ascii_digit())
}

/// Replaces a file that a stranger has locked. `false` if another daemon is replacing it.
fn replace(file: &File, path: &Path) -> io::Result<bool> {
    let new = path.with_extension("lock.new");
    let made = open(&new)?;
    let Some(lock) = lock(made)? else { return Ok(false) };
    if own::is_at(&lock, &new) && own::is_at(file, path) {
        fs::rename(&new, path)?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::unistd::geteuid;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};

    #[test]
    fn a_second_one_is_refused_with_the_number_of_the_first() {
        let root = tempfile::tempdir().unwrap();
        let first = Instance::claim(root.path()).unwrap();
        let error = Instance::claim(root.path()).unwrap_err().to_string();
        assert!(error.contains(&std::process::id().to_string()), "{error}");
        drop(first);
        Instance::claim(root.path()).unwrap();
    }

    #[test]
    fn the_holder_is_named_and_not_the_process_that_the_file_names() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("daemon.lock");
        fs::write(&path, "7\n").unwrap();
        let held = Held::by(&path, geteuid().as_raw());
        let error = Instance::claim(root.path()).unwrap_err().to_string();
        let expected = format!("process {} (flock)", held.0.id());
        assert!(error.contains(&expected), "{error}");
    }

    #[test]
    fn a_lock_of_another_user_does_not_keep_a_daemon_from_starting() {
        if !geteuid().is_root() {
            return pinfold_testing::skip("only root can lock a file as another user");
        }
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("daemon.lock");
        fs::write(&path, "7\n").unwrap();
        for folder in [root.path(), &path] {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let _held = Held::by(&path, 65_534);
        let first = Instance::claim(root.path()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(matches!(Instance::claim(root.path()), Err(InstanceError::Runs { .. })));
        drop(first);
    }

    /// A process of this user that has locked a file.
    struct Held(Child);

    impl Held {
        fn by(path: &Path, user: u32) -> Self {
            let mut flock = Command::new("flock");
            flock.arg(path).args(["sh", "-c", "echo locked; read end"]).uid(user);
            let mut process = flock.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            process.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
            Self(process)
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            drop(self.0.stdin.take());
            let _ = self.0.wait();
        }
    }

    #[test]
    fn a_file_that_is_no_lock_is_left() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("daemon.lock");
        for text in ["notes", "1234567890123456 and more"] {
            fs::write(&path, text).unwrap();
            let error = Instance::claim(root.path()).unwrap_err().to_string();
            assert!(error.contains("--journals"), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }
}
