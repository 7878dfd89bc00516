//! The cost of a region change: a program whose two parallel regions alternate, with the agent, where both regions have
//! a configuration, over the same program without the agent.

use crate::measure::{Missing, median};
use anyhow::{Context, Result, ensure};
use pinfold_core::{Configuration, Pinning, PuId, RegionConfiguration, RegionId};
use pinfold_linux::affinity::CpuMask;
use pinfold_linux::regions::RegionTable;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

const AGENT: &str = "target/agent/libpinfold_agent.so";

/// It prints the nanoseconds of a region, once before a line on its standard input and once after it.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <time.h>
static volatile int done;
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e9 + t.tv_nsec; }
static double turns(int number)
{
    double begin = now();
    for (int i = 0; i < number; i++) {
#pragma omp parallel num_threads(1)
        done = 1;
#pragma omp parallel num_threads(1)
        done = 2;
    }
    return (now() - begin) / (2.0 * number);
}
int main(void)
{
    turns(100);
    printf("%f\n", turns(20000));
    fflush(stdout);
    getchar();
    turns(100);
    printf("%f\n", turns(20000));
    return 0;
}
"#;

/// Microseconds that a region with a configuration takes longer than without the agent, where the thread stays on its PU.
pub(crate) fn change(root: &Path) -> Result<f64> {
    cost(root, |pus| [pus[0], pus[0]])
}

/// The same where the thread goes to another PU at each border.
pub(crate) fn change_with_a_move(root: &Path) -> Result<f64> {
    cost(root, |pus| [pus[0], pus[pus.len() - 1]])
}

/// The median of several turns. `places` are the PUs of the two regions, of those that may be used.
fn cost(root: &Path, places: fn(&[PuId]) -> [PuId; 2]) -> Result<f64> {
    let directory = tempfile::tempdir()?;
    let source = directory.path().join("regions.c");
    let program = directory.path().join("regions");
    std::fs::write(&source, PROGRAM)?;
    let compiled = Command::new("cc")
        .args(["-O2", "-fopenmp", "-o"])
        .arg(&program)
        .arg(&source)
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        return Err(Missing("cc cannot compile OpenMP here".to_owned()).into());
    }
    let pus: Vec<PuId> = CpuMask::read(0)?.pus().collect();
    let turns = (0..5).map(|_| Ok((placed(root, &program, places(&pus))? - alone(&program)?) / 1e3));
    Ok(median(turns.collect::<Result<Vec<f64>>>()?))
}

/// A running program, and the lines that it prints.
struct Started {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Started {
    fn new(command: &mut Command) -> Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().context("no output")?;
        Ok(Self {
            child,
            lines: BufReader::new(output).lines(),
        })
    }

    /// The nanoseconds of a region.
    fn nanoseconds(&mut self) -> Result<f64> {
        Ok(self.lines.next().context("the program says nothing")??.parse()?)
    }

    /// Lets the program go on to its end; the nanoseconds of a region then.
    fn go_on(mut self) -> Result<f64> {
        self.child.stdin.take().context("no input")?.write_all(b"\n")?;
        let nanoseconds = self.nanoseconds()?;
        ensure!(self.child.wait()?.success(), "the program failed");
        Ok(nanoseconds)
    }
}

/// The nanoseconds of a region of the program alone.
fn alone(program: &Path) -> Result<f64> {
    let mut started = Started::new(&mut Command::new(program))?;
    started.nanoseconds()?;
    started.go_on()
}

/// The nanoseconds of a region where each of the two has a PU.
fn placed(root: &Path, program: &Path, places: [PuId; 2]) -> Result<f64> {
    let mut table = RegionTable::create(false)?;
    let (name, value) = table.environment();
    let mut started = Started::new(
        Command::new(program)
            .env(name, value)
            .env("LD_PRELOAD", root.join(AGENT)),
    )?;
    started.nanoseconds()?;
    let samples = table.samples();
    ensure!(
        samples.len() == 2,
        "the agent in {AGENT} sees {} regions",
        samples.len()
    );
    let place = |(region, pu): (RegionId, PuId)| {
        let configuration = RegionConfiguration {
            pinning: Pinning::new(vec![pu]),
            threads: Some(1),
            prefetchers: None,
        };
        (region, configuration)
    };
    table.plan(&Configuration {
        regions: samples.iter().map(|sample| sample.id).zip(places).map(place).collect(),
        ..Configuration::default()
    });
    started.go_on()
}
