//! The symmetries of a machine: which subtrees of its topology are interchangeable.
//!
//! 1. From the leaves up, each object with allowed PUs gets a label and the sorted classes of its children.
//! 2. Equal pairs of label and children's classes get the same class (hash-consing). So two subtrees have the same
//!    class exactly when they are isomorphic as labelled trees.
//! 3. An object with one child adds its label to the class but no node to the tree: it offers no choice.
//!
//! With n objects of bounded depth this takes O(n log n) look-ups. Only the order of siblings, by their lowest allowed
//! PU, depends on operating-system indices.

use crate::{Cache, NodeId, ObjectId, ObjectKind, PuId, Topology};
use std::collections::HashMap;
use std::ops::Range;

/// Position in `Tree::classes`.
pub(super) type ClassId = usize;

/// The objects that branch, and the PUs.
#[derive(Debug)]
pub(super) struct Tree {
    /// The outermost object that branches, or the only PU.
    pub(super) root: Node,
    /// One for each kind of subtree, children's before their parents'.
    pub(super) classes: Vec<Class>,
    /// The allowed PUs in topology order: depth first, siblings by their lowest allowed PU. A position in here is
    /// called a leaf.
    pub(super) pus: Vec<PuId>,
}

/// A subtree.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) class: ClassId,
    /// In the order of `Class::children`, and within a class in topology order. Empty for a PU.
    pub(super) children: Vec<Node>,
    /// The leaves below; as many as the class has capacity.
    pub(super) leaves: Range<usize>,
}

/// The common properties of interchangeable subtrees.
#[derive(Debug)]
pub(super) struct Class {
    /// The number of PUs.
    pub(super) capacity: usize,
    /// The children's classes, equal ones side by side. None for a PU.
    pub(super) children: Vec<ClassId>,
}

/// The properties that distinguish objects of the same shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Label {
    kind: ObjectKind,
    cache: Option<Cache>,
    /// Position in `Topology::core_kinds`; only PUs carry it.
    core_kind: Option<usize>,
    /// The node of a PU whose node is not a subtree. Only PUs carry it.
    cut_node: Option<NodeId>,
    /// The attached NUMA nodes; they have no order and are sorted.
    nodes: Vec<NodeLabel>,
}

/// The properties that distinguish NUMA nodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct NodeLabel {
    /// `None` if the machine does not report it.
    has_memory: Option<bool>,
    allowed: bool,
    subtype: Option<String>,
}

impl Tree {
    /// The tree of the allowed PUs of a machine.
    pub(super) fn new(topology: &Topology) -> Self {
        let mut builder = Builder {
            topology,
            nodes: node_labels(topology),
            known: HashMap::new(),
            classes: vec![],
            pus: vec![],
        };
        let root = builder
            .subtree(topology.root())
            .expect("a topology has at least one allowed PU");
        Self {
            root,
            classes: builder.classes,
            pus: builder.pus,
        }
    }
}

/// The kind of the core that `pu` is in, as position in `Topology::core_kinds`.
pub(super) fn core_kind(topology: &Topology, pu: PuId) -> Option<usize> {
    topology.core_kinds().iter().position(|kind| kind.pus.contains(pu))
}

/// The children that have allowed PUs, by the lowest of these.
pub(super) fn children(topology: &Topology, object: ObjectId) -> Vec<ObjectId> {
    let mut children: Vec<(PuId, ObjectId)> = topology
        .object(object)
        .children
        .iter()
        .filter_map(|&child| Some((lowest_allowed(topology, child)?, child)))
        .collect();
    children.sort();
    children.into_iter().map(|(_, child)| child).collect()
}

fn lowest_allowed(topology: &Topology, object: ObjectId) -> Option<PuId> {
    topology
        .object(object)
        .pus
        .iter()
        .find(|&pu| topology.allowed_pus().contains(pu))
}

fn node_labels(topology: &Topology) -> HashMap<ObjectId, Vec<NodeLabel>> {
    let mut labels: HashMap<ObjectId, Vec<NodeLabel>> = HashMap::new();
    for node in topology.nodes() {
        labels.entry(node.attached_to).or_default().push(NodeLabel {
            has_memory: node.memory.map(|bytes| bytes > 0),
            allowed: topology.allowed_nodes().contains(&node.id),
            subtype: node.subtype.clone(),
        });
    }
    for labels in labels.values_mut() {
        labels.sort();
    }
    labels
}

struct Builder<'a> {
    topology: &'a Topology,
    nodes: HashMap<ObjectId, Vec<NodeLabel>>,
    known: HashMap<(Label, Vec<ClassId>), ClassId>,
    classes: Vec<Class>,
    pus: Vec<PuId>,
}

impl Builder<'_> {
    /// The subtree below `id`; `None` if it has no allowed PU.
    fn subtree(&mut self, id: ObjectId) -> Option<Node> {
        let topology = self.topology;
        let object = topology.object(id);
        let mut label = Label {
            kind: object.kind,
            cache: object.cache,
            core_kind: None,
            cut_node: None,
            nodes: self.nodes.get(&id).cloned().unwrap_or_default(),
        };
        let first_leaf = self.pus.len();
        if object.kind == ObjectKind::Pu {
            let pu = lowest_allowed(topology, id)?;
            label.core_kind = core_kind(topology, pu);
            let mut nodes = topology.nodes().iter();
            let node = nodes.find(|node| node.pus.contains(pu));
            label.cut_node = node.filter(|node| topology.is_cut(node)).map(|node| node.id);
            self.pus.push(pu);
            let class = self.class(label, vec![], || Class {
                capacity: 1,
                children: vec![],
            });
            return Some(Node {
                class,
                children: vec![],
                leaves: first_leaf..first_leaf + 1,
            });
        }

        let mut children: Vec<Node> = children(topology, id)
            .into_iter()
            .filter_map(|child| self.subtree(child))
            .collect();
        if children.len() <= 1 {
            let mut only = children.pop()?;
            let inner = &self.classes[only.class];
            let (capacity, grandchildren) = (inner.capacity, inner.children.clone());
            only.class = self.class(label, vec![only.class], || Class {
                capacity,
                children: grandchildren,
            });
            return Some(only);
        }
        // Stable, so that the members of one class stay in topology order. Classes are numbered in the order of their
        // first use, so the class of the lowest-numbered PUs usually comes first too.
        children.sort_by_key(|child| child.class);
        let classes: Vec<ClassId> = children.iter().map(|child| child.class).collect();
        let capacity = self.pus.len() - first_leaf;
        let class = self.class(label, classes.clone(), || Class {
            capacity,
            children: classes,
        });
        Some(Node {
            class,
            children,
            leaves: first_leaf..self.pus.len(),
        })
    }

    /// The class of this label and these children's classes, made at its first use.
    fn class(&mut self, label: Label, children: Vec<ClassId>, make: impl FnOnce() -> Class) -> ClassId {
        let classes = &mut self.classes;
        *self.known.entry((label, children)).or_insert_with(|| {
            classes.push(make());
            classes.len() - 1
        })
    }
}
