//! Reads every byte of a table file and holds it against everything that is said of it.

use crate::blob::format::Link;
use crate::erasure::set::Erasures;
use crate::error::{Error, Result};
use crate::expiry;
use crate::ids::CommitTs;
use crate::key::{hash, order};
use crate::lapsing::Lapsing;
use crate::sstable::block::{Block, Unpack, fingerprint};
use crate::sstable::format::{Damage, FileMeta, Props, Stretch};
use crate::sstable::index::EntryAt;
use crate::sstable::reader::TableFile;
use crate::zstandard;
use std::cmp::Ordering;
use std::mem::take;
use xxhash_rust::xxh3::Xxh3Default;

/// Bytes read at a time for the digest of the whole file.
const READ_BYTES: u64 = 1 << 20;

/// A pass over the file: the last row seen and what was counted.
#[derive(Default)]
struct Pass {
    key: Vec<u8>,
    prefix_len: usize,
    ts: CommitTs,
    counts: Props,
    replaced: Lapsing,
}

impl TableFile {
    /// Proves the file: every checksum, the order of all rows, separators, fingerprints, filters,
    /// and the counts and digest of `meta`. Returns what it counted.
    ///
    /// Cost: reads the file twice, past the cache.
    ///
    /// Errors: the first damage. `Unsupported` where there is none and this build lacks the codec
    /// of values: from the first of those on, checksums and digest are all that was proved.
    pub(crate) fn verify(&self, meta: &FileMeta) -> Result<Props> {
        self.verify_with(meta, &Erasures::default(), &mut |_| {})
    }

    /// The same, and holds up to where `meta` says that nothing is erased against the `erasures`
    /// there are; gives every reference to a blob file to `link`.
    pub(crate) fn verify_with(
        &self,
        meta: &FileMeta,
        erasures: &Erasures,
        link: &mut dyn FnMut(Link),
    ) -> Result<Props> {
        self.zones()?; // So that their damage counts.
        if self.filters_ignored() > 0 {
            return Err(Damage("filter or zones are damaged")
                .at(self.path(), self.footer().row_filter().offset));
        }
        let (mut pass, mut lacking) = (Pass::default(), None);
        let mut entry = Some(self.index().first());
        while let Some(at) = entry {
            let handle = self.index().handle(at);
            let block = self.raw().read_block(handle, Unpack::Now)?;
            lacking = lacking.or(block.layout().codec.is_lacking().then_some(handle.offset));
            if lacking.is_none() {
                self.verify_block(&mut pass, at, &block, link)
                    .and_then(|()| verify_erased(&block, meta.erased_to, erasures))
                    .map_err(|damage| damage.at(self.path(), handle.offset))?;
            }
            entry = self.index().next(at);
        }
        if let Some(offset) = lacking {
            self.verify_digest(meta)?;
            return Err(Error::unsupported(self.path(), offset, zstandard::LACKING));
        }
        pass.counts.largest = take(&mut pass.key);
        if pass.counts != *self.props() {
            let damage = Damage("properties do not agree with the rows");
            return Err(damage.at(self.path(), self.footer().props().offset));
        }
        if meta.replaced.rows > 0 && meta.replaced != pass.replaced {
            let damage = Damage("versions that are replaced are not those of the manifest");
            return Err(damage.at(self.path(), 0));
        }
        self.verify_digest(meta)?;
        Ok(pass.counts)
    }

    fn verify_block(
        &self,
        pass: &mut Pass,
        at: EntryAt,
        block: &Block,
        link: &mut dyn FnMut(Link),
    ) -> Result<(), Damage> {
        block.values()?;
        let mut key = Vec::new();
        block.put_key(0, &mut key);
        // The separator before lies before the first row, or a seek of that row would end there.
        let found = self.index().seek(&key, block.ts(0)) == Some(at);
        let first = key.clone();
        for row in 0..block.rows() {
            key.clear();
            block.put_key(row, &mut key);
            let prefix_len = block.prefix_len(block.run_of(row));
            self.verify_row(pass, &key, prefix_len, block, row)?;
            if block.kind(row).is_link() {
                let value = block.value(row)?;
                link(pass.counts.count_link(expiry::value_of(block.kind(row), &value))?);
            }
        }
        self.verify_times(pass.counts.blocks as usize, block)?;
        self.verify_plain_rows(at, block)?;
        pass.counts.blocks += 1;
        if order::table_of(&first) != order::table_of(&pass.key) {
            return Err(Damage("block holds rows of two tables"));
        }
        let (separator, ts) = self.index().separator(at);
        let within = is_before((&pass.key, pass.ts), (&separator, ts))
            || (pass.key == separator && pass.ts == ts);
        if within && found { Ok(()) } else { Err(Damage("block passes its separator")) }
    }

