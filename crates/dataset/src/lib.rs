//! Data sets: measurements or simulations of programs in many configurations, as one Parquet file
//! (docs/formats/data-sets.md). pinfold writes and reads data sets by this crate; the Python package reads them, too.
//!
//! - `row`: the columns of one row, in groups;
//! - `data_set`: all rows with the metrics, models and topologies that they share;
//! - `columns`: the order of the columns, for writing;
//! - `read`: from a file, which others may have written, to rows;
//! - `parquet_table`: columns of values as Parquet, and `parquet_columns` from Parquet to columns of values.

mod columns;
mod data_set;
mod parquet_columns;
mod parquet_table;
mod read;
mod row;

pub use data_set::{DataSet, TimeUnit, VERSION, WriteError};
pub use read::ReadError;
pub use row::{
    ConfigurationColumns, JoinedColumns, Layout, MachineState, MeasuredColumns, ProgramColumns, Row, SamplingColumns,
    TrafficColumns, WindowColumns,
};
