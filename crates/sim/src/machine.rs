//! The simulated machine as a `Machine`: one program, or several side by side, runs on a model, and the machine shows
//! the counters that a real one would show.

use crate::events::{EventDefinition, EventSet};
use crate::kernel::Kernel;
use crate::model::{Model, PAGE_BYTES};
use crate::noise::{Noise, Readings, Rows};
use crate::program::SimulatedProgram;
use crate::timeline::{
    Energy, KeptWindows, Mapped, Moved, NumaBalancingCounts, RegionRequest, Requested, Timeline, WindowStore,
};
use pinfold_core::function::FunctionSearch;
use pinfold_core::memory::{PageCount, PageMoves};
use pinfold_core::{
    Applied, COUNTS_OF_A_JOULE, Configuration, Count, ENERGY_UNIT, Machine, MachineError, MachineKind, Metric, NodeId,
    NodeSet, PageMapping, Pinning, ProcessGoal, PuId, Refusal, RefusalCode, RegionConfiguration, RegionId, RegionKeeps,
    RegionSample, Sample, Scope, TaskId, TaskSample, Topology, Wait, sources,
};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Asks simulated programs to end. Each completes its current repetition, and continues until all have completed
/// theirs.
#[derive(Clone, Debug, Default)]
pub struct EndSwitch(Rc<Cell<bool>>);

impl EndSwitch {
    /// Asks the programs to end.
    pub fn end(&self) {
        self.0.set(true);
    }

    /// Whether the programs were asked to end.
    pub(crate) fn is_asked(&self) -> bool {
        self.0.get()
    }
}

/// How often a program repeats its region of interest.
#[derive(Clone, Debug)]
pub enum Repeat {
    /// This number of times. Several programs side by side all do at least this number, and end together.
    Times(NonZeroU64),
    /// Until the programs are asked to end, or a virtual day has passed.
    UntilAsked(EndSwitch),
}

/// Programs end after a virtual day in any case, in seconds. A policy that never finishes must not keep the user
/// waiting.
pub(crate) const LONGEST: f64 = 86_400.0;

/// The time to read all metrics of one task, in seconds: "reading all metrics of a task" in evaluation/costs.json,
/// measured on an AMD EPYC. The simulated programs stand still meanwhile, as if the reader took the CPU of a thread
/// that all others wait for: an upper bound.
const READING: f64 = 2.1e-6;

/// The share of the threads' time spent waiting for events outside the recording, above which `sweep` and `run` warn.
pub const MUCH_UNRECORDED_WAIT: f64 = 0.1;

/// What the user can do about such waits.
pub const RECORD_REGIONS: &str = "Record whole regions with `pinfold record --region`, or a longer window.";

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct RunSettings {
    /// How often programs repeat their regions of interest.
    pub repeat: Repeat,
    /// The exit status of the programs.
    pub exit_status: i32,
    /// The seed of the run's random numbers, for the scheduler, the latency of transfers between caches, and the noise.
    pub seed: u64,
    /// The standard deviation of a metric's reading over a tenth of a second, relative to it. 0 for exact readings.
    pub noise: f64,
    /// The kernel, which places unpinned tasks.
    pub kernel: Kernel,
    /// Whether automatic NUMA balancing is on. A kernel that has none (`Kernel::check_numa_balancing`) ignores it.
    pub numa_balancing: bool,
}

/// One of the programs of a run.
#[derive(Clone)]
pub struct NamedProgram {
    /// Its tasks' name.
    pub name: String,
    /// What it does.
    pub program: Arc<dyn SimulatedProgram>,
}

/// The progress of one program of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramProgress {
    /// Its process.
    pub process: i32,
    /// How many tasks it has.
    pub tasks: usize,
    /// By rank: the task's last PU; `None` before the program has begun.
    pub pus: Vec<Option<PuId>>,
    /// Completed repetitions, with the completed part of the current one.
    pub repetitions: f64,
    /// How long it stood still because its pages were moved.
    pub paused: Duration,
    /// The share of its threads' time, in the current configuration, spent waiting for events outside the recording;
    /// `None` if unknown.
    pub unrecorded_wait_share: Option<f64>,
    /// The name of each event that tasks count, with the count of all tasks of the program.
    pub events: Vec<(String, f64)>,
}

/// The process id of the first simulated program. The ids of threads follow, program by program.
const FIRST: i32 = 1000;

