//! How much a test does where each of its steps is interpreted.

/// `count`, or `interpreted` under Miri, which takes some thousand times as long for a step.
pub const fn fewer(count: u64, interpreted: u64) -> u64 {
    if cfg!(miri) { interpreted } else { count }
}
