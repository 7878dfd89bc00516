//! The options of a window's simulation, and the reasons why a window cannot be simulated.

use super::directory::DOMAINS;
use pinfold_core::{PageMapping, PuId};
use std::time::Duration;

/// The options of a window's simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// How far a PU runs ahead of the next one, in cycles. More is faster, and makes the order of unordered accesses
    /// less exact.
    pub quantum_cycles: f64,
    /// How long a thread keeps a PU for which others wait. The default is Linux's on machines of more than eight PUs
    /// (`sched_min_granularity`, and since 6.6 the base slice: 3 ms).
    pub time_slice: Duration,
    /// The time of a switch of threads on a PU, without its effect on the caches. The model's own figure has priority
    /// over this one and the next two.
    pub switch: Duration,
    /// The time of a system call.
    pub call: Duration,
    /// How long a thread polls while it waits for its team, before it sleeps, where other threads want its PU. libgomp
    /// polls a hundred times in this case, with a `pause` between (its `GOMP_SPINCOUNT` where threads outnumber CPUs).
    pub poll: Duration,
    /// The seed of the random numbers that vary the latency of transfers between caches.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            quantum_cycles: 200.0,
            time_slice: Duration::from_millis(3),
            switch: Duration::from_nanos(1500),
            // Assumed, like the next: measured on one machine of 2023.
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
    #[error(
        "the page mapping {0:?} needs the accesses of each thread to each page: make a PageProfile of the streams first"
    )]
    NoProfile(PageMapping),
    /// The threads use more LLC domains than the directory has bits for.
    #[error("the threads are on {0} last-level-cache domains: the limit is {DOMAINS}")]
    TooManyDomains(usize),
    /// The threads use more memory than there are line numbers.
    #[error("the window touches more than {0} MiB: the tags of this model's smallest cache cannot distinguish more")]
    TooMuchMemory(u64),
}
