//! Where the tables are and what opens them: connection strings, in the form that all SDKs read.
//!
//! A key is kept in a type that does not print it; no error here echoes a connection string.

use crate::bearer::Bearer;
use crate::sign::{Key, Scheme};
use std::fmt;

/// The account that every emulator knows.
pub const DEVELOPMENT_ACCOUNT: &str = "devstoreaccount1";
/// Its key, which is no secret.
pub const DEVELOPMENT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const DEVELOPMENT_HOST: &str = "http://127.0.0.1";

/// An endpoint and what opens it.
///
/// ```
/// use tabulith_client::Connection;
/// let here = Connection::parse("UseDevelopmentStorage=true")?;
/// assert_eq!(here.endpoint, "http://127.0.0.1:10002/devstoreaccount1");
/// let there = Connection::parse("AccountName=shop;AccountKey=aGVsbG8=")?;
/// assert_eq!(there.endpoint, "https://shop.table.core.windows.net");
/// # Ok::<(), tabulith_client::connection::NoConnection>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The account's name.
    pub account: String,
    /// Scheme, host and port, with the account's name as the path where the style of addresses is
    /// the emulator's; no slash at the end.
    pub endpoint: String,
    /// The endpoint of the second region, which can only be read.
    pub secondary: String,
    /// What proves who asks.
    pub credential: Credential,
}

/// What proves who asks.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// The account's key, and how requests are signed with it.
    Key(Key, Scheme),
    /// A shared access signature: query parameters, without a question mark.
    Signature(String),
    /// Tokens, over HTTPS only.
    Bearer(Bearer),
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Credential::Key(..) => "Key(…)",
            Credential::Signature(_) => "Signature(…)",
            Credential::Bearer(_) => "Bearer(…)",
        })
    }
}

/// Why a text is no connection string; it repeats no part of it but the names of settings and the
/// host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("connection string: {0}")]
pub struct NoConnection(String);

fn no<T>(why: impl Into<String>) -> Result<T, NoConnection> {
    Err(NoConnection(why.into()))
}

impl Connection {
    /// Parses a connection string: `UseDevelopmentStorage=true`, or `AccountName` with `AccountKey`
    /// or `SharedAccessSignature`, and `TableEndpoint` where it is not Azure's own; or an address
    /// with a shared access signature behind its question mark.
    pub fn parse(text: &str) -> Result<Connection, NoConnection> {
        if text.starts_with("http://") || text.starts_with("https://") {
            return Connection::of_address(text);
        }
        let settings = Settings::parse(text)?;
        if settings.get("UseDevelopmentStorage").is_some_and(|yes| yes.eq_ignore_ascii_case("true"))
        {
            let host = settings.get("DevelopmentStorageProxyUri").unwrap_or(DEVELOPMENT_HOST);
            let host = host.trim_end_matches('/');
            let endpoint = checked(&format!("{host}:10002/{DEVELOPMENT_ACCOUNT}"))?;
            let key = Key::of_base64(DEVELOPMENT_KEY).or_else(|error| no(error.to_string()))?;
            return Connection::new(DEVELOPMENT_ACCOUNT, &endpoint, Credential::from(key));
        }
        let endpoint = settings.endpoint()?;
        let account = match settings.get("AccountName") {
            Some(account) => account.to_owned(),
            None => account_of(&endpoint)?,
        };
        let mut connection = Connection::new(&account, &endpoint, settings.credential()?)?;
        if let Some(secondary) = settings.get("TableSecondaryEndpoint") {
            connection.secondary = checked(secondary)?;
        }
        Ok(connection)
    }

    /// What follows the account in the address, as the name of a table does, is passed over.
    fn of_address(text: &str) -> Result<Connection, NoConnection> {
        let (address, token) = text.split_once('?').unwrap_or((text, ""));
        if !token.split('&').any(|parameter| parameter.starts_with("sig=")) {
            return no("the address has no shared access signature, ?…&sig=…");
        }
        let address = checked(address)?;
        let Ok(account) = account_of(&address) else { return no("the address names no account") };
        let (host, _) = authority_and_path(&address);
        let scheme = address.split("://").next().unwrap_or_default();
        let path = if host.contains(".table.") { String::new() } else { format!("/{account}") };
        let endpoint = format!("{scheme}://{host}{path}");
        Connection::new(&account, &endpoint, Credential::of_signature(token))
    }

