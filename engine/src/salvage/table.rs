//! The rows of one table file that may be damaged, in their order; what cannot be read goes to a
//! list.

use crate::error::{Error, Kind, Result};
use crate::ids::{CommitTs, FileNo, RowKind};
use crate::salvage::report::{Loss, What};
use crate::sstable::block::Block;
use crate::sstable::format::FileMeta;
use crate::sstable::rescue::{Part, Rescue};
use crate::vfs::api::{Access, Vfs};
use crate::vfs::os;
use bytes::Bytes;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One version of a row, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) key: Vec<u8>,
    pub(crate) prefix_len: usize,
    pub(crate) ts: CommitTs,
    pub(crate) kind: RowKind,
    pub(crate) value: Bytes,
}

/// A table file, from its first row to its last.
pub(crate) struct Rows {
    rescue: Rescue,
    path: PathBuf,
    meta: Option<Arc<FileMeta>>,
    block: Option<(Block, usize)>,
    last_key: Option<Vec<u8>>,
    /// Where rows are missing of which only the next key can tell how far they went.
    open_gap: Option<Loss>,
    rows: u64,
    losses: Vec<Loss>,
    /// What ended the rows, though they are not lost: this build cannot read them.
    pub(crate) unread: Option<Error>,
}

/// Why a file was not opened.
pub(crate) enum Unopened {
    Lost(Box<Loss>),
    /// The process or the machine lacked handles or memory; of the file that says nothing.
    Short(Error),
}

impl Rows {
    /// Opens file `no` at `path`. `meta`: what the manifest says of it; `guess`: when its rows were
    /// ingested, where they do not say it and the manifest neither.
    ///
    /// Errors: the loss of the file as a whole, or why it cannot be told.
    pub(crate) fn open(
        vfs: &dyn Vfs,
        path: PathBuf,
        no: FileNo,
        meta: Option<Arc<FileMeta>>,
        guess: CommitTs,
    ) -> Result<Rows, Unopened> {
        let lost = |why: Error| match why.io_cause().is_some_and(os::is_shortage) {
            true => Unopened::Short(why),
            false => Unopened::Lost(Box::new(whole(path.clone(), meta.as_deref(), &why))),
        };
        let file = vfs.open(&path, Access::Read);
        let file = file.map_err(|error| lost(Error::io("opening a table file", &path, error)))?;
        let rescue = Rescue::open(file, path.clone(), no, meta.as_deref(), guess).map_err(lost)?;
        if let (Some(props), Some(meta)) = (rescue.props(), &meta)
            && !props.agree_with(meta)
        {
            let why = Error::corrupt(&path, 0, "the manifest means another table file");
            return Err(lost(why));
        }
        Ok(Rows {
            rescue,
            path,
            meta,
            block: None,
            last_key: None,
            open_gap: None,
            rows: 0,
            losses: Vec::new(),
            unread: None,
        })
    }

    /// The next version; `None` at the end, and where this build cannot read what follows.
    pub(crate) fn next(&mut self) -> Option<Version> {
        loop {
            if let Some((block, row)) = &mut self.block
                && *row < block.rows()
            {
                let version = version(block, *row);
                *row += 1;
                self.rows += 1;
                if let Some(mut gap) = self.open_gap.take() {
                    gap.keys.1 = Some(version.key.clone());
                    self.losses.push(gap);
                }
                return Some(version);
            }
            if let Some((block, _)) = self.block.take() {
                let mut key = Vec::new();
                block.put_key(block.rows() - 1, &mut key);
                self.last_key = Some(key);
            }
            match self.rescue.next() {
                Some(Part::Rows(block)) => self.block = Some((block, 0)),
                Some(Part::Lost(lost)) if lost.why.kind() == Kind::Unsupported => {
                    self.unread = Some(lost.why);
                    return None;
                }
                Some(Part::Lost(lost)) => {
                    let mut loss = Loss::new(What::Rows, self.path.clone(), &lost.why);
                    loss.offset = Some(lost.offset);
                    loss.commits = commits(self.meta.as_deref());
                    match lost.keys {
                        Some((from, to)) => {
                            loss.keys = (from.or_else(|| self.smallest()), Some(to));
                            self.losses.push(loss);
                        }
                        None => {
                            loss.keys.0 = self.last_key.clone().or_else(|| self.smallest());
                            self.open_gap = Some(loss);
                        }
                    }
                }
                None => return None,
            }
        }
    }

