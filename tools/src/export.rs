//! `tabulith export`: a whole table, in key order, in a form that `import` reads.

use crate::args::output::{ExportForm, Output};
use crate::args::rows::ExportArgs;
use crate::ask::Ask;
use crate::columnar::door::Survey;
use crate::exit::{Exit, Failure};
use crate::folder::Access;
use crate::import::report::{count_expiring, grouped, rate, tell_expiring};
use crate::print::{self, Bytes, Printer, note};
use crate::query::Reading;
use crate::target::Target;
use anyhow::Result;
use std::io::{self, BufWriter, IsTerminal as _};
use std::time::Duration;
use tabulith::env::clock::{Clock, SystemClock};

/// Bytes written to stdout at a time.
const WRITE_BYTES: usize = 256 << 10;

/// Exports the table.
pub(crate) async fn run(args: ExportArgs) -> Result<Exit> {
    let clock = SystemClock::new();
    let target = Target::open(&args.target, Access::Read, Duration::ZERO)?;
    let ask = Ask::rows(args.filter, args.select);
    let reading = Reading { target: &target, table: &args.table, ask, top: None };
    let mut expiring = 0;
    let rows = match args.output {
        ExportForm::Rows(form) => rows(&reading, form, &mut expiring).await?,
        ExportForm::Parquet => columns(&reading, &mut expiring).await?,
    };
    note(&format!("exported {} from {}", rate(rows, clock.steady()), args.table));
    tell_expiring(expiring);
    Ok(Exit::Ok)
}

/// Writes rows as they come, and counts those that expire. Returns how many there were.
async fn rows(reading: &Reading<'_>, form: Output, expiring: &mut u64) -> Result<u64> {
    let columns = reading.columns(form).await?;
    let out = BufWriter::with_capacity(WRITE_BYTES, print::out());
    let mut printer = Printer::new(form, out, columns);
    reading
        .each_page(|page| {
            *expiring += count_expiring(&page.entities);
            page.entities.iter().try_for_each(|entity| printer.print(entity))
        })
        .await?;
    let blanks = printer.blanks();
    let rows = printer.finish()?;
    if blanks > 0 {
        let blanks = grouped(blanks);
        note(&format!(
            "{blanks} empty strings and binaries: CSV cannot tell them from absent ones; JSON lines can (-o jsonl)"
        ));
    }
    Ok(rows)
}

/// Looks at all rows for their columns, then writes them, and counts those that expire. Returns how
/// many there were.
async fn columns(reading: &Reading<'_>, expiring: &mut u64) -> Result<u64> {
    let mut survey = Survey::begin()?;
    if io::stdout().is_terminal() {
        return Err(Failure::usage("Parquet is no text: send it to a file").into());
    }
    reading
        .each_page(|page| page.entities.iter().try_for_each(|entity| survey.add(entity)))
        .await?;
    let mut writer = survey.writer(BufWriter::with_capacity(WRITE_BYTES, Bytes::out()))?;
    reading
        .each_page(|page| {
            *expiring += count_expiring(&page.entities);
            page.entities.iter().try_for_each(|entity| writer.add(entity))
        })
        .await?;
    writer.finish()
}
