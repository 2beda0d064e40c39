//! The commit pipeline: gives every commit its place in the one order, applies it to the memtable,
//! and makes groups of commits as safe as they asked for.
//!
//! A commit is *applied* under the order lock, in the order of its timestamp. Whoever then waits
//! and finds no leader becomes one: it takes all that was applied so far as one group, writes it
//! with no lock held and leaves the lead; then it syncs, while the next group gathers, is written
//! and begins a sync of its own. Whoever ends a sync wakes those whose commits are covered, and one
//! of the group that gathers. A commit is *visible* once it and all before it are as safe as each
//! asked for. Conditions of later commits look at what is applied, reads at what is visible.
//!
//! Groups are written one after the other, and a sync covers all that was written before it began:
//! the order in which syncs end does not matter.
//!
//! Promise: `visible` rises only, in commit order, without gaps, and never above what a crash may
//! take away. A failed write or sync of the log is final: every later commit fails.

use crate::batch::Batch;
use crate::commit::order::{Callback, Order, Settled};
use crate::env::clock::Clock;
use crate::error::{Error, Kind, Result};
use crate::ids::{CommitTs, SegmentId};
use crate::limits::NUMBER_MAX;
use crate::options::Durability;
use crate::rows::CommitTicket;
use crate::wal::writer::{Group, LogWriter, SyncJob};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How long after the last group the log is sealed: a frame that says how far it was synced, so
/// that damage to the last group is told from a torn write.
const IDLE_SEAL_AFTER: Duration = Duration::from_millis(10);

/// A group that holds this much takes no further commit before it is written: bounds what is in
/// memory only, and what one frame holds together with the largest commit.
const GROUP_BYTES_MAX: usize = 8 << 20;

/// How long a log without room waits before it tries again by itself.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// Places to wait at. Each group has one, so that nobody is woken for another group; two groups
/// share one only where this many are written and wait for a sync of an earlier one.
const SEATS: usize = 16;

/// One database's commit order.
#[derive(Debug)]
pub(crate) struct Pipeline {
    clock: Arc<dyn Clock>,
    buffered_flush: Duration,
    visible: AtomicU64,
    segment: AtomicU64,
    spare_due: AtomicBool,
    // Lock order: order before log; the leader takes log alone.
    order: Mutex<Order>,
    log: Mutex<LogWriter>,
    seats: [Condvar; SEATS], // Per group: its commits are visible, or one of it may lead.
    moved: Condvar,          // `visible` rose, the leader left, a sync ended, or the log failed.
    called: Condvar,         // The background leader has something to do.
}

impl Pipeline {
    /// A pipeline whose first commit comes after `last_ts`, all of which is visible.
    pub(crate) fn new(
        log: LogWriter,
        last_ts: CommitTs,
        clock: Arc<dyn Clock>,
        buffered_flush: Duration,
    ) -> Pipeline {
        let order = Order::new(last_ts);
        Pipeline {
            clock,
            buffered_flush,
            visible: AtomicU64::new(last_ts.0),
            segment: AtomicU64::new(log.current().0),
            spare_due: AtomicBool::new(false),
            order: Mutex::new(order),
            log: Mutex::new(log),
            seats: Default::default(),
            moved: Condvar::new(),
            called: Condvar::new(),
        }
    }

    /// The newest commit that readers may see.
    pub(crate) fn visible(&self) -> CommitTs {
        CommitTs(self.visible.load(Ordering::Acquire))
    }

    /// The newest commit that is applied.
    pub(crate) fn applied(&self) -> CommitTs {
        self.order.lock().last_ts
    }

    /// A segment not above the one that the next applied commit will be written to.
    pub(crate) fn segment(&self) -> SegmentId {
        SegmentId(self.segment.load(Ordering::Acquire))
    }

