//! A table of entities beside the tables of rows: changes with and without an expiry, a time to
//! live, queries and counts, against the same model.
//!
//! An entity has up to two numbers, `N` and `M`; their text is the model's value.

use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::time::Duration;
use tabulith::rows::Catalog;
use tabulith::table::error::{TableError, TableResult};
use tabulith::table::etag::{ETag, If};
use tabulith::table::value::Value;
use tabulith::table::write::Write;
use tabulith::{CommitTs, Db, Entity, Filter, Op as Compare};
use tabulith_testkit::oracle::{Change, Oracle};
use tabulith_testkit::seed::Rng;

/// What differed, in words.
type Difference = String;

const TABLE: &str = "entities";
/// Its name in the catalogue.
const CATALOG_NAME: &str = "devstoreaccount1/entities";

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
            Deed::SetTtl { .. } => "entities' time to live",
        }
    }

    /// One at random; `life`: the ticks that an entity is to last.
    pub(crate) fn choose(rng: &mut Rng, life: &mut dyn FnMut(&mut Rng) -> Option<u64>) -> Deed {
        let keys = (rng.below(3) as u8, rng.skewed_below(40) as u8);
        let number = rng.below(1000) as i32;
        match rng.below(20) {
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
            16..19 => Deed::Query { least: number },
            _ => {
                let ticks = *rng.pick(&[20_000, 10_000_000, 300_000_000]);
                Deed::SetTtl { ticks: rng.chance(50).then(|| 1 + rng.below(ticks) as u64) }
            }
        }
    }
}

/// The two numbers.
type Numbers = (Option<i32>, Option<i32>);

fn text(numbers: Numbers) -> Vec<u8> {
    format!("{numbers:?}").into_bytes()
}

fn numbers(entity: &Entity) -> Numbers {
    let number = |name| match entity.property(name) {
        Some(Value::Int32(number)) => Some(*number),
        _ => None,
    };
    (number("N"), number("M"))
}

fn entity((pk, rk): (u8, u8), (n, m): Numbers) -> Entity {
    let mut entity = Entity::new(format!("p{pk}"), format!("r{rk:02}"));
    for (name, number) in [("N", n), ("M", m)] {
        if let Some(number) = number {
            entity = entity.with(name, number);
        }
    }
    entity
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
        Deed::Get { keys: (pk, rk) } => {
            let (pk, rk) = (format!("p{pk}"), format!("r{rk:02}"));
            let found = table.get(&pk, &rk).map_err(wrong)?;
            let expected = model.get(id, pk.as_bytes(), rk.as_bytes());
            let found = found.map(|entity| (entity.ts.0, text(numbers(&entity))));
            let expected = expected.map(|stored| (stored.ts, stored.value.clone()));
            same(&found, &expected)?;
        }
        Deed::Query { least } => query(&table, model, id, *least)?,
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

fn put(rk: u8, numbers: Numbers, expires: Option<CommitTs>) -> Change {
    let rk = format!("r{rk:02}").into_bytes();
    match expires {
        Some(expires) => Change::PutUntil(rk, text(numbers), expires.0),
        None => Change::Put(rk, text(numbers)),
    }
}

fn write(
    table: &tabulith::Entities,
    (model, id): (&mut Oracle, u32),
    keys: (u8, u8),
    verb: Verb,
    number: i32,
    expires: Option<CommitTs>,
) -> Result<(), Difference> {
    let (pk, rk) = (format!("p{}", keys.0), format!("r{:02}", keys.1));
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
        (Verb::Delete, _) => table.delete(&pk, &rk, If::Any).map(|()| None),
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
                Verb::Merge => (there.and_then(|stored| first_of(&stored.value)), Some(number)),
                _ => (Some(number), None),
            };
            model.commit(id, pk.as_bytes(), ts.0, &[put(keys.1, numbers, expires)]);
            Ok(())
        }
        (outcome, _) => Err(format!("{verb:?} gave {outcome:?}; the entity is there: {is_there}")),
    }
}

/// `N` of a value of the model.
fn first_of(value: &[u8]) -> Option<i32> {
    let text = std::str::from_utf8(value).ok()?;
    text.strip_prefix("(Some(")?.split(')').next()?.parse().ok()
}

fn query(
    table: &tabulith::Entities,
    model: &Oracle,
    id: u32,
    least: i32,
) -> Result<(), Difference> {
    let filter = Filter::compare("N", Compare::Ge, least.into());
    let found = table.query(Some(filter)).map(|entity| {
        entity.map(|e| (e.partition_key.clone(), e.row_key.clone(), e.ts.0, text(numbers(&e))))
    });
    let found: Vec<_> = found.collect::<TableResult<_>>().map_err(wrong)?;
    let passes = |value: &[u8]| first_of(value).is_some_and(|number| number >= least);
    let rows = model.table(id).filter(|(_, stored)| passes(&stored.value));
    let text_of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let expected: Vec<_> = rows
        .map(|(place, s)| (text_of(&place.pk), text_of(&place.rk), s.ts, s.value.clone()))
        .collect();
    same(&found, &expected)?;
    same(&table.count().map_err(wrong)?, &(model.table(id).count() as u64))
}

fn same<T: PartialEq + Debug>(found: &T, expected: &T) -> Result<(), Difference> {
    match found == expected {
        true => Ok(()),
        false => Err(format!("entities: found {found:?}, expected {expected:?}")),
    }
}

fn wrong(error: impl Debug) -> Difference {
    format!("entities: {error:?}")
}
