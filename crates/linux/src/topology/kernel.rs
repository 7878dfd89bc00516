//! The NUMA nodes in the kernel's `/sys`: the CPUs of each, which are disjoint, and its memory tier.
//! hwloc looks for each node's place in the tree of packages and caches. It gives other nodes' CPUs to a node without
//! CPUs or without a place. The kernel's lists are disjoint, and numactl and the scheduler use them.

use pinfold_core::{NodeId, NumaNode, PuId, PuSet, digits};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The longest list of CPUs that is read. A list of every second of 65536 CPUs has some 400 KB.
const LONGEST_LIST: u64 = 1 << 19;

/// The nodes of a `/sys`.
#[derive(Debug, Default)]
pub(super) struct KernelNodes {
    pus: BTreeMap<NodeId, PuSet>,
    tiers: BTreeMap<NodeId, u32>,
}

impl KernelNodes {
    /// The nodes of the file system at `root`. Empty if it lists none.
    pub(super) fn read(root: &Path) -> Self {
        let nodes = numbered(&root.join("sys/devices/system/node"), "node");
        let pus = nodes
            .into_iter()
            .filter_map(|(number, folder)| Some((NodeId(number), pus(&folder)?)));
        let tiers = numbered(&root.join("sys/devices/virtual/memory_tiering"), "memory_tier");
        let tiers = tiers.into_iter().flat_map(|(tier, folder)| {
            let nodes = list(&folder.join("nodelist")).unwrap_or_default();
            nodes.iter().map(|node| (NodeId(node.0), tier)).collect::<Vec<_>>()
        });
        Self {
            pus: pus.collect(),
            tiers: tiers.collect(),
        }
    }

    /// Gives each node the kernel's CPUs, if the nodes and CPUs are the kernel's. A description may be declared to be
    /// of this machine (`HWLOC_THISSYSTEM=1`) and have others.
    pub(super) fn give_pus(&self, nodes: &mut [NumaNode], all: &PuSet) {
        let known: PuSet = self.pus.values().flat_map(PuSet::iter).collect();
        if !all.is_subset(&known) || !nodes.iter().all(|node| self.pus.contains_key(&node.id)) {
            return;
        }
        for node in nodes {
            node.pus = self.pus[&node.id].intersection(all);
        }
    }

    /// Names the memory of nodes without CPUs by the kernel's memory tiers (Linux 6.1). All nodes with CPUs are in the
    /// first tiers, and memory in one of these is DRAM unless hwloc has another name for it. A node of another tier
    /// gets that tier's name.
    pub(super) fn name_by_tier(&self, nodes: &mut [NumaNode]) {
        let with_cpus = nodes.iter().filter(|node| !node.pus.is_empty());
        let first: BTreeSet<u32> = with_cpus.filter_map(|node| self.tiers.get(&node.id).copied()).collect();
        if first.is_empty() {
            return;
        }
        for node in nodes.iter_mut().filter(|node| node.pus.is_empty()) {
            match self.tiers.get(&node.id) {
                Some(tier) if first.contains(tier) => {
                    node.subtype.get_or_insert_with(|| "DRAM".to_owned());
                }
                Some(tier) if node.subtype.as_deref().is_none_or(|subtype| subtype == "DRAM") => {
                    node.subtype = Some(format!("memory_tier{tier}"));
                }
                _ => {}
            }
        }
    }
}

/// The folders in `parent` whose names are `name` and a number, with that number.
pub(super) fn numbered(parent: &Path, name: &str) -> Vec<(u32, PathBuf)> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let numbered = entries.filter_map(|entry| {
        let number = digits::decimal(entry.file_name().to_str()?.strip_prefix(name)?)?;
        Some((number, entry.path()))
    });
    numbered.collect()
}

/// The first bytes of a file, without surrounding blanks. `None` if it cannot be read.
pub(super) fn text(file: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(file)
        .ok()?
        .take(LONGEST_LIST)
        .read_to_string(&mut text)
        .ok()?;
    Some(text.trim().to_owned())
}

