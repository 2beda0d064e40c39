//! Sorted keys prepared for search: what they all start with, and of each the next 8 bytes side by
//! side. A search among some dozens of keys then reads one or two cache lines and follows no
//! pointer.

use std::ops::Range;

/// So many keys that are alike are counted one by one, which few are.
const COUNTED_MAX: usize = 4;

/// What is searched of some sorted keys; the keys themselves stay with the caller.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fences {
    common: Box<[u8]>,
    heads: Box<[u64]>,
}

impl Fences {
    /// Of keys that do not fall.
    pub(crate) fn of<'a>(keys: impl Iterator<Item = &'a [u8]> + Clone) -> Fences {
        let Some(first) = keys.clone().next() else { return Fences::default() };
        let alike = keys.clone().map(|key| common_len(first, key)).min().unwrap_or(0);
        Fences {
            common: first[..alike].into(),
            heads: keys.map(|key| head(&key[alike..])).collect(),
        }
    }

    /// The keys that may be the first one not below `key`; the end of the range may be it too.
    pub(crate) fn narrow(&self, key: &[u8]) -> Range<usize> {
        let Some(rest) = key.strip_prefix(&*self.common) else {
            let end = if *key < *self.common { 0 } else { self.heads.len() };
            return end..end;
        };
        let wanted = head(rest);
        let low = self.heads.partition_point(|head| *head < wanted);
        let behind = &self.heads[low..];
        let mut alike = behind.iter().take(COUNTED_MAX).take_while(|head| **head == wanted).count();
        if alike == COUNTED_MAX {
            alike = behind.partition_point(|head| *head == wanted);
        }
        low..low + alike
    }
}

/// The first 8 bytes as a number in their order; what is missing counts as zeros.
pub(crate) fn head(bytes: &[u8]) -> u64 {
    if let Some(head) = bytes.first_chunk() {
        return u64::from_be_bytes(*head);
    }
    let mut head = [0; 8];
    head[..bytes.len()].copy_from_slice(bytes);
    u64::from_be_bytes(head)
}

/// How many bytes `a` and `b` begin with alike.
pub(crate) fn common_len(a: &[u8], b: &[u8]) -> usize {
    let (words_a, words_b) = (a.as_chunks::<8>().0, b.as_chunks::<8>().0);
    for (i, (x, y)) in words_a.iter().zip(words_b).enumerate() {
        let differs = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if differs != 0 {
            return i * 8 + differs.trailing_zeros() as usize / 8;
        }
    }
    let from = words_a.len().min(words_b.len()) * 8;
    from + a[from..].iter().zip(&b[from..]).take_while(|(x, y)| x == y).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_key_not_below_is_in_the_range_or_at_its_end() {
        let keys: Vec<&[u8]> =
            vec![b"pa", b"pa\0", b"pabcdefgh", b"pabcdefghi", b"pabcdefghj", b"pb", b"q"];
        for count in 0..=keys.len() {
            let keys = &keys[..count];
            let fences = Fences::of(keys.iter().copied());
            let near = keys.iter().flat_map(|key| [&key[..key.len() - 1], key]);
            for wanted in near.chain([&b""[..], b"a", b"pabcdefghiz", b"pz", b"z"]) {
                let range = fences.narrow(wanted);
                let first = keys.partition_point(|key| *key < wanted);
                assert!((range.start..=range.end).contains(&first), "{wanted:?} of {count}");
                assert!(range.len() <= 3, "the heads tell most keys apart");
            }
        }
    }
}
