//! Counts accesses by line and thread.

use super::{Interactions, LineStatistics, Matrix, Spread};
use crate::Access;
use std::collections::HashMap;

const LINE_SHIFT: u32 = 6;
const PAGE_SHIFT: u32 = 12;
const LINES_OF_PAGE: usize = 1 << (PAGE_SHIFT - LINE_SHIFT);

/// The value for no thread.
const NOBODY: u16 = u16::MAX;

/// The value for no block.
const NOTHING: u32 = u32::MAX;

/// The state of all lines. Lines of a page are neighbours.
///
/// A thread's accesses to the lines of a page are a block. It exists once the thread has accessed the page: most pages
/// are accessed by few threads.
pub(super) struct Lines {
    threads: usize,
    /// The number of words of a set of threads.
    words: usize,
    /// The number of each page, in the order of first accesses.
    pages: HashMap<u64, usize>,
    /// For each thread, the page of its last access.
    last: Vec<Last>,
    /// For each page and thread, the number of the block, or `NOTHING`.
    blocks: Vec<u32>,
    /// For each block and line, the number of accesses.
    accesses: Vec<u32>,
    /// For each line, the number of writes.
    writes: Vec<u32>,
    /// For each line, the last thread that wrote it.
    writer: Vec<u16>,
    /// For each line, the threads that have read it since then, and the threads that have ever written it.
    sets: Vec<u64>,
    communications: Matrix,
    most_bytes: usize,
}

/// A page with a thread's block, and the positions of their first lines.
#[derive(Clone, Copy, Debug)]
struct Last {
    page: u64,
    line: usize,
    count: usize,
}

impl Lines {
    /// Empty counts of `threads` threads. The counts may use `most_bytes`.
    pub(super) fn new(threads: usize, most_bytes: usize) -> Self {
        let nowhere = Last {
            page: u64::MAX,
            line: 0,
            count: 0,
        };
        Self {
            threads,
            words: threads.div_ceil(64).max(1),
            pages: HashMap::new(),
            last: vec![nowhere; threads],
            blocks: vec![],
            accesses: vec![],
            writes: vec![],
            writer: vec![],
            sets: vec![],
            communications: vec![vec![0; threads]; threads],
            most_bytes,
        }
    }

    /// Whether the memory for counts is used up.
    pub(super) fn is_full(&self) -> bool {
        4 * (self.blocks.len() + self.accesses.len() + self.writes.len()) + 2 * self.writer.len() + 8 * self.sets.len()
            > self.most_bytes
    }

    /// Counts an access. An atomic instruction reads and writes, even if the recording has one access for both.
    #[inline]
    pub(super) fn access(&mut self, thread: usize, access: &Access) {
        let last = access.address.saturating_add(u64::from(access.size) - 1) >> LINE_SHIFT;
        for line in access.address >> LINE_SHIFT..=last {
            let page = line >> (PAGE_SHIFT - LINE_SHIFT);
            if self.last[thread].page != page {
                self.last[thread] = self.find(thread, page);
            }
            let within = usize::try_from(line).unwrap_or(usize::MAX) % LINES_OF_PAGE;
            let place = self.last[thread];
            let count = &mut self.accesses[place.count + within];
            *count = count.saturating_add(1);
            if !access.write || access.locked {
                self.read(thread, place.line + within);
            }
            if access.write {
                self.write(thread, place.line + within);
            }
        }
    }

    /// Finds a page and the thread's block of it, or creates them.
    fn find(&mut self, thread: usize, page: u64) -> Last {
        let next = self.pages.len();
        let number = *self.pages.entry(page).or_insert(next);
        if number == next {
            let lines = (next + 1) * LINES_OF_PAGE;
            self.blocks.resize((next + 1) * self.threads, NOTHING);
            self.writes.resize(lines, 0);
            self.writer.resize(lines, NOBODY);
            self.sets.resize(lines * 2 * self.words, 0);
        }
        let block = &mut self.blocks[number * self.threads + thread];
        if *block == NOTHING {
            *block = u32::try_from(self.accesses.len() / LINES_OF_PAGE).unwrap_or(NOTHING);
            self.accesses.resize(self.accesses.len() + LINES_OF_PAGE, 0);
        }
        Last {
            page,
            line: number * LINES_OF_PAGE,
            count: *block as usize * LINES_OF_PAGE,
        }
    }

