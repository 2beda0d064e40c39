//! Damage: a byte that changes in any file of a backup is found and named, damage of the source
//! does not become a backup, and what is damaged is not restored.

use crate::common::{DEST, DIR, House, files, restored};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tabulith::Kind;
use tabulith::backup::depot::Sharing;
use tabulith::backup::folder::{Backups, Which};
use tabulith::vfs::api::{Access, Vfs};
use tabulith::vfs::fault::{Call, FaultFs, Rule};
use tabulith::vfs::mem::SimFs;
use tabulith_testkit::counts::{self, count};
use tabulith_testkit::seed::{self, Replay, Rng};

fn house() -> House {
    let mut house = House::new(Duration::from_secs(1000));
    for row in 0..300u32 {
        let value = vec![row as u8; if row.is_multiple_of(50) { 2000 } else { 80 }];
        house.put("one", "p", &format!("r{row:04}"), &value);
    }
    house
}

fn flip(disk: &SimFs, path: &Path, at: u64) {
    let file = disk.open(path, Access::ReadWrite).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
}

/// Every file that a backup needs.
fn needed(disk: &SimFs) -> Vec<PathBuf> {
    let dest = Path::new(DEST);
    let mut all = files(disk, &dest.join("files"));
    all.extend(files(disk, dest).into_iter().filter(|path| path.extension().is_some()));
    all
}

#[test]
fn copies_share_no_byte_with_the_database_though_an_earlier_run_made_links() {
    let house = house();
    house.db.flush().unwrap();
    house.backups().create(DIR, Sharing::Link).unwrap();
    house.backups().create(DIR, Sharing::Copy).unwrap();
    let live = files(&house.disk, Path::new(DIR));
    let live = live.iter().filter(|path| path.extension().is_some_and(|kind| kind == "sst"));
    let flipped = live.map(|path| flip(&house.disk, path, 20)).count();
    assert!(flipped > 0);
    assert_eq!(house.backups().verify().unwrap().damage.len(), 0);
}

#[test]
fn a_file_that_was_damaged_among_the_backups_gives_way_to_a_good_one() {
    for sharing in [Sharing::Copy, Sharing::Link] {
        let house = house();
        house.db.flush().unwrap();
        house.backups().create(DIR, Sharing::Copy).unwrap();
        let kept = files(&house.disk, &Path::new(DEST).join("files"));
        kept.iter().for_each(|path| flip(&house.disk, path, 20));
        // Nothing says any more that they are known.
        flip(&house.disk, &Path::new(DEST).join("000001.backup"), 5);
        house.backups().create(DIR, sharing).unwrap();
        assert_eq!(house.backups().verify().unwrap().damage.len(), 1, "the manifest");
        restored(&house, Which::Newest, "again", sharing);
    }
}

#[test]
fn a_flipped_byte_in_any_file_is_found_and_named() {
    let seed = seed::seed_or(11);
    let _replay = Replay::new(seed, "cargo nextest run -p tabulith --test backups a_flipped_byte");
    let (house, rng) = (house(), &mut Rng::new(seed));
    house.backups().create(DIR, Sharing::Copy).unwrap();
    house.db.compact().unwrap();
    house.backups().create(DIR, Sharing::Copy).unwrap();
    assert!(house.backups().verify().unwrap().damage.is_empty());
    let (mut flips, mut manifests) = (0, 0);
    let all = needed(&house.disk);
    for path in &all {
        let len = house.disk.open(path, Access::Read).unwrap().len().unwrap();
        let is_manifest = path.extension().is_some();
        manifests += u64::from(is_manifest);
        let mut places: Vec<u64> = (0..12).map(|_| rng.below(len as usize) as u64).collect();
        places.extend([0, len - 1]);
        for at in places {
            flip(&house.disk, path, at);
            let found = house.backups().verify().unwrap().damage;
            let named = found.iter().filter_map(|error| error.place());
            let named: Vec<&Path> = named.map(|(file, _)| file).collect();
            assert_eq!(named, [path.as_path()], "byte {at} of {}", path.display());
            assert!(is_manifest || found[0].to_string().contains(" of backup "), "{}", found[0]);
            flip(&house.disk, path, at);
            flips += 1;
        }
    }
    let counts = [
        count("flips", flips, 70),
        count("files", all.len() as u64, 5),
        count("manifests", manifests, 2),
    ];
    counts::tell("backup damage", &counts);
}

