//! The log against damage, crashes and reuse: what was acknowledged comes back or is missed aloud.

use crate::env::rng::Rng;
use crate::error::{Error, Kind, Result};
use crate::ids::{CommitTs, SegmentId};
use crate::names;
use crate::vfs::api::{Access, Vfs};
use crate::vfs::fault::{Call, Errno, FaultFs, Rule};
use crate::vfs::mem::{SimFs, SyncFailure};
use crate::vfs::os::OsVfs;
use crate::vfs::sim::element::Profile;
use crate::wal::buffer::FrameBuffer;
use crate::wal::reader::dump;
use crate::wal::replay::{Replay, check, replay};
use crate::wal::segment::SYNC_LANES;
use crate::wal::writer::{Group, LogWriter};
use bytes::Bytes;
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/db";
/// Nine blocks: a header, a first frame, five groups, a seal or none, the name of the next segment.
const SMALL: usize = 9 * 512;
const FIRST: SegmentId = SegmentId(1);

fn disk() -> SimFs {
    let fs = SimFs::new();
    fs.create_dir_all(Path::new(DIR)).expect("a folder");
    fs
}

fn start(fs: &SimFs, found: &Replay) -> LogWriter {
    LogWriter::create(Arc::new(fs.clone()), Path::new(DIR), SMALL, found).expect("a fresh log")
}

fn new_log(fs: &SimFs) -> LogWriter {
    start(fs, &read(fs, SegmentId(0)).expect("an empty folder").1)
}

/// Commits 10n to 10n+3, with a payload that tells which and fills `bytes`.
fn append(log: &mut LogWriter, n: u64, bytes: usize) -> Result<()> {
    append_with(log, n, bytes, false).map(|_| ())
}

/// The same; `sync`: durable at once where the disk does that. Whether it is comes back.
fn append_with(log: &mut LogWriter, n: u64, bytes: usize, sync: bool) -> Result<bool> {
    let mut frame = FrameBuffer::default();
    let payload = payload(n, bytes);
    // Of every other group a half is lent, as that of a large commit.
    let (own, lent) = payload.split_at(if n.is_multiple_of(2) { bytes } else { bytes / 2 });
    frame.room(own.len()).extend_from_slice(own);
    if !lent.is_empty() {
        frame.lend(Bytes::copy_from_slice(lent));
    }
    let (first_ts, last_ts) = (CommitTs(10 * n), CommitTs(10 * n + 3));
    let appended = log.append(Group { first_ts, last_ts, frame: &mut frame, sync });
    assert_eq!(frame.payload(), payload, "a group stays as it was, refused or not");
    appended
}

fn payload(n: u64, bytes: usize) -> Vec<u8> {
    let mut rng = Rng::seeded(n);
    let mut out = n.to_le_bytes().to_vec();
    out.extend((8..bytes).map(|_| rng.next_u64() as u8));
    out
}

/// The numbers of the groups that replay shows, each checked whole.
fn read(fs: &dyn Vfs, floor: SegmentId) -> Result<(Vec<u64>, Replay)> {
    let mut groups = Vec::new();
    let found = replay(fs, Path::new(DIR), floor, &mut |first, last, bytes| {
        let bytes = bytes.bytes;
        let n = u64::from_le_bytes(*bytes.first_chunk().expect("a payload of `append`"));
        assert_eq!(bytes, payload(n, bytes.len()), "group {n} is not what was appended");
        assert_eq!((first, last), (CommitTs(10 * n), CommitTs(10 * n + 3)));
        groups.push(n);
        Ok(())
    })?;
    Ok((groups, found))
}

fn bytes_of(fs: &SimFs, id: u64) -> Vec<u8> {
    let path = names::segment_path(Path::new(DIR), SegmentId(id));
    let file = fs.open(&path, Access::Read).expect("the segment");
    let mut bytes = vec![0; file.len().expect("its length") as usize];
    file.read_exact_at(&mut bytes, 0).expect("its bytes");
    bytes
}

fn overwrite(fs: &SimFs, id: u64, at: usize, bytes: &[u8]) {
    let path = names::segment_path(Path::new(DIR), SegmentId(id));
    let file = fs.open(&path, Access::ReadWrite).expect("the segment");
    file.write_all_at(bytes, at as u64).expect("a write");
}

#[track_caller]
fn assert_placed(error: &Error) {
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    let (file, offset) = error.place().expect("damage has a place");
    assert!(file.starts_with(DIR) && offset.is_some(), "{error}");
}

