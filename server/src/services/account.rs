//! An account's own: its service properties, and all that it has, removed at once.

use crate::auth::access::Access;
use crate::auth::verify::Grant;
use crate::error::{INTERNAL_ERROR, WireError};
use crate::limits::PAGE_ENTITIES_MAX;
use crate::properties::document;
use crate::properties::model::{Given, Properties};
use crate::refusal::refusal;
use crate::services::base::{Services, Store};
use std::sync::{Arc, PoisonError};
use tabulith::table::error::TableError;
use tabulith::table::name::AccountName;

/// The name of the setting that holds an account's service properties, as the XML that shows them.
const PROPERTIES_SETTING: &str = "service-properties";

impl<S: Store> Services<S> {
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
}
