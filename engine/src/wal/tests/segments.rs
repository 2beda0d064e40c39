//! The log's files: made ahead, reused, too small, too late, without room.

use super::*;

#[test]
fn reused_files_never_bring_back_old_groups() {
    let fs = disk();
    let mut log = new_log(&fs);
    for n in 1.. {
        append(&mut log, n, 100).expect("room");
        if n % 3 == 0 {
            log.sync().expect("a sync");
        }
        // In the end no file lies ready: frames were written to all that there are.
        if n < 60
            && let Some(job) = log.wants_spare()
        {
            log.add_spare(job.run().expect("a spare"));
        }
        if n > 90 && frames_in(&fs, log.current().0).len() == 6 {
            break;
        }
    }
    log.seal().expect("a sync");
    // A start, twice: its log lives in files that are full of old frames.
    for round in [100, 200] {
        let (_, found) = read(&fs, log.floor(log.current())).expect("a whole log");
        assert!(!found.free.is_empty(), "there is something to reuse");
        let before = fs.list(Path::new(DIR)).expect("names").len();
        log = start(&fs, &found);
        assert!(fs.list(Path::new(DIR)).expect("names").len() <= before, "a file was reused");
        append(&mut log, round, 100).expect("room");
        let stale = frames_in(&fs, log.current().0);
        assert_eq!(stale[2], 3 * 512, "stale frames follow");
        assert_eq!(read(&fs, log.floor(log.current())).expect("a whole log").0, [round]);
        // Frames that share blocks, up to the middle of one: stale bytes fill the rest of it.
        (1..=3).for_each(|n| append(&mut log, round + n, 100).expect("room"));
        log.sync().expect("a sync");
        let groups: Vec<_> = (round..=round + 3).collect();
        assert_eq!(read(&fs, log.floor(log.current())).expect("a whole log").0, groups);
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
    assert_eq!(read(&fs, log.floor(log.current())).expect("a whole log").0.last(), Some(&100));
}

#[test]
fn the_largest_files_are_kept_while_segments_double() {
    let fs = disk();
    let found = Replay { next_segment: FIRST, ..Replay::default() };
    let log = LogWriter::create(Arc::new(fs.clone()), Path::new(DIR), 8 << 20, &found);
    let mut log = log.expect("a fresh log");
    let mut groups = 1..;
    for _ in 0..4 {
        let current = log.current();
        while log.current() == current {
            append(&mut log, groups.next().expect("a number"), 100 << 10).expect("room");
        }
    }
    log.release(log.current()).remove().expect("names to remove");
    let names = fs.list(Path::new(DIR)).expect("names");
    let lens = names.iter().map(|name| {
        let path = Path::new(DIR).join(name);
        fs.open(&path, Access::Read).and_then(|file| file.len()).expect("a length")
    });
    let mut lens: Vec<_> = lens.collect();
    lens.sort_unstable();
    assert_eq!(lens, [4 << 20, 8 << 20, 8 << 20], "1 and 2 MiB are gone");
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
            if sync {
                sync_beside(log);
            }
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
    assert_eq!(to_next_segment(&mut log, true), [0, 0], "of two one is left");
    assert_eq!(to_next_segment(&mut log, true), zeroed);
    // The group that began this segment asked for a sync: one for all of it.
    assert_eq!(to_next_segment(&mut log, false), reserved);
    assert_eq!(to_next_segment(&mut log, false), reserved);
    fs.add(Rule::fail(Call::Reserve).with(Errno::NotSupported));
    assert_eq!(to_next_segment(&mut log, false), [1, 2], "this disk reserves nothing");
    let last = groups.next().expect("a number");
    assert_eq!(read(&fs, FIRST).expect("a whole log").0, (1..last).collect::<Vec<_>>());
}

#[test]
fn segments_are_not_zeroed_where_that_takes_longer_than_syncs_gain() {
    let fs = FaultFs::new(Arc::new(disk()));
    let found = Replay { next_segment: FIRST, ..Replay::default() };
    let log = LogWriter::create(Arc::new(fs.clone()), Path::new(DIR), 8 << 20, &found);
    let mut log = log.expect("a fresh log");
    let calls = |call| fs.counts().get(&(call, "#.spare".to_owned())).copied().unwrap_or(0);
    let calls_now = || [calls(Call::Reserve), calls(Call::Write)];
    let since = |before: [u64; 2]| [calls_now()[0] - before[0], calls_now()[1] - before[1]];
    let mut groups = 1..;
    // As the pipeline does: it asks for a sync of what was durable at once, too.
    let mut next_by = |log: &mut LogWriter, bytes| {
        let current = log.current();
        let mut add = |log: &mut LogWriter| {
            append_with(log, groups.next().expect("a number"), bytes, true).expect("room");
            sync_beside(log);
        };
        let job = loop {
            add(log);
            if let Some(job) = log.wants_spare() {
                break job;
            }
        };
        let before = calls_now();
        log.add_spare(job.run().expect("a spare"));
        let made = since(before);
        while log.current() == current {
            add(log);
        }
        made
    };
    assert_eq!(next_by(&mut log, 200 << 10), [1, 1], "the header alone");
    assert_eq!(next_by(&mut log, 80 << 10), [0, 17], "a quarter of a MiB at a time");
    let before = calls_now();
    log.ensure_room(6 << 20).expect("a segment");
    assert_eq!(since(before), [1, 1], "who needs it at once does not wait for zeros");
    let last = groups.next().expect("a number");
    assert_eq!(read(&fs, FIRST).expect("a whole log").0, (1..last).collect::<Vec<_>>());
}

/// What is written at most between two syncs while a segment of 2.5 MiB is made, out of a file of
/// `before` bytes where that is not 0; and what is written in all.
fn zeros_at_once(
    (zeroed, is_ahead): (bool, bool),
    before: u64,
    fs: Arc<dyn Vfs>,
    disk: &SimFs,
) -> (usize, usize) {
    let dir = Path::new(DIR);
    if before > 0 {
        let file = fs.create(&names::segment_path(dir, SegmentId(7))).expect("a file");
        file.set_len(before).expect("a length");
    }
    let header = SegmentHeader {
        block_bytes: 512,
        salt: 7,
        segment: SegmentId(8),
        origin: FIRST,
        file_bytes: 5 << 19,
    };
    let reuse = (before > 0).then_some(SegmentId(7));
    let job = SpareJob {
        vfs: fs,
        dir: dir.to_owned(),
        header,
        file_bytes_max: 5 << 19,
        zeroed,
        is_ahead,
        reuse,
    };
    let trace = disk.record();
    job.run().expect("a segment");
    let (mut unsynced, mut most, mut all) = (0, 0, 0);
    for effect in (1..=trace.len()).filter_map(|n| trace.effect(n)) {
        match effect {
            Effect::Write { bytes, .. } => (unsynced, all) = (unsynced + bytes, all + bytes),
            Effect::Sync(_) => unsynced = 0,
            _ => {}
        }
        most = most.max(unsynced);
    }
    (most, all)
}

#[test]
fn commits_wait_for_a_mebibyte_of_zeros_at_most() {
    for before in [0, 3 * 512] {
        let disk = disk();
        let (most, all) = zeros_at_once((true, true), before, Arc::new(disk.clone()), &disk);
        assert_eq!(all as u64, (5 << 19) - before + 512, "zeros and the header");
        assert!(most <= 1 << 20, "{most} bytes were to be synced at once");
    }
}

#[test]
fn where_nothing_can_be_reserved_only_who_waits_for_a_segment_has_its_zeros_synced_at_once() {
    for (is_ahead, at_once) in [(false, (5 << 19) + 512), (true, 1 << 20)] {
        let disk = disk();
        let fs = FaultFs::new(Arc::new(disk.clone()));
        fs.add(Rule::fail(Call::Reserve).with(Errno::NotSupported));
        let (most, all) = zeros_at_once((false, is_ahead), 0, Arc::new(fs), &disk);
        assert_eq!((most, all), (at_once, (5 << 19) + 512));
    }
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

#[test]
fn a_spare_that_comes_when_a_larger_one_is_there_is_kept_for_later() {
    let fs = disk();
    let mut log = new_log(&fs);
    (1..=4).for_each(|n| append(&mut log, n, 300).expect("room"));
    let job = log.wants_spare().expect("half full");
    log.ensure_room(2 * SMALL).expect("a segment");
    log.add_spare(job.run().expect("a spare"));
    append(&mut log, 5, 2 * SMALL).expect("room was found");
    append(&mut log, 6, 20).expect("room");
    log.seal().expect("a sync");
    assert_eq!(read(&fs, FIRST).expect("a whole log").0, [1, 2, 3, 4, 5, 6]);
    // It holds no group, so it goes with those that do not count any more.
    log.release(log.current()).remove().expect("names to remove");
    log.give_up_free().remove().expect("names to remove");
    assert_eq!(fs.list(Path::new(DIR)).expect("names").len(), 1, "the segment in use");
}

#[test]
fn two_spares_follow_one_another_and_make_way_for_a_larger_one() {
    for is_larger in [false, true] {
        let fs = disk();
        let mut log = new_log(&fs);
        (1..=3).for_each(|n| append(&mut log, n, 400).expect("room"));
        for _ in 0..2 {
            let job = log.wants_spare().expect("half full");
            log.add_spare(job.run().expect("a spare"));
        }
        assert!(log.wants_spare().is_none(), "enough");
        if is_larger {
            log.ensure_room(2 * SMALL).expect("a segment");
            append(&mut log, 4, 2 * SMALL).expect("room was found");
            assert_eq!(log.current(), SegmentId(4));
        } else {
            let (syncs, mut n) = (fs.syncs(), 4);
            while log.current() < SegmentId(3) {
                append(&mut log, n, 400).expect("room");
                n += 1;
            }
            assert_eq!(fs.syncs(), syncs, "nobody made a segment");
        }
        log.seal().expect("a sync");
        let (groups, _) = read(&fs, FIRST).expect("a whole log");
        assert!(groups.len() > 3 && groups.iter().copied().eq(1..=groups.len() as u64));
    }
}

#[test]
fn a_segment_that_takes_no_direct_writes_is_written_through_the_cache() {
    let (fs, mut log) = faulty_log();
    assert!(append_with(&mut log, 1, 20, true).expect("room"), "durable by its one write");
    // The first write to a file that is needed at once is its header, past the cache.
    let refused = Rule::fail(Call::Write).named("*.spare");
    fs.add(refused.with(Errno::InvalidArgument));
    log.ensure_room(SMALL).expect("a segment");
    append(&mut log, 2, SMALL).expect("room was found");
    log.sync().expect("a sync");
    assert!(!append_with(&mut log, 3, 20, true).expect("room"), "durable only after a sync");
    log.sync().expect("a sync");
    assert_eq!(log.frames().0, log.frames().1);
    assert_eq!(read(&fs, FIRST).expect("a whole log").0, [1, 2, 3]);
}

#[test]
fn a_spare_that_is_too_small_makes_way_for_a_larger_segment() {
    let fs = disk();
    let mut log = new_log(&fs);
    (1..=3).for_each(|n| append(&mut log, n, 400).expect("room"));
    log.ensure_room(8).expect("there is room as it is");
    let job = log.wants_spare().expect("half full");
    log.add_spare(job.run().expect("a spare"));
    assert_eq!(log.current(), FIRST, "it lies ready");
    append(&mut log, 4, 100_000).expect("room");
    append(&mut log, 5, 400).expect("room");
    assert_eq!(read(&fs, FIRST).expect("a whole log").0, [1, 2, 3, 4, 5]);
}

#[test]
fn a_free_file_of_a_length_that_no_log_gave_it_is_brought_to_one() {
    let cases = [
        (SMALL, 100, "no whole blocks, and too long"),
        (SMALL, 1 << 20, "too long"),
        (4 << 20, 100, "no whole blocks, and not too long"),
    ];
    for (segment_bytes, more, what) in cases {
        let fs = disk();
        let new_log = |found: &Replay| {
            LogWriter::create(Arc::new(fs.clone()), Path::new(DIR), segment_bytes, found)
                .expect("a fresh log")
        };
        let mut log = new_log(&Replay { next_segment: FIRST, ..Replay::default() });
        let bytes = segment_bytes.min(1 << 20) / 11; // Segments begin with 1 MiB.
        // So few that no segment is as long as any may be, if they grow.
        for n in 1..=14 {
            append(&mut log, n, bytes).expect("room");
        }
        log.seal().expect("a sync");
        let (_, found) = read(&fs, log.floor(log.current())).expect("a whole log");
        assert!(!found.free.is_empty(), "there is something to reuse");
        for id in &found.free {
            let end = bytes_of(&fs, id.0).len();
            overwrite(&fs, id.0, end, &vec![9; more]);
        }
        let mut log = new_log(&found);
        let len = bytes_of(&fs, log.current().0).len();
        assert!(len.is_multiple_of(512) && len <= segment_bytes, "{what}: {len} bytes");
        for n in 15..=30 {
            append(&mut log, n, bytes).expect("room");
        }
        let (groups, again) = read(&fs, found.next_segment).expect("a whole log");
        assert_eq!(groups, (15..=30).collect::<Vec<_>>(), "{what}");
        assert_eq!(again.tail_discarded_bytes, 0, "{what}");
    }
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
fn a_segment_that_fails_under_its_new_name_leaves_no_file() {
    let (fs, mut log) = faulty_log();
    let names = || {
        let mut names = fs.list(Path::new(DIR)).expect("names");
        names.sort();
        names
    };
    let mut groups = 1..;
    let job = loop {
        append(&mut log, groups.next().expect("a number"), 100).expect("room");
        if let Some(job) = log.wants_spare() {
            break job;
        }
    };
    let before = names();
    fs.add(Rule::fail(Call::SyncDir));
    job.run().expect_err("its name is not durable");
    log.spare_failed();
    assert_eq!(names(), before);
}
