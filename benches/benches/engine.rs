//! Hot paths through the whole engine, by the public API: gets, scans, counts, unsynced commits,
//! and what the entity layer adds.

#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use anyhow::{Context as _, Result};
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use std::path::Path;
use std::sync::Arc;
use tabulith::Table;
use tabulith::db::Db;
use tabulith::env::rng::Rng;
use tabulith::options::{Advanced, Durability, Options, Reach};
use tabulith::table::entity::Entity;
use tabulith::table::name::{AccountName, TableName};
use tabulith::table::store::TableStore;
use tabulith::table::write::Write;
use tabulith::vfs::api::{Access, Vfs};
use tabulith::vfs::os::OsVfs;
use tabulith_benches::fixture::{self, Store};
use tabulith_benches::rows::{self, PARTITION_ROWS, Values};
use tempfile::TempDir;

/// Rows that are read: 50 partitions.
const ROWS: u64 = 50_000;

/// A database in a folder of its own, and one table of it.
struct Bench {
    db: Db,
    table: Table,
    _dir: TempDir,
}

impl Bench {
    fn empty() -> Result<Bench> {
        let dir = fixture::folder()?;
        let db = Db::builder().durability(Durability::Buffered).open(dir.path())?;
        let table = db.table("bench")?;
        Ok(Bench { db, table, _dir: dir })
    }

    /// With rows in the memtable; with `in_files`, in one file instead.
    fn filled(in_files: bool) -> Result<Bench> {
        let bench = Bench::empty()?;
        let mut values = Values::new(1);
        for first in (0..ROWS).step_by(100) {
            let mut batch = bench.table.partition(rows::keys(first).0).batch();
            for i in first..first + 100 {
                batch = batch.upsert(rows::keys(i).1, values.value());
            }
            batch.commit()?;
        }
        if in_files {
            bench.db.compact()?;
        }
        Ok(bench)
    }
}

/// Rows that a cursor passes.
fn walk(table: &Table) -> tabulith::Result<u64> {
    let (mut cursor, mut rows) = (table.cursor::<&str, &str>(..)?, 0);
    while cursor.next()?.is_some() {
        rows += 1;
    }
    Ok(rows)
}

/// The same from the last one.
fn walk_back(table: &Table) -> tabulith::Result<u64> {
    let (mut cursor, mut rows) = (table.cursor::<&str, &str>(..)?, 0);
    while cursor.prev()?.is_some() {
        rows += 1;
    }
    Ok(rows)
}

/// Rows enough for files of full size.
const FILE_ROWS: u64 = 500_000;

/// A table of so many rows in files of full size, and the folder that it lies in.
fn ingested(advanced: Advanced) -> Result<(TempDir, Table)> {
    let dir = fixture::folder()?;
    let options = Options { advanced, ..Options::default() };
    let table = Db::builder().options(options).open(dir.path())?.table("bench")?;
    let (mut values, mut ingest) = (Values::new(1), table.ingest()?);
    for i in 0..FILE_ROWS {
        ingest.add("p", i.to_be_bytes(), values.value())?;
    }
    ingest.finish()?;
    Ok((dir, table))
}

/// Gets whose file stays open, and gets that find no room for its index and filters.
fn openings(c: &mut Criterion) -> Result<()> {
    for (what, index_and_filter_bytes) in [("that stays open", None), ("opened for it", Some(0))] {
        let advanced =
            Advanced { block_cache_bytes: Some(0), index_and_filter_bytes, ..Advanced::default() };
        let (_folder, table) = ingested(advanced)?;
        let mut rng = Rng::seeded(1);
        c.bench_function(&format!("get: nothing cached, a file of 32 MiB {what}"), |b| {
            b.iter(|| table.get("p", rng.below(FILE_ROWS).to_be_bytes()))
        });
    }
    Ok(())
}

/// A hundred rows of half a million by one call, and one after the other: in the cache, in files
/// that the system has in memory, and in files that it has not.
fn together(c: &mut Criterion) -> Result<()> {
    let places = [("in the cache", None), ("nothing cached", Some(0)), ("on the disk", Some(0))];
    for (place, block_cache_bytes) in places {
        let advanced = Advanced { block_cache_bytes, ..Advanced::default() };
        let (folder, table) = ingested(advanced)?;
        for i in 0..FILE_ROWS {
            anyhow::ensure!(table.get("p", i.to_be_bytes())?.is_some(), "row {i} is missing");
        }
        let mut rng = Rng::seeded(1);
        let asked: Vec<_> =
            (0..200_000).map(|_| ("p", rng.below(FILE_ROWS).to_be_bytes())).collect();
        let mut hundreds = asked.chunks(100).cycle();
        let mut next = || {
            if place == "on the disk" {
                drop(forget(folder.path())); // What fails shows as a time of what is in memory.
            }
            hundreds.next().unwrap_or_default()
        };
        c.bench_function(&format!("100 rows at random, {place}: get_many"), |b| {
            b.iter_batched(&mut next, |keys| table.get_many(keys), BatchSize::PerIteration);
        });
        c.bench_function(&format!("100 rows at random, {place}: gets"), |b| {
            let gets = |keys: &[(&str, [u8; 8])]| {
                keys.iter().map(|(pk, rk)| table.get(pk, rk)).collect::<Vec<_>>()
            };
            b.iter_batched(&mut next, gets, BatchSize::PerIteration);
        });
    }
    Ok(())
}

