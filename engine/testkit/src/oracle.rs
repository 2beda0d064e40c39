//! The reference model: an ordered map that answers as the row store must. No files, no threads,
//! nothing shared with the engine.

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
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// The model. A clone is a snapshot: it costs nothing until the original changes.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    rows: Arc<BTreeMap<Place, Stored>>,
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
        let stored = self.rows.get(&Place::new(table, pk, rk));
        stored.filter(|stored| self.shows(table, stored))
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
        assert!(ts > self.last_ts, "commit {ts} after {}", self.last_ts);
        self.last_ts = ts;
        let rows = Arc::make_mut(&mut self.rows);
        for change in changes {
            match change {
                Change::Put(rk, value) => {
                    let stored = Stored { ts, value: value.clone(), expires: u64::MAX };
                    rows.insert(Place::new(table, pk, rk), stored);
                }
                Change::PutUntil(rk, value, expires) => {
                    let stored = Stored { ts, value: value.clone(), expires: *expires };
                    rows.insert(Place::new(table, pk, rk), stored);
                }
                Change::Delete(rk) => {
                    rows.remove(&Place::new(table, pk, rk));
                }
                Change::DeleteRange(from, to) => {
                    let range = (from.as_ref(), to.as_ref());
                    rows.retain(|place, _| {
                        (place.table, place.pk.as_slice()) != (table, pk)
                            || !RangeBounds::<Vec<u8>>::contains(&range, &place.rk)
                    });
                }
            }
        }
    }

    /// Rows of several partitions, by one commit.
    ///
    /// Panics where `ts` does not rise.
    pub fn ingest(&mut self, table: u32, ts: u64, new: &[NewRow]) {
        assert!(ts > self.last_ts, "commit {ts} after {}", self.last_ts);
        self.last_ts = ts;
        let rows = Arc::make_mut(&mut self.rows);
        for ((pk, rk), value, expires) in new {
            let expires = expires.unwrap_or(u64::MAX);
            let stored = Stored { ts, value: value.clone(), expires };
            rows.insert(Place::new(table, pk, rk), stored);
        }
    }

    /// Every row of a table goes, by one commit.
    ///
    /// Panics where `ts` does not rise.
    pub fn truncate(&mut self, table: u32, ts: u64) {
        assert!(ts > self.last_ts, "commit {ts} after {}", self.last_ts);
        self.last_ts = ts;
        self.drop_table(table);
    }

    /// Every row of a table goes.
    pub fn drop_table(&mut self, table: u32) {
        Arc::make_mut(&mut self.rows).retain(|place, _| place.table != table);
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
        let place = |(pk, rk): (&[u8], &[u8])| Place::new(table, pk, rk);
        let start = match from {
            Bound::Unbounded => Bound::Included(Place::new(table, b"", b"")),
            bound => bound.map(place),
        };
        let end = match (to, table.checked_add(1)) {
            (Bound::Unbounded, Some(next)) => Bound::Excluded(Place::new(next, b"", b"")),
            (Bound::Unbounded, None) => Bound::Unbounded,
            (bound, _) => bound.map(place),
        };
        // BTreeMap::range panics on a range that ends before it starts; such a range is empty.
        let rows =
            if is_backward(&start, &end) { None } else { Some(self.rows.range((start, end))) };
        let (now, outlived_to) = (self.now, self.outlived_to(table));
        let there = move |stored: &Stored| now < stored.expires && stored.ts > outlived_to;
        rows.into_iter().flatten().filter(move |(_, stored)| there(stored))
    }

    /// How many rows there are, expired ones included.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The newest commit.
    pub fn last_ts(&self) -> u64 {
        self.last_ts
    }
}

fn is_backward(start: &Bound<Place>, end: &Bound<Place>) -> bool {
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
