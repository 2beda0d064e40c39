//! Requests that are nearly good: odd headers, polluted parameters, and moments in forms and
//! places where they do not count.

#![allow(clippy::print_stdout, reason = "the counts are what the test shows")]

mod common;

use common::{Bench, FAR, START, Sas, date_of, request, sign};
use tabulith::env::clock::Clock as _;
use tabulith_server::auth::shared_key::signature_text;
use tabulith_server::config::Config;
use tabulith_server::http::message::{Request, Response};

fn bench() -> Bench {
    let bench = Bench::new();
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

/// Forms of `Authorization`, none of which lets anybody in.
fn odd_authorizations(good: &str) -> Vec<Vec<String>> {
    let (scheme, rest) = good.split_once(' ').expect("a scheme");
    let (account, signature) = rest.split_once(':').expect("an account");
    let unpadded = signature.trim_end_matches('=');
    let one = [
        String::new(),
        " ".to_owned(),
        "\t".to_owned(),
        scheme.to_owned(),
        format!("{scheme} "),
        format!("{scheme}:"),
        format!("{scheme} :"),
        format!("{scheme} {account}"),
        format!("{scheme} {account}:"),
        format!("{scheme} {account}: "),
        format!("{scheme} :{signature}"),
        format!("{scheme} {signature}"),
        format!("{scheme} {signature}:{account}"),
        format!("{scheme}{account}:{signature}"),
        format!("{scheme}\t{account}:{signature}"),
        format!("{scheme},{account}:{signature}"),
        format!("{scheme} {account} :{signature}"),
        format!("{scheme} {account}: {signature}"),
        format!("{scheme} {account}::{signature}"),
        format!("{scheme} {account}:{signature}:"),
        format!("{scheme} {account}:{signature},"),
        format!("{scheme} {account}:{signature};"),
        format!("{scheme} {account}:{signature} x"),
        format!("{scheme} {account}:{signature}="),
        format!("{scheme} {account}:={signature}"),
        format!("{scheme} {account}:{unpadded}"),
        format!("{scheme} {account}:\"{signature}\""),
        format!("{scheme} \"{account}\":{signature}"),
        format!("{scheme} {account}:{signature}{signature}"),
        format!("{scheme} {account}:{}", signature.to_lowercase()),
        format!("{scheme} {account}:{}", signature.replace(['+', '/'], "-")),
        format!("{scheme} {account}:{}", common::escaped(signature)),
        format!("{scheme} {account}:{}", "A".repeat(43) + "="),
        format!("{scheme} {account}:{}", "A".repeat(44)),
        format!("{scheme} {account}:{}", "/".repeat(43) + "="),
        format!("{scheme} {account}:{}", "A".repeat(100_000)),
        format!("{scheme} {}:{signature}", account.to_uppercase()),
        format!("{scheme} {account}-secondary:{signature}"),
        format!("{scheme} {account}x:{signature}"),
        format!("{scheme} second2:{signature}"),
        format!("{scheme} nobody:{signature}"),
        format!("{scheme} ../{account}:{signature}"),
        format!("{scheme} {account}\0:{signature}"),
        format!("{} {account}:{signature}", scheme.to_lowercase()),
        format!("{} {account}:{signature}", scheme.to_uppercase()),
        format!("{scheme}Lite {account}:{signature}"),
        format!("Shared {account}:{signature}"),
        format!("SharedKey {account}:{signature}"),
        format!("SharedKey2 {account}:{signature}"),
    ];
    let others = other_schemes(good);
    let mut all: Vec<Vec<String>> =
        one.into_iter().chain(others).map(|value| vec![value]).collect();
    all.push(vec![]);
    all.push(vec![good.to_owned(), good.to_owned()]);
    all.push(vec![good.to_owned(), "Bearer x".to_owned()]);
    all.push(vec![String::new(), good.to_owned()]);
    all
}

/// Schemes that nobody is asked for.
fn other_schemes(good: &str) -> Vec<String> {
    vec![
        "Basic YTpiYw==".to_owned(),
        "Basic YTpi".to_owned(),
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        "Bearer x.y.z".to_owned(),
        "Digest username=\"a\"".to_owned(),
        "Negotiate YTpi".to_owned(),
        "AWS4-HMAC-SHA256 Credential=a".to_owned(),
        format!("x {good}"),
        "é".to_owned(),
        "Bearer YTpi".to_owned(),
    ]
}

#[test]
fn odd_forms_of_authorization() {
    let bench = bench();
    let date = date_of(bench.clock.wall_ticks());
    let mut head = request("GET", "/Mine()", &[], "").head;
    sign(&mut head, &date);
    let good = head.headers.get("Authorization").expect("signed").to_owned();
    let ask = |target: &str, values: &[String]| {
        let mut head = request("GET", target, &[("x-ms-date", &date)], "").head;
        for value in values {
            head.headers.push("Authorization", value.as_str());
        }
        bench.app.answer(Request { head, ..Request::default() })
    };
    assert_eq!(ask("/Mine()", std::slice::from_ref(&good)).status, 200);
    let all = odd_authorizations(&good);
    let sas = Sas::table("Mine").with("sp", "r").token();
    assert_eq!(ask(&format!("/Mine()?{sas}"), &[]).status, 200);
    for values in &all {
        let refused = ask("/Mine()", values);
        assert!(matches!(refused.status, 400 | 403), "{values:?}: {}", refused.status);
        assert!(!is_in(&refused), "{values:?}: {}", code(&refused));
        // A header wins over a signature in the address, good as that may be.
        if !values.is_empty() {
            assert!(!is_in(&ask(&format!("/Mine()?{sas}"), values)), "{values:?} and a SAS");
        }
    }
    println!("forms of Authorization: {}, 0 accepted", all.len());
    assert!(all.len() >= 60);
}

#[test]
fn polluted_parameters() {
    let bench = bench();
    let good = Sas::table("Mine").with("sp", "r").with("spk", "p");
    let signature = common::escaped(&signature_text(&good.key, &good.string_to_sign()));
    let token = good.token();
    let ask = |query: &str| bench.app.answer(request("GET", &format!("/Mine()?{query}"), &[], ""));
    assert_eq!(ask(&token).status, 200);
    let mut all = Vec::new();
    // Each field once more: another value, none, before and behind, in other cases.
    for (name, value) in [
        ("sp", "raud"),
        ("sig", "x"),
        ("se", "2100-01-01"),
        ("sv", "2020-12-06"),
        ("tn", "Other"),
        ("spk", "a"),
    ] {
        let own = if name == "sig" { signature.clone() } else { common::escaped(good.get(name)) };
        let again = format!("{token}&{name}={own}");
        assert_eq!(ask(&again).status, 200, "a field that says the same again");
        for value in [value, ""] {
            all.push(format!("{name}={value}&{token}"));
            all.push(format!("{token}&{name}={value}"));
        }
        let mut first = name.to_owned();
        first[..1].make_ascii_uppercase();
        all.push(format!("{token}&{}={value}", name.to_uppercase()));
        all.push(format!("{token}&{first}={value}"));
        all.push(format!("{token}&%{:02x}{}={value}", name.as_bytes()[0], &name[1..]));
        all.push(token.replacen(&format!("{name}="), &format!("{}=", name.to_uppercase()), 1));
    }
    for other in [
        token.replace('&', ";"),
        token.replace('&', "&amp;"),
        token.replace('&', "%26"),
        token.replace('=', "%3D"),
        token.replace("sp=r", "sp=r%26sp=raud"),
        token.replace("sp=r", "sp=r;sp=raud"),
        token.replace("sp=r", "sp=r+"),
        token.replace("sp=r", "sp=%72%00"),
        token.replace("sp=r", "sp=%2572"),
        token.replace("sp=r", "sp[]=r"),
        token.replace("sp=r", "sp==r"),
        token.replace("sp=r", "sp%20=r"),
        token.replace("sp=r", "sp=r&sp"),
        token.replace("sp=r", "sp=ra"),
        token.replace(&signature, &signature.replace('%', "%25")),
        token.replace(&signature, &format!("{signature}%20")),
        token.replace(&signature, &format!("%20{signature}")),
        token.replace(&signature, &format!("{signature}%00")),
        token.replace(&signature, &format!("{signature},{signature}")),
        token.replace(&signature, ""),
        token.replace("tn=Mine", "tn=Min%65/"),
        token.replace("tn=Mine", "tn=%4Dine%20"),
        token.replace("tn=Mine", "tn=M%C4%B1ne"),
        token.replace("tn=Mine", "tn=Mine%00"),
        token.replace("tn=Mine", "tn="),
        token.replace("tn=Mine", "TN=Mine"),
        token.replace("sv=2019-02-02", "sv=2019-02-02%20"),
        token.replace("sv=2019-02-02", "sv=2019-2-2"),
        token.replace("sv=2019-02-02", "sv=0000-00-00"),
        token.replace("sv=2019-02-02", "sv="),
        token.replace("sv=2019-02-02", "sv"),
        token.replace("sv=2019-02-02", "api-version=2019-02-02"),
        token.replace("&sig=", "&signature="),
        token.replace("spk=p", "spk=p&SPK=a"),
        token.replace("spk=p", "spk=%70%2570"),
        token.replace("spk=p&", ""),
    ] {
        all.push(other);
    }
    let mut refused = 0;
    for query in &all {
        let response = ask(query);
        assert!(matches!(response.status, 400 | 401 | 403), "{query}: {}", response.status);
        assert!(!is_in(&response) || response.status == 400, "{query}: {}", code(&response));
        refused += 1;
    }
    // What may be spelled in more than one way, and means the same.
    for query in [
        token.replace("sp=r", "%73p=%72"),
        token.replace("tn=Mine", "tn=mINE"),
        format!("_=1&{token}&x=y"),
        format!("&&{token}&"),
        token.replace("%2B", "+"),
    ] {
        assert_eq!(ask(&query).status, 200, "{query}");
    }
    println!("polluted parameters: {refused}, 0 accepted");
    assert!(refused >= 80, "{refused}");
}

#[test]
fn dates_of_signed_requests() {
    let bench = bench();
    let at = |seconds: i64, date: &str| {
        let now = START.cast_signed() + seconds * 10_000_000;
        bench.clock.set_wall(now.cast_unsigned());
        let mut head = request("GET", "/Mine()", &[], "").head;
        sign(&mut head, date);
        bench.app.answer(Request { head, ..Request::default() }).status
    };
    let date = date_of(START);
    for (seconds, status) in
        [(0, 200), (899, 200), (901, 403), (-899, 200), (-901, 403), (86_400, 403)]
    {
        assert_eq!(at(seconds, &date), status, "{seconds} s");
    }
    let now = "Fri, 01 Jan 2021 00:00:00";
    let good = [
        format!("{now} GMT"),
        format!("{now} +0000"),
        "Fri, 01 Jan 2021 01:00:00 +0100".to_owned(),
    ];
    for date in &good {
        assert_eq!(at(0, date), 200, "{date}");
    }
    let bad = [
        "",
        "0",
        "1609459200",
        "now",
        "2021-01-01T00:00:00Z",
        "2021-01-01",
        "Jan 1 2021",
        "Fri, 01 Jan 2021",
        "Fri, 32 Jan 2021 00:00:00 GMT",
        "Fri, 01 Foo 2021 00:00:00 GMT",
        "Fri, 01 Jan 2021 24:00:00 GMT",
        "Fri, 01 Jan 1921 00:00:00 GMT",
        "Mon, 01 Jan 2021 00:00:00 GMT",
        "Fri, 01 Jan 12021 00:00:00 GMT",
        "Friday, 01-Jan-21 00:00:00 GMT",
        "Fri Jan  1 00:00:00 2021",
        "Fri, 01 Jan 2021 00:00:00 GMT x",
        "\u{661}",
        "Fri, 01 Jan 2021 00:00:00 +9900",
    ];
    for date in bad {
        assert_eq!(at(0, date), 403, "{date}");
    }
    // Times of a SAS: from the start on, before the end.
    let sas = |start: &str, end: &str| {
        bench.clock.set_wall(START);
        let sas = Sas::table("Mine").with("sp", "r").with("se", end);
        let sas = if start.is_empty() { sas } else { sas.with("st", start) };
        bench.app.answer(request("GET", &format!("/Mine()?{}", sas.token()), &[], "")).status
    };
    let (now, next) = ("2021-01-01T00:00:00Z", "2021-01-01T00:00:00.0000001Z");
    let mut times = 0;
    for (start, end, status) in [
        ("", next, 200),
        ("", now, 403),
        (now, next, 200),
        (next, FAR, 403),
        (now, now, 403),
        (FAR, FAR, 403),
        (next, now, 403),
        ("2021-01-01", FAR, 200),
        ("2021-01-01T00:00Z", FAR, 200),
        ("2021-01-01T00:00:00.0Z", FAR, 200),
        ("2021-01-01T01:00:00+01:00", FAR, 200),
        ("2021-01-01T00:00:00", FAR, 403),
        ("2021-01-01T00Z", FAR, 403),
        ("20210101", FAR, 403),
        ("1601-01-01", "9999-12-31T23:59:59.9999999Z", 200),
        ("", "10000-01-01", 403),
        ("1600-12-31", FAR, 403),
        ("", "2020-12-31T23:59:59.9999999Z", 403),
        ("x", FAR, 403),
        ("", "2021-01-01T00:00:00-01:00", 200),
        ("", "2021-02-30", 403),
        ("", "", 403),
    ] {
        assert_eq!(sas(start, end), status, "{start} to {end}");
        times += 1;
    }
    println!("dates: {} of requests, {times} of signatures", good.len() + bad.len() + 6);
}

/// What had expired does not count again because the clock was set back.
#[test]
fn a_clock_that_was_set_back_lets_nobody_in_by_time() {
    for (date_checked, clock_believed) in [(true, false), (false, false), (true, true)] {
        let bench = Bench::with(Config { date_checked, clock_believed, ..Config::default() });
        let at = |seconds: u64| bench.clock.set_wall(START + seconds * 10_000_000);
        assert_eq!(bench.send("POST", "/Tables", &[], "{\"TableName\":\"Mine\"}").status, 201);
        at(3600); // The newest commit comes with this.
        let body = "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}";
        assert_eq!(bench.send("POST", "/Mine", &[], body).status, 201);
        let expired = Sas::table("Mine").with("sp", "r").with("se", "2021-01-01T00:30:00Z");
        let lasting = Sas::table("Mine").with("sp", "r").with("se", FAR);
        let by = |sas: &Sas| {
            let target = format!("/Mine()?{}", sas.token());
            bench.app.answer(request("GET", &target, &[], "")).status
        };
        let signed = || bench.send("GET", "/Mine()", &[], "").status;
        assert_eq!((by(&expired), by(&lasting), signed()), (403, 200, 200));
        at(3600 - 900);
        assert_eq!((by(&expired), by(&lasting), signed()), (403, 200, 200));
        at(1200); // Before the end of the one that has expired.
        let by_key = if date_checked { 403 } else { 200 };
        let expected = if clock_believed { (200, 200, 200) } else { (403, 403, by_key) };
        assert_eq!((by(&expired), by(&lasting), signed()), expected);
        at(3600);
        assert_eq!((by(&expired), by(&lasting), signed()), (403, 200, 200));
    }
}

/// A proxy that ends TLS passes requests on without it. Clients go where answers say.
#[test]
fn addresses_in_answers_are_those_that_clients_ask() {
    let trusted_proxies = vec!["10.0.0.0/8".parse().expect("a network")];
    let bench = Bench::with(Config { trusted_proxies, ..Config::default() });
    let ask = |peer: &str, path: &str, content_type: &str, body: &str| {
        let says = [("X-Forwarded-Proto", "https"), ("Content-Type", content_type)];
        let mut request = request("POST", path, &says, body);
        request.head.headers.push("Accept", "application/json;odata=fullmetadata");
        request.head.peer = peer.parse().ok();
        sign(&mut request.head, &date_of(bench.clock.wall_ticks()));
        bench.app.answer(request)
    };
    let base = "127.0.0.1:10002/devstoreaccount1";
    for (peer, scheme, other) in [("10.0.0.7", "https", "http"), ("192.0.2.1", "http", "https")] {
        let is_right = |response: &Response| {
            let body = String::from_utf8_lossy(&response.body).into_owned();
            let headers = response.headers.iter().map(|(name, value)| format!("{name}: {value}\n"));
            let text: String = headers.chain([body]).collect();
            assert!(
                response.status < 300 && text.contains(&format!("{scheme}://{base}")),
                "{text}"
            );
            assert!(!text.contains(&format!("{other}://{base}")), "{text}");
        };
        let table = format!("{{\"TableName\":\"{scheme}\"}}");
        is_right(&ask(peer, "/Tables", "application/json", &table));
        let entity = |row| format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\"}}");
        is_right(&ask(peer, &format!("/{scheme}"), "application/json", &entity(1)));
        let set = format!(
            "--b\nContent-Type: multipart/mixed; boundary=c\n\n--c\nContent-Type: application/http\n\n\
             POST /{scheme} HTTP/1.1\nAccept: application/json;odata=fullmetadata\n\n{}\n--c--\n--b--\n",
            entity(2)
        );
        is_right(&ask(peer, "/$batch", "multipart/mixed; boundary=b", &set));
    }
}
