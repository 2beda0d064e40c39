//! Input files as records: CSV or JSON lines, plain or gzip, or Parquet, told apart by their first
//! bytes.
//!
//! A record knows its line, which in Parquet is the number of its row. A line that is no record is
//! reported with its number and the next one follows; only a failing read ends a file early, and in
//! CSV a record without an end: where the next one would begin nobody knows.

#![allow(clippy::disallowed_types, reason = "the files are the user's, not the engine's")]

use crate::columnar::column::Column;
use crate::columnar::door::{MAGIC, Reader};
use crate::exit::Failure;
use crate::import::bounded::{Bounded, LINE_BYTES_MAX};
use crate::json;
use anyhow::{Context, Result, ensure};
use flate2::read::MultiGzDecoder;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use tabulith::table::value::Value as Typed;
use xxhash_rust::xxh3::Xxh3;

/// What some programs write before a text.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// What a gzip file begins with.
const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];

/// Bytes asked of the operating system at a time.
const READ_BYTES: usize = 256 << 10;

/// How records are written in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// A header line, then one record per line (or more, where a cell is quoted).
    Csv,
    /// One JSON object per line.
    JsonLines,
}

/// One record of a file.
#[derive(Debug)]
pub(crate) struct Record {
    /// Its first line, from 1.
    pub(crate) line: u64,
    /// Its cells.
    pub(crate) cells: Cells,
}

/// The content of a record.
#[derive(Debug)]
pub(crate) enum Cells {
    /// As many cells as the header has columns.
    Csv(csv::StringRecord),
    /// The members of an object.
    Json(Map<String, Value>),
    /// A value, or none, for each column.
    Typed(Vec<Option<Typed>>),
}

/// What reading on gives.
#[derive(Debug)]
pub(crate) enum Next {
    /// A record.
    Record(Record),
    /// A line that is none, and why.
    Bad { line: u64, why: String },
    /// No more.
    End,
}

/// A file being read.
pub(crate) struct Rows {
    path: PathBuf,
    columns: Vec<String>,
    lines: Lines,
}

enum Lines {
    Csv(Box<csv::Reader<Bounded<Input>>>),
    Json { input: Input, line: u64 },
    Typed { reader: Box<Reader>, row: u64 },
}

type Input = BufReader<Box<dyn Read + Send>>;

impl Rows {
    /// Opens `path` and reads what tells its format, and the header of a CSV file.
    pub(crate) fn open(path: &Path) -> Result<Rows> {
        let mut raw = File::open(path).with_context(|| format!("{}", path.display()))?;
        let magic = first(&mut raw, MAGIC.len());
        if magic.with_context(|| format!("reading {}", path.display()))? == MAGIC {
            return Rows::open_typed(path);
        }
        let sniffed = text(path).and_then(sniff);
        let format = match sniffed.with_context(|| format!("reading {}", path.display()))? {
            Some(b'{') => Format::JsonLines,
            // A header may begin so; of a file of that name it is none.
            Some(b'[') if has_name_of(path, &["json", "jsonl", "ndjson"]) => {
                let what =
                    "is a JSON array; one object a line is wanted, as `jq -c '.[]'` makes them";
                return Err(Failure::usage(format!("{} {what}", path.display())).into());
            }
            // A file without rows.
            None if has_name_of(path, &["jsonl", "ndjson"]) => Format::JsonLines,
            _ => Format::Csv,
        };
        let input = text(path).with_context(|| format!("reading {}", path.display()))?;
        match format {
            Format::JsonLines => Ok(Rows {
                path: path.to_owned(),
                columns: Vec::new(),
                lines: Lines::Json { input, line: 0 },
            }),
            Format::Csv => Rows::open_csv(path, input),
        }
    }

    fn open_typed(path: &Path) -> Result<Rows> {
        let reader = Reader::open(path)?;
        let columns = reader.columns().iter().map(|column| column.name.clone()).collect();
        let lines = Lines::Typed { reader: Box::new(reader), row: 0 };
        Ok(Rows { path: path.to_owned(), columns, lines })
    }

