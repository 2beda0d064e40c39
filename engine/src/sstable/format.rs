//! What others must know of a table file: how it is to be written, and what it holds.

use crate::ids::{CommitTs, FileNo};
use crate::options::Options;

/// A table file as the manifest records it. Opening a file checks it against this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileMeta {
    /// Names the file and salts its checksums.
    pub(crate) no: FileNo,
    /// Length of the whole file.
    pub(crate) bytes: u64,
    /// The first encoded key in it.
    pub(crate) smallest: Vec<u8>,
    /// The last encoded key in it.
    pub(crate) largest: Vec<u8>,
    /// The oldest version in it.
    pub(crate) min_ts: CommitTs,
    /// The newest version in it.
    pub(crate) max_ts: CommitTs,
    /// Versions in it, deletes included.
    pub(crate) rows: u64,
    /// Deletes in it.
    pub(crate) deletes: u64,
    /// XXH3-64 of the whole file.
    pub(crate) checksum: u64,
}

/// How a table file is written.
#[derive(Clone, Debug)]
pub(crate) struct TableOptions {
    /// Raw bytes at which a data block ends.
    pub(crate) block_bytes: usize,
    /// Filter bits per row; 0 leaves the filters out.
    pub(crate) filter_bits: u32,
    /// Whether values are compressed where it pays.
    pub(crate) compression: bool,
}

impl From<&Options> for TableOptions {
    fn from(options: &Options) -> TableOptions {
        TableOptions {
            block_bytes: options.block_bytes,
            filter_bits: options.filter_bits,
            compression: options.compression,
        }
    }
}
