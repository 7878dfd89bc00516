//! A survey of a program whose regions have known times: twenty regions in turn, on a machine of four nodes.

use pinfold_core::random::Random;
use pinfold_core::{
    Applied, Configuration, Count, Decision, Metric, NodeId, PageMapping, Pinning, Prefetchers, PuId, Refusal,
    RefusalCode, RegionConfiguration, RegionCounts, RegionId, RegionKeeps, RegionSample, Sample, Scope, TaskId,
    TaskSample, Topology, sources,
};
use pinfold_policy::survey::{By, Configurations, Subject, Survey, SurveyConfiguration, SurveyOptions, Surveyed, Turn};
use pinfold_policy::{MetricRequest, Policy, Skip, Times};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;

#[path = "../../core/tests/support/synthetic.rs"]
mod synthetic;

const THREADS: u64 = 8;

/// How long it takes to move the pages, in seconds.
const MOVING: f64 = 2.0;

/// A program that executes its regions in turn.
struct Program {
    regions: usize,
    /// The usual time of an execution, in seconds.
    usual: f64,
    noise: f64,
    /// How much slower it becomes in a second.
    drift: f64,
    random: Random,
    at: f64,
    /// The region that runs, the rest of its execution, and the length of it.
    running: (usize, f64, f64),
    totals: Vec<(f64, f64)>,
    wanted: Configuration,
    keeps: BTreeMap<RegionId, RegionKeeps>,
    moves: usize,
    refuses_prefetchers: bool,
    /// The power of the machine in watts, if the program is not an OpenMP program and each execution is a heartbeat.
    watts: Option<f64>,
}

/// The factor on the time of a region in a configuration. It differs between regions, PUs, pages and prefetchers.
fn factor(region: u64, own: &RegionConfiguration, wanted: &Configuration) -> f64 {
    let pus = own
        .pinning
        .as_ref()
        .map_or(5, |pinning| pinning.pus().iter().map(|pu| u64::from(pu.0)).sum());
    let pages = match wanted.pages {
        None | Some(PageMapping::FirstTouch) => 0,
        Some(PageMapping::Interleave) => 3,
        Some(PageMapping::Single(_)) => 6,
        Some(_) => 9,
    };
    let threads = own.threads.unwrap_or(8) as u64;
    let off = own.prefetchers.map_or(0, |setting| {
        setting.to_string().bytes().filter(|&bit| bit == b'1').count() as u64
    });
    let mixed = (region * 31 + pus * 17 + pages * 7 + off * 3 + threads * 5) % 64;
    1.0 + mixed as f64 / 64.0
}

impl Program {
    fn new(regions: usize, seed: u64) -> Self {
        let mut program = Self {
            regions,
            usual: 1e-3,
            noise: 0.01,
            drift: 0.0,
            random: Random::new(seed),
            at: 0.0,
            running: (0, 0.0, 0.0),
            totals: vec![(0.0, 0.0); regions],
            wanted: Configuration::default(),
            keeps: BTreeMap::new(),
            moves: 0,
            refuses_prefetchers: false,
            watts: None,
        };
        program.begin(0);
        program
    }

    /// The region with this number has the configuration that it is to have now.
    fn begin(&mut self, region: usize) {
        let id = RegionId(region as u64 + 1);
        let default = RegionConfiguration::default();
        let own = self.wanted.regions.get(&id).unwrap_or(&default);
        let slower = 1.0 + self.drift * self.at;
        let noise = (self.noise * self.random.normal()).exp();
        let length = self.usual * factor(id.0, own, &self.wanted) * slower * noise;
        self.running = (region, length, length);
    }

    fn run(&mut self, seconds: f64) {
        let mut left = seconds;
        loop {
            let (region, rest, length) = self.running;
            if rest > left {
                self.running.1 -= left;
                self.at += left;
                return;
            }
            self.at += rest;
            left -= rest;
            self.totals[region].0 += 1.0;
            self.totals[region].1 += length;
            self.begin((region + 1) % self.regions);
        }
    }

    fn apply(&mut self, wanted: &Configuration) -> Applied {
        let mut applied = Applied::default();
        if wanted.pages != self.wanted.pages {
            self.moves += 1;
            self.at += MOVING;
        }
        self.wanted = wanted.clone();
        if self.refuses_prefetchers && wanted.prefetchers.is_some() {
            applied
                .refused
                .push(Refusal::for_machine(RefusalCode::Prefetchers, "there is no module msr"));
            for own in self.wanted.regions.values_mut() {
                own.prefetchers = None;
            }
        }
        applied
    }

