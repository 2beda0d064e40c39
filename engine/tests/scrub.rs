//! The scrub on a simulated disk and a clock that is turned by hand: all is read within the period,
//! damage is told with its place, what has a second copy is mended.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tabulith::env::clock::{Clock, ManualClock};
use tabulith::env::jobs::ByHand;
use tabulith::error::Kind;
use tabulith::vfs::api::{Access, Vfs};
use tabulith::vfs::fault::{Call, Errno, FaultFs, Rule};
use tabulith::vfs::mem::SimFs;
use tabulith::{Advanced, Db, Event, Options, Table, verify};
use tabulith_testkit::seed::Rng;

const DAY_S: u64 = 24 * 60 * 60;

/// File and offset.
type Find = (String, Option<u64>);

struct Bench {
    sim: SimFs,
    faults: FaultFs, // What the database sees of it.
    clock: Arc<ManualClock>,
    finds: Arc<Mutex<Vec<Find>>>,
    db: Db,
}

fn options(scrub_period_s: u64) -> Options {
    let advanced = Advanced {
        memtable_bytes: Some(64 << 10),
        wal_segment_bytes: 64 << 10,
        block_bytes: 512,
        file_bytes: 64 << 10,
        blob_bytes_min: 2000,
        blob_file_bytes: 64 << 10,
        block_cache_bytes: Some(0),
        scrub_period_s,
        ..Advanced::default()
    };
    Options { advanced, threads: Some(1), ..Options::default() }
}

impl Bench {
    /// A database with several table files, blob files and a log.
    fn new(scrub_period_s: u64) -> Bench {
        let bench = Bench::empty(options(scrub_period_s));
        bench.fill(|_| {});
        bench
    }

    /// The same with versions of rows and a partition that only the past shows, and a table whose
    /// rows last a while.
    fn with_past(scrub_period_s: u64) -> Bench {
        let history = Some(Duration::from_secs(7 * DAY_S));
        let bench = Bench::empty(Options { history, ..options(scrub_period_s) });
        bench.fill(|table| {
            for row in 0..20 {
                table.upsert("p", format!("{:04}", row * 30), "once more").unwrap();
            }
            // More rows than are removed one by one.
            let batch = table.partition("gone").batch();
            (0..70).fold(batch, |batch, row: u8| batch.upsert([row], "")).commit().unwrap();
            bench.db.flush().unwrap();
            table.drop_partition("gone").unwrap();
            let aging = bench.db.table("aging").unwrap();
            aging.set_ttl(Some(Duration::from_secs(60))).unwrap();
            aging.upsert("p", "r", "a minute").unwrap();
        });
        bench
    }

    /// Rows in files, what `also` writes beside them, and a row in the log.
    fn fill(&self, also: impl FnOnce(&Table)) {
        let table = self.db.table("t").unwrap();
        for row in 0..600 {
            let len = if row % 20 == 0 { 5000 } else { 200 };
            let value: Vec<u8> = (0..len).map(|i| (i * row % 251) as u8).collect();
            table.upsert("p", format!("{row:04}"), value).unwrap();
            while self.db.step().unwrap() {}
        }
        also(&table);
        self.db.flush().unwrap();
        table.upsert("p", "in the log", "value").unwrap();
        while self.db.step().unwrap() {}
    }

    fn empty(options: Options) -> Bench {
        let clock = Arc::new(ManualClock::at(17_672_256_000_000_000));
        Bench::over(options, SimFs::new(), clock, Arc::default())
    }

    /// The database on a disk.
    fn over(
        options: Options,
        sim: SimFs,
        clock: Arc<ManualClock>,
        finds: Arc<Mutex<Vec<Find>>>,
    ) -> Bench {
        let told = Arc::clone(&finds);
        let faults = FaultFs::new(Arc::new(sim.clone()));
        let db = Db::builder()
            .options(options)
            .parts(Arc::new(faults.clone()), Arc::clone(&clock) as Arc<dyn Clock>, Arc::new(ByHand))
            .on_event(move |event| {
                if let Event::DamageFound { file, offset, .. } = event {
                    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    told.lock().unwrap().push((name, *offset));
                }
            })
            .open("db")
            .unwrap();
        Bench { sim, faults, clock, finds, db }
    }

