//! One page of a query: the walk over the plan, the rest of the filter on each row, and the
//! place where the next page starts.

use crate::env::clock::Clock;
use crate::error::{Error, Kind, Result};
use crate::ids::{CommitTs, TableId};
use crate::rows::RowSnapshot;
use crate::table::codec::{self, EntityBytes};
use crate::table::filter::eval::{self, Properties};
use crate::table::keys;
use crate::table::lent::EntityRef;
use crate::table::page::{Blocks, Budget, Continuation, Page, PageEnd, Query};
use crate::table::plan::Plan;
use crate::table::value::{DateTime, ValueRef};
use crate::table::walk::{Move, Walk};
use crate::table::zones::FilterZones;
use crate::zone::ZoneScan;
use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// Rows between two looks at the clock.
const ROWS_PER_LOOK: u64 = 16;

/// What is done with each entity of a page, in the order of their keys. After
/// [`ControlFlow::Break`] the page ends before that entity, as if it were full.
pub(crate) type Each<'f> = dyn FnMut(EntityRef<'_>) -> Result<ControlFlow<()>> + 'f;

/// Reads one page of `query`, which follows `plan`.
pub(crate) fn read_page(
    snapshot: &dyn RowSnapshot,
    clock: &dyn Clock,
    table: TableId,
    query: &Query,
    plan: Plan,
) -> Result<Page> {
    let mut entities = Vec::new();
    let end = visit_page(snapshot, clock, table, query, plan, &mut |entity| {
        entities.push(entity.to_entity(query.select.as_deref())?);
        Ok(ControlFlow::Continue(()))
    })?;
    let PageEnd { next, examined, blocks, plan } = end;
    Ok(Page { entities, next, examined, blocks, plan })
}

/// Lends the entities of one page of `query`, which follows `plan`, to `each`.
pub(crate) fn visit_page(
    snapshot: &dyn RowSnapshot,
    clock: &dyn Clock,
    table: TableId,
    query: &Query,
    plan: Plan,
    each: &mut Each<'_>,
) -> Result<PageEnd> {
    let mut meter = Meter::start(clock, query.budget);
    let zones = plan.rest().and_then(FilterZones::of).map(|filter| Arc::new(ZoneScan::new(filter)));
    let next = if query.top == 0 {
        None
    } else {
        visit(snapshot, &mut meter, table, query, &plan, zones.as_ref(), each)?
    };
    let blocks = zones
        .map_or(Blocks::default(), |zones| Blocks { read: zones.read(), skipped: zones.skipped() });
    Ok(PageEnd { next, examined: meter.examined, blocks, plan })
}

/// Lends a page; returns where the next one starts. A full page looks one row ahead, so that
/// one that takes the plan's last row has no successor; whether that row passes nobody asks.
fn visit(
    snapshot: &dyn RowSnapshot,
    meter: &mut Meter<'_>,
    table: TableId,
    query: &Query,
    plan: &Plan,
    zones: Option<&Arc<ZoneScan>>,
    each: &mut Each<'_>,
) -> Result<Option<Continuation>> {
    let from = query.from.as_ref().map(|from| (&*from.partition_key, &*from.row_key));
    let (partition_key, row_key) = from.unwrap_or_default();
    let from = (keys::encode_bound(partition_key), keys::encode_bound(row_key));
    let mut walk = Walk::start(snapshot, table, plan, (&from.0, &from.1), zones)?;
    let mut taken = 0;
    loop {
        let (is_row, is_next) = match walk.advance()? {
            Move::End => return Ok(None),
            Move::Miss => (false, false),
            Move::RuledOut => (false, true),
            Move::Row => (true, true),
        };
        if (is_next && taken == query.top) || meter.is_spent() {
            return continuation(&walk).map(Some);
        }
        meter.examined += 1;
        if is_row {
            let (ts, value) = walk.row()?;
            meter.bytes += value.len() as u64;
            let (partition_key, row_key) = walk.key()?;
            let keys = RowKeys { bytes: (&partition_key, row_key), texts: OnceCell::new() };
            if !passes(&keys, ts, value, plan)? {
                continue;
            }
            let (partition_key, row_key) = keys.texts()?;
            if each(EntityRef::open(partition_key, row_key, ts, value)?)?.is_break() {
                return continuation(&walk).map(Some);
            }
            taken += 1;
        }
    }
}

