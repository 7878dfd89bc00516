//! `pinfold run`: place one program.
//!
//! The arguments become a resolved `plan`, and the plan a machine and a policy. The loop of the runtime runs them.
//! `report` writes lines for the user; the runtime writes the record, which programs read.

mod arguments;
pub(crate) mod binding;
pub(crate) mod checked;
mod dry_run;
pub(crate) mod duration;
mod experiments;
mod lines;
mod moving;
mod near;
pub(crate) mod number;
mod pages;
mod place;
mod plan;
pub(crate) mod policies;
mod progress;
mod report;
mod schedule;
mod simulated;
pub(crate) mod simulations;
mod table;
mod undisturbed;
mod way;
mod whole_runs;

use crate::console;
use crate::daemon::With;
use crate::machine::{self, Selected, read_script, script_topology};
use anyhow::{Context, Result, bail};
pub(crate) use arguments::Arguments;
pub(crate) use binding::variables as binding_variables;
use lines::Lines;
pub(crate) use pages::{BALANCING_OF_A_REAL_MACHINE, BalancingName};
use pinfold_core::{Machine, PlacedBy};
use pinfold_files::output::Output;
use pinfold_linux::journal::Directory;
use pinfold_linux::launch::{LaunchError, RunningProcess, WaitingChild, run_alone};
use pinfold_linux::limits;
use pinfold_linux::machine::LinuxMachine;
use pinfold_linux::processor_time;
use pinfold_runtime::{RecordBuilder, Replay, RunDocument, Simulation};
use pinfold_sim::Scripted;
use pinfold_trace::Recording;
use place::Where;
use plan::{Plan, names_events};
use policies::{Built, Program};
use report::Report;
pub(crate) use simulated::KERNEL_OF_A_REAL_MACHINE;
use std::ffi::OsString;
use std::fmt::Display;
use std::path::Path;
use std::process::ExitCode;
pub(crate) use whole_runs::deciding_variables;

/// `waiting` executes the program, where another process has forked it.
pub(crate) fn run(arguments: &Arguments, waiting: Option<&WaitingChild>) -> Result<ExitCode> {
    if arguments.search.list_events {
        return crate::events::run(&crate::events::Arguments::default());
    }
    if let Some(number) = arguments.running.pid {
        table::refuse(arguments)?;
        return run_attached(arguments, number);
    }
    if arguments.running.lasts.is_some() {
        bail!(
            "--for is about a process that --pid names; a program that pinfold starts runs to its end: leave --for out"
        );
    }
    let selected = arguments.machine.selected()?;
    if !matches!(selected, Selected::Table(_)) {
        table::refuse(arguments)?;
    }
    match selected {
        Selected::Table(file) => table::run(arguments, &file),
        Selected::Here => run_here(arguments, waiting),
        Selected::Scripted(file) => run_scripted(arguments, &file),
        selected @ (Selected::Builtin(_) | Selected::ModelFile(_)) => simulated::run(arguments, selected.model()?),
        Selected::Described(source) => bail!(
            "{source} describes the topology of a machine and not its speed, so no program can be run there; \
             leave --machine out to run here, or name a model (`pinfold machines` lists them)"
        ),
    }
}

fn run_here(arguments: &Arguments, waiting: Option<&WaitingChild>) -> Result<ExitCode> {
    simulated::refuse(arguments, &Where::Here)?;
    let may_step_aside = waiting.is_none() && !arguments.changes.dry_run && !arguments.limits.are_given();
    limits::raise_own();
    if let Some(why) = limits::too_small().filter(|_| may_step_aside) {
        return Err(step_aside(arguments, &why).into());
    }
    let here = machine::here()?;
    let mut plan = Plan::new(arguments, here.topology, &Where::Here)?;
    plan.notes.extend(here.note);
    if plan.leaves_program && !arguments.changes.dry_run && !undisturbed::stays(arguments) {
        plan.notes.extend(arguments.journals.left_behind());
        return undisturbed::run(arguments, &plan, waiting);
    }
    let claims = arguments.claims.open_for_this_run(&mut plan.notes);
    let built = plan.build_beside(arguments, &Program::Command(&arguments.command), claims.as_ref())?;
    let pinning = built.first_pinning();
    if arguments.changes.dry_run {
        let policy = plan.page_options(arguments, pinning)?.policy;
        console::print(&dry_run::calls(&plan, &built, policy, arguments.changes.with))?;
        return Ok(ExitCode::SUCCESS);
    }
    let (preferring, note) = way::start(arguments, &built, &plan.topology)?;
    plan.notes.extend(note);
    let with = Some(if preferring.is_some() {
        PlacedBy::Scx
    } else {
        PlacedBy::Masks
    });
    let launch = plan.launch(arguments, &built, waiting, claims, preferring)?;
    plan.notes.extend(arguments.journals.left_behind());
    let outputs = Outputs::open(arguments)?;
    let mut machine = match LinuxMachine::launch(launch) {
        Err(error) if may_step_aside && error.is_shortage() => {
            drop(outputs);
            return Err(step_aside(arguments, &error).into());
        }
        launched => launched?,
    };
    if plan.finds_functions() {
        machine.find_functions();
    }
    let mut about = About {
        with,
        ..About::of(words(&arguments.command))
    };
    drive_about(arguments, &plan, &mut machine, outputs, built, &mut about)
}

