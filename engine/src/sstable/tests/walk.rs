//! Plain walks: what they show is what the cursor would have shown.

use super::*;
use crate::cursor::{Cursor, Direction};
use crate::sstable::block::Block;
use crate::sstable::check::Facts;
use crate::sstable::format::SUM_LEN;
use crate::sstable::iter::TableCursor;
use crate::sstable::layout::Layout;
use crate::sstable::walk::{Terms, Walk, Walked};

/// Key, timestamp, value.
type Shown = (Vec<u8>, CommitTs, Vec<u8>);

fn under(cursor: &mut TableCursor) -> Shown {
    (cursor.key().to_vec(), cursor.ts(), cursor.value().unwrap().to_vec())
}

fn under_walk(walk: &Walk) -> Shown {
    let value = walk.value_ref().unwrap().to_vec();
    assert_eq!(walk.value().unwrap(), value);
    assert_eq!(walk.kind(), RowKind::Put);
    (walk.key().to_vec(), walk.ts(), value)
}

/// Mostly single puts; every third file has deletes and several versions as well.
fn rows(rng: &mut Rng, seed: u64) -> Model {
    match seed % 3 {
        0 => random_model(rng, 300, 3, 60),
        _ => {
            let mut model = random_model(rng, 300, 1, 60);
            model.retain(|_, (kind, _)| *kind == RowKind::Put);
            model
        }
    }
}

/// From wherever `cursor` stands: every row of the walk against a second cursor that moves by
/// itself, which sees neither another version of a key nor anything beyond the fence or newer than
/// `at`. Then the first one follows. Returns how many moves there were.
fn check_walk(
    rng: &mut Rng,
    file: &Arc<TableFile>,
    cursor: &mut TableCursor,
    direction: Direction,
    (at, fence): (CommitTs, &[u8]),
) -> usize {
    let plain = cursor.plain_walk(Terms { direction, at, fence });
    let Some((walk, moves)) = plain else { return 0 };
    let mut walk = walk.branch(b"what was here before".to_vec());
    let mut other = file.cursor();
    other.seek(cursor.key(), cursor.ts()).unwrap();
    for _ in 0..moves {
        let (left, ends) = (other.key().to_vec(), other.ends_key(direction));
        assert!(ends, "the move leaves its key");
        match direction {
            Direction::Up => other.next().unwrap(),
            Direction::Down => other.prev().unwrap(),
        }
        let stays = walk.go(direction, 1);
        let shown = under_walk(&walk);
        assert_eq!(shown, under(&mut other));
        let prefix_len = order::prefix_len(&left).unwrap();
        assert!(!stays || shown.0.starts_with(&left[..prefix_len]), "{left:?} and {:?}", shown.0);
        assert!(shown.1 <= at && plain_side(direction, &shown.0, fence));
    }
    assert!(goes_no_further(&walk, direction, fence), "{direction:?}");
    let goes = rng.below(moves as u64 + 1) as usize;
    if goes > 0 {
        cursor.follow(direction, goes);
    }
    for _ in goes..moves {
        match direction {
            Direction::Up => cursor.next().unwrap(),
            Direction::Down => cursor.prev().unwrap(),
        }
    }
    assert_eq!(under(cursor), under_walk(&walk));
    moves
}

/// Whether the next row in the block is behind the fence. The block's first row may be left to
/// whoever knows the block before.
fn goes_no_further(walk: &Walk, direction: Direction, fence: &[u8]) -> bool {
    let (block, row) = (walk.block(), walk.row());
    let next = match direction {
        Direction::Up => Some(row + 1).filter(|next| *next < block.rows()),
        Direction::Down => row.checked_sub(1).filter(|next| *next > 0),
    };
    next.is_none_or(|next| {
        let mut key = Vec::new();
        block.put_key(next, &mut key);
        !plain_side(direction, &key, fence)
    })
}

fn plain_side(direction: Direction, key: &[u8], fence: &[u8]) -> bool {
    match direction {
        Direction::Up => key < fence,
        Direction::Down => key > fence,
    }
}

