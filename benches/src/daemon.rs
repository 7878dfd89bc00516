//! The costs of `pinfold daemon`.

use anyhow::{Context, Result, bail, ensure};
use pinfold_linux::counters::{Plan, Request};
use serde::Deserialize;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::measure::{PINFOLD, median};

/// The number of tasks: the paper's machine has this number of CPUs.
const TASKS: usize = 40;

/// A child that is killed when this value is dropped.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The used parts of the daemon's state.
#[derive(Deserialize)]
struct State {
    /// In seconds.
    at: f64,
    totals: Totals,
}

#[derive(Deserialize)]
struct Totals {
    working: usize,
    processor_seconds: f64,
}

/// The share of one core, in percent, that the daemon needs to watch 40 working tasks ten times a second. For each task
/// it reads the processor time, the mask, the PU, and a group of one software event. No task is moved.
pub(crate) fn watching(root: &Path) -> Result<f64> {
    /// The number of measured intervals; the median of their shares counts.
    const STRETCHES: usize = 5;
    const STRETCH: Duration = Duration::from_secs(2);
    let threads = TASKS.to_string();
    let program = spawn(
        root,
        &["target/workloads/compute", "--threads", &threads, "--seconds", "600"],
    )?;
    let number = program.0.id().to_string();
    let daemon = [
        "daemon",
        "--journals",
        JOURNALS,
        "--process",
        &number,
        "--log",
        "/dev/null",
    ];
    let metric = ["--metric", "sharing:page-faults", "--threshold", "1e9"];
    let _daemon = spawn(root, &[&[PINFOLD][..], &daemon, &metric].concat())?;
    let begin = Instant::now();
    let mut before = loop {
        match state(root) {
            Ok(state) if state.totals.working >= TASKS => break state,
            _ if begin.elapsed() > Duration::from_secs(60) => {
                bail!("the daemon did not find {TASKS} working tasks within a minute")
            }
            _ => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    let mut shares = vec![];
    for _ in 0..STRETCHES {
        std::thread::sleep(STRETCH);
        let now = state(root)?;
        ensure!(now.totals.working >= TASKS, "only {} tasks work", now.totals.working);
        let used = now.totals.processor_seconds - before.totals.processor_seconds;
        shares.push(used / (now.at - before.at) * 100.0);
        before = now;
    }
    Ok(median(shares))
}

const JOURNALS: &str = "target/bench-daemon";

fn spawn(root: &Path, words: &[&str]) -> Result<Ending> {
    let mut command = Command::new(root.join(words[0]));
    command.args(&words[1..]).current_dir(root).stdin(Stdio::null());
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    Ok(Ending(child.with_context(|| {
        format!("{} cannot be run; `make build` builds it", words[0])
    })?))
}

fn state(root: &Path) -> Result<State> {
    let top = Command::new(root.join(PINFOLD))
        .args(["top", "--json", "--journals", JOURNALS])
        .current_dir(root)
        .output()?;
    ensure!(top.status.success(), "{}", String::from_utf8_lossy(&top.stderr));
    Ok(serde_json::from_slice(&top.stdout)?)
}

/// The time of reading one task's group with as many software events as Ivy Bridge has programmable counters, in
/// microseconds.
pub(crate) fn reading_a_group() -> Result<f64> {
    let events = ["task-clock", "page-faults", "context-switches", "cpu-migrations"];
    let requests: Vec<Request> = events.iter().map(|&name| Request::Event(name.to_owned())).collect();
    let mut counters = Plan::new(&requests)?.open(0)?;
    ensure!(
        counters.read().iter().all(Option::is_some),
        "not all events are counted"
    );
    let batches = (0..50).map(|_| {
        const READINGS: u32 = 200;
        let start = Instant::now();
        for _ in 0..READINGS {
            std::hint::black_box(counters.read());
        }
        start.elapsed().as_secs_f64() / f64::from(READINGS) * 1e6
    });
    Ok(median(batches.collect()))
}
