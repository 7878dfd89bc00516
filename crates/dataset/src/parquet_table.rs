//! A Parquet file of one row group: columns with their names and values, and the file's own metadata.

use parquet::basic::{Compression, ConvertedType, LogicalType, Repetition, Type as PhysicalType, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int32Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};
use std::io::Write;
use std::sync::Arc;

type Result<T, E = ParquetError> = std::result::Result<T, E>;

/// The values of a column. `None` is a missing value.
pub(crate) enum Values {
    Text(Vec<String>),
    OptionalText(Vec<Option<String>>),
    Number(Vec<i32>),
    OptionalNumber(Vec<Option<i32>>),
    Flag(Vec<bool>),
    OptionalFlag(Vec<Option<bool>>),
    Float(Vec<f64>),
    OptionalFloat(Vec<Option<f64>>),
    OptionalFloats(Vec<Option<Vec<f64>>>),
}

/// Writes a table. The keys of the metadata get the prefix `pinfold.`.
pub(crate) fn write(
    name: &str,
    columns: &[(String, Values)],
    metadata: Vec<(&str, String)>,
    file: impl Write + Send,
) -> Result<()> {
    let fields = columns
        .iter()
        .map(|(name, values)| field(name, values))
        .collect::<Result<_>>()?;
    let schema = Type::group_type_builder(name).with_fields(fields).build()?;
    let entry = |(key, value): (&str, String)| KeyValue::new(format!("pinfold.{key}"), value);
    let properties = WriterProperties::builder()
        .set_created_by(format!("pinfold {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_key_value_metadata(Some(metadata.into_iter().map(entry).collect()))
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

fn field(name: &str, values: &Values) -> Result<TypePtr> {
    if matches!(values, Values::OptionalFloats(_)) {
        return list(name);
    }
    let (physical, repetition) = match values {
        Values::Text(_) => (PhysicalType::BYTE_ARRAY, Repetition::REQUIRED),
        Values::OptionalText(_) => (PhysicalType::BYTE_ARRAY, Repetition::OPTIONAL),
        Values::Number(_) => (PhysicalType::INT32, Repetition::REQUIRED),
        Values::OptionalNumber(_) => (PhysicalType::INT32, Repetition::OPTIONAL),
        Values::Flag(_) => (PhysicalType::BOOLEAN, Repetition::REQUIRED),
        Values::OptionalFlag(_) => (PhysicalType::BOOLEAN, Repetition::OPTIONAL),
        Values::Float(_) => (PhysicalType::DOUBLE, Repetition::REQUIRED),
        Values::OptionalFloat(_) | Values::OptionalFloats(_) => (PhysicalType::DOUBLE, Repetition::OPTIONAL),
    };
    let mut builder = Type::primitive_type_builder(name, physical).with_repetition(repetition);
    if physical == PhysicalType::BYTE_ARRAY {
        builder = builder
            .with_logical_type(Some(LogicalType::String))
            .with_converted_type(ConvertedType::UTF8);
    }
    Ok(Arc::new(builder.build()?))
}

/// A column of lists of numbers, in the three levels that Parquet demands.
fn list(name: &str) -> Result<TypePtr> {
    let element = Type::primitive_type_builder("element", PhysicalType::DOUBLE)
        .with_repetition(Repetition::REQUIRED)
        .build()?;
    let entries = Type::group_type_builder("list")
        .with_repetition(Repetition::REPEATED)
        .with_fields(vec![Arc::new(element)])
        .build()?;
    let list = Type::group_type_builder(name)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(Some(LogicalType::List))
        .with_converted_type(ConvertedType::LIST)
        .with_fields(vec![Arc::new(entries)])
        .build()?;
    Ok(Arc::new(list))
}

fn write_column<W: Write + Send>(group: &mut SerializedRowGroupWriter<'_, W>, values: &Values) -> Result<()> {
    let mut column = group
        .next_column()?
        .ok_or_else(|| ParquetError::General("the schema has too few columns".to_owned()))?;
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
        Values::OptionalNumber(values) => {
            let present: Vec<i32> = values.iter().flatten().copied().collect();
            let levels = levels(values);
            column.typed::<Int32Type>().write_batch(&present, Some(&levels), None)?;
        }
        Values::Flag(values) => {
            column.typed::<BoolType>().write_batch(values, None, None)?;
        }
        Values::OptionalFlag(values) => {
            let present: Vec<bool> = values.iter().flatten().copied().collect();
            let levels = levels(values);
            column.typed::<BoolType>().write_batch(&present, Some(&levels), None)?;
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
        Values::OptionalFloats(values) => {
            let present: Vec<f64> = values.iter().flatten().flatten().copied().collect();
            let (definitions, repetitions): (Vec<i16>, Vec<i16>) =
                values.iter().flat_map(|list| list_levels(list.as_deref())).unzip();
            column
                .typed::<DoubleType>()
                .write_batch(&present, Some(&definitions), Some(&repetitions))?;
        }
    }
    column.close()?;
    Ok(())
}

/// Parquet's definition and repetition levels of a list. The definition is 0 for a missing list, 1 for an empty one and
/// 2 for a number; the repetition is 0 for the first number and 1 for the others.
fn list_levels(list: Option<&[f64]>) -> Vec<(i16, i16)> {
    match list {
        None => vec![(0, 0)],
        Some([]) => vec![(1, 0)],
        Some(numbers) => (0..numbers.len()).map(|at| (2, i16::from(at > 0))).collect(),
    }
}

/// Parquet's definition levels: 1 for a value, 0 for a missing one.
fn levels<T>(values: &[Option<T>]) -> Vec<i16> {
    values.iter().map(|value| i16::from(value.is_some())).collect()
}
