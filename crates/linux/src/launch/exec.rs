//! Executes another program. Everything is prepared before the fork, so that the child makes only system calls.
//!
//! The child waits until it is followed, so that not even its exec is missed. If its exec fails, it reports the error
//! through a pipe that a successful exec closes.

use super::LaunchError;
use super::inherited::Inherited;
use crate::affinity::CpuMask;
use crate::memory::MemoryPolicy;
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::ptr;

/// The search path of `execvp` without PATH in the environment.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// A program with its arguments and environment, ready to be executed.
pub(crate) struct Prepared {
    /// The requested command, for messages.
    command: OsString,
    /// The candidate files, in the order of the attempts.
    candidates: Vec<CString>,
    arguments: Vec<CString>,
    environment: Vec<CString>,
    mask: Option<CpuMask>,
    memory_policy: Option<MemoryPolicy>,
}

/// The child before its exec.
pub(crate) struct Unborn {
    pub(crate) process: i32,
    go: File,
    failure: File,
}

/// Null-terminated pointers into strings, for `execve`.
struct Pointers(Vec<*const libc::c_char>);

impl Pointers {
    fn to<'a>(strings: impl Iterator<Item = &'a CString>) -> Self {
        Self(strings.map(|string| string.as_ptr()).chain([ptr::null()]).collect())
    }
}

/// `sh FILE ARGUMENTS…`, for a script without a `#!` line. `Prepared::execute` inserts the file.
fn shell_for(arguments: &Pointers) -> Vec<*const libc::c_char> {
    let mut shell = vec![c"/bin/sh".as_ptr(), ptr::null()];
    shell.extend_from_slice(&arguments.0[1..]);
    shell
}

/// Executes a command in place of this process, as its caller would have done. Returns only if that fails.
pub fn run_alone(command: &[OsString]) -> LaunchError {
    match Prepared::new(command, std::env::vars_os(), None, None) {
        Ok(prepared) => prepared.replace_this_process(),
        Err(error) => error,
    }
}

impl Prepared {
    /// Prepares `command` to run with `environment`, and with a mask and a memory policy if these are given. Without a
    /// mask the program inherits this process's mask, as without pinfold.
    pub(crate) fn new(
        command: &[OsString],
        environment: impl Iterator<Item = (OsString, OsString)>,
        mask: Option<CpuMask>,
        memory_policy: Option<MemoryPolicy>,
    ) -> Result<Self, LaunchError> {
        let [program, ..] = command else {
            return Err(LaunchError::NoCommand);
        };
        let mut path = None;
        let mut variables = vec![];
        for (name, value) in environment {
            if name == "PATH" {
                path = Some(value.clone());
            }
            let mut variable = name;
            variable.push("=");
            variable.push(value);
            variables.push(terminated(variable)?);
        }
        Ok(Self {
            command: program.clone(),
            candidates: candidates(program, path.as_deref())?,
            arguments: command.iter().cloned().map(terminated).collect::<Result<_, _>>()?,
            environment: variables,
            mask,
            memory_policy,
        })
    }

    /// Executes the program in place of this process, with the state that this process has inherited. Returns only if
    /// that fails.
    fn replace_this_process(&self) -> LaunchError {
        let arguments = Pointers::to(self.arguments.iter());
        let environment = Pointers::to(self.environment.iter());
        let mut shell = shell_for(&arguments);
        // SAFETY: the pointers lead into `self` and `shell`, which live until the exec.
        let failure = unsafe {
            Inherited::at_start().restore();
            self.execute(&arguments.0, &environment.0, &mut shell)
        };
        self.explain(failure)
    }

    /// Forks a child that waits for `Unborn::let_go`.
    pub(crate) fn fork(&self) -> io::Result<Unborn> {
        let (go_read, go_write) = pipe()?;
        let (failure_read, failure_write) = pipe()?;
        let inherited = Inherited::at_start();
        let arguments = Pointers::to(self.arguments.iter());
        let environment = Pointers::to(self.environment.iter());
        let mut shell = shell_for(&arguments);
        // SAFETY: until it executes or exits, the child makes only system calls, on memory that was prepared above.
        let process = unsafe { libc::fork() };
        if process < 0 {
            return Err(io::Error::last_os_error());
        }
        if process == 0 {
            // SAFETY: this is the child. The pointers lead into `self` and `shell`, which live on in it.
            unsafe {
                libc::close(go_write.as_raw_fd());
                inherited.restore();
                // If the mask cannot be set, the inherited mask stays, which is never narrower.
                let _ = self.mask.as_ref().map(|mask| mask.give_to(0));
                // If it matters, an earlier test has shown that the kernel accepts the policy.
                let _ = self.memory_policy.map(|policy| policy.set());
                let mut byte = 0u8;
                if libc::read(go_read.as_raw_fd(), (&raw mut byte).cast(), 1) == 1 {
                    let failure = self.execute(&arguments.0, &environment.0, &mut shell);
                    libc::write(failure_write.as_raw_fd(), (&raw const failure).cast(), size_of::<i32>());
                }
                libc::_exit(127);
            }
        }
        Ok(Unborn {
            process,
            go: File::from(go_write),
            failure: File::from(failure_read),
        })
    }

