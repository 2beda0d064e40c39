//! Operations, from an admitted request to its answer.

pub mod call;
pub mod reply;
pub mod answer;
pub mod service;
pub mod tables;
pub mod acl;
pub mod entities;
pub mod query;
pub mod group;
