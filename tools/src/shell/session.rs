//! A session: what it remembers from line to line, and what each line does.

use crate::args::command::{Cli, Command};
use crate::args::output::Output;
use crate::args::rows::QueryArgs;
use crate::args::shell::{Dot, DotLine, ShellArgs, listed};
use crate::copy::run as copy;
use crate::entity;
use crate::exit::{Exit, Failure};
use crate::export;
use crate::folder::Access;
use crate::import::run as import;
use crate::print::{self, note};
use crate::query;
use crate::sas;
use crate::shell::complete::Names;
use crate::shell::dump;
use crate::shell::names::Known;
use crate::shell::schema::{SCHEMA_ROWS, Sample};
use crate::shell::split;
use crate::shell::words::{self, Meant, NOUNS, Said, Wishes};
use crate::table;
use crate::target::Target;
use anyhow::Result;
use clap::{CommandFactory, Parser, ValueEnum};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;
use tabulith::env::clock::{Clock, SystemClock};
use tabulith::table::name::TableName;

/// Rows that tell the names of a table's properties for completion.
const NAME_ROWS: usize = 100;

/// How long completion waits for names: nobody waits longer for a Tab.
const NAMES_TIME_MAX: Duration = Duration::from_secs(1);

/// What comes after a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The next one.
    Line,
    /// The lines of a file.
    Read(PathBuf),
    /// The end.
    End,
}

/// What is remembered from line to line.
pub(crate) struct Session {
    wishes: Wishes,
    timer: bool,
    /// The table in use.
    table: Option<String>,
    known: Known,
    clock: SystemClock,
}

impl Session {
    /// A session that begins.
    pub(crate) fn new(args: &ShellArgs) -> Session {
        let wishes = Wishes { place: args.target.clone(), mode: args.output, explain: false };
        let (known, clock) = (Known::default(), SystemClock::new());
        Session { wishes, timer: false, table: None, known, clock }
    }

    /// The table in use.
    pub(crate) fn table(&self) -> Option<&str> {
        self.table.as_deref()
    }

    /// Runs a line.
    pub(crate) async fn run(&mut self, line: &str) -> Result<Next> {
        let began = self.clock.steady();
        let said = words::said(line, self.table.is_some())?;
        let next = match said {
            Said::Nothing => return Ok(Next::Line),
            Said::Dot => self.dot(line.trim()).await,
            Said::Noun => self.words(split::words(line)?).await.map(|()| Next::Line),
            Said::Filter(filter) => self.words(self.filter(filter)?).await.map(|()| Next::Line),
        };
        if self.timer {
            let time = self.clock.steady().saturating_sub(began);
            note(&format!("time: {:.3} s", time.as_secs_f64()));
        }
        next
    }

    /// Runs the command of the program that words mean.
    async fn words(&mut self, words: Vec<String>) -> Result<()> {
        let wishes = self.wishes.clone();
        self.words_with(&wishes, &words).await
    }

    /// Runs a query for how its rows are found; it prints none.
    async fn explained(&mut self, words: Vec<String>) -> Result<()> {
        let mode = Some(Output::None);
        let wishes = Wishes { mode, explain: true, ..self.wishes.clone() };
        self.words_with(&wishes, &words).await
    }

    async fn words_with(&mut self, wishes: &Wishes, words: &[String]) -> Result<()> {
        let command = match wishes.command(words)? {
            Meant::Command(command) => *command,
            Meant::Text(text) => {
                print::out().write_all(text.as_bytes())?;
                return Ok(());
            }
        };
        // Names that were asked for may be others from now on.
        if !matches!(command, Command::Query(_) | Command::Export(_) | Command::Sas(_)) {
            self.known.forget();
        }
        match self.command(command).await? {
            Exit::Ok => Ok(()),
            // It has said why.
            exit => {
                let why = format!("it ended with the exit code {}", exit as u8);
                Err(Failure::new(exit, why).into())
            }
        }
    }

