//! Which blob files are worn: so much of them is dead that writing the rest anew is worth it. Pure.
//!
//! Nothing counts dead bytes as they die. A table file's entry in the manifest says how much it
//! refers to of each blob file; what no table file refers to is dead, whatever made it so: an
//! overwrite that a merge found, a dropped table, a file dropped whole. A blob file that nothing
//! refers to does not exist any more.
//!
//! Promise: with `dead_percent` p, the blob files of a settled tree take less than 1 / (1 - p/100)
//! of what is referred to.

use crate::blob::format::{BlobMeta, Use};

/// Whether the live values of `blob` are to be written anew. `used`: what is live of it.
pub(crate) fn is_worn(blob: &BlobMeta, used: Use, dead_percent: u32) -> bool {
    let all = u128::from(blob.value_bytes());
    let dead = all.saturating_sub(used.bytes.into());
    dead > 0 && dead * 100 >= all * u128::from(dead_percent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blob::format::{FOOTER_LEN, HEADER_LEN};
    use crate::ids::FileNo;

    #[test]
    fn worn_is_from_the_given_share_on_and_never_where_all_is_live() {
        let blob = BlobMeta { no: FileNo(1), bytes: 1000 + HEADER_LEN + FOOTER_LEN, values: 10 };
        let worn = |live, percent| is_worn(&blob, Use { values: 1, bytes: live }, percent);
        assert!(!worn(501, 50));
        assert!(worn(500, 50));
        assert!(worn(999, 0));
        assert!(!worn(1000, 0), "there is nothing to win");
        assert!(!worn(1, 100));
    }
}
