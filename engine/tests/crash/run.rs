//! Runs a workload on a simulated disk and notes beside every effect what had been promised by
//! then.

use crate::doubts::Doubts;
use crate::entities::{self, Group};
use crate::finished::{Finished, Made, Unsure};
use crate::kept::{Kept, Promise};
use crate::look::{FIRST_BYTE, catalog_of, name_of, read_past, read_world};
use crate::model::{Change, History, NEVER, Need, World};
use crate::opening::{DIR, START_TICKS, open_with, track_rows};
use crate::ops::{Op, Verb, key_of, ttl_of, value_of};
use crate::stop::Stop;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tabulith::db::Db;
use tabulith::env::clock::{Clock as _, ManualClock};
use tabulith::env::jobs::ByHand;
use tabulith::error::{Error, Kind};
use tabulith::ids::CommitTs;
use tabulith::options::{Advanced, Durability, Options, Reach};
use tabulith::rows::{Catalog, CommitTicket, RowStore};
use tabulith::vfs::api::Vfs;
use tabulith::vfs::mem::{SimFs, Trace};
use tabulith::{Codec, Snapshot};

/// Ticks: more than a start goes on from the newest commit that it finds.
const LONGER_THAN_A_START: u64 = 100_000_000;

/// More of a memtable than a commit of one small row takes.
const SMALL_COMMIT_BYTES_MAX: usize = 1 << 10;

/// A database at work, and what is known of it.
pub(crate) struct Run {
    sim: SimFs,
    vfs: Arc<dyn Vfs>,
    options: Options,
    /// Whether an open had others than the first.
    is_altered: bool,
    clock: Arc<ManualClock>,
    db: Option<Db>,
    tickets: Vec<Box<dyn CommitTicket>>,
    /// What callbacks said since it was looked at last: the commit, and what its safety promises.
    told: Arc<Mutex<Vec<(u64, Need)>>>,
    /// None where nobody asks what a crash in the middle would leave: a trace keeps every disk.
    trace: Option<Trace>,
    pub(crate) history: History,
    /// What failed and may happen all the same.
    doubts: Doubts,
    need: Need,
    kept: Kept,
    /// Moments of the past that were shown.
    pub(crate) moments: u64,
    /// The ticks that rows written from here on last; `None` for ever.
    life: Option<u64>,
    /// A snapshot, and what it shows.
    held: Option<(Snapshot, World)>,
    /// Folders that copies were made in, whatever came of it.
    folders: u64,
    copies: Vec<Made>,
    unsure: Vec<Unsure>,
    /// Flushes because the log was long, of memtables that were not full.
    pub(crate) long_logs: u64,
}

impl Run {
    /// A run on `sim`, reached through `vfs`, where `history` happened before and `floor` of it
    /// must be there. Nothing is opened yet, and nothing recorded.
    pub(crate) fn new(
        sim: &SimFs,
        vfs: Arc<dyn Vfs>,
        options: &Options,
        history: History,
        floor: Need,
    ) -> Run {
        Run {
            sim: sim.clone(),
            vfs,
            options: options.clone(),
            is_altered: false,
            clock: Arc::new(ManualClock::at(START_TICKS)),
            db: None,
            tickets: Vec::new(),
            told: Arc::default(),
            trace: None,
            history,
            doubts: Doubts::default(),
            need: floor,
            kept: Kept::since(Promise::NONE),
            moments: 0,
            life: None,
            held: None,
            folders: 0,
            copies: Vec::new(),
            unsure: Vec::new(),
            long_logs: 0,
        }
    }

    /// The same where so much of the past was promised before.
    pub(crate) fn keeping(self, past: Promise) -> Run {
        Run { kept: Kept::since(past), ..self }
    }

    /// The same, and every effect from here on is recorded.
    pub(crate) fn recorded(self) -> Run {
        Run { trace: Some(self.sim.record()), ..self }
    }

    /// Runs `ops` on an empty disk.
    pub(crate) fn of(ops: &[Op], options: &Options) -> Result<Finished, Stop> {
        let sim = SimFs::new();
        if options.advanced.compression.upper == Codec::None {
            sim.refuse_direct(); // Half of the long workloads write the log in two calls.
        }
        let vfs = Arc::new(sim.clone());
        let run = Run::new(&sim, vfs, options, History::new(), Need::default());
        let mut run = run.recorded();
        run.open(|need| need.power)?;
        run.apply_all(ops)?;
        Ok(run.finish(Need::default()))
    }

