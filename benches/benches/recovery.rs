//! An open after a kill: what a log of nearly a memtable's rows holds becomes table files.

#![allow(missing_docs, reason = "criterion's macros make undocumented items")]
#![allow(clippy::disallowed_methods, reason = "a program of measurements, as the library says")]

use anyhow::{Context as _, Result, ensure};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use tabulith::options::Durability;
use tabulith::vfs::api::{Access, Vfs as _};
use tabulith::vfs::os::OsVfs;
use tabulith::{Db, Table};
use tabulith_benches::fixture;
use tabulith_benches::rows::{self, Values};
use tempfile::TempDir;

/// Rows of 200 bytes: 48 MB of log.
const ROWS: u64 = 200_000;

/// A folder whose owner is still there, so that its files are as a kill would leave them.
struct Killed {
    folder: TempDir,
    _owner: Db,
}

impl Killed {
    fn new(rows: impl Iterator<Item = u64>) -> Result<Killed> {
        let folder = fixture::folder()?;
        let owner = Db::builder().durability(Durability::Flushed).open(folder.path())?;
        let (table, mut values) = (owner.table("bench")?, Values::new(1));
        for row in rows {
            put(&table, row, &mut values)?;
        }
        ensure!(owner.stats().flushes == 0, "rows have left the log");
        Ok(Killed { folder, _owner: owner })
    }

    /// The time to open a copy of it, all of which is on the disk.
    fn open(&self) -> Result<Duration> {
        let copy = fixture::folder()?;
        for file in fs::read_dir(self.folder.path())? {
            let file = file?;
            let to = copy.path().join(file.file_name());
            fs::copy(file.path(), &to)?;
            OsVfs::new().open(&to, Access::ReadWrite)?.sync()?;
        }
        opened(copy.path())
    }
}

fn put(table: &Table, row: u64, values: &mut Values) -> Result<()> {
    let (pk, rk) = rows::keys(row);
    table.upsert(pk, rk, values.value())?;
    Ok(())
}

fn opened(folder: &Path) -> Result<Duration> {
    let start = Instant::now();
    let db = Db::open(folder)?;
    let took = start.elapsed();
    ensure!(db.recovery().log_groups >= ROWS, "a log with too little in it");
    db.close()?;
    Ok(took)
}

fn openings(c: &mut Criterion) {
    let mut group = c.benchmark_group("open after a kill");
    group.sample_size(10).throughput(Throughput::Elements(ROWS));
    let random = fixture::random(7, ROWS, 4 * ROWS).collect::<Vec<_>>();
    for (order, rows) in [("rows in order", (0..ROWS).collect()), ("in no order", random)] {
        let killed = Killed::new(rows.into_iter()).expect("a log");
        let once = || killed.open().context("an open").unwrap_or_else(|e| panic!("{e:#}"));
        group.bench_function(order, |b| b.iter_custom(|n| (0..n).map(|_| once()).sum()));
    }
    group.finish();
}

criterion_group!(recovery, openings);
criterion_main!(recovery);
