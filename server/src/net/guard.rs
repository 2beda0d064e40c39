//! A connection that is watched: what is no request, or could be two, never reaches the HTTP
//! library, and who is too slow in either direction is cut off.
//!
//! A refused line is replaced by a byte that no head may contain, so that the library answers with
//! 400 in the place of that request, behind the answers to those before it, and closes. In a body
//! the connection ends at the refused line, and whoever reads the body learns why from the
//! `Verdict`.
//!
//! A connection that is closed while its client still sends would be reset, and the answer lost on
//! the way. So what still comes is read and thrown away, for a short time.

#![allow(clippy::disallowed_methods, reason = "timeouts go by tokio's clock, which tests pause")]

use crate::http::framing::{Framing, Refused};
use crate::limits::{ANSWER_BYTES_A_SECOND_MIN, HEAD_BYTES_MAX};
use crate::net::room::{Place, Room};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

/// What stands in for the rest of a head that is refused: NUL is allowed nowhere in one, and the
/// library looks at what came in pieces only once it seems to end.
const SPOILER: &[u8] = b"\0\r\n\r\n";

/// How long what a client still sends is thrown away before its connection is closed.
const LINGER_TIME: Duration = Duration::from_secs(1);

/// Most bytes that are thrown away then.
const LINGER_BYTES_MAX: usize = 1 << 20;

/// Most bytes of a body that are read at once. The library's buffer for a connection grows with
/// what it finds, up to what the longest head needs; a thousand bodies at once would take ten times
/// this.
const BODY_READ_BYTES_MAX: usize = 16 << 10;

/// Heads up to this size need no place: every connection may send them.
const SMALL_HEAD_BYTES_MAX: usize = 16 << 10;

/// Most bytes that are read at once of heads that have no place: what the library asks for first.
/// Its buffer doubles where it is given all that it asked for.
const HEAD_READ_BYTES_MAX: usize = 8 << 10;

/// How slow a client may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// From the first byte of a head to its last; also until the first byte of all.
    pub(crate) head: Duration,
    /// While nothing of an answer is taken; beside the time that all of it takes at the least rate.
    pub(crate) answer: Duration,
}

/// An answer that could not leave at once.
struct HeldUp {
    since: Instant,
    /// When something of it was last taken.
    taken: Instant,
    /// How much was taken since.
    bytes: u64,
    timer: Pin<Box<Sleep>>,
}

impl HeldUp {
    fn new(time_max: Duration) -> HeldUp {
        let now = Instant::now();
        let timer = Box::pin(sleep_until(now + time_max));
        HeldUp { since: now, taken: now, bytes: 0, timer }
    }

    /// Whether nothing was taken for too long, or less than has to be.
    fn poll_late(&mut self, cx: &mut Context<'_>, time_max: Duration) -> Poll<()> {
        let steady = Duration::from_millis(self.bytes * 1_000 / ANSWER_BYTES_A_SECOND_MIN);
        let end = (self.taken + time_max).min(self.since + time_max + steady);
        if self.timer.deadline() != end {
            self.timer.as_mut().reset(end);
        }
        self.timer.as_mut().poll(cx)
    }
}

/// What is known of a connection, for whoever answers its requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict(Arc<Known>);

#[derive(Debug, Default)]
struct Known {
    refused: AtomicBool,
    placed: AtomicBool,
}

impl Verdict {
    /// Whether something was refused: its bodies may end in nonsense.
    pub(crate) fn is_refused(&self) -> bool {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// Whether it has a place for long heads, which is given back with the connection: the answer
    /// is the last one.
    pub(crate) fn is_placed(&self) -> bool {
        self.0.placed.load(Ordering::Relaxed)
    }
}

/// A connection under watch.
pub(crate) struct Guard<T> {
    stream: T,
    patience: Patience,
    framing: Framing,
    verdict: Verdict,
    /// What is left of the spoiler.
    spoiler: &'static [u8],
    /// Room for longer heads, which all connections share.
    heads: Room,
    /// Of this connection, once it has sent one: the library's buffer keeps that size.
    place: Option<Place>,
    /// Whether no byte has come yet.
    is_new: bool,
    /// Runs while a head is awaited or amid.
    head: Option<Pin<Box<Sleep>>>,
    /// From when an answer could not leave until all of it has.
    answer: Option<HeldUp>,
    /// Once our side has said that it is done.
    linger: Option<(Pin<Box<Sleep>>, usize)>,
}

impl<T> Guard<T> {
    pub(crate) fn new(stream: T, patience: Patience, heads: Room) -> Guard<T> {
        Guard {
            stream,
            patience,
            framing: Framing::default(),
            verdict: Verdict::default(),
            spoiler: &[],
            heads,
            place: None,
            is_new: true,
            head: None,
            answer: None,
            linger: None,
        }
    }

