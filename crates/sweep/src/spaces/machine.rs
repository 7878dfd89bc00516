//! The machine of a space, simulated or at hand: a topology, and the prefetchers that can be set.

use pinfold_core::memory::main_memory;
use pinfold_core::{NodeId, PageMapping, Pinning, Prefetcher, Prefetchers, PuId, ThreadMap, Topology};
use pinfold_core::{cores_by_node, map_threads, map_threads_per_core};
use pinfold_sim::model::Model;
use std::collections::BTreeMap;

/// What a machine offers to configurations.
#[derive(Clone, Debug)]
pub struct SpaceMachine {
    topology: Topology,
    /// The prefetchers that can be set, and why others cannot be.
    prefetchers: Vec<Prefetcher>,
    why_not_others: String,
    /// By node with PUs that may be used: the number of cores, and of PUs.
    nodes: Vec<NodeSize>,
    places: BTreeMap<PuId, Place>,
}

/// The size of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeSize {
    pub(super) cores: usize,
    pub(super) pus: usize,
}

/// The place of a PU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The position of its node among the nodes that have PUs that may be used.
    pub(super) node: usize,
    /// The position of its core.
    pub(super) core: usize,
}

impl SpaceMachine {
    /// A machine. `why_not_others` says why prefetchers that are not listed cannot be set, as in `the MSRs cannot be
    /// written`.
    pub fn new(topology: Topology, prefetchers: &[Prefetcher], why_not_others: impl Into<String>) -> Self {
        let by_node = cores_by_node(&topology);
        let size = |cores: &Vec<Vec<PuId>>| NodeSize {
            cores: cores.len(),
            pus: cores.iter().map(Vec::len).sum(),
        };
        let nodes = by_node.iter().map(size).collect();
        let cores = by_node
            .iter()
            .enumerate()
            .flat_map(|(node, cores)| cores.iter().map(move |pus| (node, pus)));
        let places = cores
            .enumerate()
            .flat_map(|(core, (node, pus))| pus.iter().map(move |&pu| (pu, Place { node, core })))
            .collect();
        Self {
            topology,
            prefetchers: prefetchers.to_vec(),
            why_not_others: why_not_others.into(),
            nodes,
            places,
        }
    }

    /// A simulated machine.
    pub fn of_model(model: &Model) -> Self {
        let present = &model.prefetch.present.value().0;
        Self::new(model.topology(), present, format!("{} has no others", model.name))
    }

    /// Its topology.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        self.topology.name()
    }

    /// The sizes of the nodes that have PUs that may be used.
    pub(super) fn nodes(&self) -> &[NodeSize] {
        &self.nodes
    }

    /// The number of cores of these nodes together.
    pub(super) fn cores(&self) -> usize {
        self.nodes.iter().map(|node| node.cores).sum()
    }

    /// The cores and PUs of the first nodes, in words.
    pub(super) fn cores_and_pus(&self, nodes: usize) -> String {
        let cores: usize = self.nodes[..nodes].iter().map(|node| node.cores).sum();
        format!("{cores} cores with {} CPUs", self.pus_of(nodes))
    }

    /// The number of PUs of the first nodes.
    pub(super) fn pus_of(&self, nodes: usize) -> usize {
        self.nodes[..nodes].iter().map(|node| node.pus).sum()
    }

    /// Whether a core has several PUs.
    pub(super) fn has_siblings(&self) -> bool {
        self.pus_of(self.nodes.len()) > self.cores()
    }

    /// The smallest number of nodes whose cores are enough for `threads` threads with a core each; `None` if there are
    /// too few cores.
    pub(super) fn fewest_nodes(&self, threads: usize) -> Option<usize> {
        (1..=self.nodes.len()).find(|&count| {
            let cores: usize = self.nodes[..count].iter().map(|node| node.cores).sum();
            cores >= threads
        })
    }

    /// The place of a PU; `None` for a PU that may not be used.
    pub(super) fn place(&self, pu: PuId) -> Option<Place> {
        self.places.get(&pu).copied()
    }

    /// The PUs that may be used, as a list.
    pub(super) fn pus(&self) -> String {
        self.topology.allowed_pus().to_string()
    }

    /// `threads` threads on the first `nodes` nodes. With a number of threads per core, that many are on the core that
    /// has most. `None` if that is not possible.
    pub(super) fn mapped(
        &self,
        threads: usize,
        nodes: usize,
        map: ThreadMap,
        threads_per_core: Option<usize>,
    ) -> Option<Pinning> {
        match threads_per_core {
            None => map_threads(&self.topology, threads, nodes, map),
            Some(most) => map_threads_per_core(&self.topology, threads, nodes, map, most),
        }
    }

    /// The number of nodes between which pages can be chosen.
    pub(super) fn memory_nodes(&self) -> usize {
        main_memory(&self.topology).len()
    }

    /// The page mapping with the machine's own node: `single` is the node of the first thread, or a node of the main
    /// memory if that one has none.
    pub(super) fn own(&self, pages: PageMapping, first: PuId) -> PageMapping {
        let PageMapping::Single(_) = pages else { return pages };
        let memory = main_memory(&self.topology);
        let nodes = self.topology.nodes().iter();
        let mut own = nodes.filter(|node| node.pus.contains(first)).map(|node| node.id);
        let own = own.find(|&node| memory.contains(node));
        PageMapping::Single(own.or_else(|| memory.first()).unwrap_or(NodeId(0)))
    }

    /// All settings of the prefetchers, the one with all on first. A prefetcher that cannot be set counts as on.
    pub(super) fn prefetcher_settings(&self) -> Vec<Prefetchers> {
        let mut settings: Vec<Prefetchers> = vec![];
        for setting in every_prefetcher_setting() {
            let setting = self.possible(setting);
            if !settings.contains(&setting) {
                settings.push(setting);
            }
        }
        settings
    }

    /// A setting of the prefetchers, with those on that cannot be set.
    pub(super) fn possible(&self, setting: Prefetchers) -> Prefetchers {
        let on = |prefetcher: &Prefetcher| setting.enabled(*prefetcher) || !self.prefetchers.contains(prefetcher);
        Prefetcher::ALL.into_iter().filter(on).collect()
    }

    /// Why some settings of prefetchers are left out; `None` if all are possible.
    pub(super) fn prefetchers_left_out(&self) -> Option<String> {
        let which = match Prefetcher::ALL
            .iter()
            .filter(|one| self.prefetchers.contains(one))
            .count()
        {
            4 => return None,
            0 => "settings of prefetchers are left out".to_owned(),
            some => format!("settings of {} of the four prefetchers are left out", 4 - some),
        };
        Some(format!("{which}: {}", self.why_not_others))
    }

    /// Why page mappings are left out; `None` if there are several nodes.
    pub(super) fn page_maps_left_out(&self) -> Option<String> {
        let which = "page mappings but one are left out";
        match self.memory_nodes() {
            0 => Some(format!("{which}: the NUMA nodes of {} are not known", self.name())),
            1 => Some(format!("{which}: {} has one NUMA node with main memory", self.name())),
            _ => None,
        }
    }
}

