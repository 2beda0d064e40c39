//! The tabulith binary.
fn main() {}
