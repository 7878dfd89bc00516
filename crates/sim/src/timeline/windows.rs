//! The rates of configurations. Each configuration is simulated once, when its rates are first needed.
//!
//! For one configuration the window engine runs all programs from cold caches. Each repeats until all have done two
//! repetitions. Between two repetitions a program's threads wait for each other. The counts until the end of the first
//! repetition are the cold repetition. The later counts, divided by the number of further repetitions, are the warm
//! one. A program that is faster than the others has done more repetitions. A program that runs alone ends after the
//! second.

use super::counter::{Counter, Energy};
use super::kept::KeptWindows;
use super::mix::Mix;
use super::pages::{Homes, Pages};
use super::regions::{RegionGrowth, growths};
use crate::model::Model;
use crate::window::{
    Counters, Mark, Options, PageMapping, Prefetchers, RegionPlaces, TeamMarks, WindowConfiguration, WindowError,
    simulate_regions, unrecorded_share,
};
use pinfold_core::{Pinning, PuId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// The parts of a configuration that determine its rates.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Setting {
    /// By thread: its PU.
    pub(crate) pus: Vec<PuId>,
    pub(crate) homes: Homes,
    pub(crate) prefetchers: Prefetchers,
    /// The regions that differ.
    pub(crate) regions: RegionPlaces,
}

/// One repetition of a program's region of interest.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Repetition {
    /// Its duration, above 0.
    pub(crate) seconds: f64,
    /// By thread of the program: its counts.
    pub(crate) counts: Vec<[f64; Counter::NUMBER]>,
    /// By region: its growth. It exists for a single program only: regions of several may have the same address.
    pub(crate) regions: BTreeMap<u64, RegionGrowth>,
}

/// The repetitions of a program beside the others.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ProgramRates {
    /// With caches that hold no data of the program.
    pub(crate) cold: Repetition,
    /// After another repetition.
    pub(crate) warm: Repetition,
    /// The share of the threads' time in a warm repetition spent waiting for events outside the recording; `None`
    /// where it is unknown.
    pub(crate) unrecorded_wait_share: Option<f64>,
}

/// The power of the machine, in watts.
pub(crate) type Watts = [f64; Energy::NUMBER];

/// The rates of a configuration.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Rates {
    /// By program.
    pub(crate) programs: Vec<ProgramRates>,
    /// Power while some program does its cold repetition.
    pub(crate) cold: Watts,
    /// Power afterwards.
    pub(crate) warm: Watts,
    /// By node: bytes per second that its memory reads and writes while some program does its cold repetition.
    pub(crate) cold_traffic: Vec<f64>,
    /// The same afterwards.
    pub(crate) warm_traffic: Vec<f64>,
}

/// All configurations that have been simulated.
pub(crate) struct Windows {
    options: Options,
    known: HashMap<Setting, Rc<Rates>>,
    /// Keeps them for other runs.
    kept: Option<KeptWindows>,
}

impl Windows {
    /// No windows yet. The variation of transfer latencies depends on `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            options: Options {
                seed,
                ..Options::default()
            },
            known: HashMap::new(),
            kept: None,
        }
    }

    /// Windows are taken from a store, and kept there.
    pub(crate) fn keep(&mut self, kept: KeptWindows) {
        self.kept = Some(kept);
    }

    /// The number of windows whose rates were needed.
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// The rates of a configuration.
    pub(crate) fn rates(
        &mut self,
        model: &Model,
        mix: &Mix,
        pages: &Pages,
        setting: &Setting,
    ) -> Result<Rc<Rates>, WindowError> {
        if let Some(known) = self.known.get(setting) {
            return Ok(Rc::clone(known));
        }
        let rates = match self.kept.as_ref().and_then(|kept| kept.load(setting)) {
            Some(rates) => rates,
            None => self.simulate(model, mix, pages, setting)?,
        };
        let rates = Rc::new(rates);
        self.known.insert(setting.clone(), Rc::clone(&rates));
        Ok(rates)
    }

    fn simulate(&self, model: &Model, mix: &Mix, pages: &Pages, setting: &Setting) -> Result<Rates, WindowError> {
        let rates = simulated(model, mix, pages, setting, &self.options)?;
        // The rates of a program that could not be read to its end are not those of the program.
        if let Some(kept) = &self.kept
            && mix.error().is_none()
        {
            kept.store(setting, &rates);
        }
        Ok(rates)
    }
}

