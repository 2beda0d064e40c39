//! Reads the rows of a Parquet file: a row group at a time, some rows of each column at a time.
//!
//! Columns that no property holds are not read; `columns` says why. A value that no property holds
//! makes a bad row, and damage ends the file: the error names both file and column.

#![allow(clippy::disallowed_types, reason = "the files are the user's, not the engine's")]

use crate::columnar::column::Column;
use crate::columnar::guard;
use crate::columnar::kind::Kind;
use crate::columnar::moment;
use crate::columnar::source::{Pages, Source};
use crate::exit::{Exit, Failure};
use crate::json::shortened;
use anyhow::{Context, Result};
use parquet::basic::Compression;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use tabulith::table::value::Value;

/// Most rows that are read of a column before the next one's turn.
const ROWS_AHEAD_MAX: i64 = 1_000;

/// Bytes that the rows read ahead may take, by what the file says of itself.
const BYTES_AHEAD: i64 = 32 << 20;

/// Most columns; an entity has 252 properties.
const COLUMNS_MAX: usize = 4_096;

/// A cell: a value, none, or why there is no such value.
type Cell = Result<Option<Value>, String>;

/// A file being read.
pub(crate) struct Reader {
    path: PathBuf,
    file: SerializedFileReader<Source>,
    columns: Vec<Column>,
    /// Of each column its place among those that hold values, and its kind.
    leaves: Vec<Option<(usize, Kind)>>,
    /// The next row group.
    group: usize,
    /// Rows of the present one that have not been read.
    rows_left: i64,
    rows_ahead: i64,
    open: Vec<Option<ColumnReader>>,
    ahead: VecDeque<Vec<Cell>>,
}

impl Reader {
    /// Opens a file and reads what it says of itself.
    pub(crate) fn open(path: &Path) -> Result<Reader> {
        let named = || format!("{}", path.display());
        let file = File::open(path).with_context(named)?;
        let damaged = |error: ParquetError| damaged(&named(), &error);
        let source = Source::new(file).map_err(damaged)?;
        let file = guard::reading(named, || SerializedFileReader::new(source)).map_err(damaged)?;
        let mut reader = Reader {
            path: path.to_owned(),
            columns: Vec::new(),
            leaves: Vec::new(),
            group: 0,
            rows_left: 0,
            rows_ahead: 1,
            open: Vec::new(),
            ahead: VecDeque::new(),
            file,
        };
        guard::reading(named, || reader.read_schema())?;
        Ok(reader)
    }

    fn read_schema(&mut self) -> Result<()> {
        let named = self.path.display();
        let metadata = self.file.metadata();
        let schema = metadata.file_metadata().schema_descr();
        let fields = schema.root_schema().get_fields();
        if fields.len() > COLUMNS_MAX || schema.num_columns() > COLUMNS_MAX {
            let many = format!("{named}: {} columns; {COLUMNS_MAX} are the most", fields.len());
            return Err(Failure::usage(many).into());
        }
        for (at, field) in fields.iter().enumerate() {
            let kind = Kind::of(field);
            let leaf =
                (0..schema.num_columns()).find(|leaf| schema.get_column_root_idx(*leaf) == at);
            self.leaves.push(leaf.zip(kind.clone().ok()));
            let name = field.name().to_owned();
            if self.columns.iter().any(|column| column.name == name) {
                return Err(
                    Failure::usage(format!("{named}: two columns are called `{name}`")).into()
                );
            }
            self.columns.push(Column { name, edm: kind.map(Kind::edm) });
        }
        for group in metadata.row_groups() {
            let whole = group.num_columns() == schema.num_columns() && group.num_rows() >= 0;
            if !whole {
                let error = ParquetError::General("a row group lacks columns or rows".to_owned());
                return Err(damaged(&named.to_string(), &error));
            }
        }
        self.check_counts()
    }

    /// Nothing else guards the numbers of rows, and what a smaller one leaves out is not read.
    fn check_counts(&self) -> Result<()> {
        let metadata = self.file.metadata();
        let groups = metadata.row_groups();
        let (said, found) = (metadata.file_metadata().num_rows(), self.rows());
        if u64::try_from(said) != Ok(found) {
            let what = format!("it is said to have {said} rows, its groups have {found}");
            let error = ParquetError::General(what);
            return Err(damaged(&self.path.display().to_string(), &error));
        }
        for (leaf, column) in self.leaves.iter().zip(&self.columns) {
            let Some((leaf, _)) = leaf else { continue };
            for (at, group) in groups.iter().enumerate() {
                let (rows, values) = (group.num_rows(), group.column(*leaf).num_values());
                if rows != values {
                    let what = format!("row group {at} of {rows} rows has {values} of it");
                    let error = ParquetError::General(what);
                    return Err(damaged(&place(&self.path, &column.name), &error));
                }
            }
        }
        Ok(())
    }

