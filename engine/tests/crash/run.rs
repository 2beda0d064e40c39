//! A database at work on a simulated disk, and beside every effect what had been promised by then.

use crate::doubts::Doubts;
use crate::finished::{Finished, Made, Unsure};
use crate::kept::{Kept, Promise};
use crate::look::{catalog_of, compare_past, read_past, read_world};
use crate::model::{History, Need, World};
use crate::opening::{DIR, START_TICKS, open_with};
use crate::stop::Stop;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tabulith::Snapshot;
use tabulith::db::Db;
use tabulith::env::clock::{Clock as _, ManualClock};
use tabulith::env::jobs::ByHand;
use tabulith::error::{Error, Kind};
use tabulith::options::Options;
use tabulith::rows::{CommitTicket, RowStore as _};
use tabulith::vfs::api::Vfs;
use tabulith::vfs::mem::{SimFs, Trace};

/// Ticks: more than a start goes on from the newest commit that it finds.
const LONGER_THAN_A_START: u64 = 100_000_000;

/// A database at work, and what is known of it.
pub(crate) struct Run {
    sim: SimFs,
    vfs: Arc<dyn Vfs>,
    pub(crate) options: Options,
    /// Whether an open had others than the first.
    pub(crate) is_altered: bool,
    pub(crate) clock: Arc<ManualClock>,
    db: Option<Db>,
    pub(crate) tickets: Vec<Box<dyn CommitTicket>>,
    /// What callbacks said since it was looked at last: the commit, and what its safety promises.
    told: Arc<Mutex<Vec<(u64, Need)>>>,
    /// None where nobody asks what a crash in the middle would leave: a trace keeps every disk.
    trace: Option<Trace>,
    pub(crate) history: History,
    /// What failed and may happen all the same.
    pub(crate) doubts: Doubts,
    need: Need,
    kept: Kept,
    /// Moments of the past that were shown, and those of them that are of no commit.
    pub(crate) moments: u64,
    pub(crate) quiet_moments: u64,
    /// The ticks that rows written from here on last; `None` for ever.
    pub(crate) life: Option<u64>,
    /// A snapshot, and what it shows.
    pub(crate) held: Option<(Snapshot, World)>,
    /// Folders that copies were made in, whatever came of it.
    folders: u64,
    copies: Vec<Made>,
    unsure: Vec<Unsure>,
    /// Flushes because the log was long, of memtables that were not full.
    pub(crate) long_logs: u64,
}

impl Run {
    /// A run on `sim`, reached through `vfs`, where `history` happened before and `floor` of it
    /// must be there. Nothing is opened yet, and nothing recorded.
    pub(crate) fn new(
        sim: &SimFs,
        vfs: Arc<dyn Vfs>,
        options: &Options,
        history: History,
        floor: Need,
    ) -> Run {
        Run {
            sim: sim.clone(),
            vfs,
            options: options.clone(),
            is_altered: false,
            clock: Arc::new(ManualClock::at(START_TICKS)),
            db: None,
            tickets: Vec::new(),
            told: Arc::default(),
            trace: None,
            history,
            doubts: Doubts::default(),
            need: floor,
            kept: Kept::since(Promise::NONE),
            moments: 0,
            quiet_moments: 0,
            life: None,
            held: None,
            folders: 0,
            copies: Vec::new(),
            unsure: Vec::new(),
            long_logs: 0,
        }
    }

    /// The same where so much of the past was promised before.
    pub(crate) fn keeping(self, past: Promise) -> Run {
        Run { kept: Kept::since(past), ..self }
    }

    /// The same, and every effect from here on is recorded.
    pub(crate) fn recorded(self) -> Run {
        Run { trace: Some(self.sim.record()), ..self }
    }

    /// Failures of background work that whoever asks the database is told of.
    pub(crate) fn background_errors(&self) -> u64 {
        self.db.as_ref().map_or(0, |db| db.stats().background_errors)
    }

    /// The clock that it goes by.
    pub(crate) fn clock(&self) -> Arc<ManualClock> {
        Arc::clone(&self.clock)
    }

    /// How many more parts than merges there were since the last opening.
    pub(crate) fn merges_divided(&mut self) -> Result<u64, Stop> {
        let stats = self.db()?.stats();
        Ok(stats.compaction_parts - stats.compactions)
    }

