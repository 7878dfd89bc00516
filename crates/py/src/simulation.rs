//! A run of a recording, or of several side by side, on a simulated machine, under a policy of Python.

use crate::policy::{PythonPolicy, Raised};
use pinfold_core::{
    Applied, Configuration, Machine, MachineError, MachineKind, Metric, NodeId, PuId, Sample, Topology, Wait,
};
use pinfold_runtime::{NumaBalancing, RecordBuilder, RunDocument, SimulatedProgram, Simulation};
use pinfold_sim::model::{self, Model};
use pinfold_sim::{
    EndSwitch, Kernel, NamedProgram, RecordedProgram, Repeat, RunSettings, SimulatedMachine, UnknownKernel,
};
use pinfold_trace::Recording;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The names of the models that come with pinfold.
#[pyfunction]
pub(crate) fn machines() -> Vec<&'static str> {
    model::builtin_names().collect()
}

/// A model that comes with pinfold, or one in a file.
pub(crate) fn model(machine: &str) -> PyResult<Model> {
    if let Some(model) = model::builtin(machine) {
        return Ok(model);
    }
    if Path::new(machine)
        .extension()
        .is_none_or(|extension| extension != "toml")
    {
        let names: Vec<&str> = model::builtin_names().collect();
        return Err(PyValueError::new_err(format!(
            "there is no machine model '{machine}': give the path of a FILE.toml, or one of {}",
            names.join(", ")
        )));
    }
    let text = std::fs::read_to_string(machine)
        .map_err(|error| PyOSError::new_err(format!("cannot read the model '{machine}': {error}")))?;
    Model::parse(machine, &text).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// A recording that can be simulated.
fn program(file: &Path, salvage: bool) -> PyResult<(Vec<String>, Arc<RecordedProgram>)> {
    let recording = if salvage {
        Recording::salvage(file).map(|(recording, _)| recording)
    } else {
        Recording::open(file)
    };
    let recording = recording.map_err(|error| PyValueError::new_err(error.to_string()))?;
    if recording.threads().iter().all(|thread| thread.accesses() == 0) {
        return Err(PyValueError::new_err(format!(
            "{} holds no data access, so there is nothing to simulate",
            file.display()
        )));
    }
    let command = recording.header().command.clone();
    let program = RecordedProgram::new(recording).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok((command, Arc::new(program)))
}

/// A simulated machine that ends the run when the policy has raised an exception, or the user has interrupted Python.
struct Interruptible {
    machine: SimulatedMachine,
    raised: Raised,
}

impl Machine for Interruptible {
    fn topology(&self) -> &Topology {
        self.machine.topology()
    }

    fn kind(&self) -> MachineKind {
        self.machine.kind()
    }

    fn metrics(&self) -> &[Metric] {
        self.machine.metrics()
    }

    fn observe(&mut self) -> Sample {
        self.machine.observe()
    }

    fn take_notes(&mut self) -> Vec<String> {
        self.machine.take_notes()
    }

    fn memory_by_node(&mut self) -> Option<BTreeMap<NodeId, u64>> {
        self.machine.memory_by_node()
    }

    fn memory_traffic(&mut self) -> Option<BTreeMap<NodeId, f64>> {
        self.machine.memory_traffic()
    }

    fn apply(&mut self, configuration: &Configuration) -> Applied {
        self.machine.apply(configuration)
    }

    fn now(&self) -> Duration {
        self.machine.now()
    }

    fn wait(&mut self, duration: Duration) -> Result<Wait, MachineError> {
        let mut raised = self.raised.borrow_mut();
        if raised.is_none() {
            #[expect(
                clippy::redundant_closure_for_method_calls,
                reason = "the method alone is not for any lifetime"
            )]
            let interrupted = Python::attach(|py| py.check_signals());
            *raised = interrupted.err();
        }
        if raised.is_some() {
            return Err(MachineError("the policy has failed".to_owned()));
        }
        drop(raised);
        self.machine.wait(duration)
    }
}

/// What a run needs, outside Python.
struct Wanted {
    model: Model,
    recordings: Vec<PathBuf>,
    programs: Vec<(Vec<String>, Arc<RecordedProgram>)>,
    repeat: Option<NonZeroU64>,
    seed: u64,
    noise: f64,
    kernel: Kernel,
    numa_balancing: bool,
}

/// Runs recordings side by side under a policy of Python. The record of the run, as `pinfold run --json` writes it.
#[pyfunction]
#[pyo3(signature = (policy, name, recordings, machine, *, repeat=None, seed=0, noise=0.0, kernel=None,
    numa_balancing=false, salvage=false))]
