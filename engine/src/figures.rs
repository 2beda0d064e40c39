//! What a database says of itself in numbers: gathered from the floors that count them.

use crate::commit::pipeline::Pipeline;
use crate::compaction::picker;
use crate::db::Db;
use crate::ids::CommitTs;
use crate::stats::{MemoryStats, MemoryUse, ScrubStats, Stats};
use crate::sync::atomic::Ordering;
use crate::view::View;
use crate::waits::Stalls;

impl Db {
    /// The shape of the tree and what background work has done.
    pub fn stats(&self) -> Stats {
        let tree = &self.inner.tree;
        let (view, counters) = (tree.view(), &tree.counters);
        let levels = view.version.levels.iter().enumerate();
        let pool = &tree.shelf.pool;
        let cache = pool.blocks.counts();
        let blobs = || view.version.blobs.iter();
        let (row_cache_hits, row_cache_misses, row_cache_bytes) = pool.rows.counts();
        let writer = self.inner.writer.as_ref();
        let (pinned_files, pinned_file_bytes) = tree.shelf.left_behind();
        let of_log = |count: fn(&Pipeline) -> u64| writer.map_or(0, |w| count(&w.pipeline));
        Stats {
            levels: levels.map(|(level, files)| (files.len(), view.version.bytes(level))).collect(),
            compaction_debt_bytes: picker::debt_bytes(&view.version, &tree.options),
            blob_files: blobs().count(),
            blob_bytes: blobs().map(|(blob, _)| blob.meta.bytes).sum(),
            blob_live_bytes: blobs().map(|(_, used)| used.bytes).sum(),
            pinned_files,
            pinned_file_bytes,
            memtable_bytes: view.memtables().map(|table| table.bytes()).sum(),
            sealed_memtables: view.sealed.len(),
            snapshots: tree.snapshots.len(),
            erasures: view.version.erasures.len()
                + view.sealed.iter().map(|sealed| sealed.erased.len()).sum::<usize>()
                + view.erased.len(),
            clock_behind_us: of_log(|log| log.visible().0.saturating_sub(log.now().0) / 10),
            commits: of_log(|log| log.commits.get()),
            commit_bytes: of_log(|log| log.commit_bytes.get()),
            log_bytes: of_log(|log| log.log_bytes.load(Ordering::Relaxed)),
            flushes: counters.flushes.get(),
            flushed_bytes: counters.flushed_bytes.get(),
            compactions: counters.compactions.get(),
            compaction_parts: counters.compaction_parts.get(),
            moves: counters.moves.get(),
            compaction_bytes_read: counters.compaction_bytes_read.get(),
            compaction_bytes_written: counters.compaction_bytes_written.get(),
            dropped_files: counters.dropped_files.get(),
            ingested_files: counters.ingested_files.get(),
            ingested_bytes: counters.ingested_bytes.get(),
            stalls: self.stalls(),
            log_syncs: writer.map(|w| w.pipeline.waits.synced.get()).unwrap_or_default(),
            background_errors: counters.background_errors.get(),
            last_background_error: writer.and_then(|w| w.work.last_error()),
            cache_hits: cache.hits,
            cache_misses: cache.misses,
            table_files_opened: pool.opened.get(),
            row_cache_hits,
            row_cache_misses,
            row_cache_bytes,
            memory: self.memory(&view),
            scrub: ScrubStats {
                passes: counters.scrub_passes.get(),
                files: counters.scrub_files.get(),
                bytes: counters.scrub_bytes.get(),
                finds: counters.scrub_finds.get(),
                last_pass: Some(CommitTs(counters.scrub_ended.get())).filter(|at| at.0 > 0),
            },
        }
    }

    /// What each use of memory holds, and what it may hold now.
    fn memory(&self, view: &View) -> MemoryStats {
        let pool = &self.inner.tree.shelf.pool;
        let (budget, taken) = (&pool.budget, pool.taken());
        let (blocks_max, rows_max) = pool.blocks.sizes();
        let log = self.inner.writer.as_ref().map_or(0, |writer| writer.pipeline.buffer_bytes());
        let used = |bytes, bytes_max| MemoryUse { bytes, bytes_max };
        MemoryStats {
            budget: budget.bytes,
            uncounted: budget.uncounted,
            memtables: used(
                view.memtables().map(|table| table.bytes()).sum::<usize>() + pool.spare.bytes(),
                budget.memtables,
            ),
            log: used(log, budget.log),
            work: used(taken.working, budget.work + budget.left(taken.pinned, budget.work)),
            index_and_filters: used(taken.pinned, budget.open),
            blocks: used(pool.blocks.counts().bytes as usize, blocks_max),
            rows: used(pool.rows.counts().2, rows_max),
            pinned: self.inner.tree.bytes_left_behind(),
        }
    }

    fn stalls(&self) -> Stalls {
        let counters = &self.inner.tree.counters;
        let log = self.inner.writer.as_ref().map(|writer| &writer.pipeline.waits);
        Stalls {
            slowed_by_l0: counters.slowed_by_l0.get(),
            slowed_by_memtables: counters.slowed_by_memtables.get(),
            stopped_by_l0: counters.stopped_by_l0.get(),
            stopped_by_memtables: counters.stopped_by_memtables.get(),
            group_full: log.map(|log| log.group_full.get()).unwrap_or_default(),
            log_segment: log.map(|log| log.log_segment.get()).unwrap_or_default(),
            partition: self.inner.latches.waits(),
        }
    }
}
