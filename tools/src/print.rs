//! What people and programs read: data on stdout, messages on stderr.
//!
//! Data is JSON, YAML, values between commas or tabs, or an aligned table. Nothing is coloured, so
//! NO_COLOR has nothing to turn off. Writing to a stdout that nobody reads any more ends the
//! process quietly, so all that goes there goes through here: see [`exit::of_stdout`].

use crate::args::output::Output;
use crate::edm;
use crate::exit;
use crate::harmless::Harmless;
use crate::json;
use crate::list::tabless;
use crate::yaml;
use anyhow::{Result, bail};
use std::collections::HashMap;
use std::io::{self, IsTerminal as _, Stdout, StdoutLock, Write};
use std::sync::{Mutex, OnceLock};
use tabulith::table::entity::Entity;
use tabulith::table::value::{DateTime, Value};

/// Rows held back to find the widths of a table's columns.
const TABLE_ROWS_MEASURED: usize = 1000;

/// Names of properties that are told where a table has no columns for them.
const HIDDEN_NAMES_MAX: usize = 20;

/// Widest cell of a table, in characters; longer text is cut with an ellipsis.
const CELL_CHARS_MAX: usize = 60;

/// The progress bar on the terminal, if one is drawn: messages must not run into it.
static BAR: OnceLock<Mutex<Option<indicatif::ProgressBar>>> = OnceLock::new();

/// From now on messages make room around `bar`.
pub(crate) fn set_bar(bar: Option<indicatif::ProgressBar>) {
    if let Ok(mut slot) = BAR.get_or_init(Mutex::default).lock() {
        *slot = bar;
    }
}

/// Says something to the person on stderr. A message may have words of the other side in it.
pub(crate) fn note(message: &str) {
    let bar = BAR.get().and_then(|slot| slot.lock().ok()?.clone());
    let mut clean = Vec::with_capacity(message.len() + 1);
    // Writing into memory cannot fail.
    let _ = Harmless::new(&mut clean).write_all(message.as_bytes());
    clean.push(b'\n');
    // Nobody is left to tell where stderr cannot be written.
    let say = || drop(io::stderr().write_all(&clean));
    match bar {
        Some(bar) => bar.suspend(say),
        None => say(),
    }
}

/// Stdout, for data. Where a terminal shows it, control characters of the data do not reach it:
/// they could move its cursor, change its title or type for its user. Files and pipes get every
/// byte.
pub(crate) fn out() -> Out {
    let lock = io::stdout().lock();
    if lock.is_terminal() { Out::Terminal(Harmless::new(lock)) } else { Out::Other(lock) }
}

/// Stdout: see [`out`].
pub(crate) enum Out {
    /// A terminal.
    Terminal(Harmless<StdoutLock<'static>>),
    /// A file or a pipe.
    Other(StdoutLock<'static>),
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match self {
            Out::Terminal(out) => out.write(bytes),
            Out::Other(out) => out.write(bytes),
        };
        written.map_err(exit::of_stdout)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = match self {
            Out::Terminal(out) => out.flush(),
            Out::Other(out) => out.flush(),
        };
        flushed.map_err(exit::of_stdout)
    }
}

/// Stdout for bytes that are no text and may come from any thread.
pub(crate) struct Bytes(Stdout);

impl Bytes {
    pub(crate) fn out() -> Bytes {
        Bytes(io::stdout())
    }
}

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(exit::of_stdout)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(exit::of_stdout)
    }
}

/// Which columns a table or a CSV file has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Columns {
    /// Those that the first rows have.
    OfFirstRows,
    /// Those that all rows have, known beforehand.
    OfAllRows(Vec<String>),
    /// Those that were asked for.
    Chosen(Vec<String>),
}

