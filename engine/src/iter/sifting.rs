//! A scan's filter before each source of its merge: which sources are older than which, so that a
//! block is passed over only where nothing older can come to light.

use crate::error::Result;
use crate::key::range::KeyRange;
use crate::sstable::format::FileMeta;
use crate::sstable::reader::TableFile;
use crate::sstable::sieve::{self, Older, Sieve};
use crate::version::files::LiveFile;
use crate::zone::ZoneScan;
use std::sync::Arc;

/// What the files of one run need to know to sift.
pub(crate) struct Sifting {
    scan: Arc<ZoneScan>,
    range: KeyRange,
    older: Older,
}

impl Sifting {
    /// One for each of `runs`, newest first.
    /// Nothing where there is no filter.
    pub(crate) fn of_runs<'a>(
        range: &KeyRange,
        scan: Option<&Arc<ZoneScan>>,
        runs: impl Iterator<Item = &'a [Arc<LiveFile>]>,
    ) -> std::vec::IntoIter<Sifting> {
        let Some(scan) = scan else { return Vec::new().into_iter() };
        let metas = |files: &[Arc<LiveFile>]| files.iter().map(|f| Arc::clone(&f.meta)).collect();
        let runs: Vec<Arc<[Arc<FileMeta>]>> = runs.map(metas).collect();
        let older = (1..=runs.len()).map(|next| Older::from(&runs[next..]));
        let sifting = |older| Sifting { scan: Arc::clone(scan), range: range.clone(), older };
        older.map(sifting).collect::<Vec<_>>().into_iter()
    }

    /// What passes over blocks of `table`, one of the run's; not over the first one where it
    /// `shows`.
    pub(crate) fn sieve(
        sifting: Option<&Sifting>,
        table: &TableFile,
        shows: bool,
    ) -> Result<Option<Sieve>> {
        let Some(Sifting { scan, range, older }) = sifting else { return Ok(None) };
        Sieve::new(table, range, scan, older, shows)
    }

    /// Whether one of the run's files may be passed over unopened. Its blocks count as passed over;
    /// as one where nobody knows how many there are.
    pub(crate) fn passes_over(&self, file: &LiveFile) -> bool {
        let passes = sieve::is_out_of_time(&file.meta, &self.scan, &self.older);
        if passes {
            self.scan.count_skipped(file.blocks_if_open().unwrap_or(1));
        }
        passes
    }
}
