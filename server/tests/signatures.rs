//! Signatures cannot be bent: every byte of every signed part, and accounts that the address and
//! the signature name differently.

#![allow(clippy::print_stdout, reason = "the counts are what the test shows")]

mod common;

use common::{Bench, FAR, Sas, date_of, request, sign};
use tabulith::env::clock::Clock as _;
use tabulith_server::auth::canonical;
use tabulith_server::auth::shared_key::signature_text;
use tabulith_server::config::{Accounts, Config, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, Key};
use tabulith_server::http::message::{Head, Request, Response};

const A: &str = DEVELOPMENT_ACCOUNT;

fn bench() -> Bench {
    let two = format!("{A}:{DEVELOPMENT_KEY};second2:{DEVELOPMENT_KEY};third3:YWJj:ZGVm");
    let accounts = Accounts::parse(&two).expect("accounts");
    let bench = Bench::with(Config { accounts, ..Config::default() });
    assert_eq!(bench.send("POST", "/Tables", &[], "{\"TableName\":\"Mine\"}").status, 201);
    let body = "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}";
    assert_eq!(bench.send("POST", "/Mine", &[], body).status, 201);
    bench
}

fn code(response: &Response) -> &str {
    response.get("x-ms-error-code").unwrap_or_default()
}

/// Let in by whoever looks at signatures, whatever came of it then.
fn is_in(response: &Response) -> bool {
    let refused = [
        "AuthenticationFailed",
        "InvalidAuthenticationInfo",
        "AuthorizationFailure",
        "AuthorizationSourceIPMismatch",
        "AuthorizationProtocolMismatch",
        "AuthorizationServiceMismatch",
        "AuthorizationResourceTypeMismatch",
        "AuthorizationPermissionMismatch",
    ];
    !refused.contains(&code(response))
}

fn with_headers(head: &Head, change: impl Fn(&str, &str) -> Option<String>) -> Head {
    let mut changed = Head {
        method: head.method.clone(),
        target: head.target.clone(),
        authority: head.authority.clone(),
        ..Head::default()
    };
    for (name, value) in head.headers.iter() {
        if let Some(value) = change(name, value) {
            changed.headers.push(name, value);
        }
    }
    changed
}

fn bent(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    for at in 0..text.len() {
        for bit in [1, 2, 4, 0x10, 0x20] {
            let mut bytes = text.as_bytes().to_vec();
            bytes[at] ^= bit;
            if let Ok(text) = String::from_utf8(bytes) {
                all.push(text);
            }
        }
    }
    all
}

fn full(method: &str, target: &str, date: &str) -> Head {
    let mut head = request(
        method,
        target,
        &[("Content-Type", "application/json"), ("Content-MD5", "eA==")],
        "",
    )
    .head;
    let resource =
        canonical::resource(A, head.path(), Some("acl").filter(|_| target.contains("comp=acl")));
    let string = format!("{method}\neA==\napplication/json\n{date}\n{resource}");
    head.headers.push("x-ms-date", date);
    head.headers.push(
        "Authorization",
        format!("SharedKey {A}:{}", signature_text(&Key::development(), &string)),
    );
    head
}

#[test]
fn no_byte_of_a_signed_request_can_be_bent() {
    let bench = bench();
    let date = date_of(bench.clock.wall_ticks());
    let mut cases = 0;
    let mut refuse = |what: &str, head: Head| {
        cases += 1;
        let shown = format!("{what}: {} {}", head.method, head.target);
        assert!(!is_in(&bench.app.answer(Request { head, ..Request::default() })), "{shown}");
    };
    for target in ["/Mine?comp=acl", "/Mine(PartitionKey='p',RowKey='r')"] {
        let mut lite = request("GET", target, &[], "").head;
        sign(&mut lite, &date);
        for (scheme, good) in [("full", full("GET", target, &date)), ("lite", lite)] {
            let whole = Request { head: good.clone(), ..Request::default() };
            assert_eq!(bench.app.answer(whole).status, 200, "{scheme} {target}");
            let path = good.path().to_owned();
            let query = good.query().to_owned();
            for bent in bent(&path[A.len() + 2..]) {
                // A question mark or fragment makes another path; quotes are respelled by design.
                let target =
                    format!("/{A}/{bent}{}{query}", if query.is_empty() { "" } else { "?" });
                // A path that is no address at all is refused before anybody looks at its
                // signature; what matters is that none is let in.
                let head = Head { target, ..good.clone() };
                let response =
                    bench.app.answer(Request { head: head.clone(), ..Request::default() });
                cases_of(&mut |head| refuse("path", head), &response, head);
            }
            if query == "comp=acl" {
                for bent in bent("acl") {
                    let target = format!("{path}?comp={}", common::escaped(&bent));
                    refuse("comp", Head { target, ..good.clone() });
                }
                refuse("comp", Head { target: path.clone(), ..good.clone() });
            }
            for name in ["Authorization", "x-ms-date", "Content-Type", "Content-MD5"] {
                let Some(value) = good.headers.get(name).map(str::to_owned) else { continue };
                for bent in bent(&value) {
                    if scheme == "lite" && !matches!(name, "Authorization" | "x-ms-date") {
                        continue;
                    }
                    refuse(
                        name,
                        with_headers(&good, |own, value| {
                            Some(if own == name { bent.clone() } else { value.to_owned() })
                        }),
                    );
                }
            }
            if scheme == "full" {
                for verb in ["PUT", "DELETE", "MERGE", "PATCH", "POST"] {
                    refuse("verb", Head { method: verb.to_owned(), ..good.clone() });
                }
            }
        }
    }
    println!("SharedKey and SharedKeyLite: {cases} bent requests, 0 accepted");
    assert!(cases > 2_000, "{cases}");
}

