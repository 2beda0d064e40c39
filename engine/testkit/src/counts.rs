//! What a test has gone through, as one line that programs read: `counted: crash states=500123`.
//!
//! A count is also a floor: a layer that ran less than it must fails, so that one that runs nothing
//! is no success. `cargo dev soak` adds up the lines of its turns.

use std::fmt::Write;

/// What the line begins with.
pub const MARK: &str = "counted: ";

/// One thing that was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// A word without blanks, such as `states`.
    pub what: &'static str,
    /// How many.
    pub number: u64,
    /// The fewest that mean anything.
    pub floor: u64,
}

/// `number` of `what`, of which there must be `floor`.
pub fn count(what: &'static str, number: u64, floor: u64) -> Count {
    Count { what, number, floor }
}

/// Prints the line of `layer` and panics where a count is below its floor.
#[allow(clippy::print_stderr, reason = "the figures are what the run is for")]
pub fn tell(layer: &str, counts: &[Count]) {
    eprintln!("{}", line(layer, counts));
    let few = counts.iter().find(|count| count.number < count.floor);
    assert!(few.is_none(), "{layer} ran too little to mean anything: {few:?}");
}

/// Tells what a test has left out because this machine lacks something. A test that returns after
/// this passes: `.config/nextest.toml` has what its program says shown all the same.
#[allow(clippy::print_stderr, reason = "a test that did nothing must say so")]
pub fn skipped(what: &str) {
    eprintln!("SKIPPED: {what}");
}

fn line(layer: &str, counts: &[Count]) -> String {
    let mut out = format!("{MARK}{layer}");
    for Count { what, number, .. } in counts {
        let _ = write!(out, " {what}={number}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_all_counts() {
        let counts = [count("states", 12, 1), count("nested", 3, 0)];
        assert_eq!(line("crash", &counts), "counted: crash states=12 nested=3");
        tell("crash", &counts);
    }

    #[test]
    #[should_panic(expected = "ran too little")]
    fn a_layer_that_ran_nothing_fails() {
        tell("crash", &[count("states", 0, 1)]);
    }
}
