//! Checksums made good again after damage: what whoever wrote the bytes would have put there.
//! Written from docs/format.md, apart from the engine.

use crate::corpus::kind_of;
use std::ops::Range;

const SEGMENT_HEADER_BYTES: usize = 40;
const FRAME_HEADER_BYTES: usize = 56;
const TABLE_FOOTER_BYTES: usize = 72;
const EDITS_AT: usize = 32;
const EDIT_HEADER_BYTES: usize = 16;

/// Stretches of a table file or blob file that end in their checksum.
pub(crate) type Stretches = Vec<Range<usize>>;

fn placed(file: u64, offset: usize, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&file.to_le_bytes());
    hasher.update(&(offset as u64).to_le_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn put(bytes: &mut [u8], at: usize, sum: u32) {
    if let Some(place) = bytes.get_mut(at..at + 4) {
        place.copy_from_slice(&sum.to_le_bytes());
    }
}

/// The number in a file's name.
pub(crate) fn number_of(name: &str) -> u64 {
    name.split('.').next().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// What is sealed as a whole in a sound table file: blocks, sections and footer; of a blob file its
/// header and footer.
pub(crate) fn stretches(name: &str, bytes: &[u8]) -> Stretches {
    let mut all = Stretches::new();
    match kind_of(name) {
        "sst" => {
            let footer = bytes.len() - TABLE_FOOTER_BYTES;
            let lens = (0..6).filter_map(|n| u64_at(bytes, footer + 20 + 8 * n));
            let lens: Vec<usize> = lens.map(|len| len as usize).collect();
            let mut at = 0;
            while at < lens[0] {
                all.push(at..at + block_bytes(&bytes[at..]));
                at = all[all.len() - 1].end;
            }
            for len in lens[1..].iter().filter(|len| **len > 0) {
                all.push(at..at + len);
                at += len;
            }
            assert_eq!(at, footer, "{name} is full of sections");
            all.push(footer..bytes.len());
        }
        "blob" => all.extend([0..24, bytes.len() - 28..bytes.len()]),
        _ => {}
    }
    all
}

/// Bytes of the block that begins here, its checksum included: its columns one after the other.
fn block_bytes(block: &[u8]) -> usize {
    let short = |at: usize| usize::from(block[at]) | usize::from(block[at + 1]) << 8;
    let (rows, runs, common, texts, tails) = (short(0), short(2), short(4), short(6), short(8));
    let (flags, ts_width) = (block[10], usize::from(block[11]));
    let of_row = usize::from(flags & 1) + 8 + 1 + ts_width + 2 + if flags & 4 == 0 { 2 } else { 4 };
    let stored = u32_at(block, 16).unwrap_or(0) as usize;
    28 + common + 6 * runs + texts + rows * of_row + tails + stored + 4
}

/// Makes all checksums of a file agree with what it holds, as far as it can still be followed.
/// `stretches`: those of the file before it was damaged.
pub(crate) fn seal(name: &str, bytes: &mut [u8], stretches: &[Range<usize>]) {
    match kind_of(name) {
        "ROOT" if bytes.len() > 8 => {
            let sum = placed(0, 0, &bytes[8..]);
            put(bytes, 4, sum);
        }
        "manifest-a" | "manifest-b" => seal_edits(number_of(name), bytes),
        "wal" => seal_frames(number_of(name), bytes),
        _ => {
            let len = bytes.len();
            for Range { start, end } in stretches.iter().filter(|s| s.end <= len).cloned() {
                let sum = placed(number_of(name), start, &bytes[start..end - 4]);
                put(bytes, end - 4, sum);
            }
        }
    }
}

fn seal_edits(generation: u64, bytes: &mut [u8]) {
    if bytes.len() < EDITS_AT {
        return;
    }
    let sum = placed(generation, 0, &bytes[8..EDITS_AT]);
    put(bytes, 4, sum);
    let mut at = EDITS_AT;
    while let Some(len) = u32_at(bytes, at + 4) {
        let end = at.saturating_add(EDIT_HEADER_BYTES).saturating_add(len as usize);
        let Some(body) = bytes.get(at + 4..end) else { return };
        let sum = placed(generation, at, body);
        put(bytes, at, sum);
        at = end;
    }
}

/// The number of the newest frame in a segment of the log; 0 where there is none. Of what an
/// earlier use of the file left, nothing.
pub(crate) fn newest_frame(bytes: &[u8]) -> u64 {
    let Some(segment) = u64_at(bytes, 16) else { return 0 };
    let starts = (512..bytes.len()).step_by(8);
    let ours = starts
        .filter(|at| bytes[*at..].starts_with(b"TLF1") && u64_at(bytes, at + 16) == Some(segment));
    ours.filter_map(|at| u64_at(bytes, at + 24)).max().unwrap_or(0)
}

/// The frames are also chained: each has the checksum of the one before.
fn seal_frames(segment: u64, bytes: &mut [u8]) {
    let Some(block) = u32_at(bytes, 8).filter(|block| [512, 4096].contains(block)) else { return };
    let (block, salt) = (block as usize, u32_at(bytes, 12).unwrap_or(0));
    let sum = placed(segment, 0, &bytes[8..SEGMENT_HEADER_BYTES]);
    put(bytes, 4, sum);
    let (mut at, mut before) = (block, None);
    while at + FRAME_HEADER_BYTES <= bytes.len() {
        let is_ours = [b"TLF1", b"TLN1"].iter().any(|magic| bytes[at..].starts_with(*magic))
            && u64_at(bytes, at + 16) == Some(segment);
        let len = u32_at(bytes, at + 8).unwrap_or(0) as usize;
        let end = at.saturating_add(FRAME_HEADER_BYTES).saturating_add(len);
        if !is_ours || end > bytes.len() {
            at = (at + 1).next_multiple_of(block);
            continue;
        }
        let number = u64_at(bytes, at + 24);
        if let (Some((last, crc)), Some(number)) = (before, number)
            && number == last + 1
        {
            put(bytes, at + 12, crc);
        }
        let sum = placed(segment, at, &bytes[at + 8..end]) ^ salt;
        put(bytes, at + 4, sum);
        before = number.map(|number| (number, sum));
        at = end.next_multiple_of(8);
    }
}
