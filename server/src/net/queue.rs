//! Turns for work of which only so much may be under way at once.
//!
//! Who comes first has a turn first. Of several owners each has a queue of its own before that of
//! all, and one turn less than there are: however many one of them asks for, there is one left for
//! another.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Turns of one kind.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(super) all: Arc<Semaphore>,
    /// How many an owner may have.
    most: usize,
    /// What is left of those, for owners who have a turn or wait for one, and some who did.
    owned: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// A turn, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    _of_all: Option<OwnedSemaphorePermit>,
    _of_owner: Option<OwnedSemaphorePermit>,
}

impl Queue {
    /// One of so many turns.
    pub(crate) fn new(turns: usize) -> Queue {
        let turns = turns.min(Semaphore::MAX_PERMITS);
        let all = Arc::new(Semaphore::new(turns));
        Queue { all, most: turns.saturating_sub(1).max(1), owned: Mutex::default() }
    }

    /// Waits for a turn, of an `owner` if there are several.
    pub(crate) async fn turn(&self, owner: Option<&str>) -> Turn {
        // Nobody closes a semaphore, so that these are always there.
        let of_owner = match owner {
            Some(owner) => self.own(owner).acquire_owned().await.ok(),
            None => None,
        };
        let of_all = self.all.clone().acquire_owned().await.ok();
        Turn { _of_all: of_all, _of_owner: of_owner }
    }

    fn own(&self, owner: &str) -> Arc<Semaphore> {
        let mut owned = self.owned.lock();
        if let Some(own) = owned.get(owner) {
            return own.clone();
        }
        // Who has a turn or waits for one has it too.
        owned.retain(|_, own| Arc::strong_count(own) > 1);
        let own = Arc::new(Semaphore::new(self.most));
        owned.insert(owner.to_owned(), own.clone());
        own
    }
}

#[cfg(test)]
mod tests {
    use super::{Queue, Turn};
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    /// A turn that is there at once.
    async fn at_once(queue: &Queue, owner: Option<&str>) -> Option<Turn> {
        let mut turn = pin!(queue.turn(owner));
        match poll_fn(|cx| Poll::Ready(turn.as_mut().poll(cx))).await {
            Poll::Ready(turn) => Some(turn),
            Poll::Pending => None,
        }
    }

    #[tokio::test]
    async fn an_owner_leaves_a_turn_to_others() {
        let queue = Queue::new(3);
        let first = [at_once(&queue, Some("a")).await, at_once(&queue, Some("a")).await];
        assert!(first.iter().all(Option::is_some));
        assert!(at_once(&queue, Some("a")).await.is_none());
        let mut waiting = pin!(queue.turn(Some("a")));
        assert!(poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx).is_pending())).await);
        let other = at_once(&queue, Some("b")).await;
        assert!(other.is_some() && at_once(&queue, Some("b")).await.is_none());
        drop(first);
        let third = waiting.await;
        assert!(at_once(&queue, Some("b")).await.is_some());
        drop((other, third));
        assert!(at_once(&queue, Some("c")).await.is_some());
        assert_eq!((queue.all.available_permits(), queue.owned.lock().len()), (3, 1));
    }

    #[tokio::test]
    async fn who_is_alone_may_have_all() {
        let queue = Queue::new(2);
        let all = [at_once(&queue, None).await, at_once(&queue, None).await];
        assert!(all.iter().all(Option::is_some) && at_once(&queue, None).await.is_none());
        let one = Queue::new(1);
        assert!(at_once(&one, Some("a")).await.is_some());
    }
}
