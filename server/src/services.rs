//! What a handler may touch: the tables, behind grants, and the clock.
//!
//! Every call takes the [`Grant`] that allows it and uses the account and the table that the grant
//! names, so that no handler can reach another. Refusals of the table layer become the service's
//! by [`refusal`] and nowhere else.

use crate::auth::access::Access;
use crate::auth::key_range::KeyRange;
use crate::auth::policy::{Policies, Policy, Stored};
use crate::auth::verify::Grant;
use crate::error::{
    AS_OF_OUT_OF_RANGE, DIFFERENT_PARTITIONS, INTERNAL_ERROR, INVALID_DUPLICATE_ROW, INVALID_INPUT,
    INVALID_RESOURCE_NAME, RESOURCE_NOT_FOUND, TABLE_NOT_FOUND, WireError,
};
use crate::lab::Lab;
use crate::limits::{
    METADATA_TABLES_MAX, PAGE_ENTITIES_MAX, QUERY_BYTES_MAX, QUERY_ROWS_MAX, QUERY_TIME_MAX,
};
use crate::observe::hot::Hot;
use crate::properties::document;
use crate::properties::model::{Given, Properties};
use crate::refusal::{group_refusal, name_refusal, refusal};
use crate::remembered::Remembered;
use crate::stored::{Steady, StoredPolicies};
use crate::throttle::gate::Gates;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tabulith::env::clock::Clock;
use tabulith::error::{Error, Kind};
use tabulith::ids::CommitTs;
use tabulith::options::Reach;
use tabulith::rows::{Catalog, RowStore};
use tabulith::table::error::{GroupError, TableError};
use tabulith::table::filter::ast::Filter;
use tabulith::table::lent::EntityRef;
use tabulith::table::name::{AccountName, TableName};
use tabulith::table::page::{Budget, Continuation, PageEnd, Query};
use tabulith::table::past::Past;
use tabulith::table::rules::{check_entity, check_keys};
use tabulith::table::store::{TableStore, TablesPage};
use tabulith::table::value::DateTime;
use tabulith::table::write::{Pending, Write, WriteOutcome};

/// What tables can be kept in.
pub trait Store: RowStore + Catalog {}

impl<S: RowStore + Catalog> Store for S {}

const NO_HISTORY: &str =
    "This server keeps no history to read as of; it does when it is started with --history.";

/// Most accounts whose properties are remembered; then all are forgotten at once.
const ACCOUNTS_MAX: usize = 10_000;

/// The name of the setting that holds an account's service properties, as the XML that shows them.
const PROPERTIES_SETTING: &str = "service-properties";

/// The tables and the clock.
#[derive(Debug)]
pub struct Services<S> {
    tables: Arc<TableStore<S>>,
    clock: Arc<dyn Clock>,
    /// Service properties by account: every answer needs the rules for browsers among them.
    properties: Remembered<String, Arc<Properties>>,
    /// Held by who changes them.
    changing_properties: Mutex<()>,
    policies: StoredPolicies,
    gates: Gates,
    hot: Arc<Hot>,
    lab: Option<Arc<Lab>>,
    bounds: Bounds,
}

/// What requests may take of memory, and whether they may see the past.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Bytes of a page after which it ends.
    pub page_bytes_max: usize,
    /// Bytes of the entities that a change set leaves behind.
    pub group_bytes_max: usize,
    /// Whether moments of the past can be read.
    pub keeps_history: bool,
}

/// What a lookup in memory, or on disk, gave.
#[derive(Clone, Debug)]
pub enum Found<T> {
    /// What was made of the entity.
    Entity(T),
    /// There is none.
    Nothing,
    /// Only the disk can tell, and the call was not to ask it.
    NeedsDisk,
}

