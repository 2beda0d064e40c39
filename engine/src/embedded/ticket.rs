//! Tickets of commits under way: to be waited for, asked, called back by, or awaited.

use crate::error::Result;
use crate::guest;
use crate::ids::CommitTs;
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
/// It is also a [`Future`] that needs no particular runtime.
#[must_use = "a commit is neither safe nor visible before its ticket is done"]
pub struct Ticket {
    outcome: Option<Result<CommitTs>>, // What it comes to once the commit is safe.
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
    waker: Option<Waker>,
}

impl Ticket {
    /// `outcome` is to be told once `commit` is safe; at once where there is none.
    pub(crate) fn new(outcome: Result<CommitTs>, commit: Option<Box<dyn CommitTicket>>) -> Ticket {
        let stage = commit.map_or(Stage::Done, |commit| {
            commit.urge();
            Stage::Commit(commit)
        });
        Ticket { outcome: Some(outcome), stage }
    }

    /// The commit's timestamp; `None` where the batch was refused.
    pub fn ts(&self) -> Option<CommitTs> {
        self.outcome.as_ref().and_then(|outcome| outcome.as_ref().ok().copied())
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
        self.take_outcome()
    }

    /// Calls `done` with what [`Ticket::wait`] would return: from a thread of the database or,
    /// where the commit is safe already, from this one. `done` must not block, nor write to the database or
    /// close it: its thread may be the one that this would wait for. It may drop a handle. Where it
    /// panics, that ends there, from whichever thread it was called.
    pub fn notify(mut self, done: impl FnOnce(Result<CommitTs>) + Send + 'static) {
        match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Commit(commit) => {
                let outcome = self.take_outcome();
                commit.notify(Box::new(move |safe| done(safe.and(outcome))));
            }
            stage => {
                self.stage = stage;
                let outcome = self.wait();
                guest::call(|| done(outcome));
            }
        }
    }

    fn take_outcome(&mut self) -> Result<CommitTs> {
        self.outcome.take().unwrap_or(Ok(CommitTs::ZERO))
    }
}

impl Future for Ticket {
    type Output = Result<CommitTs>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<CommitTs>> {
        if let Stage::Commit(_) = &self.stage {
            let polled = Arc::new(Mutex::new(Polled::default()));
            let stage = Stage::Polled(Arc::clone(&polled));
            if let Stage::Commit(commit) = std::mem::replace(&mut self.stage, stage) {
                commit.notify(Box::new(move |safe| {
                    let waker = {
                        let mut polled = polled.lock();
                        polled.safe = Some(safe);
                        polled.waker.take()
                    };
                    if let Some(waker) = waker {
                        waker.wake();
                    }
                }));
            }
        }
        if let Stage::Polled(polled) = &self.stage {
            let mut polled = polled.lock();
            match polled.safe.take() {
                Some(Ok(())) => {}
                Some(Err(error)) => return Poll::Ready(Err(error)),
                None => {
                    polled.waker = Some(context.waker().clone());
                    return Poll::Pending;
                }
            }
        }
        self.stage = Stage::Done;
        Poll::Ready(self.take_outcome())
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
