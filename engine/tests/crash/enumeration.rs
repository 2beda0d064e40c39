//! The enumeration over many workloads, on all cores, and the replay of one crash point of it.

use crate::explore::{Depth, Explorer, Tally, Violation};
use crate::finished::Finished;
use crate::run::Run;
use crate::saved;
use crate::workload::{Family, Name, TRIPLES};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tabulith::vfs::mem::Profile;
use tabulith_testkit::counts::{self, count};
use tabulith_testkit::seed;
use tabulith_testkit::watch::{Watch, watched};

/// States that are opened and compared; the variable asks for another number.
const STATES: u64 = 850_000;
/// Jobs of a round: two of each family, one on each kind of disk, and four sequences.
const ROUND: u64 = 22;
/// Workloads in which rows expire, cut at few places each.
const LIVES: u64 = 2000;
const STATES_VARIABLE: &str = "TABULITH_CRASH_STATES";
/// Has the enumeration keep to one family of workloads.
const FAMILY_VARIABLE: &str = "TABULITH_CRASH_FAMILY";
/// Replays a crash point: `random:17 Hostile 203`.
const REPLAY_VARIABLE: &str = "TABULITH_CRASH";

/// One workload under one kind of disk.
#[derive(Clone, Copy, Debug)]
struct Job {
    name: Name,
    profile: Profile,
}

impl Job {
    /// The `n`-th job, of one family where only that is asked for; there is no last one.
    fn numbered(n: u64, only: Option<Family>) -> Job {
        if let Some(family) = only {
            let profile = [Profile::Ordered, Profile::Hostile][(n % 2) as usize];
            let number = if family == Family::Triple { n / 2 * 619 % TRIPLES } else { n / 2 };
            return Job { name: Name(family, number), profile };
        }
        let (round, place) = (n / ROUND, n % ROUND);
        let profile = [Profile::Ordered, Profile::Hostile][(n % 2) as usize];
        let name = match place {
            0 | 1 => Name(Family::Random, round),
            2 | 3 => Name(Family::Mixed, round),
            4 | 5 => Name(Family::Tiny, round),
            6 | 7 => Name(Family::Aging, round),
            8 | 9 => Name(Family::Rolling, round),
            10 | 11 => Name(Family::Filling, round),
            12 | 13 => Name(Family::Entities, round),
            14 | 15 => Name(Family::Counting, round),
            16 | 17 => Name(Family::Changing, round),
            // A stride that shares no factor with their number: far apart at first, all in the end.
            _ => Name(Family::Triple, (round * 4 + place - 18) * 619 % TRIPLES),
        };
        Job { name, profile }
    }

    fn parse(text: &str) -> Option<(Job, usize)> {
        let mut words = text.split_whitespace();
        let name = Name::parse(words.next()?)?;
        let profile = match words.next()? {
            "Ordered" => Profile::Ordered,
            "Hostile" => Profile::Hostile,
            _ => return None,
        };
        Some((Job { name, profile }, words.next()?.parse().ok()?))
    }

    fn depth(self) -> Depth {
        let depth = Depth {
            profile: self.profile,
            states: 150,
            one_used_in: 16,
            one_nested_in: 512,
            levels: 2,
            nested_states: 12,
        };
        match self.name.0 {
            Family::Tiny => Depth { levels: 3, one_nested_in: 128, ..depth },
            // Hundreds of commits, each with few states.
            Family::Counting => {
                Depth { states: 24, one_used_in: 64, one_nested_in: 2048, levels: 1, ..depth }
            }
            _ => depth,
        }
    }

    /// Runs the workload to its end.
    fn run(self) -> Result<Finished, Violation> {
        let workload = self.name.workload();
        Run::of(&workload.ops, &workload.options).map_err(|stop| Violation {
            places: vec!["without any crash".to_owned()],
            first_effect: 0,
            what: stop.to_string(),
        })
    }

    fn explore(self, watch: &Watch) -> (Tally, Option<Violation>) {
        watch.step(self.to_string());
        let run = match self.run() {
            Ok(run) => run,
            Err(violation) => return (Tally::default(), Some(violation)),
        };
        let depth = self.depth();
        let mut explorer = Explorer::new(&run, &depth).watched(watch);
        let violation = explorer.all().err();
        (explorer.tally(), violation)
    }

    /// Writes a shorter list that fails into a file; gives what there is to say of that.
    fn save(self) -> String {
        let depth = self.depth();
        let settings = saved::Settings {
            options_of: self.name.to_string(),
            hostile: self.profile == Profile::Hostile,
            states: depth.states,
            one_nested_in: depth.one_nested_in,
            levels: depth.levels,
        };
        let file = format!("crash-{}", self.name.to_string().replace(':', "-"));
        saved::save(settings, &self.name.workload().ops, &file)
    }

    fn alarm(self, violation: &Violation) -> String {
        let line = format!("{self} {}", violation.first_effect);
        format!(
            "{violation}replay: {REPLAY_VARIABLE}='{line}' cargo test -p tabulith --test crash replay \
             -- --nocapture"
        )
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.name, self.profile)
    }
}

