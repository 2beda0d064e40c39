//! Bytes change at rest, in every file of a database that was closed in order: what is read then is
//! right, or an error that names the file. Never another value, never a missing row.

use crate::look::{Stop, read_world};
use crate::model::{History, Need, World};
use crate::run::{DIR, Run, open_on};
use crate::workload::{Op, small};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use tabulith::error::Kind;
use tabulith::options::{Advanced, Compression, Durability, Options};
use tabulith::vfs::api::{Access, Vfs};
use tabulith::vfs::mem::SimFs;
use tabulith_testkit::seed::Rng;

/// What happens to a file.
#[derive(Clone, Debug)]
enum Damage {
    Flip {
        at: u64,
        bit: u8,
    },
    Byte {
        at: u64,
        byte: u8,
    },
    Garbage {
        at: u64,
        bytes: usize,
    },
    /// Bytes of the same file, from somewhere else in it.
    Copied {
        from: u64,
        to: u64,
        bytes: usize,
    },
    Cut(u64),
    Longer(u64),
    Removed,
    /// The file is another one of its kind.
    Swapped(String),
}

/// A closed database, and what it holds.
struct Corpus {
    sim: SimFs,
    options: Options,
    world: World,
    files: BTreeMap<String, u64>,
}

/// How damage came out.
#[derive(Default)]
struct Counts {
    /// Every answer was right.
    harmless: u64,
    refused: u64,
    /// It opened, and the reads that met the damage failed.
    reads_failed: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { harmless, refused, reads_failed } = self;
        write!(f, "{harmless} harmless, {refused} refused, {reads_failed} reads failed")
    }
}

impl Corpus {
    fn new(options: Options) -> Corpus {
        let sim = SimFs::new();
        let vfs = Arc::new(sim.clone());
        let mut run = Run::new(&sim, vfs, &options, History::new(), Need::default());
        let write = |table, pk, rows: &[(u8, Option<u16>)]| Op::Write {
            table,
            pk,
            rows: rows.to_vec(),
            level: Durability::Synced,
            wait: true,
        };
        let many: Vec<_> = (0..20).map(|rk| (rk, Some(u16::from(rk) * 9))).collect();
        let ops = [
            Op::Create(0),
            Op::Create(1),
            write(0, 0, &many),
            write(0, 1, &[(0, Some(2500))]),
            Op::Flush,
            write(0, 0, &[(3, None), (5, Some(12)), (40, Some(30))]),
            write(1, 0, &[(0, Some(300)), (1, Some(300))]),
            Op::Compact,
            write(1, 0, &[(1, Some(20))]),
            Op::Flush,
            write(0, 0, &[(6, None)]),
            write(1, 2, &[(0, Some(700))]),
            write(0, 2, &[(0, Some(5)), (1, Some(1500))]),
            // Into a second segment of the log.
            write(0, 3, &[(0, Some(9000))]),
            write(0, 3, &[(1, Some(3000))]),
            write(1, 3, &[(1, Some(300))]),
        ];
        run.open(|need| need.kill)
            .and_then(|_| run.apply_all(&ops))
            .and_then(|()| run.close())
            .unwrap_or_else(|stop| panic!("{stop}"));
        let dir = Path::new(DIR);
        let names = sim.list(dir).expect("the folder is there");
        let len = |name: &String| sim.open(&dir.join(name), Access::Read)?.len();
        let files = names.into_iter().map(|name| len(&name).map(|len| (name, len)));
        let files = files.collect::<Result<_, _>>().expect("the files are there");
        Corpus { sim, options, world: run.history.last().clone(), files }
    }

    /// A copy with `damage` in `file`, opened and read.
    fn look(&self, file: &str, damage: &Damage) -> Result<World, Stop> {
        let sim = self.sim.fork();
        damage.apply(&sim, &Path::new(DIR).join(file)).expect("the simulated disk does it");
        read_world(&open_on(Arc::new(sim), &self.options)?)
    }

    /// Judges one damage.
    fn check(&self, file: &str, damage: &Damage, counts: &mut Counts) {
        let case = || format!("{file}: {damage:?}");
        match self.look(file, damage) {
            Ok(world) if world == self.world => counts.harmless += 1,
            Ok(world) => {
                let mut history = History::new();
                history.begin_with(self.world.clone());
                panic!("{}: {}", case(), history.explain(&world, 0, 0));
            }
            Err(Stop::Wrong(what)) => panic!("{}: {what}", case()),
            Err(Stop::Refused(error)) => {
                let metadata = file.starts_with("ROOT") || file.contains("manifest");
                assert!(!metadata, "{}: the other copy is whole, yet {error:?}", case());
                let kinds = [Kind::Corrupt, Kind::Io];
                assert!(kinds.contains(&error.kind()), "{}: {error:?}", case());
                let (place, _) = error.place().unwrap_or_else(|| panic!("{}: {error:?}", case()));
                let named = place.file_name().is_some_and(|name| name.to_string_lossy() == file);
                assert!(named || file.ends_with(".wal"), "{}: {error:?}", case());
                match error.message().contains("log") || file.ends_with(".wal") {
                    true => counts.refused += 1,
                    false => counts.reads_failed += 1,
                }
            }
        }
    }
}