    /// Gives `batch` its place and applies it: `apply` runs under the order lock.
    pub(crate) fn commit(
        &self,
        batch: Batch,
        durability: Durability,
        apply: impl FnOnce(CommitTs, Batch),
    ) -> Result<CommitTs> {
        let mut order = self.order.lock();
        self.make_room(&mut order)?;
        let ts = CommitTs(now(&*self.clock).0.max(order.last_ts.0 + 1));
        order.last_ts = ts;
        if order.group.is_empty() {
            order.group_first = ts;
        }
        batch.put_commit(ts, &mut order.group);
        order.waiting.push_back((ts, durability));
        if durability == Durability::Synced {
            order.sync_wanted = ts;
        }
        apply(ts, batch);
        self.publish(&mut order);
        if durability == Durability::Buffered && order.group_first == ts {
            self.called.notify_one();
        }
        Ok(ts)
    }

    /// Waits until the gathered group takes one commit more, writing it out where nobody does.
    fn make_room(&self, order: &mut MutexGuard<'_, Order>) -> Result<()> {
        order.check_open()?;
        while order.group.len() >= GROUP_BYTES_MAX {
            if order.may_lead() {
                let settled = self.lead(order)?;
                MutexGuard::unlocked(order, || settled.run());
            } else {
                self.moved.wait(order);
            }
            order.check_open()?;
        }
        Ok(())
    }

    /// Runs `work` while no commit can be applied; it gets the newest applied timestamp.
    pub(crate) fn between_commits<T>(&self, work: impl FnOnce(CommitTs) -> T) -> T {
        let order = self.order.lock();
        work(order.last_ts)
    }

    /// Returns once the commit of `ts` is visible.
    pub(crate) fn wait(&self, ts: CommitTs) -> Result<()> {
        let mut order = self.order.lock();
        loop {
            if self.visible() >= ts {
                return Ok(());
            }
            order.check()?;
            if order.may_lead() {
                let settled = self.lead(&mut order)?;
                MutexGuard::unlocked(&mut order, || settled.run());
            } else {
                self.seat(order.group_of(ts)).wait(&mut order);
            }
        }
    }

    fn seat(&self, group_no: u64) -> &Condvar {
        &self.seats[group_no as usize % SEATS]
    }

    /// Wakes those whose commits are visible, and one who may lead. To be called whenever
    /// `visible` rose, the leader left or a sync ended.
    fn wake(&self, order: &mut Order) {
        let visible = self.visible();
        while let Some(taken) = order.taken.front().filter(|taken| taken.first <= visible) {
            self.seat(taken.no).notify_all();
            if visible < taken.last {
                break;
            }
            order.taken.pop_front();
        }
        let seat = self.seat(order.group_no);
        if !order.group.is_empty() && order.group_first <= visible {
            seat.notify_all();
        } else if order.may_lead() {
            seat.notify_one();
        }
        self.moved.notify_all();
    }

    /// Wakes everybody: a failure concerns all who wait.
    fn wake_all(&self) {
        for seat in &self.seats {
            seat.notify_all();
        }
        self.moved.notify_all();
    }

    /// Calls `done` once the commit of `ts` is visible or cannot become so.
    fn notify(&self, ts: CommitTs, done: Callback) {
        let mut order = self.order.lock();
        let settled = match (self.visible() >= ts, order.check()) {
            (true, _) => Ok(()),
            (false, Err(error)) => Err(error),
            (false, Ok(())) => {
                order.callbacks.entry(ts).or_default().push(done);
                self.called.notify_one();
                return;
            }
        };
        drop(order);
        done(settled);
    }

    /// Writes the gathered group, and syncs it where a commit asked for that. The lock is free
    /// meanwhile, and the lead is free during the sync.
    ///
    /// Errors: where the log could not take the group but stays usable (no room for a segment), the
    /// group is back where it was. A log that failed is told in `failed`.
    fn lead(&self, order: &mut MutexGuard<'_, Order>) -> Result<Settled> {
        order.leading = true;
        let recycled = std::mem::take(&mut order.recycled);
        let mut group = std::mem::replace(&mut order.group, recycled);
        let (first, last) = (order.group_first, order.last_ts);
        let sync = order.sync_wanted > order.syncing;
        order.take_group(first, last);
        let result = MutexGuard::unlocked(order, || self.write(first, last, &group, sync));
        order.leading = false;
        match result {
            Ok(job) => {
                group.clear();
                order.recycled = group;
                order.full = false;
                order.written = last;
                if std::mem::replace(&mut order.sealed, false) {
                    self.called.notify_one();
                }
                if sync {
                    order.syncing = last;
                    self.sync(order, job, last);
                }
            }
            Err(Lost { error, log_is_usable: true }) => {
                order.put_back(first, group);
                let refused = order.take_callbacks(&error);
                self.wake_all();
                MutexGuard::unlocked(order, || refused.run());
                return Err(error);
            }
            Err(Lost { error, .. }) => order.fail(error),
        }
        self.publish(order);
        match order.failed.is_some() {
            true => self.wake_all(),
            false => self.wake(order),
        }
        Ok(order.take_settled(self.visible()))
    }

