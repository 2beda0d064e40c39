//! Addresses: which account and which resource a request means.
//!
//! ```text
//! host style   https://{account}[-secondary].table.{anything}/…
//! path style   http://{anything else}/{account}[-secondary]/…
//!
//! /                    service        /Tables('name')   one table
//! /$batch              transaction    /name()           entities of a table
//! /$metadata           metadata       /name(PartitionKey='p',RowKey='r')
//! /Tables()            tables         /name/Tables, /name/$batch: a client's endpoint is wrong
//! ```
//!
//! The raw path is split at `/` first, then each segment is decoded once: an encoded slash is part
//! of a key, and no key may hold one.

use crate::error::{
    BAD_ADDRESS, CONTROL_IN_ADDRESS, HOST_INFORMATION_NOT_PRESENT, INVALID_HEADER_VALUE,
    INVALID_URI, OUT_OF_RANGE_INPUT, WireError, key_count,
};
use crate::http::message::Head;
use crate::limits::AUTHORITY_BYTES_MAX;
use crate::odata::literal::{Plus, percent_decoded, percent_encoded};
use tabulith::table::name::AccountName;

/// What a request is addressed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The account, as the address gives it; nobody has checked yet that it exists.
    pub account: String,
    /// Whether it is the account's read-only second endpoint.
    pub secondary: bool,
    /// What stands before a resource in an absolute URL: scheme, authority and, in path style, the
    /// account.
    pub base: String,
    /// The resource.
    pub resource: Resource,
}

/// A resource of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resource {
    /// The service itself.
    Service,
    /// `$metadata`
    Metadata,
    /// `$batch`
    Batch,
    /// The tables.
    Tables,
    /// One table. Its name is as sent: any text.
    Table(String),
    /// A table's entities. Its name is as sent.
    Entities(String),
    /// One entity.
    Entity {
        /// The table's name as sent.
        table: String,
        /// PartitionKey, without forbidden characters.
        partition_key: String,
        /// RowKey, without forbidden characters.
        row_key: String,
    },
    /// `Tables`, `Tables('name')` or `$batch` below a table's name: what arrives where a client's
    /// endpoint ends in the name of a table.
    BelowTable(String, Below),
}

/// What stands below a table's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Below {
    /// `Tables`
    Tables,
    /// `Tables('name')`
    Table,
    /// `$batch`
    Batch,
}

impl Address {
    /// Reads the address of a request. `secure`: whether its client has sent it over TLS.
    pub fn parse(head: &Head, secure: bool) -> Result<Address, WireError> {
        if head.authority.is_empty() {
            return Err(HOST_INFORMATION_NOT_PRESENT);
        }
        if head.authority.len() > AUTHORITY_BYTES_MAX {
            return Err(INVALID_HEADER_VALUE);
        }
        let origin = format!("{}://{}", if secure { "https" } else { "http" }, head.authority);
        let path = head.path();
        if let Some((account, secondary)) = host_style(&head.authority) {
            let resource = Resource::parse(path, &account)?;
            return Ok(Address { account, secondary, base: origin, resource });
        }
        let path = path.trim_start_matches('/');
        let (segment, mut rest) = path.split_once('/').unwrap_or((path, ""));
        if segment.is_empty() {
            return Err(INVALID_URI);
        }
        let (account, secondary) = without_secondary(segment);
        if secondary {
            rest = without_repeated_account(rest, account);
        }
        let resource = Resource::parse(rest, account)?;
        let base = format!("{origin}/{}", percent_encoded(segment, ""));
        Ok(Address { account: account.to_owned(), secondary, base, resource })
    }
}

/// The account of an authority in host style.
fn host_style(authority: &str) -> Option<(String, bool)> {
    let host = authority.to_ascii_lowercase();
    let (name, _) = host.split_once(".table.")?;
    let (account, secondary) = without_secondary(name);
    AccountName::check(account).is_ok().then(|| (account.to_owned(), secondary))
}

/// The Python SDK puts the account behind `{account}-secondary` once more, and a slash behind it.
/// Without one it is a table that is called as the account is.
pub(crate) fn without_repeated_account<'a>(path: &'a str, account: &str) -> &'a str {
    path.strip_prefix(account).and_then(|rest| rest.strip_prefix('/')).unwrap_or(path)
}

/// An account's name without the mark of its second endpoint.
pub(crate) fn without_secondary(name: &str) -> (&str, bool) {
    match name.strip_suffix("-secondary") {
        Some(account) => (account, true),
        None => (name, false),
    }
}

