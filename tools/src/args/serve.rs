//! How to serve.

use clap::{Args, ValueEnum};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use tabulith::options::Durability;
use tabulith_server::config::Throttling;
use tabulith_server::source::Network;

/// How to serve.
#[derive(Args, Clone, Debug)]
#[command(before_help = "Examples:\n  tabulith serve\n  \
    tabulith serve --data-dir /var/lib/tabulith --accounts-file accounts --silent\n  \
    tabulith serve --tls-listen 127.0.0.1:10443 --tls-self-signed ca.pem")]
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
    /// MiB for request bodies that are held at once, 503 beyond them. A sixteenth of the memory if
    /// nothing is said, of 32 to 256.
    #[arg(long, value_name = "MiB", help_heading = "Load")]
    #[arg(env = "TABULITH_BODY_MEMORY", value_parser = clap::value_parser!(u32).range(16..=1_048_576))]
    pub(crate) body_memory: Option<u32>,
    /// MiB for answers that are held until clients have taken them, 503 to reads beyond them. A
    /// sixteenth of the memory if nothing is said, of 32 to 256. A page is a sixteenth of that at most.
    #[arg(long, value_name = "MiB", help_heading = "Load")]
    #[arg(env = "TABULITH_ANSWER_MEMORY", value_parser = clap::value_parser!(u32).range(32..=1_048_576))]
    pub(crate) answer_memory: Option<u32>,
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
