//! Tests of the table layer as a whole, over a row store in memory.

mod changes;
mod groups;
mod memory;
mod paging;
mod planning;
mod tables;
mod words;
