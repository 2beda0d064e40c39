//! The log against damage, crashes and reuse: what was acknowledged comes back or is missed aloud.

mod crash;
mod damage;
mod segments;
mod syncs;

use crate::env::rng::Rng;
use crate::error::{Error, Kind, Result};
use crate::ids::{CommitTs, SegmentId};
use crate::limits::NUMBER_MAX;
use crate::names;
use crate::vfs::api::{Access, Vfs};
use crate::vfs::fault::{Call, Errno, FaultFs, Rule};
use crate::vfs::mem::{Effect, SimFs, SyncFailure};
use crate::vfs::os::OsVfs;
use crate::vfs::sim::element::Profile;
use crate::wal::buffer::FrameBuffer;
use crate::wal::format::{
    BLOCK_BYTES, FRAME_HEADER_BYTES, FrameHeader, FrameKind, FramePlace, LogFloor,
    PAYLOAD_BYTES_MAX, SegmentHeader, frame_header,
};
use crate::wal::reader::{Seen, SegmentReader, dump};
use crate::wal::replay::{Replay, check, replay};
use crate::wal::segment::{SYNC_LANES, SpareJob};
use crate::wal::writer::{Group, LogWriter};
use bytes::Bytes;
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/db";
/// Nine blocks: a header, the log's first frame or a group, five groups, a seal or none, the name
/// of the next segment.
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
    frame.reserve(own.len()).extend_from_slice(own);
    if !lent.is_empty() {
        frame.lend(Bytes::copy_from_slice(lent));
    }
    let (first_ts, last_ts) = (CommitTs(10 * n), CommitTs(10 * n + 3));
    let appended = log.append(Group { first_ts, last_ts, frame: &mut frame, sync });
    assert_eq!(frame.payload(), payload, "a group stays as it was, refused or not");
    appended
}

/// A sync as others may append meanwhile.
fn sync_beside(log: &mut LogWriter) {
    if let Some(job) = log.begin_sync().expect("an open log") {
        let outcome = job.run();
        log.finish_sync(job, outcome).expect("a sync");
    }
}

fn payload(n: u64, bytes: usize) -> Vec<u8> {
    let mut rng = Rng::seeded(n);
    let mut out = n.to_le_bytes().to_vec();
    out.extend((8..bytes).map(|_| rng.next_u64() as u8));
    out
}

impl From<SegmentId> for LogFloor {
    fn from(segment: SegmentId) -> LogFloor {
        LogFloor::at(segment)
    }
}

/// The numbers of the groups that replay shows, each checked whole.
fn read(fs: &dyn Vfs, floor: impl Into<LogFloor>) -> Result<(Vec<u64>, Replay)> {
    let mut groups = Vec::new();
    let found = replay(fs, Path::new(DIR), floor.into(), &mut |first, last, bytes| {
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

/// Whatever room the segment has left, an end fits behind a seal, and is the last that is read.
#[test]
fn a_log_that_was_ended_says_so_until_it_begins_anew() {
    for (groups, is_sealed) in (1..=14).flat_map(|groups| [(groups, false), (groups, true)]) {
        let fs = disk();
        let mut log = new_log(&fs);
        for n in 1..=groups {
            append(&mut log, n, 100).expect("room");
            log.sync().expect("a sync");
        }
        if is_sealed {
            log.seal().expect("a sync");
        }
        assert!(!read(&fs, FIRST).expect("a whole log").1.ended);
        let upto = CommitTs(10 * groups + 7);
        log.end(upto).expect("a sync");
        let (seen, found) = read(&fs, FIRST).expect("a whole log");
        assert_eq!(seen, (1..=groups).collect::<Vec<_>>());
        assert!(found.ended && found.sealed && found.seen_ts == upto, "{groups}: {found:?}");
        let mut lines = Vec::new();
        dump(&fs, Path::new(DIR), log.current(), &mut |line| lines.push(line)).expect("a segment");
        let end = format!("end    closed; what comes later comes after {}", upto.0);
        assert!(lines.last().is_some_and(|last| last.ends_with(&end)), "{groups}: {lines:?}");
        let log = start(&fs, &found);
        assert!(!read(&fs, log.floor(log.current())).expect("a whole log").1.ended);
    }
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
    let found = replay(&*vfs, dir.path(), LogFloor::at(FIRST), &mut |first, _, bytes| {
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

/// Where the frames of groups begin in a segment.
fn frames_in(fs: &SimFs, id: u64) -> Vec<usize> {
    let bytes = bytes_of(fs, id);
    (0..bytes.len()).step_by(8).filter(|at| bytes[*at..].starts_with(b"TLF1")).collect()
}

/// A log on a disk that fails by rules.
fn faulty_log() -> (FaultFs, LogWriter) {
    let fs = FaultFs::new(Arc::new(disk()));
    let none = Replay { next_segment: FIRST, ..Replay::default() };
    let log = LogWriter::create(Arc::new(fs.clone()), Path::new(DIR), SMALL, &none);
    (fs, log.expect("a fresh log"))
}

#[test]
fn groups_out_of_order_empty_or_too_large_are_refused_and_harmless() {
    let fs = disk();
    let mut log = new_log(&fs);
    append(&mut log, 5, 100).expect("room");
    assert_eq!(append(&mut log, 5, 100).expect_err("again").kind(), Kind::Invalid);
    assert_eq!(append(&mut log, 4, 100).expect_err("older").kind(), Kind::Invalid);
    let frame = &mut FrameBuffer::default();
    let empty = Group { first_ts: CommitTs(90), last_ts: CommitTs(90), frame, sync: true };
    assert_eq!(log.append(empty).expect_err("a seal in disguise").kind(), Kind::Invalid);
    let frame = &mut FrameBuffer::default();
    frame.lend(Bytes::from(vec![0; PAYLOAD_BYTES_MAX + 1]));
    let too_much = Group { first_ts: CommitTs(90), last_ts: CommitTs(90), frame, sync: true };
    assert_eq!(log.append(too_much).expect_err("more than a frame").kind(), Kind::Invalid);
    let frame = &mut FrameBuffer::default();
    frame.reserve(8).extend_from_slice(&[7; 8]);
    let backwards = Group { first_ts: CommitTs(91), last_ts: CommitTs(90), frame, sync: true };
    assert_eq!(log.append(backwards).expect_err("its end is first").kind(), Kind::Invalid);
    append(&mut log, 6, 100).expect("room");
    assert_eq!(read(&fs, FIRST).expect("a whole log").0, [5, 6]);
}
