//! The promised costs, and the measurement of each.

use crate::belief;
use crate::births;
use crate::daemon;
use crate::forecast;
use crate::forks;
use crate::functions;
use crate::guest;
use crate::mapping::{self, Load};
use crate::measure::{PINFOLD, median, time};
use crate::mpi;
use crate::pairs;
use crate::regions;
use crate::servers;
use crate::simulation;
use crate::sweeps;
use crate::whole_runs;
use anyhow::{Context, Result, ensure};
use pinfold_core::Machine;
use pinfold_core::hint::AffinityHint;
use pinfold_linux::channel::Channel;
use pinfold_linux::counters::{Plan, Request};
use pinfold_linux::launch::{Counted, Launch, PageOptions};
use pinfold_linux::machine::LinuxMachine;
use pinfold_linux::topology::{self, Source};
use pinfold_sim::model::builtin;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

/// The promised limit of a cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bound {
    /// It is at most this.
    AtMost(f64),
    /// It is at least this.
    AtLeast(f64),
    /// No limit: the cost is for comparison.
    None,
}

/// A cost, its limit, and its measurement in the project's root.
pub(crate) struct Promise {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) bound: Bound,
    pub(crate) measure: fn(&Path) -> Result<f64>,
}

/// Every promise.
pub(crate) const ALL: &[Promise] = &[
    Promise {
        name: "processor time of two computing threads, with/without",
        unit: "ratio",
        bound: Bound::AtMost(1.01),
        measure: |root| Ok(overhead(root)?.processor),
    },
    Promise {
        name: "wall time of the work of two computing threads, with/without",
        unit: "ratio",
        bound: Bound::AtMost(1.01),
        measure: |root| Ok(overhead(root)?.wall),
    },
    Promise {
        name: "processor time of pinfold beside an insensitive program, of the program's",
        unit: "%",
        bound: Bound::AtMost(0.5),
        measure: deciding,
    },
    Promise {
        name: "requests of a Redis server, with/without",
        unit: "ratio",
        bound: Bound::AtLeast(0.97),
        measure: servers::redis,
    },
    Promise {
        name: "transactions of a PostgreSQL server, with/without",
        unit: "ratio",
        bound: Bound::AtLeast(0.97),
        measure: servers::postgres,
    },
    Promise {
        name: "iterations of an OpenMP solver, with/without",
        unit: "ratio",
        bound: Bound::AtLeast(0.97),
        measure: servers::solver,
    },
    Promise {
        name: "start-up added to /bin/true",
        unit: "ms",
        bound: Bound::AtMost(20.0),
        measure: start_up,
    },
    Promise {
        name: "whole runs: the database at the start and the end of a run",
        unit: "ms",
        bound: Bound::AtMost(20.0),
        measure: whole_runs::database,
    },
    Promise {
        name: "creating 10,000 threads, with/without",
        unit: "ratio",
        bound: Bound::AtMost(3.0),
        measure: births::of_living_threads,
    },
    Promise {
        name: "creating 5,000 short threads, with/without",
        unit: "ratio",
        bound: Bound::AtMost(3.0),
        measure: births::of_short_threads,
    },
    Promise {
        name: "reading all metrics of a task",
        unit: "us",
        bound: Bound::AtMost(5.0),
        measure: |_| reading(),
    },
    Promise {
        name: "reading them with the bytes that it reads and writes, over without",
        unit: "ratio",
        bound: Bound::AtMost(2.0),
        measure: |_| reading_bytes(),
    },
    Promise {
        name: "one counted call of a function that pinfold has found",
        unit: "us",
        bound: Bound::AtMost(5.0),
        measure: |_| functions::counted_call(),
    },
    Promise {
        name: "reading one task's group of four software events",
        unit: "us",
        bound: Bound::AtMost(8.89),
        measure: |_| daemon::reading_a_group(),
    },
    Promise {
        name: "the daemon watching 40 busy tasks every 100 ms, of one core",
        unit: "%",
        bound: Bound::AtMost(1.0),
        measure: daemon::watching,
    },
    Promise {
        name: "a program begun by a task that the daemon has pinned, over not watched",
        unit: "x",
        bound: Bound::None,
        measure: forks::of_a_pinned_task,
    },
    Promise {
        name: "counting the 38,580,711 placements of 64 threads, command",
        unit: "ms",
        bound: Bound::AtMost(100.0),
        measure: counting,
    },
    Promise {
        name: "the placement of an affinity hint, 96 threads on two EPYC 9654, the slowest of eight",
        unit: "ms",
        bound: Bound::AtMost(1.0),
        measure: hint,
    },
    Promise {
        name: "one decision of SAM's mapper, 40 CPUs all busy",
        unit: "us",
        bound: Bound::AtMost(10.0),
        measure: |_| mapping::decision(40, Load::Settled),
    },
    Promise {
        name: "one decision of SAM's mapper that migrates, 40 CPUs all busy",
        unit: "us",
        bound: Bound::AtMost(10.0),
        measure: |_| mapping::decision(40, Load::Moving),
    },
    Promise {
        name: "one decision of SAM's mapper, 512 CPUs all busy",
        unit: "us",
        bound: Bound::AtMost(200.0),
        measure: |_| mapping::decision(512, Load::Settled),
    },
    Promise {
        name: "one decision of SAM's mapper that migrates, 512 CPUs all busy",
        unit: "us",
        bound: Bound::AtMost(200.0),
        measure: |_| mapping::decision(512, Load::Moving),
    },
    Promise {
        name: "growth of a decision from 128 to 512 CPUs, over linear",
        unit: "ratio",
        bound: Bound::AtMost(1.5),
        measure: |_| mapping::growth(Load::Settled),
    },
    Promise {
        name: "growth of a decision that migrates from 128 to 512 CPUs, over linear",
        unit: "ratio",
        bound: Bound::AtMost(1.5),
        measure: |_| mapping::growth(Load::Moving),
    },
    Promise {
        name: "recording a two-thread streaming loop, with/without",
        unit: "ratio",
        bound: Bound::AtMost(60.0),
        measure: |root| slow_down(root, STREAMING, (200, 12), RECORDER),
    },
    Promise {
        name: "that loop, with arrays that a last-level cache holds",
        unit: "ratio",
        bound: Bound::None,
        measure: |root| slow_down(root, "12M", (2000, 50), RECORDER),
    },
    Promise {
        name: "processors idle while 80 placements of 8 threads are swept",
        unit: "%",
        bound: Bound::AtMost(10.0),
        measure: sweeps::idle,
    },
    Promise {
        name: "processor time of a sweep in five shards that are merged, over one run's",
        unit: "ratio",
        bound: Bound::AtMost(1.15),
        measure: sweeps::in_shards,
    },
    Promise {
        name: "time around the runs of a measured sweep, over the program's five seconds",
        unit: "%",
        bound: Bound::AtMost(1.0),
        measure: sweeps::around_runs,
    },
    Promise {
        name: "for comparison: such a loop under valgrind's lackey, in a last-level cache",
        unit: "ratio",
        bound: Bound::None,
        measure: |root| slow_down(root, "384K", (20_000, 4), LACKEY),
    },
    Promise {
        name: "a forecast of a placement model, each configuration",
        unit: "us",
        bound: Bound::AtMost(5.0),
        measure: forecast::of_a_configuration,
    },
    Promise {
        name: "a decision of a belief, 1,000 configurations, after 20 trials",
        unit: "ms",
        bound: Bound::AtMost(1.0),
        measure: |_| belief::of_a_decision(),
    },
    Promise {
        name: "pairs of features a second, all scores, over scikit-learn's",
        unit: "ratio",
        bound: Bound::AtLeast(150.0),
        measure: pairs::scores,
    },
    Promise {
        name: "pairs of features a second, the exact best one, over scikit-learn's",
        unit: "ratio",
        bound: Bound::AtLeast(250.0),
        measure: pairs::best,
    },
    Promise {
        name: "a region change under --policy react, over the program alone",
        unit: "us",
        bound: Bound::AtMost(10.0),
        measure: regions::change,
    },
    Promise {
        name: "a region change where the thread changes its CPU, too",
        unit: "us",
        bound: Bound::None,
        measure: regions::change_with_a_move,
    },
    Promise {
        name: "a counted call of MPI, over the call alone",
        unit: "ns",
        bound: Bound::AtMost(25.0),
        measure: mpi::counted_call,
    },
    Promise {
        name: "accesses a second from which exchanges between threads are found",
        unit: "M/s",
        bound: Bound::AtLeast(20.0),
        measure: simulation::interactions,
    },
    Promise {
        name: "simulated accesses a second, 8 threads on 48 cores, 8 workloads together",
        unit: "M/s",
        bound: Bound::AtLeast(20.0),
        measure: |root| Ok(simulation::speed_on_opterons(root)?.together),
    },
    Promise {
        name: "the slowest of these workloads",
        unit: "M/s",
        bound: Bound::None,
        measure: |root| Ok(simulation::speed_on_opterons(root)?.slowest),
    },
    Promise {
        name: "these workloads, 8 threads on 8 cores",
        unit: "M/s",
        bound: Bound::None,
        measure: |root| Ok(simulation::speed(root, "clovertown")?.together),
    },
    Promise {
        name: "these workloads, 8 threads on 192 cores",
        unit: "M/s",
        bound: Bound::None,
        measure: |root| Ok(simulation::speed(root, "epyc-9654x2")?.together),
    },
    Promise {
        name: "streaming, 8 threads on 192 cores",
        unit: "M/s",
        bound: Bound::None,
        measure: |root| simulation::speed_of_threads(root, "epyc-9654x2", 8),
    },
    Promise {
        name: "streaming, 48 threads on 192 cores",
        unit: "M/s",
        bound: Bound::None,
        measure: |root| simulation::speed_of_threads(root, "epyc-9654x2", 48),
    },
    Promise {
        name: "streaming, 192 threads on 192 cores",
        unit: "M/s",
        bound: Bound::None,
        measure: |root| simulation::speed_of_threads(root, "epyc-9654x2", 192),
    },
    Promise {
        name: "memory while 48 threads are simulated on 48 cores",
        unit: "MB",
        bound: Bound::AtMost(1000.0),
        measure: simulation::memory,
    },
    Promise {
        name: "pages a second moved, over those of one migrate_pages call, in the guest",
        unit: "ratio",
        bound: Bound::AtLeast(0.9),
        measure: guest::migration,
    },
    Promise {
        name: "a streaming program sampled every 10 ms, with/without, small pages, in the guest",
        unit: "ratio",
        bound: Bound::None,
        measure: |root| guest::sampling(root, "small", 10),
    },
    Promise {
        name: "a streaming program sampled every 30 ms, with/without, small pages, in the guest",
        unit: "ratio",
        bound: Bound::None,
        measure: |root| guest::sampling(root, "small", 30),
    },
    Promise {
        name: "a streaming program sampled every 100 ms, with/without, small pages, in the guest",
        unit: "ratio",
        bound: Bound::None,
        measure: |root| guest::sampling(root, "small", 100),
    },
    Promise {
        name: "a streaming program sampled every 300 ms, with/without, small pages, in the guest",
        unit: "ratio",
        bound: Bound::None,
        measure: |root| guest::sampling(root, "small", 300),
    },
    Promise {
        name: "a streaming program sampled every 1000 ms, with/without, small pages, in the guest",
        unit: "ratio",
        bound: Bound::None,
        measure: |root| guest::sampling(root, "small", 1000),
    },
    Promise {
        name: "a streaming program sampled every 10 ms, with/without, huge pages, in the guest",
        unit: "ratio",
        bound: Bound::None,
        measure: |root| guest::sampling(root, "huge", 10),
    },
    Promise {
        name: "a streaming program sampled every 30 ms, with/without, huge pages, in the guest",
        unit: "ratio",
        bound: Bound::None,
        measure: |root| guest::sampling(root, "huge", 30),
    },
    Promise {
        name: "a streaming program sampled every 100 ms, with/without, huge pages, in the guest",
        unit: "ratio",
        bound: Bound::None,
        measure: |root| guest::sampling(root, "huge", 100),
    },
    Promise {
        name: "a streaming program sampled every 300 ms, with/without, huge pages, in the guest",
        unit: "ratio",
        bound: Bound::None,
        measure: |root| guest::sampling(root, "huge", 300),
    },
    Promise {
        name: "a streaming program sampled every 1000 ms, with/without, huge pages, in the guest",
        unit: "ratio",
        bound: Bound::None,
        measure: |root| guest::sampling(root, "huge", 1000),
    },
];

