//! What is asked of the service: a list of operations that depends on the seed alone, so that a
//! part of a failing list is a list too.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tabulith_testkit::seed::Rng;

/// Tables that a list works on; they come and go.
pub(crate) const TABLES: usize = 3;
/// Moments of the past that are known at a time.
pub(crate) const PASTS: usize = 3;
/// Sets of options of the engine, of which each opening takes one.
pub(crate) const OPTION_SETS: usize = 4;

/// PartitionKeys and RowKeys: those of every list, and more with numbers. The last two change
/// places between UTF-8 and UTF-16.
const KEYS: [&str; 12] =
    ["", "a", "b", "A", "it's", "a b", "50%", "é+&", "(1)", "~", "\u{1f600}", "\u{fffd}"];

/// One operation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Op {
    CreateTable {
        table: usize,
    },
    DropTable {
        table: usize,
    },
    /// All names, by pages of so many.
    ListTables {
        top: Option<u32>,
    },
    /// A change of one entity.
    Change {
        table: usize,
        pk: String,
        change: Change,
    },
    /// Changes of a partition, together or not at all.
    Batch {
        table: usize,
        pk: String,
        changes: Vec<Change>,
    },
    Get {
        table: usize,
        pk: String,
        rk: String,
        select: Select,
    },
    /// All that pass, page by page.
    Query {
        table: usize,
        filter: Option<Filter>,
        select: Select,
        top: Option<u32>,
    },
    /// All there is, page by page, with a change behind each page.
    Walk {
        table: usize,
        top: u32,
        changes: Vec<(String, Change)>,
    },
    /// Takes note of the present, to come back to it later: after an opening, too.
    Remember {
        past: usize,
    },
    /// An entity as of a moment that was noted, or of the newest where none was.
    GetPast {
        past: usize,
        table: usize,
        pk: String,
        rk: String,
        select: Select,
    },
    /// All that pass as of a moment of the past, page by page.
    QueryPast {
        past: usize,
        table: usize,
        filter: Option<Filter>,
        select: Select,
        top: Option<u32>,
    },
    /// All names as of a moment of the past.
    ListPast {
        past: usize,
        top: Option<u32>,
    },
    /// Closes the database and opens it, under a set of options.
    Reopen {
        options: usize,
    },
    /// The process dies, and is started again.
    Kill {
        options: usize,
    },
    /// The power goes; of what may be left on the disk the number says which.
    LosePower {
        options: usize,
        state: u64,
    },
    /// Writes the memtable to a file.
    Flush,
    Compact,
    /// Everything that is due in the background.
    Settle,
    /// One piece of that.
    Step,
    /// So many pieces of a scrub.
    Scrub {
        pieces: usize,
    },
    /// Copies the database into a folder beside it, closes it and goes on with the copy.
    Checkpoint {
        options: usize,
    },
    /// The wall clock goes on by so many ticks, or back.
    Clock {
        ticks: i64,
    },
}

/// A change of an entity, as a request of its own or a part of a batch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Change {
    pub(crate) rk: String,
    pub(crate) verb: Verb,
    /// What it asks of the entity that is there; an insert asks nothing.
    pub(crate) tag: Tag,
    pub(crate) properties: Properties,
    /// In a batch: of a partition that is not the batch's.
    pub(crate) astray: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Verb {
    Insert,
    /// With its content in the answer.
    InsertAndShow,
    Replace,
    Merge,
    /// As old clients do: POST that says MERGE.
    PostMerge,
    Delete,
}

/// What stands in `If-Match`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Tag {
    /// Nothing: the entity is made where there is none. A delete says `*` then.
    Absent,
    Any,
    /// The ETag of what is there, or of what never was.
    Right,
    /// One that it had, or never had.
    Stale,
    /// No ETag.
    Malformed,
}

/// Properties by name. A name has one type, so that filters compare what can be compared.
pub(crate) type Properties = BTreeMap<String, Property>;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Property {
    Int(i32),
    Long(i64),
    Text(String),
    Flag(bool),
    /// Halves, so that its text is exact.
    Halves(i32),
    /// Not there; in a merge it changes nothing.
    Null,
}

/// `$select`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Select {
    All,
    Some(Vec<String>),
}

