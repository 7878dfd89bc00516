//! Placements of threads: what a table says of one, and what a pinning is in the table's words.
//!
//! Many tables name no PU. They have the number of threads and of nodes, `compact` or `scatter`, and perhaps the number
//! of threads on a core. A pinning belongs to such a layout if
//!
//! 1. each thread has its own PU;
//! 2. each node with threads has the same number of them, give or take one;
//! 3. threads with neighbouring ranks are nearly all on one node (`compact`), or nearly never (`scatter`).
//!
//! Which nodes and cores these are makes no difference. So a pinning of the second node is the layout of the first one,
//! by symmetry.

use pinfold_core::{NodeId, ObjectKind, Pinning, PuId, ThreadMap, Topology};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

/// Up to this share of neighbouring ranks may differ from `compact`, and from `scatter`.
const NEARLY: f64 = 0.25;

/// Where threads are, apart from the numbers of nodes and cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Layout {
    pub(super) threads: usize,
    pub(super) nodes: usize,
    /// On one node there is only one map: `Compact`.
    pub(super) map: ThreadMap,
    /// The most threads on one core.
    pub(super) per_core: usize,
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            threads,
            nodes,
            map,
            per_core,
        } = self;
        let plural = |number: usize| if number == 1 { "" } else { "s" };
        write!(
            f,
            "{threads} thread{} on {nodes} node{}",
            plural(*threads),
            plural(*nodes)
        )?;
        if *nodes > 1 {
            write!(f, ", {map}")?;
        }
        if *per_core > 1 {
            write!(f, ", up to {per_core} on a core")?;
        }
        Ok(())
    }
}

/// The placement of the threads in a row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Placement {
    /// The operating system placed this number of threads.
    Unpinned(usize),
    /// A pinning with this layout.
    Layout(Layout),
    /// This pinning, which no layout names.
    Pinned(Pinning),
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unpinned(threads) => write!(f, "{threads} unpinned threads"),
            Self::Layout(layout) => layout.fmt(f),
            Self::Pinned(pinning) => write!(f, "threads on the CPUs {pinning}"),
        }
    }
}

/// The node and the core of each PU.
#[derive(Clone, Debug)]
pub(super) struct Places {
    /// By PU: the positions of its node and of its core.
    of: BTreeMap<PuId, (usize, usize)>,
    /// By position: the node's number.
    nodes: Vec<NodeId>,
    /// By position: the cores of the node.
    cores: Vec<usize>,
}

impl Places {
    /// PUs of no node count as one node, after the others.
    pub(super) fn new(topology: &Topology) -> Self {
        let with_pus: Vec<_> = topology.nodes().iter().filter(|node| !node.pus.is_empty()).collect();
        let cores: Vec<_> = topology.objects_of(ObjectKind::Core).collect();
        let of = topology.object(topology.root()).pus.iter().map(|pu| {
            let node = with_pus.iter().position(|node| node.pus.contains(pu));
            let core = cores.iter().position(|(_, core)| core.pus.contains(pu));
            // A PU outside of cores is one by itself.
            let core = core.unwrap_or(cores.len() + pu.0 as usize);
            (pu, (node.unwrap_or(with_pus.len()), core))
        });
        let of: BTreeMap<PuId, (usize, usize)> = of.collect();
        let number = of.values().map(|&(node, _)| node + 1).max().unwrap_or(0);
        let cores_of = |position: usize| {
            let here = of.values().filter(|&&(node, _)| node == position);
            here.map(|&(_, core)| core).collect::<BTreeSet<_>>().len()
        };
        Self {
            cores: (0..number).map(cores_of).collect(),
            nodes: with_pus.iter().map(|node| node.id).collect(),
            of,
        }
    }

    /// The number of nodes with PUs.
    pub(super) fn nodes(&self) -> usize {
        self.cores.len()
    }

    /// The numbers of the nodes of these PUs; those of no node have none.
    pub(super) fn node_ids(&self, pus: &[PuId]) -> BTreeSet<NodeId> {
        pus.iter().filter_map(|pu| self.node_id(*pu)).collect()
    }

    /// The number of a PU's node.
    pub(super) fn node_id(&self, pu: PuId) -> Option<NodeId> {
        self.nodes.get(self.of.get(&pu)?.0).copied()
    }

    /// The most threads on a core, if threads are evenly on the cores of the first `nodes` nodes.
    pub(super) fn per_core(&self, threads: usize, nodes: usize) -> usize {
        let cores: usize = self.cores.iter().take(nodes).sum();
        threads.div_ceil(cores.max(1)).max(1)
    }

