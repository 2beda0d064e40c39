//! Crashes a finished run after every effect, in every way that the disk allows, and opens what is
//! left.

use crate::finished::{Finished, Unsure};
use crate::kept::Promise;
use crate::model::{History, Need};
use crate::ops::Op;
use crate::run::Run;
use crate::stop::Stop;
use std::collections::HashMap;
use std::fmt;
use std::ops::AddAssign;
use std::path::Path;
use std::sync::Arc;
use tabulith::options::{Durability, Options};
use tabulith::vfs::mem::{Effect, Profile, SimFs};
use tabulith_testkit::seed::Rng;
use tabulith_testkit::watch::Watch;

/// Of so many kills between the write of an edit of the manifest and its sync one is opened again
/// with a crash after every effect of that: what opens it may believe what the cache alone has.
const ONE_EDIT_NESTED_IN: u64 = 8;

/// Of so many opened states one is opened for reading only before.
const ONE_PEEKED_AT_IN: u64 = 16;

/// Of so many states one is asked for copies that are done, beside those of the first effects after
/// that.
const ONE_COPY_LOOKED_AT_IN: u64 = 16;
const EFFECTS_AFTER_A_COPY: usize = 2;

/// What a state that is used goes through in the middle of its writes: one of these.
const MIDDLES: [Op; 4] = [Op::Flush, Op::Compact, Op::Idle, Op::Drop(0)];

/// How many crashes, one within the other, are counted apart.
pub(crate) const DEPTHS: usize = 4;

/// How thoroughly to look.
#[derive(Clone, Debug)]
pub(crate) struct Depth {
    pub(crate) profile: Profile,
    /// States of one crash point.
    pub(crate) states: usize,
    /// Of so many opened states one is used, and then cut again at one random place.
    pub(crate) one_used_in: u64,
    /// Of so many opened states one is opened again with a crash after every effect of that.
    pub(crate) one_nested_in: u64,
    /// Crashes within crashes: 0 for none.
    pub(crate) levels: usize,
    /// States of one crash point inside another.
    pub(crate) nested_states: usize,
}

/// What was looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) crash_points: u64,
    /// States that the disk offered, equal ones included.
    pub(crate) states: u64,
    /// Different states that were opened and compared; `nested` of them after a second crash,
    /// `kills` after the end of a process.
    pub(crate) opened: u64,
    pub(crate) nested: u64,
    pub(crate) kills: u64,
    /// Opened states that went on working, and were cut once more, by the one of [`MIDDLES`].
    pub(crate) used: [u64; MIDDLES.len()],
    /// States that were opened for reading only before.
    pub(crate) peeks: u32,
    /// Copies that were looked for in a state, and those of them that were there.
    pub(crate) copies: u32,
    pub(crate) copies_there: u32,
    /// Those that were opened, by how many crashes came one within the other.
    pub(crate) by_depth: [u64; DEPTHS],
    /// Flushes of the runs because the log was long.
    pub(crate) long_logs: u64,
    /// Moments of the past that opened states have shown.
    pub(crate) moments: u64,
}

impl Tally {
    /// Opened states that went on working.
    pub(crate) fn used(&self) -> u64 {
        self.used.iter().sum()
    }

    /// Whether each of [`MIDDLES`] has had its share, where there were enough to tell.
    pub(crate) fn is_used_in_every_way(&self) -> bool {
        let fair = self.used() / MIDDLES.len() as u64;
        self.used.iter().all(|used| *used >= fair / 2)
    }

