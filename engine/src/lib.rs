//! Tabulith: rows addressed by PartitionKey and RowKey, kept in that order, changed atomically
//! within one partition and guarded by ETags.
//!
//! ```
//! use tabulith::{Db, If};
//!
//! # fn main() -> tabulith::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! let db = Db::open(folder.path())?;
//! let orders = db.table("orders")?;
//!
//! // One partition changes together or not at all; on return it is on the disk.
//! let tenant = orders.partition("tenant-7");
//! let ts = tenant.batch().insert("0001", "3 apples").insert("0002", "1 pear").commit()?;
//!
//! // A change can ask for the state that was read.
//! orders.replace("tenant-7", "0001", "4 apples", If::Match(ts))?;
//! assert!(orders.replace("tenant-7", "0001", "5 apples", If::Match(ts)).is_err());
//!
//! // Rows come in the order of their keys, from either end.
//! let last = tenant.scan("0000".."9999")?.next_back().unwrap()?;
//! assert_eq!(last.value, "1 pear");
//! # Ok(())
//! # }
//! ```
//!
//! # What it is
//!
//! An embedded store for rows of bytes, an LSM tree with the data model of Azure Table Storage. A
//! *table* holds *rows*; a row has a PartitionKey, a RowKey and a value. Rows lie in the order of
//! (PartitionKey, RowKey), compared as bytes, so what is read together should be keyed together.
//! What changes together must be in one *partition*: the rows that share a PartitionKey.
//!
//! A folder holds one database, which one process at a time opens for writing. [`Db`], [`Table`],
//! [`Partition`], [`Entities`] and [`Snapshot`] are cheap to clone and may be used by any number of
//! threads. What is in the midst of something, a [`Batch`], [`Transaction`], [`Ticket`], [`Scan`],
//! [`Cursor`] or [`Ingest`], may go to another thread, and one at a time uses it.
//!
//! | to | see |
//! |---|---|
//! | open and configure | [`Db::open`], [`Db::builder`], [`Options`] |
//! | make, find and list tables | [`Db::table`], [`Db::find`], [`Db::table_names`]; [`Db::entities`], [`Db::find_entities`], [`Db::entity_table_names`] |
//! | write rows | [`Table::upsert`], [`Table::insert`], [`Table::replace`], [`Table::delete`] |
//! | change a partition at once | [`Partition::batch`], [`Batch`] |
//! | read, decide, write | [`If`], [`Partition::transact`], [`Transaction`] |
//! | read rows | [`Table::get`], [`Table::get_many`], [`Partition::scan`], [`Partition::cursor`] |
//! | count rows without reading them, exactly | [`Table::count`], [`Partition::count`] |
//! | how much they take on the disk, about | [`Table::bytes_on_disk`], [`Partition::bytes_on_disk`] |
//! | read one moment | [`Db::snapshot`], [`Db::snapshot_at`], [`Snapshot`] |
//! | remove many rows | [`Batch::delete_range`], [`Table::drop_partition`], [`Table::truncate`], [`Db::drop_table`], [`Entities::truncate`], [`Db::drop_entities`] |
//! | let rows expire | [`Table::set_ttl`], [`Batch::upsert_until`], [`Entities::insert_until`] |
//! | load many rows | [`Table::ingest`] |
//! | commit without waiting | [`Batch::commit_async`], [`Ticket`] |
//! | copy a live database | [`Db::checkpoint`], [`Snapshot::export`], [`Db::backup`] |
//! | give space back now | [`Db::settle`], [`Db::compact`], [`Table::compact`] |
//! | typed rows with properties | [`Db::entities`], [`Entity`], [`Filter`] |
//! | see what goes on | [`Db::stats`], [`stats::Stats`], [`Builder::on_event`], [`Event`] |
//!
//! Twelve worked tasks are in `docs/cookbook.md`, each compiled and run by this crate's tests.
//!
//! # Batches and conditions
//!
//! A [`Batch`] is of one partition by type. It happens as a whole or not at all, its operations see
//! those before them, and each may have a condition, [`If`]. Every commit has a timestamp,
//! [`CommitTs`], which only grows; a row shows that of the commit which wrote it ([`Row::ts`]), and
//! [`If::Match`] asks for it. A batch whose condition fails has changed nothing and says why by the
//! [`Kind`] of its error: `Exists`, `NotFound` or `Changed`. While it is put together it shows its
//! own writes and has savepoints: [`Batch::get`], [`Batch::savepoint`].
//!
//! Where reading and deciding takes more than one row, a [`Transaction`] over one partition does
//! it: it reads its own writes, has savepoints, and commits only if nothing that it read has
//! changed. [`Partition::transact`] runs it again where something has.
//!
//! # Reading
//!
//! [`Table::get`] reads one row, [`Table::get_many`] many as of one moment. A [`Scan`] is an
//! iterator of rows that can be kept, from both ends; a [`Cursor`] lends its rows and so costs no
//! allocation for each. Both see the moment at which they were opened. A [`Snapshot`] is that
//! moment over all tables, for as many reads as wanted; while it lives, what it can see is not
//! reclaimed. [`Table::scan_parallel`] reads a table on several threads. With [`Options::history`]
//! a moment of the past can be read, too: [`Db::snapshot_at`].
//!
//! # Filters and zones
//!
//! Table files keep *zones*: of each block the span of its commits and, for up to eight columns of
//! a table, the least and the greatest value. A query with a filter passes over blocks in which no
//! row can pass it: [`Entities::query`] does so by itself, for the properties that most entities
//! have or those that [`Entities::set_zone_columns`] declares. Rows of bytes have columns for who
//! tells the engine how to find them in a value: [`rows::RowStore::track`], once for all tables and
//! before [`Db::entities`], which tells it of entities: the first to tell counts.
//! [`rows::RowSnapshot::scan_where`] scans with a filter.
//!
//! # Reading in place
//!
//! With [`Advanced::mapped`] table files are read through a memory map: blocks that are stored
//! uncompressed ([`Compression::NONE`](options::Compression::NONE)) are used where they lie, each
//! proved by its checksum once. It suits data that fits in memory, and folders opened only to be
//! read.
//!
//! # Removing
//!
//! Ranges of RowKeys, partitions, all rows of a table and tables go in one record each, however
//! much they hold, and reads no longer see them at once. The space comes back with compaction;
//! whole files go unread. [`Db::settle`] waits for it.
//!
//! # Time to live
//!
//! A table may have one ([`Table::set_ttl`]), counted from the commit that wrote a row, and a row
//! one of its own ([`Batch::upsert_until`]); so have entities ([`Entities::set_ttl`],
//! [`Entities::insert_until`]). What is over first counts; readers are told a row's own
//! ([`Row::expires`], [`Entity::expires`]). From that time on the row is gone for every read and
//! condition, as if it had been deleted, and what it replaced does not come back. Compaction gives
//! back the space, that of whole files unread, also where nobody writes. Time is [`Db::time`]: the
//! wall clock, as far as that is not behind what the database has seen. A snapshot keeps the time
//! at which it was taken, one of the past has that of its moment. Where the wall clock is turned
//! back, a row that had expired may be seen again until its space was given back.
//!
//! # Large values
//!
//! Values may have up to 64 MiB. From 4 KiB on ([`Advanced::blob_bytes_min`]) they are kept in blob
//! files beside the table files, so that compaction moves a reference in their place and a scan
//! that asks for keys reads no values. Blob files whose values are mostly dead are written anew.
//!
//! # Durability
//!
//! By default a commit is on the disk when it returns, and nobody sees it earlier: what was read
//! survives a power cut. Commits of many threads share one sync. [`Durability`] can ask for less,
//! for a database or for one [`Batch`](Batch::durability): commits then survive the process, or are
//! lost with it for some milliseconds, always the latest ones and never one in the middle.
//!
//! A [`Ticket`] separates the two: [`Batch::commit_async`] decides and applies, and tells later, by
//! a call that waits, a callback or as a future, when the commit is safe.
//!
//! Damage to files is found by checksums and told with file and offset ([`Kind::Corrupt`]);
//! [`verify`] reads every byte of a folder.
//!
//! # Async
//!
//! A [`Ticket`] is a future of any runtime. It is the only one: every other call does its work on
//! the thread that makes it and blocks where it has to. Reads wait for the disk. Commits,
//! [`Batch::commit_async`] among them, wait for other commits of their partition, for rows that
//! their conditions ask for, for room in the log, and where flushes or merges are too far behind
//! up to 30 seconds for each of the two, after which they are [`Kind::Busy`]. Dropping the last
//! handle waits for background work to end. Async code makes such calls where a thread may block,
//! as in tokio's `spawn_blocking`, with a clone of the handle, and awaits the ticket outside.
//!
//! # Backups
//!
//! [`Db::backup`] and [`backup::folder::Backups`] make incremental backups, also of a folder that
//! another process has open, and restore them as of any moment that the history kept.
//! `docs/backup.md` says what is promised.
//!
//! # Memory
//!
//! One number bounds it: [`Options::memory`], by default a quarter of what the process may use.
//! Memtables, the log's buffers and compaction have their shares, index and filters of open files
//! take what they need of the rest, up to three quarters, caches have what is left and give way.
//! Beyond that, at some fifty times the budget in rows, files that are read less are opened anew
//! for each read. [`stats::Stats::memory`] shows who has what. On top come values that the caller
//! holds, and memtables that an old cursor still reads.
//!
//! # Limits
//!
//! | what | most |
//! |---|---|
//! | PartitionKey, RowKey | 4 KiB each, of any bytes or none: [`limits::KEY_PART_BYTES_MAX`] |
//! | value | 64 MiB, 8 bytes less where the row expires: [`limits::VALUE_BYTES_MAX`] |
//! | changes of one commit | 1,048,576, and 128 MiB in the log: [`limits::COMMIT_ROWS_MAX`], [`limits::COMMIT_BYTES_MAX`]; see [`Batch::len`], [`Batch::bytes`] |
//! | ends of ranges that one commit deletes | 16 MiB: [`limits::ERASED_BOUNDS_BYTES_MAX`] |
//! | name of a table of byte rows | 512 bytes: [`limits::TABLE_NAME_BYTES_MAX`] |
//! | tables that a database ever makes | 2^32 - 2 |
//! | columns that a table declares | 8, whose names have 1,024 bytes: [`limits::ZONE_COLUMN_BYTES_MAX`] |
//! | name of a table of entities | 63 letters and digits |
//! | keys of an entity | 1,024 UTF-16 units each: [`table::rules::KEY_UNITS_MAX`] |
//! | entity | 1 MiB and 252 properties: [`table::rules::ENTITY_BYTES_MAX`], [`table::rules::PROPERTIES_MAX`] |
//! | property | a name of 255 UTF-16 units, 32,768 units of text, 64 KiB of bytes: [`table::rules::NAME_UNITS_MAX`], [`table::rules::STRING_UNITS_MAX`], [`table::rules::BINARY_BYTES_MAX`] |
//! | changes of [`Entities::transact`] | 100 and 4 MiB: [`table::rules::GROUP_OPERATIONS_MAX`], [`table::rules::GROUP_BYTES_MAX`] |
//! | filter | 203 deep, 100,000 nodes: [`table::filter::ast::DEPTH_MAX`], [`table::filter::ast::NODES_MAX`] |
//!
//! What is beyond one is refused whole, by the commit at the latest: [`Kind::Invalid`] for byte
//! rows, a [`TableError`] of its own for entities.
//!
//! # Files
//!
//! | file | what it holds |
//! |---|---|
//! | `ROOT-A`, `ROOT-B`, `*.manifest-a`, `*.manifest-b` | which files there are, in two copies |
//! | `*.wal`: log segments | commits since the last flush; written in place, and used again |
//! | `*.sst`: table files | sorted rows in compressed blocks, with index, filters and checksums |
//! | `*.blob`: blob files | large values |
//!
//! Every byte of them is described in `docs/format.md`, which carries a version number.
//! Commits go to the log and into a memtable; a full memtable becomes a table file of level 0;
//! compaction merges files into deeper levels, each ten times the one above, and leaves out what no
//! reader can ask for. Reads look at memtables, then at files from new to old, which filters mostly
//! spare them. `ARCHITECTURE.md` leads through the code.
//!
//! # Features
//!
//! `tracing` tells of each event and piece of background work by spans of that crate; `zstd` adds
//! [`Codec::Zstd`]. Builds without it say so where they meet a value that is stored with zstd
//! ([`Kind::Unsupported`]); the program `tabulith` has a feature of that name.
//!
//! # Layout
//!
//! The `mod` lines of this file stand in dependency order: a file uses only what is listed before
//! it.