#[test]
fn groups_of_all_sizes_come_back_over_real_files() {
    let dir = tempfile::tempdir().expect("a folder");
    let vfs: Arc<dyn Vfs> = Arc::new(OsVfs::new());
    let none = Replay { next_segment: FIRST, ..Replay::default() };
    let mut log = LogWriter::create(vfs.clone(), dir.path(), 16 << 10, &none).expect("a log");
    let sizes = [8, 455, 456, 457, 5000, 100_000, 9, 16 << 10, 12];
    for (n, bytes) in sizes.iter().enumerate() {
        append(&mut log, n as u64 + 1, *bytes).expect("room");
    }
    log.seal().expect("a sync");
    let mut seen = Vec::new();
    let found = replay(&*vfs, dir.path(), FIRST, &mut |first, _, bytes| {
        assert_eq!(bytes.bytes, payload(first.0 / 10, bytes.bytes.len()));
        seen.push(bytes.bytes.len());
        Ok(())
    });
    let found = found.expect("a whole log");
    assert_eq!(seen, sizes);
    assert_eq!((found.last_ts, found.seen_ts), (CommitTs(93), CommitTs(93)));
    assert_eq!((found.groups, found.tail_discarded_bytes), (9, 0));
    assert!(found.next_segment > log.current());
}

/// How the groups of a [`small_log`] are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Synced {
    Each,
    /// Two of five, so that frames share blocks.
    Some,
    None,
}

/// A log of five groups, and how many of them a later frame vouches for: all of them only if it
/// is sealed.
fn small_log(synced: Synced, sealed: bool) -> (SimFs, usize) {
    let fs = disk();
    let mut log = new_log(&fs);
    for n in 1..=5 {
        append(&mut log, n, 100).expect("room");
        if synced == Synced::Each || synced == Synced::Some && (n == 1 || n == 3) {
            log.sync().expect("a sync");
        }
    }
    if sealed {
        log.seal().expect("a sync");
    }
    assert_eq!(log.current(), FIRST, "one segment");
    let vouched_for = match synced {
        _ if sealed => 5,
        Synced::Each => 4,
        Synced::Some => 3,
        Synced::None => 0,
    };
    (fs, vouched_for)
}

/// Where the frames of groups begin in a segment.
fn frames_in(fs: &SimFs, id: u64) -> Vec<usize> {
    let bytes = bytes_of(fs, id);
    (0..bytes.len()).step_by(8).filter(|at| bytes[*at..].starts_with(b"TLF1")).collect()
}

#[test]
fn frames_share_blocks_that_no_sync_covers() {
    let fs = disk();
    let mut log = new_log(&fs);
    let blocks = |at: &[usize]| at.iter().map(|at| at * 512).collect::<Vec<_>>();
    for n in 1..=3 {
        append(&mut log, n, 100).expect("room");
    }
    assert_eq!(frames_in(&fs, 1), [512, 1024, 1024 + 160, 1024 + 320]);
    // From the moment that a sync begins, none of these blocks is written again.
    let job = log.begin_sync().expect("an open log").expect("something to sync");
    for n in 4..=5 {
        append(&mut log, n, 20).expect("room");
    }
    assert_eq!(frames_in(&fs, 1)[4..], [3 * 512, 3 * 512 + 80]);
    // The first frame that tells of the sync begins a block: nothing lost before it can hide it.
    let outcome = job.run();
    log.finish_sync(job, outcome).expect("a sync");
    append(&mut log, 6, 20).expect("room");
    append(&mut log, 7, 20).expect("room");
    assert_eq!(frames_in(&fs, 1)[6..], [4 * 512, 4 * 512 + 80]);
    log.sync().expect("a sync");
    assert!(append_with(&mut log, 8, 20, true).expect("room"));
    assert!(append_with(&mut log, 9, 20, true).expect("room"));
    assert_eq!(frames_in(&fs, 1)[8..], blocks(&[5, 6]));
    assert_eq!(read(&fs, FIRST).expect("a whole log").0, (1..=9).collect::<Vec<_>>());
}

#[test]
fn a_torn_block_of_frames_loses_none_that_was_synced() {
    let fs = disk();
    let mut log = new_log(&fs);
    append(&mut log, 1, 300).expect("room");
    append(&mut log, 2, 100).expect("room");
    log.sync().expect("a sync");
    for n in 3..=7 {
        append(&mut log, n, 100).expect("room");
    }
    let (bytes, frames) = (bytes_of(&fs, 1), frames_in(&fs, 1));
    assert_eq!(frames[3..], [0, 160, 320, 480, 640].map(|at| 2048 + at), "across two blocks");
    for at in (2048..bytes.len()).step_by(8) {
        overwrite(&fs, 1, at, &[0; 8]);
        let (groups, found) = read(&fs, FIRST).expect("a torn tail");
        let whole = frames[1..].iter().filter(|frame| **frame + 160 <= at || **frame < 2048);
        let whole = if at >= 2048 + 800 { 7 } else { whole.count() };
        assert!(groups.len() == whole, "{at}: {groups:?}");
        assert!(groups.iter().copied().eq(1..=groups.len() as u64), "{at}: {groups:?}");
        // Without its magic or its segment it claims to be nothing.
        let claims = groups.len() < 7 && ![0, 16].contains(&((at - 2048) % 160));
        assert_eq!(found.tail_discarded_bytes > 0, claims, "{at}");
        overwrite(&fs, 1, at, &bytes[at..at + 8]);
    }
    // A frame after the next sync vouches for them all, wherever the damage is.
    log.sync().expect("a sync");
    append(&mut log, 8, 100).expect("room");
    let (bytes, frames) = (bytes_of(&fs, 1), frames_in(&fs, 1));
    assert_eq!(frames[8], 3072);
    for (n, at) in frames[1..8].iter().enumerate() {
        for byte in [0, 20, 56, 155] {
            overwrite(&fs, 1, at + byte, &[!bytes[at + byte]]);
            let error = read(&fs, FIRST).expect_err("a group that was synced");
            assert_placed(&error);
            // Without its magic or segment it may have stood anywhere behind the one before.
            let place = error.place().and_then(|place| place.1).expect("an offset") as usize;
            assert!(place == *at || byte < 24 && (frames[n]..*at).contains(&place), "{place}");
            overwrite(&fs, 1, at + byte, &bytes[at + byte..=at + byte]);
        }
    }
}

