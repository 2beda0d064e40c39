//! `.dump`: a table as JSON lines, which `.import` reads back with every type.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the file is the user's, not the engine's"
)]

use crate::args::output::Output;
use crate::ask::Ask;
use crate::import::report::grouped;
use crate::print::{self, Columns, Printer, note};
use crate::query::Reading;
use crate::target::Target;
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Bytes written at a time.
const WRITE_BYTES: usize = 256 << 10;

/// Prints a table, or writes it to a file.
pub(crate) async fn dump(target: &Target, table: &str, file: Option<&Path>) -> Result<()> {
    let Some(path) = file else {
        let out = BufWriter::with_capacity(WRITE_BYTES, print::out());
        return write(target, table, out).await.map(drop);
    };
    let draft = Draft::create(path)?;
    let out = BufWriter::with_capacity(WRITE_BYTES, &draft.file);
    let rows = write(target, table, out).await?;
    draft.finish(path)?;
    note(&format!("{}: {} rows of {table}", path.display(), grouped(rows)));
    Ok(())
}

async fn write(target: &Target, table: &str, out: impl Write) -> Result<u64> {
    let reading = Reading { target, table, ask: Ask::rows(None, None), top: None };
    let mut printer = Printer::new(Output::Jsonl, out, Columns::OfFirstRows);
    reading
        .each_page(|page| page.entities.iter().try_for_each(|entity| printer.print(entity)))
        .await?;
    printer.finish()
}

/// A file that is being written beside the place of its name. One that is given up is removed.
struct Draft {
    path: PathBuf,
    file: File,
}

impl Draft {
    fn create(path: &Path) -> Result<Draft> {
        let mut name = OsString::from(path);
        name.push(format!(".{}.part", std::process::id()));
        let draft = PathBuf::from(name);
        let file = File::create(&draft).with_context(|| format!("{}", draft.display()))?;
        Ok(Draft { path: draft, file })
    }

    fn finish(self, path: &Path) -> Result<()> {
        let named = || format!("{}", path.display());
        self.file.sync_data().with_context(named)?;
        fs::rename(&self.path, path).with_context(named)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // It has its name by then, or it is not wanted.
        let _ = fs::remove_file(&self.path);
    }
}
