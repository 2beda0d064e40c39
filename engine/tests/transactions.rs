//! Transactions over one partition, and batches of every size, as a user meets them.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tabulith::env::clock::ManualClock;
use tabulith::env::jobs::ByHand;
use tabulith::options::Advanced;
use tabulith::vfs::mem::{Profile, SimFs};
use tabulith::{Db, Error, Kind, Options, Partition, Transaction};

fn partition() -> (tempfile::TempDir, Db, Partition) {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap();
    let partition = db.table("rows").unwrap().partition("p");
    (dir, db, partition)
}

fn rows(tx: &mut Transaction) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let all = tx.scan::<&str>(..).unwrap();
    all.iter().map(|(rk, row)| (text(rk), text(&row.value))).collect()
}

fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(rk, value)| (rk.to_string(), value.to_string())).collect()
}

#[test]
fn a_transaction_sees_its_own_writes_and_nobody_else_does() {
    let (_dir, _db, partition) = partition();
    partition.batch().upsert("a", "1").upsert("c", "3").commit().unwrap();
    let mut tx = partition.begin().unwrap();
    tx.put("b", "2").unwrap();
    tx.put("c", "33").unwrap();
    tx.delete("a").unwrap();
    assert_eq!(rows(&mut tx), pairs(&[("b", "2"), ("c", "33")]));
    assert_eq!(tx.scan("b".."c").unwrap().len(), 1);
    assert!(tx.get("a").unwrap().is_none());
    assert_eq!(tx.get("b").unwrap().unwrap().value, "2");
    assert_eq!(partition.get("c").unwrap().unwrap().value, "3");
    let ts = tx.commit().unwrap();
    assert_eq!(partition.get("c").unwrap().unwrap().ts, ts);
    assert!(partition.get("a").unwrap().is_none());
}

#[test]
fn a_savepoint_brings_the_writes_back_and_belongs_to_one_transaction() {
    let (_dir, _db, partition) = partition();
    let mut tx = partition.begin().unwrap();
    tx.put("a", "1").unwrap();
    let first = tx.savepoint();
    tx.put("a", "2").unwrap();
    tx.put("b", "2").unwrap();
    let second = tx.savepoint();
    tx.delete("a").unwrap();
    assert_eq!(rows(&mut tx), pairs(&[("b", "2")]));
    tx.rollback_to(second).unwrap();
    assert_eq!(rows(&mut tx), pairs(&[("a", "2"), ("b", "2")]));
    tx.rollback_to(first).unwrap();
    tx.put("c", "3").unwrap();
    assert_eq!(tx.rollback_to(second).unwrap_err().kind(), Kind::Invalid);
    tx.rollback_to(first).unwrap();
    tx.put("d", "4").unwrap();
    tx.commit().unwrap();
    let mut tx = partition.begin().unwrap();
    assert_eq!(rows(&mut tx), pairs(&[("a", "1"), ("d", "4")]));
    assert_eq!(tx.rollback_to(first).unwrap_err().kind(), Kind::Invalid);
    let _own = tx.savepoint();
    tx.put("e", "5").unwrap();
    let foreign = partition.begin().unwrap().savepoint();
    assert_eq!(tx.rollback_to(foreign).unwrap_err().kind(), Kind::Invalid);
    assert_eq!(rows(&mut tx), pairs(&[("a", "1"), ("d", "4"), ("e", "5")]));
}

/// Begins, reads with `read`, lets `other` commit, then writes something else and commits.
fn meet(
    partition: &Partition,
    read: impl Fn(&mut Transaction),
    other: impl Fn(&Partition),
) -> Result<(), Error> {
    let mut tx = partition.begin().unwrap();
    read(&mut tx);
    other(partition);
    tx.put("mine", "x").unwrap();
    tx.commit().map(|_| ())
}

