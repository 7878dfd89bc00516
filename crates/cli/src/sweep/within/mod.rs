//! `pinfold sweep --within-run`: all configurations of a program while it runs once.
//!
//! 1. The space becomes configurations when the number of working threads is known.
//! 2. The policy `pinfold_policy::survey` measures them, on this machine (`here`), on a simulated one or on a script
//!    (`elsewhere`). `report` shows its progress.
//! 3. What was measured becomes a data set (`pinfold_sweep::within`), also if the program ends before the sweep.

mod arguments;
mod elsewhere;
mod here;
mod report;

use super::measured::this_machine;
use super::{Arguments, check_absent};
use crate::behaviour;
use crate::machine::{self, Selected};
use crate::program::executable;
use anyhow::{Result, bail};
pub(super) use arguments::Arguments as Options;
use here::Counting;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pinfold_core::Machine;
use pinfold_files::output::Output;
use pinfold_linux::limits;
use pinfold_linux::region_code::RegionCode;
use pinfold_policy::survey::{Configurations, Measured, Subject, Survey, SurveyConfiguration, SurveyOptions};
use pinfold_policy::{MetricRequest, Skip, Times};
use pinfold_runtime::RecordBuilder;
use pinfold_store::MachineKey;
use pinfold_sweep::CodePlace;
use pinfold_sweep::within::{
    MeasuredPart, WithinConfiguration, WithinProgram, WithinSelection, WithinSpace, within_data_set,
};
use report::Report;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// The interval of readings while the program initialises.
const INTERVAL: Duration = Duration::from_millis(100);

/// The usual interval, as that of sweeps by whole runs.
const INTERVAL_OF_TIMES: f64 = 0.02;

/// The summary of a sweep within one run.
#[derive(Serialize)]
struct Summary {
    output: PathBuf,
    simulated: bool,
    /// The number of threads that configurations are for.
    threads: usize,
    /// The measured parallel regions; 0 if the program was measured as a whole.
    regions: usize,
    /// The metric of a program that was measured as a whole.
    metric: Option<String>,
    configurations: usize,
    /// Those that were measured.
    measured: usize,
    /// Those that were measured to the wanted interval.
    precise: usize,
    /// Whether everything was measured that can be.
    complete: bool,
    /// By configuration, its pinning and why it was left out.
    left_out: BTreeMap<usize, String>,
    rows: usize,
    /// How long the sweep took, without the program's initialisation.
    seconds: f64,
    /// The largest time over the smallest of the drift, minus one.
    drift: f64,
    exit_status: Option<i32>,
}

pub(super) fn sweep(arguments: &Arguments) -> Result<ExitCode> {
    refuse(arguments)?;
    let output = Output::open("--output", &arguments.output)?;
    check_absent(&arguments.output, arguments.force)?;
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
    finish(arguments, &measured, output, json)
}

/// Refuses options that are for sweeps of whole runs.
fn refuse(arguments: &Arguments) -> Result<()> {
    let given = [
        arguments.shard.map(|_| "--shard"),
        arguments.measured.of_whole_runs(),
        arguments.simulated.given(),
    ];
    match given.into_iter().flatten().next() {
        Some(option) => bail!("{option} is for sweeps of many runs, and with --within-run there is one; leave one out"),
        None => Ok(()),
    }
}

/// A program that was measured.
struct Swept {
    survey: Survey,
    space: WithinSpace,
    program: WithinProgram,
    exit_status: Option<i32>,
}

/// The policy of the sweep.
fn survey(arguments: &Arguments, metric: MetricRequest, space: &WithinSpace) -> Survey {
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
        seed: arguments.measured.seed,
    };
    let space = space.clone();
    Survey::new(options, move |_, threads| {
        let selection = space.configurations(threads).map_err(|error| format!("{error:#}"))?;
        Ok(in_policy(&selection.configurations))
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
    }
}

