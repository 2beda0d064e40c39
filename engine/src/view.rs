//! A View: the memtables and the Version that one reader sees together.
//!
//! A reader takes the View first and its timestamp second. Versions newer than the View can then
//! only be missing all together, which reads as an earlier moment; and no compaction in the View
//! dropped what its timestamp needs, as every compaction in it began before.

use crate::cursor::Found;
use crate::erasure::live::{Cover, ErasureList};
use crate::error::{Kind, Result};
use crate::expiry;
use crate::ids::{CommitTs, RowKind, SegmentId};
use crate::key::list::{KeyList, ListedKey};
use crate::memtable::api::Memtable;
use crate::options::Reach;
use crate::row_cache::RowCache;
use crate::version::files::{Candidates, Version};
use std::sync::Arc;

/// Keys of one call whose misses are waited for together: more than the processor has lines under
/// way at a time, few enough that the lines are still there when they are read.
const GROUP_KEYS: usize = 16;

/// Reads of the disk that one call has under way at a time: more than a disk works on at once, and
/// with blocks of 64 KiB no more of the system's cache than a walk reads ahead.
const READS_MAX: usize = 64;

/// A memtable that takes no more writes and waits for its flush.
#[derive(Debug)]
pub(crate) struct Sealed {
    pub(crate) table: Arc<dyn Memtable>,
    /// What its commits erased.
    pub(crate) erased: Arc<ErasureList>,
    /// The newest commit in it.
    pub(crate) last_ts: CommitTs,
    /// The first log segment that later commits need.
    pub(crate) log_floor: SegmentId,
}

/// What exists, for one reader.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) active: Arc<dyn Memtable>,
    /// What the commits in `active` erased.
    pub(crate) erased: Arc<ErasureList>,
    /// Newest first.
    pub(crate) sealed: Vec<Arc<Sealed>>,
    pub(crate) version: Arc<Version>,
    /// Of the row cache: which rows it may hold beside these files.
    pub(crate) edition: u64,
}

/// The cached rows, which stand before the files.
pub(crate) struct CachedRows<'a> {
    pub(crate) cache: &'a RowCache,
    /// Up to which commit rows of the table that is read have outlived it, for this reader. Asked
    /// where a row is about to be cached.
    pub(crate) outlived_to: &'a dyn Fn() -> CommitTs,
}

impl View {
    /// Whether nothing was written to the active memtable.
    pub(crate) fn is_active_empty(&self) -> bool {
        self.active.is_empty() && self.erased.is_empty()
    }

    /// The newest version of `key`, whose hash is `row_hash`, not newer than `at`, unless it is
    /// erased. `rows` stands before the files.
    pub(crate) fn get(
        &self,
        rows: &CachedRows<'_>,
        key: &[u8],
        row_hash: u64,
        at: CommitTs,
        reach: Reach,
    ) -> Result<Option<Found>> {
        let found = self.find(rows, key, row_hash, at, reach)?;
        Ok(self.unless_erased(key, found, at))
    }

    /// Whether a delete of `key` must be written: false only where nobody would miss it. Looks at
    /// memtables and filters, so a row that the files alone have costs no block; with
    /// [`Reach::Memory`] at those of open files, and one that is not may hold anything.
    pub(crate) fn may_hold(&self, key: &[u8], row_hash: u64, reach: Reach) -> Result<bool> {
        match self.find_in_memtables(key, row_hash, CommitTs::MAX) {
            Some(found) => {
                let erased = self.erases(key, found.ts, CommitTs::MAX);
                Ok(found.kind != RowKind::Delete && !erased)
            }
            None => self.version.candidates(key, row_hash).may_hold(key, row_hash, reach),
        }
    }

    fn find(
        &self,
        rows: &CachedRows<'_>,
        key: &[u8],
        row_hash: u64,
        at: CommitTs,
        reach: Reach,
    ) -> Result<Option<Found>> {
        rows.cache.prefetch(row_hash);
        if let Some(found) = self.find_in_memtables(key, row_hash, at) {
            return Ok(Some(found));
        }
        let files = self.version.candidates(key, row_hash);
        self.find_in_files(&files, rows, key, row_hash, at, reach)
    }

