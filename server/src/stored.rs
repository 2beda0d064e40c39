//! Stored policies of the tables: kept with the table, remembered in memory, and steady while a
//! change that depends on one is applied.
//!
//! Promise: once policies are set, or their table is gone, no change is applied any more by leave
//! of the old ones, not even one that was admitted before.

use crate::auth::policy::{self, Policy, Stored};
use crate::error::{AUTHENTICATION_FAILED, WireError};
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::collections::HashMap;
use std::sync::Arc;
use tabulith::ids::TableId;
use tabulith::rows::{Catalog, RowStore};
use tabulith::table::error::{TableError, TableResult};
use tabulith::table::name::{AccountName, TableName};
use tabulith::table::store::TableStore;

/// The setting that they are kept under, as the XML that shows them.
const SETTING: &str = "acl";

/// Most tables whose policies are remembered; then all are forgotten at once.
const TABLES_MAX: usize = 10_000;

/// The policies of one store's tables.
#[derive(Debug, Default)]
pub struct StoredPolicies {
    // Lock order: gate, then known. `known` is held for a lookup only.
    gate: RwLock<()>,
    known: Mutex<HashMap<TableId, Arc<[Policy]>>>,
}

/// While one lives, policies and tables that have them stay as they are.
pub type Steady<'a> = RwLockReadGuard<'a, ()>;

impl StoredPolicies {
    /// Keeps everything as it is: to be held from the look at a policy to the end of what it
    /// allows.
    pub fn steady(&self) -> Steady<'_> {
        self.gate.read()
    }

    /// To be held while a table is removed.
    pub fn changing(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write()
    }

    /// The policy of that name as of now, if its table is there and has one.
    pub fn get<S: RowStore + Catalog>(
        &self,
        tables: &TableStore<S>,
        account: &AccountName,
        table: &TableName,
        id: &str,
    ) -> TableResult<Option<Stored>> {
        let found = match self.all(tables, account, table) {
            Err(TableError::TableNotFound) => return Ok(None),
            found => found?,
        };
        let policy = found.1.iter().find(|policy| policy.id == id).cloned();
        Ok(policy.map(|policy| Stored { table: found.0, policy }))
    }

    /// Whether a policy still is what it was.
    pub fn check<S: RowStore + Catalog>(
        &self,
        tables: &TableStore<S>,
        account: &AccountName,
        table: &TableName,
        stored: &Stored,
    ) -> TableResult<Result<(), WireError>> {
        let now = self.get(tables, account, table, &stored.policy.id)?;
        let same = now.as_ref() == Some(stored);
        Ok(if same { Ok(()) } else { Err(AUTHENTICATION_FAILED) })
    }

    /// All policies of a table, and the table that has them.
    pub fn all<S: RowStore + Catalog>(
        &self,
        tables: &TableStore<S>,
        account: &AccountName,
        table: &TableName,
    ) -> TableResult<(TableId, Arc<[Policy]>)> {
        let found = tables.get_table(account, table)?.ok_or(TableError::TableNotFound)?;
        if let Some(policies) = self.known.lock().get(&found.id) {
            return Ok((found.id, policies.clone()));
        }
        // Nobody sets policies between the look at them and the remembering. Whoever holds the
        // gate already may come here too.
        let _gate = self.gate.read_recursive();
        let found = tables.get_table(account, table)?.ok_or(TableError::TableNotFound)?;
        let kept = tables.table_setting(account, table, SETTING)?;
        let policies = kept.map_or(Ok(Vec::new()), |kept| policy::read(&kept));
        let policies: Arc<[Policy]> = policies
            .unwrap_or_else(|error| {
                // Nobody is let in by what cannot be read.
                tracing::error!(%error, "stored policies that do not parse");
                Vec::new()
            })
            .into();
        self.remember(found.id, policies.clone());
        Ok((found.id, policies))
    }

    /// Keeps these policies and no others for a table; returns once that is durable.
    pub fn set<S: RowStore + Catalog>(
        &self,
        tables: &TableStore<S>,
        account: &AccountName,
        table: &TableName,
        policies: Vec<Policy>,
    ) -> TableResult<()> {
        let _gate = self.gate.write();
        let found = tables.get_table(account, table)?.ok_or(TableError::TableNotFound)?;
        // Should keeping them fail half-way, the store will be asked what it has.
        self.known.lock().remove(&found.id);
        let text = (!policies.is_empty()).then(|| policy::written(&policies));
        tables.set_table_setting(account, table, SETTING, text.as_deref())?;
        self.remember(found.id, policies.into());
        Ok(())
    }

    fn remember(&self, table: TableId, policies: Arc<[Policy]>) {
        let mut known = self.known.lock();
        if known.len() >= TABLES_MAX {
            known.clear();
        }
        known.insert(table, policies);
    }
}
