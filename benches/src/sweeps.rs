//! The costs of a sweep beside the simulation or the program itself: processors that idle, what shards do in common, and
//! what is around each run of a measured program.

use crate::measure::{PINFOLD, Times, median, time};
use anyhow::{Context, Result};
use std::path::Path;
use std::time::Duration;

const RECORDING: &str = "target/bench-sweep.pft";

/// Eighty placements of eight threads.
const SPACE: [&str; 4] = ["--machine", "opteron-6164x4", "--space", "threads"];

const SHARDS: usize = 5;

/// How often a sweep and its shards are measured, in turns.
const TURNS: usize = 3;

/// The share of all processors' time that a sweep leaves idle, in percent, as the sweep reports it.
pub(crate) fn idle(root: &Path) -> Result<f64> {
    const SUMMARY: &str = "target/bench-sweep.json";
    record(root)?;
    sweep(root, &["--json", SUMMARY, "-o", "target/bench-sweep.parquet"])?;
    let summary: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(root.join(SUMMARY))?)?;
    let busy = summary["busy"]
        .as_f64()
        .context("the sweep did not report how busy it was")?;
    Ok((1.0 - busy) * 100.0)
}

/// The processor time of all shards of a sweep and of their merging, over that of the sweep in one run.
///
/// Each shard starts, reads the recording and makes its page profile once more. With five shards of sixteen placements that
/// was 1.05 to 1.09 on a busy machine of two CPUs; a program takes longer in a real sweep, and its share is smaller. The
/// results of the two are the same bytes, which the test suite shows.
pub(crate) fn in_shards(root: &Path) -> Result<f64> {
    record(root)?;
    let files: Vec<String> = (1..=SHARDS)
        .map(|number| format!("target/bench-sweep-{number}"))
        .collect();
    let mut ratios = vec![];
    for _ in 0..TURNS {
        let one = sweep(root, &["-o", "target/bench-sweep.parquet"])?.processor;
        let mut shards = Duration::ZERO;
        for (number, file) in (1..).zip(&files) {
            shards += sweep(root, &["--shard", &format!("{number}/{SHARDS}"), "-o", file])?.processor;
        }
        let merge = [
            PINFOLD,
            "sweep",
            "merge",
            "--force",
            "-o",
            "target/bench-merged.parquet",
        ];
        let named = files.iter().map(String::as_str);
        shards += time(root, &merge.into_iter().chain(named).collect::<Vec<_>>())?.processor;
        ratios.push(shards.as_secs_f64() / one.as_secs_f64());
    }
    Ok(median(ratios))
}

/// The time around the runs of a measured sweep, over the time of the programs, in percent, as the sweep reports it: to
/// start `pinfold run`, to read the state of the machine, to read the record and to keep the result.
///
/// It is a few hundredths of a second for each run, whatever the program does; this one runs for five seconds.
pub(crate) fn around_runs(root: &Path) -> Result<f64> {
    const SUMMARY: &str = "target/bench-runs.json";
    let options = ["--space", "threads", "--threads", "1", "--limit", "1", "--runs", "2"];
    let files = ["--json", SUMMARY, "-o", "target/bench-runs.parquet"];
    let program = ["--", "target/workloads/compute", "--threads", "1", "--seconds", "5"];
    time(
        root,
        &[&[PINFOLD, "sweep", "--force"][..], &options, &files, &program].concat(),
    )?;
    let summary: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(root.join(SUMMARY))?)?;
    let seconds = |key: &str| {
        summary[key]
            .as_f64()
            .with_context(|| format!("the sweep did not report its {key}"))
    };
    Ok(100.0 * seconds("around_seconds")? / seconds("program_seconds")?)
}

/// Records the program that is swept.
fn record(root: &Path) -> Result<()> {
    let program = [
        "target/workloads/stream",
        "--threads",
        "8",
        "--size",
        "2M",
        "--iterations",
        "4",
    ];
    time(
        root,
        &[&[PINFOLD, "record", "-o", RECORDING, "--"][..], &program].concat(),
    )?;
    Ok(())
}

fn sweep(root: &Path, words: &[&str]) -> Result<Times> {
    time(
        root,
        &[&[PINFOLD, "sweep", "--force"][..], &SPACE, words, &[RECORDING]].concat(),
    )
}
