//! The course of a measured sweep: which configuration runs next, and when it is over.
//!
//! 1. Rounds follow each other (`blocks`). Until each configuration has the least number of runs, a round has the
//!    configurations with the fewest runs. So an interrupted round is completed first.
//! 2. Then a round has the configurations whose median is not certain enough, and that have less than the most runs.
//!    The times that decide are without drift.
//! 3. A disturbed run is repeated at the end of its block, at most twice in a row. On a machine that is never quiet,
//!    which the last runs show, nothing is repeated: that would only take longer.
//! 4. A run that failed is repeated in the same way once. A configuration that fails twice in a row is given up.
//!
//! The same runs give the same course, also after an interruption: the random order follows from the seed and from the
//! number of runs so far.

use super::blocks::{MOST, blocks};
use super::drift::{Drift, TimedRun};
use super::estimate::{TimeEstimate, typical_deviation};
use super::run::{MeasuredRun, RunEnd};
use pinfold_core::measurement::Median;
use pinfold_core::random::Random;
use std::collections::VecDeque;

/// How many runs each configuration has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extent {
    /// At least.
    pub least: usize,
    /// At most.
    pub most: usize,
    /// Between the two, runs are repeated until half the width of the 95 % interval of the median, over the median, is
    /// at most this. `None`: the least number is enough.
    pub interval: Option<f64>,
}

/// A disturbed run is repeated this often in a row.
const REPEATS: usize = 2;

/// If this many of the last runs were disturbed without an exception, the machine is not going to be quiet.
const NEVER_QUIET: usize = 8;

/// A configuration is given up after this many failures in a row.
const FAILURES: usize = 2;

/// What is known of the runs of one configuration.
#[derive(Clone, Debug, Default)]
struct Progress {
    /// Whether it belongs to this part of the sweep.
    is_part: bool,
    /// The positions of its runs that count.
    runs: Vec<usize>,
    disturbed_in_a_row: usize,
    failed_in_a_row: usize,
    /// Why it is given up.
    given_up: Option<String>,
}

/// The state of a sweep.
#[derive(Clone, Debug)]
pub struct Course {
    extent: Extent,
    seed: u64,
    /// The positions of the references.
    references: Vec<usize>,
    jobs: Vec<Progress>,
    /// The runs that count, in their order.
    runs: Vec<TimedRun>,
    /// All runs so far, including those that do not count.
    made: usize,
    /// The number of disturbed runs since the last undisturbed one.
    disturbed: usize,
    /// The runs of a round that remain, block by block.
    queue: VecDeque<VecDeque<usize>>,
    /// The time around a run: pinfold's own, and commands of the user. The sum, and the number.
    around: (f64, usize),
}

impl Course {
    /// The course of `jobs` among this many configurations. `references`, which are among `jobs`, run in each block.
    pub fn new(configurations: usize, jobs: &[usize], references: &[usize], extent: Extent, seed: u64) -> Self {
        let progress = |job: usize| Progress {
            is_part: jobs.contains(&job),
            ..Progress::default()
        };
        Self {
            extent,
            seed,
            references: references.to_vec(),
            jobs: (0..configurations).map(progress).collect(),
            runs: vec![],
            made: 0,
            disturbed: 0,
            queue: VecDeque::new(),
            around: (0.0, 0),
        }
    }

    /// Takes a run that has just ended into account, and decides whether it counts. Returns whether it is repeated.
    pub fn add(&mut self, job: usize, run: &mut MeasuredRun) -> bool {
        self.disturbed = if run.disturbed.is_some() { self.disturbed + 1 } else { 0 };
        let may_be_quiet = self.disturbed < NEVER_QUIET;
        let progress = &mut self.jobs[job];
        let repeated = match &run.end {
            RunEnd::Failed { why } => {
                progress.failed_in_a_row += 1;
                let again = progress.failed_in_a_row < FAILURES;
                if !again {
                    progress.given_up = Some(why.clone());
                }
                again
            }
            RunEnd::Done { .. } => {
                progress.failed_in_a_row = 0;
                let again = run.disturbed.is_some() && progress.disturbed_in_a_row < REPEATS && may_be_quiet;
                progress.disturbed_in_a_row = if again { progress.disturbed_in_a_row + 1 } else { 0 };
                again
            }
        };
        run.counts = !repeated && run.seconds().is_some();
        if self.jobs[job].given_up.is_some() {
            for block in &mut self.queue {
                block.retain(|&other| other != job);
            }
        } else if repeated && let Some(block) = self.queue.front_mut() {
            block.push_back(job);
        }
        self.restore(job, run);
        repeated
    }