    /// Lets the scrub work for as long as `time`; gives how often it was asked.
    fn pass(&self, time: Duration) -> usize {
        let (end, mut steps) = (self.clock.steady() + time, 0);
        while self.clock.steady() < end {
            let pause = self.db.scrub_step().unwrap();
            self.clock.advance(pause.min(end - self.clock.steady()).max(Duration::from_nanos(1)));
            steps += 1;
            assert!(steps < 1_000_000, "the scrub does not pause");
        }
        steps
    }

    fn names(&self, ending: &str) -> Vec<String> {
        let mut names = self.sim.list(Path::new("db")).unwrap();
        names.retain(|name| name.ends_with(ending));
        names.sort();
        names
    }

    fn len(&self, name: &str) -> u64 {
        self.sim.open(&Path::new("db").join(name), Access::Read).unwrap().len().unwrap()
    }

    fn flip(&self, name: &str, at: u64) {
        let file = self.sim.open(&Path::new("db").join(name), Access::ReadWrite).unwrap();
        let byte = file.read_vec_at(1, at).unwrap();
        file.write_all_at(&[byte[0] ^ 0x20], at).unwrap();
    }

    /// Whether a check of the folder finds no damage, which is what an open goes by.
    fn log_is_sound(&self) -> bool {
        let report = verify::check_with(Arc::new(self.sim.clone()), Path::new("db")).unwrap();
        report.is_clean()
    }

    fn finds(&self) -> Vec<Find> {
        std::mem::take(&mut self.finds.lock().unwrap())
    }
}

#[test]
fn every_byte_of_every_live_file_is_read_within_the_period() {
    let bench = Bench::with_past(DAY_S);
    let files = [bench.names(".sst"), bench.names(".blob")].concat();
    assert!(bench.names(".sst").len() > 2 && bench.names(".blob").len() > 1, "{files:?}");
    let bytes: u64 = files.iter().map(|name| bench.len(name)).sum();
    bench.pass(Duration::from_secs(DAY_S));
    let scrub = bench.db.stats().scrub;
    assert!(scrub.passes >= 1 && scrub.files >= files.len() as u64, "{scrub:?}, {files:?}");
    assert!(scrub.bytes >= bytes && scrub.finds == 0 && scrub.last_pass.is_some(), "{scrub:?}");
    assert_eq!(bench.finds(), []);
}

/// Between two pieces of it an hour may pass: who drops a table wants its space at once.
#[test]
fn a_file_that_is_partly_read_leaves_the_disk_when_it_is_dropped() {
    for (ending, value_bytes) in [(".sst", 1_000), (".blob", 5_000)] {
        let mut options = options(DAY_S);
        options.advanced.memtable_bytes = Some(8 << 20);
        options.advanced.file_bytes = 8 << 20;
        options.advanced.blob_file_bytes = 8 << 20;
        let bench = Bench::empty(options);
        let (table, rng) = (bench.db.table("large").unwrap(), &mut Rng::new(7));
        for row in 0..(2 << 20) / value_bytes {
            table.upsert("p", format!("{row:04}"), rng.bytes(value_bytes)).unwrap();
        }
        bench.db.flush().unwrap();
        while bench.db.step().unwrap() {}
        let large = |name: &String| bench.len(name) > 1 << 20;
        let name = bench.names(ending).into_iter().find(large).expect("a file of several pieces");
        let begun = Arc::new(AtomicBool::new(false));
        let read = Arc::clone(&begun);
        let rule = Rule::fail(Call::Read).named(&name);
        bench.faults.interrupt(rule, move || read.store(true, Ordering::Relaxed));
        while !begun.load(Ordering::Relaxed) {
            let pause = bench.db.scrub_step().unwrap();
            bench.clock.advance(pause.max(Duration::from_nanos(1)));
        }
        let files = bench.db.stats().scrub.files;
        assert!(bench.db.drop_table("large").unwrap());
        bench.db.settle().unwrap();
        assert!(!bench.names(ending).contains(&name), "{name} is still there");
        bench.pass(Duration::from_secs(DAY_S));
        let scrub = bench.db.stats().scrub;
        assert!(scrub.passes >= 1 && scrub.files > files, "it went on with others: {scrub:?}");
        assert_eq!(bench.finds(), []);
    }
}

