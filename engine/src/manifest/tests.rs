//! Manifest and roots against damage and crashes: one copy is enough, none is refused.

use crate::checksum::placed;
use crate::erasure::set::Erasure;
use crate::error::{Error, Kind, Result};
use crate::ids::{CommitTs, FileNo, SegmentId};
use crate::limits::NUMBER_MAX;
use crate::manifest::edit::Edit;
use crate::manifest::frame::{EDIT_BYTES_MAX, encode_frame, file_bytes_max};
use crate::manifest::load::{Loaded, check, dump};
use crate::manifest::log::Manifest;
use crate::manifest::state::State;
use crate::manifest::survey::survey;
use crate::names::{self, FileKind};
use crate::sstable::format::FileMeta;
use crate::vfs::api::{Access, File, Vfs};
use crate::vfs::fault::FaultFs;
use crate::vfs::mem::{SimFs, SyncFailure};
use crate::vfs::os::OsVfs;
use crate::vfs::rule::{Call, Rule};
use crate::vfs::sim::element::Profile;
use crate::wal::format::{Link, LogFloor};
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/db";

fn disk() -> SimFs {
    let fs = SimFs::new();
    fs.create_dir_all(Path::new(DIR)).expect("a folder");
    fs
}

fn create(fs: &SimFs) -> (Manifest, State) {
    Manifest::create(Arc::new(fs.clone()), Path::new(DIR), 77).expect("a new database")
}

fn load(fs: &dyn Vfs) -> Result<Option<Loaded>> {
    Manifest::load(fs, Path::new(DIR))
}

fn loaded(fs: &dyn Vfs) -> Loaded {
    load(fs).expect("a sound manifest").expect("a database")
}

/// Adds the file `no` to L0 and drops the one two before it; erasures likewise.
fn edit(no: u64) -> Edit {
    let file = FileMeta {
        no: FileNo(no),
        bytes: 100 * no,
        smallest: b"a".to_vec(),
        largest: vec![b'z'; no as usize],
        min_ts: CommitTs(no),
        max_ts: CommitTs(no + 1),
        rows: 5,
        deletes: 1,
        oldest_delete: CommitTs(no),
        expiring: Default::default(),
        replaced: Default::default(),
        erased_to: CommitTs::ZERO,
        aged_to: CommitTs::ZERO,
        blobs: Default::default(),
        checksum: no,
    };
    let link = Some(Link { number: 3 * no, crc: no as u32, ts: CommitTs(no + 2) });
    Edit {
        added: vec![(0, Arc::new(file))],
        blobs: Vec::new(),
        removed: if no > 2 { vec![(0, FileNo(no - 2))] } else { Vec::new() },
        log_floor: Some(LogFloor { segment: SegmentId(no), after: link.filter(|_| no % 2 == 1) }),
        next_file: Some(FileNo(no + 1)),
        last_ts: Some(CommitTs(no + 1)),
        history_floor: Some(CommitTs(no)),
        history: Some(no).filter(|no| no % 2 == 0),
        erased: vec![erasure(no)],
        retired: if no > 3 { vec![erasure(no - 3)] } else { Vec::new() },
    }
}

fn erasure(no: u64) -> Erasure {
    Erasure { start: no.to_be_bytes().into(), end: [0xff].into(), ts: CommitTs(no) }
}

/// A database after the edits 1 to `n`, and its state.
fn edited(fs: &SimFs, n: u64) -> State {
    let (mut manifest, mut state) = create(fs);
    for no in 1..=n {
        state.apply(&edit(no)).expect("a sound edit");
        manifest.append(&edit(no)).expect("room");
    }
    state
}

fn open(fs: &SimFs, name: &str) -> (Arc<dyn File>, Vec<u8>) {
    let file = fs.open(&Path::new(DIR).join(name), Access::ReadWrite).expect("the file");
    let mut bytes = vec![0; file.len().expect("its length") as usize];
    file.read_exact_at(&mut bytes, 0).expect("its bytes");
    (file, bytes)
}

