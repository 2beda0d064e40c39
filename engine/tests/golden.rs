//! A database written by format version 1 stays readable, and its bytes stay what docs/format.md
//! says: the text of every file is compared with the text kept beside it.
//!
//! The bytes under `golden/v1` and `golden/zstd-v1` are never rewritten. `TABULITH_BLESS=1`
//! rewrites the texts, for a change of how they are printed; a change of the bytes is a new format
//! version with a folder of its own.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
#![expect(clippy::disallowed_methods, reason = "looks at the folder from outside")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tabulith::env::clock::ManualClock;
use tabulith::env::jobs::ByHand;
use tabulith::inspect::{self, Depth};
use tabulith::vfs::os::OsVfs;
use tabulith::{Advanced, Codec, CommitTs, Compression, Db, Entity, Options};
#[cfg(not(feature = "zstd"))]
use tabulith::{Error, Kind, env::clock::Clock, salvage::rebuild::salvage, verify};
use tempfile::TempDir;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// A database whose clock stands still and which does nothing unasked.
fn open_still(dir: &Path, advanced: Advanced) -> Db {
    let clock = Arc::new(ManualClock::at(16_000_000_000_000_000));
    let builder = Db::builder().options(Options { advanced, ..Options::default() });
    builder.parts(Arc::new(OsVfs::new()), clock, Arc::new(ByHand)).open(dir).unwrap()
}

/// What the golden database holds. Ran once, by the build that defined version 1.
fn write(dir: &Path) {
    let advanced = Advanced {
        wal_segment_bytes: 16 << 10,
        block_bytes: 256,
        memtable_bytes: Some(64 << 10),
        ..Advanced::default()
    };
    let db = open_still(dir, advanced);
    let rows = db.table("rows").unwrap();
    for i in 0..40u8 {
        rows.upsert([b'p', i / 20], [i], format!("value {i}").repeat(i as usize)).unwrap();
    }
    rows.upsert([b'q'], [0], large(5000)).unwrap();
    rows.upsert([b'q'], [1], "9".repeat(6000)).unwrap();
    let far = CommitTs(18_000_000_000_000_000_000);
    let expiring = rows.partition([b'r']).batch();
    expiring.upsert_until([0], "soon", far).upsert_until([1], large(4500), far).commit().unwrap();
    let entities = db.entities("People").unwrap();
    for i in 0..20 {
        let person = Entity::new("q", format!("{i:02}")).with("Age", i).with("Name", "Ann");
        entities.insert(if i % 3 == 0 { person } else { person.with("Paid", i > 9) }).unwrap();
    }
    entities.set_zone_columns(&["Paid", "Rank"]).unwrap();
    db.flush().unwrap();
    rows.delete([b'p', 0], [3], tabulith::If::Present).unwrap();
    entities.insert(Entity::new("p", "ä𝄞").with("Age", 7).with("Name", "Ada")).unwrap();
    db.close().unwrap();
}

/// A value that goes to a blob file, and does not compress.
fn large(bytes: u64) -> Vec<u8> {
    let mix = |i: u64| (i ^ (i >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..bytes).map(|i| (mix(mix(i)) >> 56) as u8).collect()
}

/// What the golden database of zstd holds: values in a table file and one in a blob file. Ran
/// once, as `write`, by a build with the feature.
#[cfg(feature = "zstd")]
fn write_zstd(dir: &Path) {
    let compression = Compression { upper: Codec::Zstd, bottom: Codec::Zstd };
    let advanced = Advanced { wal_segment_bytes: 16 << 10, compression, ..Advanced::default() };
    let db = open_still(dir, advanced);
    let rows = db.table("rows").unwrap();
    for i in 0..20u8 {
        rows.upsert(b"p", [i], format!("value {i}").repeat(10)).unwrap();
    }
    // In a block of its own, which is too short to be compressed: its reference is read by all.
    db.table("large").unwrap().upsert("p", [0], "9".repeat(6000)).unwrap();
    db.flush().unwrap();
    db.close().unwrap();
}

/// A copy of the folder `name`.
fn copy_of(name: &str) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for file in files(name) {
        fs::copy(folder(name).join(&file), copy.path().join(&file)).unwrap();
    }
    copy
}

/// The names of the files of a golden database, without the texts.
fn files(name: &str) -> Vec<String> {
    let all = fs::read_dir(folder(name)).unwrap();
    let mut files: Vec<_> = all.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    files.retain(|file| !file.ends_with(".txt"));
    files.sort();
    files
}

/// Compares each file of the folder `name` with the text that is kept beside it.
fn compare_texts(name: &str, write: fn(&Path)) {
    let folder = folder(name);
    if std::env::var_os("TABULITH_WRITE_GOLDEN").is_some_and(|asked| asked == name) {
        write(&folder);
    }
    for file in files(name).iter().filter(|file| *file != "LOCK") {
        let mut text = String::new();
        inspect::dump(&folder.join(file), Depth::Rows, &mut |line| {
            let line = line.replace(folder.to_str().unwrap(), name);
            text.push_str(&line);
            text.push('\n');
        })
        .unwrap();
        let kept = folder.join(format!("{file}.txt"));
        if std::env::var_os("TABULITH_BLESS").is_some() {
            fs::write(&kept, &text).unwrap();
        }
        assert_eq!(text, fs::read_to_string(&kept).unwrap_or_default(), "{}", kept.display());
    }
}