fn continuation(walk: &Walk<'_>) -> Result<Continuation> {
    let (partition_key, row_key) = walk.key()?;
    Ok(Continuation {
        partition_key: text(&partition_key)?.into_owned(),
        row_key: text(row_key)?.into_owned(),
    })
}

fn text(key: &[u8]) -> Result<Cow<'_, str>> {
    keys::decode(key)
        .ok_or_else(|| Error::new(Kind::Corrupt, format!("a stored key is no text: {key:x?}")))
}

/// The keys of a row, made texts when somebody asks: of most rows a filter reads other properties.
struct RowKeys<'a> {
    bytes: (&'a [u8], &'a [u8]),
    texts: OnceCell<(Cow<'a, str>, Cow<'a, str>)>,
}

impl RowKeys<'_> {
    /// PartitionKey and RowKey.
    fn texts(&self) -> Result<(&str, &str)> {
        if self.texts.get().is_none() {
            let _ = self.texts.set((text(self.bytes.0)?, text(self.bytes.1)?));
        }
        Ok(self.texts.get().map(|(pk, rk)| (&**pk, &**rk)).unwrap_or_default())
    }
}

/// Whether a row passes what the plan leaves to ask.
fn passes(keys: &RowKeys<'_>, ts: CommitTs, value: &[u8], plan: &Plan) -> Result<bool> {
    let Some(rest) = plan.rest() else { return Ok(true) };
    let read = || {
        let stored = StoredEntity { keys, ts, properties: EntityBytes::open(value)? };
        eval::passes(rest, &stored)
    };
    read().or_else(|error| {
        let (partition_key, row_key) = keys.texts()?;
        Err(codec::in_row(error, partition_key, row_key))
    })
}

/// Counts rows, bytes and time against a budget.
struct Meter<'a> {
    clock: &'a dyn Clock,
    deadline: Duration,
    rows_max: u64,
    examined: u64,
    bytes_max: u64,
    bytes: u64,
}

impl<'a> Meter<'a> {
    fn start(clock: &'a dyn Clock, budget: Budget) -> Meter<'a> {
        let deadline = clock.steady().saturating_add(budget.time);
        let (rows_max, bytes_max) = (budget.rows_scanned, budget.bytes_scanned);
        Meter { clock, deadline, rows_max, examined: 0, bytes_max, bytes: 0 }
    }

    /// Whether the page must end. Never before the first row: each page gets on.
    fn is_spent(&self) -> bool {
        let look = self.examined > 0 && self.examined.is_multiple_of(ROWS_PER_LOOK);
        let read_enough = self.examined >= self.rows_max || self.bytes >= self.bytes_max;
        self.examined > 0 && (read_enough || (look && self.clock.steady() >= self.deadline))
    }
}

/// A row as it is stored, its properties read as they are asked for.
struct StoredEntity<'a, 'k> {
    keys: &'a RowKeys<'k>,
    ts: CommitTs,
    properties: EntityBytes<'a>,
}

impl Properties for StoredEntity<'_, '_> {
    fn property(&self, name: &str) -> Result<Option<ValueRef<'_>>> {
        match name {
            "PartitionKey" => Ok(Some(ValueRef::String(self.keys.texts()?.0))),
            "RowKey" => Ok(Some(ValueRef::String(self.keys.texts()?.1))),
            "Timestamp" => Ok(Some(ValueRef::DateTime(DateTime::from(self.ts)))),
            _ => self.properties.property(name),
        }
    }
}
