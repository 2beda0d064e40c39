//! What an open database shows: all of it now, and as it was.

use crate::model::{History, Life, Place, Stored, Table, World};
use crate::stop::Stop;
use crate::{entities, settings};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tabulith::db::Db;
use tabulith::error::{Error, Kind};
use tabulith::ids::{CommitTs, TableId};
use tabulith::key::order;
use tabulith::key::range::KeyRange;
use tabulith::options::Reach;
use tabulith::rows::{Catalog, RowCursor, RowStore, TableInfo};
use tabulith::zone::{Cell, Extract, Zone, ZoneFilter, ZoneScan};

/// The table of entities, among the tables that workloads use by their numbers.
pub(crate) const ENTITIES: u8 = 3;

/// That of settings, which is written by steps of its own. It is the last one.
const SETTINGS: u8 = 4;

/// Longer than any run: with it every moment must be readable.
pub(crate) const LONG_HISTORY: Duration = Duration::from_secs(3600);

/// Reads every table, and every row by its key too; entities as such.
pub(crate) fn read_world(db: &Db) -> Result<World, Stop> {
    let mut world = catalog_of(db)?;
    for (name, table) in &mut world.tables {
        let rows = match name.as_str() {
            entities::CATALOG_NAME => entities::read(db)?,
            _ => read_table(db, name, TableId(table.id))?,
        };
        if name == settings::CATALOG_NAME {
            settings::compare(db, &rows)?;
        }
        table.rows = Arc::new(rows);
    }
    Ok(world)
}

/// The table of that name, one of entities too.
pub(crate) fn table_of(db: &Db, name: &str) -> tabulith::Result<tabulith::Table> {
    db.find(name)?.ok_or_else(|| Error::no_table(name))
}

/// The tables without their rows.
pub(crate) fn catalog_of(db: &Db) -> Result<World, Stop> {
    let tables = db.tables("", None, usize::MAX)?.into_iter();
    let table = |info: TableInfo| {
        let table = table_of(db, &info.name)?;
        let ttl = table.ttl().map_or(0, |ttl| ttl.as_nanos() as u64 / 100);
        let (id, created, life) = (info.id.0, info.created.0, Life::found(ttl));
        let columns = table.zone_columns();
        Ok((info.name, Table { id, created, life, columns, ..Table::default() }))
    };
    Ok(World { tables: tables.map(table).collect::<Result<_, Stop>>()? })
}

fn read_table(db: &Db, name: &str, id: TableId) -> Result<BTreeMap<Place, Stored>, Stop> {
    let mut rows = BTreeMap::new();
    let mut cursor = table_of(db, name)?.cursor::<&[u8], &[u8]>(..)?;
    loop {
        let (place, stored) = match cursor.next() {
            Ok(Some(row)) => {
                let copy = Bytes::copy_from_slice;
                let place = (copy(row.partition_key), copy(row.row_key));
                let value = row.value().map(copy);
                let expires = row.expires();
                (place, value.and_then(|value| Ok(Stored::found(row.ts, expires?, value))))
            }
            Ok(None) => break,
            Err(error) => {
                // It repeats the error, whichever way it is moved, and leaves no row out.
                let moves = [cursor.next().is_ok(), cursor.prev().is_ok(), cursor.next().is_ok()];
                return Err(match moves {
                    [false, false, false] => error.into(),
                    _ => Stop::Wrong(format!("a cursor of {name} goes on after {error}")),
                });
            }
        };
        rows.insert(place, stored?);
    }
    let count = table_of(db, name)?.count()?;
    if count != rows.len() as u64 {
        return Err(Stop::Wrong(format!("{name} has {} rows and counts {count}", rows.len())));
    }
    read_sifted(db, id, &rows)?;
    for ((pk, rk), stored) in &rows {
        let got = RowStore::get(db, id, pk, rk, Reach::Disk)?;
        if got.is_none_or(|got| Stored::found(got.ts, got.expires, got.value) != *stored) {
            return Err(Stop::Wrong(format!("get and scan differ at {name} {pk:?} {rk:?}")));
        }
    }
    Ok(rows)
}

/// A scan with a filter leaves out only rows that do not pass it, whatever zones the files have.
fn read_sifted(db: &Db, id: TableId, rows: &BTreeMap<Place, Stored>) -> Result<(), Stop> {
    let middle = rows.values().nth(rows.len() / 2);
    let Some(middle) = middle else { return Ok(()) };
    let byte = middle.value.first().copied().unwrap_or(0);
    let wanted = Wanted { since: middle.ts, least: byte, columns: vec![FIRST_BYTE.to_owned()] };
    let mut passing = rows.iter().filter(|(_, row)| wanted.passes(row));
    let zones = Arc::new(ZoneScan::new(wanted.clone()));
    let mut cursor = RowStore::snapshot(db)?.scan_where(KeyRange::table(id), zones)?;
    let goes_on = |cursor: &mut Box<dyn RowCursor>, error| match cursor.next() {
        Ok(_) => Stop::Wrong(format!("a cursor with zones goes on after {error}")),
        Err(_) => Stop::Refused(error),
    };
    loop {
        match cursor.next() {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => return Err(goes_on(&mut cursor, error)),
        }
        let value = cursor.value()?;
        let row = Stored::found(cursor.ts(), cursor.expires()?, value);
        if !wanted.passes(&row) {
            continue;
        }
        let expected = passing.next();
        let same = expected.is_some_and(|((pk, rk), stored)| {
            *stored == row && cursor.key() == order::row_key(id, pk, rk)
        });
        if !same || cursor.is_ruled_out() {
            return Err(Stop::Wrong(format!("with zones, {row:?} in place of {expected:?}")));
        }
    }
    match passing.next() {
        None => Ok(()),
        missing => Err(Stop::Wrong(format!("with zones, {missing:?} does not come"))),
    }
}

