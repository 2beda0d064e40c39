//! Which tables a command works on.

use clap::Args;
use std::path::PathBuf;

/// Which tables: a server's, or those of a folder that no server has open.
#[derive(Args, Clone, Debug, Default)]
#[group(skip)]
pub(crate) struct TargetArgs {
    /// The server and its key, or an address with a shared access signature. What flags do not say
    /// is looked for in --profile, without it in the variables of `az`
    /// (AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_ACCOUNT, AZURE_STORAGE_KEY,
    /// AZURE_STORAGE_SAS_TOKEN, and AZURE_STORAGE_SERVICE_ENDPOINT for --table-endpoint). Where no
    /// flag says anything, the profile that TABULITH_PROFILE names goes before these, the profile
    /// `default` behind them; in the end it is the development account on 127.0.0.1:10002.
    #[arg(long, value_name = "TEXT", conflicts_with = "data_dir", help_heading = "Where")]
    pub(crate) connection_string: Option<String>,
    /// The account; in a folder and without a server's name that of development.
    #[arg(long, value_name = "NAME", help_heading = "Where")]
    #[arg(conflicts_with = "connection_string")]
    pub(crate) account_name: Option<String>,
    /// A file that holds the account's key; other programs cannot read it off the command line.
    #[arg(long, value_name = "FILE", help_heading = "Where")]
    #[arg(conflicts_with_all = ["connection_string", "data_dir", "sas_token"])]
    pub(crate) key_file: Option<PathBuf>,
    /// The account's key. Other users of the machine can see it: --key-file or a variable is
    /// better.
    #[arg(long, value_name = "KEY", hide = true)]
    #[arg(conflicts_with_all = ["connection_string", "data_dir", "sas_token", "key_file"])]
    pub(crate) account_key: Option<String>,
    /// A shared access signature in place of a key.
    #[arg(long, value_name = "TOKEN", help_heading = "Where")]
    #[arg(conflicts_with_all = ["connection_string", "data_dir"])]
    pub(crate) sas_token: Option<String>,
    /// The address of the account's tables, where it is not Azure's own.
    #[arg(long, value_name = "URL", help_heading = "Where", alias = "service-endpoint")]
    #[arg(conflicts_with_all = ["connection_string", "data_dir"])]
    pub(crate) table_endpoint: Option<String>,
    /// A section of $XDG_CONFIG_HOME/tabulith/profiles.toml (~/.config without it), whose settings
    /// have the names of these flags and count where those are not given. Without flags that say
    /// where, the variable TABULITH_PROFILE names one too.
    #[arg(long, value_name = "NAME", help_heading = "Where")]
    pub(crate) profile: Option<String>,
    /// Certificates to trust beside the machine's authorities, in PEM: those of an authority, or
    /// the file that `serve --tls-self-signed` has written.
    #[arg(long, value_name = "FILE", conflicts_with = "data_dir", help_heading = "Where")]
    pub(crate) ca: Option<PathBuf>,
    /// A data folder, opened directly instead of through a server.
    #[arg(long, value_name = "DIR", help_heading = "Where")]
    pub(crate) data_dir: Option<PathBuf>,
}
