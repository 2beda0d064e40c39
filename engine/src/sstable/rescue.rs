//! What can still be read of a damaged table file: the blocks that verify, and the gaps between
//! them.
//!
//! Where footer and index are sound, blocks are where the index says, and of one that is lost it is
//! known which keys it had. Where they are not, the file is searched: a block's header says how
//! long it is, and its checksum holds its place and the file's number, so nothing else is taken for
//! one. A search reads piece by piece, as a damaged length may be more than memory holds.

use crate::checksum::Beginnings;
use crate::error::{Error, Result};
use crate::ids::{CommitTs, FileNo};
use crate::limits::VALUE_BYTES_MAX;
use crate::sstable::block::{Block, Unpack};
use crate::sstable::format::{FOOTER_LEN, FileMeta, Footer, Props, SUM_LEN, Stretch, unseal};
use crate::sstable::index::{EntryAt, Handle, Index};
use crate::sstable::layout::{HEADER_LEN, Layout};
use crate::sstable::raw::RawFile;
use crate::vfs::api::File;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;

/// Longest block: its columns have at most 33 bytes for each of 65,535 rows.
const BLOCK_LEN_MAX: usize = VALUE_BYTES_MAX + 40 * u16::MAX as usize;

/// A table file that is read as far as it goes, from its first block to its last.
pub(crate) struct Rescue {
    raw: RawFile,
    plan: Plan,
    props: Option<Props>,
    /// The timestamp of rows that bear none, where the manifest tells; and what they have where it
    /// does not.
    undated: Option<CommitTs>,
    guess: CommitTs,
    guesses: bool,
    before: Option<Vec<u8>>,
}

enum Plan {
    Indexed { index: Box<Index>, next: Option<EntryAt> },
    Searched(std::vec::IntoIter<Piece>),
}

/// What a search came upon.
#[derive(Debug, PartialEq)]
enum Piece {
    Block(Handle),
    Gap(Stretch),
}

/// A stretch of the file.
pub(crate) enum Part {
    Rows(Block),
    Lost(Lost),
}

/// A stretch that held rows and cannot be read.
pub(crate) struct Lost {
    pub(crate) offset: u64,
    pub(crate) why: Error,
    /// The last key before it and the last one that may be in it, where the index says so.
    pub(crate) keys: Option<(Option<Vec<u8>>, Vec<u8>)>,
}

impl Rescue {
    /// Opens the file, which may have any length. `meta`: what the manifest says of it, if
    /// anything; `guess`: the timestamp of rows that bear none, where it says nothing.
    ///
    /// Errors: `Io` where nothing at all can be read.
    pub(crate) fn open(
        file: Arc<dyn File>,
        path: PathBuf,
        no: FileNo,
        meta: Option<&FileMeta>,
        guess: CommitTs,
    ) -> Result<Rescue> {
        let raw = RawFile { file, path, no, ts_base: 0 };
        let len = raw.len()?;
        let once = meta.map(|meta| meta.bytes).filter(|bytes| *bytes < len);
        let footer = once.into_iter().chain([len]).find_map(|len| footer(&raw, len));
        let props = footer.and_then(|footer| {
            let section = raw.read_section(footer.props()).ok()?;
            Props::decode(&section).ok()
        });
        let index = footer.and_then(|footer| raw.read_index(&footer).ok());
        let plan = match index {
            Some(index) => Plan::Indexed { next: Some(index.first()), index: Box::new(index) },
            None => {
                // What was never written has no block, and may be longer than anyone can wait for.
                let written = || raw.file.zeros_from().map_or(len, |zeros| zeros.min(len));
                let end = footer.map_or_else(written, |footer| footer.data_len);
                Plan::Searched(search(&raw, end, BLOCK_LEN_MAX)?.into_iter())
            }
        };
        let undated = meta.map(|meta| meta.min_ts);
        Ok(Rescue { raw, plan, props, undated, guess, guesses: false, before: None })
    }

    /// What the file says of itself, where that can be read.
    pub(crate) fn props(&self) -> Option<&Props> {
        self.props.as_ref()
    }

    /// What it has given rows of which it is not known when they were ingested, if there were any.
    pub(crate) fn guess(&self) -> Option<CommitTs> {
        self.guesses.then_some(self.guess)
    }

    /// Whether the end of the rows is not known: nothing says how many blocks there were.
    pub(crate) fn is_searched(&self) -> bool {
        matches!(self.plan, Plan::Searched(_))
    }

