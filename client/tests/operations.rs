//! Every operation of the client against our server, in this process, over real sockets.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use tabulith::db::Db;
use tabulith::options::{Durability, Options as DbOptions};
use tabulith::table::store::TableStore;
use tabulith_client::connection::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use tabulith_client::{
    Account, AccountSas, Condition, Connection, CorsRule, Credential, DateTime, ETag, Entity,
    Filter, Key, Logging, Metrics, Options, Permissions, Query, Retry, Scheme, ServiceProperties,
    StoredPolicy, Table, TableSas, Transaction, Value, property,
};
use tabulith_server::{Config, Running, Server};

struct House {
    _running: Running,
    _folder: tempfile::TempDir,
    connection: Connection,
}

impl House {
    fn start() -> House {
        let folder = tempfile::tempdir().unwrap();
        let options = DbOptions { durability: Durability::Buffered, ..DbOptions::default() };
        let db = Db::builder().options(options).open(folder.path().join("data")).unwrap();
        let config = Config { listen: ([127, 0, 0, 1], 0).into(), ..Config::default() };
        let running = Server::start(config, Arc::new(TableStore::new(Arc::new(db)))).unwrap();
        let endpoint = format!("http://{}/{DEVELOPMENT_ACCOUNT}", running.addr());
        let key = Key::of_base64(DEVELOPMENT_KEY).unwrap();
        let connection =
            Connection::new(DEVELOPMENT_ACCOUNT, &endpoint, Credential::from(key)).unwrap();
        House { _running: running, _folder: folder, connection }
    }

    fn account(&self) -> Account {
        account(self.connection.clone())
    }
}

fn account(connection: Connection) -> Account {
    Account::new(connection, Options { retry: Retry::NONE, ..Options::default() })
}

async fn table(house: &House) -> Table {
    assert!(house.account().create_table("rows").await.unwrap());
    house.account().table("rows")
}

fn all_types() -> Entity {
    Entity::new("p'q é", "r&=+%")
        .with("s", "a\"b\\c\u{1F600}'")
        .with("i", i32::MIN)
        .with("l", i64::MIN)
        .with("d", 1.0)
        .with("n", f64::NAN)
        .with("b", true)
        .with("t", "2013-01-01T10:00:00.1234567Z".parse::<DateTime>().unwrap())
        .with("g", [7_u8; 16])
        .with("x", vec![0, 1, 255])
}

/// Runs a test beside a server, which has threads of its own.
fn with_house(test: impl AsyncFnOnce(&House)) {
    let house = House::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(test(&house));
}

#[test]
fn tables_are_made_listed_found_and_deleted() {
    with_house(async |house| {
        let account = house.account();
        for name in ["alpha", "beta", "gamma"] {
            assert!(account.create_table(name).await.unwrap());
            assert!(!account.create_table(name).await.unwrap());
        }
        assert!(account.table_exists("beta").await.unwrap());
        assert!(!account.table_exists("delta").await.unwrap());
        let mut names = account.tables(None).page_size(2);
        assert_eq!(names.next_page().await.unwrap().unwrap().len(), 2);
        assert_eq!(names.all().await.unwrap(), ["gamma"]);
        let filter = property("TableName").ge("b").and(property("TableName").lt("c"));
        assert_eq!(account.tables(Some(filter)).all().await.unwrap(), ["beta"]);
        assert!(account.delete_table("beta").await.unwrap());
        assert!(!account.delete_table("beta").await.unwrap());
        let error = account.create_table("1x!").await.unwrap_err();
        assert_eq!((error.status(), error.code()), (Some(400), Some("InvalidResourceName")));
        assert!(error.refusal().unwrap().request_id.is_some());
    });
}

