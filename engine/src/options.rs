//! Settings of a database: plain values with units, defaults and ranges.

use crate::compress::Codec;
use crate::error::{Error, Result};
use crate::limits::VALUE_BYTES_MAX;
use std::time::Duration;

/// How safe a commit is when it is acknowledged, and from when a reader may see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// Kept in the process and written within [`Advanced::buffered_flush_ms`]; a crash of the
    /// process loses at most that much, always the latest commits.
    Buffered,
    /// Handed to the operating system: survives the process, not the power.
    Flushed,
    /// Synced to the disk: survives both. The default.
    Synced,
}

/// More bits per row than this gain nothing: a probe looks at 7 at most.
const FILTER_BITS_MAX: u32 = 20;

/// Filter bits per row that files have on top where deeper ones lie below them.
const UPPER_FILTER_BITS_MORE: u32 = 4;

/// How many times a memtable, or a segment of the log where that is larger, the log may be that a
/// memtable stands for.
const LOG_TIMES_MAX: u64 = 4;

/// Where a read may look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Memory and disk.
    Disk,
    /// Memory only: [`Kind::WouldBlock`](crate::error::Kind::WouldBlock) where the disk is needed.
    Memory,
}

/// Settings of a database. The defaults suit a server with a few GiB of memory.
///
/// Any minor version may add some: they are written as what is to be changed of the default,
/// `Options { memory, ..Options::default() }`, and so is [`Advanced`].
///
/// What most users decide stands here; what few need to touch is in [`Advanced`].
#[derive(Clone, Debug)]
pub struct Options {
    /// How safe a commit is when it is acknowledged; one commit may ask for less.
    ///
    /// Default [`Durability::Synced`].
    pub durability: Durability,

    /// How far back the database can be read as of: [`Db::snapshot_at`](crate::Db::snapshot_at).
    /// What was deleted or dropped takes space for as long, and a little longer; what was replaced
    /// until the next merge of its place after that, or [`Db::compact`](crate::Db::compact).
    ///
    /// Default: as it was when the database was last opened for writing, so that a program that
    /// knows nothing of it takes nothing away; in a new one 0, where outdated versions go with the
    /// next compaction that meets them.
    pub history: Option<Duration>,

    /// Bytes of memory for all that the database holds: memtables, buffers of the log and of
    /// background work, index and filters of open files, caches. The caches give way to the rest;
    /// [`Stats::memory`](crate::stats::Stats::memory) shows who has what. Index and filters are
    /// about 1 % of the rows: with less than a fiftieth of the rows' bytes, reads of some files
    /// read those again, see [`Advanced::index_and_filter_bytes`]. Values that the caller holds,
    /// memtables and files that an open cursor reads, and what the allocator keeps come on top:
    /// the bound is on what is counted. Whole processes were measured to stay within 110 % of it.
    ///
    /// Default `None`: a quarter of the memory that this process may use; at least 128 MiB, or
    /// a third of that memory where this is less; more where settings of [`Advanced`] ask for more.
    /// 32 MiB to 1 TiB.
    pub memory: Option<usize>,

    /// Threads that a merge of table files may use at once. A merge has one of its own; it is
    /// divided among more where commits would soon be slowed because merges are behind, and where
    /// somebody waits for it: [`Db::compact`](crate::Db::compact),
    /// [`Db::settle`](crate::Db::settle). Flushes have two threads besides, the log one, and so
    /// have errands (blocks that long scans and writers of files will need), and the scrub where
    /// it is on. Merges, flushes and the scrub stand back behind those that commit.
    ///
    /// Default `None`: as many as there are processors, at most 8. 1 to 64.
    pub threads: Option<usize>,

    /// Whether a database is made where there is none. Default true.
    pub create_if_missing: bool,

    /// Whether writes and every change on disk are refused. Default false.
    pub read_only: bool,

    /// Settings with a reasoned default that few need to change.
    pub advanced: Advanced,
}

