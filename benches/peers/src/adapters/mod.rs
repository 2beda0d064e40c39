//! One adapter per engine.

pub mod btreemap;
pub mod skiplist;
pub mod fjall;
pub mod lmdb;
pub mod ours;
pub mod redb;
#[cfg(feature = "rocksdb")]
pub mod rocksdb;
#[cfg(feature = "rocksdb")]
pub mod rocksdb_conditional;
pub mod sled;
pub mod surrealkv;
pub mod open;
