//! Gives the agent to each program that can load it, and keeps the environment as the user made it.
//!
//! `LD_PRELOAD` in the environment would reach every program that is started with it, including programs that cannot
//! load the agent. For these the dynamic linker prints an error. So the tracer adds the variable at each exec, before
//! the first instruction of the dynamic linker, to the environment on the stack of the new program:
//!
//! 1. Only a program that is dynamically linked for this machine gets it. 32-bit programs and static programs do not.
//! 2. The path must lead to the agent's file under the root and in the mounts of the process, and the file must be
//!    executable there.
//! 3. The user's libraries come first. The address sanitizer's library comes before the agent, because the sanitizer
//!    ends a program if another library precedes it.
//! 4. A second variable holds the user's own entry. The agent restores it before `main`, so that neither the program
//!    nor its children see a difference (agent/environment.c).
//! 5. A program with MPI (`mpi`) also gets the interposer, after the agent.
//!
//! Limits: if the kernel or a filter forbids the process to read the file, the linker prints its error. A program whose
//! memory pinfold may not read gets no agent. One example is a program whose file its user may execute but not read.

use super::dynamic_linking::DynamicallyLinked;
use super::initial_stack::InitialStack;
use super::trace;
use crate::channel::{PRELOAD, PRELOADED, appended, can_be_preloaded, users_entry};
use crate::mpi;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::sys::stat::Mode;
use nix::sys::statvfs::{FsFlags, fstatvfs};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// If this variable is set, the dynamic linker lists the program's libraries instead of executing it: that is ldd(1).
const LISTS_LIBRARIES: &str = "LD_TRACE_LOADED_OBJECTS";

/// The libraries for programs that are followed.
#[derive(Debug)]
pub struct Preload {
    agent: Library,
    /// The interposer for programs with MPI.
    mpi: Option<Library>,
}

/// A library that programs load.
#[derive(Debug)]
struct Library {
    path: PathBuf,
    /// The device and the number of the file.
    identity: (u64, u64),
    owner: u32,
    /// Whether every user may read the file.
    for_everyone: bool,
}

impl Preload {
    /// The agent, and the interposer for programs with MPI, at absolute paths.
    pub fn new(agent: &Path, mpi: Option<&Path>) -> io::Result<Self> {
        Ok(Self {
            agent: Library::new(agent)?,
            mpi: mpi.map(Library::new).transpose()?,
        })
    }

    /// Adds the agent to the environment of a process that has executed a program, and stands before its first
    /// instruction. If that is not possible, the program runs without the agent. Returns whether it has the agent.
    pub(super) fn add_to(&self, process: i32) -> bool {
        self.add_to_stack(process).unwrap_or(false)
    }

    fn add_to_stack(&self, process: i32) -> io::Result<bool> {
        let Some(linked) = DynamicallyLinked::read(&File::open(format!("/proc/{process}/exe"))?) else {
            return Ok(false);
        };
        let pointer = trace::stack_pointer(process)?;
        let memory = File::options()
            .read(true)
            .write(true)
            .open(format!("/proc/{process}/mem"))?;
        let stack = InitialStack::read(&memory, pointer)?;
        let is_privileged = stack.auxiliary(libc::AT_SECURE) != Some(0);
        if is_privileged || stack.variable(LISTS_LIBRARIES).is_some() || !self.agent.is_there_for(process)? {
            return Ok(false);
        }
        let has_mpi = linked.needs_mpi || mpi::is_rank(|name| stack.variable(name).is_some());
        let mpi = self.mpi.as_ref().filter(|_| has_mpi);
        let mpi = mpi.filter(|mpi| mpi.is_there_for(process).unwrap_or(false));
        let users = stack.variable(PRELOAD).map(OsStr::from_bytes);
        let new = stack.with_variables(&[
            (PRELOAD, self.libraries(users, linked.sanitizer.as_deref(), mpi)),
            (PRELOADED, users_entry(users)),
        ]);
        // If the stack has no room, the first bytes fail and nothing is written.
        memory.write_all_at(&new.bytes, new.pointer)?;
        trace::set_stack_pointer(process, new.pointer)?;
        Ok(true)
    }

    /// The value of `LD_PRELOAD` with the agent, and with the interposer if the program has MPI.
    fn libraries(&self, users: Option<&OsStr>, sanitizer: Option<&str>, mpi: Option<&Library>) -> OsString {
        let users = users.filter(|users| !users.is_empty());
        let sanitizer = sanitizer.filter(|name| can_be_preloaded(Path::new(name)));
        let first = users.or(sanitizer.map(OsStr::new));
        let libraries = appended(first.map(OsStr::to_owned), self.agent.path.as_os_str());
        match mpi {
            Some(mpi) => appended(Some(libraries), mpi.path.as_os_str()),
            None => libraries,
        }
    }
}

