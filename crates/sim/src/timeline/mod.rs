//! A run's time line: repetitions of a program's piece, fast-forwarded with the rates of simulated windows.
//!
//! Time advances in stretches within which nothing changes, however many repetitions they hold:
//!
//! 1. While pages are moved, the program stands still.
//! 2. The first repetition's worth of work after threads were moved goes at the rates of a cold repetition.
//! 3. From then on, at those of a warm one.
//! 4. Where tasks are not pinned, the scheduler looks every balancing interval whether to move one.
//!
//! Counts grow evenly within a repetition. Everything follows from the model, the piece and the seed.
//!
//! Known limits: after a change of a single thread all caches are taken to be cold; threads keep their places while they
//! wait; what the kernel itself does takes no time; a thread lives for the whole run, though each repetition begins and
//! ends it anew; while pages are moved the machine takes the energy of an idle one.

mod counter;
mod pages;
mod program;
mod scheduler;
mod windows;

pub use counter::{Counter, Energy};
pub use program::Program;
pub(crate) use program::in_repetition;

use crate::model::Model;
use crate::window::{PageMapping, Prefetchers, WindowError};
use pages::{Homes, Pages};
use pinfold_core::{PuId, PuSet};
use scheduler::{Assignment, Scheduler};
use std::rc::Rc;
use std::sync::Arc;
use windows::{Rates, Setting, Windows};

/// A task that runs for less than this share of the time is found asleep whenever the scheduler looks. Assumed.
const SLEEPING_SHARE: f64 = 0.01;

/// A program's run on a model. Tasks are the program's threads, by number.
pub(crate) struct Timeline {
    model: Model,
    program: Arc<dyn Program>,
    pages: Pages,
    windows: Windows,
    scheduler: Scheduler,
    /// By task: where a policy wants it.
    pins: Vec<Option<PuId>>,
    assignment: Assignment,
    /// What decides where pages are; no nodes before the program has begun.
    homes: Homes,
    prefetchers: Prefetchers,
    /// Of the present setting; `None` before they are needed.
    rates: Option<Rc<Rates>>,
    /// In seconds since the program began.
    clock: f64,
    /// When the scheduler looks next.
    next_balance: f64,
    /// Repetitions, with the part that is done of the present one.
    progress: f64,
    /// How much of a repetition is still cold.
    cold_left: f64,
    /// For how many seconds pages are still being moved.
    pause_left: f64,
    /// For how many seconds they have been or will be.
    paused: f64,
    counts: Vec<[f64; Counter::NUMBER]>,
    /// What the machine has taken, in joules.
    energy: [f64; Energy::NUMBER],
}

impl Timeline {
    /// A run that has not begun, on these PUs of a machine.
    pub(crate) fn new(model: Model, program: Arc<dyn Program>, allowed: &PuSet, seed: u64) -> Self {
        let threads = program.threads();
        let scheduler = Scheduler::new(&model, allowed, seed);
        Self {
            pages: Pages::new(&model, program.page_owners()),
            windows: Windows::default(),
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
            progress: 0.0,
            cold_left: 1.0,
            pause_left: 0.0,
            paused: 0.0,
            counts: vec![[0.0; Counter::NUMBER]; threads],
            energy: [0.0; Energy::NUMBER],
            model,
            program,
        }
    }

    /// Seconds since the program began.
    pub(crate) fn clock(&self) -> f64 {
        self.clock
    }

    /// Repetitions that are done, with the part that is done of the present one.
    pub(crate) fn progress(&self) -> f64 {
        self.progress
    }

    /// Seconds for which the program stood still because its pages were moved.
    pub(crate) fn paused(&self) -> f64 {
        self.paused
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
        self.counts[task][counter as usize]
    }

    /// What the machine has taken since the program began, in joules.
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

