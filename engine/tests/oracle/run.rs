//! Runs a list of operations on a store and on the model; the first difference is an error.

use crate::batches::{self, Pending};
use crate::cursors;
use crate::doubt::{Commit, Doubts, End};
use crate::entities::{self, Deed};
use crate::ops::{Also, CURSORS, Demand, Keys, Op, PASTS, Range, SNAPSHOTS, Step, TABLES, Then};
use crate::questions;
use crate::rows::{Difference, said};
use crate::sizes;
use crate::store::{Reached, Store};
use crate::transactions::Open;
use crate::updates::{changes_something, rehearse};
use crate::walk::{key_range, same, scan};
use crate::zones;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;
use tabulith::error::{Error, Kind};
use tabulith::ids::{CommitTs, TableId};
use tabulith::ingest::Ingest;
use tabulith::options::{Durability, Reach};
use tabulith::rows::{Catalog, PartitionUpdate, RowSnapshot, RowStore};
use tabulith::{Db, Snapshot, Table};
use tabulith_testkit::oracle::{Change, NewRow, Oracle};

/// More of a memtable than a commit of one row without a large value takes.
const SMALL_COMMIT_BYTES_MAX: usize = 4 << 10;

/// A store, the model, and what is held of both.
pub(crate) struct Run {
    store: Store,
    model: Oracle,
    /// The table in each slot, and the highest number given out so far.
    tables: [Option<TableId>; TABLES],
    last_table: u32,
    /// Whether a table ever had a time to live.
    ages: bool,
    snapshots: [Option<Held>; SNAPSHOTS],
    cursors: [Option<cursors::Held>; CURSORS],
    pasts: [Option<Past>; PASTS],
    /// Moments before it may be refused.
    history_floor: u64,
    /// Commits in the model that nobody has waited for yet.
    pending: Vec<Pending>,
    /// Begun before a closing, and outlives it.
    unfinished: Option<Ingest>,
    doubts: Doubts,
    /// The newest commit that anybody was told of. It is not given again, be it lost.
    told_ts: u64,
}

/// A snapshot of the store and of the model, with the tables that there were.
struct Held {
    store: Box<dyn RowSnapshot>,
    public: Snapshot,
    model: Oracle,
    tables: [Option<TableId>; TABLES],
}

/// A moment that nobody holds: what was visible then.
struct Past {
    at: CommitTs,
    model: Oracle,
    tables: [Option<TableId>; TABLES],
}

/// Runs `ops` on a fresh store that is opened with the option set `options` first.
pub(crate) fn run(ops: &[Op], options: usize) -> Result<Reached, Difference> {
    let mut run = Run {
        store: Store::open(options).map_err(said)?,
        model: Oracle::new(),
        tables: [None; TABLES],
        last_table: 0,
        ages: false,
        snapshots: Default::default(),
        cursors: Default::default(),
        pasts: Default::default(),
        history_floor: 0,
        pending: Vec::new(),
        unfinished: None,
        doubts: Doubts::default(),
        told_ts: 0,
    };
    let mut done = BTreeMap::<_, u64>::new();
    for (i, op) in ops.iter().enumerate() {
        let outcome = run.apply(op);
        let did = outcome.map_err(|difference| format!("operation {i}, {op:?}: {difference}"))?;
        *done.entry(op.kind()).or_default() += u64::from(did);
    }
    run.settle()?;
    run.compare_everything()?;
    run.reopen(options, Ending::Close)?;
    run.compare_everything()?;
    Ok(Reached { done, ..run.store.reached() })
}

enum Ending {
    Close,
    Kill,
    /// Of the states that it may leave, which one.
    PowerLoss(u64),
}

