//! Single columns of a Parquet file, which others may have written.
//!
//! A column is read by its name and kind. Missing values are `None`, whether the file can have them or not.
//!
//! Limits: the file has at most `MOST_ROWS` rows and `MOST_COLUMNS` columns, and the texts of all columns that are read
//! have at most `MOST_TEXT` bytes. A file of some megabytes may stand for gigabytes, because a text that all rows repeat
//! is stored once.

use crate::read::ReadError;
use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::fs::File;

/// The largest number of rows. The sweep of a large machine has some hundred thousand.
const MOST_ROWS: usize = 1 << 22;
/// The largest number of columns. A sweep has some dozens, or some hundreds with many events.
const MOST_COLUMNS: usize = 4096;
/// The most bytes of all texts.
const MOST_TEXT: usize = 1 << 30;
/// Rows that are decoded at a time.
const BATCH: usize = 1 << 14;

/// A file whose metadata were read.
pub(crate) struct ParquetColumns {
    reader: SerializedFileReader<File>,
    rows: usize,
    text_left: usize,
}

/// The values of a column: one for each row, `None` where it is missing.
pub(crate) type Column<T> = Vec<Option<T>>;

impl ParquetColumns {
    /// Reads the metadata of a file.
    pub(crate) fn open(file: File) -> Result<Self, ReadError> {
        let reader = SerializedFileReader::new(file)?;
        let metadata = reader.metadata();
        let columns = metadata.file_metadata().schema_descr().num_columns();
        // The groups say how many rows are read. The sum in the head of the file may be another.
        let mut of_groups = metadata
            .row_groups()
            .iter()
            .map(parquet::file::metadata::RowGroupMetaData::num_rows);
        let rows = of_groups.try_fold(0, |sum: usize, rows| sum.checked_add(usize::try_from(rows).ok()?));
        let rows = rows.unwrap_or(usize::MAX);
        for (number, most, what) in [(rows, MOST_ROWS, "rows"), (columns, MOST_COLUMNS, "columns")] {
            if number > most {
                return Err(ReadError::TooLarge { what, most });
            }
        }
        Ok(Self {
            reader,
            rows,
            text_left: MOST_TEXT,
        })
    }

    /// The number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The name of the table's schema.
    pub(crate) fn schema(&self) -> &str {
        self.reader.metadata().file_metadata().schema().name()
    }

    /// A value of the file's own metadata.
    pub(crate) fn metadata(&self, key: &str) -> Option<&str> {
        let entries = self.reader.metadata().file_metadata().key_value_metadata()?;
        entries.iter().find(|entry| entry.key == key)?.value.as_deref()
    }

    /// The texts of a column; `None` if there is no such column.
    pub(crate) fn texts(&mut self, name: &str) -> Result<Option<Column<String>>, ReadError> {
        let Some(leaf) = self.leaf(name) else { return Ok(None) };
        let mut left = self.text_left;
        let values = self.flat(leaf, name, "text", |reader, rows| match reader {
            ColumnReader::ByteArrayColumnReader(reader) => Some(flat(reader, rows, |bytes| {
                left = left.checked_sub(bytes.len()).ok_or(ReadError::TooLarge {
                    what: "bytes of text",
                    most: MOST_TEXT,
                })?;
                Ok(bytes.as_utf8()?.to_owned())
            })),
            _ => None,
        })?;
        self.text_left = left;
        Ok(Some(values))
    }

    /// The whole numbers of a column; `None` if there is no such column.
    pub(crate) fn numbers(&self, name: &str) -> Result<Option<Column<i64>>, ReadError> {
        let Some(leaf) = self.leaf(name) else { return Ok(None) };
        let values = self.flat(leaf, name, "whole numbers", |reader, rows| match reader {
            ColumnReader::Int32ColumnReader(reader) => Some(flat(reader, rows, |&value| Ok(value.into()))),
            ColumnReader::Int64ColumnReader(reader) => Some(flat(reader, rows, |&value| Ok(value))),
            _ => None,
        });
        values.map(Some)
    }

    /// The numbers of a column; `None` if there is no such column. A value that is no number is missing.
    pub(crate) fn floats(&self, name: &str) -> Result<Option<Column<f64>>, ReadError> {
        let Some(leaf) = self.leaf(name) else { return Ok(None) };
        let values = self.flat(leaf, name, "numbers", |reader, rows| match reader {
            ColumnReader::DoubleColumnReader(reader) => Some(flat(reader, rows, |&value| Ok(value))),
            ColumnReader::FloatColumnReader(reader) => Some(flat(reader, rows, |&value| Ok(value.into()))),
            ColumnReader::Int32ColumnReader(reader) => Some(flat(reader, rows, |&value| Ok(value.into()))),
            ColumnReader::Int64ColumnReader(reader) => Some(flat(reader, rows, |&value| Ok(value as f64))),
            _ => None,
        })?;
        let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
        Ok(Some(values.into_iter().map(finite).collect()))
    }

    /// The flags of a column; `None` if there is no such column.
    pub(crate) fn flags(&self, name: &str) -> Result<Option<Column<bool>>, ReadError> {
        let Some(leaf) = self.leaf(name) else { return Ok(None) };
        let values = self.flat(leaf, name, "true or false", |reader, rows| match reader {
            ColumnReader::BoolColumnReader(reader) => Some(flat(reader, rows, |&value| Ok(value))),
            _ => None,
        });
        values.map(Some)
    }

