//! The write path as a user of the embedded engine meets it: tickets, and why a commit was slow.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;
use tabulith::env::clock::{Clock, ManualClock};
use tabulith::env::jobs::ByHand;
use tabulith::health::Obstacle;
use tabulith::options::{Advanced, Durability, Reach};
use tabulith::rows::{Catalog, RowStore};
use tabulith::vfs::fault::{Call, FaultFs, Rule};
use tabulith::vfs::mem::SimFs;
use tabulith::{Compression, Db, If, Kind, Options};

const DIR: &str = "/db";

fn by_hand(disk: &SimFs, options: Options) -> Db {
    let clock = Arc::new(ManualClock::at(16_950_000_000_000_000));
    let builder = Db::builder().options(options);
    builder.parts(Arc::new(disk.clone()), clock, Arc::new(ByHand)).open(DIR).unwrap()
}

#[test]
fn tickets_of_one_thread_share_one_sync() {
    let disk = SimFs::new();
    let db = by_hand(&disk, Options::default());
    let rows = db.table("rows").unwrap();
    let before = disk.syncs();
    let tickets: Vec<_> = (0..1000u32)
        .map(|n| {
            let partition = rows.partition((n % 7).to_string());
            partition.batch().insert(n.to_be_bytes(), "x").commit_async()
        })
        .collect();
    assert!(rows.get("3", 3u32.to_be_bytes()).unwrap().is_none(), "not safe, so not visible");
    let mut last = None;
    for ticket in tickets.into_iter().rev() {
        let ts = ticket.wait().unwrap();
        assert!(last.is_none_or(|last| ts < last), "timestamps are those of the order");
        last = Some(ts);
    }
    assert_eq!(disk.syncs() - before, 1);
    assert!(rows.get("3", 3u32.to_be_bytes()).unwrap().is_some());
}

#[test]
fn a_refused_batch_is_told_once_what_refused_it_is_safe() {
    let disk = SimFs::new();
    let db = by_hand(&disk, Options::default());
    let partition = db.table("rows").unwrap().partition("p");
    let first = partition.batch().insert("r", "1").commit_async();
    let second = partition.batch().insert("r", "2").commit_async();
    assert!(!second.is_done() && second.ts().is_none(), "{second:?}");
    assert_eq!(second.wait().unwrap_err().kind(), Kind::Exists);
    assert!(first.is_done(), "the row that refused is safe by then");
    let long = "k".repeat(5000);
    let invalid = partition.batch().upsert(long, "").commit_async();
    assert!(invalid.is_done());
    assert_eq!(invalid.wait().unwrap_err().kind(), Kind::Invalid);
}

#[test]
fn nobody_has_to_wait_for_a_commit_to_be_made_safe() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap();
    let partition = db.table("rows").unwrap().partition("p");
    drop(partition.batch().insert("dropped", "").commit_async());
    let (tell, told) = mpsc::channel();
    let ticket = partition.batch().insert("told", "").commit_async();
    let ts = ticket.ts().unwrap();
    ticket.notify(move |outcome| tell.send(outcome.unwrap()).unwrap());
    assert_eq!(told.recv().unwrap(), ts);
    assert!(partition.get("dropped").unwrap().is_some(), "it came before");
}

struct Woken(std::thread::Thread, AtomicU32);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.unpark();
    }
}

/// What was told lies in the order of what happens: a callback may be the last to hold the
/// database, or panic, and neither holds up anybody else.
#[test]
fn a_callback_may_drop_the_last_handle() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..20u32 {
        let db = Db::open(folder.path()).unwrap();
        let rows = db.table("rows").unwrap();
        let ticket = rows.partition("p").batch().upsert(round.to_be_bytes(), "v").commit_async();
        drop(rows);
        let (tell, told) = mpsc::channel();
        ticket.notify(move |outcome| {
            drop(db);
            tell.send(outcome.is_ok()).unwrap();
        });
        assert!(told.recv_timeout(Duration::from_secs(60)).unwrap());
    }
    let db = Db::open(folder.path()).unwrap();
    assert_eq!(db.table("rows").unwrap().partition("p").count().unwrap(), 20);
}

