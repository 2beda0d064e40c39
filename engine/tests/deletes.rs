//! What is deleted is gone for whom it should be gone, stays for whom it should stay, and gives its
//! space back: for every way to delete, with and without snapshots, in every order of small cases.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tabulith::env::clock::ManualClock;
use tabulith::env::jobs::ByHand;
use tabulith::vfs::api::{Access, Vfs};
use tabulith::vfs::mem::SimFs;
use tabulith::{Advanced, CommitTs, Db, If, Options, Snapshot, Table, verify};
use tabulith_testkit::oracle::{Change, Oracle};
use tabulith_testkit::seed::Rng;

const DIR: &str = "db";

struct Store {
    disk: SimFs,
    clock: Arc<ManualClock>,
    db: Db,
    table: Table,
}

fn options() -> Options {
    Options {
        advanced: Advanced {
            memtable_bytes: Some(32 << 10),
            wal_segment_bytes: 256 << 10,
            block_bytes: 512,
            file_bytes: 16 << 10,
            level_base_bytes: 64 << 10,
            level_fanout: 4,
            ..Advanced::default()
        },
        ..Options::default()
    }
}

fn open(disk: &SimFs, clock: &Arc<ManualClock>, options: Options) -> Db {
    let parts = (Arc::new(disk.clone()), Arc::clone(clock), Arc::new(ByHand));
    Db::builder().options(options).parts(parts.0, parts.1, parts.2).open(DIR).unwrap()
}

impl Store {
    fn new(options: Options) -> Store {
        let disk = SimFs::new();
        let clock = Arc::new(ManualClock::at(16_950_000_000_000_000));
        let db = open(&disk, &clock, options);
        let table = db.table("rows").unwrap();
        Store { disk, clock, db, table }
    }

    /// `partitions` of `rows` each, of 100 bytes that do not compress, in random order.
    fn fill(&self, partitions: usize, rows: usize) {
        let mut rng = Rng::new(7);
        let mut all: Vec<_> = (0..partitions * rows).collect();
        for i in (1..all.len()).rev() {
            all.swap(i, rng.below(i + 1));
        }
        for n in all {
            let (pk, rk) = (n / rows, n % rows);
            self.table.upsert(pk_of(pk), rk_of(rk), rng.bytes(100)).unwrap();
        }
        self.db.settle().unwrap();
    }