/// The id of a task as the kernel would give it.
fn number(task: usize) -> i32 {
    FIRST.saturating_add(i32::try_from(task).unwrap_or(i32::MAX))
}

/// The metrics of a run: first the programs' metrics, then the events of tasks, then the machine's energy.
struct MetricSet {
    all: Vec<Metric>,
    events: Vec<EventDefinition>,
    energy: Vec<Energy>,
    /// By program: regions of a repetition. Empty if some program marks none.
    regions: Vec<u64>,
}

impl MetricSet {
    fn new(machine: &str, programs: &[NamedProgram]) -> Self {
        let events = EventSet::for_machine(machine);
        let energy = EventSet::energy_of_machine(machine);
        let regions: Option<Vec<u64>> = programs
            .iter()
            .map(|named| named.program.regions().filter(|&regions| regions > 0))
            .collect();
        let regions = regions.unwrap_or_default();
        let mut all = vec![];
        if !regions.is_empty() {
            all.push(sources::REGIONS.metric(Scope::Program));
        }
        all.push(sources::ITERATIONS.metric(Scope::Program));
        all.extend(events.iter().map(|event| Metric {
            name: format!("event:{}", event.name),
            unit: event.unit.clone(),
            source: &sources::EVENT,
            scope: Scope::Task,
        }));
        all.extend(energy.iter().map(|energy| Metric {
            name: format!("event:{}", energy.event_name()),
            unit: ENERGY_UNIT.to_owned(),
            source: &sources::EVENT,
            scope: Scope::Program,
        }));
        Self {
            all,
            events,
            energy,
            regions,
        }
    }

    /// The positions of the first event of tasks and of the first event of the machine's energy.
    fn first_event(&self) -> (usize, usize) {
        let energy = self.all.len() - self.energy.len();
        (energy - self.events.len(), energy)
    }
}

/// The note that threads share PUs, where the programs have more threads than the machine has allowed PUs.
fn shared_pus(programs: &[NamedProgram], pus: usize) -> Option<String> {
    let threads: usize = programs.iter().map(|named| named.program.threads_at_once()).sum();
    let what = match programs.len() {
        1 => "recording has",
        _ => "recordings have",
    };
    (threads > pus).then(|| {
        format!(
            "The {what} {threads} threads at the same time, and the machine has {pus} CPUs. The threads take turns, in \
             time slices of 3 ms."
        )
    })
}

/// The ids of all tasks, program by program.
fn task_ids(timeline: &Timeline, programs: usize) -> Vec<TaskId> {
    (0..programs)
        .flat_map(|program| {
            let tasks = timeline.tasks(program);
            let process = number(tasks.start);
            tasks.map(move |task| TaskId {
                serial: task as u64,
                process,
                thread: number(task),
            })
        })
        .collect()
}

/// Programs that run on a model.
pub struct SimulatedMachine {
    topology: Topology,
    timeline: Timeline,
    metrics: MetricSet,
    tasks: Vec<TaskId>,
    programs: Vec<NamedProgram>,
    run: RunSettings,
    /// By program: its last repetition, once it has been asked to end.
    last: Option<Vec<f64>>,
    notes: Vec<String>,
    /// By program: whether it was reported that it waits for events outside the recording.
    reported_waits: Vec<bool>,
    readings: Readings,
    /// The clock of the run, in whole nanoseconds as policies see it.
    now: Duration,
    ended: bool,
}

impl SimulatedMachine {
    /// A run that has not begun, of at least one program. `topology` is the model's, restricted to the allowed PUs.
    pub fn new(model: Model, topology: Topology, programs: Vec<NamedProgram>, run: RunSettings) -> Self {
        let metrics = MetricSet::new(&model.name, &programs);
        let notes = shared_pus(&programs, topology.allowed_pus().len())
            .into_iter()
            .collect();
        let parts = programs.iter().map(|named| Arc::clone(&named.program)).collect();
        let mut timeline = Timeline::new(model, run.kernel, parts, topology.allowed_pus(), run.seed);
        if run.numa_balancing && run.kernel.check_numa_balancing().is_ok() {
            timeline.balance_nodes(run.seed);
        }
        let tasks = task_ids(&timeline, programs.len());
        Self {
            timeline,
            topology,
            metrics,
            tasks,
            readings: Readings::new(Noise::new(run.noise, run.seed)),
            reported_waits: vec![false; programs.len()],
            programs,
            run,
            last: None,
            notes,
            now: Duration::ZERO,
            ended: false,
        }
    }

