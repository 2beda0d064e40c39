//! `tabulith completions` and `tabulith man`: what shells and readers know of the command line,
//! made from it.
//!
//! A man page has what stands before the help in a section of its own: the examples.

#![allow(clippy::disallowed_methods, reason = "the pages are the user's files")]

use crate::args::command::Cli;
use crate::args::pages::{CompletionsArgs, ManArgs};
use crate::exit::Exit;
use crate::print::{self, note};
use anyhow::{Context, Result};
use clap::{Command, CommandFactory as _};
use clap_mangen::Man;
use std::io::Write as _;
use std::path::Path;

/// Prints a completion script.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "tabulith", &mut script);
    print::out().write_all(&script)?;
    Ok(Exit::Ok)
}

/// Prints the man page, or writes all of them.
pub(crate) fn man(args: &ManArgs) -> Result<Exit> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let Some(dir) = &args.dir else {
        print::out().write_all(page(command)?.as_bytes())?;
        return Ok(Exit::Ok);
    };
    std::fs::create_dir_all(dir)
        .with_context(|| format!("writing man pages to {}", dir.display()))?;
    write_pages(command, dir)?;
    note(&format!("wrote the man pages to {}", dir.display()));
    Ok(Exit::Ok)
}

/// Writes the page of a command and of all below it.
fn write_pages(command: Command, dir: &Path) -> Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write_pages(below.clone(), dir)?;
    }
    let path = dir.join(Man::new(command.clone()).get_filename());
    std::fs::write(&path, page(command)?).with_context(|| format!("writing {}", path.display()))
}

/// The man page of a command, its examples behind the description.
fn page(command: Command) -> Result<String> {
    let before = command.get_before_help().map(ToString::to_string).unwrap_or_default();
    let mut text = Vec::new();
    Man::new(command).render(&mut text)?;
    let mut text = String::from_utf8(text)?;
    if let Some((_, examples)) = before.split_once('\n') {
        let description =
            text.find("\n.SH DESCRIPTION\n").context("a page without a description")?;
        let after = text[description + 1..].find("\n.SH ").map(|at| description + 1 + at);
        text.insert_str(after.map_or(text.len(), |at| at + 1), &examples_section(examples));
    }
    Ok(text)
}

/// Lines as they are, each character what it is in a terminal: readers copy them.
fn examples_section(lines: &str) -> String {
    let mut section = ".SH EXAMPLES\n.nf\n".to_owned();
    for line in lines.lines() {
        // A period or an apostrophe at the front would be a request to the formatter.
        section.push_str("\\&");
        for c in line.chars() {
            match c {
                '\\' => section.push_str("\\e"),
                '-' => section.push_str("\\-"),
                '\'' => section.push_str("\\(aq"),
                '~' => section.push_str("\\(ti"),
                '^' => section.push_str("\\(ha"),
                '`' => section.push_str("\\(ga"),
                c => section.push(c),
            }
        }
        section.push('\n');
    }
    section + ".fi\n"
}
