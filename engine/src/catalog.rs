//! The catalogue: which tables exist. Its rows live in the engine's own table 0, in one partition,
//! so that making or dropping a table is one ordinary commit.
//!
//! ```text
//! RowKey        value
//! "next"        the next table id, u32
//! "t" + name    version u8 = 1 | table id u32 | note
//!               version u8 = 2 | table id u32 | created u64 | time to live u64 | cutoff u64
//!                              | declared columns u8 | each: length varint, name | note
//! ```
//!
//! Version 2 is a table of which something was set: its time to live, in ticks (0: none), or
//! columns that it wants zones of.

use crate::codec::{Reader, put_slice};
use crate::error::{Error, Kind, Result};
use crate::ids::{CommitTs, TableId};
use crate::key::order;
use crate::lifetime::{Lifetime, Lifetimes};
use crate::limits::{TABLE_NAME_BYTES_MAX, ZONE_COLUMN_BYTES_MAX};
use crate::moment::Moment;
use crate::rows::{Row, TableInfo};
use crate::snapshot::Boundaries;
use crate::sstable::zones::COLUMNS_MAX;
use crate::zone::Declared;
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

const PARTITION: &[u8] = b"tables";
const NEXT_ID: &[u8] = b"next";
const TABLE_PREFIX: u8 = b't';
const VALUE_VERSION: u8 = 1;
const VALUE_VERSION_WITH_SETTINGS: u8 = 2;

/// The partition prefix of all catalogue rows.
pub(crate) fn partition() -> Vec<u8> {
    order::partition_prefix(TableId::CATALOG, PARTITION)
}

/// RowKey of a table's row.
pub(crate) fn row_key(name: &str) -> Vec<u8> {
    [&[TABLE_PREFIX], name.as_bytes()].concat()
}

/// RowKey of the counter of table ids.
pub(crate) fn next_id_key() -> &'static [u8] {
    NEXT_ID
}

/// A table's row.
pub(crate) fn encode(id: TableId, note: &[u8]) -> Vec<u8> {
    let mut value = vec![VALUE_VERSION];
    value.extend_from_slice(&id.0.to_le_bytes());
    value.extend_from_slice(note);
    value
}

/// A table's row once something was set for it; the lifetime's `since` is that row's own timestamp.
pub(crate) fn encode_with_settings(
    table: &TableInfo,
    lifetime: &Lifetime,
    columns: &[Vec<u8>],
) -> Vec<u8> {
    let mut value = vec![VALUE_VERSION_WITH_SETTINGS];
    value.extend_from_slice(&table.id.0.to_le_bytes());
    for number in [table.created.0, lifetime.ttl, lifetime.cutoff.0] {
        value.extend_from_slice(&number.to_le_bytes());
    }
    value.push(columns.len() as u8); // At most `COLUMNS_MAX`.
    columns.iter().for_each(|name| put_slice(&mut value, name));
    value.extend_from_slice(&table.note);
    value
}

/// Refuses columns that a table cannot declare.
pub(crate) fn check_columns(columns: &[Vec<u8>]) -> Result<()> {
    let len_is_wrong = |name: &Vec<u8>| name.is_empty() || name.len() > ZONE_COLUMN_BYTES_MAX;
    if columns.len() > COLUMNS_MAX {
        return Err(Error::invalid(format!("at most {COLUMNS_MAX} columns can be declared")));
    }
    if columns.iter().any(len_is_wrong) {
        let what = format!("a column's name has 1 to {ZONE_COLUMN_BYTES_MAX} bytes");
        return Err(Error::invalid(what));
    }
    match columns.iter().enumerate().any(|(at, name)| columns[..at].contains(name)) {
        true => Err(Error::invalid("a column is declared twice")),
        false => Ok(()),
    }
}

