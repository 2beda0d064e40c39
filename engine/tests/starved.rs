//! Memory that ends: a process that is given no piece of it at the n-th request, for n all over an
//! open, a load with flushes and merges, and a close. What it acknowledged is there when it is
//! opened again.
//!
//! Rust ends a process whose allocator gives nothing, so each n is a process of its own: this
//! program once more, with the plan in its environment. All work in one folder, so that each also
//! recovers what the one before left.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "looks at the folder from outside"
)]
#![allow(unsafe_code, reason = "an allocator is unsafe by its signature")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::env;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};
use tabulith::options::Durability;
use tabulith::{Advanced, Db, Options, Table};
use tabulith_testkit::counts::{count, tell};
use tabulith_testkit::seed::{Replay, Rng, number, seed_or};

const REPLAY: &str = "cargo test -p tabulith --test starved";

/// The plan of a process: its folder, and how many pieces it gets.
const FOLDER: &str = "TABULITH_STARVED_FOLDER";
const PIECES: &str = "TABULITH_STARVED_PIECES";

/// How often a process runs out; `TABULITH_STARVED=5000` for a long run.
const RUNS: &str = "TABULITH_STARVED";
const RUNS_DEFAULT: u64 = 100;

const PARTITIONS: u64 = 4;
const ROWS: u64 = 3;
const COMMITS: u64 = 600;

/// Signal by which `abort` ends a process.
const SIGABRT: i32 = 6;

/// Pieces that may still be given; counts down.
static LEFT: AtomicU64 = AtomicU64::new(u64::MAX);

struct Starving;

#[global_allocator]
static ALLOCATOR: Starving = Starving;

/// Whether the next piece is given. Only one is refused: whoever can go on without it may.
fn is_given() -> bool {
    LEFT.fetch_sub(1, Ordering::Relaxed) != 0
}

// SAFETY: every call is handed on as it came, or answered by null, which means that there is no
// memory.
unsafe impl GlobalAlloc for Starving {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those of the allocator below.
        if is_given() { unsafe { System.alloc(layout) } } else { null_mut() }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        if is_given() { unsafe { System.alloc_zeroed(layout) } } else { null_mut() }
    }

    unsafe fn realloc(&self, piece: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as above.
        if is_given() { unsafe { System.realloc(piece, layout, bytes) } } else { null_mut() }
    }

    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(piece, layout) }
    }
}

/// So little memory that the load flushes and merges.
fn options() -> Options {
    let advanced = Advanced {
        memtable_bytes: Some(64 << 10),
        wal_segment_bytes: 32 << 10,
        ..Advanced::default()
    };
    Options { durability: Durability::Flushed, advanced, ..Options::default() }
}

fn partition(commit: u64) -> [u8; 1] {
    [b'a' + (commit % PARTITIONS) as u8]
}

/// Row `row` of a commit: its number, and bytes that only it has.
fn value(commit: u64, row: u64) -> Vec<u8> {
    let mut value = commit.to_le_bytes().to_vec();
    value.extend(Rng::new(commit * ROWS + row).bytes(200));
    value
}

/// The commit of each partition's rows, which have to be of one, whole; 0 where there are none.
fn newest(table: &Table) -> Vec<u64> {
    let of = |partition: u64| {
        let rows = (0..ROWS).map(|row| table.get(self::partition(partition), [row as u8]).unwrap());
        let found: Vec<_> = rows.map(|row| row.map(|row| row.value)).collect();
        if found.iter().all(Option::is_none) {
            return 0;
        }
        let first = found[0].as_ref().expect("a batch is there whole");
        let commit = u64::from_le_bytes(*first.first_chunk().unwrap());
        for (row, found) in found.iter().enumerate() {
            let found = found.as_deref().expect("a batch is there whole");
            assert_eq!(found, value(commit, row as u64), "row {row} of commit {commit}");
        }
        commit
    };
    (0..PARTITIONS).map(of).collect()
}

