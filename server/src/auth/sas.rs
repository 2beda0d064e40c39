//! Shared access signatures of tables and of accounts: their fields in a query string, what of
//! them is signed, and when and whence they are good.
//!
//! Promise: a field says one thing or the signature is refused, in whatever case its name is
//! written; a field that its version does not sign is refused too, so that nothing can be added to
//! a signature that was given out. So is one with a line end: what is signed is a line for each
//! field, and such a field could be two. An empty field is one that is not there, as the string to
//! sign cannot tell the two apart.

use crate::auth::key_range::KeyRange;
use crate::auth::moment;
use crate::auth::permissions::{ENTITY_LETTERS, Letters};
use crate::auth::policy::Terms;
use crate::auth::shared_key::Signature;
use crate::config::{Key, TriedKeys};
use crate::context::is_version;
use crate::error::{
    AUTHENTICATION_FAILED, AUTHORIZATION_PROTOCOL_MISMATCH, AUTHORIZATION_SERVICE_MISMATCH,
    WireError, source_ip_mismatch,
};
use crate::odata::options::Params;
use crate::source::Sources;
use std::net::IpAddr;
use tabulith::table::name::TableName;
use tabulith::table::value::DateTime;

/// Fields that both kinds have.
const COMMON: [&str; 7] = ["sv", "st", "se", "sp", "sip", "spr", "sig"];

/// Further fields of a table SAS.
pub(crate) const OF_TABLES: [&str; 6] = ["tn", "si", "spk", "srk", "epk", "erk"];

/// Further fields of an account SAS.
pub(crate) const OF_ACCOUNTS: [&str; 3] = ["ss", "srt", "ses"];

/// Fields of a delegation by a user, which tables do not have here.
pub(crate) const OF_USERS: [&str; 8] =
    ["skoid", "sktid", "skt", "ske", "sks", "skv", "saoid", "scid"];

/// The first version with a table SAS.
pub(crate) const TABLE_SAS: &str = "2012-02-12";

/// The first version whose resource begins with the service.
const SERVICE_IN_RESOURCE: &str = "2015-02-21";

/// The first version with an account SAS, addresses and protocols.
pub(crate) const ACCOUNT_SAS: &str = "2015-04-05";

/// The first version that signs an encryption scope.
pub(crate) const ENCRYPTION_SCOPE: &str = "2020-12-06";

/// A shared access signature whose fields are those of its kind; nobody has checked yet that it is
/// signed.
#[derive(Debug)]
pub struct Sas<'a> {
    params: &'a Params,
    version: &'a str,
    signature: Signature,
    kind: Kind,
}

/// What it is good for.
#[derive(Debug)]
enum Kind {
    /// Entities of one table.
    Table(TableName),
    /// Whatever the account has.
    Account,
}

/// What a signed one gives.
#[derive(Clone, Debug)]
pub enum Given {
    /// Permissions on a table's entities.
    Table {
        /// The table.
        table: TableName,
        /// The keys.
        range: KeyRange,
        /// The stored policy that has the rest of it.
        policy: Option<String>,
        /// What the signature itself says.
        terms: Terms,
    },
    /// Permissions on everything of an account.
    Account {
        /// Kinds of resources.
        resources: Letters,
        /// What may be done.
        permissions: Letters,
        /// When.
        terms: Terms,
    },
}

/// Whether a request presents a shared access signature.
pub fn is_in(params: &Params) -> bool {
    params.iter().any(|(name, _)| name.eq_ignore_ascii_case("sig"))
}

