//! One change to the set of files, and its bytes. Pure.
//!
//! ```text
//! edit: every integer a varint unless a line says otherwise; one encoding per edit
//! flags      1 byte: 1 log floor, 2 next file, 4 last commit, 8 erasures, 16 history floor,
//!            32 history, 64 log link are present, 64 only with 1; bit 128 is 0
//! log floor  if flagged: the first log segment still needed
//! log link   if flagged: the last frame before that segment: number, checksum, last commit
//! next file  if flagged: the number of the next file
//! last ts    if flagged: the last commit that is in files
//! history    if flagged: the history floor, a moment: older ones may not be whole any more
//! window     if flagged: the history window, in ticks
//! removed    how many, then for each: level (1 byte), file number
//! added      how many, then for each: level (1 byte), file:
//!            number, bytes, smallest key, largest key (each length and bytes),
//!            min ts, max ts, rows, deletes, oldest delete, erased to, aged to,
//!            rows that expire, and if any: the first expiry, the last (expiries up to 2^64),
//!            checksum (8 bytes, little-endian),
//!            blob files it refers to: how many, then of each: number, values, bytes;
//!            where the level has 128 added to it: versions that are replaced, the first commit
//!            that replaces one, the last
//! blobs      blob files added: how many, then for each: number, bytes, values
//! erasures   if flagged: how many are removed, each; how many are added, each; not both none:
//!            start, end (each length and bytes), ts
//! ```

use crate::blob::format::{BlobMeta, Use, put_uses, read_uses};
use crate::codec::{Reader, put_slice, put_varint};
use crate::erasure::set::Erasure;
use crate::ids::{CommitTs, FileNo, SegmentId};
use crate::lapsing::Lapsing;
use crate::limits::{KEY_BYTES_MAX, LEVELS, NUMBER_MAX};
use crate::sstable::format::FileMeta;
use crate::wal::format::{Link, LogFloor};
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::sync::Arc;

const HAS_LOG_FLOOR: u8 = 1;
const HAS_NEXT_FILE: u8 = 2;
const HAS_LAST_TS: u8 = 4;
const HAS_ERASURES: u8 = 8;
const HAS_HISTORY_FLOOR: u8 = 16;
const HAS_HISTORY: u8 = 32;
const HAS_LOG_LINK: u8 = 64;
const ALL_FLAGS: u8 = HAS_LOG_FLOOR
    | HAS_NEXT_FILE
    | HAS_LAST_TS
    | HAS_ERASURES
    | HAS_HISTORY_FLOOR
    | HAS_HISTORY
    | HAS_LOG_LINK;

/// Added to the level of a file some of whose versions are replaced.
const HAS_REPLACED: u8 = 128;

/// A bound of an erasure may be the first string of bytes above the longest key.
const BOUND_BYTES_MAX: usize = KEY_BYTES_MAX + 1;

/// One change. What is `None` stays as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Edit {
    /// Level and file. The file and its name are durable before the edit is appended.
    pub(crate) added: Vec<(u8, Arc<FileMeta>)>,
    /// Level and number.
    pub(crate) removed: Vec<(u8, FileNo)>,
    /// New blob files, each of which an added file refers to. They are removed by no edit: a blob
    /// file is there for as long as a table file refers to it.
    pub(crate) blobs: Vec<Arc<BlobMeta>>,
    /// Where the log begins that is still needed.
    pub(crate) log_floor: Option<LogFloor>,
    /// The number that the next new file gets.
    pub(crate) next_file: Option<FileNo>,
    /// The last commit that is in table files.
    pub(crate) last_ts: Option<CommitTs>,
    /// The oldest moment that can be read once the edit is made.
    pub(crate) history_floor: Option<CommitTs>,
    /// The history window, in ticks.
    pub(crate) history: Option<u64>,
    /// Erasures that hide rows of files from now on.
    pub(crate) erased: Vec<Erasure>,
    /// Erasures that have nothing left to hide.
    pub(crate) retired: Vec<Erasure>,
}

