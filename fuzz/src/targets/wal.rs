//! Log segments: any bytes are frames or a placed error, and replay and check agree.
//!
//! Input: segments, each behind its length in four bytes. Zeros at the end of a segment may be left
//! out.

use crate::input::Input;
use tabulith::internals;

const SEGMENTS_MAX: usize = 4;

/// Reads the input as a log three times: as it is, with its checksums mended, and with the chain of
/// its frames mended too.
pub fn wal(data: &[u8]) {
    let mut input = Input::new(data);
    let mut segments = Vec::new();
    while !input.is_empty() && segments.len() < SEGMENTS_MAX {
        segments.push(padded(input.long()));
    }
    read(&segments);
    for segment in &mut segments {
        internals::mend_log_segment(segment, None);
    }
    read(&segments);
    let mut before = 0;
    for segment in &mut segments {
        before = internals::mend_log_segment(segment, Some(before));
    }
    read(&segments);
}

fn read(segments: &[Vec<u8>]) {
    let slices: Vec<_> = segments.iter().map(Vec::as_slice).collect();
    match internals::read_log(&slices) {
        Ok(log) => assert!(log.damage.is_empty() && log.groups <= log.frames, "{log:?}"),
        Err(error) => assert!(internals::is_placed_damage(&error), "{error:?}"),
    }
}

/// Longest segment that zeros are put behind.
const PADDED_BYTES_MAX: usize = 64 << 10;

/// The segment with the zeros at its end that its header says it has.
pub fn padded(segment: &[u8]) -> Vec<u8> {
    let claimed = segment.get(32..40).and_then(|bytes| bytes.try_into().ok());
    let claimed = claimed.map_or(0, u64::from_le_bytes);
    let mut padded = segment.to_vec();
    if let Some(len) = usize::try_from(claimed).ok().filter(|len| *len <= PADDED_BYTES_MAX) {
        padded.resize(len.max(segment.len()), 0);
    }
    padded
}
