//! What steps change: rows, entities, settings and the catalogue, and what the history makes of
//! each.

use crate::entities::{self, Group};
use crate::look::FIRST_BYTE;
use crate::model::{Change, NEVER, Stored, World};
use crate::opening::track_rows;
use crate::ops::{Owner, Verb, key_of, ttl_of, value_of};
use crate::run::Run;
use crate::settings;
use crate::stop::Stop;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::ops::Bound;
use tabulith::env::clock::Clock as _;
use tabulith::error::{Error, Kind};
use tabulith::ids::CommitTs;
use tabulith::options::{Durability, Reach};
use tabulith::rows::{Catalog, RowStore};

/// More of a memtable than a commit of one small row takes.
const SMALL_COMMIT_BYTES_MAX: usize = 1 << 10;

impl Run {
    /// Commits the rows that make a difference.
    pub(crate) fn write(
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
    pub(crate) fn count_up(&mut self, table: &str, pk: u8, times: u8) -> Result<(), Stop> {
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
    pub(crate) fn ingest(&mut self, table: &str, pk: u8, rows: &[(u8, u16)]) -> Result<(), Stop> {
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
    pub(crate) fn erase(
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
    pub(crate) fn truncate(&mut self, table: &str, level: Durability) -> Result<(), Stop> {
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

    /// Reads a row and writes others, beside commits that nobody has seen yet.
    pub(crate) fn transact(
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
        let found = transaction.get(&read)?;
        let found = found.map(|row| Stored::found(row.ts, row.expires, row.value));
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
        self.promise_up_to(self.db()?.visible().0)
    }

    /// Changes entities, all of those that are named or none.
    pub(crate) fn change_entities(
        &mut self,
        pk: u8,
        changes: &[(u8, Verb, u16)],
    ) -> Result<(), Stop> {
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
        let there = there.map(|((_, rk), stored)| (rk.clone(), stored.value.clone())).collect();
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
        self.promise_up_to(self.db()?.visible().0)
    }

    /// Sets a setting, or takes it back. The first one makes their table.
    pub(crate) fn set_setting(
        &mut self,
        owner: Owner,
        name: u8,
        bytes: Option<u16>,
    ) -> Result<(), Stop> {
        let db = self.db()?;
        let Some(number) = settings::number_of(db, owner)? else { return Ok(()) };
        let value = bytes.map(|bytes| value_of(self.history.len() as u64, bytes));
        let table = settings::CATALOG_NAME.to_owned();
        let is_there = db.find_table(&table)?.is_some();
        let outcome = settings::set(db, owner, name, value.as_deref());
        if !is_there {
            let Some(made) = db.find_table(&table)? else {
                return match outcome {
                    Err(Stop::Refused(error)) => {
                        self.failed(error, Change::Create { table, id: 0 })
                    }
                    outcome => Err(Stop::Wrong(format!("{outcome:?}, and no table of settings"))),
                };
            };
            let create = Change::Create { table: table.clone(), id: made.id.0 };
            self.changed(made.created.0, create)?;
        }
        let (pk, rk) = settings::place(number, name);
        let changes = value.is_some() || self.row_keys(&table, &pk)?.contains(&rk);
        let change = Change::Rows { table, pk, rows: vec![(rk, value)], expires: NEVER };
        if let Err(stop) = outcome {
            self.doubts.add(&self.history, change);
            return Err(stop);
        }
        let visible = self.db()?.visible().0;
        if changes {
            self.history.push(visible, self.options.durability, change)?;
        }
        self.promise_up_to(visible)
    }

    pub(crate) fn create(&mut self, table: &str) -> Result<(), Stop> {
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

    pub(crate) fn drop_table(&mut self, table: &str) -> Result<(), Stop> {
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
    pub(crate) fn set_ttl(&mut self, name: &str, ticks: u64) -> Result<(), Stop> {
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
    pub(crate) fn declare(&mut self, name: &str, columns: u8) -> Result<(), Stop> {
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
}
