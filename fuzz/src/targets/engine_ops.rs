//! The engine against an ordered map: operations decoded from bytes, reopen, kill, flush,
//! compaction and snapshots among them.

use crate::input::Input;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;
use tabulith::Codec;
use tabulith::db::Db;
use tabulith::env::clock::ManualClock;
use tabulith::env::jobs::ByHand;
use tabulith::ids::{CommitTs, TableId};
use tabulith::key::order;
use tabulith::key::range::KeyRange;
use tabulith::options::{Advanced, Compression, Options, Reach};
use tabulith::rows::{Catalog, RowCursor, RowSnapshot, RowStore};
use tabulith::vfs::mem::SimFs;
use tabulith_testkit::oracle::{Change, Oracle, Place, Stored};

const DIR: &str = "/db";
const OPERATIONS_MAX: usize = 400;

/// Runs the operations of the input on the engine and on the map. The first byte chooses options.
pub fn engine_ops(data: &[u8]) {
    let mut input = Input::new(data);
    let mut run = Run::new(options(input.byte()));
    for _ in 0..OPERATIONS_MAX {
        if input.is_empty() {
            break;
        }
        run.operation(&mut input);
    }
    run.reopen(false);
    run.compare_all();
    run.db().close().expect("a sound disk");
}

fn options(choice: u8) -> Options {
    Options {
        advanced: Advanced {
            memtable_bytes: Some(4 << 10),
            wal_segment_bytes: 16 << 10,
            block_bytes: if choice & 1 == 0 { 256 } else { 4096 },
            file_bytes: 4 << 10,
            level_base_bytes: 8 << 10,
            level_fanout: 2,
            l0_compact_files: 1 + usize::from(choice >> 1 & 3),
            block_cache_bytes: Some(if choice & 8 == 0 { 0 } else { 64 << 10 }),
            filter_bits: if choice & 16 == 0 { 10 } else { 0 },
            compression: match choice & 32 {
                0 => Compression::LZ4,
                _ => Compression { upper: Codec::None, bottom: Codec::Lz4 },
            },
            ..Advanced::default()
        },
        ..Options::default()
    }
}

struct Run {
    options: Options,
    disk: SimFs,
    clock: Arc<ManualClock>,
    db: Option<Db>,
    table: TableId,
    model: Oracle,
    snapshots: Vec<(Box<dyn RowSnapshot>, Oracle)>,
}

impl Run {
    fn new(options: Options) -> Run {
        let mut run = Run {
            options,
            disk: SimFs::new(),
            clock: Arc::new(ManualClock::at(16_000_000_000_000_000)),
            db: None,
            table: TableId(0),
            model: Oracle::new(),
            snapshots: Vec::new(),
        };
        run.open();
        run.table = run.db().create_table("t", b"").expect("a new table").id;
        run
    }

    fn open(&mut self) {
        let parts = Db::builder().options(self.options.clone());
        let parts = parts.parts(Arc::new(self.disk.clone()), self.clock.clone(), Arc::new(ByHand));
        self.db = Some(parts.open(DIR).expect("a sound disk opens"));
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("open between operations")
    }

    fn operation(&mut self, input: &mut Input<'_>) {
        match input.byte() {
            0..=119 => self.write(input),
            120..=149 => self.get(input),
            150..=179 => self.scan(input),
            180..=189 => self.take_snapshot(input),
            190..=204 => self.read_snapshot(input),
            205..=214 => self.db().flush().expect("a sound disk"),
            215..=217 => self.db().compact().expect("a sound disk"),
            218 => self.db().settle().expect("a sound disk"),
            219 => self.truncate(),
            220..=234 => drop(self.db().step().expect("a sound disk")),
            235..=239 => self.clock.advance(Duration::from_secs(u64::from(input.byte()))),
            240..=247 => self.reopen(false),
            _ => self.reopen(true),
        }
    }

