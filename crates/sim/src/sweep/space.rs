//! The named spaces.
//!
//! `numa` is that of Sánchez Barrera et al. (ICS 2020, section 2.1): threads are spread evenly over 1, 2, 4 … nodes, by
//! both thread maps; pages are `local` or `remote` where one node is used, and else `locality`, `balance`, `interleave`
//! or `single`. First touch is not in it, as it is not in the paper's 18 (footnote 3). For 8 threads on the paper's
//! Sandy Bridge machine that gives its 18 configurations, and with the 16 prefetcher settings its 288, but all of them
//! with 8 threads: the number of threads is the recording's. In the paper it is a part of the configuration; that is
//! the space `ics20`.
//!
//! `placement` is that of Denoyelle, Goglin, Jeannot and Ropars (ICPP 2019, sections 2.1 and 3.1): two thread maps over
//! all nodes, each with first touch and interleave. Their programs have a thread for each core.
//!
//! Two names of the same pinning are one configuration, under the first name: one thread per node is `compact`.

use super::point::Point;
use super::thread_map::map_threads;
use crate::model::{Model, Prefetcher};
use crate::window::{PageMapping, Prefetchers};
use pinfold_core::{NodeId, Pinning, ThreadMap};

/// Each of `pinnings` under first touch with all prefetchers on. With the placements as pinnings, this is the space
/// `threads`.
pub fn pinned(model: &Model, threads: usize, pinnings: impl IntoIterator<Item = Pinning>) -> Vec<Point> {
    let point = |pinning| Point::new(model, threads, pinning, PageMapping::FirstTouch, Prefetchers::ALL);
    distinct(pinnings.into_iter().map(point))
}

/// The space `placement`. The first configuration is the paper's default: compact, with first touch.
pub fn placement(model: &Model, threads: usize) -> Vec<Point> {
    let nodes = model.nodes().min(threads);
    let strategies = ThreadMap::ALL.into_iter().flat_map(|map| {
        let pages = [PageMapping::FirstTouch, PageMapping::Interleave];
        pages.into_iter().map(move |pages| (map, pages))
    });
    distinct(strategies.filter_map(|(map, pages)| {
        let pinning = map_threads(model, threads, nodes, map)?;
        Some(Point::new(model, threads, pinning, pages, Prefetchers::ALL))
    }))
}

/// The space `numa`.
pub fn numa(model: &Model, threads: usize) -> Vec<Point> {
    distinct(
        numa_of(model, threads)
            .into_iter()
            .map(|(pinning, pages)| Point::new(model, threads, pinning, pages, Prefetchers::ALL)),
    )
}

/// The space `numa+prefetch`: `numa` times all settings of the prefetchers that the machine has.
pub fn numa_and_prefetch(model: &Model, threads: usize) -> Vec<Point> {
    distinct(numa_of(model, threads).into_iter().flat_map(|(pinning, pages)| {
        prefetcher_settings(model)
            .into_iter()
            .map(move |setting| Point::new(model, threads, pinning.clone(), pages, setting))
    }))
}

fn numa_of(model: &Model, threads: usize) -> Vec<(Pinning, PageMapping)> {
    let counts = node_counts(model, threads).into_iter();
    counts.flat_map(|nodes| on_nodes(model, threads, nodes)).collect()
}

/// The pinnings and page mappings of `threads` threads on `nodes` nodes. On one node both pinnings are the same.
pub(super) fn on_nodes(model: &Model, threads: usize, nodes: usize) -> Vec<(Pinning, PageMapping)> {
    const ON_ONE_NODE: [PageMapping; 2] = [PageMapping::Local, PageMapping::Remote];
    const ON_SEVERAL: [PageMapping; 4] = [
        PageMapping::Locality,
        PageMapping::Balance,
        PageMapping::Interleave,
        PageMapping::Single(NodeId(0)),
    ];
    let mappings = match (nodes, model.nodes()) {
        // All mappings are the same on one node.
        (1, 1) => &ON_ONE_NODE[..1],
        (1, _) => &ON_ONE_NODE[..],
        _ => &ON_SEVERAL[..],
    };
    let pinnings = ThreadMap::ALL
        .into_iter()
        .filter_map(|map| map_threads(model, threads, nodes, map));
    pinnings
        .flat_map(|pinning| mappings.iter().map(move |&pages| (pinning.clone(), pages)))
        .collect()
}

