//! The partition of the row that a scan or a cursor gave last, and a row's keys by it. Most rows
//! lie in the partition of the row before, and then their PartitionKey costs a comparison in place
//! of a search for its end.

use crate::error::{Error, Kind, Result};
use crate::key::order;
use bytes::{Bytes, BytesMut};
use std::borrow::Cow;

/// The encoded keys of a partition's rows begin with it. Empty before the first row; no other
/// partition's keys start with it.
#[derive(Default)]
struct Prefix(Vec<u8>);

impl Prefix {
    /// Takes note of the partition of `key`; gives PartitionKey and RowKey.
    fn enter<'a>(&mut self, key: &'a [u8]) -> Result<(Cow<'a, [u8]>, &'a [u8])> {
        self.0.clear();
        let parts = order::prefix_len(key).and_then(|len| key.split_at_checked(len));
        let (prefix, rk) = parts.ok_or_else(no_key)?;
        prefix.clone_into(&mut self.0);
        Ok((order::partition_key(prefix), rk))
    }
}

fn no_key() -> Error {
    Error::new(Kind::Corrupt, "a table file holds what is not a row's key")
}

/// Keys that are lent: nothing is copied, and often nothing is compared.
#[derive(Default)]
pub(super) struct LentKeys {
    prefix: Prefix,
    unescaped: Option<Vec<u8>>, // The PartitionKey, where it holds a zero byte.
}

impl LentKeys {
    /// The keys of the row whose encoded key is `key`; `stays` where that is known to be in the
    /// partition of the row before.
    #[inline]
    pub(super) fn split<'a>(
        &'a mut self,
        key: &'a [u8],
        stays: bool,
    ) -> Result<(&'a [u8], &'a [u8])> {
        if self.prefix.0.is_empty() || !stays && !key.starts_with(&self.prefix.0) {
            self.enter(key)?;
        }
        let (prefix, row_key) = key.split_at_checked(self.prefix.0.len()).ok_or_else(no_key)?;
        let partition_key = match &self.unescaped {
            Some(partition_key) => partition_key,
            None => order::escaped_partition_key(prefix),
        };
        Ok((partition_key, row_key))
    }

    #[cold]
    fn enter(&mut self, key: &[u8]) -> Result<()> {
        self.unescaped = match self.prefix.enter(key)?.0 {
            Cow::Borrowed(_) => None,
            Cow::Owned(partition_key) => Some(partition_key),
        };
        Ok(())
    }
}

/// Keys to be kept: a PartitionKey that all rows of its partition share, and RowKeys.
#[derive(Default)]
pub(super) struct KeptKeys {
    prefix: Prefix,
    partition_key: Bytes,
    row_keys: RowKeys,
}

impl KeptKeys {
    /// The keys of the row whose encoded key is `key`.
    #[inline]
    pub(super) fn split(&mut self, key: &[u8]) -> Result<(Bytes, Bytes)> {
        let rk = match key.strip_prefix(self.prefix.0.as_slice()) {
            Some(rk) if !self.prefix.0.is_empty() => rk,
            _ => self.enter(key)?,
        };
        let row_key = self.row_keys.put(rk);
        Ok((self.partition_key.clone(), row_key))
    }

    fn enter<'a>(&mut self, key: &'a [u8]) -> Result<&'a [u8]> {
        let (partition_key, rk) = self.prefix.enter(key)?;
        self.partition_key = Bytes::copy_from_slice(&partition_key);
        Ok(rk)
    }
}

/// RowKeys one after the other in shared pieces of memory: handing one out costs a count in place
/// of an allocation. A RowKey that is kept keeps the few that lie in its piece.
#[derive(Default)]
struct RowKeys {
    piece: BytesMut,
    piece_len: usize,
}

/// Bytes of a piece: of the first, which a short scan fills, and at most.
const PIECE_BYTES_MIN: usize = 256;
const PIECE_BYTES_MAX: usize = 4 << 10;

impl RowKeys {
    #[inline]
    fn put(&mut self, rk: &[u8]) -> Bytes {
        if self.piece.capacity() < rk.len() {
            self.piece_len = (self.piece_len * 2).clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX);
            self.piece = BytesMut::with_capacity(self.piece_len.max(rk.len()));
        }
        self.piece.extend_from_slice(rk);
        self.piece.split().freeze()
    }
}