/// It closed the folder while its own thread still had a table file to write there.
#[test]
fn a_folder_stays_taken_while_who_closed_it_is_at_work() {
    let disk = FaultFs::new(Arc::new(SimFs::new()));
    let open = || {
        let clock = Arc::new(ManualClock::at(16_950_000_000_000_000));
        Db::builder().parts(Arc::new(disk.clone()), clock, Arc::new(ByHand)).open(DIR)
    };
    let db = open().unwrap();
    db.table("rows").unwrap().upsert("p", "r", "v").unwrap();
    let (own, other) = (db.clone(), disk.clone());
    let (tell, told) = mpsc::channel();
    disk.interrupt(Rule::fail(Call::Create).named("*.sst"), move || {
        let closed = own.close();
        let clock = Arc::new(ManualClock::at(16_950_000_000_000_000));
        let again = Db::builder().parts(Arc::new(other), clock, Arc::new(ByHand)).open(DIR);
        tell.send((closed, again.map_err(|error| error.kind()).map(drop))).unwrap();
    });
    let _ = db.flush();
    let (closed, again) = told.try_recv().unwrap();
    assert_eq!(again, Err(Kind::Locked), "its flush is under way");
    closed.unwrap();
    let db = open().unwrap();
    assert_eq!(db.table("rows").unwrap().get("p", "r").unwrap().unwrap().value, "v");
}

#[test]
fn a_callback_that_closes_beside_a_close_holds_up_nobody() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..20u32 {
        let db = Db::open(folder.path()).unwrap();
        let rows = db.table("rows").unwrap();
        let ticket = rows.partition("p").batch().upsert(round.to_be_bytes(), "v").commit_async();
        let own = db.clone();
        ticket.notify(move |_| drop(own.close()));
        db.close().unwrap();
    }
    let db = Db::open(folder.path()).unwrap();
    assert_eq!(db.table("rows").unwrap().partition("p").count().unwrap(), 20);
}

#[test]
fn a_callback_that_panics_holds_up_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let db = Db::open(folder.path()).unwrap();
    let rows = db.table("rows").unwrap();
    let commit = |n: u32| rows.partition("p").batch().upsert(n.to_be_bytes(), "v").commit_async();
    let (tell, told) = mpsc::channel();
    for n in 0..100 {
        let tell = tell.clone();
        commit(n).notify(move |_| match n % 2 {
            0 => std::panic::resume_unwind(Box::new("without a word")),
            _ => tell.send(n).unwrap(),
        });
    }
    drop(tell);
    assert_eq!(told.iter().count(), 50);
    let safe = commit(100);
    while !safe.is_done() {
        std::thread::yield_now();
    }
    let refused = rows.partition("p").batch().insert(0u32.to_be_bytes(), "").commit_async();
    assert_eq!(refused.ts(), None);
    for ticket in [safe, refused] {
        ticket.notify(|_| std::panic::resume_unwind(Box::new("on the thread of whoever asks")));
    }
    db.close().unwrap();
}

#[test]
fn a_ticket_is_a_future_of_any_runtime() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap();
    let partition = db.table("rows").unwrap().partition("p");
    let waker = Arc::new(Woken(std::thread::current(), AtomicU32::new(0)));
    let context = &mut Context::from_waker(Waker::noop());
    for n in 0..50u32 {
        let ticket = partition.batch().insert(n.to_be_bytes(), "").commit_async();
        let ts = ticket.ts();
        let mut ticket = pin!(ticket);
        let mut polled = ticket.as_mut().poll(context); // The waker of the last poll counts.
        let waker = Waker::from(Arc::clone(&waker));
        let outcome = loop {
            if let Poll::Ready(outcome) = polled {
                break outcome;
            }
            polled = ticket.as_mut().poll(&mut Context::from_waker(&waker));
            if polled.is_pending() {
                std::thread::park();
            }
        };
        assert_eq!(outcome.ok(), ts);
    }
    let mut seen = partition.batch().put_if("none", "", If::Present).commit_async();
    while pin!(&mut seen).poll(context).is_pending() {
        std::thread::yield_now();
    }
    assert_eq!(partition.scan::<&str>(..).unwrap().count(), 50);
}

