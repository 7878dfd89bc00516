//! The time line of a run: repetitions of programs' regions of interest, fast-forwarded with the rates of simulated
//! windows.
//!
//! One program or several run, each at its own rate and in its own process. Time advances in steps in which nothing
//! changes. The number of repetitions in a step does not matter:
//!
//! 1. While a program's pages are moved, or its counters are read, the program is paused.
//! 2. After some of a program's threads were moved, the work of one repetition has the rates of a cold repetition.
//! 3. Further work has the rates of a warm one.
//! 4. Where tasks are not pinned, the scheduler decides in every balancing interval whether to move one.
//! 5. Where automatic NUMA balancing is on, each of its scans may move pages and tasks.
//!
//! Counts grow evenly within a repetition. The model, the regions of interest and the seed determine the result.
//!
//! Known limits: after a change of a single thread all caches of its program count as cold. Threads keep their PUs
//! while they wait. The work of the kernel itself takes no time. A thread lives for the whole run, though each
//! repetition begins and ends it. While the pages of all programs are moved, the machine uses the energy of an idle
//! one; while those of some programs are moved, it uses the energy of all programs running.

mod cache_aware;
mod counter;
mod kept;
mod mix;
mod numa;
mod pages;
mod progress;
mod regions;
mod repeated;
mod requested;
mod scheduler;
mod windows;

pub use counter::{Counter, Energy};
pub(crate) use kept::KeptWindows;
pub use kept::WindowStore;
pub use numa::NumaBalancingCounts;
pub(crate) use regions::{RegionGrowth, RegionRequest};
pub(crate) use requested::{Mapped, Requested};

use crate::kernel::Kernel;
use crate::model::{Model, PAGE_BYTES};
use crate::program::SimulatedProgram;
use crate::window::{PageMapping, Prefetchers, WindowError};
use cache_aware::{CacheAware, Process};
use mix::Mix;
use numa::{NumaBalancing, Present};
pub(crate) use pages::Moved;
use pages::{Homes, Pages};
use pinfold_core::memory::SAMPLED_BEFORE;
use pinfold_core::{NodeId, ProcessGoal, PuId, PuSet};
use progress::Progress;
use regions::places;
use scheduler::{Assignment, Scheduler};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use windows::{Rates, Setting, Windows};

/// A task that runs for less than this share of the time is asleep whenever the scheduler runs. Assumed.
const SLEEPING_SHARE: f64 = 0.01;

/// Where tasks and pages are, and which prefetchers are on.
struct Placed {
    /// By task: its pinned PU.
    pins: Vec<Option<PuId>>,
    assignment: Assignment,
    /// The input of the pages' nodes. Pages have no nodes before the programs have begun.
    homes: Homes,
    /// By task: its first home.
    origins: Vec<u8>,
    prefetchers: Prefetchers,
    regions: BTreeMap<u64, RegionRequest>,
}

/// The run of programs on a model. Tasks are the programs' threads, numbered program by program.
pub(crate) struct Timeline {
    model: Model,
    mix: Mix,
    pages: Pages,
    windows: Windows,
    scheduler: Scheduler,
    placed: Placed,
    /// The rates of the current setting; `None` before they are needed.
    rates: Option<Rc<Rates>>,
    /// Seconds since the programs began.
    clock: f64,
    /// The time of the next balancing.
    next_balance: f64,
    /// By program.
    progress: Vec<Progress>,
    /// Energy that the machine has used, in joules.
    energy: [f64; Energy::NUMBER],
    /// By node: bytes that its memory has read and written.
    traffic: Vec<f64>,
    /// The bytes on each node, and the homes that they were counted with.
    by_node: Option<(Homes, BTreeMap<NodeId, u64>)>,
    /// The programs whose accesses were sampled.
    sampled: BTreeSet<usize>,
    /// Pages that move when accesses have been sampled.
    coming: Option<Coming>,
    /// Automatic NUMA balancing, if it is on and the programs' memory is in it.
    numa: Option<NumaBalancing>,
}

/// Pages that will be at these homes.
struct Coming {
    at: f64,
    homes: Homes,
    moved: Vec<Moved>,
}

