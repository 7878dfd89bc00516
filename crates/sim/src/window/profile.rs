//! How often each thread accesses each page: what the mappings `locality` and `balance` need to know beforehand
//! (Sánchez Barrera et al., ICS 2020, section 2.1.2). It depends on the recording alone, so a sweep makes it once.

use super::stream::{Batch, EventKind, Stream};
use crate::model::PAGE_BYTES;
use std::collections::HashMap;

/// Accesses by page and thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageProfile {
    /// Virtual page to (thread, accesses), in the order of the threads.
    pages: HashMap<u64, Vec<(u32, u64)>>,
}

impl PageProfile {
    /// Reads all `streams`, one a thread, to their ends.
    pub fn of(streams: &mut [Box<dyn Stream + '_>]) -> Self {
        let mut profile = Self::default();
        let mut batch = Batch::default();
        for (thread, stream) in streams.iter_mut().enumerate() {
            let mut run = (0, 0);
            while stream.next_batch(&mut batch) {
                for event in &batch.events {
                    if matches!(event.kind, EventKind::Read | EventKind::Write | EventKind::Locked) {
                        let page = event.payload / PAGE_BYTES;
                        if page != run.0 {
                            profile.add(run.0, thread, run.1);
                            run = (page, 0);
                        }
                        run.1 += 1;
                    }
                }
            }
            profile.add(run.0, thread, run.1);
        }
        profile
    }

    fn add(&mut self, page: u64, thread: usize, accesses: u64) {
        if accesses == 0 {
            return;
        }
        let counts = self.pages.entry(page).or_default();
        match counts.last_mut() {
            Some((last, count)) if *last == thread as u32 => *count += accesses,
            _ => counts.push((thread as u32, accesses)),
        }
    }

    /// Each page on the node whose threads access it most; among equals on the lowest.
    pub(crate) fn by_locality(&self, nodes: usize, node_of_thread: &[usize]) -> HashMap<u64, u8> {
        let mut sums = vec![0; nodes];
        self.pages
            .iter()
            .map(|(&page, counts)| {
                sums.fill(0);
                for &(thread, count) in counts {
                    sums[node_of_thread[thread as usize]] += count;
                }
                let most = sums.iter().max().copied().unwrap_or(0);
                let node = sums.iter().position(|&sum| sum == most).unwrap_or(0);
                (page, node as u8)
            })
            .collect()
    }

    /// Pages spread so that the nodes have about the same number of accesses: the most accessed page first, each on the
    /// node that has the fewest so far (Graham's rule: at most 4/3 of the best possible maximum).
    pub(crate) fn by_balance(&self, nodes: usize) -> HashMap<u64, u8> {
        let mut pages: Vec<(u64, u64)> = self
            .pages
            .iter()
            .map(|(&page, counts)| (counts.iter().map(|&(_, count)| count).sum(), page))
            .collect();
        pages.sort_unstable_by_key(|&(count, page)| (std::cmp::Reverse(count), page));
        let mut sums = vec![0u64; nodes];
        pages
            .into_iter()
            .map(|(count, page)| {
                let least = sums.iter().min().copied().unwrap_or(0);
                let node = sums.iter().position(|&sum| sum == least).unwrap_or(0);
                sums[node] += count;
                (page, node as u8)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::stream::{Event, Recorded};
    use super::*;

    fn profile(threads: Vec<Vec<u64>>) -> PageProfile {
        let mut streams: Vec<Box<dyn Stream>> = threads
            .into_iter()
            .map(|pages| {
                let events = pages
                    .into_iter()
                    .map(|page| Event::read(page * PAGE_BYTES, 8, 1))
                    .collect();
                Box::new(Recorded::new(events)) as Box<dyn Stream>
            })
            .collect();
        PageProfile::of(&mut streams)
    }

    #[test]
    fn locality_puts_a_page_where_it_is_accessed_most() {
        let profile = profile(vec![vec![1, 1, 2], vec![2, 1, 2]]);
        let nodes = profile.by_locality(4, &[0, 3]);
        assert_eq!((nodes[&1], nodes[&2]), (0, 3));
    }

    #[test]
    fn balance_gives_every_node_the_same_number_of_accesses() {
        let profile = profile(vec![vec![1, 1, 1, 1, 2, 2, 3, 4]]);
        let nodes = profile.by_balance(2);
        assert_eq!(nodes[&1], 0);
        assert!([2, 3, 4].iter().all(|page| nodes[page] == 1));
    }
}