    /// The layout of threads on these PUs, in the order of their ranks; a text says why there is none.
    pub(super) fn layout(&self, pus: &[PuId]) -> Result<Layout, String> {
        let distinct: BTreeSet<PuId> = pus.iter().copied().collect();
        if distinct.len() < pus.len() {
            return Err("threads share CPUs".to_owned());
        }
        let places = pus.iter().map(|pu| {
            let place = self.of.get(pu).copied();
            place.ok_or_else(|| format!("there is no CPU {pu}"))
        });
        let places: Vec<(usize, usize)> = places.collect::<Result<_, _>>()?;
        let mut on_node: BTreeMap<usize, usize> = BTreeMap::new();
        let mut on_core: HashMap<usize, usize> = HashMap::new();
        for &(node, core) in &places {
            *on_node.entry(node).or_default() += 1;
            *on_core.entry(core).or_default() += 1;
        }
        let (least, most) = (on_node.values().min(), on_node.values().max());
        if let (Some(least), Some(most)) = (least, most)
            && most - least > 1
        {
            return Err(format!("nodes have between {least} and {most} threads"));
        }
        let nodes = on_node.len();
        Ok(Layout {
            threads: pus.len(),
            nodes,
            map: map_of(&places, nodes)?,
            per_core: on_core.values().copied().max().unwrap_or(1),
        })
    }
}

/// The map of threads at these places, by how many neighbouring ranks are on one node.
fn map_of(places: &[(usize, usize)], nodes: usize) -> Result<ThreadMap, String> {
    let together = places.windows(2).filter(|pair| pair[0].0 == pair[1].0).count();
    // All neighbours but those at the borders between nodes.
    let most = places.len() - nodes;
    if nodes < 2 || most == 0 {
        return Ok(ThreadMap::Compact);
    }
    let share = together as f64 / most as f64;
    if share >= 1.0 - NEARLY {
        Ok(ThreadMap::Compact)
    } else if share <= NEARLY {
        Ok(ThreadMap::Scatter)
    } else {
        Err("neighbouring threads are neither together nor apart".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::topology;
    use super::*;
    use pinfold_core::map_threads;
    use proptest::prelude::*;

    fn layout(pus: &[u32]) -> Result<String, String> {
        let pus: Vec<PuId> = pus.iter().copied().map(PuId).collect();
        Places::new(&topology()).layout(&pus).map(|layout| layout.to_string())
    }

    #[test]
    fn a_pinning_of_the_second_node_has_the_layout_of_the_first() {
        assert_eq!(layout(&[0, 1]), layout(&[2, 3]));
        assert_eq!(layout(&[0, 1]).unwrap(), "2 threads on 1 node");
    }

    #[test]
    fn siblings_and_maps_are_told_apart() {
        // Two nodes of two cores; the second PU of core N is PU N + 4.
        assert_eq!(layout(&[0, 4]).unwrap(), "2 threads on 1 node, up to 2 on a core");
        assert_eq!(layout(&[0, 1, 2, 3]).unwrap(), "4 threads on 2 nodes, compact");
        assert_eq!(layout(&[0, 2, 1, 3]).unwrap(), "4 threads on 2 nodes, scatter");
    }

    #[test]
    fn what_no_layout_has_is_refused_with_the_reason() {
        for (pus, why) in [
            (vec![0, 0], "share"),
            (vec![0, 1, 4, 2], "between 1 and 3"),
            (vec![0, 1, 2, 4, 5, 6, 3, 7], "neither"),
            (vec![0, 99], "no CPU 99"),
        ] {
            let error = layout(&pus).unwrap_err();
            assert!(error.contains(why), "{pus:?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn a_thread_map_is_recognised(threads in 1..9usize, nodes in 1..3usize, scatter: bool) {
            let map = if scatter { ThreadMap::Scatter } else { ThreadMap::Compact };
            let topology = topology();
            if let Some(pinning) = map_threads(&topology, threads, nodes, map)
                && threads <= 4 * nodes
            {
                let layout = Places::new(&topology).layout(pinning.pus()).unwrap();
                prop_assert_eq!((layout.threads, layout.nodes), (threads, nodes));
                if threads > nodes && nodes > 1 {
                    prop_assert_eq!(layout.map, map);
                }
                prop_assert_eq!(layout.per_core, Places::new(&topology).per_core(threads, nodes));
            }
        }
    }
}
