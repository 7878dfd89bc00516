//! The course of a replayed program: its parts run in turn, again and again.
//!
//! Each execution of a part takes the time of its row times a random factor. The time of a row is a median, so the
//! factor is log-normal with the median 1, and the row's spread is the standard deviation of its logarithm. The factor
//! depends on the seed, the part and the number of the execution. A change of the configuration in the middle of an
//! execution changes the speed of the rest of it.
//!
//! Many short repetitions are taken together: their total has the mean and the variance of the same number of executions.

use pinfold_core::random::Random;

/// Repetitions are taken together if more than this number fits in the time to run.
const TOGETHER: f64 = 64.0;

/// The number of times that they are taken together in that time.
const STEPS: f64 = 16.0;

/// The least factor of repetitions that are taken together.
const LEAST: f64 = 0.05;

/// How long a part takes, in seconds, and the spread of that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pace {
    pub(super) seconds: f64,
    pub(super) spread: f64,
}

/// One part so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Progress {
    /// The executions that have ended.
    pub(super) executions: u64,
    /// Their time, in seconds.
    pub(super) seconds: f64,
}

/// The course of the program.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    seed: u64,
    parts: Vec<Progress>,
    /// Completed repetitions of all parts.
    repetitions: u64,
    /// The part that runs, the completed share of its execution, and the time that this took.
    part: usize,
    done: f64,
    spent: f64,
    /// How long the program still stands still.
    pause: f64,
    /// How long it has stood still.
    paused: f64,
    /// Seconds since the program began.
    now: f64,
}

impl Clock {
    /// A program of at least one part that has not begun.
    pub(super) fn new(parts: usize, seed: u64) -> Self {
        Self {
            seed,
            parts: vec![Progress::default(); parts],
            repetitions: 0,
            part: 0,
            done: 0.0,
            spent: 0.0,
            pause: 0.0,
            paused: 0.0,
            now: 0.0,
        }
    }

    pub(super) fn now(&self) -> f64 {
        self.now
    }

    pub(super) fn repetitions(&self) -> u64 {
        self.repetitions
    }

    pub(super) fn paused(&self) -> f64 {
        self.paused
    }

    /// The parts so far.
    pub(super) fn parts(&self) -> &[Progress] {
        &self.parts
    }

    /// The program stands still for this number of seconds.
    pub(super) fn pause(&mut self, seconds: f64) {
        self.pause += seconds;
    }

    /// The last repetition of a program that is asked to end now: the present one.
    pub(super) fn present(&self) -> u64 {
        self.repetitions + u64::from(self.part > 0 || self.done > 0.0)
    }

