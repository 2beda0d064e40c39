//! Bearer tokens: which of them count, what they open, and what the others are told.

#![allow(clippy::print_stdout, reason = "the counts are what the test shows")]

mod common;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use common::{Bench, START, request};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use std::time::Duration;
use tabulith::env::clock::Clock as _;
use tabulith::options::Reach;
use tabulith_server::auth::jwks::Jwks;
use tabulith_server::config::{Accounts, Config};
use tabulith_server::handle::answer::Answer;
use tabulith_server::http::message::{Body, Request, Response};
use tabulith_server::texts::TextSource;
use tabulith_server::tokens::{BearerConfig, READER};

const NOW: u64 = START / 10_000_000;
const ISSUER: &str = "https://login.example/tenant";

fn part(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(text)
}

/// Claims that are good for an hour, with others laid over them.
fn claims(others: &[(&str, &str)]) -> String {
    let mut all = vec![
        ("iss", format!("\"{ISSUER}/\"")),
        ("aud", "\"https://storage.azure.com\"".to_owned()),
        ("nbf", (NOW - 60).to_string()),
        ("exp", (NOW + 3600).to_string()),
        ("roles", format!("[\"{READER}\"]")),
    ];
    for (name, value) in others {
        all.retain(|(own, _)| own != name);
        if !value.is_empty() {
            all.push((name, (*value).to_owned()));
        }
    }
    let members: Vec<String> =
        all.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", members.join(","))
}

struct Issuer {
    key: EcdsaKeyPair,
    random: SystemRandom,
}

impl Issuer {
    fn new() -> Issuer {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random);
        let key = EcdsaKeyPair::from_pkcs8(
            &ECDSA_P256_SHA256_FIXED_SIGNING,
            document.expect("a key").as_ref(),
            &random,
        );
        Issuer { key: key.expect("a key"), random }
    }

    fn jwks(&self) -> Jwks {
        let point = self.key.public_key().as_ref();
        let (x, y) = (part_of(&point[1..33]), part_of(&point[33..]));
        let text = format!(
            "{{\"keys\":[{{\"kty\":\"oct\",\"k\":\"AA\"}},{{\"kty\":\"EC\",\"crv\":\"P-256\",\
             \"kid\":\"one\",\"use\":\"sig\",\"x\":\"{x}\",\"y\":\"{y}\"}}]}}"
        );
        Jwks::parse(&text).expect("keys")
    }

    fn token(&self, header: &str, claims: &str) -> String {
        let message = format!("{}.{}", part(header), part(claims));
        let signature = self.key.sign(&self.random, message.as_bytes()).expect("a signature");
        format!("{message}.{}", part_of(signature.as_ref()))
    }
}

