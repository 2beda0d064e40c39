//! A request's work: where it is done, in whose turn, and the place that its answer has.
//!
//! What is in memory and small is answered on the connection's own task; what may wait for the
//! disk, or takes its time, goes to a thread that may; a commit is waited for without one.

use crate::batch::changeset::Outline;
use crate::error::{INTERNAL_ERROR, OPERATION_TIMED_OUT};
use crate::handle::answer::{Answer, WriteAnswer};
use crate::handle::call::{Call, Turns};
use crate::handle::reply;
use crate::http::message::{Body, Head, Response};
use crate::limits::{QUICK_BATCH_BYTES_MAX, QUICK_BODY_BYTES_MAX, REQUEST_TIME_MAX};
use crate::net::payload::held;
use crate::net::room::{Place, SMALL_BYTES_MAX};
use crate::net::shared::Shared;
use crate::route::Operation;
use crate::services::base::Store;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;
use tabulith::ids::CommitTs;
use tabulith::options::Reach;
use tokio::sync::oneshot;
use tokio::task::{JoinError, spawn_blocking};

/// What a request is answered, and the places of its body.
pub(super) type Answered = (Response, Vec<Place>);

/// Lets a request in, or refuses it, where that may wait for the disk: as long as a request may
/// take.
pub(super) async fn received_aside<S: Store>(
    shared: &Arc<Shared<S>>,
    head: &Head,
    began: Duration,
) -> Result<Arc<Call>, Response> {
    let work = async {
        let turn = shared.admissions.turn(None).await;
        let (own_shared, own_head) = (shared.clone(), head.clone());
        let work = move || {
            let _turn = turn;
            own_shared.app.receive_within(&own_head, began, Reach::Disk)
        };
        aside(shared, work).await
    };
    match tokio::time::timeout(REQUEST_TIME_MAX, work).await {
        Ok(Ok(Some(received))) => received,
        Ok(Ok(None)) => Err(shared.app.refuse(head, &INTERNAL_ERROR)),
        Ok(Err(error)) => {
            tracing::error!(%error, "a request's thread ended before it was let in");
            Err(shared.app.refuse(head, &INTERNAL_ERROR))
        }
        Err(_) => Err(shared.app.refuse(head, &OPERATION_TIMED_OUT)),
    }
}

/// Gives a large answer a place until it has left; without one there is another answer. That to a
/// change is given in any case, as it has happened: it keeps the `places` of the body that it
/// repeats, and what was taken beyond them before the change.
pub(super) fn with_place<S: Store>(
    shared: &Shared<S>,
    call: &Call,
    response: Response,
    mut places: Vec<Place>,
) -> Response {
    if response.body.len() <= SMALL_BYTES_MAX {
        return response;
    }
    let (bytes, owner) = (response.body.len(), shared.owner(call));
    let own = match response.is_of_change {
        true => shared.answers.take_once_for(bytes, owner),
        false => shared.answers.take_for(bytes, owner),
    };
    match own {
        Some(own) => places = vec![own],
        None if response.is_of_change => {}
        None => return shared.app.busy(call),
    }
    Response { body: held(response.body, places), ..response }
}

/// Has the app do the work, where it may be done. The body has its `places` for as long as it is
/// worked on, whether or not anybody still waits for the answer.
pub(super) async fn perform<S: Store>(
    shared: &Arc<Shared<S>>,
    call: &Arc<Call>,
    body: Body,
    mut places: Vec<Place>,
) -> Answered {
    let body_bytes = body.bytes().len();
    if call.may_be_quick(body_bytes) {
        let (answer, beyond) = worked(shared, call, (&body, None), Reach::Memory, &places);
        match answer {
            Answer::NeedsDisk => {}
            Answer::Now(response) => return (response, places),
            later => {
                places.extend(beyond);
                let work = async { (settled(call, later).await, places) };
                return in_time(shared, call, work).await;
            }
        }
    }
    let (own_shared, own_call) = (shared.clone(), call.clone());
    let work = async {
        let read = turns_of(shared, call, body, places).await;
        let ((needed, outline), body, mut places) = match read {
            Ok(read) => read,
            Err(error) => return lost(call, &error),
        };
        // In this order: of these two there are the fewest turns, and who waits for one holds no
        // commit's; who has a page's or a read's turn waits for no other, nor for a commit.
        let turns = [
            needed.serial.then_some(&shared.serial),
            needed.merge.then_some(&shared.merges),
            needed.commit.then_some(&shared.commits),
            needed.page.then_some(&shared.pages),
            needed.read.then_some(&shared.reads),
        ];
        if let Some(at) = needed.past
            && let Err(error) = await_past(shared, call, at).await
        {
            return lost(call, &error);
        }
        let mut held = Vec::new();
        for turns in turns.into_iter().flatten() {
            held.push(turns.turn(shared.owner(call)).await);
        }
        let work = move || {
            let _held = held;
            let body = (&body, outline.as_ref());
            let (answer, beyond) = worked(&own_shared, &own_call, body, Reach::Disk, &places);
            places.extend(beyond);
            (answer, places)
        };
        match aside(shared, work).await {
            Ok((answer, places)) => written(shared, call, answer, places, body_bytes).await,
            Err(error) => lost(call, &error),
        }
    };
    in_time(shared, call, work).await
}