#[test]
fn damage_is_named_by_the_mib_that_differs() {
    let mut house = House::new(Duration::ZERO);
    let rng = &mut Rng::new(4);
    for row in 0..60 {
        let value = rng.bytes(60_000);
        house.put("one", "p", &format!("r{row:04}"), &value);
    }
    // One large file, as no options of this test make one: the values of a fork with larger ones.
    let large = Path::new("large");
    let options = tabulith::Options::default();
    let db = crate::common::open(&house.disk, &house.clock, "large", options).unwrap();
    let table = db.table("one").unwrap();
    for row in 0..60 {
        table.upsert("p", format!("r{row:04}"), rng.bytes(60_000)).unwrap();
    }
    db.flush().unwrap();
    house.backups().create(large, Sharing::Copy).unwrap();
    let blobs = files(&house.disk, &Path::new(DEST).join("files"));
    let len = |path: &PathBuf| house.disk.open(path, Access::Read).unwrap().len().unwrap();
    let blob = blobs.iter().max_by_key(|path| len(path)).unwrap();
    assert!(len(blob) > 3 << 20);
    flip(&house.disk, blob, (2 << 20) + 77);
    let found = house.backups().verify().unwrap().damage;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].place(), Some((blob.as_path(), Some(2 << 20))), "{}", found[0]);
    // A file that was cut, and one that is gone.
    house.disk.open(blob, Access::ReadWrite).unwrap().set_len(1 << 20).unwrap();
    let found = house.backups().verify().unwrap().damage;
    assert!(found[0].to_string().contains("bytes, not "), "{}", found[0]);
    house.disk.remove(blob).unwrap();
    assert_eq!(house.backups().verify().unwrap().damage.len(), 1);
}

#[test]
fn nothing_damaged_is_restored_and_a_new_backup_heals_what_was_cut() {
    let house = house();
    house.backups().create(DIR, Sharing::Copy).unwrap();
    let all = files(&house.disk, &Path::new(DEST).join("files"));
    for (number, path) in all.iter().enumerate() {
        flip(&house.disk, path, 40);
        for sharing in [Sharing::Link, Sharing::Copy] {
            let dir = format!("bad-{number}-{sharing:?}");
            let error = house.backups().restore(Which::Newest, &dir, sharing).unwrap_err();
            assert_eq!(error.kind(), Kind::Corrupt, "{error}");
            is_no_database(&house, &dir);
        }
        flip(&house.disk, path, 40);
    }
    let cut = house.disk.open(&all[0], Access::ReadWrite).unwrap();
    cut.set_len(10).unwrap();
    house.backups().create(DIR, Sharing::Copy).unwrap();
    assert!(house.backups().verify().unwrap().damage.is_empty(), "its length told");
    assert!(restored(&house, Which::Number(1), "healed", Sharing::Link) == house.model.now);
}

/// What is not whole has no root, which is the last to be written.
#[track_caller]
fn is_no_database(house: &House, dir: &str) {
    let small = crate::common::small(Duration::ZERO);
    let options = tabulith::Options { create_if_missing: false, ..small };
    let error = crate::common::open(&house.disk, &house.clock, dir, options).unwrap_err();
    let has_no_root = error.message().starts_with("both copies of the root are missing");
    assert!(error.kind() == Kind::NotFound || has_no_root, "{error}");
}

#[test]
fn damage_of_the_source_does_not_become_a_backup() {
    let house = house();
    house.db.compact().unwrap();
    let sources = files(&house.disk, Path::new(DIR));
    let data = sources
        .iter()
        .filter(|path| path.extension().is_some_and(|kind| kind == "sst" || kind == "blob"));
    let mut tried = 0;
    for path in data {
        for sharing in [Sharing::Copy, Sharing::Link] {
            let middle = house.disk.open(path, Access::Read).unwrap().len().unwrap() / 2;
            flip(&house.disk, path, middle);
            let error = house.backups().create(DIR, sharing).unwrap_err();
            assert_eq!(error.kind(), Kind::Corrupt, "{}: {error}", path.display());
            flip(&house.disk, path, middle);
            tried += 1;
        }
    }
    assert!(tried > 4, "{tried}");
    assert!(house.backups().list().unwrap().is_empty());
    house.backups().create(DIR, Sharing::Copy).unwrap();
    assert!(restored(&house, Which::Newest, "new", Sharing::Copy) == house.model.now);
}

