//! Work that is held up in the middle while something else happens: a merge, while rows come in or
//! others are read; an ingest of which some files are written, while merges run and files are
//! deleted. Every step is taken at a place that a number decides, so a failure replays.

use crate::opening::DIR;
use crate::workload::small;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, Mutex};
use tabulith::db::Db;
use tabulith::env::clock::ManualClock;
use tabulith::env::jobs::ByHand;
use tabulith::error::Result;
use tabulith::options::{Advanced, Options};
use tabulith::vfs::fault::{Call, FaultFs, Rule};
use tabulith::vfs::mem::SimFs;
use tabulith::{Table, verify};
use tabulith_testkit::counts::{self, count};
use tabulith_testkit::seed::{self, Replay, Rng};

const TRIALS: u64 = 1500;
const START_TICKS: u64 = 16_950_000_000_000_000;
const ROWS: usize = 60;
/// Levels below L1.
const LEVELS_BELOW: u32 = 5;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A database and what it must hold.
struct Trial {
    sim: SimFs,
    faults: FaultFs,
    db: Db,
    table: Table,
    model: Arc<Mutex<Model>>,
    written: u32,
}

fn options(rng: &mut Rng) -> Options {
    let advanced = Advanced {
        l0_compact_files: rng.between(1, 3),
        filter_bits: *rng.pick(&[0, 10]),
        block_cache_bytes: Some(*rng.pick(&[0, 1 << 20])),
        ..small().advanced
    };
    Options { advanced, ..small() }
}

fn key(n: usize) -> Vec<u8> {
    format!("row-{n:03}").into_bytes()
}

fn open(faults: &FaultFs, options: &Options) -> Result<Db> {
    let clock = Arc::new(ManualClock::at(START_TICKS));
    let builder = Db::builder().options(options.clone());
    builder.parts(Arc::new(faults.clone()), clock, Arc::new(ByHand)).open(DIR)
}

/// Rows of one stretch, each with its value; the same number for all.
fn stretch(rng: &mut Rng, number: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (first, len) = (rng.below(ROWS), rng.between(1, 14));
    let step = rng.between(1, 3);
    let bytes = rng.between(4, 160);
    let value = |n: usize| [number.to_le_bytes().to_vec(), vec![n as u8; bytes]].concat();
    (first..(first + len * step).min(ROWS)).step_by(step).map(|n| (key(n), value(n))).collect()
}

fn commit(table: &Table, model: &Mutex<Model>, rows: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
    let batch =
        rows.iter().fold(table.partition("p").batch(), |batch, (rk, v)| batch.upsert(rk, v));
    batch.commit()?;
    model.lock().expect("no panic").extend(rows.iter().cloned());
    Ok(())
}

fn ingest(table: &Table, model: &Mutex<Model>, rows: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
    let mut ingest = table.ingest()?;
    rows.iter().try_for_each(|(rk, value)| ingest.add("p", rk, value))?;
    ingest.finish()?;
    model.lock().expect("no panic").extend(rows.iter().cloned());
    Ok(())
}

/// All rows, by a scan and by their keys.
fn compare(table: &Table, model: &Mutex<Model>, when: &str) {
    let model = model.lock().expect("no panic");
    let scan = table.partition("p").scan::<&[u8]>(..).expect("paused: a scan");
    let found: Vec<_> = scan.map(|row| row.expect("paused: a row")).collect();
    let found = found.into_iter().map(|row| (row.row_key.to_vec(), row.value.to_vec()));
    let found: Model = found.collect();
    assert!(found == *model, "{when}, a scan: {:?}", first_difference(&found, &model));
    for n in 0..ROWS {
        let rk = key(n);
        let row = table.get("p", &rk).expect("paused: a row or none").map(|row| row.value.to_vec());
        assert!(row.as_ref() == model.get(&rk), "{when}, row {n} by its key");
    }
}