    /// The lists of numbers of a column; `None` if there is no such column.
    pub(crate) fn lists(&self, name: &str) -> Result<Option<Column<Vec<f64>>>, ReadError> {
        const WANTED: &str = "lists of numbers";
        let Some(leaf) = self.leaf(name) else { return Ok(None) };
        let schema = self.reader.metadata().file_metadata().schema_descr();
        let (column, root) = (schema.column(leaf), schema.get_column_root(leaf));
        let root = root.get_basic_info();
        if self.is_null(leaf) {
            return Ok(Some(vec![None; self.rows]));
        }
        // The outer group may be missing, and then the list may be empty.
        let empty = i16::from(root.has_repetition() && root.repetition() == Repetition::OPTIONAL);
        let mut lists = vec![];
        for group in 0..self.reader.num_row_groups() {
            let reader = self.reader.get_row_group(group)?.get_column_reader(leaf)?;
            let (ColumnReader::DoubleColumnReader(reader), 1) = (reader, column.max_rep_level()) else {
                return Err(wrong_type(name, WANTED, column.physical_type()));
            };
            let most = self.rows - lists.len();
            lists.extend(nested(reader, most, empty, column.max_def_level())?);
        }
        self.complete(name, lists).map(Some)
    }

    /// The leaf of a column.
    fn leaf(&self, name: &str) -> Option<usize> {
        let schema = self.reader.metadata().file_metadata().schema_descr();
        let mut columns = schema.columns().iter();
        columns.position(|column| column.path().parts().first().is_some_and(|first| first == name))
    }

    /// Whether a column has no type, because none of its values is known.
    fn is_null(&self, leaf: usize) -> bool {
        let column = self.reader.metadata().file_metadata().schema_descr().column(leaf);
        matches!(column.logical_type_ref(), Some(LogicalType::Unknown))
    }

    /// The values of a column without lists. `read` reads a row group of at most this number of rows; `None` if the type
    /// is another one.
    fn flat<T: Clone>(
        &self,
        leaf: usize,
        name: &str,
        wanted: &'static str,
        mut read: impl FnMut(ColumnReader, usize) -> Option<Result<Column<T>, ReadError>>,
    ) -> Result<Column<T>, ReadError> {
        let column = self.reader.metadata().file_metadata().schema_descr().column(leaf);
        if self.is_null(leaf) {
            return Ok(vec![None; self.rows]);
        }
        let wrong = || wrong_type(name, wanted, column.physical_type());
        if column.max_rep_level() > 0 || column.path().parts().len() > 1 {
            return Err(wrong());
        }
        let mut values: Column<T> = vec![];
        for group in 0..self.reader.num_row_groups() {
            let reader = self.reader.get_row_group(group)?.get_column_reader(leaf)?;
            values.extend(read(reader, self.rows - values.len()).ok_or_else(wrong)??);
        }
        self.complete(name, values)
    }

    fn complete<T>(&self, name: &str, values: Column<T>) -> Result<Column<T>, ReadError> {
        if values.len() == self.rows {
            Ok(values)
        } else {
            Err(ReadError::Damaged { name: name.to_owned() })
        }
    }
}

fn wrong_type(name: &str, wanted: &'static str, found: PhysicalType) -> ReadError {
    ReadError::Type {
        name: name.to_owned(),
        wanted,
        found: found.to_string(),
    }
}

/// Reads at most `most` values of a row group.
fn flat<T: DataType, V>(
    mut reader: ColumnReaderImpl<T>,
    most: usize,
    mut value: impl FnMut(&T::T) -> Result<V, ReadError>,
) -> Result<Column<V>, ReadError> {
    let mut found = vec![];
    loop {
        let (mut levels, mut values) = (vec![], vec![]);
        let (records, ..) = reader.read_records(BATCH, Some(&mut levels), None, &mut values)?;
        if records == 0 {
            return Ok(found);
        }
        if levels.is_empty() {
            // The column has a value in each row.
            levels = vec![1; values.len()];
        }
        if found.len() + levels.len() > most {
            return Err(too_many());
        }
        let mut values = values.iter();
        for level in levels {
            // A column that is not nested has the levels 0, missing, and 1.
            found.push(match level {
                0 => None,
                _ => Some(value(values.next().ok_or_else(too_few)?)?),
            });
        }
    }
}

/// Reads at most `most` lists of a row group. `empty` is the definition level of an empty list, and `full` of a number.
fn nested<T: DataType<T = f64>>(
    mut reader: ColumnReaderImpl<T>,
    most: usize,
    empty: i16,
    full: i16,
) -> Result<Column<Vec<f64>>, ReadError> {
    let mut found: Column<Vec<f64>> = vec![];
    loop {
        let (mut levels, mut repetitions, mut values) = (vec![], vec![], vec![]);
        let (records, ..) = reader.read_records(BATCH, Some(&mut levels), Some(&mut repetitions), &mut values)?;
        if records == 0 {
            return Ok(found);
        }
        if found.len() + records > most {
            return Err(too_many());
        }
        let mut values = values.into_iter();
        for (level, repetition) in levels.into_iter().zip(repetitions) {
            let number = if level == full {
                Some(values.next().ok_or_else(too_few)?)
            } else if level > empty {
                return Err(general("a list has a missing number"));
            } else {
                None
            };
            match (repetition, number) {
                (0, Some(number)) => found.push(Some(vec![number])),
                (0, None) => found.push((level == empty).then(Vec::new)),
                (_, Some(number)) => match found.last_mut() {
                    Some(Some(list)) => list.push(number),
                    _ => return Err(general("a list goes on that has not begun")),
                },
                (_, None) => return Err(general("a list has a missing number")),
            }
        }
    }
}

fn too_many() -> ReadError {
    general("a column has more values than the table has rows")
}

fn too_few() -> ReadError {
    general("a column has fewer values than it says")
}

fn general(what: &str) -> ReadError {
    ParquetError::General(what.to_owned()).into()
}
