//! What a server is told at its start: where it listens, whom it knows, what it allows.
//!
//! Promise: no key is ever printed. [`Key`] shows nothing in `Debug` and has no `Display`.

use crate::faults::rule::Rules;
use crate::limits::{BODY_BYTES_MAX, PAGE_BYTES_MAX, PAGE_PART};
use crate::source::Network;
use crate::texts::TextSource;
use crate::tokens::BearerConfig;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _};
use sha2::Sha256;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;
use subtle::{Choice, ConstantTimeEq as _};
use tabulith::table::name::AccountName;
use tabulith::table::rules::GROUP_STORED_BYTES_MAX;
use zeroize::{Zeroize as _, Zeroizing};

/// The account that every Azure SDK knows under `UseDevelopmentStorage=true`.
pub const DEVELOPMENT_ACCOUNT: &str = "devstoreaccount1";

/// Its key, published by Microsoft and therefore no secret.
pub const DEVELOPMENT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// The port that the SDKs expect of a local Table service.
pub const DEFAULT_PORT: u16 = 10_002;

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen; port 0 takes a free one. Default 127.0.0.1:10002.
    pub listen: SocketAddr,

    /// Where to listen for TLS too, and as whom. Default: nowhere.
    pub tls: Option<Tls>,

    /// Where to listen for the questions of operators: whether it lives, whether it is ready, its
    /// metrics. They are answered there to whoever asks, and nowhere else. Default: where requests
    /// come in, to this machine alone.
    pub admin: Option<SocketAddr>,

    /// Whether [`Config::listen`] speaks TLS too, as whom [`Config::tls`] says, and nothing does
    /// plain HTTP. Default false.
    pub tls_only: bool,

    /// Whether partitions are counted for the metrics, and told by name. Default: without names.
    pub hot_partitions: HotPartitions,

    /// Requests that take at least this long are told to the log. Default: none is.
    pub slow_time: Option<Duration>,

    /// The accounts served. Default: the development account alone.
    pub accounts: Accounts,

    /// Whether a listener that others can reach may serve the published development key.
    ///
    /// Default false: such a start is refused.
    pub development_key_for_all: bool,

    /// Proxies that are believed when they say in `X-Forwarded-For` whom they ask for, and in
    /// `X-Forwarded-Proto` whether that one came over TLS. Default: none.
    pub trusted_proxies: Vec<Network>,

    /// Accounts in the form of `AZURITE_ACCOUNTS`, read anew every minute. What it says replaces
    /// [`Config::accounts`]. Default: none.
    pub accounts_source: Option<TextSource>,

    /// Bearer tokens. Default: none are accepted.
    pub bearer: Option<BearerConfig>,

    /// Limits of rate. Default: none.
    pub throttling: Throttling,

    /// What goes wrong on purpose, for authors of clients; even without a rule, requests may then
    /// name their own faults. Default: nothing goes wrong, whatever requests say.
    pub faults: Option<Rules>,

    /// Whether requests may read as of a moment of the past, by their header `x-tabulith-as-of`.
    /// For a database with a history window. Default false.
    pub history: bool,

    /// Whether a request's date must lie within 15 minutes of the clock. Default true.
    pub date_checked: bool,

    /// Whether the clock is believed however far it stands behind the newest commit: for a store
    /// that a clock which was ahead has written to. What expired in between counts again. Default
    /// false.
    pub clock_believed: bool,

    /// Connections served at once; more wait to be accepted. Default 10,000.
    pub connections_max: usize,

    /// Connections served at once to one address, or to one IPv6 network of 64 bits; more are
    /// closed. Default: as many as to all.
    pub connections_per_address_max: Option<usize>,

    /// Bytes of request bodies held at once; beyond that requests get 503. A quarter of it is for
    /// bodies of up to 64 KiB alone. Default 256 MiB.
    pub body_bytes_max: usize,

    /// Bytes of answers held at once, until their clients have taken them; beyond that reads get
    /// 503, and so do inserts whose answers may be longer than their bodies' places. Answers of up
    /// to 64 KiB are not counted. Default 256 MiB.
    pub answer_bytes_max: usize,

    /// How long a client may take to send a request's head, from its first byte on. Also how long a
    /// new connection may say nothing. Default 20 s.
    pub head_time_max: Duration,

    /// How long a connection may be idle between two requests, the next one's head included: a
    /// shorter time makes pooled clients run into resets. Default 120 s.
    pub idle_time_max: Duration,

    /// How long a client may take to send a body; then its connection ends. A request that was let
    /// in cannot use all of that: its own time, 30 s or what its `timeout` says, counts from its
    /// head, and it is told that it is over when its body comes later. Default 60 s.
    pub body_time_max: Duration,

    /// How long a client may take nothing of an answer. An answer that could not leave at once must
    /// be taken within this time and a second for each 64 KiB. Default 60 s.
    pub answer_time_max: Duration,

    /// How long a stop waits for requests in flight. Default 5 s.
    pub stop_time_max: Duration,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), DEFAULT_PORT),
            tls: None,
            tls_only: false,
            admin: None,
            hot_partitions: HotPartitions::default(),
            slow_time: None,
            accounts: Accounts::development(),
            development_key_for_all: false,
            trusted_proxies: Vec::new(),
            accounts_source: None,
            bearer: None,
            throttling: Throttling::default(),
            faults: None,
            history: false,
            date_checked: true,
            clock_believed: false,
            connections_max: 10_000,
            connections_per_address_max: None,
            body_bytes_max: 256 << 20,
            answer_bytes_max: 256 << 20,
            head_time_max: Duration::from_secs(20),
            idle_time_max: Duration::from_secs(120),
            body_time_max: Duration::from_secs(60),
            answer_time_max: Duration::from_secs(60),
            stop_time_max: Duration::from_secs(5),
        }
    }
}

