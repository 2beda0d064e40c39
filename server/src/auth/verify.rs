//! From a request to a proof of who asks, and from that proof to a grant for one operation.
//!
//! Everything that touches storage takes a [`Grant`], and this file is the only one that can make
//! one: no handler can forget to ask. What the requests of a batch do is granted by the same
//! function as what requests of their own do.

use crate::auth::access::Access;
use crate::auth::bearer::{Bearer, End};
use crate::auth::canonical::{resource, respellings, shared_key, shared_key_lite};
use crate::auth::key_range::KeyRange;
use crate::auth::origin::Origin;
use crate::auth::policy::{Policies, Stored};
use crate::auth::rights::Rights;
use crate::auth::sas::{self, Given, Sas};
use crate::auth::shared_key::{Credentials, Scheme};
use crate::config::{Accounts, Key};
use crate::error::{
    AUTHENTICATION_FAILED, AUTHORIZATION_FAILURE, BEARER_REFUSED, INVALID_AUTHENTICATION_INFO,
    NO_AUTHENTICATION_INFORMATION, SECONDARY_IS_READ_ONLY, WireError,
};
use crate::http::message::Head;
use crate::limits::{DATE_SKEW_MAX, RESPELLED_BESIDE_BYTES_MAX};
use crate::odata::address::Address;
use crate::odata::options::Params;
use crate::source::Network;
use jiff::fmt::rfc2822::DateTimeParser;
use tabulith::ids::CommitTs;
use tabulith::table::name::{AccountName, TableName};
use tabulith::table::value::DateTime;

/// What requests are judged by.
pub struct Authority<'a> {
    /// The accounts and their keys.
    pub accounts: &'a Accounts,
    /// The stored policies.
    pub policies: &'a dyn Policies,
    /// Who judges bearer tokens, if any are accepted.
    pub bearer: Option<&'a Bearer>,
    /// The service version of the request: older ones have another answer to bad tokens.
    pub version: &'a str,
    /// Proxies that are believed.
    pub trusted_proxies: &'a [Network],
    /// The time; none where no clock is to be believed, so that nothing counts that has an end or a
    /// date to be near.
    pub now: Option<CommitTs>,
    /// Whether a signed request's date must be near it.
    pub date_checked: bool,
}

/// Proof of who sent a request, and what they may do.
#[derive(Clone, Debug)]
pub struct Principal {
    account: AccountName,
    secondary: bool,
    shown: Shown,
    rights: Rights,
}

/// What has proven who they are.
#[derive(Clone, Debug)]
enum Shown {
    /// A signature by that key of the account's.
    Key(Key),
    /// A shared access signature by that key, until then by its own word or its stored policy's.
    Sas(Key, Option<DateTime>),
    /// A bearer token, until then.
    Token(End),
}

/// Permission for one operation on one table of one account.
#[derive(Clone, Debug)]
pub struct Grant {
    account: AccountName,
    table: Option<String>,
    access: Access,
    range: KeyRange,
    stored: Option<Stored>,
}

impl Grant {
    /// The account.
    pub fn account(&self) -> &AccountName {
        &self.account
    }

    /// The table as the request names it; none for an operation on all tables.
    pub fn table(&self) -> Option<&str> {
        self.table.as_deref()
    }

    /// Fails unless it is the permission for `access`.
    pub fn check(&self, access: Access) -> Result<(), WireError> {
        if self.access == access { Ok(()) } else { Err(AUTHORIZATION_FAILURE) }
    }

    /// Fails unless it covers an entity of these keys.
    pub fn check_keys(&self, partition_key: &str, row_key: &str) -> Result<(), WireError> {
        let covered = self.range.contains(partition_key, row_key);
        if covered { Ok(()) } else { Err(AUTHORIZATION_FAILURE) }
    }

    /// The keys that it covers.
    pub fn range(&self) -> &KeyRange {
        &self.range
    }

    /// The stored policy that it depends on, as it was when the request came.
    pub fn stored(&self) -> Option<&Stored> {
        self.stored.as_ref()
    }
}

