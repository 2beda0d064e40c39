//! The accounts that are served now: replaced as a whole while requests are served.

use crate::config::{Accounts, ConfigError};
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use std::sync::Arc;

/// Accounts and their keys as of now.
#[derive(Debug)]
pub struct Keyring(ArcSwap<Accounts>, Mutex<()>);

impl Keyring {
    /// One with these accounts.
    pub fn new(accounts: Accounts) -> Keyring {
        Keyring(ArcSwap::from_pointee(accounts), Mutex::new(()))
    }

    /// The accounts.
    pub fn accounts(&self) -> Arc<Accounts> {
        self.0.load_full()
    }

    /// Serves these accounts and no others from the next request on. A key that is not among them
    /// is dead at once, also for requests that were admitted and whose bodies are still coming.
    pub fn replace(&self, accounts: Accounts) {
        let _changing = self.1.lock();
        self.0.store(Arc::new(accounts));
    }

    /// Serves what `change` makes of the accounts, if it makes anything; nobody else changes them
    /// meanwhile.
    pub fn update(
        &self,
        change: impl FnOnce(&Accounts) -> Result<Accounts, ConfigError>,
    ) -> Result<(), ConfigError> {
        let _changing = self.1.lock();
        self.0.store(Arc::new(change(&self.0.load())?));
        Ok(())
    }
}
