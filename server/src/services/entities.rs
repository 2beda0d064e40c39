//! Entities: looked up, queried by the page, changed one by one and in groups.

use crate::auth::access::Access;
use crate::auth::key_range::KeyRange;
use crate::auth::verify::Grant;
use crate::error::{
    DIFFERENT_PARTITIONS, INVALID_DUPLICATE_ROW, INVALID_INPUT, TABLE_NOT_FOUND, WireError,
};
use crate::limits::{QUERY_BYTES_MAX, QUERY_ROWS_MAX, QUERY_TIME_MAX, QUICK_ENTITY_BYTES_MAX};
use crate::refusal::{group_refusal, refusal};
use crate::services::base::{Services, Store, table_name};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::time::Duration;
use tabulith::error::{Error, Kind};
use tabulith::ids::CommitTs;
use tabulith::options::Reach;
use tabulith::table::error::{GroupError, TableError};
use tabulith::table::filter::ast::Filter;
use tabulith::table::lent::EntityRef;
use tabulith::table::page::{Budget, Continuation, PageEnd, Query};
use tabulith::table::write::{Pending, Write, WriteOutcome};

/// What a lookup in memory, or on disk, gave.
#[derive(Clone, Debug)]
pub enum Found<T> {
    /// What was made of the entity.
    Entity(T),
    /// There is none.
    Nothing,
    /// Only the disk can tell, or it is large, and the call was to take no time.
    NeedsDisk,
}

/// Which entities to read.
#[derive(Clone, Debug)]
pub struct ReadEntities {
    /// The condition.
    pub filter: Option<Filter>,
    /// How many entities at most.
    pub top: usize,
    /// PartitionKey and RowKey of the first one.
    pub from: Option<(String, String)>,
    /// How long the client will wait; the page ends by [`QUERY_TIME_MAX`] anyway.
    pub time: Duration,
    /// The moment to see, if not the present.
    pub as_of: Option<CommitTs>,
}

impl<S: Store> Services<S> {
    /// Looks an entity up, and gives what `read` makes of it; with [`Reach::Memory`] only of a
    /// small one.
    pub fn get<T>(
        &self,
        grant: &Grant,
        (partition_key, row_key): (&str, &str),
        reach: Reach,
        read: impl FnOnce(EntityRef<'_>) -> Result<T, Error>,
    ) -> Result<Found<T>, WireError> {
        grant.check(Access::Read)?;
        if self.check_policy_within(grant, reach)?.is_none() {
            return Ok(Found::NeedsDisk);
        }
        let table = self.entity_table(grant)?;
        if grant.check_keys(partition_key, row_key).is_err() {
            // Outside of a signature's range there is nothing.
            return if self.has_table(grant)? { Ok(Found::Nothing) } else { Err(TABLE_NOT_FOUND) };
        }
        let keys = (partition_key, row_key);
        let read = |entity: EntityRef<'_>| {
            let is_long = entity.stored_bytes() > QUICK_ENTITY_BYTES_MAX;
            if reach == Reach::Memory && is_long { Ok(None) } else { read(entity).map(Some) }
        };
        let found = self.tables.get_with(grant.account(), &table, keys, reach, read);
        if self.check_policy_within(grant, reach)?.is_none() {
            return Ok(Found::NeedsDisk);
        }
        match found {
            Ok(Some(Ok(Some(made)))) => Ok(Found::Entity(made)),
            Ok(Some(Ok(None))) => Ok(Found::NeedsDisk),
            Ok(Some(Err(error))) => Err(refusal(TableError::Engine(error))),
            Ok(None) => Ok(Found::Nothing),
            Err(TableError::Engine(error)) if error.kind() == Kind::WouldBlock => {
                Ok(Found::NeedsDisk)
            }
            Err(error) => Err(refusal(error)),
        }
    }