    pub(crate) fn verdict(&self) -> Verdict {
        self.verdict.clone()
    }

    /// Looks at what has come behind `from`, and takes back what is refused of it.
    fn look(&mut self, buf: &mut ReadBuf<'_>, from: usize) {
        if let Err(Refused { good, in_head }) = self.framing.take(&mut buf.filled_mut()[from..]) {
            buf.set_filled(from + good);
            self.spoiler = if in_head { SPOILER } else { &[] };
            self.verdict.0.refused.store(true, Ordering::Relaxed);
            tracing::debug!(in_head, "a request was refused for its framing");
            self.spoil(buf);
        }
    }

    /// Takes a place where what has come of a head needs one.
    fn place_head(&mut self) -> io::Result<()> {
        if self.framing.head_bytes() <= SMALL_HEAD_BYTES_MAX || self.place.is_some() {
            return Ok(());
        }
        self.place = self.heads.take(HEAD_BYTES_MAX);
        self.verdict.0.placed.store(true, Ordering::Relaxed);
        let full = || io::Error::new(io::ErrorKind::OutOfMemory, "no room for a head so long");
        self.place.is_some().then_some(()).ok_or_else(full)
    }

    /// Gives as much of the spoiler as there is room for; in the end, the end.
    fn spoil(&mut self, buf: &mut ReadBuf<'_>) {
        let (now, later) = self.spoiler.split_at(self.spoiler.len().min(buf.remaining()));
        buf.put_slice(now);
        self.spoiler = later;
    }

    /// Whether a head that is awaited or amid has taken too long.
    fn is_head_late(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.is_new && !self.framing.is_amid_head() {
            return false;
        }
        let time_max = self.patience.head;
        let timer = self.head.get_or_insert_with(|| Box::pin(sleep(time_max)));
        timer.as_mut().poll(cx).is_ready()
    }

    /// What a write came to, or that its answer was not taken in time.
    fn in_time<R>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        if written.is_pending() {
            let time_max = self.patience.answer;
            let held_up = self.answer.get_or_insert_with(|| HeldUp::new(time_max));
            ready!(held_up.poll_late(cx, time_max));
            return Poll::Ready(Err(late("an answer was not taken in time")));
        }
        written
    }

    /// The same for some bytes of an answer.
    fn some_in_time(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let (Poll::Ready(Ok(bytes)), Some(held_up)) = (&written, &mut self.answer) {
            held_up.taken = Instant::now();
            held_up.bytes += *bytes as u64;
        }
        self.in_time(cx, written)
    }
}