/// `$filter`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Filter {
    Compare { name: String, op: Compare, with: Property },
    Not(Box<Filter>),
    And(Box<Filter>, Box<Filter>),
    Or(Box<Filter>, Box<Filter>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Op {
    /// What kind of operation it is, for counts.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Op::CreateTable { .. } => "create a table",
            Op::DropTable { .. } => "drop a table",
            Op::ListTables { .. } => "list tables",
            Op::Change { change, .. } => match (change.verb, change.tag) {
                (Verb::Insert, _) => "insert",
                (Verb::InsertAndShow, _) => "insert and show",
                (Verb::Replace, Tag::Absent) => "insert or replace",
                (Verb::Replace, _) => "replace under a condition",
                (Verb::Merge | Verb::PostMerge, Tag::Absent) => "insert or merge",
                (Verb::Merge | Verb::PostMerge, _) => "merge under a condition",
                (Verb::Delete, _) => "delete under a condition",
            },
            Op::Batch { .. } => "batch",
            Op::Get { select: Select::All, .. } => "get",
            Op::Get { .. } => "get some properties",
            Op::Query { filter: Some(_), .. } => "query with a filter",
            Op::Query { .. } => "query",
            Op::Walk { .. } => "query while it changes",
            Op::Remember { .. } => "note a moment",
            Op::GetPast { .. } => "get of the past",
            Op::QueryPast { .. } => "query of the past",
            Op::ListPast { .. } => "list tables of the past",
            Op::Reopen { .. } => "reopen",
            Op::Kill { .. } => "kill",
            Op::LosePower { .. } => "lose power",
            Op::Flush => "flush",
            Op::Compact => "compact",
            Op::Settle => "settle",
            Op::Step => "background step",
            Op::Scrub { .. } => "scrub",
            Op::Checkpoint { .. } => "checkpoint, gone on with",
            Op::Clock { .. } => "set the clock",
        }
    }
}

/// How lists differ.
pub(crate) struct Mix {
    partitions: usize,
    rows: usize,
    /// Kinds that this list leaves out.
    without: Vec<usize>,
}

const KINDS: [(usize, usize); 20] = [
    (0, 40), // changes
    (1, 12), // batches
    (2, 22), // gets
    (3, 20), // queries
    (4, 2),  // tables made
    (5, 1),  // tables dropped
    (6, 2),  // tables listed
    (7, 2),  // reopen
    (8, 2),  // kill
    (9, 3),  // flush
    (10, 1), // compact
    (11, 4), // clock
    (12, 3), // queries while it changes
    (13, 3), // moments noted
    (14, 8), // reads of the past
    (15, 2), // losses of power
    (16, 1), // settle
    (17, 3), // background steps
    (18, 2), // scrub
    (19, 1), // checkpoints
];

impl Mix {
    /// A mix for one list: half of the rarer kinds are left out, the rows are few or many.
    pub(crate) fn choose(rng: &mut Rng) -> Mix {
        Mix {
            partitions: *rng.pick(&[1, 3, 9]),
            rows: *rng.pick(&[2, 8, 40]),
            without: (5..KINDS.len()).filter(|_| rng.chance(40)).collect(),
        }
    }

    /// `len` operations; the first makes a table.
    pub(crate) fn list(&self, rng: &mut Rng, len: usize) -> Vec<Op> {
        let mut ops = vec![Op::CreateTable { table: 0 }];
        ops.extend((1..len).map(|_| self.op(rng)));
        ops
    }

    fn op(&self, rng: &mut Rng) -> Op {
        let kinds = KINDS.iter().filter(|(kind, _)| !self.without.contains(kind));
        let all: usize = kinds.clone().map(|(_, weight)| weight).sum();
        let mut at = rng.below(all);
        let kind = kinds.clone().find(|(_, weight)| {
            let here = at < *weight;
            at = at.saturating_sub(*weight);
            here
        });
        let table = rng.skewed_below(TABLES);
        let options = rng.below(OPTION_SETS);
        match kind.map_or(0, |(kind, _)| *kind) {
            0 => Op::Change { table, pk: self.pk(rng), change: self.change(rng) },
            1 => self.batch(rng, table),
            2 => Op::Get { table, pk: self.pk(rng), rk: self.rk(rng), select: select(rng) },
            3 => {
                let (filter, select, top) = self.query(rng);
                Op::Query { table, filter, select, top }
            }
            4 => Op::CreateTable { table: rng.below(TABLES) },
            5 => Op::DropTable { table },
            6 => Op::ListTables { top: rng.chance(50).then(|| rng.between(1, 3) as u32) },
            7 => Op::Reopen { options },
            8 => Op::Kill { options },
            9 => Op::Flush,
            10 => Op::Compact,
            12 => Op::Walk {
                table,
                top: rng.between(1, 9) as u32,
                changes: (0..rng.between(1, 9)).map(|_| (self.pk(rng), self.change(rng))).collect(),
            },
            13 => Op::Remember { past: rng.below(PASTS) },
            14 => self.back(rng, table),
            15 => Op::LosePower { options, state: rng.next_u64() },
            16 => Op::Settle,
            17 => Op::Step,
            18 => Op::Scrub { pieces: rng.between(1, 9) },
            19 => Op::Checkpoint { options },
            _ => Op::Clock { ticks: *rng.pick(&[0, 1, 3, 10_000, 50_000_000, -1, -20_000_000]) },
        }
    }

    fn query(&self, rng: &mut Rng) -> (Option<Filter>, Select, Option<u32>) {
        let filter = rng.chance(75).then(|| self.filter(rng, 3));
        (filter, select(rng), rng.chance(60).then(|| *rng.pick(&[1, 2, 7, 1000])))
    }