    /// Looks an entity up as of a moment of the past, and gives what `read` makes of it.
    pub fn get_past<T>(
        &self,
        grant: &Grant,
        keys: (&str, &str),
        at: CommitTs,
        read: impl FnOnce(EntityRef<'_>) -> Result<T, Error>,
    ) -> Result<Found<T>, WireError> {
        grant.check(Access::Read)?;
        self.check_policy(grant)?;
        let (past, table) = (self.past_for(grant, at)?, self.entity_table(grant)?);
        if grant.check_keys(keys.0, keys.1).is_err() {
            let is_there = past.get_table(grant.account(), &table).map_err(refusal)?.is_some();
            return if is_there { Ok(Found::Nothing) } else { Err(TABLE_NOT_FOUND) };
        }
        let found = past.get_with(grant.account(), &table, keys, read).map_err(refusal)?;
        self.check_policy(grant)?;
        match found {
            Some(made) => made.map(Found::Entity).map_err(|e| refusal(TableError::Engine(e))),
            None => Ok(Found::Nothing),
        }
    }

    /// Reads one page of entities, and lends each to `each`: all its properties, whatever was
    /// selected. The page ends before an entity that `each` breaks at.
    pub fn query(
        &self,
        grant: &Grant,
        read: ReadEntities,
        mut each: impl FnMut(EntityRef<'_>) -> Result<ControlFlow<()>, Error>,
    ) -> Result<PageEnd, WireError> {
        grant.check(Access::Read)?;
        self.check_policy(grant)?;
        let from =
            read.from.map(|(partition_key, row_key)| Continuation { partition_key, row_key });
        let budget = Budget {
            time: read.time.min(QUERY_TIME_MAX),
            rows_scanned: QUERY_ROWS_MAX,
            bytes_scanned: QUERY_BYTES_MAX,
        };
        // Planted with the condition: a query shows what lies outside of a signature's range.
        let all = KeyRange::default();
        let range = if tabulith::planted!("B40") { &all } else { grant.range() };
        // Apart from the filter, which could else be so much work that it has the range widened.
        let (filter, within) = (read.filter, range.filter());
        // A block at an end of the range has rows of both sides: whether it was passed over, which
        // a token can tell, would say something of rows outside.
        let zones = range.is_everything();
        let query = Query { filter, within, select: None, top: read.top, from, budget, zones };
        let (mut passed, mut refused) = (0, None);
        let mut run = (String::new(), 0);
        let offer = |entity: EntityRef<'_>| {
            // The plan reads the range alone. Should it ever read more, that is not told either.
            if !range.contains(entity.partition_key, entity.row_key) {
                return Ok(ControlFlow::Continue(()));
            }
            // The page ends before an entity whose partition has no more to give for now.
            if let Err(error) = self.throttle(grant, entity.partition_key, 1) {
                refused = Some(error);
                return Ok(ControlFlow::Break(()));
            }
            passed += 1;
            if run.0 != entity.partition_key {
                self.count_hot(grant, &run.0, run.1);
                run = (entity.partition_key.to_owned(), 0);
            }
            run.1 += 1;
            each(entity)
        };
        let (account, table) = (grant.account(), self.entity_table(grant)?);
        let page = match read.as_of {
            None => self.tables.query_each(account, &table, &query, offer),
            Some(at) => self.past_for(grant, at)?.query_each(account, &table, &query, offer),
        };
        self.count_hot(grant, &run.0, run.1);
        let mut page = page.map_err(refusal)?;
        self.check_policy(grant)?;
        match refused {
            Some(error) if passed == 0 => Err(error),
            _ => {
                page.next = page.next.and_then(|next| range.next(next));
                Ok(page)
            }
        }
    }

    /// Changes one entity. The change is decided when this returns, and safe to tell once the
    /// pending outcome is.
    ///
    /// `reach`: with [`Reach::Memory`] there is nothing where the change would have to wait.
    pub fn write(
        &self,
        grant: &Grant,
        write: Write,
        reach: Reach,
    ) -> Result<Option<Pending<WriteOutcome>>, WireError> {
        grant.check(access_of(&write))?;
        let (partition_key, row_key) = write.keys();
        grant.check_keys(partition_key, row_key)?;
        let Some(_steady) = self.steady(grant, reach)? else { return Ok(None) };
        let table = self.entity_table(grant)?;
        match self.tables.write_within(grant.account(), &table, write, reach) {
            Ok(pending) => Ok(Some(pending)),
            Err(TableError::Engine(error)) if error.kind() == Kind::WouldBlock => Ok(None),
            Err(error) => Err(refusal(error)),
        }
    }

    /// What is wrong with the first of these changes at fault, as far as that shows without a look
    /// at the entities.
    pub fn first_fault(&self, changes: &[(Grant, Write)]) -> Option<(usize, WireError)> {
        let (first, write) = changes.first()?;
        let partition = write.keys().0;
        let mut rows = HashSet::new();
        changes.iter().enumerate().find_map(|(index, (grant, write))| {
            let (own_partition, row) = write.keys();
            let is_new = rows.insert(row);
            let check = || {
                grant.check(access_of(write))?;
                grant.check_keys(own_partition, row)?;
                if index == 0 && !self.has_table(grant)? {
                    return Err(TABLE_NOT_FOUND);
                }
                if table_name(grant)? != table_name(first)? || own_partition != partition {
                    return Err(DIFFERENT_PARTITIONS);
                }
                if !is_new {
                    return Err(INVALID_DUPLICATE_ROW);
                }
                write.check().map_err(refusal)
            };
            check().err().map(|error| (index, error))
        })
    }

    /// Changes entities together or not at all; each change under its own grant. Refusals come
    /// with the place of the change at fault.
    pub fn transact(
        &self,
        changes: Vec<(Grant, Write)>,
    ) -> Result<Pending<Vec<WriteOutcome>, GroupError>, (usize, WireError)> {
        let Some((first, _)) = changes.first() else { return Err((0, INVALID_INPUT)) };
        let first = first.clone();
        let table = self.entity_table(&first).map_err(|error| (0, error))?;
        let _steady = self.steady(&first, Reach::Disk).map_err(|error| (0, error))?;
        for (index, (grant, write)) in changes.iter().enumerate() {
            let check = || {
                grant.check(access_of(write))?;
                grant.check_keys(write.keys().0, write.keys().1)?;
                let same = table_name(grant)? == table && grant.account() == first.account();
                if same { Ok(()) } else { Err(DIFFERENT_PARTITIONS) }
            };
            if let Err(error) = check() {
                // One before it may be at fault in a way that only the table layer looks for.
                return Err(self.first_fault(&changes[..index]).unwrap_or((index, error)));
            }
        }
        let writes = changes.into_iter().map(|(_, write)| write).collect();
        let bytes_max = self.bounds.group_bytes_max;
        self.tables
            .transact_within(first.account(), &table, writes, bytes_max)
            .map_err(group_refusal)
    }
}

fn access_of(write: &Write) -> Access {
    match write {
        Write::Insert(_) => Access::Insert,
        Write::InsertOrReplace(_) | Write::InsertOrMerge(_) => Access::Upsert,
        Write::Update(..) | Write::Merge(..) => Access::Update,
        Write::Delete { .. } => Access::Delete,
        Write::Until(write, _) => access_of(write),
    }
}
