//! Where the settings of `serve` come from: flags, else variables, else a file of TOML, else
//! defaults.
//!
//! What the file says and nothing before it does is put among the words of the command line, so
//! that it is checked as they are and means what they mean. An unknown key and a bad value are
//! named with file, line and key.

#![allow(clippy::disallowed_methods, reason = "the settings are the user's file")]

use crate::args::command::Cli;
use crate::exit::{Exit, Failure};
use crate::print;
use anyhow::{Context, Result};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The words of a command line, with those of a file among them.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    pub(crate) words: Vec<OsString>,
    /// The place in the file, by flag.
    from_file: BTreeMap<String, String>,
}

/// More is no file of settings.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What has to be asked for where the server is started: nobody is to meet it by a file that he
/// forgot.
const FLAGS_ONLY: [&str; 6] =
    ["config", "fault-lab", "fault-seed", "throttle-partition", "throttle-account", "testing"];

/// Reads the file of settings that the words, or a variable, name.
pub(crate) fn of_process(words: Vec<OsString>) -> Result<Settings> {
    let named = |at: usize, name: &str| words.get(at).is_some_and(|word| word == name);
    let command = match (named(1, "serve"), named(1, "config") && named(2, "print")) {
        (true, _) => 2,
        (_, true) => 3,
        _ => return Ok(Settings { words, ..Settings::default() }),
    };
    let given = given(&words);
    let Some(path) = given.as_ref().and_then(|given| given.get_raw("config")?.next()) else {
        return Ok(Settings { words, ..Settings::default() });
    };
    let path = Path::new(path);
    let shown = path.display().to_string();
    let size = std::fs::metadata(path).with_context(|| format!("--config {shown}"))?.len();
    if size > FILE_BYTES_MAX {
        return Err(Failure::usage(format!("--config {shown}: {size} bytes are too many")).into());
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("--config {shown}"))?;
    let serve = subcommand();
    let mut settings = Settings { words, ..Settings::default() };
    for Entry { key, line, words } in entries(&serve, &shown, &text)? {
        let id = arg(&serve, &key).map(|arg| arg.get_id().as_str().to_owned()).unwrap_or_default();
        let source = given.as_ref().and_then(|given| given.value_source(&id));
        if !matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable)) {
            settings.from_file.insert(key, format!("{shown}:{line}"));
            settings.words.splice(command..command, words);
        }
    }
    Ok(settings)
}

/// What flags and variables say, as far as they can be understood.
fn given(words: &[OsString]) -> Option<ArgMatches> {
    let matches = Cli::command().ignore_errors(true).try_get_matches_from(words).ok()?;
    let (_, own) = matches.subcommand()?;
    Some(own.subcommand().map_or(own, |(_, deeper)| deeper).clone())
}

/// `serve` with all its flags.
fn subcommand() -> Command {
    let mut all = Cli::command();
    all.build();
    all.find_subcommand("serve").cloned().unwrap_or_default()
}

fn arg<'a>(serve: &'a Command, key: &str) -> Option<&'a Arg> {
    serve.get_arguments().find(|arg| arg.get_long() == Some(key))
}

/// A line of the file that is understood.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    key: String,
    line: usize,
    /// As a command line would say it.
    words: Vec<OsString>,
}