#[test]
fn damage_all_over_table_and_blob_files_is_told_with_its_file() {
    let bench = Bench::with_past(DAY_S);
    for name in [bench.names(".sst"), bench.names(".blob")].concat() {
        let len = bench.len(&name);
        for at in (0..len).step_by(len as usize / 7 + 1).chain([len - 1]) {
            bench.flip(&name, at);
            bench.pass(Duration::from_secs(DAY_S));
            let found = bench.finds();
            let ours = found.iter().all(|(file, offset)| *file == name && offset.is_some());
            assert!(!found.is_empty() && ours, "{name} at {at} of {len}: {found:?}");
            bench.flip(&name, at);
        }
    }
    bench.pass(Duration::from_secs(DAY_S));
    assert_eq!(bench.finds(), [], "and nothing once all is as it was");
    assert!(bench.db.stats().scrub.finds > 20);
}

/// Which says nothing of the files.
#[test]
fn a_lack_of_handles_is_no_damage_and_what_was_left_out_is_read_later() {
    let bench = Bench::new(DAY_S);
    let name = bench.names(".blob").pop().unwrap();
    for errno in [Errno::TooManyFiles, Errno::TooManyFilesOfAll] {
        bench.faults.add(Rule::fail(Call::Open).with(errno).forever());
        bench.pass(Duration::from_secs(DAY_S));
        assert_eq!(bench.finds(), [], "{errno:?}");
        assert!(bench.db.stats().background_errors > 0);
        bench.faults.clear();
        // Of the metadata the roots are there, and no copy of what they name.
        let name = "*.manifest-*";
        bench.faults.add(Rule::fail(Call::Open).named(name).with(errno).forever());
        bench.pass(Duration::from_secs(DAY_S));
        assert_eq!(bench.finds(), [], "{errno:?}");
        bench.faults.clear();
    }
    bench.flip(&name, bench.len(&name) / 2);
    bench.pass(Duration::from_secs(DAY_S));
    assert!(bench.finds().iter().any(|(file, _)| *file == name));
}

/// A pass takes half of a period, and each start begins another one.
#[test]
fn a_process_that_never_runs_for_long_reads_every_file_in_time() {
    let bench = Bench::new(DAY_S);
    let names = [bench.names(".sst"), bench.names(".blob")].concat();
    names.iter().for_each(|name| bench.flip(name, bench.len(name) / 2));
    let Bench { sim, clock, finds, db, .. } = bench;
    db.close().unwrap();
    let (mut left, mut lives) = (names.clone(), 0);
    while !left.is_empty() {
        let bench =
            Bench::over(options(DAY_S), sim.clone(), Arc::clone(&clock), Arc::clone(&finds));
        bench.pass(Duration::from_secs(DAY_S / 8));
        let found = bench.finds();
        left.retain(|name| !found.iter().any(|(file, _)| file == name));
        lives += 1;
        assert!(lives < 200, "{left:?} of {names:?}");
    }
    assert!(lives > 2, "a life is too short for all");
}

/// The database goes on as reads would have it: the place is an error, the rest serves.
#[test]
fn a_damaged_file_serves_what_is_sound_of_it() {
    let bench = Bench::new(DAY_S);
    let name = bench.names(".sst").remove(0);
    bench.flip(&name, 300);
    bench.pass(Duration::from_secs(DAY_S));
    assert!(!bench.finds().is_empty());
    let table = bench.db.table("t").unwrap();
    let read = |row: u32| table.get("p", format!("{row:04}"));
    let failed: Vec<_> = (0..600).filter_map(|row| read(row).err()).collect();
    assert!(!failed.is_empty() && failed.len() < 20, "{} rows fail", failed.len());
    assert!(failed.iter().all(|error| error.kind() == Kind::Corrupt));
}

#[test]
fn damaged_copies_of_root_and_manifest_are_written_anew() {
    let bench = Bench::new(DAY_S);
    for ending in ["ROOT-A", "ROOT-B", "manifest-a", "manifest-b"] {
        let name = bench.names(ending).remove(0);
        bench.flip(&name, bench.len(&name) / 2);
        bench.pass(Duration::from_secs(DAY_S));
        let found = bench.finds();
        assert_eq!((found.len(), &found[0].0), (1, &name), "{ending}");
        let vfs = Arc::new(bench.sim.clone());
        let report = verify::check_with(vfs, Path::new("db")).unwrap();
        assert!(report.is_clean(), "{ending}: {:?}", report.damage);
    }
}