/// The usual recorder of accesses without pinfold. It is so slow that its loop is small.
const LACKEY: &[&str] = &["valgrind", "--tool=lackey", "--trace-mem=yes", "--log-file=/dev/null"];

/// The times of a two-thread program under `pinfold run`, relative to those alone.
struct Overhead {
    processor: f64,
    wall: f64,
}

/// The same two-thread program alone and under `pinfold run`, which reads its metric every 100 ms. The two take turns,
/// and the least time of each is compared: other programs on the machine only add time. Measured once.
fn overhead(root: &Path) -> Result<&'static Overhead> {
    const TURNS: usize = 50;
    static MEASURED: OnceLock<Overhead> = OnceLock::new();
    if let Some(measured) = MEASURED.get() {
        return Ok(measured);
    }
    let program = ["target/workloads/compute", "--threads", "2", "--iterations", "80"];
    let mut placed = vec![
        PINFOLD,
        "run",
        "-qq",
        "--interval",
        "100ms",
        "--initialise",
        "200ms",
        "--",
    ];
    placed.extend(program);
    let least = |least: Overhead, words: &[&str]| -> Result<Overhead> {
        let times = time(root, words)?;
        Ok(Overhead {
            processor: least.processor.min(times.processor.as_secs_f64()),
            wall: least.wall.min(times.work()?),
        })
    };
    let endless = || Overhead {
        processor: f64::INFINITY,
        wall: f64::INFINITY,
    };
    let (mut alone, mut under) = (endless(), endless());
    for _ in 0..TURNS {
        alone = least(alone, &program)?;
        under = least(under, &placed)?;
    }
    Ok(MEASURED.get_or_init(|| Overhead {
        processor: under.processor / alone.processor,
        wall: under.wall / alone.wall,
    }))
}