impl Run {
    /// Does it on both sides; whether there was anything to do or to compare.
    fn apply(&mut self, op: &Op) -> Result<bool, Difference> {
        // What has outlived its table must not change with each commit that becomes visible.
        if !matches!(op, Op::Update { .. } | Op::Batch { .. }) || self.ages {
            self.settle()?;
        }
        self.history_floor = self.history_floor.max(self.store.history_floor());
        self.model.turn_clock(self.store.db().time().0);
        match op {
            Op::Update { table, pk, changes, level, refuse, wait } => {
                let Some(id) = self.tables[*table] else { return Ok(false) };
                self.update(id, pk, &self.timed(changes), *level, *refuse)?;
                if *wait {
                    self.settle()?;
                }
                Ok(true)
            }
            Op::Transact { table: slot, pk, changes, undone, scan, part, meanwhile, also } => {
                let Some(id) = self.tables[*slot] else { return Ok(false) };
                let before = self.model.clone();
                let mut open = Open::begin(self.store.db(), &before, id, pk)?;
                open.write(&self.timed(changes))?;
                open.write_and_take_back(&self.timed(undone))?;
                let all = scan.then_some((Bound::Unbounded, Bound::Unbounded));
                all.iter().chain(part).try_for_each(|part| open.scan(part))?;
                self.update(id, pk, &self.timed(meanwhile), None, false)?;
                self.settle()?;
                match also {
                    Also::Nothing => {}
                    Also::Ingest(rows) => _ = self.ingest(*slot, rows)?,
                    Also::Truncate => _ = self.truncate(*slot)?,
                    Also::Drop => {
                        self.drop_table(*slot)?;
                        return open.commit_without_table().map(|()| true);
                    }
                }
                if let Some((ts, changes)) = open.commit(&self.model)? {
                    self.model.commit(id.0, pk, ts.0, &changes);
                    self.all_is_safe();
                }
                Ok(true)
            }
            Op::Batch { table, pk, writes, level, then } => {
                self.batch(*table, pk, writes, *level, *then)
            }
            Op::Get { table, keys } => self.get(*table, keys, Reach::Disk),
            Op::Count { table, keys, times } => self.count_up(*table, keys, *times),
            Op::GetFromMemory { table, keys } => self.get(*table, keys, Reach::Memory),
            Op::GetMany { snapshot, table, keys } => self.get_many(*snapshot, *table, keys),
            Op::GetAt { snapshot, table, keys } => self.get_at(*snapshot, *table, keys),
            Op::Scan { table, range, steps } => self.scan(*table, range, steps),
            Op::ScanAt { snapshot, table, range, steps } => {
                let Some(held) = &self.snapshots[*snapshot] else { return Ok(false) };
                let Some(id) = held.tables[*table] else { return Ok(false) };
                scan(&*held.store, &held.model, id, range, steps).map(|()| true)
            }
            Op::Iterate { snapshot, table, range, fronts, seek } => {
                self.read_as_user(*snapshot, *table, |snapshot, model, table| {
                    cursors::iterate(snapshot, model, table, range, (fronts, seek))
                })
            }
            Op::Point { cursor, snapshot, table, range } => {
                if self.cursors[*cursor].take().is_some() {
                    return Ok(false);
                }
                let mut opened = None;
                self.read_as_user(*snapshot, *table, |snapshot, model, table| {
                    opened = Some(cursors::Held::open(snapshot, model, table, range)?);
                    Ok(())
                })?;
                self.cursors[*cursor] = opened;
                Ok(self.cursors[*cursor].is_some())
            }
            Op::Move { cursor, steps } => {
                let Some(held) = &mut self.cursors[*cursor] else { return Ok(false) };
                held.walk(steps).map(|()| true)
            }
            Op::Split { snapshot, table, parts } => {
                self.read_as_user(*snapshot, *table, |snapshot, model, table| {
                    cursors::split(snapshot, model, table, *parts)
                })
            }
            Op::ScanParallel { table, threads } => {
                self.read_as_user(None, *table, |_, model, table| {
                    cursors::scan_parallel(model, table, *threads)
                })
            }
            Op::Remember { past, quiet } => self.remember(*past, *quiet),
            Op::GetPast { past, table, keys: (pk, rk) } => {
                let Some((store, past, id)) = self.back_to(*past, *table)? else {
                    return Ok(false);
                };
                let found = store.get(id, pk, rk).map_err(said)?;
                same(found.as_ref(), past.model.get(id.0, pk, rk)).map(|()| true)
            }
            Op::ScanPast { past, table, range, steps } => {
                let Some((store, past, id)) = self.back_to(*past, *table)? else {
                    return Ok(false);
                };
                scan(&*store, &past.model, id, range, steps).map(|()| true)
            }
            Op::EntitiesPast { past } => {
                let Some(Past { at, model, .. }) = &self.pasts[*past] else { return Ok(false) };
                questions::look_back(self.store.db(), model, *at, self.history_floor)
            }
            Op::Wait { millis } => {
                self.store.wait(*millis);
                Ok(true)
            }
            Op::Step => self.step(),
            Op::Rest => self.rest(),
            Op::Hold { snapshot } => self.hold(*snapshot),
            Op::Truncate { table } => self.truncate(*table),
            Op::Create { table } => self.create(*table).map(|()| true),
            Op::Drop { table } => self.drop_table(*table),
            Op::SetTtl { table, ttl } => self.set_ttl(*table, *ttl),
            Op::Declare { table, columns } => self.declare(*table, zones::COLUMNS[*columns]),
            // Of those, files know no properties that zones could be of: nobody told the engine how
            // to find them.
            Op::Entities(Deed::Declare { .. }) if self.store.tracks_rows() => Ok(false),
            Op::Entities(deed) => {
                if entities::run(self.store.db(), &mut self.model, deed)? {
                    self.all_is_safe();
                }
                Ok(true)
            }
            Op::Ingest { table, rows } => self.ingest(*table, rows),
            Op::CompactRange { table, from, to } => {
                let Some(id) = self.tables[*table] else { return Ok(false) };
                let table = self.store.db().table(&name(*table)).map_err(said)?;
                table.compact((from.clone(), to.clone())).map_err(said)?;
                // An empty range is left alone: nothing is flushed.
                if !key_range(id, &Range::Between(from.clone(), to.clone())).is_empty() {
                    self.all_is_safe();
                }
                Ok(true)
            }
            Op::ListTables => self.list_tables().map(|()| true),
            Op::Weigh { values } => self.weigh(*values).map(|()| true),
            Op::Flush => {
                self.store.db().flush().map_err(said)?;
                self.all_is_safe();
                Ok(true)
            }
            Op::Compact => {
                self.store.db().compact().map_err(said)?;
                self.all_is_safe();
                Ok(true)
            }
            Op::Scrub { pieces } => self.store.scrub(*pieces),
            Op::Settle => self.store.db().settle().map_err(said).map(|()| true),
            Op::Checkpoint { options, stay } => self.checkpoint(*options, *stay).map(|()| true),
            Op::Export { snapshot, options } => self.export(*snapshot, *options),
            Op::Reopen { options } => self.reopen(*options, Ending::Close).map(|()| true),
            Op::Kill { options } => self.reopen(*options, Ending::Kill).map(|()| true),
            Op::LosePower { .. } if !self.store.syncs() => Ok(false),
            Op::LosePower { options, state } => {
                self.reopen(*options, Ending::PowerLoss(*state)).map(|()| true)
            }
        }
    }