#[test]
fn a_flip_of_any_byte_is_harmless_or_named() {
    let logs = [Synced::Each, Synced::Some, Synced::None].map(|how| [(how, true), (how, false)]);
    for (synced, sealed) in logs.into_iter().flatten() {
        let (fs, vouched_for) = small_log(synced, sealed);
        let bytes = bytes_of(&fs, 1);
        let mut named = 0;
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xff] {
                overwrite(&fs, 1, at, &[bytes[at] ^ flip]);
                match read(&fs, FIRST) {
                    Ok((groups, _)) => {
                        assert!(groups.len() >= vouched_for, "byte {at} loses {groups:?} silently");
                        assert!(groups.iter().copied().eq(1..=groups.len() as u64), "byte {at}");
                    }
                    Err(error) => {
                        assert_placed(&error);
                        named += 1;
                    }
                }
            }
            overwrite(&fs, 1, at, &bytes[at..=at]);
        }
        // Header, the frame that opens the log, every group vouched for: no byte is idle.
        let used = 40 + 56 + vouched_for * (56 + 100);
        assert_eq!(named, 3 * used, "{synced:?}, sealed: {sealed}");
    }
}

#[test]
fn sectors_lost_or_swapped_are_harmless_or_named() {
    for synced in [Synced::Each, Synced::Some, Synced::None] {
        let (fs, vouched_for) = small_log(synced, true);
        let bytes = bytes_of(&fs, 1);
        let sector = |n: usize| &bytes[n * 512..(n + 1) * 512];
        for at in 0..bytes.len() / 512 {
            for other in (0..bytes.len() / 512).map(sector).chain([&[0; 512][..], &[0xa5; 512]]) {
                overwrite(&fs, 1, at * 512, other);
                match read(&fs, FIRST) {
                    Ok((groups, _)) => assert_eq!(groups.len(), vouched_for, "sector {at}"),
                    Err(error) => assert_placed(&error),
                }
            }
            overwrite(&fs, 1, at * 512, sector(at));
        }
    }
}

#[test]
fn a_segment_cut_at_any_length_is_named() {
    let (fs, _) = small_log(Synced::Each, true);
    let bytes = bytes_of(&fs, 1);
    let path = names::segment_path(Path::new(DIR), FIRST);
    let file = fs.open(&path, Access::ReadWrite).expect("the segment");
    for len in (0..bytes.len()).rev() {
        file.set_len(len as u64).expect("a cut");
        assert_placed(&read(&fs, FIRST).expect_err("a short segment"));
    }
    fs.remove(&path).expect("a name");
    assert_placed(&read(&fs, FIRST).expect_err("no segment"));
}

#[test]
fn a_torn_tail_is_cut_and_counted() {
    let fs = disk();
    let mut log = new_log(&fs);
    for n in 1..=2 {
        append(&mut log, n, 100).expect("room");
    }
    log.sync().expect("a sync");
    append(&mut log, 3, 300).expect("room");
    append(&mut log, 4, 300).expect("room");
    let _never_ends = log.begin_sync().expect("an open log");
    append(&mut log, 5, 300).expect("room");
    assert_eq!(frames_in(&fs, 1)[2..], [1024 + 160, 3 * 512, 3 * 512 + 360, 5 * 512]);
    // Group 3 of the three that were never synced did not make it; 4 and 5 did, and mean nothing.
    overwrite(&fs, 1, 3 * 512 + 100, &[0; 10]);
    let (groups, found) = read(&fs, FIRST).expect("a torn tail");
    assert_eq!(groups, [1, 2]);
    assert_eq!((found.last_ts, found.seen_ts), (CommitTs(23), CommitTs(53)));
    assert_eq!(found.tail_discarded_bytes, 2 * 512 + 360);
    let report = check(&fs, Path::new(DIR), FIRST, &mut |_, _, _| Ok(())).expect("a walk");
    assert!(report.damage.is_empty());
    // Had they been synced before a later frame was written, it would be damage.
    overwrite(&fs, 1, 1024 + 160 + 100, &[0; 10]);
    let error = read(&fs, FIRST).expect_err("group 2 was synced");
    assert_placed(&error);
    assert_eq!(error.place().and_then(|place| place.1), Some(1024 + 160));
    assert!(error.message().contains("frames 3 to 3 of the log were synced"), "{error}");
}

