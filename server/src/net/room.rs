//! Room for the bodies of requests and of answers, all connections together.
//!
//! The body of a request takes its place before it is read, by the length that its head declares,
//! and gives it back when its request is answered. It takes twice its length: as it came, and as
//! the values that are read from it. That of an answer has its place until it has left, of twice
//! its length too: memory that grew with it has that much to spare. That of an answer to a change
//! was made as long as it is, and takes no more. Who finds no room is told so at once, and nothing
//! waits.
//!
//! A part of the room is for small bodies alone, where there are such: a few clients who declare
//! much and send slowly cannot keep everybody else from writing. Those who may write nothing have a
//! small part of that. Of several owners each leaves a part of the room, and of what large bodies
//! may take of it, to the others: one whose answers nobody takes, or whose bodies do not come,
//! cannot keep all from reading or writing.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Room is counted in these: a semaphore counts in 32 bits.
const UNIT_BYTES: usize = 1 << 10;

/// What a body takes for each of its bytes.
const COPIES: usize = 2;

/// Bodies up to this size are small.
pub(crate) const SMALL_BYTES_MAX: usize = 64 << 10;

/// The share of the room that large bodies together may take, in quarters.
const LARGE_QUARTERS: usize = 3;

/// The share of the room that bodies of those who may only read together may take.
const READERS_PART: usize = 16;

/// An owner that has a place may have so many times what it leaves: three quarters where it is the
/// only one, three sevenths beside another that has as much.
const OWNED_TIMES: usize = 3;

/// The room, shared by those who ask for a place in it.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    all: Part,
    /// What large bodies may take; none where they may take all of it.
    large: Option<Part>,
    /// What bodies of those who may only read may take; none where there are no such.
    readers: Option<Part>,
    units: usize,
}

/// The room, or a part of it.
#[derive(Clone, Debug)]
struct Part {
    free: Arc<Semaphore>,
    /// Units by owner, of those who have any.
    owned: Arc<Mutex<HashMap<String, usize>>>,
}

/// A place in the room, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    all: Units,
    _of_part: Option<Units>,
}

/// Units of a part, until they are dropped.
#[derive(Debug)]
struct Units {
    permit: OwnedSemaphorePermit,
    _owned: Option<Owned>,
}

/// Units that an owner has, until it is dropped.
#[derive(Debug)]
struct Owned {
    by_owner: Arc<Mutex<HashMap<String, usize>>>,
    owner: String,
    units: usize,
}

impl Drop for Owned {
    fn drop(&mut self) {
        let mut by_owner = self.by_owner.lock();
        let own = by_owner.remove(&self.owner).unwrap_or_default();
        if own > self.units {
            by_owner.insert(std::mem::take(&mut self.owner), own - self.units);
        }
    }
}

impl Place {
    /// Bytes that it takes of the room.
    pub(crate) fn bytes(&self) -> usize {
        self.all.permit.num_permits() * UNIT_BYTES
    }
}

impl Part {
    fn new(units: usize) -> Part {
        Part { free: Arc::new(Semaphore::new(units)), owned: Arc::default() }
    }

    fn take(&self, units: u32, owner: Option<&str>) -> Option<Units> {
        let take = || self.free.clone().try_acquire_many_owned(units).ok();
        let Some(owner) = owner else { return Some(Units { permit: take()?, _owned: None }) };
        let mut by_owner = self.owned.lock();
        let permit = take()?;
        let (units, left) = (permit.num_permits(), self.free.available_permits());
        let own = by_owner.get(owner).copied().unwrap_or_default();
        // Who has nothing may have all that is there: what is larger than a part has its turn too.
        if own > 0 && own + units > OWNED_TIMES * left {
            return None;
        }
        by_owner.insert(owner.to_owned(), own + units);
        let owned = Owned { by_owner: self.owned.clone(), owner: owner.to_owned(), units };
        Some(Units { permit, _owned: Some(owned) })
    }
}

impl Room {
    pub(crate) fn new(bytes: usize) -> Room {
        let room = Room::of_large(bytes);
        let large = Part::new(room.units / 4 * LARGE_QUARTERS);
        let readers = Part::new(room.units / READERS_PART);
        Room { large: Some(large), readers: Some(readers), ..room }
    }

    /// One in which nobody small asks for a place, so that all of it is for large bodies.
    pub(crate) fn of_large(bytes: usize) -> Room {
        let units = (bytes / UNIT_BYTES).min(Semaphore::MAX_PERMITS);
        Room { all: Part::new(units), large: None, readers: None, units }
    }

    /// How many large bodies of that many bytes an empty room of large ones has places for.
    pub(crate) fn places_of(&self, bytes: usize) -> usize {
        let units = bytes.saturating_mul(COPIES).div_ceil(UNIT_BYTES);
        self.units / units.max(1)
    }

    /// Bytes that are taken now.
    pub(crate) fn taken_bytes(&self) -> usize {
        (self.units - self.all.free.available_permits().min(self.units)) * UNIT_BYTES
    }

    /// Bytes that can be taken in all.
    pub(crate) fn bytes(&self) -> usize {
        self.units * UNIT_BYTES
    }

    /// A place for that many bytes, if there is one now.
    pub(crate) fn take(&self, bytes: usize) -> Option<Place> {
        self.take_for(bytes, None)
    }

    /// The same for an `owner`, if the room has several.
    pub(crate) fn take_for(&self, bytes: usize, owner: Option<&str>) -> Option<Place> {
        self.place_for(bytes.checked_mul(COPIES)?, self.part_of(bytes), owner)
    }

