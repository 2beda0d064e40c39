//! A store as large as is asked for, by `TABULITH_RESTORE_MIB`: backups while threads write to it,
//! and what each restored moment shows, row for row; and how much a backup copies after one row in
//! a hundred has changed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tabulith::backup::depot::Sharing;
use tabulith::backup::folder::{Backup, Backups, Created, Which};
use tabulith::env::clock::{Clock as _, SystemClock};
use tabulith::{CommitTs, Db, Durability, Options, Table};
use tabulith_testkit::counts::{self, count};
use tabulith_testkit::seed::{self, Replay, Rng};

const WRITERS: u64 = 4;
/// Partitions of each writer.
const PARTITIONS: u64 = 16;
const VALUE_BYTES: usize = 1000;
const BACKUPS: u64 = 6;
const MOMENTS: u64 = 20;
/// Changes that writers make beside a backup, by those from one backup to the next; then they wait
/// for it. A backup of a folder is given up where files are deleted faster than they are copied.
const AHEAD: u64 = 3;

/// Bytes of rows, where nothing else is asked for: a second's work.
const MIB: u64 = 4;

/// A row by its place in the order of the keys, and which of its values.
type RowNo = u64;

/// What a writer has done to its rows: when, to which, and the number of the new value; none where
/// it removed the row.
#[derive(Default)]
struct Deeds {
    all: Vec<(CommitTs, RowNo, Option<u32>)>,
    live: BTreeMap<RowNo, u32>,
}

/// What a row must show: when it was written, and its value's number.
type Seen = BTreeMap<RowNo, (CommitTs, u32)>;

impl Deeds {
    /// What was there at a moment.
    fn at(&self, moment: CommitTs) -> Seen {
        let mut seen = Seen::new();
        for (at, row, number) in self.all.iter().take_while(|(at, ..)| *at <= moment) {
            match number {
                Some(number) => seen.insert(*row, (*at, *number)),
                None => seen.remove(row),
            };
        }
        seen
    }
}

/// Bytes that do not compress, and are no other value's.
fn value(row: RowNo, number: u32) -> Vec<u8> {
    let mut rng = Rng::new(row << 32 | u64::from(number));
    let mut bytes = Vec::with_capacity(VALUE_BYTES + 8);
    while bytes.len() < VALUE_BYTES {
        bytes.extend_from_slice(&rng.next_u64().to_le_bytes());
    }
    bytes.truncate(VALUE_BYTES);
    bytes
}

fn keys(row: RowNo, rows: u64) -> (String, String) {
    (format!("p{:04}", row / rows), format!("r{:08}", row % rows))
}

/// Commits some rows of a partition together: `None` removes one.
fn commit(table: &Table, deeds: &mut Deeds, rows: u64, all: &[(RowNo, Option<u32>)]) {
    let (pk, _) = keys(all[0].0, rows);
    let mut batch = table.partition(pk).batch();
    for (row, number) in all {
        let (_, rk) = keys(*row, rows);
        batch = match number {
            Some(number) => batch.upsert(rk, value(*row, *number)),
            None => batch.delete(rk),
        };
    }
    let at = batch.commit().unwrap();
    for (row, number) in all {
        deeds.all.push((at, *row, *number));
        match number {
            Some(number) => deeds.live.insert(*row, *number),
            None => deeds.live.remove(row),
        };
    }
}

/// What the writers and whoever makes backups tell each other.
#[derive(Default)]
struct Pace {
    /// Changes so far.
    done: AtomicU64,
    /// How many there may be before the next backup is there.
    allowed: AtomicU64,
    stop: AtomicBool,
}

/// Fills the writer's partitions, then changes rows of them until it is told to stop.
fn write(table: &Table, (writer, rows, seed): (u64, u64, u64), pace: &Pace) -> Deeds {
    let (mut deeds, mut rng) = (Deeds::default(), Rng::new(seed ^ (writer + 1)));
    for partition in writer * PARTITIONS..(writer + 1) * PARTITIONS {
        let all: Vec<_> =
            (partition * rows..(partition + 1) * rows).map(|row| (row, Some(0))).collect();
        for some in all.chunks(100) {
            commit(table, &mut deeds, rows, some);
        }
    }
    for number in 1.. {
        let partition = writer * PARTITIONS + rng.below(PARTITIONS as usize) as u64;
        let mut some: BTreeMap<RowNo, Option<u32>> = BTreeMap::new();
        for _ in 0..rng.between(1, 10) {
            let row = partition * rows + rng.skewed_below(rows as usize) as u64;
            let goes = deeds.live.contains_key(&row) && rng.chance(20);
            some.insert(row, (!goes).then_some(number));
        }
        let some: Vec<_> = some.into_iter().collect();
        commit(table, &mut deeds, rows, &some);
        pace.done.fetch_add(1, Ordering::Release);
        while pace.done.load(Ordering::Acquire) >= pace.allowed.load(Ordering::Acquire) {
            if pace.stop.load(Ordering::Acquire) {
                return deeds;
            }
            std::thread::yield_now();
        }
    }
    deeds
}

