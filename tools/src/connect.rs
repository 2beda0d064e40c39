//! Where the tables are: connection strings, and the variables that `az` reads.
//!
//! A key is kept in a type that does not print it; nothing here echoes a connection string.

use crate::exit::Failure;
use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use std::fmt;
use tabulith_server::config::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};

const DEVELOPMENT_ENDPOINT: &str = "http://127.0.0.1:10002/devstoreaccount1";

/// An endpoint and what opens it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Connection {
    /// The account's name.
    pub(crate) account: String,
    /// `http://host:port` with the path below which the account lies, if any; no slash at the end.
    pub(crate) endpoint: String,
    /// What proves who asks.
    pub(crate) credential: Credential,
}

/// What proves who asks.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Credential {
    /// The account's key, decoded.
    Key(Vec<u8>),
    /// A shared access signature: query parameters, without a question mark.
    Signature(String),
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Credential::Key(_) => "Key(…)",
            Credential::Signature(_) => "Signature(…)",
        })
    }
}

impl Connection {
    /// The connection that the flag or, without it, the environment names; the development account
    /// on this machine where neither does.
    pub(crate) fn find(
        flag: Option<&str>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Connection> {
        if let Some(text) = flag {
            return Connection::parse(text);
        }
        if let Some(text) = variable("AZURE_STORAGE_CONNECTION_STRING") {
            return Connection::parse(&text);
        }
        let Some(account) = variable("AZURE_STORAGE_ACCOUNT") else {
            return Connection::parse("UseDevelopmentStorage=true");
        };
        let key = variable("AZURE_STORAGE_KEY");
        let signature = variable("AZURE_STORAGE_SAS_TOKEN");
        let endpoint = variable("AZURE_STORAGE_SERVICE_ENDPOINT");
        let mut text = format!("AccountName={account}");
        match (key, signature) {
            (Some(key), _) => text.push_str(&format!(";AccountKey={key}")),
            (None, Some(token)) => text.push_str(&format!(";SharedAccessSignature={token}")),
            (None, None) => {
                return Err(Failure::usage(
                    "AZURE_STORAGE_ACCOUNT is set, but neither AZURE_STORAGE_KEY nor AZURE_STORAGE_SAS_TOKEN is",
                )
                .into());
            }
        }
        if let Some(endpoint) = endpoint {
            text.push_str(&format!(";TableEndpoint={endpoint}"));
        } else if account == DEVELOPMENT_ACCOUNT {
            text.push_str(&format!(";TableEndpoint={DEVELOPMENT_ENDPOINT}"));
        }
        Connection::parse(&text)
    }

    /// Parses a connection string.
    pub(crate) fn parse(text: &str) -> Result<Connection> {
        let settings = Settings::parse(text)?;
        if settings.get("UseDevelopmentStorage").is_some_and(|yes| yes.eq_ignore_ascii_case("true"))
        {
            return Connection::development(settings.get("DevelopmentStorageProxyUri"));
        }
        let endpoint = settings.endpoint()?;
        let account = match settings.get("AccountName") {
            Some(account) => account.to_owned(),
            None => account_of(&endpoint)?,
        };
        Ok(Connection { account, credential: settings.credential()?, endpoint })
    }

    fn development(proxy: Option<&str>) -> Result<Connection> {
        let endpoint = match proxy {
            Some(proxy) => {
                plain_http(&format!("{}:10002/{DEVELOPMENT_ACCOUNT}", proxy.trim_end_matches('/')))?
            }
            None => DEVELOPMENT_ENDPOINT.to_owned(),
        };
        Ok(Connection {
            account: DEVELOPMENT_ACCOUNT.to_owned(),
            endpoint,
            credential: Credential::Key(BASE64.decode(DEVELOPMENT_KEY)?),
        })
    }
}

struct Settings<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Settings<'a> {
    fn parse(text: &'a str) -> Result<Settings<'a>> {
        let mut settings = Vec::new();
        for (at, part) in text.split(';').map(str::trim).filter(|part| !part.is_empty()).enumerate()
        {
            // The place, not the text: it may be half of a key.
            let (name, value) = part.split_once('=').ok_or_else(|| {
                Failure::usage(format!("connection string: part {} is not Name=Value", at + 1))
            })?;
            settings.push((name, value));
        }
        Ok(Settings(settings))
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    }

    fn endpoint(&self) -> Result<String> {
        if let Some(endpoint) = self.get("TableEndpoint") {
            return plain_http(endpoint);
        }
        let account = self.get("AccountName").ok_or_else(|| {
            Failure::usage("connection string: neither TableEndpoint nor AccountName is given")
        })?;
        let protocol = self.get("DefaultEndpointsProtocol").unwrap_or("https");
        let suffix = self.get("EndpointSuffix").unwrap_or("core.windows.net");
        plain_http(&format!("{protocol}://{account}.table.{suffix}"))
    }

    fn credential(&self) -> Result<Credential> {
        if let Some(key) = self.get("AccountKey") {
            let key = BASE64
                .decode(key)
                .map_err(|_| Failure::usage("connection string: AccountKey is not base64"))?;
            return Ok(Credential::Key(key));
        }
        match self.get("SharedAccessSignature") {
            Some(token) => Ok(Credential::Signature(token.trim_start_matches('?').to_owned())),
            None => Err(Failure::usage(
                "connection string: neither AccountKey nor SharedAccessSignature is given",
            )
            .into()),
        }
    }
}

fn plain_http(endpoint: &str) -> Result<String> {
    let endpoint = endpoint.trim_end_matches('/');
    if endpoint.starts_with("http://") {
        return Ok(endpoint.to_owned());
    }
    Err(Failure::usage(format!(
        "the endpoint {} is not http://…; this version speaks plain HTTP only",
        endpoint.split('?').next().unwrap_or_default()
    ))
    .into())
}

fn account_of(endpoint: &str) -> Result<String> {
    let rest = endpoint.trim_start_matches("http://");
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let account = match host.split_once(".table.") {
        Some((account, _)) => account,
        None => path.split('/').next().unwrap_or_default(),
    };
    if account.is_empty() {
        return Err(Failure::usage("connection string: AccountName is not given").into());
    }
    Ok(account.to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[track_caller]
    fn parsed(text: &str) -> (String, String) {
        let connection = Connection::parse(text).unwrap();
        (connection.account, connection.endpoint)
    }

    #[test]
    fn development_storage_is_this_machine() {
        let expanded = format!(
            "DefaultEndpointsProtocol=http;AccountName={DEVELOPMENT_ACCOUNT};AccountKey={DEVELOPMENT_KEY};TableEndpoint={DEVELOPMENT_ENDPOINT};"
        );
        let short = Connection::parse("UseDevelopmentStorage=true").unwrap();
        assert_eq!(short, Connection::parse(&expanded).unwrap());
        assert_eq!(short.endpoint, "http://127.0.0.1:10002/devstoreaccount1");
    }

    #[test]
    fn endpoints_are_found_or_built() {
        let key = "AccountKey=aGVsbG8=";
        assert_eq!(
            parsed(&format!("AccountName=abc;{key};TableEndpoint=http://localhost:1/abc/")),
            ("abc".to_owned(), "http://localhost:1/abc".to_owned())
        );
        assert_eq!(
            parsed(&format!("{key};TableEndpoint=http://abc.table.localhost:1")),
            ("abc".to_owned(), "http://abc.table.localhost:1".to_owned())
        );
        assert_eq!(
            parsed(&format!(
                "DefaultEndpointsProtocol=http;AccountName=abc;{key};EndpointSuffix=x.y"
            )),
            ("abc".to_owned(), "http://abc.table.x.y".to_owned())
        );
    }

    #[test]
    fn the_environment_is_read_in_the_order_of_az() {
        let find = |set: &[(&str, &str)]| {
            let set: Vec<(String, String)> =
                set.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            Connection::find(None, move |name| {
                set.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
            })
        };
        assert_eq!(find(&[]).unwrap().account, DEVELOPMENT_ACCOUNT);
        let string = "AccountName=abc;AccountKey=aGk=;TableEndpoint=http://h/abc";
        let both =
            [("AZURE_STORAGE_CONNECTION_STRING", string), ("AZURE_STORAGE_ACCOUNT", "other")];
        assert_eq!(find(&both).unwrap().account, "abc");
        let parts = [("AZURE_STORAGE_ACCOUNT", DEVELOPMENT_ACCOUNT), ("AZURE_STORAGE_KEY", "aGk=")];
        assert_eq!(find(&parts).unwrap().endpoint, DEVELOPMENT_ENDPOINT);
        let keyless = find(&[("AZURE_STORAGE_ACCOUNT", "abc")]).unwrap_err().to_string();
        assert!(keyless.contains("AZURE_STORAGE_KEY"), "{keyless}");
    }

    #[test]
    fn errors_and_debug_show_no_secret() {
        let secret = "c2VjcmV0";
        let good = format!("AccountName=abc;AccountKey={secret};TableEndpoint=http://h/abc");
        let shown = format!("{:?}", Connection::parse(&good).unwrap());
        assert!(!shown.contains(secret) && !shown.contains("115"), "{shown}");
        for bad in [
            format!("AccountName=abc;{secret}"),
            format!("AccountName=abc;AccountKey={secret}%;TableEndpoint=http://h/abc"),
            format!("AccountName=abc;AccountKey={secret}"),
            format!("TableEndpoint=https://h/abc?sig={secret};SharedAccessSignature=sig={secret}"),
        ] {
            let error = Connection::parse(&bad).unwrap_err().to_string();
            assert!(!error.contains(secret), "{error}");
        }
    }
}