    /// A connection to an account whose endpoint is known.
    pub fn new(
        account: &str,
        endpoint: &str,
        credential: Credential,
    ) -> Result<Connection, NoConnection> {
        let endpoint = checked(endpoint)?;
        let secondary = secondary_of(&endpoint, account);
        Ok(Connection { account: account.to_owned(), endpoint, secondary, credential })
    }

    /// The account's key, where the connection has one.
    pub fn key(&self) -> Option<&Key> {
        match &self.credential {
            Credential::Key(key, _) => Some(key),
            Credential::Signature(_) | Credential::Bearer(_) => None,
        }
    }

    /// The same account, opened by a shared access signature instead.
    #[must_use]
    pub fn with_signature(&self, token: &str) -> Connection {
        Connection { credential: Credential::of_signature(token), ..self.clone() }
    }

    /// The same account, with requests signed by this scheme if it is a key that opens it.
    #[must_use]
    pub fn with_scheme(mut self, scheme: Scheme) -> Connection {
        if let Credential::Key(_, own) = &mut self.credential {
            *own = scheme;
        }
        self
    }
}

impl Credential {
    /// A shared access signature, with or without a question mark before it.
    pub fn of_signature(token: &str) -> Credential {
        Credential::Signature(token.trim_start_matches('?').to_owned())
    }
}

impl From<Key> for Credential {
    fn from(key: Key) -> Credential {
        Credential::Key(key, Scheme::SharedKey)
    }
}

struct Settings<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Settings<'a> {
    fn parse(text: &'a str) -> Result<Settings<'a>, NoConnection> {
        let mut settings = Vec::new();
        for (at, part) in text.split(';').map(str::trim).filter(|part| !part.is_empty()).enumerate()
        {
            // The place, not the text: it may be half of a key.
            let Some(setting) = part.split_once('=') else {
                return no(format!("part {} is not Name=Value", at + 1));
            };
            settings.push(setting);
        }
        Ok(Settings(settings))
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    }

    fn endpoint(&self) -> Result<String, NoConnection> {
        if let Some(endpoint) = self.get("TableEndpoint") {
            return checked(endpoint);
        }
        let Some(account) = self.get("AccountName") else {
            return no("neither TableEndpoint nor AccountName is given");
        };
        let protocol = self.get("DefaultEndpointsProtocol").unwrap_or("https");
        let suffix = self.get("EndpointSuffix").unwrap_or("core.windows.net");
        checked(&format!("{protocol}://{account}.table.{suffix}"))
    }

    fn credential(&self) -> Result<Credential, NoConnection> {
        if let Some(key) = self.get("AccountKey") {
            let key = Key::of_base64(key).or_else(|_| no("AccountKey is not base64"))?;
            return Ok(Credential::from(key));
        }
        match self.get("SharedAccessSignature") {
            Some(token) => Ok(Credential::of_signature(token)),
            None => no("neither AccountKey nor SharedAccessSignature is given"),
        }
    }
}

fn checked(endpoint: &str) -> Result<String, NoConnection> {
    let shown = endpoint.split('?').next().unwrap_or_default();
    let trimmed = shown.trim_end_matches('/');
    let sound = trimmed.strip_prefix("http://").or_else(|| trimmed.strip_prefix("https://"));
    if sound.is_none_or(str::is_empty) || trimmed.parse::<hyper::Uri>().is_err() {
        return no(format!("the endpoint {shown} is neither http://… nor https://…"));
    }
    Ok(trimmed.to_owned())
}

fn authority_and_path(endpoint: &str) -> (&str, &str) {
    let rest = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
    rest.split_once('/').unwrap_or((rest, ""))
}

fn account_of(endpoint: &str) -> Result<String, NoConnection> {
    let (host, path) = authority_and_path(endpoint);
    let account = match host.split_once(".table.") {
        Some((account, _)) => account,
        None => path.split('/').next().unwrap_or_default(),
    };
    if account.is_empty() { no("AccountName is not given") } else { Ok(account.to_owned()) }
}

