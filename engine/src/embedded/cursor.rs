//! A cursor that lends its rows: keys and value are borrowed until the next move, and nothing is
//! allocated or copied per row but the end of the RowKey.
//!
//! Absent: rows to keep. [`Scan`](crate::embedded::scan::Scan) gives those, for some 40 ns each.

use crate::embedded::partition::LentKeys;
use crate::error::{Error, Kind, Result};
use crate::ids::CommitTs;
use crate::key::order;
use crate::rows::RowCursor;
use crate::scan::DbCursor;

/// A position among the rows of a range, as of one moment. It begins before the first row and after
/// the last: the first [`next`](Cursor::next) gives the first row, the first
/// [`prev`](Cursor::prev) the last one. Both directions cost about the same in files; backwards,
/// what is still in memory takes longer.
///
/// It reads the moment at which it was opened for as long as it lives, yet a flush or compaction
/// meanwhile makes it go on in the files that are then current: a long scan keeps no replaced file
/// on the disk, provided that it is moved now and then. After an error every move repeats the
/// error.
///
/// ```
/// # fn main() -> tabulith::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let db = tabulith::Db::open(folder.path())?;
/// let orders = db.table("orders")?;
/// orders.partition("tenant-7").batch().insert("0001", "3 apples").insert("0002", "1 pear").commit()?;
///
/// let mut bytes = 0;
/// let mut rows = orders.partition("tenant-7").cursor("0001"..)?;
/// while let Some(row) = rows.next()? {
///     bytes += row.row_key.len() + row.value()?.len();
/// }
/// assert_eq!(bytes, 22);
/// assert_eq!(rows.prev()?.unwrap().row_key, b"0002");
/// # Ok(())
/// # }
/// ```
pub struct Cursor {
    rows: DbCursor,
    keys: LentKeys,
}

/// A row under a [`Cursor`].
#[derive(Clone, Copy)]
pub struct RowRef<'a> {
    /// PartitionKey.
    pub partition_key: &'a [u8],
    /// RowKey.
    pub row_key: &'a [u8],
    /// The commit that wrote it.
    pub ts: CommitTs,
    rows: &'a DbCursor,
}

impl<'a> RowRef<'a> {
    /// Its bytes. Cost: the first value of a block decompresses the block's values, unless the
    /// cache holds them; a walk that never asks never does.
    pub fn value(&self) -> Result<&'a [u8]> {
        self.rows.value_ref()
    }

    /// The time from which on it is gone, as in [`Row::expires`](crate::Row::expires). Cost:
    /// nothing for a row that stays; else what [`RowRef::value`] costs.
    pub fn expires(&self) -> Result<Option<CommitTs>> {
        self.rows.expires()
    }
}

impl std::fmt::Debug for RowRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let RowRef { partition_key, row_key, ts, .. } = self;
        let (partition_key, row_key) = (partition_key.escape_ascii(), row_key.escape_ascii());
        write!(f, "RowRef({partition_key}, {row_key}, {ts})")
    }
}

impl Cursor {
    pub(crate) fn new(rows: DbCursor) -> Cursor {
        Cursor { rows, keys: LentKeys::default() }
    }

    /// Goes to the next row; `None` past the last.
    #[expect(clippy::should_implement_trait, reason = "an Iterator cannot lend")]
    #[inline]
    pub fn next(&mut self) -> Result<Option<RowRef<'_>>> {
        if self.rows.next()? { self.here().map(Some) } else { Ok(None) }
    }

    /// Goes to the row before; `None` before the first.
    #[inline]
    pub fn prev(&mut self) -> Result<Option<RowRef<'_>>> {
        if self.rows.prev()? { self.here().map(Some) } else { Ok(None) }
    }

    /// Goes to the row of these keys or else the first one above them, within the range.
    ///
    /// Cost: one search per sorted run; nearer is no cheaper than farther.
    pub fn seek(
        &mut self,
        pk: impl AsRef<[u8]>,
        rk: impl AsRef<[u8]>,
    ) -> Result<Option<RowRef<'_>>> {
        let table = order::table_of(&self.rows.range().start)
            .ok_or_else(|| Error::new(Kind::Invalid, "a cursor without a table"))?;
        let key = order::row_key(table, pk.as_ref(), rk.as_ref());
        if self.rows.seek(&key)? { self.here().map(Some) } else { Ok(None) }
    }

    #[inline(always)] // Where it was a call, scans took a tenth longer.
    fn here(&mut self) -> Result<RowRef<'_>> {
        let ts = self.rows.ts();
        let (partition_key, row_key) =
            self.keys.split(self.rows.key(), self.rows.stays_in_partition())?;
        Ok(RowRef { partition_key, row_key, ts, rows: &self.rows })
    }
}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cursor").field("range", self.rows.range()).finish_non_exhaustive()
    }
}