// Floor 0: words.
#[doc(hidden)]
pub mod planted;
#[cfg(model = "loom")]
pub(crate) mod modelled_atomic;
#[cfg(any(model = "loom", model = "shuttle"))]
pub(crate) mod modelled;
pub(crate) mod sync;
pub mod limits;
pub mod ids;
pub(crate) mod moment;
pub(crate) mod lifetime;
pub mod error;
pub(crate) mod codec;
pub(crate) mod words;
pub(crate) mod expiry;
pub(crate) mod lapsing;
pub(crate) mod checksum;
pub(crate) mod zstandard;
pub(crate) mod compress;
pub(crate) mod prefetch;
pub mod options;
pub mod waits;
pub(crate) mod panics;
pub mod stats;
pub(crate) mod budget;

// Floor 1: world.
pub mod env;
pub mod vfs;
pub mod event;

// Floor 2: keys.
pub(crate) mod names;
pub(crate) mod folder;
pub mod key;
pub(crate) mod cursor;
pub(crate) mod erasure;
pub(crate) mod batch;
pub mod zone;
pub mod rows;
pub(crate) mod checks;

// Floor 3: files.
pub(crate) mod errands;
pub(crate) mod cache;
pub(crate) mod row_table;
pub(crate) mod row_cache;
pub(crate) mod blob;
pub(crate) mod sstable;
pub(crate) mod chunks;
pub(crate) mod pool;
pub(crate) mod wal;
pub(crate) mod manifest;
pub(crate) mod beside;

