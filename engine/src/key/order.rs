//! The engine's key: one string of bytes whose order is the order of (table, PartitionKey, RowKey).
//!
//! ```text
//! size  part
//!    4  table id, big-endian
//!    n  PartitionKey, each 00 written as 00 ff
//!    2  end of the PartitionKey: 00 01
//!    m  RowKey, as it is
//! ```
//!
//! The end sorts below every continuation of the PartitionKey (00 ff and 01 to ff), so a shorter
//! PartitionKey comes first, as it should. The *partition prefix* is everything before the RowKey:
//! all rows of a partition share it, and no other key starts with it.

use crate::ids::TableId;
use crate::limits::KEY_PART_BYTES_MAX;
use crate::words;
use std::borrow::Cow;

const ZERO: u8 = 0x00;
const ESCAPED_ZERO: u8 = 0xff;
const END: u8 = 0x01;
/// Bytes of a table's number, which every key begins with.
pub(crate) const TABLE_LEN: usize = 4;

/// Appends the partition prefix of `pk` in `table`.
pub fn put_partition(out: &mut Vec<u8>, table: TableId, pk: &[u8]) {
    out.extend_from_slice(&table.0.to_be_bytes());
    put_escaped(out, pk);
    out.extend_from_slice(&[ZERO, END]);
}

/// The partition prefix of `pk` in `table`.
pub fn partition_prefix(table: TableId, pk: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(TABLE_LEN + pk.len() + 2);
    put_partition(&mut out, table, pk);
    out
}

/// The key of one row.
pub fn row_key(table: TableId, pk: &[u8], rk: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(TABLE_LEN + pk.len() + 2 + rk.len());
    put_partition(&mut out, table, pk);
    out.extend_from_slice(rk);
    out
}

fn put_escaped(out: &mut Vec<u8>, pk: &[u8]) {
    if !has_zero(pk) {
        out.extend_from_slice(pk);
        return;
    }
    for (i, run) in pk.split(|b| *b == ZERO).enumerate() {
        if i > 0 {
            out.extend_from_slice(&[ZERO, ESCAPED_ZERO]);
        }
        out.extend_from_slice(run);
    }
}

/// Whether a byte is zero. Eight are looked at together, the last ones twice: most keys are too
/// short for a library's search to gain anything, and every get asks this.
fn has_zero(bytes: &[u8]) -> bool {
    let holds_zero = |word: &[u8; 8]| words::zero_bytes(u64::from_ne_bytes(*word)) != 0;
    match bytes.last_chunk() {
        Some(last) => bytes.as_chunks().0.iter().any(holds_zero) || holds_zero(last),
        None => bytes.contains(&ZERO),
    }
}

/// The first key above every key of `prefix`'s partition.
///
/// `prefix` must be a partition prefix.
pub fn partition_end(prefix: &[u8]) -> Vec<u8> {
    let mut out = prefix.to_vec();
    if let Some(last) = out.last_mut() {
        *last = END + 1;
    }
    out
}

/// The first key of `table`.
pub fn table_start(table: TableId) -> Vec<u8> {
    table.0.to_be_bytes().to_vec()
}

/// The first key above every key of `table`.
pub fn table_end(table: TableId) -> Vec<u8> {
    match table.0.checked_add(1) {
        Some(next) => next.to_be_bytes().to_vec(),
        // The longest PartitionKey may be nothing but ff, too.
        None => vec![0xff; TABLE_LEN + KEY_PART_BYTES_MAX + 1],
    }
}

/// The table that `key` belongs to, if it is long enough to say.
pub fn table_of(key: &[u8]) -> Option<TableId> {
    key.first_chunk::<TABLE_LEN>().map(|b| TableId(u32::from_be_bytes(*b)))
}

/// Length of the partition prefix of `key`, or `None` where `key` is not a row's key.
pub fn prefix_len(key: &[u8]) -> Option<usize> {
    let mut at = TABLE_LEN;
    loop {
        let rest = key.get(at..)?;
        let zero = rest.iter().position(|b| *b == ZERO)?;
        match *rest.get(zero + 1)? {
            END => return Some(at + zero + 2),
            ESCAPED_ZERO => at += zero + 2,
            _ => return None,
        }
    }
}

/// Keys of one partition's rows, one after the other in the same memory.
#[derive(Debug)]
pub(crate) struct RowKeyBuf {
    key: Vec<u8>, // The partition's prefix, then the RowKey asked for last.
    prefix_len: usize,
}

impl RowKeyBuf {
    /// Of rows of the partition that has `prefix`.
    pub(crate) fn new(prefix: Vec<u8>) -> RowKeyBuf {
        RowKeyBuf { prefix_len: prefix.len(), key: prefix }
    }

    /// The partition's prefix.
    pub(crate) fn prefix(&self) -> &[u8] {
        &self.key[..self.prefix_len]
    }

    /// The key of the row under `rk`.
    pub(crate) fn row(&mut self, rk: &[u8]) -> &[u8] {
        self.key.truncate(self.prefix_len);
        self.key.extend_from_slice(rk);
        &self.key
    }

    /// The RowKey of a row of the partition.
    pub(crate) fn rk_of<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        key.get(self.prefix_len..).unwrap_or_default()
    }
}