/// Runs and what they looked at, by family.
type Found = BTreeMap<String, (u64, Tally)>;

#[test]
fn every_crash_leaves_a_prefix_with_all_that_was_promised() {
    let wanted = seed::number(STATES_VARIABLE).unwrap_or(STATES);
    let only = std::env::var(FAMILY_VARIABLE).ok();
    let only = only.map(|name| Family::named(&name).expect("a family such as: rolling"));
    // A seed begins with later workloads; each round of them has other ones.
    let first = seed::seed_or(0) % (1 << 40) * ROUND;
    let (next, opened) = (AtomicU64::new(first), AtomicU64::new(0));
    let stopped = AtomicBool::new(false);
    let found = Mutex::new(Found::default());
    let worker = |watch: &Watch| {
        while opened.load(Ordering::Relaxed) < wanted && !stopped.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let job = Job::numbered(number, only);
            let (tally, violation) = job.explore(watch);
            let before = opened.fetch_add(tally.opened, Ordering::Relaxed);
            let mut found = found.lock().expect("no worker panics with the lock held");
            let family = found.entry(format!("{:?}", job.name.0)).or_default();
            family.0 += 1;
            family.1 += tally;
            drop(found);
            if let Some(violation) = violation
                && !stopped.swap(true, Ordering::Relaxed)
            {
                let after = before + tally.opened;
                // At once: the search for a shorter list may take longer than anybody waits.
                let alarm = format!("after {after} states: {}", job.alarm(&violation));
                eprintln!("{alarm}");
                panic!("{alarm}\n{}", job.save());
            }
        }
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        (0..threads).for_each(|_| drop(scope.spawn(|| watched(worker))));
    });
    let found = found.into_inner().expect("no worker panicked");
    let mut all = Tally::default();
    for (family, (runs, tally)) in &found {
        eprintln!("{family}: {runs} runs, {tally}");
        all += *tally;
    }
    eprintln!("crash states: {all}");
    // Some families make none, and neither do the first few workloads.
    let copies_min = if only.is_none() { wanted.saturating_sub(100_000) / 300 } else { 0 };
    let is_full = only.is_none() && wanted >= STATES;
    assert!(all.is_used_in_every_way(), "{all}");
    let after_three: u64 = all.by_depth[2..].iter().sum();
    assert!(!is_full || all.deepest() >= 3, "no crash within a crash within a crash: {all}");
    // Four of a round, which is 300,000 states about.
    let long_logs_min = if only.is_none() { wanted / 400_000 } else { 0 };
    counts::tell(
        "crash",
        &[
            count("states", all.opened, wanted),
            count("nested", all.nested, wanted / 20),
            count("after-three", after_three, if is_full { wanted / 200 } else { 0 }),
            count("kills", all.kills, wanted / 50),
            count("used", all.used(), wanted / 100),
            count("peeks", all.peeks.into(), wanted / 50),
            count("copies", all.copies.into(), copies_min),
            count("long-logs", all.long_logs, long_logs_min),
            count("moments", all.moments, if is_full { wanted / 1000 } else { 0 }),
        ],
    );
}

/// Crash points of each sequence of three steps, where nothing says how many.
const POINTS: u64 = 4;
const POINTS_VARIABLE: &str = "TABULITH_SEQUENCE_POINTS";

/// Sequences of three steps that are run where nothing says how many, evenly over all of them.
const SEQUENCES: u64 = 2_000;
const SEQUENCES_VARIABLE: &str = "TABULITH_SEQUENCES";

/// Sequences of three steps are run, all where that many are asked for, and cut at some of their
/// effects, at all where they have no more than are asked for: which ones goes on with the
/// sequence's number, so that each effect of a step is met behind and before every other step.
/// Which sequences, which effects and which of the two disks depend on the seed.
#[test]
fn sequences_of_three_steps_survive() {
    let wanted = seed::number(SEQUENCES_VARIABLE).unwrap_or(SEQUENCES).clamp(1, TRIPLES);
    let asked = seed::number(POINTS_VARIABLE).unwrap_or(POINTS).max(1);
    let first = seed::seed_or(0) % TRIPLES;
    let next = AtomicU64::new(0);
    let found = Mutex::new((0, 0, Tally::default()));
    let worker = |watch: &Watch| {
        loop {
            let turn = next.fetch_add(1, Ordering::Relaxed);
            if turn >= wanted {
                return;
            }
            let number = (first + turn * TRIPLES / wanted) % TRIPLES;
            let profile = [Profile::Ordered, Profile::Hostile][((number + first) % 2) as usize];
            let job = Job { name: Name(Family::Triple, number), profile };
            watch.step(job.to_string());
            let run = job.run().unwrap_or_else(|violation| panic!("{}", job.alarm(&violation)));
            let depth =
                Depth { states: 4, one_used_in: 64, one_nested_in: 4096, levels: 1, ..job.depth() };
            let mut explorer = Explorer::new(&run, &depth).watched(watch).salted(number);
            let effects = run.trace.len() + 1;
            let points = effects.min(asked as usize);
            let from = (number * 7 + first) as usize % effects;
            for point in 0..points {
                let n = (point * effects + from) / points;
                let outcome = explorer.crash_after(n);
                outcome.unwrap_or_else(|violation| panic!("{}", job.alarm(&violation)));
            }
            let mut found = found.lock().expect("no worker panics with the lock held");
            found.0 += 1;
            found.1 += points as u64;
            found.2 += explorer.tally();
        }
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        (0..threads).for_each(|_| drop(scope.spawn(|| watched(worker))));
    });
    let (runs, points, all) = found.into_inner().expect("no worker panicked");
    eprintln!("{runs} of {TRIPLES} sequences of three steps, cut at {points} places: {all}");
    assert!(all.is_used_in_every_way(), "{all}");
    counts::tell(
        "sequences",
        &[
            count("runs", runs, wanted),
            count("points", points, wanted * asked.min(POINTS)),
            count("states", all.opened, wanted * asked.min(POINTS) * 18),
        ],
    );
}

