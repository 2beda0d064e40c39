//! A walk whose blocks are loaded for it is the same walk: same rows, same errors, whoever loads
//! them.

use super::ahead::large_file;
use super::*;
use crate::cursor::{Cursor, Direction};
use crate::errands::{Errand, Errands};
use crate::sstable::block::{Block, Unpack};
use crate::sstable::iter::TableCursor;
use crate::sstable::upcoming::{BATCH_BYTES, Upcoming};
use std::sync::{Weak, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

pub(super) const ROWS: usize = 20_000;

/// How long a test waits for what a thread does within moments.
const PATIENCE: Duration = Duration::from_secs(60);

/// The thread that does errands, until the test ends.
pub(super) struct Helper {
    pub(super) errands: Arc<Errands>,
    thread: Option<JoinHandle<()>>,
}

impl Helper {
    pub(super) fn start() -> Helper {
        let errands = Arc::new(Errands::default());
        let served = Arc::clone(&errands);
        let thread = Some(thread::spawn(move || served.serve()));
        until("it serves", || errands.is_served());
        Helper { errands, thread }
    }

    /// The file, whose walks it loads for.
    fn open(&self, file: &Arc<MemoryFile>, meta: &FileMeta, cache_bytes: usize) -> Arc<TableFile> {
        let cache = Arc::new(BlockCache::new(cache_bytes));
        let file = TableFile::open(file.clone(), PathBuf::from(PATH), meta, cache).unwrap();
        Arc::new(file.read_ahead_by(&self.errands))
    }

    /// The file as it is now, to be read in place, whose blocks it proves for long walks.
    pub(super) fn open_mapped(&self, file: &Arc<MemoryFile>, meta: &FileMeta) -> Arc<TableFile> {
        let cache = Arc::new(BlockCache::new(0));
        let file = TableFile::open(file.clone(), PathBuf::from(PATH), meta, cache).unwrap();
        Arc::new(file.in_place().read_ahead_by(&self.errands))
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.errands.close();
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || thread::panicking());
    }
}

#[allow(clippy::disallowed_methods, reason = "how long a test waits")]
pub(super) fn until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "not yet: {what}");
        thread::yield_now();
    }
}

/// The row that a cursor is on.
pub(super) fn row(cursor: &mut TableCursor) -> Option<(Vec<u8>, CommitTs, Vec<u8>)> {
    let valid = cursor.valid();
    valid.then(|| (cursor.key().to_vec(), cursor.ts(), cursor.value().unwrap().to_vec()))
}

pub(super) fn step(cursor: &mut TableCursor, direction: Direction) -> Result<()> {
    match direction {
        Direction::Up => cursor.next(),
        Direction::Down => cursor.prev(),
    }
}

/// The first row of a walk over the whole file.
pub(super) fn begin(cursor: &mut TableCursor, direction: Direction) {
    match direction {
        Direction::Up => cursor.seek(&[], CommitTs::MAX).unwrap(),
        Direction::Down => cursor.seek_before(&[0xff; 8]).unwrap(),
    }
}

/// Rows from here to the end of the file, or to an error.
pub(super) fn count(cursor: &mut TableCursor, direction: Direction) -> (usize, Option<String>) {
    let mut rows = 0;
    while cursor.valid() {
        rows += 1;
        if let Err(error) = step(cursor, direction) {
            return (rows, Some(error.to_string()));
        }
    }
    (rows, None)
}

#[test]
fn walks_that_turn_and_jump_see_the_same_rows() {
    let (memory, meta) = large_file();
    let (helper, mut rng) = (Helper::start(), Rng::seeded(4711));
    let opened = [0, 3 << 20].map(|cache_bytes| helper.open(&memory, &meta, cache_bytes));
    for helped in opened.into_iter().chain([helper.open_mapped(&memory, &meta)]) {
        let plain = open(&memory, &meta, 0).unwrap();
        let (mut expected, mut walked) = (plain.cursor(), helped.cursor());
        for _ in 0..40 {
            let direction = if rng.below(2) == 0 { Direction::Up } else { Direction::Down };
            if rng.below(3) == 0 {
                let row = format!("row-{:06}", rng.below(ROWS as u64));
                let key = order::row_key(TableId(1), b"p", row.as_bytes());
                expected.seek(&key, CommitTs::MAX).unwrap();
                walked.seek(&key, CommitTs::MAX).unwrap();
            }
            for _ in 0..rng.below(ROWS as u64 / 2) {
                assert_eq!(row(&mut walked), row(&mut expected));
                step(&mut expected, direction).unwrap();
                step(&mut walked, direction).unwrap();
            }
            if !expected.valid() {
                begin(&mut expected, direction);
                begin(&mut walked, direction);
            }
        }
    }
}

