//! Readers that meet an error: a cursor repeats it whichever way it is moved, an iterator ends, and
//! what they gave before is right. Once the disk is well, everything is there for new ones.
//!
//! Every read of every walk fails, once, twice and for ever: a walk reads ahead and reads what it
//! was asked for alone where that fails, so that most single failures are never seen.

use crate::opening::open_on;
use crate::workload::small;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use tabulith::db::Db;
use tabulith::embedded::cursor::{Cursor, RowRef};
use tabulith::error::{Error, Result};
use tabulith::options::{Advanced, Options};
use tabulith::vfs::fault::{Errno, FaultFs, Rule};
use tabulith::vfs::mem::SimFs;
use tabulith_testkit::counts::{self, count};
use tabulith_testkit::seed::Rng;
use tabulith_testkit::watch::watched;

const TABLE: &str = "t0";
const PARTITIONS: u32 = 3;
const ROWS: u32 = 200;

/// PartitionKey, RowKey, value.
type Row = (Bytes, Bytes, Bytes);

/// An open database on a disk that can fail, and what it holds.
struct Store {
    name: &'static str,
    faults: FaultFs,
    db: Db,
    rows: Vec<Row>,
}

/// What a reader did: the rows that it gave, and the error that ended it.
struct Walked {
    rows: Vec<Row>,
    error: Option<Error>,
}

/// Reads all that there is.
type Walk = fn(&Db) -> Result<Walked>;

const WALKS: [(&str, Walk); 7] = [
    ("cursor up", |db| by_cursor(db, true)),
    ("cursor down", |db| by_cursor(db, false)),
    ("iterator up", |db| by_iterator(db, true)),
    ("iterator down", |db| by_iterator(db, false)),
    ("partitions", by_partition),
    ("keys", by_key),
    ("many keys", by_many_keys),
];

impl Store {
    /// Rows in a deep level, in a file of the first, in the memtable, and in blob files.
    fn new(name: &'static str, file_bytes: usize, filter_bits: u32) -> Result<Store> {
        let sim = SimFs::new();
        let faults = FaultFs::new(Arc::new(sim));
        let advanced = Advanced {
            file_bytes,
            filter_bits,
            block_cache_bytes: Some(0),
            memtable_bytes: Some(1 << 20),
            l0_compact_files: 8,
            ..small().advanced
        };
        let options = Options { advanced, ..small() };
        let db = open_on(Arc::new(faults.clone()), &options).expect("the disk is well");
        let table = db.table(TABLE)?;
        let (mut rng, mut rows) = (Rng::new(31), BTreeMap::new());
        let mut write = |every: u32, large: bool| {
            for n in (0..PARTITIONS * ROWS).step_by(every as usize) {
                let (pk, rk) = (format!("p{}", n / ROWS), format!("r{:03}", n % ROWS));
                let value = Bytes::from(rng.bytes(if large { 900 } else { 90 }));
                table.upsert(&pk, &rk, &value)?;
                rows.insert((Bytes::from(pk), Bytes::from(rk)), value);
            }
            Ok::<_, Error>(())
        };
        write(1, false)?;
        write(41, true)?;
        db.compact()?;
        write(7, false)?;
        db.flush()?;
        write(13, false)?;
        let rows = rows.into_iter().map(|((pk, rk), value)| (pk, rk, value)).collect();
        Ok(Store { name, faults, db, rows })
    }

    /// Calls of the disk that a walk makes.
    fn calls(&self, walk: Walk) -> Result<u64> {
        let before = self.faults.calls();
        walk(&self.db)?;
        Ok(self.faults.calls() - before)
    }
}

fn row_of(row: RowRef<'_>) -> Result<Row> {
    let copy = Bytes::copy_from_slice;
    Ok((copy(row.partition_key), copy(row.row_key), copy(row.value()?)))
}

