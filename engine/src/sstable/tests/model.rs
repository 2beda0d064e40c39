//! Every read of a file gives what an ordered map of the same rows gives.

use super::*;
use crate::cursor::Cursor;
use crate::error::Kind;
use crate::key::fences::common_len;
use crate::key::hash;
use crate::key::range::KeyRange;
use crate::lapsing::Lapsing;
use crate::options::Reach;
use crate::sstable::dump::Depth;
use crate::sstable::iter::TableCursor;
use crate::sstable::pass::Pass;
use std::ops::Bound;

/// What stands at a position: key, timestamp, kind, value.
type Row = (Vec<u8>, CommitTs, RowKind, Vec<u8>);

fn row(entry: (&Version, &(RowKind, Vec<u8>))) -> Row {
    let ((key, Reverse(ts)), (kind, value)) = entry;
    (key.clone(), *ts, *kind, value.clone())
}

fn here(cursor: &mut TableCursor) -> Option<Row> {
    if !cursor.valid() {
        return None;
    }
    let value = cursor.value().unwrap().to_vec();
    Some((cursor.key().to_vec(), cursor.ts(), cursor.kind(), value))
}

fn model_seek(model: &Model, key: &[u8], ts: CommitTs) -> Option<Row> {
    model.range((key.to_vec(), Reverse(ts))..).next().map(row)
}

fn model_seek_before(model: &Model, key: &[u8]) -> Option<Row> {
    let end = (key.to_vec(), Reverse(CommitTs::MAX));
    model.range((Bound::Unbounded, Bound::Excluded(end))).next_back().map(row)
}

/// A key of the model, one beside it, or any.
fn some_key(rng: &mut Rng, model: &Model) -> Vec<u8> {
    let mut key = model.keys().nth(rng.below(model.len() as u64) as usize).unwrap().0.clone();
    match rng.below(6) {
        0 => key.push(rng.next_u64() as u8),
        1 => drop(key.pop()),
        2 => *key.last_mut().unwrap() ^= 1 << rng.below(8),
        3 => key = order::row_key(TableId(rng.below(4) as u32), &random_part(rng), b"x"),
        _ => {}
    }
    key
}

fn some_ts(rng: &mut Rng) -> CommitTs {
    match rng.below(4) {
        0 => CommitTs::MAX,
        1 => CommitTs::ZERO,
        _ => CommitTs(random_ts(rng)),
    }
}

fn check_gets(rng: &mut Rng, model: &Model, file: &TableFile, count: usize) {
    for _ in 0..count {
        let (key, at) = (some_key(rng, model), some_ts(rng));
        let hash = hash::of(&key, order::prefix_len(&key).unwrap_or(0));
        let found = file.get(&key, hash.row, at, Reach::Disk).unwrap();
        let found = found.map(|f| (key.clone(), f.ts, f.kind, f.value.to_vec()));
        let wanted = model_seek(model, &key, at).filter(|row| row.0 == key);
        assert_eq!(found, wanted, "get {key:?} at {at}");
    }
}

fn check_filters(model: &Model, file: &TableFile) {
    for (key, _) in model.keys() {
        let hash = hash::of(key, order::prefix_len(key).unwrap());
        assert!(file.may_hold_row(hash.row) && file.may_hold_partition(hash.partition));
    }
}

fn check_walks(model: &Model, mut cursor: TableCursor) {
    cursor.seek(b"", CommitTs::MAX).unwrap();
    for entry in model {
        assert_eq!(here(&mut cursor), Some(row(entry)));
        cursor.next().unwrap();
    }
    assert!(!cursor.valid());
    cursor.seek_before(&[0xff; 5]).unwrap();
    for entry in model.iter().rev() {
        assert_eq!(here(&mut cursor), Some(row(entry)));
        cursor.prev().unwrap();
    }
    assert!(!cursor.valid());
}