/// Settings with a reasoned default each. They change speed and space, never what is promised, but
/// for three: [`Advanced::mapped`] has dangers, without [`Advanced::scrub_period_s`] damage is
/// found when somebody reads it, and the longer [`Advanced::buffered_flush_ms`] is, the more of
/// what was [`Durability::Buffered`] goes with the process.
#[derive(Clone, Debug)]
pub struct Advanced {
    /// Longest time a [`Durability::Buffered`] commit stays in the process, in milliseconds; where
    /// the log is being synced meanwhile, until that has ended.
    ///
    /// Default 5; 1 to 10,000.
    pub buffered_flush_ms: u64,

    /// Bytes held in memory before a flush.
    ///
    /// More: fewer, larger L0 files and a longer recovery. Default `None`: as [`Options::memory`]
    /// allows, up to 64 MiB. 4 KiB to 1 GiB.
    pub memtable_bytes: Option<usize>,

    /// Bytes of one log segment; made ahead at its full length, then reused.
    ///
    /// More: rarer changes of segment, more disk held. Default 64 MiB; 16 KiB to 1 GiB.
    pub wal_segment_bytes: usize,

    /// Raw bytes of one data block.
    ///
    /// Less: faster point reads from disk and a larger index. Default 4 KiB; 256 B to 64 KiB.
    pub block_bytes: usize,

    /// Bytes of one table file made by compaction. Default 32 MiB; 4 KiB to 1 GiB.
    pub file_bytes: usize,

    /// Bytes of L1 at most; each deeper level holds [`Advanced::level_fanout`] times as many. L1 is
    /// smaller where memtables are: as large as those of the L0 files that are merged into it at
    /// once, and one file at least, since each such merge may write all of L1 anew.
    ///
    /// Default 256 MiB; 4 KiB to 64 GiB.
    pub level_base_bytes: u64,

    /// How many times larger each level is than the one above. Default 10; 2 to 100.
    pub level_fanout: u64,

    /// L0 files at which compaction starts. Default 4; 1 to 64.
    pub l0_compact_files: usize,

    /// L0 files over one key at which writes begin to be delayed. Default 12; above
    /// `l0_compact_files`.
    pub l0_slow_files: usize,

    /// L0 files over one key at which writes wait. Default 24; above `l0_slow_files`.
    pub l0_stop_files: usize,

    /// Sealed memtables that may wait for their flush before writes wait. Default 3; 1 to 16.
    pub sealed_memtables_max: usize,

    /// Bytes of the caches of what was read from files: decompressed blocks and large values, and
    /// rows that were read singly, which take up to half of it (of a `mapped` database three
    /// quarters) as they come. 0 reads every block from its file.
    ///
    /// Default `None`: what [`Options::memory`] leaves.
    pub block_cache_bytes: Option<usize>,

    /// Bytes of the index and the filters of open table files, which are about 1 % of the data. Two
    /// thirds are for files that stay open; the other third is a cache for the rest, of which a
    /// file that does not fit is read again, some half a MiB, at each use. Zones, and sums that
    /// counts are made from, are kept of files that stay open, as long as there is room. 0 reads
    /// all of it at each use.
    ///
    /// Default `None`: three quarters of what [`Options::memory`] leaves beside the shares of
    /// writers; the caches give way to them.
    pub index_and_filter_bytes: Option<usize>,

    /// Table files that stay open, as long as there is room for their index and filters; and of
    /// files of large values half as many. Of table files as many again, and of the others a fourth
    /// of those, 64 at most of either, are opened for a while. Those that are written, and the
    /// log's, come on top.
    ///
    /// Default `None`: a third of what the process may have open when it opens the database.
    pub open_files_max: Option<usize>,

    /// Bits per row of the filters that spare a read of files without the key, in the deepest
    /// files; those with deeper ones below them hold few of the rows and are asked first, so they
    /// have four more. 0 leaves the filters out.
    ///
    /// Default 10; 0 to 20.
    pub filter_bits: u32,

    /// How values are compressed, where that saves an eighth. Default [`Compression::LZ4`].
    pub compression: Compression,