pub(crate) const FIRST_BYTE: &str = "first byte";

/// With this every entity begins.
const ENTITY: u8 = 1;

/// Takes the first byte of a value for a column.
#[derive(Debug)]
pub(crate) struct FirstByte;

impl Extract for FirstByte {
    fn columns(&self, value: &[u8], each: &mut dyn FnMut(&[u8], Cell)) -> bool {
        match value.first() {
            Some(&ENTITY) => return false,
            Some(byte) => each(FIRST_BYTE.as_bytes(), Cell { kind: 1, prefix: u64::from(*byte) }),
            None => {}
        }
        true
    }
}

/// Rows of a commit and later, whose first byte is not below another.
#[derive(Clone)]
struct Wanted {
    since: u64,
    least: u8,
    columns: Vec<String>,
}

impl Wanted {
    fn passes(&self, row: &Stored) -> bool {
        row.ts >= self.since && row.value.first().is_some_and(|byte| *byte >= self.least)
    }
}

impl ZoneFilter for Wanted {
    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn may_pass(&self, written: (CommitTs, CommitTs), zones: &[Option<Zone>]) -> bool {
        let may_hold = |zone: &Zone| zone.has(1) && zone.max >= self.least.into();
        written.1.0 >= self.since && zones[0].as_ref().is_none_or(may_hold)
    }
}

/// One moment of the past, after one of the first `commits`, another at each call, is shown as it
/// was; or refused, if it lies before `kept_from`. Gives whether it was shown.
pub(crate) fn read_past(
    db: &Db,
    history: &History,
    commits: usize,
    kept_from: u64,
) -> Result<bool, Stop> {
    if commits == 0 {
        return Ok(false);
    }
    let choice = db.visible().0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let count = 1 + choice as usize % commits;
    let (at, world) = history.after(count);
    if history.is_guessed(at) {
        return Ok(false);
    }
    match compare_past(db, at, world) {
        Err(Stop::Refused(error)) if error.kind() == Kind::Invalid && at < kept_from => Ok(false),
        Err(Stop::Refused(error)) if error.kind() == Kind::Invalid => {
            let what =
                format!("commit {at}, the {count}th, must be shown, and all from {kept_from}");
            Err(Stop::Wrong(format!("{what}: {error}")))
        }
        compared => compared.map(|()| true),
    }
}

/// The moment `at` of the past is shown as it was, which is `world`. `Invalid` where it is refused.
pub(crate) fn compare_past(db: &Db, at: u64, world: &World) -> Result<(), Stop> {
    let snapshot = db.snapshot_at(CommitTs(at))?;
    for number in 0..=SETTINGS {
        let name = name_of(number);
        let (found, expected) = (snapshot.table(&name), world.tables.get(&name));
        let rows = match &found {
            Some(_) if number == ENTITIES => entities::read_past(db, CommitTs(at))?,
            Some(table) => {
                let row = |row: tabulith::ScanRow| {
                    let stored = Stored::found(row.ts, row.expires, row.value);
                    ((row.partition_key, row.row_key), stored)
                };
                let rows = snapshot.scan::<&[u8], &[u8]>(table, ..)?;
                rows.map(|found| found.map(row)).collect::<Result<_, _>>()?
            }
            None => BTreeMap::new(),
        };
        let same = match expected {
            Some(table) => found.is_some() && rows.iter().eq(table.shown(at)),
            None => found.is_none(),
        };
        if !same {
            let (rows, is_there) = (rows.len(), found.is_some());
            return Err(Stop::Wrong(format!(
                "as of {at}, table {name} has {rows} rows, is there: {is_there}"
            )));
        }
    }
    Ok(())
}

/// Whether a table is written through the layer of entities, which has zones of theirs kept.
pub(crate) fn is_of_entities(table: &str) -> bool {
    [entities::CATALOG_NAME, settings::CATALOG_NAME].contains(&table)
}

/// The name of a table by its number.
pub(crate) fn name_of(table: u8) -> String {
    match table {
        ENTITIES => entities::CATALOG_NAME.to_owned(),
        SETTINGS => settings::CATALOG_NAME.to_owned(),
        _ => format!("t{table}"),
    }
}