    /// The changes with times in place of what is to pass until then.
    fn timed(&self, changes: &[Change]) -> Vec<Change> {
        let now = self.store.db().time().0;
        let timed = |change: &Change| match change {
            Change::PutUntil(rk, value, ticks) => {
                Change::PutUntil(rk.clone(), value.clone(), now + ticks)
            }
            change => change.clone(),
        };
        changes.iter().map(timed).collect()
    }

    /// Waits for every commit under way, the newest first: those before it must be done by then.
    fn settle(&mut self) -> Result<(), Difference> {
        while let Some(ticket) = self.pending.pop() {
            ticket.wait()?;
            if let Some(earlier) = self.pending.iter().find(|earlier| !earlier.is_done()) {
                return Err(format!("commit {} is not done, a later one is", earlier.ts()));
            }
        }
        self.doubts.settle();
        Ok(())
    }

    /// Every commit so far outlives a kill, and in a store that syncs a loss of power.
    fn all_is_safe(&mut self) {
        self.doubts.clear();
        self.told_ts = self.told_ts.max(self.model.last_ts());
    }

    /// Takes up a commit of rows.
    fn committed(&mut self, commit: Commit) -> Result<(), Difference> {
        let before = self.model.last_ts().max(self.told_ts);
        if commit.ts <= before {
            return Err(format!("commit {} after {before}", commit.ts));
        }
        let (table, pk, ts, changes) =
            (commit.table, commit.pk.clone(), commit.ts, commit.changes.clone());
        self.doubts.note(&self.model, commit);
        self.model.commit(table, &pk, ts, &changes);
        self.told_ts = ts;
        Ok(())
    }