#[test]
fn version_1_reads_as_it_was_written() {
    compare_texts("v1", write);
    let copy = copy_of("v1");
    let db = Db::open(copy.path()).unwrap();
    let rows = db.table("rows").unwrap();
    assert_eq!(rows.scan::<&str, &str>(..).unwrap().map(Result::unwrap).count(), 43);
    assert_eq!(rows.get([b'r'], [0]).unwrap().unwrap().value, "soon");
    assert!(rows.get([b'r'], [1]).unwrap().unwrap().value == large(4500));
    assert_eq!(rows.get([b'p', 0], [3]).unwrap(), None);
    let value = rows.get([b'p', 1], [39]).unwrap().unwrap().value;
    assert_eq!(value, "value 39".repeat(39));
    assert!(rows.get([b'q'], [0]).unwrap().unwrap().value == large(5000));
    assert!(rows.get([b'q'], [1]).unwrap().unwrap().value == "9".repeat(6000));
    assert_eq!(db.entities("people").unwrap().zone_columns().unwrap(), ["Paid", "Rank"]);
    let ada = db.entities("people").unwrap().get("p", "ä𝄞").unwrap().unwrap();
    assert_eq!(ada.property("Age"), Some(&7.into()));
}

#[test]
#[cfg(feature = "zstd")]
fn values_of_zstd_read_as_they_were_written() {
    compare_texts("zstd-v1", write_zstd);
    let copy = copy_of("zstd-v1");
    let db = Db::open(copy.path()).unwrap();
    let value = |table, rk: u8| db.table(table).unwrap().get("p", [rk]).unwrap().unwrap().value;
    for i in 0..20 {
        assert_eq!(value("rows", i), format!("value {i}").repeat(10));
    }
    assert!(value("large", 0) == "9".repeat(6000));
}

#[test]
#[cfg(not(feature = "zstd"))]
fn a_build_without_zstd_names_the_feature() {
    const LACKING: &str = "values are compressed with zstd, which this build lacks";
    let copy = copy_of("zstd-v1");
    let mut rows = Vec::new();
    inspect::dump(&copy.path().join("000001.sst"), Depth::Rows, &mut |line| {
        rows.extend(line.starts_with("  1/p/").then(|| line.to_owned()));
    })
    .unwrap();
    assert_eq!(rows.len(), 20, "keys are read");
    assert!(rows.iter().all(|row| row.contains(LACKING)), "{rows:?}");

    let db = Db::open(copy.path()).unwrap();
    for (table, file) in [("rows", "000001.sst"), ("large", "000002.blob")] {
        let error = db.table(table).unwrap().get("p", [0]).map(drop).unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported, "{error}");
        assert!(error.place().unwrap().1.is_some(), "{error}");
        let error = error.to_string();
        assert!(error.contains(file) && error.contains(LACKING), "{error}");
    }
    drop(db);

    let compression = Compression { bottom: Codec::Zstd, ..Compression::LZ4 };
    let advanced = Advanced { compression, ..Advanced::default() };
    let options = Options { advanced, ..Options::default() };
    let error = Db::builder().options(options).open(copy.path()).map(drop).unwrap_err().to_string();
    assert!(error.contains("lacks the cargo feature `zstd`"), "{error}");
}

#[test]
#[cfg(not(feature = "zstd"))]
fn what_a_build_without_zstd_cannot_read_is_no_damage() {
    let copy = copy_of("zstd-v1");
    let name = |error: &Error| error.place().unwrap().0.file_name().unwrap().to_owned();
    let named = |errors: &[Error]| errors.iter().map(name).collect::<Vec<_>>();
    let report = verify::check(copy.path()).unwrap();
    assert!(report.damage.is_empty() && !report.is_clean(), "{report:?}");
    assert_eq!(named(&report.unread), ["000001.sst", "000002.blob"]);

    // What it cannot read another build saves: nothing is given up for lost.
    let target = tempfile::tempdir().unwrap();
    let error = salvage(copy.path(), target.path()).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported, "{error}");
    let there = Options { create_if_missing: false, ..Options::default() };
    let error = Db::builder().options(there).open(target.path()).unwrap_err();
    assert!(error.message().starts_with("both copies of the root are missing"), "{error}");

    // Damage is damage all the same.
    for file in ["000001.sst", "000002.blob"] {
        let path = copy.path().join(file);
        let sound = fs::read(&path).unwrap();
        let mut bytes = sound.clone();
        bytes[sound.len() / 2] ^= 1;
        fs::write(&path, &bytes).unwrap();
        let report = verify::check(copy.path()).unwrap();
        assert_eq!(named(&report.damage), [file], "{report:?}");
        fs::write(&path, &sound).unwrap();
    }

    let clock = Arc::new(ManualClock::at(16_000_000_000_000_000));
    let told = Arc::clone(&clock) as Arc<dyn Clock>;
    let parts = Db::builder().parts(Arc::new(OsVfs::new()), told, Arc::new(ByHand));
    let db = parts.open(copy.path()).unwrap();
    while db.stats().scrub.passes == 0 {
        let pause = db.scrub_step().unwrap();
        clock.advance(pause.max(std::time::Duration::from_nanos(1)));
    }
    let scrub = db.stats().scrub;
    assert!(scrub.files >= 2 && scrub.finds == 0, "{scrub:?}");
}
