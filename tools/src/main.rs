//! The tabulith binary: picks the command, runs it, ends with its exit code.
//!
//! The modules stand in dependency order: a file uses only what is listed before it.

mod exit;
mod args;
mod edm;
mod json;
mod print;
mod connect;
mod client;
mod folder;
mod target;
mod import;
mod query;
mod export;
mod check;

use crate::args::{Cli, Command};
use crate::exit::Exit;
use anyhow::{Context, Result};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    // A wrong command line ends here, with clap's message and the exit code 2.
    let cli = Cli::parse();
    match run(cli) {
        Ok(exit) => exit.into(),
        Err(error) => {
            let exit = exit::of(&error);
            if exit != Exit::Ok {
                print::note(&format!("tabulith: {error:#}"));
            }
            exit.into()
        }
    }
}

fn run(cli: Cli) -> Result<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("starting the runtime")?;
    runtime.block_on(async {
        match cli.command.unwrap_or(Command::Serve(cli.serve)) {
            Command::Import(args) => import::run::run(args).await,
            Command::Query(args) => query::run(args).await,
            Command::Export(args) => export::run(args).await,
            Command::Check(args) => check::run(&args),
            Command::Serve(_) => anyhow::bail!("this build does not have it yet"),
        }
    })
}
