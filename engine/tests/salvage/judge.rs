//! Whether what a salvage gave is true, and what is missing on its list.

use crate::life::{DIR, Model, NEW, Place, START_TICKS, Written, open};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tabulith::error::{Error, Kind};
use tabulith::ids::TableId;
use tabulith::rows::Catalog;
use tabulith::salvage::rebuild::salvage_with;
use tabulith::salvage::report::Report;
use tabulith::verify;
use tabulith::vfs::mem::SimFs;
use tabulith::{CommitTs, Db, Options};

/// What a run has seen.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) rows: u64,
    /// Rows that are not as they were, all of them on the list.
    pub(crate) lost: u64,
    /// Rows that the list says may not be as they were.
    pub(crate) listed: u64,
    pub(crate) whole: u64,
    pub(crate) nothing: u64,
}

/// Salvages the folder, and holds what that gave against `model`.
pub(crate) fn check(sim: &SimFs, model: &Model, tally: &mut Tally) -> Result<(), String> {
    let vfs = Arc::new(sim.clone());
    match salvage_with(vfs, Path::new(DIR), Path::new(NEW), 7) {
        Ok(report) => judge(sim, NEW, model, &report, tally),
        Err(error) if error.kind() == Kind::NotFound => {
            tally.nothing += 1;
            Ok(())
        }
        Err(error) => Err(format!("the salvage failed: {error:?}")),
    }
}

/// Holds the database in `dir`, of which a salvage gave `report`, against `model`.
pub(crate) fn judge(
    sim: &SimFs,
    dir: &str,
    model: &Model,
    report: &Report,
    tally: &mut Tally,
) -> Result<(), String> {
    let checked = verify::check_with(Arc::new(sim.clone()), Path::new(dir));
    let checked = checked.map_err(|error| error.to_string())?;
    if !checked.is_clean() {
        return Err(format!("the new folder is damaged: {:?}", checked.damage));
    }
    tally.whole += u64::from(report.is_whole());
    let options = Options { create_if_missing: false, ..Options::default() };
    let db = open(sim, dir, &options).map_err(|error| format!("no database: {error:?}"))?;
    let found = read(&db).map_err(|error| format!("reading it: {error:?}"))?;
    compare(model, &found, report, tally)
}

fn read(db: &Db) -> tabulith::Result<BTreeMap<Place, (CommitTs, Vec<u8>)>> {
    let mut rows = BTreeMap::new();
    for table in db.tables("", None, usize::MAX)? {
        let all = db.find(&table.name)?.ok_or_else(|| Error::no_table(&table.name))?;
        for row in all.scan::<&[u8], &[u8]>(..)? {
            let row = row?;
            let place = (table.id.0, row.partition_key.to_vec(), row.row_key.to_vec());
            rows.insert(place, (row.ts, row.value.to_vec()));
        }
    }
    Ok(rows)
}

fn compare(
    model: &Model,
    found: &BTreeMap<Place, (CommitTs, Vec<u8>)>,
    report: &Report,
    tally: &mut Tally,
) -> Result<(), String> {
    let manifest_lost = report.unknown.iter().any(|what| what.starts_with("the manifest is lost"));
    let begins_late = report.unknown.iter().any(|what| what.starts_with("the log begins"));
    for (place, (ts, value)) in found {
        let versions = model.rows.get(place).map_or(&[][..], Vec::as_slice);
        // The manifest alone knows when rows were ingested; without it they are not older than
        // that.
        let undated = |own: &CommitTs| manifest_lost && ts <= own && model.ingests.contains(own);
        let was = |(own, written): &Written| {
            (own == ts || undated(own)) && written.as_ref() == Some(value)
        };
        if !versions.iter().any(was) {
            return Err(format!("{} never held {value:?} by commit {ts}", shown(place)));
        }
    }
    for (place, versions) in &model.rows {
        let Some((ts, truth)) = versions.last() else { continue };
        let held = found.get(place);
        let as_it_was = held.map(|(_, value)| value) == truth.as_ref();
        let (id, pk, rk) = place;
        let table = model.tables.iter().find(|table| table.1 == *id);
        let name = table.map_or("", |table| &table.0);
        let row_of_table = [b"t", name.as_bytes()].concat();
        let in_catalog = |ts| report.covers(TableId(0), b"tables", &row_of_table, ts);
        let table_lost = in_catalog(CommitTs(START_TICKS)) || in_catalog(*ts);
        let listed = report.covers(TableId(*id), pk, rk, *ts)
            || table_lost
            || begins_late
            || (manifest_lost && (truth.is_none() || model.ingests.contains(ts)));
        tally.rows += 1;
        tally.listed += u64::from(listed);
        tally.lost += u64::from(!as_it_was);
        if !as_it_was && !listed {
            let losses: Vec<_> = report.losses.iter().map(ToString::to_string).collect();
            return Err(format!(
                "{} should be {truth:?} by commit {ts} and is {held:?}; the list has {losses:#?}, {:#?}",
                shown(place),
                report.unknown
            ));
        }
    }
    Ok(())
}

fn shown((id, pk, rk): &Place) -> String {
    format!("table {id} '{}' '{}'", pk.escape_ascii(), rk.escape_ascii())
}