    /// Failures of background work that whoever asks the database is told of.
    pub(crate) fn background_errors(&self) -> u64 {
        self.db.as_ref().map_or(0, |db| db.stats().background_errors)
    }

    /// The clock that it goes by.
    pub(crate) fn clock(&self) -> Arc<ManualClock> {
        Arc::clone(&self.clock)
    }

    /// How many more parts than merges there were since the last opening.
    pub(crate) fn merges_divided(&mut self) -> Result<u64, Stop> {
        let stats = self.db()?.stats();
        Ok(stats.compaction_parts - stats.compactions)
    }

    /// Ends a run that was recorded.
    pub(crate) fn finish(mut self, floor: Need) -> Finished {
        // The trace ends here: what dropping the database does is not part of the run.
        let trace = self.trace.take().expect("a run that is recorded");
        let (history, mut options) = (self.history.clone(), self.options.clone());
        if self.is_altered {
            options.history = None; // So that what the folder knows of it counts after a crash.
        }
        let (unsure, copies) = (std::mem::take(&mut self.unsure), std::mem::take(&mut self.copies));
        let (long_logs, moments, kept) = (self.long_logs, self.moments, self.kept.clone());
        self.sim.kill();
        self.let_go();
        Finished {
            trace,
            history,
            floor,
            options,
            told_is_safe: false,
            unsure,
            copies,
            long_logs,
            kept,
            moments,
        }
    }

    pub(crate) fn apply_all(&mut self, ops: &[Op]) -> Result<(), Stop> {
        ops.iter().try_for_each(|op| self.apply(op))
    }

    pub(crate) fn apply(&mut self, op: &Op) -> Result<(), Stop> {
        self.clock.advance(Duration::from_nanos(300));
        self.perform(op)?;
        self.hear()
    }

    fn perform(&mut self, op: &Op) -> Result<(), Stop> {
        match op {
            Op::Transact { table, pk, read, rows } => {
                self.transact(&name_of(*table), *pk, *read, rows)
            }
            Op::Entities { pk, changes } => self.change_entities(*pk, changes),
            Op::Urge => {
                self.tickets.iter().for_each(|ticket| ticket.urge());
                Ok(())
            }
            Op::Ask => self.ask(),
            Op::Notify => {
                self.notify();
                Ok(())
            }
            Op::Write { table, pk, rows, level, wait } => {
                self.write(&name_of(*table), *pk, rows, *level)?;
                if *wait { self.wait_all() } else { Ok(()) }
            }
            Op::Ingest { table, pk, rows } => self.ingest(&name_of(*table), *pk, rows),
            Op::CompactPartition { table, pk } => {
                let table = name_of(*table);
                if let Some(table) = self.db()?.find(&table)? {
                    let pk = key_of('p', *pk);
                    let range = (pk.clone(), Vec::new())..=(pk, vec![0xff]);
                    table.compact(range)?;
                    self.promise_all()?;
                }
                Ok(())
            }
            Op::WaitAll => self.wait_all(),
            Op::Read => self.read(),
            Op::Create(table) => self.create(&name_of(*table)),
            Op::Fill { table, pk, level, wait } => {
                let rows: Vec<_> = (0..70).map(|rk| (rk, Some(1))).collect();
                self.write(&name_of(*table), *pk, &rows, *level)?;
                if *wait { self.wait_all() } else { Ok(()) }
            }
            Op::Count { table, pk, times } => self.count_up(&name_of(*table), *pk, *times),
            Op::Erase { table, pk, from, to, level, wait } => {
                self.erase(&name_of(*table), *pk, *from, *to, *level)?;
                if *wait { self.wait_all() } else { Ok(()) }
            }
            Op::Truncate { table, level, wait } => {
                self.truncate(&name_of(*table), *level)?;
                if *wait { self.wait_all() } else { Ok(()) }
            }
            Op::Drop(table) => self.drop_table(&name_of(*table)),
            Op::Life(ticks) => {
                self.life = *ticks;
                Ok(())
            }
            Op::Declare { table, columns } => self.declare(&name_of(*table), *columns),
            Op::SetTtl { table, ticks } => self.set_ttl(&name_of(*table), *ticks),
            Op::Flush => {
                self.db()?.flush()?;
                self.promise_all()
            }
            Op::Compact => {
                self.db()?.compact()?;
                self.promise_all()
            }
            Op::Settle => Ok(self.db()?.settle()?),
            Op::Step => Ok(self.db()?.step().map(drop)?),
            Op::Idle => self.idle(),
            Op::Scrub => self.scrub(),
            Op::Reopen => self.reopen(self.options.clone()),
            Op::Kill => self.kill(self.options.clone()),
            Op::Alter { history, durability, blob_bytes_min, kill } => {
                let blob_bytes_min = usize::from(*blob_bytes_min);
                let advanced = Advanced { blob_bytes_min, ..self.options.advanced.clone() };
                let history = history.map(|ticks| Duration::from_nanos(ticks * 100));
                let durability = *durability;
                let options = Options { history, durability, advanced, ..self.options.clone() };
                self.is_altered = true;
                if *kill { self.kill(options) } else { self.reopen(options) }
            }
            Op::Peek => self.peek(),
            Op::Checkpoint => {
                let dir = self.folder();
                self.checkpoint(&dir).map(drop)
            }
            Op::Hold => {
                self.held = Some(self.hold()?);
                Ok(())
            }
            Op::Export => self.export(),
            Op::ClockBack => {
                self.clock.set_wall(START_TICKS - 3600 * 10_000_000);
                Ok(())
            }
        }
    }