    /// Gives `each` what is found of `keys`, with the place it was asked for at. Memory is fetched
    /// for [`GROUP_KEYS`] keys at once: their places among the cached rows, then their filters. The
    /// blocks that memory lacks are asked of the disk together, [`READS_MAX`] at a time.
    pub(crate) fn get_many(
        &self,
        rows: &CachedRows<'_>,
        keys: &KeyList,
        at: CommitTs,
        reach: Reach,
        mut each: impl FnMut(usize, Found),
    ) -> Result<()> {
        let mut keys = keys.iter().peekable();
        let mut pending = Vec::with_capacity(GROUP_KEYS);
        let mut on_disk = Vec::new();
        while keys.peek().is_some() {
            pending.extend(keys.by_ref().take(GROUP_KEYS).map(|listed| (listed, None)));
            for (listed, _) in &pending {
                rows.cache.prefetch(listed.row_hash);
            }
            for (ListedKey { key, row_hash, asked }, files) in &mut pending {
                match self.find_in_memtables(key, *row_hash, at) {
                    Some(found) if self.erases(key, found.ts, at) => {}
                    Some(found) => each(*asked, found),
                    None => *files = Some(self.version.candidates(key, *row_hash)),
                }
            }
            for (ListedKey { key, row_hash, asked }, files) in pending.drain(..) {
                let Some(files) = files else { continue };
                match self.find_in_files(&files, rows, key, row_hash, at, Reach::Memory) {
                    Ok(found) => self.unless_erased(key, found, at).map(|found| each(asked, found)),
                    Err(error) if error.kind() == Kind::WouldBlock && reach == Reach::Disk => {
                        on_disk.push((ListedKey { key, row_hash, asked }, files));
                        None
                    }
                    Err(error) => return Err(error),
                };
            }
            if on_disk.len() + GROUP_KEYS > READS_MAX || keys.peek().is_none() {
                self.read_all(&on_disk, rows, at, &mut each)?;
                on_disk.clear();
            }
        }
        Ok(())
    }

    /// Gives `each` what the files have of keys whose blocks are not in memory.
    fn read_all(
        &self,
        keys: &[(ListedKey<'_>, Candidates<'_>)],
        rows: &CachedRows<'_>,
        at: CommitTs,
        each: &mut impl FnMut(usize, Found),
    ) -> Result<()> {
        if keys.len() > 1 {
            for (ListedKey { key, row_hash, .. }, files) in keys {
                files.begin_get(key, *row_hash, at);
            }
        }
        for (ListedKey { key, row_hash, asked }, files) in keys {
            let found = self.find_in_files(files, rows, key, *row_hash, at, Reach::Disk)?;
            if let Some(found) = self.unless_erased(key, found, at) {
                each(*asked, found);
            }
        }
        Ok(())
    }

    fn unless_erased(&self, key: &[u8], found: Option<Found>, at: CommitTs) -> Option<Found> {
        found.filter(|found| !self.erases(key, found.ts, at))
    }

    fn find_in_memtables(&self, key: &[u8], row_hash: u64, at: CommitTs) -> Option<Found> {
        self.memtables().find_map(|table| table.get(key, row_hash, at))
    }

    #[inline]
    fn find_in_files(
        &self,
        files: &Candidates<'_>,
        rows: &CachedRows<'_>,
        key: &[u8],
        row_hash: u64,
        at: CommitTs,
        reach: Reach,
    ) -> Result<Option<Found>> {
        // A row that is newer than these files came by a flush since: what was written with it may
        // be missing here, and is then missing all together.
        if let Some(found) = rows.cache.get(key, row_hash, at.min(self.version.max_ts)) {
            return Ok(Some(found));
        }
        let found = files.get(key, row_hash, at, reach)?;
        if let Some(found) = found.as_ref().filter(|found| self.may_be_cached(rows, key, found, at))
        {
            rows.cache.add(key, row_hash, found, self.edition);
        }
        Ok(found)
    }

