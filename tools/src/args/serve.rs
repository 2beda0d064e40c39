//! How to serve.

use clap::{Args, ValueEnum};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;
use tabulith::options::Durability;
use tabulith_server::config::{HotPartitions, Throttling};
use tabulith_server::source::Network;

/// How to serve.
#[derive(Args, Clone, Debug)]
#[command(
    before_help = "Examples:\n  tabulith serve\n  \
    tabulith serve --data-dir /var/lib/tabulith --accounts-file accounts\n  \
    tabulith serve --history 24h\n  \
    tabulith serve --tls-listen 127.0.0.1:10443 --tls-self-signed ca.pem\n  \
    tabulith serve --config tabulith.toml --admin-address 0.0.0.0:10003 --log-format json",
    after_help = "Settings come from flags, else from the variables named here, else from the file of --config,
else they have their defaults. The file is TOML, its keys are the long flags without their dashes:
`tabulith config print` shows each value and where it came from, in that form."
)]
pub(crate) struct ServeArgs {
    /// File of settings, in TOML; flags and variables go before it.
    #[arg(long, value_name = "FILE", env = "TABULITH_CONFIG")]
    pub(crate) config: Option<PathBuf>,
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
    /// Tables to load before it serves: NAME.jsonl or NAME.csv, plain or gzip, with columns
    /// PartitionKey and RowKey. A table that is there already is left as it is.
    #[arg(long, value_name = "DIR", env = "TABULITH_SEED_DIR")]
    pub(crate) seed: Option<PathBuf>,
    /// How safe a write is when it is acknowledged.
    #[arg(long, value_enum, default_value_t = DurabilityArg::Synced, env = "TABULITH_DURABILITY")]
    pub(crate) durability: DurabilityArg,
    /// How far back tables can be read, by the header x-tabulith-as-of: a number and s, m, h or d.
    /// What was replaced or deleted takes its space for as long; 0 for no history. Without it as
    /// the folder was last served, a new one with none.
    #[arg(long, value_name = "SPAN", env = "TABULITH_HISTORY")]
    #[arg(value_parser = span)]
    pub(crate) history: Option<Duration>,
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
    /// Believe the clock though it stands more than 15 minutes behind the newest commit, as it does
    /// once one that was ahead is right again: what expired in between counts again.
    #[arg(long, help_heading = "Access")]
    pub(crate) believe_clock: bool,
    /// Connections served at once; more wait. Fewer where the system allows fewer open files, or
    /// where there is little memory.
    #[arg(long, value_name = "N", default_value_t = 10_000, help_heading = "Load")]
    #[arg(env = "TABULITH_CONNECTIONS", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) connections: u32,
    /// Connections served at once to one address, or to one IPv6 network of 64 bits; more are
    /// closed. Trusted proxies are not counted.
    #[arg(long, value_name = "N", help_heading = "Load")]
    #[arg(env = "TABULITH_CONNECTIONS_PER_ADDRESS")]
    pub(crate) connections_per_address: Option<NonZeroU32>,
    /// MiB of the database, for memtables, caches and the work on files. A quarter of the memory if
    /// nothing is said; 128 at least, or a third of the memory where this is less.
    #[arg(long, value_name = "MiB", help_heading = "Load")]
    #[arg(env = "TABULITH_MEMORY", value_parser = clap::value_parser!(u32).range(32..=1_048_576))]
    pub(crate) memory: Option<u32>,
    /// MiB for request bodies that are held at once, 503 beyond them. A sixteenth of the memory if
    /// nothing is said, of 32 to 256.
    #[arg(long, value_name = "MiB", help_heading = "Load")]
    #[arg(env = "TABULITH_BODY_MEMORY", value_parser = clap::value_parser!(u32).range(16..=1_048_576))]
    pub(crate) body_memory: Option<u32>,
    /// MiB for answers that are held until clients have taken them, 503 beyond them. A sixteenth of
    /// the memory if nothing is said, of 32 to 256. A page is a sixteenth of that at most.
    #[arg(long, value_name = "MiB", help_heading = "Load")]
    #[arg(env = "TABULITH_ANSWER_MEMORY", value_parser = clap::value_parser!(u32).range(32..=1_048_576))]
    pub(crate) answer_memory: Option<u32>,
    /// Hours within which every byte of the data is read once to find damage early; 0 for never.
    #[arg(long, value_name = "HOURS", default_value_t = 24, help_heading = "Load")]
    #[arg(env = "TABULITH_SCRUB_HOURS", value_parser = clap::value_parser!(u32).range(0..=87_600))]
    pub(crate) scrub_hours: u32,
    /// Where operators ask for /_/live, /_/ready and /_/metrics, without credentials, and nobody
    /// else does. They are answered on the port of the tables otherwise, to this machine alone.
    #[arg(
        long,
        value_name = "IP:PORT",
        help_heading = "Operation",
        env = "TABULITH_ADMIN_ADDRESS"
    )]
    pub(crate) admin_address: Option<SocketAddr>,
    /// Whether the partitions of which most entities are read or written are counted: by rank, or
    /// by name at /_/hot too.
    #[arg(long, value_enum, default_value_t = HotArg::Ranks, help_heading = "Operation")]
    #[arg(env = "TABULITH_HOT_PARTITIONS")]
    pub(crate) hot_partitions: HotArg,
    /// Form of the log.
    #[arg(long, value_enum, default_value_t = LogFormat::Text, help_heading = "Operation")]
    #[arg(env = "TABULITH_LOG_FORMAT")]
    pub(crate) log_format: LogFormat,
    /// Milliseconds from which on a request is told to the log as slow; 0 for never.
    #[arg(long, value_name = "MS", default_value_t = 1_000, help_heading = "Operation")]
    #[arg(env = "TABULITH_SLOW_REQUEST_MS", value_parser = clap::value_parser!(u64).range(0..=3_600_000))]
    pub(crate) slow_request_ms: u64,
    /// Where spans of requests go, by OTLP over HTTP: the address of a collector, without
    /// /v1/traces. For builds with the feature `otlp`.
    #[arg(long, value_name = "URL", help_heading = "Operation")]
    pub(crate) otlp_endpoint: Option<String>,
    /// For tests of applications: POST /_/reset empties all accounts, POST /_/accounts makes one,
    /// POST /_/fork serves a copy of all data beside it. Whoever may ask for /_/ready may do that.
    #[arg(long, help_heading = "Operation", conflicts_with = "accounts_file")]
    pub(crate) testing: bool,
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
    /// Print nothing but errors, such as damage that was found and background work that failed.
    #[arg(short, long)]
    pub(crate) silent: bool,
    /// Write a detailed log to this file.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) debug: Option<PathBuf>,
    /// As Azurite has it: keep data until the end of the process only.
    #[arg(long = "inMemoryPersistence", hide = true)]
    pub(crate) in_memory: bool,
    /// As Azurite has it: serve over TLS in place of plain HTTP, with this certificate in PEM.
    #[arg(long = "cert", value_name = "FILE", hide = true)]
    #[arg(requires = "key", conflicts_with_all = ["tls_cert", "tls_self_signed", "tls_listen"])]
    pub(crate) cert: Option<PathBuf>,
    /// The private key of --cert, in PEM.
    #[arg(long = "key", value_name = "FILE", hide = true, requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// Refused: certificates come in PEM here.
    #[arg(long = "pwd", value_name = "PASSWORD", hide = true)]
    pub(crate) pwd: Option<String>,
    /// Accepted for Azurite's sake; there are no blobs and no queues.
    #[command(flatten)]
    pub(crate) azurite: AzuriteArgs,
    /// Accepted for Azurite's sake: unknown headers and parameters are always ignored here.
    #[arg(short = 'L', long, hide = true)]
    pub(crate) loose: bool,
    /// Accepted for Azurite's sake: every service version is always accepted here.
    #[arg(long = "skipApiVersionCheck", hide = true)]
    pub(crate) skip_api_version_check: bool,
}

