//! `tabulith export`: a whole table, in key order, in a form that `import` reads.

use crate::args::rows::ExportArgs;
use crate::ask::Ask;
use crate::exit::Exit;
use crate::folder::Access;
use crate::import::report::rate;
use crate::print::{self, Printer, note};
use crate::query::Reading;
use crate::target::Target;
use anyhow::Result;
use std::io::BufWriter;
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
    let columns = reading.columns(args.output).await?;
    let out = BufWriter::with_capacity(WRITE_BYTES, print::out());
    let mut printer = Printer::new(args.output, out, columns);
    reading
        .each_page(|page| page.entities.iter().try_for_each(|entity| printer.print(entity)))
        .await?;
    let rows = printer.finish()?;
    note(&format!("exported {} from {}", rate(rows, clock.steady()), args.table));
    Ok(Exit::Ok)
}
