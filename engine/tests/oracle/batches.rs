//! Batches as a user makes them: writes under conditions, and tickets that are waited for, asked,
//! given a callback or forgotten.

use crate::entity::end_of;
use crate::ops::{Demand, Then};
use crate::rows::{Difference, said};
use crate::updates::left_by;
use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, channel};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tabulith::error::Kind;
use tabulith::ids::CommitTs;
use tabulith::rows::CommitTicket;
use tabulith::{Batch, If, Partition, Ticket};
use tabulith_testkit::oracle::{Change, Oracle};

/// Long enough for a thread that has only to be given the processor.
const CALLBACK_SECONDS: u64 = 120;

/// A commit under way.
pub(crate) enum Pending {
    Rows(Box<dyn CommitTicket>),
    Batch(CommitTs, Ticket),
    /// Asked as a future: told by a callback.
    Polled(CommitTs, Ticket),
    Told(CommitTs, Receiver<tabulith::Result<CommitTs>>),
}

impl Pending {
    pub(crate) fn ts(&self) -> CommitTs {
        match self {
            Pending::Rows(ticket) => ticket.ts(),
            Pending::Batch(ts, _) | Pending::Polled(ts, _) | Pending::Told(ts, _) => *ts,
        }
    }

    /// What has to be so once a later commit is done. A callback may be on its way.
    pub(crate) fn is_done(&self) -> bool {
        match self {
            Pending::Rows(ticket) => ticket.is_done(),
            Pending::Batch(_, ticket) => ticket.is_done(),
            Pending::Polled(..) | Pending::Told(..) => true,
        }
    }

    pub(crate) fn wait(self) -> Result<(), Difference> {
        let ts = self.ts();
        let told = match self {
            Pending::Rows(ticket) => return ticket.wait().map_err(said),
            Pending::Batch(_, ticket) | Pending::Polled(_, ticket) => ticket.wait(),
            Pending::Told(_, told) => told
                .recv_timeout(Duration::from_secs(CALLBACK_SECONDS))
                .map_err(|_| format!("nobody calls back for commit {ts}"))?,
        };
        match told.map_err(said)? {
            told if told == ts => Ok(()),
            told => Err(format!("commit {ts} was told of as {told}")),
        }
    }
}

/// Takes what is to be waited for; `None` where the ticket was forgotten.
pub(crate) fn pend(
    ts: CommitTs,
    mut ticket: Ticket,
    then: Then,
) -> Result<Option<Pending>, Difference> {
    Ok(match then {
        Then::Wait | Then::Later => Some(Pending::Batch(ts, ticket)),
        Then::Poll => match Pin::new(&mut ticket).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(told) if told.as_ref().ok() == Some(&ts) => None,
            Poll::Ready(told) => return Err(format!("commit {ts} was told of as {told:?}")),
            Poll::Pending => Some(Pending::Polled(ts, ticket)),
        },
        Then::Notify => {
            let (tell, told) = channel();
            ticket.notify(move |outcome| drop(tell.send(outcome)));
            Some(Pending::Told(ts, told))
        }
        Then::Forget => None,
    })
}

/// Whether a ticket leaves its commit to others, so that those who read must see to it first.
pub(crate) fn leaves_it_to_others(then: Then) -> bool {
    matches!(then, Then::Poll | Then::Notify | Then::Forget)
}

/// The batch with its changes under their conditions; and why it must be refused, if so.
pub(crate) fn batch(
    mut batch: Batch,
    model: &Oracle,
    (table, pk): (u32, &[u8]),
    changes: &[Change],
    demands: &[Demand],
) -> (Batch, Option<Kind>) {
    let mut refusal = None;
    for (n, (change, demand)) in changes.iter().zip(demands).enumerate() {
        let (rk, value) = match change {
            Change::Put(rk, value) => (rk, Some((value, None))),
            Change::PutUntil(rk, value, expires) => (rk, Some((value, Some(*expires)))),
            Change::Delete(rk) => (rk, None),
            Change::DeleteRange(from, to) => {
                batch = batch.delete_range((from.clone(), to.clone()));
                continue;
            }
        };
        let stored = model.get(table, pk, rk).map(|row| row.ts);
        // The timestamp of the row here; an own write has none yet.
        let before = changes[..n].iter().rev().find_map(|own| left_by(own, rk));
        let here = before.map_or(stored, |left| left.map(|_| 0));
        let condition = match demand {
            Demand::Any => If::Any,
            Demand::Absent => If::Absent,
            Demand::Present => If::Present,
            Demand::Unchanged => If::Match(CommitTs(stored.unwrap_or(1))),
            Demand::Other => If::Match(CommitTs(1)),
        };
        refusal = refusal.or(match (condition, here) {
            (If::Absent, Some(_)) => Some(Kind::Exists),
            (If::Present | If::Match(_), None) => Some(Kind::NotFound),
            (If::Match(ts), Some(here)) if ts.0 != here => Some(Kind::Changed),
            _ => None,
        });
        batch = match value {
            Some((value, None)) => batch.put_if(rk, value, condition),
            Some((value, Some(expires))) => {
                batch.put_until_if(rk, value, CommitTs(expires), condition)
            }
            None => batch.delete_if(rk, condition),
        };
    }
    (batch, refusal)
}

/// Puts a batch together that shows what it has written at `now`, and is empty again by a
/// savepoint.
pub(crate) fn rehearse(
    partition: &Partition,
    changes: &[Change],
    now: CommitTs,
) -> Result<Batch, Difference> {
    let mut batch = partition.batch();
    let empty = batch.savepoint();
    for change in changes {
        batch = match change {
            Change::Put(rk, value) => batch.upsert(rk, value),
            Change::PutUntil(rk, value, expires) => {
                batch.upsert_until(rk, value, CommitTs(*expires))
            }
            Change::Delete(rk) => batch.delete(rk),
            Change::DeleteRange(from, to) => batch.delete_range((from.clone(), to.clone())),
        };
    }
    let keys = changes.iter().filter_map(|change| match change {
        Change::Put(rk, _) | Change::PutUntil(rk, ..) | Change::Delete(rk) => Some(rk),
        Change::DeleteRange(..) => None,
    });
    for rk in keys {
        let left = changes.iter().rev().find_map(|own| left_by(own, rk)).flatten();
        let expected = left.filter(|(_, expires)| now.0 < *expires);
        let shown = batch.get(rk).map_err(said)?;
        if shown.as_ref().map(|row| (&row.value[..], end_of(row.expires))) != expected {
            return Err(format!("a batch shows {shown:?} under {rk:?}, not {expected:?}"));
        }
    }
    batch.rollback_to(empty).map_err(said)?;
    Ok(batch)
}