impl Config {
    /// Bytes of a page after which it ends, so that there is room for the answers of several.
    pub fn page_bytes_max(&self) -> usize {
        (self.answer_bytes_max / PAGE_PART).min(PAGE_BYTES_MAX)
    }

    /// Bytes of the entities that a change set leaves behind: merges of a few bytes write them
    /// whole, and so need memory that their body does not show. Half of what bodies may take; all
    /// that is allowed to be stored by one where that is the default.
    pub fn group_bytes_max(&self) -> usize {
        (self.body_bytes_max / 2).clamp(2 * BODY_BYTES_MAX, GROUP_STORED_BYTES_MAX)
    }

    /// Refuses the published key where others than this machine can reach it. Accounts that are
    /// read from elsewhere are judged when they have been.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.accounts_source.is_some() { Ok(()) } else { self.check_accounts(&self.accounts) }
    }

    /// The same for accounts that are to replace those of the start.
    pub fn check_accounts(&self, accounts: &Accounts) -> Result<(), ConfigError> {
        let mut listens = std::iter::once(self.listen).chain(self.tls.iter().map(|tls| tls.listen));
        let open = listens.find(|listen| !listen.ip().is_loopback());
        let open = open.filter(|_| !self.development_key_for_all);
        match open.filter(|_| accounts.has_development_key()) {
            Some(open) => Err(ConfigError(format!(
                "the published development key would be served on {open}; give your own accounts \
                 in AZURITE_ACCOUNTS, listen on 127.0.0.1, or allow it explicitly"
            ))),
            None => Ok(()),
        }
    }
}

/// Whether partitions are counted, and told by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HotPartitions {
    /// They are not counted.
    Off,
    /// How often the most frequent ones are asked for, not which they are.
    #[default]
    Ranks,
    /// Their names, too.
    Names,
}

/// Limits of rate, each off where it is none. Beyond them requests get 503.
#[derive(Clone, Copy, Debug, Default)]
pub struct Throttling {
    /// Entities per second of a partition.
    pub partition_entities: Option<NonZeroU32>,

    /// Requests per second of an account.
    pub account_requests: Option<NonZeroU32>,
}

impl Throttling {
    /// Azure's targets.
    pub const AZURE: Throttling = Throttling {
        partition_entities: NonZeroU32::new(2_000),
        account_requests: NonZeroU32::new(20_000),
    };
}

/// How to serve over TLS.
#[derive(Clone, Debug)]
pub struct Tls {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,

    /// As whom.
    pub identity: Identity,

    /// How long a client may take to shake hands. 10 s is plenty.
    pub handshake_time_max: Duration,
}

/// Whom a server says it is.
#[derive(Clone, Debug)]
pub enum Identity {
    /// What is given, at the start and anew whenever that is asked for.
    Given(Arc<dyn PemSource>),
    /// A certificate for this machine's own names, made at the start and signed by itself. For
    /// development: nobody trusts it who was not told to.
    SelfSigned,
}

/// Where certificates come from.
pub trait PemSource: fmt::Debug + Send + Sync {
    /// Reads them as they are now. An error says where it happened.
    fn read(&self) -> io::Result<Pem>;
}

/// A certificate and its key, as text.
pub struct Pem {
    /// The certificate, then those that lead to a root.
    pub certificates: Vec<u8>,
    /// The certificate's private key.
    pub key: Vec<u8>,
}

/// The private key is wiped when it has been read.
impl Drop for Pem {
    fn drop(&mut self) {
        self.key.zeroize();
    }
}

/// A setting that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(String);

