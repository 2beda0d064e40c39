//! Writes rows as a Parquet file: their columns first, from a look at all of them, then row groups.
//!
//! A property is a column that may lack values. Of one name there must be one type: Parquet has no
//! other, and a value that was made another type would not come back as it was.

use crate::columnar::moment::{self, Unit};
use crate::edm::{self, EdmType};
use crate::exit::{Exit, Failure};
use crate::json;
use anyhow::{Context, Result, bail};
use parquet::basic::{
    Compression, LogicalType, Repetition, TimeUnit, TimestampType, Type as Physical,
};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::{ByteArray, FixedLenByteArray};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;
use tabulith::ids::CommitTs;
use tabulith::table::entity::Entity;
use tabulith::table::value::{DateTime, Value};

/// Most rows of a row group, and most bytes of them; both are held until it is written.
const GROUP_ROWS_MAX: usize = 50_000;
const GROUP_BYTES_MAX: usize = 64 << 20;

/// What a column is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Column {
    edm: EdmType,
    /// Whether a moment is no whole number of microseconds, and whether one lies beyond the years
    /// that nanoseconds reach, 1677 to 2262.
    is_fine: bool,
    is_far: bool,
}

impl Column {
    fn of(value: &Value) -> Column {
        let fits = |unit| match value {
            Value::DateTime(at) => moment::count(*at, unit).is_some(),
            _ => true,
        };
        Column {
            edm: edm::type_of(value),
            is_fine: !fits(Unit::Micros),
            is_far: !fits(Unit::Nanos),
        }
    }

    /// What its moments are counted in; none where no unit holds them all.
    fn unit(self) -> Option<Unit> {
        match (self.is_fine, self.is_far) {
            (false, _) => Some(Unit::Micros),
            (true, false) => Some(Unit::Nanos),
            (true, true) => None,
        }
    }
}

/// The columns of rows, once all of them have been looked at.
pub(crate) struct Survey {
    names: Vec<String>,
    columns: HashMap<String, Column>,
}

impl Survey {
    /// Nothing has been looked at.
    pub(crate) fn begin() -> Result<Survey> {
        Ok(Survey { names: Vec::new(), columns: HashMap::new() })
    }

    /// Looks at a row.
    pub(crate) fn add(&mut self, row: &Entity) -> Result<()> {
        for (name, value) in &row.properties {
            let seen = Column::of(value);
            let Some(column) = self.columns.get_mut(name) else {
                self.names.push(name.clone());
                self.columns.insert(name.clone(), seen);
                continue;
            };
            if column.edm != seen.edm {
                return Err(refused(format!(
                    "the property `{name}` is {} in one row and {} in another ('{}', '{}'): a column of \
                     Parquet has one type; --select leaves it out, JSON lines keep both",
                    column.edm, seen.edm, row.partition_key, row.row_key
                )));
            }
            column.is_fine |= seen.is_fine;
            column.is_far |= seen.is_far;
        }
        Ok(())
    }

