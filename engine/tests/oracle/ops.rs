//! What the metamorphic test does to a store: a list of operations that depends on the seed alone,
//! so that a part of a failing list is a list too.

use crate::entities::Deed;
use crate::zones::COLUMNS;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Bound;
use tabulith::options::Durability;
use tabulith_testkit::oracle::{Change, NewRow};
use tabulith_testkit::seed::Rng;

/// Tables that a list works on; they come and go.
pub(crate) const TABLES: usize = 3;
/// Snapshots that may be held at a time.
pub(crate) const SNAPSHOTS: usize = 4;
/// Cursors that may be held at a time.
pub(crate) const CURSORS: usize = 4;
/// Moments of the past that are known at a time.
pub(crate) const PASTS: usize = 4;
/// Sets of options, of which each opening takes one.
pub(crate) const OPTION_SETS: usize = 9;

/// A PartitionKey and a RowKey.
pub(crate) type Keys = (Vec<u8>, Vec<u8>);

/// Two bounds of RowKeys.
pub(crate) type Part = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// What happens to the table while a transaction is under way.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) enum Also {
    #[default]
    Nothing,
    Ingest(Vec<NewRow>),
    Truncate,
    Drop,
}

/// One operation. Tables and snapshots are named by their slot; one on an empty slot does nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Op {
    /// Changes one partition. A refused update fails after it has written, and must leave nothing.
    Update {
        table: usize,
        pk: Vec<u8>,
        changes: Vec<Change>,
        #[serde(with = "crate::levels::maybe")]
        level: Option<Durability>,
        refuse: bool,
        wait: bool,
    },
    /// Reads, writes and undoes writes of one partition in a transaction, beside which an update
    /// may change the same partition, and something else the table.
    Transact {
        table: usize,
        pk: Vec<u8>,
        changes: Vec<Change>,
        undone: Vec<Change>,
        scan: bool,
        #[serde(default)]
        part: Option<Part>,
        meanwhile: Vec<Change>,
        #[serde(default)]
        also: Also,
    },
    /// Changes one partition by a batch under conditions, the way a user does.
    Batch {
        table: usize,
        pk: Vec<u8>,
        writes: Vec<(Change, Demand)>,
        #[serde(with = "crate::levels::maybe")]
        level: Option<Durability>,
        then: Then,
    },
    /// Commits one row again and again, a number for its value, and waits each time.
    Count { table: usize, keys: Keys, times: usize },
    /// Reads a row as of now.
    Get { table: usize, keys: Keys },
    /// Reads a row only if memory has it.
    GetFromMemory { table: usize, keys: Keys },
    /// Reads a row as of a held snapshot.
    GetAt { snapshot: usize, table: usize, keys: Keys },
    /// Reads many rows together, as of now or of a held snapshot.
    GetMany { snapshot: Option<usize>, table: usize, keys: Vec<Keys> },
    /// Walks a range as of now.
    Scan { table: usize, range: Range, steps: Vec<Step> },
    /// Walks a range as of a held snapshot.
    ScanAt { snapshot: usize, table: usize, range: Range, steps: Vec<Step> },
    /// Takes rows of a range from both its ends, of now or of a held snapshot: `true` for the
    /// front.
    Iterate { snapshot: Option<usize>, table: usize, range: Range, fronts: Vec<bool>, seek: Keys },
    /// Opens a cursor over a range, or lets go of the one in the slot.
    Point { cursor: usize, snapshot: Option<usize>, table: usize, range: Range },
    /// Moves a cursor that is held.
    Move { cursor: usize, steps: Vec<Step> },
    /// Reads all of a table in parts.
    Split { snapshot: Option<usize>, table: usize, parts: usize },
    /// Reads all of a table by several threads.
    ScanParallel { table: usize, threads: usize },
    /// Takes note of the present, to come back to it later: after an opening, too. In a `quiet`
    /// time that is the last moment that no commit can come to any more, and it is read at once.
    Remember {
        past: usize,
        #[serde(default)]
        quiet: bool,
    },
    /// Reads a row as of a moment of the past.
    GetPast { past: usize, table: usize, keys: Keys },
    /// Walks a range as of a moment of the past.
    ScanPast { past: usize, table: usize, range: Range, steps: Vec<Step> },
    /// Reads all entities as of a moment of the past.
    EntitiesPast { past: usize },
    /// Lets time pass.
    Wait { millis: u64 },
    /// Does what background work is due, where no threads do it.
    Step,
    /// The same, and what waits until nobody writes.
    Rest,
    /// Takes a snapshot, or lets go of the one in the slot.
    Hold { snapshot: usize },
    /// Removes all rows of a table.
    Truncate { table: usize },
    /// Makes a table where the slot has none.
    Create { table: usize },
    /// Drops the table in the slot.
    Drop { table: usize },
    /// Sets how many ticks rows of a table live.
    SetTtl { table: usize, ttl: Option<u64> },
    /// Declares columns of a table, by their number in [`COLUMNS`](crate::zones::COLUMNS).
    Declare { table: usize, columns: usize },
    /// Does something to a table of entities.
    Entities(Deed),
    /// Adds rows past log and memtable, as one commit.
    Ingest { table: usize, rows: Vec<NewRow> },
    /// Takes a range down to the deepest level that has any of it.
    CompactRange { table: usize, from: Bound<Keys>, to: Bound<Keys> },
    /// Asks the catalogue for everything it has.
    ListTables,
    /// Asks how much of the disk tables and partitions take, one that is made for it included,
    /// whose values the number decides; and what memory holds.
    Weigh { values: u64 },
    /// Writes the memtable to a table file.
    Flush,
    /// Rewrites everything into the lowest level.
    Compact,
    /// Does all background work that is due.
    Settle,
    /// Copies the database and looks at the copy, or goes on with it in place of the first.
    Checkpoint { options: usize, stay: bool },
    /// Makes a database of a held snapshot and looks at that.
    Export { snapshot: usize, options: usize },
    /// Closes and opens, with another set of options.
    Reopen { options: usize },
    /// Ends without closing, as a killed process does, and opens.
    Kill { options: usize },
    /// Loses power and opens; of what may be left the number says which. Where commits are not
    /// synced, nothing happens.
    LosePower { options: usize, state: u64 },
    /// Has the scrub read so many pieces of files, as fast as it may.
    Scrub { pieces: usize },
}

