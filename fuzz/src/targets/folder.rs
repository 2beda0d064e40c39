//! A whole database folder: any names and bytes are a database, or an error that says why not; and
//! what opens is left in order.
//!
//! Input: files, each its name behind a length in one byte and its bytes behind one in four. Zeros
//! at the end of a log segment may be left out.

use crate::input::{Input, text};
use crate::targets::wal::padded;
use std::path::Path;
use std::sync::Arc;
use tabulith::db::Db;
use tabulith::env::clock::ManualClock;
use tabulith::env::jobs::ByHand;
use tabulith::error::{Error, Kind};
use tabulith::internals;
use tabulith::options::{Advanced, Options};
use tabulith::verify::check_with;
use tabulith::vfs::api::Vfs;
use tabulith::vfs::mem::SimFs;

/// The folder.
const DIR: &str = "/db";

const FILES_MAX: usize = 16;

/// Opens the folder of the input, as it is and with all checksums mended.
pub fn folder(data: &[u8]) {
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    let mut input = Input::new(data);
    while !input.is_empty() && files.len() < FILES_MAX {
        let name = text(input.short()).replace(['/', '\0'], "_");
        let bytes = input.long();
        let bytes = if name.ends_with(".wal") { padded(bytes) } else { bytes.to_vec() };
        let is_name = !name.is_empty() && name != "." && name != "..";
        if is_name && files.iter().all(|(known, _)| *known != name) {
            files.push((name, bytes));
        }
    }
    open(&files);
    for (name, bytes) in &mut files {
        match name.rsplit_once('.').map(|(_, ending)| ending) {
            Some("wal") => drop(internals::mend_log_segment(bytes, None)),
            Some("sst") => internals::mend_table(bytes),
            Some("manifest-a" | "manifest-b") => internals::mend_manifest(bytes),
            _ => internals::mend_root(bytes),
        }
    }
    open(&files);
}

fn open(files: &[(String, Vec<u8>)]) {
    let disk = SimFs::new();
    disk.create_dir_all(Path::new(DIR)).expect("a folder");
    for (name, bytes) in files {
        let file = disk.create(&Path::new(DIR).join(name)).expect("a new file");
        file.write_all_at(bytes, 0).expect("room for it");
    }
    let report = check_with(Arc::new(disk.clone()), Path::new(DIR));
    let sound = report.is_ok_and(|report| report.is_clean());
    match use_it(&disk, sound) {
        // A second opening finds what the first has left.
        Ok(()) => match use_it(&disk, sound) {
            Err(error) if sound => panic!("opened once, then {error}"),
            _ => {}
        },
        Err(error) => {
            assert!(!sound, "a check finds no damage, and opening says {error}");
            // Mended, they may be of a codec that this build lacks.
            let kinds = [Kind::Corrupt, Kind::Unsupported, Kind::Invalid, Kind::Io];
            assert!(kinds.contains(&error.kind()), "{error:?}");
        }
    }
}

/// Opens, reads every row from both ends, writes one, and closes.
fn use_it(disk: &SimFs, sound: bool) -> Result<(), Error> {
    let options = Options {
        advanced: Advanced {
            wal_segment_bytes: 16 << 10,
            memtable_bytes: Some(4 << 10),
            block_cache_bytes: Some(0),
            ..Advanced::default()
        },
        ..Options::default()
    };
    let clock = Arc::new(ManualClock::at(17_000_000_000_000_000));
    let db = Db::builder().options(options);
    let db = db.parts(Arc::new(disk.clone()), clock, Arc::new(ByHand)).open(DIR)?;
    let mut damaged = false;
    for name in ["rows", "others"] {
        let table = db.table(name)?;
        let mut forward = table.scan::<&[u8], &[u8]>(..)?;
        let forward: Result<Vec<_>, _> = forward.by_ref().take(1 << 20).collect();
        let backward: Result<Vec<_>, _> =
            table.scan::<&[u8], &[u8]>(..)?.rev().take(1 << 20).collect();
        match (forward, backward) {
            (Ok(forward), Ok(backward)) => {
                assert!(!sound || forward.len() == backward.len(), "both ends show the same");
            }
            // Damage in a file shows only where it is read.
            _ => damaged = true,
        }
    }
    let table = db.table("rows")?;
    table.upsert("fuzz", "row", "value")?;
    let read = table.get("fuzz", "row")?;
    assert!(read.is_some_and(|row| row.value == "value"), "what was written is read");
    if !damaged {
        db.flush()?;
    }
    db.close()
}