/// Moves a cursor to its end or to an error; then it is moved on in every way.
fn run_out(cursor: &mut Cursor, up: bool, rows: &mut Vec<Row>) -> Result<()> {
    loop {
        let here = if up { cursor.next() } else { cursor.prev() };
        match here {
            Ok(Some(row)) => rows.push(row_of(row)?),
            Ok(None) => return Ok(()),
            Err(error) => {
                for _ in 0..2 {
                    let moves = [
                        cursor.next().is_ok(),
                        cursor.prev().is_ok(),
                        cursor.prev().is_ok(),
                        cursor.seek("p1", "r100").is_ok(),
                    ];
                    assert_eq!(moves, [false; 4], "it goes on after {error}");
                }
                return Err(error);
            }
        }
    }
}

fn by_cursor(db: &Db, up: bool) -> Result<Walked> {
    let mut rows = Vec::new();
    let mut cursor = db.table(TABLE)?.cursor::<&[u8], &[u8]>(..)?;
    let error = run_out(&mut cursor, up, &mut rows).err();
    if !up {
        rows.reverse();
    }
    Ok(Walked { rows, error })
}

fn by_iterator(db: &Db, up: bool) -> Result<Walked> {
    let mut scan = db.snapshot()?.scan::<&[u8], &[u8]>(&db.table(TABLE)?, ..)?;
    let (mut rows, mut error) = (Vec::new(), None);
    while let Some(row) = if up { scan.next() } else { scan.next_back() } {
        match row {
            Ok(row) => rows.push((row.partition_key, row.row_key, row.value)),
            Err(met) => {
                let more = [scan.next().is_some(), scan.next_back().is_some()];
                assert_eq!(more, [false; 2], "it goes on after {met}");
                error = Some(met);
                break;
            }
        }
    }
    if !up {
        rows.reverse();
    }
    Ok(Walked { rows, error })
}

/// One partition after the other, the last one downwards.
fn by_partition(db: &Db) -> Result<Walked> {
    let (mut rows, table) = (Vec::new(), db.table(TABLE)?);
    for n in 0..PARTITIONS {
        let up = n + 1 < PARTITIONS;
        let mut own = Vec::new();
        let mut cursor = table.partition(format!("p{n}")).cursor::<&[u8]>(..)?;
        let outcome = run_out(&mut cursor, up, &mut own);
        if !up {
            own.reverse();
        }
        rows.extend(own);
        if let Err(error) = outcome {
            return Ok(Walked { rows, error: Some(error) });
        }
    }
    Ok(Walked { rows, error: None })
}

/// Every tenth row, and the places where there is none: an answer is right, or an error.
fn by_key(db: &Db) -> Result<Walked> {
    let (mut rows, mut error, table) = (Vec::new(), None, db.table(TABLE)?);
    for n in (0..PARTITIONS * ROWS).step_by(10) {
        let (pk, rk) = (format!("p{}", n / ROWS), format!("r{:03}", n % ROWS));
        match table.get(&pk, &rk) {
            Ok(Some(row)) => rows.push((pk.clone().into(), rk.clone().into(), row.value)),
            Ok(None) => panic!("{pk} {rk} is not found"),
            Err(met) => error = Some(met),
        }
        match table.get(&pk, rk + "-") {
            Ok(found) => assert!(found.is_none(), "what is not there is found"),
            Err(met) => error = Some(met),
        }
    }
    Ok(Walked { rows, error })
}

fn by_many_keys(db: &Db) -> Result<Walked> {
    let (mut rows, mut error, table) = (Vec::new(), None, db.table(TABLE)?);
    for first in (0..PARTITIONS * ROWS).step_by(120) {
        let numbers = (first..first + 120).step_by(5);
        let keys: Vec<_> =
            numbers.map(|n| (format!("p{}", n / ROWS), format!("r{:03}", n % ROWS))).collect();
        match table.get_many(&keys) {
            Ok(found) => {
                for ((pk, rk), row) in keys.into_iter().zip(found) {
                    let row = row.unwrap_or_else(|| panic!("{pk} {rk} is not found"));
                    rows.push((pk.into(), rk.into(), row.value));
                }
            }
            Err(met) => error = Some(met),
        }
    }
    Ok(Walked { rows, error })
}

