//! Fuzzing without a fuzzer: each target is a plain function over bytes that panics only on a bug,
//! and a seeded mutator drives it on stable Rust. README.md tells how to run it for longer, and
//! under cargo-fuzz.
//!
//! # Layout
//!
//! The `mod` lines of this file stand in dependency order: a file uses only what is listed before
//! it.

pub mod memory;
pub mod input;
pub mod mutate;
pub mod targets;
pub mod corpus;
pub mod seeds;
pub mod drive;