    /// Opens and takes what is found for the truth, if it is one that `enough` of the need allows.
    /// Gives the greatest number of commits that may be there.
    pub(crate) fn open(&mut self, enough: impl Fn(Need) -> usize) -> Result<usize, Stop> {
        let effects = self.effects();
        self.kept.begin(self.options.history, effects);
        let db = open_with(&self.vfs, &self.options, &self.clock)?;
        self.history.restart_time();
        let db = self.db.insert(db);
        let (found, visible, now) = (read_world(db)?, db.visible().0, db.time().0);
        let window = db.history();
        let need = enough(self.need);
        self.settle(&found)?;
        self.doubts.clear();
        self.told = Arc::default();
        let Some(counts) = self.history.find(&found, need, visible, now) else {
            return Err(Stop::Wrong(self.history.explain(&found, need, now)));
        };
        if counts.start() < counts.end() {
            let history = self.history.truncated(*counts.end(), self.need.told_ts);
            let effects = self.effects();
            self.unsure.push(Unsure { history, effects });
        }
        self.history = self.history.truncated(*counts.start(), self.need.told_ts);
        // What was lost and might be counts no more.
        self.need = Need { told_ts: self.need.told_ts, ..Need::default() };
        let effects = self.effects();
        if !self.kept.end(self.options.history, (visible, window), effects) {
            return Err(Stop::Wrong(format!("another history window than was set: {window:?}")));
        }
        self.look_back(self.history.len())?;
        self.promise_all()?;
        Ok(*counts.end())
    }

    /// Reads a moment of the past, after one of the first `count` commits.
    fn look_back(&mut self, count: usize) -> Result<(), Stop> {
        let is_shown = read_past(self.db()?, &self.history, count, self.kept.now().from)?;
        self.moments += u64::from(is_shown);
        Ok(())
    }

    fn db(&self) -> Result<&Db, Stop> {
        let closed = || Error::new(Kind::Closed, "the last open failed");
        self.db.as_ref().ok_or_else(|| Stop::Refused(closed()))
    }

    fn promise(&mut self, need: Need) {
        self.need = self.need.max(need);
        if let Some(trace) = &self.trace {
            need.to_marks().into_iter().for_each(|mark| trace.mark(mark));
        }
    }

    /// Everything so far survives all crashes.
    fn promise_all(&mut self) -> Result<(), Stop> {
        self.settle_shown()?;
        self.history.safe = self.history.len();
        self.promise(self.history.promised(self.history.len()));
        Ok(())
    }

    /// What `fs` holds, opened, is a state that this run may leave.
    pub(crate) fn judge(&self, fs: &SimFs, enough: impl Fn(Need) -> usize) -> Result<Run, Stop> {
        let (vfs, history) = (Arc::new(fs.clone()), self.history.clone());
        let mut run = Run::new(fs, vfs, &self.options, history, self.need);
        run.doubts = self.doubts.clone();
        run = run.keeping(self.kept.now());
        run.open(enough)?;
        Ok(run)
    }

