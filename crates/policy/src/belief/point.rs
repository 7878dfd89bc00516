//! A configuration as shares of its machine, so that configurations of different machines can be compared.

use pinfold_core::{NodeId, PageMapping, Pinning, Prefetchers, PuId, ThreadMap, Topology, cores_by_node};
use std::collections::BTreeSet;
use std::fmt;

/// A configuration: the placement of a program's threads or ranks and pages, and the prefetchers.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The threads over the cores of the machine: 1 is a thread for each core, 2 a thread for each sibling of two.
    pub threads: f64,
    /// The share of the machine's cores that have threads.
    pub cores: f64,
    /// The share of its NUMA nodes that have threads.
    pub nodes: f64,
    /// The share of its last-level-cache domains that have threads; `None` if it is not known.
    pub llcs: Option<f64>,
    /// How neighbouring ranks are spread over the nodes. Compact on one node.
    pub thread_map: ThreadMap,
    /// Where the pages are, apart from numbers of nodes (`Point::page_kind`).
    pub page_map: PageMapping,
    /// The prefetchers that are on. All, if nothing sets them: a machine usually starts so.
    pub prefetch: Prefetchers,
}

impl Point {
    /// The configuration with one thread on each of these PUs, in the order of their ranks; `None` if no PU is allowed
    /// on this machine. `prefetch` is `None` if nothing sets them.
    pub fn of(
        pinning: &Pinning,
        page_map: PageMapping,
        prefetch: Option<Prefetchers>,
        topology: &Topology,
    ) -> Option<Self> {
        let by_node = cores_by_node(topology);
        let cores: Vec<(usize, &Vec<PuId>)> = by_node
            .iter()
            .enumerate()
            .flat_map(|(node, cores)| cores.iter().map(move |core| (node, core)))
            .collect();
        let core_of = |pu: PuId| cores.iter().position(|(_, core)| core.contains(&pu));
        let ranks: Vec<usize> = pinning.pus().iter().filter_map(|&pu| core_of(pu)).collect();
        let used: BTreeSet<usize> = ranks.iter().copied().collect();
        let nodes: BTreeSet<usize> = used.iter().map(|&core| cores[core].0).collect();
        let domains: Vec<_> = topology.llc_domains_by_package().into_iter().flatten().collect();
        let used_domains = domains
            .iter()
            .filter(|(_, pus)| pinning.pus().iter().any(|&pu| pus.contains(pu)));
        let share = |part: usize, all: usize| part as f64 / all.max(1) as f64;
        (!ranks.is_empty()).then(|| Self {
            threads: share(ranks.len(), cores.len()),
            cores: share(used.len(), cores.len()),
            nodes: share(nodes.len(), by_node.len()),
            llcs: Some(share(used_domains.count(), domains.len())),
            thread_map: rank_order(&ranks.iter().map(|&core| cores[core].0).collect::<Vec<_>>()),
            page_map: Self::page_kind(page_map),
            prefetch: prefetch.unwrap_or(Prefetchers::ALL),
        })
    }

    /// A thread on each core of the machine, ranks in turns over the nodes.
    pub fn everywhere(page_map: PageMapping) -> Self {
        Self {
            threads: 1.0,
            cores: 1.0,
            nodes: 1.0,
            llcs: Some(1.0),
            thread_map: ThreadMap::Scatter,
            page_map: Self::page_kind(page_map),
            prefetch: Prefetchers::ALL,
        }
    }

    /// The kind of a page mapping, without the numbers of its nodes: on other machines they are other nodes.
    pub fn page_kind(mapping: PageMapping) -> PageMapping {
        match mapping {
            PageMapping::InterleaveOver(_) | PageMapping::WeightedInterleave(_) => PageMapping::Interleave,
            PageMapping::Single(_) | PageMapping::Preferred(_) => PageMapping::Single(NodeId(0)),
            PageMapping::Bind(nodes) if nodes.only().is_some() => PageMapping::Single(NodeId(0)),
            PageMapping::Bind(_) => PageMapping::FirstTouch,
            other => other,
        }
    }

