//! Rows that were read from files, by their whole key. A hit touches three or four cache lines,
//! where the way through filter, index and block touches a dozen.
//!
//! Holds of a key the newest version *that files hold*; memtables are asked before. So nothing here
//! changes when a row is written, only when a flush brings newer versions into the files. Then,
//! before any reader sees the new files, [`RowCache::forget`] begins a new *edition* and drops the
//! flushed keys. A reader adds what it found only if the edition of its View is still the present
//! one, which is asked under the lock of the row's bucket: a slow reader cannot put back what a
//! flush has just dropped. Nor does it add what is hidden from it, erased or outlived: where a
//! merge has dropped newer versions as hidden, that is not the newest for who reads older files.
//!
//! Six rows share a bucket of two cache lines with their 16-bit tags and one small lock, so threads
//! that read different rows touch no common line. The tags are looked at before the lock is taken:
//! a key that is not held, or not at all there, costs one line and no lock. While there is room
//! every row is taken; then a row enters only if it was asked for twice within the time its tag
//! survives, so that one pass over cold rows does not push out the warm ones (CLOCK over the
//! buckets for the rest).
//!
//! Absent: rows that do not exist (the filters answer for those), deletes, and values above
//! [`CACHED_VALUE_BYTES_MAX`]. Time: a row that expires is held with its expiry, and whoever asks
//! decides whether it is still there.

use crate::cache::Lender;
use crate::cursor::Found;
use crate::ids::{CommitTs, RowKind};
use crate::prefetch;
use crate::row_table::{Bucket, Buckets, Row, WAYS, Ways, tag, weight};
use crate::stats::StripedCounter;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use crate::sync::{Mutex, OnceLock, weakened};
use std::sync::Arc;

/// A value larger than this gains little: reading it costs more than finding it.
pub(crate) const CACHED_VALUE_BYTES_MAX: usize = 4 << 10;

/// Bytes of the cache per bucket: half filled by rows of 200 bytes, so few buckets overflow.
const BYTES_PER_BUCKET: usize = 1 << 10;

/// Each table of buckets is this much larger than the one before, which it replaces.
const GROWTH: usize = 8;
const TABLES: usize = 3;

/// Buckets looked at per row that is added to a full cache.
const SWEEP_BUCKETS: usize = 16;

/// Buckets emptied per row that is added, of a table that another has replaced.
const LEAVE_BUCKETS: usize = 64;

/// What is borrowed at a time.
const LOAN_BYTES: usize = 1 << 20;

/// The rows, bounded in bytes.
pub(crate) struct RowCache {
    buckets_max: usize,
    tables_bytes: usize, // Of all tables of buckets.
    rows_bytes_max: AtomicUsize,
    lender: Option<Arc<dyn Lender>>,
    borrowed: AtomicUsize,
    tables: [OnceLock<Buckets>; TABLES],
    table: AtomicUsize,
    growing: Mutex<()>,
    left: [AtomicUsize; TABLES], // Of each table that was replaced, buckets that were emptied since.
    edition: AtomicU64,
    rows_bytes: AtomicUsize,
    hand: AtomicUsize, // Where the search for rows to drop goes on.
    hits: StripedCounter,
    misses: StripedCounter,
}

impl RowCache {
    /// A cache of at most `capacity` bytes, buckets included; 0 holds nothing. Memory is taken as
    /// rows come.
    pub(crate) fn new(capacity: usize) -> RowCache {
        let buckets_max = capacity / BYTES_PER_BUCKET;
        let tables_bytes = (0..TABLES).map(|i| table_len(buckets_max, i) * size_of::<Bucket>());
        let tables_bytes = tables_bytes.sum();
        RowCache {
            buckets_max,
            tables_bytes,
            rows_bytes_max: AtomicUsize::new(capacity.saturating_sub(tables_bytes)),
            lender: None,
            borrowed: AtomicUsize::new(0),
            tables: std::array::from_fn(|_| OnceLock::new()),
            table: AtomicUsize::new(0),
            growing: Mutex::default(),
            left: Default::default(),
            edition: AtomicU64::new(0),
            rows_bytes: AtomicUsize::new(0),
            hand: AtomicUsize::new(0),
            hits: StripedCounter::default(),
            misses: StripedCounter::default(),
        }
    }