#[test]
fn a_reader_that_met_an_error_gives_nothing_more() {
    let stores = [
        Store::new("small files", 4 << 10, 10),
        Store::new("large files", 256 << 10, 10),
        Store::new("no filters", 16 << 10, 0),
    ];
    let (mut walks, mut errors, mut late) = (0, 0, 0);
    watched(|watch| {
        for store in stores {
            let store = store.expect("the disk is well");
            for (walk, run) in WALKS {
                let calls = store.calls(run).expect("the disk is well");
                for n in 0..calls {
                    for (how_often, times) in [("once", 1), ("twice", 2), ("for ever", u64::MAX)] {
                        for errno in [Errno::Io, Errno::EndOfFile] {
                            let name = format!(
                                "reader {walk} of {}, call {n} of {calls}: {errno:?} {how_often}",
                                store.name
                            );
                            watch.step(name.clone());
                            store.faults.add(Rule::any().skip(n).times(times).with(errno));
                            let walked =
                                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                                    run(&store.db)
                                }));
                            store.faults.clear();
                            let Ok(walked) = walked else { panic!("{name}: see above") };
                            walks += 1;
                            match walked {
                                Ok(walked) => {
                                    errors += u64::from(walked.error.is_some());
                                    late += u64::from(
                                        walked.error.is_some() && !walked.rows.is_empty(),
                                    );
                                    judge(&name, &store.rows, &walked);
                                }
                                Err(_) => errors += 1, // It did not even begin.
                            }
                        }
                    }
                }
                let well = run(&store.db).unwrap_or_else(|error| panic!("{walk}, then: {error}"));
                assert!(well.error.is_none(), "{walk}: {:?}, though all is well", well.error);
                judge(walk, &store.rows, &well);
            }
        }
    });
    let counts =
        [count("walks", walks, 2_000), count("errors", errors, 1_000), count("late", late, 500)];
    counts::tell("readers", &counts);
}

/// A cursor that a merge moves to other files may fail to open them: that ends it too.
#[test]
fn a_cursor_that_cannot_go_on_in_other_files_gives_nothing_more() {
    let store = Store::new("moved", 16 << 10, 10).expect("the disk is well");
    let (table, (pk, rk, value)) = (store.db.table(TABLE).expect("it is there"), &store.rows[0]);
    let (mut errors, mut whole) = (0, 0);
    for n in 0.. {
        for up in [true, false] {
            let name = format!("reader over a merge, call {n}, up: {up}");
            let mut cursor = table.cursor::<&[u8], &[u8]>(..).expect("the disk is well");
            let mut rows = Vec::new();
            while rows.len() < store.rows.len() / 2 {
                let here = if up { cursor.next() } else { cursor.prev() };
                let row = here.expect("the disk is well").expect("half of the rows");
                rows.push(row_of(row).expect("the disk is well"));
            }
            table.upsert(pk, rk, value).expect("the disk is well");
            store.db.compact().expect("the disk is well");
            store.faults.add(Rule::any().skip(n).forever());
            let error = run_out(&mut cursor, up, &mut rows).err();
            store.faults.clear();
            if !up {
                rows.reverse();
            }
            errors += u64::from(error.is_some());
            whole += u64::from(error.is_none());
            judge(&name, &store.rows, &Walked { rows, error });
        }
        if whole > 1 {
            break;
        }
    }
    assert!(errors > 6, "only {errors} errors");
}

/// Every row that came is right, and those that came in a walk up or down are the first or the last
/// ones; all of them where there was no error.
fn judge(name: &str, rows: &[Row], walked: &Walked) {
    let all = walked.rows.iter().all(|row| rows.binary_search(row).is_ok());
    assert!(all, "{name}: a row is wrong");
    assert!(walked.rows.is_sorted(), "{name}: rows are not in order, or one came twice");
    if name.contains("keys") {
        return;
    }
    let is_part = rows.starts_with(&walked.rows)
        || rows.ends_with(&walked.rows)
        || name.contains("partitions");
    assert!(is_part, "{name}: rows are missing in between");
    let whole = walked.rows.len() == rows.len();
    assert!(whole || walked.error.is_some(), "{name}: {} rows, no error", walked.rows.len());
}