    /// Takes a run of an earlier session, or of another shard, into account.
    pub fn restore(&mut self, job: usize, run: &MeasuredRun) {
        self.made += 1;
        let Some(time) = run.seconds().filter(|_| run.counts) else {
            return;
        };
        self.jobs[job].runs.push(self.runs.len());
        self.runs.push(TimedRun {
            job,
            session: run.session,
            at: run.at.0,
            time,
        });
    }

    /// Adds the time that a run took beside the program's own.
    pub fn took_around(&mut self, seconds: f64) {
        self.around = (self.around.0 + seconds, self.around.1 + 1);
    }

    /// The time of `took_around` so far.
    pub fn around(&self) -> f64 {
        self.around.0
    }

    /// The next configuration to run; `None` after the last.
    pub fn next_job(&mut self) -> Option<usize> {
        loop {
            while let Some(block) = self.queue.front_mut() {
                // A block stays while its last run is made, which may have to be repeated.
                match block.pop_front() {
                    Some(job) => return Some(job),
                    None => drop(self.queue.pop_front()),
                }
            }
            let open = self.open();
            if open.is_empty() {
                return None;
            }
            let references: Vec<usize> = self.references.iter().copied().filter(|&job| self.lives(job)).collect();
            let mut random = Random::new(self.seed ^ (self.made as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            self.queue = blocks(&open, &references, &mut random)
                .into_iter()
                .map(VecDeque::from)
                .collect();
        }
    }

    /// Whether a configuration belongs to this part of the sweep.
    pub fn has(&self, job: usize) -> bool {
        self.jobs[job].is_part
    }

    fn lives(&self, job: usize) -> bool {
        self.has(job) && self.jobs[job].given_up.is_none()
    }

    /// The configurations of the next round.
    fn open(&self) -> Vec<usize> {
        let alive = || (0..self.jobs.len()).filter(|&job| self.lives(job));
        let number = |job: usize| self.jobs[job].runs.len();
        let fewest = alive().map(number).min().unwrap_or(0);
        if fewest < self.extent.least {
            return alive().filter(|&job| number(job) == fewest).collect();
        }
        let Some(interval) = self.extent.interval else {
            return vec![];
        };
        let estimates = self.estimates();
        let uncertain = |&job: &usize| {
            let error = estimates[job].and_then(|estimate| estimate.error);
            number(job) < self.extent.most && error.is_none_or(|error| error > interval)
        };
        alive().filter(uncertain).collect()
    }

    /// The drift of the runs that count, in their order.
    pub fn drift(&self) -> Drift {
        Drift::of(&self.runs)
    }

    /// By configuration: the estimate of its time without drift; `None` without a run.
    pub fn estimates(&self) -> Vec<Option<TimeEstimate>> {
        let drift = self.drift();
        let times: Vec<Vec<f64>> = self
            .jobs
            .iter()
            .map(|job| {
                job.runs
                    .iter()
                    .map(|&run| self.runs[run].time / drift.factors[run])
                    .collect()
            })
            .collect();
        let typical = typical_deviation(times.iter().map(Vec::as_slice));
        times.iter().map(|times| TimeEstimate::of(times, typical)).collect()
    }

    /// The number of runs of a configuration that count.
    pub fn count(&self, job: usize) -> usize {
        self.jobs[job].runs.len()
    }

    /// The number of runs that count, of all configurations.
    pub fn counted(&self) -> usize {
        self.runs.len()
    }

    /// The number of all runs.
    pub fn made(&self) -> usize {
        self.made
    }

    /// Why a configuration is given up; `None` if it is not.
    pub fn given_up(&self, job: usize) -> Option<&str> {
        self.jobs[job].given_up.as_deref()
    }

    /// The number of runs that are expected, and their time in seconds, until the end.
    pub fn left(&self) -> (usize, f64) {
        let estimates = self.estimates();
        let known: Vec<f64> = estimates.iter().flatten().map(|estimate| estimate.time).collect();
        let usual = Median::of(known).map_or(0.0, |median| median.value);
        let time = |job: usize| estimates[job].map_or(usual, |estimate| estimate.time);
        let (mut runs, mut seconds, mut rounds) = (0, 0.0, 0.0f64);
        let mut open_runs = 0.0;
        for job in (0..self.jobs.len()).filter(|&job| self.lives(job)) {
            let more = self.expected(job, estimates[job]);
            if !self.references.contains(&job) {
                runs += more;
                seconds += more as f64 * time(job);
                open_runs += more as f64;
            }
            rounds = rounds.max(more as f64);
        }
        // Each block has the references, and each round has at least one block.
        let blocks = (open_runs / MOST as f64).max(rounds).ceil();
        for &job in self.references.iter().filter(|&&job| self.lives(job)) {
            seconds += blocks * time(job);
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a small number of blocks"
        )]
        let of_references = blocks as usize * self.references.len();
        runs += of_references;
        let around = if self.around.1 == 0 {
            0.0
        } else {
            self.around.0 / self.around.1 as f64
        };
        (runs, seconds + runs as f64 * around)
    }

    /// How many more runs a configuration probably needs.
    fn expected(&self, job: usize, estimate: Option<TimeEstimate>) -> usize {
        let Extent { least, most, interval } = self.extent;
        let made = self.count(job);
        let error = estimate.and_then(|estimate| estimate.error);
        let wanted = match interval.zip(error) {
            // The width of an interval falls with the root of the number of runs.
            Some((interval, error)) if error > interval => {
                let wanted = (made as f64 * (error / interval).powi(2)).ceil();
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
                let wanted = wanted as usize;
                wanted.clamp(least, most)
            }
            _ => least,
        };
        wanted.saturating_sub(made)
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::MachineState;
    use super::*;
    use crate::journal::Exact;
    use proptest::prelude::*;

    const THREE: Extent = Extent {
        least: 3,
        most: 20,
        interval: Some(0.02),
    };

    fn course_of(configurations: usize, references: &[usize], extent: Extent, seed: u64) -> Course {
        let all: Vec<usize> = (0..configurations).collect();
        Course::new(configurations, &all, references, extent, seed)
    }

    fn run(at: usize, end: RunEnd, disturbed: bool) -> MeasuredRun {
        MeasuredRun {
            session: 1,
            at: Exact(at as f64),
            end,
            counts: false,
            disturbed: disturbed.then(|| "noise".to_owned()),
            threads: None,
            state: MachineState::default(),
            metrics: vec![],
        }
    }

    fn done(seconds: f64) -> RunEnd {
        RunEnd::Done {
            seconds: Exact(seconds),
        }
    }

    fn failed() -> RunEnd {
        RunEnd::Failed {
            why: "status 1".to_owned(),
        }
    }

    /// Runs a course to its end; `end` says how the nth run of a configuration ends. The configurations in their order.
    fn complete(course: &mut Course, mut end: impl FnMut(usize, usize) -> (RunEnd, bool)) -> Vec<usize> {
        let mut order = vec![];
        while let Some(job) = course.next_job() {
            let number = order.iter().filter(|&&other| other == job).count();
            let (end, disturbed) = end(job, number);
            course.add(job, &mut run(order.len(), end, disturbed));
            order.push(job);
            assert!(order.len() < 10_000, "the sweep does not end");
        }
        order
    }

    #[test]
    fn configurations_that_are_certain_have_the_least_runs_and_the_others_more() {
        let mut course = course_of(4, &[0, 1], THREE, 1);
        let mut random = Random::new(3);
        complete(&mut course, |job, _| {
            let noise = if job == 3 { 0.2 } else { 0.001 };
            (done(1.0 + job as f64 + noise * random.normal()), false)
        });
        assert_eq!(course.count(2), 3);
        assert!(course.count(3) > 6, "{}", course.count(3));
        // The references run in each block, also in those of the uncertain configuration.
        assert!(course.count(0) >= course.count(3), "{}", course.count(0));
    }

    #[test]
    fn a_disturbed_run_is_repeated_twice_and_then_counts() {
        let extent = Extent {
            least: 1,
            most: 1,
            interval: None,
        };
        let mut course = course_of(2, &[0], extent, 1);
        let order = complete(&mut course, |job, _| (done(1.0), job == 1));
        assert_eq!(order.iter().filter(|&&job| job == 1).count(), 3);
        assert_eq!((course.count(1), course.made()), (1, 4));
        let mut course = course_of(2, &[0], extent, 1);
        let order = complete(&mut course, |job, number| (done(1.0), job == 1 && number == 0));
        assert_eq!((order.len(), course.count(1)), (3, 1));
    }

    #[test]
    fn a_machine_that_is_never_quiet_is_taken_as_it_is() {
        let extent = Extent {
            least: 3,
            most: 3,
            interval: None,
        };
        let mut course = course_of(10, &[0], extent, 1);
        complete(&mut course, |_, _| (done(1.0), true));
        // The first ones were repeated, before this was known.
        assert!(course.made() - course.counted() < NEVER_QUIET, "{}", course.made());
    }

    #[test]
    fn a_configuration_that_fails_twice_is_given_up_and_the_others_go_on() {
        let mut course = course_of(3, &[0], THREE, 1);
        let order = complete(&mut course, |job, _| {
            (if job == 2 { failed() } else { done(1.0) }, false)
        });
        assert_eq!(order.iter().filter(|&&job| job == 2).count(), 2);
        assert_eq!(course.given_up(2), Some("status 1"));
        assert_eq!((course.count(0), course.count(1), course.count(2)), (3, 3, 0));
    }

    #[test]
    fn a_failure_that_does_not_happen_again_is_forgotten() {
        let mut course = course_of(2, &[0], THREE, 1);
        complete(&mut course, |job, number| {
            (if job == 1 && number == 1 { failed() } else { done(1.0) }, false)
        });
        assert_eq!((course.given_up(1), course.count(1)), (None, 3));
    }

    #[test]
    fn drift_does_not_repeat_what_is_certain_without_it() {
        let extent = Extent { least: 5, ..THREE };
        let mut course = course_of(4, &[0, 1], extent, 2);
        let mut random = Random::new(3);
        let mut at = 0.0;
        complete(&mut course, |job, _| {
            at += 1.0;
            (
                done((1.0 + job as f64) * (1.0 + 0.02 * at) * (1.0 + 0.001 * random.normal())),
                false,
            )
        });
        assert!(course.drift().size > 0.1, "{}", course.drift().size);
        let ratio = |job: usize| course.estimates()[job].unwrap().time / course.estimates()[0].unwrap().time;
        assert!((ratio(3) / 4.0 - 1.0).abs() < 0.04, "{}", ratio(3));
    }

    proptest! {
        // A case is a whole sweep.
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn each_configuration_has_between_the_least_and_the_most_runs(
            jobs in 1usize..30, least in 1usize..4, more in 0usize..5, noise in 0.0f64..0.2, seed in 0u64..1000
        ) {
            let extent = Extent { least, most: least + more, interval: Some(0.02) };
            let references: Vec<usize> = (0..jobs.min(2)).collect();
            let mut course = course_of(jobs, &references, extent, seed);
            let mut random = Random::new(seed);
            complete(&mut course, |job, _| (done((1.0 + job as f64) * (noise * random.normal()).exp()), false));
            for job in 0..jobs {
                prop_assert!(course.count(job) >= least);
                prop_assert!(references.contains(&job) || course.count(job) <= least + more);
            }
        }

        #[test]
        fn an_interrupted_course_has_the_same_runs_in_the_end(
            jobs in 2usize..20, runs in 1usize..4, cut in 0usize..60, seed in 0u64..1000
        ) {
            let extent = Extent { least: runs, most: runs, interval: None };
            let mut first = course_of(jobs, &[0], extent, seed);
            let mut kept = vec![];
            while kept.len() < cut && let Some(job) = first.next_job() {
                let mut one = run(kept.len(), done(1.0), false);
                first.add(job, &mut one);
                kept.push((job, one));
            }
            let mut second = course_of(jobs, &[0], extent, seed + 1);
            for (job, one) in &kept {
                second.restore(*job, one);
            }
            complete(&mut second, |_, _| (done(1.0), false));
            for job in 1..jobs {
                prop_assert_eq!(second.count(job), runs);
            }
        }

        #[test]
        fn the_time_that_is_left_is_honest_after_the_first_round(jobs in 2usize..40, runs in 2usize..6, seed in 0u64..100) {
            let extent = Extent { least: runs, most: runs, interval: None };
            let mut course = course_of(jobs, &[0, 1], extent, seed);
            let time = |job: usize| 1.0 + job as f64 / 10.0;
            let (mut spent, mut foreseen) = (0.0, None);
            while let Some(job) = course.next_job() {
                if foreseen.is_none() && course.open().iter().all(|&job| course.count(job) > 0) {
                    foreseen = Some(spent + course.left().1);
                }
                course.add(job, &mut run(course.made(), done(time(job)), false));
                spent += time(job);
            }
            let foreseen = foreseen.unwrap_or(spent);
            prop_assert!((foreseen / spent - 1.0).abs() < 0.35, "{} of {}", foreseen, spent);
            prop_assert_eq!(course.left(), (0, 0.0));
        }
    }
}
