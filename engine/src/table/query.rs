//! One page of a query: the walk over the plan, the rest of the filter on each row, and the
//! place where the next page starts.

use crate::env::clock::Clock;
use crate::error::{Error, Kind, Result};
use crate::ids::{CommitTs, TableId};
use crate::rows::RowSnapshot;
use crate::table::codec::{self, EntityBytes};
use crate::table::filter::ast::Filter;
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

/// Rows between two looks at the clock, or up to twice as many where some are passed over.
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
    let zones = plan.rest().filter(|_| query.zones).and_then(FilterZones::of);
    let zones = zones.map(|filter| Arc::new(ZoneScan::new(filter)));
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
    let by_value = plan.rest().filter(|rest| !rest.asks_for_keys());
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
            let keys = RowKeys { walk: &walk, texts: OnceCell::new() };
            if plan.rest().map_or(Ok(true), |rest| passes(rest, &keys, ts, value))? {
                let (partition_key, row_key) = keys.texts()?;
                let written = (ts, walk.expires()?);
                if each(EntityRef::open(partition_key, row_key, written, value)?)?.is_break() {
                    return continuation(&walk).map(Some);
                }
                taken += 1;
                continue;
            }
        }
        if let Some(rest) = by_value.filter(|_| is_next && taken < query.top) {
            pass_over(&mut walk, meter, rest);
        }
    }
}

/// Passes the rows at hand that do not pass `rest`, which asks for no key.
fn pass_over(walk: &mut Walk<'_>, meter: &mut Meter<'_>, rest: &Filter) {
    let (rows_max, bytes_max) = (meter.rows_at_once(), meter.bytes_max);
    let bytes = &mut meter.bytes;
    let passed = walk.pass_over(rows_max, &mut |ts, value| {
        // A row that cannot be read is left to whoever can say which it is.
        let is_unwanted =
            *bytes < bytes_max && matches!(StoredEntity::passes(rest, None, ts, value), Ok(false));
        *bytes += if is_unwanted { value.len() as u64 } else { 0 };
        is_unwanted
    });
    meter.examined += passed as u64;
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

/// The keys of the row here, made texts when somebody asks: of most rows a filter reads other
/// properties.
struct RowKeys<'a> {
    walk: &'a Walk<'a>,
    texts: OnceCell<(Cow<'a, str>, Cow<'a, str>)>,
}

impl RowKeys<'_> {
    /// PartitionKey and RowKey.
    fn texts(&self) -> Result<(&str, &str)> {
        if self.texts.get().is_none() {
            let (partition_key, row_key) = self.walk.key()?;
            let partition_key = match partition_key {
                Cow::Borrowed(key) => text(key)?,
                Cow::Owned(key) => text(&key)?.into_owned().into(),
            };
            let _ = self.texts.set((partition_key, text(row_key)?));
        }
        Ok(self.texts.get().map(|(pk, rk)| (&**pk, &**rk)).unwrap_or_default())
    }
}

/// Whether a row passes what the plan leaves to ask.
fn passes(rest: &Filter, keys: &RowKeys<'_>, ts: CommitTs, value: &[u8]) -> Result<bool> {
    StoredEntity::passes(rest, Some(keys), ts, value).or_else(|error| {
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
    next_look: u64,
    bytes_max: u64,
    bytes: u64,
}

impl<'a> Meter<'a> {
    fn start(clock: &'a dyn Clock, budget: Budget) -> Meter<'a> {
        let deadline = clock.steady().saturating_add(budget.time);
        let (rows_max, bytes_max) = (budget.rows_scanned, budget.bytes_scanned);
        Meter {
            clock,
            deadline,
            rows_max,
            examined: 0,
            next_look: ROWS_PER_LOOK,
            bytes_max,
            bytes: 0,
        }
    }

    /// Whether the page must end. Never before the first row: each page gets on.
    fn is_spent(&mut self) -> bool {
        if self.examined == 0 {
            return false;
        }
        if self.examined >= self.rows_max || self.bytes >= self.bytes_max {
            return true;
        }
        if self.examined < self.next_look {
            return false;
        }
        self.next_look = self.examined + ROWS_PER_LOOK;
        self.clock.steady() >= self.deadline
    }

    /// How many rows may be passed before the next question whether the page must end.
    fn rows_at_once(&self) -> usize {
        self.rows_max.saturating_sub(self.examined).min(ROWS_PER_LOOK) as usize
    }
}

/// A row as it is stored, its properties read as they are asked for.
struct StoredEntity<'a, 'k> {
    keys: Option<&'a RowKeys<'k>>,
    ts: CommitTs,
    properties: EntityBytes<'a>,
}

impl<'a> StoredEntity<'a, '_> {
    /// Whether the row passes `filter`; without `keys` an error where those are asked for.
    fn passes(
        filter: &Filter,
        keys: Option<&RowKeys<'_>>,
        ts: CommitTs,
        value: &'a [u8],
    ) -> Result<bool> {
        let properties = EntityBytes::open(value)?;
        eval::passes(filter, &StoredEntity { keys, ts, properties })
    }

    fn keys(&self) -> Result<(&str, &str)> {
        let keys = self.keys.ok_or_else(|| Error::invalid("the row's keys are not at hand"))?;
        keys.texts()
    }
}

impl Properties for StoredEntity<'_, '_> {
    fn property(&self, name: &str) -> Result<Option<ValueRef<'_>>> {
        match name {
            "PartitionKey" => Ok(Some(ValueRef::String(self.keys()?.0))),
            "RowKey" => Ok(Some(ValueRef::String(self.keys()?.1))),
            "Timestamp" => Ok(Some(ValueRef::DateTime(DateTime::from(self.ts)))),
            _ => self.properties.property(name),
        }
    }
}
