//! Damaged files give right answers or an error that names the place, and never a panic.

use super::*;
use crate::cursor::Cursor;
use crate::erasure::live::Cover;
use crate::erasure::set::{Erasure, Erasures};
use crate::error::{Error, Kind};
use crate::iter::merge::MergeCursor;
use crate::iter::visible::VisibleCursor;
use crate::key::hash;
use crate::key::range::KeyRange;
use crate::moment::Moment;
use crate::options::Reach;
use crate::sstable::block::Block;
use crate::sstable::format::{FOOTER_LEN, Footer, SUM_LEN, Stretch, seal};
use crate::sstable::index::Handle;
use crate::sstable::layout::Layout;
use bytes::Bytes;

/// Makes a block's compressed values ask for more than there is, under a mended checksum.
pub(super) fn break_values(bytes: &mut [u8], handle: Handle) {
    let stretch = Stretch { offset: handle.offset, len: handle.len.into() };
    let block = &bytes[handle.offset as usize..][..handle.len as usize - SUM_LEN];
    let values_at = Block::parse(Bytes::copy_from_slice(block)).unwrap().layout().keys_len();
    bytes[handle.offset as usize + values_at] = 0xff;
    bytes[handle.offset as usize + values_at + 1] = 0xff;
    mend(bytes, stretch);
}

/// Writes the checksum that the bytes of a stretch should have.
fn mend(bytes: &mut [u8], stretch: Stretch) {
    let (start, end) = (stretch.offset as usize, (stretch.offset + stretch.len) as usize);
    let mut sealed = bytes[start..end - SUM_LEN].to_vec();
    seal(NO, stretch.offset, 0, &mut sealed);
    bytes[start..end].copy_from_slice(&sealed);
}

/// Every block and section of a sound file.
fn stretches(file: &TableFile) -> Vec<Stretch> {
    let footer: &Footer = file.footer();
    let mut all = vec![footer.index(), footer.row_filter(), footer.partition_filter()];
    all.push(footer.props());
    let footer_at = footer.props().offset + footer.props().len;
    all.push(Stretch { offset: footer_at, len: FOOTER_LEN as u64 });
    let mut entry = Some(file.index().first());
    while let Some(at) = entry {
        let handle = file.index().handle(at);
        all.push(Stretch { offset: handle.offset, len: handle.len.into() });
        entry = file.index().next(at);
    }
    all.retain(|stretch| stretch.len > 0);
    all
}

fn placed(error: &Error, bytes: usize) {
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    let (path, offset) = error.place().expect("the file");
    assert_eq!(path, Path::new(PATH));
    assert!(offset.expect("the offset") < bytes as u64, "{error}");
}

/// Reads everything in every way. Returns whether anything failed.
fn read_all(
    model: &Model,
    file: &Arc<TableFile>,
    bytes: usize,
    answers_must_be_right: bool,
) -> bool {
    let mut failed = false;
    for ((key, Reverse(ts)), (_, value)) in model {
        let hash = hash::of(key, order::prefix_len(key).unwrap());
        match file.get(key, hash.row, *ts, Reach::Disk) {
            Ok(found) if answers_must_be_right => {
                let found = found.expect("a row that is there");
                assert!(found.ts == *ts && found.value == value[..]);
            }
            Ok(_) => {}
            Err(error) => {
                placed(&error, bytes);
                failed = true;
            }
        }
    }
    for forward in [true, false] {
        match walk(file, forward, model.len() * 2) {
            Ok(rows) => assert!(!answers_must_be_right || rows == model.len()),
            Err(error) => {
                placed(&error, bytes);
                failed = true;
            }
        }
    }
    failed
}

fn walk(file: &Arc<TableFile>, forward: bool, steps_max: usize) -> Result<usize> {
    let mut cursor = file.cursor();
    let mut rows = 0;
    if forward {
        cursor.seek(b"", CommitTs::MAX)?
    } else {
        cursor.seek_before(&[0xff; 5])?
    }
    while cursor.valid() && rows < steps_max {
        cursor.value()?;
        rows += 1;
        if forward { cursor.next()? } else { cursor.prev()? }
    }
    Ok(rows)
}