    /// Whether table files are read in place, through a mapping of them, instead of by reads into
    /// the cache; and blob files, as far as their values are not compressed. For data that fits in
    /// memory: a read costs no copy, no call and no room in the cache, and pages go when the system
    /// wants them for others. Table files are then written uncompressed, in spite of
    /// [`Advanced::compression`]; compressed ones from before are read through the cache as ever.
    /// Systems without mappings read as if this were off. Default false.
    ///
    /// Dangers. Where the disk fails under a read, or something outside this engine cuts or
    /// overwrites such a file, the process ends with SIGBUS or reads wrong rows, instead of an
    /// error: the checksum of a block or value is verified at its first use after the file was
    /// opened, and trusted from then on. A read from the disk stops its thread without a call that
    /// could be seen, so [`Reach::Memory`] is only a guess: blocks used before pass for being in
    /// memory. A value that is kept holds its whole file, though the file was deleted since.
    pub mapped: bool,

    /// Bytes of a value from which it is kept in a blob file instead of beside its key: written
    /// once or twice instead of once per level, and read past in scans that do not ask for it. 0
    /// keeps all values beside their keys. Default 4 KiB; 0 to 64 MiB.
    pub blob_bytes_min: usize,

    /// Bytes at which a blob file ends and the next begins. Default 64 MiB; 4 KiB to 1 GiB.
    pub blob_file_bytes: usize,

    /// Share of a blob file that nothing refers to any more, in percent, from which what is left of
    /// it is written anew. Settled blob files take less than `1 / (1 - share)` of their live
    /// values.
    ///
    /// Less: less space, more writing. Default 50; 5 to 95.
    pub blob_dead_percent: u32,

    /// Seconds after which what was deleted is removed from files, however little space that frees;
    /// where it is much, it does not wait. Counts once the delete is in a file; a snapshot that
    /// still reads the rows holds them longer.
    ///
    /// Less: more rewriting. Default 86,400, a day; 1 to 1,000,000,000.
    pub delete_age_max_s: u64,

    /// Seconds within which the scrub reads every byte of every live file once, a little at a time
    /// and behind all other work, and tells of damage before somebody needs what is damaged
    /// ([`Event::DamageFound`](crate::Event::DamageFound),
    /// [`stats::Stats::scrub`](crate::stats::Stats::scrub)). It never reads more than 64 MiB/s:
    /// where there is more than half of what that gives in a period, some bytes wait longer. 0
    /// turns it off.
    ///
    /// Default 86,400, a day; 0 to 1,000,000,000.
    pub scrub_period_s: u64,
}

/// How values are compressed, by where their file stands in the tree.
///
/// Counts for what is written from now on: a database may hold values of all codecs. Files that
/// move down or are ingested stay as they are until they are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression {
    /// In files with deeper levels below them, which are soon written again, and for the large
    /// values of blob files, which are not.
    pub upper: Codec,
    /// In files that a merge writes with nothing below them: most rows, and those read least.
    pub bottom: Codec,
}

impl Compression {
    /// None.
    pub const NONE: Compression = Compression { upper: Codec::None, bottom: Codec::None };
    /// LZ4 everywhere.
    pub const LZ4: Compression = Compression { upper: Codec::Lz4, bottom: Codec::Lz4 };
}

impl Default for Options {
    fn default() -> Options {
        Options {
            durability: Durability::Synced,
            history: None,
            memory: None,
            threads: None,
            create_if_missing: true,
            read_only: false,
            advanced: Advanced::default(),
        }
    }
}

impl Default for Advanced {
    fn default() -> Advanced {
        Advanced {
            buffered_flush_ms: 5,
            memtable_bytes: None,
            wal_segment_bytes: 64 << 20,
            block_bytes: 4 << 10,
            file_bytes: 32 << 20,
            level_base_bytes: 256 << 20,
            level_fanout: 10,
            l0_compact_files: 4,
            l0_slow_files: 12,
            l0_stop_files: 24,
            sealed_memtables_max: 3,
            block_cache_bytes: None,
            index_and_filter_bytes: None,
            open_files_max: None,
            filter_bits: 10,
            compression: Compression::LZ4,
            mapped: false,
            blob_bytes_min: 4 << 10,
            blob_file_bytes: 64 << 20,
            blob_dead_percent: 50,
            delete_age_max_s: 24 * 60 * 60,
            scrub_period_s: 24 * 60 * 60,
        }
    }
}

