//! The keys of a block behind a sidecar of codes: what a point read searches where a block has no
//! fingerprints.
//!
//! What all keys begin with is cut off; of the rest the first 8 bytes, as a number in order, stand
//! side by side. A search halves those without a branch, and compares whole keys from the first
//! that is equal on. No timestamps and no values: it is what a search touches and nothing else.

/// The keys of one block.
#[derive(Debug)]
pub struct Sidecar {
    shared: Vec<u8>,
    codes: Vec<u64>,
    ends: Vec<u32>,
    /// Of each key, what is behind the shared part.
    rests: Vec<u8>,
}

impl Sidecar {
    /// Of keys in their order.
    pub fn of(keys: &[Vec<u8>]) -> Sidecar {
        let (first, last) = (keys.first(), keys.last());
        let pairs = first.into_iter().flatten().zip(last.into_iter().flatten());
        let shared: Vec<u8> = pairs.take_while(|(a, b)| a == b).map(|(a, _)| *a).collect();
        let rests: Vec<&[u8]> = keys.iter().map(|key| &key[shared.len()..]).collect();
        let codes = rests.iter().map(|rest| code(rest)).collect();
        let mut end = 0;
        let ends = rests.iter().map(|rest| {
            end += rest.len() as u32;
            end
        });
        Sidecar { codes, ends: ends.collect(), rests: rests.concat(), shared }
    }

    /// The row of a key.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Option<usize> {
        let rest = key.strip_prefix(self.shared.as_slice())?;
        let code = code(rest);
        let mut row = self.codes.partition_point(|own| *own < code);
        while self.codes.get(row) == Some(&code) {
            if self.rest(row) == rest {
                return Some(row);
            }
            row += 1;
        }
        None
    }

    fn rest(&self, row: usize) -> &[u8] {
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.rests[start as usize..self.ends[row] as usize]
    }
}

fn code(rest: &[u8]) -> u64 {
    match rest.first_chunk::<8>() {
        Some(head) => u64::from_be_bytes(*head),
        None => {
            let mut head = [0; 8];
            head[..rest.len()].copy_from_slice(rest);
            u64::from_be_bytes(head)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::key;

    #[test]
    fn it_finds_each_key_and_no_other() {
        for rows in [1, 2, 16, 64, 1000] {
            let keys: Vec<_> = (0..rows).map(|i| key(i * 2)).collect();
            let sidecar = Sidecar::of(&keys);
            for i in 0..rows {
                assert_eq!(sidecar.find(&key(i * 2)), Some(i as usize));
                assert_eq!(sidecar.find(&key(i * 2 + 1)), None);
            }
        }
    }
}
