//! The client over TLS against our server, in this process: what is believed, and what is not.

#![allow(clippy::unwrap_used, reason = "tests")]

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::generate_simple_self_signed;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tabulith::db::Db;
use tabulith::options::{Durability, Options as DbOptions};
use tabulith::table::store::TableStore;
use tabulith_client::bearer::{PendingToken, Tokens};
use tabulith_client::connection::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use tabulith_client::world::{Machine, Pending, World};
use tabulith_client::{
    Account, Bearer, Connection, Credential, DateTime, Entity, Error, Filter, Key, Options,
    Permissions, Protocols, Query, Retry, TableSas, Transaction, Trust,
};
use tabulith_server::config::{Identity, Pem, PemSource, Tls};
use tabulith_server::faults::rule::Rules;
use tabulith_server::tokens::BearerConfig;
use tabulith_server::{Config, Running, Server};

/// Nobody waits that long in a test that passes.
const FOR_EVER: Duration = Duration::from_secs(600);

struct House {
    running: Running,
    _folder: tempfile::TempDir,
}

impl House {
    fn start(identity: Identity) -> House {
        House::with_faults(identity, None)
    }

    fn with_faults(identity: Identity, faults: Option<Rules>) -> House {
        let folder = tempfile::tempdir().unwrap();
        let options = DbOptions { durability: Durability::Buffered, ..DbOptions::default() };
        let db = Db::builder().options(options).open(folder.path().join("data")).unwrap();
        let listen = ([127, 0, 0, 1], 0).into();
        let tls = Some(Tls { listen, identity, handshake_time_max: FOR_EVER });
        let bearer = Some(BearerConfig::basic());
        let config = Config { listen, tls, bearer, faults, ..Config::default() };
        let running = Server::start(config, Arc::new(TableStore::new(Arc::new(db)))).unwrap();
        House { running, _folder: folder }
    }

    fn self_signed() -> House {
        House::start(Identity::SelfSigned)
    }

    fn trust(&self) -> Trust {
        Trust::nobody().with_pem(self.running.own_certificate().unwrap().as_bytes()).unwrap()
    }

    fn port(&self) -> u16 {
        self.running.tls_addr().unwrap().port()
    }
}

fn connection(authority: &str) -> Connection {
    let endpoint = format!("https://{authority}/{DEVELOPMENT_ACCOUNT}");
    let key = Key::of_base64(DEVELOPMENT_KEY).unwrap();
    Connection::new(DEVELOPMENT_ACCOUNT, &endpoint, Credential::from(key)).unwrap()
}

fn account(connection: Connection, trust: Trust) -> Account {
    Account::new(connection, Options { retry: Retry::NONE, trust, ..Options::default() })
}

/// Runs a test beside a server, which has threads of its own.
fn beside<H>(house: H, test: impl AsyncFnOnce(&H)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(test(&house));
}

#[test]
fn tables_are_used_over_tls() {
    beside(House::self_signed(), async |house| {
        for host in ["localhost", "127.0.0.1"] {
            let connection = connection(&format!("{host}:{}", house.port()));
            let account = account(connection, house.trust());
            assert!(account.create_table("rows").await.unwrap());
            let table = account.table("rows");
            table.insert(&Entity::new("p", "0").with("a", 1_i32)).await.unwrap();
            let mut transaction = Transaction::new();
            // Far more than a record of TLS holds.
            for row in 1..=20 {
                let text = "x".repeat(20_000);
                transaction.upsert(Entity::new("p", format!("{row:02}")).with("t", text));
            }
            assert_eq!(table.submit(&transaction).await.unwrap().len(), 20);
            let mut pages = table.query(Query::new().filter(Filter::partition("p")).page_size(7));
            assert_eq!(pages.all().await.unwrap().len(), 21);
            account.stats().await.unwrap();
            assert!(account.delete_table("rows").await.unwrap());
        }
    });
}

