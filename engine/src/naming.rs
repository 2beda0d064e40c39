//! [`Db`] as a catalogue: tables by name, made and dropped by one durable commit each.

use crate::batch::Batch;
use crate::catalog::{self, Tables};
use crate::db::{Db, Inner, Writer};
use crate::error::{Error, Kind, Result};
use crate::ids::{CommitTs, TableId};
use crate::key::hash;
use crate::lifetime::Lifetime;
use crate::moment::{self, Moment};
use crate::options::Reach;
use crate::rows::{Catalog, TableInfo};
use std::time::Duration;

/// How often time is stopped for a table, each time twice as far ahead, before that is given up.
const STOPS_MAX: u32 = 40;

impl Catalog for Db {
    fn create_table(&self, name: &str, note: &[u8]) -> Result<TableInfo> {
        let writer = self.inner.writer()?;
        catalog::check_name(name)?;
        let _one_at_a_time = self.inner.catalog.lock();
        let tables = self.inner.tree.tables.load_full();
        if tables.find(name).is_some() {
            writer.pipeline.wait(tables.changed())?;
            return Err(Error::new(Kind::Exists, format!("table {name} exists")));
        }
        let id = tables.next_id()?;
        let mut batch = Batch::new(catalog::partition());
        batch.put(&catalog::row_key(name), &catalog::encode(id, note));
        batch.put(catalog::next_id_key(), &catalog::encode_next_id(TableId(id.0 + 1)));
        let info = |ts| catalog::info(id, name, note, ts);
        let ts = self.inner.change_catalog(writer, batch, |tables, ts| tables.add(info(ts)))?;
        Ok(info(ts))
    }

    fn find_table(&self, name: &str) -> Result<Option<TableInfo>> {
        // The timestamp after the catalogue, so that it covers every change that was answered.
        let tables = self.inner.tree.tables.load();
        Ok(tables.find_at(name, self.inner.visible()).cloned())
    }

    fn drop_table(&self, name: &str) -> Result<bool> {
        let writer = self.inner.writer()?;
        let _one_at_a_time = self.inner.catalog.lock();
        let tables = self.inner.tree.tables.load_full();
        let Some(id) = tables.find(name).map(|table| table.id) else {
            writer.pipeline.wait(tables.changed())?;
            return Ok(false);
        };
        let mut batch = Batch::new(catalog::partition());
        batch.delete(&catalog::row_key(name));
        // Readers stop at the catalogue; the erasure is what gives back the space.
        batch.erase_table(id);
        // No change of the table may have looked at it before and come after: it would find the
        // table there and its rows gone.
        writer.admit()?;
        let copy = self.inner.copy_of_catalog(writer); // Of all tables: while others still write.
        let latches = self.inner.latches.lock_all();
        let remove = |tables: &mut Tables, ts| tables.remove(name, ts);
        let ts = self.inner.apply_to_catalog(writer, batch, copy, remove)?;
        drop(latches);
        writer.pipeline.wait(ts)?;
        self.inner.after_erasing(writer);
        Ok(true)
    }

    fn tables(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<TableInfo>> {
        let tables = self.inner.tree.tables.load();
        Ok(tables.list_at(prefix, after, limit, self.inner.visible()))
    }
}

impl Db {
    /// Sets the time to live of a table's rows: [`Table::set_ttl`](crate::Table::set_ttl).
    pub(crate) fn set_ttl(&self, table: &TableInfo, ttl: Option<Duration>) -> Result<()> {
        let inner = &*self.inner;
        let ticks = ttl.map_or(0, moment::ticks);
        if ttl.is_some() && ticks == 0 {
            return Err(Error::invalid("a time to live is 100 ns at least"));
        }
        let writer = inner.writer()?;
        let _one_at_a_time = inner.catalog.lock();
        inner.check_writable(writer, table.id, Reach::Disk)?;
        let tables = inner.tree.tables.load_full();
        if tables.ttl_at(table.id, CommitTs::MAX) == ticks {
            return writer.pipeline.wait(tables.changed());
        }
        // What a transaction has read must not be gone by the time it commits.
        writer.admit()?;
        let nobody_writes = inner.latches.lock_all();
        let now = inner.stop_aging(writer, table.id)?;
        let cutoff = tables.outlived_to(table.id, Moment::applied(now));
        let lifetime = |since| Lifetime { since, ttl: ticks, cutoff };
        let mut batch = Batch::new(catalog::partition());
        let columns = tables.columns_of(table.id);
        let row = catalog::encode_with_settings(table, &lifetime(CommitTs::ZERO), columns);
        batch.put(&catalog::row_key(&table.name), &row);
        let set = |tables: &mut Tables, ts| tables.set_lifetime(table.id, lifetime(ts));
        let copy = inner.copy_of_catalog(writer);
        let changed = inner.apply_to_catalog(writer, batch, copy, set);
        drop(nobody_writes); // Who waits may lead, and run what others want to be told.
        if let Err(error) = changed.and_then(|ts| writer.pipeline.wait(ts)) {
            inner.resume_aging(table.id);
            return Err(error);
        }
        // Compaction goes by what is in files.
        inner.tree.seal_now(&writer.pipeline);
        writer.work.poke();
        Ok(())
    }