/// Becomes the program, if pinfold itself lacks something that the program may not need. Returns only if that fails.
fn step_aside(arguments: &Arguments, why: &dyn Display) -> LaunchError {
    if arguments.reports.quiet < 2 {
        console::say(format_args!("stepped aside: {why}; the program runs without pinfold"));
    }
    run_alone(&arguments.command)
}

/// Attaches to a running process.
fn run_attached(arguments: &Arguments, number: i32) -> Result<ExitCode> {
    simulated::refuse(arguments, &Where::Here)?;
    limits::raise_own();
    let journals = Directory::new(&arguments.journals.path())?;
    let process = RunningProcess::find(number, &journals)?;
    let here = machine::here()?;
    let (allowed, pus) = (here.topology.allowed_pus().clone(), process.pus());
    let topology = here.topology.restricted_to(&pus).with_context(|| {
        format!("process {number} may run on the CPUs {pus} only, and this pinfold places on {allowed} only")
    })?;
    let mut plan = Plan::attached(arguments, topology, &process)?;
    plan.notes.extend(here.note);
    if plan.leaves_program && !arguments.changes.dry_run && !undisturbed::stays(arguments) {
        undisturbed::say(arguments, &plan)?;
        return Ok(ExitCode::SUCCESS);
    }
    let command = process.command();
    let claims = arguments.claims.open_for_this_run(&mut plan.notes);
    let program = Program::File(&process.executable(), &command);
    let built = plan.build_beside(arguments, &program, claims.as_ref())?;
    if arguments.changes.dry_run {
        console::print(&dry_run::calls(&plan, &built, None, With::Masks))?;
        return Ok(ExitCode::SUCCESS);
    }
    plan.notes.extend(arguments.journals.left_behind());
    plan.notes.extend(way::start(arguments, &built, &plan.topology)?.1);
    let attach = plan.attach(arguments, &built, process, journals, claims)?;
    let outputs = Outputs::open(arguments)?;
    let mut machine = LinuxMachine::attach(attach)?;
    if plan.finds_functions() {
        machine.find_functions();
    }
    let mut about = About {
        attached: Some(number),
        with: Some(PlacedBy::Masks),
        ..About::of(command)
    };
    drive_about(arguments, &plan, &mut machine, outputs, built, &mut about)
}

fn run_scripted(arguments: &Arguments, file: &Path) -> Result<ExitCode> {
    let script = read_script(file)?;
    let place = Where::Scripted(script.topology());
    simulated::refuse(arguments, &place)?;
    refuse_what_needs_a_program(arguments, "the script", "a scripted machine")?;
    if let Some(option) = arguments.pages.mapping.given() {
        bail!("{option} is about a real program, and a scripted machine runs none; leave it out");
    }
    let topology = script_topology(file, &script)?;
    let mut plan = Plan::new(arguments, topology.clone(), &place)?;
    let built = plan.build(arguments, &Program::File(file, &[]))?;
    let mut machine = Scripted::new(script, topology).with_context(|| format!("scripted:{}", file.display()))?;
    drive(arguments, &plan, &mut machine, Outputs::open(arguments)?, built)
}

/// On some machines the program is given by a file: by `what`, on `machine`.
fn refuse_what_needs_a_program(arguments: &Arguments, what: &str, machine: &str) -> Result<()> {
    if let Some(command) = arguments.command.first() {
        bail!(
            "{what} says what runs on {machine}, so `{}` cannot be run there; leave out the command, or --machine to run it \
             here",
            command.display()
        );
    }
    let event = (!arguments.search.event.is_empty()).then_some("--event");
    let given = event
        .or(arguments.about_real_process())
        .or(arguments.pages.about_real_programs())
        .or(arguments.pages.balancing());
    match given {
        Some(option) => bail!("{option} is about a real program, and {machine} runs none; leave it out"),
        None => Ok(()),
    }
}

