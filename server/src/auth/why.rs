//! Why a shared access signature is refused, in words for people.
//!
//! Promise: there is a fault exactly where a server with the same keys refuses the request, as far
//! as both know of it; tests hold the two against each other. Refusals on the wire say less on
//! purpose: this is for those who hold the key, or the token.

use crate::auth::access::Access;
use crate::auth::key_range::KeyRange;
use crate::auth::moment;
use crate::auth::permissions::{ENTITY_LETTERS, Letters};
use crate::auth::rights::Rights;
use crate::auth::sas::{
    ACCOUNT_SAS, ANY_LETTER, ENCRYPTION_SCOPE, Given, OF_ACCOUNTS, OF_TABLES, OF_USERS, Sas,
    TABLE_SAS, has_line_end,
};
use crate::auth::shared_key::Signature;
use crate::auth::words::{Field, NAMES, field};
use crate::config::Accounts;
use crate::context::is_version;
use crate::odata::options::Params;
use crate::source::Sources;
use std::net::IpAddr;
use tabulith::table::name::TableName;
use tabulith::table::value::DateTime;

/// What is known of the request that a signature is for; what is `None` is not judged.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The account.
    pub account: String,
    /// The accounts and their keys.
    pub accounts: Option<Accounts>,
    /// The time.
    pub now: DateTime,
    /// The operation.
    pub access: Option<Access>,
    /// The table that it works on.
    pub table: Option<String>,
    /// PartitionKey and RowKey of its entity.
    pub keys: Option<(String, String)>,
    /// The address that it comes from.
    pub peer: Option<IpAddr>,
    /// Whether it comes by TLS.
    pub secure: Option<bool>,
}

/// What there is to say of a signature.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Its fields, in its order.
    pub fields: Vec<Field>,
    /// Why it is refused; nothing where it is not.
    pub faults: Vec<String>,
    /// What was not judged, since nobody said it.
    pub open: Vec<String>,
    /// The text that has to be signed, where the fields make one.
    pub to_sign: Option<String>,
}

/// What is said of a signature that is refused by a rule of which there are no words here.
const REFUSED: &str = "its fields do not go together";

/// Explains the query string of a signature.
pub fn explain(token: &str, asked: &Asked) -> Told {
    let mut told = Told::default();
    let Ok(params) = Params::parse(token.trim_start_matches('?')) else {
        told.faults.push("it is no query string: a % without two hex digits, or no UTF-8".into());
        return told;
    };
    told.fields = params.iter().map(|(name, value)| field(name, value)).collect();
    let Ok(sas) = Sas::read(&params) else {
        told.faults = form_faults(&params);
        if told.faults.is_empty() {
            told.faults.push(REFUSED.to_owned());
        }
        return told;
    };
    told.to_sign = Some(sas.string_to_sign(&asked.account));
    match &asked.accounts {
        None => told.open.push("whether a key of the account has signed it".into()),
        Some(accounts) if sas.signer(&asked.account, accounts.keys(&asked.account)).is_none() => {
            told.faults.push(format!(
                "no key of the account {} has signed it: another key, another account, or a field \
                 that was changed after signing",
                asked.account
            ));
        }
        Some(_) => {}
    }
    match sas.given() {
        Err(_) => {
            let faults = field_faults(&params);
            told.faults.extend(if faults.is_empty() { vec![REFUSED.to_owned()] } else { faults });
        }
        Ok(given) => judge(&given, asked, &mut told),
    }
    judge_origin(&params, &sas, asked, &mut told);
    told
}

/// Why the fields are no signature.
fn form_faults(params: &Params) -> Vec<String> {
    let mut faults = name_faults(params);
    let version = params.get("sv").unwrap_or_default();
    if !is_version(version) {
        faults.push(match version {
            "" => "sv: the version is missing".to_owned(),
            _ => format!("sv: {version} is no version; one is a date, such as 2019-02-02"),
        });
    }
    match params.get("sig") {
        None => faults.push("sig: the signature is missing".to_owned()),
        Some(text) if Signature::parse(text).is_none() => {
            faults.push("sig: not 32 bytes in base64".to_owned());
        }
        Some(_) => {}
    }
    faults.extend(kind_faults(params, version));
    faults
}

