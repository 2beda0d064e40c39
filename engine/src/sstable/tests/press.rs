//! A file whose blocks two threads made is the file that one makes, byte for byte.

use super::upcoming::{Busy, Helper};
use super::*;
use crate::errands::Errands;
use crate::sstable::block_builder::{BlockBuilder, NewRow};
use crate::sstable::press::{Label, Press};
use std::sync::mpsc;

/// The file made of `model` with the help of whoever serves `errands`; `midway` is called with half
/// of the rows in it.
fn build_helped(
    model: &Model,
    options: TableOptions,
    errands: &Arc<Errands>,
    midway: impl FnOnce(),
) -> (Vec<u8>, FileMeta) {
    let file = Arc::new(MemoryFile::default());
    let builder = TableBuilder::new(file.clone(), Path::new(PATH), NO, options);
    let (mut builder, mut midway) = (builder.helped_by(errands), Some(midway));
    for (i, ((key, Reverse(ts)), (kind, value))) in model.iter().enumerate() {
        let prefix_len = order::prefix_len(key).unwrap();
        builder.add(key, prefix_len, *ts, *kind, value).unwrap();
        if i == model.len() / 2 {
            midway.take().unwrap()();
        }
    }
    let meta = builder.finish().unwrap();
    (file.bytes(), meta)
}

/// Rows for some hundred blocks, a few of them with values as large as a block may be and larger.
fn rows(rng: &mut Rng) -> Model {
    let mut model = random_model(rng, 4000, 3, 300);
    for _ in 0..5 {
        let key = order::row_key(TableId(1), b"large", &random_part(rng));
        let value = random_value(rng, 200 << 10);
        model.insert((key, Reverse(CommitTs(random_ts(rng)))), (RowKind::Put, value));
    }
    model
}

#[test]
fn two_make_the_file_that_one_makes() {
    for seed in 0..20 {
        let rng = &mut Rng::seeded(seed);
        let model = rows(rng);
        let block_bytes = 200 + rng.below(5000) as usize;
        let options = || options(block_bytes, 10, seed % 4 != 0);
        let (alone, meta) = build(&model, options());
        let alone = (alone.bytes(), meta);
        let helper = Helper::start();
        assert!(build_helped(&model, options(), &helper.errands, || ()) == alone, "with help");
        let leave = || helper.errands.close();
        assert!(build_helped(&model, options(), &helper.errands, leave) == alone, "left alone");
        assert!(build_helped(&model, options(), &helper.errands, || ()) == alone, "nobody there");
    }
}

#[test]
fn whoever_writes_a_file_waits_for_no_thread_that_is_busy() {
    let model = rows(&mut Rng::seeded(7));
    let (alone, meta) = build(&model, options(1000, 10, true));
    let helper = Helper::start();
    let (end, ended) = mpsc::channel::<()>();
    helper.errands.give(Arc::new(Busy(parking_lot::Mutex::new(ended))));
    let helped = build_helped(&model, options(1000, 10, true), &helper.errands, || ());
    assert!(helped == (alone.bytes(), meta));
    drop(end);
}

#[test]
fn few_large_values_are_held_at_a_time() {
    const VALUE_BYTES: usize = 1 << 20;
    let helper = Helper::start();
    let (end, ended) = mpsc::channel::<()>();
    helper.errands.give(Arc::new(Busy(parking_lot::Mutex::new(ended))));
    let mut press = Press::new(&helper.errands, PACKED).unwrap();
    let (value, mut blocks) = (vec![7; VALUE_BYTES], 0);
    for _ in 0..40 {
        while let Some(sheaf) = press.next().unwrap() {
            blocks += sheaf.blocks().map(|_| assert!(press.next_label().is_some())).count();
            press.recycle(sheaf);
        }
        let mut block = BlockBuilder::default();
        let (prefix, row_key, shared) = (&b"prefix"[..], &b"row"[..], None);
        let (ts, kind, print) = (CommitTs(1), RowKind::Put, 0);
        block.push(&NewRow { prefix, row_key, shared, ts, kind, print, value: &value });
        press.add(&mut block);
        press.label(Label { separator: Vec::new(), prefix_len: 0, ts, plain_rows: 1 });
        assert!(press.raw_bytes() < 3 * VALUE_BYTES, "{} bytes", press.raw_bytes());
    }
    assert!(blocks > 30);
    drop(end);
}
