//! What is done with shared access signatures: `sas`.

use crate::args::output::Output;
use crate::args::target::TargetArgs;
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand, ValueEnum};
use std::net::IpAddr;

/// A limit that is empty, as that of a variable which is not set, would be none.
fn given() -> NonEmptyStringValueParser {
    NonEmptyStringValueParser::new()
}

/// What to do with shared access signatures.
#[derive(Args, Clone, Debug)]
#[command(arg_required_else_help = true)]
pub(crate) struct SasArgs {
    /// What.
    #[command(subcommand)]
    pub(crate) what: SasCommand,
}

/// The commands of `sas`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum SasCommand {
    /// Sign a token for one table, or for the account, and print it.
    #[command(before_help = "Examples:\n  \
        tabulith sas create -t orders --permissions r --expiry 8h\n  \
        tabulith sas create -t orders --permissions raud --expiry 2027-01-31T12:00Z \\\n      \
            --start-pk tenant-7 --end-pk tenant-7 --https-only --uri\n  \
        tabulith sas create --resource-types co --permissions rl --expiry 30d")]
    Create(CreateSasArgs),
    /// Say what a token allows, and why it fails; exit code 6 where it does.
    #[command(before_help = "Examples:\n  \
        tabulith sas decode 'sv=2019-02-02&tn=orders&sp=r&se=2027-01-31T12:00:00Z&sig=…'\n  \
        tabulith sas decode \"$TOKEN\" --operation query -t orders --partition-key tenant-7 --row-key 0042")]
    Decode(DecodeArgs),
}

/// What to sign.
#[derive(Args, Clone, Debug)]
pub(crate) struct CreateSasArgs {
    /// The table; without it the token is for the whole account.
    #[arg(short, long, alias = "name", value_name = "NAME")]
    pub(crate) table_name: Option<String>,
    /// What it allows. For a table: (r)ead, (a)dd, (u)pdate, (d)elete; for the account also
    /// (w)rite, (l)ist, (c)reate. Not needed where the stored policy says it.
    #[arg(long, value_name = "LETTERS", required_unless_present = "policy_name")]
    pub(crate) permissions: Option<String>,
    /// When it ends: a time such as 2027-01-31T12:00Z, or from now on 90m, 8h, 30d.
    #[arg(long, value_name = "WHEN", required_unless_present = "policy_name")]
    pub(crate) expiry: Option<String>,
    /// When it begins to hold.
    #[arg(long, value_name = "WHEN")]
    pub(crate) start: Option<String>,
    /// The stored policy of the table that says the rest.
    #[arg(long, value_name = "ID", requires = "table_name")]
    #[arg(value_parser = given())]
    pub(crate) policy_name: Option<String>,
    /// The address, or FIRST-LAST, that it may be used from.
    #[arg(long, value_name = "ADDRESS")]
    #[arg(value_parser = given())]
    pub(crate) ip: Option<String>,
    /// Only over HTTPS.
    #[arg(long)]
    pub(crate) https_only: bool,
    /// The least PartitionKey.
    #[arg(long, value_name = "TEXT", requires = "table_name", allow_hyphen_values = true)]
    #[arg(value_parser = given())]
    pub(crate) start_pk: Option<String>,
    /// The least RowKey in it.
    #[arg(long, value_name = "TEXT", requires = "start_pk", allow_hyphen_values = true)]
    pub(crate) start_rk: Option<String>,
    /// The greatest PartitionKey.
    #[arg(long, value_name = "TEXT", requires = "table_name", allow_hyphen_values = true)]
    #[arg(value_parser = given())]
    pub(crate) end_pk: Option<String>,
    /// The greatest RowKey in it.
    #[arg(long, value_name = "TEXT", requires = "end_pk", allow_hyphen_values = true)]
    #[arg(value_parser = given())]
    pub(crate) end_rk: Option<String>,
    /// For the account: (s)ervice, (c)ontainers, which tables are, (o)bjects, which entities are.
    #[arg(long, value_name = "LETTERS", default_value = "sco", conflicts_with = "table_name")]
    pub(crate) resource_types: String,
    /// Print the address with the token, which is a connection string too.
    #[arg(long)]
    pub(crate) uri: bool,
    /// Whose key signs it.
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// What to explain, and for which request.
#[derive(Args, Clone, Debug)]
pub(crate) struct DecodeArgs {
    /// The token, or an address with it; - for stdin.
    #[arg(value_name = "TOKEN", allow_hyphen_values = true)]
    pub(crate) token: String,
    /// An operation that it should allow.
    #[arg(long, value_enum)]
    pub(crate) operation: Option<Operation>,
    /// The table of the operation.
    #[arg(short, long, value_name = "NAME", requires = "operation")]
    pub(crate) table_name: Option<String>,
    /// The PartitionKey of its entity.
    #[arg(long, value_name = "TEXT", requires_all = ["operation", "row_key"], allow_hyphen_values = true)]
    pub(crate) partition_key: Option<String>,
    /// The RowKey of its entity.
    #[arg(long, value_name = "TEXT", requires = "partition_key", allow_hyphen_values = true)]
    pub(crate) row_key: Option<String>,
    /// The address that it is used from.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) ip: Option<IpAddr>,
    /// Form of the output.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,
    /// Whose key should have signed it. Without a flag that names a key the signature is not
    /// judged, but for the development account.
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// An operation, in the words of permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Operation {
    /// Get or query entities.
    Query,
    /// Insert an entity.
    Insert,
    /// Insert or change an entity.
    Upsert,
    /// Replace or merge an entity.
    Update,
    /// Delete an entity.
    Delete,
    /// List tables.
    ListTables,
    /// Make a table.
    CreateTable,
    /// Delete a table.
    DeleteTable,
}