impl Timeline {
    /// A run that has not begun, on these PUs of a machine with this kernel.
    pub(crate) fn new(
        model: Model,
        kernel: Kernel,
        programs: Vec<Arc<dyn SimulatedProgram>>,
        allowed: &PuSet,
        seed: u64,
    ) -> Self {
        let mix = Mix::new(programs);
        let threads = mix.all_threads();
        let gathers = kernel.gathers_processes();
        let caches = gathers.then(|| CacheAware::new(&model, processes(&mix))).flatten();
        let scheduler = Scheduler::new(kernel, &model, allowed, caches, seed);
        let nodes = model.nodes();
        Self {
            pages: Pages::new(&model, mix.page_owners()),
            windows: Windows::new(seed),
            next_balance: scheduler.interval(),
            scheduler,
            placed: Placed {
                pins: vec![None; threads],
                assignment: vec![None; threads],
                homes: Homes {
                    mapping: PageMapping::FirstTouch,
                    interleaved: vec![false; mix.threads().len()],
                    nodes: vec![],
                    balanced: None,
                },
                origins: vec![],
                prefetchers: Prefetchers::ALL,
                regions: BTreeMap::new(),
            },
            rates: None,
            clock: 0.0,
            progress: mix
                .threads()
                .iter()
                .map(|threads| Progress::new(threads.len()))
                .collect(),
            energy: [0.0; Energy::NUMBER],
            traffic: vec![0.0; nodes],
            by_node: None,
            sampled: BTreeSet::new(),
            coming: None,
            numa: None,
            model,
            mix,
        }
    }

    /// Turns automatic NUMA balancing on for a run that has not begun.
    pub(crate) fn balance_nodes(&mut self, seed: u64) {
        let programs = self.mix.threads().iter().cloned().zip(self.mix.pages());
        self.numa = Some(NumaBalancing::new(programs, self.model.nodes(), seed));
    }

    /// What automatic NUMA balancing has done; `None` if it is off, or the memory of all programs is excluded.
    pub(crate) fn numa_balancing(&self) -> Option<NumaBalancingCounts> {
        self.numa.as_ref().map(NumaBalancing::counts)
    }

    /// Simulated configurations are taken from a store, and kept there.
    pub(crate) fn keep(&mut self, kept: KeptWindows) {
        self.windows.keep(kept);
    }

    /// Seconds since the programs began.
    pub(crate) fn clock(&self) -> f64 {
        self.clock
    }

    /// Completed repetitions of a program, with the completed part of the current one.
    pub(crate) fn repetitions(&self, program: usize) -> f64 {
        self.progress[program].repetitions
    }

    /// How long a program was paused because its pages moved, in seconds.
    pub(crate) fn paused(&self, program: usize) -> f64 {
        self.progress[program].paused
    }

    /// The tasks of a program.
    pub(crate) fn tasks(&self, program: usize) -> Range<usize> {
        self.mix.threads()[program].clone()
    }

    /// The error of a program that could not be read, if any.
    pub(crate) fn error(&self) -> Option<String> {
        self.mix.error()
    }

    /// The number of configurations that were simulated.
    pub(crate) fn windows(&self) -> usize {
        self.windows.len()
    }

    /// The share of a program's time, in the current setting, spent waiting for events outside the recording.
    pub(crate) fn unrecorded_wait_share(&self, program: usize) -> Option<f64> {
        self.rates.as_ref()?.programs[program].unrecorded_wait_share
    }

    /// The count of a task.
    pub(crate) fn count(&self, task: usize, counter: Counter) -> f64 {
        let program = self.mix.program_of(task);
        self.progress[program].counts[task - self.mix.threads()[program].start][counter as usize]
    }

    /// By node: bytes that its memory has read and written since the programs began. Moves of pages are not counted.
    pub(crate) fn traffic(&self) -> &[f64] {
        &self.traffic
    }

    /// Energy that the machine has used since the programs began, in joules.
    pub(crate) fn joules(&self, energy: Energy) -> f64 {
        self.energy[energy as usize]
    }

    /// The processor time of a task, in seconds.
    pub(crate) fn processor_seconds(&self, task: usize) -> f64 {
        self.count(task, Counter::ReferenceCycles) / self.model.frequency().0
    }