    fn file_bytes(&self) -> u64 {
        self.db.stats().levels.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Bytes of all that lies in the folder but log and manifest, each of which has a bound of its
    /// own.
    fn folder_bytes(&self) -> u64 {
        let names = self.disk.list(Path::new(DIR)).unwrap();
        let bounded = [".wal", ".manifest-a", ".manifest-b"];
        let others = names.iter().filter(|name| !bounded.iter().any(|end| name.ends_with(end)));
        let len = |name: &String| {
            self.disk.open(&Path::new(DIR).join(name), Access::Read).unwrap().len().unwrap()
        };
        others.map(len).sum()
    }

    fn rows(&self) -> usize {
        self.table.scan::<&[u8], &[u8]>(..).unwrap().map(Result::unwrap).count()
    }

    fn check(&self) {
        let report = verify::check_with(Arc::new(self.disk.clone()), Path::new(DIR)).unwrap();
        assert!(report.is_clean(), "{:?}", report.damage);
    }
}

fn pk_of(n: usize) -> String {
    format!("tenant-{n:03}")
}

fn rk_of(n: usize) -> String {
    format!("order-{n:05}")
}

/// A way to delete all rows of a store.
type Way = fn(&Store);

/// Partitions and rows of each in the tests of space.
const MANY: (usize, usize) = (12, 400);

#[test]
fn whichever_way_everything_is_deleted_the_disk_falls_below_a_twentieth_within_one_settle() {
    let ways: [(&str, Way); 5] = [
        ("row by row", |store| {
            for n in 0..MANY.0 * MANY.1 {
                let (pk, rk) = (pk_of(n / MANY.1), rk_of(n % MANY.1));
                store.table.delete(pk, rk, If::Present).unwrap();
            }
        }),
        ("by partition", |store| {
            for pk in 0..MANY.0 {
                store.table.drop_partition(pk_of(pk)).unwrap();
            }
        }),
        ("by range", |store| {
            for pk in 0..MANY.0 {
                let half = rk_of(MANY.1 / 2);
                let batch = store.table.partition(pk_of(pk)).batch().delete_range(..half.as_str());
                batch.delete_range(half.as_str()..).commit().unwrap();
            }
        }),
        ("the whole table", |store| assert!(store.table.truncate().unwrap() > CommitTs::ZERO)),
        ("with the table", |store| assert!(store.db.drop_table("rows").unwrap())),
    ];
    let in_blob_files = Advanced { blob_bytes_min: 100, ..options().advanced };
    let both = [options(), Options { advanced: in_blob_files, ..options() }];
    let ways = ways.iter().flat_map(|way| both.iter().map(move |options| (way, options)));
    for ((way, delete), options) in ways {
        let store = Store::new(options.clone());
        // Another table lies beside it in the same files.
        store.db.table("other").unwrap().upsert("p", "r", "stays").unwrap();
        store.fill(MANY.0, MANY.1);
        let (before, folder_before) = (store.file_bytes(), store.folder_bytes());
        delete(&store);
        store.db.settle().unwrap();
        let (after, folder_after) = (store.file_bytes(), store.folder_bytes());
        assert!(after * 20 < before, "{way}: {after} of {before} bytes are left");
        let left = format!("{way}: {folder_after} of {folder_before} bytes are left");
        assert!(folder_after * 20 < folder_before, "{left}");
        assert_eq!(store.db.stats().erasures, 0, "{way}: nothing is left to hide");
        assert!(store.db.table("other").unwrap().get("p", "r").unwrap().is_some());
        store.check();
    }
}

#[test]
fn after_nine_of_ten_rows_are_deleted_the_files_are_those_of_the_rest() {
    let (partitions, rows) = (4, 2000);
    // Files so large that what every file costs, whatever is in it, does not count.
    let (file_bytes, memtable_bytes) = (256 << 10, 128 << 10);
    let advanced =
        Advanced { file_bytes, memtable_bytes: Some(memtable_bytes), ..options().advanced };
    let store = Store::new(Options { advanced, ..options() });
    store.fill(partitions, rows);
    for pk in 0..partitions {
        for rk in (0..rows).filter(|rk| rk % 10 != 3) {
            store.table.delete(pk_of(pk), rk_of(rk), If::Any).unwrap();
        }
    }
    store.db.settle().unwrap();
    let settled = store.file_bytes();
    assert_eq!(store.rows(), partitions * rows / 10);
    store.db.compact().unwrap();
    let least = store.file_bytes();
    assert!(settled * 10 <= least * 12, "{settled} bytes where {least} would do");
    store.check();
}

#[test]
fn files_that_one_record_covers_are_dropped_unread() {
    let store = Store::new(options());
    store.fill(2, 3000);
    let (before, bytes) = (store.db.stats(), store.file_bytes());
    store.table.drop_partition(pk_of(0)).unwrap();
    assert_eq!(store.rows(), 3000);
    store.db.settle().unwrap();
    let after = store.db.stats();
    assert!(store.file_bytes() * 100 < bytes * 55);
    assert!(after.dropped_files >= before.dropped_files + 10, "{after:?}");
    let read = after.compaction_bytes_read - before.compaction_bytes_read;
    assert!(read * 4 < bytes, "{read} bytes were read of {bytes}");
    assert_eq!(store.rows(), 3000);
}

#[test]
fn a_snapshot_reads_what_was_deleted_after_it_and_the_space_waits_for_it() {
    let store = Store::new(options());
    store.fill(4, 500);
    let bytes = store.file_bytes();
    let before = store.db.snapshot().unwrap();
    store.table.drop_partition(pk_of(1)).unwrap();
    let between = store.db.snapshot().unwrap();
    store.table.truncate().unwrap();
    store.table.upsert("new", "row", "later").unwrap();
    let count = |snapshot: &Snapshot| {
        snapshot.scan::<&[u8], &[u8]>(&store.table, ..).unwrap().map(Result::unwrap).count()
    };
    for _ in 0..2 {
        assert_eq!([count(&before), count(&between), store.rows()], [2000, 1500, 1]);
        assert!(before.get(&store.table, pk_of(1), rk_of(9)).unwrap().is_some());
        assert!(between.get(&store.table, pk_of(1), rk_of(9)).unwrap().is_none());
        assert!(between.get(&store.table, pk_of(2), rk_of(9)).unwrap().is_some());
        store.db.compact().unwrap();
    }
    assert!(store.file_bytes() * 10 > bytes * 9);
    drop(before);
    store.db.settle().unwrap();
    assert_eq!([count(&between), store.rows()], [1500, 1]);
    assert!(store.file_bytes() * 10 < bytes * 8);
    drop(between);
    store.db.settle().unwrap();
    assert!(store.file_bytes() * 20 < bytes);
    assert_eq!((store.db.stats().erasures, store.rows()), (0, 1));
}

#[test]
fn few_deletes_wait_until_they_are_old() {
    let (file_bytes, memtable_bytes) = (1 << 20, 1 << 20); // All rows in one file.
    let advanced =
        Advanced { file_bytes, memtable_bytes: Some(memtable_bytes), ..options().advanced };
    let advanced = Advanced { delete_age_max_s: 3600, ..advanced };
    let store = Store::new(Options { advanced, ..options() });
    store.fill(1, 2000);
    store.db.compact().unwrap();
    let idle = || while store.db.step().unwrap() {};
    store.table.delete(pk_of(0), rk_of(1000), If::Present).unwrap();
    store.table.partition(pk_of(0)).batch().delete_range(rk_of(0)..rk_of(70)).commit().unwrap();
    store.db.flush().unwrap();
    idle();
    let before = store.db.stats();
    assert_eq!((before.erasures, store.rows()), (1, 1929));
    idle();
    assert_eq!(store.db.stats().compactions, before.compactions, "too little to bother");
    store.clock.advance(Duration::from_secs(3601));
    idle();
    let after = store.db.stats();
    assert!(after.compactions > before.compactions && after.erasures == 0, "{after:?}");
    let levels = after.levels.iter().filter(|(files, _)| *files > 0).count();
    assert_eq!((levels, store.rows()), (1, 1929), "the delete sank to what it hides");
}

/// Rows all over a deep level come to lie above it in small files, each over little of it. Joined
/// they would be over all of it, and one delete in them would have it written anew.
#[test]
fn an_old_delete_takes_few_files_of_the_level_below_along() {
    let advanced = Advanced {
        l0_compact_files: 1,
        level_fanout: 8,
        delete_age_max_s: 3600,
        ..options().advanced
    };
    let file_bytes = advanced.file_bytes as u64;
    let store = Store::new(Options { advanced, ..options() });
    let mut rng = Rng::new(7);
    for n in 0..2400 {
        store.table.upsert(pk_of(0), rk_of(n), rng.bytes(1000)).unwrap();
    }
    store.db.settle().unwrap();
    store.db.compact().unwrap();
    let levels = store.db.stats().levels;
    let deepest = levels.iter().rposition(|(files, _)| *files > 0);
    let much = levels[deepest.unwrap()].1 > 100 * file_bytes;
    assert!(deepest >= Some(3) && much, "{levels:?}");
    // What the largest job reads.
    let idle = || {
        let (mut read, mut most) = (store.db.stats().compaction_bytes_read, 0);
        while store.db.step().unwrap() {
            let before = std::mem::replace(&mut read, store.db.stats().compaction_bytes_read);
            most = most.max(read - before);
        }
        most
    };
    store.table.delete(pk_of(0), rk_of(2305), If::Present).unwrap();
    store.clock.advance(Duration::from_secs(1800));
    store.table.delete(pk_of(0), rk_of(305), If::Present).unwrap();
    for n in (0..2400).step_by(10) {
        store.table.upsert(pk_of(0), rk_of(n), "short").unwrap();
    }
    store.db.flush().unwrap();
    idle();
    for _ in 0..2 {
        store.clock.advance(Duration::from_secs(1801));
        let most = idle();
        assert!(most > file_bytes, "a delete has sunk to what it hides");
        assert!(most < 16 * file_bytes, "{most} bytes for one delete: {:?}", store.db.stats());
    }
    assert_eq!(store.rows(), 2398);
}

#[test]
fn a_partition_that_was_emptied_row_by_row_is_dropped_without_a_walk_over_its_deletes() {
    let advanced = Advanced { memtable_bytes: Some(16 << 20), ..options().advanced };
    let store = Store::new(Options { advanced, ..options() });
    let rows = 6_000;
    store.fill(2, rows);
    let held = store.db.snapshot().unwrap();
    let (emptied, other) = (store.table.partition(pk_of(0)), store.table.partition(pk_of(1)));
    // Only the last is left, behind deletes of all others.
    for n in 0..rows - 1 {
        drop(emptied.batch().delete(rk_of(n)).commit_async());
    }
    store.db.flush().unwrap();
    let lookups = || store.db.stats().cache_hits + store.db.stats().cache_misses;
    let before = lookups();
    emptied.drop_rows().unwrap();
    let read = lookups() - before;
    assert!(read < 600, "{read} blocks read, of some 1,500 that the partition has");
    assert_eq!((emptied.count().unwrap(), other.count().unwrap()), (0, rows as u64));
    assert_eq!(store.db.stats().erasures, 1);
    assert_eq!(held.count::<&str, &str>(&store.table, ..).unwrap(), 2 * rows as u64);
    drop(held);
    // Few rows are deleted one by one as before, also those of a partition that has been erased.
    for n in 0..3 {
        store.table.upsert(pk_of(0), rk_of(n), "back").unwrap();
    }
    emptied.drop_rows().unwrap();
    store.db.settle().unwrap();
    assert_eq!((store.rows(), store.db.stats().erasures), (rows, 0));
    store.check();
}

#[test]
fn a_partition_dropped_again_and_again_leaves_one_record() {
    let store = Store::new(options());
    let held = store.db.snapshot().unwrap();
    for round in 0..6 {
        for rk in 0..80 {
            store.table.upsert("p", rk_of(rk), [round; 50]).unwrap();
        }
        store.table.drop_partition("p").unwrap();
        store.db.flush().unwrap();
    }
    store.db.settle().unwrap();
    assert!(store.db.stats().erasures <= 1, "{}", store.db.stats().erasures);
    drop(held);
    assert_eq!(store.rows(), 0);
}

#[test]
fn a_range_hides_what_its_batch_did_before_and_not_what_it_does_later() {
    let store = Store::new(options());
    store.fill(1, 300);
    let p = store.table.partition(pk_of(0));
    let batch = p.batch().upsert(rk_of(5), "before").upsert("zzz", "beyond");
    let batch = batch.delete_range(rk_of(0)..=rk_of(200)).insert(rk_of(7), "after");
    let ts = batch.delete_if(rk_of(201), If::Present).commit().unwrap();
    assert_eq!(store.rows(), 300 - 202 + 2);
    assert!(p.get(rk_of(5)).unwrap().is_none() && p.get(rk_of(200)).unwrap().is_none());
    assert_eq!(p.get(rk_of(7)).unwrap().unwrap().ts, ts);
    assert_eq!(p.get("zzz").unwrap().unwrap().value, "beyond");
    // A condition sees what the batch erased, and what is applied and not yet in files.
    let refused = p.batch().delete_range::<&str>(..).put_if("zzz", "x", If::Present).commit();
    assert!(refused.is_err() && store.rows() == 300 - 202 + 2, "nothing of it happened");
    p.batch().delete_range::<&str>(..).insert("zzz", "x").commit().unwrap();
    assert_eq!(store.rows(), 1);
}

#[test]
fn ingested_rows_come_and_go_as_others_do() {
    let store = Store::new(options());
    store.fill(2, 300);
    let ingest = |value: &str| {
        let mut ingest = store.table.ingest().unwrap();
        for rk in 0..300 {
            ingest.add(pk_of(1), rk_of(rk), value).unwrap();
        }
        ingest.finish().unwrap()
    };
    let before = store.db.snapshot().unwrap();
    store.table.drop_partition(pk_of(1)).unwrap();
    ingest("anew");
    let anew = store.db.snapshot().unwrap();
    assert_eq!(store.rows(), 600);
    let found = store.table.partition(pk_of(1)).get(rk_of(7)).unwrap().unwrap();
    assert_eq!(found.value, "anew");
    store.table.truncate().unwrap();
    assert_eq!(store.rows(), 0);
    for _ in 0..2 {
        for (snapshot, len) in [(&before, 100), (&anew, 4)] {
            let rows = snapshot.scan::<&[u8], &[u8]>(&store.table, ..).unwrap();
            let rows: Vec<_> = rows.map(Result::unwrap).collect();
            assert_eq!((rows.len(), rows[599].value.len()), (600, len));
        }
        store.db.settle().unwrap();
    }
    drop((before, anew));
    store.db.settle().unwrap();
    assert!(store.file_bytes() < 2000, "{}", store.file_bytes());
    store.check();
}

/// A step of the exhaustive test.
#[derive(Clone, Copy, Debug)]
enum Step {
    Put,
    Delete,
    Refill,
    Erase,
    Truncate,
    Hold,
    Release,
    Flush,
    Settle,
    Compact,
    Kill,
}

const STEPS: [Step; 11] = [
    Step::Put,
    Step::Delete,
    Step::Refill,
    Step::Erase,
    Step::Truncate,
    Step::Hold,
    Step::Release,
    Step::Flush,
    Step::Settle,
    Step::Compact,
    Step::Kill,
];

/// Rows of the partition: more than a range deletes one by one.
const WIDE: usize = 70;

/// A store and its model in lockstep.
struct Pair {
    store: Store,
    model: Oracle,
    held: Vec<(Snapshot, Oracle)>,
}

impl Pair {
    fn new() -> Pair {
        let store = Store::new(options());
        let mut pair = Pair { store, model: Oracle::new(), held: Vec::new() };
        pair.step(Step::Refill);
        pair.step(Step::Compact);
        pair
    }

