//! Commands that pinfold runs to their ends, one after the other, and the end of their standard error.

use anyhow::{Context, Result, anyhow};
use nix::sys::signal::Signal;
use pinfold_linux::child::Forwarding;
use pinfold_linux::launch::LaunchError;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How many of the last bytes and lines of standard error an error shows.
const LAST_BYTES: u64 = 4096;
const LAST_LINES: usize = 10;

/// Runs commands. The kernel ends a command with pinfold.
pub(crate) struct Commands {
    signals: Forwarding,
    folder: TempDir,
}

/// How a command ended.
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    /// From its start to its end.
    pub(crate) wall: Duration,
    /// Its standard error; `None` if that was shown.
    stderr: Option<File>,
}

impl Commands {
    /// Call it while the process has a single thread.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            signals: Forwarding::start().context("cannot receive signals")?,
            folder: tempfile::tempdir().context("no room for the records of runs")?,
        })
    }

    /// A folder for their files, which is removed at the end.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A file for standard error or standard output that has no name.
    pub(crate) fn nameless_file(&self) -> Result<File> {
        tempfile::tempfile_in(self.folder.path()).context("no room for the output of a run")
    }

    /// Runs a command to its end. `stderr` is the file that its standard error has been given; `None` if that is shown.
    pub(crate) fn finish(&mut self, command: &mut Command, stderr: Option<File>) -> Result<Finished> {
        let started = Instant::now();
        let status = self
            .signals
            .run(command)
            .map_err(|error| unstartable(&command.get_program().to_owned(), &error))?;
        Ok(Finished {
            status,
            wall: started.elapsed(),
            stderr,
        })
    }

    /// The signal that asked pinfold to end, if there was one.
    pub(crate) fn asked_to_end(&mut self) -> Option<i32> {
        self.signals.asked_to_end()
    }

    /// The same after a command has ended. The terminal's SIGINT may end the program before it reaches pinfold.
    pub(crate) fn interruption(&mut self, status: ExitStatus) -> Option<i32> {
        let by_terminal = status.signal().filter(|signal| *signal == Signal::SIGINT as i32);
        self.signals.asked_to_end().or(by_terminal)
    }
}

impl Finished {
    /// The exit status as a shell shows it.
    pub(crate) fn code(&self) -> i32 {
        let status = self.status;
        status
            .code()
            .or(status.signal().map(|signal| 128 + signal))
            .unwrap_or(1)
    }

    /// The last lines of standard error, as the end of a sentence.
    pub(crate) fn last_lines(&self) -> String {
        let Some(text) = self.stderr.as_ref().and_then(|file| end_of(file).ok()) else {
            return String::new();
        };
        let lines: Vec<&str> = text.lines().collect();
        let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
        if last.is_empty() {
            return "; it wrote nothing to standard error".to_owned();
        }
        format!("; its last lines on standard error:\n  {}", last.join("\n  "))
    }
}

/// The last bytes of a file as text.
fn end_of(mut file: &File) -> io::Result<String> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LAST_BYTES)))?;
    let mut bytes = vec![];
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The error of a command that could not be started.
fn unstartable(command: &OsString, error: &io::Error) -> anyhow::Error {
    let command = command.clone();
    match error.kind() {
        io::ErrorKind::NotFound => LaunchError::NotFound { command }.into(),
        io::ErrorKind::PermissionDenied => LaunchError::NotExecutable {
            command,
            why: error.to_string(),
        }
        .into(),
        _ => anyhow!("cannot start {}: {error}", command.display()),
    }
}
