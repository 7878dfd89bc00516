//! A run's time line: repetitions of programs' regions of interest, fast-forwarded with the rates of simulated windows.
//!
//! One program or several run, each at its own rate and in its own process. Time advances in stretches within which nothing
//! changes, however many repetitions they hold:
//!
//! 1. While a program's pages are moved, it stands still.
//! 2. The first repetition's worth of work after some of a program's threads were moved goes at the rates of a cold
//!    repetition.
//! 3. From then on, at those of a warm one.
//! 4. Where tasks are not pinned, the scheduler looks every balancing interval whether to move one.
//!
//! Counts grow evenly within a repetition. Everything follows from the model, the regions of interest and the seed.
//!
//! Known limits: after a change of a single thread all caches of its program are taken to be cold; threads keep their places
//! while they wait; what the kernel itself does takes no time; a thread lives for the whole run, though each repetition begins
//! and ends it; while the pages of all programs are moved the machine takes the energy of an idle one, and while those of
//! some are, what it takes when all go on.

mod counter;
mod mix;
mod pages;
mod program;
mod progress;
mod scheduler;
mod windows;

pub use counter::{Counter, Energy};
pub use program::Program;

use crate::model::Model;
use crate::window::{PageMapping, Prefetchers, WindowError};
use mix::Mix;
use pages::{Homes, Pages};
use pinfold_core::{PuId, PuSet};
use progress::Progress;
use scheduler::{Assignment, Scheduler};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use windows::{Rates, Setting, Windows};

/// A task that runs for less than this share of the time is found asleep whenever the scheduler looks. Assumed.
const SLEEPING_SHARE: f64 = 0.01;

/// Where tasks, pages and prefetchers are to be.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// By task: the PU that it is pinned to; `None` for one that is not.
    pub(crate) pins: Vec<Option<PuId>>,
    pub(crate) mapping: PageMapping,
    pub(crate) prefetchers: Prefetchers,
    /// How many seconds a program's pages may take at most to follow its threads; those that take longer stay.
    pub(crate) following_within: Option<f64>,
}

/// Programs' run on a model. Tasks are the programs' threads, by number, program by program.
pub(crate) struct Timeline {
    model: Model,
    mix: Mix,
    pages: Pages,
    windows: Windows,
    scheduler: Scheduler,
    /// By task: where a policy wants it.
    pins: Vec<Option<PuId>>,
    assignment: Assignment,
    /// What decides where pages are; no nodes before the programs have begun.
    homes: Homes,
    prefetchers: Prefetchers,
    /// Of the present setting; `None` before they are needed.
    rates: Option<Rc<Rates>>,
    /// In seconds since the programs began.
    clock: f64,
    /// When the scheduler looks next.
    next_balance: f64,
    /// By program.
    progress: Vec<Progress>,
    /// What the machine has taken, in joules.
    energy: [f64; Energy::NUMBER],
}

impl Timeline {
    /// A run that has not begun, on these PUs of a machine.
    pub(crate) fn new(model: Model, programs: Vec<Arc<dyn Program>>, allowed: &PuSet, seed: u64) -> Self {
        let mix = Mix::new(programs);
        let threads = mix.all_threads();
        let scheduler = Scheduler::new(&model, allowed, seed);
        Self {
            pages: Pages::new(&model, mix.page_owners()),
            windows: Windows::new(seed),
            next_balance: scheduler.interval(),
            scheduler,
            pins: vec![None; threads],
            assignment: vec![None; threads],
            homes: Homes {
                mapping: PageMapping::FirstTouch,
                nodes: vec![],
            },
            prefetchers: Prefetchers::ALL,
            rates: None,
            clock: 0.0,
            progress: mix
                .threads()
                .iter()
                .map(|threads| Progress::new(threads.len()))
                .collect(),
            energy: [0.0; Energy::NUMBER],
            model,
            mix,
        }
    }

    /// Seconds since the programs began.
    pub(crate) fn clock(&self) -> f64 {
        self.clock
    }

    /// Repetitions of a program that are done, with the part that is done of the present one.
    pub(crate) fn repetitions(&self, program: usize) -> f64 {
        self.progress[program].repetitions
    }