/// What a scan looks at.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Range {
    Table,
    Rows(Vec<u8>, Bound<Vec<u8>>, Bound<Vec<u8>>),
    Between(Bound<Keys>, Bound<Keys>),
}

/// What a write of a batch asks of the row that it meets, the batch's own writes included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Demand {
    Any,
    Absent,
    Present,
    /// That it is as the last commit that anybody saw left it.
    Unchanged,
    /// That it is of a commit that there never was.
    Other,
}

/// What becomes of a batch's ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Then {
    /// Waited for at once.
    Wait,
    /// Waited for when the next operation needs it.
    Later,
    /// Asked once as a future, then waited for.
    Poll,
    /// Given a callback.
    Notify,
    /// Forgotten: the commit happens all the same.
    Forget,
}

/// A move of a cursor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Step {
    Next(usize),
    Prev(usize),
    Seek(Keys),
}

/// How often each kind of operation comes; kinds left out make other paths hot.
pub(crate) struct Mix {
    weights: Vec<(Kind, usize)>,
    /// Changes of a batch that remove a range, in a hundred.
    ranges: usize,
    /// Changes that remove a row, in a hundred.
    deletes: usize,
    /// Rows that expire, in a hundred.
    expiring: usize,
    /// Commits that ask for a durability of their own, in a hundred.
    own_level: usize,
    partitions: usize,
    rows: usize,
    /// Values of more than 1,000 bytes, in a hundred.
    large: usize,
    preset: Preset,
}

