//! Comparisons on simulated machines and on tables of measurements: what runs, and how often it is repeated.

use super::arguments::Arguments;
use super::execute::{Ended, Executor};
use super::variants::Planned;
use crate::recorded;
use anyhow::{Context, Result, bail};
use pinfold_compare::Simulated;
use pinfold_core::MachineKind;
use std::ffi::OsString;
use std::path::PathBuf;
use tempfile::TempDir;

/// The program of a run that is simulated or replayed.
pub(super) struct Program {
    /// The recording; `None` for a table, which has the program.
    file: Option<PathBuf>,
    /// The command that was recorded or measured.
    pub(super) command: Vec<OsString>,
    /// The folder of a recording that was made for this comparison; it is removed at the end.
    made: Option<TempDir>,
}

impl Program {
    /// Its words on the command line of `pinfold run`.
    pub(super) fn words(&self) -> Vec<OsString> {
        self.file.iter().map(|file| file.clone().into_os_string()).collect()
    }
}

/// The program of a table, the recording that the user names, or one that is made of the program; `None` on this
/// machine.
pub(super) fn recording(arguments: &Arguments) -> Result<Option<Program>> {
    if !arguments.is_simulated() {
        return Ok(None);
    }
    if arguments.is_table() {
        return Ok(Some(Program {
            file: None,
            command: arguments.passed.program.clone().into_iter().collect(),
            made: None,
        }));
    }
    if let Some(file) = &arguments.simulated.recording {
        let recording = recorded::open(file, false)?;
        let command = recording.header().command.iter().map(OsString::from).collect();
        return Ok(Some(Program {
            file: Some(file.clone()),
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
        file: Some(file),
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
                    let speed = document.and_then(|document| {
                        let ran = document.record.program.ran.filter(|&ran| ran > 0.0)?;
                        Some(document.repetitions()? / ran)
                    });
                    repetitions(speed.context("the record lacks the speed of the program")?, arguments)
                }
            }
        }
    };
    Ok(Ok(Simulated {
        kind: if arguments.is_table() {
            MachineKind::Table
        } else {
            MachineKind::Simulated
        },
        recording: program.file.clone().filter(|_| program.made.is_none()),
        repeat,
        first_seed,
        kernel: (!arguments.is_table()).then(|| arguments.passed.kernel.unwrap_or_default().to_string()),
        numa_balancing: (!arguments.is_table()).then_some(arguments.passed.balances),
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