    async fn command(&mut self, command: Command) -> Result<Exit> {
        match command {
            Command::Query(args) => self.query(args).await,
            Command::Entity(args) => entity::run(args).await,
            Command::Table(args) => table::run(args).await,
            Command::Import(args) => import::run(args, import::For::Shell).await,
            Command::Export(args) => export::run(args).await,
            Command::Copy(args) => copy::run(args).await,
            Command::Sas(args) => sas::run(args),
            _ => Err(Failure::usage("this is no command of the shell").into()),
        }
    }

    /// Runs a query, and learns the names that it finds.
    async fn query(&mut self, args: QueryArgs) -> Result<Exit> {
        let (table, known) = (args.table.clone(), &mut self.known);
        query::run_seeing(args, |page| known.see(&table, &page.entities)).await
    }

    /// The query that a filter of the table in use is.
    fn filter(&self, filter: &str) -> Result<Vec<String>> {
        let table = self.table.clone().ok_or_else(no_table)?;
        Ok(vec!["query".to_owned(), table, format!("--filter={filter}")])
    }

    /// Runs a line that begins with a dot.
    async fn dot(&mut self, line: &str) -> Result<Next> {
        if let Some((".explain", rest)) = line.split_once(char::is_whitespace)
            && !matches!(rest.trim(), "on" | "off" | "-h" | "--help")
        {
            return self.explain(rest.trim()).await.map(|()| Next::Line);
        }
        let mut words = split::words(line)?;
        if let Some(first) = words.first_mut().filter(|first| !first.starts_with('.')) {
            first.insert(0, '.');
        }
        match DotLine::try_parse_from(words) {
            Ok(parsed) => self.own(parsed.what).await,
            Err(error) if !error.use_stderr() => {
                print::out().write_all(error.to_string().as_bytes())?;
                Ok(Next::Line)
            }
            Err(error) => Err(words::refused(&error)),
        }
    }

    /// Runs a command that begins with a dot.
    async fn own(&mut self, dot: Dot) -> Result<Next> {
        match dot {
            Dot::Tables { prefix } => {
                let prefix = format!("--prefix={}", prefix.unwrap_or_default());
                self.words(vec!["table".to_owned(), "list".to_owned(), prefix]).await?;
            }
            Dot::Schema { table } => self.schema(table).await?,
            Dot::Use { table } => self.take(table).await?,
            Dot::Explain { query } => {
                self.wishes.explain = switched(query.first(), "explain", self.wishes.explain)?;
            }
            Dot::Timer { switch } => {
                let name = switch.and_then(|switch| switch.to_possible_value());
                let name = name.map(|value| value.get_name().to_owned());
                self.timer = switched(name.as_ref(), "timer", self.timer)?;
            }
            Dot::Mode { mode: None } => {
                let name = self.wishes.mode.and_then(|mode| mode.to_possible_value());
                let own = "each command has its own".to_owned();
                let name = name.map_or(own, |name| name.get_name().to_owned());
                writeln!(print::out(), "{name}")?;
            }
            Dot::Mode { mode } => self.wishes.mode = mode,
            Dot::Import { file, table, flags } => {
                let words = ["import".to_owned(), file, "--table".to_owned(), table];
                self.words([&words[..], &flags].concat()).await?;
            }
            Dot::Dump { table, file } => {
                dump::dump(&self.open()?, &table, file.as_deref()).await?;
            }
            Dot::Read { file } => return Ok(Next::Read(file)),
            Dot::Help { command } => help(&command)?,
            Dot::Quit => return Ok(Next::End),
        }
        Ok(Next::Line)
    }

    /// Tells how the rows of a `query` line or of a filter are found.
    async fn explain(&mut self, query: &str) -> Result<()> {
        let words = match words::said(query, self.table.is_some())? {
            Said::Filter(filter) => self.filter(filter)?,
            Said::Noun => split::words(query)?,
            Said::Dot | Said::Nothing => Vec::new(),
        };
        if words.first().is_none_or(|word| word != "query") {
            return Err(Failure::usage(".explain takes a `query` line or a filter").into());
        }
        self.explained(words).await
    }