#[test]
fn a_walk_reports_every_damaged_place() {
    let fs = disk();
    let mut log = new_log(&fs);
    for n in 1..=30 {
        append(&mut log, n, 100).expect("room");
        log.sync().expect("a sync");
    }
    log.seal().expect("a sync");
    let last = log.current();
    assert!(last > SegmentId(4), "several segments");
    overwrite(&fs, 1, 2 * 512 + 3, &[0xff]);
    overwrite(&fs, 2, 0, &[0xff]);
    overwrite(&fs, 3, 3 * 512 + 70, &[0xff]);
    let report = check(&fs, Path::new(DIR), FIRST, &mut |_, _, _| Ok(())).expect("a walk");
    let places: Vec<_> = report.damage.iter().map(|error| error.to_string()).collect();
    assert_eq!(report.damage.len(), 3, "{places:?}");
    for (error, place) in report.damage.iter().zip(["000001.wal", "000002.wal", "000003.wal"]) {
        assert_placed(error);
        assert!(error.place().is_some_and(|(file, _)| file.ends_with(place)), "{error}");
    }
    assert_eq!(report.replay.last_ts, CommitTs(303), "the walk went on to the end");
}

#[test]
fn a_segment_lost_from_the_middle_is_named() {
    let fs = disk();
    let mut log = new_log(&fs);
    for n in 1..=30 {
        append(&mut log, n, 100).expect("room");
        log.sync().expect("a sync");
    }
    fs.remove(&names::segment_path(Path::new(DIR), SegmentId(2))).expect("a name");
    assert_placed(&read(&fs, FIRST).expect_err("a hole"));
    assert!(read(&fs, SegmentId(3)).expect("what the floor asks for").0.ends_with(&[29, 30]));
}

#[test]
fn a_segment_lost_from_the_end_is_named_unless_it_was_never_begun() {
    for (sealed, direct) in [(false, true), (true, true), (false, false)] {
        let fs = disk();
        if !direct {
            fs.refuse_direct();
        }
        let mut log = new_log(&fs);
        let mut n = 0;
        while log.current() < SegmentId(3) {
            n += 1;
            append_with(&mut log, n, 100, true).expect("room");
            if sealed && n == 5 {
                log.seal().expect("a sync"); // Takes one of the two blocks that are kept free.
            }
        }
        assert_eq!(read(&fs, FIRST).expect("a whole log").0, (1..=n).collect::<Vec<_>>());
        fs.remove(&names::segment_path(Path::new(DIR), SegmentId(3))).expect("a name");
        let error = read(&fs, FIRST).expect_err("commits are missing");
        assert_placed(&error);
        assert!(error.to_string().contains("000003.wal"), "{error}");
        let report = check(&fs, Path::new(DIR), FIRST, &mut |_, _, _| Ok(())).expect("a walk");
        assert_eq!(report.damage.len(), 1, "{report:?}");
    }
    // A spare that was never begun may go: nothing names it.
    let fs = disk();
    let mut log = new_log(&fs);
    (1..=4).for_each(|n| append(&mut log, n, 300).expect("room"));
    log.sync().expect("a sync");
    let job = log.wants_spare().expect("half full");
    log.add_spare(job.run().expect("a spare"));
    fs.remove(&names::segment_path(Path::new(DIR), SegmentId(2))).expect("a name");
    assert_eq!(read(&fs, FIRST).expect("a whole log").0, [1, 2, 3, 4]);
}

#[test]
fn a_direct_write_is_durable_only_behind_durable_frames() {
    let fs = disk();
    let mut log = new_log(&fs);
    let syncs = fs.syncs();
    assert!(append_with(&mut log, 1, 100, true).expect("room"));
    assert_eq!((log.frames(), fs.syncs()), ((2, 2), syncs + 1), "one call");
    assert!(!append_with(&mut log, 2, 100, false).expect("room"));
    assert!(!append_with(&mut log, 3, 100, true).expect("room"), "group 2 is not durable");
    assert_eq!((log.frames(), fs.syncs()), ((4, 2), syncs + 1));
    log.sync().expect("a sync");
    assert!(append_with(&mut log, 4, 100, true).expect("room"));
    assert_eq!(read(&fs, FIRST).expect("a whole log").0, [1, 2, 3, 4]);
}

