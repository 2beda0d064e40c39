//! Rows by the hash of their key: buckets of six, and tables of buckets that are made piece by
//! piece.
//!
//! A piece is made when its first row comes, so that no reader pays for a whole table, which may
//! have hundreds of MiB. Absent: bounds, and who goes when there is no room.

use crate::cursor::Found;
use crate::ids::{CommitTs, RowKind};
use crate::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use crate::sync::{IS_MODEL, Mutex, OnceLock};
use bytes::Bytes;

/// What the allocator keeps beside a row.
const ROW_OVERHEAD_BYTES: usize = 16;

pub(crate) const WAYS: usize = 6;

/// Buckets of a piece: 256 KiB, which the system fills with zeros in some 50 us.
pub(crate) const PIECE_BUCKETS: usize = if IS_MODEL { 1 } else { 2048 };

/// A table of buckets.
pub(crate) struct Buckets {
    pieces: Box<[OnceLock<Box<[Bucket]>>]>,
    len: usize,
    made: AtomicUsize,
}

impl Buckets {
    /// One of `len` buckets, none of which is made.
    pub(crate) fn new(len: usize) -> Buckets {
        let pieces = (0..len.div_ceil(PIECE_BUCKETS)).map(|_| OnceLock::new());
        Buckets { pieces: pieces.collect(), len, made: AtomicUsize::new(0) }
    }

    /// Buckets that it has, made or not.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of those that are made.
    pub(crate) fn bytes(&self) -> usize {
        self.made.load(Ordering::Relaxed) * size_of::<Bucket>()
    }

    /// The bucket of a hash, if it is made.
    pub(crate) fn of(&self, row_hash: u64) -> Option<&Bucket> {
        self.at(self.place(row_hash))
    }

    /// The bucket of a hash; the first one of a piece makes all of it.
    pub(crate) fn made_of(&self, row_hash: u64) -> Option<&Bucket> {
        let at = self.place(row_hash);
        let piece = self.pieces.get(at / PIECE_BUCKETS)?.get_or_init(|| {
            let len = (self.len - at / PIECE_BUCKETS * PIECE_BUCKETS).min(PIECE_BUCKETS);
            self.made.fetch_add(len, Ordering::Relaxed);
            (0..len).map(|_| Bucket::default()).collect()
        });
        piece.get(at % PIECE_BUCKETS)
    }

    /// The bucket at a place, if it is made.
    pub(crate) fn at(&self, at: usize) -> Option<&Bucket> {
        self.pieces.get(at / PIECE_BUCKETS)?.get()?.get(at % PIECE_BUCKETS)
    }

    fn place(&self, row_hash: u64) -> usize {
        // The middle of the hash: its ends are the tag and the place in a filter.
        let middle = (row_hash >> 16) & 0xffff_ffff;
        ((middle * self.len as u64) >> 32) as usize
    }
}

/// Two cache lines, which the processor fetches together.
#[derive(Default)]
#[repr(C, align(128))]
pub(crate) struct Bucket {
    pub(crate) tags: Tags, // In the first line, with the lock.
    pub(crate) ways: Mutex<Ways>,
}

const _: () = assert!(IS_MODEL || size_of::<Bucket>() == 128, "a bucket is two cache lines");

/// Of each way 16 bits of its row's hash; 0: none. A tag without a row was asked for and not taken.
/// Changed under the lock of the ways only; whoever looks without it may miss a change, which costs
/// a needless look or a read of the files.
#[derive(Default)]
pub(crate) struct Tags([AtomicU16; WAYS]);

impl Tags {
    pub(crate) fn get(&self, way: usize) -> u16 {
        self.0[way].load(Ordering::Relaxed)
    }

    fn set(&self, way: usize, tag: u16) {
        self.0[way].store(tag, Ordering::Relaxed);
    }

    pub(crate) fn hold(&self, tag: u16) -> bool {
        (0..WAYS).any(|way| self.get(way) == tag)
    }
}

#[derive(Default)]
pub(crate) struct Ways {
    used: u8, // Bit i: row i was asked for since the hand came by.
    pub(crate) rows: [Option<Box<[u8]>>; WAYS], // See `Row`.
}