/// Finds out who sent a request, and what they may do.
pub fn authenticate(
    head: &Head,
    address: &Address,
    params: &Params,
    authority: &Authority<'_>,
) -> Result<Principal, WireError> {
    let mut headers = head.headers.all("Authorization");
    let Some(header) = headers.next() else {
        // A header wins over a signature in the address.
        return if sas::is_in(params) {
            by_sas(head, address, params, authority)
        } else {
            Err(no_credentials(authority))
        };
    };
    if headers.next().is_some() {
        return Err(INVALID_AUTHENTICATION_INFO);
    }
    if let Some((scheme, token)) = header.split_at_checked("Bearer ".len())
        && scheme.eq_ignore_ascii_case("Bearer ")
    {
        return by_token(token.trim(), head, address, authority);
    }
    let credentials = Credentials::parse(header).ok_or(INVALID_AUTHENTICATION_INFO)?;
    let key = key_of(head, address, params, &credentials, authority);
    let account = AccountName::parse(&address.account).ok();
    match (account, key) {
        (Some(account), Some(key)) if credentials.account == address.account => Ok(Principal {
            account,
            secondary: address.secondary,
            shown: Shown::Key(key.clone()),
            rights: Rights::Owner,
        }),
        _ => Err(AUTHENTICATION_FAILED),
    }
}

/// The first version that answers a bad token with a challenge.
const CHALLENGED: &str = "2019-12-12";

impl Authority<'_> {
    /// A refusal with a challenge, where the version knows of such; else the one for all.
    fn challenged(&self, refusal: WireError) -> WireError {
        if self.version >= CHALLENGED { refusal } else { AUTHENTICATION_FAILED }
    }
}

/// Where tokens are accepted, who shows nothing learns that one might be shown.
fn no_credentials(authority: &Authority<'_>) -> WireError {
    match authority.bearer {
        Some(_) => authority.challenged(NO_AUTHENTICATION_INFORMATION),
        None => AUTHENTICATION_FAILED,
    }
}

/// Whom a bearer token makes of who presents it.
fn by_token(
    token: &str,
    head: &Head,
    address: &Address,
    authority: &Authority<'_>,
) -> Result<Principal, WireError> {
    let refused = || authority.challenged(BEARER_REFUSED);
    let bearer = authority.bearer.ok_or_else(refused)?;
    if !Origin::of(head, authority.trusted_proxies).secure && !bearer.config().without_tls {
        return Err(refused());
    }
    let served = authority.accounts.keys(&address.account).is_served();
    let account = AccountName::parse(&address.account).ok().filter(|_| served);
    let actions = authority.now.and_then(|now| bearer.actions(token, &address.account, now));
    match (account, actions) {
        (Some(account), Some((actions, end))) => Ok(Principal {
            account,
            secondary: address.secondary,
            shown: Shown::Token(end),
            rights: Rights::Roles(actions),
        }),
        _ => Err(refused()),
    }
}

/// The key that has signed a request as its header says.
fn key_of<'a>(
    head: &Head,
    address: &Address,
    params: &Params,
    credentials: &Credentials,
    authority: &Authority<'a>,
) -> Option<&'a Key> {
    let keys = authority.accounts.keys(&address.account);
    let key = |paths: &[String]| {
        // A date counts only where it is the one that was signed: another one proves nothing.
        dates(head).fold(None, |found, date| {
            let strings = strings_to_sign(head, address, params, credentials.scheme, date, paths);
            let is_in_time = || authority.now.is_some_and(|now| is_near(date, now));
            let in_time = !authority.date_checked || is_in_time();
            found.or(credentials.signer(keys, &strings).filter(|_| in_time))
        })
    };
    // Nearly every client signs what it sends; only the others pay for the other spellings.
    key(&[head.path().to_owned()]).or_else(|| key(&other_paths(head, address, params)))
}

/// Other spellings of the path that may have been signed. What stands beside each is signed as
/// often, whoever asks: where that is longer than clients have it, there are none.
fn other_paths(head: &Head, address: &Address, params: &Params) -> Vec<String> {
    let headers = ["Content-MD5", "Content-Type", "x-ms-date", "Date"];
    let headers = headers.into_iter().filter_map(|name| head.headers.get(name));
    let beside: usize = headers.chain(params.get("comp")).map(str::len).sum();
    if beside > RESPELLED_BESIDE_BYTES_MAX {
        return Vec::new();
    }
    respellings(&address.account, head.path())
}

/// Whom a shared access signature makes of who presents it.
fn by_sas(
    head: &Head,
    address: &Address,
    params: &Params,
    authority: &Authority<'_>,
) -> Result<Principal, WireError> {
    let sas = Sas::read(params)?;
    let keys = authority.accounts.keys(&address.account);
    let key = sas.signer(&address.account, keys).ok_or(AUTHENTICATION_FAILED)?.clone();
    let account = AccountName::parse(&address.account).map_err(|_| AUTHENTICATION_FAILED)?;
    let (rights, expiry) = rights(sas.given()?, &account, authority)?;
    let origin = Origin::of(head, authority.trusted_proxies);
    sas.check_origin(origin.peer, origin.secure)?;
    let shown = Shown::Sas(key, expiry);
    Ok(Principal { account, secondary: address.secondary, shown, rights })
}

