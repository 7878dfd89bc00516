//! `pinfold run`: place one program.
//!
//! Arguments become a resolved `plan`, the plan a machine and a policy, and the runtime's loop does the rest; `report`
//! tells a person what happened, the runtime's record a machine.

mod binding;
mod dry_run;
pub(crate) mod duration;
mod lines;
pub(crate) mod number;
mod pages;
mod place;
mod plan;
pub(crate) mod policies;
mod progress;
mod report;
mod schedule;
mod simulated;

use crate::console;
use crate::machine::{Selected, read_script, script_topology};
use anyhow::{Context, Result, bail};
use clap::Args;
use lines::Lines;
use pinfold_core::Machine;
use pinfold_linux::machine::LinuxMachine;
use pinfold_linux::output::Output;
use pinfold_runtime::{RecordBuilder, RunDocument, Simulation};
use pinfold_sim::Scripted;
use place::Where;
use plan::{Plan, executable};
use policies::{Built, Program};
use report::Report;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Run a program, try pinnings while it runs, and keep the best.
///
/// Threads get ranks in the order of their creation. Standard output belongs to the program; pinfold writes to
/// standard error. The exit status is the program's, 128+n when signal n killed it, 127 when it was not found, 126
/// when it could not be executed, 125 when pinfold itself failed.
#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct Arguments {
    #[command(flatten)]
    machine: crate::machine::Arguments,

    #[command(flatten)]
    policies: policies::Arguments,

    /// Make candidates for N threads, instead of counting those that work.
    #[arg(long, value_parser = number::parse_threads, value_name = "N")]
    threads: Option<usize>,

    /// What to compare pinnings by: auto, heartbeat, regions, barriers, uprobe:SYMBOL, uprobe:PATH:SYMBOL or
    /// event:NAME (docs/metrics.md). With --policy sam and without hardware counters: which events of the kernel stand
    /// for SAM's activities, such as memory_bandwidth=page-faults, with commas between several.
    #[arg(long, default_value = "auto", value_name = "METRIC", conflicts_with = "event")]
    metric: String,

    /// Compare pinnings by this event, a libpfm4 name; more of them are counted beside the first.
    #[arg(short, long, value_name = "EVENT")]
    event: Vec<String>,

    /// List the events that can be counted, as `pinfold events` does.
    #[arg(short = 'L')]
    list_events: bool,

    /// A candidate: the CPU of each rank in turn, such as 0,1,6,7. Repeat for more; the variable SCHEDULE of autopin
    /// is understood too. Without either, candidates come from the topology.
    #[arg(long, value_name = "LIST")]
    schedule: Vec<String>,

    /// Measure each candidate for this long; after the choice report the rate once in this time.
    #[arg(short = 't', long, default_value = "30s", value_parser = duration::parse_probe, value_name = "TIME")]
    probe: Duration,

    /// Let threads and caches settle for this long after each re-pinning [default: half of --probe].
    #[arg(short, long, value_parser = duration::parse, value_name = "TIME")]
    warm_up: Option<Duration>,

    /// Let the program initialise for this long before the first measurement [default: as --warm-up].
    #[arg(short, long, value_parser = duration::parse, value_name = "TIME")]
    initialise: Option<Duration>,

    /// Read the metric this often; with --policy sam, look at threads and move them this often.
    #[arg(long, default_value = "100ms", value_parser = duration::parse_probe, value_name = "TIME")]
    interval: Duration,

    /// Leave these threads alone: positions in the order of creation, name patterns or both, such as 1,omp-monitor*.
    #[arg(long, value_name = "LIST")]
    skip: Option<String>,

    /// Use only these CPUs, such as 0-3,8.
    #[arg(long, value_name = "LIST")]
    physcpubind: Option<String>,

    /// Use only the CPUs of these NUMA nodes.
    #[arg(long, value_name = "LIST")]
    cpunodebind: Option<String>,

    #[command(flatten)]
    mapping: crate::page_mapping::Arguments,

    #[command(flatten)]
    migration: crate::page_mapping::Migration,

    #[command(flatten)]
    sampling: crate::sampling::Arguments,

    /// What to do where the kernel's automatic NUMA balancing is on.
    #[arg(long, value_enum, default_value_t = pages::BalancingName::Keep, value_name = "WHAT")]
    numa_balancing: pages::BalancingName,

    /// Place threads although variables such as OMP_PROC_BIND tell the program to bind them itself, and move pages
    /// although the program has given them a memory policy.
    #[arg(long = "override")]
    overrides: bool,

    /// If pinfold is killed, let the program run on without pinning; by default it ends with pinfold.
    #[arg(long)]
    outlive: bool,

    /// Keep processes that outlive the program pinned after pinfold ends; by default they get their masks back.
    #[arg(long)]
    keep_pinned: bool,

    /// Print the calls that would be made for the first candidate, and run nothing.
    #[arg(long)]
    dry_run: bool,

    /// Write a record of the run to this file, as JSON (docs/formats.md); `pinfold explain` puts it in words.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write pinfold's lines to the end of this file, and not to standard error. Without this, lines are kept until the end while
    /// the program draws on the whole terminal.
    #[arg(long, value_name = "FILE", conflicts_with = "quiet")]
    log: Option<PathBuf>,

    /// Print nothing but errors.
    #[arg(short, long)]
    quiet: bool,

    #[command(flatten)]
    journals: crate::journals::Arguments,

    #[command(flatten)]
    behaviour: crate::behaviour::Arguments,

    #[command(flatten)]
    simulated: simulated::Arguments,

    /// The program and its arguments.
    #[arg(last = true, required_unless_present_any = ["list_events", "machine", "recordings"], value_name = "CMD")]
    command: Vec<OsString>,
}