/// Writes entities to `out` in one of the forms.
pub(crate) struct Printer<W: Write> {
    form: Output,
    out: W,
    columns: Vec<String>,
    /// Of each name its place among `columns`.
    places: HashMap<String, usize>,
    /// Whether `columns` grow with the rows.
    growing: bool,
    /// Whether a property outside `columns` is one too many.
    complete: bool,
    held: Vec<Vec<Cell>>,
    widths: Option<Vec<usize>>,
    /// Properties that came when the columns of a table stood already; one more than are told.
    hidden: Vec<String>,
    rows: u64,
    /// Values printed as CSV that read like absent ones.
    blanks: u64,
}

#[derive(Debug, Default)]
struct Cell {
    text: String,
    right: bool,
}

impl Cell {
    fn of(value: &Value) -> Cell {
        let right = matches!(value, Value::Int32(_) | Value::Int64(_) | Value::Double(_));
        Cell { text: edm::text_of(value), right }
    }
}

impl<W: Write> Printer<W> {
    /// A printer. JSON has no columns and prints all that an entity has.
    pub(crate) fn new(form: Output, out: W, columns: Columns) -> Printer<W> {
        let growing = columns == Columns::OfFirstRows;
        let complete = matches!(columns, Columns::OfAllRows(_));
        let columns = match columns {
            Columns::OfFirstRows => vec!["PartitionKey".to_owned(), "RowKey".to_owned()],
            Columns::OfAllRows(names) | Columns::Chosen(names) => names,
        };
        let places = columns.iter().cloned().zip(0..).collect();
        Printer {
            form,
            out,
            columns,
            places,
            growing,
            complete,
            held: Vec::new(),
            widths: None,
            hidden: Vec::new(),
            rows: 0,
            blanks: 0,
        }
    }

    /// Prints one entity.
    pub(crate) fn print(&mut self, entity: &Entity) -> Result<()> {
        self.rows += 1;
        match self.form {
            Output::Jsonl => self.print_line(entity, b"", b"\n")?,
            Output::Json if self.rows == 1 => self.print_line(entity, b"[\n", b"")?,
            Output::Json => self.print_line(entity, b",\n", b"")?,
            Output::Csv | Output::Tsv => self.print_record(entity)?,
            Output::Yaml => self.print_item(entity)?,
            Output::Table => self.hold(entity)?,
            Output::None => {}
        }
        Ok(())
    }

    /// How many empty strings and empty binaries were printed as CSV, which reads them as no value.
    pub(crate) fn blanks(&self) -> u64 {
        self.blanks
    }

    /// Prints what is held back and ends the output. Returns the number of entities.
    pub(crate) fn finish(mut self) -> Result<u64> {
        match (self.form, self.rows) {
            (Output::Json, 0) => self.out.write_all(b"[]\n")?,
            (Output::Json, _) => self.out.write_all(b"\n]\n")?,
            (Output::Yaml, 0) => self.out.write_all(b"[]\n")?,
            (Output::Csv, 0) => self.print_csv_header()?,
            (Output::Table, 1..) if self.widths.is_none() => self.release()?,
            _ => {}
        }
        self.out.flush()?;
        if let Some(told) = self.told_hidden() {
            note(&told);
        }
        Ok(self.rows)
    }

    /// What a table does not show of its rows.
    fn told_hidden(&self) -> Option<String> {
        let (told, more) = self.hidden.split_at(self.hidden.len().min(HIDDEN_NAMES_MAX));
        let more = if more.is_empty() { "" } else { " and others" };
        (!told.is_empty()).then(|| {
            format!(
                "not shown, as none of the first {TABLE_ROWS_MEASURED} rows has such a property: \
                 {}{more}; --select shows those that it names",
                told.join(", ")
            )
        })
    }

    fn print_line(&mut self, entity: &Entity, before: &[u8], after: &[u8]) -> io::Result<()> {
        let mut line = before.to_vec();
        json::write_entity(&mut line, entity);
        line.extend_from_slice(after);
        self.out.write_all(&line)
    }

    fn print_csv_header(&mut self) -> Result<()> {
        self.out.write_all(&csv_line(&self.columns)?)?;
        Ok(())
    }