#[test]
fn what_is_committed_is_counted_and_what_is_written_for_it() {
    let advanced = Advanced { compression: Compression::NONE, ..Advanced::default() };
    let db = by_hand(&SimFs::new(), Options { advanced, ..Options::default() });
    let rows = db.table("rows").unwrap();
    let before = db.stats();
    for n in 0..20u32 {
        rows.partition("p").batch().upsert(n.to_be_bytes(), [7; 1000]).commit().unwrap();
    }
    let after = db.stats();
    assert_eq!(after.commits - before.commits, 20);
    let bytes = after.commit_bytes - before.commit_bytes;
    assert!((20 * 1005..20 * 1060).contains(&bytes), "keys, values and little else: {bytes}");
    let log = after.log_bytes - before.log_bytes;
    assert!((bytes..bytes + 20 * 4096).contains(&log), "a block for each sync: {log}");
    db.flush().unwrap();
    db.compact().unwrap();
    let after = db.stats();
    // Once to the log, once by the flush, and once more where it is merged.
    let files = after.flushed_bytes + after.compaction_bytes_written;
    assert!(files > bytes, "{after:?}");
    let amplification = (after.log_bytes + files) as f64 / after.commit_bytes as f64;
    assert_eq!(after.write_amplification(), Some(amplification));
}

#[test]
fn how_far_the_clock_is_behind_is_told() {
    let (now, second) = (16_950_000_000_000_000, 10_000_000);
    let clock = Arc::new(ManualClock::at(now));
    let builder = Db::builder();
    let db = builder.parts(Arc::new(SimFs::new()), clock.clone(), Arc::new(ByHand));
    let db = db.open(DIR).unwrap();
    db.table("rows").unwrap().upsert("p", "r", "v").unwrap();
    assert_eq!(db.stats().clock_behind_us / 1_000_000, 0);
    clock.set_wall(now - 5 * second);
    assert_eq!(db.stats().clock_behind_us / 1_000_000, 5);
    clock.set_wall(now + second);
    assert_eq!(db.stats().clock_behind_us, 0);
}

#[test]
fn a_wait_is_counted_with_its_cause_and_what_helps() {
    let log = Advanced { wal_segment_bytes: 16 << 10, ..Advanced::default() };
    let memtables =
        Advanced { memtable_bytes: Some(4 << 10), sealed_memtables_max: 1, ..log.clone() };
    let waits = |advanced| {
        let db = by_hand(&SimFs::new(), Options { advanced, ..Options::default() });
        let rows = db.table("rows").unwrap();
        assert_eq!(db.stats().stalls.to_string(), "");
        for n in 0..100u32 {
            rows.upsert("p", n.to_be_bytes(), [7; 1000]).unwrap();
        }
        db.stats().stalls
    };
    let stalls = waits(memtables);
    assert!(stalls.stopped_by_memtables.times > 10, "{stalls:?}");
    let text = stalls.to_string();
    assert!(text.contains("stops until a memtable was written"), "{text}");
    assert!(!text.contains("L0"), "{text}");
    // Whoever stops takes a step of the work behind it, which makes segments too. Here nobody does.
    let stalls = waits(log);
    assert!(stalls.log_segment.times > 0, "nobody made a segment ahead: {stalls:?}");
    assert_eq!(stalls.stopped_by_memtables.times, 0, "{stalls:?}");
}

/// A clock that tells when somebody looks at its steady time, and then is 5 ms on.
#[derive(Debug)]
struct Told(ManualClock, mpsc::SyncSender<()>);

impl Clock for Told {
    fn wall_ticks(&self) -> u64 {
        self.0.wall_ticks()
    }

    fn steady(&self) -> Duration {
        let now = self.0.steady();
        if std::thread::current().name() == Some("second") {
            let _ = self.1.try_send(());
            self.0.sleep(Duration::from_millis(5));
        }
        now
    }

    fn sleep(&self, time: Duration) {
        self.0.sleep(time);
    }
}

