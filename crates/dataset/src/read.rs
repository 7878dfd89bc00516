//! Reads a data set: from the columns of a file, which others may have written, to rows.
//!
//! Versions 2 and 3 are read. Columns that this crate does not know are left out, and columns that a file does not have
//! are missing in all rows.

use crate::data_set::{DataSet, TimeUnit, VERSION};
use crate::parquet_columns::{Column, ParquetColumns};
use crate::row::{
    ConfigurationColumns, JoinedColumns, Layout, MachineState, MeasuredColumns, ProgramColumns, Row, SamplingColumns,
    TrafficColumns, WindowColumns,
};
use parquet::errors::ParquetError;
use pinfold_core::text::one_line;
use serde::de::DeserializeOwned;
use std::fs::File;

/// The oldest version that is read. It has no measured rows and no `threads_per_core`.
const OLDEST: &str = "2";

/// Why a file is not a data set. The caller knows the file.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It is not Parquet, it is damaged, or it is compressed by a method that pinfold does not have.
    #[error("{0}; `pinfold sweep -o` writes a data set")]
    Parquet(#[from] ParquetError),
    /// It is another table.
    #[error("it is Parquet, but not a data set of `pinfold sweep`: it has no metadata of pinfold")]
    NoDataSet,
    /// It has another version.
    #[error("it is a data set of version {0}, and this pinfold reads {OLDEST} and {VERSION}: sweep again, or update")]
    Version(String),
    /// Its own metadata are damaged.
    #[error("its metadata `pinfold.{key}` are damaged ({why}): write it again")]
    Metadata {
        /// The key.
        key: &'static str,
        /// What is wrong.
        why: String,
    },
    /// It lacks a column.
    #[error("it has no column `{0}`, which each data set has")]
    NoColumn(String),
    /// A column has values of another type.
    #[error("the column `{name}` has the type {found}, and has {wanted} in a data set")]
    Type {
        /// The column.
        name: String,
        /// The documented kind of values.
        wanted: &'static str,
        /// The type in the file.
        found: String,
    },
    /// A column has fewer or more values than the table has rows.
    #[error("the column `{name}` is incomplete: the file is damaged")]
    Damaged {
        /// The column.
        name: String,
    },
    /// A value is missing or impossible.
    #[error("row {row} has no valid `{name}`: {wanted} is needed")]
    Value {
        /// The column.
        name: String,
        /// The row, from 1.
        row: usize,
        /// What a valid value is.
        wanted: &'static str,
    },
    /// It is larger than any data set.
    #[error("it has more than {most} {what}, the most of a data set: split it")]
    TooLarge {
        /// What is counted.
        what: &'static str,
        /// The limit.
        most: usize,
    },
}

impl DataSet {
    /// Reads a data set of version 2 or 3.
    ///
    /// # Errors
    ///
    /// The file is not a data set, is damaged, or lacks a value that each row has.
    pub fn read(file: File) -> Result<Self, ReadError> {
        let mut file = ParquetColumns::open(file)?;
        match file.metadata("pinfold.dataset") {
            Some(OLDEST | VERSION) => {}
            Some(other) => return Err(ReadError::Version(one_line(other).into_owned())),
            None => return Err(ReadError::NoDataSet),
        }
        let time_unit = time_unit(&file)?;
        let mut data_set = Self {
            schema: file.schema().to_owned(),
            metrics: json(&file, "metrics")?,
            models: json(&file, "models")?,
            topologies: json(&file, "topologies")?,
            time_unit,
            rows: vec![],
        };
        let columns = Columns::read(&mut file, &data_set)?;
        data_set.rows = (0..file.rows()).map(|at| columns.row(at)).collect::<Result<_, _>>()?;
        Ok(data_set)
    }
}

fn time_unit(file: &ParquetColumns) -> Result<TimeUnit, ReadError> {
    let Some(found) = file.metadata("pinfold.time_unit") else {
        return Ok(TimeUnit::Seconds);
    };
    let known = TimeUnit::ALL.into_iter().find(|unit| unit.name() == found);
    known.ok_or_else(|| ReadError::Metadata {
        key: "time_unit",
        why: format!("`{}` is neither s nor none", one_line(found)),
    })
}

/// A value of the metadata; the default if it is absent.
fn json<T: DeserializeOwned + Default>(file: &ParquetColumns, key: &'static str) -> Result<T, ReadError> {
    match file.metadata(&format!("pinfold.{key}")) {
        None => Ok(T::default()),
        Some(text) => serde_json::from_str(text).map_err(|error| ReadError::Metadata {
            key,
            why: error.to_string(),
        }),
    }
}

/// A column that a file may lack.
struct Optional<T>(Option<Column<T>>);

impl<T: Clone> Optional<T> {
    fn at(&self, row: usize) -> Option<T> {
        self.0.as_ref().and_then(|values| values[row].clone())
    }
}

/// A column with a value in each row.
struct Required<T> {
    name: String,
    wanted: &'static str,
    values: Column<T>,
}