/// A result of the policy as the data set takes it.
fn part(measured: &Measured) -> MeasuredPart {
    MeasuredPart {
        region: match measured.subject {
            Subject::Program => None,
            Subject::Region(id) => Some(id),
        },
        configuration: measured.configuration,
        seconds: measured.seconds,
        error: measured.error,
        spread: measured.spread,
        measurements: measured.measurements,
        counts: measured.counts,
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
fn drive(machine: &mut impl Machine, survey: &mut Survey, report: &mut Report<'_>) -> Result<Option<i32>> {
    let mut record = RecordBuilder::new(machine, "survey");
    Ok(pinfold_runtime::run(machine, survey, &mut record, report)?)
}

/// Measures a program on this machine.
fn here(arguments: &Arguments) -> Result<Swept> {
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
    let counting = Counting::new(&within.metric);
    let mut survey = survey(arguments, counting.metric.clone(), &space);
    let mut notes: Vec<String> = here
        .note
        .into_iter()
        .chain(arguments.measured.journals.left_behind())
        .collect();
    let mut machine = here::launch(arguments, &counting, &space, &mut notes)?;
    for note in notes {
        arguments.say(note);
    }
    // pinfold passes it on to the program.
    let end = || {
        let _ = kill(Pid::this(), Signal::SIGTERM);
    };
    let mut report = Report::new(arguments, within.end.then_some(&end));
    let watched = here::Watched::begin(topology.allowed_nodes());
    let exit_status = drive(&mut machine, &mut survey, &mut report)?;
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
    Ok(Swept {
        program: WithinProgram {
            machine: machine_here.name,
            simulated: false,
            model: None,
            topology: machine_here.topology,
            llc_bytes: machine_here.llc_bytes,
            state: watched.state(topology.allowed_pus()),
            name: key.name,
            command: words.join(" "),
            identity: key.identity,
            code: machine
                .region_code()
                .into_iter()
                .map(|(id, code)| (id, place(code)))
                .collect(),
        },
        survey,
        space,
        exit_status,
    })
}

/// Writes the data set and the summary.
fn finish(arguments: &Arguments, swept: &Swept, output: Output, json: Option<Output>) -> Result<ExitCode> {
    let survey = &swept.survey;
    let Some(ended) = survey.ended() else {
        bail!("nothing was measured: the reasons are above");
    };
    let WithinSelection {
        configurations,
        left_out: lacking,
    } = swept.space.configurations(survey.threads())?;
    for text in lacking {
        arguments.say(text);
    }
    let left_out: BTreeMap<usize, String> = survey.left_out().clone();
    for (&one, why) in &left_out {
        let configuration = &configurations[one].columns;
        arguments.say(format!(
            "left out: CPUs {} with pages {} and prefetchers {}: {why}",
            configuration.pinning.as_deref().unwrap_or("any"),
            configuration.page_map,
            configuration.prefetch
        ));
    }
    if let Some(text) = text_of_others(survey) {
        arguments.say(text);
    }
    let measured = survey.measured();
    if measured.is_empty() {
        bail!(
            "no configuration was measured, so {} is not written",
            arguments.output.display()
        );
    }
    let measured: Vec<MeasuredPart> = measured.iter().map(part).collect();
    let data_set = within_data_set(&swept.program, &configurations, &measured);
    output.write_with(|file| data_set.write(file))?;
    let regions = survey.subjects().iter().filter(|&&one| one != Subject::Program);
    let summary = Summary {
        output: arguments.output.clone(),
        simulated: swept.program.simulated,
        threads: survey.threads(),
        regions: regions.count(),
        metric: survey.metric().map(|metric| metric.name.clone()),
        configurations: ended.configurations,
        measured: ended.measured,
        precise: ended.precise,
        complete: ended.complete,
        left_out,
        rows: data_set.rows.len(),
        seconds: ended.lasted,
        drift: ended.drift,
        exit_status: swept.exit_status,
    };
    arguments.say(format!("{} rows in {}", summary.rows, summary.output.display()));
    if let Some(json) = json {
        json.write_json(&summary)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The regions that were not measured.
fn text_of_others(survey: &Survey) -> Option<String> {
    /// The most regions that are named.
    const NAMED: usize = 4;
    let others = survey.others();
    let named: Vec<String> = others.iter().take(NAMED).map(ToString::to_string).collect();
    let more = others.len().saturating_sub(NAMED);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    (!others.is_empty()).then(|| {
        format!(
            "not measured by themselves, because they take less than 1 % of the time in regions, are shorter than 100 us, or \
             hardly repeat: regions {}{more}",
            named.join(", ")
        )
    })
}