fn small_file(seed: u64, compression: bool) -> (Model, Vec<u8>, FileMeta) {
    let mut rng = Rng::seeded(seed);
    let mut model = random_model(&mut rng, 30, 2, 40);
    model.retain(|(key, _), _| key.len() < 60);
    let (file, meta) = build(&model, options(512, 10, compression));
    (model, file.bytes(), meta)
}

#[test]
fn every_byte_changed_gives_right_answers_or_a_placed_error() {
    for compression in [true, false] {
        let (model, sound, meta) = small_file(3, compression);
        let filters = {
            let file = open(&Arc::new(MemoryFile::holding(sound.clone())), &meta, 0).unwrap();
            file.footer().row_filter().offset..file.footer().props().offset
        };
        for at in 0..sound.len() {
            let file = Arc::new(MemoryFile::holding(sound.clone()));
            file.change(|bytes| bytes[at] ^= 1 << (at % 8));
            match open(&file, &meta, 0) {
                Err(error) => placed(&error, sound.len()),
                Ok(opened) => {
                    let failed = read_all(&model, &opened, sound.len(), true);
                    let in_filter = filters.contains(&(at as u64));
                    assert_eq!(failed, !in_filter, "byte {at}");
                    assert_eq!(opened.filters_ignored(), u32::from(in_filter));
                    placed(&opened.verify(&meta).unwrap_err(), sound.len());
                }
            }
        }
    }
}

/// The one thing that the manifest says of a file's rows and the file cannot: a wrong word there
/// would let an erasure be forgotten that still hides something.
#[test]
fn a_file_said_to_be_free_of_erased_rows_is_held_to_it() {
    let (model, sound, meta) = small_file(3, true);
    let file = open(&Arc::new(MemoryFile::holding(sound.clone())), &meta, 0).unwrap();
    let (key, Reverse(ts)) = model.keys().min_by_key(|(_, ts)| ts.0).unwrap().clone();
    let range = KeyRange { start: key.clone(), end: [&key[..], &[0]].concat() };
    let check = |at: u64, erased_to: u64| {
        let erasures = Erasures::of([Erasure::new(&range, CommitTs(at))]);
        let meta = FileMeta { erased_to: CommitTs(erased_to), ..meta.clone() };
        file.verify_with(&meta, &erasures, &mut |_| {})
    };
    check(ts.0 + 1, ts.0).unwrap();
    check(ts.0, ts.0).unwrap();
    let error = check(ts.0 + 1, ts.0 + 1).unwrap_err();
    placed(&error, sound.len());
    assert!(error.message().contains("row is erased"), "{error}");
}

#[test]
fn a_file_cut_anywhere_does_not_open() {
    let (_, sound, meta) = small_file(4, true);
    for len in 0..sound.len() {
        let cut = FileMeta { bytes: len as u64, ..meta.clone() };
        let file = Arc::new(MemoryFile::holding(sound[..len].to_vec()));
        let error = open(&file, &meta, 0).err().unwrap();
        assert!(error.message().contains("the manifest says"), "{error}");
        assert_eq!(open(&file, &cut, 0).err().map(|e| e.kind()), Some(Kind::Corrupt));
    }
}

#[test]
fn another_file_in_its_place_does_not_open() {
    let (_, sound, meta) = small_file(4, true);
    let (_, other, other_meta) = small_file(5, true);
    let file = Arc::new(MemoryFile::holding(other));
    let same_length = FileMeta { bytes: other_meta.bytes, ..meta.clone() };
    placed(&open(&file, &same_length, 0).err().unwrap(), sound.len() * 2);
    let renumbered = FileMeta { no: FileNo(8), ..meta };
    let file = Arc::new(MemoryFile::holding(sound.clone()));
    let error = open(&file, &renumbered, 0).err().unwrap();
    placed(&error, sound.len());
    assert!(error.message().contains("another file"), "{error}");
}