#[test]
fn entities_come_back_as_they_were_written() {
    with_house(async |house| {
        let table = table(house).await;
        let entity = all_types();
        let etag =
            table.insert(&Entity { properties: Vec::new(), ..entity.clone() }).await.unwrap();
        let etag = table.replace(&entity, etag).await.unwrap();
        let read = table.get(&entity.partition_key, &entity.row_key).await.unwrap().unwrap();
        assert_eq!(read.etag, Some(etag));
        assert!(read.timestamp.is_some());
        assert_eq!(read.properties.len(), entity.properties.len());
        for (name, value) in &entity.properties {
            assert!(read.get(name).unwrap().is_same(value), "{name}");
        }
        assert_eq!(table.get("p", "none").await.unwrap(), None);
        let error = house.account().table("none").get("p", "r").await.unwrap_err();
        assert_eq!(error.code(), Some("TableNotFound"));
    });
}

#[test]
fn writes_keep_their_conditions() {
    with_house(async |house| {
        let table = table(house).await;
        let one = Entity::new("p", "r").with("a", 1_i32).with("b", 1_i32);
        let old = table.insert(&one).await.unwrap();
        assert!(table.insert(&one).await.unwrap_err().is_conflict());
        let two = Entity::new("p", "r").with("b", 2_i32);
        table.merge(&two, old.clone()).await.unwrap();
        let read = table.get("p", "r").await.unwrap().unwrap();
        assert_eq!(
            (read.get("a"), read.get("b")),
            (Some(&Value::Int32(1)), Some(&Value::Int32(2)))
        );
        for error in [
            table.merge(&two, old.clone()).await.unwrap_err(),
            table.replace(&two, old.clone()).await.unwrap_err(),
            table.delete("p", "r", old.clone()).await.unwrap_err(),
        ] {
            assert!(error.is_changed_meanwhile(), "{error}");
        }
        table.replace(&two, Condition::Any).await.unwrap();
        assert_eq!(table.get("p", "r").await.unwrap().unwrap().get("a"), None);
        table.delete("p", "r", Condition::Any).await.unwrap();
        assert!(table.delete("p", "r", Condition::Any).await.unwrap_err().is_not_found());
        assert!(table.replace(&two, Condition::Any).await.unwrap_err().is_not_found());
        table.upsert(&one).await.unwrap();
        table.upsert(&two).await.unwrap();
        table.upsert_merge(&one).await.unwrap();
        assert_eq!(table.get("p", "r").await.unwrap().unwrap().get("b"), Some(&Value::Int32(1)));
        let error = table.replace(&two, ETag::new("a\nb")).await.unwrap_err();
        assert!(matches!(error, tabulith_client::Error::Invalid(_)), "{error}");
    });
}

#[test]
fn queries_read_all_pages() {
    with_house(async |house| {
        let table = table(house).await;
        for number in 0..25 {
            let entity =
                Entity::new("p", format!("{number:02}")).with("n", number).with("m", 1_i64);
            table.insert(&entity).await.unwrap();
        }
        let mut pages = table.query(Query::new().page_size(10));
        let first = pages.next_page().await.unwrap().unwrap();
        assert_eq!(first.entities.len(), 10);
        assert_eq!(pages.all().await.unwrap().len(), 15);
        assert_eq!(pages.next_page().await.unwrap(), None);
        let mut rest = table.query(Query::new().from(first.next.unwrap()));
        assert_eq!(rest.next().await.unwrap().unwrap().row_key, "10");
        assert_eq!(rest.all().await.unwrap().len(), 14);
        let query = Query::new()
            .filter(Filter::partition("p").and(property("n").ge(20).and(property("m").eq(1_i64))))
            .select(["RowKey", "n"])
            .page_size(2)
            .explained();
        let mut pages = table.query(query);
        let page = pages.next_page().await.unwrap().unwrap();
        assert!(page.explained.unwrap().rows_examined > 0);
        assert_eq!(page.entities[0].properties, [("n".to_owned(), Value::Int32(20))]);
        assert_eq!(page.entities[0].partition_key, "");
        assert_eq!(pages.all().await.unwrap().len(), 3);
        let error = table.query(Query::new().filter(Filter::raw("n eq"))).all().await.unwrap_err();
        assert_eq!(error.code(), Some("InvalidInput"));
    });
}

