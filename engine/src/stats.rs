//! Counters of what the engine did, and the picture of its shape that an operator asks for.

use crate::ids::CommitTs;
use crate::waits::{Histogram, Stalls, Times, WaitCounter};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A number that only grows, counted from many threads.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The sum so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that many threads raise so often that they must not share a cache line for it.
#[derive(Debug, Default)]
pub(crate) struct StripedCounter([Stripe; STRIPES]);

#[derive(Debug, Default)]
#[repr(align(64))]
struct Stripe(AtomicU64);

const STRIPES: usize = 16;

thread_local! {
    static STRIPE: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES
    };
}

impl StripedCounter {
    pub(crate) fn add(&self, n: u64) {
        STRIPE.with(|stripe| self.0[*stripe].0.fetch_add(n, Ordering::Relaxed));
    }

    /// The sum so far.
    pub(crate) fn get(&self) -> u64 {
        self.0.iter().map(|stripe| stripe.0.load(Ordering::Relaxed)).sum()
    }
}

/// A number that is set now and then.
#[derive(Debug, Default)]
pub(crate) struct Gauge(AtomicU64);

impl Gauge {
    pub(crate) fn store(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What the commit pipeline waited for.
#[derive(Debug, Default)]
pub(crate) struct PipelineWaits {
    pub(crate) group_full: WaitCounter,
    pub(crate) log_segment: WaitCounter,
    pub(crate) synced: Histogram,
}

/// What the background work has done since the database was opened.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) flushes: Counter,
    pub(crate) flushed_bytes: Counter,
    pub(crate) compactions: Counter,
    pub(crate) compaction_parts: Counter,
    pub(crate) moves: Counter,
    pub(crate) compaction_bytes_read: Counter,
    pub(crate) compaction_bytes_written: Counter,
    pub(crate) dropped_files: Counter,
    pub(crate) ingested_files: Counter,
    pub(crate) ingested_bytes: Counter,
    pub(crate) slowed_by_l0: WaitCounter,
    pub(crate) slowed_by_memtables: WaitCounter,
    pub(crate) stopped_by_l0: WaitCounter,
    pub(crate) stopped_by_memtables: WaitCounter,
    pub(crate) background_errors: Counter,
    pub(crate) scrub_passes: Counter,
    pub(crate) scrub_files: Counter,
    pub(crate) scrub_bytes: Counter,
    pub(crate) scrub_finds: Counter,
    pub(crate) scrub_ended: Gauge,
}

/// The shape of a database and what its background work has done since it was opened.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Files and their bytes, by level, L0 first.
    pub levels: Vec<(usize, u64)>,
    /// Bytes that have to go down a level before every level is within its target.
    pub compaction_debt_bytes: u64,
    /// Blob files, which hold large values.
    pub blob_files: usize,
    /// Their bytes.
    pub blob_bytes: u64,
    /// Bytes of them that rows refer to; the rest is reclaimed by compaction.
    pub blob_live_bytes: u64,
    /// Files that are on the disk only because somebody still reads them, such as a cursor that
    /// nobody has moved since they were merged. It lets go of them when it comes to another block,
    /// or is dropped.
    pub pinned_files: usize,
    /// Their bytes.
    pub pinned_file_bytes: u64,
    /// Bytes in memtables, sealed ones included.
    pub memtable_bytes: usize,
    /// Memtables that wait for their flush.
    pub sealed_memtables: usize,
    /// Live snapshots.
    pub snapshots: usize,
    /// Ranges that were deleted by one record each and still hide rows.
    pub erasures: usize,
    /// How far the wall clock is behind the newest commit or the last opening, whichever came
    /// later, in microseconds. Commits go on by their own count meanwhile; an opening after a crash
    /// is a second ahead by itself. 0 where the database is open for reading only.
    pub clock_behind_us: u64,
    /// Commits that got a place in the order, those that make, change and drop tables among them;
    /// ingests are none. Counted before they are written, so also where the log then failed. 0, as
    /// the next two, where the database is open for reading only.
    pub commits: u64,
    /// Their bytes: keys, values, and what is to happen to each row.
    pub commit_bytes: u64,
    /// Bytes of the log's frames and what fills their blocks; not the zeros that new segments are
    /// made of, which are written once where syncs are many.
    pub log_bytes: u64,
    /// Memtables written to L0.
    pub flushes: u64,
    /// Bytes of the files that flushes wrote.
    pub flushed_bytes: u64,
    /// Merges done.
    pub compactions: u64,
    /// Parts that these were done in: more where some were divided among
    /// [`threads`](crate::Options::threads).
    pub compaction_parts: u64,
    /// Files moved down a level as they were.
    pub moves: u64,
    /// Bytes of the files that merges read.
    pub compaction_bytes_read: u64,
    /// Bytes of the files that merges wrote.
    pub compaction_bytes_written: u64,
    /// Files dropped whole and unread, as no reader could find a row of them.
    pub dropped_files: u64,
    /// Files that ingests added.
    pub ingested_files: u64,
    /// Their bytes.
    pub ingested_bytes: u64,
    /// Why and for how long commits waited.
    pub stalls: Stalls,
    /// How long groups of commits took from their write to the end of the sync that made them
    /// durable.
    pub log_syncs: Times,
    /// Background jobs that failed; they are tried again, or gone round where a file cannot be
    /// read.
    pub background_errors: u64,
    /// What the last failed job said, until one of its kind succeeds; and for as long as merges go
    /// round a file or wait for room on the disk, why.
    pub last_background_error: Option<String>,
    /// Reads of blocks, or of values of blob files, that were in the cache.
    pub cache_hits: u64,
    /// Reads of those that were not.
    pub cache_misses: u64,
    /// Times that a table file's index and filters were read: once a file, and more often where
    /// memory has no room for those of all files.
    pub table_files_opened: u64,
    /// Point reads answered by the cache of rows.
    pub row_cache_hits: u64,
    /// Point reads that found their row in the files instead. Absent rows count as neither.
    pub row_cache_misses: u64,
    /// Bytes that the cache of rows takes now.
    pub row_cache_bytes: usize,
    /// Who has which part of the memory.
    pub memory: MemoryStats,
    /// How far the scrub is that looks for damage.
    pub scrub: ScrubStats,
}