/// Passes versions of the key here in one of the ways in which a reader does; what it must then
/// stand on.
fn pass_versions(
    rng: &mut Rng,
    model: &Model,
    cursor: &mut TableCursor,
    at: &Version,
) -> Option<Row> {
    let ((key, Reverse(ts)), mut scratch) = (at, Vec::new());
    let after =
        |ts: CommitTs| model.range((Bound::Excluded((key.clone(), Reverse(ts))), Bound::Unbounded));
    let of_key = |row: &Row| row.0 == *key;
    let is_oldest = after(*ts).next().is_none_or(|((next, _), _)| next != key);
    let newest = model_seek(model, key, CommitTs::MAX).unwrap().1;
    let seen_at = match rng.below(3) {
        0 => some_ts(rng),
        _ => CommitTs(rng.below(newest.0.max(1))),
    };
    if seen_at < *ts && rng.one_in(2) {
        let stays = cursor.pass_newer(seen_at, &mut scratch).unwrap();
        let expected = model_seek(model, key, seen_at);
        assert_eq!(stays, expected.as_ref().is_some_and(of_key), "{key:?} at {seen_at}");
        expected
    } else if is_oldest {
        let found = cursor.pass_key(seen_at, &mut scratch).unwrap();
        let found = found.map(|f| (key.clone(), f.ts, f.kind, f.value.to_vec()));
        assert_eq!(found, model_seek(model, key, seen_at).filter(of_key), "{key:?} at {seen_at}");
        model_seek_before(model, key)
    } else {
        cursor.leave_key(&mut scratch).unwrap();
        after(CommitTs::ZERO).next().map(row)
    }
}

fn check_seeks(rng: &mut Rng, model: &Model, file: &Arc<TableFile>, count: usize) {
    let mut cursor = file.cursor();
    assert!(!cursor.valid(), "unpositioned");
    for _ in 0..count {
        let (key, ts) = (some_key(rng, model), some_ts(rng));
        let mut expected = if rng.one_in(2) {
            cursor.seek(&key, ts).unwrap();
            model_seek(model, &key, ts)
        } else {
            cursor.seek_before(&key).unwrap();
            model_seek_before(model, &key)
        };
        assert_eq!(here(&mut cursor), expected, "seek {key:?} at {ts}");
        for _ in 0..rng.below(12) {
            let Some((key, ts, ..)) = expected.clone() else { break };
            let here_key = (key.clone(), Reverse(ts));
            expected = match rng.below(5) {
                0 => pass_versions(rng, model, &mut cursor, &here_key),
                1 | 2 => {
                    cursor.next().unwrap();
                    let after = (Bound::Excluded(here_key), Bound::Unbounded);
                    model.range(after).next().map(row)
                }
                _ => {
                    cursor.prev().unwrap();
                    model.range(..here_key).next_back().map(row)
                }
            };
            assert_eq!(here(&mut cursor), expected, "a step after seek {key:?} at {ts}");
        }
    }
}

fn check_meta(model: &Model, meta: &FileMeta, file: &MemoryFile) {
    let stamps = || model.keys().map(|(_, Reverse(ts))| *ts);
    let deletes = model.iter().filter(|(_, (kind, _))| *kind == RowKind::Delete);
    let deletes: Vec<_> = deletes.map(|((_, Reverse(ts)), _)| *ts).collect();
    let mut replaced = Lapsing::default();
    for (((newer, Reverse(by)), _), ((key, _), _)) in model.iter().zip(model.iter().skip(1)) {
        if newer == key {
            replaced.count(*by);
        }
    }
    let expected = FileMeta {
        no: NO,
        bytes: file.bytes().len() as u64,
        smallest: model.first_key_value().unwrap().0.0.clone(),
        largest: model.last_key_value().unwrap().0.0.clone(),
        min_ts: stamps().min().unwrap(),
        max_ts: stamps().max().unwrap(),
        rows: model.len() as u64,
        deletes: deletes.len() as u64,
        oldest_delete: deletes.iter().copied().min().unwrap_or_default(),
        expiring: Default::default(),
        replaced,
        erased_to: CommitTs::ZERO,
        aged_to: CommitTs::ZERO,
        blobs: Default::default(),
        checksum: xxhash_rust::xxh3::xxh3_64(&file.bytes()),
    };
    assert_eq!(*meta, expected);
    assert_eq!(file.syncs(), 1);
}

