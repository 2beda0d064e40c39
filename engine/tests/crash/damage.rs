//! Bytes change at rest, in every file of a database that was closed in order, and it is opened and
//! read: each row is right, or an error that names the file. Never another value, never a row that
//! is missing, never one that was there once. With checksums that were made good again there is no
//! right answer any more, but no panic either, and no allocation without bound.
//!
//! `TABULITH_DAMAGE` asks for another number of opens than [`OPENS`].

use crate::allocator;
use crate::corpus::{CONFIGS, Corpus};
use crate::damages::{self, Case, Class, Damage, Map};
use crate::look::read_world;
use crate::opening::open_on;
use crate::seals;
use crate::verdict::{self, Seen, Wrong};
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use tabulith::db::Db;
use tabulith::options::Options;
use tabulith_testkit::counts::{self, count};
use tabulith_testkit::seed::{self, Replay};
use tabulith_testkit::watch::watched;

/// Opens of one run, about.
const OPENS: u64 = 180_000;
/// Percent of these that meet two damages.
const PAIRS_PERCENT: u64 = 3;
const OPENS_VARIABLE: &str = "TABULITH_DAMAGE";
/// Has the tests keep to one of [`CONFIGS`].
const CONFIG_VARIABLE: &str = "TABULITH_DAMAGE_CONFIG";
const REPLAY_COMMAND: &str = "cargo test -p tabulith --test crash damage";
/// Alarms that are shown.
const ALARMS_MAX: usize = 10;

/// How damage came out.
#[derive(Clone, Debug, Default)]
struct Counts {
    /// Every answer was right.
    right: u64,
    refused: u64,
    /// It opened, and the reads that met the damage failed.
    reads_failed: u64,
    /// Of these, those where other rows could still be read.
    beside: u64,
    wrong: BTreeMap<Wrong, u64>,
}

impl Counts {
    fn opens(&self) -> u64 {
        self.right + self.refused + self.reads_failed + self.wrong.values().sum::<u64>()
    }

    fn add(&mut self, other: &Counts) {
        self.right += other.right;
        self.refused += other.refused;
        self.reads_failed += other.reads_failed;
        self.beside += other.beside;
        for (wrong, count) in &other.wrong {
            *self.wrong.entry(*wrong).or_default() += count;
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { right, refused, reads_failed, beside, wrong } = self;
        write!(
            f,
            "{} opens: {right} all right, {refused} refused, {reads_failed} with reads that failed \
             ({beside} beside good ones)",
            self.opens()
        )?;
        let count = |which| wrong.get(which).copied().unwrap_or(0);
        Wrong::ALL.iter().try_for_each(|which| write!(f, ", {which:?} {}", count(which)))
    }
}

/// A sweep under way.
#[derive(Default)]
struct Sweep {
    counts: Mutex<BTreeMap<(&'static str, Class), Counts>>,
    alarms: Mutex<Vec<String>>,
    opens: AtomicU64,
}

impl Sweep {
    /// Looks at all cases, on both cores.
    fn run(&self, corpus: &Corpus, map: &Map, cases: &[Case]) {
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
                scope.spawn(|| {
                    watched(|watch| {
                        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                            watch.step(format!("{}, {case}", corpus.config));
                            self.check(corpus, map, case);
                        }
                    });
                });
            }
        });
    }

    fn check(&self, corpus: &Corpus, map: &Map, case: &Case) {
        let number = self.opens.fetch_add(1, Ordering::Relaxed) + 1;
        // Every eighth is opened for reading only, which goes another way through the log.
        let options = Options { read_only: number.is_multiple_of(8), ..corpus.options.clone() };
        allocator::take_largest();
        let look = AssertUnwindSafe(|| look(corpus, map, case, (number, &options)));
        let found = catch_unwind(look).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("?");
            Found { wrong: Some((Wrong::Panic, text.to_owned())), ..Found::default() }
        });
        let large = allocator::take_largest();
        let large = (large > 0).then(|| (Wrong::Large, format!("{large} bytes at once")));
        let mut counts = Counts::default();
        match found.wrong.or(large) {
            Some((wrong, what)) => {
                *counts.wrong.entry(wrong).or_default() += 1;
                self.alarm(number, format!("{wrong:?}: {}, {case}: {what}", corpus.config));
            }
            None if found.refused => counts.refused += 1,
            None if found.failed => {
                counts.reads_failed += 1;
                counts.beside += u64::from(found.any_right);
            }
            None => counts.right += 1,
        }
        let mut all = self.counts.lock().expect("no panic while it is held");
        all.entry((corpus.config, case.class)).or_default().add(&counts);
    }

    fn alarm(&self, number: u64, what: String) {
        let alarm = format!("damage: after {number} opens: {what}");
        let mut alarms = self.alarms.lock().expect("no panic while it is held");
        if alarms.len() < ALARMS_MAX {
            eprintln!("{alarm}");
            alarms.push(alarm);
        }
    }

    /// Tells what was seen, and fails where any of it was wrong or there was too little of it: of
    /// all opens, of those whose reads failed beside good ones, and of each class.
    fn end(self, layer: &str, wanted: u64, beside: u64, floors: &[(Class, u64)]) {
        let counts = self.counts.into_inner().expect("no panic while it was held");
        let mut all = Counts::default();
        for ((config, class), counts) in &counts {
            eprintln!("damage: {config}, {class:?}: {counts}");
            all.add(counts);
        }
        eprintln!("damage: {all}");
        let alarms = self.alarms.into_inner().expect("no panic while it was held");
        assert!(all.wrong.is_empty(), "{all}\n{}", alarms.join("\n"));
        for (class, floor) in floors {
            for config in configs() {
                let counts = counts.get(&(config, *class)).cloned().unwrap_or_default();
                assert!(counts.opens() >= *floor, "{config}, {class:?}: {counts}");
            }
        }
        let counts = [
            count("opens", all.opens(), wanted),
            count("reads_failed", all.reads_failed, beside),
            count("beside", all.beside, beside),
        ];
        counts::tell(layer, &counts);
    }
}