#[test]
fn a_commit_fails_where_anything_it_read_has_changed_and_only_there() {
    let (_dir, _db, partition) = partition();
    let reset = |partition: &Partition| {
        let batch = partition.batch().upsert("a", "1").upsert("m", "2").delete("gap");
        batch.delete("mine").commit().unwrap();
    };
    let get = |rk: &'static str| move |tx: &mut Transaction| drop(tx.get(rk).unwrap());
    let scan = |tx: &mut Transaction| drop(tx.scan("b".."n").unwrap());
    let put = |rk: &'static str| {
        move |p: &Partition| {
            p.batch().upsert(rk, "9").commit().unwrap();
        }
    };
    let delete = |rk: &'static str| {
        move |p: &Partition| {
            p.batch().delete(rk).commit().unwrap();
        }
    };
    let swap = |p: &Partition| {
        p.batch().delete("m").upsert("gap", "").commit().unwrap();
    };
    type Read = Box<dyn Fn(&mut Transaction)>;
    type Other = Box<dyn Fn(&Partition)>;
    let cases: Vec<(&str, Read, Other, bool)> = vec![
        ("replaced", Box::new(get("a")), Box::new(put("a")), true),
        ("removed", Box::new(get("a")), Box::new(delete("a")), true),
        ("came", Box::new(get("gap")), Box::new(put("gap")), true),
        ("another row", Box::new(get("a")), Box::new(put("m")), false),
        ("absent still", Box::new(get("gap")), Box::new(put("m")), false),
        ("in the range", Box::new(scan), Box::new(put("gap")), true),
        ("replaced in the range", Box::new(scan), Box::new(put("m")), true),
        ("removed from the range", Box::new(scan), Box::new(delete("m")), true),
        ("as many in the range", Box::new(scan), Box::new(swap), true),
        ("beside the range", Box::new(scan), Box::new(put("a")), false),
        ("blind", Box::new(|_| {}), Box::new(put("mine")), false),
    ];
    let told = |name| match name {
        "replaced" | "removed" => "row 'a' is not as it was read",
        "replaced in the range" => "row 'm' is not as it was read",
        "removed from the range" => "1 of the rows that were read from row 'b' on are gone",
        _ => "row 'gap' is not as it was read",
    };
    for (name, read, other, conflicts) in cases {
        reset(&partition);
        let outcome = meet(&partition, read, other);
        assert_eq!(outcome.as_ref().is_err_and(|e| e.kind() == Kind::Changed), conflicts, "{name}");
        assert!(outcome.is_ok() || outcome.is_err_and(|e| e.message() == told(name)), "{name}");
        let written = partition.get("mine").unwrap().is_some_and(|row| row.value == "x");
        assert_eq!(written, !conflicts, "{name}");
    }
}

#[test]
fn a_conflict_is_seen_through_flush_compaction_and_other_partitions() {
    let (_dir, db, partition) = partition();
    partition.batch().upsert("a", "1").commit().unwrap();
    let mut reader = partition.begin().unwrap();
    let mut writer = partition.begin().unwrap();
    assert!(reader.get("a").unwrap().is_some() && writer.get("a").unwrap().is_some());
    partition.batch().upsert("a", "2").commit().unwrap();
    db.compact().unwrap();
    assert_eq!(reader.get("a").unwrap().unwrap().value, "1", "one moment, kept while it lives");
    reader.commit().unwrap();
    writer.put("b", "").unwrap();
    assert_eq!(writer.commit().unwrap_err().kind(), Kind::Changed);
}

fn number(tx: &mut Transaction, rk: &str) -> Result<u64, Error> {
    let row = tx.get(rk)?;
    Ok(row.map_or(0, |row| u64::from_le_bytes(row.value.as_ref().try_into().unwrap())))
}

#[test]
fn transfers_by_four_threads_lose_nothing_and_skew_nothing() {
    const ACCOUNTS: u64 = 5;
    const START: u64 = 100;
    let (_dir, _db, partition) = partition();
    partition
        .transact(|tx| (0..ACCOUNTS).try_for_each(|n| tx.put(n.to_string(), START.to_le_bytes())))
        .unwrap();
    let (done, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (partition, done, refused) = (&partition, &done, &refused);
            scope.spawn(move || {
                for n in 0..150u64 {
                    let (from, to) = ((thread + n) % ACCOUNTS, (thread + 3 * n + 1) % ACCOUNTS);
                    let moved = partition.transact(|tx| {
                        let (from, to) = (from.to_string(), to.to_string());
                        let have = number(tx, &from)?;
                        if from == to || have < 40 {
                            return Ok(false);
                        }
                        tx.put(&from, (have - 40).to_le_bytes())?;
                        let there = number(tx, &to)?;
                        tx.put(&to, (there + 40).to_le_bytes())?;
                        Ok(true)
                    });
                    let counter = if moved.unwrap() { done } else { refused };
                    counter.fetch_add(1, Ordering::Relaxed);
                    // All that anybody can read at one moment adds up.
                    let mut tx = partition.begin().unwrap();
                    let all = (0..ACCOUNTS).map(|n| number(&mut tx, &n.to_string()).unwrap());
                    assert_eq!(all.sum::<u64>(), ACCOUNTS * START);
                }
            });
        }
    });
    assert!(done.into_inner() > 100);
}

