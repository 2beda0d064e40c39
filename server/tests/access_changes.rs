//! What is taken back counts at once, also for requests that were admitted before: stored
//! policies, tables, keys.

#![allow(clippy::print_stdout, reason = "the counts are what the test shows")]

mod common;

use common::{Bench, FAR, Sas, date_of, request, sign};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use tabulith::env::clock::{Clock as _, SystemClock};
use tabulith::options::Reach;
use tabulith::table::store::TableStore;
use tabulith_server::Server;
use tabulith_server::config::{Accounts, Config, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use tabulith_server::handle::answer::Answer;
use tabulith_server::http::message::{Request, Response};
use tabulith_server::texts::TextSource;

fn policies(letters: &str) -> String {
    format!(
        "<SignedIdentifiers><SignedIdentifier><Id>p</Id><AccessPolicy><Expiry>{FAR}</Expiry>\
         <Permission>{letters}</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>"
    )
}

fn bench() -> Bench {
    let bench = Bench::new();
    assert_eq!(bench.send("POST", "/Tables", &[], "{\"TableName\":\"Mine\"}").status, 201);
    allow(&bench, "raud");
    bench
}

fn allow(bench: &Bench, letters: &str) {
    let body = if letters.is_empty() { String::new() } else { policies(letters) };
    assert_eq!(bench.send("PUT", "/Mine?comp=acl", &[], &body).status, 204);
}

fn insert(row_key: usize) -> Request {
    let token = Sas::table("Mine").without("se").with("si", "p").token();
    let body = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row_key}\"}}");
    request("POST", &format!("/Mine?{token}"), &[], &body)
}

/// Admits a request, lets something happen, and goes on.
fn between(bench: &Bench, request: Request, happens: impl FnOnce()) -> Response {
    let call = bench.app.receive(&request.head).expect("an admitted request");
    happens();
    match bench.app.perform(&call, &request.body, Reach::Disk) {
        Answer::Now(response) => response,
        Answer::Later(later) => later.wait(),
        Answer::NeedsDisk => panic!("the disk was allowed"),
    }
}

fn rows(bench: &Bench) -> usize {
    let page = bench.send("GET", "/Mine()", &[], "");
    String::from_utf8_lossy(&page.body).matches("\"RowKey\"").count()
}

#[test]
fn between_the_gate_and_the_commit() {
    let bench = bench();
    assert_eq!(between(&bench, insert(0), || {}).status, 201);
    let remake = |bench: &Bench| {
        assert_eq!(bench.send("DELETE", "/Tables('Mine')", &[], "").status, 204);
        assert_eq!(bench.send("POST", "/Tables", &[], "{\"TableName\":\"Mine\"}").status, 201);
    };
    // Taken back, changed, and put back under the same name but with other terms.
    assert_eq!(between(&bench, insert(1), || allow(&bench, "")).status, 403);
    allow(&bench, "raud");
    assert_eq!(between(&bench, insert(2), || allow(&bench, "r")).status, 403);
    allow(&bench, "raud");
    assert_eq!(rows(&bench), 1);
    // The table is another one; even with the same policy it is not the one that was meant.
    assert_eq!(between(&bench, insert(3), || remake(&bench)).status, 403);
    allow(&bench, "raud");
    let with_policy = || {
        remake(&bench);
        allow(&bench, "raud");
    };
    assert_eq!(between(&bench, insert(4), with_policy).status, 403);
    assert_eq!(rows(&bench), 0);
    let gone = || assert_eq!(bench.send("DELETE", "/Tables('Mine')", &[], "").status, 204);
    assert_eq!(between(&bench, insert(5), gone).status, 403);
    // Who needs no policy learns that the table is gone.
    let mut own = request("POST", "/Mine", &[], "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}");
    sign(&mut own.head, &date_of(bench.clock.wall_ticks()));
    assert_eq!(between(&bench, own, || {}).status, 404);
}