    /// Its columns, with their types or why they have none.
    pub(crate) fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// How many rows it says it has.
    pub(crate) fn rows(&self) -> u64 {
        let rows = self.file.metadata().row_groups().iter().map(|group| group.num_rows());
        rows.fold(0, |sum, rows| sum.saturating_add(u64::try_from(rows).unwrap_or(0)))
    }

    /// The next row, or what is wrong with it; none at the end. An error is final.
    pub(crate) fn next(&mut self) -> Result<Option<Result<Vec<Option<Value>>, String>>> {
        while self.ahead.is_empty() {
            if self.rows_left == 0 && !self.next_group()? {
                return Ok(None);
            }
            self.read_ahead()?;
        }
        let cells = self.ahead.pop_front().unwrap_or_default();
        Ok(Some(cells.into_iter().collect()))
    }

    /// Begins the next row group; false at the end.
    fn next_group(&mut self) -> Result<bool> {
        if self.group == self.file.num_row_groups() {
            return Ok(false);
        }
        let group = self.group;
        self.group += 1;
        let metadata = self.file.metadata().row_group(group);
        self.rows_left = metadata.num_rows();
        let bytes_of_row = metadata.total_byte_size().max(0) / self.rows_left.max(1);
        self.rows_ahead = (BYTES_AHEAD / bytes_of_row.max(1)).clamp(1, ROWS_AHEAD_MAX);
        self.open.clear();
        for at in 0..self.leaves.len() {
            let Some((leaf, _)) = self.leaves[at] else {
                self.open.push(None);
                continue;
            };
            let place = || place(&self.path, &self.columns[at].name);
            check_codec(metadata.column(leaf).compression())
                .map_err(|why| Failure::usage(format!("{}: {why}", place())))?;
            let opened: Result<ColumnReader, ParquetError> = guard::reading(place, || {
                let rows = self.file.get_row_group(group)?;
                let pages = rows.get_column_page_reader(leaf)?;
                let column = metadata.column(leaf).column_descr_ptr();
                let is_optional = column.max_def_level() > 0;
                Ok(get_column_reader(column, Box::new(Pages { pages, is_optional })))
            });
            self.open.push(Some(opened.map_err(|error| damaged(&place(), &error))?));
        }
        Ok(true)
    }

    /// Reads some rows of every column.
    fn read_ahead(&mut self) -> Result<()> {
        let rows = self.rows_left.min(self.rows_ahead) as usize;
        let mut ahead: Vec<Vec<Cell>> =
            (0..rows).map(|_| Vec::with_capacity(self.columns.len())).collect();
        for (at, open) in self.open.iter_mut().enumerate() {
            let name = &self.columns[at].name;
            let (Some(open), Some((_, kind))) = (open, self.leaves[at]) else {
                ahead.iter_mut().for_each(|row| row.push(Ok(None)));
                continue;
            };
            let place = || place(&self.path, name);
            let cells = guard::reading(place, || cells(open, kind, rows));
            let cells = cells.map_err(|error| damaged(&place(), &error))?;
            for (row, cell) in ahead.iter_mut().zip(cells) {
                row.push(cell.map_err(|why| format!("{name}: {why}")));
            }
        }
        self.rows_left -= rows as i64;
        self.ahead.extend(ahead);
        Ok(())
    }
}

/// Whether pages that are stored so are read here.
fn check_codec(codec: Compression) -> Result<(), String> {
    match codec {
        Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::GZIP(_) => Ok(()),
        Compression::ZSTD(_) if cfg!(feature = "parquet-zstd") => Ok(()),
        Compression::ZSTD(_) => {
            Err("stored with zstd, which this build cannot read (cargo feature `parquet-zstd`)"
                .to_owned())
        }
        other => Err(format!("stored with {other}, which is not read")),
    }
}

fn place(path: &Path, column: &str) -> String {
    format!("{}: column `{}`", path.display(), shortened(column))
}