#[track_caller]
fn assert_placed(error: &Error) {
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    let (file, offset) = error.place().expect("damage has a place");
    assert!(file.starts_with(DIR) && offset.is_some(), "{error}");
}

#[test]
fn edits_and_generations_come_back_over_real_files() {
    let dir = tempfile::tempdir().expect("a folder");
    let vfs: Arc<dyn Vfs> = Arc::new(OsVfs::new());
    assert!(Manifest::load(&*vfs, dir.path()).expect("an empty folder").is_none());
    let (mut manifest, mut state) =
        Manifest::create(vfs.clone(), dir.path(), 9).expect("a new database");
    for no in 1..=5 {
        state.apply(&edit(no)).expect("a sound edit");
        manifest.append(&edit(no)).expect("room");
    }
    let found = Manifest::load(&*vfs, dir.path()).expect("sound").expect("a database");
    assert_eq!((&found.state, found.generation, found.edits), (&state, 1, 6));
    manifest.rewrite(&state).expect("room");
    state.apply(&edit(6)).expect("a sound edit");
    manifest.append(&edit(6)).expect("room");
    let found = Manifest::load(&*vfs, dir.path()).expect("sound").expect("a database");
    assert_eq!((&found.state, found.generation, found.edits), (&state, 2, 2));
    assert!(found.repairs.is_empty());
    let mut names = vfs.list(dir.path()).expect("names");
    names.sort();
    assert_eq!(names, ["000002.manifest-a", "000002.manifest-b", "ROOT-A", "ROOT-B"]);
    let again = Manifest::create(vfs, dir.path(), 9).expect_err("there is one");
    assert_eq!(again.kind(), Kind::Exists);
}

/// It opened, took commits, and no later open read what it had written.
#[test]
fn nothing_is_begun_with_numbers_that_none_could_follow() {
    let fs = disk();
    let (manifest, mut state) = create(&fs);
    drop(manifest);
    let before = state.clone();
    state.next_file = FileNo(NUMBER_MAX - 1);
    let begun = Manifest::start(Arc::new(fs.clone()), Path::new(DIR), &state);
    assert_eq!(begun.expect_err("too near").kind(), Kind::Corrupt);
    let found = loaded(&fs);
    assert_eq!((found.state, found.repairs.len()), (before, 0));
}

#[test]
fn copies_that_cannot_be_read_now_are_no_damage() {
    let fs = disk();
    let state = edited(&fs, 3);
    let faults = FaultFs::new(Arc::new(fs));
    faults.add(Rule::fail(Call::Open).named("ROOT-A"));
    let found = loaded(&faults);
    assert_eq!((found.state, found.repairs.len()), (state, 1));
    faults.add(Rule::fail(Call::Open).named("*.manifest-*").forever());
    assert_eq!(load(&faults).expect_err("no copy").kind(), Kind::Io);
}

#[test]
fn roots_that_are_damaged_both_are_told_by_a_survey_and_nothing_is_loaded() {
    let fs = disk();
    edited(&fs, 3);
    for name in ["ROOT-A", "ROOT-B"] {
        let (file, bytes) = open(&fs, name);
        file.write_all_at(&[bytes[20] ^ 1], 20).expect("a write");
    }
    assert_placed(&load(&fs).expect_err("no root"));
    let found = survey(&fs, Path::new(DIR)).expect("files");
    found.damage.iter().for_each(assert_placed);
    assert_eq!(found.damage.len(), 1, "{:?}", found.damage);
}

#[test]
fn where_there_is_no_database_there_is_none_to_load() {
    for dir in [DIR, "/nowhere"] {
        let none = Manifest::load_existing(&disk(), Path::new(dir)).map(|_| ());
        assert_eq!(none.expect_err("none").kind(), Kind::NotFound, "{dir}");
    }
}