/// The processor time that pinfold needs to find that placement does not matter to a program, and to watch it: in percent of
/// that of the program, whose two threads compute for 20 s.
fn deciding(root: &Path) -> Result<f64> {
    #[derive(Deserialize)]
    struct Document {
        own_cpu_time: f64,
    }
    let folder = tempfile::tempdir()?;
    let record = folder.path().join("run.json");
    let json = record.to_str().context("the temporary folder has no name in UTF-8")?;
    let program = ["target/workloads/compute", "--threads", "2", "--seconds", "20"];
    let times = time(
        root,
        &[
            &[PINFOLD, "run", "--policy", "auto", "-qq", "--json", json, "--"],
            &program[..],
        ]
        .concat(),
    )?;
    let document: Document = serde_json::from_slice(&fs::read(&record)?)?;
    let of_program = times.processor.as_secs_f64() - document.own_cpu_time;
    Ok(document.own_cpu_time / of_program * 1e2)
}

const RECORDER: &[&str] = &[PINFOLD, "record", "-o", "target/bench.pft", "--"];

/// Arrays that no cache holds, so that the loop streams from memory: the workload's default size.
const STREAMING: &str = "192M";

/// The time of an iteration of a streaming loop of two threads, recorded by `recorder`, relative to that without. The
/// times of two runs of different lengths are subtracted, so that start-up and initialisation do not count. The longer
/// run has `more` iterations, without and with the recorder.
fn slow_down(root: &Path, size: &str, more: (u32, u32), recorder: &[&str]) -> Result<f64> {
    const PAIRS: usize = 3;
    let wall = |recorder: &[&str], iterations: u32| -> Result<f64> {
        let iterations = iterations.to_string();
        let program = ["target/workloads/stream", "--threads", "2", "--size", size];
        let command = [recorder, &program, &["--iterations", &iterations]].concat();
        Ok(time(root, &command)?.wall.as_secs_f64())
    };
    let mut ratios = vec![];
    for _ in 0..PAIRS {
        let alone = (wall(&[], 1 + more.0)? - wall(&[], 1)?) / f64::from(more.0);
        let under = (wall(recorder, 1 + more.1)? - wall(recorder, 1)?) / f64::from(more.1);
        ratios.push(under / alone);
    }
    Ok(median(ratios))
}