    /// Ends a run that was recorded.
    pub(crate) fn finish(mut self, floor: Need) -> Finished {
        // The trace ends here: what dropping the database does is not part of the run.
        let trace = self.trace.take().expect("a run that is recorded");
        let (history, mut options) = (self.history.clone(), self.options.clone());
        if self.is_altered {
            options.history = None; // So that what the folder knows of it counts after a crash.
        }
        let (unsure, copies) = (std::mem::take(&mut self.unsure), std::mem::take(&mut self.copies));
        let (long_logs, moments, kept) = (self.long_logs, self.moments, self.kept.clone());
        let quiet_moments = self.quiet_moments;
        self.sim.kill();
        self.let_go();
        Finished {
            trace,
            history,
            floor,
            options,
            told_is_safe: false,
            unsure,
            copies,
            long_logs,
            kept,
            moments,
            quiet_moments,
        }
    }

    /// Opens and takes what is found for the truth, if it is one that `enough` of the need allows.
    /// Gives the greatest number of commits that may be there.
    pub(crate) fn open(&mut self, enough: impl Fn(Need) -> usize) -> Result<usize, Stop> {
        let effects = self.effects();
        self.kept.begin(self.options.history, effects);
        let db = open_with(&self.vfs, &self.options, &self.clock)?;
        self.history.restart_time();
        let db = self.db.insert(db);
        let (found, visible, now) = (read_world(db)?, db.visible().0, db.time().0);
        let window = db.history();
        let need = enough(self.need);
        self.settle(&found)?;
        self.doubts.clear();
        self.told = Arc::default();
        let Some(counts) = self.history.find(&found, need, visible, now) else {
            return Err(Stop::Wrong(self.history.explain(&found, need, now)));
        };
        if counts.start() < counts.end() {
            let history = self.history.truncated(*counts.end(), self.need.told_ts);
            let effects = self.effects();
            self.unsure.push(Unsure { history, effects });
        }
        self.history = self.history.truncated(*counts.start(), self.need.told_ts);
        // What was lost and might be counts no more.
        self.need = Need { told_ts: self.need.told_ts, ..Need::default() };
        let effects = self.effects();
        if !self.kept.end(self.options.history, (visible, window), effects) {
            return Err(Stop::Wrong(format!("another history window than was set: {window:?}")));
        }
        self.look_back(self.history.len())?;
        self.promise_all()?;
        Ok(*counts.end())
    }

    /// Reads a moment of the past, after one of the first `count` commits.
    fn look_back(&mut self, count: usize) -> Result<(), Stop> {
        let is_shown = read_past(self.db()?, &self.history, count, self.kept.now().from)?;
        self.moments += u64::from(is_shown);
        Ok(())
    }

    pub(crate) fn db(&self) -> Result<&Db, Stop> {
        let closed = || Error::new(Kind::Closed, "the last open failed");
        self.db.as_ref().ok_or_else(|| Stop::Refused(closed()))
    }

    pub(crate) fn promise(&mut self, need: Need) {
        self.need = self.need.max(need);
        if let Some(trace) = &self.trace {
            need.to_marks().into_iter().for_each(|mark| trace.mark(mark));
        }
    }

    /// Commits up to `ts` are safe, each as far as it asked for.
    pub(crate) fn promise_up_to(&mut self, ts: u64) -> Result<(), Stop> {
        self.settle_shown()?;
        self.promise(self.history.promised(self.history.count_at(ts)));
        Ok(())
    }

    /// Everything so far survives all crashes.
    pub(crate) fn promise_all(&mut self) -> Result<(), Stop> {
        self.settle_shown()?;
        self.history.safe = self.history.len();
        self.promise(self.history.promised(self.history.len()));
        Ok(())
    }

    /// What `fs` holds, opened, is a state that this run may leave.
    pub(crate) fn judge(&self, fs: &SimFs, enough: impl Fn(Need) -> usize) -> Result<Run, Stop> {
        let (vfs, history) = (Arc::new(fs.clone()), self.history.clone());
        let mut run = Run::new(fs, vfs, &self.options, history, self.need);
        run.doubts = self.doubts.clone();
        run = run.keeping(self.kept.now());
        run.open(enough)?;
        Ok(run)
    }

    pub(crate) fn wait_all(&mut self) -> Result<(), Stop> {
        while let Some(ticket) = self.tickets.pop() {
            let ts = ticket.ts().0;
            ticket.wait()?;
            self.promise_up_to(ts)?;
        }
        Ok(())
    }

