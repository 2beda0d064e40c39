//! The targets. Each takes any bytes, returns, and panics only where something is wrong with
//! Tabulith.

pub mod wal;
pub mod manifest;
pub mod block;
pub mod table_file;
pub mod blob_file;
pub mod group;
pub mod key_order;
pub mod entity;
pub mod moment;
pub mod filter;
pub mod json;
pub mod batch;
pub mod address;
pub mod token;
pub mod authorization;
pub mod signature;
pub mod documents;
pub mod framing;
pub mod folder;
pub mod backup;
pub mod engine_ops;
pub mod app;
pub mod list;
