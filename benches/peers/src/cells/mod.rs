//! The workloads: each cell is measured in a process of its own and gives one line or several.

pub mod bulk;
pub mod paced;
pub mod durable;
pub mod point;
pub mod scan;
pub mod ycsb;
pub mod churn;
pub mod large;
pub mod reopen;
pub mod filter;
pub mod drops;
pub mod conditional;
pub mod list;