/// Refusals of the address itself count as refused, too.
fn cases_of(refuse: &mut dyn FnMut(Head), response: &Response, head: Head) {
    if response.status != 400 {
        refuse(head);
    }
}

#[test]
fn no_byte_of_a_shared_access_signature_can_be_bent() {
    let bench = bench();
    let table = Sas::table("Mine").with("sp", "r").with("st", "2020-01-01").with("se", FAR);
    let ranged = table.with("spk", "a").with("srk", "a").with("epk", "z").with("erk", "z");
    let versions = [
        "2012-02-12",
        "2013-08-15",
        "2015-02-21",
        "2015-04-05",
        "2019-02-02",
        "2020-12-06",
        "2025-07-05",
    ];
    let mut all: Vec<Sas> = versions.map(|version| ranged.with("sv", version)).into();
    all.push(table.with("sip", "10.0.0.1-10.0.0.9").with("spr", "https,http"));
    let account = Sas::account().with("srt", "sco").with("sp", "rl").with("st", "2020-01-01");
    all.push(account.clone());
    all.push(account.with("sv", "2021-06-08").with("ses", "scope").with("spr", "https,http"));
    let mut cases = 0;
    let ask = |token: &str| {
        let mut request = request("GET", &format!("/Mine()?{token}"), &[], "");
        request.head.peer = Some([10, 0, 0, 5].into());
        bench.app.answer(request)
    };
    for good in &all {
        assert_eq!(ask(&good.token()).status, 200, "{good:?}");
        let signature = signature_text(&good.key, &good.string_to_sign());
        for bent in bent(&signature) {
            assert!(!is_in(&ask(&good.token_signed(&bent))), "{good:?}: {bent}");
            cases += 1;
        }
        for (name, value) in &good.fields {
            for bent in bent(value) {
                // The name of the table is signed without its case.
                if *name == "tn" && bent.eq_ignore_ascii_case(value) {
                    continue;
                }
                let token = good.with(name, &bent).token_signed(&signature);
                assert!(!is_in(&ask(&token)), "{name}={bent} of {good:?}");
                cases += 1;
            }
            if *name != "se" {
                let token = good.without(name).token_signed(&signature);
                assert!(!is_in(&ask(&token)), "without {name} of {good:?}");
                cases += 1;
            }
        }
        // What is not there cannot be added.
        for (name, value) in [
            ("si", "p"),
            ("sip", "10.0.0.5"),
            ("spr", "https,http"),
            ("spk", "a"),
            ("srk", "a"),
            ("epk", "b"),
            ("erk", "b"),
            ("tn", "Mine"),
            ("ss", "t"),
            ("srt", "o"),
            ("ses", "x"),
            ("skoid", "x"),
            ("sktid", "x"),
            ("ske", "x"),
            ("scid", "x"),
            ("st", "2020-01-01"),
        ] {
            if good.get(name).is_empty() {
                let token = good.with(name, value).token_signed(&signature);
                assert!(!is_in(&ask(&token)), "{name} added to {good:?}");
                cases += 1;
            }
        }
    }
    println!("shared access signatures: {cases} bent tokens of {} kinds, 0 accepted", all.len());
    assert!(cases > 3_000, "{cases}");
}

