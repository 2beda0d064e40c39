//! What a benchmark leaves behind: one format, whoever measured.
//!
//! `tabulith bench` and `benches/peers` both write it, so that one report shows Tabulith, servers
//! and other engines. docs/bench-format.md describes it.

pub mod latency;
pub mod runs;
pub mod machine;
pub mod floor;
pub mod result;
