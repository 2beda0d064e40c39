//! A table of entities beside the tables of rows: changes with and without an expiry, a time to
//! live, queries and counts, against the same model.

use crate::entity::{Difference, Numbers, entity, numbers_of, same, text, wrong};
use crate::questions::{self, CATALOG_NAME, TABLE};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tabulith::rows::Catalog;
use tabulith::table::error::{TableError, TableResult};
use tabulith::table::etag::{ETag, IfMatch};
use tabulith::table::write::Write;
use tabulith::{CommitTs, Db, Entities};
use tabulith_testkit::oracle::{Change, Oracle};
use tabulith_testkit::seed::Rng;

/// What is done to the table.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Deed {
    /// Changes one entity; `life`: the ticks after which it is gone.
    Write {
        keys: (u8, u8),
        verb: Verb,
        number: i32,
        life: Option<u64>,
    },
    /// Replaces some of a partition as one group, each to be gone after its own time or to stay.
    Group {
        pk: u8,
        rows: Vec<(u8, i32, Option<u64>)>,
    },
    Get {
        keys: (u8, u8),
    },
    /// Asks for those whose `N` is not below a number.
    Query {
        least: i32,
    },
    /// Asks for those whose `M` is below a number, or for all others.
    QueryBelow {
        below: i32,
        not: bool,
    },
    /// Changes an entity that must be there, and perhaps as a commit left it: the last or another.
    Change {
        keys: (u8, u8),
        how: How,
        number: i32,
        asks: Asks,
    },
    /// Declares properties, by their number in [`COLUMNS`].
    Declare {
        columns: usize,
    },
    SetTtl {
        ticks: Option<u64>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Verb {
    Insert,
    Upsert,
    /// Sets `M` and leaves `N`.
    Merge,
    Delete,
}

/// How an entity is changed that must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum How {
    Replace,
    /// Sets `M` and leaves `N`.
    Merge,
    Delete,
}

/// What is asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Asks {
    There,
    Current,
    Stale,
}

/// What is declared: nothing, one property or the other, or more than there are.
const COLUMNS: [&[&str]; 4] = [&[], &["M"], &["Absent", "N"], &["N", "A", "B", "M"]];

impl Deed {
    /// Which kind it is of, as it is counted.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Deed::Write { verb: Verb::Insert, .. } => "entity inserted",
            Deed::Write { verb: Verb::Upsert, .. } => "entity replaced",
            Deed::Write { verb: Verb::Merge, .. } => "entity merged",
            Deed::Write { verb: Verb::Delete, .. } => "entity deleted",
            Deed::Group { .. } => "entities in a group",
            Deed::Get { .. } => "entity read",
            Deed::Query { .. } => "entities queried",
            Deed::QueryBelow { not: false, .. } => "entities queried by a property that few have",
            Deed::QueryBelow { .. } => "entities queried for all others",
            Deed::Change { asks: Asks::Stale, .. } => "entity changed, refused",
            Deed::Change { how: How::Replace, .. } => "entity replaced on condition",
            Deed::Change { how: How::Merge, .. } => "entity merged on condition",
            Deed::Change { how: How::Delete, .. } => "entity deleted on condition",
            Deed::Declare { .. } => "entities' properties declared",
            Deed::SetTtl { .. } => "entities' time to live",
        }
    }

    /// One at random; `life`: the ticks that an entity is to last.
    pub(crate) fn choose(rng: &mut Rng, life: &mut dyn FnMut(&mut Rng) -> Option<u64>) -> Deed {
        let keys = (rng.below(3) as u8, rng.skewed_below(40) as u8);
        let number = rng.below(1000) as i32;
        match rng.below(30) {
            0..9 => {
                let verb = *rng.pick(&[Verb::Insert, Verb::Upsert, Verb::Merge, Verb::Delete]);
                Deed::Write { keys, verb, number, life: life(rng) }
            }
            9..12 => {
                let rows = (0..40).filter(|_| rng.chance(30)).collect::<Vec<_>>().into_iter();
                let rows = rows.map(|rk| (rk, rng.below(1000) as i32, life(rng))).collect();
                Deed::Group { pk: keys.0, rows }
            }
            12..16 => Deed::Get { keys },
            // Half of them for what few entities have, so that whole blocks of them need no look.
            16..19 => {
                Deed::Query { least: if rng.chance(50) { number } else { 1000 - number / 40 } }
            }
            19..22 => {
                let below = if rng.chance(50) { number } else { number / 40 };
                Deed::QueryBelow { below, not: rng.chance(50) }
            }
            22..27 => {
                let how = *rng.pick(&[How::Replace, How::Merge, How::Delete]);
                let asks = *rng.pick(&[Asks::There, Asks::Current, Asks::Stale]);
                Deed::Change { keys, how, number, asks }
            }
            27 => Deed::Declare { columns: rng.below(COLUMNS.len()) },
            _ => {
                let ticks = *rng.pick(&[20_000, 10_000_000, 300_000_000]);
                Deed::SetTtl { ticks: rng.chance(50).then(|| 1 + rng.below(ticks) as u64) }
            }
        }
    }
}