    async fn schema(&mut self, table: Option<String>) -> Result<()> {
        let table = table.or_else(|| self.table.clone()).ok_or_else(no_table)?;
        let sample = Sample::read(&self.open()?, &table, SCHEMA_ROWS).await?;
        self.known.learn(&table, sample.names());
        self.known.set_sampled(&table);
        sample.print(&table, self.wishes.mode.unwrap_or(Output::Table))
    }

    /// Takes a table into use, if it is there.
    async fn take(&mut self, table: Option<String>) -> Result<()> {
        let Some(table) = table else {
            let text = self.table.as_deref().unwrap_or("no table is in use");
            writeln!(print::out(), "{text}")?;
            return Ok(());
        };
        TableName::parse(&table)
            .map_err(|error| Failure::usage(format!("the table name {table}: {error}")))?;
        let sample = Sample::read(&self.open()?, &table, NAME_ROWS).await?;
        self.known.learn(&table, sample.names());
        self.known.set_sampled(&table);
        self.table = Some(table);
        Ok(())
    }

    /// The names that completion wants. What cannot be had in time is left out.
    pub(crate) async fn names(&mut self, names: &Names) -> Vec<String> {
        match names {
            Names::None => Vec::new(),
            Names::Tables => {
                if self.known.tables().is_none() {
                    let asked = async { self.open()?.tables().await };
                    let tables = tokio::time::timeout(NAMES_TIME_MAX, asked).await;
                    self.known.set_tables(tables.ok().and_then(Result::ok).unwrap_or_default());
                }
                self.known.tables().unwrap_or_default().to_vec()
            }
            Names::Columns(table) => {
                if let Some(table) = table.as_deref().filter(|table| !self.known.is_sampled(table))
                {
                    let asked = async { Sample::read(&self.open()?, table, NAME_ROWS).await };
                    if let Ok(Ok(sample)) = tokio::time::timeout(NAMES_TIME_MAX, asked).await {
                        self.known.learn(table, sample.names());
                    }
                    self.known.set_sampled(table);
                }
                self.known.columns(table.as_deref())
            }
        }
    }

    /// The tables of the session, to be read.
    fn open(&self) -> Result<Target> {
        Target::open(&self.wishes.place, Access::Read, Duration::ZERO)
    }
}

fn no_table() -> Failure {
    Failure::usage("no table is in use: `.use TABLE` takes one")
}

/// What a switch is after a word; without one it is told.
fn switched(word: Option<&String>, name: &str, is: bool) -> Result<bool> {
    match word.map(String::as_str) {
        Some(word) => Ok(word == "on"),
        None => {
            writeln!(print::out(), "{name} is {}", if is { "on" } else { "off" })?;
            Ok(is)
        }
    }
}

/// Lists all commands, or prints the help of one.
fn help(names: &[String]) -> Result<()> {
    let mut out = print::out();
    let Some((first, rest)) = names.split_first() else {
        out.write_all(listed().as_bytes())?;
        for command in Cli::command().get_subcommands() {
            if NOUNS.contains(&command.get_name()) {
                let about = command.get_about().map(ToString::to_string).unwrap_or_default();
                writeln!(out, "  {:<28} {}", command.get_name(), about.trim_end_matches('.'))?;
            }
        }
        writeln!(out, "  {:<28} Behind .use: the rows of that table", "FILTER")?;
        return Ok(());
    };
    let mut command = DotLine::command();
    command.build();
    let mut found = command.find_subcommand(first).cloned();
    if found.is_none() {
        let dotted = format!(".{first}");
        found = command.find_subcommand(&dotted).cloned();
    }
    if found.is_none() && NOUNS.contains(&first.as_str()) {
        let mut all = Cli::command();
        all.build();
        found = all.find_subcommand(first).cloned();
    }
    for name in rest {
        found = found.and_then(|found| found.find_subcommand(name).cloned());
    }
    let mut found = found.ok_or_else(|| {
        Failure::usage(format!("no command is called `{}`; .help lists them", names.join(" ")))
    })?;
    out.write_all(found.render_long_help().to_string().as_bytes())?;
    Ok(())
}
