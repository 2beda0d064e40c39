//! The command line, as data.

use crate::exit;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use tabulith::options::Durability;
use tabulith_server::config::Throttling;
use tabulith_server::source::Network;

/// Azure Table Storage that you own.
///
/// Without a command it serves, as `tabulith serve` does: an endpoint on 127.0.0.1:10002 that the
/// Azure SDKs talk to unchanged, with its data in ./tabulith-data.
#[derive(Debug, Parser)]
#[command(name = "tabulith", version, after_help = exit::HELP, max_term_width = 100)]
#[command(subcommand_required = true, override_usage = "tabulith [COMMAND] [OPTIONS]")]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Parses the words of a command line; those that begin with a flag are meant for `serve`.
    ///
    /// Flattening the flags of `serve` into the top level would do the same, but then a variable
    /// like `TABULITH_PORT` could break every other command.
    pub(crate) fn of(words: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
        let mut words: Vec<OsString> = words.into_iter().collect();
        let own = ["-h", "--help", "-V", "--version"];
        let first = words.get(1).map(|word| word.to_string_lossy());
        if first.is_none_or(|word| word.starts_with('-') && !own.contains(&&*word)) {
            words.insert(words.len().min(1), OsString::from("serve"));
        }
        Cli::try_parse_from(words)
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve tables over HTTP; this is what happens without a command.
    Serve(ServeArgs),
    /// Load CSV or JSON lines files into a table.
    Import(ImportArgs),
    /// Print the rows that match a filter.
    Query(QueryArgs),
    /// Print a whole table.
    Export(ExportArgs),
    /// Read every file of a data folder and report damage.
    Check(CheckArgs),
    /// Rebuild what is readable of a damaged data folder in a new one, and list what is lost.
    Salvage(SalvageArgs),
    /// Ask an endpoint whether it answers as Azure Table Storage does, row by row.
    Conformance(ConformanceArgs),
}

