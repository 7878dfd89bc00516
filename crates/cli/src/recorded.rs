//! Recordings to simulate: one that the user names, or one of a program that is recorded now.

use crate::{console, record};
use anyhow::{Result, bail};
use pinfold_trace::Recording;
use std::ffi::OsString;
use std::path::Path;

/// A recording, and how the recorded run ended.
pub(crate) struct Recorded {
    pub(crate) recording: Recording,
    pub(crate) exit_status: i32,
}

/// A recording that the user names. Errors: it cannot be read, or there is nothing in it to simulate.
pub(crate) fn open(file: &Path, salvage: bool) -> Result<Recording> {
    let recording = record::open(file, salvage)?;
    if recording.threads().iter().all(|thread| thread.accesses() == 0) {
        match &recording.header().window {
            Some(window) => bail!(
                "{} holds no data access: it is of a part of the program ({window}) that the program never came to",
                file.display()
            ),
            None => bail!(
                "{} holds no data access, so there is nothing to simulate",
                file.display()
            ),
        }
    }
    if !recording.knows_first_touches() {
        console::say(format_args!(
            "{} comes from an earlier version, which did not record which thread touches a page first outside the window: \
             pages count as touched first by the threads that use them; record the program again",
            file.display()
        ));
    }
    if recording.code().is_none() {
        console::say(format_args!(
            "{} comes from an earlier version, which did not record the program's code: its simulated time is less exact, \
             with one number of cycles per instruction and guessed dependences between loads; record the program again",
            file.display()
        ));
    }
    Ok(recording)
}

/// Records a whole run of a program to `file`, and says so unless `quiet`; an exit status if it could not be run.
pub(crate) fn record(
    file: &Path,
    command: &[OsString],
    threads: Option<usize>,
    quiet: bool,
) -> Result<Result<Recorded, u8>> {
    let variables = threads_wanted(threads);
    if !quiet {
        let assignments = variables
            .iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()));
        let words = command.iter().map(|word| word.to_string_lossy().into_owned());
        let shown: Vec<String> = assignments.chain(words).collect();
        console::say(format_args!("recording {}", shown.join(" ")));
    }
    let recorder = record::Arguments::whole(file.to_owned(), command.to_vec(), variables);
    let status = record::record(&recorder)?;
    if !file.metadata().is_ok_and(|metadata| metadata.len() > 0) {
        return Ok(Err(status));
    }
    Ok(Ok(Recorded {
        recording: Recording::open(file)?,
        exit_status: i32::from(status),
    }))
}

/// The variable that sets the number of threads, if the user gives one and the environment does not. Otherwise an
/// OpenMP runtime starts one thread for each CPU of this machine, and not of the simulated one.
pub(crate) fn threads_wanted(threads: Option<usize>) -> Vec<(OsString, OsString)> {
    match threads {
        Some(threads) if std::env::var_os("OMP_NUM_THREADS").is_none() => {
            vec![("OMP_NUM_THREADS".into(), threads.to_string().into())]
        }
        _ => vec![],
    }
}
