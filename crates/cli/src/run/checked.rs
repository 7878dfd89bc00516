//! Command lines of `pinfold run` that another command makes and runs later: `pinfold compare` checks all of them
//! before the first run.

use super::place::Where;
use super::plan::Plan;
use super::policies::Program;
use super::{Arguments, simulated, table};
use crate::machine::{Selected, topology_here};
use crate::program::executable;
use crate::table::MeasuredTable;
use anyhow::{Result, anyhow, bail};
use clap::{Args, Command, FromArgMatches};
use pinfold_core::Topology;
use pinfold_sim::model::Model;
use std::ffi::OsString;

/// The definition of the command line, without the command's name.
pub(crate) fn definition() -> Command {
    let command = Command::new("pinfold run").no_binary_name(true);
    crate::options_take_negative_numbers(Arguments::augment_args(command))
}

/// The machine of a command line.
enum MachinePlace {
    Here(Box<Topology>),
    Model(Box<Model>),
    Table(Box<MeasuredTable>),
}

impl MachinePlace {
    fn of(arguments: &Arguments) -> Result<Self> {
        Ok(match arguments.machine.selected()? {
            Selected::Here => Self::Here(Box::new(topology_here(true)?)),
            Selected::Table(file) => Self::Table(Box::new(file.read()?)),
            selected => Self::Model(Box::new(selected.model()?)),
        })
    }

    fn place(&self) -> Where<'_> {
        match self {
            Self::Here(_) => Where::Here,
            Self::Model(model) => Where::Simulated(model),
            Self::Table(table) => Where::Table(table),
        }
    }

    fn topology(&self) -> Topology {
        match self {
            Self::Here(topology) => topology.as_ref().clone(),
            Self::Model(model) => model.topology(),
            Self::Table(table) => table.topology.clone(),
        }
    }
}

/// Makes all checks of the words after `pinfold run` that need neither the program nor its recording.
pub(crate) fn check(words: &[OsString]) -> Result<()> {
    let arguments = parsed(words)?;
    refuse_what_runs_nothing_or_stays(&arguments)?;
    let machine = MachinePlace::of(&arguments)?;
    let place = machine.place();
    let mut plan = Plan::new(&arguments, machine.topology(), &place)?;
    if let Where::Table(table) = place {
        return table::check(&arguments, table);
    }
    table::refuse(&arguments)?;
    if let Where::Here = place {
        simulated::refuse(&arguments, &place)?;
        executable(arguments.command.first().map_or("".as_ref(), OsString::as_os_str))?;
        plan.build(&arguments, &Program::Command(&arguments.command))?;
    }
    Ok(())
}

/// Whether the policy of these words can decide something here. An error names the missing part.
pub(crate) fn ready(words: &[OsString]) -> Result<()> {
    let arguments = parsed(words)?;
    let machine = MachinePlace::of(&arguments)?;
    arguments.policies.chosen()?.ready(&arguments, &machine.place())
}

fn parsed(words: &[OsString]) -> Result<Arguments> {
    let matches = definition().try_get_matches_from(words);
    let arguments = matches.and_then(|matches| Arguments::from_arg_matches(&matches));
    arguments.map_err(|error| {
        let text = error.to_string();
        // The usage and the advice after it belong to another command.
        let first = text.lines().take_while(|line| !line.trim().is_empty());
        let first: Vec<&str> = first.map(str::trim).collect();
        anyhow!("{}", first.join(" ").trim_start_matches("error: ").to_owned())
    })
}

fn refuse_what_runs_nothing_or_stays(arguments: &Arguments) -> Result<()> {
    let given = [
        (arguments.search.list_events, "-L"),
        (arguments.changes.dry_run, "--dry-run"),
        (arguments.changes.outlive, "--outlive"),
        (arguments.changes.keep_pinned, "--keep-pinned"),
    ];
    match given.iter().find(|(given, _)| *given) {
        Some((_, option)) => bail!("{option} is for a single run, and cannot be compared; leave it out"),
        None => Ok(()),
    }
}
