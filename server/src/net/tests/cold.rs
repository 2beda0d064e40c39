//! What accounts and tables have set, where that is not in memory when a request comes.

use super::conn::talking;
use super::{opened, run, shared_on, signed};
use crate::auth::permissions::{ENTITY_LETTERS, Letters};
use crate::auth::policy::{Policy, Terms};
use crate::auth::shared_key::signature_text;
use crate::config::{Accounts, Config, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, Key};
use crate::handle::answer::Answer;
use crate::http::message::{Body, Head, Request};
use crate::net::shared::Shared;
use crate::odata::literal::percent_encoded;
use crate::stored::StoredPolicies;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;
use tabulith::db::Db;
use tabulith::env::clock::ManualClock;
use tabulith::env::jobs::ByHand;
use tabulith::options::Reach;
use tabulith::table::name::{AccountName, TableName};
use tabulith::table::store::TableStore;
use tabulith::table::value::DateTime;
use tabulith::vfs::fault::{Call, FaultFs, Rule};
use tabulith::vfs::mem::SimFs;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::oneshot;

const RULES: &str = "<StorageServiceProperties><Cors><CorsRule><AllowedMethods>GET</AllowedMethods>\
    <AllowedOrigins>*</AllowedOrigins><AllowedHeaders /><ExposedHeaders />\
    <MaxAgeInSeconds>5</MaxAgeInSeconds></CorsRule></Cors></StorageServiceProperties>";

/// A disk with the table `Rows`, and what `set` sets in a file of its own: an opening reads the
/// names of tables.
fn disk(set: impl FnOnce(&TableStore<Db>)) -> FaultFs {
    let disk = FaultFs::new(Arc::new(SimFs::new()));
    let clock = Arc::new(ManualClock::at(1));
    let tables = opened(Arc::new(disk.clone()), clock, Arc::new(ByHand));
    let account = account(DEVELOPMENT_ACCOUNT);
    tables.create_table(&account, &rows()).expect("a table");
    tables.set_account_setting(&account, "nothing", None).expect("a table of settings");
    tables.rows().flush().expect("a sound disk");
    set(&tables);
    tables.rows().flush().expect("a sound disk");
    disk
}

/// One on which `another1` has rules for browsers.
fn disk_with_rules() -> FaultFs {
    disk(|tables| {
        let (account, name) = (account("another1"), "service-properties");
        tables.set_account_setting(&account, name, Some(RULES.as_bytes())).expect("kept");
    })
}

fn account(name: &str) -> AccountName {
    AccountName::parse(name).expect("a name")
}

fn rows() -> TableName {
    TableName::parse("Rows").expect("a name")
}

/// A server over that disk which has just been started.
fn cold(disk: &FaultFs, clock: &Arc<ManualClock>) -> Shared<Db> {
    let accounts = format!("{DEVELOPMENT_ACCOUNT}:{DEVELOPMENT_KEY};another1:YWJj");
    let accounts = Accounts::parse(&accounts).expect("accounts");
    let config = Config { accounts, ..Config::default() };
    let tables = opened(Arc::new(disk.clone()), clock.clone(), Arc::new(ByHand));
    shared_on(tables, clock.clone(), config)
}

fn reads(disk: &FaultFs) -> u64 {
    disk.counts().get(&(Call::Read, "#.sst".to_owned())).copied().unwrap_or_default()
}

fn head(method: &str, target: &str) -> Head {
    let authority = "127.0.0.1".to_owned();
    let mut head =
        Head { method: method.to_owned(), target: target.to_owned(), authority, ..Head::default() };
    head.headers.push("Origin", "http://o");
    if method == "PUT" {
        head.headers.push("Content-Length", "2");
    }
    head
}

/// As it goes over the wire.
fn wire(head: &Head) -> String {
    let mut text = format!("{} {} HTTP/1.1\r\nHost: 127.0.0.1\r\n", head.method, head.target);
    for (name, value) in head.headers.iter() {
        text += &format!("{name}: {value}\r\n");
    }
    text + "Connection: close\r\n\r\n"
}

/// One request after a start had all connections of its thread wait for the disk.
#[test]
fn who_waits_for_the_disk_to_be_let_in_holds_up_no_other_connection() {
    let disk = disk_with_rules();
    let shared = Arc::new(cold(&disk, &Arc::new(ManualClock::at(1))));
    let entity = format!("/{DEVELOPMENT_ACCOUNT}/Rows(PartitionKey='p',RowKey='r')");
    let put = Request { head: signed(head("PUT", &entity)), body: Body::Whole("{}".into()) };
    assert_eq!(shared.app.answer(put).status, 204);
    let ((go_on, gate), (is_held, held)) = (channel(), oneshot::channel());
    disk.interrupt(Rule::fail(Call::Read).named("*.sst"), move || {
        let _ = is_held.send(());
        let _ = gate.recv_timeout(Duration::from_secs(20));
    });
    let ask = async |head: Head| {
        let text = wire(&head);
        talking(&shared, 4096, async |mut to| to.write_all(text.as_bytes()).await).await.1
    };
    let (refused, (found, waits)) = run(async {
        let other = async {
            // Time passes at once where nothing is under way.
            let held = tokio::time::timeout(Duration::from_secs(1), held).await;
            held.expect("nothing is read").expect("a reader");
            let found = ask(signed(head("GET", &entity))).await;
            (found, go_on.send(()).is_ok())
        };
        tokio::join!(ask(head("GET", "/another1/T()")), other)
    });
    assert!(found.starts_with("HTTP/1.1 200 "), "{found}");
    assert!(waits, "the read was over by then");
    assert!(refused.starts_with("HTTP/1.1 403 "), "{refused}");
    assert!(refused.contains("\r\naccess-control-allow-origin: *\r\n"), "{refused}");
}

