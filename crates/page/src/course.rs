//! What moves in the course of time: where threads ran, and how much memory each node had.

use pinfold_runtime::{Timeline, every_second_point};
use serde::Serialize;
use std::collections::BTreeMap;

/// More points than this cannot be distinguished on a page. The record of a run has at most as many.
pub(crate) const POINTS: usize = 301;

/// With more changes of threads' places than this, a page takes more than a mebibyte.
const CHANGES: usize = 12_000;

/// The course of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Course {
    /// When each point was read.
    pub(crate) at: Vec<f64>,
    /// The end of the time axis; above zero.
    pub(crate) end: f64,
    pub(crate) threads: Vec<Thread>,
    pub(crate) memory: Vec<NodeMemory>,
    /// By point: the memory on all nodes.
    pub(crate) sums: Vec<u64>,
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Thread {
    /// Its short name in drawings: `T0` for the first thread.
    pub(crate) label: String,
    #[serde(skip)]
    pub(crate) name: String,
    /// The kernel's number of it.
    #[serde(skip)]
    pub(crate) number: i32,
    /// The points when its PU changed, with the new PU, or `None` if that is unknown.
    pub(crate) places: Vec<(usize, Option<u32>)>,
}

/// The memory on one node.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct NodeMemory {
    pub(crate) node: u32,
    /// By point: bytes; `None` before they were first read.
    pub(crate) bytes: Vec<Option<u64>>,
}

impl Thread {
    /// The PU at a point.
    pub(crate) fn at(&self, point: usize) -> Option<u32> {
        let later = self.places.partition_point(|&(since, _)| since <= point);
        self.places[..later].last().and_then(|&(_, pu)| pu)
    }

    /// How often its place is another one than the last known one.
    pub(crate) fn changes(&self) -> usize {
        let known: Vec<u32> = self.places.iter().filter_map(|&(_, pu)| pu).collect();
        known.windows(2).filter(|pair| pair[0] != pair[1]).count()
    }
}

impl Course {
    /// Of the time line of a run that ended at `end`.
    pub(crate) fn new(timeline: &Timeline, end: Option<f64>) -> Self {
        let last = timeline.at.last().copied().unwrap_or(0.0);
        let threads = timeline.tasks.iter().enumerate().map(|(position, task)| Thread {
            label: format!("T{position}"),
            name: task.name.clone(),
            number: task.id.thread,
            places: task
                .places
                .iter()
                .map(|&(point, pu)| (point, pu.map(|pu| pu.0)))
                .collect(),
        });
        let memory = timeline.nodes.iter().map(|series| NodeMemory {
            node: series.node.0,
            bytes: held(&series.bytes, timeline.at.len()),
        });
        let course = Self {
            at: timeline.at.clone(),
            end: end.unwrap_or(last).max(last).max(1e-3),
            threads: threads.collect(),
            memory: memory.collect(),
            sums: vec![],
        };
        course.completed()
    }

    /// With as many points as a page has room for, and with the sums.
    pub(crate) fn completed(mut self) -> Self {
        while self.at.len() > 2 && self.threads.iter().map(|thread| thread.places.len()).sum::<usize>() > CHANGES {
            self.at = self.at.iter().copied().step_by(2).collect();
            for thread in &mut self.threads {
                thread.places = every_second_point(&thread.places);
                thread.places.retain(|&(point, _)| point < self.at.len());
            }
            for node in &mut self.memory {
                node.bytes = node.bytes.iter().copied().step_by(2).collect();
            }
        }
        self.sums = (0..self.at.len()).map(|point| self.sum(point)).collect();
        self
    }

    fn sum(&self, point: usize) -> u64 {
        let bytes = self
            .memory
            .iter()
            .filter_map(|node| node.bytes.get(point).copied().flatten());
        bytes.fold(0, u64::saturating_add)
    }

    /// The last point when any thread has a known PU: the state at the end of the program. `None` without such a point.
    pub(crate) fn last(&self) -> Option<usize> {
        (0..self.at.len())
            .rev()
            .find(|&point| self.threads.iter().any(|thread| thread.at(point).is_some()))
            .or_else(|| self.at.len().checked_sub(1))
    }

    /// The labels of the threads on each PU at a point.
    pub(crate) fn on_pus(&self, point: usize) -> BTreeMap<u32, Vec<&str>> {
        let mut on: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
        for thread in &self.threads {
            if let Some(pu) = thread.at(point) {
                on.entry(pu).or_default().push(&thread.label);
            }
        }
        on
    }
}

/// Each value stays until the next one is read, for this number of points.
fn held(values: &[Option<u64>], points: usize) -> Vec<Option<u64>> {
    let mut last = None;
    let held = (0..points).map(|point| {
        last = values.get(point).copied().flatten().or(last);
        last
    });
    held.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_state_is_that_before_all_threads_ended() {
        let course = Course {
            at: vec![1.0, 2.0, 3.0],
            threads: vec![Thread {
                places: vec![(0, Some(4)), (1, Some(5)), (2, None)],
                ..Thread::default()
            }],
            ..Course::default()
        };
        assert_eq!(course.last(), Some(1));
        assert_eq!(course.on_pus(1).keys().copied().collect::<Vec<_>>(), [5]);
        assert_eq!(course.threads[0].changes(), 1);
        assert_eq!(Course::default().last(), None);
    }

    #[test]
    fn unread_memory_keeps_its_last_value_and_is_unknown_before_the_first() {
        assert_eq!(
            held(&[None, Some(3), None, Some(4)], 5),
            [None, Some(3), Some(3), Some(4), Some(4)]
        );
    }
}
