//! The reference model: an ordered map that answers as the row store must. No files, no threads,
//! nothing shared with the engine.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

/// PartitionKey and RowKey, the value under them, and when it is gone, if it ever is.
pub type NewRow = ((Vec<u8>, Vec<u8>), Vec<u8>, Option<u64>);

/// Where a row is: table, PartitionKey, RowKey, compared in that order as bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The table's number.
    pub table: u32,
    /// The PartitionKey.
    pub pk: Vec<u8>,
    /// The RowKey.
    pub rk: Vec<u8>,
}

impl Place {
    /// A row's place.
    pub fn new(table: u32, pk: &[u8], rk: &[u8]) -> Place {
        Place { table, pk: pk.to_vec(), rk: rk.to_vec() }
    }
}

/// What a row holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The commit that wrote it.
    pub ts: u64,
    /// Its bytes.
    pub value: Vec<u8>,
    /// When it is gone; the end of time for one that stays.
    pub expires: u64,
}

/// One change of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// Writes the row of this RowKey.
    Put(Vec<u8>, Vec<u8>),
    /// Writes it, to be gone from a time on.
    PutUntil(Vec<u8>, Vec<u8>, u64),
    /// Removes it; nothing where there is none.
    Delete(Vec<u8>),
    /// Removes the rows between two RowKeys, those that the batch wrote before included.
    DeleteRange(Bound<Vec<u8>>, Bound<Vec<u8>>),
}

/// A row with its place.
#[derive(Debug)]
struct Row {
    place: Place,
    stored: Stored,
}

/// The rows of a partition by RowKey, and the partitions of a table. Snapshots share what has not
/// changed since.
type Rows = BTreeMap<Arc<[u8]>, Arc<Row>>;
type Partitions = BTreeMap<Arc<[u8]>, Arc<Rows>>;

/// The model. A clone is a snapshot: it costs little, and a change after it copies one partition's
/// list of rows, not the rows.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    tables: BTreeMap<u32, Arc<Partitions>>,
    last_ts: u64,
    now: u64,
    /// Of a table: its time to live, and up to which commit its rows are gone for good.
    lifetimes: BTreeMap<u32, (Option<u64>, u64)>,
}

impl Oracle {
    /// An empty store.
    pub fn new() -> Oracle {
        Oracle::default()
    }

    /// The row, if there is one.
    pub fn get(&self, table: u32, pk: &[u8], rk: &[u8]) -> Option<&Stored> {
        let row = self.tables.get(&table)?.get(pk)?.get(rk)?;
        Some(&row.stored).filter(|stored| self.shows(table, stored))
    }

    /// Whether a row is there by the present time.
    fn shows(&self, table: u32, stored: &Stored) -> bool {
        self.now < stored.expires && stored.ts > self.outlived_to(table)
    }

    /// Rows of commits up to here have outlived their table's time to live.
    fn outlived_to(&self, table: u32) -> u64 {
        let Some((ttl, cutoff)) = self.lifetimes.get(&table) else { return 0 };
        ttl.map_or(*cutoff, |ttl| self.now.saturating_sub(ttl).max(*cutoff))
    }

    /// Sets how long rows of a table live, as of the present time.
    pub fn set_ttl(&mut self, table: u32, ttl: Option<u64>) {
        self.lifetimes.insert(table, (ttl, self.outlived_to(table)));
    }

    /// The time by which rows have expired.
    pub fn turn_clock(&mut self, now: u64) {
        self.now = now;
    }

    /// All changes of one commit in one partition, in their order: a later one wins.
    ///
    /// Panics where `ts` does not rise: the store gave a timestamp twice.
    pub fn commit(&mut self, table: u32, pk: &[u8], ts: u64, changes: &[Change]) {
        self.next(ts);
        let rows = self.partition(table, pk);
        for change in changes {
            match change {
                Change::Put(rk, value) => put(rows, (table, pk, rk), value, ts, u64::MAX),
                Change::PutUntil(rk, value, expires) => {
                    put(rows, (table, pk, rk), value, ts, *expires);
                }
                Change::Delete(rk) => drop(rows.remove(rk.as_slice())),
                Change::DeleteRange(from, to) => {
                    let range = (from.as_ref(), to.as_ref());
                    rows.retain(|_, row| !RangeBounds::<Vec<u8>>::contains(&range, &row.place.rk));
                }
            }
        }
    }

    /// Rows of several partitions, by one commit.
    ///
    /// Panics where `ts` does not rise.
    pub fn ingest(&mut self, table: u32, ts: u64, new: &[NewRow]) {
        self.next(ts);
        for ((pk, rk), value, expires) in new {
            let expires = expires.unwrap_or(u64::MAX);
            put(self.partition(table, pk), (table, pk, rk), value, ts, expires);
        }
    }

    /// Every row of a table goes, by one commit.
    ///
    /// Panics where `ts` does not rise.
    pub fn truncate(&mut self, table: u32, ts: u64) {
        self.next(ts);
        self.drop_table(table);
    }

    /// Every row of a table goes.
    pub fn drop_table(&mut self, table: u32) {
        self.tables.remove(&table);
    }