/// Table, PartitionKey, RowKey.
pub type KeyParts<'a> = (TableId, Cow<'a, [u8]>, &'a [u8]);

/// The parts of a row's key: table, PartitionKey, RowKey; `None` where `key` is not a row's key.
/// Borrows unless the PartitionKey holds a zero byte.
pub fn split(key: &[u8]) -> Option<KeyParts<'_>> {
    let prefix = prefix_len(key)?;
    let table = table_of(key)?;
    Some((table, partition_key(key.get(..prefix)?), key.get(prefix..)?))
}

/// The PartitionKey of a partition prefix as it stands there: each 00 followed by ff.
pub(crate) fn escaped_partition_key(prefix: &[u8]) -> &[u8] {
    prefix.get(TABLE_LEN..prefix.len().saturating_sub(2)).unwrap_or_default()
}

/// The PartitionKey of a partition prefix.
pub fn partition_key(prefix: &[u8]) -> Cow<'_, [u8]> {
    let escaped = escaped_partition_key(prefix);
    if !escaped.contains(&ZERO) {
        return Cow::Borrowed(escaped);
    }
    let mut out = Vec::with_capacity(escaped.len());
    let mut bytes = escaped.iter();
    while let Some(byte) = bytes.next() {
        out.push(*byte);
        if *byte == ZERO {
            bytes.next();
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_strings(alphabet: &[u8], max_len: usize) -> Vec<Vec<u8>> {
        let mut all = vec![vec![]];
        let mut last = vec![vec![]];
        for _ in 0..max_len {
            last = last
                .iter()
                .flat_map(|s: &Vec<u8>| alphabet.iter().map(|b| [s.as_slice(), &[*b]].concat()))
                .collect();
            all.extend(last.iter().cloned());
        }
        all
    }

    #[test]
    fn a_zero_is_found_wherever_it_is_and_nothing_else_is_taken_for_one() {
        for len in 0..40 {
            for byte in [1, 0x7f, 0x80, 0x81, 0xff] {
                let mut bytes = vec![byte; len];
                assert!(!has_zero(&bytes), "{len} bytes of {byte:#x}");
                for at in 0..len {
                    bytes[at] = 0;
                    assert!(has_zero(&bytes), "{len} bytes of {byte:#x}, zero at {at}");
                    bytes[at] = byte;
                }
            }
        }
    }

    #[test]
    fn order_of_bytes_is_order_of_parts() {
        let strings = all_strings(&[0, 1, 2, 0xfe, 0xff], 2);
        let mut parts = Vec::new();
        for table in [0, 1, 256] {
            for pk in &strings {
                for rk in &strings {
                    parts.push((TableId(table), pk.clone(), rk.clone()));
                }
            }
        }
        parts.sort();
        let keys: Vec<_> = parts.iter().map(|(t, p, r)| row_key(*t, p, r)).collect();
        assert!(keys.windows(2).all(|w| w[0] < w[1]));
        for (key, (table, pk, rk)) in keys.iter().zip(&parts) {
            let (t, p, r) = split(key).expect("a row's key");
            assert_eq!((t, &*p, r), (*table, pk.as_slice(), rk.as_slice()));
        }
    }

    /// Escapes, ends of what one byte holds, ASCII and beginnings of UTF-8 among them.
    const BYTES: [u8; 12] = [0, 1, 2, 0x20, 0x2f, 0x41, 0x7f, 0x80, 0xbf, 0xc3, 0xfe, 0xff];

    #[test]
    fn keys_of_three_bytes_out_of_twelve_are_in_order_and_come_back() {
        let mut strings = all_strings(&BYTES, 3);
        strings.sort();
        let (mut before, mut keys) = (Vec::new(), 0);
        for pk in &strings {
            for rk in &strings {
                let key = row_key(TableId(7), pk, rk);
                assert!(before < key, "{pk:?} {rk:?}");
                let (table, p, r) = split(&key).expect("a row's key");
                assert_eq!((table, &*p, r), (TableId(7), pk.as_slice(), rk.as_slice()));
                (before, keys) = (key, keys + 1);
            }
        }
        assert_eq!(keys, 1885 * 1885);
    }

    #[test]
    fn a_partition_ends_before_the_next_begins() {
        for pk in all_strings(&[0, 1, 0xff], 2) {
            let prefix = partition_prefix(TableId(3), &pk);
            let end = partition_end(&prefix);
            assert!(row_key(TableId(3), &pk, &[0xff; 9]) < end);
            for other in all_strings(&[0, 1, 0xff], 3) {
                if other > pk {
                    assert!(end <= partition_prefix(TableId(3), &other));
                }
            }
        }
        assert!(row_key(TableId(3), &[0xff; 9], &[0xff]) < table_end(TableId(3)));
        assert!(table_end(TableId(3)) <= table_start(TableId(4)));
        let last = TableId(u32::MAX);
        assert!(row_key(last, &[0xff; KEY_PART_BYTES_MAX], &[0xff]) < table_end(last));
    }

    #[test]
    fn what_is_not_a_key_is_refused() {
        for key in [&b""[..], b"\0\0\0", b"\0\0\0\x01abc", b"\0\0\0\x01a\0", b"\0\0\0\x01a\0\x02"] {
            assert_eq!(split(key), None, "{key:?}");
        }
    }
}