impl<T: Clone> Required<T> {
    fn new(name: &str, wanted: &'static str, values: Option<Column<T>>) -> Result<Self, ReadError> {
        Ok(Self {
            name: name.to_owned(),
            wanted,
            values: values.ok_or_else(|| ReadError::NoColumn(name.to_owned()))?,
        })
    }

    fn at(&self, row: usize) -> Result<T, ReadError> {
        self.checked(row, Some)
    }

    fn checked<V>(&self, row: usize, valid: impl FnOnce(T) -> Option<V>) -> Result<V, ReadError> {
        let value = self.values[row].clone().and_then(valid);
        value.ok_or_else(|| ReadError::Value {
            name: self.name.clone(),
            row: row + 1,
            wanted: self.wanted,
        })
    }
}

/// The columns of all rows.
struct Columns {
    program: ProgramTexts,
    configuration: ConfigurationValues,
    time: Required<f64>,
    window: WindowValues,
    sampling: [Optional<f64>; 2],
    measured: MeasuredValues,
    traffic: [Optional<Vec<f64>>; 2],
    joined: Option<JoinedValues>,
    metrics: Vec<Optional<f64>>,
}

struct ProgramTexts {
    machine: Required<String>,
    program: Required<String>,
    region: Optional<String>,
    simulated: Required<bool>,
    command: Required<String>,
    recording: Optional<String>,
}

struct ConfigurationValues {
    num_threads: Required<i64>,
    num_nodes: Optional<i64>,
    threads_per_core: Optional<i64>,
    thread_map: Optional<String>,
    page_map: Required<String>,
    prefetch: Required<String>,
    pinning: Optional<String>,
}

struct WindowValues {
    /// `window_bytes`, `footprint_bytes` and `llc_bytes`.
    bytes: [Optional<f64>; 3],
    covers: Optional<bool>,
    unrecorded_wait_share: Optional<f64>,
}

struct MeasuredValues {
    runs: Optional<i64>,
    spread: Optional<f64>,
    /// `load_of_others`, `steal_share` and `frequency_hz`.
    state: [Optional<f64>; 3],
    throttled: Optional<bool>,
    free_memory_bytes: Optional<Vec<f64>>,
}

struct JoinedValues {
    command: Optional<String>,
    region_object: Optional<String>,
    region_offset: Optional<String>,
    region_complete: Required<bool>,
    baseline: Required<bool>,
}

const TEXT: &str = "text";
const FLAG: &str = "true or false";

impl Columns {
    fn read(file: &mut ParquetColumns, data_set: &DataSet) -> Result<Self, ReadError> {
        let floats = |file: &ParquetColumns, name: &str| file.floats(name).map(Optional);
        let time = data_set.time_unit.column();
        Ok(Self {
            program: ProgramTexts::read(file)?,
            configuration: ConfigurationValues::read(file)?,
            time: Required::new(time, "a number of 0 or more", file.floats(time)?)?,
            window: WindowValues::read(file)?,
            sampling: [floats(file, "time_error")?, floats(file, "simulated_share")?],
            measured: MeasuredValues::read(file)?,
            traffic: [Optional(file.lists("node_bytes")?), Optional(file.lists("link_bytes")?)],
            joined: JoinedValues::read(file)?,
            metrics: data_set
                .metrics
                .iter()
                .map(|metric| floats(file, &metric.name))
                .collect::<Result<_, _>>()?,
        })
    }

    fn row(&self, at: usize) -> Result<Row, ReadError> {
        let [time_error, simulated_share] = &self.sampling;
        let [node_bytes, link_bytes] = &self.traffic;
        let program = self.program.row(at)?;
        Ok(Row {
            measured: (!program.simulated).then(|| self.measured.row(at)).flatten(),
            program,
            configuration: self.configuration.row(at)?,
            time: self.time.checked(at, |time| (time >= 0.0).then_some(time))?,
            window: self.window.row(at),
            sampling: SamplingColumns {
                time_error: time_error.at(at),
                simulated_share: simulated_share.at(at),
            },
            traffic: TrafficColumns {
                node_bytes: node_bytes.at(at).map(counts),
                link_bytes: link_bytes.at(at).map(counts),
            },
            joined: self.joined.as_ref().map_or(Ok(None), |joined| joined.row(at))?,
            metrics: self.metrics.iter().map(|metric| metric.at(at)).collect(),
        })
    }
}

impl ProgramTexts {
    fn read(file: &mut ParquetColumns) -> Result<Self, ReadError> {
        let mut required = |name: &str| Required::new(name, TEXT, file.texts(name)?);
        Ok(Self {
            machine: required("machine")?,
            program: required("program")?,
            command: required("command")?,
            region: Optional(file.texts("region")?),
            recording: Optional(file.texts("recording")?),
            simulated: Required::new("simulated", FLAG, file.flags("simulated")?)?,
        })
    }

    fn row(&self, at: usize) -> Result<ProgramColumns, ReadError> {
        Ok(ProgramColumns {
            machine: self.machine.at(at)?,
            program: self.program.at(at)?,
            region: self.region.at(at),
            simulated: self.simulated.at(at)?,
            command: self.command.at(at)?,
            recording: self.recording.at(at),
        })
    }
}