impl Options {
    /// The settings if each is in its range; otherwise an error that names the first that is not.
    pub fn validated(self) -> Result<Options> {
        if let Some(memory) = self.memory {
            check("memory", memory as u64, 32 << 20, 1 << 40)?;
        }
        if let Some(threads) = self.threads {
            check("threads", threads as u64, 1, 64)?;
        }
        self.advanced.check()?;
        Ok(self)
    }
}

impl Advanced {
    /// How table files are compressed: not at all where they are to be read in place.
    pub(crate) fn table_codecs(&self) -> Compression {
        if self.mapped { Compression::NONE } else { self.compression }
    }

    /// Filter bits per row of files with deeper ones below them: at 14 about 1 absent key in 250
    /// passes, at 10 one in 80.
    pub(crate) fn upper_filter_bits(&self) -> u32 {
        match self.filter_bits {
            0 => 0,
            bits => (bits + UPPER_FILTER_BITS_MORE).min(FILTER_BITS_MAX),
        }
    }

    /// Bytes of log after which a memtable is written to a file though it is not full.
    pub(crate) fn log_bytes_max(&self) -> u64 {
        LOG_TIMES_MAX * self.memtable().max(self.wal_segment_bytes) as u64
    }

    /// Bytes of a memtable; the budget has set them in every database that is open.
    pub(crate) fn memtable(&self) -> usize {
        self.memtable_bytes.unwrap_or(64 << 20)
    }

    fn check(&self) -> Result<()> {
        check("advanced.buffered_flush_ms", self.buffered_flush_ms, 1, 10_000)?;
        if let Some(bytes) = self.memtable_bytes {
            check("advanced.memtable_bytes", bytes as u64, 4 << 10, 1 << 30)?;
        }
        check("advanced.wal_segment_bytes", self.wal_segment_bytes as u64, 16 << 10, 1 << 30)?;
        check("advanced.block_bytes", self.block_bytes as u64, 256, 64 << 10)?;
        check("advanced.file_bytes", self.file_bytes as u64, 4 << 10, 1 << 30)?;
        check("advanced.level_base_bytes", self.level_base_bytes, 4 << 10, 64 << 30)?;
        check("advanced.level_fanout", self.level_fanout, 2, 100)?;
        check("advanced.l0_compact_files", self.l0_compact_files as u64, 1, 64)?;
        check(
            "advanced.l0_slow_files",
            self.l0_slow_files as u64,
            self.l0_compact_files as u64 + 1,
            1 << 10,
        )?;
        check(
            "advanced.l0_stop_files",
            self.l0_stop_files as u64,
            self.l0_slow_files as u64 + 1,
            1 << 10,
        )?;
        check("advanced.sealed_memtables_max", self.sealed_memtables_max as u64, 1, 16)?;
        check("advanced.filter_bits", u64::from(self.filter_bits), 0, u64::from(FILTER_BITS_MAX))?;
        let Compression { upper, bottom } = self.compression;
        if upper.is_lacking() || bottom.is_lacking() {
            let what = "option advanced.compression is zstd; this build lacks the cargo feature";
            return Err(Error::invalid(format!("{what} `zstd`")));
        }
        check("advanced.blob_bytes_min", self.blob_bytes_min as u64, 0, VALUE_BYTES_MAX as u64)?;
        check("advanced.blob_file_bytes", self.blob_file_bytes as u64, 4 << 10, 1 << 30)?;
        check("advanced.blob_dead_percent", self.blob_dead_percent.into(), 5, 95)?;
        check("advanced.delete_age_max_s", self.delete_age_max_s, 1, 1_000_000_000)?;
        check("advanced.scrub_period_s", self.scrub_period_s, 0, 1_000_000_000)?;
        Ok(())
    }
}

fn check(name: &str, value: u64, min: u64, max: u64) -> Result<()> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(Error::invalid(format!("option {name} is {value}; it must be {min} to {max}")))
}
