//! The accesses of a program's threads by page, and the places of these pages under the page mappings `locality` and
//! `balance` (Sánchez Barrera et al., ICS 2020, section 2.1.2).
//!
//! - `locality`: each page is on the node whose threads access it most; the lowest node wins a tie.
//! - `balance`: pages are distributed so that the nodes have about the same number of accesses. The most accessed page
//!   comes first, each on the node with the fewest accesses so far (Graham, "Bounds on multiprocessing timing
//!   anomalies", SIAM J. Appl. Math. 17, 1969, theorem 2). So two nodes differ by at most the accesses of one page.
//!
//! A page without known accesses stays where it is.

use super::PageGoal;
use super::runs::Runs;
use crate::{NodeId, NodeSet};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::HashMap;

/// Accesses by page and thread. The caller defines the numbers of threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessProfile {
    /// By first byte.
    pages: HashMap<u64, Page>,
}

/// Of a page that more threads access, only this many are compared: a page of all threads says little of a pair.
const SHARERS: usize = 16;

/// Two threads that access the same pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedPages {
    /// The threads, as the profile numbers them, the smaller number first.
    pub threads: [u32; 2],
    /// Accesses of both to the same pages.
    pub accesses: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Page {
    bytes: u64,
    /// Threads and their accesses, each thread once.
    threads: Vec<(u32, u64)>,
}

impl Page {
    fn accesses(&self) -> u64 {
        self.threads.iter().map(|&(_, accesses)| accesses).sum()
    }
}

impl AccessProfile {
    /// Adds accesses of a thread to the page of `bytes` at `address`. Pages do not overlap.
    pub fn add(&mut self, address: u64, bytes: u64, thread: u32, accesses: u64) {
        if accesses == 0 {
            return;
        }
        let page = self
            .pages
            .entry(address)
            .or_insert_with(|| Page { bytes, threads: vec![] });
        match page.threads.iter_mut().rev().find(|(known, _)| *known == thread) {
            Some((_, count)) => *count += accesses,
            None => page.threads.push((thread, accesses)),
        }
    }

    /// The threads that access the page at `address`, with their accesses, each thread once.
    pub fn threads(&self, address: u64) -> &[(u32, u64)] {
        self.pages.get(&address).map_or(&[], |page| &page.threads)
    }

    /// The number of pages with accesses.
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// Whether no access is known.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// The bytes of these pages.
    pub fn bytes(&self) -> u64 {
        self.pages.values().map(|page| page.bytes).sum()
    }

    /// All accesses.
    pub fn accesses(&self) -> u64 {
        self.pages.values().map(Page::accesses).sum()
    }

    /// The pairs of threads that access the same pages, those with most accesses first, at most `most` pairs. The
    /// accesses of a pair are the sum over the pages of the smaller of both numbers, as in Denoyelle, Goglin, Jeannot
    /// and Ropars (ICPP 2019, section 3.2.2), there by line.
    pub fn shared(&self, most: usize) -> Vec<SharedPages> {
        let mut pairs: HashMap<[u32; 2], u64> = HashMap::new();
        for page in self.pages.values() {
            let mut threads = page.threads.clone();
            threads.sort_unstable_by_key(|&(thread, accesses)| (Reverse(accesses), thread));
            threads.truncate(SHARERS);
            for (position, &(one, accesses)) in threads.iter().enumerate() {
                for &(other, fewer) in &threads[position + 1..] {
                    *pairs.entry([one.min(other), one.max(other)]).or_default() += accesses.min(fewer);
                }
            }
        }
        let pairs = pairs
            .into_iter()
            .map(|(threads, accesses)| SharedPages { threads, accesses });
        let mut pairs: Vec<SharedPages> = pairs.collect();
        pairs.sort_unstable_by_key(|pair| (Reverse(pair.accesses), pair.threads));
        pairs.truncate(most);
        pairs
    }

    /// Places each page on the node of `nodes` whose threads access it most; the lowest wins a tie. Pages without
    /// accesses by threads of `nodes` have no place. `node_of` is a thread's node, `None` if unknown.
    pub fn place_by_locality(&self, nodes: &NodeSet, node_of: impl Fn(u32) -> Option<NodeId>) -> PagePlaces {
        let known: HashMap<u32, Option<NodeId>> = self
            .pages
            .values()
            .flat_map(|page| &page.threads)
            .map(|&(thread, _)| (thread, node_of(thread).filter(|&node| nodes.contains(node))))
            .collect();
        let mut sums: Vec<(NodeId, u64)> = vec![];
        let place = |(&address, page): (&u64, &Page)| {
            sums.clear();
            for &(thread, accesses) in &page.threads {
                let Some(node) = known[&thread] else { continue };
                match sums.iter_mut().find(|(its, _)| *its == node) {
                    Some((_, sum)) => *sum += accesses,
                    None => sums.push((node, accesses)),
                }
            }
            let most = sums.iter().max_by_key(|&&(node, sum)| (sum, Reverse(node)));
            most.map(|&(node, _)| (address, page.bytes, node))
        };
        PagePlaces::new(self.pages.iter().filter_map(place).collect())
    }

