//! The commands, and how the words of a command line become one.

use crate::args::backup::{BackupArgs, RestoreArgs};
use crate::args::bench::BenchArgs;
use crate::args::config::ConfigArgs;
use crate::args::conformance::ConformanceArgs;
use crate::args::copy::CopyArgs;
use crate::args::entity::EntityArgs;
use crate::args::folder::{
    CheckArgs, CheckpointArgs, CompactArgs, InspectArgs, SalvageArgs, ShapeArgs,
};
use crate::args::health::HealthArgs;
use crate::args::pages::{CompletionsArgs, ManArgs};
use crate::args::rows::{ExportArgs, ImportArgs, QueryArgs};
use crate::args::sas::SasArgs;
use crate::args::serve::ServeArgs;
use crate::args::shell::ShellArgs;
use crate::args::table::TableArgs;
use crate::args::torture::TortureArgs;
use crate::exit;
use clap::{Parser, Subcommand};
use std::ffi::OsString;

/// Azure Table Storage that you own.
///
/// Without a command it serves, as `tabulith serve` does: an endpoint on 127.0.0.1:10002 that the
/// Azure SDKs talk to unchanged, with its data in ./tabulith-data.
#[derive(Debug, Parser)]
#[command(name = "tabulith", version, after_help = exit::HELP, max_term_width = 100)]
#[command(subcommand_required = true, override_usage = "tabulith [COMMAND] [OPTIONS]")]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Parses the words of a command line; those that begin with a flag are meant for `serve`.
    ///
    /// Flattening the flags of `serve` into the top level would do the same, but then a variable
    /// like `TABULITH_PORT` could break every other command.
    #[cfg(test)]
    pub(crate) fn of(words: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
        Cli::parsed(&Cli::words(words))
    }

    /// The words of a command line with the command that they mean.
    pub(crate) fn words(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
        let mut words: Vec<OsString> = words.into_iter().collect();
        let own = ["-h", "--help", "-V", "--version"];
        let first = words.get(1).map(|word| word.to_string_lossy());
        if first.is_none_or(|word| word.starts_with('-') && !own.contains(&&*word)) {
            words.insert(words.len().min(1), OsString::from("serve"));
        }
        words
    }

    /// Parses words that begin with a command.
    pub(crate) fn parsed(words: &[OsString]) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(words)
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve tables over HTTP; this is what happens without a command.
    Serve(Box<ServeArgs>),
    /// Show the settings of the server.
    Config(ConfigArgs),
    /// Ask a server whether it is ready.
    Health(HealthArgs),
    /// Load CSV or JSON lines files into a table.
    Import(ImportArgs),
    /// Print the rows that match a filter.
    Query(QueryArgs),
    /// Print a whole table.
    Export(ExportArgs),
    /// Copy tables from one place to another, and compare both in the end.
    Copy(CopyArgs),
    /// Make, list, delete and empty tables.
    Table(TableArgs),
    /// Write, print and delete single entities, or delete all that match a filter.
    Entity(EntityArgs),
    /// Ask for commands and run them, with completion and a history; or run a script of them.
    Shell(ShellArgs),
    /// Sign shared access signatures, and explain them.
    Sas(SasArgs),
    /// Read every file of a data folder and report damage.
    Check(CheckArgs),
    /// Rebuild what is readable of a damaged data folder in a new one, and list what is lost.
    Salvage(SalvageArgs),
    /// List the files of a data folder, or print one.
    Inspect(InspectArgs),
    /// Draw the levels of a data folder to scale, with what they cost.
    Shape(ShapeArgs),
    /// Merge all files of a data folder into one run.
    Compact(CompactArgs),
    /// Make a copy of a data folder that shares its files.
    Checkpoint(CheckpointArgs),
    /// Measure a folder or a server, compare results, judge keys.
    Bench(BenchArgs),
    /// Kill writers again and again on a disk, and look for everything that was acknowledged.
    Torture(TortureArgs),
    /// Make, list, prove and prune backups of a data folder.
    Backup(BackupArgs),
    /// Make a data folder out of a backup, as of its end or of a moment before it.
    Restore(RestoreArgs),
    /// Ask an endpoint whether it answers as Azure Table Storage does, row by row.
    Conformance(ConformanceArgs),
    /// Print the completions of a shell.
    Completions(CompletionsArgs),
    /// Print the man page, or write one for each command.
    Man(ManArgs),
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use std::num::NonZeroU32;
    use std::path::PathBuf;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    fn serve_args(words: &[&str]) -> ServeArgs {
        let words = ["tabulith"].iter().chain(words).map(OsString::from);
        match Cli::of(words).unwrap().command {
            Command::Serve(args) => *args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn no_command_is_serve_with_its_flags() {
        assert_eq!(serve_args(&[]).port, 10002);
        let args = serve_args(&["--port", "0", "-l", "x"]);
        assert_eq!((args.port, args.data_dir), (0, PathBuf::from("x")));
        assert_eq!(serve_args(&["serve", "--port", "1"]).port, 1);
    }

    #[test]
    fn rates_are_numbers_or_azures() {
        let rates = |words: &[&str]| {
            let args = serve_args(words);
            let plain = |rate: Option<NonZeroU32>| rate.map(NonZeroU32::get);
            (plain(args.throttle_partition), plain(args.throttle_account))
        };
        assert_eq!(rates(&[]), (None, None));
        assert_eq!(rates(&["--throttle-partition", "7"]), (Some(7), None));
        let azure = ["--throttle-partition", "azure", "--throttle-account", "azure"];
        assert_eq!(rates(&azure), (Some(2_000), Some(20_000)));
        for text in ["0", "-1", "x", "4294967296", ""] {
            let words = ["tabulith", "serve", "--throttle-account", text];
            assert!(Cli::of(words.map(OsString::from)).is_err(), "{text}");
        }
    }

    #[test]
    fn a_seed_needs_a_lab() {
        let words = ["tabulith", "serve", "--fault-seed", "1"];
        assert!(Cli::of(words.map(OsString::from)).is_err());
        let args = serve_args(&["--fault-lab", "rules", "--fault-seed", "1"]);
        assert_eq!((args.fault_lab, args.fault_seed), (Some(PathBuf::from("rules")), Some(1)));
    }

    #[test]
    fn help_and_other_commands_are_not_serve() {
        for words in [["tabulith", "--help"], ["tabulith", "-V"], ["tabulith", "improt"]] {
            assert!(Cli::of(words.map(OsString::from)).is_err(), "{words:?}");
        }
        let check = Cli::of(["tabulith", "check", "d"].map(OsString::from)).unwrap();
        assert!(matches!(check.command, Command::Check(_)));
    }

    #[test]
    fn flags_of_azurite_are_understood() {
        let words = ["--tableHost", "0.0.0.0", "--tablePort", "1", "--location", "d"];
        let more = ["--silent", "--loose", "--skipApiVersionCheck", "-d", "log"];
        let args = serve_args(&[&words[..], &more].concat());
        assert_eq!((args.listen.to_string().as_str(), args.port), ("0.0.0.0", 1));
        assert!(args.silent);
        let args = serve_args(&["-s", "-L", "-l", "d", "-d", "log"]);
        assert!(args.silent && args.loose);
        assert_eq!((args.data_dir, args.debug), (PathBuf::from("d"), Some(PathBuf::from("log"))));
    }

    /// The words of a line as a shell takes it apart, up to a pipe or a redirection.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut word, mut open) = (Vec::new(), String::new(), false);
        let mut quote = None;
        for c in line.chars() {
            match (quote, c) {
                (Some(own), _) if own == c => quote = None,
                (None, '\'' | '"') => (quote, open) = (Some(c), true),
                (None, '|' | '<' | '>' | '&') => break,
                (None, ' ') if word.is_empty() && !open => {}
                (None, ' ') => {
                    words.push(std::mem::take(&mut word));
                    open = false;
                }
                _ => word.push(c),
            }
        }
        if open || !word.is_empty() {
            words.push(word);
        }
        words
    }

    #[test]
    fn every_example_is_a_command_line() {
        let mut commands = vec![Cli::command()];
        let mut examples = 0;
        while let Some(command) = commands.pop() {
            commands.extend(command.get_subcommands().cloned());
            let Some(help) = command.get_before_help() else { continue };
            let text = help.to_string().replace("\\\n", "");
            for line in text.lines().filter(|line| line.trim_start().starts_with("tabulith ")) {
                for part in line.split("&&") {
                    examples += 1;
                    let words = words(part);
                    let parsed = Cli::of(words.iter().map(OsString::from));
                    assert!(parsed.is_ok(), "{words:?}: {}", parsed.unwrap_err());
                }
            }
        }
        assert!(examples > 30, "{examples}");
    }
}
