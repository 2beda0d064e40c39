//! A table read by several threads at once, each a part of its partitions, all as of one moment.

use crate::embedded::cursor::{Cursor, RowRef};
use crate::embedded::rows::Table;
use crate::embedded::snapshot::Snapshot;
use crate::error::Result;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

impl Snapshot {
    /// Cursors over parts of `table`, at most `parts` and at least one: each row is in exactly one
    /// of them, a partition is never in two, and they come in the order of their keys. Made for
    /// threads, or for pages of work.
    ///
    /// The parts hold about as many bytes each, as far as partitions allow and the rows are in
    /// table files; rows not flushed yet have no weight. Cost: some 50 us for each table file of
    /// the table, which has to be open; where there are more than 16 for each part, almost nothing.
    pub fn split(&self, table: &Table, parts: usize) -> Result<Vec<Cursor>> {
        let cursors = self.rows.split(table.all(), parts.max(1))?;
        Ok(cursors.into_iter().map(Cursor::new).collect())
    }
}

impl Table {
    /// Shows every row as of now to `visit`, on as many threads as there are parts, at most
    /// `threads`. A thread sees the rows of its part in the order of their keys. The first error of
    /// a read or of `visit` ends all of them and is returned; a panic of `visit` is passed on.
    ///
    /// Cost: as [`Snapshot::split`], and a thread for each part but the first. It pays from some
    /// 100,000 rows; more threads than cores gain nothing.
    ///
    /// ```
    /// # fn main() -> tabulith::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = tabulith::Db::open(folder.path())?;
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// let orders = db.table("orders")?;
    /// orders.partition("tenant-7").batch().insert("0001", "3 apples").insert("0002", "1 pear").commit()?;
    ///
    /// let bytes = AtomicUsize::new(0);
    /// orders.scan_parallel(4, |row| {
    ///     bytes.fetch_add(row.value()?.len(), Ordering::Relaxed);
    ///     Ok(())
    /// })?;
    /// assert_eq!(bytes.into_inner(), 14);
    /// # Ok(())
    /// # }
    /// ```
    pub fn scan_parallel(
        &self,
        threads: usize,
        visit: impl Fn(RowRef<'_>) -> Result<()> + Sync,
    ) -> Result<()> {
        let mut cursors = self.db.snapshot()?.split(self, threads)?.into_iter();
        let (failed, visit) = (AtomicBool::new(false), &visit);
        let walk = |mut cursor: Cursor| {
            let walked = walk(&mut cursor, &failed, visit);
            if walked.is_err() {
                failed.store(true, Relaxed);
            }
            walked
        };
        let first = cursors.next();
        std::thread::scope(|scope| {
            let others: Vec<_> = cursors.map(|cursor| scope.spawn(move || walk(cursor))).collect();
            let mut walked = first.map_or(Ok(()), walk);
            for other in others {
                let other = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                walked = first_error(walked, other);
            }
            walked
        })
    }
}

fn walk(
    cursor: &mut Cursor,
    failed: &AtomicBool,
    visit: &(impl Fn(RowRef<'_>) -> Result<()> + Sync),
) -> Result<()> {
    while let Some(row) = cursor.next()? {
        if failed.load(Relaxed) {
            return Ok(()); // Another thread says why.
        }
        visit(row)?;
    }
    Ok(())
}

fn first_error(first: Result<()>, second: Result<()>) -> Result<()> {
    if first.is_err() { first } else { second }
}
