//! `pinfold sweep --within-run`: all configurations of a program while it runs once.
//!
//! 1. The space becomes configurations when the number of working threads is known.
//! 2. The policy `pinfold_policy::survey` measures them, on this machine (`here`), on a simulated one or on a script
//!    (`elsewhere`). `report` shows its progress.
//! 3. Each measurement goes to the journal at once (`keeper`), so that the same command goes on from there.
//! 4. What was measured becomes a data set (`result`), also if the program ends before the sweep.

mod arguments;
mod elsewhere;
mod here;
mod keeper;
mod report;
mod result;

use super::measured::this_machine;
use super::{Arguments, check_absent};
use crate::behaviour;
use crate::machine::{self, Selected};
use crate::program::executable;
use anyhow::{Result, bail};
pub(super) use arguments::Arguments as Options;
use here::Counting;
use keeper::{Journaled, Keeper};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pinfold_core::{Machine, RegionId};
use pinfold_files::output::Output;
use pinfold_linux::limits;
use pinfold_linux::region_code::RegionCode;
use pinfold_policy::survey::{Configurations, Measured, Subject, Survey, SurveyConfiguration, SurveyOptions};
use pinfold_policy::{MetricRequest, Skip, Times};
use pinfold_runtime::RecordBuilder;
use pinfold_store::MachineKey;
use pinfold_sweep::CodePlace;
use pinfold_sweep::measured::{MachineState, joint};
use pinfold_sweep::within::{
    MachineState as MachineColumns, WithinComplete, WithinConfiguration, WithinIdentity, WithinProgram,
    WithinSelection, WithinSpace,
};
use report::Report;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

/// The interval of readings while the program initialises.
const INTERVAL: Duration = Duration::from_millis(100);

/// The usual interval, as that of sweeps by whole runs.
const INTERVAL_OF_TIMES: f64 = 0.02;

pub(super) fn sweep(arguments: &Arguments) -> Result<ExitCode> {
    refuse(arguments)?;
    let output = Output::open("--output", &arguments.output)?;
    // A program that ended before its sweep has left an output.
    if !arguments.beside(".partial").exists() {
        check_absent(&arguments.output, arguments.force)?;
    }
    let json = Output::optional("--json", arguments.json.as_deref())?;
    let selected = match arguments.machine.as_slice() {
        [] => Selected::Here,
        [one] => Selected::parse(one)?,
        _ => bail!("--within-run measures one run on one machine: name one machine, or none for this one"),
    };
    let measured = match selected {
        Selected::Here => here(arguments)?,
        selected => elsewhere::measure(arguments, selected)?,
    };
    result::write(arguments, measured, output, json)
}

/// Refuses options that are for sweeps of whole runs.
fn refuse(arguments: &Arguments) -> Result<()> {
    if arguments.shard.is_some() {
        bail!(
            "--shard is for sweeps of many runs, and with --within-run there is one: if the program ends too early, the same \
             command goes on in another run, and without --within-run several computers share the runs"
        );
    }
    let given = [arguments.measured.of_whole_runs(), arguments.simulated.given()];
    match given.into_iter().flatten().next() {
        Some(option) => bail!("{option} is for sweeps of many runs, and with --within-run there is one; leave one out"),
        None => Ok(()),
    }
}

/// A program that was measured, in this run or in earlier ones.
struct Swept<'a> {
    program: WithinProgram,
    keeper: Keeper<'a>,
    selection: WithinSelection,
    measured: Vec<Measured>,
    found: WithinComplete,
    /// Whether everything was measured that can be.
    is_complete: bool,
    /// The regions that were not measured.
    others: Vec<RegionId>,
    exit_status: Option<i32>,
}

impl<'a> Swept<'a> {
    /// What earlier runs have measured completely; otherwise the keeper.
    fn complete(program: &WithinProgram, space: &WithinSpace, keeper: Keeper<'a>) -> Result<Result<Self, Keeper<'a>>> {
        let Some(found) = keeper.complete().cloned() else {
            return Ok(Err(keeper));
        };
        let selection = space.configurations(found.threads)?;
        let (measured, code) = keeper.others(&found, &selection.configurations, &[]);
        Ok(Ok(Self {
            program: WithinProgram {
                state: joint(keeper.earlier_states().iter()),
                code,
                ..program.clone()
            },
            keeper,
            selection,
            measured,
            found,
            is_complete: true,
            others: vec![],
            exit_status: None,
        }))
    }

    /// What this run and earlier ones have measured. Errors: nothing was measured in this run.
    fn new(program: WithinProgram, space: &WithinSpace, mut keeper: Keeper<'a>, run: Run<'_>) -> Result<Self> {
        let Run {
            survey,
            lasted,
            state,
            exit_status,
            was_ended,
        } = run;
        let mut states = keeper.earlier_states();
        states.extend(state.clone());
        // A signal's status is 128 and its number.
        let by_itself = !was_ended && exit_status.is_some_and(|status| status < 128);
        if let Err(error) = keeper.end(lasted, by_itself, state.unwrap_or_default()) {
            keeper.say(&error);
        }
        let Some(ended) = survey.ended() else {
            bail!("nothing was measured: the reasons are above");
        };
        let found = keeper::found(survey);
        let selection = space.configurations(found.threads)?;
        let (mut measured, mut code) = match survey.subjects() {
            [Subject::Program] => (vec![], BTreeMap::new()),
            subjects => keeper.others(&found, &selection.configurations, subjects),
        };
        measured.append(&mut survey.measured());
        code.extend(program.code);
        Ok(Self {
            program: WithinProgram {
                state: joint(states.iter()),
                code,
                ..program
            },
            keeper,
            selection,
            measured,
            found,
            is_complete: ended.complete,
            others: survey.others().to_vec(),
            exit_status,
        })
    }
}

/// A run of the program that is over.
struct Run<'a> {
    survey: &'a Survey,
    lasted: Duration,
    /// The machine meanwhile; `None` for a machine that is not this one.
    state: Option<MachineState>,
    exit_status: Option<i32>,
    /// Whether pinfold has ended the program.
    was_ended: bool,
}