    /// Whether every reader of a View that may hold the row finds this version of it the newest in
    /// its files, or is shown none.
    ///
    /// An earlier reader may have been shown an older version than the files hold. And where nobody
    /// is shown the newest one, because it is erased or has outlived its table, a merge drops it:
    /// what is found then is as hidden, but not for who reads the files of before. A snapshot from
    /// before the erasure still is shown it, so whether it is erased is asked for the newest
    /// reader.
    fn may_be_cached(
        &self,
        rows: &CachedRows<'_>,
        key: &[u8],
        found: &Found,
        at: CommitTs,
    ) -> bool {
        at >= self.version.max_ts
            && !self.erases(key, found.ts, CommitTs::MAX)
            && found.ts > (rows.outlived_to)()
    }

    /// Whether a reader at `at` finds the version `ts` of `key` erased. Cost: one branch per
    /// memtable, and one, where nothing is.
    pub(crate) fn erases(&self, key: &[u8], ts: CommitTs, at: CommitTs) -> bool {
        let listed = |list: &ErasureList| ts < list.newest_at(key, at);
        let files = &self.version.erasures;
        listed(&self.erased)
            || self.sealed.iter().any(|sealed| listed(&sealed.erased))
            || (!files.is_empty() && ts < files.newest_at(key, at))
    }

    /// What is erased for a scan at `at`.
    pub(crate) fn cover(&self, at: CommitTs) -> Cover {
        let lists = std::iter::once(&self.erased).chain(self.sealed.iter().map(|s| &s.erased));
        let sets = lists.filter(|list| !list.is_empty()).map(|list| list.get());
        Cover::new(sets.chain(std::iter::once(Arc::clone(&self.version.erasures))), at)
    }

    /// A row that [`View::get`] or a scan found, with its value in place of a reference to it.
    pub(crate) fn resolve(&self, found: Found, reach: Reach) -> Result<Found> {
        if found.kind != RowKind::Link {
            return Ok(found);
        }
        let value = self.version.blobs.value(&found.value, reach)?;
        Ok(Found { kind: RowKind::Put, value, ..found })
    }

