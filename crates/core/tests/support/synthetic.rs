//! Machines for tests, in the words of hwloc's synthetic descriptions: `package:2 numa:1 l3:2 core:4 pu:2`. PUs are
//! numbered in topology order. `numa` makes a group with one node attached.

use pinfold_core::{Cache, CacheType, NodeId, NumaNode, ObjectId, ObjectKind, PuId, Topology, TopologyBuilder};

/// The machine that `description` describes.
pub(crate) fn synthetic(description: &str) -> Topology {
    let levels: Vec<(&str, u32)> = description
        .split_whitespace()
        .map(|level| {
            let (name, arity) = level.split_once(':').expect("NAME:ARITY");
            (name, arity.parse().expect("a number of objects"))
        })
        .collect();
    let mut builder = TopologyBuilder::new(description);
    let root = builder.root();
    let mut numbers = Numbers::default();
    grow(&mut builder, root, &levels, &mut numbers);
    for node in numbers.nodes {
        builder.node(node);
    }
    builder.build_all().expect("a machine has PUs")
}

#[derive(Default)]
struct Numbers {
    pus: u32,
    nodes: Vec<NumaNode>,
}

fn grow(builder: &mut TopologyBuilder, parent: ObjectId, levels: &[(&str, u32)], numbers: &mut Numbers) {
    let Some((&(name, arity), inner)) = levels.split_first() else {
        return;
    };
    for _ in 0..arity {
        let object = match name {
            "package" => builder.object(parent, ObjectKind::Package, None),
            "die" => builder.object(parent, ObjectKind::Die, None),
            "core" => builder.object(parent, ObjectKind::Core, None),
            "l3" => builder.cache(parent, cache(3)),
            "l2" => builder.cache(parent, cache(2)),
            "numa" => {
                let group = builder.object(parent, ObjectKind::Group, None);
                let id = NodeId(u32::try_from(numbers.nodes.len()).expect("few nodes"));
                let first = numbers.pus;
                grow(builder, group, inner, numbers);
                numbers.nodes.push(NumaNode {
                    id,
                    attached_to: group,
                    pus: (first..numbers.pus).map(PuId).collect(),
                    memory: Some(1 << 30),
                    subtype: None,
                });
                continue;
            }
            "pu" => {
                numbers.pus += 1;
                builder.pu(parent, PuId(numbers.pus - 1))
            }
            _ => panic!("`{name}` is not a level of these machines"),
        };
        grow(builder, object, inner, numbers);
    }
}

/// A cache of this level, like all others of this level.
pub(crate) fn cache(level: u32) -> Cache {
    Cache {
        level,
        cache_type: CacheType::Unified,
        size: Some(1 << (10 + 3 * level)),
        line_size: Some(64),
        ways: Some(16),
    }
}
