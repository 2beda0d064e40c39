//! How far the commits of one database are: gathered, written, synced, visible. Pure state; the
//! pipeline holds the lock, the log and the threads.

use crate::error::{Error, Kind, Result};
use crate::ids::CommitTs;
use crate::options::Durability;
use crate::panics;
use crate::wal::buffer::FrameBuffer;
use crate::wal::room::LogRoom;
use crate::wal::segment::SYNC_LANES;
use std::collections::VecDeque;

/// Syncs under way at once. The disk would take more, but each then covers a smaller group and
/// wakes fewer: on two cores 8 writers made 30 thousand commits a second with one, 24 with two, 20
/// with four (decision 0009).
const SYNCS_MAX: usize = 1;
/// Most groups in a row that are not waited for after pauses in vain.
const HOPE_PENALTY_MAX: u32 = 255;

const _: () = assert!(SYNCS_MAX < SYNC_LANES, "a sync that begins finds a free lane");
const _: () = assert!(SYNCS_MAX == 1, "of segments that are behind others one handle is kept");

/// Told once when a commit is settled.
pub(crate) type Callback = Box<dyn FnOnce(Result<()>) + Send>;

/// How far the commits of one database are, behind one lock.
pub(crate) struct Order {
    // Places in the order.
    pub(crate) last_ts: CommitTs,
    pub(crate) closed_to: CommitTs, // Somebody has read, or reclaimed, by it: commits come after.
    pub(crate) reserved: Option<CommitTs>, // Holds back what is visible, until it is released.
    pub(crate) waiting: VecDeque<(CommitTs, Durability)>, // Applied, not yet visible.
    callbacks: VecDeque<(CommitTs, Callback)>, // By timestamp.
    pub(crate) has_turn: bool,      // Somebody has: no commit gets a place before it is over.

    // The gathered group.
    pub(crate) group: FrameBuffer, // Applied, not yet in the log.
    pub(crate) group_no: u64,
    pub(crate) group_first: CommitTs,
    pub(crate) group_commits: usize,
    pub(crate) group_waiters: usize, // Threads that wait for a commit of it.
    room: LogRoom,
    pub(crate) room_bytes: usize, // What it may have at most, by `room`.
    pub(crate) hope: Hope,

    // The leader, and the groups that were taken.
    pub(crate) leading: bool,
    pub(crate) leaving_bytes: usize, // Capacity of the buffer that a leader writes.
    pub(crate) recycled: FrameBuffer, // An empty buffer for the next group.
    pub(crate) taken: VecDeque<Taken>, // Those that are not wholly visible, in order.

    // How far the log is, and how far it is to be.
    pub(crate) written: CommitTs,
    pub(crate) synced: CommitTs,
    pub(crate) syncing: CommitTs, // The newest commit that a sync, ended or not, covers.
    pub(crate) syncs: usize,      // Under way.
    pub(crate) sync_wanted: CommitTs, // The newest commit that asked for a sync.
    pub(crate) no_sync_wanted: CommitTs, // The newest commit that asked for none.
    pub(crate) no_write_wanted: CommitTs, // The newest commit that asked for no write either.
    pub(crate) urged: CommitTs,   // The newest commit that the background leader is to see through.
    pub(crate) resting: bool,     // The background leader sleeps until a sync ends.
    pub(crate) sealed: bool,

    // The end.
    pub(crate) closing: bool,
    pub(crate) closed_well: bool, // All that was acknowledged is durable.
    pub(crate) failed: Option<Error>,
}

/// A group that a leader took.
pub(crate) struct Taken {
    pub(crate) no: u64,
    pub(crate) first: CommitTs,
    pub(crate) last: CommitTs,
    pub(crate) waiters: usize,
}

/// Whether a group should wait for those who were just woken: they tend to come back at once with
/// their next commit, and a sync of one commit takes as long as a sync of thirty.
#[derive(Debug, Default)]
pub(crate) struct Hope {
    expected: usize,   // Commits that the next group may have; 0 once it was given up.
    kept: Option<u64>, // The group for whose sake somebody sleeps and will look again.
    skip: u32,         // Groups to come that are not waited for.
    penalty: u32,      // How many those are after the next disappointment.
}

impl Hope {
    /// A group was settled; `threads` are awake or wait already.
    pub(crate) fn expect(&mut self, threads: usize) {
        self.expected = if self.skip == 0 { threads } else { 0 };
        self.skip = self.skip.saturating_sub(1);
    }

    /// Whether more are to come to a group of `commits`.
    pub(crate) fn is_worth_it(&self, commits: usize) -> bool {
        commits < self.expected
    }

