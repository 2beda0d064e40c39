//! A cache of what was read from files, bounded in bytes. Table files keep their blocks in it,
//! blob files their values, side by side: whichever is used more holds more of it.
//!
//! While there is room everything is taken, and then only what is missed a second time soon after
//! the first. Reads all over more than fits would otherwise fill and empty the cache for nothing:
//! most of what they bring leaves before anybody asks for it again, and bringing it costs as much
//! as reading it, in memory that no processor's cache holds.
//!
//! What leaves is chosen by CLOCK in its queue form: what is used again before it reaches the front
//! of the queue goes round once more, what is not leaves. What was read from a file leaves with the
//! file. The shards share one room, and make some of it in turn: were each to have a part of its
//! own, one would push out large values while another has room.
//!
//! What rows are held singly take of its room as they come (see [`Lender`]): where nobody reads
//! single rows, blocks have all of it.
//!
//! Promise: never more than `capacity` bytes by the weights given; hits take a shared lock of one
//! shard only.
//! Absent: reading. A miss is the caller's to fill, and two callers may fill the same one.

use crate::ids::FileNo;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use crate::sync::{Mutex, RwLock, weakened};
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// More shards than this gain nothing: a hit holds its lock for some 20 ns.
const SHARDS_MAX: usize = 16;

/// With shards of fewer bytes than this, whose turn it is would say more about what leaves than
/// what is used.
const SHARD_BYTES_MIN: usize = 4 << 20;

/// Of values of any size that push others out, at least as many fit.
const VALUES_MIN: usize = 4;

/// How often each shard is asked for room for something new, before that is left out: twice are
/// enough where nobody else fills what is given.
const ROUNDS_MAX: usize = 4;

/// Places that are looked at while a shard is held: some 50 us.
const PLACES_PER_LOOK: usize = 1 << 10;

/// A shard remembers one place that it refused per so many bytes of its part of the capacity: half
/// as many as it holds blocks of usual size. With more, what comes by chance is taken, with fewer
/// it learns late what has become warm.
const BYTES_PER_REFUSED: usize = 16 << 10;

/// As few as this, with values of 64 KiB and 16 shards, are the last GiB of reads that missed.
const REFUSED_MIN: usize = 1 << 10;

/// Where a block or a value begins: in which file, at which offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BlockPlace {
    pub(crate) file: FileNo,
    pub(crate) offset: u64,
}

/// Blocks of type `B`, and values, by the place they were read from.
pub(crate) struct Cache<B> {
    shards: Box<[RwLock<Shard<B>>]>,
    refused_len: usize,
    room: Room,
    sizes: Mutex<Sizes>,
}

/// What all shards hold together. In lines of its own: hits, which do not need it, read what lies
/// beside it.
#[repr(align(128))]
struct Room {
    // Both are read, and `held` is changed, by whoever has the lock of a shard.
    bytes_max: AtomicUsize,
    held: AtomicUsize,
    // The shard whose turn it is to let go of something.
    turn: AtomicUsize,
}

/// What there is, and how much of it another cache has.
struct Sizes {
    capacity: usize,
    lent: usize,
}

/// A cache that lets another one have of its room.
pub(crate) trait Lender: Send + Sync {
    /// From now on as much is lent in all as `bytes` says when nobody else lends: what is held
    /// beyond the rest goes at once.
    fn lend(&self, bytes: &dyn Fn() -> usize);
}

/// What a cache did so far and holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CacheCounts {
    /// Lookups that found their block or value.
    pub(crate) hits: u64,
    /// Blocks and values that had to be read from their file.
    pub(crate) misses: u64,
    /// Blocks and values held now.
    pub(crate) blocks: u64,
    /// Their weight in bytes.
    pub(crate) bytes: u64,
}

