//! The body of a request on its way: read whole where there is room for it, or thrown away.

use crate::http::message::Body;
use crate::limits::{BODY_BYTES_MAX, BODY_DISCARD_BYTES_MAX};
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

impl Sent<'_> {
    /// Reads the body whole, or as much of it as shows that it is too large; none where there is no
    /// room for it. One that says nothing of its length is small until it turns out not to be.
    pub(crate) async fn collect(
        &mut self,
        size: Option<usize>,
        room: &Room,
        places: &mut Vec<Place>,
    ) -> Result<Option<Body>, Broken> {
        let mut room_bytes = size.unwrap_or(SMALL_BYTES_MAX);
        let Some(place) = room.take(room_bytes) else { return Ok(None) };
        places.push(place);
        let began = self.clock.steady();
        let read = async {
            let mut bytes = Vec::with_capacity(room_bytes);
            while let Some(data) = next(&mut self.body).await? {
                let len = bytes.len() + data.len();
                if len > BODY_BYTES_MAX {
                    drain(&mut self.body).await?;
                    return Ok(Some(Body::TooLarge));
                }
                if len > room_bytes {
                    let Some(place) = room.take(BODY_BYTES_MAX) else { return Ok(None) };
                    places.push(place);
                    room_bytes = BODY_BYTES_MAX;
                }
                bytes.extend_from_slice(&data);
            }
            Ok(Some(Body::Whole(bytes.into())))
        };
        let read = within(self.time_max, read).await;
        self.waited += self.clock.steady().saturating_sub(began);
        read
    }

    /// Throws the body away, so that the client, who is still sending, will look at the answer. Who
    /// waits to be asked for it is not asked.
    pub(crate) async fn discard(&mut self) -> Result<(), Broken> {
        if self.is_asked_for {
            return Ok(());
        }
        let began = self.clock.steady();
        let drained = within(self.time_max, drain(&mut self.body)).await;
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
