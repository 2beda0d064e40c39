//! `cargo dev soak`: the random tests, each with fresh seeds, for as long as asked.

pub(crate) mod layers;
pub(crate) mod ledger;
pub(crate) mod turn;
pub(crate) mod report;
pub(crate) mod command;
