//! Rows that are replaced, merged and deleted again and again while a server is killed, singly and
//! in transactions, and what must be there of them: all that was acknowledged, and of the request
//! under way all or nothing.
//!
//! A writer has a partition of few rows to itself, so it knows what each of them is. Their texts
//! are long: memtables fill, files are merged, and little is there to be read.

use crate::client::{Client, Reply};
use std::collections::BTreeMap;
use std::io;
use tabulith_testkit::seed::Rng;

pub(crate) const TABLE: &str = "changed";
const ROWS: usize = 8;
/// The properties that hold a text, each the same.
const TEXTS: [&str; 3] = ["Text", "Again", "Third"];
const TEXT_BYTES_MAX: usize = 30_000;

/// What a row is: which change wrote its text, if any did, and which one marked it last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    text: Option<u64>,
    mark: u64,
}

type Rows = BTreeMap<usize, Row>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// All of the row.
    Replace,
    /// The mark; the text stays as it is.
    Merge,
    Delete,
}

/// How many requests were acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Acked {
    pub(crate) changes: u64,
    pub(crate) deletes: u64,
    pub(crate) batches: u64,
}

/// A writer, and what it knows of its rows.
#[derive(Debug)]
pub(crate) struct Changer {
    partition: String,
    rows: Rows,
    /// What they are if the request has happened of which nobody heard.
    perhaps: Option<Rows>,
    number: u64,
    pub(crate) acked: Acked,
}

impl Changer {
    pub(crate) fn new(writer: usize) -> Changer {
        let (partition, rows, perhaps) = (format!("w{writer}"), Rows::new(), None);
        Changer { partition, rows, perhaps, number: 0, acked: Acked::default() }
    }

    /// Changes rows until the server dies.
    pub(crate) fn run(mut self, port: u16, mut rng: Rng) -> Changer {
        let Ok(mut client) = Client::connect(port) else { return self };
        loop {
            let count = if rng.chance(15) { rng.between(2, 5) } else { 1 };
            let changes = self.choose(count, &mut rng);
            let after = self.after(&changes);
            self.perhaps = Some(after.clone());
            let Ok(reply) = self.send(&mut client, &changes) else { return self };
            self.perhaps = None;
            let each = reply.body.matches("HTTP/1.1 204").count();
            match (reply.status, count) {
                (503, _) => continue, // It has not happened.
                (204, 1) => {}
                (202, _) if each == count => self.acked.batches += 1,
                _ => panic!("{changes:?}: {} {}", reply.status, reply.body),
            }
            self.rows = after;
            self.acked.changes += 1;
            let deletes = changes.values().any(|what| *what == What::Delete);
            self.acked.deletes += u64::from(deletes);
        }
    }

    /// What to do to `count` rows; only those are deleted that are there.
    fn choose(&mut self, count: usize, rng: &mut Rng) -> BTreeMap<usize, What> {
        self.number += 1;
        let mut changes = BTreeMap::new();
        while changes.len() < count {
            let row = rng.below(ROWS);
            let what = match rng.below(10) {
                0 | 1 if self.rows.contains_key(&row) => What::Delete,
                2..=4 => What::Merge,
                _ => What::Replace,
            };
            changes.insert(row, what);
        }
        changes
    }

    fn after(&self, changes: &BTreeMap<usize, What>) -> Rows {
        let (mut rows, mark) = (self.rows.clone(), self.number);
        for (row, what) in changes {
            let text = match what {
                What::Replace => Some(mark),
                What::Merge => rows.get(row).and_then(|row| row.text),
                What::Delete => {
                    rows.remove(row);
                    continue;
                }
            };
            rows.insert(*row, Row { text, mark });
        }
        rows
    }

    fn send(&self, client: &mut Client, changes: &BTreeMap<usize, What>) -> io::Result<Reply> {
        let number = self.number;
        let change = |(row, what): (&usize, &What)| {
            let (verb, entity) = match what {
                What::Replace => {
                    let text = self.text(number);
                    let texts = TEXTS.map(|name| format!(",\"{name}\":\"{text}\"")).concat();
                    ("PUT", format!("{{\"Mark\":\"{number}\"{texts}}}"))
                }
                What::Merge => ("MERGE", format!("{{\"Mark\":\"{number}\"}}")),
                What::Delete => ("DELETE", String::new()),
            };
            (verb, format!("{row:02}"), entity)
        };
        let changes: Vec<_> = changes.iter().map(change).collect();
        match &changes[..] {
            [(verb, row, entity)] => client.change(TABLE, &self.partition, (verb, row, entity)),
            all => client.change_batch(TABLE, &self.partition, all),
        }
    }

    /// A text that no other change has, long three times in four.
    fn text(&self, number: u64) -> String {
        let bytes =
            if number.is_multiple_of(4) { 40 } else { TEXT_BYTES_MAX - number as usize % 999 };
        let mut text = format!("{}/{number} ", self.partition).repeat(bytes / 4);
        text.truncate(bytes);
        text
    }

    /// Holds the rows that are there against what must be; from there on they are what it knows.
    /// Whether the request under way has happened, if there was one.
    fn verify(&mut self, found: &Rows) -> Option<bool> {
        let perhaps = self.perhaps.take();
        let has_happened = perhaps.as_ref() == Some(found);
        assert!(
            has_happened || *found == self.rows,
            "{}: there is {found:?}; acknowledged is {:?}, and under way was what makes it {perhaps:?}",
            self.partition,
            self.rows
        );
        self.rows.clone_from(found);
        perhaps.map(|_| has_happened)
    }
}

/// Reads all rows and holds them against what each of the writers knows. Gives how many of their
/// requests under way have happened.
pub(crate) fn verify(port: u16, changers: &mut [Changer]) -> usize {
    let mut client = Client::connect(port).expect("a connection");
    let mut found: BTreeMap<String, Rows> = BTreeMap::new();
    client.each_row(TABLE, |row| {
        let text = |name: &str| row[name].as_str().map(str::to_owned);
        let partition = text("PartitionKey").expect("a key");
        let of = changers.iter().find(|changer| changer.partition == partition);
        let of = of.unwrap_or_else(|| panic!("nobody wrote {row}"));
        let written = text("Text").map(|text| {
            let number = text.split(['/', ' ']).nth(1).and_then(|number| number.parse().ok());
            let number = number.unwrap_or_else(|| panic!("a text of nobody: {text}"));
            let is_whole = |name: &&str| row[*name].as_str() == Some(&*of.text(number));
            assert!(TEXTS.iter().all(is_whole), "{partition}: a text is another's, or in pieces");
            number
        });
        let mark = text("Mark").and_then(|mark| mark.parse().ok()).expect("a mark");
        let key = text("RowKey").and_then(|key| key.parse().ok()).expect("a key");
        let twice = found.entry(partition).or_default().insert(key, Row { text: written, mark });
        assert_eq!(twice, None, "{row} came twice");
    });
    let empty = Rows::new();
    let happened = changers.iter_mut().map(|changer| {
        let own = found.get(&changer.partition).unwrap_or(&empty);
        changer.verify(own) == Some(true)
    });
    happened.filter(|happened| *happened).count()
}
