//! The rows of a data set, the metrics and models that they share, and the order of the columns.
//!
//! The same rows give the same bytes: the file has no time, path or name of the current machine.

use crate::parquet_table::{self, Values};
use crate::row::{JoinedColumns, Row, TrafficColumns, WindowColumns};
use parquet::errors::ParquetError;
use pinfold_core::MetricColumn;
use std::collections::BTreeMap;
use std::io::Write;

/// The version in docs/formats/data-sets.md that describes the file.
pub const VERSION: &str = "2";

/// A data set.
pub struct DataSet {
    /// The name of the table's schema.
    pub schema: &'static str,
    /// The metrics.
    pub metrics: Vec<MetricColumn>,
    /// The hash of each simulated machine's model.
    pub models: BTreeMap<String, String>,
    /// The rows.
    pub rows: Vec<Row>,
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
        let metadata = vec![
            ("dataset", VERSION.to_owned()),
            ("simulated", simulated.to_string()),
            ("models", serde_json::to_string(&self.models)?),
            ("metrics", serde_json::to_string(&self.metrics)?),
        ];
        parquet_table::write(self.schema, &self.columns(), metadata, file)?;
        Ok(())
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        reason = "numbers of threads and nodes are small"
    )]
    fn columns(&self) -> Vec<(String, Values)> {
        let rows = &self.rows;
        let text = |value: fn(&Row) -> &String| Values::Text(rows.iter().map(|row| value(row).clone()).collect());
        let bytes = |value: fn(&WindowColumns) -> Option<u64>| {
            Values::OptionalFloat(
                rows.iter()
                    .map(|row| value(&row.window).map(|bytes| bytes as f64))
                    .collect(),
            )
        };
        let counts = |value: fn(&TrafficColumns) -> &Option<Vec<u64>>| {
            let floats = |counts: &Vec<u64>| counts.iter().map(|&count| count as f64).collect();
            Values::OptionalFloats(
                rows.iter()
                    .map(|row| value(&row.traffic).as_ref().map(floats))
                    .collect(),
            )
        };
        let region = rows.iter().map(|row| row.program.region.clone()).collect();
        let threads = rows.iter().map(|row| row.configuration.num_threads as i32).collect();
        let mut columns = vec![
            ("machine", text(|row| &row.program.machine)),
            ("program", text(|row| &row.program.program)),
            ("region", Values::OptionalText(region)),
            ("num_threads", Values::Number(threads)),
        ];
        if let Some(layouts) = rows
            .iter()
            .map(|row| row.configuration.layout.as_ref())
            .collect::<Option<Vec<_>>>()
        {
            let nodes = layouts.iter().map(|layout| layout.num_nodes as i32).collect();
            let maps = layouts.iter().map(|layout| layout.thread_map.clone()).collect();
            columns.push(("num_nodes", Values::Number(nodes)));
            columns.push(("thread_map", Values::OptionalText(maps)));
        }
        columns.extend([
            ("page_map", text(|row| &row.configuration.page_map)),
            ("prefetch", text(|row| &row.configuration.prefetch)),
            ("time_s", Values::Float(rows.iter().map(|row| row.time_s).collect())),
            ("pinning", text(|row| &row.configuration.pinning)),
            (
                "simulated",
                Values::Flag(rows.iter().map(|row| row.program.simulated).collect()),
            ),
            ("command", text(|row| &row.program.command)),
            ("recording", text(|row| &row.program.recording)),
            ("window_bytes", bytes(|window| window.window_bytes)),
            ("footprint_bytes", bytes(|window| window.footprint_bytes)),
            ("llc_bytes", bytes(|window| window.llc_bytes)),
            (
                "window_covers",
                Values::OptionalFlag(rows.iter().map(|row| row.window.covers).collect()),
            ),
            (
                "unrecorded_wait_share",
                Values::OptionalFloat(rows.iter().map(|row| row.window.unrecorded_wait_share).collect()),
            ),
            (
                "time_error",
                Values::OptionalFloat(rows.iter().map(|row| row.sampling.time_error).collect()),
            ),
            (
                "simulated_share",
                Values::OptionalFloat(rows.iter().map(|row| row.sampling.simulated_share).collect()),
            ),
            ("node_bytes", counts(|traffic| &traffic.node_bytes)),
            ("link_bytes", counts(|traffic| &traffic.link_bytes)),
        ]);
        let joined: Option<Vec<&JoinedColumns>> = rows.iter().map(|row| row.joined.as_ref()).collect();
        if let Some(joined) = joined.filter(|joined| !joined.is_empty()) {
            let text = |value: fn(&JoinedColumns) -> &Option<String>| {
                Values::OptionalText(joined.iter().map(|one| value(one).clone()).collect())
            };
            let flags = |value: fn(&JoinedColumns) -> bool| Values::Flag(joined.iter().map(|one| value(one)).collect());
            let commands = joined.iter().map(|one| one.command.clone()).collect();
            columns.extend([
                ("joined_command", Values::Text(commands)),
                ("region_object", text(|one| &one.region_object)),
                ("region_offset", text(|one| &one.region_offset)),
                ("region_complete", flags(|one| one.region_complete)),
                ("baseline", flags(|one| one.baseline)),
            ]);
        }
        let mut columns: Vec<_> = columns
            .into_iter()
            .map(|(name, values)| (name.to_owned(), values))
            .collect();
        for (place, metric) in self.metrics.iter().enumerate() {
            let values = rows.iter().map(|row| row.metrics[place]).collect();
            columns.push((metric.name.clone(), Values::OptionalFloat(values)));
        }
        columns
    }
}
