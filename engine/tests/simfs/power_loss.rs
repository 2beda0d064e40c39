//! What a kill, a power loss and a failed sync leave of the simplest files.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use tabulith::vfs::api::{Access, Vfs};
use tabulith::vfs::mem::{Profile, SimFs, SyncFailure};

#[track_caller]
fn read(fs: &SimFs, file: &str) -> Option<Vec<u8>> {
    let file = fs.open(Path::new(file), Access::Read).ok()?;
    let mut bytes = vec![0; file.len().ok()? as usize];
    file.read_exact_at(&mut bytes, 0).ok()?;
    Some(bytes)
}

/// Every content that a power loss may leave, or None for a missing file.
fn outcomes(fs: &SimFs, file: &str, profile: Profile) -> BTreeSet<Option<Vec<u8>>> {
    let states = fs.crash_states(profile, 10_000, 1);
    states.map(|state| read(&SimFs::after_crash(&state), file)).collect()
}

fn names(fs: &SimFs, profile: Profile) -> BTreeSet<Vec<String>> {
    let states = fs.crash_states(profile, 10_000, 1);
    states.filter_map(|state| SimFs::after_crash(&state).list(Path::new("/")).ok()).collect()
}

fn synced(fs: &SimFs, file: &str, bytes: &[u8]) -> io::Result<()> {
    let file = fs.create(Path::new(file))?;
    file.write_all_at(bytes, 0)?;
    file.sync()?;
    fs.sync_dir(Path::new("/"))
}

#[test]
fn what_is_synced_has_one_outcome() -> io::Result<()> {
    let fs = SimFs::new();
    synced(&fs, "/a", b"abc")?;
    assert_eq!(outcomes(&fs, "/a", Profile::Hostile), [Some(b"abc".to_vec())].into());
    Ok(())
}

/// Bytes whose address a direct write takes.
#[repr(align(4096))]
struct Block([u8; 4096]);

#[test]
fn a_direct_write_is_durable_and_nothing_before_it() -> io::Result<()> {
    let fs = SimFs::new();
    synced(&fs, "/a", &[1; 3 * 4096])?;
    let file = fs.open(Path::new("/a"), Access::ReadWrite)?;
    let direct = fs.open_direct(Path::new("/a"))?.expect("it takes them");
    file.write_all_at(&[2; 4096], 0)?;
    direct.write_synced_at(&Block([3; 4096]).0, 4096)?;
    let seen = outcomes(&fs, "/a", Profile::Ordered);
    let blocks = |number: usize| -> BTreeSet<Vec<u8>> {
        let states = seen.iter().flatten();
        states.map(|bytes| bytes[number * 4096..][..4096].to_vec()).collect()
    };
    assert_eq!(blocks(1), [vec![3; 4096]].into());
    assert!(blocks(0).contains(&vec![1; 4096]) && blocks(0).contains(&vec![2; 4096]));
    // What makes the file longer takes its length along.
    direct.write_synced_at(&Block([4; 4096]).0, 3 * 4096)?;
    for bytes in outcomes(&fs, "/a", Profile::Ordered).into_iter().flatten() {
        assert_eq!(bytes[3 * 4096..], [4; 4096]);
    }
    file.sync()?;
    assert_eq!(outcomes(&fs, "/a", Profile::Ordered).len(), 1);
    // One that was cut before, without a sync.
    file.set_len(4096)?;
    direct.write_synced_at(&Block([5; 4096]).0, 2 * 4096)?;
    for bytes in outcomes(&fs, "/a", Profile::Ordered).into_iter().flatten() {
        assert_eq!(bytes[2 * 4096..3 * 4096], [5; 4096]);
    }
    Ok(())
}

#[test]
fn a_direct_write_is_of_whole_sectors() -> io::Result<()> {
    let fs = SimFs::new();
    synced(&fs, "/a", &[1; 8192])?;
    let direct = fs.open_direct(Path::new("/a"))?.expect("it takes them");
    let block = Block([2; 4096]);
    for (bytes, offset) in [(&block.0[..500], 0), (&block.0[..], 100), (&block.0[12..524], 0)] {
        let refused = direct.write_synced_at(bytes, offset).map_err(|error| error.kind());
        assert_eq!(refused, Err(io::ErrorKind::InvalidInput));
    }
    assert_eq!(outcomes(&fs, "/a", Profile::Ordered), [Some(vec![1; 8192])].into());
    Ok(())
}

#[test]
fn an_overwritten_sector_may_be_torn_in_six_ways() -> io::Result<()> {
    let fs = SimFs::new();
    synced(&fs, "/a", &[1; 1024])?;
    fs.open(Path::new("/a"), Access::ReadWrite)?.write_all_at(&[2; 512], 0)?;
    let seen = outcomes(&fs, "/a", Profile::Ordered);
    let with = |left: u8, right: u8| {
        let mut bytes = vec![1; 1024];
        bytes[..256].fill(left);
        bytes[256..512].fill(right);
        Some(bytes)
    };
    for (left, right) in [(1, 1), (2, 2), (0, 0), (2, 1), (1, 2)] {
        assert!(seen.contains(&with(left, right)), "{left} {right}");
    }
    assert_eq!(seen.len(), 6, "and garbage");
    Ok(())
}

