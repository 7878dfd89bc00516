//! The latencies and bandwidths beyond the caches: coherence, memory and links.

use super::text::{as_in, digits, measured, size, word};
use super::{UNLIMITED, Writer};
use pinfold_core::NodeId;
use pinfold_core::measurement::{BandwidthMeasurement, Relation};
use std::fmt::Write as _;

impl Writer<'_> {
    pub(super) fn memory_latency(&self) -> (f64, String) {
        let calibration = self.calibration;
        if let Some(level) = self.levels.memory {
            let source = format!(
                "measured: dependent loads in huge pages; {:.1} % between the lowest and the highest latency of the plateau",
                100.0 * level.spread
            );
            return (level.latency, source);
        }
        let last = calibration.curve.last().map_or(1e-7, |point| point.latency.value);
        (last, "assumed: that of the largest measured memory".to_owned())
    }

    pub(super) fn coherence(&mut self) {
        self.table("[coherence]");
        let alike = self.similar.coherence.clone();
        let source = as_in(&self.similar, &alike.protocol);
        self.number(
            "protocol",
            &format!("name = {}", word(&alike.protocol.value())),
            &source,
        );
        let (memory, _) = self.memory_latency();
        let rows = [
            ("same_domain", Relation::SameDomain, self.shape.cores_per_domain > 1),
            ("same_package", Relation::SamePackage, self.shape.split()),
            ("other_package", Relation::OtherPackage, self.shape.packages > 1),
        ];
        for (key, relation, needed) in rows {
            if !needed {
                continue;
            }
            let pair = self.calibration.pairs.iter().find(|(found, _)| *found == relation);
            if let Some(&(_, pair)) = pair {
                let what = format!("CPU {} loads a line that only CPU {} holds", pair.pus.1, pair.pus.0);
                self.nanoseconds(&format!("{key}_clean"), pair.clean.value, &measured(&what, pair.clean));
                let what = format!(
                    "CPU {} loads a line that CPU {} has modified; half a round trip of one line between them takes {:.0} ns",
                    pair.pus.1,
                    pair.pus.0,
                    1e9 * pair.ping_pong.value
                );
                self.nanoseconds(
                    &format!("{key}_modified"),
                    pair.modified.value,
                    &measured(&what, pair.modified),
                );
            } else {
                for which in ["clean", "modified"] {
                    let source = "assumed: the latency of memory; there was no such pair of CPUs";
                    self.nanoseconds(&format!("{key}_{which}"), memory, source);
                }
            }
        }
    }

    pub(super) fn local(&self) -> impl Iterator<Item = &BandwidthMeasurement> {
        self.calibration.bandwidth.iter().filter(|one| one.from == one.home)
    }

    pub(super) fn memory(&mut self) {
        self.table("[memory]");
        let (latency, source) = self.memory_latency();
        self.nanoseconds("latency", latency, &source);
        let best =
            |one: &&BandwidthMeasurement, other: &&BandwidthMeasurement| one.rate.value.total_cmp(&other.rate.value);
        let all = self.local().filter(|one| one.cores > 1).max_by(best).copied();
        let alone = self.local().filter(|one| one.cores == 1).max_by(best).copied();
        let alike = self.similar.memory.bandwidth.clone();
        let gigabytes = |rate: f64| format!("gb_per_s = {}", digits(rate * 1e-9));
        match (alone, all) {
            (Some(alone), Some(all)) if all.rate.value < UNLIMITED * alone.rate.value * all.cores as f64 => {
                let what = format!("{} cores together, the highest of reads, writes and copies", all.cores);
                self.number("bandwidth", &gigabytes(all.rate.value), &measured(&what, all.rate));
            }
            (alone, all) => {
                let Some(most) = all.or(alone) else {
                    let source = as_in(&self.similar, &alike);
                    self.number("bandwidth", &gigabytes(alike.value().0), &source);
                    return self.capacity_of_memory();
                };
                let cores = most.cores;
                let value = alike.value().0.max(most.rate.value);
                let source = format!(
                    "{}; measured: {cores} cores get {:.1} GB/s, each as much as alone, so memory is not the limit",
                    as_in(&self.similar, &alike),
                    most.rate.value * 1e-9
                );
                self.number("bandwidth", &gigabytes(value), &source);
            }
        }
        self.capacity_of_memory();
    }

    fn capacity_of_memory(&mut self) {
        if let Some(bytes) = self.node_memory {
            self.number("capacity", &size(bytes), "reported by the machine (hwloc)");
        }
    }

    pub(super) fn links(&mut self) {
        let nodes: Vec<_> = {
            let mut nodes: Vec<_> = self.calibration.nodes.iter().map(|one| one.from).collect();
            nodes.sort_unstable();
            nodes.dedup();
            nodes
        };
        if self.shape.nodes < 2 {
            return;
        }
        for one in 0..self.shape.nodes {
            for other in one + 1..self.shape.nodes {
                self.table("[[link]]");
                let _ = writeln!(
                    self.text,
                    "between = [[{one}, {other}]]\nsource = \"reported by the machine (hwloc): its nodes; assumed: a link \
                     between each pair\""
                );
                let pair = nodes.get(one).copied().zip(nodes.get(other).copied());
                self.link_bandwidth(pair);
                self.link_latency(pair);
            }
        }
    }

    /// `pair` has the measured nodes that the link connects.
    fn link_bandwidth(&mut self, pair: Option<(NodeId, NodeId)>) {
        let measured_rate = pair.and_then(|(a, b)| {
            let across = |found: &&BandwidthMeasurement| {
                (found.from, found.home) == (a, b) || (found.from, found.home) == (b, a)
            };
            let rates = self.calibration.bandwidth.iter().filter(across);
            rates.max_by(|x, y| x.rate.value.total_cmp(&y.rate.value)).copied()
        });
        let gigabytes = |rate: f64| format!("gb_per_s = {}", digits(rate * 1e-9));
        match (measured_rate, self.similar.links.first().cloned()) {
            (Some(found), _) => {
                let what = format!("{} cores of one node on the memory of the other", found.cores);
                self.number("bandwidth", &gigabytes(found.rate.value), &measured(&what, found.rate));
            }
            (None, Some(link)) => {
                let source = as_in(&self.similar, &link.bandwidth);
                self.number("bandwidth", &gigabytes(link.bandwidth.value().0), &source);
            }
            (None, None) => self.number("bandwidth", "gb_per_s = 20", "assumed"),
        }
    }

    /// `pair` has the measured nodes that the link connects.
    fn link_latency(&mut self, pair: Option<(NodeId, NodeId)>) {
        let (seconds, source) = match pair.and_then(|(a, b)| self.additional_latency(a, b)) {
            Some(seconds) => (
                seconds.max(1e-9),
                "measured: loads from the other node's memory less loads from the local memory",
            ),
            None => (60e-9, "assumed: the median of the built-in models"),
        };
        self.nanoseconds("latency", seconds, source);
    }

    /// The latency that the route between two nodes adds to a load, as the mean of both directions.
    fn additional_latency(&self, a: NodeId, b: NodeId) -> Option<f64> {
        let find = |from, home| {
            let nodes = &self.calibration.nodes;
            nodes
                .iter()
                .find(|one| (one.from, one.home) == (from, home))
                .map(|one| one.latency.value)
        };
        Some((find(a, b)? - find(a, a)? + find(b, a)? - find(b, b)?) / 2.0)
    }
}