fn simulated(
    model: &Model,
    mix: &Mix,
    pages: &Pages,
    setting: &Setting,
    options: &Options,
) -> Result<Rates, WindowError> {
    let pinning = Pinning::new(setting.pus.clone()).ok_or(WindowError::NoThreads)?;
    let configuration = WindowConfiguration {
        pinning,
        // All pages already have their nodes.
        pages: PageMapping::FirstTouch,
        prefetchers: setting.prefetchers,
    };
    let placed = pages.placed(model, mix, &setting.homes);
    let teams = (0..mix.programs().len()).map(|program| mix.repeated(program)).collect();
    let regions = &setting.regions;
    let marks = simulate_regions(model, &configuration, regions, &placed, teams, REPETITIONS, options)?;
    // A program without marks could not be read to its end. The caller checks the program's error.
    let measured: Vec<MeasuredProgram> = marks
        .iter()
        .zip(mix.programs())
        .map(|(marks, program)| MeasuredProgram::new(marks, program.threads()))
        .collect();
    let latest = |pick: fn(&MeasuredProgram) -> &Mark| {
        let marks = measured.iter().map(pick);
        marks.max_by(|one, other| one.seconds.total_cmp(&other.seconds))
    };
    let nothing = Mark::nothing(0);
    let cold_ends = latest(|program| &program.first).unwrap_or(&nothing);
    let warm_ends = latest(|program| &program.last).unwrap_or(&nothing);
    Ok(Rates {
        programs: measured
            .iter()
            .zip(mix.programs())
            .map(|(measured, program)| measured.rates(model, program.knows_cuts()))
            .collect(),
        cold: watts(&nothing, cold_ends),
        warm: watts(cold_ends, warm_ends),
        cold_traffic: traffic(&nothing, cold_ends),
        warm_traffic: traffic(cold_ends, warm_ends),
    })
}

/// The least number of repetitions of each program.
const REPETITIONS: u64 = 2;

/// The least duration of a repetition, in seconds. Without it a region of interest without instructions would repeat
/// endlessly in no time.
const SHORTEST: f64 = 1e-9;

/// The marks of one program in a window.
struct MeasuredProgram {
    first: Mark,
    last: Mark,
    /// Repetitions between the first mark and the last.
    warm: f64,
}

impl MeasuredProgram {
    fn new(marks: &TeamMarks, threads: usize) -> Self {
        let mark = |mark: &Option<Mark>| mark.clone().unwrap_or_else(|| Mark::nothing(threads));
        Self {
            first: mark(&marks.first),
            last: mark(&marks.last),
            warm: marks.number.saturating_sub(1).max(1) as f64,
        }
    }

    fn rates(&self, model: &Model, knows_cuts: bool) -> ProgramRates {
        let levels = model.caches.len();
        let counts = |counters: &Counters| Counter::all(counters, levels);
        let cold = Repetition {
            seconds: self.first.seconds.max(SHORTEST),
            counts: self.first.threads.iter().map(counts).collect(),
            regions: growths(&self.first.regions, &BTreeMap::new(), 1.0, model),
        };
        let all = self.last.threads.iter().map(counts).zip(&cold.counts);
        let warm = Repetition {
            seconds: ((self.last.seconds - self.first.seconds) / self.warm).max(SHORTEST),
            counts: all
                .map(|(all, cold)| std::array::from_fn(|counter| (all[counter] - cold[counter]).max(0.0) / self.warm))
                .collect(),
            regions: growths(&self.last.regions, &self.first.regions, self.warm, model),
        };
        ProgramRates {
            cold,
            warm,
            unrecorded_wait_share: if knows_cuts { self.unrecorded(model) } else { None },
        }
    }

    fn unrecorded(&self, model: &Model) -> Option<f64> {
        let until = |mark: &Mark| mark.threads.iter().map(|thread| thread.unrecorded_cycles).sum::<f64>();
        let cycles = (self.last.seconds - self.first.seconds) * model.frequency().0;
        unrecorded_share(until(&self.last) - until(&self.first), self.last.threads.len(), cycles)
    }
}

