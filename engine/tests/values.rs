//! Large values: they come back from blob files in every way of reading, and what overwrites and
//! deletes leave of them is reclaimed.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::path::Path;
use std::sync::Arc;
use tabulith::env::clock::ManualClock;
use tabulith::env::jobs::ByHand;
use tabulith::options::{Advanced, Compression, Options, Reach};
use tabulith::rows::{Catalog, RowStore};
use tabulith::vfs::api::{Access, Vfs};
use tabulith::vfs::fault::{Call, FaultFs};
use tabulith::vfs::mem::SimFs;
use tabulith::{Db, Entity, If, IfMatch, Kind, Table, verify};
use tabulith_testkit::seed::Rng;

const DIR: &str = "db";
const VALUE_BYTES: usize = 64 << 10;

fn options() -> Options {
    let advanced = Advanced {
        memtable_bytes: Some(1 << 20),
        wal_segment_bytes: 4 << 20,
        blob_file_bytes: 1 << 20,
        ..Advanced::default()
    };
    Options { advanced, ..Options::default() }
}

fn open(disk: &SimFs, options: Options) -> Db {
    let clock = Arc::new(ManualClock::at(16_000_000_000_000_000));
    let builder = Db::builder().options(options);
    builder.parts(Arc::new(disk.clone()), clock, Arc::new(ByHand)).open(DIR).unwrap()
}

fn value(n: u64) -> Vec<u8> {
    Rng::new(n).bytes(VALUE_BYTES)
}

fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

/// Bytes of all files with that ending.
fn bytes_of(disk: &SimFs, ending: &str) -> u64 {
    let names = disk.list(Path::new(DIR)).unwrap();
    let files = names.iter().filter(|name| name.ends_with(ending));
    let len = |name| disk.open(&Path::new(DIR).join(name), Access::Read).unwrap().len().unwrap();
    files.map(len).sum()
}

fn assert_sound(disk: &SimFs) {
    let report = verify::check_with(Arc::new(disk.clone()), Path::new(DIR)).unwrap();
    assert!(report.is_clean(), "{:?}", report.damage);
    assert!(report.notes.is_empty(), "{:?}", report.notes);
}

#[test]
fn every_way_of_reading_gives_the_value() {
    let disk = SimFs::new();
    let db = open(&disk, options());
    let rows = db.table("rows").unwrap();
    for n in 0..20 {
        rows.upsert("p", key(n), value(n)).unwrap();
    }
    let ts = rows.get("p", key(7)).unwrap().unwrap().ts;
    db.flush().unwrap();
    let stats = db.stats();
    assert_eq!(stats.blob_live_bytes, 20 * (VALUE_BYTES as u64 + 16));
    assert!(stats.levels.iter().map(|(_, bytes)| bytes).sum::<u64>() < 8 << 10);

    let all = |table: &Table| {
        let both = || table.scan::<&[u8], &[u8]>(..).unwrap();
        let forward: Vec<_> = both().map(|row| row.unwrap().value).collect();
        let mut back: Vec<_> = both().rev().map(|row| row.unwrap().value).collect();
        back.reverse();
        assert!(forward == back);
        forward
    };
    assert!(all(&rows) == (0..20).map(value).collect::<Vec<_>>());
    let changed = rows.replace("p", key(7), value(100), If::Match(ts)).unwrap();
    let refused = rows.replace("p", key(7), "x", If::Match(ts)).unwrap_err();
    assert_eq!((refused.kind(), refused.current()), (Kind::Changed, Some(changed)));

    db.checkpoint("copy").unwrap();
    db.close().unwrap();
    assert_sound(&disk);
    let read_only = open(&disk, Options { read_only: true, ..options() });
    assert!(all(&read_only.table("rows").unwrap())[7] == value(100));
    let clock = Arc::new(ManualClock::at(16_000_000_000_000_000));
    let copy = Db::builder().parts(Arc::new(disk.clone()), clock, Arc::new(ByHand));
    assert!(all(&copy.open("copy").unwrap().table("rows").unwrap())[19] == value(19));
}

#[test]
fn memory_alone_answers_once_the_value_was_read() {
    let disk = SimFs::new();
    let db = open(&disk, options());
    let rows = db.table("rows").unwrap();
    rows.upsert("p", "r", value(1)).unwrap();
    db.flush().unwrap();
    let id = Catalog::tables(&db, "", None, 1).unwrap()[0].id;
    let from_memory = || RowStore::get(&db, id, b"p", b"r", Reach::Memory);
    assert_eq!(from_memory().unwrap_err().kind(), Kind::WouldBlock);
    assert!(rows.get("p", "r").unwrap().unwrap().value == value(1));
    assert!(from_memory().unwrap().unwrap().value == value(1));
}