    /// One commit of a few changes in one partition.
    fn write(&mut self, input: &mut Input<'_>) {
        let pk = key(input);
        let mut changes = Vec::new();
        for _ in 0..=input.below(4) {
            let (rk, size) = (key(input), input.byte());
            changes.push(match size {
                0..=59 => Change::Delete(rk),
                60 | 61 => Change::DeleteRange(Bound::Included(rk), Bound::Unbounded),
                62 | 63 => Change::DeleteRange(Bound::Excluded(rk), Bound::Included(key(input))),
                // Long past, or not in the time of anybody who runs this.
                64 => Change::PutUntil(rk, vec![size; 9], 0),
                65 => Change::PutUntil(rk, vec![size; 90], u64::MAX - 1),
                _ => Change::Put(rk, vec![size; usize::from(size) * usize::from(size) / 64]),
            });
        }
        // Background work is stepped by hand, and writes must not have to wait for it.
        while self.db().step().expect("a sound disk") {}
        let work = &mut |partition: &mut dyn tabulith::rows::PartitionUpdate| {
            changes.iter().try_for_each(|change| match change {
                Change::Put(rk, value) => partition.put(rk, value),
                Change::PutUntil(rk, value, expires) => {
                    partition.put_until(rk, value, CommitTs(*expires))
                }
                Change::Delete(rk) => partition.delete(rk),
                Change::DeleteRange(from, to) => partition
                    .delete_range(from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice)),
            })
        };
        let ticket = self.db().update(self.table, &pk, None, Reach::Disk, work);
        let ticket = ticket.expect("a sound change");
        let (ts, before) = (ticket.ts().0, self.model.last_ts());
        ticket.wait().expect("a sound disk");
        // Deletes of what is not there write nothing.
        if ts > before {
            self.model.commit(self.table.0, &pk, ts, &changes);
        } else {
            let before = self.model.clone();
            self.model.commit(self.table.0, &pk, before.last_ts() + 1, &changes);
            let nothing = self.model.table(self.table.0).eq(before.table(self.table.0));
            self.model = before;
            assert!(nothing, "a commit has a new timestamp");
        }
    }

    fn truncate(&mut self) {
        let ticket = self.db().truncate(self.table, None).expect("a table");
        let ts = ticket.ts().0;
        ticket.wait().expect("a sound disk");
        if self.model.table(self.table.0).next().is_some() {
            self.model.truncate(self.table.0, ts);
        }
    }

    fn get(&mut self, input: &mut Input<'_>) {
        let (pk, rk) = (key(input), key(input));
        let found = self.db().get(self.table, &pk, &rk, Reach::Disk).expect("a sound disk");
        let found = found.map(|row| Stored {
            ts: row.ts.0,
            value: row.value.to_vec(),
            expires: end_of(row.expires),
        });
        assert_eq!(found.as_ref(), self.model.get(self.table.0, &pk, &rk), "{pk:?} {rk:?}");
    }

    fn scan(&mut self, input: &mut Input<'_>) {
        let snapshot = RowStore::snapshot(self.db()).expect("a snapshot");
        compare(&*snapshot, &self.model, self.table, input);
    }

    fn take_snapshot(&mut self, input: &mut Input<'_>) {
        let snapshot = RowStore::snapshot(self.db()).expect("a snapshot");
        if self.snapshots.len() >= 3 {
            self.snapshots.remove(input.below(3));
        }
        self.snapshots.push((snapshot, self.model.clone()));
    }

    fn read_snapshot(&mut self, input: &mut Input<'_>) {
        if let Some((snapshot, model)) = self.snapshots.get(input.below(3)) {
            compare(&**snapshot, model, self.table, input);
        }
    }

    fn reopen(&mut self, killed: bool) {
        self.snapshots.clear();
        if killed {
            self.disk.kill();
        } else {
            self.db().close().expect("a sound disk");
        }
        self.db = None;
        self.open();
    }

    fn compare_all(&mut self) {
        let snapshot = RowStore::snapshot(self.db()).expect("a snapshot");
        compare(&*snapshot, &self.model, self.table, &mut Input::new(&[]));
    }
}

/// Keys that meet often: empty, one of a few letters, or any bytes.
fn key(input: &mut Input<'_>) -> Vec<u8> {
    match input.byte() {
        0 => Vec::new(),
        byte @ 1..=199 => vec![b"abc\0\xff"[usize::from(byte) % 5]; 1 + usize::from(byte) % 3],
        byte => input.take(usize::from(byte) % 12).to_vec(),
    }
}

type Rows = Vec<(Vec<u8>, Stored)>;

/// A range of the snapshot is that of the model, from both ends, and a seek lands where it should.
fn compare(snapshot: &dyn RowSnapshot, model: &Oracle, table: TableId, input: &mut Input<'_>) {
    let (from, to, ask) = ((key(input), key(input)), (key(input), key(input)), input.byte());
    let from = bound(&from, ask & 3);
    let to = bound(&to, ask >> 2 & 3);
    let expected: Rows = model
        .between(table.0, from, to)
        .map(|(place, stored)| (encoded(place), stored.clone()))
        .collect();
    let range = KeyRange::between(table, from, to);
    let cursor = || snapshot.scan(range.clone()).expect("a sound disk");
    let forward = rows(&mut *cursor(), true);
    assert_eq!(forward, expected, "forward {from:?} to {to:?}");
    let mut backward = rows(&mut *cursor(), false);
    backward.reverse();
    assert_eq!(backward, expected, "backward {from:?} to {to:?}");
    let wanted = order::row_key(table, &key(input), &key(input));
    if wanted >= range.start {
        let mut cursor = cursor();
        let found = cursor.seek(&wanted).expect("a sound disk").then(|| cursor.key().to_vec());
        let first = expected.iter().map(|(key, _)| key).find(|key| **key >= wanted);
        assert_eq!(found.as_ref(), first, "seek {wanted:?}");
    }
}

fn bound(key: &(Vec<u8>, Vec<u8>), choice: u8) -> Bound<(&[u8], &[u8])> {
    let key = (key.0.as_slice(), key.1.as_slice());
    match choice {
        1 => Bound::Included(key),
        2 => Bound::Excluded(key),
        _ => Bound::Unbounded,
    }
}

fn encoded(place: &Place) -> Vec<u8> {
    order::row_key(TableId(place.table), &place.pk, &place.rk)
}

/// When a row is gone, as the model says it.
fn end_of(expires: Option<CommitTs>) -> u64 {
    expires.map_or(u64::MAX, |expires| expires.0)
}

fn rows(cursor: &mut dyn RowCursor, forward: bool) -> Rows {
    let mut rows = Vec::new();
    while if forward { cursor.next() } else { cursor.prev() }.expect("a sound disk") {
        let value = cursor.value().expect("a sound disk").to_vec();
        let expires = end_of(cursor.expires().expect("a sound disk"));
        rows.push((cursor.key().to_vec(), Stored { ts: cursor.ts().0, value, expires }));
    }
    rows
}
