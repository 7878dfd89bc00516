//! What of a window's simulation may be set, and why a window cannot be simulated.

use super::directory::DOMAINS;
use pinfold_core::{PageMapping, PuId};
use std::time::Duration;

/// What of the simulation may be set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// How far a PU runs ahead of the next one, in cycles. More is faster and blurs the order of unordered accesses.
    pub quantum_cycles: f64,
    /// How long a thread keeps a PU that others wait for. The default is what Linux gives on machines of more than eight
    /// PUs (`sched_min_granularity`, and since 6.6 the base slice: 3 ms).
    pub time_slice: Duration,
    /// What a change of threads on a PU costs by itself; the caches come on top. The model's own figure goes before this
    /// one and the next two.
    pub switch: Duration,
    /// What a system call costs.
    pub call: Duration,
    /// How long a thread that waits for its team polls before it sleeps, where other threads want its PU. libgomp polls a
    /// hundred times then, with a `pause` between (its `GOMP_SPINCOUNT` where threads outnumber CPUs).
    pub poll: Duration,
    /// Where the pseudo-random numbers begin by which the latency of transfers between caches varies.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            quantum_cycles: 200.0,
            time_slice: Duration::from_millis(3),
            switch: Duration::from_nanos(1500),
            // Assumed, as the next: measured on one machine of 2023.
            call: Duration::from_nanos(150),
            poll: Duration::from_nanos(1600),
            seed: 0,
        }
    }
}

/// Why a window cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WindowError {
    /// There is nothing to simulate.
    #[error("there are no threads to simulate")]
    NoThreads,
    /// The pinning names a PU that the machine does not have.
    #[error("PU {pu} does not exist on {machine}, whose PUs are 0 to {last}")]
    NoSuchPu {
        /// The PU.
        pu: PuId,
        /// The model's name.
        machine: String,
        /// The highest PU.
        last: usize,
    },
    /// The page mapping names a node that the machine does not have.
    #[error("node {node} does not exist on {machine}, whose nodes are 0 to {last}")]
    NoSuchNode {
        /// The node.
        node: u32,
        /// The model's name.
        machine: String,
        /// The highest node.
        last: usize,
    },
    /// `locality` and `balance` without a profile.
    #[error("the page mapping {0:?} needs to know who accesses which page: make a PageProfile of the streams first")]
    NoProfile(PageMapping),
    /// More LLC domains than the directory has bits for.
    #[error("the threads are on {0} last-level-cache domains, of which {DOMAINS} can be simulated at once")]
    TooManyDomains(usize),
    /// More memory than line numbers.
    #[error("the window touches more than {0} MiB, more than the tags of this model's smallest cache can tell apart")]
    TooMuchMemory(u64),
}