#[test]
fn what_is_replaced_or_removed_is_not_read() {
    let disk = FaultFs::new(Arc::new(SimFs::new()));
    let open = || {
        let clock = Arc::new(ManualClock::at(16_000_000_000_000_000));
        let builder = Db::builder().options(options());
        builder.parts(Arc::new(disk.clone()), clock, Arc::new(ByHand)).open(DIR).unwrap()
    };
    let db = open();
    let (rows, entities) = (db.table("rows").unwrap(), db.entities("entities").unwrap());
    let entity = |rk: &str, n| Entity::new("p", rk).with("V", value(n));
    let ts = rows.upsert("p", key(1), value(1)).unwrap();
    rows.upsert("p", key(2), value(2)).unwrap();
    entities.insert(entity("a", 3)).unwrap();
    entities.insert(entity("b", 4)).unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let db = open();
    let (rows, entities) = (db.table("rows").unwrap(), db.entities("entities").unwrap());
    let reads = || disk.counts().get(&(Call::Read, "#.blob".to_owned())).copied();
    let before = reads();
    rows.replace("p", key(1), value(5), If::Match(ts)).unwrap();
    rows.partition("p").batch().delete_if(key(2), If::Present).commit().unwrap();
    entities.replace(entity("a", 6), IfMatch::Any).unwrap();
    entities.delete("p", "b", IfMatch::Any).unwrap();
    assert_eq!(reads(), before);
    assert!(rows.get("p", key(1)).unwrap().unwrap().value == value(5));
    assert_eq!((rows.count().unwrap(), entities.count().unwrap()), (1, 1));
}

#[test]
fn in_place_a_value_is_lent_after_its_checksum_held() {
    let advanced = Advanced { mapped: true, compression: Compression::NONE, ..options().advanced };
    let options = Options { advanced, ..options() };
    let disk = SimFs::new();
    let db = open(&disk, options.clone());
    let rows = db.table("rows").unwrap();
    for n in 0..20 {
        rows.upsert("p", key(n), value(n)).unwrap();
    }
    db.flush().unwrap();
    let place = |rows: &Table, n| rows.get("p", key(n)).unwrap().unwrap().value;
    for n in 0..20 {
        assert!(place(&rows, n) == value(n));
        assert_eq!(place(&rows, n).as_ptr(), place(&rows, n).as_ptr(), "no copy of {n}");
    }
    // It stays as long as somebody keeps it, whatever becomes of its file.
    let kept = place(&rows, 7);
    rows.truncate().unwrap();
    db.compact().unwrap();
    assert_eq!(bytes_of(&disk, ".blob"), 0);
    assert!(kept == value(7));

    rows.upsert("p", "bad", value(1)).unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let names = disk.list(Path::new(DIR)).unwrap();
    let blob = names.iter().find(|name| name.ends_with(".blob")).unwrap();
    let file = disk.open(&Path::new(DIR).join(blob), Access::ReadWrite).unwrap();
    file.write_all_at(b"other bytes", 30_000).unwrap();
    let db = open(&disk, options);
    let error = db.table("rows").unwrap().get("p", "bad").unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    assert!(error.to_string().contains(".blob"), "{error}");
}

#[test]
fn overwritten_values_take_less_than_the_live_ones_once_settled() {
    let disk = SimFs::new();
    let db = open(&disk, options());
    let rows = db.table("rows").unwrap();
    let (live, mut rng) = (64, Rng::new(3));
    for n in 0..live {
        rows.upsert("p", key(n), value(n)).unwrap();
    }
    // In random order, so that no blob file dies whole.
    for n in live..live * 8 {
        rows.upsert("p", key(rng.below(live as usize) as u64), value(n)).unwrap();
    }
    db.flush().unwrap();
    db.settle().unwrap();
    let (live_bytes, taken) = (live * VALUE_BYTES as u64, bytes_of(&disk, ".blob"));
    assert_eq!(db.stats().blob_bytes, taken);
    assert!(taken < 2 * live_bytes, "{taken} bytes for {live_bytes}");
    db.close().unwrap();
    assert_sound(&disk);
}

#[test]
fn nothing_is_left_of_what_was_deleted() {
    let disk = SimFs::new();
    let db = open(&disk, options());
    let rows = db.table("rows").unwrap();
    for n in 0..40 {
        rows.upsert("p", key(n), value(n)).unwrap();
    }
    db.flush().unwrap();
    let held = db.snapshot().unwrap();
    for n in 0..40 {
        rows.delete("p", key(n), If::Any).unwrap();
    }
    db.compact().unwrap();
    assert!(held.get(&rows, "p", key(39)).unwrap().unwrap().value == value(39), "it is pinned");
    drop(held);
    // What the snapshot held goes with the next merge over its keys.
    rows.upsert("p", key(0), "small").unwrap();
    rows.upsert("p", key(39), "small").unwrap();
    db.compact().unwrap();
    assert_eq!((db.stats().blob_files, bytes_of(&disk, ".blob")), (0, 0));
}

#[test]
fn a_load_in_key_order_leaves_few_files() {
    let disk = SimFs::new();
    let db = open(&disk, options());
    let rows = db.table("rows").unwrap();
    for n in 0..600 {
        rows.upsert("p", key(n), value(n % 8)).unwrap();
        while db.step().unwrap() {}
    }
    db.settle().unwrap();
    let files: usize = db.stats().levels.iter().map(|(files, _)| files).sum();
    assert!(files < 24, "{files} table files for {} bytes", db.stats().levels[1].1);
}

#[test]
fn the_largest_value_and_not_one_byte_more() {
    let disk = SimFs::new();
    let db = open(&disk, Options::default());
    let rows = db.table("rows").unwrap();
    let largest = Rng::new(9).bytes(64 << 20);
    rows.upsert("p", "r", &largest).unwrap();
    db.flush().unwrap();
    assert!(rows.get("p", "r").unwrap().unwrap().value == largest);
    let more = [&largest[..], b"."].concat();
    assert_eq!(rows.upsert("p", "r", more).unwrap_err().kind(), Kind::Invalid);
}