/// The account's name with `-secondary` behind it, in the host or in the path.
fn secondary_of(endpoint: &str, account: &str) -> String {
    let (_, path) = authority_and_path(endpoint);
    if path.is_empty() {
        return endpoint.replacen(
            &format!("://{account}."),
            &format!("://{account}-secondary."),
            1,
        );
    }
    match endpoint.strip_suffix(&format!("/{account}")) {
        Some(before) => format!("{before}/{account}-secondary"),
        None => endpoint.to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[track_caller]
    fn parsed(text: &str) -> (String, String, String) {
        let connection = Connection::parse(text).unwrap();
        (connection.account, connection.endpoint, connection.secondary)
    }

    #[test]
    fn development_storage_is_this_machine() {
        let expanded = format!(
            "DefaultEndpointsProtocol=http;AccountName={DEVELOPMENT_ACCOUNT};AccountKey={DEVELOPMENT_KEY};TableEndpoint=http://127.0.0.1:10002/devstoreaccount1;"
        );
        let short = Connection::parse("UseDevelopmentStorage=true").unwrap();
        assert_eq!(short, Connection::parse(&expanded).unwrap());
        assert_eq!(short.secondary, "http://127.0.0.1:10002/devstoreaccount1-secondary");
        let proxied = Connection::parse(
            "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://tables/",
        );
        assert_eq!(proxied.unwrap().endpoint, "http://tables:10002/devstoreaccount1");
    }

    #[test]
    fn endpoints_are_found_or_built() {
        let key = "AccountKey=aGVsbG8=";
        let text = |a: &str, b: &str, c: &str| (a.to_owned(), b.to_owned(), c.to_owned());
        assert_eq!(
            parsed(&format!("AccountName=abc;{key};TableEndpoint=http://localhost:1/abc/")),
            text("abc", "http://localhost:1/abc", "http://localhost:1/abc-secondary")
        );
        assert_eq!(
            parsed(&format!("{key};TableEndpoint=http://abc.table.localhost:1")),
            text("abc", "http://abc.table.localhost:1", "http://abc-secondary.table.localhost:1")
        );
        assert_eq!(
            parsed(&format!("AccountName=abc;{key};EndpointSuffix=x.y")),
            text("abc", "https://abc.table.x.y", "https://abc-secondary.table.x.y")
        );
    }

    #[test]
    fn signatures_open_as_well() {
        let text = "TableEndpoint=http://h:1/abc;SharedAccessSignature=?sv=1&sig=a%3D";
        let connection = Connection::parse(text).unwrap();
        assert_eq!(connection.credential, Credential::Signature("sv=1&sig=a%3D".to_owned()));
        assert!(!format!("{connection:?}").contains("sig"));
    }

    #[test]
    fn an_address_with_a_signature_is_enough() {
        for (text, account, endpoint) in [
            ("https://abc.table.x.y/?sv=1&sig=a%3D", "abc", "https://abc.table.x.y"),
            ("https://abc.table.x.y/abc?sv=1&sig=a%3D", "abc", "https://abc.table.x.y"),
            ("https://abc.table.x.y/rows?sv=1&sig=a%3D", "abc", "https://abc.table.x.y"),
            ("http://h:1/abc?sv=1&sig=a%3D", "abc", "http://h:1/abc"),
            ("http://h:1/abc/rows?sv=1&sig=a%3D", "abc", "http://h:1/abc"),
        ] {
            let connection = Connection::parse(text).unwrap();
            assert_eq!((connection.account.as_str(), &*connection.endpoint), (account, endpoint));
            assert_eq!(connection.credential, Credential::Signature("sv=1&sig=a%3D".to_owned()));
        }
    }

    #[test]
    fn errors_say_what_is_missing_and_no_secret() {
        for (text, why) in [
            ("", "neither TableEndpoint nor AccountName is given"),
            ("AccountName=a;secret", "part 2 is not Name=Value"),
            ("AccountName=a", "neither AccountKey nor SharedAccessSignature is given"),
            ("AccountName=a;AccountKey=secret!", "AccountKey is not base64"),
            ("TableEndpoint=http://h;AccountKey=aGVsbG8=", "AccountName is not given"),
            ("https://abc.table.x.y", "the address has no shared access signature, ?…&sig=…"),
            ("https://h/a?secret", "the address has no shared access signature, ?…&sig=…"),
            ("https://h?sig=secret", "the address names no account"),
            (
                "AccountName=a;TableEndpoint=ftp://h?sig=secret;AccountKey=aGVsbG8=",
                "the endpoint ftp://h is neither http://… nor https://…",
            ),
        ] {
            let error = Connection::parse(text).unwrap_err().to_string();
            assert_eq!(error, format!("connection string: {why}"));
        }
    }
}