#[test]
fn a_wait_for_the_partition_is_counted() {
    let (told, looked) = mpsc::sync_channel(1);
    let clock = Arc::new(Told(ManualClock::at(16_950_000_000_000_000), told));
    let parts = (Arc::new(SimFs::new()), clock, Arc::new(ByHand));
    let db = Db::builder().parts(parts.0, parts.1, parts.2).open(DIR).unwrap();
    let table = Catalog::create_table(&db, "rows", b"").unwrap().id;
    let second = {
        let (db, waits) = (db.clone(), db.stats().stalls.partition);
        assert_eq!(waits.times, 0);
        let (go, gone) = mpsc::channel::<()>();
        let run = move || {
            gone.recv().unwrap();
            RowStore::update(&db, table, b"p", None, Reach::Disk, &mut |rows| rows.put(b"2", b""))
                .and_then(|ticket| ticket.wait())
        };
        (std::thread::Builder::new().name("second".into()).spawn(run).unwrap(), go)
    };
    let ticket = RowStore::update(&db, table, b"p", None, Reach::Disk, &mut |rows| {
        second.1.send(()).unwrap();
        looked.recv().unwrap(); // It looks at the clock where it finds the partition taken.
        rows.put(b"1", b"")
    });
    ticket.unwrap().wait().unwrap();
    second.0.join().unwrap().unwrap();
    let stalls = db.stats().stalls;
    assert_eq!((stalls.partition.times, stalls.partition.us), (1, 5000), "{stalls:?}");
    assert!(stalls.to_string().contains("waits for another commit of the same partition"));
}

/// Commits a row wherever the log is synced, whose segments keep the name that they were made by,
/// as others do who never stop; gives how many of them were taken. Those that would have to wait
/// are not.
fn crowd(db: &Db, disk: &FaultFs, left: u32, taken: &Arc<AtomicU32>) {
    let (db, here, taken) = (db.clone(), disk.clone(), Arc::clone(taken));
    disk.interrupt(Rule::fail(Call::Sync).named("*.spare"), move || {
        let id = Catalog::tables(&db, "", None, 1).unwrap()[0].id;
        let done = db.update(id, b"crowd", None, Reach::Memory, &mut |rows| rows.put(b"r", b"v"));
        match done {
            Ok(ticket) => drop((ticket, taken.fetch_add(1, Ordering::Relaxed))),
            Err(error) => assert_eq!(error.kind(), Kind::WouldBlock),
        }
        if left > 0 {
            crowd(&db, &here, left - 1, &taken);
        }
    });
}

#[test]
fn who_needs_the_log_to_itself_is_not_passed_by_those_who_never_stop() {
    let disk = FaultFs::new(Arc::new(SimFs::new()));
    let advanced = Advanced { wal_segment_bytes: 16 << 10, ..Advanced::default() };
    let clock = Arc::new(ManualClock::at(16_950_000_000_000_000));
    let builder = Db::builder().options(Options { advanced, ..Options::default() });
    let db = builder.parts(Arc::new(disk.clone()), clock, Arc::new(ByHand)).open(DIR).unwrap();
    let rows = db.table("rows").unwrap();
    let taken = Arc::new(AtomicU32::new(0));

    let first = rows.partition("p").batch().upsert("small", "v").commit_async();
    crowd(&db, &disk, 50, &taken);
    rows.upsert("p", "more than a segment", vec![7; 40 << 10]).unwrap();
    assert!(first.is_done());
    assert!(taken.load(Ordering::Relaxed) <= 1, "{taken:?} went before it");

    rows.upsert("p", "a log worth renewing", vec![7; 3 << 20]).unwrap();
    taken.store(0, Ordering::Relaxed);
    db.settle().unwrap();
    assert!(taken.load(Ordering::Relaxed) <= 2, "{taken:?} went before it");
}

#[test]
fn who_empties_a_table_that_is_being_dropped_holds_up_nobody_else() {
    let sim = SimFs::new();
    sim.refuse_direct(); // The log is synced by a call of its own, while others write to it.
    let disk = FaultFs::new(Arc::new(sim));
    let clock = Arc::new(ManualClock::at(16_950_000_000_000_000));
    let builder = Db::builder().parts(Arc::new(disk.clone()), clock, Arc::new(ByHand));
    let db = builder.open(DIR).unwrap();
    let (dropped, other) = (db.table("dropped").unwrap(), db.table("other").unwrap());
    let (done, is_done) = mpsc::channel();
    let emptied = Arc::new(Mutex::new(None));
    let emptying = Arc::clone(&emptied);
    disk.interrupt(Rule::fail(Call::Sync), move || {
        *emptying.lock().unwrap() = Some(thread::spawn(move || dropped.truncate()));
        thread::spawn(move || {
            // They are safe after it, and have their tickets before.
            for n in 0..1000_u32 {
                let batch = other.partition(n.to_be_bytes()).batch().upsert("r", "v");
                assert!(batch.commit_async().ts().is_some());
            }
            done.send(()).unwrap();
        });
        // The drop is not safe before this returns.
        is_done.recv_timeout(Duration::from_secs(20)).expect("others wait for the drop");
    });
    assert!(db.drop_table("dropped").unwrap());
    let emptied = emptied.lock().unwrap().take().unwrap().join().unwrap();
    assert_eq!(emptied.unwrap_err().kind(), Kind::NotFound);
}