/// What one open came to.
#[derive(Default)]
struct Found {
    refused: bool,
    failed: bool,
    any_right: bool,
    wrong: Option<(Wrong, String)>,
}

fn look(corpus: &Corpus, map: &Map, case: &Case, (turn, options): (u64, &Options)) -> Found {
    let sim = corpus.copy();
    case.apply(&sim, corpus, map).expect("the simulated disk does it");
    let opened = open_on(Arc::new(sim), options);
    let (seen, refused) = match opened {
        Ok(db) => {
            let mut seen = verdict::read(&db, &corpus.world);
            if case.is_twice_of_the_log() && seen.wrong.is_some() && is_earlier(&db, corpus) {
                seen.wrong = None;
            }
            corpus.moment(turn).inspect(|then| verdict::read_past(&db, then, &mut seen));
            (seen, false)
        }
        Err(crate::stop::Stop::Refused(error)) => {
            (Seen { refused: vec![error], ..Seen::default() }, true)
        }
        Err(stop) => {
            (Seen { wrong: Some((Wrong::Value, stop.to_string())), ..Seen::default() }, true)
        }
    };
    let nonsense = case.class == Class::Nonsense;
    let mut wrong = seen.wrong.filter(|_| !nonsense && !case.is_beyond_proof(corpus));
    for error in seen.refused.iter().filter(|_| !nonsense) {
        let what = case.refusal_is_wrong(error);
        wrong = wrong.or(what.map(|what| (Wrong::Refusal, what)));
    }
    Found { refused, failed: !seen.refused.is_empty(), any_right: seen.right > 0, wrong }
}

/// Whether it is what it was after some commit: the log's end is gone, and nothing else.
fn is_earlier(db: &Db, corpus: &Corpus) -> bool {
    let found = read_world(db);
    let now = db.time().0;
    found.is_ok_and(|found| corpus.history.find(&found, 0, u64::MAX, now).is_some())
}

impl Case {
    /// What is wrong with refusing for `error`, if anything.
    fn refusal_is_wrong(&self, error: &tabulith::error::Error) -> Option<String> {
        if self.is_beyond_copies() {
            return None; // It may be told of a file that is missing by what the copies say now.
        }
        if self.each().all(Case::is_of_a_copy) && !self.is_of_both_copies() {
            return Some(format!("the other copy is whole, yet {error:?}"));
        }
        if !verdict::names_one_of(error, &self.files()) {
            return Some(format!("it does not name the file: {error:?}"));
        }
        let is_in_place = matches!(self.class, Class::Bits | Class::Sectors);
        let has_offset = error.place().is_some_and(|(_, offset)| offset.is_some());
        (is_in_place && !has_offset).then(|| format!("it does not name the offset: {error:?}"))
    }

    /// Whether one copy of the metadata is damaged, and the other one is not by that.
    fn is_of_a_copy(&self) -> bool {
        let metadata = self.file.starts_with("ROOT") || self.file.contains("manifest");
        metadata && self.twin.is_none() && !matches!(self.damage, Damage::Swapped(_))
    }

    /// Whether each of two copies of the same is damaged in its way.
    fn is_of_both_copies(&self) -> bool {
        let what = |case: &'_ Case| case.file.trim_end_matches(['A', 'B', 'a', 'b']).to_owned();
        let other = |second: &Case| second.file != self.file && what(second) == what(self);
        self.second.as_deref().is_some_and(other)
    }