/// The wall time that `pinfold run` adds to a program that does nothing, in milliseconds.
fn start_up(root: &Path) -> Result<f64> {
    let mut added = vec![];
    for _ in 0..21 {
        let alone = time(root, &["/bin/true"])?;
        let under = time(root, &[PINFOLD, "run", "--policy", "auto", "-qq", "--", "/bin/true"])?;
        added.push((under.wall.as_secs_f64() - alone.wall.as_secs_f64()) * 1e3);
    }
    Ok(median(added))
}

/// The time of one `Machine::observe` of a running program, divided by its tasks, in microseconds: processor time, four
/// kernel events, and the channel.
fn reading() -> Result<f64> {
    const READINGS: u32 = 200;
    let mut machine = asleep(false)?;
    let batches = (0..50).map(|_| {
        let start = Instant::now();
        for _ in 0..READINGS {
            std::hint::black_box(machine.observe());
        }
        start.elapsed().as_secs_f64() / f64::from(READINGS) * 1e6
    });
    Ok(median(batches.collect()))
}

/// The time of such a reading with the bytes that the task reads and writes, over one without. Readings come at the
/// interval of a run, so that none of them rests. The first reading after a sleep finds cold caches, so both take turns
/// in coming first, and only the second one counts.
fn reading_bytes() -> Result<f64> {
    let mut machines = [asleep(true)?, asleep(false)?];
    let mut times = [vec![], vec![]];
    for turn in 0..60 {
        thread::sleep(Duration::from_millis(50));
        let second = turn % 2;
        machines[1 - second].observe();
        let start = Instant::now();
        std::hint::black_box(machines[second].observe());
        times[second].push(start.elapsed().as_secs_f64());
    }
    let [with, without] = times.map(median);
    Ok(with / without)
}