    fn sample(&self) -> Sample {
        let at = Duration::from_secs_f64(self.at);
        let task = |serial| TaskSample {
            id: TaskId {
                serial,
                process: 1,
                thread: 1,
            },
            name: String::new(),
            alive: true,
            cpu_time: Some(at),
            run_delay: None,
            last_pu: Some(PuId(u32::try_from(serial).unwrap())),
            counts: vec![],
        };
        // An execution counts when it has ended.
        let region = |(number, &(executions, seconds)): (usize, &(f64, f64))| RegionSample {
            id: RegionId(number as u64 + 1),
            executions,
            seconds,
            counts: None,
            keeps: self
                .keeps
                .get(&RegionId(number as u64 + 1))
                .copied()
                .unwrap_or_default(),
        };
        if let Some(watts) = self.watts {
            let beats: f64 = self.totals.iter().map(|(executions, _)| executions).sum();
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a number of executions"
            )]
            let beats = Count::exact(beats as u64);
            return Sample {
                at,
                tasks: (0..THREADS).map(task).collect(),
                program: vec![Some(beats)],
                machine: Some(RegionCounts {
                    package_joules: Some(watts * self.at),
                    ..RegionCounts::default()
                }),
                ..Sample::default()
            };
        }
        Sample {
            at,
            tasks: (0..THREADS).map(task).collect(),
            regions: self
                .totals
                .iter()
                .enumerate()
                .map(region)
                .filter(|region| region.executions > 0.0)
                .collect(),
            ..Sample::default()
        }
    }

    /// Runs a survey for at most `longest` seconds. Returns the last decision.
    fn survey(&mut self, survey: &mut Survey, topology: &Topology, longest: f64) -> Decision {
        let heartbeat = self.watts.map(|_| sources::HEARTBEAT.metric(Scope::Program));
        let metrics: Vec<Metric> = heartbeat.into_iter().collect();
        let mut decision = survey.start(topology, &metrics);
        loop {
            let applied = decision
                .configuration
                .as_ref()
                .map(|wanted| self.apply(wanted))
                .unwrap_or_default();
            self.run(decision.wait.as_secs_f64());
            decision = survey.decide(topology, &self.sample(), &applied);
            assert!(decision.wait > Duration::ZERO);
            if survey.ended().is_some() || self.at > longest {
                return decision;
            }
        }
    }
}

fn machine() -> Topology {
    synthetic::synthetic("package:4 numa:1 core:8 pu:1")
}

fn options() -> SurveyOptions {
    SurveyOptions {
        times: Times {
            interval: Duration::from_millis(100),
            ..Times::new(None, None, Some(Duration::from_secs(1)))
        },
        metric: MetricRequest::Auto,
        skip: Skip::default(),
        threads: None,
        by: By::Regions,
        interval: 0.02,
        rounds: (3, 12),
        limit: None,
        lasted: None,
        seed: 7,
    }
}

/// The 288 configurations of a paper's size: nine pinnings, two page maps, and sixteen settings of prefetchers.
fn space() -> Vec<SurveyConfiguration> {
    let mut all = vec![];
    for pinning in 0..9u32 {
        let threads = [2u32, 4, 8][pinning as usize / 3];
        let pus = (0..threads).map(|rank| PuId(rank * (pinning % 3 + 1))).collect();
        for pages in [PageMapping::Interleave, PageMapping::Single(NodeId(0))] {
            for bits in 0..16 {
                all.push(SurveyConfiguration {
                    threads: Some(threads as usize),
                    pinning: Pinning::new(Vec::clone(&pus)),
                    pages: Some(pages),
                    prefetchers: Some(format!("{bits:04b}").parse().unwrap()),
                });
            }
        }
    }
    all
}

/// The times of a survey against the true ones: the largest relative error.
fn worst(survey: &Survey, usual: f64) -> f64 {
    let configurations = survey.configurations();
    let errors = survey.measured().into_iter().map(|measured| {
        let Subject::Region(region) = measured.subject else {
            panic!("{measured:?}")
        };
        let one = &configurations[measured.configuration];
        let own = RegionConfiguration {
            pinning: one.pinning.clone(),
            threads: one.threads.filter(|&threads| threads != 8),
            prefetchers: one.prefetchers,
        };
        let wanted = Configuration {
            pages: one.pages,
            ..Configuration::default()
        };
        (measured.seconds / (usual * factor(region.0, &own, &wanted)) - 1.0).abs()
    });
    errors.fold(0.0, f64::max)
}