    fn next(&mut self, ts: u64) {
        assert!(ts > self.last_ts, "commit {ts} after {}", self.last_ts);
        self.last_ts = ts;
    }

    /// The rows of a partition, to be changed.
    fn partition(&mut self, table: u32, pk: &[u8]) -> &mut Rows {
        let partitions = Arc::make_mut(self.tables.entry(table).or_default());
        if !partitions.contains_key(pk) {
            partitions.insert(pk.into(), Arc::default());
        }
        Arc::make_mut(partitions.get_mut(pk).expect("it was put there"))
    }

    /// The rows of a table in order, from either end.
    pub fn table(&self, table: u32) -> impl DoubleEndedIterator<Item = (&Place, &Stored)> {
        self.between(table, Bound::Unbounded, Bound::Unbounded)
    }

    /// The rows of a table whose (PartitionKey, RowKey) lies between the bounds, from either end.
    pub fn between(
        &self,
        table: u32,
        from: Bound<(&[u8], &[u8])>,
        to: Bound<(&[u8], &[u8])>,
    ) -> impl DoubleEndedIterator<Item = (&Place, &Stored)> {
        // BTreeMap::range panics on a range that ends before it starts; such a range is empty.
        let partitions = self.tables.get(&table).filter(|_| !is_backward(&from, &to));
        let whole = |bound: Bound<(&[u8], &[u8])>| -> Bound<Arc<[u8]>> {
            match bound {
                Bound::Unbounded => Bound::Unbounded,
                Bound::Included((pk, _)) | Bound::Excluded((pk, _)) => Bound::Included(pk.into()),
            }
        };
        let partitions = partitions.map(|partitions| partitions.range((whole(from), whole(to))));
        let rows = partitions.into_iter().flatten().flat_map(move |(pk, rows)| {
            // A bound cuts the partition that it is in; those between are whole.
            let within = |bound: Bound<(&'_ [u8], &'_ [u8])>| -> Bound<Arc<[u8]>> {
                match bound {
                    Bound::Included((own, rk)) if *own == **pk => Bound::Included(rk.into()),
                    Bound::Excluded((own, rk)) if *own == **pk => Bound::Excluded(rk.into()),
                    _ => Bound::Unbounded,
                }
            };
            rows.range((within(from), within(to)))
        });
        let (now, outlived_to) = (self.now, self.outlived_to(table));
        rows.map(|(_, row)| (&row.place, &row.stored))
            .filter(move |(_, stored)| now < stored.expires && stored.ts > outlived_to)
    }

    /// The rows of a partition whose RowKey lies between the bounds, in order.
    pub fn rows(
        &self,
        table: u32,
        pk: &[u8],
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> impl DoubleEndedIterator<Item = (&Place, &Stored)> {
        let is_forward = match (from, to) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => true,
            (Bound::Included(a), Bound::Included(b)) => a <= b,
            (Bound::Included(a) | Bound::Excluded(a), Bound::Excluded(b) | Bound::Included(b)) => {
                a < b
            }
        };
        let rows = self.tables.get(&table).and_then(|partitions| partitions.get(pk));
        let rows = rows.filter(|_| is_forward).map(|rows| rows.range::<[u8], _>((from, to)));
        let (now, outlived_to) = (self.now, self.outlived_to(table));
        rows.into_iter()
            .flatten()
            .map(|(_, row)| (&row.place, &row.stored))
            .filter(move |(_, stored)| now < stored.expires && stored.ts > outlived_to)
    }

