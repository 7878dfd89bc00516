//! Writes the model of a measured machine.
//!
//! The source of a number is one of:
//!
//! - `measured: ...`, with the distance of the median run from the best one;
//! - `reported ...`, by the machine;
//! - `assumed: as ...`, from pinfold's most similar model, for a number that cannot be measured.
//!
//! Some figures combine several measurements:
//!
//! - A cache's size is the reported one, unless the measurement shows that it holds less. The measured capacity of a
//!   victim cache includes the nearer levels, so their size is subtracted.
//! - Memory's bandwidth is the bandwidth of all cores together, if it is clearly less than the sum of what each gets
//!   alone. Otherwise the cores were the limit, and the bandwidth of memory is not known.
//! - A core's prefetches in flight are given by Little's law: the lines per second that one core reads in ascending
//!   order, multiplied by the latency of memory.
//! - Cycles per instruction: the geometric mean of the measured loops.

mod caches;
pub mod curve;
mod memory;
mod operation;
mod processor;
mod shape;
#[cfg(test)]
mod tests;
mod text;

pub use shape::{Shape, ShapeError};

use caches::{MatchedLevels, matched};
use pinfold_core::measurement::{Calibration, PairMeasurement, Relation, Thoroughness};
use pinfold_core::{Topology, summary};
use pinfold_sim::model::{Model, Sourced, builtin, builtin_names};
use std::fmt::Write as _;
use text::{digits, toml_string};

/// A model's text, with notes.
pub struct Written {
    /// The text of the model's file.
    pub text: String,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// The source of numbers that the machine reports.
const REPORTED: &str = "reported by the machine (hwloc)";

/// The measured size of a level is written if it is less than this share of the reported size.
const FULL: f64 = 0.75;

/// If memory is not the limit, all cores together get at least this share of the sum of what each gets alone.
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
        similar: most_similar(
            &shape,
            calibration.processor.as_ref().and_then(processor::microarchitecture_of),
        ),
        levels: matched(&curve::levels(&calibration.curve), &shape),
        hidden: siblings.is_some(),
        node_memory: topology.nodes_with_pus().filter_map(|node| node.memory).min(),
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
    writer.prefetch();
    writer.system();
    writer.energy();
    Written {
        text: writer.text,
        notes: writer.notes,
    }
}

/// The shape with siblings, if the measurement shows that two cores of the reported shape are one.
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

/// The built-in model with the same core, or else the one whose private caches are nearest in size, and among equals
/// the one with the most similar numbers of levels and cores.
fn most_similar(shape: &Shape, microarchitecture: Option<&str>) -> Model {
    let other_core = |model: &Model| {
        let own = model.core.microarchitecture.as_ref().map(Sourced::value);
        microarchitecture.is_some() && own.as_ref().map(|name| name.0.as_str()) != microarchitecture
    };
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
        .min_by(|one, other| {
            let cores = other_core(one).cmp(&other_core(other));
            cores.then(distance(one).total_cmp(&distance(other)))
        })
        .expect("pinfold has built-in models")
}

/// The distance of two positive numbers, as the logarithm of their ratio.
fn ratio(one: f64, other: f64) -> f64 {
    (one / other).ln().abs()
}

struct Writer<'a> {
    similar: Model,
    levels: MatchedLevels,
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
                "A hypervisor took {:.1} % of the processor time during the measurement.",
                100.0 * share
            ),
            None => "Whether a hypervisor took processor time during the measurement is not known.".to_owned(),
        };
        let quick = match thoroughness {
            Thoroughness::Quick => "\n# Measured quickly: the figures beyond the last cache are not reliable.",
            Thoroughness::Full => "",
        };
        let _ = write!(
            self.text,
            "# Measured by `pinfold calibrate --model` on CPU {}. {stolen}{quick}\n\
             # Numbers that cannot be measured are those of the most similar model, {}.\n\
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
                    "measured: CPUs {} and {} together do {:.2} times the work of one, so they share a core, though the \
                     machine reports two",
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
                    "{REPORTED}; measured: CPUs {} and {} together do {:.2} times the work of one, so they are two cores",
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
}
