//! `tabulith completions` and `tabulith man`: what shells and readers know of the command line, made
//! from it.

#![allow(clippy::disallowed_methods, reason = "the pages are the user's files")]

use crate::args::command::Cli;
use crate::args::pages::{CompletionsArgs, ManArgs};
use crate::exit::Exit;
use crate::print::note;
use anyhow::{Context, Result};
use clap::CommandFactory as _;
use std::io::{self, Write as _};

/// Prints a completion script.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "tabulith", &mut script);
    io::stdout().write_all(&script)?;
    Ok(Exit::Ok)
}

/// Prints the man page, or writes all of them.
pub(crate) fn man(args: &ManArgs) -> Result<Exit> {
    let mut command = Cli::command();
    command.build();
    let Some(dir) = &args.dir else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        io::stdout().write_all(&page)?;
        return Ok(Exit::Ok);
    };
    let named = || format!("writing man pages to {}", dir.display());
    std::fs::create_dir_all(dir).with_context(named)?;
    clap_mangen::generate_to(command, dir).with_context(named)?;
    note(&format!("wrote the man pages to {}", dir.display()));
    Ok(Exit::Ok)
}