    /// The most crashes that came one within the other.
    pub(crate) fn deepest(&self) -> u64 {
        self.by_depth.iter().rposition(|states| *states > 0).map_or(0, |last| last as u64 + 1)
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.crash_points += other.crash_points;
        self.states += other.states;
        self.opened += other.opened;
        self.nested += other.nested;
        self.kills += other.kills;
        self.used.iter_mut().zip(other.used).for_each(|(own, other)| *own += other);
        self.peeks += other.peeks;
        self.copies += other.copies;
        self.copies_there += other.copies_there;
        let depths = self.by_depth.iter_mut().zip(other.by_depth);
        depths.for_each(|(own, other)| *own += other);
        self.long_logs += other.long_logs;
        self.moments += other.moments;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} crash points, {} states, {} different ones opened ({} kills, {} after a second or \
             later crash; by crashes one within the other {:?}), {:?} used and cut again, {} opened \
             for reading only before, {} copies looked for, {} there, {} flushes of long logs, {} \
             moments of the past shown",
            self.crash_points,
            self.states,
            self.opened,
            self.kills,
            self.nested,
            self.by_depth,
            self.used,
            self.peeks,
            self.copies,
            self.copies_there,
            self.long_logs,
            self.moments,
        )
    }
}

/// A broken promise and where.
#[derive(Debug)]
pub(crate) struct Violation {
    /// Crash points from the outermost in, with the state at each.
    pub(crate) places: Vec<String>,
    pub(crate) first_effect: usize,
    pub(crate) what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.what)?;
        self.places.iter().try_for_each(|place| writeln!(f, "  {place}"))
    }
}

/// Looks at one run.
pub(crate) struct Explorer<'a> {
    depth: &'a Depth,
    run: &'a Finished,
    level: usize,
    tally: Tally,
    /// How many commits each state held that was opened, by its hash and the history that it is of.
    opened: HashMap<(u128, usize), usize>,
    /// Whether a state has a copy, by the state's hash and the copy's place in the run.
    has_copy: HashMap<(u128, usize), bool>,
    /// Who looks that it gets on, if anybody does.
    watch: Option<&'a Watch>,
    /// Tells apart what equal states of different runs go through.
    salt: u64,
}