impl Resource {
    /// Reads the raw path behind the account. `account` is for the text of errors.
    pub fn parse(path: &str, account: &str) -> Result<Resource, WireError> {
        let mut segments = path.split('/').filter(|segment| !segment.is_empty());
        let Some(first) = segments.next() else { return Ok(Resource::Service) };
        let first = Segment::parse(first)?;
        let Some(second) = segments.next() else { return first.alone(account) };
        let second = Segment::parse(second)?;
        let below = match (second.name.as_str(), &second.keys) {
            ("$batch", None) => Below::Batch,
            (name, keys) if name.eq_ignore_ascii_case("Tables") => match keys {
                Some(keys) if !keys.is_empty() => Below::Table,
                _ => Below::Tables,
            },
            _ => return Err(INVALID_URI),
        };
        match (first.keys, segments.next()) {
            (None, None) => Ok(Resource::BelowTable(first.name, below)),
            _ => Err(INVALID_URI),
        }
    }
}

/// One decoded part of a path: `name` or `name(key, …)`.
struct Segment {
    name: String,
    keys: Option<Vec<(Option<String>, String)>>,
}

impl Segment {
    fn parse(raw: &str) -> Result<Segment, WireError> {
        let text = percent_decoded(raw, Plus::IsPlus).ok_or(BAD_ADDRESS)?;
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return Err(CONTROL_IN_ADDRESS);
        }
        match text.split_once('(') {
            None => Ok(Segment { name: text, keys: None }),
            Some((name, rest)) => {
                let keys = keys(rest).ok_or(BAD_ADDRESS)?;
                Ok(Segment { name: name.to_owned(), keys: Some(keys) })
            }
        }
    }

    fn alone(self, account: &str) -> Result<Resource, WireError> {
        let keys = self.keys.unwrap_or_default();
        match self.name.as_str() {
            "$batch" if keys.is_empty() => Ok(Resource::Batch),
            "$metadata" if keys.is_empty() => Ok(Resource::Metadata),
            name if name.eq_ignore_ascii_case("Tables") => one_table(keys, account),
            _ if keys.is_empty() => Ok(Resource::Entities(self.name)),
            _ => one_entity(self.name, keys, account),
        }
    }
}

fn one_table(keys: Vec<(Option<String>, String)>, account: &str) -> Result<Resource, WireError> {
    let mut keys = keys.into_iter();
    match (keys.next(), keys.next()) {
        (None, _) => Ok(Resource::Tables),
        (Some((name, table)), None) if name.is_none() || name.as_deref() == Some("TableName") => {
            Ok(Resource::Table(table))
        }
        _ => Err(key_count(account, "Tables")),
    }
}

fn one_entity(
    table: String,
    keys: Vec<(Option<String>, String)>,
    account: &str,
) -> Result<Resource, WireError> {
    let mut partition_key = None;
    let mut row_key = None;
    let count = keys.len();
    for (name, value) in keys {
        match name.as_deref() {
            Some("PartitionKey") => partition_key = Some(value),
            Some("RowKey") => row_key = Some(value),
            _ => {}
        }
    }
    match (partition_key, row_key) {
        (Some(partition_key), Some(row_key)) if count == 2 => {
            check_key(&partition_key)?;
            check_key(&row_key)?;
            Ok(Resource::Entity { table, partition_key, row_key })
        }
        _ => Err(key_count(account, &table)),
    }
}

/// In an address, slashes are an error of syntax and the other forbidden characters are not.
fn check_key(key: &str) -> Result<(), WireError> {
    if key.contains(['/', '\\']) {
        return Err(BAD_ADDRESS);
    }
    if key.contains(['#', '?']) || key.chars().any(char::is_control) {
        return Err(OUT_OF_RANGE_INPUT);
    }
    Ok(())
}

/// Reads `[name=]'value', …)`: what stands behind the parenthesis that opens. Quotes in a value
/// are doubled; a value may hold any mark.
fn keys(text: &str) -> Option<Vec<(Option<String>, String)>> {
    let mut keys = Vec::new();
    let mut rest = text.trim_start();
    if rest.trim_end() == ")" {
        return Some(keys);
    }
    loop {
        let (before, behind) = rest.split_once('\'')?;
        let name = match before.trim() {
            "" => None,
            named => Some(named.strip_suffix('=')?.trim_end().to_owned()),
        };
        let (value, behind) = quoted(behind)?;
        keys.push((name, value));
        rest = behind.trim();
        if rest == ")" {
            return Some(keys);
        }
        rest = rest.strip_prefix(',')?;
    }
}

