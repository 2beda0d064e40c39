//! What is done with single entities: `entity`. The flags have the names that they have in
//! `az storage entity`.

use crate::args::output::Output;
use crate::args::target::TargetArgs;
use clap::{Args, Subcommand, ValueEnum};

/// What to do with entities.
#[derive(Args, Clone, Debug)]
#[command(arg_required_else_help = true)]
pub(crate) struct EntityArgs {
    /// What.
    #[command(subcommand)]
    pub(crate) what: EntityCommand,
}

/// The commands of `entity`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum EntityCommand {
    /// Add an entity, and print its ETag.
    #[command(before_help = "Examples:\n  \
        tabulith entity insert -t orders -e PartitionKey=tenant-7 RowKey=0042 Total=12.5 Paid=false\n  \
        tabulith entity insert -t orders --json order.json --if-exists merge")]
    Insert(InsertArgs),
    /// Set properties of an entity that exists, and print its new ETag; its other ones stay.
    #[command(before_help = "Example:\n  \
        tabulith entity merge -t orders -e PartitionKey=tenant-7 RowKey=0042 Paid=true")]
    Merge(ChangeArgs),
    /// Replace all properties of an entity that exists, and print its new ETag.
    #[command(before_help = "Example:\n  \
        tabulith entity replace -t orders --json - --if-match \"$ETAG\" < order.json")]
    Replace(ChangeArgs),
    /// Add an entity or replace the one that is there, and print its ETag.
    #[command(before_help = "Example:\n  \
        tabulith entity upsert -t orders -e PartitionKey=tenant-7 RowKey=0042 Total=12.5")]
    Upsert(UpsertArgs),
    /// Print one entity with its ETag.
    #[command(before_help = "Example:\n  \
        tabulith entity show -t orders --partition-key tenant-7 --row-key 0042")]
    Show(ShowArgs),
    /// Print the entities that match a filter.
    #[command(before_help = "Example:\n  \
        tabulith entity query -t orders --filter \"PartitionKey eq 'tenant-7' and Total gt 10\"")]
    Query(QueryEntitiesArgs),
    /// Delete one entity.
    #[command(before_help = "Example:\n  \
        tabulith entity delete -t orders --partition-key tenant-7 --row-key 0042")]
    Delete(DeleteArgs),
    /// Delete every entity that matches a filter, and print how many there were.
    #[command(before_help = "Examples:\n  \
        tabulith entity delete-where -t orders --filter \"PartitionKey eq 'tenant-7'\" --yes\n  \
        tabulith entity delete-where -t orders --filter 'Paid eq true' --dry-run")]
    DeleteWhere(DeleteWhereArgs),
}

/// An entity, as flags or as JSON.
#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = false, id = "given")]
pub(crate) struct EntityText {
    /// Properties, PartitionKey and RowKey among them. A value that is a whole number is an Int32
    /// or an Int64, one with a point a Double, true and false are Booleans, everything else is
    /// text; NAME@odata.type=Edm.TYPE says otherwise.
    #[arg(short, long, value_name = "NAME=VALUE", num_args = 1.., group = "given")]
    pub(crate) entity: Vec<String>,
    /// A file with one JSON object, as `show` prints it; - for stdin.
    #[arg(long, value_name = "FILE", group = "given")]
    pub(crate) json: Option<String>,
}

/// What to do where an inserted entity exists already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum IfExists {
    /// Exit with the code 5.
    Fail,
    /// Set its properties; the others stay.
    Merge,
    /// Replace all its properties.
    Replace,
}