/// All sixteen settings, as data sets write them, the one with all on first.
pub(super) fn every_prefetcher_setting() -> Vec<Prefetchers> {
    (0..16).filter_map(|bits| format!("{bits:04b}").parse().ok()).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use pinfold_core::{NodeId, NumaNode, ObjectKind, PuSet, TopologyBuilder};
    use pinfold_sim::model::builtin;

    pub(in super::super) fn simulated(name: &str) -> SpaceMachine {
        SpaceMachine::of_model(&builtin(name).unwrap())
    }

    /// A machine at hand without MSRs. Each node has cores with these numbers of PUs; a node without cores has memory
    /// only.
    pub(in super::super) fn uneven(nodes: &[&[usize]]) -> SpaceMachine {
        let mut builder = TopologyBuilder::new("uneven");
        let mut next = 0;
        for (node, cores) in nodes.iter().enumerate() {
            let number = u32::try_from(node).unwrap();
            let package = builder.object(builder.root(), ObjectKind::Package, Some(number));
            let mut pus = PuSet::new();
            for &siblings in *cores {
                let core = builder.object(package, ObjectKind::Core, None);
                for _ in 0..siblings {
                    builder.pu(core, PuId(next));
                    pus.insert(PuId(next));
                    next += 1;
                }
            }
            builder.node(NumaNode {
                id: NodeId(number),
                attached_to: package,
                pus,
                memory: Some(1 << 30),
                subtype: None,
            });
        }
        SpaceMachine::new(builder.build_all().unwrap(), &[], "the MSRs cannot be written")
    }

    #[test]
    fn nodes_without_cpus_have_no_threads() {
        let machine = uneven(&[&[2, 2], &[], &[1]]);
        let sizes: Vec<(usize, usize)> = machine.nodes().iter().map(|node| (node.cores, node.pus)).collect();
        assert_eq!(sizes, [(2, 4), (1, 1)]);
        assert_eq!(
            (machine.cores(), machine.fewest_nodes(3), machine.fewest_nodes(4)),
            (3, Some(2), None)
        );
        assert_eq!(machine.place(PuId(4)), Some(Place { node: 1, core: 2 }));
        assert_eq!(machine.place(PuId(5)), None);
    }

    #[test]
    fn only_pus_that_may_be_used_count() {
        let all = uneven(&[&[2, 2], &[2, 2]]);
        let some: PuSet = [PuId(2), PuId(3), PuId(4)].into_iter().collect();
        let machine = SpaceMachine::new(all.topology().clone().restricted_to(&some).unwrap(), &[], "");
        assert_eq!((machine.cores(), machine.pus().as_str()), (2, "2-4"));
        assert_eq!(
            machine.mapped(2, 2, ThreadMap::Compact, None).unwrap().to_string(),
            "2,4"
        );
    }

    #[test]
    fn settings_of_prefetchers_that_the_machine_does_not_have_are_left_out() {
        for name in ["e5-4650x4", "opteron-6164x4"] {
            let present = builtin(name).unwrap().prefetch.present.value().0.len();
            let machine = simulated(name);
            assert_eq!(machine.prefetcher_settings().len(), 1 << present);
            assert_eq!(machine.prefetchers_left_out().is_some(), present < 4);
        }
        let machine = uneven(&[&[1]]);
        assert_eq!(machine.prefetcher_settings(), [Prefetchers::ALL]);
        assert_eq!(
            machine.prefetchers_left_out().unwrap(),
            "settings of prefetchers are left out: the MSRs cannot be written"
        );
    }

    #[test]
    fn single_is_the_node_of_the_first_thread_if_it_has_memory() {
        let machine = uneven(&[&[1], &[1]]);
        let single = PageMapping::Single(NodeId(7));
        assert_eq!(machine.own(single, PuId(1)), PageMapping::Single(NodeId(1)));
        assert_eq!(machine.own(PageMapping::Balance, PuId(1)), PageMapping::Balance);
    }
}