    /// Writes a group; returns the sync that is to be run, `None` where all is durable or where
    /// none is wanted.
    fn write(
        &self,
        first_ts: CommitTs,
        last_ts: CommitTs,
        group: &[u8],
        sync: bool,
    ) -> Result<Option<SyncJob>, Lost> {
        let mut log = self.log.lock();
        let mut written = Ok(());
        if !group.is_empty() {
            written = log.append(Group { first_ts, last_ts, payload: group });
            self.segment.store(log.current().0, Ordering::Release);
            self.spare_due.store(log.spare_is_due(), Ordering::Relaxed);
        }
        // Planted: acknowledged before the sync.
        let sync = sync && cfg!(not(bug = "B01"));
        let job = written.and_then(|()| match sync {
            true => match log.begin_sync()? {
                Some(job) => Ok(Some(job)),
                None => log.sync().map(|()| None), // Durable already, or no lane is free.
            },
            false => Ok(None),
        });
        job.map_err(|error| Lost { error, log_is_usable: log.closed().is_none() })
    }

    /// Runs the sync of what is written up to `last`, with others free to lead meanwhile.
    fn sync(&self, order: &mut MutexGuard<'_, Order>, job: Option<SyncJob>, last: CommitTs) {
        if let Some(job) = job {
            order.syncs += 1;
            self.publish(order);
            self.wake(order);
            let synced = MutexGuard::unlocked(order, || {
                let outcome = job.run();
                self.log.lock().finish_sync(job, outcome)
            });
            order.syncs -= 1;
            if let Err(error) = synced {
                return order.fail(error);
            }
        }
        order.synced = order.synced.max(last);
    }

    /// Raises `visible` over every commit at the front that is as safe as it asked for.
    fn publish(&self, order: &mut Order) {
        if order.failed.is_some() {
            return;
        }
        while let Some((ts, durability)) = order.waiting.front() {
            let safe = match durability {
                Durability::Buffered => true,
                Durability::Flushed => *ts <= order.written,
                Durability::Synced => *ts <= order.synced,
            };
            if !safe {
                return;
            }
            self.visible.store(ts.0, Ordering::Release);
            order.waiting.pop_front();
        }
    }

    /// Does what waits for nobody in particular: commits with callbacks, buffered commits, the
    /// seal. Returns whether there was anything.
    pub(crate) fn step(&self) -> Result<bool> {
        let mut order = self.order.lock();
        order.check()?;
        if order.may_lead() {
            let settled = self.lead(&mut order)?;
            drop(order);
            settled.run();
            return Ok(true);
        }
        match order.leading {
            true => Ok(false),
            false => self.seal(&mut order),
        }
    }

    fn seal(&self, order: &mut MutexGuard<'_, Order>) -> Result<bool> {
        if order.sealed || order.synced < order.written {
            return Ok(false);
        }
        order.leading = true;
        let result = MutexGuard::unlocked(order, || self.log.lock().seal());
        order.leading = false;
        order.sealed = true;
        if let Err(error) = result {
            order.fail(error.duplicate());
            let settled = order.take_settled(self.visible());
            self.wake_all();
            MutexGuard::unlocked(order, || settled.run());
            return Err(error);
        }
        self.wake(order);
        Ok(true)
    }

