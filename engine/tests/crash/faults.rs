//! Every call of the disk fails, one after the other, in every way: what was acknowledged is kept,
//! what failed is there whole or not at all, no answer is wrong, and nothing hangs or panics.

use crate::look::Stop;
use crate::model::{History, Need};
use crate::run::Run;
use crate::workload::{Op, small};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;
use tabulith::options::{Advanced, Durability, Options};
use tabulith::vfs::fault::{Errno, FaultFs, Rule};
use tabulith::vfs::mem::{Profile, SimFs, SyncFailure};

/// No case takes a hundredth of it.
const HANGS_AFTER: Duration = Duration::from_secs(120);

/// A run on a disk that can fail.
struct Case {
    name: String,
    sim: SimFs,
    faults: FaultFs,
    run: Run,
    refused: u64,
}

impl Case {
    /// A fresh database with one table; the disk is well.
    fn new(name: String) -> Case {
        let sim = SimFs::new();
        let faults = FaultFs::new(Arc::new(sim.clone()));
        let advanced = Advanced { block_cache_bytes: Some(0), ..small().advanced };
        let options = Options { advanced, ..small() };
        let vfs = Arc::new(faults.clone());
        let mut run = Run::new(&sim, vfs, &options, History::new(), Need::default());
        run.open(|need| need.kill).unwrap_or_else(|stop| panic!("{name}: {stop}"));
        let mut case = Case { name, sim, faults, run, refused: 0 };
        case.must(&[Op::Create(0), put(0, 0, 20)]);
        case
    }

    /// Does what can be done.
    fn may(&mut self, ops: &[Op]) {
        for op in ops {
            match self.run.apply(op) {
                Ok(()) => {}
                Err(Stop::Refused(_)) => self.refused += 1,
                Err(stop) => panic!("{}: at {op:?}: {stop}", self.name),
            }
        }
    }

    fn must(&mut self, ops: &[Op]) {
        for op in ops {
            self.run.apply(op).unwrap_or_else(|stop| panic!("{}: at {op:?}: {stop}", self.name));
        }
    }

    /// The disk is well again; the process dies, or the power fails. Gives the number of states.
    fn end(self) -> u64 {
        let Case { name, sim, run, .. } = self;
        let after = |fs: SimFs, enough: fn(Need) -> usize, how: &str| {
            let mut after =
                run.judge(&fs, enough).unwrap_or_else(|stop| panic!("{name}, then {how}: {stop}"));
            let work = [put(0, 0, 30), Op::Flush, put(0, 1, 30), Op::Reopen, Op::Read];
            let outcome = after.apply_all(&work);
            outcome.unwrap_or_else(|stop| panic!("{name}, then {how}, at work: {stop}"));
        };
        let mut states = 1;
        for state in sim.crash_states(Profile::Ordered, 3, 1) {
            after(SimFs::after_crash(&state), |need| need.power, &format!("{state:?}"));
            states += 1;
        }
        let killed = sim.fork();
        after(killed, |need| need.kill, "a kill");
        states
    }
}

fn put(table: u8, rk: u8, bytes: u16) -> Op {
    let rows = vec![(rk, Some(bytes)), (rk + 1, Some(bytes / 2))];
    Op::Write { table, pk: 0, rows, level: Durability::Synced, wait: true }
}

/// Some of everything, files and segments included.
fn work() -> Vec<Op> {
    let later = |rk| Op::Write {
        table: 0,
        pk: 1,
        rows: vec![(rk, Some(200)), (0, None)],
        level: Durability::Synced,
        wait: false,
    };
    vec![
        put(0, 1, 700),
        later(1),
        Op::Flush,
        put(0, 2, 3000),
        Op::Read,
        Op::Create(1),
        put(1, 0, 5000),
        Op::Idle,
        later(2),
        later(3),
        Op::WaitAll,
        Op::Drop(1),
        put(0, 3, 6000),
        Op::Compact,
        Op::Read,
        Op::Reopen,
        put(0, 4, 100),
        Op::Settle,
        Op::Read,
    ]
}

