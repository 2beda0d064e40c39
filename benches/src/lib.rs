//! Measurements of the engine and the server, side by side with the machine's own limits.
//!
//! # Layout
//!
//! The `mod` lines of this file stand in dependency order: a file uses only what is listed before
//! it. The first floor (rows, samples, cases, the report) knows nothing of what is measured, so
//! that other programs can measure other engines with it.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "what is measured here is the machine itself: its clock, its files, its processes"
)]

// Floor 0: how to measure.
pub mod rows;
pub mod cpu;
pub mod machine;
pub mod sample;
pub mod overwrite;
pub mod case;
pub mod report;

// Floor 1: over the wire.
pub mod http;
pub mod serve;
pub mod wire;

// Floor 2: what is measured.
pub mod fixture;
pub mod counted;
pub mod rivals;
pub mod budgeted;
pub mod cases;