impl Edit {
    /// The numbers of the files that go, by level.
    pub(crate) fn removed_by_level(&self) -> BTreeMap<u8, HashSet<FileNo>> {
        let mut gone = BTreeMap::<_, HashSet<_>>::new();
        for (level, no) in &self.removed {
            gone.entry(*level).or_default().insert(*no);
        }
        gone
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let link = self.log_floor.and_then(|floor| floor.after);
        let numbers = [
            (HAS_LOG_FLOOR, self.log_floor.map(|floor| floor.segment.0)),
            (HAS_LOG_LINK, link.map(|link| link.number)),
            (0, link.map(|link| link.crc.into())), // Of one flag with the number.
            (0, link.map(|link| link.ts.0)),
            (HAS_NEXT_FILE, self.next_file.map(|no| no.0)),
            (HAS_LAST_TS, self.last_ts.map(|ts| ts.0)),
            (HAS_HISTORY_FLOOR, self.history_floor.map(|ts| ts.0)),
            (HAS_HISTORY, self.history),
        ];
        let present = numbers.iter().filter(|(_, number)| number.is_some());
        let has_erasures = !self.erased.is_empty() || !self.retired.is_empty();
        let erasures = if has_erasures { HAS_ERASURES } else { 0 };
        let mut out = vec![present.map(|(flag, _)| flag).sum::<u8>() | erasures];
        for number in numbers.iter().filter_map(|(_, number)| *number) {
            put_varint(&mut out, number);
        }
        put_varint(&mut out, self.removed.len() as u64);
        for (level, no) in &self.removed {
            out.push(*level);
            put_varint(&mut out, no.0);
        }
        put_varint(&mut out, self.added.len() as u64);
        for (level, file) in &self.added {
            put_added(&mut out, *level, file);
        }
        put_varint(&mut out, self.blobs.len() as u64);
        for blob in &self.blobs {
            for number in [blob.no.0, blob.bytes, blob.values] {
                put_varint(&mut out, number);
            }
        }
        if has_erasures {
            put_erasures(&mut out, &self.retired);
            put_erasures(&mut out, &self.erased);
        }
        out
    }

