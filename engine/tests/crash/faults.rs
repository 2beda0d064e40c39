//! Every call of the disk fails, one after the other, in every way: what was acknowledged is kept,
//! what failed is there whole or not at all, no answer is wrong, and nothing hangs or panics.

use crate::kinds::{KINDS, Turn};
use crate::look::LONG_HISTORY;
use crate::model::{History, Need};
use crate::ops::{Op, Owner};
use crate::run::Run;
use crate::stop::Stop;
use crate::workload::{self, Family, Name, small};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tabulith::Codec;
use tabulith::env::clock::ManualClock;
use tabulith::options::{Advanced, Compression, Durability, Options};
use tabulith::vfs::fault::{Call, FaultFs, Rule};
use tabulith::vfs::mem::{Profile, SimFs, SyncFailure};
use tabulith_testkit::counts::{self, count};
use tabulith_testkit::seed::{self, Replay};
use tabulith_testkit::watch::{Watch, watched};

/// A run on a disk that can fail.
pub(crate) struct Case {
    name: String,
    sim: SimFs,
    pub(crate) faults: FaultFs,
    run: Run,
    refused: u64,
}

impl Case {
    /// A disk with nothing on it, which is well. It takes direct writes or does not: then the log
    /// is written and synced by two calls.
    fn new(name: String, options: &Options, direct: bool) -> Case {
        let sim = SimFs::new();
        if !direct {
            sim.refuse_direct();
        }
        let faults = FaultFs::new(Arc::new(sim.clone()));
        let vfs = Arc::new(faults.clone());
        let run = Run::new(&sim, vfs, options, History::new(), Need::default());
        Case { name, sim, faults, run, refused: 0 }
    }