/// A row as one stretch of bytes: timestamp u64, kind u8, length of the key u32, key, value.
pub(crate) struct Row<'a> {
    pub(crate) ts: CommitTs,
    pub(crate) kind: RowKind,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

impl<'a> Row<'a> {
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Row<'a>> {
        let (ts, rest) = bytes.split_first_chunk()?;
        let (kind, rest) = rest.split_first()?;
        let kind = RowKind::from_byte(*kind)?;
        let (key_len, rest) = rest.split_first_chunk()?;
        let (key, value) = rest.split_at_checked(u32::from_le_bytes(*key_len) as usize)?;
        Some(Row { ts: CommitTs(u64::from_le_bytes(*ts)), kind, key, value })
    }

    /// Bytes that it takes, with what the allocator keeps.
    pub(crate) fn weight(&self) -> usize {
        self.bytes() + ROW_OVERHEAD_BYTES
    }

    fn bytes(&self) -> usize {
        13 + self.key.len() + self.value.len()
    }

    fn write(&self) -> Box<[u8]> {
        let mut bytes = Vec::with_capacity(self.bytes());
        bytes.extend_from_slice(&self.ts.0.to_le_bytes());
        bytes.push(self.kind as u8);
        bytes.extend_from_slice(&(self.key.len() as u32).to_le_bytes());
        bytes.extend_from_slice(self.key);
        bytes.extend_from_slice(self.value);
        bytes.into_boxed_slice()
    }
}

/// What a bucket tells its rows apart by, most of the time.
pub(crate) fn tag(row_hash: u64) -> u16 {
    (row_hash as u16).max(1)
}

/// Bytes that what is in a way takes.
pub(crate) fn weight(row: &Option<Box<[u8]>>) -> usize {
    row.as_ref().map_or(0, |row| row.len() + ROW_OVERHEAD_BYTES)
}

impl Ways {
    /// The newest version of `key`, if it is held and not newer than `at`.
    pub(crate) fn get(&mut self, tags: &Tags, key: &[u8], tag: u16, at: CommitTs) -> Option<Found> {
        for way in 0..WAYS {
            let Some(row) = self.rows[way].as_deref().filter(|_| tags.get(way) == tag) else {
                continue;
            };
            let Some(row) = Row::read(row).filter(|row| row.key == key) else { continue };
            if row.ts > at {
                return None;
            }
            // Copied: a shared value would cost a count that all threads write to.
            let value = Bytes::copy_from_slice(row.value);
            self.used |= 1 << way;
            return Some(Found { ts: row.ts, kind: row.kind, value });
        }
        None
    }

    /// Takes the row where there is room or its tag is known; returns the bytes that it freed, or
    /// `None` where it took nothing.
    pub(crate) fn add(
        &mut self,
        tags: &Tags,
        row: &Row<'_>,
        row_hash: u64,
        room: bool,
    ) -> Option<usize> {
        let tag = tag(row_hash);
        let known = (0..WAYS).find(|way| tags.get(*way) == tag);
        let known = known.filter(|way| self.rows[*way].is_none() || self.is_of(*way, row.key));
        let way = match known {
            Some(way) => way,
            None if room => self.victim(row_hash),
            None => {
                let free = (0..WAYS).find(|way| self.rows[*way].is_none());
                tags.set(free?, tag);
                return None;
            }
        };
        let freed = weight(&self.rows[way]);
        tags.set(way, tag);
        self.rows[way] = Some(row.write());
        self.used &= !(1 << way);
        Some(freed)
    }

    fn is_of(&self, way: usize, key: &[u8]) -> bool {
        let row = self.rows[way].as_deref().and_then(Row::read);
        row.is_some_and(|row| row.key == key)
    }

    /// Where a new row goes: a free way, or one not asked for lately, or any.
    fn victim(&mut self, row_hash: u64) -> usize {
        let free = (0..WAYS).find(|way| self.rows[*way].is_none());
        free.or_else(|| (0..WAYS).find(|way| self.used >> way & 1 == 0)).unwrap_or_else(|| {
            self.used = 0;
            (row_hash >> 56) as usize % WAYS
        })
    }

    /// Whether the row was not asked for since this was last asked; it counts as such from now on.
    pub(crate) fn is_idle(&mut self, way: usize) -> bool {
        let idle = self.used >> way & 1 == 0;
        self.used &= !(1 << way);
        idle
    }
}