#[test]
fn reused_files_never_bring_back_old_groups() {
    let fs = disk();
    let mut log = new_log(&fs);
    for n in 1..=60 {
        append(&mut log, n, 100).expect("room");
        if n % 3 == 0 {
            log.sync().expect("a sync");
        }
        if let Some(job) = log.wants_spare() {
            log.add_spare(job.run().expect("a spare"));
        }
    }
    log.seal().expect("a sync");
    // A start, twice: its log lives in files that are full of old frames.
    for round in [100, 200] {
        let (_, found) = read(&fs, log.current()).expect("a whole log");
        assert!(!found.free.is_empty(), "there is something to reuse");
        let before = fs.list(Path::new(DIR)).expect("names").len();
        log = start(&fs, &found);
        assert!(fs.list(Path::new(DIR)).expect("names").len() <= before, "a file was reused");
        append(&mut log, round, 100).expect("room");
        let stale = frames_in(&fs, log.current().0);
        assert_eq!(stale[2], 3 * 512, "stale frames follow");
        assert_eq!(read(&fs, log.current()).expect("a whole log").0, [round]);
        // Frames that share blocks, up to the middle of one: stale bytes fill the rest of it.
        (1..=3).for_each(|n| append(&mut log, round + n, 100).expect("room"));
        log.sync().expect("a sync");
        let groups: Vec<_> = (round..=round + 3).collect();
        assert_eq!(read(&fs, log.current()).expect("a whole log").0, groups);
        log.release(log.current()).remove().expect("names to remove");
    }
}

#[test]
fn the_pool_of_free_files_is_bounded() {
    let fs = disk();
    let mut log = new_log(&fs);
    for n in 1..=100 {
        append(&mut log, n, 100).expect("room");
        log.release(log.current()).remove().expect("names to remove");
        assert!(fs.list(Path::new(DIR)).expect("names").len() <= 4);
    }
    log.seal().expect("a sync");
    assert_eq!(read(&fs, log.current()).expect("a whole log").0.last(), Some(&100));
}

/// A log on a disk that fails by rules.
fn faulty_log() -> (FaultFs, LogWriter) {
    let fs = FaultFs::new(Arc::new(disk()));
    let none = Replay { next_segment: FIRST, ..Replay::default() };
    let log = LogWriter::create(Arc::new(fs.clone()), Path::new(DIR), SMALL, &none);
    (fs, log.expect("a fresh log"))
}

#[test]
fn segments_are_zeroed_only_where_syncs_are_asked_for() {
    let (fs, mut log) = faulty_log();
    // Handles keep the name that they were opened by, so writes are counted while the file is made.
    let calls = |call| fs.counts().get(&(call, "#.spare".to_owned())).copied().unwrap_or(0);
    let mut groups = 1..;
    let mut to_next_segment = |log: &mut LogWriter, sync| {
        let (current, mut made) = (log.current(), [0, 0]);
        while log.current() == current {
            append_with(log, groups.next().expect("a number"), 400, sync).expect("room");
            if let Some(job) = log.wants_spare() {
                let before = [calls(Call::Reserve), calls(Call::Write)];
                log.add_spare(job.run().expect("a spare"));
                made = [calls(Call::Reserve) - before[0], calls(Call::Write) - before[1]];
            }
        }
        made
    };
    let (reserved, zeroed) = ([1, 1], [0, 2]); // One write is the header.
    assert_eq!(to_next_segment(&mut log, false), reserved);
    assert_eq!(to_next_segment(&mut log, true), zeroed);
    // The group that began this segment asked for a sync.
    assert_eq!(to_next_segment(&mut log, false), zeroed);
    assert_eq!(to_next_segment(&mut log, false), reserved);
    fs.add(Rule::fail(Call::Reserve).with(Errno::NotSupported));
    assert_eq!(to_next_segment(&mut log, false), [1, 2], "this disk reserves nothing");
    let last = groups.next().expect("a number");
    assert_eq!(read(&fs, FIRST).expect("a whole log").0, (1..last).collect::<Vec<_>>());
}

#[test]
fn a_disk_without_room_for_a_segment_refuses_groups_until_there_is_some() {
    let (fs, mut log) = faulty_log();
    fs.set_room(Some(SMALL as u64 - 1));
    let mut n = 1;
    while append(&mut log, n, 400).is_ok() {
        n += 1;
    }
    assert_eq!(log.current(), FIRST, "room for the segment is taken before it is used");
    assert!(
        append(&mut log, n, 400).is_err_and(|error| error.kind() == Kind::NoSpace),
        "still full"
    );
    fs.set_room(None);
    append(&mut log, n, 400).expect("room");
    assert_eq!(read(&fs, FIRST).expect("a whole log").0, (1..=n).collect::<Vec<_>>());
}

/// A log whose groups 1 to 18, of which none is durable, take more than two segments.
fn unsynced_log(fs: &SimFs) -> LogWriter {
    let mut log = new_log(fs);
    let (syncs, mut spares) = (fs.syncs(), 0);
    for n in 1..=18 {
        append(&mut log, n, 300).expect("room");
        if let Some(job) = log.wants_spare() {
            log.add_spare(job.run().expect("a spare"));
            spares += 2; // Its header, and what was reserved.
        }
    }
    let changes = log.current().0 - FIRST.0;
    assert!(changes > 1, "{changes} segments are behind");
    assert!(fs.syncs() - syncs <= spares + changes, "a change syncs the frame that it begins with");
    assert_eq!(log.frames().1, 1);
    log
}