impl<'a> Explorer<'a> {
    pub(crate) fn new(run: &'a Finished, depth: &'a Depth) -> Explorer<'a> {
        let tally = Tally { long_logs: run.long_logs, ..Tally::default() };
        let (opened, has_copy) = (HashMap::new(), HashMap::new());
        Explorer { depth, run, level: 0, tally, opened, has_copy, watch: None, salt: 0 }
    }

    /// The same under a watch.
    pub(crate) fn watched(self, watch: &'a Watch) -> Explorer<'a> {
        Explorer { watch: Some(watch), ..self }
    }

    /// The same, where states of this run that others have too go through something else than
    /// there.
    pub(crate) fn salted(self, salt: u64) -> Explorer<'a> {
        Explorer { salt, ..self }
    }

    /// What was looked at so far.
    pub(crate) fn tally(&self) -> Tally {
        self.tally
    }

    /// Crashes after every effect.
    pub(crate) fn all(&mut self) -> Result<Tally, Violation> {
        (0..=self.run.trace.len()).try_for_each(|n| self.crash_after(n))?;
        Ok(self.tally)
    }

    /// Crashes after the first `n` effects.
    pub(crate) fn crash_after(&mut self, n: usize) -> Result<(), Violation> {
        let run = self.run;
        let need = run.need(n);
        let Some(disk) = run.trace.at(n) else { return Ok(()) };
        self.tally.crash_points += 1;
        let states = if self.level == 0 { self.depth.states } else { self.depth.nested_states };
        for state in disk.crash_states(self.depth.profile, states, n as u64) {
            self.tally.states += 1;
            let place = || place_of(run, n, &format!("power lost: {state:?}"));
            let hash = state.hash();
            let key = (hash, self.unsure(n).map_or(usize::MAX, |unsure| unsure.effects));
            let most = match self.opened.get(&key) {
                Some(most) => *most,
                None => {
                    let fs = || SimFs::after_crash(&state);
                    let counts = self
                        .open(&fs, (n, hash as u64), |need| need.power)
                        .map_err(|e| at(n, place(), e))?;
                    self.opened.insert(key, counts.1);
                    let floor = Need { told_ts: need.told_ts, ..Need::all(counts.0) };
                    let nested = (hash as u64).is_multiple_of(self.depth.one_nested_in);
                    self.go_on(&fs, floor, (n, counts.1), hash as u64, nested)
                        .map_err(|v| v.within(n, place()))?;
                    counts.1
                }
            };
            if most < need.power {
                let what = format!("only {most} commits are there, {} were promised", need.power);
                return Err(at(n, place(), Stop::Wrong(what)));
            }
            let fs = || SimFs::after_crash(&state);
            self.look_for_copies(&fs, n, Some(hash)).map_err(|e| at(n, place(), e))?;
        }
        // The process alone: the cache survives, and a power loss may still take it.
        let place = || place_of(run, n, "process killed");
        self.tally.kills += 1;
        let fs = || disk.fork();
        let of_run = (run.trace.len() as u64) << 32 | (n as u64 + 1); // Other points in other runs.
        let chance = Rng::new(of_run).next_u64();
        let (count, most) =
            self.open(&fs, (n, chance), |need| need.kill).map_err(|e| at(n, place(), e))?;
        self.look_for_copies(&fs, n, None).map_err(|e| at(n, place(), e))?;
        let floor = Need { kill: count, ..need };
        let one_in = match run.trace.effect(n) {
            Some(Effect::Write { file, .. }) if is_manifest(&file) => ONE_EDIT_NESTED_IN,
            _ => self.depth.one_nested_in,
        };
        let nested = chance.is_multiple_of(one_in);
        self.go_on(&fs, floor, (n, most), chance, nested).map_err(|v| v.within(n, place()))
    }

    /// Opens what a crash after effect `n` left, which must have `enough` of what was needed; by
    /// `chance` for reading only before. Gives how many commits are there at least and at most.
    fn open(
        &mut self,
        fs: &dyn Fn() -> SimFs,
        (n, chance): (usize, u64),
        enough: impl Fn(Need) -> usize,
    ) -> Result<(usize, usize), Stop> {
        self.watch.inspect(|watch| watch.tick());
        self.tally.opened += 1;
        self.tally.nested += u64::from(self.level > 0);
        self.tally.by_depth[self.level.min(DEPTHS - 1)] += 1;
        let history = self.history(n);
        let need = Need::all(enough(self.run.need(n)));
        let past = self.run.kept.after(n);
        if chance.is_multiple_of(ONE_PEEKED_AT_IN) {
            self.tally.peeks += 1;
            resume(&fs(), &self.run.options, history.clone(), need).peek_alone()?;
        }
        let run = resume(&fs(), &self.run.options, history.clone(), need);
        let mut run = run.keeping(past);
        let most = run.open(|need| need.power)?;
        self.tally.moments += run.moments;
        Ok((run.history.len(), most))
    }

    /// A copy that was acknowledged before effect `n` is in what the crash left, of which `hash` is
    /// known for a power loss; one that was begun is not there or whole.
    fn look_for_copies(
        &mut self,
        fs: &dyn Fn() -> SimFs,
        n: usize,
        hash: Option<u128>,
    ) -> Result<(), Stop> {
        let run = self.run;
        for (place, copy) in run.copies.iter().enumerate().filter(|(_, copy)| copy.begun < n) {
            let by_chance =
                hash.is_some_and(|hash| hash.is_multiple_of(ONE_COPY_LOOKED_AT_IN.into()));
            if n > copy.done + EFFECTS_AFTER_A_COPY && !by_chance {
                continue;
            }
            // The same state may have been left by a crash before it was acknowledged.
            let known = hash.and_then(|hash| self.has_copy.get(&(hash, place)).copied());
            let is_there = match known {
                Some(is_there) => is_there,
                None => {
                    self.watch.inspect(|watch| watch.tick());
                    let is_there = copy.is_on(&fs(), &run.options)?;
                    self.tally.copies += 1;
                    self.tally.copies_there += u32::from(is_there);
                    hash.map(|hash| self.has_copy.insert((hash, place), is_there));
                    is_there
                }
            };
            if !is_there && n >= copy.done {
                let what = format!("{} was acknowledged and is gone", copy.dir.display());
                return Err(Stop::Wrong(what));
            }
        }
        Ok(())
    }

    /// The first open after effect `n` that was unsure, if it had told nobody by then.
    fn unsure(&self, n: usize) -> Option<&'a Unsure> {
        self.run.unsure.iter().find(|unsure| n < unsure.effects)
    }

    /// What a crash after effect `n` leaves a state of.
    fn history(&self, n: usize) -> &'a History {
        self.unsure(n).map_or(&self.run.history, |unsure| &unsure.history)
    }

    /// Lets some states go through more, of a crash after effect `n` with `most` commits: work and
    /// a crash or, where they are `nested`, crashes all the way.
    fn go_on(
        &mut self,
        fs: &dyn Fn() -> SimFs,
        floor: Need,
        (n, most): (usize, usize),
        chance: u64,
        nested: bool,
    ) -> Result<(), Violation> {
        if self.level >= self.depth.levels {
            return Ok(());
        }
        let history = self.history(n).truncated(most, floor.told_ts);
        let past = self.run.kept.after(n);
        if nested {
            let run = self.second(&fs(), history.clone(), (floor, past), &[])?;
            let (level, depth) = (self.level + 1, self.depth);
            let mut inner = Explorer { level, watch: self.watch, ..Explorer::new(&run, depth) };
            let outcome = inner.all();
            self.tally += inner.tally();
            outcome?;
        }
        if chance.is_multiple_of(self.depth.one_used_in) {
            let mut rng = Rng::new(chance ^ self.salt); // Its own bits have chosen the state.
            let middle = rng.below(MIDDLES.len());
            self.tally.used[middle] += 1;
            let work = more_work(&MIDDLES[middle]);
            let run = self.second(&fs(), history, (floor, past), &work)?;
            let (level, depth) = (self.level + 1, &Depth { levels: 0, ..self.depth.clone() });
            let mut inner = Explorer { level, watch: self.watch, ..Explorer::new(&run, depth) };
            let n = rng.below(run.trace.len() + 1);
            let outcome = [n, run.trace.len()].iter().try_for_each(|n| inner.crash_after(*n));
            self.tally += inner.tally;
            outcome?;
        }
        Ok(())
    }

    /// A run on what a crash left.
    fn second(
        &self,
        fs: &SimFs,
        history: History,
        (floor, past): (Need, Promise),
        ops: &[Op],
    ) -> Result<Finished, Violation> {
        let run = resume(fs, &self.run.options, history, floor);
        let mut run = run.keeping(past).recorded();
        let outcome = run.open(|need| need.kill).and_then(|_| run.apply_all(ops));
        match outcome {
            Ok(()) => Ok(run.finish(floor)),
            Err(stop) => Err(Violation {
                places: vec!["at work after the crash".to_owned()],
                first_effect: 0,
                what: stop.to_string(),
            }),
        }
    }
}