#[test]
fn a_value_between_two_writes_may_be_what_stays() -> io::Result<()> {
    let fs = SimFs::new();
    synced(&fs, "/a", &[1; 512])?;
    let file = fs.open(Path::new("/a"), Access::ReadWrite)?;
    file.write_all_at(&[2; 512], 0)?;
    file.write_all_at(&[3; 512], 0)?;
    assert!(outcomes(&fs, "/a", Profile::Ordered).contains(&Some(vec![2; 512])));
    Ok(())
}

#[test]
fn an_appended_file_may_have_any_length_on_the_way() -> io::Result<()> {
    let fs = SimFs::new();
    synced(&fs, "/a", &[1; 100])?;
    fs.open(Path::new("/a"), Access::ReadWrite)?.write_all_at(&[1; 1500], 100)?;
    let lengths: BTreeSet<usize> =
        outcomes(&fs, "/a", Profile::Ordered).iter().flatten().map(Vec::len).collect();
    assert_eq!(lengths, [100, 512, 1024, 1536, 1599, 1600].into());
    Ok(())
}

#[test]
fn names_land_in_order_or_not() -> io::Result<()> {
    let fs = SimFs::new();
    synced(&fs, "/a", b"1")?;
    fs.create(Path::new("/b"))?;
    fs.remove(Path::new("/a"))?;
    let list = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
    let ordered = [list(&["a"]), list(&["a", "b"]), list(&["b"])];
    assert_eq!(names(&fs, Profile::Ordered), ordered.clone().into());
    let mut hostile = BTreeSet::from(ordered);
    hostile.insert(list(&[]));
    assert_eq!(names(&fs, Profile::Hostile), hostile);
    fs.sync_dir(Path::new("/"))?;
    assert_eq!(names(&fs, Profile::Hostile), [list(&["b"])].into());
    Ok(())
}

#[test]
fn a_rename_replaces_in_one_step() -> io::Result<()> {
    let fs = SimFs::new();
    synced(&fs, "/old", b"old")?;
    synced(&fs, "/new", b"new")?;
    fs.rename(Path::new("/new"), Path::new("/old"))?;
    let both = [Some(b"old".to_vec()), Some(b"new".to_vec())];
    assert_eq!(outcomes(&fs, "/old", Profile::Hostile), both.into());
    Ok(())
}

#[test]
fn a_kill_keeps_the_cache_frees_locks_and_ends_handles() -> io::Result<()> {
    let fs = SimFs::new();
    synced(&fs, "/a", b"old")?;
    let lock = fs.lock(Path::new("/LOCK"))?;
    let file = fs.open(Path::new("/a"), Access::ReadWrite)?;
    file.write_all_at(b"new", 0)?;
    fs.kill();
    assert!(file.write_all_at(b"dead", 0).is_err());
    let again = fs.lock(Path::new("/LOCK"))?;
    drop(lock);
    assert!(fs.lock(Path::new("/LOCK")).is_err(), "a dead guard frees nothing");
    drop(again);
    assert_eq!(read(&fs, "/a"), Some(b"new".to_vec()));
    assert!(outcomes(&fs, "/a", Profile::Ordered).contains(&Some(b"old".to_vec())));
    Ok(())
}

#[test]
fn a_lost_power_ends_the_process_and_leaves_one_of_the_states() -> io::Result<()> {
    let left = |seed| {
        let fs = SimFs::new();
        synced(&fs, "/a", &[1; 512])?;
        let file = fs.open(Path::new("/a"), Access::ReadWrite)?;
        file.write_all_at(&[2; 512], 0)?;
        let may_be = outcomes(&fs, "/a", Profile::Hostile);
        let after = fs.lose_power(seed);
        assert!(file.write_all_at(&[3; 512], 0).is_err(), "a dead process writes");
        let found = read(&after, "/a");
        assert!(may_be.contains(&found), "{found:?}");
        io::Result::Ok(found)
    };
    let all: BTreeSet<_> = (0..200).map(left).collect::<io::Result<_>>()?;
    assert_eq!(all.len(), 6, "each of them, by some seed");
    assert_eq!(left(7)?, left(7)?);
    Ok(())
}