#[test]
fn a_sync_covers_the_segments_behind() {
    for beside in [false, true] {
        let fs = disk();
        let mut log = unsynced_log(&fs);
        match beside {
            true => sync_beside(&mut log),
            false => log.sync().expect("a sync"),
        }
        assert_eq!(log.frames().0, log.frames().1);
        for state in fs.crash_states(Profile::Hostile, 100, 7) {
            let (groups, _) = read(&SimFs::after_crash(&state), FIRST).expect("a whole log");
            assert_eq!(groups, (1..=18).collect::<Vec<_>>());
        }
        let syncs = fs.syncs();
        append(&mut log, 19, 20).expect("room");
        log.sync().expect("a sync");
        assert_eq!(fs.syncs(), syncs + 1, "nothing is behind any more");
    }
}

#[test]
fn a_segment_behind_that_cannot_be_synced_closes_the_log() {
    for beside in [false, true] {
        let fs = disk();
        let mut log = unsynced_log(&fs);
        fs.fail_sync(0, SyncFailure::MarksClean); // The oldest is synced first.
        let outcome = match beside {
            true => {
                let job = log.begin_sync().expect("an open log").expect("something to sync");
                let outcome = job.run();
                log.finish_sync(job, outcome)
            }
            false => log.sync(),
        };
        let error = outcome.expect_err("EIO");
        assert!(error.kind() == Kind::Io && error.to_string().contains("000001.wal"), "{error}");
        assert_eq!(append(&mut log, 19, 8).expect_err("closed").kind(), Kind::Closed);
    }
}

#[test]
fn a_released_segment_is_not_synced_any_more() {
    let fs = disk();
    let mut log = unsynced_log(&fs);
    log.release(log.current()).remove().expect("names to remove");
    let syncs = fs.syncs();
    log.sync().expect("a sync");
    assert_eq!(fs.syncs(), syncs + 1);
    append(&mut log, 19, 20).expect("room");
    let floor = log.current();
    assert_eq!(read(&fs, floor).expect("a whole log").0.last(), Some(&19));
}

#[test]
fn an_unfinished_recovery_leaves_the_old_log_in_force() {
    let fs = disk();
    let mut log = new_log(&fs);
    for n in 1..=9 {
        append(&mut log, n, 100).expect("room");
    }
    log.seal().expect("a sync");
    let (groups, found) = read(&fs, FIRST).expect("a whole log");
    let mut copy = start(&fs, &found);
    for n in &groups {
        append(&mut copy, *n, 100).expect("room");
    }
    append(&mut copy, 10, 100).expect("room");
    copy.seal().expect("a sync");
    assert_eq!(read(&fs, FIRST).expect("the manifest still names the old log").0, groups);
    let (next, _) = read(&fs, found.next_segment).expect("the new one, once it is named");
    assert_eq!(next, (1..=10).collect::<Vec<_>>());
    assert_placed(&read(&fs, SegmentId(0)).expect_err("a log that no manifest knows of"));
}

#[test]
fn after_a_failed_sync_the_log_takes_nothing_more() {
    let fs = disk();
    let mut log = new_log(&fs);
    append(&mut log, 1, 100).expect("room");
    let job = log.begin_sync().expect("an open log").expect("something to sync");
    append(&mut log, 2, 100).expect("room");
    fs.fail_sync(0, SyncFailure::MarksClean);
    assert_eq!(log.sync().expect_err("EIO").kind(), Kind::Io);
    // A sync that was under way succeeds; nothing may be acknowledged on its word any more.
    let outcome = job.run();
    assert_eq!(log.finish_sync(job, outcome).expect_err("closed").kind(), Kind::Closed);
    for outcome in [append(&mut log, 3, 8), log.sync(), log.seal()] {
        assert_eq!(outcome.expect_err("closed").kind(), Kind::Closed);
    }
    assert!(log.wants_spare().is_none() && log.closed().is_some());
}

#[test]
fn a_sync_under_way_covers_what_was_written_before_it() {
    let fs = disk();
    let mut log = new_log(&fs);
    append(&mut log, 1, 100).expect("room");
    let job = log.begin_sync().expect("an open log").expect("something to sync");
    append(&mut log, 2, 100).expect("room");
    let later = log.begin_sync().expect("an open log").expect("something to sync");
    let outcome = later.run();
    assert_eq!(log.frames(), (3, 1));
    log.finish_sync(later, outcome).expect("a sync");
    assert_eq!(log.frames(), (3, 3));
    let outcome = job.run();
    log.finish_sync(job, outcome).expect("a sync");
    assert_eq!(log.frames(), (3, 3), "the watermark never goes back");
    assert!(log.begin_sync().expect("an open log").is_none(), "nothing is left to sync");
}

