//! The result of a window's simulation: times, counts, traffic and energy.

use super::counters::{Counters, LinkTraffic, RegionSpan};
use super::totals::RegionTotals;
use super::unrecorded;
use std::collections::BTreeMap;

/// The result of a window's simulation. All values are simulated, none is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowResult {
    /// From the start of the window to the end of the last thread.
    pub seconds: f64,
    /// The same in cycles of the base clock.
    pub cycles: f64,
    /// By thread: when it ended, in cycles of the base clock.
    pub ends: Vec<f64>,
    /// By thread: its counters.
    pub threads: Vec<Counters>,
    /// Executions of regions, in the order of their ends.
    pub regions: Vec<RegionSpan>,
    /// By region: the totals of the whole machine during all executions of it.
    pub region_totals: BTreeMap<u64, RegionTotals>,
    /// By node: bytes that its memory read and wrote.
    pub memory_bytes: Vec<u64>,
    /// By link and direction.
    pub links: Vec<LinkTraffic>,
    /// By package: bytes on its bus; empty if there is none.
    pub bus_bytes: Vec<u64>,
    /// Energy of all packages, in joules.
    pub package_joules: f64,
    /// Energy of all memory, in joules.
    pub memory_joules: f64,
    /// Threads that waited for an event that is not in the recording, for example because the recording was cut. They
    /// were released when no other thread could run.
    pub released: u64,
}

impl WindowResult {
    /// The sum over all threads.
    pub fn total(&self) -> Counters {
        let mut total = Counters::default();
        for thread in &self.threads {
            total += thread;
        }
        total
    }

    /// The share of the time of all threads spent waiting for events outside the recording; `None` for a window
    /// without time.
    pub fn unrecorded_wait_share(&self) -> Option<f64> {
        unrecorded::share(self.total().unrecorded_cycles, self.threads.len(), self.cycles)
    }

    /// Mean power of all packages, in watts.
    pub fn package_watts(&self) -> f64 {
        self.package_joules / self.seconds
    }

    /// Mean power of all memory, in watts.
    pub fn memory_watts(&self) -> f64 {
        self.memory_joules / self.seconds
    }
}