    /// The background leader: runs until [`Pipeline::close`].
    pub(crate) fn run(&self) {
        let mut order = self.order.lock();
        while !order.closing {
            if order.failed.is_some() {
                self.called.wait(&mut order);
            } else if !order.callbacks.is_empty() {
                match order.may_lead() {
                    true => self.step_unlocked(&mut order),
                    false => self.moved.wait(&mut order),
                }
            } else if !order.group.is_empty() {
                // Buffered commits, or a writer that is about to lead.
                let first = order.group_first;
                let pause = if order.full { RETRY_AFTER } else { self.buffered_flush };
                self.called.wait_for(&mut order, pause);
                if !order.group.is_empty() && order.group_first == first {
                    self.step_unlocked(&mut order);
                }
            } else if !order.sealed {
                let newest = order.last_ts;
                self.called.wait_for(&mut order, IDLE_SEAL_AFTER);
                if order.last_ts == newest {
                    self.step_unlocked(&mut order);
                }
            } else {
                self.called.wait(&mut order);
            }
        }
    }

    fn step_unlocked(&self, order: &mut MutexGuard<'_, Order>) {
        if !order.closing {
            // A failure is kept in `failed`, where every commit meets it.
            let _ = MutexGuard::unlocked(order, || self.step());
        }
    }

    /// Whether [`Pipeline::prepare_log`] has something to do; true once for each time.
    pub(crate) fn take_spare_due(&self) -> bool {
        self.spare_due.load(Ordering::Relaxed) && self.spare_due.swap(false, Ordering::Relaxed)
    }

    /// Makes the spare segment that the log wants, if any; slow, and holds no lock while it writes.
    pub(crate) fn prepare_log(&self) -> Result<bool> {
        let Some(job) = self.log.lock().wants_spare() else { return Ok(false) };
        let spare = job.run();
        let mut log = self.log.lock();
        match spare {
            Ok(spare) => log.add_spare(spare),
            Err(error) => {
                log.spare_failed();
                return Err(error);
            }
        }
        Ok(true)
    }

    /// Gives up the segments below `floor`, which a durable manifest no longer needs.
    pub(crate) fn release_log(&self, floor: SegmentId) -> Result<()> {
        let surplus = self.log.lock().release(floor);
        surplus.remove()
    }

    /// Writes, syncs and seals all that is applied, and refuses every later commit.
    pub(crate) fn close(&self) -> Result<()> {
        let mut order = self.order.lock();
        let already = std::mem::replace(&mut order.closing, true);
        self.called.notify_all();
        while already && order.failed.is_none() {
            self.moved.wait(&mut order); // Another thread is closing.
        }
        if already {
            return Ok(());
        }
        order.check()?;
        order.sync_wanted = order.last_ts;
        let outcome = self.drain(&mut order).and_then(|()| self.seal(&mut order).map(|_| ()));
        order.fail(Error::new(Kind::Closed, "the database is closed"));
        let rest = order.take_settled(self.visible());
        self.wake_all();
        drop(order);
        rest.run();
        outcome
    }

    /// Leads until nothing that is applied waits for the log, nobody leads and no sync is under
    /// way. No commit comes meanwhile.
    fn drain(&self, order: &mut MutexGuard<'_, Order>) -> Result<()> {
        loop {
            order.check()?;
            if order.may_lead() {
                let settled = self.lead(order)?;
                MutexGuard::unlocked(order, || settled.run());
            } else if order.leading || order.syncs > 0 {
                self.moved.wait(order);
            } else {
                return Ok(());
            }
        }
    }

    /// Refuses a commit while the log has no room for what is applied already; tries again first.
    pub(crate) fn check_room(&self) -> Result<()> {
        let full = self.order.lock().full;
        if full { self.step().map(|_| ()) } else { Ok(()) }
    }
}

/// A group that could not be made safe.
struct Lost {
    error: Error,
    log_is_usable: bool,
}

/// What the wall clock says. A clock beyond all reason is not followed: recovery would refuse the
/// timestamps.
pub(crate) fn now(clock: &dyn Clock) -> CommitTs {
    CommitTs(clock.wall_ticks().min(NUMBER_MAX / 2))
}

/// A commit on its way to being visible.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) ts: CommitTs,
}

impl CommitTicket for Ticket {
    fn ts(&self) -> CommitTs {
        self.ts
    }

    fn is_done(&self) -> bool {
        self.pipeline.visible() >= self.ts
    }

    fn wait(self: Box<Self>) -> Result<()> {
        self.pipeline.wait(self.ts)
    }

    fn notify(self: Box<Self>, done: Callback) {
        self.pipeline.notify(self.ts, done);
    }
}
