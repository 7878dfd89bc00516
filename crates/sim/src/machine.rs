//! The simulated machine as a `Machine`: a program's run on a model, with the counters that a real one would show.

use crate::events::{COUNTS_OF_A_JOULE, ENERGY_UNIT, EventDefinition, EventSet};
use crate::model::Model;
use crate::timeline::{Energy, Program, Timeline};
use pinfold_core::{
    Applied, Configuration, Count, Machine, MachineError, Metric, MetricSource, NodeSet, PageMapping, PuId, Refusal,
    Sample, Scope, TaskId, TaskSample, Topology, Wait,
};
use std::cell::Cell;
use std::num::NonZeroU64;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Asks a simulated program to end. It ends with the repetition that is going on.
#[derive(Clone, Debug, Default)]
pub struct EndSwitch(Rc<Cell<bool>>);

impl EndSwitch {
    /// The program shall end.
    pub fn end(&self) {
        self.0.set(true);
    }
}

/// How often the program does its piece.
#[derive(Clone, Debug)]
pub enum Repeat {
    /// So many times.
    Times(NonZeroU64),
    /// Until somebody asks it to end, or a virtual day has passed.
    UntilAsked(EndSwitch),
}

/// The program ends after this time whatever is asked, in seconds: a policy that never comes to its end shall not keep
/// the user waiting for ever.
const LONGEST: f64 = 86_400.0;

/// What of a run may be set.
#[derive(Clone, Debug)]
pub struct Run {
    /// The tasks' name.
    pub name: String,
    /// How often the program does its piece.
    pub repeat: Repeat,
    /// What the program ends with.
    pub exit_status: i32,
    /// What the scheduler's chance follows from.
    pub seed: u64,
}

/// The process id of the simulated program. Its threads count on from it.
const PROCESS: i32 = 1000;

/// A program's run on a model.
pub struct SimulatedMachine {
    topology: Topology,
    timeline: Timeline,
    events: Vec<EventDefinition>,
    energy: Vec<Energy>,
    /// Regions of a repetition, where they are known.
    regions: Option<u64>,
    metrics: Vec<Metric>,
    tasks: Vec<TaskId>,
    program: Arc<dyn Program>,
    run: Run,
    /// The repetition with which the program ends, once it was asked to.
    last: Option<f64>,
    notes: Vec<String>,
    told_released: bool,
    /// The clock of the run, in whole nanoseconds as policies see it.
    now: Duration,
    ended: bool,
}

impl SimulatedMachine {
    /// A run that has not begun. `topology` is the model's, restricted to the PUs that may be used.
    pub fn new(model: Model, topology: Topology, program: Arc<dyn Program>, run: Run) -> Self {
        let threads = program.threads();
        let events = EventSet::of_machine(&model.name);
        let energy = EventSet::energy_of_machine(&model.name);
        let regions = program.regions().filter(|&regions| regions > 0);
        let mut metrics = vec![];
        if regions.is_some() {
            metrics.push(Metric {
                name: "regions".to_owned(),
                unit: "region".to_owned(),
                source: MetricSource::Regions,
                scope: Scope::Program,
            });
        }
        metrics.push(Metric {
            name: "iterations".to_owned(),
            unit: "iteration".to_owned(),
            source: MetricSource::Iterations,
            scope: Scope::Program,
        });
        metrics.extend(events.iter().map(|event| Metric {
            name: format!("event:{}", event.name),
            unit: event.unit.clone(),
            source: MetricSource::Event,
            scope: Scope::Task,
        }));
        metrics.extend(energy.iter().map(|energy| Metric {
            name: format!("event:{}", energy.event_name()),
            unit: ENERGY_UNIT.to_owned(),
            source: MetricSource::Event,
            scope: Scope::Program,
        }));
        let mut notes = vec![];
        let pus = topology.allowed_pus().len();
        let at_once = program.threads_at_once();
        if at_once > pus {
            notes.push(format!(
                "The recording has {at_once} threads at once and the machine {pus} CPUs: they take turns, in time slices \
                 of 3 ms."
            ));
        }
        let tasks = (0..threads)
            .map(|thread| TaskId {
                serial: thread as u64,
                process: PROCESS,
                thread: PROCESS.saturating_add(i32::try_from(thread).unwrap_or(i32::MAX)),
            })
            .collect();
        Self {
            timeline: Timeline::new(model, Arc::clone(&program), topology.allowed_pus(), run.seed),
            topology,
            events,
            energy,
            regions,
            metrics,
            tasks,
            program,
            run,
            last: None,
            notes,
            told_released: false,
            now: Duration::ZERO,
            ended: false,
        }
    }