    /// Has a database with one table there, in which `before` was done.
    fn opened(mut self, before: &[Op]) -> Case {
        self.must(&[Op::Reopen, Op::Create(0), put(0, 0, 20)]);
        self.must(before);
        self
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

    pub(crate) fn must(&mut self, ops: &[Op]) {
        for op in ops {
            self.run.apply(op).unwrap_or_else(|stop| panic!("{}: at {op:?}: {stop}", self.name));
        }
    }

    /// The clock that it goes by.
    pub(crate) fn clock(&self) -> Arc<ManualClock> {
        self.run.clock()
    }

    /// How many were told that something failed.
    fn told(&self) -> u64 {
        self.refused + self.run.background_errors()
    }

    /// The disk is well again; the process dies, or the power fails, on either kind of disk in
    /// `turn`. Gives the number of states.
    pub(crate) fn end(self, turn: u64) -> u64 {
        let Case { name, sim, run, .. } = self;
        let after = |fs: SimFs, enough: fn(Need) -> usize, how: &str| {
            let mut after =
                run.judge(&fs, enough).unwrap_or_else(|stop| panic!("{name}, then {how}: {stop}"));
            let work = [put(0, 0, 30), Op::Flush, put(0, 1, 30), Op::Reopen, Op::Read];
            for op in &work {
                let outcome = after.apply(op);
                outcome.unwrap_or_else(|stop| panic!("{name}, then {how}, at {op:?}: {stop}"));
            }
        };
        let mut states = 1;
        for state in sim.crash_states(profile_of(turn), STATES, turn) {
            after(SimFs::after_crash(&state), |need| need.power, &format!("{state:?}"));
            states += 1;
        }
        let killed = sim.fork();
        after(killed, |need| need.kill, "a kill");
        states
    }
}

/// States of a power loss after each run, and at each place within the open after it.
const STATES: usize = 6;
const STATES_WITHIN: usize = 2;

fn profile_of(turn: u64) -> Profile {
    if turn.is_multiple_of(2) { Profile::Ordered } else { Profile::Hostile }
}

impl Case {
    /// The process dies, and the power fails within the next open, after one in
    /// [`OPEN_EFFECTS_STEP`] of its effects, others in each `turn`: what a sync that failed has
    /// left in the cache was not to be believed. Gives the number of states.
    fn end_within_an_open(&self, turn: u64) -> u64 {
        let place = |how: &str| format!("{}, then a kill{how}", self.name);
        let killed = self.sim.fork();
        let trace = killed.record();
        let opened = self.run.judge(&killed, |need| need.kill);
        let opened = opened.unwrap_or_else(|stop| panic!("{}: {stop}", place("")));
        let effects = trace.len();
        drop(opened);
        let mut states = 0;
        let first = turn as usize % OPEN_EFFECTS_STEP;
        for n in (first..effects).step_by(OPEN_EFFECTS_STEP) {
            let disk = trace.at(n).expect("an effect of the open");
            for state in disk.crash_states(profile_of(turn), STATES_WITHIN, n as u64) {
                let after = self.run.judge(&SimFs::after_crash(&state), |need| need.power);
                let how = format!(", an open and, after {n} effects of it, {state:?}");
                after.unwrap_or_else(|stop| panic!("{}: {stop}", place(&how)));
                states += 1;
            }
        }
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
        Op::Scrub,
        Op::Compact,
        Op::Read,
        Op::Reopen,
        put(0, 4, 100),
        Op::Settle,
        Op::Read,
    ]
}

/// What else there is: everything that the first does not do.
fn more_work() -> Vec<Op> {
    let level = Durability::Synced;
    let transact = |read, rows: &[(u8, Option<u16>)]| Op::Transact {
        table: 0,
        pk: 0,
        read,
        rows: rows.to_vec(),
    };
    let weak = |rk, level| {
        let rows = vec![(rk, Some(4000))];
        Op::Write { table: 0, pk: 2, rows, level, wait: true }
    };
    vec![
        Op::Fill { table: 0, pk: 1, level, wait: true },
        transact(0, &[(1, Some(50)), (0, None)]),
        Op::Ingest { table: 0, pk: 3, rows: vec![(0, 40), (1, 900)] },
        Op::Erase { table: 0, pk: 1, from: 2, to: Some(7), level, wait: true },
        Op::Flush,
        Op::Declare { table: 0, columns: 1 },
        Op::Life(Some(1 << 50)),
        put(0, 4, 600),
        Op::Life(None),
        weak(1, Durability::Flushed),
        weak(2, Durability::Buffered),
        weak(3, Durability::Flushed),
        Op::Notify,
        Op::Step,
        Op::Peek,
        Op::Scrub,
        Op::Checkpoint,
        Op::Compact,
        Op::Truncate { table: 0, level, wait: true },
        weak(4, Durability::Flushed),
        Op::Kill,
        transact(3, &[(3, Some(700))]),
        Op::Settle,
        Op::SetTtl { table: 0, ticks: 1 << 50 },
        Op::Setting { owner: Owner::Account, name: 0, bytes: Some(700) },
        Op::Setting { owner: Owner::Account, name: 0, bytes: None },
        Op::CompactPartition { table: 0, pk: 0 },
        Op::Idle,
        Op::Read,
    ]
}

/// A database is made, used and found again.
fn first_work() -> Vec<Op> {
    vec![Op::Reopen, Op::Create(0), put(0, 0, 20), Op::Kill, put(0, 1, 30), Op::Reopen, Op::Read]
}

/// Versions that a window keeps and readers look back at; then no window, and one again.
fn past_work() -> Vec<Op> {
    let long = LONG_HISTORY.as_nanos() as u64 / 100;
    let (level, durability) = (Durability::Synced, Durability::Synced);
    let alter = |history, kill| Op::Alter { history, durability, blob_bytes_min: 50, kill };
    vec![
        put(0, 0, 300),
        Op::Flush,
        put(0, 0, 40),
        Op::Erase { table: 0, pk: 0, from: 1, to: None, level, wait: true },
        Op::Read,
        alter(Some(0), true),
        put(0, 0, 60),
        Op::Compact,
        alter(Some(long), false),
        put(0, 0, 70),
        Op::Flush,
        Op::Read,
    ]
}

/// So many small commits that the log is nearly long.
fn nearly_long() -> Vec<Op> {
    vec![Op::Count { table: 0, pk: 0, times: LOG_COMMITS - 20 }]
}

/// It becomes long, and what it holds a file.
fn long_work() -> Vec<Op> {
    vec![Op::Count { table: 0, pk: 0, times: 24 }, put(0, 1, 90), Op::Reopen, Op::Read]
}

/// Commits of one block each until a log of the smallest segments is long, and a few less with what
/// else stands in the log.
const LOG_COMMITS: u8 = 128;

/// A random list and what it runs under, others for each seed.
fn random_workload() -> workload::Workload {
    Name(Family::Random, seed::seed_or(SEED) % (1 << 40)).workload()
}

fn random_options() -> Options {
    random_workload().options
}

fn counted_options() -> Options {
    workload::counted(uncached())
}

fn random_work() -> Vec<Op> {
    let mut ops = random_workload().ops;
    ops.truncate(24);
    ops
}

/// Every block is read from its file.
fn uncached() -> Options {
    let advanced = Advanced { block_cache_bytes: Some(0), ..small().advanced };
    Options { advanced, ..small() }
}

/// Every version stays; index and filters are read again at each use.
fn remembering() -> Options {
    let advanced = Advanced { index_and_filter_bytes: Some(0), ..uncached().advanced };
    Options { history: Some(LONG_HISTORY), advanced, ..small() }
}

/// Files are read in place, and values in blob files are of other codecs.
fn mapped() -> Options {
    let bottom = if cfg!(feature = "zstd") { Codec::Zstd } else { Codec::Lz4 };
    let compression = Compression { upper: Codec::None, bottom };
    let advanced = Advanced { mapped: true, compression, ..uncached().advanced };
    Options { advanced, ..small() }
}

/// Calls by their kind and class of file.
pub(crate) type Sites = BTreeMap<(Call, String), u64>;

/// What is done while calls fail.
#[derive(Clone, Copy)]
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    options: fn() -> Options,
    /// Makes the database and does this on a disk that is well; `None` where the first open is
    /// among what may fail.
    before: Option<fn() -> Vec<Op>>,
    ops: fn() -> Vec<Op>,
    /// The list ends with the operation that makes so many calls.
    calls_max: u64,
    /// Whether the disk takes direct writes.
    direct: bool,
}

