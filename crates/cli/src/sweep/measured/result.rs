//! The end of a measured sweep: the data set or the shard file, notes for the user, and the summary.

use super::Sweep;
use anyhow::Result;
use pinfold_files::output::Output;
use pinfold_sweep::Shard;
use pinfold_sweep::measured::{Runs, notes};
use serde::Serialize;
use std::fmt;
use std::io::BufWriter;
use std::path::PathBuf;
use std::process::ExitCode;

/// The summary of a sweep.
#[derive(Serialize)]
struct Summary {
    output: PathBuf,
    simulated: bool,
    /// The part of the sweep; `null` for all of it.
    shard: Option<Shard>,
    /// Whether all runs were made.
    complete: bool,
    /// Those of the part, with the unpinned program.
    configurations: usize,
    /// Configurations that failed, with the reasons.
    failed: Vec<Failed>,
    /// Runs that count.
    runs: usize,
    /// All runs, also disturbed and failed ones.
    runs_made: usize,
    /// Runs that an earlier run of the command had made.
    resumed: usize,
    rows: usize,
    /// The size of the drift that was removed from the times: the slowest over the fastest moment, minus one.
    drift: f64,
    /// Wall time of this run of the command.
    seconds: f64,
    /// The time of the program in it, without runs before the first measured one.
    program_seconds: f64,
    /// The time around these runs: what pinfold does before and after each, and the commands of the user.
    around_seconds: f64,
}

/// A configuration without a row.
#[derive(Serialize)]
struct Failed {
    configuration: String,
    why: String,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "measured {} configurations in {} runs, {:.1} s",
            self.configurations - self.failed.len(),
            self.runs_made - self.resumed,
            self.seconds
        )?;
        if self.resumed > 0 {
            write!(f, "; {} more runs were made before", self.resumed)?;
        }
        write!(f, ": {} rows in {}", self.rows, self.output.display())?;
        if let Some(shard) = self.shard {
            write!(f, ", which is shard {shard}")?;
        }
        Ok(())
    }
}

/// Writes everything. `jobs` are the configurations of the shard, or all.
pub(super) fn write(
    sweep: Sweep<'_>,
    jobs: &[usize],
    complete: bool,
    output: Output,
    json: Option<Output>,
) -> Result<ExitCode> {
    let arguments = sweep.arguments;
    let runs = Runs::new(sweep.plan, sweep.runs);
    let failed: Vec<Failed> = jobs
        .iter()
        .filter_map(|&job| {
            let why = sweep.course.given_up(job)?;
            Some(Failed {
                configuration: sweep.plan.jobs[job].described(),
                why: why.to_owned(),
            })
        })
        .collect();
    let data_set = runs.data_set();
    let rows = data_set.rows.len();
    match arguments.shard {
        Some(shard) => output.write_with(|file| runs.write_shard(shard, jobs, &mut BufWriter::new(file)))?,
        None => output.write_with(|file| data_set.write(file))?,
    }
    for note in notes(&runs) {
        arguments.say(note);
    }
    let began_with = sweep.resumed;
    let program_seconds = runs.runs()[began_with..]
        .iter()
        .filter_map(|(_, run)| run.seconds())
        .sum();
    let summary = Summary {
        output: arguments.output.clone(),
        simulated: false,
        shard: arguments.shard,
        complete,
        configurations: jobs.len(),
        runs: sweep.course.counted(),
        runs_made: sweep.course.made(),
        resumed: sweep.resumed,
        rows,
        drift: sweep.course.drift().size,
        seconds: sweep.began.elapsed().as_secs_f64(),
        program_seconds,
        around_seconds: sweep.course.around(),
        failed,
    };
    for Failed { configuration, .. } in &summary.failed {
        arguments.say(format_args!("no row: {configuration}, which failed"));
    }
    arguments.say(&summary);
    if complete {
        sweep.journal.remove()?;
    } else {
        let (left, seconds) = sweep.course.left();
        arguments.say(format_args!(
            "--time-limit ended the sweep about {left} runs, {seconds:.0} s, before its end: the same command goes on from there"
        ));
    }
    let status = if summary.failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(crate::FAILURE)
    };
    if let Some(json) = json {
        json.write_json(&summary)?;
    }
    Ok(status)
}