/// All settings of the machine's prefetchers, the one with all on first. A prefetcher that the machine lacks counts as
/// on.
pub(super) fn prefetcher_settings(model: &Model) -> Vec<Prefetchers> {
    let present = model.prefetch.present.value();
    let absent = |setting: &Prefetchers| {
        Prefetcher::ALL
            .iter()
            .all(|prefetcher| present.0.contains(prefetcher) || setting.enabled(*prefetcher))
    };
    every_prefetcher_setting().into_iter().filter(absent).collect()
}

/// All sixteen settings, as data sets write them, the one with all on first.
pub(super) fn every_prefetcher_setting() -> Vec<Prefetchers> {
    (0..16).filter_map(|bits| format!("{bits:04b}").parse().ok()).collect()
}

/// The numbers of nodes over which `threads` threads can be spread: powers of two, and all nodes. Every used node has a
/// thread, and every thread a core. Where that is not possible, every thread has a PU; where that is not possible
/// either, all nodes are used.
fn node_counts(model: &Model, threads: usize) -> Vec<usize> {
    let nodes = model.nodes();
    let mut counts: Vec<usize> = (0..usize::BITS)
        .map(|bit| 1 << bit)
        .take_while(|&count| count < nodes)
        .collect();
    counts.push(nodes);
    let cores = model.cores() / nodes;
    for room in [cores, cores * model.threads_per_core()] {
        let fitting: Vec<usize> = counts
            .iter()
            .copied()
            .filter(|&count| count <= threads && threads.div_ceil(count) <= room)
            .collect();
        if !fitting.is_empty() {
            return fitting;
        }
    }
    vec![nodes]
}

