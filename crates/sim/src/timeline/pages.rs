//! The nodes of the program's pages while it runs, and the cost of moving pages.
//!
//! A page belongs to the thread that touched it first. Each thread has a *home*: its node when the program began, or
//! the node that a policy has pinned it to since. A page mapping gives the nodes of pages for these homes: with first
//! touch each page is at its owner's home, with locality on the node whose threads access it most, and so on. When a
//! policy pins a thread to another node, the pages that its home determines follow. They did so with the kernel patch
//! for migration on next touch that autopin used (Klug et al. 2008, section 3). When the scheduler moves a thread, its
//! pages stay. Automatic NUMA balancing (`numa`) moves single pages: then a `Distribution` has the node of each page.
//! Pages that a policy moves afterwards go where the policy wants them.

use super::mix::Mix;
use super::numa::Distribution;
use crate::model::{Model, PAGE_BYTES, Routes};
use crate::window::{Mapping, PageMapping, PageProfile};
use pinfold_core::NodeId;
use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};

/// The cost of moving a page besides the copying, in seconds. Assumed: the fault, the page table and the remote
/// invalidation of the translation take some microseconds. Goglin and Furmento ("Memory Migration on Next-touch", Linux
/// Symposium 2009) measured some hundred MB/s in all on four-socket Opterons, and this overhead is the larger part of
/// it.
const PAGE_OVERHEAD: f64 = 4e-6;

/// What determines the pages' nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Homes {
    pub(crate) mapping: PageMapping,
    /// By program: whether its pages are interleaved, whatever the mapping is.
    pub(crate) interleaved: Vec<bool>,
    /// By thread: its home.
    pub(crate) nodes: Vec<u8>,
    /// The pages' nodes, where automatic NUMA balancing has moved some.
    pub(crate) balanced: Option<Distribution>,
}

/// Pages that move, and how long that takes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moved {
    pub(crate) pages: u64,
    pub(crate) seconds: f64,
}

impl Moved {
    /// Those of all programs, which move at the same time.
    pub(crate) fn total(programs: &[Self]) -> Self {
        Self {
            pages: programs.iter().map(|moved| moved.pages).sum(),
            seconds: programs.iter().map(|moved| moved.seconds).fold(0.0, f64::max),
        }
    }
}

/// The pages of a program by their owners.
pub(crate) struct Pages {
    owners: Vec<(u64, u32)>,
    routes: Routes,
    /// Bandwidth of one node's memory, in bytes per second.
    memory_bandwidth: f64,
    /// The accesses of each thread to each page, once a mapping has needed them.
    profile: OnceCell<PageProfile>,
}

impl Pages {
    pub(crate) fn new(model: &Model, owners: &[(u64, u32)]) -> Self {
        Self {
            owners: owners.to_vec(),
            routes: model.routes(),
            memory_bandwidth: model.memory.bandwidth.value().0,
            profile: OnceCell::new(),
        }
    }

    /// Each page and the thread that touches it first.
    pub(crate) fn owners(&self) -> &[(u64, u32)] {
        &self.owners
    }

    /// The accesses of each thread to each page.
    pub(crate) fn profile(&self, mix: &Mix) -> &PageProfile {
        self.profile.get_or_init(|| mix.page_profile())
    }

    /// By page, in the order of the owners: its node.
    pub(crate) fn node_list(&self, model: &Model, mix: &Mix, homes: &Homes) -> Vec<u8> {
        if let Some(balanced) = &homes.balanced {
            return balanced.nodes().to_vec();
        }
        let placed = self.placed(model, mix, homes);
        self.owners.iter().map(|(page, _)| placed[page]).collect()
    }