/// By region: the measured times over the true ones of a program that neither drifts nor is slower as a whole.
fn ratios(survey: &Survey) -> BTreeMap<RegionId, Vec<f64>> {
    let mut by_region: BTreeMap<RegionId, Vec<f64>> = BTreeMap::new();
    for one in survey.measured() {
        let Subject::Region(region) = one.subject else {
            panic!("{one:?}")
        };
        let configuration = &survey.configurations()[one.configuration];
        let own = RegionConfiguration {
            pinning: configuration.pinning.clone(),
            threads: configuration.threads.filter(|&threads| threads != 8),
            prefetchers: configuration.prefetchers,
        };
        let wanted = Configuration {
            pages: configuration.pages,
            ..Configuration::default()
        };
        let ratio = one.seconds / factor(region.0, &own, &wanted);
        by_region.entry(region).or_default().push(ratio);
    }
    by_region
}

fn over(list: Vec<SurveyConfiguration>) -> impl Fn(&Topology, &Surveyed) -> Result<Configurations, String> {
    move |_, surveyed| {
        assert_eq!(surveyed.threads, 8);
        Ok(Configurations {
            list: list.clone(),
            references: vec![0],
            earlier: vec![],
        })
    }
}

#[test]
fn a_paper_s_288_configurations_of_20_regions_take_minutes_and_pages_move_twice_a_pass() {
    let mut program = Program::new(20, 3);
    let mut survey = Survey::new(options(), over(space()));
    let last = program.survey(&mut survey, &machine(), 3600.0);
    let ended = survey.ended().unwrap();
    assert!(ended.complete && ended.precise == 288, "{ended:?}");
    assert!(ended.lasted < 300.0, "{ended:?}");
    assert!(
        worst(&survey, program.usual) < 0.02,
        "{}",
        worst(&survey, program.usual)
    );
    // Two places: one way in a pass, the other way in the next one.
    assert!(program.moves <= 4, "{}", program.moves);
    assert!(!last.configuration.unwrap().pins());
}

#[test]
fn a_whole_program_has_the_energy_of_one_unit_in_each_configuration() {
    let mut program = Program::new(1, 3);
    program.watts = Some(50.0);
    let list: Vec<SurveyConfiguration> = space()
        .into_iter()
        .filter(|one| one.prefetchers == Some(Prefetchers::ALL) && one.threads == Some(8))
        .collect();
    let whole = SurveyOptions {
        by: By::Program,
        ..options()
    };
    let mut survey = Survey::new(whole, over(list));
    program.survey(&mut survey, &machine(), 3600.0);
    let measured = survey.measured();
    assert_eq!(measured.len(), 6);
    for one in measured {
        assert_eq!(one.subject, Subject::Program);
        let counts = one.counts.unwrap();
        let watts = counts.package_joules.unwrap() / one.seconds;
        assert!((watts / 50.0 - 1.0).abs() < 0.05, "{watts}");
        assert_eq!(counts.memory_joules, None);
    }
}

#[test]
fn without_prefetchers_the_rest_is_measured_and_the_reason_is_kept() {
    let mut program = Program::new(3, 3);
    program.refuses_prefetchers = true;
    let mut survey = Survey::new(options(), over(space()));
    program.survey(&mut survey, &machine(), 3600.0);
    let configurations = survey.configurations();
    assert_eq!(survey.left_out().len(), 288 / 16 * 15);
    assert!(survey.left_out().values().all(|why| why.contains("module msr")));
    let measured = survey.measured();
    assert_eq!(measured.len(), 3 * 18);
    assert!(
        measured
            .iter()
            .all(|one| configurations[one.configuration].prefetchers == Some(Prefetchers::ALL))
    );
}

#[test]
fn a_region_that_keeps_its_team_has_no_times_of_others() {
    let mut program = Program::new(3, 3);
    let (keeps_threads, keeps_places) = (RegionId(1), RegionId(2));
    program.keeps.insert(
        keeps_threads,
        RegionKeeps {
            threads: true,
            places: false,
        },
    );
    program.keeps.insert(
        keeps_places,
        RegionKeeps {
            threads: false,
            places: true,
        },
    );
    let mut list = vec![SurveyConfiguration::default()];
    list.extend(
        space()
            .into_iter()
            .filter(|one| one.prefetchers == Some(Prefetchers::ALL)),
    );
    let mut survey = Survey::new(options(), over(list));
    program.survey(&mut survey, &machine(), 3600.0);
    let of = |region| {
        survey
            .measured()
            .iter()
            .filter(|one| one.subject == Subject::Region(region))
            .count()
    };
    assert_eq!((of(keeps_threads), of(keeps_places), of(RegionId(3))), (7, 1, 19));
    assert!(survey.ended().unwrap().complete);
}

