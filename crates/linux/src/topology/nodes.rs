//! The NUMA nodes of a topology: their memory, the PUs that belong to each, and the kind of its memory.
//!
//! 1. hwloc gives the nodes, their places in the tree, and names for memory that it knows: of NVIDIA's GPUs, MCDRAM,
//!    and, by the attributes of DAX devices, persistent, special-purpose and CXL memory.
//! 2. The kernel's lists give each PU to one node. Without these, one of the nodes that hwloc lists for a PU gets it
//!    (`pinfold_core::resolve_overlaps`).
//! 3. Memory of nodes without CPUs that has no name yet is named by the kernel's memory tiers, and by the bandwidths
//!    that the firmware reports (HMAT).
//!
//! hwloc uses zero both for no memory and for unknown memory. If any node has memory, nodes with zero have none.

use super::index;
use super::kernel::KernelNodes;
use hwlocality::memory::attribute::MemoryAttribute;
use hwlocality::object::TopologyObject;
use hwlocality::object::attributes::ObjectAttributes;
use hwlocality::object::types::ObjectType;
use pinfold_core::{NodeId, NumaNode, ObjectId, PuId, PuSet, resolve_overlaps};
use std::collections::BTreeMap;

/// A node as hwloc has it. `None` for another object.
pub(super) fn node(object: &TopologyObject, attached_to: ObjectId) -> Option<NumaNode> {
    let Some(ObjectAttributes::NUMANode(attributes)) = object.attributes() else {
        return None;
    };
    let pus = object
        .cpuset()
        .map(|pus| pus.iter_set().map(|pu| PuId(index(pu))).collect());
    Some(NumaNode {
        id: NodeId(u32::try_from(object.os_index()?).ok()?),
        attached_to,
        pus: pus.unwrap_or_default(),
        memory: attributes.local_memory().map(u64::from),
        subtype: name(object),
    })
}

/// The nodes, completed with data that no single object has. `all` are the PUs of the machine.
pub(super) fn completed(
    mut nodes: Vec<NumaNode>,
    machine: &hwlocality::Topology,
    kernel: &KernelNodes,
    all: &PuSet,
) -> Vec<NumaNode> {
    if nodes.iter().any(|node| node.memory.is_some()) {
        for node in &mut nodes {
            node.memory = node.memory.or(Some(0));
        }
    }
    kernel.give_pus(&mut nodes, all);
    resolve_overlaps(&mut nodes);
    kernel.name_by_tier(&mut nodes);
    name_by_bandwidth(&mut nodes, &bandwidths(machine));
    nodes
}

/// hwloc's name for a node's memory, even if only the attributes of a DAX device show it.
fn name(object: &TopologyObject) -> Option<String> {
    if let Some(subtype) = object.subtype().filter(|subtype| !subtype.is_empty()) {
        return Some(subtype.to_string_lossy().into_owned());
    }
    let info = |key: &str| object.info(key).map(|value| value.to_string_lossy().into_owned());
    let dax = info("DAXType").filter(|kind| kind == "NVM" || kind == "SPM");
    let is_cxl = info("CXLDevice").is_some() || info("DAXParent").is_some_and(|parent| parent.contains("cxl"));
    match dax {
        Some(kind) if is_cxl => Some(format!("CXL-{kind}")),
        None if is_cxl => Some("CXL".to_owned()),
        kind => kind,
    }
}

/// The bandwidth of each node's memory from the nearest processors, in MiB/s, if the firmware reports it.
fn bandwidths(machine: &hwlocality::Topology) -> BTreeMap<NodeId, u64> {
    let attribute = MemoryAttribute::bandwidth(machine);
    let nodes = machine.objects_with_type(ObjectType::NUMANode);
    nodes
        .filter_map(|node| {
            let (_, bandwidth) = attribute.best_initiator(node).ok()??;
            let id = NodeId(u32::try_from(node.os_index()?).ok()?);
            // The kernel uses zero if the firmware reports no bandwidth.
            (bandwidth > 0).then_some((id, bandwidth))
        })
        .collect()
}

/// Names memory without CPUs whose bandwidth differs from DRAM: more than twice the bandwidth of any node with CPUs,
/// which is hwloc's criterion for high-bandwidth memory, or less than half of the lowest.
fn name_by_bandwidth(nodes: &mut [NumaNode], bandwidths: &BTreeMap<NodeId, u64>) {
    let with_cpus = nodes.iter().filter(|node| !node.pus.is_empty());
    let known: Vec<u64> = with_cpus.filter_map(|node| bandwidths.get(&node.id).copied()).collect();
    let (Some(&least), Some(&most)) = (known.iter().min(), known.iter().max()) else {
        return;
    };
    let unnamed = |node: &&mut NumaNode| node.subtype.as_deref().is_none_or(|subtype| subtype == "DRAM");
    for node in nodes.iter_mut().filter(|node| node.pus.is_empty()).filter(unnamed) {
        match bandwidths.get(&node.id) {
            Some(&bandwidth) if bandwidth > most.saturating_mul(2) => node.subtype = Some("HBM".to_owned()),
            Some(&bandwidth) if bandwidth.saturating_mul(2) < least => node.subtype = Some("low bandwidth".to_owned()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_without_cpus_is_named_by_a_bandwidth_that_is_not_that_of_dram() {
        let node = |id: u32, pus: &str, subtype: Option<&str>| NumaNode {
            id: NodeId(id),
            attached_to: ObjectId(0),
            pus: pus.parse().unwrap(),
            memory: Some(1 << 30),
            subtype: subtype.map(str::to_owned),
        };
        let mut nodes = [
            node(0, "0-1", None),
            node(1, "2-3", None),
            node(2, "", None),
            node(3, "", Some("DRAM")),
            node(4, "", None),
            node(5, "", Some("NVM")),
            node(6, "", None),
        ];
        let bandwidths = [(0, 100), (1, 120), (2, 241), (3, 49), (4, 90), (5, 10)];
        let bandwidths = bandwidths.into_iter().map(|(id, value)| (NodeId(id), value));
        name_by_bandwidth(&mut nodes, &bandwidths.collect());
        let names = nodes.each_ref().map(|node| node.subtype.as_deref());
        let expected = [None, None, Some("HBM"), Some("low bandwidth"), None, Some("NVM"), None];
        assert_eq!(names, expected);
    }
}
