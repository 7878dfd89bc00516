//! Runs one variant once: the program itself, or `pinfold run` with the program.

use super::arguments::{Arguments, Output};
use super::variants::Planned;
use crate::run::{policies, simulations};
use anyhow::{Context, Result, anyhow, bail};
use nix::sys::signal::Signal;
use pinfold_compare::{Choice, FinishedRun};
use pinfold_files::output::open_growing;
use pinfold_linux::child::Forwarding;
use pinfold_linux::launch::LaunchError;
use pinfold_linux::processor_time;
use pinfold_runtime::RunDocument;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How many of the last bytes and lines of standard error an error shows.
const LAST_BYTES: u64 = 4096;
const LAST_LINES: usize = 10;

/// Runs commands one after the other.
pub(super) struct Executor<'a> {
    arguments: &'a Arguments,
    signals: Forwarding,
    folder: TempDir,
    pinfold: PathBuf,
}

/// How one run ended.
pub(super) enum Ended {
    /// The run, and under pinfold its record.
    Complete(FinishedRun, Option<Box<RunDocument>>),
    /// A signal asked pinfold to end.
    Interrupted(i32),
}

/// How a process ended.
struct Finished {
    status: ExitStatus,
    /// From its start to its end.
    wall: Duration,
    /// The last lines of its standard error; `None` if they were shown.
    stderr: Option<File>,
}

impl<'a> Executor<'a> {
    /// Call it while the process has a single thread.
    pub(super) fn new(arguments: &'a Arguments) -> Result<Self> {
        Ok(Self {
            arguments,
            signals: Forwarding::start().context("cannot receive signals")?,
            folder: tempfile::tempdir().context("no room for the records of runs")?,
            pinfold: std::env::current_exe().context("cannot find the program pinfold itself")?,
        })
    }

    /// The command line of a variant. `of_run` are the options of `pinfold run` that differ by run.
    pub(super) fn words(&self, variant: &Planned, of_run: &[OsString], program: &[OsString]) -> Vec<OsString> {
        let Some(words) = &variant.words else {
            return program.to_vec();
        };
        let mut command = vec![self.pinfold.clone().into_os_string(), "run".into(), "-qq".into()];
        command.extend_from_slice(words);
        command.extend_from_slice(of_run);
        let mut json = OsString::from("--json=");
        json.push(self.record());
        command.push(json);
        if !self.arguments.is_simulated() {
            command.push("--".into());
        }
        command.extend_from_slice(program);
        command
    }

    fn record(&self) -> PathBuf {
        self.folder.path().join("record.json")
    }

    /// Runs a variant once, by its command line.
    pub(super) fn run(&mut self, command: &[OsString], variant: &Planned) -> Result<Ended> {
        if let Some(signal) = self.prepare()? {
            return Ok(Ended::Interrupted(signal));
        }
        let _ = fs::remove_file(self.record());
        let before = processor_time::reaped_children()?;
        let finished = self.finish(command)?;
        let after = processor_time::reaped_children()?;
        if let Some(signal) = self.interruption(finished.status) {
            return Ok(Ended::Interrupted(signal));
        }
        let document = match variant.words {
            Some(_) => Some(self.read(&finished)?),
            None => None,
        };
        let exit_status = match &document {
            Some(document) => document.record.program.exit_status.unwrap_or(0),
            None => code(finished.status),
        };
        if exit_status == 128 + Signal::SIGINT as i32 {
            return Ok(Ended::Interrupted(Signal::SIGINT as i32));
        }
        if exit_status != 0 && !self.arguments.surroundings.ignore_failure {
            bail!(
                "the program ended with status {exit_status}; with --ignore-failure such runs count too{}",
                finished.last_lines()
            );
        }
        let simulated = self.arguments.is_simulated();
        let processor = |part: Duration| (!simulated).then_some(part.as_secs_f64());
        let time = match &document {
            Some(document) if simulated => document
                .record
                .program
                .ran
                .context("the record lacks the time of the run")?,
            _ => finished.wall.as_secs_f64(),
        };
        let run = FinishedRun {
            time,
            user: processor(after.user.saturating_sub(before.user)),
            system: processor(after.system.saturating_sub(before.system)),
            exit_status,
            choice: document
                .as_ref()
                .filter(|_| variant.decides)
                .map(|document| Choice::of(&document.record, policies::kind(&document.record.policy).decides_on)),
        };
        Ok(Ended::Complete(run, document.map(Box::new)))
    }

