//! NUMA nodes: the PUs that belong to each, and the kind of its memory.
//!
//! hwloc gives a node without CPUs the PUs of a neighbour, and nodes that cut across packages the PUs of all that they
//! cut. Everything here counts PUs by node, so in a topology a PU belongs to one node at most. The kernel has such a
//! map, and readers of this machine give it. Where a description has sets that overlap, `resolve_overlaps` decides.

use super::ObjectId;
use crate::{NodeId, PuId, PuSet};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// A NUMA node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumaNode {
    /// The operating system's number.
    pub id: NodeId,
    /// The object that encloses all PUs that are local to it, including PUs of other nodes.
    pub attached_to: ObjectId,
    /// The PUs that belong to it, and to no other node. A node without CPUs has none.
    pub pus: PuSet,
    /// Its memory in bytes: zero for a memoryless node, `None` if unknown.
    pub memory: Option<u64>,
    /// What distinguishes its memory, in hwloc's words (`HBM`, `GPUMemory`, `NVM` …), or the kernel's name of its
    /// memory tier; `None` if unknown.
    pub subtype: Option<String>,
}

/// A kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryKind {
    /// DRAM on the processors' own memory controllers.
    Dram,
    /// High-bandwidth memory beside the DRAM, as in Xeon Max and Knights Landing (MCDRAM).
    HighBandwidth,
    /// The memory of a GPU.
    Gpu,
    /// Persistent memory, such as Optane.
    Persistent,
    /// Memory behind a CXL link.
    Cxl,
    /// Memory that differs from the DRAM in another way: the firmware reserves it for a special purpose, or it is in
    /// another memory tier.
    Other,
}

impl NumaNode {
    /// The kind of its memory; `None` if unknown.
    pub fn kind(&self) -> Option<MemoryKind> {
        self.subtype.as_deref().map(MemoryKind::of_subtype)
    }
}

impl MemoryKind {
    /// The kind of a subtype. hwloc 2.11 has `DRAM`, `HBM`, `GPUMemory`, `NVM`, `SPM` and these after `CXL-`, and does
    /// not distinguish cases; hwloc 2 has `MCDRAM`.
    fn of_subtype(subtype: &str) -> Self {
        let subtype = subtype.to_ascii_uppercase();
        match subtype.as_str() {
            "DRAM" => Self::Dram,
            "HBM" | "MCDRAM" => Self::HighBandwidth,
            "GPUMEMORY" => Self::Gpu,
            "NVM" => Self::Persistent,
            _ if subtype.starts_with("CXL") => Self::Cxl,
            _ => Self::Other,
        }
    }
}

impl fmt::Display for MemoryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dram => "DRAM",
            Self::HighBandwidth => "high-bandwidth memory",
            Self::Gpu => "GPU memory",
            Self::Persistent => "persistent memory",
            Self::Cxl => "CXL memory",
            Self::Other => "memory of another kind",
        })
    }
}

/// Leaves each PU to one of the nodes that have it: to DRAM rather than to another kind of memory, then to the node
/// with the fewest PUs, then to the lowest number. Linux numbers nodes with CPUs before those without.
pub fn resolve_overlaps(nodes: &mut [NumaNode]) {
    let mut owners: BTreeMap<PuId, (bool, usize, NodeId)> = BTreeMap::new();
    let rank = |node: &NumaNode| {
        let is_special = node.kind().is_some_and(|kind| kind != MemoryKind::Dram);
        (is_special, node.pus.len(), node.id)
    };
    for node in nodes.iter() {
        for pu in node.pus.iter() {
            let owner = owners.entry(pu).or_insert_with(|| rank(node));
            *owner = rank(node).min(*owner);
        }
    }
    for node in nodes {
        node.pus = node
            .pus
            .iter()
            .filter(|pu| owners.get(pu).is_some_and(|&(.., owner)| owner == node.id))
            .collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: u32, pus: &str, subtype: Option<&str>) -> NumaNode {
        NumaNode {
            id: NodeId(id),
            attached_to: ObjectId(0),
            pus: pus.parse().unwrap(),
            memory: Some(1 << 30),
            subtype: subtype.map(str::to_owned),
        }
    }

    fn resolved(mut nodes: Vec<NumaNode>) -> Vec<String> {
        resolve_overlaps(&mut nodes);
        nodes.iter().map(|node| node.pus.to_string()).collect()
    }

    #[test]
    fn the_names_of_hwloc_are_kinds_and_a_name_that_is_not_known_is_no_dram() {
        for (subtype, kind) in [
            ("DRAM", MemoryKind::Dram),
            ("MCDRAM", MemoryKind::HighBandwidth),
            ("hbm", MemoryKind::HighBandwidth),
            ("GPUMemory", MemoryKind::Gpu),
            ("NVM", MemoryKind::Persistent),
            ("CXL-DRAM", MemoryKind::Cxl),
            ("CXL-NVM", MemoryKind::Cxl),
            ("SPM", MemoryKind::Other),
            ("memory_tier22", MemoryKind::Other),
        ] {
            assert_eq!(node(0, "", Some(subtype)).kind(), Some(kind), "{subtype}");
        }
        assert_eq!(node(0, "", None).kind(), None);
    }

    #[test]
    fn nodes_that_share_no_pu_keep_theirs() {
        assert_eq!(
            resolved(vec![node(0, "0-3", None), node(1, "4-7", None)]),
            ["0-3", "4-7"]
        );
    }

    #[test]
    fn a_pu_of_several_nodes_belongs_to_the_dram_then_to_the_smallest_then_to_the_lowest_number() {
        let hbm_first = vec![node(0, "0-3", Some("HBM")), node(1, "0-3", None)];
        assert_eq!(resolved(hbm_first), ["", "0-3"]);
        let memory_of_two = vec![node(0, "0-7", None), node(1, "0-3", None), node(2, "4-7", None)];
        assert_eq!(resolved(memory_of_two), ["", "0-3", "4-7"]);
        let cut = vec![node(1, "0-7", None), node(0, "0-7", None)];
        assert_eq!(resolved(cut), ["", "0-7"]);
    }

    #[test]
    fn a_pu_that_only_other_memory_has_stays_there() {
        assert_eq!(resolved(vec![node(0, "0-1", Some("HBM"))]), ["0-1"]);
    }
}
