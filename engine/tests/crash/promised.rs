//! Rows of the table of faults in RELIABILITY.md, each caused by itself: exactly this fault, and
//! exactly what is promised for it.

use crate::corpus::path;
use crate::opening::{DIR, open_on};
use crate::workload::small;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tabulith::db::Db;
use tabulith::env::clock::ManualClock;
use tabulith::env::jobs::ByHand;
use tabulith::error::{Error, Kind};
use tabulith::options::{Advanced, Options};
use tabulith::vfs::api::{Access, Vfs};
use tabulith::vfs::fault::{Call, Errno, FaultFs, Rule};
use tabulith::vfs::mem::{Profile, SimFs};
use tabulith_testkit::seed::Rng;

const TABLE: &str = "t0";
const ROWS: u32 = 60;

fn options() -> Options {
    let advanced = Advanced { block_cache_bytes: Some(0), ..small().advanced };
    Options { advanced, ..small() }
}

fn open(vfs: Arc<dyn Vfs>) -> Result<Db, Error> {
    crate::opening::open_in(Path::new(DIR), vfs, &options())
}

fn fill(db: &Db, from: u32) -> Result<(), Error> {
    let table = db.table(TABLE)?;
    (from..from + ROWS)
        .try_for_each(|n| table.upsert("p", format!("r{n:04}"), vec![n as u8; 90]).map(drop))
}

fn files(sim: &SimFs) -> BTreeMap<String, Vec<u8>> {
    let names = sim.list(Path::new(DIR)).expect("the folder is there");
    names.into_iter().map(|name| (name.clone(), crate::corpus::contents(sim, &name))).collect()
}

/// The log cannot be read: the open is refused, names the file, and leaves the log as it is; later
/// it is all there.
#[test]
fn a_log_that_cannot_be_read_is_not_cut() {
    let sim = SimFs::new();
    let db = open(Arc::new(sim.clone())).expect("the disk is well");
    fill(&db, 0).expect("the disk is well");
    sim.kill();
    drop(db);
    let before = files(&sim);
    let faults = FaultFs::new(Arc::new(sim.clone()));
    let mut refused = 0;
    for n in 0.. {
        faults.add(Rule::fail(Call::Read).named("*.wal").skip(n).forever().with(Errno::Io));
        let opened = open(Arc::new(faults.clone()));
        faults.clear();
        let Err(error) = opened else { break };
        let file = error.place().map(|(file, _)| file.display().to_string()).unwrap_or_default();
        assert!(error.kind() == Kind::Io && file.ends_with(".wal"), "read {n}: {error:?}");
        // It may have begun to bring what it had read to files; what it did not read is as it was.
        let after = files(&sim);
        for (name, bytes) in before.iter().filter(|(name, _)| name.ends_with(".wal")) {
            assert!(after.get(name) == Some(bytes), "read {n}: {name} has changed");
        }
        refused += 1;
    }
    assert!(refused > 2, "only {refused} opens were refused");
    let db = open(Arc::new(sim)).expect("the disk is well again");
    let count = db.table(TABLE).expect("it is there").count().expect("rows");
    assert_eq!(count, u64::from(ROWS));
}

/// A block is damaged: a merge that meets it fails and keeps its inputs, and what is sound is read.
#[test]
fn a_merge_of_what_is_damaged_keeps_its_inputs() {
    let sim = SimFs::new();
    let db = open(Arc::new(sim.clone())).expect("the disk is well");
    fill(&db, 0).expect("the disk is well");
    db.flush().expect("the disk is well");
    fill(&db, ROWS / 2).expect("the disk is well");
    db.flush().expect("the disk is well");
    let tables = |sim: &SimFs| -> Vec<String> {
        files(sim).into_keys().filter(|name| name.ends_with(".sst")).collect()
    };
    // Of the last one, which has nothing but rows of this table.
    let inputs = tables(&sim);
    let damaged = inputs.last().expect("a table file").clone();
    let file = sim.open(&path(&damaged), Access::ReadWrite).expect("it is there");
    let mut byte = [0];
    file.read_exact_at(&mut byte, 200).expect("it has that many");
    file.write_all_at(&[byte[0] ^ 1], 200).expect("it has that many");
    let error = db.compact().expect_err("a merge meets the damage");
    assert_eq!(error.kind(), Kind::Corrupt, "{error:?}");
    let place = error.place().map(|(file, _)| file.display().to_string()).unwrap_or_default();
    assert!(place.ends_with(&damaged), "{error:?} is not about {damaged}");
    let left = tables(&sim);
    assert!(inputs.iter().all(|input| left.contains(input)), "{inputs:?} became {left:?}");
    let table = db.table(TABLE).expect("it is there");
    let (mut right, mut failed) = (0, 0);
    for n in 0..ROWS * 3 / 2 {
        match table.get("p", format!("r{n:04}")) {
            Ok(Some(row)) if row.value == vec![n as u8; 90] => right += 1,
            Err(error) if error.kind() == Kind::Corrupt => failed += 1,
            other => panic!("row {n}: {other:?}"),
        }
    }
    assert!(failed > 0 && right > ROWS, "{right} rows are read, {failed} are not");
}

/// The clock stands still, goes back and jumps, over restarts, kills and power losses: each
/// commit's timestamp, which is its ETag, comes after every one that anybody was told.
#[test]
fn timestamps_rise_whatever_the_clock_does() {
    const START: u64 = 16_950_000_000_000_000;
    let (mut rng, mut disk) = (Rng::new(5), SimFs::new());
    let clock = Arc::new(ManualClock::at(START));
    let (mut told, mut kept) = (0, 0);
    for life in 0..120 {
        let builder = Db::builder().options(options());
        let builder = builder.parts(Arc::new(disk.clone()), clock.clone(), Arc::new(ByHand));
        let db = builder.open(DIR).expect("a database");
        let table = db.table(TABLE).expect("it is there");
        assert_eq!(table.count().expect("rows"), kept, "life {life}: rows are lost");
        for n in 0..rng.below(8) {
            match rng.below(4) {
                0 => clock.set_wall(START - rng.below(1 << 40) as u64),
                1 => clock.advance(Duration::from_millis(rng.below(10_000) as u64)),
                _ => {} // It stands still.
            }
            let ts = table.insert("p", format!("{life}-{n}"), "x").expect("it is written").0;
            assert!(ts > told, "life {life}: {ts} after {told}");
            let row = table.get("p", format!("{life}-{n}")).expect("read").expect("it is there");
            assert_eq!(row.ts.0, ts);
            (told, kept) = (ts, kept + 1);
        }
        match rng.below(3) {
            0 => db.close().expect("the disk is well"),
            1 => disk.kill(),
            _ => {
                disk.kill();
                let states: Vec<_> = disk.crash_states(Profile::Hostile, 8, life).collect();
                let state = rng.pick(&states).clone();
                drop(db);
                disk = SimFs::after_crash(&state);
                continue;
            }
        }
        drop(db);
    }
    assert!(kept > 300, "only {kept} commits");
    drop(open_on(Arc::new(disk), &options()).unwrap_or_else(|stop| panic!("{stop}")));
}