/// Flags of Azurite that mean nothing here.
#[derive(Args, Clone, Debug, Default)]
#[group(skip)]
#[allow(missing_docs, reason = "their names are all there is")]
pub(crate) struct AzuriteArgs {
    #[arg(long = "blobHost", hide = true)]
    pub(crate) blob_host: Option<String>,
    #[arg(long = "blobPort", hide = true)]
    pub(crate) blob_port: Option<String>,
    #[arg(long = "blobKeepAliveTimeout", hide = true)]
    pub(crate) blob_keep_alive: Option<String>,
    #[arg(long = "queueHost", hide = true)]
    pub(crate) queue_host: Option<String>,
    #[arg(long = "queuePort", hide = true)]
    pub(crate) queue_port: Option<String>,
    #[arg(long = "queueKeepAliveTimeout", hide = true)]
    pub(crate) queue_keep_alive: Option<String>,
    #[arg(long = "tableKeepAliveTimeout", hide = true)]
    pub(crate) table_keep_alive: Option<String>,
    #[arg(long = "extentMemoryLimit", hide = true)]
    pub(crate) extent_memory_limit: Option<String>,
    #[arg(long = "disableProductStyleUrl", hide = true)]
    pub(crate) disable_product_style_url: bool,
    #[arg(long = "disableTelemetry", hide = true)]
    pub(crate) disable_telemetry: bool,
}

