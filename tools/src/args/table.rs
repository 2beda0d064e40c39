//! What is done with tables: `table`.

use crate::args::output::Output;
use crate::args::target::TargetArgs;
use clap::{Args, Subcommand};

/// What to do with tables.
#[derive(Args, Clone, Debug)]
#[command(arg_required_else_help = true)]
pub(crate) struct TableArgs {
    /// What.
    #[command(subcommand)]
    pub(crate) what: TableCommand,
}

/// The commands of `table`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum TableCommand {
    /// Make a table.
    #[command(before_help = "Example:\n  tabulith table create flights")]
    Create(CreateTableArgs),
    /// Print the names of the tables.
    #[command(before_help = "Examples:\n  tabulith table list\n  \
        tabulith table list --prefix flight -o tsv")]
    List(ListTablesArgs),
    /// Delete a table with all its rows.
    #[command(before_help = "Example:\n  tabulith table delete flights")]
    Delete(DeleteTableArgs),
    /// Delete all rows of a table; the table, its policies and settings stay.
    #[command(before_help = "Example:\n  tabulith table truncate flights --yes")]
    Truncate(TruncateArgs),
}

/// Which table to make.
#[derive(Args, Clone, Debug)]
pub(crate) struct CreateTableArgs {
    /// The table.
    #[arg(value_name = "TABLE")]
    pub(crate) table: String,
    /// A table that exists already is an error, exit code 5.
    #[arg(long)]
    pub(crate) fail_on_exist: bool,
    /// Where the table is.
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// Which tables to list.
#[derive(Args, Clone, Debug)]
pub(crate) struct ListTablesArgs {
    /// Only tables whose names begin so, in any case.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,
    /// Count the rows of each table too. In a folder that reads few of them, on a server all.
    #[arg(long)]
    pub(crate) count: bool,
    /// Form of the output.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,
    /// Where the tables are.
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// Which table to delete.
#[derive(Args, Clone, Debug)]
pub(crate) struct DeleteTableArgs {
    /// The table.
    #[arg(value_name = "TABLE")]
    pub(crate) table: String,
    /// A table that does not exist is an error, exit code 3.
    #[arg(long)]
    pub(crate) fail_not_exist: bool,
    /// Where the table is.
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// Which table to empty.
#[derive(Args, Clone, Debug)]
pub(crate) struct TruncateArgs {
    /// The table.
    #[arg(value_name = "TABLE")]
    pub(crate) table: String,
    /// Do not ask.
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Where the table is.
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}
