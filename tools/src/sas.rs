//! `tabulith sas`: tokens signed, and tokens explained.

use crate::args::sas::{CreateSasArgs, DecodeArgs, Operation, SasArgs, SasCommand};
use crate::args::target::TargetArgs;
use crate::connect::{self, Place};
use crate::exit::{self, Exit, Failure};
use crate::list;
use crate::print::{self, note};
use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value as Json};
use std::io::{self, Read as _, Write as _};
use tabulith::env::clock::{Clock, SystemClock};
use tabulith::ids::CommitTs;
use tabulith::table::value::DateTime;
use tabulith_client::connection::DEVELOPMENT_ACCOUNT;
use tabulith_client::{
    AccountPermissions, AccountSas, Connection, Permissions, Protocols, Resources, TableSas,
};
use tabulith_server::Accounts;
use tabulith_server::auth::access::Access;
use tabulith_server::auth::why::{self, Asked};

/// Most bytes of a token that is read from stdin.
const TOKEN_BYTES_MAX: u64 = 64 << 10;

/// Does it.
pub(crate) fn run(args: SasArgs) -> Result<Exit> {
    match args.what {
        SasCommand::Create(args) => create(args),
        SasCommand::Decode(args) => decode(args),
    }
}

fn create(args: CreateSasArgs) -> Result<Exit> {
    let connection = connection(&args.target)?;
    let account = &connection.account;
    let key = connection
        .key()
        .ok_or_else(|| Failure::usage(format!("signing needs the key of the account {account}")))?;
    let now = CommitTs(SystemClock::new().wall_ticks()).seconds();
    let now = Timestamp::from_second(now).context("the clock")?;
    let when = |flag: &str, text: Option<&str>| {
        text.map(|text| moment(text, now).ok_or_else(|| not_a_moment(flag, text))).transpose()
    };
    let expiry = when("--expiry", args.expiry.as_deref())?;
    let start = when("--start", args.start.as_deref())?;
    let protocols = if args.https_only { Protocols::HttpsOnly } else { Protocols::Any };
    let letters = |flag: &str, text: &str, allowed: &str| match text
        .chars()
        .find(|letter| !allowed.contains(*letter))
    {
        Some(letter) => {
            Err(Failure::usage(format!("{flag} {text}: {letter} is none of {allowed}")))
        }
        None => Ok(()),
    };
    let permissions = args.permissions.as_deref();
    let has = |letter: char| permissions.is_some_and(|text| text.contains(letter));
    let (token, path) = match &args.table_name {
        Some(table) => {
            letters("--permissions", permissions.unwrap_or_default(), "raud")?;
            let given =
                Permissions { read: has('r'), add: has('a'), update: has('u'), delete: has('d') };
            let token = TableSas {
                permissions: permissions.map(|_| given),
                start,
                expiry,
                policy: args.policy_name,
                addresses: args.ip,
                protocols,
                first: args.start_pk.map(|partition| (partition, args.start_rk)),
                last: args.end_pk.map(|partition| (partition, args.end_rk)),
                ..TableSas::new(table)
            };
            (token.sign(account, key).map_err(unsigned)?, format!("/{table}"))
        }
        None => {
            letters("--permissions", permissions.unwrap_or_default(), "rwdlacu")?;
            letters("--resource-types", &args.resource_types, "sco")?;
            let of = |letter| args.resource_types.contains(letter);
            let token = AccountSas {
                permissions: AccountPermissions {
                    read: has('r'),
                    write: has('w'),
                    delete: has('d'),
                    list: has('l'),
                    add: has('a'),
                    create: has('c'),
                    update: has('u'),
                },
                resources: Resources { service: of('s'), tables: of('c'), entities: of('o') },
                start,
                addresses: args.ip,
                protocols,
                ..AccountSas::new(expiry.context("--expiry")?)
            };
            (token.sign(account, key).map_err(unsigned)?, String::new())
        }
    };
    let address = if args.uri { format!("{}{path}?", connection.endpoint) } else { String::new() };
    writeln!(print::out(), "{address}{token}")?;
    Ok(Exit::Ok)
}

fn unsigned(error: tabulith_client::Error) -> Failure {
    Failure::usage(error.to_string())
}

