//! The counting allocator, in a program in which nobody else takes memory.

use std::hint::black_box;
use tabulith_testkit::held::{Counting, forget_most, most, now};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const MIB: usize = 1 << 20;

/// What the harness takes meanwhile.
const SLACK: usize = MIB / 2;

#[test]
fn the_most_is_what_was_held_at_one_time() {
    let before = now();
    (0..10).for_each(|_| drop(black_box(vec![1u8; 8 * MIB])));
    assert!(most().abs_diff(before + 8 * MIB) < SLACK, "one piece after the other");
    assert!(now().abs_diff(before) < SLACK, "what is given back is no longer held");
    let mut grown = black_box(vec![1u8; 8 * MIB]);
    grown.reserve_exact(16 * MIB);
    assert!(now().abs_diff(before + 24 * MIB) < SLACK, "of one that grew");
    drop(grown);
    forget_most();
    assert!(most().abs_diff(before) < SLACK, "what was is forgotten");
}
