//! The simulated disk against the real one: the same random calls give the same results.
//!
//! Whatever differs here would be a lie in every crash test. Errors are compared by kind.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tabulith::env::rng::Rng;
use tabulith::vfs::api::{Access, File, LockGuard, Vfs};
use tabulith::vfs::mem::SimFs;
use tabulith::vfs::os::OsVfs;
use tabulith_testkit::counts::{count, tell};
use tabulith_testkit::seed::{Replay, seed_or};

const REPLAY: &str = "cargo test -p tabulith --test simfs random_calls";

/// Calls on one folder, and folders: a million in all.
const CALLS: u64 = 20_000;
const SEEDS: u64 = 50;
const NAMES: [&str; 5] = ["a", "b", "c", "sub/a", "none/a"];
const FILE_BYTES: u64 = 20_000;

#[test]
fn random_calls_give_the_same_results() -> io::Result<()> {
    let (first, mut worked) = (seed_or(0), 0);
    for seed in first..first + SEEDS {
        let _replay = Replay::new(seed, REPLAY);
        let real_root = tempfile::tempdir()?;
        let sim_root = PathBuf::from("/sim");
        let (real, sim) = (OsVfs::new(), SimFs::new());
        sim.create_dir_all(&sim_root)?;
        let mut real = Side::new(&real, real_root.path());
        let mut sim = Side::new(&sim, &sim_root);
        for side in [&mut real, &mut sim] {
            assert_eq!(side.run(&Call::Create("kept")), Ok(Vec::new()));
        }
        let mut rng = Rng::seeded(seed);
        for number in 0..CALLS {
            let call = Call::random(&mut rng);
            let (expected, got) = (real.run(&call), sim.run(&call));
            assert_eq!(got, expected, "seed {seed}, call {number}: {call:?}");
            worked += u64::from(got.is_ok_and(|_| real.is_asked(&call)));
        }
    }
    // Others are of names that there are not, or read beyond an end.
    tell("simfs", &[count("calls", SEEDS * CALLS, 1_000_000), count("worked", worked, 300_000)]);
    Ok(())
}