impl<'a> Sas<'a> {
    /// Reads the fields. Errors: `AuthenticationFailed`.
    pub fn read(params: &'a Params) -> Result<Sas<'a>, WireError> {
        Sas::read_fields(params).ok_or(AUTHENTICATION_FAILED)
    }

    fn read_fields(params: &'a Params) -> Option<Sas<'a>> {
        let present = present(params)?;
        let has = |name: &str| present.contains(&name);
        let has_any = |names: &[&str]| names.iter().any(|name| has(name));
        let version = params.get("sv").filter(|version| is_version(version))?;
        let kind = if has("tn") {
            let table = TableName::parse(params.get("tn")?).ok()?;
            let since = version >= TABLE_SAS && !has_any(&OF_ACCOUNTS);
            let unsigned = version < ACCOUNT_SAS && has_any(&["sip", "spr"]);
            (since && !unsigned).then_some(Kind::Table(table))?
        } else {
            let since = version >= ACCOUNT_SAS && !has_any(&OF_TABLES);
            let unsigned = version < ENCRYPTION_SCOPE && has("ses");
            (since && !unsigned && has("ss") && has("srt")).then_some(Kind::Account)?
        };
        if has_any(&OF_USERS) {
            return None;
        }
        let signature = Signature::parse(params.get("sig")?)?;
        Some(Sas { params, version, signature, kind })
    }

    /// The key of `account` that signed it.
    pub fn signer<'k>(&self, account: &str, keys: TriedKeys<'k>) -> Option<&'k Key> {
        self.signature.signer(keys, &[self.string_to_sign(account)])
    }

    /// What was signed, if it was.
    pub(crate) fn string_to_sign(&self, account: &str) -> String {
        let field = |name| self.params.get(name).unwrap_or_default();
        match &self.kind {
            Kind::Table(table) => {
                let table = table.folded();
                let resource = if self.version >= SERVICE_IN_RESOURCE {
                    format!("/table/{account}/{table}")
                } else {
                    format!("/{account}/{table}")
                };
                let mut lines = vec![field("sp"), field("st"), field("se"), &resource, field("si")];
                if self.version >= ACCOUNT_SAS {
                    lines.extend([field("sip"), field("spr")]);
                }
                lines.push(self.version);
                lines.extend(["spk", "srk", "epk", "erk"].map(field));
                lines.join("\n")
            }
            Kind::Account => {
                let mut lines = vec![account];
                lines.extend(["sp", "ss", "srt", "st", "se", "sip", "spr"].map(field));
                lines.push(self.version);
                if self.version >= ENCRYPTION_SCOPE {
                    lines.push(field("ses"));
                }
                // Here each line ends, the last one too.
                lines.join("\n") + "\n"
            }
        }
    }

    /// What it gives. To be asked only of one that is signed, as are its origins.
    pub fn given(&self) -> Result<Given, WireError> {
        self.fields().ok_or(AUTHENTICATION_FAILED)
    }

    /// Whether it is good for the address and the protocol that the request came by, and for
    /// tables.
    pub fn check_origin(&self, peer: Option<IpAddr>, secure: bool) -> Result<(), WireError> {
        if let Some(sources) = self.params.filled("sip") {
            let sources = Sources::parse(sources);
            if !peer.is_some_and(|peer| sources.is_some_and(|sources| sources.contain(peer))) {
                let shown = peer.map(|peer| peer.to_canonical().to_string()).unwrap_or_default();
                return Err(source_ip_mismatch(&shown));
            }
        }
        match self.params.filled("spr") {
            None | Some("https,http") => {}
            Some("https") if secure => {}
            Some("https") => return Err(AUTHORIZATION_PROTOCOL_MISMATCH),
            Some(_) => return Err(AUTHENTICATION_FAILED),
        }
        let services = self.params.filled("ss");
        let serves_tables = services.is_none_or(|services| services.contains('t'));
        if serves_tables { Ok(()) } else { Err(AUTHORIZATION_SERVICE_MISMATCH) }
    }

    fn fields(&self) -> Option<Given> {
        let field = |name| self.params.filled(name);
        let moment = |name| field(name).map_or(Some(None), |text| moment::parse(text).map(Some));
        let letters = |text, allowed| Letters::parse(text, allowed).map(Some);
        let of_letters = |name, allowed| field(name).map_or(Some(None), |t| letters(t, allowed));
        let (start, expiry) = (moment("st")?, moment("se")?);
        match &self.kind {
            Kind::Table(table) => {
                let permissions = of_letters("sp", ENTITY_LETTERS)?;
                let range = KeyRange::of(field("spk"), field("srk"), field("epk"), field("erk"))?;
                let policy = field("si").map(str::to_owned);
                let terms = Terms { start, expiry, permissions };
                Some(Given::Table { table: table.clone(), range, policy, terms })
            }
            Kind::Account => {
                let permissions = of_letters("sp", ANY_LETTER)?;
                of_letters("ss", ANY_LETTER)??;
                let resources = of_letters("srt", "sco")??;
                let terms = Terms { start, expiry, permissions };
                Some(Given::Account { resources, permissions: permissions?, terms })
            }
        }
    }
}