    /// Commits the rows that make a difference.
    fn write(
        &mut self,
        table: &str,
        pk: u8,
        rows: &[(u8, Option<u16>)],
        level: Durability,
    ) -> Result<(), Stop> {
        let Some(info) = self.db()?.find_table(table)? else { return Ok(()) };
        let pk = key_of('p', pk);
        let number = self.history.len() as u64;
        let rows = rows.iter().map(|(rk, bytes)| (key_of('r', *rk), *bytes));
        let rows: Vec<_> =
            rows.map(|(rk, len)| (rk, len.map(|len| value_of(number, len)))).collect();
        let expires = self.expires()?;
        let ticket =
            self.db()?.update(info.id, &pk, Some(level), Reach::Disk, &mut |partition| {
                rows.iter().try_for_each(|(rk, value)| match value {
                    Some(value) if expires == NEVER => partition.put(rk, value),
                    Some(value) => partition.put_until(rk, value, CommitTs(expires)),
                    None => partition.delete(rk),
                })
            })?;
        let there = self.row_keys(table, &pk)?;
        let changes = rows.iter().any(|(rk, value)| value.is_some() || there.contains(rk));
        if changes {
            let change = Change::Rows { table: table.to_owned(), pk, rows, expires };
            self.history.push(ticket.ts().0, level.min(self.options.durability), change)?;
        }
        self.tickets.push(ticket);
        Ok(())
    }

    /// Writes one small row again and again, and flushes what is sealed on the way though it is not
    /// full.
    fn count_up(&mut self, table: &str, pk: u8, times: u8) -> Result<(), Stop> {
        let full = self.options.advanced.memtable_bytes.unwrap_or(0);
        for _ in 0..times {
            let before = self.db()?.stats();
            self.write(table, pk, &[(0, Some(4))], Durability::Synced)?;
            self.wait_all()?;
            let after = self.db()?.stats();
            let is_sealed = after.sealed_memtables > before.sealed_memtables;
            if is_sealed && before.memtable_bytes + SMALL_COMMIT_BYTES_MAX < full {
                self.idle()?;
                self.long_logs += u64::from(self.db()?.stats().flushes > after.flushes);
            }
        }
        Ok(())
    }

    /// When a row written now is gone.
    fn expires(&self) -> Result<u64, Stop> {
        let now = self.db()?.time().0;
        Ok(self.life.map_or(NEVER, |ticks| now + ticks))
    }

    /// The RowKeys of a partition of which all writers know by now.
    fn row_keys(&self, table: &str, pk: &Bytes) -> Result<BTreeSet<Bytes>, Stop> {
        let shown = self.history.last().tables[table].shown(self.db()?.time().0);
        Ok(shown.filter(|((other, _), _)| other == pk).map(|((_, rk), _)| rk.clone()).collect())
    }

    /// Ends durable, and with it all that came before.
    fn ingest(&mut self, table: &str, pk: u8, rows: &[(u8, u16)]) -> Result<(), Stop> {
        let Some(found) = self.db()?.find(table)?.filter(|_| !rows.is_empty()) else {
            return Ok(());
        };
        let (pk, number) = (key_of('p', pk), self.history.len() as u64);
        let rows = rows.iter().map(|(rk, len)| (key_of('r', *rk), value_of(number, *len)));
        let rows: Vec<_> = rows.collect();
        let mut ingest = found.ingest()?;
        let expires = self.expires()?;
        for (rk, value) in &rows {
            match expires {
                NEVER => ingest.add(&pk, rk, value)?,
                _ => ingest.add_until(&pk, rk, value, CommitTs(expires))?,
            }
        }
        let finished = ingest.finish();
        let rows = rows.into_iter().map(|(rk, value)| (rk, Some(value))).collect();
        let change = Change::Rows { table: table.to_owned(), pk, rows, expires };
        let ts = match finished {
            Ok(ts) => ts.0,
            Err(error) => {
                self.doubts.add(&self.history, change);
                return Err(error.into());
            }
        };
        self.history.push(ts, Durability::Synced, change)?;
        self.promise_all()
    }