fn part_of(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

const HEADER: &str = "{\"alg\":\"ES256\",\"typ\":\"JWT\",\"kid\":\"one\"}";

/// Keys that the tests hand over themselves.
fn unread() -> TextSource {
    TextSource::new("no keys", || Err(std::io::Error::other("nobody reads them")))
}

fn signed(issuer: &Issuer) -> Bench {
    let bearer = BearerConfig::signed(unread(), vec![ISSUER.to_owned()]);
    let bench = Bench::with(Config { bearer: Some(bearer), ..Config::default() });
    bench.app.bearer().expect("a judge of tokens").replace_keys(issuer.jwks());
    assert_eq!(bench.send("POST", "/Tables", &[], "{\"TableName\":\"Mine\"}").status, 201);
    bench
}

fn ask(bench: &Bench, method: &str, path: &str, token: &str, version: &str) -> Response {
    bench.app.answer(with_token(method, path, token, version))
}

fn with_token(method: &str, path: &str, token: &str, version: &str) -> Request {
    let authorization = format!("Bearer {token}");
    let headers = [
        ("Authorization", authorization.as_str()),
        ("x-ms-version", version),
        ("Accept", "application/json"),
        ("If-Match", "*"),
    ];
    let mut request = request(method, path, &headers, "");
    request.head.secure = true;
    request
}

const NEW: &str = "2020-12-06";
const ENTITY: &str = "/Mine(PartitionKey='p',RowKey='r')";

#[test]
fn a_signed_token_opens_what_its_roles_say() {
    let issuer = Issuer::new();
    let bench = signed(&issuer);
    let status = |method: &str, path: &str, others: &[(&str, &str)]| {
        ask(&bench, method, path, &issuer.token(HEADER, &claims(others)), NEW).status
    };
    assert_eq!(status("GET", "/Mine()", &[]), 200);
    for own in [ISSUER.to_owned(), format!("{ISSUER}/v2.0")] {
        assert_eq!(status("GET", "/Mine()", &[("iss", &format!("\"{own}\""))]), 200, "{own}");
    }
    assert_eq!(status("DELETE", ENTITY, &[]), 403);
    assert_eq!(status("GET", "/Mine?comp=acl", &[]), 403);
    let contributor = [("roles", "[\"0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3\"]")];
    assert_eq!(status("DELETE", ENTITY, &contributor), 404);
    assert_eq!(status("GET", "/Mine?comp=acl", &contributor), 200);
    // No role, no right.
    assert_eq!(status("GET", "/Mine()", &[("roles", "")]), 403);
    let scope = "\"openid Microsoft.Storage/storageAccounts/tableServices/tables/entities/delete\"";
    assert_eq!(status("DELETE", ENTITY, &[("roles", ""), ("scp", scope)]), 404);
    let refused = ask(&bench, "DELETE", ENTITY, &issuer.token(HEADER, &claims(&[])), NEW);
    assert_eq!(refused.get("x-ms-error-code"), Some("AuthorizationPermissionMismatch"));
}

#[test]
fn tokens_that_do_not_count() {
    let issuer = Issuer::new();
    let bench = signed(&issuer);
    let token = |header: &str, others: &[(&str, &str)]| issuer.token(header, &claims(others));
    let good = token(HEADER, &[]);
    let (start, end) = ((NOW + 1).to_string(), NOW.to_string());
    let message = format!("{}.{}", part("{\"alg\":\"none\"}"), part(&claims(&[])));
    let bad = [
        ("no signature", format!("{message}.")),
        ("no signature part", message.clone()),
        ("another algorithm", token("{\"alg\":\"RS256\",\"kid\":\"one\"}", &[])),
        ("a symmetric algorithm", token("{\"alg\":\"HS256\",\"kid\":\"one\"}", &[])),
        ("no algorithm", token("{\"kid\":\"one\"}", &[])),
        ("another key's id", token("{\"alg\":\"ES256\",\"kid\":\"two\"}", &[])),
        ("an extension", token("{\"alg\":\"ES256\",\"kid\":\"one\",\"crit\":[\"x\"]}", &[])),
        ("another issuer's key", Issuer::new().token(HEADER, &claims(&[]))),
        ("not yet", token(HEADER, &[("nbf", &start)])),
        ("no longer", token(HEADER, &[("exp", &end)])),
        ("no end", token(HEADER, &[("exp", "")])),
        ("an end in words", token(HEADER, &[("exp", "\"9999999999\"")])),
        ("another issuer", token(HEADER, &[("iss", "\"https://login.example\"")])),
        ("a longer issuer", token(HEADER, &[("iss", "\"https://login.example/tenants\"")])),
        ("no issuer", token(HEADER, &[("iss", "")])),
        ("another audience", token(HEADER, &[("aud", "\"https://vault.azure.net\"")])),
        ("another account", token(HEADER, &[("aud", "\"https://x.table.core.windows.net\"")])),
        ("no audience", token(HEADER, &[("aud", "")])),
        ("no token", "x".to_owned()),
        ("nothing", String::new()),
        ("too long", "x".repeat(100_000)),
        ("no JSON", issuer.token("x", "y")),
        ("no object", issuer.token("[]", "[]")),
    ];
    assert_eq!(ask(&bench, "GET", "/Mine()", &good, NEW).status, 200);
    for (what, token) in &bad {
        let refused = ask(&bench, "GET", "/Mine()", token, NEW);
        assert_eq!(refused.status, 401, "{what}");
        assert_eq!(refused.get("x-ms-error-code"), Some("InvalidAuthenticationInfo"), "{what}");
        assert_eq!(
            refused.get("WWW-Authenticate"),
            Some(
                "Bearer authorization_uri=https://login.microsoftonline.com/common/oauth2/authorize \
                 resource_id=https://storage.azure.com"
            )
        );
        let older = ask(&bench, "GET", "/Mine()", token, "2019-07-07");
        assert_eq!(older.status, 403, "{what}");
        assert_eq!(older.get("WWW-Authenticate"), None);
    }
    let mut bent = 0;
    for at in 0..good.len() {
        let mut bytes = good.clone().into_bytes();
        bytes[at] ^= 1;
        let Ok(text) = String::from_utf8(bytes) else { continue };
        // The last character's lowest bits are no part of the signature; base64 refuses them.
        assert_eq!(ask(&bench, "GET", "/Mine()", &text, NEW).status, 401, "byte {at}");
        bent += 1;
    }
    println!(
        "tokens refused: {} forms, {bent} of {} bytes bent: 0 accepted",
        bad.len(),
        good.len()
    );
}

#[test]
fn tokens_need_tls() {
    let issuer = Issuer::new();
    let bench = signed(&issuer);
    let token = issuer.token(HEADER, &claims(&[]));
    let mut request = with_token("GET", "/Mine()", &token, NEW);
    request.head.secure = false;
    assert_eq!(bench.app.answer(request).status, 401);
}

#[test]
fn without_keys_the_claims_are_still_checked() {
    let bench = Bench::with(Config { bearer: Some(BearerConfig::basic()), ..Config::default() });
    assert_eq!(bench.send("POST", "/Tables", &[], "{\"TableName\":\"Mine\"}").status, 201);
    let issuer = [("iss", "\"https://sts.windows.net/some-tenant/\""), ("roles", "")];
    let token = |others: &[(&str, &str)]| {
        format!("{}.{}.none", part("{\"alg\":\"RS256\"}"), part(&claims(others)))
    };
    let status = |others: &[(&str, &str)]| {
        let both = [&issuer[..], others].concat();
        ask(&bench, "GET", "/Mine()", &token(&both), NEW).status
    };
    assert_eq!(status(&[]), 200);
    assert_eq!(ask(&bench, "GET", "/Mine()", &token(&[]), NEW).status, 401);
    assert_eq!(status(&[("exp", &NOW.to_string())]), 401);
    assert_eq!(status(&[("aud", "[\"x\",\"e406a681-f3d4-42a8-90b6-c2b029497af1\"]")]), 200);
    assert_eq!(status(&[("aud", "\"https://devstoreaccount1.table.core.windows.net/\"")]), 200);
    // Who has no credentials is told where to get some; but not by an old version.
    let none =
        |version| bench.app.answer(request("GET", "/Mine()", &[("x-ms-version", version)], ""));
    assert_eq!(none(NEW).status, 401);
    assert_eq!(none(NEW).get("x-ms-error-code"), Some("NoAuthenticationInformation"));
    // As recorded, it is the service itself that says so.
    assert_eq!(none(NEW).get("x-ms-version"), Some(NEW));
    assert_eq!(none(NEW).get("Content-Type"), Some("application/json"));
    assert_eq!(none(NEW).get("Cache-Control"), None);
    assert_eq!(none("2019-07-07").status, 403);
}

/// A body may come long after its head.
#[test]
fn a_token_counts_until_its_request_is_done() {
    let bench = Bench::with(Config { bearer: Some(BearerConfig::basic()), ..Config::default() });
    assert_eq!(bench.send("POST", "/Tables", &[], "{\"TableName\":\"Mine\"}").status, 201);
    let issuer = [("iss", "\"https://sts.windows.net/some-tenant/\""), ("roles", "")];
    let end = (NOW + 10).to_string();
    let claims = claims(&[&issuer[..], &[("exp", end.as_str())]].concat());
    let token = format!("{}.{}.none", part("{\"alg\":\"RS256\"}"), part(&claims));
    let insert = |row: &str, happens: &dyn Fn()| {
        let mut request = with_token("POST", "/Mine", &token, NEW);
        let entity = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\"}}");
        request.body = Body::Whole(entity.into());
        let call = bench.app.receive(&request.head).expect("an admitted request");
        happens();
        match bench.app.perform(&call, &request.body, Reach::Disk) {
            Answer::Now(response) => response.status,
            Answer::Later(later) => later.wait().status,
            Answer::NeedsDisk => panic!("the disk was allowed"),
        }
    };
    let others = Accounts::parse("another1:YWJj").expect("accounts");
    let accounts = bench.app.keyring().accounts();
    assert_eq!(insert("1", &|| {}), 201);
    assert_eq!(insert("2", &|| bench.app.keyring().replace(others.clone())), 403);
    bench.app.keyring().replace(Accounts::clone(&accounts));
    assert_eq!(insert("3", &|| bench.clock.advance(Duration::from_secs(9))), 201);
    let by_minutes = |minutes: u64| {
        bench.clock.set_wall(bench.clock.wall_ticks() - minutes * 60 * 10_000_000);
    };
    // A clock that was set back, by more and by less than requests' dates may be off.
    assert_eq!(insert("4", &|| by_minutes(16)), 403);
    let late = with_token("POST", "/Mine", &token, NEW);
    assert_eq!(bench.app.answer(late).status, 401);
    bench.clock.advance(Duration::from_secs(16 * 60));
    assert_eq!(insert("5", &|| by_minutes(14)), 201);
    bench.clock.advance(Duration::from_secs(14 * 60));
    assert_eq!(insert("6", &|| bench.clock.advance(Duration::from_secs(1))), 403);
    let page = bench.send("GET", "/Mine()", &[], "");
    assert_eq!(String::from_utf8_lossy(&page.body).matches("\"RowKey\"").count(), 3);
}