/// Kinds of lists that chance alone would hardly make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Preset {
    None,
    /// Two rows of one partition.
    HotKey,
    /// All rows in one partition.
    WidePartition,
    /// More is removed than written.
    Tombstones,
    /// Blocks and memtables are small beside values.
    LargeValues,
    /// The same ranges are erased again and again, and moments between are looked at.
    Erasures,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Update,
    Transact,
    Batch,
    Count,
    Get,
    GetFromMemory,
    GetAt,
    GetMany,
    Scan,
    ScanAt,
    Iterate,
    Point,
    Move,
    Split,
    ScanParallel,
    Remember,
    GetPast,
    ScanPast,
    EntitiesPast,
    Wait,
    Step,
    Rest,
    Hold,
    Truncate,
    Create,
    Drop,
    SetTtl,
    Declare,
    Entities,
    Ingest,
    CompactRange,
    ListTables,
    Weigh,
    Flush,
    Compact,
    Settle,
    Checkpoint,
    Export,
    Reopen,
    Kill,
    LosePower,
    Scrub,
}

impl Mix {
    /// A mix for one list: each kind but updates and reads is left out in half of the lists, and
    /// the rows are few and hot, or many, mostly removed, or large.
    pub(crate) fn choose(rng: &mut Rng) -> Mix {
        let mut weights = vec![
            (Kind::Update, 5_000),
            (Kind::Transact, 400),
            (Kind::Batch, 600),
            (Kind::Get, 2_000),
            (Kind::GetFromMemory, 300),
            (Kind::GetAt, 800),
            (Kind::GetMany, 300),
            (Kind::Scan, 450),
            (Kind::ScanAt, 450),
            (Kind::Iterate, 200),
            (Kind::Point, 80),
            (Kind::Move, 500),
            (Kind::Split, 40),
            (Kind::ScanParallel, 8),
            (Kind::Remember, 60),
            (Kind::GetPast, 400),
            (Kind::ScanPast, 100),
            (Kind::EntitiesPast, 20),
            (Kind::Wait, 60),
            (Kind::Step, 300),
            (Kind::Rest, 20),
            (Kind::Hold, 60),
            (Kind::Truncate, 4),
            (Kind::Create, 120),
            (Kind::Drop, 4),
            (Kind::SetTtl, 20),
            (Kind::Declare, 10),
            (Kind::Entities, 300),
            (Kind::Ingest, 12),
            (Kind::CompactRange, 8),
            (Kind::ListTables, 20),
            (Kind::Weigh, 6),
            (Kind::Flush, 40),
            (Kind::Compact, 6),
            (Kind::Settle, 8),
            (Kind::Checkpoint, 6),
            (Kind::Export, 8),
            (Kind::Reopen, 12),
            (Kind::Kill, 12),
            (Kind::LosePower, 12),
            (Kind::Scrub, 20),
        ];
        for (kind, weight) in &mut weights {
            if !matches!(kind, Kind::Update | Kind::Get | Kind::Create) && rng.chance(50) {
                *weight = 0;
            }
        }
        weights.push((Kind::Count, if rng.chance(50) { 8 } else { 0 }));
        let mix = Mix {
            weights,
            ranges: *rng.pick(&[0, 1, 6]),
            deletes: 25,
            expiring: *rng.pick(&[0, 10, 80]),
            own_level: *rng.pick(&[0, 15, 90]),
            partitions: *rng.pick(&[1, 4, 12]),
            rows: *rng.pick(&[8, 60, 800]),
            large: 1,
            preset: Preset::None,
        };
        match rng.below(10) {
            0 => Mix { preset: Preset::HotKey, partitions: 1, rows: 2, ..mix },
            1 => Mix { preset: Preset::WidePartition, partitions: 1, rows: 4_000, ..mix },
            2 => Mix { preset: Preset::Tombstones, deletes: 70, ranges: 10, ..mix },
            3 => Mix { preset: Preset::LargeValues, rows: 40, large: 30, ..mix },
            4 => {
                let often = [
                    (Kind::Truncate, 60),
                    (Kind::Remember, 300),
                    (Kind::GetPast, 2_000),
                    (Kind::ScanPast, 300),
                    (Kind::Flush, 100),
                    (Kind::Compact, 30),
                    (Kind::CompactRange, 40),
                ];
                let weights = mix.weights.iter().map(|(kind, weight)| {
                    let asked = often.iter().find(|(often, _)| often == kind);
                    (*kind, asked.map_or(*weight, |(_, weight)| *weight))
                });
                let weights = weights.collect();
                Mix { preset: Preset::Erasures, weights, ranges: 30, rows: 60, ..mix }
            }
            _ => mix,
        }
    }

