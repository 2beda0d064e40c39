//! What may stand under the cursor: commands and flags from the definition of the command line,
//! names of tables and properties from what is known of them.

use crate::args::command::Cli;
use crate::args::shell::{DotLine, Switch};
use crate::shell::names::{is_identifier, is_of_identifiers, is_plain};
use crate::shell::split::{self, Cursor};
use crate::shell::words::NOUNS;
use clap::{Arg, Command, CommandFactory, ValueEnum};

/// Most words that are offered.
const OFFERS_MAX: usize = 1_000;

/// What would complete a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wish {
    /// Where that begins which is completed.
    pub(crate) start: usize,
    /// What is there of it.
    typed: String,
    /// Words that are known beforehand.
    words: Vec<String>,
    /// Names that have to be asked for.
    pub(crate) names: Names,
    /// Whether a name stands in a longer word, where it cannot be quoted.
    within: bool,
}

/// Names that are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Names {
    /// None.
    #[default]
    None,
    /// Of tables.
    Tables,
    /// Of the columns of a table.
    Columns(Option<String>),
}

impl Wish {
    /// The words that are offered, given the names that were wanted.
    pub(crate) fn offers(&self, names: &[String]) -> Vec<String> {
        let small = self.typed.to_lowercase();
        let words = self.words.iter().filter(|word| word.starts_with(&self.typed)).cloned();
        let fitting = names.iter().filter(|name| name.to_lowercase().starts_with(&small));
        let names = fitting.filter_map(|name| match self.within {
            true => is_identifier(name).then(|| name.clone()),
            false if is_plain(name) => Some(shlex::try_quote(name).ok()?.into_owned()),
            false => None,
        });
        let mut offers: Vec<String> = words.chain(names).collect();
        offers.sort_unstable();
        offers.dedup();
        offers.truncate(OFFERS_MAX);
        offers
    }
}

/// The commands of the shell.
pub(crate) struct Tree {
    dots: Command,
    all: Command,
}

impl Tree {
    /// The tree of all commands.
    pub(crate) fn new() -> Tree {
        Tree { dots: DotLine::command(), all: Cli::command() }
    }

    /// The command of that name, if the shell has it.
    fn command(&self, name: &str) -> Option<&Command> {
        match name {
            _ if name.starts_with('.') => self.dots.find_subcommand(name),
            _ if NOUNS.contains(&name) => self.all.find_subcommand(name),
            _ => None,
        }
    }

    fn names(&self) -> impl Iterator<Item = String> {
        let dots = self.dots.get_subcommands().map(|command| command.get_name().to_owned());
        dots.chain(NOUNS.map(str::to_owned))
    }

    /// What would complete `text`, at whose end the cursor is, with that table in use.
    pub(crate) fn wish(&self, text: &str, used: Option<&str>) -> Wish {
        let cursor = split::cursor(text);
        let Some((first, rest)) = cursor.words.split_first() else {
            let names = used.map_or(Names::None, |table| Names::Columns(Some(table.to_owned())));
            return Wish { words: self.names().collect(), names, within: true, ..word(&cursor) };
        };
        match (first.as_str(), self.command(first)) {
            (".explain", _) => self.explained(text, used, &cursor),
            (".import", _) if rest.len() >= 2 => {
                self.all.find_subcommand("import").map_or_else(Wish::default, |import| {
                    below(import, &rest[2..], text, &cursor, used)
                })
            }
            (".help", _) => self.told(rest, &cursor),
            (_, Some(command)) => below(command, rest, text, &cursor, used),
            (_, None) => used.map_or_else(Wish::default, |table| filter(text, text, Some(table))),
        }
    }

    /// Behind `.explain`, where a switch stands, a line, or a filter.
    fn explained(&self, text: &str, used: Option<&str>, cursor: &Cursor) -> Wish {
        if cursor.words.get(1).is_some_and(|word| word.starts_with('.')) {
            return Wish::default();
        }
        let before = text.len() - text.trim_start().len() + ".explain".len();
        let mut wish = self.wish(&text[before..], used);
        wish.start += before;
        if cursor.words.len() == 1 {
            let switches = Switch::value_variants().iter().filter_map(Switch::to_possible_value);
            wish.words = switches.map(|value| value.get_name().to_owned()).collect();
            wish.words.push("query".to_owned());
        }
        wish
    }

    /// Behind `.help`: the name of a command, or of one below it.
    fn told(&self, rest: &[String], cursor: &Cursor) -> Wish {
        let words = match rest.first().map(|name| self.command(name)) {
            None => self.names().collect(),
            Some(Some(command)) if rest.len() == 1 => below_names(command),
            Some(_) => Vec::new(),
        };
        Wish { words, ..word(cursor) }
    }

    /// What follows the command that `text` names, where it ends behind one: a hint.
    pub(crate) fn usage(&self, text: &str) -> Option<String> {
        let cursor = split::cursor(text);
        let (first, rest) = cursor.words.split_first()?;
        if !text.ends_with(' ') || !cursor.typed.is_empty() {
            return None;
        }
        let mut command = self.command(first)?;
        for name in rest {
            command = command.find_subcommand(name)?;
        }
        if command.has_subcommands() {
            return Some(below_names(command).join(" | "));
        }
        let usage = crate::args::shell::usage(command);
        let usage = usage.strip_prefix(command.get_name())?.trim_start();
        (!usage.is_empty()).then(|| usage.to_owned())
    }
}