impl<T: AsyncRead + Unpin> Guard<T> {
    /// Reads, not much at once unless there is a place for more.
    fn poll_some(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let bytes_max = match self.framing.is_in_body() {
            true => BODY_READ_BYTES_MAX,
            false if self.place.is_some() => usize::MAX,
            false => HEAD_READ_BYTES_MAX,
        };
        if buf.remaining() <= bytes_max {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let mut part = ReadBuf::new(buf.initialize_unfilled_to(bytes_max));
        let read = Pin::new(&mut self.stream).poll_read(cx, &mut part);
        let count = part.filled().len();
        buf.advance(count);
        read
    }

    /// Whether something has come that nobody has read; looks once, and throws away what it sees.
    fn has_more(&mut self, cx: &mut Context<'_>) -> bool {
        let mut space = [0; 512];
        let mut buf = ReadBuf::new(&mut space);
        let read = Pin::new(&mut self.stream).poll_read(cx, &mut buf);
        matches!(read, Poll::Ready(Ok(()))) && !buf.filled().is_empty()
    }
}

fn late(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what)
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncRead for Guard<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.verdict.is_refused() {
            self.spoil(buf);
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        match self.poll_some(cx, buf) {
            Poll::Pending if self.is_head_late(cx) => {
                return Poll::Ready(Err(late("a head took too long")));
            }
            Poll::Pending => return Poll::Pending,
            Poll::Ready(read) => read?,
        }
        if buf.filled().len() > before {
            self.is_new = false;
            self.look(buf, before);
            // A head that began amid these bytes has a time of its own: what ran was for another
            // one, or for the first byte.
            let is_next = self.framing.head_bytes() <= buf.filled().len() - before;
            if is_next || !self.framing.is_amid_head() {
                self.head = None;
            }
            self.place_head()?;
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Guard<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.some_in_time(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        ready!(self.in_time(cx, flushed))?;
        // The library flushes once all that it had has been written.
        self.answer = None;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let own = &mut *self;
        if own.linger.is_none() {
            let shut = Pin::new(&mut own.stream).poll_shutdown(cx);
            ready!(own.in_time(cx, shut))?;
            let is_done = own.framing.is_between() && !own.verdict.is_refused();
            if is_done && !own.has_more(cx) {
                return Poll::Ready(Ok(()));
            }
        }
        let (timer, bytes) = own.linger.get_or_insert_with(|| (Box::pin(sleep(LINGER_TIME)), 0));
        let mut space = [0; 4096];
        while *bytes < LINGER_BYTES_MAX {
            let mut buf = ReadBuf::new(&mut space);
            match Pin::new(&mut own.stream).poll_read(cx, &mut buf) {
                Poll::Pending => return timer.as_mut().poll(cx).map(Ok),
                Poll::Ready(Ok(())) if !buf.filled().is_empty() => *bytes += buf.filled().len(),
                Poll::Ready(_) => break,
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.some_in_time(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::{Guard, LINGER_TIME, Patience, SMALL_HEAD_BYTES_MAX};
    use crate::limits::{ANSWER_BYTES_A_SECOND_MIN, HEAD_BYTES_MAX};
    use crate::net::room::Room;
    use std::io::ErrorKind;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::time::Instant;

    const PATIENCE: Patience =
        Patience { head: Duration::from_secs(10), answer: Duration::from_secs(30) };

    fn pair() -> (DuplexStream, Guard<DuplexStream>) {
        let (client, server) = duplex(64);
        (client, Guard::new(server, PATIENCE, Room::new(1 << 20)))
    }

    /// Runs on a clock that stands still while anybody has something to do.
    fn run(work: impl Future<Output = ()>) {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().start_paused(true).build().expect("a runtime").block_on(work);
    }

    #[test]
    fn who_says_nothing_or_half_of_something_is_cut_off() {
        run(async {
            for words in ["", "GET /a", "GET /a HTTP/1.1\r\nHost: a\r\n"] {
                let (mut client, mut guard) = pair();
                client.write_all(words.as_bytes()).await.expect("room");
                let began = Instant::now();
                let mut read = Vec::new();
                let error = guard.read_to_end(&mut read).await.expect_err("too late");
                assert_eq!(
                    (error.kind(), read.as_slice()),
                    (ErrorKind::TimedOut, words.as_bytes())
                );
                assert_eq!(began.elapsed().as_secs(), 10, "{words:?}");
            }
        });
    }

    #[test]
    fn a_byte_now_and_then_gains_no_time() {
        run(async {
            let (mut client, mut guard) = pair();
            let began = Instant::now();
            let drip = async {
                for byte in "GET /a HTTP/1.1\r\n".bytes().cycle() {
                    tokio::time::sleep(Duration::from_secs(3)).await;
                    if client.write_all(&[byte]).await.is_err() {
                        break;
                    }
                }
            };
            let mut read = Vec::new();
            tokio::select! {
                () = drip => panic!("never ends"),
                read = guard.read_to_end(&mut read) => assert!(read.is_err()),
            }
            // Ten seconds from the first byte, which came after three.
            assert_eq!((began.elapsed().as_secs(), read.as_slice()), (13, b"GET ".as_slice()));
        });
    }

    #[test]
    fn long_heads_have_no_more_memory_than_there_is_room() {
        run(async {
            let heads = Room::new(4 * HEAD_BYTES_MAX);
            let long = format!("GET /a HTTP/1.1\r\nA: {}", "x".repeat(SMALL_HEAD_BYTES_MAX));
            let connect = || {
                let (client, server) = duplex(2 * SMALL_HEAD_BYTES_MAX);
                (client, Guard::new(server, PATIENCE, heads.clone()))
            };
            let (mut first, mut guarded) = connect();
            first.write_all(long.as_bytes()).await.expect("room");
            let mut space = vec![0; long.len()];
            guarded.read_exact(&mut space).await.expect("a place");
            // The end of the head does not make the library's buffer smaller.
            first.write_all(b"\r\n\r\n").await.expect("room");
            guarded.read_exact(&mut space[..4]).await.expect("the end");
            let (mut second, mut refused) = connect();
            second.write_all(long.as_bytes()).await.expect("room");
            let error = refused.read_exact(&mut space).await.expect_err("no place");
            assert_eq!(error.kind(), ErrorKind::OutOfMemory);
            drop(guarded);
            let (mut third, mut guarded) = connect();
            third.write_all(long.as_bytes()).await.expect("room");
            guarded.read_exact(&mut space).await.expect("a place");
        });
    }

    #[test]
    fn small_requests_without_a_pause_need_no_place() {
        run(async {
            let (mut client, server) = duplex(1 << 20);
            let mut guarded = Guard::new(server, PATIENCE, Room::new(0));
            let request = "GET /a HTTP/1.1\r\n\r\n";
            client.write_all(request.repeat(2_000).as_bytes()).await.expect("room");
            let (mut space, mut bytes) = (vec![0; 1 << 16], 0);
            while bytes < 2_000 * request.len() {
                let read = guarded.read(&mut space).await.expect("no place is needed");
                assert!(read > 0 && read <= 8 << 10, "{read} bytes at once");
                bytes += read;
            }
            assert!(!guarded.verdict().is_placed());
        });
    }

    #[test]
    fn heads_without_a_pause_have_a_time_each() {
        run(async {
            let (mut client, mut guard) = pair();
            let began = Instant::now();
            let asking = async {
                client.write_all(b"GET /a HT").await.expect("room");
                for _ in 0..30 {
                    tokio::time::sleep(Duration::from_secs(3)).await;
                    client.write_all(b"TP/1.1\r\n\r\nGET /a HT").await.expect("room");
                }
                // The last one is never ended.
                std::future::pending::<()>().await;
            };
            let mut read = Vec::new();
            tokio::select! {
                () = asking => panic!("never ends"),
                read = guard.read_to_end(&mut read) => assert!(read.is_err()),
            }
            assert_eq!(began.elapsed().as_secs(), 30 * 3 + 10);
        });
    }

    #[test]
    fn between_two_requests_and_in_a_body_nobody_hurries() {
        run(async {
            for words in
                ["GET /a HTTP/1.1\r\n\r\n", "GET /a HTTP/1.1\r\nContent-Length: 9\r\n\r\nx"]
            {
                let (mut client, mut guard) = pair();
                client.write_all(words.as_bytes()).await.expect("room");
                let mut space = [0; 64];
                let read = guard.read(&mut space).await.expect("read");
                assert_eq!(&space[..read], words.as_bytes());
                let waited = tokio::time::timeout(Duration::from_secs(100), guard.read(&mut space));
                assert!(waited.await.is_err(), "{words:?}");
            }
        });
    }

    #[test]
    fn an_answer_that_nobody_takes() {
        run(async {
            let (_client, mut guard) = pair();
            let began = Instant::now();
            let error = guard.write_all(&[0; 100]).await.expect_err("nobody reads");
            assert_eq!((error.kind(), began.elapsed().as_secs()), (ErrorKind::TimedOut, 30));
        });
    }

    #[test]
    fn a_byte_now_and_then_keeps_no_answer() {
        run(async {
            let (mut client, mut guard) = pair();
            let began = Instant::now();
            let drip = async {
                loop {
                    tokio::time::sleep(Duration::from_secs(29)).await;
                    client.read_u8().await.expect("a byte");
                }
            };
            tokio::select! {
                () = drip => {}
                written = guard.write_all(&[0; 4096]) => {
                    assert_eq!(written.expect_err("too slow").kind(), ErrorKind::TimedOut);
                }
            }
            assert_eq!(began.elapsed().as_secs(), 30);
        });
    }

    #[test]
    fn who_takes_an_answer_slowly_but_steadily_gets_all_of_it() {
        run(async {
            let (mut client, mut guard) = pair();
            let mut space = vec![0; usize::try_from(ANSWER_BYTES_A_SECOND_MIN).expect("some KiB")];
            let answer = vec![0; 100 * space.len()];
            for _ in 0..3 {
                // Each answer has a time of its own.
                let take = async {
                    tokio::time::sleep(Duration::from_secs(28)).await;
                    for _ in 0..100 {
                        tokio::time::sleep(Duration::from_secs(1)).await;
                        client.read_exact(&mut space).await.expect("some of it");
                    }
                };
                let write = async {
                    guard.write_all(&answer).await?;
                    guard.flush().await
                };
                let ((), written) = tokio::join!(take, write);
                written.expect("all of it");
            }
        });
    }

    #[test]
    fn a_refused_head_is_spoiled_and_a_refused_body_ends() {
        run(async {
            for (words, read) in [
                ("GET /a HTTP/1.1\n\r\nrest", "\0\r\n\r\n"),
                ("GET /a HTTP/1.1\r\nA: b\nrest", "GET /a HTTP/1.1\r\n\0\r\n\r\n"),
                ("X\r\nrest", "\0\r\n\r\n"),
            ] {
                let (mut client, mut guard) = pair();
                client.write_all(words.as_bytes()).await.expect("room");
                let mut got = Vec::new();
                let mut space = [0; 24];
                loop {
                    let count = guard.read(&mut space).await.expect("read");
                    got.extend_from_slice(&space[..count]);
                    if count == 0 {
                        break;
                    }
                }
                assert_eq!(
                    got.escape_ascii().to_string(),
                    read.as_bytes().escape_ascii().to_string()
                );
                assert!(guard.verdict().is_refused());
            }
            let (mut client, mut guard) = pair();
            let head = "PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
            client.write_all(head.as_bytes()).await.expect("room");
            client.write_all(b"z\r\nrest").await.expect("room");
            let mut got = Vec::new();
            guard.read_to_end(&mut got).await.expect("an end");
            assert_eq!(got, head.as_bytes());
            assert!(guard.verdict().is_refused());
        });
    }

    #[test]
    fn what_still_comes_is_thrown_away_for_a_while() {
        run(async {
            let (mut client, mut guard) = pair();
            client.write_all(b"nonsense\r\n").await.expect("room");
            assert_eq!(guard.read(&mut [0; 24]).await.expect("read"), 5);
            let began = Instant::now();
            let (sent, shut) = tokio::join!(client.write_all(&[0; 1000]), guard.shutdown());
            sent.expect("taken");
            shut.expect("shut");
            assert_eq!(began.elapsed(), LINGER_TIME);
            // Who is done is let go at once.
            let (mut client, mut guard) = pair();
            client.write_all(b"GET /a HTTP/1.1\r\n\r\n").await.expect("room");
            assert_eq!(guard.read(&mut [0; 24]).await.expect("read"), 19);
            let began = Instant::now();
            guard.shutdown().await.expect("shut");
            assert_eq!(began.elapsed(), Duration::ZERO);
            // Requests that lie unread would have the answer before them reset.
            let (mut client, mut guard) = pair();
            client.write_all(b"GET /a HTTP/1.1\r\n\r\n").await.expect("room");
            assert_eq!(guard.read(&mut [0; 24]).await.expect("read"), 19);
            client.write_all(b"GET /b HTTP/1.1\r\n\r\n").await.expect("room");
            let began = Instant::now();
            let (sent, shut) = tokio::join!(client.write_all(&[0; 1000]), guard.shutdown());
            sent.expect("taken");
            shut.expect("shut");
            assert_eq!(began.elapsed(), LINGER_TIME);
        });
    }
}