#[test]
fn a_walk_shows_what_the_cursor_would() {
    let (mut moves, mut walks) = ([0; 2], 0);
    for seed in 0..30 {
        println!("replay: seed {seed}");
        let mut rng = Rng::seeded(seed);
        let model = rows(&mut rng, seed);
        let keys: Vec<_> = model.keys().map(|(key, _)| key.clone()).collect();
        let (bytes, meta) = build(&model, options(2000, 10, seed % 2 == 0));
        let opened = [open(&bytes, &meta, 1 << 20), open_mapped(&bytes, &meta, 1 << 20)];
        for file in opened.map(Result::unwrap) {
            let mut cursor = file.cursor();
            for _ in 0..60 {
                let some = |rng: &mut Rng| keys[rng.below(keys.len() as u64) as usize].clone();
                let (from, fence) = (some(&mut rng), some(&mut rng));
                let at = if rng.one_in(4) { CommitTs(random_ts(&mut rng)) } else { CommitTs::MAX };
                let (direction, fence) = match rng.below(4) {
                    0 => (Direction::Up, fence),
                    1 => (Direction::Down, fence),
                    2 => (Direction::Up, vec![0xff; 5]),
                    _ => (Direction::Down, Vec::new()),
                };
                cursor.seek(&from, CommitTs::MAX).unwrap();
                let walked = check_walk(&mut rng, &file, &mut cursor, direction, (at, &fence));
                moves[usize::from(direction == Direction::Up)] += walked;
                walks += usize::from(walked > 0);
            }
        }
    }
    println!("{walks} walks, moves {moves:?}");
    assert!(walks > 500 && moves.iter().all(|moves| *moves > 1500), "{walks}, {moves:?}");
}

/// As a block in place could whose file somebody else writes to.
#[test]
fn no_walk_leaves_a_block_that_changes_under_it() {
    let mut moves_in_all = 0;
    for seed in 0..200 {
        println!("replay: seed {seed}");
        let mut rng = Rng::seeded(seed);
        let model = rows(&mut rng, 1);
        let keys: Vec<_> = model.keys().map(|(key, _)| key.clone()).collect();
        let (bytes, meta) = build(&model, options(2000, 10, false));
        let file = open(&bytes, &meta, 0).unwrap();
        let number = rng.below(file.index().blocks() as u64) as usize;
        let handle = file.index().handle(file.index().at_ordinal(number).unwrap());
        let start = handle.offset as usize;
        let mut body = bytes.bytes()[start..start + handle.len as usize - SUM_LEN].to_vec();
        let layout = Layout::read(&body).unwrap();
        for _ in 0..rng.below(30) {
            let at = rng.below(layout.keys_len() as u64) as usize;
            body[at] = rng.next_u64() as u8;
        }
        let facts = Facts { all_puts: true, distinct: true, max_ts: CommitTs::MAX };
        let rows = layout.rows;
        let block = Arc::new(Block::in_place(body.into(), layout, facts));
        for _ in 0..30 {
            let row = rng.below(rows as u64) as usize;
            let fence = &keys[rng.below(keys.len() as u64) as usize];
            let direction = if rng.one_in(2) { Direction::Up } else { Direction::Down };
            let mut walk = Walk::new(Arc::clone(&block), row, false, Vec::new());
            let (in_run, moves) = walk.moves_in_run(direction, fence);
            let in_block = if direction == Direction::Up { rows - 1 - row } else { row };
            assert!(moves <= in_run && in_run <= in_block, "{moves}, {in_run}, {in_block}");
            assert!(block.lower_bound(fence, CommitTs::MAX) <= rows);
            for _ in 0..moves {
                walk.go(direction, 1);
                let _ = (walk.ts(), walk.kind(), walk.value_ref().is_ok());
            }
            moves_in_all += moves;
        }
    }
    assert!(moves_in_all > 1000, "{moves_in_all}");
}

#[test]
fn rows_are_passed_as_long_as_nobody_wants_them() {
    let mut passed_in_all = 0;
    for seed in 1..30 {
        let mut rng = Rng::seeded(seed);
        let model = rows(&mut rng, 1);
        let (bytes, meta) = build(&model, options(2000, 10, seed % 2 == 0));
        let file = open(&bytes, &meta, 1 << 20).unwrap();
        let mut cursor = file.cursor();
        cursor.seek(b"", CommitTs::MAX).unwrap();
        let (direction, fence) = (Direction::Up, &[0xff; 5]);
        let terms = Terms { direction, at: CommitTs::MAX, fence };
        let plain = cursor.plain_walk(terms);
        let Some((walk, moves)) = plain else { continue }; // The first block is one row.
        let (mut walk, rows_max) = (walk.branch(Vec::new()), rng.below(moves as u64 + 1) as usize);
        let wanted_len = 40 + rng.below(20) as usize;
        let passed = walk.pass_over(rows_max, &mut |_, value: &[u8]| value.len() < wanted_len);
        let mut rows = model.iter().skip(1).take(rows_max);
        let expected = rows.by_ref().take_while(|(_, (_, value))| value.len() < wanted_len).count();
        assert_eq!(passed, expected);
        let ((key, Reverse(ts)), (_, value)) = model.iter().nth(passed).unwrap();
        assert_eq!(under_walk(&walk), (key.clone(), *ts, value.clone()));
        passed_in_all += passed;
    }
    assert!(passed_in_all > 20, "{passed_in_all}");
}