/// The copy of the build before it was taken, and the newer manifest written over.
#[test]
fn a_root_of_a_later_build_is_refused_and_kept() {
    let fs = disk();
    let (manifest, state) = create(&fs);
    drop(manifest);
    for name in ["ROOT-A", "ROOT-B"] {
        let (file, bytes) = open(&fs, name);
        let mut later = bytes.clone();
        later[8] += 1;
        let sum = placed(0, 0, &[&later[8..]]);
        later[4..8].copy_from_slice(&sum.to_le_bytes());
        file.write_all_at(&later, 0).expect("a write");
        let refused = load(&fs).expect_err("of a later build");
        assert_eq!(refused.kind(), Kind::Unsupported, "{name}: {refused}");
        assert!(refused.place().is_some_and(|(file, _)| file.ends_with(name)), "{refused}");
        let surveyed = survey(&fs, Path::new(DIR)).map(|_| ()).expect_err("of a later build");
        assert_eq!(surveyed.kind(), Kind::Unsupported, "{name}: {surveyed}");
        file.write_all_at(&bytes, 0).expect("a write");
    }
    assert_eq!(loaded(&fs).state, state);
}

#[test]
fn a_flip_of_any_byte_of_one_copy_is_survived_and_reported() {
    let fs = disk();
    let state = edited(&fs, 4);
    for name in ["ROOT-A", "ROOT-B", "000001.manifest-a", "000001.manifest-b"] {
        let (file, bytes) = open(&fs, name);
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xff] {
                file.write_all_at(&[bytes[at] ^ flip], at as u64).expect("a write");
                let found = loaded(&fs);
                assert_eq!(found.state, state, "{name}, byte {at}");
                assert_eq!(found.repairs.len(), 1, "{name}, byte {at}: {:?}", found.repairs);
                assert_placed(&found.repairs[0]);
            }
            file.write_all_at(&bytes[at..=at], at as u64).expect("a write");
        }
    }
}

#[test]
fn a_copy_cut_at_any_length_or_gone_is_survived_and_put_right() {
    for name in ["ROOT-A", "ROOT-B", "000001.manifest-a", "000001.manifest-b"] {
        let fs = disk();
        let state = edited(&fs, 3);
        let (file, bytes) = open(&fs, name);
        for len in (0..bytes.len()).rev() {
            file.set_len(len as u64).expect("a cut");
            assert_eq!(loaded(&fs).state, state, "{name} cut at {len}");
        }
        fs.remove(&Path::new(DIR).join(name)).expect("a name");
        let found = loaded(&fs);
        assert_eq!((&found.state, found.repairs.len()), (&state, 1), "{name} is gone");
        Manifest::start(Arc::new(fs.clone()), Path::new(DIR), &found.state).expect("room");
        let found = loaded(&fs);
        assert_eq!((&found.state, found.repairs.len()), (&state, 0), "{name} is back");
    }
}

/// One copy with anything behind its end was refused where that was copy B: what it had there might
/// have been an edit. It was none, as copy A has every edit first; only where it says that it is
/// the next, and A was cut at that very place, are both copies damaged.
#[test]
fn whatever_stands_behind_the_end_of_one_copy_is_survived() {
    let fs = disk();
    let state = edited(&fs, 3);
    for name in ["000001.manifest-a", "000001.manifest-b"] {
        let (file, bytes) = open(&fs, name);
        for more in [1, 7, 16, 17, 600] {
            for byte in [0, 0xa5, 0xff] {
                file.write_all_at(&vec![byte; more], bytes.len() as u64).expect("room");
                let found = loaded(&fs);
                assert_eq!((&found.state, found.repairs.len()), (&state, 1), "{name}, {more} more");
                file.set_len(bytes.len() as u64).expect("a cut");
            }
        }
    }
    let [a, b] = ["000001.manifest-a", "000001.manifest-b"].map(|name| open(&fs, name));
    edited_more(&fs, &state);
    a.0.set_len(a.1.len() as u64).expect("a cut");
    b.0.write_all_at(&[0xee; 4], b.1.len() as u64 + 20).expect("room");
    assert_placed(&load(&fs).expect_err("no whole copy of the last edit"));
}

