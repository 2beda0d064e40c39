//! A memtable as most LSM engines have it: a skiplist in an arena, nothing beside it.
//!
//! A node lies in one piece: height, the offsets of its successors, lengths, timestamp, key, value.
//! One node in four is of the next height, up to twelve. Versions of a key stand beside each other,
//! the newest first, so an overwrite is an insert like any other, and a get is a search for the
//! first version. Rows that come in order are put behind the last one without a search.
//!
//! It is better off than one in use would be: a single thread reads and writes it, so no link is
//! atomic and nobody waits.

use std::cmp::Ordering;
use tabulith::env::rng::Rng;

/// Levels. 4^12 rows are more than any memtable has.
const HEIGHT_MAX: usize = 12;

/// No node: nothing lies at the start of the arena.
const NONE: u32 = 0;

const LINK: usize = 4;
/// Behind the links: two lengths and a timestamp.
const HEAD: usize = 4 + 4 + 8;

/// The list.
#[derive(Debug)]
pub struct SkipList {
    arena: Vec<u8>,
    /// The first node of each level.
    heads: [u32; HEIGHT_MAX],
    /// The node before the place of the last insert, by level; [`NONE`] stands for the head.
    splice: [u32; HEIGHT_MAX],
    rng: Rng,
}

impl Default for SkipList {
    fn default() -> SkipList {
        let heads = [NONE; HEIGHT_MAX];
        SkipList { arena: vec![0; 8], heads, splice: heads, rng: Rng::seeded(1) }
    }
}

impl SkipList {
    /// Adds a version of a row. `ts` must be above that of every earlier call.
    pub fn insert(&mut self, key: &[u8], ts: u64, value: &[u8]) {
        if !self.splice_fits(key) {
            self.find_splice(key);
        }
        let mut height = 1;
        while height < HEIGHT_MAX && self.rng.one_in(4) {
            height += 1;
        }
        let node = self.arena.len() as u32;
        self.arena.push(height as u8);
        for level in 0..height {
            let next = self.next(self.splice[level], level);
            self.arena.extend_from_slice(&next.to_le_bytes());
        }
        self.arena.extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.arena.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.arena.extend_from_slice(&ts.to_le_bytes());
        self.arena.extend_from_slice(key);
        self.arena.extend_from_slice(value);
        for level in 0..height {
            self.link(self.splice[level], level, node);
            self.splice[level] = node;
        }
    }

    /// The newest value of a row.
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        let node = self.seek(key);
        (node != NONE && self.key(node) == key).then(|| self.value(node))
    }

    /// Walks at most `rows` versions upwards from `key`; bytes of keys and values.
    pub fn scan(&self, key: &[u8], rows: usize) -> usize {
        let (mut node, mut bytes) = (self.seek(key), 0);
        for _ in 0..rows {
            if node == NONE {
                break;
            }
            bytes += self.key(node).len() + self.value(node).len();
            node = self.next(node, 0);
        }
        bytes
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.arena.len()
    }

    /// The first version at or behind `key`.
    fn seek(&self, key: &[u8]) -> u32 {
        let mut before = NONE;
        let mut at = NONE;
        for level in (0..HEIGHT_MAX).rev() {
            at = self.next(before, level);
            while at != NONE && self.key(at).cmp(key) == Ordering::Less {
                before = at;
                at = self.next(before, level);
            }
        }
        at
    }

    fn find_splice(&mut self, key: &[u8]) {
        let mut before = NONE;
        for level in (0..HEIGHT_MAX).rev() {
            let mut at = self.next(before, level);
            while at != NONE && self.key(at).cmp(key) == Ordering::Less {
                before = at;
                at = self.next(before, level);
            }
            self.splice[level] = before;
        }
    }

    /// Whether `key` comes right behind the last insert: its place is known then, at every level.
    fn splice_fits(&self, key: &[u8]) -> bool {
        let last = self.splice[0];
        if last == NONE || self.key(last) >= key {
            return false;
        }
        let next = self.next(last, 0);
        next == NONE || key <= self.key(next)
    }

    fn u32_at(&self, at: usize) -> u32 {
        let bytes = self.arena.get(at..).and_then(|rest| rest.first_chunk::<4>());
        bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    fn next(&self, node: u32, level: usize) -> u32 {
        match node {
            NONE => self.heads[level],
            node => self.u32_at(node as usize + 1 + level * LINK),
        }
    }

    fn link(&mut self, before: u32, level: usize, node: u32) {
        match before {
            NONE => self.heads[level] = node,
            before => {
                let at = before as usize + 1 + level * LINK;
                self.arena[at..at + LINK].copy_from_slice(&node.to_le_bytes());
            }
        }
    }

    fn head(&self, node: u32) -> usize {
        node as usize + 1 + usize::from(self.arena[node as usize]) * LINK
    }

    fn key(&self, node: u32) -> &[u8] {
        let head = self.head(node);
        let len = self.u32_at(head) as usize;
        &self.arena[head + HEAD..head + HEAD + len]
    }

    fn value(&self, node: u32) -> &[u8] {
        let head = self.head(node);
        let (key, value) = (self.u32_at(head) as usize, self.u32_at(head + 4) as usize);
        &self.arena[head + HEAD + key..head + HEAD + key + value]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{key, random};
    use std::collections::BTreeMap;

    #[test]
    fn it_answers_as_an_ordered_map_does() {
        let (mut list, mut map) = (SkipList::default(), BTreeMap::new());
        let runs = random(1, 200, 3000).flat_map(|start| start..start + 10);
        for (ts, i) in (1..).zip(random(2, 2000, 3000).chain(runs)) {
            list.insert(&key(i), ts, &ts.to_le_bytes());
            map.insert(key(i), ts.to_le_bytes());
        }
        for i in 0..3100 {
            assert_eq!(list.get(&key(i)), map.get(&key(i)).map(|value| &value[..]), "row {i}");
        }
        let mut walk = list.heads[0];
        let (mut keys, mut last) = (Vec::new(), &[][..]);
        while walk != NONE {
            if list.key(walk) != last {
                last = list.key(walk);
                keys.push(last.to_vec());
            }
            walk = list.next(walk, 0);
        }
        assert!(keys.iter().eq(map.keys()));
    }
}
