//! What a line is, and the command line that it stands for: with the place, the form of output and
//! the wishes of the session where the line does not say its own.

use crate::args::command::{Cli, Command};
use crate::args::output::Output;
use crate::args::target::TargetArgs;
use crate::exit::Failure;
use anyhow::Result;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, ValueEnum};
use std::ffi::{OsStr, OsString};

/// The commands of the program that are commands of the shell too.
pub(crate) const NOUNS: [&str; 7] = ["query", "entity", "table", "import", "export", "copy", "sas"];

/// Words behind which a filter is compared: no command of the shell is followed by one.
const COMPARISONS: [&str; 6] = ["eq", "ne", "gt", "ge", "lt", "le"];

/// Flags that say where tables are. A line that has one of them says it all.
const PLACE: [&str; 9] = [
    "connection_string",
    "account_name",
    "key_file",
    "account_key",
    "sas_token",
    "table_endpoint",
    "profile",
    "ca",
    "data_dir",
];

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said<'a> {
    /// Nothing to do.
    Nothing,
    /// A command that begins with a dot.
    Dot,
    /// A command of the program.
    Noun,
    /// A filter of the table in use.
    Filter(&'a str),
}

/// Tells what a line is. `used`: whether a table is in use.
pub(crate) fn said(line: &str, used: bool) -> Result<Said<'_>> {
    let line = line.trim();
    let mut words = line.split_whitespace();
    let Some(first) = words.next().filter(|word| !word.starts_with('#')) else {
        return Ok(Said::Nothing);
    };
    let compared = words.next().is_some_and(|word| COMPARISONS.contains(&word));
    if first.starts_with('.') || matches!(line, "help" | "quit" | "exit") {
        return Ok(Said::Dot);
    }
    if NOUNS.contains(&first) && !(used && compared) {
        return Ok(Said::Noun);
    }
    if used {
        return Ok(Said::Filter(line));
    }
    let of_program = Cli::command().find_subcommand(first).is_some();
    let why = if of_program {
        format!("`{first}` is no command of the shell; `tabulith {first}` is one outside of it")
    } else {
        format!(
            "`{first}` is no command; .help lists them, and behind `.use TABLE` a filter may stand alone"
        )
    };
    Err(Failure::usage(why).into())
}

/// What lines get that do not say it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wishes {
    /// Where the tables are.
    pub(crate) place: TargetArgs,
    /// The form of the output.
    pub(crate) mode: Option<Output>,
    /// Whether queries are explained.
    pub(crate) explain: bool,
}

/// What a line means.
#[derive(Debug)]
pub(crate) enum Meant {
    /// A command.
    Command(Box<Command>),
    /// A text to print: a help.
    Text(String),
}

impl Wishes {
    /// The command that words mean, which begin with a noun.
    pub(crate) fn command(&self, words: &[String]) -> Result<Meant> {
        let place = self.place_words(words);
        let form = self.form_words(words);
        match parsed(words, &[&place[..], &form[..]].concat()) {
            // `query --count` has neither a form nor a plan.
            Err(error) if error.kind() == ErrorKind::ArgumentConflict => {
                meant(parsed(words, &place))
            }
            first => meant(first),
        }
    }

    /// The flags of the session's place, for a command that has them and was given none.
    fn place_words(&self, words: &[String]) -> Vec<OsString> {
        let given = Given::of(words);
        if !given.has("connection_string") || PLACE.into_iter().any(|id| given.is_said(id)) {
            return Vec::new();
        }
        let place = &self.place;
        let texts = [
            ("--connection-string", place.connection_string.as_deref().map(OsStr::new)),
            ("--account-name", place.account_name.as_deref().map(OsStr::new)),
            ("--key-file", place.key_file.as_deref().map(AsRef::as_ref)),
            ("--account-key", place.account_key.as_deref().map(OsStr::new)),
            ("--sas-token", place.sas_token.as_deref().map(OsStr::new)),
            ("--table-endpoint", place.table_endpoint.as_deref().map(OsStr::new)),
            ("--profile", place.profile.as_deref().map(OsStr::new)),
            ("--ca", place.ca.as_deref().map(AsRef::as_ref)),
            ("--data-dir", place.data_dir.as_deref().map(AsRef::as_ref)),
        ];
        let said = texts.into_iter().filter_map(|(flag, text)| Some((flag, text?)));
        said.map(|(flag, text)| joined(flag, text)).collect()
    }

    /// The form of the output and the wish for plans, for a command that has them and was given
    /// none.
    fn form_words(&self, words: &[String]) -> Vec<OsString> {
        let given = Given::of(words);
        let mode = self.mode.filter(|_| given.has("output") && !given.is_said("output"));
        let name = mode.and_then(|mode| mode.to_possible_value());
        let form = name.map(|name| joined("--output", OsStr::new(name.get_name())));
        let is_plain = words.first().is_some_and(|word| word == "query");
        let explain = self.explain && is_plain && !given.is_said("explain");
        form.into_iter().chain(explain.then(|| OsString::from("--explain"))).collect()
    }
}

fn joined(flag: &str, text: &OsStr) -> OsString {
    let mut word = OsString::from(flag);
    word.push("=");
    word.push(text);
    word
}

/// Parses words with more of them put behind the names of the command.
fn parsed(words: &[String], more: &[OsString]) -> Result<Cli, clap::Error> {
    let mut line: Vec<OsString> = words.iter().map(OsString::from).collect();
    let at = Given::of(words).depth.min(line.len());
    line.splice(at..at, more.iter().cloned());
    line.insert(0, OsString::from("tabulith"));
    Cli::parsed(&line)
}

