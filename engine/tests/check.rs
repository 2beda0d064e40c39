//! `check` reads every byte of every live file: one bit is flipped at each place of each file of a
//! small database, and the damage is named by that file and an offset in it. What may be flipped
//! unseen is listed below, with its reason, to the byte.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
#![allow(clippy::print_stderr, reason = "the figures are what the run is for")]

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tabulith::env::clock::ManualClock;
use tabulith::env::jobs::ByHand;
use tabulith::internals::mend_root;
use tabulith::salvage::rebuild::salvage_with;
use tabulith::verify::{self, Report};
use tabulith::vfs::api::{Access, Vfs};
use tabulith::vfs::fault::{Call, FaultFs, Rule};
use tabulith::vfs::mem::SimFs;
use tabulith::{Advanced, Compression, Db, Durability, Error, Kind, Options};
use tabulith_testkit::counts::{self, count};

const DIR: &str = "db";
/// Frames of the log begin here, in a log of small segments.
const BLOCK_BYTES: usize = 512;

/// Several table files, blob files, versions of rows and a partition that only the past shows, a
/// table whose rows last a while, and a log of which a part is needed.
fn database() -> SimFs {
    let sim = SimFs::new();
    let advanced = Advanced {
        memtable_bytes: Some(16 << 10),
        wal_segment_bytes: 16 << 10,
        block_bytes: 512,
        file_bytes: 4 << 10,
        blob_bytes_min: 600,
        blob_file_bytes: 4 << 10,
        scrub_period_s: 0,
        ..Advanced::default()
    };
    let history = Some(Duration::from_secs(3600));
    let clock = Arc::new(ManualClock::at(17_672_256_000_000_000));
    let db = Db::builder()
        .options(Options { advanced, threads: Some(1), history, ..Options::default() })
        .parts(Arc::new(sim.clone()), clock, Arc::new(ByHand))
        .open(DIR)
        .unwrap();
    let table = db.table("t").unwrap();
    for row in 0..60_usize {
        let len = if row % 10 == 0 { 700 } else { 60 };
        let value: Vec<u8> = (0..len).map(|i| (i * row % 251) as u8).collect();
        table.upsert("p", format!("{row:04}"), value).unwrap();
        while db.step().unwrap() {}
    }
    db.flush().unwrap();
    table.partition("p").batch().delete_range("0050".."0055").commit().unwrap();
    for row in 0..10 {
        table.upsert("p", format!("{row:04}"), "once more").unwrap();
    }
    // More rows than are removed one by one.
    let gone =
        (0..70).fold(table.partition("gone").batch(), |batch, row: u8| batch.upsert([row], ""));
    gone.commit().unwrap();
    db.flush().unwrap();
    table.drop_partition("gone").unwrap();
    let aging = db.table("aging").unwrap();
    aging.set_ttl(Some(Duration::from_secs(60))).unwrap();
    aging.upsert("p", "r", "a minute").unwrap();
    db.flush().unwrap();
    for row in 0..8 {
        table.upsert("p", format!("in the log {row}"), [7; 300]).unwrap();
        while db.step().unwrap() {} // A frame of its own, and a seal behind it.
    }
    db.close().unwrap();
    sim
}

fn check(sim: &SimFs) -> Report {
    verify::check_with(Arc::new(sim.clone()), Path::new(DIR)).unwrap()
}

fn bytes(sim: &SimFs, name: &str) -> Vec<u8> {
    let file = sim.open(&Path::new(DIR).join(name), Access::Read).unwrap();
    file.read_vec_at(file.len().unwrap() as usize, 0).unwrap()
}

/// Whether the report names `name` and an offset in it.
fn is_named(report: &Report, name: &str, len: u64) -> bool {
    report.damage.iter().any(|damage| {
        damage.place().is_some_and(|(file, offset)| {
            file.file_name().is_some_and(|own| own == name) && offset.is_some_and(|at| at <= len)
        })
    })
}

/// The places at which nothing is said, as ranges.
fn unseen(sim: &SimFs, name: &str) -> Vec<Range<usize>> {
    let path = Path::new(DIR).join(name);
    let sound = bytes(sim, name);
    let file = sim.open(&path, Access::ReadWrite).unwrap();
    let mut unseen: Vec<Range<usize>> = Vec::new();
    for (at, byte) in sound.iter().enumerate() {
        file.write_all_at(&[byte ^ 1 << (at % 8)], at as u64).unwrap();
        let report = check(sim);
        file.write_all_at(&[*byte], at as u64).unwrap();
        if is_named(&report, name, sound.len() as u64) {
            continue;
        }
        assert!(report.is_clean(), "{name} at {at}: {:?}", report.damage);
        match unseen.last_mut() {
            Some(last) if last.end == at => last.end = at + 1,
            _ => unseen.push(at..at + 1),
        }
    }
    unseen
}

