//! What the shell is told when it starts, and the commands that are its own: those that begin with
//! a dot.

use crate::args::output::Output;
use crate::args::target::TargetArgs;
use clap::{Args, Command, CommandFactory, Parser, Subcommand, ValueEnum};
use std::fmt::Write as _;
use std::path::PathBuf;

/// How the shell begins.
#[derive(Args, Clone, Debug)]
#[command(before_help = SHELL_EXAMPLES, after_help = shell_help())]
pub(crate) struct ShellArgs {
    /// A line to run instead of those of the terminal or of stdin. May be repeated.
    #[arg(short, long, value_name = "LINE")]
    pub(crate) command: Vec<String>,
    /// Go on after a line that failed; the exit code is that of the first one. At a terminal the
    /// shell always goes on.
    #[arg(long)]
    pub(crate) keep_going: bool,
    /// Form of the output of lines that do not say it. Without it each command has its own.
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Output>,
    /// Where the tables are.
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

const SHELL_EXAMPLES: &str = "Examples:
  tabulith shell
  tabulith shell --data-dir tabulith-data -c '.schema flights'
  tabulith shell -o csv < report.txt > report.csv";

fn shell_help() -> String {
    format!(
        "Lines:\n{}  {:<28} query, entity, table, import, export, copy, sas: as on the command\n  \
         {:<28} line, without the word tabulith\n  \
         {:<28} after .use, the rows of that table\n\n\
         Words are quoted as in a POSIX shell; a filter that stands alone is not. A line that ends in a\n\
         backslash goes on in the next one, # begins a comment.\n\n\
         Where stdin is no terminal, lines are read from it without an editor, and the first one that\n\
         fails ends the shell with its exit code. At a terminal there are a history, in\n\
         $XDG_STATE_HOME/tabulith/shell, else in ~/.local/state, and completion with Tab. Lines with\n\
         keys, connection strings or signatures are not kept, nor those that begin with a blank.",
        listed(),
        "COMMAND …",
        "",
        "FILTER"
    )
}

/// The commands that begin with a dot, each on a line with what it does.
pub(crate) fn listed() -> String {
    let mut text = String::new();
    for command in DotLine::command().get_subcommands() {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        // Writing text into memory cannot fail.
        let _ = writeln!(text, "  {:<28} {about}", usage(command));
    }
    text
}

/// A command and what may follow it: `.dump TABLE [FILE]`.
pub(crate) fn usage(command: &Command) -> String {
    let mut text = command.get_name().to_owned();
    for arg in command.get_positionals() {
        let names = arg.get_value_names().unwrap_or_default();
        let name = names.first().map(ToString::to_string).unwrap_or_default();
        let more =
            if arg.get_num_args().is_some_and(|num| num.max_values() > 1) { " …" } else { "" };
        let _ = match arg.is_required_set() {
            true => write!(text, " {name}{more}"),
            false => write!(text, " [{name}{more}]"),
        };
    }
    text
}

/// A line that begins with a dot.
#[derive(Debug, Parser)]
#[command(name = "shell", multicall = true, disable_help_subcommand = true)]
pub(crate) struct DotLine {
    /// Its command.
    #[command(subcommand)]
    pub(crate) what: Dot,
}

/// The commands that begin with a dot.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum Dot {
    /// List the tables, or those whose names begin so
    #[command(name = ".tables")]
    Tables {
        /// The beginning, in any case.
        #[arg(value_name = "PREFIX")]
        prefix: Option<String>,
    },
    /// List the properties of a table's first rows, with types
    #[command(name = ".schema")]
    Schema {
        /// The table; otherwise the one in use.
        #[arg(value_name = "TABLE")]
        table: Option<String>,
    },
    /// From now on lines that are filters ask this table
    #[command(name = ".use")]
    Use {
        /// The table; without it the one in use is told.
        #[arg(value_name = "TABLE")]
        table: Option<String>,
    },
    /// Tell how rows are found: always, or of this query alone
    #[command(name = ".explain")]
    Explain {
        /// A `query` line or a filter, whose rows are not printed.
        #[arg(value_name = "on|off|QUERY", trailing_var_arg = true, allow_hyphen_values = true)]
        query: Vec<String>,
    },
    /// Tell how long each line took
    #[command(name = ".timer")]
    Timer {
        /// Whether.
        #[arg(value_name = "on|off")]
        switch: Option<Switch>,
    },
    /// Form of the output of lines that do not say it
    #[command(name = ".mode")]
    Mode {
        /// The form; without it the one in force is told.
        #[arg(value_name = "MODE")]
        mode: Option<Output>,
    },
    /// Load a file into a table, with the flags of `import`
    #[command(name = ".import")]
    Import {
        /// The file.
        #[arg(value_name = "FILE")]
        file: String,
        /// The table.
        #[arg(value_name = "TABLE")]
        table: String,
        /// Flags of `import`.
        #[arg(value_name = "FLAG", trailing_var_arg = true, allow_hyphen_values = true)]
        flags: Vec<String>,
    },
    /// Write a table as JSON lines, which .import reads
    #[command(name = ".dump")]
    Dump {
        /// The table.
        #[arg(value_name = "TABLE")]
        table: String,
        /// The file, which takes its name when it is whole; one of that name is replaced. Without
        /// it the lines are printed.
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Run the lines of a file, up to the first that fails
    #[command(name = ".read")]
    Read {
        /// The file.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// List the commands, or say how one is used
    #[command(name = ".help")]
    Help {
        /// The command.
        #[arg(value_name = "COMMAND")]
        command: Vec<String>,
    },
    /// Leave
    #[command(name = ".quit", visible_alias = ".exit")]
    Quit,
}

/// Whether something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    /// It is.
    On,
    /// It is not.
    Off,
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[track_caller]
    fn parsed(words: &[&str]) -> Dot {
        DotLine::try_parse_from(words).unwrap().what
    }

    #[test]
    fn the_definition_is_consistent() {
        DotLine::command().debug_assert();
    }

    #[test]
    fn flags_behind_a_table_are_those_of_import() {
        let words = [".import", "f.csv", "t", "--null", "NA", "--restart"];
        let Dot::Import { file, table, flags } = parsed(&words) else { panic!("{words:?}") };
        assert_eq!((file.as_str(), table.as_str()), ("f.csv", "t"));
        assert_eq!(flags, ["--null", "NA", "--restart"]);
        assert_eq!(parsed(&[".exit"]), Dot::Quit);
        for words in [&[".dump"][..], &[".timer", "maybe"], &[".mode", "xml"], &[".nothing"]] {
            assert!(DotLine::try_parse_from(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn usages_say_what_must_follow() {
        let command = DotLine::command();
        let of = |name: &str| usage(command.find_subcommand(name).unwrap());
        assert_eq!(of(".dump"), ".dump TABLE [FILE]");
        assert_eq!(of(".import"), ".import FILE TABLE [FLAG …]");
        assert_eq!(of(".quit"), ".quit");
        assert!(listed().lines().all(|line| line.chars().count() <= 100), "{}", listed());
    }
}