/// The power of the machine between two marks.
fn watts(from: &Mark, to: &Mark) -> Watts {
    let seconds = (to.seconds - from.seconds).max(SHORTEST);
    let (from, to) = (Energy::until(from), Energy::until(to));
    std::array::from_fn(|energy| (to[energy] - from[energy]).max(0.0) / seconds)
}

/// The bytes per second of each node's memory between two marks.
fn traffic(from: &Mark, to: &Mark) -> Vec<f64> {
    let seconds = (to.seconds - from.seconds).max(SHORTEST);
    let before = from.memory_bytes.iter().copied().chain(std::iter::repeat(0));
    let grown = to
        .memory_bytes
        .iter()
        .zip(before)
        .map(|(&to, from)| to.saturating_sub(from));
    grown.map(|bytes| bytes as f64 / seconds).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::builtin;
    use crate::program::SimulatedProgram;
    use crate::window::{Event, EventKind, Recorded, Stream, simulate, simulate_teams};
    use std::sync::Arc;

    /// Three threads that read arrays of different lengths, write to a shared line, and meet at a barrier. Two of them
    /// wait for a signal that may never come.
    #[derive(Clone, Copy)]
    struct Reading {
        signalled: bool,
    }

    impl SimulatedProgram for Reading {
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

    const PUS: [u32; 6] = [0, 1, 20, 2, 3, 21];

    fn configuration(threads: usize) -> WindowConfiguration {
        WindowConfiguration {
            pinning: Pinning::new(PUS[..threads].iter().copied().map(PuId).collect()).unwrap(),
            pages: PageMapping::FirstTouch,
            prefetchers: Prefetchers::ALL,
        }
    }

    /// Runs programs until each has reached `marks` marks.
    fn run(programs: &[Reading], marks: u64) -> Vec<TeamMarks> {
        let model = builtin("opteron-6164x4").unwrap();
        let programs: Vec<Arc<dyn SimulatedProgram>> = programs.iter().map(|program| Arc::new(*program) as _).collect();
        let mix = Mix::new(programs);
        let teams = (0..mix.programs().len()).map(|program| mix.repeated(program)).collect();
        let placed = HashMap::<u64, u8>::new();
        let configuration = configuration(mix.all_threads());
        simulate_teams(&model, &configuration, &placed, teams, marks, &Options::default()).unwrap()
    }

    #[test]
    fn the_first_of_two_repetitions_counts_what_one_alone_does() {
        for (signalled, released) in [(true, 0), (false, 2)] {
            let program = Reading { signalled };
            let model = builtin("opteron-6164x4").unwrap();
            let streams = (0..program.threads()).map(|thread| program.stream(thread)).collect();
            let alone = simulate(&model, &configuration(3), None, streams, &Options::default()).unwrap();
            let marks = run(&[program], 2).remove(0);
            let (first, last) = (marks.first.unwrap(), marks.last.unwrap());
            assert_eq!(marks.number, 2);
            assert_eq!((first.seconds, &first.threads), (alone.seconds, &alone.threads));
            assert_eq!(
                (alone.released, first.released, last.released),
                (released, released, 2 * released)
            );
            let reads = |threads: &[Counters]| threads.iter().map(|thread| thread.reads).sum::<u64>();
            assert_eq!(reads(&last.threads), 2 * reads(&alone.threads));
            assert!(last.seconds > first.seconds && last.seconds < 2.0 * first.seconds);
        }
    }

    #[test]
    fn programs_side_by_side_share_no_page_and_wait_for_no_other() {
        let programs = [Reading { signalled: false }, Reading { signalled: true }];
        let marks = run(&programs, 2);
        for (marks, released) in marks.iter().zip([2, 0]) {
            let first = marks.first.as_ref().unwrap();
            assert!(marks.number >= 2);
            assert_eq!(first.released, released);
            let alone = run(&programs[..1], 1).remove(0).first.unwrap();
            let reads = |mark: &Mark| mark.threads.iter().map(|thread| thread.reads).sum::<u64>();
            assert_eq!(reads(first), reads(&alone));
            let handed = |mark: &Mark| mark.threads.iter().map(|thread| thread.invalidations_sent).sum::<u64>();
            assert_eq!(handed(first), handed(&alone), "the programs share no line");
        }
    }
}