/// How to serve.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServeArgs {
    /// Address to listen on.
    #[arg(long, alias = "tableHost", value_name = "IP", default_value = "127.0.0.1")]
    #[arg(env = "TABULITH_LISTEN")]
    pub(crate) listen: IpAddr,
    /// Port to listen on; 0 takes a free one and prints it.
    #[arg(long, alias = "tablePort", value_name = "PORT", default_value_t = 10002)]
    #[arg(env = "TABULITH_PORT")]
    pub(crate) port: u16,
    /// Folder of the data; made where it does not exist.
    #[arg(short = 'l', long, alias = "location", value_name = "DIR")]
    #[arg(default_value = "tabulith-data", env = "TABULITH_DATA_DIR")]
    pub(crate) data_dir: PathBuf,
    /// How safe a write is when it is acknowledged.
    #[arg(long, value_enum, default_value_t = DurabilityArg::Synced, env = "TABULITH_DURABILITY")]
    pub(crate) durability: DurabilityArg,
    /// Address and port to listen on for TLS too; port 0 takes a free one and prints it.
    #[arg(long, value_name = "IP:PORT", help_heading = "TLS", env = "TABULITH_TLS_LISTEN")]
    #[arg(requires = "identity")]
    pub(crate) tls_listen: Option<SocketAddr>,
    /// The certificate and those that lead to its root, in PEM; SIGHUP has it read anew.
    #[arg(long, value_name = "FILE", help_heading = "TLS", env = "TABULITH_TLS_CERT")]
    #[arg(requires_all = ["tls_key", "tls_listen"], group = "identity")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The certificate's private key, in PEM.
    #[arg(long, value_name = "FILE", help_heading = "TLS", env = "TABULITH_TLS_KEY")]
    #[arg(requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Make a certificate for localhost at the start, and write it to this file for clients to
    /// trust. For development.
    #[arg(long, value_name = "FILE", help_heading = "TLS", requires = "tls_listen")]
    #[arg(group = "identity")]
    pub(crate) tls_self_signed: Option<PathBuf>,
    /// Serve the published development key also to other machines.
    #[arg(long)]
    pub(crate) development_key_for_all: bool,
    /// File of accounts in the form of AZURITE_ACCOUNTS, name:key1[:key2];…; read every minute.
    #[arg(long, value_name = "FILE", env = "TABULITH_ACCOUNTS_FILE", help_heading = "Access")]
    pub(crate) accounts_file: Option<PathBuf>,
    /// Proxy, or network of proxies, whose X-Forwarded-For is believed.
    #[arg(long = "trusted-proxy", value_name = "NETWORK", help_heading = "Access")]
    pub(crate) trusted_proxies: Vec<Network>,
    /// Accept bearer tokens: `basic` without a look at their signature, for development; or a JWKS
    /// file with the keys that sign them, read every minute.
    #[arg(long, value_name = "basic|FILE", help_heading = "Access")]
    pub(crate) oauth: Option<PathBuf>,
    /// Who may issue tokens: the issuer, or what it begins with.
    #[arg(long = "oauth-issuer", value_name = "URL", requires = "oauth", help_heading = "Access")]
    pub(crate) oauth_issuers: Vec<String>,
    /// For whom tokens may be, beside Azure Storage and the account.
    #[arg(long = "oauth-audience", value_name = "TEXT", requires = "oauth")]
    #[arg(help_heading = "Access")]
    pub(crate) oauth_audiences: Vec<String>,
    /// A role for the bearer of that object id, such as "Storage Table Data Reader".
    #[arg(
        long = "oauth-role",
        value_name = "OID=ROLE",
        requires = "oauth",
        help_heading = "Access"
    )]
    #[arg(value_parser = role)]
    pub(crate) oauth_roles: Vec<(String, String)>,
    /// Accept tokens without TLS too: whoever reads one on its way may use it.
    #[arg(long, requires = "oauth", help_heading = "Access")]
    pub(crate) oauth_without_tls: bool,
    /// Connections served at once; more wait. Fewer where the system allows fewer open files.
    #[arg(long, value_name = "N", default_value_t = 10_000, help_heading = "Load")]
    #[arg(env = "TABULITH_CONNECTIONS", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) connections: u32,
    /// Connections served at once to one address; more are closed. Trusted proxies are not counted.
    #[arg(long, value_name = "N", help_heading = "Load")]
    #[arg(env = "TABULITH_CONNECTIONS_PER_ADDRESS")]
    pub(crate) connections_per_address: Option<NonZeroU32>,
    /// MiB for request bodies that are held at once, 503 beyond them.
    #[arg(long, value_name = "MiB", default_value_t = 256, help_heading = "Load")]
    #[arg(env = "TABULITH_BODY_MEMORY", value_parser = clap::value_parser!(u32).range(16..=1_048_576))]
    pub(crate) body_memory: u32,
    /// MiB for answers that are held until clients have taken them, 503 to reads beyond them.
    #[arg(long, value_name = "MiB", default_value_t = 256, help_heading = "Load")]
    #[arg(env = "TABULITH_ANSWER_MEMORY", value_parser = clap::value_parser!(u32).range(128..=1_048_576))]
    pub(crate) answer_memory: u32,
    /// Hours within which every byte of the data is read once to find damage early; 0 for never.
    #[arg(long, value_name = "HOURS", default_value_t = 24, help_heading = "Load")]
    #[arg(env = "TABULITH_SCRUB_HOURS", value_parser = clap::value_parser!(u32).range(0..=87_600))]
    pub(crate) scrub_hours: u32,
    /// Entities per second of a partition, 503 beyond them; `azure` for Azure's target, 2000.
    #[arg(long, value_name = "N|azure", help_heading = "Trouble on purpose")]
    #[arg(value_parser = |text: &str| rate(text, Throttling::AZURE.partition_entities))]
    pub(crate) throttle_partition: Option<NonZeroU32>,
    /// Requests per second of an account, 503 beyond them; `azure` for Azure's target, 20000.
    #[arg(long, value_name = "N|azure", help_heading = "Trouble on purpose")]
    #[arg(value_parser = |text: &str| rate(text, Throttling::AZURE.account_requests))]
    pub(crate) throttle_account: Option<NonZeroU32>,
    /// Have requests fail by the rules in this file, or as their header x-tabulith-fault says. For
    /// tests of clients; docs/fault-lab.md describes both.
    #[arg(long, value_name = "RULES-FILE", help_heading = "Trouble on purpose")]
    pub(crate) fault_lab: Option<PathBuf>,
    /// The seed of the rules that go by chance, in place of the one in the file.
    #[arg(long, value_name = "N", requires = "fault_lab", help_heading = "Trouble on purpose")]
    pub(crate) fault_seed: Option<u64>,
    /// Print nothing but errors.
    #[arg(long)]
    pub(crate) silent: bool,
    /// Write a detailed log to this file.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) debug: Option<PathBuf>,
    /// Accepted for Azurite's sake: unknown headers and parameters are always ignored here.
    #[arg(long, hide = true)]
    pub(crate) loose: bool,
    /// Accepted for Azurite's sake: every service version is always accepted here.
    #[arg(long = "skipApiVersionCheck", hide = true)]
    pub(crate) skip_api_version_check: bool,
}

/// Reads a rate: a number, or the word for Azure's.
fn rate(text: &str, azure: Option<NonZeroU32>) -> Result<NonZeroU32, String> {
    let rate = if text == "azure" { azure } else { text.parse().ok() };
    rate.ok_or_else(|| format!("a whole number from 1 to {} or `azure` is needed", u32::MAX))
}

