//! Shared access signatures: what the key has signed gives what it says, at its time and from its
//! place, and nothing that was changed afterwards passes. By a reader of its own, that of the
//! documentation.
//!
//! Input: lines: the query that the owner signs; seconds after the start of 2021; the address of
//! the client, with `https ` before it where it came over TLS; the query that is presented, where
//! `=` as the value of `sig` stands for the signature; or nothing, for what was signed.

use crate::input::text;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use tabulith::ids::CommitTs;
use tabulith::table::value::DateTime;
use tabulith_server::auth::access::Access;
use tabulith_server::auth::moment;
use tabulith_server::auth::policy::NoPolicies;
use tabulith_server::auth::shared_key::signature_text;
use tabulith_server::auth::verify::{Authority, Principal, authenticate};
use tabulith_server::config::{Accounts, DEVELOPMENT_ACCOUNT, Key};
use tabulith_server::http::message::Head;
use tabulith_server::odata::address::Address;
use tabulith_server::odata::options::Params;

/// 2021-01-01, in ticks since 1970.
const START: u64 = 1_609_459_200 * CommitTs::TICKS_PER_SECOND;

/// The fields that some version signs, but for `tn`, which is signed in lower case.
const SIGNED: [&str; 14] =
    ["sv", "sp", "st", "se", "sip", "spr", "si", "spk", "srk", "epk", "erk", "ss", "srt", "ses"];

/// Signs, changes and presents what the input says.
pub fn signature(data: &[u8]) {
    let given = text(data);
    let mut lines = given.lines();
    let signed = lines.next().unwrap_or_default();
    let seconds: u64 = lines.next().and_then(|line| line.trim().parse().ok()).unwrap_or(0);
    let from = lines.next().unwrap_or_default();
    let presented = lines.next().filter(|line| !line.is_empty()).unwrap_or(signed);
    let (secure, peer) = match from.strip_prefix("https ") {
        Some(peer) => (true, peer),
        None => (false, from),
    };
    let peer: Option<IpAddr> = peer.trim().parse().ok();
    let owner = fields(signed);
    let right = signature_text(&Key::development(), &string_to_sign(&owner));
    let escaped = right.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    let presented = presented.replace("sig==", &format!("sig={escaped}"));
    let head = Head {
        method: "GET".to_owned(),
        target: format!("/{DEVELOPMENT_ACCOUNT}/Tab?{presented}"),
        authority: "127.0.0.1:10002".to_owned(),
        secure,
        peer,
        ..Head::default()
    };
    let Ok(address) = Address::parse(&head, head.secure) else { return };
    let Ok(params) = Params::parse(head.query()) else { return };
    let now = START.saturating_add(seconds.saturating_mul(CommitTs::TICKS_PER_SECOND));
    let authority = Authority {
        accounts: &Accounts::development(),
        policies: &NoPolicies,
        bearer: None,
        version: "2019-02-02",
        trusted_proxies: &[],
        now: Some(CommitTs(now)),
        date_checked: true,
    };
    let found = authenticate(&head, &address, &params, &authority);
    let told = || format!("signed {signed:?}\npresented {presented:?}\nat {now} from {from:?}");
    let Ok(principal) = found else {
        // A plain one of the usual kind must pass: each field once, nothing escaped.
        let whole = presented == format!("{signed}&sig={escaped}") && !signed.contains(['%', '+']);
        let plain = is_plain(&owner) && signed.split('&').count() == owner.len();
        assert!(!(whole && plain && is_in_time(&owner, now)), "refused: {}", told());
        return;
    };
    let shown = fields(&presented);
    assert_eq!(shown.get("sig").map(String::as_str), Some(right.as_str()), "{}", told());
    let field = |name: &str| shown.get(name).map(String::as_str).unwrap_or_default();
    let of_owner = |name: &str| owner.get(name).map(String::as_str).unwrap_or_default();
    let (of_table, version) = (!field("tn").is_empty(), field("sv"));
    for name in SIGNED {
        let is_signed = match name {
            "sv" | "sp" | "st" | "se" => true,
            "sip" | "spr" => !of_table || version >= "2015-04-05",
            "ss" | "srt" => !of_table,
            "ses" => !of_table && version >= "2020-12-06",
            _ => of_table,
        };
        let wanted = if is_signed { of_owner(name) } else { "" };
        assert_eq!(field(name), wanted, "{name} was changed: {}", told());
    }
    assert!(field("tn").eq_ignore_ascii_case(of_owner("tn")), "tn was changed: {}", told());
    assert!(is_in_time(&shown, now), "at another time: {}", told());
    assert!(is_from(field("sip"), peer), "from elsewhere: {}", told());
    assert!(secure || field("spr") != "https", "not over TLS: {}", told());
    check(&principal, &shown, &told);
}

/// The decoded fields; of several of a name the first.
fn fields(query: &str) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        fields.entry(decoded(name)).or_insert_with(|| decoded(value));
    }
    fields
}

