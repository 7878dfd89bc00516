//! What a run costs whose wall time is the measurement: the database at its start and at its end.

use crate::measure::median;
use anyhow::{Context, Result};
use pinfold_core::{PuId, TopologyBuilder};
use pinfold_policy::whole_runs::How;
use pinfold_store::{BegunRun, EndedRun, MachineKey, Opened, ProgramKey};
use std::path::Path;
use std::time::Instant;

/// The programs in the database, and the runs of each: a user's builds and jobs of some months.
const PROGRAMS: u32 = 50;
const RUNS: u32 = 100;
const REPEATED: usize = 21;

/// The milliseconds to open the database, read the history, note the start of a run and keep its end.
pub(crate) fn database(_root: &Path) -> Result<f64> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("behaviour.db");
    let machine = machine()?;
    let key = |program: u32| ProgramKey {
        identity: format!("build-id:{program}"),
        name: "make".to_owned(),
        shape: "-j8".to_owned(),
        machine: machine.clone(),
    };
    let mut now = 0.0;
    let mut one_run = |store: &mut pinfold_store::Store, program: u32| -> Result<()> {
        store.history(&key(program), CONTEXT)?.plan(&[]);
        let begun = BegunRun {
            began: now,
            area: None,
            pus: String::new(),
            process: "1 1".to_owned(),
        };
        now += 10.0;
        let run = store.begin_run(&key(program), CONTEXT, &begun, |_| true)?;
        let ended = EndedRun {
            wall: 1.0 + 0.01 * (now * 0.7).sin(),
            cpu: 2.0,
            how: Some(How::Whole),
        };
        store.end_run(&key(program), run, ended, &[], |_| true)?;
        Ok(())
    };
    let mut store = Opened::new(&file)?.store;
    for program in 0..PROGRAMS {
        for _ in 0..RUNS {
            one_run(&mut store, program)?;
        }
    }
    drop(store);
    let mut times = vec![];
    for _ in 0..REPEATED {
        let start = Instant::now();
        let mut store = Opened::new(&file)?.store;
        one_run(&mut store, 0)?;
        drop(store);
        times.push(1e3 * start.elapsed().as_secs_f64());
    }
    Ok(median(times))
}

const CONTEXT: &str = "/home/a/project MAKEFLAGS=-j8 CPUs 0-7";

fn machine() -> Result<MachineKey> {
    let mut builder = TopologyBuilder::new("a machine");
    let root = builder.root();
    builder.pu(root, PuId(0));
    let topology = builder.build_all().context("a machine with one PU")?;
    Ok(MachineKey::new(&topology, None))
}
