//! What an opened database shows, held against what it must hold, row by row: a row may be right or
//! an error, and nothing else. Behind an error the rest is looked at all the same.

use crate::look::table_of;
use crate::model::{Place, Stored, World};
use std::collections::BTreeMap;
use tabulith::Scan;
use tabulith::db::Db;
use tabulith::error::{Error, Kind};
use tabulith::ids::{CommitTs, TableId};
use tabulith::options::Reach;
use tabulith::rows::{Catalog, RowStore, TableInfo};

/// What was seen of a database.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Rows that were right.
    pub(crate) right: u64,
    /// What was refused, each place of it once.
    pub(crate) refused: Vec<Error>,
    pub(crate) wrong: Option<(Wrong, String)>,
}

/// What no damage may lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wrong {
    /// A row of the right commit with other bytes.
    Value,
    /// No row where there is one, and no error.
    Missing,
    /// A row, a table where there is none.
    Extra,
    /// A row as an earlier commit left it.
    Old,
    Panic,
    /// An allocation of more than the bound.
    Large,
    /// A refusal that does not say where, or of what another copy has.
    Refusal,
}

impl Wrong {
    pub(crate) const ALL: [Wrong; 7] = [
        Wrong::Value,
        Wrong::Missing,
        Wrong::Extra,
        Wrong::Old,
        Wrong::Panic,
        Wrong::Large,
        Wrong::Refusal,
    ];
}

impl Seen {
    fn wrong(&mut self, wrong: Wrong, what: String) {
        self.wrong.get_or_insert((wrong, what));
    }

    fn refused(&mut self, error: Error) {
        let is_same =
            |other: &Error| (other.kind(), other.place()) == (error.kind(), error.place());
        if !self.refused.iter().any(is_same) {
            self.refused.push(error);
        }
    }

    /// A row was found where `expected` is the one.
    fn row(&mut self, name: &str, place: &Place, found: &Stored, expected: Option<&Stored>) {
        let what = |found: &Stored| {
            format!("{name} {place:?}: commit {} until {}", found.ts, found.expires)
        };
        match expected {
            Some(row) if row == found => self.right += 1,
            Some(row) if row.ts == found.ts => self.wrong(Wrong::Value, what(found)),
            Some(row) => {
                self.wrong(Wrong::Old, format!("{} in place of {}", what(found), row.ts));
            }
            None => self.wrong(Wrong::Extra, what(found)),
        }
    }
}

/// Reads everything, by scans from both ends and by keys, those that are not there included.
pub(crate) fn read(db: &Db, expected: &World) -> Seen {
    let mut seen = Seen::default();
    let found = match db.tables("", None, usize::MAX) {
        Ok(found) => found,
        Err(error) => {
            seen.refused(error);
            return seen;
        }
    };
    let found: BTreeMap<String, TableInfo> =
        found.into_iter().map(|info| (info.name.clone(), info)).collect();
    if let Some(extra) = found.keys().find(|name| !expected.tables.contains_key(*name)) {
        seen.wrong(Wrong::Extra, format!("table {extra}"));
    }
    let now = db.time().0;
    for (name, table) in &expected.tables {
        let Some(info) = found.get(name).filter(|info| info.id.0 == table.id) else {
            seen.wrong(Wrong::Missing, format!("table {name}"));
            continue;
        };
        let rows: BTreeMap<&Place, &Stored> = table.shown(now).collect();
        for back in [false, true] {
            let opened = table_of(db, name).and_then(|table| table.scan::<&[u8], &[u8]>(..));
            scan(name, opened, &rows, back, &mut seen);
        }
        get(db, name, info.id, &rows, &mut seen);
    }
    seen
}

/// Reads a moment of the past.
pub(crate) fn read_past(db: &Db, (at, expected): &(CommitTs, World), seen: &mut Seen) {
    let snapshot = match db.snapshot_at(*at) {
        Ok(snapshot) => snapshot,
        Err(error) => return seen.refused(error),
    };
    for (name, table) in &expected.tables {
        let Some(found) = snapshot.table(name) else {
            seen.wrong(Wrong::Missing, format!("table {name} as of {at}"));
            continue;
        };
        let rows: BTreeMap<&Place, &Stored> = table.shown(at.0).collect();
        scan(name, snapshot.scan::<&[u8], &[u8]>(&found, ..), &rows, false, seen);
    }
}

fn scan(
    name: &str,
    opened: tabulith::Result<Scan>,
    rows: &BTreeMap<&Place, &Stored>,
    back: bool,
    seen: &mut Seen,
) {
    let mut scan = match opened {
        Ok(scan) => scan,
        Err(error) => return seen.refused(error),
    };
    let mut expected = rows.iter();
    loop {
        let (next, row) = match back {
            false => (scan.next(), expected.next()),
            true => (scan.next_back(), expected.next_back()),
        };
        match (next, row) {
            (None, None) => return,
            (None, Some((place, _))) => {
                return seen.wrong(Wrong::Missing, format!("{name} {place:?} in a scan"));
            }
            (Some(Err(error)), _) => {
                seen.refused(error);
                let more = if back { scan.next_back() } else { scan.next() };
                if matches!(more, Some(Ok(_))) {
                    seen.wrong(Wrong::Missing, format!("{name}: a scan goes on after an error"));
                }
                return;
            }
            (Some(Ok(found)), row) => {
                let place = (found.partition_key, found.row_key);
                let stored = Stored::found(found.ts, found.expires, found.value);
                match row {
                    Some((at, row)) if **at == place => seen.row(name, &place, &stored, Some(row)),
                    _ if rows.contains_key(&place) => {
                        return seen
                            .wrong(Wrong::Missing, format!("{name}: rows before {place:?}"));
                    }
                    _ => return seen.row(name, &place, &stored, None),
                }
            }
        }
    }
}

fn get(db: &Db, name: &str, id: TableId, rows: &BTreeMap<&Place, &Stored>, seen: &mut Seen) {
    // Behind each row one that is not there, with a key of the same partition.
    let absent = rows.keys().map(|(pk, rk)| (pk.clone(), [&rk[..], b"-"].concat().into()));
    let absent: Vec<Place> = absent.collect();
    let there = rows.iter().map(|(place, stored)| (*place, Some(*stored)));
    for (place, expected) in there.chain(absent.iter().map(|place| (place, None))) {
        match RowStore::get(db, id, &place.0, &place.1, Reach::Disk) {
            Ok(Some(row)) => {
                let found = Stored::found(row.ts, row.expires, row.value);
                seen.row(name, place, &found, expected);
            }
            Ok(None) if expected.is_some() => {
                seen.wrong(Wrong::Missing, format!("{name} {place:?} by its key"));
            }
            Ok(None) => {}
            Err(error) => seen.refused(error),
        }
    }
}

/// Whether an error is one that damage to `files` may lead to: it says that it is damage, and
/// where. The log's may be told of another segment than the one that was damaged.
pub(crate) fn names_one_of(error: &Error, files: &[&str]) -> bool {
    let kinds = [Kind::Corrupt, Kind::Io];
    let place = error.place().and_then(|(file, _)| file.file_name());
    let place = place.map(|name| name.to_string_lossy().into_owned());
    let named = |file: &&str| match file.ends_with(".wal") {
        true => place.as_ref().is_some_and(|place| place.ends_with(".wal")),
        false => place.as_deref() == Some(*file),
    };
    kinds.contains(&error.kind()) && files.iter().any(named)
}