impl Workload {
    /// A run that has come to where calls may fail.
    pub(crate) fn case(&self, name: String) -> Case {
        let case = Case::new(name, &(self.options)(), self.direct);
        match self.before {
            Some(before) => case.opened(&before()),
            None => case,
        }
    }

    /// The run without a fault, its list as far as it goes, and the calls that it makes.
    pub(crate) fn without_fault(&self) -> (Case, Vec<Op>, Sites) {
        let mut case = self.case(format!("no fault in {}", self.name));
        let (before, first) = (case.faults.counts(), case.faults.calls());
        let (mut ops, mut done) = ((self.ops)(), 0);
        while done < ops.len() && case.faults.calls() - first < self.calls_max {
            case.must(&ops[done..=done]);
            done += 1;
        }
        ops.truncate(done);
        let mut sites = case.faults.counts();
        for (site, calls) in &mut sites {
            *calls -= before.get(site).copied().unwrap_or(0);
        }
        sites.retain(|_, calls| *calls > 0);
        (case, ops, sites)
    }
}

const WORK: Workload = Workload {
    name: "work",
    options: uncached,
    before: Some(Vec::new),
    ops: work,
    calls_max: u64::MAX,
    direct: true,
};

/// Where every use of a file may read its index anew, a few steps are many calls.
const FEW: Workload = Workload { calls_max: 300, ..WORK };