    fn print_item(&mut self, entity: &Entity) -> Result<()> {
        let mut line = Vec::new();
        json::write_entity(&mut line, entity);
        let mut item = Vec::new();
        yaml::write_item(&mut item, &serde_json::from_slice(&line)?);
        self.out.write_all(&item)?;
        Ok(())
    }

    fn print_record(&mut self, entity: &Entity) -> Result<()> {
        if self.rows == 1 && self.form == Output::Csv {
            self.print_csv_header()?;
        }
        if self.complete
            && let Some((name, _)) =
                entity.properties.iter().find(|(name, _)| !self.places.contains_key(name))
        {
            bail!("the column `{name}` appeared while the table was read; run it again");
        }
        let record = self.cells(entity).into_iter().map(|cell| cell.text);
        if self.form == Output::Tsv {
            let cells: Vec<String> = record.map(|text| tabless(&text)).collect();
            writeln!(self.out, "{}", cells.join("\t"))?;
        } else {
            let line = csv_line(record)?;
            self.out.write_all(&line)?;
            let blanks = entity.properties.iter().filter(|(_, value)| is_blank(value));
            self.blanks += blanks.filter(|(name, _)| self.places.contains_key(name)).count() as u64;
        }
        Ok(())
    }

    /// What a row has in each column.
    fn cells(&self, entity: &Entity) -> Vec<Cell> {
        let mut cells: Vec<Cell> = self.columns.iter().map(|_| Cell::default()).collect();
        for (name, key) in [("PartitionKey", &entity.partition_key), ("RowKey", &entity.row_key)] {
            if let Some(place) = self.places.get(name) {
                cells[*place].text.clone_from(key);
            }
        }
        if let Some(place) = self.places.get("Timestamp") {
            cells[*place].text = DateTime::from(entity.ts).to_string();
        }
        for (name, value) in &entity.properties {
            if let Some(place) = self.places.get(name) {
                cells[*place] = Cell::of(value);
            }
        }
        cells
    }

    fn hold(&mut self, entity: &Entity) -> io::Result<()> {
        let stand = self.widths.is_some();
        for (name, _) in entity.properties.iter().filter(|_| self.growing) {
            if self.places.contains_key(name) {
                continue;
            }
            if !stand {
                self.places.insert(name.clone(), self.columns.len());
                self.columns.push(name.clone());
            } else if self.hidden.len() <= HIDDEN_NAMES_MAX && !self.hidden.contains(name) {
                self.hidden.push(name.clone());
            }
        }
        if stand {
            let cells = self.cells(entity);
            return self.print_table_row(&cells);
        }
        // No more of a text than is shown: these are many rows.
        let mut cells = self.cells(entity);
        cells.iter_mut().for_each(|cell| cell.text = shown(&cell.text));
        self.held.push(cells);
        if self.held.len() == TABLE_ROWS_MEASURED { self.release() } else { Ok(()) }
    }

    fn release(&mut self) -> io::Result<()> {
        let mut widths: Vec<usize> = self.columns.iter().map(|name| chars(name)).collect();
        for cells in &self.held {
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = (*width).max(chars(&cell.text)).min(CELL_CHARS_MAX);
            }
        }
        let lines: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
        let heads = self.columns.clone();
        self.widths = Some(widths);
        for texts in [heads, lines] {
            let cells: Vec<Cell> =
                texts.into_iter().map(|text| Cell { text, right: false }).collect();
            self.print_table_row(&cells)?;
        }
        for cells in std::mem::take(&mut self.held) {
            self.print_table_row(&cells)?;
        }
        Ok(())
    }

    fn print_table_row(&mut self, cells: &[Cell]) -> io::Result<()> {
        let none = Cell::default();
        let mut line = String::new();
        let widths = self.widths.iter().flatten();
        for (at, width) in widths.enumerate() {
            let cell = cells.get(at).unwrap_or(&none);
            let text = shown(&cell.text);
            let blanks = " ".repeat(width.saturating_sub(chars(&text)));
            if at > 0 {
                line.push_str("  ");
            }
            if cell.right {
                line.push_str(&blanks);
            }
            line.push_str(&text);
            if !cell.right {
                line.push_str(&blanks);
            }
        }
        writeln!(self.out, "{}", line.trim_end())
    }
}