#[test]
fn changes_under_mended_checksums_never_panic() {
    for (seed, compression) in [(6, true), (7, false)] {
        let (model, sound, meta) = small_file(seed, compression);
        let original = open(&Arc::new(MemoryFile::holding(sound.clone())), &meta, 0).unwrap();
        let stretches = stretches(&original);
        let mut rng = Rng::seeded(seed);
        for _ in 0..6000 {
            let stretch = stretches[rng.below(stretches.len() as u64) as usize];
            let mut bytes = sound.clone();
            for _ in 0..1 + rng.below(3) {
                let at = stretch.offset + rng.below(stretch.len - SUM_LEN as u64);
                bytes[at as usize] = match rng.below(4) {
                    0 => 0,
                    1 => 0xff,
                    2 => bytes[at as usize].wrapping_add(1),
                    _ => rng.next_u64() as u8,
                };
            }
            mend(&mut bytes, stretch);
            let file = Arc::new(MemoryFile::holding(bytes));
            match open(&file, &meta, 0) {
                Err(error) => placed(&error, sound.len()),
                Ok(opened) => drop(read_all(&model, &opened, sound.len(), false)),
            }
        }
    }
}

#[test]
fn random_bytes_are_not_a_block() {
    let (_, sound, meta) = small_file(6, true);
    let file = open(&Arc::new(MemoryFile::holding(sound.clone())), &meta, 0).unwrap();
    let first = file.index().handle(file.index().first());
    let block = &sound[..first.len as usize - SUM_LEN];
    let mut rng = Rng::seeded(8);
    for round in 0..60_000 {
        // Mutations of a sound block get past the header more often than noise does.
        let mut bytes = if round % 4 == 0 {
            (0..rng.below(300)).map(|_| rng.next_u64() as u8 & 3).collect()
        } else {
            block.to_vec()
        };
        for _ in 0..rng.below(4) {
            let at = rng.below(bytes.len().max(1) as u64) as usize;
            if let Some(byte) = bytes.get_mut(at) {
                *byte = rng.next_u64() as u8;
            }
        }
        let Ok(block) = Block::parse(Bytes::from(bytes)) else { continue };
        let mut key = Vec::new();
        for row in 0..block.rows() {
            key.clear();
            block.put_key(row, &mut key);
            assert!(block.columns().is_key(row, &key));
            assert_eq!(block.lower_bound(&key, block.ts(row)), row, "what passes is in order");
            let _ = block.value(row);
        }
    }
}

#[test]
fn a_damaged_block_fails_only_the_reads_that_need_it() {
    let (model, sound, meta) = small_file(3, true);
    let file = Arc::new(MemoryFile::holding(sound));
    let opened = open(&file, &meta, 1 << 20).unwrap();
    let handle = opened.index().handle(opened.index().last());
    file.change(|bytes| bytes[handle.offset as usize + 40] ^= 0x10);
    let (mut fine, mut failed) = (0, 0);
    for ((key, Reverse(ts)), (_, value)) in &model {
        let hash = hash::of(key, order::prefix_len(key).unwrap());
        match opened.get(key, hash.row, *ts, Reach::Disk) {
            Ok(found) => {
                assert_eq!(found.unwrap().value, value[..]);
                fine += 1;
            }
            Err(error) => {
                assert_eq!(error.place().unwrap().1, Some(handle.offset));
                failed += 1;
            }
        }
    }
    assert!(fine > 0 && failed > 0 && fine > failed);
}

#[test]
fn a_cursor_keeps_its_first_error() {
    let (_, sound, meta) = small_file(3, true);
    let file = Arc::new(MemoryFile::holding(sound));
    let opened = open(&file, &meta, 0).unwrap();
    let index = opened.index();
    let handle = index.handle(index.next(index.first()).unwrap());
    file.change(|bytes| bytes[handle.offset as usize] ^= 1);
    let mut cursor = opened.cursor();
    cursor.seek(b"", CommitTs::MAX).unwrap();
    while cursor.valid() {
        let _ = cursor.next();
    }
    let failed = |done: Result<()>| {
        let error = done.expect_err("an earlier step failed");
        assert_eq!(error.place().unwrap().1, Some(handle.offset));
    };
    failed(cursor.next());
    failed(cursor.prev());
    failed(cursor.seek(b"", CommitTs::MAX));
    failed(cursor.seek_before(&meta.largest));
    assert!(!cursor.valid() && cursor.value().is_err());
    let mut pass = opened.pass(1 << 20);
    let ended = (0..meta.rows + 1).find_map(|_| pass.next().map(drop).err());
    failed(ended.map_or(Ok(()), Err));
}

