//! Tabulith: rows addressed by PartitionKey and RowKey, kept in that order, changed atomically
//! within one partition and guarded by ETags.
//!
//! # Layout
//!
//! The modules below stand in dependency order: a file uses only what is listed before it.

// Floor 0: words.
pub mod limits;
pub mod ids;
pub mod error;
pub(crate) mod codec;
pub(crate) mod checksum;
pub(crate) mod compress;
pub mod options;
pub mod stats;

// Floor 1: world.
pub mod env;
pub mod vfs;

// Floor 2: keys.
pub(crate) mod names;
pub mod key;
pub(crate) mod batch;
pub(crate) mod cursor;
pub mod rows;

// Floor 3: files.
pub(crate) mod cache;
pub(crate) mod sstable;
pub(crate) mod wal;
pub(crate) mod manifest;

// Floor 4: shape.
pub(crate) mod memtable;
pub(crate) mod version;
pub(crate) mod snapshot;
pub(crate) mod view;
pub(crate) mod iter;

// Floor 5: work.
pub(crate) mod stall;
pub(crate) mod catalog;
pub(crate) mod latch;
pub(crate) mod commit;
pub(crate) mod flush;
pub(crate) mod compaction;
pub(crate) mod tree;
pub(crate) mod work;
pub(crate) mod recovery;
pub mod verify;
pub mod db;

// Floor 6: tables.
pub mod table;
pub mod embedded;
