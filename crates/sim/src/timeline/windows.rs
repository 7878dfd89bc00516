//! Rates of configurations, each simulated once, when it is first needed.
//!
//! For one configuration the window engine runs the piece twice in a row from cold caches. In between all threads wait for
//! each other: what has been counted until then is the cold repetition, the rest the warm one.

use super::counter::{Counter, Energy};
use super::pages::{Homes, Pages};
use super::program::{Program, Repeated};
use crate::model::Model;
use crate::window::{
    Options, PageMapping, Prefetchers, Stream, WindowConfiguration, WindowError, WindowResult, simulate_to_marks,
};
use pinfold_core::{Pinning, PuId};
use std::collections::HashMap;
use std::rc::Rc;

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
    let streams = (0..program.threads())
        .map(|thread| Box::new(Repeated::new(program, thread, 2)) as Box<dyn Stream + '_>)
        .collect();
    let (marks, whole) = simulate_to_marks(model, &configuration, None, &placed, streams, &Options::default())?;
    // Without a mark the program could not be read to its end, of which the caller asks it.
    let once = marks.first().unwrap_or(&whole);
    let released = once.released;
    let cold = repetition(model, once);
    let both = repetition(model, &whole);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::builtin;
    use crate::window::{Event, EventKind, Recorded};

    /// Three threads that read arrays of different lengths, write to a line that they share, and meet at a barrier. Two
    /// wait for what may never come.
    struct Reading {
        signalled: bool,
    }

    impl Program for Reading {
        fn threads(&self) -> usize {
            3
        }

        fn stream(&self, thread: usize) -> Box<dyn Stream + '_> {
            let number = thread as u64 + 1;
            let mut events: Vec<Event> = (0..5000 * number)
                .map(|word| Event::read((number << 30) + word * 24, 8, 4))
                .collect();
            events.push(Event::write(64, 8, 1));
            events.push(Event::barrier(7, 3));
            events.push(Event::read(64, 8, 1));
            let token = Event::mark(
                if thread == 2 {
                    EventKind::Signal
                } else {
                    EventKind::Wait
                },
                9,
            );
            if thread != 2 || self.signalled {
                events.push(token);
            }
            events.push(Event::write(64, 8, 1));
            Box::new(Recorded::new(events))
        }

        fn regions(&self) -> Option<u64> {
            None
        }

        fn page_owners(&self) -> &[(u64, u32)] {
            &[]
        }

        fn error(&self) -> Option<String> {
            None
        }
    }

    fn run(program: &Reading, repetitions: u64) -> (Vec<WindowResult>, WindowResult) {
        let model = builtin("opteron-6164x4").unwrap();
        let configuration = WindowConfiguration {
            pinning: Pinning::new(vec![PuId(0), PuId(1), PuId(20)]).unwrap(),
            pages: PageMapping::FirstTouch,
            prefetchers: Prefetchers::ALL,
        };
        let streams = (0..program.threads())
            .map(|thread| Box::new(Repeated::new(program, thread, repetitions)) as Box<dyn Stream + '_>)
            .collect();
        let placed = HashMap::<u64, u8>::new();
        simulate_to_marks(&model, &configuration, None, &placed, streams, &Options::default()).unwrap()
    }

    #[test]
    fn the_first_of_two_repetitions_counts_what_one_alone_does() {
        for (signalled, released) in [(true, 0), (false, 2)] {
            let program = Reading { signalled };
            let (no_marks, alone) = run(&program, 1);
            let (marks, both) = run(&program, 2);
            assert_eq!(no_marks, []);
            assert_eq!(marks, std::slice::from_ref(&alone));
            assert_eq!((alone.released, both.released), (released, 2 * released));
            assert_eq!(both.total().reads, 2 * alone.total().reads);
            assert!(both.seconds > alone.seconds && both.seconds < 2.0 * alone.seconds);
        }
    }
}