#[test]
fn a_sync_of_a_segment_that_is_full_by_then_counts() {
    let fs = disk();
    let mut log = new_log(&fs);
    append(&mut log, 1, 400).expect("room");
    let job = log.begin_sync().expect("an open log").expect("something to sync");
    let mut n = 1;
    while log.current() == FIRST {
        n += 1;
        append(&mut log, n, 400).expect("room");
    }
    let before = log.frames();
    let outcome = job.run();
    log.finish_sync(job, outcome).expect("a sync");
    assert_eq!((before, log.frames().1), ((before.0, 1), 2), "up to where it began, no further");
    sync_beside(&mut log);
    assert_eq!(log.frames().0, log.frames().1);
    assert_eq!(read(&fs, FIRST).expect("a whole log").0, (1..=n).collect::<Vec<_>>());
}

#[test]
fn no_more_syncs_are_under_way_than_there_are_handles_for() {
    let fs = disk();
    let mut log = new_log(&fs);
    append(&mut log, 1, 20).expect("room");
    let mut jobs = Vec::new();
    while let Some(job) = log.begin_sync().expect("an open log") {
        jobs.push(job);
        assert!(jobs.len() <= SYNC_LANES, "more syncs than handles");
    }
    assert_eq!(jobs.len(), SYNC_LANES);
    for job in jobs {
        let outcome = job.run();
        log.finish_sync(job, outcome).expect("a sync");
    }
    // Every handle is back.
    append(&mut log, 2, 20).expect("room");
    sync_beside(&mut log);
    assert_eq!(log.frames(), (3, 3));
}

#[test]
fn a_spare_that_is_too_small_makes_way_for_a_larger_segment() {
    let fs = disk();
    let mut log = new_log(&fs);
    (1..=3).for_each(|n| append(&mut log, n, 400).expect("room"));
    log.find_room(8).expect("there is room as it is");
    let job = log.wants_spare().expect("half full");
    log.add_spare(job.run().expect("a spare"));
    assert_eq!(log.current(), FIRST, "it lies ready");
    append(&mut log, 4, 100_000).expect("room");
    append(&mut log, 5, 400).expect("room");
    assert_eq!(read(&fs, FIRST).expect("a whole log").0, [1, 2, 3, 4, 5]);
}

#[test]
fn a_free_file_of_a_length_that_no_log_gave_it_is_brought_to_one() {
    for (more, what) in [(100, "no whole blocks"), (1 << 20, "too long")] {
        let fs = disk();
        let mut log = new_log(&fs);
        for n in 1..=40 {
            append(&mut log, n, 400).expect("room");
        }
        log.seal().expect("a sync");
        let (_, found) = read(&fs, log.current()).expect("a whole log");
        assert!(!found.free.is_empty(), "there is something to reuse");
        for id in &found.free {
            let end = bytes_of(&fs, id.0).len();
            overwrite(&fs, id.0, end, &vec![9; more]);
        }
        let mut log = start(&fs, &found);
        for n in 41..=80 {
            append(&mut log, n, 400).expect("room");
        }
        let (groups, again) = read(&fs, found.next_segment).expect("a whole log");
        assert_eq!(groups, (41..=80).collect::<Vec<_>>(), "{what}");
        assert_eq!(again.tail_discarded_bytes, 0, "{what}");
    }
}

#[test]
fn what_the_reader_of_a_payload_finds_gets_a_place() {
    let (fs, _) = small_log(Synced::Each, true);
    let found = |error: fn() -> Error| {
        let shown = replay(&fs, Path::new(DIR), FIRST, &mut |_, _, _| Err(error()));
        shown.expect_err("the first group is refused")
    };
    assert_placed(&found(|| Error::new(Kind::Corrupt, "a row without an end")));
    let own = found(|| Error::corrupt(Path::new("/db/x"), 7, "it has a place"));
    assert_eq!(own.place(), Some((Path::new("/db/x"), Some(7))));
    assert_eq!(found(|| Error::invalid("not damage")).kind(), Kind::Invalid);
}

#[test]
fn groups_out_of_order_or_empty_are_refused_and_harmless() {
    let fs = disk();
    let mut log = new_log(&fs);
    append(&mut log, 5, 100).expect("room");
    assert_eq!(append(&mut log, 5, 100).expect_err("again").kind(), Kind::Invalid);
    assert_eq!(append(&mut log, 4, 100).expect_err("older").kind(), Kind::Invalid);
    let frame = &mut FrameBuffer::default();
    let empty = Group { first_ts: CommitTs(90), last_ts: CommitTs(90), frame, sync: true };
    assert_eq!(log.append(empty).expect_err("a seal in disguise").kind(), Kind::Invalid);
    let frame = &mut FrameBuffer::default();
    frame.room(8).extend_from_slice(&[7; 8]);
    let backwards = Group { first_ts: CommitTs(91), last_ts: CommitTs(90), frame, sync: true };
    assert_eq!(log.append(backwards).expect_err("its end is first").kind(), Kind::Invalid);
    append(&mut log, 6, 100).expect("room");
    assert_eq!(read(&fs, FIRST).expect("a whole log").0, [5, 6]);
}