    fn open_csv(path: &Path, input: Input) -> Result<Rows> {
        // Flexible: a short record is ours to report, with the records behind it still readable.
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(Bounded::new(input));
        let header =
            reader.headers().with_context(|| format!("the header line of {}", path.display()))?;
        let columns: Vec<String> = header.iter().map(str::to_owned).collect();
        ensure!(!columns.is_empty(), "{} is empty: no header line", path.display());
        let mut names = HashSet::new();
        for name in &columns {
            ensure!(names.insert(name), "{}:1: two columns are called `{name}`", path.display());
        }
        Ok(Rows { path: path.to_owned(), columns, lines: Lines::Csv(Box::new(reader)) })
    }

    /// The columns of a CSV file's header, or of a Parquet file; none for JSON lines.
    pub(crate) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Of a file that says them itself: the number of its rows, and for each column its type or why
    /// no property holds it.
    pub(crate) fn types(&self) -> Option<(u64, &[Column])> {
        match &self.lines {
            Lines::Typed { reader, .. } => Some((reader.rows(), reader.columns())),
            Lines::Csv(_) | Lines::Json { .. } => None,
        }
    }

    /// The next record. An error is a failing read, damaged gzip data or a record without an end,
    /// and final.
    pub(crate) fn next(&mut self) -> Result<Next> {
        match &mut self.lines {
            Lines::Csv(reader) => next_csv(reader, self.columns.len()),
            Lines::Json { input, line } => next_json(input, line),
            // Its errors name the file, and the column.
            Lines::Typed { reader, row } => return next_typed(reader, row),
        }
        .with_context(|| format!("reading {}", self.path.display()))
    }
}

fn next_csv(reader: &mut csv::Reader<Bounded<Input>>, columns: usize) -> Result<Next> {
    let mut bytes = csv::ByteRecord::new();
    if !reader.read_byte_record(&mut bytes)? {
        return Ok(Next::End);
    }
    let end = reader.position().byte();
    let line = reader.get_mut().line_of(end);
    if bytes.len() != columns {
        let why = format!("{} fields; the header has {columns}", bytes.len());
        return Ok(Next::Bad { line, why });
    }
    Ok(match csv::StringRecord::from_byte_record(bytes) {
        Ok(cells) => Next::Record(Record { line, cells: Cells::Csv(cells) }),
        Err(error) => Next::Bad {
            line,
            why: format!("field {} is not UTF-8", error.utf8_error().field() + 1),
        },
    })
}

fn next_typed(reader: &mut Reader, row: &mut u64) -> Result<Next> {
    let Some(values) = reader.next()? else { return Ok(Next::End) };
    *row += 1;
    let line = *row;
    Ok(match values {
        Ok(values) => Next::Record(Record { line, cells: Cells::Typed(values) }),
        Err(why) => Next::Bad { line, why },
    })
}

fn next_json(input: &mut Input, line: &mut u64) -> Result<Next> {
    loop {
        let mut text = Vec::new();
        // One byte more than allowed tells a full line from a cut one.
        let limit = LINE_BYTES_MAX as u64 + 1;
        if input.by_ref().take(limit).read_until(b'\n', &mut text)? == 0 {
            return Ok(Next::End);
        }
        *line += 1;
        let at = *line;
        if text.len() > LINE_BYTES_MAX {
            skip_line(input)?;
            let why = format!("the line is longer than {} MiB", LINE_BYTES_MAX >> 20);
            return Ok(Next::Bad { line: at, why });
        }
        if text.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        return Ok(match json::members(&text) {
            Ok(members) => Next::Record(Record { line: at, cells: Cells::Json(members) }),
            Err(error) => {
                Next::Bad { line: at, why: format!("no JSON object: {}", json::told(&error)) }
            }
        });
    }
}

fn skip_line(input: &mut Input) -> io::Result<()> {
    loop {
        let buffered = input.fill_buf()?;
        if buffered.is_empty() {
            return Ok(());
        }
        match buffered.iter().position(|b| *b == b'\n') {
            Some(end) => {
                input.consume(end + 1);
                return Ok(());
            }
            None => {
                let length = buffered.len();
                input.consume(length);
            }
        }
    }
}

