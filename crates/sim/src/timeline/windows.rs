//! Rates of configurations, each simulated once, when it is first needed.
//!
//! For one configuration the window engine runs the piece once from cold caches, and, at the same time on another of the
//! host's cores, twice in a row. The first run gives the cold repetition; the second less the first gives the warm one.
//! This is exact where all threads wait for each other between the two, as they do here.

use super::counter::{Counter, Energy};
use super::pages::{Homes, Pages};
use super::program::{Program, Repeated};
use crate::model::Model;
use crate::window::{
    Options, PageMapping, Prefetchers, Stream, WindowConfiguration, WindowError, WindowResult, simulate_with_pages,
};
use pinfold_core::{Pinning, PuId};
use std::collections::HashMap;
use std::rc::Rc;
use std::thread;

/// A configuration, as far as rates depend on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Setting {
    /// By thread: where it runs.
    pub(crate) pus: Vec<PuId>,
    pub(crate) homes: Homes,
    pub(crate) prefetchers: Prefetchers,
}

/// One repetition of the piece.
#[derive(Clone, Debug)]
pub(crate) struct Repetition {
    /// How long it takes, above 0.
    pub(crate) seconds: f64,
    /// By thread: what it counts.
    pub(crate) counts: Vec<[f64; Counter::NUMBER]>,
    /// What the machine takes, in joules.
    pub(crate) energy: [f64; Energy::NUMBER],
}

/// A configuration's repetitions.
#[derive(Clone, Debug)]
pub(crate) struct Rates {
    /// With caches that hold nothing of the program.
    pub(crate) cold: Repetition,
    /// After another one.
    pub(crate) warm: Repetition,
    /// Waits in a repetition that nothing ended.
    pub(crate) released: u64,
}

/// All configurations that have been simulated.
#[derive(Default)]
pub(crate) struct Windows {
    known: HashMap<Setting, Rc<Rates>>,
}

impl Windows {
    /// How many windows have been simulated.
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// The rates of a configuration.
    pub(crate) fn rates(
        &mut self,
        model: &Model,
        program: &dyn Program,
        pages: &Pages,
        setting: &Setting,
    ) -> Result<Rc<Rates>, WindowError> {
        if let Some(known) = self.known.get(setting) {
            return Ok(Rc::clone(known));
        }
        let rates = Rc::new(simulated(model, program, pages, setting)?);
        self.known.insert(setting.clone(), Rc::clone(&rates));
        Ok(rates)
    }
}

fn simulated(model: &Model, program: &dyn Program, pages: &Pages, setting: &Setting) -> Result<Rates, WindowError> {
    let pinning = Pinning::new(setting.pus.clone()).ok_or(WindowError::NoThreads)?;
    let configuration = WindowConfiguration {
        pinning,
        // All pages have their nodes already.
        pages: PageMapping::FirstTouch,
        prefetchers: setting.prefetchers,
    };
    let placed = pages.placed(model, program, &setting.homes);
    let run = |repetitions: u64| {
        let streams = (0..program.threads())
            .map(|thread| Box::new(Repeated::new(program, thread, repetitions)) as Box<dyn Stream + '_>)
            .collect();
        simulate_with_pages(model, &configuration, None, &placed, streams, &Options::default())
    };
    let (once, twice) = thread::scope(|scope| {
        let once = scope.spawn(|| run(1));
        let twice = run(2);
        (once.join(), twice)
    });
    let once = once.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    let released = once.released;
    let cold = repetition(model, &once);
    let both = repetition(model, &twice?);
    let warm = Repetition {
        seconds: (both.seconds - cold.seconds).max(SHORTEST),
        counts: both
            .counts
            .iter()
            .zip(&cold.counts)
            .map(|(both, cold)| std::array::from_fn(|counter| (both[counter] - cold[counter]).max(0.0)))
            .collect(),
        energy: std::array::from_fn(|energy| (both.energy[energy] - cold.energy[energy]).max(0.0)),
    };
    Ok(Rates { cold, warm, released })
}

/// No repetition is shorter, in seconds: a piece without any instruction would be repeated for ever in no time.
const SHORTEST: f64 = 1e-9;

fn repetition(model: &Model, result: &WindowResult) -> Repetition {
    Repetition {
        seconds: result.seconds.max(SHORTEST),
        counts: result
            .threads
            .iter()
            .map(|counters| Counter::all(counters, model.caches.len()))
            .collect(),
        energy: Energy::all(result),
    }
}