    /// After such an end: the store holds some of what was in doubt, and all before it. Where rows
    /// have outlived their table it may look the same with a commit and without it; then only
    /// moments before all of those are as they were.
    fn resolve(&mut self, end: End) -> Result<(), Difference> {
        let Some(doubt) = self.doubts.take(end) else { return Ok(()) };
        let (newest, now) = (self.model.last_ts(), self.store.db().time().0);
        let (mut most, mut least_ts, mut first) = (None, 0, None);
        for mut outcome in doubt.outcomes() {
            outcome.turn_clock(now);
            match compare_rows(self.store.db(), &outcome, &self.tables) {
                Ok(()) => {
                    least_ts = outcome.last_ts();
                    most.get_or_insert(outcome);
                }
                Err(difference) => drop(first.get_or_insert(difference)),
            }
        }
        let Some(most) = most else {
            return Err(format!("no prefix of what was in doubt; against all of it: {first:?}"));
        };
        self.model = most;
        if self.model.last_ts() < newest {
            self.store.count_lost(end);
        }
        let stays = |past: &Past| past.at.0 <= least_ts;
        self.pasts.iter_mut().for_each(|past| *past = past.take().filter(stays));
        Ok(())
    }

    fn update(
        &mut self,
        table: TableId,
        pk: &[u8],
        changes: &[Change],
        level: Option<Durability>,
        refuse: bool,
    ) -> Result<(), Difference> {
        let mut difference = None;
        let model = &self.model;
        let mut work = |partition: &mut dyn PartitionUpdate| {
            difference = rehearse(partition, model, table, pk, changes)?;
            if refuse { Err(Error::changed(None)) } else { Ok(()) }
        };
        // As a server does: what would have to wait does nothing, and is asked for again.
        let rows = self.store.rows();
        let ticket = match rows.update(table, pk, level, Reach::Memory, &mut work) {
            Err(error) if error.kind() == Kind::WouldBlock => {
                rows.update(table, pk, level, Reach::Disk, &mut work)
            }
            at_once => at_once,
        };
        if let Some(difference) = difference {
            return Err(difference);
        }
        let ticket = match ticket {
            Err(error) if refuse && error.kind() == Kind::Changed => return Ok(()),
            Ok(_) if refuse => return Err("a refused update was committed".into()),
            other => other.map_err(said)?,
        };
        if changes_something(&self.model, table, pk, changes) {
            let (table, pk, ts) = (table.0, pk.to_vec(), ticket.ts().0);
            self.committed(Commit { table, pk, ts, changes: changes.to_vec(), level })?;
        }
        self.pending.push(Pending::Rows(ticket));
        Ok(())
    }

    /// Counts one row up. Where nothing but the log's length has a memtable sealed that is far from
    /// full, one that was is flushed at once.
    fn count_up(&mut self, slot: usize, (pk, rk): &Keys, times: usize) -> Result<bool, Difference> {
        let Some(id) = self.tables[slot] else { return Ok(false) };
        let full = self.store.long_log_memtable_bytes();
        if full.is_some() {
            self.step()?;
        }
        // Elsewhere the log would not be long by then.
        for n in 0..if full.is_some() { times } else { times / 8 } {
            let before = full.map(|_| self.store.db().stats().memtable_bytes);
            self.model.turn_clock(self.store.db().time().0);
            let value = n.to_be_bytes().to_vec();
            self.update(id, pk, &[Change::Put(rk.clone(), value)], None, false)?;
            self.settle()?;
            let was_full = full <= before.map(|bytes| bytes + SMALL_COMMIT_BYTES_MAX);
            if !was_full && self.store.db().stats().sealed_memtables > 0 {
                self.step()?;
                self.store.count_long_log();
            }
        }
        Ok(true)
    }

