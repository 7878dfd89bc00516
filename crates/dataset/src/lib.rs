//! Data sets: measurements or simulations of programs in many configurations, as one Parquet file
//! (docs/formats/data-sets.md). pinfold writes data sets by this crate only; the Python package reads them.
//!
//! - `row`: the columns of one row, in groups;
//! - `data_set`: all rows with the metrics and models that they share, and the order of the columns;
//! - `parquet_table`: columns of values as Parquet.

mod data_set;
mod parquet_table;
mod row;

pub use data_set::{DataSet, VERSION, WriteError};
pub use row::{
    ConfigurationColumns, JoinedColumns, Layout, ProgramColumns, Row, SamplingColumns, TrafficColumns, WindowColumns,
};