/// Adds one edit to both copies, past the open manifest.
fn edited_more(fs: &SimFs, state: &State) {
    let (file, bytes) = open(fs, "000001.manifest-a");
    let edit = edit(4).encode();
    let number = loaded(fs).edits + 1;
    let frame = encode_frame(1, bytes.len() as u64, number, &edit);
    file.write_all_at(&frame, bytes.len() as u64).expect("room");
    let (file, _) = open(fs, "000001.manifest-b");
    file.write_all_at(&frame, bytes.len() as u64).expect("room");
    assert_ne!(loaded(fs).state, *state);
}

#[test]
fn damage_to_both_copies_of_one_piece_is_refused() {
    let fs = disk();
    edited(&fs, 4);
    for pair in [["ROOT-A", "ROOT-B"], ["000001.manifest-a", "000001.manifest-b"]] {
        let [(a, bytes), (b, _)] = pair.map(|name| open(&fs, name));
        // The header of a manifest repeats what the root says; only frames are without a stand-in.
        let from = if pair[0].starts_with("ROOT") { 0 } else { 32 };
        for at in from..bytes.len() {
            for file in [&a, &b] {
                file.write_all_at(&[bytes[at] ^ 1], at as u64).expect("a write");
            }
            assert_placed(&load(&fs).expect_err("no whole copy"));
            assert!(!check(&fs, Path::new(DIR)).damage.is_empty());
            for file in [&a, &b] {
                file.write_all_at(&bytes[at..=at], at as u64).expect("a write");
            }
        }
    }
    loaded(&fs);
}

#[test]
fn damage_in_different_places_of_the_copies_is_survived() {
    let fs = disk();
    let state = edited(&fs, 4);
    let [(a, bytes), (b, _)] = ["000001.manifest-a", "000001.manifest-b"].map(|n| open(&fs, n));
    a.write_all_at(&[0xff; 8], 40).expect("a write");
    b.write_all_at(&[0xff; 8], bytes.len() as u64 - 8).expect("a write");
    let found = loaded(&fs);
    assert_eq!((found.state, found.repairs.len()), (state, 2));
    assert_eq!(check(&fs, Path::new(DIR)).damage.len(), 2, "each place is reported");
}

/// A process that was killed between the two writes of an edit left a database that `check` called
/// damaged. Nothing else that is missing is taken for that.
#[test]
fn an_edit_that_a_kill_kept_from_the_second_copy_is_no_damage() {
    let fs = disk();
    edited(&fs, 4);
    let mut starts = Vec::new();
    dump(&fs, Path::new(DIR), &mut |line| {
        if let Some((at, _)) = line.split_once("  edit ") {
            starts.extend(at.trim().parse::<u64>());
        }
    })
    .expect("a manifest");
    let [first, .., before, last] = starts[..] else { panic!("{starts:?}") };
    let found = |name: &str, len: u64| {
        let fs = disk();
        edited(&fs, 4);
        open(&fs, name).0.set_len(len).expect("a cut");
        let report = check(&fs, Path::new(DIR));
        (report.damage.len(), report.cut.is_some(), loaded(&fs).repairs.len())
    };
    assert_eq!(found("000001.manifest-b", last), (0, true, 1));
    assert_eq!(found("000001.manifest-b", last + 1), (1, false, 1));
    assert_eq!(found("000001.manifest-b", before), (1, false, 1));
    assert_eq!(found("000001.manifest-b", first), (1, false, 1));
    assert_eq!(found("000001.manifest-a", last), (1, false, 1));
}