impl Violation {
    fn within(mut self, n: usize, place: String) -> Violation {
        self.places.insert(0, place);
        self.first_effect = n;
        self
    }
}

fn is_manifest(file: &Path) -> bool {
    file.extension().is_some_and(|kind| kind.as_encoded_bytes().starts_with(b"manifest-"))
}

fn place_of(run: &Finished, n: usize, how: &str) -> String {
    let effect = run.trace.effect(n).map_or("the start".to_owned(), |e| e.to_string());
    format!("after effect {n} of {} ({effect}), {how}", run.trace.len())
}

fn at(n: usize, place: String, stop: Stop) -> Violation {
    Violation { places: vec![place], first_effect: n, what: stop.to_string() }
}

fn resume(fs: &SimFs, options: &Options, history: History, floor: Need) -> Run {
    Run::new(fs, Arc::new(fs.clone()), options, history, floor)
}

/// Some of everything, with `middle` between.
fn more_work(middle: &Op) -> Vec<Op> {
    let write = |table, pk, rows: &[(u8, Option<u16>)], wait| Op::Write {
        table,
        pk,
        rows: rows.to_vec(),
        level: Durability::Synced,
        wait,
    };
    vec![
        Op::Create(0),
        write(0, 0, &[(0, Some(50)), (1, None), (9, Some(10))], true),
        middle.clone(),
        write(0, 1, &[(0, Some(400))], false),
        Op::Create(2),
        write(2, 0, &[(0, Some(5))], true),
        Op::Reopen,
        write(2, 0, &[(1, Some(7))], true),
    ]
}
