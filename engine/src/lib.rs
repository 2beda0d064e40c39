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
//! # Layout
//!
//! The modules below stand in dependency order: a file uses only what is listed before it.

// Floor 0: words.
pub mod limits;
pub mod ids;
pub(crate) mod moment;
pub mod error;
pub(crate) mod codec;
pub(crate) mod checksum;
pub(crate) mod zstandard;
pub(crate) mod compress;
pub(crate) mod prefetch;
pub mod options;
pub mod waits;
pub mod stats;
pub(crate) mod budget;

// Floor 1: world.
pub mod env;
pub mod vfs;

// Floor 2: keys.
pub(crate) mod names;
pub mod key;
pub(crate) mod cursor;
pub(crate) mod erasure;
pub(crate) mod batch;
pub mod zone;
pub mod rows;

// Floor 3: files.
pub(crate) mod cache;
pub(crate) mod row_cache;
pub(crate) mod blob;
pub(crate) mod sstable;
pub(crate) mod pool;
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
pub(crate) mod fate;
pub(crate) mod flush;
pub(crate) mod compaction;
pub(crate) mod tree;
pub(crate) mod work;
pub(crate) mod recovery;
pub mod verify;
pub mod inspect;
pub mod db;
pub(crate) mod update;
pub(crate) mod scan;
pub(crate) mod storage;
pub mod ingest;
pub mod transaction;
pub(crate) mod naming;

// Floor 6: tables.
pub mod table;
pub mod embedded;

// For the project's own fuzzing and benches; no promise.
#[doc(hidden)]
pub mod internals;

pub use compress::Codec;
pub use db::{Builder, Db};
pub use embedded::cursor::{Cursor, RowRef};
pub use embedded::entities::Entities;
pub use embedded::rows::{Batch, If, Partition, Snapshot, Table};
pub use embedded::scan::{Scan, ScanRow};
pub use embedded::ticket::Ticket;
pub use error::{Error, Kind, Result};
pub use ids::CommitTs;
pub use options::{Advanced, Compression, Durability, Options};
pub use rows::Row;
pub use table::entity::Entity;
pub use table::filter::ast::{Filter, Op};
pub use table::value::Value;
pub use transaction::{Savepoint, Transaction};