    /// Whether nothing in the folder tells that anything is amiss: the log's last segment is the
    /// one of an earlier moment, and so the end of the log.
    fn is_beyond_proof(&self, corpus: &Corpus) -> bool {
        let logs = corpus.files.iter().filter(|(name, _)| name.ends_with(".wal"));
        let last = logs.filter(|(_, bytes)| seals::newest_frame(bytes) > 0);
        let last = last.max_by_key(|(_, bytes)| seals::newest_frame(bytes));
        let is_earlier = |case: &Case| {
            matches!(case.damage, Damage::Earlier(_))
                && last.is_some_and(|(name, _)| *name == case.file)
        };
        self.each().any(is_earlier) || self.is_beyond_copies()
    }

    /// Whether both copies of a piece of the metadata are damaged, and one of them may end where it
    /// once did.
    fn is_beyond_copies(&self) -> bool {
        self.is_of_both_copies() && !self.each().all(|case| case.damage.is_in_place())
    }

    /// Whether the log is damaged in two places: one of them may be what would have told that the
    /// other is no torn write.
    fn is_twice_of_the_log(&self) -> bool {
        self.second.is_some() && self.each().all(|case| case.file.ends_with(".wal"))
    }
}

fn budget() -> u64 {
    seed::number(OPENS_VARIABLE).unwrap_or(OPENS)
}

/// A step that shares no factor with the ten changes of each byte.
fn step(all: usize, wanted: u64) -> usize {
    let step = (all as u64 / wanted.max(1)).max(1) as usize;
    if step == 1 { 1 } else { (step..).find(|step| step % 2 == 1 && step % 5 != 0).unwrap_or(step) }
}

fn corpora() -> Vec<(Corpus, Map)> {
    let corpus = |config| {
        let corpus = Corpus::new(config);
        let map = damages::map_of(&corpus);
        let whole = open_on(Arc::new(corpus.copy()), &corpus.options);
        let whole = whole.unwrap_or_else(|stop| panic!("{stop}"));
        let mut seen = verdict::read(&whole, &corpus.world);
        for turn in 0..8 {
            corpus.moment(turn).inspect(|then| verdict::read_past(&whole, then, &mut seen));
        }
        assert!(seen.wrong.is_none() && seen.refused.is_empty(), "{config}, undamaged: {seen:?}");
        let bytes: usize = corpus.files.values().map(Vec::len).sum();
        eprintln!(
            "damage: {config}: {} files, {bytes} bytes, {} rows read",
            corpus.files.len(),
            seen.right
        );
        (corpus, map)
    };
    configs().into_iter().map(corpus).collect()
}

/// The configurations that are swept.
fn configs() -> Vec<&'static str> {
    let only = std::env::var(CONFIG_VARIABLE).ok();
    let is_asked = |config: &&str| only.as_ref().is_none_or(|only| only == config);
    let configs: Vec<_> = CONFIGS.into_iter().filter(is_asked).collect();
    assert!(!configs.is_empty(), "{CONFIG_VARIABLE} is one of {CONFIGS:?}, not {only:?}");
    configs
}

#[test]
fn damage_is_never_a_wrong_answer() {
    let seed = seed::seed_or(0);
    let _replay = Replay::new(seed, REPLAY_COMMAND);
    let sweep = Sweep::default();
    let wanted = budget() * 2 / 3 / CONFIGS.len() as u64;
    let pairs = wanted * PAIRS_PERCENT / 100;
    for (corpus, map) in &corpora() {
        let always = damages::all(corpus, map, usize::MAX, 0).len() as u64;
        let every = damages::all(corpus, map, 1, 0).len() - always as usize;
        let step = step(every, wanted.saturating_sub(always + pairs));
        let mut cases = damages::all(corpus, map, step, seed);
        cases.extend(damages::pairs(&cases, pairs as usize, seed));
        sweep.run(corpus, map, &cases);
    }
    let part = |percent| wanted * percent / 100;
    sweep.end(
        "damage",
        most_of(wanted),
        most_of(wanted) / 5,
        &[
            (Class::Bits, part(40).saturating_sub(1000)),
            (Class::Sectors, 500),
            (Class::Lengths, part(3)),
            (Class::Files, 60),
            (Class::Pairs, pairs),
        ],
    );
}

/// Opens that there must be, where so many are wanted for each configuration: damages are taken in
/// steps, which do not always come out even.
fn most_of(wanted: u64) -> u64 {
    wanted * configs().len() as u64 * 95 / 100
}

#[test]
fn nonsense_with_a_good_checksum_is_no_panic() {
    let seed = seed::seed_or(0);
    let _replay = Replay::new(seed, REPLAY_COMMAND);
    let sweep = Sweep::default();
    let wanted = budget() / 3 / CONFIGS.len() as u64;
    for (corpus, map) in &corpora() {
        let step = step(damages::nonsense(corpus, 1, 0).len(), wanted);
        sweep.run(corpus, map, &damages::nonsense(corpus, step, seed));
    }
    sweep.end("nonsense", most_of(wanted), 0, &[(Class::Nonsense, wanted * 4 / 5)]);
}
