//! Tabulith side by side with other embedded engines: the same rows, the same work, the same
//! promises, each measurement in a process of its own. `README.md` says how to run it.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "what is measured here is the machine itself: its clock, its files, its processes"
)]

// What is measured, in words that fit every engine.
pub mod engine;
pub mod rows;
pub mod settings;
pub mod quiet;

// The frame.
pub mod probe;

// The engines.
pub mod adapters;

// The workloads.
pub mod work;
pub mod cells;

// The program.
pub mod parent;
pub mod goals;
pub mod report;
pub mod results;
