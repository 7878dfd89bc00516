//! The columns of a data set from its rows, in their order. A group of columns is absent if no row has it.

use crate::data_set::DataSet;
use crate::parquet_table::Values;
use crate::row::{JoinedColumns, Layout, MeasuredColumns, Row, WindowColumns};

/// The columns with their names.
pub(crate) fn columns(data_set: &DataSet) -> Vec<(String, Values)> {
    let rows = &data_set.rows;
    let mut columns = configuration(rows);
    columns.extend([
        (
            data_set.time_unit.column(),
            Values::Float(rows.iter().map(|row| row.time).collect()),
        ),
        ("pinning", optional_text(rows, |row| row.configuration.pinning.as_ref())),
        (
            "simulated",
            Values::Flag(rows.iter().map(|row| row.program.simulated).collect()),
        ),
        ("command", text(rows, |row| &row.program.command)),
        ("recording", optional_text(rows, |row| row.program.recording.as_ref())),
    ]);
    columns.extend(window(rows));
    columns.extend([
        ("time_error", optional_float(rows, |row| row.sampling.time_error)),
        (
            "simulated_share",
            optional_float(rows, |row| row.sampling.simulated_share),
        ),
    ]);
    columns.extend(measured(rows));
    columns.extend([
        (
            "node_bytes",
            bytes_by_place(rows, |row| row.traffic.node_bytes.as_ref()),
        ),
        (
            "link_bytes",
            bytes_by_place(rows, |row| row.traffic.link_bytes.as_ref()),
        ),
    ]);
    columns.extend(joined(rows));
    let mut columns: Vec<(String, Values)> = columns
        .into_iter()
        .map(|(name, values)| (name.to_owned(), values))
        .collect();
    for (place, metric) in data_set.metrics.iter().enumerate() {
        let values = rows.iter().map(|row| row.metrics[place]).collect();
        columns.push((metric.name.clone(), Values::OptionalFloat(values)));
    }
    columns
}

type Columns = Vec<(&'static str, Values)>;

/// Which machine and program, and the configuration.
fn configuration(rows: &[Row]) -> Columns {
    let mut columns = vec![
        ("machine", text(rows, |row| &row.program.machine)),
        ("program", text(rows, |row| &row.program.program)),
        ("region", optional_text(rows, |row| row.program.region.as_ref())),
        (
            "num_threads",
            Values::Number(rows.iter().map(|row| number(row.configuration.num_threads)).collect()),
        ),
    ];
    if rows.iter().any(|row| row.configuration.layout.is_some()) {
        let of_layout = |value: fn(&Layout) -> Option<usize>| {
            optional_number(rows, move |row| row.configuration.layout.as_ref().and_then(value))
        };
        columns.extend([
            ("num_nodes", of_layout(|layout| Some(layout.num_nodes))),
            ("threads_per_core", of_layout(|layout| layout.threads_per_core)),
            (
                "thread_map",
                optional_text(rows, |row| row.configuration.layout.as_ref()?.thread_map.as_ref()),
            ),
        ]);
    }
    columns.extend([
        ("page_map", text(rows, |row| &row.configuration.page_map)),
        ("prefetch", text(rows, |row| &row.configuration.prefetch)),
    ]);
    columns
}

fn window(rows: &[Row]) -> Columns {
    let bytes = |value: fn(&WindowColumns) -> Option<u64>| {
        optional_float(rows, move |row| value(&row.window).map(|bytes| bytes as f64))
    };
    vec![
        ("window_bytes", bytes(|window| window.window_bytes)),
        ("footprint_bytes", bytes(|window| window.footprint_bytes)),
        ("llc_bytes", bytes(|window| window.llc_bytes)),
        ("window_covers", optional_flag(rows, |row| row.window.covers)),
        (
            "unrecorded_wait_share",
            optional_float(rows, |row| row.window.unrecorded_wait_share),
        ),
    ]
}

fn measured(rows: &[Row]) -> Columns {
    if rows.iter().all(|row| row.measured.is_none()) {
        return vec![];
    }
    let float = |value: fn(&MeasuredColumns) -> Option<f64>| {
        optional_float(rows, move |row| row.measured.as_ref().and_then(value))
    };
    vec![
        ("runs", optional_number(rows, |row| row.measured.as_ref()?.runs)),
        ("spread", float(|measured| measured.spread)),
        ("load_of_others", float(|measured| measured.state.load_of_others)),
        ("steal_share", float(|measured| measured.state.steal_share)),
        ("frequency_hz", float(|measured| measured.state.frequency_hz)),
        (
            "throttled",
            optional_flag(rows, |row| row.measured.as_ref()?.state.throttled),
        ),
        (
            "free_memory_bytes",
            bytes_by_place(rows, |row| row.measured.as_ref()?.state.free_memory_bytes.as_ref()),
        ),
    ]
}

/// These exist if all rows have them.
fn joined(rows: &[Row]) -> Columns {
    let joined: Option<Vec<&JoinedColumns>> = rows.iter().map(|row| row.joined.as_ref()).collect();
    let Some(joined) = joined.filter(|joined| !joined.is_empty()) else {
        return vec![];
    };
    let text = |value: fn(&JoinedColumns) -> &Option<String>| {
        Values::OptionalText(joined.iter().map(|one| value(one).clone()).collect())
    };
    let flags = |value: fn(&JoinedColumns) -> bool| Values::Flag(joined.iter().map(|one| value(one)).collect());
    let commands = joined.iter().map(|one| one.command.clone()).collect();
    vec![
        ("joined_command", Values::Text(commands)),
        ("region_object", text(|one| &one.region_object)),
        ("region_offset", text(|one| &one.region_offset)),
        ("region_complete", flags(|one| one.region_complete)),
        ("baseline", flags(|one| one.baseline)),
    ]
}

fn text(rows: &[Row], value: impl Fn(&Row) -> &String) -> Values {
    Values::Text(rows.iter().map(|row| value(row).clone()).collect())
}

fn optional_text(rows: &[Row], value: impl Fn(&Row) -> Option<&String>) -> Values {
    Values::OptionalText(rows.iter().map(|row| value(row).cloned()).collect())
}

fn optional_number(rows: &[Row], value: impl Fn(&Row) -> Option<usize>) -> Values {
    Values::OptionalNumber(rows.iter().map(|row| value(row).map(number)).collect())
}

fn optional_flag(rows: &[Row], value: impl Fn(&Row) -> Option<bool>) -> Values {
    Values::OptionalFlag(rows.iter().map(value).collect())
}

fn optional_float(rows: &[Row], value: impl Fn(&Row) -> Option<f64>) -> Values {
    Values::OptionalFloat(rows.iter().map(value).collect())
}

/// Bytes by node or by link.
fn bytes_by_place(rows: &[Row], value: impl Fn(&Row) -> Option<&Vec<u64>>) -> Values {
    let floats = |counts: &Vec<u64>| counts.iter().map(|&count| count as f64).collect();
    Values::OptionalFloats(rows.iter().map(|row| value(row).map(floats)).collect())
}

/// A number of threads, nodes or runs, which are small.
fn number(value: usize) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}
