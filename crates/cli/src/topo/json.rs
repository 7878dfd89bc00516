//! A topology as JSON; docs/formats/commands.md describes the keys. Every key is always present; an unknown value is
//! `null`.

use pinfold_core::memory::nodes_of_pus;
use pinfold_core::{Device, DeviceName, NodeId, ObjectId, Topology, summary};
use serde_json::{Map, Value, json};

/// The whole topology.
pub(crate) fn of(topology: &Topology, devices: &[Device]) -> Value {
    let nodes: Vec<Value> = topology
        .nodes()
        .iter()
        .map(|node| {
            json!({
                "id": node.id,
                "pus": node.pus,
                "memory": node.memory,
                "kind": node.kind(),
                "subtype": node.subtype,
            })
        })
        .collect();
    let core_kinds: Vec<Value> = topology
        .core_kinds()
        .iter()
        .map(|kind| {
            let info: Map<String, Value> = kind
                .info
                .iter()
                .map(|(name, value)| (name.clone(), Value::from(value.as_str())))
                .collect();
            json!({ "pus": kind.pus, "efficiency": kind.efficiency, "info": info })
        })
        .collect();
    json!({
        "name": topology.name(),
        "summary": summary(topology),
        "allowed_pus": topology.allowed_pus(),
        "allowed_nodes": topology.allowed_nodes(),
        "tree": object(topology, topology.root()),
        "nodes": nodes,
        "distances": topology.distances(),
        "core_kinds": core_kinds,
        "devices": devices.iter().map(|one| device(topology, one, devices)).collect::<Vec<Value>>(),
    })
}

/// A device, with the NUMA nodes of the PUs that are near it.
fn device(topology: &Topology, device: &Device, devices: &[Device]) -> Value {
    let nodes: Option<Vec<NodeId>> = device
        .pus
        .as_ref()
        .map(|pus| nodes_of_pus(topology, pus.iter()).iter().collect());
    json!({
        "kind": device.kind,
        "near": DeviceName::of(device, devices).iter().map(ToString::to_string).collect::<Vec<String>>(),
        "pci": device.pci,
        "vendor": device.vendor,
        "names": device.names,
        "pus": device.pus,
        "nodes": nodes,
    })
}

/// An object with those that it encloses.
fn object(topology: &Topology, id: ObjectId) -> Value {
    let object_here = topology.object(id);
    let nodes: Vec<NodeId> = topology
        .nodes()
        .iter()
        .filter(|node| node.attached_to == id)
        .map(|node| node.id)
        .collect();
    let children: Vec<Value> = object_here
        .children
        .iter()
        .map(|&child| object(topology, child))
        .collect();
    json!({
        "kind": object_here.kind,
        "os_index": object_here.os_index,
        "cache": object_here.cache,
        "pus": object_here.pus,
        "nodes": nodes,
        "children": children,
    })
}