#[test]
fn filters_compare_every_type() {
    with_house(async |house| {
        let table = table(house).await;
        let mut entity = all_types();
        entity.partition_key = "p'q".to_owned();
        table.insert(&entity).await.unwrap();
        for (name, value) in &entity.properties {
            let filter = Filter::partition("p'q").and(property(name).eq(value.clone()));
            // NaN is equal to nothing.
            let wanted = usize::from(name != "n");
            let found = table.query(Query::new().filter(filter)).all().await.unwrap();
            assert_eq!(found.len(), wanted, "{name}");
        }
        for (prefix, wanted) in [("a\"", 1), ("b", 0), ("", 1)] {
            let filter = property("s").starts_with(prefix).and(property("b").is_true().not().not());
            let found = table.query(Query::new().filter(filter)).all().await.unwrap();
            assert_eq!(found.len(), wanted, "{prefix}");
        }
    });
}

#[test]
fn transactions_are_done_whole_or_not_at_all() {
    with_house(async |house| {
        let table = table(house).await;
        let row = |key: &str| Entity::new("p é'", key).with("n", 1_i32);
        let old = table.insert(&row("gone")).await.unwrap();
        table.insert(&row("kept")).await.unwrap();
        let mut transaction = Transaction::new();
        transaction
            .insert(row("new'"))
            .upsert(row("more"))
            .upsert_merge(row("and"))
            .merge(Entity::new("p é'", "kept").with("m", 2_i32), Condition::Any)
            .delete("p é'", "gone", old);
        let etags = table.submit(&transaction).await.unwrap();
        assert_eq!(
            etags.iter().map(Option::is_some).collect::<Vec<_>>(),
            [true, true, true, true, false]
        );
        let kept = table.get("p é'", "kept").await.unwrap().unwrap();
        assert_eq!((kept.properties.len(), &kept.etag), (2, &etags[3]));

        let mut refused = Transaction::new();
        refused.upsert(row("never")).replace(row("kept"), Condition::Any).insert(row("more"));
        let error = table.submit(&refused).await.unwrap_err();
        let refusal = error.refusal().unwrap();
        assert_eq!((refusal.status, refusal.index), (409, Some(2)));
        assert_eq!(refusal.code, "EntityAlreadyExists");
        assert_eq!(table.get("p é'", "never").await.unwrap(), None);
        assert!(table.submit(&Transaction::new()).await.is_err());
    });
}

#[test]
fn policies_and_properties_are_set_and_read() {
    with_house(async |house| {
        let table = table(house).await;
        assert_eq!(table.policies().await.unwrap(), []);
        let policies = [
            StoredPolicy {
                id: "readers".to_owned(),
                start: Some("2020-01-01T00:00:00Z".parse().unwrap()),
                expiry: Some("2040-01-01T00:00:00Z".parse().unwrap()),
                permissions: Some(Permissions::READ),
            },
            StoredPolicy { id: "none".to_owned(), ..StoredPolicy::default() },
        ];
        table.set_policies(&policies).await.unwrap();
        assert_eq!(table.policies().await.unwrap(), policies);
        let error = house.account().table("none").policies().await.unwrap_err();
        assert_eq!(error.code(), Some("TableNotFound"));

        let account = house.account();
        let wanted = ServiceProperties {
            logging: Some(Logging { write: true, retention_days: Some(3), ..Logging::default() }),
            hour_metrics: Some(Metrics {
                enabled: true,
                include_apis: true,
                retention_days: Some(7),
            }),
            minute_metrics: None,
            cors: Some(vec![CorsRule {
                allowed_origins: vec!["http://a.example".to_owned()],
                allowed_methods: vec!["GET".to_owned(), "PUT".to_owned()],
                allowed_headers: vec!["x-ms-*".to_owned()],
                exposed_headers: Vec::new(),
                max_age_seconds: 60,
            }]),
        };
        account.set_properties(&wanted).await.unwrap();
        let read = account.properties().await.unwrap();
        assert_eq!(ServiceProperties { minute_metrics: None, ..read.clone() }, wanted);
        assert_eq!(read.minute_metrics, Some(Metrics::default()));
        assert_eq!(account.stats().await.unwrap().status, "live");
    });
}