fn decoded(text: &str) -> String {
    let (mut rest, mut out) = (text.as_bytes(), Vec::new());
    while let Some((byte, behind)) = rest.split_first() {
        let pair = behind.get(..2).filter(|_| *byte == b'%').map(String::from_utf8_lossy);
        match pair.and_then(|pair| u8::from_str_radix(&pair, 16).ok()) {
            Some(hex) => {
                out.push(hex);
                rest = &behind[2..];
            }
            None => {
                out.push(if *byte == b'+' { b' ' } else { *byte });
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// As the documentation of service SAS and of account SAS have it.
fn string_to_sign(fields: &BTreeMap<String, String>) -> String {
    let field = |name: &str| fields.get(name).map(String::as_str).unwrap_or_default();
    let version = field("sv");
    if field("tn").is_empty() {
        let mut string = format!("{DEVELOPMENT_ACCOUNT}\n");
        for name in ["sp", "ss", "srt", "st", "se", "sip", "spr", "sv"] {
            string += &format!("{}\n", field(name));
        }
        if version >= "2020-12-06" {
            string += &format!("{}\n", field("ses"));
        }
        return string;
    }
    let service = if version >= "2015-02-21" { "/table" } else { "" };
    let table = field("tn").to_lowercase();
    let resource = format!("{service}/{DEVELOPMENT_ACCOUNT}/{table}");
    let mut lines = vec![field("sp"), field("st"), field("se"), resource.as_str(), field("si")];
    if version >= "2015-04-05" {
        lines.push(field("sip"));
        lines.push(field("spr"));
    }
    lines.extend([version, field("spk"), field("srk"), field("epk"), field("erk")]);
    lines.join("\n")
}

/// A signature that no reader could find fault with.
fn is_plain(fields: &BTreeMap<String, String>) -> bool {
    let usual = fields.iter().all(|(name, value)| match name.as_str() {
        "sv" => value == "2019-02-02",
        "sp" => ["r", "raud", "rl"].contains(&value.as_str()),
        "se" => moment::parse(value).is_some(),
        "tn" => value == "Tab",
        _ => false,
    });
    usual
        && ["sv", "sp", "se", "tn"].iter().all(|name| fields.contains_key(*name))
        && fields["sp"] != "rl"
}

fn is_in_time(fields: &BTreeMap<String, String>, now: u64) -> bool {
    let moment = |name: &str| fields.get(name).filter(|text| !text.is_empty());
    let read = |text: &String| moment::parse(text);
    let started = moment("st")
        .is_none_or(|text| read(text).is_some_and(|st| st <= DateTime::from(CommitTs(now))));
    let open = moment("se")
        .is_some_and(|text| read(text).is_some_and(|se| DateTime::from(CommitTs(now)) < se));
    started && open
}

/// One address, or a range with both its ends.
fn is_from(sources: &str, peer: Option<IpAddr>) -> bool {
    if sources.is_empty() {
        return true;
    }
    let (first, last) = sources.split_once('-').unwrap_or((sources, sources));
    let number = |text: &str| text.parse::<Ipv4Addr>().ok().map(u32::from);
    match (number(first), number(last), peer.map(|peer| peer.to_canonical())) {
        (Some(first), Some(last), Some(IpAddr::V4(peer))) => {
            (first..=last).contains(&u32::from(peer))
        }
        // Ranges of the other kind of address are compared as texts of one kind.
        (None, None, Some(IpAddr::V6(peer))) => {
            let number = |text: &str| text.parse::<std::net::Ipv6Addr>().ok().map(u128::from);
            let range = number(first).zip(number(last));
            range.is_some_and(|(first, last)| (first..=last).contains(&u128::from(peer)))
        }
        _ => false,
    }
}

/// Each operation needs its letters, and of an account its kind of resource; a table's signature
/// serves its table alone.
fn check(principal: &Principal, shown: &BTreeMap<String, String>, told: &dyn Fn() -> String) {
    let field = |name: &str| shown.get(name).map(String::as_str).unwrap_or_default();
    let of_table = !field("tn").is_empty();
    for access in Access::ALL {
        for table in ["Tab", "Other"] {
            if principal.authorize(access, Some(table)).is_err() {
                continue;
            }
            let has = |letters: &str| letters.chars().all(|letter| field("sp").contains(letter));
            let entities = match access {
                Access::Read => Some("r"),
                Access::Insert => Some("a"),
                Access::Upsert => Some("au"),
                Access::Update => Some("u"),
                Access::Delete => Some("d"),
                _ => None,
            };
            let said = || format!("{access:?} of {table}: {}", told());
            match (of_table, entities) {
                (true, None) => panic!("a table's signature has no such letter: {}", said()),
                (true, Some(letters)) => {
                    assert!(has(letters) && field("tn").eq_ignore_ascii_case(table), "{}", said());
                }
                (false, Some(letters)) => {
                    assert!(has(letters) && field("srt").contains('o'), "{}", said());
                    assert!(field("ss").contains('t'), "{}", said());
                }
                (false, None) => {
                    let is_acl = matches!(access, Access::GetAcl | Access::SetAcl);
                    assert!(!is_acl && field("ss").contains('t'), "{}", said());
                    assert!(field("srt").contains(['s', 'c']), "{}", said());
                }
            }
        }
    }
}
