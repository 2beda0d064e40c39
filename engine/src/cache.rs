//! A cache of what was read from files, bounded in bytes. Floor 3; table files keep their blocks
//! in it.
//!
//! CLOCK in its queue form: what is used again before it reaches the front of the queue goes
//! round once more, what is not leaves. A scan touches a block once, so it pushes out other
//! once-touched blocks and not those in use.
//!
//! Promise: never more than `capacity` bytes by the weights given; hits take a shared lock only.
//! Absent: reading. A miss is the caller's to fill, and two callers may fill the same one.

use crate::ids::FileNo;
use parking_lot::RwLock;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// More shards than this gain nothing: a hit holds its lock for some 20 ns.
const SHARDS_MAX: usize = 16;

/// A shard below this would refuse blocks that a small cache should hold.
const SHARD_BYTES_MIN: usize = 4 << 20;

/// Where a block begins: in which file, at which offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BlockPlace {
    pub(crate) file: FileNo,
    pub(crate) offset: u64,
}

/// Values of type `V` by the place they were read from.
pub(crate) struct Cache<V> {
    shards: Box<[RwLock<Shard<V>>]>,
    shard_bytes: usize,
}

/// What a cache did so far and holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CacheCounts {
    /// Lookups that found their block.
    pub(crate) hits: u64,
    /// Blocks that had to be read from their file.
    pub(crate) misses: u64,
    /// Blocks held now.
    pub(crate) blocks: u64,
    /// Their weight in bytes.
    pub(crate) bytes: u64,
}

struct Shard<V> {
    entries: HashMap<BlockPlace, Entry<V>, BuildHasherDefault<PlaceHasher>>,
    // Holds exactly the keys of `entries`; the front is the next to be looked at.
    queue: VecDeque<BlockPlace>,
    bytes: usize,
    hits: AtomicU64,
    misses: AtomicU64,
}

struct Entry<V> {
    value: Arc<V>,
    weight: usize,
    // Set by hits under the shared lock, cleared as the entry goes round.
    used: AtomicBool,
}

impl<V> std::fmt::Debug for Cache<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cache({} shards of {} bytes)", self.shards.len(), self.shard_bytes)
    }
}

impl<V> Cache<V> {
    /// A cache of at most `capacity` bytes; 0 holds nothing.
    pub(crate) fn new(capacity: usize) -> Cache<V> {
        let shards = (capacity / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX);
        Cache {
            shards: (0..shards).map(|_| RwLock::new(Shard::new())).collect(),
            shard_bytes: capacity / shards,
        }
    }

    /// What was read from `place`, if it is held.
    pub(crate) fn get(&self, place: BlockPlace) -> Option<Arc<V>> {
        let shard = self.shard(place).read();
        let entry = shard.entries.get(&place)?;
        // Most hits are on entries already marked: do not dirty the line again.
        if !entry.used.load(Relaxed) {
            entry.used.store(true, Relaxed);
        }
        shard.hits.fetch_add(1, Relaxed);
        Some(Arc::clone(&entry.value))
    }

    /// Counts a miss and keeps what was read from `place`, which takes `weight` bytes; returns
    /// what the cache now has there. A value heavier than a shard is not kept.
    pub(crate) fn insert(&self, place: BlockPlace, value: Arc<V>, weight: usize) -> Arc<V> {
        self.insert_at(place, value, weight, true)
    }

    /// The same, but pushes nothing out: where there is no room, the value is not kept.
    pub(crate) fn insert_in_room(&self, place: BlockPlace, value: Arc<V>, weight: usize) -> Arc<V> {
        self.insert_at(place, value, weight, false)
    }

    fn insert_at(&self, place: BlockPlace, value: Arc<V>, weight: usize, push: bool) -> Arc<V> {
        if weight > self.shard_bytes {
            self.shard(place).read().misses.fetch_add(1, Relaxed);
            return value;
        }
        let mut shard = self.shard(place).write();
        *shard.misses.get_mut() += 1;
        if !push && shard.bytes + weight > self.shard_bytes {
            return value;
        }
        if let Some(earlier) = shard.entries.get(&place) {
            return Arc::clone(&earlier.value);
        }
        shard.make_room(self.shard_bytes - weight);
        shard.bytes += weight;
        shard.queue.push_back(place);
        let entry = Entry { value: Arc::clone(&value), weight, used: AtomicBool::new(false) };
        shard.entries.insert(place, entry);
        value
    }

    /// What it did so far and holds now.
    pub(crate) fn counts(&self) -> CacheCounts {
        let mut counts = CacheCounts::default();
        for shard in &self.shards {
            let shard = shard.read();
            counts.hits += shard.hits.load(Relaxed);
            counts.misses += shard.misses.load(Relaxed);
            counts.blocks += shard.entries.len() as u64;
            counts.bytes += shard.bytes as u64;
        }
        counts
    }

