//! Writes the model of a measured machine.
//!
//! A number is `measured: ...` with how far the middle run was from the best, or `reported ...` by the machine, or, where
//! it cannot be measured, that of the most similar model of pinfold's own, `assumed: as ...`.
//!
//! Where figures have to be drawn from several measurements:
//!
//! - A cache's size is what the machine reports, unless it was seen to hold less. What a victim cache is seen to hold is
//!   held by the levels before it as well, whose size is taken off.
//! - Memory's bandwidth is what all cores got, if that was clearly less than each of them gets alone. Otherwise the cores
//!   were the limit, and memory's own is not known.
//! - A core's prefetches in flight follow from Little's law: the lines a second that one core reads in ascending order,
//!   times the latency of memory.
//! - Cycles an instruction: the geometric mean of the measured loops.

mod caches;
pub mod curve;
mod shape;
#[cfg(test)]
mod tests;
mod text;

pub use shape::{Shape, ShapeError};

use caches::{Seen, matched};
use pinfold_core::measurement::{
    BandwidthMeasurement, Calibration, PairMeasurement, Relation, Thoroughness, Traffic, TranslationPoint,
};
use pinfold_core::{Topology, summary};
use pinfold_sim::model::{LINE_BYTES, Model, builtin, builtin_names};
use std::fmt::Write as _;
use text::{as_in, digits, measured, size, toml_string, whole, word};

/// A model's text, and what its reader should know at once.
pub struct Written {
    /// The text of the model's file.
    pub text: String,
    /// What its reader should know at once.
    pub notes: Vec<String>,
}

/// The source of what the machine says of itself.
const REPORTED: &str = "reported by the machine (hwloc)";

/// A level that holds less than this share of what is reported is not what is reported.
const FULL: f64 = 0.75;

/// All cores together get at least this share of what each gets alone, times their number, where memory is not the limit.
const UNLIMITED: f64 = 0.85;

/// Writes the model `name` of a machine of this shape.
pub fn write(
    name: &str,
    topology: &Topology,
    shape: Shape,
    calibration: &Calibration,
    thoroughness: Thoroughness,
) -> Written {
    let siblings = hidden_siblings(&shape, calibration);
    let shape = siblings.clone().unwrap_or(shape);
    let mut writer = Writer {
        similar: most_similar(&shape),
        levels: matched(&curve::levels(&calibration.curve), &shape),
        hidden: siblings.is_some(),
        node_memory: topology.nodes().iter().filter_map(|node| node.memory).min(),
        shape,
        calibration,
        text: String::new(),
        notes: vec![],
    };
    writer.head(name, topology, thoroughness);
    writer.shape();
    writer.core();
    writer.translation();
    writer.caches();
    writer.coherence();
    writer.memory();
    writer.links();
    writer.rest();
    Written {
        text: writer.text,
        notes: writer.notes,
    }
}

/// The shape with siblings, where what the machine shows as two cores proved to be one.
fn hidden_siblings(shape: &Shape, calibration: &Calibration) -> Option<Shape> {
    let share = |&(relation, pair): &(Relation, _)| {
        let pair: &PairMeasurement = &pair;
        relation != Relation::SameCore && pair.siblings() && pair.pus.0.0.abs_diff(pair.pus.1.0) == 1
    };
    calibration
        .pairs
        .iter()
        .any(share)
        .then(|| shape.with_hidden_siblings())
        .flatten()
}

/// The model of pinfold's own whose private caches are nearest in size, and of those the one with the most similar number
/// of levels and cores.
fn most_similar(shape: &Shape) -> Model {
    let distance = |model: &Model| {
        let private = model.caches.iter().zip(&shape.caches).take(2);
        let sizes: f64 = private
            .map(|(one, other)| ratio(one.size.value().0 as f64, other.size.unwrap_or(1) as f64))
            .sum();
        let levels = model.caches.len().abs_diff(shape.caches.len()) as f64;
        10.0 * (sizes + levels) + ratio(model.cores() as f64, shape.cores() as f64)
    };
    builtin_names()
        .filter_map(builtin)
        .min_by(|one, other| distance(one).total_cmp(&distance(other)))
        .expect("pinfold comes with models")
}

