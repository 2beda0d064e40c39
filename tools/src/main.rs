//! The tabulith binary: picks the command, runs it, ends with its exit code.
//!
//! The modules stand in dependency order: a file uses only what is listed before it.

mod exit;
mod args;
mod open_files;
mod draft;
mod edm;
mod json;
mod yaml;
mod list;
mod harmless;
mod print;
mod columnar;
mod connect;
mod ask;
mod translate;
mod remote;
mod folder;
mod target;
mod import;
mod query;
mod export;
mod apart;
mod copy;
mod sweep;
mod confirm;
mod given;
mod table;
mod entity;
mod sas;
mod shell;
mod pages;
mod check;
mod salvage;
mod inspect;
mod shape;
mod bench;
mod torture;
mod backup;
mod conformance;
mod health;
mod settings;
mod notify;
mod log;
mod events;
mod seed;
mod forks;
#[cfg(feature = "otlp")]
mod otlp;
mod greeting;
mod fleeting;
mod shares;
mod asked;
mod serve;

use crate::args::command::{Cli, Command};
use crate::args::config::ConfigCommand;
use crate::exit::Exit;
use crate::import::run::For;
use crate::settings::Settings;
use anyhow::{Context, Result};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // A wrong command line ends here, with clap's message and the exit code 2.
    let words = Cli::words(std::env::args_os());
    match settings::of_process(words).and_then(run) {
        Ok(exit) => exit.into(),
        Err(error) => {
            let exit = exit::of(&error);
            if exit != Exit::Ok {
                print::note(&format!("tabulith: {}", exit::told(&error)));
            }
            exit.into()
        }
    }
}

fn run(settings: Settings) -> Result<Exit> {
    // A wrong command line ends here, with clap's message and the exit code 2.
    let cli = Cli::parsed(&settings.words).unwrap_or_else(|error| error.exit());
    match cli.command {
        // The server brings its own threads.
        Command::Serve(args) => serve::run(&args),
        Command::Config(args) => match args.what {
            ConfigCommand::Print(_) => settings.print(),
        },
        Command::Health(args) => health::run(&args),
        Command::Import(args) => wait(import::run::run(args, For::Command)),
        Command::Query(args) => wait(query::run(args)),
        Command::Export(args) => wait(export::run(args)),
        Command::Copy(args) => wait(copy::run::run(args)),
        Command::Table(args) => wait(table::run(args)),
        Command::Entity(args) => wait(entity::run(args)),
        Command::Shell(args) => shell::run::run(args),
        Command::Sas(args) => sas::run(args),
        Command::Completions(args) => pages::completions(&args),
        Command::Man(args) => pages::man(&args),
        Command::Check(args) => check::run(&args),
        Command::Salvage(args) => salvage::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Shape(args) => shape::run(&args),
        Command::Compact(args) => shape::compact(&args),
        Command::Checkpoint(args) => shape::checkpoint(&args),
        Command::Bench(args) => bench::command::command(&args),
        Command::Torture(args) => torture::run::run(&args),
        Command::Backup(args) => backup::run(&args),
        Command::Restore(args) => backup::restore(&args),
        Command::Conformance(args) => conformance::run(&args),
    }
}

fn wait(work: impl Future<Output = Result<Exit>>) -> Result<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("starting the runtime")?.block_on(work)
}