    /// What reports that it is safe must be so from here on.
    pub(crate) fn ask(&mut self) -> Result<(), Stop> {
        self.tickets.sort_by_key(|ticket| ticket.ts());
        let done = self.tickets.partition_point(|ticket| ticket.is_done());
        if let Some(early) = self.tickets[done..].iter().find(|ticket| ticket.is_done()) {
            return Err(Stop::Wrong(format!("commit {} is done before others", early.ts())));
        }
        for ticket in self.tickets.drain(..done).collect::<Vec<_>>() {
            self.promise_up_to(ticket.ts().0)?;
        }
        Ok(())
    }

    /// Leaves every commit under way to a callback, which notes in the trace what it promises.
    pub(crate) fn notify(&mut self) {
        for ticket in std::mem::take(&mut self.tickets) {
            let ts = ticket.ts().0;
            let need = self.history.promised(self.history.count_at(ts));
            let (trace, told) = (self.trace.clone(), Arc::clone(&self.told));
            ticket.notify(Box::new(move |outcome| {
                if outcome.is_ok() {
                    let marks = need.to_marks();
                    trace.iter().for_each(|trace| marks.iter().for_each(|mark| trace.mark(*mark)));
                    told.lock().expect("no callback panics").push((ts, need));
                }
            }));
        }
    }

    /// Takes up what callbacks said; they come in the order of commits.
    pub(crate) fn hear(&mut self) -> Result<(), Stop> {
        let told = std::mem::take(&mut *self.told.lock().expect("no callback panics"));
        if !told.is_sorted_by_key(|(ts, _)| *ts) {
            return Err(Stop::Wrong(format!("callbacks out of order: {told:?}")));
        }
        self.need = told.into_iter().fold(self.need, |need, (_, own)| need.max(own));
        Ok(())
    }

    pub(crate) fn read(&mut self) -> Result<(), Stop> {
        self.settle_shown()?;
        let db = self.db()?;
        let visible = db.visible().0;
        let count = self.history.count_at(visible);
        let (found, now) = (read_world(db)?, db.time().0);
        if self.history.find(&found, count, visible, now).is_none() {
            let what = self.history.explain(&found, count, now);
            return Err(Stop::Wrong(format!("a reader: {what}")));
        }
        self.promise(self.history.promised(count));
        self.look_back(count)
    }

    /// Reads the newest moment of the past. It is mostly one after the newest commit, by less than
    /// a start goes on from that: no commit comes at it or before it from here on.
    pub(crate) fn read_quiet(&mut self) -> Result<(), Stop> {
        self.settle_shown()?;
        let (from, end) = self.db()?.moments_kept();
        // Where none is kept a merge that began now gave up all before. What failed may come yet.
        if from >= end || !self.doubts.is_empty() {
            return Ok(());
        }
        let at = end.0 - 1;
        let count = self.history.count_at(at);
        let (newest, world) = self.history.after(count);
        compare_past(self.db()?, at, world)?;
        self.moments += 1;
        self.quiet_moments += u64::from(at > newest);
        self.history.take_up_to(at);
        self.promise(Need { told_ts: at, ..self.history.promised(count) });
        Ok(())
    }

    /// Takes up the failed changes that the database shows all the same.
    pub(crate) fn settle_shown(&mut self) -> Result<(), Stop> {
        match (&self.db, self.doubts.is_empty()) {
            (Some(db), false) => {
                let found = catalog_of(db)?;
                Ok(self.doubts.settle_catalogue(&mut self.history, &found)?)
            }
            _ => Ok(()),
        }
    }

    fn settle(&mut self, found: &World) -> Result<(), Stop> {
        Ok(self.doubts.settle(&mut self.history, found)?)
    }

    pub(crate) fn idle(&mut self) -> Result<(), Stop> {
        while self.db()?.step_at_rest()? {}
        // A step of the log writes and syncs all that was applied.
        self.read()
    }

    /// Lets the scrub read all files once, and mend what it can. It takes no time of the wall
    /// clock: where that is set back after it, a power loss may have timestamps given again.
    pub(crate) fn scrub(&mut self) -> Result<(), Stop> {
        let passes = |db: &Db| db.stats().scrub.passes;
        let (before, wall) = (passes(self.db()?), self.clock.wall_ticks());
        while passes(self.db()?) == before {
            let pause = self.db()?.scrub_step()?;
            self.clock.advance(pause.max(Duration::from_nanos(100)));
        }
        self.clock.set_wall(wall);
        Ok(())
    }

    /// A folder for a copy, another one each time.
    pub(crate) fn folder(&mut self) -> PathBuf {
        self.folders += 1;
        format!("/copy-{}", self.folders).into()
    }

