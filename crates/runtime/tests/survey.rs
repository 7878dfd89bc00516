//! A survey in the loop: on scripted machines, whose rates are known, and on simulated ones.

mod common;

use common::{pinning, run_on, run_policy, script, scripted, seconds};
use pinfold_core::{Finding, PageMapping};
use pinfold_policy::survey::{By, Configurations, Measured, Subject, Survey, SurveyConfiguration, SurveyOptions};
use pinfold_policy::{MetricRequest, Skip, Times};

fn options() -> SurveyOptions {
    SurveyOptions {
        times: Times::new(Some(seconds(5.0)), None, Some(seconds(1.0))),
        metric: MetricRequest::Auto,
        skip: Skip::default(),
        threads: None,
        by: By::Auto,
        interval: 0.02,
        rounds: (3, 12),
        limit: None,
        lasted: None,
        seed: 1,
    }
}

/// The unpinned program, and these pinnings.
fn pinned(pinnings: &[&str]) -> Configurations {
    let one = |list: &&str| SurveyConfiguration {
        pinning: Some(pinning(list)),
        ..SurveyConfiguration::default()
    };
    Configurations {
        list: [SurveyConfiguration::default()]
            .into_iter()
            .chain(pinnings.iter().map(one))
            .collect(),
        references: vec![0],
        earlier: vec![],
    }
}

/// Two threads. Their rates unpinned and in two pinnings.
fn two_threads(rest: &str, phases: &str) -> String {
    script(&format!("threads = 2\n{rest}\n{phases}"))
}

fn phase(start: f64, factor: f64) -> String {
    let (unpinned, near, far) = (100.0 * factor, 120.0 * factor, 80.0 * factor);
    format!(
        "[[phase]]\nstart = {start}\nrate = {unpinned}\n\
         [[phase.pinning]]\npus = \"0,1\"\nrate = {near}\n[[phase.pinning]]\npus = \"0,4\"\nrate = {far}\n"
    )
}

fn times(survey: &Survey) -> Vec<f64> {
    survey.measured().iter().map(|measured| measured.seconds).collect()
}

/// Whether times over the first one are these, to `error`.
fn assert_ratios(survey: &Survey, wanted: &[f64], error: f64) {
    let times = times(survey);
    assert_eq!(times.len(), wanted.len(), "{:?}", survey.measured());
    for (time, wanted) in times.iter().zip(wanted) {
        let ratio = time / times[0];
        assert!(
            (ratio / wanted - 1.0).abs() < error,
            "{ratio} and not {wanted}: {:?}",
            survey.measured()
        );
    }
}

#[test]
fn rates_of_a_script_are_measured_and_the_program_runs_on_unpinned() {
    let text = two_threads("duration = 60.0\nnoise = 0.01\nseed = 3", &phase(0.0, 1.0));
    let mut survey = Survey::new(options(), |_, _| Ok(pinned(&["0,1", "0,4"])));
    let (log, _) = run_on(scripted(&text), &mut survey);
    assert_ratios(&survey, &[1.0, 100.0 / 120.0, 100.0 / 80.0], 0.02);
    let ended = survey.ended().unwrap();
    assert!(ended.complete && ended.precise == 3, "{ended:?}");
    assert!(ended.lasted < 20.0, "{ended:?}");
    assert_eq!(survey.subjects(), [Subject::Program]);
    let (_, last, _) = log.applied.last().unwrap();
    assert!(!last.pins(), "{last:?}");
}

#[test]
fn a_program_whose_speed_drifts_is_measured_without_the_drift() {
    // Each second the program is 2 % slower than in the one before.
    let phases: String = (0..60)
        .map(|second| phase(f64::from(second), 0.98f64.powi(second)))
        .collect();
    let text = two_threads("duration = 60.0\nnoise = 0.005\nseed = 3", &phases);
    let mut survey = Survey::new(options(), |_, _| Ok(pinned(&["0,1", "0,4"])));
    run_on(scripted(&text), &mut survey);
    assert_ratios(&survey, &[1.0, 100.0 / 120.0, 100.0 / 80.0], 0.03);
    assert!(survey.ended().unwrap().drift > 0.05, "{:?}", survey.ended());
}