    /// Has the disk begin to read the values that rows refer to, where there are several.
    pub(crate) fn begin_values<'a>(&self, found: impl Iterator<Item = &'a Found> + Clone) {
        let links = found.filter(|found| found.kind.is_link());
        if links.clone().nth(1).is_some() {
            links.for_each(|Found { kind, value, .. }| {
                self.version.blobs.begin_value(expiry::value_of(*kind, value));
            });
        }
    }

    /// The memtables, newest first.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<dyn Memtable>> {
        std::iter::once(&self.active).chain(self.sealed.iter().map(|sealed| &sealed.table))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;
    use crate::chunks::SpareChunks;
    use crate::db::Db;
    use crate::env::clock::ManualClock;
    use crate::env::jobs::ByHand;
    use crate::ids::TableId;
    use crate::key::{hash, order};
    use crate::rows::Catalog;
    use crate::vfs::fault::{Call, FaultFs, Rule};
    use crate::vfs::mem::SimFs;
    use bytes::Bytes;
    use std::sync::mpsc;

    /// A reader took its View, then a table was emptied. The file with its newest rows went, and a
    /// snapshot of before read an older one.
    #[test]
    fn what_a_snapshot_alone_is_shown_since_an_erasure_is_not_shown_to_others() {
        let clock = Arc::new(ManualClock::at(17_672_256_000_000_000));
        let parts = Db::builder().parts(Arc::new(SimFs::new()), clock, Arc::new(ByHand));
        let db = parts.open("/db").unwrap();
        let table = db.table("t").unwrap();
        let first = table.upsert("p", "a", "first").unwrap();
        db.flush().unwrap();
        let snapshot = db.snapshot().unwrap();
        let second = table.upsert("p", "a", "second").unwrap();
        db.flush().unwrap();
        let (view, at) = (db.inner.tree.view_full(), db.visible());
        table.truncate().unwrap();
        db.flush().unwrap();
        while db.step().unwrap() {}
        assert_eq!(db.stats().levels.iter().map(|(files, _)| files).sum::<usize>(), 1);
        assert_eq!(snapshot.get(&table, "p", "a").unwrap().map(|row| row.ts), Some(first));
        let id = db.find_table("t").unwrap().unwrap().id;
        let list = KeyList::new(id, &[(b"p", b"a")]);
        let cache = &db.inner.tree.shelf.pool.rows;
        let rows = CachedRows { cache, outlived_to: &|| CommitTs::ZERO };
        let mut found = None;
        view.get_many(&rows, &list, at, Reach::Disk, |_, row| found = Some(row.ts)).unwrap();
        assert_eq!(found, Some(second));
    }

    /// A reader took its View, then a row came by an ingest, and another one by a commit after it.
    #[test]
    fn what_is_committed_after_an_ingest_is_not_shown_without_it() {
        let clock = Arc::new(ManualClock::at(17_672_256_000_000_000));
        let disk = FaultFs::new(Arc::new(SimFs::new()));
        let parts = Db::builder().parts(Arc::new(disk.clone()), clock, Arc::new(ByHand));
        let db = parts.open("/db").unwrap();
        let table = db.table("t").unwrap();
        db.flush().unwrap();
        let mut rows = table.ingest().unwrap();
        rows.add("p", "a", "first").unwrap();
        let before = db.inner.tree.view_full();
        // And one whose View is the last of before.
        let (inner, (tell, told)) = (Arc::clone(&db.inner), mpsc::channel());
        let syncs = Rule::fail(Call::Sync).named("*.manifest-*");
        disk.interrupt(syncs, move || tell.send(inner.tree.view_full()).unwrap());
        rows.finish().unwrap();
        let last = told.try_recv().unwrap();
        table.upsert("p", "b", "then").unwrap();
        let id = db.find_table("t").unwrap().unwrap().id;
        let list = KeyList::new(id, &[(b"p", b"a"), (b"p", b"b")]);
        let cache = &db.inner.tree.shelf.pool.rows;
        let rows = CachedRows { cache, outlived_to: &|| CommitTs::ZERO };
        let found = |view: &View| {
            let mut found = Vec::new();
            let at = db.visible();
            view.get_many(&rows, &list, at, Reach::Disk, |asked, _| found.push(asked)).unwrap();
            found.sort_unstable();
            found
        };
        assert_eq!(found(&before), [0usize; 0], "an earlier moment");
        assert_eq!(found(&last), [0usize; 0], "an earlier moment");
        assert_eq!(found(&db.inner.tree.view_full()), [0, 1]);
    }

    /// A reader took its View, then others wrote two rows in one batch, flushed them and read one.
    #[test]
    fn what_was_cached_after_the_view_was_taken_is_not_shown_beside_what_it_lacks() {
        let table = crate::memtable::table::new_memtable(&SpareChunks::none());
        let keys = [b"a", b"b"].map(|rk| order::row_key(TableId(1), b"p", rk));
        for key in &keys {
            table.insert(key, CommitTs(3), RowKind::Put, b"old");
        }
        let view = View {
            active: table,
            erased: Arc::default(),
            sealed: Vec::new(),
            version: Arc::default(),
            edition: 0,
        };
        // Its memtable is flushed, then the next one: the files then hold version 7 of both.
        let mut empty = view.clone();
        empty.active = crate::memtable::table::new_memtable(&SpareChunks::none());
        let rows = RowCache::new(1 << 20);
        let edition = rows.forget(&[]);
        let newer =
            Found { ts: CommitTs(7), kind: RowKind::Put, value: Bytes::from_static(b"new") };
        rows.add(&keys[0], hash::of_row(&keys[0]), &newer, edition);
        assert!(rows.get(&keys[0], hash::of_row(&keys[0]), CommitTs(9)).is_some(), "it is cached");
        let list = KeyList::new(TableId(1), &[(b"p", b"a"), (b"p", b"b")]);
        let rows = CachedRows { cache: &rows, outlived_to: &|| CommitTs::ZERO };
        for (view, expected) in [(&view, [Some(3), Some(3)]), (&empty, [None, None])] {
            let mut found = [None; 2];
            let each = |asked: usize, row: Found| found[asked] = Some(row.ts.0);
            let read = view.get_many(&rows, &list, CommitTs(9), Reach::Disk, each);
            assert!(read.is_ok() && found == expected, "{found:?}");
        }
    }
}