#[expect(clippy::too_many_arguments, reason = "they are the keywords of pinfold.simulate")]
pub(crate) fn simulate(
    py: Python<'_>,
    policy: Py<PyAny>,
    name: &str,
    recordings: Vec<PathBuf>,
    machine: &str,
    repeat: Option<u64>,
    seed: u64,
    noise: f64,
    kernel: Option<&str>,
    numa_balancing: bool,
    salvage: bool,
) -> PyResult<String> {
    let repeat = repeat
        .map(|times| NonZeroU64::new(times).ok_or_else(|| PyValueError::new_err("repeat=0: give a number from 1 on")))
        .transpose()?;
    if !(0.0..=100.0).contains(&noise) {
        return Err(PyValueError::new_err(format!(
            "noise={noise}: give a percentage, from 0 to 100"
        )));
    }
    if recordings.is_empty() {
        return Err(PyValueError::new_err("there is no recording to simulate"));
    }
    let kernel = kernel.map(str::parse).transpose();
    let kernel: Option<Kernel> = kernel.map_err(|error: UnknownKernel| PyValueError::new_err(error.to_string()))?;
    if numa_balancing {
        let checked = kernel.unwrap_or_default().check_numa_balancing();
        checked.map_err(|error| PyValueError::new_err(error.to_string()))?;
    }
    let model = model(machine)?;
    py.detach(|| {
        let programs = recordings
            .iter()
            .map(|file| program(file, salvage))
            .collect::<PyResult<_>>()?;
        let wanted = Wanted {
            model,
            recordings,
            programs,
            repeat,
            seed,
            noise: noise / 100.0,
            kernel: kernel.unwrap_or_default(),
            numa_balancing,
        };
        run(policy, name, &wanted)
    })
}

/// The name of a program's tasks: fifteen characters, as the kernel keeps it.
fn task_name(command: &[String]) -> String {
    let name = command
        .first()
        .map_or("program", |word| word.rsplit('/').next().unwrap_or(word));
    name.chars().take(15).collect()
}

fn run(policy: Py<PyAny>, name: &str, wanted: &Wanted) -> PyResult<String> {
    let end = EndSwitch::default();
    let (mut policy, raised) = PythonPolicy::new(policy, name, end.clone());
    let programs = wanted.programs.iter().map(|(command, program)| NamedProgram {
        name: task_name(command),
        program: Arc::clone(program) as _,
    });
    let run = RunSettings {
        repeat: wanted.repeat.map_or(Repeat::UntilAsked(end), Repeat::Times),
        exit_status: 0,
        seed: wanted.seed,
        noise: wanted.noise,
        kernel: wanted.kernel,
        numa_balancing: wanted.numa_balancing,
    };
    let topology = wanted.model.topology();
    let mut machine = Interruptible {
        machine: SimulatedMachine::new(wanted.model.clone(), topology.clone(), programs.collect(), run),
        raised: Rc::clone(&raised),
    };
    let mut record = RecordBuilder::new(&machine, name).with_timeline(&machine);
    let ended = pinfold_runtime::run(&mut machine, &mut policy, &mut record, &mut ());
    if let Some(error) = raised.borrow_mut().take() {
        return Err(error);
    }
    ended.map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
    let document = RunDocument {
        version: Some(RunDocument::VERSION),
        pinfold: env!("CARGO_PKG_VERSION").to_owned(),
        command: wanted
            .programs
            .iter()
            .flat_map(|(command, _)| command.clone())
            .collect(),
        topology: pinfold_core::summary(&topology),
        allowed_pus: topology.allowed_pus().to_string(),
        simulation: Some(simulation(&machine.machine, wanted)),
        record: record.finish(),
        ..RunDocument::default()
    };
    serde_json::to_string(&document).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// The record of automatic NUMA balancing that was on.
fn balancing(machine: &SimulatedMachine) -> NumaBalancing {
    let counts = machine.numa_balancing().unwrap_or_default();
    NumaBalancing {
        scans: counts.scans,
        hint_faults: counts.hint_faults,
        pages_moved: counts.pages_moved,
        tasks_moved: counts.tasks_moved,
    }
}

/// How the programs were simulated.
fn simulation(machine: &SimulatedMachine, wanted: &Wanted) -> Simulation {
    let seconds = machine.now().as_secs_f64();
    let programs: Vec<SimulatedProgram> = machine
        .programs()
        .into_iter()
        .zip(&wanted.recordings)
        .zip(&wanted.programs)
        .map(|((program, recording), (command, _))| SimulatedProgram {
            recording: Some(recording.clone()),
            name: task_name(command),
            process: program.process,
            tasks: program.tasks,
            pus: program.pus.into_iter().collect::<Option<Vec<PuId>>>(),
            repetitions: program.repetitions,
            speed: (seconds > 0.0).then(|| program.repetitions / seconds),
            paused: program.paused.as_secs_f64(),
            unrecorded_wait_share: program.unrecorded_wait_share,
            events: program.events.into_iter().collect(),
        })
        .collect();
    Simulation {
        model: wanted.model.name.clone(),
        recording: match wanted.recordings.as_slice() {
            [recording] => Some(recording.clone()),
            _ => None,
        },
        repeat: wanted
            .repeat
            .map_or_else(|| "auto".to_owned(), |times| times.to_string()),
        repetitions: programs.iter().map(|program| program.repetitions).sum(),
        seed: wanted.seed,
        noise: wanted.noise,
        kernel: wanted.kernel.to_string(),
        numa_balancing: wanted.numa_balancing.then(|| balancing(machine)),
        page_map: None,
        prefetch: None,
        windows: machine.windows(),
        paused: programs.iter().map(|program| program.paused).sum(),
        programs,
    }
}