/// A body that was read for the turns that it asks for, and its places.
pub(super) type ReadBody = ((Turns, Option<Outline>), Body, Vec<Place>);

/// Reads a body for the turns that it asks for: a long one where it holds up nobody else.
pub(super) async fn turns_of<S: Store>(
    shared: &Shared<S>,
    call: &Arc<Call>,
    body: Body,
    places: Vec<Place>,
) -> Result<ReadBody, JoinError> {
    if call.operation != Operation::Batch || body.bytes().len() <= QUICK_BATCH_BYTES_MAX {
        let read = call.turns(body.bytes());
        return Ok((read, body, places));
    }
    let call = call.clone();
    let read = move || {
        let read = call.turns(body.bytes());
        (read, body, places)
    };
    aside(shared, read).await
}

/// Waits until what was committed up to `at` can be read, which may be as long as the disk wants:
/// in a turn for that, before there is one to read.
async fn await_past<S: Store>(
    shared: &Arc<Shared<S>>,
    call: &Call,
    at: CommitTs,
) -> Result<(), JoinError> {
    if !shared.app.services().may_wait_for(at) {
        return Ok(());
    }
    let turn = shared.pasts.turn(shared.owner(call)).await;
    let own_shared = shared.clone();
    let wait = move || {
        let _turn = turn;
        own_shared.app.services().await_past(at);
    };
    aside(shared, wait).await
}

/// The answer, once that is safe to tell; that to a large body is written aside, as the body was
/// read.
pub(super) async fn written<S: Store>(
    shared: &Shared<S>,
    call: &Arc<Call>,
    answer: Answer,
    places: Vec<Place>,
    body_bytes: usize,
) -> Answered {
    match answer {
        Answer::Now(response) => (response, places),
        later if body_bytes <= QUICK_BODY_BYTES_MAX => (settled(call, later).await, places),
        later => {
            let write = decided(call, later).await;
            let answered = aside(shared, move || (write(), places)).await;
            answered.unwrap_or_else(|error| lost(call, &error))
        }
    }
}

/// Does what may take its time where that holds up no other connection.
async fn aside<S: Store, T: Send + 'static>(
    shared: &Shared<S>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    match shared.has_threads {
        true => spawn_blocking(work).await,
        false => Ok(work()),
    }
}

fn lost(call: &Call, error: &JoinError) -> Answered {
    tracing::error!(%error, "a request's thread ended without an answer");
    (reply::answered(call, Err(INTERNAL_ERROR)), Vec::new())
}

/// Does the work. Where the answer to a change may be larger than the `places` of the body, which
/// it will have when the body is gone, the rest of its place is taken before the change is made.
fn worked<S: Store>(
    shared: &Shared<S>,
    call: &Arc<Call>,
    (body, outline): (&Body, Option<&Outline>),
    reach: Reach,
    places: &[Place],
) -> (Answer, Option<Place>) {
    let own_bytes = places.iter().map(Place::bytes).sum::<usize>();
    let beyond = Cell::new(None);
    let take_room = |bytes: usize| {
        if bytes <= SMALL_BYTES_MAX.max(own_bytes) {
            return true;
        }
        // One that is larger than all of the room has all of it.
        let lacking = (bytes - own_bytes).min(shared.answers.bytes().max(1));
        let place = shared.answers.take_once_for(lacking, shared.owner(call));
        let is_there = place.is_some();
        beyond.set(place);
        is_there
    };
    let answer = shared.app.perform_with_room(call, (body, outline), reach, &take_room);
    (answer, beyond.into_inner())
}

/// The answer, or that the client's time is over. A commit that is under way stands all the same.
pub(super) async fn in_time<S: Store>(
    shared: &Shared<S>,
    call: &Call,
    work: impl Future<Output = Answered>,
) -> Answered {
    let time_left = shared.app.time_left(call);
    let answer = tokio::time::timeout(time_left, work).await;
    answer.unwrap_or_else(|_| (shared.app.timed_out(call), Vec::new()))
}

/// The answer, once that is safe to tell.
pub(super) async fn settled(call: &Arc<Call>, answer: Answer) -> Response {
    let write = decided(call, answer).await;
    write()
}

/// Waits for a commit, without a thread, and gives what writes the answer.
async fn decided(call: &Arc<Call>, answer: Answer) -> WriteAnswer {
    let own_call = call.clone();
    let failed = move || reply::answered(&own_call, Err(INTERNAL_ERROR));
    let later = match answer {
        Answer::Now(response) => return Box::new(|| response),
        Answer::Later(later) => later,
        Answer::NeedsDisk => return Box::new(failed),
    };
    let (done, outcome) = oneshot::channel::<WriteAnswer>();
    later.notify(Box::new(move |write| {
        // Whoever waited may be gone; the commit stands all the same.
        let _ = done.send(write);
    }));
    outcome.await.unwrap_or_else(|_| Box::new(failed))
}