/// Has the system let go of what it holds of the table files of a folder.
fn forget(folder: &Path) -> Result<()> {
    let disk = OsVfs::new();
    for name in disk.list(folder)?.iter().filter(|name| name.ends_with(".sst")) {
        let file = disk.open(&folder.join(name), Access::Read)?;
        file.begin_sync(0, file.len()?); // Lets go of what is on the disk already: all of it.
    }
    Ok(())
}

/// Keys of rows at random.
fn keys() -> impl Iterator<Item = (String, String)> {
    let mut rng = Rng::seeded(1);
    let keys: Vec<_> = (0..10_000).map(|_| rows::keys(rng.below(ROWS))).collect();
    keys.into_iter().cycle()
}

fn reads(c: &mut Criterion) -> Result<()> {
    for (place, in_files) in [("memtable", false), ("one file, cached", true)] {
        let bench = Bench::filled(in_files)?;
        let table = &bench.table;
        anyhow::ensure!((walk(table)?, table.count()?) == (ROWS, ROWS), "every row is there");
        let mut keys = keys();
        c.bench_function(&format!("get: {place}"), |b| {
            b.iter(|| keys.next().map(|(pk, rk)| table.get(pk, rk)))
        });
        c.bench_function(&format!("get, absent: {place}"), |b| {
            b.iter(|| keys.next().map(|(pk, rk)| table.get(pk, rk + "x")))
        });
        c.bench_function(&format!("scan of 50 rows: {place}"), |b| {
            b.iter(|| {
                let scan = table.partition("tenant-000017").scan(rows::row(300)..);
                scan.map(|scan| scan.take(50).filter(Result::is_ok).count())
            })
        });
        c.bench_function(&format!("scan of 1000 rows, reverse: {place}"), |b| {
            b.iter(|| {
                let scan = table.partition("tenant-000017").scan::<&str>(..);
                scan.map(|scan| scan.rev().filter(Result::is_ok).count())
            })
        });
        c.bench_function(&format!("cursor over all {ROWS} rows: {place}"), |b| {
            b.iter(|| walk(table))
        });
        c.bench_function(&format!("count of all {ROWS} rows: {place}"), |b| {
            b.iter(|| table.count())
        });
    }
    Ok(())
}

/// Rows of which nine of ten are deleted, passed by a cursor before a merge drops them.
fn deletes(c: &mut Criterion) -> Result<()> {
    let dir = fixture::folder()?;
    let store = Store::open(dir.path(), Durability::Buffered, None)?;
    store.fill(ROWS)?;
    store.db.compact()?;
    store.delete_most(ROWS)?;
    let (live, table) = (ROWS / 10, &store.table);
    anyhow::ensure!(walk(table)? == live, "a tenth of the rows is there");
    let name = format!("cursor over {live} rows and {} deleted ones", ROWS - live);
    c.bench_function(&name, |b| b.iter(|| walk(table)));
    c.bench_function(&format!("{name}, reverse"), |b| b.iter(|| walk_back(table)));
    Ok(())
}

fn commits(c: &mut Criterion) -> Result<()> {
    let bench = Bench::empty()?;
    let (mut keys, mut values, mut rng) = (keys(), Values::new(1), Rng::seeded(2));
    c.bench_function("commit of one row, Buffered", |b| {
        b.iter(|| keys.next().map(|(pk, rk)| bench.table.upsert(pk, rk, values.value())))
    });
    c.bench_function("commit of 100 rows, Buffered", |b| {
        b.iter(|| {
            let mut batch = bench.table.partition(rows::partition(rng.below(50))).batch();
            let first = rng.below(PARTITION_ROWS - 100);
            for row in first..first + 100 {
                batch = batch.upsert(rows::row(row), values.value());
            }
            batch.commit()
        })
    });
    Ok(())
}

fn entities(c: &mut Criterion) -> Result<()> {
    let bench = Bench::empty()?;
    let store = TableStore::new(Arc::new(bench.db.clone()));
    let account = AccountName::parse("devstoreaccount1").ok().context("account")?;
    let table = TableName::parse("entities").ok().context("table")?;
    store.create_table(&account, &table)?;
    let entity = |i: u64| {
        let (partition_key, row_key) = rows::keys(i);
        Entity { properties: fixture::properties(), ..Entity::new(partition_key, row_key) }
    };
    let mut i = 0;
    c.bench_function("entity of 10 properties: insert or replace, Buffered", |b| {
        b.iter(|| {
            i += 1;
            store
                .write(&account, &table, Write::InsertOrReplace(entity(i % 1000)))
                .map(|p| p.wait())
        })
    });
    let (pk, rk) = rows::keys(1);
    c.bench_function("entity of 10 properties: get, memtable", |b| {
        b.iter(|| store.get(&account, &table, &pk, &rk, Reach::Disk))
    });
    Ok(())
}

/// A group that could not be prepared ends the run with its error.
fn all(c: &mut Criterion) {
    let groups = [reads(c), deletes(c), openings(c), together(c), commits(c), entities(c)];
    for group in groups {
        group.expect("a temporary folder takes a small database");
    }
}

criterion_group!(engine, all);
criterion_main!(engine);
