//! The configurations among which a belief plans trials.

use super::model::ModelConfiguration;
use pinfold_core::{NodeId, ObjectKind, PageMapping, Prefetcher, Prefetchers, ThreadMap, Topology};
use std::collections::BTreeSet;

/// Where pages may be with threads on several nodes.
const PAGES: [PageMapping; 4] = [
    PageMapping::Locality,
    PageMapping::Balance,
    PageMapping::Interleave,
    PageMapping::Single(NodeId(0)),
];

/// A number of threads, and on how many nodes they are. They share cores only if the nodes have too few of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Size {
    threads: usize,
    nodes: usize,
}

/// The sizes of react's paper (section 2), in ascending order: a quarter, a half and all of the cores on as few nodes as
/// hold them, and a half on two nodes as well.
fn sizes(topology: &Topology, nodes: usize) -> BTreeSet<Size> {
    let cores = topology.objects_of(ObjectKind::Core).count();
    let fewest = |threads: usize| (threads * nodes).div_ceil(cores.max(1));
    let size = |threads, nodes| Size { threads, nodes };
    let parts = [cores / 4, cores / 2, cores].map(|threads| size(threads, fewest(threads)));
    let half_on_two = size(cores / 2, 2.min(nodes));
    let all = parts.into_iter().chain([half_on_two]);
    all.filter(|size| size.threads > 0).collect()
}

/// All configurations for a program with `working` threads: the teams of react's paper, teams with a thread for each PU
/// of the same nodes, and teams of all threads on 1, 2, 4 … nodes. On one node pages are there or next to it; on
/// several, each map of threads is combined with each of `PAGES`; and all of it with each setting of the prefetchers.
pub(super) fn space(topology: &Topology, working: usize) -> Vec<ModelConfiguration> {
    let nodes = topology.nodes_with_pus().count().max(1);
    let pus = topology.allowed_pus().len() / nodes;
    let own = sizes(topology, nodes);
    let shared = own.iter().map(|size| Size {
        threads: size.nodes * pus,
        nodes: size.nodes,
    });
    let all_threads = std::iter::successors(Some(1), |number| Some(2 * number)).take_while(|&number| number <= nodes);
    let all_threads = all_threads.map(|nodes| Size {
        threads: working,
        nodes,
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
                threads_per_core: None,
                thread_map,
                page_map,
                prefetch,
            }));
        }
    }
    all.retain(|one| one.pinning(topology).is_some());
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::synthetic;

    /// Two nodes of four cores.
    fn topology() -> Topology {
        synthetic("package:2 numa:1 core:4 pu:1")
    }

    #[test]
    fn the_space_of_two_nodes_has_the_papers_number_of_configurations_and_fewer_for_fewer_threads() {
        let number = |working| space(&topology(), working).len();
        assert_eq!((number(8), number(4), number(2), number(1)), (320, 192, 160, 32));
        let siblings = synthetic("package:2 numa:1 core:4 pu:2");
        let threads: BTreeSet<usize> = space(&siblings, 16).iter().map(|one| one.threads).collect();
        assert_eq!(threads.into_iter().collect::<Vec<_>>(), [2, 4, 8, 16]);
    }
}
