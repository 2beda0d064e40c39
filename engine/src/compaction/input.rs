//! The input of a merge: files as runs. A run is one file, or files of one level one after the other.

use crate::compaction::job::Merge;
use crate::compaction::tournament::Run;
use crate::error::Result;
use crate::ids::{CommitTs, RowKind};
use crate::sstable::pass::Pass;
use crate::version::files::LiveFile;
use std::sync::Arc;

/// Files that do not overlap, passed in the order of their keys.
pub(crate) struct Input {
    files: std::vec::IntoIter<Arc<LiveFile>>,
    pass: Option<Pass>,
    ahead_bytes: usize,
}

/// The runs of a merge: the files of L0 each, those of a deeper level as one. Of each `ahead_bytes`
/// are read at once.
pub(crate) fn inputs(job: &Merge, ahead_bytes: usize) -> Vec<Input> {
    let alone = |file: &Arc<LiveFile>| Input::over(vec![Arc::clone(file)], ahead_bytes);
    let mut inputs: Vec<_> = match job.level {
        0 => job.upper.iter().map(alone).collect(),
        _ => vec![Input::over(job.upper.clone(), ahead_bytes)],
    };
    inputs.push(Input::over(job.lower.clone(), ahead_bytes));
    inputs
}

impl Input {
    fn over(files: Vec<Arc<LiveFile>>, ahead_bytes: usize) -> Input {
        Input { files: files.into_iter(), pass: None, ahead_bytes }
    }

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

impl Run for Input {
    fn next(&mut self) -> Result<bool> {
        loop {
            if let Some(pass) = &mut self.pass
                && pass.next()?
            {
                return Ok(true); // A pass shares nothing with the file before it: see `shared`.
            }
            let Some(file) = self.files.next() else {
                self.pass = None;
                return Ok(false);
            };
            self.pass = Some(file.table()?.pass(self.ahead_bytes));
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