/// Does it to the store and to the model; whether something was committed.
pub(crate) fn run(db: &Db, model: &mut Oracle, deed: &Deed) -> Result<bool, Difference> {
    let (before, is_there) =
        (model.last_ts(), db.find_table(CATALOG_NAME).map_err(wrong)?.is_some());
    let is_set = perform(db, model, deed)?;
    Ok(is_set || !is_there || model.last_ts() > before)
}

/// The same; whether a setting was committed.
fn perform(db: &Db, model: &mut Oracle, deed: &Deed) -> Result<bool, Difference> {
    let table = db.entities(TABLE).map_err(wrong)?;
    let id = db.find_table(CATALOG_NAME).map_err(wrong)?.ok_or("the table is not there")?.id.0;
    let expires = |life: Option<u64>| life.map(|ticks| CommitTs(db.time().0 + ticks));
    match deed {
        Deed::Write { keys, verb, number, life } => {
            write(&table, (model, id), *keys, *verb, *number, expires(*life))?;
        }
        Deed::Group { rows, .. } if rows.is_empty() => match table.transact(Vec::new()) {
            Err(_) => {}
            Ok(done) => return Err(format!("a group of nothing gave {done:?}")),
        },
        Deed::Group { pk, rows } => {
            // Once: the commit itself moves the time where the wall clock stands behind it.
            let timed = rows.iter().map(|(rk, number, life)| (*rk, *number, expires(*life)));
            let rows: Vec<_> = timed.collect();
            let write = |(rk, number, expires): &(u8, i32, Option<CommitTs>)| {
                let write = Write::InsertOrReplace(entity((*pk, *rk), (Some(*number), None)));
                expires.map_or(write.clone(), |expires| write.until(expires))
            };
            let outcomes = table.transact(rows.iter().map(write).collect()).map_err(wrong)?;
            let put = |(rk, number, expires): &(u8, i32, Option<CommitTs>)| {
                put(*rk, (Some(*number), None), *expires)
            };
            let changes: Vec<_> = rows.iter().map(put).collect();
            model.commit(id, format!("p{pk}").as_bytes(), outcomes[0].ts.0, &changes);
        }
        Deed::Get { keys } => {
            let (pk, rk) = names(*keys);
            questions::get(&table, (model, id), (&pk, &rk))?;
        }
        Deed::Query { least } => questions::query(db, &table, (model, id), *least)?,
        Deed::QueryBelow { below, not } => {
            questions::query_below(db, &table, (model, id), (*below, *not))?;
        }
        Deed::Change { keys, how, number, asks } => {
            change(&table, (model, id), *keys, (*how, *number), *asks)?;
        }
        Deed::Declare { columns } => {
            let columns = COLUMNS[*columns];
            table.set_zone_columns(columns).map_err(wrong)?;
            same(
                &table.zone_columns().map_err(wrong)?,
                &columns.iter().map(|c| (*c).to_owned()).collect(),
            )?;
        }
        Deed::SetTtl { ticks } => {
            let span = ticks.map(|ticks| Duration::from_nanos(ticks * 100));
            let before = table.ttl().map_err(wrong)?;
            table.set_ttl(span).map_err(wrong)?;
            if before != span {
                model.set_ttl(id, *ticks);
            }
            same(&table.ttl().map_err(wrong)?, &span)?;
            return Ok(before != span);
        }
    }
    Ok(false)
}

fn names((pk, rk): (u8, u8)) -> (String, String) {
    (format!("p{pk}"), format!("r{rk:02}"))
}

fn put(rk: u8, numbers: Numbers, expires: Option<CommitTs>) -> Change {
    let rk = format!("r{rk:02}").into_bytes();
    match expires {
        Some(expires) => Change::PutUntil(rk, text(numbers), expires.0),
        None => Change::Put(rk, text(numbers)),
    }
}