    /// The PU of a task; `None` before the program has begun.
    pub(crate) fn place(&self, task: usize) -> Option<PuId> {
        self.placed.assignment[task]
    }

    /// The PU that a task is pinned to.
    pub(crate) fn pin(&self, task: usize) -> Option<PuId> {
        self.placed.pins[task]
    }

    /// The page mapping.
    pub(crate) fn mapping(&self) -> PageMapping {
        self.placed.homes.mapping
    }

    /// The bytes of all programs on each node; `None` before they have begun.
    pub(crate) fn memory_by_node(&mut self) -> Option<BTreeMap<NodeId, u64>> {
        let homes = &self.placed.homes;
        if homes.nodes.is_empty() {
            return None;
        }
        if let Some((known, bytes)) = &self.by_node
            && known == homes
        {
            return Some(bytes.clone());
        }
        let bytes = self.pages.bytes_by_node(&self.model, &self.mix, homes);
        self.by_node = Some((homes.clone(), bytes.clone()));
        Some(bytes)
    }

    /// The prefetchers that are on.
    pub(crate) fn prefetchers(&self) -> Prefetchers {
        self.placed.prefetchers
    }

    /// Pins or unpins tasks, places pages and sets prefetchers. An unpinned task stays until the scheduler moves it.
    pub(crate) fn configure(&mut self, requested: Requested) -> Mapped {
        let before = self.placed.assignment.clone();
        for (place, pin) in self.placed.assignment.iter_mut().zip(&requested.pins) {
            *place = pin.or(*place);
        }
        self.placed.pins = requested.pins;
        if self.placed.prefetchers != requested.prefetchers {
            self.placed.prefetchers = requested.prefetchers;
            self.rates = None;
        }
        let replaced = std::mem::replace(&mut self.placed.regions, requested.regions);
        let regions_move = self.moves_in_regions(&replaced);
        if replaced != self.placed.regions {
            self.rates = None;
        }
        if self.placed.homes.nodes.is_empty() {
            self.placed.homes.mapping = requested.mapping;
            return Mapped::InPlace;
        }
        let moved: Vec<usize> = (0..before.len())
            .filter(|&task| self.placed.assignment[task] != before[task] || regions_move.contains(&task))
            .collect();
        self.make_cold(&moved);
        let (mapping, within) = (requested.mapping, requested.following_within);
        if mapping == self.placed.homes.mapping {
            let moved = self.follow(within, requested.followed.as_deref());
            return if moved.pages > 0 {
                Mapped::Followed(moved)
            } else {
                Mapped::InPlace
            };
        }
        self.map_pages(mapping, within, requested.mapping_within)
    }

    /// The tasks that have another PU in some region than they had with the regions `before`.
    fn moves_in_regions(&self, before: &BTreeMap<u64, RegionRequest>) -> Vec<usize> {
        let pin = |regions: &BTreeMap<u64, RegionRequest>, region: &u64, task: usize| regions.get(region)?.pins[task];
        let regions = || before.keys().chain(self.placed.regions.keys());
        (0..self.placed.pins.len())
            .filter(|&task| {
                regions().any(|region| pin(before, region, task) != pin(&self.placed.regions, region, task))
            })
            .collect()
    }

    /// The regions of a program that have begun, with their counts.
    pub(crate) fn regions(&self, program: usize) -> impl Iterator<Item = (u64, &RegionGrowth)> {
        self.progress[program]
            .regions
            .iter()
            .map(|(&region, growth)| (region, growth))
    }

    /// The caches hold no data of the programs of these tasks any more.
    fn make_cold(&mut self, tasks: &[usize]) {
        for &task in tasks {
            self.rates = None;
            self.progress[self.mix.program_of(task)].cold_left = 1.0;
        }
    }

    /// Where the pages belong under a mapping with the current pins.
    fn homes(&self, mapping: PageMapping) -> Homes {
        let mut nodes = self.placed.homes.nodes.clone();
        for (home, &pin) in nodes.iter_mut().zip(&self.placed.pins) {
            if let Some(pu) = pin {
                *home = node(&self.model, pu);
            }
        }
        Homes {
            mapping,
            interleaved: vec![false; self.mix.threads().len()],
            nodes,
            balanced: None,
        }
    }