/// Other services have letters of their own.
pub(crate) const ANY_LETTER: &str = "abcdefghijklmnopqrstuvwxyz";

/// The fields that are there, each by its own name. Some clients add their signature to an address
/// that has it already: a field may stand there again if it says the same.
fn present(params: &Params) -> Option<Vec<&'static str>> {
    let all = || COMMON.iter().chain(&OF_TABLES).chain(&OF_ACCOUNTS).chain(&OF_USERS);
    let mut present = Vec::new();
    for (name, value) in params.iter() {
        let Some(field) = all().find(|field| field.eq_ignore_ascii_case(name)) else { continue };
        if *field != name || params.get(field) != Some(value) || has_line_end(value) {
            return None;
        }
        if !present.contains(field) {
            present.push(*field);
        }
    }
    Some(present)
}

/// Whether what is signed cannot tell a value from several.
pub(crate) fn has_line_end(value: &str) -> bool {
    value.contains(['\n', '\r'])
}

impl Terms {
    /// What a signature's terms and those of its policy are together. Nothing where both say the
    /// same thing, in whatever words, or where neither says until when and what.
    pub fn with(self, policy: Terms) -> Option<Terms> {
        let twice = self.start.is_some() && policy.start.is_some()
            || self.expiry.is_some() && policy.expiry.is_some()
            || self.permissions.is_some() && policy.permissions.is_some();
        let both = Terms {
            start: self.start.or(policy.start),
            expiry: self.expiry.or(policy.expiry),
            permissions: self.permissions.or(policy.permissions),
        };
        (!twice && both.expiry.is_some() && both.permissions.is_some()).then_some(both)
    }

