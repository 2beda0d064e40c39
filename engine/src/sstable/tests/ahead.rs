//! A long walk reads much at a time and pushes nothing out of the cache; a short one does neither.

use super::*;
use crate::cursor::Cursor;

/// A file of about 5 MB in blocks of 4 KiB.
pub(super) fn large_file() -> (Arc<MemoryFile>, FileMeta) {
    let mut model = Model::new();
    for row in 0..20_000u64 {
        let key = order::row_key(TableId(1), b"p", format!("row-{row:06}").as_bytes());
        let value = row.to_le_bytes().repeat(30);
        model.insert((key, Reverse(CommitTs(row + 1))), (RowKind::Put, value));
    }
    build(&model, options(4 << 10, 10, false))
}

fn walk(file: &Arc<TableFile>, forward: bool, rows_max: usize) -> usize {
    let mut cursor = file.cursor();
    match forward {
        true => cursor.seek(&[], CommitTs::MAX).unwrap(),
        false => cursor.seek_before(&[0xff; 8]).unwrap(),
    }
    let mut rows = 0;
    while cursor.valid() && rows < rows_max {
        rows += 1;
        if forward { cursor.next().unwrap() } else { cursor.prev().unwrap() }
    }
    rows
}

#[test]
fn a_long_walk_makes_few_reads_in_both_directions() {
    let (memory, meta) = large_file();
    let file = open(&memory, &meta, 0).unwrap();
    for forward in [true, false] {
        let before = memory.reads();
        assert_eq!(walk(&file, forward, usize::MAX), 20_000);
        let reads = memory.reads() - before;
        let least = meta.bytes / (512 << 10);
        assert!((least..least + 10).contains(&(reads as u64)), "{reads} reads, forward: {forward}");
    }
}

#[test]
fn a_short_walk_reads_once_and_little() {
    let (memory, meta) = large_file();
    let file = open(&memory, &meta, 0).unwrap();
    for forward in [true, false] {
        let before = (memory.bytes_read(), memory.reads());
        assert_eq!(walk(&file, forward, 20), 20);
        assert_eq!(memory.reads() - before.1, 1, "forward: {forward}");
        assert!(memory.bytes_read() - before.0 <= 10 << 10, "forward: {forward}");
    }
}

#[test]
fn a_long_walk_leaves_alone_what_others_use() {
    let (memory, meta) = large_file();
    let cache = Arc::new(BlockCache::new(3 << 20));
    let file = TableFile::open(memory, PathBuf::from(PATH), &meta, Arc::clone(&cache)).unwrap();
    let file = Arc::new(file);
    walk(&file, false, 10_000); // Readers of the last rows have filled the cache.
    let held = cache.counts().blocks;
    assert_eq!(walk(&file, true, usize::MAX), 20_000);
    let before = cache.counts();
    walk(&file, false, 10_000);
    let after = cache.counts();
    let (hits, misses) = (after.hits - before.hits, after.misses - before.misses);
    // The walk took the room of 1 MiB of blocks before it was a long one.
    assert!(hits > held / 2, "{hits} hits and {misses} misses on {held} blocks");
}
