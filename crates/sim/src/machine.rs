//! The simulated machine as a `Machine`: the run of a program, or of several side by side, on a model, with the counters that a
//! real one would show.

use crate::events::{EventDefinition, EventSet};
use crate::model::Model;
use crate::timeline::{Energy, Program, Timeline, Wanted};
use pinfold_core::{
    Applied, COUNTS_OF_A_JOULE, Configuration, Count, ENERGY_UNIT, Machine, MachineError, Metric, NodeSet, PageMapping,
    PuId, Refusal, RefusalCode, Sample, Scope, TaskId, TaskSample, Topology, Wait, sources,
};
use std::cell::Cell;
use std::num::NonZeroU64;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Asks simulated programs to end. Each does the repetition that is going on to its end, and goes on until all have.
#[derive(Clone, Debug, Default)]
pub struct EndSwitch(Rc<Cell<bool>>);

impl EndSwitch {
    /// The programs shall end.
    pub fn end(&self) {
        self.0.set(true);
    }
}

/// How often a program repeats its region of interest.
#[derive(Clone, Debug)]
pub enum Repeat {
    /// This number of times. Of several programs side by side each does at least this number, and none ends before the
    /// others.
    Times(NonZeroU64),
    /// Until somebody asks it to end, or a virtual day has passed.
    UntilAsked(EndSwitch),
}

/// Programs end after this time whatever is asked, in seconds: a policy that never comes to its end shall not keep
/// the user waiting for ever.
const LONGEST: f64 = 86_400.0;

/// What of a run may be set.
#[derive(Clone, Debug)]
pub struct Run {
    /// How often programs do their pieces.
    pub repeat: Repeat,
    /// What they end with.
    pub exit_status: i32,
    /// Where the random numbers of the run begin: those of the scheduler and of the latency of transfers between caches.
    pub seed: u64,
}

/// One of the programs that run.
#[derive(Clone)]
pub struct NamedProgram {
    /// Its tasks' name.
    pub name: String,
    /// What it does.
    pub program: Arc<dyn Program>,
}

/// What came of one of the programs that run.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramProgress {
    /// Its process.
    pub process: i32,
    /// How many tasks it has.
    pub tasks: usize,
    /// Repetitions that are done, with the part that is done of the present one.
    pub repetitions: f64,
    /// For how long it stood still because its pages were moved.
    pub paused: Duration,
    /// Each event that tasks count, by its name, and what all of the program's have counted.
    pub events: Vec<(String, f64)>,
}

/// The process id of the first simulated program. Threads count on from it, program by program.
const FIRST: i32 = 1000;

/// The number of a task as the kernel would give it.
fn number(task: usize) -> i32 {
    FIRST.saturating_add(i32::try_from(task).unwrap_or(i32::MAX))
}

/// The run of programs on a model.
pub struct SimulatedMachine {
    topology: Topology,
    timeline: Timeline,
    events: Vec<EventDefinition>,
    energy: Vec<Energy>,
    /// By program: regions of a repetition. Empty where not all of them mark any.
    regions: Vec<u64>,
    metrics: Vec<Metric>,
    tasks: Vec<TaskId>,
    programs: Vec<NamedProgram>,
    run: Run,
    /// By program: the repetition with which it ends, once it was asked to.
    last: Option<Vec<f64>>,
    notes: Vec<String>,
    reported_released: bool,
    /// The clock of the run, in whole nanoseconds as policies see it.
    now: Duration,
    ended: bool,
}