fn read_columns(reader: &mut Reader<'_>) -> Option<Vec<Vec<u8>>> {
    let count = usize::from(reader.u8()?);
    let columns = (0..count).map(|_| reader.slice(ZONE_COLUMN_BYTES_MAX).map(<[u8]>::to_vec));
    let columns = columns.collect::<Option<Vec<_>>>()?;
    check_columns(&columns).is_ok().then_some(columns)
}

fn read_lifetime(reader: &mut Reader<'_>, since: CommitTs) -> Option<(CommitTs, Lifetime)> {
    let (created, ttl, cutoff) = (reader.u64()?, reader.u64()?, reader.u64()?);
    Some((CommitTs(created), Lifetime { since, ttl, cutoff: CommitTs(cutoff) }))
}

/// The counter's row.
pub(crate) fn encode_next_id(id: TableId) -> Vec<u8> {
    id.0.to_le_bytes().to_vec()
}

/// Refuses a name that no table can have.
pub(crate) fn check_name(name: &str) -> Result<()> {
    match name.len() {
        0 => Err(Error::invalid("a table's name must not be empty")),
        len if len > TABLE_NAME_BYTES_MAX => Err(Error::invalid(format!(
            "a table's name has {len} bytes; at most {TABLE_NAME_BYTES_MAX} are allowed"
        ))),
        _ => Ok(()),
    }
}

/// What whoever asks for rows of a table that is not there is told.
pub(crate) fn no_such_table(table: TableId) -> Error {
    Error::no_table(table.0)
}

fn damaged(what: &str) -> Error {
    Error::new(Kind::Corrupt, format!("catalogue row: {what}"))
}

/// The name of the table that a row is about.
fn name_of(rk: &[u8]) -> Result<&str> {
    let name = rk.strip_prefix(&[TABLE_PREFIX]).ok_or_else(|| damaged("unknown key"))?;
    std::str::from_utf8(name).map_err(|_| damaged("name is not UTF-8"))
}

/// The tables that exist, and those dropped whose rows some snapshot may still read. Changes are
/// in it from when they are applied: writers go by that. A reader at some timestamp is shown what
/// was there then, so nothing that a crash can still take away.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tables {
    by_name: BTreeMap<String, TableInfo>,
    live: BTreeMap<TableId, CommitTs>, // Asked by every read, so no hash of the slow, safe kind.
    dropped: HashMap<TableId, (TableInfo, CommitTs)>,
    lifetimes: BTreeMap<TableId, Lifetimes>, // Of those that ever had a time to live.
    columns: Arc<Declared>,
    changed: CommitTs, // The last change.
    next_id: u32,
}

impl Tables {
    /// The catalogue with no table; the first gets id 1.
    pub(crate) fn new() -> Tables {
        Tables { next_id: 1, ..Tables::default() }
    }

    /// Takes over one catalogue row as read from storage.
    pub(crate) fn load(&mut self, rk: &[u8], row: Row) -> Result<()> {
        if rk == NEXT_ID {
            let id = Reader::new(&row.value).u32().ok_or_else(|| damaged("table counter"))?;
            self.next_id = self.next_id.max(id);
            return Ok(());
        }
        let name = name_of(rk)?;
        let mut reader = Reader::new(&row.value);
        let version = reader.u8();
        if !matches!(version, Some(VALUE_VERSION | VALUE_VERSION_WITH_SETTINGS)) {
            return Err(damaged("unknown version"));
        }
        let id = TableId(reader.u32().ok_or_else(|| damaged("cut short"))?);
        let mut created = row.ts;
        if version == Some(VALUE_VERSION_WITH_SETTINGS) {
            let read = read_lifetime(&mut reader, row.ts);
            let (made, lifetime) = read.ok_or_else(|| damaged("time to live is cut short"))?;
            created = made;
            let lives_for_ever = lifetime.ttl == 0 && lifetime.cutoff == CommitTs::ZERO;
            if !lives_for_ever || self.lifetimes.contains_key(&id) {
                self.set_lifetime(id, lifetime);
            }
            let columns = read_columns(&mut reader).ok_or_else(|| damaged("declared columns"))?;
            self.set_columns(id, columns, row.ts);
        }
        let note = row.value.slice_ref(reader.rest());
        self.add(TableInfo { id, name: name.to_owned(), note, created });
        Ok(())
    }

