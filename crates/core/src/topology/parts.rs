//! A topology from another process, which may have read a damaged description. It is built again from its parts, and
//! contradictory parts are refused.

use super::{Cache, CoreKind, Distances, NumaNode, ObjectId, ObjectKind, Topology, TopologyBuilder};
use crate::{NodeId, PuId, PuSet};
use serde::Deserialize;

/// The fields of a `Topology`, without those that are derived from others.
#[derive(Deserialize)]
pub(super) struct Parts {
    pub(super) name: String,
    pub(super) objects: Vec<ObjectPart>,
    pub(super) nodes: Vec<NumaNode>,
    pub(super) distances: Option<Distances>,
    pub(super) core_kinds: Vec<CoreKind>,
    pub(super) allowed_pus: PuSet,
    pub(super) allowed_nodes: Vec<NodeId>,
}

#[derive(Deserialize)]
pub(super) struct ObjectPart {
    pub(super) kind: ObjectKind,
    pub(super) os_index: Option<u32>,
    pub(super) cache: Option<Cache>,
    pub(super) parent: Option<ObjectId>,
}

impl TryFrom<Parts> for Topology {
    type Error = String;

    fn try_from(parts: Parts) -> Result<Self, String> {
        let mut builder = TopologyBuilder::new(parts.name);
        let mut objects = parts.objects.iter().enumerate();
        match objects.next() {
            Some((_, first)) if first.kind == ObjectKind::Machine && first.parent.is_none() => {}
            _ => return Err("the first object is not the machine".to_owned()),
        }
        let mut pus = PuSet::new();
        for (index, part) in objects {
            let parent = part.parent.filter(|parent| parent.0 < index);
            let parent = parent.filter(|parent| parts.objects[parent.0].kind != ObjectKind::Pu);
            let parent = parent.ok_or_else(|| format!("object {index} has no parent before it"))?;
            match (part.kind, part.os_index, part.cache) {
                (ObjectKind::Machine, _, _) => return Err(format!("object {index} is a second machine")),
                (ObjectKind::Pu, Some(number), None) if number <= PuSet::HIGHEST.0 && pus.insert(PuId(number)) => {
                    builder.pu(parent, PuId(number));
                }
                (ObjectKind::Pu, _, _) => return Err(format!("object {index} is no valid PU")),
                (ObjectKind::Cache, None, Some(cache)) => {
                    builder.cache(parent, cache);
                }
                (ObjectKind::Cache, _, _) | (_, _, Some(_)) => {
                    return Err(format!("object {index} is no valid cache"));
                }
                (kind, os_index, None) => {
                    builder.object(parent, kind, os_index);
                }
            }
        }
        for node in parts.nodes {
            if node.attached_to.0 >= parts.objects.len() {
                return Err(format!("node {} is attached to no object", node.id));
            }
            builder.node(node);
        }
        if let Some(distances) = parts.distances {
            let size = distances.nodes.len();
            if distances.values.len() != size || distances.values.iter().any(|row| row.len() != size) {
                return Err(format!("the distances between {size} nodes are no square"));
            }
            builder.distances(distances);
        }
        parts.core_kinds.into_iter().for_each(|kind| builder.core_kind(kind));
        builder
            .build(&parts.allowed_pus, &parts.allowed_nodes)
            .map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::lopsided;
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_topology_comes_back_as_it_was_written() {
        let topology = lopsided();
        let text = serde_json::to_string(&topology).unwrap();
        assert_eq!(serde_json::from_str::<Topology>(&text).unwrap(), topology);
    }

    #[test]
    fn parts_that_contradict_each_other_are_refused() {
        for (place, value, words) in [
            ("/objects/0/kind", json!("package"), "not the machine"),
            ("/objects/1/parent", json!(1), "object 1 has no parent before it"),
            ("/objects/1/parent", json!(null), "object 1 has no parent before it"),
            ("/objects/1/kind", json!("machine"), "second machine"),
            ("/objects/2/cache", json!(null), "object 2 is no valid cache"),
            ("/objects/4/os_index", json!(65536), "object 4 is no valid PU"),
            ("/objects/5/os_index", json!(0), "object 5 is no valid PU"),
            ("/objects/5/parent", json!(4), "object 5 has no parent before it"),
            ("/allowed_pus", json!(""), "no PU of"),
            (
                "/distances",
                json!({"nodes": [0, 1], "values": [[10, 20]]}),
                "no square",
            ),
        ] {
            let mut topology = serde_json::to_value(lopsided()).unwrap();
            *topology.pointer_mut(place).unwrap() = value;
            let error = serde_json::from_value::<Topology>(topology).unwrap_err().to_string();
            assert!(error.contains(words), "{place}: {error}");
        }
        let mut attached: Value = serde_json::to_value(lopsided()).unwrap();
        attached["nodes"] = json!([{"id": 0, "attached_to": 99, "pus": "0", "memory": null, "subtype": null}]);
        let error = serde_json::from_value::<Topology>(attached).unwrap_err().to_string();
        assert!(error.contains("node 0 is attached to no object"), "{error}");
    }
}
