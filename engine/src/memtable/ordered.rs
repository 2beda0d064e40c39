//! A memtable that is plainly right, for tests: a B-tree of keys behind one lock, each with its
//! versions. A cursor copies chunks out.

use crate::batch::Commit;
use crate::cursor::{Cursor, Direction, Found};
use crate::error::Result;
use crate::ids::{CommitTs, RowKind};
use crate::memtable::api::Memtable;
use bytes::Bytes;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that one key and its first version take beside their own bytes: the slot in the tree's
/// node at its usual fill, the allocation of the key.
const KEY_OVERHEAD_BYTES: usize = 112;

/// Bytes that a further version of a key takes beside its value.
const VERSION_OVERHEAD_BYTES: usize = 48;

/// Keys copied out at a time: the first chunk of a scan, and the most.
const CHUNK_KEYS_MIN: usize = 8;
const CHUNK_KEYS_MAX: usize = 128;

/// Versions of rows, ordered by key.
#[derive(Debug, Default)]
pub(crate) struct OrderedMemtable {
    keys: RwLock<BTreeMap<Box<[u8]>, Versions>>,
    bytes: AtomicUsize,
}

#[derive(Clone, Debug)]
struct Version {
    ts: CommitTs,
    kind: RowKind,
    value: Bytes,
}

/// The versions of one key. Most keys have one, which costs no allocation of its own.
#[derive(Debug)]
struct Versions {
    newest: Version,
    older: Vec<Version>, // Ascending by timestamp.
}

impl Versions {
    /// Adds a version; returns the bytes that the memtable grew by.
    fn push(&mut self, version: Version) -> usize {
        if self.newest.ts == version.ts {
            self.newest = version;
            return 0;
        }
        debug_assert!(self.newest.ts < version.ts, "timestamps of a key rise");
        let grown = VERSION_OVERHEAD_BYTES + version.value.len();
        self.older.push(std::mem::replace(&mut self.newest, version));
        grown
    }

    fn newest_at(&self, at: CommitTs) -> Option<&Version> {
        if self.newest.ts <= at {
            return Some(&self.newest);
        }
        let below = self.older.partition_point(|v| v.ts <= at);
        below.checked_sub(1).and_then(|i| self.older.get(i))
    }

    /// Newest first.
    fn descending(&self) -> impl Iterator<Item = &Version> {
        std::iter::once(&self.newest).chain(self.older.iter().rev())
    }
}

impl Memtable for OrderedMemtable {
    fn apply(&self, commit: &Commit) -> bool {
        commit.each(|key, kind, value| self.insert(key, commit.ts, kind, value))
    }

    fn insert(&self, key: &[u8], ts: CommitTs, kind: RowKind, value: &[u8]) {
        let value = Bytes::copy_from_slice(value);
        let version = Version { ts, kind, value };
        let mut keys = self.keys.write();
        let grown = match keys.get_mut(key) {
            Some(versions) => versions.push(version),
            None => {
                let grown = KEY_OVERHEAD_BYTES + key.len() + version.value.len();
                keys.insert(key.into(), Versions { newest: version, older: Vec::new() });
                grown
            }
        };
        self.bytes.fetch_add(grown, Ordering::Relaxed);
    }

    fn get(&self, key: &[u8], _row_hash: u64, at: CommitTs) -> Option<Found> {
        let keys = self.keys.read();
        let version = keys.get(key)?.newest_at(at)?;
        Some(Found { ts: version.ts, kind: version.kind, value: version.value.clone() })
    }

    fn cursor(self: Arc<Self>) -> Box<dyn Cursor + Send> {
        Box::new(MemCursor {
            table: self,
            key_bytes: Vec::new(),
            entries: Vec::new(),
            at: 0,
            chunk_keys: CHUNK_KEYS_MIN,
        })
    }

    fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn is_empty(&self) -> bool {
        self.keys.read().is_empty()
    }
}

/// A cursor that copies out chunks of whole keys.
struct MemCursor {
    table: Arc<OrderedMemtable>,
    key_bytes: Vec<u8>,  // The chunk's keys, one after the other.
    entries: Vec<Entry>, // The chunk, in cursor order.
    at: usize,           // Past the end: not valid.
    chunk_keys: usize,   // Doubles as the scan goes on.
}