/// Reads `OID=ROLE`.
fn role(text: &str) -> Result<(String, String), String> {
    let (object, role) = text.split_once('=').ok_or("an object id, '=' and a role are needed")?;
    Ok((object.to_owned(), role.to_owned()))
}

/// How safe a write is when it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DurabilityArg {
    /// Synced to the disk: survives a power cut.
    Synced,
    /// Handed to the operating system: survives the end of the process.
    Flushed,
    /// In memory for a few milliseconds: a crash loses the latest writes.
    Buffered,
}

impl From<DurabilityArg> for Durability {
    fn from(arg: DurabilityArg) -> Durability {
        match arg {
            DurabilityArg::Synced => Durability::Synced,
            DurabilityArg::Flushed => Durability::Flushed,
            DurabilityArg::Buffered => Durability::Buffered,
        }
    }
}

/// Which tables: a server's, or those of a folder that no server has open.
#[derive(Args, Clone, Debug)]
pub(crate) struct TargetArgs {
    /// The server and its key, or an address with a shared access signature. Without it:
    /// AZURE_STORAGE_CONNECTION_STRING, then AZURE_STORAGE_ACCOUNT with AZURE_STORAGE_KEY or
    /// AZURE_STORAGE_SAS_TOKEN, then the development account on 127.0.0.1:10002.
    #[arg(long, value_name = "TEXT", conflicts_with = "data_dir", help_heading = "Where")]
    pub(crate) connection_string: Option<String>,
    /// Certificates to trust beside the machine's authorities, in PEM: those of an authority, or
    /// the file that `serve --tls-self-signed` has written.
    #[arg(long, value_name = "FILE", conflicts_with = "data_dir", help_heading = "Where")]
    pub(crate) ca: Option<PathBuf>,
    /// A data folder, opened directly instead of through a server.
    #[arg(long, value_name = "DIR", help_heading = "Where")]
    pub(crate) data_dir: Option<PathBuf>,
    /// The account inside the folder.
    #[arg(long, value_name = "NAME", default_value = "devstoreaccount1")]
    #[arg(requires = "data_dir", help_heading = "Where")]
    pub(crate) account_name: String,
}

/// What to import, as what, and where.
#[derive(Args, Clone, Debug)]
#[command(after_help = IMPORT_HELP)]
pub(crate) struct ImportArgs {
    /// CSV with a header line, or JSON lines; plain or gzip.
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

const IMPORT_HELP: &str = "Key templates:
  {col}         the column's text, as the file has it
  {col:05}      zeros in front, up to 5 characters: numbers then sort as text
  {col|/=~}     every `/` replaced by `~`; a key may not hold / \\ # ? or control characters
  {{ and }}     a brace

Types come from the whole file, which is read once before the first row is written: Int32,
Int64, Double, Boolean, DateTime, Guid or String, the narrowest that holds every value. A cell
without a value is not stored, but its text still makes a key.

Rows are inserted or replaced, in batches of up to 100 rows of a partition. After an interruption
the same command goes on where it stopped; rows that were on their way are written again. How far
it came is kept in $XDG_STATE_HOME/tabulith/imports, else in ~/.local/state/tabulith/imports.
Two rows with the same keys are an error: the second one is a bad row.

Examples:
  tabulith import flights.csv.gz -t flights --null NA \\
    --partition-key '{origin}-{carrier}' \\
    --row-key '{month:02}{day:02}-{sched_dep_time:04}-{flight:05}'
  tabulith export flights -o jsonl > flights.jsonl && tabulith import flights.jsonl -t copy";

/// What to ask of a table.
#[derive(Args, Clone, Debug)]
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
    /// Form of the output.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,
    /// Where the table is.
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// What to export.
#[derive(Args, Clone, Debug)]
pub(crate) struct ExportArgs {
    /// The table.
    #[arg(value_name = "TABLE")]
    pub(crate) table: String,
    /// Form of the output: JSON lines keep every type, CSV does not.
    #[arg(short, long, value_enum, default_value_t = Output::Jsonl)]
    pub(crate) output: Output,
    /// Condition on the rows.
    #[arg(long, value_name = "FILTER")]
    pub(crate) filter: Option<String>,
    /// Columns to print beside the keys. Without it CSV reads the table twice to know its columns.
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',')]
    pub(crate) select: Option<Vec<String>>,
    /// Where the table is.
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

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

/// What to check.
#[derive(Args, Clone, Debug)]
pub(crate) struct CheckArgs {
    /// A data folder that no server has open.
    #[arg(value_name = "DIR")]
    pub(crate) data_dir: PathBuf,
}