    /// Requested homes, with the pages that automatic NUMA balancing has moved.
    fn with_balanced(&self, homes: Homes) -> Homes {
        self.pages
            .keep_balanced(&self.model, &self.mix, &self.placed.homes, homes)
    }

    /// The accesses of chosen programs whose tasks are on several nodes are sampled once, while they run. Returns how
    /// long that takes.
    fn sample(&mut self, followed: Option<&[Option<ProcessGoal>]>) -> f64 {
        let mut takes = 0.0;
        for (program, tasks) in self.mix.threads().iter().enumerate() {
            let places = self.placed.assignment[tasks.clone()].iter().flatten();
            let nodes: BTreeSet<u8> = places.map(|&pu| node(&self.model, pu)).collect();
            let follows = followed.is_some_and(|followed| followed[program] == Some(ProcessGoal::Tasks));
            if follows && nodes.len() > 1 && self.sampled.insert(program) {
                takes = SAMPLED_BEFORE.as_secs_f64();
            }
        }
        takes
    }

    /// Pages follow pinned tasks, of each program that needs at most `within` seconds for it. Where programs are
    /// chosen, each has a goal, and the pages of all others return to the first homes.
    fn follow(&mut self, within: Option<f64>, followed: Option<&[Option<ProcessGoal>]>) -> Moved {
        let mut homes = self.homes(self.placed.homes.mapping);
        for (program, goal) in followed.into_iter().flatten().enumerate() {
            homes.interleaved[program] = *goal == Some(ProcessGoal::Interleave);
            if *goal != Some(ProcessGoal::Tasks) {
                let tasks = self.mix.threads()[program].clone();
                homes.nodes[tasks.clone()].copy_from_slice(&self.placed.origins[tasks]);
            }
        }
        let wanted = self.with_balanced(homes.clone());
        let mut moved = self.pages.moves(&self.model, &self.mix, &self.placed.homes, &wanted);
        for (program, moved) in moved.iter_mut().enumerate() {
            if within.is_some_and(|within| moved.seconds > within) {
                let tasks = self.mix.threads()[program].clone();
                homes.nodes[tasks.clone()].copy_from_slice(&self.placed.homes.nodes[tasks]);
                homes.interleaved[program] = self.placed.homes.interleaved[program];
                *moved = Moved::default();
            }
        }
        let takes = self.sample(followed);
        let mut all = Moved::total(&moved);
        all.seconds += takes;
        if takes > 0.0 {
            self.coming = Some(Coming {
                at: self.clock + takes,
                homes,
                moved,
            });
        } else {
            self.coming = None;
            self.put(homes, &moved);
        }
        all
    }

    /// All pages move to another mapping, if that takes at most `mapping_within`. Otherwise they follow.
    fn map_pages(&mut self, mapping: PageMapping, within: Option<f64>, mapping_within: Option<f64>) -> Mapped {
        let homes = self.homes(mapping);
        let moved = self.pages.moves(&self.model, &self.mix, &self.placed.homes, &homes);
        let all = Moved::total(&moved);
        self.coming = None;
        if mapping_within.is_some_and(|within| all.seconds > within) {
            self.follow(within, None);
            return Mapped::TooLong(all);
        }
        self.put(homes, &moved);
        Mapped::Moved(all)
    }

    /// Pages are at these homes now, and each program has stood still while its own moved.
    fn put(&mut self, homes: Homes, moved: &[Moved]) {
        let homes = self.with_balanced(homes);
        if homes != self.placed.homes {
            if let Some(numa) = &mut self.numa {
                let before = self.pages.node_list(&self.model, &self.mix, &self.placed.homes);
                let after = self.pages.node_list(&self.model, &self.mix, &homes);
                numa.pages_moved(&before, &after);
            }
            for (progress, moved) in self.progress.iter_mut().zip(moved) {
                progress.pause(moved.seconds);
            }
            self.placed.homes = homes;
            self.rates = None;
        }
    }

