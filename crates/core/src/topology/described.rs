//! A topology from its description in JSON, as `pinfold topo --json` writes it (docs/formats/commands.md).

use super::parts::{ObjectPart, Parts};
use super::{Cache, CoreKind, Distances, NumaNode, ObjectId, ObjectKind, Topology};
use crate::{NodeId, PuSet};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Description {
    name: String,
    allowed_pus: PuSet,
    allowed_nodes: Vec<NodeId>,
    tree: Tree,
    nodes: Vec<DescribedNode>,
    distances: Option<Distances>,
    #[serde(default)]
    core_kinds: Vec<DescribedKind>,
}

/// An object with those that it encloses.
#[derive(Deserialize)]
struct Tree {
    kind: ObjectKind,
    os_index: Option<u32>,
    cache: Option<Cache>,
    #[serde(default)]
    nodes: Vec<NodeId>,
    #[serde(default)]
    children: Vec<Tree>,
}

#[derive(Deserialize)]
struct DescribedNode {
    id: NodeId,
    pus: PuSet,
    memory: Option<u64>,
    subtype: Option<String>,
}

#[derive(Deserialize)]
struct DescribedKind {
    pus: PuSet,
    efficiency: Option<u32>,
    #[serde(default)]
    info: BTreeMap<String, String>,
}

impl Topology {
    /// The topology of a description.
    ///
    /// # Errors
    ///
    /// A text says what is missing or contradictory.
    pub fn from_description(description: serde_json::Value) -> Result<Self, String> {
        let described: Description = serde_json::from_value(description)
            .map_err(|error| format!("it is not what `pinfold topo --json` writes: {error}"))?;
        let mut objects = vec![];
        let mut attached = BTreeMap::new();
        flatten(described.tree, None, &mut objects, &mut attached);
        let nodes = described.nodes.into_iter().map(|node| {
            let attached_to = attached.get(&node.id).copied();
            Ok(NumaNode {
                attached_to: attached_to.ok_or_else(|| format!("node {} is attached to no object", node.id))?,
                id: node.id,
                pus: node.pus,
                memory: node.memory,
                subtype: node.subtype,
            })
        });
        let core_kinds = described.core_kinds.into_iter().map(|kind| CoreKind {
            pus: kind.pus,
            efficiency: kind.efficiency,
            info: kind.info.into_iter().collect(),
        });
        Self::try_from(Parts {
            name: described.name,
            objects,
            nodes: nodes.collect::<Result<_, String>>()?,
            distances: described.distances,
            core_kinds: core_kinds.collect(),
            allowed_pus: described.allowed_pus,
            allowed_nodes: described.allowed_nodes,
        })
    }
}

/// Adds an object and those that it encloses, parents before children, and where nodes are attached.
fn flatten(
    tree: Tree,
    parent: Option<ObjectId>,
    objects: &mut Vec<ObjectPart>,
    attached: &mut BTreeMap<NodeId, ObjectId>,
) {
    let id = ObjectId(objects.len());
    objects.push(ObjectPart {
        kind: tree.kind,
        os_index: tree.os_index,
        cache: tree.cache,
        parent,
    });
    attached.extend(tree.nodes.into_iter().map(|node| (node, id)));
    for child in tree.children {
        flatten(child, Some(id), objects, attached);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn described() -> Value {
        let core = |number: u32| {
            json!({"kind": "core", "os_index": number, "cache": null, "pus": number.to_string(), "nodes": [], "children": [
                {"kind": "pu", "os_index": number, "cache": null, "pus": number.to_string(), "nodes": [], "children": []},
            ]})
        };
        json!({
            "name": "small", "summary": "", "allowed_pus": "0-1", "allowed_nodes": [0],
            "tree": {"kind": "machine", "os_index": null, "cache": null, "pus": "0-1", "nodes": [], "children": [
                {"kind": "package", "os_index": 0, "cache": null, "pus": "0-1", "nodes": [0], "children": [core(0), core(1)]},
            ]},
            "nodes": [{"id": 0, "pus": "0-1", "memory": 1024, "kind": "dram", "subtype": "DRAM"}],
            "distances": null,
            "core_kinds": [{"pus": "0", "efficiency": 1, "info": {"CoreType": "fast"}}],
            "devices": [],
        })
    }

    #[test]
    fn a_description_becomes_a_topology() {
        let topology = Topology::from_description(described()).unwrap();
        assert_eq!(topology.name(), "small");
        assert_eq!(topology.objects_of(ObjectKind::Core).count(), 2);
        let node = &topology.nodes()[0];
        assert_eq!(topology.object(node.attached_to).kind, ObjectKind::Package);
        assert_eq!((node.pus.to_string(), node.memory), ("0-1".to_owned(), Some(1024)));
        assert_eq!(
            topology.core_kinds()[0].info,
            [("CoreType".to_owned(), "fast".to_owned())]
        );
    }

    #[test]
    fn a_description_that_lacks_or_contradicts_something_is_refused() {
        for (place, value, words) in [
            ("/tree", json!(null), "pinfold topo --json"),
            ("/tree/kind", json!("package"), "not the machine"),
            ("/tree/children/0/nodes", json!([]), "node 0 is attached to no object"),
            ("/allowed_pus", json!("7"), "no PU of"),
        ] {
            let mut wrong = described();
            *wrong.pointer_mut(place).unwrap() = value;
            let error = Topology::from_description(wrong).unwrap_err();
            assert!(error.contains(words), "{place}: {error}");
        }
    }
}
