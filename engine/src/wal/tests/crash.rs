//! A crash at any moment, of the log and of its recovery.

use super::*;

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

/// Appends, pairs of appends under one sync, spares, changes of segment, releases.
/// Marks: the group acknowledged, and the floor's segment in the upper half. Gives the segment of
/// each group, and the floors.
fn workload(log: &mut LogWriter, mark: &dyn Fn(u64)) -> (Vec<SegmentId>, Vec<LogFloor>) {
    let (mut segment_of, mut floors) = (Vec::new(), vec![LogFloor::at(FIRST)]);
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
            floors.push(log.floor(floor));
            mark(floor.0 << 32);
            log.release(floor).remove().expect("names to remove");
        }
    }
    log.seal().expect("a sync");
    mark(floor.0 << 32 | 40);
    (segment_of, floors)
}

#[test]
fn every_crash_leaves_a_prefix_with_all_that_was_acknowledged() {
    let fs = disk();
    let mut log = new_log(&fs);
    let trace = fs.record();
    let (segment_of, floors) = workload(&mut log, &|value| trace.mark(value));
    assert!(floors.iter().any(|floor| floor.after.is_some()), "{floors:?}");
    let (mut states, mut cuts) = (0, 0);
    for n in 0..=trace.len() {
        let marks = trace.marks(n);
        let floor = SegmentId(marks.iter().map(|mark| mark >> 32).max().unwrap_or(1));
        let named = floors.iter().find(|named| named.segment == floor).expect("a floor");
        let acked = marks.iter().map(|mark| mark & 0xffff_ffff).max().unwrap_or(0);
        let first = segment_of.iter().position(|id| *id >= floor).map_or(1, |n| n as u64 + 1);
        let disk = trace.at(n).expect("a recorded effect");
        for state in disk.crash_states(Profile::Hostile, 150, n as u64) {
            let fs = SimFs::after_crash(&state);
            let (groups, found) =
                read(&fs, *named).unwrap_or_else(|error| panic!("effect {n}, {state:?}: {error}"));
            let last = first + groups.len() as u64;
            assert!(groups.iter().copied().eq(first..last), "effect {n}, {state:?}: {groups:?}");
            assert!(last > acked, "effect {n}, {state:?}: {groups:?} without {acked}");
            states += 1;
            cuts += usize::from(found.tail_discarded_bytes > 0);
            if states % 16 == 0 {
                recover(&fs, *named, &groups, &found);
            }
        }
    }
    assert!(states > 1000 && cuts > 100, "{states} states, {cuts} with a torn tail");
}

/// Copies the tail into a fresh log, with a crash wherever it may come.
fn recover(fs: &SimFs, floor: LogFloor, groups: &[u64], found: &Replay) {
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
    assert_eq!(read(fs, found.next_segment).expect("a whole log").0, groups);
}
