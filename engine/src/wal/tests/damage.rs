//! Damage, flips and lost segments: harmless, or named with file and offset.

use super::*;

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
    let report =
        check(&fs, Path::new(DIR), LogFloor::at(FIRST), &mut |_, _, _| Ok(())).expect("a walk");
    assert!(report.damage.is_empty());
    // Had they been synced before a later frame was written, it would be damage.
    overwrite(&fs, 1, 1024 + 160 + 100, &[0; 10]);
    let error = read(&fs, FIRST).expect_err("group 2 was synced");
    assert_placed(&error);
    assert_eq!(error.place().and_then(|place| place.1), Some(1024 + 160));
    assert!(error.message().contains("frames 3 to 3 of the log were synced"), "{error}");
}

/// Whoever chooses a value knows its place, the segment and the number of the next commit, as these
/// rise by one. A frame in it was taken for one that says more was synced, and for a commit at the
/// end of time.
#[test]
fn a_frame_in_a_value_of_a_torn_one_is_none() {
    let fs = disk();
    let mut log = new_log(&fs);
    append(&mut log, 1, 100).expect("room");
    log.sync().expect("a sync");
    let at = frames_in(&fs, 1).last().expect("that of the group").next_multiple_of(512) + 512;
    let forged = FrameHeader {
        prev_crc: 0,
        segment: FIRST,
        number: 100,
        durable: 99,
        first_ts: CommitTs(20),
        last_ts: CommitTs(NUMBER_MAX),
    };
    let place = FramePlace { segment: FIRST, salt: 0, offset: at as u64 + 512 };
    let (forged, _) = frame_header(&forged, FrameKind::Group, &place, 0, &[]);
    let mut frame = FrameBuffer::default();
    let value = frame.reserve(1024);
    value.resize(value.len() + 512 - FRAME_HEADER_BYTES, 7);
    value.extend_from_slice(&forged);
    let (first_ts, last_ts) = (CommitTs(20), CommitTs(23));
    let group = Group { first_ts, last_ts, frame: &mut frame, sync: false };
    log.append(group).expect("room");
    assert_eq!(bytes_of(&fs, 1)[at + 512..][..FRAME_HEADER_BYTES], forged);
    overwrite(&fs, 1, at + 100, &[0; 10]);
    let (groups, found) = read(&fs, FIRST).expect("a torn tail");
    assert_eq!((groups, found.last_ts, found.seen_ts), (vec![1], CommitTs(13), CommitTs(13)));
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
    let report =
        check(&fs, Path::new(DIR), LogFloor::at(FIRST), &mut |_, _, _| Ok(())).expect("a walk");
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
        let report =
            check(&fs, Path::new(DIR), LogFloor::at(FIRST), &mut |_, _, _| Ok(())).expect("a walk");
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
fn a_segment_is_read_again_from_its_start_after_a_walk_to_its_end() {
    let fs = disk();
    let none = Replay { next_segment: FIRST, ..Replay::default() };
    let mut log = LogWriter::create(Arc::new(fs.clone()), Path::new(DIR), 8 << 20, &none)
        .expect("a fresh log");
    // The segment in use is longer than a window of the reader by then.
    (1..=120).for_each(|n| append(&mut log, n, 100_000).expect("room"));
    log.sync().expect("a sync");
    let mut reader =
        SegmentReader::open(&fs, Path::new(DIR), log.current()).expect("the segment in use");
    let header = reader.header().expect("a header");
    let mut groups = 0;
    for round in 1..=2 {
        let mut see = |_: &Path, _, seen: Seen<'_>| {
            groups += u64::from(matches!(seen, Seen::Frame(..)));
            Ok(())
        };
        reader.scan(&header, &mut see).expect("a walk");
        assert_eq!(reader.header().expect("the header again"), header);
        assert!(groups > 20 * round && groups.is_multiple_of(round), "{groups} frames");
    }
}

/// A group that is damaged, and whose bytes look like a frame at every block, each to the end of
/// the file: the real one behind them is found, and they are not summed one by one.
#[test]
fn what_looks_like_frames_everywhere_takes_no_longer_than_the_file() {
    const GROUP_BYTES: usize = 4 << 20;
    const WITH_IT: SegmentId = SegmentId(2);
    let fs = disk();
    let none = Replay { next_segment: FIRST, ..Replay::default() };
    let mut log = LogWriter::create(Arc::new(fs.clone()), Path::new(DIR), 8 << 20, &none)
        .expect("a fresh log");
    for (n, bytes) in [(1, 100), (2, GROUP_BYTES), (3, 100)] {
        append(&mut log, n, bytes).expect("room");
        log.sync().expect("a sync");
    }
    let path = names::segment_path(Path::new(DIR), WITH_IT);
    let file = fs.open(&path, Access::ReadWrite).expect("the segment");
    let (first, len) = (frames_in(&fs, WITH_IT.0)[0], file.len().expect("a length") as usize);
    for at in (first..first + GROUP_BYTES).step_by(BLOCK_BYTES) {
        let mut forged = file.read_vec_at(FRAME_HEADER_BYTES, first as u64).expect("a frame");
        forged[4] ^= 1;
        forged[8..12].copy_from_slice(&((len - at - FRAME_HEADER_BYTES) as u32).to_le_bytes());
        file.write_all_at(&forged, at as u64).expect("a write");
    }
    let error = read(&fs, FIRST).expect_err("a synced group is missing");
    assert_eq!(error.place(), Some((&*path, Some(first as u64))));
    let mut reader = SegmentReader::open(&fs, Path::new(DIR), WITH_IT).expect("the segment");
    let header = reader.header().expect("a header");
    let mut forgeries = 0;
    let mut see = |_: &Path, _, seen: Seen<'_>| {
        forgeries += usize::from(matches!(seen, Seen::Nothing { claimed_bytes: 1.. }));
        Ok(())
    };
    reader.scan(&header, &mut see).expect("a walk");
    assert!(forgeries >= GROUP_BYTES / BLOCK_BYTES, "{forgeries}");
    assert!(reader.summed_in_vain <= 2 * len as u64, "{} bytes", reader.summed_in_vain);
}

#[test]
fn what_the_reader_of_a_payload_finds_gets_a_place() {
    let (fs, _) = small_log(Synced::Each, true);
    let found = |error: fn() -> Error| {
        let shown = replay(&fs, Path::new(DIR), LogFloor::at(FIRST), &mut |_, _, _| Err(error()));
        shown.expect_err("the first group is refused")
    };
    assert_placed(&found(|| Error::new(Kind::Corrupt, "a row without an end")));
    let own = found(|| Error::corrupt(Path::new("/db/x"), 7, "it has a place"));
    assert_eq!(own.place(), Some((Path::new("/db/x"), Some(7))));
    assert_eq!(found(|| Error::invalid("not damage")).kind(), Kind::Invalid);
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
