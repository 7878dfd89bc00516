//! `pinfold run --machine data:FILE.parquet`: a program whose times were measured before, replayed.

use super::place::Where;
use super::plan::Plan;
use super::policies::{Program, Regions};
use super::{About, Outputs, Played, drive_about, duration, refuse_what_needs_a_program, simulated};
use crate::table::{MeasuredTable, TableFile};
use anyhow::{Context, Result, bail};
use clap::Args;
use pinfold_core::Topology;
use pinfold_runtime::Replay;
use pinfold_sim::Repeat;
use pinfold_sim::table::{GivenCosts, TableMachine, TableProgram, TableSettings};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

/// The options of a run on a table of measurements.
#[derive(Args)]
#[group(skip)]
pub(super) struct Arguments {
    /// On a table: the program, by its name or by its whole command [default: the only one].
    #[arg(long, value_name = "PROGRAM")]
    program: Option<String>,

    /// On a table: this parallel region alone [default: all regions of the program in turn].
    #[arg(long, value_name = "REGION")]
    region: Option<String>,

    /// On a table: how long an execution of a region takes in the unpinned program, on average over its regions. All
    /// other times are relative to that [default: the table's seconds; 500ms if its times have no unit].
    #[arg(long, value_parser = duration::parse_probe, value_name = "TIME")]
    unit: Option<Duration>,

    /// On a table: how long the program stands still when its threads move, and when its pages move; one time holds for
    /// both [default: 1ms for threads; for pages the program's memory at 1 GB/s, or 100ms if the table lacks that].
    #[arg(long, value_name = "TIME[,TIME]")]
    move_cost: Option<MoveCost>,
}

/// The value of `--move-cost`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MoveCost {
    threads: Duration,
    pages: Duration,
}

impl FromStr for MoveCost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (threads, pages) = text.split_once(',').unwrap_or((text, text));
        Ok(Self {
            threads: duration::parse(threads)?,
            pages: duration::parse(pages)?,
        })
    }
}

/// Refuses the options of tables on other machines.
pub(super) fn refuse(arguments: &super::Arguments) -> Result<()> {
    let table = &arguments.table;
    let given = [
        (table.program.is_some(), "--program"),
        (table.region.is_some(), "--region"),
        (table.unit.is_some(), "--unit"),
        (table.move_cost.is_some(), "--move-cost"),
    ];
    match given.iter().find(|(given, _)| *given) {
        Some((_, option)) => bail!(
            "{option} is about a table of measurements; name one with --machine data:FILE.parquet, or leave {option} out"
        ),
        None => Ok(()),
    }
}

pub(super) fn run(arguments: &super::Arguments, file: &TableFile) -> Result<ExitCode> {
    refuse_what_needs_a_program(arguments, "the table", "a table of measurements")?;
    simulated::refuse_recordings(arguments)?;
    let table = file.read()?;
    let program = program(arguments, &table)?;
    let mut plan = Plan::new(arguments, table.topology.clone(), &Where::Table(&table))?;
    let command = vec![program.command().to_owned()];
    let built = plan.build(arguments, &Program::File(&table.file, &command))?;
    if built.regions == Regions::Needed && program.regions().next().is_none() {
        bail!(
            "the table has no parallel regions of `{}`, only times of the whole program, so there is nothing that --policy react \
             could configure",
            program.command()
        );
    }
    let repetitions = arguments.simulated.repeat.unwrap_or_default();
    let (repeat, ending) = repetitions.repeat();
    let mut machine = machine(arguments, &table, program, plan.topology.clone(), repeat)?;
    let outputs = Outputs::open(arguments)?;
    let mut about = About {
        command,
        attached: None,
        with: None,
        events: Some(vec![]),
        ending,
        recording: None,
        played: |machine: &TableMachine| Played {
            simulation: None,
            replay: Some(Replay {
                table: table.file.clone(),
                machine: table.machine.clone(),
                region: arguments.table.region.clone(),
                repeat: repetitions.to_string(),
                seed: arguments.simulated.seed.unwrap_or(0),
                noise: arguments.simulated.noise,
                replayed: machine.replayed(),
            }),
        },
    };
    drive_about(arguments, &plan, &mut machine, outputs, built, &mut about)
}

/// Checks what a run on the table needs of it.
pub(super) fn check(arguments: &super::Arguments, table: &MeasuredTable) -> Result<()> {
    simulated::refuse_recordings(arguments)?;
    let (repeat, _) = simulated::Repetitions::default().repeat();
    let program = program(arguments, table)?;
    machine(arguments, table, program, table.topology.clone(), repeat).map(drop)
}

/// The program of the command line.
fn program(arguments: &super::Arguments, table: &MeasuredTable) -> Result<TableProgram> {
    let Arguments { program, region, .. } = &arguments.table;
    TableProgram::new(&table.rows, &table.topology, program.as_deref(), region.as_deref())
        .with_context(|| format!("`{}`", table.file.display()))
}

fn machine(
    arguments: &super::Arguments,
    table: &MeasuredTable,
    program: TableProgram,
    topology: Topology,
    repeat: Repeat,
) -> Result<TableMachine> {
    let cost = arguments.table.move_cost;
    let settings = TableSettings {
        repeat,
        seed: arguments.simulated.seed.unwrap_or(0),
        noise: arguments.simulated.noise,
        in_seconds: table.in_seconds,
        execution: arguments.table.unit,
        moves: GivenCosts {
            threads: cost.map(|cost| cost.threads),
            pages: cost.map(|cost| cost.pages),
        },
        threads: arguments.search.threads,
    };
    TableMachine::new(program, topology, settings).with_context(|| format!("`{}`", table.file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_time_is_the_cost_of_both_kinds_of_moves() {
        let cost = |text: &str| text.parse::<MoveCost>().map(|cost| (cost.threads, cost.pages));
        let ms = Duration::from_millis;
        assert_eq!(cost("2ms"), Ok((ms(2), ms(2))));
        assert_eq!(cost("2ms,3s"), Ok((ms(2), ms(3000))));
        assert!(cost("2ms,soon").is_err());
    }
}