    /// Configurations that were simulated are taken from a store, and kept there. `run` is all that their rates depend
    /// on besides the configuration: the simulator, the recordings, the model and the seed.
    pub fn keep_windows(&mut self, store: Box<dyn WindowStore>, run: &[u8]) {
        self.timeline.keep(KeptWindows::new(store, run));
    }

    /// The progress of each program.
    pub fn programs(&self) -> Vec<ProgramProgress> {
        (0..self.programs.len())
            .map(|program| {
                let tasks = self.timeline.tasks(program);
                let count = |event: &EventDefinition| tasks.clone().map(|task| self.event(task, event)).sum();
                ProgramProgress {
                    process: number(tasks.start),
                    tasks: tasks.len(),
                    pus: tasks.clone().map(|task| self.timeline.place(task)).collect(),
                    repetitions: self.timeline.repetitions(program),
                    paused: Duration::from_secs_f64(self.timeline.paused(program)),
                    unrecorded_wait_share: self.timeline.unrecorded_wait_share(program),
                    events: self
                        .metrics
                        .events
                        .iter()
                        .map(|event| (event.name.clone(), count(event)))
                        .collect(),
                }
            })
            .collect()
    }

    /// What automatic NUMA balancing has done; `None` if it is off, or if the programs' memory has another policy.
    pub fn numa_balancing(&self) -> Option<NumaBalancingCounts> {
        self.timeline.numa_balancing()
    }

    /// How many configurations had to be simulated in detail, in this run or in one that has kept them.
    pub fn windows(&self) -> usize {
        self.timeline.windows()
    }

    /// By program: its last repetition.
    fn ends(&mut self) -> Vec<f64> {
        let programs = 0..self.programs.len();
        match &self.run.repeat {
            Repeat::Times(times) => vec![times.get() as f64; programs.len()],
            Repeat::UntilAsked(switch) => {
                if self.last.is_none() && (switch.is_asked() || self.timeline.clock() >= LONGEST) {
                    let present = programs
                        .clone()
                        .map(|program| self.timeline.repetitions(program).ceil());
                    self.last = Some(present.collect());
                }
                self.last.clone().unwrap_or_else(|| vec![f64::INFINITY; programs.len()])
            }
        }
    }

    /// Reports once each program whose threads wait for events outside the recording.
    fn report_waits(&mut self) {
        for (program, reported) in self.reported_waits.iter_mut().enumerate() {
            let share = self.timeline.unrecorded_wait_share(program);
            if !*reported && let Some(share) = share.filter(|&share| share > MUCH_UNRECORDED_WAIT) {
                *reported = true;
                self.notes.push(format!(
                    "In {:.0} % of the time of its threads, {} waits for what is not in the recording: the window begins and \
                     ends at another place of each thread, and its times are not those of the program. {RECORD_REGIONS}",
                    share * 100.0,
                    self.programs[program].name,
                ));
            }
        }
    }

    /// What is reported of pages that have moved.
    fn page_moves(&self, towards: &str, moved: Moved) -> PageMoves {
        let mut moves = PageMoves::towards(towards);
        moves.processes = self.programs.len();
        moves.moved = PageCount {
            pages: moved.pages,
            bytes: moved.pages * PAGE_BYTES,
        };
        moves.lasted = Duration::from_secs_f64(moved.seconds);
        moves
    }

    /// By program: where its pages are to be.
    fn goals_of(&self, processes: &BTreeMap<i32, ProcessGoal>) -> Vec<Option<ProcessGoal>> {
        (0..self.programs.len())
            .map(|program| processes.get(&number(self.timeline.tasks(program).start)).copied())
            .collect()
    }

    /// The count of an event for a task.
    fn event(&self, task: usize, event: &EventDefinition) -> f64 {
        let counters = event.counters.iter();
        counters.map(|&counter| self.timeline.count(task, counter)).sum()
    }

    /// The counts of the program, then of each task.
    fn exact_counts(&self) -> Rows {
        let tasks = (0..self.tasks.len()).map(|task| self.task_counts(task));
        std::iter::once(self.program_counts()).chain(tasks).collect()
    }