    /// Declares columns of a table:
    /// [`Table::set_zone_columns`](crate::Table::set_zone_columns).
    pub(crate) fn set_zone_columns(&self, table: &TableInfo, columns: &[&str]) -> Result<()> {
        let inner = &*self.inner;
        let columns: Vec<Vec<u8>> = columns.iter().map(|name| name.as_bytes().to_vec()).collect();
        catalog::check_columns(&columns)?;
        let writer = inner.writer()?;
        let _one_at_a_time = inner.catalog.lock();
        inner.check_writable(writer, table.id, Reach::Disk)?;
        let tables = inner.tree.tables.load_full();
        if tables.columns_of(table.id) == columns {
            return writer.pipeline.wait(tables.changed());
        }
        let forever = Lifetime { since: CommitTs::ZERO, ttl: 0, cutoff: CommitTs::ZERO };
        let lifetime = tables.lifetime(table.id).unwrap_or(&forever);
        let mut batch = Batch::new(catalog::partition());
        let row = catalog::encode_with_settings(table, lifetime, &columns);
        batch.put(&catalog::row_key(&table.name), &row);
        let set = |tables: &mut Tables, ts| tables.set_columns(table.id, columns, ts);
        inner.change_catalog(writer, batch, set).map(drop)
    }

    /// The columns that a table has declared.
    pub(crate) fn zone_columns(&self, table: TableId) -> Vec<String> {
        let tables = self.inner.tree.tables.load();
        let text = |name: &Vec<u8>| String::from_utf8_lossy(name).into_owned();
        tables.columns_of(table).iter().map(text).collect()
    }

    /// The time to live of a table's rows.
    pub(crate) fn ttl(&self, table: TableId) -> Option<Duration> {
        let tables = self.inner.tree.tables.load();
        let ticks = tables.ttl_at(table, self.inner.visible());
        (ticks > 0).then(|| moment::span(ticks))
    }
}

impl Inner {
    /// Stops time for the rows of a table that present readers see: see `lifetime`. Gives the time
    /// beyond which no reader has gone, and no later commit stays behind. The caller holds the
    /// catalogue's lock.
    ///
    /// Errors: `Busy` where the clock runs faster than time can be stopped; `Closed`.
    fn stop_aging(&self, writer: &Writer, table: TableId) -> Result<CommitTs> {
        for slack in 0..STOPS_MAX {
            // Twice as far ahead at each attempt: the clock must not reach it before all see it.
            let now = CommitTs(self.time().0 + (1 << slack) - 1);
            self.change_tables(|tables| tables.stop_aging(table, now));
            if self.time() <= now {
                let closed = writer.pipeline.close_moment(now);
                return closed.map(|_| now).inspect_err(|_| self.resume_aging(table));
            }
        }
        self.resume_aging(table);
        Err(Error::new(Kind::Busy, "changing a time to live: the clock runs ahead too fast"))
    }

    fn resume_aging(&self, table: TableId) {
        self.change_tables(|tables| tables.stop_aging(table, CommitTs::MAX));
    }

    fn change_tables(&self, change: impl FnOnce(&mut Tables)) {
        let mut tables = Tables::clone(&self.tree.tables.load());
        change(&mut tables);
        self.tree.show_tables(tables);
    }