/// Which names are written otherwise, stand there twice, or are of another kind of signatures, and
/// which values could be those of several.
fn name_faults(params: &Params) -> Vec<String> {
    let fault = |(name, value): (&str, &str)| {
        let known = NAMES.iter().find(|(own, _)| own.eq_ignore_ascii_case(name));
        match known {
            Some((own, _)) if *own != name => Some(format!("{name}: the field is written {own}")),
            Some((own, _)) if params.get(own) != Some(value) => {
                Some(format!("{name}: given twice, with different values"))
            }
            Some(_) if has_line_end(value) => {
                Some(format!("{name}: it has a line end, which parts one field from the next"))
            }
            _ if OF_USERS.iter().any(|own| own.eq_ignore_ascii_case(name)) => {
                Some(format!("{name}: tables have no signatures by users"))
            }
            _ => None,
        }
    };
    params.iter().filter_map(fault).collect()
}

/// Which fields do not go together, or are not in that version.
fn kind_faults(params: &Params, version: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let has = |name: &str| params.get(name).is_some();
    let mut note = |fault: bool, words: String| {
        if fault {
            faults.push(words);
        }
    };
    let named = |names: &[&str]| {
        let there: Vec<&str> = names.iter().copied().filter(|name| has(name)).collect();
        there.join(", ")
    };
    if let Some(table) = params.get("tn") {
        note(TableName::parse(table).is_err(), "tn: no name of a table".to_owned());
        let others = named(&OF_ACCOUNTS);
        note(!others.is_empty(), format!("{others}: a signature of an account's has no tn"));
        note(version < TABLE_SAS, format!("sv: {version} has no signatures of tables"));
        let origin = named(&["sip", "spr"]);
        let unsigned = version < ACCOUNT_SAS && !origin.is_empty();
        note(unsigned, format!("{origin}: {version} does not sign it"));
    } else if has("ss") || has("srt") {
        let others = named(&OF_TABLES);
        let fault = format!("{others}: a signature of an account's has no such field");
        note(!others.is_empty(), fault);
        for name in ["ss", "srt"] {
            note(!has(name), format!("{name}: missing"));
        }
        note(version < ACCOUNT_SAS, format!("sv: {version} has no signatures of accounts"));
        let unsigned = version < ENCRYPTION_SCOPE && has("ses");
        note(unsigned, format!("ses: {version} does not sign it"));
    } else {
        let what = "what it is good for is missing: a table, or kinds of resources";
        note(true, format!("tn, or ss and srt: {what}"));
    }
    faults
}

/// Which field of a well-formed signature says nothing.
fn field_faults(params: &Params) -> Vec<String> {
    let value = |name: &str| params.filled(name);
    let mut faults = Vec::new();
    for name in ["st", "se"] {
        if let Some(text) = value(name).filter(|text| moment::parse(text).is_none()) {
            faults.push(format!("{name}: {text} is no moment such as 2030-01-31T12:00:00Z"));
        }
    }
    let is_of_table = params.get("tn").is_some();
    let letters = |name: &str, allowed: &str| {
        value(name).filter(|text| Letters::parse(text, allowed).is_none())
    };
    if let Some(text) = letters("sp", if is_of_table { ENTITY_LETTERS } else { ANY_LETTER }) {
        let allowed = if is_of_table { "r, a, u, d" } else { "small letters" };
        faults.push(format!("sp: {text} has others than {allowed}"));
    }
    if is_of_table {
        let range = KeyRange::of(value("spk"), value("srk"), value("epk"), value("erk"));
        if range.is_none() {
            faults.push("srk or erk: a RowKey needs its PartitionKey, spk or epk".to_owned());
        }
    } else {
        if value("sp").is_none() {
            faults.push("sp: no permissions".to_owned());
        }
        if value("ss").is_none() {
            faults.push("ss: no services".to_owned());
        }
        if let Some(text) = letters("ss", ANY_LETTER) {
            faults.push(format!("ss: {text} has others than small letters"));
        }
        match value("srt") {
            None => faults.push("srt: no kinds of resources".to_owned()),
            Some(_) => {
                if let Some(text) = letters("srt", "sco") {
                    faults.push(format!("srt: {text} has others than s, c, o"));
                }
            }
        }
    }
    faults
}