    /// What kind of list it makes.
    pub(crate) fn preset(&self) -> Preset {
        self.preset
    }

    fn kind(&self, rng: &mut Rng) -> Kind {
        let all: usize = self.weights.iter().map(|(_, weight)| weight).sum();
        let mut at = rng.below(all);
        for (kind, weight) in &self.weights {
            if at < *weight {
                return *kind;
            }
            at -= weight;
        }
        Kind::Update
    }

    /// `len` operations; the first makes a table.
    pub(crate) fn list(&self, rng: &mut Rng, len: usize) -> Vec<Op> {
        let mut ops = vec![Op::Create { table: 0 }];
        ops.extend((1..len).map(|_| self.op(rng)));
        ops
    }

    fn op(&self, rng: &mut Rng) -> Op {
        let kind = self.kind(rng);
        let table = rng.skewed_below(TABLES);
        let snapshot = rng.below(SNAPSHOTS);
        let past = rng.below(PASTS);
        let options = rng.below(OPTION_SETS);
        match kind {
            Kind::Update => Op::Update {
                table,
                pk: self.pk(rng),
                changes: self.changes(rng),
                level: self.level(rng),
                refuse: rng.chance(5),
                wait: rng.chance(70),
            },
            Kind::Transact => Op::Transact {
                table,
                pk: self.pk(rng),
                changes: self.changes(rng),
                undone: self.changes(rng),
                scan: rng.chance(30),
                part: rng
                    .chance(30)
                    .then(|| (bound(rng, |rng| self.rk(rng)), bound(rng, |rng| self.rk(rng)))),
                meanwhile: if rng.chance(50) { self.changes(rng) } else { Vec::new() },
                also: match rng.below(300) {
                    0..15 => Also::Ingest(self.sorted_rows(rng)),
                    15..20 => Also::Truncate,
                    20 => Also::Drop,
                    _ => Also::Nothing,
                },
            },
            Kind::Batch => Op::Batch {
                table,
                pk: self.pk(rng),
                writes: self.changes(rng).into_iter().map(|c| (c, demand(rng))).collect(),
                level: self.level(rng),
                then: *rng.pick(&[Then::Wait, Then::Later, Then::Poll, Then::Notify, Then::Forget]),
            },
            Kind::Count => Op::Count { table, keys: self.keys(rng), times: rng.between(150, 260) },
            Kind::Get => Op::Get { table, keys: self.keys(rng) },
            Kind::GetFromMemory => Op::GetFromMemory { table, keys: self.keys(rng) },
            Kind::GetAt => Op::GetAt { snapshot, table, keys: self.keys(rng) },
            Kind::GetMany => Op::GetMany {
                snapshot: rng.chance(50).then_some(snapshot),
                table,
                keys: (0..rng.below(40)).map(|_| self.keys(rng)).collect(),
            },
            Kind::Scan => Op::Scan { table, range: self.range(rng), steps: self.steps(rng) },
            Kind::ScanAt => {
                Op::ScanAt { snapshot, table, range: self.range(rng), steps: self.steps(rng) }
            }
            Kind::Iterate => Op::Iterate {
                snapshot: rng.chance(30).then_some(snapshot),
                table,
                range: self.range(rng),
                fronts: (0..rng.below(60)).map(|_| rng.chance(50)).collect(),
                seek: self.keys(rng),
            },
            Kind::Point => Op::Point {
                cursor: rng.below(CURSORS),
                snapshot: rng.chance(30).then_some(snapshot),
                table,
                range: self.range(rng),
            },
            Kind::Move => Op::Move { cursor: rng.below(CURSORS), steps: self.steps(rng) },
            Kind::Split => Op::Split {
                snapshot: rng.chance(30).then_some(snapshot),
                table,
                parts: rng.below(6),
            },
            Kind::ScanParallel => Op::ScanParallel { table, threads: rng.between(1, 3) },
            Kind::Remember => Op::Remember { past, quiet: rng.chance(30) },
            Kind::GetPast => Op::GetPast { past, table, keys: self.keys(rng) },
            Kind::ScanPast => {
                Op::ScanPast { past, table, range: self.range(rng), steps: self.steps(rng) }
            }
            Kind::EntitiesPast => Op::EntitiesPast { past },
            Kind::Wait => Op::Wait { millis: *rng.pick(&[1, 100, 3_000, 30_000]) },
            Kind::Step => Op::Step,
            Kind::Rest => Op::Rest,
            Kind::Hold => Op::Hold { snapshot },
            Kind::Truncate => Op::Truncate { table },
            Kind::Create => Op::Create { table: rng.below(TABLES) },
            Kind::Drop => Op::Drop { table },
            Kind::SetTtl => {
                let ticks = *rng.pick(&[500, 20_000, 10_000_000, 300_000_000]);
                Op::SetTtl { table, ttl: rng.chance(70).then(|| 1 + rng.below(ticks) as u64) }
            }
            Kind::Declare => Op::Declare { table, columns: rng.below(COLUMNS.len()) },
            Kind::Entities => Op::Entities(Deed::choose(rng, &mut |rng| self.life(rng))),
            Kind::Ingest => Op::Ingest { table, rows: self.sorted_rows(rng) },
            Kind::CompactRange => {
                let mut end = || bound(rng, |rng| self.keys(rng));
                Op::CompactRange { table, from: end(), to: end() }
            }
            Kind::ListTables => Op::ListTables,
            Kind::Weigh => Op::Weigh { values: rng.next_u64() >> 16 },
            Kind::Flush => Op::Flush,
            Kind::Compact => Op::Compact,
            Kind::Settle => Op::Settle,
            Kind::Checkpoint => Op::Checkpoint { options, stay: rng.chance(50) },
            Kind::Export => Op::Export { snapshot, options },
            Kind::Reopen => Op::Reopen { options },
            Kind::Kill => Op::Kill { options },
            Kind::LosePower => Op::LosePower { options, state: rng.next_u64() },
            Kind::Scrub => Op::Scrub { pieces: rng.between(1, 60) },
        }
    }