#[test]
fn every_proof_is_taken_and_a_wrong_one_is_not() {
    with_house(async |house| {
        let rows = table(house).await;
        let connection = &house.connection;
        let lite = account(connection.clone().with_scheme(Scheme::SharedKeyLite));
        lite.table("rows").insert(&Entity::new("p", "a")).await.unwrap();
        assert_eq!(lite.properties().await.unwrap().cors, Some(Vec::new()));
        rows.insert(&Entity::new("q", "a")).await.unwrap();

        let key = connection.key().unwrap();
        let expiry: DateTime = "2040-01-01T00:00:00Z".parse().unwrap();
        let token = TableSas {
            permissions: Some(Permissions::READ),
            expiry: Some(expiry),
            first: Some(("p".to_owned(), None)),
            last: Some(("p".to_owned(), Some("z+".to_owned()))),
            ..TableSas::new("rows")
        }
        .sign(DEVELOPMENT_ACCOUNT, key)
        .unwrap();
        let reader = account(connection.with_signature(&token));
        let found = reader.table("rows").query(Query::new()).all().await.unwrap();
        assert_eq!(found.len(), 1);
        let error = reader.table("rows").insert(&Entity::new("p", "b")).await.unwrap_err();
        assert_eq!(error.status(), Some(403));

        let by_policy = TableSas { policy: Some("w".to_owned()), ..TableSas::new("rows") };
        let writer =
            account(connection.with_signature(&by_policy.sign(DEVELOPMENT_ACCOUNT, key).unwrap()));
        assert!(writer.table("rows").get("p", "a").await.is_err());
        let permissions = Some(Permissions::ALL);
        let expiry_given = Some(expiry);
        let policy =
            StoredPolicy { id: "w".to_owned(), permissions, expiry: expiry_given, start: None };
        rows.set_policies(&[policy]).await.unwrap();
        let mut transaction = Transaction::new();
        transaction.upsert(Entity::new("p", "b")).delete("p", "a", Condition::Any);
        writer.table("rows").submit(&transaction).await.unwrap();

        let all = AccountSas::new(expiry).sign(DEVELOPMENT_ACCOUNT, key).unwrap();
        let whole = account(connection.with_signature(&format!("?{all}")));
        assert!(whole.create_table("more").await.unwrap());
        assert_eq!(whole.tables(None).all().await.unwrap(), ["more", "rows"]);

        let wrong = Credential::from(Key::of_base64("aGVsbG8=").unwrap());
        let error = account(Connection { credential: wrong, ..connection.clone() });
        let error = error.create_table("never").await.unwrap_err();
        assert_eq!((error.status(), error.code()), (Some(403), Some("AuthenticationFailed")));
    });
}

#[test]
fn host_style_addresses_are_signed_as_they_are() {
    // The host's name is not known to any resolver here, so the style is tried by its signature:
    // an account whose endpoint has no path, against a server that finds the account by the Host.
    with_house(async |house| {
        let port = house.connection.endpoint.rsplit_once(':').unwrap().1.split_once('/').unwrap().0;
        let endpoint = format!("http://{DEVELOPMENT_ACCOUNT}.table.localhost:{port}");
        let connection = Connection { endpoint, ..house.connection.clone() };
        match account(connection).create_table("byhost").await {
            Ok(made) => assert!(made),
            // Names below `localhost` are this machine by RFC 6761, but not every resolver knows.
            Err(tabulith_client::Error::Unreachable { maybe_done, .. }) => assert!(!maybe_done),
            Err(error) => panic!("{error}"),
        }
    });
}
