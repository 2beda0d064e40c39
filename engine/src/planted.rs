//! Bugs planted on purpose, for the tests to find: `planted!("B07")` stands where one is.
//!
//! | build | `planted!("B07")` is |
//! |---|---|
//! | normal | `false`, to the compiler: nothing of the bug is left |
//! | `--cfg bug="B07"` | `true`, and the others `false` |
//! | `--cfg bug="any"` | whether the variable `TABULITH_BUG` is `B07`, read once |
//!
//! `cargo dev planted` makes the last kind of build and runs it once for each bug; docs/testing.md
//! tells their stories. Absent: bugs that nobody had. Each is one that a store was shipped with.

/// Whether this bug is planted in this run.
#[cfg(not(bug = "any"))]
#[doc(hidden)]
#[macro_export]
macro_rules! planted {
    ($bug:tt) => {
        cfg!(bug = $bug)
    };
}

/// Whether this bug is planted in this run.
#[cfg(bug = "any")]
#[doc(hidden)]
#[macro_export]
macro_rules! planted {
    ($bug:tt) => {
        $crate::planted::is_chosen($bug)
    };
}

/// Whether the environment asks for this bug.
#[cfg(bug = "any")]
pub fn is_chosen(bug: &str) -> bool {
    static CHOSEN: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    CHOSEN.get_or_init(|| std::env::var("TABULITH_BUG").unwrap_or_default()) == bug
}
