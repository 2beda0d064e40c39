//! The parts of a table file, and what others must know of one: how it is to be written, and what
//! it holds.
//!
//! ```text
//! data blocks        each a block (`layout`) and its checksum
//! index              which block holds which keys (`index`), checksum
//! row filter         over whole keys (`filter`), checksum; absent where filters are off
//! partition filter   over partition prefixes, checksum; absent likewise
//! zones              what values blocks hold (`zones`), checksum; absent where nothing is tracked
//! properties         counts and bounds, checksum
//! footer, 72 bytes:
//!   offset size  field    (little-endian)
//!        0    8  mark     "tbltable"
//!        8    4  version  1
//!       12    8  file number
//!       20    8  length of the data blocks, checksums included
//!       28    8  length of the index, checksum included; so the next four
//!       36    8  length of the row filter, 0 for none
//!       44    8  length of the partition filter, 0 for none
//!       52    8  length of the zones, 0 for none
//!       60    8  length of the properties
//!       68    4  checksum of the footer
//! ```
//!
//! A checksum is CRC-32 over the file's number, the offset, and the bytes before it, so that
//! blocks in the wrong place or of another file do not verify.

use crate::blob::format::{Link, Uses, put_uses, read_uses};
use crate::checksum;
use crate::codec::{Reader, put_slice, put_varint};
use crate::compress::{self, Codec};
use crate::error::{Error, Kind, Result};
use crate::expiry;
use crate::ids::{CommitTs, FileNo, RowKind};
use crate::lapsing::Lapsing;
use crate::limits::KEY_BYTES_MAX;
use crate::options::Options;
use std::path::Path;

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
    /// The oldest delete in it; zero where there is none.
    pub(crate) oldest_delete: CommitTs,
    /// Its rows that expire.
    pub(crate) expiring: Lapsing,
    /// Its versions that others of it replace, from the commits of those on; none where it was
    /// written before they were counted. The manifest's word alone.
    pub(crate) replaced: Lapsing,
    /// It holds no version that an erasure of this moment or before hides. The manifest's word
    /// alone: the file does not know.
    pub(crate) erased_to: CommitTs,
    /// Rows of commits up to here that had outlived their table's time to live were left out when
    /// it was written. The manifest's word alone.
    pub(crate) aged_to: CommitTs,
    /// What its rows refer to in blob files.
    pub(crate) blobs: Uses,
    /// XXH3-64 of the whole file.
    pub(crate) checksum: u64,
}

/// How a table file is written. From [`Options`]: one that has others below it.
#[derive(Clone, Debug)]
pub(crate) struct TableOptions {
    /// Raw bytes at which a data block ends.
    pub(crate) block_bytes: usize,
    /// Filter bits per row; 0 leaves the filters out.
    pub(crate) filter_bits: u32,
    /// How values are compressed where it pays.
    pub(crate) codec: Codec,
}

impl From<&Options> for TableOptions {
    fn from(options: &Options) -> TableOptions {
        TableOptions {
            block_bytes: options.advanced.block_bytes,
            filter_bits: options.advanced.upper_filter_bits(),
            codec: options.advanced.table_codecs().upper,
        }
    }
}

/// What is wrong with some bytes. Whoever knows their place makes it an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damage(pub(crate) &'static str);

impl Damage {
    /// The error of damage found in `file` at `offset`; where it is the codec that this build
    /// lacks, it says so and is none.
    pub(crate) fn at(self, file: &Path, offset: u64) -> Error {
        compress::error_at(self.0, file, offset)
    }

    /// The same where its place is not known.
    pub(crate) fn nowhere(self) -> Error {
        Error::new(Kind::Corrupt, self.0)
    }
}

/// Bytes of the checksum that ends each block and each section.
pub(crate) const SUM_LEN: usize = 4;
/// Bytes of the footer.
pub(crate) const FOOTER_LEN: usize = 72;

const MAGIC: [u8; 8] = *b"tbltable";
const VERSION: u32 = 1;

