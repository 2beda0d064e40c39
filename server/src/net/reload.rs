//! What is read anew while the server serves: accounts, and public keys of whoever issues bearer
//! tokens.
//!
//! Promise: a text that cannot be read, or does not parse, changes nothing.

use crate::auth::bearer::Bearer;
use crate::auth::jwks::Jwks;
use crate::auth::keyring::Keyring;
use crate::config::{Accounts, Config, ConfigError};
use crate::limits::RELOAD_EVERY;
use crate::tokens::TokenKeys;
use std::io;
use std::sync::Arc;
use zeroize::Zeroizing;

/// Reads the texts that a server's settings name and puts what they say in force.
#[derive(Debug)]
pub(crate) struct Reloader {
    config: Config,
    keyring: Arc<Keyring>,
    bearer: Option<Arc<Bearer>>,
}

impl Reloader {
    pub(crate) fn new(
        config: Config,
        keyring: Arc<Keyring>,
        bearer: Option<Arc<Bearer>>,
    ) -> Reloader {
        Reloader { config, keyring, bearer }
    }

    /// The names of the accounts that are served.
    pub(crate) fn account_names(&self) -> Vec<String> {
        self.keyring.accounts().names().map(str::to_owned).collect()
    }

    /// Reads every text. What is good counts, whatever is wrong with another one.
    pub(crate) fn reload(&self) -> io::Result<()> {
        let accounts = self.reload_accounts();
        self.reload_keys().and(accounts)
    }

    /// Serves these accounts and no others.
    pub(crate) fn set_accounts(&self, accounts: Accounts) -> Result<(), ConfigError> {
        self.config.check_accounts(&accounts)?;
        self.keyring.replace(accounts);
        Ok(())
    }

    fn reload_accounts(&self) -> io::Result<()> {
        let Some(source) = &self.config.accounts_source else { return Ok(()) };
        let text = Zeroizing::new(source.read()?);
        let accounts = Accounts::parse(text.trim());
        let set = accounts.and_then(|accounts| self.set_accounts(accounts));
        set.map_err(|error| source.invalid(&error))
    }

    fn reload_keys(&self) -> io::Result<()> {
        let Some(bearer) = &self.bearer else { return Ok(()) };
        let TokenKeys::Jwks(source) = &bearer.config().keys else { return Ok(()) };
        let keys = Jwks::parse(&source.read()?).map_err(|error| source.invalid(&error))?;
        bearer.replace_keys(keys);
        Ok(())
    }

    /// Reads the texts every minute for as long as it is polled.
    pub(crate) async fn run(self: Arc<Reloader>) {
        let mut ticks = tokio::time::interval(RELOAD_EVERY);
        ticks.tick().await; // The first one is now, and now they have just been read.
        loop {
            ticks.tick().await;
            let own = self.clone();
            let read = tokio::task::spawn_blocking(move || own.reload()).await;
            if let Ok(Err(error)) = read {
                tracing::warn!(%error, "what was read before stays in force");
            }
        }
    }
}
