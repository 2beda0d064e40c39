//! What can still be read of a damaged table file: the blocks that verify, and the gaps between them.
//!
//! Where footer and index are sound, blocks are where the index says, and of one that is lost it is
//! known which keys it had. Where they are not, the file is searched: a block's header says how long
//! it is, and its checksum holds its place and the file's number, so nothing else is taken for one.

use super::block::{Block, Unpack};
use super::format::{FOOTER_LEN, FileMeta, Footer, Props, SUM_LEN, Stretch, unseal};
use super::index::{EntryAt, Handle, Index};
use super::layout::{HEADER_LEN, Layout};
use super::raw::RawFile;
use crate::error::{Error, Result};
use crate::ids::{CommitTs, FileNo};
use crate::vfs::api::File;
use std::path::PathBuf;
use std::sync::Arc;

/// A table file that is read as far as it goes, from its first block to its last.
pub(crate) struct Rescue {
    raw: RawFile,
    plan: Plan,
    props: Option<Props>,
    /// The timestamp of rows that bear none, where the manifest tells; and what they have where it does not.
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
    /// Opens the file, which may have any length. `meta`: what the manifest says of it, if anything;
    /// `guess`: the timestamp of rows that bear none, where it says nothing.
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
                let end = footer.map_or(len, |footer| footer.data_len);
                let bytes = raw.read(Stretch { offset: 0, len: end })?;
                Plan::Searched(search(no, &bytes).into_iter())
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

/// Every block of file `no` in its first `bytes`, and what lies between and behind them.
fn search(no: FileNo, bytes: &[u8]) -> Vec<Piece> {
    let (mut pieces, mut at, mut gap_from) = (Vec::new(), 0, 0);
    let close = |gap_from: usize, at: usize, pieces: &mut Vec<Piece>| {
        if gap_from < at {
            let (offset, len) = (gap_from as u64, (at - gap_from) as u64);
            pieces.push(Piece::Gap(Stretch { offset, len }));
        }
    };
    while at + HEADER_LEN + SUM_LEN <= bytes.len() {
        match block_at(no, at, bytes) {
            Some(len) => {
                close(gap_from, at, &mut pieces);
                pieces.push(Piece::Block(Handle { offset: at as u64, len: len as u32 }));
                at += len;
                gap_from = at;
            }
            None => at += 1,
        }
    }
    close(gap_from, bytes.len(), &mut pieces);
    pieces
}

/// The length, checksum included, of the block at `at`.
fn block_at(no: FileNo, at: usize, bytes: &[u8]) -> Option<usize> {
    let rest = bytes.get(at..)?;
    let len = Layout::claimed_len(rest.get(..HEADER_LEN)?)?.checked_add(SUM_LEN)?;
    let body = unseal(no, at as u64, rest.get(..len)?).ok()?;
    Block::copy_data(body, Unpack::Later).ok().map(|_| len)
}
