//! Bytes looked at eight at a time.

/// The high bit of each byte of `word` that is zero, the lowest such byte first; above that one now
/// and then a byte of 1 is marked too. 0 where no byte is zero.
#[inline]
pub(crate) fn zero_bytes(word: u64) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGHS: u64 = u64::from_ne_bytes([0x80; 8]);
    // The subtraction sets the high bit of a byte that is zero. Those that had it set do not count.
    word.wrapping_sub(ONES) & !word & HIGHS
}