fn meant(parsed: Result<Cli, clap::Error>) -> Result<Meant> {
    match parsed {
        Ok(cli) => Ok(Meant::Command(Box::new(cli.command))),
        Err(error) if !error.use_stderr() => Ok(Meant::Text(error.to_string())),
        Err(error) => Err(refused(&error)),
    }
}

/// The first sentence of what is wrong with a line.
pub(crate) fn refused(error: &clap::Error) -> anyhow::Error {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Failure::usage("the command is not whole; .help COMMAND says what may follow")
            .into();
    }
    let text = error.to_string();
    let text = text.trim_start_matches("error: ").split("\n\n").next().unwrap_or_default();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    Failure::usage(lines.join(" ")).into()
}

/// What words say so far.
struct Given {
    command: clap::Command,
    matches: Option<ArgMatches>,
    /// How many words name the command.
    depth: usize,
}

impl Given {
    fn of(words: &[String]) -> Given {
        let mut command = Cli::command();
        let line = std::iter::once("tabulith").chain(words.iter().map(String::as_str));
        let mut matches = command.clone().ignore_errors(true).try_get_matches_from(line).ok();
        let mut depth = 0;
        while let Some(below) = words.get(depth).and_then(|word| command.find_subcommand(word)) {
            command = below.clone();
            matches = matches.and_then(|own| own.subcommand().map(|(_, own)| own.clone()));
            depth += 1;
        }
        Given { command, matches, depth }
    }

    fn has(&self, id: &str) -> bool {
        self.command.get_arguments().any(|arg| arg.get_id() == id)
    }

    /// Whether the words themselves say it.
    fn is_said(&self, id: &str) -> bool {
        let source = self.matches.as_ref().filter(|_| self.has(id));
        source.and_then(|own| own.value_source(id)) == Some(ValueSource::CommandLine)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::shell::split;
    use std::path::PathBuf;

    fn wishes() -> Wishes {
        let place = TargetArgs { data_dir: Some(PathBuf::from("a b")), ..TargetArgs::default() };
        Wishes { place, mode: Some(Output::Csv), explain: true }
    }

    #[track_caller]
    fn command(line: &str) -> Command {
        match wishes().command(&split::words(line).unwrap()).unwrap() {
            Meant::Command(command) => *command,
            Meant::Text(text) => panic!("{text}"),
        }
    }

    #[test]
    fn a_line_is_known_by_its_first_word() {
        for (line, used, what) in [
            ("  ", true, Said::Nothing),
            ("# query t", true, Said::Nothing),
            (" .tables", false, Said::Dot),
            ("quit", true, Said::Dot),
            ("query t", false, Said::Noun),
            ("query t", true, Said::Noun),
            ("query eq 5", true, Said::Filter("query eq 5")),
            (" Total gt 7 ", true, Said::Filter("Total gt 7")),
            ("serve eq 'x'", true, Said::Filter("serve eq 'x'")),
        ] {
            assert_eq!(said(line, used).unwrap(), what, "{line}");
        }
        let wrong = |line: &str| said(line, false).unwrap_err().to_string();
        assert!(wrong("serve --port 1").contains("`tabulith serve`"), "{}", wrong("serve"));
        assert!(wrong("Total gt 7").contains(".use TABLE"));
    }

    #[test]
    fn what_a_line_does_not_say_is_the_sessions() {
        let Command::Query(args) = command("query flights --filter \"a eq 'b c'\"") else {
            panic!()
        };
        assert_eq!(args.filter.as_deref(), Some("a eq 'b c'"));
        assert_eq!((args.output, args.explain), (Output::Csv, true));
        assert_eq!(args.target.data_dir, Some(PathBuf::from("a b")));
        let Command::Query(args) = command("query flights -o yaml --data-dir other") else {
            panic!()
        };
        assert_eq!(args.output, Output::Yaml);
        assert_eq!(args.target.data_dir, Some(PathBuf::from("other")));
        let Command::Query(args) = command("query flights --account-name abc") else { panic!() };
        assert_eq!(args.target.data_dir, None, "a line says its place alone");
        let Command::Query(args) = command("query flights --count") else { panic!() };
        assert!(args.count && !args.explain && args.target.data_dir.is_some());
        let line = "entity insert -t t -e PartitionKey=p RowKey=r -- ";
        let words = split::words(line).unwrap();
        assert!(wishes().command(&words).is_ok(), "{line}");
        assert!(matches!(command("copy dev dir:x"), Command::Copy(_)));
    }

    #[test]
    fn help_is_a_text_and_a_mistake_one_sentence() {
        let told = wishes().command(&["query".to_owned(), "--help".to_owned()]).unwrap();
        assert!(matches!(told, Meant::Text(text) if text.starts_with("Example")));
        for (line, why) in [
            ("query", "the following required arguments were not provided: <TABLE>"),
            ("query t --nothing", "unexpected argument '--nothing' found"),
            ("query t --explain --count", "the argument '--explain' cannot be used with '--count'"),
            ("entity", "the command is not whole"),
            ("query t --data-dir x --sas-token y", ""),
        ] {
            let error = wishes().command(&split::words(line).unwrap()).unwrap_err();
            let text = error.to_string();
            assert!(text.starts_with(why) && !text.contains('\n'), "{line}: {text}");
            assert_eq!(crate::exit::of(&error), crate::exit::Exit::Usage);
        }
    }
}
