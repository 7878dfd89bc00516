//! Sequences of simulated runs, each in the placement that the history plans for it.

use super::{Area, Candidate, History, How, Run, candidates};
use crate::synthetic::synthetic;
use pinfold_core::random::Random;
use proptest::prelude::*;

/// A program on a machine of four packages, each with two caches.
struct Program {
    /// The seconds of an unpinned run, and its CPU seconds.
    wall: f64,
    cpu: f64,
    /// How many times as fast as unpinned it is in each candidate, in their order.
    rates: Vec<f64>,
    /// The standard deviation of the logarithm of a wall time, and the share of runs that take half as long again.
    noise: f64,
    spikes: f64,
}

impl Program {
    fn new(rates: &[f64], noise: f64) -> Self {
        Self {
            wall: 10.0,
            cpu: 15.0,
            rates: rates.to_vec(),
            noise,
            spikes: 0.0,
        }
    }
}

/// The machine's areas: 1 cache, 1 package and 2 packages.
fn areas() -> Vec<Candidate> {
    candidates(&synthetic("package:4 l3:2 core:2 pu:1"))
}

/// A program that runs again and again.
struct Simulation {
    history: History,
    areas: Vec<Candidate>,
    random: Random,
    /// The expected seconds that placements have cost beyond unpinned runs, or beyond the area that was kept.
    lost: f64,
    total: f64,
    last: Run,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        Self {
            history: History::default(),
            areas: areas(),
            random: Random::new(seed),
            lost: 0.0,
            total: 0.0,
            last: Run {
                area: None,
                wall: 0.0,
                cpu: 0.0,
                how: How::Whole,
            },
        }
    }

    fn rate(&self, program: &Program, area: Option<Area>) -> f64 {
        let place = self.areas.iter().position(|one| Some(one.area) == area);
        place.map_or(1.0, |place| program.rates[place])
    }

    /// Runs the program once. Returns the area of the run from its start on.
    fn run(&mut self, program: &Program) -> Option<Area> {
        let place = self.history.plan(&self.areas).place;
        let area = place.as_ref().map(|place| place.area);
        let kept = self.history.works().first().and_then(|work| work.used);
        let rate = self.rate(program, area);
        let spike = if self.random.uniform() < program.spikes {
            1.5
        } else {
            1.0
        };
        let noise = (program.noise * self.random.normal()).exp() * spike;
        let (whole, true_whole) = (program.wall / rate * noise, program.wall / rate);
        let stop = place.map(|place| place.stop_after.as_secs_f64());
        let (how, wall, true_wall) = match stop.filter(|stop| whole > *stop) {
            None => (How::Whole, whole, true_whole),
            Some(stop) => {
                // What is left of the work is done unpinned.
                let left = (1.0 - stop / whole) * program.wall;
                (How::Stopped, stop + left * noise, stop + left)
            }
        };
        let run = Run {
            area,
            wall,
            cpu: program.cpu * (0.01 * self.random.normal()).exp(),
            how,
        };
        let best = program.wall / self.rate(program, kept);
        self.lost += (true_wall - best).max(0.0);
        self.total += run.wall;
        self.history.add(&run);
        self.last = run;
        area
    }

    fn runs(&mut self, number: u32, program: &Program) {
        for _ in 0..number {
            self.run(program);
        }
    }

    /// The area that is kept.
    fn used(&self) -> Option<String> {
        let works = self.history.works();
        works.first().and_then(|work| work.used).map(|area| area.to_string())
    }

    fn why(&self) -> String {
        self.history.plan(&self.areas).why
    }
}