/// A pass shows every version in order, and says of no key that it shares more than it does.
fn check_pass(model: &Model, mut pass: Pass) {
    let mut last = Vec::new();
    for ((key, Reverse(ts)), (kind, value)) in model {
        assert!(pass.next().unwrap());
        assert_eq!((pass.key(), pass.ts(), pass.kind()), (&key[..], *ts, *kind));
        assert_eq!(Some(pass.prefix_len()), order::prefix_len(key));
        assert_eq!(pass.key_and_value().unwrap(), (&key[..], &value[..]));
        assert!(pass.shared() <= common_len(&last, key));
        last.clone_from(key);
    }
    assert!(!pass.next().unwrap());
}

/// Passes over parts of a file that begin and end anywhere show its rows between them.
fn check_parts(rng: &mut Rng, model: &Model, file: &Arc<TableFile>) {
    for _ in 0..20 {
        let any = |rng: &mut Rng| {
            let mut keys = model.keys().map(|(key, _)| key.clone());
            let mut key = keys.nth(rng.below(model.len() as u64) as usize).unwrap();
            if rng.one_in(3) {
                key.push(0);
            } else if rng.one_in(3) {
                key.truncate(rng.below(key.len() as u64) as usize);
            }
            key
        };
        let (a, b) = (any(rng), any(rng));
        let range = KeyRange { start: a.clone().min(b.clone()), end: a.max(b) };
        let within = model.iter().filter(|((key, _), _)| range.contains(key));
        let within = within.map(|(at, row)| (at.clone(), row.clone())).collect();
        check_pass(&within, file.pass_in(1 << 10, &range));
    }
}

fn check_all(seed: u64, model: &Model, options: TableOptions, cache_bytes: usize) {
    println!("replay: seed {seed}, {options:?}, cache {cache_bytes}");
    let mut rng = Rng::seeded(seed);
    let (bytes, meta) = build(model, options);
    check_meta(model, &meta, &bytes);
    let file = open(&bytes, &meta, cache_bytes).unwrap();
    check_filters(model, &file);
    check_pass(model, file.pass(1 << 20));
    check_parts(&mut rng, model, &file);
    assert_eq!(file.verify(&meta).unwrap().rows, meta.rows);
    for file in [file, open_mapped(&bytes, &meta, cache_bytes).unwrap()] {
        check_walks(model, file.cursor());
        check_gets(&mut rng, model, &file, 400);
        check_seeks(&mut rng, model, &file, 150);
    }
}

#[test]
fn random_rows_in_every_shape_of_file() {
    for seed in 0..24 {
        let mut rng = Rng::seeded(seed);
        let keys = [1, 5, 60, 300][rng.below(4) as usize];
        let (versions, value_max) = [(1, 100), (4, 40), (40, 10), (2, 3000)][(seed % 4) as usize];
        let model = random_model(&mut rng, keys, versions, value_max);
        for (block_bytes, bits, compression, cache) in
            [(256, 0, true, 0), (1024, 10, false, 1 << 20), (64 << 10, 10, true, 32 << 10)]
        {
            check_all(seed, &model, options(block_bytes, bits, compression), cache);
        }
    }
}

