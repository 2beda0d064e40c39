//! Whom to ask: an endpoint, its account, what opens it and what may be done to it.

use crate::row::Need;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fmt;

/// An endpoint that cannot be asked, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TargetError(pub String);

/// An account's key; it never shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(Vec<u8>);

impl Key {
    /// The key of its base64 text.
    pub fn of_base64(text: &str) -> Result<Key, TargetError> {
        let bytes = STANDARD.decode(text.trim());
        bytes.map(Key).map_err(|_| TargetError("a key is not base64".to_owned()))
    }

    /// The key of its bytes.
    pub fn of_bytes(bytes: Vec<u8>) -> Key {
        Key(bytes)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// An endpoint and the account behind it.
#[derive(Clone, Debug)]
pub struct Target {
    /// Whether it speaks TLS.
    pub tls: bool,
    /// The host that is connected to.
    pub host: String,
    /// The port that is connected to.
    pub port: u16,
    /// Host and port as the endpoint has them: what `Host` says.
    pub authority: String,
    /// Whether the account is the first segment of the path, and not of the host.
    pub path_style: bool,
    /// The account.
    pub account: String,
    /// Its key.
    pub key: Key,
    /// Its second key.
    pub second_key: Option<Key>,
    /// Whether rows may change the properties of the service.
    pub service_changes: bool,
}

impl Target {
    /// The target of an address such as `http://127.0.0.1:10002/devstoreaccount1`.
    ///
    /// Without an account it is the first label of a host such as `abc.table.core.windows.net`, or
    /// else the first segment of the path.
    pub fn new(endpoint: &str, account: Option<&str>, key: Key) -> Result<Target, TargetError> {
        let (scheme, rest) = endpoint
            .split_once("://")
            .ok_or_else(|| TargetError(format!("{endpoint} does not begin with http://")))?;
        let tls = match scheme {
            "http" => false,
            "https" => true,
            other => return Err(TargetError(format!("the scheme {other} is unknown"))),
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => {
                let port = port.parse();
                (host, port.map_err(|_| TargetError(format!("{authority} has no port")))?)
            }
            _ => (authority, if tls { 443 } else { 80 }),
        };
        let of_host = host.split_once(".table.").map(|(account, _)| account);
        let of_path = path.split('/').next().filter(|segment| !segment.is_empty());
        let path_style = of_host.is_none();
        let found = account.or(of_host).or(of_path);
        let account =
            found.ok_or_else(|| TargetError(format!("{endpoint} names no account")))?.to_owned();
        Ok(Target {
            tls,
            host: host.trim_matches(['[', ']']).to_owned(),
            port,
            authority: authority.to_owned(),
            path_style,
            account,
            key,
            second_key: None,
            service_changes: false,
        })
    }

    /// What stands before a target below the account: `/account`, or nothing.
    pub(crate) fn prefix(&self, secondary: bool) -> String {
        let suffix = if secondary { "-secondary" } else { "" };
        if self.path_style { format!("/{}{suffix}", self.account) } else { String::new() }
    }

    /// What `Host` says.
    pub(crate) fn authority(&self, secondary: bool) -> String {
        match self.authority.split_once('.') {
            Some((first, rest)) if secondary && !self.path_style => {
                format!("{first}-secondary.{rest}")
            }
            _ => self.authority.clone(),
        }
    }

    /// The host that is connected to.
    pub(crate) fn host(&self, secondary: bool) -> String {
        match self.host.split_once('.') {
            Some((first, rest)) if secondary && !self.path_style => {
                format!("{first}-secondary.{rest}")
            }
            _ => self.host.clone(),
        }
    }

    /// The address of the account, without a slash at its end.
    pub(crate) fn base(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority, self.prefix(false))
    }

    /// The first of these needs that this target does not meet.
    pub(crate) fn lacks(&self, needs: &[Need]) -> Option<Need> {
        needs.iter().copied().find(|need| match need {
            Need::SecondKey => self.second_key.is_none(),
            Need::PathStyle => !self.path_style,
            Need::PlainHttp => self.tls,
            Need::ServiceChanges => !self.service_changes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Key, Target};

    fn target(endpoint: &str, account: Option<&str>) -> Target {
        Target::new(endpoint, account, Key::of_bytes(vec![1])).expect("a target")
    }

    #[test]
    fn both_styles_are_understood() {
        let local = target("http://127.0.0.1:10002/devstoreaccount1", None);
        assert_eq!(local.base(), "http://127.0.0.1:10002/devstoreaccount1");
        assert_eq!(local.prefix(true), "/devstoreaccount1-secondary");
        assert_eq!(target("http://localhost:1", Some("abc")).base(), "http://localhost:1/abc");
        let cloud = target("https://abc.table.core.windows.net", None);
        assert_eq!((cloud.port, cloud.account.as_str()), (443, "abc"));
        assert_eq!(cloud.base(), "https://abc.table.core.windows.net");
        assert_eq!(cloud.authority(true), "abc-secondary.table.core.windows.net");
    }

    #[test]
    fn what_is_no_endpoint_is_refused() {
        for endpoint in ["127.0.0.1", "ftp://x/abc", "http://127.0.0.1:10002", "http://x:y/abc"] {
            assert!(Target::new(endpoint, None, Key::of_bytes(vec![])).is_err(), "{endpoint}");
        }
        assert!(!format!("{:?}", Key::of_bytes(b"secret".to_vec())).contains("secret"));
    }
}
