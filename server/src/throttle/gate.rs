//! Which requests are too many: buckets by account and by partition, no more of them than fit.
//!
//! Names are kept as hashes, so that a bucket takes the same few bytes whatever a key is. Where
//! there are too many, those go that nobody used for longest; one that comes back is full.

use crate::config::Throttling;
use crate::error::{ACCOUNT_OVER_LIMIT, SERVER_BUSY, WireError};
use crate::throttle::bucket::Bucket;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::num::NonZeroU32;
use std::time::Duration;

/// Most buckets of one kind, in each of two generations.
const BUCKETS_MAX: usize = 1 << 16;

/// The limits of a server.
#[derive(Debug)]
pub struct Gates {
    partitions: Option<Gate>,
    accounts: Option<Gate>,
}

impl Gates {
    /// Gates for the limits that there are.
    pub fn new(throttling: &Throttling) -> Gates {
        let gate = |rate: Option<NonZeroU32>| rate.map(|rate| Gate::new(rate, BUCKETS_MAX));
        Gates {
            partitions: gate(throttling.partition_entities),
            accounts: gate(throttling.account_requests),
        }
    }

    /// Whether operations on entities are counted.
    pub fn count_entities(&self) -> bool {
        self.partitions.is_some()
    }

    /// Lets one more request of an account pass, or not.
    pub fn request(&self, account: &str, now: Duration) -> Result<(), WireError> {
        match &self.accounts {
            Some(gate) if !gate.passes(&[account], 1, now) => Err(ACCOUNT_OVER_LIMIT),
            _ => Ok(()),
        }
    }

    /// Lets operations on so many entities of a partition pass, or not.
    pub fn entities(
        &self,
        account: &str,
        table: &str,
        partition_key: &str,
        count: usize,
        now: Duration,
    ) -> Result<(), WireError> {
        let Some(gate) = &self.partitions else { return Ok(()) };
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let name = [account, &table.to_ascii_lowercase(), partition_key];
        if gate.passes(&name, count, now) { Ok(()) } else { Err(SERVER_BUSY) }
    }
}

/// One limit, and a bucket for each name that came lately.
#[derive(Debug)]
struct Gate {
    rate: NonZeroU32,
    buckets_max: usize,
    /// Nobody outside knows its keys, so nobody can choose names that collide.
    hasher: RandomState,
    buckets: Mutex<Generations>,
}

impl Gate {
    fn new(rate: NonZeroU32, buckets_max: usize) -> Gate {
        let (hasher, buckets) = (RandomState::new(), Mutex::default());
        Gate { rate, buckets_max, hasher, buckets }
    }

    fn passes(&self, name: &[&str], tokens: u32, now: Duration) -> bool {
        let mut buckets = self.buckets.lock();
        let bucket = buckets.bucket(self.hasher.hash_one(name), self.buckets_max);
        bucket.take(tokens, self.rate, now)
    }
}

/// Buckets used since the last turn, and those that were only used before it. When the young are
/// too many they become the old, and the old, which nobody used since the turn before, go.
#[derive(Debug, Default)]
struct Generations {
    young: HashMap<u64, Bucket>,
    old: HashMap<u64, Bucket>,
}

impl Generations {
    fn bucket(&mut self, key: u64, buckets_max: usize) -> &mut Bucket {
        if !self.young.contains_key(&key) {
            let bucket = self.old.remove(&key).unwrap_or_default();
            if self.young.len() >= buckets_max {
                self.old = std::mem::take(&mut self.young);
            }
            self.young.insert(key, bucket);
        }
        self.young.entry(key).or_default()
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gates(partition: u32, account: u32) -> Gates {
        Gates::new(&Throttling {
            partition_entities: NonZeroU32::new(partition),
            account_requests: NonZeroU32::new(account),
        })
    }

    #[test]
    fn names_have_buckets_of_their_own() {
        let gates = gates(2, 2);
        let now = Duration::ZERO;
        for partition in ["p", "q", ""] {
            assert_eq!(gates.entities("a", "t", partition, 2, now), Ok(()));
            assert_eq!(gates.entities("a", "t", partition, 1, now), Err(SERVER_BUSY));
        }
        assert_eq!(gates.entities("a", "T", "p", 1, now), Err(SERVER_BUSY), "the same table");
        assert_eq!(gates.entities("a", "tp", "", 2, now), Ok(()));
        assert_eq!(gates.entities("at", "p", "", 2, now), Ok(()));
        assert_eq!(gates.request("a", now), Ok(()));
        assert_eq!(gates.request("a", now), Ok(()));
        assert_eq!(gates.request("a", now), Err(ACCOUNT_OVER_LIMIT));
        assert_eq!(gates.request("b", now), Ok(()));
        assert_eq!(gates.request("a", Duration::from_millis(500)), Ok(()));
    }

    #[test]
    fn without_limits_all_pass() {
        let gates = gates(0, 0);
        for _ in 0..100_000 {
            assert_eq!(gates.entities("a", "t", "p", 100, Duration::ZERO), Ok(()));
            assert_eq!(gates.request("a", Duration::ZERO), Ok(()));
        }
    }

    #[test]
    fn buckets_are_bounded_and_the_used_ones_stay() {
        let gate = Gate::new(NonZeroU32::MIN, 100);
        let passes = |name: &str| gate.passes(&[name], 1, Duration::ZERO);
        assert!(passes("hot"));
        for name in 0..10_000 {
            assert!(passes(&name.to_string()));
            assert!(!passes("hot"), "forgotten after {name} others");
            assert!(gate.buckets.lock().len() <= 200);
        }
        assert!(passes("0"), "long unused, and full again");
    }

    #[test]
    fn what_comes_back_at_a_turn_is_not_forgotten() {
        let gate = Gate::new(NonZeroU32::MIN, 2);
        let passes = |name: &str| gate.passes(&[name], 1, Duration::ZERO);
        // `a` and `b` are old, `c` and `d` young and as many as there may be.
        assert_eq!(["a", "b", "c", "d"].map(passes), [true; 4]);
        assert!(!passes("a"));
    }
}
