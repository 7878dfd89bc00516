//! The data set: one Parquet file (docs/formats.md).
//!
//! It is written to a file of another name, forced to the disk and renamed, so that there is never half a data set. The
//! same rows give the same bytes: there is no time, place or name of this machine in it.

use super::journal::Row;
use super::plan::Plan;
use anyhow::{Context, Result};
use parquet::basic::{Compression, ConvertedType, LogicalType, Repetition, Type as PhysicalType, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int32Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};
use pinfold_sim::sweep::page_map_name;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// Which version of docs/formats.md describes the file.
const VERSION: &str = "1";

/// Values of a column that is no metric.
enum Values {
    Text(Vec<String>),
    /// Some may be missing.
    OptionalText(Vec<Option<String>>),
    Number(Vec<i32>),
    Flag(Vec<bool>),
    Float(Vec<f64>),
    /// A metric: some may be missing.
    OptionalFloat(Vec<Option<f64>>),
}

/// A metric of some of the machines.
#[derive(Serialize)]
struct MetricEntry<'a> {
    name: &'a str,
    unit: &'a str,
}

/// Writes the rows of all jobs, given in the order of the plan's jobs; how many there are.
pub(super) fn write(plan: &Plan, outcomes: &[&[Row]], path: &Path) -> Result<usize> {
    let columns = columns(plan, outcomes);
    let rows = outcomes.iter().map(|rows| rows.len()).sum();
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let temporary = Path::new(&temporary);
    let failure = || format!("{} cannot be written", path.display());
    let file = File::create(temporary).with_context(failure)?;
    write_columns(plan, &columns, file.try_clone().with_context(failure)?).with_context(failure)?;
    file.sync_all().with_context(failure)?;
    fs::rename(temporary, path).with_context(failure)?;
    // The new name is on the disk when its folder is.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))
        .and_then(|folder| folder.sync_all())
        .with_context(failure)?;
    Ok(rows)
}

/// One row with the job that it is of.
fn each<T>(plan: &Plan, outcomes: &[&[Row]], value: impl Fn(&super::plan::Job, &Row) -> T) -> Vec<T> {
    plan.jobs
        .iter()
        .zip(outcomes)
        .flat_map(|(job, rows)| rows.iter().map(move |row| (job, row)))
        .map(|(job, row)| value(job, row))
        .collect()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "numbers of threads and nodes are small"
)]
fn columns(plan: &Plan, outcomes: &[&[Row]]) -> Vec<(String, Values)> {
    let program = |job: &super::plan::Job| &plan.programs[job.program];
    let machine = |job: &super::plan::Job| &plan.machines[job.machine];
    let text = |value: &dyn Fn(&super::plan::Job) -> String| Values::Text(each(plan, outcomes, |job, _| value(job)));
    let number =
        |value: &dyn Fn(&super::plan::Job) -> usize| Values::Number(each(plan, outcomes, |job, _| value(job) as i32));
    let region = each(plan, outcomes, |_, row| row.region.map(|region| format!("{region:#x}")));
    let thread_map = each(plan, outcomes, |job, _| {
        job.point.thread_map.map(|map| map.name().to_owned())
    });
    let mut columns = vec![
        ("machine", text(&|job| machine(job).model.name.clone())),
        ("program", text(&|job| program(job).name.clone())),
        ("region", Values::OptionalText(region)),
        ("num_threads", number(&|job| program(job).threads)),
        ("num_nodes", number(&|job| job.point.num_nodes)),
        ("thread_map", Values::OptionalText(thread_map)),
        (
            "page_map",
            text(&|job| page_map_name(job.point.configuration.pages).to_owned()),
        ),
        ("prefetch", text(&|job| job.point.configuration.prefetchers.to_string())),
        ("time_s", Values::Float(each(plan, outcomes, |_, row| row.time.0))),
        ("pinning", text(&|job| job.point.configuration.pinning.to_string())),
        ("simulated", Values::Flag(each(plan, outcomes, |_, _| true))),
        ("command", text(&|job| program(job).command.clone())),
        ("recording", text(&|job| format!("{:032x}", program(job).content))),
    ]
    .into_iter()
    .map(|(name, values)| (name.to_owned(), values))
    .collect::<Vec<_>>();
    for (name, _) in plan.metric_columns() {
        let place: Vec<Option<usize>> = plan
            .machines
            .iter()
            .map(|machine| machine.columns.iter().position(|column| column.name == name))
            .collect();
        let values = each(plan, outcomes, |job, row| {
            place[job.machine]
                .and_then(|place| row.metrics[place])
                .map(|value| value.0)
        });
        columns.push((name, Values::OptionalFloat(values)));
    }
    columns
}