#[test]
fn a_program_that_ends_keeps_what_was_measured_and_says_what_is_missing() {
    let text = two_threads("duration = 2.2\nnoise = 0.01", &phase(0.0, 1.0));
    let mut survey = Survey::new(options(), |_, _| Ok(pinned(&["0,1", "0,4", "4,5", "0,5"])));
    let (log, _) = run_on(scripted(&text), &mut survey);
    let measured = survey.measured().len();
    assert!((1..5).contains(&measured), "{measured}");
    let ended = survey.ended().unwrap();
    assert_eq!((ended.complete, ended.measured), (false, measured));
    let own = |(_, finding): &(f64, Finding)| match finding {
        Finding::Own(own) if own.name == "survey_ended" => Some(own.text.clone()),
        _ => None,
    };
    let text: Vec<String> = log.findings.iter().filter_map(own).collect();
    assert!(
        text.len() == 1 && text[0].contains("at least") && text[0].contains("of 5 configurations"),
        "{text:?}"
    );
}

#[test]
fn a_time_limit_ends_the_sweep_and_not_the_program() {
    let limited = SurveyOptions {
        limit: Some(seconds(1.5)),
        ..options()
    };
    let text = two_threads("duration = 30.0\nnoise = 0.01", &phase(0.0, 1.0));
    let mut survey = Survey::new(limited, |_, _| Ok(pinned(&["0,1", "0,4", "4,5", "0,5"])));
    let (log, _) = run_on(scripted(&text), &mut survey);
    let ended = survey.ended().unwrap();
    assert!(!ended.complete && ended.why.contains("time limit"), "{ended:?}");
    assert_eq!(log.ended, Some((30.0, 0)));
}

#[test]
fn what_a_machine_refuses_is_left_out_with_the_reason() {
    let text = two_threads("duration = 60.0\nnoise = 0.01", &phase(0.0, 1.0));
    let mut survey = Survey::new(options(), |_, _| {
        let mut all = pinned(&["0,1"]);
        all.list.push(SurveyConfiguration {
            pages: Some(PageMapping::Interleave),
            ..all.list[1].clone()
        });
        all.list.push(SurveyConfiguration {
            threads: Some(1),
            ..all.list[1].clone()
        });
        Ok(all)
    });
    run_on(scripted(&text), &mut survey);
    let left_out = survey.left_out();
    assert!(
        left_out[&2].contains("interleave") && left_out[&3].contains("no parallel regions"),
        "{left_out:?}"
    );
    let measured: Vec<usize> = survey
        .measured()
        .iter()
        .map(|measured| measured.configuration)
        .collect();
    assert_eq!(measured, [0, 1]);
    assert!(survey.ended().unwrap().complete);
}

#[test]
fn configurations_that_cannot_be_made_are_said_and_the_program_runs_on() {
    let mut survey = Survey::new(options(), |_, surveyed| {
        Err(format!("{} threads have too many placements", surveyed.threads))
    });
    let (log, _) = run_policy(
        "threads = 2\nduration = 5.0\n[[phase]]\nstart = 0.0\nrate = 100.0",
        &mut survey,
    );
    assert!(
        log.notes()
            .iter()
            .any(|note| note.contains("2 threads have too many placements")),
        "{:?}",
        log.notes()
    );
    assert!(log.applied.iter().all(|(_, configuration, _)| !configuration.pins()));
    assert_eq!(survey.measured(), [] as [Measured; 0]);
}

/// On a simulated machine, with a program that is made up.
mod simulated {
    use super::{options, pinned};
    use pinfold_core::{Configuration, Machine, NodeId, PageMapping, Pinning, Prefetchers, PuId, RegionId};
    use pinfold_policy::survey::{Configurations, Subject, Survey, SurveyConfiguration, SurveyOptions};
    use pinfold_runtime::{RecordBuilder, Recorder};
    use pinfold_sim::model::{Model, builtin};
    use pinfold_sim::sweep::evaluate;
    use pinfold_sim::window::{Event, EventKind, Recorded, Stream, WindowConfiguration};
    use pinfold_sim::{EndSwitch, Kernel, NamedProgram, Repeat, RunSettings, SimulatedMachine, SimulatedProgram};
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::time::Duration;