    /// Pages spread over `nodes` so that each has about the same number of accesses.
    pub fn place_by_balance(&self, nodes: &NodeSet) -> PagePlaces {
        let pages = self.pages.iter();
        let mut pages: Vec<(u64, u64, u64)> = pages
            .map(|(&address, page)| (page.accesses(), address, page.bytes))
            .collect();
        pages.sort_unstable_by_key(|&(accesses, address, _)| (Reverse(accesses), address));
        let mut sums: Vec<(u64, NodeId)> = nodes.iter().map(|node| (0, node)).collect();
        let places = pages.into_iter().filter_map(|(accesses, address, bytes)| {
            let (sum, node) = sums.iter_mut().min()?;
            *sum += accesses;
            Some((address, bytes, *node))
        });
        PagePlaces::new(places.collect())
    }
}

/// Pages, each with the node that it belongs on. All others stay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PagePlaces {
    nodes: Runs<NodeId>,
    pages: usize,
}

impl PagePlaces {
    fn new(mut places: Vec<(u64, u64, NodeId)>) -> Self {
        places.sort_unstable_by_key(|&(address, ..)| address);
        let mut nodes = Runs::default();
        for &(address, bytes, node) in &places {
            nodes.set(address, address.saturating_add(bytes), node);
        }
        Self {
            nodes,
            pages: places.len(),
        }
    }

    /// The node for the page at `address`, if it has one.
    pub fn node(&self, address: u64) -> Option<NodeId> {
        self.nodes.get(address)
    }

    /// The number of pages with a place.
    pub fn len(&self) -> usize {
        self.pages
    }

    /// Whether no page has a place.
    pub fn is_empty(&self) -> bool {
        self.pages == 0
    }
}

