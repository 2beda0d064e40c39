//! What clients write while a server is killed, and what must be there of it afterwards.

use crate::client::Client;
use std::collections::BTreeMap;
use std::sync::mpsc::Sender;
use tabulith_testkit::seed::Rng;

/// One commit of a client: `rows` rows of its partition, numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Commit {
    pub(crate) client: usize,
    pub(crate) number: u64,
    pub(crate) rows: usize,
}

impl Commit {
    fn entities(&self) -> Vec<String> {
        (0..self.rows).map(|row| self.entity(row)).collect()
    }

    fn entity(&self, row: usize) -> String {
        format!(
            "{{\"PartitionKey\":\"c{}\",\"RowKey\":\"{}\",\"Rows\":{},\"Text\":\"{}\"}}",
            self.client,
            self.row_key(row),
            self.rows,
            self.text(row)
        )
    }

    fn row_key(&self, row: usize) -> String {
        format!("{:08}-{row:03}", self.number)
    }

    /// Content that no other row has, of a length that varies.
    fn text(&self, row: usize) -> String {
        format!("{}/{}/{row} ", self.client, self.number).repeat(1 + (self.number as usize % 40))
    }
}

/// Commits until the server dies, or until it refuses where it `may_fail`; each acknowledged commit goes
/// to `acked`. Returns the commit that was under way then.
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
        let commit = Commit { client, number, rows };
        let Some(open) = connection.as_mut() else { return commit };
        let entities = commit.entities();
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
            // The disk failed, by 500 or within a batch: nobody knows either, and no commit follows.
            Ok((false, reply)) if may_fail && matches!(reply.status, 202 | 500 | 503) => {
                return commit;
            }
            Ok((false, reply)) => panic!("{commit:?}: {} {}", reply.status, reply.body),
            Err(_) => return commit, // Killed: nobody knows whether it is there.
        }
    }
}

/// What the server holds: rows by client and RowKey, each with its declared count and text.
fn read_all(port: u16, table: &str) -> BTreeMap<(usize, String), (usize, String)> {
    let mut client = Client::connect(port).expect("a connection");
    let mut rows = BTreeMap::new();
    client.each_row(table, |row| {
        let text = |name: &str| row[name].as_str().expect("text").to_owned();
        let client = text("PartitionKey")[1..].parse().expect("a client");
        let count = row["Rows"].as_u64().expect("a count") as usize;
        let old = rows.insert((client, text("RowKey")), (count, text("Text")));
        assert_eq!(old, None, "a row came twice");
    });
    rows
}

/// Every acknowledged commit is whole, every other is whole or absent, and nothing else is there.
/// Returns the commits that are there.
pub(crate) fn verify(port: u16, table: &str, acked: &[Commit], unknown: &[Commit]) -> Vec<Commit> {
    let mut rows = read_all(port, table);
    let mut there = Vec::new();
    let all = acked.iter().map(|c| (c, true)).chain(unknown.iter().map(|c| (c, false)));
    for (commit, is_acked) in all {
        let found = (0..commit.rows)
            .filter(|row| {
                let key = (commit.client, commit.row_key(*row));
                rows.remove(&key) == Some((commit.rows, commit.text(*row)))
            })
            .count();
        assert!(
            !is_acked || found == commit.rows,
            "{commit:?} was acknowledged; {found} rows left"
        );
        assert!(found == 0 || found == commit.rows, "{commit:?} is half there: {found} rows");
        if found > 0 {
            there.push(*commit);
        }
    }
    assert!(rows.is_empty(), "rows that nobody wrote: {:?}", rows.keys().next());
    there
}
