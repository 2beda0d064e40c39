//! The embedded API: tables of byte rows and tables of typed entities, as values that are cheap to
//! clone and send between threads.

pub(crate) mod partition;
pub mod cursor;
pub mod scan;
pub mod ticket;
pub mod decide;
pub mod batch;
pub mod rows;
pub mod snapshot;
pub mod parallel;
pub mod entities;
