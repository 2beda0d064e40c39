//! What commits do while background work is behind: they pause a little each, the longer the more
//! it is behind, and wait where there is no room for more. [`stall`] computes how long.

use crate::commit::pipeline::Pipeline;
use crate::env::clock::Clock;
use crate::error::{Error, Kind, Result};
use crate::event::{Doing, Event};
use crate::stall::{Bucket, Cause, Stall, stall};
use crate::sync::atomic::{AtomicU8, Ordering::Relaxed};
use crate::tree::base::Tree;
use crate::work::Work;
use std::sync::Arc;
use std::time::Duration;

/// How long a commit waits for background work before it is refused as [`Kind::Busy`].
const STALL_MAX: Duration = Duration::from_secs(30);

/// A commit of this size is asked for, where it is asked whether one would have to pause.
const AT_ONCE_BYTES: usize = 64 << 10;

/// Paces the commits of one database.
#[derive(Debug)]
pub(crate) struct Pacing {
    tree: Arc<Tree>,
    clock: Arc<dyn Clock>,
    owed: Bucket,
    told: AtomicU8, // 0, or 1 more than the cause of the pauses that began and have not ended.
}

impl Pacing {
    pub(crate) fn new(tree: Arc<Tree>, clock: Arc<dyn Clock>) -> Pacing {
        Pacing { tree, clock, owed: Bucket::default(), told: AtomicU8::new(0) }
    }

    fn stall(&self, bytes: usize) -> Stall {
        stall(self.tree.debt(), bytes, &self.tree.options)
    }

    /// Waits while background work is too far behind.
    ///
    /// Errors: `Busy` where it stays so for [`STALL_MAX`]; the log's, where that takes nothing
    /// more; the manifest's, where that keeps an ingest in doubt.
    pub(crate) fn admit(&self, pipeline: &Pipeline, work: &Work) -> Result<()> {
        self.tree.end_doubt()?;
        while let Stall::Stop(cause) = self.stall(0) {
            self.await_background(pipeline, work, cause)?;
        }
        Ok(())
    }

    /// Whether a commit need neither wait nor pause.
    pub(crate) fn is_free(&self) -> bool {
        self.stall(AT_ONCE_BYTES) == Stall::None && !self.tree.is_in_doubt()
    }

    /// Waits while background work is too far behind for `cause`.
    #[cold]
    fn await_background(&self, pipeline: &Pipeline, work: &Work, cause: Cause) -> Result<()> {
        let (tree, reason, stopped) = (&self.tree, cause.into(), true);
        let _span = tree.events.span(Doing::Stall);
        tree.events.tell(Event::StallBegin { reason, stopped });
        let start = self.clock.steady();
        let awaited = self.await_less_than(pipeline, work, cause, start + STALL_MAX);
        let waited = self.clock.steady().saturating_sub(start);
        tree.events.tell(Event::StallEnd { reason, stopped });
        awaited?;
        match cause {
            Cause::L0Files => tree.counters.stopped_by_l0.add(waited),
            Cause::Memtables => tree.counters.stopped_by_memtables.add(waited),
        }
        Ok(())
    }

    fn await_less_than(
        &self,
        pipeline: &Pipeline,
        work: &Work,
        cause: Cause,
        until: Duration,
    ) -> Result<()> {
        let mut goes_on = true;
        while self.stall(0) == Stall::Stop(cause) {
            // A log that failed or is closed takes no commit, however far the work gets.
            pipeline.check_open()?;
            if !goes_on || self.clock.steady() >= until {
                let why = work.last_error().unwrap_or_else(|| "it is still at work".into());
                let what = format!("background work is too far behind: {why}");
                return Err(Error::new(Kind::Busy, what));
            }
            goes_on = work.await_progress(Duration::from_millis(100))?;
        }
        Ok(())
    }

    /// Pauses for what a commit of `bytes` costs at the present debt.
    pub(crate) fn slow_down(&self, bytes: usize) {
        match self.stall(bytes) {
            Stall::Delay(owed, cause) => {
                let Some(delay) = self.owed.owe(owed) else { return };
                let counters = &self.tree.counters;
                match cause {
                    Cause::L0Files => counters.slowed_by_l0.add(delay),
                    Cause::Memtables => counters.slowed_by_memtables.add(delay),
                }
                self.tell(Some(cause));
                self.clock.sleep(delay);
            }
            Stall::None => {
                self.owed.forgive();
                self.tell(None);
            }
            Stall::Stop(_) => {}
        }
    }

    /// Tells when commits begin to pause for `cause`, and when they no longer do.
    fn tell(&self, cause: Option<Cause>) {
        let now = cause.map_or(0, |cause| cause as u8 + 1);
        // Almost always as it was: do not dirty the line.
        if self.told.load(Relaxed) == now {
            return;
        }
        let (events, stopped) = (&self.tree.events, false);
        let before = self.told.swap(now, Relaxed);
        let of =
            |told| [Cause::L0Files, Cause::Memtables].into_iter().find(|c| *c as u8 + 1 == told);
        if let Some(reason) = of(before).filter(|_| before != now).map(Into::into) {
            events.tell(Event::StallEnd { reason, stopped });
        }
        if let Some(reason) = of(now).filter(|_| before != now).map(Into::into) {
            events.tell(Event::StallBegin { reason, stopped });
        }
    }
}
