//! The default policy, whatever it is shown: clocks that stand, counts that jump, run backwards or are missing, and
//! tasks that come, go and wander.

#[path = "../../core/tests/support/synthetic.rs"]
mod synthetic;

use pinfold_core::memory::PageMoves;
use pinfold_core::random::Random;
use pinfold_core::{
    Activity, Applied, ComparedCode, Count, Finding, Metric, Pinning, PuId, Refusal, RegionId, RegionKeeps,
    RegionSample, Sample, Scope, TaskId, TaskSample, sources,
};
use pinfold_policy::KnownPlacement;
use pinfold_policy::Policy;
use pinfold_policy::auto::{Auto, AutoOptions, CountOptions, Space};
use pinfold_policy::sam::{ActivityEvents, MapperEvents, Thresholds};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;
use synthetic::synthetic;

const TASKS: usize = 6;
const EVENTS: [&str; 3] = ["cycles", "instructions", "hitm"];

fn events() -> MapperEvents {
    MapperEvents {
        cycles: EVENTS[0].to_owned(),
        instructions: Some(EVENTS[1].to_owned()),
        activities: vec![ActivityEvents {
            activity: Activity::InterPackageCoherence,
            add: vec![EVENTS[2].to_owned()],
            subtract: vec![],
        }],
        reads: None,
    }
}

fn metrics() -> Vec<Metric> {
    let event = |name: &str| Metric {
        name: format!("event:{name}"),
        unit: "event".to_owned(),
        source: &sources::EVENT,
        scope: Scope::Task,
    };
    let mut all: Vec<Metric> = EVENTS.into_iter().map(event).collect();
    all.push(sources::REGIONS.metric(Scope::Program));
    all
}

/// What a count is at a reading.
#[derive(Clone, Copy, Debug)]
enum Reading {
    Grows(u64),
    Stands,
    Falls,
    Missing,
}

fn reading() -> impl Strategy<Value = Reading> {
    prop_oneof![
        6 => (1u64..2_000_000).prop_map(Reading::Grows),
        1 => Just(Reading::Grows(u64::MAX / 1000)),
        1 => Just(Reading::Stands),
        1 => Just(Reading::Falls),
        1 => Just(Reading::Missing),
    ]
}

/// One observation: the time since the last one in milliseconds, the region counter, the executions and the
/// microseconds of two regions, and of each task whether it lives, its PU, and its counts.
type Step = (u64, Reading, [(Reading, Reading); 2], Vec<(bool, Option<u32>, Reading)>);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let task = (prop::bool::weighted(0.97), prop::option::of(0u32..8), reading());
    let time = prop_oneof![8 => 50u64..400, 1 => Just(0u64), 1 => 5_000u64..90_000];
    let regions = [(reading(), reading()), (reading(), reading())];
    prop::collection::vec((time, reading(), regions, prop::collection::vec(task, TASKS)), 1..150)
}

/// A total after a reading.
fn next(total: &mut u64, reading: Reading) -> Option<Count> {
    match reading {
        Reading::Grows(by) => *total = total.saturating_add(by),
        Reading::Stands => {}
        Reading::Falls => *total /= 2,
        Reading::Missing => return None,
    }
    Some(Count::exact(*total))
}

