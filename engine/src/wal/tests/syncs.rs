//! What a sync covers, beside commits that go on, and what a failed one leaves.

use super::*;

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
    assert_eq!(fs.syncs() - syncs, spares, "a change of segments waits for no disk");
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
    let floor = log.floor(log.current());
    assert_eq!(read(&fs, floor).expect("a whole log").0.last(), Some(&19));
}

/// The manifest says which frame came before a segment whose first one is not durable yet.
#[test]
fn a_segment_that_lost_its_first_frame_is_missed_once_that_was_synced() {
    let fs = disk();
    let log = unsynced_log(&fs);
    let floor = log.floor(log.current());
    let (groups, found) = read(&fs, floor).expect("a whole log");
    let link = floor.after.expect("what came before");
    assert!(link.ts < found.last_ts, "{floor:?}");
    let lost = fs.crash_states(Profile::Hostile, 100, 7).filter_map(|state| {
        let fs = SimFs::after_crash(&state);
        let (some, found) = read(&fs, floor).expect("nothing was promised");
        // The commit before may be in no file: one that wrote nothing.
        assert!(found.seen_ts >= link.ts, "{found:?} would give {} again", link.ts);
        assert!(groups.starts_with(&some), "{some:?} of {groups:?}");
        some.is_empty().then_some(fs)
    });
    let fs = lost.last().expect("a crash that takes them all");
    let error = read(&fs, floor.segment).expect_err("as if it had been durable");
    assert!(error.message().contains("the log's first frame"), "{error}");

    let fs = disk();
    let mut log = unsynced_log(&fs);
    let floor = log.floor(log.current());
    log.sync().expect("a sync");
    append(&mut log, 19, 20).expect("room");
    assert_eq!(log.floor(log.current()), LogFloor::at(floor.segment), "it is durable now");
    overwrite(&fs, floor.segment.0, 512 + 3, &[0xff]);
    for floor in [floor, LogFloor::at(floor.segment)] {
        let error = read(&fs, floor).expect_err("group 19 tells of the sync");
        assert_placed(&error);
        assert_eq!(error.place().and_then(|place| place.1), Some(512), "{error}");
    }
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
    // Of segments that are behind others but the last one handle is kept.
    for (segments_behind, last, lanes) in [(false, 1, SYNC_LANES), (true, 18, 1)] {
        let fs = disk();
        let mut log = match segments_behind {
            true => unsynced_log(&fs),
            false => new_log(&fs),
        };
        if !segments_behind {
            append(&mut log, last, 20).expect("room");
        }
        let mut jobs = Vec::new();
        while let Some(job) = log.begin_sync().expect("an open log") {
            jobs.push(job);
            assert!(jobs.len() <= lanes, "more syncs than handles");
        }
        assert_eq!(jobs.len(), lanes);
        for job in jobs {
            let outcome = job.run();
            log.finish_sync(job, outcome).expect("a sync");
        }
        // Every handle is back.
        append(&mut log, last + 1, 20).expect("room");
        sync_beside(&mut log);
        assert_eq!(log.frames().0, log.frames().1);
        assert_eq!(read(&fs, FIRST).expect("a whole log").0, (1..=last + 1).collect::<Vec<_>>());
    }
}