    /// Seconds for which a program stood still because its pages were moved.
    pub(crate) fn paused(&self, program: usize) -> f64 {
        self.progress[program].paused
    }

    /// The tasks of a program.
    pub(crate) fn tasks(&self, program: usize) -> Range<usize> {
        self.mix.threads()[program].clone()
    }

    /// What went wrong while a program was read.
    pub(crate) fn error(&self) -> Option<String> {
        self.mix.error()
    }

    /// Configurations that had to be simulated.
    pub(crate) fn windows(&self) -> usize {
        self.windows.len()
    }

    /// Waits in a repetition that nothing in the program ended; 0 before the first window was simulated.
    pub(crate) fn released(&self) -> u64 {
        self.rates.as_ref().map_or(0, |rates| rates.released)
    }

    /// What a task has counted.
    pub(crate) fn count(&self, task: usize, counter: Counter) -> f64 {
        let program = self.mix.program_of(task);
        self.progress[program].counts[task - self.mix.threads()[program].start][counter as usize]
    }

    /// What the machine has taken since the programs began, in joules.
    pub(crate) fn joules(&self, energy: Energy) -> f64 {
        self.energy[energy as usize]
    }

    /// The processor time of a task, in seconds.
    pub(crate) fn processor_seconds(&self, task: usize) -> f64 {
        self.count(task, Counter::Cycles) / self.model.frequency().0
    }

    /// Where a task runs; `None` before the program has begun.
    pub(crate) fn place(&self, task: usize) -> Option<PuId> {
        self.assignment[task]
    }

    /// Where a policy wants a task.
    pub(crate) fn pin(&self, task: usize) -> Option<PuId> {
        self.pins[task]
    }

    /// Where pages are.
    pub(crate) fn mapping(&self) -> PageMapping {
        self.homes.mapping
    }

    /// Which prefetchers are on.
    pub(crate) fn prefetchers(&self) -> Prefetchers {
        self.prefetchers
    }

    /// Pins or unpins tasks, places pages and sets prefetchers. An unpinned task stays until the scheduler moves it.
    pub(crate) fn configure(&mut self, wanted: Wanted) {
        let before = self.assignment.clone();
        for (place, pin) in self.assignment.iter_mut().zip(&wanted.pins) {
            *place = pin.or(*place);
        }
        self.pins = wanted.pins;
        if self.prefetchers != wanted.prefetchers {
            self.prefetchers = wanted.prefetchers;
            self.rates = None;
        }
        if self.homes.nodes.is_empty() {
            self.homes.mapping = wanted.mapping;
            return;
        }
        let moved: Vec<usize> = (0..before.len())
            .filter(|&task| self.assignment[task] != before[task])
            .collect();
        self.have_moved(&moved);
        self.move_pages(wanted.mapping, wanted.following_within);
    }

    /// The caches hold nothing of the programs of these tasks.
    fn have_moved(&mut self, tasks: &[usize]) {
        for &task in tasks {
            self.rates = None;
            self.progress[self.mix.program_of(task)].cold_left = 1.0;
        }
    }

    /// Pages follow pinned tasks, of each program that needs no longer than `within` seconds for it.
    fn move_pages(&mut self, mapping: PageMapping, within: Option<f64>) {
        let mut homes = Homes {
            mapping,
            nodes: self.homes.nodes.clone(),
        };
        for (home, &pin) in homes.nodes.iter_mut().zip(&self.pins) {
            if let Some(pu) = pin {
                *home = node(&self.model, pu);
            }
        }
        let mut pauses = self.pages.move_seconds(&self.model, &self.mix, &self.homes, &homes);
        if mapping == self.homes.mapping {
            for (program, pause) in pauses.iter_mut().enumerate() {
                if within.is_some_and(|within| *pause > within) {
                    let tasks = self.mix.threads()[program].clone();
                    homes.nodes[tasks.clone()].copy_from_slice(&self.homes.nodes[tasks]);
                    *pause = 0.0;
                }
            }
        }
        if homes != self.homes {
            for (progress, pause) in self.progress.iter_mut().zip(pauses) {
                progress.pause(pause);
            }
            self.homes = homes;
            self.rates = None;
        }
    }