/// The head comes while the signature is good, the body when it is not any more.
#[test]
fn a_signature_that_expires_before_the_commit() {
    let bench = bench();
    let body = "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}";
    let until = |seconds: u64| {
        let end =
            jiff::Timestamp::from_second(1_609_459_200 + i64::try_from(seconds).expect("few"));
        end.expect("a moment").to_string()
    };
    let policy = |end: &str| {
        let policies = policies("raud").replace(FAR, end);
        assert_eq!(bench.send("PUT", "/Mine?comp=acl", &[], &policies).status, 204);
    };
    let wait = |seconds| bench.clock.advance(std::time::Duration::from_secs(seconds));
    let now = || (bench.clock.wall_ticks() - common::START) / 10_000_000;
    let table = Sas::table("Mine").with("sp", "raud");
    let account = Sas::account().with("sp", "raud").with("srt", "sco");
    let by_policy = Sas::table("Mine").without("se").with("si", "p");
    for sas in [table, account, by_policy] {
        let with_end = |end: &str| match sas.get("si") {
            "" => sas.with("se", end),
            _ => {
                policy(end);
                sas.clone()
            }
        };
        for (method, path, body) in [
            ("POST", "/Mine", body),
            ("GET", "/Mine()", ""),
            ("DELETE", "/Mine(PartitionKey='p',RowKey='r')", ""),
        ] {
            let sas = with_end(&until(now() + 10));
            let ask = || {
                let path = format!("{path}?{}", sas.token());
                let headers = [("If-Match", "*")];
                request(method, &path, if method == "DELETE" { &headers } else { &[] }, body)
            };
            assert_eq!(between(&bench, ask(), || wait(10)).status, 403, "{sas:?} {method}");
            let sas = with_end(&until(now() + 10));
            let ask = || {
                let path = format!("{path}?{}", sas.token());
                let headers = [("If-Match", "*")];
                request(method, &path, if method == "DELETE" { &headers } else { &[] }, body)
            };
            assert!(between(&bench, ask(), || wait(9)).status < 300, "{sas:?} {method}");
        }
    }
}

#[test]
fn revocation_under_load() {
    let bench = bench();
    let (mut applied, mut refused) = (0, 0);
    for round in 0..20 {
        allow(&bench, "a");
        let (revoked, begun) = (AtomicBool::new(false), AtomicBool::new(false));
        let (own_applied, own_refused) = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let (mut applied, mut refused) = (0, 0);
                for row in 0..400 {
                    let request = insert(round * 1000 + row);
                    let Ok(call) = bench.app.receive(&request.head) else {
                        refused += 1;
                        continue;
                    };
                    let was_revoked = revoked.load(Ordering::SeqCst);
                    let response = match bench.app.perform(&call, &request.body, Reach::Disk) {
                        Answer::Now(response) => response,
                        Answer::Later(later) => later.wait(),
                        Answer::NeedsDisk => panic!("the disk was allowed"),
                    };
                    begun.store(true, Ordering::SeqCst);
                    assert!(!was_revoked || response.status == 403, "applied after revocation");
                    if response.status == 201 { applied += 1 } else { refused += 1 }
                }
                (applied, refused)
            });
            while !begun.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            allow(&bench, "");
            revoked.store(true, Ordering::SeqCst);
            writer.join().expect("the writer")
        });
        applied += own_applied;
        refused += own_refused;
    }
    assert_eq!(rows(&bench).min(1000), applied.min(1000));
    assert!(applied >= 20, "{applied}");
    println!(
        "revocation under load: 20 rounds, {applied} applied before, {refused} refused, 0 applied after"
    );
}

const OTHER_KEY: &str = "b3RoZXIga2V5IG9mIHRoZSBhY2NvdW50LCBuZXcgdG9kYXk=";

#[test]
fn keys_are_replaced_while_requests_come() {
    let bench = bench();
    let both = format!("{DEVELOPMENT_ACCOUNT}:{DEVELOPMENT_KEY}:{OTHER_KEY}");
    let new = format!("{DEVELOPMENT_ACCOUNT}:{OTHER_KEY}");
    let serve = |text: &str| bench.app.keyring().replace(Accounts::parse(text).expect("accounts"));
    let sas = Sas::table("Mine").with("sp", "r");
    let ask = |sas: &Sas| {
        bench.app.answer(request("GET", &format!("/Mine()?{}", sas.token()), &[], "")).status
    };
    let own = |bench: &Bench| bench.send("GET", "/Mine()", &[], "").status;
    let other = Sas {
        key: tabulith_server::config::Key::parse("x", OTHER_KEY).expect("a key"),
        ..sas.clone()
    };
    assert_eq!((ask(&sas), ask(&other), own(&bench)), (200, 403, 200));
    serve(&both);
    assert_eq!((ask(&sas), ask(&other), own(&bench)), (200, 200, 200));
    let put = {
        let mut put = request("PUT", "/Mine(PartitionKey='p',RowKey='r')", &[], "{}");
        sign(&mut put.head, &date_of(bench.clock.wall_ticks()));
        put
    };
    // Admitted under the old key, whose end comes before that of the body.
    assert_eq!(between(&bench, put, || serve(&new)).status, 403);
    assert_eq!((ask(&sas), ask(&other), own(&bench)), (403, 200, 403));
    serve("another1:YWJj");
    assert_eq!((ask(&sas), ask(&other), own(&bench)), (403, 403, 403));
}

