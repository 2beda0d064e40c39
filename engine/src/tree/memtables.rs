//! Memtables of the tree: what is applied goes to the active one, which is sealed when it is full,
//! and a flushed one stays as long as somebody reads it.

use crate::batch::Commit;
use crate::commit::pipeline::{LogPlace, Pipeline};
use crate::erasure::set::Erasures;
use crate::ids::CommitTs;
use crate::limits::LEVELS;
use crate::memtable::api::Memtable;
use crate::memtable::table::new_memtable;
use crate::sstable::format::FileMeta;
use crate::sync::atomic::Ordering::Relaxed;
use crate::tree::base::Tree;
use crate::version::files::LiveFile;
use crate::view::{Sealed, View};
use std::sync::{Arc, Weak};

/// A memtable with as many erasures is full: each one costs as much as there are.
const MEMTABLE_ERASURES_MAX: usize = 1 << 10;

impl Tree {
    /// Applies one commit to the active memtable. The caller holds the commit order.
    pub(crate) fn insert(&self, commit: &Commit) {
        let view = self.view.load();
        let erasures = commit.erasures();
        if !erasures.is_empty() {
            view.erased.add(erasures);
        }
        let whole = view.active.apply(commit);
        debug_assert!(whole, "a batch reads as it was written");
    }

    /// Whether the active memtable is full, or the log that it stands for is long: a commit may
    /// take a block of the log and a few bytes of memory. `log`: where that is now.
    pub(crate) fn wants_seal(&self, log: LogPlace) -> bool {
        let view = self.view.load();
        let log_bytes = log.bytes.saturating_sub(self.active_from.load(Relaxed));
        view.active.bytes() >= self.options.advanced.memtable()
            || view.erased.len() >= MEMTABLE_ERASURES_MAX
            || log_bytes >= self.options.advanced.log_bytes_max()
    }

    /// Whether memtables wait for their flush.
    pub(crate) fn has_sealed(&self) -> bool {
        !self.view.load().sealed.is_empty()
    }

    /// Starts a new memtable, unless there is nothing in the last. The caller holds the commit
    /// order; `last_ts` is the newest commit applied, and every later one goes to a log segment at
    /// or after that of `log`.
    pub(crate) fn seal(&self, last_ts: CommitTs, log: LogPlace) {
        let log_floor = log.segment;
        self.active_from.store(log.bytes, Relaxed);
        let (active, erased) = (new_memtable(&self.shelf.pool.spare), Arc::default());
        self.change_view(|view| {
            if view.is_active_empty() {
                return View::clone(view);
            }
            let (table, list) = (Arc::clone(&view.active), Arc::clone(&view.erased));
            let sealed = Sealed { table, erased: list, last_ts, log_floor };
            let mut all = vec![Arc::new(sealed)];
            all.extend(view.sealed.iter().cloned());
            View {
                active: Arc::clone(&active),
                erased: Arc::clone(&erased),
                sealed: all,
                version: Arc::clone(&view.version),
                edition: view.edition,
            }
        });
    }

    /// The same between two commits. Gives where the log is then.
    pub(crate) fn seal_now(&self, pipeline: &Pipeline) -> LogPlace {
        pipeline.between_commits(|last_ts| {
            let log = pipeline.log_place();
            self.seal(last_ts, log);
            log
        })
    }

    /// Whether what the active memtable erased covers files of at least one full file's bytes
    /// between them, and no memtable waits for its flush. Files that were covered before do not
    /// count: they stay for readers of the past.
    pub(crate) fn erasures_free_files(&self) -> bool {
        let view = self.view.load();
        if view.erased.is_empty() || !view.sealed.is_empty() {
            return false;
        }
        let erased = view.erased.get();
        let fragments = erased.fragments();
        let Some((first, last)) = fragments.first().zip(fragments.last()) else { return false };
        // One drop lies over few of the files that there are.
        let over = |level| view.version.overlapping(level, &first.start, &last.end);
        let is_covered = |file: &Arc<LiveFile>| {
            let FileMeta { smallest, largest, max_ts, .. } = &*file.meta;
            let covers =
                |set: &Erasures| set.all_covered_from(smallest, largest, *max_ts).is_some();
            covers(&erased) && !covers(&view.version.erasures)
        };
        let covered = (0..LEVELS).flat_map(over).filter(is_covered);
        let bytes: u64 = covered.map(|file| file.meta.bytes).sum();
        bytes >= self.options.advanced.file_bytes as u64
    }

    /// Whether the active memtable erased anything.
    pub(crate) fn has_unflushed_erasures(&self) -> bool {
        !self.view.load().erased.is_empty()
    }

    /// Readers ask files in place of `table`, but for those that are at it.
    pub(super) fn leave_behind(&self, table: &Arc<dyn Memtable>) {
        let mut tables = self.left_behind.lock();
        tables.retain(|table| table.strong_count() > 0);
        tables.push(Arc::downgrade(table));
    }

    /// Bytes of the memtables that are there because somebody still reads them.
    pub(crate) fn bytes_left_behind(&self) -> usize {
        // The last to let go of one gives its memory back, and that not under the lock.
        let tables: Vec<_> = self.left_behind.lock().iter().filter_map(Weak::upgrade).collect();
        tables.iter().map(|table| table.bytes()).sum()
    }
}
