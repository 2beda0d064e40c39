//! Opens an engine by its name.

use crate::adapters::{btreemap, fjall, lmdb, ours, redb, skiplist, sled, surrealkv};
#[cfg(feature = "rocksdb")]
use crate::adapters::{rocksdb, rocksdb_conditional};
use crate::engine::Engine;
use crate::settings::{LARGE_CACHE_TIMES, Settings};
use anyhow::{Context as _, Result, bail};
use std::path::Path;

/// Opens or makes the database of the engine called `name` in `dir`, which is made where it is not
/// there.
pub fn open(name: &str, dir: &Path, settings: &Settings) -> Result<Box<dyn Engine>> {
    std::fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
    let opened = match name {
        "ours" | "ours-raw" | "ours-mapped" => ours::open(dir, settings, ours::mode_of(name)),
        "ours-large" => {
            let cache_bytes = settings.cache_bytes * LARGE_CACHE_TIMES;
            ours::open(dir, &Settings { cache_bytes, ..settings.clone() }, ours::mode_of(name))
        }
        #[cfg(feature = "rocksdb")]
        "rocksdb" if settings.conditional => rocksdb_conditional::open(dir, settings),
        #[cfg(feature = "rocksdb")]
        "rocksdb" => rocksdb::open(dir, settings, true),
        #[cfg(feature = "rocksdb")]
        "rocksdb-raw" => rocksdb::open(dir, settings, false),
        "fjall" if settings.conditional => fjall::open_conditional(dir, settings),
        "fjall" => fjall::open(dir, settings, true),
        "fjall-raw" => fjall::open(dir, settings, false),
        "surrealkv" => surrealkv::open(dir, settings),
        "redb" => redb::open(dir, settings),
        "lmdb" => lmdb::open(dir, settings),
        "sled" => sled::open(dir, settings),
        "skiplist" => Ok(skiplist::open()),
        "btreemap" => Ok(btreemap::open()),
        name => bail!("there is no engine called {name}"),
    };
    opened.with_context(|| format!("opening {name} in {}", dir.display()))
}