#[test]
fn accounts_are_read_anew() {
    let text = Arc::new(Mutex::new(format!("{DEVELOPMENT_ACCOUNT}:{DEVELOPMENT_KEY}")));
    let own = text.clone();
    let source = TextSource::new("accounts", move || {
        Ok(own.lock().unwrap_or_else(PoisonError::into_inner).clone())
    });
    let config = Config {
        listen: ([127, 0, 0, 1], 0).into(),
        accounts_source: Some(source),
        ..Config::default()
    };
    let running =
        Server::start(config, Arc::new(TableStore::new(Bench::new().db))).expect("a server");
    let status = || {
        let mut request = request("GET", "/Tables", &[], "");
        sign(&mut request.head, &date_of(SystemClock::new().wall_ticks()));
        let mut text =
            format!("GET {} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n", request.head.target);
        for (name, value) in request.head.headers.iter() {
            text += &format!("{name}: {value}\r\n");
        }
        let mut stream = TcpStream::connect(running.addr()).expect("a connection");
        stream.write_all(format!("{text}\r\n").as_bytes()).expect("the server reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("the server answers");
        answer[9..12].to_owned()
    };
    let write = |new: &str| *text.lock().unwrap_or_else(PoisonError::into_inner) = new.to_owned();
    assert_eq!(status(), "200");
    // What does not parse changes nothing.
    write("no accounts");
    let error = running.reload().expect_err("no accounts").to_string();
    assert!(error.contains("accounts") && !error.contains(DEVELOPMENT_KEY), "{error}");
    assert_eq!(status(), "200");
    write(&format!("{DEVELOPMENT_ACCOUNT}:{OTHER_KEY};another1:YWJj\n"));
    running.reload().expect("good accounts");
    assert_eq!(status(), "403");
    assert_eq!(running.account_names(), ["another1", DEVELOPMENT_ACCOUNT]);
    let old =
        Accounts::parse(&format!("{DEVELOPMENT_ACCOUNT}:{DEVELOPMENT_KEY}")).expect("accounts");
    running.set_accounts(old).expect("this machine alone can reach it");
    assert_eq!(status(), "200");
    running.stop();
}

/// Who is not let in any more is told so as who never was: without a version, and in JSON only
/// where that is asked for.
#[test]
fn refusals_behind_the_gate_are_those_before_it() {
    let told = |response: &Response| {
        let id = response.get("x-ms-request-id").expect("an id");
        let body = String::from_utf8_lossy(&response.body).replace(id, "ID");
        let headers = response.headers.iter().filter(|(name, _)| *name != "x-ms-request-id");
        let headers: Vec<_> = headers.map(|(name, value)| format!("{name}: {value}")).collect();
        (response.status, headers, body)
    };
    let check = |bench: &Bench, ask: &Request, happens: &dyn Fn()| {
        let late = between(bench, ask.clone(), happens);
        let early = bench.app.answer(ask.clone());
        assert_eq!(late.get("x-ms-error-code"), Some("AuthenticationFailed"));
        assert_eq!(late.get("x-ms-version"), None);
        assert_eq!(told(&late), told(&early));
    };
    let entity = "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}";
    let json = "application/json";
    let mut cases = 0;
    for (method, path, content_type, body, accepts) in [
        ("GET", "/Mine()", "", "", "|*/*|application/json|application/json;odata=fullmetadata"),
        ("POST", "/Mine", json, entity, "|*/*|application/json|application/json;odata=nometadata"),
        (
            "POST",
            "/$batch",
            "multipart/mixed; boundary=b",
            "--b--",
            "|*/*|application/json|multipart/mixed",
        ),
        ("PUT", "/Mine?comp=acl", "application/xml", "<a/>", "|*/*|application/json"),
        ("GET", "/?restype=service&comp=properties", "", "", "|multipart/mixed|application/json"),
    ] {
        for accept in accepts.split('|') {
            let bench = bench();
            let headers = [
                ("Accept", accept),
                ("Content-Type", content_type),
                ("Prefer", "return-no-content"),
                ("x-ms-client-request-id", "mine"),
                ("x-ms-version", "2019-02-02"),
            ];
            let mut signed = request(method, path, &headers, body);
            sign(&mut signed.head, &date_of(bench.clock.wall_ticks()));
            let accounts = format!("{DEVELOPMENT_ACCOUNT}:{OTHER_KEY}");
            check(&bench, &signed, &|| {
                bench.app.keyring().replace(Accounts::parse(&accounts).expect("accounts"));
            });
            cases += 1;
            if path.starts_with("/Mine") && !path.contains('?') {
                let own = self::bench();
                let token = Sas::table("Mine").without("se").with("si", "p").token();
                let by_policy = request(method, &format!("{path}?{token}"), &headers, body);
                check(&own, &by_policy, &|| allow(&own, ""));
                cases += 1;
            }
        }
    }
    println!("{cases} refusals before the gate and behind it");
}