/// The rights that a signature gives now, together with its stored policy, and their end.
fn rights(
    given: Given,
    account: &AccountName,
    authority: &Authority<'_>,
) -> Result<(Rights, Option<DateTime>), WireError> {
    let now = DateTime::from(authority.now.ok_or(AUTHENTICATION_FAILED)?);
    match given {
        Given::Account { resources, permissions, terms } => {
            let holds = terms.hold_at(now);
            let rights = Rights::Account { resources, permissions };
            if holds { Ok((rights, terms.expiry)) } else { Err(AUTHENTICATION_FAILED) }
        }
        Given::Table { table, range, policy, terms } => {
            let stored = stored(account, &table, policy.as_deref(), authority)?;
            let of_policy = stored.as_ref().and_then(|stored| stored.policy.terms);
            let terms =
                terms.with(of_policy.unwrap_or_default()).filter(|terms| terms.hold_at(now));
            let terms = terms.ok_or(AUTHENTICATION_FAILED)?;
            let permissions = terms.permissions.ok_or(AUTHENTICATION_FAILED)?;
            Ok((Rights::Table { table, permissions, range, stored }, terms.expiry))
        }
    }
}

fn stored(
    account: &AccountName,
    table: &TableName,
    policy: Option<&str>,
    authority: &Authority<'_>,
) -> Result<Option<Stored>, WireError> {
    let Some(id) = policy else { return Ok(None) };
    let stored = authority.policies.policy(account, table, id)?;
    stored.map(Some).ok_or(AUTHENTICATION_FAILED)
}

/// The dates that may have been signed.
fn dates(head: &Head) -> impl Iterator<Item = &str> {
    let dates = [head.headers.get("x-ms-date"), head.headers.get("Date")];
    dates.into_iter().flatten().filter(|date| !date.is_empty())
}

fn is_near(date: &str, now: CommitTs) -> bool {
    let Ok(date) = DateTimeParser::new().parse_timestamp(date) else { return false };
    now.seconds().abs_diff(date.as_second()) <= DATE_SKEW_MAX.as_secs()
}

fn strings_to_sign(
    head: &Head,
    address: &Address,
    params: &Params,
    scheme: Scheme,
    date: &str,
    paths: &[String],
) -> Vec<String> {
    let header = |name| head.headers.get(name).unwrap_or_default();
    let string = |path: &String| {
        let resource = resource(&address.account, path, params.get("comp"));
        match scheme {
            Scheme::Lite => shared_key_lite(date, &resource),
            Scheme::Full => shared_key(
                &head.method,
                header("Content-MD5"),
                header("Content-Type"),
                date,
                &resource,
            ),
        }
    };
    paths.iter().map(string).collect()
}

impl Principal {
    /// The account that asks.
    pub fn account(&self) -> &AccountName {
        &self.account
    }

    /// Permission for `access` to `table`, or why not. On the second endpoint nothing is written,
    /// whoever asks.
    pub fn authorize(&self, access: Access, table: Option<&str>) -> Result<Grant, WireError> {
        if self.secondary && !access.is_read() {
            return Err(SECONDARY_IS_READ_ONLY);
        }
        self.rights.check(access, table)?;
        let (range, stored) = match &self.rights {
            Rights::Table { range, stored, .. } => (range.clone(), stored.clone()),
            _ => (KeyRange::default(), None),
        };
        let table = table.map(str::to_owned);
        Ok(Grant { account: self.account.clone(), table, access, range, stored })
    }

    /// Whether there is any entity that they may change.
    pub fn may_change_entities(&self) -> bool {
        !self.secondary && self.rights.cover_changes()
    }

    #[cfg(any(bug = "B38", bug = "any"))]
    pub(crate) fn whoever_sends_a_batch(self: std::sync::Arc<Self>) -> std::sync::Arc<Principal> {
        match tabulith::planted!("B38") {
            true => Principal { rights: Rights::Owner, ..Principal::clone(&self) }.into(),
            false => self,
        }
    }

