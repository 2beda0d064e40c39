//! Tables and their entities, over any row store: the one door for the server and the tools.
//!
//! Absent: caching and authorization. A table is looked up by name on every call, which the
//! catalogue answers from memory.

use crate::env::clock::{Clock, SystemClock};
use crate::error::{Error, Kind};
use crate::ids::{CommitTs, TableId};
use crate::key::range::KeyRange;
use crate::options::Reach;
use crate::rows::{Catalog, Row, RowStore, TableInfo};
use crate::table::entity::Entity;
use crate::table::error::{GroupError, TableError, TableResult};
use crate::table::filter::ast::Filter;
use crate::table::filter::eval::{self, Properties};
use crate::table::keys;
use crate::table::lent::EntityRef;
use crate::table::name::{self, AccountName, TableName};
use crate::table::page::{PAGE_ENTITIES_MAX, PAGE_TABLES_LOOKED_MAX, Page, PageEnd, Query};
use crate::table::plan::Plan;
use crate::table::query;
use crate::table::rules;
use crate::table::settings;
use crate::table::value::ValueRef;
use crate::table::write::{self, Group, Pending, Prepared, Write, WriteOutcome};
use crate::table::zones::EntityColumns;
use bytes::Bytes;
use std::collections::HashSet;
use std::ops::Bound::Unbounded;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Tables of accounts, and their entities.
#[derive(Debug)]
pub struct TableStore<S> {
    rows: Arc<S>,
    clock: Arc<dyn Clock>,
}

impl<S> Clone for TableStore<S> {
    fn clone(&self) -> TableStore<S> {
        TableStore { rows: self.rows.clone(), clock: self.clock.clone() }
    }
}

/// A table of an account.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its name in the casing given at creation.
    pub name: TableName,
    /// The number of its rows' keys; never given to another table.
    pub id: TableId,
    /// The commit that made it.
    pub created: CommitTs,
}

/// Some tables of an account, by name without case.
#[derive(Clone, Debug)]
pub struct TablesPage {
    /// The tables.
    pub tables: Vec<Table>,
    /// The first table of the next page, if there is one.
    pub next: Option<String>,
}

impl<S: RowStore + Catalog> TableStore<S> {
    /// Tables kept in `rows`.
    pub fn new(rows: Arc<S>) -> TableStore<S> {
        TableStore::with_clock(rows, Arc::new(SystemClock::new()))
    }

    /// Tables kept in `rows`, with the time budgets of queries measured by `clock`.
    pub fn with_clock(rows: Arc<S>, clock: Arc<dyn Clock>) -> TableStore<S> {
        rows.track(Arc::new(EntityColumns));
        TableStore { rows, clock }
    }

    /// What the tables are kept in.
    pub fn rows(&self) -> &Arc<S> {
        &self.rows
    }

    /// What the time budgets of queries are measured by.
    pub(super) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Makes a table and returns once it is durable.
    ///
    /// Errors: [`TableError::TableExists`], also under a name that differs only in case.
    pub fn create_table(&self, account: &AccountName, table: &TableName) -> TableResult<Table> {
        let name = name::catalog_name(account, table);
        match self.rows.create_table(&name, table.as_str().as_bytes()) {
            Ok(info) => table_of(info),
            Err(error) if error.kind() == Kind::Exists => Err(TableError::TableExists),
            Err(error) => Err(error.into()),
        }
    }

    /// Drops a table with all its entities; its name is free at once.
    ///
    /// Errors: [`TableError::TableNotFound`].
    pub fn delete_table(&self, account: &AccountName, table: &TableName) -> TableResult<()> {
        match self.rows.drop_table(&name::catalog_name(account, table))? {
            true => Ok(()),
            false => Err(TableError::TableNotFound),
        }
    }

    /// Removes all entities of a table in one commit; the table and its settings stay. Returns once
    /// that is as safe as the store promises.
    ///
    /// Cost: nothing depends on how many entities there are; other writers wait for a moment.
    /// Errors: [`TableError::TableNotFound`].
    pub fn truncate(&self, account: &AccountName, table: &TableName) -> TableResult<CommitTs> {
        let ticket = self.rows.truncate(self.find(account, table)?, None)?;
        let ts = ticket.ts();
        ticket.wait()?;
        Ok(ts)
    }

    /// The table, if there is one.
    pub fn get_table(
        &self,
        account: &AccountName,
        table: &TableName,
    ) -> TableResult<Option<Table>> {
        let found = self.rows.find_table(&name::catalog_name(account, table))?;
        found.map(table_of).transpose()
    }

