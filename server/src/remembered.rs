//! What was read from a store, remembered until somebody changes it there.
//!
//! Promise: what is remembered is what the store has, or had when the change that is under way
//! began. Who reads waits for no change.
//!
//! Absent: changes at the same time; those who change see to that.

use parking_lot::RwLock;
use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

/// Values by key.
#[derive(Debug)]
pub(crate) struct Remembered<K, V> {
    known: RwLock<Known<K, V>>,
    most: usize,
}

#[derive(Debug)]
struct Known<K, V> {
    /// Each with how many were remembered before it.
    values: HashMap<K, (V, u64)>,
    count: u64,
    changes: u64,
}

/// When somebody began to read from the store: after so many changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun(u64);

impl<K: Eq + Hash, V: Clone> Remembered<K, V> {
    /// Nothing yet, and never more than `most` values: one more, and the older half is forgotten.
    pub(crate) fn new(most: usize) -> Remembered<K, V> {
        let known = Known { values: HashMap::new(), count: 0, changes: 0 };
        Remembered { known: RwLock::new(known), most }
    }

    /// The value, or leave to read it from the store.
    pub(crate) fn get<Q>(&self, key: &Q) -> Result<V, Begun>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let known = self.known.read();
        known.values.get(key).map(|(value, _)| value.clone()).ok_or(Begun(known.changes))
    }

    /// Leave to read a value from the store anew.
    pub(crate) fn begin(&self) -> Begun {
        Begun(self.known.read().changes)
    }

    /// Remembers what was read, unless something has been changed since `begun`.
    pub(crate) fn keep(&self, begun: Begun, key: K, value: V) {
        let mut known = self.known.write();
        if known.changes == begun.0 {
            known.insert(key, value, self.most);
        }
    }

    /// Remembers what the store has after a change; forgets it where nobody knows.
    pub(crate) fn change(&self, key: K, value: Option<V>) {
        let mut known = self.known.write();
        known.changes += 1;
        match value {
            Some(value) => known.insert(key, value, self.most),
            None => drop(known.values.remove(&key)),
        }
    }
}

impl<K: Eq + Hash, V> Known<K, V> {
    fn insert(&mut self, key: K, value: V, most: usize) {
        if self.values.len() >= most {
            let older = self.count - most as u64 / 2;
            self.values.retain(|_, (_, place)| *place >= older);
        }
        self.values.insert(key, (value, self.count));
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_before_a_change_is_not_kept_after_it() {
        let remembered: Remembered<String, u32> = Remembered::new(2);
        let begun = remembered.get("a").expect_err("nothing is known");
        remembered.change("a".to_owned(), Some(2));
        remembered.keep(begun, "a".to_owned(), 1);
        assert_eq!(remembered.get("a").ok(), Some(2));
        let begun = remembered.get("b").expect_err("not asked for yet");
        remembered.change("a".to_owned(), None);
        remembered.keep(begun, "b".to_owned(), 1);
        assert!(remembered.get("a").is_err() && remembered.get("b").is_err());
        for key in ["a", "b", "c"] {
            let begun = remembered.get(key).expect_err("forgotten");
            remembered.keep(begun, key.to_owned(), 7);
        }
        assert_eq!(remembered.get("c").ok(), Some(7));
        assert!(remembered.get("a").is_err(), "more than there is room for");
    }

    /// All were forgotten, and all who came next read the store at once.
    #[test]
    fn the_older_half_is_forgotten_where_there_is_no_room() {
        let remembered: Remembered<u32, ()> = Remembered::new(10);
        for key in 0..11 {
            remembered.keep(remembered.begin(), key, ());
        }
        let known = || (0..16).filter(|key| remembered.get(key).is_ok()).collect::<Vec<u32>>();
        assert_eq!(known(), [5, 6, 7, 8, 9, 10]);
        remembered.change(5, Some(())); // It is the newest now.
        for key in 11..16 {
            remembered.keep(remembered.begin(), key, ());
        }
        assert_eq!(known(), [5, 11, 12, 13, 14, 15]);
    }
}