#[test]
fn no_commit_is_acknowledged_on_a_log_that_failed_while_it_was_renewed() {
    let (mut refused, mut taken) = (0, 0);
    for skipped in 0.. {
        let disk = FaultFs::new(Arc::new(SimFs::new()));
        let open = || {
            let clock = Arc::new(ManualClock::at(16_950_000_000_000_000));
            let builder = Db::builder().durability(Durability::Buffered);
            builder.parts(Arc::new(disk.clone()), clock, Arc::new(ByHand)).open(DIR).unwrap()
        };
        let db = open();
        let rows = db.table("rows").unwrap();
        rows.upsert("p", "a log worth renewing", vec![7; 3 << 20]).unwrap();
        while db.step().unwrap() {}
        disk.add(Rule::fail(Call::Write).named("*.spare").skip(skipped));
        let settled = db.settle();
        disk.clear();
        if settled.is_ok() {
            break;
        }
        let acknowledged = rows.upsert("p", "after it", "v");
        match db.obstacle() {
            Some(Obstacle::Log { .. }) => {
                refused += 1;
                assert_eq!(acknowledged.unwrap_err().kind(), Kind::Closed, "write {skipped}");
            }
            _ => {
                taken += 1;
                acknowledged.unwrap();
                db.close().unwrap();
                let db = open();
                let row = db.table("rows").unwrap().get("p", "after it").unwrap();
                assert!(row.is_some(), "write {skipped}");
            }
        }
    }
    assert!(refused > 0 && taken > 0, "{refused} {taken}");
}

#[test]
fn a_ticket_tells_the_same_however_often_it_is_asked() {
    let disk = FaultFs::new(Arc::new(SimFs::new()));
    let clock = Arc::new(ManualClock::at(16_950_000_000_000_000));
    let parts = Db::builder().parts(Arc::new(disk.clone()), clock, Arc::new(ByHand));
    let db = parts.open(DIR).unwrap();
    let rows = db.table("rows").unwrap();
    let insert = || rows.partition("p").batch().insert("a", "x").commit_async();
    let mut context = Context::from_waker(Waker::noop());
    let finish = || while db.step().unwrap() {};

    let mut made = insert();
    let ts = made.ts();
    assert!(Pin::new(&mut made).poll(&mut context).is_pending());
    finish();
    assert!(Pin::new(&mut made).poll(&mut context).is_ready() && made.is_done());
    assert_eq!(made.ts(), ts);
    assert_eq!(made.wait().unwrap(), ts.unwrap());

    let mut refused = insert();
    let polled = Pin::new(&mut refused).poll(&mut context);
    assert!(matches!(polled, Poll::Ready(Err(error)) if error.kind() == Kind::Exists));
    assert_eq!(refused.wait().unwrap_err().kind(), Kind::Exists);

    // One that was awaited and is then to be called back.
    let mut late = rows.partition("p").batch().insert("b", "x").commit_async();
    assert!(Pin::new(&mut late).poll(&mut context).is_pending());
    let (told, telling) = mpsc::channel();
    late.notify(move |outcome| told.send(outcome).unwrap());
    assert!(telling.try_recv().is_err(), "it is not safe yet");
    finish();
    telling.try_recv().expect("it was called").unwrap();

    disk.add(Rule::fail(Call::Sync).named("*.spare").forever());
    let mut lost = rows.partition("p").batch().insert("c", "x").commit_async();
    let other = rows.partition("p").batch().insert("d", "x").commit_async();
    assert!(Pin::new(&mut lost).poll(&mut context).is_pending());
    rows.upsert("p", "e", "x").unwrap_err();
    assert!(other.is_done(), "to wait for it gives the failure at once");
    other.wait().unwrap_err();
    assert!(matches!(Pin::new(&mut lost).poll(&mut context), Poll::Ready(Err(_))));
    assert!(lost.is_done());
    lost.wait().unwrap_err();
}