    /// The edit that `bytes` are; `None` where they are not exactly one.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Edit> {
        let mut reader = Reader::new(bytes);
        let flags = reader.u8()?;
        let is_link_of_nothing = flags & (HAS_LOG_FLOOR | HAS_LOG_LINK) == HAS_LOG_LINK;
        if flags & !ALL_FLAGS != 0 || is_link_of_nothing {
            return None;
        }
        let mut number =
            |flag| if flags & flag == 0 { Some(None) } else { reader.varint().map(Some) };
        let segment = number(HAS_LOG_FLOOR)?.map(SegmentId);
        let link = [number(HAS_LOG_LINK)?, number(HAS_LOG_LINK)?, number(HAS_LOG_LINK)?];
        let after = match link {
            [Some(number), Some(crc), Some(ts)] => {
                Some(Link { number, crc: crc.try_into().ok()?, ts: CommitTs(ts) })
            }
            _ => None,
        };
        let mut edit = Edit {
            log_floor: segment.map(|segment| LogFloor { segment, after }),
            next_file: number(HAS_NEXT_FILE)?.map(FileNo),
            last_ts: number(HAS_LAST_TS)?.map(CommitTs),
            history_floor: number(HAS_HISTORY_FLOOR)?.map(CommitTs),
            history: number(HAS_HISTORY)?,
            ..Edit::default()
        };
        let removed = reader.varint()?;
        if crate::planted!("B33") {
            edit.removed.reserve(removed as usize); // Planted (`planted.rs`): a length is believed.
        }
        for _ in 0..removed {
            edit.removed.push((level(&mut reader)?, FileNo(reader.varint()?)));
        }
        for _ in 0..reader.varint()? {
            edit.added.push(added(&mut reader)?);
        }
        for _ in 0..reader.varint()? {
            let (no, bytes, values) = (reader.varint()?, reader.varint()?, reader.varint()?);
            edit.blobs.push(Arc::new(BlobMeta { no: FileNo(no), bytes, values }));
        }
        if flags & HAS_ERASURES != 0 {
            (edit.retired, edit.erased) = (erasures(&mut reader)?, erasures(&mut reader)?);
            if edit.retired.is_empty() && edit.erased.is_empty() {
                return None;
            }
        }
        (reader.is_empty() && edit.largest_number() <= NUMBER_MAX).then_some(edit)
    }

    /// The largest number in it from which anybody counts on.
    pub(crate) fn largest_number(&self) -> u64 {
        let link = self.log_floor.and_then(|floor| floor.after);
        let numbers = self.log_floor.map(|floor| floor.segment.0).into_iter();
        let numbers = numbers.chain(link.map(|link| link.number)).chain(link.map(|link| link.ts.0));
        let numbers =
            numbers.chain(self.next_file.map(|no| no.0)).chain(self.last_ts.map(|ts| ts.0));
        let numbers = numbers.chain(self.history_floor.map(|ts| ts.0));
        let numbers = numbers.chain(self.added.iter().map(|(_, file)| file.no.0));
        let numbers = numbers.chain(self.blobs.iter().map(|blob| blob.no.0));
        numbers.chain(self.erased.iter().map(|erasure| erasure.ts.0)).max().unwrap_or(0)
    }

    /// The edit as readable lines, each beginning with `indent`.
    pub(crate) fn dump(&self, indent: &str) -> String {
        let mut out = String::new();
        let mut line = |text: String| {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{indent}{text}");
        };
        if let Some(LogFloor { segment, after }) = self.log_floor {
            let link = |Link { number, crc, ts }| {
                format!(", behind frame {number} with checksum {crc:08x}, commits to {ts}")
            };
            line(format!("log from segment {}{}", segment.0, after.map(link).unwrap_or_default()));
        }
        if let Some(next) = self.next_file {
            line(format!("next file {next}"));
        }
        if let Some(ts) = self.last_ts {
            line(format!("commits to {ts} are in files"));
        }
        if let Some(floor) = self.history_floor {
            line(format!("readable from {floor}"));
        }
        if let Some(ticks) = self.history {
            line(format!("history of {} s", ticks / CommitTs::TICKS_PER_SECOND));
        }
        for (level, no) in &self.removed {
            line(format!("L{level} - {no}"));
        }
        for (level, file) in &self.added {
            line(format!("L{level} + {}", dump_file(file)));
            let Lapsing { rows, from, to } = file.expiring;
            if rows > 0 {
                line(format!("     {rows} rows expire, from {from} to {to}"));
            }
            let Lapsing { rows, from, to } = file.replaced;
            if rows > 0 {
                line(format!("     {rows} versions are replaced, by commits {from} to {to}"));
            }
            for (no, Use { values, bytes }) in &file.blobs {
                line(format!("     refers to {values} values, {bytes} bytes, of blob file {no}"));
            }
        }
        for BlobMeta { no, bytes, values } in self.blobs.iter().map(|blob| &**blob) {
            line(format!("blob file + {no}  {bytes} bytes  {values} values"));
        }
        for (sign, erasures) in [('-', &self.retired), ('+', &self.erased)] {
            for Erasure { start, end, ts } in erasures {
                let (start, end) = (start.escape_ascii(), end.escape_ascii());
                line(format!("erased {sign} keys {start}..{end}  before commit {ts}"));
            }
        }
        out
    }
}

fn put_added(out: &mut Vec<u8>, level: u8, file: &FileMeta) {
    let has_replaced = file.replaced.rows > 0;
    out.push(level | if has_replaced { HAS_REPLACED } else { 0 });
    put_varint(out, file.no.0);
    put_varint(out, file.bytes);
    put_slice(out, &file.smallest);
    put_slice(out, &file.largest);
    for number in [file.min_ts.0, file.max_ts.0, file.rows, file.deletes] {
        put_varint(out, number);
    }
    put_varint(out, file.oldest_delete.0);
    put_varint(out, file.erased_to.0);
    put_varint(out, file.aged_to.0);
    file.expiring.put(out);
    out.extend_from_slice(&file.checksum.to_le_bytes());
    put_uses(&file.blobs, out);
    if has_replaced {
        file.replaced.put(out);
    }
}

fn put_erasures(out: &mut Vec<u8>, erasures: &[Erasure]) {
    put_varint(out, erasures.len() as u64);
    for erasure in erasures {
        put_slice(out, &erasure.start);
        put_slice(out, &erasure.end);
        put_varint(out, erasure.ts.0);
    }
}