    /// Takes what it holds from `lender`, whose capacity includes this one's.
    pub(crate) fn borrowing_from(self, lender: Arc<dyn Lender>) -> RowCache {
        RowCache { lender: Some(lender), ..self }
    }

    /// From now on holds at most `capacity` bytes, which is at most what [`RowCache::new`] was
    /// given: what is too much goes at once, but not the buckets.
    pub(crate) fn set_capacity(&self, capacity: usize) {
        let rows_bytes_max = capacity.saturating_sub(self.tables_bytes);
        let before = self.rows_bytes_max.swap(rows_bytes_max, Ordering::Relaxed);
        if rows_bytes_max < before {
            self.shrink(rows_bytes_max);
            self.give_back(capacity.max(self.made_bytes()));
        }
    }

    /// Drops rows until at most `bytes_max` remain.
    fn shrink(&self, bytes_max: usize) {
        // The first pass takes the rows that nobody asked for, the second one any.
        for any in [false, true] {
            for bucket in self.buckets() {
                if self.rows_bytes.load(Ordering::Relaxed) <= bytes_max {
                    return;
                }
                self.drop_rows(Some(bucket), |_, ways, way| any || ways.is_idle(way));
            }
        }
    }

    /// Starts fetching what a lookup will read.
    pub(crate) fn prefetch(&self, row_hash: u64) {
        if let Some(bucket) = self.bucket(row_hash) {
            prefetch::read(bucket);
        }
    }

    /// The newest version of `key` in the files, if it is held and not newer than `at`.
    pub(crate) fn get(&self, key: &[u8], row_hash: u64, at: CommitTs) -> Option<Found> {
        let (Bucket { tags, ways }, tag) = (self.bucket(row_hash)?, tag(row_hash));
        if !tags.hold(tag) {
            return None;
        }
        let found = ways.lock().get(tags, key, tag, at)?;
        self.hits.add(1);
        Some(found)
    }

    /// Keeps what a reader found in the files of a View of `edition`, or remembers that it was
    /// asked for, and counts a miss. `found` must be the newest version of `key` in those files.
    pub(crate) fn add(&self, key: &[u8], row_hash: u64, found: &Found, edition: u64) {
        self.misses.add(1);
        let small = found.value.len() <= CACHED_VALUE_BYTES_MAX;
        let holds_value = matches!(found.kind, RowKind::Put | RowKind::PutUntil);
        if !holds_value || !small || self.buckets_max == 0 {
            return;
        }
        let row = Row { ts: found.ts, kind: found.kind, key, value: &found.value };
        let bytes = row.weight();
        let before = self.rows_bytes.load(Ordering::Relaxed);
        // An eighth stays free for those who were asked for twice.
        let bytes_max = self.rows_bytes_max.load(Ordering::Relaxed);
        if bytes > bytes_max {
            return;
        }
        let room = before + bytes <= bytes_max - bytes_max / 8;
        let at = self.table.load(Ordering::Acquire);
        let Some(bucket) = self.bucket_made(at, row_hash) else { return };
        // Either `forget` sees the table that was just made, or this sees its new edition.
        if !weakened!("edition") {
            fence(Ordering::SeqCst);
        }
        let mut ways = bucket.ways.lock();
        if self.edition.load(Ordering::Acquire) != edition {
            return;
        }
        // Whoever goes over to another table then empties this one, by the same lock: a row that
        // came later would be found by nobody, and counted for ever.
        if self.table.load(Ordering::Acquire) != at && !weakened!("table") {
            return;
        }
        let Some(freed) = ways.add(&bucket.tags, &row, row_hash, room) else { return };
        // Under the lock: nobody subtracts what is not yet added.
        let held = self.rows_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        drop(ways);
        self.rows_bytes.fetch_sub(freed, Ordering::Relaxed);
        let held = held.saturating_sub(freed);
        self.borrow(held);
        self.grow(held);
        self.leave();
        self.sweep(held);
    }