#[test]
fn accounts_hosts_and_paths() {
    let bench = bench();
    let date = date_of(bench.clock.wall_ticks());
    let (local, host) = ("127.0.0.1:10002", "devstoreaccount1.table.localhost:10002");
    let second = "devstoreaccount1-secondary.table.localhost:10002";
    let other = "second2.table.localhost:10002";
    // Authority, path, account of the header, path that was signed, whether it gets in.
    let table = [
        (local, "/devstoreaccount1/Mine", A, "/devstoreaccount1/Mine", true),
        (local, "/devstoreaccount1/Mine", A, "/Mine", false),
        (local, "/devstoreaccount1/Mine", "second2", "/devstoreaccount1/Mine", false),
        (local, "/second2/Mine", A, "/second2/Mine", false),
        (local, "/second2/Mine", A, "/devstoreaccount1/Mine", false),
        (local, "/second2/Mine", "second2", "/second2/Mine", true),
        (local, "/third3/Mine", "third3", "/third3/Mine", false),
        (local, "/nobody/Mine", "nobody", "/nobody/Mine", false),
        (local, "/nobody/Mine", A, "/nobody/Mine", false),
        (local, "/devstoreaccount1-secondary/Mine", A, "/devstoreaccount1-secondary/Mine", true),
        (local, "/devstoreaccount1-secondary/Mine", A, "/devstoreaccount1/Mine", true),
        (local, "/devstoreaccount1/Mine", A, "/devstoreaccount1-secondary/Mine", false),
        (local, "/second2-secondary/Mine", A, "/devstoreaccount1-secondary/Mine", false),
        (
            local,
            "/devstoreaccount1-secondary/Mine",
            "devstoreaccount1-secondary",
            "/devstoreaccount1-secondary/Mine",
            false,
        ),
        (local, "/DevStoreAccount1/Mine", A, "/DevStoreAccount1/Mine", false),
        (local, "/devstoreaccount1%2FMine", A, "/devstoreaccount1%2FMine", false),
        (host, "/Mine", A, "/Mine", true),
        (host, "/Mine", A, "/devstoreaccount1/Mine", false),
        (host, "/devstoreaccount1/Mine", A, "/Mine", false),
        (host, "/Mine", "second2", "/Mine", false),
        (other, "/Mine", A, "/Mine", false),
        (other, "/Mine", "second2", "/Mine", true),
        (second, "/Mine", A, "/Mine", true),
        (second, "/Mine", "devstoreaccount1-secondary", "/Mine", false),
    ];
    for (authority, path, account, signed, gets_in) in table {
        let mut head = request("GET", "", &[("x-ms-date", &date)], "").head;
        head.authority = authority.to_owned();
        head.target = path.to_owned();
        let signer = if account.starts_with(A) { A } else { account };
        let string = format!("{date}\n/{signer}{signed}");
        let signature = signature_text(&Key::development(), &string);
        head.headers.push("Authorization", format!("SharedKeyLite {account}:{signature}"));
        let response = bench.app.answer(Request { head, ..Request::default() });
        let case = format!("{authority} {path} by {account} over {signed}: {}", response.status);
        let refused = matches!(response.status, 400 | 403);
        assert_eq!(!refused && is_in(&response), gets_in, "{case}");
    }
    println!("accounts, hosts and paths: {} cases, 0 differences", table.len());
}

#[test]
fn nobody_learns_which_accounts_there_are() {
    let bench = bench();
    let date = date_of(bench.clock.wall_ticks());
    let ask = |account: &str, query: &str| {
        let headers = [("x-ms-date", date.as_str()), ("Accept", "application/json")];
        let mut head = request("GET", "", &headers, "").head;
        head.target = format!("/{account}/Mine{query}");
        if query.is_empty() {
            let signature = signature_text(&Key::development(), "something else");
            head.headers.push("Authorization", format!("SharedKeyLite {account}:{signature}"));
        }
        let response = bench.app.answer(Request { head, ..Request::default() });
        let headers: Vec<_> = response
            .headers
            .iter()
            .filter(|(name, _)| *name != "x-ms-request-id")
            .cloned()
            .collect();
        let body = String::from_utf8_lossy(&response.body).into_owned();
        let (body, _) = body.split_once("RequestId:").expect("an id");
        (response.status, headers, body.to_owned())
    };
    let sas = Sas::table("Mine").with("sp", "r").token_signed(&"A".repeat(43));
    for query in [String::new(), format!("?{sas}")] {
        assert_eq!(ask(A, &query), ask("nobody", &query));
        assert_eq!(ask(A, &query).0, 403);
    }
}