    /// Removes the rows of a range.
    fn erase(
        &mut self,
        table: &str,
        pk: u8,
        from: u8,
        to: Option<u8>,
        level: Durability,
    ) -> Result<(), Stop> {
        let Some(info) = self.db()?.find_table(table)? else { return Ok(()) };
        let is_from_first = from == 0;
        let (pk, from, to) = (key_of('p', pk), key_of('r', from), to.map(|to| key_of('r', to)));
        // So that a partition is dropped as users do it, too.
        let start = if is_from_first { Bound::Unbounded } else { Bound::Included(&*from) };
        let ticket =
            self.db()?.update(info.id, &pk, Some(level), Reach::Disk, &mut |partition| {
                let to = to.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
                partition.delete_range(start, to)
            })?;
        let within = |rk: &Bytes| from <= *rk && to.as_ref().is_none_or(|to| rk < to);
        let gone = self.row_keys(table, &pk)?.into_iter().filter(within);
        let rows: Vec<_> = gone.map(|rk| (rk, None)).collect();
        if !rows.is_empty() {
            let change = Change::Rows { table: table.to_owned(), pk, rows, expires: NEVER };
            self.history.push(ticket.ts().0, level.min(self.options.durability), change)?;
        }
        self.tickets.push(ticket);
        Ok(())
    }

    /// Removes all rows of a table.
    fn truncate(&mut self, table: &str, level: Durability) -> Result<(), Stop> {
        let Some(info) = self.db()?.find_table(table)? else { return Ok(()) };
        let ticket = RowStore::truncate(self.db()?, info.id, Some(level))?;
        let now = self.db()?.time().0;
        if self.history.last().tables[table].shown(now).next().is_some() {
            let change = Change::Truncate { table: table.to_owned() };
            self.history.push(ticket.ts().0, level.min(self.options.durability), change)?;
        }
        self.tickets.push(ticket);
        Ok(())
    }

    fn wait_all(&mut self) -> Result<(), Stop> {
        while let Some(ticket) = self.tickets.pop() {
            let ts = ticket.ts().0;
            ticket.wait()?;
            self.settle_shown()?;
            self.promise(self.history.promised(self.history.count_at(ts)));
        }
        Ok(())
    }

    /// What reports that it is safe must be so from here on.
    fn ask(&mut self) -> Result<(), Stop> {
        self.tickets.sort_by_key(|ticket| ticket.ts());
        let done = self.tickets.partition_point(|ticket| ticket.is_done());
        if let Some(early) = self.tickets[done..].iter().find(|ticket| ticket.is_done()) {
            return Err(Stop::Wrong(format!("commit {} is done before others", early.ts())));
        }
        for ticket in self.tickets.drain(..done).collect::<Vec<_>>() {
            self.settle_shown()?;
            self.promise(self.history.promised(self.history.count_at(ticket.ts().0)));
        }
        Ok(())
    }

    /// Leaves every commit under way to a callback, which notes in the trace what it promises.
    fn notify(&mut self) {
        for ticket in std::mem::take(&mut self.tickets) {
            let ts = ticket.ts().0;
            let need = self.history.promised(self.history.count_at(ts));
            let (trace, told) = (self.trace.clone(), Arc::clone(&self.told));
            ticket.notify(Box::new(move |outcome| {
                if outcome.is_ok() {
                    let marks = need.to_marks();
                    trace.iter().for_each(|trace| marks.iter().for_each(|mark| trace.mark(*mark)));
                    told.lock().expect("no callback panics").push((ts, need));
                }
            }));
        }
    }

    /// Takes up what callbacks said; they come in the order of commits.
    fn hear(&mut self) -> Result<(), Stop> {
        let told = std::mem::take(&mut *self.told.lock().expect("no callback panics"));
        if !told.is_sorted_by_key(|(ts, _)| *ts) {
            return Err(Stop::Wrong(format!("callbacks out of order: {told:?}")));
        }
        self.need = told.into_iter().fold(self.need, |need, (_, own)| need.max(own));
        Ok(())
    }