/// Reads up to the quote that closes, and gives what stands behind it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut rest = text;
    loop {
        let (part, behind) = rest.split_once('\'')?;
        value.push_str(part);
        rest = behind;
        match rest.strip_prefix('\'') {
            Some(behind) => {
                value.push('\'');
                rest = behind;
            }
            None => return Some((value, rest)),
        }
    }
}

/// `Tables('name')`, the address of a table below the account.
pub fn table_path(table: &str) -> String {
    format!("Tables('{}')", encoded_key(table))
}

/// `name(PartitionKey='p',RowKey='r')`, the address of an entity below the account.
pub fn entity_path(table: &str, partition_key: &str, row_key: &str) -> String {
    let (partition_key, row_key) = (encoded_key(partition_key), encoded_key(row_key));
    format!("{table}(PartitionKey='{partition_key}',RowKey='{row_key}')")
}

/// How long that is at most: of a key's bytes, what is neither letter nor digit as three.
pub fn entity_path_bytes_max(table: &str, partition_key: &str, row_key: &str) -> usize {
    let bytes_of = |byte: u8| if byte.is_ascii_alphanumeric() { 1 } else { "%00".len() };
    let keys = partition_key.bytes().chain(row_key.bytes());
    table.len() + "(PartitionKey='',RowKey='')".len() + keys.map(bytes_of).sum::<usize>()
}

