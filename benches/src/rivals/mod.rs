//! Designs that the engine does not have, each plain and whole, beside which those that it has are
//! measured: `cargo bench -p tabulith-benches --bench rivals`, and `instructions --rivals`.

pub mod skiplist;
pub mod sidecar;
pub mod counts;
