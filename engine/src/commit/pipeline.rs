//! The commit pipeline: gives every commit its place in the one order, applies it to the memtable,
//! and makes groups of commits as safe as they asked for.
//!
//! A commit is *applied* under the order lock, in the order of its timestamp. One that asks for no
//! sync and finds nobody else is handed to the kernel there and then. Otherwise, whoever waits and
//! finds no leader becomes one: it takes all that was applied so far as one group, writes it
//! with the order lock free and leaves the lead; then it syncs, while the next group gathers.
//! Whoever ends a sync wakes those whose commits are covered, all by one call. A commit is
//! *visible* once it and all before it are as safe as each asked for. Conditions of later commits
//! look at what is applied, reads at what is visible.
//!
//! Those who were just woken tend to come back with their next commit. So a group is led by the
//! last of them to arrive rather than by the first, which would sync alone while the others wait
//! for it; the first sleeps for a moment and leads if they do not come ([`Hope`]). Who waits for a
//! write alone looks for some microseconds before it sleeps.
//!
//! Groups are written one after the other, and a sync covers all that was written before it began:
//! the order in which syncs end does not matter.
//!
//! A commit gets its place only where the log has room for its group, taken from the disk before.
//! So a full disk refuses a commit before anybody has seen it, and one that has its place is
//! written. A commit that waits for room holds the turn: no other gets a place until then, or small
//! ones would starve it.
//!
//! Promise: `visible` rises only, in commit order, without gaps, and never above what a crash may
//! take away. A failed write or sync of the log is final: every later commit fails.

use crate::batch::{Batch, Commit};
use crate::commit::order::{Callback, Order, Settled};
use crate::commit::seat::Seat;
use crate::env::clock::Clock;
use crate::error::{Error, Kind, Result};
use crate::event::{Event, Events};
use crate::ids::{CommitTs, SegmentId};
use crate::limits::NUMBER_MAX;
use crate::options::{Durability, Reach};
use crate::stats::{Counter, PipelineWaits};
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{
    Condvar, Mutex, MutexGuard, lock_soon, try_lock_soon, try_lock_yielding, weakened,
};
use crate::wal::buffer::FrameBuffer;
use crate::wal::room::LogRoom;
use crate::wal::writer::{Group, LogWriter, SyncJob};
use std::sync::Arc;
use std::time::Duration;

/// A commit of so many bytes is written from where the memtable keeps it: a piece more for the
/// system costs less than copying that much into the group.
const LENT_BYTES_MIN: usize = 16 << 10;

/// A commit of so many bytes is written with the order lock held, if it only goes to the kernel and
/// finds nobody before it: that takes a microsecond, and to hand it to a leader, sleep and be woken
/// takes several. A larger one would keep others from being applied for too long.
const AT_ONCE_BYTES_MAX: usize = 4 << 10;

/// Places to wait at. Each group has one, so that nobody is woken for another group; two groups
/// share one only where this many are written and wait for a sync of an earlier one.
const SEATS: usize = 16;

/// How long the first of a group sleeps for others to come before it looks again: about what a
/// group of the size of the last one takes to come back on two cores.
const HOPE_PAUSE: Duration = Duration::from_micros(50);

/// How far the log is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogPlace {
    /// A segment not above the one that the next applied commit will be written to.
    pub(crate) segment: SegmentId,
    /// Bytes written since the log began.
    pub(crate) bytes: u64,
}