struct Shard<B> {
    entries: HashMap<BlockPlace, Entry<B>, BuildHasherDefault<PlaceHasher>>,
    // Holds exactly the keys of `entries`; the front is the next to be looked at.
    queue: VecDeque<BlockPlace>,
    // Marks of what was not taken; each has one slot. Empty until the first.
    refused: Box<[u32]>,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// What lies at a place. Table files and blob files have numbers of one sequence, so a place is
/// never asked for as both.
enum Held<B> {
    Block(Arc<B>),
    Value(Bytes),
}

struct Entry<B> {
    held: Held<B>,
    weight: usize,
    // Set by hits under the shared lock, cleared as the entry goes round.
    used: AtomicBool,
}

impl<B> std::fmt::Debug for Cache<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cache({} shards, {} bytes)", self.shards.len(), self.room.bytes_max())
    }
}

impl<B: Send + Sync> Lender for Cache<B> {
    fn lend(&self, bytes: &dyn Fn() -> usize) {
        let mut sizes = self.sizes.lock();
        sizes.lent = bytes();
        self.resize(&sizes);
    }
}

impl<B> Cache<B> {
    /// A cache of at most `capacity` bytes; 0 holds nothing.
    pub(crate) fn new(capacity: usize) -> Cache<B> {
        Cache::divided(capacity, (capacity / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX))
    }

    /// The same in one shard: for what is few, so that what leaves is what is unused, not what is
    /// in the shard whose turn it is.
    pub(crate) fn undivided(capacity: usize) -> Cache<B> {
        Cache::divided(capacity, 1)
    }

    fn divided(capacity: usize, shards: usize) -> Cache<B> {
        Cache {
            shards: (0..shards).map(|_| RwLock::new(Shard::new())).collect(),
            refused_len: (capacity / shards / BYTES_PER_REFUSED).max(REFUSED_MIN),
            room: Room::new(capacity),
            sizes: Mutex::new(Sizes { capacity, lent: 0 }),
        }
    }

    /// From now on holds at most `capacity` bytes: what is too much goes at once. As there are
    /// shards and marks for what [`Cache::new`] was given, this is for less than that, and back.
    pub(crate) fn set_capacity(&self, capacity: usize) {
        let mut sizes = self.sizes.lock();
        sizes.capacity = capacity;
        self.resize(&sizes);
    }

    /// Bytes that it may hold now, and bytes that it has lent.
    pub(crate) fn sizes(&self) -> (usize, usize) {
        let Sizes { capacity, lent } = *self.sizes.lock();
        (capacity.saturating_sub(lent), lent)
    }

    fn resize(&self, sizes: &Sizes) {
        let bytes_max = sizes.capacity.saturating_sub(sizes.lent);
        if bytes_max >= self.room.bytes_max.swap(bytes_max, Relaxed) {
            return;
        }
        // Whoever has a shard's lock after this knows of it, and nobody else adds anything.
        if !weakened!("every shard") {
            self.shards.iter().for_each(|shard| drop(shard.write()));
        }
        while self.room.lacks(0, bytes_max) > 0 {
            self.make_room(0, bytes_max);
        }
    }

    /// Has the shards let go of what is unused, in turn and each of some, until there is room for
    /// `weight` bytes within `bytes_max`; others may fill that at once.
    fn make_room(&self, weight: usize, bytes_max: usize) {
        let part = self.room.lacks(weight, bytes_max).div_ceil(self.shards.len()).max(1);
        for _ in 0..ROUNDS_MAX * self.shards.len() {
            let lacking = self.room.lacks(weight, bytes_max);
            if lacking == 0 {
                return;
            }
            let turn = self.room.turn.fetch_add(1, Relaxed) % self.shards.len();
            self.shards[turn].write().let_go(lacking.min(part), &self.room);
        }
    }

    /// The block that was read from `place`, if it is held.
    pub(crate) fn get(&self, place: BlockPlace) -> Option<Arc<B>> {
        self.look(place, Held::block)
    }

    /// The value that was read from `place`, if it is held.
    pub(crate) fn get_value(&self, place: BlockPlace) -> Option<Bytes> {
        self.look(place, Held::value)
    }

    fn look<T>(&self, place: BlockPlace, share: impl Fn(&Held<B>) -> Option<T>) -> Option<T> {
        let shard = self.shard(place).read();
        let entry = shard.entries.get(&place)?;
        // Most hits are on entries already marked: do not dirty the line again.
        if !entry.used.load(Relaxed) {
            entry.used.store(true, Relaxed);
        }
        shard.hits.fetch_add(1, Relaxed);
        share(&entry.held)
    }

