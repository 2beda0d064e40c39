//! What background work is due without anybody's asking, which threads do it, and how many.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
#![allow(clippy::disallowed_methods, reason = "tests look at real files and run real threads")]

use std::sync::{Arc, mpsc};
use std::time::Duration;
use tabulith::env::clock::ManualClock;
use tabulith::env::jobs::ByHand;
use tabulith::event::{Compaction, Event};
use tabulith::vfs::fault::{Call, FaultFs, Rule};
use tabulith::vfs::mem::SimFs;
use tabulith::{Advanced, Compression, Db, Options, Table};

fn by_hand(advanced: Advanced, threads: usize) -> Db {
    let options = Options { threads: Some(threads), advanced, ..Options::default() };
    let clock = Arc::new(ManualClock::at(16_950_000_000_000_000));
    let builder = Db::builder().options(options);
    builder.parts(Arc::new(SimFs::new()), clock, Arc::new(ByHand)).open("db").unwrap()
}

fn write(table: &Table, rows: std::ops::Range<u32>) {
    for row in rows {
        let batch = table.partition("p").batch().upsert(format!("{row:06}"), [7; 100]);
        drop(batch.commit_async());
    }
}

fn finish_steps(db: &Db) {
    while db.step().unwrap() {}
}

/// A file of level 0 above one that is merged: too little for a merge that is due, and reads would
/// look at both for ever.
fn one_file_above_another(db: &Db) {
    let table = db.table("t").unwrap();
    write(&table, 0..150);
    db.compact().unwrap();
    write(&table, 100..250);
    db.flush().unwrap();
}

#[test]
fn a_database_at_rest_merges_what_is_not_due_and_its_threads_stand_back() {
    let db = by_hand(Advanced::default(), 1);
    one_file_above_another(&db);
    finish_steps(&db);
    assert_eq!(db.stats().levels[0].0, 1, "no merge is due");
    while db.step_at_rest().unwrap() {}
    assert_eq!(db.stats().levels[0].0, 0, "one that can wait for rest is done");
    assert_eq!(db.table("t").unwrap().count().unwrap(), 250);

    let (db, merges, _folder) = with_threads(Advanced::default(), "tabulith-compact", |event| {
        matches!(event, Event::CompactionEnd { what: Compaction::Merged, .. })
    });
    one_file_above_another(&db);
    let nice = merges.recv_timeout(Duration::from_secs(60)).expect("a merge while nobody works");
    assert_eq!(db.table("t").unwrap().count().unwrap(), 250);
    assert!(nice.is_none_or(|nice| nice >= 10), "{nice:?}");
}

/// A database with threads of its own that sends a thread's nice value, where the system tells it,
/// at each event that is `wanted` of the thread called so.
fn with_threads(
    advanced: Advanced,
    thread: &'static str,
    wanted: impl Fn(&Event) -> bool + Send + Sync + 'static,
) -> (Db, mpsc::Receiver<Option<i32>>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let (told, seen) = mpsc::channel();
    let on_event = move |event: &Event| {
        if wanted(event) && std::thread::current().name() == Some(thread) {
            let _ = told.send(nice_of_this_thread());
        }
    };
    let options = Options { advanced, ..Options::default() };
    let db = Db::builder().options(options).on_event(on_event).open(folder.path()).unwrap();
    (db, seen, folder)
}

fn nice_of_this_thread() -> Option<i32> {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").ok()?; // Not there but on Linux.
    // Fields of proc(5) behind the name, which ends with the last parenthesis; the nice value is
    // the 19th.
    let (_, fields) = stat.rsplit_once(')').unwrap();
    Some(fields.split_whitespace().nth(16).unwrap().parse().unwrap())
}

#[test]
fn flushes_stand_back_less_than_merges_since_commits_wait_for_them() {
    let advanced = Advanced { memtable_bytes: Some(64 << 10), ..Advanced::default() };
    let (db, flushes, _folder) =
        with_threads(advanced, "tabulith-flush", |event| matches!(event, Event::FlushEnd { .. }));
    write(&db.table("t").unwrap(), 0..3_000);
    let nice = flushes.recv_timeout(Duration::from_secs(60)).expect("a flush of a full memtable");
    assert!(nice.is_none_or(|nice| (1..10).contains(&nice)), "{nice:?}");
}

