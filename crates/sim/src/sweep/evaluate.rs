//! One program in one configuration: time and counters, for the whole program and for each of its parallel regions.
//!
//! 1. The region of interest is simulated twice in a row. The first repetition begins with empty caches and pages that
//!    have just been placed.
//! 2. The second repetition begins with the caches of the first. Each region has a `RegionFigures`. The papers measure
//!    programs that run for minutes, and codelets after a warm-up (Sánchez Barrera et al., ICS 2020, section 2.3). A
//!    single repetition would mostly show its cold misses.
//!
//! The page mapping applies from the beginning. If a page's node depends on the thread that touches the page first, the
//! recording says which thread that is, as in `pinfold run`.

use super::repetitions::{COLD, IN_COLD, Repetitions, WARM};
use crate::model::Model;
use crate::program::SimulatedProgram;
use crate::sampled::{SampledPart, Sampling};
use crate::window::{
    Mapping, Options, PageMapping, PageProfile, RegionTotals, Stream, WindowConfiguration, WindowError,
    simulate_with_pages, unrecorded_share,
};
use std::collections::BTreeSet;

/// The figures of the whole program or of a region of it, in the warm repetition.
#[derive(Clone, Debug, PartialEq)]
pub struct RegionFigures {
    /// The region's identity; `None` for the whole program.
    pub region: Option<u64>,
    /// The time of the same part in the repetition with cold caches, in seconds; `None` if it was not simulated.
    pub cold_seconds: Option<f64>,
    /// The sum over all executions of the region; for the whole program one repetition.
    pub totals: RegionTotals,
    /// Half of the width of the interval that has the time with a probability of 95 %, over the time: 0 where all was
    /// simulated, `None` if a sample does not say it.
    pub time_error: Option<f64>,
}

/// A program in one configuration. All values are simulated, none is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// The whole program first, then its regions by their identities.
    pub parts: Vec<RegionFigures>,
    /// Waits for events that are not in the recording, in both repetitions.
    pub released: u64,
    /// The share of the threads' time, in the warm repetition, spent waiting for events outside the recording; `None`
    /// where that is not known: of a sample, and of a recording that is damaged.
    pub unrecorded_wait_share: Option<f64>,
    /// The share of the accesses that was simulated.
    pub simulated_share: f64,
}

/// Simulates pieces of `program` in a configuration, and estimates its warm repetition. `profile` is needed for the
/// page mappings `locality` and `balance`. Where threads share a PU, their time slices are longer than pieces, and the whole
/// program is simulated.
///
/// The caller checks the program's `error` afterwards.
pub fn evaluate_sampled(
    model: &Model,
    program: &dyn SimulatedProgram,
    sampling: &Sampling<'_>,
    configuration: &WindowConfiguration,
    profile: Option<&PageProfile>,
) -> Result<Evaluation, WindowError> {
    let pinning = &configuration.pinning;
    let pus: BTreeSet<u32> = (0..program.threads()).map(|thread| pinning.pu(thread).0).collect();
    if pus.len() < program.threads() {
        return evaluate(model, program, configuration, profile);
    }
    let sampled = sampling.evaluate(model, program, configuration, profile)?;
    let part = |region, part: SampledPart| RegionFigures {
        region,
        cold_seconds: None,
        totals: part.totals,
        time_error: part.time_error,
    };
    let regions = sampled.regions.into_iter().map(|(region, of)| part(Some(region), of));
    Ok(Evaluation {
        parts: std::iter::once(part(None, sampled.whole)).chain(regions).collect(),
        released: sampled.released,
        unrecorded_wait_share: None,
        simulated_share: sampled.share,
    })
}

