//! The tables and the clock, and what every call to them goes through: its grant's table, the
//! gates, the moment that it asks for, and the policy that the grant depends on.

use crate::auth::policy::{Policies, Stored};
use crate::auth::verify::Grant;
use crate::error::{
    AS_OF_OUT_OF_RANGE, INTERNAL_ERROR, INVALID_RESOURCE_NAME, TABLE_NOT_FOUND, WireError,
};
use crate::lab::Lab;
use crate::observe::hot::Hot;
use crate::properties::model::Properties;
use crate::refusal::{name_refusal, reached, refusal};
use crate::remembered::Remembered;
use crate::route::Place;
use crate::stored::{Steady, StoredPolicies};
use crate::throttle::gate::Gates;
use std::cell::Cell;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tabulith::env::clock::Clock;
use tabulith::ids::CommitTs;
use tabulith::options::Reach;
use tabulith::rows::{Catalog, RowStore};
use tabulith::table::name::{AccountName, TableName};
use tabulith::table::past::Past;
use tabulith::table::store::TableStore;

/// What tables can be kept in.
pub trait Store: RowStore + Catalog {}

impl<S: RowStore + Catalog> Store for S {}

const NO_HISTORY: &str =
    "This server keeps no history to read as of; it does when it is started with --history.";

/// Most accounts whose properties are remembered; beyond that the older half is forgotten.
const ACCOUNTS_MAX: usize = 10_000;

/// The tables and the clock.
#[derive(Debug)]
pub struct Services<S> {
    pub(super) tables: Arc<TableStore<S>>,
    pub(super) clock: Arc<dyn Clock>,
    /// Service properties by account: every answer needs the rules for browsers among them. Of
    /// those that did not read, until when they need not be tried again.
    pub(super) properties: Remembered<String, Result<Arc<Properties>, Duration>>,
    /// Held by who changes them.
    pub(super) changing_properties: Mutex<()>,
    pub(super) policies: StoredPolicies,
    gates: Gates,
    hot: Arc<Hot>,
    pub(super) lab: Option<Arc<Lab>>,
    pub(super) bounds: Bounds,
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

/// What a grant depends on, kept as it is.
pub(super) struct Held<'a>(#[expect(dead_code, reason = "held, not looked at")] Option<Steady<'a>>);

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
    pub(super) fn past(&self, at: CommitTs) -> Result<Past, WireError> {
        match self.bounds.keeps_history {
            true => self.tables.as_of(at).map_err(refusal),
            false => Err(AS_OF_OUT_OF_RANGE.saying(NO_HISTORY)),
        }
    }

    /// Whether who reads as of `at` may have to wait for commits that are on their way to the disk.
    pub fn may_wait_for(&self, at: CommitTs) -> bool {
        self.bounds.keeps_history && at > self.newest()
    }

    /// Waits for those, so that whoever reads as of `at` later need not. What is wrong with the
    /// moment is told then.
    pub fn await_past(&self, at: CommitTs) {
        let _ = self.past(at);
    }

    /// The same for entities of the grant's table. A stored policy is that of one table, and says
    /// nothing of another one that had its name then.
    pub(super) fn past_for(&self, grant: &Grant, at: CommitTs) -> Result<Past, WireError> {
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

    /// The newest commit that is visible.
    pub fn newest(&self) -> CommitTs {
        self.tables.rows().newest()
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

    /// Throttles and counts entities that a request names by their keys.
    pub fn charge(
        &self,
        grant: &Grant,
        partition_key: &str,
        count: usize,
    ) -> Result<(), WireError> {
        self.throttle(grant, partition_key, count)?;
        self.count_hot(grant, partition_key, count);
        Ok(())
    }

    /// The same for one entity. Outside of a signature's range there is nothing for its holder, of
    /// others' allowance neither.
    pub fn charge_for(&self, grant: &Grant, place: &Place) -> Result<(), WireError> {
        let Place { partition_key, row_key, .. } = place;
        if grant.check_keys(partition_key, row_key).is_err() {
            return Ok(());
        }
        self.charge(grant, partition_key, 1)
    }

    /// Fails for a table that the fault lab says is going.
    pub(super) fn check_going(&self, grant: &Grant, table: &TableName) -> Result<(), WireError> {
        let Some(lab) = &self.lab else { return Ok(()) };
        lab.check(grant.account().as_str(), table.as_str(), self.clock.steady())
    }

    /// The grant's table, for work on its entities.
    pub(super) fn entity_table(&self, grant: &Grant) -> Result<TableName, WireError> {
        if grant.table().is_some_and(is_metrics_table) {
            return Err(TABLE_NOT_FOUND);
        }
        let table = table_name(grant)?;
        self.check_going(grant, &table).map(|()| table)
    }

    /// Fails where the grant depends on a stored policy that is not what it was when the request
    /// came. Waits for nobody: who reads asks before it, and once it has read.
    pub(super) fn check_policy(&self, grant: &Grant) -> Result<(), WireError> {
        let checked = self.check_policy_within(grant, Reach::Disk)?;
        checked.ok_or(INTERNAL_ERROR)
    }

    /// The same, and with [`Reach::Memory`] nothing where only the disk can tell.
    pub(super) fn check_policy_within(
        &self,
        grant: &Grant,
        reach: Reach,
    ) -> Result<Option<()>, WireError> {
        let Some(stored) = grant.stored() else { return Ok(Some(())) };
        let (account, table) = (grant.account(), table_name(grant)?);
        let checked = self.policies.check(&self.tables, account, &table, stored, reach);
        reached(reach, checked)?.transpose()
    }

    /// The same for a change: nobody is told that the policy changed before the answer is dropped.
    pub(super) fn steady(
        &self,
        grant: &Grant,
        reach: Reach,
    ) -> Result<Option<Held<'_>>, WireError> {
        if grant.stored().is_none() {
            return Ok(Some(Held(None)));
        }
        let steady = self.policies.steady(grant.account(), &table_name(grant)?);
        let checked = self.check_policy_within(grant, reach)?;
        Ok(checked.map(|()| Held(Some(steady))))
    }

    /// The stored policies, for who may wait for the disk or may not.
    pub(crate) fn policies_within(&self, reach: Reach) -> PoliciesWithin<'_, S> {
        PoliciesWithin { services: self, reach, needs_disk: Cell::new(false) }
    }
}

