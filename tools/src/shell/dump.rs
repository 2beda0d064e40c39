//! `.dump`: a table as JSON lines, which `.import` reads back with every type.

use crate::args::output::Output;
use crate::ask::Ask;
use crate::draft::Draft;
use crate::import::report::{count_expiring, grouped, tell_expiring};
use crate::print::{self, Columns, Printer, note};
use crate::query::Reading;
use crate::target::Target;
use anyhow::Result;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Bytes written at a time.
const WRITE_BYTES: usize = 256 << 10;

/// Prints a table, or writes it to a file.
pub(crate) async fn dump(target: &Target, table: &str, file: Option<&Path>) -> Result<()> {
    let Some(path) = file else {
        let out = BufWriter::with_capacity(WRITE_BYTES, print::out());
        return write(target, table, out).await.map(drop);
    };
    // The file may be stdout's.
    print::out().flush()?;
    let draft = Draft::create(path)?;
    let out = BufWriter::with_capacity(WRITE_BYTES, &draft);
    let rows = write(target, table, out).await?;
    draft.finish()?;
    note(&format!("{}: {} rows of {table}", path.display(), grouped(rows)));
    Ok(())
}

async fn write(target: &Target, table: &str, out: impl Write) -> Result<u64> {
    let reading = Reading { target, table, ask: Ask::rows(None, None), top: None };
    let mut printer = Printer::new(Output::Jsonl, out, Columns::OfFirstRows);
    let mut expiring = 0;
    reading
        .each_page(|page| {
            expiring += count_expiring(&page.entities);
            page.entities.iter().try_for_each(|entity| printer.print(entity))
        })
        .await?;
    tell_expiring(expiring);
    printer.finish()
}