#[test]
fn a_signature_for_https_opens_nothing_over_http() {
    beside(House::self_signed(), async |house| {
        let secure = connection(&format!("localhost:{}", house.port()));
        let owner = account(secure.clone(), house.trust());
        owner.create_table("rows").await.unwrap();
        let end = "2040-01-01T00:00:00Z".parse::<DateTime>().unwrap();
        let sas = TableSas {
            permissions: Some(Permissions { read: true, ..Permissions::default() }),
            expiry: Some(end),
            protocols: Protocols::HttpsOnly,
            ..TableSas::new("rows")
        };
        let token = sas.sign(DEVELOPMENT_ACCOUNT, secure.key().unwrap()).unwrap();
        let reader = account(secure.with_signature(&token), house.trust()).table("rows");
        assert_eq!(reader.query(Query::new()).all().await.unwrap(), []);
        let mut plain = secure.with_signature(&token);
        plain.endpoint = format!("http://{}/{DEVELOPMENT_ACCOUNT}", house.running.addr());
        let refused = account(plain, Trust::nobody()).table("rows").query(Query::new()).all().await;
        assert_eq!(refused.unwrap_err().status(), Some(403));
    });
}

/// A source whose tokens count those that were asked for; at some time it has none.
struct Source(AtomicU64);

impl Tokens for Source {
    fn token(&self) -> PendingToken<'_> {
        let asked = self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            if asked == 3 {
                return Err("the issuer is away".into());
            }
            let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
            let claims = format!(
                "{{\"iss\":\"https://sts.windows.net/1/\",\"aud\":\"https://storage.azure.com\",\
                 \"nbf\":1,\"exp\":{},\"jti\":\"{asked}\"}}",
                u32::MAX
            );
            Ok(format!("{}.{}.x", part("{\"alg\":\"RS256\",\"typ\":\"JWT\"}"), part(&claims)))
        })
    }
}

#[test]
fn bearer_tokens_are_asked_for_and_sent_over_tls_only() {
    beside(House::self_signed(), async |house| {
        let mut owner = connection(&format!("localhost:{}", house.port()));
        owner.credential = Credential::Bearer(Bearer::new(Source(AtomicU64::new(0))));
        let holder = account(owner.clone(), house.trust());
        assert!(holder.create_table("rows").await.unwrap());
        let rows = holder.table("rows");
        let mut transaction = Transaction::new();
        transaction.insert(Entity::new("p", "1")).insert(Entity::new("p", "2"));
        assert_eq!(rows.submit(&transaction).await.unwrap().len(), 2);
        assert_eq!(rows.query(Query::new()).all().await.unwrap().len(), 2);
        let error = rows.get("p", "1").await.unwrap_err();
        assert_eq!(error.to_string(), "no bearer token: the issuer is away");
        let plain = format!("http://{}/{DEVELOPMENT_ACCOUNT}", house.running.addr());
        owner.endpoint = plain;
        let error = account(owner.clone(), house.trust()).table_exists("rows").await.unwrap_err();
        assert_eq!(error.to_string(), "a bearer token goes over HTTPS only");
        let stranger = Credential::Bearer(Bearer::fixed("a.b.c"));
        assert!(!format!("{stranger:?}").contains("a.b.c"));
        let stranger = Connection {
            credential: stranger,
            ..connection(&format!("localhost:{}", house.port()))
        };
        let error = account(stranger, house.trust()).table_exists("rows").await.unwrap_err();
        assert_eq!((error.status(), error.code()), (Some(401), Some("InvalidAuthenticationInfo")));
    });
}

/// A world in which no time passes while one waits, and something else happens.
struct Waits<F>(Machine, F);

impl<F: Fn() + Send + Sync> World for Waits<F> {
    fn wall(&self) -> Duration {
        self.0.wall()
    }

    fn steady(&self) -> Duration {
        self.0.steady()
    }

    fn chance(&self) -> f64 {
        0.5
    }

    fn sleep(&self, _: Duration) -> Pending<'_, ()> {
        (self.1)();
        Box::pin(async {})
    }
}

/// Why nothing was asked of a server, and how often it was tried again.
async fn distrusted(addr: SocketAddr, trust: Trust) -> (String, u32) {
    let count = Arc::new(Mutex::new(0));
    let counting = count.clone();
    let world = Waits(Machine::default(), move || *counting.lock().unwrap() += 1);
    let options = Options { trust, world: Arc::new(world), ..Options::default() };
    let made = Account::new(connection(&addr.to_string()), options).create_table("rows").await;
    let error = made.unwrap_err();
    assert!(!error.maybe_done());
    let Error::Untrusted { endpoint, cause, .. } = error else { panic!("it was believed") };
    assert_eq!(endpoint, format!("https://{addr}/{DEVELOPMENT_ACCOUNT}"));
    let waits = *count.lock().unwrap();
    (cause, waits)
}