fn first_difference(found: &Model, model: &Model) -> Option<(String, Option<u32>, Option<u32>)> {
    let number = |value: &Vec<u8>| value.first_chunk().map(|four| u32::from_le_bytes(*four));
    let keys = found.keys().chain(model.keys());
    let differs = |rk: &&Vec<u8>| found.get(*rk) != model.get(*rk);
    let rk = keys.filter(differs).min()?;
    let of = |rows: &Model| rows.get(rk).and_then(number);
    Some((String::from_utf8_lossy(rk).into_owned(), of(found), of(model)))
}

impl Trial {
    fn new(options: &Options) -> Result<Trial> {
        let sim = SimFs::new();
        let faults = FaultFs::new(Arc::new(sim.clone()));
        let db = open(&faults, options)?;
        let table = db.table("t")?;
        Ok(Trial { sim, faults, db, table, model: Arc::default(), written: 0 })
    }

    fn rows(&mut self, rng: &mut Rng) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.written += 1;
        stretch(rng, self.written)
    }

    fn compact_some(&self, rng: &mut Rng) -> Result<()> {
        let first = rng.below(ROWS);
        let (from, to) = (key(first), key(first + rng.between(1, 20)));
        let (pk, bound) = (b"p".to_vec(), Bound::Excluded);
        self.table.compact((Bound::Included((pk.clone(), from)), bound((pk, to))))
    }

    /// Files of all ages, in several levels.
    fn prepare(&mut self, rng: &mut Rng) -> Result<()> {
        for _ in 0..rng.between(6, 18) {
            match rng.below(12) {
                0..6 => {
                    let rows = self.rows(rng);
                    commit(&self.table, &self.model, &rows)?;
                }
                6 => {
                    let (from, to) = (key(rng.below(ROWS)), key(rng.below(ROWS)));
                    if from < to {
                        let range = from.clone()..to.clone();
                        self.table.partition("p").batch().delete_range(range).commit()?;
                        let mut model = self.model.lock().expect("no panic");
                        model.retain(|rk, _| *rk < from || *rk >= to);
                    }
                }
                7 | 8 => self.db.flush()?,
                9 => self.compact_some(rng)?,
                10 => {
                    let rows = self.rows(rng);
                    ingest(&self.table, &self.model, &rows)?;
                }
                _ => self.db.compact()?,
            }
        }
        self.db.flush()
    }

    /// A merge is held up while rows are committed or ingested, or read.
    fn pause_a_merge(&mut self, rng: &mut Rng) -> Result<bool> {
        let met = Arc::new(Mutex::new(false));
        let (table, db) = (self.table.clone(), self.db.clone());
        let (model, done) = (Arc::clone(&self.model), Arc::clone(&met));
        let (rows, what) = (self.rows(rng), rng.below(4));
        let work = move || {
            // On a thread of its own, as it would be: this one is in the middle of a call.
            let meanwhile = move || -> Result<()> {
                match what {
                    0 | 1 => ingest(&table, &model, &rows)?,
                    2 => commit(&table, &model, &rows)?,
                    _ => {
                        commit(&table, &model, &rows)?;
                        db.flush()?;
                    }
                }
                compare(&table, &model, "paused: while a merge is held up");
                Ok(())
            };
            let outcome = std::thread::spawn(meanwhile).join();
            outcome.expect("paused: a panic").expect("paused: meanwhile");
            *done.lock().expect("no panic") = true;
        };
        // Where files are written: one that is being opened is waited for by all who read it.
        let call = *rng.pick(&[Call::Create, Call::Write, Call::Sync]);
        self.faults.interrupt(Rule::fail(call).named("*.sst").skip(rng.below(4) as u64), work);
        match rng.below(3) {
            0 => self.db.compact()?,
            1 => self.compact_some(rng)?,
            _ => while self.db.step()? {},
        }
        let met = *met.lock().expect("no panic");
        Ok(met)
    }

    /// A merge into L1 is held up whose inputs leave a gap, and rows of the gap are ingested: below
    /// L1 there are some on every level, so that L1 is where they would go, were there no merge.
    fn pause_around_a_gap(&mut self, rng: &mut Rng) -> Result<bool> {
        let some = |number: u32, keys: std::ops::Range<usize>| -> Vec<(Vec<u8>, Vec<u8>)> {
            keys.map(|n| (key(n), number.to_le_bytes().to_vec())).collect()
        };
        for number in 0..LEVELS_BELOW {
            ingest(&self.table, &self.model, &some(number, 25..35))?;
        }
        for keys in [0..rng.between(5, 20), rng.between(40, 50)..ROWS] {
            commit(&self.table, &self.model, &some(90, keys))?;
            self.db.flush()?;
        }
        let met = Arc::new(Mutex::new(false));
        let (table, model, done) = (self.table.clone(), Arc::clone(&self.model), Arc::clone(&met));
        let first = rng.between(25, 30);
        let rows = some(99, first..rng.between(31, 35));
        let work = move || {
            let outcome = std::thread::spawn(move || ingest(&table, &model, &rows)).join();
            outcome.expect("paused: a panic").expect("paused: meanwhile");
            *done.lock().expect("no panic") = true;
        };
        let call = *rng.pick(&[Call::Create, Call::Write, Call::Sync]);
        self.faults.interrupt(Rule::fail(call).named("*.sst"), work);
        let at = |n: usize| Bound::Included((b"p".to_vec(), key(n)));
        self.table.compact((at(0), at(ROWS)))?;
        let met = *met.lock().expect("no panic");
        Ok(met)
    }

    /// An ingest has written files, which no manifest names yet, while other things happen.
    fn pause_an_ingest(&mut self, rng: &mut Rng) -> Result<bool> {
        let mut ingest = self.table.ingest()?;
        let mut rows = Model::new();
        self.written += 1;
        // More than a chunk, so that files are made on the way.
        for n in 0..ROWS {
            let value = [self.written.to_le_bytes().to_vec(), rng.bytes(900)].concat();
            if n % 20 == 10 {
                match rng.below(3) {
                    0 => self.db.compact()?,
                    1 => self.compact_some(rng)?,
                    _ => {
                        let own = self.rows(rng);
                        commit(&self.table, &self.model, &own)?;
                        while self.db.step()? {}
                    }
                }
                compare(&self.table, &self.model, "paused: while an ingest is under way");
            }
            ingest.add("p", key(n), &value)?;
            rows.insert(key(n), value);
        }
        ingest.finish()?;
        self.model.lock().expect("no panic").extend(rows);
        Ok(true)
    }

    /// What is there is right, whole on the disk, and there after a start.
    fn end(self, options: &Options) -> Result<()> {
        let Trial { sim, faults, db, table, model, .. } = self;
        compare(&table, &model, "paused: afterwards");
        db.compact()?;
        compare(&table, &model, "paused: after a merge of all");
        db.close()?;
        drop((table, db));
        let report = verify::check_with(Arc::new(sim), Path::new(DIR))?;
        assert!(report.is_clean(), "paused: {:?}", report.damage);
        let db = open(&faults, options)?;
        compare(&db.table("t")?, &model, "paused: after a start");
        Ok(())
    }
}

fn run(seed: u64) -> Result<bool> {
    let mut rng = Rng::new(seed);
    let options = options(&mut rng);
    let mut trial = Trial::new(&options)?;
    let kind = rng.below(20);
    if kind > 0 {
        trial.prepare(&mut rng)?;
    }
    let held_up = match kind {
        0 => trial.pause_around_a_gap(&mut rng)?,
        1..5 => trial.pause_an_ingest(&mut rng)?,
        _ => trial.pause_a_merge(&mut rng)?,
    };
    trial.end(&options)?;
    Ok(held_up)
}

#[test]
fn what_happens_while_work_is_held_up_changes_nothing() {
    let first = seed::seed_or(1);
    let trials = TRIALS;
    let mut held_up = 0;
    for seed in first..first + trials {
        let _replay = Replay::new(seed, "cargo test -p tabulith --test crash paused");
        match run(seed) {
            Ok(met) => held_up += u64::from(met),
            Err(error) => panic!("paused: trial {seed}: {error:?}"),
        }
    }
    counts::tell("held-up", &[count("trials", held_up, trials / 4)]);
}