/// Holds what a database shows against what must be there; how many rows that are.
fn hold(db: &Db, mut expected: Seen, rows: u64, told: &str) -> u64 {
    let (snapshot, mut count) = (db.snapshot().unwrap(), 0);
    let table = snapshot.table("t").unwrap_or_else(|| panic!("{told}: there is no table"));
    for row in snapshot.scan::<&str, &str>(&table, ..).unwrap() {
        let row = row.unwrap();
        let (next, (at, number)) =
            expected.pop_first().unwrap_or_else(|| panic!("{told}: a row too many: {row:?}"));
        let (pk, rk) = keys(next, rows);
        assert_eq!((&*row.partition_key, &*row.row_key), (pk.as_bytes(), rk.as_bytes()), "{told}");
        assert_eq!(row.ts, at, "{told}: {pk} {rk}");
        assert!(*row.value == *value(next, number), "{told}: {pk} {rk} is not value {number}");
        count += 1;
    }
    assert!(expected.is_empty(), "{told}: {} rows are not there", expected.len());
    count
}

/// Makes backups while writers go on; what each writer did, the backups, and how many changes were
/// made beside them.
fn live(
    db: &Db,
    data: &std::path::Path,
    backups: &Backups,
    (rows, seed): (u64, u64),
) -> (Vec<Deeds>, Vec<Backup>, u64) {
    let (table, pace) = (db.table("t").unwrap(), Pace::default());
    // A part of the rows is replaced between one backup and the next.
    let between = (WRITERS * PARTITIONS * rows / 50).max(100);
    let (mut made, mut beside) = (Vec::new(), 0);
    let done = || pace.done.load(Ordering::Acquire);
    let deeds = std::thread::scope(|scope| {
        let write = |writer| write(&table, (writer, rows, seed), &pace);
        let writers: Vec<_> =
            (0..WRITERS).map(|writer| scope.spawn(move || write(writer))).collect();
        for backup in 0..BACKUPS {
            let before = done();
            pace.allowed.store(before + (1 + AHEAD) * between, Ordering::Release);
            // A writer that has failed is not waited for.
            while done() < before + between && !writers.iter().any(|writer| writer.is_finished()) {
                std::thread::yield_now();
            }
            let before = done();
            made.push(match backup % 3 {
                0 => backups.create(data, Sharing::Link),
                1 => backups.create(data, Sharing::Copy),
                _ => db.backup(backups_dir(data)),
            });
            beside += done() - before;
        }
        pace.stop.store(true, Ordering::Release);
        pace.allowed.store(0, Ordering::Release);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    let made = made.into_iter().map(|made| made.expect("a backup beside writers").backup);
    (deeds, made.collect(), beside)
}

/// Where the backups of a database lie: beside it.
fn backups_dir(data: &std::path::Path) -> std::path::PathBuf {
    data.with_file_name("backups")
}

/// How many MiB of values the load has.
fn mib() -> u64 {
    seed::number("TABULITH_RESTORE_MIB").unwrap_or(MIB).max(1)
}

/// Rows of each partition.
fn rows_for(mib: u64) -> u64 {
    ((mib << 20) / VALUE_BYTES as u64 / (WRITERS * PARTITIONS)).max(20)
}

/// Options under which there are several files on several levels, however small the store is.
fn options(mib: u64, history: Duration) -> Options {
    let mut options =
        Options { history: Some(history), durability: Durability::Flushed, ..Options::default() };
    let memtable_bytes = (mib << 20).div_ceil(16).clamp(256 << 10, 64 << 20);
    options.advanced.memtable_bytes = Some(memtable_bytes as usize);
    options.advanced.wal_segment_bytes = 1 << 20;
    options
}

#[test]
#[allow(clippy::print_stderr, reason = "the figures of a run by hand")]
fn moments_of_a_store_under_writes_are_restored_row_for_row() {
    let seed = seed::seed_or(1);
    let command = "cargo nextest run -p tabulith --test backups moments_of_a_store";
    let _replay = Replay::new(seed, command);
    let rows = rows_for(mib());
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let options = options(mib(), Duration::from_secs(86_400));
    let db = Db::builder().options(options).open(&data).unwrap();
    let backups = Backups::at(backups_dir(&data));
    let (deeds, made, beside) = live(&db, &data, &backups, (rows, seed));
    db.close().unwrap();
    drop(db);
    let newest = made.last().unwrap();
    // From the first change of a row: by then one writer's load is there.
    let loaded = deeds.iter().map(|deeds| deeds.all[(PARTITIONS * rows) as usize].0).min().unwrap();
    let mut rng = Rng::new(seed);
    let (mut held, mut changed, clock) = (0, 0, SystemClock::new());
    for moment in 0..MOMENTS {
        let span = (newest.to.0 - loaded.0) as usize;
        let at = CommitTs(loaded.0 + rng.below(span) as u64);
        let began = clock.steady();
        let new = folder.path().join("new");
        let sharing = if moment % 2 == 0 { Sharing::Link } else { Sharing::Copy };
        backups.restore(Which::At(at), &new, sharing).unwrap();
        let restored = clock.steady() - began;
        let expected: Seen = deeds.iter().flat_map(|deeds| deeds.at(at)).collect();
        changed += expected.values().filter(|(_, number)| *number > 0).count() as u64;
        let there = Options { create_if_missing: false, ..Options::default() };
        let db = Db::builder().options(there).open(&new).unwrap();
        held += hold(&db, expected, rows, &format!("moment {moment}, {}", at.0));
        db.close().unwrap();
        drop(db);
        std::fs::remove_dir_all(&new).unwrap();
        let all = clock.steady() - began;
        eprintln!("moment {moment}, {}: restored in {restored:.1?}, held in {all:.1?}", at.0);
    }
    let commits = deeds.iter().map(|deeds| deeds.all.len() as u64).sum();
    eprintln!("the last backup: {} MiB in {} files", newest.bytes >> 20, newest.files);
    counts::tell(
        "restores at size",
        &[
            count("moments", MOMENTS, MOMENTS),
            count("backups", made.len() as u64, BACKUPS),
            count("beside", beside, 1),
            count("writes", commits, WRITERS * PARTITIONS * rows),
            count("rows", held, MOMENTS * PARTITIONS * rows / 2),
            count("changed", changed, MOMENTS),
        ],
    );
}

/// Of what a backup is of, the percentage that had to be copied.
fn share(created: &Created) -> f64 {
    100.0 * created.brought.bytes as f64 / created.backup.bytes as f64
}

/// Backups of a database in use, by copies: of all of it; after one row in a hundred, anywhere, has
/// another value; after as many in neighbouring rows; after nothing.
#[test]
#[allow(clippy::print_stderr, reason = "the figures of a run by hand")]
fn a_change_of_one_percent_of_a_large_store_is_copied_and_little_else() {
    let seed = seed::seed_or(1);
    let command = "cargo nextest run -p tabulith --test backups a_change_of_one_percent_of_a_large";
    let _replay = Replay::new(seed, command);
    let rows = rows_for(mib());
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let db = Db::builder().options(options(mib(), Duration::ZERO)).open(&data).unwrap();
    let (table, backups) = (db.table("t").unwrap(), Backups::at(backups_dir(&data)));
    let (mut deeds, mut rng) = (Deeds::default(), Rng::new(seed));
    let all = WRITERS * PARTITIONS * rows;
    for row in 0..all {
        commit(&table, &mut deeds, rows, &[(row, Some(0))]);
    }
    // Merges that the load has called for are no part of the change.
    db.settle().unwrap();
    let first = backups.create(&data, Sharing::Copy).unwrap();
    assert_eq!(first.brought.bytes, first.backup.bytes);
    assert!(first.backup.bytes > all * VALUE_BYTES as u64, "{first:?}");
    let tell = |what: &str, made: &Created| {
        let (mib, copied) = (made.backup.bytes >> 20, made.brought.bytes >> 10);
        eprintln!("{what}: {copied} KiB copied of {mib} MiB, {:.2} %", share(made));
    };
    tell("all", &first);
    let percent = all / 100;
    for (number, what) in [(1, "spread"), (2, "near")] {
        for change in 0..percent {
            let row = if number == 1 { rng.below(all as usize) as u64 } else { all / 2 + change };
            commit(&table, &mut deeds, rows, &[(row, Some(number))]);
        }
        let made = backups.create(&data, Sharing::Copy).unwrap();
        tell(what, &made);
        // The new values are there, and hardly more.
        assert!(made.brought.bytes > percent * VALUE_BYTES as u64 * 9 / 10, "{what}: {made:?}");
        assert!(share(&made) < 5.0, "{what}: {:.2} %: {made:?}", share(&made));
    }
    let nothing = backups.create(&data, Sharing::Copy).unwrap();
    tell("nothing", &nothing);
    assert!(nothing.brought.bytes == 0 && nothing.backup.own_bytes == 0, "{nothing:?}");
    db.close().unwrap();
    let new = folder.path().join("new");
    backups.restore(Which::Newest, &new, Sharing::Link).unwrap();
    let newest: BTreeMap<_, _> =
        deeds.all.iter().map(|(at, row, number)| (*row, (*at, number.unwrap()))).collect();
    let held = hold(&Db::open(&new).unwrap(), newest, rows, "the newest");
    counts::tell("increments at size", &[count("rows", held, all), count("backups", 4, 4)]);
}
