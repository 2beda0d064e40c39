//! The input of a merge: files as runs. A run is one file, or files of one level one after the
//! other.

use crate::compaction::job::Merge;
use crate::compaction::tournament::Run;
use crate::error::Result;
use crate::ids::{CommitTs, RowKind};
use crate::key::range::KeyRange;
use crate::sstable::pass::Pass;
use crate::version::files::LiveFile;
use std::sync::Arc;

/// Files that do not overlap, passed in the order of their keys as far as a range holds them.
pub(crate) struct Input<'a> {
    files: std::vec::IntoIter<Arc<LiveFile>>,
    range: &'a KeyRange,
    pass: Option<Pass>,
    ahead_bytes: usize,
}

/// The runs of a merge within `range`: the files of L0 each, those of a deeper level as one. Of
/// each `ahead_bytes` are read at once.
pub(crate) fn inputs<'a>(job: &Merge, range: &'a KeyRange, ahead_bytes: usize) -> Vec<Input<'a>> {
    let over = |files: &[Arc<LiveFile>]| {
        let here = |file: &&Arc<LiveFile>| {
            file.meta.smallest < range.end && file.meta.largest >= range.start
        };
        let files: Vec<_> = files.iter().filter(here).cloned().collect();
        Input { files: files.into_iter(), range, pass: None, ahead_bytes }
    };
    let mut inputs: Vec<_> = match job.level {
        0 => job.upper.iter().map(|file| over(std::slice::from_ref(file))).collect(),
        _ => vec![over(&job.upper)],
    };
    inputs.push(over(&job.lower));
    inputs
}

impl Input<'_> {
    /// Length of the partition prefix of the key here.
    pub(crate) fn prefix_len(&self) -> usize {
        self.pass.as_ref().map_or(0, Pass::prefix_len)
    }

    /// What kind of version is here.
    pub(crate) fn kind(&self) -> RowKind {
        self.pass.as_ref().map_or(RowKind::Delete, Pass::kind)
    }

    /// The key and the value here. May decompress, so it is asked for last.
    pub(crate) fn key_and_value(&mut self) -> Result<(&[u8], &[u8])> {
        self.pass.as_mut().map_or(Ok((&[], &[])), Pass::key_and_value)
    }
}

impl Run for Input<'_> {
    fn next(&mut self) -> Result<bool> {
        loop {
            if let Some(pass) = &mut self.pass {
                match pass.next() {
                    Ok(true) => return Ok(true), // A pass shares nothing with the file before it.
                    Ok(false) => {}
                    // Planted (`planted.rs`), with the count's part: what cannot be read is not
                    // there.
                    Err(_) if crate::planted!("B15") => {}
                    Err(error) => return Err(error),
                }
            }
            let Some(file) = self.files.next() else {
                self.pass = None;
                return Ok(false);
            };
            let (table, range) = (file.table()?, self.range);
            let whole = range.contains(&file.meta.smallest) && range.contains(&file.meta.largest);
            self.pass = Some(match whole {
                true => table.pass(self.ahead_bytes),
                false => table.pass_in(self.ahead_bytes, range),
            });
        }
    }

    fn key(&self) -> &[u8] {
        self.pass.as_ref().map_or(&[], Pass::key)
    }

    fn ts(&self) -> CommitTs {
        self.pass.as_ref().map_or(CommitTs::ZERO, Pass::ts)
    }

    fn shared(&self) -> usize {
        self.pass.as_ref().map_or(0, Pass::shared)
    }
}
