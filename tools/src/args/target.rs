//! Which tables a command works on.

use clap::Args;
use std::path::PathBuf;

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
