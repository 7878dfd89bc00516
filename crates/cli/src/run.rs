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
mod plan;
mod progress;
mod report;
mod sam;
mod schedule;
mod simulated;

use crate::behaviour::Learner;
use crate::console;
use crate::machine::Selected;
use crate::output::Output;
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use lines::Lines;
use pinfold_core::hint::{AffinityHint, ParseAffinityHintError};
use pinfold_core::{Machine, PageMapping, Topology};
use pinfold_linux::machine::LinuxMachine;
use pinfold_linux::topology::EXAMPLE;
use pinfold_runtime::Record;
use pinfold_sim::{Script, Scripted};
use plan::Plan;
use report::Report;
use serde::Serialize;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
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

    /// Who decides where threads run: autopin measures the program as it is, tries candidates while it runs and keeps the best that
    /// is better than leaving threads to the operating system; hints looks once
    /// and follows a learned rule, or what is known of the program; sam moves single threads all the time, those that share data
    /// together and memory-bound ones apart, by hardware counters; fixed keeps the first candidate; hint:SLP keeps the
    /// placement of an affinity hint, as `pinfold placements --hint` shows it; none leaves threads to the operating system.
    #[arg(long, default_value = "autopin", value_name = "POLICY")]
    policy: PolicyName,

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

    /// Try at most N pinnings from the topology, beside the program as it is.
    #[arg(long, default_value = "8", value_parser = number::within(1usize, 65_536), value_name = "N", conflicts_with = "schedule")]
    candidates: usize,

    /// How candidates are compared.
    #[arg(long, value_enum, default_value_t = SearchName::Exhaustive, value_name = "SEARCH")]
    search: SearchName,

    /// Measure each candidate for this long, and tell the rate as often after the choice.
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

    /// Search again when the rate falls by this many percent after the choice and stays down; 0 for never.
    #[arg(long, default_value = "10", value_parser = number::parse_percent, value_name = "PERCENT")]
    search_again: f64,

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

    /// Place threads although variables such as `OMP_PROC_BIND` tell the program to bind them itself, and move pages although
    /// the program has given them a memory policy.
    #[arg(long = "override")]
    overrides: bool,

    /// Let the program go on, unpinned, if pinfold is killed; without this it ends with pinfold.
    #[arg(long)]
    outlive: bool,

    /// Leave what the program leaves running pinned when pinfold ends; without this it is unpinned.
    #[arg(long)]
    keep_pinned: bool,

    /// Print the calls that would be made for the first candidate, and run nothing.
    #[arg(long)]
    dry_run: bool,

    /// Write everything that was learned to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write pinfold's lines to the end of this file, and not to standard error. Without this, lines are kept until the end while
    /// the program draws on the whole terminal.
    #[arg(long, value_name = "FILE", conflicts_with = "quiet")]
    log: Option<PathBuf>,

    /// Tell nothing but errors.
    #[arg(short, long)]
    quiet: bool,

    #[command(flatten)]
    journals: crate::journals::Arguments,

    #[command(flatten)]
    behaviour: crate::behaviour::Arguments,

    /// With --policy hints: the learned rules [default: those that were made of the behaviour database].
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,

    /// With --policy hints: observe a program that is not known in the placement of this affinity hint, such as SLP for distributed;
    /// unpinned leaves it to the operating system meanwhile [default: unpinned].
    #[arg(long, value_name = "WHERE")]
    observe: Option<ObserveName>,

    /// With --policy hints: make the rules anew when the database has grown by this many percent; 0 for never.
    #[arg(long, default_value = "20", value_parser = number::parse_growth, value_name = "PERCENT")]
    rebuild: f64,

    #[command(flatten)]
    sam: sam::Arguments,

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

/// What `--observe` takes: a hint, or nothing for `unpinned`.
#[derive(Clone, Copy)]
struct ObserveName(Option<AffinityHint>);

impl FromStr for ObserveName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "unpinned" {
            return Ok(Self(None));
        }
        let hint = text.parse().map(|hint| Self(Some(hint)));
        hint.map_err(|error: ParseAffinityHintError| format!("{error}; or unpinned"))
    }
}

/// What `--policy` takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PolicyName {
    Autopin,
    Fixed,
    Hint(AffinityHint),
    Hints,
    Sam,
    None,
}

impl FromStr for PolicyName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "autopin" => Ok(Self::Autopin),
            None if text == "fixed" => Ok(Self::Fixed),
            None if text == "hints" => Ok(Self::Hints),
            None if text == "sam" => Ok(Self::Sam),
            None if text == "none" => Ok(Self::None),
            Some(("hint", hint)) => Ok(Self::Hint(
                hint.parse().map_err(|error: ParseAffinityHintError| error.to_string())?,
            )),
            _ => Err(
                "there are autopin, hints, sam, fixed, none, and hint: with three letters, such as hint:slp for packed and hint:SLP for \
                 distributed"
                    .to_owned(),
            ),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SearchName {
    /// Each candidate is measured for its full time.
    Exhaustive,
    /// A candidate is dropped as soon as the measurements say that it loses.
    Racing,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.list_events {
        return crate::events::run(&crate::events::Arguments::default());
    }
    match arguments.machine.selected()? {
        Selected::Here => {
            simulated::refuse(arguments, plan::Where::Here)?;
            run_here(arguments)
        }
        Selected::Scripted(file) => {
            simulated::refuse(arguments, plan::Where::Simulated)?;
            run_scripted(arguments, &file)
        }
        selected @ (Selected::Builtin(_) | Selected::ModelFile(_)) => simulated::run(arguments, selected.model()?),
        Selected::Described(source) => bail!(
            "{source} tells the shape of a machine and not how fast anything runs on it, so no program can be run there; \
             leave --machine out to run here, or name a model (`pinfold machines` lists them)"
        ),
    }
}

