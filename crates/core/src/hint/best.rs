//! The first of all placements by an affinity hint, without enumerating the others.
//!
//! The key of several packages together follows from the keys of the packages, and a better part makes a better whole.
//! The numbers of packages are added, occupancies are merged, and the order of two words of numbers does not change
//! when the same numbers are merged into both. So the best placement of `n` threads on the first packages follows from
//! the best ones on one package less. The same holds for the domains within a package. Threads on each kind of core are
//! added, too, and are compared last.
//!
//! An occupancy is stored as the number of domains with 1, 2, 3 … threads. With p packages of d domains of c cores and
//! t threads this takes O(d t c² + p t²c) steps; packages that are alike are computed once.

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
    let kinds = shape.packages.iter().flatten().map(|domain| domain.on_kinds[0].len());
    let kinds = kinds.max().unwrap_or(0);
    let mut known: Vec<(Vec<Bounds<'_>>, Inside)> = vec![];
    let mut insides = vec![];
    for package in &shape.packages {
        let bounds: Vec<Bounds<'_>> = package.iter().map(Domain::bounds).collect();
        let number = known.iter().position(|(of, _)| *of == bounds).unwrap_or_else(|| {
            let inside = Inside::new(&bounds, shape.threads, &Taken::nothing(width, kinds), hint);
            known.push((bounds, inside));
            known.len() - 1
        });
        insides.push(number);
    }

    // By the packages so far, the last one first, and their threads: the keys, and the number of threads on the package
    // that was added last.
    let mut so_far: Vec<Option<Keys>> = vec![None; shape.threads + 1];
    so_far[0] = Some(Keys::nothing(width, kinds));
    let mut choices: Vec<Vec<usize>> = vec![];
    for (left, &inside) in insides.iter().enumerate().rev() {
        let inside = &known[inside].1;
        let mut next: Vec<Option<Keys>> = vec![None; shape.threads + 1];
        let mut choice = vec![0; shape.threads + 1];
        let from = if left == 0 { shape.threads } else { 0 };
        for threads in from..=shape.threads {
            // The first packages get more threads.
            for here in (0..=threads).rev() {
                let (Some(others), Some(mine)) = (&so_far[threads - here], inside.taken(here)) else {
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

/// The limits of a domain.
#[derive(Clone, Copy, PartialEq)]
struct Bounds<'a> {
    least: usize,
    most: usize,
    on_kinds: &'a [Vec<u32>],
}

impl Domain {
    fn bounds(&self) -> Bounds<'_> {
        Bounds {
            least: self.least,
            most: self.most,
            on_kinds: &self.on_kinds,
        }
    }
}

/// The keys of the threads of some domains.
#[derive(Clone)]
struct Taken {
    /// The number of domains with 1, 2, 3 … threads.
    occupancy: Vec<u32>,
    /// The number of threads on each kind of core, the fastest first.
    on_kinds: Vec<u32>,
}

impl Taken {
    fn nothing(width: usize, kinds: usize) -> Self {
        Self {
            occupancy: vec![0; width],
            on_kinds: vec![0; kinds],
        }
    }

    /// The sum of this cost and another domain's.
    fn and(&self, other: &Self) -> Self {
        let sums = |one: &[u32], other: &[u32]| one.iter().zip(other).map(|(a, b)| a + b).collect();
        Self {
            occupancy: sums(&self.occupancy, &other.occupancy),
            on_kinds: sums(&self.on_kinds, &other.on_kinds),
        }
    }

    /// The sum of this and a domain with this number of threads.
    fn with(&self, domain: Bounds<'_>, threads: usize) -> Self {
        let mut occupancy = self.occupancy.clone();
        if threads > 0 {
            occupancy[threads - 1] += 1;
        }
        let on_kinds = self.on_kinds_with(domain, threads).collect();
        Self { occupancy, on_kinds }
    }

    fn on_kinds_with(&self, domain: Bounds<'_>, threads: usize) -> impl Iterator<Item = u32> {
        self.on_kinds.iter().zip(&domain.on_kinds[threads]).map(|(a, b)| a + b)
    }

    /// Whether the sum of this and a domain with this number of threads comes before another, without computing the
    /// sum.
    fn with_is_before(&self, domain: Bounds<'_>, threads: usize, other: &Self, hint: AffinityHint) -> bool {
        let more = |at: usize| u32::from(at + 1 == threads);
        let occupancy = self.occupancy.iter().enumerate().rev();
        let words = occupancy
            .map(|(at, &count)| count + more(at))
            .cmp(other.occupancy.iter().rev().copied());
        let on_kinds = self.on_kinds_with(domain, threads).cmp(other.on_kinds.iter().copied());
        directed(words, hint.spread_across_llcs)
            .then(on_kinds.reverse())
            .is_lt()
    }
}

/// The keys of a placement on some packages.
#[derive(Clone)]
struct Keys {
    packages: usize,
    taken: Taken,
    /// The sum of the squares of the packages' threads.
    unevenness: usize,
}

impl Keys {
    fn nothing(width: usize, kinds: usize) -> Self {
        Self {
            packages: 0,
            taken: Taken::nothing(width, kinds),
            unevenness: 0,
        }
    }

    /// The sum of these and a package with this number of threads.
    fn with(&self, threads: usize, taken: &Taken) -> Self {
        Self {
            packages: self.packages + usize::from(threads > 0),
            taken: self.taken.and(taken),
            unevenness: self.unevenness + threads * threads,
        }
    }

    fn compare(&self, other: &Self, hint: AffinityHint) -> Ordering {
        let packages = directed(self.packages.cmp(&other.packages), !hint.spread_across_packages);
        let words = words(&self.taken.occupancy, &other.taken.occupancy);
        let caches = directed(words, hint.spread_across_llcs);
        let (first, second) = if hint.packages_first {
            (packages, caches)
        } else {
            (caches, packages)
        };
        let unevenness = self.unevenness.cmp(&other.unevenness);
        first
            .then(second)
            .then(directed(unevenness, hint.spread_across_packages))
            .then(other.taken.on_kinds.cmp(&self.taken.on_kinds))
    }
}

/// The order of two occupancies as words, the greatest number of threads first: it is decided by the greatest number
/// that they do not have equally often.
fn words(one: &[u32], other: &[u32]) -> Ordering {
    one.iter().rev().cmp(other.iter().rev())
}

fn directed(ordering: Ordering, less_first: bool) -> Ordering {
    if less_first { ordering } else { ordering.reverse() }
}

/// The best placements on one package's domains, by threads.
struct Inside {
    /// By threads; `None` if this number does not fit.
    best: Vec<Option<Taken>>,
    /// By domain, the last one first, and by threads on it and those behind it: the threads on it.
    choices: Vec<Vec<usize>>,
}

impl Inside {
    fn new(domains: &[Bounds<'_>], threads: usize, nothing: &Taken, hint: AffinityHint) -> Self {
        let mut best: Vec<Option<Taken>> = vec![None; threads + 1];
        best[0] = Some(nothing.clone());
        let mut choices = vec![];
        for &domain in domains.iter().rev() {
            let mut next: Vec<Option<Taken>> = vec![None; threads + 1];
            let mut choice = vec![0; threads + 1];
            for count in 0..=threads {
                // The first domains get more threads.
                for here in (domain.least..=domain.most.min(count)).rev() {
                    let Some(behind) = &best[count - here] else { continue };
                    let better = next[count]
                        .as_ref()
                        .is_none_or(|known| behind.with_is_before(domain, here, known, hint));
                    if better {
                        next[count] = Some(behind.with(domain, here));
                        choice[count] = here;
                    }
                }
            }
            best = next;
            choices.push(choice);
        }
        Self { best, choices }
    }

    fn taken(&self, threads: usize) -> Option<&Taken> {
        self.best[threads].as_ref()
    }

    /// The threads of each domain for this total number of threads.
    fn loads(&self, mut threads: usize) -> Vec<usize> {
        let mut loads = vec![];
        for choice in self.choices.iter().rev() {
            loads.push(choice[threads]);
            threads -= choice[threads];
        }
        loads
    }
}
