//! The lines or pages that each thread has read and written, in bounded memory.
//!
//! Up to a limit all lines are stored, and counts are exact. Above it a line is stored only if its hash is below a
//! threshold. Whenever the table is full, the threshold is halved and the lines above it are removed (the fixed-size
//! sampling of Waldspurger et al., "Efficient MRC construction with SHARDS", FAST 2015, section 3.2). Counts are then
//! scaled up: with 100,000 lines stored, the error of a share of them is well below a percent.

#![expect(clippy::cast_possible_truncation, reason = "there are fewer lines than MOST_WORDS")]

use std::collections::HashMap;

/// The most words of thread sets: 128 MiB.
const MOST_WORDS: usize = 1 << 24;

/// A hash whose upper bits are nearly random: the finaliser of splitmix64 (Steele et al., OOPSLA 2014).
pub(crate) fn hash(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The lines (or pages) that threads touch.
pub(crate) struct Footprint {
    /// The binary logarithm of a line's bytes.
    shift: u32,
    /// The position of each line in `sets`.
    lines: HashMap<u64, u32>,
    /// For each line, the threads that have read it and the threads that have written it, one bit per thread.
    sets: Vec<u64>,
    words: usize,
    /// One line in `2^halvings` is stored.
    halvings: u32,
    most_words: usize,
    /// The last line and thread, with the bits that were set. Most accesses are to the same line as the previous one.
    last: (u64, usize, u64),
}

impl Footprint {
    /// An empty footprint of `threads` threads. A line has `1 << shift` bytes.
    pub(crate) fn new(shift: u32, threads: usize) -> Self {
        Self {
            shift,
            lines: HashMap::new(),
            sets: vec![],
            words: threads.div_ceil(64).max(1),
            halvings: 0,
            most_words: MOST_WORDS,
            last: (u64::MAX, 0, 0),
        }
    }

    /// A thread, by its position among the threads, touches `size` bytes.
    #[inline]
    pub(crate) fn touch(&mut self, thread: usize, address: u64, size: u8, write: bool) {
        let first = address >> self.shift;
        let last = address.saturating_add(u64::from(size) - 1) >> self.shift;
        for line in first..=last {
            let bit = 1 << u32::from(write);
            if self.last.0 == line && self.last.1 == thread && self.last.2 & bit != 0 {
                continue;
            }
            let seen = if self.last.0 == line && self.last.1 == thread {
                self.last.2
            } else {
                0
            };
            self.last = (line, thread, seen | bit);
            self.insert(thread, line, write);
        }
    }

    fn kept(&self, line: u64) -> bool {
        hash(line).leading_zeros() >= self.halvings
    }

    fn insert(&mut self, thread: usize, line: u64, write: bool) {
        if !self.kept(line) {
            return;
        }
        let next = (self.sets.len() / (2 * self.words)) as u32;
        let place = *self.lines.entry(line).or_insert(next);
        if place == next {
            self.sets.resize(self.sets.len() + 2 * self.words, 0);
        }
        let set = place as usize * 2 * self.words + usize::from(write) * self.words;
        self.sets[set + thread / 64] |= 1 << (thread % 64);
        while self.sets.len() > self.most_words {
            self.halve();
        }
    }

    fn halve(&mut self) {
        self.halvings += 1;
        let lines = std::mem::take(&mut self.lines);
        let sets = std::mem::take(&mut self.sets);
        for (line, place) in lines {
            if self.kept(line) {
                let from = place as usize * 2 * self.words;
                self.lines.insert(line, (self.sets.len() / (2 * self.words)) as u32);
                self.sets.extend(&sets[from..from + 2 * self.words]);
            }
        }
    }

    /// Whether counts are exact, not estimates.
    pub(crate) fn is_exact(&self) -> bool {
        self.halvings == 0
    }

    fn scaled(&self, count: usize) -> u64 {
        (count as u64) << self.halvings
    }

    /// The sets of readers and writers of each line.
    fn each(&self) -> impl Iterator<Item = (&[u64], &[u64])> {
        self.sets
            .chunks_exact(2 * self.words)
            .map(|sets| sets.split_at(self.words))
    }

    /// The number of lines.
    pub(crate) fn lines(&self) -> u64 {
        self.scaled(self.lines.len())
    }

    /// The number of lines that each of `threads` threads has touched.
    pub(crate) fn lines_by_thread(&self, threads: usize) -> Vec<u64> {
        let mut counts = vec![0; threads];
        for (readers, writers) in self.each() {
            for thread in members(readers, writers, |read, written| read | written) {
                counts[thread] += 1;
            }
        }
        counts.into_iter().map(|count| self.scaled(count)).collect()
    }

    /// The number of lines that two threads or more have touched, and the number of written lines among these.
    pub(crate) fn shared(&self) -> (u64, u64) {
        let (mut shared, mut written_and_shared) = (0, 0);
        for (readers, writers) in self.each() {
            if members(readers, writers, |read, written| read | written)
                .nth(1)
                .is_some()
            {
                shared += 1;
                written_and_shared += usize::from(writers.iter().any(|word| *word != 0));
            }
        }
        (self.scaled(shared), self.scaled(written_and_shared))
    }

    /// For each writer (row) and each other thread as reader (column), the lines that the writer has written and the
    /// reader has read.
    pub(crate) fn communication(&self, threads: usize) -> Vec<Vec<u64>> {
        let mut counts = vec![vec![0_usize; threads]; threads];
        for (readers, writers) in self.each() {
            for writer in members(writers, writers, |written, _| written) {
                for reader in members(readers, readers, |read, _| read) {
                    if reader != writer {
                        counts[writer][reader] += 1;
                    }
                }
            }
        }
        let scale = |row: Vec<usize>| row.into_iter().map(|count| self.scaled(count)).collect();
        counts.into_iter().map(scale).collect()
    }
}

/// The threads in a combination of two sets.
fn members<'a>(
    one: &'a [u64],
    other: &'a [u64],
    combine: impl Fn(u64, u64) -> u64 + 'a,
) -> impl Iterator<Item = usize> + 'a {
    one.iter()
        .zip(other)
        .enumerate()
        .flat_map(move |(place, (one, other))| {
            let mut word = combine(*one, *other);
            std::iter::from_fn(move || {
                let bit = word.trailing_zeros() as usize;
                word &= word.wrapping_sub(1);
                (bit < 64).then_some(place * 64 + bit)
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_by_thread_and_by_sharing() {
        let mut footprint = Footprint::new(6, 70);
        footprint.touch(0, 0, 8, true); // line 0
        footprint.touch(69, 60, 8, false); // lines 0 and 1
        footprint.touch(1, 70, 1, false); // line 1
        footprint.touch(1, 200, 8, true); // line 3
        assert_eq!(footprint.lines(), 3);
        let by_thread = footprint.lines_by_thread(70);
        assert_eq!((by_thread[0], by_thread[1], by_thread[69]), (1, 2, 2));
        assert_eq!(footprint.shared(), (2, 1));
        let communication = footprint.communication(70);
        assert_eq!(communication[0][69], 1);
        assert_eq!(communication.iter().flatten().sum::<u64>(), 1);
    }

    #[test]
    fn a_read_after_a_write_to_the_same_line_is_seen() {
        let mut footprint = Footprint::new(6, 2);
        footprint.touch(0, 0, 8, true);
        footprint.touch(0, 8, 8, false);
        footprint.touch(1, 16, 8, true);
        assert_eq!(footprint.communication(2), [[0, 0], [1, 0]]);
    }

    #[test]
    fn beyond_the_limit_counts_are_estimates() {
        let mut footprint = Footprint::new(6, 2);
        footprint.most_words = 20_000;
        for line in 0..200_000 {
            footprint.touch((line % 2) as usize, line * 64, 8, false);
        }
        assert!(!footprint.is_exact());
        assert!(footprint.sets.len() <= footprint.most_words);
        let error = footprint.lines() as f64 / 200_000.0 - 1.0;
        assert!(error.abs() < 0.05, "{error}");
    }
}