/// What a process of the plan does: commits one after the other from the one behind the last, each
/// noted before it is begun and when it was acknowledged.
fn commit_all(folder: &Path, pieces: u64) {
    let mut begun = File::create(folder.join("begun")).unwrap();
    let mut acknowledged = File::create(folder.join("acknowledged")).unwrap();
    LEFT.store(pieces, Ordering::Relaxed);
    let db = Db::builder().options(options()).open(folder.join("db")).unwrap();
    let table = db.table("rows").unwrap();
    let next = newest(&table).into_iter().max().unwrap() + 1;
    for commit in next..next + COMMITS {
        begun.write_all(&commit.to_le_bytes()).unwrap();
        let mut batch = table.partition(partition(commit)).batch();
        for row in 0..ROWS {
            batch = batch.upsert([row as u8], value(commit, row));
        }
        batch.commit().unwrap();
        acknowledged.write_all(&commit.to_le_bytes()).unwrap();
    }
    drop(table);
    db.close().unwrap();
    let used = pieces.wrapping_sub(LEFT.swap(u64::MAX, Ordering::Relaxed));
    fs::write(folder.join("used"), used.to_string()).unwrap();
}

/// The commits of a note, each 8 bytes.
fn commits(note: &Path) -> Vec<u64> {
    fs::read(note).unwrap().as_chunks().0.iter().map(|commit| u64::from_le_bytes(*commit)).collect()
}

/// Runs a process that gets `pieces`; whether it ran out.
fn starve(folder: &Path, pieces: u64) -> bool {
    let mut child = Command::new(env::current_exe().unwrap());
    child.args(["--exact", "what_was_acknowledged_is_there_whenever_memory_ends", "--nocapture"]);
    child.env(FOLDER, folder).env(PIECES, pieces.to_string()).env("RUST_BACKTRACE", "0");
    let status = child.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert!(status.success() || status.signal() == Some(SIGABRT), "{pieces} pieces: {status}");
    !status.success()
}

#[test]
fn what_was_acknowledged_is_there_whenever_memory_ends() {
    if let (Some(folder), Some(pieces)) = (env::var_os(FOLDER), number(PIECES)) {
        return commit_all(Path::new(&folder), pieces);
    }
    let seed = seed_or(1);
    let _replay = Replay::new(seed, REPLAY);
    let mut rng = Rng::new(seed);
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let whole = folder.join("whole");
    fs::create_dir(&whole).unwrap();
    assert!(!starve(&whole, u64::MAX - 1), "with all the memory it ends by itself");
    let used: u64 = fs::read_to_string(whole.join("used")).unwrap().parse().unwrap();
    let runs = number(RUNS).unwrap_or(RUNS_DEFAULT);
    let (mut ended, mut kept) = (0, 0);
    let (mut at_least, mut at_most) = (vec![0; PARTITIONS as usize], vec![0; PARTITIONS as usize]);
    for run in 0..runs {
        // At first those of the open, one after the other; then anywhere.
        let pieces = if run < runs / 4 { run * 8 } else { rng.below(used as usize) as u64 };
        ended += u64::from(starve(folder, pieces));
        let acknowledged = commits(&folder.join("acknowledged"));
        kept += acknowledged.len();
        for (bounds, note) in
            [(&mut at_least, acknowledged), (&mut at_most, commits(&folder.join("begun")))]
        {
            for commit in note {
                bounds[(commit % PARTITIONS) as usize] = commit;
            }
        }
        let db = Db::builder().options(options()).open(folder.join("db")).unwrap();
        for (partition, found) in newest(&db.table("rows").unwrap()).into_iter().enumerate() {
            let bounds = at_least[partition]..=at_most[partition];
            assert!(
                bounds.contains(&found),
                "{pieces} pieces: partition {partition}, commit {found} of {bounds:?}"
            );
            at_least[partition] = found;
        }
        db.close().unwrap();
    }
    let floor = runs * 9 / 10;
    tell(
        "starved",
        &[
            count("processes", ended, floor),
            count("pieces", used, 1000),
            count("kept", kept as u64, floor),
        ],
    );
}
