//! What tests of applications ask for: all data gone, an account of their own, a copy of
//! everything.
//!
//! Only where the server was started for that. What is here destroys data without credentials.

use crate::app::App;
use crate::config::{Accounts, ConfigError};
use crate::http::message::Head;
use crate::services::base::Store;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::fmt;
use std::net::SocketAddr;
use tabulith::table::name::AccountName;
use uuid::Uuid;

/// Whoever makes copies of all data.
pub trait Forks: fmt::Debug + Send + Sync {
    /// Serves a copy of all that is there now, with these accounts; gives its number and its
    /// address.
    fn fork(&self, accounts: &Accounts) -> Result<(u64, SocketAddr), String>;

    /// Ends a copy; whether there was one of that number.
    fn end(&self, number: u64) -> bool;
}

/// Most accounts at once.
const ACCOUNTS_MAX: usize = 1_000;

/// What names of accounts that were made here begin with.
const ACCOUNT_PREFIX: &str = "test";

/// The status and the JSON of the answer to one of these requests; `path` is what follows `/_/`,
/// and `base` what addresses of accounts begin with. None where it is none of them. May wait for
/// the disk.
pub(crate) fn perform<S: Store>(
    app: &App<S>,
    forks: &dyn Forks,
    head: &Head,
    path: &str,
    base: &str,
) -> Option<(u16, Value)> {
    let mut parts = path.split('/');
    let (noun, name, more) = (parts.next()?, parts.next(), parts.next());
    let done = match (head.method.as_str(), noun, name, more) {
        ("POST", "reset", name, None) => reset(app, name),
        ("POST", "accounts", None, None) => make_account(app, base),
        ("DELETE", "accounts", Some(name), None) => end_account(app, name),
        ("POST", "fork", None, None) => fork(app, forks),
        ("DELETE", "fork", Some(number), None) => end_fork(forks, number),
        _ => return None,
    };
    Some(done.unwrap_or_else(|(status, error)| (status, json!({ "error": error }))))
}

type Done = Result<(u16, Value), (u16, String)>;

/// Empties an account, or all of them.
fn reset<S: Store>(app: &App<S>, account: Option<&str>) -> Done {
    let accounts = app.keyring().accounts();
    let mut tables = 0;
    let mut found = false;
    for name in accounts.names().filter(|name| account.is_none_or(|only| only == *name)) {
        found = true;
        tables += empty(app, name)?;
    }
    if found { Ok((200, json!({ "tables": tables }))) } else { Err(no_account()) }
}

fn empty<S: Store>(app: &App<S>, name: &str) -> Result<u64, (u16, String)> {
    let account = AccountName::parse(name).map_err(|_| no_account())?;
    app.services()
        .empty_account(&account)
        .map_err(|error| (error.status, error.message.to_string()))
}

fn no_account() -> (u16, String) {
    (404, "there is no such account".to_owned())
}

fn make_account<S: Store>(app: &App<S>, base: &str) -> Done {
    let protocol = base.split(':').next().unwrap_or_default();
    let name = format!("{ACCOUNT_PREFIX}{}", &Uuid::new_v4().simple().to_string()[..12]);
    let secret: Vec<u8> = (0..4).flat_map(|_| Uuid::new_v4().into_bytes()).collect();
    let key = STANDARD.encode(secret);
    let made = app.keyring().update(|accounts| match accounts.names().count() {
        count if count >= ACCOUNTS_MAX => Err(ConfigError::new("there are too many accounts")),
        _ => accounts.with(&name, &key),
    });
    made.map_err(|error| (409, error.to_string()))?;
    let connection = format!(
        "DefaultEndpointsProtocol={protocol};AccountName={name};AccountKey={key};TableEndpoint={base}/{name};"
    );
    Ok((201, json!({ "account": name, "key": key, "connection": connection })))
}

fn end_account<S: Store>(app: &App<S>, name: &str) -> Done {
    if !name.starts_with(ACCOUNT_PREFIX) || AccountName::check(name).is_err() {
        return Err(no_account());
    }
    // Its key dies first: nobody writes to what is being emptied.
    let ended = app.keyring().update(|accounts| accounts.without(name));
    ended.map_err(|_| no_account())?;
    let tables = empty(app, name)?;
    Ok((200, json!({ "tables": tables })))
}

fn fork<S: Store>(app: &App<S>, forks: &dyn Forks) -> Done {
    let (number, addr) = forks.fork(&app.keyring().accounts()).map_err(|error| (503, error))?;
    Ok((201, json!({ "fork": number, "endpoint": format!("http://{addr}"), "port": addr.port() })))
}

fn end_fork(forks: &dyn Forks, number: &str) -> Done {
    match number.parse().is_ok_and(|number| forks.end(number)) {
        true => Ok((200, json!({}))),
        false => Err((404, "there is no such copy".to_owned())),
    }
}
