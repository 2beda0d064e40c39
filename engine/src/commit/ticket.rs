//! A commit on its way to being visible, in the hands of who made it.

use crate::commit::order::Callback;
use crate::commit::pipeline::Pipeline;
use crate::error::Result;
use crate::ids::CommitTs;
use crate::rows::CommitTicket;
use std::sync::Arc;

/// A commit that has its place in the order. Dropping the ticket takes nothing back.
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

    fn urge(&self) {
        self.pipeline.urge(self.ts);
    }

    fn notify(self: Box<Self>, done: Callback) {
        self.pipeline.notify(self.ts, done);
    }
}
