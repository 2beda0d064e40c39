//! A table read by several threads at once, each parts of it, all as of one moment.

use crate::embedded::cursor::{Cursor, RowRef};
use crate::embedded::rows::Table;
use crate::embedded::snapshot::Snapshot;
use crate::env::jobs::Part;
use crate::error::Result;
use std::panic::{self, AssertUnwindSafe};
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
        let cursors = self.rows_of(table)?.split(table.all(), parts.max(1))?;
        Ok(cursors.into_iter().map(Cursor::new).collect())
    }
}

impl Table {
    /// Shows every row as of now to `visit`, on as many threads as there are parts, at most
    /// `threads`, and on fewer where the system gives no more; in a database without threads on the
    /// caller's alone, in the order of the keys. Each takes part after part, and sees the rows of
    /// one in the order of their keys. The first error of a read or of `visit` ends all of them and
    /// is returned; a panic of `visit` ends them too and is passed on.
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
        let cursors = self.db.snapshot()?.split(self, threads)?;
        let failed = AtomicBool::new(false);
        let mut outcomes: Vec<_> = cursors.iter().map(|_| Ok(Ok(()))).collect();
        let part = |(mut cursor, outcome): (Cursor, _)| -> Part<'_> {
            let (failed, visit) = (&failed, &visit);
            let outcome: &mut std::thread::Result<Result<()>> = outcome;
            Box::new(move || {
                let walk = AssertUnwindSafe(|| walk(&mut cursor, failed, visit));
                *outcome = panic::catch_unwind(walk);
                if !matches!(outcome, Ok(Ok(()))) {
                    failed.store(true, Relaxed);
                }
            })
        };
        let parts = cursors.into_iter().zip(&mut outcomes).map(part).collect();
        self.db.inner.tree.jobs.together(parts);
        // A panic of any part is passed on, whatever the others say.
        let outcomes = outcomes.into_iter();
        let outcomes = outcomes.map(|done| done.unwrap_or_else(|why| panic::resume_unwind(why)));
        outcomes.fold(Ok(()), Result::and)
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