    /// Whether they hold at `now`: from the start on, before the expiry.
    pub fn hold_at(&self, now: DateTime) -> bool {
        self.start.is_none_or(|start| start <= now) && self.expiry.is_some_and(|end| now < end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::shared_key::signature_text;
    use crate::config::{Accounts, DEVELOPMENT_ACCOUNT};

    /// Made and checked with the SDKs for Python and JavaScript.
    const VECTORS: [(&str, &str, &str); 4] = [
        (
            "tn=MyTable&sv=2019-02-02&sp=raud&se=2040-01-01T01:01:00Z&spk=pk1&srk=rk1&epk=pk1&erk=rk9",
            "raud\n\n2040-01-01T01:01:00Z\n/table/devstoreaccount1/mytable\n\n\n\n2019-02-02\npk1\nrk1\npk1\nrk9",
            "ct6GLhXjszdW9zSHZcYyExvLNsZe5zVvUr70ntCi1O4=",
        ),
        (
            "tn=MyTable&sv=2019-02-02&si=policy1",
            "\n\n\n/table/devstoreaccount1/mytable\npolicy1\n\n\n2019-02-02\n\n\n\n",
            "7fk7F8vYktbK9ITerPezirtr6NZNSL8zDLE5ET8adv8=",
        ),
        (
            "sv=2019-02-02&sp=rwdlacu&ss=t&srt=soc&se=2040-01-01T01:01:00Z",
            "devstoreaccount1\nrwdlacu\nt\nsoc\n\n2040-01-01T01:01:00Z\n\n\n2019-02-02\n",
            "ZZoTxC+nWGyOQC9vQG/pKWZwfmuhBUGLb/J34m3USxg=",
        ),
        (
            "sv=2021-06-08&sp=rwdlacu&ss=t&srt=sco&se=2040-01-01T01:01:00Z&spr=https",
            "devstoreaccount1\nrwdlacu\nt\nsco\n\n2040-01-01T01:01:00Z\n\nhttps\n2021-06-08\n\n",
            "+LCGB4jNmkivbPOMvQmvHv6LoiC3zIKAE4HmsBO0zBQ=",
        ),
    ];

    fn params(query: &str, signature: &str) -> Params {
        let signature = crate::odata::literal::percent_encoded(signature, "");
        Params::parse(&format!("{query}&sig={signature}")).expect("a query")
    }

    #[test]
    fn signatures_of_the_sdks() {
        let accounts = Accounts::development();
        let keys = accounts.keys(DEVELOPMENT_ACCOUNT);
        for (query, string, signature) in VECTORS {
            let params = params(query, signature);
            let sas = Sas::read(&params).expect(query);
            assert_eq!(sas.string_to_sign(DEVELOPMENT_ACCOUNT), string);
            assert!(sas.signer(DEVELOPMENT_ACCOUNT, keys).is_some(), "{query}");
            assert!(sas.signer("another", keys).is_none());
            assert!(sas.signer(DEVELOPMENT_ACCOUNT, accounts.keys("another")).is_none());
        }
    }

    #[test]
    fn strings_of_older_versions() {
        let string = |query: &str| {
            let params = params(query, VECTORS[0].2);
            Sas::read(&params).map(|sas| sas.string_to_sign("acct"))
        };
        let expect = |string: &str| Ok(string.to_owned());
        let fields = "tn=T12&sp=r&se=2040-01-01&spk=p";
        let old = "r\n\n2040-01-01\n/acct/t12\n\n2012-02-12\np\n\n\n";
        assert_eq!(string(&format!("{fields}&sv=2012-02-12")), expect(old));
        let middle = "r\n\n2040-01-01\n/table/acct/t12\n\n2015-02-21\np\n\n\n";
        assert_eq!(string(&format!("{fields}&sv=2015-02-21")), expect(middle));
        let new = "r\n\n2040-01-01\n/table/acct/t12\n\n1.2.3.4\nhttps\n2015-04-05\np\n\n\n";
        assert_eq!(string(&format!("{fields}&sv=2015-04-05&sip=1.2.3.4&spr=https")), expect(new));
        // What an old version does not sign must not be added to it.
        for more in ["&sv=2015-02-21&sip=1.2.3.4", "&sv=2013-08-15&spr=https", "&sv=2011-08-18"] {
            assert_eq!(string(&format!("{fields}{more}")), Err(AUTHENTICATION_FAILED), "{more}");
        }
        let account = "ss=t&srt=o&sp=r&se=2040-01-01";
        assert!(string(&format!("{account}&sv=2015-04-05")).is_ok());
        for more in ["&sv=2015-02-21", "&sv=2019-02-02&ses=x", "&sv=2019-02-02&si=x", ""] {
            assert_eq!(string(&format!("{account}{more}")), Err(AUTHENTICATION_FAILED), "{more}");
        }
    }

    #[test]
    fn terms_of_a_policy() {
        let accounts = Accounts::development();
        let key = &accounts.keys(DEVELOPMENT_ACCOUNT).own()[0];
        let sign = |string: &str| signature_text(key, string);
        let string = "\n\n\n/table/devstoreaccount1/mytable\npolicy1\n\n\n2019-02-02\n\n\n\n";
        assert_eq!(sign(string), VECTORS[1].2);
        let letters = Letters::parse("ra", ENTITY_LETTERS);
        let end = moment::parse("2040-01-01");
        let policy = Terms { start: None, expiry: end, permissions: letters };
        let nothing = Terms::default();
        assert_eq!(nothing.with(policy), Some(policy));
        assert_eq!(policy.with(nothing), Some(policy));
        assert_eq!(nothing.with(nothing), None);
        assert_eq!(policy.with(policy), None);
        assert_eq!(nothing.with(Terms { permissions: None, ..policy }), None);
        assert_eq!(Terms { permissions: letters, ..nothing }.with(policy), None);
        let now = moment::parse("2039-12-31T23:59:59.9999999Z").expect("a moment");
        assert!(policy.hold_at(now) && !policy.hold_at(DateTime(now.0 + 1)));
        assert!(!Terms { start: end, ..policy }.hold_at(now));
    }
}
