//! `tabulith conformance`: asks an endpoint every row of the conformance list and prints its score.

use crate::args::conformance::{ConformanceArgs, ReportForm};
use crate::connect;
use crate::exit::{self, Exit, Failure};
use crate::print;
use anyhow::Result;
use std::io::{self, Write};
use tabulith_client::connection::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use tabulith_conformance::list;
use tabulith_conformance::row::{Provenance, Row};
use tabulith_conformance::run::Outcome;
use tabulith_conformance::score::{Score, json, told};
use tabulith_conformance::suite::run_all;
use tabulith_conformance::target::{Key, Target};
use tabulith_conformance::tls::Tls;
use tabulith_conformance::wire::{Connect, Plain};

/// Asks, prints what failed and the score; fails where a row does.
pub(crate) fn run(args: &ConformanceArgs) -> Result<Exit> {
    let rows = chosen(args)?;
    let mut out = print::out();
    if args.list {
        for row in &rows {
            let (mark, section) = (row.provenance, &row.section.number);
            writeln!(out, "{}\t{mark}\t{section}\t{}\t{}", row.id, row.about, row.test)?;
        }
        return Ok(Exit::Ok);
    }
    let target = target(args)?;
    let connect = connector(args, &target)?;
    let outcomes = run_all(&rows, &target, &*connect, usize::from(args.jobs));
    let told = tell(args.output, &rows, &outcomes, out);
    let failed = outcomes.iter().any(|outcome| matches!(outcome, Outcome::Failed(_)));
    exit::verdict(told, if failed { Exit::Failure } else { Exit::Ok })
}

fn tell(
    form: ReportForm,
    rows: &[Row],
    outcomes: &[Outcome],
    mut out: impl Write,
) -> io::Result<()> {
    match form {
        ReportForm::Json => writeln!(out, "{}", json(rows, outcomes))?,
        ReportForm::Text => {
            for (row, outcome) in rows.iter().zip(outcomes) {
                match outcome {
                    Outcome::Failed(failure) => writeln!(out, "{}", told(row, failure))?,
                    Outcome::Skipped(need) => {
                        writeln!(out, "skipped {}: needs {}", row.id, need.missing())?;
                    }
                    Outcome::Passed => {}
                }
            }
            writeln!(out, "{}", Score::of(rows, outcomes).text())?;
        }
    }
    Ok(())
}

/// The rows that the flags leave.
fn chosen(args: &ConformanceArgs) -> Result<Vec<Row>> {
    let mut marks = Vec::new();
    for mark in &args.provenance {
        let known = Provenance::of(mark);
        marks.push(known.ok_or_else(|| Failure::usage(format!("no provenance is {mark}")))?);
    }
    let mut rows = list::rows()?;
    rows.retain(|row| {
        let named = |start: &String| row.id.starts_with(start.as_str());
        (args.only.is_empty() || args.only.iter().any(named))
            && (marks.is_empty() || marks.contains(&row.provenance))
    });
    if rows.is_empty() {
        return Err(Failure::usage("no row has such an id and provenance").into());
    }
    Ok(rows)
}

/// What makes connections to the target, once one of them has been made.
fn connector(args: &ConformanceArgs, target: &Target) -> Result<Box<dyn Connect>> {
    let connect: Box<dyn Connect> = if target.tls {
        let config = connect::trust(args.ca.as_deref())?.config();
        Box::new(Tls::new(config.map_err(|error| Failure::usage(error.to_string()))?))
    } else {
        Box::new(Plain)
    };
    // Otherwise each of many rows would say the same.
    match connect.connect(&target.host, target.port) {
        Ok(_) => Ok(connect),
        Err(error) => {
            let help = if target.tls { "; --ca FILE names certificates to trust" } else { "" };
            let why = format!("no answer from {}: {error}{help}", target.authority);
            Err(Failure::new(Exit::Unavailable, why).into())
        }
    }
}

fn target(args: &ConformanceArgs) -> Result<Target> {
    let usage = |error: &dyn std::fmt::Display| Failure::usage(error.to_string());
    let mut target = if args.endpoint.contains("://") && !args.endpoint.contains(';') {
        let account = args.account.as_deref();
        let named = Target::new(&args.endpoint, account, Key::of_bytes(Vec::new()));
        let mut target = named.map_err(|error| usage(&error))?;
        let key = match &args.key {
            Some(key) => key.clone(),
            None if target.account == DEVELOPMENT_ACCOUNT => DEVELOPMENT_KEY.to_owned(),
            None => std::env::var("AZURE_STORAGE_KEY").map_err(|_| {
                Failure::usage("neither --key nor AZURE_STORAGE_KEY has the account's key")
            })?,
        };
        target.key = Key::of_base64(&key).map_err(|error| usage(&error))?;
        target
    } else {
        for (flag, given) in [("--account", &args.account), ("--key", &args.key)] {
            if given.is_some() {
                let why = format!("{flag} cannot be used with a connection string: it has its own");
                return Err(Failure::usage(why).into());
            }
        }
        let connection = connect::parse(&args.endpoint)?;
        let Some(key) = connection.key() else {
            return Err(Failure::usage("the connection string has no AccountKey").into());
        };
        let key = Key::of_bytes(key.bytes().to_vec());
        let named = Target::new(&connection.endpoint, Some(&connection.account), key);
        named.map_err(|error| usage(&error))?
    };
    if let Some(key) = &args.second_key {
        target.second_key = Some(Key::of_base64(key).map_err(|error| usage(&error))?);
    }
    target.service_changes = args.allow_service_changes;
    Ok(target)
}