#[test]
fn nothing_is_made_over_what_exists() {
    let fs = disk();
    edited(&fs, 2);
    let dir = Path::new(DIR);
    fs.create(&dir.join("000001.wal")).expect("a file");
    for name in ["ROOT-A", "ROOT-B"] {
        fs.remove(&dir.join(name)).expect("a name");
    }
    assert_placed(&load(&fs).expect_err("a log without a root"));
    let made = Manifest::create(Arc::new(fs.clone()), dir, 1);
    assert_placed(&made.expect_err("never over existing files"));
    fs.remove(&dir.join("000001.wal")).expect("a name");
    fs.create(&dir.join("000007.sst")).expect("a file");
    assert_placed(&load(&fs).expect_err("a table file without a root"));

    let other = disk();
    other.create(&dir.join("holiday.jpg")).expect("a file");
    assert_eq!(load(&other).expect_err("not ours").kind(), Kind::Invalid);
    other.remove(&dir.join("holiday.jpg")).expect("a name");
    other.create(&dir.join("LOCK")).expect("a file");
    assert!(load(&other).expect("nothing but a lock").is_none());
}

#[test]
fn a_stale_copy_of_the_root_loses() {
    let fs = disk();
    let state = edited(&fs, 2);
    let (old, bytes) = open(&fs, "ROOT-A");
    drop(old);
    Manifest::start(Arc::new(fs.clone()), Path::new(DIR), &state).expect("room");
    open(&fs, "ROOT-A").0.write_all_at(&bytes, 0).expect("a write");
    let found = loaded(&fs);
    assert_eq!((found.state, found.generation, found.repairs.len()), (state, 2, 1));
}

#[test]
fn roots_of_two_databases_are_refused() {
    let (fs, other) = (disk(), disk());
    edited(&fs, 2);
    Manifest::create(Arc::new(other.clone()), Path::new(DIR), 78).expect("a new database");
    let (_, bytes) = open(&other, "ROOT-B");
    open(&fs, "ROOT-B").0.write_all_at(&bytes, 0).expect("a write");
    let error = load(&fs).expect_err("whose is it?");
    assert!(error.message().contains("different databases"), "{error}");
    assert_placed(&error);
}

#[test]
fn a_folder_is_new_where_nothing_is_ours() {
    let fs = disk();
    let mut lines = Vec::new();
    dump(&fs, Path::new(DIR), &mut |line| lines.push(line)).expect("nothing to read");
    assert_eq!(lines, ["no database"]);
    let none = survey(&fs, Path::new(DIR)).expect_err("nothing to save");
    assert_eq!(none.kind(), Kind::NotFound);

    // Every fresh ext4 disk has it at its top.
    fs.create_dir_all(&Path::new(DIR).join("lost+found")).expect("a folder");
    assert!(load(&fs).expect("as good as empty").is_none());

    fs.create_dir_all(&Path::new(DIR).join("photos")).expect("a folder");
    let error = load(&fs).expect_err("somebody else's folder");
    assert_eq!(error.kind(), Kind::Invalid);
    assert!(error.message().contains("it has photos"), "{error}");
    // What is not ours has nothing that could be saved.
    assert_eq!(survey(&fs, Path::new(DIR)).expect_err("no database").kind(), Kind::NotFound);
    // Unless there is a table too, behind the name that makes the folder somebody else's.
    fs.create(&names::path(Path::new(DIR), FileKind::Table, FileNo(5))).expect("a file");
    fs.create(&Path::new(DIR).join("!photos")).expect("a file");
    assert_eq!(load(&fs).expect_err("somebody else's folder").kind(), Kind::Invalid);
    assert!(survey(&fs, Path::new(DIR)).is_ok_and(|survey| survey.damage.is_empty()));
}

#[test]
fn after_a_failed_sync_only_a_fresh_manifest_takes_edits() {
    for skip in [0, 1] {
        let fs = disk();
        let (mut manifest, mut state) = create(&fs);
        fs.fail_sync(skip, SyncFailure::MarksClean);
        assert_eq!(manifest.append(&edit(1)).expect_err("EIO").kind(), Kind::Io);
        assert_eq!(manifest.append(&edit(1)).expect_err("closed").kind(), Kind::Closed);
        // The edit may have landed or not; never half.
        let found = loaded(&fs);
        let mut landed = state.clone();
        landed.apply(&edit(1)).expect("a sound edit");
        assert_eq!(found.state, if found.edits == 2 { landed } else { state.clone() });
        // In fresh files it counts for nothing, and the next one is taken.
        manifest.rewrite(&state).expect("fresh files");
        assert_eq!(loaded(&fs).state, state);
        manifest.append(&edit(1)).expect("open again");
        state.apply(&edit(1)).expect("a sound edit");
        assert_eq!(loaded(&fs).state, state);
    }
}