    fn commit(&mut self, changes: &[Change]) {
        let mut batch = self.store.table.partition("p").batch();
        for change in changes {
            batch = match change.clone() {
                Change::Put(rk, value) => batch.upsert(rk, value),
                Change::PutUntil(rk, value, expires) => {
                    batch.upsert_until(rk, value, tabulith::CommitTs(expires))
                }
                Change::Delete(rk) => batch.delete(rk),
                Change::DeleteRange(from, to) => batch.delete_range::<Vec<u8>>((from, to)),
            };
        }
        let ts = batch.commit().unwrap().0;
        if ts > self.model.last_ts() {
            self.model.commit(1, b"p", ts, changes);
        }
    }

    fn step(&mut self, step: Step) {
        let rk = |n: usize| rk_of(n).into_bytes();
        match step {
            Step::Put => self.commit(&[10, 69].map(|n| Change::Put(rk(n), b"put".to_vec()))),
            Step::Delete => self.commit(&[Change::Delete(rk(10)), Change::Delete(rk(69))]),
            Step::Refill => {
                let row = |n| Change::Put(rk(n), b"refilled".to_vec());
                self.commit(&(0..WIDE).map(row).collect::<Vec<_>>());
            }
            Step::Erase => {
                let (from, to) = (rk(1), rk(69));
                let range = std::ops::Bound::Included(from)..std::ops::Bound::Excluded(to);
                self.commit(&[Change::DeleteRange(range.start, range.end)]);
            }
            Step::Truncate => {
                let ts = self.store.table.truncate().unwrap().0;
                if ts > self.model.last_ts() {
                    self.model.truncate(1, ts);
                }
            }
            Step::Hold => {
                let snapshot = self.store.db.snapshot().unwrap();
                self.held.push((snapshot, self.model.clone()));
            }
            Step::Release if self.held.is_empty() => {}
            Step::Release => drop(self.held.remove(0)),
            Step::Flush => self.store.db.flush().unwrap(),
            Step::Settle => self.store.db.settle().unwrap(),
            Step::Compact => self.store.db.compact().unwrap(),
            Step::Kill => {
                self.held.clear();
                self.store.disk.kill();
                self.store.db = open(&self.store.disk, &self.store.clock, options());
                self.store.table = self.store.db.table("rows").unwrap();
            }
        }
    }