/// The stored policies as far as somebody may reach for them.
pub(crate) struct PoliciesWithin<'a, S> {
    services: &'a Services<S>,
    reach: Reach,
    needs_disk: Cell<bool>,
}

impl<S> PoliciesWithin<'_, S> {
    /// Whether one was asked for of which only the disk can tell: it passed for none.
    pub(crate) fn needs_disk(&self) -> bool {
        self.needs_disk.get()
    }
}

impl<S: Store> Policies for PoliciesWithin<'_, S> {
    fn policy(
        &self,
        account: &AccountName,
        table: &TableName,
        id: &str,
    ) -> Result<Option<Stored>, WireError> {
        let Services { policies, tables, .. } = self.services;
        let found = reached(self.reach, policies.get(tables, account, table, id, self.reach))?;
        self.needs_disk.set(found.is_none());
        Ok(found.flatten())
    }
}

/// Whether a name is that of a table in which Azure keeps its metrics. Nobody can make one; who
/// asks for what is in it does so by its right name, and there is none here.
fn is_metrics_table(name: &str) -> bool {
    let rest = name.strip_prefix("$Metrics").unwrap_or_default();
    !rest.is_empty() && name.len() <= 63 && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

pub(super) fn table_name(grant: &Grant) -> Result<TableName, WireError> {
    TableName::parse(grant.table().ok_or(INVALID_RESOURCE_NAME)?).map_err(name_refusal)
}
