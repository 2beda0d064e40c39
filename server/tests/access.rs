//! Shared access signatures and stored policies through the whole service: what they open, what
//! they keep shut, and in which words.

mod common;

use common::{Bench, FAR, Sas, request};
use tabulith_server::http::message::{Request, Response};

fn with(sas: &Sas, method: &str, path: &str, body: &str) -> Request {
    let joint = if path.contains('?') { '&' } else { '?' };
    let path = format!("{path}{joint}{}", sas.token());
    request(method, &path, &[("If-Match", "*"), ("Accept", "application/json")], body)
}

/// The same without a condition, for inserts and upserts.
fn plain(sas: &Sas, method: &str, path: &str, body: &str) -> Request {
    let mut request = with(sas, method, path, body);
    let mut headers = tabulith_server::http::message::Headers::default();
    for (name, value) in request.head.headers.iter().filter(|(name, _)| *name != "If-Match") {
        headers.push(name, value);
    }
    request.head.headers = headers;
    request
}

fn code(response: &Response) -> &str {
    response.get("x-ms-error-code").unwrap_or_default()
}

#[track_caller]
fn check(response: &Response, status: u16, error: &str) {
    let body = String::from_utf8_lossy(&response.body);
    assert_eq!((response.status, code(response)), (status, error), "{body}");
}

fn entity(pk: &str, rk: &str) -> String {
    format!("(PartitionKey='{pk}',RowKey='{rk}')")
}

fn bench() -> Bench {
    let bench = Bench::new();
    for table in ["Mine", "Yours"] {
        let body = format!("{{\"TableName\":\"{table}\"}}");
        check(&bench.send("POST", "/Tables", &[], &body), 201, "");
        for pk in ["a", "b", "c"] {
            for rk in ["1", "2", "3"] {
                let body = format!("{{\"PartitionKey\":\"{pk}\",\"RowKey\":\"{rk}\",\"N\":1}}");
                check(&bench.send("POST", &format!("/{table}"), &[], &body), 201, "");
            }
        }
    }
    bench
}

#[test]
fn a_table_sas_opens_what_its_letters_say() {
    let bench = bench();
    let ask = |sas: &Sas, method: &str, path: &str, body: &str| {
        bench.app.answer(with(sas, method, path, body))
    };
    let read = Sas::table("mine").with("sp", "r");
    check(&ask(&read, "GET", "/MINE()", ""), 200, "");
    check(&ask(&read, "GET", &format!("/Mine{}", entity("a", "1")), ""), 200, "");
    let mismatch = "AuthorizationPermissionMismatch";
    check(&ask(&read, "DELETE", &format!("/Mine{}", entity("a", "1")), ""), 403, mismatch);
    check(&ask(&read, "GET", "/Yours()", ""), 403, "AuthorizationFailure");
    for (method, path, body) in [
        ("GET", "/Tables", ""),
        ("GET", "/Tables('Mine')", ""),
        ("POST", "/Tables", "{\"TableName\":\"third\"}"),
        ("DELETE", "/Tables('Mine')", ""),
        ("GET", "/Mine?comp=acl", ""),
        ("PUT", "/Mine?comp=acl", ""),
    ] {
        let all = Sas::table("Mine").with("sp", "raud");
        check(&ask(&all, method, path, body), 403, "AuthorizationFailure");
    }
    let path = format!("/Mine{}", entity("a", "1"));
    for letters in ["a", "u"] {
        let one = Sas::table("Mine").with("sp", letters);
        check(&bench.app.answer(plain(&one, "PUT", &path, "{}")), 403, mismatch);
    }
    let both = Sas::table("Mine").with("sp", "ua");
    check(&bench.app.answer(plain(&both, "PUT", &path, "{}")), 204, "");
    check(&ask(&Sas::table("Mine").with("sp", "u"), "PATCH", &path, "{}"), 204, "");
}

