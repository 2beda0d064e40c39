//! What to do with the settings of `serve`.

use crate::args::serve::ServeArgs;
use clap::{Args, Subcommand};

/// What to do with settings.
#[derive(Args, Clone, Debug)]
#[command(before_help = "Example:\n  tabulith config print --config tabulith.toml")]
pub(crate) struct ConfigArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) what: ConfigCommand,
}

/// What is done with settings.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print the settings that `serve` would have with these flags, and where each came from.
    #[command(before_help = "Examples:\n  tabulith config print\n  \
        tabulith config print --config tabulith.toml --port 10005 > effective.toml")]
    Print(Box<ServeArgs>),
}
