//! The checksum of every stored block and frame: CRC-32 (IEEE), seeded with where the bytes
//! belong, so that bytes in the wrong place or from another file do not verify.

/// CRC-32 of `parts` in order, seeded with the file's identity and the offset of the bytes in it.
pub(crate) fn placed(file_id: u64, offset: u64, parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    // Planted: a checksum says nothing of where the bytes belong.
    if !crate::planted!("B24") {
        hasher.update(&file_id.to_le_bytes());
        hasher.update(&offset.to_le_bytes());
    }
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::placed;

    #[test]
    fn place_is_part_of_the_sum() {
        let sum = placed(1, 0, &[b"abc"]);
        assert_eq!(sum, placed(1, 0, &[b"a", b"bc"]));
        assert_ne!(sum, placed(2, 0, &[b"abc"]));
        assert_ne!(sum, placed(1, 8, &[b"abc"]));
    }
}
