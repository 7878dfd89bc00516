//! From sampled stacks to functions that may stand for progress.
//!
//! The time of a sample belongs to every function on its stack: a function that is called once for each unit of work
//! holds most of the time, with all that it calls. A function that a timer calls, or one in which threads only hand work
//! over, holds little. So a candidate is on a considerable share of the samples of many threads: of threads that have
//! at least half of all samples.
//!
//! A stack may name functions that are not active: without frame pointers it is read word by word, and old return
//! addresses remain in it. Such a candidate does no harm, because its calls are counted before it is chosen.

use std::collections::{BTreeMap, BTreeSet};

/// A candidate is on at least this share of a thread's samples. A function below it says little about the rest of the
/// thread's work, and functions that run on a timer are far below.
const LEAST_SHARE: f64 = 0.2;

/// Threads are many if they have at least this share of the samples. Their number would not do: a runtime has threads of
/// its own, which run now and then.
pub(super) const MANY: f64 = 0.5;

/// The functions on the stack of one thread, in one sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack<F> {
    /// The thread.
    pub thread: i32,
    /// The functions, the innermost first. One that occurs twice calls itself.
    pub functions: Vec<F>,
}

/// A function that may stand for progress.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate<F> {
    /// The function.
    pub function: F,
    /// The share of all samples with it on the stack.
    pub share: f64,
    /// The mean number of functions that it calls, directly or not, at the time of a sample.
    pub height: f64,
}

/// The samples of one function.
struct Seen {
    samples: usize,
    by_thread: BTreeMap<i32, usize>,
    /// The sum of the functions inside it, over its samples.
    inside: usize,
}

/// The candidates, the outermost first, at most `most`: where there are more, the outermost are left out, because these
/// are called once.
pub fn candidates<F: Clone + Ord>(stacks: &[Stack<F>], most: usize) -> Vec<Candidate<F>> {
    let mut samples: BTreeMap<i32, usize> = BTreeMap::new();
    let mut seen: BTreeMap<&F, Seen> = BTreeMap::new();
    for stack in stacks {
        *samples.entry(stack.thread).or_default() += 1;
        let mut inside = BTreeSet::new();
        for function in &stack.functions {
            if !inside.insert(function) {
                continue;
            }
            let seen = seen.entry(function).or_insert_with(|| Seen {
                samples: 0,
                by_thread: BTreeMap::new(),
                inside: 0,
            });
            seen.samples += 1;
            seen.inside += inside.len() - 1;
            *seen.by_thread.entry(stack.thread).or_default() += 1;
        }
    }
    let mut candidates: Vec<Candidate<F>> = seen
        .into_iter()
        .filter(|(_, seen)| {
            let considerable = seen.by_thread.iter().filter_map(|(thread, &number)| {
                let of = samples[thread];
                (number as f64 >= LEAST_SHARE * of as f64).then_some(of)
            });
            considerable.sum::<usize>() as f64 >= MANY * stacks.len() as f64
        })
        .map(|(function, seen)| Candidate {
            function: function.clone(),
            share: seen.samples as f64 / stacks.len() as f64,
            height: seen.inside as f64 / seen.samples as f64,
        })
        .collect();
    candidates.sort_by(|one, other| other.height.total_cmp(&one.height));
    candidates.drain(..candidates.len().saturating_sub(most));
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Samples of a thread, each a list of functions from the innermost to the outermost.
    fn stacks(thread: i32, times: usize, functions: &[&'static str]) -> Vec<Stack<&'static str>> {
        vec![
            Stack {
                thread,
                functions: functions.to_vec(),
            };
            times
        ]
    }

    fn names(stacks: &[Stack<&'static str>]) -> Vec<&'static str> {
        candidates(stacks, 32).into_iter().map(|it| it.function).collect()
    }

    #[test]
    fn the_outermost_function_comes_first() {
        let mut samples = stacks(1, 50, &["kernel", "step", "worker", "start"]);
        samples.extend(stacks(2, 50, &["other_kernel", "step", "worker", "start"]));
        assert_eq!(names(&samples), ["start", "worker", "step", "kernel", "other_kernel"]);
    }

    #[test]
    fn a_function_of_few_threads_is_no_candidate() {
        let mut samples = stacks(1, 50, &["read", "main"]);
        for thread in 2..6 {
            samples.extend(stacks(thread, 50, &["step"]));
        }
        assert_eq!(names(&samples), ["step"]);
    }

    #[test]
    fn a_function_with_little_time_is_no_candidate() {
        let mut samples = stacks(1, 90, &["step"]);
        samples.extend(stacks(1, 10, &["timer", "step"]));
        assert_eq!(names(&samples), ["step"]);
    }

    #[test]
    fn a_recursive_function_is_one_candidate() {
        let samples = stacks(1, 50, &["sort", "sort", "sort", "main"]);
        let found = candidates(&samples, 32);
        assert_eq!(found.len(), 2);
        assert!((found[0].height - 1.0).abs() < 1e-9 && (found[0].share - 1.0).abs() < 1e-9);
    }

    #[test]
    fn threads_are_many_by_their_time_and_not_by_their_number() {
        let mut samples = stacks(1, 50, &["step"]);
        for thread in 2..10 {
            samples.extend(stacks(thread, 6, &["wait"]));
        }
        assert_eq!(names(&samples), ["step"]);
    }

    #[test]
    fn without_samples_there_is_no_candidate() {
        assert_eq!(candidates::<u32>(&[], 32), []);
    }

    proptest! {
        #[test]
        fn candidates_are_ordered_bounded_and_on_some_stack(
            stacks in proptest::collection::vec((0i32..4, proptest::collection::vec(0u8..12, 0..8)), 0..60),
            most in 0usize..6,
        ) {
            let stacks: Vec<Stack<u8>> = stacks
                .into_iter()
                .map(|(thread, functions)| Stack { thread, functions })
                .collect();
            let found = candidates(&stacks, most);
            prop_assert!(found.len() <= most);
            prop_assert!(found.windows(2).all(|pair| pair[0].height >= pair[1].height));
            for candidate in found {
                prop_assert!(candidate.share >= LEAST_SHARE * MANY && candidate.share <= 1.0);
                prop_assert!(stacks.iter().any(|stack| stack.functions.contains(&candidate.function)));
            }
        }
    }
}