impl ConfigurationValues {
    fn read(file: &mut ParquetColumns) -> Result<Self, ReadError> {
        let threads = file.numbers("num_threads")?;
        Ok(Self {
            num_threads: Required::new("num_threads", "a number of 1 or more", threads)?,
            num_nodes: Optional(file.numbers("num_nodes")?),
            threads_per_core: Optional(file.numbers("threads_per_core")?),
            thread_map: Optional(file.texts("thread_map")?),
            page_map: Required::new("page_map", TEXT, file.texts("page_map")?)?,
            prefetch: Required::new("prefetch", TEXT, file.texts("prefetch")?)?,
            pinning: Optional(file.texts("pinning")?),
        })
    }

    fn row(&self, at: usize) -> Result<ConfigurationColumns, ReadError> {
        Ok(ConfigurationColumns {
            num_threads: self.num_threads.checked(at, positive)?,
            layout: self.num_nodes.at(at).and_then(positive).map(|num_nodes| Layout {
                num_nodes,
                threads_per_core: self.threads_per_core.at(at).and_then(positive),
                thread_map: self.thread_map.at(at),
            }),
            page_map: self.page_map.at(at)?,
            prefetch: self.prefetch.at(at)?,
            pinning: self.pinning.at(at),
        })
    }
}

impl WindowValues {
    fn read(file: &ParquetColumns) -> Result<Self, ReadError> {
        let floats = |name: &str| file.floats(name).map(Optional);
        Ok(Self {
            bytes: [
                floats("window_bytes")?,
                floats("footprint_bytes")?,
                floats("llc_bytes")?,
            ],
            covers: Optional(file.flags("window_covers")?),
            unrecorded_wait_share: floats("unrecorded_wait_share")?,
        })
    }

    fn row(&self, at: usize) -> WindowColumns {
        let [window_bytes, footprint_bytes, llc_bytes] = &self.bytes;
        WindowColumns {
            window_bytes: window_bytes.at(at).map(count),
            footprint_bytes: footprint_bytes.at(at).map(count),
            llc_bytes: llc_bytes.at(at).map(count),
            covers: self.covers.at(at),
            unrecorded_wait_share: self.unrecorded_wait_share.at(at),
        }
    }
}

impl MeasuredValues {
    fn read(file: &ParquetColumns) -> Result<Self, ReadError> {
        let floats = |name: &str| file.floats(name).map(Optional);
        Ok(Self {
            runs: Optional(file.numbers("runs")?),
            spread: floats("spread")?,
            state: [
                floats("load_of_others")?,
                floats("steal_share")?,
                floats("frequency_hz")?,
            ],
            throttled: Optional(file.flags("throttled")?),
            free_memory_bytes: Optional(file.lists("free_memory_bytes")?),
        })
    }

    /// `None` if nothing is known.
    fn row(&self, at: usize) -> Option<MeasuredColumns> {
        let [load_of_others, steal_share, frequency_hz] = &self.state;
        let found = MeasuredColumns {
            runs: self.runs.at(at).and_then(positive),
            spread: self.spread.at(at),
            state: MachineState {
                load_of_others: load_of_others.at(at),
                steal_share: steal_share.at(at),
                frequency_hz: frequency_hz.at(at),
                throttled: self.throttled.at(at),
                free_memory_bytes: self.free_memory_bytes.at(at).map(counts),
            },
        };
        (found != MeasuredColumns::default()).then_some(found)
    }
}

impl JoinedValues {
    /// `None` if the number of threads is not a part of the configurations.
    fn read(file: &mut ParquetColumns) -> Result<Option<Self>, ReadError> {
        let Some(commands) = file.texts("joined_command")? else {
            return Ok(None);
        };
        let flag = |name: &str| Required::new(name, FLAG, file.flags(name)?);
        Ok(Some(Self {
            command: Optional(Some(commands)),
            region_complete: flag("region_complete")?,
            baseline: flag("baseline")?,
            region_object: Optional(file.texts("region_object")?),
            region_offset: Optional(file.texts("region_offset")?),
        }))
    }

    /// `None` for a row of a data set without these columns, in a file that joins several.
    fn row(&self, at: usize) -> Result<Option<JoinedColumns>, ReadError> {
        let Some(command) = self.command.at(at) else {
            return Ok(None);
        };
        Ok(Some(JoinedColumns {
            command,
            region_object: self.region_object.at(at),
            region_offset: self.region_offset.at(at),
            region_complete: self.region_complete.at(at)?,
            baseline: self.baseline.at(at)?,
        }))
    }
}

/// A number of things of which there is at least one.
fn positive(value: i64) -> Option<usize> {
    usize::try_from(value).ok().filter(|&value| value > 0)
}

/// A number of bytes. The file has it as a floating-point number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a negative number becomes 0, and one that is too large the largest"
)]
fn count(value: f64) -> u64 {
    value.round() as u64
}

fn counts(values: Vec<f64>) -> Vec<u64> {
    values.into_iter().map(count).collect()
}
