//! Opens databases on a simulated disk, where nothing works but by hand.

use crate::look::{FirstByte, is_of_entities};
use crate::stop::Stop;
use std::path::Path;
use std::sync::Arc;
use tabulith::db::Db;
use tabulith::env::clock::ManualClock;
use tabulith::env::jobs::ByHand;
use tabulith::options::Options;
use tabulith::rows::{Catalog, RowStore};
use tabulith::vfs::api::Vfs;

pub(crate) const DIR: &str = "/db";

/// September 2023, in ticks. Every run begins here: after a crash the clock has always gone back.
pub(crate) const START_TICKS: u64 = 16_950_000_000_000_000;

/// Opens the database on a disk, for reading it.
pub(crate) fn open_on(vfs: Arc<dyn Vfs>, options: &Options) -> Result<Db, Stop> {
    Ok(open_in(Path::new(DIR), vfs, options)?)
}

/// Opens a folder of a disk, for reading it.
pub(crate) fn open_in(dir: &Path, vfs: Arc<dyn Vfs>, options: &Options) -> tabulith::Result<Db> {
    let clock = Arc::new(ManualClock::at(START_TICKS));
    Db::builder().options(options.clone()).parts(vfs, clock, Arc::new(ByHand)).open(dir)
}

/// Opens the database for work.
pub(crate) fn open_with(
    vfs: &Arc<dyn Vfs>,
    options: &Options,
    clock: &Arc<ManualClock>,
) -> Result<Db, Stop> {
    let (vfs, clock) = (Arc::clone(vfs), Arc::clone(clock));
    let builder = Db::builder().options(options.clone()).parts(vfs, clock, Arc::new(ByHand));
    let db = builder.open(DIR)?;
    if db.tables("", None, usize::MAX)?.iter().any(|table| !is_of_entities(&table.name)) {
        track_rows(&db);
    }
    Ok(db)
}

/// Has zones kept of plain rows. Where there are entities alone, whoever asks for them first has
/// theirs kept.
pub(crate) fn track_rows(db: &Db) {
    db.track(Arc::new(FirstByte));
}
