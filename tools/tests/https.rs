//! Commands over TLS: whom they believe, signatures in place of keys, and what they say otherwise.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{Place, Ran};
use tabulith_client::{Connection, DateTime, Permissions, Protocols, TableSas};

const ROWS: &str = "part,n\np1,1\np1,2\np2,3\n";
const KEYS: [&str; 4] = ["--partition-key", "{part}", "--row-key", "{n}"];

#[track_caller]
fn refused(ran: &Ran, code: i32, because: &[&str]) {
    assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{}", ran.err);
    for text in because {
        assert!(ran.err.contains(text), "{text} is not in: {}", ran.err);
    }
}

/// Makes `other.pem`, the certificate of another server: with it as its list the machine trusts one
/// authority, whatever machine it is.
fn trust_another(place: &Place) {
    place.serve_tls("other", "other.pem").kill();
}

#[test]
fn a_table_goes_in_and_out_over_tls() {
    let place = Place::new();
    let server = place.serve_tls("data", "ca.pem");
    let file = place.file("f.csv", ROWS);
    let there = ["--connection-string", &server.tls_connection(), "--ca", "ca.pem"];
    place.ok(&[&["import", &file, "-t", "rows"], &KEYS[..], &there].concat());
    let found = place.ok(&[
        &["query", "rows", "--filter", "n gt 1", "-o", "csv", "--select", "n"],
        &there[..],
    ]
    .concat());
    assert_eq!(found.out, "PartitionKey,RowKey,n\np1,2,2\np2,3,3\n");
    let over_tls = place.ok(&[&["export", "rows"], &there[..]].concat()).out;
    let plain = place.ok(&["export", "rows", "--connection-string", &server.connection]).out;
    assert_eq!(over_tls, plain);
    let counted = place.ok(&[&["query", "rows", "--count"], &there[..]].concat());
    assert_eq!(counted.out, "3\n");
    let mut command = place.command(&["query", "rows", "--count", "--ca", "ca.pem"]);
    command.env("AZURE_STORAGE_CONNECTION_STRING", server.tls_connection());
    assert_eq!(command.output().unwrap().stdout, b"3\n");
}

#[test]
fn an_address_with_a_signature_is_enough() {
    let place = Place::new();
    let server = place.serve_tls("data", "ca.pem");
    let file = place.file("f.csv", ROWS);
    let owner = server.tls_connection();
    let there = ["--connection-string", &owner, "--ca", "ca.pem"];
    place.ok(&[&["import", &file, "-t", "rows"], &KEYS[..], &there].concat());
    let owner = Connection::parse(&owner).unwrap();
    let sas = TableSas {
        permissions: Some(Permissions { read: true, ..Permissions::default() }),
        expiry: Some("2040-01-01T00:00:00Z".parse::<DateTime>().unwrap()),
        protocols: Protocols::HttpsOnly,
        ..TableSas::new("rows")
    };
    let token = sas.sign(&owner.account, owner.key().unwrap()).unwrap();
    let address = format!("{}/rows?{token}", server.tls_endpoint());
    let string = format!("TableEndpoint={};SharedAccessSignature={token}", server.tls_endpoint());
    for text in [&address, &string] {
        let there = ["--connection-string", text, "--ca", "ca.pem"];
        assert_eq!(place.ok(&[&["query", "rows", "--count"], &there[..]].concat()).out, "3\n");
        let ran = place.run(&[&["import", &file, "-t", "other"], &KEYS[..], &there].concat());
        assert_eq!(ran.code, 6, "it may read only: {}", ran.err);
        assert!(!ran.err.contains("sig="), "{}", ran.err);
    }
}

#[test]
fn a_server_that_nobody_vouches_for_is_not_believed() {
    let place = Place::new();
    let server = place.serve_tls("data", "ca.pem");
    let query = ["query", "rows", "--connection-string", &server.tls_connection()];
    trust_another(&place);
    let mut command = place.command(&query);
    let output = command.env("SSL_CERT_FILE", place.path("other.pem")).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{err}");
    let endpoint = server.tls_endpoint();
    for text in ["reading rows: no trust in ", &endpoint, "invalid peer certificate", "--ca FILE"] {
        assert!(err.contains(text), "{text} is not in: {err}");
    }
    let with = |file: &str| place.run(&[&query[..], &["--ca", file]].concat());
    refused(&with("none.pem"), 3, &["--ca none.pem", "No such file"]);
    place.file("text.pem", "text");
    refused(&with("text.pem"), 2, &["--ca text.pem: no certificate in PEM"]);
    refused(&place.run(&["query", "rows", "--data-dir", "data", "--ca", "ca.pem"]), 2, &["--ca"]);
}

#[test]
fn the_list_is_asked_over_tls() {
    let place = Place::new();
    let server = place.serve_tls("data", "ca.pem");
    let endpoint = server.tls_endpoint();
    let ask = ["conformance", &endpoint, "--only", "get-table.", "--only", "order.ordinal"];
    let ran = place.ok(&[&ask[..], &["--ca", "ca.pem"]].concat());
    assert!(ran.out.contains("| all | 6 | 6 | 0 | 0 | 100.0 % |"), "{}", ran.out);
    trust_another(&place);
    let mut command = place.command(&ask);
    let output = command.env("SSL_CERT_FILE", place.path("other.pem")).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(7), 0), "{err}");
    assert!(err.contains("invalid peer certificate") && err.contains("--ca FILE"), "{err}");
}