#[test]
fn a_spare_that_comes_too_late_does_no_harm() {
    let fs = disk();
    let mut log = new_log(&fs);
    (1..=3).for_each(|n| append(&mut log, n, 400).expect("room"));
    let job = log.wants_spare().expect("half full");
    assert!(log.wants_spare().is_none(), "one at a time");
    for n in 4..=9 {
        append(&mut log, n, 400).expect("room");
    }
    let current = log.current();
    log.add_spare(job.run().expect("a spare"));
    for n in 10..=19 {
        append(&mut log, n, 400).expect("room");
    }
    assert!(log.current() > current);
    assert_eq!(read(&fs, FIRST).expect("a whole log").0, (1..=19).collect::<Vec<_>>());
}

#[test]
fn a_dump_tells_every_frame() {
    let (fs, _) = small_log(Synced::Each, true);
    let mut lines = Vec::new();
    dump(&fs, Path::new(DIR), FIRST, &mut |line| lines.push(line)).expect("a whole segment");
    assert_eq!(lines.len(), 1 + 1 + 5 + 1);
    assert!(lines[0].ends_with("segment 1 of the log from 1  4608 bytes in blocks of 512"));
    assert!(
        lines[3].contains("frame 3  durable 2")
            && lines[3].ends_with("100 bytes, commits 20 to 23")
    );
    assert!(lines[7].ends_with("seal   after commit 53"), "{}", lines[7]);
}

/// A sync as others may append meanwhile.
fn sync_beside(log: &mut LogWriter) {
    if let Some(job) = log.begin_sync().expect("an open log") {
        let outcome = job.run();
        log.finish_sync(job, outcome).expect("a sync");
    }
}

/// Appends, pairs of appends under one sync, spares, changes of segment, releases.
/// Marks: the group acknowledged, and the floor in the upper half.
fn workload(log: &mut LogWriter, mark: &dyn Fn(u64)) -> Vec<SegmentId> {
    let mut segment_of = Vec::new();
    let mut floor = FIRST;
    for n in 1..=40 {
        let durable = append_with(log, n, 100 + 90 * (n as usize % 7), n % 5 < 2);
        segment_of.push(log.current());
        if durable.expect("room") {
            mark(floor.0 << 32 | n);
        }
        if n % 4 == 0 {
            sync_beside(log);
            mark(floor.0 << 32 | n);
        } else if n % 10 == 7 {
            log.sync().expect("a sync");
            mark(floor.0 << 32 | n);
        }
        if let Some(job) = log.wants_spare() {
            log.add_spare(job.run().expect("a spare"));
        }
        if n % 9 == 0 {
            floor = log.current();
            mark(floor.0 << 32);
            log.release(floor).remove().expect("names to remove");
        }
    }
    log.seal().expect("a sync");
    mark(floor.0 << 32 | 40);
    segment_of
}

#[test]
fn every_crash_leaves_a_prefix_with_all_that_was_acknowledged() {
    let fs = disk();
    let mut log = new_log(&fs);
    let trace = fs.record();
    let segment_of = workload(&mut log, &|value| trace.mark(value));
    let (mut states, mut cuts) = (0, 0);
    for n in 0..=trace.len() {
        let marks = trace.marks(n);
        let floor = SegmentId(marks.iter().map(|mark| mark >> 32).max().unwrap_or(1));
        let acked = marks.iter().map(|mark| mark & 0xffff_ffff).max().unwrap_or(0);
        let first = segment_of.iter().position(|id| *id >= floor).map_or(1, |n| n as u64 + 1);
        let disk = trace.at(n).expect("a recorded effect");
        for state in disk.crash_states(Profile::Hostile, 150, n as u64) {
            let fs = SimFs::after_crash(&state);
            let (groups, found) =
                read(&fs, floor).unwrap_or_else(|error| panic!("effect {n}, {state:?}: {error}"));
            let last = first + groups.len() as u64;
            assert!(groups.iter().copied().eq(first..last), "effect {n}, {state:?}: {groups:?}");
            assert!(last > acked, "effect {n}, {state:?}: {groups:?} without {acked}");
            states += 1;
            cuts += usize::from(found.tail_discarded_bytes > 0);
            if states % 16 == 0 {
                recover(&fs, floor, &groups, &found);
            }
        }
    }
    assert!(states > 1000 && cuts > 100, "{states} states, {cuts} with a torn tail");
}

/// Copies the tail into a fresh log, with a crash wherever it may come.
fn recover(fs: &SimFs, floor: SegmentId, groups: &[u64], found: &Replay) {
    let trace = fs.record();
    let mut log = start(fs, found);
    for n in groups {
        append(&mut log, *n, 100).expect("room");
    }
    log.seal().expect("a sync");
    for n in (0..=trace.len()).step_by(3) {
        let disk = trace.at(n).expect("a recorded effect");
        for state in disk.crash_states(Profile::Hostile, 4, n as u64) {
            let (again, _) = read(&SimFs::after_crash(&state), floor)
                .unwrap_or_else(|error| panic!("recovery, effect {n}, {state:?}: {error}"));
            assert_eq!(again, groups, "recovery, effect {n}, {state:?}");
        }
    }
    assert_eq!(read(fs, log.current().min(found.next_segment)).expect("a whole log").0, groups);
}
