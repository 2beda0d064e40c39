//! An account's own: its service properties, and all that it has, removed at once.

use crate::auth::access::Access;
use crate::auth::verify::Grant;
use crate::error::{INTERNAL_ERROR, WireError};
use crate::limits::PAGE_ENTITIES_MAX;
use crate::properties::document;
use crate::properties::model::{Given, Properties};
use crate::refusal::{reached, refusal};
use crate::remembered::Begun;
use crate::services::base::{Services, Store};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tabulith::options::Reach;
use tabulith::table::error::TableError;
use tabulith::table::name::AccountName;

/// The name of the setting that holds an account's service properties, as the XML that shows them.
const PROPERTIES_SETTING: &str = "service-properties";

/// How long properties that did not read are not read again for the rules for browsers, which every
/// request asks for.
const UNREAD_FOR: Duration = Duration::from_secs(1);

impl<S: Store> Services<S> {
    /// Service properties of the grant's account.
    pub fn properties(&self, grant: &Grant) -> Result<Arc<Properties>, WireError> {
        grant.check(Access::ReadService)?;
        match self.remembered_properties(grant.account()) {
            Ok(properties) => Ok(properties),
            Err((begun, _)) => {
                let read = self.read_properties(grant.account(), begun, Reach::Disk)?;
                read.ok_or(INTERNAL_ERROR)
            }
        }
    }

    /// Lays properties over those of the grant's account; returns once that is durable.
    pub fn set_properties(&self, grant: &Grant, given: Given) -> Result<(), WireError> {
        grant.check(Access::WriteService)?;
        let account = grant.account();
        let _changing = self.changing_properties.lock().unwrap_or_else(PoisonError::into_inner);
        let own = self.stored_properties(account, Reach::Disk)?.ok_or(INTERNAL_ERROR)?;
        let properties = own.with(given);
        let text = document::write(&properties);
        let set = self.tables.set_account_setting(account, PROPERTIES_SETTING, Some(&text));
        let properties = set.is_ok().then(|| Ok(Arc::new(properties)));
        self.properties.change(account.as_str().to_owned(), properties);
        set.map_err(refusal)
    }

    /// Fails unless the grant allows to look at stats.
    pub fn check_stats(&self, grant: &Grant) -> Result<(), WireError> {
        grant.check(Access::ReadStats)
    }

    /// The rules for browsers of an account that is served. Who cannot read them has none. With
    /// [`Reach::Memory`] nothing where only the disk can tell.
    pub fn cors_rules(&self, account: &AccountName, reach: Reach) -> Option<Arc<Properties>> {
        match self.remembered_properties(account) {
            Ok(properties) => Some(properties),
            Err((_, until)) if self.clock.steady() < until => Some(Arc::default()),
            Err((begun, _)) => {
                let read = self.read_properties(account, begun, reach);
                read.unwrap_or_else(|_| Some(Arc::default()))
            }
        }
    }

    /// What is remembered of an account's properties; else leave to read them, and until when that
    /// is of no use.
    fn remembered_properties(
        &self,
        account: &AccountName,
    ) -> Result<Arc<Properties>, (Begun, Duration)> {
        match self.properties.get(account.as_str()) {
            Ok(Ok(properties)) => Ok(properties),
            Ok(Err(until)) => Err((self.properties.begin(), until)),
            Err(begun) => Err((begun, Duration::ZERO)),
        }
    }

    /// Reads an account's properties, and remembers them or that they did not read.
    fn read_properties(
        &self,
        account: &AccountName,
        begun: Begun,
        reach: Reach,
    ) -> Result<Option<Arc<Properties>>, WireError> {
        let stored = self.stored_properties(account, reach).map(|own| own.map(Arc::new));
        let known = match &stored {
            Ok(Some(properties)) => Ok(properties.clone()),
            Ok(None) => return stored,
            Err(_) => Err(self.clock.steady().saturating_add(UNREAD_FOR)),
        };
        self.properties.keep(begun, account.as_str().to_owned(), known);
        stored
    }

    /// Of an account that has set none the default ones; nothing where memory alone was asked and
    /// only the disk can tell.
    fn stored_properties(
        &self,
        account: &AccountName,
        reach: Reach,
    ) -> Result<Option<Properties>, WireError> {
        let text = self.tables.account_setting_within(account, PROPERTIES_SETTING, reach);
        let Some(text) = reached(reach, text)? else { return Ok(None) };
        let Some(text) = text else { return Ok(Some(Properties::default())) };
        match document::read(&text) {
            Ok(given) => Ok(Some(Properties::default().with(given))),
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