/// The checksum is right, and the columns are: only who asks for a value can find out, who is
/// told where, and shown no row from then on.
#[test]
fn values_that_do_not_decompress_are_told_of_where_they_are_asked_for() {
    let row = |n: u32| {
        let key = order::row_key(TableId(1), b"p", &n.to_be_bytes());
        ((key, Reverse(CommitTs(9))), (RowKind::Put, vec![7; 100]))
    };
    let model: Model = (0..300).map(row).collect();
    let (sound, meta) = build(&model, options(2000, 10, true));
    let index = open(&sound, &meta, 0).unwrap();
    let handle = index.index().handle(index.index().first());
    let file = Arc::new(MemoryFile::holding(sound.bytes()));
    file.change(|bytes| {
        let (start, end) = (handle.offset as usize, handle.offset as usize + handle.len as usize);
        let keys_len = Layout::read(&bytes[start..end - SUM_LEN]).unwrap().keys_len();
        bytes[start + keys_len..end - SUM_LEN].fill(0xff);
        mend(bytes, Stretch { offset: handle.offset, len: handle.len.into() });
    });
    let told = |error: &Error| {
        assert_eq!((error.kind(), error.place().unwrap().1), (Kind::Corrupt, Some(handle.offset)));
    };
    for opened in [open(&file, &meta, 0), open_mapped(&file, &meta, 0)].map(Result::unwrap) {
        let (moment, range) = (Moment::past(CommitTs(9)), KeyRange::table(TableId(1)));
        let cover = Cover::new(std::iter::empty(), moment.at);
        let merge = MergeCursor::new(vec![opened.cursor()]);
        let mut rows = VisibleCursor::new(merge, cover, moment, range);
        for (key, _) in model.keys().take(3) {
            assert!(rows.next().unwrap());
            assert_eq!(rows.key(), key);
            told(&rows.value_ref().unwrap_err());
        }
        told(&rows.value().unwrap_err());
        told(&rows.next().unwrap_err());
        told(&rows.seek(&model.keys().last().unwrap().0).unwrap_err());
        assert_eq!(rows.pass_over(10, &mut |_, _: &[u8]| true), 0);
    }
}

/// Who seeks past what need not be seen would come by blocks that lead back for ever.
#[test]
fn blocks_in_each_others_place_lead_nobody_back() {
    let row = |n: u32| {
        let key = order::row_key(TableId(1), b"p", &n.to_be_bytes());
        ((key, Reverse(CommitTs(9))), (RowKind::Put, vec![n as u8; 40]))
    };
    let model: Model = (0..300).map(row).collect();
    let (sound, meta) = build(&model, options(512, 10, false));
    let index = open(&sound, &meta, 0).unwrap();
    let handles: Vec<Handle> =
        std::iter::successors(Some(index.index().first()), |at| index.index().next(*at))
            .map(|at| index.index().handle(at))
            .collect();
    let count = handles.len();
    for (a, b) in [(1, 2), (0, 3), (2, count - 3), (3, count - 2)] {
        let (a, b) = (handles[a], handles[b]);
        assert_eq!(a.len, b.len, "blocks of so many rows of one length");
        let file = Arc::new(MemoryFile::holding(sound.bytes()));
        file.change(|bytes| {
            for i in 0..a.len as usize {
                bytes.swap(a.offset as usize + i, b.offset as usize + i);
            }
            for handle in [a, b] {
                mend(bytes, Stretch { offset: handle.offset, len: handle.len.into() });
            }
        });
        let bytes = file.bytes().len();
        let opened = open(&file, &meta, 0).unwrap();
        placed(&walk(&opened, true, 1000).unwrap_err(), bytes);
        placed(&walk(&opened, false, 1000).unwrap_err(), bytes);
        let (mut fine, mut failed) = (0, 0);
        for (key, _) in model.keys() {
            let (mut up, mut down) = (opened.cursor(), opened.cursor());
            match up.seek(key, CommitTs::MAX) {
                Ok(()) => assert!(!up.valid() || up.key() >= key.as_slice()),
                Err(error) => placed(&error, bytes),
            }
            match down.seek_before(key) {
                Ok(()) => assert!(!down.valid() || down.key() < key.as_slice()),
                Err(error) => placed(&error, bytes),
            }
            let is_fine = up.valid() && down.valid();
            (fine, failed) = (fine + u32::from(is_fine), failed + u32::from(!is_fine));
        }
        assert!(fine > failed && failed > 0, "{fine} and {failed}");
    }
}
