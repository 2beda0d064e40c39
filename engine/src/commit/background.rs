//! The pipeline's own thread: leads for commits that nobody waits for, writes buffered ones out,
//! seals a log that fell idle; and the end of the pipeline.

use crate::commit::order::Order;
use crate::commit::pipeline::Pipeline;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::ids::SegmentId;
use crate::sync::MutexGuard;
use crate::sync::atomic::Ordering;
use crate::wal::format::LogFloor;
use crate::wal::room::LogRoom;
use crate::wal::writer::LogWriter;
use std::time::Duration;

/// How long after the last group the log is sealed: a frame that says how far it was synced, so
/// that damage to the last group is told from a torn write.
const IDLE_SEAL_AFTER: Duration = Duration::from_millis(10);

impl Pipeline {
    /// Does what waits for nobody in particular: commits with callbacks, buffered commits, the
    /// seal. Returns whether there was anything.
    pub(crate) fn step(&self) -> Result<bool> {
        let order = self.order.lock();
        order.check()?;
        if order.may_lead() {
            return self.lead(order).map(|()| true);
        }
        match order.leading {
            true => Ok(false),
            false => self.seal(order),
        }
    }

    /// Says in the log that all of it is synced, where it is.
    fn seal(&self, order: MutexGuard<'_, Order>) -> Result<bool> {
        if order.sealed || order.synced < order.written || !order.group.is_empty() {
            return Ok(false);
        }
        self.seal_by(order, LogWriter::seal).map(|()| true)
    }

    /// Says in the log that it ends here: it is all synced, and nothing is under way beside it.
    fn end(&self, mut order: MutexGuard<'_, Order>) -> Result<()> {
        let upto = self.end_past(&mut order);
        self.seal_by(order, |log| log.end(upto))
    }

    fn seal_by(
        &self,
        mut order: MutexGuard<'_, Order>,
        seal: impl FnOnce(&mut LogWriter) -> Result<()>,
    ) -> Result<()> {
        order.leave_room(LogRoom::after_seal);
        let outcome = self.with_log(&mut order, seal);
        order.sealed = true;
        if let Err(error) = &outcome {
            order.fail(error.duplicate());
        }
        self.tell(order);
        outcome
    }

    /// The background leader: runs until [`Pipeline::close`].
    pub(crate) fn run(&self) {
        let mut order = self.order.lock();
        while !order.closing {
            if order.failed.is_some() {
                self.called.wait(&mut order);
            } else if order.urged > self.visible() {
                match order.may_lead() {
                    true => self.step_unlocked(&mut order),
                    false => self.moved.wait(&mut order),
                }
            } else if !order.group.is_empty() {
                // Buffered commits, or a writer that is about to lead.
                let first = order.group_first;
                self.called.wait_for(&mut order, self.buffered_flush);
                if !order.group.is_empty() && order.group_first == first {
                    self.step_unlocked(&mut order);
                }
            } else if !order.sealed && order.synced >= order.written {
                let newest = order.last_ts;
                self.called.wait_for(&mut order, IDLE_SEAL_AFTER);
                if order.last_ts == newest {
                    self.step_unlocked(&mut order);
                }
            } else {
                // Nothing to seal, or nothing that was synced: commits that ask for no sync cause
                // none, and so no seal.
                order.resting = true;
                self.called.wait(&mut order);
                order.resting = false;
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

    /// Makes a spare segment that the log wants, if any; slow, and holds no lock while it writes.
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
        drop(log);
        let mut order = self.order.lock();
        if !order.leading {
            let room = self.log.lock().room();
            order.set_room(room);
        } // Otherwise whoever leads will say what room there is.
        Ok(true)
    }

    /// What a manifest is to say that does without the segments before `segment`.
    pub(crate) fn log_floor(&self, segment: SegmentId) -> LogFloor {
        self.log.lock().floor(segment)
    }

    /// Gives up the segments below `floor`, which a durable manifest no longer needs.
    pub(crate) fn release_log(&self, floor: SegmentId) -> Result<()> {
        let surplus = self.log.lock().release(floor);
        surplus.remove()
    }

    /// Whether [`Pipeline::renew_log`] would give back room on the disk.
    pub(crate) fn log_is_large(&self) -> bool {
        self.log.lock().is_large()
    }

    /// Has the log go on in a new segment, a small one; the room of those before it comes back with
    /// the next [`Pipeline::release_log`].
    pub(crate) fn renew_log(&self) -> Result<()> {
        // What is gathered was promised the room that goes.
        let mut order = self.in_turn(self.order.lock(), |order| self.lead_all(order))?;
        order.check_open()?; // Behind its end the log has no room for the name of another segment.
        order.leave_room(LogRoom::none);
        let (renewed, closed) = self.with_log(&mut order, |log| {
            let renewed = log.renew().map(|()| {
                self.note_log(log);
                (log.current().0, log.give_up_free())
            });
            (renewed, log.closed().is_some())
        });
        if let (Err(error), true) = (&renewed, closed) {
            order.fail(error.duplicate());
        }
        self.tell(order);
        let (segment, surplus) = renewed?;
        self.events.tell(Event::LogRolled { segment });
        surplus.remove()
    }

    /// Leads until nothing is gathered, and nobody writes.
    fn lead_all<'a>(&'a self, mut order: MutexGuard<'a, Order>) -> Result<MutexGuard<'a, Order>> {
        while order.leading || !order.group.is_empty() {
            order.check()?;
            if order.may_lead() {
                self.lead(order)?;
                order = self.order.lock();
            } else {
                self.moved.wait(&mut order);
            }
        }
        Ok(order)
    }

    /// Gives back the room of segments that are kept for reuse.
    pub(crate) fn give_up_spare_log(&self) -> Result<()> {
        let surplus = self.log.lock().give_up_free();
        surplus.remove()
    }

    /// Writes and syncs all that is applied, ends the log, and refuses every later commit. Called
    /// again it says how that went.
    pub(crate) fn close(&self) -> Result<()> {
        let mut order = self.order.lock();
        let already = std::mem::replace(&mut order.closing, true);
        self.called.notify_all();
        while already && order.failed.is_none() {
            self.moved.wait(&mut order); // Another thread is closing.
        }
        if already && order.closed_well {
            return Ok(());
        }
        if let Err(error) = order.check() {
            self.end_past(&mut order);
            return Err(error);
        }
        order.sync_wanted = order.last_ts;
        drop(order);
        let drained = self.drain();
        let mut order = self.order.lock();
        // What is under way past the log is acknowledged like any commit, and shown.
        while order.reserved.is_some() {
            self.moved.wait(&mut order);
        }
        let outcome = drained.and_then(|()| self.end(order));
        let mut order = self.order.lock();
        self.end_past(&mut order); // Also where the log does not say so.
        order.closed_well = outcome.is_ok();
        order.fail(Error::closed());
        self.tell(order);
        outcome
    }

    /// Leads until nothing that is applied waits for the log, nobody leads and no sync is under
    /// way. No commit comes meanwhile.
    fn drain(&self) -> Result<()> {
        let mut order = self.order.lock();
        loop {
            order.check()?;
            if order.may_lead() {
                self.lead(order)?;
                order = self.order.lock();
            } else if order.leading || order.syncs > 0 {
                self.moved.wait(&mut order);
            } else {
                return Ok(());
            }
        }
    }
}