#[test]
fn a_flip_of_any_byte_of_any_file_is_named_by_check() {
    let sim = database();
    assert!(check(&sim).is_clean());
    let mut names = sim.list(Path::new(DIR)).unwrap();
    names.sort();
    let (mut kinds, mut flips, mut padding, mut unused) = (BTreeSet::new(), 0, 0, 0);
    for name in &names {
        let (sound, ranges) = (bytes(&sim, name), unseen(&sim, name));
        let kind = name.rsplit('.').next().unwrap();
        flips += sound.len() as u64;
        if ranges.is_empty() {
            kinds.insert(kind.to_owned());
            continue;
        }
        assert_eq!(kind, "wal", "{name}: {ranges:?}");
        if ranges.first() == Some(&(0..sound.len())) {
            // Kept to be overwritten: the manifest says that the log begins behind it.
            unused += 1;
            continue;
        }
        kinds.insert(kind.to_owned());
        let tail = ranges.last().unwrap().clone();
        for range in ranges {
            // Between the end of a frame, or of the header, and the next block; and what is behind
            // the last frame: zeros, or what the segment held before it was taken again.
            assert_eq!(range.end % BLOCK_BYTES, 0, "{name}: {range:?}");
            assert!(range.start % BLOCK_BYTES > 0, "{name}: {range:?} is a frame's");
            if range != tail {
                assert!(range.len() < BLOCK_BYTES, "{name}: {range:?}");
                let is_zeros = sound[range.clone()].iter().all(|byte| *byte == 0);
                assert!(is_zeros, "{name}: {range:?}");
            }
            padding += range.len() as u64;
        }
    }
    for kind in ["sst", "blob", "wal", "manifest-a", "manifest-b", "ROOT-A", "ROOT-B"] {
        assert!(kinds.iter().any(|own| own == kind), "no {kind} among {kinds:?}: {names:?}");
    }
    assert!(unused < 3, "{unused} segments");
    eprintln!("{flips} flips, {padding} bytes of padding in the log, {unused} segments unused");
    assert!(check(&sim).is_clean(), "all is as it was");
    counts::tell("check", &[count("flips", flips, 20_000), count("padding", padding, 0)]);
}