/// How far two positive numbers are apart, as a factor's logarithm.
fn ratio(one: f64, other: f64) -> f64 {
    (one / other).ln().abs()
}

struct Writer<'a> {
    similar: Model,
    levels: Seen,
    hidden: bool,
    /// Bytes of the smallest node.
    node_memory: Option<u64>,
    shape: Shape,
    calibration: &'a Calibration,
    text: String,
    notes: Vec<String>,
}

impl Writer<'_> {
    fn table(&mut self, name: &str) {
        let _ = write!(self.text, "\n{name}\n");
    }

    /// `key = { value, source = "..." }`.
    fn number(&mut self, key: &str, value: &str, source: &str) {
        let source = source.replace('\\', "\\\\").replace('"', "\\\"");
        let _ = writeln!(self.text, "{key} = {{ {value}, source = \"{source}\" }}");
    }

    fn count(&mut self, key: &str, count: usize, source: &str) {
        self.number(key, &format!("count = {count}"), source);
    }

    fn nanoseconds(&mut self, key: &str, seconds: f64, source: &str) {
        self.number(key, &format!("ns = {}", digits(seconds * 1e9)), source);
    }

    fn head(&mut self, name: &str, topology: &Topology, thoroughness: Thoroughness) {
        let stolen = match self.calibration.stolen {
            Some(share) => format!(
                "A hypervisor took {:.1} % of the processor time meanwhile.",
                100.0 * share
            ),
            None => "Whether a hypervisor took time meanwhile is not known.".to_owned(),
        };
        let quick = match thoroughness {
            Thoroughness::Quick => "\n# Measured quickly: what lies beyond the last cache is not to be trusted.",
            Thoroughness::Full => "",
        };
        let _ = write!(
            self.text,
            "# Measured by `pinfold calibrate --model` on CPU {}. {stolen}{quick}\n\
             # What could not be measured is taken from the most similar model, {}.\n\
             name = {}\nsummary = {}\n",
            self.calibration.pu,
            self.similar.name,
            toml_string(name),
            toml_string(&summary(topology)),
        );
    }

    fn shape(&mut self) {
        let shape = self.shape.clone();
        let throughput = self.calibration.pairs.iter().find(|(_, pair)| pair.siblings());
        let cores = match (&throughput, self.hidden) {
            (Some((_, pair)), true) => {
                let source = format!(
                    "measured: CPUs {} and {} together do {:.2} times the work of one, and so share a core, though the \
                     machine shows them as two",
                    pair.pus.0, pair.pus.1, pair.throughput
                );
                self.notes.push(source.trim_start_matches("measured: ").to_owned());
                source
            }
            _ => match self
                .calibration
                .pairs
                .iter()
                .find(|(relation, _)| *relation != Relation::SameCore)
            {
                Some((_, pair)) => format!(
                    "{REPORTED}; measured: CPUs {} and {} together do {:.2} times the work of one, and so are two cores",
                    pair.pus.0, pair.pus.1, pair.throughput
                ),
                None => REPORTED.to_owned(),
            },
        };
        self.table("[shape]");
        self.count("packages", shape.packages, REPORTED);
        self.count("nodes", shape.nodes, REPORTED);
        self.count("cores_per_package", shape.cores_per_package, &cores);
        self.count("threads_per_core", shape.threads_per_core, &cores);
        let pus: Vec<String> = shape.numbering.iter().map(ToString::to_string).collect();
        self.number("pu_numbering", &format!("pus = [{}]", pus.join(", ")), REPORTED);
    }

    fn core(&mut self) {
        let calibration = self.calibration;
        let similar = self.similar.core.clone();
        self.table("[core]");
        self.number(
            "frequency",
            &format!("ghz = {}", digits(calibration.frequency.value * 1e-9)),
            &measured("additions that need each other", calibration.frequency),
        );
        let loops = &calibration.instruction;
        let cycles: Vec<f64> = loops
            .iter()
            .map(|one| one.value * calibration.frequency.value)
            .collect();
        let mean = (cycles.iter().map(|cycles| cycles.ln()).sum::<f64>() / cycles.len() as f64).exp();
        let each: Vec<String> = cycles.iter().map(|&cycles| digits(cycles)).collect();
        self.number(
            "base_cpi",
            &format!("cycles = {}", digits(mean)),
            &format!(
                "measured: geometric mean of {} loops (a triad, a sum, unforeseen branches, registers)",
                each.join(", ")
            ),
        );
        for (key, number) in [
            ("reorder_buffer", &similar.reorder_buffer),
            ("store_buffer", &similar.store_buffer),
        ] {
            self.count(key, number.value().0 as usize, &as_in(&self.similar, number));
        }
        self.count(
            "line_fill_buffers",
            whole(calibration.parallelism.value),
            &measured(
                "loads from memory that need nothing of each other, against one",
                calibration.parallelism,
            ),
        );
        self.number(
            "locked",
            &format!(
                "cycles = {}",
                digits(calibration.atomic.value * calibration.frequency.value)
            ),
            &measured("atomic additions to a line in the L1", calibration.atomic),
        );
        if let Some((_, pair)) = calibration.pairs.iter().find(|(_, pair)| !pair.siblings()) {
            let what = format!(
                "atomic additions on CPU {} to lines that CPU {} has modified take {:.1} ns each, and a load of such a line \
                 {:.1} ns",
                pair.pus.1,
                pair.pus.0,
                1e9 * pair.atomic.value,
                1e9 * pair.modified.value
            );
            let at_once = pair.modified.value / pair.atomic.value;
            self.count("locked_misses", whole(at_once), &measured(&what, pair.atomic));
        }
        let threads = self.shape.threads_per_core;
        if threads > 1 {
            let pair = calibration
                .pairs
                .iter()
                .find(|(relation, pair)| *relation == Relation::SameCore || pair.siblings());
            match (pair, similar.smt_throughput.as_ref()) {
                (Some((_, pair)), _) => {
                    let source = format!(
                        "measured: mean of four loops on CPUs {} and {} together, relative to one",
                        pair.pus.0, pair.pus.1
                    );
                    let ratio = digits(pair.throughput.clamp(1.0, threads as f64));
                    self.number("smt_throughput", &format!("ratio = {ratio}"), &source);
                }
                (None, Some(number)) => {
                    let source = as_in(&self.similar, number);
                    self.number("smt_throughput", &format!("ratio = {}", number.value().0), &source);
                }
                (None, None) => self.number(
                    "smt_throughput",
                    "ratio = 1.25",
                    "assumed: between the 1.15 and 1.3 that Marr et al. (Intel Technology Journal, 2002) give for \
                     Hyper-Threading",
                ),
            }
        }
    }

    fn translation(&mut self) {
        let similar = self.similar.tlb.clone();
        let frequency = self.calibration.frequency.value;
        self.table("[tlb]");
        let ways = similar.ways.value().0;
        if let Some((entries, walk)) = translation(&self.calibration.translation) {
            let sets = (entries / f64::from(ways)).log2().round().max(0.0).exp2();
            self.count(
                "entries",
                whole(sets) * ways as usize,
                "measured: the most pages of which less than half of the walks are to be waited for",
            );
            self.count("ways", ways as usize, &as_in(&self.similar, &similar.ways));
            self.number(
                "walk",
                &format!("cycles = {}", digits(walk * frequency)),
                "measured: a load in small pages over one in huge pages, the middle of all numbers of pages beyond twice \
                 the entries",
            );
        } else {
            self.count(
                "entries",
                similar.entries.value().0 as usize,
                &as_in(&self.similar, &similar.entries),
            );
            self.count("ways", ways as usize, &as_in(&self.similar, &similar.ways));
            let walk = similar.walk.value().cycles(self.similar.frequency());
            self.number(
                "walk",
                &format!("cycles = {}", digits(walk)),
                &as_in(&self.similar, &similar.walk),
            );
        }
    }

    fn memory_latency(&self) -> (f64, String) {
        let calibration = self.calibration;
        if let Some(level) = self.levels.memory {
            let source = format!(
                "measured: loads that need each other, in huge pages; {:.1} % between the least and the most of the plateau",
                100.0 * level.spread
            );
            return (level.latency, source);
        }
        let last = calibration.curve.last().map_or(1e-7, |point| point.latency.value);
        (last, "assumed: as the largest memory that was measured".to_owned())
    }

    fn coherence(&mut self) {
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
                let what = format!("CPU {} loads what only CPU {} has", pair.pus.1, pair.pus.0);
                self.nanoseconds(&format!("{key}_clean"), pair.clean.value, &measured(&what, pair.clean));
                let what = format!(
                    "CPU {} loads what CPU {} has modified; half a round trip of one line between them takes {:.0} ns",
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
                    let source = "assumed: as long as memory takes; there was no pair of CPUs to measure it between";
                    self.nanoseconds(&format!("{key}_{which}"), memory, source);
                }
            }
        }
    }

    fn local(&self) -> impl Iterator<Item = &BandwidthMeasurement> {
        self.calibration.bandwidth.iter().filter(|one| one.from == one.home)
    }

    fn memory(&mut self) {
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
                let what = format!("{} cores at once, the best of reads, writes and copies", all.cores);
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
                    "{}; measured: {cores} of our cores get {:.1} GB/s, each as much as alone, so that memory gives more",
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

    fn links(&mut self) {
        let nodes: Vec<_> = {
            let mut nodes: Vec<_> = self.calibration.nodes.iter().map(|one| one.from).collect();
            nodes.sort_unstable();
            nodes.dedup();
            nodes
        };
        if self.shape.nodes < 2 {
            return;
        }
        let alike = self.similar.links.first().cloned();
        for one in 0..self.shape.nodes {
            for other in one + 1..self.shape.nodes {
                let pair = nodes.get(one).zip(nodes.get(other));
                let latency = pair.and_then(|(&a, &b)| self.way(a, b));
                let bandwidth = pair.and_then(|(&a, &b)| {
                    let across = |found: &&BandwidthMeasurement| {
                        (found.from, found.home) == (a, b) || (found.from, found.home) == (b, a)
                    };
                    let rates = self.calibration.bandwidth.iter().filter(across);
                    rates.max_by(|x, y| x.rate.value.total_cmp(&y.rate.value)).copied()
                });
                self.table("[[link]]");
                let _ = writeln!(
                    self.text,
                    "between = [[{one}, {other}]]\nsource = \"reported by the machine (hwloc): its nodes; that each is \
                     linked to each is assumed\""
                );
                match (bandwidth, &alike) {
                    (Some(found), _) => {
                        let what = format!("{} cores of one node on the memory of the other", found.cores);
                        self.number(
                            "bandwidth",
                            &format!("gb_per_s = {}", digits(found.rate.value * 1e-9)),
                            &measured(&what, found.rate),
                        );
                    }
                    (None, Some(link)) => {
                        let source = as_in(&self.similar, &link.bandwidth);
                        self.number(
                            "bandwidth",
                            &format!("gb_per_s = {}", digits(link.bandwidth.value().0 * 1e-9)),
                            &source,
                        );
                    }
                    (None, None) => self.number("bandwidth", "gb_per_s = 20", "assumed"),
                }
                match latency {
                    Some(seconds) => self.nanoseconds(
                        "latency",
                        seconds.max(1e-9),
                        "measured: loads from the other node's memory over loads from the own",
                    ),
                    None => self.nanoseconds(
                        "latency",
                        60e-9,
                        "assumed: the middle of the models that come with pinfold",
                    ),
                }
            }
        }
    }

    /// What the way between two nodes adds to a load, mean of both directions.
    fn way(&self, a: pinfold_core::NodeId, b: pinfold_core::NodeId) -> Option<f64> {
        let find = |from, home| {
            let nodes = &self.calibration.nodes;
            nodes
                .iter()
                .find(|one| (one.from, one.home) == (from, home))
                .map(|one| one.latency.value)
        };
        Some((find(a, b)? - find(a, a)? + find(b, a)? - find(b, b)?) / 2.0)
    }

    fn system(&mut self) {
        let system = self.calibration.system;
        self.table("[system]");
        self.nanoseconds(
            "call",
            system.call.value,
            &measured("a futex call that wakes nobody", system.call),
        );
        let calls = format!(
            "two threads on one CPU wake each other in turn, {:.0} ns each time, less the two calls",
            1e9 * system.hand_over.value
        );
        let switch = (system.hand_over.value - 2.0 * system.call.value).max(system.call.value);
        self.nanoseconds("switch", switch, &measured(&calls, system.hand_over));
        self.nanoseconds(
            "poll",
            POLLS * system.pause.value,
            &measured(
                "a hundred pauses, as GCC's libgomp polls where threads outnumber CPUs",
                system.pause,
            ),
        );
    }

    fn rest(&mut self) {
        let similar = self.similar.clone();
        self.table("[prefetch]");
        let calibration = self.calibration;
        let (memory, _) = self.memory_latency();
        let names: Vec<String> = similar.prefetch.present.value().0.iter().map(word).collect();
        let seen = calibration.foreseen.value < memory / 2.0;
        let foreseen = format!(
            "a load from memory in ascending order takes {} ns, in random order {} ns",
            digits(1e9 * calibration.foreseen.value),
            digits(1e9 * memory)
        );
        let source = format!(
            "{}; measured: {foreseen}, so that there are {}",
            as_in(&similar, &similar.prefetch.present),
            if seen { "prefetchers" } else { "none to be seen" }
        );
        self.number("present", &format!("names = [{}]", names.join(", ")), &source);
        let distance = &similar.prefetch.streamer_distance;
        self.count(
            "streamer_distance",
            distance.value().0 as usize,
            &as_in(&similar, distance),
        );
        let reading = self.local().find(|one| one.cores == 1 && one.traffic == Traffic::Read);
        if let Some(reading) = reading {
            let lines = reading.rate.value * memory / LINE_BYTES as f64;
            let what = format!(
                "one core reads {:.1} GB/s, which are so many lines in the {} ns that memory takes (Little's law)",
                reading.rate.value * 1e-9,
                digits(1e9 * memory)
            );
            self.count("in_flight", whole(lines), &measured(&what, reading.rate));
        } else {
            let number = &similar.prefetch.in_flight;
            self.count("in_flight", number.value().0 as usize, &as_in(&similar, number));
        }
        self.system();
        self.table("[energy]");
        let energy = &similar.energy;
        for (key, watts) in [
            ("package_idle", &energy.package_idle),
            ("core_active", &energy.core_active),
            ("memory_idle", &energy.memory_idle),
        ] {
            self.number(
                key,
                &format!("watts = {}", digits(watts.value().0)),
                &as_in(&similar, watts),
            );
        }
        for (key, joules) in [
            ("instruction", &energy.instruction),
            ("link_line", &energy.link_line),
            ("memory_line", &energy.memory_line),
        ] {
            let value = format!("nj = {}", digits(joules.value().0 * 1e9));
            self.number(key, &value, &as_in(&similar, joules));
        }
    }
}

/// Polls of a thread that waits for its team, before it sleeps, where threads outnumber CPUs: what libgomp does when nothing is
/// said about its waiting (config/linux/wait.h and env.c of GCC).
const POLLS: f64 = 100.0;

/// The entries of the last translation buffer, and the seconds that a walk takes; `None` where it was not seen to end.
///
/// The cost of a load in small pages over one in huge ones is first nothing, then that of the second-level buffer, then that of
/// walks. The entries are the most pages whose cost is nearer to that before than to that of walks.
fn translation(points: &[TranslationPoint]) -> Option<(f64, f64)> {
    let cost = |point: &TranslationPoint| (point.small.value - point.huge.value).max(0.0);
    let beyond: Vec<f64> = points.iter().rev().take(4).map(cost).collect();
    let mut sorted = beyond.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    let walk = *sorted.get(sorted.len() / 2)?;
    let huge = points.first()?.huge.value;
    if walk < huge {
        return None;
    }
    let entries = points.iter().rfind(|point| cost(point) < walk / 2.0)?.pages as f64;
    Some((entries, walk))
}
