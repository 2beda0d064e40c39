//! Which blocks of a file a scan with a filter need not read.
//!
//! A block is passed over only where all of this holds: its zones say that no row of it passes; no
//! older file or level holds a key of its range, so that no older version of a row comes to light;
//! and no key goes on in the next block, for the same reason. Newer versions do not matter: they
//! are found where they are. Where only the first holds, keys are walked, and the value of a row
//! that a reader sees need not be looked at.
//!
//! Where the commits of a file say all, it is passed over unopened.

use crate::error::Result;
use crate::ids::CommitTs;
use crate::key::order;
use crate::key::range::KeyRange;
use crate::sstable::format::FileMeta;
use crate::sstable::index::EntryAt;
use crate::sstable::reader::TableFile;
use crate::sstable::zones::{TableZones, Zones};
use crate::zone::{Zone, ZoneScan};
use std::sync::Arc;

/// Files that may hold older versions: runs of files that are sorted and do not overlap.
pub(crate) type Older = Arc<[Arc<[Arc<FileMeta>]>]>;

/// What is to become of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sifted {
    /// Some row may pass.
    Read,
    /// No row passes, but its keys may hide older versions.
    KeysOnly,
    /// It may be passed over.
    Skip,
}

/// A filter before one file.
pub(crate) struct Sieve {
    scan: Arc<ZoneScan>,
    zones: Arc<Zones>,
    /// Which of `zones.tables` the scan reads.
    table: Option<usize>,
    /// For each column of the filter, which of the table's it is.
    columns: Vec<Option<usize>>,
    older: Older,
    /// Nothing of the file needs to be read.
    skips_all: bool,
    /// The next block is not passed over, whatever is in it.
    shows_next: bool,
    asked: Vec<Option<Zone>>,
}

impl Sieve {
    /// The sieve of a scan of `range` before `file`; `None` where it would not pay. One that
    /// `shows` lets the first block be seen: a walk that has passed much has a place to stop. Cost:
    /// the first in a file reads its zones, and each where they are not kept.
    pub(crate) fn new(
        file: &TableFile,
        range: &KeyRange,
        scan: &Arc<ZoneScan>,
        older: &Older,
        shows: bool,
    ) -> Result<Option<Sieve>> {
        let blocks = blocks_in(file, range);
        if !file.has_read_zones() && bytes_of(file, blocks) < file.footer().zones_len {
            return Ok(None); // Reading the blocks costs less than reading their zones.
        }
        let Some(zones) = file.zones()? else { return Ok(None) };
        let table = order::table_of(&range.start).and_then(|table| zones.place_of(table));
        let known = table.and_then(|at| zones.tables.get(at));
        let column_of =
            |name: &String| known?.columns.iter().position(|column| column.name == name.as_bytes());
        let columns = scan.filter().columns().iter().map(column_of).collect();
        let mut sieve = Sieve {
            scan: Arc::clone(scan),
            table,
            columns,
            zones,
            older: Arc::clone(older),
            skips_all: false,
            shows_next: shows,
            asked: Vec::new(),
        };
        let (smallest, largest) = (&file.props().smallest, &file.props().largest);
        sieve.skips_all =
            !shows && !sieve.all_may_pass(file) && !hides_older(older, smallest, largest);
        if sieve.skips_all {
            scan.count_skipped(blocks as u64);
        }
        Ok(Some(sieve))
    }

    /// Whether no row of the file passes, and none needs to be known.
    pub(super) fn skips_all(&self) -> bool {
        self.skips_all
    }

    /// What is to become of a block of `file`.
    pub(super) fn sift(&mut self, file: &TableFile, entry: EntryAt) -> Sifted {
        if self.may_pass(file.index().ordinal(entry)) {
            return Sifted::Read;
        }
        let index = file.index();
        if index.splits_key_after(entry) {
            return Sifted::KeysOnly;
        }
        if !self.older.is_empty() {
            let before = index.prev(entry).map(|before| index.separator(before).0);
            let smallest = before.as_ref().unwrap_or(&file.props().smallest);
            if hides_older(&self.older, smallest, &index.separator(entry).0) {
                return Sifted::KeysOnly;
            }
        }
        match std::mem::take(&mut self.shows_next) {
            true => Sifted::KeysOnly,
            false => Sifted::Skip,
        }
    }

    pub(super) fn count_skipped(&self) {
        self.scan.count_skipped(1);
    }

    pub(super) fn count_read(&self) {
        self.scan.count_read();
    }

    fn all_may_pass(&mut self, file: &TableFile) -> bool {
        let props = file.props();
        self.ask((props.min_ts, props.max_ts), |table, column| {
            table.columns.get(column).map(|column| column.total)
        })
    }

    fn may_pass(&mut self, block: usize) -> bool {
        let all_times = (CommitTs::ZERO, CommitTs::MAX);
        let times = self.zones.times.get(block).copied().unwrap_or(all_times);
        self.ask(times, |table, column| {
            let at = block.checked_sub(table.first_block).filter(|at| *at < table.blocks)?;
            table.columns.get(column).map(|column| column.zone(at))
        })
    }

    fn ask(
        &mut self,
        times: (CommitTs, CommitTs),
        zone: impl Fn(&TableZones, usize) -> Option<Zone>,
    ) -> bool {
        let table = self.table.and_then(|at| self.zones.tables.get(at));
        self.asked.clear();
        self.asked.extend(self.columns.iter().map(|column| zone(table?, (*column)?)));
        self.scan.filter().may_pass(times, &self.asked)
    }
}

/// Whether by its commits alone no row of the file passes, and none needs to be known.
pub(crate) fn is_out_of_time(file: &FileMeta, scan: &ZoneScan, older: &Older) -> bool {
    let unknown = vec![None; scan.filter().columns().len()];
    !scan.filter().may_pass((file.min_ts, file.max_ts), &unknown)
        && !hides_older(older, &file.smallest, &file.largest)
}

/// Whether an older file may hold a key from `smallest` to `largest`.
fn hides_older(older: &Older, smallest: &[u8], largest: &[u8]) -> bool {
    older.iter().any(|run| {
        let at = run.partition_point(|file| file.largest.as_slice() < smallest);
        run.get(at).is_some_and(|file| file.smallest.as_slice() <= largest)
    })
}

/// About as many bytes as `blocks` of the file's blocks have.
fn bytes_of(file: &TableFile, blocks: usize) -> u64 {
    file.footer().data_len / file.props().blocks.max(1) * blocks as u64
}

/// How many blocks of the file the range reaches into, or one too many.
fn blocks_in(file: &TableFile, range: &KeyRange) -> usize {
    let index = file.index();
    let last = file.props().blocks as usize;
    let place =
        |key: &[u8]| index.seek(key, CommitTs::MAX).map_or(last, |entry| index.ordinal(entry));
    (place(&range.end) + 1).min(last).saturating_sub(place(&range.start))
}
