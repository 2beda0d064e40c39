//! Erasures: ranges of rows removed by one record each, kept beside the rows they hide.

mod times;
pub(crate) mod set;
pub(crate) mod live;