    /// Pins tasks, or lets them go, and has pages and prefetchers be so. Who is let go stays until the scheduler moves it.
    pub(crate) fn configure(&mut self, pins: Vec<Option<PuId>>, mapping: PageMapping, prefetchers: Prefetchers) {
        let before = self.assignment.clone();
        for (place, pin) in self.assignment.iter_mut().zip(&pins) {
            *place = pin.or(*place);
        }
        self.pins = pins;
        if self.prefetchers != prefetchers {
            self.prefetchers = prefetchers;
            self.rates = None;
        }
        if self.homes.nodes.is_empty() {
            self.homes.mapping = mapping;
            return;
        }
        if self.assignment != before {
            self.caches_are_cold();
        }
        let mut homes = Homes {
            mapping,
            nodes: self.homes.nodes.clone(),
        };
        for (home, &pin) in homes.nodes.iter_mut().zip(&self.pins) {
            if let Some(pu) = pin {
                *home = node(&self.model, pu);
            }
        }
        if homes != self.homes {
            let program = self.program.as_ref();
            let pause = self.pages.move_seconds(&self.model, program, &self.homes, &homes);
            self.pause_left += pause;
            self.paused += pause;
            self.homes = homes;
            self.rates = None;
        }
    }

    fn caches_are_cold(&mut self) {
        self.rates = None;
        self.cold_left = 1.0;
    }

    /// Tasks without a place get one, and pages are touched where their owners are.
    fn begin(&mut self) {
        for task in 0..self.assignment.len() {
            if self.assignment[task].is_none() {
                self.assignment[task] = Some(self.scheduler.select(&self.assignment));
            }
        }
        let places: Vec<PuId> = self.assignment.iter().copied().flatten().collect();
        self.homes.nodes = places.iter().map(|&pu| node(&self.model, pu)).collect();
    }

    /// Lets the program run until the clock shows `until`, or until it has done `repetitions`; whether it has.
    pub(crate) fn run(&mut self, until: f64, repetitions: f64) -> Result<bool, WindowError> {
        if self.homes.nodes.is_empty() {
            self.begin();
        }
        let scheduled = self.pins.iter().any(Option::is_none);
        while self.clock < until {
            if self.progress >= repetitions {
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
        Ok(self.progress >= repetitions)
    }

    /// Whether a task hardly runs, so that the scheduler has no reason to move it.
    fn sleeps(&self, task: usize) -> bool {
        self.rates.as_ref().is_some_and(|rates| {
            let cycles = rates.warm.counts[task][Counter::Cycles as usize];
            cycles < SLEEPING_SHARE * rates.warm.seconds * self.model.frequency().0
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
            self.caches_are_cold();
        }
    }

    /// One stretch: until the clock shows `limit`, or something changes before.
    fn stretch(&mut self, limit: f64, repetitions: f64) -> Result<(), WindowError> {
        let left = limit - self.clock;
        if self.pause_left > 0.0 {
            let pause = self.pause_left.min(left);
            for (energy, watts) in self.energy.iter_mut().zip(Energy::idle(&self.model)) {
                *energy += watts * pause;
            }
            if self.pause_left < left {
                self.clock += self.pause_left;
                self.pause_left = 0.0;
            } else {
                self.pause_left -= left;
                self.clock = limit;
            }
            return Ok(());
        }
        let rates = self.rates()?;
        let cold = self.cold_left > 0.0;
        let (repetition, work) = if cold {
            (&rates.cold, self.cold_left.min(repetitions - self.progress))
        } else {
            (&rates.warm, repetitions - self.progress)
        };
        let possible = left / repetition.seconds;
        let done = if work <= possible {
            self.clock += work * repetition.seconds;
            work
        } else {
            self.clock = limit;
            possible
        };
        // A sum of parts may come out below the whole by rounding; a step to the end ends there.
        self.progress = if done >= repetitions - self.progress {
            repetitions
        } else {
            self.progress + done
        };
        if cold {
            self.cold_left = (self.cold_left - done).max(0.0);
        }
        for (energy, growth) in self.energy.iter_mut().zip(repetition.energy) {
            *energy += growth * done;
        }
        for (counts, growth) in self.counts.iter_mut().zip(&repetition.counts) {
            for (count, growth) in counts.iter_mut().zip(growth) {
                *count += growth * done;
            }
        }
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
        let rates = self
            .windows
            .rates(&self.model, self.program.as_ref(), &self.pages, &setting)?;
        self.rates = Some(Rc::clone(&rates));
        Ok(rates)
    }
}

fn node(model: &Model, pu: PuId) -> u8 {
    u8::try_from(model.node_of_pu(pu.0).unwrap_or(0)).expect("the window keeps nodes in a byte, too")
}
