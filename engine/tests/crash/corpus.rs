//! A closed database with a file of every kind, for damage: what it holds, its files, and what they
//! were earlier.

use crate::look::LONG_HISTORY;
use crate::model::{History, Need, World};
use crate::opening::DIR;
use crate::ops::Op;
use crate::run::Run;
use crate::workload::small;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tabulith::ids::CommitTs;
use tabulith::options::{Advanced, Compression, Durability, Options};
use tabulith::vfs::api::{Access, Vfs};
use tabulith::vfs::mem::SimFs;

/// Ways to make a database that differ in what stands in its files and in how they are read.
pub(crate) const CONFIGS: [&str; 3] = ["cached", "plain", "mapped"];

/// A closed database.
pub(crate) struct Corpus {
    pub(crate) config: &'static str,
    pub(crate) options: Options,
    pub(crate) world: World,
    /// All that it ever was.
    pub(crate) history: History,
    /// Moments that its window shows, and what they were.
    past: Vec<(CommitTs, World)>,
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// What files held that hold something else by now, oldest first.
    pub(crate) earlier: BTreeMap<String, Vec<Vec<u8>>>,
    sim: SimFs,
}

fn options(config: &str) -> Options {
    let cached = Advanced { block_cache_bytes: Some(0), ..small().advanced };
    let plain = Advanced { filter_bits: 0, compression: Compression::NONE, ..cached.clone() };
    let advanced = match config {
        "plain" => plain,
        "mapped" => Advanced { mapped: true, blob_bytes_min: 100, ..cached },
        _ => Advanced { block_cache_bytes: Some(1 << 20), ..cached },
    };
    // Two keep versions of rows that only the past shows, and one gives them up.
    let history = (config != "plain").then_some(LONG_HISTORY);
    Options { advanced, history, ..small() }
}

/// Some of everything that leaves a mark in a file.
fn ops() -> Vec<Op> {
    let level = Durability::Synced;
    let write = |table, pk, rows: &[(u8, Option<u16>)]| {
        let rows = rows.to_vec();
        Op::Write { table, pk, rows, level, wait: true }
    };
    let many: Vec<_> = (0..20).map(|rk| (rk, Some(u16::from(rk) * 9))).collect();
    // Blocks of one length, which one could take for another.
    let equal: Vec<_> = (10..40).map(|rk| (rk, Some(64))).collect();
    vec![
        Op::Create(0),
        Op::Create(1),
        Op::Create(2),
        write(0, 0, &many),
        write(0, 1, &[(0, Some(2500))]),
        write(2, 0, &[(0, Some(30))]),
        Op::Flush,
        Op::Declare { table: 1, columns: 1 },
        write(0, 0, &[(3, None), (5, Some(12)), (40, Some(30))]),
        write(1, 0, &[(0, Some(300)), (1, Some(300))]),
        Op::Compact,
        // What has outlived its table, which then lets rows live longer.
        Op::SetTtl { table: 1, ticks: 3 },
        write(0, 0, &[(1, Some(90)), (2, Some(700)), (7, None)]),
        Op::SetTtl { table: 1, ticks: 1 << 50 },
        write(1, 5, &equal),
        Op::Fill { table: 0, pk: 4, level, wait: true },
        Op::Flush,
        write(1, 0, &[(1, Some(20))]),
        Op::Erase { table: 0, pk: 4, from: 3, to: Some(6), level, wait: true },
        Op::Flush,
        // A partition that is gone as a whole, and versions of rows above older ones.
        Op::Fill { table: 1, pk: 4, level, wait: true },
        Op::Flush,
        Op::Erase { table: 1, pk: 4, from: 0, to: None, level, wait: true },
        write(0, 0, &[(1, Some(30)), (2, None), (7, Some(8))]),
        Op::Flush,
        Op::Ingest { table: 1, pk: 6, rows: vec![(0, 50), (1, 700), (2, 60)] },
        Op::Drop(2),
        // From here on in the log alone.
        Op::Life(Some(1 << 50)),
        write(0, 0, &[(6, None)]),
        Op::Life(None),
        write(1, 2, &[(0, Some(700))]),
        write(0, 2, &[(0, Some(5)), (1, Some(1500))]),
        write(0, 3, &[(0, Some(9000))]),
        write(0, 3, &[(1, Some(3000))]),
        write(1, 3, &[(1, Some(300))]),
        write(1, 3, &[(2, Some(30))]),
    ]
}

/// Percent of the commits that moments of the past come after: files alone hold these.
const MOMENTS: [usize; 2] = [35, 60];

fn moment(history: &History, percent: usize) -> (CommitTs, World) {
    let (ts, world) = history.after(history.len() * percent / 100);
    (CommitTs(ts), world.clone())
}

impl Corpus {
    pub(crate) fn new(config: &'static str) -> Corpus {
        let (sim, options) = (SimFs::new(), options(config));
        let vfs = Arc::new(sim.clone());
        let mut run = Run::new(&sim, vfs, &options, History::new(), Need::default());
        let mut corpus = Corpus {
            config,
            options: options.clone(),
            world: World::default(),
            history: History::new(),
            past: Vec::new(),
            files: BTreeMap::new(),
            earlier: BTreeMap::new(),
            sim: sim.clone(),
        };
        run.open(|need| need.kill).unwrap_or_else(|stop| panic!("{stop}"));
        for op in &ops() {
            run.apply(op).unwrap_or_else(|stop| panic!("{op:?}: {stop}"));
            corpus.look();
        }
        run.close().unwrap_or_else(|stop| panic!("{stop}"));
        corpus.look();
        run.history.restart_time();
        corpus.world = run.history.last().clone();
        corpus.history = run.history.clone();
        if options.history.is_some() {
            corpus.past = MOMENTS.map(|part| moment(&run.history, part)).into();
        }
        corpus.earlier.retain(|name, _| corpus.files.contains_key(name));
        corpus
    }

    /// Takes note of what the files hold now.
    fn look(&mut self) {
        let names = self.sim.list(Path::new(DIR)).expect("the folder is there");
        let now: BTreeMap<_, _> =
            names.into_iter().map(|name| (name.clone(), contents(&self.sim, &name))).collect();
        for (name, bytes) in &self.files {
            if now.get(name).is_some_and(|now| now != bytes) {
                self.earlier.entry(name.clone()).or_default().push(bytes.clone());
            }
        }
        self.files = now;
    }

    /// A moment of the past and what it was, another one for each `turn`; for some turns none.
    pub(crate) fn moment(&self, turn: u64) -> Option<&(CommitTs, World)> {
        self.past.get(turn as usize % (self.past.len() + 1))
    }

    /// The same files for somebody to damage.
    pub(crate) fn copy(&self) -> SimFs {
        self.sim.fork()
    }

    /// Files of the kind of `name`, itself left out.
    pub(crate) fn kin(&self, name: &str) -> Vec<String> {
        let kind = kind_of(name);
        let kin = self.files.keys().filter(|other| *other != name && kind_of(other) == kind);
        kin.cloned().collect()
    }
}

/// `wal`, `sst`, `ROOT` and the like.
pub(crate) fn kind_of(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((_, kind)) => kind,
        None => name.split('-').next().unwrap_or(name),
    }
}

/// The path of a file of the database.
pub(crate) fn path(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

/// All bytes of a file of the database.
pub(crate) fn contents(sim: &SimFs, name: &str) -> Vec<u8> {
    let read = sim.open(&path(name), Access::Read).and_then(|file| {
        let mut bytes = vec![0; file.len()? as usize];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    });
    read.expect("the simulated disk reads")
}
