//! When all that was written to a connection has left: a body that is to break off at a byte must
//! not do so earlier.

use parking_lot::Mutex;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What a stream and the body of its last answer share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flushes(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Whether a body waits; all others pay one load for it.
    waited_for: AtomicBool,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    flushed: bool,
    waker: Option<Waker>,
}

impl Flushes {
    /// Ready once the stream was flushed after the first call.
    pub(crate) fn poll_flushed(&self, cx: &Context<'_>) -> Poll<()> {
        let mut waiting = self.0.waiting.lock();
        if waiting.flushed {
            return Poll::Ready(());
        }
        waiting.waker = Some(cx.waker().clone());
        self.0.waited_for.store(true, Ordering::Release);
        Poll::Pending
    }

    fn flushed(&self) {
        if self.0.waited_for.load(Ordering::Acquire) {
            let mut waiting = self.0.waiting.lock();
            waiting.flushed = true;
            if let Some(waker) = waiting.waker.take() {
                waker.wake();
            }
        }
    }
}

/// A stream that tells of its flushes.
pub(crate) struct Watched<T> {
    stream: T,
    flushes: Flushes,
}

impl<T> Watched<T> {
    pub(crate) fn new(stream: T, flushes: Flushes) -> Watched<T> {
        Watched { stream, flushes }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Watched<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Watched<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.flushes.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
