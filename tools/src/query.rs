//! `tabulith query`: the rows that match a filter.

use crate::args::output::Output;
use crate::args::rows::QueryArgs;
use crate::ask::Ask;
use crate::exit::Exit;
use crate::folder::Access;
use crate::print::{self, Columns, Printer, note};
use crate::target::{From, Page, Target};
use anyhow::Result;
use std::io::{BufWriter, Write as _};
use std::time::Duration;
use tabulith_client::Explained;

/// Most rows of a page: the service's bound.
const PAGE_ROWS_MAX: u64 = 1000;

/// Runs the query and prints what it finds.
pub(crate) async fn run(args: QueryArgs) -> Result<Exit> {
    run_seeing(args, |_| {}).await
}

/// As `run`; `see` is shown each page that is printed.
pub(crate) async fn run_seeing(args: QueryArgs, mut see: impl FnMut(&Page)) -> Result<Exit> {
    let target = Target::open(&args.target, Access::Read, Duration::ZERO)?;
    if args.count {
        let rows = count(&target, &args.table, args.filter, args.top).await?;
        writeln!(print::out(), "{rows}")?;
        return Ok(Exit::Ok);
    }
    let ask = Ask { explain: args.explain, ..Ask::rows(args.filter, args.select) };
    let reading = Reading { target: &target, table: &args.table, ask, top: args.top };
    let columns = reading.columns(args.output).await?;
    let out = BufWriter::new(print::out());
    let mut printer = Printer::new(args.output, out, columns);
    let mut explained = Findings::default();
    reading
        .each_page(|page| {
            explained.add(page);
            see(page);
            page.entities.iter().try_for_each(|entity| printer.print(entity))
        })
        .await?;
    let returned = printer.finish()?;
    if args.explain {
        explained.print(returned);
    }
    Ok(Exit::Ok)
}

/// How many rows of a table pass a filter, at most `top`.
pub(crate) async fn count(
    target: &Target,
    table: &str,
    filter: Option<String>,
    top: Option<u64>,
) -> Result<u64> {
    if filter.is_none()
        && let Target::Folder(folder) = target
    {
        return Ok(folder.count(table).await?.min(top.unwrap_or(u64::MAX)));
    }
    let ask = Ask::rows(filter, Some(vec!["PartitionKey".to_owned()]));
    let reading = Reading { target, table, ask, top };
    let mut rows = 0;
    reading
        .each_page(|page| {
            rows += page.entities.len() as u64;
            Ok(())
        })
        .await?;
    Ok(rows)
}

/// Rows of one table, page by page.
pub(crate) struct Reading<'a> {
    /// Where the table is.
    pub(crate) target: &'a Target,
    /// Its name.
    pub(crate) table: &'a str,
    /// What is asked for; its `top` is filled in per page.
    pub(crate) ask: Ask,
    /// Most rows in all.
    pub(crate) top: Option<u64>,
}

impl Reading<'_> {
    /// Reads pages until the end or until `top` rows.
    pub(crate) async fn each_page(&self, mut take: impl FnMut(&Page) -> Result<()>) -> Result<()> {
        let mut pages = self.pages();
        while let Some(page) = pages.next().await? {
            take(&page)?;
        }
        Ok(())
    }

    /// Its pages, one after the other.
    pub(crate) fn pages(&self) -> Pages<'_> {
        let left = self.top.unwrap_or(u64::MAX);
        Pages { reading: self, ask: self.ask.clone(), left, from: None }
    }

    /// The columns to print, where they must be known before the first row. CSV without `--select`
    /// costs one more pass over the rows: rows of one table need not have the same properties.
    pub(crate) async fn columns(&self, form: Output) -> Result<Columns> {
        let mut columns = vec!["PartitionKey".to_owned(), "RowKey".to_owned()];
        if let Some(select) = &self.ask.select {
            for name in select {
                if !columns.contains(name) {
                    columns.push(name.clone());
                }
            }
            return Ok(Columns::Chosen(columns));
        }
        if !form.has_fixed_columns() {
            return Ok(Columns::OfFirstRows);
        }
        let mut known = std::collections::HashSet::new();
        self.each_page(|page| {
            for (name, _) in page.entities.iter().flat_map(|entity| &entity.properties) {
                if known.insert(name.clone()) {
                    columns.push(name.clone());
                }
            }
            Ok(())
        })
        .await?;
        Ok(Columns::OfAllRows(columns))
    }
}

/// Pages of rows, read as they are asked for.
pub(crate) struct Pages<'a> {
    reading: &'a Reading<'a>,
    ask: Ask,
    /// Rows that may still come; none behind the last page.
    left: u64,
    from: Option<From>,
}

impl Pages<'_> {
    /// The next page, until the end or until `top` rows.
    pub(crate) async fn next(&mut self) -> Result<Option<Page>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.ask.top = self.left.min(PAGE_ROWS_MAX) as usize;
        let Reading { target, table, .. } = self.reading;
        let mut page = target.page(table, &self.ask, self.from.as_ref()).await?;
        self.left = self.left.saturating_sub(page.entities.len() as u64);
        self.from = page.next.take();
        if self.from.is_none() {
            self.left = 0;
        }
        Ok(Some(page))
    }
}

/// How the rows were found, over all pages.
#[derive(Debug, Default)]
struct Findings {
    plan: Option<String>,
    examined: u64,
    blocks: (u64, u64),
    pages: u64,
}

impl Findings {
    fn add(&mut self, page: &Page) {
        self.pages += 1;
        if let Some(Explained { plan, rows_examined, blocks_read, blocks_skipped }) =
            &page.explained
        {
            self.plan.get_or_insert_with(|| plan.clone());
            self.examined += rows_examined;
            self.blocks = (self.blocks.0 + blocks_read, self.blocks.1 + blocks_skipped);
        }
    }

    fn print(&self, returned: u64) {
        match &self.plan {
            Some(plan) => {
                let (read, skipped) = self.blocks;
                let blocks = match read + skipped {
                    0 => String::new(),
                    _ => format!("\nblocks read: {read}, passed over: {skipped}"),
                };
                note(&format!(
                    "plan: {plan}\nrows examined: {}, returned: {returned}, pages: {}{blocks}",
                    self.examined, self.pages
                ));
            }
            None => note(
                "the server does not say how it found the rows; --explain needs a tabulith server or --data-dir",
            ),
        }
    }
}
