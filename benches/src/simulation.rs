//! The cost of detailed simulation: recorded workloads of eight threads, run on a model, with the reading of the
//! recording, on one core of the host. The best of several turns counts, because other programs on the host can only
//! make them slower.

use crate::measure::time;
use anyhow::{Context, Result};
use pinfold_core::{PageMapping, Pinning, Prefetchers, PuId};
use pinfold_sim::model::builtin;
use pinfold_sim::window::{Options, Stream, WindowConfiguration, simulate};
use pinfold_sim::{RecordedProgram, SimulatedProgram};
use pinfold_trace::{Interactions, Recording};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The workloads, and the arguments that put their data beyond the small caches of a core.
const WORKLOADS: [(&str, &[&str]); 8] = [
    ("stream", &["--size", "12M", "--iterations", "3"]),
    ("stencil", &["--size", "3M", "--iterations", "4"]),
    ("spmv", &["--size", "4M", "--iterations", "3"]),
    ("random_access", &["--size", "4M", "--iterations", "2"]),
    ("compute", &["--size", "256k", "--iterations", "2"]),
    ("nbody", &["--size", "1k", "--iterations", "1"]),
    ("fft", &["--size", "1M", "--iterations", "1"]),
    ("kmeans", &["--size", "1M", "--iterations", "1"]),
];

/// How often a window is simulated.
const TURNS: usize = 8;

/// The speed of the simulation of all workloads.
#[derive(Clone, Copy)]
pub(crate) struct Speed {
    /// Data accesses per second, in millions, of all workloads together.
    pub(crate) together: f64,
    /// Those of the slowest workload.
    pub(crate) slowest: f64,
}

/// The speed on the four Opterons, measured once.
pub(crate) fn speed_on_opterons(root: &Path) -> Result<Speed> {
    static MEASURED: OnceLock<Speed> = OnceLock::new();
    if let Some(&measured) = MEASURED.get() {
        return Ok(measured);
    }
    let measured = speed(root, "opteron-6164x4")?;
    Ok(*MEASURED.get_or_init(|| measured))
}

/// Simulates every workload with 8 threads on `machine`, on cores as far apart as possible.
pub(crate) fn speed(root: &Path, machine: &str) -> Result<Speed> {
    let (mut accesses, mut seconds, mut slowest) = (0.0, 0.0, f64::INFINITY);
    for (workload, arguments) in WORKLOADS {
        let (done, took) = window(machine, &recorded(root, workload, 8, arguments)?)?;
        accesses += done;
        seconds += took;
        slowest = f64::min(slowest, done / took / 1e6);
    }
    Ok(Speed {
        together: accesses / seconds / 1e6,
        slowest,
    })
}

/// Millions of data accesses per second of the streaming workload with this number of threads.
pub(crate) fn speed_of_threads(root: &Path, machine: &str, threads: usize) -> Result<f64> {
    let (name, arguments) = WORKLOADS[0];
    let (accesses, seconds) = window(machine, &recorded(root, name, threads, arguments)?)?;
    Ok(accesses / seconds / 1e6)
}

/// The most memory, in MB, that this process needs while it simulates 48 threads on the 48 cores of the Opterons.
pub(crate) fn memory(root: &Path) -> Result<f64> {
    let (name, arguments) = WORKLOADS[0];
    let recording = recorded(root, name, 48, arguments)?;
    // Resets the peak (proc_pid_clear_refs(5)).
    std::fs::write("/proc/self/clear_refs", "5").context("the peak of the memory cannot be reset")?;
    window("opteron-6164x4", &recording)?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"))
        .context("the kernel does not report VmHWM")?;
    Ok(peak.trim().parse::<f64>()? * 1024.0 / 1e6)
}

/// Millions of data accesses per second and core from which the metrics of a paper are computed: the exchanges of lines
/// between 8 threads.
pub(crate) fn interactions(root: &Path) -> Result<f64> {
    let (name, arguments) = WORKLOADS[0];
    let file = recording(root, name, 8, arguments)?;
    let mut best = 0.0;
    for _ in 0..TURNS {
        let begin = processor_seconds()?;
        let found = Interactions::of(&Recording::open(&file)?)?;
        let accesses: u64 = found.accesses.iter().sum();
        best = f64::max(best, accesses as f64 / (processor_seconds()? - begin) / 1e6);
    }
    Ok(best)
}

/// A recorded workload.
fn recorded(root: &Path, workload: &str, threads: usize, arguments: &[&str]) -> Result<RecordedProgram> {
    let file = recording(root, workload, threads, arguments)?;
    Ok(RecordedProgram::new(Recording::open(&file)?)?)
}

/// Records a workload, unless the recording of this run exists.
fn recording(root: &Path, workload: &str, threads: usize, arguments: &[&str]) -> Result<PathBuf> {
    static DONE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let directory = root.join("target/bench");
    std::fs::create_dir_all(&directory)?;
    let file = directory.join(format!("{workload}-{threads}.pft"));
    let mut done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
    if done.contains(&file) {
        return Ok(file);
    }
    let shown = file.to_str().context("the path is not valid UTF-8")?;
    let program = format!("target/workloads/{workload}");
    let count = threads.to_string();
    let mut words = vec![
        "target/release/pinfold",
        "record",
        "-o",
        shown,
        "--",
        &program,
        "--threads",
        &count,
    ];
    words.extend(arguments);
    time(root, &words)?;
    done.insert(file.clone());
    Ok(file)
}

/// The number of data accesses of a program on a model, and the processor time of their simulation, in seconds.
fn window(machine: &str, program: &RecordedProgram) -> Result<(f64, f64)> {
    let model = builtin(machine).with_context(|| format!("there is no model {machine}"))?;
    let (threads, cores) = (program.threads(), model.cores());
    let pus = (0..threads)
        .map(|thread| Ok(PuId(u32::try_from(thread * cores / threads)?)))
        .collect::<Result<_>>()?;
    let configuration = WindowConfiguration {
        pinning: Pinning::new(pus).context("the recording has no threads")?,
        pages: PageMapping::FirstTouch,
        prefetchers: Prefetchers::ALL,
    };
    let mut least = f64::INFINITY;
    let mut accesses = 0.0;
    for _ in 0..TURNS {
        let streams: Vec<Box<dyn Stream + '_>> = (0..threads).map(|thread| program.stream(thread)).collect();
        let begin = processor_seconds()?;
        let result = simulate(&model, &configuration, None, streams, &Options::default())?;
        least = least.min(processor_seconds()? - begin);
        let total = result.total();
        accesses = (total.reads + total.writes) as f64;
    }
    Ok((accesses, least))
}

/// Processor time of this thread so far.
fn processor_seconds() -> Result<f64> {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").context("the kernel keeps no schedstat")?;
    let nanoseconds = statistics.split_whitespace().next().context("schedstat is empty")?;
    Ok(nanoseconds.parse::<f64>()? * 1e-9)
}