    /// Whether what made them who they are still counts: the key is one of the account's, and the
    /// signature by it has not expired; or the account is served and the token has not expired.
    pub fn is_current(&self, accounts: &Accounts, now: Option<CommitTs>) -> bool {
        let keys = accounts.keys(self.account.as_str());
        match &self.shown {
            Shown::Key(key) => keys.own().contains(key),
            Shown::Sas(key, expiry) => {
                let time = now.map(DateTime::from).zip(*expiry);
                time.is_some_and(|(now, expiry)| now < expiry) && keys.own().contains(key)
            }
            Shown::Token(end) => keys.is_served() && now.is_some_and(|now| end.is_after(now)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::policy::NoPolicies;
    use crate::auth::shared_key::signature_text;
    use crate::config::DEVELOPMENT_ACCOUNT;

    /// Mon, 27 Jun 2016 15:25:14 GMT
    const NOW: CommitTs = CommitTs(1_467_041_114 * CommitTs::TICKS_PER_SECOND);
    const DATE: &str = "Mon, 27 Jun 2016 15:25:14 GMT";

    fn head(authority: &str, target: &str, headers: &[(&str, &str)]) -> Head {
        let mut head = Head {
            method: "GET".to_owned(),
            target: target.to_owned(),
            authority: authority.to_owned(),
            ..Head::default()
        };
        for (name, value) in headers {
            head.headers.push(*name, *value);
        }
        head
    }

    fn ask(head: &Head, now: Option<CommitTs>) -> Result<Principal, WireError> {
        let address = Address::parse(head, head.secure)?;
        let params = Params::parse(head.query())?;
        let authority = Authority {
            accounts: &Accounts::development(),
            policies: &NoPolicies,
            bearer: None,
            version: "2019-02-02",
            trusted_proxies: &[],
            now: Some(now.unwrap_or(NOW)),
            date_checked: now.is_some(),
        };
        authenticate(head, &address, &params, &authority)
    }

    fn sign(string: &str) -> String {
        let accounts = Accounts::development();
        let signature = signature_text(&accounts.keys(DEVELOPMENT_ACCOUNT).own()[0], string);
        format!("SharedKeyLite {DEVELOPMENT_ACCOUNT}:{signature}")
    }

    #[track_caller]
    fn check(authority: &str, target: &str, signed: &str, good: bool) {
        let authorization = sign(&format!("{DATE}\n{signed}"));
        let headers = [("x-ms-date", DATE), ("authorization", authorization.as_str())];
        let principal = ask(&head(authority, target, &headers), Some(NOW));
        assert_eq!(principal.is_ok(), good, "{target} signed as {signed}");
        assert!(good || principal.err() == Some(AUTHENTICATION_FAILED));
    }

    const A: &str = DEVELOPMENT_ACCOUNT;

    #[test]
    fn paths_as_they_are_signed() {
        let local = "127.0.0.1:10002";
        check(local, &format!("/{A}/Tables"), &format!("/{A}/{A}/Tables"), true);
        check(
            local,
            &format!("/{A}/Tables?$top=1&comp=acl"),
            &format!("/{A}/{A}/Tables?comp=acl"),
            true,
        );
        check(local, &format!("/{A}/Tables?comp=acl"), &format!("/{A}/{A}/Tables"), false);
        check(local, &format!("/{A}/Tables"), &format!("/{A}/Tables"), false);
        check(&format!("{A}.table.core.windows.net"), "/Tables", &format!("/{A}/Tables"), true);
        let entity = "T(PartitionKey='a%20b',RowKey='it%27%27s')";
        let raw = entity.replace('\'', "%27");
        check(local, &format!("/{A}/{entity}"), &format!("/{A}/{A}/{entity}"), true);
        check(local, &format!("/{A}/{entity}"), &format!("/{A}/{A}/{raw}"), true);
        check(
            local,
            &format!("/{A}/{raw}"),
            &format!("/{A}/{A}/T(PartitionKey='a%20b',RowKey='it''s')"),
            true,
        );
        check(
            local,
            &format!("/{A}/{entity}"),
            &format!("/{A}/{A}/T(PartitionKey='b',RowKey='')"),
            false,
        );
    }

    /// Whoever it is has each spelling signed.
    #[test]
    fn a_path_longer_than_any_address_counts_as_it_came() {
        let path =
            |quotes: usize| format!("/{A}/T(PartitionKey='{}',RowKey='')", "'".repeat(quotes));
        for (quotes, is_address) in [(2 * 1024, true), (20_000, false)] {
            let (sent, signed) = (path(quotes), format!("/{A}{}", path(quotes)));
            check("localhost", &sent, &signed, true);
            check("localhost", &sent, &signed.replace('\'', "%27"), is_address);
        }
    }

    /// And with each what else is signed.
    #[test]
    fn what_is_long_beside_its_path_counts_as_it_came() {
        let path = format!("/{A}/T(PartitionKey='p',RowKey='r')");
        let other = path.replace('\'', "%27");
        let most = RESPELLED_BESIDE_BYTES_MAX - DATE.len();
        for (bytes, is_short) in [(24, true), (most, true), (most + 1, false), (60_000, false)] {
            let md5 = "x".repeat(bytes);
            for (signed, good) in [(&path, true), (&other, is_short)] {
                let string = shared_key("GET", &md5, "", DATE, &format!("/{A}{signed}"));
                let authorization = sign(&string).replacen("Lite", "", 1);
                let headers = [
                    ("x-ms-date", DATE),
                    ("Content-MD5", md5.as_str()),
                    ("Authorization", authorization.as_str()),
                ];
                let principal = ask(&head("localhost", &path, &headers), Some(NOW));
                assert_eq!(principal.is_ok(), good, "{bytes} bytes beside {signed}");
            }
        }
    }

    #[test]
    fn the_second_endpoint() {
        let path = format!("/{A}-secondary/Tables");
        check("localhost", &path, &format!("/{A}{path}"), true);
        check("localhost", &path, &format!("/{A}/{A}/Tables"), true);
        let authorization = sign(&format!("{DATE}\n/{A}{path}"));
        let headers = [("x-ms-date", DATE), ("Authorization", authorization.as_str())];
        let principal = ask(&head("localhost", &path, &headers), Some(NOW)).expect("signed");
        assert!(principal.authorize(Access::Read, Some("T")).is_ok());
        for access in [
            Access::Insert,
            Access::Upsert,
            Access::Delete,
            Access::CreateTable,
            Access::DeleteTable,
        ] {
            assert_eq!(principal.authorize(access, None).err(), Some(SECONDARY_IS_READ_ONLY));
        }
    }

    #[test]
    fn dates() {
        let path = format!("/{A}/Tables");
        let at = |signed: &str, headers: &[(&str, &str)], now: u64| {
            let authorization = sign(&format!("{signed}\n/{A}{path}"));
            let mut head = head("localhost", &path, headers);
            head.headers.push("Authorization", authorization);
            ask(&head, Some(CommitTs(now * CommitTs::TICKS_PER_SECOND))).is_ok()
        };
        let now = NOW.0 / CommitTs::TICKS_PER_SECOND;
        assert!(at(DATE, &[("Date", DATE)], now + 15 * 60));
        assert!(at(DATE, &[("Date", DATE)], now - 15 * 60));
        assert!(!at(DATE, &[("Date", DATE)], now + 15 * 60 + 1));
        assert!(!at(DATE, &[("Date", DATE)], now - 15 * 60 - 1));
        // With both, either may be signed, but the one that is must be near.
        let old = "Mon, 27 Jun 2015 15:25:14 GMT";
        assert!(at(DATE, &[("Date", old), ("x-ms-date", DATE)], now));
        assert!(at(DATE, &[("Date", DATE), ("x-ms-date", old)], now));
        assert!(!at(old, &[("Date", old), ("x-ms-date", DATE)], now));
        assert!(!at(old, &[("Date", DATE), ("x-ms-date", old)], now));
        assert!(!at("", &[], now));
        assert!(!at("soon", &[("Date", "soon")], now));
        let unchecked = head(
            "localhost",
            &path,
            &[("Date", "soon"), ("Authorization", &sign(&format!("soon\n/{A}{path}")))],
        );
        assert!(ask(&unchecked, None).is_ok());
    }

    #[test]
    fn one_answer_for_all_who_fail() {
        let path = format!("/{A}/Tables");
        let good = sign(&format!("{DATE}\n/{A}{path}"));
        let ask = |path: &str, authorization: &str| {
            ask(
                &head("localhost", path, &[("Date", DATE), ("Authorization", authorization)]),
                Some(NOW),
            )
            .err()
        };
        assert_eq!(ask(&path, &good), None);
        let failed = Some(AUTHENTICATION_FAILED);
        assert_eq!(ask("/nobody/Tables", &good), failed);
        assert_eq!(ask("/nobody/Tables", &good.replace(A, "nobody")), failed);
        assert_eq!(ask(&path, &good.replace(A, "nobody")), failed);
        assert_eq!(ask(&path, &good.replace("Lite", "")), failed);
        assert_eq!(ask(&path, "Bearer x.y.z"), failed);
        assert_eq!(ask(&path, "SharedKey x"), Some(INVALID_AUTHENTICATION_INFO));
        let none = head("localhost", &format!("{path}?sig=x&sv=2019-02-02"), &[("Date", DATE)]);
        assert_eq!(super::tests::ask(&none, Some(NOW)).err(), failed);
        let two = head(
            "localhost",
            &path,
            &[("Date", DATE), ("Authorization", &good), ("Authorization", &good)],
        );
        assert_eq!(super::tests::ask(&two, Some(NOW)).err(), Some(INVALID_AUTHENTICATION_INFO));
    }
}