/// What to salvage, and where to.
#[derive(Args, Clone, Debug)]
pub(crate) struct SalvageArgs {
    /// A data folder that no server has open. Nothing in it is changed.
    #[arg(value_name = "DIR")]
    pub(crate) data_dir: PathBuf,
    /// The folder to make: empty or absent, and not below DIR.
    #[arg(value_name = "NEWDIR")]
    pub(crate) new_dir: PathBuf,
}

/// Whom to ask, and what.
#[derive(Args, Clone, Debug)]
pub(crate) struct ConformanceArgs {
    /// Address of an account, such as http://127.0.0.1:10002/devstoreaccount1, or a connection
    /// string. Tables of fresh names are made and removed there.
    #[arg(value_name = "ENDPOINT")]
    pub(crate) endpoint: String,
    /// The account, where the address does not name it.
    #[arg(long, value_name = "NAME")]
    pub(crate) account: Option<String>,
    /// Its key. Without it: that of the development account, or AZURE_STORAGE_KEY.
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// Its second key, for the rows about it.
    #[arg(long, value_name = "KEY")]
    pub(crate) second_key: Option<String>,
    /// Certificates to trust beside the machine's authorities, in PEM.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Only rows whose id begins so. May be repeated.
    #[arg(long, value_name = "ID")]
    pub(crate) only: Vec<String>,
    /// Only rows that are known so: R, T, D, C, S, A, I, K, DECISION.
    #[arg(long, value_name = "MARK,…", value_delimiter = ',')]
    pub(crate) provenance: Vec<String>,
    /// Ask also the rows that change the properties of the service; they are put back.
    #[arg(long)]
    pub(crate) allow_service_changes: bool,
    /// Rows asked at once.
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) jobs: u16,
    /// Print the rows (id, provenance, section, what it says, test) and ask nothing.
    #[arg(long)]
    pub(crate) list: bool,
    /// Form of the report.
    #[arg(short, long, value_enum, default_value_t = ReportForm::Text)]
    pub(crate) output: ReportForm,
}

/// A form of the report on an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportForm {
    /// Each failure with request, expected and got; then the score.
    Text,
    /// One JSON object with the score and every row.
    Json,
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    fn serve_args(words: &[&str]) -> ServeArgs {
        let words = ["tabulith"].iter().chain(words).map(OsString::from);
        match Cli::of(words).unwrap().command {
            Command::Serve(args) => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn no_command_is_serve_with_its_flags() {
        assert_eq!(serve_args(&[]).port, 10002);
        let args = serve_args(&["--port", "0", "-l", "x"]);
        assert_eq!((args.port, args.data_dir), (0, PathBuf::from("x")));
        assert_eq!(serve_args(&["serve", "--port", "1"]).port, 1);
    }

    #[test]
    fn rates_are_numbers_or_azures() {
        let rates = |words: &[&str]| {
            let args = serve_args(words);
            let plain = |rate: Option<NonZeroU32>| rate.map(NonZeroU32::get);
            (plain(args.throttle_partition), plain(args.throttle_account))
        };
        assert_eq!(rates(&[]), (None, None));
        assert_eq!(rates(&["--throttle-partition", "7"]), (Some(7), None));
        let azure = ["--throttle-partition", "azure", "--throttle-account", "azure"];
        assert_eq!(rates(&azure), (Some(2_000), Some(20_000)));
        for text in ["0", "-1", "x", "4294967296", ""] {
            let words = ["tabulith", "serve", "--throttle-account", text];
            assert!(Cli::of(words.map(OsString::from)).is_err(), "{text}");
        }
    }

    #[test]
    fn a_seed_needs_a_lab() {
        let words = ["tabulith", "serve", "--fault-seed", "1"];
        assert!(Cli::of(words.map(OsString::from)).is_err());
        let args = serve_args(&["--fault-lab", "rules", "--fault-seed", "1"]);
        assert_eq!((args.fault_lab, args.fault_seed), (Some(PathBuf::from("rules")), Some(1)));
    }

    #[test]
    fn help_and_other_commands_are_not_serve() {
        for words in [["tabulith", "--help"], ["tabulith", "-V"], ["tabulith", "improt"]] {
            assert!(Cli::of(words.map(OsString::from)).is_err(), "{words:?}");
        }
        let check = Cli::of(["tabulith", "check", "d"].map(OsString::from)).unwrap();
        assert!(matches!(check.command, Command::Check(_)));
    }

    #[test]
    fn flags_of_azurite_are_understood() {
        let words = ["--tableHost", "0.0.0.0", "--tablePort", "1", "--location", "d"];
        let more = ["--silent", "--loose", "--skipApiVersionCheck", "-d", "log"];
        let args = serve_args(&[&words[..], &more].concat());
        assert_eq!((args.listen.to_string().as_str(), args.port), ("0.0.0.0", 1));
        assert!(args.silent);
    }
}