#[test]
fn a_range_of_keys_is_all_that_there_is() {
    let bench = bench();
    let range =
        Sas::table("Mine").with("sp", "raud").with("spk", "a").with("srk", "3").with("epk", "b");
    let ask =
        |method: &str, path: &str, body: &str| bench.app.answer(with(&range, method, path, body));
    let rows = |response: &Response| {
        let body = String::from_utf8_lossy(&response.body).into_owned();
        body.matches("\"RowKey\"").count()
    };
    let all = ask("GET", "/Mine()", "");
    check(&all, 200, "");
    assert_eq!(rows(&all), 4);
    assert_eq!(rows(&ask("GET", "/Mine()?$filter=RowKey%20eq%20%271%27", "")), 1);
    assert_eq!(rows(&ask("GET", "/Mine()?$filter=PartitionKey%20eq%20%27c%27", "")), 0);
    check(&ask("GET", &format!("/Mine{}", entity("a", "3")), ""), 200, "");
    check(&ask("GET", &format!("/Mine{}", entity("a", "2")), ""), 404, "ResourceNotFound");
    check(&ask("DELETE", &format!("/Mine{}", entity("a", "2")), ""), 403, "AuthorizationFailure");
    check(&ask("PUT", &format!("/Mine{}", entity("c", "2")), "{}"), 403, "AuthorizationFailure");
    let outside = "{\"PartitionKey\":\"c\",\"RowKey\":\"9\"}";
    let inside = "{\"PartitionKey\":\"b\",\"RowKey\":\"9\"}";
    let insert = |body: &str| bench.app.answer(plain(&range, "POST", "/Mine", body));
    check(&insert(outside), 403, "AuthorizationFailure");
    check(&insert(inside), 201, "");
    // Tokens that somebody made up start no earlier and end no later.
    for (pk, rk) in [("", ""), ("a", "1"), ("0", "x")] {
        let token = tabulith_server::odata::options::token_encoded;
        let path = format!("/Mine()?NextPartitionKey={}&NextRowKey={}", token(pk), token(rk));
        assert_eq!(rows(&ask("GET", &path, "")), 5);
    }
    let token = tabulith_server::odata::options::token_encoded("c");
    assert_eq!(rows(&ask("GET", &format!("/Mine()?NextPartitionKey={token}"), "")), 0);
    // The page before the end of the range says that there is no other.
    let last = ask("GET", "/Mine()?$top=5", "");
    assert_eq!((rows(&last), last.get("x-ms-continuation-NextPartitionKey")), (5, None));
}

#[test]
fn an_account_sas_names_kinds_and_letters() {
    let bench = bench();
    let ask = |sas: &Sas, method: &str, path: &str, body: &str| {
        bench.app.answer(plain(sas, method, path, body))
    };
    let create = "{\"TableName\":\"third\"}";
    let sas = |srt: &str, sp: &str| Sas::account().with("srt", srt).with("sp", sp);
    check(
        &ask(&sas("s", "w"), "POST", "/Tables", create),
        403,
        "AuthorizationResourceTypeMismatch",
    );
    check(
        &ask(&sas("sco", "d"), "POST", "/Tables", create),
        403,
        "AuthorizationPermissionMismatch",
    );
    check(&ask(&sas("c", "w"), "POST", "/Tables", create), 201, "");
    check(&ask(&sas("s", "l"), "GET", "/Tables", ""), 200, "");
    check(&ask(&sas("o", "r"), "GET", "/Mine()", ""), 200, "");
    check(&ask(&sas("sco", "rwdlacu"), "GET", "/Mine?comp=acl", ""), 403, "AuthorizationFailure");
    let other = sas("sco", "rwdlacu").with("ss", "bqf");
    check(&ask(&other, "GET", "/Tables", ""), 403, "AuthorizationServiceMismatch");
    check(&ask(&sas("c", "d"), "DELETE", "/Tables('third')", ""), 204, "");
}

#[test]
fn a_batch_may_do_what_its_operations_may() {
    let bench = bench();
    let batch = |sas: &Sas, verb: &str, pk: &str| {
        let body = format!(
            "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\nContent-Type: \
             application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n{verb} \
             /devstoreaccount1/Mine{} HTTP/1.1\r\nIf-Match: *\r\nContent-Type: \
             application/json\r\n\r\n{{}}\r\n--c--\r\n--b--\r\n",
            entity(pk, "1")
        );
        let path = format!("/$batch?{}", sas.token());
        let headers = [("Content-Type", "multipart/mixed; boundary=b")];
        let response = bench.app.answer(request("POST", &path, &headers, &body));
        assert_eq!(response.status, 202, "{}", String::from_utf8_lossy(&response.body));
        let body = String::from_utf8_lossy(&response.body).into_owned();
        let (_, inner) = body.split_once("HTTP/1.1 ").expect("a part");
        let status: u16 = inner[..3].parse().expect("a status");
        let error = inner.split("\"code\":\"").nth(1).and_then(|rest| rest.split('"').next());
        (status, error.unwrap_or_default().to_owned())
    };
    let read = Sas::account().with("srt", "sco").with("sp", "rl");
    let denied = (403, "AuthorizationPermissionMismatch".to_owned());
    assert_eq!(batch(&read, "DELETE", "a"), denied);
    assert_eq!(batch(&Sas::table("Mine").with("sp", "rau"), "DELETE", "a"), denied);
    let range = Sas::table("Mine").with("sp", "raud").with("spk", "b");
    assert_eq!(batch(&range, "DELETE", "a"), (403, "AuthorizationFailure".to_owned()));
    let other = Sas::table("Yours").with("sp", "raud");
    assert_eq!(batch(&other, "DELETE", "b"), (403, "AuthorizationFailure".to_owned()));
    assert_eq!(batch(&range, "DELETE", "b"), (204, String::new()));
}