    /// Whether the block's commits are what its zone says.
    fn verify_times(&self, at: usize, block: &Block) -> Result<(), Damage> {
        let Some(zones) = self.zones().ok().flatten() else { return Ok(()) };
        let commits = || (0..block.rows()).map(|row| block.ts(row));
        let times = commits().min().zip(commits().max());
        let agree = zones.times.get(at).copied() == times;
        if agree { Ok(()) } else { Err(Damage("zone has other commits than its block")) }
    }

    /// Whether as many rows can be counted unread as the index says.
    fn verify_plain_rows(&self, at: EntryAt, block: &Block) -> Result<(), Damage> {
        let index = self.index();
        let shares_key = index.splits_key_after(at)
            || index.prev(at).is_some_and(|before| index.splits_key_after(before));
        let plain = |row| block.kind(row).is_lasting() && !block.continues(row);
        let all_plain = !shares_key && (0..block.rows()).all(plain);
        let rows = if all_plain { block.rows() } else { 0 };
        let agree = usize::from(index.plain_rows(at)) == rows;
        if agree { Ok(()) } else { Err(Damage("index counts other rows than the block has")) }
    }

    fn verify_row(
        &self,
        pass: &mut Pass,
        key: &[u8],
        prefix_len: usize,
        block: &Block,
        row: usize,
    ) -> Result<(), Damage> {
        let (ts, kind, counts) = (block.ts(row), block.kind(row), &mut pass.counts);
        let first = counts.rows == 0;
        if !first && !is_before((&pass.key, pass.ts), (key, ts)) {
            return Err(Damage("rows are out of order"));
        }
        if first {
            counts.smallest = key.to_vec();
        }
        if !first && pass.key == key {
            pass.replaced.count(pass.ts);
        }
        if first || pass.key[..pass.prefix_len] != key[..prefix_len] {
            counts.partitions += 1;
        }
        counts.count(ts, kind, &block.value(row)?);
        let hash = hash::of(key, prefix_len);
        if !self.may_hold_row(hash.row) || !self.may_hold_partition(hash.partition) {
            return Err(Damage("filter denies a row of its file"));
        }
        if block.find(key, fingerprint(hash.row), ts) != Some(row) {
            return Err(Damage("row is not found by its fingerprint"));
        }
        pass.key.clear();
        pass.key.extend_from_slice(key);
        (pass.prefix_len, pass.ts) = (prefix_len, ts);
        Ok(())
    }

    fn verify_digest(&self, meta: &FileMeta) -> Result<()> {
        let mut digest = Xxh3Default::new();
        let mut offset = 0;
        while offset < meta.bytes {
            let len = READ_BYTES.min(meta.bytes - offset);
            digest.update(&self.raw().read(Stretch { offset, len })?);
            offset += len;
        }
        if digest.digest() == meta.checksum {
            return Ok(());
        }
        Err(Error::corrupt(self.path(), 0, "table file's digest is not the manifest's"))
    }
}

/// Whether no erasure up to `erased_to` hides a version of the block, as the manifest says. Where
/// that is wrong, an erasure is forgotten while it is needed, and what it hid comes back.
fn verify_erased(block: &Block, erased_to: CommitTs, erasures: &Erasures) -> Result<(), Damage> {
    if erasures.iter().all(|erasure| erasure.ts > erased_to) {
        return Ok(());
    }
    let mut key = Vec::new();
    for row in 0..block.rows() {
        key.clear();
        block.put_key(row, &mut key);
        let erased = erasures.covering(&key).and_then(|f| f.oldest_above(block.ts(row)));
        if erased.is_some_and(|erased| erased <= erased_to) {
            return Err(Damage("row is erased that the manifest says is not"));
        }
    }
    Ok(())
}

/// Whether a version comes before another in the order of rows.
fn is_before(a: (&[u8], CommitTs), b: (&[u8], CommitTs)) -> bool {
    match a.0.cmp(b.0) {
        Ordering::Equal => a.1 > b.1,
        order => order.is_lt(),
    }
}