/// The text of a file, unpacked where it is gzip, behind its byte order mark: there an object, or a
/// quote that begins a cell, is at the beginning.
fn text(path: &Path) -> io::Result<Input> {
    let mut raw = File::open(path)?;
    let magic = first(&mut raw, GZIP_MAGIC.len())?;
    let is_gzip = magic == GZIP_MAGIC;
    let raw = io::Cursor::new(magic).chain(raw);
    let mut bytes: Box<dyn Read + Send> = if is_gzip {
        Box::new(MultiGzDecoder::new(BufReader::with_capacity(READ_BYTES, raw)))
    } else {
        Box::new(raw)
    };
    let mut mark = first(&mut bytes, BYTE_ORDER_MARK.len())?;
    if mark == BYTE_ORDER_MARK {
        mark.clear();
    }
    let text: Box<dyn Read + Send> = Box::new(io::Cursor::new(mark).chain(bytes));
    Ok(BufReader::with_capacity(READ_BYTES, text))
}

/// The first byte that is no blank, where there is one: an object opens a brace, a header line does
/// not.
fn sniff(mut input: Input) -> io::Result<Option<u8>> {
    loop {
        let buffered = input.fill_buf()?;
        if let Some(first) = buffered.iter().find(|b| !b.is_ascii_whitespace()) {
            return Ok(Some(*first));
        }
        let length = buffered.len();
        if length == 0 {
            return Ok(None);
        }
        input.consume(length);
    }
}

/// Whether a file, gzip or not, is called with one of those endings.
fn has_name_of(path: &Path, endings: &[&str]) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let name = name.trim_end_matches(".gz");
    name.rsplit_once('.').is_some_and(|(_, ending)| endings.contains(&ending))
}

/// The first bytes, up to so many.
fn first(of: &mut impl Read, bytes: usize) -> io::Result<Vec<u8>> {
    let mut first = Vec::with_capacity(bytes);
    of.take(bytes as u64).read_to_end(&mut first)?;
    Ok(first)
}

/// Refuses what cannot be read from its beginning more than once. One that is not there is told
/// where it is opened.
pub(crate) fn check_file(path: &Path) -> Result<()> {
    let about = std::fs::metadata(path).ok();
    if about.as_ref().is_some_and(std::fs::Metadata::is_dir) {
        return Err(Failure::usage(format!("{} is a folder", path.display())).into());
    }
    let is_other = about.is_some_and(|about| !about.is_file());
    if is_other || path.as_os_str() == "-" {
        return Err(Failure::usage(format!(
            "import reads a file more than once, and {} is not a regular file; save it first",
            path.display()
        ))
        .into());
    }
    Ok(())
}

/// The digest of a file's bytes as they lie on disk; none where it `is_stopped` before the end.
pub(crate) fn digest(path: &Path, is_stopped: impl Fn() -> bool) -> Result<Option<u128>> {
    let mut file = File::open(path).with_context(|| format!("{}", path.display()))?;
    let mut hash = Xxh3::new();
    let mut buffer = vec![0; READ_BYTES];
    while !is_stopped() {
        match file.read(&mut buffer).with_context(|| format!("reading {}", path.display()))? {
            0 => return Ok(Some(hash.digest128())),
            n => hash.update(&buffer[..n]),
        }
    }
    Ok(None)
}