/// One database's commit order.
#[derive(Debug)]
pub(crate) struct Pipeline {
    clock: Arc<dyn Clock>,
    pub(crate) events: Events,
    pub(crate) buffered_flush: Duration,
    /// A group that holds this much takes no further commit before it is written. That bounds what
    /// is in memory alone and, with the largest commit on top of it, what one frame holds.
    group_bytes_max: usize,
    pub(crate) waits: PipelineWaits,
    visible: AtomicU64,
    /// The newest applied commit that is whole, with all before it. Rises under the order lock.
    readable: AtomicU64,
    /// No commit will come up to here, nor up to `readable`: the larger of both is that of the
    /// order's `last_ts` and `closed_to`, for [`Pipeline::past_ends`] without the lock. Rises under
    /// it.
    closed_to: AtomicU64,
    /// No commit will come up to here, and those that did are visible. Only
    /// [`Pipeline::await_past`] writes it, so that a later read of the same moment takes no lock.
    past_settled_to: AtomicU64,
    /// The past ends before this, once it stands still: `u64::MAX` until the log ends.
    past_ended: AtomicU64,
    segment: AtomicU64,
    pub(crate) log_bytes: AtomicU64,
    pub(crate) commits: Counter,
    pub(crate) commit_bytes: Counter,
    pub(crate) spare_due: AtomicBool,
    buffer_bytes: AtomicUsize, // As of the last look that got the lock.
    at_door: AtomicU32,        // Threads with a commit that are about to take the order lock.
    // Lock order: order before log; the leader takes log alone. ARCHITECTURE.md has it for all.
    pub(crate) order: Mutex<Order>,
    pub(crate) log: Mutex<LogWriter>,
    seats: [Seat; SEATS], // Where a group waits to be visible, or for one of it to lead.
    pub(crate) moved: Condvar, // `visible` rose, the leader left, a sync ended, or the log failed.
    pub(crate) called: Condvar, // The background leader has something to do.
}

impl Pipeline {
    /// A pipeline whose first commit comes after `last_ts`, all of which is visible.
    pub(crate) fn new(
        log: LogWriter,
        last_ts: CommitTs,
        clock: Arc<dyn Clock>,
        events: Events,
        buffered_flush: Duration,
        group_bytes_max: usize,
    ) -> Pipeline {
        let order = Order::new(last_ts, log.room());
        Pipeline {
            clock,
            events,
            buffered_flush,
            group_bytes_max,
            waits: PipelineWaits::default(),
            visible: AtomicU64::new(last_ts.0),
            readable: AtomicU64::new(last_ts.0),
            closed_to: AtomicU64::new(last_ts.0),
            past_settled_to: AtomicU64::new(last_ts.0),
            past_ended: AtomicU64::new(u64::MAX),
            segment: AtomicU64::new(log.current().0),
            log_bytes: AtomicU64::new(log.written_bytes()),
            commits: Counter::default(),
            commit_bytes: Counter::default(),
            spare_due: AtomicBool::new(false),
            buffer_bytes: AtomicUsize::new(0),
            at_door: AtomicU32::new(0),
            order: Mutex::new(order),
            log: Mutex::new(log),
            seats: Default::default(),
            moved: Condvar::new(),
            called: Condvar::new(),
        }
    }

    /// The wall clock, as a commit would take it.
    pub(crate) fn now(&self) -> CommitTs {
        now(&*self.clock)
    }

    /// The first moment that is not past: a commit that is not under way yet may get it, here or,
    /// once the log has ended, at the next start. Waits for nobody.
    ///
    /// The loads need no order: each gives at least what whoever asks knows of, a commit's place or
    /// a moment that was closed, and nothing else is read by it.
    pub(crate) fn past_ends(&self) -> CommitTs {
        let readable = self.readable.load(Ordering::Relaxed);
        let closed_to = self.closed_to.load(Ordering::Relaxed);
        let ended = CommitTs(self.past_ended.load(Ordering::Relaxed));
        self.now().max(CommitTs(readable.max(closed_to) + 1)).min(ended)
    }

    /// The newest commit that readers may see.
    pub(crate) fn visible(&self) -> CommitTs {
        CommitTs(self.visible.load(Ordering::Acquire))
    }

    /// The newest commit that is applied.
    pub(crate) fn applied(&self) -> CommitTs {
        self.order.lock().last_ts
    }

    /// The newest commit that is applied, where all of them will be as safe as `durability` says
    /// once they are visible. With [`Reach::Memory`] waits for nobody.
    pub(crate) fn applied_as_safe_as(
        &self,
        durability: Durability,
        reach: Reach,
    ) -> Result<Option<CommitTs>> {
        let order = self.lock_within(reach)?;
        let is_safe = match durability {
            Durability::Buffered => true,
            Durability::Flushed => order.no_write_wanted <= order.written,
            Durability::Synced => order.no_sync_wanted <= order.synced,
        };
        Ok(is_safe.then_some(order.last_ts))
    }

