//! `pinfold pairs`: the two features whose decision tree chooses configurations best. `pinfold learn` calls it.
//!
//! Its input and its output are described in docs/formats/internals/pairs.md.

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use pinfold_linux::output::Output;
use pinfold_pairs::{Problem, Search};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread::available_parallelism;

/// Find the two features whose decision tree, judged by cross-validation, chooses configurations best.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The features, gains, classes and folds of samples, as JSON.
    #[arg(value_name = "PROBLEM.json")]
    problem: PathBuf,

    /// Write the best pair to this file, as JSON.
    #[arg(short, long, value_name = "FILE.json")]
    output: PathBuf,

    /// Write the scores of all pairs to this file, as an array of `numpy`: single precision, the first feature with all
    /// later ones, then the second, and so on.
    #[arg(long, value_name = "FILE.npy")]
    scores: Option<PathBuf>,

    /// Judge also trees of the best pair with each third feature.
    #[arg(long)]
    thirds: bool,

    /// Work in N threads [default: one for each CPU that is allowed].
    #[arg(long, value_parser = crate::run::number::within(1usize, 4096), value_name = "N")]
    jobs: Option<usize>,
}

/// The version of the input.
const VERSION: u32 = 1;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    pair_problem: u32,
    features: Vec<Vec<f32>>,
    labels: Vec<u8>,
    gains: Vec<Vec<f64>>,
    folds: Vec<u8>,
}

#[derive(Serialize)]
struct Found {
    pair: (usize, usize),
    score: f64,
    /// The class that each sample is predicted to have, in its fold.
    predicted: Vec<u8>,
    /// The scores with each third feature.
    #[serde(skip_serializing_if = "Option::is_none")]
    thirds: Option<Vec<f64>>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let output = Output::open("--output", &arguments.output)?;
    let scores = Output::optional("--scores", arguments.scores.as_deref())?;
    let threads = match arguments.jobs {
        Some(jobs) => jobs,
        None => available_parallelism()
            .context("the number of CPUs cannot be read; give --jobs N")?
            .get(),
    };
    let search = read(arguments).with_context(|| format!("{} cannot be searched", arguments.problem.display()))?;
    let Some(best) = search.best(threads, |_| true) else {
        bail!("{} has no two features: a pair needs two", arguments.problem.display());
    };
    let found = Found {
        pair: best.pair,
        score: best.score,
        predicted: search.predict(best.pair.0, best.pair.1),
        thirds: arguments.thirds.then(|| search.thirds(best.pair, threads)),
    };
    if let Some(scores) = scores {
        let all = search.all_scores(threads);
        scores.write_with(|file| write_npy(file, &all))?;
    }
    output.write_json(&found)?;
    Ok(ExitCode::SUCCESS)
}

fn read(arguments: &Arguments) -> Result<Search> {
    let document: Document = serde_json::from_slice(&fs::read(&arguments.problem)?)?;
    ensure!(
        document.pair_problem == VERSION,
        "it has version {}, and this pinfold reads version {VERSION}: use the Python package of the same version",
        document.pair_problem
    );
    let samples = document.labels.len();
    for (number, values) in document.features.iter().enumerate() {
        ensure!(
            values.len() == samples,
            "feature {number} has {} values, and there are {samples} samples",
            values.len()
        );
    }
    let classes = document.gains.first().map_or(0, Vec::len);
    for (number, gains) in document.gains.iter().enumerate() {
        ensure!(
            gains.len() == classes,
            "sample {number} has {} gains, and the first one has {classes}",
            gains.len()
        );
    }
    let problem = Problem {
        features: document.features.concat(),
        labels: document.labels,
        gains: document.gains.concat(),
        classes,
        folds: document.folds,
    };
    Ok(Search::new(&problem)?)
}

/// Writes numbers in the format of `numpy`, version 1.0 (`numpy.lib.format`): a header of 128 bytes, and the numbers.
fn write_npy(file: &mut fs::File, numbers: &[f32]) -> io::Result<()> {
    const HEADER: u8 = 128 - 10;
    let text = format!(
        "{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}",
        numbers.len()
    );
    let mut out = BufWriter::new(file);
    out.write_all(b"\x93NUMPY\x01\x00")?;
    out.write_all(&[HEADER, 0])?;
    writeln!(out, "{text:<width$}", width = usize::from(HEADER) - 1)?;
    for number in numbers {
        out.write_all(&number.to_le_bytes())?;
    }
    out.flush()
}
