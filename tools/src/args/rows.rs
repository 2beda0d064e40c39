//! What is read from tables and written to them: `import`, `query`, `export`.

use crate::args::output::{ExportForm, Output};
use crate::args::target::TargetArgs;
use clap::Args;
use std::path::PathBuf;

/// What to import, as what, and where.
#[derive(Args, Clone, Debug)]
#[command(before_help = IMPORT_EXAMPLES, after_help = IMPORT_HELP)]
pub(crate) struct ImportArgs {
    /// CSV with a header line or JSON lines, plain or gzip, or Parquet in builds that have it.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// The table; made where it does not exist.
    #[arg(long, short, value_name = "NAME")]
    pub(crate) table: String,
    /// Template of the PartitionKey.
    #[arg(long, value_name = "TEMPLATE", default_value = "{PartitionKey}")]
    pub(crate) partition_key: String,
    /// Template of the RowKey.
    #[arg(long, value_name = "TEMPLATE", default_value = "{RowKey}")]
    pub(crate) row_key: String,
    /// Replace characters in all columns that the templates use, as in '/=~'.
    #[arg(long, value_name = "A=B,…")]
    pub(crate) replace_key_chars: Option<String>,
    /// Types of columns, instead of those that the file suggests: int32, int64, double, boolean,
    /// datetime, guid, binary, string.
    #[arg(long, value_name = "COLUMN=TYPE,…", value_delimiter = ',')]
    pub(crate) types: Vec<String>,
    /// A cell of this text has no value, like an empty cell, and is not stored. May be repeated.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) null: Vec<String>,
    /// Columns that are not stored.
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',')]
    pub(crate) drop: Vec<String>,
    /// Report bad rows and go on; otherwise the first one ends the import.
    #[arg(long)]
    pub(crate) skip_bad: bool,
    /// Write all rows, also those that an interrupted import wrote already.
    #[arg(long)]
    pub(crate) restart: bool,
    /// Batches on their way at once.
    #[arg(long, value_name = "N", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) in_flight: u16,
    /// How long to wait for a server that went away.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) patience: u64,
    /// Where the table is.
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

const IMPORT_EXAMPLES: &str = "Examples:
  tabulith import flights.csv.gz -t flights --null NA \\
    --partition-key '{origin}-{carrier}' \\
    --row-key '{month:02}{day:02}-{sched_dep_time:04}-{flight:05}'
  tabulith export flights -o jsonl > flights.jsonl && tabulith import flights.jsonl -t copy";

const IMPORT_HELP: &str = "Key templates:
  {col}         the column's text, as the file has it
  {col:05}      zeros in front, up to 5 characters: numbers then sort as text
  {col|/=~}     every `/` replaced by `~`; a key may not hold / \\ # ? or control characters
  {{ and }}     a brace

A file is read more than once: a pipe, a FIFO or /dev/stdin is refused, and has to be saved first.

Types come from the whole file, which is read once before the first row is written, or from what
Parquet says of itself: Int32, Int64, Double, Boolean, DateTime, Guid or String, the narrowest that
holds every value. A cell without a value is not stored, but its text still makes a key.

Rows are inserted or replaced, in batches of up to 100 rows of a partition. After an interruption
the same command goes on where it stopped; rows that were on their way are written again. How far
it came is kept in $XDG_STATE_HOME/tabulith/imports, else in ~/.local/state/tabulith/imports.
Two rows with the same keys are an error: the second one is a bad row. For that the keys of the
first 33,554,432 rows are remembered, at some 32 bytes each. Of equal rows beyond them the last one
to arrive stays.";

/// What to ask of a table.
#[derive(Args, Clone, Debug)]
#[command(before_help = "Examples:\n  \
    tabulith query flights --filter \"PartitionKey eq 'EWR-UA' and dep_delay gt 60\" --explain\n  \
    tabulith query flights --select carrier,dep_delay --top 10 -o csv\n  \
    tabulith query flights --count")]
pub(crate) struct QueryArgs {
    /// The table.
    #[arg(value_name = "TABLE")]
    pub(crate) table: String,
    /// Condition, as in: PartitionKey eq 'EWR-UA' and dep_delay gt 60
    #[arg(long, value_name = "FILTER")]
    pub(crate) filter: Option<String>,
    /// Columns to print beside the keys.
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',')]
    pub(crate) select: Option<Vec<String>>,
    /// Most rows to print.
    #[arg(long, alias = "num-results", value_name = "N")]
    pub(crate) top: Option<u64>,
    /// Print how many rows there are, and none of them. A whole table in a folder is counted
    /// without reading its rows.
    #[arg(long, conflicts_with_all = ["select", "explain", "output"])]
    pub(crate) count: bool,
    /// Say on stderr how the rows are found, and how many were examined and returned.
    #[arg(long)]
    pub(crate) explain: bool,
    /// Form of the output. A table has the columns of its first 1,000 rows; what others have beside
    /// them is named on stderr.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,
    /// Where the table is.
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// What to export.
#[derive(Args, Clone, Debug)]
#[command(before_help = "Examples:\n  tabulith export flights > flights.jsonl\n  \
    tabulith export flights -o csv --data-dir tabulith-data | gzip > flights.csv.gz")]
pub(crate) struct ExportArgs {
    /// The table.
    #[arg(value_name = "TABLE")]
    pub(crate) table: String,
    /// Form of the output: JSON lines and Parquet keep every type, CSV does not.
    #[arg(short, long, value_enum, default_value_t = ExportForm::Rows(Output::Jsonl))]
    pub(crate) output: ExportForm,
    /// Condition on the rows.
    #[arg(long, value_name = "FILTER")]
    pub(crate) filter: Option<String>,
    /// Columns to print beside the keys. Without it CSV and TSV read the table twice to know its
    /// columns; Parquet always does.
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',')]
    pub(crate) select: Option<Vec<String>>,
    /// Where the table is.
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}
