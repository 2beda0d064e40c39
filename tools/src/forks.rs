//! Copies of all data, each served beside the original on a port of its own, for tests of
//! applications.
//!
//! A copy shares its files with the original by hard links, so that it is there at once, however
//! much it holds; what either writes from then on is its own.

#![allow(clippy::disallowed_methods, reason = "folders of copies are removed in the end")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tabulith::Options;
use tabulith::db::Db;
use tabulith::table::store::TableStore;
use tabulith_server::testing;
use tabulith_server::{Accounts, Config, Running, Server};

/// Most copies at once: each has caches and threads of its own.
const FORKS_MAX: usize = 32;

/// Bytes of memory for a copy.
const FORK_MEMORY: usize = 64 << 20;

/// The copies of a database.
#[derive(Debug)]
pub(crate) struct Forks {
    db: Arc<Db>,
    /// Beside the data: hard links stay on one disk.
    dir: PathBuf,
    options: Options,
    config: Config,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    count: u64,
    forks: BTreeMap<u64, Fork>,
}

#[derive(Debug)]
struct Fork {
    running: Option<Running>,
    db: Arc<Db>,
    dir: PathBuf,
}

/// Nothing is left of a copy that ends.
impl Drop for Fork {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop();
        }
        if let Err(error) = self.db.close() {
            tracing::warn!(%error, "a copy did not close");
        }
        remove(&self.dir);
    }
}

impl Forks {
    /// No copies yet, of `db` in the folder `data`. Those that a process left that was killed are
    /// removed, and nothing else is.
    pub(crate) fn new(db: Arc<Db>, data: &Path, options: Options, config: Config) -> Forks {
        let data = data.canonicalize().unwrap_or_else(|_| data.to_owned());
        let mut name = data.file_name().unwrap_or_default().to_owned();
        name.push(".forks");
        let dir = data.with_file_name(name);
        remove_copies(&dir);
        let options = Options { memory: Some(FORK_MEMORY), ..options };
        Forks { db, dir, options, config, open: Mutex::default() }
    }

    /// Ends all copies.
    pub(crate) fn end_all(&self) {
        let forks =
            std::mem::take(&mut self.open.lock().unwrap_or_else(PoisonError::into_inner).forks);
        drop(forks);
        remove_copies(&self.dir);
    }

    fn make(&self, number: u64, accounts: &Accounts) -> Result<Fork, String> {
        let dir = self.dir.join(number.to_string());
        std::fs::create_dir_all(&self.dir).map_err(|error| error.to_string())?;
        self.db.checkpoint(&dir).map_err(|error| error.to_string())?;
        let opened = Db::builder().options(self.options.clone()).open(&dir);
        let db = Arc::new(opened.map_err(|error| error.to_string())?);
        let config = Config {
            listen: SocketAddr::new(self.config.listen.ip(), 0),
            accounts: accounts.clone(),
            ..self.config.clone()
        };
        let mut fork = Fork { running: None, db: db.clone(), dir };
        let running = Server::start(config, Arc::new(TableStore::new(db)));
        fork.running = Some(running.map_err(|error| error.to_string())?);
        Ok(fork)
    }
}

impl testing::Forks for Forks {
    fn fork(&self, accounts: &Accounts) -> Result<(u64, SocketAddr), String> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.forks.len() >= FORKS_MAX {
            return Err(format!("there are {FORKS_MAX} copies; DELETE /_/fork/NUMBER ends one"));
        }
        open.count += 1;
        let number = open.count;
        let fork = self.make(number, accounts)?;
        let addr = fork.running.as_ref().map(Running::addr).ok_or("it does not listen")?;
        open.forks.insert(number, fork);
        Ok((number, addr))
    }

    fn end(&self, number: u64) -> bool {
        let fork = self.open.lock().unwrap_or_else(PoisonError::into_inner).forks.remove(&number);
        fork.is_some()
    }
}

/// Removes what is named as copies are, and the folder where nothing else is in it.
fn remove_copies(dir: &Path) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.parse::<u64>().is_ok()) {
            remove(&entry.path());
        }
    }
    let _ = std::fs::remove_dir(dir);
}

fn remove(dir: &Path) {
    if let Err(error) = std::fs::remove_dir_all(dir)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(%error, "the folder of a copy stays: {}", dir.display());
    }
}