/// The output files of a run. They are open before the program starts.
struct Outputs {
    json: Option<Output>,
    page: Option<Output>,
    lines: Lines,
}

impl Outputs {
    fn open(arguments: &Arguments) -> Result<Self> {
        Ok(Self {
            json: Output::optional("--json", arguments.reports.json.as_deref())?,
            page: Output::optional("--report", arguments.reports.report.as_deref())?,
            lines: Lines::new(arguments.reports.log.as_deref())?,
        })
    }
}

/// Runs the plan's policy on `machine` to the program's end, with the lines and the record.
fn drive(
    arguments: &Arguments,
    plan: &Plan,
    machine: &mut impl Machine,
    outputs: Outputs,
    built: Built,
) -> Result<ExitCode> {
    let mut about = About::of(words(&arguments.command));
    drive_about(arguments, plan, machine, outputs, built, &mut about)
}

/// What differs between programs that pinfold starts, that run already and that are simulated.
struct About<S> {
    /// The program's.
    command: Vec<String>,
    /// The process, if it ran before.
    attached: Option<i32>,
    /// How its threads are placed; `None` for one that does not really run.
    with: Option<PlacedBy>,
    /// The events that the lines show; `None` for all that are counted.
    events: Option<Vec<String>>,
    ending: simulated::Ending,
    /// The recording that is simulated, if it is the only one.
    recording: Option<Recording>,
    /// How it was played, after its end.
    played: S,
}

/// How a program was played that did not really run; nothing for one that did.
#[derive(Default)]
struct Played {
    simulation: Option<Simulation>,
    replay: Option<Replay>,
}

impl<M> About<fn(&M) -> Played> {
    /// A program that really runs.
    fn of(command: Vec<String>) -> Self {
        Self {
            command,
            attached: None,
            with: None,
            events: None,
            ending: simulated::Ending::default(),
            recording: None,
            played: |_| Played::default(),
        }
    }
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
    about: &mut About<impl Fn(&M) -> Played>,
) -> Result<ExitCode> {
    plan.check_metric(machine.metrics())?;
    let Built {
        mut policy,
        initial,
        listener,
        ..
    } = built;
    let mut record = RecordBuilder::new(machine, policy.name());
    if outputs.json.is_some() || outputs.page.is_some() {
        record = record.with_timeline(machine);
    }
    let mut report = Report::new(plan, machine, arguments, outputs.lines, listener);
    report.program(&about.command, about.attached);
    if let Some(events) = about.events.take() {
        report.only(events);
    }
    if let Some(initial) = initial {
        report.say(&initial.to_string());
    }
    let mut recorders = (&mut report, &mut about.ending);
    let outcome = pinfold_runtime::run(machine, policy.as_mut(), &mut record, &mut recorders);
    report.policy_ends();
    let Played { simulation, replay } = (about.played)(machine);
    if let Some(simulation) = &simulation {
        report.say_detail(&simulation.to_string());
    }
    if let Some(replay) = &replay {
        report.say_detail(&replay.to_string());
    }
    if outputs.json.is_some() || outputs.page.is_some() {
        let record = record.finish();
        let own = processor_time::this_process().ok().filter(|_| !record.simulated);
        let document = RunDocument {
            version: Some(RunDocument::VERSION),
            pinfold: env!("CARGO_PKG_VERSION").to_owned(),
            command: about.command.clone(),
            attached: about.attached,
            with: about.with,
            topology: pinfold_core::summary(&plan.topology),
            allowed_pus: plan.topology.allowed_pus().to_string(),
            page_map: plan.pages(),
            own_cpu_time: own.map(|time| time.total().as_secs_f64()),
            simulation,
            replay,
            record,
        };
        let json = outputs.json.map_or(Ok(()), |json| json.write_json(&document));
        let page = outputs.page.map(|page| {
            let text = crate::report::of_run(&document, about.recording.as_ref())?;
            Ok(page.write(text.as_bytes())?)
        });
        let written = json.map_err(anyhow::Error::from).and(page.unwrap_or(Ok(())));
        match written {
            // A job does not fail for its record.
            Err(error) if arguments.reports.account_as.is_some() => console::fail(console::whole(&error)),
            written => written?,
        }
    }
    Ok(match (about.attached, outcome?) {
        (None, Some(exit_status)) => status(exit_status),
        // The status of a process that pinfold did not start says nothing about pinfold's success.
        _ => ExitCode::SUCCESS,
    })
}

/// An exit status as the kernel keeps it: eight bits.
fn status(status: i32) -> ExitCode {
    ExitCode::from(u8::try_from(status & 0xff).unwrap_or(crate::FAILURE))
}
