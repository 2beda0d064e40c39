//! Sorted table files: columnar blocks, index, filters, footer.
//!
//! A file is written once, front to back, and never changed. `format` has its parts, `layout` the
//! columns of a block, `search` how they are searched; `builder` writes a file, `reader` answers
//! point reads from it, `mapped` does so in place, `iter` is a cursor over it and `walk` one over a
//! block, `tally` counts in it, `verify` proves it, `rescue` reads what is left of a damaged one,
//! `dump` prints it.

pub(crate) mod format;
pub(crate) mod filter;
pub(crate) mod layout;
pub(crate) mod check;
pub(crate) mod search;
pub(crate) mod piece;
pub(crate) mod block;
pub(crate) mod walk;
pub(crate) mod block_builder;
pub(crate) mod index;
pub(crate) mod zones;
pub(crate) mod zone_builder;
pub(crate) mod press;
pub(crate) mod builder;
pub(crate) mod raw;
pub(crate) mod mapped;
pub(crate) mod reader;
pub(crate) mod upcoming;
pub(crate) mod proving;
pub(crate) mod ahead;
pub(crate) mod sieve;
pub(crate) mod iter;
pub(crate) mod tally;
pub(crate) mod pass;
pub(crate) mod verify;
pub(crate) mod rescue;
pub(crate) mod dump;

#[cfg(test)]
pub(crate) mod tests;
