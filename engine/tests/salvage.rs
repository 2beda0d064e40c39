//! Salvage of damaged folders against a model: nothing is invented, nothing that was not touched is
//! missing, and the list of losses names whatever is.
//!
//! A random life is written to a simulated disk and closed; files are flipped, overwritten, cut,
//! lost or swapped; what the salvage gives is held against every version that each row ever had.
//! `TABULITH_SALVAGES` damages more often than 400 times.
#![allow(clippy::print_stderr, reason = "the figures are what the run is for")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tabulith::env::clock::ManualClock;
use tabulith::env::jobs::ByHand;
use tabulith::error::Kind;
use tabulith::ids::TableId;
use tabulith::rows::Catalog;
use tabulith::salvage::rebuild::salvage_with;
use tabulith::salvage::report::Report;
use tabulith::verify;
use tabulith::vfs::api::{Access, Vfs};
use tabulith::vfs::fault::{Call, Errno, FaultFs, Rule};
use tabulith::vfs::mem::SimFs;
#[cfg(target_os = "linux")]
use tabulith::vfs::os::OsVfs;
use tabulith::{Advanced, CommitTs, Compression, Db, If, Options, Table};
use tabulith_testkit::counts::{self, count};
use tabulith_testkit::seed::{self, Replay, Rng};

const DIR: &str = "db";
const NEW: &str = "new";
const START_TICKS: u64 = 16_000_000_000_000_000;
const CASES: u64 = 400;
/// Damages of one folder.
const CASES_PER_LIFE: u64 = 20;

/// Table, PartitionKey, RowKey.
type Place = (u32, Vec<u8>, Vec<u8>);
/// Commit and value; `None` for a delete.
type Written = (CommitTs, Option<Vec<u8>>);