#[test]
fn an_authority_that_nobody_named_is_not_believed() {
    beside(House::self_signed(), async |house| {
        let addr = house.running.tls_addr().unwrap();
        let (cause, waits) = distrusted(addr, Trust::nobody()).await;
        assert_eq!((cause.as_str(), waits), ("invalid peer certificate: UnknownIssuer", 0));
        let other = generate_simple_self_signed(["localhost".to_owned()]).unwrap().cert.pem();
        let other = Trust::nobody().with_pem(other.as_bytes()).unwrap();
        let (cause, waits) = distrusted(addr, other).await;
        assert_eq!((cause.as_str(), waits), ("invalid peer certificate: UnknownIssuer", 0));
    });
}

/// The same certificate at all times.
#[derive(Debug)]
struct Fixed {
    certificate: String,
    key: String,
}

impl PemSource for Fixed {
    fn read(&self) -> io::Result<Pem> {
        let Fixed { certificate, key } = self;
        Ok(Pem { certificates: certificate.clone().into(), key: key.clone().into() })
    }
}

#[test]
fn a_certificate_for_another_name_is_not_believed() {
    let pair = generate_simple_self_signed(["tables.example".to_owned()]).unwrap();
    let (certificate, key) = (pair.cert.pem(), pair.signing_key.serialize_pem());
    let trust = Trust::nobody().with_pem(certificate.as_bytes()).unwrap();
    let house = House::start(Identity::Given(Arc::new(Fixed { certificate, key })));
    beside(house, async |house| {
        let (cause, waits) = distrusted(house.running.tls_addr().unwrap(), trust).await;
        assert!(cause.contains("tables.example"), "{cause}");
        assert_eq!(waits, 0);
    });
}

/// Certificates that follow one another, each read once.
#[derive(Debug)]
struct Renewed(Mutex<VecDeque<Fixed>>);

impl PemSource for Renewed {
    fn read(&self) -> io::Result<Pem> {
        self.0.lock().unwrap().pop_front().unwrap().read()
    }
}

/// It was told that nothing had been sent.
#[test]
fn what_was_done_before_trust_was_lost_may_be_done() {
    let pairs = [(); 2].map(|()| generate_simple_self_signed(["localhost".to_owned()]).unwrap());
    let trust = Trust::nobody().with_pem(pairs[0].cert.pem().as_bytes()).unwrap();
    let fixed = pairs.map(|pair| {
        let (certificate, key) = (pair.cert.pem(), pair.signing_key.serialize_pem());
        Fixed { certificate, key }
    });
    let identity = Identity::Given(Arc::new(Renewed(Mutex::new(VecDeque::from(fixed)))));
    let lost = Rules::parse("lost operation=create-table limit=1").unwrap();
    beside(Arc::new(House::with_faults(identity, Some(lost))), async |house| {
        let renewed = house.clone();
        let world = Arc::new(Waits(Machine::default(), move || renewed.running.reload().unwrap()));
        let options = Options { trust, world, ..Options::default() };
        let secure = connection(&format!("localhost:{}", house.port()));
        let error = Account::new(secure.clone(), options).create_table("rows").await.unwrap_err();
        assert!(matches!(error, Error::Untrusted { maybe_done: true, .. }), "{error:?}");
        let endpoint = format!("http://{}/{DEVELOPMENT_ACCOUNT}", house.running.addr());
        let plain = account(Connection { endpoint, ..secure }, Trust::nobody());
        assert!(plain.table_exists("rows").await.unwrap());
    });
}

#[test]
fn a_port_that_speaks_no_tls_is_told_from_one_that_lies() {
    beside(House::self_signed(), async |house| {
        let plain = connection(&house.running.addr().to_string());
        let error = account(plain, house.trust()).create_table("rows").await.unwrap_err();
        let Error::Unreachable { endpoint, maybe_done, .. } = error else { panic!("{error}") };
        assert!(endpoint.starts_with("https://127.0.0.1:") && !maybe_done, "{endpoint}");
    });
}