impl Library {
    fn new(path: &Path) -> io::Result<Self> {
        let there = fs::metadata(path)?;
        let others = |path: &Path, mode| fs::metadata(path).is_ok_and(|there| there.mode() & mode == mode);
        Ok(Self {
            identity: (there.dev(), there.ino()),
            owner: nix::unistd::geteuid().as_raw(),
            for_everyone: others(path, 0o004) && path.ancestors().skip(1).all(|folder| others(folder, 0o001)),
            path: path.to_owned(),
        })
    }

    /// Whether a process finds the library at its path and may load it from there.
    fn is_there_for(&self, process: i32) -> io::Result<bool> {
        let user = fs::metadata(format!("/proc/{process}"))?.uid();
        if user != self.owner && user != 0 && !self.for_everyone {
            return Ok(false);
        }
        let file = self.open_below(&PathBuf::from(format!("/proc/{process}/root")))?;
        let may_execute = !fstatvfs(&file)?.flags().contains(FsFlags::ST_NOEXEC);
        let there = File::from(file).metadata()?;
        Ok(may_execute && (there.dev(), there.ino()) == self.identity)
    }

    /// Opens the library's path below this root, as a process with this root does.
    fn open_below(&self, root: &Path) -> nix::Result<OwnedFd> {
        let path = OFlag::O_PATH | OFlag::O_CLOEXEC;
        let folder = open(root, path | OFlag::O_DIRECTORY, Mode::empty())?;
        let how = OpenHow::new().flags(path).resolve(ResolveFlag::RESOLVE_IN_ROOT);
        match openat2(&folder, &self.path, how) {
            // Linux before 5.6, or a filter: symbolic links in the path are resolved from this process's root.
            Err(nix::Error::ENOSYS | nix::Error::EPERM) => {
                let below = self.path.strip_prefix("/").unwrap_or(&self.path);
                open(&root.join(below), path, Mode::empty())
            }
            result => result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn preload() -> Preload {
        let library = |path: &str| Library {
            path: path.into(),
            identity: (0, 0),
            owner: 0,
            for_everyone: true,
        };
        Preload {
            agent: library("/a.so"),
            mpi: Some(library("/m.so")),
        }
    }

    fn libraries(users: Option<&str>, sanitizer: Option<&str>) -> String {
        preload()
            .libraries(users.map(OsStr::new), sanitizer, None)
            .into_string()
            .unwrap()
    }

    #[test]
    fn the_users_libraries_come_first_and_the_sanitizers_without_them() {
        assert_eq!(libraries(None, None), "/a.so");
        assert_eq!(libraries(Some(""), None), "/a.so");
        assert_eq!(libraries(Some("/u.so /v.so"), None), "/u.so /v.so:/a.so");
        assert_eq!(libraries(None, Some("libasan.so.8")), "libasan.so.8:/a.so");
        assert_eq!(libraries(Some("/u.so"), Some("libasan.so.8")), "/u.so:/a.so");
    }

    #[test]
    fn the_interposer_of_mpi_follows_the_agent() {
        let preload = preload();
        let libraries = preload.libraries(Some(OsStr::new("/u.so")), None, preload.mpi.as_ref());
        assert_eq!(libraries, "/u.so:/a.so:/m.so");
    }

    #[test]
    fn links_are_followed_below_the_root_of_the_process() {
        let root = tempfile::tempdir().unwrap();
        let agent = root.path().join("real/agent.so");
        fs::create_dir(root.path().join("real")).unwrap();
        fs::write(&agent, "").unwrap();
        symlink("/real", root.path().join("run")).unwrap();
        let library = Library {
            path: "/run/agent.so".into(),
            ..Library::new(&agent).unwrap()
        };
        let there = File::from(library.open_below(root.path()).unwrap()).metadata().unwrap();
        assert_eq!((there.dev(), there.ino()), library.identity);
        assert_eq!(library.open_below(Path::new("/")).unwrap_err(), nix::Error::ENOENT);
    }

    #[test]
    fn a_file_in_a_private_folder_is_not_for_everyone() {
        let folder = tempfile::tempdir().unwrap();
        let agent = folder.path().join("agent.so");
        fs::write(&agent, "").unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
        assert!(!Library::new(&agent).unwrap().for_everyone);
    }
}