impl ConfigError {
    /// One that says `what`.
    pub(crate) fn new(what: &str) -> ConfigError {
        ConfigError(what.to_owned())
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

/// Accounts by name, each with one or two keys, either of which may sign. There is at least one.
#[derive(Clone, Debug)]
pub struct Accounts {
    /// In order.
    names: Vec<String>,
    /// The same names as numbers.
    codes: Vec<NameCode>,
    /// Whose keys, in the same order.
    pairs: Vec<KeyPair>,
}

/// An account's name as two numbers that compare as it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NameCode(u128, u64);

impl NameCode {
    /// None for a name that no account can have.
    fn of(name: &str) -> Option<NameCode> {
        AccountName::check(name).ok()?;
        let mut bytes = [0; 24];
        bytes.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
        let (first, last) = bytes.split_at(16);
        Some(NameCode(
            u128::from_be_bytes(first.try_into().ok()?),
            u64::from_be_bytes(last.try_into().ok()?),
        ))
    }

    /// In the same time wherever the names differ.
    fn is_below(self, other: NameCode) -> bool {
        (self.0 < other.0) | ((self.0 == other.0) & (self.1 < other.1))
    }

    fn is(self, other: NameCode) -> bool {
        (self.0 == other.0) & (self.1 == other.1)
    }
}

/// Both places for keys of an account; one that has only one key has it in both.
#[derive(Clone, Debug)]
struct KeyPair {
    places: [Key; 2],
    filled: usize,
}

/// The keys that a request is tried with. For an account that is not served they are those of the
/// next one by name and fit nothing: the same work at the same places of memory, so that its time
/// tells nothing.
#[derive(Clone, Copy, Debug)]
pub struct TriedKeys<'a> {
    pair: &'a KeyPair,
    is_served: bool,
}

impl<'a> TriedKeys<'a> {
    /// Whether the account is served.
    pub(crate) fn is_served(self) -> bool {
        self.is_served
    }

    /// The account's own keys.
    pub(crate) fn own(self) -> &'a [Key] {
        if self.is_served { &self.pair.places[..self.pair.filled] } else { &[] }
    }

    /// All places with what is in them, and whether that is a key of the account.
    pub(crate) fn places(self) -> [(&'a Key, Choice); 2] {
        let [first, second] = &self.pair.places;
        let is_second = u8::from(self.pair.filled == 2) & u8::from(self.is_served);
        [(first, u8::from(self.is_served).into()), (second, is_second.into())]
    }
}

impl Accounts {
    /// The development account with its published key.
    pub fn development() -> Accounts {
        let key = Key::development();
        let pair = KeyPair { places: [key.clone(), key], filled: 1 };
        Accounts::of(BTreeMap::from([(DEVELOPMENT_ACCOUNT.to_owned(), pair)]))
    }

    /// Reads `name:key1[:key2];name2:key1…`, the form of the `AZURITE_ACCOUNTS` variable.
    pub fn parse(text: &str) -> Result<Accounts, ConfigError> {
        let mut accounts = BTreeMap::new();
        let entries = text.split(';').map(str::trim).filter(|entry| !entry.is_empty());
        for (number, entry) in (1..).zip(entries) {
            let mut parts = entry.split(':');
            let name = parts.next().unwrap_or_default();
            if AccountName::check(name).is_err() {
                // It may be a key in the wrong place, and is not shown.
                return Err(ConfigError(format!(
                    "account {number} has no name before its keys: 3 to 24 lower-case letters and \
                     digits"
                )));
            }
            let keys: Vec<Key> =
                parts.map(|key| Key::parse(name, key)).collect::<Result<_, _>>()?;
            let places = match &keys[..] {
                [only] => [only.clone(), only.clone()],
                [first, second] => [first.clone(), second.clone()],
                _ => {
                    return Err(ConfigError(format!("account {name}: one or two keys are needed")));
                }
            };
            let pair = KeyPair { places, filled: keys.len() };
            if accounts.insert(name.to_owned(), pair).is_some() {
                return Err(ConfigError(format!("account {name} is given twice")));
            }
        }
        if accounts.is_empty() {
            return Err(ConfigError("no account is given".to_owned()));
        }
        Ok(Accounts::of(accounts))
    }

    /// These and one more, with its key in base64.
    pub(crate) fn with(&self, name: &str, key: &str) -> Result<Accounts, ConfigError> {
        let key = Key::parse(name, key)?;
        let mut all = self.pairs_by_name();
        all.insert(name.to_owned(), KeyPair { places: [key.clone(), key], filled: 1 });
        Ok(Accounts::of(all))
    }

    /// These but one; fails where there is none of that name, or no other.
    pub(crate) fn without(&self, name: &str) -> Result<Accounts, ConfigError> {
        let mut all = self.pairs_by_name();
        match all.remove(name) {
            Some(_) if !all.is_empty() => Ok(Accounts::of(all)),
            _ => Err(ConfigError(format!("account {name} is not there, or the only one"))),
        }
    }

