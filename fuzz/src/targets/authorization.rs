//! `Authorization`: no text passes that the key has not signed, and what it has signed passes.
//!
//! Input: lines; the first is the method and the target, each other a header `name: value`. A
//! value `=` of Authorization stands for the right signature.

use crate::input::text;
use tabulith::ids::CommitTs;
use tabulith_server::auth::canonical;
use tabulith_server::auth::policy::NoPolicies;
use tabulith_server::auth::shared_key::{Credentials, signature_text};
use tabulith_server::auth::verify::{Authority, authenticate};
use tabulith_server::config::{Accounts, DEVELOPMENT_ACCOUNT, Key};
use tabulith_server::http::message::Head;
use tabulith_server::odata::address::Address;
use tabulith_server::odata::options::Params;

/// Monday, 27 June 2016, 15:25:14, in ticks since 1970.
const NOW: CommitTs = CommitTs(1_467_041_114 * CommitTs::TICKS_PER_SECOND);

/// Asks who sent the request of the input.
pub fn authorization(data: &[u8]) {
    let given = text(data);
    let mut lines = given.lines();
    let (method, target) = lines.next().and_then(|line| line.split_once(' ')).unwrap_or_default();
    let mut head = Head {
        method: method.to_owned(),
        target: target.to_owned(),
        authority: "127.0.0.1:10002".to_owned(),
        ..Head::default()
    };
    let mut signed = false;
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let right = name.eq_ignore_ascii_case("Authorization") && value.trim() == "=";
        let value = if right { signature(&head) } else { value.trim().to_owned() };
        signed |= right;
        // A header that names no credentials must never panic either.
        let _ = Credentials::parse(&value);
        head.headers.push(name, value);
    }
    let Ok(address) = Address::parse(&head, head.secure) else { return };
    let Ok(params) = Params::parse(head.query()) else { return };
    for now in [None, Some(NOW)] {
        let authority = Authority {
            accounts: &Accounts::development(),
            policies: &NoPolicies,
            bearer: None,
            version: "2019-02-02",
            trusted_proxies: &[],
            now: Some(now.unwrap_or(NOW)),
            date_checked: now.is_some(),
        };
        let found = authenticate(&head, &address, &params, &authority);
        if let Ok(principal) = found {
            assert!(signed, "nobody has signed {head:?}\n{given}");
            assert_eq!(principal.account().as_str(), DEVELOPMENT_ACCOUNT);
        }
    }
}

/// What the owner of the key would sign of the headers so far, if it went to his account.
fn signature(head: &Head) -> String {
    let date = head.headers.get("x-ms-date").or(head.headers.get("Date")).unwrap_or_default();
    let params = Params::parse(head.query()).unwrap_or_default();
    let resource = canonical::resource(DEVELOPMENT_ACCOUNT, head.path(), params.get("comp"));
    let string = canonical::shared_key_lite(date, &resource);
    let signature = signature_text(&Key::development(), &string);
    format!("SharedKeyLite {DEVELOPMENT_ACCOUNT}:{signature}")
}