    /// Counts a miss of the block that was read from `place`, which takes `weight` bytes, and keeps
    /// it where there is room, or where it was missed lately. Returns what the cache now has there,
    /// or else the block. One heavier than the cache is not kept.
    pub(crate) fn insert(&self, place: BlockPlace, block: Arc<B>, weight: usize) -> Arc<B> {
        let held = Held::Block(Arc::clone(&block));
        self.insert_at(place, held, weight, Entrance::Again).block().unwrap_or(block)
    }

    /// The same, but pushes nothing out: where there is no room, the block is not kept.
    pub(crate) fn insert_in_room(&self, place: BlockPlace, block: Arc<B>, weight: usize) -> Arc<B> {
        let held = Held::Block(Arc::clone(&block));
        self.insert_at(place, held, weight, Entrance::Room).block().unwrap_or(block)
    }

    /// The same as [`Cache::insert`] for a value, but one heavier than a part of the cache pushes
    /// nothing out: what it would push out takes longer to be read again than it does.
    pub(crate) fn insert_value(&self, place: BlockPlace, value: Bytes, weight: usize) {
        let is_heavy = weight > self.room.bytes_max() / VALUES_MIN;
        let entrance = if is_heavy { Entrance::Room } else { Entrance::Again };
        self.insert_at(place, Held::Value(value), weight, entrance);
    }

    fn insert_at(
        &self,
        place: BlockPlace,
        held: Held<B>,
        weight: usize,
        entrance: Entrance,
    ) -> Held<B> {
        let before = self.room.bytes_max();
        let mut shard = self.shard(place).write();
        let misses = shard.misses.load(Relaxed) + 1; // Nobody else counts: no need for one step.
        shard.misses.store(misses, Relaxed);
        if let Some(earlier) = shard.entries.get(&place) {
            return earlier.held.share();
        }
        // Under the lock: see `resize`.
        let bytes_max = if weakened!("capacity") { before } else { self.room.bytes_max() };
        if !self.room.take(weight, bytes_max) {
            let is_kept = entrance == Entrance::Again && weight <= bytes_max;
            if !is_kept || !shard.was_refused(place, self.refused_len) {
                return held;
            }
            // Without the lock: it may be any shard's turn.
            drop(shard);
            self.make_room(weight, bytes_max);
            shard = self.shard(place).write();
            if let Some(earlier) = shard.entries.get(&place) {
                return earlier.held.share();
            }
            let now = if weakened!("capacity again") { bytes_max } else { self.room.bytes_max() };
            if !self.room.take(weight, now) {
                return held;
            }
        }
        shard.queue.push_back(place);
        let entry = Entry { held: held.share(), weight, used: AtomicBool::new(false) };
        shard.entries.insert(place, entry);
        held
    }

    /// Lets go of what was read from `files`, which nobody reads any more; a little of it may stay
    /// until its turn to leave where others bring something in meanwhile. Cost: a look at
    /// every place that it holds, so many at a time that whoever waits for a shard waits some
    /// microseconds, also where the thread that looks has to wait for a processor.
    pub(crate) fn forget(&self, mut files: Vec<FileNo>) {
        files.sort_unstable();
        for shard in &self.shards {
            let mut left = shard.read().queue.len();
            while left > 0 {
                let places = left.min(PLACES_PER_LOOK);
                let gone = shard.write().forget(&files, places, &self.room);
                left -= places;
                drop(gone); // Blocks are freed while nobody waits.
            }
        }
    }

    /// What it did so far and holds now.
    pub(crate) fn counts(&self) -> CacheCounts {
        let bytes = self.room.held.load(Relaxed) as u64;
        let mut counts = CacheCounts { bytes, ..CacheCounts::default() };
        for shard in &self.shards {
            let shard = shard.read();
            counts.hits += shard.hits.load(Relaxed);
            counts.misses += shard.misses.load(Relaxed);
            counts.blocks += shard.entries.len() as u64;
        }
        counts
    }