    /// Tasks without a PU get one, and pages are touched where their owners are.
    fn begin(&mut self) {
        for task in self.order_of_creation() {
            if self.placed.assignment[task].is_none() {
                let program = self.mix.program_of(task);
                let creator = self.placed.assignment[self.mix.threads()[program].start];
                let pu = self.scheduler.select(&self.placed.assignment, creator);
                self.placed.assignment[task] = Some(pu);
            }
        }
        let places: Vec<PuId> = self.placed.assignment.iter().copied().flatten().collect();
        self.placed.homes.nodes = places.iter().map(|&pu| node(&self.model, pu)).collect();
        self.placed.origins.clone_from(&self.placed.homes.nodes);
        if !NumaBalancing::includes(self.placed.homes.mapping) {
            self.numa = None;
        }
    }

    /// The order of the creation of tasks. Programs that begin at the same time create their tasks in parallel: each in
    /// its own order, and a random choice decides which program is next.
    fn order_of_creation(&mut self) -> Vec<usize> {
        let mut coming: Vec<Range<usize>> = self.mix.threads().to_vec();
        let mut order = vec![];
        for left in (1..=self.mix.all_threads()).rev() {
            let mut next = if coming.len() > 1 {
                self.scheduler.chance(left)
            } else {
                0
            };
            let Some(tasks) = coming.iter_mut().find(|tasks| {
                let is_it = next < tasks.len();
                next -= if is_it { 0 } else { tasks.len() };
                is_it
            }) else {
                break;
            };
            order.extend(tasks.next());
        }
        order
    }

    /// Advances the programs until the clock shows `until`, or until each has done its number of `repetitions`. Returns
    /// whether they have done them. A program that is done continues beside the others.
    pub(crate) fn run(&mut self, until: f64, repetitions: &[f64]) -> Result<bool, WindowError> {
        if self.placed.homes.nodes.is_empty() {
            self.begin();
        }
        let scheduled = self.placed.pins.iter().any(Option::is_none);
        while self.clock < until {
            if self.are_done(repetitions) {
                return Ok(true);
            }
            let mut limit = until;
            if let Some(coming) = self.coming.take_if(|coming| coming.at <= self.clock) {
                self.put(coming.homes, &coming.moved);
            }
            limit = limit.min(self.coming.as_ref().map_or(until, |coming| coming.at));
            if scheduled {
                if self.next_balance <= self.clock {
                    self.balance();
                }
                limit = limit.min(self.next_balance);
            }
            if let Some(next) = self.numa.as_ref().map(NumaBalancing::next_scan) {
                if next <= self.clock {
                    self.scan()?;
                    continue;
                }
                limit = limit.min(next);
            }
            self.step(limit, repetitions)?;
        }
        self.next_balance = self.next_balance.max(self.clock);
        Ok(self.are_done(repetitions))
    }

    fn are_done(&self, repetitions: &[f64]) -> bool {
        let mut programs = self.progress.iter().zip(repetitions);
        programs.all(|(progress, &end)| progress.repetitions >= end)
    }

    /// All programs stand still for `seconds` seconds.
    pub(crate) fn interrupt(&mut self, seconds: f64) {
        for progress in &mut self.progress {
            progress.interrupt(seconds);
        }
    }

    /// Whether a task hardly runs, so that the scheduler has no reason to move it.
    fn sleeps(&self, task: usize) -> bool {
        self.rates.as_ref().is_some_and(|rates| {
            let (runs, all) = self.warm_cycles(rates, task);
            runs < SLEEPING_SHARE * all
        })
    }

    /// The cycles that a task runs in a warm repetition of its program, and the cycles that the repetition lasts.
    fn warm_cycles(&self, rates: &Rates, task: usize) -> (f64, f64) {
        let program = self.mix.program_of(task);
        let warm = &rates.programs[program].warm;
        let runs = warm.counts[task - self.mix.threads()[program].start][Counter::ReferenceCycles as usize];
        (runs, warm.seconds * self.model.frequency().0)
    }

