//! The body of a request on its way: read whole where there is room for it, or thrown away.

use crate::http::message::Body;
use crate::limits::BODY_DISCARD_BYTES_MAX;
use crate::net::payload::Broken;
use crate::net::room::{Place, Room, SMALL_BYTES_MAX};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use std::time::Duration;
use tabulith::env::clock::Clock;

/// A body that is still coming.
pub(crate) struct Sent<'a> {
    /// The rest of it.
    pub(crate) body: Incoming,
    /// Whether the client waits to be asked for it, which whoever begins to read it does.
    pub(crate) is_asked_for: bool,
    /// How long it may take in all.
    pub(crate) time_max: Duration,
    /// Measures how long it takes.
    pub(crate) clock: &'a dyn Clock,
    /// How long it has taken: the client's time, not the server's.
    pub(crate) waited: Duration,
}

/// What a body may take that is to be read whole.
pub(crate) struct Leave<'a> {
    /// Where it has its place.
    pub(crate) room: &'a Room,
    /// Whose it is, where there are several.
    pub(crate) owner: Option<&'a str>,
    /// Whether its sender may only read.
    pub(crate) only_reads: bool,
    /// How long it may be.
    pub(crate) bytes_max: usize,
    /// How long there is a use for it.
    pub(crate) time: Duration,
}

impl Leave<'_> {
    fn place(&self, bytes: usize) -> Option<Place> {
        match self.only_reads {
            true => self.room.take_for_reader(bytes, self.owner),
            false => self.room.take_for(bytes, self.owner),
        }
    }
}

/// What came of reading a body whole.
pub(crate) enum Collected {
    /// The body.
    Whole(Body),
    /// It is too large.
    TooLarge,
    /// There is no room for it.
    NoRoom,
    /// There is no use for it any more.
    TooLate,
}

impl Sent<'_> {
    /// Reads the body whole, or as much of it as shows that it is too large. One that says nothing
    /// of its length is small until it turns out not to be. Where it is not whole, it has no place
    /// any more, and the rest of it has yet to come.
    pub(crate) async fn collect(
        &mut self,
        size: Option<usize>,
        leave: &Leave<'_>,
        places: &mut Vec<Place>,
    ) -> Result<Collected, Broken> {
        let mut room_bytes = size.unwrap_or(SMALL_BYTES_MAX.min(leave.bytes_max));
        let Some(place) = leave.place(room_bytes) else { return Ok(Collected::NoRoom) };
        places.push(place);
        self.is_asked_for = false;
        let began = self.clock.steady();
        let read = async {
            let mut bytes = Vec::with_capacity(room_bytes);
            while let Some(data) = next(&mut self.body).await? {
                let len = bytes.len() + data.len();
                if len > leave.bytes_max {
                    return Ok(Collected::TooLarge);
                }
                if len > room_bytes {
                    let Some(place) = leave.place(leave.bytes_max) else {
                        return Ok(Collected::NoRoom);
                    };
                    places.push(place);
                    room_bytes = leave.bytes_max;
                }
                bytes.extend_from_slice(&data);
            }
            Ok(Collected::Whole(Body::Whole(bytes.into())))
        };
        let in_time = async {
            let read = tokio::time::timeout(leave.time, read).await;
            read.unwrap_or(Ok(Collected::TooLate))
        };
        let read = within(self.time_max, in_time).await;
        self.waited += self.clock.steady().saturating_sub(began);
        if !matches!(read, Ok(Collected::Whole(_))) {
            places.clear();
        }
        read
    }

    /// Throws the body away, so that the client, who is still sending, will look at the answer. Who
    /// waits to be asked for it is not asked.
    pub(crate) async fn discard(&mut self) -> Result<(), Broken> {
        if self.is_asked_for {
            return Ok(());
        }
        let began = self.clock.steady();
        let time_left = self.time_max.saturating_sub(self.waited);
        let drained = within(time_left, drain(&mut self.body)).await;
        self.waited += self.clock.steady().saturating_sub(began);
        drained
    }
}

async fn drain(body: &mut Incoming) -> Result<(), Broken> {
    let mut bytes = 0;
    while bytes < BODY_DISCARD_BYTES_MAX {
        match next(body).await? {
            None => break,
            Some(data) => bytes += data.len(),
        }
    }
    Ok(())
}

/// The next data of a body. What stands behind the last of it means nothing to the service.
async fn next(body: &mut Incoming) -> Result<Option<Bytes>, Broken> {
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.map_err(Broken::Client)?.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

async fn within<T>(
    time_max: Duration,
    work: impl Future<Output = Result<T, Broken>>,
) -> Result<T, Broken> {
    tokio::time::timeout(time_max, work).await.unwrap_or(Err(Broken::Slow))
}
