//! A core's latencies and execution ports for each class of instructions. A core is a TOML file whose rows name their
//! sources.
//!
//! The row of a class gives the cycles from operands to result, the alternative ports of an operation, the cycles that
//! it occupies its port, and its share of the pipeline's width. Loads and stores use separate ports in addition. The
//! machine's model gives the latency of the L1 cache and the size of the reorder buffer.

use crate::class::Class;
use serde::Deserialize;
use std::collections::BTreeMap;

include!(concat!(env!("OUT_DIR"), "/microarchitectures.rs"));

/// The latencies and ports of a core.
#[derive(Clone, Debug, PartialEq)]
pub struct Microarchitecture {
    pub(crate) name: String,
    pub(crate) pipeline: Pipeline,
    /// The rows, indexed by class.
    pub(crate) rows: Vec<Row>,
    pub(crate) load_ports: u32,
    pub(crate) store_ports: u32,
    /// The cycles that a load or a store occupies its port.
    pub(crate) access_busy: f64,
    pub(crate) ports: usize,
}

/// The parts of a core that all instructions use.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pipeline {
    pub(crate) width: f64,
    pub(crate) scheduler: f64,
    pub(crate) mispredict: f64,
    pub(crate) vector_load: f64,
    pub(crate) forward: f64,
    pub(crate) fuses_compare: bool,
    pub(crate) fuses_arithmetic: bool,
    pub(crate) busy_256: f64,
    pub(crate) busy_512: f64,
}

/// The cost of a class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) latency: f64,
    /// A bit for each port. 0 if the class uses no port.
    pub(crate) ports: u32,
    pub(crate) busy: f64,
    pub(crate) operations: f64,
}

