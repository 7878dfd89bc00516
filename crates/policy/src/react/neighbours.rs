//! The neighbours of a configuration differ from it by a single choice. A race tries those of its fastest profile.
//!
//! `pinfold learn` judges races by the same function, through `crates/py`.

use super::model::ModelConfiguration;
use pinfold_core::{NodeId, ObjectKind, PageMapping, Prefetcher, Prefetchers, ThreadMap, Topology};
use std::collections::BTreeSet;

/// The most neighbours that a race tries. Judged nested, the share of the possible gain hardly grows with more of them
/// (`docs/design/react.md`).
pub const MOST_NEIGHBOURS: usize = 16;

/// Where pages may be with threads on several nodes.
const PAGES: [PageMapping; 4] = [
    PageMapping::Locality,
    PageMapping::Balance,
    PageMapping::Interleave,
    PageMapping::Single(NodeId(0)),
];

/// A number of threads, and on how many nodes and cores they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size {
    /// The number of threads.
    pub threads: usize,
    /// The number of their nodes.
    pub nodes: usize,
    /// The threads on the core that has most. `None`: threads share cores only if the nodes have too few of them.
    pub threads_per_core: Option<usize>,
}

/// The sizes that are tried on a machine if the model does not name them, in ascending order: the `known` ones, and the
/// space of react's paper (section 2). It has a quarter, a half and all of the cores on as few nodes as hold them, and
/// a half on two nodes as well.
pub(super) fn sizes(topology: &Topology, known: impl Iterator<Item = Size>) -> Vec<Size> {
    let cores = topology.objects_of(ObjectKind::Core).count();
    let nodes = topology.nodes().iter().filter(|node| !node.pus.is_empty()).count();
    let fewest = |threads: usize| (threads * nodes).div_ceil(cores.max(1));
    let size = |threads, nodes| Size {
        threads,
        nodes,
        threads_per_core: None,
    };
    let parts = [cores / 4, cores / 2, cores].map(|threads| size(threads, fewest(threads)));
    let half_on_two = size(cores / 2, 2.min(nodes));
    let all: BTreeSet<Size> = parts.into_iter().chain([half_on_two]).chain(known).collect();
    all.into_iter().filter(|size| size.threads > 0).collect()
}

/// All configurations for a program with `working` threads: the teams of react's paper, teams with a thread for each PU
/// of the same nodes, and teams of all threads on 1, 2, 4 … nodes. On one node pages are there or next to it; on
/// several, each map of threads is combined with each of `PAGES`; and all of it with each setting of the prefetchers.
pub(super) fn space(topology: &Topology, working: usize) -> Vec<ModelConfiguration> {
    let nodes = topology
        .nodes()
        .iter()
        .filter(|node| !node.pus.is_empty())
        .count()
        .max(1);
    let pus = topology.allowed_pus().len() / nodes;
    let own = sizes(topology, std::iter::empty());
    let shared = own.iter().map(|size| Size {
        threads: size.nodes * pus,
        ..*size
    });
    let all_threads = std::iter::successors(Some(1), |number| Some(2 * number)).take_while(|&number| number <= nodes);
    let all_threads = all_threads.map(|nodes| Size {
        threads: working,
        nodes,
        threads_per_core: None,
    });
    let sizes: BTreeSet<Size> = own.iter().copied().chain(shared).chain(all_threads).collect();
    let settings = Prefetcher::ALL
        .into_iter()
        .fold(vec![Prefetchers::ALL], |settings, prefetcher| {
            let both = settings.into_iter().flat_map(|one| [one, one.toggled(prefetcher)]);
            both.collect()
        });
    let mut all = vec![];
    for size in sizes.into_iter().filter(|size| size.threads <= working) {
        let on_one = [
            (ThreadMap::Compact, PageMapping::Local),
            (ThreadMap::Compact, PageMapping::Remote),
        ];
        let on_several = ThreadMap::ALL
            .into_iter()
            .flat_map(|map| PAGES.map(|pages| (map, pages)));
        let placed = if size.nodes == 1 {
            on_one.to_vec()
        } else {
            on_several.collect()
        };
        for (thread_map, page_map) in placed {
            all.extend(settings.iter().map(|&prefetch| ModelConfiguration {
                threads: size.threads,
                nodes: size.nodes,
                threads_per_core: size.threads_per_core,
                thread_map,
                page_map,
                prefetch,
            }));
        }
    }
    all.retain(|one| one.pinning(topology).is_some());
    all
}

/// The neighbours of a configuration that have a place on this machine, in the order in which they are tried.
pub(super) fn neighbours(of: &ModelConfiguration, sizes: &[Size], topology: &Topology) -> Vec<ModelConfiguration> {
    let mut found = all_neighbours(of, sizes);
    found.retain(|other| other.pinning(topology).is_some());
    found
}

/// The neighbours of a configuration on any machine, in the order in which they are tried: each prefetcher switched,
/// the other map of threads, other sizes, other places of pages. Neighbours that move pages come last.
///
/// Threads on one node have their pages there.
pub fn all_neighbours(of: &ModelConfiguration, sizes: &[Size]) -> Vec<ModelConfiguration> {
    let prefetchers = Prefetcher::ALL.into_iter().map(|prefetcher| ModelConfiguration {
        prefetch: of.prefetch.toggled(prefetcher),
        ..of.clone()
    });
    let thread_maps = ThreadMap::ALL.into_iter().map(|thread_map| ModelConfiguration {
        thread_map,
        ..of.clone()
    });
    let others = sizes.iter().filter(|&&size| size != of.size());
    let sized = others.map(|&size| with_size(of, size));
    let page_maps = PAGES
        .into_iter()
        .map(|page_map| ModelConfiguration { page_map, ..of.clone() });
    let on_several = |other: &ModelConfiguration| other.nodes > 1 && other != of;
    prefetchers
        .chain(thread_maps.filter(on_several))
        .chain(sized)
        .chain(page_maps.filter(on_several))
        .collect()
}