fn erasures(reader: &mut Reader<'_>) -> Option<Vec<Erasure>> {
    let mut erasures = Vec::new();
    for _ in 0..reader.varint()? {
        erasures.push(Erasure {
            start: reader.slice(BOUND_BYTES_MAX)?.into(),
            end: reader.slice(BOUND_BYTES_MAX)?.into(),
            ts: CommitTs(reader.varint()?),
        });
    }
    Some(erasures)
}

fn level(reader: &mut Reader<'_>) -> Option<u8> {
    reader.u8().and_then(known_level)
}

fn known_level(level: u8) -> Option<u8> {
    (usize::from(level) < LEVELS).then_some(level)
}

fn added(reader: &mut Reader<'_>) -> Option<(u8, Arc<FileMeta>)> {
    let level = reader.u8()?;
    let mut file = FileMeta {
        no: FileNo(reader.varint()?),
        bytes: reader.varint()?,
        smallest: reader.slice(KEY_BYTES_MAX)?.to_vec(),
        largest: reader.slice(KEY_BYTES_MAX)?.to_vec(),
        min_ts: CommitTs(reader.varint()?),
        max_ts: CommitTs(reader.varint()?),
        rows: reader.varint()?,
        deletes: reader.varint()?,
        oldest_delete: CommitTs(reader.varint()?),
        erased_to: CommitTs(reader.varint()?),
        aged_to: CommitTs(reader.varint()?),
        expiring: Lapsing::read(reader)?,
        checksum: reader.u64()?,
        blobs: read_uses(reader)?,
        replaced: Lapsing::default(),
    };
    if level & HAS_REPLACED != 0 {
        file.replaced = Lapsing::read(reader).filter(|replaced| replaced.rows > 0)?;
    }
    Some((known_level(level & !HAS_REPLACED)?, Arc::new(file)))
}

