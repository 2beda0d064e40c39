//! Rows gathered into batches: one partition each, at most 100 rows and 4 MiB, as the service
//! allows.
//!
//! The same input always gives the same batches; nothing here depends on time.

use std::collections::{HashMap, VecDeque};
use tabulith::table::entity::Entity;

/// Most rows of a batch: the service's bound.
pub(crate) const BATCH_ROWS_MAX: usize = 100;

/// Most bytes of a batch. The service takes 4 MiB; the rest is room for what stands around rows.
pub(crate) const BATCH_BYTES_MAX: usize = (4 << 20) - (128 << 10);

/// Bytes of headers and boundaries around one row of a batch, without its keys in the address.
const AROUND_ROW_BYTES: usize = 512;

/// Most bytes of a key's byte in the address: of a quote, which is doubled, and both are escaped.
const IN_ADDRESS_BYTES_MAX: usize = 6;

/// A batch that is not full goes out once the file is this many rows further: an interrupted import
/// resumes behind the oldest row that is not written, and a rare partition must not hold it back.
const BATCH_AGE_ROWS_MAX: u64 = 20_000;

/// Bytes of all unfinished batches; above it the oldest goes out.
const OPEN_BYTES_MAX: usize = 64 << 20;

/// A row ready to be written.
#[derive(Debug)]
pub(crate) struct Ready {
    /// Its place among the rows of the file, from 0.
    pub(crate) number: u64,
    /// Its line in the file.
    pub(crate) line: u64,
    /// The row.
    pub(crate) entity: Entity,
    /// Upper bound of its bytes as JSON.
    pub(crate) bytes: usize,
}

impl Ready {
    /// Its entity, to be put back.
    pub(crate) fn lend(&mut self) -> Entity {
        std::mem::replace(&mut self.entity, Entity::new("", ""))
    }
}

/// Rows of one partition.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// At least one row.
    pub(crate) rows: Vec<Ready>,
    bytes: usize,
}

/// Unfinished batches by partition.
#[derive(Debug, Default)]
pub(crate) struct Batcher {
    open: HashMap<String, Batch>,
    /// First row and partition of every open batch, oldest first; entries of batches that went
    /// out since are skipped.
    ages: VecDeque<(u64, String)>,
    bytes: usize,
}

impl Batcher {
    /// Takes a row and passes on the batches that are to go out now.
    pub(crate) fn push(&mut self, row: Ready, mut go: impl FnMut(Batch)) {
        let bytes = row_bytes(&row);
        let number = row.number;
        let partition = row.entity.partition_key.clone();
        if self.open.get(&partition).is_some_and(|open| open.bytes + bytes > BATCH_BYTES_MAX) {
            self.take(&partition).into_iter().for_each(&mut go);
        }
        let batch = self.open.entry(partition.clone()).or_default();
        if batch.rows.is_empty() {
            self.ages.push_back((number, partition.clone()));
        }
        batch.rows.push(row);
        batch.bytes += bytes;
        self.bytes += bytes;
        if batch.rows.len() == BATCH_ROWS_MAX {
            self.take(&partition).into_iter().for_each(&mut go);
        }
        while let Some(batch) = self.take_overdue(number) {
            go(batch);
        }
    }

    /// Passes on all that is left.
    pub(crate) fn finish(mut self, mut go: impl FnMut(Batch)) {
        while let Some((_, partition)) = self.ages.pop_front() {
            self.take(&partition).into_iter().for_each(&mut go);
        }
    }

    fn take(&mut self, partition: &str) -> Option<Batch> {
        let batch = self.open.remove(partition)?;
        self.bytes -= batch.bytes;
        Some(batch)
    }

    fn take_overdue(&mut self, now: u64) -> Option<Batch> {
        loop {
            let (first, partition) = self.ages.front()?;
            let open = self.open.get(partition);
            let current = open.is_some_and(|open| open.rows[0].number == *first);
            if current && now - first < BATCH_AGE_ROWS_MAX && self.bytes <= OPEN_BYTES_MAX {
                return None;
            }
            let (_, partition) = self.ages.pop_front()?;
            if current {
                return self.take(&partition);
            }
        }
    }
}

fn row_bytes(row: &Ready) -> usize {
    // The keys stand in the address too.
    let keys = row.entity.partition_key.len() + row.entity.row_key.len();
    row.bytes + IN_ADDRESS_BYTES_MAX * keys + AROUND_ROW_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: u64, partition: &str, bytes: usize) -> Ready {
        let entity = Entity::new(partition, number.to_string());
        Ready { number, line: number + 2, entity, bytes }
    }

    /// First row, partition and length of every batch that goes out.
    fn run(rows: impl Iterator<Item = Ready>, finish: bool) -> Vec<(u64, String, usize)> {
        let mut out = Vec::new();
        let mut note = |batch: Batch| {
            let first = &batch.rows[0];
            assert!(
                batch.rows.iter().all(|row| row.entity.partition_key == first.entity.partition_key)
            );
            assert!(batch.bytes <= BATCH_BYTES_MAX || batch.rows.len() == 1);
            out.push((first.number, first.entity.partition_key.clone(), batch.rows.len()));
        };
        let mut batcher = Batcher::default();
        for row in rows {
            batcher.push(row, &mut note);
        }
        if finish {
            batcher.finish(&mut note);
        }
        out
    }

    #[test]
    fn a_partition_goes_out_every_hundred_rows_and_at_the_end() {
        let rows = (0..450).map(|n| row(n, if n % 2 == 0 { "even" } else { "odd" }, 10));
        let lengths: Vec<usize> =
            run(rows, true).into_iter().map(|(_, _, length)| length).collect();
        assert_eq!(lengths, [100, 100, 100, 100, 25, 25]);
    }

    #[test]
    fn large_rows_make_short_batches() {
        let rows = (0..5).map(|n| row(n, "p", 1_500_000));
        let lengths: Vec<usize> =
            run(rows, true).into_iter().map(|(_, _, length)| length).collect();
        assert_eq!(lengths, [2, 2, 1]);
    }

    /// Batches of them were larger than the service takes.
    #[test]
    fn quotes_in_keys_count_as_they_stand_in_the_address() {
        let quotes = "'".repeat(500);
        let rows = (0..100).map(|n| {
            let mut row = row(n, &quotes, 37_000);
            row.entity.row_key.insert_str(0, &quotes);
            row
        });
        let lengths: Vec<usize> =
            run(rows, true).into_iter().map(|(_, _, length)| length).collect();
        assert_eq!(lengths, [93, 7]);
    }

    #[test]
    fn a_rare_partition_does_not_wait_for_the_end() {
        let rows = (0..=BATCH_AGE_ROWS_MAX).map(|n| {
            row(n, if n == 0 { "rare".to_owned() } else { format!("p{}", n % 3) }.as_str(), 10)
        });
        let out = run(rows, false);
        assert!(out.contains(&(0, "rare".to_owned(), 1)), "went out once it was old");
    }

    #[test]
    fn many_partitions_do_not_fill_memory() {
        let rows = (0..100).map(|n| row(n, &n.to_string(), 1 << 20));
        let out = run(rows, false);
        assert!(out.len() >= 36, "{} of 100 MiB went out", out.len());
        assert_eq!(out[0].0, 0, "the oldest first");
    }
}