struct Entry {
    key_start: u32,
    key_end: u32,
    version: Version,
}

impl MemCursor {
    /// Loads keys from `from` upwards and stands on the first.
    fn load_up(&mut self, from: Bound<&[u8]>) {
        self.clear();
        let table = Arc::clone(&self.table);
        let keys = table.keys.read();
        for (key, versions) in keys.range::<[u8], _>((from, Bound::Unbounded)).take(self.chunk_keys)
        {
            self.push_key(key, versions);
        }
    }

    /// Loads keys below `to` and stands on the last.
    fn load_down(&mut self, to: &[u8]) {
        self.clear();
        let table = Arc::clone(&self.table);
        let keys = table.keys.read();
        let below = (Bound::Unbounded, Bound::Excluded(to));
        let chunk: Vec<_> = keys.range::<[u8], _>(below).rev().take(self.chunk_keys).collect();
        for (key, versions) in chunk.into_iter().rev() {
            self.push_key(key, versions);
        }
        self.at = self.entries.len().saturating_sub(1);
    }

    fn push_key(&mut self, key: &[u8], versions: &Versions) {
        let key_start = self.key_bytes.len() as u32;
        self.key_bytes.extend_from_slice(key);
        let key_end = self.key_bytes.len() as u32;
        let entry = |version: &Version| Entry { key_start, key_end, version: version.clone() };
        self.entries.extend(versions.descending().map(entry));
    }

    fn clear(&mut self) {
        self.key_bytes.clear();
        self.entries.clear();
        self.at = 0;
    }

    fn key_of(&self, entry: &Entry) -> &[u8] {
        &self.key_bytes[entry.key_start as usize..entry.key_end as usize]
    }

    fn grow_chunk(&mut self) {
        self.chunk_keys = (self.chunk_keys * 2).min(CHUNK_KEYS_MAX);
    }
}

impl Cursor for MemCursor {
    fn seek(&mut self, key: &[u8], ts: CommitTs) -> Result<()> {
        self.chunk_keys = CHUNK_KEYS_MIN;
        self.load_up(Bound::Included(key));
        let newer = |e: &Entry| self.key_of(e) == key && e.version.ts > ts;
        // All of the chunk where that is newer versions of one key: it is the memtable's last.
        self.at = self.entries.iter().take_while(|e| newer(e)).count();
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.chunk_keys = CHUNK_KEYS_MIN;
        self.load_down(key);
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.at += 1;
        if self.at == self.entries.len() {
            self.grow_chunk();
            let last = self.key().to_vec();
            self.load_up(Bound::Excluded(&last));
        }
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        if self.at > 0 {
            self.at -= 1;
            return Ok(());
        }
        self.grow_chunk();
        let first = self.key().to_vec();
        self.load_down(&first);
        Ok(())
    }

    fn valid(&self) -> bool {
        self.at < self.entries.len()
    }

    fn key(&self) -> &[u8] {
        // At the end of a chunk `next` asks for the last key: the entry before.
        let at = self.at.min(self.entries.len().saturating_sub(1));
        self.entries.get(at).map_or(&[], |entry| self.key_of(entry))
    }

    fn ts(&self) -> CommitTs {
        self.entries.get(self.at).map_or(CommitTs::ZERO, |e| e.version.ts)
    }

    fn kind(&self) -> RowKind {
        self.entries.get(self.at).map_or(RowKind::Delete, |e| e.version.kind)
    }

    fn value(&mut self) -> Result<Bytes> {
        Ok(self.entries.get(self.at).map(|e| e.version.value.clone()).unwrap_or_default())
    }

    fn value_ref(&self) -> Result<&[u8]> {
        Ok(self.entries.get(self.at).map(|e| &*e.version.value).unwrap_or_default())
    }