/// A program of one task, which sleeps. With `io` its bytes are counted, too.
fn asleep(io: bool) -> Result<LinuxMachine> {
    let events = ["task-clock", "page-faults", "context-switches", "cpu-migrations"];
    let requests: Vec<Request> = events.iter().map(|&name| Request::Event(name.to_owned())).collect();
    let mut machine = LinuxMachine::launch(Launch {
        command: vec!["sleep".into(), "60".into()],
        waiting: None,
        preferring: None,
        claims: None,
        environment: vec![],
        preload: None,
        removed_environment: vec![],
        topology: topology::read(&Source::Live)?,
        chosen: None,
        within: None,
        initial: None,
        grace: Duration::ZERO,
        skipped: BTreeSet::new(),
        outlive: false,
        keep_pinned: false,
        journal: None,
        journals: None,
        counted: Counted {
            plan: Some(Plan::new(&requests)?),
            channel: Some(Channel::create()?),
            io,
        },
        regions: None,
        pages: PageOptions::default(),
    })?;
    let sample = machine.observe();
    ensure!(
        sample.tasks.len() == 1
            && sample.tasks[0].counts.iter().filter(|count| count.is_some()).count() == events.len()
            && sample.program.iter().any(Option::is_some) == io,
        "the task's metrics cannot all be read here: {sample:?}"
    );
    Ok(machine)
}

/// Milliseconds until the slowest affinity hint has its placement; the median of several turns for each hint.
fn hint(_root: &Path) -> Result<f64> {
    const TURNS: usize = 21;
    let model = builtin("epyc-9654x2").context("there is no such model")?;
    let topology = model.topology();
    let mut slowest = 0.0;
    for hint in AffinityHint::ALL {
        let mut times = vec![];
        for _ in 0..TURNS {
            let begin = Instant::now();
            let pinning = hint.pinning(&topology, 96)?;
            times.push(begin.elapsed().as_secs_f64() * 1e3);
            std::hint::black_box(pinning);
        }
        slowest = f64::max(slowest, median(times));
    }
    Ok(slowest)
}

/// Two packages of twelve last-level caches of eight cores, 64 threads, the whole command, in milliseconds.
fn counting(root: &Path) -> Result<f64> {
    let machine = "synthetic:package:2 l3:12 core:8 pu:1";
    let command = [
        PINFOLD,
        "placements",
        "--machine",
        machine,
        "--threads",
        "64",
        "--count",
    ];
    let walls = (0..11).map(|_| Ok(time(root, &command)?.wall.as_secs_f64() * 1e3));
    Ok(median(
        walls.collect::<Result<Vec<f64>>>().context("counting placements")?,
    ))
}