/// What to insert.
#[derive(Args, Clone, Debug)]
pub(crate) struct InsertArgs {
    /// The table.
    #[arg(short, long, alias = "table", value_name = "NAME")]
    pub(crate) table_name: String,
    /// The entity.
    #[command(flatten)]
    pub(crate) given: EntityText,
    /// What to do where it exists already.
    #[arg(long, value_enum, default_value_t = IfExists::Fail)]
    pub(crate) if_exists: IfExists,
    /// Form of the output.
    #[arg(short, long, value_enum, default_value_t = Output::Tsv, hide_default_value = true)]
    pub(crate) output: Output,
    /// Where the table is.
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// What to change of an entity.
#[derive(Args, Clone, Debug)]
pub(crate) struct ChangeArgs {
    /// The table.
    #[arg(short, long, alias = "table", value_name = "NAME")]
    pub(crate) table_name: String,
    /// The entity.
    #[command(flatten)]
    pub(crate) given: EntityText,
    /// Only if it still has this ETag, otherwise exit with the code 4.
    #[arg(long, value_name = "ETAG", default_value = "*")]
    pub(crate) if_match: String,
    /// Form of the output.
    #[arg(short, long, value_enum, default_value_t = Output::Tsv, hide_default_value = true)]
    pub(crate) output: Output,
    /// Where the table is.
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// What to insert or replace.
#[derive(Args, Clone, Debug)]
pub(crate) struct UpsertArgs {
    /// The table.
    #[arg(short, long, alias = "table", value_name = "NAME")]
    pub(crate) table_name: String,
    /// The entity.
    #[command(flatten)]
    pub(crate) given: EntityText,
    /// Keep the properties of an entity that is there and is not given them.
    #[arg(long)]
    pub(crate) merge: bool,
    /// Form of the output.
    #[arg(short, long, value_enum, default_value_t = Output::Tsv, hide_default_value = true)]
    pub(crate) output: Output,
    /// Where the table is.
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// Keys of an entity.
#[derive(Args, Clone, Debug)]
pub(crate) struct KeyArgs {
    /// The table.
    #[arg(short, long, alias = "table", value_name = "NAME")]
    pub(crate) table_name: String,
    /// Its PartitionKey.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) partition_key: String,
    /// Its RowKey.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) row_key: String,
}

/// Which entity to print.
#[derive(Args, Clone, Debug)]
pub(crate) struct ShowArgs {
    /// Its place.
    #[command(flatten)]
    pub(crate) key: KeyArgs,
    /// Properties to print beside the keys.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) select: Option<Vec<String>>,
    /// Form of the output.
    #[arg(short, long, value_enum, default_value_t = Output::Json)]
    pub(crate) output: Output,
    /// Where the table is.
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// Which entities to print.
#[derive(Args, Clone, Debug)]
pub(crate) struct QueryEntitiesArgs {
    /// The table.
    #[arg(short, long, alias = "table", value_name = "NAME")]
    pub(crate) table_name: String,
    /// Condition, as in: PartitionKey eq 'EWR-UA' and dep_delay gt 60
    #[arg(long, value_name = "FILTER")]
    pub(crate) filter: Option<String>,
    /// Properties to print beside the keys.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) select: Option<Vec<String>>,
    /// Most entities to print.
    #[arg(long, alias = "top", value_name = "N")]
    pub(crate) num_results: Option<u64>,
    /// Form of the output. A table has the columns of its first 1,000 rows; what others have beside
    /// them is named on stderr.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,
    /// Where the table is.
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// Which entity to delete.
#[derive(Args, Clone, Debug)]
pub(crate) struct DeleteArgs {
    /// Its place.
    #[command(flatten)]
    pub(crate) key: KeyArgs,
    /// Only if it still has this ETag, otherwise exit with the code 4.
    #[arg(long, value_name = "ETAG", default_value = "*")]
    pub(crate) if_match: String,
    /// Where the table is.
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// Which entities to delete.
#[derive(Args, Clone, Debug)]
pub(crate) struct DeleteWhereArgs {
    /// The table.
    #[arg(short, long, alias = "table", value_name = "NAME")]
    pub(crate) table_name: String,
    /// Condition, as in: PartitionKey eq 'EWR-UA' and dep_delay gt 60
    #[arg(long, value_name = "FILTER")]
    pub(crate) filter: String,
    /// Only count them.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask.
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Where the table is.
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}