    fn changes(&self, rng: &mut Rng) -> Vec<Change> {
        // One in 400 is larger than the small memtables.
        let count = match rng.below(400) {
            0 => rng.between(100, 400),
            1..=240 => 1,
            _ => rng.between(0, 12),
        };
        (0..count)
            .map(|_| {
                if rng.chance(self.ranges) {
                    return Change::DeleteRange(
                        bound(rng, |rng| self.rk(rng)),
                        bound(rng, |rng| self.rk(rng)),
                    );
                }
                let rk = self.rk(rng);
                if rng.chance(self.deletes) {
                    return Change::Delete(rk);
                }
                match self.life(rng) {
                    Some(life) => Change::PutUntil(rk, self.value(rng), life),
                    None => Change::Put(rk, self.value(rng)),
                }
            })
            .collect()
    }

    /// What a commit asks for; nothing mostly. The store may give less of itself than it is asked
    /// for.
    fn level(&self, rng: &mut Rng) -> Option<Durability> {
        use Durability::{Buffered, Flushed, Synced};
        rng.chance(self.own_level).then(|| *rng.pick(&[Buffered, Buffered, Flushed, Synced]))
    }

    /// The ticks after which a row is gone, if it is to expire; the run makes a time of it.
    fn life(&self, rng: &mut Rng) -> Option<u64> {
        rng.chance(self.expiring).then(|| rng.below(300_000_000) as u64)
    }