/// An operation: method, path, body, whether it asks for a condition, and the sets of actions of
/// which one is needed whole.
type Asked = (&'static str, &'static str, &'static str, bool, &'static [&'static [&'static str]]);

const WRITES: [&str; 3] =
    ["tables/entities/write", "tables/entities/add/action", "tables/entities/update/action"];

const OPERATIONS: [Asked; 14] = [
    ("GET", "/?restype=service&comp=properties", "", false, &[&["read"]]),
    ("GET", "/Tables", "", false, &[&["tables/read"]]),
    ("GET", "/Tables('Mine')", "", false, &[&["tables/read"]]),
    ("POST", "/Tables", "{\"TableName\":\"Mine\"}", false, &[&["tables/write"]]),
    ("DELETE", "/Tables('Nothing')", "", false, &[&["tables/delete"]]),
    ("GET", "/Mine?comp=acl", "", false, &[&["tables/getAcl/action"]]),
    ("GET", "/Mine()", "", false, &[&["tables/entities/read"]]),
    ("GET", ENTITY, "", false, &[&["tables/entities/read"]]),
    ("POST", "/Mine", "{\"1\":1}", false, &[&[WRITES[0]], &[WRITES[1]]]),
    ("PUT", ENTITY, "{\"1\":1}", false, &[&[WRITES[0]], &[WRITES[1], WRITES[2]]]),
    ("PATCH", ENTITY, "{\"1\":1}", false, &[&[WRITES[0]], &[WRITES[1], WRITES[2]]]),
    ("PUT", ENTITY, "{\"1\":1}", true, &[&[WRITES[0]], &[WRITES[2]]]),
    ("MERGE", ENTITY, "{\"1\":1}", true, &[&[WRITES[0]], &[WRITES[2]]]),
    ("DELETE", ENTITY, "", true, &[&["tables/entities/delete"]]),
];