    fn program_counts(&self) -> Vec<Option<f64>> {
        let progress: Vec<f64> = (0..self.programs.len())
            .map(|program| self.timeline.repetitions(program))
            .collect();
        let (_, first_energy) = self.metrics.first_event();
        let counts = self.metrics.all[..first_energy].iter().map(|metric| {
            if metric.source == &sources::REGIONS {
                let done = progress.iter().zip(&self.metrics.regions);
                Some(done.map(|(progress, &regions)| progress * regions as f64).sum())
            } else if metric.source == &sources::ITERATIONS {
                Some(progress.iter().sum())
            } else {
                None
            }
        });
        let energy = self.metrics.energy.iter();
        counts
            .chain(energy.map(|&energy| Some(self.timeline.joules(energy) * COUNTS_OF_A_JOULE)))
            .collect()
    }

    fn task_counts(&self, task: usize) -> Vec<Option<f64>> {
        let (first, _) = self.metrics.first_event();
        let events = self.metrics.events.iter().map(|event| Some(self.event(task, event)));
        std::iter::repeat_n(None, first)
            .chain(events)
            .chain(std::iter::repeat_n(None, self.metrics.energy.len()))
            .collect()
    }

    /// Why pages cannot be mapped so; `None` if they can.
    fn mapping_refusal(&self, pages: PageMapping) -> Option<Refusal> {
        let nodes: NodeSet = self.topology.nodes().iter().map(|there| there.id).collect();
        let lacking = pages.named().difference(&nodes);
        if !lacking.is_empty() {
            return Some(Refusal::for_machine(
                RefusalCode::Pages,
                format!("there is no NUMA node {lacking} for the pages; there are {nodes}"),
            ));
        }
        matches!(pages, PageMapping::WeightedInterleave(_)).then(|| {
            Refusal::for_machine(RefusalCode::Pages, format!(
                "pages stay where they are, and not {pages}: the weights are those of a running kernel, and a machine model \
                 has none; interleave:{} gives each node the same number of pages",
                pages.named()
            ))
        })
    }

    /// The regions of the program; none where several run, whose regions may have the same address.
    fn regions(&self) -> Vec<RegionSample> {
        if self.programs.len() != 1 {
            return vec![];
        }
        let sample = |(region, growth): (u64, &crate::timeline::RegionGrowth)| RegionSample {
            id: RegionId(region),
            executions: growth.executions,
            seconds: growth.seconds,
            counts: Some(growth.counts),
            keeps: RegionKeeps::default(),
        };
        self.timeline.regions(0).map(sample).collect()
    }

    /// Where the threads of a region go: `ranks` has the rank of each task. A team of fewer threads than were recorded
    /// has neighbouring shares on one PU, as a static schedule would give one thread their iterations. A team of more
    /// threads is refused.
    fn region(
        &self,
        region: RegionId,
        wanted: &RegionConfiguration,
        ranks: &[Option<usize>],
        refused: &mut Vec<Refusal>,
    ) -> RegionRequest {
        let recorded = ranks.iter().flatten().count();
        if let Some(threads) = wanted.threads.filter(|&threads| threads > recorded) {
            refused.push(Refusal::for_machine(
                RefusalCode::Regions,
                format!(
                    "region {region} keeps its {recorded} threads, and does not get {threads}: a recording has no work for \
                     more threads than it was recorded with; record the program with {threads} threads"
                ),
            ));
        }
        let team = wanted.threads.unwrap_or(recorded).clamp(1, recorded.max(1));
        let pu = |pinning: &Pinning, rank: usize| pinning.pu(rank * team / recorded.max(1));
        let allowed = |pu: &PuId| self.topology.allowed_pus().contains(*pu);
        let pins = ranks.iter().enumerate().map(|(task, &rank)| {
            let pu = pu(wanted.pinning.as_ref()?, rank?);
            refused.extend(self.refusal(task, pu));
            Some(pu).filter(allowed)
        });
        RegionRequest {
            pins: pins.collect(),
            prefetchers: wanted.prefetchers,
        }
    }

    fn refusal(&self, task: usize, pu: PuId) -> Option<Refusal> {
        (!self.topology.allowed_pus().contains(pu)).then(|| {
            let allowed = self.topology.allowed_pus();
            let why = format!("CPU {pu} is not among those that may be used, {allowed}");
            Refusal::for_task(self.tasks[task], why)
        })
    }
}