    /// The newest commit that it says to have rows of.
    pub(crate) fn newest(&self) -> Option<CommitTs> {
        let said = self.meta.as_ref().map(|meta| meta.max_ts);
        said.or_else(|| self.rescue.props().map(|props| props.max_ts))
    }

    /// The file, where it holds rows of which it is not known when they were ingested, and the
    /// guess.
    pub(crate) fn undated(&self) -> Option<(&Path, CommitTs)> {
        Some((self.path.as_path(), self.rescue.guess()?))
    }

    /// What was lost of the file, once it has been read to its end.
    pub(crate) fn into_losses(mut self) -> Vec<Loss> {
        let said = self.meta.as_ref().map(|meta| meta.rows);
        let said = said.or_else(|| self.rescue.props().map(|props| props.rows));
        // What follows the last block may be no more than index and filters; where the file was cut
        // right behind a block, nothing follows it.
        if self.rescue.is_searched() && said != Some(self.rows) {
            let mut tail = self.open_gap.take().unwrap_or_else(|| self.cut());
            tail.keys.1 = self.largest();
            self.losses.push(tail);
        }
        let missing = said.map(|said| said.saturating_sub(self.rows));
        if let [only] = &mut self.losses[..] {
            only.versions = missing;
        }
        if self.losses.is_empty() && missing.is_some_and(|missing| missing > 0) {
            let why =
                Error::corrupt(&self.path, 0, "table file has fewer rows than it should have");
            let mut loss = whole(self.path.clone(), self.meta.as_deref(), &why);
            (loss.what, loss.versions) = (What::Rows, missing);
            self.losses.push(loss);
        }
        self.losses
    }

    /// The loss of what came behind the last block.
    fn cut(&self) -> Loss {
        let why = Error::corrupt(&self.path, 0, "nothing tells where the table file's rows end");
        let mut loss = Loss::new(What::Rows, self.path.clone(), &why);
        loss.offset = None;
        loss.commits = commits(self.meta.as_deref());
        loss.keys.0 = self.last_key.clone().or_else(|| self.smallest());
        loss
    }

    fn smallest(&self) -> Option<Vec<u8>> {
        let said = self.meta.as_ref().map(|meta| meta.smallest.clone());
        said.or_else(|| self.rescue.props().map(|props| props.smallest.clone()))
    }

    fn largest(&self) -> Option<Vec<u8>> {
        let said = self.meta.as_ref().map(|meta| meta.largest.clone());
        said.or_else(|| self.rescue.props().map(|props| props.largest.clone()))
    }
}

/// The loss of a table file as a whole.
pub(crate) fn whole(path: PathBuf, meta: Option<&FileMeta>, why: &Error) -> Loss {
    let mut loss = Loss::new(What::TableFile, path, why);
    if let Some(meta) = meta {
        loss.keys = (Some(meta.smallest.clone()), Some(meta.largest.clone()));
        loss.versions = Some(meta.rows);
    }
    loss.commits = commits(meta);
    loss
}

/// After which commit and before which those of a file are.
fn commits(meta: Option<&FileMeta>) -> (CommitTs, CommitTs) {
    let known = |meta: &FileMeta| {
        (CommitTs(meta.min_ts.0.saturating_sub(1)), CommitTs(meta.max_ts.0.saturating_add(1)))
    };
    meta.map_or((CommitTs::ZERO, CommitTs::MAX), known)
}

fn version(block: &Block, row: usize) -> Version {
    let mut key = Vec::new();
    block.put_key(row, &mut key);
    let prefix_len = block.prefix_len(block.run_of(row));
    // The values were decompressed when the block was taken for sound.
    let value = block.value(row).unwrap_or_default();
    Version { key, prefix_len, ts: block.ts(row), kind: block.kind(row), value }
}