fn run_here(arguments: &Arguments) -> Result<ExitCode> {
    let topology = arguments.machine.topology()?;
    let mut plan = Plan::new(arguments, topology, plan::Where::Here)?;
    let learner = plan.learn(arguments, &plan::Identity::Command(&arguments.command), None)?;
    if arguments.dry_run {
        let policy = plan.page_options(arguments)?.policy;
        console::print(&dry_run::calls(&plan, policy))?;
        return Ok(ExitCode::SUCCESS);
    }
    let launch = plan.launch(arguments)?;
    plan.notes.extend(arguments.journals.left_behind());
    let outputs = Outputs::open(arguments)?;
    let mut machine = LinuxMachine::launch(launch)?;
    drive(arguments, &plan, &mut machine, outputs, learner)
}

fn run_scripted(arguments: &Arguments, file: &Path) -> Result<ExitCode> {
    refuse_what_needs_a_program(arguments)?;
    let script = read_script(file)?;
    let topology = script_topology(file, &script)?;
    let mut plan = Plan::new(arguments, topology.clone(), plan::Where::Simulated)?;
    if arguments.policy == PolicyName::Sam {
        bail!(
            "a scripted machine has no events from which SAM could tell sharing from contention; name a model (`pinfold machines` \
             lists them), or another policy"
        );
    }
    let learner = plan.learn(arguments, &plan::Identity::File(file, &[]), Some(script.topology()))?;
    let mut machine = Scripted::new(script, topology).with_context(|| format!("scripted:{}", file.display()))?;
    drive(arguments, &plan, &mut machine, Outputs::open(arguments)?, learner)
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

fn read_script(file: &Path) -> Result<Script> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read the script `{}`", file.display()))?;
    text.parse()
        .with_context(|| format!("`{}` is no script of a machine", file.display()))
}

/// The topology that a script names.
fn script_topology(file: &Path, script: &Script) -> Result<Topology> {
    let named = script.topology();
    Selected::parse(named)
        .and_then(|selected| match selected {
            Selected::Scripted(_) => {
                bail!("`{named}` is another script; name a machine by its shape, such as synthetic:{EXAMPLE}")
            }
            Selected::Here | Selected::Described(_) | Selected::Builtin(_) | Selected::ModelFile(_) => {
                selected.topology()
            }
        })
        .with_context(|| format!("the key `topology` of `{}`", file.display()))
}

/// The topology of a scripted machine.
pub(crate) fn scripted_topology(file: &Path) -> Result<Topology> {
    script_topology(file, &read_script(file)?)
}

/// Runs the plan's policy on `machine` to the program's end, and tells and writes what was learned.
fn drive(
    arguments: &Arguments,
    plan: &Plan,
    machine: &mut impl Machine,
    outputs: Outputs,
    learner: Learner,
) -> Result<ExitCode> {
    let mut about = About {
        learner,
        command: words(&arguments.command),
        events: None,
        ending: simulated::Ending::default(),
        simulation: |_: &_| None,
    };
    drive_about(arguments, plan, machine, outputs, &mut about)
}

/// What differs between a program that really runs and one that is simulated.
struct About<S> {
    learner: Learner,
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
    about: &mut About<impl Fn(&M) -> Option<simulated::Simulation>>,
) -> Result<ExitCode> {
    plan.check_metric(machine.metrics())?;
    let mut policy = plan.policy();
    let mut record = Record::new(machine, policy.name());
    let mut report = Report::new(plan, machine, arguments.quiet, outputs.lines);
    if let Some(events) = about.events.take() {
        report.only(events);
    }
    for note in plan
        .about_rules(machine.metrics())
        .into_iter()
        .chain(plan.about_pinning())
    {
        report.say(&note);
    }
    let mut recorders = (&mut record, (&mut report, (&mut about.ending, &mut about.learner)));
    let outcome = pinfold_runtime::run(machine, policy.as_mut(), &mut recorders);
    // Rules that were named are the user's, and not made of the database.
    let rebuild = (arguments.rules.is_none() && arguments.rebuild != 0.0).then_some(arguments.rebuild);
    if let Some(note) = std::mem::take(&mut about.learner).end(&arguments.behaviour, rebuild) {
        report.say(&note);
    }
    let simulation = (about.simulation)(machine);
    if let Some(simulation) = &simulation {
        report.say(&simulation.to_string());
    }
    if let Some(json) = outputs.json {
        json.write_json(&Document {
            pinfold: env!("CARGO_PKG_VERSION"),
            command: about.command.clone(),
            topology: pinfold_core::summary(&plan.topology),
            allowed_pus: plan.topology.allowed_pus().to_string(),
            page_map: plan.pages(),
            simulation,
            record: &record,
        })?;
    }
    Ok(status(outcome?))
}

/// What `--json` writes (docs/formats.md).
#[derive(Serialize)]
struct Document<'a> {
    pinfold: &'static str,
    command: Vec<String>,
    topology: String,
    allowed_pus: String,
    /// Where pages were to be; `None` where nobody said.
    page_map: Option<PageMapping>,
    /// How the program was simulated, where it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    simulation: Option<simulated::Simulation>,
    #[serde(flatten)]
    record: &'a Record,
}

/// An exit status as the kernel keeps it: eight bits.
fn status(status: i32) -> ExitCode {
    ExitCode::from(u8::try_from(status & 0xff).unwrap_or(crate::FAILURE))
}
