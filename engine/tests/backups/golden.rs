//! A folder of backups written by format version 1 stays readable: golden/backup-v1 is verified,
//! restored and looked at. Its bytes are never rewritten; a change of the format has a folder of
//! its own.

#![expect(clippy::disallowed_methods, reason = "looks at the folder from outside")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tabulith::backup::depot::Sharing;
use tabulith::backup::folder::{Backups, Which};
use tabulith::env::clock::ManualClock;
use tabulith::env::jobs::ByHand;
use tabulith::vfs::os::OsVfs;
use tabulith::{CommitTs, Db, If};

const START_TICKS: u64 = 16_000_000_000_000_000;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/backup-v1")
}

/// What the golden backups hold. Ran once, by the build that defined version 1.
fn write(dest: &Path) {
    let clock = Arc::new(ManualClock::at(START_TICKS));
    let data = tempfile::tempdir().unwrap();
    let builder = Db::builder().options(crate::common::small(Duration::from_secs(3600)));
    let builder = builder.parts(Arc::new(OsVfs::new()), clock.clone(), Arc::new(ByHand));
    let db = builder.open(data.path()).unwrap();
    let table = db.table("rows").unwrap();
    for row in 0..20 {
        table.upsert("p", format!("r{row:02}"), "x".repeat(row * 60)).unwrap();
    }
    db.compact().unwrap();
    let backups = Backups::with(Arc::new(OsVfs::new()), clock.clone(), dest);
    backups.create(data.path(), Sharing::Copy).unwrap();
    clock.advance(Duration::from_secs(10));
    table.delete("p", "r03", If::Any).unwrap();
    table.partition("p").batch().delete_range("r10".."r15").commit().unwrap();
    table.upsert("p", "r04", "new").unwrap();
    backups.create(data.path(), Sharing::Copy).unwrap();
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(std::fs::copy(entry.path(), to).unwrap()),
        }
    }
}

fn rows(which: Which, dest: &Path) -> Vec<(String, usize)> {
    let new = tempfile::tempdir().unwrap();
    Backups::at(dest).restore(which, new.path().join("data"), Sharing::Copy).unwrap();
    let db = Db::builder().must_exist().open(new.path().join("data")).unwrap();
    let table = db.table("rows").unwrap();
    let rows = table.scan::<&str, &str>(..).unwrap().map(|row| {
        let row = row.unwrap();
        (String::from_utf8(row.row_key.to_vec()).unwrap(), row.value.len())
    });
    rows.collect()
}

#[test]
fn version_1_is_verified_and_restored() {
    if std::env::var_os("TABULITH_WRITE_GOLDEN").is_some_and(|asked| asked == "backup-v1") {
        write(&folder());
    }
    let here = tempfile::tempdir().unwrap();
    copy(&folder(), here.path());
    let text = std::fs::read_to_string(here.path().join("000002.backup")).unwrap();
    assert!(text.starts_with("tabulith backup 1\nnumber 2\n"), "{text}");
    let report = Backups::at(here.path()).verify().unwrap();
    assert!(report.damage.is_empty() && report.backups == 2 && report.files == 3, "{report:?}");
    let all: Vec<_> = (0..20).map(|row| (format!("r{row:02}"), row * 60)).collect();
    let mut left = all.clone();
    left.retain(|(row, _)| row != "r03" && !("r10".."r15").contains(&row.as_str()));
    left[3].1 = "new".len();
    assert_eq!(rows(Which::Number(1), here.path()), all);
    assert_eq!(rows(Which::Newest, here.path()), left);
    let between = Which::At(CommitTs(START_TICKS).after(Duration::from_secs(5)));
    assert_eq!(rows(between, here.path()), all);
}