#[test]
fn a_merge_that_nobody_waits_for_is_done_by_one_thread() {
    let advanced = Advanced {
        memtable_bytes: Some(64 << 10),
        file_bytes: 16 << 10,
        level_base_bytes: 64 << 10,
        ..Advanced::default()
    };
    let db = by_hand(advanced, 4);
    let table = db.table("t").unwrap();
    for round in 0..8 {
        write(&table, round * 300..round * 300 + 600);
        db.flush().unwrap();
        finish_steps(&db);
    }
    let alone = db.stats();
    assert!(alone.compactions > 0 && alone.compaction_parts == alone.compactions, "{alone:?}");
    write(&table, 0..3_000);
    db.compact().unwrap();
    let awaited = db.stats();
    let (merges, parts) = (
        awaited.compactions - alone.compactions,
        awaited.compaction_parts - alone.compaction_parts,
    );
    assert!(parts > merges, "{parts} parts of {merges} merges");
}

#[test]
fn a_merge_that_commits_will_soon_be_slowed_for_is_divided() {
    let advanced = Advanced {
        memtable_bytes: Some(64 << 10),
        file_bytes: 16 << 10,
        level_base_bytes: 1 << 20,
        ..Advanced::default()
    };
    let slow = advanced.l0_slow_files;
    let db = by_hand(advanced, 4);
    let table = db.table("t").unwrap();
    while db.stats().levels[0].0 + 1 < slow {
        write(&table, 0..300);
        db.flush().unwrap();
    }
    let before = db.stats();
    while db.stats().compactions == before.compactions {
        assert!(db.step().unwrap(), "a merge is due");
    }
    let after = db.stats();
    assert_eq!(after.stalls, before.stalls, "nobody was slowed yet");
    assert!(after.compaction_parts > before.compaction_parts + 1, "{after:?}");
}

/// So a commit that pauses by the files of L0 pauses by what all levels owe.
#[test]
fn a_deeper_level_that_is_further_behind_keeps_merges_from_level_0() {
    let disk = Arc::new(SimFs::new());
    let open = |memtable_bytes, level_base_bytes| {
        let advanced = Advanced {
            memtable_bytes: Some(memtable_bytes),
            level_base_bytes,
            file_bytes: 16 << 10,
            compression: Compression::NONE,
            ..Advanced::default()
        };
        let options = Options { advanced, ..Options::default() };
        let parts = (disk.clone(), Arc::new(ManualClock::at(16_950_000_000_000_000)));
        let builder = Db::builder().options(options);
        builder.parts(parts.0, parts.1, Arc::new(ByHand)).open("db").unwrap()
    };
    let db = open(1 << 20, 4 << 20);
    write(&db.table("t").unwrap(), 0..5_000);
    db.compact().unwrap();
    db.close().unwrap();
    drop(db);
    let db = open(16 << 10, 16 << 10); // Level 1 is now many times of what it should be.
    let table = db.table("t").unwrap();
    let levels = || db.stats().levels;
    while levels()[0].0 < 6 {
        write(&table, 0..20);
        db.flush().unwrap();
    }
    let (files, owed) = (levels()[0].0, db.stats().compaction_debt_bytes);
    let mut steps = 0;
    while levels()[0].0 == files {
        assert!(db.step().unwrap(), "level 0 is due");
        steps += 1;
    }
    let left = db.stats().compaction_debt_bytes;
    assert!(steps > 5 && left * 3 < owed, "{steps} steps, {left} of {owed} bytes still owed");
}

/// Commits a row and flushes it whenever a merge makes a file, as somebody does who never stops.
fn keep_flushing(db: &Db, disk: &FaultFs, left: u32) {
    let (db, here) = (db.clone(), disk.clone());
    disk.interrupt(Rule::fail(Call::Create).named("*.sst"), move || {
        write(&db.table("t").unwrap(), left..left + 1);
        db.flush().unwrap();
        if left > 0 {
            keep_flushing(&db, &here, left - 1);
        }
    });
}

#[test]
fn a_whole_compaction_ends_though_others_go_on_writing() {
    let disk = FaultFs::new(Arc::new(SimFs::new()));
    let clock = Arc::new(ManualClock::at(16_950_000_000_000_000));
    let parts = Db::builder().parts(Arc::new(disk.clone()), clock, Arc::new(ByHand));
    let db = parts.open("db").unwrap();
    let table = db.table("t").unwrap();
    write(&table, 0..100);
    db.compact().unwrap();
    write(&table, 50..150);
    db.flush().unwrap();
    keep_flushing(&db, &disk, 60);
    let before = db.stats().compactions;
    db.compact().unwrap();
    let jobs = db.stats().compactions - before;
    assert!(jobs <= 7, "{jobs} merges, one for each that came meanwhile");
    assert_eq!(table.count().unwrap(), 150);
}