impl AzuriteArgs {
    /// What is said of those that are given.
    pub(crate) fn told(&self) -> Vec<&'static str> {
        let given = [
            (self.blob_host.is_some(), "--blobHost means nothing here: there are no blobs"),
            (self.blob_port.is_some(), "--blobPort means nothing here: there are no blobs"),
            (
                self.blob_keep_alive.is_some(),
                "--blobKeepAliveTimeout means nothing here: there are no blobs",
            ),
            (self.queue_host.is_some(), "--queueHost means nothing here: there are no queues"),
            (self.queue_port.is_some(), "--queuePort means nothing here: there are no queues"),
            (
                self.queue_keep_alive.is_some(),
                "--queueKeepAliveTimeout means nothing here: there are no queues",
            ),
            (
                self.table_keep_alive.is_some(),
                "--tableKeepAliveTimeout means nothing here: idle connections stay for two minutes",
            ),
            (
                self.extent_memory_limit.is_some(),
                "--extentMemoryLimit means nothing here: there are no blobs",
            ),
            (
                self.disable_product_style_url,
                "--disableProductStyleUrl means nothing here: an account is named by the path",
            ),
        ];
        given.into_iter().filter(|(is_given, _)| *is_given).map(|(_, text)| text).collect()
    }
}

/// Whether partitions are counted, and told by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HotArg {
    /// Not at all.
    Off,
    /// How often, not which.
    Ranks,
    /// With their names, which are data of the tables.
    Names,
}

impl From<HotArg> for HotPartitions {
    fn from(arg: HotArg) -> HotPartitions {
        match arg {
            HotArg::Off => HotPartitions::Off,
            HotArg::Ranks => HotPartitions::Ranks,
            HotArg::Names => HotPartitions::Names,
        }
    }
}

/// Form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// A line of text an event.
    Text,
    /// An object of JSON an event.
    Json,
}

/// Reads a span of time: `24h`, `90s`, `7d`, or `0`.
fn span(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        "" if number == "0" => 0,
        _ => return Err("a whole number and s, m, h or d are needed, as in 24h".to_owned()),
    };
    let number = number.parse::<u64>().map_err(|_| format!("'{number}' is no number"))?;
    let span = number.checked_mul(seconds).filter(|span| *span <= HISTORY_S_MAX);
    span.map(Duration::from_secs).ok_or_else(|| "a hundred years are the longest".to_owned())
}

/// A hundred years.
const HISTORY_S_MAX: u64 = 100 * 366 * 86_400;

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