impl Damage {
    fn apply(&self, sim: &SimFs, path: &Path) -> std::io::Result<()> {
        let file = sim.open(path, Access::ReadWrite)?;
        let read = |at: u64, bytes: usize| {
            let mut buf = vec![0; bytes];
            file.read_exact_at(&mut buf, at).map(|()| buf)
        };
        match self {
            Damage::Flip { at, bit } => {
                let byte = read(*at, 1)?[0] ^ 1 << bit;
                file.write_all_at(&[byte], *at)
            }
            Damage::Byte { at, byte } => file.write_all_at(&[*byte], *at),
            Damage::Garbage { at, bytes } => file.write_all_at(&Rng::new(*at).bytes(*bytes), *at),
            Damage::Copied { from, to, bytes } => file.write_all_at(&read(*from, *bytes)?, *to),
            Damage::Cut(len) | Damage::Longer(len) => file.set_len(*len),
            Damage::Removed => sim.remove(path),
            Damage::Swapped(other) => {
                let other = sim.open(&path.with_file_name(other), Access::Read)?;
                let mut bytes = vec![0; other.len()? as usize];
                other.read_exact_at(&mut bytes, 0)?;
                file.set_len(bytes.len() as u64)?;
                file.write_all_at(&bytes, 0)
            }
        }
    }

    /// Every byte once, every sector, lengths and whole files. Every `step`-th byte of a long file.
    fn all(file: &str, len: u64, files: &BTreeMap<String, u64>) -> Vec<Damage> {
        let step = if len > 8000 { 5 } else { 1 };
        let bytes = (0..len).step_by(step);
        let mut all: Vec<_> =
            bytes.clone().map(|at| Damage::Flip { at, bit: (at % 8) as u8 }).collect();
        all.extend(
            bytes
                .step_by(3)
                .flat_map(|at| [Damage::Byte { at, byte: 0 }, Damage::Byte { at, byte: 0xff }]),
        );
        for at in (0..len).step_by(512) {
            let bytes = (len - at).min(512) as usize;
            all.push(Damage::Garbage { at, bytes });
            let from = (at + 512) % len.next_multiple_of(512);
            if from + bytes as u64 <= len {
                all.push(Damage::Copied { from, to: at, bytes });
            }
        }
        all.extend((0..len).step_by(if len < 600 { 1 } else { 97 }).map(Damage::Cut));
        all.extend([1, 511, 4096].map(|more| Damage::Longer(len + more)));
        // Of the log only the first segment is named by the manifest: the loss of a later file as a
        // whole cannot be told from a log that ends there.
        if file.rsplit('.').next() != Some("wal") || Some(file) == files.keys().next().map(|f| &**f)
        {
            all.push(Damage::Removed);
        }
        let ending = file.rsplit('.').next();
        let kin = files.keys().filter(|name| *name != file && name.rsplit('.').next() == ending);
        all.extend(kin.map(|name| Damage::Swapped(name.clone())));
        all
    }
}

fn sweep(advanced: Advanced) {
    let corpus = Corpus::new(Options { advanced, ..small() });
    let clean = corpus.look("LOCK", &Damage::Longer(0)).unwrap_or_else(|stop| panic!("{stop}"));
    assert!(clean == corpus.world, "the corpus reads as it was written");
    let mut all = 0;
    for (file, len) in &corpus.files {
        let mut counts = Counts::default();
        for damage in Damage::all(file, *len, &corpus.files) {
            corpus.check(file, &damage, &mut counts);
        }
        eprintln!("damage: {file}, {len} bytes: {counts}");
        all += counts.harmless + counts.refused + counts.reads_failed;
    }
    assert!(all > 5_000, "only {all} damages");
}

#[test]
fn damage_is_never_a_wrong_answer() {
    sweep(Advanced { block_cache_bytes: Some(0), ..small().advanced });
}

#[test]
fn damage_is_never_a_wrong_answer_without_filters_and_compression() {
    sweep(Advanced { filter_bits: 0, compression: Compression::NONE, ..small().advanced });
}