    /// The same for somebody who may only read.
    pub(crate) fn take_for_reader(&self, bytes: usize, owner: Option<&str>) -> Option<Place> {
        self.place_for(bytes.checked_mul(COPIES)?, self.readers.as_ref(), owner)
    }

    /// The same for that many bytes of which there are no copies and that have nothing to spare.
    pub(crate) fn take_once_for(&self, bytes: usize, owner: Option<&str>) -> Option<Place> {
        self.place_for(bytes, self.part_of(bytes), owner)
    }

    /// The part that a body of so many bytes has to lie in.
    fn part_of(&self, bytes: usize) -> Option<&Part> {
        self.large.as_ref().filter(|_| bytes > SMALL_BYTES_MAX)
    }

    fn place_for(&self, bytes: usize, part: Option<&Part>, owner: Option<&str>) -> Option<Place> {
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES)).ok()?;
        let of_part = match part {
            Some(part) => Some(part.take(units, owner)?),
            None => None,
        };
        Some(Place { all: self.all.take(units, owner)?, _of_part: of_part })
    }
}

#[cfg(test)]
mod tests {
    use super::{Place, Room, SMALL_BYTES_MAX};

    #[test]
    fn large_bodies_leave_room_for_small_ones() {
        let room = Room::new(32 << 20);
        let large: Vec<_> = std::iter::from_fn(|| room.take(4 << 20)).collect();
        assert_eq!(large.len(), 3);
        assert!(room.take(SMALL_BYTES_MAX + 1).is_none());
        let small: Vec<_> = std::iter::from_fn(|| room.take(SMALL_BYTES_MAX)).collect();
        assert_eq!(small.len(), 64);
        assert!(room.take(1).is_none());
        drop(large);
        assert!(room.take(4 << 20).is_some());
        drop(small);
        assert!(room.take(0).is_some() && room.take(usize::MAX).is_none());
    }

    #[test]
    fn without_small_ones_all_of_it_is_for_large_ones() {
        let room = Room::of_large(256 << 20);
        assert_eq!(room.places_of(16 << 20), 8);
        let large: Vec<_> = std::iter::from_fn(|| room.take(16 << 20)).collect();
        assert_eq!((large.len(), room.taken_bytes()), (8, room.bytes()));
        assert_eq!(room.places_of(usize::MAX), 0);
        drop(large);
        let once: Vec<_> = std::iter::from_fn(|| room.take_once_for(16 << 20, None)).collect();
        assert_eq!((once.len(), room.taken_bytes()), (16, room.bytes()));
        assert_eq!(once.iter().map(Place::bytes).sum::<usize>(), room.bytes());
    }

    #[test]
    fn an_owner_who_has_much_leaves_some_to_others() {
        let room = Room::of_large(256 << 20);
        let places = |owner: &str| -> Vec<Place> {
            std::iter::from_fn(|| room.take_once_for(16 << 20, Some(owner))).collect()
        };
        let first = places("first");
        assert_eq!(first.len(), 12);
        let second = places("second");
        assert_eq!(second.len(), 3);
        assert!(room.take_for(16 << 20, Some("third")).is_none(), "twice what is left");
        let third = places("third");
        assert_eq!((third.len(), room.taken_bytes()), (1, room.bytes()));
        drop((second, third));
        assert_eq!(places("first").len(), 0, "they have what they may");
        drop(first);
        assert!(room.all.owned.lock().is_empty());
        let all = room.take_once_for(256 << 20, Some("first"));
        assert!(all.is_some(), "who has nothing may have all of it");
        drop(all);
        assert_eq!((room.taken_bytes(), room.all.owned.lock().len()), (0, 0));
    }

    #[test]
    fn an_owner_of_large_bodies_leaves_some_to_those_of_others() {
        let room = Room::new(256 << 20);
        let places = |bytes: usize, owner: &str| -> Vec<Place> {
            std::iter::from_fn(|| room.take_for(bytes, Some(owner))).collect()
        };
        let large = places(4 << 20, "first");
        let small = places(SMALL_BYTES_MAX, "first");
        // Three quarters of what large bodies may have, and of the room.
        assert_eq!((large.len(), small.len()), (18, 384));
        let large = (large, places(4 << 20, "second"));
        let small = (small, places(SMALL_BYTES_MAX, "second"));
        assert_eq!((large.1.len(), small.1.len()), (4, 128));
        drop((large, small));
        assert_eq!((room.taken_bytes(), room.all.owned.lock().len()), (0, 0));
    }

    #[test]
    fn who_may_only_read_has_a_small_part() {
        let room = Room::new(32 << 20);
        let reader = |owner| room.take_for_reader(32 << 10, owner);
        let places: Vec<_> = std::iter::from_fn(|| reader(None)).collect();
        assert_eq!((places.len(), room.taken_bytes()), (32, 2 << 20));
        assert!(room.take(SMALL_BYTES_MAX).is_some() && room.take(4 << 20).is_some());
        drop(places);
        let places: Vec<_> = std::iter::from_fn(|| reader(Some("first"))).collect();
        assert_eq!(places.len(), 24);
        assert!(reader(Some("second")).is_some());
    }

    #[test]
    fn small_bodies_may_fill_it_all() {
        let room = Room::new(1 << 20);
        let small: Vec<_> = std::iter::from_fn(|| room.take(512)).collect();
        assert_eq!(small.len(), 1024);
        assert!(room.take(1).is_none());
    }
}