#[test]
fn a_file_prints_as_text() {
    let mut model = Model::new();
    for (pk, rk, ts, row) in [
        ("a", "1", 5, (RowKind::Put, b"new".to_vec())),
        ("a", "1", 3, (RowKind::Put, vec![b'o'; 50])),
        ("b", "\u{1}", 4, (RowKind::Delete, vec![])),
    ] {
        let key = order::row_key(TableId(1), pk.as_bytes(), rk.as_bytes());
        model.insert((key, Reverse(CommitTs(ts))), row);
    }
    let (bytes, meta) = build(&model, options(4096, 10, false));
    let mut lines = Vec::new();
    let file = open(&bytes, &meta, 0).unwrap();
    file.dump(Depth::Rows, &mut |line| {
        lines.push(line.to_owned());
        Ok(())
    })
    .unwrap();
    let shown = lines.split_off(7).join("\n");
    assert_eq!(
        shown,
        "\
filters damaged              0
bytes in memory            205
blocks                       1
partitions                   2
rows                         3  deletes 1
value bytes                 53
timestamps        3 to 5
first key         1/a/1
last key          1/b/\\x01
block at 0: 154 bytes, 3 rows, 0 plain, 2 partitions, keys 97, values 53 stored as 53, up to 1/b/\\x01 @0
  1/a/1 @5 put 3 bytes new
  1/a/1 @3 put 50 bytes oooooooooooooooooooooooooooooooooooooooo…
  1/b/\\x01 @4 delete"
    );
}

#[test]
fn one_row_and_an_empty_row() {
    for value in [vec![], vec![7; 10]] {
        let key = order::row_key(TableId(0), b"", b"");
        let model = Model::from([((key, Reverse(CommitTs(0))), (RowKind::Put, value))]);
        check_all(1, &model, options(256, 10, true), 0);
    }
}

/// A key that was written again and again, between two that were not.
fn hot_model(rng: &mut Rng) -> Model {
    let mut model = Model::new();
    for rk in [&b"a"[..], b"hot", b"z"] {
        let versions = if rk == b"hot" { 70_000 } else { 3 };
        for ts in 0..versions {
            let key = order::row_key(TableId(1), b"p", rk);
            let value = random_value(rng, 6);
            model.insert((key, Reverse(CommitTs(ts * 3))), (RowKind::Put, value));
        }
    }
    model
}

#[test]
fn versions_beyond_one_block_are_told_apart_by_the_index() {
    let mut rng = Rng::seeded(5);
    let model = hot_model(&mut rng);
    let (bytes, meta) = build(&model, options(4096, 10, true));
    let file = open(&bytes, &meta, 1 << 20).unwrap();
    assert!(file.props().blocks > 3, "{:?}", file.props());
    let key = order::row_key(TableId(1), b"p", b"hot");
    let hash = hash::of(&key, order::prefix_len(&key).unwrap());
    for at in (0..210_100).step_by(101).map(CommitTs) {
        let found = file.get(&key, hash.row, at, Reach::Disk).unwrap().unwrap();
        assert_eq!(found.ts, CommitTs((at.0 / 3).min(69_999) * 3));
    }
    check_walks(&model, file.cursor());
    check_seeks(&mut rng, &model, &file, 50);
    file.verify(&meta).unwrap();
    let replaced = Lapsing { rows: meta.replaced.rows + 1, ..meta.replaced };
    let wrong = FileMeta { replaced, ..meta.clone() };
    assert!(file.verify(&wrong).unwrap_err().to_string().contains("replaced"));
}

