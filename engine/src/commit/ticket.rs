//! A commit on its way to being visible, in the hands of who made it.

use crate::commit::order::Callback;
use crate::commit::pipeline::Pipeline;
use crate::error::Result;
use crate::ids::CommitTs;
use crate::rows::CommitTicket;
use std::sync::Arc;

/// A commit that has its place in the order. Dropping the ticket takes nothing back; the commit is
/// seen through by the background leader then, though nobody waits for it.
#[derive(Debug)]
pub(crate) struct Ticket {
    pipeline: Arc<Pipeline>,
    ts: CommitTs,
    is_seen_to: bool,
}

impl Ticket {
    pub(crate) fn new(pipeline: &Arc<Pipeline>, ts: CommitTs) -> Ticket {
        Ticket { pipeline: Arc::clone(pipeline), ts, is_seen_to: false }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.is_seen_to {
            self.pipeline.urge(self.ts);
        }
    }
}

impl CommitTicket for Ticket {
    fn ts(&self) -> CommitTs {
        self.ts
    }

    fn is_done(&self) -> bool {
        self.pipeline.is_settled(self.ts)
    }

    fn wait(self: Box<Self>) -> Result<()> {
        self.pipeline.wait(self.ts)
    }

    fn urge(&self) {
        self.pipeline.urge(self.ts);
    }

    fn notify(mut self: Box<Self>, done: Callback) {
        self.is_seen_to = true;
        self.pipeline.notify(self.ts, done);
    }
}
