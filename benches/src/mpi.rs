//! The cost of counting a call of MPI: calls of an empty function through the interposer, over the same calls without it.

use crate::measure::Missing;
use anyhow::{Context, Result, ensure};
use pinfold_core::sources::MPI;
use pinfold_linux::channel::Channel;
use std::path::Path;
use std::process::Command;

const INTERPOSER: &str = "target/agent/libpinfold_mpi.so";

/// The calls of one turn, and the turns. Other programs can only make a turn slower, so the fastest counts.
const CALLS: u64 = 5_000_000;
const TURNS: u64 = 7;

/// Nanoseconds that a counted call takes longer than a call without the interposer.
pub(crate) fn counted_call(root: &Path) -> Result<f64> {
    let directory = tempfile::tempdir()?;
    let library = directory.path().join("libfake.so");
    let program = directory.path().join("program");
    let tests = root.join("agent/tests");
    let compile = |source: &str, to: &Path, further: &[&Path]| {
        let mut command = Command::new("cc");
        command
            .arg("-O2")
            .arg(tests.join(source))
            .arg("-o")
            .arg(to)
            .args(further);
        command.status().is_ok_and(|status| status.success())
    };
    let shared = [Path::new("-shared"), Path::new("-fPIC")];
    if !compile("mpi_fake.c", &library, &shared) || !compile("mpi_fake_user.c", &program, &[&library]) {
        return Err(Missing("cc cannot compile here".to_owned()).into());
    }
    let channel = Channel::create()?;
    let (mut alone, mut counted) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..TURNS {
        alone = alone.min(nanoseconds(&mut Command::new(&program))?);
        let mut command = Command::new(&program);
        command
            .env("LD_PRELOAD", root.join(INTERPOSER))
            .envs(channel.variables(|_| None, None));
        counted = counted.min(nanoseconds(&mut command)?);
    }
    let counts = channel.totals().get(&MPI);
    ensure!(
        counts == Some(TURNS * CALLS),
        "{INTERPOSER} has counted {counts:?} of {} calls",
        TURNS * CALLS
    );
    Ok(counted - alone)
}

/// What the program prints: the nanoseconds of a call.
fn nanoseconds(command: &mut Command) -> Result<f64> {
    let output = command.arg(CALLS.to_string()).output()?;
    ensure!(output.status.success(), "the program failed: {}", output.status);
    let text = String::from_utf8(output.stdout)?;
    text.trim().parse().with_context(|| format!("no number: {text}"))
}