/// Where pages of processes have moved to.
fn text_of_goals(goals: Option<&BTreeMap<i32, ProcessGoal>>) -> String {
    let Some(goals) = goals else {
        return PageMoves::AFTER_THREADS.to_owned();
    };
    let mut texts: Vec<String> = goals.values().map(ProcessGoal::to_string).collect();
    texts.sort_unstable();
    texts.dedup();
    if texts.is_empty() {
        PageMoves::BACK.to_owned()
    } else {
        texts.join(", ")
    }
}

/// A count as a whole number, as a counter shows it.
fn whole(count: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a counter shows whole counts that are never negative; fractions are rounding errors"
    )]
    let value = (count * (1.0 + 1e-12)) as u64;
    value
}

impl Machine for SimulatedMachine {
    fn topology(&self) -> &Topology {
        &self.topology
    }

    fn kind(&self) -> MachineKind {
        MachineKind::Simulated
    }

    fn metrics(&self) -> &[Metric] {
        &self.metrics.all
    }

    fn observe(&mut self) -> Sample {
        let exact = self.exact_counts();
        if !self.ended {
            self.timeline.interrupt(READING * self.tasks.len() as f64);
        }
        let rows = self.readings.read(self.now.as_secs_f64(), exact);
        let mut rows = rows.into_iter().map(|counts| {
            let counts = counts.into_iter();
            counts
                .map(|count| count.map(|count| Count::exact(whole(count))))
                .collect()
        });
        Sample {
            function: FunctionSearch::NotBegun,
            program: rows.next().unwrap_or_default(),
            at: self.now,
            tasks: (0..self.programs.len())
                .flat_map(|program| self.timeline.tasks(program).map(move |task| (program, task)))
                .map(|(program, task)| TaskSample {
                    id: self.tasks[task],
                    name: self.programs[program].name.clone(),
                    alive: !self.ended,
                    cpu_time: Some(Duration::from_secs_f64(self.timeline.processor_seconds(task))),
                    run_delay: None,
                    last_pu: self.timeline.place(task),
                    counts: rows.next().unwrap_or_default(),
                })
                .collect(),
            regions: self.regions(),
            machine: None,
        }
    }

    fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    fn memory_by_node(&mut self) -> Option<BTreeMap<NodeId, u64>> {
        self.timeline.memory_by_node()
    }

    fn memory_traffic(&mut self) -> Option<BTreeMap<NodeId, f64>> {
        let bytes = (0..).map(NodeId).zip(self.timeline.traffic().iter().copied());
        Some(bytes.collect())
    }

    fn apply(&mut self, configuration: &Configuration) -> Applied {
        let mut applied = Applied::default();
        let mut pins = vec![];
        let mut ranks = 0..;
        let mut ranked = vec![];
        for (task, &id) in self.tasks.iter().enumerate() {
            let rank = if configuration.left_alone.contains(&id) {
                None
            } else {
                ranks.next()
            };
            ranked.push(rank);
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
        applied.refused.extend(configuration.refused_limit());
        let pages = configuration.pages.filter(|&pages| {
            let refusal = self.mapping_refusal(pages);
            let possible = refusal.is_none();
            applied.refused.extend(refusal);
            possible
        });
        let regions: BTreeMap<u64, RegionRequest> = configuration
            .regions
            .iter()
            .map(|(&region, wanted)| (region.0, self.region(region, wanted, &ranked, &mut applied.refused)))
            .collect();
        let mapping = pages.unwrap_or(self.timeline.mapping());
        let mapped = self.timeline.configure(Requested {
            regions,
            pins,
            mapping,
            prefetchers: configuration.prefetchers.unwrap_or(self.timeline.prefetchers()),
            following_within: configuration.following_within.map(|within| within.as_secs_f64()),
            followed: configuration.followed.as_ref().map(|followed| self.goals_of(followed)),
            mapping_within: configuration.mapping_within.map(|within| within.as_secs_f64()),
        });
        match mapped {
            Mapped::InPlace => {}
            Mapped::Moved(moved) => applied.pages = Some(self.page_moves(&mapping.to_string(), moved)),
            Mapped::Followed(moved) => {
                let goals = configuration.followed.as_ref();
                applied.pages = Some(self.page_moves(&text_of_goals(goals), moved));
            }
            Mapped::TooLong(moved) => applied.refused.push(Refusal::for_pages(
                Duration::from_secs_f64(moved.seconds),
                format!(
                    "pages stay where they are: moving them to where {mapping} wants them would take {:.2} s",
                    moved.seconds
                ),
            )),
        }
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
            self.report_waits();
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
