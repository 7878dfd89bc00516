//! `numa` and `numa+prefetch`: nodes, thread maps and page mappings, alone and with all prefetcher settings.
//!
//! Threads are spread evenly over 1, 2, 4 … nodes (`nodes`). For 8 threads on the Sandy Bridge machine of Sánchez
//! Barrera et al. (ICS 2020, section 2.1) that gives the paper's 18 configurations, and with the 16 prefetcher settings
//! its 288, but all of them with 8 threads: the number of threads is the recording's. In the paper it is a part of the
//! configuration; that is the space `ics20`.

use super::nodes::on_nodes;
use super::point::Points;
use super::{Request, Selection, Space};
use pinfold_core::{PageMapping, Pinning, Prefetchers, ThreadMap};

pub(super) const NUMA: Space = Space {
    name: "numa",
    about: "nodes, thread maps and page mappings",
    limited: false,
    thread_counts: None,
    points: |request| Ok(numa(request)),
};

pub(super) const NUMA_AND_PREFETCH: Space = Space {
    name: "numa+prefetch",
    about: "the configurations of numa with all prefetcher settings, with the recording's number of threads",
    limited: false,
    thread_counts: None,
    points: |request| Ok(numa_and_prefetch(request)),
};

fn numa(request: &Request<'_>) -> Selection {
    let points = &request.points;
    let placed = placed(points).into_iter();
    Selection::of(placed.map(|(pinning, pages)| points.point(pinning, pages, Prefetchers::ALL)))
        .without(points.machine.page_maps_left_out())
}

/// `numa` times all settings of the prefetchers.
fn numa_and_prefetch(request: &Request<'_>) -> Selection {
    let points = &request.points;
    let settings = points.machine.prefetcher_settings();
    let all = placed(points).into_iter().flat_map(|(pinning, pages)| {
        let set = settings
            .iter()
            .map(|&setting| points.point(pinning.clone(), pages, setting));
        set.collect::<Vec<_>>()
    });
    Selection::of(all)
        .without(points.machine.page_maps_left_out())
        .without(points.machine.prefetchers_left_out())
}

fn placed(points: &Points<'_>) -> Vec<(Pinning, PageMapping)> {
    let counts = node_counts(points).into_iter();
    counts.flat_map(|nodes| on_nodes(points, nodes)).collect()
}

/// The numbers of nodes over which the threads can be spread: powers of two, and all nodes. Every used node has a
/// thread, and every thread a core. Where that is not possible, every thread has a PU; where that is not possible
/// either, all nodes are used.
fn node_counts(points: &Points<'_>) -> Vec<usize> {
    let (machine, threads) = (points.machine, points.threads);
    let nodes = machine.nodes().len();
    let mut counts: Vec<usize> = (0..usize::BITS)
        .map(|bit| 1 << bit)
        .take_while(|&count| count < nodes)
        .collect();
    counts.push(nodes);
    counts.retain(|&count| count <= threads);
    let own_core = |&count: &usize| machine.mapped(threads, count, ThreadMap::Compact, Some(1)).is_some();
    let own_pu = |&count: &usize| machine.pus_of(count) >= threads;
    let some = |counts: Vec<usize>| Some(counts).filter(|counts| !counts.is_empty());
    some(counts.iter().copied().filter(own_core).collect())
        .or_else(|| some(counts.iter().copied().filter(own_pu).collect()))
        .unwrap_or_else(|| vec![nodes])
}

#[cfg(test)]
mod tests {
    use super::super::machine::tests::{simulated, uneven};
    use super::super::page_map_name;
    use super::super::point::Point;
    use super::*;
    use crate::spaces::SpaceMachine;
    use std::collections::BTreeSet;

    fn of(space: fn(&Request<'_>) -> Selection, machine: &SpaceMachine, threads: usize) -> Selection {
        space(&Request {
            points: Points::new(machine, threads),
            limit: None,
        })
    }

    fn numa_of(machine: &SpaceMachine, threads: usize) -> Vec<Point> {
        of(numa, machine, threads).points
    }

    #[test]
    fn the_sandy_bridge_machine_has_the_papers_18_and_288_configurations() {
        let machine = simulated("e5-4650x4");
        assert_eq!(numa_of(&machine, 8).len(), 18);
        assert_eq!(of(numa_and_prefetch, &machine, 8).points.len(), 288);
    }

    #[test]
    fn threads_that_fill_the_machine_are_on_all_nodes_as_in_the_paper() {
        let machine = simulated("e5-4650x4");
        for (threads, nodes) in [(16, vec![2, 4]), (32, vec![4])] {
            let used: BTreeSet<usize> = numa_of(&machine, threads).iter().map(|point| point.num_nodes).collect();
            assert_eq!(used.into_iter().collect::<Vec<_>>(), nodes);
        }
    }

    #[test]
    fn a_machine_with_uniform_memory_has_one_numa_configuration() {
        let found = of(numa, &simulated("clovertown"), 4);
        assert_eq!(found.points.len(), 1);
        assert_eq!(page_map_name(found.points[0].pages), "local");
        assert!(found.left_out[0].contains("one NUMA node"), "{:?}", found.left_out);
    }

    #[test]
    fn more_threads_than_cores_go_to_second_pus_and_more_than_pus_share_them() {
        let machine = simulated("e5-4650x4");
        for (threads, pus, on_core) in [(40, 40, 2), (64, 64, 2), (65, 64, 3)] {
            let points = numa_of(&machine, threads);
            let last = points.last().unwrap();
            let used: BTreeSet<_> = (0..threads).map(|rank| last.pinning.pu(rank)).collect();
            assert_eq!((used.len(), last.threads_per_core), (pus, on_core));
        }
    }

    #[test]
    fn nodes_without_cpus_and_nodes_of_different_sizes_have_sensible_configurations() {
        let machine = uneven(&[&[2, 2], &[], &[2, 2, 2, 2]]);
        let shown = |threads| -> BTreeSet<String> {
            let points = numa_of(&machine, threads);
            points.iter().map(|point| point.pinning.to_string()).collect()
        };
        assert_eq!(shown(2), BTreeSet::from(["0,2".to_owned(), "0,4".to_owned()]));
        // One node has too few cores for four threads.
        assert_eq!(shown(4), BTreeSet::from(["0,2,4,6".to_owned(), "0,4,2,6".to_owned()]));
        // Each thread has a core, so the second node has more threads.
        assert_eq!(shown(6).len(), 2);
        assert!(numa_of(&machine, 6).iter().all(|point| point.threads_per_core == 1));
    }
}