    /// How many rows there are, expired ones included.
    pub fn len(&self) -> usize {
        self.tables.values().flat_map(|table| table.values()).map(|rows| rows.len()).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The newest commit.
    pub fn last_ts(&self) -> u64 {
        self.last_ts
    }
}

fn put(rows: &mut Rows, (table, pk, rk): (u32, &[u8], &[u8]), value: &[u8], ts: u64, expires: u64) {
    let place = Place::new(table, pk, rk);
    let stored = Stored { ts, value: value.to_vec(), expires };
    rows.insert(rk.into(), Arc::new(Row { place, stored }));
}

fn is_backward(start: &Bound<(&[u8], &[u8])>, end: &Bound<(&[u8], &[u8])>) -> bool {
    match (start, end) {
        (Bound::Included(a), Bound::Included(b)) => a > b,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Excluded(b) | Bound::Included(b)) => {
            a >= b
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(rk: &str, value: &str) -> Change {
        Change::Put(rk.into(), value.into())
    }

    fn row_keys<'a>(rows: impl Iterator<Item = (&'a Place, &'a Stored)>) -> String {
        rows.map(|(place, _)| String::from_utf8_lossy(&place.rk)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_snapshot_keeps_what_it_saw() {
        let mut oracle = Oracle::new();
        oracle.commit(1, b"p", 5, &[put("a", "1"), put("b", "2")]);
        let before = oracle.clone();
        oracle.commit(1, b"p", 6, &[put("a", "3"), Change::Delete(b"b".into()), put("c", "4")]);
        assert_eq!(row_keys(before.table(1)), "a b");
        assert_eq!(row_keys(oracle.table(1)), "a c");
        assert_eq!(
            before.get(1, b"p", b"a"),
            Some(&Stored { ts: 5, value: b"1".into(), expires: u64::MAX })
        );
        assert_eq!(
            oracle.get(1, b"p", b"a"),
            Some(&Stored { ts: 6, value: b"3".into(), expires: u64::MAX })
        );
    }

    #[test]
    fn a_range_goes_with_what_its_batch_wrote_before_and_without_what_it_writes_later() {
        let mut oracle = Oracle::new();
        oracle.commit(1, b"p", 1, &[put("a", ""), put("b", ""), put("c", "")]);
        oracle.commit(1, b"q", 2, &[put("b", "")]);
        let range = Change::DeleteRange(Bound::Excluded(b"a".to_vec()), Bound::Unbounded);
        oracle.commit(1, b"p", 3, &[put("d", ""), range, put("e", "")]);
        assert_eq!(row_keys(oracle.table(1)), "a e b");
        oracle.truncate(1, 4);
        assert!(oracle.is_empty() && oracle.last_ts() == 4);
    }

    #[test]
    fn ranges_are_within_one_table_and_go_both_ways() {
        let mut oracle = Oracle::new();
        oracle.commit(1, b"p", 1, &[put("a", ""), put("b", ""), put("c", "")]);
        oracle.commit(1, b"q", 2, &[put("d", "")]);
        oracle.commit(2, b"p", 3, &[put("x", "")]);
        oracle.commit(u32::MAX, b"p", 4, &[put("y", "")]);
        assert_eq!(row_keys(oracle.table(1)), "a b c d");
        assert_eq!(row_keys(oracle.table(1).rev()), "d c b a");
        assert_eq!(row_keys(oracle.table(u32::MAX)), "y");
        let key = |pk: &'static str, rk: &'static str| (pk.as_bytes(), rk.as_bytes());
        let open =
            oracle.between(1, Bound::Excluded(key("p", "a")), Bound::Included(key("q", "d")));
        assert_eq!(row_keys(open), "b c d");
        let none = oracle.between(1, Bound::Included(key("q", "")), Bound::Excluded(key("p", "")));
        assert_eq!(row_keys(none), "");
        oracle.drop_table(1);
        assert_eq!(oracle.len(), 2);
    }

    #[test]
    fn rows_of_a_partition_are_those_of_the_table_between_the_same_keys() {
        let mut oracle = Oracle::new();
        for (ts, pk) in (1..).zip([b"p", b"q"]) {
            oracle.commit(1, pk, ts, &[put("a", ""), put("b", ""), put("c", "")]);
        }
        let bounds =
            |key: &'static str| [Bound::Included(key.as_bytes()), Bound::Excluded(key.as_bytes())];
        for from in bounds("a").into_iter().chain(bounds("b")).chain(bounds("c")) {
            for to in bounds("a").into_iter().chain(bounds("b")).chain(bounds("c")) {
                let place = |bound: Bound<&'static [u8]>| bound.map(|rk| (&b"q"[..], rk));
                let rows = row_keys(oracle.rows(1, b"q", from, to));
                assert_eq!(rows, row_keys(oracle.between(1, place(from), place(to))));
            }
        }
        let open = oracle.rows(1, b"p", Bound::Unbounded, Bound::Excluded(b"c"));
        assert_eq!(row_keys(open), "a b");
        assert_eq!(row_keys(oracle.rows(2, b"p", Bound::Unbounded, Bound::Unbounded)), "");
    }

    #[test]
    fn a_row_expires_and_shows_nothing_older() {
        let mut oracle = Oracle::new();
        oracle.commit(1, b"p", 1, &[put("a", "old"), put("b", "")]);
        oracle.commit(1, b"p", 2, &[Change::PutUntil(b"a".into(), b"new".into(), 10)]);
        oracle.turn_clock(9);
        let before = oracle.clone();
        oracle.turn_clock(10);
        assert_eq!(
            (row_keys(before.table(1)), row_keys(oracle.table(1))),
            ("a b".into(), "b".into())
        );
        assert!(before.get(1, b"p", b"a").is_some() && oracle.get(1, b"p", b"a").is_none());
    }

    #[test]
    fn what_outlived_its_table_stays_gone() {
        let mut oracle = Oracle::new();
        oracle.commit(1, b"p", 100, &[put("a", "")]);
        oracle.commit(1, b"p", 150, &[put("b", "")]);
        oracle.turn_clock(160);
        oracle.set_ttl(1, Some(50));
        assert_eq!(row_keys(oracle.table(1)), "b");
        oracle.turn_clock(200);
        oracle.set_ttl(1, Some(1000));
        assert_eq!(row_keys(oracle.table(1)), "");
        oracle.set_ttl(1, None);
        assert!(oracle.get(1, b"p", b"b").is_none());
    }

    #[test]
    #[should_panic(expected = "commit 5 after 5")]
    fn a_timestamp_given_twice_is_noticed() {
        let mut oracle = Oracle::new();
        oracle.commit(1, b"p", 5, &[]);
        oracle.commit(1, b"p", 5, &[]);
    }
}
