//! A sweep within one run on a simulated machine, or on a scripted one.

use super::super::Arguments;
use super::keeper::{Keeper, by_address};
use super::report::Report;
use super::{Run, Swept, drive, survey};
use crate::machine::{Selected, read_script, script_topology};
use crate::{recorded, topo};
use anyhow::{Context, Result, bail};
use pinfold_core::{Machine, RegionId, content_hash};
use pinfold_policy::MetricRequest;
use pinfold_sim::model::Model;
use pinfold_sim::{EndSwitch, Kernel, NamedProgram, RecordedProgram, Repeat, RunSettings, Scripted, SimulatedMachine};
use pinfold_sweep::within::{MachineState, WithinIdentity, WithinProgram, WithinSpace};
use pinfold_sweep::{CodePlace, SpaceMachine};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// Measures the program of a machine that is not this one.
pub(super) fn measure(arguments: &Arguments, selected: Selected) -> Result<Swept<'_>> {
    match selected {
        Selected::Scripted(file) => scripted(arguments, &file),
        Selected::Builtin(_) | Selected::ModelFile(_) => simulated(arguments, selected.model()?),
        Selected::Described(source) => bail!(
            "{source} describes the topology of a machine and not its speed, so nothing can be measured there; leave \
             --machine out to measure here, or name a model (`pinfold machines` lists them)"
        ),
        Selected::Table(_) => bail!(
            "the table has the measurements already, and a sweep would measure them again: `pinfold learn` reads the table, \
             and `pinfold run --machine data:FILE.parquet` runs policies on it"
        ),
        Selected::Here => bail!("this machine is measured without --machine"),
    }
}

/// The metric that the user names.
fn metric(arguments: &Arguments) -> MetricRequest {
    match arguments.within.metric.as_str() {
        "auto" => MetricRequest::Auto,
        name => MetricRequest::Named(name.to_owned()),
    }
}

/// Measures the one recording on a simulated machine. It repeats until everything is measured.
fn simulated(arguments: &Arguments, model: Model) -> Result<Swept<'_>> {
    let [file] = arguments.recordings.as_slice() else {
        bail!(
            "--within-run measures one program: give one recording (FILE.pft) that `pinfold record` wrote, to measure it on {}",
            model.name
        );
    };
    let recording = recorded::open(file, false)?;
    let hash = fs::read(file).map(|bytes| content_hash(&bytes));
    let hash = hash.with_context(|| format!("cannot read `{}`", file.display()))?;
    let command = recording.header().command.clone();
    let name = command
        .first()
        .map_or("", |word| word.rsplit('/').next().unwrap_or(word))
        .to_owned();
    let regions = recording.regions().iter();
    let code = regions
        .map(|region| (RegionId(region.identity), CodePlace::new(region)))
        .collect();
    let topology = model.topology();
    let space = WithinSpace {
        names: arguments.space.clone(),
        limit: arguments.limit,
        machine: SpaceMachine::of_model(&model),
        no_accesses: None,
    };
    let llc_bytes = model.llc_bytes();
    let content = content_hash(serde_json::to_string(&model)?.as_bytes());
    let machine_name = model.name.clone();
    let switch = EndSwitch::default();
    let settings = RunSettings {
        repeat: Repeat::UntilAsked(switch.clone()),
        exit_status: 0,
        seed: arguments.measured.seed,
        noise: 0.0,
        kernel: Kernel::default(),
        numa_balancing: false,
    };
    let program = Arc::new(RecordedProgram::with_regions(recording)?);
    let programs = vec![NamedProgram {
        name: name.chars().take(15).collect(),
        program,
    }];
    let mut machine = SimulatedMachine::new(model, topology.clone(), programs, settings);
    let program = WithinProgram {
        machine: machine_name,
        simulated: true,
        model: Some(format!("{content:032x}")),
        topology: topo::json::of(&topology, &[]),
        llc_bytes: Some(llc_bytes),
        state: MachineState::default(),
        name,
        command: command.join(" "),
        identity: format!("{hash:032x}"),
        code,
    };
    let end = || switch.end();
    let model = format!("{content:032x}");
    swept(arguments, &mut machine, &space, (program, model), Some(&end))
}

/// Measures the program of a script.
fn scripted<'a>(arguments: &'a Arguments, file: &Path) -> Result<Swept<'a>> {
    let script = read_script(file)?;
    if let Some(command) = arguments.command.first() {
        bail!(
            "the script says what runs on a scripted machine, so `{}` cannot be measured there; leave out the command, or \
             --machine to measure it here",
            command.display()
        );
    }
    let topology = script_topology(file, &script)?;
    let text = fs::read(file).with_context(|| format!("cannot read `{}`", file.display()))?;
    let space = WithinSpace {
        names: arguments.space.clone(),
        limit: arguments.limit,
        machine: SpaceMachine::new(topology.clone(), &[], "a scripted machine has none"),
        no_accesses: Some("a scripted machine has no pages".to_owned()),
    };
    let mut machine =
        Scripted::new(script, topology.clone()).with_context(|| format!("scripted:{}", file.display()))?;
    let name = file
        .file_name()
        .unwrap_or(file.as_os_str())
        .to_string_lossy()
        .into_owned();
    let program = WithinProgram {
        machine: topology.name().to_owned(),
        simulated: true,
        model: None,
        topology: topo::json::of(&topology, &[]),
        llc_bytes: None,
        state: MachineState::default(),
        command: name.clone(),
        name,
        identity: format!("{:032x}", content_hash(&text)),
        code: BTreeMap::new(),
    };
    swept(arguments, &mut machine, &space, (program, "script".to_owned()), None)
}

/// Measures the program of this machine, whose model is named by its hash.
fn swept<'a>(
    arguments: &'a Arguments,
    machine: &mut impl Machine,
    space: &WithinSpace,
    (program, model): (WithinProgram, String),
    end: Option<&dyn Fn()>,
) -> Result<Swept<'a>> {
    let identity = WithinIdentity {
        machine: model,
        program: program.identity.clone(),
        command: program.command.clone(),
        context: vec![],
    };
    let keeper = Keeper::open(arguments, space, identity)?;
    let mut keeper = match Swept::complete(&program, space, keeper)? {
        Ok(swept) => return Ok(swept),
        Err(keeper) => keeper,
    };
    keeper.recognise_by(by_address());
    let mut survey = survey(arguments, metric(arguments), space, &keeper);
    let mut report = Report::new(arguments, end);
    let exit_status = drive(machine, &mut survey, &mut keeper, &mut report)?;
    let run = Run {
        survey: &survey,
        lasted: machine.now(),
        state: None,
        exit_status,
        was_ended: report.has_ended_program,
    };
    Swept::new(program, space, keeper, run)
}
