//! Tables: listed, shown, made, removed, and their stored policies.

use crate::auth::access::Access;
use crate::auth::policy::Policy;
use crate::auth::verify::Grant;
use crate::error::{RESOURCE_NOT_FOUND, WireError};
use crate::limits::{METADATA_TABLES_MAX, PAGE_ENTITIES_MAX};
use crate::refusal::{name_refusal, refusal};
use crate::services::base::{Services, Store, table_name};
use std::sync::Arc;
use std::time::Duration;
use tabulith::ids::CommitTs;
use tabulith::options::Reach;
use tabulith::table::error::TableError;
use tabulith::table::filter::ast::Filter;
use tabulith::table::name::TableName;
use tabulith::table::store::TablesPage;
use tabulith::table::value::DateTime;

/// Which tables to list.
#[derive(Clone, Debug)]
pub struct ListTables {
    /// A condition on their names.
    pub filter: Option<Filter>,
    /// How many at most.
    pub top: usize,
    /// The first one.
    pub from: Option<String>,
    /// The moment to see, if not the present.
    pub as_of: Option<CommitTs>,
}

impl<S: Store> Services<S> {
    /// The names of the tables of the grant's account, as many as a description of them names.
    pub fn table_names(&self, grant: &Grant) -> Result<Vec<String>, WireError> {
        grant.check(Access::ListTables)?;
        let mut names: Vec<String> = Vec::new();
        let mut from: Option<String> = None;
        while names.len() < METADATA_TABLES_MAX {
            let page =
                self.tables.list_tables(grant.account(), None, PAGE_ENTITIES_MAX, from.as_deref());
            let page = page.map_err(refusal)?;
            names.extend(page.tables.iter().map(|table| table.name.as_str().to_owned()));
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        Ok(names)
    }

    /// Fails unless the grant allows to list tables.
    pub fn check_listing(&self, grant: &Grant) -> Result<(), WireError> {
        grant.check(Access::ListTables)
    }

    /// Lists tables of the grant's account. With the page comes the moment at which its last table
    /// was made, in ticks since 1601: continuation tokens hold such a moment.
    pub fn list_tables(
        &self,
        grant: &Grant,
        list: ListTables,
    ) -> Result<(TablesPage, Option<u64>), WireError> {
        grant.check(Access::ListTables)?;
        let (filter, from) = (list.filter.as_ref(), list.from.as_deref());
        let page = match list.as_of {
            None => self.tables.list_tables(grant.account(), filter, list.top, from),
            Some(at) => self.past(at)?.list_tables(grant.account(), filter, list.top, from),
        };
        let page = page.map_err(refusal)?;
        let created = page.tables.last().map(|table| DateTime::from(table.created).0);
        Ok((page, created))
    }

    /// Whether the grant's table exists.
    pub fn has_table(&self, grant: &Grant) -> Result<bool, WireError> {
        let found = self.tables.get_table(grant.account(), &self.entity_table(grant)?);
        Ok(found.map_err(refusal)?.is_some())
    }

    /// The name of the grant's table in the casing of its creation, as of now or of a moment.
    pub fn get_table(&self, grant: &Grant, as_of: Option<CommitTs>) -> Result<String, WireError> {
        grant.check(Access::ReadTable)?;
        let name = table_name(grant)?;
        let found = match as_of {
            None => self.tables.get_table(grant.account(), &name),
            Some(at) => self.past(at)?.get_table(grant.account(), &name),
        };
        let found = found.map_err(refusal)?;
        found.map(|table| table.name.as_str().to_owned()).ok_or(RESOURCE_NOT_FOUND)
    }

    /// Makes a table; returns once it is durable.
    pub fn create_table(&self, grant: &Grant, name: &str) -> Result<(), WireError> {
        grant.check(Access::CreateTable)?;
        let name = TableName::parse(name).map_err(name_refusal)?;
        // Not while another call drops it, and a lab says that it goes.
        let _making = self.policies.making(grant.account(), &name);
        self.check_going(grant, &name)?;
        self.tables.create_table(grant.account(), &name).map_err(refusal)?;
        Ok(())
    }

    /// Removes the grant's table; returns once that is durable. `going`: for how long after that
    /// the fault lab is to say that it is still going.
    pub fn delete_table(&self, grant: &Grant, going: Option<Duration>) -> Result<(), WireError> {
        grant.check(Access::DeleteTable)?;
        let table = table_name(grant)?;
        let _removing = self.policies.removing(grant.account(), &table);
        let removed = || match self.tables.delete_table(grant.account(), &table) {
            Ok(()) => Ok(()),
            Err(TableError::TableNotFound) => Err(RESOURCE_NOT_FOUND),
            Err(error) => Err(refusal(error)),
        };
        let (Some(lab), Some(time)) = (&self.lab, going) else { return removed() };
        let (account, name) = (grant.account().as_str(), table.as_str());
        let going = || {
            let now = self.clock.steady();
            lab.going(account, name, now, now.saturating_add(time))
        };
        // Said before it is so: one that was made anew in between would be said to be going.
        let before = going();
        let dropped = removed();
        if dropped.is_ok() {
            going();
        } else {
            lab.not_going(account, name, before);
        }
        dropped
    }

    /// The stored policies of the grant's table.
    pub fn policies(&self, grant: &Grant) -> Result<Arc<[Policy]>, WireError> {
        grant.check(Access::GetAcl)?;
        let all =
            self.policies.all(&self.tables, grant.account(), &table_name(grant)?, Reach::Disk);
        all.map(|(_, policies)| policies).map_err(refusal)
    }

    /// Replaces the stored policies of the grant's table; returns once that is durable.
    pub fn set_policies(&self, grant: &Grant, policies: Vec<Policy>) -> Result<(), WireError> {
        grant.check(Access::SetAcl)?;
        let table = table_name(grant)?;
        self.policies.set(&self.tables, grant.account(), &table, policies).map_err(refusal)
    }
}
