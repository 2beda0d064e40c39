//! Crash states: the power fails, or the process dies, after every effect of a workload, in every
//! way that a disk may lose unsynced sectors, lengths and names. What is left must open; it must be
//! a prefix of the commit order that holds all that was acknowledged or shown to a reader; and it
//! must be good for more work and for the next crash.
//!
//! Bounds: a crash point with more states than the budget is sampled; see
//! [`tabulith::vfs::mem::SimFs::crash_states`].

#![allow(clippy::print_stderr, reason = "the counts are what the reader of the test wants")]

mod allocator;
#[path = "../common/levels.rs"]
mod levels;
#[path = "../common/fates.rs"]
mod fates;
#[path = "../common/kinds.rs"]
mod kinds;
mod ops;
mod model;
mod stop;
mod entities;
mod settings;
mod look;
mod opening;
mod workload;
mod kept;
mod finished;
mod doubts;
mod run;
mod changes;
mod steps;
mod explore;
mod saved;
mod enumeration;
mod regressions;
mod concurrent;
mod parts;
mod copies;
mod paused;
mod faults;
mod readers;
mod latency;
mod corpus;
mod promised;
mod seals;
mod damages;
mod verdict;
mod mended;
mod damage;
