//! Histories of threads at work: entities are linearizable, transactions strictly serializable,
//! across kills, power losses and failures of the log.
//!
//! What every thread asked and was told is written down, and the checkers of the testkit look for
//! an order in which it could have happened. `TABULITH_HISTORY_OPS` runs another number of calls.
#![allow(clippy::print_stderr, reason = "the figures are what the run is for")]

mod house;
mod registers;
mod lists;
mod bank;
