//! Runs a model in every order of its threads' steps, and with every value that a load may give.
//!
//! Orders have three preemptions at most: bugs that need more of them are rare, and each costs as
//! much again as all before. `LOOM_MAX_PREEMPTIONS` asks for others.

use crate::modelled;
use loom::model::Builder;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tabulith_testkit::counts::{self, count};

const PREEMPTIONS_MAX: usize = 3;
const BRANCHES_MAX: usize = 20_000;

fn run(model: fn()) -> u64 {
    let orders = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&orders);
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(PREEMPTIONS_MAX));
    builder.max_branches = BRANCHES_MAX;
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        crate::modelled_atomic::begin();
        model();
    });
    orders.load(Ordering::Relaxed)
}

/// `model` holds, in `orders` of them at least.
pub(super) fn holds(model: fn(), orders: u64) {
    counts::tell("loom", &[count("orders", run(model), orders), count("models", 1, 1)]);
}

/// `model` does not hold where `place` is weakened: it would see that this goes wrong.
pub(super) fn needs(model: fn(), place: &'static str) {
    let seen = modelled::with_weakened(place, || catch_unwind(AssertUnwindSafe(|| run(model))));
    assert!(seen.is_err(), "nothing is wrong without {place:?} in {} orders", seen.unwrap_or(0));
    counts::tell("loom", &[count("weakened", 1, 1)]);
}