/// The lengths of a file's sections, checksums included. They lie one after another from the
/// start of the file and fill it up to the footer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) data_len: u64,
    pub(crate) index_len: u64,
    /// 0 where the file has no filters.
    pub(crate) row_filter_len: u64,
    /// 0 where the file has no filters.
    pub(crate) partition_filter_len: u64,
    /// 0 where the file has no zones.
    pub(crate) zones_len: u64,
    pub(crate) props_len: u64,
}

/// A stretch of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

impl Footer {
    pub(crate) fn index(&self) -> Stretch {
        Stretch { offset: self.data_len, len: self.index_len }
    }

    pub(crate) fn row_filter(&self) -> Stretch {
        self.index().then(self.row_filter_len)
    }

    pub(crate) fn partition_filter(&self) -> Stretch {
        self.row_filter().then(self.partition_filter_len)
    }

    pub(crate) fn zones(&self) -> Stretch {
        self.partition_filter().then(self.zones_len)
    }

    pub(crate) fn props(&self) -> Stretch {
        self.zones().then(self.props_len)
    }

    /// Appends the footer of file `no`, which begins at `offset`.
    pub(crate) fn encode(&self, no: FileNo, offset: u64, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&no.0.to_le_bytes());
        for len in self.lens() {
            out.extend_from_slice(&len.to_le_bytes());
        }
        seal(no, offset, start, out);
        debug_assert_eq!(out.len() - start, FOOTER_LEN, "the footer is as long as drawn");
    }

    /// Reads the footer of file `no`, which begins at `offset`: the sections must end there.
    pub(crate) fn decode(no: FileNo, offset: u64, bytes: &[u8]) -> Result<Footer, Damage> {
        let mut reader = Reader::new(bytes);
        let short = Damage("footer ends early");
        if reader.array() != Some(MAGIC) {
            return Err(Damage("footer has not the mark of a table file"));
        }
        if reader.u32() != Some(VERSION) {
            return Err(Damage("table file has a format version that this build does not know"));
        }
        if reader.u64() != Some(no.0) {
            return Err(Damage("footer has the number of another file"));
        }
        unseal(no, offset, bytes)?;
        let mut len = || reader.u64().ok_or(short);
        let footer = Footer {
            data_len: len()?,
            index_len: len()?,
            row_filter_len: len()?,
            partition_filter_len: len()?,
            zones_len: len()?,
            props_len: len()?,
        };
        let total = footer.lens().iter().try_fold(0u64, |sum, len| sum.checked_add(*len));
        if total != Some(offset) {
            return Err(Damage("sections do not fill the file"));
        }
        Ok(footer)
    }

    fn lens(&self) -> [u64; 6] {
        let filters = [self.row_filter_len, self.partition_filter_len];
        [self.data_len, self.index_len, filters[0], filters[1], self.zones_len, self.props_len]
    }
}

impl Stretch {
    fn then(self, len: u64) -> Stretch {
        Stretch { offset: self.offset + self.len, len }
    }
}

/// What a file says of itself, so that the manifest can be checked against it and rebuilt from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Props {
    pub(crate) rows: u64,
    pub(crate) deletes: u64,
    pub(crate) partitions: u64,
    pub(crate) blocks: u64,
    /// Bytes of all values before compression, references in place of those in blob files.
    pub(crate) values_len: u64,
    pub(crate) min_ts: CommitTs,
    pub(crate) max_ts: CommitTs,
    /// Zero where there is none.
    pub(crate) oldest_delete: CommitTs,
    pub(crate) expiring: Lapsing,
    pub(crate) smallest: Vec<u8>,
    pub(crate) largest: Vec<u8>,
    pub(crate) blobs: Uses,
}

impl Props {
    /// Counts one version, with what is stored of its value.
    pub(crate) fn count(&mut self, ts: CommitTs, kind: RowKind, stored: &[u8]) {
        if self.rows == 0 {
            (self.min_ts, self.max_ts) = (ts, ts);
        }
        if kind == RowKind::Delete {
            self.oldest_delete = if self.deletes == 0 { ts } else { self.oldest_delete.min(ts) };
            self.deletes += 1;
        }
        self.rows += 1;
        self.expiring.count(expiry::of(kind, stored));
        self.values_len += stored.len() as u64;
        self.min_ts = self.min_ts.min(ts);
        self.max_ts = self.max_ts.max(ts);
    }