/// What ended the reading: damage, unless the system did not give the bytes. An error of a codec is
/// one of its input's.
fn damaged(place: &str, error: &ParquetError) -> anyhow::Error {
    let cause = std::error::Error::source(error);
    let cause = cause.and_then(|cause| cause.downcast_ref::<io::Error>());
    match cause.and_then(io::Error::raw_os_error) {
        Some(code) => {
            anyhow::Error::new(io::Error::from_raw_os_error(code)).context(place.to_owned())
        }
        None => Failure::new(Exit::Corrupt, format!("{place}: damaged: {error}")).into(),
    }
}

/// The next cells of a column, as many as rows are asked for.
fn cells(open: &mut ColumnReader, kind: Kind, rows: usize) -> Result<Vec<Cell>, ParquetError> {
    let text = |bytes: ByteArray| match std::str::from_utf8(bytes.data()) {
        Ok(text) => Ok(Value::String(text.to_owned())),
        Err(error) => Err(format!("not UTF-8: {error}")),
    };
    let binary = |bytes: &[u8]| Ok(Value::Binary(bytes.to_vec()));
    match open {
        ColumnReader::BoolColumnReader(column) => {
            column_cells(column, rows, |value| Ok(Value::Boolean(value)))
        }
        ColumnReader::Int32ColumnReader(column) => column_cells(column, rows, |value| match kind {
            Kind::Unsigned32 => Ok(Value::Int64(i64::from(value as u32))),
            Kind::Date => moment::midnight(value).map(Value::DateTime),
            _ => Ok(Value::Int32(value)),
        }),
        ColumnReader::Int64ColumnReader(column) => column_cells(column, rows, |value| match kind {
            Kind::Moment(unit) => moment::moment(value, unit).map(Value::DateTime),
            _ => Ok(Value::Int64(value)),
        }),
        ColumnReader::Int96ColumnReader(column) => column_cells(column, rows, |value| {
            let [low, high, day] = *value.data() else { return Err("no 96 bits".to_owned()) };
            let nanos = u64::from(high) << 32 | u64::from(low);
            moment::julian(day, nanos).map(Value::DateTime)
        }),
        ColumnReader::FloatColumnReader(column) => {
            column_cells(column, rows, |value| Ok(Value::Double(f64::from(value))))
        }
        ColumnReader::DoubleColumnReader(column) => {
            column_cells(column, rows, |value| Ok(Value::Double(value)))
        }
        ColumnReader::ByteArrayColumnReader(column) => {
            column_cells(column, rows, |bytes| match kind {
                Kind::Text => text(bytes),
                _ => binary(bytes.data()),
            })
        }
        ColumnReader::FixedLenByteArrayColumnReader(column) => {
            column_cells(column, rows, |bytes| match kind {
                Kind::Guid => match bytes.data().try_into() {
                    Ok(guid) => Ok(Value::Guid(guid)),
                    Err(_) => Err(format!("{} bytes are no Guid", bytes.data().len())),
                },
                _ => binary(bytes.data()),
            })
        }
    }
}

fn column_cells<T: DataType>(
    column: &mut ColumnReaderImpl<T>,
    rows: usize,
    convert: impl Fn(T::T) -> Result<Value, String>,
) -> Result<Vec<Cell>, ParquetError> {
    let (mut levels, mut values) = (Vec::new(), Vec::new());
    let (records, ..) = column.read_records(rows, Some(&mut levels), None, &mut values)?;
    if records != rows {
        return Err(ParquetError::General(format!("{records} of {rows} further rows are there")));
    }
    let mut values = values.into_iter().map(|value| convert(value).map(Some));
    let mut next = || {
        let lacking = || ParquetError::General("a value is missing".to_owned());
        values.next().ok_or_else(lacking)
    };
    if levels.is_empty() {
        return (0..rows).map(|_| next()).collect();
    }
    levels.iter().map(|level| if *level == 0 { Ok(Ok(None)) } else { next() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit;

    /// A disk that could not be read was told as damage of the file.
    #[test]
    fn what_the_system_does_not_give_is_no_damage() {
        let of = |error: io::Error| damaged("f: column `a`", &error.into());
        let unread = of(io::Error::from_raw_os_error(5));
        assert_eq!(exit::of(&unread), Exit::Failure);
        let told = exit::told(&unread);
        assert!(told.starts_with("f: column `a`: ") && told.contains("os error 5"), "{told}");
        let unpacked = of(io::ErrorKind::InvalidData.into());
        assert_eq!(exit::of(&unpacked), Exit::Corrupt);
    }
}