    /// Homes that a policy has requested while pages are at `present`: pages that automatic NUMA balancing has moved
    /// stay, unless the policy moves them.
    pub(crate) fn keep_balanced(&self, model: &Model, mix: &Mix, present: &Homes, requested: Homes) -> Homes {
        let Some(balanced) = present
            .balanced
            .clone()
            .filter(|_| present.mapping == requested.mapping)
        else {
            return requested;
        };
        let before = Homes {
            balanced: None,
            ..present.clone()
        };
        if before == requested {
            return Homes {
                balanced: Some(balanced),
                ..requested
            };
        }
        let before = self.node_list(model, mix, &before);
        let after = self.node_list(model, mix, &requested);
        let nodes = before.iter().zip(&after).zip(balanced.nodes());
        let nodes: Vec<u8> = nodes
            .map(|((before, after), balanced)| if before == after { *balanced } else { *after })
            .collect();
        Homes {
            balanced: (nodes != after).then(|| Distribution::new(&nodes)),
            ..requested
        }
    }

    /// The node of each page.
    pub(crate) fn placed(&self, model: &Model, mix: &Mix, homes: &Homes) -> HashMap<u64, u8> {
        if let Some(balanced) = &homes.balanced {
            let pages = self.owners.iter().map(|&(page, _)| page);
            return pages.zip(balanced.nodes().iter().copied()).collect();
        }
        let profile = matches!(homes.mapping, PageMapping::Locality | PageMapping::Balance).then(|| self.profile(mix));
        let nodes: Vec<usize> = homes.nodes.iter().map(|&node| usize::from(node)).collect();
        let mut placed = Mapping::new(model, homes.mapping, profile, &nodes).page_nodes(&self.owners, &nodes);
        if homes.interleaved.contains(&true) {
            let is_interleaved = |owner: u32| homes.interleaved[mix.program_of(owner as usize)];
            let owners = self.owners.iter().copied();
            let owners: Vec<(u64, u32)> = owners.filter(|&(_, owner)| is_interleaved(owner)).collect();
            placed.extend(Mapping::new(model, PageMapping::Interleave, None, &nodes).page_nodes(&owners, &nodes));
        }
        placed
    }

    /// The bytes on each node.
    pub(crate) fn bytes_by_node(&self, model: &Model, mix: &Mix, homes: &Homes) -> BTreeMap<NodeId, u64> {
        let mut bytes = BTreeMap::new();
        for node in self.placed(model, mix, homes).into_values() {
            *bytes.entry(NodeId(u32::from(node))).or_default() += PAGE_BYTES;
        }
        bytes
    }

    /// The pages of each program that move to the nodes of `to`, and how long that takes. Each thread moves the pages
    /// that it touched first, at the bandwidth of the slowest link of the route, and all threads do so at the same
    /// time.
    pub(crate) fn moves(&self, model: &Model, mix: &Mix, from: &Homes, to: &Homes) -> Vec<Moved> {
        let mut moved = vec![Moved::default(); mix.threads().len()];
        if from == to {
            return moved;
        }
        let (before, after) = (self.placed(model, mix, from), self.placed(model, mix, to));
        let mut moves: BTreeMap<(u32, u8, u8), u64> = BTreeMap::new();
        for &(page, owner) in &self.owners {
            let (from, to) = (before[&page], after[&page]);
            if from != to {
                *moves.entry((owner, from, to)).or_default() += 1;
            }
        }
        let mut seconds: BTreeMap<u32, f64> = BTreeMap::new();
        for ((owner, from, to), pages) in moves {
            moved[mix.program_of(owner as usize)].pages += pages;
            *seconds.entry(owner).or_default() += pages as f64 * self.page_seconds(from, to);
        }
        for (owner, seconds) in seconds {
            let slowest = &mut moved[mix.program_of(owner as usize)].seconds;
            *slowest = slowest.max(seconds);
        }
        moved
    }

    /// How long the move of one page takes.
    pub(crate) fn page_seconds(&self, from: u8, to: u8) -> f64 {
        let bandwidth = self
            .routes
            .route(usize::from(from), usize::from(to))
            .iter()
            .map(|&link| self.routes.links()[link].bandwidth)
            .fold(self.memory_bandwidth, f64::min);
        PAGE_OVERHEAD + PAGE_BYTES as f64 / bandwidth
    }
}
