//! Lists of operations. They depend on their seed alone, so that a part of a failing list is a list
//! too.

use crate::ops::{
    Change, Compare, Filter, Keys, OPTION_SETS, Op, PASTS, Policy, Properties, Property, Select,
    Stretch, TABLES, Tag, Verb,
};
use tabulith_testkit::seed::Rng;

/// PartitionKeys and RowKeys: those of every list, and more with numbers. The last two change
/// places between UTF-8 and UTF-16.
const KEYS: [&str; 12] =
    ["", "a", "b", "A", "it's", "a b", "50%", "é+&", "(1)", "~", "\u{1f600}", "\u{fffd}"];

const COMPARISONS: [Compare; 6] =
    [Compare::Eq, Compare::Ne, Compare::Lt, Compare::Le, Compare::Gt, Compare::Ge];

/// How lists differ.
pub(crate) struct Mix {
    partitions: usize,
    rows: usize,
    /// Kinds that this list leaves out.
    without: Vec<usize>,
}

const KINDS: [(usize, usize); 30] = [
    (0, 56),  // changes
    (1, 16),  // batches
    (2, 22),  // gets
    (3, 20),  // queries
    (4, 4),   // tables made
    (5, 1),   // tables dropped
    (6, 2),   // tables listed
    (7, 2),   // reopen
    (8, 2),   // kill
    (9, 3),   // flush
    (10, 1),  // compact
    (11, 4),  // clock
    (12, 4),  // queries while it changes
    (13, 3),  // moments noted
    (14, 11), // reads of the past
    (15, 2),  // losses of power
    (16, 1),  // settle
    (17, 3),  // background steps
    (18, 2),  // scrub
    (19, 1),  // checkpoints
    (20, 6),  // queries of keys
    (21, 4),  // other ways to ask for an entity
    (22, 3),  // queries without types
    (23, 4),  // queries under a signature
    (24, 13), // stored policies set, asked for, queries under one
    (25, 1),  // properties of the service set
    (26, 1),  // properties of the service asked for
    (27, 3),  // one table, some tables
    (28, 2),  // queries across kills
    (29, 1),  // exports and checks
];

impl Mix {
    /// A mix for one list: four of ten rarer kinds are left out, the rows are few or many.
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
            4 => match rng.chance(50) {
                true => Op::CreateTable { table: rng.below(TABLES) },
                false => Op::CreateShown { table: rng.below(TABLES) },
            },
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
            20 => {
                let (filter, select, top) = self.query(rng);
                let rest = filter.filter(|_| rng.chance(30));
                Op::QueryKeys { table, keys: self.keys(rng), rest, select, top }
            }
            21 => {
                let (pk, rk, select) = (self.pk(rng), self.rk(rng), select(rng));
                match rng.chance(50) {
                    true => Op::GetInBatch { table, pk, rk, select },
                    false => Op::GetBare { table, pk, rk, select },
                }
            }
            22 => {
                let (filter, select, top) = self.query(rng);
                Op::QueryBare { table, filter, select, top }
            }
            23 => {
                let (filter, _, top) = self.query(rng);
                let filter = filter.filter(|_| rng.chance(30));
                Op::QuerySigned { table, stretch: self.stretch(rng), filter, top }
            }
            24 => match rng.below(7) {
                0 | 1 => Op::SetPolicies { table, policies: policies(rng) },
                2 => Op::AskPolicies { table },
                _ => Op::QueryByPolicy { table, id: policy_id(rng) },
            },
            25 => Op::SetProperties { days: rng.between(1, 365) as u16 },
            26 => Op::AskProperties,
            27 => match rng.chance(50) {
                true => Op::Find { table },
                false => {
                    let top = rng.chance(50).then(|| rng.between(1, 3) as u32);
                    Op::ListSome { op: *rng.pick(&COMPARISONS), table, top }
                }
            },
            28 => Op::QueryAcrossKills { table, top: rng.between(1, 9) as u32, options },
            29 => match rng.chance(50) {
                true => Op::Export { options },
                false => Op::Check { options },
            },
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
            1 => Op::FindPast { past, table },
            2..6 => {
                let (pk, rk) = (self.pk(rng), self.rk(rng));
                Op::GetPast { past, table, pk, rk, select: select(rng) }
            }
            _ => {
                let (filter, select, top) = self.query(rng);
                Op::QueryPast { past, table, filter, select, top }
            }
        }
    }

    fn keys(&self, rng: &mut Rng) -> Keys {
        match rng.below(5) {
            0 => Keys::Row(self.pk(rng), self.rk(rng)),
            1 | 2 => Keys::Partition(self.pk(rng)),
            3 => Keys::Rows(self.pk(rng), self.rk(rng), self.rk(rng)),
            _ => Keys::Partitions(self.pk(rng), self.pk(rng)),
        }
    }

    /// An empty key is none in a signature.
    fn stretch(&self, rng: &mut Rng) -> Stretch {
        let mut end = || {
            let row = rng.chance(50).then(|| self.rk(rng)).filter(|row| !row.is_empty());
            let own = Some(self.pk(rng)).filter(|own| !own.is_empty());
            (own.unwrap_or_else(|| "a".to_owned()), row)
        };
        let (from, to) = (end(), end());
        let units = |end: &(String, Option<String>)| {
            let row = end.1.as_ref().map(|row| row.encode_utf16().collect::<Vec<_>>());
            (end.0.encode_utf16().collect::<Vec<_>>(), row)
        };
        // Where they are the other way round nothing is between them.
        match units(&from) > units(&to) && rng.chance(80) {
            true => Stretch { from: to, to: from },
            false => Stretch { from, to },
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
                let (name, with) = match rng.below(4) {
                    0 => ("PartitionKey".to_owned(), Property::Text(self.pk(rng))),
                    1 => ("RowKey".to_owned(), Property::Text(self.rk(rng))),
                    _ => property(rng),
                };
                Filter::Compare { name, op: *rng.pick(&COMPARISONS), with }
            }
        }
    }
}

fn key(n: usize) -> String {
    KEYS.get(n).map_or_else(|| format!("key-{n:03}"), |key| (*key).to_owned())
}

/// One of few, so that many that are looked for are there.
fn policy_id(rng: &mut Rng) -> String {
    (*rng.pick(&["a", "a b", "50%", "\u{e9}+&", "<(1)>"])).to_owned()
}

/// None to five, which are as many as a table may have.
fn policies(rng: &mut Rng) -> Vec<Policy> {
    let mut all: Vec<Policy> = Vec::new();
    for _ in 0..rng.below(10) {
        let id = policy_id(rng);
        let letters = (*rng.pick(&["r", "r", "raud", "ra", "au"])).to_owned();
        if all.iter().all(|other| other.id != id) {
            all.push(Policy { id, letters });
        }
    }
    all
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
