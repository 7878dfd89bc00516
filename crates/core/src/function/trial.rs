//! From counted calls to the function that stands for progress.
//!
//! A function qualifies if the threads that call it have at least half of the samples, if all calls together are at least `LEAST_CALLS` a
//! second and those of no thread more than `MOST_CALLS`, and if counting them costs at most `MOST_COST` of the threads'
//! processor time. The cost is the number of calls times the time that the kernel takes for one.
//!
//! The steadiest one is taken: with the smallest coefficient of variation of the calls in the windows. Whole counts make
//! rare calls look unsteady, which is right, because their rate is known less exactly. Functions that are about as
//! steady are often the same loop, seen at two depths: the one with more of the time is taken, and then the one with
//! fewer calls.

use super::stacks::MANY;
use crate::statistics::{Reading, coefficient_of_variation};
use std::time::Duration;

/// Calls per second, of all threads together: ten, which are enough for a rate, in half a second.
const LEAST_CALLS: f64 = 20.0;

/// Calls per second of one thread. With two microseconds for each this is 0.4 % of its time.
pub const MOST_CALLS: f64 = 2000.0;

/// The largest share of the threads' processor time that counting may take.
const MOST_COST: f64 = 0.005;

/// Coefficients of variation that differ by less than a fifth, or by less than this, are about the same: they are known
/// to a fifth from ten windows.
const AS_STEADY: f64 = 1.2;
const STEADY: f64 = 0.01;

/// Chance counts of a thread beyond the allowed ones do not make a function too hot: three standard deviations of a
/// count that is at the limit, and a burst.
const BURST: f64 = 20.0;

/// The calls of one candidate: counts of each window by thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Calls {
    /// The length of each window.
    pub windows: Vec<Duration>,
    /// The calls of each thread in each window.
    pub by_thread: Vec<Vec<u64>>,
    /// Each thread's share of the samples.
    pub weights: Vec<f64>,
}

/// A candidate that was counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// Its identity (`FoundFunction::identity`).
    pub identity: String,
    /// The share of all samples with it on the stack.
    pub share: f64,
    /// Its calls.
    pub calls: Calls,
}

/// The one that is taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chosen {
    /// Position among the counted ones.
    pub position: usize,
    /// Calls per second, of all threads.
    pub calls_per_second: f64,
    /// How many threads called it.
    pub threads: usize,
    /// The coefficient of variation of the calls in the windows.
    pub spread: f64,
    /// The share of the threads' processor time that counting takes.
    pub cost: f64,
}

/// Why none of the counted candidates is taken: how many failed for each reason, in the order of the rules.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rejected {
    /// Called by too few threads, or too seldom.
    pub seldom: usize,
    /// Called too often by a thread.
    pub often: usize,
    /// Too expensive to count.
    pub expensive: usize,
    /// The cost of the cheapest of these.
    pub least_cost: Option<f64>,
}

/// Whether a thread calls a function more often than is allowed: `calls` in `time`.
pub fn is_too_hot(calls: u64, time: Duration) -> bool {
    let allowed = MOST_CALLS * time.as_secs_f64();
    calls as f64 > allowed + 3.0 * allowed.sqrt() + BURST
}

impl Calls {
    fn time(&self) -> f64 {
        self.windows.iter().map(Duration::as_secs_f64).sum()
    }

    /// The calls of all threads in each window, per second.
    fn rates(&self) -> Vec<Reading> {
        let mut at = 0.0;
        let mut rates = vec![];
        for (window, lasts) in self.windows.iter().enumerate() {
            let lasts = lasts.as_secs_f64();
            at += lasts;
            let calls: u64 = self.by_thread.iter().filter_map(|counts| counts.get(window)).sum();
            rates.push(Reading {
                at,
                rate: calls as f64 / lasts,
            });
        }
        rates
    }
}

