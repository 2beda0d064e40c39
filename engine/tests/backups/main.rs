//! Backups against a model: every moment that they promise is restored as it was, an incremental
//! one copies little, what is cut is finished by the next, and damage is found.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;
#[path = "../common/absent.rs"]
mod absent;
#[path = "../common/fates.rs"]
mod fates;
#[path = "../common/kinds.rs"]
mod kinds;
mod moments;
mod folders;
mod damage;
mod cuts;
mod faults;
mod beside;
mod golden;
mod size;
