//! The node of each page under a page mapping (Sánchez Barrera et al., ICS 2020, section 2.1.2).

use super::profile::PageProfile;
use crate::model::{Model, PAGE_BYTES, Routes};
use pinfold_core::PageMapping;
use pinfold_core::memory::PagePlaces;
use std::collections::HashMap;

/// A page mapping on a machine, for given nodes of the threads.
#[derive(Debug)]
pub(crate) struct Mapping {
    kind: PageMapping,
    nodes: u64,
    /// For each node the nearest other node.
    remote: Vec<u8>,
    /// For each node itself or the nearest of the nodes to which pages are bound; empty if they are not bound.
    bound: Vec<u8>,
    /// The pages whose nodes are known in advance.
    known: PagePlaces,
}

impl Mapping {
    /// `profile` is needed for `Locality` and `Balance`, and ignored for the others.
    pub(crate) fn new(
        model: &Model,
        mapping: PageMapping,
        profile: Option<&PageProfile>,
        node_of_thread: &[usize],
    ) -> Self {
        let routes = model.routes();
        let nodes = model.nodes();
        let known = match (mapping, profile) {
            (PageMapping::Locality, Some(profile)) => profile.place_by_locality(nodes, node_of_thread),
            (PageMapping::Balance, Some(profile)) => profile.place_by_balance(nodes),
            _ => PagePlaces::default(),
        };
        Self {
            kind: mapping,
            nodes: nodes as u64,
            remote: (0..nodes).map(|node| nearest_other(&routes, nodes, node)).collect(),
            bound: match mapping {
                PageMapping::Bind(set) => {
                    let set: Vec<usize> = set
                        .iter()
                        .map(|node| node.0 as usize)
                        .filter(|&node| node < nodes)
                        .collect();
                    (0..nodes).map(|node| nearest_of(&routes, &set, node)).collect()
                }
                _ => vec![],
            },
            known,
        }
    }

    /// The node of each page. `owners` has each page and the thread that touches it first.
    pub(crate) fn page_nodes(&self, owners: &[(u64, u32)], node_of_thread: &[usize]) -> HashMap<u64, u8> {
        owners
            .iter()
            .map(|&(page, owner)| (page, self.node(page, node_of_thread[owner as usize])))
            .collect()
    }

    /// The node of virtual page `page`, which a thread on node `toucher` touches first.
    pub(crate) fn node(&self, page: u64, toucher: usize) -> u8 {
        match self.kind {
            PageMapping::Interleave => (page % self.nodes) as u8,
            // A model has no weights, and its nodes are never full.
            PageMapping::InterleaveOver(nodes) | PageMapping::WeightedInterleave(nodes) => nodes
                .iter()
                .nth(page as usize % nodes.len())
                .map_or(0, |node| node.0 as u8),
            PageMapping::Bind(_) => self.bound[toucher],
            PageMapping::Single(node) | PageMapping::Preferred(node) => node.0 as u8,
            PageMapping::Remote => self.remote[toucher],
            PageMapping::FirstTouch | PageMapping::Local | PageMapping::Locality | PageMapping::Balance => {
                let known = self.known.node(page * PAGE_BYTES);
                known.map_or(toucher as u8, |node| node.0 as u8)
            }
        }
    }
}

/// The other node whose memory is nearest to `node`; the node itself on a machine with one node.
fn nearest_other(routes: &Routes, nodes: usize, node: usize) -> u8 {
    let others: Vec<usize> = (0..nodes).filter(|&other| other != node).collect();
    nearest_of(routes, &others, node)
}

/// `node` where it is one of `nodes`, and otherwise the one whose memory is nearest to it; `node` if `nodes` is
/// empty.
fn nearest_of(routes: &Routes, nodes: &[usize], node: usize) -> u8 {
    if nodes.contains(&node) {
        return node as u8;
    }
    let nearest = nodes
        .iter()
        .min_by(|&&a, &&b| routes.latency(node, a).total_cmp(&routes.latency(node, b)));
    *nearest.unwrap_or(&node) as u8
}