#[test]
fn a_root_that_cannot_be_replaced_leaves_no_files() {
    let fs = disk();
    let faults = FaultFs::new(Arc::new(fs.clone()));
    let dir = Path::new(DIR);
    let (mut manifest, state) = Manifest::create(Arc::new(faults.clone()), dir, 77).expect("room");
    let names = || {
        let mut names = fs.list(dir).expect("a folder");
        names.sort();
        names
    };
    let before = names();
    let temp = "*.tmp";
    for rule in [
        Rule::fail(Call::Create).named(temp),
        Rule::fail(Call::Write).named(temp),
        Rule::fail(Call::Sync).named(temp),
        Rule::fail(Call::Rename),
    ] {
        faults.add(rule.times(1));
        assert_eq!(manifest.rewrite(&state).expect_err("EIO").kind(), Kind::Io);
        assert_eq!(names(), before);
        assert!(!manifest.is_closed(), "nothing names what was written: edits are taken as before");
    }
    // The first root says it, or may: the files stay.
    for rule in [Rule::fail(Call::Rename).skip(1), Rule::fail(Call::Rename).done()] {
        faults.add(rule.times(1));
        assert_eq!(manifest.rewrite(&state).expect_err("EIO").kind(), Kind::Io);
        assert_eq!(loaded(&fs).state, state);
        assert!(manifest.is_closed());
    }
    manifest.rewrite(&state).expect("no fault is left");
    assert_eq!(names().len(), before.len());
    assert_eq!(loaded(&fs).state, state);
}

#[test]
fn a_long_history_asks_to_be_rewritten() {
    let fs = disk();
    let (mut manifest, mut state) = create(&fs);
    assert!(!manifest.wants_rewrite());
    let mut no = 1;
    let wide = |no| {
        let mut edit = edit(no);
        edit.removed.clear();
        let mut file = (*edit.added[0].1).clone();
        file.largest = vec![b'z'; 10_000];
        edit.added[0].1 = Arc::new(file);
        edit
    };
    while !manifest.wants_rewrite() {
        assert!(no < 1000, "a manifest of 10 MB");
        manifest.append(&wide(no)).expect("room");
        state.apply(&wide(no)).expect("a sound edit");
        no += 1;
    }
    let (_, bytes) = open(&fs, "000001.manifest-a");
    // Its last edit, of 10 KB, may be as long as edits get.
    let bound = file_bytes_max(&bytes) - EDIT_BYTES_MAX as u64;
    assert!((bound - 16..bound + 11_000).contains(&(bytes.len() as u64)), "{bound}");
    // A little more than it may have without being written anew.
    assert!(manifest.has_room(EDIT_BYTES_MAX - 11_000) && !manifest.has_room(EDIT_BYTES_MAX + 16));
    manifest.rewrite(&state).expect("room");
    assert!(!manifest.wants_rewrite());
    assert_eq!(loaded(&fs).state, state);
}

/// The process took as much memory as the damaged length says, and was aborted.
#[test]
fn a_copy_longer_than_a_manifest_gets_is_not_read() {
    for name in ["000001.manifest-a", "000001.manifest-b"] {
        let fs = disk();
        let state = edited(&fs, 3);
        let (file, bytes) = open(&fs, name);
        let max = file_bytes_max(&bytes);
        for len in [max + 1, 16 << 30] {
            file.set_len(len).expect("a hole");
            let found = loaded(&fs);
            assert_eq!((&found.state, found.repairs.len()), (&state, 1), "{name} of {len}");
            assert_placed(&found.repairs[0]);
            assert!(found.repairs[0].to_string().contains(name), "{}", found.repairs[0]);
            assert_eq!(check(&fs, Path::new(DIR)).damage.len(), 1, "{name} of {len}");
        }
        Manifest::start(Arc::new(fs.clone()), Path::new(DIR), &state).expect("room");
        assert_eq!(loaded(&fs).repairs.len(), 0, "{name} is whole again");
    }
}