impl Arguments {
    /// The first option that was given and that is about moving pages of a program that really runs.
    fn about_real_pages(&self) -> Option<&'static str> {
        let balancing = (self.numa_balancing != pages::BalancingName::Keep).then_some("--numa-balancing");
        self.migration.given().or(self.sampling.given()).or(balancing)
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.list_events {
        return crate::events::run(&crate::events::Arguments::default());
    }
    match arguments.machine.selected()? {
        Selected::Here => run_here(arguments),
        Selected::Scripted(file) => run_scripted(arguments, &file),
        selected @ (Selected::Builtin(_) | Selected::ModelFile(_)) => simulated::run(arguments, selected.model()?),
        Selected::Described(source) => bail!(
            "{source} tells the shape of a machine and not how fast anything runs on it, so no program can be run there; \
             leave --machine out to run here, or name a model (`pinfold machines` lists them)"
        ),
    }
}

fn run_here(arguments: &Arguments) -> Result<ExitCode> {
    simulated::refuse(arguments, &Where::Here)?;
    let topology = arguments.machine.topology()?;
    let mut plan = Plan::new(arguments, topology, &Where::Here)?;
    let built = plan.build(arguments, &Program::Command(&arguments.command))?;
    let pinning = built.first_pinning();
    if arguments.dry_run {
        let policy = plan.page_options(arguments, pinning)?.policy;
        console::print(&dry_run::calls(&plan, pinning, policy))?;
        return Ok(ExitCode::SUCCESS);
    }
    let launch = plan.launch(arguments, pinning)?;
    plan.notes.extend(arguments.journals.left_behind());
    let outputs = Outputs::open(arguments)?;
    let mut machine = LinuxMachine::launch(launch)?;
    drive(arguments, &plan, &mut machine, outputs, built)
}

fn run_scripted(arguments: &Arguments, file: &Path) -> Result<ExitCode> {
    let script = read_script(file)?;
    let place = Where::Scripted(script.topology());
    simulated::refuse(arguments, &place)?;
    refuse_what_needs_a_program(arguments)?;
    let topology = script_topology(file, &script)?;
    let mut plan = Plan::new(arguments, topology.clone(), &place)?;
    let built = plan.build(arguments, &Program::File(file, &[]))?;
    let mut machine = Scripted::new(script, topology).with_context(|| format!("scripted:{}", file.display()))?;
    drive(arguments, &plan, &mut machine, Outputs::open(arguments)?, built)
}