#[test]
fn a_faster_area_is_found_and_used() {
    for (rates, expected, within) in [
        (&[1.3, 1.0, 1.0], "1 cache", 40),
        (&[0.8, 1.3, 0.9], "1 package", 120),
        (&[0.8, 0.8, 1.3], "2 packages", 200),
    ] {
        let mut slowest = 0;
        for seed in 0..20 {
            let mut simulation = Simulation::new(seed);
            let program = Program::new(rates, 0.02);
            let found = (1..1000).find(|_| {
                simulation.run(&program);
                simulation.used().as_deref() == Some(expected)
            });
            slowest = slowest.max(found.unwrap_or(1000));
            let last: Vec<Option<Area>> = (0..50).map(|_| simulation.run(&program)).collect();
            let used = last.iter().filter(|area| area.is_some()).count();
            assert!(used >= 40, "{expected}: {used} of 50 runs, {}", simulation.why());
        }
        assert!(slowest <= within, "{expected}: after {slowest} runs");
    }
}

#[test]
fn the_first_runs_are_unpinned_and_the_first_trial_waits_for_the_budget() {
    let mut simulation = Simulation::new(1);
    let program = Program::new(&[1.0, 1.0, 1.0], 0.02);
    let first = (1..100).find(|_| simulation.run(&program).is_some());
    assert!(first.is_some_and(|first| (15..=20).contains(&first)), "{first:?}");
}

#[test]
fn hardly_ever_is_an_area_kept_that_is_not_faster() {
    for spikes in [0.0, 0.05] {
        let wrong = (0..1000).filter(|&seed| {
            let mut simulation = Simulation::new(seed);
            let program = Program {
                spikes,
                ..Program::new(&[0.99, 1.0, 0.97], 0.02)
            };
            (0..150).any(|_| {
                simulation.run(&program);
                simulation.used().is_some()
            })
        });
        let wrong = wrong.count();
        assert!(wrong <= 5, "{wrong} of 1000 with {spikes} spikes");
    }
}

#[test]
fn an_area_that_becomes_slower_is_given_up() {
    let mut simulation = Simulation::new(3);
    let faster = Program::new(&[1.3, 0.9, 0.9], 0.02);
    simulation.runs(100, &faster);
    assert_eq!(simulation.used().as_deref(), Some("1 cache"));
    let slower = Program::new(&[0.8, 0.9, 0.9], 0.02);
    let given_up = (1..200).find(|_| {
        simulation.run(&slower);
        simulation.used().is_none()
    });
    assert!(given_up.is_some_and(|runs| runs <= 40), "{given_up:?}");
}

#[test]
fn a_changed_input_is_measured_from_the_start_and_the_former_one_is_known_again() {
    let mut simulation = Simulation::new(4);
    let program = Program::new(&[1.3, 0.9, 0.9], 0.02);
    simulation.runs(100, &program);
    let larger = Program {
        wall: 30.0,
        cpu: 45.0,
        rates: vec![0.7, 1.0, 1.0],
        ..Program::new(&[], 0.02)
    };
    let first: Vec<bool> = (0..8).map(|_| simulation.run(&larger).is_some()).collect();
    assert_eq!(first[3..], [false; 5], "{}", simulation.why());
    simulation.runs(300, &larger);
    assert_eq!(simulation.used(), None);
    simulation.runs(3, &program);
    assert_eq!(simulation.used().as_deref(), Some("1 cache"));
}

#[test]
fn a_single_run_with_another_input_does_not_end_the_use_of_an_area() {
    let mut simulation = Simulation::new(5);
    let program = Program::new(&[1.3, 0.9, 0.9], 0.02);
    simulation.runs(100, &program);
    let other = Program {
        wall: 0.5,
        cpu: 0.7,
        ..Program::new(&[1.0, 1.0, 1.0], 0.02)
    };
    simulation.run(&other);
    assert_eq!(simulation.used().as_deref(), Some("1 cache"));
}

#[test]
fn if_each_run_does_another_work_nothing_is_tried() {
    let mut simulation = Simulation::new(6);
    let mut said = 0;
    for _ in 0..200 {
        let factor = f64::exp(3.0 * simulation.random.normal());
        simulation.run(&scaled(factor, &[1.3, 1.3, 1.3]));
        said += usize::from(simulation.why().contains("another work"));
    }
    assert!(said > 100, "{said}");
    assert_eq!(simulation.used(), None);
}

