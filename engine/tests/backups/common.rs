//! A database on a simulated disk under a clock that is turned by hand, and the model of all it
//! ever showed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tabulith::backup::depot::Sharing;
use tabulith::backup::folder::{Backups, Which};
use tabulith::env::clock::{Clock as _, ManualClock};
use tabulith::env::jobs::ByHand;
use tabulith::vfs::api::{Access, Vfs};
use tabulith::vfs::mem::SimFs;
use tabulith::{Advanced, CommitTs, Db, If, Options, verify};
use tabulith_testkit::seed::Rng;

pub(crate) const DIR: &str = "db";
pub(crate) const DEST: &str = "backups";
pub(crate) const START_TICKS: u64 = 17_672_256_000_000_000;
const TABLES: [&str; 3] = ["one", "two", "three"];

/// Table, PartitionKey, RowKey: commit and value.
pub(crate) type Rows = BTreeMap<(String, String, String), (CommitTs, Vec<u8>)>;

/// What was visible from a commit on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct World {
    pub(crate) tables: Vec<String>,
    pub(crate) rows: Rows,
}

/// Every state that the database went through, with the commit that made it.
#[derive(Default)]
pub(crate) struct Model {
    pub(crate) now: World,
    past: Vec<(CommitTs, World)>,
}

impl Model {
    fn note(&mut self, at: CommitTs) {
        assert!(self.past.last().is_none_or(|(before, _)| *before < at), "commits rise");
        self.past.push((at, self.now.clone()));
    }

    pub(crate) fn at(&self, moment: CommitTs) -> World {
        let after = self.past.partition_point(|(at, _)| *at <= moment);
        after.checked_sub(1).map(|i| self.past[i].1.clone()).unwrap_or_default()
    }

    pub(crate) fn last(&self) -> CommitTs {
        self.past.last().map_or(CommitTs::ZERO, |(at, _)| *at)
    }

    pub(crate) fn commits(&self) -> usize {
        self.past.len()
    }
}

/// A disk, a clock, a database and its model.
pub(crate) struct House {
    pub(crate) disk: SimFs,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) db: Db,
    pub(crate) model: Model,
    history: Duration,
}

/// Options under which a few hundred rows make several files on several levels.
pub(crate) fn small(history: Duration) -> Options {
    let advanced = Advanced {
        memtable_bytes: Some(16 << 10),
        wal_segment_bytes: 64 << 10,
        block_bytes: 512,
        file_bytes: 8 << 10,
        level_base_bytes: 32 << 10,
        level_fanout: 4,
        blob_bytes_min: 600,
        blob_file_bytes: 16 << 10,
        ..Advanced::default()
    };
    Options { history: Some(history), advanced, ..Options::default() }
}

impl House {
    pub(crate) fn new(history: Duration) -> House {
        let disk = SimFs::new();
        let clock = Arc::new(ManualClock::at(START_TICKS));
        let db = open(&disk, &clock, DIR, small(history)).unwrap();
        House { disk, clock, db, model: Model::default(), history }
    }

    pub(crate) fn backups(&self) -> Backups {
        backups(&self.disk, &self.clock)
    }

    pub(crate) fn now(&self) -> CommitTs {
        CommitTs(self.clock.wall_ticks())
    }

    pub(crate) fn put(&mut self, table: &str, pk: &str, rk: &str, value: &[u8]) {
        self.table(table);
        let at = self.db.table(table).unwrap().upsert(pk, rk, value).unwrap();
        let key = (table.to_owned(), pk.to_owned(), rk.to_owned());
        self.model.now.rows.insert(key, (at, value.to_vec()));
        self.model.note(at);
    }

    /// Makes the table where there is none.
    fn table(&mut self, table: &str) {
        if self.model.now.tables.iter().any(|name| name == table) {
            return;
        }
        self.db.table(table).unwrap();
        self.model.now.tables.push(table.to_owned());
        self.model.now.tables.sort();
        let made = self.db.visible();
        self.model.note(made);
    }

