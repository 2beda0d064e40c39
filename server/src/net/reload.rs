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
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use zeroize::Zeroizing;

/// Reads the texts that a server's settings name and puts what they say in force.
#[derive(Debug)]
pub(crate) struct Reloader {
    config: Config,
    keyring: Arc<Keyring>,
    bearer: Option<Arc<Bearer>>,
    /// One reads at a time: what was read first must not replace what was read later.
    reloading: Mutex<()>,
}

impl Reloader {
    pub(crate) fn new(
        config: Config,
        keyring: Arc<Keyring>,
        bearer: Option<Arc<Bearer>>,
    ) -> Reloader {
        Reloader { config, keyring, bearer, reloading: Mutex::new(()) }
    }

    /// The names of the accounts that are served.
    pub(crate) fn account_names(&self) -> Vec<String> {
        self.keyring.accounts().names().map(str::to_owned).collect()
    }

    /// Reads every text. What is good counts, whatever is wrong with another one.
    ///
    /// Errors: all that does not read, in one line.
    pub(crate) fn reload(&self) -> io::Result<()> {
        let _reloading = self.reloading.lock();
        all([self.reload_accounts(), self.reload_keys()])
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

/// One error for all there are: who mends one of them should not have to wait for the next.
pub(crate) fn all(results: impl IntoIterator<Item = io::Result<()>>) -> io::Result<()> {
    let mut errors = results.into_iter().filter_map(Result::err);
    let Some(first) = errors.next() else { return Ok(()) };
    let join =
        |told: io::Error, next: io::Error| io::Error::new(told.kind(), format!("{told}; {next}"));
    Err(errors.fold(first, join))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::texts::TextSource;
    use crate::tokens::BearerConfig;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;

    /// The timer and a signal may come at once.
    #[test]
    fn what_was_read_first_does_not_replace_what_was_read_later() {
        let (reads, (begun, has_begun), (go_on, may_go_on)) =
            (AtomicUsize::new(0), channel(), channel::<()>());
        let may_go_on = Mutex::new(may_go_on);
        let source = TextSource::new("accounts", move || {
            if reads.fetch_add(1, Ordering::SeqCst) > 0 {
                return Ok("new1:YWJj".to_owned());
            }
            let _ = begun.send(());
            let _ = may_go_on.lock().recv();
            Ok("old1:YWJj".to_owned())
        });
        let config = Config { accounts_source: Some(source), ..Config::default() };
        let keyring = Arc::new(Keyring::new(Accounts::development()));
        let reloader = Reloader::new(config, keyring, None);
        std::thread::scope(|scope| {
            let early = scope.spawn(|| reloader.reload());
            has_begun.recv().expect("it reads");
            let late = scope.spawn(|| reloader.reload());
            // Where two may read at once, the later one is done by now.
            while !late.is_finished() && reloader.reloading.try_lock().is_some() {}
            drop(go_on);
            for done in [early, late] {
                done.join().expect("a thread").expect("accounts");
            }
        });
        assert_eq!(reloader.account_names(), ["new1"]);
    }

    /// Keys that did not read hid accounts that did not.
    #[test]
    fn all_that_does_not_read_is_told() {
        let source = |name: &str| TextSource::new(name, || Ok("nonsense".to_owned()));
        let bearer = BearerConfig::signed(source("keys.json"), Vec::new());
        let config = Config { accounts_source: Some(source("accounts.txt")), ..Config::default() };
        let keyring = Arc::new(Keyring::new(Accounts::development()));
        let reloader = Reloader::new(config, keyring, Some(Arc::new(Bearer::new(bearer))));
        let error = reloader.reload().expect_err("nothing reads").to_string();
        let (accounts, keys) = error.split_once("; ").expect("two of them");
        assert!(accounts.starts_with("accounts.txt: "), "{accounts}");
        assert!(keys.starts_with("keys.json: "), "{keys}");
    }
}