    const THREADS: u16 = 8;
    const PAGE: u64 = 4096;
    const BLOCK: u64 = 1 << 20;
    /// The instructions of an access, so many that a region is longer than 100 us.
    const INSTRUCTIONS: u32 = 160;

    /// Three regions in turn: each thread goes through its own block; all write to the same lines; the first thread's
    /// block is read by all.
    struct Regions {
        owners: Vec<(u64, u32)>,
    }

    fn block(thread: u64) -> u64 {
        (thread + 1) << 32
    }

    impl Regions {
        fn new() -> Self {
            let pages = |thread: u32| (0..BLOCK / PAGE).map(move |page| (block(thread.into()) / PAGE + page, thread));
            Self {
                owners: (0..u32::from(THREADS)).flat_map(pages).collect(),
            }
        }
    }

    impl SimulatedProgram for Regions {
        fn threads(&self) -> usize {
            THREADS.into()
        }

        fn stream(&self, thread: usize) -> Box<dyn Stream + '_> {
            let mut events = vec![];
            for place in 1..=3 {
                if thread == 0 {
                    events.push(Event::mark(EventKind::RegionBegin, place));
                    events.push(Event::mark(EventKind::Signal, place));
                } else {
                    events.push(Event::mark(EventKind::Wait, place));
                }
                events.push(Event::mark(EventKind::ShareBegin, place));
                let owner = if place == 1 { thread as u64 } else { 0 };
                match place {
                    2 => events.extend((0..4000).map(|turn| Event::write(64 * (turn % 4), 8, 20))),
                    _ => events
                        .extend((0..BLOCK / 64).map(|line| Event::read(block(owner) + line * 64, 8, INSTRUCTIONS))),
                }
                events.push(Event::barrier(place, THREADS));
                if thread == 0 {
                    events.push(Event::mark(EventKind::RegionEnd, place));
                }
            }
            Box::new(Recorded::new(events))
        }

        fn regions(&self) -> Option<u64> {
            Some(3)
        }

        fn page_owners(&self) -> &[(u64, u32)] {
            &self.owners
        }