    /// Runs until a time in seconds, or until the end of repetition `last`. Returns whether that has ended.
    pub(super) fn run(&mut self, until: f64, last: u64, paces: &[Pace]) -> bool {
        let still = self.pause.min(until - self.now).max(0.0);
        self.pause -= still;
        self.paused += still;
        self.now += still;
        let whole: f64 = paces.iter().map(|pace| pace.seconds).sum();
        while self.repetitions < last && self.now < until {
            let fits = (until - self.now) / whole;
            if self.part == 0 && self.done == 0.0 && fits > TOGETHER {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "it is above 0, and saturates"
                )]
                let together = (fits / STEPS) as u64;
                self.run_together(together, last, paces, until);
            } else {
                self.run_part(until, paces);
            }
        }
        self.repetitions >= last
    }

    /// Runs the present part to its end, or until a time.
    fn run_part(&mut self, until: f64, paces: &[Pace]) {
        let pace = paces[self.part];
        let normal = self.random(self.part, self.parts[self.part].executions).normal();
        let lasts = pace.seconds * (pace.spread * normal).exp();
        let left = lasts * (1.0 - self.done);
        let available = until - self.now;
        if left > available {
            self.done += available / lasts;
            self.spent += available;
            self.now = until;
            return;
        }
        let part = &mut self.parts[self.part];
        part.executions += 1;
        part.seconds += self.spent + left;
        self.now += left;
        self.done = 0.0;
        self.spent = 0.0;
        self.part = (self.part + 1) % self.parts.len();
        self.repetitions += u64::from(self.part == 0);
    }

    /// Runs several repetitions, or fewer if the time is too short for their noise.
    fn run_together(&mut self, number: u64, last: u64, paces: &[Pace], until: f64) {
        let number = number.min(last - self.repetitions).max(1);
        let mut seconds = vec![];
        for (part, pace) in paces.iter().enumerate() {
            let variance = pace.spread * pace.spread;
            let mean = (variance / 2.0).exp();
            let deviation = (variance.exp_m1() / number as f64).sqrt();
            let normal = self.random(part, self.parts[part].executions).normal();
            let factor = (mean * (1.0 + deviation * normal)).max(LEAST);
            seconds.push(pace.seconds * factor * number as f64);
        }
        let all: f64 = seconds.iter().sum();
        if self.now + all > until {
            self.run_part(until, paces);
            return;
        }
        for (part, seconds) in self.parts.iter_mut().zip(seconds) {
            part.executions += number;
            part.seconds += seconds;
        }
        self.repetitions += number;
        self.now += all;
    }

    /// The random numbers of an execution.
    fn random(&self, part: usize, execution: u64) -> Random {
        let mixed = [part as u64, execution]
            .into_iter()
            .fold(self.seed, |mixed, word| Random::new(mixed ^ word).next_bits());
        Random::new(mixed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PARTS: [Pace; 2] = [
        Pace {
            seconds: 0.5,
            spread: 0.1,
        },
        Pace {
            seconds: 0.25,
            spread: 0.0,
        },
    ];

    /// The same with other times.
    fn scaled(by: f64) -> [Pace; 2] {
        PARTS.map(|pace| Pace {
            seconds: pace.seconds * by,
            ..pace
        })
    }

    #[test]
    fn parts_take_turns_and_an_execution_counts_at_its_end() {
        let exact = PARTS.map(|pace| Pace { spread: 0.0, ..pace });
        let mut clock = Clock::new(2, 0);
        assert!(!clock.run(0.6, 10, &exact));
        let seen: Vec<(u64, f64)> = clock
            .parts()
            .iter()
            .map(|part| (part.executions, part.seconds))
            .collect();
        assert_eq!(seen, [(1, 0.5), (0, 0.0)]);
        assert_eq!(clock.present(), 1);
        assert!(!clock.run(0.76, 10, &exact));
        assert_eq!(clock.repetitions(), 1);
        assert!(clock.run(100.0, 10, &exact));
        assert!((clock.now() - 7.5).abs() < 1e-9, "it ends with its last repetition");
    }

    #[test]
    fn an_execution_goes_on_at_another_speed() {
        let exact = PARTS.map(|pace| Pace { spread: 0.0, ..pace });
        let twice = exact.map(|pace| Pace {
            seconds: pace.seconds / 2.0,
            ..pace
        });
        let mut clock = Clock::new(2, 0);
        clock.run(0.25, 1, &exact);
        clock.run(10.0, 1, &twice);
        // Half of the first part, half of it at twice the speed, and the second part.
        assert!((clock.now() - (0.25 + 0.125 + 0.125)).abs() < 1e-12);
        assert!((clock.parts()[0].seconds - 0.375).abs() < 1e-12);
    }

    #[test]
    fn a_pause_takes_time_and_no_work_is_done() {
        let mut clock = Clock::new(2, 0);
        clock.pause(1.0);
        clock.run(0.75, 9, &PARTS);
        assert_eq!((clock.parts()[0], clock.paused()), (Progress::default(), 0.75));
        clock.run(1.0, 9, &PARTS);
        assert!((clock.paused() - 1.0).abs() < 1e-12);
    }

    /// The mean time of an execution of the first part, and the standard deviation of `groups` of ten executions.
    fn statistics(by: f64, seed: u64) -> (f64, f64) {
        let paces = scaled(by);
        let mut clock = Clock::new(2, seed);
        let mut means = vec![];
        for group in 1..=400u32 {
            let before = clock.parts()[0];
            clock.run(f64::from(group) * 7.5, u64::MAX, &paces);
            let after = clock.parts()[0];
            means.push((after.seconds - before.seconds) / (after.executions - before.executions) as f64 / by);
        }
        let mean = means.iter().sum::<f64>() / means.len() as f64;
        let variance = means.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / means.len() as f64;
        (mean, variance.sqrt())
    }

    #[test]
    fn many_short_executions_have_the_noise_of_as_many_long_ones() {
        // Ten executions, and ten thousand.
        let (long, of_long) = statistics(1.0, 3);
        let (short, of_short) = statistics(1e-3, 3);
        let expected = 0.5 * (0.1f64 * 0.1 / 2.0).exp();
        assert!((long / expected - 1.0).abs() < 0.01, "{long}");
        assert!((short / expected - 1.0).abs() < 0.001, "{short}");
        assert!((of_long / (0.05 / 10f64.sqrt()) - 1.0).abs() < 0.2, "{of_long}");
        assert!((of_short / (0.05 / 1e4f64.sqrt()) - 1.0).abs() < 0.3, "{of_short}");
    }

    proptest! {
        #[test]
        fn the_same_seed_gives_the_same_run_however_it_is_read(
            seed in 0..u64::MAX, steps in proptest::collection::vec(0.001..1.0f64, 1..40)
        ) {
            let until: f64 = steps.iter().sum();
            let mut once = Clock::new(2, seed);
            once.run(until, 1000, &PARTS);
            let mut often = Clock::new(2, seed);
            let mut at = 0.0;
            for step in steps {
                at += step;
                often.run(at, 1000, &PARTS);
            }
            prop_assert_eq!(once.repetitions(), often.repetitions());
            prop_assert!((once.parts()[0].seconds - often.parts()[0].seconds).abs() < 1e-6);
        }

        #[test]
        fn all_time_is_work_or_pause(
            seed in 0..u64::MAX, spread in 0.0..0.5f64, by in 1e-4..2.0f64, pause in 0.0..2.0f64
        ) {
            let paces = scaled(by).map(|pace| Pace { spread, ..pace });
            let mut clock = Clock::new(2, seed);
            clock.pause(pause);
            for step in 1..50u32 {
                clock.run(f64::from(step) / 10.0, u64::MAX, &paces);
            }
            let worked: f64 = clock.parts().iter().map(|part| part.seconds).sum();
            prop_assert!((worked + clock.spent + clock.paused() - clock.now()).abs() < 1e-6);
        }
    }
}