    /// Executes the first candidate that is executable, like `execvp`. Returns only on failure, with the error number.
    ///
    /// # Safety
    ///
    /// The pointers must be valid and null-terminated.
    unsafe fn execute(
        &self,
        arguments: &[*const libc::c_char],
        environment: &[*const libc::c_char],
        shell: &mut [*const libc::c_char],
    ) -> i32 {
        let mut failure = libc::ENOENT;
        for candidate in &self.candidates {
            // SAFETY: the caller guarantees it.
            unsafe { libc::execve(candidate.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
            match errno() {
                libc::ENOENT | libc::ENOTDIR => {}
                libc::EACCES => failure = libc::EACCES,
                libc::ENOEXEC => {
                    shell[1] = candidate.as_ptr();
                    // SAFETY: the caller guarantees it, and the candidate is a C string.
                    unsafe { libc::execve(shell[0], shell.as_ptr(), environment.as_ptr()) };
                    return libc::ENOEXEC;
                }
                other => return other,
            }
        }
        failure
    }

    /// Translates the error number that the child reported.
    pub(crate) fn explain(&self, failure: i32) -> LaunchError {
        let exists = |candidate: &CString| Path::new(OsStr::from_bytes(candidate.as_bytes())).exists();
        let why = match failure {
            libc::ENOENT if self.candidates.iter().any(exists) => {
                "the interpreter or the loader that it names does not exist".to_owned()
            }
            libc::ENOENT => {
                return LaunchError::NotFound {
                    command: self.command.clone(),
                };
            }
            other => io::Error::from_raw_os_error(other).to_string(),
        };
        LaunchError::NotExecutable {
            command: self.command.clone(),
            why,
        }
    }
}

impl Unborn {
    /// Lets the child execute the program.
    pub(crate) fn let_go(&mut self) -> io::Result<()> {
        self.go.write_all(b"!")
    }

    /// The error number of a failed exec. `None` if the child was killed before.
    pub(crate) fn failure(&mut self) -> Option<i32> {
        let mut number = [0; size_of::<i32>()];
        self.failure.read_exact(&mut number).ok()?;
        Some(i32::from_ne_bytes(number))
    }
}

fn errno() -> i32 {
    // SAFETY: the location belongs to this thread.
    unsafe { *libc::__errno_location() }
}

fn terminated(text: OsString) -> Result<CString, LaunchError> {
    CString::new(text.into_vec()).map_err(|error| LaunchError::NulByte {
        text: OsString::from_vec(error.into_vec()),
    })
}

/// The candidate files for `program`: `program` itself if it has a slash, otherwise one in each directory of `path`.
fn candidates(program: &OsStr, path: Option<&OsStr>) -> Result<Vec<CString>, LaunchError> {
    if program.is_empty() {
        return Ok(vec![]);
    }
    if program.as_bytes().contains(&b'/') {
        return Ok(vec![terminated(program.to_owned())?]);
    }
    std::env::split_paths(path.unwrap_or(OsStr::new(DEFAULT_PATH)))
        .map(|directory| {
            // An empty part of PATH is the working directory.
            let directory = if directory.as_os_str().is_empty() {
                Path::new(".")
            } else {
                &directory
            };
            terminated(directory.join(program).into_os_string())
        })
        .collect()
}

/// A pipe that executed programs do not inherit.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: the call fills both elements, and the descriptors belong to no one else.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(candidates: &[CString]) -> Vec<String> {
        candidates
            .iter()
            .map(|text| text.to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn a_name_with_a_slash_is_not_searched_for() {
        let found = candidates(OsStr::new("./a"), Some(OsStr::new("/bin"))).unwrap();
        assert_eq!(texts(&found), ["./a"]);
    }

    #[test]
    fn an_empty_part_of_path_is_the_working_directory() {
        let found = candidates(OsStr::new("a"), Some(OsStr::new("/x::/y"))).unwrap();
        assert_eq!(texts(&found), ["/x/a", "./a", "/y/a"]);
    }

    #[test]
    fn a_nul_byte_is_refused_with_the_text_that_has_it() {
        let error = candidates(OsStr::new("/a\0b"), None).unwrap_err();
        assert!(matches!(error, LaunchError::NulByte { text } if text == "/a\0b"));
    }
}
