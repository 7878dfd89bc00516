//! The cost for a program when it creates very many threads.

use crate::measure::{PINFOLD, median, time};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

const PAIRS: usize = 7;

/// The time in which a program creates 10,000 threads that all live, under pinfold over without.
pub(crate) fn of_living_threads(root: &Path) -> Result<f64> {
    measure(root, "10000", "alive")
}

/// The time in which a program creates 5,000 threads, one after the other, under pinfold over without.
pub(crate) fn of_short_threads(root: &Path) -> Result<f64> {
    measure(root, "5000", "short")
}

/// The two take turns, and the ratios of the pairs are compared.
fn measure(root: &Path, threads: &str, lives: &str) -> Result<f64> {
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("many_threads");
    let compiled = Command::new("cc")
        .args(["-O1", "-pthread", "tests/programs/many_threads.c", "-o"])
        .arg(&program)
        .current_dir(root)
        .status()
        .context("cc cannot be run")?;
    ensure!(compiled.success(), "tests/programs/many_threads.c cannot be compiled");
    let program = program.to_str().context("the temporary folder has no name in UTF-8")?;
    let alone = [program, threads, lives];
    let under = [&[PINFOLD, "run", "-qq", "--policy", "close", "--"], &alone[..]].concat();
    let ratios = (0..PAIRS).map(|_| Ok(time(root, &under)?.work()? / time(root, &alone)?.work()?));
    Ok(median(ratios.collect::<Result<_>>()?))
}
