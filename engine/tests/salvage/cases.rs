//! Folders of one's own making: what is known without a manifest, what a process did until it was
//! let go, files of any length, many values lost.

use crate::judge::{Tally, check};
use crate::life::{DIR, NEW, all_bytes, life, open};
use std::path::Path;
use std::sync::Arc;
use tabulith::error::Kind;
use tabulith::rows::Catalog;
use tabulith::salvage::rebuild::salvage_with;
use tabulith::salvage::report::Report;
use tabulith::vfs::api::{Access, Vfs};
use tabulith::vfs::fault::{Call, Errno, FaultFs, Rule};
use tabulith::vfs::mem::SimFs;
#[cfg(target_os = "linux")]
use tabulith::vfs::os::OsVfs;
use tabulith::{Advanced, Db, If, Options};
use tabulith_testkit::seed::Rng;

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

/// Its rows were on the list of what is lost, and left out of the new folder.
#[test]
fn a_table_file_for_which_there_is_no_handle_is_not_lost() {
    let (sim, _, _) = life(&mut Rng::new(3));
    let faults = FaultFs::new(Arc::new(sim.clone()));
    faults.add(Rule::fail(Call::Open).named("*.sst").with(Errno::TooManyFiles).forever());
    let disk = Arc::new(faults.clone());
    let salvage = |disk: Arc<dyn Vfs>| salvage_with(disk, Path::new(DIR), Path::new(NEW), 7);
    let error = salvage(disk.clone()).expect_err("no handle");
    assert_eq!(error.kind(), Kind::Io, "{error}");
    faults.clear();
    let report = salvage(disk).expect("a salvage");
    assert!(report.losses.is_empty(), "{:?}", report.losses);
}

/// Each was on the list, and that in memory, though there may be a hundred million of them.
#[test]
fn of_many_values_that_are_lost_the_list_does_not_grow_with_each() {
    let disk = SimFs::new();
    let advanced = Advanced { blob_bytes_min: 100, ..Advanced::default() };
    let options = Options { advanced, ..Options::default() };
    let db = open(&disk, DIR, &options).expect("a sound disk");
    let id = db.create_table("t", b"").expect("a sound disk").id;
    let rows = db.table("t").expect("a sound disk");
    let put = |row: u16| rows.upsert("p", row.to_be_bytes(), [7; 100]).expect("a sound disk");
    let commits: Vec<_> = (0..1500).map(put).collect();
    db.flush().expect("a sound disk");
    db.close().expect("a sound disk");
    let names = disk.list(Path::new(DIR)).expect("a folder");
    let blobs: Vec<_> = names.iter().filter(|name| name.ends_with(".blob")).collect();
    for name in &blobs {
        let file = disk.open(&Path::new(DIR).join(name), Access::ReadWrite).expect("a file");
        file.set_len(60).expect("the simulated disk");
    }
    let vfs = Arc::new(disk.clone());
    let report = salvage_with(vfs, Path::new(DIR), Path::new(NEW), 7).expect("a salvage");
    assert_eq!(report.losses.len(), 1000 + blobs.len(), "one by one, then one for each file");
    let lost: u64 = report.losses.iter().filter_map(|loss| loss.versions).sum();
    assert_eq!(lost, commits.len() as u64);
    for (row, ts) in (0u16..).zip(&commits) {
        assert!(report.covers(id, b"p", &row.to_be_bytes(), *ts), "row {row} by commit {ts}");
    }
    let [.., one, many] = &report.losses[..] else { panic!("{:?}", report.losses) };
    assert!(one.to_string().starts_with("a value in "), "{one}");
    let words = ["values in ", " 500 versions of rows, keys from ", " of commits "];
    assert!(words.iter().all(|word| many.to_string().contains(word)), "{many}");
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

/// They were back without a word, and the manifest was called made up for.
#[test]
fn that_deleted_ranges_are_back_without_a_manifest_is_told() {
    let disk = SimFs::new();
    let advanced = Advanced { wal_segment_bytes: 16 << 10, ..Advanced::default() };
    let options = Options { advanced, ..Options::default() };
    let db = open(&disk, DIR, &options).expect("a sound disk");
    let rows = db.table("t").expect("a sound disk");
    // More than are removed one by one.
    for row in 0..70u8 {
        rows.upsert("p", [row], "deleted").expect("a sound disk");
    }
    db.flush().expect("a sound disk");
    rows.truncate().expect("a sound disk");
    rows.upsert("p", "r", "there").expect("a sound disk");
    // Until the log does not tell of it any more.
    let others = db.table("others").expect("a sound disk");
    for row in 0..100u8 {
        others.upsert("p", [row], [7; 1000]).expect("a sound disk");
        if row % 20 == 0 {
            db.flush().expect("a sound disk");
        }
    }
    assert_eq!(rows.count().expect("a sound disk"), 1);
    db.close().expect("a sound disk");
    let report = without_manifest(&disk);
    let told = ["the manifest is lost (missing or damaged: ROOT-A)", "ranges that were deleted"];
    let is_told = |what: &String| told.iter().all(|words| what.contains(words));
    assert!(report.unknown.iter().any(is_told), "{:?}", report.unknown);
    assert!(report.repaired.is_empty(), "{:?}", report.repaired);
    let db = open(&disk, NEW, &options).expect("a sound disk");
    let rows = db.table("t").expect("a table");
    assert_eq!(rows.count().expect("a sound disk"), 71, "as it is told");
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
