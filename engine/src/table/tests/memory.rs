//! The smallest row store that keeps the contract of [`crate::rows`]: one ordered map, copied for
//! every commit.

use crate::error::{Error, Kind, Result};
use crate::ids::{CommitTs, TableId};
use crate::key::order;
use crate::key::range::KeyRange;
use crate::limits::KEY_PART_BYTES_MAX;
use crate::options::{Durability, Reach};
use crate::rows::{
    Catalog, CommitTicket, PartitionUpdate, Row, RowCursor, RowSnapshot, RowStore, TableInfo,
};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

type Rows = Arc<BTreeMap<Vec<u8>, Row>>;

#[derive(Debug, Default)]
pub(super) struct MemoryStore {
    rows: Mutex<Rows>,
    tables: Mutex<BTreeMap<String, TableInfo>>,
    last_ts: AtomicU64,
    last_table: AtomicU64,
    /// How often a cursor was moved by a seek.
    pub(super) seeks: Arc<AtomicU64>,
    /// Whether waiting for a commit fails, as after a failed sync.
    pub(super) syncs_fail: AtomicBool,
}

impl MemoryStore {
    fn next_ts(&self) -> CommitTs {
        CommitTs(self.last_ts.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Puts bytes under a key behind the table layer's back.
    pub(super) fn plant(&self, table: TableId, pk: &[u8], rk: &[u8], value: &[u8]) {
        let row = Row::new(self.next_ts(), Bytes::copy_from_slice(value));
        Arc::make_mut(&mut *self.rows.lock()).insert(order::row_key(table, pk, rk), row);
    }

    fn ticket(&self, ts: CommitTs) -> Box<dyn CommitTicket> {
        Box::new(MemoryTicket { ts, fails: self.syncs_fail.load(Ordering::Relaxed) })
    }
}

fn lookup(rows: &Rows, table: TableId, pk: &[u8], rk: &[u8]) -> Option<Row> {
    assert!(pk.len() <= KEY_PART_BYTES_MAX && rk.len() <= KEY_PART_BYTES_MAX);
    rows.get(&order::row_key(table, pk, rk)).cloned()
}

impl RowStore for MemoryStore {
    fn get(&self, table: TableId, pk: &[u8], rk: &[u8], _reach: Reach) -> Result<Option<Row>> {
        Ok(lookup(&self.rows.lock(), table, pk, rk))
    }

    fn snapshot(&self) -> Result<Box<dyn RowSnapshot>> {
        let at = CommitTs(self.last_ts.load(Ordering::Relaxed));
        let rows = self.rows.lock().clone();
        let tables = self.tables.lock().clone();
        Ok(Box::new(MemorySnapshot { rows, tables, at, seeks: self.seeks.clone() }))
    }

    /// It keeps no history.
    fn snapshot_at(&self, at: CommitTs) -> Result<Box<dyn RowSnapshot>> {
        match at.0 == self.last_ts.load(Ordering::Relaxed) {
            true => self.snapshot(),
            false => Err(Error::invalid("there is no history")),
        }
    }

    fn newest(&self) -> CommitTs {
        CommitTs(self.last_ts.load(Ordering::Relaxed))
    }

    fn moments_kept(&self) -> (CommitTs, CommitTs) {
        let now = self.last_ts.load(Ordering::Relaxed);
        (CommitTs(now), CommitTs(now + 1))
    }

    fn update(
        &self,
        table: TableId,
        pk: &[u8],
        _durability: Option<Durability>,
        _reach: Reach,
        work: &mut dyn FnMut(&mut dyn PartitionUpdate) -> Result<()>,
    ) -> Result<Box<dyn CommitTicket>> {
        let mut rows = self.rows.lock();
        let prefix = order::partition_prefix(table, pk);
        let mut update = MemoryUpdate { prefix, rows: rows.clone(), written: Vec::new() };
        work(&mut update)?;
        if update.written.is_empty() {
            return Ok(self.ticket(CommitTs(self.last_ts.load(Ordering::Relaxed))));
        }
        let ts = self.next_ts();
        let mut changed = update.rows;
        for key in update.written {
            if let Some(row) = Arc::make_mut(&mut changed).get_mut(&key) {
                row.ts = ts;
            }
        }
        *rows = changed;
        Ok(self.ticket(ts))
    }

    fn truncate(
        &self,
        table: TableId,
        _durability: Option<Durability>,
    ) -> Result<Box<dyn CommitTicket>> {
        let range = KeyRange::table(table);
        Arc::make_mut(&mut self.rows.lock()).retain(|key, _| !range.contains(key));
        Ok(self.ticket(self.next_ts()))
    }
}

struct MemoryUpdate {
    prefix: Vec<u8>,
    rows: Rows,
    written: Vec<Vec<u8>>,
}

impl MemoryUpdate {
    fn key(&self, rk: &[u8]) -> Vec<u8> {
        [self.prefix.as_slice(), rk].concat()
    }
}

impl PartitionUpdate for MemoryUpdate {
    fn get(&mut self, rk: &[u8]) -> Result<Option<Row>> {
        Ok(self.rows.get(&self.key(rk)).cloned())
    }

    fn put(&mut self, rk: &[u8], value: &[u8]) -> Result<()> {
        let key = self.key(rk);
        let row = Row::new(CommitTs::ZERO, Bytes::copy_from_slice(value));
        Arc::make_mut(&mut self.rows).insert(key.clone(), row);
        self.written.push(key);
        Ok(())
    }

    /// It knows no time.
    fn put_until(&mut self, _rk: &[u8], _value: &[u8], _expires: CommitTs) -> Result<()> {
        Err(Error::invalid("rows of this store do not expire"))
    }

    fn delete(&mut self, rk: &[u8]) -> Result<()> {
        let key = self.key(rk);
        Arc::make_mut(&mut self.rows).remove(&key);
        self.written.push(key);
        Ok(())
    }

    fn delete_range(&mut self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<()> {
        let (prefix, bounds) = (self.prefix.clone(), (from, to));
        let within = |key: &[u8]| {
            key.strip_prefix(&*prefix).is_some_and(|rk| RangeBounds::<[u8]>::contains(&bounds, rk))
        };
        let gone: Vec<_> = self.rows.keys().filter(|key| within(key)).cloned().collect();
        Arc::make_mut(&mut self.rows).retain(|key, _| !within(key));
        self.written.extend(gone);
        Ok(())
    }
}

struct MemoryTicket {
    ts: CommitTs,
    fails: bool,
}

impl CommitTicket for MemoryTicket {
    fn ts(&self) -> CommitTs {
        self.ts
    }

    fn is_done(&self) -> bool {
        true
    }

    fn wait(self: Box<Self>) -> Result<()> {
        if self.fails { Err(Error::new(Kind::Closed, "an earlier sync failed")) } else { Ok(()) }
    }

    fn urge(&self) {}

    fn notify(self: Box<Self>, done: Box<dyn FnOnce(Result<()>) + Send>) {
        done(self.wait());
    }
}

struct MemorySnapshot {
    rows: Rows,
    tables: BTreeMap<String, TableInfo>,
    at: CommitTs,
    seeks: Arc<AtomicU64>,
}

impl RowSnapshot for MemorySnapshot {
    fn at(&self) -> CommitTs {
        self.at
    }

    fn find_table(&self, name: &str) -> Result<Option<TableInfo>> {
        Ok(self.tables.get(name).cloned())
    }

    fn tables(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<TableInfo>> {
        Ok(listed(&self.tables, prefix, after, limit))
    }

    fn get(&self, table: TableId, pk: &[u8], rk: &[u8]) -> Result<Option<Row>> {
        Ok(lookup(&self.rows, table, pk, rk))
    }

    fn scan(&self, range: KeyRange) -> Result<Box<dyn RowCursor>> {
        assert_eq!(order::table_of(&range.start), order::table_of(&range.start), "one table");
        let (rows, seeks) = (self.rows.clone(), self.seeks.clone());
        Ok(Box::new(MemoryCursor { rows, range, here: None, seeks }))
    }
}

struct MemoryCursor {
    rows: Rows,
    range: KeyRange,
    here: Option<(Vec<u8>, Row)>,
    seeks: Arc<AtomicU64>,
}

impl MemoryCursor {
    /// Goes to the first row from `start` on.
    fn go(&mut self, start: Bound<&[u8]>) -> bool {
        let end = Bound::Excluded(self.range.end.as_slice());
        let is_empty = match start {
            Bound::Included(start) | Bound::Excluded(start) => start >= self.range.end.as_slice(),
            Bound::Unbounded => true,
        };
        self.here = None;
        if !is_empty {
            let first = self.rows.range::<[u8], _>((start, end)).next();
            self.here = first.map(|(key, row)| (key.clone(), row.clone()));
        }
        self.here.is_some()
    }

    fn row(&self) -> &(Vec<u8>, Row) {
        self.here.as_ref().expect("the cursor is on a row")
    }
}

impl RowCursor for MemoryCursor {
    fn next(&mut self) -> Result<bool> {
        let here = self.here.as_ref().map(|(key, _)| key.clone());
        let start = self.range.start.clone();
        Ok(match &here {
            Some(key) => self.go(Bound::Excluded(key)),
            None => self.go(Bound::Included(&start)),
        })
    }

    fn prev(&mut self) -> Result<bool> {
        let end = self.here.take().map_or_else(|| self.range.end.clone(), |(key, _)| key);
        if self.range.start < end {
            let rows = self.rows.range(self.range.start.clone()..end);
            self.here = rows.last().map(|(key, row)| (key.clone(), row.clone()));
        }
        Ok(self.here.is_some())
    }

    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.seeks.fetch_add(1, Ordering::Relaxed);
        let start = self.range.start.clone().max(key.to_vec());
        Ok(self.go(Bound::Included(&start)))
    }

    fn key(&self) -> &[u8] {
        &self.row().0
    }

    fn ts(&self) -> CommitTs {
        self.row().1.ts
    }

    fn pass_over(
        &mut self,
        rows_max: usize,
        unwanted: &mut dyn FnMut(CommitTs, &[u8]) -> bool,
    ) -> usize {
        let after =
            (Bound::Excluded(self.row().0.clone()), Bound::Excluded(self.range.end.clone()));
        let following = self.rows.range(after).take(rows_max);
        let passed: Vec<_> =
            following.take_while(|(_, row)| unwanted(row.ts, &row.value)).collect();
        if let Some((key, row)) = passed.last() {
            self.here = Some(((*key).clone(), (*row).clone()));
        }
        passed.len()
    }

    fn value(&mut self) -> Result<Bytes> {
        Ok(self.row().1.value.clone())
    }

    fn value_ref(&self) -> Result<&[u8]> {
        Ok(&self.row().1.value)
    }
}

impl Catalog for MemoryStore {
    fn create_table(&self, name: &str, note: &[u8]) -> Result<TableInfo> {
        let mut tables = self.tables.lock();
        if tables.contains_key(name) {
            return Err(Error::new(Kind::Exists, "the table exists"));
        }
        let number = self.last_table.fetch_add(1, Ordering::Relaxed) + 1;
        let info = TableInfo {
            id: TableId(u32::try_from(number).expect("few tables")),
            name: name.to_owned(),
            note: Bytes::copy_from_slice(note),
            created: self.next_ts(),
        };
        tables.insert(name.to_owned(), info.clone());
        Ok(info)
    }

    fn find_table(&self, name: &str) -> Result<Option<TableInfo>> {
        Ok(self.tables.lock().get(name).cloned())
    }

    fn drop_table(&self, name: &str) -> Result<bool> {
        let Some(info) = self.tables.lock().remove(name) else {
            return Ok(false);
        };
        let range = KeyRange::table(info.id);
        Arc::make_mut(&mut *self.rows.lock()).retain(|key, _| !range.contains(key));
        Ok(true)
    }

    fn tables(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<TableInfo>> {
        Ok(listed(&self.tables.lock(), prefix, after, limit))
    }
}

fn listed(
    tables: &BTreeMap<String, TableInfo>,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> Vec<TableInfo> {
    let wanted = |info: &&TableInfo| {
        info.name.starts_with(prefix) && after.is_none_or(|after| info.name.as_str() > after)
    };
    tables.values().filter(wanted).take(limit).cloned().collect()
}
