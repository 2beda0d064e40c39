//! The forms of output.

use clap::ValueEnum;

/// A form of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Aligned columns.
    Table,
    /// One JSON object per line, with the types that plain JSON cannot say.
    Jsonl,
    /// One JSON array.
    Json,
    /// Comma-separated, with a header line.
    Csv,
}