    /// Commits a batch, or sees it refused.
    fn batch(
        &mut self,
        slot: usize,
        pk: &[u8],
        writes: &[(Change, Demand)],
        level: Option<Durability>,
        then: Then,
    ) -> Result<bool, Difference> {
        let Some(id) = self.tables[slot] else { return Ok(false) };
        let partition = self.store.db().table(&name(slot)).map_err(said)?.partition(pk);
        let (changes, demands): (Vec<_>, Vec<_>) = writes.iter().cloned().unzip();
        let changes = self.timed(&changes);
        let empty = batches::rehearse(&partition, &changes, self.store.db().time())?;
        let (batch, refusal) = batches::batch(empty, &self.model, (id.0, pk), &changes, &demands);
        let batch = match level {
            Some(level) => batch.durability(level),
            None => batch,
        };
        let ticket = batch.commit_async();
        let Some(ts) = ticket.ts().filter(|_| refusal.is_none()) else {
            let outcome = ticket.wait();
            return match (outcome, refusal) {
                (Err(error), Some(kind)) if error.kind() == kind => Ok(true),
                (outcome, refusal) => Err(format!("a batch gave {outcome:?}, not {refusal:?}")),
            };
        };
        if changes_something(&self.model, id, pk, &changes) {
            let pk = pk.to_vec();
            self.committed(Commit { table: id.0, pk, ts: ts.0, changes, level })?;
        }
        self.pending.extend(batches::pend(ts, ticket, then)?);
        if batches::leaves_it_to_others(then) {
            let read = self.store.rows().update(id, pk, None, Reach::Disk, &mut |_| Ok(()));
            let read = read.map_err(said)?;
            self.pending.push(Pending::Rows(read));
        }
        if then == Then::Wait {
            self.settle()?;
        }
        Ok(true)
    }

    fn get(&self, table: usize, (pk, rk): &Keys, reach: Reach) -> Result<bool, Difference> {
        let Some(id) = self.tables[table] else { return Ok(false) };
        let found = match self.store.rows().get(id, pk, rk, reach) {
            Err(error) if reach == Reach::Memory && error.kind() == Kind::WouldBlock => {
                return Ok(false);
            }
            found => found.map_err(said)?,
        };
        same(found.as_ref(), self.model.get(id.0, pk, rk)).map(|()| true)
    }

    /// A table that was dropped since is still there for the snapshot.
    fn get_at(&self, snapshot: usize, table: usize, (pk, rk): &Keys) -> Result<bool, Difference> {
        let Some(held) = &self.snapshots[snapshot] else { return Ok(false) };
        let Some(id) = held.tables[table] else { return Ok(false) };
        let found = held.store.get(id, pk, rk).map_err(said)?;
        same(found.as_ref(), held.model.get(id.0, pk, rk)).map(|()| true)
    }

    fn get_many(
        &self,
        snapshot: Option<usize>,
        table: usize,
        keys: &[Keys],
    ) -> Result<bool, Difference> {
        let pairs: Vec<_> = keys.iter().map(|(pk, rk)| (pk.as_slice(), rk.as_slice())).collect();
        let (id, model, found) = match snapshot {
            None => {
                let Some(id) = self.tables[table] else { return Ok(false) };
                (id, &self.model, self.store.rows().get_many(id, &pairs, Reach::Disk))
            }
            Some(snapshot) => {
                let Some(held) = &self.snapshots[snapshot] else { return Ok(false) };
                let Some(id) = held.tables[table] else { return Ok(false) };
                (id, &held.model, held.store.get_many(id, &pairs))
            }
        };
        let found = found.map_err(said)?;
        if found.len() != keys.len() {
            return Err(format!("{} rows for {} keys", found.len(), keys.len()));
        }
        let mut all = found.iter().zip(&pairs);
        all.try_for_each(|(row, (pk, rk))| same(row.as_ref(), model.get(id.0, pk, rk)))?;
        Ok(!keys.is_empty())
    }

    /// Has `look` read a table as of now or as of a held snapshot, beside the model of then;
    /// whether there is one.
    fn read_as_user(
        &self,
        held: Option<usize>,
        slot: usize,
        look: impl FnOnce(&Snapshot, &Oracle, (&Table, u32)) -> Result<(), Difference>,
    ) -> Result<bool, Difference> {
        let now;
        let (snapshot, model, tables) = match held {
            None => {
                now = self.store.db().snapshot().map_err(said)?;
                (&now, &self.model, &self.tables)
            }
            Some(held) => {
                let Some(held) = &self.snapshots[held] else { return Ok(false) };
                (&held.public, &held.model, &held.tables)
            }
        };
        match (snapshot.table(&name(slot)), tables[slot]) {
            (Some(table), Some(id)) => look(snapshot, model, (&table, id.0)).map(|()| true),
            (None, None) => Ok(false),
            (found, expected) => Err(format!("table {found:?} in place of {expected:?}")),
        }
    }

