//! An answer that is there, or one that waits for a commit, or one that needs the disk first.

use crate::error::WireError;
use crate::handle::call::Call;
use crate::handle::reply;
use crate::http::message::Response;
use std::fmt;
use std::sync::Arc;
use tabulith::table::error::TableError;
use tabulith::table::write::Pending;

/// What became of a request.
pub enum Answer {
    /// The answer.
    Now(Response),
    /// The change is applied or refused, and the answer waits until that is safe to tell.
    Later(Box<dyn Later>),
    /// It was to take no time and would have to, for the disk or as it is large: ask again on a
    /// thread that may wait.
    NeedsDisk,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Answer::Now(_) => "Now",
            Answer::Later(_) => "Later",
            Answer::NeedsDisk => "NeedsDisk",
        })
    }
}

/// Takes room for an answer to a change, of that many bytes at most, before the change is made;
/// says whether there is any.
pub type TakeRoom<'a> = &'a dyn Fn(usize) -> bool;

/// Makes a response out of an outcome; called where writing it may take its time.
pub type WriteAnswer = Box<dyn FnOnce() -> Response + Send>;

/// An answer that waits for a commit.
pub trait Later: Send {
    /// Waits on this thread.
    fn wait(self: Box<Self>) -> Response;

    /// Calls `done`, which must not block, once the outcome is known.
    fn notify(self: Box<Self>, done: Box<dyn FnOnce(WriteAnswer) + Send>);
}

struct After<T, E, F> {
    call: Arc<Call>,
    pending: Pending<T, E>,
    then: F,
}

impl<T, E, F> Later for After<T, E, F>
where
    T: Send + 'static,
    E: From<TableError> + Send + 'static,
    F: FnOnce(&Call, Result<T, E>) -> Result<Response, WireError> + Send + 'static,
{
    fn wait(self: Box<Self>) -> Response {
        let result = (self.then)(&self.call, self.pending.wait());
        reply::answered(&self.call, result)
    }

    fn notify(self: Box<Self>, done: Box<dyn FnOnce(WriteAnswer) + Send>) {
        let After { call, pending, then } = *self;
        pending.notify(move |outcome| {
            done(Box::new(move || reply::answered(&call, then(&call, outcome))));
        });
    }
}

impl Answer {
    /// The answer that `then` makes of a pending change.
    pub fn after<T, E, F>(call: &Arc<Call>, pending: Pending<T, E>, then: F) -> Answer
    where
        T: Send + 'static,
        E: From<TableError> + Send + 'static,
        F: FnOnce(&Call, Result<T, E>) -> Result<Response, WireError> + Send + 'static,
    {
        Answer::Later(Box::new(After { call: call.clone(), pending, then }))
    }
}