fn options(space: Space, known: bool) -> AutoOptions {
    let placement = KnownPlacement {
        pinning: Pinning::new((0..4).map(PuId).collect()),
        pages: None,
        metric: "regions".to_owned(),
        rate: 1000.0,
        gain: 0.5,
        other_build: false,
    };
    AutoOptions {
        space,
        moves_pages: true,
        known: (3..=TASKS)
            .filter(|_| known)
            .map(|threads| (threads, placement.clone()))
            .collect(),
        counts: CountOptions {
            events: Some(events()),
            thresholds: Some(Thresholds::paper()),
            ..CountOptions::default()
        },
        ..AutoOptions::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_it_is_shown_it_asks_for_what_is_allowed_and_pins_nothing_before_it_has_measured(
        steps in steps(),
        space in prop::sample::select(vec![Space::Everything, Space::Hints, Space::Strategies]),
        known in any::<bool>(),
        refuses in any::<bool>(),
    ) {
        let topology = synthetic("package:2 numa:1 l3:1 core:4 pu:1");
        let mut policy = Auto::new(options(space, known));
        policy.start(&topology, &metrics());
        let mut at = Duration::ZERO;
        let mut totals: BTreeMap<(u64, usize), u64> = BTreeMap::new();
        let mut applied = Applied::default();
        let mut measured = false;
        for (time, regions, by_region, tasks) in steps {
            at += Duration::from_millis(time);
            let mut sample = Sample { at, ..Sample::default() };
            for (serial, (alive, pu, reading)) in (0..).zip(tasks) {
                let mut count = |metric| next(totals.entry((serial, metric)).or_default(), reading);
                let cpu_time = count(EVENTS.len() + 1).map(|count| Duration::from_nanos(count.value));
                let mut counts: Vec<Option<Count>> = (0..EVENTS.len()).map(&mut count).collect();
                counts.push(None);
                sample.tasks.push(TaskSample {
                    id: TaskId { serial, process: 1, thread: 1 },
                    name: "worker".to_owned(),
                    alive,
                    cpu_time,
                    run_delay: None,
                    last_pu: pu.map(PuId),
                    counts,
                });
            }
            for (id, (executions, time)) in (0..).zip(by_region) {
                let mut total = |of: usize, reading| next(totals.entry((u64::MAX - 1 - id, of)).or_default(), reading);
                if let (Some(executions), Some(time)) = (total(0, executions), total(1, time)) {
                    sample.regions.push(RegionSample {
                        id: RegionId(id),
                        executions: executions.value as f64,
                        seconds: time.value as f64 * 1e-6,
                        counts: None,
                        keeps: RegionKeeps::default(),
                    });
                }
            }
            let of_program = next(totals.entry((u64::MAX, EVENTS.len())).or_default(), regions);
            sample.program = vec![None, None, None, of_program];
            let decision = policy.decide(&topology, &sample, &applied);
            prop_assert!(decision.wait > Duration::ZERO, "it would not let the program run");
            measured |= decision.findings.iter().any(|finding| matches!(finding, Finding::Probed { .. }));
            applied = Applied::default();
            let Some(configuration) = decision.configuration else { continue };
            let pus = configuration.pinning.iter().flat_map(Pinning::pus);
            let of_regions = configuration.regions.values().filter_map(|own| own.pinning.as_ref());
            let mut pus = pus.chain(configuration.tasks.values()).chain(of_regions.flat_map(Pinning::pus));
            prop_assert!(pus.all(|&pu| topology.allowed_pus().contains(pu)));
            prop_assert!(measured || known || !configuration.pins(), "nothing was measured yet");
            let within = configuration.mapping_within.unwrap_or_default();
            prop_assert!(within <= at.mul_f64(0.0251), "moving pages may take {within:?} at {at:?}");
            if refuses && configuration.pages.is_some() {
                applied.refused.push(Refusal::for_pages(at, "it would take too long"));
            }
        }
        policy.end();
    }
}

/// Where threads begin.
const BEGAN: [u32; 4] = [5, 2, 7, 0];

/// How a program goes on.
struct Program {
    /// All of its pages follow its threads in this time.
    follow_in: Duration,
    /// Its rate where its threads are pinned elsewhere, over that where they began.
    speed: f64,
    /// The deviation of its rate from one decision to the next, at most, and the seed of it.
    noise: f64,
    seed: u64,
}

/// How long pages of a program followed its threads in its first 10 s, and what was found.
fn ten_seconds(program: &Program) -> (Duration, Vec<Finding>) {
    let topology = synthetic("package:2 numa:1 l3:1 core:4 pu:1");
    let mut random = Random::new(program.seed);
    let (mut done, mut are_away) = (Duration::ZERO, false);
    let mut findings = vec![];
    let mut policy = Auto::new(AutoOptions::default());
    policy.start(&topology, &metrics());
    let (mut at, mut lasted) = (Duration::ZERO, Duration::ZERO);
    // The pages that are away from where the threads began, as the time that they took to follow.
    let mut away = Duration::ZERO;
    let mut applied = Applied::default();
    while at < Duration::from_secs(10) {
        let task = |(serial, pu)| TaskSample {
            id: TaskId {
                serial,
                process: 1,
                thread: 1,
            },
            name: "worker".to_owned(),
            alive: true,
            cpu_time: Some(at),
            run_delay: None,
            last_pu: Some(PuId(pu)),
            counts: vec![None; 4],
        };
        let regions = Count::exact(u64::try_from(done.as_micros() / 100).unwrap());
        let sample = Sample {
            at,
            tasks: (0..).zip(BEGAN).map(task).collect(),
            program: vec![None, None, None, Some(regions)],
            ..Sample::default()
        };
        let decision = policy.decide(&topology, &sample, &applied);
        applied = Applied::default();
        findings.extend(decision.findings);
        if let Some(configuration) = decision.configuration {
            let within = configuration.following_within.unwrap();
            let began = Pinning::new(BEGAN.map(PuId).to_vec());
            are_away = configuration.pinning.is_some() && configuration.pinning != began;
            let follow = if are_away {
                program.follow_in.saturating_sub(away)
            } else {
                away
            }
            .min(within);
            away = if are_away {
                away + follow
            } else {
                away.saturating_sub(follow)
            };
            lasted += follow;
            at += follow;
            applied.pages = Some(PageMoves {
                lasted: follow,
                ..PageMoves::towards(PageMoves::AFTER_THREADS)
            });
        }
        at += decision.wait;
        let speed = if are_away { program.speed } else { 1.0 };
        let noise = program.noise * (2.0 * random.uniform() - 1.0);
        done += decision.wait.mul_f64(speed * (1.0 + noise));
    }
    findings.extend(policy.end());
    (lasted, findings)
}

/// A program whose placement makes no difference.
const INSENSITIVE: Program = Program {
    follow_in: Duration::ZERO,
    speed: 1.0,
    noise: 0.0,
    seed: 0,
};

#[test]
fn pages_follow_threads_in_trials_no_longer_than_a_program_may_lose() {
    for milliseconds in [20, 100, 2000] {
        let program = Program {
            follow_in: Duration::from_millis(milliseconds),
            ..INSENSITIVE
        };
        let (lasted, _) = ten_seconds(&program);
        assert!(lasted > Duration::ZERO, "nothing was tried");
        assert!(lasted <= Duration::from_secs(10).mul_f64(0.03), "{lasted:?} of 10 s");
    }
}

#[test]
fn a_placement_that_is_far_slower_is_measured_for_one_reading_only() {
    let slow = |speed| ten_seconds(&Program { speed, ..INSENSITIVE }).1;
    let measured = |findings: Vec<Finding>| {
        let compared = findings.into_iter().find_map(|finding| match finding {
            Finding::Compared { measured, code, .. } => Some((measured, code)),
            _ => None,
        });
        compared.expect("nothing was tried")
    };
    let (reading, window) = (Duration::from_millis(100), Duration::from_millis(200));
    assert_eq!(measured(slow(0.4)), (reading, ComparedCode::NotFaster));
    assert_eq!(measured(slow(0.8)), (window, ComparedCode::NotFaster));
}

#[test]
fn what_looks_faster_is_not_left_open_before_it_is_known() {
    let mut went_on = 0;
    for seed in 0..40 {
        let (_, findings) = ten_seconds(&Program {
            speed: 1.06,
            noise: 0.1,
            seed,
            ..INSENSITIVE
        });
        for finding in findings {
            let Finding::Compared {
                gain,
                error,
                turns,
                code,
                ..
            } = finding
            else {
                continue;
            };
            let (gain, error) = (gain.unwrap(), error.unwrap());
            if code == ComparedCode::NotKnown && turns < 16 {
                assert!(gain < 2.2 * error, "{gain} ± {error} after {turns} turns, seed {seed}");
            }
            went_on += u32::from(turns > 4 && code == ComparedCode::Faster);
        }
    }
    assert!(went_on > 0, "no trial went on");
}