pub(crate) const WORKLOADS: [Workload; 8] = [
    WORK,
    Workload { name: "work in two calls", direct: false, ..WORK },
    Workload { name: "more work", ops: more_work, direct: false, ..WORK },
    Workload {
        name: "random work",
        options: random_options,
        ops: random_work,
        calls_max: 600,
        ..WORK
    },
    Workload { name: "a first open", before: None, ops: first_work, ..FEW },
    Workload { name: "work with a past", options: remembering, ops: past_work, ..FEW },
    Workload { name: "work in place", options: mapped, ops: past_work, direct: false, ..FEW },
    Workload {
        name: "work on a long log",
        options: counted_options,
        before: Some(nearly_long),
        ops: long_work,
        ..FEW
    },
];

impl Faults {
    fn add(&mut self, other: Faults) {
        self.runs += other.runs;
        self.injected += other.injected;
        self.refused += other.refused;
        self.states += other.states;
        for (own, other) in self.by_mode.iter_mut().zip(other.by_mode) {
            *own += other;
        }
        for (site, kinds) in other.coverage {
            let own = self.coverage.entry(site).or_default();
            kinds.into_iter().for_each(|(kind, count)| *own.entry(kind).or_default() += count);
        }
    }
}

/// How often it does, and whether the disk is well again before the end.
const MODES: [(&str, Turn, bool); 4] = [
    ("once", |rule| rule, false),
    ("twice", |rule| rule.times(2), false),
    ("for ever", Rule::forever, false),
    ("for ever, then healed", Rule::forever, true),
];

/// Of so many effects of an open one is followed by a power loss.
const OPEN_EFFECTS_STEP: usize = 3;

/// Runs that [`every_call_may_fail`] makes, about; every call with every kind is among them, in one
/// mode at least.
const RUNS: u64 = 40_000;
const SEED: u64 = 7; // Where none is asked for.
const RUNS_VARIABLE: &str = "TABULITH_FAULTS";
const REPLAY_COMMAND: &str = "cargo test -p tabulith --test crash faults";

/// What was injected: by call and class of file, and by kind.
type Coverage = BTreeMap<(Call, String), BTreeMap<usize, u64>>;

/// The runs of one workload that are due: every call with every kind, the modes in turn, and of the
/// others one in `step`; others for another `seed`.
fn runs(calls: u64, step: u64, seed: u64) -> Vec<(u64, usize, usize)> {
    let (first, modes) = (seed % (1 << 32), MODES.len() as u64);
    let step = step.saturating_sub(1) | 1; // An even one would pass some modes over.
    let mut runs = Vec::new();
    for n in 0..calls {
        for kind in 0..KINDS.len() {
            // A call's kinds begin with another mode than those of the call before.
            let turn = first + n * KINDS.len() as u64 + kind as u64;
            let due = (0..MODES.len()).filter(|mode| {
                let of_turn = (turn + *mode as u64) % modes;
                of_turn == 0 || (turn * (modes - 1) + of_turn).is_multiple_of(step)
            });
            runs.extend(due.map(|mode| (n, kind, mode)));
        }
    }
    runs
}

#[derive(Default)]
struct Faults {
    runs: u64,
    injected: u64,
    refused: u64,
    states: u64,
    by_mode: [u64; MODES.len()],
    coverage: Coverage,
}

/// Whether a call that fails so for ever has somebody told of it, whatever else is done: without it
/// nothing that is written gets its place.
fn is_to_be_told((call, file): &(Call, String)) -> bool {
    let files = [".wal", ".manifest", ".sst"];
    matches!(call, Call::Write | Call::Sync | Call::Create)
        && files.iter().any(|ending| file.ends_with(ending))
}

