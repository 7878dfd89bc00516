//! Where the program's pages are while it runs, and what moving them costs.
//!
//! A page belongs to the thread that touched it first, and is where that thread was then. So the page map of a run is
//! one node a thread, its *home*. When a policy re-pins a thread to another node, its pages follow it, as they did with
//! the kernel patch for migration on next touch that autopin used (Klug et al. 2008, section 3). When the scheduler
//! moves a thread, they stay: automatic NUMA balancing is not modelled.

use crate::model::{Model, PAGE_BYTES, Routes};
use std::collections::HashMap;

/// What moving a page costs besides copying it, in seconds. Assumed: the fault, the page table and the remote invalidation
/// of the translation take some microseconds; Goglin and Furmento ("Memory Migration on Next-touch", Linux Symposium
/// 2009) saw some hundred MB/s in all on four-socket Opterons, of which this is the larger part.
const PAGE_OVERHEAD: f64 = 4e-6;

/// The pages of a program by their owners.
pub(crate) struct Pages {
    owners: Vec<(u64, u32)>,
    /// By thread.
    owned: Vec<u64>,
    routes: Routes,
    /// Of one node's memory, in bytes a second.
    memory_bandwidth: f64,
}

impl Pages {
    pub(crate) fn new(model: &Model, owners: &[(u64, u32)], threads: usize) -> Self {
        let mut owned = vec![0; threads];
        for &(_, owner) in owners {
            owned[owner as usize] += 1;
        }
        Self {
            owners: owners.to_vec(),
            owned,
            routes: model.routes(),
            memory_bandwidth: model.memory.bandwidth.value().0,
        }
    }

    /// Page by page the node, where each thread's pages are at its home.
    pub(crate) fn placed(&self, homes: &[u8]) -> HashMap<u64, u8> {
        self.owners
            .iter()
            .map(|&(page, owner)| (page, homes[owner as usize]))
            .collect()
    }

    /// How long it takes, in seconds, until the pages of `thread` have followed it from one node to another. Each thread
    /// moves its own, at the pace of the slowest link on the way.
    pub(crate) fn move_seconds(&self, thread: usize, from: u8, to: u8) -> f64 {
        let bandwidth = self
            .routes
            .way(usize::from(from), usize::from(to))
            .iter()
            .map(|&link| self.routes.links()[link].bandwidth)
            .fold(self.memory_bandwidth, f64::min);
        self.owned[thread] as f64 * (PAGE_OVERHEAD + PAGE_BYTES as f64 / bandwidth)
    }
}
