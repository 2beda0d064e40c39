//! All settings of all engines in one place, and what each of them promises, in words that the
//! report prints.
//!
//! Where an engine has the setting it is the same for all: one budget for its cache, memtables of
//! one size, blocks of 4 KiB, filters of 10 bits per row in the deepest level (above it: ours 14,
//! fjall 19 in L0). Of memtables that wait for a flush none has fewer than ours where it lets them
//! be set; L1 of the LSMs is of four memtables. Ours flushes by two threads, merges by one and has
//! one that helps both; RocksDB flushes by one and merges by three, fjall has two for both. The
//! rest is as the engine's own documentation advises; `describe` says which advice.

use crate::engine::Promise;

/// Cache of every engine that has one, unless `--cache-mib` says otherwise.
pub const CACHE_BYTES: usize = 256 << 20;

/// How many times that cache `ours-large` has: its process then takes as much memory as LMDB's,
/// whose cache is the page cache, does on the data of W6 to W9, and up to a third more.
pub const LARGE_CACHE_TIMES: usize = 5;

/// Memtable of every engine that has one.
pub const MEMTABLE_BYTES: usize = 64 << 20;

/// Data block of every engine that has one.
pub const BLOCK_BYTES: usize = 4 << 10;

/// Bits per row of every filter in the deepest level. Ours has four more above it, fjall one false
/// hit in 10,000 in L0, each by its own defaults.
pub const FILTER_BITS: u32 = 10;

/// Threads of one merge of ours, subcompactions of RocksDB, and workers of fjall, whose own default
/// that is on two cores.
pub const MERGE_THREADS: usize = 2;

/// RocksDB's background jobs: it keeps one for flushes, and merges with the others. Ours has two
/// threads for flushes, one for merges, and one that helps both.
pub const ROCKSDB_JOBS: i32 = 4;

/// Memtables of RocksDB, the one that is written and those that wait to be flushed; as ours.
pub const ROCKSDB_MEMTABLES: i32 = 4;

/// Memtables of SurrealKV that wait to be flushed, at most; as ours.
pub const SURREALKV_SEALED: usize = 3;

/// Memtables that L1 of an LSM holds: as large as L0 is when it is merged, as RocksDB's guide to
/// tuning has it, and as ours is by itself.
const LEVEL_BASE_MEMTABLES: usize = 4;

/// Values from here on are kept apart from their keys where an engine can do that and is told to
/// ([`Settings::large_values`]).
pub const LARGE_VALUE_BYTES: usize = 4 << 10;

/// Address space of LMDB's map; the file takes only what is used.
pub const LMDB_MAP_BYTES: usize = 64 << 30;

/// Unsynced commits of redb after which one is synced: without that it never reuses a page.
pub const REDB_SYNC_EVERY: u64 = 1000;

/// zstd level of sled, which has no other compression; its fastest.
pub const SLED_ZSTD_LEVEL: i32 = 1;

/// How one database is opened.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What its commits promise.
    pub promise: Promise,
    /// Bytes of its cache.
    pub cache_bytes: usize,
    /// Bytes of a memtable.
    pub memtable_bytes: usize,
    /// Whether values are of [`LARGE_VALUE_BYTES`] and more.
    pub large_values: bool,
    /// Whether rows are revised under a condition: some engines must be opened differently for it.
    pub conditional: bool,
    /// Whether the table will be dropped: RocksDB needs a column family for it.
    pub droppable: bool,
}

impl Settings {
    /// For commits of `promise`; everything else as usual.
    pub fn new(promise: Promise, cache_bytes: usize) -> Settings {
        Settings {
            promise,
            cache_bytes,
            memtable_bytes: MEMTABLE_BYTES,
            large_values: false,
            conditional: false,
            droppable: false,
        }
    }

    /// Bytes of L1 of an LSM: with memtables of 64 MiB the 256 MiB that are the default of each.
    pub fn level_base_bytes(&self) -> u64 {
        (LEVEL_BASE_MEMTABLES * self.memtable_bytes) as u64
    }
}

/// All engines in the order of the report's columns. Those that begin with `ours` are Tabulith.
const ENGINES: [&str; 14] = [
    "ours",
    "ours-raw",
    "ours-mapped",
    "ours-large",
    "rocksdb",
    "rocksdb-raw",
    "fjall",
    "fjall-raw",
    "surrealkv",
    "redb",
    "lmdb",
    "sled",
    "skiplist",
    "btreemap",
];

/// The engines that this program was built with.
pub fn engines() -> Vec<&'static str> {
    let built = |name: &&str| cfg!(feature = "rocksdb") || !name.starts_with("rocksdb");
    ENGINES.into_iter().filter(built).collect()
}