/// Whoever leaves a key, or looks for one of its versions, asks the index and walks through none of
/// the blocks between, in either direction.
#[test]
fn versions_beyond_one_block_are_passed_unread() {
    let model = hot_model(&mut Rng::seeded(6));
    let (bytes, meta) = build(&model, options(4096, 10, true));
    let cache = Arc::new(BlockCache::new(0));
    let file = TableFile::open(bytes, PathBuf::from(PATH), &meta, Arc::clone(&cache));
    let file = Arc::new(file.unwrap());
    assert!(file.props().blocks > 12, "{:?}", file.props());
    let key = |rk: &[u8]| order::row_key(TableId(1), b"p", rk);
    let (hot, mut scratch) = (key(b"hot"), Vec::new());
    for at in (0..210_100).step_by(4_321).map(CommitTs) {
        let wanted = model_seek(&model, &hot, at);
        let before = cache.counts().misses;
        let mut cursor = file.cursor();
        cursor.seek(&hot, CommitTs::MAX).unwrap();
        if cursor.ts() > at {
            assert!(cursor.pass_newer(at, &mut scratch).unwrap());
        }
        assert_eq!(here(&mut cursor), wanted);
        cursor.leave_key(&mut scratch).unwrap();
        assert_eq!(cursor.key(), key(b"z"));
        let upwards = cache.counts().misses - before;
        let mut cursor = file.cursor();
        cursor.seek_before(&key(b"z")).unwrap();
        let found = cursor.pass_key(at, &mut scratch).unwrap().unwrap();
        assert_eq!(Some((hot.clone(), found.ts, found.kind, found.value.to_vec())), wanted);
        assert_eq!(cursor.key(), key(b"a"));
        let downwards = cache.counts().misses - before - upwards;
        assert!(upwards <= 4 && downwards <= 5, "{upwards} and {downwards} blocks, at {at}");
    }
}

#[test]
fn the_largest_values_have_a_block_of_their_own() {
    use crate::limits::VALUE_BYTES_MAX;
    let key = |rk: &[u8]| order::row_key(TableId(1), b"p", rk);
    let big: Vec<u8> = (0..VALUE_BYTES_MAX).map(|i| (i >> 7) as u8).collect();
    for compression in [true, false] {
        let mut model = Model::new();
        for rk in [b"a", b"b", b"c", b"d"] {
            let value = if rk == b"b" { big.clone() } else { rk.to_vec() };
            model.insert((key(rk), Reverse(CommitTs(1))), (RowKind::Put, value));
        }
        let (bytes, meta) = build(&model, options(4096, 10, compression));
        let file = open(&bytes, &meta, 1 << 20).unwrap();
        assert_eq!(file.props().blocks, 3);
        let hash = hash::of(&key(b"b"), 7);
        let found = file.get(&key(b"b"), hash.row, CommitTs::MAX, Reach::Disk).unwrap().unwrap();
        assert!(found.value == big);
        assert_eq!(compression, bytes.bytes().len() < big.len());
    }
    let file = Arc::new(MemoryFile::default());
    let mut builder = TableBuilder::new(file, Path::new(PATH), NO, options(4096, 10, true));
    let over = vec![0; VALUE_BYTES_MAX + 1];
    let error = builder.add(&key(b"a"), 7, CommitTs(1), RowKind::Put, &over).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid);
}

#[test]
fn the_size_is_known_while_the_file_grows() {
    let file = Arc::new(MemoryFile::default());
    let mut builder = TableBuilder::new(file, Path::new(PATH), NO, options(4096, 10, false));
    assert!(builder.is_empty());
    for i in 0..5000u32 {
        let key = order::row_key(TableId(1), b"p", &i.to_be_bytes());
        builder.add(&key, 7, CommitTs(1), RowKind::Put, &[7; 50]).unwrap();
    }
    let guess = builder.bytes_so_far() as f64;
    let bytes = builder.finish().unwrap().bytes as f64;
    assert!((guess / bytes - 1.0).abs() < 0.05, "{guess} for {bytes}");
}