/// Why a file is not a valid microarchitecture.
#[derive(Debug, thiserror::Error)]
pub enum MicroarchitectureError {
    /// The text is not TOML, or it has unknown keys.
    #[error("{name}: {error}")]
    Syntax {
        /// The file.
        name: String,
        /// The parser's message.
        error: toml::de::Error,
    },
    /// A value is missing or invalid.
    #[error("{name}: `{key}` {what}")]
    Value {
        /// The file.
        name: String,
        /// The key.
        key: String,
        /// The reason.
        what: &'static str,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    #[serde(rename = "summary")]
    _summary: String,
    pipeline: RawPipeline,
    class: BTreeMap<Class, RawRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPipeline {
    width: Number,
    scheduler: Number,
    mispredict: Number,
    vector_load: Number,
    forward: Number,
    fuses_compare: Flag,
    fuses_arithmetic: Flag,
    busy_256: Number,
    busy_512: Number,
    load: Ports,
    store: Ports,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Number {
    #[serde(alias = "count", alias = "ratio")]
    cycles: f64,
    source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Flag {
    yes: bool,
    source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ports {
    ports: String,
    source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRow {
    cycles: f64,
    ports: String,
    #[serde(default = "one")]
    busy: f64,
    #[serde(default = "one")]
    operations: f64,
    source: String,
}

fn one() -> f64 {
    1.0
}

/// The names of ports, in the order of their first mention.
#[derive(Default)]
struct Names(Vec<String>);

impl Names {
    /// The bits of ports that a text lists.
    fn bits(&mut self, text: &str) -> Option<u32> {
        let mut bits = 0;
        for name in text.split_whitespace() {
            let place = self.0.iter().position(|known| known == name).unwrap_or_else(|| {
                self.0.push(name.to_owned());
                self.0.len() - 1
            });
            bits |= 1u32.checked_shl(u32::try_from(place).ok()?)?;
        }
        Some(bits)
    }
}

impl Microarchitecture {
    /// The names of the built-in microarchitectures.
    pub fn builtin_names() -> impl Iterator<Item = &'static str> {
        FILES.iter().map(|(name, _)| *name)
    }

    /// The built-in microarchitecture `name`. `None` if there is no such file.
    pub fn builtin(name: &str) -> Option<Self> {
        let (name, text) = FILES.iter().find(|(known, _)| *known == name)?;
        Some(Self::parse(&format!("microarchitectures/{name}.toml"), text).expect("the built-in files are tested"))
    }

    /// The name in the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads the text of the file `name`. Fails if it is not TOML, if a class or a source is missing, or if a number is
    /// invalid.
    pub fn parse(name: &str, text: &str) -> Result<Self, MicroarchitectureError> {
        let file: File = toml::from_str(text).map_err(|error| MicroarchitectureError::Syntax {
            name: name.to_owned(),
            error,
        })?;
        let refuse = |key: &str, what| MicroarchitectureError::Value {
            name: name.to_owned(),
            key: key.to_owned(),
            what,
        };
        let raw = &file.pipeline;
        let number = |key: &str, number: &Number| {
            if number.source.trim().is_empty() {
                return Err(refuse(key, "has no source"));
            }
            if !number.cycles.is_finite() || number.cycles < 0.0 {
                return Err(refuse(key, "is negative or not a number"));
            }
            Ok(number.cycles)
        };
        let flag = |key: &str, flag: &Flag| match flag.source.trim() {
            "" => Err(refuse(key, "has no source")),
            _ => Ok(flag.yes),
        };
        let pipeline = Pipeline {
            width: number("pipeline.width", &raw.width)?,
            scheduler: number("pipeline.scheduler", &raw.scheduler)?,
            mispredict: number("pipeline.mispredict", &raw.mispredict)?,
            vector_load: number("pipeline.vector_load", &raw.vector_load)?,
            forward: number("pipeline.forward", &raw.forward)?,
            fuses_compare: flag("pipeline.fuses_compare", &raw.fuses_compare)?,
            fuses_arithmetic: flag("pipeline.fuses_arithmetic", &raw.fuses_arithmetic)?,
            busy_256: number("pipeline.busy_256", &raw.busy_256)?,
            busy_512: number("pipeline.busy_512", &raw.busy_512)?,
        };
        if pipeline.width < 1.0 {
            return Err(refuse("pipeline.width", "is below 1"));
        }
        let mut names = Names::default();
        let mut bits = |key: &str, ports: &str, source: &str| match (names.bits(ports), source.trim()) {
            (_, "") => Err(refuse(key, "has no source")),
            (None, _) => Err(refuse(key, "has more than 32 ports")),
            (Some(bits), _) => Ok(bits),
        };
        let load_ports = bits("pipeline.load", &raw.load.ports, &raw.load.source)?;
        let store_ports = bits("pipeline.store", &raw.store.ports, &raw.store.source)?;
        let mut rows = vec![];
        for class in Class::ALL {
            let key = format!("class.{class:?}");
            let raw = file.class.get(class).ok_or_else(|| refuse(&key, "is missing"))?;
            if [raw.cycles, raw.busy, raw.operations]
                .iter()
                .any(|value| !value.is_finite() || *value < 0.0)
            {
                return Err(refuse(&key, "has a negative number"));
            }
            rows.push(Row {
                latency: raw.cycles,
                ports: bits(&key, &raw.ports, &raw.source)?,
                busy: raw.busy,
                operations: raw.operations,
            });
        }
        Ok(Self {
            name: file.name,
            pipeline,
            rows,
            load_ports,
            store_ports,
            access_busy: 1.0,
            ports: names.0.len(),
        })
    }

    /// What one of `threads` siblings has of the core while all of them run: each operation takes its place in the
    /// pipeline and its port for `threads` times as long, and latencies stay.
    ///
    /// The siblings take turns: together they do at least as much as one alone.
    #[must_use]
    pub fn shared(&self, threads: usize) -> Self {
        let threads = threads.max(1) as f64;
        let mut shared = self.clone();
        shared.pipeline.width /= threads;
        shared.pipeline.scheduler /= threads;
        shared.access_busy *= threads;
        for row in &mut shared.rows {
            row.busy *= threads;
        }
        shared
    }

    pub(crate) fn row(&self, class: Class) -> &Row {
        &self.rows[class as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_microarchitecture_is_valid_and_has_the_name_of_its_file() {
        for (name, text) in FILES {
            match Microarchitecture::parse(name, text) {
                Ok(found) => assert_eq!(found.name, name),
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn a_class_without_a_row_or_a_source_is_refused() {
        let (_, text) = FILES[0];
        let without: String = text
            .lines()
            .filter(|line| !line.starts_with("alu "))
            .collect::<Vec<_>>()
            .join("\n");
        let error = Microarchitecture::parse("x", &without).unwrap_err();
        assert!(error.to_string().contains("Alu` is missing"), "{error}");
        let row = text.lines().find(|line| line.starts_with("alu ")).unwrap();
        let unsourced = text.replace(row, "alu = { cycles = 1, ports = \"a\", source = \" \" }");
        let error = Microarchitecture::parse("x", &unsourced).unwrap_err();
        assert!(error.to_string().contains("Alu` has no source"), "{error}");
    }
}
