//! The first byte of a connection. It tells a TLS hello from everything else, so that whoever
//! knocks at the wrong one of two ports is turned away at once, and the log says why.

use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// The first byte of every TLS hello: a record of the handshake.
const HELLO: u8 = 0x16;

/// What a port expects to hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speech {
    Plain,
    Tls,
}

/// Whether a mistake was told: the first of each kind is a warning, later ones are details, so that
/// nobody fills the log from outside.
#[derive(Debug, Default)]
pub(crate) struct Told {
    tls_on_plain: AtomicBool,
    plain_on_tls: AtomicBool,
}

impl Told {
    fn tell(&self, expected: Speech, peer: Option<IpAddr>) {
        let peer = peer.map(|peer| peer.to_string()).unwrap_or_default();
        let (told, text) = match expected {
            Speech::Plain => (&self.tls_on_plain, "a TLS hello on the port for plain HTTP"),
            Speech::Tls => (&self.plain_on_tls, "no TLS hello on the port for TLS; plain HTTP?"),
        };
        if told.swap(true, Ordering::Relaxed) {
            tracing::debug!(%peer, "closed: {text}");
        } else {
            tracing::warn!(%peer, "closed: {text}");
        }
    }
}

/// A socket that fails on its first byte where that is not what the port expects.
pub(crate) struct First {
    stream: TcpStream,
    peer: Option<IpAddr>,
    expected: Option<Speech>,
    told: Arc<Told>,
}

impl First {
    pub(crate) fn new(stream: TcpStream, expected: Speech, told: Arc<Told>) -> First {
        let peer = stream.peer_addr().ok().map(|peer| peer.ip());
        First { stream, peer, expected: Some(expected), told }
    }

    /// The other end.
    pub(crate) fn peer(&self) -> Option<IpAddr> {
        self.peer
    }

    fn check(&mut self, first: u8) -> io::Result<()> {
        let Some(expected) = self.expected.take() else { return Ok(()) };
        if (first == HELLO) == (expected == Speech::Tls) {
            return Ok(());
        }
        self.told.tell(expected, self.peer);
        Err(io::Error::new(io::ErrorKind::InvalidData, "the wrong port"))
    }
}

impl AsyncRead for First {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        if let Some(first) = buf.filled().get(before) {
            self.check(*first)?;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for First {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
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