    /// At most `top` tables whose `TableName` passes `filter`, by name without case; from the table
    /// `from` on. A page that has looked at [`PAGE_TABLES_LOOKED_MAX`] ends, perhaps empty, with a
    /// continuation.
    pub fn list_tables(
        &self,
        account: &AccountName,
        filter: Option<&Filter>,
        top: usize,
        from: Option<&str>,
    ) -> TableResult<TablesPage> {
        let find = |name: &str| self.rows.find_table(name);
        let list =
            |prefix: &str, after: Option<&str>| self.rows.tables(prefix, after, PAGE_ENTITIES_MAX);
        page_of_tables(&find, &list, account, filter, top, from)
    }

    /// Changes one entity.
    ///
    /// Returns once the change is applied or refused, before either is safe to tell: wait for the
    /// [`Pending`]. What needs no look at the entity is refused at once.
    pub fn write(
        &self,
        account: &AccountName,
        table: &TableName,
        write: Write,
    ) -> TableResult<Pending<WriteOutcome>> {
        self.write_within(account, table, write, Reach::Disk)
    }

    /// The same, and with [`Reach::Memory`] nothing and [`Kind::WouldBlock`] where the change would
    /// have to wait: for the disk, for somebody else's change of the partition, or for what was
    /// written before; and where it would merge into an entity of more than 64 KiB.
    pub fn write_within(
        &self,
        account: &AccountName,
        table: &TableName,
        write: Write,
        reach: Reach,
    ) -> TableResult<Pending<WriteOutcome>> {
        let table = self.find(account, table)?;
        let write = Prepared::new(write)?;
        Ok(write::apply(&*self.rows, table, reach, Group::of(write))?.into_single())
    }

    /// Changes up to [`GROUP_OPERATIONS_MAX`](rules::GROUP_OPERATIONS_MAX) entities of one
    /// partition in one commit, or none of them.
    ///
    /// Errors name the first operation at fault: what needs no look at the store comes first.
    pub fn transact(
        &self,
        account: &AccountName,
        table: &TableName,
        writes: Vec<Write>,
    ) -> Result<Pending<Vec<WriteOutcome>, GroupError>, GroupError> {
        self.transact_within(account, table, writes, rules::GROUP_STORED_BYTES_MAX)
    }

    /// The same where all entities that the group leaves behind have `stored_bytes_max` at most, as
    /// they are stored: some three times that is in memory meanwhile.
    pub fn transact_within(
        &self,
        account: &AccountName,
        table: &TableName,
        writes: Vec<Write>,
        stored_bytes_max: usize,
    ) -> Result<Pending<Vec<WriteOutcome>, GroupError>, GroupError> {
        let table = self.find(account, table)?;
        let group = Group { writes: prepare_group(writes)?, stored_bytes_max };
        Ok(write::apply(&*self.rows, table, Reach::Disk, group).map_err(TableError::from)?)
    }

    /// The entity, if there is one.
    ///
    /// `reach`: with [`Reach::Memory`] an answer that needs the disk is
    /// [`Kind::WouldBlock`].
    pub fn get(
        &self,
        account: &AccountName,
        table: &TableName,
        partition_key: &str,
        row_key: &str,
        reach: Reach,
    ) -> TableResult<Option<Entity>> {
        let read = |entity: EntityRef<'_>| entity.to_entity(None);
        Ok(self.get_with(account, table, (partition_key, row_key), reach, read)?.transpose()?)
    }