fn entries(serve: &Command, path: &str, text: &str) -> Result<Vec<Entry>> {
    let line_of = |at: usize| 1 + text[..at.min(text.len())].matches('\n').count();
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(span.start));
        Failure::usage(format!("{path}:{line}: {}", error.message()))
    })?;
    let mut entries: Vec<Entry> = Vec::new();
    for (key, value) in table.get_ref() {
        let (line, key) = (line_of(key.span().start), key.get_ref().to_string());
        let place = format!("{path}:{line}: {key}");
        let wrong = |what: &str| Failure::usage(format!("{place}: {what}"));
        if FLAGS_ONLY.contains(&key.as_str()) {
            return Err(wrong("this is a flag only").into());
        }
        let own = arg(serve, &key).filter(|arg| !arg.is_hide_set() && key != "help");
        let own = own.ok_or_else(|| match arg(serve, &key.replace('_', "-")) {
            Some(near) => {
                wrong(&format!("unknown; `{}` is known", near.get_id().as_str().replace('_', "-")))
            }
            None => wrong("unknown; `tabulith config print` shows what there is"),
        })?;
        let words = words(own, &key, value.get_ref()).map_err(&wrong)?;
        let line_of_words = [&[OsString::from("tabulith"), "serve".into()], &words[..]].concat();
        match Cli::parsed(&line_of_words) {
            // What else it needs may stand elsewhere.
            Err(error) if !is_about_others(error.kind()) => {
                let text = error.to_string();
                let text =
                    text.trim_start_matches("error: ").split("\n\n").next().unwrap_or_default();
                return Err(wrong(&text.replace('\n', " ")).into());
            }
            _ => entries.push(Entry { key, line, words }),
        }
    }
    Ok(entries)
}

fn is_about_others(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::MissingRequiredArgument | ErrorKind::ArgumentConflict)
}

