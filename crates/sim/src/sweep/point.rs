//! One configuration, as a data set names it.

use super::thread_map::map_threads;
use crate::model::Model;
use crate::window::{PageMapping, Prefetchers, WindowConfiguration};
use pinfold_core::{NodeId, Pinning, ThreadMap};
use std::collections::{BTreeMap, BTreeSet};

/// The page mappings with their names in data sets. `single` is the node of the first rank; each point has the number
/// of this node.
pub const PAGE_MAPS: [(&str, PageMapping); 7] = [
    ("first_touch", PageMapping::FirstTouch),
    ("interleave", PageMapping::Interleave),
    ("single", PageMapping::Single(NodeId(0))),
    ("local", PageMapping::Local),
    ("remote", PageMapping::Remote),
    ("locality", PageMapping::Locality),
    ("balance", PageMapping::Balance),
];

/// The name of a page mapping in data sets.
pub fn page_map_name(mapping: PageMapping) -> &'static str {
    PAGE_MAPS
        .iter()
        .find(|(_, named)| std::mem::discriminant(named) == std::mem::discriminant(&mapping))
        .map_or("", |(name, _)| name)
}

/// One configuration of a number of threads on a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// The PU of each thread, the page mapping, and the prefetchers that are on.
    pub configuration: WindowConfiguration,
    /// The number of nodes that have threads.
    pub num_nodes: usize,
    /// The most threads on one core.
    pub threads_per_core: usize,
    /// The thread map that gives this pinning; `None` if neither map does.
    pub thread_map: Option<ThreadMap>,
}

impl Point {
    /// The point with these settings. `single` is the node of the first rank, whatever node the mapping names. Every PU
    /// must exist on the machine.
    pub fn new(model: &Model, threads: usize, pinning: Pinning, pages: PageMapping, prefetchers: Prefetchers) -> Self {
        let nodes: Vec<usize> = (0..threads)
            .filter_map(|rank| model.node_of_pu(pinning.pu(rank).0))
            .collect();
        let num_nodes = nodes.iter().collect::<BTreeSet<_>>().len();
        let mut on_core: BTreeMap<usize, usize> = BTreeMap::new();
        for (core, _) in (0..threads).filter_map(|rank| model.core_of_pu(pinning.pu(rank).0)) {
            *on_core.entry(core).or_default() += 1;
        }
        let thread_map = ThreadMap::ALL
            .into_iter()
            .find(|&map| map_threads(model, threads, num_nodes, map).as_ref() == Some(&pinning));
        let pages = match (pages, nodes.first().and_then(|&node| u32::try_from(node).ok())) {
            (PageMapping::Single(_), Some(node)) => PageMapping::Single(NodeId(node)),
            (pages, _) => pages,
        };
        Self {
            configuration: WindowConfiguration {
                pinning,
                pages,
                prefetchers,
            },
            num_nodes,
            threads_per_core: on_core.into_values().max().unwrap_or(1),
            thread_map,
        }
    }
}
