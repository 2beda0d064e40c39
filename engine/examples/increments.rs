//! How many bytes an incremental backup copies after changes of 1 %: `increments DIR [MiB]`.
#![allow(clippy::print_stdout, reason = "the figures are what it is for")]

use std::path::Path;
use tabulith::backup::depot::Sharing;
use tabulith::backup::folder::Backups;
use tabulith::{Db, Durability, Table};

const VALUE_BYTES: u64 = 400;
const PARTITIONS: u64 = 1000;
const BATCH: u64 = 100;

/// Bytes that do not compress.
fn value(seed: u64) -> Vec<u8> {
    let mix = |n: u64| (n ^ (n >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let words = (0..VALUE_BYTES / 8).map(|word| mix(mix(seed.wrapping_mul(977) + word)));
    words.flat_map(u64::to_le_bytes).collect()
}

/// Writes rows of one partition after the other; `partitions` says which, and how many rows of
/// each.
fn write(
    table: &Table,
    partitions: impl Iterator<Item = u64>,
    rows: impl Fn() -> std::ops::Range<u64>,
    seed: u64,
) -> tabulith::Result<()> {
    for p in partitions {
        let partition = table.partition(format!("p{p:04}"));
        let all: Vec<u64> = rows().collect();
        for some in all.chunks(BATCH as usize) {
            let mut batch = partition.batch();
            for row in some {
                batch = batch.upsert(format!("r{row:08}"), value(seed ^ (p << 32) ^ row));
            }
            batch.commit()?;
        }
    }
    Ok(())
}

fn main() -> tabulith::Result<()> {
    let mut words = std::env::args().skip(1);
    let dir = words.next().unwrap_or_else(|| "increments".to_owned());
    let mib = words.next().and_then(|text| text.parse::<u64>().ok()).unwrap_or(64);
    let rows = ((mib << 20) / VALUE_BYTES / PARTITIONS).max(100);
    let one_percent = rows / 100;
    let data = Path::new(&dir).join("data");
    let db = Db::builder().durability(Durability::Buffered).open(&data)?;
    let table = db.table("t")?;
    let backups = Backups::at(Path::new(&dir).join("backups"));
    let backup = |what: &str| -> tabulith::Result<()> {
        let made = backups.create(&data, Sharing::Copy)?;
        let (new, all) = (made.brought.bytes, made.backup.bytes);
        let share = 100.0 * new as f64 / all as f64;
        println!("| {what} | {} | {} | {share:.2} % |", all >> 20, new >> 10);
        Ok(())
    };
    println!("| change | MiB of the database | KiB copied | share |\n|---|---|---|---|");
    write(&table, 0..PARTITIONS, || 0..rows, 1)?;
    db.compact()?;
    backup("the first backup")?;
    backup("nothing")?;
    write(&table, 0..PARTITIONS, || 0..one_percent, 2)?;
    backup("1 % of each partition, in the log")?;
    db.flush()?;
    backup("the same rows, flushed")?;
    write(&table, 0..PARTITIONS / 100, || 0..rows, 3)?;
    db.flush()?;
    backup("all rows of 1 % of the partitions")?;
    db.compact()?;
    backup("both merged with the rest: `compact`")?;
    // As many flushes as are merged at once.
    for round in 4..8 {
        write(&table, 0..PARTITIONS / 100, || 0..rows, round)?;
        db.flush()?;
    }
    db.settle()?;
    backup("the rows of 1 % of the partitions, four times, merged by themselves")?;
    for round in 8..12 {
        write(&table, 0..PARTITIONS, || 0..one_percent, round)?;
        db.flush()?;
    }
    db.settle()?;
    backup("1 % of each partition, four times, merged by themselves")?;
    db.close()
}