impl SimulatedMachine {
    /// A run that has not begun, of at least one program. `topology` is the model's, restricted to the PUs that may be used.
    pub fn new(model: Model, topology: Topology, programs: Vec<NamedProgram>, run: Run) -> Self {
        let events = EventSet::of_machine(&model.name);
        let energy = EventSet::energy_of_machine(&model.name);
        let regions: Option<Vec<u64>> = programs
            .iter()
            .map(|named| named.program.regions().filter(|&regions| regions > 0))
            .collect();
        let regions = regions.unwrap_or_default();
        let mut metrics = vec![];
        if !regions.is_empty() {
            metrics.push(sources::REGIONS.metric(Scope::Program));
        }
        metrics.push(sources::ITERATIONS.metric(Scope::Program));
        metrics.extend(events.iter().map(|event| Metric {
            name: format!("event:{}", event.name),
            unit: event.unit.clone(),
            source: &sources::EVENT,
            scope: Scope::Task,
        }));
        metrics.extend(energy.iter().map(|energy| Metric {
            name: format!("event:{}", energy.event_name()),
            unit: ENERGY_UNIT.to_owned(),
            source: &sources::EVENT,
            scope: Scope::Program,
        }));
        let mut notes = vec![];
        let pus = topology.allowed_pus().len();
        let at_once: usize = programs.iter().map(|named| named.program.threads_at_once()).sum();
        if at_once > pus {
            let what = match programs.len() {
                1 => "recording has",
                _ => "recordings have",
            };
            notes.push(format!(
                "The {what} {at_once} threads at once and the machine {pus} CPUs: they take turns, in time slices of 3 ms."
            ));
        }
        let parts = programs.iter().map(|named| Arc::clone(&named.program)).collect();
        let timeline = Timeline::new(model, parts, topology.allowed_pus(), run.seed);
        let tasks = (0..programs.len())
            .flat_map(|program| {
                let tasks = timeline.tasks(program);
                let process = number(tasks.start);
                tasks.map(move |task| TaskId {
                    serial: task as u64,
                    process,
                    thread: number(task),
                })
            })
            .collect();
        Self {
            timeline,
            topology,
            events,
            energy,
            regions,
            metrics,
            tasks,
            programs,
            run,
            last: None,
            notes,
            reported_released: false,
            now: Duration::ZERO,
            ended: false,
        }
    }

    /// What came of each program.
    pub fn programs(&self) -> Vec<ProgramProgress> {
        (0..self.programs.len())
            .map(|program| {
                let tasks = self.timeline.tasks(program);
                let count = |event: &EventDefinition| tasks.clone().map(|task| self.event(task, event)).sum();
                ProgramProgress {
                    process: number(tasks.start),
                    tasks: tasks.len(),
                    repetitions: self.timeline.repetitions(program),
                    paused: Duration::from_secs_f64(self.timeline.paused(program)),
                    events: self
                        .events
                        .iter()
                        .map(|event| (event.name.clone(), count(event)))
                        .collect(),
                }
            })
            .collect()
    }

    /// How many configurations had to be simulated in detail.
    pub fn windows(&self) -> usize {
        self.timeline.windows()
    }

    /// By program: the repetition with which it ends.
    fn ends(&mut self) -> Vec<f64> {
        let programs = 0..self.programs.len();
        match &self.run.repeat {
            Repeat::Times(times) => vec![times.get() as f64; programs.len()],
            Repeat::UntilAsked(switch) => {
                if self.last.is_none() && (switch.0.get() || self.timeline.clock() >= LONGEST) {
                    let present = programs
                        .clone()
                        .map(|program| self.timeline.repetitions(program).ceil());
                    self.last = Some(present.collect());
                }
                self.last.clone().unwrap_or_else(|| vec![f64::INFINITY; programs.len()])
            }
        }
    }

    /// What a task has counted of an event.
    fn event(&self, task: usize, event: &EventDefinition) -> f64 {
        let counters = event.counters.iter();
        counters.map(|&counter| self.timeline.count(task, counter)).sum()
    }

    /// Where the events of tasks begin among the metrics, and those of the machine's energy.
    fn first_event(&self) -> (usize, usize) {
        let energy = self.metrics.len() - self.energy.len();
        (energy - self.events.len(), energy)
    }

    fn program_counts(&self) -> Vec<Option<Count>> {
        let progress: Vec<f64> = (0..self.programs.len())
            .map(|program| self.timeline.repetitions(program))
            .collect();
        let (_, first_energy) = self.first_event();
        let counts = self.metrics[..first_energy].iter().map(|metric| {
            if metric.source == &sources::REGIONS {
                let done = progress.iter().zip(&self.regions);
                Some(done.map(|(progress, &regions)| whole(progress * regions as f64)).sum())
            } else if metric.source == &sources::ITERATIONS {
                Some(progress.iter().map(|&progress| whole(progress)).sum())
            } else {
                None
            }
        });
        let energy = self.energy.iter();
        counts
            .chain(energy.map(|&energy| Some(whole(self.timeline.joules(energy) * COUNTS_OF_A_JOULE))))
            .map(|count| count.map(Count::exact))
            .collect()
    }

    fn task_counts(&self, task: usize) -> Vec<Option<Count>> {
        let (first, _) = self.first_event();
        let events = self
            .events
            .iter()
            .map(|event| Some(Count::exact(whole(self.event(task, event)))));
        std::iter::repeat_n(None, first)
            .chain(events)
            .chain(std::iter::repeat_n(None, self.energy.len()))
            .collect()
    }

