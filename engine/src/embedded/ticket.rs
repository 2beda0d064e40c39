//! Tickets of commits under way: to be waited for, asked, called back by, or awaited.

use crate::error::Result;
use crate::ids::CommitTs;
use crate::panics;
use crate::rows::CommitTicket;
use parking_lot::Mutex;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// A commit that is decided and applied, and not yet safe. Made by
/// [`Batch::commit_async`](crate::Batch::commit_async).
///
/// It becomes safe whether or not anybody waits; dropping the ticket takes nothing back. Commits
/// become safe in the order in which they were made, so waiting for the last of many waits for all.
/// It says nothing of those that were refused: a condition that failed, or `Busy`, is told by the
/// batch's own ticket alone. It is also a [`Future`] that needs no particular runtime.
#[must_use = "a commit is neither safe nor visible before its ticket is done"]
pub struct Ticket {
    outcome: Result<CommitTs>, // What it comes to once the commit is safe.
    stage: Stage,
}

enum Stage {
    /// Nothing is to be waited for.
    Done,
    Commit(Box<dyn CommitTicket>),
    /// Being awaited.
    Polled(Arc<Mutex<Polled>>),
}

#[derive(Default)]
struct Polled {
    safe: Option<Result<()>>,
    /// Who wants to know.
    asks: Option<Asks>,
}

/// Told whether the commit is safe.
type Callback = Box<dyn FnOnce(Result<()>) + Send>;

enum Asks {
    Waker(Waker),
    Callback(Callback),
}

impl Polled {
    /// The commit is settled.
    fn settle(polled: &Mutex<Polled>, safe: Result<()>) {
        let mut polled = polled.lock();
        match polled.asks.take() {
            Some(Asks::Callback(done)) => {
                drop(polled);
                done(safe);
            }
            asks => {
                polled.safe = Some(safe);
                drop(polled);
                if let Some(Asks::Waker(waker)) = asks {
                    waker.wake();
                }
            }
        }
    }
}

impl Ticket {
    /// `outcome` is to be told once `commit` is safe; at once where there is none.
    pub(crate) fn new(outcome: Result<CommitTs>, commit: Option<Box<dyn CommitTicket>>) -> Ticket {
        let stage = commit.map_or(Stage::Done, |commit| {
            commit.urge();
            Stage::Commit(commit)
        });
        Ticket { outcome, stage }
    }

    /// The commit's timestamp; `None` where the batch was refused, or the commit is known to be
    /// lost.
    pub fn ts(&self) -> Option<CommitTs> {
        self.outcome.as_ref().ok().copied()
    }

    /// Whether waiting would return at once.
    pub fn is_done(&self) -> bool {
        match &self.stage {
            Stage::Done => true,
            Stage::Commit(commit) => commit.is_done(),
            Stage::Polled(polled) => polled.lock().safe.is_some(),
        }
    }

    /// Returns once the commit is as safe as it asked for and visible to every later read; with
    /// what [`Batch::commit`](crate::Batch::commit) would return. The caller's thread may do the
    /// disk's work for all who wait.
    pub fn wait(mut self) -> Result<CommitTs> {
        match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Done => {}
            Stage::Commit(commit) => commit.wait()?,
            Stage::Polled(polled) => {
                // Rare: one that was awaited first. Its callback was given away already.
                let waker = Arc::new(Parked { thread: std::thread::current() });
                self.stage = Stage::Polled(polled);
                return block_on(self, waker);
            }
        }
        self.outcome
    }

    /// Calls `done` with what [`Ticket::wait`] would return: from a thread of the database or,
    /// where the commit is safe already, from this one. `done` must not block, nor write to the
    /// database or close it: its thread may be the one that this would wait for. It may drop a
    /// handle. Where it panics, that ends there, from whichever thread it was called.
    pub fn notify(self, done: impl FnOnce(Result<CommitTs>) + Send + 'static) {
        let Ticket { outcome, stage } = self;
        let done: Callback = Box::new(move |safe| done(safe.and(outcome)));
        match stage {
            Stage::Done => panics::contain(|| done(Ok(()))),
            Stage::Commit(commit) => commit.notify(done),
            Stage::Polled(polled) => {
                let mut polled = polled.lock();
                match polled.safe.take() {
                    Some(safe) => {
                        drop(polled);
                        panics::contain(|| done(safe));
                    }
                    None => polled.asks = Some(Asks::Callback(done)),
                }
            }
        }
    }
}

impl Future for Ticket {
    type Output = Result<CommitTs>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<CommitTs>> {
        if let Stage::Commit(_) = &self.stage {
            let polled = Arc::new(Mutex::new(Polled::default()));
            let stage = Stage::Polled(Arc::clone(&polled));
            if let Stage::Commit(commit) = std::mem::replace(&mut self.stage, stage) {
                commit.notify(Box::new(move |safe| Polled::settle(&polled, safe)));
            }
        }
        if let Stage::Polled(polled) = &self.stage {
            let mut polled = polled.lock();
            let Some(safe) = polled.safe.take() else {
                polled.asks = Some(Asks::Waker(context.waker().clone()));
                return Poll::Pending;
            };
            drop(polled);
            self.stage = Stage::Done;
            if let Err(error) = safe {
                self.outcome = Err(error);
            }
        }
        // It may be asked again.
        Poll::Ready(match &self.outcome {
            Ok(ts) => Ok(*ts),
            Err(error) => Err(error.duplicate()),
        })
    }
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ticket({:?}, done: {})", self.ts(), self.is_done())
    }
}

struct Parked {
    thread: std::thread::Thread,
}

impl std::task::Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.thread.unpark();
    }
}

fn block_on(mut ticket: Ticket, parked: Arc<Parked>) -> Result<CommitTs> {
    let waker = Waker::from(parked);
    loop {
        match Pin::new(&mut ticket).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(outcome) => return outcome,
            Poll::Pending => std::thread::park(),
        }
    }
}