/// What a grant depends on, kept as it is.
struct Held<'a>(#[expect(dead_code, reason = "held, not looked at")] Option<Steady<'a>>);

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
    /// Services over `tables`, behind the gates; of a fault lab they learn which tables are going.
    pub fn new(
        tables: Arc<TableStore<S>>,
        clock: Arc<dyn Clock>,
        gates: Gates,
        hot: Arc<Hot>,
        lab: Option<Arc<Lab>>,
        bounds: Bounds,
    ) -> Services<S> {
        Services {
            tables,
            clock,
            properties: Remembered::new(ACCOUNTS_MAX),
            changing_properties: Mutex::default(),
            policies: StoredPolicies::default(),
            gates,
            hot,
            lab,
            bounds,
        }
    }

    /// The tables as they were, for a request that asks for that.
    fn past(&self, at: CommitTs) -> Result<Past, WireError> {
        match self.bounds.keeps_history {
            true => self.tables.as_of(at).map_err(refusal),
            false => Err(AS_OF_OUT_OF_RANGE.saying(NO_HISTORY)),
        }
    }

    /// The same for entities of the grant's table. A stored policy is that of one table, and says
    /// nothing of another one that had its name then.
    fn past_for(&self, grant: &Grant, at: CommitTs) -> Result<Past, WireError> {
        let past = self.past(at)?;
        if let Some(stored) = grant.stored() {
            let then = past.get_table(grant.account(), &table_name(grant)?).map_err(refusal)?;
            then.filter(|then| then.id == stored.table).ok_or(TABLE_NOT_FOUND)?;
        }
        Ok(past)
    }

    /// Bytes of a page after which it ends.
    pub fn page_bytes_max(&self) -> usize {
        self.bounds.page_bytes_max
    }

    /// The clock.
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// Fails where the account has too many requests.
    pub fn throttle_request(&self, account: &str) -> Result<(), WireError> {
        self.gates.request(account, self.clock.steady())
    }

    /// Whether operations on entities are counted, so that none may be begun twice.
    pub fn counts_entities(&self) -> bool {
        self.gates.count_entities()
    }

    /// Fails where so many entities are too many for a partition of the grant's table.
    pub fn throttle(
        &self,
        grant: &Grant,
        partition_key: &str,
        count: usize,
    ) -> Result<(), WireError> {
        let (account, table) = (grant.account().as_str(), grant.table().unwrap_or_default());
        self.gates.entities(account, table, partition_key, count, self.clock.steady())
    }

    /// Counts entities of a partition of the grant's table for the metrics.
    pub fn count_hot(&self, grant: &Grant, partition_key: &str, count: usize) {
        if self.hot.is_on() {
            let (account, table) = (grant.account().as_str(), grant.table().unwrap_or_default());
            self.hot.add(account, table, partition_key, count as u64, self.clock.steady());
        }
    }

    /// Fails for a table that the fault lab says is going.
    fn check_going(&self, grant: &Grant, table: &TableName) -> Result<(), WireError> {
        let Some(lab) = &self.lab else { return Ok(()) };
        lab.check(grant.account().as_str(), table.as_str(), self.clock.steady())
    }

    /// The grant's table, for work on its entities.
    fn entity_table(&self, grant: &Grant) -> Result<TableName, WireError> {
        if grant.table().is_some_and(is_metrics_table) {
            return Err(TABLE_NOT_FOUND);
        }
        let table = table_name(grant)?;
        self.check_going(grant, &table).map(|()| table)
    }

    /// Service properties of the grant's account.
    pub fn properties(&self, grant: &Grant) -> Result<Arc<Properties>, WireError> {
        grant.check(Access::ReadService)?;
        self.properties_of(grant.account())
    }

    /// Lays properties over those of the grant's account; returns once that is durable.
    pub fn set_properties(&self, grant: &Grant, given: Given) -> Result<(), WireError> {
        grant.check(Access::WriteService)?;
        let account = grant.account();
        let _changing = self.changing_properties.lock().unwrap_or_else(PoisonError::into_inner);
        let properties = self.stored_properties(account)?.with(given);
        let text = document::write(&properties);
        let set = self.tables.set_account_setting(account, PROPERTIES_SETTING, Some(&text));
        let properties = set.is_ok().then(|| Arc::new(properties));
        self.properties.change(account.as_str().to_owned(), properties);
        set.map_err(refusal)
    }

    /// Fails unless the grant allows to look at stats.
    pub fn check_stats(&self, grant: &Grant) -> Result<(), WireError> {
        grant.check(Access::ReadStats)
    }

    /// Fails unless the grant allows to list tables.
    pub fn check_listing(&self, grant: &Grant) -> Result<(), WireError> {
        grant.check(Access::ListTables)
    }

    /// The rules for browsers of an account that is served. Who cannot read them has none.
    pub fn cors_rules(&self, account: &AccountName) -> Arc<Properties> {
        self.properties_of(account).unwrap_or_default()
    }

    fn properties_of(&self, account: &AccountName) -> Result<Arc<Properties>, WireError> {
        let begun = match self.properties.get(account.as_str()) {
            Ok(properties) => return Ok(properties),
            Err(begun) => begun,
        };
        let properties = Arc::new(self.stored_properties(account)?);
        self.properties.keep(begun, account.as_str().to_owned(), properties.clone());
        Ok(properties)
    }

    fn stored_properties(&self, account: &AccountName) -> Result<Properties, WireError> {
        let text = self.tables.account_setting(account, PROPERTIES_SETTING).map_err(refusal)?;
        let Some(text) = text else { return Ok(Properties::default()) };
        match document::read(&text) {
            Ok(given) => Ok(Properties::default().with(given)),
            Err(error) => {
                tracing::error!(%account, %error, "stored service properties do not read");
                Err(INTERNAL_ERROR)
            }
        }
    }

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

    /// Removes all tables of an account and its settings; gives the number of tables. For tests of
    /// applications alone: no grant allows it.
    pub(crate) fn empty_account(&self, account: &AccountName) -> Result<u64, WireError> {
        let mut removed = 0;
        loop {
            let page = self.tables.list_tables(account, None, PAGE_ENTITIES_MAX, None);
            let page = page.map_err(refusal)?;
            if page.tables.is_empty() {
                break;
            }
            for table in &page.tables {
                let _removing = self.policies.removing(account, &table.name);
                match self.tables.delete_table(account, &table.name) {
                    Ok(()) => removed += 1,
                    Err(TableError::TableNotFound) => {}
                    Err(error) => return Err(refusal(error)),
                }
            }
        }
        let _changing = self.changing_properties.lock().unwrap_or_else(PoisonError::into_inner);
        let set = self.tables.set_account_setting(account, PROPERTIES_SETTING, None);
        self.properties.change(account.as_str().to_owned(), None);
        set.map_err(refusal)?;
        Ok(removed)
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

    /// Looks an entity up, and gives what `read` makes of it.
    pub fn get<T>(
        &self,
        grant: &Grant,
        (partition_key, row_key): (&str, &str),
        reach: Reach,
        read: impl FnOnce(EntityRef<'_>) -> Result<T, Error>,
    ) -> Result<Found<T>, WireError> {
        grant.check(Access::Read)?;
        self.check_policy(grant)?;
        let table = self.entity_table(grant)?;
        if grant.check_keys(partition_key, row_key).is_err() {
            // Outside of a signature's range there is nothing.
            return if self.has_table(grant)? { Ok(Found::Nothing) } else { Err(TABLE_NOT_FOUND) };
        }
        let keys = (partition_key, row_key);
        let found = self.tables.get_with(grant.account(), &table, keys, reach, read);
        self.check_policy(grant)?;
        match found {
            Ok(Some(Ok(made))) => Ok(Found::Entity(made)),
            Ok(Some(Err(error))) => Err(refusal(TableError::Engine(error))),
            Ok(None) => Ok(Found::Nothing),
            Err(TableError::Engine(error)) if error.kind() == Kind::WouldBlock => {
                Ok(Found::NeedsDisk)
            }
            Err(error) => Err(refusal(error)),
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
        // a token can tell, would say something of rows that are not his.
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
        let _steady = self.steady(grant)?;
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
                check_write(write).map_err(refusal)
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
        let _steady = self.steady(&first).map_err(|error| (0, error))?;
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

    /// The stored policies of the grant's table.
    pub fn policies(&self, grant: &Grant) -> Result<Arc<[Policy]>, WireError> {
        grant.check(Access::GetAcl)?;
        let all = self.policies.all(&self.tables, grant.account(), &table_name(grant)?);
        all.map(|(_, policies)| policies).map_err(refusal)
    }

    /// Replaces the stored policies of the grant's table; returns once that is durable.
    pub fn set_policies(&self, grant: &Grant, policies: Vec<Policy>) -> Result<(), WireError> {
        grant.check(Access::SetAcl)?;
        let table = table_name(grant)?;
        self.policies.set(&self.tables, grant.account(), &table, policies).map_err(refusal)
    }

    /// Fails where the grant depends on a stored policy that is not what it was when the request
    /// came. Waits for nobody: who reads asks before it, and when he has read.
    fn check_policy(&self, grant: &Grant) -> Result<(), WireError> {
        let Some(stored) = grant.stored() else { return Ok(()) };
        let table = table_name(grant)?;
        self.policies.check(&self.tables, grant.account(), &table, stored).map_err(refusal)?
    }

    /// The same for a change: nobody is told that the policy changed before the answer is dropped.
    fn steady(&self, grant: &Grant) -> Result<Held<'_>, WireError> {
        if grant.stored().is_none() {
            return Ok(Held(None));
        }
        let steady = self.policies.steady(grant.account(), &table_name(grant)?);
        self.check_policy(grant)?;
        Ok(Held(Some(steady)))
    }
}

impl<S: Store> Policies for Services<S> {
    fn policy(
        &self,
        account: &AccountName,
        table: &TableName,
        id: &str,
    ) -> Result<Option<Stored>, WireError> {
        self.policies.get(&self.tables, account, table, id).map_err(refusal)
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

/// What the table layer will look at before it looks at entities.
fn check_write(write: &Write) -> Result<(), TableError> {
    match write {
        Write::Insert(entity)
        | Write::InsertOrReplace(entity)
        | Write::InsertOrMerge(entity)
        | Write::Update(entity, _)
        | Write::Merge(entity, _) => check_entity(entity),
        Write::Delete { partition_key, row_key, .. } => check_keys(partition_key, row_key),
        Write::Until(write, _) => check_write(write),
    }
}

/// Whether a name is that of a table in which Azure keeps its metrics. Nobody can make one; who
/// asks for what is in it does so by its right name, and there is none here.
fn is_metrics_table(name: &str) -> bool {
    let rest = name.strip_prefix("$Metrics").unwrap_or_default();
    !rest.is_empty() && name.len() <= 63 && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn table_name(grant: &Grant) -> Result<TableName, WireError> {
    TableName::parse(grant.table().ok_or(INVALID_RESOURCE_NAME)?).map_err(name_refusal)
}