    fn pairs_by_name(&self) -> BTreeMap<String, KeyPair> {
        self.names.iter().cloned().zip(self.pairs.iter().cloned()).collect()
    }

    fn of(accounts: BTreeMap<String, KeyPair>) -> Accounts {
        let codes = accounts.keys().filter_map(|name| NameCode::of(name)).collect();
        let (names, pairs) = accounts.into_iter().unzip();
        Accounts { names, codes, pairs }
    }

    /// The keys to try for an account.
    pub fn keys(&self, account: &str) -> TriedKeys<'_> {
        let code = NameCode::of(account).unwrap_or(NameCode(u128::MAX, u64::MAX));
        // A search without a branch that depends on what is there.
        let at = self.codes.partition_point(|other| other.is_below(code)).min(self.codes.len() - 1);
        TriedKeys { pair: &self.pairs[at], is_served: self.codes[at].is(code) }
    }

    /// The names in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    fn has_development_key(&self) -> bool {
        let published = Key::development();
        self.pairs.iter().any(|pair| pair.places.contains(&published))
    }
}

/// A signing key. What is kept of it is wiped when nobody has it any more.
#[derive(Clone)]
pub struct Key(Arc<Kept>);

struct Kept {
    bytes: Zeroizing<Vec<u8>>,
    /// The HMAC as it stands when it has read the key and nothing else: a third of the work of a
    /// request's signature, and all of it that depends on the key's length.
    mac: Hmac<Sha256>,
}

impl Key {
    /// The published key of the development account.
    pub fn development() -> Key {
        Key::of(STANDARD.decode(DEVELOPMENT_KEY).expect("the published key is base64"))
    }

    /// Reads base64. `account` is for the text of the error.
    pub fn parse(account: &str, text: &str) -> Result<Key, ConfigError> {
        let key = STANDARD.decode(text.trim()).ok().filter(|key| !key.is_empty());
        key.map(Key::of)
            .ok_or_else(|| ConfigError(format!("account {account}: a key is not base64")))
    }

    fn of(bytes: Vec<u8>) -> Key {
        let bytes = Zeroizing::new(bytes);
        let mac = Hmac::new_from_slice(&bytes).expect("HMAC takes keys of any length");
        Key(Arc::new(Kept { bytes, mac }))
    }

    /// An HMAC-SHA256 under this key, of nothing yet.
    pub(crate) fn mac(&self) -> Hmac<Sha256> {
        self.0.mac.clone()
    }
}

/// In the same time wherever two keys of one length differ.
impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.0.bytes.ct_eq(&other.0.bytes).into()
    }
}

impl Eq for Key {}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_as_azurite_takes_them() {
        let accounts = Accounts::parse(&format!("one:{DEVELOPMENT_KEY};two22:YQ==:Yg==;"))
            .expect("the form of AZURITE_ACCOUNTS");
        assert_eq!(accounts.names().collect::<Vec<_>>(), ["one", "two22"]);
        assert_eq!(accounts.keys("two22").own().len(), 2);
        assert_eq!(accounts.keys("one").own(), [Key::development()]);
        for name in ["three", "on", "one2", "two2", "two22\0", "\0", "", "\u{7f}", &"x".repeat(25)]
        {
            assert!(!accounts.keys(name).is_served() && accounts.keys(name).own().is_empty());
        }
    }

    #[test]
    fn accounts_that_cannot_be() {
        for text in [
            "",
            "ab:YQ==",
            "Abc:YQ==",
            "abc",
            "abc:%%",
            "abc:",
            "abc:YQ==:YQ==:YQ==",
            "abc:YQ==;abc:YQ==",
        ] {
            assert!(Accounts::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn keys_do_not_show() {
        let shown = format!("{:?}", Config::default());
        assert!(shown.contains("devstoreaccount1") && !shown.contains("Eby8"), "{shown}");
        for text in
            ["abc:SECRET", "SECRET", "SECRET:abc", "abc:YQ==;SECRET", "abc:YQ==:Yg==:SECRET"]
        {
            let error = Accounts::parse(text).expect_err(text);
            assert!(!error.to_string().contains("SECRET"), "{error}");
        }
    }

    #[test]
    fn the_published_key_stays_on_this_machine() {
        let open = ([0, 0, 0, 0], 0).into();
        let identity = Identity::SelfSigned;
        let tls = Tls { listen: open, identity, handshake_time_max: Duration::from_secs(1) };
        for mut config in [
            Config { listen: open, ..Config::default() },
            Config { tls: Some(tls), ..Config::default() },
        ] {
            assert!(config.check().is_err());
            config.development_key_for_all = true;
            assert!(config.check().is_ok());
        }
        assert!(Config::default().check().is_ok());
    }
}