    fn scan(&self, table: usize, range: &Range, steps: &[Step]) -> Result<bool, Difference> {
        let Some(id) = self.tables[table] else { return Ok(false) };
        let now = self.store.rows().snapshot().map_err(said)?;
        scan(&*now, &self.model, id, range, steps).map(|()| true)
    }

    fn hold(&mut self, slot: usize) -> Result<bool, Difference> {
        self.snapshots[slot] = match self.snapshots[slot].take() {
            Some(_) => None,
            None => Some(Held {
                store: self.store.rows().snapshot().map_err(said)?,
                public: self.store.db().snapshot().map_err(said)?,
                model: self.model.clone(),
                tables: self.tables,
            }),
        };
        Ok(self.snapshots[slot].is_some())
    }

    fn remember(&mut self, slot: usize, quiet: bool) -> Result<bool, Difference> {
        let mut at = self.store.db().visible();
        if at.0 < self.model.last_ts() {
            return Err(format!("commit {} is done and not visible", self.model.last_ts()));
        }
        if quiet {
            let (from, end) = self.store.rows().moments_kept();
            if from >= end {
                return Ok(false); // None is kept: a merge that began now gave up all before.
            }
            at = CommitTs(end.0 - 1);
            // Whoever has read it must find it so again: what is committed from here on comes
            // later.
            drop(self.store.rows().snapshot_at(at).map_err(said)?);
            self.told_ts = self.told_ts.max(at.0);
        }
        let mut model = self.model.clone();
        model.turn_clock(at.0);
        self.pasts[slot] = Some(Past { at, model, tables: self.tables });
        Ok(true)
    }

    /// The store as of a remembered moment, which it may refuse only if it lay before the history
    /// window once.
    #[expect(clippy::type_complexity, reason = "what there is to compare")]
    fn back_to(
        &self,
        slot: usize,
        table: usize,
    ) -> Result<Option<(Box<dyn RowSnapshot>, &Past, TableId)>, Difference> {
        let Some(past) = &self.pasts[slot] else { return Ok(None) };
        let Some(id) = past.tables[table] else { return Ok(None) };
        match self.store.rows().snapshot_at(past.at) {
            Ok(snapshot) => Ok(Some((snapshot, past, id))),
            Err(error) if error.kind() == Kind::Invalid && past.at.0 < self.history_floor => {
                Ok(None)
            }
            Err(error) => Err(said(error)),
        }
    }

    fn step(&self) -> Result<bool, Difference> {
        self.work(Db::step)
    }

    fn rest(&self) -> Result<bool, Difference> {
        self.work(Db::step_at_rest)
    }

    fn work(&self, step: fn(&Db) -> tabulith::error::Result<bool>) -> Result<bool, Difference> {
        let mut did = false;
        while step(self.store.db()).map_err(said)? {
            did = true;
        }
        Ok(did)
    }

    fn truncate(&mut self, slot: usize) -> Result<bool, Difference> {
        let Some(id) = self.tables[slot] else { return Ok(false) };
        let ticket = self.store.rows().truncate(id, None).map_err(said)?;
        let changes = self.model.table(id.0).next().is_some();
        if changes {
            self.model.truncate(id.0, ticket.ts().0);
        }
        self.pending.push(Pending::Rows(ticket));
        self.settle()?;
        if changes {
            self.all_is_safe();
        }
        Ok(true)
    }

    fn set_ttl(&mut self, slot: usize, ttl: Option<u64>) -> Result<bool, Difference> {
        let Some(id) = self.tables[slot] else { return Ok(false) };
        let table = self.store.db().table(&name(slot)).map_err(said)?;
        let span = ttl.map(|ticks| Duration::from_nanos(ticks * 100));
        let before = table.ttl();
        table.set_ttl(span).map_err(said)?;
        if table.ttl() != span {
            return Err(format!("the time to live is {:?}", table.ttl()));
        }
        if before != span {
            self.model.set_ttl(id.0, ttl);
            self.all_is_safe();
        }
        self.ages = true;
        Ok(true)
    }

    fn declare(&self, slot: usize, columns: &[&str]) -> Result<bool, Difference> {
        if self.tables[slot].is_none() {
            return Ok(false);
        }
        let table = self.store.db().table(&name(slot)).map_err(said)?;
        table.set_zone_columns(columns).map_err(said)?;
        match table.zone_columns() == columns {
            true => Ok(true),
            false => Err(format!("{:?} are declared, not {columns:?}", table.zone_columns())),
        }
    }

