//! What an Azure Table service must answer, kept as data, and a runner that asks any endpoint.
//!
//! The list lies in `rows/*.txt`, one behaviour a row, written from the specification; nothing here
//! knows our server, so that no mistake can be on both sides. [`list::rows`] reads it,
//! [`suite::run_all`] asks a [`target::Target`], and [`score::Score`] counts.
//!
//! # Layout
//!
//! The `mod` lines of this file stand in dependency order: a file uses only what is listed before
//! it.

// Floor 0: the list.
pub mod row;
pub mod parse;
pub mod unfold;
pub mod list;

// Floor 1: one exchange.
pub mod target;
pub mod sign;
pub mod expand;
pub mod pattern;
pub mod wire;
pub mod tls;
pub mod multipart;
pub mod sas;
pub mod ask;
pub mod judge;

// Floor 2: all of them.
pub mod run;
pub mod suite;
pub mod score;