/// The policy of the sweep.
fn survey(arguments: &Arguments, metric: MetricRequest, space: &WithinSpace, keeper: &Keeper<'_>) -> Survey {
    let within = &arguments.within;
    let options = SurveyOptions {
        times: Times {
            interval: INTERVAL,
            ..Times::new(None, None, Some(within.initialise))
        },
        metric,
        skip: Skip::default(),
        threads: arguments.threads,
        by: within.by.by(),
        interval: arguments.measured.precision.unwrap_or(INTERVAL_OF_TIMES),
        rounds: within.extent(),
        limit: arguments.measured.time_limit,
        lasted: keeper.lasted(),
        seed: arguments.measured.seed,
    };
    let (space, earlier) = (space.clone(), keeper.earlier());
    Survey::new(options, move |_, surveyed| {
        let selection = space
            .configurations(surveyed.threads)
            .map_err(|error| format!("{error:#}"))?;
        Ok(Configurations {
            earlier: earlier(surveyed, &selection.configurations),
            ..in_policy(&selection.configurations)
        })
    })
}

/// The configurations as the policy takes them. The unpinned program and the baseline are measured in every pass.
fn in_policy(swept: &[WithinConfiguration]) -> Configurations {
    let references = (0..swept.len()).filter(|&one| swept[one].pinning.is_none() || swept[one].baseline);
    let configuration = |one: &WithinConfiguration| SurveyConfiguration {
        threads: one.threads,
        pinning: one.pinning.clone(),
        pages: one.pages,
        prefetchers: one.prefetchers,
    };
    Configurations {
        references: references.collect(),
        list: swept.iter().map(configuration).collect(),
        earlier: vec![],
    }
}

/// The code of a region as data sets name it.
fn place(code: RegionCode) -> CodePlace {
    CodePlace {
        object: code.object,
        offset: code.offset,
    }
}

/// Runs the policy to the program's end.
fn drive(
    machine: &mut impl Machine,
    survey: &mut Survey,
    keeper: &mut Keeper<'_>,
    report: &mut Report<'_>,
) -> Result<Option<i32>> {
    let mut record = RecordBuilder::new(machine, "survey");
    let mut policy = Journaled { survey, keeper };
    Ok(pinfold_runtime::run(machine, &mut policy, &mut record, report)?)
}

/// Measures a program on this machine.
fn here(arguments: &Arguments) -> Result<Swept<'_>> {
    let within = &arguments.within;
    limits::raise_own();
    if let Some(recording) = arguments.recordings.first() {
        bail!(
            "`{}` would be simulated: name a machine with --machine (`pinfold machines` lists them), or put -- before a \
             program that is to be measured here",
            recording.display()
        );
    }
    let Some(program) = arguments.command.first() else {
        bail!("there is no program to measure; write it after `--`");
    };
    let here = machine::here()?;
    let topology = here.topology;
    let space = here::space(arguments, &topology);
    let file = executable(program)?;
    let words: Vec<String> = arguments
        .command
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let key = behaviour::program_key(&file, &words, MachineKey::new(&topology, None))?;
    let machine_here = this_machine(&topology, &key.machine);
    let program = WithinProgram {
        machine: machine_here.name,
        simulated: false,
        model: None,
        topology: machine_here.topology,
        llc_bytes: machine_here.llc_bytes,
        state: MachineColumns::default(),
        name: key.name,
        command: words.join(" "),
        identity: key.identity,
        code: BTreeMap::new(),
    };
    let identity = WithinIdentity {
        machine: machine_here.fingerprint,
        program: program.identity.clone(),
        command: program.command.clone(),
        context: keeper::context()?,
    };
    let keeper = Keeper::open(arguments, &space, identity)?;
    let mut keeper = match Swept::complete(&program, &space, keeper)? {
        Ok(swept) => return Ok(swept),
        Err(keeper) => keeper,
    };
    let counting = Counting::new(&within.metric);
    let mut notes: Vec<String> = here
        .note
        .into_iter()
        .chain(arguments.measured.journals.left_behind())
        .collect();
    let mut machine = here::launch(arguments, &counting, &space, &mut notes)?;
    keeper.recognise_by(keeper::by_code(machine.region_codes()));
    let mut survey = survey(arguments, counting.metric, &space, &keeper);
    for note in notes {
        arguments.say(note);
    }
    // pinfold passes it on to the program.
    let end = || {
        let _ = kill(Pid::this(), Signal::SIGTERM);
    };
    let mut report = Report::new(arguments, within.end.then_some(&end));
    let watched = here::Watched::begin(topology.allowed_nodes());
    let exit_status = drive(&mut machine, &mut survey, &mut keeper, &mut report)?;
    let expected = if report.has_ended_program {
        vec![0, 143]
    } else {
        vec![0]
    };
    if let Some(status) = exit_status.filter(|status| !expected.contains(status)) {
        arguments.say(format!(
            "the program ended with status {status}; what was measured until then is written"
        ));
    }
    let code = machine.region_code().into_iter().map(|(id, code)| (id, place(code)));
    let program = WithinProgram {
        code: code.collect(),
        ..program
    };
    let run = Run {
        survey: &survey,
        lasted: machine.now(),
        state: Some(watched.state(topology.allowed_pus())),
        exit_status,
        was_ended: report.has_ended_program,
    };
    Swept::new(program, &space, keeper, run)
}