#[test]
fn a_dump_reads_like_a_history() {
    let fs = disk();
    edited(&fs, 3);
    let mut lines = Vec::new();
    dump(&fs, Path::new(DIR), &mut |line| lines.push(line)).expect("a sound manifest");
    assert!(lines[0].contains("manifest 000001"), "{lines:?}");
    assert_eq!(lines[1], "        32  edit 1");
    let last = lines.iter().position(|line| line.ends_with("edit 4")).expect("the last edit");
    assert!(lines[last..].iter().any(|line| line.trim() == "L0 - 000001"), "{lines:?}");
    assert!(lines[last..].iter().any(|line| line.contains("L0 + 000003  300 bytes")), "{lines:?}");
}

#[test]
fn every_crash_leaves_the_old_state_or_the_new_one() {
    let fs = disk();
    let trace = fs.record();
    // history[n] is what was acknowledged after n steps; the first step makes the database.
    let (mut manifest, mut state) = create(&fs);
    let mut history = vec![None, Some(state.clone())];
    trace.mark(1);
    for no in 1..=4 {
        state.apply(&edit(no)).expect("a sound edit");
        manifest.append(&edit(no)).expect("room");
        history.push(Some(state.clone()));
        trace.mark(history.len() as u64 - 1);
        if no % 2 == 0 {
            manifest = Manifest::start(Arc::new(fs.clone()), Path::new(DIR), &state).expect("room");
        }
    }
    let mut states = 0;
    for n in 0..=trace.len() {
        let acked = trace.marks(n).into_iter().max().unwrap_or(0) as usize;
        let disk = trace.at(n).expect("a recorded effect");
        for crash in disk.crash_states(Profile::Hostile, 200, n as u64) {
            let fs = SimFs::after_crash(&crash);
            let found = match load(&fs) {
                Ok(found) => found.map(|found| found.state),
                Err(error) if fs.list(Path::new(DIR)).is_err() => {
                    assert_eq!((acked, error.kind()), (0, Kind::Io), "the folder is not there yet");
                    continue;
                }
                Err(error) => panic!("effect {n}, {crash:?}: {error}"),
            };
            let legal = &history[acked..history.len().min(acked + 2)];
            assert!(legal.contains(&found), "effect {n}, {crash:?}: {found:?}");
            states += 1;
            next_start(&fs, found);
        }
    }
    assert!(states > 300, "{states} states");
}

/// The start after the crash, with a crash of its own right behind each of its effects.
fn next_start(fs: &SimFs, found: Option<State>) {
    let trace = fs.record();
    let vfs = Arc::new(fs.clone());
    let state = match &found {
        Some(state) => Manifest::start(vfs, Path::new(DIR), state).map(|_| state.clone()),
        None => Manifest::create(vfs, Path::new(DIR), 77).map(|(_, state)| state),
    };
    let state = state.expect("room");
    assert_eq!(loaded(fs).state, state);
    assert!(loaded(fs).repairs.is_empty(), "the start put everything right");
    for n in 0..=trace.len() {
        let disk = trace.at(n).expect("a recorded effect");
        for crash in disk.crash_states(Profile::Hostile, 2, n as u64) {
            let again = load(&SimFs::after_crash(&crash)).expect("a sound manifest");
            let again = again.map(|loaded| loaded.state);
            assert!(again == found || again == Some(state.clone()), "effect {n}, {crash:?}");
        }
    }
    let leftovers = fs.list(Path::new(DIR)).expect("names");
    let manifests = leftovers
        .iter()
        .filter(|name| matches!(names::parse(name), Some((FileKind::Manifest(_), _))));
    assert_eq!(manifests.count(), 2, "{leftovers:?}");
}