fn write(
    table: &Entities,
    (model, id): (&mut Oracle, u32),
    keys: (u8, u8),
    verb: Verb,
    number: i32,
    expires: Option<CommitTs>,
) -> Result<(), Difference> {
    let (pk, rk) = names(keys);
    let there = model.get(id, pk.as_bytes(), rk.as_bytes());
    let is_there = there.is_some();
    let own = entity(keys, (Some(number), None));
    let outcome: TableResult<Option<ETag>> = match (verb, expires) {
        (Verb::Insert, None) => table.insert(own).map(Some),
        (Verb::Insert, Some(expires)) => table.insert_until(own, expires).map(Some),
        (Verb::Upsert, None) => table.upsert(own).map(Some),
        (Verb::Upsert, Some(expires)) => table.upsert_until(own, expires).map(Some),
        (Verb::Merge, _) => {
            let write = Write::InsertOrMerge(entity(keys, (None, Some(number))));
            let write = expires.map_or(write.clone(), |expires| write.until(expires));
            let done = table.transact(vec![write]);
            done.map(|outcomes| outcomes[0].etag()).map_err(|refused| refused.error)
        }
        (Verb::Delete, _) => table.delete(&pk, &rk, IfMatch::Any).map(|()| None),
    };
    match (outcome, verb) {
        (Err(TableError::EntityExists), Verb::Insert) if is_there => Ok(()),
        (Err(TableError::EntityNotFound), Verb::Delete) if !is_there => Ok(()),
        (Ok(None), Verb::Delete) if is_there => {
            // Nobody tells the commit of a delete; any after the newest that is known will do.
            let ts = model.last_ts() + 1;
            model.commit(id, pk.as_bytes(), ts, &[Change::Delete(rk.into_bytes())]);
            Ok(())
        }
        (Ok(Some(ETag(ts))), Verb::Insert | Verb::Upsert | Verb::Merge)
            if verb != Verb::Insert || !is_there =>
        {
            let numbers = match verb {
                Verb::Merge => (there.and_then(|stored| numbers_of(&stored.value).0), Some(number)),
                _ => (Some(number), None),
            };
            model.commit(id, pk.as_bytes(), ts.0, &[put(keys.1, numbers, expires)]);
            Ok(())
        }
        (outcome, _) => Err(format!("{verb:?} gave {outcome:?}; the entity is there: {is_there}")),
    }
}

fn change(
    table: &Entities,
    (model, id): (&mut Oracle, u32),
    keys: (u8, u8),
    (how, number): (How, i32),
    asks: Asks,
) -> Result<(), Difference> {
    let (pk, rk) = names(keys);
    let there = model.get(id, pk.as_bytes(), rk.as_bytes());
    let there = there.map(|stored| (stored.ts, numbers_of(&stored.value).0));
    let current = there.map_or(1, |(ts, _)| ts);
    let condition = match asks {
        Asks::There => IfMatch::Any,
        Asks::Current => IfMatch::Match(ETag(CommitTs(current))),
        Asks::Stale => IfMatch::Match(ETag(CommitTs(current - 1))),
    };
    let outcome = match how {
        How::Replace => table.replace(entity(keys, (Some(number), None)), condition).map(Some),
        How::Merge => table.merge(entity(keys, (None, Some(number))), condition).map(Some),
        How::Delete => table.delete(&pk, &rk, condition).map(|()| None),
    };
    let (ts, change) = match (outcome, there) {
        (Err(TableError::EntityNotFound), None) => return Ok(()),
        (Err(TableError::ConditionFailed { current }), Some((ts, _))) if asks == Asks::Stale => {
            return same(&current.0.0, &ts);
        }
        (Ok(None), Some(_)) if asks != Asks::Stale => {
            // As above: nobody tells the commit.
            (model.last_ts() + 1, Change::Delete(rk.into_bytes()))
        }
        (Ok(Some(ETag(ts))), Some((_, first))) if asks != Asks::Stale => {
            let merges = how == How::Merge;
            let numbers = if merges { (first, Some(number)) } else { (Some(number), None) };
            (ts.0, put(keys.1, numbers, None))
        }
        (outcome, _) => {
            return Err(format!("{how:?}, {asks:?} gave {outcome:?}; there is {there:?}"));
        }
    };
    model.commit(id, pk.as_bytes(), ts, &[change]);
    Ok(())
}
