//! Operations of rivals and of what the engine has in their place, for counts of instructions.

use super::sidecar::Sidecar;
use super::skiplist::SkipList;
use crate::counted::{Operation, Step, operation};
use crate::fixture::{hashed_key, key_values, random};
use anyhow::{Result, ensure};
use std::path::Path;
use tabulith::structures::{DataBlock, Memory};

/// Rows of a memtable of some 16 MiB.
const MEMTABLE_ROWS: u64 = 50_000;

/// Rows of a block of 16 KiB.
const BLOCK_ROWS: u64 = 64;

const VALUE: [u8; 200] = [7; 200];

/// Each rival behind the engine's own.
pub const OPERATIONS: [Operation; 8] = [
    operation("memtable: insert, tree and hash index", 10_000, insert_into_tree),
    operation("memtable: insert, skiplist", 10_000, insert_into_skiplist),
    operation("memtable: get, tree and hash index", 10_000, get_of_tree),
    operation("memtable: get, skiplist", 10_000, get_of_skiplist),
    operation("block of 64 rows: find, fingerprints", 10_000, find_by_fingerprint),
    operation("block of 64 rows: find, sidecar", 10_000, find_by_sidecar),
    operation("block of 64 rows: absent, fingerprints", 10_000, miss_by_fingerprint),
    operation("block of 64 rows: absent, sidecar", 10_000, miss_by_sidecar),
];

/// Even ones are filled in first; odd ones come after.
fn keys(seed: u64, odd: u64) -> Vec<Vec<u8>> {
    random(seed, MEMTABLE_ROWS, MEMTABLE_ROWS).map(|i| hashed_key(2 * i + odd).0).collect()
}

fn tree() -> Memory {
    let memory = Memory::default();
    for (ts, key) in (1..).zip(keys(1, 0)) {
        memory.insert(&key, ts, &VALUE);
    }
    memory
}

fn skiplist() -> SkipList {
    let mut list = SkipList::default();
    for (ts, key) in (1..).zip(keys(1, 0)) {
        list.insert(&key, ts, &VALUE);
    }
    list
}

fn insert_into_tree(_: &Path) -> Result<Step> {
    let (memory, keys) = (tree(), keys(2, 1));
    Ok(Box::new(move |i| {
        memory.insert(&keys[i as usize % keys.len()], MEMTABLE_ROWS + 1 + i, &VALUE);
        Ok(())
    }))
}

fn insert_into_skiplist(_: &Path) -> Result<Step> {
    let (mut list, keys) = (skiplist(), keys(2, 1));
    Ok(Box::new(move |i| {
        list.insert(&keys[i as usize % keys.len()], MEMTABLE_ROWS + 1 + i, &VALUE);
        Ok(())
    }))
}

fn get_of_tree(_: &Path) -> Result<Step> {
    let (memory, keys) = (tree(), keys(1, 0));
    Ok(Box::new(move |i| {
        ensure!(memory.get(&keys[i as usize * 7 % keys.len()]).is_some(), "a row");
        Ok(())
    }))
}

fn get_of_skiplist(_: &Path) -> Result<Step> {
    let (list, keys) = (skiplist(), keys(1, 0));
    Ok(Box::new(move |i| {
        ensure!(list.get(&keys[i as usize * 7 % keys.len()]).is_some(), "a row");
        Ok(())
    }))
}

/// Keys with their hashes; `odd` 0 for those of the block.
fn looked_up(odd: u64) -> Vec<(Vec<u8>, u64)> {
    random(3, 1000, BLOCK_ROWS).map(|i| hashed_key(2 * i + odd)).collect()
}

fn find(odd: u64) -> Result<Step> {
    let bytes = DataBlock::encode(&key_values((0..BLOCK_ROWS).map(|i| 2 * i)));
    let (block, keys) = (DataBlock::decode(&bytes)?, looked_up(odd));
    Ok(Box::new(move |i| {
        let (key, hash) = &keys[i as usize % keys.len()];
        ensure!(block.find(key, *hash).is_some() == (odd == 0), "row of the block");
        Ok(())
    }))
}

fn find_beside(odd: u64) -> Result<Step> {
    let own: Vec<_> = (0..BLOCK_ROWS).map(|i| hashed_key(2 * i).0).collect();
    let (sidecar, keys) = (Sidecar::of(&own), looked_up(odd));
    Ok(Box::new(move |i| {
        let (key, _) = &keys[i as usize % keys.len()];
        ensure!(sidecar.find(key).is_some() == (odd == 0), "row of the block");
        Ok(())
    }))
}

fn find_by_fingerprint(_: &Path) -> Result<Step> {
    find(0)
}

fn find_by_sidecar(_: &Path) -> Result<Step> {
    find_beside(0)
}

fn miss_by_fingerprint(_: &Path) -> Result<Step> {
    find(1)
}

fn miss_by_sidecar(_: &Path) -> Result<Step> {
    find_beside(1)
}