    /// A look back.
    fn back(&self, rng: &mut Rng, table: usize) -> Op {
        let past = rng.below(PASTS);
        match rng.below(10) {
            0 => Op::ListPast { past, top: rng.chance(50).then(|| rng.between(1, 3) as u32) },
            1..6 => {
                let (pk, rk) = (self.pk(rng), self.rk(rng));
                Op::GetPast { past, table, pk, rk, select: select(rng) }
            }
            _ => {
                let (filter, select, top) = self.query(rng);
                Op::QueryPast { past, table, filter, select, top }
            }
        }
    }

    /// Mostly of different rows of one partition; now and then of one row twice, or astray.
    fn batch(&self, rng: &mut Rng, table: usize) -> Op {
        let count = *rng.pick(&[1, 2, 3, 5, 12, 100]);
        let mut changes: Vec<Change> = Vec::new();
        for _ in 0..count {
            let mut change = self.change(rng);
            // Else nearly none would happen.
            if !rng.chance(25) {
                change.verb = *rng.pick(&[Verb::Replace, Verb::Merge, Verb::Delete]);
                change.tag = if change.verb == Verb::Delete { Tag::Any } else { Tag::Absent };
            }
            change.astray = rng.chance(1);
            let twice = changes.iter().any(|other| other.rk == change.rk);
            if !twice || rng.below(150) == 0 {
                changes.push(change);
            }
        }
        Op::Batch { table, pk: self.pk(rng), changes }
    }

    fn change(&self, rng: &mut Rng) -> Change {
        use Verb::{Delete, Insert, InsertAndShow, Merge, PostMerge, Replace};
        let verbs = [
            Insert,
            Insert,
            InsertAndShow,
            Replace,
            Replace,
            Merge,
            Merge,
            PostMerge,
            Delete,
            Delete,
        ];
        let verb = *rng.pick(&verbs);
        let tag = match verb {
            Insert | InsertAndShow => Tag::Absent,
            _ => {
                *rng.pick(&[Tag::Absent, Tag::Absent, Tag::Any, Tag::Right, Tag::Right, Tag::Stale])
            }
        };
        let tag = if tag == Tag::Stale && rng.chance(10) { Tag::Malformed } else { tag };
        let properties = if verb == Delete { Properties::new() } else { properties(rng) };
        Change { rk: self.rk(rng), verb, tag, properties, astray: false }
    }

    fn pk(&self, rng: &mut Rng) -> String {
        key(rng.skewed_below(self.partitions))
    }

    fn rk(&self, rng: &mut Rng) -> String {
        key(rng.below(self.rows))
    }

    fn filter(&self, rng: &mut Rng, depth: usize) -> Filter {
        let inner = |rng: &mut Rng| Box::new(self.filter(rng, depth - 1));
        match if depth == 0 { 9 } else { rng.below(10) } {
            0 => Filter::Not(inner(rng)),
            1 | 2 => Filter::And(inner(rng), inner(rng)),
            3 | 4 => Filter::Or(inner(rng), inner(rng)),
            _ => {
                let ops =
                    [Compare::Eq, Compare::Ne, Compare::Lt, Compare::Le, Compare::Gt, Compare::Ge];
                let (name, with) = match rng.below(4) {
                    0 => ("PartitionKey".to_owned(), Property::Text(self.pk(rng))),
                    1 => ("RowKey".to_owned(), Property::Text(self.rk(rng))),
                    _ => property(rng),
                };
                Filter::Compare { name, op: *rng.pick(&ops), with }
            }
        }
    }
}

fn key(n: usize) -> String {
    KEYS.get(n).map_or_else(|| format!("key-{n:03}"), |key| (*key).to_owned())
}

/// A property that is there.
fn property(rng: &mut Rng) -> (String, Property) {
    let number = rng.below(9) as i32 - 3;
    let (name, value) = match rng.below(6) {
        0 => ("I", Property::Int(number)),
        1 => ("L", Property::Long(i64::from(number) * 5_000_000_000)),
        2 => ("S", Property::Text((*rng.pick(&KEYS)).to_owned())),
        3 => ("F", Property::Flag(rng.chance(50))),
        4 => ("D", Property::Halves(number)),
        _ => ("\u{540d}", Property::Int(number)),
    };
    (name.to_owned(), value)
}

fn properties(rng: &mut Rng) -> Properties {
    let mut all: Properties = (0..rng.below(4)).map(|_| property(rng)).collect();
    if rng.chance(10) {
        let (name, _) = property(rng);
        all.insert(name, Property::Null);
    }
    if rng.chance(3) {
        all.insert("Large".to_owned(), Property::Text("x".repeat(rng.below(9_000))));
    }
    all
}

fn select(rng: &mut Rng) -> Select {
    let names = ["PartitionKey", "RowKey", "Timestamp", "I", "L", "S", "F", "D", "Missing"];
    match rng.chance(70) {
        true => Select::All,
        false => {
            let some = names.iter().filter(|_| rng.chance(35)).map(|name| (*name).to_owned());
            match some.collect::<Vec<_>>() {
                none if none.is_empty() => Select::All,
                some => Select::Some(some),
            }
        }
    }
}