/// A JSON member as text for keys and for `--types`; none for null, objects and arrays.
pub(crate) fn json_text(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Number(number) => Some(Cow::Owned(number.to_string())),
        Value::Bool(yes) => Some(Cow::Borrowed(if *yes { "true" } else { "false" })),
        Value::Null | Value::Object(_) | Value::Array(_) => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn read(bytes: &[u8]) -> Vec<String> {
        let file = file(bytes);
        let mut rows = Rows::open(file.path()).unwrap();
        let mut seen = Vec::new();
        loop {
            seen.push(match rows.next().unwrap() {
                Next::Record(Record { line, cells: Cells::Csv(cells) }) => {
                    format!("{line}: {}", cells.iter().collect::<Vec<_>>().join("|"))
                }
                Next::Record(Record { line, cells: Cells::Json(members) }) => {
                    format!("{line}: {}", serde_json::to_string(&members).unwrap())
                }
                Next::Record(Record { line, cells: Cells::Typed(values) }) => {
                    format!("{line}: {values:?}")
                }
                Next::Bad { line, why } => format!("{line} bad: {why}"),
                Next::End => return seen,
            });
        }
    }

    #[test]
    fn csv_records_know_their_line() {
        let text = b"a,b\n1,2\n\"x\ny\",3\n4,5\n";
        assert_eq!(read(text), ["2: 1|2", "3: x\ny|3", "5: 4|5"]);
    }

    #[test]
    fn a_short_record_is_reported_and_the_next_one_read() {
        let text = b"a,b\n1\n2,3\n4,5,6\n\xff,1\n7,8\n";
        assert_eq!(
            read(text),
            [
                "2 bad: 1 fields; the header has 2",
                "3: 2|3",
                "4 bad: 3 fields; the header has 2",
                "5 bad: field 1 is not UTF-8",
                "6: 7|8",
            ]
        );
    }

    #[test]
    fn the_line_of_a_record_is_the_one_on_which_it_begins() {
        let bad = "2 bad: 1 fields; the header has 2";
        assert_eq!(read(b"a,b\r\n1\r\n2,3\r\n"), [bad, "3: 2|3"]);
        assert_eq!(read(b"a\n\n1\n"), ["3: 1"]);
        assert_eq!(read(b"\r\na\r\n\r\n1\r\n\"2\r\n\"\r\n3"), ["4: 1", "5: 2\r\n", "7: 3"]);
        let text = format!("a\r\n{}x\r\n", "1\r\n".repeat(50_000));
        assert_eq!(read(text.as_bytes())[50_000], "50002: x");
    }

    #[test]
    fn json_lines_may_begin_with_a_byte_order_mark_or_blank_lines() {
        assert_eq!(read("\u{feff}{\"a\":1}\n".as_bytes()), ["1: {\"a\":1}"]);
        assert_eq!(read(&gzip("\u{feff}{\"a\":1}\n".as_bytes())), ["1: {\"a\":1}"]);
        assert_eq!(read(b"\n\n\n\n{\"a\":1}\n"), ["5: {\"a\":1}"]);
        let late = [&b" \n".repeat(READ_BYTES)[..], b"{\"a\":1}"].concat();
        assert_eq!(read(&late), [format!("{}: {{\"a\":1}}", READ_BYTES + 1)]);
        assert_eq!(read(b"\n\n\n\n\n a\n1\n"), ["7: 1"]);
    }

    /// Why a file cannot be read to its end; nothing where it can.
    fn refused(bytes: &[u8]) -> String {
        let file = file(bytes);
        let read = || -> Result<()> {
            let mut rows = Rows::open(file.path())?;
            while !matches!(rows.next()?, Next::End) {}
            Ok(())
        };
        read().err().map(|error| format!("{error:#}")).unwrap_or_default()
    }

    /// The rest of the file was one cell, and the exit code 0.
    #[test]
    fn a_quote_that_is_never_closed_is_an_error_of_its_line() {
        let why = refused(b"id,note\n1,\"5 inch\n2,ok\n3,ok\n");
        assert!(why.contains("line 2: a quote is never closed"), "{why}");
        let why = refused(b"id,\"note\n1,ok\n");
        assert!(why.contains("line 1: a quote is never closed"), "{why}");
        let why = refused(b"id,note\r\n1,\"a\nb\"\r\n2,\"\"\"");
        assert!(why.contains("line 4: a quote is never closed"), "{why}");
    }

    #[test]
    fn a_record_of_csv_has_a_length() {
        let text = |bytes: usize| {
            let cell = "x".repeat(bytes);
            format!("a,b\n\"1\n\",2\n3,\"{cell}\"\n5,6\n").into_bytes()
        };
        // Beside the cell the record has four bytes.
        assert_eq!(refused(&text(LINE_BYTES_MAX - 4)), "");
        let why = refused(&text(LINE_BYTES_MAX - 3));
        assert!(why.contains("line 4: the record is longer than 8 MiB"), "{why}");
    }

    #[test]
    fn quotes_that_are_closed_or_within_a_cell_are_read() {
        let text = b"a,b\n\"x\n\"\"y\"\"\",5\" pipe\n\"u\"v\",w\n\"\",\"\"\"\"\r\n";
        assert_eq!(read(text), ["2: x\n\"y\"|5\" pipe", "4: uv\"|w", "5: |\""]);
        assert_eq!(read("\u{feff}\"a,\"\n1\n".as_bytes()), ["2: 1"]);
    }

    #[test]
    fn a_member_that_is_given_twice_makes_a_bad_row() {
        let seen = read(br#"{"PartitionKey":"p","RowKey":"r","n":1,"n":2}"#);
        assert!(seen[0].starts_with("1 bad: no JSON object: `n` is given twice"), "{}", seen[0]);
    }

    #[test]
    fn json_lines_keep_the_text_of_numbers() {
        let text = b"{\"a\":1.0,\"b\":12345678901234567890}\n\n[1]\n{\"a\":2}";
        let seen = read(text);
        assert_eq!(seen[0], "1: {\"a\":1.0,\"b\":12345678901234567890}");
        assert!(seen[1].starts_with("3 bad: no JSON object"), "{}", seen[1]);
        assert_eq!(seen[2], "4: {\"a\":2}");
    }

    #[test]
    fn a_line_without_end_is_skipped_not_swallowed() {
        let mut text = vec![b' '; 1];
        text.extend_from_slice(b"{\"a\":\"");
        text.resize(LINE_BYTES_MAX + 10, b'x');
        text.extend_from_slice(b"\"}\n{\"a\":1}\n");
        assert_eq!(read(&text), ["1 bad: the line is longer than 8 MiB", "2: {\"a\":1}"]);
    }

    #[test]
    fn gzip_is_known_by_its_bytes() {
        let mut two_members = gzip(b"a\n1\n");
        two_members.extend(gzip(b"2\n"));
        assert_eq!(read(&two_members), ["2: 1", "3: 2"]);
    }

    #[test]
    fn a_cut_gzip_file_fails_instead_of_ending() {
        let mut bytes = gzip("a,b\n1,2\n".repeat(10_000).as_bytes());
        bytes.truncate(bytes.len() - 20);
        let file = file(&bytes);
        let mut rows = Rows::open(file.path()).unwrap();
        let failed = loop {
            match rows.next() {
                Ok(Next::End) => break false,
                Ok(_) => {}
                Err(_) => break true,
            }
        };
        assert!(failed);
    }

    #[test]
    fn unusable_headers_are_refused() {
        assert!(Rows::open(file(b"").path()).is_err());
        let twice = Rows::open(file(b"a,a\n").path()).err().unwrap().to_string();
        assert!(twice.contains("two columns are called `a`"), "{twice}");
    }

    /// What `export` prints of a table without rows could not be imported.
    #[test]
    fn an_empty_file_of_json_lines_has_no_rows() {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in
            [("t.jsonl", Vec::new()), ("t.JSONL", b"\n".to_vec()), ("t.jsonl.gz", gzip(b""))]
        {
            let path = folder.path().join(name);
            File::create(&path).unwrap().write_all(&bytes).unwrap();
            let mut rows = Rows::open(&path).unwrap();
            assert!(matches!(rows.next().unwrap(), Next::End), "{name}");
        }
    }

    #[test]
    fn equal_bytes_have_equal_digests() {
        let of = |bytes: &[u8]| digest(file(bytes).path(), || false).unwrap();
        assert!(of(b"abc").is_some());
        assert_eq!(of(b"abc"), of(b"abc"));
        assert_ne!(of(b"abc"), of(b"abd"));
        assert_eq!(digest(file(b"abc").path(), || true).unwrap(), None, "as it is told");
    }
}
