//! One page of a query: the walk over the plan, the rest of the filter on each row, and the
//! place where the next page starts.

use crate::env::clock::Clock;
use crate::error::{Error, Kind, Result};
use crate::ids::{CommitTs, TableId};
use crate::rows::RowSnapshot;
use crate::table::codec::EntityBytes;
use crate::table::entity::Entity;
use crate::table::filter::eval::{self, Properties};
use crate::table::keys;
use crate::table::page::{Budget, Continuation, Page, Query};
use crate::table::plan::Plan;
use crate::table::value::{DateTime, ValueRef};
use crate::table::walk::{Move, Walk};
use std::time::Duration;

/// Rows between two looks at the clock.
const ROWS_PER_LOOK: u64 = 16;

/// Reads one page of `query`, which follows `plan`.
pub(crate) fn read_page(
    snapshot: &dyn RowSnapshot,
    clock: &dyn Clock,
    table: TableId,
    query: &Query,
    plan: Plan,
) -> Result<Page> {
    let mut entities = Vec::new();
    let mut meter = Meter::start(clock, query.budget);
    let next = if query.top == 0 {
        None
    } else {
        fill(snapshot, &mut meter, table, query, &plan, &mut entities)?
    };
    Ok(Page { entities, next, examined: meter.examined, plan })
}

/// Fills the page; returns where the next one starts. A full page looks one row ahead, so that
/// one that takes the plan's last row has no successor.
fn fill(
    snapshot: &dyn RowSnapshot,
    meter: &mut Meter<'_>,
    table: TableId,
    query: &Query,
    plan: &Plan,
    entities: &mut Vec<Entity>,
) -> Result<Option<Continuation>> {
    let from = query.from.as_ref();
    let from_partition =
        from.map_or_else(Default::default, |from| keys::encode(&from.partition_key));
    let from_row = from.map_or_else(Default::default, |from| keys::encode(&from.row_key));
    let mut walk = Walk::start(snapshot, table, plan, (&from_partition, &from_row))?;
    loop {
        let is_row = match walk.advance()? {
            Move::End => return Ok(None),
            Move::Miss => false,
            Move::Row => true,
        };
        if (is_row && entities.len() == query.top) || meter.is_spent() {
            return continuation(&walk).map(Some);
        }
        meter.examined += 1;
        if is_row {
            let (ts, value) = walk.row()?;
            let row = StoredEntity::open(&walk, ts, &value)?;
            if plan.rest().map_or(Ok(true), |rest| eval::passes(rest, &row))? {
                entities.push(row.into_entity(query.select.as_deref())?);
            }
        }
    }
}

fn continuation(walk: &Walk<'_>) -> Result<Continuation> {
    let (partition_key, row_key) = walk.key()?;
    Ok(Continuation { partition_key: text(&partition_key)?, row_key: text(row_key)? })
}

fn text(key: &[u8]) -> Result<String> {
    let text = keys::decode(key).map(|text| text.into_owned());
    text.ok_or_else(|| Error::new(Kind::Corrupt, format!("a stored key is no text: {key:x?}")))
}

/// Counts rows and time against a budget.
struct Meter<'a> {
    clock: &'a dyn Clock,
    deadline: Duration,
    rows_max: u64,
    examined: u64,
}

impl<'a> Meter<'a> {
    fn start(clock: &'a dyn Clock, budget: Budget) -> Meter<'a> {
        let deadline = clock.steady().saturating_add(budget.time);
        Meter { clock, deadline, rows_max: budget.rows_scanned, examined: 0 }
    }

    /// Whether the page must end. Never before the first row: each page gets on.
    fn is_spent(&self) -> bool {
        let look = self.examined > 0 && self.examined.is_multiple_of(ROWS_PER_LOOK);
        self.examined > 0
            && (self.examined >= self.rows_max || (look && self.clock.steady() >= self.deadline))
    }
}

/// A row as it is stored, its properties read as they are asked for.
struct StoredEntity<'a> {
    partition_key: String,
    row_key: String,
    ts: CommitTs,
    properties: EntityBytes<'a>,
}

impl<'a> StoredEntity<'a> {
    fn open(walk: &Walk<'_>, ts: CommitTs, value: &'a [u8]) -> Result<StoredEntity<'a>> {
        let Continuation { partition_key, row_key } = continuation(walk)?;
        let properties = EntityBytes::open(value)?;
        Ok(StoredEntity { partition_key, row_key, ts, properties })
    }

    fn into_entity(self, select: Option<&[String]>) -> Result<Entity> {
        let StoredEntity { partition_key, row_key, ts, properties } = self;
        let properties = match select {
            None => properties.decode(|_| true)?,
            Some(names) => properties.decode(|name| names.iter().any(|n| n.as_bytes() == name))?,
        };
        Ok(Entity { partition_key, row_key, ts, properties })
    }
}

impl Properties for StoredEntity<'_> {
    fn property(&self, name: &str) -> Result<Option<ValueRef<'_>>> {
        match name {
            "PartitionKey" => Ok(Some(ValueRef::String(&self.partition_key))),
            "RowKey" => Ok(Some(ValueRef::String(&self.row_key))),
            "Timestamp" => Ok(Some(ValueRef::DateTime(DateTime::from(self.ts)))),
            _ => self.properties.property(name),
        }
    }
}
