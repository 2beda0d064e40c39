//! Table files read in place.

use super::memory::MemoryFile;
use super::{Model, build, open_mapped, options};
use crate::cursor::{Cursor as _, Found};
use crate::error::{Kind, Result};
use crate::ids::{CommitTs, RowKind, TableId};
use crate::key::{hash, order};
use crate::options::Reach;
use crate::sstable::format::FileMeta;
use crate::sstable::reader::TableFile;
use std::cmp::Reverse;
use std::sync::Arc;

const ROWS: usize = 400;

fn key(row: usize) -> Vec<u8> {
    order::row_key(TableId(1), b"p", format!("row-{row:06}").as_bytes())
}

fn value(row: usize) -> Vec<u8> {
    format!("value of {row} ").repeat(5).into_bytes()
}

fn rows(compression: bool) -> (Arc<MemoryFile>, FileMeta) {
    let row = |row| ((key(row), Reverse(CommitTs(9))), (RowKind::Put, value(row)));
    let model: Model = (0..ROWS).map(row).collect();
    build(&model, options(512, 10, compression))
}

fn get(file: &TableFile, row: usize, reach: Reach) -> Result<Option<Found>> {
    file.get(&key(row), hash::of_row(&key(row)), CommitTs::MAX, reach)
}

#[test]
fn nothing_is_read_or_cached() {
    let (bytes, meta) = rows(false);
    let file = open_mapped(&bytes, &meta, 1 << 20).unwrap();
    let reads = bytes.reads();
    for row in 0..ROWS {
        let found = get(&file, row, Reach::Disk).unwrap().unwrap();
        assert_eq!((found.ts, found.value.as_ref()), (CommitTs(9), &value(row)[..]));
    }
    let mut cursor = file.cursor();
    cursor.seek(b"", CommitTs::MAX).unwrap();
    for row in 0..ROWS {
        assert_eq!((cursor.key(), cursor.value_ref().unwrap()), (&key(row)[..], &value(row)[..]));
        cursor.next().unwrap();
    }
    assert_eq!(bytes.reads(), reads);
}

#[test]
fn compressed_blocks_are_unpacked_once() {
    let (bytes, meta) = rows(true);
    let file = open_mapped(&bytes, &meta, 1 << 20).unwrap();
    let reads = bytes.reads();
    let first = get(&file, 7, Reach::Disk).unwrap().unwrap();
    let again = get(&file, 7, Reach::Memory).unwrap().unwrap();
    assert_eq!(first.value, value(7));
    assert_eq!(first.value.as_ptr(), again.value.as_ptr(), "from the cache");
    assert_eq!(bytes.reads(), reads, "its bytes come from the mapping");
}

#[test]
fn damage_fails_the_reads_of_its_block_alone() {
    let (bytes, meta) = rows(false);
    bytes.change(|bytes| bytes[meta.bytes as usize / 3] ^= 1);
    let file = open_mapped(&bytes, &meta, 0).unwrap();
    let outcomes = (0..ROWS).map(|row| match get(&file, row, Reach::Disk) {
        Ok(found) => found.is_some_and(|found| found.value == value(row)),
        Err(error) => {
            assert_eq!(error.kind(), Kind::Corrupt, "{error}");
            false
        }
    });
    let failed: Vec<_> =
        outcomes.enumerate().filter(|(_, good)| !good).map(|(row, _)| row).collect();
    assert!((1..10).contains(&failed.len()), "{failed:?}");
    assert_eq!(failed.last().unwrap() - failed[0] + 1, failed.len(), "they are one block's");
    let again = get(&file, failed[0], Reach::Disk).map(drop).unwrap_err();
    assert_eq!(again.kind(), Kind::Corrupt, "what failed once is not trusted: {again}");
    let error = file.cursor().seek(&key(failed[0]), CommitTs::MAX).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
}

#[test]
fn a_block_never_used_is_not_in_memory() {
    let (bytes, meta) = rows(false);
    let file = open_mapped(&bytes, &meta, 0).unwrap();
    let kind = |file: &TableFile| get(file, 3, Reach::Memory).map(drop).map_err(|e| e.kind());
    assert_eq!(kind(&file), Err(Kind::WouldBlock));
    get(&file, 3, Reach::Disk).unwrap();
    assert_eq!(kind(&file), Ok(()));
}

#[test]
fn a_file_cut_since_it_was_opened_is_not_mapped() {
    let (bytes, meta) = rows(false);
    let cache = Arc::new(crate::sstable::reader::BlockCache::new(0));
    let file = TableFile::open(bytes.clone(), super::PATH.into(), &meta, cache).unwrap();
    bytes.change(|bytes| bytes.truncate(100));
    let error = get(&file.in_place(), ROWS - 1, Reach::Disk).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
}