fn word(cursor: &Cursor) -> Wish {
    Wish { start: cursor.start, typed: cursor.typed.clone(), ..Wish::default() }
}

fn below_names(command: &Command) -> Vec<String> {
    command.get_subcommands().map(|below| below.get_name().to_owned()).collect()
}

/// What would complete the words of a command.
fn below(
    mut command: &Command,
    mut words: &[String],
    text: &str,
    cursor: &Cursor,
    used: Option<&str>,
) -> Wish {
    while let Some((name, rest)) = words.split_first()
        && let Some(deeper) = command.find_subcommand(name)
    {
        (command, words) = (deeper, rest);
    }
    if command.has_subcommands() {
        let names = if words.is_empty() { below_names(command) } else { Vec::new() };
        return Wish { words: names, ..word(cursor) };
    }
    let taken = Taken::of(command, words);
    let table = taken.table.as_deref().or(used);
    match taken.open {
        Some(arg) if !(is_greedy(arg) && cursor.typed.starts_with('-')) => {
            value(arg, text, cursor, table)
        }
        _ if cursor.typed.starts_with('-') => {
            let flags = command.get_arguments().filter(|arg| !arg.is_hide_set());
            let flags = flags.filter_map(|arg| Some(format!("--{}", arg.get_long()?)));
            Wish { words: flags.collect(), ..word(cursor) }
        }
        _ => match command.get_positionals().nth(taken.positionals) {
            Some(arg) => value(arg, text, cursor, table),
            None => Wish::default(),
        },
    }
}

/// What would complete the value of an argument.
fn value(arg: &Arg, text: &str, cursor: &Cursor, table: Option<&str>) -> Wish {
    let possible = arg.get_possible_values();
    if !possible.is_empty() {
        let words = possible.iter().map(|value| value.get_name().to_owned()).collect();
        return Wish { words, ..word(cursor) };
    }
    match arg.get_id().as_str() {
        "table" | "table_name" | "prefix" => Wish { names: Names::Tables, ..word(cursor) },
        "filter" => filter(text, &cursor.typed, table),
        "select" => piece(text, cursor.typed.rsplit(',').next().unwrap_or_default(), table),
        _ => Wish::default(),
    }
}

/// What would complete a filter: the name of a column, outside of literals.
fn filter(text: &str, filter: &str, table: Option<&str>) -> Wish {
    if filter.matches('\'').count() % 2 == 1 {
        return Wish::default();
    }
    let rest = filter.trim_end_matches(is_of_identifiers);
    piece(text, &filter[rest.len()..], table)
}

/// A column whose name ends the line as it stands there.
fn piece(text: &str, typed: &str, table: Option<&str>) -> Wish {
    let Some(before) = text.strip_suffix(typed) else { return Wish::default() };
    Wish {
        start: before.len(),
        typed: typed.to_owned(),
        names: Names::Columns(table.map(str::to_owned)),
        within: true,
        ..Wish::default()
    }
}

/// What of a command's arguments the words before the cursor have given.
#[derive(Default)]
struct Taken<'a> {
    /// A flag that waits for its value.
    open: Option<&'a Arg>,
    /// How many words were no flags.
    positionals: usize,
    /// The table that is named.
    table: Option<String>,
}

impl<'a> Taken<'a> {
    fn of(command: &'a Command, words: &[String]) -> Taken<'a> {
        let mut taken = Taken::default();
        for word in words {
            let is_flag = word.len() > 1 && word.starts_with('-');
            if let Some(arg) = taken.open
                && !(is_greedy(arg) && is_flag)
            {
                taken.note(arg, word);
                taken.open = Some(arg).filter(|arg| is_greedy(arg));
                continue;
            }
            taken.open = None;
            if !is_flag {
                if let Some(arg) = command.get_positionals().nth(taken.positionals) {
                    taken.note(arg, word);
                }
                taken.positionals += 1;
                continue;
            }
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (word.as_str(), None),
            };
            let Some(arg) = command.get_arguments().find(|arg| is_called(arg, name)) else {
                continue;
            };
            match value {
                Some(value) => taken.note(arg, value),
                None => taken.open = Some(arg).filter(|arg| arg.get_action().takes_values()),
            }
        }
        taken
    }

    fn note(&mut self, arg: &Arg, value: &str) {
        if matches!(arg.get_id().as_str(), "table" | "table_name") {
            self.table = Some(value.to_owned());
        }
    }
}

fn is_called(arg: &Arg, flag: &str) -> bool {
    if let Some(long) = flag.strip_prefix("--") {
        let aliases = arg.get_all_aliases().unwrap_or_default();
        return arg.get_long() == Some(long) || aliases.contains(&long);
    }
    let mut chars = flag.chars().skip(1);
    arg.get_short().is_some() && arg.get_short() == chars.next() && chars.next().is_none()
}