const POLICIES: &str = "<SignedIdentifiers><SignedIdentifier><Id>p</Id><AccessPolicy>\
                        <Start>2020-01-01</Start><Expiry>2040-01-01</Expiry>\
                        <Permission>r</Permission></AccessPolicy></SignedIdentifier>\
                        </SignedIdentifiers>";

#[test]
fn policies_are_stored_and_shown() {
    let bench = bench();
    let show = || bench.send("GET", "/Mine?comp=acl", &[("Accept", "application/xml")], "");
    let text = |response: &Response| String::from_utf8_lossy(&response.body).into_owned();
    let declaration = "<?xml version=\"1.0\" encoding=\"utf-8\"?>";
    assert_eq!(text(&show()), format!("{declaration}<SignedIdentifiers />"));
    check(&bench.send("PUT", "/Mine?comp=acl", &[], POLICIES), 204, "");
    let shown = show();
    assert_eq!(shown.get("Content-Type"), Some("application/xml"));
    assert!(text(&shown).contains("<Expiry>2040-01-01T00:00:00.0000000Z</Expiry>"), "{shown:?}");
    assert_eq!(text(&bench.send("GET", "/Yours?comp=acl", &[], "")).len(), declaration.len() + 21);
    // A table of the same name made later has none of them.
    check(&bench.send("DELETE", "/Tables('Mine')", &[], ""), 204, "");
    check(&show(), 404, "TableNotFound");
    assert!(text(&show()).contains("<m:code>TableNotFound</m:code>"));
    check(&bench.send("PUT", "/Mine?comp=acl", &[], POLICIES), 404, "TableNotFound");
    check(&bench.send("POST", "/Tables", &[], "{\"TableName\":\"Mine\"}"), 201, "");
    assert_eq!(text(&show()), format!("{declaration}<SignedIdentifiers />"));
    let six = "<SignedIdentifiers>".to_owned()
        + &(0..6)
            .map(|at| format!("<SignedIdentifier><Id>{at}</Id></SignedIdentifier>"))
            .collect::<String>()
        + "</SignedIdentifiers>";
    check(&bench.send("PUT", "/Mine?comp=acl", &[], &six), 400, "InvalidXmlDocument");
    check(&bench.send("PUT", "/Mine-secondary?comp=acl", &[], ""), 400, "InvalidResourceName");
}

#[test]
fn a_policy_and_its_signature_share_the_terms() {
    let bench = bench();
    check(&bench.send("PUT", "/Mine?comp=acl", &[], POLICIES), 204, "");
    let ask = |sas: &Sas| bench.app.answer(with(sas, "GET", "/Mine()", ""));
    let bare = || Sas::table("Mine").without("se").with("si", "p");
    check(&ask(&bare()), 200, "");
    let failed = "AuthenticationFailed";
    check(&ask(&bare().with("sp", "r")), 403, failed);
    check(&ask(&bare().with("se", FAR)), 403, failed);
    check(&ask(&bare().with("st", "2020-01-01")), 403, failed);
    check(&ask(&bare().with("si", "q")), 403, failed);
    check(&ask(&Sas::table("Yours").without("se").with("si", "p")), 403, failed);
    check(&ask(&Sas::table("Nowhere").without("se").with("si", "p")), 403, failed);
    // Revoked: the next request is refused.
    check(&bench.send("PUT", "/Mine?comp=acl", &[], ""), 204, "");
    check(&ask(&bare()), 403, failed);
    // Changed: at once.
    let wider = POLICIES.replace("<Permission>r<", "<Permission>d<");
    check(&bench.send("PUT", "/Mine?comp=acl", &[], &wider), 204, "");
    check(&ask(&bare()), 403, "AuthorizationPermissionMismatch");
    // A part of the terms in each.
    let open = POLICIES.replace("<Permission>r</Permission>", "");
    check(&bench.send("PUT", "/Mine?comp=acl", &[], &open), 204, "");
    check(&ask(&bare()), 403, failed);
    check(&ask(&bare().with("sp", "r")), 200, "");
}