    /// Removes all rows of a table.
    pub(crate) fn truncate(&mut self, table: &str) {
        self.table(table);
        let before = self.db.visible();
        self.db.table(table).unwrap().truncate().unwrap();
        if self.db.visible() > before {
            self.model.now.rows.retain(|(of, _, _), _| of != table);
            self.model.note(self.db.visible());
        }
    }

    /// One of the things that happen to a database, by chance.
    pub(crate) fn step(&mut self, rng: &mut Rng) {
        self.clock.advance(Duration::from_millis(rng.between(0, 2000) as u64));
        let table = *rng.pick(&TABLES);
        let (pk, rk) = (format!("p{}", rng.below(4)), format!("r{:03}", rng.skewed_below(120)));
        match rng.below(100) {
            0..70 => {
                let len = if rng.chance(8) { rng.between(600, 5000) } else { rng.between(0, 120) };
                let value = rng.bytes(len);
                self.put(table, &pk, &rk, &value);
            }
            70..84 => {
                self.table(table);
                let key = (table.to_owned(), pk.clone(), rk.clone());
                if self.model.now.rows.remove(&key).is_some() {
                    let gone = self.db.table(table).unwrap().delete(&pk, &rk, If::Any).unwrap();
                    self.model.note(gone);
                }
            }
            84..86 => self.truncate(table),
            86..87 => {
                if self.db.drop_table(table).unwrap() {
                    self.model.now.rows.retain(|(of, _, _), _| of != table);
                    self.model.now.tables.retain(|name| name != table);
                    self.model.note(self.db.visible());
                }
            }
            87..89 => self.db.flush().unwrap(),
            89..90 => self.db.compact().unwrap(),
            90..91 => self.db.settle().unwrap(),
            91..92 => self.reopen(),
            _ => drop(self.db.step().unwrap()),
        }
    }

    fn reopen(&mut self) {
        self.db.close().unwrap();
        self.db = open(&self.disk, &self.clock, DIR, small(self.history)).unwrap();
    }
}

pub(crate) fn backups(disk: &SimFs, clock: &Arc<ManualClock>) -> Backups {
    Backups::with(Arc::new(disk.clone()), clock.clone(), Path::new(DEST))
}

pub(crate) fn open(
    disk: &SimFs,
    clock: &Arc<ManualClock>,
    dir: &str,
    options: Options,
) -> tabulith::Result<Db> {
    let builder = Db::builder().options(options);
    builder.parts(Arc::new(disk.clone()), clock.clone(), Arc::new(ByHand)).open(dir)
}

/// All that a database shows, as of now.
pub(crate) fn look(db: &Db) -> World {
    let snapshot = db.snapshot().unwrap();
    let mut world = World::default();
    for name in TABLES {
        let Some(table) = snapshot.table(name) else { continue };
        world.tables.push(name.to_owned());
        for row in snapshot.scan::<&str, &str>(&table, ..).unwrap() {
            let row = row.unwrap();
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            let key = (name.to_owned(), text(&row.partition_key), text(&row.row_key));
            world.rows.insert(key, (row.ts, row.value.to_vec()));
        }
    }
    world.tables.sort();
    world
}

/// Restores to the folder `dir`, proves the files there and gives what they show.
pub(crate) fn restored(house: &House, which: Which, dir: &str, sharing: Sharing) -> World {
    let done = house.backups().restore(which, dir, sharing);
    done.unwrap_or_else(|error| panic!("{which:?}: {error}"));
    let report = verify::check_with(Arc::new(house.disk.clone()), Path::new(dir)).unwrap();
    assert!(report.is_clean(), "{which:?}: {:?}", report.damage);
    let options = Options { create_if_missing: false, ..small(house.history) };
    let db = open(&house.disk, &house.clock, dir, options).unwrap();
    let world = look(&db);
    db.close().unwrap();
    world
}

/// Every file below `dir`, with its bytes.
pub(crate) fn files(disk: &SimFs, dir: &Path) -> Vec<std::path::PathBuf> {
    let mut all: Vec<_> = disk.list(dir).unwrap().iter().map(|name| dir.join(name)).collect();
    all.retain(|path| disk.open(path, Access::Read).is_ok());
    all.sort();
    all
}
