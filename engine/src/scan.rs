//! A scan of a database as of a pinned moment: a cursor that holds on to files only as long as they
//! are current.
//!
//! A cursor reads the View that was current when it was opened. Once flush or compaction has made
//! another, its next move, at a block's edge at the latest, seeks in that one and lets the old one
//! go, with its memtables and files. The pin keeps what the cursor's moment shows from being
//! dropped, so both Views show the same rows. So a scan that goes on for a day holds at most one
//! block of a file that is gone; one that nobody moves holds its View.
//!
//! Absent: which tables there are. `storage` asks before it opens a scan.

use crate::cursor::Unwanted;
use crate::db::Inner;
use crate::error::{Error, Result};
use crate::ids::{CommitTs, RowKind};
use crate::iter::tree::{self, Scan};
use crate::key::range::KeyRange;
use crate::moment::Moment;
use crate::options::Reach;
use crate::rows::RowCursor;
use crate::view::View;
use crate::zone::ZoneScan;
use bytes::Bytes;
use std::cell::OnceCell;
use std::sync::Arc;

/// A moment that stays readable while this lives.
pub(crate) struct Pin {
    pub(crate) inner: Arc<Inner>,
    pub(crate) moment: Moment,
}

impl Pin {
    /// Pins what is visible now.
    pub(crate) fn now(inner: &Arc<Inner>) -> Arc<Pin> {
        Pin::at(inner, || inner.present())
    }

    /// Pins the moment that `present` gives, which is not in the past.
    pub(crate) fn at(inner: &Arc<Inner>, present: impl FnOnce() -> Moment) -> Arc<Pin> {
        let moment = inner.tree.snapshots.acquire(present);
        Arc::new(Pin { inner: Arc::clone(inner), moment })
    }

    /// Pins a moment within the history window.
    ///
    /// Errors: `Invalid` for one that lies before what is kept, or that later commits may still
    /// have.
    pub(crate) fn past(inner: &Arc<Inner>, at: CommitTs) -> Result<Arc<Pin>> {
        let end = inner.past_ends();
        if at >= end {
            return Err(Error::invalid(format!("moment {at} is not past: it is {end} now")));
        }
        if let Some(writer) = &inner.writer {
            writer.pipeline.await_past(at)?;
        }
        let moment = inner.tree.snapshots.acquire_past(at).map_err(|floor| {
            let what = format!("the history at {at} is not kept any more; it begins at {floor}");
            Error::invalid(what)
        })?;
        Ok(Arc::new(Pin { inner: Arc::clone(inner), moment }))
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.inner.tree.snapshots.release(self.moment);
    }
}

/// A position among the rows of a range, as of a pin.
pub(crate) struct DbCursor {
    scan: Scan,
    // Dropped after the scan, which reads its files.
    view: Arc<View>,
    views_made: u64,
    pin: Arc<Pin>,
    // The filter of the one who asks, if it is to spare blocks.
    zones: Option<Arc<ZoneScan>>,
    // The row's value where a blob file has it and it was asked for.
    fetched: OnceCell<Bytes>,
}

impl DbCursor {
    /// A cursor over `range`, not yet on any row. Cost: as [`tree::scan`].
    pub(crate) fn open(pin: &Arc<Pin>, range: KeyRange) -> Result<DbCursor> {
        DbCursor::open_where(pin, range, None)
    }

    /// The same, without blocks that the filter of `zones` rules out.
    pub(crate) fn open_where(
        pin: &Arc<Pin>,
        range: KeyRange,
        zones: Option<Arc<ZoneScan>>,
    ) -> Result<DbCursor> {
        let tree = &pin.inner.tree;
        // The count first: a View that comes between the two is looked at once more than needed.
        let views_made = tree.views_made();
        let view = tree.view_full();
        let outlived_to = pin.inner.outlived_to(&range.start, pin.moment.at, Some(pin.moment.now));
        let scan = tree::scan_where(&view, range, pin.moment, outlived_to, zones.as_ref())?;
        let fetched = OnceCell::new();
        Ok(DbCursor { scan, view, views_made, pin: Arc::clone(pin), zones, fetched })
    }

    /// The row's value from its blob file. The View being read has it: the reference comes from one
    /// of its files.
    fn fetch(&self) -> Result<&Bytes> {
        if let Some(value) = self.fetched.get() {
            return Ok(value);
        }
        let value = self.view.version.blobs.value(self.scan.value_ref()?, Reach::Disk)?;
        Ok(self.fetched.get_or_init(|| value))
    }

    /// Whether the last move is known to have led from a row to another of its partition.
    #[inline]
    pub(crate) fn stays_in_partition(&self) -> bool {
        self.scan.stays_in_partition()
    }

    /// The range.
    pub(crate) fn range(&self) -> &KeyRange {
        self.scan.range()
    }

    /// Moves on to the current View where there is another than the one being read.
    #[inline]
    fn refresh(&mut self) -> Result<()> {
        if self.fetched.get().is_some() {
            self.fetched.take();
        }
        if self.scan.is_at_edge() { self.refresh_at_edge() } else { Ok(()) }
    }

    #[inline(never)]
    fn refresh_at_edge(&mut self) -> Result<()> {
        let tree = &self.pin.inner.tree;
        let views_made = tree.views_made();
        if views_made == self.views_made {
            return Ok(());
        }
        let view = tree.view_full();
        let merge = tree::merge(&view, self.scan.range(), self.zones.as_ref())
            .inspect_err(|error| self.scan.fail(error))?;
        self.scan.go_on_with(merge);
        (self.view, self.views_made) = (view, views_made);
        // What the old View alone still held can be deleted; not by whoever reads.
        if let Some(writer) = &self.pin.inner.writer {
            writer.work.poke();
        }
        Ok(())
    }
}

impl RowCursor for DbCursor {
    #[inline]
    fn next(&mut self) -> Result<bool> {
        self.refresh()?;
        self.scan.next()
    }

    #[inline]
    fn prev(&mut self) -> Result<bool> {
        self.refresh()?;
        self.scan.prev()
    }

    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.refresh()?;
        self.scan.seek(key)
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.scan.key()
    }

    #[inline]
    fn ts(&self) -> CommitTs {
        self.scan.ts()
    }

    fn expires(&self) -> Result<Option<CommitTs>> {
        self.scan.expires()
    }

    fn stop_after(&mut self, hidden: usize) {
        self.scan.stop_after(hidden);
    }

    fn is_ruled_out(&self) -> bool {
        self.scan.is_ruled_out()
    }

    fn pass_over(&mut self, rows_max: usize, unwanted: &mut Unwanted<'_>) -> usize {
        let passed = self.scan.pass_over(rows_max, unwanted);
        if passed > 0 {
            self.fetched.take();
        }
        passed
    }

    fn value(&mut self) -> Result<Bytes> {
        if self.scan.kind() == RowKind::Link {
            return self.fetch().cloned();
        }
        self.scan.value()
    }

    #[inline]
    fn value_ref(&self) -> Result<&[u8]> {
        if let Some(value) = self.scan.plain_value() {
            return Ok(value);
        }
        match self.scan.kind() {
            RowKind::Link => self.fetch().map(|value| &value[..]),
            _ => self.scan.value_ref(),
        }
    }
}
