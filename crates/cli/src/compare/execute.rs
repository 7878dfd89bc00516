//! Runs one variant once: the program itself, or `pinfold run` with the program.

use super::arguments::{Arguments, Output};
use super::variants::Planned;
use crate::finished::{Commands, Finished};
use crate::run::{policies, simulations};
use anyhow::{Context, Result, bail};
use nix::sys::signal::Signal;
use pinfold_compare::{Choice, FinishedRun};
use pinfold_files::output::open_growing;
use pinfold_linux::processor_time;
use pinfold_runtime::RunDocument;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Runs commands one after the other.
pub(super) struct Executor<'a> {
    arguments: &'a Arguments,
    commands: Commands,
    pinfold: PathBuf,
}

/// How one run ended.
pub(super) enum Ended {
    /// The run, and under pinfold its record.
    Complete(FinishedRun, Option<Box<RunDocument>>),
    /// A signal asked pinfold to end.
    Interrupted(i32),
}

impl<'a> Executor<'a> {
    /// Call it while the process has a single thread.
    pub(super) fn new(arguments: &'a Arguments) -> Result<Self> {
        Ok(Self {
            arguments,
            commands: Commands::new()?,
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
        self.commands.folder().join("record.json")
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
        if let Some(signal) = self.commands.interruption(finished.status) {
            return Ok(Ended::Interrupted(signal));
        }
        let document = match variant.words {
            Some(_) => Some(self.read(&finished)?),
            None => None,
        };
        let exit_status = match &document {
            Some(document) => document.record.program.exit_status.unwrap_or(0),
            None => finished.code(),
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
            if self.commands.interruption(finished.status).is_none() && !finished.status.success() {
                bail!(
                    "the command of --prepare, `{}`, ended with status {}{}",
                    prepare.display(),
                    finished.code(),
                    finished.last_lines()
                );
            }
        }
        Ok(self.commands.asked_to_end())
    }

    fn finish(&mut self, words: &[OsString]) -> Result<Finished> {
        let [program, rest @ ..] = words else {
            bail!("there is no command to run; write it after `--`");
        };
        let mut command = Command::new(program);
        command.args(rest);
        if self.arguments.is_simulated() && std::env::var_os(simulations::VARIABLE).is_none() {
            // Variants try the same placements: each is simulated once.
            command.env(simulations::VARIABLE, self.commands.folder().join("simulations"));
        }
        let stderr = self.redirect(&mut command)?;
        self.commands.finish(&mut command, stderr)
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
        let file = self.commands.nameless_file()?;
        command.stderr(file.try_clone()?);
        Ok(Some(file))
    }

    /// The record that pinfold wrote.
    fn read(&self, finished: &Finished) -> Result<RunDocument> {
        let Ok(text) = fs::read_to_string(self.record()) else {
            bail!(
                "pinfold could not run the program, and ended with status {}{}",
                finished.code(),
                finished.last_lines()
            );
        };
        Ok(RunDocument::read(&text)?)
    }
}