/// The configuration with another number of threads. Its pages are as alike as they can be.
fn with_size(of: &ModelConfiguration, size: Size) -> ModelConfiguration {
    let Size {
        threads,
        nodes,
        threads_per_core,
    } = size;
    let page_map = match (of.nodes, nodes) {
        (_, 1) => PageMapping::Local,
        (1, _) => PageMapping::Locality,
        _ => of.page_map,
    };
    ModelConfiguration {
        threads,
        nodes,
        threads_per_core,
        // One node has only one map.
        thread_map: if nodes == 1 { ThreadMap::Compact } else { of.thread_map },
        page_map,
        prefetch: of.prefetch,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::synthetic;

    /// Two nodes of four cores.
    fn topology() -> Topology {
        synthetic("package:2 numa:1 core:4 pu:1")
    }

    fn size((threads, nodes): (usize, usize)) -> Size {
        Size {
            threads,
            nodes,
            threads_per_core: None,
        }
    }

    fn texts(threads: usize, nodes: usize, page_map: PageMapping, sizes: &[(usize, usize)]) -> Vec<String> {
        let sizes: Vec<Size> = sizes.iter().copied().map(size).collect();
        let of = ModelConfiguration {
            threads,
            nodes,
            threads_per_core: None,
            thread_map: ThreadMap::Compact,
            page_map,
            prefetch: "0100".parse().unwrap(),
        };
        neighbours(&of, &sizes, &topology())
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_neighbour_differs_by_one_choice() {
        let found = texts(8, 2, PageMapping::Balance, &[(4, 1), (8, 2)]);
        let expected = [
            "8 threads on 2 nodes, compact, with pages balance and prefetchers 1100",
            "8 threads on 2 nodes, compact, with pages balance and prefetchers 0000",
            "8 threads on 2 nodes, compact, with pages balance and prefetchers 0110",
            "8 threads on 2 nodes, compact, with pages balance and prefetchers 0101",
            "8 threads on 2 nodes, scatter, with pages balance and prefetchers 0100",
            "4 threads on 1 node, compact, with pages local and prefetchers 0100",
            "8 threads on 2 nodes, compact, with pages locality and prefetchers 0100",
            "8 threads on 2 nodes, compact, with pages interleave and prefetchers 0100",
            "8 threads on 2 nodes, compact, with pages single and prefetchers 0100",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn threads_on_one_node_have_their_pages_there_and_what_has_no_place_is_left_out() {
        let found = texts(4, 1, PageMapping::Local, &[(2, 1), (4, 1), (8, 2), (16, 4)]);
        let expected = [
            "2 threads on 1 node, compact, with pages local and prefetchers 0100",
            "8 threads on 2 nodes, compact, with pages locality and prefetchers 0100",
        ];
        assert_eq!(found[Prefetcher::ALL.len()..], expected);
        let found = texts(8, 2, PageMapping::Balance, &[(8, 2), (16, 4)]);
        assert!(
            found.iter().all(|text| text.starts_with("8 threads on 2 nodes")),
            "{found:?}"
        );
    }

    #[test]
    fn sizes_are_those_of_the_papers_space_and_those_that_are_known() {
        let found = sizes(&topology(), [(3, 2), (8, 2)].map(size).into_iter());
        assert_eq!(found, [(2, 1), (3, 2), (4, 1), (4, 2), (8, 2)].map(size));
    }

    #[test]
    fn the_space_of_two_nodes_has_the_papers_number_of_configurations_and_fewer_for_fewer_threads() {
        let number = |working| space(&topology(), working).len();
        assert_eq!((number(8), number(4), number(2), number(1)), (320, 192, 160, 32));
        let siblings = synthetic("package:2 numa:1 core:4 pu:2");
        let threads: BTreeSet<usize> = space(&siblings, 16).iter().map(|one| one.threads).collect();
        assert_eq!(threads.into_iter().collect::<Vec<_>>(), [2, 4, 8, 16]);
    }

    #[test]
    fn a_size_with_siblings_is_a_neighbour_of_its_own() {
        let machine = synthetic("package:2 numa:1 core:4 pu:2");
        let with = |threads, nodes, most| Size {
            threads,
            nodes,
            threads_per_core: Some(most),
        };
        let of = ModelConfiguration {
            threads: 4,
            nodes: 1,
            threads_per_core: Some(1),
            thread_map: ThreadMap::Compact,
            page_map: PageMapping::Local,
            prefetch: "0000".parse().unwrap(),
        };
        let sizes = [
            with(4, 1, 1),
            with(4, 1, 2),
            with(8, 1, 2),
            with(4, 1, 3),
            with(16, 2, 2),
        ];
        let found = neighbours(&of, &sizes, &machine);
        let sized = &found[Prefetcher::ALL.len()..];
        let pinnings: Vec<String> = sized
            .iter()
            .map(|one| one.pinning(&machine).unwrap().to_string())
            .collect();
        assert_eq!(
            pinnings,
            ["0,2,1,3", "0,2,4,6,1,3,5,7", "0,2,4,6,1,3,5,7,8,10,12,14,9,11,13,15"]
        );
        assert_eq!(
            sized[1].to_string(),
            "8 threads on 1 node, 2 on a core, compact, with pages local and prefetchers 0000"
        );
    }
}
