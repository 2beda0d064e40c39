//! Tabulith: rows addressed by PartitionKey and RowKey, kept in that order, changed atomically
//! within one partition and guarded by ETags.
//!
//! # Layout
//!
//! The modules below stand in dependency order: a file uses only what is listed before it.

// Floor 0: words.
pub(crate) mod checksum;
pub(crate) mod codec;
pub(crate) mod compress;
pub mod error;
pub mod ids;
pub mod limits;
pub mod options;
pub mod stats;

// Floor 1: world.
pub mod env;
pub mod vfs;

// Floor 2: keys.
pub(crate) mod cursor;
pub mod key;
pub(crate) mod names;

// Floor 3: files.
pub(crate) mod cache;
pub(crate) mod manifest;
pub(crate) mod sstable;
pub(crate) mod wal;

// Floor 4: shape.
pub(crate) mod iter;
pub(crate) mod memtable;
pub(crate) mod snapshot;
pub(crate) mod version;
pub(crate) mod view;

// Floor 5: work.
pub(crate) mod catalog;
pub(crate) mod commit;
pub(crate) mod compaction;
pub mod db;
pub(crate) mod flush;
pub(crate) mod recovery;
pub mod rows;
pub(crate) mod stall;
pub mod verify;

// Floor 6: tables.
pub mod embedded;
pub mod table;