        fn error(&self) -> Option<String> {
            None
        }
    }

    /// The requests that moved pages, with the mapping.
    #[derive(Default)]
    struct Mappings(Vec<Option<PageMapping>>);

    impl Recorder for Mappings {
        fn applied(&mut self, _at: Duration, wanted: &Configuration, _applied: &pinfold_core::Applied) {
            if self.0.last() != Some(&wanted.pages) {
                self.0.push(wanted.pages);
            }
        }
    }

    fn survey_on(model: &Model, survey: &mut Survey) -> Mappings {
        let switch = EndSwitch::default();
        let run = RunSettings {
            repeat: Repeat::UntilAsked(switch.clone()),
            exit_status: 0,
            seed: 1,
            noise: 0.0,
            kernel: Kernel::default(),
            numa_balancing: false,
        };
        let programs = vec![NamedProgram {
            name: "regions".to_owned(),
            program: Arc::new(Regions::new()),
        }];
        let mut machine = SimulatedMachine::new(model.clone(), model.topology(), programs, run);
        let mut record = RecordBuilder::new(&machine, "survey");
        let mut recorders = (Mappings::default(), Ending(switch));
        pinfold_runtime::run(&mut machine, survey, &mut record, &mut recorders).unwrap();
        assert!(machine.now() < Duration::from_secs(3600));
        recorders.0
    }

    /// Ends the program when the survey is over.
    struct Ending(EndSwitch);

    impl Recorder for Ending {
        fn finding(&mut self, _at: Duration, finding: &pinfold_core::Finding, _record: &pinfold_runtime::Record) {
            if matches!(finding, pinfold_core::Finding::Own(own) if own.name == "survey_ended") {
                self.0.end();
            }
        }
    }

    fn surveyed(configuration: &WindowConfiguration) -> SurveyConfiguration {
        SurveyConfiguration {
            threads: None,
            pinning: Some(configuration.pinning.clone()),
            pages: (configuration.pages != PageMapping::FirstTouch).then_some(configuration.pages),
            prefetchers: Some(configuration.prefetchers),
        }
    }

    /// Times of the simulated sweep by region and configuration, in seconds of an execution.
    fn swept(model: &Model, configurations: &[WindowConfiguration]) -> BTreeMap<(RegionId, usize), f64> {
        let program = Regions::new();
        let mut times = BTreeMap::new();
        for (number, configuration) in configurations.iter().enumerate() {
            for part in evaluate(model, &program, configuration, None).unwrap().parts {
                if let Some(region) = part.region {
                    times.insert(
                        (RegionId(region), number),
                        part.totals.seconds / part.totals.executions as f64,
                    );
                }
            }
        }
        times
    }

    fn options_of_regions() -> SurveyOptions {
        SurveyOptions {
            times: pinfold_policy::Times {
                interval: Duration::from_millis(100),
                ..pinfold_policy::Times::new(None, None, Some(Duration::from_secs(1)))
            },
            ..options()
        }
    }

    /// A machine on which a thread is as fast beside others as alone on its package.
    fn at_base_clock() -> Model {
        let mut model = builtin("e5-4650x4").unwrap();
        model.core.turbo = None;
        model
    }

    #[test]
    fn regions_take_the_times_of_the_simulated_sweep_with_pages_and_prefetchers_too() {
        let model = at_base_clock();
        let pinning = |list: &[u32]| Pinning::new(list.iter().copied().map(PuId).collect()).unwrap();
        let compact = pinning(&[0, 1, 2, 3, 4, 5, 6, 7]);
        let spread = pinning(&[0, 8, 16, 24, 1, 9, 17, 25]);
        let configurations = [
            (&compact, PageMapping::Local, Prefetchers::ALL),
            (&spread, PageMapping::Interleave, Prefetchers::ALL),
            (&spread, PageMapping::Interleave, Prefetchers::NONE),
            (&spread, PageMapping::Single(NodeId(0)), Prefetchers::ALL),
            (&compact, PageMapping::Interleave, Prefetchers::NONE),
        ]
        .map(|(pinning, pages, prefetchers)| WindowConfiguration {
            pinning: pinning.clone(),
            pages,
            prefetchers,
        });
        let wanted = swept(&model, &configurations);
        let list: Vec<SurveyConfiguration> = configurations.iter().map(surveyed).collect();
        let mut survey = Survey::new(options_of_regions(), move |_, _| {
            Ok(Configurations {
                list: list.clone(),
                references: vec![0],
                earlier: vec![],
            })
        });
        let mappings = survey_on(&model, &mut survey);
        let measured = survey.measured();
        assert_eq!(measured.len(), 15, "{:?}", survey.ended());
        for one in &measured {
            let Subject::Region(region) = one.subject else {
                panic!("{one:?}")
            };
            let wanted = wanted[&(region, one.configuration)];
            assert!((one.seconds / wanted - 1.0).abs() < 0.05, "{region} {one:?}: {wanted}");
            assert!(one.counts.is_some());
        }
        // Three places in two passes, one way and back, and first touch before and after.
        assert!(mappings.0.len() <= 7, "{:?}", mappings.0);
    }

    #[test]
    fn a_smaller_team_is_measured_and_the_program_goes_back() {
        let model = at_base_clock();
        let mut survey = Survey::new(options_of_regions(), |_, _| {
            let mut all = pinned(&["0-7"]);
            all.list.push(SurveyConfiguration {
                threads: Some(2),
                pinning: Pinning::new(vec![PuId(0), PuId(1)]),
                ..SurveyConfiguration::default()
            });
            Ok(all)
        });
        survey_on(&model, &mut survey);
        let times: BTreeMap<(Subject, usize), f64> = survey
            .measured()
            .iter()
            .map(|one| ((one.subject, one.configuration), one.seconds))
            .collect();
        let time = |region, configuration| times[&(Subject::Region(RegionId(region)), configuration)];
        assert!(
            time(1, 2) > 1.5 * time(1, 1),
            "two threads go through eight blocks: {times:?}"
        );
        assert!((time(1, 1) / time(1, 0) - 1.0).abs() < 0.05, "{times:?}");
        // Each region has a time of its own in each configuration.
        assert_eq!(times.len(), 9, "{times:?}");
    }
}