#[derive(Clone, Debug)]
enum Call {
    CreateDir(&'static str),
    Create(&'static str),
    Open(&'static str, Access),
    Remove(&'static str),
    Rename(&'static str, &'static str),
    Link(&'static str, &'static str),
    List(&'static str),
    SyncDir(&'static str),
    Lock(&'static str),
    Unlock,
    Read { handle: usize, offset: u64, bytes: usize },
    Write { handle: usize, offset: u64, bytes: Vec<u8> },
    WriteParts { handle: usize, offset: u64, bytes: Vec<u8> },
    WriteSynced { handle: usize, offset: u64, bytes: Vec<u8> },
    Map { handle: usize },
    Zeros { handle: usize },
    SetLen { handle: usize, len: u64 },
    Reserve { handle: usize, len: u64 },
    Len { handle: usize },
    Sync { handle: usize },
    Close { handle: usize },
}

impl Call {
    fn random(rng: &mut Rng) -> Call {
        let name = |rng: &mut Rng| NAMES[rng.below(NAMES.len() as u64) as usize];
        let dir = |rng: &mut Rng| ["", "sub", "none", "kept"][rng.below(4) as usize];
        let handle = rng.below(6) as usize;
        let offset = rng.below(FILE_BYTES);
        // Sizes around sectors and pages, where the simulated disk has its seams.
        let size = [0, 1, 511, 512, 513, 4095, 4096, 8192][rng.below(8) as usize];
        let offset = if rng.one_in(2) { offset / 512 * 512 } else { offset };
        match rng.below(64) {
            0 => Call::CreateDir(["sub", "sub/deep", "kept", "kept/x"][rng.below(4) as usize]),
            1..6 => Call::Create(name(rng)),
            6..9 => Call::Open(name(rng), Access::Read),
            9..14 => Call::Open(name(rng), Access::ReadWrite),
            14..16 => Call::Remove(name(rng)),
            16..19 => same_folder(name(rng), name(rng)),
            19..21 => Call::Link(name(rng), name(rng)),
            21..23 => Call::List(dir(rng)),
            23 => Call::SyncDir(dir(rng)),
            24 => Call::Lock(name(rng)),
            25 => Call::Unlock,
            26..41 => Call::Read { handle, offset, bytes: size },
            41..52 => {
                let bytes = vec![rng.below(3) as u8; size];
                match rng.below(6) {
                    0 => Call::WriteParts { handle, offset, bytes },
                    1 => Call::WriteSynced { handle, offset, bytes },
                    _ => Call::Write { handle, offset, bytes },
                }
            }
            52 => Call::Map { handle },
            53 => Call::Zeros { handle },
            54..57 => Call::SetLen { handle, len: offset },
            57 => Call::Reserve { handle, len: offset },
            58..61 => Call::Len { handle },
            61 => Call::Sync { handle },
            _ => Call::Close { handle },
        }
    }
}

/// The contract speaks of renames in one folder only.
fn same_folder(from: &'static str, to: &'static str) -> Call {
    let same = Path::new(from).parent() == Path::new(to).parent();
    Call::Rename(from, if same { to } else { from })
}

struct Side<'a> {
    vfs: &'a dyn Vfs,
    root: &'a Path,
    handles: Vec<Arc<dyn File>>,
    lock: Option<Box<dyn LockGuard>>,
}

/// What a call has shown, or the kind of its error.
type Seen = Result<Vec<u8>, io::ErrorKind>;

impl<'a> Side<'a> {
    fn new(vfs: &'a dyn Vfs, root: &'a Path) -> Side<'a> {
        Side { vfs, root, handles: Vec::new(), lock: None }
    }

    /// Whether the call is one of the disk: those of a handle that is not held are of nobody.
    fn is_asked(&self, call: &Call) -> bool {
        match call {
            Call::Read { handle, .. }
            | Call::Write { handle, .. }
            | Call::WriteParts { handle, .. }
            | Call::WriteSynced { handle, .. }
            | Call::Map { handle }
            | Call::Zeros { handle }
            | Call::SetLen { handle, .. }
            | Call::Reserve { handle, .. }
            | Call::Len { handle }
            | Call::Sync { handle } => *handle < self.handles.len(),
            Call::Unlock | Call::Close { .. } => false,
            _ => true,
        }
    }

    fn run(&mut self, call: &Call) -> Seen {
        self.try_run(call).map_err(|e| e.kind())
    }

    fn try_run(&mut self, call: &Call) -> io::Result<Vec<u8>> {
        let (vfs, root) = (self.vfs, self.root);
        let at = |name: &str| root.join(name);
        match call {
            Call::CreateDir(dir) => vfs.create_dir_all(&at(dir))?,
            Call::Create(name) => self.keep(vfs.create(&at(name))?),
            Call::Open(name, access) => self.keep(vfs.open(&at(name), *access)?),
            Call::Remove(name) => vfs.remove(&at(name))?,
            Call::Rename(from, to) => vfs.rename(&at(from), &at(to))?,
            Call::Link(from, to) => vfs.hard_link(&at(from), &at(to))?,
            Call::List(dir) => return listed(vfs.list(&at(dir))?),
            Call::SyncDir(dir) => vfs.sync_dir(&at(dir))?,
            Call::Lock(name) => {
                let lock = vfs.lock(&at(name))?;
                self.lock.get_or_insert(lock);
            }
            Call::Unlock => self.lock = None,
            Call::Close { handle } if *handle < self.handles.len() => {
                self.handles.remove(*handle);
            }
            Call::Close { .. } => {}
            on_file => return self.run_on_file(on_file),
        }
        Ok(Vec::new())
    }

    fn run_on_file(&self, call: &Call) -> io::Result<Vec<u8>> {
        let (Call::Read { handle, .. }
        | Call::Write { handle, .. }
        | Call::WriteParts { handle, .. }
        | Call::WriteSynced { handle, .. }
        | Call::Map { handle }
        | Call::Zeros { handle }
        | Call::SetLen { handle, .. }
        | Call::Reserve { handle, .. }
        | Call::Len { handle }
        | Call::Sync { handle }) = call
        else {
            return Ok(Vec::new());
        };
        let Some(file) = self.handles.get(*handle) else {
            return Ok(Vec::new());
        };
        match call {
            Call::Read { offset, bytes, .. } => {
                let mut buf = vec![0xee; *bytes];
                file.read_exact_at(&mut buf, *offset)?;
                return Ok(buf);
            }
            Call::Write { offset, bytes, .. } => file.write_all_at(bytes, *offset)?,
            Call::WriteParts { offset, bytes, .. } => {
                let (first, second) = bytes.split_at(bytes.len() / 3);
                file.write_parts_at(&[first, second], *offset)?;
            }
            Call::WriteSynced { offset, bytes, .. } => file.write_synced_at(bytes, *offset)?,
            Call::Map { .. } => return Ok(file.map()?.to_vec()),
            Call::Zeros { .. } => return zeros(&**file),
            Call::SetLen { len, .. } => file.set_len(*len)?,
            Call::Reserve { len, .. } => file.reserve(*len)?,
            Call::Sync { .. } => file.sync()?,
            _ => return Ok(file.len()?.to_le_bytes().to_vec()),
        }
        Ok(Vec::new())
    }

    fn keep(&mut self, file: Arc<dyn File>) {
        // Six at most: the oldest handle closes.
        if self.handles.len() == 6 {
            self.handles.remove(0);
        }
        self.handles.push(file);
    }
}

/// Whether there is nothing but zeros where the system says so; where that begins is its affair.
fn zeros(file: &dyn File) -> io::Result<Vec<u8>> {
    let (from, bytes) = (file.zeros_from()?, file.map()?);
    let rest = bytes.get(from as usize..).expect("within the file");
    assert!(rest.iter().all(|byte| *byte == 0), "bytes from {from} on are not all zero");
    Ok(Vec::new())
}

fn listed(mut names: Vec<String>) -> io::Result<Vec<u8>> {
    names.sort();
    Ok(names.join("\n").into_bytes())
}