    /// Begins a file of these columns.
    pub(crate) fn writer<W: Write + Send>(self, out: W) -> Result<Writer<W>> {
        let key = |name: &str| text_column(name, Repetition::REQUIRED);
        let mut fields = vec![key("PartitionKey")?, key("RowKey")?];
        fields.push(moment_column("Timestamp", Unit::Nanos)?);
        let mut columns = Vec::with_capacity(self.names.len());
        for name in self.names {
            let column = self.columns[&name];
            let unit = column.unit().ok_or_else(|| {
                refused(format!(
                    "the property `{name}` has moments finer than a microsecond and moments beyond the \
                     years 1677 to 2262: no unit of Parquet holds both; JSON lines do"
                ))
            })?;
            fields.push(field(&name, column.edm, unit)?);
            columns.push((name, column.edm, unit));
        }
        let fields = fields.into_iter().map(Arc::new).collect();
        let schema = Type::group_type_builder("table").with_fields(fields).build()?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(concat!("tabulith ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let file = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?;
        let places = columns.iter().zip(0..).map(|((name, ..), at)| (name.clone(), at)).collect();
        Ok(Writer { file, columns, places, held: Vec::new(), held_bytes: 0, rows: 0 })
    }
}

fn refused(why: String) -> anyhow::Error {
    Failure::new(Exit::Failure, why).into()
}

fn text_column(name: &str, repetition: Repetition) -> Result<Type> {
    let builder = Type::primitive_type_builder(name, Physical::BYTE_ARRAY);
    let builder = builder.with_repetition(repetition).with_logical_type(Some(LogicalType::String));
    Ok(builder.build()?)
}

fn moment_column(name: &str, unit: Unit) -> Result<Type> {
    let unit = match unit {
        Unit::Millis => TimeUnit::MILLIS,
        Unit::Micros => TimeUnit::MICROS,
        Unit::Nanos => TimeUnit::NANOS,
    };
    let logical = LogicalType::Timestamp(TimestampType { is_adjusted_to_u_t_c: true, unit });
    let builder = Type::primitive_type_builder(name, Physical::INT64);
    let builder = builder.with_repetition(Repetition::OPTIONAL).with_logical_type(Some(logical));
    Ok(builder.build()?)
}

fn field(name: &str, edm: EdmType, unit: Unit) -> Result<Type> {
    let plain = |physical| {
        let builder = Type::primitive_type_builder(name, physical);
        builder.with_repetition(Repetition::OPTIONAL)
    };
    Ok(match edm {
        EdmType::String => text_column(name, Repetition::OPTIONAL)?,
        EdmType::DateTime => moment_column(name, unit)?,
        EdmType::Int32 => plain(Physical::INT32).build()?,
        EdmType::Int64 => plain(Physical::INT64).build()?,
        EdmType::Double => plain(Physical::DOUBLE).build()?,
        EdmType::Boolean => plain(Physical::BOOLEAN).build()?,
        EdmType::Binary => plain(Physical::BYTE_ARRAY).build()?,
        EdmType::Guid => plain(Physical::FIXED_LEN_BYTE_ARRAY)
            .with_length(16)
            .with_logical_type(Some(LogicalType::Uuid))
            .build()?,
    })
}

/// A file being written.
pub(crate) struct Writer<W: Write + Send> {
    file: SerializedFileWriter<W>,
    columns: Vec<(String, EdmType, Unit)>,
    /// Of each property its column.
    places: HashMap<String, usize>,
    /// The rows of the row group that is not written yet, their properties in the order of columns.
    held: Vec<Entity>,
    held_bytes: usize,
    rows: u64,
}

impl<W: Write + Send> Writer<W> {
    /// Writes a row, now or with those that come.
    pub(crate) fn add(&mut self, row: &Entity) -> Result<()> {
        for (name, value) in &row.properties {
            let place = self.places.get(name);
            let column = place.map(|place| &self.columns[*place]);
            let fits = column.is_some_and(|(_, edm, unit)| match value {
                Value::DateTime(at) => {
                    *edm == EdmType::DateTime && moment::count(*at, *unit).is_some()
                }
                value => edm::type_of(value) == *edm,
            });
            if !fits {
                bail!("the property `{name}` was changed while the table was read; run it again");
            }
        }
        self.held_bytes += json::entity_bytes_max(row);
        let mut row = row.clone();
        row.properties.sort_by_key(|(name, _)| self.places.get(name));
        self.held.push(row);
        self.rows += 1;
        if self.held.len() >= GROUP_ROWS_MAX || self.held_bytes >= GROUP_BYTES_MAX {
            self.write_group()?;
        }
        Ok(())
    }

    /// Writes what is held, and the end of the file. Returns the number of rows.
    pub(crate) fn finish(mut self) -> Result<u64> {
        if !self.held.is_empty() {
            self.write_group()?;
        }
        let mut out = self.file.into_inner()?;
        out.flush()?;
        Ok(self.rows)
    }

    fn write_group(&mut self) -> Result<()> {
        let rows = std::mem::take(&mut self.held);
        self.held_bytes = 0;
        // Of each row its next property: columns come in the same order.
        let mut next = vec![0; rows.len()];
        let mut group = self.file.next_row_group()?;
        for at in 0..3 + self.columns.len() {
            let mut column = group.next_column()?.context("a column of the schema")?;
            let unit = at.checked_sub(3).map_or(Unit::Nanos, |at| self.columns[at].2);
            let place = at.checked_sub(3);
            let property = place.map(|at| &self.columns[at].0);
            let cells: Vec<Option<Cell<'_>>> = rows
                .iter()
                .zip(&mut next)
                .map(|(row, next)| cell(row, at, property, next))
                .collect();
            write_column(column.untyped(), &cells, unit)?;
            column.close()?;
        }
        group.close()?;
        Ok(())
    }
}

/// What a row has in a column.
enum Cell<'a> {
    Text(&'a str),
    Moment(DateTime),
    Value(&'a Value),
}

/// `next`: the first property of the row that is of no column before.
fn cell<'a>(
    row: &'a Entity,
    at: usize,
    property: Option<&String>,
    next: &mut usize,
) -> Option<Cell<'a>> {
    match (at, property) {
        (0, _) => Some(Cell::Text(&row.partition_key)),
        (1, _) => Some(Cell::Text(&row.row_key)),
        (_, None) => (row.ts != CommitTs::ZERO).then(|| Cell::Moment(DateTime::from(row.ts))),
        (_, Some(name)) => {
            let (_, value) = row.properties.get(*next).filter(|(other, _)| other == name)?;
            *next += 1;
            Some(match value {
                Value::String(text) => Cell::Text(text),
                Value::DateTime(at) => Cell::Moment(*at),
                value => Cell::Value(value),
            })
        }
    }
}

fn write_column(
    column: &mut ColumnWriter<'_>,
    cells: &[Option<Cell<'_>>],
    unit: Unit,
) -> Result<()> {
    let levels: Vec<i16> = cells.iter().map(|cell| i16::from(cell.is_some())).collect();
    let levels = Some(&levels[..]);
    let cells = cells.iter().flatten();
    // Each cell was held against its column before.
    macro_rules! put {
        ($column:ident, $($pattern:pat => $value:expr),+) => {{
            let values: Vec<_> = cells
                .filter_map(|cell| match cell {
                    $($pattern => Some($value),)+
                    _ => None,
                })
                .collect();
            $column.write_batch(&values, levels, None)?;
        }};
    }
    match column {
        ColumnWriter::BoolColumnWriter(column) => {
            put!(column, Cell::Value(Value::Boolean(value)) => *value);
        }
        ColumnWriter::Int32ColumnWriter(column) => {
            put!(column, Cell::Value(Value::Int32(value)) => *value);
        }
        ColumnWriter::Int64ColumnWriter(column) => {
            put!(column,
                Cell::Value(Value::Int64(value)) => *value,
                Cell::Moment(at) => moment::count(*at, unit)?);
        }
        ColumnWriter::DoubleColumnWriter(column) => {
            put!(column, Cell::Value(Value::Double(value)) => *value);
        }
        ColumnWriter::ByteArrayColumnWriter(column) => {
            put!(column,
                Cell::Text(text) => ByteArray::from(*text),
                Cell::Value(Value::Binary(bytes)) => ByteArray::from(bytes.clone()));
        }
        ColumnWriter::FixedLenByteArrayColumnWriter(column) => {
            put!(column, Cell::Value(Value::Guid(guid)) => FixedLenByteArray::from(guid.to_vec()));
        }
        ColumnWriter::Int96ColumnWriter(_) | ColumnWriter::FloatColumnWriter(_) => {
            bail!("no property is written so");
        }
    }
    Ok(())
}
