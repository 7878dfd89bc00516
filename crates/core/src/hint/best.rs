//! The first of all placements by an affinity hint, without making the others.
//!
//! A key of several packages together depends on the keys of the packages alone, and a better part makes a better whole: the
//! numbers of packages are added, occupancies are merged, and where one word of numbers comes before another, it still
//! does when the same numbers are merged into both. So the best for `n` threads on the first packages is found from
//! the best on one package less, and within a package, domain by domain, likewise.
//!
//! An occupancy is kept as how many domains have 1, 2, 3 … threads. With p packages of d domains of c cores and t threads
//! this takes O(d t c² + p t²c) steps; packages that are alike are computed once.

use super::AffinityHint;
use super::shape::{Domain, Shape};
use std::cmp::Ordering;

/// Threads by package and domain of the first placement by `hint`.
pub(super) fn loads(shape: &Shape, hint: AffinityHint) -> Vec<Vec<usize>> {
    let width = shape
        .packages
        .iter()
        .flatten()
        .map(|domain| domain.most)
        .max()
        .unwrap_or(0);
    let mut known: Vec<(Vec<(usize, usize)>, Inside)> = vec![];
    let mut insides = vec![];
    for package in &shape.packages {
        let bounds: Vec<(usize, usize)> = package.iter().map(Domain::bounds).collect();
        let number = known.iter().position(|(of, _)| *of == bounds).unwrap_or_else(|| {
            let inside = Inside::new(&bounds, shape.threads, width, hint);
            known.push((bounds, inside));
            known.len() - 1
        });
        insides.push(number);
    }

    // By the packages so far, the last of them first, and the threads on them: the keys, and how many of the threads are
    // on the package that came last.
    let mut so_far: Vec<Option<Keys>> = vec![None; shape.threads + 1];
    so_far[0] = Some(Keys::nothing(width));
    let mut choices: Vec<Vec<usize>> = vec![];
    for (left, &inside) in insides.iter().enumerate().rev() {
        let inside = &known[inside].1;
        let mut next: Vec<Option<Keys>> = vec![None; shape.threads + 1];
        let mut choice = vec![0; shape.threads + 1];
        let from = if left == 0 { shape.threads } else { 0 };
        for threads in from..=shape.threads {
            // The first packages get the more.
            for here in (0..=threads).rev() {
                let (Some(others), Some(mine)) = (&so_far[threads - here], inside.occupancy(here)) else {
                    continue;
                };
                let keys = others.with(here, mine);
                if next[threads]
                    .as_ref()
                    .is_none_or(|best| keys.compare(best, hint).is_lt())
                {
                    next[threads] = Some(keys);
                    choice[threads] = here;
                }
            }
        }
        so_far = next;
        choices.push(choice);
    }
    let mut threads = shape.threads;
    let mut loads = vec![];
    for (choice, &inside) in choices.iter().rev().zip(&insides) {
        loads.push(known[inside].1.loads(choice[threads]));
        threads -= choice[threads];
    }
    loads
}

impl Domain {
    fn bounds(&self) -> (usize, usize) {
        (self.least, self.most)
    }
}

/// The keys of a placement on some packages.
#[derive(Clone)]
struct Keys {
    packages: usize,
    occupancy: Vec<u32>,
    /// The sum of the squares of the packages' threads.
    unevenness: usize,
}

impl Keys {
    fn nothing(width: usize) -> Self {
        Self {
            packages: 0,
            occupancy: vec![0; width],
            unevenness: 0,
        }
    }

    /// These and a package with so many threads.
    fn with(&self, threads: usize, occupancy: &[u32]) -> Self {
        Self {
            packages: self.packages + usize::from(threads > 0),
            occupancy: self.occupancy.iter().zip(occupancy).map(|(a, b)| a + b).collect(),
            unevenness: self.unevenness + threads * threads,
        }
    }

    fn compare(&self, other: &Self, hint: AffinityHint) -> Ordering {
        let packages = directed(self.packages.cmp(&other.packages), !hint.spread_across_packages);
        let caches = directed(words(&self.occupancy, &other.occupancy), hint.spread_across_llcs);
        let (first, second) = if hint.packages_first {
            (packages, caches)
        } else {
            (caches, packages)
        };
        let unevenness = self.unevenness.cmp(&other.unevenness);
        first
            .then(second)
            .then(directed(unevenness, hint.spread_across_packages))
    }
}

/// How two occupancies compare as words, the greatest number of threads first: by the greatest number that they do not have
/// equally often.
fn words(one: &[u32], other: &[u32]) -> Ordering {
    one.iter().rev().cmp(other.iter().rev())
}

fn directed(ordering: Ordering, less_first: bool) -> Ordering {
    if less_first { ordering } else { ordering.reverse() }
}

/// The best occupancies of one package's domains, by threads.
struct Inside {
    /// By threads: how many domains have 1, 2, 3 … of them; `None` where so many cannot be.
    best: Vec<Option<Vec<u32>>>,
    /// By domain, the last one first, and by threads on it and those behind it: the threads on it.
    choices: Vec<Vec<usize>>,
}

impl Inside {
    fn new(domains: &[(usize, usize)], threads: usize, width: usize, hint: AffinityHint) -> Self {
        let mut best: Vec<Option<Vec<u32>>> = vec![None; threads + 1];
        best[0] = Some(vec![0; width]);
        let mut choices = vec![];
        for &(least, most) in domains.iter().rev() {
            let mut next: Vec<Option<Vec<u32>>> = vec![None; threads + 1];
            let mut choice = vec![0; threads + 1];
            for count in 0..=threads {
                // The first domains get the more.
                for here in (least..=most.min(count)).rev() {
                    let Some(behind) = &best[count - here] else { continue };
                    let better = next[count]
                        .as_ref()
                        .is_none_or(|known| directed(words_with(behind, here, known), hint.spread_across_llcs).is_lt());
                    if better {
                        next[count] = Some(with(behind, here));
                        choice[count] = here;
                    }
                }
            }
            best = next;
            choices.push(choice);
        }
        Self { best, choices }
    }

    fn occupancy(&self, threads: usize) -> Option<&[u32]> {
        self.best[threads].as_deref()
    }

    /// The threads of each domain where all of them have so many.
    fn loads(&self, mut threads: usize) -> Vec<usize> {
        let mut loads = vec![];
        for choice in self.choices.iter().rev() {
            loads.push(choice[threads]);
            threads -= choice[threads];
        }
        loads
    }
}

/// An occupancy and a domain with so many threads.
fn with(occupancy: &[u32], threads: usize) -> Vec<u32> {
    let mut occupancy = occupancy.to_vec();
    if threads > 0 {
        occupancy[threads - 1] += 1;
    }
    occupancy
}

/// As `words(with(one, threads), other)`, but makes nothing.
fn words_with(one: &[u32], threads: usize, other: &[u32]) -> Ordering {
    let more = |at: usize| u32::from(at + 1 == threads);
    let one = one.iter().enumerate().rev().map(|(at, &count)| count + more(at));
    one.cmp(other.iter().copied().rev())
}
