//! Tables and their entities as of a moment of the past, for as long as the history window keeps
//! it.
//!
//! Absent: settings and changes. Who may read is decided by the present.

use crate::env::clock::Clock;
use crate::error::{Error, Kind};
use crate::ids::CommitTs;
use crate::key::range::KeyRange;
use crate::rows::{Catalog, RowSnapshot, RowStore};
use crate::table::entity::Entity;
use crate::table::error::{TableError, TableResult};
use crate::table::filter::ast::Filter;
use crate::table::lent::EntityRef;
use crate::table::name::{self, AccountName, TableName};
use crate::table::page::{PAGE_ENTITIES_MAX, Page, PageEnd, Query};
use crate::table::plan::Plan;
use crate::table::query;
use crate::table::store::{
    Table, TableStore, TablesPage, entity_of, page_of_tables, plan_of, rows_of, table_of,
};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

/// What all tables held at one moment. Stays readable while it lives.
pub struct Past {
    rows: Box<dyn RowSnapshot>,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for Past {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Past({})", self.rows.at())
    }
}

impl<S: RowStore + Catalog> TableStore<S> {
    /// What was visible at `at`: a commit's timestamp or any other.
    ///
    /// Errors: [`TableError::MomentNotKept`] for one before what is kept
    /// ([`Options::history`](crate::Options::history)), or in the future.
    pub fn as_of(&self, at: CommitTs) -> TableResult<Past> {
        match self.rows().snapshot_at(at) {
            Ok(rows) => Ok(Past { rows, clock: Arc::clone(self.clock()) }),
            Err(error) if error.kind() == Kind::Invalid => {
                let (from, end) = self.rows().moments_kept();
                Err(TableError::MomentNotKept { at, from, end })
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Past {
    /// The moment.
    pub fn at(&self) -> CommitTs {
        self.rows.at()
    }

    /// The table that had that name then, if there was one.
    pub fn get_table(
        &self,
        account: &AccountName,
        table: &TableName,
    ) -> TableResult<Option<Table>> {
        let found = self.rows.find_table(&name::catalog_name(account, table))?;
        found.map(table_of).transpose()
    }

    /// Tables of then, as [`TableStore::list_tables`].
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

    /// The entity as it was, if there was one.
    pub fn get(
        &self,
        account: &AccountName,
        table: &TableName,
        partition_key: &str,
        row_key: &str,
    ) -> TableResult<Option<Entity>> {
        let read = |entity: EntityRef<'_>| entity.to_entity(None);
        Ok(self.get_with(account, table, (partition_key, row_key), read)?.transpose()?)
    }

    /// What `read` makes of the entity of these keys as it was.
    pub fn get_with<T>(
        &self,
        account: &AccountName,
        table: &TableName,
        keys: (&str, &str),
        read: impl FnOnce(EntityRef<'_>) -> T,
    ) -> TableResult<Option<T>> {
        let table = self.find(account, table)?;
        entity_of(keys, |partition, row| self.rows.get(table.id, partition, row), read)
    }

    /// One page of the entities that passed a filter then: all pages are as of that moment.
    pub fn query(
        &self,
        account: &AccountName,
        table: &TableName,
        query: &Query,
    ) -> TableResult<Page> {
        let (table, plan) = self.planned(account, table, query)?;
        Ok(query::read_page(&*self.rows, &*self.clock, table.id, query, plan)?)
    }

    /// Lends them, as [`TableStore::query_each`].
    pub fn query_each(
        &self,
        account: &AccountName,
        table: &TableName,
        query: &Query,
        mut each: impl FnMut(EntityRef<'_>) -> Result<ControlFlow<()>, Error>,
    ) -> TableResult<PageEnd> {
        let (table, plan) = self.planned(account, table, query)?;
        Ok(query::visit_page(&*self.rows, &*self.clock, table.id, query, plan, &mut each)?)
    }

    /// How many entities a table had.
    pub fn count(&self, account: &AccountName, table: &TableName) -> TableResult<u64> {
        let table = self.find(account, table)?;
        Ok(self.rows.count(KeyRange::table(table.id))?)
    }

    /// How many entities one partition had.
    pub fn count_partition(
        &self,
        account: &AccountName,
        table: &TableName,
        partition_key: &str,
    ) -> TableResult<u64> {
        Ok(self.rows.count(rows_of(self.find(account, table)?.id, partition_key))?)
    }

    fn find(&self, account: &AccountName, table: &TableName) -> TableResult<Table> {
        self.get_table(account, table)?.ok_or(TableError::TableNotFound)
    }

    fn planned(
        &self,
        account: &AccountName,
        table: &TableName,
        query: &Query,
    ) -> TableResult<(Table, Plan)> {
        Ok((self.find(account, table)?, plan_of(query)?))
    }
}
