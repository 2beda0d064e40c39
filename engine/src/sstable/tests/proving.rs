//! A walk in place whose blocks are proved for it is the same walk, and meets damage where it lies.

use super::ahead::large_file;
use super::upcoming::{Busy, Helper, ROWS, begin, check_damage, count, step, until};
use super::*;
use crate::cursor::Direction;
use crate::sstable::proving::Proving;
use std::sync::mpsc;

/// Blocks that are proved, by their numbers.
fn proved(file: &TableFile) -> Vec<usize> {
    let is_proved = |block: &usize| file.is_proved(file.index().at_ordinal(*block).unwrap());
    (0..file.index().blocks()).filter(is_proved).collect()
}

#[test]
fn the_thread_proves_what_a_long_walk_will_come_to_and_no_more() {
    let (memory, meta) = large_file();
    let helper = Helper::start();
    for direction in [Direction::Up, Direction::Down] {
        let file = helper.open_mapped(&memory, &meta);
        let (mut cursor, blocks) = (file.cursor(), file.index().blocks());
        begin(&mut cursor, direction);
        for _ in 0..ROWS * 2 / 5 {
            step(&mut cursor, direction).unwrap();
        }
        // The walk stands still: what is proved beyond that, the thread proves. Of the file's five
        // megabytes that is one at least, and two at most.
        let enough = blocks * 2 / 5 + blocks / 7;
        until("it proves a megabyte ahead", || proved(&file).len() >= enough);
        drop(cursor);
        until("nothing holds the file", || Arc::strong_count(&file) == 1);
        let proved = proved(&file);
        assert!(proved.len() < blocks - blocks / 7, "{} of {blocks}", proved.len());
        let (first, last) = (proved[0], *proved.last().unwrap());
        assert_eq!(last - first + 1, proved.len(), "one beside the other");
        assert!(if direction == Direction::Up { first == 0 } else { last == blocks - 1 });
    }
}

#[test]
fn short_walks_ask_for_nothing() {
    let (memory, meta) = large_file();
    let helper = Helper::start();
    let file = helper.open_mapped(&memory, &meta);
    let mut cursor = file.cursor();
    for row in (0..ROWS).step_by(1000) {
        let key = order::row_key(TableId(1), b"p", format!("row-{row:06}").as_bytes());
        crate::cursor::Cursor::seek(&mut cursor, &key, CommitTs::MAX).unwrap();
        (0..100).for_each(|_| step(&mut cursor, Direction::Up).unwrap());
    }
    assert_eq!(Arc::strong_count(&file), 2, "the cursor's and this one");
    assert!(proved(&file).len() < file.index().blocks() / 5);
}

/// What the walk comes to is not in every stretch the block that it begins with.
#[test]
fn a_walk_that_leaves_blocks_out_is_helped_on() {
    let (memory, meta) = large_file();
    let helper = Helper::start();
    let file = helper.open_mapped(&memory, &meta);
    let (index, blocks) = (file.index(), file.index().blocks());
    let mut proving = Proving::default();
    for number in (0..blocks).filter(|number| number % 3 == 0) {
        let entry = index.at_ordinal(number).unwrap();
        let proves = !file.is_proved(entry);
        file.prove(entry);
        proving.come_to(&file, entry, Direction::Up, (number == 0, proves));
    }
    until("the last stretch is proved", || proved(&file).last() == Some(&(blocks - 1)));
    drop(proving);
    until("nothing holds the file", || Arc::strong_count(&file) == 1);
}

#[test]
fn what_is_proved_already_is_not_handed_over() {
    let (memory, meta) = large_file();
    let helper = Helper::start();
    let file = helper.open_mapped(&memory, &meta);
    let (index, blocks) = (file.index(), file.index().blocks());
    (blocks / 2..blocks).for_each(|number| file.prove(index.at_ordinal(number).unwrap()));
    let mut cursor = file.cursor();
    begin(&mut cursor, Direction::Up);
    for _ in 0..ROWS * 3 / 4 {
        step(&mut cursor, Direction::Up).unwrap();
    }
    until("the first half is proved", || proved(&file).len() == blocks);
    // Stretches before the walk would hold the file for as long as it stands here.
    until("only the cursor and this hold the file", || Arc::strong_count(&file) == 2);
}

/// What a walk takes without a thread: itself alone.
#[test]
fn nobody_there_is_nobody_asked() {
    let (memory, meta) = large_file();
    let file = open_mapped(&memory, &meta, 0).unwrap();
    let mut cursor = file.cursor();
    begin(&mut cursor, Direction::Up);
    assert_eq!(count(&mut cursor, Direction::Up), (ROWS, None));
    assert_eq!(proved(&file).len(), file.index().blocks());
}

#[test]
fn no_walk_waits_for_a_thread_that_is_busy() {
    let (memory, meta) = large_file();
    let helper = Helper::start();
    let (end, ended) = mpsc::channel::<()>();
    helper.errands.give(Arc::new(Busy(parking_lot::Mutex::new(ended))));
    for direction in [Direction::Up, Direction::Down] {
        let mut cursor = helper.open_mapped(&memory, &meta).cursor();
        begin(&mut cursor, direction);
        assert_eq!(count(&mut cursor, direction), (ROWS, None));
    }
    drop(end);
}

#[test]
fn damage_ends_a_walk_where_it_lies() {
    let helper = Helper::start();
    check_damage(|memory, meta| helper.open_mapped(memory, meta));
}