/// Engines that keep nothing: ceilings, no peers.
pub fn is_ceiling(engine: &str) -> bool {
    matches!(engine, "skiplist" | "btreemap")
}

/// Engines that are compared with the others only where their difference shows.
pub fn is_variant(engine: &str) -> bool {
    engine.ends_with("-raw") || matches!(engine, "ours-mapped" | "ours-large")
}

/// What compresses an engine's values.
pub fn compression_of(engine: &str) -> &'static str {
    match engine {
        "ours" | "ours-large" | "rocksdb" | "fjall" => "LZ4",
        "surrealkv" => "Snappy",
        "sled" => "zstd -1",
        _ => "none",
    }
}

/// What an engine's unsynced commits survive. Its durable ones survive the loss of power.
pub fn promise_of(engine: &str) -> &'static str {
    match engine {
        "ours" | "ours-raw" | "ours-mapped" | "ours-large" => {
            "`Flushed`: handed to the kernel, in order; survive kill -9"
        }
        "rocksdb" | "rocksdb-raw" => {
            "`sync = false`: handed to the kernel, in order; survive kill -9"
        }
        "fjall" | "fjall-raw" => {
            "`PersistMode::Buffer`: handed to the kernel, in order; survive kill -9"
        }
        "surrealkv" => "`Durability::Eventual`: handed to the kernel, in order; survive kill -9",
        "redb" => "`Durability::None`, every 1000th commit synced: the others are lost at kill -9",
        "lmdb" => {
            "`WRITE_MAP` + `NO_SYNC`: survive kill -9; a crash of the system can ruin the whole file"
        }
        "sled" => "flushed every 200 ms: up to that much is lost at kill -9",
        _ => "nothing is kept",
    }
}

/// What an engine is set to beyond what is the same for all.
pub fn describe(engine: &str) -> &'static str {
    match engine {
        "ours" => {
            "defaults of `Options`, up to two threads for a merge: a thread for the log, two for flushes, one for \
             merges, one that helps flushes, merges and long scans, one for the scrub; up to four memtables; `block_cache_bytes` is the budget of all, index and filters lie outside of \
             it; filters of 14 bits above the deepest level; settled: what was deleted is merged away too, \
             where more than 1 % of a file is"
        }
        "ours-raw" => "as `ours`, uncompressed",
        "ours-mapped" => "as `ours`, uncompressed, `advanced.mapped`",
        "ours-large" => {
            "as `ours`, with five times the cache: as much memory as LMDB takes, up to a third more"
        }
        "rocksdb" | "rocksdb-raw" => {
            "wiki, Setup Options and Basic Tuning: 4 background jobs, merges in up to 2 parts, up to four \
             memtables, L1 of four memtables, log files used again where commits are durable, dynamic level bytes, bytes_per_sync 1 MiB, index and \
             filters in the cache with those of L0 pinned, format_version 6, HyperClockCache, filters \
             optimized for memory; LZ4 on all levels (`-raw`: none); BlobDB for large values, its cache \
             is that of the blocks; OptimisticTransactionDB for W17"
        }
        "fjall" | "fjall-raw" => {
            "defaults (4 KiB blocks, filters of one false hit in 10,000 in L0 and of 10 bits below, LZ4 from L2 on unless set: here on \
             all levels; `-raw`: none), 2 workers, L1 of four memtables, no setting for how many wait; KV separation for large values; OptimisticTxDatabase for W17"
        }
        "surrealkv" => {
            "4 KiB blocks, filters of 10 bits (its default), up to four memtables, L1 of as many, threads for flushes and merges as \
             it starts them, WAL preallocation on, Snappy on all levels (it has no LZ4); value log, which \
             does not compress, for large values; `block_on(commit)` per operation, so an async caller may do better; settled = no CPU time \
             used for 100 ms"
        }
        "redb" => {
            "cache_size as the budget; no compression; a read transaction for each read, which sees what \
             was committed before it, as every read of the others does"
        }
        "lmdb" => {
            "its cache is the page cache, outside the budget; MDB_APPEND for \
             ingest; no compression; a read transaction for each read, as redb"
        }
        "sled" => {
            "leaf fanout 1024 (default), cache as the budget, zstd level 1; settled as surrealkv"
        }
        "skiplist" => {
            "crossbeam-skiplist in memory, a lock around each value; batches are not atomic"
        }
        "btreemap" => "`BTreeMap` in memory behind an `RwLock`",
        _ => "",
    }
}