    /// Runs the command of `--prepare`. The result is the signal that asked pinfold to end, if there was one.
    fn prepare(&mut self) -> Result<Option<i32>> {
        if let Some(prepare) = &self.arguments.surroundings.prepare {
            let command = ["sh".into(), "-c".into(), prepare.clone()];
            let finished = self.finish(&command)?;
            if self.interruption(finished.status).is_none() && !finished.status.success() {
                bail!(
                    "the command of --prepare, `{}`, ended with status {}{}",
                    prepare.display(),
                    code(finished.status),
                    finished.last_lines()
                );
            }
        }
        Ok(self.signals.asked_to_end())
    }

    fn finish(&mut self, words: &[OsString]) -> Result<Finished> {
        let [program, rest @ ..] = words else {
            bail!("there is no command to run; write it after `--`");
        };
        let mut command = Command::new(program);
        command.args(rest);
        if self.arguments.is_simulated() && std::env::var_os(simulations::VARIABLE).is_none() {
            // Variants try the same placements: each is simulated once.
            command.env(simulations::VARIABLE, self.folder.path().join("simulations"));
        }
        let stderr = self.redirect(&mut command)?;
        let started = Instant::now();
        let status = self
            .signals
            .run(&mut command)
            .map_err(|error| unstartable(program, &error))?;
        Ok(Finished {
            status,
            wall: started.elapsed(),
            stderr,
        })
    }

    /// Gives a command its standard streams. The result is the file that gets its standard error; `None` if that is
    /// shown.
    fn redirect(&self, command: &mut Command) -> Result<Option<File>> {
        let arguments = &self.arguments.surroundings;
        command.stdin(match &arguments.input {
            Some(file) => File::open(file)
                .with_context(|| format!("--input {} cannot be read", file.display()))?
                .into(),
            None => Stdio::null(),
        });
        command.stdout(match &arguments.stdout {
            _ if arguments.show_output => Stdio::inherit(),
            Output::Null => Stdio::null(),
            Output::Inherit => Stdio::inherit(),
            Output::File(file) => open_growing(file, File::options().write(true).create(true).truncate(true))
                .with_context(|| format!("--stdout {} cannot be written", file.display()))?
                .into(),
        });
        if arguments.show_output {
            return Ok(None);
        }
        let no_room = "no room for the standard error of a run";
        let file = tempfile::tempfile_in(self.folder.path()).context(no_room)?;
        command.stderr(file.try_clone().context(no_room)?);
        Ok(Some(file))
    }

    /// The signal that asked pinfold to end. The terminal's SIGINT may end the program before it reaches pinfold.
    fn interruption(&mut self, status: ExitStatus) -> Option<i32> {
        let by_terminal = status.signal().filter(|signal| *signal == Signal::SIGINT as i32);
        self.signals.asked_to_end().or(by_terminal)
    }

    /// The record that pinfold wrote.
    fn read(&self, finished: &Finished) -> Result<RunDocument> {
        let Ok(text) = fs::read_to_string(self.record()) else {
            bail!(
                "pinfold could not run the program, and ended with status {}{}",
                code(finished.status),
                finished.last_lines()
            );
        };
        Ok(RunDocument::read(&text)?)
    }
}

impl Finished {
    /// The last lines of standard error, as the end of a sentence.
    fn last_lines(&self) -> String {
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

/// The exit status as a shell shows it.
fn code(status: ExitStatus) -> i32 {
    status
        .code()
        .or(status.signal().map(|signal| 128 + signal))
        .unwrap_or(1)
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
