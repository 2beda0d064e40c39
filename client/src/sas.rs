//! Shared access signatures: tokens that let their holder do a part of what the key allows.

use crate::address::percent;
use crate::error::Error;
use crate::sign::Key;
use crate::value::DateTime;

/// The version of the rules that tokens are made by.
const VERSION: &str = "2019-02-02";

/// What the holder of a token or of a stored policy may do with entities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Get and query.
    pub read: bool,
    /// Insert; with `update` also upsert.
    pub add: bool,
    /// Replace and merge.
    pub update: bool,
    /// Delete.
    pub delete: bool,
}

impl Permissions {
    /// Everything.
    pub const ALL: Permissions = Permissions { read: true, add: true, update: true, delete: true };

    /// Get and query only.
    pub const READ: Permissions =
        Permissions { read: true, add: false, update: false, delete: false };

    /// The letters of `raud`, in that order.
    pub(crate) fn text(self) -> String {
        letters(&[('r', self.read), ('a', self.add), ('u', self.update), ('d', self.delete)])
    }

    /// The permissions that letters say, in any order; others are passed over.
    pub(crate) fn read_from(text: &str) -> Permissions {
        Permissions {
            read: text.contains('r'),
            add: text.contains('a'),
            update: text.contains('u'),
            delete: text.contains('d'),
        }
    }
}

/// Which protocols a token may be used over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocols {
    /// HTTPS and HTTP.
    #[default]
    Any,
    /// HTTPS only.
    HttpsOnly,
}

impl Protocols {
    fn text(self) -> &'static str {
        if self == Protocols::HttpsOnly { "https" } else { "" }
    }
}

/// A signature for one table.
///
/// ```
/// use tabulith_client::{Connection, DateTime, Permissions, TableSas};
/// let account = Connection::parse("UseDevelopmentStorage=true")?;
/// let key = account.key().expect("a connection with a key");
/// let token = TableSas {
///     permissions: Some(Permissions::READ),
///     expiry: Some("2040-01-01T00:00:00Z".parse()?),
///     first: Some(("tenant-7".to_owned(), None)),
///     last: Some(("tenant-7".to_owned(), None)),
///     ..TableSas::new("orders")
/// }
/// .sign(&account.account, key)?;
/// assert!(token.starts_with("sv=2019-02-02&tn=orders&sp=r&"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableSas {
    /// The table.
    pub table: String,
    /// What it allows; `None` where the stored policy says it.
    pub permissions: Option<Permissions>,
    /// From when on it holds; from now on where it is `None`.
    pub start: Option<DateTime>,
    /// When it ends; `None` where the stored policy says it.
    pub expiry: Option<DateTime>,
    /// The stored policy that it refers to.
    pub policy: Option<String>,
    /// The address, or `first-last`, that it may be used from.
    pub addresses: Option<String>,
    /// The protocols that it may be used over.
    pub protocols: Protocols,
    /// The least PartitionKey, and within it the least RowKey.
    pub first: Option<(String, Option<String>)>,
    /// The greatest PartitionKey, and within it the greatest RowKey.
    pub last: Option<(String, Option<String>)>,
}

impl TableSas {
    /// A signature for a table that allows nothing yet.
    pub fn new(table: impl Into<String>) -> TableSas {
        TableSas { table: table.into(), ..TableSas::default() }
    }

    /// The token: query parameters without a question mark. Errors: [`Error::Invalid`] for a field
    /// that is given but empty, which the service would take for none, and for one with a line end,
    /// which it could take for two.
    pub fn sign(&self, account: &str, key: &Key) -> Result<String, Error> {
        let permissions = self.permissions.map(Permissions::text);
        let (start, expiry) = (moment(self.start), moment(self.expiry));
        let (spk, srk) = bound(self.first.as_ref());
        let srk = srk.filter(|least| !least.is_empty()); // That of any row is no less.
        let (epk, erk) = bound(self.last.as_ref());
        let resource = format!("/table/{account}/{}", self.table.to_lowercase());
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let signed = [
            text(&permissions),
            text(&start),
            text(&expiry),
            resource,
            text(&self.policy),
            text(&self.addresses),
            self.protocols.text().to_owned(),
            VERSION.to_owned(),
            text(&spk),
            text(&srk),
            text(&epk),
            text(&erk),
        ]
        .join("\n");
        query(&[
            ("sv", Some(VERSION.to_owned())),
            ("tn", Some(self.table.clone())),
            ("sp", permissions),
            ("st", start),
            ("se", expiry),
            ("si", self.policy.clone()),
            ("sip", self.addresses.clone()),
            ("spr", spr(self.protocols)),
            ("spk", spk),
            ("srk", srk),
            ("epk", epk),
            ("erk", erk),
            ("sig", Some(key.sign(&signed))),
        ])
    }
}

