//! One configuration, as a data set names it.

use super::machine::SpaceMachine;
use pinfold_core::{NodeId, PageMapping, Pinning, Prefetchers, ThreadMap};
use pinfold_sim::window::WindowConfiguration;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashSet};

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

/// One configuration on a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// The number of threads.
    pub threads: usize,
    /// The PU of each thread.
    pub pinning: Pinning,
    /// Where the pages are.
    pub pages: PageMapping,
    /// The prefetchers that are on.
    pub prefetchers: Prefetchers,
    /// The number of nodes that have threads.
    pub num_nodes: usize,
    /// The most threads on one core.
    pub threads_per_core: usize,
    /// The thread map that gives this pinning; `None` if neither map does.
    pub thread_map: Option<ThreadMap>,
}

impl Point {
    /// The configuration for a simulation.
    pub(crate) fn window_configuration(&self) -> WindowConfiguration {
        WindowConfiguration {
            pinning: self.pinning.clone(),
            pages: self.pages,
            prefetchers: self.prefetchers,
        }
    }
}

/// Makes points of a number of threads on a machine.
pub(super) struct Points<'a> {
    pub(super) machine: &'a SpaceMachine,
    pub(super) threads: usize,
    /// The pinnings of both thread maps, by the number of nodes and of threads per core.
    named: RefCell<BTreeMap<(usize, usize), OfBothMaps>>,
}

/// The pinning of each thread map, if it gives one.
type OfBothMaps = [Option<Pinning>; 2];

impl<'a> Points<'a> {
    pub(super) fn new(machine: &'a SpaceMachine, threads: usize) -> Self {
        Self {
            machine,
            threads,
            named: RefCell::default(),
        }
    }

    /// The point with these settings. `single` is the node of the first rank, whatever node the mapping names. Every PU
    /// of the pinning may be used.
    pub(super) fn point(&self, pinning: Pinning, pages: PageMapping, prefetchers: Prefetchers) -> Point {
        let places = (0..self.threads).filter_map(|rank| self.machine.place(pinning.pu(rank)));
        let mut nodes = BTreeSet::new();
        let mut on_core: BTreeMap<usize, usize> = BTreeMap::new();
        for place in places {
            nodes.insert(place.node);
            *on_core.entry(place.core).or_default() += 1;
        }
        let threads_per_core = on_core.into_values().max().unwrap_or(1);
        Point {
            threads: self.threads,
            pages: self.machine.own(pages, pinning.pu(0)),
            prefetchers,
            num_nodes: nodes.len(),
            threads_per_core,
            thread_map: self.thread_map(&pinning, nodes.len(), threads_per_core),
            pinning,
        }
    }

    fn thread_map(&self, pinning: &Pinning, nodes: usize, threads_per_core: usize) -> Option<ThreadMap> {
        let mut named = self.named.borrow_mut();
        let named = named.entry((nodes, threads_per_core)).or_insert_with(|| {
            ThreadMap::ALL.map(|map| self.machine.mapped(self.threads, nodes, map, Some(threads_per_core)))
        });
        let mut maps = ThreadMap::ALL.into_iter().zip(named);
        maps.find(|(_, named)| named.as_ref() == Some(pinning))
            .map(|(map, _)| map)
    }
}

/// The points without duplicates.
pub(super) fn distinct(points: impl IntoIterator<Item = Point>) -> Vec<Point> {
    let mut seen = HashSet::new();
    points
        .into_iter()
        .filter(|point| seen.insert((point.threads, point.pinning.clone(), point.pages, point.prefetchers)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::machine::tests::simulated;
    use super::*;
    use pinfold_core::PuId;
    use proptest::prelude::*;

    fn pinned(machine: &SpaceMachine, list: &[u32]) -> Point {
        let pinning = Pinning::new(list.iter().map(|&pu| PuId(pu)).collect()).unwrap();
        Points::new(machine, list.len()).point(pinning, PageMapping::FirstTouch, Prefetchers::ALL)
    }

    #[test]
    fn compact_keeps_neighbours_together_and_scatter_distributes_them() {
        let machine = simulated("e5-4650x4");
        let pinning = |map| machine.mapped(4, 2, map, None).unwrap().to_string();
        assert_eq!(pinning(ThreadMap::Compact), "0,1,8,9");
        assert_eq!(pinning(ThreadMap::Scatter), "0,8,1,9");
    }

    #[test]
    fn a_pinning_that_a_thread_map_gives_has_its_name() {
        let machine = simulated("opteron-6164x4");
        let named = |list: &[u32]| {
            let point = pinned(&machine, list);
            (point.num_nodes, point.thread_map)
        };
        assert_eq!(named(&[0, 1, 2, 3]), (1, Some(ThreadMap::Compact)));
        assert_eq!(named(&[0, 6, 1, 7]), (2, Some(ThreadMap::Scatter)));
        assert_eq!(named(&[0, 2, 6, 7]), (2, None));
    }

    #[test]
    fn ranks_on_siblings_have_a_name_of_their_own() {
        let machine = simulated("e5-4650x4");
        let named = |list: &[u32]| {
            let point = pinned(&machine, list);
            (point.num_nodes, point.threads_per_core, point.thread_map)
        };
        assert_eq!(named(&[0, 1]), (1, 1, Some(ThreadMap::Compact)));
        assert_eq!(named(&[0, 32]), (1, 2, Some(ThreadMap::Compact)));
        assert_eq!(named(&[0, 8, 32, 40]), (2, 2, Some(ThreadMap::Scatter)));
        assert_eq!(named(&[0, 32, 1]), (1, 2, None));
    }

    proptest! {
        #[test]
        fn a_thread_map_uses_the_given_number_of_nodes_and_no_core_twice_while_there_are_cores(
            machine in 0usize..pinfold_sim::model::builtin_names().count(), threads in 1usize..80, nodes in 1usize..10
        ) {
            let machine = simulated(pinfold_sim::model::builtin_names().nth(machine).unwrap());
            for map in ThreadMap::ALL {
                let pinning = machine.mapped(threads, nodes, map, None);
                prop_assert_eq!(pinning.is_some(), nodes <= machine.nodes().len() && nodes <= threads);
                let Some(pinning) = pinning else { continue };
                let places: Vec<_> = (0..threads).map(|rank| machine.place(pinning.pu(rank)).unwrap()).collect();
                let used: BTreeSet<usize> = places.iter().map(|place| place.node).collect();
                prop_assert_eq!(used.len(), nodes);
                let cores: BTreeSet<usize> = places.iter().map(|place| place.core).collect();
                if threads.div_ceil(nodes) <= machine.nodes()[0].cores {
                    prop_assert_eq!(cores.len(), threads);
                }
            }
        }
    }
}