    /// Rows in key order, each once; mostly few, at times more than a small table file holds.
    fn sorted_rows(&self, rng: &mut Rng) -> Vec<NewRow> {
        let count = *rng.pick(&[0, 1, 5, 40, 300]);
        let rows = (0..count).map(|_| (self.keys(rng), (self.value(rng), self.life(rng))));
        let rows: BTreeMap<_, _> = rows.collect();
        rows.into_iter().map(|(keys, (value, expires))| (keys, value, expires)).collect()
    }

    /// Mostly small; now and then larger than a block, rarely larger than a small memtable.
    fn value(&self, rng: &mut Rng) -> Vec<u8> {
        let len = match rng.below(1000) {
            0 => 70_000,
            n if n < 10 * self.large => rng.between(1_000, 9_000),
            n if n < 10 * self.large + 40 => 0,
            _ => rng.between(1, 150),
        };
        if rng.chance(50) { rng.bytes(len) } else { vec![b'a' + (len % 26) as u8; len] }
    }

    fn keys(&self, rng: &mut Rng) -> Keys {
        (self.pk(rng), self.rk(rng))
    }

    /// Few partitions; the odd ones are empty, hold zeros, or lie beside one another.
    fn pk(&self, rng: &mut Rng) -> Vec<u8> {
        let odd: [&[u8]; 8] = [b"", b"\0", b"\0\0", b"p", b"p\0", b"p\x01", b"\xff", b"\xff\xff"];
        let n = rng.skewed_below(self.partitions);
        odd.get(n).map_or_else(|| format!("partition-{n}").into_bytes(), |pk| pk.to_vec())
    }

    fn rk(&self, rng: &mut Rng) -> Vec<u8> {
        let n = rng.skewed_below(self.rows);
        match n {
            0 => Vec::new(),
            1 => vec![0],
            2 => vec![0xff; 3],
            3 => vec![b'k'; 1024],
            n if n % 7 == 0 => (n as u32).to_be_bytes().to_vec(),
            n => format!("row-{n:05}").into_bytes(),
        }
    }

    fn range(&self, rng: &mut Rng) -> Range {
        match rng.below(4) {
            0 => Range::Table,
            1 => Range::Between(bound(rng, |r| self.keys(r)), bound(rng, |r| self.keys(r))),
            _ => Range::Rows(self.pk(rng), bound(rng, |r| self.rk(r)), bound(rng, |r| self.rk(r))),
        }
    }

    fn steps(&self, rng: &mut Rng) -> Vec<Step> {
        (0..rng.between(1, 4)).map(|_| self.step(rng)).collect()
    }

    fn step(&self, rng: &mut Rng) -> Step {
        match rng.below(5) {
            0 | 1 => Step::Next(rng.between(1, 40)),
            2 | 3 => Step::Prev(rng.between(1, 40)),
            _ => Step::Seek(self.keys(rng)),
        }
    }
}

fn bound<T>(rng: &mut Rng, key: impl FnOnce(&mut Rng) -> T) -> Bound<T> {
    match rng.below(3) {
        0 => Bound::Unbounded,
        1 => Bound::Included(key(rng)),
        _ => Bound::Excluded(key(rng)),
    }
}

/// Mostly none, so that batches with many writes are not all refused.
fn demand(rng: &mut Rng) -> Demand {
    match rng.below(20) {
        0 => Demand::Absent,
        1 => Demand::Present,
        2 => Demand::Unchanged,
        3 => Demand::Other,
        _ => Demand::Any,
    }
}