/// A folder with so many values of a byte and two of these lengths behind them, in one blob file.
fn with_values(count: u32, lens: [usize; 2]) -> SimFs {
    let sim = SimFs::new();
    let compression = Compression::NONE;
    let advanced = Advanced { blob_bytes_min: 1, compression, ..Advanced::default() };
    let clock = Arc::new(ManualClock::at(17_672_256_000_000_000));
    let db = Db::builder()
        .options(Options { advanced, threads: Some(1), ..Options::default() })
        .parts(Arc::new(sim.clone()), clock, Arc::new(ByHand))
        .open(DIR)
        .unwrap();
    let table = db.table("t").unwrap();
    let rows: Vec<u32> = (0..count).collect();
    for rows in rows.chunks(1000) {
        let batch = table.partition("p").batch();
        let batch = rows.iter().fold(batch, |batch, row| batch.upsert(row.to_be_bytes(), [1]));
        batch.commit().unwrap();
    }
    for (row, len) in (count..).zip(lens) {
        table.upsert("p", row.to_be_bytes(), vec![7; len]).unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    sim
}

/// A blob file that is sound, and not the one that the rows were written with.
#[test]
fn a_row_that_refers_to_what_is_no_value_is_named() {
    // The second time they are more than are held at a time.
    for count in [0, 140_000] {
        let (sim, other) = (with_values(count, [700, 900]), with_values(count, [900, 700]));
        let mut names = sim.list(Path::new(DIR)).unwrap();
        names.retain(|name| name.ends_with(".blob"));
        assert_eq!(names.len(), 1, "{names:?}");
        assert!(check(&sim).is_clean() && check(&other).is_clean());
        let path = Path::new(DIR).join(&names[0]);
        let file = sim.open(&path, Access::ReadWrite).unwrap();
        file.write_all_at(&bytes(&other, &names[0]), 0).unwrap();
        let damage = check(&sim).damage;
        let [error] = &damage[..] else { panic!("{damage:?}") };
        assert!(error.to_string().contains("refers to what is no value"), "{error}");
        assert_eq!(error.place().map(|(file, _)| file), Some(&*path), "{error}");
    }
}

/// One who opens, writes, merges and closes again and again beside the check damages nothing.
#[test]
fn a_folder_of_a_later_build_is_unread_and_not_damaged() {
    let sim = database();
    let path = Path::new(DIR).join("ROOT-A");
    let mut root = bytes(&sim, "ROOT-A");
    root[8] += 1;
    mend_root(&mut root);
    sim.open(&path, Access::ReadWrite).unwrap().write_all_at(&root, 0).unwrap();
    let Report { damage, unread, .. } = check(&sim);
    assert!(damage.is_empty(), "{damage:?}");
    assert_eq!(unread.iter().map(Error::kind).collect::<Vec<_>>(), [Kind::Unsupported]);
    let salvaged = salvage_with(Arc::new(sim), Path::new(DIR), Path::new("new"), 7);
    assert_eq!(salvaged.unwrap_err().kind(), Kind::Unsupported);
}

/// Of a large folder one look takes longer than a merge: it found a file missing each time, or the
/// log's segments used again, and after eight looks called that damage.
#[test]
fn files_and_segments_that_are_given_up_before_their_turn_are_no_damage() {
    let sim = SimFs::new();
    let advanced = Advanced { wal_segment_bytes: 16 << 10, ..Advanced::default() };
    let options = Options { advanced, threads: Some(1), ..Options::default() };
    let clock = Arc::new(ManualClock::at(17_672_256_000_000_000));
    let builder = Db::builder().options(options);
    let db = builder.parts(Arc::new(sim.clone()), clock, Arc::new(ByHand)).open(DIR).unwrap();
    let table = db.table("t").unwrap();
    let write = move |name: &str| {
        for row in 0..40 {
            table.upsert("p", format!("{name} {row}"), [7; 900]).unwrap();
        }
    };
    let write_over = {
        let (db, write) = (db.clone(), write.clone());
        move |name: &'static str| {
            write(name);
            db.flush().unwrap();
            db.compact().unwrap();
            write(name);
            db.flush().unwrap();
            while db.step().unwrap() {}
        }
    };
    write("before");
    db.flush().unwrap();
    write("in the log");
    let names = sim.list(Path::new(DIR)).unwrap();
    let faults = FaultFs::new(Arc::new(sim.clone()));
    let writes = write_over.clone();
    faults.interrupt(Rule::fail(Call::Open).named("*.sst"), move || writes("amid files"));
    faults.interrupt(Rule::fail(Call::List).skip(1), move || {
        (0..4).for_each(|_| write_over("amid the log"));
    });
    let report = verify::check_with(Arc::new(faults.clone()), Path::new(DIR)).unwrap();
    assert!(report.is_clean(), "{:?}", report.damage);
    let left = sim.list(Path::new(DIR)).unwrap();
    let is_gone = |kind: &str| names.iter().any(|n| n.ends_with(kind) && !left.contains(n));
    assert!(is_gone(".sst"), "nothing was given up: {names:?} {left:?}");
    assert!(report.files > 0 && report.versions > 0);

    // A file that is named and missing still is damage.
    let lost = left.iter().find(|name| name.ends_with(".sst")).unwrap();
    db.close().unwrap();
    sim.remove(&Path::new(DIR).join(lost)).unwrap();
    let report = check(&sim);
    assert_eq!(report.damage.len(), 1, "{:?}", report.damage);
}

#[test]
fn a_folder_that_somebody_writes_to_is_not_called_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let advanced = Advanced { memtable_bytes: Some(256 << 10), ..Advanced::default() };
    let options = Options { advanced, durability: Durability::Flushed, ..Options::default() };
    let open = || Db::builder().options(options.clone()).open(&data).unwrap();
    drop(open());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 0_u64.. {
                let db = open();
                let table = db.table("t").unwrap();
                table.upsert("p", round.to_be_bytes(), [7; 500]).unwrap();
                if round.is_multiple_of(8) {
                    db.compact().unwrap();
                }
                drop(table);
                db.close().unwrap();
                if stop.load(Ordering::Acquire) {
                    return;
                }
            }
        });
        let checks = (0..400).map(|_| verify::check(&data));
        let first = checks.into_iter().find(|report| !report.as_ref().is_ok_and(Report::is_clean));
        stop.store(true, Ordering::Release);
        writer.join().unwrap();
        assert!(first.is_none(), "{first:?}");
    });
}
