//! Simulated connections: bytes take their time, come in pieces cut anywhere, stall, and break.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tabulith_testkit::seed::Rng;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// Bytes that may be on their way in one direction.
const ON_THE_WAY_MAX: usize = 8 << 10;

/// What goes wrong with a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fate {
    /// After so many bytes of either direction both ends find it broken.
    pub(crate) breaks_at: Option<usize>,
    /// After so many bytes nothing comes for a while.
    pub(crate) stalls: Option<(usize, Duration)>,
}

impl Fate {
    pub(crate) fn choose(rng: &mut Rng, percent: usize) -> Fate {
        let mut fate = Fate::default();
        if rng.chance(percent) {
            let at = rng.below(4_000);
            match rng.chance(60) {
                true => fate.breaks_at = Some(at),
                false => {
                    let time = Duration::from_millis(rng.between(100, 40_000) as u64);
                    fate.stalls = Some((at, time));
                }
            }
        }
        fate
    }

    pub(crate) fn is_none(self) -> bool {
        self == Fate::default()
    }
}

/// One direction.
#[derive(Debug)]
struct Pipe {
    rng: Rng,
    fate: Fate,
    chunks: VecDeque<(Instant, VecDeque<u8>)>,
    bytes: usize,
    passed: usize,
    /// When what was written last arrives.
    last: Instant,
    ended: bool,
    broken: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Pipe {
    fn new(rng: Rng, fate: Fate) -> Arc<Mutex<Pipe>> {
        Arc::new(Mutex::new(Pipe {
            rng,
            fate,
            chunks: VecDeque::new(),
            bytes: 0,
            passed: 0,
            last: Instant::now(),
            ended: false,
            broken: false,
            reader: None,
            writer: None,
        }))
    }

    fn break_off(&mut self) {
        self.broken = true;
        self.chunks.clear();
        self.wake();
    }

    fn wake(&mut self) {
        self.reader.take().into_iter().chain(self.writer.take()).for_each(Waker::wake);
    }

    /// Takes some of `bytes`; where that is what breaks it, says so.
    fn write(&mut self, bytes: &[u8]) -> (usize, bool) {
        let room = ON_THE_WAY_MAX - self.bytes;
        let most = bytes.len().min(room);
        let count = if self.rng.chance(25) { self.rng.between(1, most) } else { most };
        let mut delay = Duration::from_micros(match self.rng.below(20) {
            0 => self.rng.below(60_000) as u64,
            1..10 => self.rng.below(3_000) as u64,
            _ => 0,
        });
        let after = self.passed + count;
        if let Some((at, time)) = self.fate.stalls
            && (self.passed..after).contains(&at)
        {
            delay += time;
        }
        let breaks = self.fate.breaks_at.is_some_and(|at| (self.passed..after).contains(&at));
        self.passed = after;
        self.last = self.last.max(Instant::now()) + delay;
        self.chunks.push_back((self.last, bytes[..count].iter().copied().collect()));
        self.bytes += count;
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
        (count, breaks)
    }

    /// Gives some of what has arrived by now.
    fn read(&mut self, buf: &mut ReadBuf<'_>) {
        let now = Instant::now();
        while buf.remaining() > 0
            && let Some((at, chunk)) = self.chunks.front_mut()
            && *at <= now
        {
            let most = chunk.len().min(buf.remaining());
            let count = if self.rng.chance(15) { self.rng.between(1, most) } else { most };
            buf.put_slice(&chunk.drain(..count).collect::<Vec<_>>());
            self.bytes -= count;
            if !chunk.is_empty() {
                break;
            }
            self.chunks.pop_front();
        }
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
    }
}

/// One end of a connection.
pub(crate) struct Stream {
    from: Arc<Mutex<Pipe>>,
    to: Arc<Mutex<Pipe>>,
    timer: Option<Pin<Box<Sleep>>>,
}

/// The wire between two ends, for whoever cuts it.
#[derive(Clone)]
pub(crate) struct Wire([Arc<Mutex<Pipe>>; 2]);

impl Wire {
    /// Both ends find the connection broken.
    pub(crate) fn cut(&self) {
        self.0.iter().for_each(|pipe| pipe.lock().break_off());
    }
}

/// The two ends of a new connection.
pub(crate) fn pair(rng: &mut Rng, fate: Fate) -> (Stream, Stream, Wire) {
    let there = Pipe::new(Rng::new(rng.next_u64()), fate);
    let back = Pipe::new(Rng::new(rng.next_u64()), fate);
    let end = |from: &Arc<Mutex<Pipe>>, to: &Arc<Mutex<Pipe>>| Stream {
        from: from.clone(),
        to: to.clone(),
        timer: None,
    };
    (end(&back, &there), end(&there, &back), Wire([there, back]))
}

fn reset() -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let own = &mut *self;
        let mut pipe = own.from.lock();
        if pipe.broken {
            return Poll::Ready(Err(reset()));
        }
        let before = buf.filled().len();
        pipe.read(buf);
        if buf.filled().len() > before {
            own.timer = None;
            return Poll::Ready(Ok(()));
        }
        pipe.reader = Some(cx.waker().clone());
        let Some((at, _)) = pipe.chunks.front() else {
            return if pipe.ended { Poll::Ready(Ok(())) } else { Poll::Pending };
        };
        let at = *at;
        drop(pipe);
        let timer = own.timer.insert(Box::pin(sleep_until(at)));
        if timer.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref(); // Its time has come: look again.
        }
        Poll::Pending
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut pipe = self.to.lock();
        if pipe.broken || pipe.ended {
            return Poll::Ready(Err(reset()));
        }
        if pipe.bytes == ON_THE_WAY_MAX {
            pipe.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let (count, breaks) = pipe.write(bytes);
        if breaks {
            pipe.break_off();
            drop(pipe);
            self.from.lock().break_off();
        }
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut pipe = self.to.lock();
        pipe.ended = true;
        pipe.wake();
        Poll::Ready(Ok(()))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut pipe = self.to.lock();
        pipe.ended = true;
        pipe.wake();
        drop(pipe);
        // Nobody will read what still comes.
        let mut pipe = self.from.lock();
        pipe.break_off();
    }
}
