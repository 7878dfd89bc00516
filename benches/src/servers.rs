//! Real programs under the default policy, beside the same programs alone.

use crate::measure::{Missing, PINFOLD, time};
use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often each is run alone and under pinfold, in turns. The best runs are compared: other programs only take time.
const TURNS: usize = 5;

/// The requests of one run: for some seconds, so that the policy measures and tries.
const REQUESTS: &str = "2000000";

/// The time for which a server may take to start.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server that ends with this value.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.0.id().cast_signed()), Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

/// Requests per second of a Redis server under `pinfold run`, over those of the server alone.
pub(crate) fn redis(root: &Path) -> Result<f64> {
    let (mut alone, mut under) = (0f64, 0f64);
    for _ in 0..TURNS {
        alone = alone.max(requests(root, &[])?);
        under = under.max(requests(root, &[PINFOLD, "run", "--quiet", "--"])?);
    }
    Ok(under / alone)
}

/// The requests per second that `redis-benchmark` finds.
fn requests(root: &Path, prefix: &[&str]) -> Result<f64> {
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("redis");
    let socket = socket.to_str().context("the temporary folder has no name in UTF-8")?;
    let server = ["redis-server", "--port", "0", "--save", "", "--unixsocket", socket];
    let words = [prefix, &server[..]].concat();
    let started = Command::new(words[0])
        .args(&words[1..])
        .current_dir(root)
        .env("PINFOLD_DB", folder.path().join("behaviour.db"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn();
    let server = match started {
        Ok(child) => Server(child),
        Err(_) if prefix.is_empty() => return Err(Missing("redis-server is not installed".to_owned()).into()),
        Err(error) => return Err(error).context("`make build` builds pinfold"),
    };
    let began = Instant::now();
    while !Path::new(socket).exists() {
        ensure!(began.elapsed() < PATIENCE, "redis-server does not start");
        sleep(Duration::from_millis(10));
    }
    let client = [
        "redis-benchmark",
        "-s",
        socket,
        "-t",
        "get",
        "-P",
        "8",
        "-n",
        REQUESTS,
        "--csv",
    ];
    let output = time(root, &client)?.output;
    drop(server);
    let line = output.lines().find(|line| line.starts_with("\"GET\""));
    let rate = line.and_then(|line| line.split(',').nth(1));
    let rate = rate.with_context(|| format!("redis-benchmark printed no rate: {output}"))?;
    Ok(rate.trim_matches('"').parse()?)
}

/// The rate of an OpenMP solver, conjugate gradients on two threads, under `pinfold run` over that alone.
pub(crate) fn solver(root: &Path) -> Result<f64> {
    let program = [
        "target/workloads/cg",
        "--threads",
        "2",
        "--size",
        "16M",
        "--seconds",
        "6",
    ];
    let placed = [&[PINFOLD, "run", "--quiet", "--"], &program[..]].concat();
    let (mut alone, mut under) = (0f64, 0f64);
    for _ in 0..TURNS {
        alone = alone.max(iterations(root, &program)?);
        under = under.max(iterations(root, &placed)?);
    }
    Ok(under / alone)
}

/// The iterations per second that a workload reports.
fn iterations(root: &Path, words: &[&str]) -> Result<f64> {
    let times = time(root, words)?;
    Ok(times.number(", iterations ", ",")? / times.work()?)
}