/// What it gives, against what is asked and when.
fn judge(given: &Given, asked: &Asked, told: &mut Told) {
    let (Given::Table { terms, .. } | Given::Account { terms, .. }) = given;
    let policy = match given {
        Given::Table { policy, .. } => policy.as_deref(),
        Given::Account { .. } => None,
    };
    if let Some(start) = terms.start.filter(|start| *start > asked.now) {
        told.faults.push(format!("st: it holds from {start} on, and it is {}", asked.now));
    }
    if let Some(expiry) = terms.expiry.filter(|expiry| *expiry <= asked.now) {
        told.faults.push(format!("se: it has expired at {expiry}, and it is {}", asked.now));
    }
    if let Some(id) = policy {
        told.open.push(format!("what the stored policy {id} says, and whether the table has it"));
    } else {
        for (name, what, there) in [
            ("se", "no expiry", terms.expiry.is_some()),
            ("sp", "no permissions", terms.permissions.is_some()),
        ] {
            if !there {
                told.faults.push(format!("{name}: {what}, and no stored policy, si, to say it"));
            }
        }
    }
    let Some(access) = asked.access else {
        told.open.push("whether it allows an operation".into());
        return;
    };
    let rights = match given {
        Given::Account { resources, permissions, .. } => {
            Some(Rights::Account { resources: *resources, permissions: *permissions })
        }
        Given::Table { table, range, .. } => terms.permissions.map(|permissions| Rights::Table {
            table: table.clone(),
            permissions,
            range: range.clone(),
            stored: None,
        }),
    };
    if let Some(Err(refusal)) = rights.map(|rights| rights.check(access, asked.table.as_deref())) {
        told.faults.push(match given {
            Given::Table { table, .. }
                if asked
                    .table
                    .as_deref()
                    .is_none_or(|asked| !asked.eq_ignore_ascii_case(table.as_str())) =>
            {
                format!("tn: it is for entities of the table {table} only")
            }
            _ => format!("sp, srt: they do not allow that operation ({})", refusal.code),
        });
    }
    if let (Given::Table { range, .. }, Some((partition_key, row_key))) = (given, &asked.keys)
        && !range.contains(partition_key, row_key)
    {
        told.faults.push(format!(
            "spk, srk, epk, erk: the entity '{partition_key}', '{row_key}' lies outside"
        ));
    }
}

