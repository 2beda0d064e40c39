//! Background work: what is to be done, in which order, by whom. In production six threads run
//! here: the log's, two for flushes, one for compaction, one for errands, one for the scrub where
//! that is on; without threads the owner takes the same steps by hand.

use crate::commit::pipeline::Pipeline;
use crate::compaction::picker::Aim;
use crate::env::jobs::{Jobs, Priority};
use crate::error::{Error, Kind, Result};
use crate::flush_turns::Patience;
use crate::ids::SegmentId;
use crate::panics;
use crate::scrub::{Ask, Scrub};
use crate::sync::{Condvar, Mutex, MutexGuard, ThreadId, current_thread};
use crate::tree::base::Tree;
use crate::vfs::api::LockGuard;
use std::sync::Arc;
use std::time::Duration;

/// How long a failed job waits before it is tried again. A full disk may have room by then.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// How long nothing must have happened before work is done that could wait.
const IDLE_AFTER: Duration = Duration::from_secs(2);

/// How long a worker sleeps that nobody pokes: deletes grow old in an idle database too. Where the
/// disk is too full for a merge, as long as a failed job waits.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// The threads that write memtables to files. While one waits for the disk the other goes on, and
/// where commits fill memtables faster than one thread empties them they share that work.
const FLUSHES: [&str; 2] = ["tabulith-flush", "tabulith-flush-2"];

/// The workers of one database.
#[derive(Debug)]
pub(crate) struct Work {
    tree: Arc<Tree>,
    pipeline: Arc<Pipeline>,
    scrub: Option<Scrub>, // None where there is to be none.
    state: Mutex<State>,
    changed: Condvar, // Work came up, was done, or is to end.
    ends: Condvar,    // It is to end: for pauses that nothing else cuts short.
    /// Keeps others out of the folder.
    folder: Mutex<Option<Box<dyn LockGuard>>>,
}

/// Counts a thread that works in the folder while it does, so that the folder is not released
/// before, and so that closing never waits for one that panicked.
#[derive(Debug)]
pub(crate) struct Running<'a> {
    work: &'a Work,
    thread: ThreadId,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut state = self.work.state.lock();
        if let Some(own) = state.running.iter().position(|thread| *thread == self.thread) {
            state.running.swap_remove(own);
        }
        let is_last = state.closing && state.starting == 0 && state.running.is_empty();
        drop(state);
        self.work.changed.notify_all();
        if is_last {
            self.work.leave_folder();
        }
    }
}

#[derive(Debug, Default)]
struct State {
    starting: usize, // Workers that are not yet running.
    running: Vec<ThreadId>,
    log: Option<ThreadId>, // The log's own.
    closers: Vec<ThreadId>,
    closing: bool,
    by_hand: bool,
    poked: u64, // Rises with every poke, so that a worker sees those that came while it worked.
    last_error: Option<String>,
}

impl Work {
    pub(crate) fn new(
        tree: Arc<Tree>,
        pipeline: Arc<Pipeline>,
        scrub: Option<Scrub>,
        folder: Option<Box<dyn LockGuard>>,
    ) -> Arc<Work> {
        let (changed, ends) = (Condvar::new(), Condvar::new());
        let (state, folder) = (Mutex::default(), Mutex::new(folder));
        Arc::new(Work { tree, pipeline, scrub, state, changed, ends, folder })
    }

    /// Starts the workers. Every segment of the log below `log_floor` may go, and does so behind
    /// the caller's back where there are threads: removing a hundred MiB takes 10 ms.
    pub(crate) fn start(self: &Arc<Self>, jobs: &dyn Jobs, log_floor: SegmentId) -> Result<()> {
        // Tickets and callbacks are completed by the log's thread.
        self.start_one(jobs, "tabulith-log", Priority::Normal, |work| {
            work.state.lock().log = Some(current_thread().id());
            work.pipeline.run();
        })?;
        for (name, log_floor) in FLUSHES.into_iter().zip([Some(log_floor), None]) {
            self.start_one(jobs, name, Priority::Behind, move |work| {
                // What stays after an error is removed by the next start.
                let _ = log_floor.map(|floor| work.pipeline.release_log(floor));
                work.repeat(|work, _| work.flush_step(), None);
            })?;
        }
        self.start_one(jobs, "tabulith-compact", Priority::Last, |work| {
            work.repeat(Work::compact_step, Some(IDLE_AFTER));
        })?;
        self.start_one(jobs, "tabulith-errand", Priority::Normal, |work| {
            work.tree.shelf.errands.serve();
        })?;
        if self.scrub.is_some() {
            self.start_one(jobs, "tabulith-scrub", Priority::Last, Work::scrub)?;
        }
        let by_hand = self.state.lock().by_hand;
        if by_hand { self.pipeline.release_log(log_floor) } else { Ok(()) }
    }