/// One call of a workload fails, in run number `turn`.
fn fail_one(
    workload: Workload,
    ops: &[Op],
    turn: u64,
    (n, kind, mode): (u64, usize, usize),
    calls: u64,
    watch: &Watch,
) -> Faults {
    let (what, kind_of) = KINDS[kind];
    let (how_often, mode_of, heals) = MODES[mode];
    let name = format!("call {n} of {calls}, {}: {what} {how_often}", workload.name);
    watch.step(name.clone());
    let mut case = workload.case(name);
    case.faults.add(mode_of(kind_of(Rule::any().skip(n))));
    case.may(ops);
    case.faults.clear();
    let injected = case.faults.injected_counts();
    if what.starts_with("EIO") && how_often.starts_with("for ever") {
        let told = case.told() > 0 || !injected.keys().any(is_to_be_told);
        assert!(told, "{}: nobody was told of {injected:?}", case.name);
    }
    let mut faults = Faults { runs: 1, refused: case.refused, ..Faults::default() };
    faults.by_mode[mode] = 1;
    for (site, count) in injected {
        faults.injected += count;
        faults.coverage.entry(site).or_default().insert(kind, count);
    }
    if heals {
        // Of the log it is known only then what it holds.
        case.may(&[Op::Reopen]);
        case.must(&[put(0, 5, 300), Op::Flush, Op::Compact, put(0, 6, 300), Op::Read, Op::Reopen]);
    }
    faults.states = case.end(turn);
    faults
}

#[test]
fn every_call_meets_every_kind_and_no_mode_is_passed_over() {
    for (step, seed) in (0..12).flat_map(|step| (0..5).map(move |seed| (step, seed))) {
        let all = runs(400, step, seed);
        let mut by_mode = [0_usize; MODES.len()];
        all.iter().for_each(|(_, _, mode)| by_mode[*mode] += 1);
        let pairs: BTreeSet<_> = all.iter().map(|(n, kind, _)| (n, kind)).collect();
        assert_eq!(pairs.len(), 400 * KINDS.len());
        assert!(BTreeSet::from_iter(&all).len() == all.len(), "none twice");
        let fair = all.len() / MODES.len();
        assert!(by_mode.iter().all(|runs| runs.abs_diff(fair) <= 10), "{step}: {by_mode:?}");
    }
}

#[test]
fn every_call_may_fail() {
    let wanted = seed::number(RUNS_VARIABLE).unwrap_or(RUNS);
    let _replay = Replay::new(seed::seed_or(SEED), REPLAY_COMMAND);
    let mut all = Faults::default();
    let mut sites = Sites::new();
    let (mut of_each, mut long_logs, mut moments) = (Vec::new(), 0, 0);
    for workload in WORKLOADS {
        let (case, ops, own) = workload.without_fault();
        let calls: u64 = own.values().sum();
        own.into_iter().for_each(|(site, count)| *sites.entry(site).or_default() += count);
        (long_logs, moments) = (long_logs + case.run.long_logs, moments + case.run.moments);
        case.end(0);
        eprintln!("faults: {calls} calls of {} steps in {}", ops.len(), workload.name);
        of_each.push((workload, ops, calls));
    }
    assert!(long_logs > 0 && moments > 0, "{long_logs} long logs, {moments} looks back");
    // Every call with every kind; the rest is shared out by the number of calls.
    let once: u64 = of_each.iter().map(|(_, _, calls)| calls * KINDS.len() as u64).sum();
    let (others, left) = (once * (MODES.len() as u64 - 1), wanted.saturating_sub(once));
    for (workload, ops, calls) in &of_each {
        let (workload, calls) = (*workload, *calls);
        let runs = runs(calls, others.div_ceil(left.max(1)), seed::seed_or(SEED));
        let (next, found) = (AtomicUsize::new(0), Mutex::new(Faults::default()));
        std::thread::scope(|scope| {
            for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
                scope.spawn(|| {
                    watched(|watch| {
                        loop {
                            let turn = next.fetch_add(1, Ordering::Relaxed);
                            let Some(run) = runs.get(turn) else { break };
                            let one = fail_one(workload, ops, turn as u64, *run, calls, watch);
                            found.lock().expect("no panic while it is held").add(one);
                        }
                    });
                });
            }
        });
        all.add(found.into_inner().expect("no panic while it was held"));
    }
    let Faults { runs, injected, refused, states, by_mode, coverage } = all;
    for (site, calls) in &sites {
        let kinds = coverage.get(site).map_or(0, BTreeMap::len);
        let times: u64 = coverage.get(site).into_iter().flat_map(BTreeMap::values).sum();
        let (call, file) = site;
        eprintln!("faults: {call:?} {file}: {calls} calls, {kinds} kinds, {times} times");
    }
    let cells = sites.len() * KINDS.len();
    let met: usize = sites.keys().filter_map(|site| coverage.get(site)).map(BTreeMap::len).sum();
    eprintln!(
        "faults: {runs} runs, {injected} faults, {refused} operations refused, {states} states after; \
         {met} of {cells} pairs of {} sites and {} kinds",
        sites.len(),
        KINDS.len()
    );
    assert_eq!(met, cells, "every site must meet every kind");
    let mut counts = vec![
        count("runs", runs, wanted * 9 / 10),
        count("faults", injected, runs),
        count("sites", sites.len() as u64, 60),
        count("pairs", met as u64, cells as u64),
        count("states", states, 4 * runs),
    ];
    let modes = ["once", "twice", "forever", "healed"];
    counts.extend(modes.iter().zip(by_mode).map(|(mode, of_it)| count(mode, of_it, runs / 5)));
    counts::tell("faults", &counts);
}