    #[inline]
    fn read(&mut self, thread: usize, index: usize) {
        let writer = self.writer[index];
        if writer == NOBODY || usize::from(writer) == thread {
            return;
        }
        let word = &mut self.sets[index * 2 * self.words + thread / 64];
        let bit = 1 << (thread % 64);
        if *word & bit == 0 {
            *word |= bit;
            self.communications[usize::from(writer)][thread] += 1;
        }
    }

    #[inline]
    fn write(&mut self, thread: usize, index: usize) {
        let count = &mut self.writes[index];
        *count = count.saturating_add(1);
        let sets = &mut self.sets[index * 2 * self.words..(index + 1) * 2 * self.words];
        let (readers, writers) = sets.split_at_mut(self.words);
        readers.fill(0);
        writers[thread / 64] |= 1 << (thread % 64);
        self.writer[index] = u16::try_from(thread).unwrap_or(NOBODY);
    }

    /// Fills `using` with the threads that access a line, and their numbers of accesses.
    fn find_users(&self, index: usize, using: &mut Vec<(usize, u64)>) {
        let (page, within) = (index / LINES_OF_PAGE, index % LINES_OF_PAGE);
        let blocks = &self.blocks[page * self.threads..(page + 1) * self.threads];
        let counts = blocks.iter().map(|&block| match block {
            NOTHING => 0,
            block => u64::from(self.accesses[block as usize * LINES_OF_PAGE + within]),
        });
        using.clear();
        using.extend(counts.enumerate().filter(|&(_, count)| count > 0));
    }

    /// The counts of all lines together.
    pub(super) fn finish(self) -> Interactions {
        let mut sharing = vec![vec![0; self.threads]; self.threads];
        let mut lines_by_thread = vec![0; self.threads];
        let mut accesses_by_thread = vec![0; self.threads];
        let mut private_accesses = 0;
        let [
            mut sharing_degree,
            mut write_ratio,
            mut shared_write_ratio,
            mut write_degree,
        ] = [Moments::default(); 4];
        let mut number = 0;
        let mut using = vec![];
        for index in 0..self.writes.len() {
            self.find_users(index, &mut using);
            if using.is_empty() {
                continue;
            }
            number += 1;
            let all: u64 = using.iter().map(|&(_, count)| count).sum();
            for &(thread, count) in &using {
                lines_by_thread[thread] += 1;
                accesses_by_thread[thread] += count;
            }
            let ratio = f64::from(self.writes[index]) / all as f64;
            write_ratio.add(ratio);
            sharing_degree.add(using.len() as f64);
            let writers = &self.sets[(2 * index + 1) * self.words..(2 * index + 2) * self.words];
            write_degree.add(f64::from(writers.iter().map(|word| word.count_ones()).sum::<u32>()));
            if using.len() == 1 {
                private_accesses += all;
                continue;
            }
            shared_write_ratio.add(ratio);
            for (place, &(one, count)) in using.iter().enumerate() {
                for &(other, others) in &using[place + 1..] {
                    let both = count.min(others);
                    sharing[one][other] += both;
                    sharing[other][one] += both;
                }
            }
        }
        Interactions {
            communications: self.communications,
            sharing,
            accesses: accesses_by_thread,
            lines_by_thread,
            private_accesses,
            lines: LineStatistics {
                number,
                sharing_degree: sharing_degree.spread(),
                write_ratio: write_ratio.spread(),
                shared_write_ratio: shared_write_ratio.spread(),
                write_degree: write_degree.spread(),
            },
        }
    }
}

