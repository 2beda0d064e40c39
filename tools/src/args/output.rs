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
    /// Values between tabs, without a header line; a tab in a value is \t, a line's end \n.
    Tsv,
    /// A YAML list, with values as in JSON.
    Yaml,
    /// Nothing.
    None,
}

impl Output {
    /// Whether all columns must be known before the first row is printed.
    pub(crate) fn has_fixed_columns(self) -> bool {
        matches!(self, Output::Csv | Output::Tsv)
    }
}
