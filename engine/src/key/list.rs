//! Many encoded keys to be looked up together: in one stretch of bytes, each with its hash and its
//! place in the order asked for, visited in the order of the keys so that neighbours share a block.

use crate::ids::TableId;
use crate::key::{hash, order};

/// Keys of one table.
#[derive(Debug)]
pub(crate) struct KeyList {
    bytes: Vec<u8>,
    entries: Vec<Entry>, // Ascending by key.
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    start: usize,
    end: usize,
    hash: u64,
    asked: usize,
}

/// One key of the list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListedKey<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) row_hash: u64,
    /// Where among those asked for it stood.
    pub(crate) asked: usize,
}

impl KeyList {
    /// Encodes and sorts pairs of PartitionKey and RowKey.
    pub(crate) fn new(table: TableId, pairs: &[(&[u8], &[u8])]) -> KeyList {
        let (mut bytes, mut entries) = (Vec::new(), Vec::with_capacity(pairs.len()));
        for (asked, (pk, rk)) in pairs.iter().enumerate() {
            let start = bytes.len();
            order::put_partition(&mut bytes, table, pk);
            bytes.extend_from_slice(rk);
            let (end, hash) = (bytes.len(), hash::of_row(&bytes[start..]));
            entries.push(Entry { start, end, hash, asked });
        }
        entries.sort_unstable_by(|a, b| bytes[a.start..a.end].cmp(&bytes[b.start..b.end]));
        KeyList { bytes, entries }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The keys in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = ListedKey<'_>> {
        self.entries.iter().map(|entry| ListedKey {
            key: &self.bytes[entry.start..entry.end],
            row_hash: entry.hash,
            asked: entry.asked,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_visited_in_order_and_know_where_they_stood() {
        let pairs: [(&[u8], &[u8]); 4] =
            [(b"p2", b"a"), (b"p1", b"z"), (b"p1", b""), (b"p2", b"a")];
        let list = KeyList::new(TableId(7), &pairs);
        let keys: Vec<_> = list.iter().collect();
        assert!(keys.is_sorted_by_key(|listed| listed.key) && list.len() == 4);
        for ListedKey { key, row_hash, asked } in keys {
            assert_eq!(key, order::row_key(TableId(7), pairs[asked].0, pairs[asked].1));
            assert_eq!(row_hash, hash::of_row(key));
        }
    }
}