/// Every version that each row ever had, oldest first.
#[derive(Default)]
struct Model {
    rows: BTreeMap<Place, Vec<Written>>,
    /// Name, id, and when it was dropped.
    tables: Vec<(String, u32, Option<CommitTs>)>,
    /// Commits whose rows bear no timestamp in their file.
    ingests: Vec<CommitTs>,
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

fn open(sim: &SimFs, dir: &str, options: &Options) -> tabulith::Result<Db> {
    let clock = Arc::new(ManualClock::at(START_TICKS));
    let parts = Arc::new(sim.clone());
    Db::builder().options(options.clone()).parts(parts, clock, Arc::new(ByHand)).open(dir)
}

fn value(rng: &mut Rng) -> Vec<u8> {
    let len = *rng.pick(&[0, 3, 20, 60, 200, 700, 2000]);
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
fn life(rng: &mut Rng) -> (SimFs, Options, Model) {
    let (sim, options, mut model) = (SimFs::new(), options(rng), Model::default());
    let mut db = open(&sim, DIR, &options).expect("a database");
    for _ in 0..rng.between(20, 300) {
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

/// Damages a random file in a random way; tells what was done.
fn damage(sim: &SimFs, rng: &mut Rng) -> String {
    let mut names = sim.list(Path::new(DIR)).expect("the folder");
    names.retain(|name| name != "LOCK");
    names.sort();
    if names.is_empty() {
        return "nothing is left".to_owned();
    }
    let name = rng.pick(&names).clone();
    let path = Path::new(DIR).join(&name);
    let file = sim.open(&path, Access::ReadWrite).expect("a file");
    let len = file.len().expect("its length") as usize;
    let (kind, at) = (rng.below(12), rng.below(len.max(1)));
    let sector = at / 512 * 512;
    let bytes = (len - sector).min(512);
    let done = match kind {
        _ if len == 0 => Ok(()),
        0..=4 => {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at as u64).expect("a byte");
            file.write_all_at(&[byte[0] ^ 1 << rng.below(8)], at as u64)
        }
        5 => file.write_all_at(&rng.bytes(bytes), sector as u64),
        6 => file.write_all_at(&vec![0; bytes], sector as u64),
        7 => file.write_all_at(&rng.bytes(len - sector), sector as u64),
        8 => file.set_len(at as u64),
        9 => file.set_len((len + rng.between(1, 5000)) as u64),
        10 => sim.remove(&path),
        _ => {
            let other = Path::new(DIR).join(rng.pick(&names));
            let aside = Path::new("db/000000.tmp");
            let moved = sim.rename(&path, aside);
            let _ = sim.rename(&other, &path); // It may be the same file.
            moved.and_then(|()| sim.rename(aside, &other))
        }
    };
    done.expect("the simulated disk does it");
    format!("{name}: kind {kind} at {at} of {len}")
}

/// What a run has seen.
#[derive(Default)]
struct Tally {
    rows: u64,
    /// Rows that are not as they were, all of them on the list.
    lost: u64,
    /// Rows that the list says may not be as they were.
    listed: u64,
    whole: u64,
    nothing: u64,
}

fn check(sim: &SimFs, model: &Model, tally: &mut Tally) -> Result<(), String> {
    let vfs: Arc<dyn Vfs> = Arc::new(sim.clone());
    let report = match salvage_with(Arc::clone(&vfs), Path::new(DIR), Path::new(NEW), 7) {
        Ok(report) => report,
        Err(error) if error.kind() == Kind::NotFound => {
            tally.nothing += 1;
            return Ok(());
        }
        Err(error) => return Err(format!("the salvage failed: {error:?}")),
    };
    let checked = verify::check_with(vfs, Path::new(NEW)).map_err(|error| error.to_string())?;
    if !checked.is_clean() {
        return Err(format!("the new folder is damaged: {:?}", checked.damage));
    }
    tally.whole += u64::from(report.is_whole());
    let db =
        open(sim, NEW, &Options::default()).map_err(|error| format!("no database: {error:?}"))?;
    let found = read(&db).map_err(|error| format!("reading it: {error:?}"))?;
    compare(model, &found, &report, tally)
}

fn read(db: &Db) -> tabulith::Result<BTreeMap<Place, (CommitTs, Vec<u8>)>> {
    let mut rows = BTreeMap::new();
    for table in db.tables("", None, usize::MAX)? {
        for row in db.table(&table.name)?.scan::<&[u8], &[u8]>(..)? {
            let row = row?;
            let place = (table.id.0, row.partition_key.to_vec(), row.row_key.to_vec());
            rows.insert(place, (row.ts, row.value.to_vec()));
        }
    }
    Ok(rows)
}

fn compare(
    model: &Model,
    found: &BTreeMap<Place, (CommitTs, Vec<u8>)>,
    report: &Report,
    tally: &mut Tally,
) -> Result<(), String> {
    let manifest_lost = report.unknown.iter().any(|what| what.starts_with("the manifest is lost"));
    let begins_late = report.unknown.iter().any(|what| what.starts_with("the log begins"));
    for (place, (ts, value)) in found {
        let versions = model.rows.get(place).map_or(&[][..], Vec::as_slice);
        // The manifest alone knows when rows were ingested; without it they are not older than
        // that.
        let undated = |own: &CommitTs| manifest_lost && ts <= own && model.ingests.contains(own);
        let was = |(own, written): &Written| {
            (own == ts || undated(own)) && written.as_ref() == Some(value)
        };
        if !versions.iter().any(was) {
            return Err(format!("{} never held {value:?} by commit {ts}", shown(place)));
        }
    }
    for (place, versions) in &model.rows {
        let Some((ts, truth)) = versions.last() else { continue };
        let held = found.get(place);
        let as_it_was = held.map(|(_, value)| value) == truth.as_ref();
        let (id, pk, rk) = place;
        let table = model.tables.iter().find(|table| table.1 == *id);
        let name = table.map_or("", |table| &table.0);
        let row_of_table = [b"t", name.as_bytes()].concat();
        let in_catalog = |ts| report.covers(TableId(0), b"tables", &row_of_table, ts);
        let table_lost = in_catalog(CommitTs(START_TICKS)) || in_catalog(*ts);
        let listed = report.covers(TableId(*id), pk, rk, *ts)
            || table_lost
            || begins_late
            || (manifest_lost && (truth.is_none() || model.ingests.contains(ts)));
        tally.rows += 1;
        tally.listed += u64::from(listed);
        tally.lost += u64::from(!as_it_was);
        if !as_it_was && !listed {
            let losses: Vec<_> = report.losses.iter().map(ToString::to_string).collect();
            return Err(format!(
                "{} should be {truth:?} by commit {ts} and is {held:?}; the list has {losses:#?}, {:#?}",
                shown(place),
                report.unknown
            ));
        }
    }
    Ok(())
}

fn shown((id, pk, rk): &Place) -> String {
    format!("table {id} '{}' '{}'", pk.escape_ascii(), rk.escape_ascii())
}

#[test]
fn what_is_salvaged_is_true_and_what_is_missing_is_listed() {
    let cases = seed::number("TABULITH_SALVAGES").unwrap_or(CASES);
    let first = seed::seed_or(1);
    let mut tally = Tally::default();
    let lives = cases.div_ceil(CASES_PER_LIFE);
    for number in 0..lives {
        let seed = first + number;
        let command =
            format!("TABULITH_SALVAGES={CASES_PER_LIFE} cargo test -p tabulith --test salvage");
        let _replay = Replay::new(seed, command);
        let mut rng = Rng::new(seed);
        let (sim, _, model) = life(&mut rng);
        for _ in 0..CASES_PER_LIFE {
            let sim = sim.fork();
            let done: Vec<_> = (0..rng.between(1, 3)).map(|_| damage(&sim, &mut rng)).collect();
            check(&sim, &model, &mut tally).unwrap_or_else(|what| panic!("{done:#?}\n{what}"));
        }
    }
    let Tally { rows, lost, listed, whole, nothing } = tally;
    eprintln!(
        "{} salvages: {rows} rows, {lost} not as they were, {listed} on the list; {whole} whole, \
         {nothing} without a file",
        lives * CASES_PER_LIFE
    );
    counts::tell(
        "salvage",
        &[
            count("salvages", lives * CASES_PER_LIFE, cases),
            count("rows", rows, cases * 10),
            count("lost", lost, cases / 20),
        ],
    );
    assert!(listed < rows * 3 / 4, "a list of everything says nothing");
}

#[test]
fn a_sound_folder_is_copied_whole() {
    for seed in 0..20 {
        let (sim, _, model) = life(&mut Rng::new(seed));
        let mut tally = Tally::default();
        check(&sim, &model, &mut tally).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        assert_eq!((tally.whole, tally.lost, tally.listed), (1, 0, 0), "seed {seed}");
    }
}

#[test]
fn what_its_process_did_to_the_folder_until_it_was_let_go_is_known() {
    let (sim, options, _) = life(&mut Rng::new(11));
    let db = open(&sim, DIR, &options).expect("a database");
    let disk = FaultFs::new(Arc::new(sim.clone()));
    disk.interrupt(Rule::fail(Call::Lock), move || {
        db.table("late").expect("a table").upsert("p", "r", "row").expect("a write");
        db.compact().and_then(|()| db.close()).expect("an end in order");
    });
    let report =
        salvage_with(Arc::new(disk), Path::new(DIR), Path::new(NEW), 7).expect("a salvage");
    assert!(report.losses.is_empty(), "{:?}", report.losses);
    let new = open(&sim, NEW, &options).expect("a database");
    let late = new.table("late").expect("a table").get("p", "r").expect("a read");
    assert!(late.is_some(), "what was acknowledged last");
}

#[test]
fn the_damaged_folder_stays_as_it_is_and_the_new_one_must_be_empty() {
    let (sim, options, _) = life(&mut Rng::new(3));
    let before = all_bytes(&sim);
    let vfs = || Arc::new(sim.clone()) as Arc<dyn Vfs>;
    let into = |target: &str| salvage_with(vfs(), Path::new(DIR), Path::new(target), 7);
    assert!(into(NEW).is_ok());
    assert_eq!(all_bytes(&sim), before, "nothing in the old folder has changed");
    assert_eq!(into(NEW).expect_err("a folder with files").kind(), Kind::Exists);
    assert_eq!(into("db/new").expect_err("inside the damaged folder").kind(), Kind::Invalid);
    let db = open(&sim, DIR, &options).expect("a database");
    assert_eq!(into("other").expect_err("an open folder").kind(), Kind::Locked);
    drop(db);
    let none = salvage_with(vfs(), Path::new("nowhere"), Path::new("other"), 7);
    assert!(matches!(none.expect_err("no folder").kind(), Kind::NotFound | Kind::Io));
}

fn all_bytes(sim: &SimFs) -> BTreeMap<String, Vec<u8>> {
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

#[test]
fn a_file_of_values_that_cannot_be_opened_at_once_is_tried_again() {
    let disk = SimFs::new();
    let options = Options {
        advanced: Advanced { blob_bytes_min: 500, blob_file_bytes: 4 << 10, ..Advanced::default() },
        ..Options::default()
    };
    let db = open(&disk, DIR, &options).expect("a sound disk");
    let rows = db.table("t").expect("a sound disk");
    for row in 0..20u8 {
        rows.upsert("p", [row], vec![row; 1000]).expect("a sound disk");
    }
    db.flush().expect("a sound disk");
    db.close().expect("a sound disk");
    for skipped in 0.. {
        let faults = FaultFs::new(Arc::new(disk.clone()));
        let rule = Rule::fail(Call::Open).named("*.blob").skip(skipped);
        faults.add(rule.with(Errno::TooManyFiles));
        let target = format!("{NEW}-{skipped}");
        let report = salvage_with(Arc::new(faults.clone()), Path::new(DIR), Path::new(&target), 1)
            .expect("a sound disk");
        assert!(report.losses.is_empty(), "open {skipped}: {:?}", report.losses);
        let db = open(&disk, &target, &options).expect("a sound disk");
        let rows = db.table("t").expect("a sound disk");
        assert!(
            (0..20u8).all(|row| rows
                .get("p", [row])
                .expect("a sound disk")
                .expect("a sound disk")
                .value
                == [row; 1000][..])
        );
        if faults.injected() == 0 {
            assert!(skipped >= 2, "when it is listed, and when it is read");
            return;
        }
    }
}

/// Salvages the folder without its manifests and roots.
fn without_manifest(disk: &SimFs) -> Report {
    let names = disk.list(Path::new(DIR)).expect("a folder");
    for name in names.iter().filter(|name| name.contains("manifest") || name.starts_with("ROOT")) {
        disk.remove(&Path::new(DIR).join(name)).expect("a file");
    }
    let vfs = Arc::new(disk.clone());
    salvage_with(vfs, Path::new(DIR), Path::new(NEW), 7).expect("a salvage")
}

/// Rows without a commit of their own passed for older than everything, so that what had been
/// deleted or written before they came hid them.
#[test]
fn what_was_ingested_is_newer_than_what_files_of_before_hold() {
    let disk = SimFs::new();
    let db = open(&disk, DIR, &Options::default()).expect("a sound disk");
    let rows = db.table("t").expect("a sound disk");
    rows.upsert("p", "a", "old").expect("a sound disk");
    rows.upsert("p", "b", "old").expect("a sound disk");
    rows.truncate().expect("a sound disk");
    rows.upsert("p", "a", "also old").expect("a sound disk");
    rows.delete("p", "a", If::Any).expect("a sound disk");
    rows.upsert("p", "z", "of the file").expect("a sound disk");
    db.flush().expect("a sound disk");
    let mut ingest = rows.ingest().expect("a sound disk");
    for row in ["a", "b", "c"] {
        ingest.add("p", row, "new").expect("rows in order");
    }
    ingest.finish().expect("a sound disk");
    rows.upsert("p", "c", "newest").expect("a sound disk");
    db.close().expect("a sound disk");
    let report = without_manifest(&disk);
    assert!(report.unknown.iter().any(|what| what.contains("ingested")), "{:?}", report.unknown);
    let db = open(&disk, NEW, &Options::default()).expect("a sound disk");
    let names = db.tables("", None, 10).expect("a list");
    let rows = db.table(&names[0].name).expect("a table");
    let value = |row: &str| rows.get("p", row).expect("a sound disk").map(|row| row.value);
    let expected = [("a", "new"), ("b", "new"), ("c", "newest"), ("z", "of the file")];
    for (row, expected) in expected {
        assert_eq!(value(row).as_deref(), Some(expected.as_bytes()), "row {row}");
    }
}

/// The process took as much memory as the damaged length says, and was aborted.
#[cfg(target_os = "linux")]
#[test]
fn a_table_file_may_be_longer_than_memory() {
    let (place, vfs) = (tempfile::tempdir().expect("a folder"), OsVfs::new());
    let (dir, new) = (place.path().join(DIR), place.path().join(NEW));
    let db = Db::open(&dir).expect("a database");
    let rows = db.table("t").expect("a table");
    for row in 0..100u8 {
        rows.upsert("p", [row], [row; 100]).expect("a row");
    }
    db.flush().expect("a file");
    db.close().expect("an end in order");
    for name in vfs.list(&dir).expect("a folder") {
        let path = dir.join(&name);
        if name.ends_with(".sst") {
            let file = vfs.open(&path, Access::ReadWrite).expect("a file");
            file.set_len(1 << 40).expect("a hole");
        } else {
            vfs.remove(&path).expect("a file");
        }
    }
    let report = salvage_with(Arc::new(vfs), &dir, &new, 7).expect("a salvage");
    assert_eq!(report.losses.len(), 1, "what behind its rows is none: {:?}", report.losses);
    let db = Db::open(&new).expect("a database");
    let names = db.tables("", None, 10).expect("a list");
    assert_eq!(db.table(&names[0].name).expect("a table").count().expect("rows"), 100);
}

/// Rows came out that nobody had ever committed, and nothing was said of it.
#[test]
fn what_may_never_have_been_committed_is_told() {
    let disk = SimFs::new();
    let options = Options {
        advanced: Advanced { file_bytes: 4 << 10, ..Advanced::default() },
        ..Options::default()
    };
    let db = open(&disk, DIR, &options).expect("a sound disk");
    let rows = db.table("t").expect("a sound disk");
    rows.upsert("p", "committed", "old").expect("a sound disk");
    db.flush().expect("a sound disk");
    let tables = |disk: &SimFs| {
        let mut names = disk.list(Path::new(DIR)).expect("a folder");
        names.retain(|name| name.ends_with(".sst"));
        names.sort();
        names
    };
    let before = tables(&disk);
    let mut ingest = rows.ingest().expect("a sound disk");
    let mut row = 0u32;
    // The first file is whole once the second one is there.
    while tables(&disk).len() < before.len() + 2 {
        ingest.add("q", row.to_be_bytes(), [7; 100]).expect("rows in order");
        row += 1;
    }
    let killed = disk.fork();
    let unfinished = tables(&killed).into_iter().find(|name| !before.contains(name));
    let unfinished = unfinished.expect("the first file of the ingest");
    let report = without_manifest(&killed);
    let about = |what: &&String| what.contains(&unfinished) && what.contains("never committed");
    assert!(report.unknown.iter().any(|what| about(&what)), "{:?}", report.unknown);
    let of_before = |what: &String| before.iter().any(|name| what.contains(name));
    assert!(!report.unknown.iter().any(of_before), "{:?}", report.unknown);
    // With its manifest the same folder has none of them.
    let killed = disk.fork();
    let vfs = Arc::new(killed.clone());
    let report = salvage_with(vfs, Path::new(DIR), Path::new(NEW), 7).expect("a salvage");
    assert!(!report.unknown.iter().any(|what| about(&what)), "{:?}", report.unknown);
    let new = open(&killed, NEW, &options).expect("a database");
    let rows = new.table("t").expect("a sound disk");
    assert_eq!(rows.count().expect("a sound disk"), 1);
}

#[test]
fn of_two_ingests_without_a_manifest_the_later_one_counts() {
    let disk = SimFs::new();
    let db = open(&disk, DIR, &Options::default()).expect("a sound disk");
    let rows = db.table("t").expect("a sound disk");
    for value in ["old", "new"] {
        let mut ingest = rows.ingest().expect("a sound disk");
        ingest.add("p", "r", value).expect("a row in order");
        ingest.finish().expect("a sound disk");
    }
    db.close().expect("a sound disk");
    let report = without_manifest(&disk);
    assert_eq!(report.unknown.len(), 3, "of either, and the manifest: {:?}", report.unknown);
    let db = open(&disk, NEW, &Options::default()).expect("a sound disk");
    let names = db.tables("", None, 10).expect("a list");
    let row = db.table(&names[0].name).expect("a table").get("p", "r").expect("a sound disk");
    assert_eq!(row.expect("a row").value, "new");
}
