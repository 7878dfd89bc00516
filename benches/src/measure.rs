//! Runs a command and measures its times.

use anyhow::{Context, Result, bail};
use nix::sys::resource::{UsageWho, getrusage};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The reason why something cannot be measured on this machine. It breaks no promise.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Missing(pub(crate) String);

/// The binary, from the project's root.
pub(crate) const PINFOLD: &str = "target/release/pinfold";

/// The times of one run of a command, including its descendants.
pub(crate) struct Times {
    /// From before the fork to after the wait.
    pub(crate) wall: Duration,
    /// User and system time of the command and of every descendant that was waited for.
    pub(crate) processor: Duration,
    /// What it wrote to standard output.
    pub(crate) output: String,
}

impl Times {
    /// The seconds for which a workload has worked, by its own clock. The cost of its start is a separate promise.
    pub(crate) fn work(&self) -> Result<f64> {
        self.number(", time ", " s,")
    }

    /// The number that the output has between these texts.
    pub(crate) fn number(&self, before: &str, after: &str) -> Result<f64> {
        let rest = self
            .output
            .split_once(before)
            .and_then(|(_, rest)| rest.split_once(after));
        let (number, _) = rest.with_context(|| format!("the output has no `{}`: {}", before.trim(), self.output))?;
        Ok(number.parse()?)
    }
}

/// Runs `words` in `directory`, without output, and measures its times. A failed command is an error: its times have no
/// meaning. Each run has an empty behaviour database, so that it decides as for a program that was never seen.
pub(crate) fn time(directory: &Path, words: &[&str]) -> Result<Times> {
    let state = tempfile::tempdir()?;
    let before = processor_time_of_children()?;
    let start = Instant::now();
    let output = Command::new(words[0])
        .args(&words[1..])
        .current_dir(directory)
        .env("PINFOLD_DB", state.path().join("behaviour.db"))
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{} cannot be run; `make build` builds it", words[0]))?;
    let wall = start.elapsed();
    if !output.status.success() {
        bail!(
            "`{}` ended with {}: {}",
            words.join(" "),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(Times {
        wall,
        processor: processor_time_of_children()?.saturating_sub(before),
        output: String::from_utf8_lossy(&output.stdout).into_owned(),
    })
}

/// The median; of an even number of values, the upper one of the two in the middle.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn processor_time_of_children() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let seconds = |time: nix::sys::time::TimeVal| -> Result<Duration> {
        Ok(Duration::new(
            time.tv_sec().try_into()?,
            u32::try_from(time.tv_usec())? * 1000,
        ))
    };
    Ok(seconds(usage.user_time())? + seconds(usage.system_time())?)
}