    /// The mean number of threads on a core that has threads.
    pub fn threads_per_core(&self) -> f64 {
        self.threads / self.cores
    }
}

/// Whether most neighbouring ranks on these nodes are on one node.
fn rank_order(nodes: &[usize]) -> ThreadMap {
    let apart = nodes.windows(2).filter(|pair| pair[0] != pair[1]).count();
    if 2 * apart > nodes.len().saturating_sub(1) {
        ThreadMap::Scatter
    } else {
        ThreadMap::Compact
    }
}

/// `threads for 50 % of the cores, on 25 % of the nodes, compact, with pages local and prefetchers 0000`.
impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| format!("{:.0} %", 100.0 * share);
        write!(f, "threads on {} of the cores", percent(self.cores))?;
        let on_a_core = self.threads_per_core();
        if (on_a_core - 1.0).abs() > 0.01 {
            write!(f, " ({on_a_core:.1} on each)")?;
        }
        write!(
            f,
            " and {} of the nodes, {}, with pages {} and prefetchers {}",
            percent(self.nodes),
            self.thread_map,
            match self.page_map {
                PageMapping::Single(_) => "single".to_owned(),
                other => other.to_string(),
            },
            self.prefetch
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::synthetic;

    fn pinning(pus: impl IntoIterator<Item = u32>) -> Pinning {
        Pinning::new(pus.into_iter().map(PuId).collect()).unwrap()
    }

    fn of(machine: &str, pus: impl IntoIterator<Item = u32>) -> Point {
        Point::of(&pinning(pus), PageMapping::Interleave, None, &synthetic(machine)).unwrap()
    }

    const SMALL: &str = "package:2 numa:1 l3:2 core:2 pu:2";
    const LARGE: &str = "package:4 numa:1 l3:4 core:4 pu:2";

    #[test]
    fn the_same_shares_of_two_machines_are_the_same_point() {
        // All cores of half of the nodes.
        let large = (0..32).map(|core| 2 * core);
        assert_eq!(of(SMALL, [0, 2, 4, 6]), of(LARGE, large));
    }

    #[test]
    fn shares_count_threads_cores_nodes_and_domains() {
        let siblings = of(SMALL, [0, 1, 2, 3]);
        let shares = (siblings.threads, siblings.cores, siblings.nodes, siblings.llcs);
        assert_eq!(shares, (0.5, 0.25, 0.5, Some(0.25)));
        assert!((siblings.threads_per_core() - 2.0).abs() < 1e-12);
        assert_eq!(
            siblings.to_string(),
            "threads on 25 % of the cores (2.0 on each) and 50 % of the nodes, compact, with pages interleave and \
             prefetchers 0000"
        );
    }

    #[test]
    fn ranks_that_go_round_the_nodes_are_scattered() {
        assert_eq!(of(SMALL, [0, 8, 2, 10]).thread_map, ThreadMap::Scatter);
        assert_eq!(of(SMALL, [0, 2, 8, 10]).thread_map, ThreadMap::Compact);
        assert_eq!(of(SMALL, [0]).thread_map, ThreadMap::Compact);
    }

    #[test]
    fn page_maps_are_compared_without_their_nodes() {
        for (mapping, kind) in [
            ("single:3", "single:0"),
            ("preferred:1", "single:0"),
            ("bind:2", "single:0"),
            ("bind:0-1", "first_touch"),
            ("interleave:0-1", "interleave"),
            ("weighted_interleave:0-1", "interleave"),
            ("balance", "balance"),
        ] {
            assert_eq!(Point::page_kind(mapping.parse().unwrap()).to_string(), kind);
        }
    }

    #[test]
    fn a_pinning_outside_of_the_machine_is_no_point() {
        assert_eq!(
            Point::of(&pinning([99]), PageMapping::Local, None, &synthetic(SMALL)),
            None
        );
    }
}