/// A thread that a kill finds between two calls must not go on beside the next process.
#[test]
fn a_killed_process_makes_moves_and_deletes_nothing() -> io::Result<()> {
    let disk = SimFs::new();
    synced(&disk, "/a", b"old")?;
    let process = disk.process();
    assert!(process.open(Path::new("/a"), Access::Read).is_ok());
    disk.kill();
    assert!(process.open(Path::new("/a"), Access::Read).is_err());
    assert!(process.create(Path::new("/b")).is_err());
    assert!(process.rename(Path::new("/a"), Path::new("/b")).is_err());
    assert!(process.remove(Path::new("/a")).is_err());
    assert!(process.lock(Path::new("/LOCK")).is_err());
    let next = disk.process();
    next.remove(Path::new("/a"))?;
    assert!(next.list(Path::new("/"))?.is_empty());
    Ok(())
}

#[test]
fn a_failed_sync_is_never_made_good_by_the_next() -> io::Result<()> {
    for how in [SyncFailure::MarksClean, SyncFailure::Reverts, SyncFailure::ShutsDown] {
        let fs = SimFs::new();
        synced(&fs, "/a", b"old")?;
        let file = fs.open(Path::new("/a"), Access::ReadWrite)?;
        file.write_all_at(b"new", 0)?;
        fs.fail_sync(0, how);
        assert!(file.sync().is_err());
        assert_eq!(file.sync().is_ok(), how != SyncFailure::ShutsDown);
        let seen = match how {
            SyncFailure::MarksClean => Some(b"new".to_vec()),
            SyncFailure::Reverts => Some(b"old".to_vec()),
            SyncFailure::ShutsDown => None,
        };
        assert_eq!(read(&fs, "/a"), seen, "{how:?}");
        assert!(outcomes(&fs, "/a", Profile::Ordered).contains(&Some(b"old".to_vec())), "{how:?}");
    }
    Ok(())
}

#[test]
fn a_failed_sync_of_a_folder_is_never_made_good_by_the_next() -> io::Result<()> {
    let root = Path::new("/");
    for how in [SyncFailure::MarksClean, SyncFailure::Reverts, SyncFailure::ShutsDown] {
        let fs = SimFs::new();
        synced(&fs, "/a", b"a")?;
        fs.rename(Path::new("/a"), Path::new("/b"))?;
        fs.fail_sync_dir(0, how);
        assert!(fs.sync_dir(root).is_err());
        assert_eq!(fs.sync_dir(root).is_ok(), how != SyncFailure::ShutsDown);
        let seen = match how {
            SyncFailure::MarksClean => ["/b"].map(|name| read(&fs, name).is_some()).into(),
            SyncFailure::Reverts => ["/a"].map(|name| read(&fs, name).is_some()).into(),
            SyncFailure::ShutsDown => vec![fs.list(root).is_err()],
        };
        assert_eq!(seen, [true], "{how:?}");
        assert!(outcomes(&fs, "/a", Profile::Ordered).contains(&Some(b"a".to_vec())), "{how:?}");
        if how == SyncFailure::MarksClean {
            // What comes later is kept all the same.
            synced(&fs, "/c", b"c")?;
            assert_eq!(outcomes(&fs, "/b", Profile::Hostile), [None].into());
            assert_eq!(outcomes(&fs, "/c", Profile::Hostile), [Some(b"c".to_vec())].into());
        }
    }
    Ok(())
}

#[test]
fn a_trace_shows_the_disk_after_each_effect() -> io::Result<()> {
    let fs = SimFs::new();
    let trace = fs.record();
    let file = fs.create(Path::new("/a"))?;
    file.write_all_at(b"1", 0)?;
    trace.mark(7);
    file.write_all_at(b"2", 0)?;
    trace.mark(8);
    let at = |n| trace.at(n).and_then(|fs| read(&fs, "/a"));
    assert_eq!(trace.len(), 3);
    assert_eq!([at(0), at(1)], [None, Some(Vec::new())]);
    assert_eq!([at(2), at(3)], [Some(b"1".to_vec()), Some(b"2".to_vec())]);
    assert_eq!((trace.marks(1), trace.marks(2), trace.marks(3)), (vec![], vec![7], vec![7, 8]));
    assert_eq!(trace.effect(3).map(|e| e.to_string()).as_deref(), Some("write /a bytes 0..1"));
    assert!(trace.at(4).is_none());
    Ok(())
}

#[test]
fn the_budget_holds_and_no_state_comes_twice() -> io::Result<()> {
    let fs = SimFs::new();
    synced(&fs, "/a", &[0; 64 << 10])?;
    let file = fs.open(Path::new("/a"), Access::ReadWrite)?;
    for block in 0..8u8 {
        file.write_all_at(&[block + 1; 4096], u64::from(block) * 4096)?;
    }
    for budget in [1, 10, 500, 3000] {
        let states = fs.crash_states(Profile::Hostile, budget, 5);
        let images: BTreeSet<_> =
            states.map(|state| read(&SimFs::after_crash(&state), "/a")).collect();
        assert_eq!(images.len(), budget);
    }
    Ok(())
}