    fn ends_key(&self, direction: Direction) -> bool {
        // A chunk holds whole keys.
        let neighbour = match direction {
            Direction::Up => self.entries.get(self.at + 1),
            Direction::Down => self.at.checked_sub(1).and_then(|before| self.entries.get(before)),
        };
        let here = self.entries.get(self.at);
        neighbour.map(|entry| entry.key_end) != here.map(|entry| entry.key_end)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;
    use crate::env::rng::Rng;
    use crate::key::hash;

    type Model = BTreeMap<(Vec<u8>, std::cmp::Reverse<u64>), (RowKind, Vec<u8>)>;

    fn random_table(seed: u64) -> (Arc<OrderedMemtable>, Model) {
        let mut rng = Rng::seeded(seed);
        let table = Arc::new(OrderedMemtable::default());
        let mut model = Model::new();
        for ts in 1..=800 {
            let key = vec![b'k'; rng.below(3) as usize + 1]
                .into_iter()
                .chain((rng.below(120) as u8).to_be_bytes())
                .collect::<Vec<_>>();
            let kind = if rng.one_in(4) { RowKind::Delete } else { RowKind::Put };
            let value = if kind == RowKind::Put { ts.to_string().into_bytes() } else { vec![] };
            table.insert(&key, CommitTs(ts), kind, &value);
            model.insert((key, std::cmp::Reverse(ts)), (kind, value));
        }
        (table, model)
    }

    fn here(cursor: &mut Box<dyn Cursor + Send>) -> Option<(Vec<u8>, u64)> {
        cursor.valid().then(|| (cursor.key().to_vec(), cursor.ts().0))
    }

    #[test]
    fn walks_both_ways_like_the_model() {
        let (table, model) = random_table(1);
        let all: Vec<_> = model.keys().map(|(k, ts)| (k.clone(), ts.0)).collect();
        let mut cursor = Arc::clone(&table).cursor();
        cursor.seek(&[], CommitTs::MAX).unwrap();
        for want in &all {
            assert_eq!(here(&mut cursor).as_ref(), Some(want));
            cursor.next().unwrap();
        }
        assert!(!cursor.valid());
        cursor.seek_before(&[0xff]).unwrap();
        for want in all.iter().rev() {
            assert_eq!(here(&mut cursor).as_ref(), Some(want));
            cursor.prev().unwrap();
        }
        assert!(!cursor.valid());
    }

    #[test]
    fn seeks_and_gets_like_the_model() {
        let (table, model) = random_table(2);
        let mut rng = Rng::seeded(3);
        let keys: Vec<_> = model.keys().map(|(k, _)| k.clone()).collect();
        let mut cursor = Arc::clone(&table).cursor();
        for _ in 0..2000 {
            let mut key = keys[rng.below(keys.len() as u64) as usize].clone();
            if rng.one_in(3) {
                key.push(rng.below(3) as u8);
            }
            let at = rng.below(900);
            cursor.seek(&key, CommitTs(at)).unwrap();
            let want = model.range((key.clone(), std::cmp::Reverse(at))..).next();
            assert_eq!(here(&mut cursor), want.map(|((k, ts), _)| (k.clone(), ts.0)));
            let got = table
                .get(&key, hash::of_row(&key), CommitTs(at))
                .map(|f| (f.ts.0, f.kind, f.value.to_vec()));
            let want = want.filter(|((k, _), _)| *k == key);
            assert_eq!(got, want.map(|((_, ts), (kind, v))| (ts.0, *kind, v.clone())));
            cursor.seek_before(&key).unwrap();
            let want = model.range(..(key.clone(), std::cmp::Reverse(u64::MAX))).next_back();
            assert_eq!(here(&mut cursor), want.map(|((k, ts), _)| (k.clone(), ts.0)));
        }
    }

    #[test]
    fn the_last_of_two_writes_of_one_batch_stays() {
        let table = OrderedMemtable::default();
        table.insert(b"k", CommitTs(1), RowKind::Put, b"a");
        table.insert(b"k", CommitTs(1), RowKind::Delete, b"");
        assert_eq!(
            table.get(b"k", hash::of_row(b"k"), CommitTs::MAX).map(|f| f.kind),
            Some(RowKind::Delete)
        );
    }
}