    /// Begins a new edition and drops the rows of `keys`, given by their hashes. To be called
    /// before a View whose files hold newer versions of them is shown, by one caller at a time;
    /// that View's edition is the number returned.
    pub(crate) fn forget(&self, row_hashes: &[u64]) -> u64 {
        let edition = self.next_edition();
        for row_hash in row_hashes {
            // By tag alone: now and then another row goes too, and no key has to be compared.
            self.drop_rows(self.bucket(*row_hash), |bucket, _, way| {
                bucket.tags.get(way) == tag(*row_hash)
            });
        }
        edition
    }

    /// The same for the rows that `goes` says, by key and timestamp. Cost: a look at every row.
    pub(crate) fn forget_where(&self, goes: impl Fn(&[u8], CommitTs) -> bool) -> u64 {
        let edition = self.next_edition();
        self.drop_rows(self.buckets(), |_, ways, way| {
            let row = ways.rows[way].as_deref().and_then(Row::read);
            row.is_none_or(|row| goes(row.key, row.ts))
        });
        edition
    }

    /// Lookups that found their row, those that found it in the files, and bytes held now.
    pub(crate) fn counts(&self) -> (u64, u64, usize) {
        let bytes = self.rows_bytes.load(Ordering::Relaxed) + self.made_bytes();
        (self.hits.get(), self.misses.get(), bytes)
    }

    /// Bytes of rows that are counted now.
    #[cfg(all(test, model = "loom"))]
    pub(crate) fn rows_bytes_held(&self) -> usize {
        self.rows_bytes.load(Ordering::Relaxed)
    }

    /// Whether any row was ever added.
    pub(crate) fn is_used(&self) -> bool {
        self.current().is_some()
    }

    fn next_edition(&self) -> u64 {
        let edition = self.edition.fetch_add(1, Ordering::AcqRel) + 1;
        fence(Ordering::SeqCst);
        edition
    }

    fn current(&self) -> Option<&Buckets> {
        self.tables[self.table.load(Ordering::Acquire)].get()
    }

    fn bucket(&self, row_hash: u64) -> Option<&Bucket> {
        self.current()?.of(row_hash)
    }

    fn bucket_made(&self, at: usize, row_hash: u64) -> Option<&Bucket> {
        let new = || Buckets::new(table_len(self.buckets_max, at));
        let table = self.tables[at].get_or_init(new);
        if let Some(bucket) = table.of(row_hash) {
            return Some(bucket);
        }
        let bucket = table.made_of(row_hash);
        self.borrow(self.rows_bytes.load(Ordering::Relaxed));
        bucket
    }

    /// Every bucket that may hold rows: those of the table, and what is left of the one before.
    fn buckets(&self) -> impl Iterator<Item = &Bucket> {
        let at = self.table.load(Ordering::Acquire);
        let of = |at: usize, from: usize| {
            let table = self.tables[at].get();
            table.into_iter().flat_map(move |table| (from..table.len()).filter_map(|i| table.at(i)))
        };
        let before = at.checked_sub(1).map(|at| of(at, self.left[at].load(Ordering::Acquire)));
        before.into_iter().flatten().chain(of(at, 0))
    }

    /// Sees to it that what it holds with `rows_bytes` of rows is taken from the lender; a loan at
    /// a time, so that few rows in many make the lender look for what to drop.
    fn borrow(&self, rows_bytes: usize) {
        let Some(lender) = &self.lender else { return };
        let needed = rows_bytes + self.made_bytes();
        let borrowed = self.borrowed.load(Ordering::Relaxed);
        if needed <= borrowed {
            return;
        }
        let capacity = self.rows_bytes_max.load(Ordering::Relaxed) + self.tables_bytes;
        let more = needed.next_multiple_of(LOAN_BYTES).min(capacity).max(needed);
        if self.borrowed.fetch_max(more, Ordering::Relaxed) < more {
            // Of several at a time whoever comes last tells what all of them have made of it.
            lender.lend(&|| self.borrowed.load(Ordering::Relaxed));
        }
    }