    fn shard(&self, place: BlockPlace) -> &RwLock<Shard<V>> {
        // The hash map uses the ends of the hash; the shard takes bits between them.
        let bits = mix(mix(0, place.file.0), place.offset) >> 32;
        &self.shards[bits as usize % self.shards.len()]
    }
}

impl<V> Shard<V> {
    fn new() -> Shard<V> {
        Shard {
            entries: HashMap::default(),
            queue: VecDeque::new(),
            bytes: 0,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// Lets go of unused entries until at most `bytes_max` remain. Ends: an entry that goes round
    /// loses its mark, and no hit can set it again while the caller holds the shard.
    fn make_room(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max {
            let Some(place) = self.queue.pop_front() else { return };
            let Some(entry) = self.entries.get_mut(&place) else { continue };
            if std::mem::take(entry.used.get_mut()) {
                self.queue.push_back(place);
                continue;
            }
            self.bytes -= entry.weight;
            self.entries.remove(&place);
        }
    }
}

/// Two multiplications in place of SipHash: places are ours, nobody can choose them to collide.
#[derive(Default)]
struct PlaceHasher(u64);

impl Hasher for PlaceHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = mix(self.0, word);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

fn mix(state: u64, word: u64) -> u64 {
    let product = (state ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ (product >> 29)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(offset: u64) -> BlockPlace {
        BlockPlace { file: FileNo(3), offset }
    }

    fn fill(cache: &Cache<u64>, offsets: std::ops::Range<u64>) {
        for offset in offsets {
            cache.insert(place(offset), Arc::new(offset), 100);
        }
    }

    #[test]
    fn holds_what_fits_and_no_more() {
        let cache = Cache::new(1000);
        fill(&cache, 0..50);
        let counts = cache.counts();
        assert_eq!((counts.blocks, counts.bytes, counts.misses), (10, 1000, 50));
        assert_eq!(cache.get(place(0)), None);
        assert_eq!(cache.get(place(49)).as_deref(), Some(&49));
        assert_eq!(cache.counts().hits, 1);
    }

    #[test]
    fn a_scan_does_not_push_out_what_is_in_use() {
        let cache = Cache::new(1000);
        fill(&cache, 0..5);
        for offset in 100..200 {
            cache.insert(place(offset), Arc::new(offset), 100);
            assert!((0..5).all(|hot| cache.get(place(hot)).is_some()), "at {offset}");
        }
    }

    #[test]
    fn a_guest_takes_free_room_and_no_other() {
        let cache = Cache::new(1000);
        fill(&cache, 0..8);
        for offset in 100..110 {
            cache.insert_in_room(place(offset), Arc::new(offset), 100);
        }
        assert!((0..8).all(|held| cache.get(place(held)).is_some()), "nothing was pushed out");
        assert_eq!(cache.counts().bytes, 1000);
        assert!(cache.get(place(101)).is_some() && cache.get(place(102)).is_none());
    }

    #[test]
    fn a_heavy_value_takes_the_room_it_needs_or_none() {
        let cache = Cache::new(1000);
        fill(&cache, 0..10);
        cache.insert(place(50), Arc::new(50), 1001);
        assert_eq!(cache.counts().blocks, 10, "heavier than the cache: left out");
        cache.insert(place(51), Arc::new(51), 950);
        assert_eq!((cache.counts().blocks, cache.counts().bytes), (1, 950));
    }

    #[test]
    fn no_capacity_holds_nothing() {
        let cache = Cache::new(0);
        cache.insert(place(1), Arc::new(1), 1);
        assert_eq!(cache.get(place(1)), None);
        assert_eq!(cache.counts(), CacheCounts { misses: 1, ..CacheCounts::default() });
    }

    #[test]
    fn the_first_to_fill_a_place_wins() {
        let cache = Cache::new(1000);
        let first = cache.insert(place(1), Arc::new(7), 10);
        let second = cache.insert(place(1), Arc::new(7), 10);
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!(cache.counts().bytes, 10);
    }

    #[test]
    fn threads_agree_on_what_a_place_holds() {
        let cache = Cache::new(64 << 20);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let cache = &cache;
                scope.spawn(move || {
                    for offset in 0..2000 {
                        let at = place(offset * 4096 + thread % 2);
                        let held = cache
                            .get(at)
                            .unwrap_or_else(|| cache.insert(at, Arc::new(at.offset), 64 << 10));
                        assert_eq!(*held, at.offset);
                    }
                });
            }
        });
        assert!(cache.counts().bytes <= 64 << 20);
        assert!(cache.counts().blocks > 900, "all shards are in use");
    }
}