/// What the holder of an account's signature may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountPermissions {
    /// Get and query entities, get the service's properties and stats.
    pub read: bool,
    /// Create tables, set the service's properties.
    pub write: bool,
    /// Delete entities and tables.
    pub delete: bool,
    /// List tables.
    pub list: bool,
    /// Insert entities; with `update` also upsert.
    pub add: bool,
    /// Create tables.
    pub create: bool,
    /// Replace and merge entities.
    pub update: bool,
}

impl AccountPermissions {
    /// Everything.
    pub const ALL: AccountPermissions = AccountPermissions {
        read: true,
        write: true,
        delete: true,
        list: true,
        add: true,
        create: true,
        update: true,
    };

    fn text(self) -> String {
        letters(&[
            ('r', self.read),
            ('w', self.write),
            ('d', self.delete),
            ('l', self.list),
            ('a', self.add),
            ('c', self.create),
            ('u', self.update),
        ])
    }
}

/// What an account's signature is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// The service's properties and stats.
    pub service: bool,
    /// Tables as such.
    pub tables: bool,
    /// Entities.
    pub entities: bool,
}

impl Resources {
    /// Everything.
    pub const ALL: Resources = Resources { service: true, tables: true, entities: true };
}

/// A signature for all tables of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountSas {
    /// What it allows.
    pub permissions: AccountPermissions,
    /// On what.
    pub resources: Resources,
    /// From when on it holds; from now on where it is `None`.
    pub start: Option<DateTime>,
    /// When it ends.
    pub expiry: DateTime,
    /// The address, or `first-last`, that it may be used from.
    pub addresses: Option<String>,
    /// The protocols that it may be used over.
    pub protocols: Protocols,
}

impl AccountSas {
    /// A signature for everything until `expiry`.
    pub fn new(expiry: DateTime) -> AccountSas {
        AccountSas {
            permissions: AccountPermissions::ALL,
            resources: Resources::ALL,
            start: None,
            expiry,
            addresses: None,
            protocols: Protocols::Any,
        }
    }

    /// The token: query parameters without a question mark. Errors: [`Error::Invalid`] for a field
    /// that is given but empty, which the service would take for none, and for one with a line end,
    /// which it could take for two.
    pub fn sign(&self, account: &str, key: &Key) -> Result<String, Error> {
        let permissions = self.permissions.text();
        let Resources { service, tables, entities } = self.resources;
        let resources = letters(&[('s', service), ('o', entities), ('c', tables)]);
        let (start, expiry) = (moment(self.start), moment(Some(self.expiry)));
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let signed = format!(
            "{account}\n{permissions}\nt\n{resources}\n{}\n{}\n{}\n{}\n{VERSION}\n",
            text(&start),
            text(&expiry),
            text(&self.addresses),
            self.protocols.text(),
        );
        query(&[
            ("sv", Some(VERSION.to_owned())),
            ("ss", Some("t".to_owned())),
            ("srt", Some(resources)),
            ("sp", Some(permissions)),
            ("st", start),
            ("se", expiry),
            ("sip", self.addresses.clone()),
            ("spr", spr(self.protocols)),
            ("sig", Some(key.sign(&signed))),
        ])
    }
}

fn letters(letters: &[(char, bool)]) -> String {
    letters.iter().filter(|(_, given)| *given).map(|(letter, _)| *letter).collect()
}

fn moment(moment: Option<DateTime>) -> Option<String> {
    moment.map(|moment| moment.whole_seconds().to_string())
}

fn bound(bound: Option<&(String, Option<String>)>) -> (Option<String>, Option<String>) {
    match bound {
        Some((partition_key, row_key)) => (Some(partition_key.clone()), row_key.clone()),
        None => (None, None),
    }
}

