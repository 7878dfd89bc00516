//! Enumerates placements.
//!
//! A placement is written as a load distribution: for each child of a node its load (number of threads), and
//! recursively the child's own load distribution. Interchangeable children are sorted: loads descend, and with equal
//! loads the distributions ascend in the order of this enumeration. Each placement has exactly one sorted load
//! distribution. So the sorted distributions in lexicographic order are the placements.
//!
//! 1. First: each child gets as many threads as it can have, from the first child on.
//! 2. Next: the last child whose distribution has a successor at the same load takes it. The children after it start
//!    again; those that are interchangeable with it and have the same load start at its distribution.
//! 3. If no child has a successor, the loads step on: the last load that can decrease by one does, if the children
//!    after it have room for that thread, and those get as many threads as they can have.
//!
//! Only the current distribution is in memory. A step costs O(n) for n PUs if it changes few nodes, as nearly all steps
//! do, and O(n · children of one node) at worst.

use super::symmetry::{Class, ClassId, Node, Tree};
use crate::{Pinning, PuSet};
use std::cmp::Ordering;

/// The distribution of the threads in a node over its children. An empty or full node leaves no choice: both vectors
/// are empty.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LoadDistribution {
    /// Threads by child.
    loads: Vec<usize>,
    /// The children's distributions.
    children: Vec<LoadDistribution>,
}

/// The order of the enumeration: high loads at the front come first.
impl Ord for LoadDistribution {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.loads.cmp(&self.loads)).then_with(|| self.children.cmp(&other.children))
    }
}

impl PartialOrd for LoadDistribution {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The placements of a number of threads, one pinning each.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    tree: &'a Tree,
    threads: usize,
    /// `None` after the last one.
    current: Option<LoadDistribution>,
}

impl<'a> Iter<'a> {
    pub(super) fn new(tree: &'a Tree, threads: usize) -> Self {
        Self {
            tree,
            threads,
            current: Some(first(&tree.classes, tree.root.class, threads)),
        }
    }
}

impl Iterator for Iter<'_> {
    type Item = Pinning;

    fn next(&mut self) -> Option<Pinning> {
        let distribution = self.current.as_mut()?;
        let pinning = pinning(self.tree, self.threads, distribution);
        if !advance(&self.tree.classes, self.tree.root.class, distribution) {
            self.current = None;
        }
        pinning
    }
}

/// The number of allowed PUs in `pus` and the pinning that represents their placement; `None` for no PU.
pub(super) fn representative(tree: &Tree, pus: &PuSet) -> Option<(usize, Pinning)> {
    let (threads, distribution) = distribution_of(tree, &tree.root, pus);
    Some((threads, pinning(tree, threads, &distribution)?))
}

/// The first distribution of `threads` threads.
fn first(classes: &[Class], class: ClassId, threads: usize) -> LoadDistribution {
    let Class { capacity, children } = &classes[class];
    let mut loads = vec![];
    if threads > 0 && threads < *capacity {
        loads.resize(children.len(), 0);
        fill(classes, children, &mut loads, 0, threads);
    }
    with_first_children(classes, children, loads)
}

fn with_first_children(classes: &[Class], slots: &[ClassId], loads: Vec<usize>) -> LoadDistribution {
    let children = slots
        .iter()
        .zip(&loads)
        .map(|(&slot, &load)| first(classes, slot, load))
        .collect();
    LoadDistribution { loads, children }
}

/// Steps to the next distribution of equally many threads; `false` after the last.
fn advance(classes: &[Class], class: ClassId, distribution: &mut LoadDistribution) -> bool {
    let slots = &classes[class].children;
    let LoadDistribution { loads, children } = distribution;
    for slot in (0..loads.len()).rev() {
        if !advance(classes, slots[slot], &mut children[slot]) {
            continue;
        }
        for later in slot + 1..loads.len() {
            let interchangeable = slots[later] == slots[slot] && loads[later] == loads[slot];
            children[later] = if interchangeable {
                children[slot].clone()
            } else {
                first(classes, slots[later], loads[later])
            };
        }
        return true;
    }
    if !advance_loads(classes, slots, loads) {
        return false;
    }
    *distribution = with_first_children(classes, slots, std::mem::take(loads));
    true
}

/// Steps to the next loads with the same sum; `false` after the last.
fn advance_loads(classes: &[Class], slots: &[ClassId], loads: &mut Vec<usize>) -> bool {
    let mut left = 0;
    for slot in (0..loads.len()).rev() {
        if loads[slot] > 0 {
            let mut next = loads.clone();
            next[slot] -= 1;
            if fill(classes, slots, &mut next, slot + 1, left + 1) {
                *loads = next;
                return true;
            }
        }
        left += loads[slot];
    }
    false
}

/// Gives the children from `start` on as many of the `threads` as each can have; whether all threads found a place. A
/// child gets no more than its capacity, and no more than the interchangeable one before it.
fn fill(classes: &[Class], slots: &[ClassId], loads: &mut [usize], start: usize, mut threads: usize) -> bool {
    for slot in start..slots.len() {
        let mut room = classes[slots[slot]].capacity;
        if slot > 0 && slots[slot - 1] == slots[slot] {
            room = room.min(loads[slot - 1]);
        }
        loads[slot] = room.min(threads);
        threads -= loads[slot];
    }
    threads == 0
}

/// The number of PUs of `pus` below `node`, and their distribution with interchangeable children sorted.
fn distribution_of(tree: &Tree, node: &Node, pus: &PuSet) -> (usize, LoadDistribution) {
    let leaves = &tree.pus[node.leaves.clone()];
    let threads = leaves.iter().filter(|&&pu| pus.contains(pu)).count();
    let mut parts: Vec<(usize, LoadDistribution)> = vec![];
    if threads > 0 && threads < leaves.len() {
        parts.extend(node.children.iter().map(|child| distribution_of(tree, child, pus)));
        let mut start = 0;
        for group in tree.classes[node.class].children.chunk_by(PartialEq::eq) {
            parts[start..start + group.len()].sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
            start += group.len();
        }
    }
    let (loads, children) = parts.into_iter().unzip();
    (threads, LoadDistribution { loads, children })
}

/// The pinning of a load distribution, ranks in topology order; `None` for no thread.
fn pinning(tree: &Tree, threads: usize, distribution: &LoadDistribution) -> Option<Pinning> {
    let mut leaves = Vec::with_capacity(threads);
    collect(&tree.root, threads, distribution, &mut leaves);
    leaves.sort_unstable();
    Pinning::new(leaves.into_iter().map(|leaf| tree.pus[leaf]).collect())
}

fn collect(node: &Node, threads: usize, distribution: &LoadDistribution, leaves: &mut Vec<usize>) {
    if threads == node.leaves.len() {
        leaves.extend(node.leaves.clone());
        return;
    }
    for ((child, &load), inner) in node
        .children
        .iter()
        .zip(&distribution.loads)
        .zip(&distribution.children)
    {
        collect(child, load, inner, leaves);
    }
}
