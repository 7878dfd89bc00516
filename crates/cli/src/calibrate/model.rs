//! Writes the model of a measured machine.
//!
//! A number is `measured: ...` with how far the middle piece was from the best, or `reported ...` by the machine, or, where
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

use super::shape::Shape;
use pinfold_core::{Topology, summary};
use pinfold_linux::calibrate::curve::{self, Level};
use pinfold_linux::calibrate::{
    BandwidthMeasurement, Calibration, Measured, Relation, Thoroughness, TranslationPoint, inclusive,
};
use pinfold_sim::model::{Inclusion, LINE_BYTES, Model, Sourced, builtin, builtin_names};
use std::fmt::Write as _;

/// A model's text, and what its reader should know at once.
pub(super) struct Written {
    pub(super) text: String,
    pub(super) notes: Vec<String>,
}

/// A level that holds less than this share of what is reported is not what is reported.
const FULL: f64 = 0.75;

/// All cores together get at least this share of what each gets alone, times their number, where memory is not the limit.
const UNLIMITED: f64 = 0.85;

/// Writes the model `name`.
pub(super) fn write(
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
        let pair: &pinfold_linux::calibrate::PairMeasurement = &pair;
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

/// What was seen of each cache, and of memory.
struct Seen {
    caches: Vec<Option<Level>>,
    memory: Option<Level>,
}

/// The levels of the curve, each given to the cache whose reported size is nearest to what it holds, in order.
fn matched(levels: &[Level], shape: &Shape) -> Seen {
    let Some((&memory, caches)) = levels.split_last() else {
        return Seen {
            caches: vec![None; shape.caches.len()],
            memory: None,
        };
    };
    let mut seen: Vec<Option<Level>> = vec![None; shape.caches.len()];
    let mut first = 0;
    for (number, &level) in caches.iter().enumerate() {
        // Every further level of the curve needs a cache of its own.
        let end = shape.caches.len().saturating_sub(caches.len() - 1 - number).max(first);
        let size = |at: usize| shape.caches[at].size.unwrap_or(1) as f64;
        let held = level.capacity.unwrap_or(1).max(1) as f64;
        let nearest = (first..end).min_by(|&a, &b| ratio(size(a), held).total_cmp(&ratio(size(b), held)));
        if let Some(at) = nearest {
            seen[at] = Some(level);
            first = at + 1;
        }
    }
    Seen {
        caches: seen,
        // What one level shows cannot be told apart.
        memory: (levels.len() > 1).then_some(memory),
    }
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

/// A number in a few digits that count.
fn digits(value: f64) -> String {
    let before = value.abs().log10().floor().max(-12.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and 15"
    )]
    let decimals = (3.0 - before).clamp(0.0, 15.0) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// A measurement as a source.
fn measured(what: &str, figure: Measured) -> String {
    format!(
        "measured: {what}; best of {}, the middle one {:.1} % off",
        figure.pieces,
        100.0 * figure.spread.abs()
    )
}

/// Bytes as a size.
fn size(bytes: u64) -> String {
    match bytes {
        _ if bytes.is_multiple_of(1 << 30) => format!("gib = {}", bytes >> 30),
        _ if bytes.is_multiple_of(1 << 20) => format!("mib = {}", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("kib = {}", bytes >> 10),
        _ => format!("bytes = {bytes}"),
    }
}

/// Bytes for a person.
fn bytes_in_words(bytes: f64) -> String {
    if bytes >= f64::from(1 << 20) {
        format!("{:.1} MiB", bytes / f64::from(1 << 20))
    } else {
        format!("{:.0} KiB", bytes / f64::from(1 << 10))
    }
}

/// The source of a number that is taken over from a similar model.
fn as_in<T>(model: &Model, number: &Sourced<T>) -> String {
    format!("assumed: as {} ({})", model.name, number.source())
}

/// The word for one of several choices, in quotes.
fn word(choice: &impl serde::Serialize) -> String {
    serde_json::to_string(choice).unwrap_or_default()
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
        const REPORTED: &str = "reported by the machine (hwloc)";
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

    fn caches(&mut self) {
        const REPORTED: &str = "reported by the machine (hwloc)";
        let frequency = self.calibration.frequency.value;
        let last = self.shape.caches.len() - 1;
        let mut before = 0;
        for (at, cache) in self.shape.caches.clone().into_iter().enumerate() {
            let alike = self.similar.caches[at.min(self.similar.caches.len() - 1)].clone();
            let seen = self.levels.caches[at];
            self.table("[[cache]]");

            let (inclusion, inclusion_source) = match inclusive(cache.level) {
                _ if at == 0 => (Inclusion::NonInclusive, "the first level".to_owned()),
                Some(true) => (Inclusion::Inclusive, "reported by the processor (CPUID)".to_owned()),
                Some(false) if alike.inclusion.value() != Inclusion::Inclusive => {
                    let source = format!("{}; CPUID: not inclusive", as_in(&self.similar, &alike.inclusion));
                    (alike.inclusion.value(), source)
                }
                Some(false) => (Inclusion::NonInclusive, "reported by the processor (CPUID)".to_owned()),
                None => (alike.inclusion.value(), as_in(&self.similar, &alike.inclusion)),
            };
            let ways = cache.ways.unwrap_or(0) as usize;
            let (ways, ways_source) = if ways > 0 {
                (ways, REPORTED.to_owned())
            } else {
                (alike.ways.value().0 as usize, as_in(&self.similar, &alike.ways))
            };
            let (bytes, source) = self.capacity(at, inclusion, before, ways);
            self.number("size", &size(bytes), &source);
            let divides = |ways: &usize| bytes.is_multiple_of(*ways as u64 * LINE_BYTES);
            match (1..=ways).rev().find(divides) {
                Some(fitting) if fitting < ways => {
                    self.count(
                        "ways",
                        fitting,
                        "assumed: the most of which the size is a whole number of sets",
                    );
                }
                _ => self.count("ways", ways, &ways_source),
            }
            let cores = if at == last { self.shape.cores_per_domain } else { 1 };
            self.count("cores", cores, REPORTED);
            match seen {
                Some(level) => {
                    let source = format!(
                        "measured: loads that need each other, in huge pages; {:.1} % between the least and the most of the \
                         plateau",
                        100.0 * level.spread
                    );
                    // What is on the core goes with its clock; what is beyond does not.
                    if at < last {
                        self.number(
                            "latency",
                            &format!("cycles = {}", digits(level.latency * frequency)),
                            &source,
                        );
                    } else {
                        self.nanoseconds("latency", level.latency, &source);
                    }
                }
                None => {
                    let cycles = alike.latency.value().cycles(self.similar.frequency());
                    let source = format!(
                        "{}; its own latency did not show in the measurement",
                        as_in(&self.similar, &alike.latency)
                    );
                    self.number("latency", &format!("cycles = {}", digits(cycles)), &source);
                }
            }
            self.number(
                "inclusion",
                &format!("policy = {}", word(&inclusion)),
                &inclusion_source,
            );
            let energy = as_in(&self.similar, &alike.energy);
            self.number(
                "energy",
                &format!("nj = {}", digits(alike.energy.value().0 * 1e9)),
                &energy,
            );
            before = bytes;
        }
    }

    /// A cache's size and where that is from. `before` is the size of the cache nearer to the core.
    fn capacity(&mut self, at: usize, inclusion: Inclusion, before: u64, ways: usize) -> (u64, String) {
        const REPORTED: &str = "reported by the machine (hwloc)";
        let level = self.shape.caches[at].level;
        let reported = self.shape.caches[at].size;
        let held = self.levels.caches[at].and_then(|level| level.capacity);
        let own = held.map(|held| {
            let beside = if inclusion == Inclusion::Victim { before } else { 0 };
            held.saturating_sub(beside).max(before / 2) as f64
        });
        let whole_sets = |bytes: f64| {
            let set = ways as f64 * LINE_BYTES as f64;
            (whole(bytes / set) as u64).max(1) * ways as u64 * LINE_BYTES
        };
        match (reported, own) {
            (Some(reported), Some(own)) if own < FULL * reported as f64 => {
                let bytes = whole_sets(own);
                let of = format!(
                    "{} of the {} that the machine reports",
                    bytes_in_words(bytes as f64),
                    bytes_in_words(reported as f64)
                );
                self.notes.push(format!(
                    "the L{level} cache holds {of}: others use the rest, or it is kept from us"
                ));
                (
                    bytes,
                    format!("measured: {of}; others use the rest, or it is kept from us"),
                )
            }
            (Some(reported), Some(own)) => (
                reported,
                format!("{REPORTED}; measured: at least {}", bytes_in_words(own)),
            ),
            (Some(reported), None) => match self.hidden_capacity(at, before) {
                Some((held, alike)) if (held as f64) < FULL * reported as f64 => {
                    let bytes = whole_sets(held as f64);
                    let of = format!(
                        "{} of the {} that the machine reports",
                        bytes_in_words(bytes as f64),
                        bytes_in_words(reported as f64)
                    );
                    self.notes
                        .push(format!("the L{level} cache hardly shows; it holds about {of}"));
                    let source = format!(
                        "measured: about {of}, by the latencies between those of the caches before and of memory, if its \
                         own is that of {alike}"
                    );
                    (bytes, source)
                }
                _ => (
                    reported,
                    format!("{REPORTED}; its size did not show in the measurement"),
                ),
            },
            (None, Some(own)) => (
                whole_sets(own),
                "measured: the most that it was seen to hold".to_owned(),
            ),
            (None, None) => {
                let alike = &self.similar.caches[at.min(self.similar.caches.len() - 1)];
                (
                    whole_sets(alike.size.value().0 as f64),
                    as_in(&self.similar, &alike.size),
                )
            }
        }
    }

    /// What a cache holds that has no plateau of its own, if its latency is that of the similar model, whose name comes with
    /// it. It is private to nobody, so what the caches before it hold is taken off.
    fn hidden_capacity(&self, at: usize, before: u64) -> Option<(u64, String)> {
        let memory = self.levels.memory?;
        let alike = self.similar.caches.get(at)?;
        let latency = alike.latency.value().cycles(self.similar.frequency()) / self.similar.frequency().0;
        let first = self.calibration.curve.partition_point(|point| point.bytes <= before);
        let held = curve::held(&self.calibration.curve[first..], latency, memory.latency);
        (latency < memory.latency).then(|| (held.saturating_sub(before).max(before / 4), self.similar.name.clone()))
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
        let reading = self
            .local()
            .find(|one| one.cores == 1 && one.traffic == pinfold_linux::calibrate::Traffic::Read);
        match reading {
            Some(reading) => {
                let lines = reading.rate.value * memory / LINE_BYTES as f64;
                let what = format!(
                    "one core reads {:.1} GB/s, which are so many lines in the {} ns that memory takes (Little's law)",
                    reading.rate.value * 1e-9,
                    digits(1e9 * memory)
                );
                self.count("in_flight", whole(lines), &measured(&what, reading.rate));
            }
            None => {
                let number = &similar.prefetch.in_flight;
                self.count("in_flight", number.value().0 as usize, &as_in(&similar, number));
            }
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

fn toml_string(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The nearest whole number, at least one.
fn whole(number: f64) -> usize {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive; `as` saturates"
    )]
    let whole = number.round().max(1.0) as usize;
    whole
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::{NodeId, PuId};
    use pinfold_linux::calibrate::{CurvePoint, NodeLatency, PairMeasurement, SystemMeasurement, Traffic};
    use pinfold_linux::topology::{Source, read};
    use pinfold_sim::model::Latency;
    use proptest::prelude::*;

    fn figure(value: f64) -> Measured {
        Measured {
            value,
            spread: 0.01,
            pieces: 9,
        }
    }

    /// A machine of two nodes; `held` bytes stay in its last cache, of the 32 MiB that it reports.
    fn topology() -> Topology {
        let text = "package:2 [numa] l3:1(size=33554432) l2:4(size=1048576) l1d:1(size=32768) core:1 pu:2";
        read(&Source::Synthetic(text.to_owned())).unwrap()
    }

    fn calibration(held: u64, hidden: bool) -> Calibration {
        let pair = |other, throughput| PairMeasurement {
            pus: (PuId(0), PuId(other)),
            ping_pong: figure(60e-9),
            modified: figure(70e-9),
            clean: figure(65e-9),
            throughput,
        };
        let levels = [(32u64 << 10, 2e-9), (1 << 20, 6e-9), (held, 25e-9)];
        let sizes = (0..90).map(|step: i32| (4096.0 * 2f64.powf(f64::from(step) / 6.0)) as u64);
        let latency = |bytes: u64| {
            levels
                .iter()
                .find(|&&(size, _)| bytes <= size)
                .map_or(100e-9, |&(_, latency)| latency)
        };
        Calibration {
            pu: PuId(0),
            frequency: figure(2.5e9),
            instruction: vec![figure(0.1e-9), figure(0.2e-9)],
            atomic: figure(8e-9),
            system: SystemMeasurement {
                call: figure(150e-9),
                hand_over: figure(1.8e-6),
                pause: figure(16e-9),
            },
            curve: sizes
                .filter(|&bytes| !hidden || bytes <= 1 << 20 || bytes > held)
                .map(|bytes| CurvePoint {
                    bytes,
                    latency: figure(latency(bytes)),
                })
                .collect(),
            parallelism: figure(11.6),
            foreseen: figure(6e-9),
            translation: (4..14)
                .map(|power| {
                    let pages = 1u64 << power;
                    TranslationPoint {
                        pages,
                        small: figure(if pages > 1536 { 22e-9 } else { 6e-9 }),
                        huge: figure(5e-9),
                    }
                })
                .collect(),
            pairs: vec![
                (Relation::SameCore, pair(1, 1.3)),
                (Relation::SameDomain, pair(2, 2.0)),
                (Relation::OtherPackage, pair(8, 2.0)),
            ],
            bandwidth: [(0, 0, 1, 10e9), (0, 0, 4, 25e9), (0, 1, 4, 15e9)]
                .map(|(from, home, cores, rate)| BandwidthMeasurement {
                    from: NodeId(from),
                    home: NodeId(home),
                    traffic: Traffic::Read,
                    cores,
                    rate: figure(rate),
                })
                .to_vec(),
            nodes: [(0, 0, 100e-9), (0, 1, 160e-9), (1, 0, 170e-9), (1, 1, 100e-9)]
                .map(|(from, home, seconds)| NodeLatency {
                    from: NodeId(from),
                    home: NodeId(home),
                    latency: figure(seconds),
                })
                .to_vec(),
            stolen: Some(0.01),
            huge_share: Some(1.0),
        }
    }

    fn model(calibration: &Calibration) -> (Model, String) {
        let topology = topology();
        let shape = Shape::of(&topology).unwrap();
        let written = write("mine", &topology, shape, calibration, Thoroughness::Full);
        match Model::parse("mine.toml", &written.text) {
            Ok(model) => (model, written.text),
            Err(error) => panic!("{error}\n{}", written.text),
        }
    }

    #[test]
    fn what_was_measured_is_in_the_model_and_says_so() {
        let (model, text) = model(&calibration(32 << 20, false));
        assert!((model.frequency().0 - 2.5e9).abs() < 1e6);
        assert_eq!(model.core.line_fill_buffers.value().0, 12);
        assert_eq!(model.tlb.entries.value().0.next_power_of_two(), 1024);
        assert_eq!(model.caches[2].size.value().0, 32 << 20);
        assert_eq!(model.memory.latency.value(), Latency::Nanoseconds(100.0));
        assert!((model.memory.bandwidth.value().0 - 25e9).abs() < 1e7);
        assert!((model.core.smt_throughput.unwrap().value().0 - 1.3).abs() < 1e-9);
        // The mean of both ways, less the own memory.
        assert_eq!(model.links[0].latency.value(), Latency::Nanoseconds(65.0));
        assert!((model.links[0].bandwidth.value().0 - 15e9).abs() < 1e7);
        for line in text.lines().filter(|line| line.contains("source = ")) {
            let known = ["measured: ", "reported ", "assumed", "the first level"];
            assert!(
                known.iter().any(|word| line.contains(&format!("source = \"{word}"))),
                "{line}"
            );
        }
    }

    #[test]
    fn a_cache_that_holds_less_than_it_reports_is_as_large_as_it_was_seen_to_be() {
        let topology = topology();
        let shape = Shape::of(&topology).unwrap();
        let written = write(
            "mine",
            &topology,
            shape,
            &calibration(8 << 20, false),
            Thoroughness::Full,
        );
        let model = Model::parse("mine.toml", &written.text).unwrap();
        let size = model.caches[2].size.value().0;
        assert!((6 << 20..=8 << 20).contains(&size), "{size}");
        assert!(
            written.notes.iter().any(|note| note.contains("32.0 MiB")),
            "{:?}",
            written.notes
        );
    }

    #[test]
    fn memory_is_no_limit_where_each_core_gets_as_much_as_alone() {
        let mut calibration = calibration(32 << 20, false);
        for one in &mut calibration.bandwidth {
            one.rate = figure(10e9 * one.cores as f64);
        }
        let (model, _) = model(&calibration);
        assert!(model.memory.bandwidth.source().is_assumed());
        assert!(model.memory.bandwidth.value().0 >= 40e9);
    }

    #[test]
    fn two_cpus_that_prove_to_share_a_core_are_siblings() {
        let topology = read(&Source::Synthetic(
            "package:1 l3:1(size=33554432) l2:2(size=1048576) l1d:1(size=32768) core:1 pu:1".to_owned(),
        ))
        .unwrap();
        let mut calibration = calibration(32 << 20, false);
        calibration.nodes.clear();
        calibration.bandwidth.truncate(1);
        calibration.pairs.truncate(1);
        calibration.pairs[0].0 = Relation::SameDomain;
        let shape = Shape::of(&topology).unwrap();
        let written = write("mine", &topology, shape, &calibration, Thoroughness::Full);
        let model = Model::parse("mine.toml", &written.text).unwrap();
        assert_eq!((model.cores(), model.threads_per_core()), (1, 2));
        assert_eq!(model.core_of_pu(1), Some((0, 1)));
        assert!(written.notes.iter().any(|note| note.contains("share a core")));
    }

    proptest! {
        #[test]
        fn any_measurement_of_a_sound_machine_becomes_a_model(
            held in 21u32..26,
            hidden in any::<bool>(),
            frequency in 1e9f64..5e9,
            parallelism in 1f64..60.0,
        ) {
            let mut calibration = calibration(1 << held, hidden);
            calibration.frequency = figure(frequency);
            calibration.parallelism = figure(parallelism);
            model(&calibration);
        }
    }
}
