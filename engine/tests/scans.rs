//! Scans through the public API: what they hold on to while they are open.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::path::Path;
use std::sync::Arc;
use tabulith::db::Db;
use tabulith::env::clock::ManualClock;
use tabulith::env::jobs::ByHand;
use tabulith::options::{Advanced, Options};
use tabulith::vfs::api::Vfs;
use tabulith::vfs::mem::SimFs;

const ROWS: usize = 2000;

/// A database with small files on a disk in memory, whose background work is done by hand.
fn open(disk: &SimFs) -> Db {
    let advanced = Advanced {
        memtable_bytes: 16 << 10,
        block_bytes: 512,
        file_bytes: 8 << 10,
        ..Advanced::default()
    };
    let options = Options { advanced, ..Options::default() };
    let clock = Arc::new(ManualClock::at(17_672_256_000_000_000));
    let parts = (Arc::new(disk.clone()), clock, Arc::new(ByHand));
    Db::builder().options(options).parts(parts.0, parts.1, parts.2).open("db").unwrap()
}

fn write_all(db: &Db, value: &str) {
    let table = db.table("t").unwrap();
    for first in (0..ROWS).step_by(50) {
        let mut batch = table.partition("p").batch();
        for row in first..first + 50 {
            batch = batch.upsert(format!("{row:06}"), value);
        }
        batch.commit().unwrap();
    }
}

fn table_files(disk: &SimFs) -> usize {
    let names = disk.list(Path::new("db")).unwrap();
    names.iter().filter(|name| name.ends_with(".sst")).count()
}

#[test]
fn an_open_scan_lets_go_of_files_that_were_replaced() {
    let disk = SimFs::new();
    let db = open(&disk);
    write_all(&db, "old");
    db.compact().unwrap();
    let mut scan = db.table("t").unwrap().scan::<&str, &str>(..).unwrap();
    for row in 0..ROWS / 2 {
        let found = scan.next().unwrap().unwrap();
        assert_eq!(
            (&found.row_key[..], &found.value[..]),
            (format!("{row:06}").as_bytes(), &b"old"[..])
        );
        if row % 200 == 100 {
            write_all(&db, &format!("new-{row}"));
            db.compact().unwrap();
        }
    }
    // The other end of the same scan opens now, and sees the same moment.
    let last = scan.next_back().unwrap().unwrap();
    assert_eq!((&last.row_key[..], &last.value[..]), (&b"001999"[..], &b"old"[..]));
    while db.step().unwrap() {}
    let live: usize = db.stats().levels.iter().map(|(files, _)| files).sum();
    let on_disk = table_files(&disk);
    assert!(live > 5, "one file would prove nothing: {live}");
    assert!(on_disk <= live + 1, "{on_disk} files on disk, {live} in use");
    assert_eq!(scan.count(), ROWS / 2 - 1, "the rest of the rows as they were");
}