    /// Commits a change of the catalogue; `change` makes it in memory. The caller holds the
    /// catalogue's lock and no latch: an ingest has them all from its place in the order to its
    /// files, and what came in between would be in the log before it.
    ///
    /// Memory follows at once, also where the wait then fails: a log without room keeps the change
    /// in its place and writes it before all later commits, so those must go by it. Otherwise a new
    /// table's number would be given twice, and rows acknowledged in a table that the next open
    /// finds dropped. It follows before the commit can be visible, or a reader would meet a table
    /// whose rows are erased already. Readers are shown the change when it is visible.
    fn change_catalog(
        &self,
        writer: &Writer,
        batch: Batch,
        change: impl FnOnce(&mut Tables, CommitTs),
    ) -> Result<CommitTs> {
        writer.admit()?;
        let copy = self.copy_of_catalog(writer);
        let hash = hash::of_partition(&catalog::partition());
        let latch = self.latches.lock(hash, &*self.clock);
        let ts = self.apply_to_catalog(writer, batch, copy, change)?;
        drop(latch);
        writer.pipeline.wait(ts)?;
        Ok(ts)
    }

    /// The catalogue to be changed, without those that nobody can read any more. The caller holds
    /// its lock until the change is applied.
    fn copy_of_catalog(&self, writer: &Writer) -> Tables {
        let mut tables = Tables::clone(&self.tree.tables.load());
        tables.forget(self.tree.last_drop_for_good(&writer.pipeline));
        tables
    }

    /// The first half of [`Inner::change_catalog`], under the catalogue's latch or all: the commit
    /// has its place and nobody has waited for it. `tables` was copied before, as others wait for
    /// that place.
    fn apply_to_catalog(
        &self,
        writer: &Writer,
        batch: Batch,
        mut tables: Tables,
        change: impl FnOnce(&mut Tables, CommitTs),
    ) -> Result<CommitTs> {
        self.commit_and(writer, batch, self.durability(None), Reach::Disk, |ts| {
            change(&mut tables, ts);
            self.tree.show_tables(tables);
        })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;
    use crate::env::clock::ManualClock;
    use crate::env::jobs::ByHand;
    use crate::vfs::mem::SimFs;
    use std::sync::Arc;

    fn open() -> Db {
        let clock = Arc::new(ManualClock::at(16_950_000_000_000_000));
        let parts = Db::builder().parts(Arc::new(SimFs::new()), clock, Arc::new(ByHand));
        parts.open("/db").unwrap()
    }

    #[test]
    fn times_to_live_that_nobody_goes_by_any_more_are_forgotten() {
        let db = open();
        let table = db.create_table("t", b"").unwrap();
        let remembered = || db.inner.tree.tables.load().lifetimes_len(table.id);
        let change = |seconds| {
            db.set_ttl(&table, Some(Duration::from_secs(seconds))).unwrap();
            db.flush().unwrap();
        };
        change(1);
        let snapshot = db.snapshot().unwrap();
        (2..20).for_each(change);
        assert_eq!(remembered(), 19, "the snapshot goes by the first");
        drop(snapshot);
        change(20);
        assert_eq!(remembered(), 2, "the last one was in no file yet when it was made");
        assert_eq!(db.ttl(table.id), Some(Duration::from_secs(20)));
    }

    #[test]
    fn tables_that_nobody_can_read_any_more_are_forgotten() {
        let db = open();
        let dropped = || db.inner.tree.tables.load().dropped_len();
        db.create_table("held", b"").unwrap();
        let snapshot = db.snapshot().unwrap();
        for _ in 0..20 {
            db.create_table("t", b"").unwrap();
            db.drop_table("t").unwrap();
        }
        db.drop_table("held").unwrap();
        db.flush().unwrap();
        db.create_table("t", b"").unwrap();
        assert_eq!(dropped(), 21, "the snapshot may read them");
        assert!(snapshot.table("held").is_some());
        drop(snapshot);
        db.drop_table("t").unwrap();
        assert_eq!(dropped(), 1, "the last one, which is in no file yet");
        db.flush().unwrap();
        db.create_table("t", b"").unwrap();
        assert_eq!(dropped(), 0);
    }
}