/// A program whose input is larger by a factor.
fn scaled(factor: f64, rates: &[f64]) -> Program {
    Program {
        wall: 10.0 * factor,
        cpu: 15.0 * factor,
        ..Program::new(rates, 0.02)
    }
}

#[test]
fn inputs_that_differ_a_little_are_noise_and_make_no_area_faster() {
    let used = |rates: &[f64], seed| {
        let mut simulation = Simulation::new(seed);
        (0..400).any(|_| {
            let factor = f64::exp(0.15 * simulation.random.normal());
            simulation.run(&scaled(factor, rates));
            simulation.used().is_some()
        })
    };
    let wrong = (0..100).filter(|&seed| used(&[0.98, 1.0, 0.98], seed)).count();
    assert!(wrong <= 1, "{wrong}");
    let found = (0..20).filter(|&seed| used(&[1.5, 0.9, 0.9], seed)).count();
    assert!(found >= 15, "{found}");
}

#[test]
fn an_area_that_is_smaller_than_the_program_is_not_tried() {
    let mut simulation = Simulation::new(7);
    let program = Program {
        cpu: 155.0,
        ..Program::new(&[1.3, 1.3, 1.3], 0.02)
    };
    (0..100).for_each(|_| assert_eq!(simulation.run(&program), None));
    assert!(
        simulation.why().contains("CPUs that it keeps busy"),
        "{}",
        simulation.why()
    );
}

#[test]
fn short_runs_and_programs_that_are_placed_while_they_run_are_left_alone() {
    let mut simulation = Simulation::new(8);
    let short = Program {
        wall: 0.02,
        cpu: 0.02,
        ..Program::new(&[1.3, 1.3, 1.3], 0.02)
    };
    (0..100).for_each(|_| assert_eq!(simulation.run(&short), None));
    let mut simulation = Simulation::new(9);
    let program = Program::new(&[1.3, 0.9, 0.9], 0.02);
    simulation.runs(100, &program);
    simulation.history.add(&Run {
        area: None,
        wall: 10.0,
        cpu: 15.0,
        how: How::Searched,
    });
    assert_eq!(simulation.run(&program), None);
}

#[test]
fn a_run_beside_another_one_is_no_measurement() {
    let mut history = History::default();
    let run = Run {
        area: None,
        wall: 10.0,
        cpu: 15.0,
        how: How::Overlapped,
    };
    (0..50).for_each(|_| history.add(&run));
    assert!(history.works().is_empty());
    assert!((history.total() - 500.0).abs() < 1e-9);
}

#[test]
fn a_history_of_another_version_is_not_read() {
    let mut simulation = Simulation::new(10);
    let program = Program::new(&[1.0, 1.0, 1.0], 0.02);
    simulation.runs(10, &program);
    let json = simulation.history.to_json();
    let mut read = History::parse(&json);
    assert_eq!(read, simulation.history);
    // What is kept as JSON is all that the next runs need.
    (0..100).for_each(|_| {
        simulation.run(&program);
        read = History::parse(&read.to_json());
        read.add(&simulation.last);
    });
    assert_eq!(read.plan(&simulation.areas), simulation.history.plan(&simulation.areas));
    assert_eq!(
        History::parse(&json.replace("\"version\":1", "\"version\":2")),
        History::default()
    );
    assert_eq!(History::parse("{"), History::default());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn trials_cost_about_one_percent_of_the_time_whatever_the_areas_are(
        seed in any::<u64>(), rates in proptest::collection::vec(0.05f64..1.5, 3), noise in 0.001f64..0.05,
    ) {
        let mut simulation = Simulation::new(seed);
        let program = Program::new(&rates, noise);
        for run in 0..400 {
            simulation.run(&program);
            // The cost of one trial is known only after it: until a stop and the rest, unpinned.
            let one = 1.3 * program.wall;
            prop_assert!(
                simulation.lost <= 0.015 * simulation.total + one,
                "run {run}: {} of {}", simulation.lost, simulation.total
            );
        }
    }
}
