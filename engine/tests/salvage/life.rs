//! A random life on a simulated disk, and every version that each of its rows ever had.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tabulith::env::clock::ManualClock;
use tabulith::env::jobs::ByHand;
use tabulith::rows::Catalog;
use tabulith::vfs::api::{Access, Vfs};
use tabulith::vfs::mem::SimFs;
use tabulith::{Advanced, CommitTs, Compression, Db, Options, Table};
use tabulith_testkit::seed::Rng;

pub(crate) const DIR: &str = "db";
pub(crate) const NEW: &str = "new";
pub(crate) const START_TICKS: u64 = 16_000_000_000_000_000;

/// Table, PartitionKey, RowKey.
pub(crate) type Place = (u32, Vec<u8>, Vec<u8>);
/// Commit and value; `None` for a delete.
pub(crate) type Written = (CommitTs, Option<Vec<u8>>);

/// Every version that each row ever had, oldest first.
#[derive(Default)]
pub(crate) struct Model {
    pub(crate) rows: BTreeMap<Place, Vec<Written>>,
    /// Name, id, and when it was dropped.
    pub(crate) tables: Vec<(String, u32, Option<CommitTs>)>,
    /// Commits whose rows bear no timestamp in their file.
    pub(crate) ingests: Vec<CommitTs>,
}

impl Model {
    fn put(&mut self, place: Place, ts: CommitTs, value: Option<Vec<u8>>) {
        self.rows.entry(place).or_default().push((ts, value));
    }

    /// Removes the rows that there are of those that `gone` says.
    fn erase(&mut self, ts: CommitTs, gone: impl Fn(&Place) -> bool) {
        for (place, versions) in &mut self.rows {
            if gone(place) && versions.last().is_some_and(|(_, value)| value.is_some()) {
                versions.push((ts, None));
            }
        }
    }
}

fn options(rng: &mut Rng) -> Options {
    let codec = if rng.chance(50) { Compression::NONE } else { Compression::LZ4 };
    Options {
        advanced: Advanced {
            memtable_bytes: Some(4 << 10),
            wal_segment_bytes: 16 << 10,
            block_bytes: 256,
            file_bytes: 4 << 10,
            level_base_bytes: 4 << 10,
            level_fanout: 2,
            l0_compact_files: 2,
            filter_bits: *rng.pick(&[0, 10]),
            block_cache_bytes: Some(0),
            blob_bytes_min: 500,
            blob_file_bytes: 4 << 10,
            compression: codec,
            ..Advanced::default()
        },
        threads: Some(1),
        // With one no version of a row is given up.
        history: rng.chance(50).then_some(Duration::from_secs(3600)),
        ..Options::default()
    }
}

pub(crate) fn open(sim: &SimFs, dir: &str, options: &Options) -> tabulith::Result<Db> {
    let clock = Arc::new(ManualClock::at(START_TICKS));
    let parts = Arc::new(sim.clone());
    Db::builder().options(options.clone()).parts(parts, clock, Arc::new(ByHand)).open(dir)
}

fn value(rng: &mut Rng) -> Vec<u8> {
    // The longest goes to a blob file of the salvage, too.
    let len = *rng.pick(&[0, 3, 20, 60, 200, 700, 2000, 5000]);
    if rng.chance(50) { rng.bytes(len) } else { vec![b'v'; len] }
}

fn key(rng: &mut Rng) -> (Vec<u8>, Vec<u8>) {
    let pk = format!("p{}", rng.skewed_below(5)).into_bytes();
    (pk, format!("r{:02}", rng.below(40)).into_bytes())
}

