//! `placement`: the four strategies of Denoyelle, Goglin, Jeannot and Ropars (ICPP 2019, sections 2.1 and 3.1): two
//! thread maps over all nodes, each with first touch and interleave. Their programs have a thread for each core.
//!
//! Two names of the same pinning are one configuration, under the first name: one thread per node is `compact`.

use super::{Request, Selection, Space};
use pinfold_core::{PageMapping, Prefetchers, ThreadMap};

pub(super) const SPACE: Space = Space {
    name: "placement",
    about: "compact and scatter over all nodes, each with first touch and interleave",
    limited: false,
    thread_counts: None,
    points: |request| Ok(placement(request)),
};

/// The first configuration is the paper's default: compact, with first touch.
fn placement(request: &Request<'_>) -> Selection {
    let (machine, threads) = (request.machine(), request.threads());
    let nodes = machine.nodes().len().min(threads);
    let pages = [PageMapping::FirstTouch, PageMapping::Interleave];
    // Both are the same on one node.
    let pages = if machine.memory_nodes() > 1 {
        &pages[..]
    } else {
        &pages[..1]
    };
    let strategies = ThreadMap::ALL
        .into_iter()
        .flat_map(|map| pages.iter().map(move |&pages| (map, pages)));
    Selection::of(strategies.filter_map(|(map, pages)| {
        let pinning = machine.mapped(threads, nodes, map, None)?;
        Some(request.points.point(pinning, pages, Prefetchers::ALL))
    }))
    .without(machine.page_maps_left_out())
}

#[cfg(test)]
mod tests {
    use super::super::machine::tests::simulated;
    use super::super::point::Points;
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_thread_for_each_core_has_the_four_strategies_and_the_default_first() {
        for name in [
            "e5-2680v3x2",
            "e5-2650lv4x2",
            "gold-6140x2",
            "gold-6142x2",
            "epyc-7763x2",
            "xeon-8480x2",
        ] {
            let machine = simulated(name);
            let cores = machine.cores();
            let points = placement(&Request {
                points: Points::new(&machine, cores),
                limit: None,
            })
            .points;
            let strategies: Vec<(Option<ThreadMap>, PageMapping)> =
                points.iter().map(|point| (point.thread_map, point.pages)).collect();
            let (compact, scatter) = (Some(ThreadMap::Compact), Some(ThreadMap::Scatter));
            let (first_touch, interleave) = (PageMapping::FirstTouch, PageMapping::Interleave);
            assert_eq!(
                strategies,
                [
                    (compact, first_touch),
                    (compact, interleave),
                    (scatter, first_touch),
                    (scatter, interleave)
                ],
                "{name}"
            );
            assert!(
                points.iter().all(|point| point.num_nodes == machine.nodes().len()),
                "{name}"
            );
            let used: BTreeSet<usize> = (0..cores)
                .filter_map(|rank| machine.place(points[0].pinning.pu(rank)))
                .map(|place| place.core)
                .collect();
            assert_eq!(used.len(), cores, "{name}");
        }
    }
}
