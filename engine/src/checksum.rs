//! The checksum of every stored block and frame: CRC-32 (IEEE), seeded with where the bytes
//! belong, so that bytes in the wrong place or from another file do not verify.

use crc32fast::Hasher;
use std::ops::Range;

/// CRC-32 of `parts` in order, seeded with the file's identity and the offset of the bytes in it.
pub(crate) fn placed(file_id: u64, offset: u64, parts: &[&[u8]]) -> u32 {
    let mut hasher = seeded(file_id, offset);
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize()
}

fn seeded(file_id: u64, offset: u64) -> Hasher {
    let mut hasher = Hasher::new();
    // Planted (`planted.rs`): a checksum says nothing of where the bytes belong.
    if !crate::planted!("B24") {
        hasher.update(&file_id.to_le_bytes());
        hasher.update(&offset.to_le_bytes());
    }
    hasher
}

/// Bytes that are read at once to make [`Beginnings`].
const READ_BYTES: u64 = 1 << 20;

/// From each beginning of a file to the next.
const STEP_BYTES: usize = 4096;

/// The same of bytes in memory: of those a part may begin anywhere.
const STEP_BYTES_IN_MEMORY: usize = 256;

/// The sums of beginnings, of a file or of bytes in memory, from which that of any part is put
/// together: for who asks for those of many long parts that lie in each other.
#[derive(Debug)]
pub(crate) struct Beginnings {
    step_bytes: usize,
    sums: Vec<u32>,
}

impl Beginnings {
    /// Of a file of `bytes`; `read` gives as many bytes as it is told from an offset on.
    ///
    /// Cost: reads the file, and keeps a thousandth of its length.
    pub(crate) fn of<E>(
        bytes: u64,
        read: &mut impl FnMut(u64, usize) -> Result<Vec<u8>, E>,
    ) -> Result<Beginnings, E> {
        let (mut hasher, mut sums, mut at) = (Hasher::new(), vec![0], 0);
        while at < bytes {
            let piece = read(at, READ_BYTES.min(bytes - at) as usize)?;
            for step in piece.chunks(STEP_BYTES) {
                hasher.update(step);
                sums.push(hasher.clone().finalize());
            }
            at += READ_BYTES;
        }
        Ok(Beginnings { step_bytes: STEP_BYTES, sums })
    }

    /// Of bytes in memory, of which they take another 64th.
    pub(crate) fn in_memory(bytes: &[u8]) -> Beginnings {
        let (mut hasher, mut sums) = (Hasher::new(), vec![0]);
        for step in bytes.chunks(STEP_BYTES_IN_MEMORY) {
            hasher.update(step);
            sums.push(hasher.clone().finalize());
        }
        Beginnings { step_bytes: STEP_BYTES_IN_MEMORY, sums }
    }

    /// What [`placed`] gives for the bytes of `part`, which is within the file.
    ///
    /// Cost: reads less than 4 KiB, in memory 256 bytes, before each end of it, however long it is.
    pub(crate) fn placed<E, B: AsRef<[u8]>>(
        &self,
        file_id: u64,
        offset: u64,
        part: Range<u64>,
        read: &mut impl FnMut(u64, usize) -> Result<B, E>,
    ) -> Result<u32, E> {
        let (before, all) = (self.up_to(part.start, read)?, self.up_to(part.end, read)?);
        let len = part.end.saturating_sub(part.start);
        // The sum of two pieces is that of the first, moved along by the length of the second, xor
        // that of the second. So the sums of what goes before, there and here, move along together.
        let mut moved = Hasher::new_with_initial(seeded(file_id, offset).finalize() ^ before);
        moved.combine(&Hasher::new_with_initial_len(0, len));
        Ok(moved.finalize() ^ all)
    }

    fn up_to<E, B: AsRef<[u8]>>(
        &self,
        end: u64,
        read: &mut impl FnMut(u64, usize) -> Result<B, E>,
    ) -> Result<u32, E> {
        let step_bytes = self.step_bytes as u64;
        let (step, rest) = (end / step_bytes, (end % step_bytes) as usize);
        let sum = self.sums.get(step as usize).copied().unwrap_or_default();
        let mut hasher = Hasher::new_with_initial(sum);
        if rest > 0 {
            hasher.update(read(end - rest as u64, rest)?.as_ref());
        }
        Ok(hasher.finalize())
    }
}

#[cfg(test)]
mod tests {
    use super::{Beginnings, placed};
    use std::convert::Infallible;
    use tabulith_testkit::seed::Rng;

    #[test]
    fn the_sum_of_a_part_is_put_together_from_those_of_beginnings() {
        let mut rng = Rng::new(7);
        for len in [1, 4095, 4096, 4097, 3 << 20, (1 << 20) + 5000] {
            let file = rng.bytes(len);
            let mut read = |at: u64, len: usize| -> Result<_, Infallible> {
                Ok(file[at as usize..][..len].to_vec())
            };
            let Ok(sums) = Beginnings::of(len as u64, &mut read);
            let in_memory = Beginnings::in_memory(&file);
            let ends = [0, 1, 4096, 8192, len / 2, len];
            let mut parts: Vec<_> = ends.iter().flat_map(|a| ends.map(|b| (*a, b))).collect();
            parts.extend((0..200).map(|_| (rng.between(0, len), rng.between(0, len))));
            for (from, to) in parts.into_iter().filter(|(from, to)| from <= to && *to <= len) {
                let wanted = placed(9, from as u64, &[&file[from..to]]);
                for sums in [&sums, &in_memory] {
                    let part = from as u64..to as u64;
                    let Ok(sum) = sums.placed(9, from as u64, part, &mut read);
                    assert_eq!(sum, wanted, "{from}..{to} of {len}");
                }
            }
        }
    }

    #[test]
    fn place_is_part_of_the_sum() {
        let sum = placed(1, 0, &[b"abc"]);
        assert_eq!(sum, placed(1, 0, &[b"a", b"bc"]));
        assert_ne!(sum, placed(2, 0, &[b"abc"]));
        assert_ne!(sum, placed(1, 8, &[b"abc"]));
    }
}