    fn ingest(&mut self, slot: usize, rows: &[NewRow]) -> Result<bool, Difference> {
        let Some(id) = self.tables[slot] else { return Ok(false) };
        let table = self.store.db().table(&name(slot)).map_err(said)?;
        let mut ingest = table.ingest().map_err(said)?;
        let now = self.store.db().time().0;
        let timed = rows.iter().cloned();
        let rows: Vec<_> =
            timed.map(|(keys, value, life)| (keys, value, life.map(|l| now + l))).collect();
        for ((pk, rk), value, expires) in &rows {
            match expires {
                Some(expires) => ingest.add_until(pk, rk, value, CommitTs(*expires)),
                None => ingest.add(pk, rk, value),
            }
            .map_err(said)?;
        }
        let ts = ingest.finish().map_err(said)?;
        if !rows.is_empty() {
            self.model.ingest(id.0, ts.0, &rows);
            self.all_is_safe();
        }
        Ok(true)
    }

    fn drop_table(&mut self, slot: usize) -> Result<bool, Difference> {
        let Some(id) = self.tables[slot].take() else { return Ok(false) };
        if !self.store.catalog().drop_table(&name(slot)).map_err(said)? {
            return Err("the table was not there".into());
        }
        let gone = self.store.rows().get(id, b"p", b"r", Reach::Disk);
        if gone.as_ref().err().map(Error::kind) != Some(Kind::NotFound) {
            return Err(format!("a dropped table answers {gone:?}"));
        }
        self.model.drop_table(id.0);
        self.all_is_safe();
        Ok(true)
    }

    fn create(&mut self, slot: usize) -> Result<(), Difference> {
        let name = name(slot);
        let created = self.store.catalog().create_table(&name, name.as_bytes());
        match (created, self.tables[slot]) {
            (Err(error), Some(_)) if error.kind() == Kind::Exists => Ok(()),
            (Ok(info), None) if info.id.0 > self.last_table => {
                self.last_table = info.id.0;
                self.tables[slot] = Some(info.id);
                self.all_is_safe();
                Ok(())
            }
            (outcome, there) => Err(format!("making a table gave {outcome:?} with {there:?}")),
        }
    }

    fn list_tables(&self) -> Result<(), Difference> {
        compare_tables(self.store.db(), &self.tables)
    }

    fn weigh(&mut self, values: u64) -> Result<(), Difference> {
        self.cursors = Default::default(); // Files that one is on are open for as long, beyond any budget.
        sizes::compare(&self.store)?;
        let (ts, id) = sizes::weigh(&self.store, values)?;
        self.last_table = self.last_table.max(id);
        self.all_is_safe();
        self.told_ts = self.told_ts.max(ts);
        Ok(())
    }

    fn reopen(&mut self, options: usize, ending: Ending) -> Result<(), Difference> {
        // An ingest of a database that was closed before: its files' numbers are others' by now.
        self.unfinished = None;
        let end = match ending {
            Ending::Close => None,
            Ending::Kill => Some(End::Kill),
            Ending::PowerLoss(_) => Some(End::PowerLoss),
        };
        let may_lose = end.is_some_and(|end| self.doubts.is_any(end));
        let opened = match ending {
            Ending::Close => {
                self.close()?;
                self.store.open_closed(options)
            }
            Ending::Kill => {
                self.let_go();
                self.store.kill_and_open(options, may_lose)
            }
            Ending::PowerLoss(state) => {
                self.let_go();
                self.store.lose_power_and_open(options, may_lose, state)
            }
        };
        opened.map_err(said)?;
        self.list_tables()?;
        if let Some(end) = end {
            self.resolve(end)?;
            self.compare_everything()?;
        }
        self.closed_stays_closed()
    }

    /// Whoever still has the database that was closed is told so, and changes nothing.
    fn closed_stays_closed(&mut self) -> Result<(), Difference> {
        let Some(closed) = self.store.closed() else { return Ok(()) };
        let Some(slot) = self.tables.iter().position(Option::is_some) else { return Ok(()) };
        let ingest = self.unfinished.as_mut().map(|ingest| ingest.add("q", "late", "row"));
        let wrote = closed.table(&name(slot)).and_then(|table| table.upsert("p", "late", "row"));
        let answers = [Some(closed.flush()), Some(wrote.map(|_| ())), ingest];
        let is_refused = |answer: &Result<(), Error>| {
            answer.as_ref().is_err_and(|error| error.kind() == Kind::Closed)
        };
        match answers.into_iter().flatten().find(|answer| !is_refused(answer)) {
            None => Ok(()),
            Some(answer) => Err(format!("a closed database answers {answer:?}")),
        }
    }