/// Chooses among counted candidates. The working threads used `busy` seconds of processor time per second, and a call
/// takes `hit`. The candidate with the identity `preferred` is taken if it qualifies.
pub fn choose(counted: &[Counted], busy: f64, hit: Duration, preferred: Option<&str>) -> Result<Chosen, Rejected> {
    let mut rejected = Rejected::default();
    let mut qualified: Vec<Chosen> = vec![];
    for (position, candidate) in counted.iter().enumerate() {
        let calls = &candidate.calls;
        let time = calls.time();
        let totals: Vec<u64> = calls.by_thread.iter().map(|counts| counts.iter().sum()).collect();
        let threads = totals.iter().filter(|&&total| total > 0).count();
        let calls_per_second = totals.iter().sum::<u64>() as f64 / time;
        let busiest = totals.iter().copied().max().unwrap_or(0) as f64 / time;
        let spread = coefficient_of_variation(&calls.rates());
        let (Some(spread), true) = (spread, time > 0.0 && calls_per_second >= LEAST_CALLS && busy > 0.0) else {
            rejected.seldom += 1;
            continue;
        };
        let cost = calls_per_second * hit.as_secs_f64() / busy;
        let callers = totals.iter().zip(&calls.weights).filter(|(total, _)| **total > 0);
        if callers.map(|(_, weight)| weight).sum::<f64>() < MANY {
            rejected.seldom += 1;
        } else if busiest > MOST_CALLS {
            rejected.often += 1;
        } else if cost > MOST_COST {
            rejected.expensive += 1;
            rejected.least_cost = Some(rejected.least_cost.map_or(cost, |least| least.min(cost)));
        } else {
            qualified.push(Chosen {
                position,
                calls_per_second,
                threads,
                spread,
                cost,
            });
        }
    }
    let is_preferred = |one: &&Chosen| Some(counted[one.position].identity.as_str()) == preferred;
    if let Some(preferred) = qualified.iter().find(is_preferred) {
        return Ok(*preferred);
    }
    let steadiest = qualified.iter().map(|one| one.spread).fold(f64::INFINITY, f64::min);
    let limit = (steadiest * AS_STEADY).max(steadiest + STEADY);
    qualified
        .into_iter()
        .filter(|one| one.spread <= limit)
        .min_by(|one, other| {
            let share = |one: &Chosen| counted[one.position].share;
            share(other)
                .total_cmp(&share(one))
                .then(one.calls_per_second.total_cmp(&other.calls_per_second))
        })
        .ok_or(rejected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TENTH: Duration = Duration::from_millis(100);
    const HIT: Duration = Duration::from_micros(2);

    /// A candidate that each of `threads` threads calls so often in each window. Each of four threads has a quarter of
    /// the samples.
    fn counted(name: &str, share: f64, threads: usize, windows: &[u64]) -> Counted {
        Counted {
            identity: name.to_owned(),
            share,
            calls: Calls {
                windows: vec![TENTH; windows.len()],
                by_thread: vec![windows.to_vec(); threads],
                weights: vec![0.25; threads],
            },
        }
    }

    fn chosen(counted: &[Counted]) -> Result<&str, Rejected> {
        let one = choose(counted, 4.0, HIT, None)?;
        Ok(&counted[one.position].identity)
    }

    #[test]
    fn the_steadiest_function_is_taken() {
        let unsteady = counted("unsteady", 0.9, 2, &[1, 9, 5, 2, 8, 5, 1, 9, 5, 5]);
        let steady = counted("steady", 0.5, 2, &[40, 41, 40, 40, 39, 40, 41, 40, 40, 40]);
        assert_eq!(chosen(&[unsteady, steady]), Ok("steady"));
    }

    #[test]
    fn of_equally_steady_ones_the_one_with_more_of_the_time_is_taken() {
        let inner = counted("inner", 0.5, 2, &[50; 10]);
        let outer = counted("outer", 0.9, 2, &[10; 10]);
        assert_eq!(chosen(&[inner, outer]), Ok("outer"));
    }

    #[test]
    fn the_function_of_an_earlier_run_is_taken_as_long_as_it_qualifies() {
        let steady = counted("steady", 0.9, 2, &[50; 10]);
        let known = counted("known", 0.9, 2, &[30, 50, 40, 60, 30, 50, 40, 60, 30, 50]);
        let hot = counted("hot", 0.9, 2, &[300; 10]);
        let all = [steady, known, hot];
        let taken = |preferred| choose(&all, 2.0, HIT, Some(preferred)).map(|one| one.position);
        assert_eq!(taken("known"), Ok(1));
        assert_eq!(taken("hot"), Ok(0));
    }

    #[test]
    fn too_seldom_too_often_and_too_expensive_functions_are_left_out() {
        let once = counted("worker", 1.0, 2, &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let seldom = counted("seldom", 1.0, 2, &[0, 1, 1, 1, 1, 1, 1, 1, 1, 0]);
        let by_one = counted("by_one", 1.0, 1, &[20; 10]);
        let hot = counted("hot", 1.0, 4, &[201; 10]);
        let rejected = chosen(&[once, seldom, by_one, hot]).unwrap_err();
        assert_eq!((rejected.seldom, rejected.often, rejected.expensive), (3, 1, 0));
        assert_eq!(rejected.least_cost, None);
    }

    #[test]
    fn counting_may_cost_half_a_percent_of_the_threads_time() {
        let every = [counted("step", 1.0, 2, &[100; 10])];
        let of = |busy, hit| choose(&every, busy, Duration::from_nanos(hit), None);
        let cost = of(2.0, 2000).unwrap().cost;
        assert!((cost - 0.002).abs() < 1e-9, "{cost}");
        assert!(of(2.0, 4900).is_ok());
        let rejected = of(2.0, 5100).unwrap_err();
        assert_eq!(rejected.expensive, 1);
        assert!(rejected.least_cost.is_some_and(|cost| (cost - 0.0051).abs() < 1e-9));
        // Threads that sleep most of the time have less of it.
        assert!(of(0.5, 2000).is_err());
    }

    #[test]
    fn a_thread_is_too_hot_beyond_the_allowed_calls_and_chance() {
        assert!(!is_too_hot(20, Duration::from_millis(2)));
        assert!(is_too_hot(1000, Duration::from_millis(2)));
        assert!(!is_too_hot(2000, Duration::from_secs(1)));
        assert!(is_too_hot(2300, Duration::from_secs(1)));
    }

    proptest! {
        /// Whatever is counted, the chosen one keeps to every rule.
        #[test]
        fn the_chosen_function_qualifies(
            all in proptest::collection::vec(
                (0.0f64..1.0, proptest::collection::vec(proptest::collection::vec(0u64..300, 10), 1..5)), 0..8),
            busy in 0.0f64..4.0,
            hit in 0u64..5000,
        ) {
            let all: Vec<Counted> = all
                .into_iter()
                .map(|(share, by_thread)| Counted {
                    identity: String::new(),
                    share,
                    calls: Calls { windows: vec![TENTH; 10], weights: vec![0.2; by_thread.len()], by_thread },
                })
                .collect();
            match choose(&all, busy, Duration::from_nanos(hit), None) {
                Ok(one) => {
                    prop_assert!(one.calls_per_second >= LEAST_CALLS);
                    prop_assert!(one.calls_per_second <= MOST_CALLS * one.threads as f64);
                    prop_assert!(one.threads >= 3);
                    prop_assert!(one.cost <= MOST_COST);
                    prop_assert!(one.spread.is_finite());
                }
                Err(rejected) => {
                    prop_assert_eq!(rejected.seldom + rejected.often + rejected.expensive, all.len());
                }
            }
        }
    }
}