#[test]
fn rows_out_of_order_are_refused() {
    let key = |pk: &[u8], rk: &[u8]| order::row_key(TableId(1), pk, rk);
    let refuses = |key: &[u8], prefix_len: usize, ts: u64, kind: RowKind, value: &[u8]| {
        let file = Arc::new(MemoryFile::default());
        let mut builder = TableBuilder::new(file, Path::new(PATH), NO, options(4096, 10, true));
        let first = order::row_key(TableId(1), b"p", b"m");
        builder.add(&first, 7, CommitTs(5), RowKind::Put, b"v").unwrap();
        builder.add(key, prefix_len, CommitTs(ts), kind, value).is_err()
    };
    assert!(refuses(&key(b"p", b"a"), 7, 5, RowKind::Put, b""), "a lower key");
    assert!(refuses(&key(b"p", b"m"), 7, 5, RowKind::Put, b""), "the same version");
    assert!(refuses(&key(b"p", b"m"), 7, 6, RowKind::Put, b""), "a newer version");
    assert!(refuses(&key(b"p", b"m"), 6, 4, RowKind::Put, b""), "another partition for the key");
    assert!(refuses(&key(b"p", b"z"), 8, 5, RowKind::Put, b""), "a prefix within the prefix");
    assert!(refuses(&key(b"p", b"z"), 99, 5, RowKind::Put, b""), "a prefix beyond the key");
    assert!(refuses(&key(b"p", b"z"), 7, 5, RowKind::Delete, b"v"), "a delete with a value");
    assert!(!refuses(&key(b"p", b"m"), 7, 4, RowKind::Put, b""), "an older version");
    assert!(!refuses(&key(b"p", b"n"), 7, 9, RowKind::Delete, b""), "a higher key");
    let file = Arc::new(MemoryFile::default());
    let empty = TableBuilder::new(file, Path::new(PATH), NO, options(4096, 10, true));
    assert!(empty.is_empty() && empty.finish().is_err(), "a file without rows");
}

#[test]
fn memory_only_reads_answer_from_filter_and_cache_or_say_so() {
    let mut rng = Rng::seeded(9);
    let model = random_model(&mut rng, 200, 1, 60);
    let (bytes, meta) = build(&model, options(512, 10, true));
    let file = open(&bytes, &meta, 1 << 20).unwrap();
    let reads_at_open = bytes.reads();
    for ((key, Reverse(ts)), (_, value)) in &model {
        let hash = hash::of(key, order::prefix_len(key).unwrap());
        let get = |reach| file.get(key, hash.row, *ts, reach);
        if let Err(error) = get(Reach::Memory) {
            assert_eq!(error.kind(), Kind::WouldBlock);
            get(Reach::Disk).unwrap();
        }
        assert_eq!(get(Reach::Memory).unwrap().unwrap().value, value[..]);
    }
    let blocks = file.props().blocks as usize;
    assert_eq!(bytes.reads() - reads_at_open, blocks, "each block is read once");
    let absent = order::row_key(TableId(9), b"no", b"such row");
    let mut passed = 0;
    for i in 0..1000u32 {
        let key = [&absent[..], &i.to_be_bytes()].concat();
        let hash = hash::of(&key, 8);
        passed += usize::from(file.may_hold_row(hash.row));
        assert!(file.get(&key, hash.row, CommitTs::MAX, Reach::Memory).unwrap().is_none());
    }
    assert!(passed < 40, "{passed} of 1000 absent keys pass the filter");
}

#[test]
fn keys_are_walked_without_decompressing_values() {
    let mut model = Model::new();
    for i in 0..200u32 {
        let key = order::row_key(TableId(1), b"p", &i.to_be_bytes());
        model.insert((key, Reverse(CommitTs(1))), (RowKind::Put, vec![7; 100]));
    }
    let (bytes, meta) = build(&model, options(4096, 0, true));
    let file = open(&bytes, &meta, 0).unwrap();
    let handle = file.index().handle(file.index().first());
    bytes.change(|bytes| super::damage::break_values(bytes, handle));
    let mut cursor = file.cursor();
    cursor.seek(b"", CommitTs::MAX).unwrap();
    for (key, _) in model.keys() {
        assert_eq!(cursor.key(), key);
        cursor.next().unwrap();
    }
    cursor.seek(b"", CommitTs::MAX).unwrap();
    let error = cursor.value().unwrap_err();
    assert_eq!((error.kind(), error.place().unwrap().1), (Kind::Corrupt, Some(handle.offset)));
    assert!(!cursor.valid());
    assert_eq!(cursor.next().unwrap_err().kind(), Kind::Corrupt, "the first error stays");
    assert_eq!(cursor.seek(b"", CommitTs::MAX).unwrap_err().kind(), Kind::Corrupt);
}