#[test]
fn a_manifest_that_does_not_read_stops_pruning_and_no_new_backup() {
    let mut house = house();
    house.backups().create(DIR, Sharing::Copy).unwrap();
    let first = Path::new(DEST).join("000001.backup");
    flip(&house.disk, &first, 30);
    house.put("one", "p", "r0000", b"new");
    assert_eq!(house.backups().create(DIR, Sharing::Copy).unwrap().backup.number, 2);
    assert_eq!(house.backups().list().unwrap_err().kind(), Kind::Corrupt);
    // It would be kept, and nobody knows its files.
    let before = needed(&house.disk).len();
    assert_eq!(house.backups().prune(2).unwrap_err().kind(), Kind::Corrupt);
    assert_eq!(needed(&house.disk).len(), before);
    // Here it goes itself.
    assert_eq!(house.backups().prune(1).unwrap().backups, [1]);
    assert!(restored(&house, Which::Newest, "new", Sharing::Copy) == house.model.now);
}

/// Two backups that share no file, seen through a disk on which the first is pruned before the next
/// call that `rule` speaks of.
fn pruned_before(rule: Rule) -> (House, Backups) {
    let house = House::new(Duration::ZERO);
    let table = house.db.table("one").unwrap();
    for value in [b'1', b'2'] {
        for row in 0..300 {
            table.upsert("p", format!("r{row:04}"), [value; 80]).unwrap();
        }
        house.db.compact().unwrap();
        let made = house.backups().create(DIR, Sharing::Copy).unwrap().backup;
        assert_eq!(made.own_bytes, made.bytes);
    }
    let faults = FaultFs::new(Arc::new(house.disk.clone()));
    let others = house.backups();
    faults.interrupt(rule, move || assert_eq!(others.prune(1).unwrap().backups, [1]));
    let backups = Backups::with(Arc::new(faults), house.clock.clone(), Path::new(DEST));
    (house, backups)
}

/// Calls of whoever reads backup 1: for its manifest, and for a file of one of them.
fn readings() -> [Rule; 2] {
    ["000001.backup", &"?".repeat(64)].map(|name| Rule::fail(Call::Open).named(name))
}

#[test]
fn a_backup_that_is_pruned_meanwhile_is_not_damaged() {
    for rule in readings() {
        let (house, backups) = pruned_before(rule.clone());
        let report = backups.verify().unwrap();
        assert!(report.damage.is_empty(), "{rule:?}: {:?}", report.damage);
        let left = house.backups().list().unwrap();
        assert_eq!(left.iter().map(|backup| backup.number).collect::<Vec<_>>(), [2]);
        assert_eq!((report.files, report.bytes), (left[0].files, left[0].bytes), "{rule:?}");
        // What stays is looked at all the same.
        let (house, backups) = pruned_before(rule.clone());
        let before = files(&house.disk, &Path::new(DEST).join("files"));
        before.iter().for_each(|path| flip(&house.disk, path, 20));
        let report = backups.verify().unwrap();
        assert!(report.files > 0 && report.damage.len() as u64 == report.files, "{report:?}");
    }
    let [manifest, _] = readings();
    let (house, backups) = pruned_before(manifest);
    assert_eq!(backups.list().unwrap(), house.backups().list().unwrap());
}

#[test]
fn a_backup_that_is_pruned_while_it_is_restored_is_not_found() {
    let linking = Rule::fail(Call::HardLink);
    for rule in readings().into_iter().chain([linking]) {
        let (house, backups) = pruned_before(rule.clone());
        let error = backups.restore(Which::Number(1), "new", Sharing::Link).unwrap_err();
        assert_eq!(error.kind(), Kind::NotFound, "{rule:?}: {error}");
        assert!(error.to_string().contains("backup 1 was pruned"), "{error}");
        is_no_database(&house, "new");
        restored(&house, Which::Newest, "newest", Sharing::Link);
    }
}