// Floor 4: shape.
pub(crate) mod memtable;
pub(crate) mod version;
pub(crate) mod snapshot;
pub(crate) mod view;
pub(crate) mod iter;

// Floor 5: work.
pub(crate) mod stall;
pub(crate) mod catalog;
pub(crate) mod live_tables;
pub(crate) mod latch;
pub(crate) mod blind_deletes;
pub(crate) mod commit;
pub(crate) mod fate;
pub(crate) mod flush;
pub(crate) mod flush_turns;
pub(crate) mod replayed;
pub(crate) mod restore;
pub(crate) mod compaction;
pub(crate) mod outdated;
pub(crate) mod tree;
pub(crate) mod scrub;
pub(crate) mod work;
pub(crate) mod pacing;
pub(crate) mod recovery;
pub mod verify;
pub mod salvage;
pub mod inspect;
pub mod backup;
pub mod db;
pub(crate) mod export;
pub mod health;
pub(crate) mod figures;
pub(crate) mod update;
pub(crate) mod scan;
pub(crate) mod storage;
pub mod ingest;
pub mod savepoint;
pub mod transaction;
pub(crate) mod naming;

// Floor 6: tables.
pub mod table;
pub mod embedded;

// For the project's own fuzzing and benches; no promise.
#[doc(hidden)]
pub mod internals;
#[doc(hidden)]
pub mod structures;

