//! The forms of output.

use clap::ValueEnum;
use clap::builder::PossibleValue;

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

/// A form of what is exported: one of rows, or a file of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExportForm {
    /// Rows, one after the other.
    Rows(Output),
    /// Parquet.
    Parquet,
}

impl ValueEnum for ExportForm {
    fn value_variants<'a>() -> &'a [ExportForm] {
        &[
            ExportForm::Rows(Output::Table),
            ExportForm::Rows(Output::Jsonl),
            ExportForm::Rows(Output::Json),
            ExportForm::Rows(Output::Csv),
            ExportForm::Rows(Output::Tsv),
            ExportForm::Rows(Output::Yaml),
            ExportForm::Rows(Output::None),
            ExportForm::Parquet,
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            ExportForm::Rows(form) => form.to_possible_value(),
            ExportForm::Parquet => Some(PossibleValue::new("parquet").help(
                "Parquet, of tables whose properties have one type each; in builds that have it",
            )),
        }
    }
}
