//! What clients write while a server is killed, and what must be there of it afterwards.

use crate::client::Client;
use std::sync::mpsc::Sender;
pub(crate) use tabulith_testkit::commits::Commit;
use tabulith_testkit::commits::{Found, writer_of};
use tabulith_testkit::seed::Rng;

fn entity(commit: &Commit, row: usize) -> String {
    format!(
        "{{\"PartitionKey\":\"{}\",\"RowKey\":\"{}\",\"Rows\":{},\"Text\":\"{}\"}}",
        commit.partition_key(),
        commit.row_key(row),
        commit.rows,
        commit.text(row)
    )
}

/// Commits until the server dies, or until it refuses where it `may_fail`; each acknowledged commit
/// goes to `acked`. Returns the commit that was under way then.
pub(crate) fn load(
    port: u16,
    table: &str,
    client: usize,
    first: u64,
    may_fail: bool,
    mut rng: Rng,
    acked: Sender<Commit>,
) -> Commit {
    let mut connection = Client::connect(port).ok();
    let mut number = first;
    loop {
        let rows = match rng.below(20) {
            0 => 100,
            1..=5 => rng.between(2, 12),
            _ => 1,
        };
        let commit = Commit { writer: client, number, rows };
        let Some(open) = connection.as_mut() else { return commit };
        let entities: Vec<String> = (0..rows).map(|row| entity(&commit, row)).collect();
        let sent = match &entities[..] {
            [one] => open.insert(table, one).map(|reply| (reply.status == 201, reply)),
            all => open.insert_batch(table, all).map(|reply| {
                let each = reply.body.matches("HTTP/1.1 204").count();
                (reply.status == 202 && each == commit.rows, reply)
            }),
        };
        match sent {
            Ok((true, _)) => {
                if acked.send(commit).is_err() {
                    return commit;
                }
                number += 1;
            }
            // The disk failed, by 500 or within a batch: nobody knows either, and no commit
            // follows.
            Ok((false, reply)) if may_fail && matches!(reply.status, 202 | 500 | 503) => {
                return commit;
            }
            Ok((false, reply)) => panic!("{commit:?}: {} {}", reply.status, reply.body),
            Err(_) => return commit, // Killed: nobody knows whether it is there.
        }
    }
}

/// What the server holds.
fn read_all(port: u16, table: &str) -> Found {
    let mut client = Client::connect(port).expect("a connection");
    let mut found = Found::default();
    client.each_row(table, |row| {
        let text = |name: &str| row[name].as_str().expect("text").to_owned();
        let writer = writer_of(&text("PartitionKey")).expect("a client");
        let count = row["Rows"].as_u64().expect("a count") as usize;
        found.add(writer, text("RowKey"), count, text("Text"));
    });
    found
}

/// Every acknowledged commit is whole, every other is whole or absent, and nothing else is there.
/// Returns the commits that are there.
pub(crate) fn verify(port: u16, table: &str, acked: &[Commit], unknown: &[Commit]) -> Vec<Commit> {
    let verdict = read_all(port, table).verify(acked, unknown);
    assert!(verdict.wrong.is_empty(), "{:#?}", verdict.wrong);
    verdict.there
}