    /// What `read` makes of the entity of these keys, if there is one: nothing of it is copied.
    ///
    /// `reach`: as for [`TableStore::get`].
    pub fn get_with<T>(
        &self,
        account: &AccountName,
        table: &TableName,
        keys: (&str, &str),
        reach: Reach,
        read: impl FnOnce(EntityRef<'_>) -> T,
    ) -> TableResult<Option<T>> {
        let table = self.find(account, table)?;
        entity_of(keys, |partition, row| self.rows.get(table, partition, row, reach), read)
    }

    /// One page of the entities that pass a filter, in the order of their keys, as of now.
    ///
    /// Cost: that of the plan, [`TableStore::explain`].
    pub fn query(
        &self,
        account: &AccountName,
        table: &TableName,
        query: &Query,
    ) -> TableResult<Page> {
        let (table, plan) = self.planned(account, table, query)?;
        let snapshot = self.rows.snapshot()?;
        Ok(query::read_page(&*snapshot, &*self.clock, table, query, plan)?)
    }

    /// Lends the entities of such a page to `each`, one after the other, all their properties
    /// whatever the query selects: nothing of them is copied. After [`ControlFlow::Break`] the page
    /// ends before that entity, as if it were full; an error ends it.
    pub fn query_each(
        &self,
        account: &AccountName,
        table: &TableName,
        query: &Query,
        mut each: impl FnMut(EntityRef<'_>) -> Result<ControlFlow<()>, Error>,
    ) -> TableResult<PageEnd> {
        let (table, plan) = self.planned(account, table, query)?;
        let snapshot = self.rows.snapshot()?;
        Ok(query::visit_page(&*snapshot, &*self.clock, table, query, plan, &mut each)?)
    }

    fn planned(
        &self,
        account: &AccountName,
        table: &TableName,
        query: &Query,
    ) -> TableResult<(TableId, Plan)> {
        Ok((self.find(account, table)?, plan_of(query)?))
    }

    /// How many entities a table has, as of now. Cost: reads few of them, see
    /// [`RowSnapshot::count`](crate::rows::RowSnapshot::count).
    pub fn count(&self, account: &AccountName, table: &TableName) -> TableResult<u64> {
        let table = self.find(account, table)?;
        Ok(self.rows.snapshot()?.count(KeyRange::table(table))?)
    }

    /// How many entities one partition has.
    pub fn count_partition(
        &self,
        account: &AccountName,
        table: &TableName,
        partition_key: &str,
    ) -> TableResult<u64> {
        let range = rows_of(self.find(account, table)?, partition_key);
        Ok(self.rows.snapshot()?.count(range)?)
    }

    /// A setting of the account: bytes that were kept under `name`.
    pub fn account_setting(&self, account: &AccountName, name: &str) -> TableResult<Option<Bytes>> {
        self.account_setting_within(account, name, Reach::Disk)
    }

    /// The same, and with [`Reach::Memory`] [`Kind::WouldBlock`] where that needs the disk.
    pub fn account_setting_within(
        &self,
        account: &AccountName,
        name: &str,
        reach: Reach,
    ) -> TableResult<Option<Bytes>> {
        settings::read(&*self.rows, account, &settings::row_key(None, name), reach)
    }

    /// Keeps bytes under `name` for the account, or with `None` takes them back. Returns once that
    /// is durable.
    pub fn set_account_setting(
        &self,
        account: &AccountName,
        name: &str,
        value: Option<&[u8]>,
    ) -> TableResult<()> {
        settings::write(&*self.rows, account, &settings::row_key(None, name), value)
    }

    /// A setting of a table: bytes that were kept under `name` since the table was made.
    pub fn table_setting(
        &self,
        account: &AccountName,
        table: &TableName,
        name: &str,
    ) -> TableResult<Option<Bytes>> {
        self.table_setting_within(account, table, name, Reach::Disk)
    }

    /// The same, and with [`Reach::Memory`] [`Kind::WouldBlock`] where that needs the disk.
    pub fn table_setting_within(
        &self,
        account: &AccountName,
        table: &TableName,
        name: &str,
        reach: Reach,
    ) -> TableResult<Option<Bytes>> {
        let id = self.find(account, table)?;
        settings::read(&*self.rows, account, &settings::row_key(Some(id), name), reach)
    }

    /// Keeps bytes under `name` for the table, or with `None` takes them back. Returns once that
    /// is durable.
    pub fn set_table_setting(
        &self,
        account: &AccountName,
        table: &TableName,
        name: &str,
        value: Option<&[u8]>,
    ) -> TableResult<()> {
        let id = self.find(account, table)?;
        settings::write(&*self.rows, account, &settings::row_key(Some(id), name), value)
    }

    /// How a query with this filter finds its rows.
    pub fn explain(&self, filter: Option<&Filter>) -> TableResult<Plan> {
        plan_of_filter(filter)
    }

    fn find(&self, account: &AccountName, table: &TableName) -> TableResult<TableId> {
        let found = self.rows.find_table(&name::catalog_name(account, table))?;
        found.map(|info| info.id).ok_or(TableError::TableNotFound)
    }
}

/// Checks a group and each of its operations, in order.
fn prepare_group(writes: Vec<Write>) -> Result<Vec<Prepared>, GroupError> {
    let count = writes.len();
    if count == 0 {
        return Err(TableError::NoOperations.into());
    }
    if count > rules::GROUP_OPERATIONS_MAX {
        // Named at the last operation that would have been allowed, as the service does.
        let error = TableError::TooManyOperations { count };
        return Err(GroupError { index: rules::GROUP_OPERATIONS_MAX - 1, error });
    }
    let bytes = writes.iter().map(Write::payload_bytes).sum();
    if bytes > rules::GROUP_BYTES_MAX {
        return Err(TableError::GroupTooLarge { bytes }.into());
    }
    let partition = writes.first().map(|write| write.keys().0.to_owned()).unwrap_or_default();
    let mut rows = HashSet::new();
    let mut prepared = Vec::with_capacity(count);
    for (index, write) in writes.into_iter().enumerate() {
        let checked = if write.keys().0 != partition {
            Err(TableError::MixedPartitions)
        } else if !rows.insert(write.keys().1.to_owned()) {
            Err(TableError::RowTwice)
        } else {
            Prepared::new(write)
        };
        prepared.push(checked.map_err(|error| GroupError { index, error })?);
    }
    Ok(prepared)
}

/// What `read` makes of the entity of these keys, whose row `get` finds under the stored form of
/// both; keys that no entity has find none.
pub(super) fn entity_of<T>(
    (partition_key, row_key): (&str, &str),
    get: impl FnOnce(&[u8], &[u8]) -> Result<Option<Row>, Error>,
    read: impl FnOnce(EntityRef<'_>) -> T,
) -> TableResult<Option<T>> {
    if rules::check_keys(partition_key, row_key).is_err() {
        return Ok(None);
    }
    let found = get(&keys::encode(partition_key), &keys::encode(row_key))?;
    let Some(row) = found else { return Ok(None) };
    let written = (row.ts, row.expires);
    Ok(Some(read(EntityRef::open(partition_key, row_key, written, &row.value)?)))
}

/// How a page of `query` finds its rows.
pub(super) fn plan_of(query: &Query) -> TableResult<Plan> {
    if query.top > PAGE_ENTITIES_MAX {
        return Err(TableError::PageTooLong { top: query.top });
    }
    let plan = plan_of_filter(query.filter.as_ref())?;
    let Some(range) = &query.within else { return Ok(plan) };
    range.check()?;
    Ok(plan.within(range))
}

fn plan_of_filter(filter: Option<&Filter>) -> TableResult<Plan> {
    filter.map_or(Ok(()), Filter::check)?;
    Ok(Plan::of(filter))
}

/// The rows of one partition.
pub(super) fn rows_of(table: TableId, partition_key: &str) -> KeyRange {
    KeyRange::rows(table, &keys::encode(partition_key), Unbounded, Unbounded)
}

/// Lists tables by the prefix of their names and the name that they come after.
type ListTables<'a> = dyn Fn(&str, Option<&str>) -> Result<Vec<TableInfo>, Error> + 'a;

/// A page of the tables that `find` and `list` know.
pub(super) fn page_of_tables(
    find: &dyn Fn(&str) -> Result<Option<TableInfo>, Error>,
    list: &ListTables<'_>,
    account: &AccountName,
    filter: Option<&Filter>,
    top: usize,
    from: Option<&str>,
) -> TableResult<TablesPage> {
    filter.map_or(Ok(()), Filter::check)?;
    let prefix = name::catalog_prefix(account);
    let from = from.map(|name| format!("{prefix}{}", name.to_ascii_lowercase()));
    let mut page = TablesPage { tables: Vec::new(), next: None };
    if top == 0 {
        return Ok(page);
    }
    let mut batch = match &from {
        Some(from) => find(from)?.into_iter().collect(),
        None => Vec::new(),
    };
    let (mut after, mut looked) = (from, 0);
    loop {
        batch.extend(list(&prefix, after.as_deref())?);
        let Some(last) = batch.last() else {
            return Ok(page);
        };
        after = Some(last.name.clone());
        for info in batch.drain(..) {
            let table = table_of(info)?;
            if looked == PAGE_TABLES_LOOKED_MAX {
                page.next = Some(table.name.folded());
                return Ok(page);
            }
            looked += 1;
            if !filter.map_or(Ok(true), |filter| eval::passes(filter, &table))? {
                continue;
            }
            if page.tables.len() == top {
                page.next = Some(table.name.folded());
                return Ok(page);
            }
            page.tables.push(table);
        }
    }
}

pub(crate) fn table_of(info: TableInfo) -> TableResult<Table> {
    let name = std::str::from_utf8(&info.note).ok().and_then(|text| TableName::parse(text).ok());
    let name = name.ok_or_else(|| {
        let what = format!("the catalogue's note of '{}' is not the table's name", info.name);
        TableError::Engine(Error::new(Kind::Corrupt, what))
    })?;
    Ok(Table { name, id: info.id, created: info.created })
}

/// What a filter over tables sees.
impl Properties for Table {
    fn property(&self, name: &str) -> crate::error::Result<Option<ValueRef<'_>>> {
        Ok((name == "TableName").then(|| ValueRef::String(self.name.as_str())))
    }
}