/// Writes rows that only the log has on disk.
fn write_to_log(bench: &Bench, rows: u32) {
    let table = bench.db.table("t").unwrap();
    for row in 0..rows {
        table.upsert("q", format!("{row:02}"), "kept").unwrap();
    }
    while bench.db.step().unwrap() {}
    assert!(bench.log_is_sound());
}

/// Damages the first of these segments in which a byte counts; returns its name.
fn damage_one_of(bench: &Bench, mut segments: impl Iterator<Item = String>) -> String {
    let name = segments.find(|name| {
        (1024..bench.len(name).min(16384)).step_by(67).any(|at| {
            bench.flip(name, at);
            let damaged = !bench.log_is_sound();
            if !damaged {
                bench.flip(name, at);
            }
            damaged
        })
    });
    name.expect("a byte of the log that counts")
}

/// Damages the log below rows that only it has on disk; returns the segment.
fn damage_log(bench: &Bench) -> String {
    write_to_log(bench, 50);
    damage_one_of(bench, bench.names(".wal").into_iter())
}

/// Whether the next start finds so many of those rows.
fn holds_after_a_start(bench: &Bench, rows: u64) -> bool {
    bench.db.close().unwrap();
    let parts = Arc::new(bench.sim.clone());
    let clock = Arc::clone(&bench.clock) as Arc<dyn Clock>;
    let db = Db::builder().parts(parts, clock, Arc::new(ByHand)).open("db").unwrap();
    db.table("t").unwrap().partition("q").count().unwrap() == rows
}

/// What the log has lost is still in memory: it is written to files before the next start needs it.
#[test]
fn commits_of_a_damaged_log_are_brought_to_files() {
    let bench = Bench::new(DAY_S);
    let name = damage_log(&bench);
    bench.pass(Duration::from_secs(DAY_S));
    assert!(bench.finds().iter().any(|(file, _)| *file == name), "{name}");
    assert!(bench.log_is_sound());
    assert!(holds_after_a_start(&bench, 50));
}

/// The log went on in the segment that was damaged where that was a small one, and the next start
/// was refused.
#[test]
fn a_log_that_is_damaged_in_the_segment_that_it_writes_goes_on_in_another() {
    let bench = Bench::new(DAY_S);
    write_to_log(&bench, 6);
    let name = damage_one_of(&bench, bench.names(".wal").into_iter().rev());
    bench.pass(Duration::from_secs(DAY_S));
    assert!(bench.finds().iter().any(|(file, _)| *file == name), "{name}");
    assert!(bench.log_is_sound());
    assert!(holds_after_a_start(&bench, 6));
}

#[test]
fn a_new_log_is_asked_for_until_there_is_one() {
    let bench = Bench::new(DAY_S);
    let name = damage_log(&bench);
    bench.faults.add(Rule::fail(Call::Create).with(Errno::NoSpace).forever());
    bench.pass(Duration::from_secs(DAY_S));
    assert!(!bench.log_is_sound());
    bench.faults.clear();
    bench.pass(Duration::from_secs(DAY_S));
    assert!(bench.log_is_sound());
    assert_eq!(bench.finds().iter().filter(|(file, _)| *file == name).count(), 1, "told once");
}

#[test]
fn the_rate_is_bounded_and_the_scrub_may_be_off() {
    let hurried = Bench::new(1);
    let before = hurried.db.stats().scrub.bytes;
    hurried.pass(Duration::from_secs(10));
    let read = hurried.db.stats().scrub.bytes - before;
    assert!(read <= 10 * (64 << 20) + (1 << 20), "{read} bytes in 10 s");
    assert!(hurried.db.stats().scrub.passes >= 10);
    let off = Bench::new(0);
    assert_eq!(off.db.scrub_step().unwrap_err().kind(), Kind::Invalid);
    assert_eq!(off.db.stats().scrub, Default::default());
}
