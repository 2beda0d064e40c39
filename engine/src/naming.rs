//! [`Db`] as a catalogue: tables by name, made and dropped by one durable commit each.

use crate::batch::Batch;
use crate::catalog::{self, Tables};
use crate::db::{Db, Inner, Writer};
use crate::error::{Error, Kind, Result};
use crate::ids::{CommitTs, TableId};
use crate::rows::{Catalog, TableInfo};
use std::sync::Arc;

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
        self.inner.change_catalog(writer, batch, |tables, ts| tables.remove(name, ts))?;
        self.inner.after_erasing(writer);
        Ok(true)
    }

    fn tables(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<TableInfo>> {
        let tables = self.inner.tree.tables.load();
        Ok(tables.list_at(prefix, after, limit, self.inner.visible()))
    }
}

impl Inner {
    /// Commits a change of the catalogue; `change` makes it in memory. The caller holds the
    /// catalogue's lock.
    ///
    /// Memory follows at once, also where the wait then fails: a log without room keeps the change
    /// in its place and writes it before all later commits, so those must go by it. Otherwise a new
    /// table's number would be given twice, and rows acknowledged in a table that the next open
    /// finds dropped. Readers are shown the change when it is visible.
    fn change_catalog(
        &self,
        writer: &Writer,
        batch: Batch,
        change: impl FnOnce(&mut Tables, CommitTs),
    ) -> Result<CommitTs> {
        self.admit(writer)?;
        let ts = self.commit(writer, batch, self.durability(None))?;
        let mut tables = Tables::clone(&self.tree.tables.load());
        change(&mut tables, ts);
        self.tree.tables.store(Arc::new(tables));
        writer.pipeline.wait(ts)?;
        Ok(ts)
    }
}