    /// Automatic NUMA balancing scans memory, and moves the pages and tasks that this finds to be misplaced.
    fn scan(&mut self) -> Result<(), WindowError> {
        let rates = self.rates()?;
        let tasks = self.placed.pins.len();
        let share = |task| {
            let (runs, all) = self.warm_cycles(&rates, task);
            if runs < SLEEPING_SHARE * all { 0.0 } else { runs / all }
        };
        let running: Vec<f64> = (0..tasks).map(share).collect();
        let stays: Vec<bool> = self.placed.pins.iter().map(Option::is_some).collect();
        let nodes = self.pages.node_list(&self.model, &self.mix, &self.placed.homes);
        let Some(numa) = &mut self.numa else { return Ok(()) };
        if !numa.knows_accesses() {
            let pages = self.pages.owners().iter().map(|&(page, _)| page);
            numa.learn_accesses(pages, self.pages.profile(&self.mix));
        }
        let present = Present {
            clock: self.clock,
            running: &running,
            stays: &stays,
            nodes: &nodes,
        };
        let scanned = numa.scan(&present, &self.pages, &mut self.scheduler, &mut self.placed.assignment);
        self.scheduler.prefer_nodes(numa.preferred());
        self.make_cold(&scanned.moved);
        for (progress, seconds) in self.progress.iter_mut().zip(scanned.seconds) {
            progress.pause(seconds);
        }
        if scanned.distribution.is_some() {
            self.placed.homes.balanced = scanned.distribution;
            self.rates = None;
        }
        Ok(())
    }

    fn balance(&mut self) {
        let sleeps: Vec<bool> = (0..self.placed.pins.len()).map(|task| self.sleeps(task)).collect();
        let stays: Vec<bool> = (self.placed.pins.iter().zip(&sleeps))
            .map(|(pin, sleeps)| pin.is_some() || *sleeps)
            .collect();
        let moved = self.scheduler.balance(&self.placed.assignment, &stays, &sleeps);
        self.next_balance = self.clock + self.scheduler.interval();
        if let Some((task, pu)) = moved {
            self.placed.assignment[task] = Some(pu);
            self.make_cold(&[task]);
        }
    }

    /// Advances by one step: until the clock shows `limit`, or until something changes before.
    fn step(&mut self, limit: f64, repetitions: &[f64]) -> Result<(), WindowError> {
        let rates = self.rates()?;
        let left = limit - self.clock;
        let programs = || rates.programs.iter().zip(repetitions);
        let lasts = self
            .progress
            .iter()
            .zip(programs())
            .map(|(progress, (rates, &end))| progress.changes_in(rates, end))
            .fold(left, f64::min);
        let (watts, traffic): (_, &[f64]) = if self.progress.iter().all(Progress::is_paused) {
            (Energy::idle(&self.model), &[])
        } else if self.progress.iter().any(Progress::is_cold) {
            (rates.cold, &rates.cold_traffic)
        } else {
            (rates.warm, &rates.warm_traffic)
        };
        for (energy, watts) in self.energy.iter_mut().zip(watts) {
            *energy += watts * lasts;
        }
        for (bytes, rate) in self.traffic.iter_mut().zip(traffic) {
            *bytes += rate * lasts;
        }
        for (progress, (rates, &end)) in self.progress.iter_mut().zip(programs()) {
            progress.advance(lasts, rates, end);
        }
        self.clock = if lasts < left { self.clock + lasts } else { limit };
        Ok(())
    }

    /// The rates of the current setting.
    fn rates(&mut self) -> Result<Rc<Rates>, WindowError> {
        if let Some(rates) = &self.rates {
            return Ok(Rc::clone(rates));
        }
        let setting = Setting {
            pus: self.placed.assignment.iter().copied().flatten().collect(),
            homes: self.placed.homes.clone(),
            prefetchers: self.placed.prefetchers,
            regions: places(&self.placed.regions, &self.placed.assignment, self.placed.prefetchers),
        };
        let rates = self.windows.rates(&self.model, &self.mix, &self.pages, &setting)?;
        self.rates = Some(Rc::clone(&rates));
        Ok(rates)
    }
}

/// The tasks of each program, and the memory that it touches.
fn processes(mix: &Mix) -> Vec<Process> {
    let process = |(tasks, pages): (&Range<usize>, Range<usize>)| Process {
        tasks: tasks.clone(),
        bytes: pages.len() as u64 * PAGE_BYTES,
    };
    mix.threads().iter().zip(mix.pages()).map(process).collect()
}

fn node(model: &Model, pu: PuId) -> u8 {
    u8::try_from(model.node_of_pu(pu.0).unwrap_or(0)).expect("the window keeps nodes in a byte, too")
}
