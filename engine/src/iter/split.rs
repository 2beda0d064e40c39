//! Where to cut a range so that its parts hold about as many bytes each: for a scan so that no
//! partition is in two, for a merge anywhere.
//!
//! The weights come from what is in memory of table files: of a file's index some 64 separators, or
//! of a sorted level, where many of its files are asked, each one's first key. A file of L0 may
//! span all keys, so its first says nothing of where its bytes are. Rows in memtables have no
//! weight, so the parts of a table that was never flushed are one.

use crate::error::Result;
use crate::key::order;
use crate::key::range::KeyRange;
use crate::version::files::LiveFile;
use crate::view::View;
use std::sync::Arc;

/// Separators that are taken of one file's index.
const SAMPLES_PER_FILE: usize = 64;

/// Files of sorted levels for each part from which on a file's first key is enough, and none is
/// opened for this.
const FILES_PER_PART_MANY: usize = 16;

/// At most `parts` ranges that do not overlap, in order, together `range`; no partition is in two.
pub(crate) fn split(view: &View, range: &KeyRange, parts: usize) -> Result<Vec<KeyRange>> {
    cut(view.version.files(), range, parts, |key| {
        order::prefix_len(key).and_then(|len| key.get(..len))
    })
}

/// The same by the bytes of `files` alone, each with its level, cut between any two keys: large
/// partitions are divided.
pub(crate) fn split_anywhere<'a>(
    files: impl Iterator<Item = (usize, &'a Arc<LiveFile>)>,
    range: &KeyRange,
    parts: usize,
) -> Result<Vec<KeyRange>> {
    cut(files, range, parts, |key| key.get(..))
}

/// Cuts where `border_at` a key allows it.
fn cut<'a>(
    files: impl Iterator<Item = (usize, &'a Arc<LiveFile>)>,
    range: &KeyRange,
    parts: usize,
    border_at: impl Fn(&[u8]) -> Option<&[u8]>,
) -> Result<Vec<KeyRange>> {
    let mut samples = samples(files, range, parts)?;
    samples.sort_unstable();
    let total: u64 = samples.iter().map(|(_, bytes)| bytes).sum();
    let (mut ranges, mut rest, mut passed) = (Vec::new(), range.clone(), 0);
    for (key, bytes) in &samples {
        // The part that the bytes so far fill; a sample stands for the bytes before it.
        passed += bytes;
        let due = u128::from(passed) * parts as u128 / u128::from(total.max(1));
        let border = border_at(key).filter(|border| *border > rest.start.as_slice());
        if let Some(border) =
            border.filter(|_| due > ranges.len() as u128 && ranges.len() + 1 < parts)
        {
            let start = std::mem::replace(&mut rest.start, border.to_vec());
            ranges.push(KeyRange { start, end: border.to_vec() });
        }
    }
    ranges.push(rest);
    Ok(ranges)
}

/// Keys of the range, with the bytes that each stands for.
fn samples<'a>(
    files: impl Iterator<Item = (usize, &'a Arc<LiveFile>)>,
    range: &KeyRange,
    parts: usize,
) -> Result<Vec<(Vec<u8>, u64)>> {
    let files: Vec<_> = files
        .filter(|(_, file)| file.meta.largest >= range.start && file.meta.smallest < range.end)
        .collect();
    let sorted = files.iter().filter(|(level, _)| *level > 0).count();
    let many = sorted > parts.saturating_mul(FILES_PER_PART_MANY);
    let mut samples = Vec::new();
    for (level, file) in files {
        match many && level > 0 {
            true => samples.push((file.meta.smallest.clone(), file.meta.bytes)),
            false => samples.extend(file.table()?.samples(SAMPLES_PER_FILE)),
        }
    }
    samples.retain(|(key, _)| range.contains(key));
    Ok(samples)
}