    /// Takes over that a catalogue row was deleted by the commit `at`.
    pub(crate) fn unload(&mut self, rk: &[u8], at: CommitTs) -> Result<()> {
        if rk != NEXT_ID {
            self.remove(name_of(rk)?, at);
        }
        Ok(())
    }

    pub(crate) fn add(&mut self, table: TableInfo) {
        self.next_id = self.next_id.max(table.id.0.saturating_add(1));
        self.changed = self.changed.max(table.created);
        self.live.insert(table.id, table.created);
        self.by_name.insert(table.name.clone(), table);
    }

    /// Takes over a new time to live.
    pub(crate) fn set_lifetime(&mut self, id: TableId, lifetime: Lifetime) {
        self.changed = self.changed.max(lifetime.since);
        self.lifetimes.entry(id).or_default().add(lifetime);
    }

    /// The setting of a table's time to live, as applied.
    pub(crate) fn lifetime(&self, id: TableId) -> Option<&Lifetime> {
        self.lifetimes.get(&id).and_then(|lifetimes| lifetimes.at(CommitTs::MAX))
    }

    /// Takes over that a table declares columns, by the commit `at`.
    pub(crate) fn set_columns(&mut self, id: TableId, columns: Vec<Vec<u8>>, at: CommitTs) {
        self.changed = self.changed.max(at);
        let all = Arc::make_mut(&mut self.columns);
        match columns.is_empty() {
            true => all.remove(&id),
            false => all.insert(id, columns),
        };
    }

    /// The columns that tables have declared, as applied.
    pub(crate) fn columns(&self) -> &Arc<Declared> {
        &self.columns
    }