fn is_blank(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Binary(bytes) => bytes.is_empty(),
        _ => false,
    }
}

/// A record as a line of CSV, in memory: a writer of CSV keeps to itself what its output refuses
/// when it is dropped.
fn csv_line<T: AsRef<[u8]>>(record: impl IntoIterator<Item = T>) -> Result<Vec<u8>> {
    let mut line = csv::Writer::from_writer(Vec::new());
    line.write_record(record)?;
    Ok(line.into_inner().map_err(|error| error.into_error())?)
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

/// A cell's text on one line and within its bound. Control characters could move the cursor of the
/// terminal that shows them.
fn shown(text: &str) -> String {
    let clean = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
    if chars(text) <= CELL_CHARS_MAX {
        return clean.collect();
    }
    let mut cut: String = clean.take(CELL_CHARS_MAX - 1).collect();
    cut.push('…');
    cut
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn entity(row_key: &str, properties: &[(&str, Value)]) -> Entity {
        let properties = properties.iter().map(|(n, v)| ((*n).to_owned(), v.clone()));
        Entity { properties: properties.collect(), ..Entity::new("p", row_key) }
    }

    fn printed(form: Output, columns: Columns) -> String {
        let mut out = Vec::new();
        let mut printer = Printer::new(form, &mut out, columns);
        printer.print(&entity("1", &[("n", Value::Int32(7))])).unwrap();
        let text = Value::String("a \"b\",\u{1b}".to_owned());
        printer.print(&entity("2", &[("n", Value::Int32(1234)), ("s", text)])).unwrap();
        assert_eq!(printer.finish().unwrap(), 2);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_table_is_aligned_and_harmless() {
        assert_eq!(
            printed(Output::Table, Columns::OfFirstRows),
            "PartitionKey  RowKey  n     s\n\
             ------------  ------  ----  -------\n\
             p             1          7\n\
             p             2       1234  a \"b\",\u{fffd}\n"
        );
    }

    /// A thousand rows of 1 MiB were held for a table that shows 60 characters of each.
    #[test]
    fn what_is_held_of_a_text_is_what_is_shown() {
        let mut printer = Printer::new(Output::Table, Vec::new(), Columns::OfFirstRows);
        printer.print(&entity("1", &[("s", Value::from("é".repeat(1 << 20)))])).unwrap();
        let held = &printer.held[0][2].text;
        assert_eq!(chars(held), CELL_CHARS_MAX);
        assert!(held.capacity() < 1024, "{} bytes", held.capacity());
        let text = held.clone();
        printer.release().unwrap();
        let printed = String::from_utf8(printer.out).unwrap();
        assert!(printed.lines().last().unwrap().ends_with(&text), "{printed}");
    }

    #[test]
    fn a_table_names_what_it_has_no_columns_for() {
        let mut printer = Printer::new(Output::Table, io::sink(), Columns::OfFirstRows);
        for _ in 0..TABLE_ROWS_MEASURED {
            printer.print(&entity("1", &[("n", Value::Int32(7))])).unwrap();
        }
        assert_eq!(printer.told_hidden(), None);
        let properties = ["late", "n", "later"].map(|name| (name, Value::Int32(7)));
        for _ in 0..2 {
            printer.print(&entity("1", &properties)).unwrap();
        }
        let told = printer.told_hidden().unwrap();
        assert!(told.contains("property: late, later; --select"), "{told}");
        let names: Vec<String> = (0..100).map(|n| format!("x{n}")).collect();
        for name in &names {
            printer.print(&entity("1", &[(name.as_str(), Value::Int32(7))])).unwrap();
        }
        let told = printer.told_hidden().unwrap();
        assert!(told.contains(", x17 and others; --select"), "{told}");
    }

    #[test]
    fn a_value_stands_in_its_column_whatever_the_order_of_a_row() {
        let columns = ["s", "Timestamp", "RowKey", "n", "PartitionKey"].map(str::to_owned);
        let mut out = Vec::new();
        let mut printer = Printer::new(Output::Tsv, &mut out, Columns::Chosen(columns.to_vec()));
        let (n, s) = (("n", Value::Int32(7)), ("s", Value::from("x")));
        printer.print(&entity("1", &[n, s.clone()])).unwrap();
        printer.print(&entity("2", &[("t", Value::Int32(1)), s])).unwrap();
        printer.finish().unwrap();
        let epoch = "1970-01-01T00:00:00Z";
        let text = format!("x\t{epoch}\t1\t7\tp\nx\t{epoch}\t2\t\tp\n");
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }

    #[test]
    fn csv_has_the_columns_it_was_told() {
        let columns = ["RowKey", "n", "s"].map(str::to_owned).to_vec();
        assert_eq!(
            printed(Output::Csv, Columns::Chosen(columns)),
            "RowKey,n,s\n1,7,\n2,1234,\"a \"\"b\"\",\u{1b}\"\n"
        );
    }

    #[test]
    fn yaml_and_tabs_keep_values_apart() {
        assert_eq!(
            printed(Output::Yaml, Columns::OfFirstRows),
            "- PartitionKey: \"p\"\n  RowKey: \"1\"\n  \"n\": 7\n\
             - PartitionKey: \"p\"\n  RowKey: \"2\"\n  \"n\": 1234\n  s: \"a \\\"b\\\",\\u001b\"\n"
        );
        let columns = Columns::Chosen(["RowKey", "n", "s"].map(str::to_owned).to_vec());
        assert_eq!(printed(Output::Tsv, columns), "1\t7\t\n2\t1234\ta \"b\",\u{1b}\n");
        assert_eq!(printed(Output::None, Columns::OfFirstRows), "");
    }

    /// Takes two writes.
    struct Full(usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += 1;
            if self.0 > 2 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(bytes.len()) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Rows were missing from a file, and the exit code was 0.
    #[test]
    fn a_row_of_csv_that_is_not_taken_is_an_error() {
        let mut printer = Printer::new(Output::Csv, Full(0), Columns::OfFirstRows);
        printer.print(&entity("1", &[])).unwrap();
        let error = printer.print(&entity("2", &[])).unwrap_err();
        let cause = error.downcast_ref::<io::Error>().unwrap();
        assert_eq!(cause.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn csv_refuses_to_lose_a_column() {
        let columns = Columns::OfAllRows(vec!["RowKey".to_owned()]);
        let mut printer = Printer::new(Output::Csv, Vec::new(), columns);
        printer.print(&entity("1", &[])).unwrap();
        let error = printer.print(&entity("2", &[("late", Value::Int32(1))])).unwrap_err();
        assert!(error.to_string().contains("`late` appeared"), "{error}");
    }

    #[test]
    fn json_is_one_array_and_lines_are_lines() {
        let array: serde_json::Value =
            serde_json::from_str(&printed(Output::Json, Columns::OfFirstRows)).unwrap();
        assert_eq!(array.as_array().unwrap().len(), 2);
        assert_eq!(printed(Output::Jsonl, Columns::OfFirstRows).lines().count(), 2);
    }

    #[test]
    fn nothing_is_still_valid() {
        for (form, text) in [
            (Output::Json, "[]\n"),
            (Output::Jsonl, ""),
            (Output::Csv, "PartitionKey,RowKey\n"),
            (Output::Table, ""),
            (Output::Tsv, ""),
            (Output::Yaml, "[]\n"),
            (Output::None, ""),
        ] {
            let mut out = Vec::new();
            Printer::new(form, &mut out, Columns::OfFirstRows).finish().unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }
}
