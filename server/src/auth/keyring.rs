//! The accounts that are served now: replaced as a whole while requests are served.

use crate::config::Accounts;
use arc_swap::ArcSwap;
use std::sync::Arc;

/// Accounts and their keys as of now.
#[derive(Debug)]
pub struct Keyring(ArcSwap<Accounts>);

impl Keyring {
    /// One with these accounts.
    pub fn new(accounts: Accounts) -> Keyring {
        Keyring(ArcSwap::from_pointee(accounts))
    }

    /// The accounts.
    pub fn accounts(&self) -> Arc<Accounts> {
        self.0.load_full()
    }

    /// Serves these accounts and no others from the next request on. A key that is not among them
    /// is dead at once, also for requests that were admitted and whose bodies are still coming.
    pub fn replace(&self, accounts: Accounts) {
        self.0.store(Arc::new(accounts));
    }
}