fn decode(args: DecodeArgs) -> Result<Exit> {
    let mut text = args.token;
    if text == "-" {
        text.clear();
        io::stdin().lock().take(TOKEN_BYTES_MAX).read_to_string(&mut text).context("stdin")?;
    }
    let text = text.trim();
    let (address, token) = match text.split_once('?') {
        Some((address, token)) => (address, token),
        None => ("", text),
    };
    let connection = match connect::is_named(&args.target) {
        true => Some(connection(&args.target)?),
        // The account that everybody knows is judged only where the address names it.
        false if address.contains(DEVELOPMENT_ACCOUNT) => connection(&args.target).ok(),
        false => None,
    };
    let of_address = Connection::parse(text).ok().map(|connection| connection.account);
    let own = connection.as_ref().map(|connection| connection.account.clone());
    let account = of_address.or(own).unwrap_or_else(|| DEVELOPMENT_ACCOUNT.to_owned());
    let key = connection.filter(|connection| connection.account == account);
    let accounts = key.and_then(|connection| {
        let key = BASE64.encode(connection.key()?.bytes());
        Accounts::parse(&format!("{account}:{key}")).ok()
    });
    let asked = Asked {
        account,
        accounts,
        now: DateTime::from(CommitTs(SystemClock::new().wall_ticks())),
        access: args.operation.map(access),
        table: args.table_name,
        keys: args.partition_key.zip(args.row_key),
        peer: args.ip,
        secure: (!address.is_empty()).then(|| address.starts_with("https://")),
    };
    let told = why::explain(token, &asked);
    let item = |pairs: [(&str, &str); 3]| {
        Map::from_iter(pairs.map(|(name, text)| (name.to_owned(), Json::from(text))))
    };
    let items: Vec<Map<String, Json>> = told
        .fields
        .iter()
        .map(|field| {
            item([("field", &field.name), ("value", &field.value), ("meaning", &field.meaning)])
        })
        .collect();
    let printed = list::print(&mut print::out(), args.output, &items);
    for open in &told.open {
        note(&format!("not judged: {open}"));
    }
    if told.faults.is_empty() {
        note("nothing is wrong with it");
        return exit::verdict(printed, Exit::Ok);
    }
    for fault in &told.faults {
        note(&format!("it fails: {fault}"));
    }
    if let (Some(text), true) =
        (&told.to_sign, told.faults.iter().any(|fault| fault.contains("signed it")))
    {
        note(&format!("what the key has to sign: {text:?}"));
    }
    exit::verdict(printed, Exit::Auth)
}

/// The server that flags, profile or environment name.
fn connection(args: &TargetArgs) -> Result<Connection> {
    match connect::of_process(args)? {
        Place::Server(connection, _) => Ok(*connection),
        Place::Folder(..) => {
            Err(Failure::usage("a folder has no keys: --data-dir has no meaning here").into())
        }
    }
}

/// `8h` from now on, or a moment.
fn moment(text: &str, now: Timestamp) -> Option<tabulith_client::DateTime> {
    let seconds = match text.split_at_checked(text.len().checked_sub(1)?)? {
        (count, unit @ ("m" | "h" | "d")) => {
            let count: i64 = count.parse::<u32>().ok()?.into();
            let unit = match unit {
                "m" => 60,
                "h" => 3_600,
                _ => 86_400,
            };
            now.checked_add(SignedDuration::from_secs(count * unit)).ok()?.as_second()
        }
        _ if text.len() == "YYYY-MM-DD".len() => {
            format!("{text}T00:00Z").parse::<Timestamp>().ok()?.as_second()
        }
        _ => text.parse::<Timestamp>().ok()?.as_second(),
    };
    tabulith_client::DateTime::from_seconds(seconds).ok()
}

fn not_a_moment(flag: &str, text: &str) -> Failure {
    Failure::usage(format!(
        "{flag} {text}: neither a time such as 2027-01-31T12:00Z nor 90m, 8h, 30d"
    ))
}

fn access(operation: Operation) -> Access {
    match operation {
        Operation::Query => Access::Read,
        Operation::Insert => Access::Insert,
        Operation::Upsert => Access::Upsert,
        Operation::Update => Access::Update,
        Operation::Delete => Access::Delete,
        Operation::ListTables => Access::ListTables,
        Operation::CreateTable => Access::CreateTable,
        Operation::DeleteTable => Access::DeleteTable,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn moments_are_times_or_spans() {
        let now: Timestamp = "2026-11-22T12:00:00Z".parse().unwrap();
        let read = |text: &str| moment(text, now).map(|moment| moment.to_string());
        for (text, is) in [
            ("90m", "2026-11-22T13:30:00Z"),
            ("8h", "2026-11-22T20:00:00Z"),
            ("30d", "2026-12-22T12:00:00Z"),
            ("2027-01-31T12:00Z", "2027-01-31T12:00:00Z"),
            ("2027-01-31T12:00:05+01:00", "2027-01-31T11:00:05Z"),
            ("2027-01-31", "2027-01-31T00:00:00Z"),
        ] {
            assert_eq!(read(text).as_deref(), Some(is), "{text}");
        }
        for text in
            ["", "h", "8", "-1h", "8w", "é", "2027-01-31T12:00", "99999999999d", "4000000000d"]
        {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