impl Stats {
    /// Bytes written for each byte committed or ingested, by the log, flushes, merges and ingests,
    /// since the database was opened; `None` where nothing came. Rows that an opening has brought
    /// from the log to files count as written and not as committed.
    pub fn write_amplification(&self) -> Option<f64> {
        let given = self.commit_bytes + self.ingested_bytes;
        let files = self.flushed_bytes + self.compaction_bytes_written + self.ingested_bytes;
        (given > 0).then(|| (self.log_bytes + files) as f64 / given as f64)
    }
}

/// What the scrub has done since the database was opened: it reads every byte of every live file
/// within [`Advanced::scrub_period_s`](crate::Advanced::scrub_period_s).
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubStats {
    /// Times that it went through all files.
    pub passes: u64,
    /// Table files and blob files read to their end.
    pub files: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Damage found; what stays is found again by each pass.
    pub finds: u64,
    /// When the last pass ended, by the wall clock; none yet where it is `None`.
    pub last_pass: Option<CommitTs>,
}

/// Who has which part of the memory that [`Options::memory`](crate::Options::memory) allows.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Bytes for all together.
    pub budget: usize,
    /// Of these, set aside for what no use below counts: what the allocator keeps, stacks, the
    /// program's own pages.
    pub uncounted: usize,
    /// Memtables, sealed ones included. Commits wait before they would take more.
    pub memtables: MemoryUse,
    /// Buffers of commits on their way to the log.
    pub log: MemoryUse,
    /// Buffers of flush, merge, ingest and long scans, as these reserve them. What they need beyond
    /// their share the caches give, all that they have.
    pub work: MemoryUse,
    /// Index and filters of open table files, and zones of those that were scanned with a filter.
    /// The caches give way to them.
    pub index_and_filters: MemoryUse,
    /// The cache of decompressed blocks and large values.
    pub blocks: MemoryUse,
    /// The cache of single rows, which takes of the room for blocks as rows are read.
    pub rows: MemoryUse,
    /// Bytes of memtables that are in files by now and that somebody still reads, such as a cursor
    /// that nobody has moved since. Beyond the budget: they go as pinned files do.
    pub pinned: usize,
}

/// What one use of memory has.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Bytes held now.
    pub bytes: usize,
    /// Bytes that it may hold now within the budget.
    pub bytes_max: usize,
}

impl MemoryStats {
    /// Bytes held now by all uses together, without what is pinned.
    pub fn bytes(&self) -> usize {
        let MemoryStats { memtables, log, work, index_and_filters, .. } = self;
        let all = [memtables, log, work, index_and_filters, &self.blocks, &self.rows];
        all.iter().map(|used| used.bytes).sum()
    }
}

/// What opening a database found.
#[non_exhaustive]
#[derive(Clone, Debug, Default)]
pub struct Recovery {
    /// How many times the manifest had been written anew.
    pub manifest_generation: u64,
    /// Edits read from it.
    pub manifest_edits: u64,
    /// Damage in one copy of the metadata that the other copy made up for; put right by now, unless
    /// the database was opened read-only.
    pub repairs: Vec<String>,
    /// Groups of commits replayed from the log.
    pub log_groups: u64,
    /// Bytes at the log's end that a crash cut short; no acknowledged commit was in them.
    pub tail_discarded_bytes: u64,
}