    /// Those of one table.
    pub(crate) fn columns_of(&self, id: TableId) -> &[Vec<u8>] {
        self.columns.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Stops time for the rows of a table: [`Lifetimes::stop`].
    pub(crate) fn stop_aging(&mut self, id: TableId, now: CommitTs) {
        if let Some(lifetimes) = self.lifetimes.get_mut(&id) {
            lifetimes.stop(now);
        }
    }

    /// The time to live of a table for a reader at `at`, in ticks; 0 for ever.
    pub(crate) fn ttl_at(&self, id: TableId, at: CommitTs) -> u64 {
        let lifetime = self.lifetimes.get(&id).and_then(|lifetimes| lifetimes.at(at));
        lifetime.map_or(0, |lifetime| lifetime.ttl)
    }

    /// Whether any table has or had a time to live, but for those that are forgotten.
    pub(crate) fn any_ages(&self) -> bool {
        !self.lifetimes.is_empty()
    }

    /// Rows of a table of commits up to here are hidden from a reader.
    pub(crate) fn outlived_to(&self, id: TableId, moment: Moment) -> CommitTs {
        let lifetimes = self.lifetimes.get(&id);
        lifetimes.map_or(CommitTs::ZERO, |lifetimes| lifetimes.outlived_to(moment))
    }

    /// Takes a table out, as of the commit `at`.
    pub(crate) fn remove(&mut self, name: &str, at: CommitTs) {
        if let Some(table) = self.by_name.remove(name) {
            self.live.remove(&table.id);
            if self.columns.contains_key(&table.id) {
                Arc::make_mut(&mut self.columns).remove(&table.id);
            }
            self.dropped.insert(table.id, (table, at));
            self.changed = self.changed.max(at);
        }
    }

    /// Forgets the tables that were dropped up to `oldest`, and the times to live that others had
    /// replaced by then: no reader is at an earlier moment, nor will be, and no crash takes the
    /// change back.
    pub(crate) fn forget(&mut self, oldest: CommitTs) {
        let (dropped, lifetimes) = (&mut self.dropped, &mut self.lifetimes);
        dropped.retain(|id, (_, at)| {
            if *at <= oldest {
                lifetimes.remove(id);
            }
            *at > oldest
        });
        lifetimes.values_mut().for_each(|lifetimes| lifetimes.forget(oldest));
    }

    /// The table of that name as applied.
    pub(crate) fn find(&self, name: &str) -> Option<&TableInfo> {
        self.by_name.get(name)
    }

    /// The table of that name for a reader at `at`.
    pub(crate) fn find_at(&self, name: &str, at: CommitTs) -> Option<&TableInfo> {
        match self.find(name).filter(|table| table.created <= at) {
            None if at < self.changed => self.dropped_since(at).find(|table| table.name == name),
            found => found,
        }
    }

    /// The tables that a reader at `at` has and later ones have not, in no particular order.
    fn dropped_since(&self, at: CommitTs) -> impl Iterator<Item = &TableInfo> {
        let dropped = self.dropped.values().filter(move |(_, dropped)| at < *dropped);
        dropped.map(|(table, _)| table).filter(move |table| table.created <= at)
    }

    /// How many dropped tables are remembered.
    #[cfg(test)]
    pub(crate) fn dropped_len(&self) -> usize {
        self.dropped.len()
    }

    /// How many settings of a table's time to live are remembered.
    #[cfg(test)]
    pub(crate) fn lifetimes_len(&self, id: TableId) -> usize {
        self.lifetimes.get(&id).map_or(0, Lifetimes::len)
    }

    /// The last change of the catalogue, durable or not.
    pub(crate) fn changed(&self) -> CommitTs {
        self.changed
    }

    pub(crate) fn is_live(&self, id: TableId) -> bool {
        id == TableId::CATALOG || self.live.contains_key(&id)
    }

    /// The tables that are live, in order of their numbers.
    pub(crate) fn live(&self) -> impl Iterator<Item = TableId> {
        self.live.keys().copied()
    }

    /// Whether a reader at `at` may find rows of the table.
    pub(crate) fn is_readable_at(&self, id: TableId, at: CommitTs) -> bool {
        self.is_live(id) || self.dropped.get(&id).is_some_and(|(_, dropped)| at < *dropped)
    }

    /// The number for the next table.
    pub(crate) fn next_id(&self) -> Result<TableId> {
        match self.next_id {
            u32::MAX => Err(Error::invalid("all table numbers are used up")),
            id => Ok(TableId(id)),
        }
    }

    /// The tables for a reader at `at` whose name starts with `prefix` and lies after `after`. For
    /// one of the past, cost: as many again as were made or dropped since.
    pub(crate) fn list_at(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        at: CommitTs,
    ) -> Vec<TableInfo> {
        let from = match after.filter(|after| *after >= prefix) {
            Some(after) => Bound::Excluded(after),
            None => Bound::Included(prefix),
        };
        let tables = self.by_name.range::<str, _>((from, Bound::Unbounded));
        let named = tables.take_while(|(name, _)| name.starts_with(prefix));
        let there = named.map(|(_, table)| table).filter(|table| table.created <= at);
        let mut found: Vec<&TableInfo> = there.take(limit).collect();
        if at < self.changed {
            let is_in = |name: &str| name.starts_with(prefix) && after.is_none_or(|a| a < name);
            found.extend(self.dropped_since(at).filter(|table| is_in(&table.name)));
            found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
            found.truncate(limit);
        }
        found.into_iter().cloned().collect()
    }

    /// What readers may find. `recorded`: what a crash does not take back.
    pub(crate) fn readable(&self, boundaries: &Boundaries, recorded: CommitTs) -> Readable {
        let outlived = self.lifetimes.iter().map(|(id, lifetimes)| {
            (*id, lifetimes.outlived_for_all(boundaries.readers(), recorded))
        });
        let outlived = outlived.filter(|(_, to)| *to > CommitTs::ZERO).collect();
        Readable { outlived, ..self.readable_from(boundaries.oldest().min(recorded)) }
    }

    /// The ids whose rows no reader at or after `oldest` may find: everything not in it.
    fn readable_from(&self, oldest: CommitTs) -> Readable {
        let mut ids: Vec<_> = self.live.keys().copied().collect();
        ids.extend(self.dropped.iter().filter(|(_, (_, at))| oldest < *at).map(|(id, _)| *id));
        ids.push(TableId::CATALOG);
        ids.sort_unstable();
        Readable { ids, next: TableId(self.next_id), outlived: Vec::new() }
    }
}

/// The tables whose rows compaction must keep.
#[derive(Clone, Debug)]
pub(crate) struct Readable {
    ids: Vec<TableId>,
    next: TableId, // From here on: tables made since.
    /// Of tables with a time to live: rows of commits up to here are hidden from everybody.
    outlived: Vec<(TableId, CommitTs)>,
}

impl Readable {
    pub(crate) fn contains(&self, id: TableId) -> bool {
        id >= self.next || self.ids.binary_search(&id).is_ok()
    }