    /// Why pages cannot be so; `None` where they can.
    fn not_so(&self, pages: PageMapping) -> Option<Refusal> {
        let nodes: NodeSet = self.topology.nodes().iter().map(|there| there.id).collect();
        let lacking = pages.named().difference(&nodes);
        if !lacking.is_empty() {
            return Some(Refusal::of_machine(
                RefusalCode::Pages,
                format!("there is no NUMA node {lacking} for the pages; there are {nodes}"),
            ));
        }
        matches!(pages, PageMapping::WeightedInterleave(_)).then(|| {
            Refusal::of_machine(RefusalCode::Pages, format!(
                "pages stay where they are, and not {pages}: the weights are those of a running kernel, and a machine model \
                 has none; interleave:{} gives each node the same number of pages",
                pages.named()
            ))
        })
    }

    fn refusal(&self, task: usize, pu: PuId) -> Option<Refusal> {
        (!self.topology.allowed_pus().contains(pu)).then(|| {
            let allowed = self.topology.allowed_pus();
            let why = format!("CPU {pu} is not among those that may be used, {allowed}");
            Refusal::of_task(self.tasks[task], why)
        })
    }
}

/// A counter's whole counts.
fn whole(count: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a counter shows whole counts, and they are never negative; the last digits are rounding"
    )]
    let value = (count * (1.0 + 1e-12)) as u64;
    value
}

impl Machine for SimulatedMachine {
    fn topology(&self) -> &Topology {
        &self.topology
    }

    fn simulated(&self) -> bool {
        true
    }

    fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    fn observe(&mut self) -> Sample {
        Sample {
            at: self.now,
            tasks: (0..self.programs.len())
                .flat_map(|program| self.timeline.tasks(program).map(move |task| (program, task)))
                .map(|(program, task)| TaskSample {
                    id: self.tasks[task],
                    name: self.programs[program].name.clone(),
                    alive: !self.ended,
                    cpu_time: Some(Duration::from_secs_f64(self.timeline.processor_seconds(task))),
                    last_pu: self.timeline.place(task),
                    counts: self.task_counts(task),
                })
                .collect(),
            program: self.program_counts(),
        }
    }

    fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    fn apply(&mut self, configuration: &Configuration) -> Applied {
        let mut applied = Applied::default();
        let mut pins = vec![];
        let mut ranks = 0..;
        for (task, &id) in self.tasks.iter().enumerate() {
            let rank = if configuration.left_alone.contains(&id) {
                None
            } else {
                ranks.next()
            };
            let before = self.timeline.pin(task);
            let pin = configuration.pu_of(id, rank);
            if let Some(refusal) = pin.and_then(|pu| self.refusal(task, pu)) {
                applied.refused.push(refusal);
                pins.push(before);
                continue;
            }
            if pin != before {
                applied.moved.push(id);
            }
            pins.push(pin);
        }
        let pages = configuration.pages.filter(|&pages| {
            let refusal = self.not_so(pages);
            let possible = refusal.is_none();
            applied.refused.extend(refusal);
            possible
        });
        self.timeline.configure(Wanted {
            pins,
            mapping: pages.unwrap_or(self.timeline.mapping()),
            prefetchers: configuration.prefetchers.unwrap_or(self.timeline.prefetchers()),
            following_within: configuration.following_within.map(|within| within.as_secs_f64()),
        });
        applied
    }

    fn now(&self) -> Duration {
        self.now
    }

    fn wait(&mut self, duration: Duration) -> Result<Wait, MachineError> {
        if !self.ended {
            let until = self.now + duration;
            let ends = self.ends();
            let ran = self.timeline.run(until.as_secs_f64(), &ends);
            if let Some(error) = self.timeline.error() {
                return Err(MachineError(error));
            }
            self.ended = ran.map_err(|error| MachineError(error.to_string()))?;
            let released = self.timeline.released();
            if released > 0 && !self.reported_released {
                self.reported_released = true;
                self.notes.push(format!(
                    "{released} times a thread waited for what the recording does not contain, and went on when no other \
                     could: the order of threads is not that of the program there."
                ));
            }
            self.now = if self.ended {
                Duration::from_secs_f64(self.timeline.clock())
            } else {
                until
            };
        }
        Ok(if self.ended {
            Wait::Ended(self.run.exit_status)
        } else {
            Wait::Elapsed
        })
    }
}