    /// Reads a row and writes others, beside commits that nobody has seen yet.
    fn transact(
        &mut self,
        table: &str,
        pk: u8,
        read: u8,
        rows: &[(u8, Option<u16>)],
    ) -> Result<(), Stop> {
        let Some(info) = self.db()?.find_table(table)? else { return Ok(()) };
        let (pk, read, number) = (key_of('p', pk), key_of('r', read), self.history.len() as u64);
        let rows =
            rows.iter().map(|(rk, len)| (key_of('r', *rk), len.map(|l| value_of(number, l))));
        let rows: Vec<_> = rows.collect();
        let place = (pk.clone(), read.clone());
        let (db, expires) = (self.db()?, self.expires()?);
        let now = db.time().0;
        let row_in = |world: &World| {
            let table = world.tables.get(table)?;
            table.shown(now).find(|(other, _)| **other == place).map(|(_, row)| row.clone())
        };
        let mut transaction = db.transaction(info.id, &pk)?;
        let at = transaction.at();
        let seen = row_in(self.history.after(self.history.count_at(at.0)).1);
        let found = transaction.get(&read)?.map(|row| (row.ts.0, row.value));
        if found != seen {
            return Err(Stop::Wrong(format!("a transaction read {found:?}, not {seen:?}")));
        }
        for (rk, value) in &rows {
            match value {
                Some(value) if expires == NEVER => transaction.put(rk, value)?,
                Some(value) => transaction.put_until(rk, value, CommitTs(expires))?,
                None => transaction.delete(rk)?,
            }
        }
        let savepoint = transaction.savepoint();
        transaction.put(&read, "undone")?;
        transaction.rollback_to(savepoint)?;
        let changed = row_in(self.history.last()) != seen;
        match transaction.commit() {
            Err(error) if changed && error.kind() == Kind::Changed => return self.settle_shown(),
            // It commits as of the moment that it read, whatever came since.
            Ok(ts) if rows.is_empty() && ts == at => {}
            Ok(ts) if changed || rows.is_empty() => {
                return Err(Stop::Wrong(format!("{ts} commits though {read:?} has changed")));
            }
            Ok(ts) => {
                let change = Change::Rows { table: table.to_owned(), pk, rows, expires };
                self.history.push(ts.0, self.options.durability, change)?;
            }
            Err(error) => {
                let change = Change::Rows { table: table.to_owned(), pk, rows, expires };
                self.doubts.add(&self.history, change);
                return Err(error.into());
            }
        }
        self.settle_shown()?;
        let count = self.history.count_at(self.db()?.visible().0);
        self.promise(self.history.promised(count));
        Ok(())
    }

    /// Changes entities, all of those that are named or none.
    fn change_entities(&mut self, pk: u8, changes: &[(u8, Verb, u16)]) -> Result<(), Stop> {
        if changes.is_empty() {
            return Ok(());
        }
        // What is not waited for would move the time, by which entities are there or not.
        self.wait_all()?;
        self.create(entities::CATALOG_NAME)?;
        let (db, table) = (self.db()?, entities::CATALOG_NAME.to_owned());
        let pk = key_of('p', pk);
        let change = |(rk, verb, bytes): &(u8, Verb, u16)| (format!("r{rk}"), *verb, *bytes);
        let expires = self.expires()?;
        let group = Group {
            pk: &String::from_utf8_lossy(&pk),
            changes: changes.iter().map(change).collect(),
            number: self.history.len() as u64,
            expires: (expires != NEVER).then_some(CommitTs(expires)),
        };
        let there = self.history.last().tables[&table].shown(db.time().0);
        let there = there.filter(|((other, _), _)| *other == pk);
        let there = there.map(|((_, rk), (_, value))| (rk.clone(), value.clone())).collect();
        let expected = group.expected(&there);
        match (group.commit(db), expected) {
            (Ok(None), None) => {}
            (Ok(Some((ts, done))), Some(rows)) if done == rows => {
                let change = Change::Rows { table, pk, rows, expires };
                self.history.push(ts.0, self.options.durability, change)?;
            }
            (Ok(done), expected) => {
                return Err(Stop::Wrong(format!("{changes:?} gave {done:?}, not {expected:?}")));
            }
            (Err(stop), Some(rows)) => {
                self.doubts.add(&self.history, Change::Rows { table, pk, rows, expires });
                return Err(stop);
            }
            (Err(stop), None) => return Err(stop),
        }
        self.settle_shown()?;
        let count = self.history.count_at(self.db()?.visible().0);
        self.promise(self.history.promised(count));
        Ok(())
    }

    fn read(&mut self) -> Result<(), Stop> {
        self.settle_shown()?;
        let db = self.db()?;
        let visible = db.visible().0;
        let count = self.history.count_at(visible);
        let (found, now) = (read_world(db)?, db.time().0);
        if self.history.find(&found, count, visible, now).is_none() {
            let what = self.history.explain(&found, count, now);
            return Err(Stop::Wrong(format!("a reader: {what}")));
        }
        self.promise(self.history.promised(count));
        self.look_back(count)
    }

    fn create(&mut self, table: &str) -> Result<(), Stop> {
        let db = self.db()?;
        if db.find_table(table)?.is_some() {
            return Ok(());
        }
        let created = match table {
            entities::CATALOG_NAME => entities::create(db),
            _ => {
                track_rows(db);
                db.create_table(table, b"").map_err(Stop::from)
            }
        };
        let change = |id| Change::Create { table: table.to_owned(), id };
        match created {
            Ok(info) => self.changed(info.created.0, change(info.id.0)),
            Err(Stop::Refused(error)) => self.failed(error, change(0)),
            Err(stop) => Err(stop),
        }
    }