    /// What the manifest says of the file that has these, without what it alone knows.
    pub(crate) fn into_meta(self, no: FileNo, bytes: u64, checksum: u64) -> FileMeta {
        FileMeta {
            no,
            bytes,
            smallest: self.smallest,
            largest: self.largest,
            min_ts: self.min_ts,
            max_ts: self.max_ts,
            rows: self.rows,
            deletes: self.deletes,
            oldest_delete: self.oldest_delete,
            expiring: self.expiring,
            replaced: Lapsing::default(),
            erased_to: CommitTs::ZERO,
            aged_to: CommitTs::ZERO,
            blobs: self.blobs,
            checksum,
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let counts = [self.rows, self.deletes, self.partitions, self.blocks, self.values_len];
        for number in
            counts.into_iter().chain([self.min_ts, self.max_ts, self.oldest_delete].map(|ts| ts.0))
        {
            put_varint(out, number);
        }
        self.expiring.put(out);
        put_slice(out, &self.smallest);
        put_slice(out, &self.largest);
        put_uses(&self.blobs, out);
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Props, Damage> {
        let mut reader = Reader::new(bytes);
        let props = read_props(&mut reader).filter(|_| reader.is_empty());
        props.ok_or(Damage("properties do not read as such"))
    }

    /// Whether the rows were ingested: they bear no timestamp of their own, and the manifest says
    /// which one all of them have.
    pub(crate) fn is_undated(&self) -> bool {
        self.max_ts == CommitTs::ZERO
    }

    /// Counts the reference that a row keeps in place of its value.
    pub(crate) fn count_link(&mut self, value: &[u8]) -> Result<Link, Damage> {
        let link = Link::read(value).ok_or(Damage("row's reference to a blob file is none"))?;
        let used = self.blobs.entry(link.file).or_default();
        *used = used.plus(link.uses()).ok_or(Damage("references add up to too much"))?;
        Ok(link)
    }

    /// Whether the manifest means the file with these properties.
    pub(crate) fn agree_with(&self, meta: &FileMeta) -> bool {
        self.rows == meta.rows
            && self.deletes == meta.deletes
            && match self.is_undated() {
                true => meta.min_ts == meta.max_ts,
                false => (self.min_ts, self.max_ts) == (meta.min_ts, meta.max_ts),
            }
            && self.oldest_delete == meta.oldest_delete
            && self.expiring == meta.expiring
            && self.smallest == meta.smallest
            && self.largest == meta.largest
            && self.blobs == meta.blobs
    }
}

fn read_props(reader: &mut Reader<'_>) -> Option<Props> {
    Some(Props {
        rows: reader.varint()?,
        deletes: reader.varint()?,
        partitions: reader.varint()?,
        blocks: reader.varint()?,
        values_len: reader.varint()?,
        min_ts: CommitTs(reader.varint()?),
        max_ts: CommitTs(reader.varint()?),
        oldest_delete: CommitTs(reader.varint()?),
        expiring: Lapsing::read(reader)?,
        smallest: reader.slice(KEY_BYTES_MAX)?.to_vec(),
        largest: reader.slice(KEY_BYTES_MAX)?.to_vec(),
        blobs: read_uses(reader)?,
    })
}

/// Appends the checksum of `out[start..]`, which lies at `offset` of file `no`.
pub(crate) fn seal(no: FileNo, offset: u64, start: usize, out: &mut Vec<u8>) {
    let sum = checksum::placed(no.0, offset, &[&out[start..]]);
    out.extend_from_slice(&sum.to_le_bytes());
}

/// `sealed` without the checksum at its end, if that agrees.
pub(crate) fn unseal(no: FileNo, offset: u64, sealed: &[u8]) -> Result<&[u8], Damage> {
    let (body, sum) = sealed.split_last_chunk::<SUM_LEN>().ok_or(Damage("no checksum"))?;
    if checksum::placed(no.0, offset, &[body]) != u32::from_le_bytes(*sum) {
        return Err(Damage("checksum does not agree"));
    }
    Ok(body)
}