    /// Keeps at most `bytes` of what was borrowed.
    fn give_back(&self, bytes: usize) {
        if let Some(lender) = &self.lender
            && self.borrowed.fetch_min(bytes, Ordering::Relaxed) > bytes
        {
            lender.lend(&|| self.borrowed.load(Ordering::Relaxed));
        }
    }

    /// Bytes of the tables that were made.
    fn made_bytes(&self) -> usize {
        self.tables.iter().filter_map(|table| table.get()).map(Buckets::bytes).sum()
    }

    /// Goes over to a larger table once this one is filled. The rows of the old one are found no
    /// more and go by and by: they come back as they are asked for, at most twice in a cache's
    /// life.
    fn grow(&self, held: usize) {
        let at = self.table.load(Ordering::Acquire);
        if at + 1 == TABLES || held < table_len(self.buckets_max, at) * BYTES_PER_BUCKET / 2 {
            return;
        }
        let Some(_one_at_a_time) = self.growing.try_lock() else { return };
        let is_left = at == 0 || self.left_all(at - 1);
        if self.table.load(Ordering::Acquire) == at && is_left {
            self.table.store(at + 1, Ordering::Release);
        }
    }

    fn left_all(&self, at: usize) -> bool {
        self.left[at].load(Ordering::Acquire) >= table_len(self.buckets_max, at)
    }

    /// Empties some buckets of the table that the present one has replaced.
    fn leave(&self) {
        let at = self.table.load(Ordering::Acquire);
        let Some(at) = at.checked_sub(1).filter(|at| !self.left_all(*at)) else { return };
        let from = self.left[at].fetch_add(LEAVE_BUCKETS, Ordering::AcqRel);
        let Some(table) = self.tables[at].get() else { return };
        let buckets = (from..from + LEAVE_BUCKETS).filter_map(|i| table.at(i));
        self.drop_rows(buckets, |_, _, _| true);
    }

    /// Drops rows that nobody asked for since the hand last came by, until the cache is within its
    /// bounds; a few buckets at a time, so that no reader pays for many.
    fn sweep(&self, held: usize) {
        let Some(table) = self.current() else { return };
        let bytes_max = self.rows_bytes_max.load(Ordering::Relaxed);
        if held <= bytes_max {
            return;
        }
        for _ in 0..SWEEP_BUCKETS {
            let at = self.hand.fetch_add(1, Ordering::Relaxed) % table.len();
            self.drop_rows(table.at(at), |_, ways, way| ways.is_idle(way));
            if self.rows_bytes.load(Ordering::Relaxed) <= bytes_max {
                return;
            }
        }
    }

    fn drop_rows<'a>(
        &self,
        buckets: impl IntoIterator<Item = &'a Bucket>,
        mut goes: impl FnMut(&Bucket, &mut Ways, usize) -> bool,
    ) {
        for bucket in buckets {
            let mut ways = bucket.ways.lock();
            let mut freed = 0;
            for way in 0..WAYS {
                if ways.rows[way].is_some() && goes(bucket, &mut ways, way) {
                    freed += weight(&ways.rows[way]);
                    ways.rows[way] = None;
                }
            }
            drop(ways);
            if freed > 0 {
                self.rows_bytes.fetch_sub(freed, Ordering::Relaxed);
            }
        }
    }
}

/// Buckets of table `at` where the last has `buckets_max`.
fn table_len(buckets_max: usize, at: usize) -> usize {
    (buckets_max / GROWTH.pow((TABLES - 1 - at) as u32)).max(1)
}