/// Write skew: each of two may go off call if another stays. Snapshot isolation would let both go.
#[test]
fn of_two_that_read_what_the_other_writes_one_starts_again() {
    let (_dir, _db, partition) = partition();
    for round in 0..200 {
        partition.batch().upsert("ann", "on").upsert("bob", "on").commit().unwrap();
        std::thread::scope(|scope| {
            for me in ["ann", "bob"] {
                let partition = &partition;
                scope.spawn(move || {
                    let leave = |tx: &mut Transaction| {
                        let on = match round % 2 {
                            0 => {
                                tx.scan::<&str>(..)?.iter().filter(|(_, r)| r.value == "on").count()
                            }
                            _ => ["ann", "bob"].iter().try_fold(0, |on, name| {
                                let row = tx.get(name)?;
                                Ok::<_, Error>(on + usize::from(row.unwrap().value == "on"))
                            })?,
                        };
                        if on > 1 { tx.put(me, "off") } else { Ok(()) }
                    };
                    partition.transact(leave).unwrap();
                });
            }
        });
        let mut tx = partition.begin().unwrap();
        let on = rows(&mut tx).iter().filter(|(_, value)| value == "on").count();
        assert_eq!(on, 1, "round {round}");
    }
}

#[test]
fn a_refusal_of_the_work_comes_out_and_nothing_is_written() {
    let (_dir, _db, partition) = partition();
    let error = partition.transact::<()>(|tx| {
        tx.put("a", "1")?;
        tx.put("k".repeat(5000), "too long")
    });
    assert_eq!(error.unwrap_err().kind(), Kind::Invalid);
    assert!(partition.get("a").unwrap().is_none());
}

/// A batch of more than ten memtables: whole after every crash, and visible in one piece.
#[test]
fn a_batch_larger_than_the_memtable_is_atomic_through_flush_and_crash() {
    let advanced = Advanced {
        memtable_bytes: Some(4 << 10),
        wal_segment_bytes: 16 << 10,
        file_bytes: 4 << 10,
        level_base_bytes: 4 << 10,
        block_bytes: 256,
        l0_compact_files: 2,
        ..Advanced::default()
    };
    let options = Options { advanced, ..Options::default() };
    let disk = SimFs::new();
    let open = |disk: &SimFs| {
        let clock = Arc::new(ManualClock::at(16_950_000_000_000_000));
        let builder = Db::builder().options(options.clone());
        builder.parts(Arc::new(disk.clone()), clock, Arc::new(ByHand)).open("/db").unwrap()
    };
    let db = open(&disk);
    let partition = db.table("rows").unwrap().partition("p");
    partition.batch().upsert("before", "1").commit().unwrap();
    let trace = disk.record();
    const ROWS: u32 = 500;
    let large = |version: u8| {
        (0..ROWS).fold(partition.batch(), |batch, n| batch.upsert(n.to_be_bytes(), [version; 100]))
    };
    for version in 1..=3 {
        large(version).commit().unwrap();
        trace.mark(version.into());
        db.settle().unwrap();
    }
    let stats = db.stats();
    assert!(stats.flushes >= 3 && stats.memtable_bytes == 0, "{stats:?}");
    let mut states = 0;
    for n in 0..=trace.len() {
        let promised = trace.marks(n).into_iter().max().unwrap_or(0);
        for state in trace.at(n).unwrap().crash_states(Profile::Hostile, 3, n as u64) {
            let disk = SimFs::after_crash(&state);
            let db = open(&disk);
            let partition = db.table("rows").unwrap().partition("p");
            let all: Vec<_> = partition.scan::<&str>(..).unwrap().map(Result::unwrap).collect();
            let version = all.first().map_or(0, |row| row.value[0]);
            let (count, version) = if all.len() == 1 { (0, 0) } else { (ROWS, version) };
            assert_eq!(all.len() as u32, count + 1, "effect {n}");
            assert!(all[..count as usize].iter().all(|row| row.value[..] == [version; 100]));
            assert!(u64::from(version) >= promised, "effect {n}: {version} after {promised}");
            states += 1;
        }
    }
    assert!(states > 100, "{states}");
}

/// The largest commit there is, in a memtable a two-thousandth of its size.
#[test]
fn the_largest_batch_works_and_one_byte_more_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let advanced = Advanced {
        memtable_bytes: Some(64 << 10),
        wal_segment_bytes: 1 << 20,
        ..Advanced::default()
    };
    let db = Db::builder().options(Options { advanced, ..Options::default() });
    let db = db.open(dir.path()).unwrap();
    let partition = db.table("rows").unwrap().partition("p");
    let value = vec![7; 1 << 20];
    let batch =
        |rows: u32| (0..rows).fold(partition.batch(), |b, n| b.upsert(n.to_be_bytes(), &value));
    batch(127).commit().unwrap();
    assert_eq!(batch(128).commit().unwrap_err().kind(), Kind::Invalid);
    partition.batch().upsert("more", "").commit().unwrap();
    db.close().unwrap();
    drop((partition, db));
    let db = Db::open(dir.path()).unwrap();
    let partition = db.table("rows").unwrap().partition("p");
    let rows = partition.scan::<&str>(..).unwrap().map(Result::unwrap);
    assert_eq!(rows.filter(|row| row.value == value).count(), 127);
}