    fn start_one(
        self: &Arc<Self>,
        jobs: &dyn Jobs,
        name: &str,
        priority: Priority,
        run: impl FnOnce(&Work) + Send + 'static,
    ) -> Result<()> {
        let work = Arc::clone(self);
        self.state.lock().starting += 1;
        let job = Box::new(move || {
            let mut state = work.state.lock();
            state.starting -= 1;
            let _running = work.count(&mut state);
            drop(state);
            run(&work);
        });
        let started = jobs.start(name, priority, job);
        if !matches!(started, Ok(true)) {
            let mut state = self.state.lock();
            state.starting -= 1;
            state.by_hand = true;
        }
        match started {
            Ok(_) => Ok(()),
            Err(error) => Err(Error::system(&format!("starting the thread {name}"), error)),
        }
    }

    /// Counts the caller as one that works in the folder, until what this gives is dropped: the
    /// folder is not released before.
    ///
    /// Errors: `Closed` once the database closes.
    pub(crate) fn enter(&self) -> Result<Running<'_>> {
        let mut state = self.state.lock();
        if state.closing {
            return Err(Error::closed());
        }
        Ok(self.count(&mut state))
    }

    fn count(&self, state: &mut State) -> Running<'_> {
        let thread = current_thread().id();
        state.running.push(thread);
        Running { work: self, thread }
    }

    /// Tells the workers that there may be something to do.
    pub(crate) fn poke(&self) {
        self.state.lock().poked += 1;
        self.changed.notify_all();
    }

    /// Waits until some background work was done, or for `timeout`. By hand, does one step; false
    /// where there is none and nobody else does any, so that there is nothing to wait for.
    pub(crate) fn await_progress(&self, timeout: Duration) -> Result<bool> {
        let mut state = self.state.lock();
        if state.by_hand {
            drop(state);
            return Ok(self.step()? || self.tree.is_at_work());
        }
        self.changed.wait_for(&mut state, timeout);
        Ok(true)
    }

    /// What the last failed job said, until one of its kind succeeds; else what is left undone
    /// because it would fail.
    pub(crate) fn last_error(&self) -> Option<String> {
        let last = self.state.lock().last_error.clone();
        last.or_else(|| self.tree.avoids())
    }

    /// Does one piece of work by hand; false where there is none.
    pub(crate) fn step(&self) -> Result<bool> {
        let _running = self.enter()?;
        Ok(self.pipeline.step()? || self.flush_step()? || self.compact_step(Aim::Balance)?)
    }

    /// The same at rest: once nothing else is due, one piece of what can wait for such a moment.
    pub(crate) fn step_at_rest(&self) -> Result<bool> {
        let _running = self.enter()?;
        Ok(self.step()? || self.compact_step(Aim::Rest)?)
    }

    /// Makes what is applied durable, ends the workers and gives the folder back, once all who work
    /// in it have ended. Whoever calls this in the midst of such work, from a callback, waits for
    /// nobody: who leaves last gives the folder back.
    pub(crate) fn close(&self) -> Result<()> {
        let me = current_thread().id();
        let mut state = self.state.lock();
        if state.closers.contains(&me) {
            return Ok(()); // Called back by a close of its own, which goes on.
        }
        state.closers.push(me);
        drop(state);
        let closed = self.pipeline.close().and(self.tree.end_doubt());
        self.tree.close();
        self.tree.shelf.errands.close();
        let mut state = self.state.lock();
        state.closers.retain(|thread| *thread != me);
        state.closing = true;
        self.changed.notify_all();
        self.ends.notify_all();
        // The log's thread has nothing left to do but to end.
        let is_amid = state.running.contains(&me) && state.log != Some(me);
        while !is_amid && (state.starting > 0 || state.running.iter().any(|thread| *thread != me)) {
            self.changed.wait(&mut state);
        }
        drop(state);
        if !is_amid {
            self.leave_folder();
        }
        closed
    }

    /// Gives the folder back. Later the names of files there are those of whoever has it then.
    fn leave_folder(&self) {
        let mut folder = self.folder.lock();
        if folder.is_some() {
            self.tree.delete_trash();
        }
        folder.take();
    }

    fn flush_step(&self) -> Result<bool> {
        // First, because it is short: commits wait for it where the log has no room left.
        let prepared = self.pipeline.prepare_log();
        if matches!(prepared, Ok(true)) {
            return Ok(true);
        }
        // Where it failed for want of room, a flush releases segments that are used again. Told it
        // is all the same: it may have been a sync.
        let flushed = self.flush_one(Patience::None, || true)?;
        prepared.map(|_| flushed)
    }

    fn flush_one(&self, patience: Patience, is_wanted: impl Fn() -> bool) -> Result<bool> {
        let flushed = self.tree.flush_oldest(&self.pipeline, patience, is_wanted)?;
        flushed.map(|floor| self.pipeline.release_log(floor)).transpose().map(|done| done.is_some())
    }

    fn compact_step(&self, aim: Aim<'_>) -> Result<bool> {
        let worked = self.tree.compact_once(aim, &self.pipeline);
        self.tree.delete_trash();
        worked
    }

    /// Reads a piece of the files where one is due; gives how long until the next one is, or `None`
    /// where there is no scrub.
    pub(crate) fn scrub_step(&self) -> Option<Duration> {
        let (pause, ask) = self.scrub.as_ref()?.step(&self.tree);
        if ask == Ask::RenewLog
            && let Err(error) = self.renew_log()
        {
            self.tree.tell_error(&error);
        }
        Some(pause)
    }

    /// Writes all memtables to files that are sealed now; those that others fill meanwhile are
    /// theirs.
    pub(crate) fn flush_sealed(&self) -> Result<()> {
        let Some(newest) = self.tree.view().sealed.first().cloned() else { return Ok(()) };
        let is_left = || self.tree.view().sealed.iter().any(|one| Arc::ptr_eq(one, &newest));
        while self.flush_one(Patience::UntilAllAreDone, is_left)? {}
        Ok(())
    }

    /// Writes what memory holds of the log to files and begins a new log, a small one, so that the
    /// next start does not need the old one.
    pub(crate) fn renew_log(&self) -> Result<()> {
        let (tree, pipeline) = (&self.tree, &self.pipeline);
        pipeline.wait(pipeline.applied())?;
        pipeline.renew_log()?;
        let from = tree.seal_now(pipeline).segment;
        self.flush_sealed()?;
        // All up to there is in files, whether or not there was anything to flush.
        tree.raise_log_floor(pipeline.log_floor(from))?;
        pipeline.release_log(from)
    }

    /// The scrub's life: a piece, a pause.
    fn scrub(&self) {
        while let Some(pause) = self.scrub_step() {
            let end = pause.min(LOOK_AGAIN_AFTER);
            let mut state = self.state.lock();
            // Pokes are meant for others: the pause goes on.
            if !state.closing {
                self.changed.wait_for(&mut state, end);
            }
            if state.closing {
                return;
            }
        }
    }

    /// Waits for a poke after the one of number `poked`, or for the end; false where neither came.
    fn is_poked_within(
        &self,
        pause: Duration,
        poked: u64,
        state: &mut MutexGuard<'_, State>,
    ) -> bool {
        while !state.closing && state.poked == poked {
            if self.changed.wait_for(state, pause).timed_out() {
                return state.closing || state.poked != poked;
            }
        }
        true
    }

    /// How long a worker sleeps now that nobody pokes.
    fn look_again_after(&self) -> Duration {
        if self.tree.lacks_room() { RETRY_AFTER } else { LOOK_AGAIN_AFTER }
    }

    /// One worker's life: steps while there is work, waits for a poke otherwise. Where none came
    /// for as long as `rest_after`, it does what can wait for such a moment, until the next poke.
    fn repeat(&self, step: impl Fn(&Work, Aim<'_>) -> Result<bool>, rest_after: Option<Duration>) {
        let (mut failed, mut at_rest) = (false, false);
        loop {
            let poked = self.state.lock().poked;
            let aim = if at_rest { Aim::Rest } else { Aim::Balance };
            let done = panics::answer_of(|| step(self, aim));
            // What it left half done nobody knows; it would leave it again at each try.
            let has_panicked = done.is_none();
            let mut state = self.state.lock();
            match done.unwrap_or_else(|| Err(panicked())) {
                Ok(worked) => {
                    if std::mem::take(&mut failed) {
                        state.last_error = None;
                    }
                    if worked {
                        at_rest &= state.poked == poked; // Until the next poke of somebody else.
                        state.poked += 1; // A flush makes work for compaction.
                        self.changed.notify_all();
                    } else if let Some(pause) = rest_after.filter(|_| !at_rest) {
                        at_rest = !self.is_poked_within(pause, poked, &mut state);
                    } else {
                        if !state.closing && state.poked == poked {
                            let pause = self.look_again_after();
                            self.changed.wait_for(&mut state, pause);
                        }
                        at_rest = false;
                    }
                }
                Err(error) => {
                    failed = true;
                    state.last_error = Some(error.to_string());
                    self.changed.notify_all();
                    MutexGuard::unlocked(&mut state, || self.tree.tell_error(&error));
                    if !state.closing && !has_panicked {
                        self.ends.wait_for(&mut state, RETRY_AFTER);
                    }
                }
            }
            if state.closing || has_panicked {
                return;
            }
        }
    }
}

fn panicked() -> Error {
    Error::new(Kind::Closed, "background work panicked: open the database again")
}