    fn shard(&self, place: BlockPlace) -> &RwLock<Shard<B>> {
        // The hash map uses the ends of the hash; the shard takes bits between them.
        let bits = mix(mix(0, place.file.0), place.offset) >> 32;
        &self.shards[bits as usize % self.shards.len()]
    }
}

/// What may be pushed out for something new.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Entrance {
    /// Nothing.
    Room,
    /// Nothing the first time, then whatever is unused.
    Again,
}

impl<B> Held<B> {
    fn share(&self) -> Held<B> {
        match self {
            Held::Block(block) => Held::Block(Arc::clone(block)),
            Held::Value(value) => Held::Value(Bytes::clone(value)),
        }
    }

    fn block(&self) -> Option<Arc<B>> {
        match self {
            Held::Block(block) => Some(Arc::clone(block)),
            Held::Value(_) => None,
        }
    }

    fn value(&self) -> Option<Bytes> {
        match self {
            Held::Block(_) => None,
            Held::Value(value) => Some(Bytes::clone(value)),
        }
    }
}

impl<B> Shard<B> {
    fn new() -> Shard<B> {
        Shard {
            entries: HashMap::default(),
            queue: VecDeque::new(),
            refused: Box::default(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// Whether what was read from `place` was refused lately, among some `len` others; if not, it
    /// is now. Two places that share slot and mark, one pair in four billion, are taken for one:
    /// what is read comes in early.
    fn was_refused(&mut self, place: BlockPlace, len: usize) -> bool {
        if self.refused.is_empty() {
            self.refused = vec![0; len].into();
        }
        // The shard was picked by the bits from 32 on, the slot takes those below, the mark the
        // top.
        let hash = mix(mix(0, place.offset), place.file.0);
        let mark = (hash >> 32) as u32 | 1; // 0 is an empty slot.
        let slot = &mut self.refused[hash as usize % len];
        let again = *slot == mark;
        *slot = if again { 0 } else { mark };
        again
    }

    /// Looks at the `places` at the front of the queue, and puts those behind the others that are
    /// not of `files`, which are in their order: after a whole round alone it is as it was. Returns
    /// what it let go of.
    fn forget(&mut self, files: &[FileNo], places: usize, room: &Room) -> Vec<Entry<B>> {
        let mut gone = Vec::new();
        for _ in 0..places {
            let Some(place) = self.queue.pop_front() else { break };
            match files.binary_search(&place.file) {
                Ok(_) => gone.extend(self.entries.remove(&place)),
                Err(_) => self.queue.push_back(place),
            }
        }
        room.give_back(gone.iter().map(|entry| entry.weight).sum());
        gone
    }

    /// Lets go of unused entries until `bytes` are free, or nothing is left. Ends: an entry that
    /// goes round loses its mark, and no hit can set it again while the caller holds the shard.
    fn let_go(&mut self, bytes: usize, room: &Room) {
        let mut freed = 0;
        while freed < bytes {
            let Some(place) = self.queue.pop_front() else { break };
            let Some(entry) = self.entries.get_mut(&place) else { continue };
            if entry.used.load(Relaxed) {
                entry.used.store(false, Relaxed);
                self.queue.push_back(place);
                continue;
            }
            freed += entry.weight;
            self.entries.remove(&place);
        }
        room.give_back(freed);
    }
}

impl Room {
    fn new(bytes_max: usize) -> Room {
        let [held, turn] = [AtomicUsize::new(0), AtomicUsize::new(0)];
        Room { bytes_max: AtomicUsize::new(bytes_max), held, turn }
    }

    fn bytes_max(&self) -> usize {
        self.bytes_max.load(Relaxed)
    }

    /// Bytes that `weight` has too little room within `bytes_max`.
    fn lacks(&self, weight: usize, bytes_max: usize) -> usize {
        self.held.load(Relaxed).saturating_add(weight).saturating_sub(bytes_max)
    }

    /// Counts `weight` bytes in, if there is room for them within `bytes_max`.
    fn take(&self, weight: usize, bytes_max: usize) -> bool {
        let with = |held: usize| held.checked_add(weight).filter(|held| *held <= bytes_max);
        self.held.fetch_update(Relaxed, Relaxed, with).is_ok()
    }

    fn give_back(&self, weight: usize) {
        self.held.fetch_sub(weight, Relaxed);
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
        assert_eq!(cache.get(place(49)), None);
        assert_eq!(cache.get(place(0)).as_deref(), Some(&0));
        assert_eq!(cache.counts().hits, 1);
    }

    #[test]
    fn what_is_read_once_pushes_nothing_out_and_what_comes_again_does() {
        let cache = Cache::new(1000);
        fill(&cache, 0..10);
        fill(&cache, 100..200);
        assert!((0..10).all(|held| cache.get(place(held)).is_some()));
        fill(&cache, 195..200);
        assert!((195..200).all(|warm| cache.get(place(warm)).is_some()));
        assert_eq!(cache.counts().bytes, 1000);
    }

    #[test]
    fn reads_all_over_more_than_fits_bring_little_in() {
        const FITS: u64 = 32 << 10;
        let (cache, mut brought) = (Cache::new(FITS as usize * (8 << 10)), 0);
        let mut read = |offset: u64| {
            if cache.get(place(offset)).is_none() {
                let held = cache.counts().blocks;
                cache.insert(place(offset), Arc::new(offset), 8 << 10);
                brought += u64::from(held == FITS && cache.get(place(offset)).is_some());
            }
        };
        let mut state = 1;
        for _ in 0..10 * FITS {
            state = mix(mix(1, state), state);
            read((state >> 32) % (4 * FITS));
        }
        let misses = cache.counts().misses;
        assert!(misses > 5 * FITS && brought < misses / 5, "{brought} of {misses}");
    }

    #[test]
    fn files_that_are_gone_make_room_for_those_that_came() {
        let cache = Cache::new(1000);
        fill(&cache, 0..5);
        let of = |file| BlockPlace { file: FileNo(file), offset: 0 };
        (4..9).for_each(|file| drop(cache.insert(of(file), Arc::new(file), 100)));
        (4..9).for_each(|file| drop(cache.get(of(file))));
        cache.forget(vec![FileNo(7), FileNo(3)]);
        assert!((0..5).all(|gone| cache.get(place(gone)).is_none()));
        assert!([4, 5, 6, 8].into_iter().all(|kept| cache.get(of(kept)).is_some()));
        assert_eq!((cache.counts().blocks, cache.counts().bytes), (4, 400));
        (10..16).for_each(|file| drop(cache.insert(of(file), Arc::new(file), 100)));
        assert!((10..16).all(|new| cache.get(of(new)).is_some()), "at their first miss");
        // What is looked at for its place is what is there.
        (16..19).for_each(|file| {
            cache.insert(of(file), Arc::new(file), 100);
            cache.insert(of(file), Arc::new(file), 100);
        });
        assert_eq!(cache.counts().bytes, 1000);
    }

    #[test]
    fn of_many_places_those_of_files_that_are_gone_are_forgotten() {
        let cache = Cache::undivided(usize::MAX);
        let of = |n: u64| BlockPlace { file: FileNo(n % 3), offset: n };
        let count = 5 * PLACES_PER_LOOK as u64 + 7;
        (0..count).for_each(|n| drop(cache.insert(of(n), Arc::new(n), 10)));
        cache.forget(vec![FileNo(0), FileNo(2)]);
        for n in 0..count {
            assert_eq!(cache.get(of(n)).is_some(), n % 3 == 1, "place {n}");
        }
        let kept = (0..count).filter(|n| n % 3 == 1).count() as u64;
        assert_eq!((cache.counts().blocks, cache.counts().bytes), (kept, kept * 10));
        let shard = cache.shards[0].read();
        assert!(shard.queue.iter().map(|place| place.offset).is_sorted(), "in the order of before");
    }

    #[test]
    fn what_was_missed_long_ago_is_as_if_it_never_was() {
        let cache = Cache::new(1000);
        fill(&cache, 0..10);
        fill(&cache, 50..60);
        fill(&cache, 1000..1000 + 50 * REFUSED_MIN as u64);
        fill(&cache, 50..60);
        assert!((50..60).all(|cold| cache.get(place(cold)).is_none()));
    }

    #[test]
    fn a_scan_does_not_push_out_what_is_in_use() {
        let cache = Cache::new(1000);
        fill(&cache, 0..5);
        for offset in 100..200 {
            fill(&cache, offset..offset + 1);
            fill(&cache, offset..offset + 1);
            assert!((0..5).all(|hot| cache.get(place(hot)).is_some()), "at {offset}");
        }
        assert!(cache.get(place(199)).is_some(), "it was missed twice");
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
        for _ in 0..2 {
            cache.insert(place(51), Arc::new(51), 950);
        }
        assert_eq!((cache.counts().blocks, cache.counts().bytes), (1, 950));
    }

    #[test]
    fn blocks_and_values_share_one_room() {
        let cache = Cache::new(1000);
        fill(&cache, 0..10);
        for offset in (100..110).chain(100..110) {
            cache.insert_value(place(offset), Bytes::from_static(b"value"), 100);
        }
        assert!((0..10).all(|old| cache.get(place(old)).is_none()), "unused blocks made room");
        assert!((100..110).all(|new| cache.get_value(place(new)).is_some()));
        assert_eq!((cache.get(place(100)), cache.counts().bytes), (None, 1000));
    }

    #[test]
    fn a_value_of_a_part_of_the_cache_pushes_nothing_out() {
        let cache = Cache::new(1000);
        fill(&cache, 0..7);
        let insert = |offset, weight| {
            (0..2).for_each(|_| cache.insert_value(place(offset), Bytes::new(), weight));
            cache.get_value(place(offset)).is_some()
        };
        assert!(insert(50, 300) && !insert(51, 300) && insert(52, 250));
        assert_eq!((cache.counts().blocks, cache.counts().bytes), (6, 950));
    }

    #[test]
    fn what_it_lends_it_does_not_hold() {
        let cache = Cache::new(1000);
        fill(&cache, 0..10);
        cache.lend(&|| 600);
        assert_eq!((cache.counts().bytes, cache.sizes()), (400, (400, 600)));
        cache.set_capacity(800);
        assert_eq!((cache.counts().bytes, cache.sizes()), (200, (200, 600)));
        cache.lend(&|| 0);
        fill(&cache, 0..10);
        assert_eq!(cache.counts().bytes, 800);
    }

    #[test]
    fn it_gives_way_at_once_and_comes_back() {
        let cache = Cache::new(16 << 20);
        let weight = 64 << 10;
        let fill = || {
            for offset in 0..1000 {
                cache.insert(place(offset << 12), Arc::new(offset), weight);
            }
        };
        fill();
        let full = cache.counts().bytes;
        cache.set_capacity(2 << 20);
        assert!(full > 15 << 20 && cache.counts().bytes <= 2 << 20);
        fill();
        assert!(cache.counts().bytes <= 2 << 20);
        cache.set_capacity(16 << 20);
        fill();
        assert_eq!(cache.counts().bytes, full);
    }

    #[test]
    fn what_is_large_has_the_room_of_all_shards() {
        let cache = Cache::new(64 << 20);
        assert!(cache.shards.len() > 1);
        (0..64).for_each(|i| drop(cache.insert(place(i), Arc::new(i), 1 << 20)));
        assert!((0..64).all(|i| cache.get(place(i)).is_some()), "all of them fit");
        for _ in 0..2 {
            cache.insert(place(100), Arc::new(100), 60 << 20);
        }
        assert!(cache.get(place(100)).is_some() && cache.counts().bytes == 64 << 20);
        assert_eq!(cache.counts().blocks, 5, "no more left than had to");
    }

    #[test]
    fn room_is_made_by_all_shards() {
        let cache = Cache::new(64 << 20);
        let shards = |cache: &Cache<u64>| -> Vec<usize> {
            cache.shards.iter().map(|shard| shard.read().entries.len()).collect()
        };
        (0..16 << 10).for_each(|i| drop(cache.insert(place(i), Arc::new(i), 4 << 10)));
        let before = shards(&cache);
        cache.set_capacity(32 << 20);
        let after = shards(&cache);
        assert!(after.iter().all(|left| (440..590).contains(left)), "{before:?} {after:?}");
        assert_eq!(after.iter().sum::<usize>(), 8 << 10);
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