/// Which rows are gone depends on what was written and merged when, more than on where a write was
/// cut: many lives, each cut at a few places.
#[test]
fn what_is_gone_stays_gone_and_the_rest_stays_in_many_short_lives() {
    let mut all = Tally::default();
    for number in 0..LIVES {
        let profile = [Profile::Ordered, Profile::Hostile][(number % 2) as usize];
        let job = Job { name: Name(Family::Aging, number), profile };
        let depth = Depth { states: 2, one_used_in: 4, one_nested_in: u64::MAX, ..job.depth() };
        let run = job.run().unwrap_or_else(|violation| panic!("{}", job.alarm(&violation)));
        let mut explorer = Explorer::new(&run, &depth);
        let last = run.trace.len();
        for n in [last, last * (1 + number as usize % 7) / 8] {
            let outcome = explorer.crash_after(n);
            outcome.unwrap_or_else(|violation| panic!("{}", job.alarm(&violation)));
        }
        all += explorer.tally();
    }
    eprintln!("{LIVES} short lives: {all}");
    assert!(all.opened > LIVES * 3 && all.used() > LIVES / 4, "{all}");
}

/// Kinds of steps that there are.
const KINDS: usize = 35;

/// No feature is left out of the long lists.
#[test]
fn random_lists_have_every_kind_of_step() {
    let mut kinds = BTreeMap::<String, u64>::new();
    for op in (0..100).flat_map(|number| Name(Family::Random, number).workload().ops) {
        let text = format!("{op:?}");
        let kind = text.split([' ', '(']).next().unwrap_or_default();
        *kinds.entry(kind.to_owned()).or_default() += 1;
    }
    eprintln!("{kinds:?}");
    assert_eq!(kinds.len(), KINDS, "{kinds:?}");
    assert!(kinds.values().all(|times| *times >= 10), "{kinds:?}");
}

/// No list of this family ends before a flush that only the log's length asked for.
#[test]
fn lists_that_count_have_long_logs() {
    for number in 0..12 {
        let job = Job { name: Name(Family::Counting, number), profile: Profile::Ordered };
        let run = job.run().unwrap_or_else(|violation| panic!("{}", job.alarm(&violation)));
        assert!(run.long_logs >= 1, "{job}: no flush of a long log");
    }
}

/// What must be shown of the past becomes more and less again, under which crashes come.
#[test]
fn lists_that_change_options_change_what_must_be_kept() {
    let (mut changes, mut moments, mut quiet) = (0, 0, 0);
    for number in 0..40 {
        let job = Job { name: Name(Family::Changing, number), profile: Profile::Ordered };
        let run = job.run().unwrap_or_else(|violation| panic!("{}", job.alarm(&violation)));
        changes += run.kept.changes();
        moments += run.moments;
        quiet += run.quiet_moments;
    }
    assert!(changes > 40 && moments > 40, "{changes} changes, {moments} moments shown");
    assert!(quiet > 10, "{quiet} of them are of no commit");
}

/// Runs one crash point, every state of it; by default one that tells whether runs repeat.
#[test]
fn replay() {
    let asked = std::env::var(REPLAY_VARIABLE).ok();
    let line = asked.as_deref().unwrap_or("random:1 Hostile 40");
    let (job, effect) = Job::parse(line).expect("a line such as: random:1 Hostile 40");
    if asked.is_some() {
        eprintln!("{:#?}", job.name.workload());
    }
    let run = || job.run().unwrap_or_else(|violation| panic!("{violation}"));
    let (run, again) = (run(), run());
    assert_eq!(run.trace.len(), again.trace.len(), "a run does not repeat");
    for n in 0..=run.trace.len() {
        assert_eq!(run.trace.effect(n), again.trace.effect(n), "a run does not repeat");
        if asked.is_some() {
            eprintln!("{n} {:?} {:?}", run.trace.effect(n), run.need(n));
        }
    }
    let depth = job.depth();
    if let Err(violation) = Explorer::new(&run, &depth).crash_after(effect) {
        panic!("{violation}");
    }
}