    /// Rows of a table of commits up to here are hidden from everybody.
    pub(crate) fn outlived_to(&self, id: TableId) -> CommitTs {
        let found = self.outlived.binary_search_by_key(&id, |(id, _)| *id);
        found.map_or(CommitTs::ZERO, |at| self.outlived[at].1)
    }

    /// The tables of `first..=last` of which rows are hidden so.
    pub(crate) fn aging(
        &self,
        first: TableId,
        last: TableId,
    ) -> impl Iterator<Item = &(TableId, CommitTs)> {
        let from = self.outlived.partition_point(|(id, _)| *id < first);
        self.outlived[from..].iter().take_while(move |(id, _)| *id <= last)
    }

    /// Rows of commits up to here are hidden in each table of `first..=last` that is in it.
    pub(crate) fn outlived_in_all(&self, first: TableId, last: TableId) -> CommitTs {
        if self.outlived.is_empty() || last >= self.next {
            return CommitTs::ZERO;
        }
        let from = self.ids.partition_point(|id| *id < first);
        let ids = self.ids[from..].iter().take_while(|id| **id <= last);
        ids.map(|id| self.outlived_to(*id)).min().unwrap_or(CommitTs::ZERO)
    }

    /// Whether any table of `first..=last` is in it.
    pub(crate) fn any_in(&self, first: TableId, last: TableId) -> bool {
        let at = self.ids.partition_point(|id| *id < first);
        last >= self.next || self.ids.get(at).is_some_and(|id| *id <= last)
    }
}

/// A new table's description before it is committed.
pub(crate) fn info(id: TableId, name: &str, note: &[u8], created: CommitTs) -> TableInfo {
    TableInfo { id, name: name.to_owned(), note: Bytes::copy_from_slice(note), created }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;
    use crate::env::rng::Rng;
    use std::ops::Range;

    fn with(names: &[&str]) -> Tables {
        let mut tables = Tables::new();
        for name in names {
            let id = tables.next_id().unwrap();
            let row = Row::new(CommitTs(5), encode(id, b"note").into());
            tables.load(&row_key(name), row).unwrap();
        }
        tables
    }

    #[test]
    fn lists_by_prefix_and_place() {
        let tables = with(&["a/x", "a/y", "a/z", "b/x"]);
        let names = |prefix, after, limit| -> Vec<_> {
            tables.list_at(prefix, after, limit, CommitTs(5)).into_iter().map(|t| t.name).collect()
        };
        assert_eq!(names("a/", None, 9), ["a/x", "a/y", "a/z"]);
        assert_eq!(names("a/", Some("a/x"), 1), ["a/y"]);
        assert_eq!(names("b/", Some("a/x"), 9), ["b/x"]);
        assert_eq!(names("c", None, 9), [""; 0]);
    }

    #[test]
    fn a_dropped_table_stays_readable_for_older_snapshots_and_its_id_is_not_reused() {
        let mut tables = with(&["a", "b"]);
        let id = tables.find("b").unwrap().id;
        tables.remove("b", CommitTs(10));
        assert!(!tables.is_live(id) && tables.next_id().unwrap() > id);
        assert!(tables.is_readable_at(id, CommitTs(9)) && !tables.is_readable_at(id, CommitTs(10)));
        assert!(tables.readable_from(CommitTs(9)).contains(id));
        let readable = tables.readable_from(CommitTs(10));
        assert!(!readable.contains(id) && !readable.any_in(id, id));
        assert!(readable.contains(TableId(id.0 + 1)), "a table made meanwhile");
    }

    #[test]
    fn a_reader_sees_a_change_from_its_own_moment_on() {
        let mut tables = with(&["a", "b"]);
        let id = tables.next_id().unwrap();
        tables.remove("a", CommitTs(10));
        tables.add(info(id, "a", b"", CommitTs(20)));
        for (at, want) in [(9, Some(TableId(1))), (10, None), (19, None), (20, Some(id))] {
            let at = CommitTs(at);
            assert_eq!(tables.find_at("a", at).map(|t| t.id), want, "{at}");
            let listed = tables.list_at("", None, 9, at);
            assert_eq!(listed.iter().find(|t| t.name == "a").map(|t| t.id), want, "{at}");
            assert!(listed.iter().any(|t| t.name == "b"), "{at}");
        }
        assert_eq!(tables.find("a").map(|t| t.id), Some(id));
    }

    #[test]
    fn every_moment_lists_the_tables_that_there_were() {
        const ENDS: u64 = 60;
        let names = ["a", "ab", "b", "ba", "bb", "bbb", "c"];
        for seed in 0..50 {
            let mut rng = Rng::seeded(seed);
            let mut tables = Tables::new();
            // Each table that there ever was, with its life.
            let mut lives: Vec<(&str, TableId, Range<u64>)> = Vec::new();
            for at in 1..ENDS {
                let name = names[rng.below(7) as usize];
                match lives.iter_mut().find(|(n, _, life)| *n == name && life.end == ENDS) {
                    Some((_, _, life)) => {
                        life.end = at;
                        tables.remove(name, CommitTs(at));
                    }
                    None => {
                        let id = tables.next_id().unwrap();
                        lives.push((name, id, at..ENDS));
                        tables.add(info(id, name, b"", CommitTs(at)));
                    }
                }
            }
            for at in 0..ENDS {
                let (prefix, limit) = (["", "a", "b", "bb"][rng.below(4) as usize], 1 + at % 7);
                let after = rng.one_in(2).then(|| names[rng.below(7) as usize]);
                let there = lives.iter().filter(|(_, _, life)| life.contains(&at));
                let mut want: Vec<_> = there.map(|(name, id, _)| (*name, *id)).collect();
                want.sort_unstable();
                let at = CommitTs(at);
                for name in names {
                    let one = want.iter().find(|(n, _)| *n == name).map(|(_, id)| *id);
                    assert_eq!(tables.find_at(name, at).map(|t| t.id), one, "{seed} {at} {name}");
                }
                want.retain(|(name, _)| name.starts_with(prefix) && Some(*name) > after);
                want.truncate(limit as usize);
                let found = tables.list_at(prefix, after, limit as usize, at);
                let found: Vec<_> = found.iter().map(|t| (t.name.as_str(), t.id)).collect();
                assert_eq!(found, want, "{seed} {at} {prefix} {after:?} {limit}");
            }
        }
    }

    #[test]
    fn damaged_rows_are_refused() {
        for (rk, value) in
            [(&b"next"[..], &b"abc"[..]), (b"x", b""), (b"tn", b"\x02...."), (b"tn", b"\x01ab")]
        {
            let row = Row::new(CommitTs(1), Bytes::copy_from_slice(value));
            let error = Tables::new().load(rk, row).unwrap_err();
            assert_eq!(error.kind(), Kind::Corrupt);
        }
    }
}