impl PageGoal for PagePlaces {
    fn wanted(&self, address: u64, _bytes: u64, now: NodeId) -> NodeId {
        self.node(address).unwrap_or(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const PAGE: u64 = 4096;

    /// Accesses by page and thread, at most as many as there are cells.
    fn accesses() -> impl Strategy<Value = BTreeMap<(u64, u32), u64>> {
        proptest::collection::btree_map((0u64..40, 0u32..8), 1u64..1000, 0..120)
    }

    fn some_nodes() -> impl Strategy<Value = NodeSet> {
        proptest::collection::btree_set(0u32..12, 1..6).prop_map(|nodes| nodes.into_iter().map(NodeId).collect())
    }

    fn profile(accesses: &BTreeMap<(u64, u32), u64>) -> AccessProfile {
        let mut profile = AccessProfile::default();
        for (&(page, thread), &count) in accesses {
            profile.add(page * PAGE, PAGE, thread, count);
        }
        profile
    }

    /// Threads 0 and 1 are on node 0, 2 and 3 on node 1, and so on; the node of thread 7 is not known.
    fn node_of(thread: u32) -> Option<NodeId> {
        (thread < 7).then_some(NodeId(thread / 2))
    }

    #[test]
    fn threads_share_the_smaller_of_their_accesses_to_a_page() {
        let mut profile = AccessProfile::default();
        for (address, thread, accesses) in [
            (0, 7, 10),
            (0, 5, 3),
            (1, 5, 4),
            (1, 7, 2),
            (2, 9, 8),
            (3, 9, 1),
            (3, 5, 1),
        ] {
            profile.add(address, 4096, thread, accesses);
        }
        let pair = |threads, accesses| SharedPages { threads, accesses };
        assert_eq!(profile.shared(8), [pair([5, 7], 5), pair([5, 9], 1)]);
        assert_eq!(profile.shared(1), [pair([5, 7], 5)]);
    }

    proptest! {
        #[test]
        fn a_page_goes_to_an_allowed_node_or_stays(
            accesses in accesses(), nodes in some_nodes(), address in 0u64..50 * PAGE, now in 0u32..20,
        ) {
            let profile = profile(&accesses);
            for places in [profile.place_by_locality(&nodes, node_of), profile.place_by_balance(&nodes)] {
                let wanted = places.wanted(address, PAGE, NodeId(now));
                prop_assert!(nodes.contains(wanted) || wanted == NodeId(now));
                prop_assert_eq!(places.wanted(address, PAGE, wanted), wanted);
            }
        }

        #[test]
        fn locality_takes_the_node_with_the_most_accesses_and_of_equals_the_lowest(
            accesses in accesses(), nodes in some_nodes(),
        ) {
            let places = profile(&accesses).place_by_locality(&nodes, node_of);
            for page in 0..40 {
                let of_node = |node: NodeId| -> u64 {
                    let its = accesses.iter().filter(|&(&(its, thread), _)| its == page && node_of(thread) == Some(node));
                    its.map(|(_, &count)| count).sum()
                };
                let best = nodes.iter().filter(|&node| of_node(node) > 0).max_by_key(|&node| (of_node(node), Reverse(node)));
                prop_assert_eq!(places.node(page * PAGE), best);
            }
        }

        #[test]
        fn balanced_nodes_differ_by_no_more_than_one_page(accesses in accesses(), nodes in some_nodes()) {
            let profile = profile(&accesses);
            let places = profile.place_by_balance(&nodes);
            let mut pages: BTreeMap<u64, u64> = BTreeMap::new();
            for (&(page, _), &count) in &accesses {
                *pages.entry(page).or_default() += count;
            }
            let of_node = |node| -> u64 {
                pages.iter().filter(|(page, _)| places.node(*page * PAGE) == Some(node)).map(|(_, &count)| count).sum()
            };
            let sums: Vec<u64> = nodes.iter().map(of_node).collect();
            prop_assert_eq!(sums.iter().sum::<u64>(), profile.accesses());
            let largest = pages.values().max().copied().unwrap_or(0);
            prop_assert!(sums.iter().max().unwrap() - sums.iter().min().unwrap() <= largest);
        }

        #[test]
        fn balance_is_within_five_percent_where_no_page_is_larger(
            pages in proptest::collection::vec(90u64..110, 120..200), nodes in some_nodes(),
        ) {
            let cells: BTreeMap<(u64, u32), u64> = (0..).zip(&pages).map(|(page, &count)| ((page, 0), count)).collect();
            let places = profile(&cells).place_by_balance(&nodes);
            let mean = pages.iter().sum::<u64>() as f64 / nodes.len() as f64;
            // 120 pages of 90 on five nodes are 2160 accesses each. A page of 109 is 5.05 % of that.
            prop_assume!(pages.iter().all(|&count| count as f64 <= 0.05 * mean));
            for node in nodes.iter() {
                let sum: u64 = (0u64..).zip(&pages).filter(|(page, _)| places.node(page * PAGE) == Some(node)).map(|(_, &count)| count).sum();
                prop_assert!((sum as f64 - mean).abs() <= 0.05 * mean, "{sum} of {mean} on {node}");
            }
        }

        #[test]
        fn the_order_of_the_accesses_does_not_matter(
            accesses in accesses(), nodes in some_nodes(), order in any::<prop::sample::Index>(),
        ) {
            let mut cells: Vec<_> = accesses.iter().collect();
            if !cells.is_empty() {
                let middle = order.index(cells.len());
                cells.rotate_left(middle);
            }
            let mut other = AccessProfile::default();
            for (&(page, thread), &count) in cells {
                other.add(page * PAGE, PAGE, thread, count);
            }
            let profile = profile(&accesses);
            for page in 0..40 {
                let at = page * PAGE;
                prop_assert_eq!(other.place_by_balance(&nodes).node(at), profile.place_by_balance(&nodes).node(at));
                let local = |profile: &AccessProfile| profile.place_by_locality(&nodes, node_of).node(at);
                prop_assert_eq!(local(&other), local(&profile));
            }
        }
    }

    #[test]
    fn a_huge_page_is_one_and_all_of_it_goes_to_its_node() {
        let mut profile = AccessProfile::default();
        profile.add(2 << 20, 2 << 20, 0, 1);
        profile.add(2 << 20, 2 << 20, 4, 2);
        assert_eq!((profile.len(), profile.accesses()), (1, 3));
        let nodes = [0, 2].map(NodeId).into_iter().collect();
        let places = profile.place_by_locality(&nodes, node_of);
        assert_eq!(places.wanted((4 << 20) - PAGE, PAGE, NodeId(0)), NodeId(2));
        assert_eq!(places.wanted(4 << 20, PAGE, NodeId(0)), NodeId(0));
    }
}