    /// Tasks without a place get one, and pages are touched where their owners are.
    fn begin(&mut self) {
        for task in self.order_of_creation() {
            if self.assignment[task].is_none() {
                self.assignment[task] = Some(self.scheduler.select(&self.assignment));
            }
        }
        let places: Vec<PuId> = self.assignment.iter().copied().flatten().collect();
        self.homes.nodes = places.iter().map(|&pu| node(&self.model, pu)).collect();
    }

    /// Programs that begin at the same time create their tasks side by side: each in its order, and a random choice decides
    /// which program's comes next.
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

    /// Lets the programs run until the clock shows `until`, or until each has done its number of `repetitions`; whether they
    /// have. A program that has done them goes on beside the others.
    pub(crate) fn run(&mut self, until: f64, repetitions: &[f64]) -> Result<bool, WindowError> {
        if self.homes.nodes.is_empty() {
            self.begin();
        }
        let scheduled = self.pins.iter().any(Option::is_none);
        while self.clock < until {
            if self.have_done(repetitions) {
                return Ok(true);
            }
            let mut limit = until;
            if scheduled {
                if self.next_balance <= self.clock {
                    self.balance();
                }
                limit = limit.min(self.next_balance);
            }
            self.stretch(limit, repetitions)?;
        }
        self.next_balance = self.next_balance.max(self.clock);
        Ok(self.have_done(repetitions))
    }

    fn have_done(&self, repetitions: &[f64]) -> bool {
        let mut programs = self.progress.iter().zip(repetitions);
        programs.all(|(progress, &end)| progress.repetitions >= end)
    }

    /// Whether a task hardly runs, so that the scheduler has no reason to move it.
    fn sleeps(&self, task: usize) -> bool {
        self.rates.as_ref().is_some_and(|rates| {
            let program = self.mix.program_of(task);
            let warm = &rates.programs[program].warm;
            let cycles = warm.counts[task - self.mix.threads()[program].start][Counter::Cycles as usize];
            cycles < SLEEPING_SHARE * warm.seconds * self.model.frequency().0
        })
    }

    fn balance(&mut self) {
        self.next_balance = self.clock + self.scheduler.interval();
        let tasks = 0..self.pins.len();
        let stays: Vec<bool> = tasks
            .map(|task| self.pins[task].is_some() || self.sleeps(task))
            .collect();
        let moved = self.scheduler.balance(&self.assignment, &stays);
        if let Some((task, pu)) = moved {
            self.assignment[task] = Some(pu);
            self.have_moved(&[task]);
        }
    }

    /// One stretch: until the clock shows `limit`, or something changes before.
    fn stretch(&mut self, limit: f64, repetitions: &[f64]) -> Result<(), WindowError> {
        let rates = self.rates()?;
        let left = limit - self.clock;
        let programs = || rates.programs.iter().zip(repetitions);
        let lasts = self
            .progress
            .iter()
            .zip(programs())
            .map(|(progress, (rates, &end))| progress.changes_in(rates, end))
            .fold(left, f64::min);
        let watts = if self.progress.iter().all(Progress::stands_still) {
            Energy::idle(&self.model)
        } else if self.progress.iter().any(Progress::is_cold) {
            rates.cold
        } else {
            rates.warm
        };
        for (energy, watts) in self.energy.iter_mut().zip(watts) {
            *energy += watts * lasts;
        }
        for (progress, (rates, &end)) in self.progress.iter_mut().zip(programs()) {
            progress.go_on(lasts, rates, end);
        }
        self.clock = if lasts < left { self.clock + lasts } else { limit };
        Ok(())
    }

    /// The rates of the present setting.
    fn rates(&mut self) -> Result<Rc<Rates>, WindowError> {
        if let Some(rates) = &self.rates {
            return Ok(Rc::clone(rates));
        }
        let setting = Setting {
            pus: self.assignment.iter().copied().flatten().collect(),
            homes: self.homes.clone(),
            prefetchers: self.prefetchers,
        };
        let rates = self.windows.rates(&self.model, &self.mix, &self.pages, &setting)?;
        self.rates = Some(Rc::clone(&rates));
        Ok(rates)
    }
}

fn node(model: &Model, pu: PuId) -> u8 {
    u8::try_from(model.node_of_pu(pu.0).unwrap_or(0)).expect("the window keeps nodes in a byte, too")
}
