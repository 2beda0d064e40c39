//! Large values of a memtable, kept as shares of the buffers that they came in.

use crate::sync::OnceLock;
use crate::sync::atomic::{AtomicU32, Ordering};
use bytes::Bytes;

const LISTS: usize = 32;

type List = Box<[OnceLock<Bytes>]>;

/// A list that grows while others read it: list `k` holds the numbers `2^k..2^(k+1)`.
#[derive(Debug, Default)]
pub(super) struct SharedValues {
    lists: [OnceLock<List>; LISTS],
    count: AtomicU32,
}

impl SharedValues {
    /// Keeps a value; returns its number. One thread at a time.
    pub(super) fn push(&self, value: Bytes) -> u32 {
        let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let place = number.ilog2();
        let list = self.lists[place as usize]
            .get_or_init(|| (0..1usize << place).map(|_| OnceLock::new()).collect());
        let set = list[(number - (1 << place)) as usize].set(value);
        debug_assert!(set.is_ok(), "a number is given once");
        number
    }

    /// How many there are.
    pub(super) fn len(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    /// The value of that number, if there is one.
    pub(super) fn get(&self, number: u32) -> Option<&Bytes> {
        let place = number.checked_ilog2()?;
        self.lists[place as usize].get()?.get((number - (1 << place)) as usize)?.get()
    }
}