#[test]
fn who_is_not_let_in_in_time_is_told_so() {
    let shared = Arc::new(cold(&disk_with_rules(), &Arc::new(ManualClock::at(1))));
    let text = wire(&head("GET", "/another1/T()"));
    let answer = run(async {
        let _others = shared.admissions.all.acquire_many(16).await.expect("never closed");
        talking(&shared, 4096, async |mut to| to.write_all(text.as_bytes()).await).await.1
    });
    assert!(answer.starts_with("HTTP/1.1 500 "), "{answer}");
    assert!(answer.contains("OperationTimedOut"), "{answer}");
}

/// Nobody was told, and each request read the disk again.
#[test]
fn rules_that_do_not_read_are_tried_again_after_a_second() {
    let (disk, clock) = (disk_with_rules(), Arc::new(ManualClock::at(1)));
    let shared = cold(&disk, &clock);
    let asked = head("GET", "/another1/T()");
    let ask = || {
        let refusal = shared.app.receive(&asked).expect_err("it has no signature");
        (refusal.get("Access-Control-Allow-Origin").is_some(), reads(&disk))
    };
    disk.add(Rule::fail(Call::Read).named("*.sst").forever());
    let (has_rules, tried) = ask();
    assert!(!has_rules);
    assert_eq!(ask(), (false, tried));
    assert!(shared.app.receive_within(&asked, Duration::ZERO, Reach::Memory).is_some());
    disk.clear();
    assert_eq!(ask(), (false, tried));
    clock.advance(Duration::from_secs(1));
    assert!(ask().0);
}

/// A request for an entity of `Rows` by leave of its policy.
fn by_policy(method: &str) -> Head {
    let resource = format!("/table/{DEVELOPMENT_ACCOUNT}/rows");
    let string = ["", "", "", &resource, "p", "", "", "2019-02-02", "", "", "", ""].join("\n");
    let signature = percent_encoded(&signature_text(&Key::development(), &string), "");
    let sas = format!("sv=2019-02-02&tn=Rows&si=p&sig={signature}");
    let entity = format!("/{DEVELOPMENT_ACCOUNT}/Rows(PartitionKey='p',RowKey='r')");
    head(method, &format!("{entity}?{sas}"))
}

#[test]
fn a_policy_is_not_read_where_others_would_wait_for_that() {
    let disk = disk(|tables| {
        let permissions = Letters::parse(ENTITY_LETTERS, ENTITY_LETTERS);
        let expiry = Some(DateTime(DateTime::UNIX_EPOCH.0 + (1 << 40)));
        let terms = Some(Terms { start: None, expiry, permissions });
        let policies = vec![Policy { id: "p".to_owned(), terms }];
        let account = account(DEVELOPMENT_ACCOUNT);
        StoredPolicies::default().set(tables, &account, &rows(), policies).expect("kept");
    });
    let clock = Arc::new(ManualClock::at(1));
    for (method, body, status) in
        [("GET", Body::Empty, 404), ("PUT", Body::Whole("{}".into()), 204)]
    {
        let asked = by_policy(method);
        let shared = cold(&disk, &clock);
        // Now the account's own settings are in memory.
        let unsigned = head("GET", &format!("/{DEVELOPMENT_ACCOUNT}/Rows()"));
        assert!(shared.app.receive(&unsigned).is_err());
        let before = reads(&disk);
        let quick = shared.app.receive_within(&asked, Duration::ZERO, Reach::Memory);
        assert!(quick.is_none() && reads(&disk) == before, "{method}");
        let call = shared.app.receive(&asked).expect("admitted");
        drop(shared);
        let shared = cold(&disk, &clock);
        let before = reads(&disk);
        let quick = shared.app.perform(&call, &body, Reach::Memory);
        assert!(matches!(quick, Answer::NeedsDisk) && reads(&disk) == before, "{method}");
        let answer = match shared.app.perform(&call, &body, Reach::Disk) {
            Answer::Now(response) => response,
            Answer::Later(later) => later.wait(),
            Answer::NeedsDisk => panic!("it may wait"),
        };
        assert_eq!(answer.status, status, "{method}");
    }
}
