//! Which tasks access each page, and how a distribution of pages divides the accesses of each task among the nodes.

use crate::model::{LINE_BYTES, PAGE_BYTES};
use crate::window::PageProfile;
use pinfold_core::random::Random;

/// Of the accesses of a task to a page, at most one for each line counts: further ones mostly hit a cache. Assumed.
const COUNTED: u64 = PAGE_BYTES / LINE_BYTES;

/// The accesses of tasks to pages, by the number of the page.
pub(super) struct Accesses {
    /// By page: the end of its entries in `tasks`.
    ends: Vec<usize>,
    /// Tasks and their accesses.
    tasks: Vec<(u32, u64)>,
}

impl Accesses {
    /// The accesses to these pages, which are numbered in this order.
    pub(super) fn new(pages: impl Iterator<Item = u64>, profile: &PageProfile) -> Self {
        Self::from_entries(pages.map(|page| profile.threads(page)))
    }

    /// By page: tasks and their accesses.
    pub(super) fn from_entries<'a>(pages: impl Iterator<Item = &'a [(u32, u64)]>) -> Self {
        let (mut ends, mut tasks) = (vec![], vec![]);
        for of_page in pages {
            tasks.extend_from_slice(of_page);
            ends.push(tasks.len());
        }
        Self { ends, tasks }
    }

    fn of(&self, page: usize) -> &[(u32, u64)] {
        let begin = page.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.tasks[begin..self.ends[page]]
    }

    /// The task that accesses a page first after a random point in time. Accesses are assumed to be spread evenly over
    /// time, so each task has its share of the page's accesses as its probability.
    pub(super) fn first_after_scan(&self, page: usize, random: &mut Random) -> Option<u32> {
        let tasks = self.of(page);
        if let [(task, _)] = tasks {
            return Some(*task);
        }
        let all: u64 = tasks.iter().map(|&(_, accesses)| accesses).sum();
        if all == 0 {
            return None;
        }
        let mut left = random.next_bits() % all;
        let mut tasks = tasks.iter();
        let found = tasks.find(|(_, accesses)| {
            let is_it = left < *accesses;
            left = left.saturating_sub(*accesses);
            is_it
        });
        found.map(|&(task, _)| task)
    }

    /// By task: the share of its accesses that go to each node, where `nodes` has the node of each page.
    pub(super) fn shares(&self, nodes: &[u8], tasks: usize, number_of_nodes: usize) -> Shares {
        let mut shares = vec![vec![0.0; number_of_nodes]; tasks];
        for (page, &node) in nodes.iter().enumerate() {
            for &(task, accesses) in self.of(page) {
                shares[task as usize][usize::from(node)] += accesses.min(COUNTED) as f64;
            }
        }
        for of_task in &mut shares {
            let all: f64 = of_task.iter().sum();
            for share in of_task {
                *share /= all.max(1.0);
            }
        }
        Shares(shares)
    }
}

/// By task: the share of its accesses that go to each node.
pub(super) struct Shares(Vec<Vec<f64>>);

impl Shares {
    /// The largest share of a task's accesses that go to another node in `other`.
    pub(super) fn distance(&self, other: &Self) -> f64 {
        let of_task = |(one, other): (&Vec<f64>, &Vec<f64>)| {
            let differences = one.iter().zip(other).map(|(one, other)| (one - other).abs());
            differences.sum::<f64>() / 2.0
        };
        self.0.iter().zip(&other.0).map(of_task).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accesses(pages: &[&[(u32, u64)]]) -> Accesses {
        Accesses::from_entries(pages.iter().copied())
    }

    #[test]
    fn a_task_is_first_as_often_as_its_share_of_the_accesses() {
        let accesses = accesses(&[&[(3, 1)], &[(0, 30), (1, 10)], &[]]);
        let mut random = Random::new(1);
        let mut first = [0; 2];
        for _ in 0..4000 {
            assert_eq!(accesses.first_after_scan(0, &mut random), Some(3));
            first[accesses.first_after_scan(1, &mut random).unwrap() as usize] += 1;
            assert_eq!(accesses.first_after_scan(2, &mut random), None);
        }
        assert!((2900..3100).contains(&first[0]), "{first:?}");
    }

    #[test]
    fn distributions_differ_by_the_accesses_that_go_to_another_node() {
        let accesses = accesses(&[&[(0, 64), (1, 1000)], &[(0, 64)], &[(1, 64)]]);
        let shares = |nodes: [u8; 3]| accesses.shares(&nodes, 2, 2);
        let same = shares([0, 0, 0]).distance(&shares([0, 0, 0]));
        let half = shares([0, 0, 0]).distance(&shares([0, 0, 1]));
        let all = shares([0, 0, 0]).distance(&shares([1, 1, 0]));
        assert_eq!((same, half, all), (0.0, 0.5, 1.0));
    }
}
