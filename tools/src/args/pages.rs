//! What is printed about the program itself: `completions`, `man`.

use clap::Args;
use clap_complete::Shell;
use std::path::PathBuf;

/// For which shell.
#[derive(Args, Clone, Debug)]
#[command(before_help = "Example:\n  \
    tabulith completions bash > ~/.local/share/bash-completion/completions/tabulith")]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// Where to.
#[derive(Args, Clone, Debug)]
#[command(before_help = "Examples:\n  tabulith man | man -l -\n  \
    tabulith man ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// The folder for one page a command; without it the page of `tabulith` goes to stdout.
    #[arg(value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}
