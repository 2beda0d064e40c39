//! Salvage of damaged folders against a model: nothing is invented, nothing that was not touched is
//! missing, and the list of losses names whatever is.
//!
//! A random life is written to a simulated disk and closed; files are flipped, overwritten, cut,
//! lost or swapped; what the salvage gives is held against every version that each row ever had.
//! `TABULITH_SALVAGES` damages more often than 400 times.
#![allow(clippy::print_stderr, reason = "the figures are what the run is for")]

#[path = "../common/absent.rs"]
mod absent;
#[path = "../common/fates.rs"]
mod fates;
#[path = "../common/kinds.rs"]
mod kinds;
mod life;
mod judge;
mod damaged;
mod cases;
mod cuts;
mod faults;
