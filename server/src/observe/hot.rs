//! Which partitions are asked for most: of the last minute that is over, and of the one that goes
//! on.
//!
//! Absent: the names of partitions, unless whoever started the server asked for them. They are its
//! users' data.

use crate::config::HotPartitions;
use crate::observe::sketch::{Counted, Sketch};
use parking_lot::Mutex;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// Places of the sketch: a partition with a share above 1/128 is always found.
const PLACES: usize = 128;

/// How many are told.
pub const TOP: usize = 10;

/// How long is counted before it begins anew.
const WINDOW: Duration = Duration::from_secs(60);

/// Most characters of a PartitionKey that are kept.
const KEY_CHARS_MAX: usize = 256;

/// The same of a table, whose name has 63 where there is such a table.
const TABLE_CHARS_MAX: usize = 64;

/// A partition's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Name {
    /// The account.
    pub account: String,
    /// The table as the request has it, or its beginning.
    pub table: String,
    /// The PartitionKey, or its beginning.
    pub partition_key: String,
}

/// One of the most frequent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rank {
    /// Which, where names are told.
    pub name: Option<Name>,
    /// Entities read or written in it, at most.
    pub entities: u64,
    /// By how much that may be too much.
    pub error: u64,
}

/// What is known of the last full minute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranking {
    /// Entities read or written in all partitions.
    pub entities: u64,
    /// The most frequent, first of all.
    pub ranks: Vec<Rank>,
}

/// Counts entities by partition.
#[derive(Debug)]
pub struct Hot {
    mode: HotPartitions,
    /// Nobody outside knows its keys, so nobody can choose names that collide.
    hasher: RandomState,
    windows: Mutex<Windows>,
}

#[derive(Debug)]
struct Windows {
    began: Duration,
    now: Sketch<Option<Name>>,
    last: Sketch<Option<Name>>,
}

impl Hot {
    /// Counts as `mode` says.
    pub fn new(mode: HotPartitions) -> Hot {
        let windows =
            Windows { began: Duration::ZERO, now: Sketch::new(PLACES), last: Sketch::new(PLACES) };
        Hot { mode, hasher: RandomState::new(), windows: Mutex::new(windows) }
    }

    /// Whether anything is counted.
    pub fn is_on(&self) -> bool {
        self.mode != HotPartitions::Off
    }

    /// Whether names are told.
    pub fn tells_names(&self) -> bool {
        self.mode == HotPartitions::Names
    }

    /// Counts entities of a partition, at the moment `now` of the steady clock.
    pub fn add(&self, account: &str, table: &str, partition_key: &str, count: u64, now: Duration) {
        if !self.is_on() || count == 0 {
            return;
        }
        let keep = || {
            self.tells_names().then(|| Name {
                account: account.to_owned(),
                table: table.chars().take(TABLE_CHARS_MAX).collect(),
                partition_key: partition_key.chars().take(KEY_CHARS_MAX).collect(),
            })
        };
        // Tables are called the same in any case of letters.
        let mut folded = [0_u8; 64];
        let len = table.len().min(folded.len());
        folded[..len].copy_from_slice(&table.as_bytes()[..len]);
        folded[..len].make_ascii_lowercase();
        let hash = self.hasher.hash_one((account, &folded[..len], partition_key));
        let mut windows = self.windows.lock();
        windows.turn(now);
        windows.now.add(hash, count, keep);
    }

    /// The last full minute; the one that goes on as long as there is none.
    pub fn ranking(&self, now: Duration) -> Ranking {
        let mut windows = self.windows.lock();
        windows.turn(now);
        let sketch = if windows.last.total() > 0 { &windows.last } else { &windows.now };
        let rank = |Counted { kept, count, error }: Counted<&Option<Name>>| Rank {
            name: kept.clone(),
            entities: count,
            error,
        };
        let ranks = sketch.top(TOP).into_iter().map(rank).collect();
        Ranking { entities: sketch.total(), ranks }
    }
}

impl Windows {
    fn turn(&mut self, now: Duration) {
        let age = now.saturating_sub(self.began);
        if age < WINDOW {
            return;
        }
        let fresh = Sketch::new(PLACES);
        let over = std::mem::replace(&mut self.now, fresh);
        // Of a minute in which nobody looked nothing is known but that it is over.
        self.last = if age < 2 * WINDOW { over } else { Sketch::new(PLACES) };
        self.began = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_minute_is_told_when_it_is_over_and_forgotten_after_the_next() {
        let hot = Hot::new(HotPartitions::Names);
        hot.add("acct", "Rows", "p", 3, at(0));
        hot.add("acct", "rOWS", "p", 2, at(1));
        hot.add("acct", "Rows", "q", 1, at(2));
        let first = hot.ranking(at(3));
        assert_eq!((first.entities, first.ranks.len()), (6, 2));
        assert_eq!((first.ranks[0].entities, first.ranks[0].error), (5, 0));
        let name = first.ranks[0].name.as_ref().expect("a name");
        assert_eq!((name.table.as_str(), name.partition_key.as_str()), ("Rows", "p"));
        hot.add("acct", "Rows", "z", 9, at(61));
        assert_eq!(hot.ranking(at(62)).entities, 6, "the minute before");
        assert_eq!(hot.ranking(at(122)).entities, 9);
        assert_eq!(hot.ranking(at(400)), Ranking::default());
    }

    #[test]
    fn names_are_kept_by_request_only() {
        let hot = Hot::new(HotPartitions::Ranks);
        hot.add("acct", "Rows", "secret", 1, at(0));
        assert_eq!(hot.ranking(at(1)).ranks[0].name, None);
        assert!(!format!("{hot:?}").contains("secret"));
        let off = Hot::new(HotPartitions::Off);
        off.add("acct", "Rows", "p", 1, at(0));
        assert_eq!(off.ranking(at(1)), Ranking::default());
    }

    #[test]
    fn long_names_take_bounded_memory() {
        let hot = Hot::new(HotPartitions::Names);
        let long = "é".repeat(1024);
        hot.add("acct", &"T".repeat(1000), &long, 1, at(0));
        let name = hot.ranking(at(1)).ranks[0].name.clone().expect("a name");
        assert_eq!(name.partition_key.chars().count(), KEY_CHARS_MAX);
        assert_eq!(name.table.chars().count(), TABLE_CHARS_MAX);
    }
}