/// On a scripted machine the program is the script's.
fn refuse_what_needs_a_program(arguments: &Arguments) -> Result<()> {
    if let Some(command) = arguments.command.first() {
        bail!(
            "the script tells what runs on a scripted machine, so `{}` cannot be run there; leave out the command, or \
             --machine to run it here",
            command.display()
        );
    }
    let given = [
        (!arguments.event.is_empty(), "--event"),
        (arguments.overrides, "--override"),
        (arguments.outlive, "--outlive"),
        (arguments.keep_pinned, "--keep-pinned"),
        (arguments.dry_run, "--dry-run"),
    ];
    let given = given.iter().find(|(given, _)| *given).map(|&(_, option)| option);
    match given.or(arguments.about_real_pages()).or(arguments.mapping.given()) {
        Some(option) => bail!("{option} is about a real program, and a scripted machine runs none; leave it out"),
        None => Ok(()),
    }
}

/// Where a run writes. It is open before the program starts.
struct Outputs {
    json: Option<Output>,
    lines: Lines,
}

impl Outputs {
    fn open(arguments: &Arguments) -> Result<Self> {
        Ok(Self {
            json: Output::optional("--json", arguments.json.as_deref())?,
            lines: Lines::new(arguments.log.as_deref())?,
        })
    }
}

/// Runs the plan's policy on `machine` to the program's end, and tells and writes what was learned.
fn drive(
    arguments: &Arguments,
    plan: &Plan,
    machine: &mut impl Machine,
    outputs: Outputs,
    built: Built,
) -> Result<ExitCode> {
    let mut about = About {
        command: words(&arguments.command),
        events: None,
        ending: simulated::Ending::default(),
        simulation: |_: &_| None,
    };
    drive_about(arguments, plan, machine, outputs, built, &mut about)
}

/// What differs between a program that really runs and one that is simulated.
struct About<S> {
    /// The program's.
    command: Vec<String>,
    /// The events that a person hears of; `None` for all that are counted.
    events: Option<Vec<String>>,
    ending: simulated::Ending,
    /// What there is to be said of the simulation, after it.
    simulation: S,
}

fn words(command: &[OsString]) -> Vec<String> {
    command.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

fn drive_about<M: Machine>(
    arguments: &Arguments,
    plan: &Plan,
    machine: &mut M,
    outputs: Outputs,
    built: Built,
    about: &mut About<impl Fn(&M) -> Option<Simulation>>,
) -> Result<ExitCode> {
    plan.check_metric(machine.metrics())?;
    let Built {
        mut policy,
        initial,
        listener,
        ..
    } = built;
    let mut record = RecordBuilder::new(machine, policy.name());
    let mut report = Report::new(plan, machine, arguments.quiet, outputs.lines, listener);
    if let Some(events) = about.events.take() {
        report.only(events);
    }
    if let Some(initial) = initial {
        report.say(&initial.to_string());
    }
    let mut recorders = (&mut report, &mut about.ending);
    let outcome = pinfold_runtime::run(machine, policy.as_mut(), &mut record, &mut recorders);
    report.policy_ends();
    let simulation = (about.simulation)(machine);
    if let Some(simulation) = &simulation {
        report.say(&simulation.to_string());
    }
    if let Some(json) = outputs.json {
        json.write_json(&RunDocument {
            version: Some(RunDocument::VERSION),
            pinfold: env!("CARGO_PKG_VERSION").to_owned(),
            command: about.command.clone(),
            topology: pinfold_core::summary(&plan.topology),
            allowed_pus: plan.topology.allowed_pus().to_string(),
            page_map: plan.pages(),
            simulation,
            record: record.finish(),
        })?;
    }
    Ok(status(outcome?))
}

/// An exit status as the kernel keeps it: eight bits.
fn status(status: i32) -> ExitCode {
    ExitCode::from(u8::try_from(status & 0xff).unwrap_or(crate::FAILURE))
}