/// A list of CPUs or of nodes.
pub(super) fn list(file: &Path) -> Option<PuSet> {
    text(file)?.parse().ok()
}

/// The CPUs of a node. Copies of older machines have only the mask.
fn pus(node: &Path) -> Option<PuSet> {
    list(&node.join("cpulist")).or_else(|| mask(&text(&node.join("cpumap"))?))
}

/// The CPUs of a mask: words of 32 bits in hexadecimal, the highest first, separated by commas.
fn mask(text: &str) -> Option<PuSet> {
    let mut pus = PuSet::new();
    for (position, word) in (0u32..).zip(text.rsplit(',')) {
        let word = u32::from_str_radix(word, 16).ok()?;
        for bit in (0..u32::BITS).filter(|bit| word >> bit & 1 == 1) {
            let pu = PuId(position.checked_mul(u32::BITS)? + bit);
            if pu > PuSet::HIGHEST {
                return None;
            }
            pus.insert(pu);
        }
    }
    Some(pus)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::ObjectId;

    fn node(id: u32, pus: &str, subtype: Option<&str>) -> NumaNode {
        NumaNode {
            id: NodeId(id),
            attached_to: ObjectId(0),
            pus: pus.parse().unwrap(),
            memory: Some(1 << 30),
            subtype: subtype.map(str::to_owned),
        }
    }

    fn kernel(files: &[(&str, &str)]) -> KernelNodes {
        let root = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let file = root.path().join("sys/devices").join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, format!("{text}\n")).unwrap();
        }
        KernelNodes::read(root.path())
    }

    #[test]
    fn each_node_has_the_cpus_of_the_kernels_list_or_mask() {
        let kernel = kernel(&[
            ("system/node/node0/cpulist", "0-1,4-5"),
            ("system/node/node1/cpumap", "00000000,000000cc"),
            ("system/node/node2/cpulist", ""),
        ]);
        let mut nodes = [node(0, "0-7", None), node(1, "0-7", None), node(2, "0-7", None)];
        kernel.give_pus(&mut nodes, &"0-7".parse().unwrap());
        assert_eq!(
            nodes.each_ref().map(|node| node.pus.to_string()),
            ["0-1,4-5", "2-3,6-7", ""]
        );
    }

    #[test]
    fn a_description_with_other_nodes_or_cpus_keeps_its_own() {
        let kernel = kernel(&[("system/node/node0/cpulist", "0-1")]);
        let mut others = [node(0, "0", None), node(1, "1", None)];
        kernel.give_pus(&mut others, &"0-1".parse().unwrap());
        assert_eq!(others.each_ref().map(|node| node.pus.to_string()), ["0", "1"]);
        let mut more = [node(0, "0-3", None)];
        kernel.give_pus(&mut more, &"0-3".parse().unwrap());
        assert_eq!(more[0].pus.to_string(), "0-3");
    }

    #[test]
    fn memory_without_cpus_is_named_by_its_tier() {
        let kernel = kernel(&[
            ("virtual/memory_tiering/memory_tier4/nodelist", "0-1,4-5"),
            ("virtual/memory_tiering/memory_tier22/nodelist", "2-3"),
        ]);
        let mut nodes = [
            node(0, "0-3", None),
            node(1, "", None),
            node(2, "", Some("DRAM")),
            node(3, "", Some("NVM")),
            node(4, "", Some("GPUMemory")),
            node(6, "", None),
        ];
        kernel.name_by_tier(&mut nodes);
        let names = nodes.each_ref().map(|node| node.subtype.as_deref());
        let expected = [
            None,
            Some("DRAM"),
            Some("memory_tier22"),
            Some("NVM"),
            Some("GPUMemory"),
            None,
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn a_mask_that_is_none_is_no_set() {
        assert_eq!(mask("00000003,00000001").unwrap().to_string(), "0,32-33");
        assert_eq!(mask("xyz"), None);
        assert_eq!(mask(&"00000001,".repeat(3000)), None);
    }
}