    /// Whether the caller is the one to look at group `group_no` again after a pause. Who looks
    /// after an earlier group may go away without a look at this one.
    pub(crate) fn may_keep(&mut self, group_no: u64) -> bool {
        self.kept.replace(group_no) != Some(group_no)
    }

    /// After a pause for the sake of group `group_no`, in which `came` commits came: where none
    /// did, nothing more is hoped for.
    pub(crate) fn pause_ended(&mut self, group_no: u64, came: usize) {
        if self.kept != Some(group_no) {
            return; // The group has left.
        }
        self.kept = None;
        if came == 0 && self.expected > 0 {
            self.expected = 0;
            self.skip = self.penalty;
            self.penalty = (2 * self.penalty + 1).min(HOPE_PENALTY_MAX);
        }
    }

    /// A group of `commits` leaves.
    fn group_left(&mut self, commits: usize) {
        if self.expected > 1 && commits >= self.expected {
            self.penalty = 0;
        }
        self.expected = 0;
        self.kept = None;
    }
}

impl std::fmt::Debug for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Order(last {}, written {}, synced {})", self.last_ts, self.written, self.synced)
    }
}

/// Callbacks whose commits are settled, to be run once no lock is held.
#[must_use]
pub(crate) struct Settled(pub(crate) Vec<(Callback, Result<()>)>);

impl Settled {
    pub(crate) fn run(self) {
        for (callback, result) in self.0 {
            panics::contain(|| callback(result));
        }
    }
}

impl Order {
    /// Nothing is under way, and all up to `last_ts` is visible. The log has `room`.
    pub(crate) fn new(last_ts: CommitTs, room: LogRoom) -> Order {
        Order {
            last_ts,
            closed_to: CommitTs::ZERO,
            reserved: None,
            waiting: VecDeque::new(),
            callbacks: VecDeque::new(),
            has_turn: false,
            group: FrameBuffer::default(),
            group_no: 0,
            group_first: last_ts,
            group_commits: 0,
            group_waiters: 0,
            room,
            room_bytes: room.group_bytes_max(),
            hope: Hope::default(),
            leading: false,
            leaving_bytes: 0,
            recycled: FrameBuffer::default(),
            taken: VecDeque::new(),
            written: last_ts,
            synced: last_ts,
            syncing: last_ts,
            syncs: 0,
            sync_wanted: last_ts,
            no_sync_wanted: last_ts,
            no_write_wanted: last_ts,
            urged: last_ts,
            resting: false,
            sealed: true,
            closing: false,
            closed_well: false,
            failed: None,
        }
    }

    /// The first place that the next commit may have.
    pub(crate) fn next_ts(&self) -> CommitTs {
        CommitTs(self.last_ts.max(self.closed_to).0 + 1)
    }

    /// The newest commit up to `at` that is not visible yet.
    pub(crate) fn newest_waiting(&self, at: CommitTs) -> Option<CommitTs> {
        let next = self.waiting.partition_point(|(ts, _)| *ts <= at);
        next.checked_sub(1).and_then(|newest| self.waiting.get(newest)).map(|(ts, _)| *ts)
    }

    /// Whether there is something to write or sync and nobody in the way.
    pub(crate) fn may_lead(&self) -> bool {
        let any = !self.group.is_empty() || self.sync_wanted > self.syncing;
        any && !self.leading && self.syncs < SYNCS_MAX
    }

    /// Whether the commit of `ts` is all that there is to write, and nobody writes or syncs.
    pub(crate) fn is_alone(&self, ts: CommitTs) -> bool {
        self.group_first == ts && self.waiting.len() == 1 && self.may_lead()
    }

    /// Whether the gathered group should wait for more commits. One that only goes to the kernel
    /// never does: that takes a microsecond, and the pause fifty.
    pub(crate) fn hopes_for_more(&self) -> bool {
        self.sync_wanted > self.syncing && self.hope.is_worth_it(self.group_commits)
    }

    /// Takes note of what the log is certain to take from here on.
    pub(crate) fn set_room(&mut self, room: LogRoom) {
        self.room = room;
        self.room_bytes = room.group_bytes_max();
    }

    /// The same, where the log is about to take something: what is left of it at least.
    pub(crate) fn leave_room(&mut self, left: impl FnOnce(LogRoom) -> LogRoom) {
        self.set_room(left(self.room));
    }

    /// Takes note that the gathered group of `bytes` leaves.
    pub(crate) fn take_group(&mut self, first: CommitTs, last: CommitTs, bytes: usize) {
        if bytes > 0 {
            self.leave_room(|room| room.after_group(bytes));
        }
        let waiters = std::mem::take(&mut self.group_waiters);
        self.taken.push_back(Taken { no: self.group_no, first, last, waiters });
        self.hope.group_left(std::mem::take(&mut self.group_commits));
        self.group_no += 1;
    }

