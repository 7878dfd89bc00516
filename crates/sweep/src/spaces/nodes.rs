//! Threads and pages on a number of nodes, as in Sánchez Barrera et al. (ICS 2020, section 2.1): both thread maps, and
//! pages `local` or `remote` where one node is used, and else `locality`, `balance`, `interleave` or `single`. First
//! touch is not among them, as it is not in the paper's 18 configurations (footnote 3).

use super::point::Points;
use pinfold_core::{NodeId, PageMapping, Pinning, ThreadMap};

/// The pinnings and page mappings of the threads on `nodes` nodes. On one node both pinnings are the same.
pub(super) fn on_nodes(points: &Points<'_>, nodes: usize) -> Vec<(Pinning, PageMapping)> {
    const ON_ONE_NODE: [PageMapping; 2] = [PageMapping::Local, PageMapping::Remote];
    const ON_SEVERAL: [PageMapping; 4] = [
        PageMapping::Locality,
        PageMapping::Balance,
        PageMapping::Interleave,
        PageMapping::Single(NodeId(0)),
    ];
    let (machine, threads) = (points.machine, points.threads);
    let mappings = match (nodes, machine.memory_nodes()) {
        // All mappings are the same on one node.
        (_, 0 | 1) => &ON_ONE_NODE[..1],
        (1, _) => &ON_ONE_NODE[..],
        _ => &ON_SEVERAL[..],
    };
    let pinnings = ThreadMap::ALL
        .into_iter()
        .filter_map(|map| machine.mapped(threads, nodes, map, None));
    pinnings
        .flat_map(|pinning| mappings.iter().map(move |&pages| (pinning.clone(), pages)))
        .collect()
}
