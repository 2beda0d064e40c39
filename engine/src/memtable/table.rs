//! The memtable: rows in an arena, found by hash and walked in order.

use crate::batch::Commit;
use crate::chunks::SpareChunks;
use crate::cursor::{Cursor, Found};
use crate::ids::{CommitTs, RowKind};
use crate::memtable::api::Memtable;
use crate::memtable::cursor::MemCursor;
use crate::memtable::store::ArenaMemtable;
use std::sync::Arc;

/// Makes an empty memtable, of memory from `spare`, which gets it back.
pub(crate) fn new_memtable(spare: &Arc<SpareChunks>) -> Arc<dyn Memtable> {
    Arc::new(ArenaMemtable::new(Arc::clone(spare)))
}

impl Memtable for ArenaMemtable {
    fn apply(&self, commit: &Commit) -> bool {
        self.apply_commit(commit)
    }

    fn insert(&self, key: &[u8], ts: CommitTs, kind: RowKind, value: &[u8]) {
        self.insert_version(key, ts, kind, value);
    }

    fn get(&self, key: &[u8], row_hash: u64, at: CommitTs) -> Option<Found> {
        self.find(key, row_hash, at)
    }

    fn cursor(self: Arc<Self>) -> Box<dyn Cursor + Send> {
        Box::new(MemCursor::new(self))
    }

    fn bytes(&self) -> usize {
        self.bytes_used()
    }

    fn is_empty(&self) -> bool {
        self.bytes_used() == 0
    }
}