    /// Takes note that all up to `last` is written, and of what the log takes from here on.
    pub(crate) fn group_written(&mut self, last: CommitTs, room: LogRoom) {
        self.written = last;
        self.sealed = false;
        self.set_room(room);
    }

    /// The group that the commit of `ts` is in. A place that was reserved may be in none.
    pub(crate) fn group_of(&self, ts: CommitTs) -> Option<u64> {
        if !self.group.is_empty() && self.group_first <= ts {
            return Some(self.group_no);
        }
        let taken = self.taken.iter().find(|taken| ts <= taken.last)?;
        (taken.first <= ts).then_some(taken.no)
    }

    /// Takes note that a thread waits for a commit of the group.
    pub(crate) fn count_waiter(&mut self, group_no: u64) {
        match self.taken.iter_mut().find(|taken| taken.no == group_no) {
            Some(taken) => taken.waiters += 1,
            None => self.group_waiters += 1,
        }
    }

    /// Has `done` called once the commit of `ts` is settled.
    pub(crate) fn add_callback(&mut self, ts: CommitTs, done: Callback) {
        let next = self.callbacks.partition_point(|(other, _)| *other <= ts);
        self.callbacks.insert(next, (ts, done));
    }

    /// The first failure stays.
    pub(crate) fn fail(&mut self, error: Error) {
        if crate::planted!("B34b") && error.kind() != Kind::Closed {
            return; // Planted (`planted.rs`): nobody is told, and who waits for it waits for ever.
        }
        self.failed.get_or_insert(error);
    }

    /// As [`Order::check`]; also refuses what comes while the log is being closed.
    pub(crate) fn check_open(&self) -> Result<()> {
        match self.closing && self.failed.is_none() {
            true => Err(Error::closed()),
            false => self.check(),
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        match &self.failed {
            None => Ok(()),
            Some(error) if error.kind() == Kind::Closed => Err(error.duplicate()),
            Some(error) => {
                let why = format!("the log failed and takes no more commits; reopen: {error}");
                Err(Error::new(Kind::Closed, why))
            }
        }
    }

    /// Takes the callbacks whose commits are visible, and all of them after a failure.
    pub(crate) fn take_settled(&mut self, visible: CommitTs) -> Settled {
        let done = self.callbacks.partition_point(|(ts, _)| *ts <= visible);
        let mut settled: Vec<_> = self.callbacks.drain(..done).map(|(_, c)| (c, Ok(()))).collect();
        if let Err(error) = self.check() {
            settled.extend(self.take_callbacks(&error).0);
        }
        Settled(settled)
    }

    /// Takes all callbacks, to be told of `error`.
    pub(crate) fn take_callbacks(&mut self, error: &Error) -> Settled {
        let callbacks = self.callbacks.drain(..);
        Settled(callbacks.map(|(_, callback)| (callback, Err(error.duplicate()))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::{Hope, Order};
    use crate::ids::CommitTs;
    use crate::wal::room::LogRoom;
    use std::sync::mpsc;

    #[test]
    fn every_group_has_somebody_who_looks_again() {
        let mut hope = Hope::default();
        hope.expect(2);
        assert!(hope.is_worth_it(1) && hope.may_keep(7));
        assert!(!hope.may_keep(7), "one is enough");
        // Another thread comes and leads; the one who sleeps is late to wake, and then goes away.
        hope.group_left(2);
        hope.expect(2);
        assert!(hope.is_worth_it(1) && hope.may_keep(8));
        hope.pause_ended(7, 0);
        assert!(hope.is_worth_it(1), "the late one knows nothing of the new group");
        hope.pause_ended(8, 0);
        assert!(!hope.is_worth_it(1));
    }

    #[test]
    fn callbacks_come_in_the_order_of_their_commits_whoever_asks_first() {
        let mut order = Order::new(CommitTs(0), LogRoom::new(0, 0, 512));
        let (tell, told) = mpsc::channel();
        for (n, ts) in [3, 1, 2, 3, 1].into_iter().enumerate() {
            let tell = tell.clone();
            order.add_callback(CommitTs(ts), Box::new(move |_| tell.send((ts, n)).expect("told")));
        }
        order.take_settled(CommitTs(2)).run();
        assert_eq!(told.try_iter().collect::<Vec<_>>(), [(1, 1), (1, 4), (2, 2)]);
        order.take_settled(CommitTs(3)).run();
        assert_eq!(told.try_iter().collect::<Vec<_>>(), [(3, 0), (3, 3)]);
    }
}
