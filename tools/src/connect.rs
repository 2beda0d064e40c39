//! What commands connect to: the connection that a flag or the variables of `az` name, and whose
//! certificates are believed.
//!
//! Nothing here echoes a connection string.

#![allow(clippy::disallowed_methods, reason = "the certificates are the user's file")]

use crate::exit::Failure;
use anyhow::{Context, Result};
use std::path::Path;
use tabulith_client::connection::DEVELOPMENT_ACCOUNT;
use tabulith_client::{Connection, Trust};

const DEVELOPMENT_ENDPOINT: &str = "http://127.0.0.1:10002/devstoreaccount1";

/// The connection that the flag or, without it, the environment names; the development account on
/// this machine where neither does.
pub(crate) fn find(
    flag: Option<&str>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Connection> {
    if let Some(text) = flag {
        return parse(text);
    }
    if let Some(text) = variable("AZURE_STORAGE_CONNECTION_STRING") {
        return parse(&text);
    }
    let Some(account) = variable("AZURE_STORAGE_ACCOUNT") else {
        return parse("UseDevelopmentStorage=true");
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
    parse(&text)
}

/// Parses a connection string, or an address with a shared access signature.
pub(crate) fn parse(text: &str) -> Result<Connection> {
    Ok(Connection::parse(text).map_err(|error| Failure::usage(error.to_string()))?)
}

/// Those whom the machine trusts, and the certificates of a file.
pub(crate) fn trust(ca: Option<&Path>) -> Result<Trust> {
    let Some(path) = ca else { return Ok(Trust::machine()) };
    let named = || format!("--ca {}", path.display());
    let pem = std::fs::read(path).with_context(named)?;
    let trust = Trust::machine().with_pem(&pem);
    Ok(trust.map_err(|error| Failure::usage(format!("{}: {error}", named())))?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::exit::{Exit, of};

    #[test]
    fn the_environment_is_read_in_the_order_of_az() {
        let find = |set: &[(&str, &str)]| {
            let set: Vec<(String, String)> =
                set.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            find(None, move |name| {
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
        let azure = [("AZURE_STORAGE_ACCOUNT", "abc"), ("AZURE_STORAGE_SAS_TOKEN", "?sig=x")];
        assert_eq!(find(&azure).unwrap().endpoint, "https://abc.table.core.windows.net");
        let keyless = find(&[("AZURE_STORAGE_ACCOUNT", "abc")]).unwrap_err().to_string();
        assert!(keyless.contains("AZURE_STORAGE_KEY"), "{keyless}");
    }

    #[test]
    fn errors_show_no_secret_and_are_usage() {
        let secret = "c2VjcmV0";
        for bad in [
            format!("AccountName=abc;{secret}"),
            format!("AccountName=abc;AccountKey={secret}%;TableEndpoint=http://h/abc"),
            format!("TableEndpoint=ftp://h/abc?sig={secret};SharedAccessSignature=sig={secret}"),
            format!("https://h/?sig={secret}"),
        ] {
            let error = parse(&bad).unwrap_err();
            assert_eq!(of(&error), Exit::Usage, "{error}");
            assert!(!error.to_string().contains(secret), "{error}");
        }
    }
}