    /// The next stretch; `None` at the end.
    pub(crate) fn next(&mut self) -> Option<Part> {
        let (handle, keys) = match &mut self.plan {
            Plan::Indexed { index, next } => {
                let at = next.take()?;
                *next = index.next(at);
                let (separator, _) = index.separator(at);
                let before = self.before.replace(separator.clone());
                (index.handle(at), Some((before, separator)))
            }
            Plan::Searched(pieces) => match pieces.next()? {
                Piece::Block(handle) => (handle, None),
                Piece::Gap(gap) => {
                    let what = format!("{} bytes without a block that verifies", gap.len);
                    let why = Error::corrupt(&self.raw.path, gap.offset, what);
                    return Some(Part::Lost(Lost { offset: gap.offset, why, keys: None }));
                }
            },
        };
        let block = self.raw.read_block(handle, Unpack::Now).and_then(|block| {
            let values = block.values().map(|_| ());
            values.map_err(|damage| damage.at(&self.raw.path, handle.offset))?;
            Ok(block)
        });
        Some(match block {
            Ok(block) if block.newest() == CommitTs::ZERO => {
                self.guesses |= self.undated.is_none();
                Part::Rows(block.dated(self.undated.unwrap_or(self.guess).0))
            }
            Ok(block) => Part::Rows(block),
            Err(why) => Part::Lost(Lost { offset: handle.offset, why, keys }),
        })
    }
}

/// The number that the file's own footer gives it, whatever its name is.
pub(crate) fn number_in(file: &dyn File) -> Option<FileNo> {
    let at = file.len().ok()?.checked_sub(FOOTER_LEN as u64)?;
    let bytes = file.read_vec_at(FOOTER_LEN, at).ok()?;
    let no = FileNo(u64::from_le_bytes(*bytes.get(12..)?.first_chunk()?));
    Footer::decode(no, at, &bytes).ok().map(|_| no)
}

fn footer(raw: &RawFile, len: u64) -> Option<Footer> {
    let at = len.checked_sub(FOOTER_LEN as u64)?;
    let bytes = raw.read(Stretch { offset: at, len: FOOTER_LEN as u64 }).ok()?;
    Footer::decode(raw.no, at, &bytes).ok()
}

/// Every block in the first `end` bytes of the file, and what lies between and behind them. Blocks
/// have at most `longest` bytes; twice as many are read at a time.
fn search(raw: &RawFile, end: u64, longest: usize) -> Result<Vec<Piece>> {
    Search::of(raw, end, longest).pieces()
}

/// A search for blocks, and the part of the file that it has read.
struct Search<'a> {
    raw: &'a RawFile,
    end: u64,
    longest: usize,
    window: Vec<u8>,
    from: u64,
    /// The sums of the window, once more was summed in vain than the file has bytes.
    beginnings: Option<Beginnings>,
    /// Bytes that were summed for what claimed to be a block and is none.
    summed_in_vain: u64,
}