#[cfg(all(test, any(model = "loom", model = "shuttle")))]
mod models;

/// The cookbook of docs/, whose examples run as tests of this crate.
#[cfg(doctest)]
#[doc = include_str!("../../docs/cookbook.md")]
pub struct Cookbook;

pub use bytes::Bytes;
pub use compress::Codec;
pub use db::{Builder, Db};
pub use embedded::batch::Batch;
pub use embedded::cursor::{Cursor, RowRef};
pub use embedded::decide::If;
pub use embedded::entities::{Entities, Found, PastEntities};
pub use embedded::rows::{Partition, Table};
pub use embedded::scan::{Scan, ScanRow};
pub use embedded::snapshot::Snapshot;
pub use embedded::ticket::Ticket;
pub use error::{Error, Kind, Result};
pub use event::Event;
pub use ids::CommitTs;
pub use ingest::Ingest;
pub use options::{Advanced, Compression, Durability, Options};
pub use rows::Row;
pub use savepoint::Savepoint;
pub use table::entity::Entity;
pub use table::error::{GroupError, TableError, TableResult};
pub use table::etag::{ETag, IfMatch};
pub use table::filter::ast::{Filter, Op};
pub use table::value::{DateTime, Value};
pub use table::write::{Write, WriteOutcome};
pub use transaction::Transaction;

/// Which handles threads may share, and which may only go from one to another.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    const fn is_sent<T: Send>() {}
    is_shared::<Db>();
    is_shared::<Builder>();
    is_shared::<Table>();
    is_shared::<Partition>();
    is_shared::<Entities>();
    is_shared::<Snapshot>();
    is_shared::<PastEntities>();
    is_shared::<Error>();
    is_shared::<TableError>();
    is_shared::<GroupError>();
    is_sent::<Batch>();
    is_sent::<Transaction>();
    is_sent::<Ticket>();
    is_sent::<Scan>();
    is_sent::<Cursor>();
    is_sent::<Found>();
    is_sent::<Ingest>();
};
