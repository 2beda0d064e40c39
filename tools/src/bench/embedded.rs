//! A folder as what is measured: rows of bytes through the embedded API, without a server.

use crate::bench::rows::RowName;
use crate::bench::store::{Client, Done, Failed, Figures, Store};
use anyhow::{Context, Result, anyhow};
use std::path::{Path, PathBuf};
use tabulith::error::Kind;
use tabulith::options::Durability;
use tabulith::{Db, If, Table};
use tabulith_results::result::About;

/// A database that is open.
pub(crate) struct Embedded {
    db: Db,
    dir: PathBuf,
}

impl Embedded {
    /// Opens a folder, or makes a database in it. `memory`: bytes that it may take.
    pub(crate) fn open(
        dir: &Path,
        durability: Durability,
        memory: Option<usize>,
    ) -> Result<Embedded> {
        let mut builder = Db::builder().durability(durability);
        if let Some(bytes) = memory {
            builder = builder.memory(bytes);
        }
        let db = builder.open(dir).with_context(|| format!("opening {}", dir.display()))?;
        Ok(Embedded { db, dir: dir.to_owned() })
    }
}

impl Store for Embedded {
    fn about(&self) -> About {
        About {
            kind: "folder".to_owned(),
            place: self.dir.display().to_string(),
            engine: format!("tabulith {}, embedded", env!("CARGO_PKG_VERSION")),
        }
    }

    fn create(&self, table: &str) -> Result<bool> {
        let table = self.db.table(table)?;
        Ok(table.cursor::<&[u8], &[u8]>(..)?.next()?.is_none())
    }

    fn drop_table(&self, table: &str) -> Result<()> {
        self.db.drop_table(table).map(drop).context("dropping a table")
    }

    fn client(&self, table: &str) -> Result<Box<dyn Client>> {
        Ok(Box::new(Direct { table: self.db.table(table)? }))
    }

    fn figures(&self) -> Option<Figures> {
        let stats = self.db.stats();
        Some(Figures {
            stall_us: stats.stalls.background_us(),
            blocks_read: stats.cache_misses,
            file_bytes: stats.levels.iter().map(|(_, bytes)| bytes).sum::<u64>() + stats.blob_bytes,
            debt_bytes: stats.compaction_debt_bytes,
        })
    }

    fn flush(&self) -> Result<()> {
        self.db.flush().context("flushing")
    }

    fn close(&self) -> Result<()> {
        self.db.close().with_context(|| format!("closing {}", self.dir.display()))
    }
}

struct Direct {
    table: Table,
}

fn failed(error: tabulith::Error) -> Failed {
    match error.kind() {
        Kind::Busy => Failed::Refused(error.to_string()),
        _ => Failed::Broken(anyhow!(error)),
    }
}

impl Client for Direct {
    fn put(&mut self, name: &RowName, value: &str) -> Done<()> {
        self.table.upsert(&name.partition, &name.row, value).map(drop).map_err(failed)
    }

    fn get(&mut self, name: &RowName) -> Done<bool> {
        let row = self.table.get(&name.partition, &name.row).map_err(failed)?;
        Ok(std::hint::black_box(row).is_some())
    }

    fn delete(&mut self, name: &RowName) -> Done<()> {
        self.table.delete(&name.partition, &name.row, If::Any).map(drop).map_err(failed)
    }

    fn scan(&mut self, from: &RowName, rows: usize) -> Done<u64> {
        let from = (from.partition.as_bytes(), from.row.as_bytes());
        let mut cursor = self.table.cursor(from..).map_err(failed)?;
        let mut seen = 0;
        while seen < rows as u64
            && let Some(row) = cursor.next().map_err(failed)?
        {
            std::hint::black_box(row.value().map_err(failed)?);
            seen += 1;
        }
        Ok(seen)
    }

    fn partition(&mut self, partition: &str) -> Done<u64> {
        let mut cursor = self.table.partition(partition).cursor::<&[u8]>(..).map_err(failed)?;
        let mut seen = 0;
        while let Some(row) = cursor.next().map_err(failed)? {
            std::hint::black_box(row.value().map_err(failed)?);
            seen += 1;
        }
        Ok(seen)
    }

    fn group(&mut self, rows: &[(RowName, &str)]) -> Done<()> {
        let Some((first, _)) = rows.first() else { return Ok(()) };
        let mut batch = self.table.partition(&first.partition).batch();
        for (name, value) in rows {
            batch = batch.upsert(&name.row, value);
        }
        batch.commit().map(drop).map_err(failed)
    }
}
