//! Counts: of a team until a mark, of all threads in a region, and of the whole window.

use super::Engine;
use crate::model::LINE_BYTES;
use crate::window::counters::{Counters, LinkTraffic, Mark, RegionSpan};
use crate::window::result::WindowResult;
use crate::window::server::Server;
use crate::window::time::{Ticks, cycles};
use crate::window::totals::{Snapshot, memory_joules, package_joules};
use std::ops::Range;

impl<const W: usize> Engine<'_, W> {
    /// The counts of a team's threads and of the machine until `time`.
    pub(super) fn mark(&self, team: usize, time: Ticks) -> Mark {
        let team = &self.teams[team];
        let seconds = cycles(time) / self.model.frequency().0;
        let all: Vec<Counters> = (0..self.threads.len()).map(|thread| self.counters(thread)).collect();
        let (package_joules, memory_joules) = self.joules(seconds, &all);
        Mark {
            seconds,
            threads: all[team.threads.clone()].to_vec(),
            package_joules,
            memory_joules,
            memory_bytes: bytes(&self.system.traffic.memory),
            released: team.released,
            regions: self.regions.totals.clone(),
        }
    }

    /// The counts of a thread until now.
    pub(super) fn counters(&self, thread: usize) -> Counters {
        let mut counters = self.system.counters[thread].clone();
        let thread = &self.threads[thread];
        counters.instructions = thread.instructions;
        counters.stall_cycles = thread.core_cycles.stalled;
        counters.core_cycles = thread.core_cycles.busy;
        counters.busy_cycles = cycles(thread.busy);
        counters.wait_cycles = cycles(thread.waited);
        counters.queue_cycles = cycles(thread.queued);
        counters.unrecorded_cycles = cycles(thread.unrecorded.until(thread.clock));
        counters
    }

    /// The energy of all packages and of all memory in a time of `seconds`.
    fn joules(&self, seconds: f64, counters: &[Counters]) -> (f64, f64) {
        let crossings = self.crossings() as f64;
        let package = package_joules(self.model, seconds, counters, crossings);
        (
            package,
            memory_joules(self.model, seconds, served(&self.system.traffic.memory) as f64),
        )
    }

    /// A thread leaves a region after the time of `times` in it.
    pub(super) fn leave_region(&mut self, region: u64, thread: usize, times: Range<Ticks>, snapshot: &Snapshot) {
        let seconds = cycles(times.end - times.start) / self.model.frequency().0;
        let totals = self.snapshot().since(snapshot, seconds, self.model);
        *self.regions.totals.entry(region).or_default() += &totals;
        self.regions.spans.push(RegionSpan {
            region,
            thread,
            begin: cycles(times.start),
            end: cycles(times.end),
        });
    }

    /// All counts until now.
    pub(super) fn snapshot(&self) -> Snapshot {
        let mut counters = Counters::default();
        for (counted, thread) in self.system.counters.iter().zip(&self.threads) {
            counters += counted;
            counters.instructions += thread.instructions;
            counters.stall_cycles += thread.core_cycles.stalled;
            counters.core_cycles += thread.core_cycles.busy;
            counters.busy_cycles += cycles(thread.busy);
            counters.wait_cycles += cycles(thread.waited);
            counters.queue_cycles += cycles(thread.queued);
            counters.unrecorded_cycles += cycles(thread.unrecorded.until(thread.clock));
        }
        Snapshot {
            counters,
            nodes: lines(&self.system.traffic.memory),
            links: lines(&self.system.traffic.links),
            buses: served(&self.system.traffic.buses),
        }
    }

    /// Lines that crossed a link or a bus.
    pub(super) fn crossings(&self) -> u64 {
        served(&self.system.traffic.links) + served(&self.system.traffic.buses)
    }

    /// The result of the window.
    pub(super) fn result(&self) -> WindowResult {
        let model = self.model;
        let end = self.threads.iter().map(|thread| thread.clock).max().unwrap_or(0);
        let seconds = cycles(end) / model.frequency().0;
        let mut counters: Vec<Counters> = (0..self.threads.len()).map(|thread| self.counters(thread)).collect();
        for (counters, thread) in counters.iter_mut().zip(&self.threads) {
            counters.unrecorded_cycles = cycles(thread.unrecorded.until(end));
        }
        let (package, memory) = self.joules(seconds, &counters);
        WindowResult {
            seconds,
            cycles: cycles(end),
            ends: self.threads.iter().map(|thread| cycles(thread.clock)).collect(),
            threads: counters,
            regions: self.regions.spans.clone(),
            region_totals: self.regions.totals.clone(),
            memory_bytes: bytes(&self.system.traffic.memory),
            links: model
                .routes()
                .links()
                .iter()
                .zip(&self.system.traffic.links)
                .map(|(link, server)| LinkTraffic {
                    from: link.from,
                    to: link.to,
                    bytes: server.served() * LINE_BYTES,
                })
                .collect(),
            bus_bytes: bytes(&self.system.traffic.buses),
            package_joules: package,
            memory_joules: memory,
            released: self.teams.iter().map(|team| team.released).sum(),
        }
    }
}

/// The number of lines that each of these servers carried.
fn lines(servers: &[Server]) -> Vec<u64> {
    servers.iter().map(Server::served).collect()
}

/// The bytes that each of these servers carried.
fn bytes(servers: &[Server]) -> Vec<u64> {
    servers.iter().map(|server| server.served() * LINE_BYTES).collect()
}

/// The number of lines that these servers carried.
fn served(servers: &[Server]) -> u64 {
    servers.iter().map(Server::served).sum()
}
