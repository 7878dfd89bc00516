//! The rows of a data set, and what they share: the metrics, the models and topologies of the machines, and the unit of
//! the times.
//!
//! The same rows give the same bytes: the file has no time, path or name of the current machine.

use crate::columns::columns;
use crate::parquet_table;
use crate::row::Row;
use parquet::errors::ParquetError;
use pinfold_core::MetricColumn;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;

/// The version in docs/formats/data-sets.md that describes the file.
pub const VERSION: &str = "3";

/// A data set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DataSet {
    /// The name of the table's schema.
    pub schema: String,
    /// The metrics.
    pub metrics: Vec<MetricColumn>,
    /// The hash of each simulated machine's model.
    pub models: BTreeMap<String, String>,
    /// The topology of each machine, as `pinfold topo --json` writes it, or as `{"synthetic": "DESCRIPTION"}`.
    pub topologies: BTreeMap<String, Value>,
    /// The unit of the times.
    pub time_unit: TimeUnit,
    /// The rows.
    pub rows: Vec<Row>,
}

/// The unit of the times of a data set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeUnit {
    /// Seconds.
    #[default]
    Seconds,
    /// A unit that is not known. Times of the same program and region can be compared with each other.
    Unknown,
}

impl TimeUnit {
    /// All.
    pub(crate) const ALL: [Self; 2] = [Self::Seconds, Self::Unknown];

    /// The name in the metadata of a file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Unknown => "none",
        }
    }

    /// The name of the column.
    pub fn column(self) -> &'static str {
        match self {
            Self::Seconds => "time_s",
            Self::Unknown => "time",
        }
    }
}

/// The data set cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The file cannot be written.
    #[error(transparent)]
    Parquet(#[from] ParquetError),
    /// The metadata cannot be converted to JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

impl DataSet {
    /// Writes the data set.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn write(&self, file: impl Write + Send) -> Result<(), WriteError> {
        let simulated = self.rows.iter().any(|row| row.program.simulated) || !self.models.is_empty();
        let mut metadata = vec![
            ("dataset", VERSION.to_owned()),
            ("simulated", simulated.to_string()),
            ("time_unit", self.time_unit.name().to_owned()),
            ("models", serde_json::to_string(&self.models)?),
            ("metrics", serde_json::to_string(&self.metrics)?),
        ];
        if !self.topologies.is_empty() {
            metadata.push(("topologies", serde_json::to_string(&self.topologies)?));
        }
        parquet_table::write(&self.schema, &columns(self), metadata, file)?;
        Ok(())
    }
}
