//! A folder with one file of JSON lines for each table.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the files are the user's, not the engine's"
)]

use crate::draft::Draft;
use crate::exit::{Exit, Failure};
use crate::import::rows::{Cells, Next, Rows};
use crate::json;
use anyhow::{Context, Result, bail};
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use tabulith::table::entity::Entity;

/// Ends of the names of such files.
const ENDINGS: [&str; 2] = [".jsonl", ".jsonl.gz"];

/// The names of the tables that have a file in the folder, sorted; one at least.
pub(crate) fn tables(dir: &Path) -> Result<Vec<String>> {
    let named = || format!("{}", dir.display());
    let mut tables = Vec::new();
    for entry in fs::read_dir(dir).with_context(named)? {
        let name = entry.with_context(named)?.file_name();
        let Some(name) = name.to_str() else { continue };
        tables.extend(ENDINGS.iter().find_map(|end| name.strip_suffix(end)).map(str::to_owned));
    }
    if tables.is_empty() {
        let what = format!("{} has no file NAME.jsonl", dir.display());
        return Err(Failure::new(Exit::NotFound, what).into());
    }
    tables.sort_unstable();
    tables.dedup();
    let mut folded = HashSet::new();
    match tables.iter().find(|table| !folded.insert(table.to_ascii_lowercase())) {
        None => Ok(tables),
        Some(table) => {
            let what = format!("{} has the table {table} twice", dir.display());
            Err(Failure::new(Exit::Conflict, what).into())
        }
    }
}

/// The file of a table, or the one to be: both of them would be two tables of one name. It may have
/// the name in another case, which is the same table.
fn file_of(dir: &Path, table: &str) -> Result<PathBuf> {
    let there = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let there: Vec<String> = there.filter_map(|name| name.into_string().ok()).collect();
    let [plain, packed] = ENDINGS.map(|end| {
        let name = format!("{table}{end}");
        let same = there.iter().find(|other| other.eq_ignore_ascii_case(&name));
        dir.join(same.unwrap_or(&name))
    });
    match (plain.exists(), packed.exists()) {
        (true, true) => {
            let (plain, packed) = (plain.display(), packed.display());
            let what = format!("{plain} and {packed} are one table: take one away");
            Err(Failure::new(Exit::Conflict, what).into())
        }
        (false, true) => Ok(packed),
        _ => Ok(plain),
    }
}

/// Whether a table has a file.
pub(crate) fn has(dir: &Path, table: &str) -> Result<bool> {
    Ok(file_of(dir, table)?.exists())
}

/// Reads the rows of a table's file.
pub(crate) struct Reader {
    path: PathBuf,
    // None for a file without a byte, which is a table without rows.
    rows: Option<Rows>,
}

impl Reader {
    /// Opens the file of a table.
    pub(crate) fn open(dir: &Path, table: &str) -> Result<Reader> {
        let path = file_of(dir, table)?;
        let bytes = fs::metadata(&path).with_context(|| format!("{}", path.display()))?.len();
        let rows = if bytes == 0 { None } else { Some(Rows::open(&path)?) };
        Ok(Reader { path, rows })
    }

    /// The next rows, at most so many, and none behind the one that has made them so many bytes;
    /// none at the end.
    pub(crate) fn next(&mut self, most: usize, bytes_max: usize) -> Result<Vec<Entity>> {
        let (mut page, mut bytes) = (Vec::new(), 0);
        let Some(rows) = &mut self.rows else { return Ok(page) };
        while page.len() < most && bytes < bytes_max {
            let record = match rows.next()? {
                Next::Record(record) => record,
                Next::Bad { line, why } => bail!("{}:{line}: {why}", self.path.display()),
                Next::End => break,
            };
            let entity = match &record.cells {
                Cells::Json(members) => json::read_entity(members),
                Cells::Csv(_) | Cells::Typed(_) => Err("not a line of JSON".to_owned()),
            };
            let place = || format!("{}:{}", self.path.display(), record.line);
            let entity = entity.map_err(anyhow::Error::msg).with_context(place)?;
            bytes += json::entity_bytes_max(&entity);
            page.push(entity);
        }
        Ok(page)
    }
}

/// Writes the rows of a table into a file that takes its name when it is whole.
pub(crate) struct Writer {
    path: PathBuf,
    draft: Draft,
    out: BufWriter<File>,
}

impl Writer {
    /// Begins the file of a table; the folder is made where it does not exist.
    pub(crate) fn create(dir: &Path, table: &str) -> Result<Writer> {
        fs::create_dir_all(dir).with_context(|| format!("{}", dir.display()))?;
        let path = file_of(dir, table)?;
        if path.extension().is_some_and(|end| end == "gz") {
            let what = format!("{} is there already", path.display());
            return Err(Failure::new(Exit::Conflict, what).into());
        }
        let draft = Draft::create(&path)?;
        let file = draft.file.try_clone().with_context(|| format!("{}", path.display()))?;
        Ok(Writer { path, draft, out: BufWriter::with_capacity(256 << 10, file) })
    }

    /// Appends rows.
    pub(crate) fn write(&mut self, rows: &[Entity]) -> Result<()> {
        let mut text = Vec::new();
        for row in rows {
            json::write_entity(&mut text, row);
            text.push(b'\n');
        }
        self.out.write_all(&text).with_context(|| format!("{}", self.path.display()))
    }

    /// Ends the file.
    pub(crate) fn finish(self) -> Result<()> {
        let named = || format!("{}", self.path.display());
        self.out.into_inner().map_err(|error| error.into_error()).with_context(named)?;
        self.draft.finish()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// A thousand lines of 1 MiB were one page.
    #[test]
    fn a_page_of_large_rows_is_short() {
        let dir = tempfile::tempdir().unwrap();
        let row = |n: usize| {
            let text = "x".repeat(1000);
            format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{n}\",\"text\":\"{text}\"}}\n")
        };
        fs::write(dir.path().join("rows.jsonl"), (0..5).map(row).collect::<String>()).unwrap();
        let mut reader = Reader::open(dir.path(), "rows").unwrap();
        let mut next = |most: usize, bytes_max: usize| {
            let page = reader.next(most, bytes_max).unwrap();
            page.iter().map(|row| row.row_key.clone()).collect::<String>()
        };
        assert_eq!(next(10, 1500), "01");
        assert_eq!(next(10, 1), "2", "there is one at least");
        assert_eq!(next(1, 1500), "3");
        assert_eq!((next(10, usize::MAX).as_str(), next(10, 1).as_str()), ("4", ""));
    }
}