/// One step of a life.
fn step(db: &Db, model: &mut Model, rng: &mut Rng) -> tabulith::Result<()> {
    let live: Vec<_> = model.tables.iter().filter(|table| table.2.is_none()).cloned().collect();
    let kind = if live.is_empty() { 0 } else { rng.below(40) };
    if kind == 0 {
        let name = format!("t{}", model.tables.len());
        let id = db.create_table(&name, b"note")?.id.0;
        model.tables.push((name, id, None));
        return Ok(());
    }
    let (name, id, _) = rng.pick(&live).clone();
    let table = db.table(&name)?;
    let (pk, rk) = key(rng);
    match kind {
        1 => {
            db.drop_table(&name)?;
            let ts = db.visible();
            model.erase(ts, |place| place.0 == id);
            let dropped = model.tables.iter_mut().filter(|table| table.1 == id);
            dropped.for_each(|table| table.2 = Some(ts));
        }
        2 => {
            let ts = table.drop_partition(&pk)?;
            model.erase(ts, |place| place.0 == id && place.1 == pk);
        }
        3 => {
            let (from, to) = (b"r10".to_vec(), b"r20".to_vec());
            let ts =
                table.partition(&pk).batch().delete_range(from.clone()..to.clone()).commit()?;
            let within = |rk: &Vec<u8>| *rk >= from && *rk < to;
            model.erase(ts, |place| place.0 == id && place.1 == pk && within(&place.2));
        }
        // More rows than are removed one by one.
        21 => {
            let rows: Vec<_> = (0..70).map(|row| format!("f{row:02}").into_bytes()).collect();
            let batch = table.partition(&pk).batch();
            let ts = rows.iter().fold(batch, |batch, rk| batch.upsert(rk, "")).commit()?;
            for rk in rows {
                model.put((id, pk.clone(), rk), ts, Some(Vec::new()));
            }
            if rng.chance(50) {
                db.flush()?;
            }
            if rng.chance(70) {
                let ts = table.drop_partition(&pk)?;
                model.erase(ts, |place| place.0 == id && place.1 == pk);
            }
        }
        // No row gets as old as that: the clock stands still.
        22 => table.set_ttl(rng.chance(60).then_some(Duration::from_secs(60)))?,
        4 | 5 => db.flush()?,
        6 => db.compact()?,
        7 => ingest(&table, id, model, rng)?,
        8..=13 => {
            if table.get(&pk, &rk)?.is_some() {
                let ts = table.partition(&pk).batch().delete(&rk).commit()?;
                model.put((id, pk, rk), ts, None);
            }
        }
        14..=20 => {
            let rows: BTreeMap<_, _> =
                (0..rng.between(2, 8)).map(|_| (key(rng).1, value(rng))).collect();
            let mut batch = table.partition(&pk).batch();
            for (rk, value) in &rows {
                batch = batch.upsert(rk, value);
            }
            let ts = batch.commit()?;
            for (rk, value) in rows {
                model.put((id, pk.clone(), rk), ts, Some(value));
            }
        }
        _ => {
            let value = value(rng);
            let ts = table.upsert(&pk, &rk, &value)?;
            model.put((id, pk, rk), ts, Some(value));
        }
    }
    Ok(())
}

/// Rows that bear no timestamp in their file.
fn ingest(table: &Table, id: u32, model: &mut Model, rng: &mut Rng) -> tabulith::Result<()> {
    let rows: BTreeMap<_, _> = (0..rng.between(1, 20)).map(|_| (key(rng), value(rng))).collect();
    let mut ingest = table.ingest()?;
    for ((pk, rk), value) in &rows {
        ingest.add(pk, rk, value)?;
    }
    let ts = ingest.finish()?;
    for ((pk, rk), value) in rows {
        model.put((id, pk, rk), ts, Some(value));
    }
    model.ingests.push(ts);
    Ok(())
}

/// A closed folder, and all that was ever in it.
pub(crate) fn life(rng: &mut Rng) -> (SimFs, Options, Model) {
    let steps = rng.between(20, 300);
    life_of(steps, rng)
}

/// One of so many steps.
pub(crate) fn life_of(steps: usize, rng: &mut Rng) -> (SimFs, Options, Model) {
    let (sim, options, mut model) = (SimFs::new(), options(rng), Model::default());
    let mut db = open(&sim, DIR, &options).expect("a database");
    for _ in 0..steps {
        step(&db, &mut model, rng).expect("a sound disk");
        while rng.chance(60) && db.step().expect("a sound disk") {}
        if rng.chance(1) {
            db.close().expect("a sound disk");
            db = open(&sim, DIR, &options).expect("a database");
        }
    }
    db.close().expect("a sound disk");
    (sim, options, model)
}

pub(crate) fn all_bytes(sim: &SimFs) -> BTreeMap<String, Vec<u8>> {
    let dir = Path::new(DIR);
    let bytes = |name: &String| {
        let file = sim.open(&dir.join(name), Access::Read).expect("a file");
        file.read_vec_at(file.len().expect("its length") as usize, 0).expect("its bytes")
    };
    sim.list(dir)
        .expect("the folder")
        .into_iter()
        .map(|name| (name.clone(), bytes(&name)))
        .collect()
}
