//! Reuse distances: the number of other lines that a thread touches between two uses of a line. A fully associative
//! cache with LRU replacement misses if it has at most this many lines (Mattson et al., IBM Systems Journal 9(2),
//! 1970).
//!
//! Time is counted in uses. A Fenwick tree has a one at the time of each line's last use, so the distance is the sum
//! over the times since. When time reaches the tree's end, the lines' times are renumbered. Above a number of lines
//! only a sample is used, and distances are scaled up (SHARDS, FAST 2015; see `footprint.rs`).

#![expect(clippy::cast_possible_truncation, reason = "times are at most TIMES")]

use crate::footprint::hash;
use std::collections::HashMap;

/// The most lines in the tree.
const MOST_LINES: usize = 1 << 15;
/// The tree's size.
const TIMES: usize = 4 * MOST_LINES;
/// The number of buckets of the histogram: distance 0, then up to the powers of two.
const BUCKETS: usize = 48;

/// A thread's reuse distances.
pub(crate) struct ReuseDistances {
    last_use: HashMap<u64, u32>,
    tree: Vec<u32>,
    now: usize,
    halvings: u32,
    previous_line: u64,
    /// `counts[0]`: distance 0; `counts[i]`: distances from `2^(i-1)` to below `2^i`.
    counts: Vec<u64>,
    first_uses: u64,
}

impl ReuseDistances {
    /// An empty histogram.
    pub(crate) fn new() -> Self {
        Self {
            last_use: HashMap::new(),
            tree: vec![0; TIMES + 1],
            now: 0,
            halvings: 0,
            previous_line: u64::MAX,
            counts: vec![0; BUCKETS],
            first_uses: 0,
        }
    }

    /// The thread uses a line.
    #[inline]
    pub(crate) fn touch(&mut self, line: u64) {
        if line == self.previous_line {
            self.counts[0] += 1;
            return;
        }
        self.previous_line = line;
        if hash(line).leading_zeros() >= self.halvings {
            self.touch_followed(line);
        }
    }

    /// The histogram without the empty buckets at its end, and the first uses of lines.
    pub(crate) fn finish(mut self) -> (Vec<u64>, u64) {
        while self.counts.last() == Some(&0) {
            self.counts.pop();
        }
        (self.counts, self.first_uses)
    }

    fn touch_followed(&mut self, line: u64) {
        if self.now == TIMES {
            self.renumber();
        }
        let weight = 1 << self.halvings;
        self.now += 1;
        if let Some(before) = self.last_use.insert(line, self.now as u32) {
            let between = self.last_use.len() as u64 - u64::from(self.sum(before as usize));
            let distance = between * weight;
            let bucket = (u64::BITS - distance.leading_zeros()) as usize;
            self.counts[bucket.min(BUCKETS - 1)] += weight;
            self.add(before as usize, false);
        } else {
            self.first_uses += weight;
        }
        self.add(self.now, true);
        while self.last_use.len() > MOST_LINES {
            self.halvings += 1;
            let halvings = self.halvings;
            self.last_use.retain(|line, _| hash(*line).leading_zeros() >= halvings);
            self.renumber();
        }
    }

    /// Renumbers the lines' last uses from 1 on, in their order.
    fn renumber(&mut self) {
        let mut uses: Vec<(u32, u64)> = self.last_use.iter().map(|(line, time)| (*time, *line)).collect();
        uses.sort_unstable();
        self.tree.fill(0);
        self.now = 0;
        for (_, line) in uses {
            self.now += 1;
            self.last_use.insert(line, self.now as u32);
            self.add(self.now, true);
        }
    }

    fn add(&mut self, mut time: usize, one: bool) {
        while time <= TIMES {
            self.tree[time] = if one { self.tree[time] + 1 } else { self.tree[time] - 1 };
            time += time & time.wrapping_neg();
        }
    }

    /// The number of lines whose last use was at `time` or before.
    fn sum(&self, mut time: usize) -> u32 {
        let mut sum = 0;
        while time > 0 {
            sum += self.tree[time];
            time &= time - 1;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_is_the_number_of_other_lines_between() {
        let mut distances = ReuseDistances::new();
        for line in [1, 2, 3, 2, 2, 1] {
            distances.touch(line);
        }
        // 2 after 3: 1; 2 after 2: 0; 1 after {2, 3}: 2.
        assert_eq!(distances.finish(), (vec![1, 1, 1], 3));
    }

    #[test]
    fn times_are_renumbered_without_a_change() {
        let mut distances = ReuseDistances::new();
        for use_of_lines in 0..TIMES as u64 + 100 {
            distances.touch(use_of_lines % 5);
        }
        let (counts, first_uses) = distances.finish();
        assert_eq!(first_uses, 5);
        assert_eq!(counts, [0, 0, 0, TIMES as u64 + 95]);
    }

    #[test]
    fn a_loop_over_more_lines_than_are_followed_keeps_its_distance() {
        let lines = 4 * MOST_LINES as u64;
        let mut distances = ReuseDistances::new();
        for _ in 0..3 {
            for line in 0..lines {
                distances.touch(line);
            }
        }
        let (counts, _) = distances.finish();
        // The distance is lines - 1, so the sample's estimate may fall to either side of the power of two.
        let far: u64 = counts[lines.ilog2() as usize..].iter().sum();
        let all: u64 = counts.iter().sum();
        assert_eq!(far, all, "{counts:?}");
        assert!((all as f64 / (2 * lines) as f64 - 1.0).abs() < 0.1, "{all}");
    }
}