/// Simulates `program` in a configuration. `profile` is needed for the page mappings `locality` and `balance`.
///
/// The caller checks the program's `error` afterwards.
pub fn evaluate(
    model: &Model,
    program: &dyn SimulatedProgram,
    configuration: &WindowConfiguration,
    profile: Option<&PageProfile>,
) -> Result<Evaluation, WindowError> {
    let WindowConfiguration {
        pinning,
        pages,
        prefetchers,
    } = configuration;
    if matches!(pages, PageMapping::Locality | PageMapping::Balance) && profile.is_none() {
        return Err(WindowError::NoProfile(*pages));
    }
    let nodes: Vec<usize> = (0..program.threads())
        .map(|thread| model.node_of_pu(pinning.pu(thread).0).unwrap_or(0))
        .collect();
    let placed = Mapping::new(model, *pages, profile, &nodes).page_nodes(program.page_owners(), &nodes);
    let configuration = WindowConfiguration {
        pinning: pinning.clone(),
        // All pages have their nodes already.
        pages: PageMapping::FirstTouch,
        prefetchers: *prefetchers,
    };
    let streams = (0..program.threads())
        .map(|thread| Box::new(Repetitions::new(program, thread)) as Box<dyn Stream + '_>)
        .collect();
    let options = Options::default();
    let mut result = simulate_with_pages(model, &configuration, None, &placed, streams, &options)?;
    let totals = &mut result.region_totals;
    let cold = totals.remove(&COLD).unwrap_or_default();
    let warm = totals.remove(&WARM).unwrap_or_default();
    let unrecorded_wait_share = program.knows_cuts().then(|| {
        let cycles = warm.seconds * model.frequency().0;
        unrecorded_share(warm.counters.unrecorded_cycles, program.threads(), cycles)
    });
    let mut parts = vec![RegionFigures {
        region: None,
        cold_seconds: Some(cold.seconds),
        totals: warm,
        time_error: Some(0.0),
    }];
    let cold = totals.split_off(&IN_COLD);
    parts.extend(
        std::mem::take(totals)
            .into_iter()
            .map(|(region, totals)| RegionFigures {
                region: Some(region),
                cold_seconds: cold.get(&(region | IN_COLD)).map(|cold| cold.seconds),
                totals,
                time_error: Some(0.0),
            }),
    );
    Ok(Evaluation {
        parts,
        released: result.released,
        unrecorded_wait_share: unrecorded_wait_share.flatten(),
        simulated_share: 1.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{LINE_BYTES, builtin};
    use crate::window::{Event, EventKind, Recorded};
    use pinfold_core::{Pinning, Prefetchers, PuId};

    /// Two threads read an array each. In a region they read one together, and thread 0 begins and ends the region.
    struct Reading {
        owners: Vec<(u64, u32)>,
    }

    impl Reading {
        fn new() -> Self {
            Self {
                owners: vec![(0x1000, 0), (0x2000, 1)],
            }
        }
    }

    const REGION: u64 = 0x40_1000;

    impl SimulatedProgram for Reading {
        fn threads(&self) -> usize {
            2
        }

        fn stream(&self, thread: usize) -> Box<dyn Stream + '_> {
            let reads = |page: u64, lines: u64| (0..lines).map(move |line| Event::read(page * 4096 + line * 64, 8, 4));
            let mut events: Vec<Event> = reads(0x1000 * (thread as u64 + 1), 5000).collect();
            events.push(Event::barrier(1, 2));
            if thread == 0 {
                events.push(Event::mark(EventKind::RegionBegin, REGION));
            }
            events.push(Event::barrier(2, 2));
            events.extend(reads(0x3000, 100));
            events.push(Event::barrier(3, 2));
            if thread == 0 {
                events.push(Event::mark(EventKind::RegionEnd, REGION));
            }
            Box::new(Recorded::new(events))
        }

        fn regions(&self) -> Option<u64> {
            Some(1)
        }

        fn page_owners(&self) -> &[(u64, u32)] {
            &self.owners
        }

        fn error(&self) -> Option<String> {
            None
        }
    }

    /// Two threads. The first one is cut after a tenth of the other's time.
    struct Cut {
        known: bool,
    }

    impl SimulatedProgram for Cut {
        fn threads(&self) -> usize {
            2
        }

        fn stream(&self, thread: usize) -> Box<dyn Stream + '_> {
            let cut = [Event::instructions(100_000), Event::mark(EventKind::RecordedEnd, 0)];
            Box::new(Recorded::new(match thread {
                0 => cut.to_vec(),
                _ => vec![Event::instructions(1_000_000)],
            }))
        }

        fn regions(&self) -> Option<u64> {
            None
        }

        fn knows_cuts(&self) -> bool {
            self.known
        }

        fn page_owners(&self) -> &[(u64, u32)] {
            &[]
        }

        fn error(&self) -> Option<String> {
            None
        }
    }

    #[test]
    fn a_cut_thread_waits_until_the_window_begins_again_and_an_unknown_wait_is_not_zero() {
        let model = builtin("opteron-6164x4").unwrap();
        let configuration = on_one_node();
        let share = |program: &dyn SimulatedProgram| {
            let evaluation = evaluate(&model, program, &configuration, None).unwrap();
            evaluation.unrecorded_wait_share
        };
        assert_eq!(share(&Reading::new()), Some(0.0));
        assert!((share(&Cut { known: true }).unwrap() - 0.45).abs() < 1e-3);
        assert_eq!(share(&Cut { known: false }), None);
    }

    fn on_one_node() -> WindowConfiguration {
        WindowConfiguration {
            pinning: Pinning::new(vec![PuId(0), PuId(1)]).unwrap(),
            pages: PageMapping::Local,
            prefetchers: Prefetchers::ALL,
        }
    }

    fn evaluated() -> Evaluation {
        let model = builtin("opteron-6164x4").unwrap();
        let configuration = on_one_node();
        evaluate(&model, &Reading::new(), &configuration, None).unwrap()
    }

    #[test]
    fn the_whole_program_comes_first_and_counts_one_repetition() {
        let parts = evaluated().parts;
        assert_eq!(parts[0].region, None);
        assert_eq!(parts[0].totals.executions, 1);
        assert_eq!(parts[0].totals.counters.reads, 2 * 5100);
        assert_eq!(parts[0].totals.counters.instructions, 2 * 5100 * 4);
    }

    #[test]
    fn a_region_has_the_counts_of_all_threads_while_it_lasted() {
        let parts = evaluated().parts;
        assert_eq!(parts.len(), 2);
        assert_eq!(parts[1].region, Some(REGION));
        assert_eq!(parts[1].totals.executions, 1);
        assert_eq!(parts[1].totals.counters.reads, 200);
        assert!(parts[1].totals.seconds < parts[0].totals.seconds);
        assert!(parts[1].totals.package_joules < parts[0].totals.package_joules);
    }

    #[test]
    fn the_warm_repetition_finds_what_the_cold_one_left_in_the_caches() {
        let part = &evaluated().parts[0];
        assert!(part.cold_seconds > Some(part.totals.seconds), "{part:?}");
        // What both threads read fits the last level. Prefetchers may fetch one line beyond it.
        let read = part.totals.counters.reads * LINE_BYTES;
        assert!(part.totals.memory_bytes < read / 100, "{part:?}");
    }

    #[test]
    fn the_same_configuration_gives_the_same_data() {
        assert_eq!(evaluated(), evaluated());
    }
}
