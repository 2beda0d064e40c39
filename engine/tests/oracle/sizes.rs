//! How much tables and partitions take on the disk, and how much there is in memory: what must be
//! true of such numbers whatever was done before.

use crate::rows::{Difference, said};
use crate::store::Store;
use tabulith::error::Kind;
use tabulith::rows::Catalog;
use tabulith::{Db, Table};
use tabulith_testkit::seed::Rng;

/// A table that nobody else has, in no slot.
const WEIGHED: &str = "weighed";
const PARTITIONS: u8 = 4;
const ROWS: u8 = 30;
/// Of each value, which no codec makes smaller.
const VALUE_BYTES: usize = 400;

/// A part of the whole is not larger than the whole: of a table its partitions, of all files the
/// tables. What memory holds beside writers is within what those leave.
pub(crate) fn compare(store: &Store) -> Result<(), Difference> {
    let db = store.db();
    let before = files(db);
    let mut sum = 0;
    for info in db.tables("", None, usize::MAX).map_err(said)? {
        let Some(table) = db.find(&info.name).map_err(said)? else {
            return Err(format!("{} is listed and not there", info.name));
        };
        let whole = bytes_of(&table)?;
        sum += whole;
        if store.works_by_hand() {
            parts_are_smaller(&table, &["", "p", "partition-8", "p0"], whole)?;
        }
    }
    // Elsewhere merges go on meanwhile, and the space of what was erased comes back.
    let (after, all) = (files(db), before.bytes);
    if before == after && sum > all {
        return Err(format!("all tables together have {sum} bytes on the disk, all files {all}"));
    }
    let memory = db.stats().memory;
    let held = memory.index_and_filters.bytes + memory.blocks.bytes + memory.rows.bytes;
    match store.left_bytes() {
        Some(left) if held > left => Err(format!("{held} bytes where {left} are left: {memory:?}")),
        _ => Ok(()),
    }
}

/// Makes a table, fills and drops it: it takes nothing before, and then what its values take. Gives
/// the last commit that is known, and the table's number.
pub(crate) fn weigh(store: &Store, values: u64) -> Result<(u64, u32), Difference> {
    let db = store.db();
    let table = db.table(WEIGHED).map_err(said)?;
    let id = db.find_table(WEIGHED).map_err(said)?.map_or(0, |info| info.id.0);
    // The newest table comes after all others, so that no block of theirs is shared with it.
    let empty = bytes_of(&table)?;
    if empty != 0 {
        return Err(format!("a table without rows has {empty} bytes on the disk"));
    }
    let (mut rng, mut bytes) = (Rng::new(values), 0);
    let mut ingest = table.ingest().map_err(said)?;
    for pk in 0..PARTITIONS {
        for rk in 0..ROWS {
            let value = rng.bytes(VALUE_BYTES);
            bytes += value.len() as u64;
            ingest.add([pk], [rk], value).map_err(said)?;
        }
    }
    let ts = ingest.finish().map_err(said)?.0;
    let whole = bytes_of(&table)?;
    // By hand nothing else is in its files yet. A merge may have put a few rows beside those of
    // others.
    let least = if store.works_by_hand() { bytes } else { bytes / 4 };
    if whole < least {
        return Err(format!("{bytes} bytes of values have {whole} on the disk"));
    }
    let all = files(db).bytes;
    if store.works_by_hand() {
        if whole > all {
            return Err(format!("a table has {whole} bytes on the disk, all files {all}"));
        }
        let keys: Vec<_> = (0..PARTITIONS).map(|pk| [pk]).collect();
        parts_are_smaller(&table, &keys, whole)?;
    }
    db.drop_table(WEIGHED).map_err(said)?;
    match table.bytes_on_disk() {
        Err(error) if error.kind() == Kind::NotFound => Ok((ts, id)),
        outcome => Err(format!("a table that was dropped has {outcome:?} bytes on the disk")),
    }
}

fn parts_are_smaller(
    table: &Table,
    keys: &[impl AsRef<[u8]>],
    whole: u64,
) -> Result<(), Difference> {
    for pk in keys {
        let part = table.partition(pk).bytes_on_disk().map_err(said)?;
        if part > whole {
            let pk = pk.as_ref();
            return Err(format!(
                "partition {pk:?} has {part} bytes on the disk, its table {whole}"
            ));
        }
    }
    Ok(())
}

fn bytes_of(table: &Table) -> Result<u64, Difference> {
    table.bytes_on_disk().map_err(said)
}

/// The files of a moment, as far as figures tell them from others.
#[derive(PartialEq, Eq)]
struct Files {
    levels: Vec<(usize, u64)>,
    blobs: usize,
    bytes: u64,
}

fn files(db: &Db) -> Files {
    let stats = db.stats();
    let tables: u64 = stats.levels.iter().map(|(_, bytes)| bytes).sum();
    let bytes = tables + stats.blob_live_bytes;
    Files { levels: stats.levels, blobs: stats.blob_files, bytes }
}
