//! What the time of a refusal tells, and what watching a connection costs.
//!
//! `cargo run --release -p tabulith-server --example timing [SAMPLES]` measures pairs of requests
//! that must not be told apart by their time, in random order, and prints Welch's t of each pair:
//! beyond 4.5 either way they could be. A pair that differs on purpose shows that a difference
//! would be seen. Then it prints the time that the framing of one request's head takes.

#![allow(clippy::disallowed_methods, reason = "it measures time")]
#![allow(clippy::print_stdout, reason = "its output")]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::hint::black_box;
use std::time::Instant;
use tabulith::env::rng::Rng;
use tabulith_server::auth::shared_key::{Credentials, signature_text};
use tabulith_server::config::{Accounts, DEVELOPMENT_ACCOUNT, Key, TriedKeys};
use tabulith_server::http::framing::Framing;

const STRING: &str = "Mon, 27 Jun 2016 15:25:14 GMT\n/devstoreaccount1/devstoreaccount1/Tables";

/// The slowest tenth is noise of the machine, of both classes alike.
const KEPT_PERCENT: usize = 90;

fn main() {
    let samples = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let accounts = Accounts::development();
    let known = accounts.keys(DEVELOPMENT_ACCOUNT);
    let key = Key::development();
    let strings = [STRING.to_owned()];
    let good = STANDARD.decode(signature_text(&key, STRING)).expect("base64");
    let bent = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        credentials(&STANDARD.encode(bytes))
    };
    let (first, last, right) = (bent(0), bent(31), credentials(&STANDARD.encode(&good)));
    let verify = |credentials: &Credentials, keys: TriedKeys<'_>| {
        black_box(credentials.signer(black_box(keys), black_box(&strings)).is_some());
    };
    println!("samples of each class: about {}", samples / 2);
    for (name, t) in [
        (
            "the first byte is wrong, or the last",
            welch(samples, |is_second| {
                verify(if is_second { &last } else { &first }, known);
            }),
        ),
        (
            "a byte is wrong, or none",
            welch(samples, |is_second| {
                verify(if is_second { &right } else { &first }, known);
            }),
        ),
        (
            "a known account, or an unknown one",
            welch(samples, |is_second| {
                let name = if is_second { "devstoreaccount2" } else { DEVELOPMENT_ACCOUNT };
                verify(&first, accounts.keys(black_box(name)));
            }),
        ),
        (
            "bytes compared until they differ, for comparison",
            welch(samples, |is_second| {
                let presented = if is_second { &good } else { &keys_apart(&good) };
                black_box((0..64).all(|_| same_until(black_box(presented), black_box(&good))));
            }),
        ),
    ] {
        println!("t = {t:8.2}   {name}");
    }
    println!("framing of a head of {} bytes: {:.0} ns", HEAD.len(), framing_ns());
}

fn credentials(signature: &str) -> Credentials {
    Credentials::parse(&format!("SharedKeyLite devstoreaccount1:{signature}")).expect("credentials")
}

/// Bytes that differ from others at once.
fn keys_apart(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[0] ^= 1;
    bytes
}

fn same_until(one: &[u8], other: &[u8]) -> bool {
    one.iter().zip(other).all(|(one, other)| black_box(one) == black_box(other))
}

/// Welch's t of the times of two classes, drawn in random order.
fn welch(samples: usize, mut work: impl FnMut(bool)) -> f64 {
    let mut rng = Rng::seeded(1);
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..samples {
        let is_second = rng.next_u64() % 2 == 1;
        let began = Instant::now();
        work(is_second);
        let time = began.elapsed().as_nanos() as f64;
        times[usize::from(is_second)].push(time);
    }
    let mut all: Vec<f64> = times.iter().flatten().copied().collect();
    all.sort_by(f64::total_cmp);
    let most = all[all.len() * KEPT_PERCENT / 100];
    let [one, other] = times.map(|times| {
        let times: Vec<f64> = times.into_iter().filter(|time| *time <= most).collect();
        let count = times.len() as f64;
        let mean = times.iter().sum::<f64>() / count;
        let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / (count - 1.0);
        (mean, variance / count)
    });
    (one.0 - other.0) / (one.1 + other.1).sqrt()
}

/// A point read as an SDK sends it.
const HEAD: &str = "GET /devstoreaccount1/people(PartitionKey='partition-17',RowKey='row-123456') \
HTTP/1.1\r\nHost: 127.0.0.1:10002\r\nx-ms-version: 2019-02-02\r\nDataServiceVersion: 3.0\r\n\
MaxDataServiceVersion: 3.0;NetFx\r\nAccept: application/json;odata=minimalmetadata\r\n\
x-ms-client-request-id: 4a4b6d0e-3f0e-4a7e-9a0e-000000000001\r\n\
User-Agent: azsdk-python-data-tables/12.7.0 Python/3.12 (Linux-6.1)\r\n\
x-ms-date: Mon, 27 Jun 2016 15:25:14 GMT\r\nDate: Mon, 27 Jun 2016 15:25:14 GMT\r\n\
Authorization: SharedKey devstoreaccount1:6x3Y/FLgh8/ozJ8YPcIAguM4et4HbaViJozb+kRb6aI=\r\n\
Accept-Encoding: gzip, deflate\r\nConnection: keep-alive\r\n\r\n";

/// The median of many rounds.
fn framing_ns() -> f64 {
    let (mut framing, mut head) = (Framing::default(), HEAD.as_bytes().to_vec());
    let mut rounds: Vec<f64> = (0..101)
        .map(|_| {
            let began = Instant::now();
            for _ in 0..10_000 {
                framing.take(black_box(&mut head)).expect("a good head");
            }
            began.elapsed().as_nanos() as f64 / 10_000.0
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[50]
}