/// A value as a command line would say it.
fn words(arg: &Arg, key: &str, value: &DeValue<'_>) -> Result<Vec<OsString>, &'static str> {
    let is_switch = matches!(arg.get_action(), ArgAction::SetTrue);
    let word = |value: &DeValue<'_>| {
        let text = match value {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Float(number) => number.to_string(),
            _ => return Err("text or a number is needed"),
        };
        Ok(OsString::from(format!("--{key}={text}")))
    };
    match value {
        DeValue::Boolean(on) if is_switch => {
            Ok(if *on { vec![OsString::from(format!("--{key}"))] } else { Vec::new() })
        }
        _ if is_switch => Err("true or false is needed"),
        DeValue::Array(values) if matches!(arg.get_action(), ArgAction::Append) => {
            values.iter().map(|value: &Spanned<DeValue<'_>>| word(value.get_ref())).collect()
        }
        DeValue::Array(_) => Err("one value is needed, not a list"),
        value => word(value).map(|word| vec![word]),
    }
}

impl Settings {
    /// Prints each setting and where it came from, as a file of settings. Keys of accounts are not
    /// shown.
    pub(crate) fn print(&self) -> Result<Exit> {
        let matches = Cli::command().try_get_matches_from(&self.words)?;
        let own = matches.subcommand().and_then(|(_, own)| own.subcommand()).map(|(_, own)| own);
        let serve = subcommand();
        let mut out = print::out();
        for arg in serve.get_arguments() {
            let key = arg.get_long().unwrap_or_default();
            if arg.is_hide_set() || ["help", "version", "config", ""].contains(&key) {
                continue;
            }
            let (value, source) =
                own.map_or_else(Default::default, |own| self.shown(arg, key, own));
            match value {
                // Refused in a file, whatever its value.
                Some(value) if FLAGS_ONLY.contains(&key) => {
                    writeln!(out, "# {key} = {value}: a flag only, {source}")?;
                }
                Some(value) => writeln!(out, "{key} = {value} # {source}")?,
                None => writeln!(out, "# {key} is not set")?,
            }
        }
        let has_file = own.is_some_and(|own| own.get_raw("accounts_file").is_some());
        let accounts = match std::env::var_os("AZURITE_ACCOUNTS").filter(|text| !text.is_empty()) {
            // They replace those of the variable.
            _ if has_file => "not shown # accounts-file",
            Some(_) => "not shown # AZURITE_ACCOUNTS",
            None => "devstoreaccount1 # default",
        };
        writeln!(out, "# accounts: {accounts}")?;
        Ok(Exit::Ok)
    }

    /// A setting in TOML, and where it came from.
    fn shown(&self, arg: &Arg, key: &str, own: &ArgMatches) -> (Option<String>, String) {
        let id = arg.get_id().as_str();
        let raw = own.get_raw(id).map(|values| {
            values.map(|value| value.to_string_lossy().into_owned()).collect::<Vec<_>>()
        });
        let values = raw.filter(|values| !values.is_empty());
        let source = match (own.value_source(id), self.from_file.get(key)) {
            (Some(ValueSource::CommandLine), Some(place)) => place.clone(),
            (Some(ValueSource::CommandLine), None) => format!("--{key}"),
            (Some(ValueSource::EnvVariable), _) => {
                arg.get_env().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
            }
            _ => "default".to_owned(),
        };
        let number = arg.get_default_values().iter().all(|text| is_number(&text.to_string_lossy()))
            && !arg.get_default_values().is_empty();
        // Text of JSON is text of TOML.
        let one = |text: &String| {
            if number && is_number(text) {
                text.clone()
            } else {
                serde_json::Value::from(text.as_str()).to_string()
            }
        };
        let value = match (arg.get_action(), values) {
            (ArgAction::SetTrue, _) => Some(own.get_flag(id).to_string()),
            (ArgAction::Append, Some(values)) => {
                Some(format!("[{}]", values.iter().map(one).collect::<Vec<_>>().join(", ")))
            }
            (_, values) => values.and_then(|values| values.first().map(one)),
        };
        (value, source)
    }
}

fn is_number(text: &str) -> bool {
    text.parse::<u64>().is_ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Entry>> {
        entries(&subcommand(), "t.toml", text)
    }

    #[track_caller]
    fn wrong(text: &str, says: &str) {
        let error = read(text).unwrap_err().to_string();
        assert!(error.starts_with("t.toml:") && error.contains(says), "{text}: {error}");
    }

    #[test]
    fn keys_are_flags() {
        let text = "# mine\nport = 7\nlisten = \"0.0.0.0\"\nsilent = true\n\
                    trusted-proxy = [\"10.0.0.0/8\", \"192.0.2.1\"]\noauth-without-tls = false\n";
        let mut words: Vec<_> =
            read(text).unwrap().into_iter().map(|own| (own.line, own.words)).collect();
        words.sort();
        let words: Vec<_> = words.into_iter().flat_map(|(_, words)| words).collect();
        let is = [
            "--port=7",
            "--listen=0.0.0.0",
            "--silent",
            "--trusted-proxy=10.0.0.0/8",
            "--trusted-proxy=192.0.2.1",
        ];
        assert_eq!(words, is.map(OsString::from));
    }

    #[test]
    fn what_is_wrong_is_named_by_file_line_and_key() {
        wrong("port = 1\nprot = 2\n", "t.toml:2: prot: unknown");
        wrong("\n\nport = \"x\"\n", "t.toml:3: port: invalid value 'x'");
        wrong("port = 65536\n", "t.toml:1: port: invalid value '65536'");
        wrong("port = [1]\n", "t.toml:1: port: one value is needed");
        wrong("silent = 1\n", "t.toml:1: silent: true or false");
        wrong("port = true\n", "t.toml:1: port: text or a number");
        wrong("log_format = \"json\"\n", "t.toml:1: log_format: unknown; `log-format` is known");
        wrong("log-format = \"xml\"\n", "log-format: invalid value 'xml'");
        wrong("port = 1\nport = 2\n", "t.toml:2: ");
        wrong("port = \n", "t.toml:1: ");
        wrong("[serve]\nport = 1\n", "t.toml:1: serve: unknown");
        wrong("fault-lab = \"f\"\n", "t.toml:1: fault-lab: this is a flag only");
        wrong("testing = true\n", "t.toml:1: testing: this is a flag only");
        wrong("help = true\n", "t.toml:1: help: unknown");
        wrong("\"--port\" = 1\n", "unknown");
        wrong("oauth-role = [\"x\"]\n", "oauth-role: invalid value 'x'");
    }

    #[test]
    fn what_needs_another_setting_is_judged_with_it() {
        assert_eq!(read("tls-cert = \"a\"\n").unwrap().len(), 1);
    }
}