#[test]
fn a_later_run_that_is_slower_as_a_whole_measures_what_is_missing_and_times_are_comparable() {
    let list: Vec<SurveyConfiguration> = space().into_iter().step_by(12).collect();
    let mut first = Program::new(4, 3);
    let mut survey = Survey::new(options(), over(list.clone()));
    // The program ends in its first pass.
    first.survey(&mut survey, &machine(), 6.0);
    assert!(survey.ended().is_none());
    let turns = survey.take_turns().into_iter();
    let earlier: Vec<Turn> = turns.map(|turn| Turn { session: 1, ..turn }).collect();
    assert!(!earlier.is_empty());

    let mut second = Program::new(4, 5);
    second.usual *= 1.5;
    let (known, configurations) = (earlier.clone(), list.len());
    let mut survey = Survey::new(options(), move |_, _| {
        Ok(Configurations {
            list: list.clone(),
            references: vec![0],
            earlier: known.clone(),
        })
    });
    second.survey(&mut survey, &machine(), 3600.0);
    let ended = survey.ended().unwrap();
    assert!(ended.complete && ended.precise == configurations, "{ended:?}");
    assert!((ended.drift - 0.5).abs() < 0.1, "{ended:?}");
    assert_eq!(survey.earlier(), earlier.len());
    for ratios in ratios(&survey).values() {
        assert_eq!(ratios.len(), configurations);
        let (least, most) = (
            ratios.iter().copied().fold(f64::MAX, f64::min),
            ratios.iter().copied().fold(0.0, f64::max),
        );
        assert!(most / least < 1.05, "{ratios:?}");
    }
    // After the reference the second run begins with a configuration that the first one has not measured.
    let own = survey.take_turns();
    let is_new = |turn: &&Turn| earlier.iter().all(|before| before.configuration != turn.configuration);
    let first_of_others = own.iter().find(|turn| turn.configuration != 0).unwrap();
    assert!(is_new(&first_of_others), "{first_of_others:?}");
}

#[test]
fn a_run_after_a_complete_one_measures_nothing() {
    let list: Vec<SurveyConfiguration> = space().into_iter().step_by(48).collect();
    let mut survey = Survey::new(options(), over(list.clone()));
    Program::new(2, 3).survey(&mut survey, &machine(), 3600.0);
    let turns = survey.take_turns().into_iter();
    let earlier: Vec<Turn> = turns.map(|turn| Turn { session: 1, ..turn }).collect();
    let measured = survey.measured();
    let mut again = Survey::new(options(), move |_, _| {
        Ok(Configurations {
            list: list.clone(),
            references: vec![0],
            earlier: earlier.clone(),
        })
    });
    Program::new(2, 4).survey(&mut again, &machine(), 3600.0);
    assert!(again.ended().unwrap().complete);
    assert!(again.take_turns().is_empty());
    assert_eq!(again.measured(), measured);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn times_are_right_whatever_the_order_and_the_drift_are(
        seed in any::<u64>(),
        drift in -0.002f64..0.005,
        chosen in proptest::collection::btree_set(0usize..288, 3..12),
    ) {
        let mut program = Program::new(4, seed);
        program.drift = drift;
        let all = space();
        let list: Vec<SurveyConfiguration> = chosen.into_iter().map(|one| all[one].clone()).collect();
        let configurations = list.len();
        let mut survey = Survey::new(SurveyOptions { seed, ..options() }, over(list));
        let last = program.survey(&mut survey, &machine(), 3600.0);
        let ended = survey.ended().unwrap();
        prop_assert!(ended.complete, "{ended:?}");
        prop_assert_eq!(survey.measured().len(), 4 * configurations);
        // Times are those of the middle of the survey, so ratios are compared.
        for ratios in ratios(&survey).values() {
            let (least, most) = (ratios.iter().copied().fold(f64::MAX, f64::min), ratios.iter().copied().fold(0.0, f64::max));
            prop_assert!(most / least < 1.05, "{ratios:?}");
        }
        prop_assert!(!last.configuration.unwrap().pins());
    }
}