impl std::fmt::Debug for RowCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "RowCache({} of {} bytes)",
            self.counts().2,
            self.rows_bytes_max.load(Ordering::Relaxed)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::hash;
    use bytes::Bytes;
    use std::collections::BTreeSet;

    fn found(ts: u64, len: usize) -> Found {
        Found { ts: CommitTs(ts), kind: RowKind::Put, value: Bytes::from(vec![ts as u8; len]) }
    }

    fn key(i: u64) -> Vec<u8> {
        format!("key-{i}").into_bytes()
    }

    fn add(cache: &RowCache, i: u64, ts: u64, edition: u64) {
        cache.add(&key(i), hash::of_row(&key(i)), &found(ts, 100), edition);
    }

    fn get(cache: &RowCache, i: u64, at: u64) -> Option<u64> {
        let found = cache.get(&key(i), hash::of_row(&key(i)), CommitTs(at))?;
        assert_eq!(found.value, vec![found.ts.0 as u8; 100], "the value of its version");
        Some(found.ts.0)
    }

    #[test]
    fn a_row_is_shown_to_readers_that_may_see_it() {
        let cache = RowCache::new(1 << 20);
        add(&cache, 1, 5, 0);
        assert_eq!(get(&cache, 1, 5), Some(5));
        assert_eq!(get(&cache, 1, 4), None, "a snapshot before it");
        assert_eq!(get(&cache, 2, 9), None);
        assert_eq!(cache.counts().0, 1);
    }

    #[test]
    fn what_a_flush_drops_no_slow_reader_puts_back() {
        let cache = RowCache::new(1 << 20);
        add(&cache, 1, 5, 0);
        add(&cache, 2, 6, 0);
        let edition = cache.forget(&[hash::of_row(&key(1))]);
        assert_eq!((get(&cache, 1, 9), get(&cache, 2, 9)), (None, Some(6)));
        add(&cache, 1, 5, 0);
        assert_eq!(get(&cache, 1, 9), None, "found in files of an edition that is over");
        add(&cache, 1, 8, edition);
        assert_eq!(get(&cache, 1, 9), Some(8));
        let edition = cache.forget_where(|row, ts| row == key(1) && ts == CommitTs(8));
        assert_eq!((get(&cache, 1, 9), get(&cache, 2, 9)), (None, Some(6)));
        add(&cache, 1, 8, edition - 1);
        assert_eq!(get(&cache, 1, 9), None);
    }

    #[test]
    fn deletes_and_large_values_are_left_out() {
        let cache = RowCache::new(1 << 20);
        let delete = Found { kind: RowKind::Delete, value: Bytes::new(), ts: CommitTs(1) };
        for found in [delete, found(1, CACHED_VALUE_BYTES_MAX + 1)] {
            cache.add(b"k", hash::of_row(b"k"), &found, 0);
            assert_eq!(cache.get(b"k", hash::of_row(b"k"), CommitTs::MAX), None);
        }
    }

    #[test]
    fn it_stays_within_its_bytes_and_keeps_what_is_asked_for() {
        let capacity = 256 << 10;
        let cache = RowCache::new(capacity);
        for i in 0..20_000 {
            for _ in 0..2 {
                add(&cache, i, 7, 0);
            }
            for hot in 0..100 {
                if get(&cache, hot, 9).is_none() && hot <= i {
                    add(&cache, hot, 7, 0);
                }
            }
            assert!(cache.counts().2 <= capacity + capacity / 50, "{:?} at {i}", cache);
        }
        let kept = (0..100).filter(|hot| get(&cache, *hot, 9).is_some()).count();
        assert!(kept >= 90, "{kept} of 100 rows in use are held");
        let all = (0..20_000).filter(|i| get(&cache, *i, 9).is_some()).count();
        assert!((700..2000).contains(&all), "{all} rows are held");
    }

    #[test]
    fn one_pass_over_cold_rows_pushes_nothing_out() {
        let cache = RowCache::new(256 << 10);
        for i in 0..5000 {
            add(&cache, i, 7, 0);
        }
        let held = |cache: &RowCache| {
            (0..5000).filter(|i| get(cache, *i, 9).is_some()).collect::<Vec<_>>()
        };
        let before = held(&cache);
        for i in 10_000..15_000 {
            add(&cache, i, 7, 0);
        }
        let lost = before.len() - held(&cache).len();
        assert!(before.len() > 500 && lost < before.len() / 20, "{lost} of {}", before.len());
    }

    #[test]
    fn it_gives_way_at_once_and_comes_back() {
        let cache = RowCache::new(256 << 10);
        let fill = || (0..2000).for_each(|i| (0..2).for_each(|_| add(&cache, i, 7, 0)));
        fill();
        let full = cache.counts().2;
        cache.set_capacity(64 << 10);
        assert!(full > 200 << 10 && cache.counts().2 <= 64 << 10, "{cache:?}");
        cache.set_capacity(0);
        fill();
        assert_eq!(cache.rows_bytes.load(Ordering::Relaxed), 0);
        cache.set_capacity(256 << 10);
        fill();
        assert!(cache.counts().2 > 200 << 10, "{cache:?}");
    }

    #[test]
    fn no_reader_pays_for_a_whole_table() {
        let cache = RowCache::new(64 << 20);
        let (mut before, mut tables) = (cache.counts().2, BTreeSet::new());
        for i in 0..200_000 {
            add(&cache, i, 7, 0);
            let now = cache.counts().2;
            let (most, dropped) = (300 << 10, 100 << 10);
            assert!(now <= before + most, "row {i}: {before} bytes, then {now}");
            assert!(now + dropped >= before, "row {i}: {before} bytes, then {now}");
            before = now;
            tables.insert(cache.table.load(Ordering::Relaxed));
        }
        assert_eq!(tables.len(), TABLES, "it has grown");
        assert!(cache.left_all(0) && cache.left_all(1), "and left the smaller ones");
    }

    #[test]
    fn no_capacity_holds_nothing() {
        let cache = RowCache::new(0);
        add(&cache, 1, 5, 0);
        assert_eq!((get(&cache, 1, 9), cache.counts().2), (None, 0));
    }

    #[test]
    fn what_it_holds_is_borrowed_and_given_back() {
        struct Lent(AtomicUsize);
        impl Lender for Lent {
            fn lend(&self, bytes: &dyn Fn() -> usize) {
                self.0.store(bytes(), Ordering::Relaxed);
            }
        }
        let lent = Arc::new(Lent(AtomicUsize::new(0)));
        let lender: Arc<dyn Lender> = Arc::<Lent>::clone(&lent);
        let cache = RowCache::new(8 << 20).borrowing_from(lender);
        for i in 0..60_000 {
            add(&cache, i, 1, 0);
            assert!(cache.counts().2 <= lent.0.load(Ordering::Relaxed), "row {i}");
        }
        assert!((6 << 20..=8 << 20).contains(&lent.0.load(Ordering::Relaxed)));
        cache.set_capacity(4 << 20);
        assert_eq!(lent.0.load(Ordering::Relaxed), 4 << 20);
        assert!(cache.counts().2 <= 4 << 20);
        // Less than the buckets take, which stay.
        cache.set_capacity(512 << 10);
        assert!(cache.counts().2 <= lent.0.load(Ordering::Relaxed), "{:?}", cache.counts());
    }

    #[test]
    fn threads_read_rows_or_nothing_while_others_forget_them() {
        let cache = RowCache::new(128 << 10);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for i in (0..20_000).map(|i| i * 7 % 300) {
                        let edition = cache.edition.load(Ordering::Acquire);
                        if get(&cache, i, 9).is_none() {
                            add(&cache, i, i % 9, edition);
                        }
                    }
                });
            }
            scope.spawn(|| {
                for i in 0..2000 {
                    let keys = (0..300).step_by(7).map(|j| hash::of_row(&key(i + j)));
                    cache.forget(&keys.collect::<Vec<_>>());
                }
            });
        });
        cache.forget_where(|_, _| true);
        assert_eq!(cache.rows_bytes.load(Ordering::Relaxed), 0, "every byte that came has gone");
    }
}