/// A key between its quotes: quotes doubled, what RFC 2396 reserves percent-encoded, as .NET does
/// it.
fn encoded_key(key: &str) -> String {
    percent_encoded(&key.replace('\'', "''"), "'!*()")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(authority: &str, target: &str) -> Result<Address, WireError> {
        let head =
            Head { target: target.to_owned(), authority: authority.to_owned(), ..Head::default() };
        Address::parse(&head, false)
    }

    #[track_caller]
    fn resource(path: &str) -> Resource {
        parse("localhost:10002", &format!("/acct{path}")).expect(path).resource
    }

    #[track_caller]
    fn refused(path: &str, error: &WireError) {
        assert_eq!(&parse("localhost", &format!("/acct{path}")).expect_err(path), error, "{path}");
    }

    fn entity(partition_key: &str, row_key: &str) -> Resource {
        Resource::Entity {
            table: "T".to_owned(),
            partition_key: partition_key.to_owned(),
            row_key: row_key.to_owned(),
        }
    }

    #[test]
    fn a_host_is_as_long_as_hosts_are() {
        let host = |bytes: usize| format!("{}:10002", "h".repeat(bytes - 6));
        assert!(parse(&host(AUTHORITY_BYTES_MAX), "/acct/Tables").is_ok());
        let refused = parse(&host(AUTHORITY_BYTES_MAX + 1), "/acct/Tables");
        assert_eq!(refused.expect_err("no such host"), INVALID_HEADER_VALUE);
    }

    #[test]
    fn both_styles_and_both_endpoints() {
        let cases = [
            ("127.0.0.1:10002", "/acct/Tables", "acct", false, "http://127.0.0.1:10002/acct"),
            (
                "acct.table.core.windows.net",
                "/Tables",
                "acct",
                false,
                "http://acct.table.core.windows.net",
            ),
            ("Acct.Table.localhost:1", "/Tables", "acct", false, "http://Acct.Table.localhost:1"),
            ("acct-secondary.table.x", "/Tables", "acct", true, "http://acct-secondary.table.x"),
            ("host", "/acct-secondary/Tables", "acct", true, "http://host/acct-secondary"),
            ("host", "/acct-secondary/acct/Tables?a=b", "acct", true, "http://host/acct-secondary"),
            ("a.table.x", "/acct/Tables", "acct", false, "http://a.table.x/acct"),
        ];
        for (authority, target, account, secondary, base) in cases {
            let address = parse(authority, target).expect(target);
            let (account, base) = (account.to_owned(), base.to_owned());
            let resource = Resource::Tables;
            assert_eq!(
                address,
                Address { account, secondary, base, resource },
                "{authority}{target}"
            );
        }
    }

    #[test]
    fn the_account_once_more_on_the_second_endpoint() {
        let table = || Resource::Entities("acct".to_owned());
        for (path, resource) in [
            ("/acct/", Resource::Service),
            ("/acct/?restype=service&comp=stats", Resource::Service),
            ("/acct/acct", table()),
            ("/acct/acct()", table()),
            // Before, this was the service.
            ("/acct", table()),
            ("/acct?$top=1", table()),
            ("/acct()", table()),
            ("/acctx", Resource::Entities("acctx".to_owned())),
        ] {
            let address = parse("host", &format!("/acct-secondary{path}")).expect(path);
            assert_eq!((address.secondary, address.resource), (true, resource), "{path}");
        }
    }

    #[test]
    fn every_resource() {
        assert_eq!(resource(""), Resource::Service);
        assert_eq!(resource("/?restype=service"), Resource::Service);
        assert_eq!(resource("/%24batch"), Resource::Batch);
        assert_eq!(resource("/$metadata"), Resource::Metadata);
        assert_eq!(resource("/Tables()"), Resource::Tables);
        assert_eq!(resource("/Tables('it')"), Resource::Table("it".to_owned()));
        assert_eq!(resource("/T"), Resource::Entities("T".to_owned()));
        assert_eq!(resource("/T()?$top=1"), Resource::Entities("T".to_owned()));
        let below = |below| Resource::BelowTable("T".to_owned(), below);
        assert_eq!(resource("/T/Tables"), below(Below::Tables));
        assert_eq!(resource("/T/Tables('x')"), below(Below::Table));
        assert_eq!(resource("/T/$batch"), below(Below::Batch));
    }

    #[test]
    fn keys_as_clients_write_them() {
        assert_eq!(resource("/T(PartitionKey='a%20b',RowKey='it%27%27s')"), entity("a b", "it's"));
        assert_eq!(resource("/T(PartitionKey='a b',RowKey='it''s')"), entity("a b", "it's"));
        assert_eq!(resource("/T(PartitionKey='',RowKey='')"), entity("", ""));
        assert_eq!(resource("/T(PartitionKey='a', RowKey='b')"), entity("a", "b"));
        assert_eq!(resource("/T(RowKey='b',PartitionKey='a')"), entity("a", "b"));
        assert_eq!(
            resource("/T(PartitionKey='a,b)=(',RowKey='%25+%2527')"),
            entity("a,b)=(", "%+%27")
        );
        assert_eq!(
            resource("/T%28PartitionKey=%27a%27%2CRowKey=%27%C3%B4%27%29"),
            entity("a", "ô")
        );
    }

    #[test]
    fn addresses_that_mean_nothing() {
        refused("/T(PartitionKey='a/b',RowKey='c')", &BAD_ADDRESS);
        refused("/T(PartitionKey='a%2Fb',RowKey='c')", &BAD_ADDRESS);
        refused("/T(PartitionKey='a',RowKey='%5C')", &BAD_ADDRESS);
        refused("/T(PartitionKey='a',RowKey='%23')", &OUT_OF_RANGE_INPUT);
        refused("/T(PartitionKey='a',RowKey='%3F')", &OUT_OF_RANGE_INPUT);
        refused("/T(PartitionKey='a',RowKey='%C2%80')", &OUT_OF_RANGE_INPUT);
        refused("/T(PartitionKey='a',RowKey='%00')", &CONTROL_IN_ADDRESS);
        refused("/T(PartitionKey='a',RowKey='b'", &BAD_ADDRESS);
        refused("/T(PartitionKey='a',RowKey=b)", &BAD_ADDRESS);
        refused("/T(PartitionKey='a' RowKey='b')", &BAD_ADDRESS);
        refused("/T(PartitionKey='a',RowKey='b')x", &BAD_ADDRESS);
        refused("/%ff", &BAD_ADDRESS);
        refused("/%2", &BAD_ADDRESS);
        refused("/T('x')", &key_count("acct", "T"));
        refused("/T(PartitionKey='a')", &key_count("acct", "T"));
        refused("/T(PartitionKey='a',PartitionKey='b')", &key_count("acct", "T"));
        refused("/T/U", &INVALID_URI);
        refused("/T/Tables/x", &INVALID_URI);
        assert_eq!(parse("host", "/").expect_err("no account"), INVALID_URI);
        assert_eq!(parse("", "/acct").expect_err("no host"), HOST_INFORMATION_NOT_PRESENT);
    }

    #[test]
    fn written_addresses_read_back() {
        for key in ["", "'", "''", "%", "%27", "+", ",()=", ":@&", "ô 😀", "{}", "~-._"] {
            let path = entity_path("T", key, key);
            assert_eq!(resource(&format!("/{path}")), entity(key, key), "{path}");
            assert!(!path.contains(['{', '}', ' ']), "{path}");
            assert!(path.len() <= entity_path_bytes_max("T", key, key), "{path}");
        }
        assert_eq!(table_path("it"), "Tables('it')");
    }
}