#[test]
fn the_thread_loads_what_a_long_walk_will_come_to_and_no_more() {
    let (memory, meta) = large_file();
    let helper = Helper::start();
    let file = helper.open(&memory, &meta, 0);
    for direction in [Direction::Up, Direction::Down] {
        let mut cursor = file.cursor();
        begin(&mut cursor, direction);
        let at_first = memory.bytes_read();
        for _ in 0..ROWS / 2 {
            step(&mut cursor, direction).unwrap();
        }
        // The walk stands still: what is read from here on the thread reads.
        let all = "three batches";
        until(all, || memory.bytes_read() - at_first >= meta.bytes as usize / 2 + (256 << 10));
        drop(cursor);
        until("nothing holds the file", || Arc::strong_count(&file) == 1);
        let read = memory.bytes_read() - at_first;
        assert!(read < meta.bytes as usize / 2 + (1 << 20), "{read} bytes of {}", meta.bytes);
    }
}

#[test]
fn no_walk_waits_for_a_thread_that_is_busy() {
    let (memory, meta) = large_file();
    let helper = Helper::start();
    let (end, ended) = mpsc::channel::<()>();
    helper.errands.give(Arc::new(Busy(parking_lot::Mutex::new(ended))));
    let file = helper.open(&memory, &meta, 0);
    for direction in [Direction::Up, Direction::Down] {
        let mut cursor = file.cursor();
        begin(&mut cursor, direction);
        assert_eq!(count(&mut cursor, direction), (ROWS, None));
    }
    drop(end);
}

/// Keeps the thread until the other end of the channel is gone.
pub(super) struct Busy(pub(super) parking_lot::Mutex<mpsc::Receiver<()>>);

impl Errand for Busy {
    fn run(&self, _scratch: &mut Vec<u8>) {
        let _ = self.0.lock().recv();
    }
}

#[test]
fn damage_ends_a_walk_where_it_lies() {
    let helper = Helper::start();
    check_damage(|memory, meta| helper.open(memory, meta, 0));
}

/// Walks over files that `open_helped` gives meet a damaged block where those without help do.
pub(super) fn check_damage(open_helped: impl Fn(&Arc<MemoryFile>, &FileMeta) -> Arc<TableFile>) {
    let (memory, meta) = large_file();
    let blocks = open(&memory, &meta, 0).unwrap().index().blocks();
    for damaged in [blocks / 2, blocks / 2 + 1, blocks * 5 / 8] {
        let plain = open(&memory, &meta, 0).unwrap();
        let handle = plain.index().handle(plain.index().at_ordinal(damaged).unwrap());
        let flip = |bytes: &mut Vec<u8>| bytes[handle.offset as usize + 40] ^= 0x10;
        memory.change(flip);
        for direction in [Direction::Up, Direction::Down] {
            let (mut expected, mut walked) = (plain.cursor(), open_helped(&memory, &meta).cursor());
            begin(&mut expected, direction);
            begin(&mut walked, direction);
            let (rows, error) = count(&mut expected, direction);
            assert!(rows > 0 && rows < ROWS && error.is_some());
            assert_eq!(count(&mut walked, direction), (rows, error));
        }
        memory.change(flip);
    }
}

#[test]
fn a_walk_that_leaves_most_blocks_out_is_not_helped_any_more() {
    let (memory, meta) = large_file();
    let helper = Helper::start();
    let file = helper.open(&memory, &meta, 0);
    let index = file.index();
    let handle = |block| index.handle(index.at_ordinal(block).unwrap());
    let mut upcoming = Upcoming::default();
    upcoming.begin(&file, index.first(), Direction::Up, &(0..0), Unpack::Later);
    let mut next = |block| upcoming.next(&file, handle(block), Direction::Up, Unpack::Later);
    assert!((1..100).all(|block| next(block).is_some()), "one after the other");
    let left_at = (100..index.blocks()).step_by(3).find(|block| next(*block).is_none());
    assert!(left_at.is_some_and(|block| block < 200), "{left_at:?}");
    assert!(upcoming.take_wasted() && !upcoming.take_wasted());
}

/// A block that a walk has passed lives until one that is loaded later takes its memory, and no
/// longer.
#[test]
fn blocks_that_were_passed_go_to_whoever_loads_the_next() {
    let (memory, meta) = large_file();
    let helper = Helper::start();
    let file = helper.open(&memory, &meta, 0);
    let index = file.index();
    let handle = |block| index.handle(index.at_ordinal(block).unwrap());
    let of_a_batch = BATCH_BYTES as usize / handle(1).len as usize;
    let mut upcoming = Upcoming::default();
    upcoming.begin(&file, index.first(), Direction::Up, &(0..0), Unpack::Later);
    let mut passed = Vec::new();
    let held = |passed: &[Weak<Block>]| passed.iter().filter(|b| b.strong_count() > 0).count();
    for block in 1..index.blocks() {
        let loaded = upcoming.next(&file, handle(block), Direction::Up, Unpack::Later).unwrap();
        passed.push(Arc::downgrade(&loaded));
        drop(loaded);
        assert!(passed.last().is_some_and(|last| last.strong_count() > 0), "kept for the next");
        // Those of the batch that is walked, and of the four that may be handed over or being
        // loaded.
        assert!(held(&passed) <= 6 * of_a_batch, "{} blocks are held", held(&passed));
    }
    assert!(passed.len() > 8 * of_a_batch, "{} blocks, {of_a_batch} of a batch", passed.len());
    drop(upcoming);
    until("all are let go", || held(&passed) == 0);
}