fn spr(protocols: Protocols) -> Option<String> {
    Some(protocols.text().to_owned()).filter(|text| !text.is_empty())
}

fn query(parameters: &[(&str, Option<String>)]) -> Result<String, Error> {
    let given = parameters.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let given: Result<Vec<String>, Error> = given
        .map(|(name, value)| match value {
            empty if empty.is_empty() => {
                Err(Error::Invalid(format!("{name}: a limit that is empty is none")))
            }
            lines if lines.contains(['\n', '\r']) => {
                Err(Error::Invalid(format!("{name}: a line end would make two fields of one")))
            }
            value => Ok(format!("{name}={}", percent(value))),
        })
        .collect();
    Ok(given?.join("&"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::connection::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};

    fn signature(token: &str) -> String {
        token.split_once("&sig=").unwrap().1.to_owned()
    }

    fn key() -> Key {
        Key::of_base64(DEVELOPMENT_KEY).unwrap()
    }

    #[test]
    fn the_signatures_of_tables_are_those_of_others() {
        let ranged = TableSas {
            permissions: Some(Permissions::ALL),
            expiry: Some("2040-01-01T01:01:00Z".parse().unwrap()),
            first: Some(("pk1".to_owned(), Some("rk1".to_owned()))),
            last: Some(("pk1".to_owned(), Some("rk9".to_owned()))),
            ..TableSas::new("MyTable")
        };
        let token = ranged.sign(DEVELOPMENT_ACCOUNT, &key()).unwrap();
        assert_eq!(signature(&token), percent("ct6GLhXjszdW9zSHZcYyExvLNsZe5zVvUr70ntCi1O4="));
        let by_policy = TableSas { policy: Some("policy1".to_owned()), ..TableSas::new("mytable") };
        let token = by_policy.sign(DEVELOPMENT_ACCOUNT, &key()).unwrap();
        assert_eq!(signature(&token), percent("7fk7F8vYktbK9ITerPezirtr6NZNSL8zDLE5ET8adv8="));
    }

    #[test]
    fn the_signature_of_an_account_is_that_of_others() {
        let token = AccountSas::new("2040-01-01T01:01:00Z".parse().unwrap())
            .sign(DEVELOPMENT_ACCOUNT, &key())
            .unwrap();
        assert!(token.contains("&srt=soc&sp=rwdlacu&"), "{token}");
        assert_eq!(signature(&token), percent("ZZoTxC+nWGyOQC9vQG/pKWZwfmuhBUGLb/J34m3USxg="));
    }

    #[test]
    fn what_would_limit_less_than_it_says_is_not_signed() {
        let text = |text: &str| Some(text.to_owned());
        let plain = TableSas::new("T");
        let spoilt = ["", "a\n", "\r\nb"].map(|bad| {
            let (first, last) = (Some((bad.to_owned(), None)), Some((bad.to_owned(), text("r"))));
            [
                TableSas { first, ..plain.clone() },
                TableSas { last, ..plain.clone() },
                TableSas { last: Some(("p".to_owned(), text(bad))), ..plain.clone() },
                TableSas { addresses: text(bad), ..plain.clone() },
                TableSas { policy: text(bad), ..plain.clone() },
                TableSas::new(bad),
            ]
        });
        let nothing = TableSas {
            permissions: Some(Permissions::default()),
            policy: text("policy1"),
            ..plain.clone()
        };
        for sas in spoilt.iter().flatten().chain([&nothing]) {
            let signed = sas.sign(DEVELOPMENT_ACCOUNT, &key());
            assert!(matches!(signed, Err(Error::Invalid(_))), "{sas:?}");
        }
        for bad in ["", "10.0.0.1\n"] {
            let anywhere = AccountSas::new("2040-01-01T01:01:00Z".parse().unwrap());
            let sas = AccountSas { addresses: text(bad), ..anywhere };
            let signed = sas.sign(DEVELOPMENT_ACCOUNT, &key());
            assert!(matches!(signed, Err(Error::Invalid(_))), "{sas:?}");
        }
        let whole_partition = |row: Option<String>| {
            let first = Some(("p".to_owned(), row));
            TableSas { first, ..plain.clone() }.sign(DEVELOPMENT_ACCOUNT, &key()).unwrap()
        };
        assert_eq!(whole_partition(text("")), whole_partition(None));
    }
}
