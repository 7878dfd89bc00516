//! How often each thread of a recording accesses each page. The mappings `locality` and `balance` need this in advance
//! (`pinfold_core::memory::AccessProfile`). It depends on the recording alone, so a sweep makes it once.

use super::stream::{Batch, EventKind, Stream};
use crate::model::PAGE_BYTES;
use pinfold_core::memory::{AccessProfile, PagePlaces};
use pinfold_core::{NodeId, NodeSet};

/// Accesses by page and thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageProfile {
    accesses: AccessProfile,
}

impl PageProfile {
    /// Reads all `streams`, one for each thread, to their ends.
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
        self.accesses
            .add(page * PAGE_BYTES, PAGE_BYTES, thread as u32, accesses);
    }

    /// The threads that access a page, with their accesses.
    pub(crate) fn threads(&self, page: u64) -> &[(u32, u64)] {
        self.accesses.threads(page * PAGE_BYTES)
    }

    /// The node of each page on a machine with `nodes` nodes and threads on these.
    pub(crate) fn place_by_locality(&self, nodes: usize, node_of_thread: &[usize]) -> PagePlaces {
        let node_of = |thread: u32| Some(NodeId(node_of_thread[thread as usize] as u32));
        self.accesses.place_by_locality(&all(nodes), node_of)
    }

    /// The node of each page on a machine with `nodes` nodes.
    pub(crate) fn place_by_balance(&self, nodes: usize) -> PagePlaces {
        self.accesses.place_by_balance(&all(nodes))
    }
}

fn all(nodes: usize) -> NodeSet {
    (0..nodes as u32).map(NodeId).collect()
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

    fn node(places: &PagePlaces, page: u64) -> Option<NodeId> {
        places.node(page * PAGE_BYTES)
    }

    #[test]
    fn locality_puts_a_page_on_the_node_that_accesses_it_most() {
        let places = profile(vec![vec![1, 1, 2], vec![2, 1, 2]]).place_by_locality(4, &[0, 3]);
        assert_eq!(
            [1, 2].map(|page| node(&places, page)),
            [Some(NodeId(0)), Some(NodeId(3))]
        );
    }

    #[test]
    fn balance_gives_every_node_the_same_number_of_accesses() {
        let places = profile(vec![vec![1, 1, 1, 1, 2, 2, 3, 4]]).place_by_balance(2);
        assert_eq!(node(&places, 1), Some(NodeId(0)));
        assert_eq!([2, 3, 4].map(|page| node(&places, page)), [Some(NodeId(1)); 3]);
    }
}