    fn effects(&self) -> usize {
        self.trace.as_ref().map_or(0, Trace::len)
    }

    /// Copies the database into `dir`; gives what the copy holds.
    pub(crate) fn checkpoint(&mut self, dir: &Path) -> Result<World, Stop> {
        let begun = self.effects();
        self.db()?.checkpoint(dir)?;
        self.promise_all()?;
        let world = self.history.last().clone();
        self.made(dir, begun, world.clone())?;
        Ok(world)
    }

    /// Makes a database of a snapshot.
    pub(crate) fn export(&mut self) -> Result<(), Stop> {
        let (snapshot, world) = match self.held.clone() {
            Some(held) => held,
            None => self.hold()?,
        };
        let (dir, begun) = (self.folder(), self.effects());
        snapshot.export(&dir)?;
        self.promise_all()?;
        self.made(&dir, begun, world)
    }

    /// A copy was made: it is there and whole.
    fn made(&mut self, dir: &Path, begun: usize, world: World) -> Result<(), Stop> {
        let (done, now) = (self.effects(), self.db()?.time().0);
        let made = Made { dir: dir.to_owned(), begun, done, world, now };
        let db = self.open_read_only(dir)?;
        made.check(&read_world(&db)?, db.time().0)?;
        self.copies.push(made);
        Ok(())
    }

    /// Holds what is visible now, and what that is.
    pub(crate) fn hold(&mut self) -> Result<(Snapshot, World), Stop> {
        self.wait_all()?;
        self.settle_shown()?;
        let snapshot = self.db()?.snapshot()?;
        // What callbacks wait for need not be visible.
        let count = self.history.count_at(snapshot.at().0);
        Ok((snapshot, self.history.after(count).1.clone()))
    }

    /// Who opens for reading only sees what a killed process would leave.
    pub(crate) fn peek(&self) -> Result<(), Stop> {
        let enough = self.need.kill;
        let db = self.open_read_only(Path::new(DIR))?;
        let (found, now) = (read_world(&db)?, db.time().0);
        // What failed may be there for who looks now, and be cut off by who writes next.
        let (mut history, mut doubts) = (self.history.clone(), self.doubts.clone());
        doubts.settle(&mut history, &found)?;
        match history.find(&found, enough, u64::MAX, now) {
            Some(_) => Ok(()),
            None => {
                let what = history.explain(&found, enough, now);
                Err(Stop::Wrong(format!("for reading: {what}")))
            }
        }
    }

    /// Who opens for reading only what a crash left sees no less than who opens it for work, and
    /// changes nothing.
    pub(crate) fn peek_alone(&mut self) -> Result<(), Stop> {
        // Time only goes on: what had expired before the crash may be given up by now.
        self.history.restart_time();
        self.clock.set_wall(self.history.newest().max(START_TICKS) + LONGER_THAN_A_START);
        let before = self.sim.effects();
        match self.peek() {
            // There is no database yet, or not all of one.
            Err(Stop::Refused(_)) if self.need.kill == 0 => {}
            outcome => outcome?,
        }
        match self.sim.effects() - before {
            0 => Ok(()),
            effects => Err(Stop::Wrong(format!("for reading: {effects} effects on the disk"))),
        }
    }

    fn open_read_only(&self, dir: &Path) -> Result<Db, Stop> {
        let options = Options { read_only: true, ..self.options.clone() };
        let (vfs, clock) = (Arc::clone(&self.vfs), Arc::clone(&self.clock));
        let builder = Db::builder().options(options).parts(vfs, clock, Arc::new(ByHand));
        Ok(builder.open(dir)?)
    }

    /// Closes and lets go.
    pub(crate) fn close(&mut self) -> Result<(), Stop> {
        self.db()?.close()?;
        self.db = None;
        Ok(())
    }

    /// Nothing is left of the process.
    fn let_go(&mut self) {
        self.held = None;
        self.tickets.clear();
        self.db = None;
    }

    pub(crate) fn reopen(&mut self, options: Options) -> Result<(), Stop> {
        let closed = self.db.as_ref().map_or(Ok(()), Db::close);
        if closed.is_ok() && self.db.is_some() {
            self.promise_all()?;
            self.wait_all()?;
        }
        self.let_go();
        self.options = options;
        self.open(|need| need.kill)?;
        Ok(closed?)
    }

    pub(crate) fn kill(&mut self, options: Options) -> Result<(), Stop> {
        self.sim.kill();
        self.let_go();
        self.options = options;
        self.open(|need| need.kill).map(drop)
    }
}
