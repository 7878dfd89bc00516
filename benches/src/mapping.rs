//! The cost of one decision of SAM's mapper, on machines with a busy task on every CPU. The best of several turns
//! counts, because other programs on the host can only make them slower.

use anyhow::Result;
use pinfold_core::{PuSet, TaskId, Topology};
use pinfold_linux::topology::{self, Source};
use pinfold_policy::sam::{FairMapper, MapperOptions, TaskRates, Thresholds};
use std::hint;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The number of decisions in a turn, and of turns.
const DECISIONS: u32 = 200;
const TURNS: usize = 20;

/// The tasks on the CPUs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    /// Tasks of all kinds, whose rates show that each is in its place.
    Settled,
    /// Tasks of two programs. All of them share data, and each program is spread over all packages, so decisions move
    /// many tasks.
    Moving,
}

/// Microseconds of a decision with this number of CPUs: 40 are the paper's machine, others are packages of 64.
pub(crate) fn decision(cpus: u32, load: Load) -> Result<f64> {
    let machine = if cpus == 40 {
        "pack:2 [numa] l3:1 core:10 pu:2".to_owned()
    } else {
        format!("pack:{} [numa] l3:1 core:32 pu:2", cpus / 64)
    };
    let topology = topology::read(&Source::Synthetic(machine))?;
    let tasks = tasks(&topology, load);
    // With the paper's rules alone, the mapper moves the same tasks again if they are not where it moved them. This is
    // the worst case, and the only one that can be measured many times. The extensions beyond the paper are on where
    // nothing moves, as is the measurement of each process's progress.
    let options = match load {
        Load::Settled => MapperOptions::default(),
        Load::Moving => MapperOptions {
            learn_groups: true,
            ..MapperOptions::PAPER
        },
    };
    let mut mapper = FairMapper::new(&topology, Thresholds::paper(), options, Duration::from_millis(100));
    let mut best = f64::INFINITY;
    for _ in 0..TURNS {
        let began = Instant::now();
        for _ in 0..DECISIONS {
            hint::black_box(mapper.decide(hint::black_box(&tasks)));
        }
        best = best.min(began.elapsed().as_secs_f64() * 1e6 / f64::from(DECISIONS));
    }
    let moves = mapper.decide(&tasks).len();
    anyhow::ensure!(
        (moves > 0) == (load == Load::Moving),
        "{moves} moves: these are not the decisions of this measurement"
    );
    Ok(best)
}

/// The growth of a decision's time from 128 to 512 CPUs, relative to linear growth.
pub(crate) fn growth(load: Load) -> Result<f64> {
    Ok(decision(512, load)? / decision(128, load)? / 4.0)
}

/// A task on every CPU.
fn tasks(topology: &Topology, load: Load) -> Vec<TaskRates> {
    let allowed: Arc<PuSet> = Arc::new(topology.allowed_pus().clone());
    let tasks = allowed.iter().enumerate().map(|(number, pu)| {
        let kind = number % 4;
        TaskRates {
            id: TaskId {
                serial: number as u64,
                process: 1 + i32::from(number % 2 == 0),
                thread: 10 + i32::try_from(number).unwrap_or(0),
            },
            pu,
            allowed: Arc::clone(&allowed),
            busy: 1.0,
            inter: Some(if load == Load::Moving { 1.3e-3 } else { 0.0 }),
            intra: Some(if kind == 0 { 1e-3 } else { 0.0 }),
            remote: Some(0.0),
            memory: Some(if kind == 1 { 0.005 } else { 0.0 }),
            progress: Some(1.0),
            group: None,
            reads: None,
        }
    });
    tasks.collect()
}