/// Whether words go to an argument until a flag comes.
fn is_greedy(arg: &Arg) -> bool {
    arg.get_num_args().is_some_and(|num| num.max_values() > 1)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const TABLES: [&str; 4] = ["flights", "Flags", "it's", "bad\u{1b}[31m"];
    const COLUMNS: [&str; 5] = ["PartitionKey", "dep_delay", "dest", "odd-name", "de\u{202e}st"];

    /// Where the offers begin, the table whose columns were asked for, and the offers.
    fn offered(text: &str, used: Option<&str>) -> (usize, Option<String>, Vec<String>) {
        let wish = Tree::new().wish(text, used);
        let (table, names) = match &wish.names {
            Names::None => (None, Vec::new()),
            Names::Tables => (None, TABLES.map(str::to_owned).to_vec()),
            Names::Columns(table) => (table.clone(), COLUMNS.map(str::to_owned).to_vec()),
        };
        (wish.start, table, wish.offers(&names))
    }

    #[track_caller]
    fn check(text: &str, start: usize, offers: &[&str]) {
        let (at, _, words) = offered(text, None);
        assert_eq!((at, words), (start, offers.iter().map(|word| (*word).to_owned()).collect()));
    }

    #[test]
    fn commands_are_those_of_the_shell() {
        check(".t", 0, &[".tables", ".timer"]);
        check("ta", 0, &["table"]);
        check("ser", 0, &[]);
        check("entity s", 7, &["show"]);
        check("table ", 6, &["create", "delete", "list", "truncate"]);
        check(".timer o", 7, &["off", "on"]);
        check(".mode y", 6, &["yaml"]);
        check(".help .q", 6, &[".quit"]);
        check(".help sas ", 10, &["create", "decode"]);
        check("nothing ", 0, &[]);
    }

    #[test]
    fn flags_and_their_values_come_from_the_definition() {
        check("query t --exp", 8, &["--explain"]);
        check("query t -o cs", 11, &["csv"]);
        check("query t --output js", 17, &["json", "jsonl"]);
        check("entity insert -t x --if-exists m", 31, &["merge"]);
        check(".import f.csv t --skip", 16, &["--skip-bad"]);
        assert!(
            !offered("query t --account", None).2.contains(&"--account-key".to_owned()),
            "hidden"
        );
    }

    #[test]
    fn names_of_tables_are_quoted_and_hostile_ones_left_out() {
        check("query ", 6, &["\"it's\"", "Flags", "flights"]);
        check("query FL", 6, &["Flags", "flights"]);
        check("query 'fli", 6, &["flights"]);
        check("export fli", 7, &["flights"]);
        check("entity show -t fli", 15, &["flights"]);
        check("entity show --table-name fli", 25, &["flights"]);
        check(".schema fli", 8, &["flights"]);
        check(".use fli", 5, &["flights"]);
        check(".dump fli", 6, &["flights"]);
        check("query it", 6, &["\"it's\""]);
        check("query bad", 6, &[]);
    }

    #[test]
    fn names_of_columns_stand_in_filters_and_lists() {
        check("query flights --filter \"de", 24, &["dep_delay", "dest"]);
        check("query flights --filter 'dest eq 1 and (Pa", 39, &["PartitionKey"]);
        check("query flights --filter \"dest eq 'de", 0, &[]);
        check("query flights --select dest,dep", 28, &["dep_delay"]);
        check("query flights --select od", 23, &[]);
        let of = |text: &str, used| offered(text, used).1;
        assert_eq!(of("query flights --filter d", Some("other")).unwrap(), "flights");
        assert_eq!(of("entity query -t flights --filter d", None).unwrap(), "flights");
        assert_eq!(of("entity query --table-name=flights --select d", None).unwrap(), "flights");
    }

    #[test]
    fn a_line_without_a_command_is_a_filter_of_the_table_in_use() {
        let used = Some("flights");
        assert_eq!(
            offered("dest eq 'x' and de", used),
            (16, Some("flights".to_owned()), vec!["dep_delay".to_owned(), "dest".to_owned()])
        );
        assert_eq!(offered("dest eq 'de", used).2, Vec::<String>::new());
        assert!(offered("de", used).2.contains(&"dest".to_owned()));
        let (start, table, offers) = offered(" .explain dest eq 'x' and dep", used);
        assert_eq!((start, table.as_deref()), (26, used));
        assert_eq!(offers, ["dep_delay"]);
        assert_eq!(
            offered(".explain o", used),
            (9, Some("flights".to_owned()), vec!["off".to_owned(), "on".to_owned()])
        );
        assert_eq!(offered(".explain query fli", None).2, ["flights"]);
    }

    #[test]
    fn a_hint_says_what_follows() {
        let hint = |text: &str| Tree::new().usage(text);
        assert_eq!(hint(".dump ").unwrap(), "TABLE [FILE]");
        assert_eq!(hint("query ").unwrap(), "TABLE");
        assert_eq!(hint("sas ").unwrap(), "create | decode");
        for text in [".dump", ".dump x ", ".quit ", "nothing ", "", "query t --filter \" "] {
            assert_eq!(hint(text), None, "{text}");
        }
    }
}