/// Where it may come from, against whence it comes.
fn judge_origin(params: &Params, sas: &Sas<'_>, asked: &Asked, told: &mut Told) {
    let before = told.faults.len();
    if let Some(text) = params.filled("sip") {
        match (Sources::parse(text), asked.peer) {
            (None, _) => told.faults.push(format!("sip: {text} is no address, nor two with a -")),
            (Some(_), None) => told.open.push("whether the address that asks is one of sip".into()),
            (Some(sources), Some(peer)) if !sources.contain(peer) => {
                told.faults.push(format!("sip: {peer} is not among {text}"));
            }
            _ => {}
        }
    }
    match params.filled("spr") {
        None | Some("https,http") => {}
        Some("https") => match asked.secure {
            None => told.open.push("whether it is used over TLS".into()),
            Some(true) => {}
            Some(false) => told.faults.push("spr: it is for HTTPS only".to_owned()),
        },
        Some(text) => told.faults.push(format!("spr: {text} is neither https nor https,http")),
    }
    if params.filled("ss").is_some_and(|services| !services.contains('t')) {
        told.faults.push("ss: tables, t, are not among its services".to_owned());
    }
    // A rule that is known there and not here must not pass for none.
    let known = asked.peer.is_some() && asked.secure.is_some();
    if known && told.faults.len() == before {
        let origin = sas.check_origin(asked.peer, asked.secure.unwrap_or_default());
        told.faults.extend(origin.err().map(|refusal| refusal.code.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::policy::NoPolicies;
    use crate::auth::shared_key::signature_text;
    use crate::auth::verify::{Authority, authenticate};
    use crate::config::DEVELOPMENT_ACCOUNT;
    use crate::http::message::{Head, Headers};
    use crate::odata::address::Address;
    use crate::odata::literal::percent_encoded;
    use tabulith::env::rng::Rng;

    const NOW: &str = "2030-06-15T12:00:00Z";

    fn asked() -> Asked {
        Asked {
            account: DEVELOPMENT_ACCOUNT.to_owned(),
            accounts: Some(Accounts::development()),
            now: moment::parse(NOW).expect("a moment"),
            access: Some(Access::Read),
            table: Some("T123".to_owned()),
            keys: Some(("p".to_owned(), "r".to_owned())),
            peer: Some(IpAddr::from([10, 0, 0, 7])),
            secure: Some(false),
        }
    }

    /// The token with those fields, signed by the account's key where they make something to sign.
    fn signed(fields: &[(&str, &str)]) -> String {
        let text = |name: &str, value: &str| format!("{name}={}", percent_encoded(value, ""));
        let mut parts: Vec<String> = fields.iter().map(|(name, value)| text(name, value)).collect();
        let placeholder = [parts.clone(), vec![text("sig", &"A".repeat(43)) + "="]].concat();
        let params = Params::parse(&placeholder.join("&")).expect("a query");
        let string = Sas::read(&params).map(|sas| sas.string_to_sign(DEVELOPMENT_ACCOUNT));
        let accounts = Accounts::development();
        let key = &accounts.keys(DEVELOPMENT_ACCOUNT).own()[0];
        let signature = signature_text(key, &string.unwrap_or_default());
        if !fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("sig")) {
            parts.push(text("sig", &signature));
        }
        parts.join("&")
    }

    /// Whether a server lets the request pass that is asked about.
    fn passes(token: &str, asked: &Asked) -> bool {
        let head = Head {
            method: "GET".to_owned(),
            target: format!("/{DEVELOPMENT_ACCOUNT}/T123(PartitionKey='p',RowKey='r')?{token}"),
            authority: "localhost".to_owned(),
            peer: asked.peer,
            secure: asked.secure.unwrap_or_default(),
            headers: Headers::default(),
        };
        let judged = || {
            let address = Address::parse(&head, head.secure).ok()?;
            let params = Params::parse(head.query()).ok()?;
            let authority = Authority {
                accounts: asked.accounts.as_ref()?,
                policies: &NoPolicies,
                bearer: None,
                version: "2019-02-02",
                trusted_proxies: &[],
                now: Some(asked.now.commit()?),
                date_checked: true,
            };
            let principal = authenticate(&head, &address, &params, &authority).ok()?;
            let grant = principal.authorize(asked.access?, asked.table.as_deref()).ok()?;
            grant.check_keys("p", "r").ok()
        };
        judged().is_some()
    }

    #[test]
    fn there_is_a_fault_exactly_where_a_server_refuses() {
        let values: [(&str, &[&str]); 16] = [
            ("sv", &["2019-02-02", "2012-02-12", "2015-04-05", "2021-06-08", "2009-01-01", "x"]),
            ("tn", &["T123", "t123", "Other", "1"]),
            ("sp", &["r", "raud", "a", "x", "rwdlacu", "R", ""]),
            ("se", &["2040-01-01", "2040-01-01T01:00Z", "2020-01-01", "soon", ""]),
            ("st", &["2020-01-01", "2035-01-01", "then"]),
            ("sip", &["10.0.0.7", "10.0.0.1-10.0.0.9", "10.0.0.8", "here", "10.0.0.7\r"]),
            ("spr", &["https,http", "https", "http"]),
            ("ss", &["t", "btqf", "b", "T", ""]),
            ("srt", &["sco", "o", "s", "x", ""]),
            ("spk", &["a", "p", "q", "\n"]),
            ("srk", &["a", "r", "z"]),
            ("epk", &["z", "p", "a"]),
            ("erk", &["z", "r", "a"]),
            ("ses", &["scope"]),
            ("skoid", &["user"]),
            ("SP", &["r"]),
        ];
        let chances = [97, 60, 95, 95, 30, 20, 20, 40, 40, 20, 15, 20, 15, 3, 2, 3];
        let mut rng = Rng::seeded(0x5a5);
        let (mut passed, mut refused) = (0, 0);
        for round in 0..20_000 {
            let mut fields = Vec::new();
            for ((name, values), chance) in values.iter().zip(chances) {
                // The first value of a field is mostly a good one.
                let pick = if rng.below(100) < 70 { 0 } else { rng.below(values.len() as u64) };
                if rng.below(100) < chance {
                    fields.push((*name, values[pick as usize]));
                }
            }
            if rng.below(2) == 0 {
                let other = if rng.below(2) == 0 {
                    &["ss", "srt", "ses"][..]
                } else {
                    &["tn", "spk", "srk", "epk", "erk"]
                };
                fields.retain(|(name, _)| !other.contains(name));
            }
            if rng.below(30) == 0 {
                fields.push(("sp", if rng.below(2) == 0 { "r" } else { "rd" }));
            }
            if rng.below(50) == 0 {
                fields.push(("sig", if rng.below(2) == 0 { "short" } else { "" }));
            }
            let asked = Asked { secure: Some(rng.below(2) == 0), ..asked() };
            let token = signed(&fields);
            let faults = explain(&token, &asked).faults;
            assert_eq!(faults.is_empty(), passes(&token, &asked), "{round}: {token}\n{faults:?}");
            if faults.is_empty() { passed += 1 } else { refused += 1 }
        }
        assert!(passed > 500 && refused > 5_000, "{passed} passed, {refused} were refused");
    }

    #[test]
    fn each_fault_names_its_field() {
        let good = [("sv", "2019-02-02"), ("tn", "T123"), ("sp", "r"), ("se", "2040-01-01")];
        let with = |name: &'static str, value: &'static str| {
            let mut fields = good.to_vec();
            fields.retain(|(own, _)| *own != name);
            fields.push((name, value));
            explain(&signed(&fields), &asked()).faults
        };
        assert_eq!(explain(&signed(&good), &asked()).faults, [""; 0]);
        for (name, value, words) in [
            ("se", "2020-01-01", "it has expired at 2020-01-01T00:00:00Z, and it is 2030-06-15"),
            ("st", "2035-01-01", "it holds from 2035-01-01T00:00:00Z on"),
            ("se", "soon", "soon is no moment"),
            ("sp", "x", "x has others than r, a, u, d"),
            ("sp", "a", "do not allow that operation"),
            ("tn", "Other", "for entities of the table Other only"),
            ("spk", "q", "'p', 'r' lies outside"),
            ("sip", "10.0.0.8", "10.0.0.7 is not among"),
            ("spr", "https", "for HTTPS only"),
            ("sv", "x", "x is no version"),
            ("Se", "2040-01-01", "the field is written se"),
            ("skoid", "x", "no signatures by users"),
            ("erk", "a\n", "a line end"),
        ] {
            let faults = with(name, value);
            assert_eq!(faults.len(), 1, "{faults:?}");
            assert!(faults[0].starts_with(name) || name == "sp" || name == "spk", "{faults:?}");
            assert!(faults[0].contains(words), "{faults:?}");
        }
        let of_account =
            [("sv", "2019-02-02"), ("ss", "t"), ("srt", "o"), ("sp", "R"), ("se", "2040-01-01")];
        let faults = explain(&signed(&of_account), &asked()).faults;
        assert_eq!(faults, ["sp: R has others than small letters"]);
        let other = Asked { account: "other".to_owned(), ..asked() };
        let faults = explain(&signed(&good), &other).faults;
        assert!(faults[0].contains("no key of the account other"), "{faults:?}");
    }

    #[test]
    fn what_nobody_said_stays_open_and_the_signature_is_not_shown() {
        let fields = [("sv", "2019-02-02"), ("tn", "T123"), ("si", "p1"), ("spr", "https")];
        let token = signed(&fields);
        let asked = Asked { accounts: None, access: None, secure: None, ..asked() };
        let nowhere = Asked { peer: None, secure: None, ..asked.clone() };
        let from =
            signed(&[("sv", "2019-02-02"), ("tn", "T123"), ("si", "p1"), ("sip", "10.0.0.8")]);
        assert_eq!(explain(&from, &nowhere).open.len(), 4, "the address that asks is one of them");
        let told = explain(&token, &asked);
        assert_eq!(told.faults, [""; 0]);
        assert_eq!(told.open.len(), 4, "{:?}", told.open);
        let signature = token.rsplit_once("sig=").expect("signed").1;
        assert!(!format!("{told:?}").contains(signature));
        assert_eq!(explain("sig=%", &asked).faults.len(), 1);
    }
}