impl Search<'_> {
    fn of(raw: &RawFile, end: u64, longest: usize) -> Search<'_> {
        let (window, beginnings) = (Vec::new(), None);
        Search { raw, end, longest, window, from: 0, beginnings, summed_in_vain: 0 }
    }

    fn pieces(&mut self) -> Result<Vec<Piece>> {
        let (mut pieces, mut at, mut gap_from) = (Vec::new(), 0, 0);
        let close = |gap_from: u64, at: u64, pieces: &mut Vec<Piece>| {
            if gap_from < at {
                pieces.push(Piece::Gap(Stretch { offset: gap_from, len: at - gap_from }));
            }
        };
        while at + (HEADER_LEN + SUM_LEN) as u64 <= self.end {
            if self.from + (self.window.len() as u64) < self.end.min(at + self.longest as u64) {
                let len = (self.end - at).min(2 * self.longest as u64);
                self.raw.read_into(Stretch { offset: at, len }, &mut self.window)?;
                (self.from, self.beginnings) = (at, None);
            }
            match self.block_at(at) {
                Some(len) => {
                    close(gap_from, at, &mut pieces);
                    pieces.push(Piece::Block(Handle { offset: at, len: len as u32 }));
                    at += len as u64;
                    gap_from = at;
                }
                None => at += 1,
            }
        }
        close(gap_from, self.end, &mut pieces);
        Ok(pieces)
    }

    /// The length, checksum included, of the block at `at`, which the window covers.
    fn block_at(&mut self, at: u64) -> Option<usize> {
        let start = (at - self.from) as usize;
        let bytes = self.window.get(start..)?;
        let len = Layout::claimed_len(bytes.get(..HEADER_LEN)?)?.checked_add(SUM_LEN)?;
        if bytes.len() < len || self.summed_in_vain > self.end && !self.has_its_sum(at, len) {
            return None;
        }
        let sealed = self.window.get(start..start + len)?;
        let body = unseal(self.raw.no, at, sealed);
        let is_block = body.and_then(|body| Block::copy_data(body, Unpack::Later)).is_ok();
        if !is_block {
            self.summed_in_vain += len as u64;
        }
        is_block.then_some(len)
    }

    /// Whether the `len` bytes at `at`, which are in the window, have the checksum that they end
    /// in; sums few of them. What somebody wrote may look like a header wherever one fits, each of
    /// a block as long as any.
    fn has_its_sum(&mut self, at: u64, len: usize) -> bool {
        let (window, summed) = (self.window.as_slice(), &mut self.summed_in_vain);
        let beginnings = self.beginnings.get_or_insert_with(|| {
            *summed += window.len() as u64;
            Beginnings::in_memory(window)
        });
        let (start, end) = ((at - self.from) as usize, (at - self.from) as usize + len - SUM_LEN);
        let mut read = |at: u64, len: usize| -> Result<&[u8], Infallible> {
            *summed += len as u64;
            Ok(window.get(at as usize..at as usize + len).unwrap_or_default())
        };
        let Ok(sum) = beginnings.placed(self.raw.no.0, at, start as u64..end as u64, &mut read);
        window.get(end..end + SUM_LEN) == Some(&sum.to_le_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compress::Codec;
    use crate::ids::{RowKind, TableId};
    use crate::key::order;
    use crate::sstable::builder::TableBuilder;
    use crate::sstable::format::TableOptions;
    use crate::vfs::api::Vfs as _;
    use crate::vfs::mem::SimFs;
    use std::path::Path;

    #[test]
    fn a_search_piece_by_piece_finds_what_one_of_the_whole_file_does() -> Result<()> {
        let (no, path) = (FileNo(7), Path::new("000007.sst"));
        let file = SimFs::new().create(path).map_err(|e| Error::io("making a file", path, e))?;
        let options = TableOptions { block_bytes: 256, filter_bits: 10, codec: Codec::None };
        let mut builder = TableBuilder::new(Arc::clone(&file), path, no, options);
        for row in 0..2000u32 {
            let key = order::row_key(TableId(1), b"p", &row.to_be_bytes());
            let (prefix_len, value) =
                (order::prefix_len(&key).unwrap_or_default(), [row as u8; 20]);
            builder.add(&key, prefix_len, CommitTs(9), RowKind::Put, &value)?;
        }
        let bytes = builder.finish()?.bytes;
        for at in (0..bytes).step_by(5000) {
            file.write_all_at(&[0xff; 3], at).map_err(|e| Error::io("damaging it", path, e))?;
        }
        let raw = RawFile { file, path: path.to_owned(), no, ts_base: 0 };
        let whole = search(&raw, bytes, BLOCK_LEN_MAX)?;
        let longest = whole.iter().map(|piece| match piece {
            Piece::Block(handle) => handle.len as usize,
            Piece::Gap(_) => 0,
        });
        let longest = longest.max().unwrap_or_default();
        assert!(whole.len() > 100 && longest * 20 < bytes as usize, "{} pieces", whole.len());
        for longest in longest..longest + 100 {
            assert_eq!(search(&raw, bytes, longest)?, whole, "pieces of {longest}");
        }
        Ok(())
    }

    #[test]
    fn a_search_sums_little_of_values_that_look_like_headers() -> Result<()> {
        // One row, whose value has 200,000 bytes.
        let mut header = [0; HEADER_LEN];
        (header[0], header[2], header[10]) = (1, 1, 1);
        for at in [12, 16] {
            header[at..at + 4].copy_from_slice(&200_000u32.to_le_bytes());
        }
        assert!(Layout::claimed_len(&header).is_some_and(|len| len > 200_000));
        let (no, path) = (FileNo(7), Path::new("000007.sst"));
        let file = SimFs::new().create(path).map_err(|e| Error::io("making a file", path, e))?;
        let options = TableOptions { block_bytes: 256, filter_bits: 10, codec: Codec::None };
        let mut builder = TableBuilder::new(Arc::clone(&file), path, no, options);
        for row in 0..40u32 {
            let key = order::row_key(TableId(1), b"p", &row.to_be_bytes());
            let prefix_len = order::prefix_len(&key).unwrap_or_default();
            builder.add(&key, prefix_len, CommitTs(9), RowKind::Put, &header.repeat(1000))?;
        }
        let bytes = builder.finish()?.bytes;
        let raw = RawFile { file, path: path.to_owned(), no, ts_base: 0 };
        let mut pieces = search(&raw, bytes, BLOCK_LEN_MAX)?;
        assert_eq!(pieces.len(), 41, "a block for each row, and what follows them");
        for piece in pieces.iter_mut().step_by(2) {
            if let Piece::Block(Handle { offset, len }) = *piece {
                let damaged = raw.file.write_all_at(&[0xff], offset + HEADER_LEN as u64);
                damaged.map_err(|e| Error::io("damaging it", path, e))?;
                *piece = Piece::Gap(Stretch { offset, len: len.into() });
            }
        }
        let mut search = Search::of(&raw, bytes, BLOCK_LEN_MAX);
        assert_eq!(search.pieces()?, pieces);
        let summed = search.summed_in_vain;
        assert!(summed < 16 * bytes, "{summed} bytes of a file of {bytes}");
        Ok(())
    }
}
