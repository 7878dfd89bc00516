//! Comparisons on simulated machines: the recording, and how often it is repeated.

use super::arguments::Arguments;
use super::execute::{Ended, Executor};
use super::variants::Planned;
use crate::recorded;
use anyhow::{Context, Result, bail};
use pinfold_compare::Simulated;
use std::ffi::OsString;
use std::path::PathBuf;
use tempfile::TempDir;

/// The program of a simulated run.
pub(super) struct Program {
    file: PathBuf,
    /// The command that was recorded.
    pub(super) command: Vec<OsString>,
    /// The folder of a recording that was made for this comparison; it is removed at the end.
    made: Option<TempDir>,
}

impl Program {
    /// Its words on the command line of `pinfold run`.
    pub(super) fn words(&self) -> Vec<OsString> {
        vec![self.file.clone().into_os_string()]
    }
}

/// The recording that the user names, or one that is made of the program; `None` on this machine.
pub(super) fn recording(arguments: &Arguments) -> Result<Option<Program>> {
    if !arguments.is_simulated() {
        return Ok(None);
    }
    if let Some(file) = &arguments.simulated.recording {
        let recording = recorded::open(file, false)?;
        let command = recording.header().command.iter().map(OsString::from).collect();
        return Ok(Some(Program {
            file: file.clone(),
            command,
            made: None,
        }));
    }
    let folder = tempfile::tempdir().context("no room for a recording")?;
    let file = folder.path().join("recording.pft");
    let quiet = arguments.surroundings.quiet;
    match recorded::record(&file, &arguments.command, arguments.passed.threads, quiet)? {
        Ok(recorded) if recorded.exit_status == 0 || arguments.surroundings.ignore_failure => {}
        Ok(recorded) => bail!(
            "the program ended with status {} while it was recorded; with --ignore-failure its recording is used all the same",
            recorded.exit_status
        ),
        Err(status) => bail!("the program could not be recorded; the recorder ended with status {status}"),
    }
    Ok(Some(Program {
        file,
        command: arguments.command.clone(),
        made: Some(folder),
    }))
}

/// The options of one run. Without a number of repetitions the run ends when a rate was reported.
pub(super) fn options(repeat: Option<u64>, seed: u64) -> Vec<OsString> {
    let repeat = repeat.map_or_else(|| "auto".to_owned(), |times| times.to_string());
    vec![format!("--repeat={repeat}").into(), format!("--seed={seed}").into()]
}

/// How runs are simulated. Without `--repeat` the program runs once alone, to find how often it has to be repeated. If
/// a signal ended pinfold, that signal.
pub(super) fn settings(
    arguments: &Arguments,
    program: &Program,
    planned: &[Planned],
    executor: &mut Executor<'_>,
) -> Result<Result<Simulated, i32>> {
    let first_seed = arguments.simulated.seed.unwrap_or(0);
    let repeat = match (arguments.simulated.repeat, planned.first()) {
        (Some(repeat), _) => repeat,
        (None, None) => 1,
        (None, Some(alone)) => {
            let words = executor.words(alone, &options(None, first_seed), &program.words());
            match executor.run(&words, alone).context("a run of the program alone")? {
                Ended::Interrupted(signal) => return Ok(Err(signal)),
                Ended::Complete(_, document) => {
                    let simulation = document.and_then(|document| document.simulation);
                    let speed = simulation.and_then(|simulation| simulation.programs.first()?.speed);
                    repetitions(speed.context("the record lacks the speed of the program")?, arguments)
                }
            }
        }
    };
    Ok(Ok(Simulated {
        recording: program.made.is_none().then(|| program.file.clone()),
        repeat,
        first_seed,
    }))
}

/// How often a program of this speed, in repetitions per second, is repeated in the time that the user wants.
fn repetitions(speed: f64, arguments: &Arguments) -> u64 {
    let wanted = arguments.simulated.time.as_secs_f64() * speed;
    // The conversion saturates, and a program runs once at least.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    let times = wanted.round() as u64;
    times.max(1)
}