    #[track_caller]
    fn compare(&self, steps: &[Step]) {
        let now = self.store.db.snapshot().unwrap();
        for (snapshot, model) in self.held.iter().chain([&(now, self.model.clone())]) {
            let found = snapshot.scan::<&[u8], &[u8]>(&self.store.table, ..).unwrap();
            let found: Vec<_> = found
                .map(Result::unwrap)
                .map(|row| (row.row_key.to_vec(), row.ts.0, row.value.to_vec()))
                .collect();
            let want: Vec<_> = model
                .table(1)
                .map(|(place, stored)| (place.rk.clone(), stored.ts, stored.value.clone()))
                .collect();
            assert_eq!(found, want, "after {steps:?}");
            for n in [0, 1, 10, 68, 69] {
                let found = snapshot.get(&self.store.table, "p", rk_of(n)).unwrap();
                let want = model.get(1, b"p", rk_of(n).as_bytes());
                assert_eq!(found.map(|row| row.ts.0), want.map(|row| row.ts), "after {steps:?}");
            }
        }
    }
}

#[test]
fn no_order_of_small_steps_brings_a_row_back_or_loses_one() {
    let writes = || STEPS[..5].iter();
    let three = |first: Step, last: Step| {
        let between = STEPS.iter().flat_map(|a| STEPS.iter().map(move |b| (*a, *b)));
        between.for_each(|(a, b)| check(&[first, a, b, last]));
    };
    // There is nothing to release at first, and what a last step that writes nothing does is done
    // after every list.
    let first: Vec<_> = STEPS.iter().filter(|step| !matches!(step, Step::Release)).collect();
    std::thread::scope(|scope| {
        for firsts in first.chunks(first.len() / 2) {
            let all = move |first: &Step| writes().for_each(|last| three(*first, *last));
            scope.spawn(move || firsts.iter().for_each(|first| all(first)));
        }
    });
}

/// The steps alone, then what brings out whatever they left wrong.
fn check(steps: &[Step]) {
    let mut pair = Pair::new();
    steps.iter().for_each(|step| pair.step(*step));
    pair.compare(steps);
    for step in [Step::Settle, Step::Release, Step::Compact] {
        pair.step(step);
        pair.compare(steps);
    }
    pair.held.clear();
    pair.step(Step::Settle);
    pair.compare(steps);
    let stats = pair.store.db.stats();
    assert_eq!(stats.erasures, 0, "after {steps:?}");
    pair.store.check();
}

#[test]
fn a_delete_reads_no_block_and_one_of_nothing_writes_nothing() {
    let store = Store::new(options());
    store.fill(2, 300);
    let lookups = |db: &Db| db.stats().cache_hits + db.stats().cache_misses;
    let (before, filled) = (lookups(&store.db), store.db.stats().memtable_bytes);
    let absent = |n: usize| format!("{}x", rk_of(n));
    for n in 0..300 {
        store.table.delete(pk_of(0), absent(n), If::Any).unwrap();
    }
    // A filter takes about one absent key in a hundred for one that is there.
    let written = store.db.stats().memtable_bytes - filled;
    assert!(written < 30 * 100, "{written} bytes for rows that were never there");
    for n in 0..300 {
        store.table.delete(pk_of(0), rk_of(n), If::Any).unwrap();
        let after_first = store.db.stats().memtable_bytes;
        store.table.delete(pk_of(0), rk_of(n), If::Any).unwrap();
        assert_eq!(store.db.stats().memtable_bytes, after_first, "deleted twice, written once");
    }
    assert_eq!(lookups(&store.db), before);
    assert_eq!(store.rows(), 300);
    store.db.settle().unwrap();
    assert_eq!(store.rows(), 300);
    store.check();
}

/// The bounds of a range have its PartitionKey twice, and a flush records those of a memtable in
/// one edit of the manifest, which has a greatest length.
#[test]
fn one_commit_deletes_ranges_of_so_many_bytes_and_no_more() {
    let store = Store::new(options());
    let partition = store.table.partition("p".repeat(4_000));
    let rows = (0..80).fold(partition.batch(), |batch, n| batch.upsert(rk_of(n), ""));
    rows.commit().unwrap();
    let ranges = |count: usize| {
        (0..count).fold(partition.batch(), |batch, n| batch.delete_range(..format!("~{n:06}")))
    };
    let error = ranges(2_200).commit().unwrap_err();
    assert_eq!(error.kind(), tabulith::Kind::Invalid);
    assert!(error.to_string().contains("have bounds of 17"), "{error}");
    assert_eq!(partition.count().unwrap(), 80);
    ranges(1_900).commit().unwrap();
    store.db.flush().unwrap();
    assert_eq!(partition.count().unwrap(), 0);
}

/// With a history the files of what was trimmed stay, whatever is erased in them once more.
#[test]
fn a_range_that_is_trimmed_once_more_frees_nothing_and_is_not_flushed_for_it() {
    const TRIMS: u64 = 40;
    let store = Store::new(Options { history: Some(Duration::from_secs(86_400)), ..options() });
    store.fill(1, 2_000);
    let trim = || {
        let partition = store.table.partition(pk_of(0));
        partition.batch().delete_range::<&str>(..).commit().unwrap();
        while store.db.step().unwrap() {}
    };
    let before = store.db.stats().flushes;
    trim();
    let first = store.db.stats().flushes;
    assert!(first > before, "the first one is on disk at once");
    for _ in 0..TRIMS {
        let batch = store.table.partition(pk_of(0)).batch();
        (0..70).fold(batch, |batch, n| batch.upsert(rk_of(n), "")).commit().unwrap();
        trim();
    }
    let flushes = store.db.stats().flushes - first;
    assert!(flushes < TRIMS / 3, "{flushes} flushes for what a memtable holds");
    assert_eq!(store.rows(), 0);
}

/// As many as gather while somebody reads what they hide, retired a part at a time.
#[test]
fn erasures_of_many_bytes_are_retired_to_the_last() {
    const PARTITIONS: usize = 300;
    let store = Store::new(options());
    let pk = |n: usize| format!("{n:04}{}", "p".repeat(4_000));
    for n in 0..PARTITIONS {
        let batch = store.table.partition(pk(n)).batch();
        (0..70).fold(batch, |batch, row: u8| batch.upsert([row], "")).commit().unwrap();
    }
    let snapshot = store.db.snapshot().unwrap();
    (0..PARTITIONS).for_each(|n| _ = store.table.drop_partition(pk(n)).unwrap());
    store.db.settle().unwrap();
    assert_eq!(store.db.stats().erasures, PARTITIONS);
    drop(snapshot);
    store.db.settle().unwrap();
    assert_eq!((store.db.stats().erasures, store.rows()), (0, 0));
}
