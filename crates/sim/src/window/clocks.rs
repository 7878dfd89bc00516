//! The clocks of the cores, where the model has several.
//!
//! Simulated time is in cycles of the base clock. The cores of a package run at the clock that the model gives for the
//! number of its active cores: the cores that have a thread, whether the thread runs, waits or has ended. The work of a
//! core takes cycles of its own clock: instructions, page walks, hits of its private caches. Everything beyond keeps
//! its time: the last-level cache, other cores' caches, memory, links, and the operating system.

use super::placement::Placement;
use super::steps::StepTable;
use super::time::{Ticks, cycles, ticks};
use crate::model::{Frequency, Latency, Model};
use std::sync::Arc;

/// A core's clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Clock {
    /// The length of its cycle, in cycles of the base clock.
    cycle: f64,
}

impl Clock {
    /// The base clock.
    pub(crate) const BASE: Self = Self { cycle: 1.0 };

    fn new(frequency: Frequency, base: Frequency) -> Self {
        Self {
            cycle: base.0 / frequency.0,
        }
    }

    /// The time of a number of its cycles.
    pub(crate) fn time(self, cycles: f64) -> Ticks {
        ticks(cycles * self.cycle)
    }

    /// The number of its cycles in a time.
    pub(crate) fn cycles(self, time: Ticks) -> f64 {
        cycles(time) / self.cycle
    }

    /// The time of a latency within the core.
    pub(crate) fn latency(self, latency: Latency, model: &Model) -> Ticks {
        match latency {
            Latency::Cycles(cycles) => self.time(cycles),
            Latency::Nanoseconds(_) => ticks(latency.cycles(model.frequency())),
        }
    }
}

/// The clocks of a window's cores, which are numbered among the active ones.
pub(super) struct Clocks {
    /// By number of active cores of a package.
    by_active: Vec<Clock>,
    /// By core.
    package_of_core: Vec<usize>,
    /// By core: the number of its threads.
    threads: Vec<usize>,
    /// By package: cores that have threads.
    active: Vec<usize>,
    tables: Tables,
}

impl Clocks {
    /// The clocks of the cores of a placement, and `tables`, by thread; `None` if the model has one clock.
    pub(super) fn new(model: &Model, placement: &Placement, tables: Vec<Arc<StepTable>>) -> Option<Self> {
        model.core.turbo.as_ref()?;
        let per_package = model.cores() / model.packages();
        let mut clocks = Self {
            by_active: (0..=per_package)
                .map(|active| Clock::new(model.clock(active), model.frequency()))
                .collect(),
            package_of_core: placement
                .cores
                .iter()
                .map(|&core| model.package_of_core(core))
                .collect(),
            threads: vec![0; placement.cores.len()],
            active: vec![0; model.packages()],
            tables: Tables {
                base: tables,
                others: vec![],
            },
        };
        for (core, threads) in &placement.pus {
            for _ in threads {
                clocks.add(*core);
            }
        }
        Some(clocks)
    }

    /// The clock of a core.
    pub(super) fn of_core(&self, core: usize) -> Clock {
        self.by_active[self.active[self.package_of_core[core]]]
    }

    /// A thread moves from one core to another.
    pub(super) fn move_thread(&mut self, from: usize, to: usize) {
        self.threads[from] -= 1;
        if self.threads[from] == 0 {
            self.active[self.package_of_core[from]] -= 1;
        }
        self.add(to);
    }

    fn add(&mut self, core: usize) {
        if self.threads[core] == 0 {
            self.active[self.package_of_core[core]] += 1;
        }
        self.threads[core] += 1;
    }

    /// The table of a thread on a core.
    pub(super) fn table(&mut self, thread: usize, core: usize) -> Arc<StepTable> {
        let clock = self.of_core(core);
        self.tables.at(thread, clock)
    }
}

/// What the steps of each thread cost.
struct Tables {
    /// By thread: at the base clock. Threads of a program share a table.
    base: Vec<Arc<StepTable>>,
    /// At other clocks, each after the table that it was made from.
    others: Vec<(Arc<StepTable>, Clock, Arc<StepTable>)>,
}

impl Tables {
    fn at(&mut self, thread: usize, clock: Clock) -> Arc<StepTable> {
        let base = &self.base[thread];
        if clock == Clock::BASE {
            return Arc::clone(base);
        }
        let known = |(from, of, _): &&(Arc<StepTable>, Clock, Arc<StepTable>)| Arc::ptr_eq(from, base) && *of == clock;
        if let Some((_, _, table)) = self.others.iter().find(known) {
            return Arc::clone(table);
        }
        let table = Arc::new(base.at(clock));
        self.others.push((Arc::clone(base), clock, Arc::clone(&table)));
        table
    }
}