/// The points without duplicates.
pub fn distinct(points: impl IntoIterator<Item = Point>) -> Vec<Point> {
    let mut seen = std::collections::HashSet::new();
    points
        .into_iter()
        .filter(|point| {
            let configuration = &point.configuration;
            seen.insert((
                configuration.pinning.clone(),
                configuration.pages,
                configuration.prefetchers,
            ))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::point::page_map_name;
    use super::*;
    use crate::model::builtin;
    use pinfold_core::PuId;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_sandy_bridge_machine_has_the_papers_18_and_288_configurations() {
        let model = builtin("e5-4650x4").unwrap();
        assert_eq!(numa(&model, 8).len(), 18);
        assert_eq!(numa_and_prefetch(&model, 8).len(), 288);
    }

    #[test]
    fn a_thread_for_each_core_has_the_four_strategies_and_the_default_first() {
        for machine in [
            "e5-2680v3x2",
            "e5-2650lv4x2",
            "gold-6140x2",
            "epyc-7763x2",
            "xeon-8480x2",
        ] {
            let model = builtin(machine).unwrap();
            let points = placement(&model, model.cores());
            let strategies: Vec<(Option<ThreadMap>, PageMapping)> = points
                .iter()
                .map(|point| (point.thread_map, point.configuration.pages))
                .collect();
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
                "{machine}"
            );
            assert!(points.iter().all(|point| point.num_nodes == model.nodes()), "{machine}");
            let cores: BTreeSet<usize> = (0..model.cores())
                .filter_map(|rank| model.core_of_pu(points[0].configuration.pinning.pu(rank).0))
                .map(|(core, _)| core)
                .collect();
            assert_eq!(cores.len(), model.cores(), "{machine}");
        }
    }

    #[test]
    fn threads_that_fill_the_machine_are_on_all_nodes_as_in_the_paper() {
        let model = builtin("e5-4650x4").unwrap();
        for (threads, nodes) in [(16, vec![2, 4]), (32, vec![4])] {
            let used: BTreeSet<usize> = numa(&model, threads).iter().map(|point| point.num_nodes).collect();
            assert_eq!(used.into_iter().collect::<Vec<_>>(), nodes);
        }
    }

    #[test]
    fn a_machine_with_uniform_memory_has_one_numa_configuration() {
        let points = numa(&builtin("clovertown").unwrap(), 4);
        assert_eq!(points.len(), 1);
        assert_eq!(page_map_name(points[0].configuration.pages), "local");
    }

    #[test]
    fn settings_of_prefetchers_that_the_machine_does_not_have_are_left_out() {
        for name in ["e5-4650x4", "opteron-6164x4"] {
            let model = builtin(name).unwrap();
            let present = model.prefetch.present.value().0.len();
            assert_eq!(prefetcher_settings(&model).len(), 1 << present);
        }
    }

    #[test]
    fn compact_keeps_neighbours_together_and_scatter_distributes_them() {
        let model = builtin("e5-4650x4").unwrap();
        let pinning = |map| map_threads(&model, 4, 2, map).unwrap().to_string();
        assert_eq!(pinning(ThreadMap::Compact), "0,1,8,9");
        assert_eq!(pinning(ThreadMap::Scatter), "0,8,1,9");
    }

    #[test]
    fn more_threads_than_cores_go_to_second_pus_and_more_than_pus_share_them() {
        let model = builtin("e5-4650x4").unwrap();
        for (threads, pus) in [(40, 40), (64, 64), (65, 64)] {
            let points = numa(&model, threads);
            let last = &points.last().unwrap().configuration.pinning;
            let used: BTreeSet<_> = (0..threads).map(|rank| last.pu(rank)).collect();
            assert_eq!(used.len(), pus);
        }
    }

    #[test]
    fn a_pinning_that_a_thread_map_gives_has_its_name() {
        let model = builtin("opteron-6164x4").unwrap();
        let named = |list: &[u32]| {
            let pinning = Pinning::new(list.iter().map(|&pu| PuId(pu)).collect()).unwrap();
            let point = &pinned(&model, list.len(), [pinning])[0];
            (point.num_nodes, point.thread_map)
        };
        assert_eq!(named(&[0, 1, 2, 3]), (1, Some(ThreadMap::Compact)));
        assert_eq!(named(&[0, 6, 1, 7]), (2, Some(ThreadMap::Scatter)));
        assert_eq!(named(&[0, 2, 6, 7]), (2, None));
    }

    proptest! {
        #[test]
        fn a_thread_map_uses_the_given_number_of_nodes_and_no_core_twice_while_there_are_cores(
            machine in 0usize..crate::model::builtin_names().count(), threads in 1usize..80, nodes in 1usize..10
        ) {
            let model = builtin(crate::model::builtin_names().nth(machine).unwrap()).unwrap();
            for map in ThreadMap::ALL {
                let pinning = map_threads(&model, threads, nodes, map);
                prop_assert_eq!(pinning.is_some(), nodes <= model.nodes() && nodes <= threads);
                let Some(pinning) = pinning else { continue };
                let cores: Vec<usize> =
                    (0..threads).map(|rank| model.core_of_pu(pinning.pu(rank).0).unwrap().0).collect();
                let used: BTreeSet<usize> = cores.iter().map(|&core| model.node_of_core(core)).collect();
                prop_assert_eq!(used.len(), nodes);
                if threads.div_ceil(nodes) <= model.cores() / model.nodes() {
                    prop_assert_eq!(cores.iter().collect::<BTreeSet<_>>().len(), threads);
                }
            }
        }
    }
}
