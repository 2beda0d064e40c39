//! All versions of rows from all files and the log, in the order of a table file, each once.

use crate::error::{Error, Result};
use crate::ids::CommitTs;
use crate::salvage::report::Loss;
use crate::salvage::table::{Rows, Version};
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::path::PathBuf;

/// Versions in order.
pub(crate) struct Merge {
    log: std::vec::IntoIter<Version>,
    tables: Vec<Option<Rows>>,
    heads: BinaryHeap<Reverse<Head>>,
    last: Option<(Vec<u8>, CommitTs)>,
    unread: Option<Error>,
    /// What reading the files has found to be lost so far.
    pub(crate) losses: Vec<Loss>,
    /// Files of which it is not known when their rows were ingested, and what these have for it.
    pub(crate) undated: Vec<(PathBuf, CommitTs)>,
}

/// The next version of one source; the log is source 0.
struct Head {
    version: Version,
    source: usize,
}

impl Ord for Head {
    fn cmp(&self, other: &Head) -> Ordering {
        let (a, b) = (&self.version, &other.version);
        a.key.cmp(&b.key).then(b.ts.cmp(&a.ts)).then(self.source.cmp(&other.source))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Head) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Head) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head {}

impl Merge {
    /// A merge of the log's versions, which are in order, and of files. Of equal versions those of
    /// the log count, then those of the file that stands first.
    pub(crate) fn new(log: Vec<Version>, tables: Vec<Rows>) -> Merge {
        let tables: Vec<_> = tables.into_iter().map(Some).collect();
        let sources = tables.len() + 1;
        let mut merge = Merge {
            log: log.into_iter(),
            tables,
            heads: BinaryHeap::new(),
            last: None,
            unread: None,
            losses: Vec::new(),
            undated: Vec::new(),
        };
        (0..sources).for_each(|source| merge.refill(source));
        merge
    }

    /// The next version; `None` at the end.
    ///
    /// Errors: `Unsupported` where this build cannot read a file.
    pub(crate) fn next(&mut self) -> Result<Option<Version>> {
        loop {
            if let Some(error) = self.unread.take() {
                return Err(error);
            }
            let Some(Reverse(Head { version, source })) = self.heads.pop() else { return Ok(None) };
            self.refill(source);
            let again = self
                .last
                .as_ref()
                .is_some_and(|(key, ts)| *key == version.key && *ts == version.ts);
            if !again {
                self.last = Some((version.key.clone(), version.ts));
                return Ok(Some(version));
            }
        }
    }

    fn refill(&mut self, source: usize) {
        let version = match source.checked_sub(1).and_then(|table| self.tables.get_mut(table)) {
            None => self.log.next(),
            Some(table) => {
                let version = table.as_mut().and_then(Rows::next);
                if version.is_none() {
                    let unread = table.as_mut().and_then(|rows| rows.unread.take());
                    self.unread = self.unread.take().or(unread);
                    let undated = table.as_ref().and_then(Rows::undated);
                    self.undated.extend(undated.map(|(file, guess)| (file.to_owned(), guess)));
                    self.losses.extend(table.take().map(Rows::into_losses).unwrap_or_default());
                }
                version
            }
        };
        self.heads.extend(version.map(|version| Reverse(Head { version, source })));
    }
}
