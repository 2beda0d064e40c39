//! A table read by several threads at once, each parts of it, all as of one moment.

use crate::embedded::cursor::{Cursor, RowRef};
use crate::embedded::rows::Table;
use crate::embedded::snapshot::Snapshot;
use crate::error::Result;
use parking_lot::Mutex;
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
    /// `threads`, and on fewer where the system gives no more. Each takes part after part, and sees
    /// the rows of one in the order of their keys. The first error of a read or of `visit` ends all
    /// of them and is returned; a panic of `visit` ends them too and is passed on.
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
        let others_max = cursors.len().saturating_sub(1);
        let (parts, failed) = (Mutex::new(cursors.into_iter()), AtomicBool::new(false));
        let work = || {
            let failing = Failing(&failed);
            loop {
                let Some(mut part) = parts.lock().next() else { break };
                walk(&mut part, &failed, &visit)?;
            }
            std::mem::forget(failing);
            Ok(())
        };
        std::thread::scope(|scope| {
            let spawn = |_| std::thread::Builder::new().spawn_scoped(scope, work).ok();
            let others: Vec<_> = (0..others_max).map_while(spawn).collect();
            let mut worked = work();
            for other in others {
                let other = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                worked = worked.and(other);
            }
            worked
        })
    }
}

/// Stops the other threads where one ends by an error or a panic: all that is dropped fails.
struct Failing<'a>(&'a AtomicBool);

impl Drop for Failing<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
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
