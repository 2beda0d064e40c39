//! What this project wants to reach: how many times as fast as which peers, line by line, and
//! within which limits.

/// Peers that ours is held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Against {
    /// All of them.
    Best,
    /// RocksDB, fjall and SurrealKV, which are log-structured as ours is.
    LogStructured,
    /// One.
    One(&'static str),
}

impl Against {
    /// Whether `engine`, which is a peer, is one of them.
    pub fn holds(self, engine: &str) -> bool {
        match self {
            Against::Best => true,
            Against::LogStructured => matches!(engine, "rocksdb" | "fjall" | "surrealkv"),
            Against::One(name) => engine == name,
        }
    }

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Against::Best => "the best peer",
            Against::LogStructured => "the best LSM peer",
            Against::One(name) => name,
        }
    }
}

/// A line, the least ratio, and against whom.
pub type Goal = (&'static str, f64, Against);

const BEST: Against = Against::Best;
const LSM: Against = Against::LogStructured;
const LMDB: Against = Against::One("lmdb");

/// Goals of ours reading in place, against those that do so as well.
pub const GOALS_MAPPED: &[Goal] = &[
    ("W6 get, 4.3x the cache, threads: 1", 1.1, LMDB),
    ("W7 seek and 50 rows, threads: 1", 1.1, LMDB),
    ("W8 full scan", 1.0, LMDB),
    ("W9 scan of a partition of 1,000", 1.1, LMDB),
    ("W10 YCSB E, threads: 2", 1.0, LMDB),
];

/// All goals of ours with its defaults, in the order of the report.
pub const GOALS: &[Goal] = &[
    ("W1 sequential load, ingest, settled", 2.0, BEST),
    ("W1 sequential load, commits of 1,000, settled", 1.3, BEST),
    ("W2 random fill, commits of 1, settled", 2.0, LMDB),
    ("W2 random fill, commits of 1, settled", 3.0, Against::One("rocksdb")),
    ("W3 durable commits of 1, writers: 1", 1.3, BEST),
    ("W4 durable commits of 1, writers: 8", 1.6, BEST),
    ("W4 durable commits of 1, writers: 32", 2.0, BEST),
    ("W4 durable commits of 1, in flight from one thread: 32", 3.0, BEST),
    ("W5 durable commits of 100, writers: 1", 2.2, BEST),
    ("W5 durable commits of 100, writers: 8", 2.5, BEST),
    ("W6 get, in cache, threads: 1", 1.3, LMDB),
    ("W6 get, in cache, absent, threads: 1", 3.0, BEST),
    ("W6 get, 4.3x the cache, threads: 1", 3.0, LSM),
    ("W6 get, 4.3x the cache, zipfian, threads: 1", 1.5, LMDB),
    ("W6 get, 4.3x the cache, absent, threads: 1", 3.0, BEST),
    ("W7 seek and 50 rows, threads: 1", 5.0, LSM),
    ("W8 full scan", 2.0, LSM),
    ("W9 scan of a partition of 1,000", 3.0, LSM),
    ("W10 YCSB A, threads: 2", 2.0, LMDB),
    ("W10 YCSB A, threads: 2", 1.0, Against::One("sled")),
    ("W10 YCSB B, threads: 2", 1.5, LMDB),
    ("W10 YCSB C, threads: 2", 1.3, LMDB),
    ("W10 YCSB D, threads: 2", 1.5, LMDB),
    ("W10 YCSB F, threads: 2", 2.0, LMDB),
    ("W10 YCSB E, threads: 2", 5.0, LSM),
    ("W11 delete 90 %, commits of 90", 1.5, BEST),
    ("W11 scan after the deletes", 30.0, LSM),
    ("W12 overwrite 8 times, commits of 100, settled", 1.2, LMDB),
    ("W12 overwrite 8 times, commits of 100, settled", 2.5, LSM),
    ("W13 put 64 KiB, settled", 1.4, BEST),
    ("W13 put 512 KiB, settled", 0.9, BEST),
    ("W13 get 64 KiB", 0.9, LMDB),
    ("W13 get 512 KiB", 0.9, LMDB),
    ("W14 open after kill -9, and one get", 2.0, Against::One("surrealkv")),
    ("W15 filter 1 % of rows, together in each partition", 5.0, BEST),
    ("W17 conditional updates, threads: 1", 3.0, BEST),
    ("W17 conditional updates, threads: 8", 3.0, BEST),
];

/// A limit of something else that belongs to a line of ours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// The line itself, in its unit, is at most that.
    Value(f64),
    /// The line itself is at least this share of the line of ours with that name.
    ShareOf(f64, &'static str),
    /// Processor time per operation, all threads, in microseconds.
    CpuUs(f64),
    /// Bytes on the disk per byte of live keys and values.
    DiskPerByte(f64),
    /// Bytes written per byte given: no more than that peer does.
    WrittenAsBy(&'static str),
    /// The longest call, in milliseconds.
    LongestMs(f64),
    /// What 999 of 1,000 calls stay within, in milliseconds.
    P999Ms(f64),
}

/// All limits of ours with its defaults, in the order of the report.
pub const LIMITS: &[(&str, Limit)] = &[
    ("W2 random fill, commits of 1, settled", Limit::WrittenAsBy("rocksdb")),
    ("W2 random fill, commits of 1, 1 KiB, settled", Limit::WrittenAsBy("rocksdb")),
    ("W2 random fill at 80 % of that", Limit::LongestMs(50.0)),
    ("W2 random fill at 80 % of that", Limit::P999Ms(50.0)),
    (
        "W3 durable commits of 1, writers: 1",
        Limit::ShareOf(0.85, "W3 the disk alone: 4 KiB overwritten and synced"),
    ),
    ("W4 durable commits of 1, writers: 8", Limit::CpuUs(8.0)),
    ("W4 durable commits of 1, writers: 32", Limit::CpuUs(8.0)),
    ("W11 scan after settling", Limit::DiskPerByte(1.2)),
    ("W12 overwrite 8 times, commits of 100, settled", Limit::DiskPerByte(1.15)),
    ("W14 open after kill -9, and one get", Limit::Value(100.0)),
    ("W16 drop a partition of 10^6 rows", Limit::Value(1.0)),
    ("W16 drop a partition of 10^6 rows", Limit::DiskPerByte(0.05)),
    ("W16 drop a table of 10^6 rows", Limit::Value(1.0)),
    ("W16 drop a table of 10^6 rows", Limit::DiskPerByte(0.05)),
];