    /// Closes the store; what is held reads on, then it is let go.
    fn close(&mut self) -> Result<(), Difference> {
        if let Some(slot) = self.tables.iter().position(Option::is_some) {
            let table = self.store.db().table(&name(slot)).map_err(said)?;
            let mut ingest = table.ingest().map_err(said)?;
            ingest.add("p", "never", "finished").map_err(said)?;
            self.unfinished = Some(ingest);
        }
        self.store.close().map_err(said)?;
        self.all_is_safe();
        for held in self.cursors.iter_mut().flatten() {
            held.walk(&[Step::Next(20), Step::Prev(30)])?;
        }
        self.let_go();
        Ok(())
    }

    fn let_go(&mut self) {
        self.snapshots = Default::default();
        self.cursors = Default::default();
    }

    /// Copies the store and compares the copy with the model.
    fn checkpoint(&mut self, options: usize, stay: bool) -> Result<(), Difference> {
        let dir = self.store.checkpoint().map_err(said)?;
        let copy = self.store.read_copy(&dir, options).map_err(said)?;
        compare_tables(&copy, &self.tables)?;
        compare_rows(&copy, &self.model, &self.tables)?;
        let written = copy.create_table("another", b"");
        if written.as_ref().err().map(Error::kind) != Some(Kind::ReadOnly) {
            return Err(format!("a copy that is only read gave {written:?}"));
        }
        drop(copy);
        if stay {
            return self.store.remove(&dir).map_err(said);
        }
        self.close()?;
        self.store.open_copy(dir, options).map_err(said)?;
        self.list_tables()
    }

    /// Makes a database of a held snapshot and compares that with the model of then.
    fn export(&mut self, slot: usize, options: usize) -> Result<bool, Difference> {
        let Some(held) = &self.snapshots[slot] else { return Ok(false) };
        let dir = self.store.export(&held.public).map_err(said)?;
        let copy = self.store.read_copy(&dir, options).map_err(said)?;
        let mut model = held.model.clone();
        model.turn_clock(copy.time().0);
        compare_tables(&copy, &held.tables)?;
        compare_rows(&copy, &model, &held.tables)?;
        drop(copy);
        self.store.remove(&dir).map_err(said).map(|()| true)
    }

    fn compare_everything(&mut self) -> Result<(), Difference> {
        self.model.turn_clock(self.store.db().time().0);
        compare_rows(self.store.db(), &self.model, &self.tables)?;
        questions::compare_all(self.store.db(), &self.model)
    }
}

/// Holds the tables that `db` has against those in the slots.
fn compare_tables(db: &Db, tables: &[Option<TableId>]) -> Result<(), Difference> {
    let found = db.tables("", None, 100).map_err(said)?;
    let found = found.into_iter().map(|info| (info.name, info.id));
    // A slash is in the name of a table of entities alone.
    let found: Vec<_> = found.filter(|(name, _)| !name.contains('/')).collect();
    let slots = tables.iter().enumerate();
    let expected: Vec<_> = slots.filter_map(|(slot, id)| id.map(|id| (name(slot), id))).collect();
    if found == expected {
        return Ok(());
    }
    Err(format!("tables {found:?}, expected {expected:?}"))
}

/// Holds all rows of `tables` in `db` against the model's, in both directions.
fn compare_rows(db: &Db, model: &Oracle, tables: &[Option<TableId>]) -> Result<(), Difference> {
    let now = RowStore::snapshot(db).map_err(said)?;
    for id in tables.iter().flatten() {
        let all = [Step::Next(usize::MAX)];
        scan(&*now, model, *id, &Range::Table, &all)?;
        scan(&*now, model, *id, &Range::Table, &[Step::Prev(usize::MAX)])?;
    }
    Ok(())
}

/// The name of the table in a slot; they sort as the slots do.
fn name(slot: usize) -> String {
    format!("table-{slot}")
}