/// No operation forgets that a token's actions must cover it: each with every action alone, with
/// every pair of them, and with none.
#[test]
#[allow(clippy::print_stdout, reason = "how many cases there were")]
fn every_operation_asks_for_its_actions() {
    const PREFIX: &str = "Microsoft.Storage/storageAccounts/tableServices/";
    let issuer = Issuer::new();
    let bench = signed(&issuer);
    let mut actions: Vec<&str> =
        OPERATIONS.iter().flat_map(|asked| asked.4.concat()).chain(["openid"]).collect();
    actions.sort_unstable();
    actions.dedup();
    let (mut cases, mut allowed) = (0, 0);
    for (at, first) in actions.iter().enumerate() {
        for second in &actions[at..] {
            let scope = format!("\"{PREFIX}{first} {PREFIX}{second}\"");
            let token = issuer.token(HEADER, &claims(&[("roles", ""), ("scp", &scope)]));
            for (method, path, body, condition, sets) in OPERATIONS {
                let covered = |set: &&[&str]| set.iter().all(|a| a == first || a == second);
                let may = sets.iter().any(covered);
                let authorization = format!("Bearer {token}");
                let mut headers = vec![
                    ("Authorization", authorization.as_str()),
                    ("x-ms-version", NEW),
                    ("Accept", "application/json"),
                    ("Content-Type", "application/json"),
                ];
                headers.extend(condition.then_some(("If-Match", "*")));
                let mut asked = request(method, path, &headers, body);
                asked.head.secure = true;
                let answer = bench.app.answer(asked);
                let refused =
                    answer.get("x-ms-error-code") == Some("AuthorizationPermissionMismatch");
                let code = answer.get("x-ms-error-code");
                assert!(
                    refused != may,
                    "operation: {method} {path}, condition {condition}, with {first} and {second}: \
                     {} {code:?}",
                    answer.status
                );
                (cases, allowed) = (cases + 1, allowed + usize::from(may));
            }
        }
    }
    println!("{cases} cases, {allowed} of them allowed");
    assert!(cases > 800 && allowed > 100, "{cases} cases, {allowed} allowed");
}
