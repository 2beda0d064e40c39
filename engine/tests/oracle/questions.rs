//! What is asked of the table of entities, as of now and of the past, by both sides.

use crate::entity::{Difference, end_of, numbers, numbers_of, same, text, wrong};
use crate::zones::SKIPPED_FOR_ENTITIES;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tabulith::rows::Catalog;
use tabulith::table::error::{TableError, TableResult};
use tabulith::table::name::{AccountName, TableName};
use tabulith::table::page::Query;
use tabulith::table::store::TableStore;
use tabulith::{CommitTs, Db, Entities, Entity, Filter, Op as Compare};
use tabulith_testkit::oracle::{Oracle, Place, Stored};

/// The account of embedded tables.
const ACCOUNT: &str = "devstoreaccount1";
pub(crate) const TABLE: &str = "entities";
/// Its name in the catalogue.
pub(crate) const CATALOG_NAME: &str = "devstoreaccount1/entities";

/// Keys, commit, expiry and numbers of what is found.
type Row = (String, String, u64, u64, Vec<u8>);

fn row(entity: &Entity) -> Row {
    let Entity { partition_key, row_key, ts, expires, .. } = entity;
    (partition_key.clone(), row_key.clone(), ts.0, end_of(*expires), text(numbers(entity)))
}

/// What the model has of the table, as far as `passes` says.
fn rows(model: &Oracle, id: u32, passes: impl Fn(&Stored) -> bool) -> Vec<Row> {
    let text_of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let rows = model.table(id).filter(|(_, stored)| passes(stored));
    let row = |(place, s): (&Place, &Stored)| {
        (text_of(&place.pk), text_of(&place.rk), s.ts, s.expires, s.value.clone())
    };
    rows.map(row).collect()
}

/// One entity.
pub(crate) fn get(
    table: &Entities,
    (model, id): (&Oracle, u32),
    (pk, rk): (&str, &str),
) -> Result<(), Difference> {
    let found = table.get(pk, rk).map_err(wrong)?;
    let expected = model.get(id, pk.as_bytes(), rk.as_bytes());
    let found = found.map(|entity| (entity.ts.0, end_of(entity.expires), text(numbers(&entity))));
    let expected = expected.map(|stored| (stored.ts, stored.expires, stored.value.clone()));
    same(&found, &expected)
}

/// Those whose `N` is not below a number, and how many there are in all and in each partition.
pub(crate) fn query(
    db: &Db,
    table: &Entities,
    (model, id): (&Oracle, u32),
    least: i32,
) -> Result<(), Difference> {
    let filter = Filter::compare("N", Compare::Ge, least);
    let expected =
        rows(model, id, |stored| numbers_of(&stored.value).0.is_some_and(|number| number >= least));
    find(db, table, filter, &expected)?;
    same(&table.count().map_err(wrong)?, &(model.table(id).count() as u64))?;
    (0..3).try_for_each(|partition| {
        let pk = format!("p{partition}");
        let expected = model.table(id).filter(|(place, _)| place.pk == pk.as_bytes()).count();
        same(&table.count_partition(&pk).map_err(wrong)?, &(expected as u64))
    })
}

/// Those whose `M` is below a number; or those that have no such `M`, whether they have one or not.
pub(crate) fn query_below(
    db: &Db,
    table: &Entities,
    (model, id): (&Oracle, u32),
    (below, not): (i32, bool),
) -> Result<(), Difference> {
    let filter = Filter::compare("M", Compare::Lt, below);
    let filter = if not { Filter::Not(Box::new(filter)) } else { filter };
    let expected = rows(model, id, |stored| {
        numbers_of(&stored.value).1.is_some_and(|number| number < below) != not
    });
    find(db, table, filter, &expected)?;
    // The same without the numbers that nobody asked for.
    let keys = table.query(None).select(&["N"]).map(|entity| {
        entity.map(|entity| (entity.partition_key.clone(), entity.ts.0, numbers(&entity)))
    });
    let found: Vec<_> = keys.collect::<TableResult<_>>().map_err(wrong)?;
    let expected = rows(model, id, |_| true).into_iter();
    let expected = expected.map(|(pk, _, ts, _, value)| (pk, ts, (numbers_of(&value).0, None)));
    same(&found, &expected.collect())
}

/// Holds what the filter finds against what is expected, through the handle and page by page.
fn find(db: &Db, table: &Entities, filter: Filter, expected: &Vec<Row>) -> Result<(), Difference> {
    let found = table.query(Some(filter.clone())).map(|entity| entity.map(|entity| row(&entity)));
    same(&found.collect::<TableResult<Vec<_>>>().map_err(wrong)?, expected)?;
    let store = TableStore::new(Arc::new(db.clone()));
    let (account, name) =
        (AccountName::parse(ACCOUNT).map_err(wrong)?, TableName::parse(TABLE).map_err(wrong)?);
    let mut query = Query { filter: Some(filter), ..Query::default() };
    let mut found = Vec::new();
    loop {
        let page = store.query(&account, &name, &query).map_err(wrong)?;
        found.extend(page.entities.iter().map(row));
        SKIPPED_FOR_ENTITIES.fetch_add(page.blocks.skipped, Ordering::Relaxed);
        query.from = page.next;
        if query.from.is_none() {
            return same(&found, expected);
        }
    }
}

/// All entities that there are, if there is their table.
pub(crate) fn compare_all(db: &Db, model: &Oracle) -> Result<(), Difference> {
    let Some(info) = db.find_table(CATALOG_NAME).map_err(wrong)? else { return Ok(()) };
    let table = db.entities(TABLE).map_err(wrong)?;
    let found = table.query(None).map(|entity| entity.map(|entity| row(&entity)));
    let found: Vec<_> = found.collect::<TableResult<_>>().map_err(wrong)?;
    same(&found, &rows(model, info.id.0, |_| true))
}

/// All entities as of a moment of the past, when the model was as `model`; whether there was
/// anything to compare. The store may refuse a moment before `history_floor`, and has no table at
/// one before it was made.
pub(crate) fn look_back(
    db: &Db,
    model: &Oracle,
    at: CommitTs,
    history_floor: u64,
) -> Result<bool, Difference> {
    let Some(info) = db.find_table(CATALOG_NAME).map_err(wrong)? else { return Ok(false) };
    let table = db.entities(TABLE).map_err(wrong)?;
    let filter = Filter::compare("N", Compare::Ge, 500);
    let look = || {
        let past = table.as_of(at)?;
        let all = |filter| past.query(filter).collect::<TableResult<Vec<_>>>();
        Ok((all(None)?, all(Some(filter))?, past.count()?))
    };
    let (found, passing, count) = match look() {
        Err(TableError::TableNotFound) if info.created > at => return Ok(false),
        Err(TableError::MomentNotKept { .. }) if at.0 < history_floor => return Ok(false),
        looked => looked.map_err(wrong)?,
    };
    let all = |entities: &[Entity]| entities.iter().map(row).collect::<Vec<_>>();
    let expected = rows(model, info.id.0, |_| true);
    same(&all(&found), &expected)?;
    same(&count, &(expected.len() as u64))?;
    let passes = |stored: &Stored| numbers_of(&stored.value).0.is_some_and(|number| number >= 500);
    same(&all(&passing), &rows(model, info.id.0, passes)).map(|()| true)
}
