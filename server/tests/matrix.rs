//! The authorization matrix: who may do what, by construction.
//!
//! Every kind of credentials with every set of permissions asks for every operation. What must
//! come out stands in tables of this file, written from the protocol's documentation and not from
//! the server. An operation that must be refused must say why in the right word; one that must be
//! allowed must get past the gate.

#![allow(clippy::print_stdout, reason = "the counts are what the test shows")]

mod common;

use common::{Bench, FAR, Sas, request};
use std::collections::BTreeMap;
use tabulith_server::http::message::{Body, Request, Response};

/// An operation as a request, and the rows of the rules that it falls under.
struct Operation {
    name: &'static str,
    method: &'static str,
    path: String,
    if_match: bool,
    body: String,
    rule: Rule,
    /// The keys of the entity, where it is about one.
    keys: Option<(&'static str, &'static str)>,
}

/// The columns of the two tables of permissions.
#[derive(Clone, Copy)]
struct Rule {
    /// For a table SAS: letters that are all needed; nothing where no table SAS will do.
    table: Option<&'static str>,
    /// For an account SAS: kinds of which one is needed, and sets of letters of which one is
    /// needed whole; nothing where no account SAS will do.
    account: Option<(&'static str, &'static [&'static str])>,
    /// Whether the operation is a write, which the second endpoint does not do.
    writes: bool,
}

const fn rule(
    table: Option<&'static str>,
    account: Option<(&'static str, &'static [&'static str])>,
    writes: bool,
) -> Rule {
    Rule { table, account, writes }
}

/// The keys that the ranges below have inside, and those they have outside.
const PLACES: [(&str, &str); 3] = [("a", "1"), ("m", "5"), ("z", "9")];

const BATCH: &str = "multipart/mixed; boundary=b";

fn operations() -> Vec<Operation> {
    let mut all = Vec::new();
    let mut plain = |name, method, path: &str, body: &str, rule| {
        all.push(Operation {
            name,
            method,
            path: path.to_owned(),
            if_match: false,
            body: body.to_owned(),
            rule,
            keys: None,
        });
    };
    let s = "s";
    let set = "<StorageServiceProperties />";
    plain(
        "get properties",
        "GET",
        "/?restype=service&comp=properties",
        "",
        rule(None, Some((s, &["r"])), false),
    );
    plain(
        "get stats",
        "GET",
        "/?restype=service&comp=stats",
        "",
        rule(None, Some((s, &["r"])), false),
    );
    plain(
        "set properties",
        "PUT",
        "/?restype=service&comp=properties",
        set,
        rule(None, Some((s, &["w"])), true),
    );
    plain("list tables", "GET", "/Tables", "", rule(None, Some(("sc", &["l"])), false));
    plain("get table", "GET", "/Tables('Mine')", "", rule(None, Some(("c", &["l", "r"])), false));
    let create = "{\"TableName\":\"Mine\"}";
    plain("create table", "POST", "/Tables", create, rule(None, Some(("c", &["c", "w"])), true));
    plain(
        "delete table",
        "DELETE",
        "/Tables('Nothing')",
        "",
        rule(None, Some(("c", &["d"])), true),
    );
    plain("get policies", "GET", "/Mine?comp=acl", "", rule(None, None, false));
    plain("set policies", "PUT", "/Nothing?comp=acl", "", rule(None, None, true));
    plain("query", "GET", "/Mine()", "", rule(Some("r"), Some(("o", &["r"])), false));
    all.extend(entity_operations());
    all
}

/// Operations on one entity, each by itself and as a batch of one.
fn entity_operations() -> Vec<Operation> {
    let mut all = Vec::new();
    let entity_rules: [(&'static str, &'static str, bool, Rule); 7] = [
        ("get", "GET", false, rule(Some("r"), Some(("o", &["r"])), false)),
        ("insert or replace", "PUT", false, rule(Some("au"), Some(("o", &["au"])), true)),
        ("insert or merge", "PATCH", false, rule(Some("au"), Some(("o", &["au"])), true)),
        ("update", "PUT", true, rule(Some("u"), Some(("o", &["u"])), true)),
        ("merge", "MERGE", true, rule(Some("u"), Some(("o", &["u"])), true)),
        ("delete", "DELETE", true, rule(Some("d"), Some(("o", &["d"])), true)),
        ("insert", "POST", false, rule(Some("a"), Some(("o", &["a"])), true)),
    ];
    for (pk, rk) in PLACES {
        for (name, method, if_match, rule) in entity_rules {
            let insert = name == "insert";
            let path = if insert {
                "/Mine".to_owned()
            } else {
                format!("/Mine(PartitionKey='{pk}',RowKey='{rk}')")
            };
            let body = match (insert, method) {
                (true, _) => format!("{{\"PartitionKey\":\"{pk}\",\"RowKey\":\"{rk}\"}}"),
                // Refused for what it says, once it is past the gate: nothing changes.
                (false, "PUT" | "PATCH" | "MERGE") => "{\"1\":1}".to_owned(),
                _ => String::new(),
            };
            let part = batch(method, &path, if_match, &body);
            let keys = Some((pk, rk));
            all.push(Operation { name, method, path, if_match, body, rule, keys });
            all.push(Operation {
                name: "part of a batch",
                method: "POST",
                path: "/$batch".to_owned(),
                if_match: false,
                body: part,
                rule,
                keys,
            });
        }
    }
    all
}

/// A batch of one operation: a query stands alone, a change in a change set.
fn batch(method: &str, path: &str, if_match: bool, body: &str) -> String {
    let condition = if if_match { "If-Match: *\r\n" } else { "" };
    let part = format!(
        "Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n{method} \
         /devstoreaccount1{path} HTTP/1.1\r\nContent-Type: application/json\r\nAccept: \
         application/json\r\n{condition}\r\n{body}\r\n"
    );
    if method == "GET" {
        format!("--b\r\n{part}--b--\r\n")
    } else {
        format!(
            "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\n{part}--c--\r\n--b--\r\n"
        )
    }
}

/// What comes out: let in, not found, or refused with this code.
fn outcome(operation: &Operation, response: &Response) -> String {
    let text = String::from_utf8_lossy(&response.body);
    let (status, code) = match text.split_once("\r\nHTTP/1.1 ") {
        Some((_, inner)) if operation.path == "/$batch" => {
            let code = inner.split("\"code\":\"").nth(1).and_then(|rest| rest.split('"').next());
            (inner[..3].parse().expect("a status"), code.unwrap_or_default().to_owned())
        }
        _ => (response.status, response.get("x-ms-error-code").unwrap_or_default().to_owned()),
    };
    match status {
        401 | 403 => code,
        404 if code == "ResourceNotFound" && operation.rule.table == Some("r") => {
            "nothing".to_owned()
        }
        _ => "in".to_owned(),
    }
}

fn asked(operation: &Operation, token: &str, secondary: bool) -> Request {
    let joint = if operation.path.contains('?') { '&' } else { '?' };
    let path = format!("{}{joint}{token}", operation.path);
    let batch = operation.path == "/$batch";
    let mut headers = vec![("Accept", "application/json"), ("x-ms-version", "2019-02-02")];
    headers.push(("Content-Type", if batch { BATCH } else { "application/json" }));
    if operation.if_match {
        headers.push(("If-Match", "*"));
    }
    let mut request = request(operation.method, &path, &headers, &operation.body);
    if secondary {
        request.head.target = request.head.target.replacen("account1/", "account1-secondary/", 1);
        if let Body::Whole(body) = &request.body {
            let text = String::from_utf8_lossy(body).into_owned();
            request.body = Body::Whole(text.into());
        }
    }
    request
}

/// The letters of a set: the bits of a number.
fn letters(of: &str, bits: usize) -> String {
    of.chars().enumerate().filter(|(at, _)| bits >> at & 1 == 1).map(|(_, letter)| letter).collect()
}

/// Ranges of keys: the four fields, and which of [`PLACES`] lie inside.
const RANGES: [([&str; 4], [bool; 3]); 9] = [
    (["", "", "", ""], [true, true, true]),
    (["b", "", "", ""], [false, true, true]),
    (["", "", "y", ""], [true, true, false]),
    (["b", "", "y", ""], [false, true, false]),
    (["m", "5", "", ""], [false, true, true]),
    (["m", "6", "", ""], [false, false, true]),
    (["", "", "m", "5"], [true, true, false]),
    (["", "", "m", "4"], [true, false, false]),
    (["m", "5", "m", "5"], [false, true, false]),
];

const MISMATCH: &str = "AuthorizationPermissionMismatch";
const FAILURE: &str = "AuthorizationFailure";
const READ_ONLY: &str = "InsufficientAccountPermissions";

#[derive(Default)]
struct Count {
    cases: usize,
    differences: Vec<String>,
    outcomes: BTreeMap<String, usize>,
}

impl Count {
    fn check(&mut self, must: &str, is: String, what: impl Fn() -> String) {
        self.cases += 1;
        *self.outcomes.entry(is.clone()).or_default() += 1;
        if must != is && self.differences.len() < 20 {
            self.differences.push(format!("{}: {is}, not {must}", what()));
        }
    }
}

fn bench() -> Bench {
    let bench = Bench::new();
    let table = bench.send("POST", "/Tables", &[], "{\"TableName\":\"Mine\"}");
    assert_eq!(table.status, 201);
    for (pk, rk) in PLACES {
        let body = format!("{{\"PartitionKey\":\"{pk}\",\"RowKey\":\"{rk}\"}}");
        assert_eq!(bench.send("POST", "/Mine", &[], &body).status, 201);
    }
    bench
}

/// Deletes leave a hole that the next case must not find.
fn refill(bench: &Bench, operation: &Operation, is: &str) {
    let deletes = operation.rule.table == Some("d");
    if let (Some((pk, rk)), true, "in") = (operation.keys, deletes, is) {
        let path = format!("/Mine(PartitionKey='{pk}',RowKey='{rk}')");
        assert_eq!(bench.send("PUT", &path, &[], "{}").status, 204);
    }
}

#[test]
fn table_signatures() {
    let mut count = Count::default();
    let bench = bench();
    // Every set of letters, with and without a stored policy, for the table and for another.
    let policies: String = (1..16).map(|bits| letters("raud", bits)).collect::<Vec<_>>().join(",");
    let mut stored = String::new();
    for batch_of_five in policies.split(',').collect::<Vec<_>>().chunks(5) {
        let identifiers: String = batch_of_five
            .iter()
            .map(|letters| {
                format!(
                    "<SignedIdentifier><Id>{letters}</Id><AccessPolicy><Expiry>{FAR}</Expiry>\
                     <Permission>{letters}</Permission></AccessPolicy></SignedIdentifier>"
                )
            })
            .collect();
        let body = format!("<SignedIdentifiers>{identifiers}</SignedIdentifiers>");
        assert_eq!(bench.send("PUT", "/Mine?comp=acl", &[], &body).status, 204);
        for letters in batch_of_five {
            let sas = Sas::table("mine").without("se").with("si", letters);
            run_table(&bench, &mut count, &sas, letters, "Mine", false);
        }
        stored = body;
    }
    assert!(!stored.is_empty());
    for bits in 0..16 {
        let own = letters("raud", bits);
        let sas = |table: &str| Sas::table(table).with("sp", &own);
        let own = if own.is_empty() { None } else { Some(own.as_str()) };
        for table in ["MINE", "Other"] {
            for secondary in [false, true] {
                match own {
                    Some(own) => run_table(&bench, &mut count, &sas(table), own, table, secondary),
                    // A signature that permits nothing at all is none.
                    None => run_nothing(&bench, &mut count, &sas(table)),
                }
            }
        }
    }
    finish("table SAS", count);
}

fn run_nothing(bench: &Bench, count: &mut Count, sas: &Sas) {
    for operation in operations() {
        let response = bench.app.answer(asked(&operation, &sas.token(), false));
        count.check("AuthenticationFailed", outcome(&operation, &response), || {
            operation.name.to_owned()
        });
    }
}

fn run_table(
    bench: &Bench,
    count: &mut Count,
    sas: &Sas,
    letters: &str,
    table: &str,
    secondary: bool,
) {
    let operations = operations();
    let own_table = table.eq_ignore_ascii_case("mine");
    for (range, inside) in RANGES {
        let mut sas = sas.clone();
        for (name, value) in ["spk", "srk", "epk", "erk"].into_iter().zip(range) {
            if !value.is_empty() {
                sas = sas.with(name, value);
            }
        }
        let token = sas.token();
        for operation in &operations {
            let covered = operation.keys.is_none_or(|keys| {
                let place = PLACES.iter().position(|place| *place == keys);
                inside[place.expect("a place")]
            });
            let must = match operation.rule.table {
                _ if secondary && operation.rule.writes => READ_ONLY,
                None => FAILURE,
                Some(_) if !own_table => FAILURE,
                Some(needed) if !needed.chars().all(|letter| letters.contains(letter)) => MISMATCH,
                Some("r") if !covered => "nothing",
                Some(_) if !covered => FAILURE,
                Some(_) => "in",
            };
            let is = outcome(operation, &bench.app.answer(asked(operation, &token, secondary)));
            refill(bench, operation, &is);
            count.check(must, is, || {
                let Operation { name, method, path, .. } = operation;
                format!("{name} ({method} {path}) by {letters} on {table} {range:?}")
            });
        }
    }
}

#[test]
fn account_signatures() {
    let mut count = Count::default();
    let bench = bench();
    let operations = operations();
    for service in ["t", "bqtf", "bqf"] {
        for kinds in 0..8 {
            // Every set of the letters that tables know.
            for bits in 0..128 {
                let (kinds, own) = (letters("sco", kinds), letters("rwdlacu", bits));
                let sas = Sas::account().with("ss", service).with("srt", &kinds).with("sp", &own);
                let token = sas.token();
                // Of those for other services a sample will do.
                if !service.contains('t') && bits % 16 != 0 {
                    continue;
                }
                for operation in &operations {
                    let must = account_rule(operation, service, &kinds, &own);
                    let is = outcome(operation, &bench.app.answer(asked(operation, &token, false)));
                    refill(&bench, operation, &is);
                    count.check(must, is, || {
                        let Operation { name, method, path, .. } = operation;
                        format!("{name} ({method} {path}) by {service} {kinds} {own}")
                    });
                }
            }
        }
    }
    finish("account SAS", count);
}

fn account_rule(operation: &Operation, service: &str, kinds: &str, own: &str) -> &'static str {
    // What says nothing about kinds or permissions is no signature at all.
    if kinds.is_empty() || own.is_empty() {
        return "AuthenticationFailed";
    }
    if !service.contains('t') {
        return "AuthorizationServiceMismatch";
    }
    let Some((needed_kinds, needed)) = operation.rule.account else { return FAILURE };
    if !needed_kinds.chars().any(|kind| kinds.contains(kind)) {
        return "AuthorizationResourceTypeMismatch";
    }
    let whole = |set: &&str| set.chars().all(|letter| own.contains(letter));
    if needed.iter().any(whole) { "in" } else { MISMATCH }
}

fn finish(what: &str, count: Count) {
    println!(
        "{what}: {} cases, {} differences; {:?}",
        count.cases,
        count.differences.len(),
        count.outcomes
    );
    assert!(count.differences.is_empty(), "{:#?}", count.differences);
    assert!(count.cases >= 15_000, "{} cases", count.cases);
}