    fn drop_table(&mut self, table: &str) -> Result<(), Stop> {
        let db = self.db()?;
        if db.find_table(table)?.is_none() {
            return Ok(());
        }
        let change = Change::Drop { table: table.to_owned() };
        match Catalog::drop_table(db, table) {
            Ok(true) => self.changed(self.db()?.visible().0, change),
            Ok(false) => self.settle_shown(),
            Err(error) => self.failed(error, change),
        }
    }

    /// Sets a time to live, 0 for none.
    fn set_ttl(&mut self, name: &str, ticks: u64) -> Result<(), Stop> {
        let db = self.db()?;
        let Some(table) = db.find(name)? else { return Ok(()) };
        if table.ttl() == ttl_of(ticks) {
            return Ok(table.set_ttl(ttl_of(ticks))?);
        }
        let change = Change::SetTtl { table: name.to_owned(), ttl: ticks, now: db.time().0 };
        match table.set_ttl(ttl_of(ticks)) {
            Ok(()) => self.changed(self.db()?.visible().0, change),
            Err(error) => self.failed(error, change),
        }
    }

    /// Declares columns, or properties where the table is that of entities.
    fn declare(&mut self, name: &str, columns: u8) -> Result<(), Stop> {
        let db = self.db()?;
        let Some(table) = db.find(name)? else { return Ok(()) };
        let all = match name {
            entities::CATALOG_NAME => entities::PROPERTIES,
            _ => [FIRST_BYTE, "none"],
        };
        let declared = all.into_iter().enumerate().filter(|(bit, _)| columns >> bit & 1 == 1);
        let columns: Vec<&str> = declared.map(|(_, name)| name).collect();
        if table.zone_columns() == columns {
            return Ok(table.set_zone_columns(&columns)?);
        }
        let names = columns.iter().map(|name| (*name).to_owned()).collect();
        let change = Change::Declare { table: name.to_owned(), columns: names };
        match table.set_zone_columns(&columns) {
            Ok(()) => self.changed(self.db()?.visible().0, change),
            Err(error) => self.failed(error, change),
        }
    }

    /// The catalogue was changed.
    fn changed(&mut self, ts: u64, change: Change) -> Result<(), Stop> {
        self.doubts.forget_table(change.table());
        self.settle_shown()?;
        let count = self.history.push(ts, self.options.durability, change)?;
        self.promise(self.history.promised(count));
        Ok(())
    }

    /// The catalogue could not be changed, or not yet.
    fn failed(&mut self, error: Error, change: Change) -> Result<(), Stop> {
        self.doubts.add_first_of_table(&self.history, self.clock.wall_ticks(), change);
        self.settle_shown()?;
        Err(error.into())
    }

    /// Takes up the failed changes that the database shows all the same.
    fn settle_shown(&mut self) -> Result<(), Stop> {
        match (&self.db, self.doubts.is_empty()) {
            (Some(db), false) => {
                let found = catalog_of(db)?;
                Ok(self.doubts.settle_catalogue(&mut self.history, &found)?)
            }
            _ => Ok(()),
        }
    }

    fn settle(&mut self, found: &World) -> Result<(), Stop> {
        Ok(self.doubts.settle(&mut self.history, found)?)
    }

    fn idle(&mut self) -> Result<(), Stop> {
        while self.db()?.step_at_rest()? {}
        // A step of the log writes and syncs all that was applied.
        self.read()
    }

    /// Lets the scrub read all files once, and mend what it can. It takes no time of the wall
    /// clock: where that is set back after it, a power loss may have timestamps given again.
    pub(crate) fn scrub(&mut self) -> Result<(), Stop> {
        let passes = |db: &Db| db.stats().scrub.passes;
        let (before, wall) = (passes(self.db()?), self.clock.wall_ticks());
        while passes(self.db()?) == before {
            let pause = self.db()?.scrub_step()?;
            self.clock.advance(pause.max(Duration::from_nanos(100)));
        }
        self.clock.set_wall(wall);
        Ok(())
    }

    /// A folder for a copy, another one each time.
    fn folder(&mut self) -> PathBuf {
        self.folders += 1;
        format!("/copy-{}", self.folders).into()
    }