    /// A write of the log may hold the lock for as long as the disk wants.
    fn lock_within(&self, reach: Reach) -> Result<MutexGuard<'_, Order>> {
        match reach {
            Reach::Disk => Ok(lock_soon(&self.order)),
            Reach::Memory => try_lock_yielding(&self.order).ok_or_else(would_wait),
        }
    }

    /// The newest applied commit that is whole, with all before it: what has a reserved place is
    /// yet to come there. Waits for nobody.
    ///
    /// Whoever reads there finds them: they were applied before the store, a Release that this
    /// Acquire sees. It is not below what they or somebody before them have seen to be visible, as
    /// it was stored before that.
    pub(crate) fn readable(&self) -> CommitTs {
        CommitTs(self.readable.load(Ordering::Acquire))
    }

    /// To be called when a place was taken or given back: all up to the last one is readable, but
    /// for a reserved one among them; no commit will come there in any case.
    fn show_applied(&self, order: &Order) {
        if order.reserved.is_some() {
            return self.closed_to.store(order.last_ts.0, Ordering::Relaxed);
        }
        let release = if weakened!("readable") { Ordering::Relaxed } else { Ordering::Release };
        self.readable.store(order.last_ts.0, release);
    }

    /// Whether a small commit would be taken at once: the log is open and has room, and so has the
    /// buffer before it, and nobody is in the way. Waits for nobody.
    pub(crate) fn takes_at_once(&self) -> bool {
        try_lock_yielding(&self.order).is_some_and(|order| self.has_room(&order, 1))
    }

    /// Whether a commit of `bytes` would be taken now, and an error where none ever will be;
    /// `None` where somebody is in the way. Waits for nobody.
    pub(crate) fn would_take(&self, bytes: usize) -> Option<Result<bool>> {
        let order = try_lock_yielding(&self.order)?;
        Some(order.check_open().map(|()| self.has_room(&order, bytes)))
    }

    fn has_room(&self, order: &Order, bytes: usize) -> bool {
        !order.has_turn && self.takes(order, bytes) && order.check_open().is_ok()
    }

    /// Whether the gathered group takes a commit of `bytes` more.
    fn takes(&self, order: &Order, bytes: usize) -> bool {
        let group_bytes = order.group.len();
        group_bytes < self.group_bytes_max && group_bytes + bytes <= order.room_bytes
    }

    /// Fails where no commit will be taken any more.
    pub(crate) fn check_open(&self) -> Result<()> {
        self.order.lock().check_open()
    }

    /// Bytes of the buffers that hold commits on their way to the log; where somebody is in the
    /// way, those of the last time that nobody was. Waits for nobody.
    pub(crate) fn buffer_bytes(&self) -> usize {
        if let Some(order) = try_lock_soon(&self.order) {
            let bytes = order.group.capacity() + order.recycled.capacity() + order.leaving_bytes;
            self.buffer_bytes.store(bytes, Ordering::Relaxed);
        }
        self.buffer_bytes.load(Ordering::Relaxed)
    }

    /// A segment not above the one that the next applied commit will be written to.
    pub(crate) fn segment(&self) -> SegmentId {
        SegmentId(self.segment.load(Ordering::Acquire))
    }

    /// The same, and what the log has written by then; it may be more already.
    pub(crate) fn log_place(&self) -> LogPlace {
        LogPlace { segment: self.segment(), bytes: self.log_bytes.load(Ordering::Relaxed) }
    }

    /// Gives `batch` its place and applies it: `apply` runs under the order lock. With
    /// [`Reach::Memory`] does nothing where it would have to wait for its place, and leaves the log
    /// to others: a write may take as long as the disk wants.
    pub(crate) fn commit(
        &self,
        batch: Batch,
        durability: Durability,
        reach: Reach,
        apply: impl FnOnce(&Commit),
    ) -> Result<CommitTs> {
        self.at_door.fetch_add(1, Ordering::Relaxed);
        let order = self.lock_within(reach);
        self.at_door.fetch_sub(1, Ordering::Relaxed);
        let bytes = batch.bytes();
        let mut order = self.admit(order?, bytes, reach)?;
        let (ts, durability) = self.stamp(&mut order, durability);
        let commit = batch.into_commit(ts);
        self.gather(&mut order, &commit, bytes, durability);
        // Planted (`planted.rs`): seen before it is whole.
        if crate::planted!("B26") && durability == Durability::Buffered {
            self.visible.store(ts.0, Ordering::Release);
        }
        apply(&commit);
        self.show_applied(&order);
        let is_alone = order.is_alone(ts) && self.at_door.load(Ordering::Relaxed) == 0;
        if durability == Durability::Flushed && is_alone && reach == Reach::Disk {
            self.write_at_once(&mut order);
        }
        self.publish(&mut order);
        if durability == Durability::Buffered && order.group_first == ts {
            self.called.notify_one();
        }
        Ok(ts)
    }

    /// Takes the next place. A commit that is far above what is written is not left in memory: a
    /// start after a kill would not go on above it, were it not found.
    fn stamp(&self, order: &mut Order, durability: Durability) -> (CommitTs, Durability) {
        // Planted: two commits of one tick, or after the clock went back, are told apart by
        // nothing.
        let next = if crate::planted!("B28") { order.last_ts } else { order.next_ts() };
        let ts = now(&*self.clock).max(next);
        order.last_ts = ts;
        let is_far = ts.0 - order.written.0 > CommitTs::START_LEAD;
        match durability {
            Durability::Buffered if is_far => (ts, Durability::Flushed),
            other => (ts, other),
        }
    }

    /// Puts a commit of `bytes` to the gathered group.
    fn gather(&self, order: &mut Order, commit: &Commit, bytes: usize, durability: Durability) {
        let ts = commit.ts;
        if order.group.is_empty() {
            order.group_first = ts;
        }
        let operations = commit.operations();
        // A direct write, which a sync is where it can be, takes one piece of memory.
        if operations.len() >= LENT_BYTES_MIN && durability != Durability::Synced {
            commit.put_head(order.group.reserve(bytes - operations.len()));
            order.group.lend(operations.clone());
        } else {
            commit.put_head(order.group.reserve(bytes));
            order.group.reserve(0).extend_from_slice(operations);
        }
        self.commits.add(1);
        self.commit_bytes.add(bytes as u64);
        order.group_commits += 1;
        order.waiting.push_back((ts, durability));
        match durability {
            Durability::Synced => order.sync_wanted = ts,
            Durability::Flushed => order.no_sync_wanted = ts,
            Durability::Buffered => (order.no_sync_wanted, order.no_write_wanted) = (ts, ts),
        }
    }

    /// Hands the only commit that there is to the kernel. Does nothing where that might take long,
    /// or where the log did not take it and stays usable: then a leader will write it.
    fn write_at_once(&self, order: &mut Order) {
        let Some(mut log) = self.log.try_lock() else { return };
        if order.group.len() > AT_ONCE_BYTES_MAX || !log.fits(order.group.len()) {
            return;
        }
        let ts = order.last_ts;
        let group = Group { first_ts: ts, last_ts: ts, frame: &mut order.group, sync: false };
        match log.append(group) {
            Ok(_) => {
                self.note_log(&log);
                order.group.clear();
                order.group_commits = 0;
                order.group_written(ts, log.room());
            }
            Err(error) if log.closed().is_some() => order.fail(error),
            Err(_) => {}
        }
    }

    /// Returns once the gathered group takes a commit of `bytes`, at once where it can.
    ///
    /// Errors: where the disk has no room for what the log needs, that; nothing has happened then.
    fn admit<'a>(
        &'a self,
        mut order: MutexGuard<'a, Order>,
        bytes: usize,
        reach: Reach,
    ) -> Result<MutexGuard<'a, Order>> {
        if crate::planted!("B34") {
            order.failed = None; // Planted, with the log's part: it may go well now.
        }
        order.check_open()?;
        match (!order.has_turn && self.takes(&order, bytes), reach) {
            (true, _) => Ok(order),
            (false, Reach::Disk) => self.await_room(order, bytes),
            (false, Reach::Memory) => Err(would_wait()),
        }
    }

    #[cold]
    fn await_room<'a>(
        &'a self,
        order: MutexGuard<'a, Order>,
        bytes: usize,
    ) -> Result<MutexGuard<'a, Order>> {
        let start = self.clock.steady();
        let order = self.in_turn(order, |order| self.drain_until_room(order, bytes))?;
        self.waits.group_full.add(self.clock.steady().saturating_sub(start));
        Ok(order)
    }

    /// Runs `work` while nobody gets a place.
    pub(crate) fn in_turn<'a>(
        &'a self,
        mut order: MutexGuard<'a, Order>,
        work: impl FnOnce(MutexGuard<'a, Order>) -> Result<MutexGuard<'a, Order>>,
    ) -> Result<MutexGuard<'a, Order>> {
        while order.has_turn {
            self.moved.wait(&mut order); // One after the other.
            order.check()?;
        }
        order.has_turn = true;
        let worked = work(order);
        let (mut order, failure) = match worked {
            Ok(order) => (order, None),
            Err(error) => (self.order.lock(), Some(error)),
        };
        order.has_turn = false;
        if !weakened!("over") {
            self.moved.notify_all();
        }
        failure.map_or(Ok(order), Err)
    }

    /// Writes the gathered group out, and has the log extended, until it takes a commit of `bytes`;
    /// no other comes to it.
    fn drain_until_room<'a>(
        &'a self,
        mut order: MutexGuard<'a, Order>,
        bytes: usize,
    ) -> Result<MutexGuard<'a, Order>> {
        order.check_open()?;
        while !self.takes(&order, bytes) {
            if order.leading || (!order.group.is_empty() && !order.may_lead()) {
                self.moved.wait(&mut order);
            } else if !order.group.is_empty() {
                self.lead(order)?;
                order = self.order.lock();
            } else {
                order = self.extend_log(order, bytes)?;
            }
            order.check_open()?;
        }
        Ok(order)
    }

    /// Has the log find room for a group of `bytes`. Nothing is gathered, and nobody leads.
    fn extend_log<'a>(
        &'a self,
        mut order: MutexGuard<'a, Order>,
        bytes: usize,
    ) -> Result<MutexGuard<'a, Order>> {
        let start = self.clock.steady();
        let found = self.with_log(&mut order, |log| log.ensure_room(bytes));
        self.waits.log_segment.add(self.clock.steady().saturating_sub(start));
        self.tell(order);
        found.map(|()| self.order.lock())
    }

    /// Has the lead while `work` is done on the log. What is gathered meanwhile goes by the room
    /// that is known, of which `work` may take none away.
    pub(crate) fn with_log<T>(
        &self,
        order: &mut MutexGuard<'_, Order>,
        work: impl FnOnce(&mut LogWriter) -> T,
    ) -> T {
        order.leading = true;
        let (done, room) = MutexGuard::unlocked(order, || {
            let mut log = self.log.lock();
            (work(&mut log), log.room())
        });
        order.leading = false;
        order.set_room(room);
        done
    }

    /// Runs `work` while no commit can be applied; it gets the newest applied timestamp.
    pub(crate) fn between_commits<T>(&self, work: impl FnOnce(CommitTs) -> T) -> T {
        let order = self.order.lock();
        work(order.last_ts)
    }

    /// Has every later commit come after `at`, however the clock is turned, those after a close and
    /// the next start included. Gives the newest that does not and is not visible yet, if there is
    /// one.
    ///
    /// Errors: `Closed` where the log has ended before `at`: the next start will not hear of it.
    pub(crate) fn close_moment(&self, at: CommitTs) -> Result<Option<CommitTs>> {
        let mut order = self.order.lock();
        if at.0 >= self.past_ended.load(Ordering::Relaxed) {
            return Err(Error::closed());
        }
        self.close_to(&mut order, at);
        Ok(order.newest_waiting(at))
    }

    /// Has the past end, for good, with the present: gives its last moment, which the log is to
    /// say. Called again, as by a second close of a failed log, it gives the same.
    pub(crate) fn end_past(&self, order: &mut Order) -> CommitTs {
        let upto = CommitTs(self.past_ends().0 - 1).max(order.last_ts);
        self.close_to(order, upto);
        self.past_ended.store(upto.0 + 1, Ordering::Relaxed);
        upto
    }

    fn close_to(&self, order: &mut Order, at: CommitTs) {
        order.closed_to = order.closed_to.max(at);
        self.closed_to.store(order.last_ts.max(order.closed_to).0, Ordering::Relaxed);
    }

    /// Returns once the past up to `at` is whole: no commit will come there, and those that did are
    /// visible. Waits for nobody where that is known.
    pub(crate) fn await_past(&self, at: CommitTs) -> Result<()> {
        // Whoever has stored it has seen them to be visible, and by its Release so has who sees it.
        if at <= self.visible() || at.0 <= self.past_settled_to.load(Ordering::Acquire) {
            return Ok(());
        }
        if let Some(newest) = self.close_moment(at)? {
            self.wait(newest)?;
        }
        let release = if weakened!("whole") { Ordering::Relaxed } else { Ordering::Release };
        self.past_settled_to.fetch_max(at.0, release);
        Ok(())
    }

    /// The time by which what nobody can read any more is reclaimed: not below `at_least` nor any
    /// commit. No later commit comes before it, however the clock is turned.
    pub(crate) fn reclaiming_time(&self, at_least: CommitTs) -> CommitTs {
        let mut order = self.order.lock();
        let now = now(&*self.clock).max(order.last_ts).max(at_least);
        self.close_to(&mut order, CommitTs(now.0.saturating_sub(1)));
        now
    }

    /// Takes a place in the order for what goes past log and memtable: runs `between` with the
    /// newest applied timestamp, then gives the next one. Nothing from there on becomes visible
    /// before the place is dropped; one place at a time, which the caller sees to.
    pub(crate) fn reserve(&self, between: impl FnOnce(CommitTs)) -> Result<Place<'_>> {
        let mut order = self.order.lock();
        order.check_open()?;
        between(order.last_ts);
        let ts = now(&*self.clock).max(order.next_ts());
        (order.last_ts, order.reserved) = (ts, Some(ts));
        self.show_applied(&order);
        order.waiting.push_back((ts, Durability::Buffered));
        Ok(Place { pipeline: self, ts })
    }

    /// What was reserved is in its place, or will never be. Gives whom to tell of their commits.
    fn release(&self) -> Settled {
        let mut order = self.order.lock();
        order.reserved = None;
        self.show_applied(&order);
        self.publish_and_call(order)
    }

    /// Returns once the commit of `ts` is visible.
    pub(crate) fn wait(&self, ts: CommitTs) -> Result<()> {
        let mut counted = false;
        while self.visible() < ts {
            let mut order = lock_soon(&self.order);
            if self.visible() >= ts {
                break;
            }
            order.check()?;
            let (may_lead, group_of_ts) = (order.may_lead(), order.group_of(ts));
            if let Some(group_of_ts) = group_of_ts
                && !std::mem::replace(&mut counted, true)
            {
                order.count_waiter(group_of_ts);
            }
            if may_lead && !(group_of_ts.is_some() && order.hopes_for_more()) {
                self.lead(order)?;
                continue;
            }
            // A place that was reserved: no group is told of it, and no seat.
            let Some(group_of_ts) = group_of_ts else {
                self.moved.wait(&mut order);
                continue;
            };
            let (group_no, commits) = (order.group_no, order.group_commits);
            let pause = (may_lead && order.hope.may_keep(group_no)).then_some(HOPE_PAUSE);
            let seat = self.seat(group_of_ts);
            let seen = seat.calls();
            let is_short = order.sync_wanted <= order.synced; // A write, and no sync.
            drop(order);
            if !(is_short && seat.watch(seen)) {
                seat.sleep(seen, pause);
            }
            if pause.is_some() {
                self.end_pause(ts, group_no, commits);
            }
        }
        Ok(())
    }

    /// After a pause for the sake of group `group_no`, which had so many `commits` then, by whoever
    /// waits for the commit of `ts`.
    fn end_pause(&self, ts: CommitTs, group_no: u64, commits: usize) {
        let mut order = self.order.lock();
        let came = order.group_commits.saturating_sub(commits);
        order.hope.pause_ended(group_no, came);
        // Who goes away without leading leaves the group to another of it.
        if self.visible() >= ts && order.may_lead() && order.group_waiters > 0 {
            let left = self.seat(order.group_no);
            drop(order);
            left.call_one();
        }
    }

    /// Whether [`Pipeline::wait`] for it would return at once.
    pub(crate) fn is_settled(&self, ts: CommitTs) -> bool {
        self.visible() >= ts || self.order.lock().check().is_err()
    }

    fn seat(&self, group_no: u64) -> &Seat {
        &self.seats[group_no as usize % SEATS]
    }

    /// Whom to wake: those whose commits are visible, and one who may lead. To be asked whenever
    /// `visible` rose, the leader left or a sync ended.
    fn calls(&self, order: &mut Order) -> Calls {
        let (visible, mut calls, mut released) = (self.visible(), Calls::default(), 0);
        while let Some(taken) = order.taken.front().filter(|taken| taken.first <= visible) {
            calls.all |= 1 << (taken.no as usize % SEATS);
            if visible < taken.last {
                break;
            }
            released += taken.waiters;
            order.taken.pop_front();
        }
        if released > 0 {
            order.hope.expect(released + order.group_waiters);
        }
        if !order.group.is_empty() && order.group_first <= visible {
            calls.all |= 1 << (order.group_no as usize % SEATS);
        } else if order.may_lead() && order.group_waiters > 0 {
            calls.one = Some(order.group_no);
        }
        calls
    }

    /// Wakes; the order lock is free by then.
    fn call(&self, calls: Calls) {
        for (i, seat) in self.seats.iter().enumerate() {
            if calls.all & (1 << i) != 0 {
                seat.call_all();
            }
        }
        if let Some(group_no) = calls.one {
            self.seat(group_no).call_one();
        }
        self.moved.notify_all();
    }

    /// Wakes everybody: a failure concerns all who wait.
    pub(crate) fn call_everyone(&self) {
        self.call(Calls { all: u32::MAX, one: None });
    }

    /// Has the commit of `ts` made safe though nobody waits for it.
    pub(crate) fn urge(&self, ts: CommitTs) {
        if self.visible() < ts {
            let mut order = self.order.lock();
            order.urged = order.urged.max(ts);
            self.called.notify_one();
        }
    }

    /// Calls `done` once the commit of `ts` is visible or cannot become so. Waits for nobody: one
    /// that is visible needs no lock, and while one is not, nobody writes under it.
    pub(crate) fn notify(&self, ts: CommitTs, done: Callback) {
        if self.visible() >= ts {
            return Settled(vec![(done, Ok(()))]).run();
        }
        let mut order = self.order.lock();
        let settled = match (self.visible() >= ts, order.check()) {
            (true, _) => Ok(()),
            (false, Err(error)) => Err(error),
            (false, Ok(())) => {
                order.add_callback(ts, done);
                order.urged = order.urged.max(ts);
                if !weakened!("callback") {
                    self.called.notify_one();
                }
                return;
            }
        };
        drop(order);
        Settled(vec![(done, settled)]).run();
    }

    /// Writes the gathered group, and syncs it where a commit asked for that. The lock is free
    /// meanwhile, and the lead is free during the sync. Whom that concerns is told.
    ///
    /// A failure of the log is left in `failed`. A group that gathers has its room already, so a
    /// refusal is final.
    pub(crate) fn lead(&self, mut order: MutexGuard<'_, Order>) -> Result<()> {
        order.leading = true;
        let recycled = std::mem::take(&mut order.recycled);
        let mut group = std::mem::replace(&mut order.group, recycled);
        let (first, last) = (order.group_first, order.last_ts);
        let sync = order.sync_wanted > order.syncing;
        let began = sync.then(|| self.clock.steady());
        order.take_group(first, last, group.len());
        order.leaving_bytes = group.capacity();
        let result = MutexGuard::unlocked(&mut order, || self.write(first, last, &mut group, sync));
        order.leading = false;
        order.leaving_bytes = 0;
        match result {
            Ok((job, room)) => {
                group.clear();
                order.recycled = group;
                order.group_written(last, room);
                if let Some(began) = began {
                    order.syncing = last;
                    self.sync(&mut order, job, last);
                    self.waits.synced.add(self.clock.steady().saturating_sub(began));
                }
            }
            Err(error) if crate::planted!("B16") => return self.plant_b16(order, error),
            Err(error) => order.fail(error),
        }
        self.tell(order);
        Ok(())
    }

    /// Publishes what is safe by now, and tells those whom that concerns.
    pub(crate) fn tell(&self, order: MutexGuard<'_, Order>) {
        self.publish_and_call(order).run();
    }

    /// The same, but for those who want to be called back, who are given.
    fn publish_and_call(&self, mut order: MutexGuard<'_, Order>) -> Settled {
        self.publish(&mut order);
        let calls = self.calls(&mut order);
        let settled = order.take_settled(self.visible());
        let failed = order.failed.is_some();
        if order.resting && !order.sealed && order.synced >= order.written {
            self.called.notify_one(); // There is something to seal.
        }
        drop(order);
        match failed {
            true if weakened!("failure") => {}
            true => self.call_everyone(),
            false if weakened!("call") => {}
            false => self.call(calls),
        }
        settled
    }

    /// Writes a group; returns the sync that is to be run, `None` where all is durable or where
    /// none is wanted, and what room is left.
    fn write(
        &self,
        first_ts: CommitTs,
        last_ts: CommitTs,
        group: &mut FrameBuffer,
        sync: bool,
    ) -> Result<(Option<SyncJob>, LogRoom)> {
        // Planted: acknowledged before the sync.
        let sync = sync && !crate::planted!("B01");
        let before = self.segment();
        let mut log = self.log.lock();
        let mut written = Ok(());
        if !group.is_empty() {
            let group = Group { first_ts, last_ts, frame: group, sync };
            written = log.append(group).map(|_| self.note_log(&log));
        }
        let job = written.and_then(|()| match sync {
            true => match log.begin_sync()? {
                Some(job) => Ok(Some(job)),
                None => log.sync().map(|()| None), // Durable already, or no lane is free.
            },
            false => Ok(None),
        });
        let outcome = job.map(|job| (job, log.room()));
        drop(log);
        if self.segment() != before {
            self.events.tell(Event::LogRolled { segment: self.segment().0 });
        }
        outcome
    }

    /// Takes note of how far the log is, and whether it wants a spare segment, for those who ask
    /// without its lock.
    pub(crate) fn note_log(&self, log: &LogWriter) {
        self.segment.store(log.current().0, Ordering::Release);
        self.log_bytes.store(log.written_bytes(), Ordering::Relaxed);
        self.spare_due.store(log.spare_is_due(), Ordering::Relaxed);
    }

    /// Runs the sync of what is written up to `last`, with others free to lead meanwhile.
    fn sync(&self, order: &mut MutexGuard<'_, Order>, job: Option<SyncJob>, last: CommitTs) {
        if let Some(job) = job {
            order.syncs += 1;
            self.publish(order);
            let calls = self.calls(order);
            let synced = MutexGuard::unlocked(order, || {
                self.call(calls);
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
                _ if order.reserved == Some(*ts) => false,
                Durability::Buffered => true,
                Durability::Flushed => *ts <= order.written,
                // Planted: seen before it is safe.
                Durability::Synced if crate::planted!("B27") => *ts <= order.written,
                Durability::Synced => *ts <= order.synced,
            };
            if !safe {
                return;
            }
            let release = if weakened!("visible") { Ordering::Relaxed } else { Ordering::Release };
            self.visible.store(ts.0, release);
            order.waiting.pop_front();
        }
    }

    /// Planted, with the log's part: after a failed write everything goes on without it.
    fn plant_b16(&self, mut order: MutexGuard<'_, Order>, error: Error) -> Result<()> {
        order.sealed = false;
        let refused = order.take_callbacks(&error);
        drop(order);
        self.call_everyone();
        refused.run();
        Err(error)
    }
}

/// A place in the order, given back when it is dropped, also by a panic: others wait for it.
#[must_use]
pub(crate) struct Place<'a> {
    pipeline: &'a Pipeline,
    pub(crate) ts: CommitTs,
}

impl Place<'_> {
    /// Gives it back. Those whose commits were held up by it are to be told once the caller holds
    /// no latch: what they do then may need one.
    pub(crate) fn give_back(self) -> Settled {
        std::mem::ManuallyDrop::new(self).pipeline.release()
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.pipeline.release().run();
    }
}

/// Whom to wake.
#[derive(Debug, Default)]
struct Calls {
    all: u32,         // Seats where everyone is concerned, as bits.
    one: Option<u64>, // A group of which one may lead.
}

/// What an update is told that must not wait.
pub(crate) fn would_wait() -> Error {
    Error::new(Kind::WouldBlock, "the update would have to wait")
}

/// What the wall clock says. A clock beyond all reason is not followed: recovery would refuse the
/// timestamps.
pub(crate) fn now(clock: &dyn Clock) -> CommitTs {
    CommitTs(clock.wall_ticks().min(NUMBER_MAX / 2))
}