    /// Repetitions that are done, with the part that is done of the present one.
    pub fn repetitions(&self) -> f64 {
        self.timeline.progress()
    }

    /// How many configurations had to be simulated in detail.
    pub fn windows(&self) -> usize {
        self.timeline.windows()
    }

    /// For how long the program stood still because its pages followed its threads.
    pub fn paused(&self) -> Duration {
        Duration::from_secs_f64(self.timeline.paused())
    }

    /// The repetition with which the program ends.
    fn end(&mut self) -> f64 {
        match &self.run.repeat {
            Repeat::Times(times) => times.get() as f64,
            Repeat::UntilAsked(switch) => {
                if self.last.is_none() && (switch.0.get() || self.timeline.clock() >= LONGEST) {
                    self.last = Some(self.timeline.progress().ceil());
                }
                self.last.unwrap_or(f64::INFINITY)
            }
        }
    }

    /// Where the events of tasks begin among the metrics, and those of the machine's energy.
    fn first_event(&self) -> (usize, usize) {
        let energy = self.metrics.len() - self.energy.len();
        (energy - self.events.len(), energy)
    }

    fn program_counts(&self) -> Vec<Option<Count>> {
        let progress = self.timeline.progress();
        let (_, first_energy) = self.first_event();
        let counts = self.metrics[..first_energy].iter().map(|metric| match metric.source {
            MetricSource::Regions => self.regions.map(|regions| whole(progress * regions as f64)),
            MetricSource::Iterations => Some(whole(progress)),
            _ => None,
        });
        let energy = self.energy.iter();
        counts
            .chain(energy.map(|&energy| Some(whole(self.timeline.joules(energy) * COUNTS_OF_A_JOULE))))
            .collect()
    }

    fn task_counts(&self, task: usize) -> Vec<Option<Count>> {
        let (first, _) = self.first_event();
        let events = self.events.iter().map(|event| {
            let counters = event.counters.iter();
            Some(whole(counters.map(|&counter| self.timeline.count(task, counter)).sum()))
        });
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
            return Some(Refusal::of_machine(format!(
                "there is no NUMA node {lacking} for the pages; there are {nodes}"
            )));
        }
        matches!(pages, PageMapping::WeightedInterleave(_)).then(|| {
            Refusal::of_machine(format!(
                "pages stay where they are, and not {pages}: the weights are those of a running kernel, and a machine model \
                 has none; interleave:{} gives each node the same number of pages",
                pages.named()
            ))
        })
    }

    fn refusal(&self, task: usize, pu: PuId) -> Option<Refusal> {
        (!self.topology.allowed_pus().contains(pu)).then(|| Refusal {
            task: Some(self.tasks[task]),
            why: format!(
                "CPU {pu} is not among those that may be used, {}",
                self.topology.allowed_pus()
            ),
        })
    }
}

/// A counter's whole counts.
fn whole(count: f64) -> Count {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a counter shows whole counts, and they are never negative; the last digits are rounding"
    )]
    let value = (count * (1.0 + 1e-12)) as u64;
    Count::exact(value)
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
            tasks: (0..self.tasks.len())
                .map(|task| TaskSample {
                    id: self.tasks[task],
                    name: self.run.name.clone(),
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
        let pages = pages.unwrap_or(self.timeline.mapping());
        let prefetchers = configuration.prefetchers.unwrap_or(self.timeline.prefetchers());
        self.timeline.configure(pins, pages, prefetchers);
        applied
    }

    fn now(&self) -> Duration {
        self.now
    }

    fn wait(&mut self, duration: Duration) -> Result<Wait, MachineError> {
        if !self.ended {
            let until = self.now + duration;
            let end = self.end();
            let ran = self.timeline.run(until.as_secs_f64(), end);
            if let Some(error) = self.program.error() {
                return Err(MachineError(error));
            }
            self.ended = ran.map_err(|error| MachineError(error.to_string()))?;
            let released = self.timeline.released();
            if released > 0 && !self.told_released {
                self.told_released = true;
                self.notes.push(format!(
                    "{released} times a thread waited for what the recording does not hold, and went on when nobody else \
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