    fn effects(&self) -> usize {
        self.trace.as_ref().map_or(0, Trace::len)
    }

    /// Copies the database into `dir`; gives what the copy holds.
    pub(crate) fn checkpoint(&mut self, dir: &Path) -> Result<World, Stop> {
        let begun = self.effects();
        self.db()?.checkpoint(dir)?;
        self.promise_all()?;
        let world = self.history.last().clone();
        self.made(dir, begun, world.clone())?;
        Ok(world)
    }

    /// Makes a database of a snapshot.
    fn export(&mut self) -> Result<(), Stop> {
        let (snapshot, world) = match self.held.clone() {
            Some(held) => held,
            None => self.hold()?,
        };
        let (dir, begun) = (self.folder(), self.effects());
        snapshot.export(&dir)?;
        self.promise_all()?;
        self.made(&dir, begun, world)
    }

    /// A copy was made: it is there and whole.
    fn made(&mut self, dir: &Path, begun: usize, world: World) -> Result<(), Stop> {
        let (done, now) = (self.effects(), self.db()?.time().0);
        let made = Made { dir: dir.to_owned(), begun, done, world, now };
        let db = self.open_read_only(dir)?;
        made.check(&read_world(&db)?, db.time().0)?;
        self.copies.push(made);
        Ok(())
    }

    /// Holds what is visible now, and what that is.
    pub(crate) fn hold(&mut self) -> Result<(Snapshot, World), Stop> {
        self.wait_all()?;
        self.settle_shown()?;
        let snapshot = self.db()?.snapshot()?;
        // What callbacks wait for need not be visible.
        let count = self.history.count_at(snapshot.at().0);
        Ok((snapshot, self.history.after(count).1.clone()))
    }

    /// Who opens for reading only sees what a killed process would leave.
    fn peek(&self) -> Result<(), Stop> {
        let enough = self.need.kill;
        let db = self.open_read_only(Path::new(DIR))?;
        let (found, now) = (read_world(&db)?, db.time().0);
        // What failed may be there for who looks now, and be cut off by who writes next.
        let (mut history, mut doubts) = (self.history.clone(), self.doubts.clone());
        doubts.settle(&mut history, &found)?;
        match history.find(&found, enough, u64::MAX, now) {
            Some(_) => Ok(()),
            None => {
                let what = history.explain(&found, enough, now);
                Err(Stop::Wrong(format!("for reading: {what}")))
            }
        }
    }

    /// Who opens for reading only what a crash left sees no less than who opens it for work, and
    /// changes nothing.
    pub(crate) fn peek_alone(&mut self) -> Result<(), Stop> {
        // Time only goes on: what had expired before the crash may be given up by now.
        self.history.restart_time();
        self.clock.set_wall(self.history.newest().max(START_TICKS) + LONGER_THAN_A_START);
        let before = self.sim.effects();
        match self.peek() {
            // There is no database yet, or not all of one.
            Err(Stop::Refused(_)) if self.need.kill == 0 => {}
            outcome => outcome?,
        }
        match self.sim.effects() - before {
            0 => Ok(()),
            effects => Err(Stop::Wrong(format!("for reading: {effects} effects on the disk"))),
        }
    }

    fn open_read_only(&self, dir: &Path) -> Result<Db, Stop> {
        let options = Options { read_only: true, ..self.options.clone() };
        let (vfs, clock) = (Arc::clone(&self.vfs), Arc::clone(&self.clock));
        let builder = Db::builder().options(options).parts(vfs, clock, Arc::new(ByHand));
        Ok(builder.open(dir)?)
    }

    /// Closes and lets go.
    pub(crate) fn close(&mut self) -> Result<(), Stop> {
        self.db()?.close()?;
        self.db = None;
        Ok(())
    }

    /// Nothing is left of the process.
    fn let_go(&mut self) {
        self.held = None;
        self.tickets.clear();
        self.db = None;
    }

    fn reopen(&mut self, options: Options) -> Result<(), Stop> {
        let closed = self.db.as_ref().map_or(Ok(()), Db::close);
        if closed.is_ok() && self.db.is_some() {
            self.promise_all()?;
            self.wait_all()?;
        }
        self.let_go();
        self.options = options;
        self.open(|need| need.kill)?;
        Ok(closed?)
    }

    fn kill(&mut self, options: Options) -> Result<(), Stop> {
        self.sim.kill();
        self.let_go();
        self.options = options;
        self.open(|need| need.kill).map(drop)
    }
}