#[test]
fn every_sync_may_fail_as_file_systems_fail_it() {
    let (mut all, mut of_folders, mut within_opens) = (0, 0, 0);
    for workload in WORKLOADS {
        watched(|watch| {
            watch.step(format!("sync 0 of none, {}", workload.name));
            let (_, ops, _) = workload.without_fault();
            let (files, folders) = {
                let mut case = workload.case("no fault".to_owned());
                let before = (case.sim.syncs(), case.sim.dir_syncs());
                case.must(&ops);
                (case.sim.syncs() - before.0, case.sim.dir_syncs() - before.1)
            };
            let of_files = (0..files).map(|n| (n, false));
            let syncs: Vec<_> = of_files.chain((0..folders).map(|n| (n, true))).collect();
            for how in [SyncFailure::MarksClean, SyncFailure::Reverts, SyncFailure::ShutsDown] {
                for (n, is_folder) in &syncs {
                    let what = if *is_folder { "sync of a folder" } else { "sync" };
                    let name = format!("{what} {n}, {}: {how:?}", workload.name);
                    watch.step(name.clone());
                    let mut case = workload.case(name);
                    match is_folder {
                        true => case.sim.fail_sync_dir(*n, how),
                        false => case.sim.fail_sync(*n, how),
                    }
                    case.may(&ops);
                    assert!(case.told() > 0, "{}: nobody was told", case.name);
                    within_opens += case.end_within_an_open(all);
                    case.end(all);
                    all += 1;
                    of_folders += u64::from(*is_folder);
                }
            }
        });
    }
    let within_opens = count("power losses within the next open", within_opens, 4 * all);
    let of_folders = count("folders", of_folders, 100);
    counts::tell("syncs", &[count("failed", all, 500), of_folders, within_opens]);
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
            watch.step(name.clone());
            let case = Case::new(name, &uncached(), before % 2 == 0);
            let mut case = case.opened(&vec![put(0, 7, 100); before]);
            case.faults.set_room(Some(room));
            for op in work().iter().filter(|op| !matches!(op, Op::Reopen)) {
                case.may(std::slice::from_ref(op));
                case.must(&[Op::Read]);
            }
            cases += 1;
            refusals += u64::from(case.refused > 0);
            if cases % 3 == 0 {
                case.end(cases); // The next start finds what this one could not finish.
                continue;
            }
            case.faults.set_room(None);
            case.must(&[put(0, 5, 300), Op::Flush, Op::Compact, put(0, 6, 300), Op::Read]);
            case.end(cases);
        }
    });
    let refused = count("refused", refusals, cases / 2);
    counts::tell("full-disk", &[count("runs", cases, 400), refused]);
}
