//! The Azure Table REST protocol on top of the [`tabulith`] engine: what the Azure SDKs talk to.
//!
//! # Layout
//!
//! The modules below stand in dependency order: a file uses only what is listed before it.

// Floor 0: words.
pub mod limits;
pub mod config;
pub mod context;
pub mod error;

// Floor 1: wire. Bytes and values, no sockets, no store.
pub mod http;
pub mod odata;
pub mod batch;

// Floor 2: gates.
pub mod auth;
