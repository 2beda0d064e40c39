//! Connections: what is told of their requests, and that each is answered to its end.

use super::{delete, run, shared, shared_with, signed};
use crate::config::DEVELOPMENT_ACCOUNT;
use crate::http::message::{Head, Headers};
use crate::net::admin::Caller;
use crate::net::conn::serve;
use crate::net::shared::Shared;
use crate::observe::text::Text;
use hyper_util::server::graceful::GracefulShutdown;
use std::sync::Arc;
use std::time::Duration;
use tabulith::db::Db;
use tabulith::env::clock::ManualClock;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, WriteHalf};

/// What comes of `ask`, which writes to a connection, and what is answered on that.
fn talk<T>(
    shared: &Arc<Shared<Db>>,
    buffer_bytes: usize,
    ask: impl AsyncFnOnce(WriteHalf<DuplexStream>) -> T,
) -> (T, String) {
    run(talking(shared, buffer_bytes, ask))
}

/// The same, beside others.
pub(super) async fn talking<T>(
    shared: &Arc<Shared<Db>>,
    buffer_bytes: usize,
    ask: impl AsyncFnOnce(WriteHalf<DuplexStream>) -> T,
) -> (T, String) {
    let (client, server) = tokio::io::duplex(buffer_bytes);
    let caller = Caller { peer: None, secure: false, admin: false };
    let stop = GracefulShutdown::new();
    let (mut from, to) = tokio::io::split(client);
    let mut answer = String::new();
    let serve = serve(shared.clone(), server, caller, stop.watcher());
    let (asked, answered, ()) = tokio::join!(ask(to), from.read_to_string(&mut answer), serve);
    answered.expect("an answer");
    (asked, answer)
}

/// Some clients ask each server that they meet for HTTP/2. The library gives their connections
/// up as they are, and what still comes would have the answer reset.
#[test]
fn who_asks_for_another_protocol_keeps_this_one_to_its_end() {
    let shared = Arc::new(shared(&Arc::new(ManualClock::at(1))));
    let answer = |more: &str| {
        let head = format!(
            "GET /{DEVELOPMENT_ACCOUNT}/T() HTTP/1.1\r\nHost: h\r\n{more}Connection: close\r\n\r\n"
        );
        let (asked, answer) = talk(&shared, 64, async |mut to| {
            to.write_all(head.as_bytes()).await?;
            to.write_all(&[b'x'; 1000]).await
        });
        assert!(asked.is_ok(), "{more:?}: {asked:?}");
        answer.len()
    };
    let plain = answer("");
    assert!(plain > 64);
    assert_eq!(answer("Upgrade: h2c\r\n"), plain);
    assert_eq!(answer("uPGRADE:h2c\r\nUpgrade: websocket\r\n"), plain);
}

/// What the metrics say once a client has sent a head, waited for two seconds, and sent its
/// body.
fn metrics_of_slow_bodies(head: &str, slow_time: Duration, times: usize) -> String {
    let clock = Arc::new(ManualClock::at(1));
    let shared = Arc::new(shared_with(&clock, Some(slow_time)));
    for _ in 0..times {
        talk(&shared, 4096, async |mut to| {
            to.write_all(head.as_bytes()).await.expect("room");
            tokio::time::sleep(Duration::from_millis(1)).await;
            clock.advance(Duration::from_secs(2));
            to.write_all(b"{}").await.expect("room");
        });
    }
    let mut text = Text::default();
    shared.app.requests().write(&mut text);
    text.finish()
}

/// A head as it goes over the wire, and that of a body of two bytes.
fn wire(head: &Head) -> String {
    let mut text = format!("{} {} HTTP/1.1\r\nHost: 127.0.0.1\r\n", head.method, head.target);
    for (name, value) in head.headers.iter() {
        text += &format!("{name}: {value}\r\n");
    }
    text + "Content-Length: 2\r\nConnection: close\r\n\r\n"
}

#[test]
fn what_a_client_takes_to_send_a_body_is_not_the_servers_time() {
    let target = format!("/{DEVELOPMENT_ACCOUNT}/T(PartitionKey='',RowKey='')");
    let put = Head { method: "PUT".to_owned(), target, ..Head::default() };
    let refused = wire(&Head { headers: Headers::default(), ..put.clone() });
    let admitted = wire(&signed(put));
    let without_body = wire(&delete());
    for (head, op) in
        [(&refused, "none"), (&admitted, "insert_or_replace"), (&without_body, "delete")]
    {
        let text = metrics_of_slow_bodies(head, Duration::from_secs(1), 1);
        assert!(
            text.contains(&format!("tabulith_request_seconds_sum{{op=\"{op}\"}} 0\n")),
            "{text}"
        );
        assert!(text.contains("tabulith_requests_slow_total 0\n"), "{text}");
    }
    // Who is not let in is never slow; of those who are each is.
    let slow = |head: &str| metrics_of_slow_bodies(head, Duration::ZERO, 3);
    assert!(slow(&refused).contains("tabulith_requests_slow_total 0\n"));
    assert!(slow(&admitted).contains("tabulith_requests_slow_total 3\n"));
}

/// It had its place for a minute, though it was of no use from the request's end on.
#[test]
fn a_body_that_comes_too_late_has_no_place_any_more() {
    let clock = Arc::new(ManualClock::at(1));
    let shared = Arc::new(shared(&clock));
    let target = format!("/{DEVELOPMENT_ACCOUNT}/T(PartitionKey='',RowKey='')?timeout=7");
    let head = wire(&signed(Head { method: "PUT".to_owned(), target, ..Head::default() }));
    let (taken_bytes, answer) = talk(&shared, 4096, async |mut to| {
        to.write_all(head.as_bytes()).await.expect("room");
        let mut taken_bytes = Vec::new();
        for seconds in [6, 2] {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            clock.advance(Duration::from_secs(seconds));
            taken_bytes.push(shared.rooms().0.taken_bytes());
        }
        to.write_all(b"{}").await.expect("room");
        taken_bytes
    });
    assert_eq!(taken_bytes, [1 << 10, 0]);
    assert!(answer.contains("OperationTimedOut"), "{answer}");
}