/// The mean and the squared deviations of numbers, by Welford's update (Technometrics 4(3), 1962).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moments {
    number: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    pub(super) fn add(&mut self, value: f64) {
        self.number += 1.0;
        let before = value - self.mean;
        self.mean += before / self.number;
        self.squares += before * (value - self.mean);
    }

    pub(super) fn spread(self) -> Spread {
        let any = self.number > 0.0;
        Spread {
            mean: any.then_some(self.mean),
            deviation: any.then(|| (self.squares / self.number).sqrt()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: (bool, bool) = (false, false);
    const WRITE: (bool, bool) = (true, false);
    const ATOMIC: (bool, bool) = (true, true);

    /// The interactions of `threads` threads that access these addresses, in this order, with 8 bytes each.
    fn interactions(threads: usize, accesses: &[(usize, (bool, bool), u64)]) -> Interactions {
        let mut lines = Lines::new(threads, 1 << 30);
        for &(thread, (write, locked), address) in accesses {
            let access = Access {
                address,
                pc: 0,
                instructions: 1,
                size: 8,
                write,
                locked,
            };
            lines.access(thread, &access);
        }
        lines.finish()
    }

    #[test]
    fn a_communication_is_the_first_read_after_a_write_of_another_thread() {
        let found = interactions(
            3,
            &[
                (0, READ, 0), // No thread has written it.
                (0, WRITE, 0),
                (0, READ, 8),  // Its own write.
                (1, READ, 0),  // 0 to 1
                (1, READ, 16), // The same line again.
                (2, READ, 0),  // 0 to 2
                (1, WRITE, 0),
                (0, READ, 0), // 1 to 0
                (0, WRITE, 0),
                (1, READ, 0), // 0 to 1
            ],
        );
        assert_eq!(found.communications, [[0, 2, 1], [1, 0, 0], [0, 0, 0]]);
    }

    #[test]
    fn an_atomic_instruction_reads_before_it_writes() {
        let turns: Vec<_> = (0..6).map(|turn| (turn % 2, ATOMIC, 64)).collect();
        assert_eq!(interactions(2, &turns).communications, [[0, 3], [2, 0]]);
    }

    #[test]
    fn two_threads_share_the_smaller_number_of_their_accesses_to_each_line() {
        let mut accesses = vec![(0, READ, 0); 5];
        accesses.extend([(1, WRITE, 0); 3]);
        accesses.extend([(1, READ, 64); 4]);
        accesses.extend([(2, READ, 64); 7]);
        accesses.extend([(2, READ, 4096); 9]);
        let found = interactions(3, &accesses);
        assert_eq!(found.sharing, [[0, 3, 0], [3, 0, 4], [0, 4, 0]]);
        assert_eq!(found.private_accesses, 9);
        assert_eq!(found.accesses, [5, 7, 16]);
        assert_eq!(found.lines_by_thread, [1, 2, 2]);
    }

    #[test]
    fn lines_have_sharers_writers_and_shares_of_writes() {
        // Line 0: two threads, half of the accesses are writes. Line 1: one thread that reads.
        let found = interactions(2, &[(0, WRITE, 0), (1, READ, 0), (1, READ, 64)]).lines;
        assert_eq!(found.number, 2);
        assert_eq!(
            (found.sharing_degree.mean, found.sharing_degree.deviation),
            (Some(1.5), Some(0.5))
        );
        assert_eq!(
            (found.write_ratio.mean, found.write_ratio.deviation),
            (Some(0.25), Some(0.25))
        );
        assert_eq!(found.shared_write_ratio.mean, Some(0.5));
        assert_eq!(found.shared_write_ratio.deviation, Some(0.0));
        assert_eq!(
            (found.write_degree.mean, found.write_degree.deviation),
            (Some(0.5), Some(0.5))
        );
    }

    #[test]
    fn an_access_across_two_lines_counts_for_both() {
        let found = interactions(2, &[(0, WRITE, 60), (1, READ, 64)]);
        assert_eq!(found.lines.number, 2);
        assert_eq!(found.communications[0][1], 1);
    }

    #[test]
    fn pages_of_one_thread_take_little_memory_with_many_threads() {
        const THREADS: usize = 128;
        let mut lines = Lines::new(THREADS, 2 << 20);
        for (page, thread) in (0..500).zip((0..THREADS).cycle()) {
            let access = Access {
                address: page << PAGE_SHIFT,
                pc: 0,
                instructions: 1,
                size: 8,
                write: true,
                locked: false,
            };
            lines.access(thread, &access);
            assert!(!lines.is_full(), "page {page}");
        }
        let found = lines.finish();
        assert_eq!((found.lines.number, found.private_accesses), (500, 500));
    }

    #[test]
    fn without_accesses_there_is_no_mean() {
        let found = interactions(2, &[]);
        assert_eq!(found.lines, LineStatistics::default());
        assert_eq!(found.communications, [[0, 0], [0, 0]]);
    }
}