fn dump_file(file: &FileMeta) -> String {
    format!(
        "{}  {} bytes  {} rows ({} deletes)  commits {} to {}  keys {}..{}  xxh3 {:016x}",
        file.no,
        file.bytes,
        file.rows,
        file.deletes,
        file.min_ts,
        file.max_ts,
        file.smallest.escape_ascii(),
        file.largest.escape_ascii(),
        file.checksum,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blob::format::Uses;

    fn erasure(start: &str, end: &str, ts: u64) -> Erasure {
        let (start, end) = (start.as_bytes().into(), end.as_bytes().into());
        Erasure { start, end, ts: CommitTs(ts) }
    }

    fn edit() -> Edit {
        let file = FileMeta {
            no: FileNo(7),
            bytes: 4096,
            smallest: b"a".to_vec(),
            largest: b"k".to_vec(),
            min_ts: CommitTs(300),
            max_ts: CommitTs(400),
            rows: 12,
            deletes: 2,
            oldest_delete: CommitTs(310),
            erased_to: CommitTs(350),
            aged_to: CommitTs(299),
            expiring: Lapsing { rows: 3, from: CommitTs(900), to: CommitTs(950) },
            replaced: Lapsing { rows: 2, from: CommitTs(320), to: CommitTs(400) },
            blobs: Uses::from([(FileNo(6), Use { values: 3, bytes: 500 })]),
            checksum: 0x1122_3344_5566_7788,
        };
        let blob = BlobMeta { no: FileNo(6), bytes: 600, values: 3 };
        Edit {
            added: vec![(1, Arc::new(file))],
            blobs: vec![Arc::new(blob)],
            removed: vec![(0, FileNo(3)), (1, FileNo(4))],
            log_floor: Some(LogFloor {
                segment: SegmentId(2),
                after: Some(Link { number: 17, crc: 0xfa0b_0c0d, ts: CommitTs(405) }),
            }),
            next_file: None,
            last_ts: Some(CommitTs(400)),
            history_floor: Some(CommitTs(220)),
            history: Some(36_000_000_000),
            erased: vec![erasure("c", "d", 390)],
            retired: vec![erasure("a", "b", 200), erasure("a", "b", 210)],
        }
    }

    #[test]
    fn edits_come_back_and_shorter_or_longer_bytes_do_not() {
        for edit in [edit(), Edit::default()] {
            let mut bytes = edit.encode();
            assert_eq!(Edit::decode(&bytes), Some(edit));
            for cut in 0..bytes.len() {
                assert_eq!(Edit::decode(&bytes[..cut]), None, "cut at {cut}");
            }
            bytes.push(0);
            assert_eq!(Edit::decode(&bytes), None, "one byte more");
        }
    }

    #[test]
    fn every_edit_has_one_encoding() {
        let bytes = edit().encode();
        for at in 0..bytes.len() {
            for value in 0..=u8::MAX {
                let mut other = bytes.clone();
                other[at] = value;
                if let Some(read) = Edit::decode(&other) {
                    assert_eq!(read.encode(), other, "byte {at} = {value}");
                }
            }
        }
    }

    /// The bytes of version 1: what was written before versions were counted reads with none.
    #[test]
    fn the_level_of_a_file_tells_whether_its_replaced_versions_are_counted() {
        let mut without = edit();
        Arc::make_mut(&mut without.added[0].1).replaced = Lapsing::default();
        let (mut bytes, plain) = (edit().encode(), without.encode());
        let level = bytes.iter().zip(&plain).position(|(a, b)| a != b).expect("they differ");
        assert_eq!((plain[level], bytes[level]), (1, 129));
        let count = [2, 0xc0, 0x02, 0x90, 0x03]; // 2 versions, by commits 320 to 400.
        let at = bytes.windows(count.len()).position(|some| some == count).expect("the count");
        bytes.splice(at..at + count.len(), [0]);
        assert_eq!(Edit::decode(&bytes), None, "none are not counted");
        bytes.remove(at);
        bytes[level] = 1;
        assert_eq!(bytes, plain);
        assert_eq!(Edit::decode(&plain), Some(without));
    }

    #[test]
    fn a_log_is_told_with_the_frame_before_it_or_without() {
        let mut edit = edit();
        let linked = edit.encode();
        edit.log_floor = Some(LogFloor::at(SegmentId(2)));
        let mut bytes = edit.encode();
        assert_eq!(bytes[0], linked[0] & !HAS_LOG_LINK);
        assert_eq!(Edit::decode(&bytes), Some(edit));
        let link = [17, 0x8d, 0x98, 0xac, 0xd0, 0x0f, 0x95, 0x03];
        bytes.splice(2..2, link);
        bytes[0] |= HAS_LOG_LINK;
        assert_eq!(bytes, linked, "behind the segment");
        bytes.remove(1);
        bytes[0] &= !HAS_LOG_FLOOR;
        assert_eq!(Edit::decode(&bytes), None, "of no segment");
        let mut bytes = linked;
        bytes[7] = 0x10; // Bit 32 of the checksum.
        assert_eq!(Edit::decode(&bytes), None, "no checksum");
    }

    #[test]
    fn lists_of_erasures_that_are_empty_are_not_written() {
        let mut bytes = Edit::default().encode();
        assert_eq!(Edit::decode(&bytes), Some(Edit::default()));
        bytes[0] |= HAS_ERASURES;
        bytes.extend([0, 0]);
        assert_eq!(Edit::decode(&bytes), None, "what is not written otherwise has one form");
        assert_eq!(Edit::default().dump("  "), "", "an edit of nothing tells nothing");
    }

    #[test]
    fn reads_like_a_history() {
        assert_eq!(
            edit().dump("  "),
            "  log from segment 2, behind frame 17 with checksum fa0b0c0d, commits to 405\n  commits to 400 are in files\n  readable from 220\n  history of 3600 s\n  L0 - 000003\n  L1 - 000004\n  \
             L1 + 000007  4096 bytes  12 rows (2 deletes)  commits 300 to 400  keys a..k  \
             xxh3 1122334455667788\n       3 rows expire, from 900 to 950\n       2 versions are replaced, by commits 320 to 400\n       refers to 3 values, 500 bytes, of blob file 000006\n  \
             blob file + 000006  600 bytes  3 values\n  erased - keys a..b  before commit 200\n  \
             erased - keys a..b  before commit 210\n  erased + keys c..d  before commit 390\n"
        );
    }
}