fn write_columns(plan: &Plan, columns: &[(String, Values)], file: impl Write + Send) -> Result<()> {
    let fields = columns
        .iter()
        .map(|(name, values)| field(name, values))
        .collect::<Result<_>>()?;
    let schema = Type::group_type_builder("sweep").with_fields(fields).build()?;
    let properties = WriterProperties::builder()
        .set_created_by(format!("pinfold {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_key_value_metadata(Some(metadata(plan)?))
        .build();
    let mut writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for (_, values) in columns {
        write_column(&mut group, values)?;
    }
    group.close()?;
    writer.close()?;
    Ok(())
}

fn metadata(plan: &Plan) -> Result<Vec<KeyValue>> {
    let columns = plan.metric_columns();
    let metrics: Vec<MetricEntry<'_>> = columns.iter().map(|(name, unit)| MetricEntry { name, unit }).collect();
    let models: BTreeMap<&str, String> = plan
        .machines
        .iter()
        .map(|machine| (machine.model.name.as_str(), format!("{:032x}", machine.content)))
        .collect();
    let entry = |key: &str, value: String| KeyValue::new(format!("pinfold.{key}"), value);
    Ok(vec![
        entry("dataset", VERSION.to_owned()),
        entry("simulated", "true".to_owned()),
        entry("models", serde_json::to_string(&models)?),
        entry("metrics", serde_json::to_string(&metrics)?),
    ])
}

fn field(name: &str, values: &Values) -> Result<TypePtr> {
    let (physical, repetition) = match values {
        Values::Text(_) => (PhysicalType::BYTE_ARRAY, Repetition::REQUIRED),
        Values::OptionalText(_) => (PhysicalType::BYTE_ARRAY, Repetition::OPTIONAL),
        Values::Number(_) => (PhysicalType::INT32, Repetition::REQUIRED),
        Values::Flag(_) => (PhysicalType::BOOLEAN, Repetition::REQUIRED),
        Values::Float(_) => (PhysicalType::DOUBLE, Repetition::REQUIRED),
        Values::OptionalFloat(_) => (PhysicalType::DOUBLE, Repetition::OPTIONAL),
    };
    let mut builder = Type::primitive_type_builder(name, physical).with_repetition(repetition);
    if physical == PhysicalType::BYTE_ARRAY {
        builder = builder
            .with_logical_type(Some(LogicalType::String))
            .with_converted_type(ConvertedType::UTF8);
    }
    Ok(Arc::new(builder.build()?))
}

fn write_column<W: Write + Send>(group: &mut SerializedRowGroupWriter<'_, W>, values: &Values) -> Result<()> {
    let mut column = group.next_column()?.context("the schema has too few columns")?;
    match values {
        Values::Text(values) => {
            let values: Vec<ByteArray> = values.iter().map(|value| value.as_str().into()).collect();
            column.typed::<ByteArrayType>().write_batch(&values, None, None)?;
        }
        Values::OptionalText(values) => {
            let present: Vec<ByteArray> = values.iter().flatten().map(|value| value.as_str().into()).collect();
            let levels = levels(values);
            column
                .typed::<ByteArrayType>()
                .write_batch(&present, Some(&levels), None)?;
        }
        Values::Number(values) => {
            column.typed::<Int32Type>().write_batch(values, None, None)?;
        }
        Values::Flag(values) => {
            column.typed::<BoolType>().write_batch(values, None, None)?;
        }
        Values::Float(values) => {
            column.typed::<DoubleType>().write_batch(values, None, None)?;
        }
        Values::OptionalFloat(values) => {
            let present: Vec<f64> = values.iter().flatten().copied().collect();
            let levels = levels(values);
            column
                .typed::<DoubleType>()
                .write_batch(&present, Some(&levels), None)?;
        }
    }
    column.close()?;
    Ok(())
}

/// Parquet's definition levels: 1 where there is a value.
fn levels<T>(values: &[Option<T>]) -> Vec<i16> {
    values.iter().map(|value| i16::from(value.is_some())).collect()
}