/// Aborts where a case does not end: a hang has no other way to be seen.
fn watched(test: impl FnOnce(&Sender<String>)) {
    let (sender, receiver) = mpsc::channel::<String>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut now = String::new();
            loop {
                match receiver.recv_timeout(HANGS_AFTER) {
                    Ok(case) => now = case,
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => {
                        eprintln!("hangs: {now}");
                        std::process::abort();
                    }
                }
            }
        });
        test(&sender);
        drop(sender);
    });
}

#[test]
fn every_call_may_fail() {
    let calls = {
        let mut case = Case::new("no fault".to_owned());
        let before = case.faults.calls();
        case.must(&work());
        let calls = case.faults.calls() - before;
        case.end();
        calls
    };
    type Turn = fn(Rule) -> Rule;
    let rules: [(&str, Turn); 7] = [
        ("EIO once", |rule| rule),
        ("EIO once, half of the write landed", Rule::half_done),
        ("EIO once, all of it landed", Rule::done),
        ("EIO for ever", Rule::forever),
        ("ENOSPC once", |rule| rule.with(Errno::NoSpace)),
        ("ENOSPC for ever", |rule| rule.with(Errno::NoSpace).forever()),
        ("EINTR twice", |rule| rule.with(Errno::Interrupted).times(2)),
    ];
    let (mut injected, mut refused, mut states) = (0, 0, 0);
    watched(|watch| {
        for (what, rule) in rules {
            for n in 0..calls {
                let name = format!("call {n} of {calls}: {what}");
                watch.send(name.clone()).expect("the watch lives as long as the test");
                let mut case = Case::new(name);
                case.faults.add(rule(Rule::any().skip(n)));
                case.may(&work());
                case.faults.clear();
                injected += u64::from(case.faults.injected() > 0);
                refused += case.refused;
                states += case.end();
            }
        }
    });
    eprintln!(
        "faults: {calls} calls, {injected} runs with a fault, {refused} operations refused, {states} states after"
    );
    assert!(calls > 200 && injected > calls * 6, "{injected} faults in {calls} calls");
}

#[test]
fn every_sync_may_fail_as_file_systems_fail_it() {
    let syncs = {
        let mut case = Case::new("no fault".to_owned());
        let before = case.sim.syncs();
        case.must(&work());
        case.sim.syncs() - before
    };
    watched(|watch| {
        for how in [SyncFailure::MarksClean, SyncFailure::Reverts, SyncFailure::ShutsDown] {
            for n in 0..syncs {
                let name = format!("sync {n} of {syncs}: {how:?}");
                watch.send(name.clone()).expect("the watch lives as long as the test");
                let mut case = Case::new(name);
                case.sim.fail_sync(n, how);
                case.may(&work());
                assert!(case.refused > 0, "{}: nobody was told", case.name);
                case.end();
            }
        }
    });
    assert!(syncs > 30, "only {syncs} syncs");
}

/// Writes resume without a reopen once there is room; reads never stop.
#[test]
fn a_full_disk_refuses_writes_until_there_is_room() {
    let rooms = (0..60_000).step_by(150).map(|room| (room, 0));
    // The log needs a new segment at another operation each time.
    let shifted = (0..32).flat_map(|before| [(0, before), (4 << 10, before)]);
    let (mut cases, mut refusals) = (0, 0);
    watched(|watch| {
        for (room, before) in rooms.chain(shifted) {
            let name = format!("room for {room} bytes, after {before} commits more");
            watch.send(name.clone()).expect("the watch lives as long as the test");
            let mut case = Case::new(name);
            case.must(&vec![put(0, 7, 100); before]);
            case.faults.set_room(Some(room));
            for op in work().iter().filter(|op| !matches!(op, Op::Reopen)) {
                case.may(std::slice::from_ref(op));
                case.must(&[Op::Read]);
            }
            cases += 1;
            refusals += u64::from(case.refused > 0);
            case.faults.set_room(None);
            case.must(&[put(0, 5, 300), Op::Flush, Op::Compact, put(0, 6, 300), Op::Read]);
            case.end();
        }
    });
    eprintln!("full disk: {refusals} of {cases} runs were refused something");
    assert!(refusals * 2 > cases, "{refusals} of {cases}");
}
